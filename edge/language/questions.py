"""Questions about a device or about the air of a room."""

from __future__ import annotations

import re

from edge.language.devices import find_device
from edge.language.home_words import HomeWords
from edge.language.intent import DeviceWords, Inquiry
from edge.language.nouns import AIR, APPLIANCES, COLD, LIGHTS, MEDIA

_ASKING = (
    r"tell me|let me know|know (?:if|whether|what|how|which)|do you know|can you tell|could you tell"
    r"|i want to know|i would like to know"
    r"|id like to know|i need to know|i wonder|check|see|find out|look up|look|verify|im wondering|say"
    r"|please tell|give me|report|any idea|i am curious|im curious|show me|read out|do you see|have a look"
)
_START = re.compile(
    rf"^(?:(?:{_ASKING})(?: me)?(?: if| whether| about| of| what| how| the| at| please)?\b"
    r"|is|are|has|have you|does|do|did|was|were|what|whats|which|how|hows|when will|when does|when is|whether"
    r"|at (?:what|which)|to (?:what|which)|on what|who (?:made|makes|built)|isnt|hasnt|where)\b"
)
# Statements and orders that begin like a question.
_NO_QUESTION = re.compile(
    r"^(?:is it (?:just me|only me)|see to it|have (?:that|the|my|this|it|whatever)|how (?:nice|lovely"
    r"|awful|terrible)"
    r"|what a |do (?:something|not|that)|give (?:it|that|the|me (?:some|more))|look (?:it|how))"
)
_ROOM_AIR: tuple[tuple[str, Inquiry], ...] = (
    (r"\bhumidity\b|\bhumid\b|\bhow (?:damp|moist|dry)\b", "humidity"),
    (r"\bair quality\b|\bdust\b|\bdusty\b|\bparticles?\b|\bpm 10\b|\bpm10\b|\bparticulate\b"
     r"|\bhow clean is the air\b", "pm10"),
    (r"\blight level\b|\billuminance\b|\blux\b|\bhow (?:dark|bright|light) is it\b", "illuminance"),
    (r"\btemperature\b|\bhow (?:warm|hot|cold|cool) is it\b|\bhow many degrees is it\b", "temperature"),
)  # fmt: skip


def is_question(text: str) -> bool:
    """Whether a plain sentence without politeness asks something."""
    return _START.match(text) is not None and _NO_QUESTION.match(text) is None


def read_question(text: str, home: HomeWords) -> tuple[DeviceWords | None, Inquiry | None]:
    """What is asked, and about which device. A room's air: a device without noun, with the room."""
    mention = find_device(text, home)
    device = None if mention is None or mention.weight < 0.4 else mention.device
    said = text
    if mention is not None and device is not None and text[mention.start : mention.end] == device.words:
        said = " ".join((text[: mention.start] + " D " + text[mention.end :]).split())
    if device is None or (mention is not None and mention.weight < 1):
        for pattern, inquiry in _ROOM_AIR:
            if re.search(pattern, text):
                return _room(text, home), inquiry
    if device is None:
        return None, None
    return device, _inquiry(said, device)


def _inquiry(said: str, device: DeviceWords) -> Inquiry | None:
    types = set(device.types)
    cover = "window_covering" in types
    if re.search(
        r"\bhow (?:long|much longer|much time)|\bwhen (?:will|is|does|do)\b|\btime (?:is )?left\b"
        r"|\bremaining\b",
        said,
    ):
        return "time_left"
    if re.search(r"\b(?:vendor|manufacturer|brand|who (?:made|makes|built)|made by)\b", said):
        return "vendor"
    if re.search(r"\b(?:product|model|what kind of D)\b", said):
        return "product"
    if re.search(r"\b(?:locked|unlocked|lock)\b", said):
        return "is_locked"
    if re.search(r"\b(?:volume|loud|loudly|quiet)\b", said):
        return "how_loud"
    if re.search(r"\b(?:bright|brightness|brightly|dimmed|dim|light level)\b", said):
        return "how_bright"
    if re.search(r"\b(?:far|position|closed|shut|opened|half open)\b", said) or re.search(r"\bopen\b", said):
        return "how_closed"
    if re.search(r"\b(?:temperature|degrees?|warm|cold|cool|hot)\b", said):
        return "how_warm" if (types and types <= {"heat_pump", "oven"}) or "heat" in said else "how_cool"
    if re.search(r"\b(?:speed|fast|quickly|strong)\b", said):
        return "how_fast"
    if re.search(r"\bpercent|\bpercentage\b|\blevel\b", said):
        return _percent(types, device)
    if re.search(r"\bplaying\b|\bplay\b|\bplays\b", said) or (
        re.search(r"\bpaused?\b", said) and types & set(MEDIA)
    ):
        return "is_playing"
    if re.search(r"\bpaused?\b|\bworking\b|\bdone\b|\bfinished\b|\bstill going\b", said):
        return "is_playing" if device.kind == "music" else "is_running"
    if re.search(r"\brunning\b|\bruns?\b", said):
        return "is_on" if types and not types & set(APPLIANCES) else "is_running"
    if re.search(r"\b(?:on|off|lit|active|switched|turned|burning|working|up)\b", said):
        return "how_closed" if cover else "is_on"
    if re.search(r"\bwhat(?:s| is)? D set to\b|\bset\b", said):
        return _percent(types, device) if not types & {"air_conditioner", *COLD, "heat_pump"} else "how_cool"
    if re.search(r"\b(?:how|state|status|doing)\b", said):
        return "how_closed" if cover else "is_running" if types & set(APPLIANCES) else "is_on"
    return None


def _percent(types: set[str], device: DeviceWords) -> Inquiry:
    by_type: tuple[tuple[tuple[str, ...], Inquiry], ...] = (
        (LIGHTS, "how_bright"), (MEDIA, "how_loud"), (("window_covering",), "how_closed"), (AIR, "how_fast"),
    )  # fmt: skip
    for kinds, inquiry in by_type:
        if types & set(kinds):
            return inquiry
    return "how_loud" if device.kind == "music" else "how_fast"


def _room(text: str, home: HomeWords) -> DeviceWords:
    own = re.search(r"\bmy (?:own )?(?:room|bedroom)\b", text)
    if own:
        return DeviceWords("G4", words=own[0], own="room")
    for name in sorted(home.room_names(), key=len, reverse=True):
        if re.search(rf"\b{re.escape(name)}\b", text):
            room, unknown = home.room_called(name)
            return DeviceWords("G0", words=f"the {name}", room=room, unknown_room=unknown)
    return DeviceWords("G0", words="here", room=home.here)
