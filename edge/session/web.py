"""The session as a web page, for a tablet beside the set: the same state and the same commands.

It is served from a thread of the session's process. To the page: the whole state as text (JSON), whenever it
changed and once a second; a slow page gets fewer and fresh ones. From it: `{"ping": n}`, or `{"op", "args":
{"text", "turn"}, "id"}` with a command of the state's `can`.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dsp.errors import InputError
from recordings.web.messages import read_object

if TYPE_CHECKING:
    from edge.session.engine import Session
    from recordings.web.address import Listening

MOST_PAGES = 8
LONGEST_TEXT = 16384  # from a page
STILL_S = 1.0  # between two states when nothing changes: the page knows that the session is there
END_S = 5.0
_HERE, _CONSOLE = Path(__file__).parent / "page", Path(__file__).parents[1] / "console"
FILES = {
    "/": (_HERE / "index.html", "text/html; charset=utf-8"),
    "/session.css": (_HERE / "session.css", "text/css; charset=utf-8"),
    "/session.js": (_HERE / "session.js", "text/javascript; charset=utf-8"),
    "/svg.js": (_CONSOLE / "svg.js", "text/javascript; charset=utf-8"),
    "/room.js": (_HERE / "room.js", "text/javascript; charset=utf-8"),
    "/console.css": (_CONSOLE / "console.css", "text/css; charset=utf-8"),
    "/link.js": (_CONSOLE / "link.js", "text/javascript; charset=utf-8"),
    "/icon.svg": (_CONSOLE / "icon.svg", "image/svg+xml"),
}


class _Page:
    """One open page. All of it runs in the event loop."""

    def __init__(self, socket: Any, session: Session) -> None:
        self._socket, self._session = socket, session
        self._answers: list[str] = []
        self.told = ""  # phase of the state that it was sent last
        self._wake = asyncio.Event()

    def wake(self) -> None:
        """The state changed."""
        self._wake.set()

    async def run(self) -> None:
        """Until the page goes."""
        tasks = {asyncio.create_task(self._send()), asyncio.create_task(self._receive())}
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError, Exception):
                    await task
            with contextlib.suppress(Exception):
                await self._socket.close()

    async def _send(self) -> None:
        while True:
            self._wake.clear()
            while self._answers:
                await self._socket.send_text(self._answers.pop(0))
            state = self._session.state()
            await self._socket.send_text(json.dumps({"state": state}, separators=(",", ":")))
            self.told = state["phase"]
            with contextlib.suppress(TimeoutError, asyncio.TimeoutError):
                await asyncio.wait_for(self._wake.wait(), STILL_S)

    async def _receive(self) -> None:
        while True:
            text = await self._socket.receive_text()
            said = read_object(text, LONGEST_TEXT)
            if said is None:
                await self._socket.close(1007, "expected a short JSON object")
                return
            if isinstance(said.get("ping"), int | float):
                self._answer({"pong": said["ping"], "now_ms": time.monotonic_ns() / 1e6})
            elif "op" in said:
                self._answer({"reply": {"id": str(said.get("id"))[:40], **self._carry_out(said)}})

    def _answer(self, what: dict[str, Any]) -> None:
        self._answers.append(json.dumps(what))
        self._wake.set()

    def _carry_out(self, said: dict[str, Any]) -> dict[str, Any]:
        args = said.get("args")
        args = args if isinstance(args, dict) else {}
        text, turn = args.get("text", ""), args.get("turn")
        if not isinstance(said["op"], str) or not isinstance(text, str) or type(turn) is not int:
            return {"ok": False, "error": "a command is an op with a text and the turn that it is meant for"}
        try:
            self._session.do(said["op"], text, turn=turn)
        except InputError as error:
            return {"ok": False, "error": str(error)}
        return {"ok": True}


def make_app(session: Session, listening: Listening, pages: set[_Page]) -> Any:
    """The application behind its guard. pages: those that are open, kept up to date."""
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route, WebSocketRoute
    from starlette.websockets import WebSocket

    from recordings.web.address import is_loopback
    from recordings.web.guard import Guard, Page

    files = {path: (file.read_bytes(), kind) for path, (file, kind) in FILES.items()}

    async def file(request: Request) -> Response:
        body, kind = files[request.url.path]
        return Response(body, media_type=kind)

    async def data(socket: WebSocket) -> None:
        await socket.accept()
        if len(pages) >= MOST_PAGES:
            await socket.close(1013, f"{MOST_PAGES} pages are open already")
            return
        page = _Page(socket, session)
        pages.add(page)
        try:
            await page.run()
        finally:
            pages.discard(page)

    @contextlib.asynccontextmanager
    async def life(_: Starlette) -> Any:
        loop, over = asyncio.get_running_loop(), threading.Event()

        def tell() -> None:
            for page in pages:
                page.wake()

        def watch() -> None:
            version = -1
            while not over.is_set():
                state = session.wait_for_change(version, STILL_S)
                if state["version"] != version:
                    version = state["version"]
                    with contextlib.suppress(RuntimeError):  # the loop has ended meanwhile
                        loop.call_soon_threadsafe(tell)

        watcher = threading.Thread(target=watch, name="session page", daemon=True)
        watcher.start()
        try:
            yield
        finally:
            over.set()

    routes = [Route(path, file) for path in files] + [WebSocketRoute("/data", data)]
    return Guard(
        Starlette(routes=routes, lifespan=life),
        Page("session", "hearth session"),
        loopback=is_loopback(listening.host),
        port=listening.port,
        token=listening.token,
    )


@contextmanager
def serving(address: str | None, session: Session) -> Iterator[str | None]:
    """The page while the body runs; gives the address to open, with its token. None without an address.

    Raises InputError for what is no address, DeviceError for one that is in use.
    """
    if address is None:
        yield None
        return
    import uvicorn

    from recordings.web.address import bind
    from recordings.web.server import page_config

    listening = bind(address, "--address", "Is another `hearth session` running? Give another --address")
    pages: set[_Page] = set()
    server = uvicorn.Server(page_config(make_app(session, listening, pages), LONGEST_TEXT))
    thread = threading.Thread(
        target=server.run, kwargs={"sockets": [listening.socket]}, name="session web", daemon=True
    )
    thread.start()
    try:
        yield listening.url
    finally:
        _last_words(session, pages)
        server.should_exit = True
        thread.join(END_S)
        listening.socket.close()


def _last_words(session: Session, pages: set[_Page]) -> None:
    """Wait until the open pages have been told that the session is over, so that none says it lost the
    connection."""
    deadline = time.monotonic() + END_S / 2
    while session.state()["phase"] == "over" and any(page.told != "over" for page in tuple(pages)):
        if time.monotonic() > deadline:
            return
        time.sleep(0.02)
