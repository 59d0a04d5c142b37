"""The room's report: the plan, the picture with the devices on it, and a table; one HTML page."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibration.outputs import refuse_overwriting
from calibration.pose_model import Floats
from calibration.report_page import ReportPage
from calibration.result import load
from calibration.room_devices_file import read_devices
from calibration.room_frame_file import SavedFrame, read_frame
from calibration.room_plan import Mark, RoomDrawing, draw_plan, plan_size, plan_svg
from dsp.errors import InputError
from recordings.canvas import PngCanvas
from recordings.report_labels import Labels
from recordings.storage import storage_errors, write_atomic
from recordings.terminal import counted

_BGR = {
    "device": (163, 103, 0),
    "x": (40, 40, 200),
    "y": (60, 140, 30),
    "z": (190, 80, 20),
    "mic": (30, 38, 179),
}
_CHI_95 = 2.4477


def marks_of(devices: dict[str, Any]) -> list[Mark]:
    """The devices of room.json as marks."""
    return [
        Mark(
            entry["name"],
            np.asarray(entry["position_m"], np.float64),
            np.asarray(entry["covariance"]["matrix"], np.float64),
        )
        for entry in devices.values()
    ]


def drawing_of(frame: SavedFrame, devices: dict[str, Any], size_m: Floats | None = None) -> RoomDrawing:
    """What the plan shows."""
    at = frame.around.standpoints[0]
    return RoomDrawing(
        marks_of(devices), (at.rotation, at.centre_m), frame.around.camera, board_outline(frame),
        frame.microphone, size_m,
    )  # fmt: skip


def board_outline(frame: SavedFrame) -> Floats:
    """(4, 3) corners of the board's pattern in the room."""
    w, h = frame.board.size_m
    flat = np.array([[0, 0, 0], [w, 0, 0], [w, h, 0], [0, h, 0.0]])
    place = frame.around.board
    return np.asarray(flat @ place.rotation.T + place.origin(frame.board))


def annotated(image: NDArray[np.uint8], frame: SavedFrame, devices: dict[str, Any]) -> NDArray[np.uint8]:
    """The picture (rows, columns[, 3]) with devices, their ellipses, the room's axes at the board, and the
    microphone where it is seen, all through the calibrated camera."""
    import cv2

    picture = np.ascontiguousarray(
        cv2.cvtColor(image, cv2.COLOR_GRAY2BGR) if image.ndim == 2 else image
    ).copy()
    size = picture.shape[1] / 1280
    at, camera = frame.around.standpoints[0], frame.around.camera
    thick = max(1, round(2 * size))

    def pixels(points: Floats) -> Floats:
        local = (np.atleast_2d(points) - at.centre_m) @ at.rotation
        found = camera.project(local)
        # Beyond the picture by more than half its size the distortion may fold; there is nothing to draw.
        far = np.any((found < -0.5 * picture.shape[1]) | (found > 1.5 * picture.shape[1]), axis=1)
        found[far | (local[:, 2] < 0.05)] = np.nan
        back = camera.rays(np.nan_to_num(found, nan=-1e6))
        off = np.abs(back - local[:, :2] / np.maximum(local[:, 2:], 1e-9)).max(axis=1)
        found[~(off < 1e-6)] = np.nan
        return found

    def line(points: Floats, colour: tuple[int, int, int], width: int) -> None:
        p = pixels(points)
        for a, b in pairwise(p):
            if np.isfinite(a + b).all():
                ends = [tuple(round(float(v) * 16) for v in q) for q in (a, b)]
                cv2.line(picture, ends[0], ends[1], colour, width, cv2.LINE_AA, 4)

    outline = board_outline(frame)
    line(np.vstack([outline, outline[:1]]), (60, 140, 30), thick)
    origin = frame.around.board.at_m
    labels = Labels(2, 2, picture.shape[1] / size - 2, picture.shape[0] / size - 2)
    for axis, name in enumerate("xyz"):
        tip = origin + 0.35 * np.eye(3)[axis]
        share = np.linspace(0, 1, 8)[:, None]
        line(origin + share * (tip - origin), _BGR[name], 2 * thick)
        end = pixels(tip)[0]
        if np.isfinite(end).all():
            labels.add(float(end[0]) / size, float(end[1]) / size, name, 8, name)
    for mark in marks_of(devices):
        _device(picture, pixels, mark, at.rotation, size, labels, thick)
    if frame.microphone is not None:
        place = pixels(frame.microphone[1])[0]
        if _inside(place, picture):
            _disc(picture, place, 6 * size, _BGR["mic"])
            labels.add(float(place[0]) / size, float(place[1]) / size, "microphone", 10, "mic")
    for placed in labels.placed():
        _words(picture, placed, size, _BGR[placed.kind])
    return np.asarray(picture)


