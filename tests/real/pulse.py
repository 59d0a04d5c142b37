"""A PulseAudio daemon of our own in user space, with a sink of four channels whose monitor is a microphone.

PortAudio sees it by name through an ALSA `type pulse` entry; the daemon keeps real time, so what a program
plays into the sink arrives as it would from a USB microphone. Nothing of the user's own sound set-up is
touched: run-time folder, configuration and home are temporary.
"""

from __future__ import annotations

import contextlib
import ctypes.util
import fcntl
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import TracebackType

import numpy as np
import pytest
from numpy.typing import NDArray

SINK = "hearth_foa"
DEVICE = "hearth_test"
RIGHT_MAP = "front-left,front-right,rear-left,rear-right"
_SET_PIPE_SIZE = 1031  # F_SETPIPE_SZ of linux/fcntl.h
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
        self,
        folder: Path,
        *,
        channels: int = 4,
        channel_map: str = RIGHT_MAP,
        rate: int = 48000,
        more: dict[str, str] | None = None,
    ) -> None:
        """more: further devices, by name: PulseAudio's source of each."""
        self.folder, self.channels, self.channel_map, self.rate = folder, channels, channel_map, rate
        self._daemon: subprocess.Popen[bytes] | None = None
        run, home = folder / "run", folder / "home"
        for path in (run, home):
            path.mkdir(parents=True, exist_ok=True)
            path.chmod(0o700)
        self.log = folder / "pulseaudio.log"
        asoundrc = folder / "asound.conf"
        asoundrc.write_text(
            "".join(
                f"pcm.{name} {{\n  type pulse\n  device {source}\n"
                f'  hint {{ show on description "Hearth test microphone" }}\n}}\n'
                f"ctl.{name} {{ type pulse }}\n"
                for name, source in {DEVICE: f"{SINK}.monitor", **(more or {})}.items()
            )
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
            "-L", self._module(),
        ]  # fmt: skip
        with open(self.log, "ab") as log:
            self._daemon = subprocess.Popen(command, env=self.environment, stdout=log, stderr=log)
        deadline = time.monotonic() + 15
        while time.monotonic() < deadline:
            if self._daemon.poll() is not None:
                break
            if SINK in self.pactl("list", "short", "sources"):
                return
            time.sleep(0.1)
        tail = self.log.read_text(errors="replace")[-600:]
        self.end()
        pytest.skip(f"no PulseAudio microphone: the daemon does not start here: {tail}")

    def _module(self) -> str:
        return (
            f"module-null-sink sink_name={SINK} rate={self.rate} format=s32le channels={self.channels}"
            f" channel_map={self.channel_map}"
        )

    def hang(self, hangs: bool = True) -> None:
        """Let the daemon answer nobody, or go on."""
        assert self._daemon is not None
        self._daemon.send_signal(signal.SIGSTOP if hangs else signal.SIGCONT)

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


class CountingMicrophone(PulseMicrophone):
    """A daemon whose microphone counts its frames, so that every sample tells its own true time.

    Channel 0 is the frame's number, left-justified in 24 bits; the others are noise. A thread writes frame n
    into PulseAudio's pipe source when it is due, at `start_ns` + n / rate on CLOCK_MONOTONIC, whether
    somebody reads or not: like a microphone, it does not wait, and what nobody takes is gone.
    """

    def __init__(self, folder: Path, *, rate: int = 48000) -> None:
        super().__init__(folder, rate=rate)
        self.start_ns = 0
        self._pipe = folder / "run" / "microphone"
        self._stop = threading.Event()
        self._writer = threading.Thread(target=self._write, daemon=True)

    def __enter__(self) -> CountingMicrophone:
        super().__enter__()
        self._writer.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stop.set()
        if self._writer.is_alive():
            self._writer.join()
        self.end()

    def _module(self) -> str:
        return (
            f"module-pipe-source source_name={SINK}.monitor file={self._pipe} rate={self.rate} format=s32le"
            f" channels=4 channel_map={self.channel_map}"
        )

    def start(self) -> None:
        self._pipe.unlink(missing_ok=True)  # a daemon that was killed leaves it, and the next refuses it
        super().start()

    def _write(self) -> None:
        random = np.random.default_rng(0)
        noise = np.round(random.standard_normal((4096, 4)) * 2**16).astype(np.int32) << 8
        pipe = -1
        written = 0
        self.start_ns = time.monotonic_ns()
        while not self._stop.wait(0.004):
            due = (time.monotonic_ns() - self.start_ns) * self.rate // 1_000_000_000
            if pipe < 0:
                with contextlib.suppress(OSError):
                    pipe = os.open(self._pipe, os.O_WRONLY | os.O_NONBLOCK)
                    fcntl.fcntl(pipe, _SET_PIPE_SIZE, 1 << 20)  # a daemon on a busy machine comes later
            while written < due:
                count = np.arange(written, min(due, written + 256))  # 4096 bytes: written whole or not at all
                frames = noise[count % len(noise)]
                frames[:, 0] = (count % 2**24 - 2**23) << 8
                written += len(count)
                if pipe >= 0:
                    try:
                        os.write(pipe, frames.astype("<i4").tobytes())
                    except BlockingIOError:
                        continue
                    except OSError:
                        os.close(pipe)
                        pipe = -1
        if pipe >= 0:
            os.close(pipe)


def frame_numbers(channel: NDArray[np.int32]) -> NDArray[np.int64]:
    """The numbers that CountingMicrophone wrote into its channel 0."""
    return (channel.astype(np.int64) >> 8) + 2**23
