"""The room frame: words for the board's place, the camera's place and its covariance, two tilts, refusals."""

from __future__ import annotations

import numpy as np
import pytest

from bench import room_scenes
from bench.room_scenes import BOARD, Scene
from calibration.board import Board
from calibration.pose_model import rotation_angle_deg
from calibration.room_frame import RoomFrame, WeakFrame, average, find_frame
from calibration.room_frame_pose import BoardPlace, angles_of, direction_of_words
from dsp.errors import InputError
from recordings.geometry import CV_FROM_AMBIX, rotation_from_yaw_pitch


def frame_of(room: Scene, pictures: int = 5) -> RoomFrame:
    seen = [(str(k), room.detect(room.rig)) for k in range(pictures)]
    return find_frame(seen, BOARD, room.place, room.believed, room.covariance, room.believed_mount)


def test_words_for_directions():
    assert direction_of_words("-y").tolist() == [0, -1, 0]
    assert np.allclose(direction_of_words("90"), [0, 1, 0])
    assert np.allclose(direction_of_words("0 0 -2"), [0, 0, -1])
    for wrong in ("north", "1 2", "nan 0 0", "0 0 0", ""):
        with pytest.raises(InputError):
            direction_of_words(wrong)


@pytest.mark.parametrize(
    ("facing", "right", "top"),
    [
        ("up", (1, 0, 0), (0, 1, 0)),  # on the floor, read from the south
        ("+x", (0, 1, 0), (0, 0, 1)),  # on the wall x = 0: looking at it, +y is to the right
        ("+y", (-1, 0, 0), (0, 0, 1)),
        ("-x", (0, -1, 0), (0, 0, 1)),
    ],
)
def test_where_a_board_is(facing: str, right: tuple[float, ...], top: tuple[float, ...]):
    place = BoardPlace.of((1.0, 2.0, 0.5), facing)
    width, height = BOARD.size_m
    corners = np.array([[0, height, 0], [width, height, 0], [0, 0, 0.0]])
    found = corners @ place.rotation.T + place.origin(BOARD)
    at = np.array([1.0, 2.0, 0.5])
    assert np.allclose(found, [at, at + width * np.array(right), at + height * np.array(top)])
    assert np.isclose(np.linalg.det(place.rotation), 1.0)


def test_a_board_that_cannot_hang_so():
    with pytest.raises(InputError, match="right angles"):
        BoardPlace.of((0, 0, 0), "up", "up")
    with pytest.raises(InputError, match="metres"):
        BoardPlace.of((0, 0, float("nan")))


def test_angles_are_those_of_the_rig_file():
    turn = rotation_from_yaw_pitch(30.0, -20.0, 10.0)
    assert np.allclose(angles_of(turn), (30, -20, 10))
    assert np.allclose(angles_of(turn @ CV_FROM_AMBIX.T, camera=True), (30, -20, 10))


def test_places_of_camera_and_microphone_are_as_sure_as_they_say():
    """16 rooms: squared errors in sigmas are chi square of six degrees of freedom."""
    camera, microphone = [], []
    for seed in range(16):
        room = room_scenes.scene(np.random.default_rng([11, seed]))
        try:
            frame = frame_of(room)
        except WeakFrame:
            continue
        heard = frame.microphone
        assert heard is not None
        turn, place = room.microphone(room.rig)
        pairs = (
            (camera, frame.standpoint.pose, room.rig.rotation, room.rig.centre,
             frame.standpoint.total(room.covariance)),
            (microphone, heard.pose, turn, place, heard.covariance),
        )  # fmt: skip
        for errors, pose, rotation, centre, covariance in pairs:
            off = pose[:3, :3] @ rotation.T
            axis = np.array([off[2, 1] - off[1, 2], off[0, 2] - off[2, 0], off[1, 0] - off[0, 1]]) / 2
            error = np.concatenate([axis, pose[:3, 3] - centre])
            errors.append(float(error @ np.linalg.solve(covariance, error)))
    assert len(camera) >= 10
    # The mean of n such has a standard deviation of sqrt(12 / n), here 1.1 at most.
    assert 2.8 < np.mean(camera) < 9.5
    assert 2.8 < np.mean(microphone) < 9.5


