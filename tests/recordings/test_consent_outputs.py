"""Exports and results outside the data folder are searched without being named; what is not found is told."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path

import pytest

from dsp.errors import InputError
from recordings.consent.book import ConsentBook
from recordings.consent.due import delete_due
from recordings.consent.outputs import note_outputs, noted_outputs
from recordings.consent.withdraw import come_back, withdraw
from tests.recordings.test_consent_withdraw import episode, release


def nothing(_: float) -> None:
    return None


@pytest.fixture
def data(tmp_path: Path) -> Path:
    data = tmp_path / "data"
    book = ConsentBook.open(data)
    book.add("anna", ["recording"], form="paper", given=date(2020, 1, 1), until=date(2030, 1, 1))
    book.add("ben", ["recording"], form="paper", given=date(2020, 1, 1), until=date(2021, 1, 1))
    both = [episode(data, "ep0001-t1", "anna"), episode(data, "ep0002-t1", "ben")]
    note_outputs(both, tmp_path / "out", "export audiofolder")
    note_outputs(both, tmp_path / "out", "export audiofolder")
    release(tmp_path / "out", both)
    return data


def test_a_noted_folder_is_searched_by_itself(data: Path, tmp_path: Path):
    (line,) = (data / "consent" / "outputs.jsonl").read_text().splitlines()
    told = json.loads(line)
    assert set(told) == {"out", "what", "utc"} and told["out"] == str(tmp_path / "out")
    report = withdraw(data, "anna")
    assert (
        report.done and sorted(report.searched) == [str(data), str(tmp_path / "out")] and not report.not_found
    )
    assert [p.name for p in (tmp_path / "out" / "audio").iterdir()] == ["day1_ep0002-t1.wav"]
    assert come_back(data, [], nothing).searched == report.searched
    assert delete_due(data, at=date(2022, 1, 1)).deleted
    assert not list((tmp_path / "out").rglob("*.wav"))


def test_it_is_not_done_while_a_noted_folder_is_not_found(data: Path, tmp_path: Path):
    (tmp_path / "out").rename(tmp_path / "elsewhere")
    report = withdraw(data, "anna")
    assert not report.done and report.not_found == [str(tmp_path / "out")] and not report.outcome.left
    assert come_back(data, [], nothing).not_found == report.not_found
    report = withdraw(data, "anna", also=[tmp_path / "elsewhere"], ignore_missing=True)
    assert report.done and str(tmp_path / "elsewhere") in report.searched
    assert [p.name for p in (tmp_path / "elsewhere" / "audio").iterdir()] == ["day1_ep0002-t1.wav"]
    assert not delete_due(data, at=date(2022, 1, 1)).deleted
    assert delete_due(data, at=date(2022, 1, 1), ignore_missing=True).deleted


def test_a_person_has_one_pseudonym_in_rehearsals_and_repeated_withdrawals(data: Path):
    listed = withdraw(data, "anna", dry_run=True).pseudonym
    assert withdraw(data, "anna").pseudonym == listed
    episode(data, "ep0003-t1", "anna")
    episode(data, "ep0004-t1", "clara")
    assert withdraw(data, "anna", dry_run=True).pseudonym == listed
    assert withdraw(data, "anna").pseudonym == listed
    unlisted = {withdraw(data, "clara", dry_run=dry).pseudonym for dry in (True, True, False)}
    episode(data, "ep0005-t1", "clara")
    unlisted.add(withdraw(data, "clara").pseudonym)
    assert len(unlisted) == 1 and listed not in unlisted
    folder = data / "consent"
    names = {path.name for path in (folder / "erased").iterdir()}
    assert names == {f"{listed}.txt", f"{unlisted.pop()}.txt"}, "one file per person"
    kept = folder / "pseudonyms.json"
    assert kept.stat().st_mode & 0o777 == 0o600
    assert "anna" not in kept.read_text() and "clara" not in kept.read_text()


def test_an_export_that_was_cut_off_is_found_beside_its_name(data: Path, tmp_path: Path):
    (tmp_path / "out").rename(tmp_path / "out.partial")
    assert noted_outputs(data).here == (tmp_path / "out.partial",)


def test_where_nothing_can_be_noted_it_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    folder = episode(tmp_path / "data", "ep0001-t1", "anna")
    (tmp_path / "data" / "consent").write_text("a file")
    note_outputs([folder], tmp_path / "out", "process doa")
    assert f"--also {tmp_path / 'out'}" in capsys.readouterr().err


def test_a_torn_line_is_none_and_a_wrong_one_is_named(data: Path, tmp_path: Path):
    path = data / "consent" / "outputs.jsonl"
    with open(path, "a") as file:
        file.write('{"out": "/torn')
    note_outputs([data / "day1" / "ep0001-t1"], tmp_path / "two", "process doa")
    assert noted_outputs(data).missing == (tmp_path / "two",)
    path.write_text('{"out": "relative"}\n')
    with pytest.raises(InputError, match="line 1"):
        withdraw(data, "anna")
