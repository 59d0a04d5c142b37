"""The log of reviews: what counts, what a crash or two writers at once leave, and what the verdict is."""

from __future__ import annotations

import fcntl
import json
import multiprocessing
import os
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsp.errors import InputError
from recordings.manifest import write_manifest
from recordings.review.log import (
    LOG,
    REASONS,
    Decisions,
    Review,
    append,
    clean_name,
    decisions,
    make_review,
    manifest_sha256,
    read_reviews,
    verdict,
)
from recordings.storage import StorageError


def episode_folder(root: Path, name: str = "ep0001-t1") -> Path:
    """The least that is a finished episode to a review: a file and its manifest."""
    folder = root / "s1" / name
    folder.mkdir(parents=True)
    (folder / "episode.yaml").write_text("id: x\n")
    write_manifest(folder)
    return folder


def add(folder: Path, who: str, decision: str, *reasons: str, settles: bool = False) -> Review:
    review = make_review(folder, who, decision, reasons, settles=settles)
    append(folder.parent, review)
    return review


def test_the_verdict_of_two(tmp_path: Path) -> None:
    folder = episode_folder(tmp_path)
    other = episode_folder(tmp_path, "ep0002-t1")
    assert verdict(folder) == "open"
    add(folder, "Ann", "accept")
    assert (verdict(folder), verdict(folder, 1)) == ("open", "accepted")
    add(folder, " ann ", "accept")  # the same person
    assert verdict(folder) == "open"
    add(folder, "Ben", "reject", "sync", "sound")
    assert verdict(folder) == verdict(folder, 1) == verdict(folder, 3) == "disputed"
    add(folder, "Ben", "accept")  # changed his mind
    assert verdict(folder) == "accepted" and verdict(folder, 3) == "open"
    add(folder, "Ben", "reject", "sync")
    add(folder, "Eve", "reject", "sync", settles=True)
    assert verdict(folder) == "rejected"
    add(folder, "Eve", "accept", settles=True)
    assert verdict(folder) == "accepted"
    add(folder, "Ann", "reject", "sync")  # now both say so, and nothing needs settling
    assert verdict(folder) == "rejected"
    assert verdict(other) == "open"
    assert [d.path.name for d in decisions(tmp_path)] == ["ep0001-t1", "ep0002-t1"]
    assert [d.verdict() for d in decisions(tmp_path / "s1")] == ["rejected", "open"]
    with pytest.raises(InputError, match="not 0"):
        verdict(folder, 0)
    with pytest.raises(InputError, match="no episode"):
        verdict(tmp_path / "s1")


def test_a_changed_episode_is_to_be_reviewed_again(tmp_path: Path) -> None:
    folder = episode_folder(tmp_path)
    seen = manifest_sha256(folder)
    add(folder, "Ann", "accept")
    add(folder, "Ben", "accept")
    assert verdict(folder) == "accepted" and decisions(folder)[0].note == ""
    (folder / "episode.yaml").write_text("id: y\n")
    write_manifest(folder)
    found = decisions(folder)[0]
    assert found.verdict() == "open" and found.reviews == () and len(found.changed) == 2
    assert "Ann, Ben" in found.note and "review it again" in found.note
    with pytest.raises(InputError, match="changed while it was reviewed"):
        make_review(folder, "Ann", "accept", seen_sha256=seen)
    (folder / "manifest.json").unlink()
    assert verdict(folder) == "open"
    with pytest.raises(InputError, match="not finished"):
        make_review(folder, "Ann", "accept")


def test_a_line_holds_what_was_decided(tmp_path: Path) -> None:
    folder = episode_folder(tmp_path)
    append(folder.parent, make_review(folder, "  José \t M. ", "reject", ["other", "sync"], " äh "))
    line = json.loads((folder.parent / LOG).read_text(encoding="utf-8"))
    assert line.pop("utc").endswith("Z")
    assert line == {
        "hearth_review": 1,
        "episode": "ep0001-t1",
        "manifest_sha256": manifest_sha256(folder),
        "reviewer": "José M.",
        "decision": "reject",
        "reasons": ["sync", "other"],
        "comment": "äh",
        "settles": False,
    }
    assert not list(folder.glob("*.jsonl"))  # the episode itself never changes


@pytest.mark.parametrize(
    ("who", "decision", "reasons", "comment", "says"),
    [
        ("", "accept", [], "", "name"),
        ("x" * 81, "accept", [], "", "1 to 80"),
        ("a\x00b", "accept", [], "", "printable"),
        ("Ann", "perhaps", [], "", "'perhaps'"),
        ("Ann", "reject", [], "", "needs a reason"),
        ("Ann", "reject", ["noise"], "", "'noise'"),
        ("Ann", "reject", ["other"], " ", "needs a comment"),
        ("Ann", "accept", ["sync"], "", "no reasons"),
        ("Ann", "accept", [], "x" * 2001, "2000"),
    ],
)
def test_what_is_no_review(
    tmp_path: Path, who: str, decision: str, reasons: list[str], comment: str, says: str
) -> None:
    with pytest.raises(InputError, match=says):
        make_review(episode_folder(tmp_path), who, decision, reasons, comment)


