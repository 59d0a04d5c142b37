"""Drivers of the running kernel: loading, unplugging, and the controls of a V4L2 device by plain ioctl."""

from __future__ import annotations

import fcntl
import os
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from capture.blocks import AudioBlock, Item, SourceEvent, VideoFrame, monotonic_ns

# From linux/videodev2.h, for 64-bit machines.
_QUERYCTRL, _S_CTRL, _NEXT_CONTROL = 0xC0445624, 0xC008561C, 0x80000000

PATIENCE_S = 240.0  # an emulated machine that shares its processor is slow


class _Standstill(threading.Thread):
    """Notes the longest time for which this process did not run."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.longest_s = 0.0
        self.start()

    def run(self) -> None:
        while True:
            begin = time.monotonic()
            time.sleep(0.05)
            self.longest_s = max(self.longest_s, time.monotonic() - begin - 0.05)


_STANDSTILL = _Standstill()


def skip_if_it_stood_still(begin: bool = False) -> None:
    """Skip, saying so, when the machine stood still since the last call with begin=True for so long that
    stamps of that time are rightly doubted. A slow machine is no fault of what is tested."""
    if begin:
        _STANDSTILL.longest_s = 0.0
    elif _STANDSTILL.longest_s > 0.4:
        pytest.skip(f"this machine stood still for {_STANDSTILL.longest_s:.1f} s; give it a core of its own")


def load(module: str, *options: str) -> None:
    subprocess.run(["modprobe", module, *options], check=True, timeout=60)


def unload(module: str) -> None:
    subprocess.run(["rmmod", module.replace("-", "_")], check=True, timeout=60)


def wait_for(what: str, seen: Callable[[], Any], seconds: float = PATIENCE_S) -> Any:
    """The first true value of `seen`; AssertionError when there is none in time."""
    until = time.monotonic() + seconds
    while True:
        value = seen()
        if value:
            return value
        assert time.monotonic() < until, f"{what}: not within {seconds:g} s"
        time.sleep(0.05)


def set_control(node: str, name: str, value: int) -> None:
    """Set a V4L2 control by the name that the driver gives it. Raises KeyError with the names there are."""
    fd = os.open(node, os.O_RDWR)
    try:
        found, wanted = {}, _NEXT_CONTROL
        while True:
            query = bytearray(struct.pack("<II32s4iI2I", wanted, 0, b"", 0, 0, 0, 0, 0, 0, 0))
            try:
                fcntl.ioctl(fd, _QUERYCTRL, query)
            except OSError:
                break
            number, _, text = struct.unpack_from("<II32s", query)
            found[text.split(b"\0")[0].decode()] = number
            wanted = number | _NEXT_CONTROL
        if name not in found:
            raise KeyError(f"{node} has no control {name!r}; it has {sorted(found)}")
        fcntl.ioctl(fd, _S_CTRL, struct.pack("<Ii", found[name], value))
    finally:
        os.close(fd)


class Collected:
    """A sink that keeps what a source delivers, with the time of each delivery."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._items: list[tuple[int, Item]] = []

    def __call__(self, item: Item) -> None:
        with self._lock:
            self._items.append((monotonic_ns(), item))

    def _kind(self, kind: type) -> list[tuple[int, Any]]:
        with self._lock:
            return [(at, item) for at, item in self._items if isinstance(item, kind)]

    @property
    def frames(self) -> list[VideoFrame]:
        return [item for _, item in self._kind(VideoFrame)]

    @property
    def blocks(self) -> list[AudioBlock]:
        return [item for _, item in self._kind(AudioBlock)]

    @property
    def events(self) -> list[SourceEvent]:
        return [item for _, item in self._kind(SourceEvent)]

    def event(self, kind: str) -> SourceEvent | None:
        """The first event of this kind."""
        return next((event for event in self.events if event.kind == kind), None)

    @property
    def last_block_ns(self) -> int:
        """When the last block of sound was delivered."""
        return self._kind(AudioBlock)[-1][0]

    def ages_s(self) -> list[float]:
        """Delivery after stamp, of each picture."""
        return [(at - frame.t_ns) / 1e9 for at, frame in self._kind(VideoFrame)]


def cards() -> str:
    """The kernel's list of sound cards."""
    return Path("/proc/asound/cards").read_text()


def list_devices_afresh() -> None:
    """PortAudio lists the devices once: let it look again, as a new process would."""
    import sounddevice

    sounddevice._terminate()
    sounddevice._initialize()


class UsbProgram:
    """A USB device of this folder (usb_camera.py, usb_microphone.py), run as a program of its own so that it
    shares no interpreter with Hearth. It is plugged in when this returns."""

    def __init__(self, program: str, *arguments: str) -> None:
        path = Path(__file__).with_name(program)
        self._process = subprocess.Popen(
            [sys.executable, str(path), *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._answer("plugged")

    def say(self, command: str) -> None:
        """One command; returns when it is carried out."""
        assert self._process.stdin is not None
        self._process.stdin.write(command + "\n")
        self._process.stdin.flush()
        self._answer("done")

    def _answer(self, wanted: str) -> None:
        assert self._process.stdout is not None
        said = self._process.stdout.readline().strip()
        assert said == wanted, f"the USB device said {said!r}; its messages are above"

    def end(self) -> None:
        """Pull it out and end the program."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(30)


class UsbCameraProgram(UsbProgram):
    """usb_camera.py."""

    def __init__(self, log: Path) -> None:
        self._log = log
        super().__init__("usb_camera.py", str(log))

    def left_ns(self) -> dict[int, int]:
        """Picture number -> when its first byte left."""
        lines = [line.split() for line in self._log.read_text().split("\n")[:-1]]
        return {int(number): int(t) for number, t in lines}
