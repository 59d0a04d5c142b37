"""What is heard when and from where in an episode, in frames of 100 ms, as sound event tasks want it.

From the truth of a virtual episode; else the talkers that were followed when it was finished, as class speech
and without distance, because nobody measured one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from dsp.errors import InputError
from recordings.episode import DOA_WINDOW_S, RELEASE_RATE_HZ, TRUTH
from recordings.release.item import ReleaseItem

FRAME_S = 0.1
# The order is the number of the class: new ones go to the end.
CLASSES = (
    "speech", "air_conditioner", "air_purifier", "audio_player", "dehumidifier", "dishwasher", "fan",
    "freezer", "heat_pump", "humidifier", "laundry_dryer", "laundry_washer", "light", "microwave",
    "refrigerator", "robot_vacuum", "tv", "window_covering", "alarm", "slate", "other",
)  # fmt: skip
_SAME = {
    "on_off_light": "light",
    "dimmable_light": "light",
    "rvc": "robot_vacuum",
    "window_covering_controller": "window_covering",
}
Origin = Literal["truth", "tracked", "none"]


@dataclass(frozen=True)
class SoundEvent:
    """A source in one frame. source: its number among those of its class, from 0. distance_m: None where
    nobody knows it."""

    frame: int
    class_index: int
    source: int
    azimuth_deg: float
    elevation_deg: float
    distance_m: float | None


def sound_events(item: ReleaseItem) -> tuple[Origin, list[SoundEvent]]:
    """Where the events come from, and the events by frame, class and source.

    Frames count from the first frame of the released sound; a source is in a frame when it is heard for at
    least half of it; its direction is that in the middle of the frame. Raises InputError for a truth.json of
    another form.
    """
    truth = item.episode.truth()
    if isinstance(truth.get("sources"), list) and isinstance(truth.get("start_ns"), int):
        try:
            return "truth", sorted(_true_events(item, truth), key=_place)
        except (KeyError, TypeError, ValueError, IndexError) as error:
            raise InputError(
                f"{item.path / TRUTH}: its sources cannot be read ({type(error).__name__}: {error}); it needs"
                " id, kind, active_s and path of each"
            ) from None
    found = sorted(_tracked_events(item), key=_place)
    return ("tracked" if found else "none"), found


def _place(event: SoundEvent) -> tuple[int, int, int]:
    return event.frame, event.class_index, event.source


def _true_events(item: ReleaseItem, truth: Mapping[str, Any]) -> Iterator[SoundEvent]:
    episode = item.episode
    devices = () if item.recorded.home is None else item.recorded.home.devices
    types = {device.id: device.type for device in devices}
    late_s = float(truth.get("av_offset_ms") or 0.0) * 1e-3  # sound is delivered so much later
    begin_s = np.int64(truth["start_ns"])
    end = item.sound_frames / RELEASE_RATE_HZ

    def in_sound(scene_s: float) -> float:
        """Seconds in the released sound of a time of the scene."""
        t_ns = int(begin_s) + round((scene_s + late_s) * 1e9)
        return float(episode.audio_map.file_frame(t_ns)) / episode.original.rate

    numbers: dict[int, int] = {}
    for source in sorted(truth["sources"], key=lambda source: str(source["id"])):
        index = CLASSES.index(_class_of(source, types))
        number = numbers.get(index, 0)
        numbers[index] = number + 1
        path = np.array(source["path"], np.float64)
        frames: set[int] = set()
        for low, high in source["active_s"]:
            a, b = max(in_sound(low), 0.0), min(in_sound(high), end)
            frames.update(range(round(a / FRAME_S), round(b / FRAME_S)))
        zero = in_sound(0.0)
        for frame in frames:
            azimuth, elevation, distance = _on_path(path, (frame + 0.5) * FRAME_S - zero)
            yield SoundEvent(frame, index, number, azimuth, elevation, distance)


def _class_of(source: Mapping[str, Any], types: Mapping[str, str]) -> str:
    if source["kind"] == "talker":
        return "speech"
    if source["kind"] == "slate":
        return "slate"
    kind = types.get(str(source.get("device_id")), "other")
    kind = _SAME.get(kind, kind)
    return kind if kind in CLASSES else "other"


def _on_path(path: NDArray[np.float64], time_s: float) -> tuple[float, float, float]:
    """Azimuth, elevation and distance at a time, between the rows (time, azimuth, elevation, distance)."""
    if len(path) == 1:
        return float(path[0, 1]), float(path[0, 2]), float(path[0, 3])
    azimuth = np.degrees(np.interp(time_s, path[:, 0], np.unwrap(np.radians(path[:, 1]))))
    return (
        float((azimuth + 180) % 360 - 180),
        float(np.interp(time_s, path[:, 0], path[:, 2])),
        float(np.interp(time_s, path[:, 0], path[:, 3])),
    )


def _tracked_events(item: ReleaseItem) -> Iterator[SoundEvent]:
    for number, track in enumerate(item.episode.tracks()):
        for row in range(len(track.times_s)):
            if not track.coasting[row]:
                yield SoundEvent(
                    round((track.times_s[row] - DOA_WINDOW_S) / FRAME_S),
                    CLASSES.index("speech"),
                    number,
                    float(track.azimuth_deg[row]),
                    float(track.elevation_deg[row]),
                    None,
                )