@given(st.text(max_size=100))
def test_a_clean_name_stays_as_it_is(name: str) -> None:
    try:
        clean = clean_name(name)
    except InputError:
        return
    assert clean_name(clean) == clean and 0 < len(clean) <= 80 and clean.isprintable()


@pytest.mark.parametrize("cut", [1, 5, 40])
def test_a_torn_line_costs_only_itself(tmp_path: Path, cut: int) -> None:
    folder = episode_folder(tmp_path)
    add(folder, "Ann", "accept")
    add(folder, "Ben", "accept")
    log = folder.parent / LOG
    whole = log.read_bytes()
    os.truncate(log, len(whole) - cut)
    found = read_reviews(folder.parent)
    # Without its newline alone a line is whole, and nobody can tell that anything is missing.
    assert len(found.reviews) == (2 if cut == 1 else 1) and (found.torn_bytes > 0) == (cut > 1)
    add(folder, "Eve", "reject", "sync")
    found = read_reviews(folder.parent)
    assert [r.reviewer for r in found.reviews] == (["Ann", "Ben", "Eve"] if cut == 1 else ["Ann", "Eve"])
    assert found.torn_bytes == 0 and len(found.problems) == (cut > 1)
    assert all("line 2" in problem for problem in found.problems)
    with log.open("ab") as file:
        file.write(b"\0" * 300)  # what a power loss leaves of blocks that were not written
    assert len(read_reviews(folder.parent).reviews) == len(found.reviews)
    add(folder, "Zoe", "accept")
    assert read_reviews(folder.parent).reviews[-1].reviewer == "Zoe"


def test_lines_of_others_are_said_and_do_not_count(tmp_path: Path) -> None:
    folder = episode_folder(tmp_path)
    kept = add(folder, "Ann", "accept")
    with (folder.parent / LOG).open("ab") as file:
        file.write(b'{"hearth_review": 2}\n[]\n{"hearth_review": 1, "episode": "x"}\n\n\xff\xfe\n')
    found = read_reviews(folder.parent)
    assert found.reviews == (kept,) and len(found.problems) == 4
    assert read_reviews(tmp_path).reviews == ()


def _many(folder: Path, who: str, count: int) -> None:
    for _ in range(count):
        add(folder, who, "accept")


def test_several_processes_at_once(tmp_path: Path) -> None:
    folder = episode_folder(tmp_path)
    context = multiprocessing.get_context("fork")
    people = ["Ann", "Ben", "Eve"]
    running = [context.Process(target=_many, args=(folder, who, 25)) for who in people]
    for process in running:
        process.start()
    for process in running:
        process.join()
        assert process.exitcode == 0
    found = read_reviews(folder.parent)
    assert len(found.reviews) == 75 and not found.problems and not found.torn_bytes
    assert sorted(r.reviewer for r in found.reviews) == sorted(25 * people)


def test_a_log_that_is_written_anew_meanwhile(tmp_path: Path) -> None:
    """As a withdrawal does it: a copy takes the name while somebody waits to add a line."""
    folder = episode_folder(tmp_path)
    add(folder, "Ann", "accept")
    log = folder.parent / LOG
    waits = multiprocessing.get_context("fork").Process(target=add, args=(folder, "Ben", "accept"))
    with log.open("rb") as old:
        fcntl.flock(old, fcntl.LOCK_EX)
        waits.start()
        time.sleep(0.3)  # it waits for the lock by now; if not, it finds the new file, which is right too
        log.with_name("new").write_bytes(log.read_bytes())
        log.with_name("new").replace(log)
        fcntl.flock(old, fcntl.LOCK_UN)  # the child has this file too, since the fork
    waits.join(30)
    assert waits.exitcode == 0
    assert [r.reviewer for r in read_reviews(folder.parent).reviews] == ["Ann", "Ben"]


def test_no_room_leaves_no_half_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import resource

    folder = episode_folder(tmp_path)
    add(folder, "Ann", "accept")
    log = folder.parent / LOG
    before = log.read_bytes()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + 20, hard))
    try:
        with pytest.raises(StorageError, match="too large"):
            add(folder, "Ben", "accept")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert log.read_bytes() == before
    (folder.parent / LOG).unlink()
    (folder.parent / LOG).mkdir()
    with pytest.raises(StorageError):
        add(folder, "Ben", "accept")
    with pytest.raises(StorageError):
        read_reviews(folder.parent)


def test_blind_is_before_the_others_were_seen(tmp_path: Path) -> None:
    folder = episode_folder(tmp_path)

    def now() -> Decisions:
        return decisions(folder)[0]

    add(folder, "Ann", "accept")
    add(folder, "Ann", "reject", "sync")  # nobody else had decided: still her own
    add(folder, "Ben", "accept")
    add(folder, "Ben", "reject", "sync")  # he had seen hers by then
    add(folder, "Eve", "accept", settles=True)
    assert {who: r.decision for who, r in now().blind.items()} == {"ann": "reject", "ben": "accept"}
    assert {who: r.decision for who, r in now().latest.items()} == {"ann": "reject", "ben": "reject"}
    assert set(REASONS) >= set(now().latest["ben"].reasons)
