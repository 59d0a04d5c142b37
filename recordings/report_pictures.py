"""The pictures of an episode as a page can carry them: small JPEGs with the sound direction drawn on them."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from recordings import geometry
from recordings.report_model import Facts
from recordings.report_rig import Eye, sideways

Image = NDArray[np.uint8]

THUMBS = 12
VIEWER_FRAMES = 60  # at most; the viewer shows the nearest one
VIEWER_FPS = 5.0
VIEWER_WIDTH, THUMB_WIDTH = 640, 320
PICTURE_BYTES = 1_700_000  # all pictures of the viewer together, before base64
UNKNOWN_DISTANCE_M = 2.0


@dataclass(frozen=True)
class Spot:
    """One mark on a picture, in fractions of its width and height."""

    kind: str  # measured | talker | device | target
    label: str
    x: float
    y: float
    inside: bool
    turn_deg: float
    radius: float  # of the uncertainty, as a fraction of the width
    azimuth_deg: float
    elevation_deg: float


@dataclass(frozen=True)
class Picture:
    """A frame of the video, shrunk."""

    time_s: float
    jpeg: bytes
    thumb: bytes
    width: int
    height: int
    spots: tuple[Spot, ...]


def wanted_times(frame_times_s: NDArray[np.float64]) -> NDArray[np.int64]:
    """Indices of the frames to show: evenly spread over the recording, at most VIEWER_FRAMES."""
    count = len(frame_times_s)
    if count == 0:
        return np.zeros(0, dtype=np.int64)
    span = float(frame_times_s[-1] - frame_times_s[0])
    number = int(np.clip(span * VIEWER_FPS, min(count, THUMBS), min(count, VIEWER_FRAMES)))
    targets = frame_times_s[0] + (np.arange(number) + 0.5) * span / number
    nearest = np.searchsorted(frame_times_s, targets).clip(0, count - 1)
    before = (nearest - 1).clip(0)
    closer = np.abs(frame_times_s[before] - targets) < np.abs(frame_times_s[nearest] - targets)
    return np.unique(np.where(closer, before, nearest))


def thumb_indices(count: int) -> list[int]:
    """Which pictures of the viewer are in the strip."""
    return sorted({int(i) for i in np.linspace(0, count - 1, min(count, THUMBS)).round()}) if count else []


def collect(frames: Iterable[tuple[float, Image]], expected: int, facts: Facts) -> list[Picture]:
    """Shrink and mark the frames (time in seconds, BGR); `expected` shares out the bytes."""
    eye = facts.rig.camera
    budget = PICTURE_BYTES // max(expected, 1)
    pictures = []
    for time_s, image in frames:
        jpeg, shape = shrink(image, VIEWER_WIDTH, budget)
        thumb, _ = shrink(image, THUMB_WIDTH, 14_000)
        if jpeg:
            spots = spots_at(facts, eye, time_s, image.shape[1], image.shape[0])
            pictures.append(Picture(time_s, jpeg, thumb, shape[0], shape[1], spots))
    return pictures


def shrink(image: Image, width: int, budget: int) -> tuple[bytes, tuple[int, int]]:
    """JPEG no wider than `width` and, if any quality from 85 down to 35 allows it, within `budget` bytes."""
    import cv2

    if image.ndim == 2:
        image = np.asarray(cv2.cvtColor(image, cv2.COLOR_GRAY2BGR), dtype=np.uint8)
    if image.shape[1] > width:
        size = (width, max(1, round(image.shape[0] * width / image.shape[1])))
        image = np.asarray(cv2.resize(image, size, interpolation=cv2.INTER_AREA), dtype=np.uint8)
    data = b""
    for quality in (85, 75, 60, 45, 35):
        ok, encoded = cv2.imencode(".jpg", image, [cv2.IMWRITE_JPEG_QUALITY, quality])
        data = bytes(encoded) if ok else b""
        if len(data) <= budget:
            break
    return data, (int(image.shape[1]), int(image.shape[0]))


def spots_at(facts: Facts, eye: Eye | None, time_s: float, width: int, height: int) -> tuple[Spot, ...]:
    """Everything to mark on a picture taken at `time_s`; empty when the rig has no camera."""
    if eye is None:
        return ()
    found = []
    target = _target(facts)
    if target is not None:
        found.append(_spot(eye, "target", target[0], *target[1:], 0.0, width, height))
    for source in facts.truth:
        if source.kind in ("talker", "device") and source.active(time_s):
            azimuth, elevation, distance = source.at(time_s)
            found.append(
                _spot(eye, source.kind, source.label, azimuth, elevation, distance, 0.0, width, height)
            )
    row = facts.directions.at(time_s + eye.sound_late_s)
    if row is not None:
        track = facts.directions
        found.append(
            _spot(
                eye,
                "measured",
                "measured",
                float(track.azimuth_deg[row]),
                float(track.elevation_deg[row]),
                np.nan,
                float(np.nan_to_num(track.uncertainty_deg[row], nan=10.0)),
                width,
                height,
            )
        )
    return tuple(found)


def _target(facts: Facts) -> tuple[str, float, float, float] | None:
    device, microphone = facts.rig.device(facts.target_device), facts.rig.microphone
    if device is None or device.position_m is None or microphone is None:
        return None
    azimuth, elevation, distance = geometry.direction_to_point(
        device.position_m, microphone.position_m.tolist(), microphone.yaw_deg
    )
    return device.name, float(azimuth), float(elevation), float(distance)


def _spot(
    eye: Eye,
    kind: str,
    label: str,
    azimuth: float,
    elevation: float,
    distance: float,
    uncertainty: float,
    width: int,
    height: int,
) -> Spot:
    camera = eye.model(width, height)
    seen = geometry.project_direction(
        azimuth,
        elevation,
        T_mic_camera=eye.pose,
        camera=camera,
        distance_m=distance if np.isfinite(distance) and distance > 0 else UNKNOWN_DISTANCE_M,
    )
    focal = camera.parameters[0] / width
    return Spot(
        kind=kind,
        label=label,
        x=float((seen.edge_u_px[0] + 0.5) / width),
        y=float((seen.edge_v_px[0] + 0.5) / height),
        inside=bool(seen.inside[0]),
        turn_deg=float(seen.turn_deg[0]),
        radius=float(focal * np.tan(np.radians(np.clip(uncertainty, 0.0, 40.0)))),
        azimuth_deg=azimuth,
        elevation_deg=elevation,
    )


def overlay(picture: Picture, unit: float) -> str:
    """The marks as the inside of an SVG whose viewBox is `0 0 1000 (1000 h / w)`; `unit` scales the marks."""
    height = 1000.0 * picture.height / picture.width
    return "".join(_mark(spot, height, unit) for spot in picture.spots)


def _mark(spot: Spot, height: float, unit: float) -> str:
    x, y = spot.x * 1000.0, spot.y * height
    if not spot.inside:
        shape = f"M{-4 * unit:.0f} {-11 * unit:.0f}L{-4 * unit:.0f} {11 * unit:.0f}L{12 * unit:.0f} 0Z"
        # Two marks at the same edge stay apart: the arrows of the truth start further in.
        inwards = {"measured": 14, "talker": 34, "device": 34, "target": 54}[spot.kind] * unit
        turn = np.radians(spot.turn_deg)
        x, y = x - inwards * np.cos(turn), y - inwards * np.sin(turn)
        return (
            f'<path class="arrow {spot.kind}" transform="translate({x:.0f} {y:.0f}) '
            f'rotate({spot.turn_deg:.0f})" d="{shape}"/>'
        )
    if spot.kind == "measured":
        radius = max(spot.radius * 1000.0, 14 * unit)
        return (
            f'<circle class="halo" cx="{x:.0f}" cy="{y:.0f}" r="{radius:.0f}"/>'
            f'<circle class="measured ring" cx="{x:.0f}" cy="{y:.0f}" r="{radius:.0f}"/>'
            f'<circle class="measured core" cx="{x:.0f}" cy="{y:.0f}" r="{4.5 * unit:.0f}"/>'
        )
    size = {"talker": 13, "device": 13, "target": 24}[spot.kind] * unit
    if spot.kind == "talker":
        path = f"M{x - size:.0f} {y:.0f}h{2 * size:.0f}M{x:.0f} {y - size:.0f}v{2 * size:.0f}"
    elif spot.kind == "device":
        path = (
            f"M{x - size:.0f} {y:.0f}L{x:.0f} {y - size:.0f}L{x + size:.0f} {y:.0f}L{x:.0f} {y + size:.0f}Z"
        )
    else:
        corner = size * 0.45
        path = "".join(
            f"M{x + a * size:.0f} {y + b * (size - corner):.0f}v{b * corner:.0f}h{-a * corner:.0f}"
            for a in (-1, 1)
            for b in (-1, 1)
        )
    return f'<path class="halo" d="{path}"/><path class="{spot.kind} shape" d="{path}"/>'


def in_words(spot: Spot | None) -> str:
    """The caption under a picture for the measured direction."""
    if spot is None:
        return "no sound direction"
    where = sideways(spot.azimuth_deg)
    return where if spot.inside else f"outside the picture, {where}"


def caption(picture: Picture, facts: Facts) -> str:
    """What stands at a picture: where the sound comes from at that time. Without a camera pose there is no
    mark, and the direction is that of the microphone."""
    if facts.rig.camera is not None:
        return in_words(measured(picture))
    row = facts.directions.at(picture.time_s)
    return (
        "no sound direction" if row is None else f"sound {sideways(float(facts.directions.azimuth_deg[row]))}"
    )


def measured(picture: Picture) -> Spot | None:
    """The mark of the measured direction, if there is one."""
    return next((s for s in picture.spots if s.kind == "measured"), None)


def data_uri(jpeg: bytes) -> str:
    """A JPEG as an address that needs no file."""
    return "data:image/jpeg;base64," + base64.b64encode(jpeg).decode()


def only(frames: Iterable[tuple[int, Image]], indices: NDArray[np.int64]) -> Iterator[tuple[int, Image]]:
    """Of a full decode the frames with these positions; stops after the last."""
    left = {int(i) for i in indices}
    for position, (_, image) in enumerate(frames):
        if position in left:
            left.remove(position)
            yield position, image
            if not left:
                return
