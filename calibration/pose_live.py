"""The guided form of `hearth calibrate pose`: positions are taken while somebody walks about with the board.

Whenever a sweep has been heard to its end while the board stood still in the picture, its sound and picture
go into a folder as NAME.wav and NAME.png, and the guide says where to hold the board next. The folder is then
solved as any other (`pose_files.from_folder`), so that nothing of a live session is lost or special.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from calibration.live_rig import RecentSound, follow, write_sound
from calibration.pose_board import BoardFinder, BoardPose
from calibration.pose_files import movement
from calibration.pose_model import Floats
from calibration.sweep import Sweep, find_sweeps
from dsp.errors import DeviceError, HearthError, InputError
from dsp.sample_faults import clipped_samples

if TYPE_CHECKING:
    from capture.blocks import VideoFrame

LOOK_EVERY_S = 0.3
NEAR_M = 1.1
"""What is nearer than this counts as near: both near and far positions are asked for."""

_COLUMNS, _ROWS = ("left", "middle", "right"), ("top", "middle", "bottom")


@dataclass(frozen=True)
class Taken:
    """One position: its name, where in the picture (column, row of a 3 x 3 grid), metres (0 if unknown)."""

    name: str
    column: int
    row: int
    distance_m: float


class PoseGuide:
    """Feed it blocks of sound and pictures as they come; it writes positions and says what to do next.

    camera and finder as for files; rate_hz and format of the microphone. Not thread-safe: one thread calls.
    """

    def __init__(
        self,
        folder: Path,
        finder: BoardFinder,
        sweep: Sweep,
        rate_hz: int,
        format_name: str,
        say: Callable[[str], None],
    ) -> None:
        from recordings.storage import storage_errors

        self.folder, self.finder, self.sweep = folder, finder, sweep
        self.rate_hz, self.format_name, self._say = rate_hz, format_name, say
        self.taken: list[Taken] = []
        with storage_errors(folder, "make"):
            folder.mkdir(parents=True, exist_ok=True)
        self._number = len(list(folder.glob("*.wav")))
        self._recent = RecentSound(rate_hz)
        self._looks: deque[tuple[int, BoardPose | Floats | None, NDArray[np.uint8]]] = deque()
        self._done_ns = -(1 << 62)  # end of the last sweep that was dealt with
        self._next_look_ns = -(1 << 62)

    def add_frame(self, t_ns: int, image: NDArray[np.uint8]) -> None:
        """A picture (BGR or grey); looked at three times a second."""
        from calibration.camera_views import as_grey

        if t_ns < self._next_look_ns:
            return
        self._next_look_ns = t_ns + round(LOOK_EVERY_S * 1e9)
        grey = as_grey(image)
        self._looks.append((t_ns, self.finder.find(grey), grey))
        keep = t_ns - round((2 * self.sweep.seconds + 3) * 1e9)
        while self._looks[0][0] < keep:
            self._looks.popleft()

    def add_sound(self, t_ns: int, samples: NDArray[np.int32]) -> None:
        """Frames (n, channels) int32 that begin at t_ns. A gap in time starts anew: a sweep must be whole."""
        self._recent.add(t_ns, samples)
        if self._recent.due(self.sweep.seconds + 0.4, 2 * self.sweep.seconds + 2.5):
            self._look_for_sweeps()

    def _look_for_sweeps(self) -> None:
        import dsp

        start_ns, raw = self._recent.whole()
        floats = raw.astype(np.float32) * np.float32(2.0**-31)
        w = dsp.convert(floats, source=self.format_name, target="ambix")[:, 0]
        for start_s in find_sweeps(w, self.sweep):
            begin = start_ns + round(float(start_s) * 1e9)
            end = begin + round(self.sweep.seconds * 1e9)
            # What is cut at the front, by a gap for one, would be found as well, but not right.
            if begin < self._done_ns or start_s < 0.1:
                continue
            if start_s + self.sweep.seconds + 0.2 > len(raw) / self.rate_hz:
                continue
            self._done_ns = end
            first = max(0, round((start_s - 0.15) * self.rate_hz))
            last = round((start_s + self.sweep.seconds + 0.2) * self.rate_hz)
            self._take(begin, end, raw[first:last])

    def _take(self, begin_ns: int, end_ns: int, raw: NDArray[np.int32]) -> None:
        shown = [item for item in self._looks if begin_ns <= item[0] <= end_ns]
        seen = [pose for _, pose, _ in shown if pose is not None]
        if not seen:
            self._say("a sweep was heard, but the board is not seen whole; turn it towards the camera")
            return
        moved = movement(seen)
        if moved:
            self._say(f"{moved}; hold it still, best on a stand")
            return
        if clipped_samples(raw.astype(np.float32) * np.float32(2.0**-31)):
            self._say("that clipped: play softer or lower the gain, and play it again")
            return
        with_board = [(pose, grey) for _, pose, grey in shown if pose is not None]
        pose, grey = with_board[len(with_board) // 2]
        self._number += 1
        name = f"{self._number:03d}"
        self._write(name, raw, grey)
        ray = pose.place_m if isinstance(pose, BoardPose) else pose
        pixel = self.finder.camera.project(ray)
        column = int(np.clip(3 * pixel[0] / self.finder.camera.width_px, 0, 2))
        row = int(np.clip(3 * pixel[1] / self.finder.camera.height_px, 0, 2))
        distance = float(np.linalg.norm(pose.place_m)) if isinstance(pose, BoardPose) else 0.0
        self.taken.append(Taken(name, column, row, distance))
        away = f", {distance:.1f} m away" if distance else ""
        self._say(
            f"position {len(self.taken)} taken ({_ROWS[row]} {_COLUMNS[column]}{away}); {self.next_place()}"
        )

    def _write(self, name: str, raw: NDArray[np.int32], grey: NDArray[np.uint8]) -> None:
        import cv2

        from recordings.storage import storage_errors, write_atomic

        write_sound(self.folder / f"{name}.wav", raw, self.rate_hz, "PCM_24")
        with storage_errors(self.folder):
            write_atomic(self.folder / f"{name}.png", cv2.imencode(".png", grey)[1].tobytes())

    def next_place(self) -> str:
        """Where to hold the board next: the emptiest ninth of the picture, and near or far."""
        counts = np.zeros((3, 3), int)
        for taken in self.taken:
            counts[taken.row, taken.column] += 1
        # Corners before edges before the middle.
        rank = counts * 10 + np.array([[0, 1, 0], [1, 2, 1], [0, 1, 0]])
        row, column = np.unravel_index(int(np.argmin(rank)), (3, 3))
        measured = [taken.distance_m for taken in self.taken if taken.distance_m > 0]
        how = ""
        if measured or not self.taken:
            near = sum(d < NEAR_M for d in measured)
            how = ", about 0.7 m away" if 2 * near <= len(measured) else ", 1.5 to 2.5 m away"
        return f"next: {_ROWS[row]} {_COLUMNS[column]} of the picture{how}, and tilt the board another way"


def run_live(
    rig_path: Path | None,
    folder: Path,
    finder: BoardFinder,
    sweep: Sweep,
    positions: int,
    say: Callable[[str], None],
    longest_s: float = 1800.0,
) -> str:
    """Take positions with the devices of a rig until there are enough, the time is over or Ctrl-C; gives the
    format of the sound. Raises DeviceError when the rig has no camera or a device ends."""
    from capture.blocks import AudioBlock
    from capture.rig import load_rig
    from capture.sources import open_rig

    with open_rig(load_rig(rig_path)) as rig:
        if rig.camera is None:
            raise DeviceError("the rig has no camera; name one in rig.yaml (`hearth init` finds it)")
        info = rig.audio_info
        if info.format == "array":
            raise InputError("the microphone is no first-order ambisonic one; record and use the table form")
        guide = PoseGuide(folder, finder, sweep.at(info.rate_hz), info.rate_hz, info.format, say)
        say(f"play the sweep at every position and hold the board still meanwhile; {guide.next_place()}")

        def take(item: AudioBlock | VideoFrame) -> None:
            if isinstance(item, AudioBlock):
                guide.add_sound(item.t_ns, item.samples)
                return
            try:
                guide.add_frame(item.t_ns, item.image)
            except DeviceError as error:
                say(str(error))

        follow(
            rig,
            take,
            lambda: len(guide.taken) >= positions,
            say,
            pictures=True,
            longest_s=longest_s,
            too_slow="this computer is too slow: sound was lost; play the sweep again",
        )
    if not guide.taken:
        raise HearthError("no position was taken; was the sweep loud enough, and the board seen whole?")
    return info.format
