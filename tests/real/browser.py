"""A headless Chromium, driven over its DevTools protocol: it needs nothing but the browser."""

from __future__ import annotations

import base64
import contextlib
import itertools
import json
import subprocess
import time
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from websockets.sync.client import connect

from tests.real.chromium import CHROMIUM, QUIET

SILENT = (*QUIET, "--disable-quic", "--disable-dev-shm-usage", "--mute-audio")


class Browser:
    """One browser with one page. `complaints` holds what its console and its security policy said."""

    def __init__(self, profile: Path) -> None:
        if CHROMIUM is None:
            pytest.skip("Chromium is not installed")
        self._process = subprocess.Popen(
            [CHROMIUM, *SILENT, f"--user-data-dir={profile}", "--remote-debugging-port=0", "about:blank"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            port = self._port(profile / "DevToolsActivePort")
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/json", timeout=10) as answer:
                page = next(p for p in json.load(answer) if p["type"] == "page")
            link = connect(page["webSocketDebuggerUrl"], max_size=None, compression=None, proxy=None)
            self._open = contextlib.ExitStack()
            self._socket = self._open.enter_context(link)
        except BaseException:
            self._process.kill()
            self._process.wait()
            raise
        self._number = itertools.count(1)
        self.complaints: list[str] = []
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(Exception):
            self._open.close()
        self._process.terminate()
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _port(self, file: Path) -> int:
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            if file.is_file() and (lines := file.read_text().split()):
                return int(lines[0])
            assert self._process.poll() is None, "Chromium ended at once"
            time.sleep(0.05)
        raise AssertionError("Chromium did not start within 30 s")

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """One call of the protocol and its result."""
        number = next(self._number)
        self._socket.send(json.dumps({"id": number, "method": method, "params": params}))
        while True:
            said = json.loads(self._socket.recv(timeout=30))
            if said.get("id") == number:
                assert "error" not in said, f"{method}: {said['error']}"
                return dict(said["result"])
            self._note(said)

    def _note(self, said: dict[str, Any]) -> None:
        method, params = said.get("method"), said.get("params", {})
        if method == "Runtime.exceptionThrown":
            self.complaints.append(str(params["exceptionDetails"].get("exception", {}).get("description")))
        elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning"):
            self.complaints.append(str([a.get("value") for a in params["args"]]))
        elif method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            self.complaints.append(f"{params['entry']['text']} {params['entry'].get('url', '')}")

    def evaluate(self, expression: str) -> Any:
        """The value of a JavaScript expression in the page; promises are waited for."""
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in result, result["exceptionDetails"]
        return result["result"].get("value")

    def until(self, expression: str, timeout_s: float = 15.0) -> Any:
        """Wait until an expression is true; its value."""
        deadline = time.monotonic() + timeout_s
        while not (value := self.evaluate(expression)):
            assert time.monotonic() < deadline, f"not true within {timeout_s:g} s: {expression}"
            time.sleep(0.05)
        return value

    def view(
        self, width: int, height: int, *, phone: bool = False, dark: bool = False, scale: float = 1
    ) -> None:
        """The size of the screen, whether it is a phone's, and its colours."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=scale,
            mobile=phone,
        )
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.call("Emulation.setEmulatedMedia", features=scheme)

    def open(self, url: str) -> None:
        """Go to an address and wait until its script has run."""
        self.call("Page.navigate", url=url)
        self.until("location.protocol === 'http:' && document.readyState === 'complete' && !!document.body")

    def press(self, key: str) -> None:
        """A key of the keyboard; one with a name (ArrowLeft) writes no text."""
        for kind in ("keyDown", "keyUp"):
            text = key if kind == "keyDown" and len(key) == 1 else ""
            self.call("Input.dispatchKeyEvent", type=kind, key=key, text=text)

    def screenshot(self, path: Path, whole: bool = False) -> None:
        """A PNG of what is seen, or of the whole page."""
        shot = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(shot["data"]))
