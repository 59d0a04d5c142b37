"""Who talks, where they look and point, whose face it is: people drawn where the test put them."""

import math

import cv2
import numpy as np
import pytest

from capture.virtual.scene import Figure, Snapshot
from dsp.errors import InputError
from edge.home.describe import room_map
from edge.home.loading import simulation_of_home
from edge.perception.active_speaker import ActiveSpeakerTool
from edge.perception.face_models import (
    CHIP_PADDING,
    CHIP_POINTS,
    CHIP_SIDE,
    LEFT_EYE,
    NOSE_BASE,
    RIGHT_EYE,
    FaceMesh,
    FaceVector,
    face_chip,
    similarity,
)
from edge.perception.faces import FACE, FaceTool, enrol_face
from edge.perception.facing import FacingTool
from edge.perception.people_seen import View, chosen_pictures, turned_to
from edge.perception.pointing import Pointing, PointingTool, Ray
from edge.perception.profiles import ProfileBook
from edge.perception.room_map import MapCamera, RoomMap
from edge.perception.tools import Picture, Scene
from edge.perception.utterance import RATE_HZ, Utterance
from recordings.plan.builtin import virtual_home
from recordings.plan.generate import make_plan

pytest.importorskip("ai_edge_litert", reason="bodies are found by LiteRT")
pytest.importorskip("mediapipe", reason="the networks come in its wheel")

MOUTH = (3.3, 3.2, 1.56)  # in the living room, whose rig is at (2.7, 1.0, 1.2) and looks along +y


@pytest.fixture(scope="module")
def room():
    """The rig of the living room and what its home answers."""
    from capture.virtual.staged import staged_rig

    plan = make_plan(*virtual_home(), 1, name="test", per_cell=2)
    item = next(item for item in plan.items if item.staging.room == "living_room")
    rig = staged_rig(item, plan, storage="unused")
    home = simulation_of_home(item.home).simulation.home
    return rig, RoomMap(room_map(rig, home, household=item.home.household, rooms=item.home.rooms))


def voice_from(place, room_map_, seconds=1.0):
    """Speech-like noise that comes from a place without any room, as an utterance."""
    rng = np.random.default_rng(1)
    noise = rng.normal(0, 0.05, round(seconds * RATE_HZ))
    noise *= 0.3 + np.abs(np.sin(np.arange(len(noise)) / RATE_HZ * 12))
    x, y, z = np.asarray(place) - room_map_.microphone_m
    turn = math.radians(room_map_.microphone_yaw_deg)
    ahead, left = x * math.cos(turn) + y * math.sin(turn), -x * math.sin(turn) + y * math.cos(turn)
    unit = np.array([ahead, left, z]) / math.dist(place, room_map_.microphone_m)
    foa = (noise[:, None] * [1.0, unit[1], unit[2], unit[0]]).astype(np.float32)
    return Utterance(foa, 10**12, np.ones(len(foa), bool), foa[:0], 10**12 + round(seconds * 1e9), 10**12)


def scene_of(room, figures, speaker_at):
    """Three pictures while somebody talks; the mouth of the first figure moves."""
    from dataclasses import replace

    from capture.virtual.staged_picture import StagedPainter

    rig, room_map_ = room
    painter = StagedPainter(rig)
    pictures = []
    for number in range(3):
        moving = (replace(figures[0], mouth_open=0.3 * number), *figures[1:])
        image = painter.draw(Snapshot(2.0, None, {}, 0.0, moving))
        pictures.append(Picture(10**12 + number * 330_000_000 + 10**8, image))
    return Scene(voice_from(speaker_at, room_map_), tuple(pictures), room_map_)


def figure(name, mouth, turn_deg, target=None):
    """Somebody, turned by an angle to their own left from straight towards the rig."""
    towards = math.degrees(math.atan2(1.0 - mouth[1], 2.7 - mouth[0])) + turn_deg
    facing = np.array([math.cos(math.radians(towards)), math.sin(math.radians(towards))])
    return Figure(name, np.array(mouth, float), facing, 0.2, 0.0, target)


def apart_deg(one, other):
    """Degrees between two vectors."""
    return math.degrees(math.acos(np.clip(one @ other / np.linalg.norm(one) / np.linalg.norm(other), -1, 1)))


