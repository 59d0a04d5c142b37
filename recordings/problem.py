"""One thing that is wrong with an episode."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Problem:
    """code: stable short name; path: file inside the episode, or "" where there is no file yet."""

    code: str
    message: str
    path: str = ""

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" if self.path else self.message
