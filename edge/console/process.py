"""The console's process as `hearth live` sees it: started, started again when it dies, ended."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dsp.errors import DeviceError
from edge.console.address import Listening, is_loopback, listen
from edge.console.settings import settings_of

if TYPE_CHECKING:
    from edge.live import LiveService

log = logging.getLogger(__name__)

_END_S = 3.0
_FIRST_PAUSE_S = 0.5
_LONGEST_PAUSE_S = 30.0


class ConsoleProcess:
    """Serves the page from a process of its own until `close`. Use as a context manager.

    listening: the bound socket; it stays open, so that the address is the same when the process dies and is
    started again. settings: `settings_of(opened)`. trouble: is told in words when the process died.
    """

    def __init__(
        self,
        listening: Listening,
        stream: str,
        commands: str,
        settings: dict[str, Any],
        trouble: Callable[[str], None] = log.warning,
    ) -> None:
        self.listening = listening
        self.restarts = 0
        self._trouble = trouble
        listening.socket.set_inheritable(True)
        self._told = json.dumps(
            {
                "fd": listening.socket.fileno(),
                "port": listening.port,
                "loopback": is_loopback(listening.host),
                "token": listening.token,
                "stream": stream,
                "commands": commands,
                "rig": settings,
            }
        )
        self._closing = threading.Event()
        self._renewing = False
        self._lock = threading.Lock()
        self._process = self._start()
        self._thread = threading.Thread(target=self._look_after, name="console", daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        """What to open, with the token where one is needed."""
        return self.listening.url

    @property
    def pid(self) -> int:
        """Of the process that serves now."""
        return self._process.pid

    def __enter__(self) -> ConsoleProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End it and close the socket; safe to call twice."""
        self._closing.set()
        with self._lock:
            process = self._process
        if process.stdin is not None:
            process.stdin.close()  # it ends by itself then, as it does when this process is killed
        try:
            process.wait(_END_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        self._thread.join()
        self.listening.socket.close()

    def renew(self, settings: dict[str, Any]) -> None:
        """Serve with other settings: the process is started anew, open pages come back by themselves."""
        with self._lock:
            self._told = json.dumps({**json.loads(self._told), "rig": settings})
            self._renewing = True
            if self._process.stdin is not None:
                self._process.stdin.close()

    def _start(self) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-m", "edge.console"],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            text=True,
            cwd=Path(__file__).parents[2],
            pass_fds=[self.listening.socket.fileno()],
            start_new_session=True,  # Ctrl-C is for the service
        )
        assert process.stdin is not None
        process.stdin.write(self._told + "\n")  # not on the command line, where everybody can read the token
        process.stdin.flush()
        return process

    def _look_after(self) -> None:
        pause = _FIRST_PAUSE_S
        while True:
            code = self._process.wait()
            if self._closing.is_set():
                return
            with self._lock:
                wanted, self._renewing = self._renewing, False
            if not wanted:
                self._trouble(f"the console ended (exit code {code}); it is started again in {pause:g} s")
                if self._closing.wait(pause):
                    return
                pause = min(2 * pause, _LONGEST_PAUSE_S)
            with self._lock:
                if self._closing.is_set():
                    return
                self._process = self._start()
                self.restarts += 1


@contextmanager
def serving(
    address: str | None, service: LiveService, say: Callable[[str], None]
) -> Iterator[ConsoleProcess | None]:
    """The console of a service while it runs. None without an address, and for one that cannot be had: that
    is said, and the rig runs all the same. Raises InputError for what is no address."""
    listening = None
    if address is not None:
        try:
            # Where the stream asks this machine's other users for a key, the console is no way around it.
            listening = listen(address, always_token=service.rig.security.loopback == "keys")
        except DeviceError as error:
            say(f"NO CONSOLE: {error}")
    if listening is None:
        yield None
        return

    def trouble(text: str) -> None:
        log.warning(text)
        service.event("console", detail=text)

    settings = settings_of(service.opened)
    with ConsoleProcess(
        listening, service.local_stream_address, service.local_commands_address, settings, trouble
    ) as process:
        yield process
