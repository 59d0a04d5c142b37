"""`hearth process`: everything once, whatever happens to an episode, to a worker, or to the driver."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from bench.made_episodes import record_one, vary
from dsp.errors import InputError
from recordings import Episode, StorageError
from recordings.consent.withdraw import withdraw
from recordings.manifest import write_manifest
from recordings.process import Limits, Summary, find_step, process
from recordings.process.lock import EpisodeLock
from recordings.process.place import DONE, Place, find_places
from tests.real.small_disks import tmpfs

HERE = Path(__file__).parent
REPOSITORY = HERE.parents[1]
QUICK = Limits(timeout_s=60.0)


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return record_one(tmp_path_factory.mktemp("one"))


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HEARTH_TEST_LOG", str(tmp_path / "log.txt"))
    return tmp_path / "log.txt"


def lines(log: Path) -> list[str]:
    return log.read_text().splitlines() if log.exists() else []


def tree(out: Path) -> dict[str, str]:
    """Every file of the results with its hash; the state of runs is not among them."""
    return {
        path.relative_to(out).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(out.rglob("*"))
        if path.is_file() and ".process" not in path.parts
    }


def run(name: str, data: Path, out: Path, limits: Limits = QUICK, **options: Any) -> Summary:
    settings = options.pop("settings", {})
    return process(find_step(name, settings), [data], out, workers=2, limits=limits, **options)


def driver(data: Path, out: Path, *options: str) -> subprocess.Popen[str]:
    """`hearth process` with the counting step, as a user starts it."""
    path = os.pathsep.join(map(str, (REPOSITORY, HERE)))
    command = [sys.executable, "-m", "hearth", "process", "process_steps:frames", data, "--out", out]
    return subprocess.Popen(
        [*map(str, command), "--json", *options],
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),  # some shells ignore it
        env={**os.environ, "PYTHONPATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def workers_of(log: Path) -> list[int]:
    """Processes that have this test's log in their environment, besides this one."""
    found = []
    for place in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):
            if int(place.parent.name) != os.getpid() and os.fsencode(log) in place.read_bytes():
                found.append(int(place.parent.name))
    return found


def test_a_step_runs_once_until_something_it_depends_on_changes(one: Path, tmp_path: Path, log: Path):
    data, out = tmp_path / "data", tmp_path / "out"
    names = [vary(one, data / "day", f"ep{i}").name for i in range(4)]
    first = run("process_steps:frames", data, out)
    assert (first.ok, first.episodes, first.done, first.before) == (True, 4, 4, 0)
    assert sorted(lines(log)) == sorted(f"{word} {name}" for name in names for word in ("begin", "end"))
    made = tree(out)
    assert (out / "day" / "ep2" / "deep" / "frames.txt").read_text() == "24000\n"
    results = [json.loads(line) for line in (out / "results.jsonl").read_text().splitlines()]
    assert results[2] == {
        "episode": "day/ep2",
        "result": {"nan": None, "request": "stop that number ep2", "threads": "1"},
    }
    done = json.loads((out / "day" / "ep2" / DONE).read_text())
    assert done["files"]["deep/frames.txt"]["sha256"] == made["day/ep2/deep/frames.txt"]

    again = run("process_steps:frames", data, out)
    assert (again.done, again.before, again.rate_per_s) == (0, 4, None)
    assert len(lines(log)) == 8 and tree(out) == made

    # A result that somebody took a file out of, an episode with another content, another parameter.
    (out / "day" / "ep0" / "deep" / "frames.txt").unlink()
    profile = data / "day" / "ep1" / "episode.yaml"
    profile.write_text(profile.read_text().replace("stop that number ep1", "stop that now"))
    write_manifest(data / "day" / "ep1")
    assert run("process_steps:frames", data, out).done == 2
    assert {line.split()[1] for line in lines(log)[8:]} == {"ep0", "ep1"}
    assert tree(out)["day/ep0/deep/frames.txt"] == made["day/ep0/deep/frames.txt"]
    assert run("process_steps:frames", data, out, settings={"factor": "2"}).done == 4
    assert (out / "day" / "ep2" / "deep" / "frames.txt").read_text() == "48000\n"
    with pytest.raises(InputError, match="holds results of step process_steps:frames"):
        run("check", data, out)


