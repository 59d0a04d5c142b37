"""A recorded episode as an agent would have seen it live: one scene per utterance."""

from __future__ import annotations

import numpy as np

from capture.rig import rig_from_dict
from dsp.errors import InputError
from edge.home.describe import room_map
from edge.perception.room_map import RoomMap
from edge.perception.tools import Picture, Scene
from edge.perception.utterance import RATE_HZ, Utterance, UtteranceCutter
from recordings.episode import Episode

BLOCK = RATE_HZ // 50
BEFORE_S = 1.0  # of pictures before the speech, as live
PICTURES_PER_S = 5.0


class _NoDevices:
    def describe(self) -> list[dict[str, object]]:
        return []


def scenes_of(episode: Episode) -> list[Scene]:
    """The scenes of an episode, in order; none when nobody is heard to speak. The room map has no devices.

    Raises InputError for an episode without first-order sound, or without the rig that recorded it (where
    microphone and camera stand).
    """
    if not episode.profile.rig:
        raise InputError(
            f"{episode.path}: does not say which rig recorded it, so nobody knows where it looks"
        )
    rig = rig_from_dict(episode.profile.rig, str(episode.path))
    room = RoomMap(room_map(rig, _NoDevices(), calibrations=episode.calibrations))
    utterances = _utterances(episode)
    pictures = _pictures(episode, utterances)
    return [Scene(one, tuple(seen), room) for one, seen in zip(utterances, pictures, strict=True)]


def _utterances(episode: Episode) -> list[Utterance]:
    foa = episode.audio(RATE_HZ)
    original = episode.original.rate / RATE_HZ
    starts = np.arange(0, len(foa), BLOCK)
    times = episode.audio_map.time_ns(starts * original)
    cutter = UtteranceCutter()
    heard: list[Utterance] = []
    for first, t_ns in zip(starts, times, strict=True):
        heard += cutter.push(np.ascontiguousarray(foa[first : first + BLOCK]), int(t_ns))
    return [*heard, *cutter.flush()]


def _pictures(episode: Episode, utterances: list[Utterance]) -> list[list[Picture]]:
    """Of each utterance, at most PICTURES_PER_S a second; the video is read once."""
    windows = [(one.t_ns - round(BEFORE_S * 1e9), one.ended_ns) for one in utterances]
    found: list[list[Picture]] = [[] for _ in windows]
    for t_ns, image in episode.frames():
        for (begin, end), seen in zip(windows, found, strict=True):
            if begin <= t_ns <= end and (not seen or t_ns - seen[-1].t_ns >= 0.9e9 / PICTURES_PER_S):
                seen.append(Picture(t_ns, image))
    return found
