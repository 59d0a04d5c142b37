"""A process that is looked after: started again when it dies or hangs, without anybody waiting for it.

The child speaks as it would to systemd (capture.service_manager): READY=1 when it does its work, WATCHDOG=1
while it goes on. So the same program runs under a unit of its own or under this supervisor.
"""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from edge.service.logs import fields

log = logging.getLogger(__name__)

FIRST_PAUSE_S = 0.5
LONGEST_PAUSE_S = 30.0
HEALTHY_S = 60.0  # after so long the next pause is the first one again
_END_S = 5.0
_LOOK_S = 0.1
_OOM_SCORE = 500


class Child:
    """Runs `command` until `close`. Use as a context manager.

    event:    is told `event(kind, **fields)`: process_started, process_hung, process_ended.
    silent_s: without a sign of life for so long it hangs, and is killed. start_s: the same before its first.
    nice:     of the child: sound and pictures go first.
    over:     true when there is nothing to do for it any more: then its end is no fault.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        event: Callable[..., None],
        *,
        silent_s: float = 20.0,
        start_s: float = 120.0,
        nice: int = 5,
        over: Callable[[], bool] = lambda: False,
    ) -> None:
        self.name, self.command = name, list(command)
        self.restarts = 0
        self._event, self._silent_s, self._start_s, self._nice = event, silent_s, start_s, nice
        self._over = over
        self._closing = threading.Event()
        self._again = threading.Event()
        self._process: subprocess.Popen[bytes] | None = None
        self._ready = False
        self._folder = tempfile.mkdtemp(prefix="hearth-")  # nobody else may speak for the child
        self._address = os.path.join(self._folder, "notify")
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
        self._socket.bind(self._address)
        self._socket.settimeout(_LOOK_S)
        self._thread = threading.Thread(target=self._look_after, name=f"keeps {name}", daemon=True)

    def __enter__(self) -> Child:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def pid(self) -> int | None:
        """Of the process that runs now."""
        process = self._process
        return None if process is None or process.poll() is not None else process.pid

    @property
    def ready(self) -> bool:
        """It runs, and said that it does its work."""
        return self._ready and self.pid is not None

    def start_again(self) -> None:
        """End it and start it anew, for a configuration that it reads at its start only."""
        self._again.set()

    def close(self) -> None:
        """End it: it is asked first. Safe to call twice."""
        self._closing.set()
        if self._thread.is_alive():
            self._thread.join()
        self._socket.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _look_after(self) -> None:
        pause = FIRST_PAUSE_S
        while not self._closing.is_set():
            began = time.monotonic()
            why = self._run_once()
            self._ready = False
            if self._closing.is_set() or self._over():
                return
            wanted = why is None
            pause = FIRST_PAUSE_S if wanted or time.monotonic() - began > HEALTHY_S else pause
            if not wanted:
                text = f"{self.name} {why}; it is started again in {pause:g} s"
                log.warning(text, extra=fields(process=self.name, restarts=self.restarts))
                self._tell("process_ended", detail=str(why), again_in_s=pause)
                if self._closing.wait(pause):
                    return
                pause = min(2 * pause, LONGEST_PAUSE_S)
            self.restarts += 1

    def _run_once(self) -> str | None:
        """Start it and follow it to its end; returns why it ended, None when that was wanted."""
        self._drain()
        limit = str(int(self._silent_s * 1e6))
        environment = {**os.environ, "NOTIFY_SOCKET": self._address, "WATCHDOG_USEC": limit}
        environment.pop("WATCHDOG_PID", None)
        try:
            process = subprocess.Popen(
                self.command,
                stdin=subprocess.DEVNULL,
                stdout=sys.stderr.fileno() if _has_descriptor() else subprocess.DEVNULL,
                env=environment,
                cwd=Path(__file__).parents[2],
                start_new_session=True,  # Ctrl-C is for the service, and the whole group can be ended
            )
        except OSError as error:
            return f"could not be started: {error}"
        self._process = process
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, process.pid, self._nice)
        with contextlib.suppress(OSError):  # when memory runs out it goes, not the recording
            Path(f"/proc/{process.pid}/oom_score_adj").write_text(str(_OOM_SCORE))
        self._tell("process_started", pid=process.pid, restarts=self.restarts)
        return self._follow(process)

    def _follow(self, process: subprocess.Popen[bytes]) -> str | None:
        last = time.monotonic()
        while True:
            said = self._hear()
            now = time.monotonic()
            if "READY=1" in said:
                self._ready = True
            if said:
                last = now
            if (code := process.poll()) is not None:
                return _ending(code)
            if self._closing.is_set() or self._again.is_set():
                self._again.clear()
                self._end(process)
                return None
            if now - last > (self._silent_s if self._ready else self._start_s):
                self._tell("process_hung", pid=process.pid, silent_s=round(now - last, 2))
                _kill(process)
                return f"gave no sign of life for {now - last:.1f} s and was killed"

    def _hear(self) -> list[str]:
        """Lines of the next datagram; none when there is none for a moment."""
        try:
            return self._socket.recv(4096).decode("utf-8", "replace").splitlines()
        except (TimeoutError, OSError):
            return []

    def _drain(self) -> None:
        """What an earlier process said counts no more."""
        self._socket.setblocking(False)
        with contextlib.suppress(OSError):
            while self._socket.recv(4096):
                pass
        self._socket.settimeout(_LOOK_S)

    def _end(self, process: subprocess.Popen[bytes]) -> None:
        process.terminate()
        try:
            process.wait(_END_S)
        except subprocess.TimeoutExpired:
            _kill(process)

    def _tell(self, kind: str, **values: Any) -> None:
        try:
            self._event(kind, process=self.name, **values)
        except Exception:
            log.exception("%s could not be told", kind)


def _kill(process: subprocess.Popen[bytes]) -> None:
    """End the process and all that it started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _ending(code: int) -> str:
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        return f"was ended by {signal.Signals(-code).name}"
    except ValueError:
        return f"was ended by signal {-code}"


def _has_descriptor() -> bool:
    try:
        return sys.stderr.fileno() >= 0
    except (OSError, ValueError, AttributeError):
        return False
