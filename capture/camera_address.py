"""Addresses of network cameras, and how they may be shown."""

from __future__ import annotations

import re
from typing import Any


def is_network_address(address: int | str) -> bool:
    """Whether it has a scheme, like rtsp:// or http://."""
    return isinstance(address, str) and re.match(r"^[A-Za-z][A-Za-z0-9+.-]*://", address) is not None


_SECRET_KEYS = re.compile(
    r"(?i)([?&;][^=&;\s]*(?:pass|pwd|psw|user|usr|login|token|key|auth|secret)[^=&;\s]*=)[^&;\s'\"]+"
)
_BARE = re.compile(
    r"(?<![^\s'\"(=])[^\s'\":/@]+:(?!//)[^\s'\"@]+@(?=[\w.\[-])"
)  # user:password@host, no scheme
_ADDRESS = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*://)([^\s'\"]+)")


def without_secrets(value: Any) -> Any:
    """The same plain value with user names and passwords of addresses replaced by `***`, in every text."""
    if isinstance(value, str):
        return _BARE.sub("***@", _ADDRESS.sub(lambda found: found[1] + _safe(found[2]), value))
    if isinstance(value, dict):
        return {without_secrets(key): without_secrets(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [without_secrets(item) for item in value]
    return value


def _safe(rest: str) -> str:
    """What follows `scheme://`. A password may hold @ and / where somebody forgot to quote it."""
    place, mark, query = rest.partition("?")
    host, slash, path = place.partition("/")
    if "@" in host:
        place = f"***@{host.rpartition('@')[2]}{slash}{path}"
    if "@" in path and re.search(r":(?!\d+$)", host):  # `user:pa/ss@host`: no port, so it is a password
        place = f"***@{path.rpartition('@')[2]}"
    return _SECRET_KEYS.sub(r"\1***", f"{place}{mark}{query}")
