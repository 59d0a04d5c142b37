"""The error budget of a direction, from capsule gain to degrees: `python -m bench.calibration_budget`.

The question: somebody speaks, 2 m away, and the rig says where in the picture that is, and which device of
the room lies there. Every contribution as the root mean square of the angle on the sphere, so that they add
in quadrature; each before and after its calibration. Measured here in a short form by the parts that their
own benches measure at length, or by a closed form, which is checked by simulation where it is not plain
geometry. Lines: `budget <what> = <value> <unit>`; docs/calibration-tour.md quotes them.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bench.figures import end_of_part, figure, note, quick

F64 = NDArray[np.float64]
SEED = 31181
DISTANCES_M = (1.0, 2.0, 4.0)
FOCAL_PX = 920.0  # 1280 pixels across 70 degrees
GAIN_SD_DB = 0.5  # an example of a microphone that nobody matched
TAPE_M, EYE_DEG = 0.02, 2.0  # how well a pose is measured by tape and eye, each axis
WALK_M_S = 1.2
LATE_MS = 80.0  # of a webcam and a sound card that nobody aligned


def tell(what: str, value: float, unit: str) -> float:
    """Print one line of the budget; returns the value."""
    print(f"budget {what} = {value:.3g} {unit}", flush=True)
    return value


def rms(values: object) -> float:
    return float(np.sqrt(np.mean(np.square(np.asarray(values, np.float64)))))


def apart_deg(a: F64, b: F64) -> F64:
    """Angles between rows, degrees."""
    a = a / np.linalg.norm(a, axis=-1, keepdims=True)
    b = b / np.linalg.norm(b, axis=-1, keepdims=True)
    return np.degrees(np.arctan2(np.linalg.norm(np.cross(a, b), axis=-1), np.sum(a * b, axis=-1)))


# ------------------------------------------------------------------ capsules

GAIN_DEG_PER_DB = float(np.degrees(np.sqrt(9 / 5) * np.log(10) / 20))
"""RMS angle for each decibel of standard deviation between four cardioids in a tetrahedron, over all
directions. A wave from u gives capsule i (1 + c_i u) / 2; a gain 1 + e_i moves the vector of X, Y and Z by
3/4 c_i (1 + c_i u) e_i, of which the part across u counts: the mean of 9/16 (1 - x^2) (1 + x)^2 over x = c u
is 9/20 for each of four capsules."""


def gain_errors(sd_db: float, draws: int) -> F64:
    """Angles in degrees of simulated microphones whose capsules differ by sd_db."""
    import dsp

    rng = np.random.default_rng([SEED, 0])
    axes = dsp.CAPSULE_DIRECTIONS["a"]
    found = []
    for _ in range(draws):
        u = rng.standard_normal((200, 3))
        u /= np.linalg.norm(u, axis=1, keepdims=True)
        gains = 10 ** (sd_db * rng.standard_normal(4) / 20)
        found.append(apart_deg((0.5 * (1 + u @ axes.T) * gains) @ axes, u))
    return np.concatenate(found)


def corrected_gains(draws: int) -> float:
    """dB sd that `hearth calibrate capsules` leaves: six directions, placed to 2 degrees, 40 dB."""
    from bench.calibration_capsules import _SNR_DB, _noise_for
    from bench.calibration_capsules import SEED as FIRST
    from bench.capsule_scene import directions, responses
    from calibration.capsules_fit import fit_capsules

    noise = _noise_for(responses(np.random.default_rng(FIRST)), _SNR_DB)
    left = []
    for k in range(draws):
        rng = np.random.default_rng([SEED, 1, k])
        true = rng.normal(0, GAIN_SD_DB, 4)
        fit = fit_capsules(directions(responses(rng, gains=10 ** (true / 20)), noise=noise, rng=rng), "a")
        if fit.ok:
            left.append(fit.gains_db - fit.gains_db.mean() - (true - true.mean()))
    # Of four gains against their mean three are free.
    return float(np.sqrt(np.mean(np.square(left)) * 4 / 3))


# ------------------------------------------------------------------ the room


def heard_errors(rt60_s: float, snr_db: float, count: int) -> F64:
    """Angles in degrees of one talker of 2 s in simulated rooms, matched microphone."""
    import dsp
    from bench.doa_rooms import FS, add_noise, simulate, speech_clips, talker, to_ambix

    clips = speech_clips()
    found = []
    for k in range(count):
        rng = np.random.default_rng([SEED, 2, k])
        scene = simulate(rng, rt60_s, [talker(clips, 2.6, rng)])
        got = dsp.steady_direction(to_ambix(add_noise(scene.capsules, snr_db, rng)), FS)
        found.append(
            dsp.angular_error_deg(
                got.azimuth_deg, got.elevation_deg, scene.azimuth_deg[0], scene.elevation_deg[0]
            )
        )
    return np.array(found, np.float64)


# ------------------------------------------------------------------ pose


@dataclass
class PoseErrors:
    """RMS angle by distance: of a fit, with a tape measure too, and of a rotation alone; rotation alone."""

    free: dict[float, float]
    told: dict[float, float]
    kabsch: dict[float, float]
    rotation_deg: float
    lever_cm: float


def pose_errors(sets: int) -> PoseErrors:
    """Where in the picture a direction lands, after 24 positions with 1 degree of noise, lever arm 15 cm."""
    from bench.calibration_pose import (
        LEVER_M,
        NOISE_DEG,
        SPEAKER_M,
        _field,
        _noisy,
        _places,
        _sightings,
        _truth,
        _unit,
    )
    from calibration.pose_model import Prior, rotation_angle_deg
    from calibration.pose_solver import kabsch, solve_pose

    assert LEVER_M == 0.15
    columns: dict[str, dict[float, list[F64]]] = {
        n: {d: [] for d in DISTANCES_M} for n in ("free", "told", "alone")
    }
    turns, arms = [], []
    for k in range(sets):
        rng = np.random.default_rng([SEED, 3, k])
        rotation, lever = _truth(rng)
        points = _field(rng, 24)
        sightings = _sightings(points, _noisy(_unit((points - lever) @ rotation.T), rng, NOISE_DEG), rng)
        speaker = Prior.of(SPEAKER_M, 0.005)
        tape = Prior.of(lever + 0.01 * rng.standard_normal(3), 0.01)
        free = solve_pose(sightings, speaker=speaker, leave_one_out=False)
        told = solve_pose(sightings, speaker=speaker, lever_arm=tape, leave_one_out=False)
        seen, heard = _places(sightings)
        alone = kabsch(_unit(seen), heard)
        turns.append(rotation_angle_deg(free.rotation, rotation))
        arms.append(100 * float(np.linalg.norm(free.lever_arm_m - lever)))
        rays = _unit(_field(rng, 100))
        for d in DISTANCES_M:
            # A source at d from the camera; where the picture shows what was heard, taken to be at d as well.
            p = d * rays
            u = _unit((p - lever) @ rotation.T)
            for name, r, t in (
                ("free", free.rotation, free.lever_arm_m),
                ("told", told.rotation, told.lever_arm_m),
                ("alone", alone, np.zeros(3)),
            ):
                columns[name][d].append(apart_deg(_at_range(u @ r, t, d), p))
    by = {name: {d: rms(np.concatenate(v)) for d, v in rows.items()} for name, rows in columns.items()}
    return PoseErrors(by["free"], by["told"], by["alone"], rms(turns), rms(arms))


def _at_range(ray: F64, origin: F64, distance: float) -> F64:
    """Points (n, 3) on rays from `origin` that are `distance` from the camera."""
    b = ray @ origin
    return origin + ray * (-b + np.sqrt(b**2 + distance**2 - origin @ origin))[:, None]


def tape_and_eye(distance_m: float) -> float:
    """Closed form: RMS angle by EYE_DEG about, and TAPE_M along, each of two axes across the direction."""
    return float(np.sqrt(2) * np.hypot(EYE_DEG, np.degrees(TAPE_M / distance_m)))


# ------------------------------------------------------------------ camera


def camera_errors(seeds: int) -> tuple[float, float]:
    """RMS px over the picture: calibrated from 20 views with 0.05 px of noise; nominal field of view."""
    from bench.board_render import Camera, rotation
    from bench.calibration_camera import BOARDS, projection_error, truth_of
    from calibration.board import Board
    from calibration.camera import calibrate_views
    from calibration.camera_detect import Detection
    from calibration.camera_model import CameraModel
    from calibration.camera_views import View, Views

    camera, board = Camera.typical(), Board.parse(BOARDS["charuco"])
    truth = truth_of(camera)
    width, height = board.size_m
    errors = []
    for seed in range(seeds):
        rng = np.random.default_rng([SEED, 4, seed])
        views: list[View] = []
        while len(views) < 20:
            way = rng.uniform(0, 2 * np.pi)
            turn = rotation(30 * np.cos(way), 30 * np.sin(way), rng.uniform(-30, 30))
            aim = np.array([*rng.uniform([-0.6, -0.33], [0.6, 0.33]), 1.0])
            shift = rng.uniform(0.35, 0.8) * aim - turn @ np.array([width / 2, height / 2, 0])
            pixels = camera.project(board.corners_m @ turn.T + shift)
            ids = np.flatnonzero(((pixels > 5) & (pixels < [camera.width - 6, camera.height - 6])).all(1))
            if len(ids) >= 20:
                noisy = pixels[ids] + rng.normal(0, 0.05, (len(ids), 2))
                seen = Detection(ids.astype(np.int32), noisy, np.full(len(ids), 40.0), 2.5)
                views.append(View(f"view {len(views)}", seen))
        found = calibrate_views(Views(board, camera.width, camera.height, views, [], 20), judged=False)
        errors.append(float(np.sqrt(np.nanmean(np.square(projection_error(truth, found.camera))))))
    # What a data sheet gives: the field of view, 5 % off, no distortion.
    fx = 1.05 * truth.parameters[0]
    plain = np.array([fx, fx, camera.width / 2, camera.height / 2, 0, 0, 0, 0, 0])
    nominal = CameraModel(camera.width, camera.height, "plumb_bob", plain)
    off = float(np.sqrt(np.nanmean(np.square(projection_error(truth, nominal)))))
    return rms(errors), off


def degrees_of(px: float) -> float:
    return float(np.degrees(px / FOCAL_PX))


# ------------------------------------------------------------------ time, room


def sync_errors(sets: int) -> float:
    """RMS ms of the offset from 30 flashes and beeps at 30 fps with 1 ms of jitter."""
    from bench.calibration_sync import random_scene
    from bench.sync_scene import looked_at, true_offset_ms
    from calibration.sync import estimate_sync
    from calibration.sync_setting import Sound

    found = []
    for k in range(sets):
        scene, setting = random_scene(1000 + k, np.random.default_rng([SEED, 5, k]))
        samples, t0_ns = scene.audio()
        fit = estimate_sync(looked_at(scene), Sound.of(samples, scene.rate_hz, t0_ns), setting)
        if fit.ok:
            found.append(fit.offset_ms - true_offset_ms(scene, fit.reference_ns))
    return rms(found)


def moved_deg(late_ms: float, distance_m: float) -> float:
    """Closed form: how far somebody who walks across at WALK_M_S has gone meanwhile."""
    return float(np.degrees(WALK_M_S * late_ms / 1000 / distance_m))


def device_errors(rooms: int) -> tuple[float, float, float]:
    """Devices clicked on a known plane: RMS cm, RMS degrees from the microphone, and the median cm by rig
    file alone, whose errors have a long tail."""
    from bench import room_scenes
    from bench.calibration_room import Errors, _plane

    errors = Errors()
    for k in range(rooms):
        _plane(errors, room_scenes.scene(np.random.default_rng([SEED, 6, k])))
    alone = next(iter(errors.peers.values()))
    return 100 * rms(errors.metres), rms(errors.degrees), 100 * float(np.median(alone))


# ------------------------------------------------------------------ the sum


def total(parts: dict[str, float]) -> float:
    """Quadrature, and the share of each in the variance on standard error."""
    whole = float(np.sqrt(sum(v**2 for v in parts.values())))
    shares = sorted(((100 * v**2 / whole**2, name) for name, v in parts.items()), reverse=True)
    note("  of the variance: " + ", ".join(f"{name} {share:.0f} %" for share, name in shares))
    return whole


@dataclass
class Budget:
    """Degrees by contribution, at 2 m, before and after calibration."""

    before: dict[str, float]
    after: dict[str, float]
    pose: PoseErrors


def measure(quick: bool) -> Budget:
    """Prints the budget and the figures that hold it together."""
    exact = GAIN_DEG_PER_DB
    simulated = rms(gain_errors(0.25, 100 if quick else 400)) / 0.25
    tell("capsule gains, closed form", exact, "deg RMS for 1 dB sd")
    tell("capsule gains, simulated at 0.25 dB", simulated, "deg RMS for 1 dB sd")
    figure("capsule gains: closed form by simulation", abs(exact / simulated - 1), "", "<=", 0.1)
    left = corrected_gains(4 if quick else 20)
    tell("capsule gains after calibration", left, "dB sd")
    before, after = {"capsules": exact * GAIN_SD_DB}, {"capsules": exact * left}
    tell(f"capsules, {GAIN_SD_DB:g} dB, before", before["capsules"], "deg")
    tell("capsules, after", after["capsules"], "deg")

    count = 8 if quick else 40
    for rt, snr in ((0.0, 20.0), (0.3, 20.0), (0.5, 20.0), (0.8, 20.0), (0.5, 10.0)):
        where = f"talker, RT60 {rt:g} s, SNR {snr:g} dB" if rt else f"talker, no room, SNR {snr:g} dB"
        errors = heard_errors(rt, snr, count)
        tell(f"{where}, median", float(np.median(errors)), "deg")
        value = tell(f"{where}, RMS", rms(errors), "deg")
        if rt == 0.0:
            noise = value
        elif (rt, snr) == (0.5, 20.0):
            before["room"] = after["room"] = float(np.sqrt(max(value**2 - noise**2, 0.0)))
            before["noise"] = after["noise"] = noise

    pose = pose_errors(10 if quick else 60)
    tell("pose, rotation", pose.rotation_deg, "deg")
    tell("pose, lever arm", pose.lever_cm, "cm")
    for d in DISTANCES_M:
        for name, values in (
            ("fitted", pose.free),
            ("with tape", pose.told),
            ("rotation alone", pose.kabsch),
        ):
            tell(f"pose at {d:g} m, {name}", values[d], "deg")
            tell(f"pose at {d:g} m, {name}, in the picture", FOCAL_PX * np.radians(values[d]), "px")
        tell(f"pose at {d:g} m, tape and eye (closed form)", tape_and_eye(d), "deg")
    before["pose"], after["pose"] = tape_and_eye(2.0), pose.told[2.0]

    good_px, nominal_px = camera_errors(1 if quick else 5)
    tell("camera, calibrated", good_px, "px")
    tell("camera, field of view of the data sheet, 5 % off", nominal_px, "px")
    before["camera"], after["camera"] = degrees_of(nominal_px), degrees_of(good_px)
    tell("camera, before", before["camera"], "deg")
    tell("camera, after", after["camera"], "deg")

    ms = sync_errors(2 if quick else 12)
    tell("sound against picture, calibrated", ms, "ms")
    for d in DISTANCES_M:
        tell(f"walking at {d:g} m, {LATE_MS:g} ms late (closed form)", moved_deg(LATE_MS, d), "deg")
        tell(f"walking at {d:g} m, calibrated", moved_deg(ms, d), "deg")
    before["time"], after["time"] = moved_deg(LATE_MS, 2.0), moved_deg(ms, 2.0)

    cm, degrees, alone_cm = device_errors(8 if quick else 60)
    tell("device on a known plane", cm, "cm")
    tell("device on a known plane, from the microphone", degrees, "deg")
    tell("device by the rig file alone, median", alone_cm, "cm")
    before["device"], after["device"] = float(np.degrees(alone_cm / 200)), degrees
    tell("device by the rig file alone, at 2 m", before["device"], "deg")

    reached = []
    for name, parts in (("before calibration", before), ("after calibration", after)):
        tell(f"sum at 2 m, RT60 0.5 s, {name}", total(parts), "deg")
        own = {key: v for key, v in parts.items() if key not in ("room", "noise")}
        reached.append(tell(f"sum of what calibration reaches, {name}", total(own), "deg"))
    figure("what calibration reaches, after by before", reached[1] / reached[0], "", "<=", 0.5)
    return Budget(before, after, pose)


def run(quick: bool) -> None:
    """Prints the budget of a direction."""
    measure(quick)


def main() -> int:
    run(quick())
    return end_of_part("calibration-budget")


if __name__ == "__main__":
    sys.exit(main())
