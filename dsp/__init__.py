"""Signal processing on arrays: pure arrays in, arrays out; imports none of the other packages.

The names below are loaded at first use, so that a command that needs no kernel does not wait for Numba.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dsp.array import array_azimuths as array_azimuths
    from dsp.array import array_to_foa as array_to_foa
    from dsp.array import estimate_array_azimuth as estimate_array_azimuth
    from dsp.array import estimate_array_doa as estimate_array_doa
    from dsp.doa import DirectionEstimate as DirectionEstimate
    from dsp.doa import Doa as Doa
    from dsp.doa import DoaEstimator as DoaEstimator
    from dsp.doa import DoaFrame as DoaFrame
    from dsp.doa import estimate_doa as estimate_doa
    from dsp.doa import steady_direction as steady_direction

_MODULE_OF = {
    "array_azimuths": "array",
    "array_to_foa": "array",
    "estimate_array_azimuth": "array",
    "estimate_array_doa": "array",
    "DirectionEstimate": "doa",
    "Doa": "doa",
    "DoaEstimator": "doa",
    "DoaFrame": "doa",
    "estimate_doa": "doa",
    "steady_direction": "doa",
}

__all__ = sorted(_MODULE_OF)


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'dsp' has no attribute {name!r}")
    value = getattr(import_module(f"dsp.{_MODULE_OF[name]}"), name)
    globals()[name] = value
    return value
