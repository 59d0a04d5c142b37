"""What is to be done to a device: verbs, values, and requests of several steps."""

from __future__ import annotations

import re
from dataclasses import replace

from edge.language.devices import EMPTY, Mention, find_device
from edge.language.home_words import HomeWords
from edge.language.intent import Act, Change, DeviceWords, Moment, Order
from edge.language.moments import read_moment
from edge.language.nouns import AIR, APPLIANCES, COLD, LIGHTS, MEDIA, SOUND_ITSELF
from edge.language.plain_text import any_of, bare

VERBS = (
    "turn", "switch", "shut", "open", "close", "set", "put", "dim", "run", "play", "pause", "stop", "start",
    "let",
    "have", "take", "bring", "end", "keep", "leave", "make", "silence", "mute", "unmute", "lower", "raise",
    "increase", "decrease", "reduce", "resume", "continue", "lock", "unlock", "activate", "deactivate",
    "kill",
    "cool", "heat", "chill", "change", "adjust", "bring", "power", "get", "give", "unpause", "draw", "pull",
    "lift", "toggle", "flip", "enable", "disable", "quiet", "hush", "finish", "halt", "cancel", "abort",
    "light",
    "drop", "halve", "brighten", "darken", "fire", "crank", "warm", "restart", "cut",
)  # fmt: skip
_SPLIT = re.compile(
    rf" (?:and then|and|then|but|before you) (?=(?:please |then |also )?(?:{'|'.join(VERBS)})\b)"
)
_OPPOSITE: dict[str, Act] = {"on": "off", "off": "on", "open": "close", "close": "open", "pause": "resume"}
_PERCENT = re.compile(r"(-?\d+) ?(?:percent|per cent)\b")
_DEGREES = re.compile(r"(-?\d+) ?(?:degrees?|celsius)\b")
_NUMBER = re.compile(r"\b(?:to|at|on|of|by) (-?\d+)\b(?! (?:minutes?|hours?|oclock))")
_FRACTIONS = {
    "half": 50.0, "halfway": 50.0, "half way": 50.0, "a quarter": 25.0, "3 quarters": 75.0, "a third": 33.0,
    "2 thirds": 67.0, "full": 100.0, "maximum": 100.0, "max": 100.0, "the maximum": 100.0,
    "full power": 100.0,
    "full speed": 100.0, "full brightness": 100.0, "minimum": 1.0, "the minimum": 1.0, "the lowest": 1.0,
}  # fmt: skip
_FRACTION = re.compile(
    rf"\b(?:to|at|on) ({'|'.join(sorted(_FRACTIONS, key=len, reverse=True))})(?: (?:brightness|speed"
    rf"|volume|power|level))?\b"
)
_HALF_CLOSED = re.compile(
    r"\b(?:halfway|half way|half closed|half open|half shut|half down|half up|in the middle|half)\b"
)
_MODES = re.compile(r"\b(?:to|in|into|on) (?:the )?(\w+) mode\b|\b(\w+) mode on\b")
_STEPS: tuple[tuple[str, Act | None, float], ...] = (
    (r"\b(?:louder|volume up|(?:turn|crank) (?:the )?volume (?:of D )?up|raise the volume"
     r"|increase the volume)\b", "volume", 10.0),
    (r"\b(?:quieter|softer|volume down|turn (?:the )?volume (?:of D )?down|lower the volume|reduce the volume"
     r"|decrease the volume|not so loud|less loud)\b", "volume", -10.0),
    (r"\b(?:brighter|brighten|more light)\b", "dim", 20.0),
    (r"\b(?:dimmer|darker|darken|less bright|not so bright)\b", "dim", -20.0),
    (r"^dim D$|^dim D (?:a bit|a little|down)\b", "dim", -20.0),
    (r"\b(?:faster|stronger|more power|speed up)\b", "speed", 20.0),
    (r"\b(?:slower|weaker|gentler|less power|slow down)\b", "speed", -20.0),
    (r"\b(?:warmer|hotter)\b", "cool", 1.0),
    (r"\b(?:cooler|colder)\b", "cool", -1.0),
    (r"\b(?:turn|crank|bring|increase|raise) (?:up D|D up)\b|\b(?:increase|raise) D\b", None, 10.0),
    (r"\b(?:turn|bring|decrease|reduce|lower) (?:down D|D down)\b|\b(?:decrease|reduce) D\b", None, -10.0),
)  # fmt: skip
# Words of an action in the order in which they decide; D stands for the device.
_ACTS: tuple[tuple[str, Act], ...] = (
    (r"\b(?:off|from) pause\b|\bunpause|\bresum|\bcarry on\b|\bcarries on\b|\bcontinu|\bgo on\b"
     r"|\bkeep going\b|\bget (?:D )?going again", "resume"),
    (r"\bpaus|\bon hold\b|\bhold D\b", "pause"),
    (r"\bunlock", "unlock"),
    (r"\block", "lock"),
    (r"\bunmute", "resume"),
    (r"\b(?:silence|mute|hush|quiet|shut up|be quiet|be silent|stop making|go away|shush"
     r"|pipe down)\b|\bshut D up\b", "silence"),
    (r"\b(?:switch|turn|shut|power|put|go|goes|cut|have|want|keep|leave|make|be|needs?)\b.*\boff\b"
     r"|\bshut(?:s)? (?:D )?down\b|\bpower(?:s)? (?:D )?down\b|^D off$|\boff$|^off\b|\bput out\b"
      r"|\bput D out\b", "off"),
    (r"\bturn(?:ed)? out\b|\bturn D out\b|\b(?:kill|deactivate|disable|extinguish|cut|get rid of"
     r"|unplug)\b", "off"),
    (r"\b(?:close|closed|shut|draw|pull down|lower|let down|pull shut|drawn)\b|\bpull D down\b"
     r"|\blet D down\b|\bD down$", "close"),
    (r"\b(?:open|opened|raise|pull up|lift|roll up|draw up)\b|\bpull D up\b|\bD up$", "open"),
    (r"\b(?:toggle|flip|switch over)\b", "toggle"),
    (r"\b(?:switch|turn|power|put|have|want|go|get|keep|leave|make|be|needs?|flick)\b.*\b(?:on|back on)\b"
     r"|^D on$|^on D$|\bon(?: again)?$"
     r"|\b(?:activate|enable|light up|fire up|power up|boot up)\b|\bfire D up\b|\blight D\b"
      r"|\blight D up\b", "on"),
    (r"\b(?:stop|stopped|halt|abort|end|finish|cancel|interrupt|terminate)\b", "stop"),
    (r"\b(?:start|begin|launch|restart)\b|^run D$|\bset D going\b|\bget D going\b", "start"),
    (r"\bplay\b", "resume"),
)  # fmt: skip


