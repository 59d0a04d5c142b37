"""Writing to disk so that a crash, a full disk or a pulled plug leaves something true behind."""

from __future__ import annotations

import errno
import hashlib
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from dsp.errors import HearthError, InputError


class StorageError(HearthError):
    """The disk is full, read-only, not writable or too slow. What was written before stays."""


_REASONS = {
    errno.ENOSPC: "the disk is full; free some space",
    errno.EDQUOT: "the disk quota is used up; free some space",
    errno.EFBIG: "the file is too large for this file system; use smaller segments",
    errno.EROFS: "the file system is read-only; mount it writable or choose another storage.folder",
    errno.EACCES: "no permission to write there; choose another storage.folder or change its owner",
    errno.EPERM: "no permission to write there; choose another storage.folder or change its owner",
    errno.EIO: "the disk reported an input/output error; check the medium",
    errno.ENOTDIR: "a part of the path is a file, not a folder; choose another storage.folder",
}


def storage_error(error: OSError, path: str | Path, doing: str = "write") -> StorageError:
    """The StorageError for an OSError: what failed, where, why, and what to do."""
    reason = _REASONS.get(error.errno or 0, f"{error.strerror or error}")
    return StorageError(f"cannot {doing} {path}: {reason}")


@contextmanager
def storage_errors(path: str | Path, doing: str = "write") -> Iterator[None]:
    """Turn an OSError of the body into a StorageError that names `path`."""
    try:
        yield
    except OSError as error:
        raise storage_error(error, path, doing) from error


def write_all(fd: int, data: bytes | memoryview) -> None:
    """os.write until everything is out; a partly written block raises OSError at the next try."""
    view = memoryview(data).cast("B")
    while len(view):
        view = view[os.write(fd, view) :]


def fsync_folder(folder: Path) -> None:
    """Make renames and new names in `folder` durable; silent where the file system cannot."""
    with suppress(OSError):
        fd = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)


def write_atomic(path: Path, data: bytes, mode: int | None = None) -> None:
    """Replace `path` by `data`: after a crash it holds the old or the new content, never a mix.

    mode: its permissions, as of the file that it replaces; else readable for all, less the umask.
    Raises StorageError.
    """
    temporary = path.with_name(f".{path.name}.part")
    with storage_errors(path):
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644 if mode is None else 0o600)
        try:
            if mode is not None:
                os.fchmod(fd, mode)
            write_all(fd, data)
            os.fsync(fd)
        except BaseException:
            with suppress(OSError):
                os.unlink(temporary)
            raise
        finally:
            os.close(fd)
        os.replace(temporary, path)
        fsync_folder(path.parent)


def write_new(files: Mapping[Path, bytes]) -> list[Path]:
    """Write all of these files or, when one of them exists, none; folders are made. Raises InputError,
    StorageError."""
    for path in files:
        if path.exists():
            raise InputError(f"{path}: exists already; give another folder")
    for path, content in files.items():
        with storage_errors(path):
            path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(path, content)
    return list(files)


def copy_exact(source: Path, target: Path) -> str:
    """Copy byte for byte (through a temporary name), fsync, and give the SHA-256 of what was read.

    Raises StorageError; an existing target is an error.
    """
    if target.exists():
        raise StorageError(f"cannot write {target}: it exists already")
    digest = hashlib.sha256()
    temporary = target.with_name(f".{target.name}.part")
    with storage_errors(target):
        try:
            with open(source, "rb") as reader, open(temporary, "wb") as writer:
                while chunk := reader.read(1 << 20):
                    digest.update(chunk)
                    writer.write(chunk)
                writer.flush()
                os.fsync(writer.fileno())
        except BaseException:
            with suppress(OSError):
                os.unlink(temporary)
            raise
        os.replace(temporary, target)
        fsync_folder(target.parent)
    return digest.hexdigest()


def unwritten_tail(path: Path, most: int = 1 << 20) -> int:
    """Bytes at the end of a file that a power loss left unwritten: the file system had noted the length, not
    yet the content, and gives zeros.

    They begin where the last forcing to the medium ended and end with that block (64 KiB at most), or they
    begin at a block's border (a multiple of 512 bytes). Longer zeros from elsewhere, or more than `most`, are
    content. Raises StorageError.
    """
    with storage_errors(path, "read"), open(path, "rb") as file:
        size = file.seek(0, os.SEEK_END)
        first = max(0, size - most - 512)
        file.seek(first)
        end = file.read()
    written = first + len(end.rstrip(b"\0"))
    if written == first:
        return 0
    border = -(-written // 512) * 512
    if border < size and border - written <= 4:  # the last bytes of what was written may be zeros too
        return size - border
    return size - written if size - written <= 1 << 16 else 0


def sha256_file(path: Path) -> str:
    """SHA-256 of a file's content, in hexadecimal."""
    digest = hashlib.sha256()
    with open(path, "rb") as reader:
        while chunk := reader.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()


def utc_now() -> str:
    """The wall clock as ISO 8601 with Z, to the millisecond."""
    now = time.time()
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now)) + f".{int(now * 1000) % 1000:03d}Z"
