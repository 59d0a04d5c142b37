"""A regular grammar of requests as a graph of words, and the search in it for what sounds like something.

Patterns: words, `(a|b)`, `[optional]`, `<rule>`. A rule may not contain itself, so the graph has no cycle and
is as small as its patterns. `WordGraph.nearest` aligns what was heard, sound by sound, with every sentence of
the grammar at once (the recurrence of Wagner and Fischer over the graph's states instead of over one string,
forwards and backwards), and gives for each word of the grammar the best sentence through it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numba import njit
from numpy.typing import NDArray

from edge.language.sounding import COST, GAP, sounds, sounds_of_all

F32 = NDArray[np.float32]
I32 = NDArray[np.int32]
JOIN = -1  # a state without a sound
_TOKEN = re.compile(r"[\w']+|<\w+>|[()|\[\]]|\{[\d.]+\}")


@dataclass
class _Builder:
    """States in topological order: sound (or JOIN), word that ends here, predecessors, extra cost."""

    rules: Mapping[str, Sequence[str]]
    sound: list[int] = field(default_factory=list)
    word: list[int] = field(default_factory=list)
    before: list[list[int]] = field(default_factory=list)
    extra: list[float] = field(default_factory=list)
    words: list[str] = field(default_factory=list)
    shared: dict[tuple[int, int], int] = field(default_factory=dict)
    spelt: dict[tuple[int, str], int] = field(default_factory=dict)

    def state(self, sound: int, before: list[int], word: int = -1, extra: float = 0.0) -> int:
        self.sound.append(sound)
        self.word.append(word)
        self.before.append(before)
        self.extra.append(extra)
        return len(self.sound) - 1

    def join(self, ends: list[int], extra: float = 0.0) -> int:
        ends = list(dict.fromkeys(ends))
        return ends[0] if len(ends) == 1 and not extra else self.state(JOIN, ends, extra=extra)

    def spell(self, word: str, at: int) -> int:
        """States of a word; words that begin alike at the same place share their beginning."""
        if (at, word) in self.spelt:
            return self.spelt[at, word]
        self.words.append(word)
        codes = [int(code) for code in sounds(word)]
        here = at
        for code in codes[:-1]:
            if (here, code) not in self.shared:
                self.shared[here, code] = self.state(code, [here])
            here = self.shared[here, code]
        self.spelt[at, word] = self.state(codes[-1], [here], len(self.words) - 1)
        return self.spelt[at, word]

    def rule(self, name: str, at: int) -> int:
        return self.join([self.pattern(pattern, at) for pattern in self.rules[name]])

    def pattern(self, pattern: str, at: int) -> int:
        tokens = _TOKEN.findall(pattern)
        end, place = self._choice(tokens, 0, at)
        if place != len(tokens):
            raise ValueError(f"unbalanced pattern: {pattern!r}")
        return end

    def _choice(self, tokens: list[str], place: int, at: int) -> tuple[int, int]:
        ends = []
        here = at
        while place < len(tokens) and tokens[place] not in (")", "]"):
            token = tokens[place]
            if token == "|":
                ends.append(here)
                here = at
                place += 1
            elif token in ("(", "["):
                end, place = self._choice(tokens, place + 1, here)
                here = self.join([here, end]) if token == "[" else end
                place += 1
            elif token[0] == "<":
                here = self.rule(token[1:-1], here)
                place += 1
            elif token[0] == "{":
                here = self.state(JOIN, [here], extra=float(token[1:-1]))
                place += 1
            else:
                here = self.spell(token, here)
                place += 1
        return self.join([*ends, here]), place


class WordGraph:
    """All sentences of `rules["start"]`; rules: name -> patterns. `{0.7}` in a pattern is a cost.

    Raises KeyError for a rule that is not there, ValueError for an unbalanced pattern.
    """

    def __init__(self, rules: Mapping[str, Sequence[str]]) -> None:
        builder = _Builder(rules)
        first = builder.state(JOIN, [])
        last = builder.rule("start", first)
        builder.state(JOIN, [last])
        self.words = builder.words
        self._sound = np.array(builder.sound, np.int32)
        self._word = np.array(builder.word, np.int32)
        self._extra = np.array(builder.extra, np.float32)
        self._before, self._before_at = _rows(builder.before)
        after: list[list[int]] = [[] for _ in builder.before]
        for state, sources in enumerate(builder.before):
            for source in sources:
                after[source].append(state)
        self._after, self._after_at = _rows(after)

    def __len__(self) -> int:
        return len(self._sound)

    def nearest(self, heard: str, count: int) -> list[tuple[str, float]]:
        """Up to `count` sentences with their distance (weighted edits), nearest first."""
        codes = sounds_of_all(heard)
        if not len(codes):
            return []
        heard_sounds = codes.astype(np.int32)
        forward = _forward(heard_sounds, self._sound, self._extra, self._before, self._before_at, COST, GAP)
        backward = _backward(heard_sounds, self._sound, self._extra, self._after, self._after_at, COST, GAP)
        total = (forward + backward).min(axis=1)
        ends = np.flatnonzero(self._word >= 0)
        order = ends[np.argsort(total[ends], kind="stable")]
        found: dict[str, float] = {}
        passed: dict[int, float] = {}  # states of sentences that are found, with the least distance so far
        for state in order:
            if _close(passed.get(int(state), np.inf), total[state]):
                continue  # its best sentence is found
            at = int(np.argmin(forward[state] + backward[state]))
            path = self._trace(int(state), at, heard_sounds, forward, backward)
            passed.update({step: min(passed.get(step, np.inf), float(total[state])) for step in path})
            found.setdefault(" ".join(self.words[self._word[step]] for step in path), float(total[state]))
            if len(found) >= count:
                break
        return sorted(found.items(), key=lambda item: item[1])

    def _trace(self, state: int, at: int, heard: I32, forward: F32, backward: F32) -> list[int]:
        """The states that end the words of the best sentence through a state after `at` sounds."""
        path: list[int] = []
        step: tuple[int, int] | None = (state, at)
        while step is not None:
            if self._word[step[0]] >= 0:
                path.append(step[0])
            step = self._step_back(*step, heard, forward)
        path.reverse()
        step = self._step_on(state, at, heard, backward)
        while step is not None:
            if self._word[step[0]] >= 0:
                path.append(step[0])
            step = self._step_on(*step, heard, backward)
        return path

    def _step_back(self, state: int, t: int, heard: I32, forward: F32) -> tuple[int, int] | None:
        while t > 0 and _close(forward[state, t], forward[state, t - 1] + GAP[heard[t - 1]]):
            t -= 1
        sources = self._before[self._before_at[state] : self._before_at[state + 1]]
        if not len(sources):
            return None
        cost = forward[state, t] - self._extra[state]
        sound = self._sound[state]
        if sound == JOIN:
            return int(sources[np.argmin(forward[sources, t])]), t
        skipped = sources[np.argmin(forward[sources, t])]
        if t > 0:
            matched = sources[np.argmin(forward[sources, t - 1])]
            if _close(cost, forward[matched, t - 1] + COST[heard[t - 1], sound]):
                return int(matched), t - 1
        return int(skipped), t

    def _step_on(self, state: int, t: int, heard: I32, backward: F32) -> tuple[int, int] | None:
        while t < len(heard) and _close(backward[state, t], backward[state, t + 1] + GAP[heard[t]]):
            t += 1
        best: tuple[int, int] | None = None
        lowest = np.inf
        for target in self._after[self._after_at[state] : self._after_at[state + 1]]:
            sound, extra = self._sound[target], self._extra[target]
            if sound == JOIN:
                options = [(backward[target, t] + extra, t)]
            else:
                options = [(backward[target, t] + extra + GAP[sound], t)]
                if t < len(heard):
                    options.append((backward[target, t + 1] + extra + COST[heard[t], sound], t + 1))
            for cost, moment in options:
                if cost < lowest:
                    lowest, best = float(cost), (int(target), moment)
        return best


def _close(one: float, other: float) -> bool:
    return bool(abs(one - other) < 1e-3)


def _rows(lists: list[list[int]]) -> tuple[I32, I32]:
    flat = np.array([item for row in lists for item in row], np.int32)
    return flat, np.concatenate([[0], np.cumsum([len(row) for row in lists])]).astype(np.int32)


@njit(cache=True)
def _forward(
    heard: I32, sound: I32, extra: F32, before: I32, before_at: I32, cost: F32, gap: F32
) -> F32:  # pragma: no cover - compiled
    """(states, sounds + 1): least cost of having heard so many sounds at the end of each state."""
    length, states = len(heard), len(sound)
    table = np.empty((states, length + 1), np.float32)
    near = np.empty(length + 1, np.float32)
    for s in range(states):
        own, first, last = sound[s], before_at[s], before_at[s + 1]
        row = table[s]
        near[:] = np.float32(1e9)
        if first == last:
            near[0] = np.float32(0.0)
        for k in range(first, last):
            other = table[before[k]]
            for t in range(length + 1):
                near[t] = min(near[t], other[t])
        if own < 0:
            for t in range(length + 1):
                row[t] = near[t] + extra[s]
        else:
            row[0] = near[0] + gap[own] + extra[s]
            for t in range(1, length + 1):
                row[t] = min(near[t] + gap[own], near[t - 1] + cost[heard[t - 1], own]) + extra[s]
        for t in range(1, length + 1):
            row[t] = min(row[t], row[t - 1] + gap[heard[t - 1]])
    return table


@njit(cache=True)
def _backward(
    heard: I32, sound: I32, extra: F32, after: I32, after_at: I32, cost: F32, gap: F32
) -> F32:  # pragma: no cover - compiled
    """(states, sounds + 1): least cost of what follows each state, when so many sounds were heard by then."""
    length, states = len(heard), len(sound)
    table = np.empty((states, length + 1), np.float32)
    entered = np.empty((states, length + 1), np.float32)  # with the cost of stepping into the state
    for s in range(states - 1, -1, -1):
        first, last = after_at[s], after_at[s + 1]
        row, step, own = table[s], entered[s], sound[s]
        row[:] = np.float32(1e9)
        if first == last:
            row[length] = np.float32(0.0)
        for k in range(first, last):
            other = entered[after[k]]
            for t in range(length + 1):
                row[t] = min(row[t], other[t])
        for t in range(length - 1, -1, -1):
            row[t] = min(row[t], row[t + 1] + gap[heard[t]])
        if own < 0:
            for t in range(length + 1):
                step[t] = row[t] + extra[s]
        else:
            step[length] = row[length] + gap[own] + extra[s]
            for t in range(length):
                step[t] = min(row[t] + gap[own], row[t + 1] + cost[heard[t], own]) + extra[s]
    return table
