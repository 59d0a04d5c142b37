"""Who may come to a rig: its own key, the list of allowed clients, and word of everybody who was refused."""

from __future__ import annotations

import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from dsp.errors import HearthError, InputError
from edge.stream.addresses import stays_here
from edge.stream.keys import KeyPair, fingerprint
from edge.stream.keys_folder import KeysFolder, Listed, Seen, utc_now

log = logging.getLogger(__name__)

LOOK_S = 0.5  # how often the list is looked at
SEEN_S = 30.0  # how often is written down who came
REMIND_S = 30.0  # the same refusal is told once in this time, with how often it happened
TELL_BURST, TELL_PER_S = 10.0, 0.5  # refusals told at most: strangers must not fill the log and the stream
_REMEMBERED = 256

Reason = Literal["unlisted", "revoked", "wrong_server_key", "plaintext", "malformed", "incomplete"]
Cut = Literal["revoked", "flood", "unfinished", "connections"]
Listener = Callable[[str, dict[str, Any]], None]


@dataclass(slots=True)
class _Told:
    at: float
    times: int


class Access:
    """One object per rig, shared by all its sockets.

    keys:       the folder of keys; None: loopback only, nobody is asked.
    everywhere: ask for keys on loopback too (ipc never asks: its file has a mode).

    Listeners are told `denied` with reason, name, fingerprint, address, socket, times, text. Thread-safe.
    Raises InputError when the folder has no key of the rig, or loose modes.
    """

    def __init__(self, keys: KeysFolder | None = None, *, everywhere: bool = False) -> None:
        self.keys, self.everywhere = keys, everywhere
        self.key: KeyPair | None = keys.rig_key() if keys is not None else None
        self.accepted = 0
        self.denied: dict[str, int] = {}
        self.cut: dict[str, int] = {}
        self.revision = 0  # grows when somebody was taken off the list
        self._lock = threading.Lock()
        self._listeners: list[Listener] = []
        self._told: OrderedDict[tuple[str, str], _Told] = OrderedDict()
        self._tokens, self._tokens_at = TELL_BURST, time.monotonic()
        self._allowed: dict[bytes, Listed] = {}
        self._revoked: dict[bytes, Listed] = {}
        self._marks: frozenset[str] = frozenset()  # fingerprints of those allowed
        self._stamp: tuple[object, ...] | None = None
        self._looked = self._wrote = 0.0
        self._trouble = ""  # why the list cannot be used
        self._seen: dict[str, Seen] = {}
        self._hosts: dict[str, str] = {}  # address -> name of the client that came from there last
        if keys is not None:
            self._read(keys)

    @classmethod
    def to_rig(cls, folder: str | Path | None, *addresses: str, everywhere: bool = False) -> Access:
        """For a rig that is bound to `addresses`: keys are only looked for when one of them needs them.

        folder: `security.keys` of rig.yaml. Raises InputError that says which command makes the keys.
        """
        away = [address for address in addresses if not stays_here(address)]
        if not away and not everywhere:
            return cls()
        keys = KeysFolder(folder)
        if not keys.own("rig"):
            why = f"{away[0]} is reached from the network" if away else "`security.loopback: keys` is set"
            raise InputError(
                f"{why}, and this rig has no key in {keys.path}: `hearth keys make --rig` makes one, and "
                "`hearth keys allow NAME KEY` lets a client in. Without keys, only loopback is served: "
                "tcp://127.0.0.1:<port>"
            )
        return cls(keys, everywhere=everywhere)

    def key_for(self, address: str) -> KeyPair | None:
        """The rig's key where an address needs it: off loopback, or everywhere; None where it does not."""
        if address.startswith("ipc://") or (stays_here(address) and not self.everywhere):
            return None
        return self.key

    def listen(self, listener: Listener) -> None:
        """Call `listener("denied", fields)` for whoever is refused, from the thread that found out."""
        self._listeners.append(listener)

    # --- decisions ---

    def admit(self, raw: bytes, host: str, socket: str) -> str | None:
        """The name of the client whose public key this is, or None when it is not on the list."""
        with self._lock:
            listed = self._allowed.get(raw)
            gone = self._revoked.get(raw)
            if listed is not None:
                self.accepted += 1
                new = listed.public.fingerprint not in self._seen
                self._seen[listed.public.fingerprint] = Seen(utc=utc_now(), address=host)
                self._hosts[host] = listed.name
        if listed is not None:
            level = logging.INFO if new else logging.DEBUG
            log.log(level, "%s lets in %s (%s) from %s", socket, listed.name, listed.public.fingerprint, host)
            return listed.name
        mark = fingerprint(raw) if len(raw) == 32 else "no key"
        if gone is not None:
            text = f"{socket} refuses {gone.name} ({mark}) from {host}: revoked {gone.since_utc}"
            self.refuse("revoked", text, host, socket, name=gone.name, mark=mark)
        else:
            text = (
                f"{socket} refuses the key {mark} from {host}: it is not on the list. If you know it, "
                "`hearth keys allow NAME client:...` with the word that `hearth keys show` prints there"
            )
            self.refuse("unlisted", text, host, socket, mark=mark)
        return None

    def allows(self, mark: str) -> bool:
        """Whether the client with this fingerprint is on the list now."""
        return mark in self._marks

    def look(self) -> None:
        """Take over what `hearth keys` changed meanwhile, and write down who came. Call it often."""
        keys, now = self.keys, time.monotonic()
        if keys is None or now - self._looked < LOOK_S:
            return
        self._looked = now
        try:
            if keys.stamp() != self._stamp:
                self._read(keys)
        except HearthError as error:
            # A list that cannot be trusted lets nobody in, and says so once.
            with self._lock:
                told, self._trouble = self._trouble, str(error)
                if self._allowed:
                    self._allowed, self._marks = {}, frozenset()
                    self.revision += 1
            if told != str(error):
                log.error("the list of allowed keys cannot be used, nobody is let in: %s", error)
        if self._seen and now - self._wrote > SEEN_S:
            self._wrote = now
            self.note_seen()

    def note_seen(self) -> None:
        """Write down when each client was last let in."""
        with self._lock:
            seen = dict(self._seen)
        if self.keys is not None and seen:
            try:
                self.keys.note_seen(seen)
            except HearthError as error:
                log.debug("who came is not written down: %s", error)

    def _read(self, keys: KeysFolder) -> None:
        stamp = keys.stamp()  # before the list: what changes meanwhile is read again
        allowed = {listed.public.raw: listed for listed in keys.allowed("client")}
        revoked = {listed.public.raw: listed for listed in keys.revoked("client")}
        with self._lock:
            if self._allowed.keys() - allowed.keys():
                self.revision += 1
            self._allowed, self._revoked, self._stamp, self._trouble = allowed, revoked, stamp, ""
            self._marks = frozenset(listed.public.fingerprint for listed in allowed.values())

    # --- word of it ---

    def refuse(
        self, reason: Reason, text: str, host: str, socket: str, name: str | None = None, mark: str = ""
    ) -> None:
        """Count a refusal and tell it, unless the same was told a moment ago."""
        now = time.monotonic()
        with self._lock:
            self.denied[reason] = self.denied.get(reason, 0) + 1
            told = self._told.setdefault((reason, mark or host), _Told(-REMIND_S, 0))
            told.times += 1
            while len(self._told) > _REMEMBERED:
                self._told.popitem(last=False)
            self._tokens = min(TELL_BURST, self._tokens + TELL_PER_S * (now - self._tokens_at))
            self._tokens_at = now
            if now - told.at < REMIND_S or self._tokens < 1:
                return
            self._tokens -= 1
            told.at, times, told.times = now, told.times, 0
        log.warning("%s%s", text, f" ({times} times)" if times > 1 else "")
        fields = {
            "reason": reason,
            "name": name,
            "fingerprint": mark or None,
            "address": host,
            "socket": socket,
            "times": times,
            "text": text,
        }
        for listener in self._listeners:
            with suppress(Exception):  # a stream that ends must not end the guard
                listener("denied", fields)

    def count_cut(self, reason: Cut) -> None:
        """Count a standing connection that was cut."""
        with self._lock:
            self.cut[reason] = self.cut.get(reason, 0) + 1

    def name_at(self, host: str) -> str | None:
        """The client that was last let in from an address."""
        with self._lock:
            return self._hosts.get(host)

    def to_dict(self) -> dict[str, Any]:
        """For `health`: encrypted, allowed, accepted, denied and cut by reason."""
        with self._lock:
            return {
                "encrypted": self.key is not None,
                "allowed": len(self._allowed),
                "accepted": self.accepted,
                "denied": dict(self.denied),
                "cut": dict(self.cut),
            }
