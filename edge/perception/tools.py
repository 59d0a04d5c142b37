"""The one interface of all perception tools: what was found, how sure, by what, and what it cost.

A tool looks at a `Scene` (one utterance, the pictures around it, the map of the room) and returns a
`Finding`. Whatever several tools need (the bodies in a picture, where the talker is) is worked out once per
scene.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from edge.perception.room_map import RoomMap
from edge.perception.utterance import Utterance

PICTURES_PER_S = 5.0  # of a scene, at most
BEFORE_S = 1.0  # of pictures before an utterance: the arm is up before the first word

V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class Picture:
    """image: (height, width, 3) BGR uint8, taken at t_ns (CLOCK_MONOTONIC of the rig)."""

    t_ns: int
    image: NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class Finding(Generic[V]):
    """value: None when there is nothing to find; `why` then says so in words for people.

    confidence: 0 to 1, the tool's own. provenance: what it comes from (model, hash, pictures, samples).
    seconds: of wall-clock time that it took.
    """

    tool: str
    value: V | None
    confidence: float
    provenance: dict[str, Any] = field(default_factory=dict)
    seconds: float = 0.0
    why: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for traces and declarations."""
        plain = getattr(self.value, "to_dict", None)
        told = self.value if plain is None else plain()
        return {
            "tool": self.tool,
            "value": told,
            "confidence": round(float(self.confidence), 4),
            "provenance": self.provenance,
            "seconds": round(self.seconds, 4),
            "why": self.why,
        }


class Scene:
    """What an agent perceives of one request; never a truth.

    utterance: what was said, with what was heard before it. pictures: of the rig's main camera from about a
    second before the speech until its end, oldest first; may be empty. room: the map that the home told.
    """

    def __init__(self, utterance: Utterance, pictures: tuple[Picture, ...], room: RoomMap) -> None:
        self.utterance, self.pictures, self.room = utterance, pictures, room
        self._shared: dict[Hashable, Any] = {}

    def shared(self, key: Hashable, make: Callable[[], V]) -> V:
        """What `make` returns, worked out once per scene and key."""
        if key not in self._shared:
            self._shared[key] = make()
        return self._shared[key]  # type: ignore[no-any-return]


class Tool(Protocol[V]):
    """name: as in traces and in the tables of agents. A scene in which nothing is found raises nothing."""

    name: str

    def __call__(self, scene: Scene) -> Finding[V]: ...


class Stopwatch:
    """Seconds since it was made."""

    def __init__(self) -> None:
        self._began = time.perf_counter()

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self._began