def split_clauses(text: str) -> list[str]:
    """ "at 7 open that and close it again 20 minutes later" in its two parts."""
    return [bare(part) for part in _SPLIT.split(text)]


def read_orders(text: str, home: HomeWords) -> tuple[DeviceWords | None, tuple[Order, ...], Mention | None]:
    """Device and orders of a plain sentence; no orders when it gives none."""
    device: Mention | None = None
    orders: list[Order] = []
    waiting: Moment | None = None
    for clause in split_clauses(text):
        timed = read_moment(clause, home)
        rest = bare(timed.rest)
        mention = find_device(rest, home)
        if timed.moment is not None and not rest and orders:
            orders[-1] = replace(orders[-1], moment=_joined(orders[-1].moment, timed.moment))
            continue
        change = _change(rest, mention if mention is not None else device)
        if change is None:
            if orders and timed.moment is not None:
                orders[-1] = replace(orders[-1], moment=_joined(orders[-1].moment, timed.moment))
            elif timed.moment is not None:
                waiting = timed.moment  # "wait until it is done, then ..."
            elif device is None and mention is not None:
                device = mention
            continue
        if mention is None and device is None and (heated := _room_to_heat(rest, change, home)):
            mention = heated
        if mention is not None and (device is None or (mention.weight > device.weight and device.weight < 1)):
            device = mention
        after = timed.later_min if orders else None
        moment = timed.moment if waiting is None else _joined(timed.moment, waiting)
        waiting = None
        if timed.later_min is not None and not orders and moment is None:
            moment = Moment(in_min=timed.later_min)
        orders.append(Order(change, moment, after))
        opposite = _OPPOSITE.get(change.act)
        if timed.for_min is not None and opposite is not None:
            orders.append(Order(Change(opposite), None, timed.for_min))
    return (None if device is None else device.device), tuple(orders), device


def _room_to_heat(rest: str, change: Change, home: HomeWords) -> Mention | None:
    """ "heat the living room to 22 degrees": whatever sets the temperature there."""
    if change.value is None or change.act not in ("cool", "heat"):
        return None
    types = ("heat_pump", "air_conditioner") if change.act == "heat" else ("air_conditioner", "heat_pump")
    if own := re.search(r"\bmy (?:own )?(?:room|bedroom)\b", rest):
        return Mention(DeviceWords("G4", words=own[0], types=types, own="room"), *own.span(), 1.0)
    for name in sorted(home.room_names(), key=len, reverse=True):
        if found := re.search(rf"\b(?:the )?{re.escape(name)}\b", rest):
            room, unknown = home.room_called(name)
            device = DeviceWords("G0", words=found[0], types=types, room=room, unknown_room=unknown)
            return Mention(device, *found.span(), 1.0)
    if "temperature" in rest:
        return Mention(DeviceWords("G0", words="here", types=types, room=home.here), 0, 0, 1.0)
    return None


def _joined(one: Moment | None, other: Moment) -> Moment:
    if one is None:
        return other
    return Moment(
        one.clock_min if one.clock_min is not None else other.clock_min,
        one.in_min if one.in_min is not None else other.in_min,
        one.anchor or other.anchor,
        one.today or other.today,
        one.until_min if one.until_min is not None else other.until_min,
        one.still or other.still,
    )


