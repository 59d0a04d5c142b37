"""From words to a typed request: what to do, to which kind of device, told apart by what evidence.

A regular grammar over words (`edge.perception.wording`). What it does not cover is no request: None.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, Literal

from edge.perception.wording import (
    DEVICE_NOUNS,
    PLAIN_VERBS,
    POLITE_ENDS,
    POLITE_STARTS,
    SIDES,
    SOUND_WORDS,
    SPLIT_VERBS,
)

Action = Literal["on", "off", "silence", "pause"]
Side = Literal["left", "right"]


@dataclass(frozen=True, slots=True)
class Request:
    """What somebody asked for.

    grounding: G0 the device is named, G1 it is pointed at ("turn that off"), G2 it is told by its sound,
    G3 by the side it is on. noun, device_types: the word for the device and the types it can mean; name:
    it is the name of one device of this home. sound, sound_kind: the word for the sound and its kind.
    """

    text: str
    action: Action
    grounding: Literal["G0", "G1", "G2", "G3"]
    noun: str | None = None
    device_types: tuple[str, ...] = ()
    name: str | None = None
    sound: str | None = None
    sound_kind: str | None = None
    side: Side | None = None

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for traces."""
        return asdict(self)


def words_of(text: str) -> str:
    """Lower case, one blank between words, no punctuation: "T.V., please!" -> "tv please"."""
    text = text.lower().replace("’", "'")
    text = re.sub(r"\b([a-z])\.(?=[a-z]\b)\.?", r"\1", text)
    text = re.sub(r"['.](?=[a-z]\b)", "", text)
    return " ".join(re.findall(r"[a-z0-9]+", text))


def without_politeness(words: str) -> str:
    """ "could you please turn off the fan now" -> "turn off the fan"."""
    start = re.compile(rf"^(?:{_any(POLITE_STARTS)}) (?=.)")
    end = re.compile(rf"(?<=.) (?:{_any(POLITE_ENDS)})$")
    while True:
        shorter = end.sub("", start.sub("", words))
        if shorter == words:
            return words
        words = shorter


def parse_request(text: str, device_names: Iterable[str] = ()) -> Request | None:
    """Read a sentence. device_names: the names that devices of this home have, e.g. "reading lamp".

    Returns None for what is no request, or one that these words do not cover.
    """
    words = without_politeness(words_of(text))
    names = {words_of(name): name for name in device_names}
    for action, rest in _actions(words):
        found = _object(rest, names)
        if found is not None and _sensible(action, found):
            return Request(text=text.strip(), action=action, **found)
    return None


def _actions(words: str) -> Iterable[tuple[Any, str]]:
    """Every reading of the verb: (action, the words between or after)."""
    for verb in sorted(PLAIN_VERBS, key=len, reverse=True):
        if words.startswith(verb + " "):
            yield PLAIN_VERBS[verb], words[len(verb) + 1 :]
    for (verb, end), action in SPLIT_VERBS.items():
        if words.startswith(verb + " ") and words.endswith(" " + end):
            yield action, words[len(verb) + 1 : -len(end) - 1]
        # "turn the light off on my right"
        middle = re.match(rf"^{verb} (.*) {end} ((?:on|to|at) .*)$", words)
        if middle:
            yield action, f"{middle[1]} {middle[2]}"


def _object(words: str, names: dict[str, str]) -> dict[str, Any] | None:
    which = r"(?:(?:that|this|the|those|these|my|our|all the) )?"
    how = r"(?:(?:annoying|loud|awful|terrible) )?"
    sounds = re.fullmatch(rf"{which}{how}(?P<sound>{_any(SOUND_WORDS)})(?: (?:noise|sound)s?)?", words)
    if sounds:
        word = sounds["sound"]
        return {"grounding": "G2", "sound": word, "sound_kind": SOUND_WORDS[word]}
    if re.fullmatch(r"(?:that|this|it)(?: (?:one|thing|device))?(?: (?:there|over there))?", words):
        return {"grounding": "G1"}
    nouns = _any([*names, *DEVICE_NOUNS])
    side = _any(SIDES)
    behind = (
        rf"(?: (?:that is |thats |which is )?(?:on|to|at) (?:my|the) (?P<side>{side})(?: (?:hand )?side)?)?"
    )
    device = re.fullmatch(rf"{which}(?:(?P<before>{side})(?: hand)? )?(?P<noun>{nouns}){behind}", words)
    if device is None or (device["before"] and device["side"] and device["before"] != device["side"]):
        return None
    noun = device["noun"]
    name = names.get(noun)
    where = device["side"] or device["before"]
    return {
        "grounding": "G3" if where else "G0",
        "noun": noun,
        "device_types": () if name else DEVICE_NOUNS[noun],
        "name": name,
        "side": where,
    }


def _sensible(action: str, found: dict[str, Any]) -> bool:
    """Sounds are ended, not switched on ("start the music" names what plays it, and is not covered)."""
    return not (found["grounding"] == "G2" and action == "on")


def _any(words: Iterable[str]) -> str:
    return "|".join(re.escape(word) for word in sorted(words, key=len, reverse=True))
