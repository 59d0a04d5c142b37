"""An export that is killed, has no room, or meets another one or an existing folder."""

from __future__ import annotations

import json
import os
import random
import resource
import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from dsp.errors import CheckFailed, HearthError, InputError
from recordings import Episode, StorageError
from recordings.export_command import read_sizes
from recordings.release.checksums import check_checksums
from recordings.release.options import ReleaseOptions
from recordings.release.run import export_release
from recordings.release.video import copy_video
from recordings.storage import sha256_file
from tests.recordings.release_episodes import accept, household, profile, record


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> tuple[Path, dict[str, Path]]:
    root = tmp_path_factory.mktemp("data")
    return root, household(root)


def files_of(folder: Path) -> dict[str, str]:
    """All but the list of where releases went, which every export adds to."""
    found = [p for p in folder.rglob("*") if p.is_file() and p.name != "outputs.jsonl"]
    return {p.relative_to(folder).as_posix(): sha256_file(p) for p in found}


def in_a_child(work: Callable[[], None]) -> int:
    """Run in a forked process; its exit code: 0, that of the HearthError, or minus the signal."""
    pid = os.fork()
    if pid == 0:
        code = 99
        try:
            work()
            code = 0
        except HearthError as error:
            code = error.exit_code
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def killed_at(step: int, below: Path, work: Callable[[], None]) -> int:
    """Run in a child that kills itself before the step-th opening, renaming, removing or making of a folder
    below a folder; step 0: it lives, and writes their number into `<below>.steps`."""

    def body() -> None:
        count = 0

        def hook(event: str, args: tuple[object, ...]) -> None:
            nonlocal count
            if event in ("open", "os.rename", "os.remove", "os.mkdir") and str(args[0]).startswith(
                str(below)
            ):
                count += 1
                if count == step:
                    os.kill(os.getpid(), signal.SIGKILL)

        sys.addaudithook(hook)
        work()
        if not step:
            below.with_suffix(".steps").write_text(str(count))

    return in_a_child(body)