@pytest.mark.parametrize("turn_deg", [0.0, 45.0, -90.0, 180.0])
def test_the_speaker_is_placed_and_the_turn_seen(room, turn_deg):
    one = figure("anna", MOUTH, turn_deg)
    scene = scene_of(room, (one,), MOUTH)
    speaker = ActiveSpeakerTool()(scene)
    assert math.dist(speaker.value.position_m, MOUTH) < 0.4
    facing = FacingTool()(scene).value
    truth = math.degrees(math.atan2(one.facing[1], one.facing[0]))
    assert abs((facing.azimuth_deg - truth + 180) % 360 - 180) < 25


def test_of_two_people_the_one_whom_the_voice_comes_from_talks(room):
    left, right = figure("ben", (1.9, 3.3, 1.6), 0.0), figure("chen", (3.9, 3.1, 1.58), 0.0)
    for talker in (left, right):
        found = ActiveSpeakerTool()(scene_of(room, (left, right), tuple(talker.mouth_m)))
        assert math.dist(found.value.position_m, talker.mouth_m) < 0.5
        assert found.value.share > 0.7


def test_with_a_voice_from_the_middle_the_mouth_decides(room):
    still, moving = figure("ben", (1.9, 3.3, 1.6), 0.0), figure("chen", (3.5, 3.3, 1.58), 0.0)
    found = ActiveSpeakerTool()(scene_of(room, (moving, still), (2.7, 3.3, 1.6)))
    assert math.dist(found.value.position_m, moving.mouth_m) < 0.5


def test_a_voice_from_elsewhere_is_of_nobody_in_the_picture(room):
    found = ActiveSpeakerTool()(scene_of(room, (figure("anna", (3.9, 3.1, 1.5), 0.0),), (0.4, 1.2, 1.5)))
    assert found.value is None
    assert "beside" in found.why


def test_the_ray_goes_to_what_is_pointed_at(room):
    device = next(d for d in room[1].devices if d.id == "living_room_on_off_light_1")
    scene = scene_of(room, (figure("dana", MOUTH, 0.0, device.position_m),), MOUTH)
    found = PointingTool()(scene)
    pointing = found.value
    way = np.array(device.position_m) - pointing.origin_m
    assert min(apart_deg(ray.direction, way) for ray in pointing.rays) < 20
    assert abs(90 - apart_deg(pointing.normal, way)) < 6
    places = [d.position_m for d in room[1].devices if d.position_m]
    assert places[int(np.argmax(pointing.log_likelihood(places)))] == device.position_m


def test_hanging_arms_do_not_point(room):
    found = PointingTool()(scene_of(room, (figure("emil", MOUTH, 20.0),), MOUTH))
    assert found.value is None
    assert "no arm" in found.why


def test_an_empty_room_has_no_speaker(room):
    scene = scene_of(room, (figure("emil", (2.7, 0.3, 1.5), 0.0),), MOUTH)  # behind the camera
    for tool in (ActiveSpeakerTool(), FacingTool(), PointingTool(), FaceTool(ProfileBook())):
        found = tool(scene)
        assert found.value is None
        assert found.why


def test_the_density_over_directions_sums_to_one():
    ahead = np.array([1.0, 0.0, 0.0])
    rays = (Ray(ahead, 0.7), Ray(np.array([0.0, 1.0, 0.0]), 0.3))
    pointing = Pointing(np.zeros(3), ahead, 13.0, 3.0, np.array([0.0, 0.0, 1.0]), rays, "left")
    azimuth, elevation = np.meshgrid(np.arange(-180, 180, 1.0), np.arange(-89.5, 90, 1.0))
    flat = np.cos(np.radians(elevation))
    units = np.stack(
        [
            flat * np.cos(np.radians(azimuth)),
            flat * np.sin(np.radians(azimuth)),
            np.sin(np.radians(elevation)),
        ],
        axis=-1,
    )
    density = np.exp(pointing.log_likelihood(units.reshape(-1, 3) * 2.5)).reshape(azimuth.shape)
    assert float((density * flat).sum()) == pytest.approx(1.0, abs=0.02)
    fits = pointing.log_likelihood([[3.0, 0.0, 0.0], [0.0, 3.0, 0.0], [0.0, 0.0, 3.0]])
    assert fits[0] > fits[1] > fits[2]


