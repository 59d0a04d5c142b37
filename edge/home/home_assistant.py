"""The way to Home Assistant: its WebSocket for what changes and what to do, its REST API to read back.

Written against 2024.3 (developers.home-assistant.io/docs/api/websocket, /rest). Connects by itself again
after a restart of Home Assistant or of the network.
"""

from __future__ import annotations

import itertools
import json
import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidURI
from websockets.sync.client import ClientConnection, connect

from dsp.errors import InputError
from edge.home.bridge_entities import Call, Entity
from edge.home.bridge_map import OWN, Place, slug
from edge.home.errors import ErrorType, HomeError

log = logging.getLogger(__name__)

REQUEST_S = 10.0  # Home Assistant itself gives a service ten seconds
QUIET_S = 20.0  # without a message for so long, it is asked whether it is there
RETRY_S = (0.5, 1.0, 1.0, 1.0, 2.0, 2.0, 2.0, 2.0, 5.0, 10.0)
REFUSED_S = 60.0  # a wrong token is not tried often: Home Assistant may ban whoever does
MOST_BYTES = 64 << 20
_REGISTRIES = ("area_registry_updated", "device_registry_updated", "entity_registry_updated")
# Error codes of its WebSocket that mean something else than "refused".
_CODES: dict[str, ErrorType] = {"not_found": "COMMAND_NOT_FOUND", "unauthorized": "FORBIDDEN"}


