"""The rules that span several fields of a profile: each is broken once, alone, in a profile that is right."""

from __future__ import annotations

import math
from typing import Any

import pytest
from msgspec.structs import replace

from dsp.errors import InputError
from recordings.combinations import COMBINATIONS, profile_problems
from recordings.plan.model import PlanItem
from recordings.profile import (
    Assert,
    DeviceState,
    Goal,
    HomeState,
    Member,
    Placed,
    Profile,
    RoomChange,
    RoomState,
    RoomValue,
    Staging,
    Step,
    When,
    check_fields,
)

ON, LEVEL, CYCLE = "1.OnOff.OnOff", "1.LevelControl.CurrentLevel", "1.OperationalState.OperationalState"
LAMP = DeviceState(
    id="lamp", type="dimmable_light", name="lamp", room="study", attributes={ON: False, LEVEL: 254}
)
RADIO = DeviceState(id="radio", type="audio_player", name="radio", room="study", attributes={ON: True})
WASHER = DeviceState(id="washer", type="laundry_washer", name="washer", room="bath", attributes={CYCLE: 1})
HOME = HomeState(
    devices=(LAMP, RADIO, WASHER),
    rooms=("study", "bath"),
    people=("ada", "ben"),
    household=(Member(id="ada", name="Ada", room="study"), Member(id="ben", name="Ben", devices=("washer",))),
    room_states={"study": RoomState(temperature_c=21.237)},
    clock="2026-11-30 18:00:00",
)
ADA = Placed(person="ada", mouth_m=(1.0, 2.0, 1.5), facing_deg=0.0, speaks=True, pointing_at="lamp")
BEN = Placed(person="ben", mouth_m=(2.0, 2.0, 1.5), facing_deg=90.0)
STAGING = Staging(room="study", people=(ADA, BEN), sounding=("lamp", "radio"))


def lamp(attribute: str, value: Any) -> Assert:
    return Assert(device_id="lamp", attribute=attribute, value=value)


def schedule(when: When, *asserts: Assert) -> Goal:
    return Goal(kind="state", steps=(Step(when=when, asserts=asserts),))


def cleaner(room: str) -> Goal:
    return Goal(kind="state", changes=(RoomChange(room=room, variable="pm10", direction="decrease"),))


LIGHT_ON = lamp(ON, True)
STATE = Goal(kind="state", asserts=(LIGHT_ON,))
AT_NINE = schedule(When(at_min=180.0), LIGHT_ON)
IS_OFF = Goal(
    kind="answer",
    asserts=(lamp(ON, False),),
    room_values=(RoomValue(room="study", variable="temperature", value=21.24),),
)
NO_TV = Goal(
    kind="refusal",
    asserts=(Assert(device_id="tv", attribute=ON, value=True),),
    reason="there is no television",
)
TOO_BRIGHT = Goal(
    kind="refusal",
    asserts=(lamp(LEVEL, 900),),
    reason="100 % is the most",
)
TOO_LATE = Goal(
    kind="refusal", steps=(Step(when=When(at_min=-60.0), asserts=(LIGHT_ON,)),), reason="five is past"
)


def profile(**fields: Any) -> Profile:
    given: dict[str, Any] = {
        "id": "e",
        "session": "s",
        "created_utc": "2026-11-30T18:00:00.123Z",
        "origin": "virtual",
        "grounding": "G0",
        "query": "Q2",
        "feasibility": "feasible",
        "request": "Turn on the lamp",
        "speaker": "ada",
        "target_device": "lamp",
        "goal": STATE,
        "home": HOME,
        "staging": STAGING,
    }
    return Profile(**{**given, **fields})


def home(**fields: Any) -> HomeState:
    return replace(HOME, **fields)


def goal(**fields: Any) -> Goal:
    return replace(STATE, **fields)


def staging(**fields: Any) -> Staging:
    return replace(STAGING, **fields)


