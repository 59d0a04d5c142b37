"""A microphone through PortAudio that goes away and comes back, by both backends, against true times.

The test's own microphone counts its frames, so every sample that arrives tells when it was due on
CLOCK_MONOTONIC and how many are missing (see `pulse.CountingMicrophone`). What the path through PulseAudio
adds (about half a millisecond for the earliest buffers, which is what the clock follows) is the same before
and after a loss.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from pulse import DEVICE, CountingMicrophone, frame_numbers

from recordings.clock_fit import fit_clock

pytestmark = pytest.mark.real

FS = 48000
# The figures themselves (1 s, 1 ms) are those of bench/capture_microphone.py; a test must also pass on a
# machine that others keep busy.
NOTICED_NS = 1_500_000_000
ROOT = Path(__file__).resolve().parents[2]
_RECORD = """
import json, sys, time
import numpy as np
from capture.blocks import AudioBlock
from capture.microphone import PortAudioMicrophone
from capture.pyaudio_microphone import PyAudioMicrophone
backend, device, path = sys.argv[1:]
source = {"sounddevice": PortAudioMicrophone, "pyaudio": PyAudioMicrophone}[backend](device)
blocks = []
def say(**what):
    sys.stdout.write(json.dumps(what) + "\\n")
    sys.stdout.flush()
def sink(item):
    if isinstance(item, AudioBlock):
        blocks.append(item)
        if len(blocks) == 1:
            say(kind="first")
    else:
        say(kind=item.kind, t_ns=item.t_ns, detail=item.detail, data=item.data)
info = source.open()
source.start(sink)
say(kind="started", detail=info.detail)
sys.stdin.readline()
begin, count = time.monotonic(), len(blocks)
source.stop()
source.close()
say(kind="stopped", seconds=time.monotonic() - begin)
clock = source._stamper._clock
np.savez(path, first=[b.first_frame for b in blocks], frames=[len(b.samples) for b in blocks],
         lost=[b.lost_frames for b in blocks], observed_ns=[b.t_observed_ns for b in blocks],
         line_ns=[clock.time_of(b.first_frame) for b in blocks],
         samples=np.concatenate([b.samples for b in blocks]) if blocks else np.zeros((0, 4), np.int32))
"""


def backends() -> list[str]:
    """Both where PyAudio is built (test_microphone_backends says when it is not)."""
    return ["sounddevice", *(["pyaudio"] if find_spec("pyaudio") else [])]


class Recorder:
    """A process that records from the microphone and tells what happens."""

    def __init__(self, pulse: CountingMicrophone, backend: str, folder: Path) -> None:
        self._path = folder / f"{backend}.npz"
        self.said: list[dict[str, Any]] = []
        self._process = subprocess.Popen(
            [sys.executable, "-c", _RECORD, backend, DEVICE, str(self._path)],
            cwd=ROOT, env=pulse.environment, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.said.append(json.loads(line))

    def wait(self, kind: str, timeout_s: float = 30) -> dict[str, Any]:
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline and (self._process.poll() is None or self._reader.is_alive()):
            for event in list(self.said):
                if event["kind"] == kind:
                    return event
            time.sleep(0.01)
        self._process.kill()
        errors = self._process.stderr.read() if self._process.stderr else ""
        raise AssertionError(f"no {kind!r} in {self.said}: {errors[-2000:]}")

    def stop(self) -> tuple[float, dict[str, NDArray[Any]]]:
        """Seconds that stop and close took, and what was recorded."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        took = float(self.wait("stopped")["seconds"])
        assert self._process.wait(20) == 0
        return took, dict(np.load(self._path))


