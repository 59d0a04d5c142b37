"""What a recogniser may expect to hear in one home, and how near a reading is to it.

A recogniser gives its free readings; the expectation answers with whole requests that sound like them, one
for each meaning, nearest first. The recogniser compares those few on the sound itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from edge.language.home_words import HomeWords
from edge.language.intent import Intent
from edge.language.nouns import ROOM_WORDS
from edge.language.plain_text import spoken
from edge.language.request_grammar import rules
from edge.language.sounding import sounds_of_all
from edge.language.understand import understand
from edge.language.vocabulary import vocabulary
from edge.language.word_graph import WordGraph

PER_READING = 10  # sentences looked at for each reading
KEPT = 16  # readings whose sentences are kept
SAME = (
    0.012  # distance per sound up to which a reading is the sentence, for words that are written in two ways
)
# For a recogniser as what was said before: it makes a request that is hard to hear come out as one.
PROMPT = (
    "Turn off that humming device. Is the lamp on my right switched on? At half past nine in the morning,"
    " set my fan to forty percent. Close the blind as soon as the washing machine is done."
)


class RequestExpectation:
    """The requests of one home. Building it takes about 0.2 s; keep it."""

    def __init__(self, home: HomeWords) -> None:
        self.home = home
        self._graph = WordGraph(rules(home))
        self._known = frozenset(vocabulary(home))
        self._searched: dict[str, list[tuple[str, float]]] = {}

    prompt = PROMPT

    def said_so(self, reading: str) -> str | None:
        """The sentence of the grammar that a reading is ("off pause" for "of pause"), or a control word."""
        if understand(reading, self.home).control is not None:
            return reading
        for sentence, distance in self._search(spoken(reading))[:1]:
            if distance <= SAME and self.whole(sentence):
                return sentence
        return None

    def whole(self, reading: str) -> bool:
        """Whether the reading is a request or a control word in words that are expected, with nothing odd."""
        intent = understand(reading, self.home)
        if intent.control is not None:
            return True
        return intent.query is not None and not self.odd_words(reading) and _complete(intent)

    def odd_words(self, reading: str) -> list[str]:
        """Words of a reading that no request is expected to have."""
        return [word for word in spoken(reading).split() if word not in self._known]

    def _search(self, said: str) -> list[tuple[str, float]]:
        """Sentences near a reading with the distance per sound; those of the last few readings are kept."""
        if said not in self._searched:
            while len(self._searched) >= KEPT:
                del self._searched[next(iter(self._searched))]
            length = max(len(sounds_of_all(said)), 1)
            near = self._graph.nearest(said, PER_READING)
            self._searched[said] = [(sentence, distance / length) for sentence, distance in near]
        return self._searched[said]

    def nearest(self, readings: Sequence[str], count: int) -> list[tuple[str, float]]:
        """Up to `count` sentences of different meaning, with the distance per sound to a reading."""
        found: dict[str, float] = {}
        for said in dict.fromkeys(spoken(reading) for reading in readings):
            for sentence, distance in self._search(said):
                found[sentence] = min(distance, found.get(sentence, np.inf))
        meanings: dict[str, tuple[str, float]] = {}
        for sentence in sorted(found, key=lambda key: found[key]):
            intent = understand(sentence, self.home)
            if intent.query is not None and _complete(intent):
                meanings.setdefault(_meaning(intent), (sentence, found[sentence]))
            if len(meanings) >= count:
                break
        return list(meanings.values())


def _complete(intent: Intent) -> bool:
    """A question or order without a device is one that a word was lost from."""
    if intent.query == "Q4":
        return True
    device = intent.device
    if device is None or intent.confidence < 0.9:
        return False
    return device.known_name or device.name is None or device.name.startswith(ROOM_WORDS)


def _meaning(intent: Intent) -> str:
    device = None if intent.device is None else replace(intent.device, words="", noun=None)
    return repr(replace(intent, text="", device=device, confidence=1.0))


_BUILT: dict[tuple[object, ...], RequestExpectation] = {}
MOST_HOMES = 8


def expectation(home: HomeWords) -> RequestExpectation:
    """The expectation of a home, built once for the same devices, rooms and people."""
    key = (home.devices, tuple(home.rooms.items()), tuple(home.people.items()))
    if key not in _BUILT:
        while len(_BUILT) >= MOST_HOMES:
            del _BUILT[next(iter(_BUILT))]
        _BUILT[key] = RequestExpectation(home)
    return _BUILT[key]


def prepare() -> None:
    """Compile the search (some seconds after an installation), so that no first request waits for it."""
    WordGraph({"start": ("on",)}).nearest("on", 1)
