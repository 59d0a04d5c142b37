"""A simulated sound device and its host: what arrives when, with the true time of every sample.

The crystal is off by `ppm` and wanders slowly. The host hands blocks over late, several at a time, sometimes
after a stall; samples get lost at any place, with or without a word. All of it on CLOCK_MONOTONIC; the wall
clock is only what the anchors of an episode hold.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from capture.blocks import AudioBlock, Item, SourceEvent
from capture.clock import ClockState
from capture.stamping import BlockStamper

FS, BLOCK = 48000, 480
START_NS = 7_000_000_000_000_000  # of CLOCK_MONOTONIC: an uptime of 81 days
JITTERS = ("uniform", "exponential", "load")


@dataclass(frozen=True)
class Lost:
    """`frames` that nobody got, before delivered frame `place`."""

    place: int
    frames: int
    flagged: bool


@dataclass(frozen=True)
class Device:
    """A crystal: `ppm` fast, plus `wander_ppm` as a sine of `period_s`."""

    ppm: float = 0.0
    wander_ppm: float = 0.0
    period_s: float = 900.0
    phase: float = 0.0

    def time_s(self, frame: NDArray[Any] | float) -> NDArray[np.float64]:
        """True time of the device's own frame number, lost ones counted."""
        tau = np.asarray(frame, np.float64) / FS
        turn = 2 * np.pi / self.period_s
        moved = (np.cos(self.phase) - np.cos(turn * tau + self.phase)) / turn
        return np.asarray(tau / (1 + self.ppm * 1e-6) - self.wander_ppm * 1e-6 * moved)

    def mean_ppm(self, seconds: float) -> float:
        """The mean deviation of the rate over the first `seconds`."""
        frames = seconds * FS
        return float((frames / FS / (self.time_s(frames) - self.time_s(0.0)) - 1.0) * 1e6)


@dataclass(frozen=True)
class Delivery:
    """What the host handed over: block i holds delivered frames [i * BLOCK, (i + 1) * BLOCK)."""

    device: Device
    arrival_ns: NDArray[np.int64]
    flagged: NDArray[np.bool_]
    losses: tuple[Lost, ...] = ()

    def device_frame(self, delivered: NDArray[Any] | float) -> NDArray[np.float64]:
        """Number in the device's count of a delivered frame."""
        at = np.asarray(delivered, np.float64)
        return at + sum((loss.frames * (at >= loss.place) for loss in self.losses), np.zeros(at.shape))

    def true_ns(self, delivered: NDArray[Any] | float) -> NDArray[np.float64]:
        """True time of delivered frames, in ns after START_NS."""
        return self.device.time_s(self.device_frame(delivered)) * 1e9

    @property
    def observed_ns(self) -> NDArray[np.int64]:
        """What a stamper makes of the arrival of each block: the time of its first frame."""
        return self.arrival_ns - BLOCK * 1_000_000_000 // FS


