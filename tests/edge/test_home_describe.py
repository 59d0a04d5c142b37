"""The room map: who lives here, which rooms there are, the camera as numbers that put points in pixels."""

from __future__ import annotations

import json

import cv2
import numpy as np
import pytest

from capture.rig import parse_rig
from dsp.errors import InputError
from edge.home import home_of
from edge.home.describe import room_map
from edge.perception.room_map import RoomMap

RIG = """
hearth_rig: 1
microphone: {position_m: [2.0, 1.0, 1.2], yaw_deg: 90}
camera: {width_px: 640, height_px: 360, hfov_deg: 90, position_m: [0.0, 0.0, 0.1]}
room:
  name: study
  size_m: [4, 5, 2.5]
  devices:
    - {id: lamp, type: on_off_light, name: lamp, position_m: [2, 4, 1.3]}
    - {id: fan, type: fan, name: fan, room: kitchen}
  people:
    - {id: sam, name: Sam, room: kitchen, devices: [fan]}
    - {id: alex, name: Alex}
"""


def told(text: str = RIG) -> RoomMap:
    rig = parse_rig(text)
    answer = room_map(rig, home_of(rig), rooms=("hall",), time="2026-03-01 18:30:00")
    return RoomMap(json.loads(json.dumps(answer)))  # as over the wire


def test_who_lives_here_and_which_rooms_there_are() -> None:
    room = told()
    assert room.time == "2026-03-01 18:30:00"
    assert (room.room_name, room.size_m) == ("study", (4, 5, 2.5))
    assert room.rooms == ("study", "hall", "kitchen")
    sam = room.member("sam")
    assert sam is not None and (sam.name, sam.room, sam.devices) == ("Sam", "kitchen", ("fan",))
    assert room.member("nobody") is None
    assert [p["id"] for p in room.people] == ["sam", "alex"]


def test_places_are_those_of_the_rigs_room_only() -> None:
    room = told()
    assert room.device("lamp").room == "study" and room.device("lamp").position_m == (2, 4, 1.3)
    assert room.device("fan").room == "kitchen" and room.device("fan").position_m is None


def test_the_camera_puts_a_place_of_the_room_where_opencv_sees_it() -> None:
    camera = told().camera
    assert camera is not None
    # The microphone looks along +y, the camera sits 10 cm above it: a lamp straight ahead at its height is in
    # the middle of the picture; 90 degrees wide, so one metre to the right at one metre is the right edge.
    inverse = np.linalg.inv(camera.room_from_camera)
    rvec, _ = cv2.Rodrigues(inverse[:3, :3])
    points = np.array([[2.0, 4.0, 1.3], [3.0, 2.0, 1.3], [2.0, 3.0, 2.3]])
    pixels, _ = cv2.projectPoints(points, rvec, inverse[:3, 3], camera.matrix, camera.distortion)
    expected = [(319.5, 179.5), (319.5 + 320, 179.5), (319.5, 179.5 - 160)]
    assert np.allclose(pixels[:, 0], expected, atol=1e-3)


def test_without_a_camera_there_is_none() -> None:
    assert told(RIG.replace("camera: {", "camera: {source: none, ")).camera is None


def test_an_answer_that_is_no_room_map_is_refused() -> None:
    rig = parse_rig(RIG)
    answer = room_map(rig, home_of(rig))
    answer["camera"]["room_from_camera"] = np.diag([2.0, 2.0, 2.0, 1.0]).tolist()
    with pytest.raises(InputError, match="no rigid pose"):
        RoomMap(answer)
    del answer["camera"], answer["microphone"]
    with pytest.raises(InputError, match="did not answer a room map"):
        RoomMap(answer)
