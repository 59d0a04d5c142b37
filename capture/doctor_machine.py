"""Doctor's look at the computer: system, clocks, processor, memory, encoders."""

from __future__ import annotations

import os
import platform
import sys
from importlib import metadata
from typing import Any

from capture import machine
from capture.doctor_findings import Finding, Severity
from capture.rig import Rig
from capture.system_clock import clock_source, is_slow_source, monotonic_step_ns, utc_state
from dsp.errors import HearthError

_PACKAGES = ("numpy", "scipy", "numba", "av", "opencv-python-headless", "sounddevice", "PyAudio", "pyzmq")
_HOT_C = 80.0
_LITTLE_MEMORY = 500 << 20


def look_at_system() -> tuple[list[Finding], dict[str, Any]]:
    """Python, machine, packages."""
    versions = {name: _version(name) for name in _PACKAGES}
    details = {
        "python": platform.python_version(),
        "machine": platform.machine(),
        "os": f"{platform.system()} {platform.release()}",
        "hearth": _version("hearth-home"),
        "packages": {name: version for name, version in versions.items() if version is not None},
    }
    text = f"Python {details['python']}, {details['machine']}, {details['os']}"
    if (3, 10) <= sys.version_info[:2] <= (3, 12):
        return [Finding("system", "ok", text)], details
    return [
        Finding("system", "warning", f"{text}; tested on 3.10 to 3.12", "use Python 3.10 to 3.12")
    ], details


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def look_at_clock() -> tuple[list[Finding], dict[str, Any]]:
    """The computer's clocks, without any device."""
    utc = utc_state()
    source, available = clock_source()
    details = {
        "utc_synchronised": utc.synchronised,
        "utc_correction_ppm": None if utc.correction_ppm is None else round(utc.correction_ppm, 2),
        "utc_max_error_ms": utc.max_error_ms,
        "clocksource": source,
        "monotonic_step_ns": monotonic_step_ns(),
    }
    found = []
    if utc.synchronised == "yes":
        found.append(Finding("clock", "ok", "UTC is kept by a time server"))
    elif utc.synchronised == "no":
        text = "UTC is not kept by a time server: the date of recordings may be wrong (nothing else is)"
        do = "connect to the internet once, or compare the clock with your phone (`timedatectl`)"
        found.append(Finding("clock", "warning", text, do))
    else:
        found.append(
            Finding("clock", "ok", "whether a time server keeps UTC: unknown (the kernel does not tell)")
        )
    if source is not None and is_slow_source(source):
        better = ", ".join(name for name in available if not is_slow_source(name))
        text = f"time is counted by {source}, which is slow to read and coarse"
        do = (
            f"choose {better} (kernel option clocksource=)" if better else "look into `dmesg | grep -i clock`"
        )
        found.append(Finding("clock", "warning", text, do))
    elif source is not None:
        found.append(Finding("clock", "ok", f"time is counted by {source}"))
    return found, details


def look_at_processor() -> tuple[list[Finding], dict[str, Any]]:
    """Cores, memory, heat and power, before anything is recorded."""
    count, load = machine.cores(), os.getloadavg()[0]
    free, heat = machine.memory_free_bytes(), machine.temperature_c()
    governors, battery = machine.governors(), machine.on_battery()
    details = {
        "cores": count,
        "load": round(load, 2),
        "memory_free_bytes": free,
        "temperature_c": None if heat is None else round(heat[0], 1),
        "governors": [f"{driver}: {governor}" for driver, governor in governors],
        "battery_percent": battery,
    }
    parts = [f"{count} core{'s' if count != 1 else ''}, load {load:.1f}"]
    if free is not None:
        parts.append(f"{free / 2**30:.1f} GiB memory free")
    if heat is not None:
        parts.append(f"{heat[0]:.0f} °C ({heat[1]})")
    found = [Finding("processor", "ok", ", ".join(parts))]

    def warn(text: str, do: str, severity: Severity = "warning") -> None:
        found.append(Finding("processor", severity, text, do))

    if count < 2:
        warn("one core only; live processing wants two", "record without `hearth live`")
    if free is not None and free < _LITTLE_MEMORY:
        warn(f"only {free >> 20} MiB of memory left", "close other programs")
    if heat is not None and heat[0] >= _HOT_C:
        warn(f"{heat[0]:.0f} °C ({heat[1]}): it may slow itself down", "give it air, out of the sun")
    for driver, governor in governors:
        # With these drivers "powersave" still speeds up under load.
        if governor == "powersave" and driver not in ("intel_pstate", "amd-pstate-epp"):
            warn(
                "the processor is held at its lowest frequency (governor powersave)",
                "`echo performance | sudo tee /sys/devices/system/cpu/cpufreq/policy*/scaling_governor`",
            )
    if battery is not None:
        warn(f"runs from its battery ({battery} % left)", "plug the computer in")
    return found, details


def look_at_encoders(rig: Rig | None) -> tuple[list[Finding], dict[str, Any]]:
    """Which encoders PyAV has; the first that works is used for pictures that are not kept as JPEG."""
    details: dict[str, Any] = {"present": [], "would_use": None}
    needed = rig is not None and rig.camera.source != "none"
    try:
        from recordings.video_write import probe_encoders

        found = probe_encoders()
    except (ImportError, HearthError) as error:
        text = f"PyAV does not work: {error}"
        do = "install Hearth again (`make setup`)"
        return [Finding("encoder", "fault" if needed else "warning", text, do)], details
    usable = [name for name, there in found.items() if there]
    details["present"] = usable
    if not usable:
        text = f"none of {', '.join(found)} is in this FFmpeg"
        return [Finding("encoder", "fault" if needed else "warning", text, "install another PyAV")], details
    details["would_use"] = usable[0]
    others = f"; also here: {', '.join(usable[1:])}" if usable[1:] else ""
    severity: Severity = "ok" if usable[0] == "libx264" else "warning"
    text = f"{usable[0]} would be used{others}"
    do = "" if severity == "ok" else "install a PyAV with libx264: files become several times smaller"
    return [Finding("encoder", severity, text, do)], details
