"""Counting what did not arrive: lost, reordered, repeated and restarted messages, by sequence numbers."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

_REMEMBERED = 4096  # missing numbers kept, to know a late message from a repeated one


@dataclass(slots=True)
class StreamCount:
    """What one subscriber saw of one stream.

    received:   messages that arrived, each once.
    lost:       numbers that were skipped and have not come since. For streams with delivery "latest" a
                skipped picture is the agreed behaviour when the reader is slow.
    reordered:  messages that came after a later one (not counted as lost).
    repeated:   messages that came twice; dropped.
    restarted:  times the publisher began a new epoch.
    overflowed: messages that arrived and were dropped here, unread, because the queue was full.
    superseded: messages of a "latest" stream that a newer one replaced before they were read.
    """

    received: int = 0
    lost: int = 0
    reordered: int = 0
    repeated: int = 0
    restarted: int = 0
    overflowed: int = 0
    superseded: int = 0
    _epoch: int | None = None
    _expected: int | None = None
    _missing: dict[int, None] = field(default_factory=dict)  # insertion-ordered set

    def arrived(self, epoch: int, seq: int) -> bool:
        """Count one message; False if it is a repetition that must not be delivered again."""
        self._enter(epoch)
        if self._expected is None or seq == self._expected:
            self._expected = seq + 1
        elif seq > self._expected:
            self._skip_to(seq)
            self._expected = seq + 1
        elif seq in self._missing:
            del self._missing[seq]
            self.lost -= 1
            self.reordered += 1
        else:
            self.repeated += 1
            return False
        self.received += 1
        return True

    def promised(self, epoch: int, next_seq: int) -> None:
        """The publisher said, on the same connection, that all numbers below `next_seq` were sent before.

        Before the first message this sets the start: what was sent before is not a loss.
        """
        self._enter(epoch)
        if self._expected is None:
            self._expected = next_seq
        elif next_seq > self._expected:
            self._skip_to(next_seq)
            self._expected = next_seq

    def knows(self, epoch: int, seq: int) -> bool:
        """Whether number `seq` came already, or one after it."""
        return (
            self._epoch == epoch and self._expected is not None and self.received > 0 and seq < self._expected
        )

    def _enter(self, epoch: int) -> None:
        if self._epoch != epoch:
            if self._epoch is not None:
                self.restarted += 1
            self._epoch, self._expected = epoch, None
            self._missing.clear()

    def _skip_to(self, seq: int) -> None:
        assert self._expected is not None
        self.lost += seq - self._expected
        for number in range(max(self._expected, seq - _REMEMBERED), seq):
            self._missing[number] = None
        while len(self._missing) > _REMEMBERED:
            del self._missing[next(iter(self._missing))]

    def to_dict(self) -> dict[str, Any]:
        """The counts as plain numbers."""
        return {key: value for key, value in asdict(self).items() if not key.startswith("_")}
