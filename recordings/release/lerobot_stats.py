"""Statistics of a LeRobot release: per feature min, max, mean, std, count and five quantiles."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Stats = dict[str, NDArray[Any]]
QUANTILES = {"q01": 0.01, "q10": 0.1, "q50": 0.5, "q90": 0.9, "q99": 0.99}


def of_values(values: NDArray[Any]) -> Stats:
    """Of the rows (n, width) of a feature: each (width,), and count (1,)."""
    x = values.astype(np.float64)
    found = {"min": x.min(0), "max": x.max(0), "mean": x.mean(0), "std": x.std(0)}
    found |= {name: np.quantile(x, q, axis=0) for name, q in QUANTILES.items()}
    return {**found, "count": np.array([len(x)])}


def of_histogram(counts: NDArray[np.int64], pictures: int) -> Stats:
    """Of pictures by how often each value occurs, (3, 256): each (3, 1, 1), values 0 to 1, and count (1,)."""
    levels = np.arange(256) / 255.0
    total = counts.sum(1, keepdims=True)
    mean = (counts * levels).sum(1, keepdims=True) / total
    std = np.sqrt((counts * (levels - mean) ** 2).sum(1, keepdims=True) / total)
    there = counts > 0
    below = np.cumsum(counts, axis=1) / total
    found = {
        "min": levels[there.argmax(1)],
        "max": levels[255 - there[:, ::-1].argmax(1)],
        "mean": mean,
        "std": std,
        **{name: levels[(below >= q).argmax(1)] for name, q in QUANTILES.items()},
    }
    return {**{name: value.reshape(3, 1, 1) for name, value in found.items()}, "count": np.array([pictures])}


def plain(stats: Stats) -> dict[str, Any]:
    """As JSON holds it."""
    return {name: value.tolist() for name, value in stats.items()}
