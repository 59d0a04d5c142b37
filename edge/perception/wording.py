"""How people ask: the words for devices, sounds, sides and actions, and the sentences that they make.

One set of tables serves both directions: `edge.perception.request` reads a sentence with them, and
`sentences` writes every plain sentence they allow, for a recogniser that wants to know what to expect.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

# Device noun -> the types that it can mean. Types that a home does not have lead to a refusal, not a guess.
DEVICE_NOUNS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("light", "lights", "lamp", "lamps"), ("on_off_light", "dimmable_light")),
    "fan": ("fan",),
    **dict.fromkeys(("air conditioner", "air conditioning", "aircon", "ac"), ("air_conditioner",)),
    "humidifier": ("humidifier",),
    **dict.fromkeys(("air purifier", "purifier"), ("air_purifier",)),
    **dict.fromkeys(("tv", "television", "telly"), ("tv",)),
    **dict.fromkeys(("music player", "audio player", "speaker", "stereo", "radio"), ("audio_player",)),
    **dict.fromkeys(("microwave", "microwave oven"), ("microwave",)),
    **dict.fromkeys(("washing machine", "washer", "laundry machine"), ("laundry_washer",)),
    **dict.fromkeys(("fridge", "refrigerator"), ("refrigerator",)),
    **dict.fromkeys(("blinds", "blind", "curtains", "curtain", "shutters"), ("window_covering",)),
    "dishwasher": ("dishwasher",),
    **dict.fromkeys(("dryer", "tumble dryer"), ("laundry_dryer",)),
    **dict.fromkeys(("heater", "radiator"), ("heat_pump",)),
    "dehumidifier": ("dehumidifier",),
    **dict.fromkeys(("vacuum", "vacuum cleaner", "robot vacuum"), ("rvc",)),
    "oven": ("oven",),
    "freezer": ("freezer",),
}

# Sound word -> the kind of sound. "noise" is any kind.
SOUND_WORDS: dict[str, str] = {
    **dict.fromkeys(("humming", "hum", "buzzing", "buzz", "droning", "drone", "whirring"), "hum"),
    **dict.fromkeys(("beeping", "beep", "beeps", "bleeping", "ringing", "pinging", "alarm"), "beep"),
    **dict.fromkeys(("music", "song", "tune", "melody"), "music"),
    **dict.fromkeys(("spinning", "rattling", "rumbling", "shaking", "clattering", "vibrating"), "spin"),
    **dict.fromkeys(("blowing", "hissing", "whooshing"), "blow"),
    **dict.fromkeys(("talking", "voices", "chatter"), "voice"),
    **dict.fromkeys(("noise", "sound", "racket"), "any"),
}

SIDES = ("right", "left")

# Verb -> action; "turn ... off" is the split form of "turn off".
PLAIN_VERBS: dict[str, str] = {
    **dict.fromkeys(("turn off", "switch off", "shut off", "power off", "shut down", "kill"), "off"),
    **dict.fromkeys(("silence", "stop", "mute", "quiet", "hush", "end"), "silence"),
    **dict.fromkeys(("turn on", "switch on", "power on", "put on", "start"), "on"),
    "pause": "pause",
}
SPLIT_VERBS: dict[tuple[str, str], str] = {
    **{(verb, "off"): "off" for verb in ("turn", "switch", "shut", "power")},
    **{(verb, "on"): "on" for verb in ("turn", "switch", "power", "put")},
    **{("make", end): "silence" for end in ("stop", "quiet", "go away")},
}

POLITE_STARTS = (
    "please", "hey", "hi", "hello", "hearth", "ok", "okay", "now", "right now", "just",
    "can you", "could you", "would you", "will you", "i want you to", "i would like you to", "id like you to",
    "i need you to", "go ahead and",
)  # fmt: skip
POLITE_ENDS = (
    "please",
    "now",
    "thanks",
    "thank you",
    "for me",
    "will you",
    "would you",
    "right now",
    "at once",
)


def sound_phrases() -> Iterator[str]:
    """ "humming", "humming noise", "music", ..."""
    for word, kind in SOUND_WORDS.items():
        yield word
        if word.endswith("ing") and kind != "voice":
            yield f"{word} noise"
            yield f"{word} sound"


def sentences(device_names: Iterable[str] = ()) -> list[str]:
    """Every plain sentence in lower case without punctuation: sounds, and devices with and without a side.

    device_names: names of this home's devices ("reading lamp"), used beside the general nouns.
    """
    nouns = list(dict.fromkeys([*DEVICE_NOUNS, *(name.lower() for name in device_names)]))
    places = ["", *(f" {at} my {side}" for at in ("on", "to") for side in SIDES)]
    found: dict[str, None] = {}
    for verb, action in PLAIN_VERBS.items():
        if action != "on":
            for sound in sound_phrases():
                found[f"{verb} that {sound}"] = None
        if action in ("on", "off") and verb not in ("kill", "shut down"):
            for noun in nouns:
                found.update(dict.fromkeys(f"{verb} the {noun}{place}" for place in places))
    for (verb, end), action in SPLIT_VERBS.items():
        if action != "on" and verb in ("turn", "make") and end != "go away":
            found.update(dict.fromkeys(f"{verb} that {sound} {end}" for sound in sound_phrases()))
        if action != "silence" and verb == "turn":
            found.update(dict.fromkeys(f"{verb} the {noun} {end}" for noun in nouns))
    return list(found)
