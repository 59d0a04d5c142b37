"""Where somebody stands and looks who is heard and not seen (no camera, or outside its picture): people look
at what they talk to. Little is known then, and that is said: wide sigmas and a low confidence."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from edge.perception.active_speaker import talker_heard
from edge.perception.direction import Direction
from edge.perception.facing import Facing
from edge.perception.tools import Finding, Scene, Stopwatch, Tool

DISTANCE_M, DISTANCE_SIGMA_M = 2.0, 0.7  # from a rig to people in a room
MOUTH_M = 1.5
FACING_SIGMA_DEG = 25.0
CONFIDENCE = 0.35


@dataclass(frozen=True, slots=True)
class SpeakerHeard:
    """The talker by the voice alone. position_m: of the mouth in the room; sigma_m: of its distance."""

    position_m: tuple[float, float, float]
    sigma_m: float
    direction: Direction

    def to_dict(self) -> dict[str, Any]:
        """Plain data, rounded, for traces."""
        place = [round(v, 3) for v in self.position_m]
        return {"position_m": place, "sigma_m": self.sigma_m, "direction": self.direction.to_dict()}


class OrHeard:
    """A tool of vision, and where it finds nothing, what the voice suggests. tool: named `name`, whose
    finding `by_voice` replaces."""

    def __init__(self, tool: Tool[Any]) -> None:
        self._tool, self.name = tool, tool.name

    def __call__(self, scene: Scene) -> Finding[Any]:
        watch = Stopwatch()
        seen = self._tool(scene)
        if seen.value is not None:
            return seen
        speaker = speaker_heard(scene)
        if speaker is None:
            return seen
        value = self.by_voice(scene, speaker)
        why = f"{seen.why}; assumed from the voice"
        return Finding(self.name, value, CONFIDENCE, seen.provenance, watch.seconds, why)

    def by_voice(self, scene: Scene, speaker: SpeakerHeard) -> Any:
        """The speaker, as heard."""
        return speaker


class FacingOrHeard(OrHeard):
    """Who is not seen looks at the rig."""

    def by_voice(self, scene: Scene, speaker: SpeakerHeard) -> Facing:
        """Towards the microphone, in the room frame."""
        dx, dy = np.asarray(scene.room.microphone_m)[:2] - np.asarray(speaker.position_m)[:2]
        sigma = math.hypot(FACING_SIGMA_DEG, speaker.direction.sigma_deg)
        return Facing(math.degrees(math.atan2(dy, dx)), sigma, "head")


def speaker_heard(scene: Scene) -> SpeakerHeard | None:
    """The talker in the direction of the voice, at the distance that is usual; None where it has none."""
    heard = talker_heard(scene)
    if heard is None:
        return None
    way = math.radians(heard.azimuth_deg)
    x, y, _ = scene.room.microphone_m
    place = (x + DISTANCE_M * math.cos(way), y + DISTANCE_M * math.sin(way), MOUTH_M)
    return SpeakerHeard(place, DISTANCE_SIGMA_M, heard)