def _device(
    picture: Any, pixels: Any, mark: Mark, rotation: Floats, size: float, labels: Labels, thick: int
) -> None:
    import cv2

    middle = pixels(mark.position_m)[0]
    if not _inside(middle, picture):
        return
    steps = 1e-3 * np.eye(3)
    by = (pixels(mark.position_m + steps) - middle).T / 1e-3
    spread = by @ mark.covariance @ by.T
    if np.isfinite(spread).all():
        values, vectors = np.linalg.eigh(spread)
        angle = np.linspace(0, 2 * np.pi, 49)
        circle = np.stack([np.cos(angle), np.sin(angle)], axis=1)
        ring = middle + _CHI_95 * (circle * np.sqrt(np.maximum(values, 0))) @ vectors.T
        points = np.rint(ring * 16).astype(np.int32)
        cv2.polylines(picture, [points], True, (255, 255, 255), thick + 2, cv2.LINE_AA, 4)
        cv2.polylines(picture, [points], True, _BGR["device"], thick, cv2.LINE_AA, 4)
    _disc(picture, middle, 4.5 * size, _BGR["device"])
    u, v = (float(x) / size for x in middle)
    labels.keep_clear(u, v, 8)
    labels.add(u, v, mark.name, 12, "device", first=True)


def _inside(pixel: Floats, picture: Any) -> bool:
    rows, columns = picture.shape[:2]
    return bool(
        np.isfinite(pixel).all() and -0.5 <= pixel[0] <= columns - 0.5 and -0.5 <= pixel[1] <= rows - 0.5
    )


def _disc(picture: Any, at: Floats, radius: float, colour: tuple[int, int, int]) -> None:
    import cv2

    place = (round(float(at[0]) * 16), round(float(at[1]) * 16))
    cv2.circle(picture, place, round((radius + 1.5) * 16), (255, 255, 255), -1, cv2.LINE_AA, 4)
    cv2.circle(picture, place, round(radius * 16), colour, -1, cv2.LINE_AA, 4)


def _words(picture: Any, placed: Any, size: float, colour: tuple[int, int, int]) -> None:
    import cv2

    scale, thick = 0.5 * size, max(1, round(1.2 * size))
    words = placed.words.encode("ascii", "replace").decode()
    wide = cv2.getTextSize(words, cv2.FONT_HERSHEY_DUPLEX, scale, thick)[0][0]
    x = placed.x * size - {"start": 0, "middle": wide / 2, "end": wide}[placed.anchor]
    place = (round(x), round(placed.y * size))
    cv2.putText(
        picture, words, place, cv2.FONT_HERSHEY_DUPLEX, scale, (255, 255, 255), thick + 4, cv2.LINE_AA
    )
    cv2.putText(picture, words, place, cv2.FONT_HERSHEY_DUPLEX, scale, colour, thick, cv2.LINE_AA)


