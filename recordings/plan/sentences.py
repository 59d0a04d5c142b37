"""The paraphrase bank: how people ask. Our own sentences; `{d}` is the device as the grounding names it.

Every sentence keeps the device in one piece, so that "that", a sound, a side or "my" can stand for it.
"""

from __future__ import annotations

# What to do, to be used inside WRAPPERS and with a time.
IMPERATIVES: dict[str, tuple[str, ...]] = {
    "on": ("turn {d} on", "switch {d} on", "turn on {d}", "switch on {d}"),
    "off": ("turn {d} off", "switch {d} off", "turn off {d}", "switch off {d}"),
    "dim": ("set {d} to a brightness of {p}", "put the brightness of {d} at {p}", "dim {d} to {p}"),
    "speed": ("run {d} at {p}", "set the speed of {d} to {p}", "let {d} run at {p}"),
    "cool": ("set {d} to {t}", "put {d} on {t}", "have {d} cool down to {t}"),
    "volume": ("set the volume of {d} to {p}", "put the volume of {d} at {p}", "play {d} at {p} volume"),
    "pause": ("pause {d}", "put {d} on pause"),
    "resume": ("let {d} carry on", "have {d} resume", "take {d} off pause"),
    "stop": ("stop {d}", "bring {d} to a stop", "end the programme of {d}"),
    "chill": ("set {d} to {t}", "put {d} on {t}", "keep {d} at {t}"),
    "close": ("close {d}", "shut {d}", "close {d} completely"),
    "open": ("open {d}", "open {d} completely", "open up {d}"),
    "halfway": ("close {d} halfway", "put {d} in the half-closed position", "leave {d} half closed"),
}

WRAPPERS: tuple[str, ...] = (
    "{do}.",
    "Please {do}.",
    "{do}, please.",
    "Could you {do}?",
    "Can you {do} for me?",
    "Would you {do}, please?",
    "I would like you to {do}.",
    "Be so kind and {do}.",
    "I want you to {do} now.",
    "Do me a favour and {do}.",
)

QUESTIONS: dict[str, tuple[str, ...]] = {
    "is_on": (
        "Is {d} on?",
        "Is {d} switched on?",
        "Tell me whether {d} is on or off.",
        "Do you know if {d} is on?",
        "Can you check if {d} is switched on?",
        "I would like to know whether {d} is on.",
    ),
    "how_bright": (
        "How bright is {d} set, in percent?",
        "What brightness is {d} set to?",
        "Tell me the brightness of {d}.",
        "At what percentage is the brightness of {d}?",
    ),
    "how_fast": (
        "How fast is {d} running, in percent?",
        "What speed is {d} set to?",
        "Tell me the speed of {d}, please.",
        "At what percentage is {d} running?",
    ),
    "how_cool": (
        "What temperature is {d} set to?",
        "How many degrees is {d} set to?",
        "Tell me the temperature that {d} is set to.",
        "Which temperature did somebody choose for {d}?",
    ),
    "how_loud": (
        "How loud is {d} set, in percent?",
        "What is the volume of {d}?",
        "Tell me the volume of {d}, please.",
        "At what percentage is the volume of {d}?",
    ),
    "is_playing": (
        "Is {d} playing or paused?",
        "Tell me whether {d} is playing or on pause.",
        "Has somebody paused {d}, or is it playing?",
    ),
    "is_running": (
        "Is {d} still working, or is it paused?",
        "Tell me whether {d} is running or paused.",
        "Has somebody paused {d}, or is it running?",
    ),
    "how_closed": (
        "How far is {d} closed, in percent?",
        "Is {d} open, closed or in between?",
        "Tell me how far {d} is closed.",
        "What is the position of {d}?",
    ),
}

# Schedules (Q3): when, and what.
SCHEDULES: tuple[str, ...] = (
    "{do} {when}.",
    "{when}, {do}.",
    "Please {do} {when}.",
    "{when}, please {do}.",
    "Could you {do} {when}?",
    "I would like you to {do} {when}.",
    "Remember to {do} {when}.",
    "{do} {when}, please.",
)
AFTER: tuple[tuple[str, int], ...] = (
    ("as soon as {a} is done", 0),
    ("when {a} has finished", 0),
    ("once {a} is done", 0),
    ("five minutes after {a} is done", 5),
    ("ten minutes after {a} has finished", 10),
)
IN_A_WHILE: tuple[str, ...] = ("in {m}", "{m} from now")
AT: tuple[str, ...] = ("at {c}",)
TWO_STEPS: tuple[str, ...] = (
    "{do} {when} and {then} {later}.",
    "Please {do} {when} and {then} {later}.",
    "{when}, {do}, and {then} {later}.",
    "Could you {do} {when} and {then} {later}?",
)
THEN: dict[str, tuple[str, ...]] = {
    "off": ("turn it off again", "switch it off again"),
    "on": ("turn it on again", "switch it back on"),
    "close": ("close it again", "shut it again"),
    "open": ("open it again", "open it up again"),
}
LATER: tuple[str, ...] = ("{m} later", "{m} after that")

# Times that cannot be kept.
MISMATCH: tuple[str, ...] = ("in {m}, that is at {c}", "in {m}, so at {c} sharp", "at {c}, which is in {m}")
CONFLICT: tuple[str, ...] = (
    "{do} at {c}, and make sure that it is still {opposite} at that very minute.",
    "{do} at {c}, but keep it {opposite} until {later}.",
    "At {c}, {do}, but leave it {opposite} until {later}.",
)
OPPOSITE: dict[str, str] = {"on": "off", "off": "on", "close": "open", "open": "closed"}

