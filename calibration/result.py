"""The file in which every calibration ends. Its form lives in `recordings`: episodes carry such files."""

from recordings.calibration_result import (
    CalibrationResult,
    Covariance,
    InputFile,
    Kind,
    hash_inputs,
    load,
    load_result,
)

__all__ = ["CalibrationResult", "Covariance", "InputFile", "Kind", "hash_inputs", "load", "load_result"]
