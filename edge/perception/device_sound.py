"""Which device sounds, as two tools: where the sound comes from that goes on while somebody speaks, and what
kind of sound it is.

No trained tagger of device sounds comes in a package, so the kind is told by what defines it: beeps have
silences between pure tones, music is pure tones without, a hum is steady with tones over noise, air that
blows is noise without, a drum that spins beats 8 to 40 times a second.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edge.perception.beam import aimed_at
from edge.perception.direction import RECENT_S, Direction, device_direction
from edge.perception.tools import Finding, Scene, Stopwatch
from edge.perception.utterance import RATE_HZ

F32 = NDArray[np.float32]

KIND_S = 2.2  # of sound before the speech that tells the kind: a device's beeps come about every two seconds
LEAST_S = 1.0
FRAME, HOP = 1024, 240
BAND_HZ = (150.0, 6000.0)
SILENT = 10**-1.2  # of the loud frames' power: below is a silence between beeps
PEAKS = 6  # tones that can make up a sound
BEATS_HZ = (8.0, 40.0)
ENVELOPE_HZ = 400
# (where it is even, width) of each sign: from clear cases of all kinds, measured in rooms (docs/hearing.md).
SILENCES, PURE, BLOWN, BEATS = (0.22, 0.04), (0.84, 0.03), (0.5, 0.03), (6.5, 0.5)


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
    return round(min(len(scene.utterance.before) / RATE_HZ, RECENT_S), 2)


@dataclass(frozen=True, slots=True)
class SoundKinds:
    """How likely the sound is of each kind (sum 1), and the signs that say so."""

    odds: dict[str, float]
    signs: dict[str, float]

    @property
    def best(self) -> str:
        """The likeliest kind: hum, beep, music, spin or blow."""
        return max(self.odds, key=lambda kind: self.odds[kind])

    def to_dict(self) -> dict[str, Any]:
        """Plain data, rounded, for traces."""
        return {
            "best": self.best,
            "odds": {kind: round(value, 3) for kind, value in self.odds.items()},
            "signs": {name: round(value, 3) for name, value in self.signs.items()},
        }


class SoundKindTool:
    """What kind of sound goes on, as the beam towards it hears it. A voice (of a television) is none of the
    kinds: speech is what an utterance is cut from."""

    name = "sound_kind"

    def __call__(self, scene: Scene) -> Finding[SoundKinds]:
        """None when nothing goes on, or too little was heard before the speech."""
        clock = Stopwatch()
        before, yaw = scene.utterance.before, scene.room.microphone_yaw_deg
        provenance = {"method": "silences, purity, beats", "heard_s": _heard_s(scene)}
        found = scene.shared("device direction", lambda: device_direction(before, yaw))
        if found is None or len(before) < LEAST_S * RATE_HZ:
            why = "no sound that goes on" if found is None else "too little was heard before"
            return Finding(self.name, None, 0.0, provenance, clock.seconds, why)
        recent = np.ascontiguousarray(before[-round(KIND_S * RATE_HZ) :])
        kinds = sound_kinds(aimed_at(recent, found, yaw))
        return Finding(self.name, kinds, kinds.odds[kinds.best], provenance, clock.seconds)


def sound_kinds(mono: F32) -> SoundKinds:
    """mono (frames,) at 24 kHz, a second or more of one sound -> its kinds."""
    frames = np.lib.stride_tricks.sliding_window_view(mono, FRAME)[::HOP] * np.hanning(FRAME)
    hz = np.fft.rfftfreq(FRAME, 1 / RATE_HZ)
    inside = (hz >= BAND_HZ[0]) & (hz <= BAND_HZ[1])
    power = np.abs(np.fft.rfft(frames, axis=1)[:, inside]) ** 2 + 1e-18
    level = power.sum(axis=1)
    loud = level > SILENT * np.percentile(level, 90)
    silences, pure, beats = 1 - float(loud.mean()), _purity(power[loud]), _beats(mono)
    tones, gaps, beating = _sign(pure, PURE), _sign(silences, SILENCES), _sign(beats, BEATS)
    steady = (1 - tones) * (1 - beating)
    humming = _sign(pure, BLOWN)
    odds = {
        "beep": tones * gaps,
        "music": tones * (1 - gaps),
        "spin": (1 - tones) * beating,
        "hum": steady * humming,
        "blow": steady * (1 - humming),
    }
    return SoundKinds(odds, {"silences": silences, "purity": pure, "beats": beats})


def _purity(power: NDArray[np.float64]) -> float:
    """Median share of a frame's power that lies in its strongest tones; power (frames, bins)."""
    rest = power.copy()
    rows = np.arange(len(rest))
    for _ in range(PEAKS):
        at = rest.argmax(axis=1)
        for step in range(-2, 3):  # the main lobe of the Hann window
            rest[rows, np.clip(at + step, 0, rest.shape[1] - 1)] = 0
    return float(np.median(1 - rest.sum(axis=1) / power.sum(axis=1)))


def _beats(mono: F32) -> float:
    """The strongest line of the envelope's spectrum between 8 and 40 Hz over the median there; the envelope
    is that of 1 to 5 kHz."""
    from scipy.signal import butter, sosfilt

    band = sosfilt(butter(2, (1000.0, 5000.0), "bandpass", fs=RATE_HZ, output="sos"), mono)
    step = RATE_HZ // ENVELOPE_HZ
    envelope = np.sqrt(np.mean(np.square(band[: len(band) // step * step].reshape(-1, step)), axis=1))
    envelope = envelope[ENVELOPE_HZ // 10 :]  # the filter has settled
    lines = np.abs(np.fft.rfft((envelope - envelope.mean()) * np.hanning(len(envelope))))
    hz = np.fft.rfftfreq(len(envelope), 1 / ENVELOPE_HZ)
    beating = lines[(hz >= BEATS_HZ[0]) & (hz <= BEATS_HZ[1])]
    return float(beating.max() / max(float(np.median(beating)), 1e-12))


def _sign(value: float, even: tuple[float, float]) -> float:
    return float(1 / (1 + np.exp(-np.clip((value - even[0]) / even[1], -30, 30))))
