"""CPU time of a piece of work, for the comparisons."""

from __future__ import annotations

import time
from collections.abc import Callable


def best_ms(run: Callable[[], object], seconds: float, repeats: int = 7) -> float:
    """CPU milliseconds per second of audio, best of several after one that warms up.

    seconds: of audio that one call of `run` works on.
    """
    run()
    best = float("inf")
    for _ in range(repeats):
        start = time.process_time()
        run()
        best = min(best, time.process_time() - start)
    return 1e3 * best / seconds
