"""The clock of an episode's sound, made when it is finished: where frames were lost and how many, and the
time of every frame, from the raw arrival times in the timeline. Nothing in the sound files is touched.

The live stamps cannot know what came later: a loss shows half a second to seconds after it happened, a busy
host looks like one. Here the whole take is seen at once.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recordings.clock_fit import Envelope, Floats, edge_of, fit_envelope
from recordings.clock_steps import Step, find_steps, host_delays
from recordings.gap_place import Listen, loss_place
from recordings.storage import write_atomic
from recordings.timeline import Line, TimelineWriter, encode_line

_FEWEST_BLOCKS, _SHORTEST_S = 8, 1.0
_NEAR_S = 30.0  # the length of a gap is judged by so much sound on either side
_FOUND_LATER_S = 10.0  # the live clock tells of a loss at most so long after it
_OFFSET_SIGMA, _GAP_SIGMA = 1.2, 2.0  # edges to sigma; found in simulation (tests)
_IMPOSSIBLE_PPM = 1000.0  # sound cards are within 100 ppm, bad ones within 300
_HIDDEN_S = 0.15  # a loss may lie so long behind the first block that arrivals allow
_SAME_S = 1e-6  # a correction below a microsecond is none: 1/20 of a frame
METHOD = "line under the arrivals of each gap-free segment, one rate (recordings.clock_fit)"


@dataclass(frozen=True)
class Gap:
    """Frames lost before file frame `file_frame`; sigma_frames: one standard deviation of how many."""

    index: int
    file_frame: int
    lost_frames: int
    sigma_frames: float
    flagged: bool


@dataclass(frozen=True)
class SoundClock:
    """pieces: "clock" lines of the timeline, [] when there is too little to go by. lines: the timeline with
    its gap lines corrected, without clock lines. summary: `clocks` of checks.json."""

    pieces: list[Line]
    lines: list[Line]
    summary: dict[str, Any]
    changed: bool = False
    gaps: list[Gap] = field(default_factory=list)


def sound_clock(
    lines: Sequence[Line], rate_hz: int, *, mixed: bool = False, listen: Listen | None = None
) -> SoundClock:
    """The clock of the sound of a timeline whose streams are closed. mixed: a sound server lies between; its
    buffers grow for good by some milliseconds when programs come and go, which is no loss of sound. listen:
    reads the sound; with it the place of a loss that nobody told of is found to the block."""
    lines = [line for line in lines if line["type"] != "clock"]
    blocks = _Blocks.of(lines, rate_hz)
    summary: dict[str, Any] = {
        "drift_ppm": None,
        "drift_sigma_ppm": None,
        "jitter_ms": None,
        "method": METHOD,
        "segments": [],
        "wall_clock_step_ms": _wall_clock_step_ms(lines),
        "sources": stamp_sources(lines),
    }
    if blocks is None or len(blocks.x) < _FEWEST_BLOCKS or blocks.x[-1] - blocks.x[0] < _SHORTEST_S:
        return SoundClock([], lines, summary)
    try:
        found = _Clock(blocks, rate_hz, mixed, listen)
        summary.update(found.summary())
    except (ArithmeticError, ValueError, IndexError) as error:
        # A take cannot be repeated: it is finished with the times that it has, and says so.
        logging.getLogger(__name__).exception("no clock of the sound")
        summary["problem"] = f"no clock could be found ({error!r}); the times are those of the live clock"
        return SoundClock([], lines, summary)
    if abs(summary["drift_ppm"]) > _IMPOSSIBLE_PPM:
        # No crystal is so wrong. Sound that is lost again and again looks like this, and so does a source
        # that counts wrongly: a line through it would hide that. What the live clock found stays.
        summary["problem"] = (
            f"the sound came {summary['drift_ppm']:+.0f} ppm off its rate, as no sound card does:"
            " some was lost again and again without a word, or the source counts wrongly. The times are"
            " those of the live clock and not to be relied on to the millisecond"
        )
        summary.update(drift_ppm=None, drift_sigma_ppm=None, offset_sigma_ms=None, segments=[], gaps=[])
        return SoundClock([], lines, summary)
    new_lines, changed = found.corrected(lines)
    return SoundClock(found.pieces(), new_lines, summary, changed, found.gaps)


def write_sound_clock(
    folder: Path, lines: Sequence[Line], rate_hz: int, *, mixed: bool = False, listen: Listen | None = None
) -> dict[str, Any]:
    """Put the "clock" lines and corrected gap lines into the timeline of an episode that is being finished;
    gives `clocks` of checks.json. Raises StorageError."""
    from recordings.episode import TIMELINE

    found = sound_clock(lines, rate_hz, mixed=mixed, listen=listen)
    path = folder / TIMELINE
    if found.changed or len(found.lines) != len(lines):
        write_atomic(path, b"".join(encode_line(line) for line in found.lines + found.pieces))
    elif found.pieces:
        timeline = TimelineWriter(path, append=True)
        try:
            for line in found.pieces:
                timeline.add(line)
        finally:
            timeline.close()
    return found.summary


def prefer_live_clock(checks: dict[str, Any]) -> None:
    """A take too short for a line gets the drift that the recorder's own clock found, where it has one."""
    live, clocks = checks.get("capture_clock") or {}, checks["clocks"]
    drift, sigma = live.get("drift_ppm"), live.get("drift_sigma_ppm")
    if not isinstance(drift, float) or not isinstance(sigma, float) or clocks["drift_ppm"] is not None:
        return
    if "problem" in clocks or abs(drift) > _IMPOSSIBLE_PPM:
        return
    if np.isfinite(sigma):
        clocks.update(
            drift_ppm=round(drift, 3),
            drift_sigma_ppm=round(sigma, 3),
            jitter_ms=round(float(live["jitter_ms"]), 4),
            method="filtered live clock over the earliest arrivals (capture.clock.AudioClock)",
        )


