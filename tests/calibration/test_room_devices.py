"""Placing devices: every method against known truth, the covariance, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

import dsp
from bench import room_scenes
from bench.room_scenes import BOARD, Scene
from calibration.room_devices import locate, radius95
from calibration.room_devices_seen import MarkerFinder, heard, heard_knocks, seen_from
from calibration.room_devices_sightings import (
    Click,
    Heard,
    Held,
    Pointed,
    Sighting,
    Surroundings,
    plane_of_words,
)
from calibration.room_frame import find_frame
from calibration.room_frame_pose import MicrophonePlace
from dsp.errors import CheckFailed, InputError


@pytest.fixture(scope="module")
def room() -> Scene:
    return room_scenes.scene(np.random.default_rng([7, 3]))


def around_of(room: Scene) -> Surroundings:
    seen = [(str(k), room.detect(room.rig)) for k in range(5)]
    frame = find_frame(seen, BOARD, room.place, room.believed, room.covariance, room.believed_mount)
    return Surroundings(room.believed, room.covariance, room.place, [frame.standpoint], room.believed_mount)


def test_without_noise_every_method_finds_the_point_and_all_together_too(room: Scene):
    """Exact sightings of an exact rig: the answer is the point, whatever it was seen by."""
    room_scenes_point = room_scenes.device(room.rng, room)
    assert room_scenes_point is not None
    truth = room_scenes_point[0]
    around = around_of(room)
    around.camera, around.mount = room.camera, room.mount
    exact = around.standpoints[0]
    around.standpoints[0] = type(exact)(room.rig.rotation, room.rig.centre, exact.covariance, exact.by_camera)
    aside = room_scenes.looking(room.rig.centre + np.array([0.8, 0.1, 0.2]), truth, 0.0)
    around.standpoints.append(type(exact)(aside.rotation, aside.centre, exact.covariance, exact.by_camera))

    def local(at: room_scenes.TruePlace) -> np.ndarray:
        return at.rotation.T @ (truth - at.centre)

    clicks: list[Sighting] = [
        Click(0, room.rig.pixels(room.camera, truth)), Click(1, aside.pixels(room.camera, truth))
    ]  # fmt: skip
    plane = plane_of_words(f"y={truth[1]}")
    held = Held(0, local(room.rig), 1e-6 * np.eye(3), np.zeros((3, 9)))
    pointers: list[Sighting] = []
    for number, place in enumerate((room.rig, aside)):
        origin = np.array([0.3 - 0.5 * number, 0.1, 1.0])
        away = local(place) - origin
        pointers.append(
            Pointed(number, origin, away / np.linalg.norm(away), 1e-6 * np.eye(6), np.zeros((6, 9)))
        )
    ears: list[Sighting] = []
    for yaw, place in ((0.0, [0.5, 0.4, 1.0]), (90.0, [2.5, 0.3, 1.4])):
        turn = room_scenes.rotation_from_yaw_pitch(yaw)
        away = turn.T @ (truth - place)
        where = MicrophonePlace(turn, np.array(place), 1e-4 * np.eye(6))
        ears.append(Heard(where, away / np.linalg.norm(away), 1.0))
    for sightings in (clicks, [clicks[0], plane], [held], pointers, ears, [*clicks, plane, held, *ears]):
        found = locate(around, sightings, within_m=2.0)
        assert np.allclose(found.position_m, truth, atol=2e-6), found.method
        turn, place = room.microphone(room.rig)
        assert found.azimuth_deg is not None and found.elevation_deg is not None
        told = dsp.direction_to_unit(found.azimuth_deg, found.elevation_deg)
        assert np.allclose(told * found.distance_m, turn.T @ (truth - place), atol=1e-4)
    everything = locate(around, [*clicks, plane, held, *ears])
    assert everything.ok and everything.radius95_m < locate(around, clicks, 2.0).radius95_m


def test_radius95_is_the_quantile_of_the_length():
    rng = np.random.default_rng(1)
    for sigmas in ([1, 1, 1], [1, 0.01, 0.01], [3, 1, 0.5]):
        length = np.linalg.norm(rng.standard_normal((200_000, 3)) * sigmas, axis=1)
        assert radius95(np.diag(np.square(sigmas, dtype=float))) == pytest.approx(
            np.percentile(length, 95), rel=0.02
        )


def test_shared_errors_are_not_averaged_away(room: Scene):
    """Eight clicks from one camera know the direction no better than its orientation."""
    around = around_of(room)
    placed = room_scenes.device(room.rng, room, "table")
    assert placed is not None
    point, words = placed
    pixel = room.rig.pixels(room.believed, point)
    many = locate(around, [*(Click(0, pixel, 0.2) for _ in range(8)), plane_of_words(words)], 2.0)
    turn = around.standpoints[0].total(room.covariance)[:3, :3]
    distance = np.linalg.norm(point - room.rig.centre)
    across = 0.4 * np.sqrt(np.linalg.eigvalsh(turn)[0]) * distance
    assert np.sqrt(np.trace(many.covariance)) > across


def test_what_is_refused_says_what_to_add(room: Scene):
    around = around_of(room)
    placed = room_scenes.device(room.rng, room)
    assert placed is not None
    point = placed[0]
    click = Click(0, room.rig.pixels(room.camera, point))
    with pytest.raises(CheckFailed, match=r"no distance \(add a picture"):
        locate(around, [click])
    with pytest.raises(CheckFailed, match="cross at"):
        locate(around, [click, Click(0, click.pixel + 1.0)])
    with pytest.raises(CheckFailed, match="cross at"):
        locate(around, [click, click])
    with pytest.raises(InputError, match="nothing was seen"):
        locate(around, [])
    above = room.rig.rotation @ np.array([0.0, 0.0, 1.0])
    axis = int(np.argmax(np.abs(above)))
    beyond = room.rig.centre[axis] - 2 * np.sign(above[axis])
    with pytest.raises(CheckFailed, match="behind the camera"):
        locate(around, [Click(0, np.array([640.0, 360.0])), plane_of_words(f"{'xyz'[axis]}={beyond}")])
    wild = Held(0, np.array([0.0, 0.0, 0.4]), 1e-6 * np.eye(3), np.zeros((3, 9)))
    apart = locate(around, [click, wild, plane_of_words(f"z={point[2]}")], 2.0)
    assert "not of one point" in apart.shortfalls[0].problem
    # A plane seen at a grazing angle: refused by its covariance, with what would help.
    far = room.rig.centre + np.array([5.0, 0.0, -0.2])
    level = room_scenes.looking(room.rig.centre, far, 0.0)
    own = around.standpoints[0]
    around.standpoints.append(type(own)(level.rotation, level.centre, own.covariance, own.by_camera))
    low = [Click(1, level.pixels(room.believed, far)), plane_of_words(f"z={far[2]}")]
    weak = locate(around, low)
    assert "second picture" in weak.shortfalls[0].remedy and "line of sight" in weak.shortfalls[0].remedy
    with pytest.raises(CheckFailed, match="known to"):
        weak.require()
    assert locate(around, low, within_m=2.0).ok
    without = Surroundings(around.camera, None, around.board, around.standpoints[:1])
    with pytest.raises(InputError, match="--pose"):
        locate(without, [Heard(0, np.array([1.0, 0, 0]), 1.0), click])


@pytest.mark.parametrize("words", ["table", "w=1", "z=", "z=nan", "ceiling"])
def test_planes_that_are_none(words: str):
    with pytest.raises(InputError, match="--plane"):
        plane_of_words(words)


def test_where_a_picture_was_taken_from(room: Scene):
    around = around_of(room)
    assert seen_from(around, BOARD, room.detect(room.rig), "same") == (0, None)
    at, warning = seen_from(around, BOARD, None, "blind")
    assert at == 0 and warning is not None and "not seen" in warning
    other = room_scenes.standpoint(room.rng, room.size, room.place, room.camera)
    assert other is not None
    at, warning = seen_from(around, BOARD, room.detect(other), "moved")
    assert at == 1 and warning is None
    assert np.linalg.norm(around.standpoints[1].centre_m - other.centre) < 0.1


def test_directions_of_sounds():
    """An encoded plane wave: speech-like bursts are sure, the same noise without pauses is not so sure."""
    rng, fs = np.random.default_rng(2), 24000
    noise = rng.standard_normal(2 * fs)
    bursts = noise * (np.sin(2 * np.pi * 2.5 * np.arange(2 * fs) / fs) > 0)
    found = {}
    for name, mono in (("steady", noise), ("bursts", bursts)):
        foa = dsp.encode(0.1 * mono, 40.0, -20.0) + 1e-3 * rng.standard_normal((2 * fs, 4))
        found[name] = heard(foa.astype(np.float32), fs, 0, name)
        assert dsp.angular_error_deg(*dsp.unit_to_direction(found[name].direction), 40.0, -20.0) < 1.0
    assert "steady noise" in found["steady"].name and "steady noise" not in found["bursts"].name
    knocks = np.zeros(3 * fs)
    for start in (0.5, 1.5, 2.4):
        at = int(start * fs)
        knocks[at : at + 100] = rng.standard_normal(100) * np.exp(-np.arange(100) / 20)
    foa = dsp.encode(0.3 * knocks, -100.0, 30.0) + 1e-5 * rng.standard_normal((3 * fs, 4))
    knocked = heard_knocks(foa.astype(np.float32), fs, 0, "table")
    assert "3 knocks" in knocked.name
    assert dsp.angular_error_deg(*dsp.unit_to_direction(knocked.direction), -100.0, 30.0) < 1.0
    diffuse = (0.05 * rng.standard_normal((fs, 4))).astype(np.float32)
    with pytest.raises(CheckFailed, match="direction"):
        heard(diffuse, fs, 0, "rain")
    with pytest.raises(CheckFailed, match="no knock"):
        heard_knocks(diffuse, fs, 0, "rain")
    with pytest.raises(CheckFailed, match="no sound"):
        heard(np.zeros((fs, 4), np.float32), fs, 0, "silence")


@pytest.mark.parametrize("words", ["4x4_50", "60mm", "9x9_1 60mm", "4x4_50 60", "chessboard 9x6 25mm", ""])
def test_markers_that_are_none(words: str):
    with pytest.raises(InputError):
        MarkerFinder(words, BOARD)
