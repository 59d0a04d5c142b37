"""room.json: one result file of kind "room" whose sections are measured by different commands.

`frame` is written by `hearth calibrate room frame`, `devices` by `room device`, `reverberation` by `room
rt60`. Each section keeps its own inputs, warnings and time in `quality`; the file's own lists are those of
all sections together, so that one section can be measured again without touching the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from os import PathLike
from pathlib import Path
from typing import Any, Literal, cast, get_args

from calibration.result import CalibrationResult, InputFile, load
from dsp.errors import InputError
from recordings.storage import utc_now

Section = Literal["frame", "devices", "reverberation"]
SECTIONS: tuple[str, ...] = get_args(Section)


def update_room(
    path: str | PathLike[str],
    section: Section,
    value: Mapping[str, Any] | None,
    *,
    units: Mapping[str, str],
    inputs: Iterable[InputFile] = (),
    quality: Mapping[str, Any] | None = None,
    warnings: Iterable[str] = (),
    residuals: Mapping[str, Any] | None = None,
) -> Path:
    """Put one section into room.json, which is made if it is not there; the others stay as they are.

    value None takes the section out. units: of the keys of this section. quality, residuals and warnings
    belong to the section. Raises InputError when the file at `path` is no room result or the values cannot
    stand in one, StorageError when it cannot be written.
    """
    if section not in SECTIONS:
        raise InputError(f"room.json has no section {section!r}; there are {', '.join(SECTIONS)}")
    before = load(path, "room") if Path(path).is_file() else None
    parts = {key: dict(getattr(before, key)) if before else {} for key in ("result", "residuals", "quality")}
    named = {k: v for k, v in (before.units if before else {}).items() if k.partition(".")[0] != section}
    for part in parts.values():
        part.pop(section, None)
    if value is not None:
        files = [{"name": entry.name, "sha256": entry.sha256} for entry in inputs]
        parts["result"][section] = dict(value)
        parts["quality"][section] = {
            "measured_utc": utc_now(),
            "inputs": files,
            "warnings": list(warnings),
            **(quality or {}),
        }
        if residuals is not None:
            parts["residuals"][section] = dict(residuals)
        named |= {f"{section}.{key}": unit for key, unit in units.items()}
    ordered = {
        name: {key: part[key] for key in SECTIONS if key in part} for name, part in parts.items()
    }  # always in the same order, whichever was measured first
    used: dict[tuple[str, str], InputFile] = {}
    told: list[str] = []
    for name in SECTIONS:
        about = cast(dict[str, Any], ordered["quality"].get(name, {}))
        for entry in about.get("inputs", ()):
            used.setdefault((entry["name"], entry["sha256"]), InputFile(entry["name"], entry["sha256"]))
        told += [f"{name}: {text}" for text in about.get("warnings", ())]
    return CalibrationResult.new(
        "room",
        ordered["result"],
        units=dict(sorted(named.items())),
        inputs=used.values(),
        residuals=ordered["residuals"],
        quality=ordered["quality"],
        warnings=told,
    ).save(path)


def read_section(path: str | PathLike[str], section: Section) -> dict[str, Any]:
    """One section of room.json. Raises InputError, with the command that makes it, when it is absent."""
    command = {"frame": "frame", "devices": "device", "reverberation": "rt60"}[section]
    if not Path(path).is_file():
        raise InputError(f"no room result at {path}; `hearth calibrate room {command}` makes one")
    found = load(path, "room").result.get(section)
    if found is None:
        raise InputError(f"{path} has no section {section!r}; `hearth calibrate room {command}` measures it")
    if not isinstance(found, dict):
        raise InputError(f"{path}: {section!r} must be an object")
    return found
