"""The file in which every calibration ends: one JSON object with units, covariance, residuals and its inputs.

    {"hearth_calibration": 1, "kind": "camera", "created_utc": "2026-11-30T14:00:00.000Z",
     "inputs": [{"name": "left01.jpg", "sha256": "..."}], "units": {"fx": "px"}, "result": {...},
     "covariance": {"parameters": ["fx", ...], "matrix": [[...]]}, "residuals": {...}, "quality": {...},
     "warnings": []}

What stands in `result`, `residuals` and `quality` depends on the kind and is described in
docs/calibration.md. Numbers go out in the shortest form that reads back to the same bits, so that saving and
loading changes nothing. NaN and infinity are refused: a calibration either knows a number or leaves it out.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timezone
from os import PathLike
from pathlib import Path
from typing import Any, Literal

import msgspec
import numpy as np
from numpy.typing import ArrayLike, NDArray

from dsp.errors import InputError
from recordings.storage import sha256_file, storage_errors, utc_now, write_atomic

VERSION = 1
Kind = Literal["camera", "pose", "sync", "capsules", "room"]
# How far a covariance matrix may be from symmetric, relative to its largest entry.
_SYMMETRY = 1e-9


class InputFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A file that went into a calibration: its name without folders, and the SHA-256 of its content."""

    name: str
    sha256: str


