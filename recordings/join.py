"""Parts of one take, as recorders split it at 2 GiB: their order, what overlaps, what is missing. Sample-
exact.

Consecutive parts of some recorders overlap by a fraction of a second; others abut. An overlap is found by a
hash of every possible length at once (Karp and Rabin, IBM J. Res. Dev. 31 (1987)), and then every sample of
it is compared: only what is identical is ever left out of the later part. What the time references of the
bext chunks say is checked against what the samples say. The files given are never changed.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dsp.errors import InputError
from recordings.audio_file import AudioFile, open_audio
from recordings.terminal import counted
from recordings.wav_read import WavFile, read_wav
from recordings.wav_trim import trim_wav

MAX_GAP_S = (
    2.0  # more is missing: they are two takes. Two clock readings of 1 s steps, and what a split takes
)
_SEARCH_S = 5.0  # how much of the ends is compared when no time says how much
_MAX_SEARCH_S = 120.0
_LEAST = 32  # frames; a shorter match may be chance, and counts only when the time references say the same
_MOST = 20
_VARIED = 8  # different frames that an overlap must hold: silence matches silence at every length


@dataclass(frozen=True)
class Joint:
    """What is known about the place where one part ends and the next begins.

    between:        names of the two parts.
    overlap_frames: frames at the start of the later part that repeat the end of the earlier one; left out.
    gap_frames:     frames that are missing between them by exact time references; 0 when none or not known.
    time_reference_gap_frames: what the bext time references say (negative: overlap); None: they do not.
    note:           in words.
    """

    between: str
    overlap_frames: int
    gap_frames: int
    time_reference_gap_frames: int | None
    note: str

    def to_dict(self) -> dict[str, Any]:
        """Plain data for episode.yaml."""
        return {
            "between": self.between,
            "overlap_frames": self.overlap_frames,
            "gap_frames": self.gap_frames,
            "time_reference_gap_frames": self.time_reference_gap_frames,
            "note": self.note,
        }


@dataclass(frozen=True)
class JoinPlan:
    """The parts in the order of the take, and the first frame of each that is used.

    notes: what is worth knowing, such as an order that is not that of the names.
    """

    parts: tuple[AudioFile, ...]
    skips: tuple[int, ...]
    joints: tuple[Joint, ...]
    notes: tuple[str, ...] = ()

    @property
    def paths(self) -> tuple[Path, ...]:
        """The files in order."""
        return tuple(part.paths[0] for part in self.parts)

    @property
    def frames(self) -> int:
        """Frames of the joined take, gaps not filled."""
        return sum(part.frames - skip for part, skip in zip(self.parts, self.skips, strict=True))

    def read(self) -> NDArray[np.float32]:
        """The whole take as float32 (frames, channels); for short ones."""
        return np.concatenate([p.read(skip) for p, skip in zip(self.parts, self.skips, strict=True)])


def plan_join(paths: Sequence[str | Path]) -> JoinPlan:
    """Order the parts, find what overlaps, abuts or is missing.

    Order: by date and time reference of the bext chunks where every part has one and no two are equal, else
    by name. Raises InputError when parts differ in rate, channels, bits or format, when time references say
    that they overlap and the samples do not agree, when more than 2 s is missing, when a part holds nothing
    new, or when several overlaps are possible and nothing says which.
    """
    files = [open_audio(Path(path)) for path in paths]
    if not files:
        raise InputError("no sound file was given")
    by_name = sorted(files, key=lambda file: file.paths[0].name)
    for part in by_name[1:]:
        _same_form(by_name[0], part)
    times = [_reference_frames(file) for file in by_name]
    notes: list[str] = []
    ordered = by_name
    if len(files) > 1 and None not in times and len(set(times)) == len(times):
        ordered = [by_name[i] for i in np.argsort(np.array(times, np.int64), kind="stable")]
        if ordered != by_name:
            names = ", ".join(_shown(file) for file in ordered)
            notes.append(f"the names are not in the order of the recorder's time; joined as {names}")
    skips, joints = [0], []
    for before, after in itertools.pairwise(ordered):
        joint = _joint(before, after)
        if joint.overlap_frames >= after.frames:
            raise InputError(f"{_shown(after)} holds nothing that {_shown(before)} does not; leave it out")
        skips.append(joint.overlap_frames)
        joints.append(joint)
    return JoinPlan(tuple(ordered), tuple(skips), tuple(joints), tuple(notes))


def _shown(file: AudioFile) -> str:
    return os.fsencode(file.paths[0].name).decode("utf-8", "replace")


def _same_form(first: AudioFile, other: AudioFile) -> None:
    pairs = {
        "rate": (f"{other.rate} Hz", f"{first.rate} Hz"),
        "channels": (str(other.channels), str(first.channels)),
        "bits": (_bits(other), _bits(first)),
        "channel order": (str(other.format or "unknown"), str(first.format or "unknown")),
    }
    wrong = [f"its {what} {a}, not {b}" for what, (a, b) in pairs.items() if a != b]
    if wrong:
        raise InputError(f"{other.paths[0]} does not continue {_shown(first)}: {'; '.join(wrong)}")


def _bits(file: AudioFile) -> str:
    return f"{file.bits} {'float' if file.is_float else 'integer'}" if file.bits else "compressed"


def _reference_frames(file: AudioFile) -> int | None:
    """Frames from a fixed day to the first frame by date and time reference; None when bext has none."""
    bext = file.bext
    if bext is None or not bext.time_reference:
        return None
    try:
        day = date.fromisoformat(bext.date.replace("/", "-").replace(":", "-")).toordinal()
    except ValueError:
        day = 0
    return day * 86400 * file.rate + bext.time_reference


def _joint(before: AudioFile, after: AudioFile) -> Joint:
    names = f"{_shown(before)} and {_shown(after)}"
    a, b = _reference_frames(before), _reference_frames(after)
    step = None if a is None or b is None else b - a - before.frames
    # A recorder that writes whole seconds only may be a second off either way.
    slack = before.rate if a is not None and b is not None and not (a % before.rate or b % before.rate) else 0
    lengths, silent = overlaps(before, after, step)
    exact = step is not None and slack == 0
    fitting = [n for n in lengths if step is not None and abs(n + step) <= slack]
    sure = fitting if fitting else [n for n in lengths if n >= _LEAST]
    if len(sure) > 1 and exact and step is not None and step >= 0:
        sure = []  # sound that repeats itself exactly, such as a test tone: the time references know better
    if len(sure) > 1:
        raise InputError(
            f"{names} could overlap by {', '.join(map(str, sure[:4]))} frames: the sound repeats itself"
            " exactly, and no time reference says which it is; import them one by one"
        )
    if sure:
        note = f"{counted(sure[0], 'frame')} of the second repeat the first exactly; left out"
        if step is not None and not fitting:
            note += f" (the time references say {-step}; the samples count)"
        return Joint(names, sure[0], 0, step, note)
    if step is not None and step < -slack:
        raise InputError(
            f"{names} seem to overlap: by their time references the second starts {-step} frames before the"
            " first ends, but the samples there differ; import them one by one"
        )
    gaps = _gaps_s(before, after, step)
    if not any(abs(gap) <= MAX_GAP_S for gap in gaps):
        known = "no time in both of them says that one continues the other"
        if gaps:
            known = f"by their times the second starts {gaps[0]:.1f} s after the first ends"
        raise InputError(f"{names} do not seem to be parts of one take: {known}; import them one by one")
    if exact and step:
        return Joint(names, 0, step, step, f"{counted(step, 'frame')} ({step / before.rate:.3f} s) missing")
    note = "no overlap; the time references abut" if exact else "no overlap; times are good to a second only"
    if silent:
        note += "; both are silent there, where an overlap could not be seen"
    return Joint(names, 0, 0, step, note)


def _gaps_s(before: AudioFile, after: AudioFile, step: int | None) -> list[float]:
    """Seconds from the end of one part to the start of the next, by each clock that both parts tell."""
    gaps: list[float] = []
    a, b = before.bext, after.bext
    if a is not None and b is not None and a.local_time and b.local_time:
        gaps.append((b.local_time - a.local_time).total_seconds() - before.duration_s)
    if step is not None:
        gaps.append(step / before.rate)
    return gaps


def overlaps(before: AudioFile, after: AudioFile, step: int | None = None) -> tuple[list[int], bool]:
    """(lengths, silent): numbers of frames at the end of `before` that the start of `after` repeats exactly.

    step: gap by the time references, in frames. A large overlap there widens the search (to two minutes), and
    exactly that overlap counts however little it holds. Others need 8 different frames; silent: there are
    some that do not have them. At most 20 are compared, the shortest first: more means a periodic sound.
    """
    reach = _SEARCH_S * before.rate
    if step is not None and step < 0:
        reach = max(reach, min(-step + 2 * before.rate, _MAX_SEARCH_S * before.rate))
    count = min(round(reach), before.frames, after.frames)
    if count == 0:
        return [], False
    tail, head = _stored(before, before.frames - count, count), _stored(after, 0, count)
    possible = _candidates(_hash(tail), _hash(head))
    least = _first_varied(head)
    told = [] if step is None else [n for n in possible if n == -step]
    worth = told + [n for n in possible if n >= least and n not in told][:_MOST]
    found = [n for n in worth if np.array_equal(tail[count - n :], head[:n])]
    return sorted(found), bool(possible) and possible[0] < least and not found


def _stored(file: AudioFile, start: int, count: int) -> NDArray[np.uint32]:
    """Samples as stored (frames, channels), bit for bit; of a compressed file as decoded."""
    path = file.paths[0]
    x = read_wav(path).read(start, count) if is_wav(file) else file.read(start, count)
    return np.ascontiguousarray(x).view(np.uint32)


def is_wav(file: AudioFile) -> bool:
    """Whether the part is a WAV file: only from those can a start be cut off without coding it again."""
    return isinstance(file._parts[0][1], WavFile)


def _first_varied(x: NDArray[np.uint32]) -> int:
    """Length of the shortest start that holds 8 different frames; more than there is when none does."""
    seen: list[bytes] = []
    for i in np.concatenate([[0], np.flatnonzero((x[1:] != x[:-1]).any(axis=1))[:4096] + 1]):
        frame = x[i].tobytes()
        if frame not in seen:
            seen.append(frame)
            if len(seen) == _VARIED:
                return int(i) + 1
    return len(x) + 1


def _hash(x: NDArray[np.uint32]) -> NDArray[np.uint64]:
    """One number per frame; equal frames give equal numbers."""
    odd = np.random.default_rng(7).integers(0, 1 << 63, x.shape[1], dtype=np.uint64) * 2 + 1
    mixed = ((x.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)) * odd).sum(axis=1, dtype=np.uint64)
    mixed ^= mixed >> np.uint64(29)
    return np.asarray(mixed * np.uint64(0xBF58476D1CE4E5B9), np.uint64)


def _candidates(tail: NDArray[np.uint64], head: NDArray[np.uint64]) -> list[int]:
    """Lengths n, ascending, at which the hash of the last n of `tail` is that of the first n of `head`."""
    n = len(tail)
    powers = np.full(n, 0x9E3779B97F4A7C15 | 1, np.uint64)
    powers[0] = 1
    powers = np.cumprod(powers, dtype=np.uint64)  # modulo 2^64; the base is odd, so that none is zero
    heads = np.cumsum(head * powers, dtype=np.uint64)
    tails = np.concatenate([[np.uint64(0)], np.cumsum(tail * powers, dtype=np.uint64)])
    lengths = np.arange(1, n + 1)
    # The last k frames of the tail carry the powers n - k and up: bring the head's to the same.
    same = heads * powers[n - lengths] == tails[n] - tails[n - lengths]
    return [int(k) for k in lengths[same]]


def copy_without_start(source: Path, target: Path, skip: int) -> None:
    """Write `source` (WAV) to `target` without its first `skip` frames; every other chunk byte for byte.

    Only the sizes and the time of the first sample change; a damaged end is left out. Raises InputError,
    StorageError; an existing target is an error.
    """
    trim_wav(source, target, f"{skip}f")
