"""Cut what somebody said out of the stream, together with what was heard before it.

Cheap activity detection runs on all sound; the speech detector runs only around activity, so a steady hum
costs nothing and starts nothing. Speech starts an utterance, `HANG_S` without speech ends it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dsp.errors import InputError
from edge.perception.voice import SileroVoice, VoiceDetector

F32 = NDArray[np.float32]

RATE_HZ = 24000
START_PROBABILITY = 0.5
STAY_PROBABILITY = 0.35
START_FRAMES = 3  # of the last five
HANG_S = 0.5
PRE_ROLL_S = 0.3
TAIL_S = 0.25
LEAST_SPEECH_S = 0.25
LONGEST_S = 14.0  # a schedule of two steps takes ten
BEFORE_S = 4.0
SETTLE_S = 2.0
GAP_S = 0.02
BLOCK = RATE_HZ // 50  # of a whole recording, as blocks come live


@dataclass(frozen=True)
class Utterance:
    """One piece of speech.

    foa: (frames, 4) AmbiX at 24 kHz, with a little before and after it; t_ns: its first sample.
    voiced: (frames,) bool, where speech was detected. before: (frames, 4), what was heard right before.
    ended_ns: time of the last voiced sample; decided_ns: when the cutter knew. cut_short: it still went on.
    """

    foa: F32
    t_ns: int
    voiced: NDArray[np.bool_]
    before: F32
    ended_ns: int
    decided_ns: int
    cut_short: bool = False

    @property
    def duration_s(self) -> float:
        return len(self.foa) / RATE_HZ


def utterances_in(foa: F32, times_ns: Callable[[NDArray[np.int64]], NDArray[np.int64]]) -> list[Utterance]:
    """What is said in a whole recording. foa: (frames, 4) at 24 kHz; times_ns: frames -> their times."""
    cutter = UtteranceCutter()
    starts = np.arange(0, len(foa), BLOCK)
    heard: list[Utterance] = []
    for first, t_ns in zip(starts, times_ns(starts), strict=True):
        heard += cutter.push(np.ascontiguousarray(foa[first : first + BLOCK]), int(t_ns))
    return [*heard, *cutter.flush()]


class UtteranceCutter:
    """Push consecutive FOA blocks at 24 kHz with their time; get utterances as they end.

    A gap in time (more than 20 ms) ends what is going on and starts afresh: nothing is glued together.
    """

    def __init__(self, detector: Callable[[], VoiceDetector] = SileroVoice) -> None:
        self._make = detector
        self._longest = round((LONGEST_S + BEFORE_S + 2.0) * RATE_HZ)
        self._restart(0)

    def _restart(self, t_ns: int) -> None:
        from dsp import ActivityDetector

        self._detector = self._make()
        self._activity = ActivityDetector(RATE_HZ)
        self._sound: deque[F32] = deque()
        self._first = 0  # frame number of the first sample kept
        self._next = 0  # frame number after the last sample pushed
        self._t0_ns = t_ns
        self._skipped = 0  # frames that the speech detector was not given
        # At the beginning the activity detector does not know the floor yet: listen to everything.
        self._active_until = round(SETTLE_S * RATE_HZ)
        self._last: deque[tuple[int, bool]] = deque(maxlen=5)
        self._voiced: list[tuple[int, int]] = []
        self._start: int | None = None
        self._last_voice = 0

    def push(self, foa: F32, t_ns: int) -> list[Utterance]:
        """foa: (frames, 4) float32, first sample at `t_ns`. Returns the utterances that are complete."""
        x = np.asarray(foa, np.float32)
        if x.ndim != 2 or x.shape[1] != 4:
            raise InputError(f"expected AmbiX blocks (frames, 4), got {x.shape}")
        out: list[Utterance] = []
        if self._next == 0:
            self._t0_ns = t_ns
        elif abs(t_ns - self._time_ns(self._next)) > GAP_S * 1e9:
            out += self._finish(cut_short=True)
            self._restart(t_ns)
        self._keep(x)
        self._next += len(x)
        for hop in self._activity.push(x):
            if hop.active:
                self._active_until = max(self._active_until, round((hop.t_s + 0.6) * RATE_HZ))
        if self._next - len(x) <= self._active_until or self._start is not None:
            for voice in self._detector.push(np.ascontiguousarray(x[:, 0])):
                out += self._step(voice.t_s, voice.duration_s, voice.probability)
        else:
            self._skipped += len(x)
            self._last.clear()
        return out

    @property
    def speaking_since_ns(self) -> int | None:
        """When the speech began that goes on now (or has just stopped); None while nobody speaks."""
        return None if self._start is None else self._time_ns(self._start)

    def flush(self) -> list[Utterance]:
        """The stream is over: what was still being said."""
        return self._finish(cut_short=True)

    def _step(self, t_s: float, duration_s: float, probability: float) -> list[Utterance]:
        begin = max(0, round(t_s * RATE_HZ) + self._skipped)
        end = begin + round(duration_s * RATE_HZ)
        limit = STAY_PROBABILITY if self._start is not None else START_PROBABILITY
        speech = probability >= limit
        self._last.append((begin, speech))
        if self._start is None:
            voiced = [at for at, yes in self._last if yes]
            if len(voiced) < START_FRAMES:
                return []
            self._start = voiced[0]
            self._voiced = [(at, at + end - begin) for at in voiced]
            self._last_voice = end
            return []
        if speech:
            self._voiced.append((begin, end))
            self._last_voice = end
        if end - self._start > LONGEST_S * RATE_HZ:
            return self._finish(cut_short=True)
        if end - self._last_voice >= HANG_S * RATE_HZ:
            return self._finish(cut_short=False)
        return []

    def _finish(self, cut_short: bool) -> list[Utterance]:
        if self._start is None:
            return []
        start, voiced, ended = self._start, self._voiced, self._last_voice
        self._start, self._voiced = None, []
        self._last.clear()
        if sum(b - a for a, b in voiced) < LEAST_SPEECH_S * RATE_HZ:
            return []
        first = max(self._first, start - round(PRE_ROLL_S * RATE_HZ))
        last = min(self._next, ended + round(TAIL_S * RATE_HZ))
        mask = np.zeros(last - first, bool)
        for a, b in voiced:
            mask[max(0, a - first) : max(0, b - first)] = True
        sound = np.concatenate(list(self._sound))
        begin = max(self._first, first - round(BEFORE_S * RATE_HZ))
        return [
            Utterance(
                foa=sound[first - self._first : last - self._first].copy(),
                t_ns=self._time_ns(first),
                voiced=mask,
                before=sound[begin - self._first : first - self._first].copy(),
                ended_ns=self._time_ns(ended),
                decided_ns=self._time_ns(self._next),
                cut_short=cut_short,
            )
        ]

    def _keep(self, x: F32) -> None:
        self._sound.append(x)
        kept = self._next + len(x) - self._first
        while kept - len(self._sound[0]) >= self._longest:
            gone = len(self._sound.popleft())
            self._first += gone
            kept -= gone

    def _time_ns(self, frame: int) -> int:
        return self._t0_ns + round(frame * 1e9 / RATE_HZ)
