"""Where the line under the arrivals steps: sound that was lost (later from then on), or a host that became
quicker (earlier from then on).

Arrivals scatter, so a step is looked for in the *earliest* arrival of the seconds that follow: a burst of
load makes blocks late and ends; after a loss no block is ever as early again.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from recordings.clock_fit import Floats, edge_of, rough_slope

_AHEAD_S = 10.0  # a load that lasts longer and does not end before the take does looks like a loss
_MERGE_S = 0.5  # the last early block before a loss may lie so far before it
_FLOOR_S = 2e-3  # a smaller step is not called a loss ...
_FLOOR_FLAGGED_S = 0.5e-3  # ... unless the host said that it lost something
_FEW_BATCHES = 5
_TIGHT_S = 50e-6
_FLAG_NEAR_S = 1.0  # a flag so near says where the loss was


@dataclass(frozen=True)
class Step:
    """index: of the first block after it. size_s: positive when later. flagged: by the host."""

    index: int
    size_s: float
    flagged: bool


def find_steps(x_s: Floats, late_s: Floats, flagged: NDArray[np.bool_]) -> list[Step]:
    """The steps of the earliest arrivals, by index.

    x_s (n,): rising nominal times of the blocks; late_s (n,): observed minus nominal; flagged (n,): the host
    reported lost input before that block.
    """
    if len(x_s) < 16 or x_s[-1] - x_s[0] < 1.0:
        return []
    late = late_s - rough_slope(x_s, late_s) * x_s
    per_s = (len(x_s) - 1) / (x_s[-1] - x_s[0])
    search = _Search(late, late_s + x_s, flagged, per_s)
    return search.steps()


def host_delays(steps: list[Step]) -> list[tuple[int, int]]:
    """(rise, fall) positions in `steps` of rises that were taken back within two minutes: the host was late
    for a while, nothing was lost. A flag does not help: the sound that followed came in time again."""
    pairs = []
    for i, rise in enumerate(steps):
        if rise.size_s <= 0:
            continue
        for j in range(i + 1, len(steps)):
            fall = steps[j]
            if fall.size_s < 0 and abs(rise.size_s + fall.size_s) < max(1e-3, 0.1 * rise.size_s):
                pairs.append((i, j))
            if fall.size_s < 0:
                break
    return pairs


class _Search:
    def __init__(self, late: Floats, arrival_s: Floats, flagged: NDArray[np.bool_], per_s: float) -> None:
        from scipy.ndimage import minimum_filter1d

        self.late, self.flags, self.n = late, np.flatnonzero(flagged), len(late)
        self.ahead = max(int(_AHEAD_S * per_s), 8)
        self.merge = max(int(_MERGE_S * per_s), 2)
        self.near = max(int(_FLAG_NEAR_S * per_s), 2)
        size = self.ahead
        # minimum of late[i : i + size] and of late[i - size + 1 : i + 1]
        self.future = minimum_filter1d(late, size, mode="nearest", origin=-(size // 2))
        self.past = minimum_filter1d(late, size, mode="nearest", origin=(size - 1) // 2)
        # A batch of blocks is one observation: the earliest of it counts.
        apart = np.diff(arrival_s, prepend=arrival_s[0] - 1.0)
        self.batch = np.cumsum(apart > 0.25 / per_s)
        level = np.maximum(self.future, self.past)
        lowest = np.full(self.batch[-1] + 1, np.inf)
        np.minimum.at(lowest, self.batch, late - level)
        self.scatter = np.sort(np.clip(lowest[np.isfinite(lowest)], 0.0, None))

    def limit(self, before: int, after: int, floor_s: float) -> float:
        """How much later than before all of so few batches are once in ten million times by chance."""
        few = max(min(before, after), 1)
        share = 1.0 - float(np.exp(-16.0 / few))
        return max(floor_s, 1.5 * float(np.quantile(self.scatter, share)))

    def steps(self) -> list[Step]:
        found: dict[int, Step] = {}
        for index in self._rises():
            flag = self._flag_near(index)
            found[index if flag is None else flag] = Step(
                index if flag is None else flag, 0.0, flag is not None
            )
        for flag in self.flags.tolist():
            found.setdefault(flag, Step(flag, 0.0, True))
        for index in self._falls():
            found.setdefault(index, Step(index, 0.0, False))
        return self._keep(sorted(found.values(), key=lambda step: step.index))

    def _rises(self) -> list[int]:
        """Blocks from which on everything is later for `ahead` blocks."""
        rise = self.future[self.merge :] - self.future[: -self.merge]
        found = []
        for begin, end in _runs(rise > 0.7 * _FLOOR_S):
            after = self.future[min(end + self.merge, self.n - 1)]
            before = self.future[begin]
            inside = np.arange(begin, min(end + self.merge + 1, self.n))
            early = inside[self.late[inside] < before + 0.5 * (after - before)]
            found.append(int(early[-1]) + 1 if len(early) else begin + 1)
        return [i for i in found if i < self.n]

    def _falls(self) -> list[int]:
        fall = self.past[self.merge :] - self.past[: -self.merge]
        found = []
        for begin, end in _runs(fall < -0.7 * _FLOOR_S):
            after, before = self.past[end + self.merge - 1], self.past[begin]
            inside = np.arange(begin, min(end + self.merge + 1, self.n))
            early = inside[self.late[inside] < before + 0.1 * (after - before)]
            if len(early):
                found.append(int(early[0]))
        return found

    def _flag_near(self, index: int) -> int | None:
        if not len(self.flags):
            return None
        nearest = int(self.flags[np.argmin(np.abs(self.flags - index))])
        return nearest if abs(nearest - index) <= self.near else None

    def _keep(self, steps: list[Step]) -> list[Step]:
        """Drop the least certain step until all are beyond chance, each measured between its neighbours."""
        while steps:
            edges = [0, *(step.index for step in steps), self.n]
            sized, worst, excess = [], -1, 1.0
            for i, step in enumerate(steps):
                a = max(edges[i], step.index - self.ahead)
                b = min(edges[i + 2], step.index + self.ahead)
                if a == step.index or b == step.index:
                    sized.append(step)
                    worst, excess = i, 0.0
                    continue
                left, right = self.late[a : step.index], self.late[step.index : b]
                size = float((right.min() - edge_of(right)) - (left.min() - edge_of(left)))
                sized.append(Step(step.index, size, step.flagged))
                batches = (
                    self.batch[step.index - 1] - self.batch[a] + 1,
                    self.batch[b - 1] - self.batch[step.index] + 1,
                )
                floor_s = _FLOOR_FLAGGED_S if step.flagged else _FLOOR_S
                limit = self.limit(int(batches[0]), int(batches[1]), floor_s)
                if step.flagged and size < 0:
                    limit = max(limit, _FLOOR_S)
                if abs(size) / limit < excess:
                    worst, excess = i, abs(size) / limit
            if worst < 0:
                worst = self._load_before_loss(sized)
            if worst < 0:
                return self._placed(sized)
            del steps[worst]
        return []

    def _placed(self, steps: list[Step]) -> list[Step]:
        """Losses without a flag, each after the last block that came too early to be behind it."""
        ends = [*(step.index for step in steps[1:]), self.n]
        found = []
        for step, end in zip(steps, ends, strict=True):
            begin = step.index + (self.ahead // 2 if end - step.index > self.ahead else self.merge)
            begin = min(begin, end)
            after = self.late[begin : min(begin + self.ahead, end)]
            if step.flagged or step.size_s < 0 or len(after) < self.merge:
                found.append(step)
                continue
            near = np.arange(max(step.index - self.merge, 0), begin)
            before = near[self.late[near] < after.min() - 3 * edge_of(after) - _TIGHT_S]
            found.append(Step(int(before[-1]) + 1 if len(before) else step.index, step.size_s, False))
        return found

    def _load_before_loss(self, steps: list[Step]) -> int:
        """Index of a rise that is only the load which led to a loss soon after, or was left by one; else -1.
        Under load arrivals scatter more than usual, after a loss they scatter as before."""
        usual = 2.5 * float(np.median(self.scatter)) + 1e-4
        for i, one in enumerate(steps):
            end = steps[i + 1].index if i + 1 < len(steps) else self.n
            follows = steps[i + 1].size_s if i + 1 < len(steps) else 0.0
            if one.size_s <= 0 or follows < 0 or end - one.index > self.ahead // 2:
                continue
            _, first = np.unique(self.batch[one.index : end], return_index=True)
            lowest = np.minimum.reduceat(self.late[one.index : end], first)
            if len(lowest) >= _FEW_BATCHES and np.median(lowest) - lowest.min() <= usual:
                continue  # a stall hands over everything at once: too few to tell, and no loss by itself
            smaller = i if i + 1 == len(steps) or one.size_s < follows else i + 1
            if steps[smaller].flagged and i + 1 < len(steps):
                smaller = 2 * i + 1 - smaller
            if not steps[smaller].flagged:
                return smaller
        return -1


def _runs(mask: NDArray[np.bool_]) -> list[tuple[int, int]]:
    """First and last index of each run of True."""
    edges = np.diff(np.r_[False, mask, False].astype(np.int8))
    return list(
        zip(np.flatnonzero(edges == 1).tolist(), (np.flatnonzero(edges == -1) - 1).tolist(), strict=True)
    )
