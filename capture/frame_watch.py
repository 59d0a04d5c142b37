"""Looks at pictures as they pass: the same one again, frozen, damaged; without decoding a JPEG."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

_NS = 1_000_000_000
_TAIL = 64  # bytes after the end marker that a camera may add as padding


@dataclass(frozen=True, slots=True)
class WatchChange:
    """The picture froze or moves again. data: for the event."""

    kind: Literal["frozen", "thawed"]
    detail: str
    data: dict[str, Any]


class FrameWatch:
    """Flags duplicates, frozen stretches and damage, and counts them. One thread at a time.

    A duplicate has the same JPEG bytes as the picture before, or the same pixels. For a codec that codes
    differences (H.264), a still scene may come out with equal pixels although the camera works: `by` in the
    event's data says what was compared.
    """

    def __init__(self) -> None:
        self._last: bytes | NDArray[np.uint8] | None = None
        self._since_ns: int | None = None  # time of the picture that the later ones are the same as
        self._same = 0
        self._frozen = False
        self.clear_counts()

    def clear_counts(self) -> None:
        """Count from zero; what was seen last stays known."""
        self.counts: Counter[str] = Counter(duplicate=0, frozen=0, damaged=0)

    def look(
        self,
        t_ns: int,
        period_ns: float,
        *,
        jpeg: bytes | None = None,
        image: NDArray[np.uint8] | None = None,
        damaged: bool = False,
    ) -> tuple[tuple[str, ...], WatchChange | None]:
        """One picture, in order: its flags, and a change if there is one.

        t_ns: its time. period_ns: between pictures; frozen is the same picture for longer than
        max(1 s, 5 periods). damaged: somebody knows already that a part is missing. The picture is kept, not
        copied, until the next: it must not be written to.
        """
        flags: list[str] = []
        change = None
        now: bytes | NDArray[np.uint8] | None = jpeg if jpeg is not None else image
        if self._is_same(now):
            self._same += 1
            flags.append("duplicate")
            self.counts["duplicate"] += 1
            assert self._since_ns is not None
            still_s = (t_ns - self._since_ns) / _NS
            if still_s > max(1.0, 5.0 * period_ns / _NS):
                flags.append("frozen")
                self.counts["frozen"] += 1
                if not self._frozen:
                    self._frozen = True
                    change = self._change("frozen", f"the same picture for {still_s:.1f} s", still_s)
        else:
            if self._frozen:
                assert self._since_ns is not None
                still_s = (t_ns - self._since_ns) / _NS
                change = self._change("thawed", f"the picture moves again after {still_s:.1f} s", still_s)
            self._since_ns, self._same, self._frozen = t_ns, 0, False
        self._last = now
        if damaged or (jpeg is not None and not (jpeg_is_whole(jpeg) and jpeg_size(jpeg))):
            flags.append("damaged")
            self.counts["damaged"] += 1
        return tuple(flags), change

    def _is_same(self, now: bytes | NDArray[np.uint8] | None) -> bool:
        last = self._last
        if isinstance(now, bytes) or isinstance(last, bytes):
            return isinstance(now, bytes) and isinstance(last, bytes) and now == last
        if now is None or last is None or now.shape != last.shape:
            return False
        # A coarse grid settles nearly every picture; only when it agrees, all pixels are compared.
        return bool(np.array_equal(now[::16, ::16], last[::16, ::16]) and np.array_equal(now, last))

    def _change(self, kind: Literal["frozen", "thawed"], detail: str, still_s: float) -> WatchChange:
        data = {
            "since_ns": self._since_ns,
            "still_s": round(still_s, 3),
            "duplicates": self._same,
            "by": "bytes" if isinstance(self._last, bytes) else "pixels",
        }
        return WatchChange(kind, detail, data)


def jpeg_is_whole(data: bytes) -> bool:
    """Whether a JPEG has its start and its end (padding after it is allowed). It is not decoded, so bytes
    that are wrong in the middle are not found."""
    if not data.startswith(b"\xff\xd8"):
        return False
    if data.endswith(b"\xff\xd9"):
        return True
    return data.rstrip(b"\0").endswith(b"\xff\xd9") or data.rfind(b"\xff\xd9", -_TAIL) >= 0


def jpeg_size(data: bytes) -> tuple[int, int] | None:
    """(width, height) px from a JPEG's frame header (ITU-T T.81, B.2.2); None when it has none."""
    at = 2
    while data.startswith(b"\xff\xd8") and at + 9 <= len(data):
        if data[at] != 0xFF:
            return None
        marker = data[at + 1]
        if marker == 0xFF:  # a fill byte
            at += 1
            continue
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            height = int.from_bytes(data[at + 5 : at + 7], "big")
            width = int.from_bytes(data[at + 7 : at + 9], "big")
            return (width, height) if width and height else None
        if marker == 0xDA:
            return None  # pixels begin, and no frame header came
        at += (
            2
            if 0xD0 <= marker <= 0xD8 or marker == 0x01
            else 2 + int.from_bytes(data[at + 2 : at + 4], "big")
        )
    return None
