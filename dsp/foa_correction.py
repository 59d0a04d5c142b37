"""A measured correction of a first-order microphone: channels as recorded in, right AmbiX out.

    out = matrix @ (each channel of `source`, early by its delay)

Whatever is wrong with wiring, capsules or encoding and can be put right, is in these two: gains, signs,
order, format, a mirror or a turn in the matrix, a late channel or capsule in the delays. `hearth calibrate
capsules` measures them. A correction holds for one format of the recording (`source`) and gives AmbiX, so it
takes the place of `dsp.convert(x, source=..., target="ambix")`. It must be applied once: to the recorded
channels, never to what it gave.

Delays that are no whole number of frames are windowed sincs of 49 taps (Laakso et al., "Splitting the unit
delay", IEEE Signal Processing Magazine 13, 1996): flat within 0.1 dB to 0.45 of the rate.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import ArrayLike, NDArray

from dsp.ambisonics import CHANNEL_NAMES, FORMATS, Array, Floats, _frames, conversion_matrix
from dsp.arguments import sample_rate
from dsp.errors import InputError

MAX_DELAY_S = 0.02
MAX_GAIN_DB = 40.0  # against the plain conversion; a capsule that is farther off is broken
_HALF = 24
_BETA = 6.0
_ROWS = 1024
_WHOLE = 1e-6  # frames: nearer to a whole number than this needs no filter


def _no_delay() -> Floats:
    return np.zeros(4)


@dataclass(frozen=True, eq=False)
class FoaCorrection:
    """source: the format of the channels it is for, one of dsp.FORMATS. matrix: (4, 4) from them to AmbiX.
    delays_s: (4,) seconds by which each channel is late. before: (4, 4) from what is pushed to the channels
    of `source`, None for those themselves (see `for_ambix`). Raises InputError for what fits not together.
    """

    source: str = "ambix"
    matrix: Floats = field(default_factory=lambda: np.eye(4))
    delays_s: Floats = field(default_factory=_no_delay)
    before: Floats | None = None

    def __post_init__(self) -> None:
        if self.source not in FORMATS:
            raise InputError(f"unknown format {self.source!r}; one of {', '.join(FORMATS)}")
        for name, shape in (("matrix", (4, 4)), ("delays_s", (4,)), ("before", (4, 4))):
            value = getattr(self, name)
            if value is None:
                continue
            try:
                array = np.array(value, np.float64)
            except (TypeError, ValueError):
                raise InputError(
                    f"{name} of a correction must be numbers {shape}, not {value!r:.80}"
                ) from None
            if array.shape != shape:
                raise InputError(f"{name} of a correction must be numbers {shape}, not {array.shape}")
            if not np.isfinite(array).all():
                raise InputError(
                    f"{name} of a correction must be finite numbers, got {array.tolist()!r:.200}"
                )
            array.flags.writeable = False
            object.__setattr__(self, name, array)
        if np.linalg.cond(self.matrix) > 1e4:
            raise InputError("the matrix of a correction loses a channel: it cannot be inverted")
        if self.before is None:
            # What it does to AmbiX that was converted plainly: largest and smallest gain in any direction.
            gains = np.linalg.svd(self.matrix @ conversion_matrix("ambix", self.source), compute_uv=False)
            off_db = float(20 * np.abs(np.log10(gains[[0, -1]])).max())
            if off_db > MAX_GAIN_DB:
                raise InputError(
                    f"the matrix of a correction changes the level by {off_db:.0f} dB, more than"
                    f" {MAX_GAIN_DB:g} dB; calibrate again"
                )
        if np.abs(self.delays_s).max() > MAX_DELAY_S:
            raise InputError(f"delays of a correction are up to {MAX_DELAY_S} s, got {self.delays_s}")

    @property
    def channels(self) -> tuple[str, ...]:
        """Names of the channels it is for, in their order."""
        return CHANNEL_NAMES[self.source]

    @property
    def is_identity(self) -> bool:
        """AmbiX in, the same samples out."""
        return (
            self.source == "ambix"
            and self.before is None
            and not self.delays_s.any()
            and bool(np.array_equal(self.matrix, np.eye(4)))
        )

    @property
    def key(self) -> str:
        """16 hexadecimal digits that name this correction, to note what a file was corrected by."""
        parts = [self.source.encode(), self.matrix.tobytes(), self.delays_s.tobytes()]
        if self.before is not None:
            parts.append(self.before.tobytes())
        return hashlib.sha256(b"|".join(parts)).hexdigest()[:16]

    def for_ambix(self) -> FoaCorrection:
        """The same correction for sound that `dsp.convert(source=..., target="ambix")` has made already."""
        if self.source == "ambix":
            return self
        back = conversion_matrix("ambix", self.source)
        if not self.delays_s.any():
            return FoaCorrection("ambix", self.matrix @ back)
        return FoaCorrection("ambix", self.matrix, self.delays_s, back)

    def apply(self, x: ArrayLike, fs: int | None = None) -> Array:
        """(frames, 4) float in the channels of `source` -> (frames, 4) float32 AmbiX, aligned in time.

        fs in Hz is needed for a correction with delays. The identity gives the very same samples. Raises
        InputError for another shape, integers, or a missing rate.
        """
        stream = self.stream(fs)
        first, rest = stream.push(x), stream.flush()
        if not stream.delay_frames:
            return first
        return np.concatenate([first, rest])[stream.delay_frames :]

    def stream(self, fs: int | None = None) -> CorrectionStream:
        """The streaming form, see `CorrectionStream`."""
        return CorrectionStream(self, fs)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, as they stand in a result file of kind "capsules"."""
        return {
            "source": self.source,
            "channels": list(self.channels),
            "target": "ambix",
            "matrix": self.matrix.tolist(),
            "delays_s": self.delays_s.tolist(),
            "key": self.key,
        }


