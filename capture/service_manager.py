"""Telling a service manager that we run: the datagrams of systemd's sd_notify(3), without a library.

systemd (Type=notify, WatchdogSec=) sets NOTIFY_SOCKET and WATCHDOG_USEC; so does the supervisor of
`hearth live --with-agent` for its child. Started by hand there is neither, and nothing is sent.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
from collections.abc import Callable, MutableMapping
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from capture.recorder import Recorder

log = logging.getLogger(__name__)

Watch = TypeVar("Watch", bound="PathWatch")

_LONGEST_PAUSE_S = 1.0


class ServiceManager:
    """Whoever started this process and wants to know how it is. Thread-safe; never raises.

    address: of its datagram socket; a path, or with a leading @ an abstract one. watchdog_s: without `alive`
    for so long the process counts as hung; None: nobody counts.
    """

    def __init__(self, address: str | None = None, watchdog_s: float | None = None) -> None:
        self._address = address
        self.watchdog_s = watchdog_s
        self._lock = threading.Lock()
        self._told_ns = 0
        self._is_ready = False
        self._failed = False

    @classmethod
    def of_environment(cls, environ: MutableMapping[str, str] = os.environ) -> ServiceManager:
        """The manager that the environment names. The names are taken out of it, so that processes which we
        start do not speak for us."""
        address = environ.pop("NOTIFY_SOCKET", None)
        limit, pid = environ.pop("WATCHDOG_USEC", ""), environ.pop("WATCHDOG_PID", "")
        ours = pid in ("", str(os.getpid()))
        watchdog_s = int(limit) / 1e6 if address and ours and limit.isdigit() and int(limit) else None
        return cls(address, watchdog_s)

    @property
    def listens(self) -> bool:
        """Whether there is one."""
        return self._address is not None

    @property
    def pause_s(self) -> float:
        """How often to look whether there is something to tell: four times within the watchdog's limit."""
        return min(_LONGEST_PAUSE_S, (self.watchdog_s or 60.0) / 4)

    def ready(self, status: str = "") -> None:
        """The service does its work."""
        self._is_ready = True
        self._send("READY=1", f"STATUS={_line(status)}")

    def reloading(self) -> None:
        """It reads its configuration again; `ready` ends that."""
        self._send("RELOADING=1", f"MONOTONIC_USEC={time.monotonic_ns() // 1000}")

    def stopping(self, status: str = "") -> None:
        """It ends."""
        self._send("STOPPING=1", f"STATUS={_line(status)}")

    def alive(self) -> None:
        """Feed the watchdog; often is well, it is sent four times within its limit."""
        now = time.monotonic_ns()
        if self.watchdog_s is None or now - self._told_ns < self.watchdog_s / 4.5 * 1e9:
            return
        self._told_ns = now
        self._send("WATCHDOG=1")

    def working(self, status: str = "") -> None:
        """`ready` the first time, `alive` from then on."""
        if not self._is_ready:
            self.ready(status)
        self.alive()

    def _send(self, *lines: str) -> None:
        if self._address is None:
            return
        address = "\0" + self._address[1:] if self._address.startswith("@") else self._address
        try:
            with self._lock, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as to:
                to.setblocking(False)  # a manager that does not read must not hold the sound up
                to.sendto("\n".join(lines).encode(), address)
        except OSError as error:
            if not self._failed:
                log.warning("the service manager at %s does not hear us: %s", self._address, error)
            self._failed = True


class PathWatch:
    """Tells a service manager `ready` at the first sound, and feeds its watchdog as long as sound comes.

    progress: a number that grows with each block of sound that went the whole way; None while the device is
    away and the service waits for it, which a restart would not mend. A path that hangs feeds nothing.
    ending: true from when the service was asked to end. From then on the watchdog is fed; how long an end may
    take is another limit (TimeoutStopSec=).
    """

    def __init__(
        self,
        manager: ServiceManager,
        progress: Callable[[], int | None],
        ending: Callable[[], bool] = lambda: False,
        status: Callable[[], str] = lambda: "",
    ) -> None:
        self._manager, self._progress = manager, progress
        self._ending, self._status = ending, status
        self.ready = threading.Event()
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="service watchdog", daemon=True)

    def __enter__(self: Watch) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closed.set()
        self._thread.join()

    def _run(self) -> None:
        seen: int | None = 0
        ending = False
        while not self._closed.wait(self._manager.pause_s):
            if self._ending():
                if not ending:
                    ending = True
                    self._manager.stopping("finishing what was recorded")
                self._manager.alive()
                continue
            now = self._progress()
            if now is not None and now == seen:
                continue
            if now and not self.ready.is_set():
                self.ready.set()
                self._manager.ready(self._status())
            seen = now
            if self.ready.is_set():
                self._manager.alive()


class TakeWatch(PathWatch):
    """The same for one take: `started` and `finishing` are for capture.take.record and call what is given."""

    def __init__(
        self,
        manager: ServiceManager,
        on_start: Callable[[Recorder], None],
        on_finishing: Callable[[], None],
    ) -> None:
        self._recorder: Recorder | None = None
        self._over = threading.Event()
        self._on_start, self._on_finishing = on_start, on_finishing
        super().__init__(manager, self._heard, self._over.is_set)

    def started(self, recorder: Recorder) -> None:
        """The sources run."""
        self._recorder = recorder
        self._on_start(recorder)

    def finishing(self) -> None:
        """The take is over."""
        self._over.set()
        self._on_finishing()

    def _heard(self) -> int | None:
        return 0 if self._recorder is None else self._recorder.heard


def _line(text: str) -> str:
    return text.replace("\n", " ")
