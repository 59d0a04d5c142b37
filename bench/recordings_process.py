"""`hearth process` over a thousand episodes: rates, restarts, and the same on Ray.

python -m bench.recordings_process      1,000 episodes (QUICK=1: 60)

The episodes are takes of the virtual room, 3 s long, hard-linked with another profile and so another content
each. Executions are counted by the step itself in an append-only file, besides what the command logs. The
peer does the same work in one process, one episode after the other, with nothing written: no process, lock,
hash, or force to the medium.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from bench.figures import end_of_part, figure, not_measured, note, peer, quick
from bench.made_episodes import vary

REPOSITORY = Path(__file__).resolve().parents[1]
LOG = "HEARTH_BENCH_LOG"
WORKERS = 2
RATE_PER_S = 1000 / 600  # a thousand in ten minutes
RIG = """hearth_rig: 1
name: bench
microphone: {source: virtual, pace: fast}
camera: {source: virtual, pace: fast, width_px: 320, height_px: 180, fps: 10}
virtual: {scene: talk}
storage: {folder: takes, min_free_mib: 0}
"""


def counted_check(episode: Any, out: Path) -> dict[str, Any]:
    """The step: `check`, and a line for each execution."""
    from recordings.process.steps import check

    fd = os.open(os.environ[LOG], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(fd, f"{episode.path.name}\n".encode())
    os.close(fd)
    return check(episode, out)


def _warm() -> None:
    from recordings.process import steps

    steps.check.warm()  # type: ignore[attr-defined]


counted_check.warm = _warm  # type: ignore[attr-defined]
STEP = "bench.recordings_process:counted_check"


def make(root: Path, count: int) -> Path:
    """`count` finished episodes below <root>/data, of four takes of the virtual room."""
    (root / "rig.yaml").write_text(RIG)
    takes = []
    for number in range(4):
        told = _hearth(root, "record", "--rig", "rig.yaml", "--seconds", "3", "--session", f"take{number}")
        takes.append(root / told["episode"])
    for number in range(count):
        vary(takes[number % len(takes)], root / "data" / f"day{number // 100}", f"ep{number:04d}")
    return root / "data"


def _environment(log: Path) -> dict[str, str]:
    path = os.pathsep.join(filter(None, [str(REPOSITORY), os.environ.get("PYTHONPATH", "")]))
    return {**os.environ, "PYTHONPATH": path, LOG: str(log)}


def _hearth(folder: Path, *arguments: object) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "hearth", *map(str, arguments), "--json"],
        cwd=folder,
        env=_environment(folder / "log.txt"),
        stdout=subprocess.PIPE,
        check=True,
    )
    return dict(json.loads(done.stdout))


def _process(root: Path, data: Path, out: str, *options: object) -> dict[str, Any]:
    log = root / "log.txt"
    log.unlink(missing_ok=True)
    return _hearth(root, "process", STEP, data, "--out", out, "--workers", WORKERS, *options)


def _executions(root: Path) -> Counter[str]:
    log = root / "log.txt"
    return Counter(log.read_text().splitlines()) if log.exists() else Counter()


def _tree(out: Path) -> dict[str, str]:
    return {
        path.relative_to(out).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(out.rglob("*"))
        if path.is_file() and ".process" not in path.parts
    }


def _differing(a: dict[str, str], b: dict[str, str]) -> int:
    return sum(a.get(name) != b.get(name) for name in a.keys() | b.keys())


def _one_process(data: Path, most: int) -> float:
    """Episodes per second of the work alone, in this process."""
    from recordings import Episode
    from recordings.process.steps import check

    _warm()
    paths = sorted(data.glob("*/*"))[:most]
    began = time.monotonic()
    for path in paths:
        check(Episode.open(path), path)
    return len(paths) / (time.monotonic() - began)


def run(quick: bool) -> None:
    """All figures of the part."""
    count = 60 if quick else 1000
    with tempfile.TemporaryDirectory(prefix="hearth-bench-process-") as folder:
        root = Path(folder)
        began = time.monotonic()
        data = make(root, count)
        note(f"{count} episodes made in {time.monotonic() - began:.1f} s")
        _local(root, data, count)
        _killed(root, data, count)
        _on_ray(root, data, count)


def _local(root: Path, data: Path, count: int) -> None:
    found = _process(root, data, "local")
    executions = _executions(root)
    figure("process_local_episodes", found["done"], "episodes", "==", count)
    figure("process_local_rate", found["rate_per_s"], "episodes/s", ">=", RATE_PER_S)
    alone = _one_process(data, min(count, 100))
    peer("process_one_process_rate", alone, "episodes/s")
    figure("process_local_to_one_process", found["rate_per_s"] / alone, "", ">=", 1.3)
    figure("process_local_executions_per_episode", max(executions.values()), "", "==", 1)
    again = _process(root, data, "local")
    figure("process_second_run_executions", sum(_executions(root).values()), "", "==", 0)
    figure("process_second_run_per_episode", again["seconds"] / count * 1e3, "ms", "<=", 20.0)


def _killed(root: Path, data: Path, count: int) -> None:
    """SIGKILL of the driver half-way, then at once the same command, while its workers may still be there."""
    log = root / "log.txt"
    log.unlink(missing_ok=True)
    command = [sys.executable, "-m", "hearth", "process", STEP, data, "--out", "killed", "--workers", WORKERS]
    with subprocess.Popen(list(map(str, command)), cwd=root, env=_environment(log)) as driver:
        while sum(_executions(root).values()) < count // 2:
            if driver.poll() is not None:
                raise RuntimeError(f"the driver ended by itself with {driver.returncode}")
            time.sleep(0.02)
        driver.send_signal(signal.SIGKILL)
    at_kill = sum(_executions(root).values())
    rest = _hearth(root, "process", STEP, data, "--out", "killed", "--workers", WORKERS)
    executions = _executions(root)
    note(f"killed after {at_kill} of {count}; then {rest['done']} done, {rest['already_done']} were there")
    figure("process_killed_executions_twice", sum(n > 1 for n in executions.values()), "episodes", "==", 0)
    figure("process_killed_episodes", len(executions), "episodes", "==", count)
    figure(
        "process_killed_files_that_differ",
        _differing(_tree(root / "killed"), _tree(root / "local")),
        "files",
        "==",
        0,
    )


def _on_ray(root: Path, data: Path, count: int) -> None:
    try:
        import ray  # noqa: F401
    except ImportError as error:
        why = f"Ray is not installed: {error}"
        not_measured("process_ray_episodes", "episodes", "==", count, why)
        not_measured("process_ray_rate", "episodes/s", ">=", RATE_PER_S, why)
        not_measured("process_ray_files_that_differ", "files", "==", 0, why)
        return
    found = _process(root, data, "ray", "--on", "ray")
    executions = _executions(root)
    figure("process_ray_episodes", found["done"], "episodes", "==", count)
    figure("process_ray_rate", found["rate_per_s"], "episodes/s", ">=", RATE_PER_S)
    figure("process_ray_executions_per_episode", max(executions.values()), "", "==", 1)
    differing = _differing(_tree(root / "ray"), _tree(root / "local"))
    figure("process_ray_files_that_differ", differing, "files", "==", 0)


def main() -> int:
    """The part alone."""
    run(quick())
    return end_of_part("recordings-process")


if __name__ == "__main__":
    sys.exit(main())
