"""How requests are said, as patterns for `WordGraph`: what a recogniser compares with what it heard.

Wide on purpose: every verb goes with every end, so that a sentence is rarely missing, and nonsense loses when
the sound is compared. `edge.language.understand` reads far more than this; a sentence from here is only taken
when it explains the sound about as well as the free words do.
"""

from __future__ import annotations

from collections.abc import Iterable

from edge.language.home_words import HomeWords
from edge.language.nouns import NOUNS, ROOM_WORDS

Rules = dict[str, tuple[str, ...]]

_VERBS = (
    "turn", "switch", "turn on", "turn off", "switch on", "switch off", "put", "set", "dim", "run", "let",
    "have",
    "keep", "leave", "play", "pause", "stop", "take", "bring", "end the (programme"
     "|program) of", "close", "shut",
    "open", "open up", "(set|put) the (speed|volume|brightness"
     "|temperature) of", "start", "make{0.3}", "silence",
    "mute", "resume", "lock{0.5}", "unlock{0.5}", "turn down{0.3}", "turn up{0.3}", "shut off{0.3}",
    "lower{0.3}",
    "raise{0.3}", "change{0.5}", "activate{0.5}",
)  # fmt: skip
_ENDS = (
    "on", "off", "(to|at|on|to a brightness of|run at|cool down to) <number> (percent [volume]|degrees"
     "|degree{0.3})",
    "on pause", "off pause", "carry on", "resume", "to a stop", "completely", "halfway",
    "in the half closed position", "half closed", "half open", "stop{0.3}", "down{1.5}", "up{1.5}",
    "quiet{0.3}",
)  # fmt: skip
_POLITE = (
    "please", "could you", "can you", "would you", "i would like you to", "i want you to", "be so kind and",
    "do me a favour and", "remember to", "will you{0.3}", "could you please{0.3}", "can you please{0.3}",
    "hey{0.5}", "i need you to{0.5}",
)  # fmt: skip
_THANKS = ("please", "for me", "now", "thank you{0.3}", "right now{0.3}", "for me please{0.3}")
_ASKING = (
    "is", "are{0.3}", "tell me (whether|if)", "do you know (if|whether)", "can you check (if"
     "|whether)", "could you check (if|whether)",
    "i would like to know (whether|if)", "how (bright|fast|loud|far|warm|cold) is",
    "what is the (volume|speed|position|brightness|temperature) of",
    "tell me the (volume|speed|position|brightness|temperature) of", "tell me how (far|bright|fast|loud)",
    "at what percentage is [the (brightness|volume|speed) of]", "what (speed|brightness|temperature"
     "|volume) is",
    "how many degrees is", "which temperature did somebody choose for", "has somebody paused",
    "tell me the temperature that", "has somebody (stopped|closed|opened){0.5}",
)  # fmt: skip
_ASKED = (
    "[switched] on", "[switched] off{0.3}", "[is] on or off", "set [in percent]", "set to",
    "running [in percent]",
    "is [switched] on", "is closed", "is set to", "is open{0.3}", "[is] playing or (paused"
     "|on pause)", "or is it (playing|running)",
    "still working or is it paused", "[is] running or paused", "closed [in percent]",
    "open closed or in between",
    "still running", "playing", "running", "closed", "open", "done{0.3}", "please{0.2}",
)  # fmt: skip
_ONES = "one two three four five six seven eight nine".split()  # noqa: SIM905 - a list of words reads best
_TEENS = "ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen".split()  # noqa: SIM905
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety".split()  # noqa: SIM905
_SIDES = (
    "(on|to) my (left|right) [side|hand side]", "[right|just] behind (me|my back)",
    "[right|straight|just] in front of me", "straight ahead [of me]", "ahead of me{0.3}",
)  # fmt: skip


