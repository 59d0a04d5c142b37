"""`hearth calibrate room device`, behind the command: from what was told to a device in room.json."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from calibration.room_devices import Located, locate
from calibration.room_devices_file import read_devices, save_device, write_devices
from calibration.room_devices_gather import Gathered, Gatherer, numbers_of, pixel_of
from calibration.room_devices_rig import device_id, find_device
from calibration.room_devices_sightings import plane_of_words
from calibration.room_frame_file import read_frame
from dsp.errors import CheckFailed, InputError


@dataclass(frozen=True)
class Told:
    """What the command line says of a device; fields as its options."""

    pictures: list[Path] = field(default_factory=list)
    clicks: list[str] = field(default_factory=list)
    plane: str = ""
    plane_sigma_m: float = 0.01
    lift_m: float = 0.0
    marker: str = ""
    marker_id: int | None = None
    held: list[Path] = field(default_factory=list)
    pointed: list[Path] = field(default_factory=list)
    held_sigma_m: float = 0.02
    aim_sigma_deg: float = 2.0
    sounds: list[Path] = field(default_factory=list)
    heard_from: list[str] = field(default_factory=list)
    from_sigma: str = "0.02 2"
    knocks: bool = False
    sweep: str = ""
    format_name: str | None = None
    within_m: float = 0.10
    rig: Path | None = None
    kind: str = ""


@dataclass(frozen=True)
class Placed:
    """A device that was placed, or why it was not: `refused` with `problems`."""

    key: str
    entry: dict[str, Any]
    words: str
    refused: CheckFailed | None = None
    problems: list[dict[str, str]] = field(default_factory=list)


def place_device(room_file: Path, camera: Path | None, name: str, told: Told) -> Placed:
    """Locate a device and write it into room.json; a refusal comes back as such. Raises InputError."""
    frame = read_frame(room_file, camera)
    key, shown, kind, room, size_m = _who(name, told)
    for option, value in (("--plane-sigma", told.plane_sigma_m), ("--held-sigma", told.held_sigma_m)):
        if not 0.0005 <= value <= 1.0:
            raise InputError(f"{option} {value}: 0.0005 to 1 m is possible")
    if not 0.1 <= told.aim_sigma_deg <= 30:
        raise InputError(f"--aim-sigma {told.aim_sigma_deg}: 0.1 to 30 degrees is possible")
    if not abs(told.lift_m) <= 5:
        raise InputError(f"--lift {told.lift_m}: up to 5 m is possible")
    if not (told.clicks or told.held or told.pointed or told.sounds or told.plane):
        return _described(room_file, key, shown, kind, room)
    try:
        gatherer = Gatherer(frame)
        _gather(gatherer, told, size_m)
        found = locate(frame.around, gatherer.got.sightings, told.within_m, told.lift_m)
        if size_m is not None:
            _check_inside(found, size_m, gatherer.got)
        found.require()
    except CheckFailed as error:
        return Placed(key, {}, "", error, _problems(error))
    entry = save_device(room_file, key, shown, kind, room, found, gatherer.got)
    return Placed(key, entry, in_words(key, found))


def _described(room_file: Path, key: str, name: str, kind: str | None, room: str | None) -> Placed:
    """Nothing was seen or heard: a device that is placed already gets its type and name."""
    devices = read_devices(room_file)
    if kind is None or key not in devices:
        raise InputError(
            "nothing was said of where the device is: --click (with --picture), --pick, --held, --pointed or"
            " --sound"
        )
    shown = devices[key]["name"] if name == key else name
    entry = {**devices[key], "name": shown, "type": kind, "room": room}
    write_devices(room_file, {**devices, key: entry})
    return Placed(key, entry, f"{key} is now of type {kind}, called {shown}; it stays where it is")


def _who(name: str, told: Told) -> tuple[str, str, str | None, str | None, Any]:
    """Id, name, type, room and the room's size, from the rig where one is given."""
    if told.rig is None:
        return device_id(name), name.strip(), told.kind or None, None, None
    from capture.rig import load_rig

    rig = load_rig(told.rig)
    size = np.asarray(rig.room.size_m)
    try:
        device = find_device(rig, name)
    except InputError:
        if not told.kind:  # with a type it may be a new device
            raise
        return device_id(name), name.strip(), told.kind, rig.room.name, size
    if told.kind and told.kind != device.type:
        raise InputError(f"{device.id} is of type {device.type} in {told.rig}, not {told.kind}")
    return device.id, device.name, device.type, device.room, size


