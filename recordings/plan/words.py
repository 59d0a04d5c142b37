"""Whether a request still says what its item needs, whoever wrote it: a person, a model or a template."""

from __future__ import annotations

import re
from collections.abc import Iterator

from recordings.plan import sentences
from recordings.plan.device_types import NOUNS
from recordings.plan.model import PlanItem
from recordings.plan.places import bearing, side_of
from recordings.plan.spoken import number
from recordings.plan.wording import room_words
from recordings.profile import DeviceState

SHORTEST, LONGEST = 5, 240  # characters
_SIDES = {
    "left": r"\b(?:my|the) left\b|\bleft[- ]hand\b",
    "right": r"\b(?:my|the) right\b|\bright[- ]hand\b",
    "front": r"\bin front of me\b|\bahead of me\b|\bbefore me\b",
    "behind": r"\bbehind (?:me|my back)\b|\bat my back\b|\bin my back\b",
}
_MINE = r"\b(?:my|mine)\b"
_THAT = r"\b(?:that|this|those|these)\b"
# What would turn a request round when it came or went.
_TURNS_ROUND = {
    "off": r"\boff\b(?! pause)",
    "opening": r"\bopen\b",
    "closing": r"\b(?:clos|shut)",
    "a pause": r"\bpaus",
    "today": r"\btoday\b",
}
_NUMBERS = {number(value): value for value in range(201)}
_CLOCK_WORDS = ("half", "quarter", "noon", "morning", "afternoon", "evening", "night")


def request_problems(item: PlanItem, request: str | None = None) -> list[str]:
    """What is wrong with a request (default: the item's own) for what its item needs, in words.

    By grounding: G0 names the device; G1 says "that"; G2 a word for the sound; G3 the side; G4 "my". None but
    G0 gives the device's name, for then the cue would not be needed. Numbers and times of the item's own
    request are kept.
    """
    text = item.request if request is None else request
    found = list(_form(text))
    if not found:
        found += _names(item, text)
        found += _cue(item, text)
        if request is not None:
            found += _kept(item, text)
    return found


def _form(text: str) -> Iterator[str]:
    if not SHORTEST <= len(text.strip()) <= LONGEST:
        yield f"a request has {SHORTEST} to {LONGEST} characters, this has {len(text.strip())}"
    elif any(ord(c) < 32 or c in "<>{}[]|\\`" for c in text):
        yield "a request is one line of plain words, without brackets or control characters"
    elif text.strip()[-1] not in ".?!":
        yield "a request ends with a full stop, a question mark or an exclamation mark"


def _says(text: str, words: str) -> bool:
    return re.search(rf"\b{re.escape(words)}\b", text, re.I) is not None


def _target(item: PlanItem) -> DeviceState | None:
    return next((d for d in item.home.devices if d.id == item.target_device), None)


def _names(item: PlanItem, text: str) -> Iterator[str]:
    """No name that gives the device away."""
    if item.grounding == "G0" and item.query != "Q4":
        return
    anchors = {step.when.anchor_device for step in item.goal.steps}
    for device in item.home.devices:
        plain = device.name.casefold() in [noun.casefold() for noun in NOUNS.get(device.type, ())]
        waits = re.search(rf"(?:when|once|soon as|after|until) the {re.escape(device.name)}\b", text, re.I)
        if not plain and device.id not in anchors and not waits and _says(text, device.name):
            yield f"{item.grounding} must not give the name of a device, but it says {device.name!r}"


def _cue(item: PlanItem, text: str) -> Iterator[str]:
    target = _target(item)
    if item.query == "Q4":
        yield from _place(item, text, target)
    elif item.grounding == "G0":
        if target is not None and not _says(text, target.name):
            yield f"G0 must name the device: {target.name!r} is missing"
        return
    elif item.grounding == "G1" and not re.search(_THAT, text, re.I):
        yield 'G1 must point by a word like "that"'
    elif item.grounding == "G2":
        yield from _sound(text, target)
    elif item.grounding == "G3":
        yield from _side(item, text, target)
    elif item.grounding == "G4" and not re.search(_MINE, text, re.I):
        yield 'G4 must say "my" or "mine"'
    if item.grounding in ("G1", "G2", "G4"):
        for side, pattern in _SIDES.items():
            if re.search(pattern, text, re.I):
                yield f"{item.grounding} must not say a side, but it says {side}"