def test_trouble_with_one_episode_is_named_and_touches_no_other(one: Path, tmp_path: Path, log: Path):
    data, out = tmp_path / "data", tmp_path / "out"
    bad = ("a-hangs", "b-dies", "c-unusable", "d-raises", "e-late", "f-eats", "g", "h", "i-short")
    for name in bad:
        vary(one, data / "day", name)
    os.truncate(data / "day" / "i-short" / "episode.yaml", 40)
    (vary(one, data / "day", "j-open") / "manifest.json").unlink()
    limits = Limits(timeout_s=4.0, memory_mib=400, tries=2)
    found = run("process_steps:trouble", data, out, limits)
    told = {entry["episode"].removeprefix("day/"): entry for entry in found.quarantined}
    assert {name: (entry["kind"], entry["tries"]) for name, entry in told.items()} == {
        "a-hangs": ("timeout", 2),
        "b-dies": ("died", 2),
        "c-unusable": ("input", 1),
        "d-raises": ("error", 2),
        "f-eats": ("memory", 2),
        "i-short": ("input", 1),
    }
    assert "longer than 4 s" in told["a-hangs"]["reason"]
    assert "signal 11" in told["b-dies"]["reason"] and "last words" in told["b-dies"]["output"]
    assert told["c-unusable"]["reason"] == "this one has no microphone"
    assert told["d-raises"]["reason"] == "ValueError: a bug" and "Traceback" in told["d-raises"]["output"]
    assert "400 MiB" in told["f-eats"]["reason"]
    assert "40 bytes" in told["i-short"]["reason"]
    assert (found.done, found.failed_tries, found.ok) == (3, 11, False)
    assert found.skipped == [{"episode": "day/j-open", "reason": "is interrupted, not finished"}]
    assert sorted(path.parent.name for path in out.glob(f"day/*/{DONE}")) == ["e-late", "g", "h"]
    assert list(out.glob("day/.*")) == [], "nothing half-made is left"
    children = [int(line.split()[1]) for line in lines(log) if line.startswith("child ")]
    assert len(children) == 2 and not any(Path(f"/proc/{pid}").exists() for pid in children)

    before = len(lines(log))
    again = run("process_steps:trouble", data, out, limits)
    assert (again.done, again.before, len(again.quarantined)) == (0, 3, 6)
    assert len(lines(log)) == before, "what is quarantined is left alone"
    # After three tries, since two are not enough any more, and by request.
    only = find_step("process_steps:trouble", {})
    path = data / "day" / "d-raises"
    assert process(only, [path], out, workers=1, limits=Limits(tries=3)).failed_tries == 1
    asked = process(only, [path], out, workers=1, limits=Limits(tries=1), retry_quarantined=True)
    assert (asked.failed_tries, asked.quarantined[0]["tries"]) == (1, 1)


def test_a_killed_driver_leaves_nothing_running_and_the_next_does_nothing_twice(
    one: Path, tmp_path: Path, log: Path
):
    data, out = tmp_path / "data", tmp_path / "out"
    for i in range(24):
        vary(one, data / "day", f"ep{i:02d}")
    killed = driver(data, out, "--workers", "2", "--set", "pause_s=0.05")
    while sum(line.startswith("end") for line in lines(log)) < 8:
        assert killed.poll() is None, killed.communicate()
        time.sleep(0.01)
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    second = run("process_steps:frames", data, out, settings={"pause_s": "0.05"})
    # What the killed driver had begun was ended by its workers, on their own.
    assert second.ok and second.done + second.before + second.elsewhere == 24
    assert 0 < second.done <= 16
    assert max(Counter(lines(log)).values()) == 1 and len(lines(log)) == 48
    while workers_of(log):  # the last of them, on its way out
        time.sleep(0.01)
    whole = run("process_steps:frames", data, tmp_path / "whole", settings={"pause_s": "0.05"})
    assert whole.done == 24 and tree(out) == tree(tmp_path / "whole")


