"""What callers pass: arrays that are none and sample rates that cannot be, said in words."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dsp.errors import InputError


def as_array(value: Any, what: str = "sound") -> NDArray[Any]:
    """`value` as an array, not copied where it is one. Raises InputError when its rows differ in length."""
    try:
        return np.asarray(value)
    except (ValueError, TypeError):
        raise InputError(f"{what} must be one plain array, not {value!r:.80}") from None


def sample_rate(fs: Any, low: int = 1000, high: int = 768_000) -> int:
    """A whole number of Hz. Raises InputError for NaN, text, None, a fraction, or a rate out of range."""
    number = isinstance(fs, (int, float, np.integer, np.floating)) and not isinstance(fs, bool)
    if not number or not low <= fs <= high or int(fs) != fs:  # NaN fails the comparison
        raise InputError(f"a sample rate must be a whole number of Hz from {low} to {high}, not {fs!r}")
    return int(fs)