def test_a_device_that_goes_away_comes_back_on_the_same_clock(tmp_path: Path) -> None:
    with CountingMicrophone(tmp_path / "pulse") as pulse:
        recorders = [Recorder(pulse, backend, tmp_path) for backend in backends()]
        for recorder in recorders:
            recorder.wait("first")
        time.sleep(4.0)
        gone_ns = time.monotonic_ns()
        pulse.end()
        lost = [recorder.wait("lost") for recorder in recorders]
        time.sleep(0.5)
        pulse.start()
        returned = [recorder.wait("returned") for recorder in recorders]
        time.sleep(4.0)
        takes = [recorder.stop()[1] for recorder in recorders]
    for got, away, back in zip(takes, lost, returned, strict=True):
        judge(got, gone_ns, pulse.start_ns, away, back)


def judge(
    got: dict[str, NDArray[Any]], gone_ns: int, start_ns: int, lost: dict[str, Any], returned: dict[str, Any]
) -> None:
    assert 0 <= lost["t_ns"] - gone_ns < NOTICED_NS
    number = frame_numbers(got["samples"][:, 0])
    starts = np.cumsum(got["frames"]) - got["frames"]
    gap = int(np.argmax(got["lost"]))
    missing = np.diff(number) - 1
    assert missing[starts[gap] - 1] == missing.max() > FS // 2  # the place is exact
    assert got["lost"][gap] == returned["data"]["lost_frames"]
    np.testing.assert_array_equal(np.diff(got["first"]), got["frames"][:-1] + got["lost"][1:])
    if np.count_nonzero(missing) > 1:
        pytest.skip("PulseAudio itself dropped sound elsewhere: this machine is too busy to measure lengths")
    # The length is what the clock tells, at rest right to 1 ms.
    assert got["lost"].sum() == pytest.approx(missing.sum(), abs=0.02 * FS)
    # The line through a section gives its first sample the true time, to the constant delay of before; the
    # live clock needs longer to settle than this test lasts on a busy machine.
    true_ns = start_ns + number[starts] * 1e9 / FS
    before, after = (
        line_ns(got, section)[edge] - true_ns[section][edge]
        for section, edge in ((slice(0, gap), -1), (slice(gap, None), 0))
    )
    assert abs(after - before) < 3e6
    assert 0 < before < 10e6
    assert abs((got["line_ns"] - true_ns)[gap] - before) < 30e6


def line_ns(got: dict[str, NDArray[Any]], section: slice) -> NDArray[np.float64]:
    """Time of each block's first frame on the robust line of one gap-free section."""
    frames = got["first"][section]
    fit = fit_clock(frames, got["observed_ns"][section], FS)
    return np.asarray(fit.offset_ns + frames * 1e9 / (FS * (1 + 1e-6 * fit.drift_ppm)))


def test_a_device_that_goes_away_in_the_first_second_is_noticed_and_stop_is_prompt(tmp_path: Path) -> None:
    with CountingMicrophone(tmp_path / "pulse") as pulse:
        recorders = [Recorder(pulse, backend, tmp_path) for backend in backends()]
        for recorder in recorders:
            recorder.wait("started")
        gone_ns = time.monotonic_ns()
        pulse.end()
        for recorder in recorders:
            assert 0 <= recorder.wait("lost")["t_ns"] - gone_ns < NOTICED_NS
            assert recorder.stop()[0] < 2.0


def test_a_sound_server_that_hangs_holds_nobody_up_and_is_taken_back(tmp_path: Path) -> None:
    with CountingMicrophone(tmp_path / "pulse") as pulse:
        recorders = [Recorder(pulse, backend, tmp_path) for backend in backends()]
        for recorder in recorders:
            recorder.wait("first")
        time.sleep(0.5)
        hung_ns = time.monotonic_ns()
        pulse.hang()
        try:
            for recorder in recorders:
                assert 0 <= recorder.wait("lost")["t_ns"] - hung_ns < NOTICED_NS
            time.sleep(0.8)
            pulse.hang(False)
            for recorder in recorders:
                recorder.wait("returned")
            pulse.hang()
            time.sleep(0.2)
            for recorder in recorders:  # and the process ends although the server does not answer
                assert recorder.stop()[0] < 4.0
        finally:
            pulse.hang(False)
