"""A real Home Assistant 2024.3.3, started by the tests on loopback with a first user and a token."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

import pytest

HASS = Path(__file__).parents[2] / ".venv" / "home-assistant" / "bin" / "hass"
READY_S = 60.0

CONFIGURATION = """
homeassistant: {{name: Test, unit_system: metric, time_zone: UTC}}
http: {{server_host: 127.0.0.1, server_port: {port}}}
demo:
input_boolean: {{kettle: {{name: Kettle}}}}
"""


def free_port() -> int:
    """Of 127.0.0.1."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


class HomeAssistant:
    """One on a port of its own. `start` and `stop` can follow each other: it keeps its folder."""

    def __init__(self, folder: Path) -> None:
        if not HASS.exists():
            pytest.skip("Home Assistant is not installed (sh scripts/home_assistant.sh)")
        self.folder, self.port = folder, free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.token = ""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "configuration.yaml").write_text(CONFIGURATION.format(port=self.port))
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Returns when it answers."""
        with (self.folder / "out.txt").open("ab") as out:
            self._process = subprocess.Popen(
                [HASS, "--config", self.folder, "--skip-pip"], stdout=out, stderr=out, start_new_session=True
            )
        end = time.monotonic() + READY_S
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > end:
                self.stop()
                raise AssertionError(f"Home Assistant did not start: {self.log()}")
            time.sleep(0.05)

    def stop(self) -> None:
        """As a restart of the machine would."""
        if self._process is not None and self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGTERM)
            try:
                self._process.wait(15)
            except subprocess.TimeoutExpired:
                os.killpg(self._process.pid, signal.SIGKILL)
                self._process.wait()
        self._process = None

    def log(self) -> str:
        """The end of its log."""
        return (self.folder / "out.txt").read_text(errors="replace")[-2000:]

    def _answers(self) -> bool:
        """Running, not only listening: whatever it loads is loaded."""
        try:
            if not self.token:
                return bool(self.get("/api/onboarding"))
            return bool(self.get("/api/config")["state"] == "RUNNING")
        except (OSError, ValueError):
            return False

    def log_in(self) -> None:
        """Make the first user, as its page does at the first visit."""
        client = f"{self.url}/"
        user = {"client_id": client, "name": "Owner", "username": "owner", "language": "en"}
        user["password"] = "a pass phrase"
        code = self.post("/api/onboarding/users", user)["auth_code"]
        form = {"client_id": client, "grant_type": "authorization_code", "code": code}
        body = urllib.parse.urlencode(form).encode()
        with urllib.request.urlopen(f"{self.url}/auth/token", body, timeout=10) as answer:
            self.token = str(json.load(answer)["access_token"])

    def get(self, path: str) -> Any:
        """By its REST API."""
        return self._ask(urllib.request.Request(self.url + path))

    def post(self, path: str, data: dict[str, Any]) -> Any:
        """By its REST API."""
        body = json.dumps(data).encode()
        return self._ask(urllib.request.Request(self.url + path, body, {"Content-Type": "application/json"}))

    def _ask(self, request: urllib.request.Request) -> Any:
        if self.token:
            request.add_header("Authorization", f"Bearer {self.token}")
        with urllib.request.urlopen(request, timeout=20) as answer:
            return json.load(answer)

    def state(self, entity_id: str) -> dict[str, Any]:
        """As Home Assistant tells it."""
        return dict(self.get(f"/api/states/{entity_id}"))

    def call(self, service: str, entity_id: str, **data: Any) -> None:
        """As somebody else in the house would."""
        self.post(f"/api/services/{service.replace('.', '/')}", {"entity_id": entity_id, **data})
