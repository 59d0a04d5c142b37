"""A PulseAudio daemon of our own in user space, with a sink of four channels whose monitor is a microphone.

PortAudio sees it by name through an ALSA `type pulse` entry; the daemon keeps real time, so what a program
plays into the sink arrives as it would from a USB microphone. Nothing of the user's own sound set-up is
touched: run-time folder, configuration and home are temporary.
"""

from __future__ import annotations

import ctypes.util
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType

import numpy as np
import pytest
from numpy.typing import NDArray

SINK = "hearth_foa"
DEVICE = "hearth_test"
RIGHT_MAP = "front-left,front-right,rear-left,rear-right"
_ALSA_BASE = ("/usr/share/alsa/alsa.conf",)


def why_not() -> str | None:
    """What is missing for these tests in plain words; None when everything is there."""
    for program in ("pulseaudio", "pactl", "pacat"):
        if shutil.which(program) is None:
            return f"{program} is not installed"
    if not list(Path("/usr/lib").glob("*/alsa-lib/libasound_module_pcm_pulse.so")):
        return "libasound2-plugins is not installed"
    if ctypes.util.find_library("portaudio") is None:
        return "libportaudio2 is not installed"
    return None


class PulseMicrophone:
    """A context manager: a running daemon with the sink; `environment` is for processes that record."""

    def __init__(
        self, folder: Path, *, channels: int = 4, channel_map: str = RIGHT_MAP, rate: int = 48000
    ) -> None:
        self.folder, self.channels, self.channel_map, self.rate = folder, channels, channel_map, rate
        self._daemon: subprocess.Popen[bytes] | None = None
        run, home = folder / "run", folder / "home"
        for path in (run, home):
            path.mkdir(parents=True, exist_ok=True)
            path.chmod(0o700)
        self.log = folder / "pulseaudio.log"
        asoundrc = folder / "asound.conf"
        asoundrc.write_text(
            f"pcm.{DEVICE} {{\n  type pulse\n  device {SINK}.monitor\n"
            f'  hint {{ show on description "Hearth test microphone" }}\n}}\n'
            f"ctl.{DEVICE} {{ type pulse }}\n"
        )
        self.environment = {
            **os.environ,
            "XDG_RUNTIME_DIR": str(run),
            "HOME": str(home),
            "PULSE_RUNTIME_PATH": str(run / "pulse"),
            "PULSE_SERVER": f"unix:{run}/native",
            "PULSE_COOKIE": str(home / "cookie"),
            "ALSA_CONFIG_PATH": f"{_ALSA_BASE[0]}:{asoundrc}",
        }

    def __enter__(self) -> PulseMicrophone:
        reason = why_not()
        if reason is not None:
            pytest.skip(f"no PulseAudio microphone: {reason}")
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()

    def start(self) -> None:
        """Start the daemon and wait until it answers."""
        command = [
            "pulseaudio", "-n", "--daemonize=no", "--system=false", "--exit-idle-time=-1",
            "--use-pid-file=no", "--disable-shm=yes", "--high-priority=no", "--realtime=no", "-vv",
            "-L", f"module-native-protocol-unix auth-anonymous=1 socket={self.folder}/run/native",
            "-L", f"module-null-sink sink_name={SINK} rate={self.rate} format=s32le"
            f" channels={self.channels} channel_map={self.channel_map}",
        ]  # fmt: skip
        with open(self.log, "ab") as log:
            self._daemon = subprocess.Popen(command, env=self.environment, stdout=log, stderr=log)
        deadline = time.monotonic() + 15
        while time.monotonic() < deadline:
            if self._daemon.poll() is not None:
                break
            if SINK in self.pactl("list", "short", "sinks"):
                return
            time.sleep(0.1)
        tail = self.log.read_text(errors="replace")[-600:]
        self.end()
        pytest.skip(f"no PulseAudio microphone: the daemon does not start here: {tail}")

    def end(self) -> None:
        """End the daemon at once: for a program that records, the device is unplugged."""
        daemon, self._daemon = self._daemon, None
        if daemon is not None:
            daemon.kill()
            daemon.wait()

    def pactl(self, *arguments: str) -> str:
        """Output of pactl; empty when the daemon does not answer."""
        done = subprocess.run(
            ["pactl", *arguments],
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=10,
            check=False,
        )
        return done.stdout

    def play(self, samples: NDArray[np.int32], *, channel_map: str | None = None) -> subprocess.Popen[bytes]:
        """Play (frames, channels) int32 into the sink from a file; ends by itself."""
        path = self.folder / f"play-{time.monotonic_ns()}.raw"
        samples.astype("<i4").tofile(path)
        return subprocess.Popen(
            [
                "pacat", "--playback", "--raw", f"--device={SINK}", f"--rate={self.rate}", "--format=s32le",
                f"--channels={samples.shape[1]}", f"--channel-map={channel_map or self.channel_map}",
                "--latency-msec=200", str(path),
            ],
            env=self.environment,
        )  # fmt: skip

    def python(self, code: str, *arguments: str, timeout: float = 60) -> subprocess.CompletedProcess[str]:
        """Run Python code in a fresh process that sees this microphone (PortAudio lists devices once)."""
        return subprocess.run(
            [sys.executable, "-c", code, *arguments],
            env=self.environment,
            cwd=Path(__file__).resolve().parents[2],
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