def test_faces_of_the_household_are_known_and_a_stranger_is_not(room):
    pytest.importorskip("dlib", reason="faces are compared by dlib")
    book = ProfileBook()
    near = (2.9, 2.4, 1.56)
    for name in ("ben", "dana"):
        assert enrol_face(book, name, scene_of(room, (figure(name, near, 5.0),), near)) == 3
    tool = FaceTool(book)
    place = (2.4, 2.6, 1.56)
    for name in ("ben", "dana"):
        assert tool(scene_of(room, (figure(name, place, -8.0),), place)).value.person == name
    strangers = [tool(scene_of(room, (figure(f"guest {n}", place, 0.0),), place)).value for n in range(2)]
    assert not any(found.known for found in strangers)
    assert all(found.limit > FACE.limit for found in strangers)  # the household is that much alike


def test_a_face_is_cut_out_as_dlib_does():
    dlib = pytest.importorskip("dlib")
    rng = np.random.default_rng(2)
    image = cv2.GaussianBlur(rng.integers(0, 255, (300, 300, 3)).astype(np.uint8), (0, 0), 3)
    goal = (CHIP_POINTS + CHIP_PADDING) / (1 + 2 * CHIP_PADDING) * CHIP_SIDE
    rows = [LEFT_EYE[1], LEFT_EYE[0], RIGHT_EYE[0], RIGHT_EYE[1], NOSE_BASE]
    turn = math.radians(8)
    rotation = np.array([[math.cos(turn), -math.sin(turn)], [math.sin(turn), math.cos(turn)]])
    points = np.round(1.3 * (goal - 75) @ rotation.T + 150)
    mesh = FaceMesh(np.zeros((468, 3)), 1.0)
    mesh.points[rows, :2] = points
    mesh.points[454, 0] = 1.0  # seen from its front
    found = dlib.full_object_detection(
        dlib.rectangle(0, 0, 299, 299), [dlib.point(int(x), int(y)) for x, y in points]
    )
    theirs = dlib.get_face_chip(np.ascontiguousarray(image[:, :, ::-1]), found, 150, 0.25)
    away = np.abs(face_chip(image, mesh)[10:-10, 10:-10].astype(float) - theirs[10:-10, 10:-10])
    assert away.mean() < 4  # dlib smooths a little more; the picture's own spread is 12


def test_similarity_is_that_of_opencv():
    rng = np.random.default_rng(3)
    points, goals = rng.normal(size=(6, 2)), rng.normal(size=(6, 2))
    mine = similarity(points, goals) @ np.column_stack([points, np.ones(6)]).T
    theirs, _ = cv2.estimateAffinePartial2D(points, goals, ransacReprojThreshold=100, refineIters=100)
    other = theirs @ np.column_stack([points, np.ones(6)]).T
    assert np.square(mine.T - goals).sum() <= np.square(other.T - goals).sum() + 1e-6


def test_rays_undo_the_projection_of_opencv():
    matrix = np.array([[320.0, 0, 319.5], [0, 322.0, 179.5], [0, 0, 1]])
    distortion = np.array([-0.12, 0.03, 0.001, -0.002, 0.0])
    view = View(MapCamera(640, 360, matrix, distortion, np.eye(4)))
    points = np.array([[0.4, -0.2, 1.0], [-0.7, 0.3, 1.0]])
    pixels, _ = cv2.projectPoints(points, np.zeros(3), np.zeros(3), matrix, distortion)
    assert view.rays(pixels[:, 0]) == pytest.approx(points, abs=1e-3)
    straight = turned_to(points[0])
    assert straight @ straight.T == pytest.approx(np.eye(3))
    assert straight[:, 2] == pytest.approx(points[0] / np.linalg.norm(points[0]))


def test_pictures_are_spread_over_the_speech():
    sound = np.zeros((RATE_HZ, 4), np.float32)
    voiced = np.zeros(RATE_HZ, bool)
    voiced[RATE_HZ // 2 :] = True
    utterance = Utterance(sound, 0, voiced, sound[:0], 10**9, 10**9)
    pictures = [Picture(t * 50_000_000, np.zeros((2, 2, 3), np.uint8)) for t in range(21)]
    chosen = chosen_pictures(pictures, utterance, 4)
    assert len(chosen) == 4
    assert all(pictures[number].t_ns >= 0.5e9 for number in chosen)
    assert chosen_pictures([], utterance) == []


def test_another_file_than_dlibs_network_is_refused(tmp_path):
    pytest.importorskip("dlib")
    other = tmp_path / "net.dat"
    other.write_bytes(b"something else")
    with pytest.raises(InputError, match="is not dlib"):
        FaceVector(other)
    with pytest.raises(InputError, match="no such file"):
        FaceVector(tmp_path / "none.dat")
