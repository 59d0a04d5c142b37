"""When something is to be done: clock times, lengths of time, and the end of another device's work."""

from __future__ import annotations

import re
from dataclasses import dataclass

from edge.language.devices import find_device
from edge.language.home_words import HomeWords
from edge.language.intent import Moment

_UNITS = r"(?:minutes?|mins?|hours?|hrs?|seconds?|secs?)"
LENGTH = (
    r"(?:half an hour|half a minute|(?:an|1) hour and (?:a half|a quarter|\d+ minutes?)"
    r"|(?:a )?quarter of an hour"
    r"|(?:a )?quarter hour|3 quarters of an hour|\d+ and a half hours?|\d+ hours? and (?:a half|a quarter"
    r"|\d+ minutes?)"
    r"|an hour|a minute|a half hour|a couple of minutes|a few minutes|a moment|a little while|a while"
    rf"|\d+ {_UNITS})"
)
_PART = (
    r"(?:in the (?:early |late )?(?:morning|afternoon|evening)|this (?:morning|afternoon|evening)"
    r"|at night|tonight|am|pm)"
)
_CLOCK = (
    r"(?:(?P<named>(?:12 )?noon|midday|(?:12 )?midnight|12 noon)"
    r"|(?:(?P<before>a quarter|quarter|half|\d{1,2})(?: minutes?)? (?P<way>past|to|after|before|till) )?"
    r"(?P<hour>\d{1,2})(?:[: ](?P<minute>[0-5]\d|5)|(?: hundred)?)(?: oclock)?"
    r"|(?P<run>\d{3,4}))"
    rf"(?: sharp| exactly| on the dot)?(?: (?P<part>{_PART}))?(?: sharp)?"
)
_DONE = (
    r"(?:(?:is|has|s|are|have|will be|has been|gets|was|had|comes|goes) )?(?:all |just |finally )?"
    r"(?:done|finished|finishes|finish|ready|over|ended|ends|end|complete|completed|completes|stopped|stops"
    r"|through|to an end|not running(?: any ?more)?)(?: (?:running|washing|working|drying|its cycle|its work"
    r"|its programme|its program|with its \w+|with the \w+))?"
)
_LINK = r"(?:(?:that is|thats|that means|this is|which is|which means|so|ie|that would be|namely|meaning) )?"
_ANCHOR = re.compile(
    rf"(?:\b(?P<length>{LENGTH}) )?\b(?:as soon as|just when|just after|right after|the moment|the minute"
    rf"|whenever|when|once|after"
    rf"|wait until|wait till) (?P<anchor>(?:\w+ ){{1,8}}?){_DONE}\b"
)
_AFTER_END = re.compile(
    rf"(?:\b(?P<length>{LENGTH}) )?\b(?:after|at) the end of (?P<anchor>(?:the|my) \w+(?: \w+)?)\b"
)
_AT = re.compile(rf"\b{_LINK}(?:at|by|around|for|from|exactly at)(?: about| around)? {_CLOCK}(?=\s|$)")
_IN = re.compile(rf"\b{_LINK}(?:in|after|within) (?P<length>{LENGTH})(?: time)?(?: from now)?\b")
_GIVEN = re.compile(rf"^(?:give (?:it|that|me|us)|wait(?: for)?) (?P<length>{LENGTH})$")
_FROM_NOW = re.compile(rf"\b{_LINK}(?P<length>{LENGTH}) from now\b")
_LATER = re.compile(
    rf"\b(?P<length>{LENGTH}) (?:later(?: on)?|after that|afterwards?|thereafter|after this|after)\b"
    rf"|\bafter another (?P<more>{LENGTH})\b|\banother (?P<further>{LENGTH}) later\b"
)
_FOR = re.compile(rf"\bfor (?:the next )?(?P<length>{LENGTH})\b")
_UNTIL = re.compile(
    rf"\b(?:but |and )?(?:keep|leave|have|let) (?:it|that|them|this)(?: stay| remain)? (?:on|off|open"
    rf"|closed|shut|down|up)"
    rf" (?:until|till|up to) {_CLOCK}(?=\s|$)"
)
_STILL = re.compile(
    r"\b(?:but |and )?(?:please )?(?:make sure|see to it|ensure|be sure|take care)(?: that)? (?:it"
    r"|that) (?:is|stays|remains) "
    r"(?:still )?(?:on|off|open|closed|shut)(?: (?:at that|at the|at this|right at that) (?:very "
    r"|same )?(?:minute|moment|time))?"
)
_TODAY = re.compile(r"\btoday\b")


@dataclass(frozen=True, slots=True)
class Timed:
    """A clause without its times. later_min: counted from the order before; for_min: undone after so long."""

    rest: str
    moment: Moment | None
    later_min: float | None = None
    for_min: float | None = None


