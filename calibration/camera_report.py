"""The page of a camera calibration: verdict, numbers with their uncertainty, maps over the picture, views."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from calibration.camera import CameraCalibration, WeakSet
from calibration.camera_views import Grey
from calibration.report_page import ReportPage, heat_map
from recordings.canvas import SvgCanvas

_GOOD, _BAD, _INK = "#1f7a4d", "#b3261e", "#211f1c"
_MOST_PICTURES = 6


def write_report(
    path: str | Path,
    calibration: CameraCalibration,
    *,
    refused: WeakSet | None = None,
    pictures: Mapping[str, Grey] | None = None,
    title: str = "",
) -> Path:
    """Write the page. pictures: grey ones by the name of their view, shown with corners and residuals.

    Raises StorageError.
    """
    camera = calibration.camera
    subtitle = (
        f"{title + ': ' if title else ''}{camera.width_px} x {camera.height_px} pixels, {calibration.board}"
    )
    page = ReportPage("Camera calibration", subtitle)
    sigma = calibration.sigma
    usual = float(np.nanmedian(calibration.sigma_px))
    if refused is not None:
        page.verdict(False, "not good enough to use")
        page.notes([f"{s.problem}: {s.remedy}" for s in refused.shortfalls])
    else:
        page.verdict(True, f"good to use: projection known to {usual:.2f} px in the median")
    page.notes(calibration.warnings)
    page.heading("What was found")
    rows = []
    for name, value in zip(camera.names, camera.parameters, strict=True):
        places = _places(sigma[name])
        unit = " px" if name in ("fx", "fy", "cx", "cy") else ""
        rows.append((name, f"{value:.{places}f} ± {sigma[name]:.{places}f}{unit}"))
    rows += [("horizontal field of view", f"{camera.hfov_deg:.2f} degrees"), ("model", camera.model)]
    page.facts(rows)
    page.heading("How good it is")
    page.facts(_quality(calibration))
    page.begin_row()
    aspect = camera.width_px / camera.height_px
    scale = max(3 * usual, 0.05) if np.isfinite(usual) else None
    page.svg(
        heat_map(calibration.sigma_px, "Uncertainty of projection", "px", aspect=aspect, top=scale),
        "One standard deviation, in the worst direction, for things far away. Grey: no ray of the model "
        "leads there.",
    )
    page.svg(
        heat_map(calibration.coverage, "Corners seen", "", aspect=aspect, digits=0),
        "A camera is known where the board was. Empty cells are extrapolation.",
    )
    cross = calibration.cross_validation
    if cross is not None:
        page.svg(
            heat_map(
                np.linalg.norm(cross.difference_px, axis=2),
                "Two halves of the views",
                "px",
                aspect=aspect,
                top=scale,
            ),
            f"How differently two cameras project that were fitted to every second view: "
            f"{cross.rms_px:.2f} px where the board was; the noise of both explains {cross.expected_px:.2f}.",
        )
    page.svg(
        _residual_plot(calibration),
        "Residuals of all corners. They should point everywhere; a swirl or a fan is a lens or a board that "
        "the model does not describe.",
    )
    page.end_row()
    page.heading("Views")
    page.table(
        ["view", "corners", "error (px)", "distance (m)", "edges (px)"],
        [
            (
                view.name,
                len(view.detection),
                round(float(rms), 3),
                round(float(np.linalg.norm(shift)), 2),
                round(view.detection.edge_width_px, 1),
            )
            for view, rms, shift in zip(
                calibration.views, calibration.view_rms_px, calibration.translations, strict=True
            )
        ],
    )
    if calibration.dropped:
        page.heading("Dropped: they disagree with the rest")
        page.notes([f"{left.name}: {left.reason}" for left in calibration.dropped])
    if calibration.skipped:
        page.heading("Skipped: nothing to measure in them")
        page.notes([f"{left.name}: {left.reason}" for left in calibration.skipped])
    _pictures(page, calibration, pictures or {})
    return page.write(path)


def _places(sigma: float) -> int:
    """Decimal places that show two digits of an uncertainty."""
    return int(np.clip(1 - np.floor(np.log10(max(sigma, 1e-9))), 0, 9)) if np.isfinite(sigma) else 0


def _quality(calibration: CameraCalibration) -> list[tuple[str, str]]:
    shape, hold, cross = calibration.shape, calibration.hold_out, calibration.cross_validation
    left = f"{len(calibration.dropped)} dropped, {len(calibration.skipped)} skipped"
    tilt = f"{shape['tilt_median_deg']:.0f} degrees in the median, up to {shape['tilt_max_deg']:.0f}"
    rows = [
        ("reprojection error", f"{calibration.rms_px:.3f} px RMS"),
        ("noise of a corner", f"{calibration.noise_px:.3f} px each way"),
        ("views", f"{len(calibration.views)} used, {left}"),
        ("corners left out", str(calibration.dropped_corners)),
        ("picture covered", f"{100 * calibration.coverage_share:.0f} %"),
        ("tilt of the board", tilt),
        ("distance", f"{shape['distance_min_m']:.2f} to {shape['distance_max_m']:.2f} m"),
    ]
    if calibration.bow_m.any():
        bow, sigma = 1e3 * calibration.bow_m, 1e3 * calibration.bow_sigma_m
        words = f"{bow[0]:.2f} ± {sigma[0]:.2f} mm across, {bow[1]:.2f} ± {sigma[1]:.2f} mm down; corrected"
        rows.append(("the board is bent", words))
    if hold is not None:
        words = f"{hold.rms_px:.3f} px in {hold.views} views, {hold.fitted_rms_px:.3f} px in those fitted"
        rows.append(("held-out views", words))
    if cross is not None:
        words = f"parameters differ {cross.ratio:.1f} times as much as their noise explains (1 is right)"
        rows.append(("two halves", words))
    return rows


def _residual_plot(calibration: CameraCalibration) -> str:
    camera = calibration.camera
    width = 560
    scale = width / camera.width_px
    height = round(camera.height_px * scale)
    # The usual residual becomes 14 points long.
    length = np.concatenate([np.linalg.norm(r, axis=1) for r in calibration.residuals_px])
    enlarge = 14 / max(float(np.median(length)), 1e-9)
    drawing = SvgCanvas(width + 20, height + 44, "Residuals")
    drawing.text(10, 18, f"Residuals, {enlarge / scale:.0f} times enlarged", 13, bold=True)
    drawing.box(10, 28, width, height, "", "#bbb6ac")
    for view, residual in zip(calibration.views, calibration.residuals_px, strict=True):
        for (u, v), (du, dv) in zip(view.detection.points_px, residual, strict=True):
            x, y = 10 + u * scale, 28 + v * scale
            drawing.line([(x, y), (x + du * enlarge, y + dv * enlarge)], "#2a788e", 0.8)
    return drawing.data().decode()


def _pictures(page: ReportPage, calibration: CameraCalibration, pictures: Mapping[str, Grey]) -> None:
    shown = [view for view in calibration.views if view.name in pictures]
    if not shown:
        return
    page.heading("Pictures")
    worst = {v.name: float(r) for v, r in zip(calibration.views, calibration.view_rms_px, strict=True)}
    shown = sorted(shown, key=lambda view: -worst[view.name])[:_MOST_PICTURES]
    page.text("Those with the largest errors; circles are the corners, as found.", soft=True)
    page.begin_row()
    for view in shown:
        page.picture(
            draw_corners(pictures[view.name], view.detection.points_px),
            f"{view.name}: {worst[view.name]:.3f} px",
            width_px=480,
        )
    page.end_row()


def draw_corners(grey: Grey, points: NDArray[np.float64]) -> NDArray[np.uint8]:
    """The picture in colour with a circle around each corner."""
    import cv2

    image = cv2.cvtColor(grey, cv2.COLOR_GRAY2BGR)
    radius = max(4, round(image.shape[1] / 160))
    for u, v in points:
        place = (round(float(u) * 16), round(float(v) * 16))
        cv2.circle(image, place, radius * 16, (60, 160, 30), max(1, radius // 3), cv2.LINE_AA, 4)
    return np.asarray(image)
