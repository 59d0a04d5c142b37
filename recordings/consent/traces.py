"""What the data of a person (or of episodes past their date) is recognised by.

Hashes of whole files, 32 bytes picked from every 16 KiB of sound and pictures (found again wherever the bytes
were copied into another container), names, ids of episodes, and requests that nobody else was given.
"""

from __future__ import annotations

import html
import json
import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import IO, Any
from urllib.parse import quote

import numpy as np
from numpy.typing import NDArray

EMPTY = sha256(b"").hexdigest()
_HEX = re.compile(rb"(?<![0-9a-f])[0-9a-f]{64}(?![0-9a-f])")
_BLOCK = 1 << 22
_ANCHOR_BYTES = 32
_ANCHOR_EVERY = 1 << 14
_TABLE_BITS = 20
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)  # Fibonacci hashing (Knuth, TAOCP 3, 6.4)


def words(names: Iterable[str], *, inside: str = r"\w-", called: bool = False) -> re.Pattern[str] | None:
    """A pattern for whole words, each as it is, as JSON and HTML escape it and as an address holds it; None
    for no words. inside: the characters that would make it a part of a longer word. called: names of a
    person, in capitals or not, also with the s of a genitive."""
    forms: set[str] = set()
    for name in names:
        for text in (unicodedata.normalize("NFC", name), unicodedata.normalize("NFD", name)):
            forms |= {text, json.dumps(text)[1:-1], html.escape(text), quote(text)}
    if not forms:
        return None
    longest = sorted(forms, key=lambda form: (-len(form), form))
    parts = "|".join(r"\s+".join(map(re.escape, form.split())) for form in longest)
    if called:
        return re.compile(f"(?<![{inside}])(?:{parts})(?:['\u2019]?s)?(?![{inside}])", re.IGNORECASE)
    return re.compile(f"(?<![{inside}])(?:{parts})(?![{inside}])")


@dataclass
class Traces:
    """What is looked for. `names` is empty when only episodes go, not a person."""

    pseudonym: str
    names: set[str] = field(default_factory=set)
    episodes: set[str] = field(default_factory=set)  # <session>/<episode folder>
    ids: set[str] = field(default_factory=set)  # bare ids that no other episode has
    phrases: set[str] = field(default_factory=set)  # requests that no other episode and no plan has
    hashes: set[str] = field(default_factory=set)
    anchors: set[bytes] = field(default_factory=set)
    sound: set[bytes] = field(default_factory=set)  # anchors of their sound, whoever else has it as well

    def to_dict(self) -> dict[str, Any]:
        """As JSON holds it."""
        texts = ("names", "episodes", "ids", "phrases", "hashes")
        lists: dict[str, Any] = {key: sorted(getattr(self, key)) for key in texts}
        return {
            "pseudonym": self.pseudonym,
            **lists,
            "anchors": sorted(anchor.hex() for anchor in self.anchors),
            "sound": sorted(anchor.hex() for anchor in self.sound),
        }

    @classmethod
    def from_dict(cls, plain: dict[str, Any]) -> Traces:
        """The reverse of `to_dict`."""
        bytes_of = ("anchors", "sound")
        sets: dict[str, Any] = {
            key: {bytes.fromhex(text) for text in value} if key in bytes_of else set(value)
            for key, value in plain.items()
            if key != "pseudonym"
        }
        return cls(plain["pseudonym"], **sets)

    def name_pattern(self) -> re.Pattern[str] | None:
        """Names as whole words in text."""
        return words(self.names, inside=r"\w", called=True)

    def in_file_name(self, name: str) -> bool:
        """Whether a file or folder is called after the person; '_', '-' and '.' end a word there."""
        pattern = words(self.names, inside="A-Za-z0-9", called=True)
        return pattern is not None and pattern.search(unicodedata.normalize("NFC", name)) is not None

    def names_a_hash(self, data: bytes) -> bool:
        """Whether text holds the SHA-256 of something that goes."""
        return any(found.group().decode() in self.hashes for found in _HEX.finditer(data))


def pick_anchors(path: Path) -> set[bytes]:
    """32 bytes from each 16 KiB of a file (at least eight places), where they are varied enough to mean
    something."""
    size = path.stat().st_size
    step = max(_ANCHOR_BYTES, min(_ANCHOR_EVERY, size // 8))
    found = set()
    with open(path, "rb") as file:
        for at in range(step // 2, size - _ANCHOR_BYTES, step):
            file.seek(at)
            anchor = file.read(_ANCHOR_BYTES)
            if len(anchor) == _ANCHOR_BYTES and len(set(anchor)) >= 16:
                found.add(anchor)
    return found


class AnchorSearch:
    """Finds anchors at any offset of a stream, and hashes it on the way."""

    def __init__(self, anchors: Iterable[bytes]) -> None:
        self._anchors = set(anchors)
        self._table = np.zeros(1 << _TABLE_BITS, np.bool_)
        heads = np.array([int.from_bytes(a[:8], "little") for a in self._anchors], np.uint64)
        self._table[self._slot(heads)] = True

    @staticmethod
    def _slot(heads: NDArray[np.uint64]) -> NDArray[np.uint64]:
        return (heads * _MULTIPLIER) >> np.uint64(64 - _TABLE_BITS)

    def read(self, stream: IO[bytes]) -> tuple[str, set[bytes], int]:
        """(SHA-256, anchors that are in it, bytes) of what is left of a stream."""
        digest, found, size = sha256(), set(), 0
        tail = b""
        while block := stream.read(_BLOCK):
            digest.update(block)
            size += len(block)
            if self._anchors:
                data = tail + block
                found |= self._in(data)
                tail = data[-(_ANCHOR_BYTES - 1) :]
        return digest.hexdigest(), found, size

    def _in(self, data: bytes) -> set[bytes]:
        found = set()
        for phase in range(8):
            count = (len(data) - phase) // 8
            if count <= 0:
                break
            heads = np.frombuffer(data, "<u8", count, phase)
            for index in np.flatnonzero(self._table[self._slot(heads)]):
                at = phase + 8 * int(index)
                candidate = data[at : at + _ANCHOR_BYTES]
                if candidate in self._anchors:
                    found.add(candidate)
        return found
