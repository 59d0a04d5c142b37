"""Profile book: open set, consent, forgetting. Truth: vectors at known angles and distances."""

from __future__ import annotations

import stat
from datetime import date
from pathlib import Path

import numpy as np
import pytest

from dsp.errors import InputError
from edge.perception.profiles import Identity, Measure, ProfileBook
from recordings.consent.book import ConsentBook

VOICE = Measure("voice", "d-vector", "ab" * 32, "cosine", 0.8, 0.05)
FACE = Measure("face", "resnet", "cd" * 32, "distance", 0.4)


def at(degrees: float) -> np.ndarray:
    """A vector in the plane at this angle; its length must not matter for a cosine."""
    return 3.0 * np.array([np.cos(np.radians(degrees)), np.sin(np.radians(degrees))])


def test_cosine_is_that_of_the_mean_direction_and_far_ones_are_unknown():
    book = ProfileBook()
    book.enrol("anna", VOICE, [at(-10), at(10)])
    book.enrol("ben", VOICE, [at(90)])
    near = book.identify(at(30), VOICE)
    assert near.person == "anna" and near.score == pytest.approx(np.cos(np.radians(30)))
    assert [name for name, _ in near.candidates] == ["anna", "ben"]
    between = book.identify(at(45), VOICE)
    assert not between.known and between.score == pytest.approx(np.cos(np.pi / 4))
    assert not book.identify(at(180), VOICE).known


def test_two_that_are_as_near_are_not_told_apart():
    book = ProfileBook()
    book.enrol("anna", VOICE, [at(0)])
    book.enrol("ben", VOICE, [at(20)])
    assert book.identify(at(0), VOICE).person == "anna"
    assert not book.identify(at(10), VOICE).known, "both score cos 10 degrees: the lead is 0"


def test_distance_is_to_the_nearest_template():
    book = ProfileBook()
    book.enrol("anna", FACE, [[0.0, 0.0], [2.0, 0.0]])
    found = book.identify([2.0, 0.5], FACE)
    assert found.person == "anna" and found.score == pytest.approx(0.5)
    assert not book.identify([2.0, 0.7], FACE).known


def test_nobody_enrolled_and_other_models_are_no_match():
    book = ProfileBook()
    book.enrol("anna", VOICE, [at(0)])
    newer = Measure("voice", "d-vector", "ff" * 32, "cosine", 0.8)
    assert book.identify(at(0), newer) == Identity(None, -1.0, (), 0.8)
    assert book.people(VOICE) == ("anna",) and book.people(newer) == ()
    with pytest.raises(InputError, match="not"):
        book.identify([1.0, 0.0, 0.0], VOICE)
    with pytest.raises(InputError, match="nothing to enrol"):
        book.enrol("ben", VOICE, [])


def test_templates_need_consent_and_go_when_it_is_withdrawn(tmp_path: Path):
    consent = ConsentBook.open(tmp_path)
    consent.add("anna", ["biometrics"], form="paper", given=date(2020, 1, 1), until=date(2099, 1, 1))
    consent.add("ben", ["recording"], form="paper", given=date(2020, 1, 1), until=date(2099, 1, 1))
    book = ProfileBook.open(tmp_path)
    book.enrol("anna", VOICE, [at(0)])
    with pytest.raises(InputError, match="not agreed to biometrics"):
        book.enrol("ben", VOICE, [at(90)])
    assert book.people(VOICE) == ("anna",), "what was refused is not kept in memory either"
    (file,) = (tmp_path / "biometrics" / "anna").iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600 and VOICE.sha256[:16] in file.read_text()

    again = ProfileBook.open(tmp_path)
    assert again.identify(at(5), VOICE).person == "anna"
    ConsentBook.open(tmp_path).withdraw_use("anna", ["biometrics"])
    again.reload()
    assert not again.identify(at(5), VOICE).known and again.without_consent == ("anna",)
    assert again.delete("anna") and not file.exists()
    assert not again.delete("anna")


def test_virtual_people_are_not_asked_but_never_beside_real_ones(tmp_path: Path):
    book = ProfileBook.open(tmp_path / "virtual", virtual=True)
    book.enrol("p1", VOICE, [at(0)])
    assert ProfileBook.open(tmp_path / "virtual", virtual=True).people(VOICE) == ("p1",)
    with pytest.raises(InputError, match="no name"):
        book.enrol("../p1", VOICE, [at(0)])
    ConsentBook.open(tmp_path / "real").add("anna", ["biometrics"], form="paper", until=date(2099, 1, 1))
    with pytest.raises(InputError, match="real people"):
        ProfileBook.open(tmp_path / "real", virtual=True)
