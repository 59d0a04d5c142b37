"""Watches the channels of the running sound: each fault is an event when it begins and when it ends.

What the data cannot tell is not guessed: whether channels are in the right order or have the right sign (a
swapped channel map) needs sources at known directions; see UNKNOWN.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from capture.blocks import AudioBlock, AudioInfo, AudioSource, Item, SourceEvent
from capture.channel_faults import Faults, window_faults
from capture.fanout import Fanout
from dsp.ambisonics import CHANNEL_NAMES
from dsp.errors import DeviceError, InputError

UNKNOWN = (
    "The order and the signs of the channels cannot be told from the sound alone: a route that swaps channels"
    " looks like a turned microphone. Check them with a talker at a known direction."
)
_WINDOW_S = 1.0
# windows in a row until a fault has begun, and until it is over
_BEGINS = {"zero": 1, "dead": 1, "clipped": 1, "copied": 2, "mixed": 2, "low_bits": 3, "weak": 5, "quiet": 10}
_ENDS = {"zero": 1, "dead": 1, "clipped": 5, "copied": 2, "mixed": 3, "low_bits": 1, "weak": 5, "quiet": 1}
SEVERITY = {
    "zero": "fault", "dead": "fault", "copied": "fault", "mixed": "fault", "clipped": "fault",
    "weak": "warning", "quiet": "warning", "low_bits": "note",
}  # fmt: skip
_REMIX = "a sound server remixes the channels; record from the hw: device, in the microphone's 4-channel mode"
_TEXT = {
    "zero": "digital silence, every sample is 0: not connected, muted, or filled in by a sound server",
    "dead": "no signal, not even a microphone's noise: a dead capsule, cable or input",
    "copied": f"the same signal: {_REMIX}",
    "mixed": f"fixed mixtures of each other: {_REMIX}",
    "clipped": "clipped: samples in a row are at full scale; lower the gain",
    "weak": "more than 50 dB below the loudest channel: a capsule or its cable is nearly dead",
    "quiet": "nothing louder than -84 dBFS for 10 s: the gain is far too low, or the microphone is muted",
    "low_bits": "the low bits are always 0: fewer than 24 bits arrive, e.g. through a 16-bit route",
}


@dataclass
class _State:
    present: bool = False
    since_ns: int = 0  # when the present fault began
    row: int = 0  # windows in a row that say the opposite of `present`
    row_ns: int = 0  # when that row began


class ChannelWatch:
    """`push` every block in order; it answers with events of kind "channels".

    An event's data: fault (one of SEVERITY), severity, channels (numbers from 0), state ("began" or "ended"),
    since (CLOCK_MONOTONIC ns of the window in which the fault, or its end, was first seen). Windows are about
    a second long, so a fault is told one to three seconds after it begins ("weak" 5 s, "quiet" 10 s). Costs
    less than one percent of a core at 4 channels and 48 kHz. One thread calls it.
    """

    def __init__(
        self,
        rate_hz: int,
        channels: int,
        format: str = "ambix",
        *,
        bits: int = 24,
        source: str = "microphone",
    ) -> None:
        """format: one of dsp.FORMATS or "array"; bits: what the source says that its samples have. Raises
        InputError."""
        if not 1000 <= rate_hz <= 768_000 or channels < 1:
            raise InputError(f"a channel watch needs a rate and channels, not {rate_hz} Hz and {channels}")
        self._rate_hz, self._channels, self._format, self._source = rate_hz, channels, format, source
        names = CHANNEL_NAMES.get(format, ())
        self._names = [f"{c + 1} ({names[c]})" if c < len(names) else f"{c + 1}" for c in range(channels)]
        self._spare_bits = 32 - bits
        self._blocks: list[NDArray[np.int32]] = []
        self._frames = 0
        self._begin_ns = 0
        self._unused = np.full(channels, 32, np.int64)
        self._states: dict[tuple[str, tuple[int, ...]], _State] = {}

    @property
    def present(self) -> list[dict[str, Any]]:
        """The faults that are there now: fault, severity, channels, since."""
        found = []
        for (fault, channels), state in list(self._states.items()):
            if state.present:
                found.append(_data(fault, channels, state.since_ns))
        return found

    def push(self, block: AudioBlock) -> list[SourceEvent]:
        """The events that this block completes; mostly none."""
        if block.lost_frames:  # a window has no hole
            self._blocks, self._frames = [], 0
        if not self._blocks:
            self._begin_ns = block.t_ns
        self._blocks.append(block.samples)
        self._frames += len(block.samples)
        if self._frames < _WINDOW_S * self._rate_hz:
            return []
        x = np.concatenate(self._blocks)
        self._blocks, self._frames = [], 0
        end_ns = block.t_ns + len(block.samples) * 1_000_000_000 // self._rate_hz
        return self._judge(x, end_ns)

    def _judge(self, x: NDArray[np.int32], end_ns: int) -> list[SourceEvent]:
        faults, _, unused = window_faults(x, self._format)
        self._unused = np.minimum(self._unused, unused)
        for c in range(self._channels):
            if not faults["zero", (c,)]:
                faults["low_bits", (c,)] = bool(self._unused[c] > self._spare_bits)
        changed: dict[tuple[str, bool, int], list[tuple[int, ...]]] = {}
        for key in [*faults, *(k for k in self._states if k not in faults)]:
            fault, channels = key
            now = faults.get(key, self._gone(key, faults))
            if not channels or now is None:
                continue
            state = self._states.setdefault(key, _State())
            if now == state.present:
                state.row = 0
                continue
            if state.row == 0:
                state.row_ns = self._begin_ns
            state.row += 1
            if state.row < (_BEGINS if now else _ENDS)[fault]:
                continue
            state.present, state.row = now, 0
            if now:
                state.since_ns = state.row_ns
            changed.setdefault((fault, now, state.row_ns), []).append(channels)
        return [
            self._event(end_ns, *what, group) for what, found in changed.items() for group in _joined(found)
        ]

    def _gone(self, key: tuple[str, tuple[int, ...]], faults: Faults) -> bool | None:
        """For a fault that this window does not name: False when it was looked for, None when not judged."""
        return False if (key[0], ()) in faults else None

    def _event(
        self, t_ns: int, fault: str, began: bool, since_ns: int, channels: tuple[int, ...]
    ) -> SourceEvent:
        which = " and ".join([", ".join(self._names[c] for c in channels[:-1]), self._names[channels[-1]]])
        which = f"channel{'s' if len(channels) > 1 else ''} {which.removeprefix(' and ')}"
        if len(channels) == self._channels > 1:
            which = "all channels"
        text = f"{which}: {_TEXT[fault]}" if began else f"{which}: over: {_TEXT[fault].split(':')[0]}"
        data = {**_data(fault, channels, since_ns), "state": "began" if began else "ended"}
        return SourceEvent(t_ns, self._source, "channels", text, data)


def _data(fault: str, channels: tuple[int, ...], since_ns: int) -> dict[str, Any]:
    return {"fault": fault, "severity": SEVERITY[fault], "channels": list(channels), "since": since_ns}


def _joined(found: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """Single channels with the same fault at the same time are one event; groups of copies stay apart."""
    single = tuple(sorted(c for channels in found if len(channels) == 1 for c in channels))
    return [*([single] if single else []), *(c for c in found if len(c) > 1)]


class ChannelFollower:
    """Watches a running fan-out in a thread of its own and puts the events into it, so that the recorder, the
    meter and the live chain all get them. `close` takes what has come and ends it."""

    def __init__(self, fanout: Fanout, info: AudioInfo) -> None:
        self._fanout = fanout
        self._watch = ChannelWatch(info.rate_hz, info.channels, info.format, bits=info.bits)
        self._subscription = fanout.subscribe("channel watch")
        self._thread = threading.Thread(target=self._follow, name="channel watch", daemon=True)
        self._thread.start()

    @property
    def present(self) -> list[dict[str, Any]]:
        """See ChannelWatch.present."""
        return self._watch.present

    def close(self) -> None:
        """Close this before the recorder's own subscriptions, else its last events find no reader."""
        self._subscription.close()
        self._thread.join()

    def _follow(self) -> None:
        for item in self._subscription:
            if isinstance(item, AudioBlock):
                for event in self._watch.push(item):
                    self._fanout.sink(event)