def _change(rest: str, mention: Mention | None) -> Change | None:
    """What the clause wants; mention: of the device in it or before it."""
    if mention is not None and rest[mention.start : mention.end] == mention.device.words:
        said = " ".join((rest[: mention.start] + " D " + rest[mention.end :]).split())
    else:
        said = re.sub(r"\b(?:it|that|them)\b", "D", rest)
    device = mention.device if mention is not None else DeviceWords("G1")
    for pattern, act in _ACTS[:2]:
        if re.search(pattern, said):
            return Change(act)
    mode = _MODES.search(said)
    if mode is not None:
        return Change("mode", mode=mode[1] or mode[2])
    change = _with_value(said, device)
    if change is not None:
        return change
    for pattern, step_act, by in _STEPS:
        if re.search(pattern, said):
            act = step_act or _percent_act(said, device)
            if act == "position":
                break  # "raise the blind" opens it
            return Change(
                "heat"
                if act == "cool" and set(device.types) <= {"heat_pump", "oven"} and device.types
                else act,
                by=by,
            )
    blind = not device.types or "window_covering" in device.types
    if (
        blind
        and _HALF_CLOSED.search(said)
        and re.search(r"\b(?:clos|open|shut|put|leave|lower|raise|set|have|position)", said)
    ):
        return Change("position", 50.0)
    for pattern, act in _ACTS[2:]:
        if re.search(pattern, said):
            return _fitting(act, said, device)
    return None


def _fitting(act: Act, said: str, device: DeviceWords) -> Change:
    """ "stop the music" ends a sound, "stop the washing machine" its work; "start the fan" switches it on."""
    sound_itself = device.sound is not None and re.fullmatch(
        rf"(?:(?:all )?(?:that|the|this) )?(?:{any_of(EMPTY)} )?{re.escape(device.sound)}(?: noise| sound)?",
        device.words,
    )
    if sound_itself and act in ("stop", "off") and (act == "stop" or device.sound in SOUND_ITSELF):
        return Change("silence")
    if act == "start" and device.types and not set(device.types) & set(APPLIANCES):
        return Change("resume" if set(device.types) <= set(MEDIA) and "start" not in said else "on")
    return Change(act)


def _with_value(said: str, device: DeviceWords) -> Change | None:
    degrees = _DEGREES.search(said)
    if degrees is not None:
        return _temperature(float(degrees[1]), said, device)
    percent = _PERCENT.search(said)
    value = None if percent is None else float(percent[1])
    if value is None:
        fraction = _FRACTION.search(said)
        if fraction is not None and not (fraction[1] == "half" and "D" not in said):
            value = _FRACTIONS[fraction[1]]
    if value is None:
        number = _NUMBER.search(said)
        if number is None:
            return None
        value = float(number[1])
        temperature = set(device.types) & {"air_conditioner", *COLD, "oven", "heat_pump"}
        if "temperature" in said or (temperature and not re.search(r"speed|fan|volume|bright", said)):
            return _temperature(value, said, device)
    act = _percent_act(said, device)
    by = re.search(r"\b(?:by|another) -?\d+", said)
    if by is not None:
        down = re.search(r"\b(?:down|lower|reduce|decrease|dim|quieter|slower|darker)\b", said)
        return Change(act, by=-value if down else value)
    if act == "position" and re.search(r"\b(?:open|opened|raise|up)\b", said):
        value = 100.0 - value
    return Change(act, value)


def _temperature(value: float, said: str, device: DeviceWords) -> Change:
    types = set(device.types)
    act: Act = "cool"
    if types & set(COLD):
        act = "chill"
    elif types & {"heat_pump", "oven"} or (
        re.search(r"\bheat|\bwarm", said) and not types - {"air_conditioner"}
    ):
        act = "heat"
    by = re.search(
        r"\bby -?\d+|(-?\d+) degrees? (?:warmer|cooler|colder|hotter|up|down|more|less|higher|lower)\b", said
    )
    if by is not None:
        down = re.search(r"\b(?:down|lower|cooler|colder|less|reduce|decrease)\b", said)
        return Change(act, by=-value if down else value)
    return Change(act, value)


def _percent_act(said: str, device: DeviceWords) -> Act:
    types = set(device.types)
    words: tuple[tuple[str, Act], ...] = (
        (r"\bvolume|\bloud|\bplay\b|\bquiet", "volume"),
        (r"\bbright|\bdim\b|\bdimmed|\bdark", "dim"),
        (r"\bspeed|\bfast|\brun\b|\bblow|\bpower\b|\bslow|\bstrength", "speed"),
        (r"\bclose|\bshut|\bposition|\bopen\b", "position"),
    )
    by_type: tuple[tuple[tuple[str, ...], Act], ...] = (
        (LIGHTS, "dim"), (MEDIA, "volume"), (("window_covering",), "position"), (AIR, "speed"),
    )  # fmt: skip
    for kinds, act in by_type:
        if types & set(kinds):
            return act
    for pattern, act in words:
        if re.search(pattern, said):
            return act
    if device.kind == "music":
        return "volume"
    if device.kind in ("hum", "blow", "spin"):
        return "speed"
    return "dim"
