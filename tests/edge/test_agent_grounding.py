"""Which device is meant, by evidence whose geometry is known beforehand."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.agent_oracle import Run, findings_of, profile_of, view_of
from edge.agent.decide_request import confirmed, decide
from edge.agent.grounding import ground, ground_device, speaker_odds
from edge.agent.home_view import HomeView
from edge.agent.posterior import Row, normalised, on_side, tail
from edge.language import HomeWords, understand
from edge.language.intent import Change, DeviceWords, Intent, Order
from edge.perception.facing import Facing
from edge.perception.pointing import Pointing, Ray
from edge.perception.profiles import Identity
from edge.perception.room_map import RoomMap
from edge.perception.tools import Finding
from recordings.evaluate.answers import collect
from recordings.evaluate.evaluation import evaluate
from recordings.evaluate.rule_judge import RuleJudge
from recordings.plan.builtin import virtual_home
from recordings.plan.generate import make_plan
from recordings.plan.model import Plan

ON = "1.OnOff.OnOff"
TURN_OFF = (Order(Change("off")),)


def lamp(
    name: str, at: tuple[float, float, float] | None, on: bool = True, room: str = "den"
) -> dict[str, Any]:
    return {
        "id": name.replace(" ", "_"), "type": "on_off_light", "name": name, "room": room,
        "position_m": at, "attributes": {ON: on},
    }  # fmt: skip


def home_of(*devices: dict[str, Any], household: tuple[dict[str, Any], ...] = ()) -> HomeView:
    microphone = {"position_m": [0.0, 0.0, 1.2], "yaw_deg": 0.0}
    told = {"devices": list(devices), "microphone": microphone, "household": list(household)}
    return HomeView(RoomMap({**told, "time": "2026-06-01 09:00:00", "room": {"name": "den"}}))


def found(value: Any) -> Finding[Any]:
    return Finding("test", value, 1.0)


def arm(origin: tuple[float, float, float], place: tuple[float, float, float]) -> Pointing:
    """A ray from a shoulder exactly at a place, its plane upright, as the vision tool gives it."""
    ray = np.subtract(place, origin) / np.linalg.norm(np.subtract(place, origin))
    normal = np.cross(ray, [0.0, 0.0, 1.0])
    return Pointing(
        np.array(origin), ray, 10.0, 3.0, normal / np.linalg.norm(normal), (Ray(ray, 1.0),), "right"
    )


LEFT, RIGHT = (3.0, 2.0, 1.0), (3.0, -2.0, 1.0)


def test_arm_tells_two_lamps_apart_and_none_without_an_arm():
    home = home_of(lamp("red lamp", LEFT), lamp("green lamp", RIGHT))
    intent = Intent("turn that off", "Q2", DeviceWords("G1", "that"), orders=TURN_OFF)
    for name, place in (("red_lamp", LEFT), ("green_lamp", RIGHT)):
        posterior = ground(intent, {"pointing": found(arm((1.5, 0.0, 1.3), place))}, home)
        assert posterior.best is not None and posterior.best.device_id == name
        assert posterior.best.probability > 0.95 and posterior.best.away_deg == pytest.approx(0, abs=1e-4)
    nobody = ground(intent, {"pointing": found(None)}, home)
    assert nobody.none > 0.8 and nobody.missing == "points_at_nothing"
    assert decide(intent, nobody, home).category == "nonexistent_resource"
    unseen = ground(intent, {}, home)  # nobody looked: the two remain equal, and the agent asks
    assert unseen.none == 0 and decide(intent, unseen, home).outcome == "asked"


def test_an_arm_past_everything_is_no_pointing_and_words_that_fit_one_device_need_no_arm():
    home = home_of(lamp("red lamp", LEFT), lamp("green lamp", RIGHT))
    past = {"pointing": found(arm((1.5, 0.0, 1.3), (-3.0, 0.1, 1.3)))}
    thing, light = DeviceWords("G1", "that"), DeviceWords("G1", "that lamp", types=("on_off_light",))
    assert ground_device(thing, past, home).missing == "points_at_nothing"
    assert ground_device(thing, past, home).none > 0.7 > 0.3 > ground_device(light, past, home).none
    fan = {"id": "fan", "type": "fan", "name": "fan", "room": "den", "position_m": (2.0, 0.0, 1.0),
           "attributes": {ON: True, "1.FanControl.PercentSetting": 40}}  # fmt: skip
    run = Intent("run that at ninety percent", "Q2", thing, orders=(Order(Change("speed", 90.0)),))
    posterior = ground(run, {"pointing": found(None)}, home_of(lamp("red lamp", LEFT), fan))
    assert posterior.best is not None and posterior.best.device_id == "fan" and posterior.none < 0.3


def test_a_kind_that_the_room_has_not_is_not_there_whatever_is_pointed_at():
    home = home_of(lamp("red lamp", LEFT))
    words = DeviceWords("G1", noun="fan", types=("fan",))
    posterior = ground_device(words, {"pointing": found(arm((1.5, 0.0, 1.3), LEFT))}, home)
    assert posterior.best is None and (posterior.missing, posterior.near) == ("points_elsewhere", "red_lamp")


@given(st.floats(-180, 179), st.floats(0.3, 3.0), st.floats(-math.pi, math.pi))
def test_sides_turn_with_the_speaker(facing: float, distance: float, way: float):
    """Whoever turns by a quarter has on the left what was in front before (property of the plane)."""
    place = (distance * math.cos(way), distance * math.sin(way), 1.0)
    home = home_of(lamp("red lamp", place))
    speaker = found(SimpleNamespace(position_m=(0.001, 0.0, 1.5), sigma_m=0.0))
    shares = []
    for turn, side in ((0, "front"), (-90, "left"), (90, "right"), (180, "behind")):
        seen = {"facing": found(Facing(facing + turn, 6.0, "head")), "speaker": speaker}
        words = DeviceWords("G3", types=("on_off_light",), side=side)
        shares.append(1 - ground_device(words, seen, home).none)
    assert shares[0] == pytest.approx(shares[3], abs=0.02) and shares[1] == pytest.approx(shares[2], abs=0.02)
    bearing = (math.degrees(way) - facing + 180) % 360 - 180
    if abs(bearing) < 25:
        assert min(shares[0], shares[1]) > 0.95
    if abs(bearing) > 80:
        assert max(shares) < 0.05


def test_side_shares_sum_to_one_around():
    """front 90 + left 100 + right 100 + behind 90 degrees overlap by 20 in all: the mean share is 380/360."""
    angles = np.arange(0.5, 360, 1.0)
    total = sum(on_side(a, side, 5.0) for a in angles for side in ("front", "left", "right", "behind"))
    assert total / len(angles) == pytest.approx(380 / 360, rel=1e-3)


def test_tail_holds_68_percent_within_sigma():
    """Summed over rings; beyond it there are more errors than a normal distribution would have (3 sigma of
    its 68 % radius: 3.5e-5)."""
    away = np.arange(0.02, 1600, 0.04)
    mass = np.array([tail(x, 8.0) for x in away]) * away
    within = [mass[away <= limit].sum() / mass.sum() for limit in (8.0, 24.0)]
    assert within[0] == pytest.approx(0.68, abs=0.01)
    assert 0.01 < 1 - within[1] < 0.1


def test_sound_from_a_device_that_cannot_make_it():
    fan = {
        "id": "fan", "type": "fan", "name": "fan", "room": "den", "position_m": LEFT,
        "attributes": {ON: True, "1.FanControl.PercentCurrent": 60, "1.FanControl.PercentSetting": 60},
    }  # fmt: skip
    home = home_of(fan, lamp("green lamp", RIGHT))
    hum = DeviceWords("G2", sound="humming", kind="hum")
    heard = found(SimpleNamespace(unit=np.subtract(LEFT, (0, 0, 1.2)) / 3.61, sigma_deg=8.0, support=1.0))
    assert ground_device(hum, {"sound": heard}, home).best.device_id == "fan"  # type: ignore[union-attr]
    beep = ground_device(DeviceWords("G2", sound="beeping", kind="beep"), {"sound": heard}, home)
    assert beep.best is None and (beep.missing, beep.near) == ("nothing_could_sound", "fan")
    fan["attributes"][ON] = False
    silent = ground_device(hum, {"sound": found(None)}, home_of(fan))
    assert silent.none == 1 and silent.missing == "nothing_sounds"


ANNA = {"id": "anna", "name": "Anna", "room": "den", "devices": ["red_lamp"]}
BEN = {"id": "ben", "name": "Ben", "room": "study", "devices": ["green_lamp"]}


def identity(**scores: float) -> Finding[Any]:
    ranked = tuple(sorted(scores.items(), key=lambda one: -one[1]))
    known = ranked[0][0] if ranked[0][1] >= 0.6 else None
    return found(Identity(known, ranked[0][1], ranked, 0.6))


def test_my_lamp_is_the_speakers():
    home = home_of(lamp("red lamp", LEFT), lamp("green lamp", RIGHT), household=(ANNA, BEN))
    mine = DeviceWords("G4", noun="lamp", types=("on_off_light",), own="device")
    for person, name in (("anna", "red_lamp"), ("ben", "green_lamp")):
        other = "ben" if person == "anna" else "anna"
        seen = {"voice": identity(**{person: 0.8, other: 0.3})}
        posterior = ground_device(mine, seen, home)
        assert posterior.best is not None and posterior.best.device_id == name
        assert posterior.speaker == person and posterior.best.probability > 0.95
    stranger = ground_device(mine, {"voice": identity(anna=0.2, ben=0.1)}, home)
    assert stranger.missing == "unknown_speaker" and stranger.none > 0.5
    intent = Intent("turn my lamp off", "Q2", mine, orders=TURN_OFF)
    decision = decide(intent, stranger, home)
    assert decision.outcome == "asked" and not decision.calls


def test_face_and_voice_add_up():
    """Two tools that lean the same way are surer than each; the odds multiply (naive Bayes)."""
    home = home_of(lamp("red lamp", LEFT), household=(ANNA, BEN))
    one = speaker_odds({"voice": identity(anna=0.65, ben=0.6)}, home)
    both = speaker_odds({"voice": identity(anna=0.65, ben=0.6), "face": identity(anna=0.65, ben=0.6)}, home)
    assert both["anna"] > one["anna"] > 0.4
    assert both["anna"] / both["ben"] == pytest.approx((one["anna"] / one["ben"]) ** 2, rel=0.05)
    assert sum(both.values()) == pytest.approx(1)


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), max_size=6), st.floats(0, 1))
def test_posterior_is_a_distribution(odds: list[tuple[float, float]], none: float):
    candidates, left = normalised([Row(str(n), "x", *pair) for n, pair in enumerate(odds)], none)
    assert sum(c.probability for c in candidates) + left == pytest.approx(1)
    assert [c.probability for c in candidates] == sorted((c.probability for c in candidates), reverse=True)


@pytest.fixture(scope="module")
def plan() -> Plan:
    rooms, people = virtual_home()
    return make_plan(rooms, people, 41, name="dev", per_cell=1)


@pytest.mark.parametrize("noise", [None, 3])
def test_true_evidence_and_words_solve_a_plan(plan: Plan, noise: int | None):
    """All 17 combinations, feasible and not, from the words as spoken and evidence that is true (or off by as
    much as it says): device, state of the home, values told and causes named are right by the evaluation."""
    rng = None if noise is None else np.random.default_rng(noise)
    answers = []
    for item in plan.items:
        run = Run.of(item)
        home = view_of(item, plan, run.simulation)
        intent = understand(item.request, HomeWords.of(home.room))
        decision = decide(intent, ground(intent, findings_of(item, plan, rng), home), home)
        answers.append(run.answer(decision))
        if decision.expect and item.query in ("Q2", "Q4"):
            assert confirmed(decision.expect, run.simulation.home.snapshot()) == []
    scores = evaluate([profile_of(item) for item in plan.items], collect(answers), RuleJudge())
    wrong = [s.to_dict() for s in scores.scores if "wrong" in (s.grounding.verdict, s.goal.verdict)]  # type: ignore[union-attr]
    assert len(plan.items) == 34 and not scores.errors
    assert len(wrong) <= (0 if noise is None else 2), wrong