@pytest.mark.parametrize("replace", [False, True])
def test_killed_anywhere_the_same_call_completes_to_the_same_bytes(replace, data, tmp_path):
    root, made = data
    counted = tmp_path / "counted"
    assert killed_at(0, counted, lambda: export_release(root, "omnismarthome", counted)) == 0
    steps = int((tmp_path / "counted.steps").read_text())
    wanted, before = files_of(counted), files_of(root)
    out = tmp_path / "out" / "r"
    if replace:
        export_release([made["e4"]], "omnismarthome", out)
        old = files_of(out)

    def export() -> None:
        export_release(root, "omnismarthome", out, replace=replace)

    rng = random.Random(replace)
    early = sorted(rng.sample(range(1, steps // 2), 2 if replace else 4))
    for step in early:
        assert killed_at(step, tmp_path / "out", export) == -signal.SIGKILL
        if replace:
            assert files_of(out) == old, "the old one keeps its name until the new one is whole"
        else:
            assert not out.exists()
    partial = out.with_name("r.partial")
    journal = (partial / ".done.jsonl").read_text().splitlines()
    told = json.loads((partial / ".export.json").read_text())
    assert told["episodes"] == ["s1/e1", "s1/e2", "s2/e3", "s2/e4"], "so that a withdrawal finds it"
    stamps = {line["name"]: (partial / line["name"]).stat().st_mtime_ns for line in map(json.loads, journal)}
    assert stamps, "some media were finished"
    export()
    assert files_of(out) == wanted and check_checksums(out) == []
    assert {name: (out / name).stat().st_mtime_ns for name in stamps} == stamps, (
        "finished media are not redone"
    )
    assert sorted(p.name for p in out.parent.iterdir()) == ["r"]
    assert files_of(root) == before


@pytest.mark.parametrize("from_the_end", [0, 1, 4])
def test_killed_while_it_is_sealed_and_named(from_the_end, data, tmp_path):
    _, made = data
    counted, out = tmp_path / "counted", tmp_path / "out" / "r"
    assert killed_at(0, counted, lambda: export_release(made["e4"], "dcase", counted)) == 0
    step = int((tmp_path / "counted.steps").read_text()) - from_the_end
    (tmp_path / "out").mkdir()
    export = lambda: export_release(made["e4"], "dcase", out)  # noqa: E731
    assert killed_at(step, out, export) == -signal.SIGKILL
    assert not out.exists()
    export()
    assert files_of(out) == files_of(counted) and sorted(p.name for p in out.parent.iterdir()) == ["r"]


def test_other_options_begin_anew(data, tmp_path):
    root, _ = data
    out = tmp_path / "r"
    work = lambda: export_release(root, "dcase", out)  # noqa: E731
    assert killed_at(60, tmp_path, work) == -signal.SIGKILL
    assert any((tmp_path / "r.partial").rglob("*.wav"))
    export_release(root, "audiofolder", out, ReleaseOptions(sound="float"))
    export_release(root, "audiofolder", tmp_path / "straight", ReleaseOptions(sound="float"))
    assert files_of(out) == files_of(tmp_path / "straight")


def test_media_damaged_after_a_kill_are_made_again(data, tmp_path):
    root, _ = data
    out = tmp_path / "r"
    assert killed_at(60, tmp_path, lambda: export_release(root, "dcase", out)) == -signal.SIGKILL
    damaged = sorted((tmp_path / "r.partial").rglob("*.wav"))[0]
    with open(damaged, "r+b") as file:
        file.seek(1000)
        file.write(b"\xff\xff")
    (tmp_path / "r.partial" / "stray.txt").write_text("x")
    export_release(root, "dcase", out)
    export_release(root, "dcase", tmp_path / "straight")
    assert files_of(out) == files_of(tmp_path / "straight")


def test_no_room_is_an_error_that_leaves_the_episodes_and_completes_later(data, tmp_path):
    root, _ = data
    before = files_of(root)
    out = tmp_path / "r"

    def export() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, resource.RLIM_INFINITY))
        try:
            export_release(root, "bids", out)
        except StorageError as error:
            os._exit(70 + ("too large" in str(error)))

    assert in_a_child(export) == 71
    assert not out.exists() and files_of(root) == before
    export_release(root, "bids", out)
    assert check_checksums(out) == [] and files_of(root) == before


def test_pictures_without_room_are_an_error(data, tmp_path):
    if not os.path.exists("/dev/full"):
        pytest.skip("there is no /dev/full here")
    _, made = data
    episode = Episode.open(made["e1"])
    (tmp_path / "x.mkv").symlink_to("/dev/full")
    with pytest.raises(StorageError, match="disk is full"):
        copy_video(episode.path / "video.mkv", tmp_path / "x.mkv", episode.frame_times().tolist())


def test_an_existing_folder_is_refused_resumed_or_replaced(data, tmp_path):
    root, made = data
    out = tmp_path / "r"
    first = export_release([made["e1"], made["e2"]], "dcase", out)
    assert not first.existing and first.files == len(files_of(out))
    with pytest.raises(InputError, match="exists already; --replace"):
        export_release(root, "dcase", out)
    again = export_release([made["e1"], made["e2"]], "dcase", out, resume=True)
    assert again.existing and (again.files, again.bytes) == (first.files, first.bytes)
    with pytest.raises(InputError, match="other episodes or options"):
        export_release(root, "dcase", out, resume=True)
    (out / "files.csv").write_text("changed")
    with pytest.raises(CheckFailed, match=r"files.csv: its content changed"):
        export_release([made["e1"], made["e2"]], "dcase", out, resume=True)
    (out / "REEXPORT.json").write_text("{}")
    with pytest.raises(InputError, match="withdrawal took files out"):
        export_release(root, "dcase", out, resume=True)
    export_release(root, "dcase", out, replace=True)
    assert check_checksums(out) == [] and len(list(out.rglob("*.wav"))) == 4


def test_what_is_no_release_is_never_removed(data, tmp_path):
    root, made = data
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "thesis.txt").write_text("years of work")
    for call in ({}, {"replace": True}, {"resume": True}):
        with pytest.raises(InputError, match="is no release"):
            export_release(root, "dcase", mine, **call)
    (tmp_path / "r.partial").mkdir()
    (tmp_path / "r.partial" / "thesis.txt").write_text("years of work")
    with pytest.raises(InputError, match="was not made by an export"):
        export_release(root, "dcase", tmp_path / "r")
    with pytest.raises(InputError, match="holds the episodes"):
        export_release(root, "dcase", root.parent, replace=True)
    with pytest.raises(InputError, match="sealed"):
        export_release(root, "dcase", made["e1"] / "release")
    assert (mine / "thesis.txt").read_text() == (tmp_path / "r.partial" / "thesis.txt").read_text()


