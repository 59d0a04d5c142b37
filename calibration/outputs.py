"""No output of a command may stand where one of its inputs does, nor two outputs in one place."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from dsp.errors import InputError


def refuse_overwriting(outputs: Mapping[str, Path | None], inputs: Iterable[Path | None] = ()) -> None:
    """Before anything is written. outputs: option (as the user writes it) -> the file it is to write; inputs:
    files that are read, and folders whose own files are. None is left out.

    Symbolic and hard links count as what they lead to. Raises InputError, which names both.
    """
    read = [path for path in inputs if path is not None]
    taken: list[tuple[str, Path]] = []
    for option, target in outputs.items():
        if target is None:
            continue
        for path in read:
            if _same(target, path) or _holds(path, target):
                raise InputError(
                    f"{option} {target} would replace {path}, which is read; name another file, as with"
                    f" {option} {target.with_name(f'new_{target.name}')}"
                )
        for other, place in taken:
            if _same(target, place):
                raise InputError(f"{other} and {option} are the same file, {target}; name two")
        taken.append((option, target))


def _same(a: Path, b: Path) -> bool:
    try:
        return os.path.samefile(a, b)
    except OSError:  # one of them is not there (yet)
        return os.path.realpath(a) == os.path.realpath(b)


def _holds(folder: Path, target: Path) -> bool:
    """Whether an existing file is one that a folder is read for, by whatever name: any of an episode; of
    another folder what is no earlier result and no page."""
    if not (folder.is_dir() and target.is_file()):
        return False
    if (folder / "episode.yaml").is_file() and target.resolve().is_relative_to(folder.resolve()):
        return True
    return any(p.suffix.lower() not in (".json", ".html") and _same(target, p) for p in folder.iterdir())
