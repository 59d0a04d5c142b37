"""Which beep belongs to which flash: the shift (and drift) under which most of them meet.

Unequal spacing makes the answer unique. With equal spacing a shift by a whole period fits as well; where that
lies within the search it is found as a second answer.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

MOST_DRIFT_PPM = 300.0
RATES = {
    "sound at 44.1 kHz that is read as 48 kHz, or the other way round": (44100 / 48000, 48000 / 44100),
    "pictures at 29.97 a second that are read as 30, or the other way round": (1.001, 1 / 1.001),
    "pictures at 24 a second that are read as 25, or the other way round": (24 / 25, 25 / 24),
    "pictures at 25 a second that are read as 30, or the other way round": (25 / 30, 30 / 25),
    "a rate that is half or double": (0.5, 2.0),
}
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Pairing:
    """pairs: (n, 2) index of flash and of beep. shift_s, drift: beep = flash + shift + drift (flash - first).
    second: how many pairs the best other shift has, and second_s that shift; rate: words for a rate that
    would fit far better, "" when none does."""

    pairs: NDArray[np.intp]
    shift_s: float
    drift: float
    second: int
    second_s: float
    rate: str


def pair_up(flashes_s: Floats, beeps_s: Floats, search_s: float, slack_s: float) -> Pairing:
    """flashes_s, beeps_s: sorted seconds on one clock. search_s: the largest shift. slack_s: how far a beep
    may be from where a flash wants it (a frame interval: flashes are only known to that here)."""
    best = _vote(flashes_s, beeps_s, search_s, slack_s)
    least = min(len(flashes_s), len(beeps_s))
    rate = ""
    if best.pairs.shape[0] < 0.7 * least and least >= 5:
        middle = float(flashes_s[0])
        for words, factors in RATES.items():
            for factor in factors:
                stretched = middle + (flashes_s - middle) * factor
                # A wrong rate also moves the beginning.
                other = _vote(stretched, beeps_s, max(search_s, 3.0), slack_s)
                count = other.pairs.shape[0]
                if count >= max(0.8 * least, 1.5 * best.pairs.shape[0]):
                    rate = words
    return Pairing(best.pairs, best.shift_s, best.drift, best.second, best.second_s, rate)


def _vote(flashes: Floats, beeps: Floats, search_s: float, slack_s: float) -> Pairing:
    none = Pairing(np.zeros((0, 2), np.intp), 0.0, 0.0, 0, 0.0, "")
    if not len(flashes) or not len(beeps):
        return none
    first = float(flashes[0])
    length = max(float(flashes[-1]) - first, 1e-9)
    differences = beeps[None, :] - flashes[:, None]
    f, b = np.nonzero(np.abs(differences) <= search_s + MOST_DRIFT_PPM * 1e-6 * length)
    if not len(f):
        return none
    values, elapsed = differences[f, b], flashes[f] - first
    steps = int(np.ceil(MOST_DRIFT_PPM * 1e-6 * length / (0.5 * slack_s)))
    best: tuple[int, float, float, float] = (0, 0.0, 0.0, np.inf)  # count, spread (less is better)
    for drift in np.arange(-steps, steps + 1) * (MOST_DRIFT_PPM * 1e-6 / max(steps, 1)):
        shifts = values - drift * elapsed
        for count, shift, spread in _peaks(shifts, f, b, slack_s)[:1]:
            if abs(shift) <= search_s and (count, -spread) > (best[0], -best[3]):
                best = (count, shift, float(drift), spread)
    count, shift, drift, _ = best
    if not count:
        return none
    shifts = values - drift * elapsed
    pairs = _pairs(shifts, f, b, shift, slack_s)
    others = [
        p
        for p in _peaks(shifts, f, b, slack_s)
        if abs(p[1] - shift) > 2.5 * slack_s and abs(p[1]) <= search_s
    ]
    second = others[0] if others else (0, 0.0, 0.0)
    return Pairing(pairs, shift, drift, second[0], second[1], "")


def _peaks(
    shifts: Floats, f: NDArray[np.intp], b: NDArray[np.intp], slack_s: float
) -> list[tuple[int, float, float]]:
    """(pairs, shift, spread) of the windows of twice the slack with most pairs, best first."""
    order = np.argsort(shifts)
    ordered = shifts[order]
    ends = np.searchsorted(ordered, ordered + 2 * slack_s, side="right")
    found: list[tuple[int, float, float]] = []
    used = np.zeros(len(ordered), bool)
    for k in np.argsort(np.arange(len(ordered)) - ends, kind="stable")[:400]:
        k = int(k)
        if used[k : ends[k]].any():
            continue
        inside = order[k : ends[k]]
        count = min(len(set(f[inside].tolist())), len(set(b[inside].tolist())))
        found.append((count, float(np.median(shifts[inside])), float(shifts[inside].std())))
        used[k : ends[k]] = True
        if len(found) >= 12:
            break
    found.sort(key=lambda item: (-item[0], item[2]))
    return found


def _pairs(
    shifts: Floats, f: NDArray[np.intp], b: NDArray[np.intp], shift: float, slack_s: float
) -> NDArray[np.intp]:
    """One beep for each flash: the nearest to where it should be, no beep twice."""
    away = np.abs(shifts - shift)
    chosen: list[tuple[int, int]] = []
    taken_f: set[int] = set()
    taken_b: set[int] = set()
    for k in np.argsort(away):
        if away[k] > 1.5 * slack_s:
            break
        if int(f[k]) not in taken_f and int(b[k]) not in taken_b:
            chosen.append((int(f[k]), int(b[k])))
            taken_f.add(int(f[k]))
            taken_b.add(int(b[k]))
    return np.array(sorted(chosen), np.intp).reshape(-1, 2)
