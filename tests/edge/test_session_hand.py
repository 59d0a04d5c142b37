"""The check `hand`: what is seen of arms that are known, and a take in which somebody points."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from dsp.errors import MissingDependency
from edge.perception.body import NUMBER, Body
from edge.perception.body_detector import Region
from edge.perception.landmark_models import INSTALL
from edge.session import hand_check
from edge.session.engine import Session
from edge.session.hand_check import Arms, Hands, arm_joints, arms_of, hands_in, seen
from edge.session.operators import Auto
from edge.session.stage import Stage
from recordings.episode import Episode
from recordings.plan.model import Plan
from recordings.profile import Placed
from recordings.session_journal import read_journal
from tests.edge.session_plans import item, plan_of

SIZE = (640, 360)
ARM = 100.0  # pixels
DOWN, LEFT_UP = (0.0, ARM), (-ARM * math.cos(0.2), -ARM * math.sin(0.2))


def body(left: tuple[float, float], right: tuple[float, float] = DOWN, *, x: float = 320.0) -> Body:
    """Somebody at x whose wrists are so far from their shoulders, pixels."""
    pixels = np.zeros((33, 2))
    pixels[:] = (x, 100)
    for side, apart, arm in (("left", 35, left), ("right", -35, right)):
        pixels[NUMBER[f"{side}_shoulder"]] = (x + apart, 130)
        pixels[NUMBER[f"{side}_wrist"]] = np.add((x + apart, 130), arm)
    shown, region = np.ones(33), Region(x, 200, 400, 0.0)
    return Body(pixels, np.zeros(33), np.zeros((33, 3)), shown, shown.copy(), 1.0, region, region)


def arms(pointing: tuple[float, float] | None, x: float = 320.0) -> Arms:
    both = None if pointing is None else np.array([pointing, pointing])
    return Arms(np.array([x, 100.0]), np.array([DOWN, DOWN]), both)


def turned(arm: tuple[float, float], degrees: float) -> tuple[float, float]:
    cos, sin = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
    return (cos * arm[0] - sin * arm[1], sin * arm[0] + cos * arm[1])


@pytest.mark.parametrize(
    ("left", "right", "wanted"),
    [
        (LEFT_UP, DOWN, "pointing"),
        (DOWN, LEFT_UP, "pointing"),  # either arm
        (turned(LEFT_UP, 25), DOWN, "pointing"),
        (turned(LEFT_UP, -25), DOWN, "pointing"),
        (turned(LEFT_UP, 45), DOWN, "elsewhere"),
        ((-LEFT_UP[0], LEFT_UP[1]), DOWN, "elsewhere"),  # the other way
        (DOWN, DOWN, "hanging"),
        (turned(DOWN, 15), turned(DOWN, -15), "hanging"),
        ((-400.0, 0.0), DOWN, "hidden"),  # the wrist is outside of the picture
    ],
)
def test_an_arm_is_held_against_the_one_that_is_asked_for(left: Any, right: Any, wanted: str):
    assert seen([body(left, right)], arms(LEFT_UP), SIZE) == wanted


def test_a_hand_that_is_not_visible_does_not_point():
    hidden = body(LEFT_UP)
    hidden.visibility[NUMBER["left_wrist"]] = 0.1
    assert seen([hidden], arms(LEFT_UP), SIZE) == "hidden"


def test_the_arm_of_somebody_else_does_not_count():
    beside = body(LEFT_UP, x=480)
    assert seen([beside], arms(LEFT_UP), SIZE) == "nobody" == seen([], arms(LEFT_UP), SIZE)
    assert seen([beside, body(DOWN)], arms(LEFT_UP), SIZE) == "hanging"
    assert seen([beside, body(LEFT_UP)], arms(LEFT_UP), SIZE) == "pointing"


def test_an_arm_towards_the_camera_is_short_in_both():
    towards = (5.0, 20.0)
    assert seen([body((0.0, 10.0))], arms(towards), SIZE) == "pointing"
    assert seen([body((ARM, 0.0))], arms(towards), SIZE) == "elsewhere"


def test_joints_of_the_plan_are_left_and_right_and_an_arm_long():
    placed = Placed(person="p", mouth_m=(2.0, 3.0, 1.5), facing_deg=90.0, speaks=True)
    mouth, left, right, *wrists = arm_joints(placed, (2.0, 9.0, 1.33))
    assert mouth == pytest.approx([2, 3, 1.5])
    assert left[0] < 2 < right[0], "who faces along y has x on the right"
    assert wrists[0] == pytest.approx(left - [0, 0, 0.57])
    for shoulder, wrist in zip((left, right), wrists[2:], strict=True):
        assert np.linalg.norm(wrist - shoulder) == pytest.approx(0.57)
        assert np.cross(wrist - shoulder, [2, 9, 1.33] - shoulder) == pytest.approx([0, 0, 0])
    assert len(arm_joints(placed, None)) == 5
    assert arms_of(np.zeros((7, 2)), False) is None and arms_of(np.full((7, 2), np.nan), True) is None


@pytest.mark.parametrize(
    ("counts", "verdict", "words"),
    [
        ({"pointing": 3, "hanging": 3}, "ok", "towards the lamp in 3 of 6 pictures"),
        ({"pointing": 2, "hanging": 4}, "warning", "both hang in 4 of 6"),
        ({"hanging": 6}, "bad", "no arm is raised"),
        ({"hidden": 4, "hanging": 2}, "bad", "hidden or outside of the picture in 4 of 6"),
        ({"elsewhere": 6}, "warning", "no arm points towards the lamp"),
        ({"nobody": 4, "pointing": 2}, "warning", "nobody is found"),
    ],
)
def test_pictures_make_a_verdict(counts: Any, verdict: str, words: str):
    found, said = Hands(counts, 6).verdict("lamp")
    assert found == verdict and words in said


def test_nothing_to_point_at_and_what_cannot_be_told():
    assert Hands({"hanging": 6}, 6).verdict(None)[0] == "ok"
    assert Hands({"elsewhere": 6}, 6).verdict(None)[0] == "warning"
    low = arms((0.0, ARM))  # the target is on the floor below the hand
    assert not low.told_apart and arms(LEFT_UP).told_apart and arms(None).told_apart
    assert Hands({"hanging": 6}, 6, told_apart=low.told_apart).verdict("robot")[0] == "not checked"


# ------------------------------------------------------------------ takes

LAMP = "living_room_on_off_light_1"
Take = tuple[Plan, Episode, dict[str, Any]]


@pytest.fixture(scope="module")
def take(tmp_path_factory: pytest.TempPathFactory) -> Take:
    """A take in which the speaker points at the lamp, and what the session's check said."""
    try:
        hand_check.finder()
    except MissingDependency as error:
        pytest.skip(str(error))
    data = tmp_path_factory.mktemp("data")
    plan = plan_of(item(1, "Turn that on.", grounding="G1", target=LAMP, pointing_at=LAMP))
    Session(plan, data, "day", Stage(plan, data), operator=Auto(takes=1), countdown_s=0, report=False).run()
    (checks,) = (line["checks"] for line in read_journal(data / "day").lines if line["step"] == "checks")
    told = {check["name"]: check for check in checks}
    return plan, Episode.open(data / "day" / "ep0001-t1"), told


