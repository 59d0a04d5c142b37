"""ZeroMQ addresses: which may be used, and binding to one with an error that can be acted on."""

from __future__ import annotations

import errno
import ipaddress
import re

import zmq

from dsp.errors import DeviceError, InputError


def require_loopback(address: str) -> str:
    """Return `address` if it stays on this machine: tcp on 127.0.0.0/8, ::1 or localhost, or ipc.

    Raises InputError for anything else: without encryption and a list of allowed keys, sound and pictures of
    a home must not leave the machine.
    """
    if re.match(r"^ipc://.+", address):
        return address
    found = re.match(r"^tcp://(\[[0-9A-Fa-f:]+\]|[^:/\[\]]+):(\d{1,5}|\*)$", address)
    if found is None:
        raise InputError(f"{address!r} is not an address: write tcp://127.0.0.1:<port> or ipc://<path>")
    host, port = found.group(1).strip("[]"), found.group(2)
    if port != "*" and int(port) > 65535:
        raise InputError(f"{address!r}: a port is 0 to 65535")
    try:
        loopback = host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        loopback = False
    if not loopback:
        raise InputError(
            f"{address!r} would leave this machine, and the stream is not encrypted yet: sound and pictures "
            "of a home go over loopback only. Use tcp://127.0.0.1:<port> or ipc://<path>; from another "
            "machine, use an SSH tunnel to it"
        )
    return address


def bind(socket: zmq.Socket[bytes], address: str, what: str) -> str:
    """Bind to a loopback address (port 0: the system chooses); returns the address it really got.

    Raises InputError for an address off loopback, DeviceError when it is in use or cannot be had.
    """
    require_loopback(address)
    if address.startswith("tcp://"):
        address = re.sub(r":0$", ":*", address)
        if address.startswith("tcp://["):
            socket.setsockopt(zmq.IPV6, 1)
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


def check_free(address: str, what: str) -> None:
    """Raise what `bind` would raise; nothing stays bound."""
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    try:
        bind(context.socket(zmq.REP), address, what)
    finally:
        context.destroy(linger=0)


def same_host(address: str, stream_address: str) -> str:
    """`address` as announced by a publisher, with the host by which this client reaches that publisher."""
    ours = re.match(r"^tcp://(.+):\d+$", stream_address)
    theirs = re.match(r"^tcp://(.+):(\d+)$", address)
    return f"tcp://{ours.group(1)}:{theirs.group(2)}" if ours and theirs else address
