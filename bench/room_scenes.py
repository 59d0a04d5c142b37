"""Random rooms with a rig, a board and devices, and what a calibrated rig sees of them, with known truth.

Everything that a real rig does not know exactly is drawn from its own uncertainty: the intrinsics from the
covariance of a calibration of 20 views, the microphone's place on the camera from the usual result of
`hearth calibrate pose`, corners and clicks from their noise. Where the rig's board stands is exact: it
defines the room.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from bench.board_render import Camera, Renderer, rotation
from calibration.board import Board
from calibration.camera_detect import Detection
from calibration.camera_fit import Observation, bow_of, fit_camera
from calibration.pose_model import cross_matrix, rotation_from_vector
from calibration.room_frame_pose import BoardPlace, Mount
from recordings.camera_model import CameraModel
from recordings.geometry import CV_FROM_AMBIX, rotation_from_yaw_pitch

Floats = NDArray[np.float64]
CORNER_PX, CLICK_PX = 0.3, 3.0
MOUNT_TURN_DEG, MOUNT_ARM_M = 0.45, 0.009  # per axis: 0.74 degrees and 1.5 cm in the median
# A3, with squares large enough for markers to be read from 2.4 m.
BOARD = Board.charuco(7, 5, 0.055, 0.041, "4x4_50")


def true_camera() -> CameraModel:
    """The camera of the rendered pictures."""
    camera = Camera.typical()
    k = camera.matrix
    parameters = np.array([k[0, 0], k[1, 1], k[0, 2], k[1, 2], *camera.distortion])
    return CameraModel(camera.width, camera.height, "plumb_bob", parameters)


@lru_cache(maxsize=1)
def intrinsics_covariance() -> Floats:
    """(9, 9) of a calibration of this camera from 20 views with the noise of these corners."""
    rng, camera = np.random.default_rng(5), true_camera()
    board = Board.charuco(11, 8, 0.024, 0.016, "5x5_50")
    corners, middle = board.corners_m, np.array([*board.size_m, 0.0]) / 2
    views = []
    while len(views) < 20:
        turn = rotation(*rng.uniform(-35, 35, 2), rng.uniform(-20, 20))
        u, v = rng.uniform(150, 1130), rng.uniform(100, 620)
        ray = np.array([*camera.rays(np.array([[u, v]]))[0], 1.0])
        points = (corners - middle) @ turn.T + ray * rng.uniform(0.3, 0.6)
        pixels = camera.project(points)
        if np.all((pixels > 5) & (pixels < [1275, 715])):
            noisy = pixels + CORNER_PX * rng.standard_normal(pixels.shape)
            views.append(Observation(corners, noisy, bow_of(corners, board.size_m)))
    return fit_camera(views, camera.width_px, camera.height_px, "plumb_bob", start=camera).covariance


@dataclass(frozen=True)
class TruePlace:
    """A camera in the room: p_room = rotation @ p_camera + centre."""

    rotation: Floats
    centre: Floats

    def pixels(self, camera: CameraModel, points: Floats) -> Floats:
        return camera.project((np.asarray(points) - self.centre) @ self.rotation)

    def sees(self, camera: CameraModel, points: Floats, margin: float = 8.0) -> bool:
        """Whether all points are in the picture and not behind the fold of the distortion."""
        local = (np.atleast_2d(points) - self.centre) @ self.rotation
        if np.any(local[:, 2] < 0.2) or np.any(np.hypot(local[:, 0], local[:, 1]) > 1.0 * local[:, 2]):
            return False
        pixels = camera.project(local)
        size = np.array([camera.width_px, camera.height_px])
        return bool(np.all((pixels > margin) & (pixels < size - 1 - margin)))


def looking(centre: Floats, at: Floats, roll_deg: float) -> TruePlace:
    """A camera at a place that looks at a point."""
    away = at - centre
    yaw = np.degrees(np.arctan2(away[1], away[0]))
    pitch = np.degrees(np.arctan2(away[2], np.hypot(away[0], away[1])))
    return TruePlace(rotation_from_yaw_pitch(yaw, pitch, roll_deg) @ CV_FROM_AMBIX.T, centre)


@dataclass
class Scene:
    """One room: size, the board in it, the rig at its place, and what is believed of camera and mount."""

    size: Floats
    place: BoardPlace
    rig: TruePlace
    camera: CameraModel  # true
    believed: CameraModel
    covariance: Floats
    mount: Mount  # true
    believed_mount: Mount
    rng: np.random.Generator

    @property
    def corners(self) -> Floats:
        """The board's corners in the room."""
        return np.asarray(BOARD.corners_m @ self.place.rotation.T + self.place.origin(BOARD))

    def microphone(self, at: TruePlace) -> tuple[Floats, Floats]:
        """True rotation into the room and place of the microphone of the rig at a place."""
        return at.rotation @ self.mount.rotation.T, at.centre + at.rotation @ self.mount.lever_arm_m

    def detect(self, at: TruePlace) -> Detection:
        """The board's corners as found in a picture from a place."""
        pixels = at.pixels(self.camera, self.corners)
        noisy = pixels + CORNER_PX * self.rng.standard_normal(pixels.shape)
        return Detection(np.arange(len(noisy), dtype=np.int32), noisy, np.full(len(noisy), 10.0))

    def click(self, at: TruePlace, point: Floats) -> Floats:
        """A click on a point."""
        return np.asarray(at.pixels(self.camera, point) + CLICK_PX * self.rng.standard_normal(2))


