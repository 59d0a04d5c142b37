"""The virtual camera's pictures follow the geometry and the state of the home."""

from __future__ import annotations

import dataclasses

import msgspec
import numpy as np
import pytest

from capture.rig import Rig, load_rig
from capture.virtual.avatar import joints
from capture.virtual.drawing import Pinhole
from capture.virtual.home_state import ON_OFF, off, running
from capture.virtual.layout import slate_place
from capture.virtual.picture import Painter
from capture.virtual.scene import Figure, Snapshot
from recordings.camera_model import CameraModel
from recordings.geometry import camera_pose, direction_to_point, project_direction

RIG = load_rig(None)
STATES = {d.id: off(d.type) for d in RIG.room.devices}
FACING = np.array([0.0, -1.0])


def picture(painter: Painter, figure: Figure | None = None, led: float = 0.0, t: float = 0.0, **changed):
    return painter.draw(Snapshot(t, figure, {**STATES, **changed}, led)).astype(int)


def turned(**camera: object) -> Rig:
    return msgspec.structs.replace(RIG, camera=msgspec.structs.replace(RIG.camera, **camera))


@pytest.mark.parametrize("camera", [{}, {"yaw_deg": 25.0, "pitch_deg": -8.0, "hfov_deg": 70.0}])
def test_projection_agrees_with_the_geometry_of_recordings(camera):
    """The same pixel by two ways: a room point through our pinhole, its direction through the other code."""
    rig = turned(**camera)
    for point in ((2.2, 3.5, 1.5), (3.3, 2.6, 0.7), (2.9, 3.9, 2.0)):
        azimuth, elevation, distance = direction_to_point(
            point, rig.microphone.position_m, rig.microphone.yaw_deg
        )
        other = project_direction(
            azimuth,
            elevation,
            T_mic_camera=camera_pose(rig.camera.position_m, rig.camera.yaw_deg, rig.camera.pitch_deg),
            camera=CameraModel.nominal(rig.camera.width_px, rig.camera.height_px, rig.camera.hfov_deg),
            distance_m=distance,
        )
        ours, _ = Pinhole(rig).pixels(point)
        np.testing.assert_allclose(ours[0], [other.u_px[0], other.v_px[0]], atol=1e-6)


def test_a_lit_lamp_is_bright_where_the_lamp_is():
    painter = Painter(RIG)
    dark = picture(painter)
    lamp = next(d for d in RIG.room.devices if d.type == "on_off_light")
    lit = picture(painter, **{lamp.id: running(lamp.type)})
    x, y = np.round(Pinhole(RIG).pixels(lamp.position_m)[0][0]).astype(int)
    gain = (lit - dark).sum(axis=2)
    assert gain[y - 3 : y + 3, x - 3 : x + 3].min() > 150
    assert np.median(gain) < 80  # the rest of the room changes far less


def test_a_running_washer_turns_and_a_stopped_one_stands_still():
    painter = Painter(RIG)
    washer = next(d for d in RIG.room.devices if d.type == "laundry_washer")
    on = {washer.id: running(washer.type)}
    x, y = np.round(Pinhole(RIG).pixels(washer.position_m)[0][0]).astype(int)
    changed = np.abs(picture(painter, t=1.0, **on) - picture(painter, t=1.3, **on)).sum(axis=2) > 30
    rows, columns = np.nonzero(changed)
    assert changed.sum() > 50 and np.hypot(columns - x, rows - y).max() < 60
    np.testing.assert_array_equal(picture(painter, t=1.0), picture(painter, t=1.3))


def test_person_stands_where_the_mouth_is_and_the_mouth_opens():
    painter = Painter(RIG)
    mouth = np.array([2.2, 2.9, 1.52])
    closed = picture(painter, Figure("alex", mouth, FACING, 0.0))
    opened = picture(painter, Figure("alex", mouth, FACING, 1.0))
    x, y = Pinhole(RIG).pixels(mouth)[0][0]
    rows, columns = np.nonzero(np.abs(opened - closed).sum(axis=2) > 30)
    assert len(rows) > 5
    assert np.hypot(columns.mean() - x, rows.mean() - y) < 1.5
    empty = picture(painter)
    rows, columns = np.nonzero(np.abs(closed - empty).sum(axis=2) > 30)
    assert abs(columns.mean() - x) < 6 and rows.max() - rows.min() > 150


