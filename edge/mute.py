"""Hard mute: nothing that is heard or seen while it is on goes anywhere, not even into a recording.

A `Gate` stands between each source and its readers, a `Door` in front of each part that publishes. Shutting
either waits for what is just passing, so when `Mute.shut` returns, nothing more comes out. The sources run
on: their clocks stay true, and what lies before and after fits on one time line.
"""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass, replace
from pathlib import Path

from capture.blocks import AudioBlock, Item, Sink, VideoFrame

log = logging.getLogger(__name__)

MUTED = "muted"
# Events of a source that say nothing of what it hears or sees.
PASSING = ("ended", "lost", "returned", "stalled", "overflow", "error", "warning", "rate", "size")


class Door:
    """What publishes goes through with `with door as is_open`; shutting waits until nobody is inside."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._shut = False

    def __enter__(self) -> bool:
        self._lock.acquire()
        return not self._shut

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def set(self, shut: bool) -> None:
        """Shut it, or open it again."""
        with self._lock:
            self._shut = shut


@dataclass(frozen=True, slots=True)
class Held:
    """What a gate kept back: blocks or pictures (with those that the source itself missed), since when."""

    count: int
    since_ns: int


class Gate:
    """The sink of one source. Shut, it drops blocks and pictures; the first block after it says that."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self.kept_back = 0  # of blocks and pictures, ever: the source is alive, though nothing comes through
        self._lock = threading.Lock()
        self._shut = False
        self._count = self._lost = self._since_ns = 0
        self._opened_again = False

    def sink(self, item: Item) -> None:
        """Hand on one item, or drop it."""
        with self._lock:
            if self._shut:
                if not self._keep_back(item):
                    self._sink(item)
                return
            if self._opened_again and isinstance(item, AudioBlock):
                # The source's counter jumps by what was dropped; what it lost meanwhile is a guess.
                self._opened_again = False
                lost, self._lost = item.lost_frames + self._lost, 0
                item = replace(item, lost_frames=lost, flags=(MUTED, *item.flags))
            self._sink(item)

    def _keep_back(self, item: Item) -> bool:
        if isinstance(item, AudioBlock):
            self._count += 1
            self._lost += item.lost_frames
        elif isinstance(item, VideoFrame):
            self._count += 1 + item.dropped
        else:
            return item.kind not in PASSING
        self.kept_back += 1
        self._since_ns = self._since_ns or item.t_ns
        return True

    @property
    def held(self) -> Held | None:
        """What was kept back since it was shut; None when that is nothing."""
        with self._lock:
            return Held(self._count, self._since_ns) if self._shut and self._count else None

    def shut(self) -> None:
        """Drop everything from now on; returns when nothing is passing any more."""
        with self._lock:
            self._shut = True
            self._count = self._lost = self._since_ns = 0

    def open(self) -> Held | None:
        """Let everything through again; returns what was kept back."""
        with self._lock:
            if not self._shut:
                return None
            self._shut, self._opened_again = False, True
            return Held(self._count, self._since_ns) if self._count else None


class Mute:
    """All gates and doors of a rig as one switch. gates: by stream, as the timeline names them.

    remember: a file that stands while it is on, so that a rig that comes back after a crash, a restart or a
    power cut is still muted (`remembered`).
    """

    def __init__(self, gates: dict[str, Gate], doors: tuple[Door, ...], remember: Path | None = None) -> None:
        self.on = False
        self._gates, self._doors, self._remember = gates, doors, remember

    @property
    def remembered(self) -> bool:
        """It was on when the rig was last seen."""
        return self._remember is not None and self._remember.exists()

    def shut(self) -> None:
        """Nothing more is published or recorded when this returns."""
        for door in self._doors:
            door.set(shut=True)
        for gate in self._gates.values():
            gate.shut()
        self.on = True
        if self._remember is not None:
            try:
                self._remember.parent.mkdir(parents=True, exist_ok=True)
                self._remember.write_text("`hearth live` starts muted while this file is here\n")
            except OSError as error:
                log.warning("muted, but a restart will not remember it: %s", error)

    def open(self) -> dict[str, Held]:
        """Hear and see again; returns what was kept back, by stream."""
        if self._remember is not None:
            try:
                self._remember.unlink(missing_ok=True)
            except OSError as error:
                log.warning("not muted any more, but a restart will be: %s", error)
        self.on = False
        for door in self._doors:
            door.set(shut=False)
        kept = {stream: gate.open() for stream, gate in self._gates.items()}
        return {stream: held for stream, held in kept.items() if held is not None}

    @property
    def held(self) -> dict[str, Held]:
        """What is kept back so far, by stream."""
        return {stream: held for stream, gate in self._gates.items() if (held := gate.held) is not None}
