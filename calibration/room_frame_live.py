"""Pictures for the room frame from the rig's camera: waits until the board is seen and everything stands
still, takes five, and says meanwhile what is wrong."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from calibration.board import Board
from calibration.camera_detect import Detection
from calibration.camera_live import run_live
from calibration.camera_views import movement_px
from calibration.room_frame import FEWEST_CORNERS
from calibration.room_frame_board import FarDetector
from dsp.errors import CheckFailed, InputError

PICTURES = 5
_STILL_PX = 1.0  # between two pictures, 1280 wide
_SMALL_PX = 10.0  # squares smaller than this are read badly
_APART_NS = 200_000_000


class FrameGuide:
    """Feed it pictures with `look`; it keeps those that show the board, and tells with `say` what to do."""

    def __init__(self, board: Board, say: Callable[[str], None], wanted: int = PICTURES) -> None:
        self.kept: list[NDArray[np.uint8]] = []
        self.seen = 0
        self.said = ""
        self._detector, self._say, self._wanted = FarDetector(board), say, wanted
        self._before: Detection | None = None
        self._taken_ns: int | None = None

    @property
    def enough(self) -> bool:
        """Whether all pictures are taken."""
        return len(self.kept) >= self._wanted

    def look(self, grey: NDArray[np.uint8], t_ns: int) -> bool:
        """Look at one picture; True when it was kept."""
        self.seen += 1
        if self._taken_ns is not None and t_ns - self._taken_ns < _APART_NS:
            return False
        found = self._detector.find(grey)
        before, self._before = self._before, found
        if found is None or len(found) < FEWEST_CORNERS:
            self._tell("the board is not seen: let the camera see it whole, sharp and bright")
            return False
        moved = None if before is None else movement_px(before, found)
        if moved is None or moved > _STILL_PX * grey.shape[1] / 1280:
            self._tell("camera and board must stand still: put the camera on a stand, fix the board")
            return False
        if float(np.median(found.spacing_px)) < _SMALL_PX:
            self._tell("the board is small in the picture: nearer, or a board with larger squares, is better")
        self.kept.append(grey.copy())
        self._taken_ns = t_ns
        self._tell(f"picture {len(self.kept)} of {self._wanted}, {len(found)} corners")
        return True

    def _tell(self, words: str) -> None:
        if words != self.said:
            self.said = words
            self._say(words)


def take_pictures(
    rig: Path | None, board: Board, room_file: Path, seconds: float, say: Callable[[str], None]
) -> list[Path]:
    """Pictures of the board from the rig's camera, written beside room.json as room_frame_1.png and so on.

    Raises InputError for a rig without a real camera, CheckFailed when the board was not seen in time,
    DeviceError, StorageError.
    """
    import cv2

    from capture.rig import load_rig
    from capture.sources import camera_of
    from recordings.storage import storage_errors, write_atomic

    loaded = load_rig(rig)
    if loaded.camera.source in ("none", "virtual"):
        raise InputError(
            f"the rig's camera is {loaded.camera.source!r}, which shows no board; give pictures, or a"
            " rig.yaml with a camera (`hearth init`)"
        )
    device = camera_of(loaded.camera, None)
    assert device is not None
    guide = FrameGuide(board, say)
    run_live(device, guide, seconds=seconds)
    if not guide.kept:
        raise CheckFailed(f"no picture of the board in {seconds:.0f} s: {guide.said}")
    paths = []
    for number, grey in enumerate(guide.kept, 1):
        path = room_file.parent / f"room_frame_{number}.png"
        with storage_errors(path.parent, "make"):
            path.parent.mkdir(parents=True, exist_ok=True)
        with storage_errors(path):
            write_atomic(path, cv2.imencode(".png", grey)[1].tobytes())
        paths.append(path)
    return paths