def deliver(
    rng: np.random.Generator,
    seconds: float,
    device: Device,
    jitter: str = "uniform",
    batch: int = 1,
    losses: tuple[Lost, ...] = (),
    late_start_s: float = 0.0,
) -> Delivery:
    """jitter: none; uniform (0 to 20 ms); exponential (mean 5 ms, cut at 20); load (mean 1 ms, in bursts of
    0.3 to 3 s up to 20 ms more, and one stall of 0.3 to 1.5 s per two minutes). batch: blocks handed over at
    once. late_start_s: nothing is handed over before that."""
    count = int(seconds * FS / BLOCK)
    ends = Delivery(device, np.zeros(0, np.int64), np.zeros(0, np.bool_), losses)
    complete = ends.true_ns(np.arange(1, count + 1) * BLOCK - 1) + 1e9 / FS
    calls = np.minimum((np.arange(count) // batch + 1) * batch - 1, count - 1)
    ready = complete[calls]
    _, first = np.unique(calls, return_index=True)
    at = ready[first]
    late = _lateness(rng, jitter, at * 1e-9)
    if jitter != "none":
        late += np.abs(rng.normal(0, 20e3, len(late)))
    handed = np.maximum.accumulate(np.maximum(at + late, late_start_s * 1e9))
    if jitter == "load":
        for begin in rng.uniform(5, max(seconds - 5, 6), max(1, round(seconds / 120))):
            end = begin + rng.uniform(0.3, 1.5)
            handed = np.where((handed > begin * 1e9) & (handed < end * 1e9), end * 1e9, handed)
    calls_of = np.searchsorted(first, np.arange(count), side="right") - 1
    # Calls of one batch follow each other within some tens of microseconds.
    apart = 0.0 if jitter == "none" else 20e3 * (np.arange(count) - first[calls_of])
    arrival = np.maximum.accumulate(handed[calls_of] + apart)
    flagged = np.zeros(count, np.bool_)
    for loss in losses:
        if loss.flagged:
            flagged[min(-(-loss.place // BLOCK), count - 1)] = True
    return Delivery(device, START_NS + np.round(arrival).astype(np.int64), flagged, losses)


def _lateness(rng: np.random.Generator, jitter: str, at_s: NDArray[np.float64]) -> NDArray[np.float64]:
    n = len(at_s)
    if jitter == "uniform":
        return rng.uniform(0, 20e6, n)
    if jitter == "exponential":
        return rng.exponential(5e6, n).clip(0, 20e6)
    late = np.zeros(n)
    if jitter == "load":
        late = rng.exponential(1e6, n)
        begin = 0.0
        while (begin := begin + rng.exponential(15.0)) < at_s[-1]:
            length = rng.uniform(0.3, 3.0)
            busy = (at_s >= begin) & (at_s < begin + length)
            late[busy] += rng.uniform(2e6, 20e6, int(busy.sum()))
            begin += length
    return late


def draw(seed: int, seconds: float, losses: int = 0, inside_blocks: bool = False, **fixed: Any) -> Delivery:
    """One device and host at random: ppm within +-100, wander 1 to 2 ppm, a kind of jitter, batches of 1 to
    7 blocks, a first block up to 1 s late. `losses`: every second one flagged, 30 frames to 1 s long, apart
    by at least 15 s; at block boundaries unless inside_blocks. fixed: overrides (device, jitter, ...)."""
    rng = np.random.default_rng(seed)
    device = Device(
        float(rng.uniform(-100, 100)),
        float(rng.uniform(1, 2)),
        float(rng.uniform(600, 1800)),
        float(rng.uniform(0, 2 * np.pi)),
    )
    jitter = JITTERS[seed % len(JITTERS)]
    batch = int(rng.choice([1, 1, 2, 3, 5, 7]))
    late = float(rng.uniform(0, 1.0))
    found: list[Lost] = []
    if losses:
        room = seconds / losses
        for i in range(losses):
            place = int((i * room + rng.uniform(0.4, 0.6) * room) * FS)
            if not inside_blocks:
                place = place // BLOCK * BLOCK
            frames = int(np.exp(rng.uniform(np.log(480), np.log(FS))))
            if rng.random() < 0.25:
                frames = max(1, round(frames / BLOCK)) * BLOCK  # whole blocks
            found.append(Lost(place, frames, flagged=bool((i + seed) % 2)))
    settings: dict[str, Any] = {
        "device": device,
        "jitter": jitter,
        "batch": batch,
        "losses": tuple(found),
        "late_start_s": late,
        **fixed,
    }
    return deliver(rng, seconds, **settings)


@dataclass
class LiveRun:
    """What BlockStamper made of a delivery: (blocks,) times and counters, the losses it told of."""

    delivery: Delivery
    t_ns: NDArray[np.int64]
    first_frame: NDArray[np.int64]
    lost_before: NDArray[np.int64]
    events: list[tuple[int, SourceEvent]] = field(default_factory=list)  # (index of the block that follows)
    state: ClockState | None = None

    @property
    def error_ms(self) -> NDArray[np.float64]:
        """Filtered minus true time of each block's first frame."""
        true = self.delivery.true_ns(np.arange(len(self.t_ns)) * BLOCK)
        return (self.t_ns - START_NS - true) / 1e6


def live(delivery: Delivery) -> LiveRun:
    """Push a delivery through BlockStamper, as a microphone's thread does."""
    blocks: list[tuple[int, int, int]] = []
    events: list[tuple[int, SourceEvent]] = []

    def sink(item: Item) -> None:
        if isinstance(item, AudioBlock):
            blocks.append((item.t_ns, item.first_frame, item.lost_frames))
        elif isinstance(item, SourceEvent):
            events.append((len(blocks), item))

    stamper = BlockStamper(FS, sink)
    samples = np.zeros((BLOCK, 1), np.int32)
    for arrival, flag in zip(delivery.arrival_ns.tolist(), delivery.flagged.tolist(), strict=True):
        stamper.push(samples, arrival, ("input_overflow",) if flag else ())
    t_ns, first, lost = np.array(blocks, np.int64).T
    return LiveRun(delivery, t_ns, first, lost, events, stamper.state)


class Heard:
    """The sound of a delivery: a real recording, back and forth, of which the lost frames are missing."""

    def __init__(self, recording: NDArray[np.float32], delivery: Delivery) -> None:
        """recording: (frames, channels)."""
        self._recording, self._delivery = recording, delivery

    def read(self, start: int, count: int) -> NDArray[np.float32]:
        """(count, channels) from a delivered frame on."""
        frames = self._delivery.device_frame(np.arange(start, start + count)).astype(np.int64)
        length = len(self._recording)
        turned = frames % (2 * length)
        return self._recording[np.where(turned < length, turned, 2 * length - 1 - turned)]


def timeline_lines(run: LiveRun) -> list[dict[str, Any]]:
    """The lines that the episode's writer makes of a live run."""
    lines: list[dict[str, Any]] = []
    events = dict(run.events)
    observed, flagged = run.delivery.observed_ns.tolist(), run.delivery.flagged.tolist()
    for i, (t_ns, first, lost) in enumerate(
        zip(run.t_ns.tolist(), run.first_frame.tolist(), run.lost_before.tolist(), strict=True)
    ):
        flags = ["input_overflow"] if flagged[i] else []
        if (event := events.get(i)) is not None:
            lines.append(
                {
                    "type": "event",
                    "t_ns": event.t_ns,
                    "kind": event.kind,
                    "data": {"stream": "audio", **event.data},
                }
            )
        if lost:
            lines.append(
                {
                    "type": "gap",
                    "t_ns": t_ns - round(lost * 1e9 / FS),
                    "stream": "audio",
                    "cause": ",".join(flags) or "lost",
                    "lost_frames": lost,
                    "file_frame": i * BLOCK,
                }
            )
        lines.append(
            {
                "type": "audio",
                "t_ns": t_ns,
                "t_observed_ns": observed[i],
                "seq": i,
                "first_frame": first,
                "frames": BLOCK,
                "lost": lost,
                "flags": flags,
                "file_frame": i * BLOCK,
            }
        )
    return lines
