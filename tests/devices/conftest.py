"""Tests with the kernel's own camera and sound drivers.

They load and unload drivers, so they run only in the virtual machine of `make test-devices`, which sets
HEARTH_DEVICE_VM.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))

from kernel import UsbCameraProgram, UsbProgram, cards, list_devices_afresh, load, wait_for

collect_ignore_glob = [] if os.environ.get("HEARTH_DEVICE_VM") == "1" else ["test_*.py"]


@pytest.fixture(scope="module")
def camera_program(tmp_path_factory: pytest.TempPathFactory) -> Iterator[UsbCameraProgram]:
    load("vhci-hcd")
    load("uvcvideo")
    running = UsbCameraProgram(tmp_path_factory.mktemp("usb") / "camera.log")
    yield running
    running.end()
    wait_for("the camera is gone", lambda: not list(Path("/dev").glob("video*")))


@pytest.fixture(scope="module")
def microphone_program() -> Iterator[UsbProgram]:
    load("vhci-hcd")
    load("snd-usb-audio")
    running = UsbProgram("usb_microphone.py", "4", "H3-VR")
    yield running
    running.end()
    wait_for("the card is gone", lambda: "H3-VR" not in cards())


@pytest.fixture
def usb_camera(camera_program: UsbCameraProgram) -> Iterator[UsbCameraProgram]:
    """A USB camera that is plugged in and has no fault; each test may give it some."""
    wait_for("the camera's device", lambda: list(Path("/dev").glob("video*")))
    yield camera_program
    for command in ("frozen 0", "silent 0", "cut 0"):
        camera_program.say(command)


@pytest.fixture
def usb_microphone(microphone_program: UsbProgram) -> UsbProgram:
    """A USB microphone that is plugged in."""
    wait_for("the sound card", lambda: "H3-VR" in cards())
    list_devices_afresh()
    return microphone_program
