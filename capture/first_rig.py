"""A first rig.yaml from the devices found, with every key commented."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from capture.camera import camera_devices
from capture.portaudio_devices import H3VR_MENU, InputDevice
from capture.rig import DEFAULT_RIG, parse_rig
from dsp.errors import HearthError, InputError

# Names that ALSA and sound servers give to themselves rather than to a microphone.
_NOT_A_MICROPHONE = ("default", "sysdefault", "pulse", "pipewire", "jack", "front", "dmix", "dsnoop", "null")

_HEAD = """# The rig: microphone, camera, room, storage, endpoints. Units are in the names of the keys;
# a misspelt key is an error. `hearth doctor` compares this file with the devices.
hearth_rig: 1
name: rig
"""

_ROOM = """
# The room is a box: origin in a floor corner, x and y along the walls, z up, metres. Measure yours.
room:
  name: living_room
  size_m: [5.2, 4.1, 2.7]
  # The devices that a request can mean: id, type, the name that people say, where it stands.
  devices:
    - {id: living_room_on_off_light_1, type: on_off_light, name: floor lamp, position_m: [0.5, 2.6, 1.5]}
    - {id: living_room_fan_1, type: fan, name: standing fan, position_m: [0.6, 1.5, 1.0]}
  people:
    - {id: alex, name: Alex}
storage:
  folder: data  # where episodes go
  segment_mib: 1900  # WAV files are continued in a new one below this size
  min_free_mib: 500  # recording does not start with less room
endpoints:  # ZeroMQ addresses of the live stream; 0.0.0.0 instead of 127.0.0.1 opens them to the network
  stream: tcp://127.0.0.1:5771
  commands: tcp://127.0.0.1:5772
"""


@dataclass(frozen=True, slots=True)
class FirstRig:
    """The text, what was found and chosen in plain words, and the choice as plain values."""

    text: str
    notes: tuple[str, ...]
    summary: dict[str, Any]


def write_first_rig(path: Path, *, force: bool = False) -> FirstRig:
    """Write rig.yaml. Raises InputError when the file exists (without `force`) or cannot be written."""
    if path.exists() and not force:
        raise InputError(f"{path} exists; `--force` replaces it")
    first = first_rig(*_find())
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(first.text, encoding="utf-8")
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error}") from None
    return first


def _find() -> tuple[list[InputDevice], list[tuple[int, str]], str]:
    from capture.microphone import input_devices

    try:
        return input_devices(), camera_devices(), ""
    except HearthError as error:
        return [], camera_devices(), str(error)


def first_rig(microphones: list[InputDevice], cameras: list[tuple[int, str]], problem: str = "") -> FirstRig:
    """The rig for what was found. Without a four-channel microphone it is the virtual room; notes say so."""
    notes: list[str] = [problem] if problem else []
    real = [d for d in microphones if _stem(d.name) not in _NOT_A_MICROPHONE]
    four = [d for d in real if d.channels >= 4]
    four.sort(key=lambda d: ("h3-vr" not in d.name.lower(), not d.is_hardware, d.index))
    for device in real:
        if "h3-vr" in device.name.lower() and device.channels < 4:
            notes.append(f"{device.describe()}: {H3VR_MENU}")
    if not four:
        names = "; ".join(d.describe() for d in real) or "none"
        notes.append(
            f"no microphone with four channels found (inputs: {names}): this rig is the virtual room."
            " Plug one in and run `hearth init --force`."
        )
        text = DEFAULT_RIG.read_text(encoding="utf-8")
        summary: dict[str, Any] = {"microphone": "virtual", "camera": "virtual"}
    else:
        device = four[0]
        name = "H3-VR" if "h3-vr" in device.name.lower() else _stem(device.name)
        notes.append(f"microphone: {device.describe()}")
        if "h3-vr" not in device.name.lower():
            notes.append("is it an ambisonic microphone in AmbiX order? If not, change microphone.format.")
        notes.append(f"camera: /dev/video{cameras[0][0]} ({cameras[0][1]})" if cameras else "no camera found")
        text = _HEAD + _microphone(name) + _camera(cameras) + _ROOM
        summary = {"microphone": name, "camera": f"v4l2 {cameras[0][0]}" if cameras else "none"}
    parse_rig(text, "the first rig.yaml")  # what we write must be what we read
    return FirstRig(text, tuple(notes), summary)


def _stem(name: str) -> str:
    """The card's part of an ALSA name: `H3-VR: USB Audio (hw:2,0)` -> `H3-VR`."""
    return name.split(":")[0].split("(")[0].strip()


def _microphone(name: str) -> str:
    quoted = name.replace("\\", "\\\\").replace('"', '\\"')
    return f"""microphone:
  source: sounddevice  # virtual | sounddevice | pyaudio | file
  device: "{quoted}"  # a part of its name
  rate_hz: 48000
  channels: 4
  format: ambix  # what the recorder's Ambisonic Mode says: ambix | fuma | n3d | a | a2
  block_ms: 10
  position_m: [2.6, 0.4, 1.2]  # of the capsules, in the room
  yaw_deg: 90  # where its front points: 0 along x, 90 along y
"""


def _camera(cameras: list[tuple[int, str]]) -> str:
    if not cameras:
        return "camera:\n  source: none  # v4l2 (with device: 0) | url (with url: rtsp://...) | file | none\n"
    return f"""camera:
  source: v4l2  # virtual | v4l2 | url | file | none
  device: {cameras[0][0]}  # /dev/video{cameras[0][0]}: {cameras[0][1]}
  width_px: 1280
  height_px: 720
  fps: 30
  fourcc: MJPG  # uncompressed formats are slower over USB
  hfov_deg: 90  # horizontal angle of view; a calibration replaces it
  position_m: [0.0, 0.0, 0.08]  # of the camera, from the microphone: x forward, y left, z up
  yaw_deg: 0
  pitch_deg: 0
"""
