"""Small disks that tests may fill, break and cut off: a tmpfs, and an ext4 file system in a file."""

from __future__ import annotations

import fcntl
import os
import shutil
import struct
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

_SHUTDOWN, _DISCARD = 0x8004587D, 2  # ioctl EXT4_IOC_SHUTDOWN, with EXT4_GOING_FLAGS_NOLOGFLUSH


def _mount(*arguments: str) -> None:
    done = subprocess.run(["mount", *arguments], capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"no right to mount here: {done.stderr.strip()}")


@contextmanager
def tmpfs(folder: Path, mib: int, options: str = "rw") -> Iterator[Path]:
    """A tmpfs of `mib` MiB at `folder`."""
    if shutil.which("mount") is None or os.geteuid() != 0:
        pytest.skip("a small disk of its own needs root and mount")
    folder.mkdir()
    _mount("-t", "tmpfs", "-o", f"size={mib}m,{options}", "tmpfs", str(folder))
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=False)


class Ext4:
    """An ext4 file system of `mib` MiB in a file: it can break, and lose its power."""

    def __init__(self, folder: Path, mib: int) -> None:
        if shutil.which("mkfs.ext4") is None or os.geteuid() != 0:
            pytest.skip("an ext4 disk of its own needs root and mkfs.ext4")
        self.path, self._image = folder / "disk", folder / "disk.img"
        self.path.mkdir()
        with open(self._image, "wb") as file:
            file.truncate(mib << 20)
        subprocess.run(["mkfs.ext4", "-q", "-F", str(self._image)], check=True)
        self.plug_in()

    def plug_in(self) -> None:
        """Mount it; an ext4 journal is replayed as after a crash."""
        _mount("-o", "loop,errors=remount-ro", str(self._image), str(self.path))

    def pull_out(self) -> None:
        """Unmount it."""
        for _ in range(50):
            if subprocess.run(["umount", str(self.path)], capture_output=True).returncode == 0:
                return
            time.sleep(0.1)
        subprocess.run(["umount", "-l", str(self.path)], check=False)

    def lose_power(self) -> None:
        """From now on nothing reaches the medium any more; what was not synced is lost."""
        fd = os.open(self.path, os.O_RDONLY)
        try:
            fcntl.ioctl(fd, _SHUTDOWN, struct.pack("I", _DISCARD))
        except OSError as error:
            pytest.skip(f"this kernel cannot cut ext4 off: {error}")
        finally:
            os.close(fd)

    def become_read_only(self) -> None:
        """What the kernel does with a disk that reports errors: mounted read-only under open files."""
        device = subprocess.run(
            ["findmnt", "-n", "-o", "SOURCE", str(self.path)], capture_output=True, text=True, check=True
        ).stdout.strip()
        trigger = Path("/sys/fs/ext4") / Path(device).name / "trigger_fs_error"
        try:
            trigger.write_text("1")
        except OSError as error:
            pytest.skip(f"this kernel cannot be told of an ext4 error: {error}")


@contextmanager
def ext4(folder: Path, mib: int) -> Iterator[Ext4]:
    """See `Ext4`."""
    disk = Ext4(folder, mib)
    try:
        yield disk
    finally:
        disk.pull_out()


def fill(disk: Path) -> Path:
    """Take all the room that is left; gives the file to remove again."""
    path = disk / "somebody_elses_file"
    with open(path, "wb", buffering=0) as file, suppress(OSError):
        for size in (1 << 20, 4096, 1):
            with suppress(OSError):
                while True:
                    file.write(bytes(size))
    return path
