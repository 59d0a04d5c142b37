from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

import capture.commands
from capture.doctor import examine
from capture.first_rig import FoundCamera, first_rig, write_first_rig
from capture.portaudio_devices import InputDevice
from capture.rig import DEFAULT_RIG, load_rig, parse_rig
from capture.v4l2_modes import CameraMode
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
    made = first_rig([PULSE, OTHER, H3VR], [FoundCamera(2, "HD Webcam C615")])
    rig = parse_rig(made.text)
    mic = rig.microphone
    assert (mic.source, mic.device, mic.channels) == ("sounddevice", "H3-VR", 4)
    assert (rig.camera.source, rig.camera.device) == ("v4l2", "HD Webcam C615")
    assert (rig.camera.width_px, rig.camera.height_px, rig.camera.fourcc) == (1280, 720, "MJPG")


def test_first_rig_asks_cameras_for_what_they_have_and_takes_all_of_them() -> None:
    raw = CameraMode("YUYV", 640, 480, False, (30.0, 15.0))
    large, middle = (CameraMode("MJPG", w, h, False, (20.0,)) for w, h in ((1920, 1080), (1280, 960)))
    twin = 'Twin "X"'
    cameras = [FoundCamera(0, twin, (raw, large, middle)), FoundCamera(2, twin)]
    cameras.append(FoundCamera(4, "Other", (raw,)))
    rig = parse_rig(first_rig([H3VR], cameras).text)
    first, second, third = rig.camera, *rig.more_cameras
    assert (first.device, first.fourcc, first.width_px, first.height_px, first.fps) == (
        0,
        "MJPG",
        1280,
        960,
        20,
    )
    assert (second.device, second.name) == (2, "camera_2"), "a name that two cameras have is no name"
    assert (third.device, third.fourcc, third.width_px, third.height_px) == ("Other", "YUYV", 640, 480)


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


def test_init_gives_json(tmp_path: Path) -> None:
    path = tmp_path / "rig.yaml"
    done = CliRunner().invoke(app(), ["init", str(path), "--json"])
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["path"] == str(path)


def test_doctor_of_the_virtual_rig_is_ready(tmp_path: Path) -> None:
    done = CliRunner().invoke(app(), ["doctor", "--rig", str(DEFAULT_RIG), "--seconds", "0.5"])
    assert done.exit_code == 0, done.output
    last = done.stdout.strip().splitlines()[-1]
    assert last.startswith("verdict: ready to record with the virtual room")
    assert "recorded, finished and verified" in done.stdout


def test_doctor_names_the_first_fault(tmp_path: Path) -> None:
    rig = parse_rig(
        "hearth_rig: 1\n"
        "microphone: {source: sounddevice, device: no-such-microphone}\n"
        f"camera: {{source: file, file: {tmp_path / 'absent.mkv'}}}\n"
        f"storage: {{folder: {tmp_path}}}\n"
    )
    report = examine(rig, seconds=0)
    assert not report.ok
    assert [f.topic for f in report.faults] == ["microphone", "camera"]
    assert report.verdict.startswith("not ready to record with this rig. First: microphone: ")
    assert report.lines()[-1] == f"verdict: {report.verdict}"


def test_doctor_reports_a_broken_rig_file(tmp_path: Path) -> None:
    path = tmp_path / "rig.yaml"
    path.write_text("hearth_rig: 1\nmicrofone: {}\n")
    done = CliRunner().invoke(app(), ["doctor", "--rig", str(path), "--json"])
    report = json.loads(done.stdout)
    assert done.exit_code == 1 and not report["ok"] and report["test"] is None
    assert report["first"].startswith("rig: ") and "microfone" in report["first"]