def test_a_picture_from_elsewhere_is_left_out_and_most_of_them_are_refused():
    room = room_scenes.scene(np.random.default_rng(4))
    seen = [(str(k), room.detect(room.rig)) for k in range(3)]
    other = room_scenes.standpoint(room.rng, room.size, room.place, room.camera)
    assert other is not None
    stray = ("stray", room.detect(other))
    corners = average([*seen, stray])
    assert corners.used == ["0", "1", "2"] and [name for name, _ in corners.left] == ["stray"]
    with pytest.raises(WeakFrame, match="same place"):
        average([seen[0], stray])


def test_two_tilts_are_told_counted_and_decided_by_where_the_camera_is():
    """A small board straight ahead, five metres away: its mirrored tilt fits as well."""
    room = room_scenes.scene(np.random.default_rng(5))
    board = Board.charuco(5, 4, 0.03, 0.022, "4x4_50")
    place = BoardPlace.of((2.0, 0.0, 1.2), "+y")
    middle = place.origin(board) + place.rotation @ np.array([*board.size_m, 0.0]) / 2
    centre = middle + 3.0 * np.array([np.sin(0.3), np.cos(0.3), 0.0])
    at = room_scenes.looking(centre, middle, 0.0)
    corners = board.corners_m @ place.rotation.T + place.origin(board)
    pixels = at.pixels(room.camera, corners) + 0.2 * room.rng.standard_normal((len(corners), 2))
    detection = room.detect(room.rig)
    seen = [("a", type(detection)(np.arange(len(pixels), dtype=np.int32), pixels, np.full(len(pixels), 9.0)))]
    with pytest.raises(WeakFrame, match="two tilts") as refused:
        find_frame(seen, board, place, room.camera, room.covariance)
    frame = refused.value.frame
    assert frame is not None and frame.standpoint.tilts == 2
    # What is said covers the truth: the angle between the tilts is in the covariance.
    assert np.degrees(np.sqrt(np.trace(frame.standpoint.covariance[:3, :3]))) > 5
    near = None
    try:
        near = find_frame(seen, board, place, room.camera, room.covariance, near_m=centre + 0.1)
    except WeakFrame as error:
        near = error.frame
    assert near is not None and near.standpoint.tilts == 1
    assert rotation_angle_deg(near.standpoint.rotation, at.rotation) < 10
    assert np.linalg.norm(near.standpoint.centre_m - centre) < 0.5


def test_what_cannot_be_a_frame():
    room = room_scenes.scene(np.random.default_rng(6))
    seen = [("a", room.detect(room.rig))]
    with pytest.raises(InputError, match="half a turn"):
        find_frame(seen, Board.chessboard(9, 6, 0.025), room.place, room.believed)
    with pytest.raises(InputError, match="no picture"):
        find_frame([], BOARD, room.place, room.believed)
    other = room.believed.parameters.copy()
    other[4] += 3.0  # another lens
    wrong = type(room.believed)(1280, 720, "plumb_bob", other)
    with pytest.raises((WeakFrame, InputError)):
        find_frame(seen, BOARD, room.place, wrong)


def test_a_board_whose_place_was_measured_by_tape_moves_everything():
    """By finite differences: a board turned and shifted by its sigmas, one at a time."""
    place = BoardPlace.of((1.0, 0.5, 1.2), "+x", at_sigma_m=0.02, turn_sigma_deg=0.6)
    point = np.array([3.0, 2.0, 0.4])
    moves = []
    for axis in np.eye(3):
        moves.append(
            np.concatenate([np.radians(0.6) * axis, np.radians(0.6) * np.cross(axis, point - place.at_m)])
        )
        moves.append(np.concatenate([np.zeros(3), 0.02 * axis]))
    expected = sum(np.outer(m, m) for m in moves)
    assert np.allclose(place.covariance_of_pose(point), expected, atol=1e-12)
    assert np.allclose(place.covariance_at(point), expected[3:, 3:], atol=1e-12)
