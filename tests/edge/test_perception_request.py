"""Words to requests: what is covered, what is not, and how near-misses are found by sound."""

from __future__ import annotations

import pytest

from edge.perception.phonetic import Lexicon, distance
from edge.perception.request import parse_request, without_politeness, words_of
from edge.perception.wording import sentences

NAMES = ("floor lamp", "reading lamp", "Desk Fan")


@pytest.mark.parametrize(
    ("text", "action", "grounding", "what"),
    [
        ("Silence that humming.", "silence", "G2", "hum"),
        ("Please stop that beeping!", "silence", "G2", "beep"),
        ("Turn off that music", "off", "G2", "music"),
        ("turn that music off", "off", "G2", "music"),
        ("Make that rattling stop.", "silence", "G2", "spin"),
        ("Could you turn off that awful humming noise, please?", "off", "G2", "hum"),
        ("Pause the music.", "pause", "G2", "music"),
        ("Turn on the light on my right.", "on", "G3", "right"),
        ("Switch the lamp off on my left", "off", "G3", "left"),
        ("turn off the left fan", "off", "G3", "left"),
        ("I'd like you to turn on the light to my right hand side now", "on", "G3", "right"),
        ("Turn on the reading lamp.", "on", "G0", "reading lamp"),
        ("Turn off the desk fan on my left", "off", "G3", "left"),
        ("Turn off the T.V.", "off", "G0", "tv"),
        ("Turn that off.", "off", "G1", None),
    ],
)
def test_requests(text: str, action: str, grounding: str, what: str | None) -> None:
    request = parse_request(text, NAMES)
    assert request is not None
    assert (request.action, request.grounding) == (action, grounding)
    if what is not None:
        assert what in (request.sound_kind, request.side, request.noun)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Silence is golden.",
        "I turned on the light yesterday.",
        "The music was very loud last night.",
        "Stop the bus at the next corner.",
        "Turn left at the traffic light.",
        "Turn on the left light on my right.",  # contradicts itself
        "Turn on that humming.",  # a sound can only be ended
        "The light on my right",
        "Turn on the",
        "Dinner will be ready in about twenty minutes.",
    ],
)
def test_what_is_no_request(text: str) -> None:
    assert parse_request(text, NAMES) is None


def test_names_of_the_home_beat_general_nouns() -> None:
    request = parse_request("turn off the desk fan", NAMES)
    assert request is not None
    assert (request.name, request.device_types) == ("Desk Fan", ())
    general = parse_request("turn off the fan", NAMES)
    assert general is not None
    assert (general.name, general.device_types) == (None, ("fan",))


def test_words_and_politeness() -> None:
    assert words_of("Could you, please, turn off the A.C.?") == "could you please turn off the ac"
    assert without_politeness("could you please turn off the ac now thank you") == "turn off the ac"
    assert without_politeness("please") == "please"


def test_every_sentence_that_a_recogniser_is_told_to_expect_is_a_request() -> None:
    expected = sentences(NAMES)
    assert len(expected) == len(set(expected)) > 1000
    refused = [s for s in expected if parse_request(s, NAMES) is None]
    assert refused == []


def test_sides_and_actions_are_never_swapped() -> None:
    for sentence in sentences(NAMES):
        request = parse_request(sentence, NAMES)
        assert request is not None
        words = sentence.split()
        assert (request.side == "left") == ("left" in words)
        assert (request.side == "right") == ("right" in words)
        if request.action == "on":
            assert "off" not in words


def test_distance_is_a_distance() -> None:
    assert distance("stop that humming", "stop that humming") == 0
    assert distance("beeping", "leaving") == pytest.approx(distance("leaving", "beeping"))
    assert distance("beeping", "peeping") < distance("beeping", "humming")
    assert distance("coming", "humming") < distance("coming", "beeping")


def test_misheard_sentences_find_what_was_said() -> None:
    """Mishearings of real recognisers (see docs/agent.md): what was said is on the short list."""
    lexicon = Lexicon(sentences(NAMES))
    for heard, said in (
        ("so thats that humming", "silence that humming"),
        ("stop not leaving", "stop that beeping"),
        ("stop making music", "stop that music"),
        ("turn off the fan on my ride", "turn off the fan on my right"),
        ("till that rattling", "kill that rattling"),
    ):
        assert said in [sentence for sentence, _ in lexicon.nearest([heard], 20)], heard
    assert lexicon.nearest(["till that rattling"], 1)[0][0] == "kill that rattling"
    assert lexicon.nearest([""], 3) == []
