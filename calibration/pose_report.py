"""A solved pose as a result file of kind "pose", in words, and as a page with pictures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from calibration.pose_files import Gathered
from calibration.pose_model import Floats
from calibration.pose_solver import PoseFit
from calibration.report_page import ReportPage
from calibration.result import CalibrationResult, Covariance, hash_inputs
from recordings.canvas import SvgCanvas

_PARAMETERS = (
    "turn_x_rad", "turn_y_rad", "turn_z_rad",
    "lever_arm_right_m", "lever_arm_down_m", "lever_arm_forward_m",
    "speaker_x_m", "speaker_y_m", "speaker_z_m",
)  # fmt: skip
_GOOD, _BAD, _SOFT, _INK, _GRID = "#0067a3", "#b3261e", "#6b665e", "#211f1c", "#e5e1d8"
_MOST_PICTURES = 6


def quaternion_xyzw(rotation: Floats) -> Floats:
    """Hamilton quaternion (4,) x, y, z, w with w >= 0 of a rotation (3, 3) (Shepperd, 1978)."""
    m = np.asarray(rotation, np.float64)
    trace = float(np.trace(m))
    four = np.array([*(2 * np.diag(m) - trace), trace])  # 4 q^2 - 1
    k = int(np.argmax(four))
    side = np.array([m[2, 1] - m[1, 2], m[0, 2] - m[2, 0], m[1, 0] - m[0, 1]])
    if k == 3:
        q = np.array([*side, 1 + trace])
    else:
        q = np.empty(4)
        q[:3] = m[:, k] + m[k, :]
        q[k] = 1 + four[k]
        q[3] = side[k]
    q = q / np.linalg.norm(q)
    return np.asarray(q if q[3] >= 0 else -q)


def to_result(fit: PoseFit, got: Gathered, method: dict[str, Any]) -> CalibrationResult:
    """The result file. Raises CheckFailed when the fit is refused: there is then nothing to write."""
    fit.require()
    solved = bool(np.isfinite(fit.speaker_m).all())
    known = 9 if solved else 6
    left_out = fit.left_out_deg[np.isfinite(fit.left_out_deg)]
    return CalibrationResult.new(
        "pose",
        {
            "T_mic_camera": fit.T_mic_camera,
            "rotation_matrix": fit.rotation,
            "q_xyzw": quaternion_xyzw(fit.rotation),
            "lever_arm_m": fit.lever_arm_m,
            "speaker_offset_m": fit.speaker_m if solved else None,
            "rotation_sigma_deg": fit.rotation_sigma_deg,
            "lever_arm_sigma_m": fit.lever_arm_sigma_m,
            "method": method,
        },
        units={
            "T_mic_camera": "m; p_microphone = T p_camera",
            "rotation_matrix": "1; camera (OpenCV: x right, y down, z forward) to microphone (AmbiX: x"
            " forward, y left, z up)",
            "q_xyzw": "1; Hamilton, the same rotation",
            "lever_arm_m": "m; the microphone in the camera frame",
            "speaker_offset_m": "m; in the board's frame",
            "rotation_sigma_deg": "deg; of small turns about the microphone's x, y, z",
            "lever_arm_sigma_m": "m",
            "residuals": "deg",
        },
        inputs=hash_inputs(got.inputs),
        covariance=Covariance.of(_PARAMETERS[:known], fit.covariance[:known, :known]),
        residuals={
            "rms_deg": fit.rms_deg,
            "left_out_rms_deg": float(np.sqrt(np.mean(left_out**2))) if len(left_out) else None,
            "positions": [
                {
                    "name": fit.names[i],
                    "used": bool(fit.used[i]),
                    "residual_deg": fit.residual_deg[i],
                    "sigma_deg": fit.sigma_deg[i],
                    "left_out_deg": fit.left_out_deg[i] if np.isfinite(fit.left_out_deg[i]) else None,
                    "distance_m": fit.distance_m[i],
                }
                for i in range(len(fit.names))
            ],
        },
        quality={
            "positions": len(fit.names),
            "used": int(fit.used.sum()),
            "sigma_scale": fit.scale,
            "singular_values": fit.singular_values,
            "mirror_ratio": min(fit.mirror_ratio, 1e6),
            "mirror_evidence": fit.mirror_evidence,
            "vertical_spread_deg": fit.spread_deg,
            "drift_ppm": got.drift_ppm,
            "drift_sigma_ppm": got.drift_sigma_ppm,
            "skipped": [{"name": name, "reason": reason} for name, reason in got.skipped],
        },
        warnings=fit.warnings,
    )


def in_words(fit: PoseFit) -> str:
    """One sentence: what was found and how well."""
    right, down, forward = 100 * fit.lever_arm_m
    sigma = float(np.max(fit.rotation_sigma_deg))
    return (
        f"{int(fit.used.sum())} of {len(fit.names)} positions, residual {fit.rms_deg:.2f} deg RMS; rotation"
        f" known to {sigma:.2f} deg; the microphone is {_side(right, 'right', 'left')},"
        f" {_side(down, 'below', 'above')}, {_side(forward, 'in front of', 'behind')} the camera"
        f" (within {100 * float(np.max(fit.lever_arm_sigma_m)):.1f} cm)"
    )


def _side(cm: float, positive: str, negative: str) -> str:
    return f"{abs(cm):.1f} cm {positive if cm >= 0 else negative}"


def summary(fit: PoseFit, got: Gathered) -> dict[str, Any]:
    """What `--json` prints."""
    return {
        "good": fit.ok,
        "problems": [{"problem": r.problem, "remedy": r.remedy} for r in fit.refusals],
        "positions": len(fit.names),
        "used": int(fit.used.sum()),
        "rms_deg": fit.rms_deg,
        "T_mic_camera": fit.T_mic_camera.ravel(),
        "q_xyzw": quaternion_xyzw(fit.rotation),
        "rotation_sigma_deg": fit.rotation_sigma_deg,
        "lever_arm_m": fit.lever_arm_m,
        "lever_arm_sigma_m": fit.lever_arm_sigma_m,
        "speaker_offset_m": fit.speaker_m if np.isfinite(fit.speaker_m).all() else None,
        "singular_values": fit.singular_values,
        "mirror_ratio": fit.mirror_ratio,
        "vertical_spread_deg": fit.spread_deg,
        "drift_ppm": got.drift_ppm,
        "warnings": list(fit.warnings),
        "skipped": [{"name": name, "reason": reason} for name, reason in got.skipped],
    }


def write_page(path: Path, fit: PoseFit, got: Gathered, title: str) -> Path:
    """The one-page report. Raises StorageError."""
    page = ReportPage("Microphone-to-camera pose", title)
    if fit.ok:
        page.verdict(True, f"good to use: rotation known to {np.max(fit.rotation_sigma_deg):.2f} degrees")
    else:
        page.verdict(False, "not good enough to use: no result was written")
    page.notes([*fit.refusals, *fit.warnings])
    page.text(in_words(fit))
    page.heading("What was found")
    turn, arm = fit.rotation_sigma_deg, fit.lever_arm_sigma_m
    front = fit.rotation @ [0.0, 0.0, 1.0]
    azimuth, elevation = np.degrees(np.arctan2(front[1], front[0])), np.degrees(np.arcsin(front[2]))
    page.facts(
        [
            (
                "in the microphone's frame the camera looks to",
                f"azimuth {azimuth:.2f}, elevation {elevation:.2f} degrees",
            ),
            ("sigma of turns about x, y, z", ", ".join(f"{v:.2f}" for v in turn) + " degrees"),
            ("q_xyzw", ", ".join(f"{v:.5f}" for v in quaternion_xyzw(fit.rotation))),
            *(
                (f"microphone, {name}", f"{100 * value:.1f} ± {100 * sigma:.1f} cm")
                for name, value, sigma in zip(("right", "down", "forward"), fit.lever_arm_m, arm, strict=True)
            ),
            *(
                [("loudspeaker on the board", ", ".join(f"{100 * v:.1f}" for v in fit.speaker_m) + " cm")]
                if np.isfinite(fit.speaker_m).all()
                else []
            ),
        ]
    )
    page.heading("How good it is")
    left_out = fit.left_out_deg[np.isfinite(fit.left_out_deg)]
    facts = [
        ("residual of the positions used", f"{fit.rms_deg:.2f} degrees RMS"),
        ("sigmas had to be scaled by", f"{fit.scale:.2f}"),
        (
            "singular values (1 is one degree or one centimetre)",
            ", ".join(f"{v:.2f}" for v in fit.singular_values),
        ),
        (
            "mirror test",
            f"a mirrored set fits {fit.mirror_ratio:.1f} times worse (log likelihood ratio"
            f" {fit.mirror_evidence:.0f}); spread out of one plane {fit.spread_deg:.0f} degrees",
        ),
    ]
    if len(left_out):
        facts.insert(1, ("of each from a fit without it", f"{np.sqrt(np.mean(left_out**2)):.2f} degrees RMS"))
    if got.drift_ppm is not None:
        facts.append(("player's clock is slow by", f"{got.drift_ppm:.1f} ± {got.drift_sigma_ppm:.1f} ppm"))
    page.facts(facts)
    page.begin_row()
    page.svg(
        _sphere_plot(fit),
        "Directions heard (dots) and expected (end of the line, five times as long). Red: left out.",
    )
    page.svg(_bar_plot(fit), "Residual of each position; the mark is its own sigma.")
    page.end_row()
    page.heading("Positions")
    page.table(
        ["position", "used", "residual (deg)", "sigma (deg)", "without it (deg)", "distance (m)", "noticed"],
        [
            [
                fit.names[i],
                "yes" if fit.used[i] else "no",
                f"{fit.residual_deg[i]:.2f}",
                f"{fit.sigma_deg[i]:.2f}",
                f"{fit.left_out_deg[i]:.2f}" if np.isfinite(fit.left_out_deg[i]) else "",
                f"{fit.distance_m[i]:.2f}",
                _noticed(got, fit.names[i]),
            ]
            for i in range(len(fit.names))
        ],
    )
    if got.skipped:
        page.heading("Left out before the fit")
        page.table(["position", "why"], [[name, why] for name, why in got.skipped])
    if got.pictures:
        page.heading("Pictures")
        page.begin_row()
        names = list(got.pictures)
        for k in np.unique(np.linspace(0, len(names) - 1, min(_MOST_PICTURES, len(names))).astype(int)):
            page.picture(got.pictures[names[k]], names[k], 320)
        page.end_row()
    return page.write(path)


def _noticed(got: Gathered, name: str) -> str:
    arrival = got.arrivals.get(name)
    if arrival is None or arrival.reflection_s is None:
        return ""
    return f"a reflection {1000 * arrival.reflection_s:.1f} ms after the direct sound"


def _sphere_plot(fit: PoseFit) -> bytes:
    """Azimuth and elevation in the microphone frame, residuals enlarged."""
    width, height, margin = 480, 320, 46
    azimuth, elevation = _angles(fit.heard)
    expected_az, expected_el = _angles(fit.predicted)
    # Sets seldom go round: the widest gap is where the axis is cut.
    order = np.sort(azimuth)
    gaps = np.diff(np.concatenate([order, [order[0] + 360]]))
    cut = order[int(np.argmax(gaps))] + gaps.max() / 2
    unwrap = (azimuth - cut) % 360 + cut
    middle = (unwrap.min() + unwrap.max()) / 2
    unwrap, middle = unwrap - 360 * round(middle / 360), middle - 360 * round(middle / 360)
    half = max(20.0, (np.ptp(unwrap) + 20) / 2)
    low, high = min(elevation.min(), -10) - 10, max(elevation.max(), 10) + 10
    drawing = SvgCanvas(width, height, "Directions")

    def place(az: float, el: float) -> tuple[float, float]:
        x = margin + (width - 2 * margin) * (middle + half - az) / (2 * half)
        return x, margin + (height - 2 * margin) * (high - el) / (high - low)

    step = 10 if half < 60 else 30 if half < 120 else 60
    for az in range(int(np.ceil((middle - half) / step)) * step, int(middle + half) + 1, step):
        drawing.line([place(az, low), place(az, high)], _GRID)
        drawing.text(place(az, low)[0], height - margin + 16, f"{az}", 11, _SOFT, "middle")
    for el in range(int(np.ceil(low / 10)) * 10, int(high) + 1, 10):
        drawing.line([place(middle - half, el), place(middle + half, el)], _GRID)
        drawing.text(margin - 6, place(0, el)[1] + 4, f"{el}", 11, _SOFT, "end")
    drawing.text(width / 2, height - 8, "azimuth (degrees; left is left)", 12, _INK, "middle")
    drawing.text(14, height / 2, "elevation (degrees)", 12, _INK, "middle", upright=True)
    for i in range(len(azimuth)):
        colour = _GOOD if fit.used[i] else _BAD
        off_az = (expected_az[i] - azimuth[i] + 180) % 360 - 180
        end = (unwrap[i] + 5 * off_az, elevation[i] + 5 * (expected_el[i] - elevation[i]))
        end = (float(np.clip(end[0], middle - half, middle + half)), float(np.clip(end[1], low, high)))
        drawing.line([place(unwrap[i], elevation[i]), place(*end)], colour, 1.4)
        drawing.dots([place(unwrap[i], elevation[i])], 3.2, colour, "#ffffff")
    return drawing.data()


def _angles(units: Floats) -> tuple[Floats, Floats]:
    return (
        np.degrees(np.arctan2(units[:, 1], units[:, 0])),
        np.degrees(np.arcsin(np.clip(units[:, 2], -1, 1))),
    )


def _bar_plot(fit: PoseFit) -> bytes:
    width, height, margin = 480, 320, 46
    n = len(fit.names)
    shown = fit.residual_deg[fit.used]
    top = max(2.0, float(1.3 * shown.max()), float(1.2 * fit.sigma_deg.max()))
    drawing = SvgCanvas(width, height, "Residuals")
    inner = (width - 2 * margin) / n

    def y(value: float) -> float:
        return height - margin - (height - 2 * margin) * min(value, top) / top

    for value in np.linspace(0, top, 5):
        drawing.line([(margin, y(value)), (width - margin, y(value))], _GRID)
        drawing.text(margin - 6, y(value) + 4, f"{value:.1f}", 11, _SOFT, "end")
    for i in range(n):
        x = margin + i * inner
        at = y(float(fit.residual_deg[i]))
        drawing.box(x + 0.15 * inner, at, 0.7 * inner, height - margin - at, _GOOD if fit.used[i] else _BAD)
        mark = y(float(fit.sigma_deg[i]))
        drawing.line([(x + 0.05 * inner, mark), (x + 0.95 * inner, mark)], _INK, 1.2)
    drawing.text(width / 2, height - 14, "positions in order", 12, _INK, "middle")
    drawing.text(14, height / 2, "residual (degrees)", 12, _INK, "middle", upright=True)
    return drawing.data()