def board_place(rng: np.random.Generator, size: Floats, on_floor: bool) -> BoardPlace:
    """On the floor, its top along +x or +y, or on one of two walls, its top up."""
    if on_floor:
        x, y = rng.uniform(0.8, size[0] - 1.2), rng.uniform(0.8, size[1] - 1.2)
        return BoardPlace.of((x, y, 0.0), "up", str(rng.choice(["+y", "+x"])))
    z = rng.uniform(0.7, 1.6)
    if rng.uniform() < 0.5:
        return BoardPlace.of((0.0, rng.uniform(0.5, size[1] - 1.0), z), "+x")
    return BoardPlace.of((rng.uniform(0.8, size[0] - 0.5), 0.0, z), "+y")


def scene(rng: np.random.Generator) -> Scene:
    """A random room. The rig sees the board whole, 1 to 2.4 m away and 15 to 65 degrees aside."""
    camera = true_camera()
    covariance = intrinsics_covariance()
    root = np.linalg.cholesky(covariance)
    believed = CameraModel(
        camera.width_px, camera.height_px, camera.model, camera.parameters + root @ rng.standard_normal(9)
    )
    turn = rotation_from_vector(0.25 * rng.standard_normal(3)) @ CV_FROM_AMBIX.T
    arm = rng.standard_normal(3)
    mount_covariance = np.diag(np.repeat([np.radians(MOUNT_TURN_DEG), MOUNT_ARM_M], 3) ** 2)
    mount = Mount(turn, 0.15 * arm / np.linalg.norm(arm), mount_covariance)
    error = np.sqrt(np.diag(mount_covariance)) * rng.standard_normal(6)
    believed_mount = Mount(
        rotation_from_vector(error[:3]) @ turn, mount.lever_arm_m + error[3:], mount_covariance
    )
    while True:
        size = rng.uniform([3.5, 3.0, 2.4], [6.5, 5.5, 3.0])
        place = board_place(rng, size, bool(rng.uniform() < 0.5))
        rig = standpoint(rng, size, place, camera)
        if rig is not None:
            return Scene(size, place, rig, camera, believed, covariance, mount, believed_mount, rng)


def standpoint(
    rng: np.random.Generator,
    size: Floats,
    place: BoardPlace,
    camera: CameraModel,
    near: Floats | None = None,
    reach: tuple[float, float] = (0.0, 100.0),
    also: Floats | None = None,
) -> TruePlace | None:
    """A place of the rig from which the board is seen; at a distance within `reach` from `near`, seeing
    `also`. None when 300 draws found none."""
    corners = BOARD.corners_m @ place.rotation.T + place.origin(BOARD)
    middle = corners.mean(axis=0)
    for _ in range(300):
        centre = rng.uniform([0.3, 0.3, 0.6], size - [0.3, 0.3, 0.4])
        away = centre - middle
        distance = float(np.linalg.norm(away))
        aside = np.degrees(np.arccos(np.clip(away @ place.facing / distance, -1, 1)))
        if not (1.0 <= distance <= 2.4 and 15 <= aside <= 65):
            continue
        if near is not None and not reach[0] <= float(np.linalg.norm(centre - near)) <= reach[1]:
            continue
        # Not straight at the board: the room is to be seen as well.
        target = middle if also is None else 0.5 * (middle + also)
        found = looking(centre, target + rng.uniform(-0.5, 0.5, 3), float(rng.normal(0, 2)))
        if found.sees(camera, corners) and (also is None or found.sees(camera, also)):
            return found
    return None


