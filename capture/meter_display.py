"""The picture of a running take on the terminal (stderr): time, levels, losses."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from capture.blocks import AudioInfo, VideoInfo
from capture.recorder import Recorder
from capture.recording import Meter
from recordings.terminal import counted

_BAR = 24
_FLOOR_DB = -72.0
SILENT_DBFS = -150.0  # no 24-bit sample but 0 is that small
_CHANNELS = {"ambix": "WYZX", "fuma": "WXYZ", "n3d": "WYZX"}


class MeterDisplay:
    """A context manager; `show` is the recorder's meter callback. Without a terminal it prints a line every
    ten seconds and every event."""

    def __init__(self, audio: AudioInfo, video: VideoInfo | None, seconds: float | None) -> None:
        self._console = Console(stderr=True)
        self._names = channel_names(audio)
        count = audio.channels
        self._seconds = seconds if seconds is not None and seconds != float("inf") else None
        picture = "no camera" if video is None else f"{video.width_px}x{video.height_px} at {video.fps:g} fps"
        self._head = f"{audio.name}: {count} channels, {audio.rate_hz} Hz, {audio.format}; {picture}"
        self._live: Live | None = None
        self._last_line = 0.0

    def __enter__(self) -> MeterDisplay:
        print(self._head, file=sys.stderr)
        if self._console.is_terminal:
            self._live = Live(console=self._console, refresh_per_second=5, transient=True)
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def started(self, recorder: Recorder) -> None:
        """Say where the episode goes."""
        self._say(f"recording {_short(recorder.path)}; Ctrl-C ends the take")

    def finishing(self) -> None:
        """The take is over; the release form, checks and report take a moment."""
        self._end()
        print("finishing the episode ...", file=sys.stderr)

    def show(self, meter: Meter) -> None:
        """One look at the take."""
        for event in meter.events:
            self._say(f"{event.source}: {event.kind}: {event.detail}")
        if self._live is not None:
            self._live.update(self._render(meter))
        elif time.monotonic() - self._last_line > 10:
            self._last_line = time.monotonic()
            print(f"{self._status(meter)}; {peak_in_words(max(meter.peak_dbfs))}", file=sys.stderr)

    def _say(self, text: str) -> None:
        if self._live is not None:
            self._live.console.print(text)
        else:
            print(text, file=sys.stderr)

    def _end(self) -> None:
        live, self._live = self._live, None
        if live is not None:
            live.stop()

    def _status(self, meter: Meter) -> str:
        total = "" if self._seconds is None else f" of {self._seconds:.0f}"
        parts = [f"{meter.seconds:.1f}{total} s", counted(meter.pictures, "picture")]
        if meter.lost_frames:
            parts.append(f"LOST {meter.lost_frames} frames")
        if meter.dropped_pictures:
            parts.append(f"dropped {counted(meter.dropped_pictures, 'picture')}")
        if meter.minutes_left < 60:
            parts.append(f"disk: {meter.minutes_left:.0f} min left")
        return ", ".join(parts)

    def _render(self, meter: Meter) -> Any:
        rows = [Text(self._status(meter)), *level_rows(self._names, meter)]
        return Group(*rows)


def channel_names(audio: AudioInfo) -> list[str]:
    """W, Y, Z, X for ambisonics, else the numbers from 1."""
    names = _CHANNELS.get(audio.format, "")
    count = audio.channels
    return list(names) if len(names) == count else [str(i + 1) for i in range(count)]


class Levels(Protocol):
    """What the bars show: (channels,) dBFS, and numbers of channels."""

    @property
    def rms_dbfs(self) -> NDArray[np.float64]: ...
    @property
    def peak_dbfs(self) -> NDArray[np.float64]: ...
    @property
    def dead(self) -> tuple[int, ...]: ...
    @property
    def clipped(self) -> tuple[int, ...]: ...


def peak_in_words(peak_dbfs: float) -> str:
    """ "peak -12 dBFS", or "silent" where there are only zeros."""
    return "silent" if peak_dbfs < SILENT_DBFS else f"peak {peak_dbfs:.0f} dBFS"


def level_rows(names: list[str], meter: Levels) -> list[Text]:
    """A bar per channel with its level, and what is wrong with it."""
    rows: list[Text] = []
    for i, name in enumerate(names):
        rms, peak = float(meter.rms_dbfs[i]), float(meter.peak_dbfs[i])
        filled = round(_BAR * min(max((rms - _FLOOR_DB) / -_FLOOR_DB, 0.0), 1.0))
        note, style = "", "green"
        if i in meter.dead:
            note, style = " dead: nothing arrives on this channel", "red"
        elif i in meter.clipped:
            note, style = " CLIPPED", "red"
        elif peak > -6:
            style = "yellow"
        row = Text(f"{name:>2} ")
        row.append("█" * filled + "·" * (_BAR - filled), style=style)
        row.append(f" {max(rms, -99):5.0f} dB, peak {max(peak, -99):5.0f}{note}")
        rows.append(row)
    return rows


def _short(path: Path) -> str:
    try:
        return str(path.resolve().relative_to(Path.cwd()))
    except ValueError:
        return str(path)
