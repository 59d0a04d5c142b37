"""What was heard to its meaning, with how sure it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from edge.language.expectation import expectation
from edge.language.home_words import HomeWords
from edge.language.intent import Intent
from edge.language.understand import understand

FARTHEST = 0.16  # distance per sound of a sentence that is taken without comparing the sound again
LESS_SURE = 0.7


class Heard(Protocol):
    """A `edge.perception.speech.Recognition`."""

    @property
    def text(self) -> str: ...
    @property
    def confidence(self) -> float: ...
    @property
    def expected(self) -> bool | None: ...
    @property
    def alternatives(self) -> Sequence[tuple[str, float]]: ...


def understand_speech(heard: Heard, home: HomeWords) -> Intent:
    """The intent of a recognition; its confidence is that of the words and of their reading together.

    A recogniser that was given the home's expectation has compared what is near already (`expected` tells).
    For any other, a reading that is no whole request is taken for the nearest one that sounds almost like it.
    """
    intent = understand(heard.text, home)
    if heard.expected is None and heard.text:
        known = expectation(home)
        if not known.whole(heard.text):
            for sentence, distance in known.nearest([heard.text], 1):
                if distance <= FARTHEST:
                    found = understand(sentence, home)
                    sure = LESS_SURE * heard.confidence * found.confidence
                    return replace(found, text=heard.text, confidence=sure)
    if intent.query is None and intent.control is None and not intent.corrected:
        for text, loss in heard.alternatives:
            other = understand(text, home)
            if other.query is not None and other.confidence >= 0.9 and loss > -0.3:
                return replace(other, confidence=LESS_SURE * heard.confidence)
    return replace(intent, confidence=intent.confidence * heard.confidence)
