"""Which device is meant: geometry worked out by hand, and the posterior's properties."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edge.perception.direction import Direction
from edge.perception.matching import already, by_name, by_side, by_sound, lateral_angle_deg
from edge.perception.request import Request, parse_request
from edge.perception.room_map import RoomMap
from edge.perception.sounds import can_sound, sound_odds

ON, OFF = {"1.OnOff.OnOff": True}, {"1.OnOff.OnOff": False}


def room(*devices: tuple[str, str, tuple[float, float, float], dict[str, Any]], yaw: float = 90.0) -> RoomMap:
    """Devices (id, type, position, attributes) around a microphone at (2, 0, 1) that looks along +y."""
    return RoomMap(
        {
            "devices": [
                {"id": i, "type": t, "name": i, "position_m": p, "attributes": a} for i, t, p, a in devices
            ],
            "microphone": {"position_m": (2.0, 0.0, 1.0), "yaw_deg": yaw},
        }
    )


def request(text: str) -> Request:
    found = parse_request(text)
    assert found is not None
    return found


LAMPS = room(
    ("east", "on_off_light", (4.0, 2.0, 1.5), OFF),
    ("west", "on_off_light", (0.0, 2.0, 1.5), OFF),
)
AHEAD = Direction(90.0, 5.0, 5.0, 0.8)  # the speaker stands in front of the rig, at +y


def test_right_and_left_are_the_speakers_who_faces_the_rig() -> None:
    """At +y looking towards -y, the right hand points to -x: west, although the rig sees it on its left."""
    assert lateral_angle_deg(LAMPS, LAMPS.device("west"), AHEAD) == pytest.approx(45.0)
    assert lateral_angle_deg(LAMPS, LAMPS.device("east"), AHEAD) == pytest.approx(-45.0)
    right = by_side(LAMPS, request("turn on the light on my right"), AHEAD)
    left = by_side(LAMPS, request("turn on the light on my left"), AHEAD)
    assert (right[0].device_id, left[0].device_id) == ("west", "east")
    assert right[0].probability > 0.95


@settings(max_examples=80, deadline=None)
@given(
    st.floats(0, 360),
    st.floats(0.5, 4),
    st.floats(0, 360),
    st.floats(0.3, 4),
)
def test_the_distance_to_the_speaker_does_not_matter(
    bearing: float, far: float, device_bearing: float, device_far: float
) -> None:
    """The sign agrees with the textbook way: the cross product at the speaker's own place."""
    b, d = math.radians(bearing), math.radians(device_bearing)
    place = (2 + device_far * math.cos(d), device_far * math.sin(d), 1.0)
    home = room(("lamp", "on_off_light", place, OFF))
    speaker = (2 + far * math.cos(b), far * math.sin(b))
    facing = (2 - speaker[0], -speaker[1])
    to_device = (place[0] - speaker[0], place[1] - speaker[1])
    cross = facing[0] * to_device[1] - facing[1] * to_device[0]  # > 0: to the left of where they look
    angle = lateral_angle_deg(home, home.device("lamp"), Direction(bearing, 0.0, 5.0, 0.8))
    if abs(cross) > 1e-6 and abs(angle) > 1e-6:
        assert (angle > 0) == (cross < 0)


def test_a_device_straight_ahead_is_on_neither_side() -> None:
    home = room(
        ("lamp", "on_off_light", (2.0, 3.0, 1.0), OFF), ("west", "on_off_light", (0.0, 2.0, 1.0), OFF)
    )
    found = {c.device_id: c for c in by_side(home, request("turn on the light on my right"), AHEAD)}
    assert found["lamp"].likelihood == pytest.approx(0.5)
    assert found["west"].probability < 0.7  # not sure: the other one could be meant as well


