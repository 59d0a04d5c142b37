"""The process that runs a step, one episode after the other: `python -m recordings.process.worker FD FD`.

It reads a line of JSON per episode from the first descriptor and answers with one on the second; the first
line says which step. What libraries load and compile is loaded once. `recordings.process.keeper` started it
and ends it; `recordings.process.seat` is on the other side of the descriptors.
"""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from dsp.errors import HearthError, InputError
from recordings.episode import Episode
from recordings.process.lock import EpisodeLock
from recordings.process.place import Place
from recordings.process.step import Step, arguments, load_function
from recordings.storage import StorageError, storage_error
from recordings.terminal import plain

_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)
_ROOM_BYTES = 1 << 20
Run = Callable[[Episode, Path], Any]


def main() -> int:
    """Answer until there is no more to do."""
    with os.fdopen(int(sys.argv[1]), "rb") as tasks, os.fdopen(int(sys.argv[2]), "wb", 0) as answers:
        setup = json.loads(tasks.readline())
        step = msgspec.convert(setup["step"], Step)
        try:
            run = runner(step)
        except Exception as error:
            _answer(answers, state="refused", reason=_told(error))
            return 0
        _answer(answers, state="ready")
        for line in tasks:
            place = Place(Path(json.loads(line)["episode"]), Path(setup["out"]))
            _answer(answers, **execute(step, run, place))
    return 0


def _answer(answers: BinaryIO, **values: Any) -> None:
    with suppress(BrokenPipeError):  # the driver was killed; what is done is done
        answers.write(json.dumps(values).encode() + b"\n")


def runner(step: Step) -> Run:
    """What to call with an episode and its folder, loaded and warm."""
    if step.command:
        return lambda episode, out: _run_command(step, episode, out)
    function = load_function(step.function)
    getattr(function, "warm", lambda: None)()
    parameters = arguments(step, function)
    return lambda episode, out: function(episode, out, **parameters)


def execute(step: Step, run: Run, place: Place) -> dict[str, Any]:
    """One episode: `state` is done, already (there is a result), busy (another one is at it) or failed, then
    with `kind` (input: it cannot be used; storage: nothing can be written; error) and `reason`."""
    began = time.monotonic()
    key = ""
    try:
        key = place.key(step)
        with EpisodeLock(place.lock) as lock:
            if not lock.take():
                return {"state": "busy"}
            if place.is_done(key):
                return {"state": "already"}
            place.log("start", key, pid=os.getpid())
            try:
                part = place.begin()
                result = run(Episode.open(place.episode), part)
                place.commit(step, key, None if result is None else plain(result))
            except BaseException:
                place.clear()
                raise
            seconds = round(time.monotonic() - began, 3)
            place.log("done", key, seconds=seconds)
            return {"state": "done", "seconds": seconds}
    except (Exception, SystemExit) as error:
        if not isinstance(error, HearthError):
            traceback.print_exc()
        kind = _kind(error, place)
        reason = _told(error)
        if kind == "storage" and not isinstance(error, StorageError):
            full = error if isinstance(error, OSError) else OSError(errno.ENOSPC, "no room")
            reason = str(storage_error(full, place.target))
        return {"state": "failed", "key": key, "kind": kind, "reason": reason}


def _kind(error: BaseException, place: Place) -> str:
    if isinstance(error, StorageError) or (isinstance(error, OSError) and error.errno in _NO_ROOM):
        return "storage"
    if isinstance(error, InputError):
        return "input"
    room = os.statvfs(place.out)
    # A program that fails on a full disk seldom says so; what it cost is no fault of the episode.
    return "storage" if room.f_bavail * room.f_frsize < _ROOM_BYTES else "error"


def _told(error: BaseException) -> str:
    return str(error) if isinstance(error, HearthError) else f"{type(error).__name__}: {error}"


def _run_command(step: Step, episode: Episode, out: Path) -> None:
    words = [word.format(episode=episode.path, out=out, **step.parameters) for word in step.command]
    done = subprocess.run(words, stdin=subprocess.DEVNULL, check=False)
    if done.returncode:
        how = f"code {done.returncode}" if done.returncode > 0 else f"signal {-done.returncode}"
        raise RuntimeError(f"{Path(words[0]).name} ended with {how}")


if __name__ == "__main__":
    sys.exit(main())
