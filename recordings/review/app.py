"""The web application of `hearth review`: the page's files, the list, one episode at a time, decisions.

Whatever takes long (reading an episode, decoding pictures) runs beside the event loop. Sound is sent for
ranges of bytes, pictures in small packs, so that an hour begins as quickly as a few seconds.
"""

from __future__ import annotations

import asyncio
import collections
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from importlib import resources
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from dsp.errors import HearthError, InputError
from recordings.report_facts import load_profile
from recordings.review.catalogue import Catalogue, Row, review_as_dict
from recordings.review.log import REASONS, clean_name
from recordings.review.sound import PIECE, ListeningWav, byte_range
from recordings.review.summary import decisions_csv, summary
from recordings.review.view import EpisodeView, prepare
from recordings.web.address import Listening, is_loopback
from recordings.web.guard import Guard, Page

PAGE = Page(
    "review",
    "hearth review",
    methods=("POST",),
    # style attributes only: the plots over time place their parts by them
    allow=("media-src 'self'", "style-src-attr 'unsafe-inline'"),
)
FILES = {
    "/": ("recordings.review", "index.html", "text/html; charset=utf-8"),
    "/report.css": ("recordings", "report.css", "text/css; charset=utf-8"),
    "/review.css": ("recordings.review", "review.css", "text/css; charset=utf-8"),
    **{
        f"/{name}.js": ("recordings.review", f"{name}.js", "text/javascript; charset=utf-8")
        for name in ("review", "list", "player", "pictures", "marks", "decide")
    },
}
LONGEST_BODY = 16_384
MOST_ABOUT = 60
VIEWS = 8  # prepared episodes that are kept
TEXTS = ("decision", "comment", "reviewer", "seen_sha256")


