"""A real PortAudio input of four channels: a PulseAudio daemon that the test starts and ends itself.

What is played is written by formula, so truth does not come from Hearth's own microphone code: plane waves
with AmbiX (ACN, SN3D) gains W = 1, Y = sin(az) cos(el), Z = sin(el), X = cos(az) cos(el).
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from pulse import DEVICE, PulseMicrophone
from scipy.signal import lfilter

import dsp
from recordings import Episode

pytestmark = pytest.mark.real

FS = 48000
ROOT = Path(__file__).resolve().parents[2]
AZIMUTHS = (60.0, -100.0, 150.0, -20.0)
ELEVATION = 10.0
SEGMENT_S = 1.0
LEAD_S = 1.0  # silence first: an ALSA stream over PulseAudio may need a second to begin


@pytest.fixture(scope="module")
def microphone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PulseMicrophone]:
    with PulseMicrophone(tmp_path_factory.mktemp("pulse")) as running:
        yield running


def scene(seed: int = 0) -> NDArray[np.int32]:
    """Speech-like noise (low-pass, 4 Hz syllables) from each azimuth in turn; int32 with 24 valid bits."""
    random = np.random.default_rng(seed)
    parts = []
    n = round(SEGMENT_S * FS)
    for azimuth in AZIMUTHS:
        noise = lfilter([1.0], [1.0, -0.9], random.standard_normal(n))
        noise *= 0.05 + np.abs(np.sin(2 * np.pi * 4 * np.arange(n) / FS))
        noise *= 0.25 / np.abs(noise).max()
        az, el = np.radians(azimuth), np.radians(ELEVATION)
        gains = [1.0, np.sin(az) * np.cos(el), np.sin(el), np.cos(az) * np.cos(el)]
        parts.append(noise[:, None] * gains)
    foa = np.concatenate(parts) + 1e-5 * random.standard_normal((n * len(AZIMUTHS), 4))
    return np.round(foa * 2**23).astype(np.int32) << 8


def with_lead(played: NDArray[np.int32]) -> NDArray[np.int32]:
    return np.concatenate([np.zeros((round(LEAD_S * FS), 4), np.int32), played])


class Take:
    """`hearth record` in a process of its own."""

    def __init__(
        self, pulse: PulseMicrophone, folder: Path, *options: str, source: str = "sounddevice"
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "rig.yaml").write_text(
            "hearth_rig: 1\n"
            f"microphone: {{source: sounddevice, device: {DEVICE}, rate_hz: {FS}, format: ambix}}\n"
            "camera: {source: none}\n"
            "storage: {min_free_mib: 50}\n"
        )
        self.data = folder / "data"
        self.errors: list[str] = []
        self.process = subprocess.Popen(
            [sys.executable, "hearth.py", "record", "--rig", str(folder / "rig.yaml"), "--json",
             "--folder", str(self.data), "--no-check", *options],
            cwd=ROOT, env=pulse.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self.wait_for("recording")

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.errors.append(line)

    def wait_for(self, words: str, timeout_s: float = 120.0) -> float:
        """Monotonic time at which a line with these words was printed."""
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            if any(words in line for line in self.errors):
                return time.monotonic()
            if self.process.poll() is not None:
                break
            time.sleep(0.02)
        raise AssertionError(f"no line with {words!r}: {''.join(self.errors)}")

    def result(self, timeout_s: float = 60.0) -> dict[str, Any]:
        assert self.process.stdout is not None
        output = self.process.stdout.read()
        self.process.wait(timeout_s)
        assert self.process.returncode == 0, "".join(self.errors)
        return dict(json.loads(output))


def place_of(played: NDArray[np.int32], recorded: NDArray[np.int32]) -> int:
    """Frame of `recorded` at which `played` begins, found from an exact run of samples in its middle."""
    middle = len(played) // 2
    key = played[middle : middle + 64]
    for k in np.flatnonzero(recorded[:, 0] == key[0, 0]):
        if np.array_equal(recorded[k : k + 64], key):
            return int(k) - middle
    raise AssertionError("what was played is not in the recording, sample for sample")


def original(episode: Episode) -> NDArray[np.int32]:
    """The original as int32, left-justified."""
    return np.asarray(np.round(episode.audio(rate=FS).astype(np.float64) * 2**31), np.int64).astype(np.int32)


def test_known_scene_comes_back_in_order_length_and_direction(
    microphone: PulseMicrophone, tmp_path: Path
) -> None:
    played = scene()
    take = Take(microphone, tmp_path, "--seconds", "6.5", "--session", "real")
    playing = microphone.play(with_lead(played))
    result = take.result()
    playing.wait(10)

    assert result["lost_frames"] == 0
    assert result["frames"] == 6.5 * FS
    episode = Episode.open(result["episode"])
    assert episode.verify().ok
    recorded = original(episode)
    assert len(recorded) == result["frames"]
    begin = place_of(played, recorded)
    # Order, length and content: not one of 4 s x 4 channels is moved, mixed, scaled or lost.
    np.testing.assert_array_equal(recorded[begin : begin + len(played)], played)

    foa = episode.audio(rate=24000)
    n = round(SEGMENT_S * 24000)
    for i, azimuth in enumerate(AZIMUTHS):
        start = begin // 2 + i * n
        found = dsp.steady_direction(foa[start : start + n], 24000)
        assert dsp.angular_error_deg(found.azimuth_deg, 0, azimuth, 0) < 5
    codes = {f["code"] for f in result["findings"] if f["severity"] == "fault"}
    assert "duplicated" not in codes and "dead" not in codes


def test_remixed_channels_are_noticed_before_and_in_the_take(tmp_path: Path) -> None:
    """A stereo device behind a sound server gives four channels without complaint: two are copies."""
    with PulseMicrophone(tmp_path / "pulse", channels=2, channel_map="front-left,front-right") as stereo:
        playing = stereo.play(np.ascontiguousarray(np.concatenate([scene()[:, :2]] * 40)))
        take = Take(stereo, tmp_path, "--seconds", "4")
        result = take.result()
        refused = subprocess.run(
            [sys.executable, "hearth.py", "record", "--rig", str(tmp_path / "rig.yaml"), "--seconds", "1"],
            cwd=ROOT, env=stereo.environment, capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        playing.kill()
    assert refused.returncode == 1
    assert "not recorded" in refused.stderr and "the same signal" in refused.stderr
    told = [e["data"] for e in result["events"] if e["kind"] == "channels" and e["data"]["fault"] == "copied"]
    # One dry talker at a time makes left and right copies as well.
    assert told and all({0, 2} <= set(e["channels"]) or {1, 3} <= set(e["channels"]) for e in told)
    assert result["frames"] > 0
    faults = [f for f in result["findings"] if f["severity"] == "fault"]
    assert any(f["code"] == "duplicated" for f in faults), result["findings"]
    sound = Episode.open(result["episode"]).checks["sound"]
    assert any(f["code"] == "duplicated" for f in sound["findings"])


def test_daemon_that_ends_is_noticed_and_taken_back_and_the_take_is_kept(tmp_path: Path) -> None:
    with PulseMicrophone(tmp_path / "pulse") as pulse:
        take = Take(pulse, tmp_path)
        playing = pulse.play(scene(1))
        time.sleep(4.5)
        ended = time.monotonic()
        pulse.end()
        noticed = take.wait_for("microphone: lost")
        playing.kill()
        time.sleep(1)
        pulse.start()
        take.wait_for("microphone: returned")
        playing = pulse.play(scene(2))
        time.sleep(3)
        take.process.send_signal(signal.SIGINT)
        result = take.result()
        playing.kill()
    assert noticed - ended < 2.0  # 0.7 s without a block, and the meter's and our own polling
    events = {e["kind"]: e for e in result["events"] if e["kind"] in ("lost", "returned", "error")}
    assert list(events) == ["lost", "returned"]
    lost_event = events["lost"]
    warned = [e["detail"] for e in result["events"] if e["kind"] == "warning"]
    assert warned and all("not the hw: device" in text for text in warned)
    assert lost_event["t_ns"] / 1e9 - ended < 1.0  # within a second by the recorder's own clock
    assert result["stop_reason"] == "interrupt"
    # The gap is as long as the absence: from the end of the daemon to its first block.
    away = events["returned"]["t_ns"] / 1e9 - ended
    assert result["lost_frames"] / FS == pytest.approx(away, abs=1.0)
    episode = Episode.open(result["episode"])
    assert episode.verify().ok
    gaps = [line for line in episode.timeline() if line["type"] == "gap" and line["stream"] == "audio"]
    assert [gap["lost_frames"] for gap in gaps] == [pytest.approx(result["lost_frames"], abs=0.01 * FS)]
    recorded = original(episode)
    first = recorded[: gaps[0]["file_frame"]]
    assert len(first) > FS  # how soon the stream began is PortAudio's and the machine's affair
    played = scene(1)
    key = played[FS : FS + 64]
    places = np.flatnonzero(first[:, 0] == key[0, 0])
    assert any(np.array_equal(first[k : k + 64], key) for k in places), "the sound before the loss is kept"
    after = recorded[gaps[0]["file_frame"] :]
    key = scene(2)[FS : FS + 64]
    places = np.flatnonzero(after[:, 0] == key[0, 0])
    assert any(np.array_equal(after[k : k + 64], key) for k in places), "and so is what came afterwards"


def test_wrong_name_lists_the_devices(microphone: PulseMicrophone) -> None:
    done = microphone.python(
        "from capture.microphone import PortAudioMicrophone\n"
        "from dsp.errors import DeviceError\n"
        "try:\n    PortAudioMicrophone('no such thing').open()\n"
        "except DeviceError as error:\n    print(error)"
    )
    assert f"'{DEVICE}'" in done.stdout and "no such thing" in done.stdout


def test_missing_portaudio_is_named(microphone: PulseMicrophone) -> None:
    """Without the shared library the message names its package: a fresh process in which it is not found."""
    code = (
        "import ctypes.util, sys\n"
        "real = ctypes.util.find_library\n"
        "ctypes.util.find_library = lambda name: None if name == 'portaudio' else real(name)\n"
        "from capture.microphone import input_devices\n"
        "from dsp.errors import MissingDependency\n"
        "try:\n    input_devices()\n"
        "except MissingDependency as error:\n    print(error)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env=dict(os.environ),
        capture_output=True,
        text=True,
        check=False,
    )
    assert "libportaudio2" in done.stdout, done.stderr


def test_a_microphone_without_signal_ends_it_before_anything_is_recorded(
    microphone: PulseMicrophone, tmp_path: Path
) -> None:
    """Nothing plays into the sink, so its monitor gives digital silence on all four channels."""
    (tmp_path / "rig.yaml").write_text(
        f"hearth_rig: 1\nmicrophone: {{source: sounddevice, device: {DEVICE}}}\ncamera: {{source: none}}\n"
        "storage: {min_free_mib: 50}\n"
    )
    done = subprocess.run(
        [sys.executable, "hearth.py", "record", "--rig", str(tmp_path / "rig.yaml"), "--json",
         "--folder", str(tmp_path / "data"), "--seconds", "2"],
        cwd=ROOT, env=microphone.environment, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.returncode == 1 and done.stdout == ""
    assert "digital silence" in done.stderr and "--no-check" in done.stderr
    assert not (tmp_path / "data").exists() or not list((tmp_path / "data").iterdir())
