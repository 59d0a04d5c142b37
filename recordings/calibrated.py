"""The calibrations that hold for a rig or an episode, by kind and camera.

A rig file points to result files (`calibration:` in rig.yaml); an episode carries the bytes of those that
were valid when it was recorded, in its folder `calibration/`: `camera.json`, `pose.json`, `sync.json`,
`capsules.json`, `room.json`, and `<name>/camera.json` and so on for a further camera. Both are read here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from dsp.errors import InputError
from recordings.calibration_result import CalibrationResult, Kind, load
from recordings.camera_model import CameraModel
from recordings.geometry import Floats
from recordings.storage import storage_errors

if TYPE_CHECKING:
    from dsp.foa_correction import FoaCorrection

FOLDER = "calibration"
OF_A_CAMERA: tuple[Kind, ...] = ("camera", "pose", "sync")
OF_THE_RIG: tuple[Kind, ...] = (*OF_A_CAMERA, "capsules", "room")
MAX_LEVER_ARM_M = 10.0  # farther from the microphone is no camera of one rig


@dataclass(frozen=True)
class Calibrations:
    """Result files by (camera, kind); camera "" is the main one, and that of `capsules` and `room`."""

    results: dict[tuple[str, Kind], CalibrationResult] = field(default_factory=dict)
    files: dict[tuple[str, Kind], bytes] = field(default_factory=dict, repr=False)

    def __bool__(self) -> bool:
        return bool(self.results)

    def get(self, kind: Kind, camera: str = "") -> CalibrationResult | None:
        """The result of one kind, or None when the rig has none."""
        return self.results.get((camera, kind))

    def camera(self, camera: str = "") -> CameraModel | None:
        """Intrinsics of a camera. Raises InputError for a result that holds none."""
        found = self.get("camera", camera)
        return None if found is None else CameraModel.from_fields(found.result)

    def T_mic_camera(self, camera: str = "") -> Floats | None:
        """Pose of a camera in the microphone frame, (4, 4). Raises InputError for a result without one."""
        found = self.get("pose", camera)
        if found is None:
            return None
        try:
            pose = np.asarray(found.result.get("T_mic_camera"), dtype=np.float64)
        except (TypeError, ValueError):
            pose = np.empty(0)
        turn = pose[:3, :3] if pose.shape == (4, 4) else np.zeros((3, 3))
        if not np.allclose(turn @ turn.T, np.eye(3), atol=1e-6) or np.linalg.det(turn) < 0:
            raise InputError(
                "the pose's result holds no rigid T_mic_camera (4 x 4); run `hearth calibrate pose` again"
            )
        away = float(np.linalg.norm(pose[:3, 3]))
        if not away <= MAX_LEVER_ARM_M:
            raise InputError(
                f"the pose's result puts the camera {away:.4g} m from the microphone, more than"
                f" {MAX_LEVER_ARM_M:g} m: were its points given in another unit than metres? Run"
                " `hearth calibrate pose` again with metres"
            )
        return pose

    def sound_late(self, camera: str = "") -> tuple[float, float] | None:
        """(ms that the sound's stamps are late against this camera's, standard uncertainty in ms), or None.

        Raises InputError for a result that holds no such offset.
        """
        found = self.get("sync", camera)
        if found is None:
            return None
        offset = found.result.get("offset_ms")
        if isinstance(offset, bool) or not isinstance(offset, int | float) or abs(offset) > 10_000:
            raise InputError(
                f"the sync's result holds no usable offset_ms ({offset!r}); run `hearth calibrate sync` again"
            )
        sigma = 0.0 if found.covariance is None else found.covariance.sigma("offset_ms")
        return float(offset), sigma

    def correction(self, source: str | None = None) -> FoaCorrection | None:
        """What the capsules' calibration does to the sound, or None without one.

        source: the format of the channels that it is for. Raises InputError for a result that holds none, or
        one for another format.
        """
        found = self.get("capsules")
        if found is None:
            return None
        from recordings.capsule_correction import read_correction

        return read_correction(msgspec.to_builtins(found), source)

    def check_picture(self, width_px: int, height_px: int, camera: str = "") -> None:
        """Raises InputError when a camera was calibrated at another picture size than the one in use."""
        model = self.camera(camera)
        if model is not None and (model.width_px, model.height_px) != (width_px, height_px):
            raise InputError(
                f"{_file_name(camera, 'camera')} was made at {model.width_px}x{model.height_px} pixels, the "
                f"camera gives {width_px}x{height_px}: what a lens does depends on the mode. Calibrate at "
                "this size, or set width_px and height_px of the rig to that one"
            )

    def keep(self, add_file: Callable[[str, bytes], None]) -> None:
        """Put the files into an episode, byte for byte: calls `add_file(name, data)` for each."""
        for (camera, kind), data in self.files.items():
            add_file(f"{FOLDER}/{_file_name(camera, kind)}", data)

    def lines(self) -> Iterator[str]:
        """One line per result: what, how old, and its first warning."""
        for (camera, kind), result in self.results.items():
            age = result.age_days
            old = "" if age is None else f", {age:.0f} days old" if age >= 1 else ", of today"
            said = f": {result.warnings[0]}" if result.warnings else ""
            yield f"{kind}{f' of {camera}' if camera else ''}{old}{said}"


def read_results(paths: dict[tuple[str, Kind], Path]) -> Calibrations:
    """Read result files. Raises InputError (which names the file) for one that is missing, no result, of
    another kind or that cannot be used, StorageError for one that cannot be read."""
    results, files = {}, {}
    for (camera, kind), path in paths.items():
        results[camera, kind] = load(path, kind)
        with storage_errors(path, "read"):
            files[camera, kind] = path.read_bytes()
        one = Calibrations({("", kind): results[camera, kind]})
        try:
            # So that a take does not find out at its end.
            one.camera(), one.T_mic_camera(), one.sound_late(), one.correction()
        except InputError as error:
            raise InputError(f"{path}: {error}") from None
    return Calibrations(results, files)


def read_snapshot(episode: str | Path) -> Calibrations:
    """The calibrations that an episode carries; none when it has no such folder. Raises InputError,
    StorageError as `read_results`."""
    return read_folder(Path(episode) / FOLDER)


def read_folder(root: Path) -> Calibrations:
    """The calibrations in a folder that is laid out as that of an episode. Raises as `read_results`."""
    found: dict[tuple[str, Kind], Path] = {}
    for folder in (root, *sorted(path for path in root.glob("*") if path.is_dir())):
        camera = "" if folder == root else folder.name
        for kind in OF_A_CAMERA if camera else OF_THE_RIG:
            if (folder / f"{kind}.json").is_file():
                found[camera, kind] = folder / f"{kind}.json"
    return read_results(found)


def _file_name(camera: str, kind: str) -> str:
    return f"{camera}/{kind}.json" if camera else f"{kind}.json"
