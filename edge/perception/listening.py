"""What was said, as a perception tool: the microphone aimed at the talker, then a recogniser."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from edge.perception.active_speaker import talker_heard
from edge.perception.beam import aimed_at
from edge.perception.room_map import RoomMap
from edge.perception.speech import F32, Expectation, Recogniser, Recognition, RequestRecogniser
from edge.perception.tools import Finding, Scene, Stopwatch
from edge.perception.utterance import RATE_HZ

LISTEN_S = 0.1  # silence after the beam, so that a recogniser sees the end


class SpeechTool:
    """Scene -> words. recogniser: see `edge.perception.speech.load_recogniser`. expect: what may be asked in
    the scene's home (`edge.language.expectation`), for a recogniser that can use it."""

    name = "speech"

    def __init__(
        self, recogniser: Recogniser, expect: Callable[[RoomMap], Expectation] | None = None
    ) -> None:
        self._recogniser, self._expect = recogniser, expect

    def __call__(self, scene: Scene) -> Finding[Recognition]:
        """None when no words were heard."""
        watch = Stopwatch()
        beam = talker_beam(scene)
        if self._expect is not None and isinstance(self._recogniser, RequestRecogniser):
            heard = self._recogniser.recognise_request(beam, RATE_HZ, self._expect(scene.room))
        else:
            heard = self._recogniser.recognise(beam, RATE_HZ)
        told = {"recogniser": heard.provenance, "seconds": round(heard.seconds, 3)}
        if not heard.text.strip():
            return Finding(self.name, None, 0.0, told, watch.seconds, "no words were heard")
        return Finding(self.name, heard, heard.confidence, told, watch.seconds)


def talker_beam(scene: Scene) -> F32:
    """(frames,) at 24 kHz: the whole utterance as a microphone hears it that is aimed at the talker, and a
    little silence. W where nobody was located."""
    mono = aimed_at(scene.utterance.foa, talker_heard(scene), scene.room.microphone_yaw_deg)
    return np.concatenate([mono, np.zeros(round(LISTEN_S * RATE_HZ), np.float32)])
