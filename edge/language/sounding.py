"""How alike two sentences sound, from their spelling: a weighted edit distance over rough sound classes.

Rough on purpose: it only chooses which sentences a recogniser compares by their acoustic score. A change
within a class (b for p, any vowel for any vowel) costs less than one across (Zobel and Dart's "editex",
SIGIR 1996, works the same way for names).
"""

from __future__ import annotations

import re

import numpy as np
from numba import njit
from numpy.typing import NDArray

_SPELLINGS = (
    ("ough", "o"), ("tion", "Sn"), ("igh", "Y"), ("eigh", "A"), ("dge", "J"), ("tch", "C"), ("sh", "S"),
    ("ch", "C"), ("th", "T"), ("ph", "f"), ("wh", "w"), ("wr", "r"), ("kn", "n"), ("ck", "k"), ("ng", "N"),
    ("qu", "kw"), ("ee", "i"), ("ea", "i"), ("oo", "u"), ("ai", "A"), ("ay", "A"), ("oa", "o"), ("x", "ks"),
    ("ce", "se"), ("ci", "si"), ("c", "k"), ("q", "k"), ("j", "J"), ("y", "i"),
)  # fmt: skip
_CLASSES = ("pb", "td", "kg", "fvb", "szSCJ", "mnN", "lr", "wu", "Tfsv", "aeiouAY")
_ALPHABET = "abcdefghiklmnoprstuvwzSCJTNAY "
_CODE = {letter: index for index, letter in enumerate(_ALPHABET)}


def _costs() -> NDArray[np.float32]:
    cost = np.ones((len(_ALPHABET), len(_ALPHABET)), np.float32)
    for group in _CLASSES:
        for one in group:
            for other in group:
                cost[_CODE[one], _CODE[other]] = 0.5
    cost[_CODE[" "], :] = cost[:, _CODE[" "]] = 1.2
    np.fill_diagonal(cost, 0.0)
    return cost


COST = _costs()
# Leaving out or adding: word gaps, vowels and h are easily lost, other sounds less so.
GAP = np.array([0.3 if c == " " else 0.6 if c in "aeiouAYh" else 0.9 for c in _ALPHABET], np.float32)


def sounds(words: str) -> NDArray[np.int8]:
    """Rough sound classes of lower-case words, one code per sound."""
    text = re.sub(r"([a-z])\1+", lambda m: m[0] if m[1] in "eo" else m[1], words)
    text = re.sub(r"(?<=[^aeiou ])e\b", "", text)
    for spelling, sound in _SPELLINGS:
        text = text.replace(spelling, sound)
    return np.array([_CODE[c] for c in text if c in _CODE], np.int8)


def sounds_of_all(words: str) -> NDArray[np.int8]:
    """The sounds of a sentence, word after word, without the gaps between them: nobody hears those."""
    codes = [sounds(word) for word in words.split()]
    return np.concatenate(codes) if codes else np.zeros(0, np.int8)


@njit(cache=True)
def _distance(
    one: NDArray[np.int8], other: NDArray[np.int8], cost: NDArray[np.float32], gap: NDArray[np.float32]
) -> float:  # pragma: no cover - compiled
    row = np.zeros(len(other) + 1, np.float32)
    for j in range(len(other)):
        row[j + 1] = row[j] + gap[other[j]]
    for i in range(len(one)):
        diagonal = row[0]
        row[0] += gap[one[i]]
        for j in range(len(other)):
            best = min(row[j + 1] + gap[one[i]], row[j] + gap[other[j]], diagonal + cost[one[i], other[j]])
            diagonal = row[j + 1]
            row[j + 1] = best
    return row[len(other)]


def distance(one: str, other: str) -> float:
    """Weighted edits between the sounds of two lower-case sentences; 0 for equal ones."""
    return float(_distance(sounds(one), sounds(other), COST, GAP))
