"""A weighted histogram of directions on the sphere, its smoothed peak, and how far that peak can be trusted.

The cells are the 6 x 8 x 8 facets of a cube. Each keeps, beside its weight, the weighted sum of the unit
vectors that fell into it, so a peak is refined by mean shift (Comaniciu and Meer, PAMI 24(5), 2002) on
true centroids, not on the grid: a plane wave comes out at its own angle, not at that of a cell.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit

F32 = npt.NDArray[np.float32]
F64 = npt.NDArray[np.float64]

FACET = 8
CELLS = 6 * FACET * FACET
# Columns of a cell: weight, weighted x, y, z, and the squared weight (for the effective number of votes).
COLUMNS = 5

_FAST = {"contract", "reassoc", "nsz", "arcp"}


def empty() -> F32:
    """A histogram without votes, shape (CELLS, COLUMNS)."""
    return np.zeros((CELLS, COLUMNS), np.float32)


@njit(nogil=True, cache=True, fastmath=_FAST, inline="always")
def cell_of(x: float, y: float, z: float) -> int:  # pragma: no cover - compiled
    """Index of the cube facet that the direction (x, y, z), not necessarily of unit length, falls into."""
    ax, ay, az = abs(x), abs(y), abs(z)
    if ax >= ay and ax >= az:
        face = 0 if x > 0 else 1
        m, u, v = ax, y, z
    elif ay >= az:
        face = 2 if y > 0 else 3
        m, u, v = ay, x, z
    else:
        face = 4 if z > 0 else 5
        m, u, v = az, x, y
    scale = np.float32(FACET * 0.5) / m
    i = min(FACET - 1, int((u + m) * scale))
    j = min(FACET - 1, int((v + m) * scale))
    return (face * FACET + i) * FACET + j


@njit(nogil=True, cache=True, fastmath=_FAST)
def add_votes(cells: F32, unit: F32, weight: F32, count: int) -> None:  # pragma: no cover - compiled
    """Add the first `count` rows of unit (n, 3) with weight (n,) to the histogram."""
    for n in range(count):
        x, y, z = unit[n, 0], unit[n, 1], unit[n, 2]
        w = weight[n]
        c = cell_of(x, y, z)
        cells[c, 0] += w
        cells[c, 1] += w * x
        cells[c, 2] += w * y
        cells[c, 3] += w * z
        cells[c, 4] += w * w


@njit(nogil=True, cache=True, fastmath=_FAST)
def find_peak(
    cells: F32, cos_wide: float, cos_narrow: float, out: F64
) -> bool:  # pragma: no cover - compiled
    """The highest peak of the histogram smoothed with a kernel that falls to zero at acos(cos_wide), then
    refined by mean shift with a kernel that ends at acos(cos_narrow).

    out (8,): x, y, z of the peak; share of all weight within 30 degrees of it; mean squared angle (rad^2)
    of the votes under the kernel; effective number of all votes; of the votes under the kernel; total
    weight. Returns False when there are no votes.
    """
    n_cells = cells.shape[0]
    index = np.empty(n_cells, np.int64)
    centre = np.empty((n_cells, 3), np.float64)
    spread = np.empty(n_cells, np.float64)
    count = 0
    total = 0.0
    total_sq = 0.0
    heaviest = 0.0
    for c in range(n_cells):
        w = float(cells[c, 0])
        total += w
        total_sq += float(cells[c, 4])
        heaviest = max(heaviest, w)
    if not total > 0.0:
        return False
    floor = heaviest * 1e-4
    for c in range(n_cells):
        w = float(cells[c, 0])
        if w <= floor:
            continue
        x, y, z = float(cells[c, 1]), float(cells[c, 2]), float(cells[c, 3])
        r = np.sqrt(x * x + y * y + z * z)
        if r <= 0.0:
            continue
        index[count] = c
        centre[count, 0], centre[count, 1], centre[count, 2] = x / r, y / r, z / r
        spread[count] = max(0.0, 2.0 * (1.0 - r / w))
        count += 1
    if count == 0:
        return False
    best = -1.0
    start = 0
    cos_edge = cos_wide
    inv = 1.0 / (1.0 - cos_edge)
    for a in range(count):
        if cells[index[a], 0] < 0.1 * heaviest:
            continue
        density = 0.0
        for b in range(count):
            d = centre[a, 0] * centre[b, 0] + centre[a, 1] * centre[b, 1] + centre[a, 2] * centre[b, 2]
            k = (d - cos_edge) * inv
            if k > 0.0:
                density += k * k * cells[index[b], 0]
        if density > best:
            best = density
            start = a
    px, py, pz = centre[start, 0], centre[start, 1], centre[start, 2]
    for step in range(40):
        if step == 8:
            cos_edge = cos_narrow
            inv = 1.0 / (1.0 - cos_edge)
        sx = 0.0
        sy = 0.0
        sz = 0.0
        for b in range(count):
            k = (px * centre[b, 0] + py * centre[b, 1] + pz * centre[b, 2] - cos_edge) * inv
            if k > 0.0:
                c = index[b]
                sx += k * cells[c, 1]
                sy += k * cells[c, 2]
                sz += k * cells[c, 3]
        r = np.sqrt(sx * sx + sy * sy + sz * sz)
        if r <= 0.0:
            break
        sx, sy, sz = sx / r, sy / r, sz / r
        moved = (sx - px) ** 2 + (sy - py) ** 2 + (sz - pz) ** 2
        px, py, pz = sx, sy, sz
        if step > 8 and moved < 1e-10:
            break
    cap = 0.0
    near = 0.0
    near_sq = 0.0
    second = 0.0
    for b in range(count):
        c = index[b]
        w = float(cells[c, 0])
        d = px * centre[b, 0] + py * centre[b, 1] + pz * centre[b, 2]
        if d > 0.8660254:
            cap += w
        k = (d - cos_edge) * inv
        if k > 0.0:
            near += k * w
            near_sq += k * k * float(cells[c, 4])
            second += k * w * (2.0 * (1.0 - min(1.0, d)) + spread[b])
    out[0], out[1], out[2] = px, py, pz
    out[3] = cap / total
    out[4] = second / near if near > 0.0 else 0.0
    out[5] = total * total / total_sq if total_sq > 0.0 else 0.0
    out[6] = near * near / near_sq if near_sq > 0.0 else 0.0
    out[7] = total
    return True


@njit(nogil=True, cache=True, fastmath=_FAST)
def share_near(cells: F32, x: float, y: float, z: float) -> float:  # pragma: no cover - compiled
    """Share of the histogram's weight within 30 degrees of the unit vector (x, y, z)."""
    total = 0.0
    near = 0.0
    for c in range(cells.shape[0]):
        w = float(cells[c, 0])
        if w <= 0.0:
            continue
        total += w
        a, b, e = float(cells[c, 1]), float(cells[c, 2]), float(cells[c, 3])
        r = np.sqrt(a * a + b * b + e * e)
        if r > 0.0 and (a * x + b * y + e * z) > 0.8660254 * r:
            near += w
    return near / total if total > 0.0 else 0.0
