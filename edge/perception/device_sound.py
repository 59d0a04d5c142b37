"""Which device sounds, as two tools: where the sound comes from that goes on while somebody speaks, and what
kind of sound it is."""

from __future__ import annotations

from edge.perception.direction import RECENT_S, Direction, device_direction
from edge.perception.tools import Finding, Scene, Stopwatch


class SoundDirectionTool:
    """Where the sound comes from that was there before the speech began and had not ended."""

    name = "sound"

    def __call__(self, scene: Scene) -> Finding[Direction]:
        """None when nothing goes on or comes again there."""
        clock = Stopwatch()
        before, yaw = scene.utterance.before, scene.room.microphone_yaw_deg
        found = scene.shared("device direction", lambda: device_direction(before, yaw))
        provenance = {"method": "intensity at onsets, or of steady half seconds", "heard_s": _heard_s(scene)}
        if found is None:
            return Finding(self.name, None, 0.0, provenance, clock.seconds, "no sound that goes on")
        return Finding(self.name, found, found.confidence * found.support, provenance, clock.seconds)


def _heard_s(scene: Scene) -> float:
    return round(min(len(scene.utterance.before) / 24000, RECENT_S), 2)
