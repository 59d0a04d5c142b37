"""The doctor with a real camera on the network, with small and locked disks, and ended by Ctrl-C."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
from camera_servers import HEIGHT, WIDTH, HttpCamera, numbered_jpeg, write_pictures
from small_disks import fill, tmpfs

from capture.doctor import examine
from capture.doctor_take import remove_left_behind
from capture.rig import Rig, parse_rig

pytestmark = pytest.mark.real

ROOT = Path(__file__).resolve().parents[2]
FPS = 20.0
PASSWORD = "Geheim-1234"


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Ten seconds of independent noise in four channels."""
    path = tmp_path_factory.mktemp("sound") / "foa.wav"
    x = 0.1 * np.random.default_rng(1).standard_normal((480_000, 4))
    soundfile.write(path, x, 48000, subtype="PCM_24")
    return path


def rig_text(sound: Path, folder: Path, more: str = "camera: {source: none}", minimum: int = 0) -> str:
    return (
        f"hearth_rig: 1\nmicrophone: {{source: file, file: {sound}}}\n"
        f"storage: {{folder: {folder}, min_free_mib: {minimum}}}\n{more}\n"
    )


def run(path: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "hearth.py", "doctor", "--rig", str(path), *options],
        cwd=ROOT, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip


def faults(report: dict[str, Any]) -> list[tuple[str, str]]:
    return [(f["topic"], f["text"]) for f in report["findings"] if f["severity"] == "fault"]


def test_cameras_on_the_network_and_no_password_anywhere(sound: Path, tmp_path: Path) -> None:
    """One camera that is asked for another size, and one that is off."""
    write_pictures(tmp_path / "v.mkv", ((i, numbered_jpeg(i)) for i in range(300)), FPS)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]  # closed again: nobody answers
    with HttpCamera(tmp_path / "v.mkv", tmp_path / "log") as camera:
        url = camera.url.replace("http://", f"http://admin:{PASSWORD}@")
        door = f"rtsp://admin:{PASSWORD}@127.0.0.1:{port}/live?pwd={PASSWORD}"
        path = tmp_path / "rig.yaml"
        cameras = (
            f"camera: {{source: url, url: '{url}', width_px: 640, height_px: 480, fps: {FPS}}}\n"
            f"more_cameras: [{{name: door, source: url, url: '{door}'}}]"
        )
        path.write_text(rig_text(sound, tmp_path / "data", cameras))
        done = run(path, "--json", "--seconds", "1.5")
    assert done.returncode == 1, done.stderr
    assert PASSWORD not in done.stdout and PASSWORD not in done.stderr
    report = json.loads(done.stdout)
    assert [topic for topic, _ in faults(report)] == ["camera door"]
    assert report["first"].startswith("camera door: rtsp://***@127.0.0.1")
    opened = {entry["device"]: entry for entry in report["opened"]}
    assert not opened["camera door"]["opened"] and opened["camera"]["opened"]
    info = opened["camera"]["info"]
    assert (info["width_px"], info["height_px"], info["fourcc"]) == (WIDTH, HEIGHT, "MJPG")
    assert info["detail"]["asked"]["width_px"] == 640
    size = next(f for f in report["findings"] if f["topic"] == "camera" and f["severity"] == "warning")
    assert f"{WIDTH}x{HEIGHT}" in size["text"] and "asked: 640x480" in size["text"]
    pictures = report["test"]["pictures"]["camera"]
    assert pictures["fps"] == pytest.approx(FPS, rel=0.5) and pictures["encoder"] == "copy"
    assert pictures["frozen"] == pictures["damaged"] == 0
    jpegs = np.mean([len(numbered_jpeg(i)) for i in range(0, 300, 20)])
    assert pictures["jpeg_bytes"] == pytest.approx(jpegs, rel=0.1)
    assert report["disk"]["streams"]["video"] == pytest.approx(jpegs * pictures["fps"], rel=0.5)
    assert report["test"]["recorded"]


def test_ctrl_c_ends_it_with_a_report_and_leaves_nothing(sound: Path, tmp_path: Path) -> None:
    path = tmp_path / "rig.yaml"
    path.write_text(rig_text(sound, tmp_path / "data"))
    process = subprocess.Popen(
        [sys.executable, "hearth.py", "doctor", "--rig", str(path), "--json", "--seconds", "60"],
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        # Started by a shell in the background, these tests inherit that Ctrl-C is ignored.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip
    assert process.stderr is not None
    for line in process.stderr:
        if "peak" in line:  # the meters run
            break
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=60)
    assert "Traceback" not in errors
    report = json.loads(output)
    assert process.returncode == 1 and not report["ok"] and "ended by hand" in report["verdict"]
    assert [p.name for p in tmp_path.iterdir()] == ["rig.yaml"]


def look(text: str, seconds: float = 0.0) -> dict[str, Any]:
    rig: Rig = parse_rig(text)
    report = examine(rig, seconds=seconds).to_dict()
    json.dumps(report)
    return report


def test_what_a_killed_doctor_left_is_removed(tmp_path: Path) -> None:
    ended = subprocess.Popen(["true"])
    ended.wait()
    mine = subprocess.Popen(["sleep", "60"])
    for name in (
        f".hearth-doctor-{ended.pid}-a",
        f".hearth-doctor-{mine.pid}-b",
        ".hearth-doctor-notes",
        "data",
    ):
        (tmp_path / name / "x").mkdir(parents=True)
    remove_left_behind(tmp_path)
    mine.kill()
    mine.wait()
    left = {f".hearth-doctor-{mine.pid}-b", ".hearth-doctor-notes", "data"}
    assert {path.name for path in tmp_path.iterdir()} == left


def test_a_small_disk(sound: Path, tmp_path: Path) -> None:
    with tmpfs(tmp_path / "disk", 80) as disk:
        folder = disk / "data"
        report = look(rig_text(sound, folder, minimum=500))
        assert faults(report)[0][0] == "disk" and "min_free_mib" in report["first"]
        report = look(rig_text(sound, folder), seconds=0.5)
        assert report["ok"] and report["test"]["recorded"]
        texts = [f["text"] for f in report["findings"] if f["severity"] == "warning" and f["topic"] == "disk"]
        assert any("in memory" in text for text in texts), "gone at power off"
        assert any(": 1 minute of this rig" in text for text in texts), texts
        # 80 MiB at 4 x 3 bytes x 48 kHz and 4 x 4 bytes x 24 kHz, and a little for the timeline
        assert report["disk"]["minutes"] == pytest.approx(80 * 2**20 / 960_000 / 60, rel=0.1)
        assert report["disk"]["file_system"] == "tmpfs"
        assert list(disk.iterdir()) == []
        fill(disk)
        report = look(rig_text(sound, folder), seconds=0.5)
        assert "disk" in [topic for topic, _ in faults(report)] and report["first"].startswith("disk: ")


def test_a_disk_that_is_mounted_read_only(sound: Path, tmp_path: Path) -> None:
    with tmpfs(tmp_path / "disk", 10, "ro") as disk:
        report = look(rig_text(sound, disk / "data"), seconds=0.5)
    assert faults(report)[0][0] == "disk" and "read-only" in report["first"]
    assert report["test"]["sound"]["seconds"] > 0, "devices are tried all the same"
    assert len(faults(report)) == 1, "said once"
