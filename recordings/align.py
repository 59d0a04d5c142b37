"""Where a recording lies against another one of the same event, and how much its clock differs: by content.

An SD-card take and a camera file with its own sound, or two recorders, share what was heard and nothing
else: other microphones, levels and noise, another place in the room, perhaps a lossy codec.

1. recordings.align_coarse: places where what happens when agrees, to some milliseconds.
2. recordings.align_fine: windows of some seconds along the overlap of each place, read on demand; the line
   of delay and drift that their waves share.
3. The verdict: "aligned" needs more agreement than chance explains and no other place nearly as good.

Sign: an event at t_other in `other` (s from its first frame, by its nominal rate) is at t_reference =
offset_s + t_other / (1 + drift_ppm * 1e-6) in `reference`. A positive offset: `other` starts later. A
positive drift: the clock of `other` is fast, as in recordings.clock_fit. Sound takes 2.9 ms per metre: an
offset by content holds for the place of the sound, and for another place it differs by up to the distance
between the microphones over 343 m/s.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dsp.errors import InputError
from recordings.align_coarse import MIN_OVERLAP_S, Array, Sound, candidates, flux, mono
from recordings.align_fine import SAME_S, Fit, compare

Verdict = Literal["aligned", "ambiguous", "failed"]

_HIGH_HZ = 7000.0
_AMBIGUOUS = 0.75  # a second place this good, by rises and by windows, leaves it open
_SURE = 12.0  # coarse score from which no chance explains a place; unrelated recordings stay below 8
_HINT = 6.0  # least coarse score of a place that only its windows prove
_CHANCE = 1e-6
_COARSE_SIGMA_S = 0.006  # of a place found by rises alone
_CANDIDATES = 4


@dataclass(frozen=True)
class Alignment:
    """The answer; see the module for signs. Numbers are None unless the verdict is "aligned".

    offset_s:         time in `reference` of the first frame of `other`.
    drift_ppm:        how fast the clock of `other` runs against that of `reference`.
    offset_sigma_s, drift_sigma_ppm: one standard deviation, from the scatter of the windows about the line.
    runner_up_ratio:  score of the next best place over that of the best, 0..1; None when there is no place.
    windows, windows_used: how many were compared, and how many lie on the line.
    overlap_s:        how long both recordings run together at the best place.
    text:             the answer in words.
    """

    verdict: Verdict
    text: str
    offset_s: float | None = None
    drift_ppm: float | None = None
    offset_sigma_s: float | None = None
    drift_sigma_ppm: float | None = None
    runner_up_ratio: float | None = None
    windows: int = 0
    windows_used: int = 0
    overlap_s: float = 0.0

    def to_dict(self) -> dict[str, Any]:
        """Plain data for --json."""
        return asdict(self)

    def reference_time(self, t_other: ArrayLike) -> Array:
        """Times (s) in `reference` of times in `other`. Raises InputError when the verdict is not aligned."""
        if self.offset_s is None or self.drift_ppm is None:
            raise InputError(f"the recordings are not aligned: {self.text}")
        return self.offset_s + np.asarray(t_other, np.float64) / (1.0 + self.drift_ppm * 1e-6)


class _Held:
    """An array as a Sound."""

    def __init__(self, x: ArrayLike, rate: int) -> None:
        self._x = np.asarray(x, np.float32)
        if self._x.ndim not in (1, 2) or not len(self._x):
            raise InputError(f"a recording must be (frames,) or (frames, channels), not {self._x.shape}")
        self.rate, self.frames = rate, len(self._x)

    def read(self, start: int = 0, count: int | None = None) -> NDArray[np.float32]:
        return self._x[start : None if count is None else start + count]


def align_recordings(
    reference: Sound | ArrayLike,
    other: Sound | ArrayLike,
    fs: int | None = None,
    fs_other: int | None = None,
    *,
    max_drift_ppm: float = 250.0,
    advance: Callable[[float], None] = lambda share: None,
) -> Alignment:
    """Find `other` in `reference` by content.

    reference, other: arrays (frames,) or (frames, channels) with rates fs and fs_other (default: fs), or
    AudioFiles, which are read piece by piece. Of four channels the first is used (W of ambisonics), else the
    mean. max_drift_ppm: what the clocks may differ by, up to 1000. advance: called with shares of the work.
    Never raises for sound that does not fit: the verdict says so. Raises InputError for wrong arguments.
    """
    if not 0 <= max_drift_ppm <= 1000:
        raise InputError(f"max_drift_ppm must be 0 to 1000, not {max_drift_ppm!r}")
    a = _as_sound(reference, fs, "reference")
    b = _as_sound(other, fs_other or fs, "other")
    for sound in (a, b):
        if sound.frames < MIN_OVERLAP_S * sound.rate:
            return Alignment("failed", f"a recording is shorter than {MIN_OVERLAP_S:g} s")
    drift = max_drift_ppm * 1e-6
    top_hz = min(_HIGH_HZ, 0.45 * a.rate, 0.45 * b.rate)
    flux_a, flux_b = flux(a, top_hz), flux(b, top_hz)
    advance(0.4)
    found = candidates(flux_a, flux_b, drift)
    advance(0.2)
    fits = []
    for place in found[:_CANDIDATES]:
        fits.append(compare(a, b, flux_a, flux_b, place, drift, top_hz))
        advance(0.4 / len(found[:_CANDIDATES]))
    return _decide(fits, a, b, drift)


def _as_sound(x: Any, fs: int | None, name: str) -> Sound:
    if hasattr(x, "read") and hasattr(x, "rate"):
        return x  # type: ignore[no-any-return]
    if fs is None or not 2000 <= fs <= 400000:
        raise InputError(f"{name} is an array and needs its rate in Hz (2000 to 400000), not {fs!r}")
    return _Held(x, fs)


def _decide(fits: list[Fit], a: Sound, b: Sound, drift: float) -> Alignment:
    if not fits:
        return _not_found(None, a, b)
    best = max(fits, key=_quality)
    agreed = best.heard >= max(4, 0.4 * best.windows)
    fine = best.line if best.chance <= _CHANCE and agreed else None
    if not (best.place.score >= _SURE or (fine and best.place.score >= _HINT)):
        return _not_found(best, a, b)
    ratio = max((_ratio(fit, best) for fit in fits if not _same_place(fit, best)), default=0.0)
    numbers: dict[str, Any] = {
        "runner_up_ratio": round(ratio, 4),
        "windows": best.windows,
        "windows_used": best.heard if fine else 0,
        "overlap_s": round(best.overlap_s, 3),
    }
    if ratio > _AMBIGUOUS:
        text = f"another place fits almost as well (ratio {ratio:.2f}): the sound repeats itself"
        return Alignment("ambiguous", text, **numbers)
    line = fine or best.place
    level_sigma, slope_sigma = best.level_sigma_s, best.slope_sigma
    if fine is None:
        level_sigma, slope_sigma = _COARSE_SIGMA_S, min(best.place.slope_range, drift) / math.sqrt(3)
    # t_reference = t + level + slope * (t - at), so that it is offset + (1 + slope) * t.
    offset = line.delay_s - line.slope * line.at_s
    drift_ppm = (1.0 / (1.0 + line.slope) - 1.0) * 1e6
    sigma = math.hypot(level_sigma, slope_sigma * line.at_s)
    text = (
        f"the second starts {abs(offset):.4f} s {'after' if offset >= 0 else 'before'} the first"
        f" (1 sigma {sigma * 1e3:.2f} ms); its clock runs"
        f" {drift_ppm:+.1f} ppm fast (1 sigma {slope_sigma * 1e6:.1f})"
    )
    if fine is None:
        text += "; found by what happens when, not by the waves: good to some milliseconds only"
    return Alignment("aligned", text, offset, drift_ppm, sigma, slope_sigma * 1e6, **numbers)


def _quality(fit: Fit) -> float:
    return fit.place.score * fit.height


def _ratio(fit: Fit, best: Fit) -> float:
    """How good another place is: by rises or by windows, whichever tells it better from the best."""
    coarse = fit.place.score / best.place.score
    fine = max(fit.height - 1.0, 0.0) / max(best.height - 1.0, 1e-9)
    return min(coarse, fine, 1.0) if best.chance <= _CHANCE else min(coarse, 1.0)


def _same_place(fit: Fit, best: Fit) -> bool:
    if fit is best:
        return True
    apart = abs(float(fit.place.delay(best.place.at_s)) - best.place.delay_s)
    lines = fit.line and best.line and fit.chance <= _CHANCE
    if lines and fit.line and best.line:
        apart = abs(float(fit.line.delay(best.line.at_s)) - best.line.delay_s)
    return apart <= (SAME_S if lines else 0.1)


def _not_found(best: Fit | None, a: Sound, b: Sound) -> Alignment:
    windows = best.windows if best else 0
    tone = _shared_tone(a, b)
    if tone is not None:
        text = "both hold the same steady tones, which fit at every period, and nothing else that they share"
        return Alignment("ambiguous", text, runner_up_ratio=round(tone, 4), windows=windows)
    text = "no place was found where both hold the same sound; do they overlap in time?"
    return Alignment("failed", text, windows=windows)


def _shared_tone(a: Sound, b: Sound) -> float | None:
    """Ratio of the second to the highest peak of the plain correlation of the loudest seconds, when that is
    high and repeats: steady tones. None for anything else."""
    from scipy.signal import correlate

    from dsp.resample import resample

    pieces: list[Array] = []
    for sound, seconds in ((a, 8.0), (b, 2.0)):
        count = min(round(seconds * sound.rate), sound.frames)
        piece = mono(sound, (sound.frames - count) // 2, count)[:, None]
        piece = piece if sound.rate == 4000 else np.asarray(resample(piece, sound.rate, 4000))
        pieces.append(piece[:, 0].astype(np.float64) - float(piece.mean()))
    x, y = pieces
    if len(x) <= len(y):
        return None
    energy = np.convolve(x**2, np.ones(len(y)), "valid")
    size = np.sqrt(np.maximum(energy, 1e-20) * max(float(y @ y), 1e-20))
    height = correlate(x, y, "valid") / size
    top = np.sort(height[1:-1][(height[1:-1] > height[:-2]) & (height[1:-1] >= height[2:])])[::-1]
    if len(top) < 2 or top[0] < 0.35:
        return None
    ratio = float(top[1] / top[0])
    return ratio if ratio > _AMBIGUOUS else None