# Implicit intents (Q4): `{r}` is "in the kitchen" or "in my room"; `{d}` only where a device is spoken of.
INTENTS: dict[str, tuple[str, ...]] = {
    "cooler": (
        "It is far too warm {r}.",
        "I am melting {r}.",
        "Nobody can think in this heat {r}.",
        "The heat {r} is unbearable today.",
        "I cannot fall asleep {r}, it is so hot.",
    ),
    "warmer": (
        "It is freezing {r}.",
        "My hands are getting numb {r}, it is so cold.",
        "I am shivering {r}.",
        "It is much too cold {r} for me.",
        "Brr, I need a blanket {r}.",
    ),
    "moister": (
        "The air {r} is so dry that my throat hurts.",
        "My lips are cracking {r}, the air is terribly dry.",
        "The plants {r} are wilting in this dry air.",
        "It is as dry as a desert {r}.",
    ),
    "drier": (
        "It is terribly damp {r}.",
        "The walls {r} are sweating, it is so humid.",
        "The air {r} feels like a steam bath.",
        "My clothes never dry {r}, it is so humid.",
    ),
    "cleaner": (
        "It is so dusty {r} that I keep sneezing.",
        "The air {r} smells of smoke.",
        "I can hardly breathe {r} with all this dust.",
        "My eyes are itching {r}, there is so much pollen in the air.",
    ),
    "brighter": (
        "I can hardly see my book {r}.",
        "It is as dark as a cave {r}.",
        "I keep bumping into things {r}, it is so dark.",
        "I cannot find my keys {r} in this gloom.",
    ),
    "darker": (
        "The glare {r} hurts my eyes.",
        "It is so bright {r} that I cannot sleep.",
        "I have a headache, and there is too much light {r}.",
        "With all this light {r} my eyes get no rest.",
    ),
    "private": (
        "The neighbours can look at me {r}.",
        "I am going to get changed {r} and people outside can see me.",
        "Everybody in the street can watch me {r} through the window.",
    ),
    "outlook": (
        "I would love to look out of the window {r}.",
        "I want to see the garden through the window {r}.",
        "It is a pity that nobody can see the sky through the window {r}.",
    ),
}

# How a device is spoken of, by grounding. `{n}` is a word for its kind, `{name}` its own name.
POINTED: tuple[str, ...] = ("that", "that one", "that one over there", "that thing over there")
POINTED_KIND: tuple[str, ...] = ("that {n}", "that {n} over there", "that {n} there")
HEARD: tuple[str, ...] = (
    "that {s} device",  # not with a sound of two words
    "whatever is {s}",
    "the thing that is {s}",
    "the device that is {s}",
    "that thing that keeps {s}",
)
SIDE_WORDS: dict[str, tuple[str, ...]] = {
    "left": ("on my left", "to my left", "on my left side", "on my left-hand side"),
    "right": ("on my right", "to my right", "on my right side", "on my right-hand side"),
    "front": ("in front of me", "straight ahead of me", "right in front of me"),
    "behind": ("behind me", "behind my back", "right behind me"),
}
OWN: tuple[str, ...] = ("my {n}", "my own {n}")
OWN_ROOM: tuple[str, ...] = ("the {n} in my room", "my room's {n}")

# Words for a sound, and the types of device that may be meant by it: those that could sound so.
SOUNDS: dict[str, tuple[str, ...]] = {
    "humming": ("fan", "air_conditioner", "air_purifier", "humidifier"),
    "droning": ("fan", "air_conditioner", "air_purifier", "humidifier"),
    "whirring": ("fan", "air_conditioner", "air_purifier", "humidifier"),
    "playing music": ("tv", "audio_player"),
    "making music": ("tv", "audio_player"),
    "beeping": ("microwave", "laundry_washer"),
    "rumbling": ("laundry_washer", "fan"),
    "spinning": ("laundry_washer", "fan"),
}
# Of those, the ones that we let sound for it.
SOUND_OF: dict[str, tuple[str, ...]] = {
    "fan": ("humming", "droning", "whirring"),
    "air_conditioner": ("humming", "droning", "whirring"),
    "air_purifier": ("humming", "droning", "whirring"),
    "humidifier": ("humming", "droning", "whirring"),
    "tv": ("playing music", "making music"),
    "audio_player": ("playing music", "making music"),
    "microwave": ("beeping",),
    "laundry_washer": ("rumbling", "spinning"),
}
# Names of devices that no home of ours has, by type: for requests about what does not exist.
ELSEWHERE: dict[str, tuple[str, ...]] = {
    "on_off_light": ("attic lamp", "porch light", "cellar light"),
    "dimmable_light": ("attic lamp", "porch light", "cellar light"),
    "fan": ("attic fan", "cellar fan"),
    "tv": ("attic television", "garden television"),
    "audio_player": ("attic radio", "garden speaker"),
    "window_covering": ("attic blind", "skylight blind"),
    "refrigerator": ("cellar fridge", "garage fridge"),
    "air_purifier": ("attic air purifier",),
    "humidifier": ("attic humidifier",),
    "air_conditioner": ("attic air conditioner",),
    "microwave": ("cellar microwave",),
    "laundry_washer": ("cellar washing machine",),
}


def sentence(text: str) -> str:
    """With a capital letter at its start."""
    return text[:1].upper() + text[1:]
