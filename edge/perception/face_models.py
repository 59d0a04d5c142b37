"""Networks that look at a face: the mesh of MediaPipe, and the face vector of dlib.

Kartynnik et al., Real-time Facial Surface Geometry from Monocular Video on Mobile GPUs (arXiv 1907.06724):
468 points of a face in the cut-out that holds it, and whether it is one. King, "High Quality Face Recognition
with Deep Metric Learning" (blog.dlib.net, 2017): a picture of an upright face becomes 128 numbers; two
pictures of one person lie less than 0.6 apart.
"""

from __future__ import annotations

import importlib.util
import math
import os
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from dsp.errors import InputError, MissingDependency
from edge.perception.landmark_models import ModelFile, Network, model_path
from recordings.storage import sha256_file

Floats = NDArray[np.float64]

FACE_LANDMARK = ModelFile(
    "face_landmark/face_landmark.tflite", "1055cb9d4a9ca8b8c688902a3a5194311138ba256bcc94e336d8373a5f30c814"
)
FILE_VARIABLE = "HEARTH_FACE_MODEL"
INSTALL = "pip install 'hearth-home[perception]'"
VECTOR_FILE = "dlib_face_recognition_resnet_model_v1.dat"
VECTOR_SHA256 = "55533b28a95800a551ba546ba62fe69625c7e95a7061c338adffead08719da30"
CHIP_SIDE = 150
# Where dlib lays the outer and inner corner of the person's left eye, of the right eye, and the base of the
# nose (dlib's get_face_chip_details for five points), as shares of the face, around which a quarter is added.
CHIP_PADDING = 0.25
CHIP_POINTS = np.array(
    [
        [0.8595674595992, 0.2134981538014], [0.6460604764104, 0.2289674387677],
        [0.1205750620789, 0.2137274526848], [0.3340850613712, 0.2290642403242],
        [0.4901123135679, 0.6277975316475],
    ]
)  # fmt: skip

_SIDE = 192  # pixels of the mesh network's picture
_MARGIN = 1.5  # of the cut-out around the face
_POINTS = 468
# Points of the mesh. "left" is the person's own.
LEFT_EDGE, RIGHT_EDGE, TOP, CHIN, NOSE_BASE = 454, 234, 10, 152, 2
UPPER_LIP, LOWER_LIP = 13, 14
RIGHT_EYE, LEFT_EYE = (33, 133), (362, 263)  # corners, from right to left


@dataclass(frozen=True, slots=True)
class FaceMesh:
    """points: (468, 3) in pixels of the picture, x right, y down, z away from the camera in the same scale.

    presence: 0 to 1, that there is a face, seen from its front.
    """

    points: Floats
    presence: float

    @property
    def yaw_deg(self) -> float:
        """How far the face is turned to its own left from straight into the camera."""
        across = self.points[LEFT_EDGE] - self.points[RIGHT_EDGE]
        return math.degrees(math.atan2(across[2], across[0]))

    @property
    def mouth_open(self) -> float:
        """Between the lips, in heights of the face."""
        gap = float(np.linalg.norm(self.points[LOWER_LIP] - self.points[UPPER_LIP]))
        return gap / max(float(np.linalg.norm(self.points[CHIN] - self.points[TOP])), 1e-6)

    @property
    def height_px(self) -> float:
        """From the top of the forehead to the chin."""
        return float(np.linalg.norm((self.points[CHIN] - self.points[TOP])[:2]))


class FaceMesher:
    """The mesh of a face whose place is roughly known. Used by one thread."""

    def __init__(self, folder: str | os.PathLike[str] | None = None, *, threads: int = 1) -> None:
        """folder: of the network, see `landmark_models.model_path`, which also says what is raised."""
        self._net = Network(model_path(FACE_LANDMARK, folder), threads)

    def __call__(self, image: NDArray[np.uint8], middle: Floats, size: float, turn: float = 0.0) -> FaceMesh:
        """image: BGR. middle: (2,) of the face, size: its height, both in pixels; turn: of the upright face,
        radians clockwise. Looked at twice, the second time where the first look has it."""
        mesh = self._look(image, middle, size, turn)
        low, high = mesh.points[:, :2].min(axis=0), mesh.points[:, :2].max(axis=0)
        again = self._look(image, (low + high) / 2, float((high - low).max()), turn)
        return again if again.presence >= mesh.presence else mesh

    def _look(self, image: NDArray[np.uint8], middle: Floats, size: float, turn: float) -> FaceMesh:
        zoom = _MARGIN * max(size, 1.0) / _SIDE
        cos, sin = math.cos(turn) * zoom, math.sin(turn) * zoom
        rotation = np.array([[cos, -sin], [sin, cos]])
        into = np.column_stack([rotation, np.asarray(middle) - rotation @ np.full(2, (_SIDE - 1) / 2)])
        cut = cv2.warpAffine(image, into, (_SIDE, _SIDE), flags=cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP)
        outputs = {output.size: output for output in self._net(cut[:, :, ::-1] * np.float32(1 / 255))}
        square = outputs[_POINTS * 3].reshape(_POINTS, 3).astype(float)
        flat = (square[:, :2] - 0.5) @ rotation.T + into[:, 2]
        logit = float(outputs[1].reshape(-1)[0])
        return FaceMesh(
            np.column_stack([flat, square[:, 2] * zoom]), 1 / (1 + math.exp(-min(max(logit, -60.0), 60.0)))
        )


