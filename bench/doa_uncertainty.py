"""Fits what `dsp.doa` says about its own error, CLIP_FIT and ROW_FIT: `python -m bench.doa_uncertainty`.

Rooms like the plain ones of `bench.doa_training` (talkers, capsules at 14.7 mm, white noise), other seeds;
whole clips of 1 to 2 s, and rows of 100 ms. log(uncertainty) is linear in the logs of the votes' scatter, of
their effective number and of their share near the peak; the weights by maximum likelihood with heavy tails
(radial t of 3 degrees of freedom), the constant by the share of errors within. With the other microphones,
noises and voices of the training fewer lie within (60 % of talkers' clips, 36 % of steady devices'), so the
constant is somewhat cautious. Prints the constants and how well each range of stated uncertainty holds on
rooms that were not fitted.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize

import dsp
from bench.doa_rooms import FS, speech_clips
from bench.doa_training import CLIPS, example
from bench.figures import note
from dsp import doa, histogram
from dsp.votes import VoteCounter

F64 = npt.NDArray[np.float64]
SEED = 403
ROOMS = 300
WITHIN = 0.72
_LENGTHS_S = (1.0, 1.5, 2.0)


def _error(peak: F64, truth: F64) -> float:
    return float(np.degrees(np.arccos(np.clip(peak[:3] @ truth, -1, 1))))


def _measure() -> tuple[F64, F64]:
    """(clips, rows): (n, 5) error in degrees, three features, room number."""
    clips = speech_clips()
    of_clips, of_rows = [], []
    for room in range(ROOMS):
        x, truth, _ = example(CLIPS // 2 + room, clips, SEED)
        peak = np.zeros(8)
        for seconds in _LENGTHS_S:
            counter, cells = VoteCounter(FS), histogram.empty()
            size = counter.plan.row
            last = int(seconds * FS) // size * size
            for start in range(0, last, size):
                counter.add_row(x[start : start + size], cells)
            if doa._find_peak(cells, peak) and doa._confidence(peak[3], peak[5]) > 0.05:
                of_clips.append([_error(peak, truth), *doa._traits(peak), room])
        estimator = dsp.DoaEstimator(FS)
        for start in range(0, len(x) - 2399, 2400):
            frame = estimator.push(x[start : start + 2400])[0]
            if start >= 4800 and frame.confidence > 0.05:
                of_rows.append([_error(estimator._peak, truth), *doa._traits(estimator._peak), room])
        if room % 50 == 49:
            note(f"{room + 1} of {ROOMS} rooms")
    return np.array(of_clips), np.array(of_rows)


def _fit(data: F64) -> F64:
    errors = np.maximum(data[:, 0], 0.15)
    traits = np.column_stack([np.ones(len(data)), data[:, 1:4]])

    def cost(weights: F64) -> float:
        log_u = traits @ weights
        return float(np.mean(2 * log_u + 2.5 * np.log1p((errors / np.exp(log_u)) ** 2 / 3)))

    options = {"maxiter": 8000, "maxfev": 8000, "xatol": 1e-4, "fatol": 1e-7}
    best = minimize(cost, [1.0, 0.5, 0.0, 0.0], method="Nelder-Mead", options=options).x
    best[0] += np.quantile(np.log(errors) - traits @ best, WITHIN)
    return np.asarray(best)


def main() -> None:
    for name, data in zip(("CLIP_FIT", "ROW_FIT"), _measure(), strict=True):
        fitted = _fit(data)
        print(f"{name} = ({', '.join(f'{v:.3f}' for v in fitted)})  # {len(data)} estimates")
        half = data[:, 4] % 4 < 2
        held = _fit(data[half])
        other = data[~half]
        u = np.exp(held[0] + other[:, 1:4] @ held[1:])
        for low, high in ((0, 2), (2, 5), (5, 8), (8, 12), (12, 20), (20, 90), (0, 90)):
            part = (u >= low) & (u < high)
            if part.any():
                share = 100 * np.mean(other[part, 0] <= u[part])
                print(f"  stated {low} to {high} deg: {share:.0f} % within, n {part.sum()} (not fitted)")


if __name__ == "__main__":
    main()
