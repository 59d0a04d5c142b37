"""Text as the grammar reads it: lower-case words, numbers as digits, one blank between them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

_ONES = (
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
    "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen",
)  # fmt: skip
_TENS = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
_VALUES = {
    **{word: value for value, word in enumerate(_ONES)},
    **{word: 20 + 10 * place for place, word in enumerate(_TENS)},
    "fourty": 40,
}
# "one" after these words stands for a thing: "that one", "the other one".
_ONE_IS_A_THING = {
    "that", "this", "the", "other", "another", "which", "these", "those", "left", "right", "wrong", "first",
    "second", "same", "my", "own", "big", "small", "no", "any", "every", "some", "turn", "switch",
}  # fmt: skip
_ONE_IS_A_NUMBER = {
    "percent", "degree", "degrees", "hour", "hours", "minute", "minutes", "second", "seconds", "oclock", "am",
    "pm", "hundred", "quarter",
}  # fmt: skip


def plain(text: str) -> str:
    """ "T.V. to 45%, please, at a quarter past 3 p.m.!" -> "tv to 45 percent please at a quarter past 3 pm".

    Numbers in words become digits ("one hundred and thirty" -> "130", "minus five" -> "-5"); the "one" of
    "that one" stays. Clock times keep their colon: "14:20".
    """
    text = text.lower().replace("’", "'").replace("é", "e")
    text = re.sub(r"\b([ap])\. ?m\b\.?", r"\1m", text)
    text = re.sub(r"\b([a-z])\.(?=[a-z]\b)\.?", r"\1", text)  # t.v. -> tv
    text = re.sub(r"(?<=\d) ?%", " percent ", text)
    text = re.sub(r"(?<=\d) ?(?:°|º)(?: ?c(?:elsius)?\b)?", " degrees ", text)
    text = re.sub(r"(?<=\d)(?=[ap]m\b)", " ", text)
    text = re.sub(r"(?<=\d):(?=\d)", "\x00", text)
    text = re.sub(r"(?<![\w-])-(?=\d)", "\x01", text)  # -5
    text = re.sub(r"\b(\d+)\.0\b", r"\1", text)
    text = re.sub(r"(?<=\d)\.(?=\d\d\b)", "\x00", text)  # 4.20 as a clock time
    text = text.replace("'", "")
    words = re.findall(r"[a-z]+|\x01?\d+(?:\x00\d+)?", text)
    words = [w.replace("\x00", ":").replace("\x01", "-") for w in words]
    said = " ".join(_numbers(words))
    # A hundred and thirty percent, as recognisers write it: "100 and 30%", "100% and 30%".
    return re.sub(r"\b([1-9]00)(?: percent)? and (\d\d?)\b(?= percent)", _added, said)


def _added(match: re.Match[str]) -> str:
    return str(int(match[1]) + int(match[2]))


def _numbers(words: list[str]) -> list[str]:
    found: list[str] = []
    at = 0
    while at < len(words):
        value, used = _number(words, at)
        if used == 0:
            found.append(words[at])
            at += 1
            continue
        if found and found[-1] == "minus":
            found[-1] = str(-value)
        else:
            found.append(str(value))
        at += used
    return found


def _number(words: list[str], at: int) -> tuple[int, int]:
    """The number that begins at `at`, and how many words it has; 0 words: none."""
    value, used = _below_hundred(words, at)
    if used == 1 and value == 1 and words[at] == "one" and not _is_number(words, at):
        return 0, 0
    hundreds = at + used
    if words[at : at + 2] == ["a", "hundred"]:
        value, used, hundreds = 1, 1, at + 1
    if used and value < 10 and words[hundreds : hundreds + 1] == ["hundred"]:
        used, value = used + 1, 100 * value
        link = 1 if words[at + used : at + used + 1] == ["and"] else 0
        more, extra = _below_hundred(words, at + used + link)
        if extra:
            return value + more, used + link + extra
    return value, used


def _below_hundred(words: list[str], at: int) -> tuple[int, int]:
    if at >= len(words):
        return 0, 0
    if words[at].isdigit():
        return int(words[at]), 1
    value = _VALUES.get(words[at])
    if value is None:
        return 0, 0
    if value >= 20 and at + 1 < len(words):
        ones = _VALUES.get(words[at + 1], 0)
        if 0 < ones < 10:
            return value + ones, 2
    return value, 1


def _is_number(words: list[str], at: int) -> bool:
    if at + 1 < len(words) and words[at + 1] in _ONE_IS_A_NUMBER:
        return True
    before = words[at - 1] if at else ""
    if before in ("to", "past") and at >= 2:  # "five to one", but not "change to one"
        return words[at - 2].isdigit() or words[at - 2] in _VALUES or words[at - 2] in ("quarter", "half")
    return before in ("at", "until", "till") and (at + 2 >= len(words) or words[at + 1] in ("in", "today"))


_POLITE_STARTS = (
    "please", "hey", "hi", "hello", "hearth", "ok", "okay", "well", "so", "um", "uh", "oh", "and", "now",
    "just",
    "right now", "quickly", "listen", "excuse me", "sorry", "if possible", "if you can", "if you could",
    "can you", "could you", "would you", "will you", "wont you", "can we", "could we", "can i ask you to",
    "could i ask you to", "may i ask you to", "would you mind", "do you mind",
    "i want you to", "i would like you to", "id like you to", "i need you to", "i want to", "i would like to",
    "id like to", "i wish you would", "i d like you to", "you should", "you can", "you could", "you must",
    "we need to", "we should", "lets", "let us", "be so kind and", "be so kind as to", "be so kind to",
    "be kind and", "do me a favour and", "do me a favor and", "do me a favour", "do me a favor",
    "go ahead and",
    "go and", "remember to", "dont forget to", "make sure to", "be sure to", "try to",
    "would you be so kind and",
    "would you be so kind as to", "would it be possible to", "is it possible to", "it would be nice to",
    "help me and", "kindly", "for me",
)  # fmt: skip
_POLITE_ENDS = (
    "please", "now", "right now", "thanks", "thank you", "for me", "will you", "would you", "could you",
    "can you", "at once", "right away", "immediately", "straight away", "if you can", "if you could",
    "if you would", "if possible", "hearth", "okay", "ok", "my dear", "dear", "thank you very much", "cheers",
)  # fmt: skip
_START = re.compile(rf"^(?:{'|'.join(sorted(_POLITE_STARTS, key=len, reverse=True))}) (?=.)")
_END = re.compile(rf"(?<=.)(?<! from) (?:{'|'.join(sorted(_POLITE_ENDS, key=len, reverse=True))})$")


_GERUNDS = {
    "turning": "turn", "switching": "switch", "setting": "set", "putting": "put", "closing": "close",
    "opening": "open", "pausing": "pause", "stopping": "stop", "dimming": "dim", "running": "run",
    "playing": "play", "shutting": "shut", "starting": "start", "making": "make", "checking": "check",
    "telling": "tell", "keeping": "keep", "letting": "let", "taking": "take", "bringing": "bring",
    "raising": "raise", "lowering": "lower", "locking": "lock", "unlocking": "unlock", "muting": "mute",
    "resuming": "resume", "leaving": "leave", "having": "have",
}  # fmt: skip


def bare(words: str) -> str:
    """Without what is only polite: "would you mind turning off the fan now" -> "turn off the fan"."""
    while True:
        shorter = _END.sub("", _START.sub("", words))
        if shorter == words:
            first, _, rest = words.partition(" ")
            return f"{_GERUNDS[first]} {rest}" if first in _GERUNDS and rest else words
        words = shorter


def any_of(words: Iterable[str]) -> str:
    """A regular expression for any of these words, longest first."""
    return _any_of(tuple(words))


@lru_cache(maxsize=256)
def _any_of(words: tuple[str, ...]) -> str:
    return "|".join(re.escape(word) for word in sorted(words, key=len, reverse=True))


def spoken(text: str) -> str:
    """As it is said, for comparing sounds: "45% at 9:30 pm" -> "forty five percent at nine thirty pm"."""
    words = []
    for word in plain(text).split():
        parts = word.removeprefix("-").split(":")
        if not parts[0].isdigit():
            words.append(word)
            continue
        words += ["minus"] * word.startswith("-")
        words += [in_words(int(part)) for part in parts if part.isdigit() and part != "00"]
    return " ".join(words)


def in_words(value: int) -> str:
    """A whole number from 0 to 9999 in words; times like 930 as "nine thirty"."""
    if value < 20:
        return _ONES[value]
    if value < 100:
        return _TENS[value // 10 - 2] + (f" {_ONES[value % 10]}" if value % 10 else "")
    hundreds, rest = divmod(value, 100)
    if value >= 1000 or (rest and value > 300):
        return f"{in_words(min(hundreds, 99))} {in_words(rest)}".strip()
    return f"{_ONES[hundreds]} hundred" + (f" and {in_words(rest)}" if rest else "")
