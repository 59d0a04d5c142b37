"""Flashes in pictures: how much of the light each row of each picture caught around their edges.

A picture is kept as a grid of linear light (`LightLog`), so that a part of the exposure is a part of the
value. Around each flash the grid gives, per picture and band of rows, the lit share of the exposure: 0
before it, 1 within it, between in a picture whose exposure the edge falls into. What lamps do meanwhile
(flicker, automatic exposure) is taken out with parts of the same rows that the flash does not reach.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dsp.errors import InputError

ROWS, COLUMNS = 72, 40
BAND_ROWS = 6
"""Rows of the grid in a band."""

MIN_RISE = 0.03
"""Of a cell that counts as lit, in the square root of linear light (0 to 1): about 8 grey levels."""

LONGEST_FLASH_S = 0.7
_FULL = 65535.0
Floats = NDArray[np.float64]


def _linear_table() -> NDArray[np.uint16]:
    """Grey level (0..255) -> linear light (0..65535) by the sRGB curve (IEC 61966-2-1)."""
    v = np.arange(256) / 255.0
    light = np.where(v <= 0.04045, v / 12.92, ((v + 0.055) / 1.055) ** 2.4)
    return np.asarray(np.rint(_FULL * light), np.uint16)


_LINEAR = _linear_table()


class LightLog:
    """Pictures as they come, reduced to (ROWS, COLUMNS) of mean linear light and of the clipped share.

    About 9 kB a picture: ten minutes at 30 pictures a second are 160 MB.
    """

    def __init__(self) -> None:
        self.times_ns: list[int] = []
        self.height_px = 0
        self._light: list[NDArray[np.uint16]] = []
        self._clipped: list[NDArray[np.uint8]] = []

    def add(self, t_ns: int, image: NDArray[np.uint8]) -> None:
        """A picture, (height, width) grey or (height, width, 3) BGR, uint8. Raises InputError for others."""
        import cv2

        if image.dtype != np.uint8 or image.ndim not in (2, 3):
            raise InputError(f"a picture is uint8, grey or BGR; got {image.dtype} of shape {image.shape}")
        grey = image if image.ndim == 2 else cv2.cvtColor(image, cv2.COLOR_BGR2GRAY)
        self.height_px = grey.shape[0]
        linear = cv2.LUT(grey, _LINEAR)
        self._light.append(
            np.asarray(cv2.resize(linear, (COLUMNS, ROWS), interpolation=cv2.INTER_AREA), np.uint16)
        )
        mask = np.where(grey >= 250, np.uint8(255), np.uint8(0))
        self._clipped.append(
            np.asarray(cv2.resize(mask, (COLUMNS, ROWS), interpolation=cv2.INTER_AREA), np.uint8)
        )
        self.times_ns.append(int(t_ns))

    def __len__(self) -> int:
        return len(self.times_ns)

    def light(self, first: int, last: int) -> NDArray[np.float32]:
        """Linear light 0..1 of pictures first..last-1, (n, ROWS, COLUMNS)."""
        return np.asarray(self._light[first:last], np.float32) / np.float32(_FULL)

    def clipped(self, first: int, last: int) -> NDArray[np.float32]:
        """Share of clipped pixels 0..1, (n, ROWS, COLUMNS)."""
        return np.asarray(self._clipped[first:last], np.float32) / np.float32(255)

    def forget_before(self, t_ns: int) -> None:
        """Drop what is older (a live session keeps only what it still needs)."""
        old = int(np.searchsorted(np.asarray(self.times_ns, np.int64), t_ns))
        del self.times_ns[:old], self._light[:old], self._clipped[:old]


@dataclass(frozen=True)
class Edge:
    """One edge of a flash. frames: (n,) index of the pictures around it; share: (n, bands) lit share of the
    exposure, rising from 0 to 1 (an edge of the light going off is turned round: the share that is dark);
    noise: (bands,) standard deviation of a share."""

    frames: NDArray[np.intp]
    share: Floats
    noise: Floats


@dataclass(frozen=True)
class Flash:
    """A flash: seconds of the picture that first showed half of it and about how long it lasted; its edges
    (off is None where the fall could not be followed).

    rows: (bands,) where the bands are, -0.5 (top of the picture) to 0.5; band_height the part of the
    picture's height that a band covers. columns: mean column 0..1. rise: sqrt-linear height. clipped: only
    pixels that the flash drives into saturation were there, so that a lit share is too large.
    """

    time_s: float
    length_s: float
    on: Edge
    off: Edge | None
    rows: Floats
    band_height: float
    column: float
    rise: float
    clipped: bool


def find_flashes(log: LightLog, times_s: ArrayLike, min_rise: float = MIN_RISE) -> list[Flash]:
    """Flashes of a log: parts of the picture that were steady, rise within three pictures and fall back
    within 0.7 s. times_s: (m,) seconds of the pictures, increasing.

    Raises InputError when times and pictures are not equally many.
    """
    times = np.asarray(times_s, np.float64)
    m = len(log)
    if times.shape != (m,):
        raise InputError(f"{m} pictures but times of shape {times.shape}")
    if m < 12:
        return []
    interval = float(np.median(np.diff(times)))
    quiet = max(4, round(0.2 / interval))
    longest = max(3, round(LONGEST_FLASH_S / interval))
    strength = _strengths(log, min_rise)
    found: list[Flash] = []
    floor = max(min_rise, 0.15 * float(np.quantile(strength, 1.0 - 2.0 / m)))
    k = quiet + 2
    while k < m - 2:
        last = min(k + 3, m)
        if strength[k] < floor or strength[k] < strength[k:last].max():
            k += 1
            continue
        flash = _flash(log, times, k, quiet, longest, min_rise)
        if flash is None:
            k += 1
            continue
        found.append(flash)
        after = flash.off.frames[-1] if flash.off is not None else k + quiet
        k = int(max(after, k + 2)) + 1
    return found


def _strengths(log: LightLog, min_rise: float) -> Floats:
    """Per picture: mean rise over two pictures of those cells that rise by more than the least, times how
    many they are (its square root: a small lamp and a whole screen are both to be found)."""
    strength = np.zeros(len(log))
    step = 512
    for first in range(0, len(log), step):
        begin = max(0, first - 2)
        root = np.sqrt(log.light(begin, min(first + step, len(log))))
        if len(root) < 3:
            continue
        rise = root[2:] - root[:-2]
        strength[begin + 2 : begin + 2 + len(rise)] = rise.reshape(len(rise), -1).max(axis=1)
    return strength


def _flash(log: LightLog, times: Floats, k: int, quiet: int, longest: int, min_rise: float) -> Flash | None:
    """The flash whose light rises up to picture k, or None when it is none."""
    first, last = k - 2 - quiet, min(len(log), k + longest + quiet)
    if times[min(k + 1, last - 1)] - times[k - 2] > 8 * np.median(np.diff(times[first:last])):
        return None  # pictures are missing just there
    light = log.light(first, last).astype(np.float64)
    n_before = quiet
    before = light[:n_before]
    root = np.sqrt(light)
    base_root = root[:n_before].mean(axis=0)
    at = k - first
    top = root[at : at + 2].max(axis=0)
    height = top - base_root
    steady = np.ptp(root[:n_before], axis=0) < 0.35 * height
    lit = (height > min_rise) & steady
    falls = (root[at + 1 :] - base_root < 0.35 * height).any(axis=0)
    lit &= falls
    if not lit.any():
        return None
    lit &= height > 0.5 * float(height[lit].max())
    clipped = log.clipped(first, last)[at : at + 2].max(axis=0)
    clear = lit & (clipped < 0.01)
    # Cells beside a lamp that is too bright are lit by it as well, and are not clipped.
    weak = (height > min_rise) & steady & falls & (clipped < 0.01)
    is_clipped, use_lamp = False, True
    if clear.sum() >= 0.5 * lit.sum():
        lit = clear
    elif weak.sum() >= 3:
        lit, use_lamp = (
            weak,
            False,
        )  # what the lamp does cannot be told from cells that the flash lights as well
    else:
        is_clipped = True
    return _edges(light, times, first, at, n_before, before, lit, height, is_clipped, use_lamp)


def _edges(
    light: Floats,
    times: Floats,
    first: int,
    at: int,
    n_before: int,
    before: Floats,
    lit: NDArray[np.bool_],
    height: Floats,
    is_clipped: bool,
    use_lamp: bool,
) -> Flash | None:
    lamp = _lamp(light, n_before, height) if use_lamp else np.ones((len(light), ROWS))
    base = (before / lamp[:n_before, :, None]).mean(axis=0)
    course = light - base * lamp[:, :, None]  # (n, ROWS, COLUMNS): light of the flash alone
    bands = _bands(lit)
    sums = np.stack([course[:, rows][:, lit[rows]].sum(axis=1) for rows in bands], axis=1)  # (n, bands)
    mean = sums.sum(axis=1)
    peak = float(mean[at : at + 3].max())
    if peak <= 0:
        return None
    on = at - 2 + int(np.argmax(mean[at - 2 : at + 3] >= 0.5 * peak))
    below = np.flatnonzero(mean[on + 1 :] < 0.5 * peak)
    if not len(below):
        return None
    off = on + 1 + int(below[0])  # first picture with less than half
    # Pictures that are surely lit in every row, if the flash is long enough for any; else the brightest.
    within = np.arange(on + 1, off - 1)
    if len(within) > 2:
        within = within[:-1] if len(within) < 5 else within[1:-1]
    if not len(within):
        within = np.arange(on, off)
        within = within[np.argsort(-mean[within])[:1]]
    plateau_on = sums[within[: max(1, len(within) // 2)]].mean(axis=0)
    plateau_off = sums[within[-max(1, len(within) // 2) :]].mean(axis=0)
    quiet_noise = sums[:n_before].std(axis=0, ddof=1)
    good = plateau_on > 6 * quiet_noise
    good &= plateau_on > 0
    if not good.any():
        return None
    noise = np.hypot(quiet_noise[good] / plateau_on[good], 0.005)
    start = max(0, on - 3)
    frames = np.arange(start, max(on + 2, int(within[0]) + 1))
    edge_on = Edge((frames + first).astype(np.intp), sums[frames][:, good] / plateau_on[good], noise)
    edge_off = None
    after = np.arange(off + 2, min(off + 2 + n_before, len(light)))
    if len(after) >= 2:
        rest = sums[after].mean(axis=0)[good]
        drop = plateau_off[good] - rest
        if np.all(drop > 0.6 * plateau_on[good]):
            frames = np.arange(int(within[-1]), min(off + 3, len(light)))
            share = 1.0 - (sums[frames][:, good] - rest) / drop
            edge_off = Edge((frames + first).astype(np.intp), share, noise)
    centres = np.array([rows.mean() + 0.5 for rows in bands])[good] / ROWS - 0.5
    columns = np.flatnonzero(lit.any(axis=0))
    return Flash(
        time_s=float(times[first + on]),
        length_s=float(times[first + off] - times[first + on]),
        on=edge_on,
        off=edge_off,
        rows=centres,
        band_height=float(np.mean([len(rows) for rows in bands])) / ROWS,
        column=float((columns.mean() + 0.5) / COLUMNS),
        rise=float(height[lit].max()),
        clipped=is_clipped,
    )


def _bands(lit: NDArray[np.bool_]) -> list[NDArray[np.intp]]:
    """Rows with lit cells in groups of about equal height."""
    rows = np.flatnonzero(lit.any(axis=1))
    if len(rows) >= 5:  # the outermost are lit in a part of their height only, nobody knows which
        rows = rows[1:-1]
    span = int(rows[-1] - rows[0] + 1)
    edges = np.linspace(rows[0], rows[-1] + 1, max(1, round(span / BAND_ROWS)) + 1)
    groups = [rows[(rows >= a) & (rows < b)] for a, b in pairwise(edges)]
    return [group for group in groups if len(group)]


def _lamp(light: Floats, n_before: int, height: Floats) -> Floats:
    """How bright the room's own light is, per picture and row (n, ROWS), 1 in the mean before the flash: from
    the cells that the flash changes least."""
    n = len(light)
    rank = height / np.maximum(np.sqrt(light[:n_before].mean(axis=0)), 0.02)
    usable = light[:n_before].mean(axis=0) > 0.002
    lamp = np.ones((n, ROWS))
    if usable.sum() < 40:
        return lamp
    limit = float(np.quantile(rank[usable], 0.4))
    still = usable & (rank <= limit)
    level = np.where(still[None], light, 0.0).sum(axis=2)  # (n, ROWS)
    # Neighbouring rows share what few still cells there are.
    kernel = np.ones(9)
    level = np.stack([np.convolve(row, kernel, "same") for row in level])
    mean = level[:n_before].mean(axis=0)
    known = mean > 0.02 * max(float(mean.max()), 1e-9)
    lamp[:, known] = level[:, known] / mean[known]
    if float(lamp[:n_before].std(axis=0).mean()) < 0.01:
        return np.ones((n, ROWS))  # it is steady: better not to touch what the flash lights a little as well
    return np.asarray(np.clip(lamp, 0.2, 5.0))
