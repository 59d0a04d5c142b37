"""Retention and biometrics: what is past its date goes with everything made of it; templates need consent."""

from __future__ import annotations

import stat
from datetime import date
from pathlib import Path

import numpy as np
import pytest

from dsp.errors import InputError
from recordings.consent.audit import read_audit
from recordings.consent.biometrics import Biometrics
from recordings.consent.book import ConsentBook
from recordings.consent.due import delete_due, list_due
from recordings.storage import sha256_file
from tests.recordings.test_consent_withdraw import episode, release

UNTIL = date(2026, 12, 24)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Anna's consent ends at Christmas, Ben's years later; carl is not listed."""
    data = tmp_path / "data"
    book = ConsentBook.open(data)
    book.add("anna", ["recording", "biometrics"], form="paper", given=date(2026, 11, 1), until=UNTIL)
    book.add(
        "ben", ["recording"], form="paper", given=date(2026, 11, 1), until=date(2030, 1, 1), witness="anna"
    )
    made = [episode(data, "ep0001-t1", "anna"), episode(data, "ep0002-t1", "ben")]
    made.append(episode(data, "ep0003-t1", "ben", "carl"))
    release(tmp_path / "out", made)
    return data


def test_days_are_the_earliest_of_all_who_are_in_it(data: Path):
    report = list_due(data, date(2026, 12, 8))
    assert [(one.path.name, one.last_day.isoformat(), one.why) for one in report.due] == [
        ("ep0003-t1", "2026-12-07", "carl is not listed")
    ]
    assert [(one.path.name, one.last_day) for one in report.coming] == [
        ("ep0001-t1", UNTIL),
        ("ep0002-t1", date(2030, 1, 1)),
    ]
    assert list_due(data, date(2026, 12, 7)).due == [], "the last day still counts"


def test_what_is_past_its_date_goes_with_all_that_was_made_of_it(data: Path):
    out = data.parent / "out"
    gone = {sha256_file(p) for p in (data / "day1" / "ep0001-t1").rglob("*.[wm]*") if p.is_file()}
    gone.add(sha256_file(out / "audio" / "day1_ep0001-t1.wav"))
    kept = sha256_file(data / "day1" / "ep0002-t1" / "foa_48k" / "0001.wav")
    report = delete_due(data, also=[out], at=date(2026, 12, 25))
    assert report.deleted and len(report.due) == 2, report.outcome
    left = {sha256_file(p) for root in (data, out) for p in root.rglob("*") if p.is_file()}
    assert not left & gone and kept in left
    assert "anna" in (data / "day1" / "ep0002-t1" / "episode.yaml").read_text(), "nobody withdrew: names stay"
    assert (out / "metadata.csv").read_text().count("\n") == 2
    lines, problems = read_audit(data / "consent" / "audit.jsonl")
    assert problems == [] and (lines[-1]["action"], lines[-1]["episodes"]) == ("retention_deleted", 2)
    assert delete_due(data, also=[out], at=date(2026, 12, 25)).due == []
    assert list((data / "consent" / "withdrawals").iterdir()) == []


def test_templates_need_consent_and_are_private(data: Path):
    store = Biometrics(data)
    on = date(2026, 11, 30)
    path = store.put("anna", "voice", np.arange(4), "d-vector 0.2.0", at=on)
    store.put("anna", "face", np.ones(3), "dlib", at=on)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600 and stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert [(t.kind, t.vector.tolist()) for t in store.of("anna", at=on)] == [
        ("face", [1.0, 1.0, 1.0]),
        ("voice", [0.0, 1.0, 2.0, 3.0]),
    ]
    assert [t.model for t in store.of("anna", "voice", at=on)] == ["d-vector 0.2.0"]
    for person, match in (("ben", "not agreed"), ("carl", "not listed")):
        with pytest.raises(InputError, match=match):
            store.put(person, "face", [1.0], "dlib", at=on)
    with pytest.raises(InputError, match="ended"):
        list(store.of("anna", at=date(2026, 12, 25)))
    for vector in ([], [np.nan], [[1.0]]):
        with pytest.raises(InputError, match="vector"):
            store.put("anna", "face", vector, "dlib", at=on)
    assert store.without_consent(on) == [] and store.without_consent(date(2027, 1, 1)) == [path.parent]
    assert store.forget("anna") and not path.exists() and not store.forget("anna")


def test_a_witness_who_withdraws_stands_under_a_pseudonym(data: Path):
    book = ConsentBook.open(data)
    anna = book.find("anna")
    assert anna is not None
    book.forget(anna.pseudonym, "withdrawal_done")
    ben = ConsentBook.open(data).find("ben")
    assert ben is not None and ben.uses["recording"].witness == anna.pseudonym


def test_a_link_to_episodes_elsewhere_is_named(data: Path):
    elsewhere = episode(data.parent / "disk", "ep0009-t1", "anna", session="day9")
    (data / "day9").symlink_to(elsewhere.parent)
    for report in (list_due(data, date(2026, 12, 1)), delete_due(data, at=date(2026, 12, 1))):
        assert [path for path, _ in report.outcome.left] == [str(data / "day9")] and not report.deleted