def test_a_lamp_that_is_already_so_is_less_likely_but_the_side_decides() -> None:
    home = room(("east", "on_off_light", (4.0, 2.0, 1.5), OFF), ("west", "on_off_light", (0.0, 2.0, 1.5), ON))
    assert by_side(home, request("turn on the light on my right"), AHEAD)[0].device_id == "west"
    assert already(home.device("west"), "on")
    assert by_name(home, request("turn on the light"))[0].device_id == "east"


def test_no_device_of_that_kind() -> None:
    assert by_side(LAMPS, request("turn on the dishwasher on my right"), AHEAD) == []
    assert by_name(LAMPS, request("turn off the oven")) == []
    assert by_sound(LAMPS, request("stop that beeping"), AHEAD) == []


FANS = room(
    ("fan", "fan", (4.0, 2.0, 1.0), {**ON, "1.FanControl.PercentCurrent": 100}),
    ("cooler", "air_conditioner", (0.0, 2.0, 2.4), {**ON, "1.FanControl.PercentCurrent": 100}),
    ("off_fan", "fan", (0.0, 2.0, 1.0), OFF),
    ("player", "audio_player", (0.0, 2.1, 1.0), {**ON, "1.MediaPlayback.CurrentState": 0}),
)


def test_direction_and_kind_of_sound_together() -> None:
    """From the west: the player is nearest to that direction but does not hum, the fan there is off."""
    west = Direction(135.0, 0.0, 6.0, 0.8)
    assert by_sound(FANS, request("silence that humming"), west)[0].device_id == "cooler"
    assert by_sound(FANS, request("turn off that music"), west)[0].device_id == "player"
    assert (
        by_sound(FANS, request("silence that humming"), Direction(45.0, 0.0, 6.0, 0.8))[0].device_id == "fan"
    )
    assert "off_fan" not in [c.device_id for c in by_sound(FANS, request("silence that humming"), west)]


def test_elevation_counts() -> None:
    """Two coolers one above the other: only the height tells."""
    home = room(
        ("low", "air_conditioner", (2.0, 2.0, 0.2), ON),
        ("high", "air_conditioner", (2.0, 2.0, 2.4), ON),
    )
    up = math.degrees(math.atan2(1.4, 2.0))
    assert (
        by_sound(home, request("silence that humming"), Direction(90.0, up, 6.0, 0.8))[0].device_id == "high"
    )
    assert (
        by_sound(home, request("silence that humming"), Direction(90.0, -20.0, 6.0, 0.8))[0].device_id
        == "low"
    )


@settings(max_examples=60, deadline=None)
@given(st.floats(-180, 180), st.floats(-60, 60), st.floats(1, 90))
def test_the_posterior_is_one_and_wider_errors_decide_less(az: float, el: float, sigma: float) -> None:
    humming = request("silence that humming")
    found = by_sound(FANS, humming, Direction(az, el, sigma, 0.8))
    assert sum(c.probability for c in found) == pytest.approx(1.0)
    sure = by_sound(FANS, humming, Direction(45.0, 0.0, 4.0, 0.8))[0].probability
    assert by_sound(FANS, humming, Direction(45.0, 0.0, 60.0, 0.8))[0].probability <= sure


def test_without_a_direction_the_prior_decides() -> None:
    found = by_sound(FANS, request("silence that humming"), None)
    assert found[0].probability == pytest.approx(found[1].probability)
    assert found[0].away_deg is None


def test_states_that_cannot_sound() -> None:
    assert can_sound(OFF, "hum") == 0
    assert can_sound({**ON, "1.MediaPlayback.CurrentState": 1}, "music") < 0.05
    assert can_sound({**ON, "1.FanControl.PercentCurrent": 10}, "hum") < can_sound(
        {**ON, "1.FanControl.PercentCurrent": 100}, "hum"
    )
    assert can_sound({**ON, "1.OperationalState.OperationalState": 0}, "beep") > can_sound(
        {**ON, "1.OperationalState.OperationalState": 0}, "spin"
    )
    assert sound_odds("fan", "music") == 0
    assert sound_odds("toaster", "hum") == 0