def stamp_sources(lines: Sequence[Line]) -> dict[str, dict[str, int]]:
    """How many stamps of each stream came from where: {"audio": {"arrival": 6000}, "video": {"driver": 90}}.

    audio: "arrival" (filtered time of a block's arrival), "exact" (a source that knows: file, virtual room),
    "repaired" (nominal rate after the last stamp that reached the disk).
    """
    found: dict[str, Counter[str]] = {}
    audio = [line for line in lines if line["type"] == "audio"]
    arrivals = not says_exactly([line for line in audio if "repaired" not in line.get("flags", ())])
    for line in audio:
        kind = "repaired" if "repaired" in line.get("flags", ()) else "arrival" if arrivals else "exact"
        found.setdefault("audio", Counter())[kind] += 1
    for line in lines:
        if line["type"] == "frame":
            stream = f"video_{line['camera']}" if line.get("camera") else "video"
            found.setdefault(stream, Counter())[str(line.get("t_source", "unknown"))] += 1
    return {stream: dict(counts) for stream, counts in found.items()}


def says_exactly(audio: Sequence[Line]) -> bool:
    """Whether the stamps of audio lines are a source's own (a file, the virtual room), not filtered arrivals:
    they are what was observed, or lie on one line to the nanosecond."""
    t_ns = np.array([line["t_ns"] for line in audio], np.int64)
    if np.array_equal(t_ns, np.array([line.get("t_observed_ns", line["t_ns"]) for line in audio], np.int64)):
        return True
    frames = np.array([line["first_frame"] for line in audio], np.int64)
    if len(audio) < _FEWEST_BLOCKS or frames[-1] <= frames[0]:
        return False
    line = (frames - frames[0]) * (float(t_ns[-1] - t_ns[0]) / float(frames[-1] - frames[0]))
    return bool(np.abs(t_ns - t_ns[0] - line).max() <= 2.0)


