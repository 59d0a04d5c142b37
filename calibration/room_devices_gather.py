"""What `hearth calibrate room device` was told, as sightings: pictures and clicks, markers, recordings."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibration.pose_board import ray_of
from calibration.pose_model import Floats
from calibration.room_devices_seen import (
    MarkerFinder,
    heard,
    heard_knocks,
    heard_sweep,
    held_marker,
    pointing_marker,
    read_recording,
    seen_from,
)
from calibration.room_devices_sightings import AIM_DEG, CLICK_PX, HELD_M, Click, Plane, Sighting
from calibration.room_frame_board import FarDetector
from calibration.room_frame_file import SavedFrame
from calibration.room_frame_pose import MicrophonePlace
from calibration.sweep import Sweep
from dsp.errors import InputError
from recordings.geometry import rotation_from_yaw_pitch


@dataclass
class Gathered:
    """Sightings of one device, the files they come from, and what limits them. clicks: picture, u, v."""

    sightings: list[Sighting] = field(default_factory=list)
    inputs: list[Path] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    clicks: list[dict[str, Any]] = field(default_factory=list)


class Gatherer:
    """Turns pictures and recordings into sightings; a picture that was looked at is not looked at again."""

    def __init__(self, frame: SavedFrame) -> None:
        self.frame = frame
        self.got = Gathered()
        self._detector = FarDetector(frame.board)
        self._places: dict[Path, int] = {}

    def place_of(self, path: Path, board_is_held: bool = False) -> int:
        """The standpoint of a picture. Raises InputError, CheckFailed (see `seen_from`)."""
        if path not in self._places:
            grey = self.grey(path)
            if board_is_held:  # the room's own board is on the device: the camera has not moved
                self._places[path] = 0
            else:
                at, warning = seen_from(
                    self.frame.around, self.frame.board, self._detector.find(grey), path.name
                )
                self._places[path] = at
                if warning is not None:
                    self.got.warnings.append(warning)
            if path not in self.got.inputs:
                self.got.inputs.append(path)
        return self._places[path]

    def grey(self, path: Path) -> NDArray[np.uint8]:
        """A picture as grey, of the camera's size. Raises InputError."""
        import cv2

        image = None
        if path.is_file():
            image = cv2.imread(str(path), cv2.IMREAD_GRAYSCALE | cv2.IMREAD_IGNORE_ORIENTATION)
        if image is None:
            raise InputError(f"{path}: no such file, or it cannot be read as a picture")
        camera = self.frame.around.camera
        if (image.shape[1], image.shape[0]) != (camera.width_px, camera.height_px):
            raise InputError(
                f"{path}: {image.shape[1]}x{image.shape[0]} pixels; the camera was calibrated at "
                f"{camera.width_px}x{camera.height_px}. Take pictures at that size"
            )
        return np.asarray(image, np.uint8)

    def add_click(self, path: Path | None, pixel: Floats, sigma_px: float = CLICK_PX) -> None:
        """A click in a picture; without one, in what the frame's camera sees. Raises InputError."""
        ray_of(self.frame.around.camera, pixel)
        at = 0 if path is None else self.place_of(path)
        name = "the frame's picture" if path is None else path.name
        self.got.sightings.append(
            Click(at, pixel, sigma_px, f"click at {pixel[0]:.1f}, {pixel[1]:.1f} in {name}")
        )
        self.got.clicks.append({"picture": name, "u_px": float(pixel[0]), "v_px": float(pixel[1])})

    def add_plane(self, plane: Plane) -> None:
        """The plane that the device is on."""
        self.got.sightings.append(plane)

    def add_markers(
        self,
        words: str,
        held: Sequence[Path],
        pointed: Sequence[Path],
        marker_id: int | None = None,
        held_sigma_m: float = HELD_M,
        aim_sigma_deg: float = AIM_DEG,
    ) -> None:
        """Pictures with a marker that is held onto the device, or points at it. Raises InputError,
        CheckFailed."""
        finder = MarkerFinder(words, self.frame.board, marker_id)
        own = finder.board is not None and finder.board == self.frame.board
        for path in (*held, *pointed):
            at = self.place_of(path, board_is_held=own)
            points, pixels = finder.find(self.grey(path), path.name)
            if path in held:
                self.got.sightings.append(
                    held_marker(
                        self.frame.around, at, points, pixels, f"marker held in {path.name}", held_sigma_m
                    )
                )
            else:
                self.got.sightings.append(
                    pointing_marker(
                        self.frame.around,
                        at,
                        points,
                        pixels,
                        f"marker pointing in {path.name}",
                        aim_sigma_deg,
                    )
                )

    def add_sound(
        self,
        path: Path,
        place: str,
        tape_sigma: tuple[float, float] = (0.02, 2.0),
        knocks: bool = False,
        sweep: Sweep | None = None,
        format_name: str | None = None,
    ) -> None:
        """A recording, and where the microphone was: "frame", a picture taken from there, or "x y z yaw".

        tape_sigma: metres and degrees of the latter. Raises InputError, CheckFailed.
        """
        at = self._microphone(place, tape_sigma)
        foa, fs = read_recording(path, format_name)
        self.got.inputs.append(path)
        name = f"sound {path.name}"
        if sweep is not None:
            found = heard_sweep(foa, fs, sweep, at, name)
        elif knocks:
            found = heard_knocks(foa, fs, at, name)
        else:
            found = heard(foa, fs, at, name)
        self.got.sightings.append(found)

    def _microphone(self, place: str, sigma: tuple[float, float]) -> int | MicrophonePlace:
        if place.strip().lower() == "frame":
            return 0
        numbers = _numbers(place)
        if numbers is None:
            return self.place_of(Path(place))
        if len(numbers) != 4:
            raise InputError(
                f'--from is "frame", a picture, or "x y z yaw" (metres in the room, degrees), not {place!r}'
            )
        if not (0.001 <= sigma[0] <= 1 and 0.1 <= sigma[1] <= 30):
            raise InputError(f"--from-sigma {sigma}: 0.001 to 1 m and 0.1 to 30 degrees are possible")
        spread = np.repeat([np.radians(sigma[1]), sigma[0]], 3) ** 2
        return MicrophonePlace(rotation_from_yaw_pitch(numbers[3]), np.array(numbers[:3]), np.diag(spread))


def _numbers(text: str) -> list[float] | None:
    try:
        return [float(word) for word in re.split(r"[\s,]+", text.strip())]
    except ValueError:
        return None


def pixel_of(text: str) -> Floats:
    """A click "u,v". Raises InputError."""
    numbers = _numbers(text)
    if numbers is None or len(numbers) != 2 or not np.isfinite(numbers).all():
        raise InputError(f'a click is "u,v" in pixels, as in --click 412,233.5, not {text!r}')
    return np.array(numbers)


def numbers_of(option: str, text: str, count: int) -> list[float]:
    """So many finite numbers of an option. Raises InputError."""
    numbers = _numbers(text)
    if numbers is None or len(numbers) != count or not np.isfinite(numbers).all():
        raise InputError(f"{option} is {count} numbers, not {text!r}")
    return numbers
