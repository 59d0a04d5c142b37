"""A client's side of one connection: it is watched, and why it does not come about is said in words.

To a program that only reads, a rig with another key, one that does not know this client and one that is
switched off all look alike: nothing comes. The socket's monitor tells them apart, and one look at the
greeting of whoever answers at the address tells the rest.
"""

from __future__ import annotations

import logging
import re
import socket as sockets
import struct
import time
from contextlib import suppress
from pathlib import Path

import zmq

from edge.stream.addresses import connect, parse, stays_here
from edge.stream.keys_folder import ClientKeys

log = logging.getLogger(__name__)

Keys = ClientKeys | str | Path | None

RETRY_S = 1.0  # after a refusal: somebody may enter the key meanwhile
_BROKEN_OFF = 2  # handshakes in a row that the other side broke off, before the reason is looked for
_GREETING_S = 0.4
_MECHANISM_MISMATCH = 0x11000002
_EVENTS = (
    zmq.EVENT_HANDSHAKE_SUCCEEDED
    | zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL
    | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL
    | zmq.EVENT_HANDSHAKE_FAILED_AUTH
)
_numbers = iter(range(1 << 62))


def keys_for(keys: Keys, *addresses: str | None) -> ClientKeys | None:
    """The keys that a client of these addresses uses.

    keys: a folder or loaded ones: then CURVE is used on loopback too; None: the default folder where an
    address leaves this machine, and none where all stay here. Raises InputError for what is no address, and
    when keys are needed that are not there.
    """
    away = [address for address in addresses if address is not None and not stays_here(address)]
    if not isinstance(keys, ClientKeys):
        keys = ClientKeys.load(keys) if keys is not None or away else None
    if keys is not None:
        for address in addresses:
            if address is not None and not address.startswith("ipc://"):
                keys.rig_at(parse(address)[0])
    return keys


class Connection:
    """Connects a socket and watches it.

    Call `look` now and then, from the thread that uses the socket. `problem` is the text of the AccessDenied
    to raise while the connection does not come about for want of a key, None otherwise; it goes away by
    itself.
    Raises what `addresses.connect` raises.
    """

    def __init__(
        self,
        context: zmq.Context[zmq.Socket[bytes]],
        socket: zmq.Socket[bytes],
        address: str,
        keys: ClientKeys | None = None,
    ) -> None:
        self.address, self.keys = address, keys
        self.problem: str | None = (
            None  # no exception: one that is kept holds everything that it went through
        )
        self.refusals = 0
        self._socket = socket
        self._broken_off = 0
        self._retry_at: float | None = None
        where = f"inproc://hearth-connection-{next(_numbers)}"
        socket.monitor(where, _EVENTS)
        self.monitor: zmq.Socket[bytes] = context.socket(zmq.PAIR)  # to poll for, beside the socket
        self.monitor.setsockopt(zmq.LINGER, 0)
        self.monitor.connect(where)
        connect(socket, address, keys)

    def look(self) -> bool:
        """Read what happened; True when there is a new problem."""
        before = self.problem
        while True:
            try:
                told, _endpoint = self.monitor.recv_multipart(zmq.NOBLOCK)
            except zmq.ZMQError:  # nothing more, or closed
                break
            self._note(*struct.unpack("=HI", told))
        if self._retry_at is not None and time.monotonic() >= self._retry_at:
            self.retry()
        return self.problem is not None and before != self.problem

    def retry(self) -> None:
        """Connect anew after a refusal; libzmq itself gives up for good. Nothing happens without one."""
        if self._retry_at is None:
            return
        self._retry_at = None
        with suppress(zmq.ZMQError):
            self._socket.disconnect(self.address)
        with suppress(zmq.ZMQError):
            self._socket.connect(self.address)

    def close(self) -> None:
        """Stop watching; the socket is its owner's to close."""
        with suppress(zmq.ZMQError):
            self._socket.disable_monitor()
        self.monitor.close(0)

    def _note(self, event: int, value: int) -> None:
        if event == zmq.EVENT_HANDSHAKE_SUCCEEDED:
            self.problem, self._broken_off = None, 0
        elif event == zmq.EVENT_HANDSHAKE_FAILED_AUTH:
            self.refusals += 1
            self._retry_at = time.monotonic() + RETRY_S
            self._tell(self._refused())
        else:
            if event == zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL:
                self._retry_at = time.monotonic() + RETRY_S
            self._broken_off += 1
            self.refusals += self.problem is not None
            mismatch = event == zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL and value == _MECHANISM_MISMATCH
            if self.problem is None and (mismatch or self._broken_off >= _BROKEN_OFF):
                self._broken_off = 0
                self._tell(self._why(greeting_mechanism(self.address) or ("other" if mismatch else None)))
                self.refusals += self.problem is not None

    def _tell(self, text: str | None) -> None:
        if text is not None and self.problem != text:
            log.warning("%s", text)
            self.problem = text

    def _refused(self) -> str:
        if self.keys is None:
            return f"the rig at {self.address} refuses clients without a key"
        own = self.keys.own
        return (
            f"the rig at {self.address} refuses this client's key {own.name} ({own.public.fingerprint}): it "
            "is not on its list, or was revoked. On the rig: "
            f"`hearth keys allow {own.name} {own.public.word}`"
        )

    def _why(self, mechanism: str | None) -> str | None:
        """What is wrong when a handshake was broken off by somebody who greets with this mechanism."""
        if mechanism == "CURVE" and self.keys is None:
            return (
                f"whoever is at {self.address} wants keys, and this client has none: "
                "`hearth keys make NAME` makes one; give the client `keys=`"
            )
        if mechanism == "CURVE" and self.keys is not None:
            rig = self.keys.rig_at(parse(self.address)[0])
            return (
                f"the rig at {self.address} has another key than {rig.name} ({rig.public.fingerprint}), "
                "which is on file here, so nothing was sent. Compare with `hearth keys show` on the rig; if "
                f"it changed, `hearth keys revoke {rig.name}` here, and `hearth keys allow` the new one"
            )
        if mechanism is not None and self.keys is not None:
            rig = self.keys.rig_at(parse(self.address)[0])
            return (
                f"whoever is at {self.address} speaks without encryption (ZeroMQ {mechanism}), so it is not "
                f"the rig {rig.name} ({rig.public.fingerprint}); nothing was sent. Without `keys=`, a rig on "
                "loopback is read unencrypted"
            )
        return None


def greeting_mechanism(address: str) -> str | None:
    """The security mechanism (NULL, PLAIN, CURVE) in the ZMTP 3 greeting (RFC 23) of whoever listens at a tcp
    address; None when nobody does, or not in ZMTP."""
    found = re.match(r"^tcp://\[?([^\]]+)\]?:(\d+)$", address)
    if found is None:
        return None
    # Only up to the version: who greets with another mechanism is hung up on before it has told its own.
    greeting = b"\xff" + bytes(8) + b"\x7f\x03\x00"
    try:
        with sockets.create_connection((found.group(1), int(found.group(2))), _GREETING_S) as stream:
            stream.sendall(greeting)
            answer = b""
            while len(answer) < 32 and (more := stream.recv(64 - len(answer))):
                answer += more
    except OSError:
        return None
    if len(answer) < 32 or answer[:1] != b"\xff" or answer[9:10] != b"\x7f":
        return None
    return answer[12:32].rstrip(b"\0").decode("ascii", "replace")
