"""Whether a set of views can carry a camera calibration, and what to add when it cannot.

The limits are this project's, measured on rendered sets with known truth (bench/calibration_camera.py) and
on public photos; advice on how to hold the board follows mrcal's studies (close, tilted, in the corners).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from calibration.camera_fit import Fit, Observation
from calibration.camera_model import MAP_SIZE, CameraModel

Floats = NDArray[np.float64]
CELLS = (10, 6)  # columns, rows of the coverage map
# Refused below or above these; pixels are for a picture 1280 wide.
FEWEST_VIEWS, LEAST_COVERAGE, LEAST_TILT_DEG = 6, 0.4, 10.0
LARGEST_RMS_PX, LARGEST_SIGMA_PX, LARGEST_FOCAL = 1.0, 1.0, 0.01
# Warned below or above these.
GOOD_VIEWS, GOOD_COVERAGE, GOOD_SIGMA_PX, GOOD_RATIO = 12, 0.8, 0.3, 1.6


@dataclass(frozen=True, slots=True)
class Shortfall:
    """What is wrong with a set, and what to do about it."""

    problem: str
    remedy: str


def coverage_map(pixels: Floats, width_px: int, height_px: int) -> NDArray[np.int64]:
    """Number of corners (rows, columns) in each of 6 x 10 cells of the picture."""
    columns, rows = CELLS
    column = np.clip(((pixels[:, 0] + 0.5) / width_px * columns).astype(int), 0, columns - 1)
    row = np.clip(((pixels[:, 1] + 0.5) / height_px * rows).astype(int), 0, rows - 1)
    return np.bincount(row * columns + column, minlength=rows * columns).reshape(rows, columns)


def where_seen(coverage: NDArray[np.int64]) -> NDArray[np.bool_]:
    """The points of the maps over the picture (rows, columns) that lie in a cell with corners."""
    columns, rows = MAP_SIZE
    row = ((np.arange(rows) + 0.5) / rows * coverage.shape[0]).astype(int)
    column = ((np.arange(columns) + 0.5) / columns * coverage.shape[1]).astype(int)
    return np.asarray(coverage[row][:, column] > 0)


def shape_of_set(observations: Sequence[Observation], fit: Fit) -> dict[str, float]:
    """How the board was held: tilt against the plane of the picture (degrees; parallel to it, a board says
    nothing about the focal length, wherever it is) and distance (metres)."""
    tilts, distances = [], []
    for seen, rotation, translation in zip(observations, fit.rotations, fit.translations, strict=True):
        middle = rotation @ seen.board_m.mean(0) + translation
        distance = float(np.linalg.norm(middle))
        tilts.append(np.degrees(np.arccos(np.clip(abs(rotation[2, 2]), 0, 1))))
        distances.append(distance)
    return {
        "tilt_median_deg": float(np.median(tilts)),
        "tilt_max_deg": float(np.max(tilts)),
        "distance_min_m": float(np.min(distances)),
        "distance_max_m": float(np.max(distances)),
    }


def empty_sides(coverage: NDArray[np.int64]) -> list[str]:
    """Sides of the picture whose outermost cells are mostly without corners."""
    sides = {
        "left": coverage[:, 0],
        "right": coverage[:, -1],
        "top": coverage[0, :],
        "bottom": coverage[-1, :],
    }
    return [name for name, cells in sides.items() if (cells > 0).mean() < 0.34]


def judge(
    camera: CameraModel,
    sigma_px: Floats,
    coverage: NDArray[np.int64],
    shape: Mapping[str, float],
    *,
    views: int,
    dropped: int,
    rms_px: float,
    sigma: Mapping[str, float],
    cross_ratio: float | None,
) -> tuple[list[Shortfall], list[str]]:
    """What forbids to use a calibration, and what only limits it."""
    unit = camera.width_px / 1280
    found: list[Shortfall] = []
    warnings: list[str] = []
    share = float((coverage > 0).mean())
    empty = empty_sides(coverage)
    where = (
        f"bring the board to the {', '.join(empty)} of the picture" if empty else "hold it in every corner"
    )
    if views < FEWEST_VIEWS:
        found.append(
            Shortfall(f"{views} usable views, {FEWEST_VIEWS} are the least", "take 20 from different sides")
        )
    elif views < GOOD_VIEWS:
        warnings.append(f"only {views} views; 20 to 40 make it better")
    if dropped > views:
        found.append(
            Shortfall(
                f"{dropped} views disagree with the {views} others",
                "is the board flat and stiff, and are its numbers those of the print?",
            )
        )
    if rms_px > LARGEST_RMS_PX * unit:
        found.append(
            Shortfall(
                f"the error is {rms_px:.2f} px, over {LARGEST_RMS_PX * unit:.2g}",
                "check columns, rows and flatness of the board, hold it still; a lens wider than about 120 "
                "degrees needs another model",
            )
        )
    if shape["tilt_max_deg"] < LEAST_TILT_DEG:
        found.append(
            Shortfall(
                f"the board faces the camera in all views (tilt {shape['tilt_max_deg']:.0f} degrees at most)",
                "tilt it by 20 to 40 degrees to each side, or focal length and distance cannot be told apart",
            )
        )
    if share < LEAST_COVERAGE:
        found.append(Shortfall(f"corners cover {100 * share:.0f} % of the picture", where))
    elif share < GOOD_COVERAGE:
        warnings.append(f"corners cover {100 * share:.0f} % of the picture; {where}")
    focal = max(sigma["fx"] / camera.parameters[0], sigma["fy"] / camera.parameters[1])
    usual = float(np.nanmedian(sigma_px)) if np.isfinite(sigma_px).any() else float("inf")
    blind = float(np.mean(~np.isfinite(sigma_px)))
    if not found and (focal > LARGEST_FOCAL or usual > LARGEST_SIGMA_PX * unit):
        found.append(
            Shortfall(
                f"projection is uncertain by {usual:.2f} px and the focal length by {100 * focal:.1f} %",
                "add views close to the camera, tilted by 20 to 40 degrees, in the corners of the picture",
            )
        )
    elif usual > GOOD_SIGMA_PX * unit:
        warnings.append(f"projection is uncertain by {usual:.2f} px in the median; add close, tilted views")
    if blind > 0:
        warnings.append(
            f"the distortion folds back in {100 * blind:.0f} % of the picture; add views that reach its rim"
        )
    if cross_ratio is not None and cross_ratio > GOOD_RATIO:
        warnings.append(
            f"two halves of the views differ {cross_ratio:.1f} times more than their noise explains: the "
            "board is not flat, moved while exposed, or the lens needs more coefficients; the "
            "uncertainties were enlarged by that"
        )
    return found, warnings
