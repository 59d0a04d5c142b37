"""Commands of this package."""

from __future__ import annotations

import typer


def register(app: typer.Typer) -> None:
    """Add this package's commands to `app`."""