def _wall_clock_step_ms(lines: Sequence[Line]) -> float | None:
    """How much more UTC than CLOCK_MONOTONIC passed between the first and the last anchor."""
    anchors = [line for line in lines if line["type"] == "anchor" and "t_utc_ns" in line]
    if len(anchors) < 2:
        return None
    utc, mono = (anchors[-1][key] - anchors[0][key] for key in ("t_utc_ns", "t_ns"))
    return round((utc - mono) / 1e6, 3)


@dataclass(frozen=True)
class _Blocks:
    """The audio lines as arrays (n,). known: frames left out before each block by a count that is exact."""

    x: Floats  # nominal seconds of the first frame, exactly known gaps counted
    late: Floats  # observed time minus x, s, of the first one 0
    t_ns: NDArray[np.int64]
    file_frame: NDArray[np.int64]
    first_frame: NDArray[np.int64]
    known: NDArray[np.int64]
    flagged: NDArray[np.bool_]
    usual_frames: int
    origin_ns: int
    declared: list[tuple[Line, int, int]]  # estimated gaps: line, index of the block it belongs to, frames
    exact: bool

    @classmethod
    def of(cls, lines: Sequence[Line], rate_hz: int) -> _Blocks | None:
        audio = [
            line for line in lines if line["type"] == "audio" and "repaired" not in line.get("flags", ())
        ]
        if not audio or rate_hz <= 0:
            return None

        def column(key: str) -> NDArray[np.int64]:
            return np.array([line[key] for line in audio], np.int64)

        file_frame, observed, t_ns = column("file_frame"), column("t_observed_ns"), column("t_ns")
        first = column("first_frame")
        exact = says_exactly(audio)
        if exact:
            observed = t_ns
        known = np.zeros(len(audio), np.int64)
        declared = []
        # Where the live clock saw a loss begin, by the block at which it was sure.
        began: dict[int, int] = {}
        waiting: int | None = None
        for line in lines:
            data = line.get("data")
            if line["type"] == "event" and line.get("kind") == "overflow" and isinstance(data, dict):
                waiting = data.get("gap_before_frame")
            elif line["type"] == "audio" and waiting is not None and line.get("lost"):
                began[int(line["file_frame"])] = int(np.searchsorted(first, waiting))
                waiting = None
        for line in lines:
            if line["type"] != "gap" or line.get("stream") != "audio" or "lost_frames" not in line:
                continue
            was = line.get("found") or line
            at, lost = int(was["file_frame"]), int(was["lost_frames"])
            index = int(np.searchsorted(file_frame, at))
            if index >= len(audio):
                continue
            guessed = lost if line["cause"] == "arrivals" else min(int(audio[index].get("lost", 0)), lost)
            known[index:] += lost - guessed
            if guessed:
                declared.append((line, min(began.get(at, index), index), guessed))
        x = (file_frame - file_frame[0] + known) / float(rate_hz)
        flagged = np.array([bool(line.get("flags")) for line in audio])
        flagged[0] = False
        return cls(
            x,
            (observed - observed[0]) * 1e-9 - x,
            t_ns,
            file_frame,
            first,
            known,
            flagged,
            int(np.bincount(column("frames")).argmax()),
            int(observed[0]),
            declared,
            exact,
        )


