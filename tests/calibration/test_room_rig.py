"""room.json's sections, and its values in rig.yaml: what stood there stays, nothing is written by halves."""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import Any

import pytest
import yaml

from calibration.result import InputFile, load
from calibration.room_devices_rig import device_id, find_device, rig_lines, write_rig
from calibration.room_file import read_section, update_room
from capture.rig import DEFAULT_RIG, load_rig, parse_rig
from dsp.errors import CheckFailed, InputError

VALUES: dict[str, Any] = {
    "microphone": {"position_m": [2.5, 1.01, 1.25], "yaw_deg": 91.25},
    "camera": {"position_m": [0.01, 0.0, 0.07], "yaw_deg": 1.0, "pitch_deg": -2.0},
    "devices": {
        "living_room_fan_1": {
            "id": "living_room_fan_1", "type": "fan", "name": "standing fan",
            "position_m": [0.71, 2.01, 1.02],
        },
        "lamp": {
            "id": "lamp", "type": "on_off_light", "name": "lamp, [the: new]", "position_m": [1.0, 1.5, 2.0],
        },
    },
}  # fmt: skip


def test_a_section_is_measured_again_without_touching_the_others(tmp_path: Path):
    path = tmp_path / "room.json"
    one = InputFile("a.png", "0" * 64)
    update_room(path, "devices", {"lamp": {"x": 1.5}}, units={"x": "m"}, inputs=[one], warnings=["dim"])
    update_room(path, "frame", {"T": [0.1, 1 / 3]}, units={"T": "m"}, inputs=[one, InputFile("b", "1" * 64)])
    update_room(path, "devices", {"fan": {"x": 2.5}}, units={"x": "m"}, residuals={"px": 0.5})
    found = load(path, "room")
    assert list(found.result) == ["frame", "devices"] and found.result["devices"] == {"fan": {"x": 2.5}}
    assert found.result["frame"]["T"] == [0.1, 1 / 3]
    assert [f.name for f in found.inputs] == ["a.png", "b"] and found.warnings == []
    assert found.units == {"devices.x": "m", "frame.T": "m"} and found.residuals["devices"] == {"px": 0.5}
    update_room(path, "devices", None, units={})
    assert list(load(path, "room").result) == ["frame"]
    with pytest.raises(InputError, match="rt60"):
        read_section(path, "reverberation")
    with pytest.raises(InputError, match="no section 'walls'"):
        update_room(path, "walls", {}, units={})  # type: ignore[arg-type]
    with pytest.raises(InputError, match="room frame"):
        read_section(tmp_path / "none.json", "frame")


def test_the_rig_file_keeps_everything_else(tmp_path: Path):
    path = tmp_path / "rig.yaml"
    before = DEFAULT_RIG.read_text(encoding="utf-8")
    path.write_text(before, encoding="utf-8")
    said = write_rig(path, VALUES)
    assert "room.devices: lamp added at [1.0, 1.5, 2.0]" in said
    rig = load_rig(path)
    assert rig.microphone.position_m == (2.5, 1.01, 1.25) and rig.microphone.yaw_deg == 91.25
    assert rig.camera.pitch_deg == -2.0
    assert find_device(rig, "standing fan").position_m == (0.71, 2.01, 1.02)
    assert find_device(rig, "lamp").name == "lamp, [the: new]"
    lines = difflib.unified_diff(
        before.splitlines(), path.read_text(encoding="utf-8").splitlines(), n=0, lineterm=""
    )
    changed = [line[1:] for line in lines if line[0] in "+-" and line[:3] not in ("+++", "---")]
    # Six values that were there, two that were not, one device.
    assert len(changed) == 2 * 4 + 2 + 1
    assert all(any(k in c for k in ("position_m", "yaw_deg", "pitch_deg")) for c in changed)
    assert write_rig(path, VALUES) == []


