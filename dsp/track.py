"""Tracks of sound sources from first-order ambisonics, streaming or offline: who speaks where, and who goes
on.

A track begins where sure onsets agree in direction (`dsp.direct_sound`), is confirmed by further ones,
follows its talker with a Kalman filter on the sphere (`dsp.track_step`), coasts while the talker pauses,
and ends some time after the last sound. Identity is place: first-order ambisonics tells talkers apart by
direction only.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from dsp import histogram, track_step
from dsp.arguments import sample_rate
from dsp.direct_sound import STEADY_SHARE, DirectSoundVotes
from dsp.doa import SILENCE_DBFS
from dsp.errors import InputError
from dsp.foa_rows import RowBuffer, checked_foa
from dsp.track_step import AGE, EVIDENCE, ID, P00, SILENT, STEP_S, VX, Settings

F32 = npt.NDArray[np.float32]
F64 = npt.NDArray[np.float64]

Sounds = Literal["speech", "all"]
COASTING_ROWS = 3  # without a sure onset
EVIDENCE_SCALE = 3.0
# Uncertainty over the filter's own, in degrees: u = a p^b by maximum likelihood over 19 minutes of tracks
# in the rooms of SPEECH, scaled so that 68 % of the errors lie within.
UNCERTAINTY_FIT = (2.47, 0.535)


def _squared(degrees: float) -> float:
    return float(np.radians(degrees) ** 2)


def _cosine(degrees: float) -> float:
    return float(np.cos(np.radians(degrees)))


def _per_row(fade_per_s: float) -> float:
    return float(np.exp(-fade_per_s * STEP_S))


# Chosen on simulated rooms of seeds 100 to 999 of `bench.track_scenes` (RT60 0.3 to 0.8 s, SNR 10 and 20
# dB; one talker, two in turn, two at once, walking; fans and hums).
SPEECH = Settings(
    fade=_per_row(0.1),
    silent_fade=_per_row(2.0),
    walk=_squared(12.0),
    drift=_squared(0.2),
    spread=_squared(15.0),
    gate=_squared(8.0),
    uniform=0.3,
    least_part=0.05,
    vote_noise=_squared(22.0),
    row_noise=_squared(4.0),
    least_update=0.2,
    memory=0.7,
    birth_spread=_squared(17.0),
    birth=1.0,
    birth_share=0.35,
    start_variance=_squared(8.0),
    start_rate_variance=_squared(10.0),
    hit=0.1,
    hit_share=0.2,
    evidence_fade=0.87,
    confirm=3.0,
    confirm_hits=2.0,
    dip=0.6,
    ghost=0.15,
    tentative_rows=12.0,
    hold_rows=20.0,
    merge=_cosine(25.0),
    merge_rate=_squared(10.0),
    merge_rows=4.0,
    remember_rows=100.0,
    remember_within=_cosine(20.0),
)


@dataclass(frozen=True, slots=True)
class Track:
    """One sound source during one 100 ms window.

    id: 1, 2, ..., never given to another place; a source that falls silent and returns to its place within
    `remember_s` keeps it. azimuth_rate_deg_s, elevation_rate_deg_s: how it moves. uncertainty_deg: 68 % of
    the errors are expected within it. confidence: 0..1, that there is a talker at all. age_s: since the
    track's first sound. coasting: it is silent, and the place is a prediction.
    """

    id: int
    azimuth_deg: float
    elevation_deg: float
    azimuth_rate_deg_s: float
    elevation_rate_deg_s: float
    uncertainty_deg: float
    confidence: float
    age_s: float
    coasting: bool


@dataclass(frozen=True, slots=True)
class TrackFrame:
    """All tracks at the end of the 100 ms window that starts `t_s` after the first sample pushed, oldest
    first."""

    t_s: float
    tracks: tuple[Track, ...]


class Tracker:
    """Streaming tracks; the result does not depend on how the samples are cut into blocks.

    fs: 8 to 192 kHz. sounds: "speech" follows what has onsets again and again, as speech has, and not a
    steady fan, a hum or the quiet; "all" follows steady sounds too. hold_s: a track ends so long after its
    last sound. remember_s: for so long after that, a new track at the same place gets its id again. Raises
    InputError for values outside of these, and from `push` for a wrong shape, integer samples, or samples
    not finite.
    """

    def __init__(
        self, fs: int = 24000, sounds: Sounds = "speech", hold_s: float = 2.0, remember_s: float = 10.0
    ) -> None:
        if sounds not in ("speech", "all"):
            raise InputError(f"sounds must be 'speech' or 'all', not {sounds!r}")
        for name, value in (("hold_s", hold_s), ("remember_s", remember_s)):
            if not 0 <= value <= 3600:
                raise InputError(f"{name} must be from 0 to 3600 s, not {value!r}")
        self.fs = sample_rate(fs, 8000, 192_000)
        self.sounds = sounds
        settings = SPEECH._replace(hold_rows=10.0 * hold_s, remember_rows=10.0 * remember_s)
        self._settings = settings._replace(dip=np.inf) if sounds == "all" else settings
        self._cells, self._sure, self._births = histogram.empty(), histogram.empty(), histogram.empty()
        self._tracks = np.zeros((track_step.MAX_TRACKS, track_step.COLUMNS))
        self._remembered = np.zeros((track_step.MAX_REMEMBERED, 5))
        self._clock = np.array([0.0, 1.0, 0.0])
        self.restart()

    def restart(self) -> None:
        """Go on after a gap: nothing of the sound before it is used, `t_s` counts from here; tracks coast and
        keep their ids."""
        self._votes = DirectSoundVotes(self.fs, STEADY_SHARE if self.sounds == "all" else 0.0)
        self._buffer = RowBuffer(self._votes.plan.row)

    def push(self, block: npt.ArrayLike) -> list[TrackFrame]:
        """block: (n, 4) AmbiX, float, any n. Returns the windows that this block completes."""
        return [self._finish_row() for _ in self._buffer.push(checked_foa(block))]

    def flush(self) -> list[TrackFrame]:
        """The last window, when samples are left that do not fill one: its sound moves no track."""
        return [self._finish_row()] if self._buffer.filled else []

    def _finish_row(self) -> TrackFrame:
        cells, sure = self._cells, self._sure
        number, row, filled = self._buffer.take()
        w = row[:, 0]
        heard = filled == len(row) and float(np.dot(w, w)) > len(w) * 10 ** (SILENCE_DBFS / 10)
        t_s = number * len(row) / self.fs
        cells[:] = 0.0
        sure[:] = 0.0
        self._votes.add_row(row, cells, sure)
        if not heard:
            cells[:] = 0.0
            sure[:] = 0.0
        return TrackFrame(t_s, self._step(cells, cells if self.sounds == "all" else sure))

    def _step(self, cells: F32, sure: F32) -> tuple[Track, ...]:
        count = track_step.advance(
            cells,
            sure,
            self._votes.powers,
            self._births,
            self._tracks,
            self._remembered,
            self._clock,
            self._settings,
        )
        return tuple(_track(t) for t in self._tracks[:count] if t[ID] > 0)


def _track(t: F64) -> Track:
    row = t.tolist()
    x, y, z = row[:3]
    vx, vy, vz = row[VX : VX + 3]
    level = max(x * x + y * y, 1e-9)
    azimuth = math.degrees(math.atan2(y, x))
    return Track(
        int(row[ID]),
        azimuth if azimuth < 180.0 else -180.0,
        math.degrees(math.atan2(z, math.sqrt(level))),
        math.degrees((x * vy - y * vx) / level),
        math.degrees(vz / math.sqrt(level)),
        _uncertainty_deg(row[P00]),
        1.0 - math.exp(-row[EVIDENCE] / EVIDENCE_SCALE),
        STEP_S * row[AGE],
        row[SILENT] >= COASTING_ROWS,
    )


def _uncertainty_deg(variance: float) -> float:
    """From the filter's own variance (rad^2), which does not know of reflections that pull for seconds."""
    scale, power = UNCERTAINTY_FIT
    return min(90.0, scale * math.degrees(math.sqrt(variance)) ** power)


def track_sources(
    foa: npt.ArrayLike, fs: int, sounds: Sounds = "speech", hold_s: float = 2.0, remember_s: float = 10.0
) -> list[TrackFrame]:
    """Tracks of a whole clip, one row per 100 ms; equal to `Tracker` fed with the same samples.

    foa: AmbiX (frames, 4) float, at 8 to 192 kHz. Options and errors as of `Tracker`.
    """
    tracker = Tracker(fs, sounds, hold_s, remember_s)
    return tracker.push(foa) + tracker.flush()


def warm() -> None:
    """Compile (or load from the cache) every kernel, so that the first real block is not late."""
    noise = np.random.default_rng(0).standard_normal((24000, 4)).astype(np.float32)
    track_sources(noise, 24000)
    track_sources(noise, 24000, sounds="all")
