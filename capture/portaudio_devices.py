"""Finding a microphone by name and capability, the same way for both PortAudio bindings."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from dsp.errors import DeviceError

H3VR_MENU = (
    "The H3-VR is in stereo mode. On the recorder choose Menu > USB > Audio I/F > 4ch Ambisonics, then"
    " Menu > Ambisonic Mode > AmbiX, and plug it in again."
)


@dataclass(frozen=True, slots=True)
class InputDevice:
    """An input as PortAudio lists it. `index` is only good for the list it came from."""

    index: int
    name: str
    host_api: str
    channels: int
    rate_hz: float

    @property
    def is_hardware(self) -> bool:
        """An ALSA `hw:` device: its channels come as they are, nothing mixes or resamples."""
        return "(hw:" in self.name

    def describe(self) -> str:
        """One line for a message."""
        count = f"{self.channels} channel" + ("" if self.channels == 1 else "s")
        return f"{self.name!r} ({count}, {self.host_api})"


def choose_device(devices: list[InputDevice], wanted: str, channels: int) -> InputDevice:
    """The device whose name contains `wanted` (case does not matter) with at least `channels` inputs.

    ALSA `hw:` devices come first, then other ALSA ones, then the rest; an exact name beats a part of one.
    Raises DeviceError: none matches (lists what exists), or the match has too few channels (for an H3-VR with
    the menu path that gives it four).
    """
    if not wanted.strip():
        raise DeviceError("the microphone's name is empty: set `microphone.device`, e.g. H3-VR")
    named = [d for d in devices if wanted.lower() in d.name.lower()]
    if not named:
        raise DeviceError(f"no microphone whose name contains {wanted!r}. {list_devices(devices)}")
    able = [d for d in named if d.channels >= channels]
    if not able:
        best = max(named, key=lambda d: d.channels)
        if "h3-vr" in best.name.lower() and best.channels < 4 <= channels:
            raise DeviceError(f"{best.describe()}: {channels} channels are needed. {H3VR_MENU}")
        raise DeviceError(
            f"{best.describe()}: {channels} channels are needed (`microphone.channels`)."
            f" {list_devices(devices)}"
        )
    return min(
        able,
        key=lambda d: (not d.is_hardware, d.host_api != "ALSA", d.name.lower() != wanted.lower(), d.index),
    )


def list_devices(devices: list[InputDevice]) -> str:
    """A sentence that names every input."""
    inputs = [d for d in devices if d.channels > 0]
    if not inputs:
        return (
            "There is no microphone at all: nothing is plugged in, or the user may not open it"
            " (group `audio`)."
        )
    return "Microphones here: " + "; ".join(d.describe() for d in inputs) + "."


def busy_message(device: InputDevice, error: str) -> str:
    """What to say when a device that exists cannot be opened."""
    holders = holders_of(device)
    who = f" It is held by {', '.join(holders)}; stop that first." if holders else ""
    return f"{device.describe()} cannot be opened: {error}.{who}"


def holders_of(device: InputDevice) -> list[str]:
    """Programs that have this ALSA card's capture device open, as `name (pid)`; ours is left out.

    Only processes that we may look into are seen.
    """
    card = re.search(r"\(hw:(\d+),(\d+)\)", device.name)
    if card is None:
        return []
    return holders_of_file(f"/dev/snd/pcmC{card.group(1)}D{card.group(2)}c")


def holders_of_file(path: str) -> list[str]:
    """Programs that have a device file open, as `name (pid)`, without ourselves."""
    found = []
    for process in Path("/proc").iterdir():
        if not process.name.isdigit() or int(process.name) == os.getpid():
            continue
        try:
            if any(os.readlink(fd) == path for fd in (process / "fd").iterdir()):
                found.append(f"{(process / 'comm').read_text().strip()} ({process.name})")
        except OSError:
            continue
    return found
