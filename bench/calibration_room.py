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
from bench.figures import end_of_part, figure, note, peer, quick
from bench.room_scenes import BOARD, Scene, TruePlace, angle_deg
from calibration.pose_model import rotation_from_vector
from calibration.room_devices import (
    CLICK_PX,
    HELD_M,
    PLANE_M,
    Click,
    Heard,
    Located,
    Sighting,
    Surroundings,
    locate,
    plane_of_words,
)
from calibration.room_devices_seen import heard, heard_knocks, held_marker, seen_from
from calibration.room_frame import RoomFrame, WeakFrame, find_frame
from dsp.errors import CheckFailed
from recordings.camera_model import CameraModel

Floats = NDArray[np.float64]
SEED = 71
MARKER_M = 0.10
PICTURES = 5


@dataclass
class Errors:
    """What became of the devices of one method: metres and degrees off, in sigmas, refusals, peers."""

    metres: list[float] = field(default_factory=list)
    degrees: list[float] = field(default_factory=list)
    sigmas: list[float] = field(default_factory=list)
    angle_sigmas: list[float] = field(default_factory=list)
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
        from calibration.room_frame import microphone_at

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


def _unit(v: Floats) -> Floats:
    return np.asarray(v / np.linalg.norm(v))


def _sound(errors: Errors, room: Scene, places: int, kind: str) -> None:
    import dsp
    from bench.rooms import FS, Room, capsule_responses, record, speech

    made = _surroundings(room)
    placed = room_scenes.device(room.rng, room)
    if made is None or placed is None:
        return
    truth, around = placed[0], made[1]
    rng = room.rng
    points: list[TruePlace] = []
    for _ in range(60):
        # Carried to 0.7 to 1.6 m from the device, at least 50 degrees apart as the device sees them.
        found = room_scenes.standpoint(rng, room.size, room.place, room.camera, truth, (0.7, 1.6))
        if found is None:
            break
        rays = [p.centre - truth for p in points]
        if all(50 <= angle_deg(r, found.centre - truth) <= 130 for r in rays):
            points.append(found)
        if len(points) == places:
            break
    if len(points) < places:
        return
    rt60 = float(rng.uniform(0.3, 0.5))
    make = {"voice": speech, "fan": _fan, "knocks": _knocks}[kind]
    dry = make(rng, 4.0)
    sightings: list[Sighting] = []
    rays = []
    for point in points:
        at, _ = seen_from(around, BOARD, room.detect(point), "place")
        turn, place = room.microphone(point)
        # The simulation's microphone stands square in the room: the sound is turned into its own frame.
        simulated = Room(room.size, rt60, place)
        capsules = record(
            [capsule_responses(simulated, truth)], [dry], 50.0 if kind == "knocks" else 30.0, rng
        )
        foa = dsp.convert(capsules, source="a", target="ambix")
        foa = turned(foa, turn.T)
        try:
            sighting = (heard_knocks if kind == "knocks" else heard)(foa, FS, at, "sound")
        except CheckFailed as error:
            errors.tried += 1
            errors.refuse(str(error))
            return
        sightings.append(sighting)
        assert isinstance(sighting, Heard)
        errors.peers.setdefault("_doa", []).append(angle_deg(sighting.direction, turn.T @ (truth - place)))
        errors.peers.setdefault("_doa_sigma", []).append(sighting.sigma_deg)
        from calibration.room_frame import microphone_at

        own = microphone_at(around.standpoints[at], room.believed_mount, room.covariance)
        rays.append((own.place_m, own.rotation @ sighting.direction))
    _judge(errors, room, around, sightings, truth)
    errors.peer("midpoint of the rays, nothing refused", _midpoint(rays), truth)


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


def _report(name: str, errors: Errors, spent: float) -> None:
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
    figure(f"room_{name}_z_rms", z, "sigma", "<=", 1.3)
    figure(f"room_{name}_z_rms_low", z, "sigma", ">=", 0.6)
    for who, values in errors.peers.items():
        if who == "_doa":
            note(
                f"  {name}: directions off by {np.median(values):.2f} deg, 95 % {np.percentile(values, 95):.2f}"
            )
        elif who == "_doa_sigma":
            note(f"  {name}: their sigma {np.median(values):.2f} deg")
        else:
            peer(f"room {name} median: {who}", 100 * float(np.median(values)), "cm")
            peer(f"room {name} 95 %: {who}", 100 * float(np.percentile(values, 95)), "cm")


def run(quick: bool) -> None:
    """Print the figures."""
    assert CLICK_PX == room_scenes.CLICK_PX
    methods: dict[str, tuple[Callable[[Errors, Scene], None], int, float]] = {
        "plane": (_plane, 60 if quick else 300, 40),
        "two_views": (_two_views, 60 if quick else 300, 40),
        "marker": (_marker, 60 if quick else 300, 20),
        "knocks_2_places": (lambda e, s: _sound(e, s, 2, "knocks"), 10 if quick else 60, 40),
        "voice_2_places": (lambda e, s: _sound(e, s, 2, "voice"), 10 if quick else 60, 60),
        "voice_3_places": (lambda e, s: _sound(e, s, 3, "voice"), 10 if quick else 60, 40),
    }
    for number, (name, (method, count, spent)) in enumerate(methods.items()):
        errors = Errors()
        for k in range(6 * count):
            if errors.tried >= count:
                break
            method(errors, room_scenes.scene(np.random.default_rng([SEED, number, k])))
        _report(name, errors, spent)


def main() -> int:
    run(quick())
    return end_of_part("calibration-room")


if __name__ == "__main__":
    sys.exit(main())
