"""The device map on rooms with known truth, beside simpler ways: `python -m bench.calibration_room`.

Random rooms (3.5 x 3 x 2.4 to 6.5 x 5.5 x 3 m), an A3 board on the floor or on a wall, a rig that sees it
from 1 to 2.4 m, devices 1 to 4.5 m from the camera. Corners have 0.3 px of noise, clicks 3 px, planes 1 cm, a
held marker is 2 cm (each axis) off; the intrinsics and the microphone's place on the camera are drawn from
the covariance of their own calibrations (`bench.room_scenes`). Sound: fans and talkers in simulated rooms of
RT60 0.3 to 0.5 s (`bench.rooms`), the rig carried to places from which it sees the board.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from bench import room_scenes
from bench.figures import end_of_part, figure, not_measured, note, peer, quick
from bench.room_scenes import BOARD, Scene, TruePlace, angle_deg
from calibration.board import Board
from calibration.pose_model import rotation_from_vector
from calibration.room_devices import Located, locate
from calibration.room_devices_seen import (
    MarkerFinder,
    heard,
    heard_knocks,
    held_marker,
    pointing_marker,
    seen_from,
)
from calibration.room_devices_sightings import (
    AIM_DEG,
    CLICK_PX,
    HELD_M,
    PLANE_M,
    Click,
    Sighting,
    Surroundings,
    plane_of_words,
)
from calibration.room_frame import RoomFrame, WeakFrame, find_frame
from calibration.room_frame_board import FarDetector
from calibration.room_frame_pose import microphone_at
from dsp.errors import CheckFailed, InputError
from recordings.camera_model import CameraModel

Floats = NDArray[np.float64]
SEED = 71
MARKER_M = 0.10
PICTURES = 5
MOST_PLACES = 4


@dataclass
class Errors:
    """What became of the devices of one method: metres and degrees off, in sigmas, refusals, peers."""

    metres: list[float] = field(default_factory=list)
    degrees: list[float] = field(default_factory=list)
    sigmas: list[float] = field(default_factory=list)
    angle_sigmas: list[float] = field(default_factory=list)
    doa: list[tuple[float, float]] = field(default_factory=list)
    places: list[int] = field(default_factory=list)
    peers: dict[str, list[float]] = field(default_factory=dict)
    refused: int = 0
    tried: int = 0
    reasons: dict[str, int] = field(default_factory=dict)

    def add(self, found: Located, room: Scene, around: Surroundings, truth: Floats) -> None:
        """One that was not refused."""
        error = found.position_m - truth
        self.metres.append(float(np.linalg.norm(error)))
        self.sigmas += list(np.linalg.solve(np.linalg.cholesky(found.covariance), error))
        turn, place = room.microphone(room.rig)
        assert around.mount is not None and found.angle_sigma_deg is not None
        believed = microphone_at(around.standpoints[0], around.mount, around.camera_covariance)
        told = believed.rotation.T @ (found.position_m - believed.place_m)
        off = angle_deg(told, turn.T @ (truth - place))
        self.degrees.append(off)
        self.angle_sigmas.append(off / found.angle_sigma_deg)

    def refuse(self, why: str) -> None:
        self.refused += 1
        key = why.split(":")[1].split("(")[0].strip() if ":" in why else why
        key = "".join(c for c in key if not c.isdigit())[:60]
        self.reasons[key] = self.reasons.get(key, 0) + 1

    def peer(self, name: str, place: Floats, truth: Floats) -> None:
        self.peers.setdefault(name, []).append(float(np.linalg.norm(place - truth)))


def _surroundings(room: Scene) -> tuple[RoomFrame, Surroundings] | None:
    seen = [(f"{k}", room.detect(room.rig)) for k in range(PICTURES)]
    try:
        frame = find_frame(seen, BOARD, room.place, room.believed, room.covariance, room.believed_mount)
    except WeakFrame:
        return None
    return frame, Surroundings(
        room.believed, room.covariance, room.place, [frame.standpoint], room.believed_mount
    )


def _judge(
    errors: Errors, room: Scene, around: Surroundings, sightings: list[Sighting], truth: Floats
) -> None:
    errors.tried += 1
    try:
        found = locate(around, sightings).require()
    except CheckFailed as error:
        errors.refuse(str(error))
        return
    errors.add(found, room, around, truth)


def _nominal_ray(room: Scene, at: TruePlace, pixel: Floats) -> tuple[Floats, Floats]:
    """What a rig file gives without calibration: pinhole of the nominal field of view, camera measured by
    tape and eye: 2 cm, 1 degree about each axis."""
    rng = room.rng
    matrix = CameraModel.nominal(room.camera.width_px, room.camera.height_px, 70.0).matrix
    turn = rotation_from_vector(np.radians(1.0) * rng.standard_normal(3)) @ at.rotation
    ray = np.linalg.solve(matrix, np.array([*pixel, 1.0]))
    return at.centre + 0.02 * rng.standard_normal(3), turn @ ray


def _midpoint(rays: list[tuple[Floats, Floats]]) -> Floats:
    """The point nearest to rays, all alike."""
    h, g = np.zeros((3, 3)), np.zeros(3)
    for origin, direction in rays:
        unit = direction / np.linalg.norm(direction)
        across = np.eye(3) - np.outer(unit, unit)
        h, g = h + across, g + across @ origin
    return np.asarray(np.linalg.solve(h, g))


def _plane(errors: Errors, room: Scene) -> None:
    made = _surroundings(room)
    kind = str(room.rng.choice(["floor", "table", "wall"]))
    placed = room_scenes.device(room.rng, room, kind)
    if made is None or placed is None:
        return
    truth, words = placed
    plane = plane_of_words(words)
    real = truth + plane.normal * PLANE_M * room.rng.standard_normal()
    pixel = room.click(room.rig, real)
    _judge(errors, room, made[1], [Click(0, pixel), plane], real)
    origin, ray = _nominal_ray(room, room.rig, pixel)
    along = (plane.offset_m - plane.normal @ origin) / (plane.normal @ ray)
    errors.peer("rig file alone (nominal field of view, tape and eye)", origin + along * ray, real)


def _moved(room: Scene, device_m: Floats) -> TruePlace | None:
    """A second place 0.5 to 1.8 m aside from which device and board are seen."""
    return room_scenes.standpoint(
        room.rng, room.size, room.place, room.camera, room.rig.centre, (0.5, 1.8), also=device_m
    )


def _two_views(errors: Errors, room: Scene) -> None:
    import cv2

    made = _surroundings(room)
    placed = room_scenes.device(room.rng, room)
    other = None if placed is None else _moved(room, placed[0])
    if made is None or placed is None or other is None:
        return
    truth, around = placed[0], made[1]
    at, _ = seen_from(around, made[0].board, room.detect(other), "second")
    clicks = [room.click(room.rig, truth), room.click(other, truth)]
    _judge(errors, room, around, [Click(0, clicks[0]), Click(at, clicks[1])], truth)
    flat = room.believed.rays(np.array(clicks))
    projections = []
    for s in (around.standpoints[0], around.standpoints[at]):
        projections.append(np.c_[s.rotation.T, -s.rotation.T @ s.centre_m])
    four = cv2.triangulatePoints(*projections, flat[0], flat[1]).ravel()
    errors.peer("cv2.triangulatePoints, same poses, nothing refused", four[:3] / four[3], truth)
    nominal = [_nominal_ray(room, p, c) for p, c in zip((room.rig, other), clicks, strict=True)]
    errors.peer("rig file alone (nominal field of view, tape and eye)", _midpoint(nominal), truth)


def _marker(errors: Errors, room: Scene) -> None:
    import cv2

    made = _surroundings(room)
    placed = room_scenes.device(room.rng, room)
    if made is None or placed is None:
        return
    truth, around = placed[0], made[1]
    middle = truth + HELD_M * room.rng.standard_normal(3)
    # Held so that the camera sees it, within 50 degrees.
    towards = room_scenes.looking(middle, room.rig.centre, float(room.rng.uniform(-40, 40)))
    tilt = rotation_from_vector(np.radians(room.rng.uniform(0, 50)) * _unit(room.rng.standard_normal(3)))
    turn = tilt @ towards.rotation @ np.diag([-1.0, 1.0, -1.0])
    half = MARKER_M / 2
    outline = np.array([[-half, -half, 0], [half, -half, 0], [half, half, 0], [-half, half, 0]])
    corners = middle + outline @ turn.T
    if not room.rig.sees(room.camera, corners):
        return
    pixels = room.rig.pixels(room.camera, corners) + room_scenes.CORNER_PX * room.rng.standard_normal((4, 2))
    errors_before = errors.tried
    sighting = held_marker(around, 0, outline, pixels, "marker")
    _judge(errors, room, around, [sighting], truth)
    assert errors.tried == errors_before + 1
    k = room.believed
    ok, _, at = cv2.solvePnP(outline, pixels, k.matrix, k.distortion, flags=cv2.SOLVEPNP_IPPE)
    own = around.standpoints[0]
    if ok:
        errors.peer("cv2.solvePnP, same frame", own.rotation @ at.ravel() + own.centre_m, truth)


def _pointed(errors: Errors, room: Scene) -> None:
    """An A4 board whose top edge points at the device, by a hand good to 2 degrees, from two sides, half a
    metre away; the camera stays where it is."""
    made = _surroundings(room)
    placed = room_scenes.device(room.rng, room)
    if made is None or placed is None:
        return
    truth, around = placed[0], made[1]
    board = Board.charuco(5, 7, 0.036, 0.027, "5x5_50")
    points, middle = board.corners_m, board.corners_m.mean(axis=0)
    sightings: list[Sighting] = []
    ways: list[Floats] = []
    for _ in range(200):
        way = _unit(room.rng.standard_normal(3))
        centre = truth - room.rng.uniform(0.3, 0.6) * way
        towards = room.rig.centre - centre
        out = towards - (towards @ way) * way
        seen_at = np.degrees(np.arccos(np.clip(np.linalg.norm(out) / np.linalg.norm(towards), 0, 1)))
        if seen_at > 50 or any(not 60 <= angle_deg(w, way) <= 120 for w in ways):
            continue
        if np.any(centre < 0.05) or np.any(centre > room.size - 0.05):
            continue
        aimed = rotation_from_vector(np.radians(AIM_DEG) * room.rng.standard_normal(3))
        down, inwards = -way, -_unit(out)
        turn = aimed @ np.stack([np.cross(down, inwards), down, inwards], axis=1)
        corners = centre + (points - middle) @ turn.T
        if not room.rig.sees(room.camera, corners):
            continue
        pixels = room.rig.pixels(room.camera, corners)
        pixels = pixels + room_scenes.CORNER_PX * room.rng.standard_normal(pixels.shape)
        try:
            sightings.append(pointing_marker(around, 0, points, pixels, "pointed"))
        except CheckFailed:
            continue
        ways.append(way)
        if len(ways) == 2:
            break
    if len(ways) == 2:
        _judge(errors, room, around, sightings, truth)


def _unit(v: Floats) -> Floats:
    return np.asarray(v / np.linalg.norm(v))


def _sound(errors: Errors, room: Scene, kind: str) -> None:
    """Recorded from two places, and, as long as that is refused, from a third and a fourth."""
    import dsp
    from bench.rooms import FS, Room, capsule_responses, record, speech

    made = _surroundings(room)
    placed = room_scenes.device(room.rng, room)
    points = [] if placed is None else _around(room, placed[0])
    if made is None or placed is None or len(points) < MOST_PLACES:
        return
    truth, around = placed[0], made[1]
    rt60 = float(room.rng.uniform(0.3, 0.5))
    make = {"voice": speech, "fan": _fan, "knocks": _knocks}[kind]
    dry = make(room.rng, 4.0)
    sightings: list[Sighting] = []
    rays: list[tuple[Floats, Floats]] = []
    errors.tried += 1
    why = ""
    for number, point in enumerate(points, 1):
        at, _ = seen_from(around, BOARD, room.detect(point), "place")
        turn, place = room.microphone(point)
        # The simulation's microphone stands square in the room: the sound is turned into its own frame.
        response = capsule_responses(Room(room.size, rt60, place), truth)
        capsules = record([response], [dry], 50.0 if kind == "knocks" else 30.0, room.rng)
        foa = turned(dsp.convert(capsules, source="a", target="ambix"), turn.T)
        try:
            sighting = (heard_knocks if kind == "knocks" else heard)(foa, FS, at, "sound")
        except CheckFailed as error:
            why = str(error)
            continue
        sightings.append(sighting)
        errors.doa.append((angle_deg(sighting.direction, turn.T @ (truth - place)), sighting.sigma_deg))
        own = microphone_at(around.standpoints[at], room.believed_mount, room.covariance)
        rays.append((own.place_m, own.rotation @ sighting.direction))
        if len(rays) == 2:
            errors.peer("midpoint of the first two rays, nothing refused", _midpoint(rays), truth)
        try:
            found = locate(around, sightings).require()
        except CheckFailed as error:
            why = str(error)
            continue
        errors.add(found, room, around, truth)
        errors.places.append(number)
        return
    errors.refuse(why)


def _around(room: Scene, device_m: Floats) -> list[TruePlace]:
    """Places of the rig 0.5 to 1.2 m from a device, the first two 50 to 130 degrees apart as it sees them."""
    points: list[TruePlace] = []
    for _ in range(60):
        found = room_scenes.standpoint(room.rng, room.size, room.place, room.camera, device_m, (0.5, 1.2))
        if found is None:
            break
        apart = [angle_deg(p.centre - device_m, found.centre - device_m) for p in points]
        if all((50 if len(points) == 1 else 25) <= a <= 130 for a in apart):
            points.append(found)
        if len(points) == MOST_PLACES:
            break
    return points


def turned(foa: NDArray[np.float32], rotation: Floats) -> NDArray[np.float32]:
    """AmbiX (frames, 4) as a microphone hears it whose frame is turned: v' = rotation @ v."""
    xyz = foa[:, [3, 1, 2]] @ rotation.T
    return np.asarray(np.c_[foa[:, 0], xyz[:, [1, 2, 0]]], np.float32)


