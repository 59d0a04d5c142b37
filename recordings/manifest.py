"""manifest.json: every file of a finished episode with its size and SHA-256."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from dsp.errors import InputError
from recordings.marker import MANIFEST, MARKER
from recordings.storage import sha256_file, storage_errors, utc_now, write_atomic


def files_of(folder: Path) -> list[str]:
    """All files below an episode as relative POSIX paths, sorted, without manifest and marker."""
    with storage_errors(folder, "read"):
        names = [p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file() or p.is_symlink()]
    return sorted(name for name in names if name not in (MANIFEST, MARKER))


def write_manifest(folder: Path) -> None:
    """Hash everything and write manifest.json through a temporary name and rename. Raises StorageError."""
    files = {}
    for name in files_of(folder):
        with storage_errors(folder / name, "read"):
            files[name] = {"bytes": (folder / name).stat().st_size, "sha256": sha256_file(folder / name)}
    content = {"hearth_manifest": 1, "created_utc": utc_now(), "files": files}
    write_atomic(folder / MANIFEST, (json.dumps(content, indent=1) + "\n").encode())


def read_manifest(folder: Path) -> dict[str, dict[str, Any]]:
    """name -> {"bytes", "sha256"}. Raises InputError when it is absent or not of this form."""
    path = folder / MANIFEST
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        files = content["files"]
        if content["hearth_manifest"] != 1 or not isinstance(files, dict):
            raise InputError(f"{path}: not a manifest of version 1")
        for name, entry in files.items():
            if not isinstance(entry["sha256"], str) or not isinstance(entry["bytes"], int):
                raise InputError(f"{path}: entry {name!r} lacks sha256 or bytes")
        return files
    except FileNotFoundError:
        raise InputError(f"{path}: no such file; the episode was never finished") from None
    except (ValueError, KeyError, TypeError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{path}: not a manifest: {error}") from None


def refuse_inside_sealed(path: Path) -> None:
    """Raise InputError when `path` would lie in a sealed episode, at any depth: that one never changes."""
    for folder in path.resolve().parents:
        if (folder / MANIFEST).is_file():
            raise InputError(
                f"{path}: lies in {folder.name}, which is sealed by {MANIFEST}; give a place outside it"
            )
