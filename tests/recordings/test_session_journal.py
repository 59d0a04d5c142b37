"""The journal of a session as others read it: what is kept, and what a torn or foreign line does."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dsp.errors import InputError
from recordings.profile import Profile, profile_to_yaml
from recordings.release.select import select
from recordings.session_journal import JOURNAL, kept_takes, read_journal


def line(step: str, **fields: object) -> bytes:
    return json.dumps({"step": step, "t_utc": "2026-11-30T20:00:00.000Z", **fields}).encode() + b"\n"


def of(item: str, take: int) -> dict[str, object]:
    return {"item": item, "take": take, "episode": f"{item}-t{take}"}


def written(folder: Path, *lines: bytes) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / JOURNAL).write_bytes(b"".join(lines))
    return folder


def episode(folder: Path, item: str, take: int, says: str | None = None) -> Path:
    path = folder / f"{item}-t{take}"
    path.mkdir(parents=True)
    profile = Profile(
        id=path.name, session="s", created_utc="", origin="virtual", plan_item=says or item, take=take
    )
    (path / "episode.yaml").write_text(profile_to_yaml(profile))
    return path


def test_the_last_kept_take_counts_and_a_dropped_one_does_not(tmp_path: Path):
    folder = written(
        tmp_path,
        line("opened", plan="p", plan_sha256="0", items=3),
        *(line(step, **of("ep0001", take)) for take in (1, 2) for step in ("armed", "recording", "kept")),
        line("kept", **of("ep0002", 1)),
        line("dropped", **of("ep0002", 1)),
        line("armed", **of("ep0003", 1)),
        line("note", item="ep0003", text="the lamp flickers"),
        line("skipped", item="ep0003", why="no lamp"),
    )
    journal = read_journal(folder)
    assert journal.kept == {"ep0001": "ep0001-t2"}
    assert journal.skipped == {"ep0003": "no lamp"} and journal.notes["ep0003"] == ["the lamp flickers"]
    assert [journal.take_count(f"ep000{n}") for n in (1, 2, 3)] == [2, 1, 0]
    assert journal.plan == "p" and journal.torn_bytes == 0


@pytest.mark.parametrize("cut", range(1, 40, 3))
def test_a_torn_last_line_does_not_count(tmp_path: Path, cut: int):
    whole, torn = line("kept", **of("ep0001", 1)), line("kept", **of("ep0001", 2))
    journal = read_journal(written(tmp_path, whole, torn[:-cut]))
    assert journal.kept == {"ep0001": "ep0001-t1"}
    assert journal.torn_bytes == len(torn) - cut


def test_zeros_that_a_power_loss_left_are_torn_too(tmp_path: Path):
    whole, torn = line("kept", **of("ep0001", 1)), line("kept", **of("ep0001", 2))
    for left in (b"\0" * len(torn), b"\0" * 20 + torn[20:], torn[:20] + b"\0" * (len(torn) - 20)):
        journal = read_journal(written(tmp_path, whole, left))
        assert journal.kept == {"ep0001": "ep0001-t1"} and journal.torn_bytes == len(left)


@pytest.mark.parametrize(
    "broken",
    [b"hello\n", b"[1]\n", b'{"step": 3}\n', line("kept", item="ep0001"), line("kept", **of("../x", 1)),
     line("kept", item="ep0001", take=0, episode="ep0001-t0"), b"\xff\n", b"[" * 100_000 + b"\n"],
)  # fmt: skip
def test_a_line_that_is_none_is_named(tmp_path: Path, broken: bytes):
    folder = written(tmp_path, line("opened"), broken, line("closed"))
    with pytest.raises(InputError, match="line 2 is no line of a journal"):
        read_journal(folder)


def test_kept_takes_are_checked_against_what_the_episodes_say(tmp_path: Path):
    folder = written(tmp_path, *(line("kept", **of(f"ep000{n}", 1)) for n in (2, 1, 3)))
    one, two = episode(folder, "ep0001", 1), episode(folder, "ep0002", 1)
    assert kept_takes(folder) == {"ep0001": one, "ep0002": two}, "ep0003 was withdrawn"
    episode(folder, "ep0003", 1, says="ep0007")
    with pytest.raises(InputError, match="ep0007"):
        kept_takes(folder)


def test_one_broken_profile_holds_no_other_take_back(tmp_path: Path):
    folder = written(tmp_path, *(line("kept", **of(f"ep000{n}", 1)) for n in (1, 2)))
    one, two = episode(folder, "ep0001", 1), episode(folder, "ep0002", 1)
    (one / "episode.yaml").write_text("hearth_episode: [")
    assert kept_takes(folder) == {"ep0001": one, "ep0002": two}
    left = {path.path.name: path.code for path in select([folder], need_accepted=False).left_out}
    assert left["ep0001-t1"] == "unreadable" and left["ep0002-t1"] not in ("unreadable", "not_kept")


def test_a_folder_without_a_journal_keeps_nothing(tmp_path: Path):
    assert kept_takes(tmp_path) == {} and read_journal(tmp_path / "none").plan is None