class CorrectionStream:
    """Blocks of any size in, as many frames out, late by `delay_frames` (0 without delays to correct).

    concatenate(all pushes + [flush()])[delay_frames:] equals `FoaCorrection.apply` bit for bit.
    """

    def __init__(self, correction: FoaCorrection, fs: int | None = None) -> None:
        self.correction = correction
        self._matrix = correction.matrix.astype(np.float32)
        self._before = None if correction.before is None else correction.before.astype(np.float32)
        self.delay_frames = 0
        self._line: NDArray[np.float32] | None = None
        if correction.delays_s.any():
            if fs is None:
                raise InputError("this correction shifts channels in time: give the sample rate, fs=")
            self._offsets, self._taps, past = _delay_lines(correction.delays_s * sample_rate(fs))
            self.delay_frames = past // 2
            self._line = np.zeros((4, past + _ROWS), np.float32)

    def push(self, x: ArrayLike) -> Array:
        """The next block, corrected."""
        frames = np.ascontiguousarray(_frames(x, "x"))
        if self.correction.is_identity:
            return frames.copy()
        out = np.empty_like(frames)
        if self._before is not None:
            _mix(frames, self._before, out)
            frames, out = out, np.empty_like(frames)
        if self._line is None:
            _mix(frames, self._matrix, out)
        else:
            _shift_and_mix(frames, self._line, self._offsets, self._taps, self._matrix, out)
        return out

    def flush(self) -> Array:
        """The last `delay_frames` frames; the stream is then as new."""
        tail = self.push(np.zeros((self.delay_frames, 4), np.float32))
        if self._line is not None:
            self._line[:] = 0.0
        return tail


def _delay_lines(late_frames: Floats) -> tuple[NDArray[np.int64], NDArray[np.float32], int]:
    """(first column of each channel's taps in the line, taps (4, 2 half + 1), frames of past).

    Output n of a channel that is late by d is its value at n + d; the line holds past / 2 frames on each
    side of n.
    """
    whole = np.rint(late_frames).astype(np.int64)
    reach = int(np.abs(whole).max()) + _HALF
    taps = np.zeros((4, 2 * _HALF + 1))
    k = np.arange(-_HALF, _HALF + 1)
    for c, rest in enumerate(late_frames - whole):
        if abs(rest) < _WHOLE:
            taps[c, _HALF] = 1.0
            continue
        # The window moves with the sinc.
        place = np.clip((k - rest) / (_HALF + 0.5), -1, 1)
        window = np.i0(_BETA * np.sqrt(1 - place**2)) / np.i0(_BETA)
        taps[c] = np.sinc(k - rest) * window
        taps[c] /= taps[c].sum()
    return reach + whole - _HALF, taps.astype(np.float32), 2 * reach


@njit(cache=True, nogil=True)
def _mix(x, matrix, out):  # type: ignore[no-untyped-def]
    for i in range(x.shape[0]):
        a, b, c, d = x[i, 0], x[i, 1], x[i, 2], x[i, 3]
        for o in range(4):
            out[i, o] = matrix[o, 0] * a + matrix[o, 1] * b + matrix[o, 2] * c + matrix[o, 3] * d


@njit(cache=True, nogil=True)
def _shift_and_mix(x, line, offsets, taps, matrix, out):  # type: ignore[no-untyped-def]
    """line: (4, past + rows) whose first `past` columns hold the past. Sums run over taps outside and frames
    inside, so each output is the same sum wherever a block ends."""
    rows_most = 1024
    past = line.shape[1] - rows_most
    work = np.empty((4, rows_most), np.float32)
    read = 0
    while read < x.shape[0]:
        rows = min(rows_most, x.shape[0] - read)
        for c in range(4):
            for i in range(rows):
                line[c, past + i] = x[read + i, c]
                work[c, i] = 0.0
            for k in range(taps.shape[1]):
                tap = taps[c, k]
                if tap != 0.0:
                    first = offsets[c] + k
                    for i in range(rows):
                        work[c, i] += tap * line[c, first + i]
            for i in range(past):
                line[c, i] = line[c, rows + i]
        for i in range(rows):
            for o in range(4):
                out[read + i, o] = (
                    matrix[o, 0] * work[0, i]
                    + matrix[o, 1] * work[1, i]
                    + matrix[o, 2] * work[2, i]
                    + matrix[o, 3] * work[3, i]
                )
        read += rows