def _gather(gatherer: Gatherer, told: Told, size_m: Any) -> None:
    if len(told.pictures) not in (len(told.clicks), 0) or (not told.pictures and len(told.clicks) > 1):
        raise InputError(
            f"{len(told.clicks)} --click and {len(told.pictures)} --picture: give one click for each picture,"
            " in the same order (one click alone is in the frame's picture)"
        )
    for number, text in enumerate(told.clicks):
        gatherer.add_click(told.pictures[number] if told.pictures else None, pixel_of(text))
    if told.plane:
        height = None if size_m is None else float(size_m[2])
        gatherer.add_plane(plane_of_words(told.plane, height, told.plane_sigma_m))
    if told.held or told.pointed:
        if not told.marker:
            raise InputError('--held and --pointed need --marker, like "4x4_50 60mm"')
        gatherer.add_markers(
            told.marker, told.held, told.pointed, told.marker_id, told.held_sigma_m, told.aim_sigma_deg
        )
    if not told.sounds:
        return
    places = told.heard_from or (["frame"] if len(told.sounds) == 1 else [])
    if len(places) != len(told.sounds):
        raise InputError(
            f"{len(told.sounds)} --sound and {len(told.heard_from)} --from: say of each recording where the"
            ' microphone was: "frame", a picture taken there, or "x y z yaw"'
        )
    metres, degrees = numbers_of("--from-sigma", told.from_sigma, 2)
    sweep = None
    if told.sweep:
        from calibration.sweep import Sweep

        sweep = Sweep(48000, *numbers_of("--sweep", told.sweep, 3))
    for path, place in zip(told.sounds, places, strict=True):
        gatherer.add_sound(path, place, (metres, degrees), told.knocks, sweep, told.format_name)


def _check_inside(found: Located, size_m: Any, got: Gathered) -> None:
    """A place clearly outside of the room is no place; a little outside is told."""
    sigma = np.sqrt(np.diag(found.covariance))
    out = np.maximum(-found.position_m, found.position_m - size_m)
    if np.any(out > 0.2 + 3 * sigma):
        axis = "xyz"[int(np.argmax(out))]
        raise CheckFailed(
            f"no position to stand for: {axis} = {found.position_m['xyz'.index(axis)]:.2f} m is outside of"
            " the room of the rig (check --plane, --board-at of the frame, and room.size_m of rig.yaml)"
        )
    if np.any(out > 0):
        got.warnings.append("its place is a little outside of the room of the rig (room.size_m)")


def _problems(error: CheckFailed) -> list[dict[str, str]]:
    """Problem and remedy of a message "what: problem (remedy); problem (remedy)"."""
    text = str(error).removeprefix("no position to stand for: ")
    found = []
    for part in text.split("); "):
        problem, _, remedy = part.rstrip(")").partition(" (")
        found.append({"problem": problem, "remedy": remedy})
    return found


def in_words(key: str, found: Located) -> str:
    """One sentence: where it is, and how surely."""
    x, y, z = found.position_m
    seen = ""
    if found.azimuth_deg is not None and found.elevation_deg is not None and found.distance_m is not None:
        side = "left" if found.azimuth_deg >= 0 else "right"
        height = f"{abs(found.elevation_deg):.1f} {'up' if found.elevation_deg >= 0 else 'down'}"
        seen = (
            f"; from the microphone {abs(found.azimuth_deg):.1f} degrees {side}, {height}, "
            f"{found.distance_m:.2f} m (angle known to {found.angle_sigma_deg:.1f})"
        )
    return (
        f"{key} at x {x:.3f}, y {y:.3f}, z {z:.3f} m, within {100 * found.radius95_m:.1f} cm at 95 % "
        f"({found.method}){seen}"
    )


def place_by_picking(
    room_file: Path, camera: Path | None, name: str, told: Told, say: Callable[[str], None],
    longest_s: float = 1800.0, opened: Callable[[str], None] | None = None,
) -> Placed:  # fmt: skip
    """Let the device be clicked in a page; `opened` is called with its address instead of the browser."""
    from calibration.room_devices_pick import PickServer

    frame = read_frame(room_file, camera)
    pictures = told.pictures or frame.pictures[:1]
    if told.clicks:
        raise InputError("--pick and --click are two ways of the same; give one")
    if not pictures:
        raise InputError("the frame's pictures are gone or changed; give --picture")
    result: list[Placed] = []

    def answer(typed: str, clicks: list[tuple[float, float] | None]) -> tuple[bool, str]:
        chosen = [(p, c) for p, c in zip(pictures, clicks, strict=True) if c is not None]
        words = replace(
            told, pictures=[p for p, _ in chosen], clicks=[f"{c[0]!r},{c[1]!r}" for _, c in chosen]
        )
        placed = place_device(room_file, camera, typed, words)
        if placed.refused is not None:
            return False, str(placed.refused)
        result.append(placed)
        return True, placed.words

    hint = (
        f"It is on the plane {told.plane}: click where it stands."
        if told.plane
        else "Click the same spot of the device in every picture."
        if len(pictures) > 1
        else "One picture gives a direction only, unless a plane, a marker or a sound was given with it."
    )
    shown = [(path.name, _png(path)) for path in pictures]
    with PickServer(shown, name, hint, answer) as server:
        say(f"click the device in {server.address}")
        if opened is not None:
            opened(server.address)
        else:
            import webbrowser

            webbrowser.open(server.address)
        server.wait(longest_s)
    return result[-1]


def _png(path: Path) -> bytes:
    import cv2

    from calibration.room_plan_page import read_picture

    return bytes(cv2.imencode(".png", read_picture(path), [cv2.IMWRITE_PNG_COMPRESSION, 3])[1].tobytes())
