"""What an audio-video offset is made of: the sound, what is known of the set-up, the answer."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calibration.sync_fit import NAMES, Known
from calibration.sync_light import Flash
from dsp.errors import CheckFailed, InputError

Stamp = Literal["start", "middle", "end"]
Source = Literal["auto", "screen", "light"]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Sound:
    """Mono sound (n,) and the stamp in ns of any sample (a number or an array, fractions allowed)."""

    samples: NDArray[np.float32]
    rate_hz: float
    time_ns: Callable[[ArrayLike], NDArray[np.int64]]

    @classmethod
    def of(cls, samples: ArrayLike, rate_hz: float, t0_ns: int = 0) -> Sound:
        """Sound at a constant rate whose first sample is stamped t0_ns."""
        mono = np.asarray(samples, np.float32)
        if mono.ndim != 1:
            raise InputError(f"the sound must be mono, (n,); got {mono.shape}")
        return cls(
            mono,
            rate_hz,
            lambda k: t0_ns + np.round(np.asarray(k, np.float64) / rate_hz * 1e9).astype(np.int64),
        )


@dataclass(frozen=True)
class Setting:
    """What is known about the set-up; None is "not known".

    search_s: largest offset looked for. distance_m: from the beeping device to the microphone. exposure_ms,
    readout_ms (from the first to the last row), source_late_ms (how much later the device beeps than it
    flashes): value and sigma. stamp: what the picture's stamp stands for: the start of the first row's
    exposure, the middle of everything, or the end of the last row's. needs_drift: a long recording without
    events at both ends is refused.
    """

    search_s: float = 0.5
    distance_m: Known | None = None
    temperature_c: float = 20.0
    exposure_ms: Known | None = None
    readout_ms: Known | None = None
    source_late_ms: Known | None = None
    stamp: Stamp = "middle"
    source: Source = "auto"
    needs_drift: bool = True

    @property
    def speed_m_s(self) -> float:
        """Of sound in dry air (331.3 m/s at 0 degrees Celsius, with the root of the absolute temperature)."""
        return 331.3 * math.sqrt(1 + self.temperature_c / 273.15)


@dataclass(frozen=True)
class Refusal:
    """Why there is no number, and what to do."""

    problem: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.problem}: {self.remedy}"


@dataclass(frozen=True)
class Event:
    """One flash with its beep. offset_ms: what it says alone, with the limits that its pictures set (low,
    high) or sigma_ms where a picture was partly lit (low = high); residual_ms: from the fit; left_out_ms:
    from a fit without it (nan if it is not used)."""

    time_ns: int
    used: bool
    offset_ms: float
    low_ms: float
    high_ms: float
    sigma_ms: float
    residual_ms: float
    left_out_ms: float
    partly_lit: bool


@dataclass
class SyncFit:
    """What came out. Numbers mean nothing where there are `refusals`; `require` raises then."""

    refusals: list[Refusal] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    offset_ms: float = math.nan
    sigma_ms: float = math.nan
    drift_ppm: float | None = None
    drift_sigma_ppm: float | None = None
    reference_ns: int = 0
    clock_offset_ms: float | None = None
    clock_sigma_ms: float | None = None
    exposure_ms: float = math.nan
    exposure_sigma_ms: float = math.nan
    readout_ms: float = math.nan
    readout_sigma_ms: float = math.nan
    line_delay_us: float = math.nan
    stamp_noise_ms: float = math.nan
    flash_ms: float = math.nan
    interval_ms: float = math.nan
    covariance: Floats = field(default_factory=lambda: np.zeros((2, 2)))
    slope_ppm: float = 0.0  # the fit's own drift, even where it is not given as a result
    travel_ms: float = 0.0
    own_ms: float = 0.0
    smoothed: bool = False
    source: str = "light"
    stamp: Stamp = "middle"
    events: list[Event] = field(default_factory=list)
    flashes: list[Flash] = field(default_factory=list)
    flash_times_ns: list[int] = field(default_factory=list)
    beeps: int = 0
    draws: Floats = field(default_factory=lambda: np.zeros((0, len(NAMES))))

    @property
    def ok(self) -> bool:
        """Whether the offset can be stood for."""
        return not self.refusals

    @property
    def used(self) -> int:
        """Events in the fit."""
        return sum(event.used for event in self.events)

    def require(self) -> SyncFit:
        """Itself; raises CheckFailed with the reasons where it is refused."""
        if self.refusals:
            raise CheckFailed("no offset that can be stood for: " + "; ".join(map(str, self.refusals)))
        return self

    def refuse(self, problem: str, remedy: str) -> SyncFit:
        """Add a reason why there is no answer; gives itself."""
        self.refusals.append(Refusal(problem, remedy))
        return self
