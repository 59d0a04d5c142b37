"""Recordings with video and the guided form: sweeps found, the board at that time, movement refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from calibration.pose_board import BoardFinder
from calibration.pose_files import Sound, from_recording, from_seen_table
from calibration.pose_live import PoseGuide
from calibration.pose_model import Prior, rotation_angle_deg
from calibration.pose_solver import solve_pose
from calibration.sweep import Sweep
from tests.calibration.pose_scene import (
    BOARD,
    CAMERA,
    FS,
    LEVER,
    ROTATION,
    SPEAKER,
    direction,
    draw,
    heard,
    scene,
)

SWEEP = Sweep(FS, 0.5, 150.0, 15000.0)


def session(n: int) -> tuple[np.ndarray, list[np.ndarray]]:
    """Sound of n positions, 0.9 s each, and their pictures."""
    rng = np.random.default_rng(11)
    places = scene(n, 12)
    parts = [heard(SWEEP.signal, direction(*place), rng) for place in places]
    return np.concatenate(parts), [draw(*place) for place in places]


def test_a_recording_with_video_and_a_board_that_moves():
    foa, images = session(8)
    times = np.arange(0, 7.2, 1 / 15)
    shown = [(t, images[min(int(t / 0.9), 7)]) for t in times]
    # During the third sweep the board is carried on.
    shown = [(t, images[4] if 2.3 < t < 2.7 else image) for t, image in shown]
    got = from_recording(Sound(foa, FS), iter(shown), BoardFinder(CAMERA, BOARD), SWEEP, [])
    assert len(got.sightings) == 7 and len(got.skipped) == 1
    assert "moved" in got.skipped[0][1]
    fit = solve_pose(
        got.sightings, speaker=Prior.of(SPEAKER, 0.003), lever_arm=Prior.of(LEVER, 0.01), leave_one_out=False
    )
    assert rotation_angle_deg(fit.rotation, ROTATION) < 0.3
    assert got.drift_ppm is not None and abs(got.drift_ppm) < 3 * got.drift_sigma_ppm  # type: ignore[operator]


def test_a_clipped_sweep_is_left_out_though_it_stays_below_full_scale():
    foa, images = session(2)
    half = len(foa) // 2
    most = 0.4 * float(np.abs(foa[:half]).max())
    foa[:half] = np.clip(foa[:half], -most, most)
    shown = [(t, images[int(t / 0.9)]) for t in np.arange(0, 1.8, 1 / 15)]
    got = from_recording(Sound(foa, FS), iter(shown), BoardFinder(CAMERA, BOARD), SWEEP, [])
    assert len(got.sightings) == 1 and "samples clipped" in got.skipped[0][1]


def test_the_guide_takes_each_sweep_once_and_says_where_to_go(tmp_path: Path):
    foa, images = session(3)
    said: list[str] = []
    guide = PoseGuide(tmp_path, BoardFinder(CAMERA, BOARD), SWEEP, FS, "ambix", said.append)
    raw = np.asarray(np.rint(foa.astype(np.float64) * 2.0**31), np.int32)
    raw = np.concatenate([raw, np.zeros((FS, 4), np.int32)])
    blank = np.full_like(images[0], 128)
    for first in range(0, len(raw), 2400):
        t_ns = 10**12 + round(first / FS * 1e9)
        k = int(first / FS / 0.9)
        image = blank if k == 1 else images[min(k, 2)]  # the second is played with the board out of sight
        guide.add_frame(t_ns, image)
        guide.add_sound(t_ns, raw[first : first + 2400])
    assert [taken.name for taken in guide.taken] == ["001", "002"]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["001.png", "001.wav", "002.png", "002.wav"]
    assert sum("not seen" in text for text in said) == 1
    assert all("next:" in text for text in said if "taken" in text)
    for taken, k in zip(guide.taken, (0, 2), strict=True):
        place = scene(3, 12)[k][1]
        pixel = CAMERA.project(place)
        assert taken.column == int(3 * pixel[0] / CAMERA.width_px)
        assert abs(taken.distance_m - np.linalg.norm(place)) < 0.02


def test_a_gap_in_the_sound_breaks_a_sweep(tmp_path: Path):
    foa, images = session(1)
    said: list[str] = []
    guide = PoseGuide(tmp_path, BoardFinder(CAMERA, BOARD), SWEEP, FS, "ambix", said.append)
    raw = np.asarray(np.rint(foa.astype(np.float64) * 2.0**31), np.int32)
    raw = np.concatenate([raw, np.zeros((2 * FS, 4), np.int32)])
    for first in range(0, len(raw), 2400):
        late = 10**9 if first > 0.4 * FS else 0
        t_ns = round(first / FS * 1e9) + late
        guide.add_frame(t_ns, images[0])
        guide.add_sound(t_ns, raw[first : first + 2400])
    assert guide.taken == []


def test_a_handheld_phone_that_was_seen_at_pixels(tmp_path: Path):
    rng = np.random.default_rng(4)
    rows, parts = ["time_s,u_px,v_px,distance_m"], []
    for k in range(8):
        far = rng.uniform(0.7, 2.0)
        p = far * np.array([rng.uniform(-0.8, 0.8), rng.uniform(-0.45, 0.45), 1.0])
        u = ROTATION @ (p - LEVER)
        parts.append(heard(SWEEP.signal, u / np.linalg.norm(u), rng))
        pixel = CAMERA.project(p)
        rows.append(f"{0.9 * k + 0.45:.2f},{pixel[0]:.1f},{pixel[1]:.1f},{np.linalg.norm(p):.2f}")
    rows.append("60.0,600,300,1.0")
    table = tmp_path / "seen.csv"
    table.write_text("\n".join(rows) + "\n")
    got = from_seen_table(Sound(np.concatenate(parts), FS), table, CAMERA, SWEEP, [])
    assert len(got.sightings) == 8 and "no sweep is heard at 60.00 s" in got.skipped[0][1]
    fit = solve_pose(got.sightings, lever_arm=Prior.of(LEVER, 0.01), leave_one_out=False)
    assert rotation_angle_deg(fit.rotation, ROTATION) < 0.5
    assert np.isnan(fit.speaker_m).all()
