"""A seat for one worker: gives it episodes, ends it when one takes too long, replaces it when it dies."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import msgspec

from dsp.errors import HearthError, InputError
from recordings.process import keeper
from recordings.process.lock import EpisodeLock
from recordings.process.place import Place
from recordings.process.step import Step
from recordings.storage import StorageError

_START_S = 300.0  # until a worker is ready: a cold start compiles everything
_DYING_S = 20.0  # a core dump takes its time
_OUTPUT = 2000  # characters of what a step printed that are kept with a failure
# Workers are many; threads of libraries in each would only get into each other's way, and the number of
# threads can change the last bit of a sum.
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")


class WorkerError(HearthError):
    """A worker could not be started."""


@dataclass(frozen=True)
class Limits:
    """Of one episode: seconds, MiB of memory of the worker with all that it starts (0: none), tries."""

    timeout_s: float = 600.0
    memory_mib: int = 0
    tries: int = 3


@dataclass(frozen=True)
class Surroundings:
    """Where workers run: working folder and module path of the driver, also on another computer."""

    folder: str = field(default_factory=os.getcwd)
    path: tuple[str, ...] = field(default_factory=lambda: tuple(p or os.getcwd() for p in sys.path))


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What came of an episode. state: done, already (there is a result), busy (another driver is at it),
    stopped, or failed, then with the kind (timeout, memory, died, error, input, storage), the reason, and
    what the step printed last."""

    episode: str
    state: str
    kind: str = ""
    reason: str = ""
    output: str = ""
    seconds: float = 0.0