class Views:
    """The episodes that were prepared last; each is prepared once, however many ask for it at a time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: collections.OrderedDict[tuple[Path, str | None], _Slot] = collections.OrderedDict()

    def get(self, path: Path, sha256: str | None) -> EpisodeView:
        """The view of an episode as it is now. Raises InputError."""
        with self._lock:
            slot = self._kept.setdefault((path, sha256), _Slot())
            self._kept.move_to_end((path, sha256))
            while len(self._kept) > VIEWS:
                self._kept.popitem(last=False)
        with slot.lock:
            if slot.view is None:
                slot.view = prepare(path)
            return slot.view


class _Slot:
    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.view: EpisodeView | None = None


class Desk:
    """What the requests share. reviewer: the only one who reviews here; None: the page asks for a name."""

    def __init__(self, catalogue: Catalogue, reviewer: str | None, only: str) -> None:
        self.catalogue, self.only = catalogue, only
        self.reviewer = None if reviewer is None else clean_name(reviewer)
        self.views = Views()

    def who(self, name: str) -> str:
        """The name that a request reviews under; "" is nobody. Raises InputError for one that may not."""
        if not name:
            return self.reviewer or ""
        name = clean_name(name)
        if self.reviewer is not None and name.casefold() != self.reviewer.casefold():
            raise InputError(f"this page was opened for {self.reviewer}; start another for {name}")
        return name

    def warm(self) -> None:
        """Prepare the first episode, and load with it the libraries that every other one needs. Never raises
        for an episode that cannot be shown; the page says so when it is opened."""
        with suppress(HearthError, OSError):
            _, view = self.view(self.catalogue.rows()[0].number)
            view.data()
            view.plots()
            for camera in view.cameras.values():
                camera.file.pack(0)

    def listing(self, who: str) -> dict[str, Any]:
        """The list as a reviewer may see it."""
        rows = self.catalogue.rows()
        return {
            "reviewer": self.reviewer,
            "only": self.only,
            "needed": self.catalogue.needed,
            "reasons": REASONS,
            "episodes": [row.seen_by(who.casefold(), self.catalogue.needed) for row in rows],
            "problems": list(self.catalogue.problems),
        }

    def about(self, numbers: list[int]) -> dict[str, Any]:
        """What the list says of some episodes beyond their names."""
        found = {}
        for number in numbers:
            profile = load_profile(self.catalogue.path(number), [])
            if profile is None:
                found[str(number)] = {"request": None, "kind": "", "speaker": None}
                continue
            words = (profile.grounding, profile.query, profile.difficulty)
            infeasible = profile.feasibility not in (None, "feasible")
            kind = " ".join(filter(None, (*words, "infeasible" if infeasible else "")))
            found[str(number)] = {"request": profile.request, "kind": kind, "speaker": profile.speaker}
        return found

    def view(self, number: int) -> tuple[Row, EpisodeView]:
        """An episode, prepared."""
        row = self.catalogue.row(number)
        return row, self.views.get(row.decisions.path, row.decisions.manifest_sha256)

    def episode(self, number: int, who: str) -> dict[str, Any]:
        """What the page shows of an episode."""
        row, view = self.view(number)
        return {
            **view.data(),
            "n": number,
            "id": row.id,
            "path": str(row.decisions.path),
            "manifest_sha256": row.decisions.manifest_sha256,
            "review": self.review_state(row, who),
        }

    def review_state(self, row: Row, who: str) -> dict[str, Any]:
        """The row of the list, and the reviews that this reviewer may see: all after the own decision."""
        latest = row.decisions.latest
        open_to = who.casefold() in latest
        seen = row.decisions.reviews if open_to else ()
        return {
            "row": row.seen_by(who.casefold(), self.catalogue.needed),
            "mine": review_as_dict(latest[who.casefold()]) if open_to else None,
            "all": [review_as_dict(review) for review in seen],
        }

    def decide(self, body: dict[str, Any]) -> dict[str, Any]:
        """Write down what the page says. Raises InputError for what is no decision."""
        number, reasons, settles = body.get("n"), body.get("reasons", []), body.get("settles", False)
        if type(number) is not int or not isinstance(settles, bool):
            raise InputError("a decision needs the number of its episode")
        if not isinstance(reasons, list) or not all(isinstance(reason, str) for reason in reasons):
            raise InputError("reasons are a list of words")
        texts = {key: body.get(key, "") for key in TEXTS}
        if not all(isinstance(text, str) for text in texts.values()):
            raise InputError(f"{', '.join(TEXTS)} are texts")
        if not texts["seen_sha256"]:
            raise InputError("a decision needs the manifest of what was looked at")
        who = self.who(texts["reviewer"])
        row = self.catalogue.decide(
            number, who, texts["decision"], reasons, texts["comment"], texts["seen_sha256"], settles
        )
        return self.review_state(row, who)


def make_app(desk: Desk, listening: Listening) -> Guard:
    """The ASGI application, with its guard."""

    async def answer(work: Callable[[], Any]) -> Response:
        try:
            found = await asyncio.to_thread(work)
        except HearthError as error:
            status = 400 if isinstance(error, InputError) else 507
            return JSONResponse({"error": str(error)}, status)
        return found if isinstance(found, Response) else JSONResponse(found)

    def file(request: Request) -> Response:
        package, name, kind = FILES[request.url.path]
        return Response((resources.files(package) / name).read_bytes(), media_type=kind)

    def name_of(request: Request) -> str:
        return desk.who(request.query_params.get("reviewer", ""))

    async def listed(request: Request) -> Response:
        return await answer(lambda: desk.listing(name_of(request)))

    async def about(request: Request) -> Response:
        return await answer(lambda: desk.about(_numbers(request.query_params.get("n", ""))))

    async def episode(request: Request) -> Response:
        return await answer(lambda: desk.episode(request.path_params["n"], name_of(request)))

    async def plots(request: Request) -> Response:
        return await answer(lambda: {"html": desk.view(request.path_params["n"])[1].plots()})

    async def sound(request: Request) -> Response:
        def work() -> Response:
            _, view = desk.view(request.path_params["n"])
            return wav_response(view.wav(request.path_params["mix"]), request.headers.get("range"))

        return await answer(work)

    async def pictures(request: Request) -> Response:
        def work() -> Response:
            camera = desk.view(request.path_params["n"])[1].camera(request.query_params.get("camera", ""))
            pack = camera.file.pack(request.path_params["pack"])
            return Response(pack, media_type="application/octet-stream")

        return await answer(work)

    async def decide(request: Request) -> Response:
        body = await _body(request)
        return await answer(lambda: desk.decide(_object(body)))

    async def table(request: Request) -> Response:
        def work() -> Response:
            text = decisions_csv(desk.catalogue.rows(), desk.catalogue.needed)
            named = {"content-disposition": 'attachment; filename="reviews.csv"'}
            return Response(text, media_type="text/csv; charset=utf-8", headers=named)

        return await answer(work)

    async def overall(request: Request) -> Response:
        return await answer(lambda: summary(desk.catalogue.rows(), desk.catalogue.needed))

    routes = [
        *(Route(path, file) for path in FILES),
        Route("/api/list", listed),
        Route("/api/about", about),
        Route("/api/episode/{n:int}", episode),
        Route("/api/plots/{n:int}", plots),
        Route("/api/review", decide, methods=["POST"]),
        Route("/api/summary", overall),
        Route("/reviews.csv", table),
        Route("/sound/{n:int}/{mix}.wav", sound),
        Route("/pictures/{n:int}/{pack:int}", pictures),
    ]
    return Guard(
        Starlette(routes=routes),
        PAGE,
        loopback=is_loopback(listening.host),
        port=listening.port,
        token=listening.token,
    )


def wav_response(wav: ListeningWav, asked: str | None) -> Response:
    """The whole file, or the range of bytes that was asked for (RFC 9110, 14): 200, 206 or 416."""
    headers = {"accept-ranges": "bytes"}
    try:
        chosen = byte_range(asked, wav.size)
    except InputError as error:
        return JSONResponse({"error": str(error)}, 416, {**headers, "content-range": f"bytes */{wav.size}"})
    start, count = chosen or (0, wav.size)
    if chosen is not None:
        headers["content-range"] = f"bytes {start}-{start + count - 1}/{wav.size}"
    headers["content-length"] = str(count)

    def pieces() -> Iterator[bytes]:
        for at in range(start, start + count, PIECE):
            yield wav.read(at, min(PIECE, start + count - at))

    return StreamingResponse(pieces(), 200 if chosen is None else 206, headers, "audio/wav")


async def _body(request: Request) -> bytes:
    """At most a little more than LONGEST_BODY bytes of what was sent."""
    body = b""
    async for piece in request.stream():
        body += piece
        if len(body) > LONGEST_BODY:
            break
    return body


def _object(body: bytes) -> dict[str, Any]:
    try:
        said = json.loads(body) if len(body) <= LONGEST_BODY else None
    except (ValueError, RecursionError):
        said = None
    if not isinstance(said, dict):
        raise InputError(f"expected a JSON object of at most {LONGEST_BODY} bytes")
    return said


def _numbers(text: str) -> list[int]:
    parts = [part for part in text.split(",") if part]
    if len(parts) > MOST_ABOUT or not all(part.isascii() and part.isdigit() for part in parts):
        raise InputError(f"give at most {MOST_ABOUT} numbers of episodes")
    return [int(part[:12]) for part in parts]
