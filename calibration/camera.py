"""Camera intrinsics from pictures of a board, with how far they can be trusted.

    calibration = calibrate_camera("pictures/", Board.parse("charuco 11x8 24mm 16mm 5x5_50"))
    calibration.camera.matrix, calibration.sigma["fx"], calibration.rms_px

The fit is `camera_fit`; here stand the decisions around it. Views that disagree with the rest are dropped
with a reason. What is left is judged in ways that do not look at the fit's own residuals alone: views that
had no part in it (hold-out), two halves against each other (cross-validation), and the uncertainty of the
parameters carried over the whole picture. A set that cannot carry a calibration is refused, with what to add.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibration.board import Board
from calibration.camera_fit import Fit, Observation, bow_of, fit_camera, fit_poses
from calibration.camera_judge import Shortfall, coverage_map, judge, shape_of_set, where_seen
from calibration.camera_model import COEFFICIENTS, CameraModel, Model, projection_difference, projection_sigma
from calibration.camera_views import Left, View, Views, find_views, open_pictures
from calibration.result import CalibrationResult, Covariance, InputFile, hash_inputs
from dsp.errors import CheckFailed, InputError

Floats = NDArray[np.float64]
# A view is dropped when its error is this many times the median's and above the floor (pixels)...
_OUTLIER, _FLOOR_PX = 2.5, 0.15
# ...a corner when its residual is this many times the noise.
_CORNER_OUTLIER = 5.0
# The board is taken as bent when its bow is this many sigmas, and looked at only with enough views.
_BOW_SIGMAS, _BOW_VIEWS = 4.0, 6
# Cross-validation halves that differ by this much more than their noise explains show a model error.
_TOO_DIFFERENT = 1.6


class WeakSet(CheckFailed):
    """The pictures cannot carry a calibration. `shortfalls` says what is missing and what to add;
    `calibration` is what was found all the same, to be looked at, not used (None without a fit)."""

    def __init__(self, shortfalls: list[Shortfall], calibration: CameraCalibration | None = None) -> None:
        self.shortfalls, self.calibration = shortfalls, calibration
        lines = "; ".join(f"{s.problem} ({s.remedy})" for s in shortfalls)
        super().__init__(f"these pictures cannot carry a camera calibration: {lines}")


@dataclass(frozen=True, slots=True)
class CrossValidation:
    """Two halves of the views, fitted apart.

    difference_px: (rows, columns, 2) between them over the picture; rms_px of it where the board was;
    expected_px: what the noise of both explains there. ratio: how many times more the parameters of both
    differ than their covariances allow (root of the Mahalanobis distance over its degrees of freedom): about
    1, and rarely over 1.6, when the model is right.
    """

    difference_px: Floats
    rms_px: float
    expected_px: float
    ratio: float


@dataclass(frozen=True, slots=True)
class HoldOut:
    """Views that had no part in the fit, with only their poses fitted: rms_px, beside that of the others."""

    views: int
    rms_px: float
    fitted_rms_px: float


@dataclass(frozen=True, slots=True)
class CameraCalibration:
    """A calibrated camera and everything needed to judge it.

    covariance: (n, n) of `camera.parameters`, with the noise found and, where cross-validation shows a model
    error, with that. sigma_px: (rows, columns) uncertainty of projection over the picture. coverage: (rows,
    columns) number of corners in each cell. warnings: what is good enough to use but not good.
    """

    board: Board
    camera: CameraModel
    covariance: Floats
    rms_px: float
    noise_px: float
    inflation: float
    views: list[View]
    view_rms_px: Floats
    residuals_px: list[Floats]
    rotations: Floats
    translations: Floats
    skipped: list[Left]
    dropped: list[Left]
    dropped_corners: int
    sigma_px: Floats
    coverage: NDArray[np.int64]
    shape: dict[str, float]
    bow_m: Floats
    bow_sigma_m: Floats
    hold_out: HoldOut | None
    cross_validation: CrossValidation | None
    inputs: list[InputFile]
    warnings: list[str]

    @property
    def sigma(self) -> dict[str, float]:
        """Standard uncertainty of each parameter."""
        return dict(zip(self.camera.names, np.sqrt(np.diag(self.covariance)).tolist(), strict=True))

    @property
    def coverage_share(self) -> float:
        """Part of the picture's cells with a corner."""
        return float((self.coverage > 0).mean())

    def to_result(self) -> CalibrationResult:
        """The result file's content; keys in docs/calibration.md."""
        camera = self.camera
        hold, cross = self.hold_out, self.cross_validation
        return CalibrationResult.new(
            "camera",
            {**camera.to_fields(), "board": str(self.board)},
            units={
                "fx": "px", "fy": "px", "cx": "px", "cy": "px", "camera_matrix": "px",
                "distortion_coefficients": "1", **dict.fromkeys(COEFFICIENTS[camera.model], "1"),
                "hfov_deg": "deg", "residuals": "px", "frame": "OpenCV: x right, y down, z forward; "
                "the centre of the first pixel is (0, 0)",
            },
            inputs=self.inputs,
            covariance=Covariance.of(camera.names, self.covariance),
            residuals={
                "rms_px": self.rms_px,
                "noise_px": self.noise_px,
                "views": [
                    {
                        "name": view.name,
                        "corners": len(view.detection),
                        "rms_px": rms,
                        "rotation": rotation,
                        "translation_m": translation,
                    }
                    for view, rms, rotation, translation in zip(
                        self.views, self.view_rms_px, self.rotations, self.translations, strict=True
                    )
                ],
            },
            quality={
                "views": len(self.views),
                "skipped": [{"name": s.name, "reason": s.reason} for s in self.skipped],
                "dropped": [{"name": s.name, "reason": s.reason} for s in self.dropped],
                "dropped_corners": self.dropped_corners,
                "projection_sigma_px": np.where(np.isfinite(self.sigma_px), self.sigma_px, -1.0),
                "projection_sigma_median_px": float(np.nanmedian(self.sigma_px)),
                "coverage": self.coverage,
                "coverage_share": self.coverage_share,
                **self.shape,
                "board_bow_m": self.bow_m,
                "board_bow_sigma_m": self.bow_sigma_m,
                "covariance_inflation": self.inflation,
                "hold_out": None
                if hold is None
                else {"views": hold.views, "rms_px": hold.rms_px, "fitted_rms_px": hold.fitted_rms_px},
                "cross_validation": None
                if cross is None
                else {"rms_px": cross.rms_px, "expected_px": cross.expected_px, "ratio": cross.ratio},
            },
            warnings=self.warnings,
        )  # fmt: skip