@pytest.mark.parametrize("target", [(0.8, 3.1, 1.5), (4.0, 3.6, 0.9), (2.3, 4.0, 2.3)])
def test_a_pointing_arm_lies_on_the_ray_to_its_target(target):
    figure = Figure("alex", np.array([2.6, 2.8, 1.5]), FACING, 0.0, pointing_at_m=target)
    place = joints(figure)
    side = "right" if target[0] < 2.6 else "left"  # facing -y, the person's right is -x
    shoulder = place[f"{side}_shoulder"]
    ray = (np.array(target) - shoulder) / np.linalg.norm(np.array(target) - shoulder)
    for joint in (f"{side}_elbow", f"{side}_wrist", f"{side}_hand", "finger"):
        way = place[joint] - shoulder
        np.testing.assert_allclose(way / np.linalg.norm(way), ray, atol=1e-9)
    np.testing.assert_array_equal(place["mouth"], figure.mouth_m)
    image = Painter(RIG)
    resting = dataclasses.replace(figure, pointing_at_m=None)
    assert np.abs(picture(image, figure) - picture(image, resting)).max() > 50


def test_the_led_shines_in_its_box_in_proportion_to_the_exposure():
    painter = Painter(RIG)
    x, y, width, height = painter.led_box()
    centre, _ = Pinhole(RIG).pixels(slate_place(RIG))
    assert abs(x + width / 2 - centre[0, 0]) <= 1 and abs(y + height / 2 - centre[0, 1]) <= 1

    def brightness(led: float) -> float:
        return float(picture(painter, led=led)[y + 4 : y + height - 4, x + 4 : x + width - 4].mean())

    dark, half, full = (brightness(v) for v in (0.0, 0.4, 1.0))
    assert dark < 60 and full > 200 and dark + 40 < half < full - 40


def test_any_size_and_any_view_can_be_drawn():
    figure = Figure("nobody", np.array([2.6, 2.8, 1.5]), FACING, 0.5)
    for camera in (
        {"width_px": 64, "height_px": 48, "hfov_deg": 30.0},
        {"yaw_deg": 180.0},
        {"pitch_deg": -80.0},
        {"hfov_deg": 160.0},
    ):
        image = Painter(turned(**camera)).draw(Snapshot(0.0, figure, STATES, 0.5))
        rig = turned(**camera)
        assert image.shape == (rig.camera.height_px, rig.camera.width_px, 3)


def test_every_type_of_device_can_be_drawn_in_every_state():
    types = [
        "on_off_light",
        "dimmable_light",
        "air_conditioner",
        "fan",
        "humidifier",
        "air_purifier",
        "tv",
        "audio_player",
        "microwave",
        "laundry_washer",
        "refrigerator",
        "window_covering",
    ]
    device = RIG.room.devices[0]
    small = turned(width_px=240, height_px=135)
    bare = msgspec.structs.replace(small, room=msgspec.structs.replace(RIG.room, devices=()))
    empty = Painter(bare).draw(Snapshot(0.0, None, {}, 0.0)).astype(int)
    for kind in types:
        one = msgspec.structs.replace(device, type=kind, position_m=(2.6, 3.9, 1.3))
        rig = msgspec.structs.replace(small, room=msgspec.structs.replace(RIG.room, devices=(one,)))
        images = [
            Painter(rig).draw(Snapshot(0.5, None, {one.id: state}, 0.0)).astype(int)
            for state in (off(kind), running(kind))
        ]
        assert np.abs(images[0] - empty).max() > 40
        if ON_OFF in off(kind):
            assert np.abs(images[1] - images[0]).max() > 40
