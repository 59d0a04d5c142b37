"""Whether a refusal explains the cause that is true, by rules.

A cause has a kind (what the profile calls its feasibility) and particulars: what is missing, the limit that
is exceeded, the times that disagree. A refusal explains it when it uses words of that kind and names the
particulars, in whatever sentence; the words of the goal's `reason` are not asked for. It does not when it
also gives a cause of another kind, or names a person or a room that the cause has nothing to do with.

The particulars are taken from the truth: the nouns that reason and request share, numbers of the reason that
the request does not have, and for times the goal's own steps on the home's clock.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import datetime

from recordings.plan.spoken import clock_time, minutes, number
from recordings.profile import Profile

_ABSENT = (
    r"there(?: is|'s| are|re) (?:no|not any|nothing)\b", r"\b(?:is|are)n'?t (?:a|an|any|there|one|here)\b",
    r"\b(?:has|have|having|with|see|find|hear|know|knows) no(?:thing)?\b",
    r"\bno such\b", r"\bnothing\b", r"\bnone\b",
    r"\b(?:does|do)(?: not|n't) (?:have|own|hear|see|find)\b", r"\bcan(?:not|'t| not) (?:find|see|hear)\b",
    r"\bon (?:another|the other|a different) side\b", r"\bnot (?:on|to|in|there|here|behind|pointing)\b",
)  # fmt: skip
_LIMIT = (
    r"\bends at\b", r"\b(?:no|not) (?:more|less|higher|lower|warmer|colder) than\b", r"\bat (?:most|least)\b",
    r"\b(?:maximum|minimum|highest|lowest|limit|limits|range)\b", r"\bonly\b", r"\bup to\b",
    r"\bfrom \S+ (?:\S+ )?to \S+ (?:degrees|percent)\b", r"\bbetween\b.*\band\b",
    r"\bcan(?:not|'t| not) be (?:dimmed|set|heated|cooled|turned (?:up|down))\b", r"\balready\b",
    r"\bbeyond\b", r"\babove\b", r"\bbelow\b",
)  # fmt: skip
_PAST = (r"\b(?:over|past|passed|gone|earlier|ago|already|been)\b",)
_CLASH = (
    r"\bnot\b", r"\bboth\b", r"\bcontradict", r"\bdisagree", r"\bdo not (?:agree|fit|match)",
    r"\bsame (?:time|moment)\b",
    r"\bcan(?:not|'t| not)\b", r"\bbut\b",
)  # fmt: skip
# Words that give a cause of this kind and cannot belong to another one.
_SURELY = {
    "nonexistent_resource": (r"\bthere(?: is|'s) no\b", r"\bno such\b"),
    "physical_limit": (r"\bends at\b", r"\bno more than\b", r"\bat most\b",
                       r"\b(?:maximum|minimum|limit|range)\b"),
    "temporal_contradiction": (r"\bis (?:over|past)\b", r"\bcontradict", r"\bsame (?:time|moment)\b"),
}  # fmt: skip
# The same thing by other words; the first one stands for all.
_SAME = (
    ("fridge", "refrigerator"), ("tv", "television", "telly"), ("light", "lamp"),
    ("washer", "washing machine"),
    ("blind", "blinds", "shutter", "curtain"), ("player", "music player", "radio", "speaker", "stereo"),
    ("purifier", "air purifier"), ("conditioner", "air conditioner"), ("sound", "noise"),
    ("heat", "heats", "heater", "heating", "heated", "warms", "warmer", "warm"),
    ("cool", "cools", "cooler", "cooling", "cooled", "cold"),
)  # fmt: skip
_NO_NOUN = set(
    re.findall(
        r"\w+",
        "a an and another are asked at be been behind can cannot could device do for from front had has have "
        "here home i in is it its keeps know left make me meant my no nobody none not nothing of on one only "
        "or own please put right room set side so still switch that the then there these thing this those to "
        "turn was what whatever with you your",
    )
)
_QUANTITIES = (
    {"volume", "loud"},
    {"speed", "fast", "run", "runs", "running"},
    {"light", "brightness", "dim"},
    {"degree", "degrees"},
)
_WORD = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)?|-?\d+(?:\.\d+)?(?::\d\d)?", re.UNICODE)
_SPOKEN = {number(value): str(value) for value in range(-40, 301)}
_NUMBER_WORDS = re.compile(
    r"\b(" + "|".join(sorted(map(re.escape, _SPOKEN), key=len, reverse=True)) + r")\b(?!-)"
)


def explains(text: str, profile: Profile) -> bool:
    """Whether the words of a refusal explain why the request of this profile cannot be carried out."""
    said = plain(text)
    kind, goal = profile.feasibility, profile.goal
    if goal is None or kind is None or kind == "feasible" or not said:
        return False
    reason = plain(goal.reason or "")
    if reason and f" {reason} " in f" {said} ":
        return True
    others = [word for other, words in _SURELY.items() if other != kind for word in words]
    if _any(others, said) and not _any(others, reason):
        return False
    if _strangers(said, profile):
        return False
    if kind == "nonexistent_resource":
        return _any(_ABSENT, said) and _names_missing(said, reason, profile)
    if kind == "physical_limit":
        return _any(_LIMIT, said) and _names_limit(said, reason, profile)
    return _names_times(said, profile)


def plain(text: str) -> str:
    """Lower case, numbers in digits, one word for what has several, without punctuation but in numbers."""
    text = text.casefold().replace("’", "'").replace("−", "-")
    text = _NUMBER_WORDS.sub(lambda match: _SPOKEN[match[1]], text)
    for first, *rest in _SAME:
        for other in sorted(rest, key=len, reverse=True):
            text = re.sub(rf"\b{other}\b", first, text)
    return " ".join(_WORD.findall(text.replace("%", " percent")))


def _any(patterns: Iterable[str], text: str) -> bool:
    return any(re.search(pattern, text) for pattern in patterns)


def _stem(word: str) -> str:
    for end in ("ing", "s"):
        if word.endswith(end) and len(word) - len(end) >= 3:
            stem = word.removesuffix(end)
            return stem[:-1] if len(stem) > 3 and stem[-1] == stem[-2] else stem
    return word.removesuffix("e") if len(word) > 4 else word


def _nouns(text: str) -> set[str]:
    return {_stem(word) for word in text.split() if word not in _NO_NOUN and not word[-1].isdigit()}


def _names(profile: Profile) -> set[str]:
    household = () if profile.home is None else profile.home.household
    return {_stem(plain(member.name)) for member in household}


def _names_missing(said: str, reason: str, profile: Profile) -> bool:
    """All that reason and request both name; where they share nothing, all nouns of the reason but places and
    people."""
    asked = plain(profile.request or "")
    rooms = {_stem(word) for word in _room_words(profile)}
    if " points at nothing" in f" {reason}":
        return _any((r"\bpoint",), said)
    wanted = (_nouns(reason) & _nouns(asked)) - rooms - _names(profile)
    if not wanted:
        wanted = _nouns(reason) - rooms - _names(profile)
    return bool(wanted) and wanted <= _nouns(said)


def _names_limit(said: str, reason: str, profile: Profile) -> bool:
    """A limit that the reason tells and the request does not; without one, what the device cannot do. Another
    number, or another quantity than the one that was asked for, is another cause."""
    request = plain(profile.request or "")
    asked = set(_numbers(request))
    if set(_numbers(said)) - asked - set(_numbers(reason)):
        return False
    known = set(f"{reason} {request}".split())
    if any(words & set(said.split()) and not words & known for words in _QUANTITIES):
        return False
    limits = [value for value in _numbers(reason) if value not in asked]
    if ("already" in reason.split()) != ("already" in said.split()):  # at its limit, or asked to go beyond
        return False
    if "already" in reason.split():
        runs = set(limits) & set(_numbers(said)) or _any(
            (r"\b(?:full|maximum|highest|most|flat out)\b",), said
        )
        return bool(runs)
    if limits:
        return bool(set(limits) & set(_numbers(said)))
    return bool((_nouns(reason) & _nouns(said)) - {"light"})


def _numbers(text: str) -> list[str]:
    return re.findall(r"-?\d+(?:\.\d+)?", text)


def _names_times(said: str, profile: Profile) -> bool:
    """past: the time that was asked for, or the present one. Two times that disagree: two of the length, the
    time that it leads to and the time that was named. Opposites at one time: that time, or both states."""
    goal, home = profile.goal, profile.home
    if goal is None or not goal.steps or home is None or home.clock is None:
        return False
    at = datetime.strptime(home.clock, "%Y-%m-%d %H:%M:%S")
    now = at.hour * 60 + at.minute
    when = goal.steps[0].when
    asked = when.at_min
    if asked is None:
        return False

    def told(minute: float) -> bool:
        return any(
            re.search(rf"(?<!\S){re.escape(form)}(?!\S)", said) for form in _clock_forms(round(minute))
        )

    if asked < 0:
        return _any(_PAST, said) and (told(now + asked) or told(now))
    if when.offset_min and when.anchor_device is None:
        length = round(when.offset_min)
        forms = {plain(minutes(length)), f"{length} minutes", f"{length} min"}
        found = [any(form in said for form in forms), told(now + length), told(now + asked)]
        return _any(_CLASH, said) and sum(found) >= 2
    states = [set(_state_words(one.value)) for step in goal.steps for one in step.asserts]
    named = [bool(words & set(said.split())) for words in states]
    return _any(_CLASH, said) and (told(now + asked) or (len(named) > 1 and all(named)))


def _state_words(value: object) -> tuple[str, ...]:
    if isinstance(value, bool):
        return ("on",) if value else ("off",)
    return ("open", "opened") if value == 0 else ("closed", "close", "shut") if value == 10000 else ()


def _clock_forms(minute: int) -> set[str]:
    """A time of day as people and clocks say it, in the form of `plain`."""
    minute %= 1440
    hour, rest = divmod(minute, 60)
    spoken = plain(clock_time(minute))
    short = re.sub(r" (?:in the (?:morning|afternoon|evening)|at night)$", "", spoken)
    half = f"{(hour - 1) % 12 + 1}:{rest:02d}"
    return {spoken, short, f"{hour:02d}:{rest:02d}", f"{hour}:{rest:02d}", half}


def _room_words(profile: Profile) -> set[str]:
    rooms = () if profile.home is None else profile.home.rooms
    return {word for room in rooms for word in plain(room.replace("_", " ")).split()}


def _strangers(said: str, profile: Profile) -> bool:
    """It names a person or a room that neither the truth nor the request nor the scene knows of."""
    goal, home = profile.goal, profile.home
    if home is None or goal is None:
        return False
    known = plain(f"{goal.reason or ''} {profile.request or ''}")
    speaker = next((m.name for m in home.household if m.id == profile.speaker), "")
    here = "" if profile.staging is None else profile.staging.room.replace("_", " ")
    known = f"{known} {plain(speaker)} {plain(here)} " + " ".join(plain(d.name) for d in home.devices)
    for member in home.household:
        if re.search(rf"\b{re.escape(plain(member.name))}\b", said) and plain(member.name) not in known:
            return True
    for room in home.rooms:
        name = plain(room.replace("_", " "))
        if re.search(rf"\b{re.escape(name)}\b", said) and name not in known:
            return True
    return False
