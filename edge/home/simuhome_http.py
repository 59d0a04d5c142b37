"""SimuHome's interface over HTTP: its routes, its status codes, and bodies {status, data, error}.

    uvicorn --factory edge.home.simuhome_http:app --port 8000

For agents on this machine: requests from pages of other sites, or that call this machine by another name (as
a page could make them through a name of its own), are refused, and a body must be application/json.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Collection
from typing import Any
from urllib.parse import urlsplit

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from edge.home.errors import HomeError
from edge.home.simuhome_api import SimuHomeApi

log = logging.getLogger(__name__)

MOST_BYTES = 16 << 20  # of a body; a home of the benchmark has some 100 kB
HOSTS = ("127.0.0.1", "localhost", "::1")
Handler = Callable[[SimuHomeApi, dict[str, str], dict[str, Any]], Any]


def _needed(body: dict[str, Any], *names: str) -> list[Any]:
    for name in names:
        if name not in body:
            raise HomeError("VALIDATION_ERROR", f"the body lacks {name}")
    return [body[name] for name in names]


def _command(api: SimuHomeApi, path: dict[str, str], body: dict[str, Any]) -> Any:
    endpoint, cluster, command = _needed(body, "endpoint_id", "cluster_id", "command_id")
    return api.command(path["device"], endpoint, cluster, command, body.get("args"))


def _write(api: SimuHomeApi, path: dict[str, str], body: dict[str, Any]) -> Any:
    needed = _needed(body, "endpoint_id", "cluster_id", "attribute_id", "value")
    return api.write(path["device"], *needed)


def _add(api: SimuHomeApi, _: dict[str, str], body: dict[str, Any]) -> Any:
    device, kind, room = _needed(body, "device_id", "device_type", "room_id")
    return api.add_device(device, kind, room, body.get("attributes"))


def _fast_forward(api: SimuHomeApi, _: dict[str, str], body: dict[str, Any]) -> Any:
    (tick,) = _needed(body, "to_tick")
    return api.fast_forward_to(tick, body.get("room_ids"))


def _run_now(api: SimuHomeApi, _: dict[str, str], body: dict[str, Any]) -> Any:
    (steps,) = _needed(body, "steps")
    return api.run_now(steps, body.get("continue_on_error", False))


ROUTES: tuple[tuple[str, str, Handler], ...] = (
    ("POST", "/simulation/reset", lambda api, p, b: api.reset(b)),
    ("POST", "/simulation/tick_interval", lambda api, p, b: api.tick_interval(*_needed(b, "tick_interval"))),
    ("POST", "/simulation/fast_forward_to", _fast_forward),
    ("POST", "/devices/add", _add),
    ("DELETE", "/devices/{device}", lambda api, p, b: api.remove_device(p["device"])),
    ("POST", "/devices/{device}/commands", _command),
    ("POST", "/devices/{device}/attributes/write", _write),
    ("GET", "/devices/{device}/attributes", lambda api, p, b: api.attributes(p["device"])),
    (
        "GET",
        "/devices/{device}/attributes/{endpoint}/{cluster}/{attribute}",
        lambda api, p, b: api.attribute(p["device"], p["endpoint"], p["cluster"], p["attribute"]),
    ),
    ("GET", "/devices/{device}/structure", lambda api, p, b: api.structure(p["device"])),
    ("GET", "/rooms", lambda api, p, b: api.rooms()),
    ("GET", "/rooms/{room}/devices", lambda api, p, b: api.room_devices(p["room"])),
    ("GET", "/rooms/{room}/states", lambda api, p, b: api.room_states(p["room"])),
    ("GET", "/home/state", lambda api, p, b: api.home_state()),
    ("GET", "/time", lambda api, p, b: api.time()),
    ("GET", "/environment/control_rules/{variable}", lambda api, p, b: api.control_rules(p["variable"])),
    ("POST", "/schedule/workflow", lambda api, p, b: api.schedule(*_needed(b, "start_time", "steps"))),
    ("GET", "/schedule/workflow/{workflow}/status", lambda api, p, b: api.workflow(p["workflow"])),
    ("POST", "/schedule/workflow/{workflow}/cancel", lambda api, p, b: api.cancel(p["workflow"])),
    ("GET", "/schedule/workflows", lambda api, p, b: api.all_workflows()),
    ("POST", "/workflow/run_now", _run_now),
    ("GET", "/__health__", lambda api, p, b: {"healthy": True}),
)


def answer(code: int, data: Any = None, error: HomeError | None = None) -> JSONResponse:
    """A body as the benchmark has it."""
    message = "OK" if error is None else str(error)
    told = None if error is None else {"type": error.type, "detail": str(error)}
    body = {"status": {"code": code, "message": message}, "data": data, "error": told}
    return JSONResponse(body, status_code=code)


def _check_origin(request: Request, hosts: Collection[str]) -> None:
    if request.url.hostname not in hosts:
        raise HomeError("FORBIDDEN", f"this home does not answer to the name {request.url.hostname!r}")
    origin = request.headers.get("origin")
    if origin is not None and _host_of(origin) not in hosts:
        raise HomeError("FORBIDDEN", f"this home does not answer to pages of {origin!r}")


def _host_of(origin: str) -> str | None:
    try:
        return urlsplit(origin).hostname
    except ValueError:
        return None


async def _body(request: Request) -> dict[str, Any]:
    raw = b""
    async for piece in request.stream():
        raw += piece
        if len(raw) > MOST_BYTES:
            raise HomeError("VALIDATION_ERROR", f"the body has more than {MOST_BYTES} bytes")
    if not raw.strip():
        return {}
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise HomeError("VALIDATION_ERROR", "the body must be application/json, and say so")
    try:
        body = json.loads(raw)
        json.dumps(body, allow_nan=False, ensure_ascii=False).encode()  # what cannot be told again is no JSON
    except (ValueError, RecursionError) as error:
        raise HomeError("VALIDATION_ERROR", f"the body is not JSON: {error}") from None
    if not isinstance(body, dict):
        raise HomeError("VALIDATION_ERROR", "the body must be an object")
    return body


def application(api: SimuHomeApi, hosts: Collection[str] = HOSTS) -> Starlette:
    """The web application of one home. hosts: names by which requests may call this machine."""

    def endpoint(handler: Handler) -> Callable[[Request], Any]:
        async def answered(request: Request) -> JSONResponse:
            try:
                _check_origin(request, hosts)
                body = await _body(request)
                return answer(200, await run_in_threadpool(handler, api, dict(request.path_params), body))
            except HomeError as error:
                return answer(error.status, error=error)
            except Exception:
                log.exception("%s %s failed", request.method, request.url.path)
                wrong = HomeError("INTERNAL_ERROR", "this request failed; the log of the home says how")
                return answer(500, error=wrong)

        return answered

    async def refused(request: Request, error: Exception) -> JSONResponse:
        code = error.status_code if isinstance(error, HTTPException) else 500
        kind = {404: "ROUTE_NOT_FOUND", 405: "METHOD_NOT_ALLOWED"}.get(code, "INTERNAL_ERROR")
        told = HomeError(kind, f"{request.method} {request.url.path}: no such route")  # type: ignore[arg-type]
        return answer(code, error=told)

    routes = [Route(path, endpoint(handler), methods=[method]) for method, path, handler in ROUTES]
    return Starlette(routes=routes, exception_handlers={HTTPException: refused})


def app() -> Starlette:
    """An empty home whose time stands still, for `uvicorn --factory`; POST /simulation/reset fills it."""
    return application(SimuHomeApi())
