"""The shooting plan: what it holds, how even it is, and that each of its scenes can be set up.

Truths from outside: the camera model for what is in the picture, plain vectors for sides and angles, the home
twin for goals that can and cannot be reached, the virtual room for what is heard.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections import Counter
from itertools import pairwise
from pathlib import Path

import msgspec
import numpy as np
import pytest

from dsp.errors import InputError
from recordings.camera_model import CameraModel
from recordings.combinations import COMBINATIONS, profile_problems
from recordings.geometry import camera_pose, invert_pose, microphone_pose, transform
from recordings.plan import sentences
from recordings.plan.balance import balance, kinds_of_infeasibility
from recordings.plan.builtin import home_from_yaml, virtual_home
from recordings.plan.check import plan_problems
from recordings.plan.device_types import AT_REST, NOUNS, RANGES, is_heard, state_where
from recordings.plan.generate import extend_plan, make_plan
from recordings.plan.model import Plan, PlanItem
from recordings.plan.store import plan_from_yaml, plan_to_yaml, read_plan, write_plan
from recordings.profile import Profile

REPOSITORY = Path(__file__).resolve().parent.parent.parent
SIDES = {"left": 90, "right": -90, "front": 0, "behind": 180}


@pytest.fixture(scope="module")
def plan() -> Plan:
    return make_plan(*virtual_home(), 7)


@pytest.fixture(scope="module")
def text(plan: Plan) -> str:
    return plan_to_yaml(plan)


@pytest.fixture(scope="module")
def small_text() -> str:
    return plan_to_yaml(make_plan(*virtual_home(), 7, per_cell=1))


def of(plan: Plan, *groundings: str) -> list[PlanItem]:
    return [item for item in plan.items if item.grounding in groundings]


def target_of(item: PlanItem):
    return next(d for d in item.home.devices if d.id == item.target_device)


def speaker_of(item: PlanItem):
    return next(placed for placed in item.staging.people if placed.speaks)


# ------------------------------------------------------------------ what is in it


def test_it_has_eight_feasible_and_eight_infeasible_of_each_combination(plan: Plan):
    cells = Counter((i.grounding, i.query, i.feasibility == "feasible") for i in plan.items)
    assert cells == {(*combination, f): 8 for combination in COMBINATIONS for f in (True, False)}
    assert [item.id for item in plan.items] == [f"ep{n:04d}" for n in range(1, 273)]
    assert all((item.difficulty is None) == (item.feasibility != "feasible") for item in plan.items)
    rooms = [item.staging.room for item in plan.items]
    assert sum(a != b for a, b in pairwise(rooms)) == 4, "each rig is set up once"


def test_it_is_even(plan: Plan):
    spreads = {spread.name: spread for spread in balance(plan)}
    for name, most in (
        ("rooms", 2),
        ("participants", 2),
        ("difficulty of feasible ones", 2),
        ("sides said, G3", 3),
    ):
        assert spreads[name].max_min <= most, spreads[name]
    assert spreads["rooms x participants"].max_min <= 4
    for name, spread in spreads.items():
        if name.startswith("orientation"):
            assert spread.max_min <= 2, spread
        assert spread.chi_square < max(1, spread.freedom), "more even than chance would make it"
    kinds = kinds_of_infeasibility(plan)
    assert kinds["Q1"] == {"nonexistent_resource": 40}, "a question has neither range nor time"
    assert set(kinds["Q2"].values()) == {20} and set(kinds["Q4"].values()) == {8}
    assert max(kinds["Q3"].values()) - min(kinds["Q3"].values()) <= 1 and len(kinds["Q3"]) == 3


def test_spread_counts_as_pearson_did():
    from recordings.plan.balance import spread

    # Mendel's peas: 315, 108, 101, 32 against 9:3:3:1 give chi-square 0.470.
    peas = ["a"] * 315 + ["b"] * 108 + ["c"] * 101 + ["d"] * 32
    found = spread("peas", ["a", "b", "c", "d"], peas, {"a": 9, "b": 3, "c": 3, "d": 1})
    assert found.chi_square == pytest.approx(0.470, abs=5e-4)
    assert (found.freedom, found.max_min) == (3, 283)


def test_no_item_contradicts_itself_and_the_twin_agrees_with_every_goal(plan: Plan):
    from edge.home.goals import check_goal

    names = ("grounding", "query", "feasibility", "difficulty", "request", "speaker", "target_device", "goal",
             "home", "staging")  # fmt: skip
    for item in plan.items:
        assert profile_problems(item, complete=True) == []
        profile = Profile(
            id="x",
            session="s",
            created_utc="2026-01-01T00:00:00Z",
            origin="virtual",
            **{name: getattr(item, name) for name in names},
        )
        assert check_goal(profile).problems == [], (item.id, item.request)


def test_the_plans_own_check_finds_nothing(plan: Plan):
    assert plan_problems(plan) == []


def test_the_virtual_home_has_all_that_was_planned(plan: Plan):
    assert {item.note for item in plan.items} == {""}


def test_requests_are_all_different_and_spoken_by_template(plan: Plan):
    requests = Counter(item.request.casefold() for item in plan.items)
    assert len(requests) >= 0.98 * len(plan.items)
    assert {item.written_by for item in plan.items} == {"template"}
    assert not any(c in item.request for item in plan.items for c in "{}_0123456789")


def test_the_other_seed_gives_another_plan_and_the_same_one_the_same_bytes(text: str):
    assert plan_to_yaml(make_plan(*virtual_home(), 8)) != text
    code = (
        "import hashlib; from recordings.plan.builtin import virtual_home;"
        "from recordings.plan.generate import make_plan; from recordings.plan.store import plan_to_yaml;"
        "print(hashlib.sha256(plan_to_yaml(make_plan(*virtual_home(), 7)).encode()).hexdigest())"
    )
    env = {**os.environ, "PYTHONPATH": str(REPOSITORY), "PYTHONHASHSEED": "123"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True, timeout=120
    )
    assert done.stdout.strip() == hashlib.sha256(text.encode()).hexdigest()


# ------------------------------------------------------------------ scenes


def test_everybody_is_in_the_picture_in_the_room_and_apart(plan: Plan):
    model = CameraModel.nominal(640, 360, 90.0)
    rooms = {room.id: room for room in plan.rooms}
    for item in plan.items:
        room = rooms[item.staging.room]
        pose = microphone_pose(room.microphone_m, room.microphone_yaw_deg) @ camera_pose((0.0, 0.0, 0.08))
        mouths = np.array([placed.mouth_m for placed in item.staging.people])
        seen = transform(invert_pose(pose), mouths)
        assert (seen[:, 2] > 0.9).all(), item.id
        pixels = (seen / seen[:, 2:]) @ model.matrix.T
        assert (pixels[:, 0] > 60).all() and (pixels[:, 0] < 580).all(), (item.id, pixels)
        assert (pixels[:, 1] > 20).all() and (pixels[:, 1] < 340).all(), (item.id, pixels)
        assert (np.linalg.norm((mouths - room.microphone_m)[:, :2], axis=1) >= 1.0).all()
        assert (mouths > 0.3).all() and (mouths < np.array(room.size_m) - 0.3).all()
        for a in range(len(mouths)):
            for b in range(a):
                assert np.linalg.norm(mouths[a] - mouths[b]) >= 0.75, item.id


def degrees(one: np.ndarray, other: np.ndarray) -> float:
    cosine = one @ other / np.linalg.norm(one) / np.linalg.norm(other)
    return float(np.degrees(np.arccos(np.clip(cosine, -1, 1))))


def test_g1_points_at_the_target_and_only_the_arm_tells(plan: Plan):
    for item in of(plan, "G1"):
        speaker = speaker_of(item)
        if item.target_device is None:
            assert item.feasibility == "nonexistent_resource"
            continue
        assert speaker.pointing_at == item.target_device
        shoulder = np.array(speaker.mouth_m) - (0, 0, 0.25)
        aim = np.array(target_of(item).position_m) - shoulder
        asked = {a.attribute for a in (*item.goal.asserts, *(a for s in item.goal.steps for a in s.asserts))}
        for other in item.home.devices:
            could = asked <= set(other.attributes) and other.room == item.staging.room
            if could and other.id != item.target_device and item.difficulty in ("medium", "hard"):
                assert degrees(aim, np.array(other.position_m) - shoulder) >= 20 - 1e-6, (item.id, other.id)
        room = next(room for room in plan.rooms if room.id == item.staging.room)
        eye = np.array(room.microphone_m)[:2]
        seen = np.array(target_of(item).position_m)[:2] - eye
        for placed in item.staging.people:
            stands = np.array(placed.mouth_m)[:2] - eye
            before = np.linalg.norm(stands) < np.linalg.norm(seen)
            assert not before or degrees(seen, stands) >= 10 - 1e-6, (item.id, "the target is hidden")
        if item.difficulty == "hard":
            others = [placed.pointing_at for placed in item.staging.people if not placed.speaks]
            assert others[0] is not None and item.target_device not in others


def test_g2_lets_nothing_but_the_target_sound_that_the_words_fit(plan: Plan):
    from capture.virtual.home_state import loudness

    for item in plan.items:
        heard = {
            d.id
            for d in item.home.devices
            if d.room == item.staging.room and loudness(d.type, d.attributes) > 0
        }
        assert heard == set(item.staging.sounding), (item.id, "as the virtual room hears it")
    for item in of(plan, "G2"):
        words = [w for w in sentences.SOUNDS if w in item.request]
        assert len(words) == 1
        may = sentences.SOUNDS[words[0]]
        fitting = [d for d in item.home.devices if d.id in item.staging.sounding and d.type in may]
        assert [d.id for d in fitting] == ([item.target_device] if item.target_device else []), item.id
        if item.target_device is not None and item.difficulty in ("medium", "hard"):
            here = [d for d in item.home.devices if d.room == item.staging.room and d.type in may]
            assert len(here) >= 2, "another device could sound so"


def test_g3_means_the_speakers_side_and_no_other_device(plan: Plan):
    turned = Counter()
    for item in of(plan, "G3"):
        speaker = speaker_of(item)
        room = next(room for room in plan.rooms if room.id == item.staging.room)
        words = [s for s, phrases in sentences.SIDE_WORDS.items() if any(p in item.request for p in phrases)]
        assert len(words) == 1, item.request
        nouns = [n for names in NOUNS.values() for n in names if f"the {n} " in item.request]
        facing = np.radians(speaker.facing_deg)
        ahead = np.array([np.cos(facing), np.sin(facing)])
        left = np.array([-ahead[1], ahead[0]])
        fits = []
        for device in item.home.devices:
            if device.room == room.id and any(noun in NOUNS[device.type] for noun in nouns):
                way = np.array(device.position_m[:2]) - speaker.mouth_m[:2]
                angle = np.degrees(np.arctan2(way @ left, way @ ahead))
                off = abs((angle - SIDES[words[0]] + 180) % 360 - 180)
                if off < 45:
                    fits.append(device.id)
        assert fits == ([item.target_device] if item.target_device else []), (item.id, item.request)
        to_rig = np.array(room.microphone_m[:2]) - speaker.mouth_m[:2]
        turned[ahead @ to_rig / np.linalg.norm(to_rig) > 0.9] += 1
    assert turned[True] >= 5 and turned[False] >= 20, "some face the rig, and others do not"


def test_g4_means_what_is_the_speakers_own(plan: Plan):
    people = {person.id: person for person in plan.participants}
    for item in of(plan, "G4"):
        assert " my " in f" {item.request.casefold()}", item.request
        if item.target_device is not None:
            target, speaker = target_of(item), people[item.speaker]
            assert target.id in speaker.devices or target.room == speaker.room
            assert target.name not in item.request
        if item.difficulty == "hard":
            assert len(item.staging.people) >= 2
        speaker, room = speaker_of(item), next(r for r in plan.rooms if r.id == item.staging.room)
        way = np.array(room.microphone_m[:2]) - speaker.mouth_m[:2]
        facing = np.radians(speaker.facing_deg)
        assert degrees(way, np.array([np.cos(facing), np.sin(facing)])) < 60, "the face must be seen"


def test_difficulty_is_by_distractors(plan: Plan):
    for item in plan.items:
        people = len(item.staging.people)
        assert (people >= 2) == (item.difficulty == "hard"), item.id
        if item.difficulty is None or item.query == "Q4" or item.grounding == "G2":
            continue
        asked = item.goal.asserts or item.goal.steps[0].asserts
        target = target_of(item)
        everywhere = item.grounding in ("G0", "G4")
        noun_said = item.grounding != "G1" or item.difficulty == "easy"
        distractors = [
            d
            for d in item.home.devices
            if d.id != target.id
            and (everywhere or d.room == item.staging.room)
            and (not noun_said or NOUNS[d.type] == NOUNS[target.type])
            and all(a.attribute in d.attributes for a in asked)
            and not all(d.attributes[a.attribute] == a.value for a in asked)
        ]
        anchors = {step.when.anchor_device for step in item.goal.steps}
        distractors = [d for d in distractors if d.id not in anchors]
        assert bool(distractors) == (item.difficulty != "easy"), (item.id, item.request, distractors)


# ------------------------------------------------------------------ the table of types


def test_device_types_are_those_of_the_twin_and_the_rig():
    from typing import get_args, get_type_hints

    from capture.rig import Device
    from edge.home.schema import DEVICE_TYPES, defaults
    from edge.home.twin import Home, HomeDevice

    assert set(AT_REST) < set(get_args(get_type_hints(Device)["type"]))
    for kind, attributes in AT_REST.items():
        assert set(attributes) <= set(defaults(kind))
        for path, (low, high) in RANGES.items():
            endpoint, cluster, name = path.split(".")
            there = DEVICE_TYPES[kind].get(int(endpoint), {}).get(cluster, {}).get(name)
            if there is not None and path in attributes:
                assert (there.low, there.high) == (low, high), path
    # States are such that the twin takes them as they are.
    for kind in AT_REST:
        for heard in (None, 50):
            on = {"1.OnOff.OnOff": True} if "1.OnOff.OnOff" in AT_REST[kind] else {}
            state = state_where(kind, on, heard)
            home = Home([HomeDevice("d", kind, "d", "r")], {"d": state})
            assert {path: home.state("d")[path] for path in state} == state, kind
            sounds = kind in sentences.SOUND_OF
            assert is_heard(kind, state) == (sounds and heard is not None), kind


# ------------------------------------------------------------------ other homes, other sizes


def test_any_size_works_or_is_refused_with_a_reason():
    rooms, people = virtual_home()
    assert len(make_plan(rooms, people, 1, per_cell=1).items) == 34
    for per_cell in (0, 201):
        with pytest.raises(InputError, match="per_cell"):
            make_plan(rooms, people, 1, per_cell=per_cell)
    with pytest.raises(InputError, match="at least one room"):
        make_plan([], people, 1)
    with pytest.raises(InputError, match="at least one participant"):
        make_plan(rooms, [], 1)
    with pytest.raises(InputError, match=r"participant anna: .* is no device"):
        make_plan(rooms[:2], people, 1)


def own_home(rooms: int, people: int):
    """Some rooms and people of the virtual home, with what is theirs there."""
    chosen = virtual_home()[0][:rooms]
    known = {device.id for room in chosen for device in room.devices}
    names = [room.id for room in chosen]
    persons = [
        msgspec.structs.replace(
            person,
            room=person.room if person.room in names else names[-1],
            devices=tuple(d for d in person.devices if d in known),
        )
        for person in virtual_home()[1][:people]
    ]
    return chosen, persons


@pytest.mark.parametrize(("rooms", "people"), [(1, 2), (2, 3), (3, 5)])
def test_fewer_rooms_and_people(rooms: int, people: int):
    plan = make_plan(*own_home(rooms, people), 3, per_cell=3)
    assert len(plan.items) == 17 * 6
    assert plan_problems(plan) == []


def test_one_person_alone_cannot_be_several_people():
    plan = make_plan(*own_home(3, 1), 3, per_cell=3)
    assert len(plan.items) == 17 * 6 and plan_problems(plan) == []
    assert "hard" not in {item.difficulty for item in plan.items}
    noted = [item for item in plan.items if item.note == "planned as hard; this home cannot have it"]
    assert len(noted) == 17 and {item.difficulty for item in noted} <= {"easy", "medium"}


def test_a_home_without_sounds_cannot_have_g2():
    rooms, people = own_home(2, 2)
    quiet = [
        msgspec.structs.replace(
            room, devices=tuple(d for d in room.devices if d.type not in sentences.SOUND_OF)
        )
        for room in rooms
    ]
    people = [msgspec.structs.replace(person, devices=()) for person in people]
    with pytest.raises(InputError, match=r"G2 .* devices that make a sound"):
        make_plan(quiet, people, 1)


def test_extending_keeps_what_is_there(plan: Plan):
    small = make_plan(*virtual_home(), 7, per_cell=2)
    edited = msgspec.structs.replace(small.items[0], request="Turn on that.", note="mine", skip=True)
    small = msgspec.structs.replace(small, items=(edited, *small.items[1:]))
    grown = extend_plan(small, 4)
    assert grown.items[: len(small.items)] == small.items
    assert [i.id for i in grown.items] == [f"ep{n:04d}" for n in range(1, 17 * 8 + 1)]
    assert set(
        Counter((i.grounding, i.query, i.feasibility == "feasible") for i in grown.items).values()
    ) == {4}
    assert extend_plan(grown, 3) == grown
    spreads = {spread.name: spread for spread in balance(grown)}
    assert spreads["rooms"].max_min <= 2 and spreads["participants"].max_min <= 2


# ------------------------------------------------------------------ the file


def test_the_file_gives_back_the_plan(plan: Plan, text: str, tmp_path: Path):
    assert plan_from_yaml(text) == plan
    write_plan(plan, tmp_path / "plan.yaml")
    assert read_plan(tmp_path) == plan
    assert len(text) < 1_000_000, "small enough for an editor"


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("grounding: G0", "grounding: G9", r"item ep00..: Invalid enum value 'G9' - at `\$.grounding`"),
        ("request:", "requst:", "item ep0001: .*requst"),
        ("hearth_plan: 1", "hearth_plan: 2", "hearth_plan: 1"),
        ("id: ep0002", "id: ep0001", "item ep0001: this id stands there twice"),
        ("staging:\n    room: ", "staging:\n    room: attic_", "ep0001: staging.room 'attic_living_room'"),
        ("speaks: true", "speaks: loud", "item ep0001: Expected `bool`"),
        ("items:", "items: 3\nmore:", "Expected `array`|unknown field"),
        ("  speaker: ", "  speaker: x\n  speaker: ", "the key `speaker` stands twice"),
        ("    states:", "    states:\n      attic_lamp: {1.OnOff.OnOff: true}", "'attic_lamp', which is no"),
        ("name: floor lamp", "name: [floor", "not valid YAML"),
    ],
)  # fmt: skip
def test_a_wrong_file_is_refused_with_the_item_and_the_key(
    small_text: str, before: str, after: str, message: str
):
    head, mark, items = small_text.partition("\nitems:")
    if before in head:
        broken = small_text.replace(before, after, 1)
    else:
        broken = head + (mark + items).replace(before, after, 1)
    assert broken != small_text
    with pytest.raises(InputError, match=message):
        plan_from_yaml(broken)


def test_what_is_no_plan_is_refused(tmp_path: Path, small_text: str):
    with pytest.raises(InputError, match="no such plan"):
        read_plan(tmp_path / "none.yaml")
    for content in (
        b"",
        b"\xff\xfe",
        b"[1, 2]",
        b"hearth_plan: 1",
        b"[" * 5000,
        small_text.encode()[: len(small_text) // 2],
    ):
        (tmp_path / "p.yaml").write_bytes(content)
        with pytest.raises(InputError):
            read_plan(tmp_path / "p.yaml")
    with pytest.raises(InputError, match="no rooms with devices"):
        home_from_yaml("rooms: 3", "x")
    with pytest.raises(InputError, match="type 'robot'"):
        home_from_yaml("rooms: [{id: a, devices: [{id: x, type: robot}]}]", "x")