class FaceVector:
    """128 numbers of a face. Used by one thread."""

    def __init__(self, path: str | os.PathLike[str] | None = None) -> None:
        """path: of the network's file; without one $HEARTH_FACE_MODEL, or the installed package's.

        Raises MissingDependency, naming what brings it; InputError for another file than the one.
        """
        try:
            import dlib  # type: ignore[import-untyped]
        except ImportError as error:
            raise MissingDependency(f"faces are compared by dlib: `{INSTALL}`") from error
        self._net: Any = dlib.face_recognition_model_v1(str(_vector_path(path)))

    def __call__(self, chip: NDArray[np.uint8]) -> Floats:
        """(128,) of a face as `face_chip` cuts it."""
        return np.asarray(self._net.compute_face_descriptor(chip), np.float64)


def face_chip(image: NDArray[np.uint8], mesh: FaceMesh) -> NDArray[np.uint8]:
    """The face upright, (150, 150, 3) RGB, laid out as dlib's network was trained. image: BGR.

    The zoom is that of the same face seen from its front, which the depth of the mesh gives: the eyes of a
    face that is turned away lie closer together, and it would be drawn too large.
    """
    rows = [LEFT_EYE[1], LEFT_EYE[0], RIGHT_EYE[0], RIGHT_EYE[1], NOSE_BASE]
    goal = (CHIP_POINTS + CHIP_PADDING) / (1 + 2 * CHIP_PADDING) * CHIP_SIDE
    points = mesh.points[rows]
    turn = math.radians(mesh.yaw_deg)
    front = np.column_stack([points[:, 0] * math.cos(turn) + points[:, 2] * math.sin(turn), points[:, 1]])
    into = similarity(goal, front)
    into[:, 2] += (points[:, :2] - front).mean(axis=0)
    way = cv2.INTER_CUBIC | cv2.WARP_INVERSE_MAP
    cut = cv2.warpAffine(image, into, (CHIP_SIDE, CHIP_SIDE), flags=way, borderMode=cv2.BORDER_REPLICATE)
    return np.ascontiguousarray(cut[:, :, ::-1])


def similarity(points: Floats, goals: Floats) -> Floats:
    """(2, 3) turn, zoom and shift that take points (n, 2) to goals (n, 2) with the least squared error."""
    x, y = points.T
    ones, zeros = np.ones(len(x)), np.zeros(len(x))
    left = np.concatenate([np.column_stack([x, -y, ones, zeros]), np.column_stack([y, x, zeros, ones])])
    a, b, right, down = np.linalg.lstsq(left, goals.T.reshape(-1), rcond=None)[0]
    return np.array([[a, -b, right], [b, a, down]])


@lru_cache(maxsize=1)
def mesher() -> FaceMesher:
    """The mesh network, loaded once. Raises MissingDependency, InputError."""
    return FaceMesher()


@lru_cache(maxsize=1)
def face_vector() -> FaceVector:
    """dlib's network, loaded once. Raises MissingDependency, InputError."""
    return FaceVector()


def _vector_path(told: str | os.PathLike[str] | None) -> Path:
    told = told if told is not None else os.environ.get(FILE_VARIABLE) or None
    if told is not None:
        if not Path(told).is_file():
            raise InputError(f"{told}: no such file; {VECTOR_FILE} is needed there")
        return _checked(Path(told))
    spec = importlib.util.find_spec("face_recognition_models")
    for place in (spec.submodule_search_locations or []) if spec else []:
        path = Path(place) / "models" / VECTOR_FILE
        if path.is_file():
            return _checked(path)
    raise MissingDependency(
        f"faces are compared by a network that comes in a package: `{INSTALL}`,"
        f" or name the file {VECTOR_FILE} in ${FILE_VARIABLE}"
    )


def _checked(path: Path) -> Path:
    if sha256_file(path) != VECTOR_SHA256:
        raise InputError(f"{path}: is not dlib's face_recognition_resnet_model_v1; install the package again")
    return path