def hands(take: Take, target: str | None, begin_s: float, end_s: float) -> Hands:
    plan, episode, _ = take
    room = plan.rooms[0]
    (speaker,) = plan.items[0].staging.people
    places = {device.id: device.position_m for device in room.devices}
    return hands_in(episode, room, speaker, places[target] if target else None, begin_s, end_s)


def test_a_take_in_which_the_speaker_points(take: Take):
    hand = take[2]["hand"]
    assert hand["verdict"] == "ok" and hand["pointing"] >= 5 and hand["looked"] == 6, hand


def test_before_the_request_the_arm_hangs(take: Take):
    begin_s = take[2]["speech"]["begin_s"]
    found = hands(take, LAMP, 0.0, begin_s - 1.5)
    assert found.verdict("lamp")[0] == "bad" and found.counts.get("pointing", 0) == 0, found


def test_another_target_and_none_at_all(take: Take):
    plan, _, told = take
    speech = told["speech"]
    (speaker,) = plan.items[0].staging.people
    x, y, _ = speaker.mouth_m
    places = {device.id: device.position_m for device in plan.rooms[0].devices}
    lamp = np.subtract(places[LAMP][:2], (x, y))
    across = min(places, key=lambda name: float(np.dot(np.subtract(places[name][:2], (x, y)), lamp)))
    for target in (across, None):
        found = hands(take, target, speech["begin_s"], speech["end_s"])
        assert found.counts.get("elsewhere", 0) >= 4 and found.verdict(target)[0] == "warning", found


def test_without_the_networks_it_says_what_to_install(take: Take, monkeypatch: pytest.MonkeyPatch):
    def absent() -> Any:
        raise MissingDependency(f"`{INSTALL}`")

    monkeypatch.setattr(hand_check, "finder", absent)
    found = hands(take, LAMP, 1.0, 2.0)
    assert found.verdict("lamp") == ("not checked", f"`{INSTALL}`") and not found.looked