def test_ctrl_c_ends_everything_at_once(one: Path, tmp_path: Path, log: Path):
    data = tmp_path / "data"
    for i in range(3):
        vary(one, data / "day", f"ep{i}")
    asked = driver(data, tmp_path / "out", "--workers", "1", "--set", "pause_s=60")
    while not lines(log):
        assert asked.poll() is None, asked.communicate()
        time.sleep(0.01)
    asked.send_signal(signal.SIGINT)
    printed, errors = asked.communicate(timeout=30)
    assert (asked.returncode, printed) == (2, "")
    assert "ended by Ctrl-C; 0 episodes done" in errors and "Traceback" not in errors
    assert workers_of(log) == [] and lines(log) == ["begin ep0"]


def test_two_drivers_share_the_work(one: Path, tmp_path: Path, log: Path):
    data, out = tmp_path / "data", tmp_path / "out"
    for i in range(12):
        vary(one, data / "day", f"ep{i:02d}")
    both = [driver(data, out, "--workers", "1", "--set", "pause_s=0.1") for _ in range(2)]
    told = []
    for one_of_them in both:
        printed, errors = one_of_them.communicate(timeout=60)
        assert one_of_them.returncode == 0, errors
        told.append(json.loads(printed))
    assert sum(summary["done"] for summary in told) == 12
    assert all(s["done"] + s["already_done"] + s["done_elsewhere"] == 12 for s in told)
    assert max(Counter(lines(log)).values()) == 1
    assert len((out / "results.jsonl").read_text().splitlines()) == 12


def test_a_lock_is_free_when_its_owner_is_gone(tmp_path: Path):
    path = tmp_path / "locks" / "x.lock"
    code = (
        "import sys; from pathlib import Path; from recordings.process.lock import EpisodeLock;"
        f"lock = EpisodeLock(Path({str(path)!r})); print(lock.take(), flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=REPOSITORY, text=True
    ) as owner:
        assert owner.stdout is not None and owner.stdout.readline() == "True\n"
        mine = EpisodeLock(path)
        assert mine.take() is False
        assert json.loads(path.read_text())["pid"] == owner.pid
        owner.kill()
        owner.wait()
        assert mine.take() is True
        assert EpisodeLock(path).take() is False, "also within one process"
        mine.release()
        assert not path.exists()


def test_commands_and_our_own_steps(one: Path, tmp_path: Path):
    data = tmp_path / "data"
    for name in ("a", "b"):
        vary(one, data / "it-is-a-day", name)
    command = "cp {episode}/foa_24k.wav {out}/{name}"
    out = tmp_path / "copies"
    assert run(command, data, out, settings={"name": "sound.wav"}).done == 2
    copy = out / "it-is-a-day" / "b" / "sound.wav"
    assert copy.read_bytes() == (one / "foa_24k.wav").read_bytes()
    failed = run("cp {episode}/nothing {out}", data, tmp_path / "none", Limits(tries=1))
    assert {entry["reason"] for entry in failed.quarantined} == {"RuntimeError: cp ended with code 1"}
    assert "nothing" in failed.quarantined[0]["output"]

    out = tmp_path / "resampled"
    step = find_step("resample", {})
    assert process(step, [data], out, workers=1).done == 2
    made = Episode.open(one)
    import soundfile

    sound, rate = soundfile.read(out / "it-is-a-day" / "a" / "foa.wav", dtype="float32")
    assert rate == 24000
    assert (sound == made.audio(24000)).all(), "the release form is the same conversion"
    first = tree(out)
    assert process(step, [data], tmp_path / "anew", workers=1).done == 2
    assert tree(tmp_path / "anew") == first