def rules(home: HomeWords) -> Rules:
    """The rules of all requests in this home's words."""
    has = {device.type for device in home.devices}
    nouns = [noun if set(types) & has else f"{noun}{{0.6}}" for noun, types in NOUNS.items()]
    places = [room for room in ROOM_WORDS if room not in home.rooms]
    works = [d.name for d in home.devices if "OperationalState" in d.type or d.type in _WORKING]
    people = [f"{name}'s{{0.5}}" for name in home.people]
    return {
        "start": (
            "[<time>] [<polite>] <order> [<time>] [<again>] [<thanks>]",
            "<asking> <device> [<asked>]",
        ),
        "polite": _POLITE,
        "thanks": _THANKS,
        "order": (f"<verb> <device> [{'|'.join(_ENDS)}]",),
        "verb": _VERBS,
        "asking": _ASKING,
        "asked": _ASKED,
        "device": (
            "the <name> [in the <room>]",
            "(the{0.2}|that|this{0.3}) <noun> [<where>]",
            "(<whose>) <noun>",
            "(that|this{0.3}) [one|thing|device{0.3}] [[over] there]",
            "(that|the{0.3}) <sound> [device|thing|one{0.3}|noise]",
            "(whatever (is|keeps)|(the|that) (thing|device|one{0.3}) that (is|keeps)) <sound>",
        ),
        "whose": ("my [own]", "my room's", "the (<place>{0.5}|<room>)", *people),
        "where": (*_SIDES, "in my room", "in the (<room>|<place>{0.5})", "[over] there"),
        "name": _words(dict.fromkeys(device.name for device in home.devices)),
        "noun": tuple(nouns),
        "room": _words(home.rooms),
        "place": _words(places),
        "sound": (
            "humming", "droning", "whirring", "buzzing", "beeping", "rumbling", "spinning", "rattling{1.5}",
            "playing music", "making music", "blowing{1.5}", "hissing{1.5}", "ringing{1.5}", "making (a"
             "|that) noise{0.3}",
            "talking{1.5}", "music", "noise{0.3}", "vibrating{1.5}",
        ),
        "ones": tuple(_ONES),
        "below_hundred": (*_ONES, *_TEENS, f"({'|'.join(_TENS)}) [<ones>]"),
        "number": ("[minus{0.3}] <below_hundred>", "(a|one|two) hundred [[and] <below_hundred>]"),
        "minutes": (*_ONES, *_TEENS, f"({'|'.join(_TENS)}) [<ones>]"),
        "length": (
            "<minutes> minutes", "half an hour", "an hour [and a half]", "a quarter of an hour{0.3}",
            "(two|three) hours",
        ),
        "hour": (*_ONES, "ten", "eleven", "twelve"),
        "clock": (
            "(a quarter|<minutes>) (past"
             "|to) <hour> <part>", "half past <hour> <part>", "<hour> o'clock <part>",
            "twelve noon", "<hour> (am|pm){0.5}", "<hour> o'clock{0.3}", "half past <hour>{0.3}",
        ),
        "part": ("in the (morning|afternoon|evening)", "at night"),
        "anchor": tuple(f"the {name}" for name in works) or ("the <noun>",),
        "done": ("is done", "has finished", "is finished{0.3}", "is ready{0.3}"),
        "time": (
            "at <clock> [sharp|today|which is in <length>|but (keep|leave) it <way> until <clock>|<still>]",
            "in <length> [(that is|so) at <clock> [sharp]]",
            "<length> (from now|after <anchor> <done>)",
            "(as soon as|when|once) <anchor> <done>",
        ),
        "way": ("on", "off", "open", "closed"),
        "again": (
            "and (turn|switch|close|shut|open) it [back|up] [on|off] [again] <later>",
            "but (keep|leave) it <way> until <clock>",
            "<still>",
        ),
        "still": ("and make sure that it is still <way> at that very minute",),
        "later": ("<length> (later|after that)",),
    }  # fmt: skip


_WORKING = ("microwave", "laundry_washer", "laundry_dryer", "dishwasher", "oven", "rvc")


def _words(names: Iterable[str]) -> tuple[str, ...]:
    """Names as patterns: only what is words."""
    return tuple(name for name in names if name and all(c.isalnum() or c == " " for c in name)) or ("thing",)
