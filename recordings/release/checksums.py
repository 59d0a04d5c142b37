"""checksums.sha256 of a release, in the form that `sha256sum -c` reads."""

from __future__ import annotations

import os
from pathlib import Path

from dsp.errors import InputError
from recordings.storage import sha256_file, storage_errors, write_atomic

CHECKSUMS = "checksums.sha256"


def release_files(folder: Path) -> list[str]:
    """Every file of a release but its checksums, as POSIX paths, sorted. Raises InputError for a link or a
    name with a line break, which a release does not have."""
    with storage_errors(folder, "read"):
        paths = [path for path in folder.rglob("*") if path.is_symlink() or not path.is_dir()]
    names = sorted(path.relative_to(folder).as_posix() for path in paths)
    for name in names:
        if (folder / name).is_symlink() or not (folder / name).is_file() or "\n" in name:
            raise InputError(f"{folder / name}: is no plain file; a release holds nothing else")
    return [name for name in names if name != CHECKSUMS]


def write_checksums(folder: Path, known: dict[str, str] | None = None) -> dict[str, str]:
    """Hash every file, force it to the medium, and write checksums.sha256; gives name -> SHA-256.

    known: hashes that were taken when the file was written, a moment ago. Raises InputError, StorageError.
    """
    found = {}
    for name in release_files(folder):
        path = folder / name
        with storage_errors(path, "read"):
            found[name] = (known or {}).get(name) or sha256_file(path)
            with open(path, "rb") as file:
                os.fsync(file.fileno())
    text = "".join(f"{found[name]}  {name}\n" for name in sorted(found))
    write_atomic(folder / CHECKSUMS, text.encode())
    return found


def check_checksums(folder: str | Path) -> list[str]:
    """What is wrong with a release by its checksums: files that are missing, changed or unlisted; [] when
    nothing is. Raises InputError when it has no checksums or they cannot be read."""
    folder = Path(folder)
    path = folder / CHECKSUMS
    if not path.is_file():
        raise InputError(f"{path}: no such file; {folder} is no release, or an unfinished one")
    listed = {}
    with storage_errors(path, "read"):
        lines = path.read_text(encoding="utf-8").splitlines()
    for number, line in enumerate(lines, 1):
        digest, gap, name = line.partition("  ")
        if not gap or len(digest) != 64:
            raise InputError(f"{path}, line {number}: is not `<sha256>  <file>`")
        listed[name] = digest
    present = set(release_files(folder))
    problems = [f"{name}: is missing" for name in sorted(set(listed) - present)]
    problems += [f"{name}: is not in {CHECKSUMS}" for name in sorted(present - set(listed))]
    for name in sorted(present & set(listed)):
        with storage_errors(folder / name, "read"):
            if sha256_file(folder / name) != listed[name]:
                problems.append(f"{name}: its content changed")
    return problems