def _place(item: PlanItem, text: str, target: DeviceState | None) -> Iterator[str]:
    if item.grounding == "G4":
        if not re.search(r"\bmy\b.*\broom\b", text, re.I):
            yield 'an implicit intent of G4 is about "my room"'
        return
    rooms = [part.room for part in item.goal.changes] or [
        item.staging.room if target is None else target.room
    ]
    if not _says(text, room_words(rooms[0]).removeprefix("the ")):
        yield f"an implicit intent of G0 names the room: {room_words(rooms[0])!r} is missing"


def _sound(text: str, target: DeviceState | None) -> Iterator[str]:
    said = [words for words in sentences.SOUNDS if _says(text, words)]
    music = [words for words in sentences.SOUNDS if words.endswith("music") and _says(text, "music")]
    said += [words for words in music if words not in said]
    if not said:
        yield f"G2 must say the sound: one of {', '.join(sentences.SOUNDS)}"
    elif target is not None and not any(target.type in sentences.SOUNDS[words] for words in said):
        yield f"a {target.type} makes no sound like {said[0]!r}"
    kinds = [] if target is None else [noun for noun in NOUNS[target.type] if noun != "music player"]
    for noun in kinds:
        if _says(text, noun):
            yield f"G2 must not say what makes the sound, but it says {noun!r}"


def _side(item: PlanItem, text: str, target: DeviceState | None) -> Iterator[str]:
    said = [side for side, pattern in _SIDES.items() if re.search(pattern, text, re.I)]
    if len(said) != 1:
        yield "G3 must say one side: on my left, on my right, in front of me or behind me"
        return
    speaker = next((placed for placed in item.staging.people if placed.speaks), None)
    if target is None or target.position_m is None or speaker is None:
        return
    true = side_of(bearing(speaker.mouth_m, target.position_m) - speaker.facing_deg)
    if true != said[0]:
        yield f"the target is {true or 'on no clear side'} of the speaker, but the request says {said[0]}"
    if not any(_says(text, noun) for noun in NOUNS[target.type]):
        yield f"G3 must say what is on that side: {' or '.join(NOUNS[target.type])}"


def _things(item: PlanItem) -> Iterator[tuple[str, ...]]:
    """Words that mean one thing each: kinds of device, names that no device has, rooms."""
    yield from dict.fromkeys(NOUNS.values())
    yield from ((name,) for names in sentences.ELSEWHERE.values() for name in names)
    if item.target_device is None:  # it may be its room that the device is not in
        yield from ((room_words(room).removeprefix("the "),) for room in item.home.rooms)


def numbers_in(text: str) -> list[str]:
    """Numbers and words of the clock, in order of size; "sixty" and "60" are the same."""
    words = re.findall(r"\d+|[a-z]+(?:-[a-z]+)?", text.casefold())
    found: list[str] = []
    at = 0
    while at < len(words):
        # "one hundred and fifty" is one number: the longest run of words that is one.
        for length in (4, 3, 1):
            run = " ".join(words[at : at + length])
            if run in _NUMBERS:
                found.append(str(_NUMBERS[run]))
                at += length
                break
        else:
            if words[at].isdigit() or words[at] in _CLOCK_WORDS or words[at] == "minus":
                found.append(words[at])
            at += 1
    return sorted(n for n in found if n != "1")  # "that one", "this one" is no number


def _kept(item: PlanItem, now: str) -> Iterator[str]:
    """What may not come or go against the item's own request: what it is about, numbers, times."""
    before = item.request
    if item.query in ("Q2", "Q3"):
        for name, pattern in _TURNS_ROUND.items():
            there = [re.search(pattern, text, re.I) is not None for text in (before, now)]
            if there[0] != there[1]:
                yield f"it must {'still' if there[0] else 'not'} be about {name}"
    for names in _things(item):
        if any(_says(before, name) for name in names) and not any(_says(now, name) for name in names):
            yield f"it must still say {' or '.join(names)}"
    old, new = numbers_in(before), numbers_in(now)
    if old != new:
        was, is_now = (", ".join(numbers) or "none" for numbers in (old, new))
        yield f"numbers and times must stay: {was}, but it says {is_now}"