def write_room_page(
    path: Path,
    room: Path,
    frame: SavedFrame,
    devices: dict[str, Any],
    picture: NDArray[np.uint8] | None,
    size_m: Floats | None = None,
) -> Path:
    """The page of room.json. Raises StorageError."""
    whole = load(room, "room")
    page = ReportPage("Room", room.name)
    at = frame.around.standpoints[0]
    worst = max((entry["radius95_m"] for entry in devices.values()), default=None)
    if worst is None:
        page.verdict(True, "room frame good to use; no device placed yet")
    else:
        each = "" if len(devices) == 1 else " each"
        placed = f"{counted(len(devices), 'device')} placed, known to {100 * worst:.0f} cm{each} at 95 %"
        page.verdict(True, placed)
    page.notes(whole.warnings)
    page.svg(plan_svg(drawing_of(frame, devices, size_m)), "The room to scale.")
    if picture is not None:
        page.picture(
            annotated(picture, frame, devices),
            "The devices in the picture, through the calibrated camera; x red, y green, z blue, 35 cm each.",
            width_px=1280,
        )
    if devices:
        page.heading("Devices")
        page.table(
            ("device", "x m", "y m", "z m", "within (95 %)", "from the microphone", "how"),
            [_row(key, entry) for key, entry in devices.items()],
        )
    page.heading("Frame")
    residuals = whole.residuals.get("frame", {})
    described = frame.section["camera"]
    facts = [
        ("board", f"{frame.board}, at {_place(frame.around.board.at_m)}"),
        ("camera at", f"{_place(at.centre_m)}, known to {100 * max(described['position_sigma_m']):.1f} cm"),
        (
            "camera looks",
            f"yaw {described['yaw_deg']:.1f}, pitch {described['pitch_deg']:.1f}, roll "
            f"{described['roll_deg']:.1f} degrees, known to {max(described['turn_sigma_deg']):.2f}",
        ),
        (
            "corners",
            f"{residuals.get('rms_px', 0.0):.2f} px RMS, {len(residuals.get('corner_ids', []))} of them",
        ),
    ]
    heard = frame.section.get("microphone")
    if heard is not None:
        facts.append(
            (
                "microphone at",
                f"{_place(heard['position_m'])}, known to {100 * max(heard['position_sigma_m']):.1f} cm",
            )
        )
        facts.append(
            (
                "microphone faces",
                f"yaw {heard['yaw_deg']:.1f}, pitch {heard['pitch_deg']:.1f}, roll {heard['roll_deg']:.1f} "
                f"degrees, known to {max(heard['turn_sigma_deg']):.2f}",
            )
        )
    page.facts(facts)
    return page.write(path)


def _place(p: Any) -> str:
    return ", ".join(f"{float(v):.3f}" for v in p) + " m"


def _row(key: str, entry: dict[str, Any]) -> list[Any]:
    if entry.get("azimuth_deg") is None:
        seen = "–"
    else:
        angles = f"{entry['azimuth_deg']:.1f}°, {entry['elevation_deg']:.1f}°, {entry['distance_m']:.2f} m"
        seen = f"{angles}; known to {entry['angle_sigma_deg']:.1f}°"
    name = f"{entry['name']} ({key})" if entry["name"] != key else key
    x, y, z = (f"{float(v):.2f}" for v in entry["position_m"])
    return [name, x, y, z, f"{100 * entry['radius95_m']:.1f} cm", seen, entry["method"]]


def read_picture(path: Path) -> NDArray[np.uint8]:
    """A picture as the sensor gave it, BGR. Raises InputError."""
    import cv2

    image = (
        cv2.imread(str(path), cv2.IMREAD_COLOR | cv2.IMREAD_IGNORE_ORIENTATION) if path.is_file() else None
    )
    if image is None:
        raise InputError(f"{path}: no such file, or it cannot be read as a picture")
    return np.asarray(image, np.uint8)


def refresh_page(
    room_file: Path, page: Path | None, camera: Path | None, rig: Path | None, picture: Path | None = None
) -> Path:
    """Write the page of room.json as it is now; beside it when `page` is None. picture: instead of the first
    one of the frame. Raises InputError, StorageError."""
    saved = read_frame(room_file, camera)
    shown = picture or (saved.pictures[0] if saved.pictures else None)
    image = None if shown is None else read_picture(shown)
    size = (saved.around.camera.width_px, saved.around.camera.height_px)
    if image is not None and (image.shape[1], image.shape[0]) != size:
        raise InputError(
            f"{shown}: {image.shape[1]}x{image.shape[0]} pixels; the camera was calibrated at "
            f"{size[0]}x{size[1]}"
        )
    target = page or room_file.with_suffix(".html")
    refuse_overwriting({"--page": target}, [shown])
    return write_room_page(target, room_file, saved, read_devices(room_file), image, room_size(rig))


def write_plan(path: Path, saved: SavedFrame, devices: dict[str, Any], size_m: Floats | None) -> None:
    """The plan alone, as .svg or .png. Raises InputError, StorageError."""
    drawing = drawing_of(saved, devices, size_m)
    if path.suffix.lower() == ".png":
        canvas = PngCanvas(*plan_size(drawing))
        draw_plan(canvas, drawing)
        data = canvas.data()
    elif path.suffix.lower() == ".svg":
        data = plan_svg(drawing)
    else:
        raise InputError(f"--plan {path}: .svg or .png")
    with storage_errors(path.parent):
        write_atomic(path, data)


def room_size(rig: Path | None) -> Floats | None:
    """The room's size from a rig file, (3,). Raises InputError."""
    if rig is None:
        return None
    from capture.rig import load_rig

    return np.asarray(load_rig(rig).room.size_m)
