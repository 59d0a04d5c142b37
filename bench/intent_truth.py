"""What the words of a planned episode mean, told from its goal (never from its words), against an Intent.

`differences(item, intent, home)` names every slot that is wrong: query, grounding, the device that the words
fit, what is done or asked, the values, and the times.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from edge.language import Change, DeviceWords, HomeWords, Intent
from edge.language.home_words import NamedDevice
from recordings.plan import device_types as types
from recordings.plan.model import PlanItem
from recordings.profile import Assert, Step, Value

_ASKED = {
    types.ON: "is_on",
    types.PERCENT: "how_fast",
    types.COOLING: "how_cool",
    types.FRIDGE: "how_cool",
    types.LIFT: "how_closed",
}
_SIDES = {
    "left": r"\bleft\b",
    "right": r"\bright\b(?! (?:in front|behind))",
    "front": r"front|ahead",
    "behind": "behind",
}


def differences(item: PlanItem, intent: Intent, home: HomeWords) -> list[str]:
    """Names of the slots that are wrong; empty: the intent is what was meant."""
    if intent.query != item.query or intent.control is not None:
        return [f"query {intent.query} {intent.control or ''}".strip()]
    if item.query == "Q4":
        return list(_need(item, intent))
    device = intent.device
    if device is None:
        return ["no device"]
    return [*_device(item, device, home), *_action(item, intent, home)]


def home_words(item: PlanItem) -> HomeWords:
    """The words of an item's home, as `HomeWords.of` has them from its room map."""
    from edge.language.home_words import room_words
    from edge.language.plain_text import plain

    clock = re.search(r"(\d\d):(\d\d)", item.home.clock or "")
    return HomeWords(
        tuple(NamedDevice(d.id, d.type, plain(d.name), d.room) for d in item.home.devices),
        {room_words(room): room for room in item.home.rooms},
        {plain(member.name): member.id for member in item.home.household},
        item.staging.room,
        None if clock is None else 60 * int(clock[1]) + int(clock[2]),
    )


def target_type(item: PlanItem) -> str | None:
    """Type of the target, or of the device that is missing."""
    for device in item.home.devices:
        if device.id == item.target_device:
            return device.type
    for one in _all_asserts(item):
        found = re.fullmatch(r".*?_?(" + "|".join(types.AT_REST) + r")_\d+", one.device_id)
        if found:
            return found[1]
    return None


def _all_asserts(item: PlanItem) -> list[Assert]:
    return [*item.goal.asserts, *(a for step in item.goal.steps for a in step.asserts)]


def _need(item: PlanItem, intent: Intent) -> Iterator[str]:
    need = intent.need
    if need is None:
        yield "no need"
        return
    if item.grounding == "G4":
        if not need.own_room:
            yield "own room"
    else:
        room = item.goal.changes[0].room if item.goal.changes else item.staging.room
        if (need.room or item.staging.room) != room or need.own_room:
            yield f"room {need.room}"
    if item.goal.changes:
        change = item.goal.changes[0]
        if (need.variable, need.direction) != (change.variable, change.direction):
            yield f"need {need.variable} {need.direction} {need.blind or ''}"
    elif item.goal.asserts:
        if need.blind != ("close" if item.goal.asserts[0].value == 10000 else "open"):
            yield f"need {need.variable} {need.direction} {need.blind or ''}"
    elif need.blind is None:
        yield "need"


def _device(item: PlanItem, device: DeviceWords, home: HomeWords) -> Iterator[str]:
    if device.grounding != item.grounding:
        yield f"grounding {device.grounding}"
        return
    kind = target_type(item)
    if device.types and kind is not None and kind not in device.types:
        yield f"types {device.types}"
    if item.grounding == "G0":
        fitting = named(device, home)
        wanted = [] if item.target_device is None else [item.target_device]
        if fitting != wanted:
            yield f"named {fitting or device.name or device.noun}"
    elif item.grounding == "G1" and kind is not None:
        said = [
            noun for nouns in types.NOUNS.values() for noun in nouns if _says(item.request, f"that {noun}")
        ]
        if bool(said) != bool(device.types):
            yield f"noun {device.noun}"
    elif item.grounding == "G2":
        if device.sound is None or not _says(item.request, device.sound):
            yield f"sound {device.sound}"
    elif item.grounding == "G3":
        if device.side is None or not re.search(_SIDES[device.side], item.request):
            yield f"side {device.side}"
        if not device.types:
            yield "noun"
    elif item.grounding == "G4":
        if device.own != ("room" if re.search(r"\bmy room", item.request) else "device"):
            yield f"own {device.own}"
        if not device.types:
            yield "noun"


def named(device: DeviceWords, home: HomeWords) -> list[str]:
    """Ids of the devices that a name, noun and room fit."""
    if not device.known_name or device.unknown_room:
        return []
    fitting = [d for d in home.devices if device.name is None or d.name == device.name]
    if device.name is None:
        fitting = [d for d in fitting if d.type in device.types]
    return sorted(d.id for d in fitting if device.room in (None, d.room))


