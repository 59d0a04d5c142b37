"""Finding a microphone by name and capability, the same way for both PortAudio bindings."""

from __future__ import annotations

import json
import math
import os
import re
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dsp.errors import DeviceError, InputError, MissingDependency

H3VR_MENU = (
    "The H3-VR is in stereo mode. On the recorder choose Menu > USB > Audio I/F > 4ch Ambisonics, then"
    " Menu > Ambisonic Mode > AmbiX, and plug it in again."
)


# Where a sound server or the system may resample and remix on the way, with every status flag clean.
_MIXING_APIS = ("PulseAudio", "MME", "Windows DirectSound")
_API_ORDER = ("ALSA", "Core Audio", "Windows WASAPI", "Windows WDM-KS", "ASIO", "JACK Audio Connection Kit")


class DeviceAbsent(DeviceError):
    """No device of that name is there (it may still be plugged in)."""


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

    @property
    def is_mixed(self) -> bool:
        """Something between it and the converter may remix or resample: "default", "pulse", plughw."""
        return not self.is_hardware if self.host_api == "ALSA" else self.host_api in _MIXING_APIS

    def describe(self) -> str:
        """One line for a message."""
        count = f"{self.channels} channel" + ("" if self.channels == 1 else "s")
        return f"{self.name!r} ({count}, {self.host_api})"


def check_settings(device: str, rate_hz: float, channels: int, block_ms: float) -> None:
    """Raise InputError for what no microphone can be asked for; the message names key, value and remedy."""
    if not device.strip():
        raise InputError("the microphone's name is empty: set `microphone.device`, e.g. H3-VR")
    if not (math.isfinite(rate_hz) and 8000 <= rate_hz <= 768_000 and rate_hz == round(rate_hz)):
        raise InputError(
            f"`microphone.rate_hz`: {rate_hz} cannot be asked for; give whole Hz from 8000 to 768000,"
            " e.g. 48000"
        )
    if not (isinstance(channels, int) and 1 <= channels <= 64):
        raise InputError(
            f"`microphone.channels`: {channels} cannot be asked for; give 1 to 64, e.g. 4 for ambisonics"
        )
    if not (math.isfinite(block_ms) and 1 <= block_ms <= 200):
        raise InputError(f"`microphone.block_ms`: {block_ms} cannot be asked for; give 1 to 200, e.g. 10")


def choose_device(devices: list[InputDevice], wanted: str, channels: int) -> InputDevice:
    """The device whose name contains `wanted` (case and punctuation do not matter) with enough inputs.

    ALSA `hw:` devices come first, then other ALSA ones, then the rest; an exact name beats a part of one. A
    `hw:` device with too few channels is not got round by a sound server's route of the same name: that
    would be a remix.
    Raises DeviceAbsent: none matches (lists what exists). DeviceError: the match has too few channels (for an
    H3-VR with the menu path that gives it four), or two match equally well. InputError: an empty name.
    """
    if not plain_name(wanted):
        raise InputError("the microphone's name is empty: set `microphone.device`, e.g. H3-VR")
    named = [d for d in devices if wanted.lower() in d.name.lower()]
    named = named or [d for d in devices if plain_name(wanted) in plain_name(d.name)]
    if not named:
        raise DeviceAbsent(f"no microphone whose name contains {wanted!r}. {list_devices(devices)}")
    hardware = [d for d in named if d.is_hardware]
    able = [d for d in hardware or named if d.channels >= channels]
    if not able:
        raise DeviceError(_too_few(max(hardware or named, key=lambda d: d.channels), channels, devices))

    def rank(d: InputDevice) -> tuple[int, ...]:
        api = _API_ORDER.index(d.host_api) if d.host_api in _API_ORDER else len(_API_ORDER)
        return (not d.is_hardware, d.is_mixed, api, d.name.lower() != wanted.lower())

    best = min(able, key=rank)
    equal = [d for d in able if rank(d) == rank(best)]
    if len(equal) > 1:
        names = " and ".join(d.describe() for d in equal)
        remedy = "give more of the name in `microphone.device`"
        if len({d.name for d in equal}) == 1:
            remedy = "they have the same name: unplug the one that is not meant"
        elif all(d.is_hardware for d in equal):
            remedy += f", e.g. {best.name[best.name.index('(hw:') + 1 : -1]}, or unplug the other"
        raise DeviceError(f"`microphone.device`: {wanted!r} means {names} equally well; {remedy}")
    return best


def plain_name(name: str) -> str:
    """Letters and digits only, small: how names are compared."""
    return re.sub(r"[\W_]+", "", name.lower())


