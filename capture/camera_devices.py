"""V4L2 cameras of this machine: listed, and found by number, name or path."""

from __future__ import annotations

import os
from pathlib import Path

from capture.portaudio_devices import holders_of_file
from capture.v4l2_ioctl import CAP_VIDEO_CAPTURE, CAP_VIDEO_CAPTURE_MPLANE, capability, device_caps
from dsp.errors import DeviceError

_BY_ID = Path("/dev/v4l/by-id")


def camera_devices() -> list[tuple[int, str]]:
    """V4L2 devices as (number, name). A camera often has a second device for metadata only."""
    found = []
    for device in Path("/dev").glob("video*"):
        if not device.name[5:].isdigit():
            continue
        number = int(device.name[5:])
        try:
            name = Path(f"/sys/class/video4linux/{device.name}/name").read_text().strip()
        except OSError:
            name = "unknown"
        found.append((number, name))
    return sorted(found)


def list_cameras() -> str:
    """A sentence that names every V4L2 device."""
    found = camera_devices()
    if not found:
        return "There is no camera at all (/dev/video*)."
    return "Cameras here: " + "; ".join(f"{number} = {name}" for number, name in found) + "."


def find_camera(device: int | str) -> str:
    """The path /dev/videoN of a camera given by number, by path (/dev/videoN, /dev/v4l/by-id/...), or by a
    part of its name or of its by-id name (case does not matter).

    Raises DeviceError: nothing matches, or several different cameras do.
    """
    if isinstance(device, int) or device.isdigit():
        path = f"/dev/video{device}"
        if not Path(path).exists():
            raise DeviceError(f"{path} does not exist (`camera.device`). {list_cameras()}")
        return path
    if device.startswith("/"):
        if not Path(device).exists():
            raise DeviceError(f"{device} does not exist (`camera.device`). {list_cameras()}")
        return os.path.realpath(device)
    wanted = device.lower()
    paths = [f"/dev/video{number}" for number, name in camera_devices() if wanted in name.lower()]
    paths += [os.path.realpath(link) for link in by_id_links() if wanted in link.name.lower()]
    cameras: dict[str, str] = {}  # by the place where it is plugged in: a camera may have several nodes
    for path in sorted(set(paths), key=_number):
        place = _capture_place(path)
        if place is not None:
            cameras.setdefault(place, path)
    if not cameras:
        raise DeviceError(f"no camera whose name contains {device!r} (`camera.device`). {list_cameras()}")
    if len(cameras) > 1:
        links = ", ".join(str(link) for link in by_id_links())
        raise DeviceError(
            f"{device!r} names {len(cameras)} cameras: {', '.join(cameras.values())} (`camera.device`)."
            f" Give more of the name, or a path: {links or 'those above'}."
        )
    return next(iter(cameras.values()))


def by_id_links() -> list[Path]:
    """The names that udev gives to cameras by maker, model and serial number; empty without udev."""
    return sorted(_BY_ID.iterdir()) if _BY_ID.is_dir() else []


def stable_name(path: str) -> str | None:
    """The by-id path of /dev/videoN: it stays when the camera comes back under another number."""
    return next((str(link) for link in by_id_links() if os.path.realpath(link) == path), None)


def why_not_open(path: str) -> str:
    """What to say when a V4L2 device that exists cannot be opened or gives no picture."""
    if not os.access(path, os.R_OK | os.W_OK):
        return f"{path}: no permission; add the user to the group `video`"
    who = holders_of_file(path)
    held = f" It is held by {', '.join(who)}; stop that first." if who else ""
    return f"{path}: cannot be opened as a camera.{held} {list_cameras()}"


def _number(path: str) -> int:
    digits = "".join(c for c in path if c.isdigit())
    return int(digits) if digits else 0


def _capture_place(path: str) -> str | None:
    """Where the camera is plugged in, if this node gives pictures; None if it does not. A node that may not
    be opened counts as one that does: the message comes when it is used."""
    try:
        fd = os.open(path, os.O_RDWR | os.O_NONBLOCK)
    except OSError:
        return path
    try:
        answer = capability(fd)
    except OSError:
        return None
    finally:
        os.close(fd)
    if not device_caps(answer) & (CAP_VIDEO_CAPTURE | CAP_VIDEO_CAPTURE_MPLANE):
        return None
    return answer.bus_info.decode(errors="replace") or path
