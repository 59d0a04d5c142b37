"""Words for devices, for sounds, for rooms and for sides: what each can mean, in any home."""

from __future__ import annotations

LIGHTS = ("on_off_light", "dimmable_light")
AIR = ("fan", "air_conditioner", "air_purifier", "humidifier", "dehumidifier")
MEDIA = ("tv", "audio_player")
APPLIANCES = ("microwave", "laundry_washer", "laundry_dryer", "dishwasher", "oven", "rvc")
COLD = ("refrigerator", "freezer")

# Noun -> the types that it can mean.
NOUNS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("light", "lights", "lamp", "lamps", "bulb", "lantern", "spotlight", "chandelier"),
    LIGHTS),
    **dict.fromkeys(("fan", "fans", "ventilator"), ("fan",)),
    **dict.fromkeys(
        ("air conditioner", "air conditioning", "air con", "aircon", "ac", "climate control", "cooling unit"),
        ("air_conditioner",),
    ),
    **dict.fromkeys(("humidifier", "air humidifier"), ("humidifier",)),
    **dict.fromkeys(("dehumidifier", "air dryer", "air drier"), ("dehumidifier",)),
    **dict.fromkeys(("air purifier", "purifier", "air cleaner", "air filter"), ("air_purifier",)),
    **dict.fromkeys(("tv", "television", "telly", "tv set", "television set", "tvs"), ("tv",)),
    **dict.fromkeys(
        ("music player", "audio player", "speaker", "speakers", "stereo", "radio", "hifi", "hi fi",
        "record player",
         "sound system"),
        ("audio_player",),
    ),
    **dict.fromkeys(("microwave", "microwave oven"), ("microwave",)),
    **dict.fromkeys(("washing machine", "washer", "laundry machine", "laundry"), ("laundry_washer",)),
    **dict.fromkeys(("dryer", "drier", "tumble dryer", "tumble drier", "clothes dryer"), ("laundry_dryer",)),
    **dict.fromkeys(("dishwasher", "dish washer"), ("dishwasher",)),
    **dict.fromkeys(("fridge", "refrigerator", "icebox"), ("refrigerator",)),
    **dict.fromkeys(("freezer", "deep freezer"), ("freezer",)),
    **dict.fromkeys(
        ("blind", "blinds", "curtain", "curtains", "shutter", "shutters", "shade", "shades", "roller blind",
         "window covering"),
        ("window_covering",),
    ),
    **dict.fromkeys(("heater", "radiator", "heating", "heat pump"), ("heat_pump",)),
    **dict.fromkeys(
        ("vacuum", "vacuum cleaner", "robot vacuum", "robot vacuum cleaner", "hoover", "cleaning robot"),
        ("rvc",)
    ),
    **dict.fromkeys(("oven", "stove", "cooker"), ("oven",)),
    **dict.fromkeys(("lock", "door lock", "door"), ("door_lock", "lock", "smart_lock")),
    **dict.fromkeys(("fire alarm", "smoke alarm", "smoke detector"), ("fire_alarm",)),
}  # fmt: skip

# Sound word -> kind of sound (edge.perception.sounds.KINDS, "any").
SOUNDS: dict[str, str] = {
    **dict.fromkeys(
        ("humming", "hum", "hums", "buzzing", "buzz", "buzzes", "droning", "drone", "drones", "whirring",
        "whirr",
         "whir", "whirrs", "whirs", "purring", "murmuring"),
        "hum",
    ),
    **dict.fromkeys(
        ("beeping", "beep", "beeps", "bleeping", "bleep", "bleeps", "ringing", "rings", "pinging", "pings",
         "chirping", "chirps", "alarm"),
        "beep",
    ),
    **dict.fromkeys(
        ("playing music", "making music", "music", "song", "songs", "tune", "tunes", "melody", "plays music",
         "makes music", "playing a song", "playing songs", "playing that music", "playing this music",
         "singing"),
        "music",
    ),
    **dict.fromkeys(
        ("spinning", "spins", "rattling", "rattles", "rumbling", "rumble", "rumbles", "shaking", "clattering",
         "vibrating", "churning", "thumping", "banging"),
        "spin",
    ),
    **dict.fromkeys(("blowing", "blows", "hissing", "hisses", "whooshing", "puffing", "steaming"), "blow"),
    **dict.fromkeys(("talking", "talks", "voices", "chatter", "speaking", "chattering"), "voice"),
    **dict.fromkeys(
        ("noise", "sound", "racket", "din", "noisy", "making noise", "making that noise", "making a noise",
         "making this noise", "making all that noise", "making a sound", "making that sound", "making sounds",
         "making such a noise", "so loud", "loud", "making a racket", "making that racket", "heard"),
        "any",
    ),
}  # fmt: skip
# A complaint that is about nothing but these words is about a sound, not about a device.
SOUND_ITSELF = ("noise", "sound", "racket", "din", "music", "song", "tune", "melody", "chatter", "alarm")

# Rooms that homes have; those that this home does not have make a request about nothing.
ROOM_WORDS = (
    "living room", "kitchen", "bedroom", "study", "guest room", "bathroom", "dining room", "hallway", "hall",
    "corridor", "office", "home office", "nursery", "kids room", "childrens room", "attic", "cellar",
    "basement", "garage", "garden", "balcony", "terrace", "porch", "laundry room", "utility room", "pantry",
    "gym", "library", "playroom", "entrance", "stairs", "staircase", "toilet", "shed", "yard", "lounge",
    "sitting room", "master bedroom", "skylight", "conservatory", "loft", "patio", "workshop", "den",
)  # fmt: skip
ROOM_SYNONYMS = {
    "lounge": "living room", "sitting room": "living room", "office": "study", "home office": "study",
    "front room": "living room", "spare room": "guest room", "work room": "study", "sleeping room": "bedroom",
    "guestroom": "guest room", "livingroom": "living room", "guests room": "guest room",
    "bed room": "bedroom",
    "guest bedroom": "guest room", "corridor": "hallway", "hall": "hallway", "loft": "attic",
    "basement": "cellar",
}  # fmt: skip

SIDES: dict[str, str] = {
    "left": r"(?:on|to|at|from) (?:my|the|our) left(?: hand)?(?: side)?(?: of me)?|left of me",
    "right": r"(?:on|to|at|from) (?:my|the|our) right(?: hand)?(?: side)?(?: of me)?|right of me",
    "front": r"(?:(?:right|straight|directly|just|here) )?(?:(?:in|at the) front of (?:me|us)"
    r"|ahead of (?:me|us)"
    r"|opposite me|before me|straight ahead|up ahead|facing me|in my front|at my front|in front)",
    "behind": r"(?:(?:right|straight|directly|just|here) )?(?:behind (?:me|my back|us)|(?:at|in|on) my back"
    r"|to my rear|at my rear|in back of me)",
}