def _too_few(best: InputDevice, channels: int, devices: list[InputDevice]) -> str:
    text = f"{best.describe()}: {channels} channels are needed (`microphone.channels`)"
    if "h3vr" in plain_name(best.name) and best.channels < 4 <= channels:
        return f"{text}. {H3VR_MENU}"
    return (
        f"{text}. If it has a multichannel USB mode, switch it on and plug it in again; else name another"
        f" device. {list_devices(devices)}"
    )


def device_warnings(device: InputDevice, channels: int) -> list[str]:
    """What is not as it should be about a device that can be opened all the same; empty for a good one."""
    found = []
    if device.is_mixed:
        found.append(
            f"{device.describe()} is not the hw: device: a sound server may remix, copy or resample its"
            " channels without saying so. Name the hw: device, or look at the channel check closely."
        )
    elif device.channels > channels:
        found.append(
            f"{device.describe()} has more channels than the {channels} of `microphone.channels`: the first"
            f" {channels} are recorded. Connect the microphone to inputs 1 to {channels}."
        )
    return found


# Only sounddevice is imported, so that a look costs little beside a running take.
_LIST_INPUTS = """
import json, os, sys
if sys.argv[1] != "0":
    os.nice(int(sys.argv[1]))
try:
    import sounddevice as sd
except (ImportError, OSError) as error:
    missing = "package" if isinstance(error, ImportError) else "library"
    print("\\n" + json.dumps({"missing": missing, "error": str(error)}))
    sys.exit()
apis = [a["name"] for a in sd.query_hostapis()]
print("\\n" + json.dumps([
    [i, d["name"], apis[d["hostapi"]], d["max_input_channels"], d["default_samplerate"]]
    for i, d in enumerate(sd.query_devices()) if d["max_input_channels"] > 0
]))
"""


def list_inputs_fresh(
    timeout_s: float = 15.0, nice: int = 0, stopping: threading.Event | None = None
) -> list[InputDevice]:
    """PortAudio's inputs as a fresh process sees them.

    Within one process the list never changes while a stream is open, and listing means that PortAudio opens
    every device and sound server: what hangs or crashes there must not take a running recording along.
    nice: how far that process stands back. Raises MissingDependency (sounddevice or the library is absent),
    DeviceError (PortAudio hangs or crashes, or `stopping` was set meanwhile).
    """
    deadline = time.monotonic() + timeout_s
    pipes: Any = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", _LIST_INPUTS, str(nice)], text=True, **pipes) as process:
        while True:
            try:
                output, errors = process.communicate(timeout=0.1)
                break
            except subprocess.TimeoutExpired:
                stopped = stopping is not None and stopping.is_set()
                if not stopped and time.monotonic() < deadline:
                    continue
            process.kill()
            process.communicate()
            raise DeviceError(
                f"PortAudio did not list its devices within {timeout_s:g} s: a device or the sound server"
                " hangs. Unplug the microphone and plug it in again, or restart the sound server."
            )
    if process.returncode:
        last = (errors.strip().splitlines() or ["no message"])[-1]
        raise DeviceError(f"PortAudio cannot list its devices: {last}")
    found = json.loads(output.rsplit("\n", 2)[-2])
    if isinstance(found, dict):
        raise missing_portaudio(found["missing"], found["error"])
    return [InputDevice(*fields) for fields in found]


def missing_portaudio(what: str, error: object) -> MissingDependency:
    """The error for a machine without the sounddevice "package" or the PortAudio "library"."""
    if what == "package":
        return MissingDependency(f"the Python package sounddevice is not installed ({error})")
    return MissingDependency(
        f"the PortAudio library is missing: sudo apt-get install libportaudio2 ({error})"
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


def open_error(device: InputDevice, rate_hz: int, block_ms: float, error: str) -> DeviceError:
    """What to say when a device that exists cannot be opened: PortAudio's words, the value, the remedy."""
    what = device.describe()
    if "sample rate" in error.lower():
        text = f"{what} does not do {rate_hz} Hz (`microphone.rate_hz`): {error}"
        return DeviceError(f"{text}. Its own rate is {device.rate_hz:g} Hz.")
    if "number of channels" in error.lower():
        return DeviceError(f"{what} is not as PortAudio lists it: {error}. Plug it in again.")
    if "buffer" in error.lower() or "latency" in error.lower():
        text = f"{what} cannot work with `microphone.block_ms`: {block_ms:g}: {error}"
        return DeviceError(f"{text}. Try 10.")
    holders = holders_of(device)
    who = f" It is held by {', '.join(holders)}; stop that first." if holders else ""
    return DeviceError(f"{what} cannot be opened: {error}.{who}")


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
