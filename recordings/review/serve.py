"""Serves the page of `hearth review` until Ctrl-C."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress

import uvicorn

from recordings.review.app import Desk, make_app
from recordings.web.address import Listening
from recordings.web.server import page_config


def serve(desk: Desk, listening: Listening, ready: Callable[[], None] | None = None) -> None:
    """Serve on a bound socket; `ready` is called when the page can be opened. Ends at Ctrl-C or SIGTERM."""
    config = page_config(make_app(desk, listening))
    threading.Thread(target=desk.warm, name="warm", daemon=True).start()
    if ready is not None:
        ready()  # the socket listens already: a browser that is quicker than the server waits in its queue
    with suppress(KeyboardInterrupt):  # which uvicorn raises again when it has ended in order
        uvicorn.Server(config).run(sockets=[listening.socket])
