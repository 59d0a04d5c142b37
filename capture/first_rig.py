"""A first rig.yaml from the devices found, with every key commented."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from capture.camera_devices import camera_devices
from capture.deadline import within
from capture.portaudio_devices import H3VR_MENU, InputDevice, list_inputs_fresh
from capture.rig import DEFAULT_RIG, parse_rig
from capture.v4l2_modes import CameraMode, camera_offer
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
endpoints:  # ZeroMQ addresses of the live stream; 0.0.0.0 for 127.0.0.1: the network, with `hearth keys`
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


@dataclass(frozen=True, slots=True)
class FoundCamera:
    """A V4L2 device that gives pictures. modes: what it offers; empty when it could not be asked."""

    number: int
    name: str
    modes: tuple[CameraMode, ...] = ()


def find_cameras() -> list[FoundCamera]:
    """The V4L2 devices that give pictures; a node for metadata only is left out."""
    found = []
    for number, name in camera_devices():
        try:
            offer = camera_offer(f"/dev/video{number}")
        except OSError:  # no permission, or busy: `hearth doctor` tells why
            found.append(FoundCamera(number, name))
            continue
        if offer.gives_pictures:
            found.append(FoundCamera(number, name, offer.modes))
    return found


def _find() -> tuple[list[InputDevice], list[FoundCamera], str]:
    cameras = within(10.0, "looking for cameras", find_cameras)
    try:
        return list_inputs_fresh(), cameras, ""
    except HearthError as error:
        return [], cameras, str(error)


def first_rig(microphones: list[InputDevice], cameras: list[FoundCamera], problem: str = "") -> FirstRig:
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
        notes += [f"camera: /dev/video{camera.number} ({camera.name})" for camera in cameras]
        if not cameras:
            notes.append("no camera found")
        text = _HEAD + _microphone(name) + _cameras(cameras) + _ROOM
        summary = {"microphone": name, "camera": f"v4l2 {cameras[0].number}" if cameras else "none"}
    parse_rig(text, "the first rig.yaml")  # what we write must be what we read
    return FirstRig(text, tuple(notes), summary)


def _stem(name: str) -> str:
    """The card's part of an ALSA name: `H3-VR: USB Audio (hw:2,0)` -> `H3-VR`."""
    return name.split(":")[0].split("(")[0].strip()


def _quoted(text: str) -> str:
    """As YAML in double quotes."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _microphone(name: str) -> str:
    return f"""microphone:
  source: sounddevice  # virtual | sounddevice | pyaudio | file
  device: {_quoted(name)}  # a part of its name
  rate_hz: 48000
  channels: 4
  format: ambix  # what the recorder's Ambisonic Mode says: ambix | fuma | n3d | a | a2
  block_ms: 10
  position_m: [2.6, 0.4, 1.2]  # of the capsules, in the room
  yaw_deg: 90  # where its front points: 0 along x, 90 along y
"""


def _cameras(cameras: list[FoundCamera]) -> str:
    if not cameras:
        return "camera:\n  source: none  # v4l2 (with device: 0) | url (with url: rtsp://...) | file | none\n"
    names = [camera.name for camera in cameras]
    text = f"""camera:
  source: v4l2  # virtual | v4l2 | url | file | none
{_picture(cameras[0], names)}  hfov_deg: 90  # horizontal angle of view; a calibration replaces it
  position_m: [0.0, 0.0, 0.08]  # of the camera, from the microphone: x forward, y left, z up
  yaw_deg: 0
  pitch_deg: 0
  store: auto  # copy: the camera's JPEGs as they are | encode: smaller, costs a core | auto
"""
    if len(cameras) > 1:
        text += "more_cameras:  # each becomes a video of its own beside the first\n"
    for number, camera in enumerate(cameras[1:], 2):
        body = _picture(camera, names).replace("\n  ", "\n    ")
        text += f"  - name: camera_{number}\n    source: v4l2\n  {body}"
    return text


def _picture(camera: FoundCamera, names: list[str]) -> str:
    """What to ask of a camera: 1280x720 at 30 fps as JPEG, or what it has instead. A name is better than a
    number, which changes with the order of plugging; but it must mean one camera."""
    unique = sum(camera.name in name for name in names) == 1 and camera.name != "unknown"
    device = _quoted(camera.name) if unique else str(camera.number)
    fourcc, width, height, fps = _best_mode(camera.modes)
    return f"""  device: {device}  # a part of its name, or the number N of /dev/videoN (now {camera.number})
  width_px: {width}
  height_px: {height}
  fps: {fps:g}
  fourcc: {fourcc}  # uncompressed formats are slower over USB
"""


def _best_mode(modes: tuple[CameraMode, ...]) -> tuple[str, int, int, float]:
    fourccs = [mode.fourcc for mode in modes if mode.fourcc.isalnum() and len(mode.fourcc) == 4]
    if not fourccs:
        return "MJPG", 1280, 720, 30.0
    fourcc = "MJPG" if "MJPG" in fourccs else fourccs[0]
    sizes = [mode for mode in modes if mode.fourcc == fourcc and mode.width_px and not mode.ranged]
    if not sizes:
        return fourcc, 1280, 720, 30.0
    best = min(sizes, key=lambda m: (abs(m.width_px * m.height_px - 1280 * 720), -max(m.fps, default=0.0)))
    return fourcc, best.width_px, best.height_px, min(30.0, max(best.fps, default=30.0))