def _says(text: str, words: str) -> bool:
    return re.search(rf"\b{re.escape(words)}\b", text, re.I) is not None


def _action(item: PlanItem, intent: Intent, home: HomeWords) -> Iterator[str]:
    kind = target_type(item)
    if item.query == "Q1":
        for one in item.goal.asserts[:1]:
            if kind is not None and intent.inquiry != _asked(one.attribute, kind):
                yield f"inquiry {intent.inquiry}"
        return
    if not intent.orders:
        yield "no order"
    elif item.query == "Q2":
        if len(intent.orders) != 1:
            yield "orders"
        if item.goal.asserts and kind is not None:
            yield from _change(intent.orders[0].change, item.goal.asserts, kind, intent.device)
    else:
        yield from _times(item, intent, home, kind)


def _asked(attribute: str, kind: str) -> str:
    if attribute == types.LEVEL:
        return "how_bright" if kind in types.LIGHTS else "how_loud"
    if attribute in (types.PLAYBACK, types.OPERATION):
        return "is_playing" if kind in types.MEDIA else "is_running"
    return _ASKED[attribute]


def _change(
    change: Change, asserts: tuple[Assert, ...], kind: str, device: DeviceWords | None
) -> Iterator[str]:
    wanted = {one.attribute: one.value for one in asserts}
    made = effect(change, kind, bool(device and device.types))
    wanted.pop(types.ON, None) if types.LEVEL in wanted else None
    if made != wanted:
        yield f"change {change.act} {change.value}"


def effect(change: Change, kind: str, type_known: bool) -> dict[str, Value]:
    """Attributes of a device of this type after the change. "cool" and "dim" stand for any temperature and
    percentage where the words leave the type open."""
    act, value = change.act, change.value
    if not type_known and act in ("cool", "chill") and value is not None:
        return {types.FRIDGE if kind == "refrigerator" else types.COOLING: round(100 * value)}
    work = {types.PLAYBACK: (0, 1)} if kind in types.MEDIA else {types.OPERATION: (1, 2)}
    path, (at_work, paused) = next(iter(work.items()))
    if value is None:
        plain: dict[str, dict[str, Value]] = {
            "on": {types.ON: True},
            "off": {types.ON: False},
            "pause": {path: paused},
            "resume": {path: at_work},
            "stop": {types.OPERATION: 0},
            "close": {types.LIFT: 10000},
            "open": {types.LIFT: 0},
        }
        return plain.get(act, {})
    by_act: dict[str, dict[str, Value]] = {
        "dim": {types.LEVEL: types.level_of(round(value))},
        "volume": {types.LEVEL: types.level_of(round(value))},
        "speed": {types.PERCENT: round(value)},
        "cool": {types.COOLING: round(100 * value)},
        "chill": {types.FRIDGE: round(100 * value)},
        "position": {types.LIFT: round(100 * value)},
    }
    return by_act.get(act, {})


def _times(item: PlanItem, intent: Intent, home: HomeWords, kind: str | None) -> Iterator[str]:
    steps, orders = item.goal.steps, intent.orders
    if not steps:  # no device could be meant: nothing tells the times
        return
    moment = orders[0].moment
    if moment is None:
        yield "no moment"
        return
    now = home.now_min or 0
    if item.feasibility == "temporal_contradiction":
        yield from _contradiction(steps, intent, now)
        return
    if kind is not None:
        for order, step in zip(orders, steps, strict=False):
            yield from _change(order.change, step.asserts, kind, intent.device)
    if len(orders) != len(steps):
        yield f"{len(orders)} orders"
        return
    first = steps[0].when
    if first.anchor_device is not None:
        anchor = None if moment.anchor is None else named(moment.anchor, home)
        if anchor != [first.anchor_device] or moment.in_min != first.offset_min:
            yield f"anchor {anchor} {moment.in_min}"
    elif _minutes_from_now(moment.clock_min, moment.in_min, now) != first.at_min:
        yield f"time {moment.clock_min} {moment.in_min}"
    if len(steps) > 1:
        later = steps[1].when
        gap = later.offset_min - first.offset_min
        if first.anchor_device is None:
            gap = (later.at_min or 0.0) - (first.at_min or 0.0)
        if orders[1].after_previous_min != gap:
            yield f"second step {orders[1].after_previous_min}"


def _minutes_from_now(clock: int | None, in_min: float | None, now: int) -> float | None:
    if clock is None:
        return in_min
    return float((clock - now) % 1440)


def _contradiction(steps: tuple[Step, ...], intent: Intent, now: int) -> Iterator[str]:
    moment = intent.orders[0].moment
    assert moment is not None
    clock = None if moment.clock_min is None else moment.clock_min - now
    if len(steps) == 2:  # two opposite things at one time
        if clock != steps[0].when.at_min or (moment.until_min is None and not moment.still):
            yield f"conflict {moment}"
    elif steps[0].when.offset_min:
        if (clock, moment.in_min) != (steps[0].when.at_min, steps[0].when.offset_min):
            yield f"mismatch {moment}"
    elif clock != steps[0].when.at_min or not moment.today:
        yield f"past {moment}"
