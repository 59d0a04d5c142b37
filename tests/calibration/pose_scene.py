"""A board with a loudspeaker, drawn as a known camera sees it and heard as a known microphone would."""

from __future__ import annotations

import cv2
import numpy as np

import dsp
from calibration.board import Board
from calibration.camera_model import CameraModel
from calibration.pose_model import rotation_from_vector
from recordings.geometry import CV_FROM_AMBIX

FS = 48000
CAMERA = CameraModel(1280, 720, "plumb_bob", np.array([620.0, 620.0, 639.5, 359.5, 0, 0, 0, 0, 0]))
BOARD = Board.chessboard(7, 5, 0.04)
SPEAKER = np.array([0.16, -0.05, 0.01])
ROTATION = rotation_from_vector([0.05, -0.1, 0.2]) @ CV_FROM_AMBIX.T
LEVER = np.array([0.06, 0.11, -0.04])


def scene(n: int, seed: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Board rotations and places that show the whole board."""
    rng = np.random.default_rng(seed)
    found = []
    while len(found) < n:
        board = rotation_from_vector(0.25 * rng.standard_normal(3))
        depth = rng.uniform(0.6, 1.8)
        place = depth * np.array([rng.uniform(-0.9, 0.6), rng.uniform(-0.45, 0.25), 1.0])
        outline = np.array([[-0.04, -0.04, 0], [0.36, -0.04, 0], [0.36, 0.28, 0], [-0.04, 0.28, 0]])
        pixels = CAMERA.project(outline @ board.T + place)
        if np.all((pixels > 4) & (pixels < [1275, 715])):
            found.append((board, place))
    return found


def draw(board: np.ndarray, place: np.ndarray) -> np.ndarray:
    """The chessboard as the camera sees it, by the homography of its plane; smoothed by drawing larger."""
    scale, cell = 3, 60
    across, down = BOARD.squares
    flat = np.full(((down + 2) * cell, (across + 2) * cell), 255, np.uint8)
    for r in range(down):
        for c in range(across):
            if (r + c) % 2 == 0:
                flat[(r + 1) * cell : (r + 2) * cell, (c + 1) * cell : (c + 2) * cell] = 20
    side = BOARD.square_m
    # Pixel (u, v) of the drawing is the point ((u + 0.5) / cell - 1) squares from the origin.
    shift = 0.5 * side / cell - side
    to_board = np.array([[side / cell, 0, shift], [0, side / cell, shift], [0, 0, 1]])
    plane = CAMERA.matrix @ np.column_stack([board[:, 0], board[:, 1], place])
    larger = np.array([[scale, 0, (scale - 1) / 2], [0, scale, (scale - 1) / 2], [0, 0, 1]])
    size = (CAMERA.width_px * scale, CAMERA.height_px * scale)
    big = cv2.warpPerspective(flat, larger @ plane @ to_board, size, flags=cv2.INTER_AREA, borderValue=128)
    return cv2.resize(big, (CAMERA.width_px, CAMERA.height_px), interpolation=cv2.INTER_AREA)


def direction(board: np.ndarray, place: np.ndarray) -> np.ndarray:
    u = ROTATION @ (board @ SPEAKER + place - LEVER)
    return u / np.linalg.norm(u)


def heard(sound: np.ndarray, u: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    azimuth, elevation = dsp.unit_to_direction(u)
    foa = dsp.encode(np.concatenate([np.zeros(9600), 0.2 * sound, np.zeros(9600)]), azimuth, elevation)
    return foa + 1e-4 * rng.standard_normal(foa.shape).astype(np.float32)
