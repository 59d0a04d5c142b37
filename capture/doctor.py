"""What this machine and rig can do, and what would go wrong: devices, disk, processor, encoders."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from capture.camera import camera_devices
from capture.disk_room import free_bytes
from capture.portaudio_devices import InputDevice, holders_of
from capture.rig import Rig
from dsp.errors import DeviceError, HearthError
from recordings.terminal import counted

_MIB = 1 << 20
_CODE = str(Path(__file__).resolve().parent.parent)


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing looked at. severity "fault": recording with this rig will not work."""

    topic: str
    severity: Literal["ok", "warning", "fault"]
    text: str
    value: Any = None


@dataclass(frozen=True, slots=True)
class DoctorReport:
    """All findings and one sentence that sums them up."""

    findings: tuple[Finding, ...]
    verdict: str

    @property
    def faults(self) -> tuple[Finding, ...]:
        """What makes recording impossible."""
        return tuple(f for f in self.findings if f.severity == "fault")

    def to_dict(self) -> dict[str, Any]:
        """Plain values for `--json`."""
        return {
            "ok": not self.faults,
            "verdict": self.verdict,
            "findings": [asdict(f) for f in self.findings],
        }

    def lines(self) -> list[str]:
        """For people: one line per finding, the verdict last."""
        sign = {"ok": "ok     ", "warning": "warning", "fault": "FAULT  "}
        return [f"{sign[f.severity]} {f.topic}: {f.text}" for f in self.findings] + [self.verdict]


def examine(rig: Rig | None, rig_problem: str | None = None) -> DoctorReport:
    """Look at everything; no take is made. rig None with `rig_problem`: the rig file itself is at fault."""
    findings = [_system()]
    if rig is None:
        findings.append(Finding("rig", "fault", rig_problem or "no rig file"))
    else:
        findings.append(
            Finding(
                "rig", "ok", f"{rig.name!r}: microphone {rig.microphone.source}, camera {rig.camera.source}"
            )
        )
    findings += _microphones(rig)
    findings += _cameras(rig)
    findings += _disk(rig)
    findings.append(_processor())
    findings.append(_encoders())
    return DoctorReport(tuple(findings), _verdict(findings, rig))


def _verdict(findings: list[Finding], rig: Rig | None) -> str:
    faults = [f for f in findings if f.severity == "fault"]
    warnings = [f for f in findings if f.severity == "warning"]
    if faults:
        return f"verdict: not ready to record. First: {faults[0].topic}: {faults[0].text}"
    what = "the virtual room" if rig is not None and rig.microphone.source == "virtual" else "this rig"
    if warnings:
        topics = ", ".join(dict.fromkeys(f.topic for f in warnings))
        return f"verdict: ready to record with {what}; look at: {topics}"
    return f"verdict: ready to record with {what}"


def _system() -> Finding:
    text = (
        f"Python {platform.python_version()}, {platform.machine()}, {platform.system()} {platform.release()}"
    )
    good = (3, 10) <= sys.version_info[:2] <= (3, 12)
    return Finding("system", "ok" if good else "warning", text + ("" if good else "; tested on 3.10 to 3.12"))


def list_inputs_fresh(timeout_s: float = 15.0) -> list[InputDevice]:
    """PortAudio's inputs as a fresh process sees them: within one process the list never changes.

    Raises MissingDependency as `input_devices`, DeviceError when PortAudio hangs or crashes.
    """
    from capture.microphone import load_sounddevice

    load_sounddevice()  # a missing library is said here, in words
    code = (
        "import json, sys; from dataclasses import asdict; from capture.microphone import input_devices;"
        "sys.stdout.write('\\n' + json.dumps([asdict(d) for d in input_devices()]))"
    )
    path = os.pathsep.join(filter(None, [_CODE, os.environ.get("PYTHONPATH", "")]))
    try:
        done = subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            timeout=timeout_s,
            env={**os.environ, "PYTHONPATH": path},
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise DeviceError(f"PortAudio did not list its devices within {timeout_s:g} s") from None
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise DeviceError(f"PortAudio cannot list its devices: {last}")
    return [InputDevice(**d) for d in json.loads(done.stdout.rsplit("\n", 1)[-1])]


def _microphones(rig: Rig | None) -> list[Finding]:
    from capture.portaudio_devices import choose_device, list_devices

    wanted = rig is not None and rig.microphone.source in ("sounddevice", "pyaudio")
    bad: Literal["fault", "warning"] = "fault" if wanted else "warning"
    try:
        devices = list_inputs_fresh()
    except HearthError as error:
        return [Finding("PortAudio", bad, str(error))]
    found = [
        Finding("PortAudio", "ok", counted(len(devices), "input"))
        if devices
        else Finding("PortAudio", "fault" if wanted else "ok", _no_input(wanted, list_devices(devices)))
    ]
    for device in devices:
        held = holders_of(device)
        by = f", in use by {', '.join(held)}" if held else ""
        text = device.describe() + ("" if device.is_hardware else ", not a hw: device") + by
        found.append(Finding("input", "ok", text, asdict(device)))
    if rig is None:
        return found
    mic = rig.microphone
    if wanted:
        try:
            chosen = choose_device(devices, mic.device or "", mic.channels)
        except HearthError as error:
            return [*found, Finding("microphone", "fault", str(error))]
        if mic.source == "pyaudio":
            from capture.pyaudio_microphone import load_pyaudio

            try:
                load_pyaudio()
            except HearthError as error:
                found.append(Finding("microphone", "fault", str(error)))
        if holders := holders_of(chosen):
            found.append(
                Finding("microphone", "fault", f"{chosen.describe()} is held by {', '.join(holders)}")
            )
        elif chosen.is_hardware or chosen.host_api != "ALSA":
            found.append(Finding("microphone", "ok", f"the rig means {chosen.describe()}"))
        else:
            text = (
                f"the rig means {chosen.describe()}: a sound server may remix or copy channels;"
                " the hw: device is safer"
            )
            found.append(Finding("microphone", "warning", text))
    elif mic.source == "file":
        found.append(_file("microphone", mic.file))
    else:
        found.append(Finding("microphone", "ok", "the virtual room: no hardware is used"))
    return found


