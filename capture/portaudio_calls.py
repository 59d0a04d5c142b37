"""PortAudio's calls, made in one thread with deadlines: a driver or sound server that hangs holds nobody up.

PortAudio lists its devices when it is initialised and not again. Terminating it closes *every* open stream of
the process, whichever binding opened it (sounddevice and PyAudio share the library and its count of users),
without a word to their owners. So a new list is taken only while no stream of ours is open.
"""

from __future__ import annotations

import atexit
import queue
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar

from dsp.errors import DeviceError

T = TypeVar("T")
OPEN_S, START_S, CLOSE_S = 15.0, 5.0, 1.5
_open_streams: set[int] = set()


class Interrupted(DeviceError):
    """The caller is being stopped and did not wait for the answer."""


class _Caller:
    """One daemon thread that works through calls in order. What comes too late still runs, when it can: a
    stream that could not be closed in time is closed when the driver wakes up."""

    def __init__(self) -> None:
        self._jobs: queue.SimpleQueue[_Job] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._late: _Job | None = None

    @property
    def hangs(self) -> bool:
        """A call that missed its deadline has not come back yet."""
        return self._late is not None and not self._late.done.is_set()

    def call(
        self, what: str, function: Callable[[], T], timeout_s: float, stopping: threading.Event | None = None
    ) -> T:
        """The function's result, or its error. Raises DeviceError after timeout_s, Interrupted when
        `stopping` is set before."""
        job = _Job(function)
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="portaudio", daemon=True)
                self._thread.start()
            self._jobs.put(job)
        deadline = time.monotonic() + timeout_s
        while not job.done.wait(0.05 if stopping is not None else timeout_s):
            if stopping is not None and stopping.is_set():
                self._give_up(job)
                raise Interrupted(f"{what}: interrupted")
            if time.monotonic() >= deadline:
                self._give_up(job)
                raise DeviceError(
                    f"{what}: no answer within {timeout_s:g} s: the driver or the sound server hangs. Unplug"
                    " the microphone and plug it in again, or restart the sound server."
                )
        if job.error is not None:
            raise job.error
        return job.result  # type: ignore[no-any-return]

    def _give_up(self, job: _Job) -> None:
        self._late = job
        sounddevice = sys.modules.get("sounddevice")
        if sounddevice is not None:  # its exit handler would wait for the hanging driver for ever
            atexit.unregister(sounddevice._exit_handler)

    def _work(self) -> None:
        while True:
            job = self._jobs.get()
            try:
                job.result = job.function()
            except BaseException as error:
                job.error = error
            job.done.set()


class _Job:
    def __init__(self, function: Callable[[], Any]) -> None:
        self.function, self.done = function, threading.Event()
        self.result: Any = None
        self.error: BaseException | None = None


portaudio = _Caller()


def opened(owner: object) -> None:
    """A stream of `owner` is open: no new list until it is closed."""
    _open_streams.add(id(owner))


def closed(owner: object) -> None:
    """The stream of `owner` is closed."""
    _open_streams.discard(id(owner))


def release_list() -> bool:
    """End sounddevice's use of PortAudio, so that the next one to initialise it lists the devices anew.

    False, and nothing happens, while a stream is open in this process.
    """
    if _open_streams:
        return False
    sounddevice = sys.modules.get("sounddevice")
    while sounddevice is not None and sounddevice._initialized:
        sounddevice._terminate()
    return True
