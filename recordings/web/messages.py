"""What a page says over its WebSocket."""

from __future__ import annotations

import json
from typing import Any


def read_object(text: str, longest: int) -> dict[str, Any] | None:
    """The JSON object that a page sent; None for what is too long, no JSON, or no object."""
    try:
        said = json.loads(text) if len(text) <= longest else None
    except (ValueError, RecursionError):
        return None
    return said if isinstance(said, dict) else None
