"""Addresses of network cameras, and how they may be shown."""

from __future__ import annotations

import re


def is_network_address(address: int | str) -> bool:
    """Whether it has a scheme, like rtsp:// or http://."""
    return isinstance(address, str) and re.match(r"^[A-Za-z][A-Za-z0-9+.-]*://", address) is not None


def without_password(address: str) -> str:
    """The address as it may be shown and stored."""
    return re.sub(r"^([A-Za-z][A-Za-z0-9+.-]*://)[^/]*@", r"\1***@", address)
