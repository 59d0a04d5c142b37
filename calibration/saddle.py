"""The last step of refinement in double precision: the point to which all gradients around it are at right
angles (Foerstner and Guelch 1987), as OpenCV's cornerSubPix has it, but run until it stands still.

cornerSubPix keeps corners as 32-bit floats (steps of 6e-5 at 512) and stops by the size of its last step, so
that its answer depends on where it began, and that differs between OpenCV 4 and 5.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

_STEPS, _STILL, _FAR = 60, 1e-9, 1.0


@numba.njit(cache=True, nogil=True)
def polish(grey: Any, points: Any, half: int) -> Any:
    """Points (n, 2) moved to the saddle of their window of half width `half`; those that do not come to rest
    within a pixel stay where they were. grey: (rows, columns) uint8; windows must lie inside of it."""
    rows, columns = grey.shape
    side = 2 * half + 3  # one more each way for the gradients
    weight = np.empty(2 * half + 1)
    for k in range(2 * half + 1):
        weight[k] = np.exp(-((k - half) ** 2) / (half * half))
    out = points.copy()
    patch = np.empty((side, side))
    for n in range(len(points)):
        u, v = points[n, 0], points[n, 1]
        settled = False
        for _ in range(_STEPS):
            left, top = int(np.floor(u)) - half - 1, int(np.floor(v)) - half - 1
            if left < 0 or top < 0 or left + side >= columns or top + side >= rows:
                break
            fu, fv = u - np.floor(u), v - np.floor(v)
            for i in range(side):
                for j in range(side):
                    above = (1 - fu) * grey[top + i, left + j] + fu * grey[top + i, left + j + 1]
                    below = (1 - fu) * grey[top + i + 1, left + j] + fu * grey[top + i + 1, left + j + 1]
                    patch[i, j] = (1 - fv) * above + fv * below
            a = b = c = p = q = 0.0
            for i in range(1, side - 1):
                for j in range(1, side - 1):
                    gx = patch[i, j + 1] - patch[i, j - 1]
                    gy = patch[i + 1, j] - patch[i - 1, j]
                    w = weight[i - 1] * weight[j - 1]
                    xx, xy, yy = w * gx * gx, w * gx * gy, w * gy * gy
                    x, y = j - half - 1.0, i - half - 1.0
                    a, b, c = a + xx, b + xy, c + yy
                    p, q = p + xx * x + xy * y, q + xy * x + yy * y
            det = a * c - b * b
            if det <= 1e-9 * (a + c) * (a + c):
                break
            du, dv = (c * p - b * q) / det, (a * q - b * p) / det
            u, v = u + du, v + dv
            if abs(u - points[n, 0]) > _FAR or abs(v - points[n, 1]) > _FAR:
                break
            if abs(du) < _STILL and abs(dv) < _STILL:
                settled = True
                break
        if settled:
            out[n, 0], out[n, 1] = u, v
    return out


def polished(grey: NDArray[np.uint8], points: NDArray[np.float64], half: int) -> NDArray[np.float64]:
    """`polish` with checked types."""
    return np.asarray(polish(np.ascontiguousarray(grey), np.ascontiguousarray(points), half))