class _Clock:
    """Steps, lines and gaps of the blocks."""

    def __init__(
        self, blocks: _Blocks, rate_hz: int, mixed: bool = False, listen: Listen | None = None
    ) -> None:
        self.b, self.rate, self.mixed = blocks, float(rate_hz), mixed
        steps = self._steps()
        if listen is not None and not blocks.exact:
            steps = self._heard(steps, listen)
        self.section, kept, losses = _sections(len(blocks.x), steps)
        self.line: Envelope = fit_envelope(blocks.x[kept], blocks.late[kept], self.section[kept])
        self.offsets = self._without_host_delay(losses)
        self.residual = blocks.late - self._late(blocks.x, self.section)
        self.kept = kept
        self.identity = self._is_identity()
        self.gaps = self._gaps(losses)

    def _steps(self) -> list[Step]:
        b = self.b
        if b.exact:  # the source knows its gaps
            return [Step(index, lost / self.rate, False) for _, index, lost in b.declared if index > 0]
        steps = find_steps(b.x, b.late, b.flagged)
        if self.mixed:  # less than a block that nobody told of
            block_s = float(np.median(np.diff(b.x)))
            steps = [s for s in steps if s.flagged or not 0 < s.size_s < block_s]
        for _, index, lost in b.declared:
            if self._match(steps, index) is None and 0 < index < len(b.x):
                before, after = b.late[max(index - 1000, 0) : index], b.late[index : index + 1000]
                if after.min() - before.min() > 0.5 * lost / self.rate:
                    steps = [step for step in steps if step.index != index]
                    steps.append(Step(index, lost / self.rate, bool(b.flagged[index])))
        return sorted(steps, key=lambda step: step.index)

    def _heard(self, steps: list[Step], listen: Listen) -> list[Step]:
        """Losses that the host did not tell of are placed where the sound breaks, if it does."""
        starts = self.b.file_frame
        # Arrivals tell the first block that may be behind a loss; a late one hides the rest.
        ahead = max(int(_HIDDEN_S * self.rate / self.b.usual_frames), 2)
        placed: list[Step] = []
        for i, step in enumerate(steps):
            first = max(step.index - 2, placed[-1].index + 1 if placed else 1)
            end = min(step.index + ahead + 1, steps[i + 1].index if i + 1 < len(steps) else len(starts))
            if not step.flagged and step.size_s > 0:
                found = loss_place(listen, starts[first:end].tolist())
                step = step if found is None else replace(step, index=first + found)
            placed.append(step)
        return placed

    def _match(self, steps: Sequence[Step | Gap], index: int) -> int | None:
        """The loss that the live clock placed at block `index`: the nearest within what it may be off."""
        reach = _FOUND_LATER_S
        near = [
            (abs(self.b.x[min(step.index, len(self.b.x) - 1)] - self.b.x[index]), i)
            for i, step in enumerate(steps)
            if not (isinstance(step, Step) and step.size_s <= 0)
        ]
        near = [pair for pair in near if pair[0] < reach]
        return min(near)[1] if near else None

    def _late(self, x: Floats, section: NDArray[np.int64]) -> Floats:
        return self.line.late_s(x, section) - self.line.offsets_s[section] + self.offsets[section]

    def _without_host_delay(self, losses: list[tuple[int, Step]]) -> Floats:
        """Offsets without what the host added: before a lone fall everything had come later than it could."""
        offsets = self.line.offsets_s.copy()
        lossy = {section for section, _ in losses}
        for s in range(len(offsets) - 2, -1, -1):
            if s + 1 not in lossy:
                offsets[: s + 1] -= self.line.offsets_s[s] - self.line.offsets_s[s + 1]
        return np.asarray(offsets)

    def _is_identity(self) -> bool:
        b = self.b
        moved = self._late(b.x, self.section) - self.offsets[self.section]
        return bool(np.abs(moved).max() < _SAME_S)

    def _gaps(self, losses: list[tuple[int, Step]]) -> list[Gap]:
        b, gaps = self.b, []
        for section, step in losses:
            i = step.index
            near = np.abs(b.x - b.x[i]) < _NEAR_S
            before, after = (
                self.residual[near & self.kept & (self.section == s)] for s in (section - 1, section)
            )
            unknown = b.usual_frames / self.rate
            edges = [edge_of(part) if len(part) else unknown for part in (before, after)]
            sigma = _GAP_SIGMA * float(np.hypot(edges[0], edges[1])) * self.rate
            true_rate = self.rate / (1.0 + self.line.slope)
            lost = float(self.offsets[section] - self.offsets[section - 1]) * true_rate
            whole = round(lost / b.usual_frames) * b.usual_frames
            # Whole blocks are what a host drops; believed when chance would seldom bring it so near to them.
            if whole and abs(lost - whole) < 2 * sigma + 0.5 and 4 * sigma + 1 < 0.1 * b.usual_frames:
                lost, sigma = float(whole), min(sigma, 0.5)
            if round(lost) > 0:
                gaps.append(Gap(i, int(b.file_frame[i]), round(lost), sigma, step.flagged))
        return gaps

    # What comes of it

    def pieces(self) -> list[Line]:
        """The "clock" lines: from each file_frame on, time is t_ns + (frame - file_frame) / rate_hz."""
        b = self.b
        knots = self.line.knots_s if not self.identity else self.line.knots_s[[0, -1]]
        starts = {gap.index for gap in self.gaps} | {0}
        starts |= set(np.clip(np.searchsorted(b.x, knots[1:-1]), 1, len(b.x) - 1).tolist())
        counted = {int(i): int(b.known[i] - b.known[i - 1]) for i in np.flatnonzero(np.diff(b.known)) + 1}
        order = sorted(starts | set(counted))
        found: list[Line] = []
        lost = {gap.index: gap for gap in self.gaps}
        for i, end in zip(order, [*order[1:], len(b.x)], strict=True):
            last = end - 1 if end == len(b.x) or end in lost or end in counted else end
            section = self.section[i : i + 1]
            x = b.x[[i, max(last, i)]]
            begin, stop = (float(self._late(x[k : k + 1], section)[0]) for k in (0, 1))
            slope = 0.0 if self.identity or x[1] <= x[0] else (stop - begin) / float(x[1] - x[0])
            if x[1] <= x[0] and not self.identity:
                slope = self.line.slope
            t_ns = b.origin_ns + round((float(x[0]) + begin) * 1e9)
            if abs(t_ns - int(b.t_ns[i])) <= _SAME_S * 1e9 and (self.identity or b.exact):
                t_ns = int(b.t_ns[i])
            inside = (np.arange(len(b.x)) >= i) & (np.arange(len(b.x)) < end) & self.kept
            gap = lost.get(i)
            found.append(
                {
                    "type": "clock",
                    "t_ns": t_ns,
                    "file_frame": int(b.file_frame[i]),
                    "rate_hz": self.rate / (1.0 + slope),
                    "drift_ppm": round((1.0 / (1.0 + slope) - 1.0) * 1e6, 4),
                    "drift_sigma_ppm": _finite(self.line.slope_sigma * 1e6, 4),
                    "offset_sigma_ns": round(_OFFSET_SIGMA * 1e9 * edge_of(self.residual[inside])),
                    "jitter_ms": round(float(np.quantile(self.residual[i:end], 0.95)) * 1e3, 4),
                    "source": "exact" if b.exact else "arrival",
                    "lost_frames": (gap.lost_frames if gap else 0) + counted.get(i, 0),
                    "sigma_frames": round(gap.sigma_frames, 2) if gap else 0.0,
                }
            )
        return found

    def summary(self) -> dict[str, Any]:
        b = self.b
        known = (np.flatnonzero(np.diff(b.known)) + 1).tolist()
        starts = sorted({0, *(gap.index for gap in self.gaps), *known, len(b.x)})
        segments = []
        for i, end in pairwise(starts):
            x = b.x[[i, end - 1]]
            begin, stop = (float(self._late(x[k : k + 1], self.section[i : i + 1])[0]) for k in (0, 1))
            slope = (stop - begin) / float(x[1] - x[0]) if x[1] > x[0] else self.line.slope
            segments.append(
                {
                    "first_frame": int(b.first_frame[i]),
                    "file_frame": int(b.file_frame[i]),
                    "span_s": round(float(x[1] - x[0]), 3),
                    "points": int(end - i),
                    "drift_ppm": round((1.0 / (1.0 + slope) - 1.0) * 1e6, 3),
                    "drift_sigma_ppm": _finite(self.line.slope_sigma * 1e6, 3),
                    "offset_ns": b.origin_ns + round((float(x[0]) + begin) * 1e9),
                    "offset_sigma_ns": round(_OFFSET_SIGMA * 1e9 * edge_of(self.residual[i:end])),
                    "jitter_ms": round(float(np.quantile(self.residual[i:end], 0.95)) * 1e3, 4),
                }
            )
        slope, sigma = self.line.slope, self.line.slope_sigma
        sigmas_ns = [_OFFSET_SIGMA * 1e9 * edge_of(self.residual[i:end]) for i, end in pairwise(starts)]
        return {
            "drift_ppm": 0.0 if self.identity else round((1.0 / (1.0 + slope) - 1.0) * 1e6, 3),
            "drift_sigma_ppm": _finite(sigma * 1e6, 3),
            "jitter_ms": round(float(np.quantile(self.residual, 0.95)) * 1e3, 4),
            "offset_sigma_ms": round(max(sigmas_ns) / 1e6, 4),
            "segments": segments,
            "gaps": [
                {
                    "file_frame": gap.file_frame,
                    "lost_frames": gap.lost_frames,
                    "sigma_frames": round(gap.sigma_frames, 2),
                    "reported_by_host": gap.flagged,
                }
                for gap in self.gaps
            ],
        }

    def corrected(self, lines: Sequence[Line]) -> tuple[list[Line], bool]:
        """The lines with place and length of each estimated gap as they are known now; what the recorder had
        found stays under `found`. A gap that was none becomes the event "gap_withdrawn"."""
        if self.b.exact:
            return list(lines), False
        replaced: dict[int, Line] = {}
        taken: set[int] = set()
        for line, index, guessed in self.b.declared:
            near = [gap for i, gap in enumerate(self.gaps) if i not in taken]
            match = self._match(near, index)
            if match is None:
                data = {key: value for key, value in line.items() if key != "type"}
                replaced[id(line)] = {
                    "type": "event",
                    "t_ns": line["t_ns"],
                    "kind": "gap_withdrawn",
                    "data": {**data, "detail": "later blocks came in time again: the host was late"},
                }
                continue
            gap = near[match]
            taken.add(self.gaps.index(gap))
            was = line.get("found") or {key: line[key] for key in ("file_frame", "lost_frames")}
            replaced[id(line)] = {
                **line,
                **self._place(gap),
                "lost_frames": was["lost_frames"] - guessed + gap.lost_frames,
                "found": was,
            }
        added = {
            gap.index: {
                "type": "gap",
                "stream": "audio",
                "cause": "arrivals",
                **self._place(gap),
                "lost_frames": gap.lost_frames,
            }
            for i, gap in enumerate(self.gaps)
            if i not in taken
        }
        by_frame = {int(self.b.file_frame[index]): line for index, line in added.items()}
        out: list[Line] = []
        for line in lines:
            if line["type"] == "audio" and (new := by_frame.pop(int(line["file_frame"]), None)) is not None:
                out.append(new)
            out.append(replaced.get(id(line), line))
        return out, bool(replaced or added)

    def _place(self, gap: Gap) -> Line:
        i = gap.index
        before = self.section[i - 1 : i]
        ended = self.b.x[i : i + 1]
        t_ns = self.b.origin_ns + round(float(ended[0] + self._late(ended, before)[0]) * 1e9)
        return {"t_ns": t_ns, "file_frame": gap.file_frame, "sigma_frames": round(gap.sigma_frames, 2)}


def _sections(
    count: int, steps: list[Step]
) -> tuple[NDArray[np.int64], NDArray[np.bool_], list[tuple[int, Step]]]:
    """(section of each block, which blocks tell the time, [(section that begins with a loss, its step)])."""
    kept = np.ones(count, np.bool_)
    cancelled: set[int] = set()
    for rise, fall in host_delays(steps):
        kept[steps[rise].index : steps[fall].index] = False
        cancelled |= set(range(rise, fall + 1))
    if kept.sum() < _FEWEST_BLOCKS:
        kept[:] = True
        cancelled = set()
    section = np.zeros(count, np.int64)
    losses = []
    for i, step in enumerate(steps):
        if i in cancelled:
            continue
        section[step.index :] += 1
        if step.size_s > 0:
            losses.append((int(section[step.index]), step))
    return section, kept, losses


def _finite(value: float, digits: int) -> float | None:
    return round(value, digits) if np.isfinite(value) else None
