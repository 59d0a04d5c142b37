"""How every page of Hearth is served."""

from __future__ import annotations

from typing import Any

import uvicorn
from starlette.types import ASGIApp

from recordings.web.connections import BoundedProtocol


def page_config(app: ASGIApp, longest_text: int | None = None, **more: Any) -> uvicorn.Config:
    """Settings of the server of one page. longest_text: of a message on its WebSocket; None: it has none.
    more: further settings of uvicorn."""
    socket: dict[str, Any] = {"ws": "none"}
    if longest_text is not None:
        socket = {
            "ws": "websockets-sansio",
            "ws_max_size": 2 * longest_text,
            "ws_ping_interval": 5.0,
            "ws_ping_timeout": 10.0,
        }
    return uvicorn.Config(
        app,
        http=BoundedProtocol,
        limit_concurrency=64,
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=1,
        **socket,
        **more,
    )
