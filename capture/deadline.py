"""Work that may hang in a driver or on the network, done within a deadline."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import TypeVar

from dsp.errors import DeviceError, HearthError

T = TypeVar("T")


class Deadline:
    """A limit for a whole row of work: each part may take what it asks for, but not more than is left."""

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds

    def part(self, seconds: float) -> float:
        """How long a part that asks for `seconds` may take."""
        return max(min(seconds, self._end - time.monotonic()), 0.2)


def within(seconds: float, what: str, work: Callable[[], T]) -> T:
    """The result of `work`, done in a thread of its own that is left behind when it takes longer.

    Raises what `work` raises, or DeviceError when it does not end in time.
    """
    result = together(seconds, {what: work})[what]
    if isinstance(result, BaseException):
        raise result
    return result


def together(seconds: float, works: Mapping[str, Callable[[], T]]) -> dict[str, T | BaseException]:
    """The results of all works, done at the same time; what one raised, or DeviceError for one that hangs, is
    its result. Ctrl-C is heard while it waits."""
    results: dict[str, T | BaseException] = {}

    def run(what: str, work: Callable[[], T]) -> None:
        try:
            result: T | BaseException = work()
        except BaseException as error:
            result = error
        results.setdefault(what, result)

    threads = {
        what: threading.Thread(target=run, args=(what, work), name=f"doctor {what}", daemon=True)
        for what, work in works.items()
    }
    for thread in threads.values():
        thread.start()
    end = time.monotonic() + seconds
    for thread in threads.values():
        thread.join(max(end - time.monotonic(), 0.0))
    for what in works:
        results.setdefault(what, DeviceError(f"{what}: no answer within {seconds:.0f} s; it was given up"))
    return {what: results[what] for what in works}


def as_error(problem: BaseException) -> HearthError:
    """What went wrong in words: our own errors as they are, others with their kind."""
    if isinstance(problem, HearthError):
        return problem
    if isinstance(problem, OSError) and problem.strerror:
        return DeviceError(f"{problem.filename or ''}: {problem.strerror}".removeprefix(": "))
    return DeviceError(f"{type(problem).__name__}: {problem}")
