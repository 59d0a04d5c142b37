"""Where the console listens: `endpoints.console` of the rig."""

from __future__ import annotations

from dsp.errors import InputError
from recordings.web import address as web
from recordings.web.address import Listening, is_loopback

__all__ = ["Listening", "is_loopback", "listen", "parse"]

_NAME = "endpoints.console"
_REMEDY = (
    "Is another `hearth live` running? Set another address (endpoints.console in rig.yaml; port 0 lets the"
    " system choose)"
)


def parse(address: str) -> tuple[str, int]:
    """(host, port) of "127.0.0.1:5770" or "[::1]:5770". Raises InputError."""
    try:
        return web.parse(address, _NAME)
    except InputError as error:
        raise InputError(f"{error}, or off") from None


def listen(address: str, *, always_token: bool = False) -> Listening:
    """Bind the console's socket (port 0: the system chooses), with a new token off loopback, or always.

    Raises InputError for what is no address, DeviceError for one that is in use or cannot be had.
    """
    parse(address)
    return web.bind(address, _NAME, _REMEDY, always_token=always_token)
