"""A plan's rooms and people from rig.yaml files."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from capture.plan_rooms import people_from_file, people_of_rigs, rooms_of_rigs
from capture.rig import DEFAULT_RIG
from dsp.errors import InputError
from recordings.plan.check import plan_problems
from recordings.plan.generate import make_plan
from recordings.plan.places import Places

STUDY = """hearth_rig: 1
microphone: {position_m: [2.0, 0.9, 1.2], yaw_deg: 90}
room:
  name: study
  size_m: [4.2, 4.0, 2.6]
  devices:
    - {id: study_lamp, type: dimmable_light, name: desk lamp, position_m: [0.6, 3.2, 1.1]}
    - {id: study_lamp_2, type: on_off_light, name: arc lamp, position_m: [3.7, 3.2, 1.5]}
    - {id: study_fan, type: fan, name: tower fan, position_m: [0.4, 1.6, 0.9]}
    - {id: study_fan_2, type: fan, name: box fan, position_m: [3.8, 1.8, 0.9]}
    - {id: study_blind, type: window_covering, name: study blind, position_m: [2.1, 3.9, 1.5]}
  people: [{id: sam, name: Sam}, {id: chris, name: Chris, room: study}]
"""
PEOPLE = """participants:
- {id: alex, name: Alex, room: living_room}
- {id: sam, name: Sam, room: study}
"""


@pytest.fixture
def study(tmp_path: Path) -> Path:
    path = tmp_path / "study.yaml"
    path.write_text(STUDY)
    return path


def test_rooms_and_people_of_two_rigs_make_a_plan(study: Path, tmp_path: Path):
    paths = [DEFAULT_RIG, study]
    rooms = rooms_of_rigs(paths)
    assert [(room.id, len(room.devices), room.rig) for room in rooms] == [
        ("living_room", 9, str(DEFAULT_RIG)),
        ("study", 5, str(study)),
    ]
    assert rooms[1].devices[0].attributes == {"1.OnOff.OnOff": False, "1.LevelControl.CurrentLevel": 254}
    assert [person.id for person in people_of_rigs(paths)] == ["alex", "sam", "chris"]
    people = tmp_path / "people.yaml"
    people.write_text(PEOPLE)
    plan = make_plan(rooms, people_from_file(people), 2, per_cell=2)
    assert len(plan.items) == 68 and plan_problems(plan) == []


def test_people_stand_where_a_narrow_camera_sees_them(study: Path, tmp_path: Path):
    narrow = tmp_path / "narrow.yaml"
    narrow.write_text(STUDY.replace("room:\n", "camera: {hfov_deg: 60, yaw_deg: -3}\nroom:\n", 1))
    (room,) = rooms_of_rigs([narrow])
    assert room.view_deg == 54
    places = Places(room)
    assert places.spots and max(abs(places.azimuth(spot)) for spot in places.spots) <= 15
    narrow.write_text(STUDY.replace("room:\n", "camera: {hfov_deg: 20}\nroom:\n", 1))
    people = people_of_rigs([narrow])
    with pytest.raises(InputError, match="nobody can stand there in the picture"):
        make_plan(rooms_of_rigs([narrow]), people, 1)


def test_what_is_twice_or_contradicts_itself_is_refused(study: Path, tmp_path: Path):
    with pytest.raises(InputError, match="its room is 'study', as in"):
        rooms_of_rigs([study, study])
    other = tmp_path / "other.yaml"
    other.write_text(STUDY.replace("name: study\n", "name: attic\n").replace("name: Sam", "name: Samuel"))
    with pytest.raises(InputError, match="'study_lamp' is that of a device in"):
        rooms_of_rigs([study, other])
    with pytest.raises(InputError, match="'sam' is not the same person"):
        people_of_rigs([study, other])
    other.write_text(STUDY[: STUDY.index("  people:")])
    with pytest.raises(InputError, match="name nobody"):
        people_of_rigs([other])
    other.write_text("hearth_rig: 1\nroom: {name: '!?'}\n")
    with pytest.raises(InputError, match=r"`room.name` '!\?' cannot be the id of a room"):
        rooms_of_rigs([other])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("- {id: a}", "name"),
        ("- {id: a, name: A, rom: x}", "rom"),
        ("[", "not valid YAML"),
        ("3", "Expected"),
    ],
)
def test_a_wrong_list_of_participants_names_the_key(tmp_path: Path, text: str, message: str):
    path = tmp_path / "people.yaml"
    path.write_text(text)
    with pytest.raises(InputError, match=message):
        people_from_file(path)
    with pytest.raises(InputError, match="no such file"):
        people_from_file(tmp_path / "none.yaml")


def test_given_participants_need_nobody_in_the_rigs_and_what_is_skipped_stands_in_the_table(tmp_path: Path):
    import typer
    from typer.testing import CliRunner

    from capture.plan_command import plan
    from recordings.plan.store import read_plan, write_plan

    app = typer.Typer()
    app.add_typer(plan, name="plan")
    rig, people, made = (tmp_path / name for name in ("rig.yaml", "people.yaml", "plan.yaml"))
    rig.write_text(STUDY[: STUDY.index("  people:")])
    people.write_text(PEOPLE.replace("living_room", "study"))
    args = ["plan", "new", str(made), "--rig", str(rig), "--per-cell", "1", "--participants", str(people)]
    run = CliRunner().invoke(app, args)
    assert run.exit_code == 0, run.exception
    read = read_plan(made)
    assert [one.id for one in read.participants] == ["alex", "sam"]
    first = msgspec.structs.replace(read.items[0], skip=True)
    write_plan(msgspec.structs.replace(read, items=(first, *read.items[1:])), made)
    shown = CliRunner().invoke(app, ["plan", "show", str(made)])
    assert f"marked skip: 1 of {len(read.items)}" in shown.stdout
