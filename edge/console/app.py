"""The web application: the page's files, and one WebSocket per page over which everything else goes.

To the page: text (JSON) with what is new, and each picture as bytes. From it: `{"ack": n}` when a picture was
drawn, `{"ping": n}` to compare clocks, `{"op", "args", "id"}` for one of OPERATIONS. A page gets the next
picture only when it has drawn the one before the last, so a slow one gets fewer and fresh ones, and nothing
queues up anywhere.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import json
import logging
import time
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from capture.blocks import monotonic_ns
from dsp.errors import HearthError
from edge.console.feed import BANDS, HIGH_DB, LOW_DB, Feed
from edge.console.guard import Guard
from edge.console.settings import Eye
from edge.stream import CommandClient
from recordings.web.messages import read_object

log = logging.getLogger(__name__)

OPERATIONS = ("live.mute", "live.record")
FILES = {
    "/": ("index.html", "text/html; charset=utf-8"),
    "/console.css": ("console.css", "text/css; charset=utf-8"),
    **{
        f"/{name}.js": (f"{name}.js", "text/javascript; charset=utf-8")
        for name in ("console", "link", "picture", "plan", "sound", "svg", "talk", "health")
    },
    "/icon.svg": ("icon.svg", "image/svg+xml"),
}
MOST_PAGES = 8
TEXTS = 40  # that wait for one page, 1 to 2 s; one that is further behind is told everything anew
IN_FLIGHT = 2  # pictures sent and not yet drawn
GATHER_S = 0.03  # what comes together goes together; a direction goes at once, and takes along what waits
IDLE_S = 5.0  # after the last page went
COMMAND_S = 20.0
LONGEST_TEXT = 4096  # from a page


class Page:
    """One open page. All of it runs in the event loop."""

    def __init__(self, socket: WebSocket, hub: Hub) -> None:
        self._socket, self._hub = socket, hub
        self._texts: collections.deque[str] = collections.deque()
        self._picture: bytes | None = None
        self._in_flight = 0
        self._all = True  # it must be told everything
        self._wake = asyncio.Event()
        self._command: asyncio.Task[None] | None = None

    def put(self, text: str) -> None:
        """Something new. What a page is too slow for is left out; it is told everything later."""
        if len(self._texts) >= TEXTS:
            self._texts.clear()
            self._all = True
        self._texts.append(text)
        self._wake.set()

    def show(self, picture: bytes | None) -> None:
        """The newest picture takes the place of one that still waits."""
        self._picture = picture
        self._wake.set()

    async def run(self) -> None:
        """Until the page goes."""
        sending = asyncio.create_task(self._send())
        receiving = asyncio.create_task(self._receive())
        try:
            done, _ = await asyncio.wait({sending, receiving}, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                if (error := task.exception()) and not isinstance(error, WebSocketDisconnect):
                    log.warning("a page was dropped: %s", error)
        finally:
            for running in (sending, receiving, self._command):
                if running is not None:
                    running.cancel()
            with contextlib.suppress(Exception):
                await self._socket.close()

    async def _send(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            if self._all:
                self._all = False
                self._texts.clear()
                await self._socket.send_text(self._hub.hello())
            while self._texts:
                await self._socket.send_text(self._texts.popleft())
            if self._picture is not None and self._in_flight < IN_FLIGHT:
                picture, self._picture = self._picture, None
                self._in_flight += 1
                await self._socket.send_bytes(picture)

    async def _receive(self) -> None:
        self._wake.set()
        while True:
            text = await self._socket.receive_text()
            said = read_object(text, LONGEST_TEXT)
            if said is None:
                await self._socket.close(1007, "expected a short JSON object")
                return
            if "ack" in said:
                self._in_flight = max(0, self._in_flight - 1)
                self._wake.set()
            elif "ping" in said and isinstance(said["ping"], int | float):
                self.put(json.dumps({"pong": said["ping"], "now_ms": monotonic_ns() / 1e6}))
            elif "op" in said:
                self._begin(said)

    def _begin(self, said: dict[str, Any]) -> None:
        if self._command is not None and not self._command.done():
            self._reply(said, {"ok": False, "error": "the last command is still being carried out"})
            return
        self._command = asyncio.create_task(self._carry_out(said))

    async def _carry_out(self, said: dict[str, Any]) -> None:
        op, args = said["op"], said.get("args")
        if op not in OPERATIONS or not isinstance(args, dict) or "op" in args or "timeout_s" in args:
            self._reply(
                said, {"ok": False, "error": f"the console carries out {' and '.join(OPERATIONS)} only"}
            )
            return
        try:
            await asyncio.to_thread(self._hub.commands.command, op, timeout_s=COMMAND_S, **args)
            self._reply(said, {"ok": True})
        except (HearthError, TypeError) as error:
            self._reply(said, {"ok": False, "error": str(error)})

    def _reply(self, said: dict[str, Any], reply: dict[str, Any]) -> None:
        self.put(json.dumps({"reply": {"id": str(said.get("id"))[:40], **reply}}))


class Hub:
    """All open pages, and what they are told."""

    def __init__(self, stream: str, commands: str, rig: dict[str, Any]) -> None:
        self._rig = rig
        self._pages: set[Page] = set()
        self._loop = asyncio.get_running_loop()
        self._due = False
        self._idle: asyncio.TimerHandle | None = None
        self._picture: bytes | None = None
        self.commands = CommandClient(commands)
        self.feed = Feed(stream, Eye(rig["camera"]), self._changed, self._pictured)
        self._meter = asyncio.create_task(self._measure())

    def close(self) -> None:
        """Stop reading the rig's stream."""
        self._meter.cancel()
        self.feed.close()
        self.commands.close()

    def hello(self) -> str:
        """Everything that a page needs at its start."""
        known = {
            "rig": self._rig,
            "spectrum": {"bands": BANDS, "low_db": LOW_DB, "high_db": HIGH_DB},
            "now_ms": monotonic_ns() / 1e6,
            "utc_ms": time.time_ns() / 1e6,
            **self.feed.snapshot(),
        }
        return json.dumps({"hello": known}, separators=(",", ":"))

    async def open(self, socket: WebSocket) -> None:
        """Serve one page until it goes."""
        await socket.accept()
        if len(self._pages) >= MOST_PAGES:
            await socket.close(1013, f"{MOST_PAGES} pages are open already")
            return
        page = Page(socket, self)
        self._pages.add(page)
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None
        await asyncio.to_thread(self.feed.watch, True)
        try:
            page.show(self._picture)
            await page.run()
        finally:
            self._pages.discard(page)
            if not self._pages:
                self._idle = self._loop.call_later(IDLE_S, self._rest)

    def _rest(self) -> None:
        self._picture = None
        self.feed.watch(False)

    def _changed(self, at_once: bool) -> None:
        if at_once:
            self._loop.call_soon_threadsafe(self._tell)
        elif not self._due:  # a race only costs one look too many
            self._due = True
            self._loop.call_soon_threadsafe(self._loop.call_later, GATHER_S, self._tell)

    def _tell(self) -> None:
        self._due = False
        if (text := self.feed.take()) is not None:
            for page in self._pages:
                page.put(text)

    def _pictured(self, picture: bytes | None) -> None:
        self._loop.call_soon_threadsafe(self._show, picture)

    def _show(self, picture: bytes | None) -> None:
        self._picture = picture
        for page in self._pages:
            page.show(picture)

    async def _measure(self) -> None:
        """What serving the pages costs, once a second."""
        while True:
            cpu, wall = time.process_time(), time.monotonic()
            await asyncio.sleep(1.0)
            percent = 100 * (time.process_time() - cpu) / (time.monotonic() - wall)
            self.feed.note(console={"cpu_percent": round(percent, 1), "pages": len(self._pages)})


def make_app(told: dict[str, Any]) -> Any:
    """The application. told: what `ConsoleProcess` sends: stream, commands, rig, loopback, port, token."""
    folder = Path(__file__).parent
    files = {path: ((folder / name).read_bytes(), kind) for path, (name, kind) in FILES.items()}
    hub: Hub | None = None

    async def file(request: Request) -> Response:
        body, kind = files[request.url.path]
        return Response(body, media_type=kind)

    async def socket(web_socket: WebSocket) -> None:
        assert hub is not None
        await hub.open(web_socket)

    @contextlib.asynccontextmanager
    async def life(_: Starlette) -> Any:
        nonlocal hub
        hub = Hub(told["stream"], told["commands"], told["rig"])
        try:
            yield
        finally:
            hub.close()

    routes = [Route(path, file) for path in files] + [WebSocketRoute("/data", socket)]
    app = Starlette(routes=routes, lifespan=life)
    return Guard(app, loopback=told["loopback"], port=told["port"], token=told["token"])
