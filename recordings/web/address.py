"""Where a web page listens, who may reach it there, and the address to open."""

from __future__ import annotations

import ipaddress
import re
import secrets
import socket
from dataclasses import dataclass

from dsp.errors import DeviceError, InputError

_FORM = re.compile(r"^(\[[0-9A-Fa-f:]+\]|[A-Za-z0-9.-]+):(\d{1,5})$")
_BACKLOG = 64


@dataclass(frozen=True)
class Listening:
    """A bound socket. token: what a browser must show; None where everybody of this machine may come."""

    socket: socket.socket
    host: str
    port: int
    token: str | None

    @property
    def address(self) -> str:
        """What to open, without the token."""
        return f"http://{_in_url(self._shown)}:{self.port}/"

    @property
    def url(self) -> str:
        """What to open, with the token where one is needed."""
        return self.address if self.token is None else f"{self.address}?token={self.token}"

    @property
    def _shown(self) -> str:
        """A listener on all addresses is reached by the one that this machine has in its network."""
        try:
            anywhere = ipaddress.ip_address(self.host).is_unspecified
        except ValueError:
            anywhere = False
        return _own_address(self.socket.family) or socket.gethostname() if anywhere else self.host


def parse(address: str, named: str) -> tuple[str, int]:
    """(host, port) of "127.0.0.1:5770" or "[::1]:5770". Raises InputError, which says what it is `named`."""
    found = _FORM.match(address)
    if found is None or int(found[2]) > 65535:
        raise InputError(
            f"{named}: {address!r} is no address: write 127.0.0.1:5770, or 0.0.0.0:5770 for all networks of"
            " this machine"
        )
    return found[1].strip("[]"), int(found[2])


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach a listener on `host`."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def bind(address: str, named: str, remedy: str, *, always_token: bool = False) -> Listening:
    """Bind a page's socket (port 0: the system chooses), with a new token off loopback, or always.

    named: what the address is called where it was given; remedy: what to do when it is in use. Raises
    InputError for what is no address, DeviceError for one that is in use or cannot be had.
    """
    host, port = parse(address, named)
    try:
        family, kind, protocol, _, where = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        bound = socket.socket(family, kind, protocol)
    except OSError as error:
        raise DeviceError(f"cannot listen on {address} ({named}): {error}") from None
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(where)
        bound.listen(_BACKLOG)
    except OSError as error:
        bound.close()
        raise DeviceError(f"cannot listen on {address} ({named}): {error.strerror}. {remedy}") from None
    token = None if is_loopback(host) and not always_token else secrets.token_urlsafe(32)
    return Listening(bound, host, bound.getsockname()[1], token)


def _own_address(family: int) -> str | None:
    """The address by which this machine is reached from its network; no packet is sent to find it."""
    far = "2001:db8::1" if family == socket.AF_INET6 else "192.0.2.1"
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((far, 9))
            return str(probe.getsockname()[0])
    except OSError:
        return None


def _in_url(host: str) -> str:
    return f"[{host}]" if ":" in host else host
