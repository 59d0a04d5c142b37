"""What a sentence says of a value, as far as that can be told without understanding it.

Every check has three answers: right, wrong, or None: it cannot be told by rules, and a judge must read it.
The rules are narrow on purpose: a sentence with a negation, with both of two opposite words, or with more
numbers than truths is None.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from recordings.profile import Assert, Goal, RoomValue, Value

_NUMBER = re.compile(r"(?<![\w.])[-−]?\d+(?:\.\d+)?")
_NEGATION = re.compile(r"\b(?:not|no|never|neither|nor|without|cannot)\b|n['’]t\b", re.IGNORECASE)
_SAYS = r"\b(?:is|are|it's|turned|switched|currently|still|already|powered|now)\s+{}\b"
# Words of what has no number: end of the attribute's path -> value -> words.
_WORDS: dict[str, dict[Value, tuple[str, ...]]] = {
    "OperationalState.OperationalState": {0: ("stopped", "idle"), 1: ("running",), 2: ("paused",)},
    "MediaPlayback.CurrentState": {0: ("playing",), 1: ("paused",), 2: ("stopped", "idle")},
    "Thermostat.SystemMode": {0: ("off",), 3: ("cool", "cooling"), 4: ("heat", "heating")},
    "FanControl.FanMode": {0: ("off",), 1: ("low",), 2: ("medium",), 3: ("high",)},
    "DoorLock.LockState": {1: ("locked",), 2: ("unlocked",)},
}
_HUNDREDTHS = ("Temperature", "Setpoint", "MeasuredValue", "Percent100ths")
_LEVEL_MOST = 254


def says_truth(text: str, goal: Goal, known: Iterable[str] = ()) -> bool | None:
    """Whether an answer in words agrees with the true values of a goal (Q1).

    known: texts whose numbers are no statement: the request, names of devices.
    """
    truths: list[Assert | RoomValue] = [*goal.asserts, *goal.room_values]
    if not truths or not text.strip():
        return None
    numbers = _numbers(text, known)
    verdicts = [_one(text, truth, numbers, len(truths) == 1) for truth in truths]
    if None in verdicts:
        return None
    numeric = [truth for truth in truths if _accepted(truth) is not None]
    stray = [told for told in numbers if not any(_agrees(told, _accepted(truth) or ()) for truth in numeric)]
    if all(verdicts):
        return None if stray else True
    return False if len(truths) == 1 else None


def _one(text: str, truth: Assert | RoomValue, numbers: list[str], alone: bool) -> bool | None:
    accepted = _accepted(truth)
    if accepted is not None:
        if any(_agrees(told, accepted) for told in numbers):
            return None if _NEGATION.search(text) else True
        return False if alone and len(numbers) == 1 and not _NEGATION.search(text) else None
    assert isinstance(truth, Assert)
    if isinstance(truth.value, bool):
        said = {state: _says(text, word) for state, word in ((True, "on"), (False, "off"))}
        return _choice(text, said[truth.value], said[not truth.value])
    words = next((w for end, w in _WORDS.items() if truth.attribute.endswith(end)), None)
    if words is not None and truth.value in words:
        mine = any(_has(text, word) for word in words[truth.value])
        others = any(
            _has(text, word) for value, told in words.items() if value != truth.value for word in told
        )
        return _choice(text, mine, others)
    if isinstance(truth.value, str) and truth.value.strip():
        return True if truth.value.casefold() in text.casefold() and not _NEGATION.search(text) else None
    return None


def _choice(text: str, mine: bool, others: bool) -> bool | None:
    if _NEGATION.search(text) or mine == others:
        return None
    return mine


def _says(text: str, word: str) -> bool:
    return re.search(_SAYS.format(word), text, re.IGNORECASE) is not None


def _has(text: str, word: str) -> bool:
    return re.search(rf"\b{word}\b", text, re.IGNORECASE) is not None


def _numbers(text: str, known: Iterable[str]) -> list[str]:
    """The numbers of a text, once each, without those that stood in the request or in a name."""
    old = {number for part in known for number in _NUMBER.findall(part)}
    return [n for n in dict.fromkeys(_NUMBER.findall(text)) if n not in old]


def _accepted(truth: Assert | RoomValue) -> tuple[float, ...] | None:
    """The numbers that tell a value, in its raw and in its everyday unit; None for what has no number."""
    if isinstance(truth, RoomValue):
        return (truth.value,)
    value, attribute = truth.value, truth.attribute
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if any(attribute.endswith(end) and value in words for end, words in _WORDS.items()):
        return None
    if attribute.endswith(_HUNDREDTHS):
        return (float(value), value / 100)
    if attribute.endswith(("CurrentLevel", "OnLevel")):
        return (float(value), 100 * value / _LEVEL_MOST)
    return (float(value),)


def _agrees(told: str, accepted: Iterable[float]) -> bool:
    """The told number is one of those, rounded to the digits that were told."""
    told = told.replace("−", "-")
    digits = len(told.partition(".")[2])
    return any(abs(float(told) - value) <= 0.5 * 10**-digits + 1e-9 for value in accepted)


def names_cause(text: str, reason: str) -> bool | None:
    """Whether a refusal names its cause: True when it holds the words of the reason, in their order. Other
    words may say the same, so anything else is None."""
    said, wanted = _plain(text), _plain(reason)
    return True if wanted and f" {wanted} " in f" {said} " else None


def _plain(text: str) -> str:
    return " ".join(re.findall(r"\w+", text.casefold()))


def everyday(truth: Assert | RoomValue) -> str:
    """A value in the words that `says_truth` understands: "it is on", "it is 21.5", "it is running"."""
    if isinstance(truth, RoomValue):
        return f"it is {truth.value:g}"
    if isinstance(truth.value, bool):
        return f"it is {'on' if truth.value else 'off'}"
    words = next((w for end, w in _WORDS.items() if truth.attribute.endswith(end)), {})
    if truth.value in words:
        return f"it is {words[truth.value][0]}"
    accepted = _accepted(truth)
    return f"it is {truth.value}" if accepted is None else f"it is {accepted[-1]:.6g}"
