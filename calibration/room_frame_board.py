"""Finds the room's board where it is small in the picture: across a room its markers are 15 pixels wide.

The usual detector reads markers of 25 pixels and more well. Below that the picture is enlarged and each cell
is sampled more finely and further from its edges: on a rendered A3 board 1.9 m away (1280 x 720, 70 degrees)
that reads 15 of 17 markers instead of 4. Where the corners are is then settled in the picture as it is.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibration.board import Board
from calibration.camera_detect import Detection, Detector

_WIDEST_PX, _ENLARGED = 3840, 3.0
_CELL_PX, _CELL_MARGIN = 12, 0.3


def far_parameters() -> Any:
    """Parameters of OpenCV's ArUco detector for small markers in an enlarged picture."""
    import cv2

    parameters = cv2.aruco.DetectorParameters()
    parameters.perspectiveRemovePixelPerCell = _CELL_PX
    parameters.perspectiveRemoveIgnoredMarginPerCell = _CELL_MARGIN
    return parameters


def enlarged(grey: NDArray[np.uint8]) -> tuple[NDArray[np.uint8], NDArray[np.float64]]:
    """The picture enlarged for small markers, and by how much across and down: pixel p of the picture is
    (p + 0.5) * scale - 0.5 of the enlarged one."""
    import cv2

    factor = max(1.0, min(_ENLARGED, _WIDEST_PX / grey.shape[1]))
    size = (round(grey.shape[1] * factor), round(grey.shape[0] * factor))
    large = cv2.resize(grey, size, interpolation=cv2.INTER_CUBIC)
    return np.asarray(large, np.uint8), np.array(size) / [grey.shape[1], grey.shape[0]]


class FarDetector:
    """As `Detector`, for a ChArUco board that may be far away. Not to be shared between threads."""

    def __init__(self, board: Board) -> None:
        import cv2

        self.board = board
        self._usual = Detector(board)
        self._far: Any = None
        if board.kind == "charuco":
            self._far = cv2.aruco.CharucoDetector(
                board.opencv(), cv2.aruco.CharucoParameters(), far_parameters()
            )

    def find(self, grey: NDArray[np.uint8]) -> Detection | None:
        """Corners in a grey picture, or None when the board is not seen. Raises InputError."""
        usual = self._usual.find(grey)
        most = len(self.board.corners_m)
        if self._far is None or (usual is not None and len(usual) >= 0.9 * most):
            return usual
        large, scale = enlarged(255 - grey if self.board.inverted else grey)
        corners, ids, _, _ = self._far.detectBoard(large)
        if ids is None or np.size(ids) < 4:
            return usual
        points = (np.asarray(corners, np.float64).reshape(-1, 2) + 0.5) / scale - 0.5
        order = np.argsort(np.ravel(ids), kind="stable")
        far = self._usual.refine(grey, np.ravel(ids)[order].astype(np.int32), points[order])
        return far if usual is None or (far is not None and len(far) > len(usual)) else usual
