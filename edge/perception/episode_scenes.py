"""A recorded episode as an agent would have seen it live: one scene per utterance."""

from __future__ import annotations

from capture.rig import rig_from_dict
from dsp.errors import InputError
from edge.home.describe import room_map
from edge.perception.room_map import RoomMap
from edge.perception.tools import BEFORE_S, PICTURES_PER_S, Picture, Scene
from edge.perception.utterance import RATE_HZ, Utterance, utterances_in
from recordings.episode import Episode


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
    per_frame = episode.original.rate / RATE_HZ
    return utterances_in(episode.audio(RATE_HZ), lambda frames: episode.audio_map.time_ns(frames * per_frame))


def _pictures(episode: Episode, utterances: list[Utterance]) -> list[list[Picture]]:
    """Of each utterance, at most PICTURES_PER_S a second; the video is read once."""
    windows = [(one.t_ns - round(BEFORE_S * 1e9), one.ended_ns) for one in utterances]
    found: list[list[Picture]] = [[] for _ in windows]
    for t_ns, image in episode.frames():
        for (begin, end), seen in zip(windows, found, strict=True):
            if begin <= t_ns <= end and (not seen or t_ns - seen[-1].t_ns >= 0.9e9 / PICTURES_PER_S):
                seen.append(Picture(t_ns, image))
    return found