def test_export_and_evaluate_as_steps(one: Path, tmp_path: Path):
    data = tmp_path / "data"
    known = {"target_device": "fan_1", "grounding": "G0", "query": "Q2", "feasibility": "feasible"}
    said = {"e1": "p1", "e2": "p2"}
    episodes = [vary(one, data / "day", name, speaker=person, **known) for name, person in said.items()]
    step = find_step("export", {"to": "webdataset", "unreviewed": "true"})
    assert process(step, episodes, tmp_path / "out", workers=1).done == 2
    with tarfile.open(tmp_path / "out" / "day" / "e2" / "hearth-release-000000.tar") as tar:
        assert tar.getnames() == ["e2.foa.wav", "e2.json", "e2.mp4"]
    strict = process(find_step("export", {}), episodes, tmp_path / "strict", workers=1)
    assert (strict.done, [q["kind"] for q in strict.quarantined]) == (0, ["input", "input"])
    assert "unreviewed" in strict.quarantined[0]["reason"]

    answers = tmp_path / "answers.jsonl"
    right = {"episode": "e1", "declared": "fan_1", "answer": "", "outcome": "done", "final_state": {}}
    answers.write_text(json.dumps(right) + "\n")
    scored = find_step("evaluate", {"answers": str(answers)})
    assert process(scored, [data], tmp_path / "scores", workers=1).done == 2
    told = [json.loads(line) for line in (tmp_path / "scores" / "results.jsonl").read_text().splitlines()]
    assert [row["result"]["grounding"]["verdict"] for row in told] == ["right", "wrong"]
    answers.write_text(answers.read_text() + "\n")
    changed = find_step("evaluate", {"answers": str(answers)})
    place = Place(episodes[0], tmp_path)
    assert place.key(changed) != place.key(scored), "another file of answers is another step"

    assert withdraw(data, "p1", also=[tmp_path / "out", tmp_path / "scores"]).done
    for folder in ("out", "scores"):
        left = [path for path in (tmp_path / folder).rglob("*") if path.is_file()]
        assert not [path for path in left if path.parent.name == "e1" or b"day/e1" in path.read_bytes()]


def test_no_room_ends_the_run_and_nobody_is_blamed(one: Path, tmp_path: Path, log: Path):
    data = tmp_path / "data"
    for i in range(8):
        vary(one, data / "day", f"ep{i}")
    with tmpfs(tmp_path / "disk", 12) as disk:
        with pytest.raises(StorageError, match=r"the disk is full.*the same command goes on"):
            run("process_steps:fills", data, disk / "out", settings={"mib": "2"})
        done = len(list(disk.glob(f"out/day/*/{DONE}")))
        assert 3 <= done < 8
        subprocess.run(["mount", "-o", "remount,size=64m", str(disk)], check=True)
        rest = run("process_steps:fills", data, disk / "out", settings={"mib": "2"})
        assert (rest.before, rest.done, rest.failed_tries) == (done, 8 - done, 0)


