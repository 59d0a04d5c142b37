"""Whether a device is powered, and the commands that need it to be."""

from __future__ import annotations

from typing import Any

from edge.home.errors import HomeError


def is_on(attributes: dict[str, Any], endpoint: int) -> bool:
    """False only for an endpoint whose OnOff is false; one without OnOff is always powered."""
    return attributes.get(f"{endpoint}.OnOff.OnOff", True) is not False


def require_on(attributes: dict[str, Any], endpoint: int, what: str) -> None:
    """Raises DEPENDENCY_VIOLATION while the device is off."""
    if not is_on(attributes, endpoint):
        raise HomeError("DEPENDENCY_VIOLATION", f"{what} needs the device to be on; send On first")