@dataclass(frozen=True, slots=True)
class MicrophoneProbe:
    """What a look before the take found.

    seconds: of sound heard. events: what the source and the channel watch said, in order. peak_dbfs,
    rms_dbfs: (channels,) over all of it. unknown: what could not be told, in words.
    """

    seconds: float
    events: tuple[SourceEvent, ...]
    peak_dbfs: NDArray[np.float64]
    rms_dbfs: NDArray[np.float64]
    unknown: tuple[str, ...] = field(default=(UNKNOWN,))

    @property
    def faults(self) -> tuple[SourceEvent, ...]:
        """Events of faults in the channels: what is recorded now would not be first-order ambisonics."""
        return tuple(e for e in self.events if e.kind == "channels" and e.data["severity"] == "fault")

    @property
    def warnings(self) -> tuple[SourceEvent, ...]:
        """Everything else that somebody should look at before the take."""
        return tuple(
            e
            for e in self.events
            if e.kind != "channels" or (e.data["severity"] == "warning" and e.data["state"] == "began")
        )


def probe_microphone(
    source: AudioSource,
    seconds: float = 2.2,
    *,
    patience_s: float = 4.0,
    on_block: Callable[[AudioBlock], None] | None = None,
) -> MicrophoneProbe:
    """Run a microphone for some seconds and judge its channels; nothing is recorded.

    The source is opened if it is not, and stopped afterwards (`start` begins anew, a file from its start).
    seconds: of sound, at least 2 for the channel check. patience_s: to wait for the first sound. on_block:
    for live meters; called from this thread. Raises DeviceError: it cannot be opened, or nothing comes.
    """
    import dsp

    info = source.open()
    watch = ChannelWatch(info.rate_hz, info.channels, info.format, bits=info.bits)
    items: queue.SimpleQueue[Item] = queue.SimpleQueue()
    events: list[SourceEvent] = []
    heard: list[NDArray[np.int32]] = []
    frames = 0
    deadline = time.monotonic() + seconds + patience_s
    source.start(items.put)
    try:
        while frames < seconds * info.rate_hz and time.monotonic() < deadline:
            try:
                item = items.get(timeout=0.1)
            except queue.Empty:
                continue
            if isinstance(item, AudioBlock):
                heard.append(item.samples)
                frames += len(item.samples)
                events += watch.push(item)
                if on_block is not None:
                    on_block(item)
            elif isinstance(item, SourceEvent):
                events.append(item)
                if item.kind == "ended":
                    break
    finally:
        source.stop()
    if not frames:
        said = "; ".join(e.detail for e in events if e.kind in ("lost", "error"))
        raise DeviceError(
            f"{info.name}: no sound came within {seconds + patience_s:g} s{said and ': ' + said}"
        )
    levels = dsp.levels(np.concatenate(heard).astype(np.float32) * np.float32(2.0**-31))
    return MicrophoneProbe(frames / info.rate_hz, tuple(events), levels.peak_dbfs, levels.rms_dbfs)