def test_what_cannot_be_asked_for_is_said(one: Path, tmp_path: Path):
    vary(one, tmp_path / "data" / "day", "ep")
    wrong: list[tuple[str, dict[str, str], str]] = [
        ("chek", {}, "is no step: one of check, doa"),
        ("nowhere:step", {}, "No module named 'nowhere'"),
        ("process_steps:frame", {}, "no attribute 'frame'"),
        ("process_steps:Path.home.x", {}, "cannot be loaded"),
        ("check", {"sound": "all"}, "no such parameter; it has none"),
        ("doa", {"sounds": "music"}, "--set sounds=music"),
        ("process_steps:frames", {"factor": "much"}, "--set factor=much"),
        ("no-such-program {episode}", {}, "there is no program"),
        ("cp {episode} {where}", {}, "{where}"),
        ("cp {episode} {out}", {"x": "1"}, "the command has no {x}"),
        ("cp '{episode}", {}, "No closing quotation"),
    ]
    for name, settings, message in wrong:
        with pytest.raises(InputError) as told:
            find_step(name, settings)
        assert message in str(told.value), name
    check = find_step("check", {})
    with pytest.raises(InputError, match="no such folder"):
        process(check, [tmp_path / "nothing"], tmp_path / "out", workers=1)
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="holds no episode"):
        process(check, [tmp_path / "empty"], tmp_path / "out", workers=1)
    vary(one, tmp_path / "other" / "day", "ep")
    with pytest.raises(InputError, match="both called day/ep"):
        process(check, [tmp_path / "data", tmp_path / "other"], tmp_path / "out", workers=1)
    with pytest.raises(InputError, match="sealed"):
        process(check, [tmp_path / "data"], tmp_path / "data" / "day" / "ep" / "out", workers=1)
    with pytest.raises(InputError, match="holds the episode"):
        process(check, [tmp_path / "data" / "day"], tmp_path / "data", workers=1)
    with pytest.raises(InputError, match="for --on ray"):
        process(check, [tmp_path / "data"], tmp_path / "out", workers=1, address="auto")
    with pytest.raises(InputError, match="at least 1 worker"):
        process(check, [tmp_path / "data"], tmp_path / "out", workers=0)


def test_the_key_is_of_content_and_step_alone(one: Path, tmp_path: Path):
    first = Place(vary(one, tmp_path / "a" / "day", "ep"), tmp_path / "x")
    moved = Place(vary(one, tmp_path / "b" / "day", "ep"), tmp_path / "y")
    plain, double = (find_step("process_steps:frames", s) for s in ({}, {"factor": "2"}))
    assert first.key(plain) == moved.key(plain) != first.key(double)
    assert first.key(plain) != Place(vary(one, tmp_path / "a" / "day", "ep2"), tmp_path).key(plain)
    found = find_places([tmp_path / "a", tmp_path / "a" / "day"], tmp_path / "x")
    assert [place.name for place in found] == [
        "day/ep",
        "day/ep2",
    ]


def test_on_ray_the_results_are_the_same(one: Path, tmp_path: Path, log: Path):
    pytest.importorskip("ray", reason="needs the extra batch (ray[data])")
    data = tmp_path / "data"
    for i in range(20):
        vary(one, data / "day", f"ep{i:02d}")
    vary(one, data / "day", "x-dies")
    limits = Limits(timeout_s=60.0, tries=1)
    ray = run("process_steps:trouble", data, tmp_path / "ray", limits, on="ray")
    assert (ray.done, ray.failed_tries) == (20, 1)
    assert [(q["episode"], q["kind"], q["tries"]) for q in ray.quarantined] == [("day/x-dies", "died", 1)]
    local = run("process_steps:trouble", data, tmp_path / "local", limits)
    assert local.done == 20 and tree(tmp_path / "ray") == tree(tmp_path / "local")
    assert run("process_steps:trouble", data, tmp_path / "ray", limits, on="ray").before == 20


def test_of_a_guided_session_only_kept_takes(one: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    session = tmp_path / "data" / "s"
    session.mkdir(parents=True)
    for take in (1, 2):
        shutil.copytree(one, session / f"ep1-t{take}")
    line = {"step": "kept", "t_utc": "2026-01-02T03:04:05Z", "item": "ep1", "take": 2, "episode": "ep1-t2"}
    (session / "session.jsonl").write_text(json.dumps(line) + "\n")
    monkeypatch.chdir(tmp_path)
    kept = run("verify", Path("data"), Path("kept"))
    assert (kept.episodes, kept.not_kept, str(kept.out)) == (1, 1, "kept")
    assert [path.parent.name for path in (tmp_path / "kept").glob("*/*/result.json")] == ["ep1-t2"]
    every = run("verify", Path("data"), Path("every"), all_takes=True)
    assert (every.episodes, every.not_kept) == (2, 0)
    assert run("verify", session / "ep1-t1", Path("named")).episodes == 1