def test_two_exports_into_one_place(data, tmp_path):
    import fcntl

    root, _ = data
    partial = tmp_path / "r.partial"
    partial.mkdir()
    fd = os.open(partial, os.O_RDONLY)
    fcntl.flock(fd, fcntl.LOCK_EX)
    with pytest.raises(InputError, match="another export writes there"):
        export_release(root, "dcase", tmp_path / "r")
    os.close(fd)
    export_release(root, "dcase", tmp_path / "r")


def test_checksums_find_what_was_done_to_a_release(data, tmp_path):
    out = tmp_path / "r"
    export_release(data[1]["e1"], "omnismarthome", out)
    (out / "README.md").write_text("other")
    (out / "LICENSE").unlink()
    (out / "more").write_text("x")
    assert check_checksums(out) == [
        "LICENSE: is missing",
        "more: is not in checksums.sha256",
        "README.md: its content changed",
    ]
    (out / "link").symlink_to("/etc/passwd")
    with pytest.raises(InputError, match="no plain file"):
        check_checksums(out)


def test_wrong_words_are_named(data, tmp_path):
    root, _ = data
    with pytest.raises(InputError, match="--to 'zip': one of omnismarthome, dcase"):
        export_release(root, "zip", tmp_path / "r")
    with pytest.raises(InputError, match="participant or room"):
        export_release(root, "dcase", tmp_path / "r", split_by="mood")
    with pytest.raises(InputError, match="3 splits need 3 groups"):
        export_release(data[1]["e1"], "dcase", tmp_path / "r", split_by="room")
    assert list(tmp_path.iterdir()) == []


def test_people_who_appear_together_stay_together_or_are_left_out(tmp_path):
    short = {"seconds": 0.3, "pictures": False}
    for name, persons in (("a", ("p1",)), ("b", ("p2",)), ("c", ("p1", "p2"))):
        told = profile(name, "s", persons[0], with_people=persons[1:], origin="virtual")
        accept(record(tmp_path / "data", told, **short).path)
    halves = {"train": 1.0, "test": 1.0}
    with pytest.raises(InputError, match=r"there is 1 .*such as .*c \(p1, p2\).*--drop-mixed"):
        export_release(tmp_path / "data", "dcase", tmp_path / "r", split_by="participant", sizes=halves)
    made = export_release(
        tmp_path / "data", "dcase", tmp_path / "r", split_by="participant", sizes=halves, mixed=True
    )
    assert [(one.path.name, one.code) for one in made.left_out] == [("c", "mixed")]
    assert made.facts["numbers"]["splits"] == {"train": 1, "test": 1}


def test_the_command_says_what_went_out_and_what_stayed(data, tmp_path):
    from hearth import app

    out = tmp_path / "r"
    call = ["export", str(data[0]), "--to", "audiofolder", "--out", str(out), "--split-by", "participant"]
    done = CliRunner().invoke(app, call)
    assert done.exit_code == 0, done.output
    first, note = done.stdout.splitlines()
    assert first.startswith(f"{out}: 4 episodes as audiofolder (train 2, val 1, test 1), ")
    assert "in 1 episode were beyond full scale" in note and "--sound float" in note
    again = CliRunner().invoke(app, [*call[:5], str(tmp_path / "other"), *call[6:], "--json"])
    told = json.loads((out / "release.json").read_text())
    assert again.exit_code == 0 and json.loads(again.stdout)["key"] == told["key"]
    assert files_of(out) == files_of(tmp_path / "other"), "the folder's name is not in it"


def test_sizes_as_people_write_them():
    assert read_sizes("70/15/15") == {"train": 70, "val": 15, "test": 15}
    assert read_sizes("80/20") == {"train": 80, "test": 20}
    for wrong in ("", "70", "1/2/3/4", "1/0/1", "a/b", "nan/1", "1/-1", "inf/1"):
        with pytest.raises(InputError, match="--sizes"):
            read_sizes(wrong)