def codes(of: Profile | PlanItem, complete: bool = True) -> set[str]:
    return {problem.code for problem in profile_problems(of, complete=complete)}


def test_seventeen_combinations() -> None:
    # The paper: every grounding with Q1 to Q3, and implicit intent with G0 and G4 only.
    assert len(COMBINATIONS) == len(set(COMBINATIONS)) == 17
    assert {g for g, q in COMBINATIONS if q == "Q4"} == {"G0", "G4"}


@pytest.mark.parametrize("grounding", ["G0", "G1", "G2", "G3", "G4"])
@pytest.mark.parametrize(
    ("query", "wanted"), [("Q1", IS_OFF), ("Q2", STATE), ("Q3", AT_NINE), ("Q4", STATE)], ids=str
)
def test_every_combination_has_a_right_profile(grounding: str, query: str, wanted: Goal) -> None:
    found = codes(profile(grounding=grounding, query=query, goal=wanted))
    assert found == (set() if (grounding, query) in COMBINATIONS else {"combination"})


def test_right_infeasible_profiles() -> None:
    infeasible = {"query": "Q2", "goal": NO_TV, "target_device": None}
    assert codes(profile(feasibility="nonexistent_resource", **infeasible)) == set()
    assert codes(profile(feasibility="physical_limit", goal=TOO_BRIGHT)) == set()
    assert codes(profile(feasibility="temporal_contradiction", query="Q3", goal=TOO_LATE)) == set()
    changed = Goal(
        kind="state", changes=(RoomChange(room="study", variable="illuminance", direction="increase"),)
    )
    assert codes(profile(query="Q4", goal=changed)) == set()
    assert codes(profile(query="Q4", goal=changed, target_device=None)) == set()


def test_what_is_not_known_breaks_no_rule() -> None:
    bare = Profile(id="e", session="s", created_utc="2026-11-30T18:00:00Z", origin="imported")
    assert profile_problems(bare) == []
    missing = " ".join(str(problem) for problem in profile_problems(bare, complete=True))
    for key in ("grounding", "query", "feasibility", "request", "speaker", "goal", "home"):
        assert f"{key} is missing" in missing
    assert profile_problems(profile(home=HomeState(), staging=None)) == []