def _no_input(wanted: bool, why: str) -> str:
    """PortAudio itself works; without an input it matters only to a rig that wants one."""
    return why if wanted else "works; no sound input is plugged in or may be opened, and this rig needs none"


def _cameras(rig: Rig | None) -> list[Finding]:
    found = [
        Finding("camera device", "ok", f"/dev/video{number}: {name}", number)
        for number, name in camera_devices()
    ]
    if rig is None or rig.camera.source == "none":
        return [*found, Finding("camera", "ok", "none in the rig")] if rig is not None else found
    cam = rig.camera
    if cam.source == "virtual":
        return [*found, Finding("camera", "ok", "the virtual room")]
    if cam.source == "file":
        return [*found, _file("camera", cam.file)]
    from capture.camera import LiveCamera

    camera = LiveCamera(
        cam.device if cam.source == "v4l2" else cam.url or "",
        width_px=cam.width_px,
        height_px=cam.height_px,
        fps=cam.fps,
        fourcc=cam.fourcc,
    )
    try:
        info = camera.open()
    except HearthError as error:
        return [*found, Finding("camera", "fault", str(error))]
    finally:
        camera.close()
    text = (
        f"{info.name}: {info.width_px}x{info.height_px} at {info.fps:g} fps (measured), {info.fourcc or '?'}"
    )
    as_asked = (info.width_px, info.height_px) == (cam.width_px, cam.height_px) and info.fps > 0.8 * cam.fps
    if not as_asked:
        text += f"; asked: {cam.width_px}x{cam.height_px} at {cam.fps:g} fps {cam.fourcc}"
    return [*found, Finding("camera", "ok" if as_asked else "warning", text, asdict(info))]


def _file(topic: str, name: str | None) -> Finding:
    path = Path(name or "")
    if path.is_file():
        return Finding(topic, "ok", f"file {path}, {path.stat().st_size / 1e6:.1f} MB")
    return Finding(topic, "fault", f"{path}: no such file")


def _disk(rig: Rig | None) -> list[Finding]:
    folder = Path(rig.storage.folder if rig is not None else "data")
    minimum = rig.storage.min_free_mib if rig is not None else 500
    free = free_bytes(folder)
    per_second = _bytes_per_second(rig)
    minutes = max(0.0, free - minimum * _MIB) / per_second / 60
    room = Finding(
        "disk room",
        "fault" if free < minimum * _MIB else "warning" if minutes < 60 else "ok",
        f"{free / 2**30:.1f} GiB free for {folder}: about {minutes:.0f} minutes of this rig",
        {"free_bytes": free, "minutes": round(minutes, 1)},
    )
    try:
        speed = disk_speed(folder)
    except OSError as error:
        return [room, Finding("disk speed", "fault", f"{folder}: not writable: {error.strerror}")]
    need = per_second / 1e6
    severity: Literal["ok", "warning", "fault"] = "ok" if speed > 5 * need else "warning"
    text = f"{speed:.0f} MB/s written through to the disk; this rig needs about {need:.1f}"
    return [room, Finding("disk speed", severity, text, round(speed, 1))]


def _bytes_per_second(rig: Rig | None) -> float:
    """Original sound, release form and pictures; the last by experience with x264 at quality 20."""
    if rig is None:
        return 48000 * 4 * 3 + 24000 * 16 + 4e5
    mic, cam = rig.microphone, rig.camera
    pictures = 0.0 if cam.source == "none" else 0.05 * cam.width_px * cam.height_px * cam.fps
    return mic.rate_hz * mic.channels * 3 + 24000 * mic.channels * 4 + pictures


def disk_speed(folder: Path, mib: int = 32) -> float:
    """MB/s of writing `mib` MiB and fsync in `folder` (or its nearest existing parent). Raises OSError."""
    while not folder.exists():
        folder = folder.resolve().parent
    path = folder / f".hearth-speed-{os.getpid()}"
    data = os.urandom(_MIB)
    try:
        with open(path, "wb", buffering=0) as file:
            begin = time.monotonic()
            for _ in range(mib):
                file.write(data)
            os.fsync(file.fileno())
            took = time.monotonic() - begin
    finally:
        path.unlink(missing_ok=True)
    return mib * _MIB / 1e6 / max(took, 1e-6)


def _processor() -> Finding:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    load = os.getloadavg()[0]
    busy = load > 0.8 * cores
    text = f"{cores} cores, load {load:.1f}" + ("; others keep it busy" if busy else "")
    if cores < 2:
        text += "; live processing wants two"
    return Finding(
        "processor", "warning" if busy or cores < 2 else "ok", text, {"cores": cores, "load": load}
    )


def _encoders() -> Finding:
    try:
        from recordings.video_write import probe_encoders

        found = probe_encoders()
    except (ImportError, HearthError) as error:
        return Finding("video encoder", "fault", f"PyAV does not work: {error}")
    usable = [name for name, there in found.items() if there]
    if not usable:
        return Finding("video encoder", "fault", f"none of {', '.join(found)} is in this FFmpeg")
    return Finding("video encoder", "ok", f"{usable[0]}; also {', '.join(usable[1:]) or 'none'}", found)
