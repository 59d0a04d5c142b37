"""The correction in a result file of `hearth calibrate capsules`, ready for the recorded channels."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from typing import Any

from dsp.errors import InputError
from dsp.foa_correction import FoaCorrection
from recordings.calibration_result import CalibrationResult, load


def read_correction(
    result: CalibrationResult | Mapping[str, Any] | str | PathLike[str], source: str | None = None
) -> FoaCorrection:
    """From a result, its file, or the file's content as a mapping. source: the format of the channels that it
    is to be applied to; another one than it was measured for is refused, because it would be wrong there.

    For sound that is AmbiX already by conversion use `.for_ambix()` of what this gives. Raises InputError,
    StorageError for a file that cannot be read.
    """
    where = "the capsule correction"
    if isinstance(result, str | PathLike):
        where = str(result)
        result = load(result, "capsules")
    if isinstance(result, Mapping):
        kind, held = result.get("kind"), result.get("result")
    else:
        kind, held = result.kind, result.result
    if kind != "capsules":
        raise InputError(f"{where} must be a calibration result of kind 'capsules', not {kind!r}")
    stored = held.get("correction") if isinstance(held, Mapping) else None
    if not isinstance(stored, Mapping):
        raise InputError(f"{where} holds no result.correction; calibrate again")
    if stored.get("target") != "ambix":
        raise InputError(f"{where}: the correction must end in ambix, not {stored.get('target')!r}")
    missing = [name for name in ("source", "matrix", "delays_s", "key") if name not in stored]
    if missing:
        raise InputError(f"{where}: result.correction has no {', '.join(missing)}; calibrate again")
    found = FoaCorrection(stored["source"], stored["matrix"], stored["delays_s"])
    if stored["key"] != found.key:
        raise InputError(
            f"{where}: result.correction is not as it was written: its numbers give the key {found.key}, it"
            f" says {stored['key']!r:.40}; calibrate again"
        )
    if source is not None and source != found.source:
        raise InputError(
            f"{where} was measured on {found.source} channels ({' '.join(found.channels)}), this sound is"
            f" {source}; record in the format that was calibrated, or calibrate in this one"
        )
    return found
