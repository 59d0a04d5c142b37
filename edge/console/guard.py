"""Who may use the console: it answers GET and its WebSocket, and loads nothing but its own files."""

from __future__ import annotations

from recordings.web import guard

PAGE = guard.Page("console", "hearth live")


class Guard(guard.Guard):
    """Wraps the console's ASGI application."""

    def __init__(self, app: guard.ASGI, *, loopback: bool, port: int, token: str | None) -> None:
        super().__init__(app, PAGE, loopback=loopback, port=port, token=token)
