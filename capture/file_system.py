"""On what kind of file system a folder lies, from the kernel's list of mounts."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

NETWORK = ("nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "afs", "ceph", "glusterfs", "davfs", "sshfs")
MEMORY = ("tmpfs", "ramfs")
FAT = ("vfat", "msdos")
_EXFAT = ("exfat",)


@dataclass(frozen=True, slots=True)
class FileSystem:
    """kind: as the kernel names it ("ext4", "vfat", "fuse.sshfs"); "unknown" where that cannot be told.
    options: of the mount and of the file system."""

    kind: str
    mount_point: str
    source: str
    options: tuple[str, ...]

    @property
    def is_network(self) -> bool:
        """Another computer holds the data."""
        return self.kind in NETWORK or self.kind.removeprefix("fuse.") in NETWORK

    @property
    def is_memory(self) -> bool:
        """It is gone when the computer is switched off."""
        return self.kind in MEMORY

    @property
    def largest_file(self) -> int | None:
        """Bytes that one file can have, where that is little: FAT ends at 4 GiB."""
        return (1 << 32) - 1 if self.kind in FAT else None

    @property
    def has_no_journal(self) -> bool:
        """A pulled plug can take the folder's structure along."""
        return self.kind in FAT or self.kind in _EXFAT

    @property
    def is_read_only(self) -> bool:
        """Mounted read-only."""
        return "ro" in self.options

    @property
    def has_quota(self) -> bool:
        """Mounted so that users may have a limit."""
        return any(re.match(r"^(usr|grp|prj)?quota|^(u|g|p)quota", option) for option in self.options)


def file_system_of(folder: Path, mounts: Path = Path("/proc/self/mountinfo")) -> FileSystem:
    """The file system of an existing folder. mounts: in the kernel's form, proc_pid_mountinfo(5)."""
    try:
        lines = mounts.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return FileSystem("unknown", "", "", ())
    place = os.path.realpath(folder)
    best = FileSystem("unknown", "", "", ())
    for line in lines:
        before, _, after = line.partition(" - ")
        fields, kind = before.split(" "), after.split(" ")
        if len(fields) < 6 or len(kind) < 3:
            continue
        point = _unescaped(fields[4])
        inside = point == "/" or place == point or place.startswith(f"{point}/")
        if inside and len(point) >= len(best.mount_point):  # of equal ones the last is on top
            options = (*fields[5].split(","), *kind[2].split(","))
            best = FileSystem(kind[0], point, _unescaped(kind[1]), options)
    return best


def _unescaped(text: str) -> str:
    """The kernel writes blanks and backslashes as octal numbers."""
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), text)