@pytest.mark.parametrize(
    "text",
    [
        "hearth_rig: 1\n",
        "hearth_rig: 1",
        "hearth_rig: 1\nroom: {size_m: [5.0, 5.0, 3.0], devices: []}\nmicrophone: {yaw_deg: 3.0}  # turned\n",
        "hearth_rig: 1\nroom:\n  size_m: [5.0, 5.0, 3.0]  # by tape\n",
        "hearth_rig: 1\nroom:\n  devices:\n  - id: living_room_fan_1\n    type: fan\n"
        "    name: standing fan  # old\n"
        "    position_m:\n    - 1.0\n    - 1.0\n    - 1.0\n\n# the end\n",
    ],
)
def test_forms_of_rig_files(text: str, tmp_path: Path):
    path = tmp_path / "rig.yaml"
    path.write_text(text, encoding="utf-8")
    write_rig(path, VALUES)
    rig = load_rig(path)
    assert [d.id for d in rig.room.devices] == ["living_room_fan_1", "lamp"]
    assert rig.camera.position_m == (0.01, 0.0, 0.07)
    after = path.read_text(encoding="utf-8")
    for comment in ("# turned", "# by tape", "# old", "# the end"):
        assert (comment in text) == (comment in after)


def test_what_cannot_be_edited_is_left_alone(tmp_path: Path):
    path = tmp_path / "rig.yaml"
    for text, error, words in (
        ("hearth_rig: 1\nroom: {name: den}\n", CheckFailed, "paste"),
        ("hearth_rig: 1\nroom: {size_m: [1.2, 5.0, 3.0]}\nmicrophone: {position_m: [1, 1, 1]}\n", InputError,
         "outside"),
        ("hearth_rig: 1\nmicrophone: &m {yaw_deg: 1.0}\ncamera: *m\nroom: {name: x}\n", CheckFailed, "paste"),
        ("hearth_rig: 1\nmicrophone: &m {yaw_deg: 1.0}\ncamera: *m\n", CheckFailed,
         "line 2: it has anchors.*paste"),
        ("hearth_rig: 1\n...\n", CheckFailed, "line 2: it has markers of documents.*paste"),
        ("---\nhearth_rig: 1\n...\n", CheckFailed, "markers of documents.*paste"),
        ("hearth_rig: 1\nmicrophone:\n  position_m:\n    - 1.0  # by tape\n    - 1.0\n    - 1.0\n",
         CheckFailed, "a comment within `position_m` would be lost.*paste"),
        ("hearth_rig: 1\r\nmicrophone:\n  yaw_deg: 3.0\n", CheckFailed, "two kinds of line ends.*paste"),
    ):  # fmt: skip
        path.write_bytes(text.encode())
        with pytest.raises(error, match=words):
            write_rig(path, VALUES)
        assert path.read_bytes() == text.encode()
    with pytest.raises(InputError, match="no such rig"):
        write_rig(tmp_path / "none.yaml", VALUES)


def test_line_ends_permissions_and_links_stay(tmp_path: Path):
    real, link = tmp_path / "real.yaml", tmp_path / "rig.yaml"
    real.write_bytes(b"hearth_rig: 1\r\nmicrophone:\r\n  yaw_deg: 3.0  # turned\r\n")
    real.chmod(0o600)
    link.symlink_to(real)
    write_rig(link, VALUES)
    after = real.read_bytes()
    assert link.is_symlink() and real.stat().st_mode & 0o777 == 0o600
    assert b"yaw_deg: 91.25  # turned\r\n" in after and after.count(b"\n") == after.count(b"\r\n") > 3


def test_lines_to_paste_are_a_rig_file():
    rig = parse_rig("\n".join(["hearth_rig: 1", *rig_lines(VALUES)]))
    assert [d.name for d in rig.room.devices] == ["standing fan", "lamp, [the: new]"]
    lamp = {**VALUES["devices"]["lamp"], "type": None}
    with pytest.raises(CheckFailed, match="--type"):
        rig_lines({**VALUES, "devices": {"lamp": lamp}})
    assert yaml.safe_load("\n".join(rig_lines(VALUES)))["microphone"]["yaw_deg"] == 91.25


def test_names_become_ids():
    assert device_id("Desk Fan (left)") == "desk_fan_left" and device_id("2nd lamp") == "device_2nd_lamp"
    with pytest.raises(InputError):
        device_id("??")
    with pytest.raises(InputError, match="standing fan"):
        find_device(load_rig(DEFAULT_RIG), "toaster")
