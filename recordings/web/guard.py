"""Who may use a page: the right Host, the right Origin, and off loopback the token.

A web page from elsewhere that is open in a browser of this network could otherwise reach ours: by a
name of its own that it points here (DNS rebinding: Host is then that name), or by a request across sites
(Origin is then that page's).
"""

from __future__ import annotations

import hmac
import ipaddress
import socket
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import parse_qs

ASGI = Any

COOKIE_DAYS = 30
_CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "permissions-policy": "camera=(), microphone=(), geolocation=()",
    "cache-control": "no-store",
}

_NO_TOKEN = """<!doctype html><html lang="en"><meta charset="utf-8">
<meta name="viewport" content="width=device-width"><title>Hearth: token needed</title>
<h1>This page needs its token</h1>
<p>Open the address that <code>COMMAND</code> printed when it started. It changes with every start.</p>
<form><p><label>Token <input name="token" autocomplete="off" size="44"></label> <button>Open</button></form>
"""


@dataclass(frozen=True)
class Verdict:
    """What becomes of a request: passed (status 0), refused, or sent on with the cookie set."""

    status: int
    text: str = ""
    cookie: str | None = None


@dataclass(frozen=True)
class Page:
    """What is guarded. name: in messages ("the console") and in the cookie; command: what told its address.

    methods: beyond GET and HEAD. A request with another method must say its Origin, as every browser does.
    allow: what the page may load besides its own scripts, styles and pictures, as policy directives.
    """

    name: str
    command: str
    methods: tuple[str, ...] = ()
    allow: tuple[str, ...] = ()


class Guard:
    """Wraps an ASGI application. loopback: whether only this machine can reach it; token: None there."""

    def __init__(self, app: ASGI, page: Page, *, loopback: bool, port: int, token: str | None) -> None:
        self._app, self._page, self._loopback, self._token = app, page, loopback, token
        self._headers = {"content-security-policy": "; ".join((_CSP, *page.allow)), **HEADERS}
        self._cookie = f"hearth_{page.name}_{port}"  # cookies are not kept apart by port
        name = socket.gethostname().lower()
        self._names = {"localhost"} if loopback else {"localhost", name, f"{name.split('.')[0]}.local"}

    async def __call__(self, scope: ASGI, receive: ASGI, send: ASGI) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        verdict = self.judge(scope)
        if scope["type"] == "websocket":
            if verdict.status:
                await send({"type": "websocket.close", "code": 1008, "reason": verdict.text})
            else:
                await self._app(scope, receive, send)
            return
        if verdict.status:
            await self._answer(send, verdict)
            return

        async def with_headers(message: ASGI) -> None:
            if message["type"] == "http.response.start":
                own = [(key.encode(), value.encode()) for key, value in self._headers.items()]
                message = {**message, "headers": [*message.get("headers", ()), *own]}
            await send(message)

        await self._app(scope, receive, with_headers)

    async def _answer(self, send: ASGI, verdict: Verdict) -> None:
        headers = {**self._headers, "content-type": "text/plain; charset=utf-8"}
        body = verdict.text + "\n"
        if verdict.status == 401:
            headers["content-type"] = "text/html; charset=utf-8"
            body = _NO_TOKEN.replace("COMMAND", self._page.command)
        if verdict.cookie is not None:  # and the token leaves the address, the history and the screen
            headers |= {"location": "/", "set-cookie": self.set_cookie(verdict.cookie)}
        coded = [(key.encode(), value.encode()) for key, value in headers.items()]
        await send({"type": "http.response.start", "status": verdict.status, "headers": coded})
        await send({"type": "http.response.body", "body": body.encode()})

    def judge(self, scope: ASGI) -> Verdict:
        """Look at the headers of a request or WebSocket."""
        headers: dict[str, list[str]] = {}
        for key, value in scope["headers"]:
            headers.setdefault(key.decode("latin-1").lower(), []).append(value.decode("latin-1"))
        name = self._page.name
        hosts = headers.get("host", [])
        if len(hosts) != 1 or not self._is_ours(hosts[0]):
            return Verdict(403, f"this Host is not one of the {name}'s; use its IP address")
        origins = headers.get("origin", [])
        web_socket = scope["type"] == "websocket"
        reads = not web_socket and scope["method"] in ("GET", "HEAD")
        # Browsers send Origin with every WebSocket, with what another page asks for, and with what changes.
        if not web_socket and not reads and scope["method"] not in self._page.methods:
            return Verdict(405, f"the {name} only answers {' and '.join(('GET', *self._page.methods))}")
        if (not reads or origins) and origins != [f"http://{hosts[0]}"]:
            return Verdict(403, "this request comes from another page")
        if self._token is None or self._has(self._from_cookie(headers.get("cookie", []))):
            return Verdict(0)
        asked = parse_qs(scope.get("query_string", b"").decode("latin-1")).get("token", [])
        if not web_socket and len(asked) == 1 and self._has(asked[0]):
            return Verdict(303, cookie=self._token)
        return Verdict(401, f"this {name} needs its token")

    def _has(self, given: str | None) -> bool:
        if self._token is None or given is None:
            return False
        return hmac.compare_digest(given.encode(), self._token.encode())

    def _from_cookie(self, cookies: list[str]) -> str | None:
        try:
            found = SimpleCookie("; ".join(cookies)).get(self._cookie)
        except CookieError:
            return None
        return None if found is None else found.value

    def _is_ours(self, host: str) -> bool:
        """An IP address cannot be another site's name, so any may be used to come here: ports are forwarded,
        and a machine has several addresses. On loopback only loopback's."""
        name = host.rsplit(":", 1)[0] if not host.endswith("]") else host
        if host.count(":") > 1 and not host.startswith("["):
            return False
        try:
            address = ipaddress.ip_address(name.strip("[]"))
        except ValueError:
            return name.lower() in self._names
        return address.is_loopback or not self._loopback

    def set_cookie(self, value: str) -> str:
        """The header that keeps the token in a browser. Lax: a link to the page may be followed."""
        life = COOKIE_DAYS * 86400
        return f"{self._cookie}={value}; Path=/; HttpOnly; SameSite=Lax; Max-Age={life}"
