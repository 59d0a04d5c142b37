from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

import capture.commands
from capture.doctor import examine
from capture.first_rig import first_rig, write_first_rig
from capture.portaudio_devices import InputDevice
from capture.rig import DEFAULT_RIG, load_rig, parse_rig
from dsp.errors import InputError

H3VR = InputDevice(1, "H3-VR: USB Audio (hw:1,0)", "ALSA", 4, 48000.0)
H3VR_STEREO = InputDevice(1, "H3-VR: USB Audio (hw:1,0)", "ALSA", 2, 48000.0)
OTHER = InputDevice(0, 'Field "X" Mic: USB Audio (hw:3,0)', "ALSA", 8, 48000.0)
PULSE = InputDevice(7, "pulse", "ALSA", 32, 44100.0)


def app() -> typer.Typer:
    made = typer.Typer()
    capture.commands.register(made)
    return made


def test_first_rig_takes_the_h3vr_and_the_camera() -> None:
    made = first_rig([PULSE, OTHER, H3VR], [(2, "HD Webcam C615")])
    rig = parse_rig(made.text)
    assert (rig.microphone.source, rig.microphone.device, rig.microphone.channels) == (
        "sounddevice",
        "H3-VR",
        4,
    )
    assert (rig.camera.source, rig.camera.device) == ("v4l2", 2)


def test_first_rig_takes_another_four_channel_microphone_and_asks_about_it() -> None:
    made = first_rig([PULSE, OTHER], [])
    rig = parse_rig(made.text)
    assert rig.microphone.device == 'Field "X" Mic' and rig.camera.source == "none"
    assert any("AmbiX" in note for note in made.notes)


def test_first_rig_without_a_microphone_is_the_virtual_room_and_says_so() -> None:
    made = first_rig([PULSE], [])
    rig = parse_rig(made.text)
    assert rig.microphone.source == rig.camera.source == "virtual"
    assert any("virtual room" in note for note in made.notes)


def test_first_rig_names_the_menu_of_a_stereo_h3vr() -> None:
    assert any("4ch Ambisonics" in note for note in first_rig([H3VR_STEREO], []).notes)


def test_the_virtual_rig_that_is_written_is_the_built_in_one() -> None:
    assert parse_rig(first_rig([], []).text) == load_rig(DEFAULT_RIG)


def test_init_does_not_overwrite(tmp_path: Path) -> None:
    path = tmp_path / "rig.yaml"
    path.write_text("mine")
    with pytest.raises(InputError, match="--force"):
        write_first_rig(path)
    assert path.read_text() == "mine"
    write_first_rig(path, force=True)
    load_rig(path)


def test_init_and_doctor_commands_give_json(tmp_path: Path) -> None:
    path = tmp_path / "rig.yaml"
    done = CliRunner().invoke(app(), ["init", str(path), "--json"])
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["path"] == str(path)
    done = CliRunner().invoke(app(), ["doctor", "--rig", str(path), "--json"])
    report = json.loads(done.stdout)
    assert done.exit_code == (0 if report["ok"] else 1)
    topics = {f["topic"] for f in report["findings"]}
    assert {"system", "rig", "PortAudio", "microphone", "camera", "disk room", "disk speed"} <= topics
    assert {"processor", "video encoder"} <= topics


def test_doctor_of_the_virtual_rig_is_ready_and_ends_with_a_verdict() -> None:
    report = examine(load_rig(DEFAULT_RIG))
    assert report.faults == ()
    assert report.lines()[-1].startswith("verdict: ready to record with the virtual room")


def test_doctor_names_the_first_fault(tmp_path: Path) -> None:
    rig = parse_rig(
        "hearth_rig: 1\n"
        "microphone: {source: sounddevice, device: no-such-microphone}\n"
        f"camera: {{source: file, file: {tmp_path / 'absent.mkv'}}}\n"
    )
    report = examine(rig)
    topics = [f.topic for f in report.faults]
    assert "camera" in topics
    assert any(topic in ("microphone", "PortAudio") for topic in topics)
    assert report.verdict.startswith("verdict: not ready to record. First: ")


def test_doctor_reports_a_broken_rig_file(tmp_path: Path) -> None:
    path = tmp_path / "rig.yaml"
    path.write_text("hearth_rig: 1\nmicrofone: {}\n")
    done = CliRunner().invoke(app(), ["doctor", "--rig", str(path), "--json"])
    report = json.loads(done.stdout)
    assert done.exit_code == 1 and not report["ok"]
    assert any("microfone" in f["text"] for f in report["findings"])
