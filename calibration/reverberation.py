"""Reverberation of a room: decays of several responses put together, octave by octave.

One place of source and microphone says little about a room: its T30 differs from the room's by what chance
does to one decay, which is known (the `sigma` of each number), and by what the place does, which only more
places tell. ISO 3382-2 asks for 2 places for a survey, 6 for engineering, 12 for precision.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from calibration.reverberation_decay import Band, Decay, bands_for, decays_of, onset
from calibration.reverberation_gate import check_falling
from calibration.reverberation_noise import Floats
from dsp.errors import InputError

NAMES = ("t30", "t20", "edt", "c50", "d50")
CURVED_PERCENT = 10.0  # ISO 3382-2 annex B: beyond, the decay is no straight line
NONLINEAR_PERMILLE = 10.0  # the same
SURVEY, ENGINEERING = 2, 6  # places, ISO 3382-2 table 1


@dataclass(frozen=True)
class Response:
    """One impulse response (frames,) that was found in a file. place: responses of one place are repeats."""

    name: str
    place: str
    h: Floats
    fs: int
    low_hz: float = 0.0
    high_hz: float = np.inf
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class Measured:
    """A response and its decays, "broadband" first. direct_s: where its direct sound is."""

    response: Response
    direct_s: float
    decays: tuple[Decay, ...]


@dataclass(frozen=True)
class RoomValue:
    """Mean over places. sigma: standard uncertainty as a number of the room; noise: its part by noise.

    sd: of the places; repeat_sd: of repeats at one place (pooled); None with one. places: that gave it.
    """

    value: float
    sigma: float
    noise: float
    sd: float | None
    repeat_sd: float | None
    places: int


@dataclass(frozen=True)
class RoomBand:
    """What the places say together in one band; a number is in `values`, or why not in `refused`."""

    band: Band
    range_db: float
    values: dict[str, RoomValue] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    nonlinearity_permille: dict[str, float] = field(default_factory=dict)
    curvature_percent: float | None = None


@dataclass(frozen=True)
class Reverberation:
    """The result: bands, "broadband" first; every measured response; what limits it."""

    bands: tuple[RoomBand, ...]
    measured: tuple[Measured, ...]
    places: tuple[str, ...]
    warnings: tuple[str, ...] = ()
    skipped: tuple[tuple[str, str], ...] = ()

    @property
    def rt60(self) -> tuple[RoomValue, str] | None:
        """The one number: T30, else T20, of 500 Hz and 1 kHz together (ISO 3382-1 table A.1); None when
        either octave lacks it. And which of the two."""
        by_name = {b.band.name: b for b in self.bands}
        for name in ("t30", "t20"):
            two = [by_name[o].values.get(name) for o in ("500 Hz", "1000 Hz") if o in by_name]
            if len(two) == 2 and two[0] is not None and two[1] is not None:
                return _together(two[0], two[1]), name
        return None


def measure(response: Response) -> Measured:
    """Decays of one response in every octave that it holds. Raises InputError for what is no response."""
    bands = bands_for(response.fs, response.low_hz, response.high_hz)
    at = onset(response.h, response.fs)
    decays = decays_of(response.h, response.fs, bands, at)
    check_falling(decays[0].curve_s, decays[0].curve_db)
    return Measured(response, at / response.fs, tuple(decays))


def put_together(
    measured: Sequence[Measured],
    warnings: Sequence[str] = (),
    skipped: Sequence[tuple[str, str]] = (),
) -> Reverberation:
    """Means over places of means over repeats. Raises InputError when nothing was measured."""
    if not measured:
        why = "; ".join(f"{name}: {reason}" for name, reason in skipped)
        raise InputError(f"no response to measure a reverberation time from{': ' + why if why else ''}")
    places = list(dict.fromkeys(m.response.place for m in measured))
    names = dict.fromkeys(d.band.name for m in measured for d in m.decays)
    order = sorted(names, key=lambda n: (n != "broadband", float(n.split()[0]) if n != "broadband" else 0))
    bands = tuple(_band(name, measured, places) for name in order)
    told = [f"{m.response.name}: {text}" for m in measured for text in m.response.warnings]
    told += _about_bands(bands) + _about_places(len(places))
    return Reverberation(bands, tuple(measured), tuple(places), (*warnings, *told), tuple(skipped))


def _band(name: str, measured: Sequence[Measured], places: Sequence[str]) -> RoomBand:
    rows = [(m.response.place, d) for m in measured for d in m.decays if d.band.name == name]
    decays = [d for _, d in rows]
    values: dict[str, RoomValue] = {}
    refused: dict[str, str] = {}
    nonlinear: dict[str, float] = {}
    for quantity in NAMES:
        by_place = [
            [d.values[quantity] for place, d in rows if place == p and quantity in d.values] for p in places
        ]
        given = [v for v in by_place if v]
        if given:
            means = np.array([np.mean([v.value for v in vs]) for vs in given])
            noise = np.array([np.sqrt(np.sum([v.noise**2 for v in vs])) / len(vs) for vs in given])
            own = np.array([np.mean([v.sigma for v in vs]) for vs in given])
            n = len(given)
            sd = float(np.std(means, ddof=1)) if n > 1 else None
            # With few places their spread may be small by chance: never less than what each is worth.
            alone = float(np.sqrt(np.sum(own**2)) / n)
            sigma = alone if sd is None else max(alone, sd / np.sqrt(n))
            again = [np.var([v.value for v in vs], ddof=1) for vs in given if len(vs) > 1]
            values[quantity] = RoomValue(
                float(means.mean()), float(sigma), float(np.sqrt(np.sum(noise**2)) / n), sd,
                float(np.sqrt(np.mean(again))) if again else None, n,
            )  # fmt: skip
            lines = [d.lines[quantity] for d in decays if quantity in d.values and quantity in d.lines]
            if lines:
                nonlinear[quantity] = float(np.median([line.nonlinearity_permille for line in lines]))
        else:
            best = max(decays, key=lambda d: d.range_db)
            refused[quantity] = best.refused[quantity]
    curvature = None
    if "t30" in values and "t20" in values:
        curvature = 100 * (values["t30"].value / values["t20"].value - 1)
    range_db = float(np.median([d.range_db for d in decays]))
    return RoomBand(decays[0].band, range_db, values, refused, nonlinear, curvature)


def _about_bands(bands: Sequence[RoomBand]) -> list[str]:
    told = []
    bent = [
        b
        for b in bands
        if b.curvature_percent is not None
        and abs(b.curvature_percent)
        > max(CURVED_PERCENT, 200 * b.values["t20"].sigma / b.values["t20"].value)
    ]
    if bent:
        words = ", ".join(f"{b.band.name} {b.curvature_percent:+.0f} %" for b in bent)
        told.append(
            f"bent decays (curvature beyond {CURVED_PERCENT:g} %, ISO 3382-2): {words}; T30 and T20 differ"
            " there: coupled spaces, a resonance, or bare walls that face each other"
        )
    rough = [b for b in bands if b.nonlinearity_permille.get("t30", 0.0) > NONLINEAR_PERMILLE]
    if rough:
        words = ", ".join(f"{b.band.name} {b.nonlinearity_permille['t30']:.0f}" for b in rough)
        told.append(f"decays that are no straight lines (non-linearity over 10 permille): {words}")
    return told


def _about_places(places: int) -> list[str]:
    if places >= ENGINEERING:
        return []
    if places >= SURVEY:
        return [f"{places} places: a survey by ISO 3382-2; {ENGINEERING} make it engineering"]
    return [
        "one place of source and microphone: it stands for the room only within its sigma; measure at more"
    ]


def _together(a: RoomValue, b: RoomValue) -> RoomValue:
    sd = None if a.sd is None or b.sd is None else float(np.hypot(a.sd, b.sd) / 2)
    repeats = None
    if a.repeat_sd is not None and b.repeat_sd is not None:
        repeats = float(np.hypot(a.repeat_sd, b.repeat_sd) / 2)
    return RoomValue(
        (a.value + b.value) / 2,
        float(np.hypot(a.sigma, b.sigma) / 2),
        float(np.hypot(a.noise, b.noise) / 2),
        sd,
        repeats,
        min(a.places, b.places),
    )