def device(rng: np.random.Generator, room: Scene, plane: str = "") -> tuple[Floats, str] | None:
    """A device that the rig sees at 1 to 4.5 m, and the plane it is on: the floor, a table or a wall."""
    for _ in range(300):
        point = rng.uniform([0.1, 0.1, 0.2], room.size - [0.1, 0.1, 0.2])
        words = plane
        if plane == "floor":
            point[2] = 0.0
        elif plane == "table":
            point[2] = round(rng.uniform(0.4, 1.0), 3)
            words = f"z={point[2]}"
        elif plane == "wall":
            axis = int(rng.integers(2))
            point[axis] = round(float(rng.choice([0.0, room.size[axis]])), 3)
            words = f"{'xy'[axis]}={point[axis]}"
        if not 1.0 <= float(np.linalg.norm(point - room.rig.centre)) <= 4.5:
            continue
        if room.rig.sees(room.camera, point):
            return point, words
    return None


def angle_deg(a: Floats, b: Floats) -> float:
    """Degrees between two vectors."""
    return float(np.degrees(np.arctan2(np.linalg.norm(cross_matrix(a) @ b), a @ b)))


# ------------------------------------------------------------------ pictures


@lru_cache(maxsize=1)
def _rays() -> Floats:
    """(rows, columns, 3) of the true camera: means of the corners of each pixel, which the renderer has."""
    renderer = _renderer(BOARD)
    x, y = ((a[1:, 1:] + a[1:, :-1] + a[:-1, 1:] + a[:-1, :-1]) / 4 for a in renderer.corner_rays)
    return np.stack([x, y, np.ones_like(x)], axis=-1)


@lru_cache(maxsize=4)
def _renderer(board: Board) -> Renderer:
    return Renderer(board, Camera.typical(), noise=0.0)


def picture(
    room: Scene,
    at: TruePlace,
    devices: Sequence[Floats] = (),
    held: tuple[Board, Floats, Floats] | None = None,
) -> NDArray[np.uint8]:
    """What the true camera sees from a place, grey: the box of the room, the board, devices as dark balls of
    6 cm, and a board that is held (its rotation into the room, and its origin)."""
    import cv2

    rays = _rays() @ at.rotation.T
    low = np.where(rays < -1e-9, (0.0 - at.centre) / np.minimum(rays, -1e-9), np.inf)
    high = np.where(rays > 1e-9, (room.size - at.centre) / np.maximum(rays, 1e-9), np.inf)
    to_wall = np.minimum(low, high)
    axis = np.argmin(to_wall, axis=2)
    far = np.take_along_axis(to_wall, axis[..., None], axis=2)[..., 0]
    hit = at.centre + rays * far[..., None]
    shade = np.choose(axis, [150.0, 165.0, 120.0])
    floor = (axis == 2) & (hit[..., 2] < 0.01)
    tiles = (np.floor(hit[..., 0] / 0.5) + np.floor(hit[..., 1] / 0.5)) % 2
    image = np.where(floor, 105.0 + 14.0 * tiles, np.where(axis == 2, 190.0, shade))
    for point in devices:
        away = point - at.centre
        along = np.maximum((rays @ away) / np.sum(rays**2, axis=2), 1e-6)
        off = np.linalg.norm(at.centre + rays * along[..., None] - point, axis=2)
        image = np.where(off < 0.03, 25.0, image)
    image = cv2.GaussianBlur(image, (0, 0), 0.7)
    boards = [(BOARD, room.place.rotation, room.place.origin(BOARD))] + ([held] if held else [])
    for board, turn, origin in boards:
        # Board to camera.
        own, shift = at.rotation.T @ turn, at.rotation.T @ (origin - at.centre)
        seen = _renderer(board).view(own, shift, np.random.default_rng(0), light=np.zeros(2)).grey
        w, h = board.size_m
        m = 0.45 * board.square_m
        edge = np.array([[-m, -m, 0], [w + m, -m, 0], [w + m, h + m, 0], [-m, h + m, 0]])
        outline = at.pixels(room.camera, edge @ turn.T + origin)
        if not np.isfinite(outline).all():
            continue
        mask = np.zeros(image.shape, np.uint8)
        cv2.fillConvexPoly(mask, np.rint(outline * 16).astype(np.int32), 1, shift=4)
        image = np.where(mask > 0, seen.astype(np.float64), image)
    noisy = image + 2.0 * room.rng.standard_normal(image.shape)
    return np.clip(np.rint(noisy), 0, 255).astype(np.uint8)