def read_moment(clause: str, home: HomeWords) -> Timed:
    """Take all times out of a plain clause."""
    anchor = in_min = clock = until = later = lasting = None
    still = today = False
    if match := _STILL.search(clause):
        still, clause = True, _without(clause, match)
    if match := _UNTIL.search(clause):
        until, clause = _minute(match, home), _without(clause, match)
    for pattern in (_AFTER_END, _ANCHOR):
        match = pattern.search(clause)
        if match and anchor is None:
            found = find_device(match["anchor"].strip(), home)
            if found is not None and found.weight >= 1:
                anchor = found.device
                in_min = length_min(match["length"]) if match["length"] else 0.0
                clause = _without(clause, match)
    if match := _LATER.search(clause):
        later = length_min(match["length"] or match["more"] or match["further"])
        clause = _without(clause, match)
    for pattern in (_FROM_NOW, _IN, _GIVEN):
        match = pattern.search(clause)
        if match and in_min is None:
            in_min, clause = length_min(match["length"]), _without(clause, match)
    match = next(filter(_is_time, _AT.finditer(clause)), None)
    if match is not None:
        clock, clause = _minute(match, home), _without(clause, match)
    if match := _FOR.search(clause):
        lasting, clause = length_min(match["length"]), _without(clause, match)
    if match := _TODAY.search(clause):
        today, clause = True, _without(clause, match)
    some = clock is not None or in_min is not None or anchor is not None
    moment = None
    if some or until is not None or still:
        moment = Moment(clock, in_min, anchor, today, until, still)
    return Timed(clause, moment, later, lasting)


def length_min(words: str) -> float:
    """ "an hour and a half" -> 90."""
    fixed = {
        "half an hour": 30.0, "a half hour": 30.0, "half a minute": 0.5, "an hour": 60.0, "a minute": 1.0,
        "a couple of minutes": 2.0, "a few minutes": 5.0, "a moment": 1.0, "a while": 10.0,
        "a little while": 10.0,
    }  # fmt: skip
    if words in fixed:
        return fixed[words]
    if "quarter of an hour" in words or "quarter hour" in words or words.startswith("3 quarters"):
        return 45.0 if words.startswith("3") else 15.0
    numbers = [float(n) for n in re.findall(r"\d+", words)]
    if re.search(r"hour|hr", words):
        first = numbers.pop(0) if words[0].isdigit() else 1.0
        more = 30.0 if words.rfind("half") > 0 else 15.0 if "quarter" in words else sum(numbers)
        return 60.0 * first + more
    return numbers[0] / 60.0 if "sec" in words else numbers[0]


def _is_time(match: re.Match[str]) -> bool:
    """ "at 60" (percent) is no time; "at 6" is."""
    if match["named"] or match["run"] or match["before"] or match["part"] or match["minute"]:
        after = match.string[match.end() :]
        return not re.match(r" (?:percent|degrees?)\b", after) and _in_range(match)
    after = match.string[match.end() :]
    if re.match(r" (?:percent|degrees?|minutes?|hours?|volume|brightness|speed)\b", after):
        return False
    sure = "oclock" in match[0] or re.match(r".*\bby |.*\bat ", match[0]) is not None
    return sure and not match[0].startswith("for") and _in_range(match)


def _in_range(match: re.Match[str]) -> bool:
    if match["run"]:
        return int(match["run"][:-2]) < 24 and int(match["run"][-2:]) < 60
    return match["named"] is not None or int(match["hour"]) < 25


def _minute(match: re.Match[str], home: HomeWords) -> int:
    """Minutes after midnight of what _CLOCK matched."""
    part = match["part"] or ""
    if match["named"]:
        return 0 if "midnight" in match["named"] else 720
    if match["run"]:
        hour, minute = int(match["run"][:-2]), int(match["run"][-2:])
    else:
        hour, minute = int(match["hour"]), int(match["minute"] or 0)
    before = {"a quarter": 15, "quarter": 15, "half": 30}.get(match["before"] or "")
    if match["before"] and before is None:
        before = int(match["before"])
    offset = 0
    if before is not None:
        offset = -before if match["way"] in ("to", "before", "till") else before
    hours = hour % 12
    if "afternoon" in part or "evening" in part or part == "pm":
        base = 60 * (hours + 12)
    elif "morning" in part or part == "am":
        base = 720 if hour == 12 and offset < 0 else 60 * hours
    elif "night" in part:
        base = 60 * (hours + 12) if hours >= 6 else 60 * hours
    elif hour > 12 or hour == 0:
        base = 60 * hour
    else:
        return _next(60 * hours + minute + offset, home.now_min)
    return (base + minute + offset) % 1440


def _next(minute: int, now: int | None) -> int:
    """The next of the two times that "at half past nine" can mean; without a clock the waking one."""
    choices = [minute % 1440, (minute + 720) % 1440]
    if now is None:
        return next(choice for choice in choices if 420 <= choice < 1140)
    return min(choices, key=lambda choice: (choice - now) % 1440)


def _without(text: str, match: re.Match[str]) -> str:
    return " ".join((text[: match.start()] + " " + text[match.end() :]).split())
