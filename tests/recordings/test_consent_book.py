"""Consent per person and use: on which day who may be recorded, shared, recognised; the audit record."""

from __future__ import annotations

import json
import stat
from datetime import date
from pathlib import Path

import pytest

from dsp.errors import InputError
from recordings.consent.audit import read_audit
from recordings.consent.book import ConsentBook
from recordings.consent.people import Agreed
from recordings.profile import Consent, Placed, Profile, Staging

GIVEN, UNTIL = date(2026, 11, 1), date(2027, 10, 31)


def profile(
    speaker: str | None = "anna", *, origin: str = "recorded", others: tuple[str, ...] = ()
) -> Profile:
    people = tuple(Placed(person=who, mouth_m=(1.0, 1.0, 1.5), facing_deg=0.0) for who in others)
    return Profile(
        id="ep0001-t1",
        session="day1",
        created_utc="2026-11-30T10:00:00.000Z",
        origin=origin,  # type: ignore[arg-type]
        speaker=speaker,
        staging=Staging(room="kitchen", people=people) if people else None,
    )


def with_anna(folder: Path) -> ConsentBook:
    book = ConsentBook.open(folder)
    book.add(
        "anna", ["recording", "sharing"], form="paper form 2", until=UNTIL, given=GIVEN, names=["Anna Berg"]
    )
    return book


def test_consent_holds_from_its_first_to_its_last_day_for_its_use_only(tmp_path: Path):
    with_anna(tmp_path)
    book = ConsentBook.open(tmp_path)
    assert [bool(book.may("anna", "recording", day)) for day in (date(2026, 10, 31), GIVEN, UNTIL)] == [
        False,
        True,
        True,
    ]
    assert "ended on 2027-10-31" in book.may("anna", "recording", date(2027, 11, 1)).why
    assert book.may("Anna Berg", "sharing", GIVEN)
    assert "not agreed to biometrics" in book.may("anna", "biometrics", GIVEN).why
    assert "not listed" in book.may("ben", "recording", GIVEN).why
    with pytest.raises(InputError, match="telling"):
        book.may("anna", "telling")  # type: ignore[arg-type]


def test_withdrawing_one_use_leaves_the_others(tmp_path: Path):
    book = with_anna(tmp_path)
    book.withdraw_use("anna", ["sharing"], date(2026, 12, 1))
    book = ConsentBook.open(tmp_path)
    assert book.may("anna", "sharing", date(2026, 11, 30)) and book.may(
        "anna", "recording", date(2026, 12, 2)
    )
    assert "withdrew" in book.may("anna", "sharing", date(2026, 12, 1)).why


def test_everybody_in_an_episode_counts(tmp_path: Path):
    book = with_anna(tmp_path)
    assert book.sharing(profile(), GIVEN)
    beside = book.sharing(profile(others=("anna", "carl")), GIVEN)
    assert not beside and "carl" in beside.why
    assert book.visitors(profile(others=("anna", "carl"))) == ("carl",)
    assert book.sharing(profile("carl", origin="virtual"), GIVEN), "nobody real is in a virtual one"
    assert not book.sharing(profile(None), GIVEN), "nobody is named: nobody can have agreed"


def test_an_episodes_own_refusal_counts(tmp_path: Path):
    import msgspec

    book = with_anna(tmp_path)
    refused = msgspec.structs.replace(profile(), consent=Consent(recording="given", sharing="refused"))
    assert not book.sharing(refused, GIVEN)


def test_an_episode_with_a_visitor_is_not_shared_and_goes_unless_the_visitor_agrees(tmp_path: Path):
    book = with_anna(tmp_path)
    assert book.delete_by(profile()) == (UNTIL, "retention date of anna")
    book.note_visit("day1/ep0001-t1", at=date(2026, 11, 30))
    book = ConsentBook.open(tmp_path)
    assert "visitor" in book.sharing(profile(), GIVEN).why
    assert book.delete_by(profile()) == (date(2026, 12, 7), "a visitor was present")
    agreed = Agreed(given=date(2026, 12, 1), form="by letter", until=date(2027, 1, 31), sharing=True)
    book.note_visit("day1/ep0001-t1", agreed=agreed)
    assert book.sharing(profile(), date(2027, 1, 31)) and not book.sharing(profile(), date(2027, 2, 1))
    found = book.delete_by(profile())
    assert found is not None and found[0] == date(2027, 1, 31)


def test_an_unlisted_person_by_profile_is_a_visitor(tmp_path: Path):
    book = with_anna(tmp_path)
    found = book.delete_by(profile(others=("carl",)))
    assert found == (date(2026, 12, 7), "carl is not listed")


