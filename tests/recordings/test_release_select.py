"""What may go out fails closed: each reason not to, one by one, and together with the export."""

from __future__ import annotations

import json
from datetime import date

import pytest

from dsp.errors import InputError
from recordings.consent.book import ConsentBook
from recordings.marker import place_marker
from recordings.profile import Consent
from recordings.release.run import NothingGoesOut, export_release
from recordings.release.select import select
from tests.recordings.release_episodes import accept, agree, keep, profile, record


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """One good episode, and one for every reason not to let one out; folder by name."""
    root = tmp_path_factory.mktemp("data")
    short = {"seconds": 0.3, "pictures": False}
    made = {}

    def make(name: str, person: str = "p1", reviewed: str = "accept", **fields) -> None:
        made[name] = record(root, profile(name, fields.pop("session", "s1"), person, **fields), **short).path
        if reviewed:
            accept(made[name], reviewed)

    make("good")
    make("virtual", "nobody-real", origin="virtual")
    make("refused", consent=Consent(recording="given", sharing="refused"))
    make("stranger", "p9")
    make("withdrawn", "p2")
    make("with_guest", with_people=("p9",))
    make("records_only", "p3")
    make("rejected", reviewed="reject")
    make("open", reviewed="")
    make("disputed", reviewed="")
    accept(made["disputed"], "accept", ("Eva",))
    accept(made["disputed"], "reject", ("Max",))
    make("changed")
    make("unfinished")
    make("cut_off")
    # Takes of a plan: the second was kept, the third item has no kept take, another session has no journal.
    make("ep1-t1", session="plan", plan_item="ep1", take=1)
    make("ep1-t2", session="plan", plan_item="ep1", take=2)
    make("ep2-t1", session="plan", plan_item="ep2", take=1)
    make("ep3-t1", session="no_journal", plan_item="ep3", take=1)
    keep(root / "plan", "ep1", 2, "ep1-t2")
    agree(root, "p1", "p2")
    agree(root, "p3", uses=("recording",))
    ConsentBook.open(root).withdraw_use("p2", ["sharing"])
    with open(made["changed"] / "foa_24k.wav", "r+b") as file:
        file.seek(5000)
        file.write(b"\x01\x02")
    (made["unfinished"] / "manifest.json").unlink()
    place_marker(made["cut_off"])
    (root / "s1" / "broken").mkdir()
    (root / "s1" / "broken" / "episode.yaml").write_text("grounding: [")
    return root, made


GOOD = {"good", "virtual", "ep1-t2"}
WHY = {
    "refused": ("consent", "refused"),
    "stranger": ("consent", "p9 is not listed"),
    "withdrawn": ("consent", "p2 withdrew"),
    "with_guest": ("consent", "p9 is not listed"),
    "records_only": ("consent", "has not agreed to sharing"),
    "rejected": ("rejected", "rejected"),
    "open": ("unreviewed", "--unreviewed"),
    "disputed": ("disputed", "do not agree"),
    "changed": ("not_verified", "foa_24k.wav: its content changed"),
    "unfinished": ("not_finished", "interrupted"),
    "cut_off": ("not_finished", "recording"),
    "ep1-t1": ("not_kept", "kept ep1-t2"),
    "ep2-t1": ("not_kept", "keeps no take of ep2"),
    "ep3-t1": ("not_kept", "keeps no take of ep3"),
    "broken": ("unreadable", "YAML"),
}


def test_only_what_is_known_to_be_allowed_goes_out(data):
    root, _ = data
    found = select(root)
    assert {path.name for path in found.episodes} == GOOD
    assert {one.path.name for one in found.left_out} == set(WHY)
    for one in found.left_out:
        code, words = WHY[one.path.name]
        assert one.code == code and words in one.why, one
    assert found.episodes == tuple(sorted(found.episodes))
    assert sum(found.codes().values()) == len(WHY) and found.codes()["consent"] == 5


def test_one_reviewer_who_rejected_keeps_it_in(tmp_path):
    path = record(tmp_path, profile("e1", "s1", "p1", origin="virtual"), seconds=0.3, pictures=False).path
    accept(path, "reject", ("Ada",))
    left = select(tmp_path, need_accepted=False).left_out
    assert [(one.code, one.why) for one in left] == [("rejected", "Ada rejected it")]
    accept(path, "accept", ("Ada",))  # thinks better of it: the reject stands no more
    assert len(select(tmp_path, need_accepted=False).episodes) == 1


def test_unreviewed_lets_only_the_open_one_through(data):
    root, _ = data
    found = select(root, need_accepted=False)
    assert {path.name for path in found.episodes} == GOOD | {"open"}
    assert {one.path.name for one in found.left_out if one.code in ("rejected", "disputed")} == {
        "rejected",
        "disputed",
    }


def test_consent_holds_on_its_day_only(data):
    root, _ = data
    later = date.today().replace(year=date.today().year + 3)
    assert {path.name for path in select(root, at=later).episodes} == {"virtual"}


def test_a_review_of_what_the_episode_was_does_not_count(data, tmp_path):
    again = record(tmp_path, profile("e", "s1", "p1"), seconds=0.3, pictures=False).path
    accept(again)
    agree(tmp_path, "p1")
    assert len(select(tmp_path).episodes) == 1
    manifest = again / "manifest.json"
    content = json.loads(manifest.read_text())
    manifest.write_text(json.dumps(content, indent=2))  # the same files, sealed anew
    assert [one.code for one in select(again).left_out] == ["unreviewed"]


def test_a_journal_that_cannot_be_read_lets_nothing_of_its_session_out(tmp_path):
    for name in ("ep1-t1", "e"):
        fields = {"plan_item": "ep1", "take": 1} if name == "ep1-t1" else {}
        path = record(tmp_path, profile(name, "s1", "p1", **fields), seconds=0.3, pictures=False).path
        accept(path)
    agree(tmp_path, "p1")
    (tmp_path / "s1" / "session.jsonl").write_text("no json\n")
    found = select(tmp_path)
    assert [path.name for path in found.episodes] == ["e"]
    assert [(one.code, "line 1" in one.why) for one in found.left_out] == [("not_kept", True)]


def test_what_holds_no_episode_is_an_error(tmp_path):
    with pytest.raises(InputError, match="holds no episode"):
        select(tmp_path)
    with pytest.raises(InputError, match="no such folder"):
        select(tmp_path / "absent")


def test_an_export_of_nothing_says_why_and_writes_nothing(data, tmp_path):
    _, made = data
    with pytest.raises(NothingGoesOut, match=r"1 consent.*p9 is not listed") as caught:
        export_release([made["stranger"]], "dcase", tmp_path / "out")
    assert [one.code for one in caught.value.left_out] == ["consent"] and caught.value.exit_code == 1
    assert list(tmp_path.iterdir()) == []


def test_no_byte_of_what_was_left_out_is_in_a_release(data, tmp_path):
    root, _ = data
    done = export_release(root, "omnismarthome", tmp_path / "out")
    assert {path.name for path in (tmp_path / "out" / "episodes").iterdir()} == GOOD
    assert len(done.left_out) == len(WHY)
    text = b"".join(p.read_bytes() for p in (tmp_path / "out").rglob("*") if p.is_file())
    for name in WHY:
        assert f'"{name}"'.encode() not in text and f"/{name}".encode() not in text, name
    assert b'"p9"' not in text
