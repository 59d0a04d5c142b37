"""Doctor's look at the disk: kind, room, how long it takes to get data through to the medium."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from capture.disk_room import MIB, check_writable, free_bytes, nearest
from capture.doctor_findings import Finding, Severity
from capture.file_system import FileSystem, file_system_of
from capture.rig import Camera, Rig
from dsp.errors import HearthError
from recordings.terminal import counted

_SYNCS = 5  # seconds of recording that are written and synced; the worst one counts
_SLOW_SYNC_S = 0.5  # no more sound than this may be lost when the power goes
_FEW_MINUTES = 60.0
_FEW_INODES = 1000


@dataclass(frozen=True, slots=True)
class DiskSpeed:
    """mb_per_s: of one long write, synced at its end. syncs_s: of each second's worth of recording, written
    and synced."""

    mb_per_s: float
    syncs_s: tuple[float, ...]

    @property
    def worst_sync_s(self) -> float:
        """The longest of them."""
        return max(self.syncs_s, default=0.0)


@dataclass(frozen=True, slots=True)
class Need:
    """What a rig writes. streams: bytes per second by file. measured: in the test, else by experience."""

    streams: Mapping[str, float]
    measured: bool

    @property
    def bytes_per_s(self) -> float:
        """All files together."""
        return sum(self.streams.values())


def expected_need(rig: Rig) -> Need:
    """By experience: original sound, release form, and pictures. libx264 at quality 20 needs about 0.05
    bytes per pixel of a living room; a camera's own JPEGs about 0.15."""
    mic = rig.microphone
    streams = {"foa_48k": mic.rate_hz * mic.channels * 3.0, "foa_24k": 24000.0 * mic.channels * 4}
    if rig.camera.source != "none":
        streams["video"] = _pictures(rig.camera)
    streams.update({f"video_{camera.name}": _pictures(camera) for camera in rig.more_cameras})
    return Need(streams, measured=False)


def _pictures(camera: Camera) -> float:
    live = camera.source in ("v4l2", "url")
    copied = live and camera.store != "encode" and camera.fourcc in ("MJPG", "JPEG")
    return (0.15 if copied else 0.05) * camera.width_px * camera.height_px * camera.fps


def measure_speed(folder: Path, second_bytes: int, mib: int = 32, limit_s: float = 5.0) -> DiskSpeed:
    """Write a second's worth of recording and sync it, some times over; then `mib` MiB at once.

    It takes no more than an eighth of the free room, and little longer than limit_s. Raises OSError.
    """
    folder = nearest(folder)
    path = folder / f".hearth-speed-{os.getpid()}"
    room = free_bytes(folder) // 8
    data = os.urandom(MIB)
    end = time.monotonic() + limit_s
    syncs: list[float] = []
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        try:
            for _ in range(_SYNCS):
                if syncs and (time.monotonic() > end or room < second_bytes * len(syncs)):
                    break
                begin = time.monotonic()
                _write(fd, data, min(second_bytes, max(room, 4096)))
                os.fsync(fd)
                syncs.append(time.monotonic() - begin)
            begin, written = time.monotonic(), 0
            while written < min(mib * MIB, max(room, 4096)) and (not written or time.monotonic() < end):
                written += _write(fd, data, min(MIB, max(room, 4096)))
            os.fsync(fd)
            took = time.monotonic() - begin
        finally:
            os.close(fd)
    finally:
        path.unlink(missing_ok=True)
    return DiskSpeed(written / 1e6 / max(took, 1e-6), tuple(syncs))


def _write(fd: int, data: bytes, count: int) -> int:
    left = count
    while left > 0:
        left -= os.write(fd, data[:left])
    return count


