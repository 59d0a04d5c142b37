"""Misheard requests: the search by sound, and what is taken of it."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from edge.language import HomeWords, understand, understand_speech
from edge.language.expectation import expectation
from edge.language.home_words import NamedDevice
from edge.language.sounding import COST, GAP, distance, sounds
from edge.language.word_graph import WordGraph
from edge.perception.speech import Recognition

HOME = HomeWords(
    (
        NamedDevice("l1", "on_off_light", "desk lamp", "study"),
        NamedDevice("b1", "window_covering", "street blind", "living_room"),
        NamedDevice("r1", "refrigerator", "big fridge", "kitchen"),
        NamedDevice("m1", "microwave", "big microwave", "kitchen"),
    ),
    {"living room": "living_room", "kitchen": "kitchen", "study": "study"},
    {"anna": "anna"},
    "study",
    600,
)
RULES = {"start": ("[please] (turn|switch) <what> (on|off)",), "what": ("that", "the (lamp|fan|desk lamp)")}
SENTENCES = [
    " ".join(part for part in (please, verb, what, way) if part)
    for please, verb, what, way in itertools.product(
        ("", "please"), ("turn", "switch"), ("that", "the lamp", "the fan", "the desk lamp"), ("on", "off")
    )
]


def edits(one: str, other: str) -> float:
    """Weighted edit distance over sounds, word by word: the textbook recurrence, in full."""
    a = np.concatenate([sounds(word) for word in one.split()])
    b = np.concatenate([sounds(word) for word in other.split()])
    table = np.zeros((len(a) + 1, len(b) + 1))
    table[1:, 0] = np.cumsum(GAP[a])
    table[0, 1:] = np.cumsum(GAP[b])
    for i, j in itertools.product(range(1, len(a) + 1), range(1, len(b) + 1)):
        table[i, j] = min(
            table[i - 1, j] + GAP[a[i - 1]],
            table[i, j - 1] + GAP[b[j - 1]],
            table[i - 1, j - 1] + COST[a[i - 1], b[j - 1]],
        )
    return float(table[-1, -1])


@pytest.mark.parametrize(
    "heard", ["turn the dam off", "please swish that on", "learn the death clamp of", "fan"]
)
def test_the_graph_finds_what_a_search_of_all_sentences_finds(heard: str) -> None:
    found = WordGraph(RULES).nearest(heard, 5)
    by_hand = sorted(edits(heard, sentence) for sentence in SENTENCES)
    assert found[0][1] == pytest.approx(by_hand[0], abs=1e-4)
    for sentence, far in found:
        assert sentence in SENTENCES
        assert far == pytest.approx(edits(heard, sentence), abs=1e-3)


def test_each_word_has_its_best_sentence() -> None:
    found = WordGraph(RULES).nearest("turn the lamp off", 20)
    assert found[0] == ("turn the lamp off", pytest.approx(0))
    assert {word for sentence, _ in found for word in sentence.split()} == {
        "please", "turn", "switch", "that", "the", "lamp", "fan", "desk", "on", "off",
    }  # fmt: skip


def test_patterns_that_are_none() -> None:
    with pytest.raises(ValueError, match="unbalanced"):
        WordGraph({"start": ("turn (on|off",)})
    with pytest.raises(KeyError):
        WordGraph({"start": ("<nowhere>",)})
    assert WordGraph(RULES).nearest("?", 3) == []


def test_alike_sounds_cost_less() -> None:
    assert distance("bed", "bed") == 0
    assert distance("bed", "pet") < distance("bed", "bus")


@pytest.mark.parametrize(
    ("misheard", "meant"),
    [
        ("Please switch of the best lamp in the study.", "Switch off the desk lamp in the study."),
        ("Is whatever is leaping still working or paused?", "Is whatever is beeping working or paused?"),
        ("I would like you to leave the street lined half closed.", "Leave the street blind half closed."),
        ("Set the big french to 4 degrees once a big microwave is done.",
         "Set the big fridge to four degrees once the big microwave is done."),
        ("Set the volume of the thing that is making music to 100 and 30%.",
         "Set the volume of the thing that is making music to 130 percent."),
    ],
)  # fmt: skip
def test_what_was_misheard_is_understood(misheard: str, meant: str) -> None:
    """By words alone, as for a recogniser of one's own, which compares no sound."""
    heard, said = understand_speech(Recognition(misheard, 0.8), HOME), understand(meant, HOME)
    assert heard.query == said.query
    assert heard.inquiry == said.inquiry
    assert [o.change for o in heard.orders] == [o.change for o in said.orders]
    assert heard.device is not None
    assert said.device is not None
    for slot in ("grounding", "name", "room", "sound", "side"):
        assert getattr(heard.device, slot) == getattr(said.device, slot)
    assert heard.confidence <= 0.8


@pytest.mark.parametrize(
    "text", ["Dinner will be ready at seven.", "It looks like rain again.", "Good night."]
)
def test_other_talk_stays_what_it_is(text: str) -> None:
    intent = understand_speech(Recognition(text, 0.9), HOME)
    assert (intent.query, intent.text) == (None, text)


def test_nearest_gives_one_sentence_for_each_meaning() -> None:
    known = expectation(HOME)
    assert expectation(HOME) is known
    found = known.nearest(["could you turn of the best lamp"], 4)
    assert found[0][0] == "could you turn off the desk lamp"
    meanings = [str(understand(sentence, HOME)) for sentence, _ in found]
    assert len(set(meanings)) == len(found)
    assert known.said_so("Could you turn of the desk lamp?") == "could you turn off the desk lamp"
    assert known.said_so("Could you turn off the best lamp?") is None
    assert known.said_so("Never mind.") == "Never mind."
    assert known.odd_words("turn off the zebra") == ["zebra"]