IN = {"target_device": None, "feasibility": "nonexistent_resource", "goal": NO_TV}
BROKEN: dict[str, tuple[str, dict[str, Any]]] = {
    "difficulty of an infeasible one": ("difficulty", {**IN, "difficulty": "hard"}),
    "empty request": ("request", {"request": "  "}),
    "infeasible with a state goal": ("goal_kind", {"feasibility": "physical_limit"}),
    "feasible with a refusal": ("goal_kind", {"goal": TOO_BRIGHT}),
    "inquiry with a state goal": ("goal_kind", {"query": "Q1"}),
    "control with an answer": ("goal_kind", {"goal": IS_OFF}),
    "reason of a feasible goal": ("goal_parts", {"goal": goal(reason="so")}),
    "scheduling without steps": ("goal_parts", {"query": "Q3"}),
    "steps without scheduling": ("goal_parts", {"goal": AT_NINE}),
    "changes without implicit intent": (
        "goal_parts",
        {"goal": goal(changes=(RoomChange(room="study", variable="pm10", direction="decrease"),))},
    ),
    "told values in a state goal": ("goal_parts", {"goal": goal(room_values=IS_OFF.room_values)}),
    "empty state goal": ("goal_empty", {"goal": Goal(kind="state")}),
    "empty answer": ("goal_empty", {"query": "Q1", "goal": Goal(kind="answer")}),
    "empty step": (
        "goal_empty",
        {"query": "Q3", "goal": schedule(When(at_min=1))},
    ),
    "asked twice": ("twice", {"goal": goal(asserts=(LIGHT_ON, LIGHT_ON))}),
    "step without a time": (
        "when",
        {"query": "Q3", "goal": schedule(When(), LIGHT_ON)},
    ),
    "step with two times": (
        "when",
        {
            "query": "Q3",
            "goal": schedule(When(at_min=5, anchor_device="washer"), LIGHT_ON),
        },
    ),
    "step in the past": (
        "when",
        {"query": "Q3", "goal": schedule(When(at_min=-5), LIGHT_ON)},
    ),
    "anchor that is not there": (
        "no_such_device",
        {
            "query": "Q3",
            "goal": schedule(When(anchor_device="dryer"), LIGHT_ON),
        },
    ),
    "goal of a device that is not there": (
        "no_such_device",
        {"goal": goal(asserts=(LIGHT_ON, Assert(device_id="tv", attribute=ON, value=True)))},
    ),
    "goal of a room that is not there": (
        "no_such_room",
        {
            "query": "Q4",
            "goal": cleaner("attic"),
            "target_device": None,
        },
    ),
    "reached by doing nothing": (
        "satisfied",
        {"goal": goal(asserts=(lamp(ON, False),))},
    ),
    "reached by doing nothing, by steps": (
        "satisfied",
        {
            "query": "Q3",
            "goal": schedule(When(at_min=5), lamp(ON, False)),
        },
    ),
    "answer that is not true": (
        "not_true",
        {"query": "Q1", "goal": Goal(kind="answer", asserts=(LIGHT_ON,))},
    ),
    "a bool is no number": (
        "not_true",
        {"query": "Q1", "goal": Goal(kind="answer", asserts=(lamp(ON, 0),))},
    ),
    "room value that is not true": (
        "not_true",
        {
            "query": "Q1",
            "goal": replace(
                IS_OFF, room_values=(RoomValue(room="study", variable="temperature", value=21.25),)
            ),
        },
    ),
    "answer that nobody knows": (
        "truth_unknown",
        {
            "query": "Q1",
            "goal": replace(
                IS_OFF, room_values=(RoomValue(room="bath", variable="humidity", value=40.0),)
            ),
        },
    ),
    "path of another form": (
        "attribute_path",
        {"goal": goal(asserts=(lamp("OnOff.OnOff", True),))},
    ),
    "refusal without its cause": (
        "reason",
        {**IN, "goal": replace(NO_TV, reason=" ")},
    ),
    "it is there after all": (
        "exists",
        {**IN, "goal": replace(NO_TV, asserts=(LIGHT_ON,))},
    ),
    "a limit of what is not there": (
        "no_such_device",
        {"feasibility": "physical_limit", "goal": NO_TV, "target_device": None, "query": None},
    ),
    "nonexistent with a target": ("target", {**IN, "target_device": "lamp"}),
    "target that is not in the home": ("target", {"target_device": "tv"}),
    "goal about another device": ("target", {"target_device": "radio"}),
    "target in another room": (
        "target",
        {
            "query": "Q4",
            "goal": cleaner("bath"),
        },
    ),
    "two speak": (
        "speaker",
        {"staging": staging(people=(ADA, replace(BEN, speaks=True)))},
    ),
    "nobody speaks": ("speaker", {"staging": staging(people=(BEN,))}),
    "another one speaks": ("speaker", {"speaker": "ben"}),
    "a stranger stands there": (
        "no_such_person",
        {"staging": staging(people=(ADA, replace(BEN, person="eve")))},
    ),
    "somebody twice": ("twice", {"staging": staging(people=(ADA, BEN, BEN))}),
    "scene in no room": ("no_such_room", {"staging": staging(room="attic")}),
    "sound of nothing": ("no_such_device", {"staging": staging(sounding=("lamp", "tv"))}),
    "pointing at nothing": (
        "no_such_device",
        {"staging": staging(people=(ADA, replace(BEN, pointing_at="tv")))},
    ),
    "G1 points elsewhere": (
        "cue",
        {"grounding": "G1", "staging": staging(people=(replace(ADA, pointing_at="radio"), BEN))},
    ),
    "G2 is silent": ("cue", {"grounding": "G2", "staging": staging(sounding=("radio",))}),
    "G3 in another room": ("cue", {"grounding": "G3", "staging": staging(room="bath")}),
    "G4 of somebody else": (
        "cue",
        {
            "grounding": "G4",
            "speaker": "ben",
            "staging": None,
        },
    ),
    "G4 of a stranger": (
        "cue",
        {"grounding": "G4", "home": home(household=(Member(id="ben", name="Ben", room="study"),))},
    ),
    "device twice": ("twice", {"home": home(devices=(LAMP, RADIO, WASHER, RADIO))}),
    "device in no room": ("no_such_room", {"home": home(rooms=("study",))}),
    "household device that is not there": (
        "no_such_device",
        {"home": home(household=(Member(id="ada", name="Ada", devices=("tv",)),))},
    ),
    "not a number": ("not_finite", {"home": home(room_states={"study": RoomState(pm10_ug_m3=math.inf)})}),
    "too wet": ("room_value", {"home": home(room_states={"study": RoomState(humidity_percent=101)})}),
    "no such time": ("clock", {"home": home(clock="2026-13-01 00:00:00")}),
    "no such date": ("created_utc", {"created_utc": "yesterday"}),
    "time without a zone": ("created_utc", {"created_utc": "2026-11-30T18:00:00"}),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_each_rule_is_found_alone(name: str) -> None:
    code, fields = BROKEN[name]
    found = profile_problems(profile(**fields))
    assert [problem.code for problem in found] == [code] * len(found) and found, [str(p) for p in found]
    assert all(len(problem.message) > 20 for problem in found)


def test_incomplete() -> None:
    no_target = profile_problems(profile(grounding="G3", target_device=None), complete=True)
    assert [str(problem) for problem in no_target] == [
        "target_device is missing: the request is about a device"
    ]
    limit = Goal(kind="refusal", reason="too hot")
    assert codes(profile(feasibility="physical_limit", goal=limit)) == {"incomplete"}
    assert codes(profile(feasibility="physical_limit", goal=limit), complete=False) == set()
    assert codes(profile(feasibility="temporal_contradiction", goal=limit)) == {"incomplete"}
    nobody = home(people=(), household=())
    assert codes(profile(home=nobody, staging=None)) == {"incomplete"}
    assert codes(profile(grounding="G4", home=home(household=()))) == {"incomplete"}
    level = Assert(device_id="radio", attribute=LEVEL, value=3)
    unknown = profile(goal=Goal(kind="state", asserts=(level,)), target_device="radio")
    assert codes(unknown) == {"incomplete"} and codes(unknown, complete=False) == set()


def test_a_running_appliance_may_change_by_itself() -> None:
    """A schedule that the first state seems to satisfy is left to the twin while the appliance runs."""
    still = Assert(device_id="washer", attribute=CYCLE, value=1)
    later = Goal(kind="state", steps=(Step(when=When(at_min=30), asserts=(still,)),))
    assert codes(profile(query="Q3", goal=later, target_device="washer")) == set()


def test_a_take_is_not_recorded_with_fields_that_contradict_each_other() -> None:
    check_fields({"grounding": "G1", "query": "Q2", "request": "Turn that on"})
    for fields, words in (
        ({"grounding": "G1", "query": "Q4"}, "Q4"),
        ({"feasibility": "nonexistent_resource", "target_device": "lamp"}, "has no target"),
        ({"request": " "}, "request is empty"),
    ):
        with pytest.raises(InputError, match=words):
            check_fields(fields)


def test_an_item_of_a_plan_is_held_to_the_same_rules() -> None:
    fields = {
        key: getattr(profile(), key)
        for key in (
            "grounding",
            "query",
            "feasibility",
            "request",
            "speaker",
            "target_device",
            "goal",
            "home",
        )
    }
    item = PlanItem(id="ep0001", staging=STAGING, **fields)
    assert codes(item) == set()
    assert codes(replace(item, grounding="G1", query="Q4")) == {"combination"}
