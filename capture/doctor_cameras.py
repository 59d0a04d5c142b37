"""Doctor's look at cameras: every V4L2 device, what it offers, who holds it, whether the user may open it."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

from capture.camera_devices import camera_devices, find_camera, stable_name
from capture.doctor_findings import Finding
from capture.doctor_inputs import permission_remedy
from capture.portaudio_devices import holders_of_file
from capture.rig import Camera, Rig
from capture.v4l2_modes import CameraMode, CameraOffer, camera_offer
from dsp.errors import HearthError

_JPEG = ("MJPG", "JPEG")


def rig_cameras(rig: Rig) -> dict[str, Camera]:
    """The rig's cameras by the topic under which they are spoken of."""
    found: dict[str, Camera] = {} if rig.camera.source == "none" else {"camera": rig.camera}
    return {**found, **{f"camera {further.name}": further for further in rig.more_cameras}}


def look_at_cameras(rig: Rig | None) -> tuple[list[Finding], dict[str, Any]]:
    """Findings and details ("cameras") about every V4L2 device. Network cameras are known when opened."""
    found: list[Finding] = []
    listed: list[dict[str, Any]] = []
    offers: dict[str, CameraOffer] = {}
    for number, name in camera_devices():
        path = f"/dev/video{number}"
        offer, problem = _offer(path)
        if offer is not None:
            offers[path] = offer
        holders = holders_of_file(path)
        listed.append(_camera_dict(path, name, offer, problem, holders))
        if offer is None or offer.gives_pictures:
            found.append(_finding(path, name, offer, problem, holders))
    if not listed:
        found.append(Finding("camera", "ok", "no camera is plugged in (V4L2)"))
    if rig is None:
        return found, {"cameras": listed}
    if rig.camera.source == "none":
        found.append(Finding("camera", "ok", "none in the rig"))
    for topic, camera in rig_cameras(rig).items():
        if camera.source == "virtual":
            found.append(Finding(topic, "ok", "the virtual room"))
        elif camera.source == "v4l2":
            found += _meant(topic, camera, offers)
    return found, {"cameras": listed}


def _offer(path: str) -> tuple[CameraOffer | None, str]:
    try:
        return camera_offer(path), ""
    except OSError as error:
        return None, "no V4L2 device" if error.errno == errno.ENOTTY else error.strerror or str(error)


def _finding(path: str, name: str, offer: CameraOffer | None, problem: str, holders: list[str]) -> Finding:
    text = f"{path} {name!r}"
    if offer is None:
        if not os.access(path, os.R_OK | os.W_OK):
            return Finding("camera", "warning", f"{text}: no permission", permission_remedy("video"))
        return Finding("camera", "warning", f"{text}: does not answer ({problem})", "plug it in again")
    text += f" ({offer.driver}): {modes_text(offer.modes)}"
    if holders:
        text += f"; in use by {', '.join(holders)}"
    return Finding("camera", "ok", text)


def modes_text(modes: tuple[CameraMode, ...]) -> str:
    """The largest and fastest per format, in words."""
    parts = []
    for fourcc in dict.fromkeys(mode.fourcc for mode in modes):
        own = [mode for mode in modes if mode.fourcc == fourcc]
        best = max(own, key=lambda m: (m.width_px * m.height_px, max(m.fps, default=0.0)))
        fast = max(own, key=lambda m: (max(m.fps, default=0.0), m.width_px * m.height_px))
        shown = dict.fromkeys([_mode_text(best), _mode_text(fast)])
        parts.append(f"{fourcc} {' or '.join(shown)}".strip())
    return ", ".join(parts) or "tells no formats"


def _mode_text(mode: CameraMode) -> str:
    if not mode.width_px:
        return ""
    rate = f"@{mode.fps[0]:g}" if mode.fps else ""
    return f"{'up to ' if mode.ranged else ''}{mode.width_px}x{mode.height_px}{rate}"


def _meant(topic: str, camera: Camera, offers: dict[str, CameraOffer]) -> list[Finding]:
    """The V4L2 camera that the rig means: is it there, ours to open, and does it offer what is asked?"""
    try:
        path = find_camera(camera.device)
    except HearthError as error:
        return [Finding(topic, "fault", str(error), "plug it in, or correct `camera.device`")]
    if not os.access(path, os.R_OK | os.W_OK):
        text = f"the rig means {path}: this user may not open it"
        return [Finding(topic, "fault", text, permission_remedy("video"))]
    offer = offers.get(path)
    if offer is None:
        return []
    if not offer.gives_pictures:
        text = f"the rig means {path}, which gives no pictures (metadata only)"
        return [Finding(topic, "fault", text, "set `camera.device` to a part of the camera's name")]
    own = [m for m in offer.modes if m.fourcc == camera.fourcc]
    if offer.modes and not own:
        text = f"{path} does not offer `fourcc: {camera.fourcc}`, but {', '.join(offer.formats)}"
        return [Finding(topic, "warning", text, f"set `camera.fourcc` to {offer.formats[0]}")]
    size = (camera.width_px, camera.height_px)
    told = [m for m in own if m.width_px and not m.ranged]
    if told and size not in [(m.width_px, m.height_px) for m in told]:
        sizes = ", ".join(dict.fromkeys(f"{m.width_px}x{m.height_px}" for m in told))
        text = f"{path} does not offer {size[0]}x{size[1]} in {camera.fourcc}, but {sizes}"
        return [
            Finding(topic, "warning", text, "set `camera.width_px` and `camera.height_px` to one of these")
        ]
    best = max((m.fps[0] for m in told if (m.width_px, m.height_px) == size and m.fps), default=None)
    if best is not None and best < 0.98 * camera.fps:
        text = f"{path} offers at most {best:g} fps at {size[0]}x{size[1]} in {camera.fourcc}"
        return [Finding(topic, "warning", text, f"set `camera.fps` to {best:g}, or a smaller size")]
    return []


def _camera_dict(
    path: str, name: str, offer: CameraOffer | None, problem: str, holders: list[str]
) -> dict[str, Any]:
    return {
        "path": path,
        "by_id": stable_name(path),
        "name": name,
        "driver": offer.driver if offer else None,
        "bus": offer.bus if offer else None,
        "gives_pictures": offer.gives_pictures if offer else None,
        "may_open": os.access(path, os.R_OK | os.W_OK),
        "problem": problem or None,
        "held_by": holders,
        "jpeg_undecoded": bool(offer and set(offer.formats) & set(_JPEG)),
        "modes": [
            {
                "fourcc": mode.fourcc,
                "width_px": mode.width_px,
                "height_px": mode.height_px,
                "fps": list(mode.fps),
            }
            for mode in (offer.modes if offer else ())
        ],
    }


def unseen_holders() -> bool:
    """Whether other users' programs run into whose open files this user may not look."""
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            try:
                os.listdir(process / "fd")
            except PermissionError:
                return True
            except OSError:
                continue
    return False
