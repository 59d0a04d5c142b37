"""Steps for test_process.py: each notes its executions in the file that HEARTH_TEST_LOG names."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from dsp.errors import InputError
from recordings import Episode


def note(what: str) -> None:
    """Append a line; one write of a few bytes is not torn."""
    fd = os.open(os.environ["HEARTH_TEST_LOG"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(fd, f"{what}\n".encode())
    os.close(fd)


def frames(episode: Episode, out: Path, *, factor: int = 1, pause_s: float = 0.0) -> dict[str, object]:
    """A file and a result that depend on the episode and the parameter alone."""
    note(f"begin {episode.path.name}")
    time.sleep(pause_s)
    (out / "deep").mkdir()
    (out / "deep" / "frames.txt").write_text(f"{episode.original.frames * factor}\n")
    note(f"end {episode.path.name}")
    return {
        "request": episode.profile.request,
        "threads": os.environ["NUMBA_NUM_THREADS"],
        "nan": float("nan"),
    }


def trouble(episode: Episode, out: Path) -> None:
    """What an episode is called says what goes wrong with it."""
    name = episode.path.name
    note(f"begin {name}")
    (out / "half.bin").write_bytes(b"half")
    if name.endswith("hangs"):
        # Ignores the polite way, and is out of the process group.
        code = "import os, signal, time; os.setsid(); signal.signal(signal.SIGTERM, signal.SIG_IGN)"
        child = subprocess.Popen([sys.executable, "-c", code + "; time.sleep(600)"], start_new_session=True)
        note(f"child {child.pid}")
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        time.sleep(600)
    if name.endswith("dies"):
        print("last words")
        sys.stdout.flush()
        os.kill(os.getpid(), signal.SIGSEGV)
    if name.endswith("eats"):
        eaten = [bytearray(os.urandom(1) * (16 << 20)) for _ in range(40)]
        time.sleep(60)
        raise AssertionError(len(eaten))
    if name.endswith("unusable"):
        raise InputError("this one has no microphone")
    if name.endswith("raises"):
        raise ValueError("a bug")
    if name.endswith("late"):
        made = Path(os.environ["HEARTH_TEST_LOG"]).with_name("second-try")
        if not made.exists():
            made.touch()
            raise OSError("the network was away")


def fills(episode: Episode, out: Path, *, mib: int = 1) -> None:
    """Files of `mib` MiB each."""
    note(f"begin {episode.path.name}")
    (out / "zeros.bin").write_bytes(bytes(mib << 20))