class Seat:
    """Runs episodes one by one in a process of its own. `run` is for one thread; `close` for any."""

    def __init__(self, step: Step, out: Path, limits: Limits, surroundings: Surroundings) -> None:
        self._step, self._out, self._limits, self._surroundings = step, out, limits, surroundings
        self._keeper: subprocess.Popen[bytes] | None = None
        self._tasks = self._answers = -1
        self._printed: IO[bytes] | None = None
        self._closed = False

    def run(self, place: Place) -> Outcome:
        """One episode. A failure is noted, so that the next driver knows of it.

        Raises WorkerError, InputError when no worker can be started at all, StorageError.
        """
        if self._keeper is None:
            self.start()
        began = time.monotonic()
        answer = self._ask({"episode": str(place.episode)}, self._limits.timeout_s)
        seconds = round(time.monotonic() - began, 3)
        if self._closed:
            return Outcome(episode=place.name, state="stopped")
        if answer is None:
            answer = self._post_mortem(place, seconds)
        answer.setdefault("seconds", seconds)
        key = answer.pop("key", "")
        failed = answer["state"] == "failed"
        output = self._output()  # also of one that went well: it must not grow for ever
        outcome = Outcome(episode=place.name, output=output if failed else "", **answer)
        if failed and outcome.kind != "storage":
            place.note_failure(key, outcome.kind, outcome.reason, outcome.output)
        if self._keeper is not None and self._keeper.poll() is not None:
            self._end()
        return outcome

    def start(self) -> None:
        """Start the worker and wait until it is ready."""
        read_task, self._tasks = os.pipe()
        self._answers, write_answer = os.pipe()
        if self._printed is None:
            self._printed = tempfile.TemporaryFile(prefix="hearth-process-")  # noqa: SIM115
        threads = dict.fromkeys(_THREADS, "1")
        environment = {**os.environ, **threads, "PYTHONPATH": os.pathsep.join(self._surroundings.path)}
        own = (sys.executable, "-m", "recordings.process.worker")
        ends = (str(read_task), str(write_answer))
        limits = (str(self._limits.memory_mib), str(self._limits.timeout_s))
        try:
            self._keeper = subprocess.Popen(
                [sys.executable, "-I", "-S", str(keeper.__file__), *limits, *ends, *own],
                stdin=subprocess.PIPE,
                stdout=self._printed,
                stderr=self._printed,
                pass_fds=(read_task, write_answer),
                env=environment,
                cwd=self._surroundings.folder,
                start_new_session=True,
            )
        except OSError as error:
            raise WorkerError(f"no worker could be started: {error}") from None
        finally:
            os.close(read_task)
            os.close(write_answer)
        if self._closed:  # in the meantime
            self.close()
        self._clear_output()
        answer = self._ask({"step": msgspec.to_builtins(self._step), "out": str(self._out)}, _START_S)
        if answer is None or answer["state"] != "ready":
            reason = answer["reason"] if answer else f"it ended at once: {self._output() or 'no word'}"
            self._end()
            raise WorkerError(f"step {self._step.name}: no worker could be started: {reason}")
        self._clear_output()

    def close(self) -> None:
        """End the worker at once; a `run` that is under way returns as failed. Safe to call twice."""
        self._closed = True
        if (process := self._keeper) is not None:
            _let_go(process)

    def end(self) -> None:
        """Close, wait until everything is gone, give back files."""
        self.close()
        self._end()
        if self._printed is not None:
            self._printed.close()

    def _ask(self, message: dict[str, Any], seconds: float) -> dict[str, Any] | None:
        """The answer; None when there was none in time or the worker is gone."""
        with suppress(OSError):  # a dead worker shows below
            os.write(self._tasks, json.dumps(message).encode() + b"\n")
        deadline = time.monotonic() + seconds
        line = b""
        while not line.endswith(b"\n"):
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self._answers], [], [], min(left, 60.0))[0]:
                if deadline - time.monotonic() <= 0:
                    return None
                continue
            part = os.read(self._answers, 1 << 16)
            if not part:
                return None
            line += part
        return dict(json.loads(line))

    def _post_mortem(self, place: Place, seconds: float) -> dict[str, Any]:
        """End a worker that did not answer, and say why it did not."""
        late = seconds >= self._limits.timeout_s
        if not late and self._keeper is not None:
            with suppress(subprocess.TimeoutExpired):  # it is on its way out; the keeper knows why
                self._keeper.wait(_DYING_S)
        code = self._end()
        with suppress(StorageError), EpisodeLock(place.lock) as lock:
            if lock.take():
                place.clear()
        try:
            key = place.key(self._step)
        except InputError:
            key = ""
        if code == keeper.OVER_MEMORY:
            kind, reason = "memory", f"took more than {self._limits.memory_mib} MiB of memory and was ended"
        elif late:
            kind, reason = "timeout", f"took longer than {self._limits.timeout_s:g} s and was ended"
        elif code > 128 and code != keeper.LET_GO:
            kind, reason = "died", f"its process was ended by signal {code - 128}"
        else:
            kind, reason = "died", f"its process ended with code {code}"
        return {"state": "failed", "kind": kind, "reason": reason, "key": key}

    def _end(self) -> int:
        """Let the keeper end everything; its exit code."""
        process, self._keeper = self._keeper, None
        code = 0
        if process is not None:
            _let_go(process)
            code = process.wait()
        for pipe in (self._tasks, self._answers):
            if pipe >= 0:
                os.close(pipe)
        self._tasks = self._answers = -1
        return code

    def _output(self) -> str:
        if self._printed is None:
            return ""
        size = self._printed.seek(0, os.SEEK_END)
        self._printed.seek(max(0, size - _OUTPUT))
        text = self._printed.read().decode("utf-8", "replace")
        self._clear_output()
        return text

    def _clear_output(self) -> None:
        if self._printed is not None:
            self._printed.seek(0)
            self._printed.truncate()


def _let_go(process: subprocess.Popen[bytes]) -> None:
    """Tell a keeper to end everything; safe to call twice, and from two threads."""
    assert process.stdin is not None
    with suppress(OSError):  # it is gone already
        os.write(process.stdin.fileno(), b"x")