def look_at_room(rig: Rig, need: Need) -> tuple[list[Finding], dict[str, Any]]:
    """Findings about the kind of disk and its room, in minutes of this rig. Quick, writes almost nothing."""
    folder = Path(rig.storage.folder)
    place = nearest(folder)
    system = file_system_of(place)
    status = os.statvfs(place)
    free = free_bytes(folder)
    minutes = max(0.0, free - rig.storage.min_free_mib * MIB) / need.bytes_per_s / 60
    inodes = status.f_favail if status.f_files else None
    details = {
        "folder": str(folder),
        "folder_exists": folder.exists(),
        "file_system": system.kind,
        "mount_point": system.mount_point,
        "free_bytes": free,
        "free_inodes": inodes,
        "bytes_per_second": round(need.bytes_per_s),
        "bytes_per_second_measured": need.measured,
        "streams": {name: round(value) for name, value in need.streams.items()},
        "minutes": round(minutes, 1),
    }
    found = _kind(system, place, need)
    try:
        check_writable(folder)
    except HearthError as error:
        found.append(Finding("disk", "fault", str(error), _writable_remedy(system, place)))
        return found, details
    how = "measured" if need.measured else "by experience"
    text = (
        f"{free / 2**30:.1f} GiB free for {folder}: {_duration(minutes)} of this rig"
        f" ({need.bytes_per_s * 60 / 1e6:.0f} MB per minute, {how})"
    )
    too_little = free < rig.storage.min_free_mib * MIB
    if too_little:
        text += f"; recording starts with at least {rig.storage.min_free_mib} MiB (`storage.min_free_mib`)"
    severity: Severity = "fault" if too_little else "warning" if minutes < _FEW_MINUTES else "ok"
    do = (
        ""
        if severity == "ok"
        else f"free some room on {system.mount_point or place}, or set another `storage.folder`"
    )
    found.append(Finding("disk", severity, text, do))
    if inodes is not None and inodes < _FEW_INODES:
        text = f"{system.mount_point}: room for {inodes} more files only (inodes)"
        found.append(Finding("disk", "fault" if inodes < 50 else "warning", text, "remove small files there"))
    return found, details


def _writable_remedy(system: FileSystem, place: Path) -> str:
    if system.is_read_only:
        return (
            f"mount {system.mount_point} writable (a card may have its lock on, a damaged disk is mounted"
            " read-only: look into `dmesg`), or set another `storage.folder`"
        )
    return f"make {place} writable for this user, or set another `storage.folder`"


def _kind(system: FileSystem, place: Path, need: Need) -> list[Finding]:
    found = []
    if system.is_memory:
        text = f"{place} is in memory ({system.kind}): what is recorded there is gone at power off"
        found.append(Finding("disk", "warning", text, "set `storage.folder` to a folder on a disk"))
    if system.is_network:
        text = f"{place} is on the network ({system.kind}): a break of the network ends the recording"
        found.append(Finding("disk", "warning", text, "record to a disk of this computer, copy afterwards"))
    if system.has_no_journal:
        text = f"{place} is {system.kind}: no journal, so a pulled plug can damage it as a whole"
        limit = system.largest_file
        longest = {name: rate for name, rate in need.streams.items() if name != "foa_48k"}
        if limit is not None and longest:
            name = max(longest, key=lambda key: longest[key])
            text += f"; no file beyond 4 GiB: {name} ends after {_duration(limit / longest[name] / 60)}"
        found.append(Finding("disk", "warning", text, "use a disk with ext4, or keep takes short"))
    if system.has_quota:
        text = f"{system.mount_point} has quotas: this user may have less room than the disk"
        found.append(Finding("disk", "warning", text, "look at `quota -s`"))
    return found or [Finding("disk", "ok", f"{place}: {system.kind}")]


def look_at_speed(speed: DiskSpeed, need: Need) -> tuple[list[Finding], dict[str, Any]]:
    """Findings about a measured speed."""
    needed = need.bytes_per_s / 1e6
    worst = speed.worst_sync_s
    text = (
        f"{speed.mb_per_s:.0f} MB/s; a second of recording is on the medium after at most"
        f" {worst * 1e3:.0f} ms; this rig needs {needed:.1f} MB/s"
    )
    slow, late = speed.mb_per_s < 3 * needed, worst > _SLOW_SYNC_S
    severity: Severity = "fault" if speed.mb_per_s < needed else "warning" if slow or late else "ok"
    do = (
        ""
        if severity == "ok"
        else "record to a faster disk (an SSD instead of a card or stick), or set fewer fps"
    )
    details = {
        "write_mb_per_second": round(speed.mb_per_s, 1),
        "worst_sync_ms": round(worst * 1e3, 1),
        "sync_ms": [round(value * 1e3, 1) for value in speed.syncs_s],
    }
    return [Finding("disk", severity, text, do)], details


def _duration(minutes: float) -> str:
    if minutes < 120:
        return counted(round(minutes), "minute")
    return f"{minutes / 60:.0f} hours" if minutes < 72 * 60 else f"{minutes / 1440:.0f} days"
