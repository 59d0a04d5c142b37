"""Audio-video offset from a slate: flashes in the picture that begin together with beeps in the sound.

A picture tells only that the light came on between the picture before and this one, so one flash bounds the
offset to one frame interval. Several flashes at different phases of the frame clock bound it more tightly:
the offset lies where their intervals overlap. A constant exposure or read-out delay of the camera and the
sound's way through the air (2.9 ms per metre) are part of the offset unless given.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from capture.blocks import AudioBlock, AudioInfo, VideoFrame
from dsp.errors import InputError

SPEED_OF_SOUND_M_S = 343.0
_GRID = (64, 36)  # cells (across, down) in which the flash is looked for
_MIN_RISE = 12.0  # grey levels of a cell
_ONSET_SIGMA_MS = 1.5  # of a beep's onset in a room
_SEARCH_MS = 500.0  # a beep belongs to a flash that is at most this far away
_KEEP_S = 120.0  # slates are looked for in the first and the last two minutes


_Sound = tuple[int, int, NDArray[np.float32]]  # t_ns, first_frame, mono
_Picture = tuple[int, NDArray[np.uint8]]  # t_ns, grid


@dataclass(frozen=True, slots=True)
class AvOffset:
    """offset_ms is positive when the sound is late against the picture; sigma_ms its standard deviation,
    which with few events is dominated by the frame interval. events: flash and beep pairs used."""

    offset_ms: float
    sigma_ms: float
    events: int


def estimate_av_offset(
    audio: ArrayLike,
    fs: float,
    t0_ns: int,
    frame_times_ns: ArrayLike,
    brightness: ArrayLike,
    *,
    min_events: int = 2,
    distance_m: float = 0.0,
) -> AvOffset:
    """Offset between sound and pictures from at least `min_events` flash and beep pairs.

    audio: (n,) mono; sample i is at t0_ns + i / fs. frame_times_ns: (m,) int64; brightness: (m,) or
    (m, cells) mean grey of the whole picture or of its parts, 0 to 255. distance_m: from the beeper to the
    microphone; its travel time is taken out. Raises InputError with too few events, or when they disagree.
    """
    pairs = _pairs(audio, fs, t0_ns, frame_times_ns, brightness)
    return _combine(pairs, min_events, distance_m)


def _pairs(
    audio: ArrayLike, fs: float, t0_ns: int, frame_times_ns: ArrayLike, brightness: ArrayLike
) -> list[tuple[float, float]]:
    """Per event: (lowest, highest) possible offset in ms."""
    x = np.asarray(audio, np.float64)
    times = (np.asarray(frame_times_ns, np.int64) - t0_ns) / 1e9
    cells = np.asarray(brightness, np.float32)
    if cells.ndim == 1:
        cells = cells[:, None]
    if x.ndim != 1 or len(times) != len(cells):
        raise InputError(
            f"A/V offset needs mono audio and one brightness row per picture: got audio {x.shape},"
            f" {len(times)} times, brightness {cells.shape}"
        )
    flashes = find_flashes(times, cells)
    if not flashes:
        return []
    onsets = find_beeps(x, fs, [0.5 * (a + b) for a, b in flashes])
    return [
        ((onset - after) * 1e3, (onset - before) * 1e3)
        for (before, after), onset in zip(flashes, onsets, strict=True)
        if onset is not None
    ]


def find_flashes(times_s: NDArray[np.float64], cells: NDArray[np.float32]) -> list[tuple[float, float]]:
    """Moments at which a light came on: (time of the last dark picture, time of the first lit one).

    cells: (m, k) grey levels. A flash is a part of the picture that was steady, rises within one picture and
    falls back within 0.6 s.
    """
    m = len(cells)
    if m < 8:
        return []
    interval = float(np.median(np.diff(times_s)))
    quiet = max(3, round(0.2 / interval))
    longest = max(2, round(0.6 / interval))
    rise = np.zeros_like(cells)
    rise[1:] = cells[1:] - cells[:-1]
    strength = np.zeros(m)
    for k in range(quiet, m - 1):
        columns = np.flatnonzero(rise[k] > _MIN_RISE)
        if not len(columns):
            continue
        before = cells[k - quiet : k, columns]
        level = before.mean(axis=0)
        height = cells[k, columns] - level
        steady = np.ptp(before, axis=0) < 0.3 * height
        after = cells[k + 1 : k + 1 + longest, columns]
        falls = (after - level < 0.3 * height).any(axis=0)
        strength[k] = float(np.sum(height[steady & falls]))
    found = np.flatnonzero(strength > max(_MIN_RISE, 0.25 * strength.max(initial=0.0)))
    flashes: list[tuple[float, float]] = []
    for k in (int(i) for i in found):
        if flashes and times_s[k] - flashes[-1][1] < 0.15:
            continue  # the same flash, seen in two pictures (rolling shutter)
        flashes.append((float(times_s[k - 1]), float(times_s[k])))
    return flashes


def find_beeps(x: NDArray[np.float64], fs: float, near_s: list[float]) -> list[float | None]:
    """Onset times (s) of the same tone near each of the given times; None where there is none.

    The tone is the frequency between 700 Hz and 6 kHz that rises most at all places together. Its onset is
    where its envelope (demodulated, smoothed by a symmetric 6 ms window) crosses half of its plateau.
    """
    hop, size = max(1, round(0.005 * fs)), round(0.04 * fs)
    frequencies = np.fft.rfftfreq(size, 1 / fs)
    band = (frequencies > 700) & (frequencies < min(6000, fs / 2 * 0.9))
    window = np.hanning(size)
    nothing = np.full(int(band.sum()), -np.inf)
    clips: list[tuple[int, NDArray[np.float64]]] = []
    rises = []
    for near in near_s:
        first = max(0, round((near - _SEARCH_MS / 1e3 - 0.1) * fs))
        clip = x[first : max(first, round((near + _SEARCH_MS / 1e3 + 0.2) * fs))]
        clips.append((first, clip))
        if len(clip) < size + 40 * hop:
            rises.append(nothing)
            continue
        frames = np.lib.stride_tricks.sliding_window_view(clip, size)[::hop] * window
        power = np.abs(np.fft.rfft(frames, axis=1)[:, band]) ** 2
        power += 1e-3 * power.max(initial=0.0) / 100 + 1e-20
        total = np.cumsum(np.vstack([np.zeros(power.shape[1]), power]), axis=0)
        short, long = 8, 16  # 40 ms after against 80 ms before
        mid = np.arange(long, len(power) - short)
        after = (total[mid + short] - total[mid]) / short
        before = (total[mid] - total[mid - long]) / long
        rises.append(10 * np.log10((after / before).max(axis=0)))
    # A device that only beeps by chance near one flash should not choose the tone: use the median place.
    usable = [r for r in rises if np.isfinite(r).all()] or [nothing]
    together = np.median(usable, axis=0)
    if not np.isfinite(together).all():
        return [None] * len(near_s)
    tone = float(frequencies[band][int(np.argmax(together))])
    return [
        _onset(clip, fs, tone, first) if np.isfinite(r).all() else None
        for (first, clip), r in zip(clips, rises, strict=True)
    ]


def _onset(clip: NDArray[np.float64], fs: float, tone_hz: float, first: int) -> float | None:
    n = np.arange(len(clip))
    smooth = np.hanning(2 * round(0.003 * fs) + 3)
    smooth /= smooth.sum()
    envelope = np.abs(np.convolve(clip * np.exp(-2j * np.pi * tone_hz / fs * n), smooth, "same"))
    step = round(0.02 * fs)
    total = np.cumsum(np.concatenate([[0.0], envelope]))
    mid = np.arange(2 * step, len(clip) - step)
    if not len(mid):
        return None
    after = (total[mid + step] - total[mid]) / step
    before = (total[mid] - total[mid - 2 * step]) / (2 * step)
    best = int(mid[np.argmax(after - 2.0 * before)])
    plateau = float(np.median(envelope[best + step // 4 : best + 2 * step]))
    floor = float(np.median(envelope[best - 2 * step : best - step // 4]))
    if plateau < 3.0 * floor or plateau <= 0:
        return None
    half = floor + 0.5 * (plateau - floor)
    start = best - step
    above = np.flatnonzero(envelope[start : best + step] >= half)
    if not len(above) or above[0] == 0:
        return None
    k = start + int(above[0])
    fraction = (half - envelope[k - 1]) / max(envelope[k] - envelope[k - 1], 1e-30)
    return (first + k - 1 + float(fraction)) / fs


def _combine(pairs: list[tuple[float, float]], min_events: int, distance_m: float) -> AvOffset:
    if len(pairs) < min_events:
        raise InputError(
            f"A/V offset: found {len(pairs)} flash and beep pairs, at least {min_events} are needed."
            " Show the slate (a light that comes on with a beep) a few times at the start of the take."
        )
    slack = 2.0 * _ONSET_SIGMA_MS
    intervals = np.array([(low - slack, high + slack) for low, high in pairs if high - low < 300.0])
    if len(intervals) < min_events:
        raise InputError("A/V offset: pictures are missing around the flashes")
    edges = np.unique(intervals)
    middles = 0.5 * (edges[:-1] + edges[1:])
    inside = (intervals[:, :1] <= middles) & (intervals[:, 1:] >= middles)
    votes = inside.sum(axis=0)
    best = int(votes.max())
    if best < max(min_events, math.ceil(0.6 * len(intervals))):
        raise InputError(
            f"A/V offset: the {len(intervals)} flash and beep pairs do not agree"
            f" (at most {best} within one frame)"
        )
    where = np.flatnonzero(votes == best)
    low, high = float(edges[where[0]]), float(edges[where[-1] + 1])
    sigma = math.hypot(max(high - low - 2 * slack, 0.0) / math.sqrt(12.0), _ONSET_SIGMA_MS)
    travel = distance_m / SPEED_OF_SOUND_M_S * 1e3
    return AvOffset(round(0.5 * (low + high) - travel, 3), round(sigma, 3), best)


class SlateWatch:
    """Keeps what a slate could be in, the first and the last two minutes, while a take is recorded.

    `audio` and `frame` may be called from one thread each; `estimate` after both have ended.
    """

    def __init__(self, info: AudioInfo) -> None:
        self._rate = info.rate_hz
        self._omni = info.format in ("ambix", "fuma", "n3d")
        self._sound: tuple[list[_Sound], deque[_Sound]] = ([], deque())
        self._pictures: tuple[list[_Picture], deque[_Picture]] = ([], deque())

    def audio(self, block: AudioBlock) -> None:
        """Take a block."""
        samples = block.samples[:, 0] if self._omni else block.samples.mean(axis=1)
        item = (block.t_ns, block.first_frame, samples.astype(np.float32) * np.float32(2.0**-31))
        head, tail = self._sound
        if not head or block.t_ns - head[0][0] < _KEEP_S * 1e9:
            head.append(item)
            return
        tail.append(item)
        while block.t_ns - tail[0][0] > _KEEP_S * 1e9:
            tail.popleft()

    def frame(self, frame: VideoFrame) -> None:
        """Take a picture; only a coarse grid of its brightness is kept."""
        import cv2

        small = cv2.resize(frame.image, _GRID, interpolation=cv2.INTER_AREA)
        item = (frame.t_ns, cv2.cvtColor(small, cv2.COLOR_BGR2GRAY).ravel())
        head, tail = self._pictures
        if not head or frame.t_ns - head[0][0] < _KEEP_S * 1e9:
            head.append(item)
            return
        tail.append(item)
        while frame.t_ns - tail[0][0] > _KEEP_S * 1e9:
            tail.popleft()

    def estimate(self, min_events: int = 2) -> AvOffset:
        """The offset; raises InputError with too few events."""
        pairs: list[tuple[float, float]] = []
        for sound, pictures in zip(self._sound, self._pictures, strict=True):
            if len(sound) < 2 or len(pictures) < 8:
                continue
            origin, base = sound[0][1], sound[0][0]
            frames = np.array([first - origin for _, first, _ in sound], np.float64)
            slope, level = np.polyfit(frames, np.array([t - base for t, _, _ in sound], np.float64), 1)
            mono = np.zeros(int(frames[-1]) + len(sound[-1][2]), np.float32)
            for _, first, samples in sound:
                mono[first - origin : first - origin + len(samples)] = samples
            times = np.array([t for t, _ in pictures], np.int64)
            grid = np.array([g for _, g in pictures])
            pairs += _pairs(mono, 1e9 / float(slope), base + round(float(level)), times, grid)
        return _combine(pairs, min_events, 0.0)
