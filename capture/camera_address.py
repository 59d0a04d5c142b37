"""Addresses of network cameras, and how they may be shown."""

from __future__ import annotations

import re
from typing import Any


def is_network_address(address: int | str) -> bool:
    """Whether it has a scheme, like rtsp:// or http://."""
    return isinstance(address, str) and re.match(r"^[A-Za-z][A-Za-z0-9+.-]*://", address) is not None


_BARE = re.compile(
    r"(?<![^\s'\"(=])[^\s'\":/@]+:(?!//)[^\s'\"@]+@(?=[\w.\[-])"
)  # user:password@host, no scheme
_ADDRESS = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*://)([^\s'\"]+)")


def shown_address(address: str) -> str:
    """One whole address as it may be shown and stored: where it is, and none of what may be secret."""
    scheme, mark, rest = address.partition("://")
    return f"{scheme}{mark}{_safe(rest)}" if mark else str(without_secrets(address))


def without_secrets(value: Any) -> Any:
    """The same plain value with what may be secret in addresses replaced by `***`, in every text."""
    if isinstance(value, str):
        return _BARE.sub("***@", _ADDRESS.sub(lambda found: found[1] + _safe(found[2]), value))
    if isinstance(value, dict):
        return {without_secrets(key): without_secrets(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [without_secrets(item) for item in value]
    return value


def _safe(rest: str) -> str:
    """What follows `scheme://`: user and password go, and the whole query and fragment; of the path each part
    with `key=value`, where some cameras want the password. It may hold @ and / that somebody forgot to quote.
    """
    place, mark = re.match(r"([^?#]*)([?#]?)", rest).groups()  # type: ignore[union-attr]
    if "@" in rest[len(place) :] and ":" in place.partition("/")[0] and "@" not in place:
        return f"***@{_safe(rest.rpartition('@')[2])}"  # `user:pass?word@host`
    host, slash, path = place.partition("/")
    if "@" in host:
        host = f"***@{host.rpartition('@')[2]}"
    elif "@" in path and re.search(r":(?!\d+$)", host):  # `user:pa/ss@host`: no port, so it is a password
        host, slash, path = f"***@{path.rpartition('@')[2]}".partition("/")
    path = "/".join("***" if re.search(r"=|%3d", part, re.I) else part for part in path.split("/"))
    return f"{host}{slash}{path}{mark}{'***' * bool(mark)}"
