"""The doctor with a real PortAudio microphone: good, remixed, hanging, and without PortAudio."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from pulse import DEVICE, PulseMicrophone

pytestmark = pytest.mark.real

FS = 48000
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def microphone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PulseMicrophone]:
    with PulseMicrophone(tmp_path_factory.mktemp("pulse")) as running:
        yield running


def noise(channels: int) -> NDArray[np.int32]:
    """Half a minute of independent noise at -20 dBFS."""
    random = np.random.default_rng(4)
    x = np.tile(0.1 * random.standard_normal((3 * FS, channels)), (10, 1))
    return np.round(x * 2**23).astype(np.int32) << 8


def doctor(
    pulse: PulseMicrophone, folder: Path, *options: str, **environment: str
) -> tuple[int, dict[str, Any], str]:
    """Exit code, the JSON object, and what was said on the way."""
    folder.mkdir(exist_ok=True)
    (folder / "rig.yaml").write_text(
        f"hearth_rig: 1\nmicrophone: {{source: sounddevice, device: {DEVICE}, rate_hz: {FS}}}\n"
        f"camera: {{source: none}}\nstorage: {{folder: {folder / 'data'}, min_free_mib: 50}}\n"
    )
    done = subprocess.run(
        [sys.executable, "hearth.py", "doctor", "--json", "--rig", str(folder / "rig.yaml"), *options],
        cwd=ROOT, env={**pulse.environment, **environment}, capture_output=True, text=True, timeout=120,
        check=False,
    )  # fmt: skip
    assert "Traceback" not in done.stderr
    return done.returncode, json.loads(done.stdout), done.stderr


def test_a_good_microphone(microphone: PulseMicrophone, tmp_path: Path) -> None:
    playing = microphone.play(noise(4))
    try:
        code, report, said = doctor(microphone, tmp_path, "--seconds", "2.5")
    finally:
        playing.kill()
    faults = [f["text"] for f in report["findings"] if f["severity"] == "fault"]
    if not any("lost" in text for text in faults):  # a busy machine may be too late for the sound server
        assert faults == []
        assert code == 0 and report["ok"] and report["first"] is None
    listed = next(m for m in report["microphones"] if m["name"] == DEVICE)
    assert listed["rates_hz"] == [44100, 48000, 96000] and listed["route"] == "mixed"
    looks = [f["text"] for f in report["findings"] if f["severity"] == "warning"]
    assert any("not the hw: device" in text for text in looks)
    sound = report["test"]["sound"]
    assert sound["rms_dbfs"] == pytest.approx([-20] * 4, abs=1)
    assert sound["noise_floor_dbfs"] == pytest.approx([-20] * 4, abs=1)
    assert sound["channels"] == ["W", "Y", "Z", "X"]
    assert report["test"]["recorded"] and report["disk"]["bytes_per_second_measured"]
    assert report["disk"]["streams"]["foa_48k"] == pytest.approx(FS * 4 * 3, rel=0.02)
    assert report["disk"]["streams"]["foa_24k"] == pytest.approx(24000 * 4 * 4, rel=0.05)
    assert 0 < report["test"]["cpu"]["recording_percent"] < 200
    assert "peak" in said, "meters on stderr"
    assert [path.name for path in tmp_path.iterdir()] == ["rig.yaml"], "nothing is left on the disk"


def test_a_wrong_channel_map_is_named_as_a_remix(tmp_path: Path) -> None:
    with PulseMicrophone(tmp_path / "pulse", channels=2, channel_map="front-left,front-right") as stereo:
        playing = stereo.play(noise(2))
        try:
            code, report, _ = doctor(stereo, tmp_path / "rig", "--seconds", "2.5")
        finally:
            playing.kill()
    assert code == 1 and not report["ok"]
    assert report["first"].startswith("microphone: ")
    assert "remix" in report["first"] and "hw: device" in report["first"]


def test_a_sound_server_that_hangs_does_not_hang_the_doctor(microphone: PulseMicrophone) -> None:
    code = (
        "import sys, time\n"
        "from capture.doctor_inputs import look_at_inputs\n"
        "from capture.rig import parse_rig\n"
        f"rig = parse_rig('hearth_rig: 1\\nmicrophone: {{source: sounddevice, device: {DEVICE}}}')\n"
        "begin = time.monotonic()\n"
        "found, _ = look_at_inputs(rig, 2.5)\n"
        "print(time.monotonic() - begin < 10, [f.severity for f in found], found[0].text)\n"
    )
    microphone.hang()
    try:
        done = microphone.python(code)
    finally:
        microphone.hang(False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("True ['fault'") and "within" in done.stdout


def test_no_portaudio(microphone: PulseMicrophone, tmp_path: Path) -> None:
    """A machine whose loader does not find the library, in every process that is started."""
    (tmp_path / "sitecustomize.py").write_text(
        "import ctypes.util\n"
        "real = ctypes.util.find_library\n"
        "ctypes.util.find_library = lambda name: None if name == 'portaudio' else real(name)\n"
    )
    code, report, _ = doctor(microphone, tmp_path / "rig", PYTHONPATH=str(tmp_path))
    assert code == 1 and report["microphones"] == []
    assert report["first"].startswith("microphone: ") and "apt-get install libportaudio2" in report["first"]
    assert [d["device"] for d in report["opened"]] == [], "what cannot work is not opened"
