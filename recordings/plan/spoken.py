"""Numbers and times as people say them; a voice that reads them and a recogniser that writes them agree."""

from __future__ import annotations

_ONES = (
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
    "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen",
)  # fmt: skip
_TENS = ("zero", "ten", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")


def number(value: int) -> str:
    """A whole number from -999 to 999 in words."""
    if value < 0:
        return f"minus {number(-value)}"
    if value < 20:
        return _ONES[value]
    if value < 100:
        ones = value % 10
        return _TENS[value // 10] + (f"-{_ONES[ones]}" if ones else "")
    hundreds, rest = divmod(value, 100)
    return f"{_ONES[hundreds]} hundred" + (f" and {number(rest)}" if rest else "")


def percent(value: int) -> str:
    """ "sixty percent"."""
    return f"{number(value)} percent"


def degrees(value: int) -> str:
    """ "twenty-two degrees"."""
    return f"{number(value)} {'degree' if abs(value) == 1 else 'degrees'}"


def minutes(value: int) -> str:
    """A length of time: "twenty minutes", "half an hour", "an hour and a half"."""
    names = {30: "half an hour", 60: "an hour", 90: "an hour and a half", 120: "two hours"}
    return names.get(value) or f"{number(value)} minutes"


def clock_time(minute_of_day: int) -> str:
    """ "twenty past nine in the morning"; never ambiguous between morning and evening."""
    hour, minute = divmod(minute_of_day % 1440, 60)
    part = "in the morning" if 4 <= hour < 12 else "in the afternoon" if 12 <= hour < 18 else "in the evening"
    if hour >= 22 or hour < 4:
        part = "at night"

    def named(h: int) -> str:
        return _ONES[(h - 1) % 12 + 1]

    if (hour, minute) == (12, 0):
        return "twelve noon"
    if minute == 0:
        return f"{named(hour)} o'clock {part}"
    if minute == 15:
        return f"a quarter past {named(hour)} {part}"
    if minute == 30:
        return f"half past {named(hour)} {part}"
    if minute == 45:
        return f"a quarter to {named(hour + 1)} {part}"
    if minute < 30:
        return f"{number(minute)} past {named(hour)} {part}"
    return f"{number(60 - minute)} to {named(hour + 1)} {part}"