def calibrate_camera(
    images: Any,
    board: Board | str,
    *,
    model: Model = "plumb_bob",
    workers: int | None = None,
    progress: Callable[[int, int | None], None] | None = None,
    judged: bool = True,
) -> CameraCalibration:
    """Intrinsics of a camera from pictures of a board.

    images: a folder, a video, an episode, or an iterable of picture files and arrays (rows, columns[, 3])
    uint8, grey or BGR. board: a `Board` or its words. model: distortion, "plumb_bob" (5 coefficients),
    "radtan" (4, for Kalibr) or "rational_polynomial" (8, for wide lenses). workers: threads, all cores
    unless given. progress(done, total): called after each picture. judged=False gives weak sets back instead
    of refusing them.

    Pictures that cannot be used are skipped, views that disagree are dropped; both are named with the reason
    in the result. Raises InputError for unusable input, WeakSet for a set that cannot carry a calibration.
    """
    if model not in COEFFICIENTS:
        raise InputError(f"unknown model {model!r}; there are {', '.join(COEFFICIENTS)}")
    if isinstance(board, str):
        board = Board.parse(board)
    files = open_pictures(images)[2]
    found = find_views(images, board, workers=workers, progress=progress)
    inputs = hash_inputs(path for path in files if path.is_file())
    return calibrate_views(found, model=model, inputs=inputs, judged=judged)


