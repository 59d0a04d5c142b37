"""From sound to evidence: an utterance becomes words, a request, and the directions that tell it apart."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from edge.perception.direction import Direction, device_direction, talker_direction
from edge.perception.matching import Candidate, by_name, by_side, by_sound
from edge.perception.request import Request, parse_request
from edge.perception.room_map import RoomMap
from edge.perception.speech import Recogniser, Recognition
from edge.perception.utterance import RATE_HZ, Utterance

BEAM_PATTERN = 0.3  # between super- and hypercardioid: least sound from elsewhere
LISTEN_S = 0.1  # silence after the beam, so that a recogniser sees the end


@dataclass(frozen=True)
class Observation:
    """What an utterance told. `talker`, `heard`: directions of the speaker and of a device's sound before.

    request: None if the words ask for nothing. candidates: the devices it can mean, best first.
    seconds: what each step took.
    """

    recognition: Recognition
    talker: Direction | None
    heard: Direction | None
    request: Request | None
    candidates: tuple[Candidate, ...]
    seconds: dict[str, float]

    def evidence(self) -> dict[str, Any]:
        """Plain data for a declaration and for traces."""
        return {
            "text": self.recognition.text,
            "recognition": self.recognition.to_dict(),
            "request": None if self.request is None else self.request.to_dict(),
            "talker": None if self.talker is None else self.talker.to_dict(),
            "sound": None if self.heard is None else self.heard.to_dict(),
            "posterior": [c.to_dict() for c in self.candidates],
            "seconds": {name: round(value, 3) for name, value in self.seconds.items()},
        }


def observe(utterance: Utterance, room: RoomMap, recogniser: Recogniser) -> Observation:
    """Listen to one utterance: aim at the talker, recognise, and localise what the request needs."""
    import dsp

    clock = _Clock()
    yaw = room.microphone_yaw_deg
    talker = talker_direction(utterance, yaw)
    clock.lap("talker_direction")
    if talker is None:
        mono = utterance.foa[:, 0]
    else:
        mono = dsp.virtual_mic(utterance.foa, talker.azimuth_deg - yaw, talker.elevation_deg, BEAM_PATTERN)
    silence = np.zeros(round(LISTEN_S * RATE_HZ), np.float32)
    recognition = recogniser.recognise(np.concatenate([np.asarray(mono, np.float32), silence]), RATE_HZ)
    clock.lap("recognition")
    request = None
    if recognition.expected is not False:
        request = parse_request(recognition.text, [device.name for device in room.devices])
    heard = None
    if request is not None and request.grounding == "G2":
        heard = device_direction(utterance.before, yaw)
        clock.lap("device_direction")
    found = () if request is None else tuple(candidates(room, request, talker, heard))
    return Observation(recognition, talker, heard, request, found, clock.laps)


def candidates(
    room: RoomMap, request: Request, talker: Direction | None, heard: Direction | None
) -> list[Candidate]:
    """The devices that a request can mean, by the evidence that its kind of grounding uses."""
    if request.grounding == "G2":
        return by_sound(room, request, heard)
    if request.grounding == "G3":
        return by_side(room, request, talker)
    if request.grounding == "G0":
        return by_name(room, request)
    return []


class _Clock:
    def __init__(self) -> None:
        self.laps: dict[str, float] = {}
        self._last = time.perf_counter()

    def lap(self, name: str) -> None:
        now = time.perf_counter()
        self.laps[name] = now - self._last
        self._last = now