def _fan(rng: np.random.Generator, seconds: float) -> Floats:
    """Broadband noise with a slope of 4 dB per octave, as of a fan."""
    from bench.rooms import FS

    n = int(seconds * FS)
    spectrum = np.fft.rfft(rng.standard_normal(n))
    f = np.maximum(np.fft.rfftfreq(n, 1 / FS), 60.0)
    x = np.fft.irfft(spectrum * f ** (-4 / 6.02), n)
    return np.asarray(x / x.std())


def _knocks(rng: np.random.Generator, seconds: float) -> Floats:
    """Three knocks: bursts that fall by 60 dB in 10 ms."""
    from bench.rooms import FS

    x, n = np.zeros(int(seconds * FS)), int(0.01 * FS)
    for start in (0.6, 1.7, 2.8):
        at = int((start + rng.uniform(-0.1, 0.1)) * FS)
        x[at : at + n] = rng.standard_normal(n) * 10 ** (-3 * np.arange(n) / n)
    return x


def _report(name: str, errors: Errors, spent: float, few: bool = False) -> None:
    """The figures of one method; `few`: too few devices for the spread of its sigmas."""
    if not errors.metres:
        why = f"{errors.tried} devices tried, {errors.refused} refused"
        not_measured(f"room_{name}_position_median", "cm", "<=", 10, why)
        return
    metres, degrees = np.array(errors.metres), np.array(errors.degrees)
    note(
        f"{name}: {errors.tried} devices, {errors.refused} refused {errors.reasons}, "
        f"angle error over its sigma RMS {np.sqrt(np.mean(np.square(errors.angle_sigmas))):.2f}"
    )
    figure(f"room_{name}_position_median", 100 * float(np.median(metres)), "cm", "<=", 10)
    figure(f"room_{name}_position_95", 100 * float(np.percentile(metres, 95)), "cm", "<=", 10)
    figure(f"room_{name}_direction_95", float(np.percentile(degrees, 95)), "deg", "<=", 3)
    figure(f"room_{name}_refused", 100 * errors.refused / errors.tried, "%", "<=", spent)
    z = float(np.sqrt(np.mean(np.square(errors.sigmas))))
    if few:
        note(f"  {name}: errors over their sigma RMS {z:.2f}")
    else:
        figure(f"room_{name}_z_rms", z, "sigma", "<=", 1.3)
        figure(f"room_{name}_z_rms_low", z, "sigma", ">=", 0.6)
    for who, values in errors.peers.items():
        peer(f"room {name} median: {who}", 100 * float(np.median(values)), "cm")
        peer(f"room {name} 95 %: {who}", 100 * float(np.percentile(values, 95)), "cm")
    if errors.doa:
        off, sigma = np.array(errors.doa).T
        note(f"  directions off by {np.median(off):.2f} degrees in the median, sigma {np.median(sigma):.2f}")
        note(f"  places needed: {np.bincount(errors.places)[2:].tolist()} with 2, 3, 4")