class HomeAssistantLink:
    """`edge.home.bridge.Link` to Home Assistant.

    url: http://host:8123. token: a long-lived access token. It begins to connect when it is made.
    """

    def __init__(self, url: str, token: str) -> None:
        self._url, self._token = url.rstrip("/"), token
        self._entities: dict[str, Entity] = {}
        self._places: dict[str, Place] = {}
        self._unit = "°C"
        self.version = ""
        self._listeners: list[Callable[[str | None], None]] = []
        self._changed = threading.Condition()
        self._trouble = "it has not been reached yet"
        self._socket: ClientConnection | None = None
        self._numbers = itertools.count(1)
        self._waiting: dict[int, Future[Any]] = {}
        self._sending, self._learning = threading.Lock(), threading.Lock()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="home assistant", daemon=True)
        self._thread.start()

    # -- what is known

    @property
    def where(self) -> str:
        """For messages."""
        return f"Home Assistant at {self._url}"

    @property
    def connected(self) -> bool:
        """Its states are followed."""
        return not self._trouble

    @property
    def trouble(self) -> str:
        """Why it is not connected; "" when it is."""
        return self._trouble

    def wait_connected(self, seconds: float) -> bool:
        """Whether it is connected, after at most so many seconds."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._trouble, seconds)

    def entities(self) -> dict[str, Entity]:
        """See `Link`."""
        with self._changed:
            return dict(self._entities)

    def places(self) -> dict[str, Place]:
        """See `Link`."""
        with self._changed:
            return dict(self._places)

    def listen(self, changed: Callable[[str | None], None]) -> None:
        """See `Link`."""
        self._listeners.append(changed)

    def wait(self, entity_id: str, done: Callable[[Entity], bool], seconds: float) -> Entity:
        """See `Link`."""
        gone = Entity(entity_id, "unavailable")
        with self._changed:
            self._changed.wait_for(lambda: done(self._entities.get(entity_id, gone)), seconds)
            return self._entities.get(entity_id, gone)

    # -- what is asked and done

    def refresh(self, entity_id: str) -> Entity:
        """Its state by REST, which is how it is now, whatever the WebSocket has told so far."""
        status, data = self._get(f"/api/states/{quote(entity_id)}")
        if status == 404:
            raise HomeError("DEVICE_NOT_FOUND", f"{self.where} has no entity {entity_id}")
        if status == 401:
            raise HomeError("FORBIDDEN", f"{self.where} does not accept the token")
        if status != 200 or not isinstance(data, dict):
            raise HomeError("CONNECTION_ERROR", f"{self.where} answered HTTP {status} about {entity_id}")
        entity = self._entity(data)
        with self._changed:
            self._entities[entity_id] = entity
            self._changed.notify_all()
        return entity

    def call(self, entity_id: str, call: Call) -> None:
        """Call a service for one entity; returns when Home Assistant says that it ran."""
        self._request(
            "call_service",
            domain=call.domain,
            service=call.service,
            service_data=dict(call.data),
            target={"entity_id": entity_id},
        )

    def _get(self, path: str) -> tuple[int, Any]:
        parts = urlsplit(self._url)
        kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
        connection = kind(parts.hostname or "", parts.port, timeout=REQUEST_S)
        try:
            connection.request("GET", path, headers={"Authorization": f"Bearer {self._token}"})
            answer = connection.getresponse()
            body = answer.read(MOST_BYTES)
            return answer.status, json.loads(body) if answer.status == 200 else None
        except TimeoutError:
            raise HomeError("TIMEOUT_ERROR", f"{self.where} does not answer") from None
        except (OSError, HTTPException, ValueError) as error:
            raise HomeError("CONNECTION_ERROR", f"{self.where} does not answer: {_reason(error)}") from None
        finally:
            connection.close()

    def _request(self, kind: str, **fields: Any) -> Any:
        socket = self._socket
        if socket is None:
            raise HomeError("CONNECTION_ERROR", f"{self.where} is not connected: {self._trouble}")
        answer: Future[Any] = Future()
        with self._sending:  # numbers must arrive in their order
            number = next(self._numbers)
            self._waiting[number] = answer
            try:
                socket.send(json.dumps({"id": number, "type": kind, **fields}))
            except (ConnectionClosed, OSError) as error:
                del self._waiting[number]
                raise HomeError("CONNECTION_ERROR", f"{self.where} went away: {_reason(error)}") from None
        try:
            return answer.result(REQUEST_S)
        except FutureTimeout:
            raise HomeError("TIMEOUT_ERROR", f"{self.where} did not answer {kind} in time") from None
        finally:
            self._waiting.pop(number, None)

    # -- the connection

    def close(self) -> None:
        """End it."""
        self._closing.set()
        if self._socket is not None:
            self._socket.close()
        self._thread.join()

    def _run(self) -> None:
        tries = 0
        while not self._closing.is_set():
            pause = RETRY_S[min(tries, len(RETRY_S) - 1)]
            tries += 1
            try:
                with self._connected() as socket:
                    if self._log_in(socket):
                        tries = 0
                        self._follow(socket)
                    else:
                        pause = REFUSED_S
            except (ConnectionClosed, InvalidHandshake, OSError, ValueError, TimeoutError) as error:
                self._lost(_reason(error))
            self._closing.wait(pause)

    def _connected(self) -> ClientConnection:
        scheme = "wss" if self._url.startswith("https") else "ws"
        address = f"{scheme}{self._url[self._url.index(':') :]}/api/websocket"
        try:
            return connect(
                address,
                max_size=MOST_BYTES,
                open_timeout=REQUEST_S,
                close_timeout=1,
                compression=None,
                proxy=None,
            )
        except InvalidURI:
            raise InputError(f"{self._url} is no address of Home Assistant") from None

    def _log_in(self, socket: ClientConnection) -> bool:
        hello = json.loads(socket.recv(timeout=REQUEST_S))
        self.version = str(hello.get("ha_version", ""))
        socket.send(json.dumps({"type": "auth", "access_token": self._token}))
        answer = json.loads(socket.recv(timeout=REQUEST_S))
        if answer.get("type") == "auth_ok":
            return True
        self._lost("it does not accept the token (home.token_file)")
        return False

    def _follow(self, socket: ClientConnection) -> None:
        self._numbers = itertools.count(1)
        self._socket = socket
        learning = self._learn_beside(socket)
        asked = False
        try:
            while not self._closing.is_set():
                try:
                    message = json.loads(socket.recv(timeout=QUIET_S))
                except TimeoutError:
                    if asked:
                        raise OSError("it has become silent") from None
                    asked = True
                    with self._sending:
                        socket.send(json.dumps({"id": next(self._numbers), "type": "ping"}))
                    continue
                asked = False
                self._received(message)
        finally:
            self._lost("the connection has ended")
            learning.join()

    def _lost(self, why: str) -> None:
        self._socket = None
        for future in list(self._waiting.values()):
            if not future.done():
                future.set_exception(HomeError("CONNECTION_ERROR", f"{self.where} went away: {why}"))
        with self._changed:
            before, self._trouble = self._trouble, why
            self._changed.notify_all()
        if self._closing.is_set():
            return
        if before != why:
            log.warning("%s: %s", self.where, why)
        if not before:
            self._tell(None)

    def _received(self, message: dict[str, Any]) -> None:
        if message.get("type") == "result":
            future = self._waiting.get(message["id"])
            if future is None or future.done():
                return
            if message.get("success"):
                future.set_result(message.get("result"))
            else:
                future.set_exception(self._refusal(message.get("error") or {}))
        elif message.get("type") == "event":
            self._event(message["event"])

    def _refusal(self, error: dict[str, Any]) -> HomeError:
        code, text = str(error.get("code")), str(error.get("message") or error.get("code"))
        kind = _CODES.get(code, "VALIDATION_ERROR")
        return HomeError(
            "COMMAND_NOT_FOUND" if "does not support" in text else kind, f"{self.where} refuses: {text}"
        )

    def _event(self, event: dict[str, Any]) -> None:
        kind, data = event.get("event_type"), event.get("data") or {}
        if kind == "state_changed":
            entity_id, state = str(data.get("entity_id")), data.get("new_state")
            with self._changed:
                known = entity_id in self._entities
                if state is None:
                    self._entities.pop(entity_id, None)
                else:
                    self._entities[entity_id] = self._entity(state)
                self._changed.notify_all()
            self._tell(entity_id if known and state is not None else None)
        elif kind in _REGISTRIES:
            socket = self._socket
            if socket is not None:
                self._learn_beside(socket)

    def _learn_beside(self, socket: ClientConnection) -> threading.Thread:
        """In a thread of its own: this one has to receive the answers."""
        thread = threading.Thread(target=self._learn, args=(socket,), name="home assistant map", daemon=True)
        thread.start()
        return thread

    def _learn(self, socket: ClientConnection) -> None:
        """Everything anew: the registries, and all states."""
        with self._learning:
            self._learn_all(socket)

    def _learn_all(self, socket: ClientConnection) -> None:
        try:
            if self._trouble:  # a new connection
                for kind in ("state_changed", *_REGISTRIES):
                    self._request("subscribe_events", event_type=kind)
            unit = self._request("get_config")["unit_system"]["temperature"]
            places = self._read_places()
            states = self._request("get_states")
        except (HomeError, KeyError, TypeError) as error:
            log.warning("%s cannot be read: %s", self.where, error)
            socket.close()  # and once more from the beginning
            return
        with self._changed:
            self._unit = str(unit)
            self._places = places
            self._entities = {str(state["entity_id"]): self._entity(state) for state in states}
            came, self._trouble = bool(self._trouble), ""
            self._changed.notify_all()
        if came:
            log.info("%s, version %s: %d entities", self.where, self.version, len(states))
        self._tell(None)

    def _read_places(self) -> dict[str, Place]:
        areas = {area["area_id"]: slug(area["name"]) for area in self._request("config/area_registry/list")}
        devices = {device["id"]: device for device in self._request("config/device_registry/list")}
        places = {}
        for entry in self._request("config/entity_registry/list"):
            device = devices.get(entry.get("device_id")) or {}
            area = entry.get("area_id") or device.get("area_id")
            marks = (("disabled_by", "disabled"), ("hidden_by", "hidden"), ("entity_category", ""))
            hidden = [word or f"a {entry[key]} entity" for key, word in marks if entry.get(key)]
            own = any(str(part[-1]).startswith(OWN) for part in device.get("identifiers") or ())
            places[str(entry["entity_id"])] = Place(
                areas.get(area, ""), str(entry.get("name") or ""), hidden[0] if hidden else "", own
            )
        return places

    def _entity(self, state: dict[str, Any]) -> Entity:
        attributes = dict(state.get("attributes") or {})
        entity_id = str(state["entity_id"])
        if entity_id.startswith(("climate.", "water_heater.")):
            attributes["temperature_unit"] = self._unit
        return Entity(entity_id, str(state["state"]), attributes)

    def _tell(self, entity_id: str | None) -> None:
        for listener in self._listeners:
            listener(entity_id)


def read_token(path: Path) -> str:
    """The token that a file holds. Raises InputError when it cannot be read or holds none."""
    try:
        token = path.expanduser().read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: the token of Home Assistant cannot be read: {_reason(error)}") from None
    if not token or len(token.split()) != 1 or not token.isascii():
        raise InputError(
            f"{path} holds no access token: make one in Home Assistant (profile, long-lived access tokens)"
            " and put it, and nothing else, into this file"
        )
    if path.expanduser().stat().st_mode & 0o077:
        log.warning("%s can be read by other users of this machine: chmod 600 %s", path, path)
    return token


def _reason(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error) or type(error).__name__
