"""Chromium without a window, driven over its own debugging pipe (no port, no further package)."""

from __future__ import annotations

import json
import os
import subprocess
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import Any

from tests.real.chromium import CHROMIUM, QUIET


class Browser:
    """A context manager with one page: `call` sends a command of the DevTools protocol, `run` a script."""

    def __init__(self, profile: Path, width: int = 800, height: int = 600) -> None:
        assert CHROMIUM is not None
        read_end, self._write = os.pipe()
        self._read, write_end = os.pipe()
        # Chromium reads commands from 3 and writes answers to 4.
        self._process = subprocess.Popen(
            [
                "bash", "-c", f'exec "$@" 3<&{read_end} 4>&{write_end}', "bash", CHROMIUM, *QUIET,
                "--autoplay-policy=no-user-gesture-required",
                "--remote-debugging-pipe", f"--user-data-dir={profile}", f"--window-size={width},{height}",
                "about:blank",
            ],
            pass_fds=(read_end, write_end),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(read_end)
        os.close(write_end)
        self._answers: dict[int, dict[str, Any]] = {}
        self._changed = threading.Condition()
        self._number = 0
        self._session = ""
        threading.Thread(target=self._listen, daemon=True).start()

    def __enter__(self) -> Browser:
        targets = self.call("Target.getTargets")["targetInfos"]
        page = next(target["targetId"] for target in targets if target["type"] == "page")
        self._session = self.call("Target.attachToTarget", targetId=page, flatten=True)["sessionId"]
        self.call("Page.enable")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.terminate()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(10)
        os.close(self._write)

    def _listen(self) -> None:
        buffer = b""
        while data := os.read(self._read, 1 << 16):
            buffer += data
            *messages, buffer = buffer.split(b"\0")
            with self._changed:
                for message in map(json.loads, messages):
                    if "id" in message:
                        self._answers[message["id"]] = message
                self._changed.notify_all()
        os.close(self._read)

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Send a command and wait for its answer."""
        self._number += 1
        number = self._number
        message: dict[str, Any] = {"id": number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        with self._changed:
            assert self._changed.wait_for(lambda: number in self._answers, 60), f"{method}: no answer"
            answer = self._answers.pop(number)
        assert "error" not in answer, f"{method}: {answer['error']}"
        return dict(answer["result"])

    def run(self, script: str) -> Any:
        """The value of an expression in the page; a promise is waited for."""
        answer = self.call(
            "Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True, userGesture=True
        )
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def wait_for(self, script: str, seconds: float) -> None:
        """Until an expression is true."""
        until = time.monotonic() + seconds
        while not self.run(script):
            assert time.monotonic() < until, f"{script} has not come true in {seconds} s"
            time.sleep(0.05)