def calibrate_views(
    found: Views, *, model: Model = "plumb_bob", inputs: list[InputFile] | None = None, judged: bool = True
) -> CameraCalibration:
    """As `calibrate_camera`, from views that were found already. Raises WeakSet."""
    if len(found.views) < 3:
        raise WeakSet(
            [
                Shortfall(
                    f"only {len(found.views)} of {found.pictures} pictures show the board",
                    "take at least 10, better 20 to 40, from different sides; " + _why(found.skipped),
                )
            ]
        )
    size = (found.width_px, found.height_px)
    views, dropped, corners = list(found.views), [], 0
    observations = [_observation(view, found.board) for view in views]
    fit = fit_camera(observations, *size, model)
    # A bent board makes good views look bad: the bow is found before anything is dropped.
    fit = _with_bow(observations, fit, found.board)
    for _ in range(20):
        # First whole views by their median, which a single wrong corner does not move; then such corners.
        worst = _worst_view(fit, _median_px(fit)) if len(views) > 3 else None
        if worst is None:
            lost = _without_bad_corners(views, fit)
            fewer = sum(len(v.detection) for v in views) - sum(len(v.detection) for v in lost)
            if fewer == 0:
                worst = _worst_view(fit, fit.view_rms_px) if len(views) > 3 else None
                if worst is None:
                    break
            corners, views = corners + fewer, lost
        if worst is not None:
            dropped.append(_why_dropped(views[worst], fit, worst))
            views = views[:worst] + views[worst + 1 :]
        observations = [_observation(view, found.board) for view in views]
        fit = _with_bow(observations, fit_camera(observations, *size, model, start=fit.camera), found.board)
    cross = _cross_validate(observations, fit)
    inflation = max(1.0, cross.ratio) if cross is not None and cross.ratio > _TOO_DIFFERENT else 1.0
    covariance = fit.covariance * inflation**2
    pixels = np.concatenate([o.pixels for o in observations])
    coverage = coverage_map(pixels, *size)
    calibration = CameraCalibration(
        board=found.board,
        camera=fit.camera,
        covariance=covariance,
        rms_px=fit.rms_px,
        noise_px=fit.noise_px,
        inflation=inflation,
        views=views,
        view_rms_px=fit.view_rms_px,
        residuals_px=fit.residuals,
        rotations=fit.rotations,
        translations=fit.translations,
        skipped=found.skipped,
        dropped=dropped,
        dropped_corners=corners,
        sigma_px=projection_sigma(fit.camera, covariance, where_seen(coverage)),
        coverage=coverage,
        shape=shape_of_set(observations, fit),
        bow_m=fit.bow_m,
        bow_sigma_m=fit.bow_sigma_m,
        hold_out=_hold_out(observations, fit),
        cross_validation=cross,
        inputs=inputs or [],
        warnings=[],
    )
    shortfalls, warnings = judge(
        calibration.camera, calibration.sigma_px, calibration.coverage, calibration.shape,
        views=len(views), dropped=len(dropped), rms_px=fit.rms_px, sigma=calibration.sigma,
        cross_ratio=None if cross is None else cross.ratio,
    )  # fmt: skip
    calibration = replace(calibration, warnings=warnings)
    if judged and shortfalls:
        raise WeakSet(shortfalls, calibration)
    return calibration


def _observation(view: View, board: Board) -> Observation:
    corners = board.corners_m[view.detection.ids]
    return Observation(corners, view.detection.points_px, bow_of(corners, board.size_m))


def _why(skipped: list[Left]) -> str:
    if not skipped:
        return "nothing was skipped"
    named = "; ".join(f"{s.name}: {s.reason}" for s in skipped[:3])
    return f"skipped: {named}" + (f" and {len(skipped) - 3} more" if len(skipped) > 3 else "")


def _with_bow(observations: list[Observation], flat: Fit, board: Board) -> Fit:
    """The fit with the board's bow, where that is clearly there; else the flat one."""
    if len(observations) < _BOW_VIEWS:
        return flat
    camera = flat.camera
    try:
        bent = fit_camera(
            observations, camera.width_px, camera.height_px, camera.model, camera, bow_m=np.zeros(2)
        )
    except CheckFailed:
        return flat
    with np.errstate(divide="ignore", invalid="ignore"):
        clear = np.abs(bent.bow_m) > _BOW_SIGMAS * bent.bow_sigma_m
    # A bow of a fifth of the board is no bow but a fit that ran away.
    possible = float(np.abs(bent.bow_m).max()) < 0.2 * max(board.size_m)
    return bent if clear.any() and possible else flat


