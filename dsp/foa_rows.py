"""Ambisonic sound as the estimators take it: checked, and cut into rows of one length."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from dsp.arguments import as_array
from dsp.errors import InputError

F32 = npt.NDArray[np.float32]

ABSURD = 1e4  # +80 dBFS: no sound, and it would hide all that follows


def checked_foa(foa: npt.ArrayLike, what: str = "direction of arrival") -> F32:
    """foa as contiguous float32 (frames, 4). what: who needs it, for the message.

    Raises InputError for a wrong shape, integers, samples that are not finite or far beyond full scale.
    """
    x = as_array(foa)
    if x.ndim != 2 or x.shape[1] != 4:
        raise InputError(
            f"{what} needs AmbiX audio of shape (frames, 4), got {x.shape}; "
            "transpose it or convert it with dsp.convert"
        )
    if not np.issubdtype(x.dtype, np.floating):
        raise InputError(f"expected float samples with full scale 1.0, got {x.dtype}; divide by full scale")
    x = np.ascontiguousarray(x, np.float32)
    if not np.isfinite(x).all():
        bad = int(np.argmin(np.isfinite(x).all(axis=1)))
        raise InputError(f"sample {bad} is not a finite number; repair or cut the recording there")
    if len(x) and float(np.abs(x).max()) > ABSURD:
        bad = int(np.argmax(np.abs(x).max(axis=1)))
        raise InputError(
            f"sample {bad} is {float(np.abs(x[bad]).max()):.3g}, far beyond full scale (1.0); read the file"
            " with the right scale, or cut the recording there"
        )
    return x


class RowBuffer:
    """Cuts blocks of any length into rows of `size` frames, so that no result depends on the blocks."""

    def __init__(self, size: int) -> None:
        self._row = np.zeros((size, 4), np.float32)
        self._taken = 0
        self.filled = 0  # frames of the row that is being filled

    def push(self, x: F32) -> Iterator[None]:
        """Fill in x (n, 4); yields whenever the row is full and must be taken."""
        row = self._row
        start = 0
        while start < len(x):
            n = min(len(row) - self.filled, len(x) - start)
            row[self.filled : self.filled + n] = x[start : start + n]
            self.filled += n
            start += n
            if self.filled == len(row):
                yield

    def take(self) -> tuple[int, F32, int]:
        """(number of the row, the row filled up with zeros, frames that are sound). It is reused."""
        filled, number = self.filled, self._taken
        self._row[filled:] = 0.0
        self.filled = 0
        self._taken += 1
        return number, self._row, filled


def clip_rows(x: F32, size: int, least: int = 1) -> Iterator[F32]:
    """The rows of a clip (n, 4); the last one is filled up with zeros, or left out below `least` frames."""
    for start in range(0, len(x) - least + 1, size):
        row = x[start : start + size]
        if len(row) < size:
            row = np.concatenate([row, np.zeros((size - len(row), 4), np.float32)])
        yield row


def level_dbfs(w: F32) -> float:
    """Mean power of (n,) samples in dB, in double precision; -200 for silence."""
    samples = w.astype(np.float64)
    return float(10.0 * np.log10(max(float(np.dot(samples, samples)) / len(samples), 1e-20)))