def test_files_are_private_strict_and_name_what_is_wrong(tmp_path: Path):
    book = with_anna(tmp_path)
    people = tmp_path / "consent" / "people.yaml"
    assert [
        stat.S_IMODE((tmp_path / "consent" / n).stat().st_mode) for n in ("people.yaml", "audit.jsonl")
    ] == [
        0o600,
        0o600,
    ]
    assert "anna" not in (tmp_path / "consent" / "audit.jsonl").read_text().lower()
    with pytest.raises(InputError, match="lies before"):
        book.add("dora", ["recording"], form="x", until=date(2020, 1, 1))
    assert ConsentBook.open(tmp_path).find("dora") is None
    with pytest.raises(InputError, match="means both"):
        book.add("ben", ["recording"], form="x", until=UNTIL, given=GIVEN, names=["Anna Berg"])
    whole = people.read_text()
    for wrong, match in (
        (whole.replace("witness", "wittness"), "wittness"),
        (whole.replace("2027-10-31", "soon"), "until"),
        (whole + "x: [", "YAML"),
        ("- 1\n", "people.yaml"),
        ("a\x00b", "YAML"),
    ):
        people.write_text(wrong)
        with pytest.raises(InputError, match=match):
            ConsentBook.open(tmp_path)


@pytest.mark.parametrize("how", ["change", "remove", "cut", "swap"])
def test_a_later_change_of_the_audit_record_shows(tmp_path: Path, how: str):
    book = with_anna(tmp_path)
    book.note_visit("day1/x")
    book.withdraw_use("anna", ["sharing"])
    assert ConsentBook.open(tmp_path).check() == []
    path = tmp_path / "consent" / "audit.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    changed = {
        "change": [lines[0], lines[1].replace('"visitor_noted"', '"visitor_agreed"'), lines[2]],
        "remove": [lines[0], lines[2]],
        "cut": lines[:2],
        "swap": [lines[1], lines[0], lines[2]],
    }[how]
    path.write_text("".join(changed))
    assert len(ConsentBook.open(tmp_path).check()) == 1
    kept = path.read_text()
    with pytest.raises(InputError, match="knows of 3" if how == "cut" else "changed after"):
        book.record("something")
    assert path.read_text() == kept, "the next line would hide what was cut off"


def test_a_torn_last_line_is_no_line_and_the_record_goes_on(tmp_path: Path):
    book = with_anna(tmp_path)
    path = tmp_path / "consent" / "audit.jsonl"
    with open(path, "ab") as file:
        file.write(b'{"n": 2, "utc": "2026')
    assert book.check() == []
    book.record("looked")
    lines, problems = read_audit(path)
    assert problems == [] and [line["action"] for line in lines] == ["consent_given", "looked"]
    assert all(json.loads(text) for text in path.read_text().splitlines())


def test_people_yaml_changed_by_hand_or_gone_shows_also_later(tmp_path: Path):
    book = with_anna(tmp_path)
    people = tmp_path / "consent" / "people.yaml"
    whole = people.read_text()
    people.write_text("# laid out otherwise\n" + whole)
    assert ConsentBook.open(tmp_path).check() == []
    people.write_text(whole.replace("2027-10-31", "2099-10-31"))
    assert "by hand" in ConsentBook.open(tmp_path).check()[0]
    book.note_visit("day1/x")
    assert read_audit(tmp_path / "consent" / "audit.jsonl")[0][-1]["by_hand"] is True
    assert ConsentBook.open(tmp_path).check() == []
    people.unlink()
    assert "is not there" in ConsentBook.open(tmp_path).check()[0]


def test_a_line_nested_without_end_is_a_changed_line(tmp_path: Path):
    with_anna(tmp_path)
    with open(tmp_path / "consent" / "audit.jsonl", "a") as file:
        file.write("[" * 100_000 + "\n")
    assert "line 2: changed" in ConsentBook.open(tmp_path).check()[0]


def test_an_id_that_is_none_is_named_and_makes_no_folder(tmp_path: Path):
    with pytest.raises(InputError, match=r"'\.\./\.\./x' is no id"):
        ConsentBook.open(tmp_path / "data").add("../../x", ["recording"], form="x", until=UNTIL)
    assert not (tmp_path / "data").exists()


def test_the_book_of_an_episode_is_the_one_above_it(tmp_path: Path):
    with_anna(tmp_path / "data")
    episode = tmp_path / "data" / "day1" / "ep0001-t1"
    assert ConsentBook.above(episode).find("anna") is not None
    assert ConsentBook.above(episode, tmp_path / "data").folder == tmp_path / "data" / "consent"
    with pytest.raises(InputError, match="not in"):
        ConsentBook.above(episode, tmp_path / "other")


def test_a_visitor_is_noted_in_the_book_above_the_episode(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    import typer
    from typer.testing import CliRunner

    from recordings.consent_command import register
    from tests.recordings.test_consent_withdraw import episode

    monkeypatch.chdir(tmp_path)
    app = typer.Typer()
    register(app)
    path = episode(tmp_path / "real", "ep0001-t1", "anna")
    assert CliRunner().invoke(app, ["consent", "visitor", str(path)]).exit_code == 0
    assert not (tmp_path / "data").exists()
    assert "visitor" in ConsentBook.open(tmp_path / "real").sharing(profile()).why
    wrong = CliRunner().invoke(app, ["consent", "visitor", str(path), "--data", "other"])
    assert isinstance(wrong.exception, InputError)