def _why_dropped(view: View, fit: Fit, number: int) -> Left:
    error, usual = float(fit.view_rms_px[number]), float(np.median(fit.view_rms_px))
    return Left(
        view.name,
        f"error {error:.2f} px, {error / usual:.1f} times the median of the set (edges "
        f"{view.detection.edge_width_px:.1f} px wide): moved, or corners that are wrong",
    )


def _median_px(fit: Fit) -> Floats:
    """(views,) median length of the residuals."""
    return np.array([np.median(np.linalg.norm(r, axis=1)) for r in fit.residuals])


def _worst_view(fit: Fit, error_px: Floats) -> int | None:
    """The view with the largest error, if it stands out."""
    worst = int(np.argmax(error_px))
    return worst if error_px[worst] > max(_OUTLIER * float(np.median(error_px)), _FLOOR_PX) else None


def _without_bad_corners(views: list[View], fit: Fit) -> list[View]:
    """Views without corners whose residual is far outside of the noise; the noise by the median, so that
    the bad ones do not hide themselves."""
    length = np.concatenate([np.linalg.norm(r, axis=1) for r in fit.residuals])
    # Median of a Rayleigh distribution: 1.1774 sigma.
    limit = max(_CORNER_OUTLIER * float(np.median(length)) / 1.1774, _FLOOR_PX)
    kept = []
    for view, residual in zip(views, fit.residuals, strict=True):
        good = np.linalg.norm(residual, axis=1) <= limit
        if good.all() or np.count_nonzero(good) < 6:
            kept.append(view)
            continue
        d = view.detection
        kept.append(
            View(
                view.name,
                replace(d, ids=d.ids[good], points_px=d.points_px[good], spacing_px=d.spacing_px[good]),
            )
        )
    return kept


def _cross_validate(observations: list[Observation], fit: Fit) -> CrossValidation | None:
    """Every second view against the others. None for fewer than 8 views."""
    if len(observations) < 8:
        return None
    camera = fit.camera
    size = (camera.width_px, camera.height_px)
    bow = fit.bow_m if fit.bow_m.any() else None
    try:
        halves = [fit_camera(observations[k::2], *size, camera.model, camera, bow) for k in (0, 1)]
    except CheckFailed:
        return None
    first, second = halves
    # Where corners were: outside of them neither half claims anything.
    seen = where_seen(coverage_map(np.concatenate([o.pixels for o in observations]), *size))
    difference = projection_difference(first.camera, second.camera, seen)
    expected = projection_sigma(camera, first.covariance + second.covariance, seen, worst=False)
    seen = seen & np.isfinite(difference).all(axis=2) & np.isfinite(expected)
    if not seen.any():
        return None
    return CrossValidation(
        difference,
        float(np.sqrt((difference[seen] ** 2).sum(axis=1).mean())),
        float(np.sqrt((expected[seen] ** 2).mean())),
        _standardised(
            first.camera.parameters - second.camera.parameters, first.covariance + second.covariance
        ),
    )


def _standardised(difference: Floats, covariance: Floats) -> float:
    """Root mean square of a difference in units of its uncertainty, in all directions."""
    scale = 1 / np.sqrt(np.maximum(np.diag(covariance), 1e-300))
    inverse = np.linalg.pinv(covariance * np.outer(scale, scale), rcond=1e-10, hermitian=True)
    scaled = difference * scale
    return float(np.sqrt(max(float(scaled @ inverse @ scaled), 0.0) / len(difference)))


def _hold_out(observations: list[Observation], fit: Fit) -> HoldOut | None:
    """Every fifth view against a fit of the others. None for fewer than 10 views."""
    if len(observations) < 10:
        return None
    held = observations[2::5]
    rest = [o for i, o in enumerate(observations) if i % 5 != 2]
    try:
        camera = fit.camera
        bow = fit.bow_m if fit.bow_m.any() else None
        fitted = fit_camera(rest, camera.width_px, camera.height_px, camera.model, camera, bow)
        return HoldOut(len(held), fit_poses(held, fitted.camera, fitted.bow_m).rms_px, fitted.rms_px)
    except CheckFailed:
        return None