def _fans(count: int) -> None:
    """Steady noise: what near reflections do to it is not seen in it. It must be refused, or right."""
    errors = Errors()
    for k in range(8 * count):
        if errors.tried >= count:
            break
        _sound(errors, room_scenes.scene(np.random.default_rng([SEED, 9, k])), "fan")
    wrong = sum(m > 0.10 for m in errors.metres)
    note(f"fans: {errors.tried} devices, {errors.refused} refused, {wrong} accepted and over 10 cm")
    figure("room_fan_accepted_and_wrong", 100 * wrong / errors.tried, "%", "<=", 10)


def _rendered(scenes: int) -> None:
    """The whole chain from pictures: the board found, three methods each; only the click is drawn from
    noise."""
    errors = {name: Errors() for name in ("plane", "two_views", "held_board")}
    small = Board.charuco(3, 3, 0.1, 0.075, "5x5_50")
    detector = FarDetector(BOARD)
    blind = 0
    for k in range(scenes):
        room = room_scenes.scene(np.random.default_rng([SEED, 7, k]))
        placed = room_scenes.device(room.rng, room, "table")
        other = None if placed is None else _moved(room, placed[0])
        if placed is None or other is None:
            continue
        truth, words = placed
        pictures = [room_scenes.picture(room, room.rig, [truth]) for _ in range(3)]
        seen = [(str(i), d) for i, p in enumerate(pictures) if (d := detector.find(p)) is not None]
        try:
            frame = find_frame(seen, BOARD, room.place, room.believed, room.covariance, room.believed_mount)
        except (WeakFrame, InputError) as error:
            note(f"  rendered room {k}: {error}")
            blind += 1
            continue
        around = Surroundings(
            room.believed, room.covariance, room.place, [frame.standpoint], room.believed_mount
        )
        click = Click(0, room.click(room.rig, truth))
        _judge(errors["plane"], room, around, [click, plane_of_words(words)], truth)
        aside = detector.find(room_scenes.picture(room, other, [truth]))
        if aside is None:
            errors["two_views"].tried += 1
            errors["two_views"].refuse("aside: the board is not seen")
        else:
            at, _ = seen_from(around, BOARD, aside, "aside")
            second = Click(at, room.click(other, truth))
            _judge(errors["two_views"], room, around, [click, second], truth)
        middle = truth + HELD_M * room.rng.standard_normal(3)
        turn = room_scenes.looking(middle, room.rig.centre, 8.0).rotation @ np.diag([-1.0, 1.0, -1.0])
        origin = middle - turn @ np.array([*small.size_m, 0.0]) / 2
        shown = room_scenes.picture(room, room.rig, [], (small, turn, origin))
        try:
            points, pixels = MarkerFinder(str(small), BOARD).find(shown, "held")
        except CheckFailed as error:
            errors["held_board"].tried += 1
            errors["held_board"].refuse(str(error))
            continue
        _judge(errors["held_board"], room, around, [held_marker(around, 0, points, pixels, "held")], truth)
    note(f"rendered: {blind} of {scenes} rooms without a frame")
    for name, found in errors.items():
        _report(f"rendered_{name}", found, 60, few=True)


def run(quick: bool) -> None:
    """Print the figures."""
    assert CLICK_PX == room_scenes.CLICK_PX
    methods: dict[str, tuple[Callable[[Errors, Scene], None], int, float]] = {
        "plane": (_plane, 60 if quick else 200, 40),
        "two_views": (_two_views, 60 if quick else 200, 40),
        "marker": (_marker, 60 if quick else 200, 20),
        "pointed_board": (_pointed, 40 if quick else 200, 40),
        "sound_of_knocks": (lambda e, s: _sound(e, s, "knocks"), 16 if quick else 50, 30),
        "sound_of_voices": (lambda e, s: _sound(e, s, "voice"), 16 if quick else 50, 50),
    }
    for number, (name, (method, count, spent)) in enumerate(methods.items()):
        errors = Errors()
        for k in range(6 * count):
            if errors.tried >= count:
                break
            method(errors, room_scenes.scene(np.random.default_rng([SEED, number, k])))
        _report(name, errors, spent)
    _fans(5 if quick else 15)
    _rendered(6 if quick else 25)


def main() -> int:
    run(quick())
    return end_of_part("calibration-room")


if __name__ == "__main__":
    sys.exit(main())
