"""Signal processing on arrays: pure arrays in, arrays out; imports none of the other packages."""

from __future__ import annotations

from dsp.doa import DirectionEstimate, Doa, DoaEstimator, DoaFrame, estimate_doa, steady_direction

__all__ = [
    "DirectionEstimate",
    "Doa",
    "DoaEstimator",
    "DoaFrame",
    "estimate_doa",
    "steady_direction",
]
