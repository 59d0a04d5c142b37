"""A page on this computer in which a device is clicked: `--pick`.

Served on loopback only, under an address with a random part, so that no other page can guess it; nothing is
fetched from anywhere. The page shows each picture, a click sets the point, arrow keys move it by a pixel
(with Shift by ten, with Alt by a tenth), a loupe shows where exactly it is. The answer of the fit, or why it
was refused, appears in the page; a refusal can be corrected there.
"""

from __future__ import annotations

import json
import secrets
import threading
from collections.abc import Callable, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from dsp.errors import CheckFailed, HearthError

_MOST_BYTES = 1 << 20
Answer = Callable[[str, list[tuple[float, float] | None]], tuple[bool, str]]


class PickServer:
    """Shows pictures and hands clicks to `answer(name, clicks)`, which says whether they are good and what to
    show; after good ones the server is done."""

    def __init__(self, pictures: Sequence[tuple[str, bytes]], name: str, hint: str, answer: Answer) -> None:
        self.pictures, self.name, self.hint, self.answer = list(pictures), name, hint, answer
        self.done = threading.Event()
        self._one = threading.Lock()  # one answer at a time
        self._token = secrets.token_urlsafe(12)
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    @property
    def address(self) -> str:
        """Where the page is."""
        return f"http://127.0.0.1:{self._server.server_address[1]}/{self._token}/"

    def __enter__(self) -> PickServer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(timeout=5)

    def wait(self, seconds: float) -> None:
        """Until the device is placed. Raises CheckFailed when the time is over."""
        if not self.done.wait(seconds):
            raise CheckFailed(f"nobody placed the device within {seconds:.0f} s")

    def get(self, path: str) -> tuple[int, str, bytes]:
        """Status, content type and body of a request."""
        base = f"/{self._token}/"
        if path == base:
            page = (Path(__file__).parent / "room_devices_pick.html").read_text(encoding="utf-8")
            data = {"pictures": [name for name, _ in self.pictures], "name": self.name, "hint": self.hint}
            # Within a script element only "</" could end it.
            text = json.dumps(data).replace("</", "<\\/")
            return 200, "text/html; charset=utf-8", page.replace("__DATA__", text).encode()
        if path.startswith(f"{base}picture/") and path.removeprefix(f"{base}picture/").isdigit():
            number = int(path.removeprefix(f"{base}picture/"))
            if number < len(self.pictures):
                return 200, "image/png", self.pictures[number][1]
        return 404, "text/plain", b"not here"

    def post(self, path: str, body: bytes) -> tuple[int, str, bytes]:
        """The clicks of the page: {"name": text, "clicks": [[u, v] or null for each picture]}."""
        if path != f"/{self._token}/place":
            return 404, "text/plain", b"not here"
        try:
            sent = json.loads(body)
            name = str(sent["name"])[:200]
            clicks = [None if c is None else (float(c[0]), float(c[1])) for c in sent["clicks"]]
            if len(clicks) != len(self.pictures):
                raise ValueError("one click, or null, for each picture")
        except (ValueError, KeyError, TypeError, IndexError) as error:
            return 400, "text/plain", f"not understood: {error}".encode()
        with self._one:
            if self.done.is_set():
                return 409, "text/plain", b"placed already"
            try:
                good, words = self.answer(name, clicks)
            except HearthError as error:
                good, words = False, str(error)
            reply = json.dumps({"good": good, "words": words}).encode()
            if good:
                # After the reply was sent, so that the page still gets it.
                threading.Timer(0.3, self.done.set).start()
        return 200, "application/json", reply


def _handler(pick: PickServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def _send(self, status: int, kind: str, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Cache-Control", "no-store")
            self.end_headers()
            self.wfile.write(body)

        def do_GET(self) -> None:
            self._send(*pick.get(self.path))

        def do_POST(self) -> None:
            length = self.headers.get("Content-Length", "")
            if not length.isdigit() or int(length) > _MOST_BYTES:
                self._send(413, "text/plain", b"too long")
                return
            self._send(*pick.post(self.path, self.rfile.read(int(length))))

        def log_message(self, format: str, *args: Any) -> None:
            """Requests are not told: stderr is for what the user needs."""

    return Handler