class Covariance(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Covariance of named parameters: `matrix` is square, in the products of the parameters' units."""

    parameters: list[str]
    matrix: list[list[float]]

    @classmethod
    def of(cls, parameters: Sequence[str], matrix: ArrayLike) -> Covariance:
        """From names and a (n, n) array."""
        return cls(list(parameters), np.asarray(matrix, dtype=np.float64).tolist())

    def array(self) -> NDArray[np.float64]:
        """The matrix as an array (n, n)."""
        return np.asarray(self.matrix, dtype=np.float64).reshape(len(self.parameters), len(self.parameters))

    def sigma(self, parameter: str) -> float:
        """Standard uncertainty of one parameter. Raises InputError for a name that is not there."""
        if parameter not in self.parameters:
            raise InputError(f"no parameter {parameter!r} in the covariance; there are {self.parameters}")
        i = self.parameters.index(parameter)
        return math.sqrt(max(self.matrix[i][i], 0.0))


class CalibrationResult(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What one calibration found, with what it needs to be judged later."""

    hearth_calibration: int = VERSION
    kind: Kind
    created_utc: str
    inputs: list[InputFile]
    units: dict[str, str]
    result: dict[str, Any]
    covariance: Covariance | None = None
    residuals: dict[str, Any] = {}
    quality: dict[str, Any] = {}
    warnings: list[str] = []

    @classmethod
    def new(
        cls,
        kind: Kind,
        result: Mapping[str, Any],
        *,
        units: Mapping[str, str],
        inputs: Iterable[InputFile] = (),
        covariance: Covariance | None = None,
        residuals: Mapping[str, Any] | None = None,
        quality: Mapping[str, Any] | None = None,
        warnings: Iterable[str] = (),
        created_utc: str | None = None,
    ) -> CalibrationResult:
        """A result dated now; numpy numbers and arrays within the mappings become plain ones.

        Raises InputError, which names the place, for NaN or infinity, for what JSON cannot hold, and for a
        covariance that is not square, not symmetric or has a negative variance.
        """
        made = cls(
            kind=kind,
            created_utc=created_utc or utc_now(),
            inputs=list(inputs),
            units=_plain(units, "units"),
            result=_plain(result, "result"),
            covariance=covariance,
            residuals=_plain(residuals or {}, "residuals"),
            quality=_plain(quality or {}, "quality"),
            warnings=list(warnings),
        )
        made.check()
        return made

    @property
    def age_days(self) -> float | None:
        """Days since it was made, by this machine's wall clock; None when the file's date is no date."""
        try:
            made = datetime.fromisoformat(self.created_utc.replace("Z", "+00:00"))
            return (datetime.now(timezone.utc) - made).total_seconds() / 86400
        except (ValueError, TypeError):
            return None

    def check(self) -> None:
        """Raises InputError when the parts contradict each other."""
        if self.hearth_calibration != VERSION:
            raise InputError(
                f"hearth_calibration is {self.hearth_calibration}, this Hearth knows {VERSION}; "
                "calibrate again, or use the Hearth that wrote the file"
            )
        for name, part in (("result", self.result), ("residuals", self.residuals), ("quality", self.quality)):
            _plain(part, name)
        if self.covariance is not None:
            _check_covariance(self.covariance)

    def save(self, path: str | PathLike[str]) -> Path:
        """Write the file, all of it or nothing; what stood there before is replaced.

        Raises InputError for content that does not fit together, StorageError when it cannot be written.
        """
        self.check()
        target = Path(path)
        with storage_errors(target.parent, "make"):
            target.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(target, msgspec.json.format(msgspec.json.encode(self), indent=1) + b"\n")
        return target


def load(path: str | PathLike[str], kind: Kind | None = None) -> CalibrationResult:
    """Read a result file; with `kind` it must be of that kind.

    Raises InputError for a file that is no such result (it names the key), StorageError when it cannot be
    read.
    """
    source = Path(path)
    if not source.is_file():
        raise InputError(f"no calibration result at {source}; `hearth calibrate {kind or ''}` makes one")
    with storage_errors(source, "read"):
        data = source.read_bytes()
    try:
        head = msgspec.json.decode(data)
        json.loads(data, object_pairs_hook=_refuse_twice)  # msgspec keeps the last and says nothing
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{source} is no JSON file: {error}") from None
    except RecursionError:
        raise InputError(f"{source} is no calibration result: its values are nested too deeply") from None
    except InputError as error:
        raise InputError(f"{source}: {error}") from None
    if not isinstance(head, dict) or "hearth_calibration" not in head:
        raise InputError(f"{source} is no calibration result of Hearth: it has no key hearth_calibration")
    try:
        # The version first: a newer file may well have keys that are unknown here.
        if head["hearth_calibration"] == VERSION:
            found = msgspec.convert(head, CalibrationResult)
        else:
            raise InputError(
                f"hearth_calibration is {head['hearth_calibration']!r}, this Hearth knows {VERSION}; "
                "calibrate again, or use the Hearth that wrote the file"
            )
        found.check()
    except (msgspec.ValidationError, InputError) as error:
        raise InputError(f"{source}: {error}") from None
    except RecursionError:
        raise InputError(f"{source} is no calibration result: its values are nested too deeply") from None
    if kind is not None and found.kind != kind:
        raise InputError(f"{source} holds a calibration of kind {found.kind!r}, {kind!r} is needed")
    return found


# The name under which the package shows it.
load_result = load


def hash_inputs(paths: Iterable[str | PathLike[str]]) -> list[InputFile]:
    """Name and SHA-256 of each file, in the given order; an episode folder is stood for by its manifest.

    Raises InputError for what is no file, StorageError when it cannot be read.
    """
    found = []
    for entry in paths:
        path = Path(entry)
        manifest = path / "manifest.json"
        if path.is_dir() and manifest.is_file():
            with storage_errors(manifest, "read"):
                found.append(InputFile(f"{path.name}/manifest.json", sha256_file(manifest)))
            continue
        if not path.is_file():
            raise InputError(
                f"{path} is no file (nor a finished episode), so it cannot be hashed as an input"
            )
        with storage_errors(path, "read"):
            found.append(InputFile(path.name, sha256_file(path)))
    return found


def _refuse_twice(pairs: list[tuple[str, Any]]) -> None:
    """Raises InputError for a key that stands twice in one object: which of the two holds is not known."""
    seen: set[str] = set()
    for key, _ in pairs:
        if key in seen:
            raise InputError(f"the key {key!r} stands twice in one object; take one out, or calibrate again")
        seen.add(key)


def _check_covariance(covariance: Covariance) -> None:
    names, rows = covariance.parameters, covariance.matrix
    if len(rows) != len(names) or any(len(row) != len(names) for row in rows):
        raise InputError(f"covariance.matrix must be {len(names)} x {len(names)}, as many as its parameters")
    if len(set(names)) != len(names):
        raise InputError(f"covariance.parameters names a parameter twice: {names}")
    matrix = covariance.array()
    if not np.isfinite(matrix).all():
        raise InputError("covariance.matrix holds NaN or infinity: such a parameter must be left out")
    if len(names) and np.abs(matrix - matrix.T).max() > _SYMMETRY * np.abs(matrix).max():
        raise InputError("covariance.matrix is not symmetric")
    negative = [name for name, variance in zip(names, np.diag(matrix), strict=True) if variance < 0]
    if negative:
        raise InputError(f"covariance.matrix has a negative variance for {', '.join(negative)}")


def _plain(value: Any, place: str) -> Any:
    """`value` as JSON holds it exactly; raises InputError with the place for what it cannot hold."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item, f"{place}.{key}") for key, item in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        return _plain(value.tolist(), place)
    if isinstance(value, list | tuple):
        return [_plain(item, f"{place}[{i}]") for i, item in enumerate(value)]
    if isinstance(value, float) and not math.isfinite(value):
        raise InputError(f"{place} is {value}; a calibration result leaves out what it does not know")
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, PathLike):
        return str(value)
    raise InputError(f"{place} is a {type(value).__name__}, which a result file cannot hold")
