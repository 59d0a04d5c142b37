"""ZeroMQ addresses: which stay on this machine, and the one way to bind and to connect.

Nothing of a home leaves the machine unencrypted: an address off loopback is bound and connected with CURVE
keys only, and every socket of the stream goes through `bind` and `connect` here.
"""

from __future__ import annotations

import errno
import ipaddress
import re
from typing import TYPE_CHECKING

import zmq

from dsp.errors import DeviceError, InputError
from edge.stream.context import Context

if TYPE_CHECKING:
    from edge.stream.access import Access
    from edge.stream.keys_folder import ClientKeys

_TCP = re.compile(r"^tcp://(\[[0-9A-Fa-f:.]+(?:%[0-9A-Za-z._-]+)?\]|[A-Za-z0-9._*-]+):(\d{1,5}|\*)$")
# How long a connection may take for greeting and keys: one that says nothing holds a place no longer.
HANDSHAKE_MS = 3000
ZAP_DOMAIN = b"hearth"


def parse(address: str) -> tuple[str, str]:
    """Host and port of a tcp address (without brackets); for ipc the path and "". Raises InputError."""
    if re.match(r"^ipc://[^\0]+\Z", address):
        return address.removeprefix("ipc://"), ""
    found = _TCP.match(address)
    if found is None:
        raise InputError(f"{address!r} is not an address: write tcp://127.0.0.1:<port> or ipc://<path>")
    host, port = found.group(1).strip("[]"), found.group(2)
    if port != "*" and int(port) > 65535:
        raise InputError(f"{address!r}: a port is 0 to 65535")
    return host, port


def stays_here(address: str) -> bool:
    """Whether an address is on this machine alone: ipc, or tcp on 127.0.0.0/8, ::1 or localhost.

    Raises InputError for what is no address.
    """
    host, port = parse(address)
    if not port or host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.split("%")[0]).is_loopback
    except ValueError:
        return False


def bind(socket: zmq.Socket[bytes], address: str, what: str, access: Access | None = None) -> str:
    """Bind (port 0: the system chooses); returns the address it really got.

    Off loopback, or where `access` asks for it, with CURVE and the list of `access`. Raises InputError for an
    address off loopback without keys, DeviceError when it is in use or cannot be had.
    """
    key = access.key_for(address) if access is not None else None
    if key is None and not stays_here(address):
        raise InputError(
            f"{address!r} leaves this machine, so endpoints.{what} needs keys, and this rig has none: "
            "`hearth keys make --rig` makes them. Or stay on loopback: tcp://127.0.0.1:<port>"
        )
    if address.startswith("tcp://"):
        address = re.sub(r":0$", ":*", address)
        if address.startswith("tcp://["):
            socket.setsockopt(zmq.IPV6, 1)
    socket.setsockopt(zmq.HANDSHAKE_IVL, HANDSHAKE_MS)
    if key is not None:
        socket.setsockopt(zmq.CURVE_PUBLICKEY, key.public.raw)
        socket.setsockopt(zmq.CURVE_SECRETKEY, key.secret)
        socket.setsockopt(zmq.CURVE_SERVER, 1)
        socket.setsockopt(zmq.ZAP_DOMAIN, ZAP_DOMAIN)
        # Without this, a list that cannot be asked (its thread died) would let everybody in.
        socket.setsockopt(zmq.ZAP_ENFORCE_DOMAIN, 1)
        if socket.getsockopt(zmq.MECHANISM) != zmq.CURVE:
            raise DeviceError(f"CURVE could not be switched on, so {address} is not opened")
    try:
        socket.bind(address)
    except zmq.ZMQError as error:
        if error.errno == errno.EADDRINUSE:
            raise DeviceError(
                f"{address} is in use: is another `hearth live` running? Stop it, or set another address "
                f"(endpoints.{what} in rig.yaml; port 0 lets the system choose)"
            ) from None
        raise DeviceError(f"cannot bind {what} to {address}: {error}") from None
    return socket.getsockopt(zmq.LAST_ENDPOINT).rstrip(b"\0").decode()  # type: ignore[union-attr]


def connect(socket: zmq.Socket[bytes], address: str, keys: ClientKeys | None = None) -> None:
    """Connect; off loopback, or with `keys`, with CURVE: then only to a rig whose key is trusted.

    Raises InputError for what is no address, and off loopback without keys.
    """
    host, _ = parse(address)
    if keys is None and not stays_here(address):
        raise InputError(
            f"{address!r} is not on this machine, so it needs keys: `keys=` of the client, made by "
            "`hearth keys make NAME`"
        )
    if keys is not None and not address.startswith("ipc://"):
        socket.setsockopt(zmq.CURVE_PUBLICKEY, keys.own.public.raw)
        socket.setsockopt(zmq.CURVE_SECRETKEY, keys.own.secret)
        socket.setsockopt(zmq.CURVE_SERVERKEY, keys.rig_at(host).public.raw)
        if socket.getsockopt(zmq.MECHANISM) != zmq.CURVE:
            raise DeviceError(f"CURVE could not be switched on, so {address} is not connected to")
    if address.startswith("tcp://["):
        socket.setsockopt(zmq.IPV6, 1)
    try:
        socket.connect(address)
    except zmq.ZMQError as error:
        raise InputError(f"cannot connect to {address!r}: {error}") from None


def check_free(address: str, what: str, access: Access | None = None) -> None:
    """Raise what `bind` would raise; nothing stays bound."""
    context = Context()
    try:
        bind(context.socket(zmq.REP), address, what, access)
    finally:
        context.destroy(linger=0)


def same_host(address: str, stream_address: str) -> str:
    """`address` as announced by a publisher, with the host by which this client reaches that publisher.

    What a publisher says is not trusted further than that: it names a port, and never another host or path.
    Raises InputError for anything else.
    """
    if stream_address.startswith("ipc://"):
        return address if address.startswith("ipc://") else stream_address + "-latest"
    host = stream_address.rsplit(":", 1)[0]
    _, port = parse(address)
    if not port.isdigit() or int(port) == 0:
        raise InputError(f"{address!r} is no address to which a client could connect")
    return f"{host}:{port}"
