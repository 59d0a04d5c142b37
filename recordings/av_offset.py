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
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dsp.errors import InputError
from recordings.episode import VIDEO, Episode
from recordings.video_read import small_frames

SPEED_OF_SOUND_M_S = 343.0
_GRID = (64, 36)  # cells (across, down) in which the flash is looked for
_MIN_RISE = 12.0  # grey levels of a cell
_ONSET_SIGMA_MS = 1.5  # of a beep's onset in a room
_SEARCH_MS = 500.0  # a beep belongs to a flash that is at most this far away
_RISE_S = 0.04  # over which a tone's rise is looked at
_KEEP_S = 120.0  # slates are looked for in the first and the last two minutes


_Sound = tuple[int, int, NDArray[np.float32]]  # t_ns, first_frame, mono
_Picture = tuple[int, NDArray[np.uint8]]  # t_ns, grid
_Item = TypeVar("_Item", _Sound, _Picture)


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
    brackets = _brackets(audio, fs, t0_ns, frame_times_ns, brightness)
    return _combine(brackets, min_events, distance_m)


@dataclass(frozen=True, slots=True)
class Flash:
    """A light came on after the picture at `dark_s` and before that at `lit_s` (seconds), and went off after
    `still_lit_s` and before `dark_again_s`."""

    dark_s: float
    lit_s: float
    still_lit_s: float
    dark_again_s: float


@dataclass(frozen=True, slots=True)
class Beep:
    """Onset of a tone in seconds, and its end where that is sharp (a room's echoes can blur it)."""

    on_s: float
    off_s: float | None


_Bracket = tuple[int, float, float]  # event, lowest and highest possible offset in ms


def _brackets(
    audio: ArrayLike, fs: float, t0_ns: int, frame_times_ns: ArrayLike, brightness: ArrayLike
) -> list[_Bracket]:
    """What each flash and beep pair allows: a bracket from its beginning, one from its end."""
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
    beeps = find_beeps(x, fs, [0.5 * (f.dark_s + f.lit_s) for f in flashes])
    found: list[_Bracket] = []
    for event, flash in enumerate(flashes):
        for beep in beeps:
            found += [(event, low, high) for low, high in _allowed(flash, beep)]
    return found


def _allowed(flash: Flash, beep: Beep) -> list[tuple[float, float]]:
    """Offsets in ms that a flash and a beep allow if they belong together; none if they are too far apart."""
    on = ((beep.on_s - flash.lit_s) * 1e3, (beep.on_s - flash.dark_s) * 1e3)
    if abs(on[0] + on[1]) / 2 > _SEARCH_MS:
        return []
    if beep.off_s is None:
        return [on]
    shortest, longest = flash.still_lit_s - flash.lit_s, flash.dark_again_s - flash.dark_s
    if not shortest < beep.off_s - beep.on_s < longest:  # light and tone do not last equally long
        return [on]
    return [on, ((beep.off_s - flash.dark_again_s) * 1e3, (beep.off_s - flash.still_lit_s) * 1e3)]


def find_flashes(times_s: NDArray[np.float64], cells: NDArray[np.float32]) -> list[Flash]:
    """Flashes: parts of the picture that were steady, rise within one picture, and fall back within 0.6 s.

    cells: (m, k) grey levels. A picture counts as lit when it shows at least half of the flash, which with
    stamps in the middle of the exposure is right whatever the exposure.
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
    parts: dict[int, NDArray[np.intp]] = {}
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
        parts[k] = columns[steady & falls]
    found = np.flatnonzero(strength > max(_MIN_RISE, 0.25 * strength.max(initial=0.0)))
    flashes: list[Flash] = []
    for k in (int(i) for i in found):
        if flashes and times_s[k] - flashes[-1].lit_s < 0.15:
            continue  # the same flash, seen in two pictures
        course = cells[:, parts[k]].mean(axis=1)
        base = float(course[k - quiet : k].mean())
        half = base + 0.5 * (float(course[k : k + longest].max()) - base)
        lit = k + int(np.argmax(course[k : k + longest] >= half))
        dark = np.flatnonzero(course[lit : lit + longest] < half)
        if not len(dark):
            continue
        end = lit + int(dark[0])
        flashes.append(Flash(*(float(times_s[i]) for i in (lit - 1, lit, end - 1, end))))
    return flashes


def find_beeps(x: NDArray[np.float64], fs: float, near_s: list[float]) -> list[Beep]:
    """Every beep of one tone near the given times.

    The tone is the frequency between 700 Hz and 6 kHz that rises most at all these times together. A beep
    begins where the tone's envelope (demodulated, smoothed by a symmetric 6 ms window) crosses half of its
    plateau, and ends where that envelope jumps.
    """
    clips = _clips(x, fs, near_s)
    tone = _tone(clips, fs)
    if tone is None:
        return []
    found = [beep for first, clip in clips for beep in _beeps_of(clip, fs, tone, first)]
    # Clips overlap: keep one of two, rather that whose end is in its clip.
    beeps: list[Beep] = []
    for beep in sorted(found, key=lambda b: b.off_s is None):
        if all(abs(beep.on_s - other.on_s) > 0.01 for other in beeps):
            beeps.append(beep)
    return beeps


def tone_hz(x: NDArray[np.float64], fs: float, near_s: list[float]) -> float | None:
    """The frequency between 700 Hz and 6 kHz that rises most within half a second of all the given times."""
    return _tone(_clips(x, fs, near_s), fs)


def _clips(x: NDArray[np.float64], fs: float, near_s: list[float]) -> list[tuple[int, NDArray[np.float64]]]:
    """(first sample, samples) around each time, as far as there is enough sound."""
    clips = []
    for near in near_s:
        first = max(0, round((near - _SEARCH_MS / 1e3 - 0.1) * fs))
        clip = x[first : max(first, round((near + _SEARCH_MS / 1e3 + 0.2) * fs))]
        if len(clip) > 6 * round(_RISE_S * fs):
            clips.append((first, clip))
    return clips


def _tone(clips: list[tuple[int, NDArray[np.float64]]], fs: float) -> float | None:
    if not clips:
        return None
    size = round(_RISE_S * fs)
    frequencies = np.fft.rfftfreq(size, 1 / fs)
    band = (frequencies > 700) & (frequencies < min(6000, fs / 2 * 0.9))
    rises = [_rise_db(clip, fs, size, band) for _, clip in clips]
    # A device that happens to beep near one flash should not choose the tone: the median over the flashes.
    return float(frequencies[band][int(np.argmax(np.median(rises, axis=0)))])


def _rise_db(clip: NDArray[np.float64], fs: float, size: int, band: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Per frequency: the largest rise of 40 ms against the 80 ms before."""
    hop = max(1, round(0.005 * fs))
    frames = np.lib.stride_tricks.sliding_window_view(clip, size)[::hop] * np.hanning(size)
    power = np.abs(np.fft.rfft(frames, axis=1)[:, band]) ** 2
    power += 1e-5 * power.max(initial=0.0) + 1e-20
    total = np.cumsum(np.vstack([np.zeros(power.shape[1]), power]), axis=0)
    mid = np.arange(16, len(power) - 8)
    after, before = (total[mid + 8] - total[mid]) / 8, (total[mid] - total[mid - 16]) / 16
    return np.asarray(10 * np.log10((after / before).max(axis=0)))


def _beeps_of(clip: NDArray[np.float64], fs: float, tone_hz: float, first: int) -> list[Beep]:
    smooth = np.hanning(2 * round(0.003 * fs) + 3)
    smooth /= smooth.sum()
    carrier = np.exp(-2j * np.pi * tone_hz / fs * np.arange(len(clip)))
    tone = np.convolve(clip * carrier, smooth, "same")
    envelope = np.abs(tone)
    step = round(0.02 * fs)
    total = np.cumsum(np.concatenate([[0.0], envelope]))
    mid = np.arange(2 * step, len(clip) - step)
    score = (total[mid + step] - total[mid]) - (total[mid] - total[mid - 2 * step])  # 20 ms after, 40 before
    limit = 0.3 * float(score.max(initial=0.0))
    found: list[Beep] = []
    while len(score) and limit > 0 and float(score.max()) > limit and len(found) < 8:
        best = int(mid[np.argmax(score)])
        score[(mid > best - 3 * step) & (mid < best + 3 * step)] = 0.0
        beep = _edges(tone, best, step, fs, first)
        if beep is not None:
            found.append(beep)
    return found


def _edges(tone: NDArray[np.complex128], near: int, step: int, fs: float, first: int) -> Beep | None:
    envelope = np.abs(tone)
    plateau = float(np.median(envelope[near + step // 4 : near + 2 * step]))
    floor = float(np.median(envelope[near - 2 * step : near - step // 4]))
    if plateau < 3.0 * floor or plateau <= 0:
        return None
    half = floor + 0.5 * (plateau - floor)
    start = near - step
    above = np.flatnonzero(envelope[start : near + step] >= half)
    if not len(above) or above[0] == 0:
        return None
    k = start + int(above[0])
    fraction = (half - envelope[k - 1]) / max(envelope[k] - envelope[k - 1], 1e-30)
    on = (first + k - 1 + float(fraction)) / fs
    return Beep(on, _end(tone, k, near, step, plateau, fs, first))


def _end(
    tone: NDArray[np.complex128], on: int, near: int, step: int, plateau: float, fs: float, first: int
) -> float | None:
    """Where the direct sound stops: the complex envelope jumps, even when echoes keep its size up."""
    steady = tone[near + step // 4 : near + 2 * step]
    turn = np.angle(np.sum(steady[1:] * np.conj(steady[:-1])))  # what is left of the tone's frequency
    still = tone * np.exp(-1j * turn * np.arange(len(tone)))
    half = round(0.003 * fs)
    jump = np.abs(still[2 * half :] - still[: -2 * half])  # at index i: the jump around i + half
    begin = on + step // 2
    over = np.flatnonzero(jump[begin - half :] > 0.4 * plateau)
    if not len(over):
        return None
    at = begin - half + int(over[0])
    end = at + int(np.argmax(jump[at : at + 2 * half])) + half
    later = np.abs(tone[end + 2 * step : end + 3 * step])
    if not len(later) or float(later.mean()) > 0.5 * plateau:
        return None
    return (first + end) / fs


def _keep(parts: tuple[list[_Item], deque[_Item]], item: _Item) -> None:
    """Into the first `_KEEP_S` seconds, or into the last, which older ones leave. item: begins with t_ns."""
    head, tail = parts
    if not head or item[0] - head[0][0] < _KEEP_S * 1e9:
        head.append(item)
        return
    tail.append(item)
    while item[0] - tail[0][0] > _KEEP_S * 1e9:
        tail.popleft()


def _combine(brackets: list[_Bracket], min_events: int, distance_m: float) -> AvOffset:
    """The offset that most brackets allow."""
    count = len({event for event, _, _ in brackets})
    if count < min_events:
        raise InputError(
            f"A/V offset: found {count} flash and beep pairs, at least {min_events} are needed."
            " Show the slate (a light that comes on with a beep) a few times at the start of the take."
        )
    slack = 2.0 * _ONSET_SIGMA_MS
    kept = [b for b in brackets if b[2] - b[1] < 300.0]  # wider: pictures are missing there
    if len({event for event, _, _ in kept}) < min_events:
        raise InputError("A/V offset: pictures are missing around the flashes")
    events = np.array([event for event, _, _ in kept])
    intervals = np.array([(low - slack, high + slack) for _, low, high in kept])
    edges = np.unique(intervals)
    middles = 0.5 * (edges[:-1] + edges[1:])
    inside = (intervals[:, :1] <= middles) & (intervals[:, 1:] >= middles)
    votes = inside.sum(axis=0)
    where = np.flatnonzero(votes == votes.max())
    agreeing = len(set(events[inside[:, where[0]]].tolist()))
    if agreeing < max(min_events, 0.6 * count):
        raise InputError(
            f"A/V offset: no flashes and beeps that agree ({count} that could be pairs, at most {agreeing} of"
            " them within one frame). Show the slate (a light that comes on with a beep) a few times"
        )
    low, high = float(edges[where[0]]), float(edges[where[-1] + 1])
    sigma = math.hypot(max(high - low - 2 * slack, 0.0) / math.sqrt(12.0), _ONSET_SIGMA_MS)
    travel = distance_m / SPEED_OF_SOUND_M_S * 1e3
    return AvOffset(round(0.5 * (low + high) - travel, 3), round(sigma, 3), agreeing)


class SlateWatch:
    """Keeps what a slate could be in, the first and the last two minutes, while a take is recorded.

    `audio` and `frame` may be called from one thread each; `estimate` after both have ended.
    """

    def __init__(self, rate_hz: int, format_name: str | None) -> None:
        """format_name: of the channels; the first is taken where it is omnidirectional, else their mean."""
        self._rate = rate_hz
        self._omni = format_name in ("ambix", "fuma", "n3d")
        self._sound: tuple[list[_Sound], deque[_Sound]] = ([], deque())
        self._pictures: tuple[list[_Picture], deque[_Picture]] = ([], deque())

    def audio(self, t_ns: int, first_frame: int, samples: NDArray[Any]) -> None:
        """Take a block (frames, channels): int32 with full scale 2**31, or float."""
        mono = (samples[:, 0] if self._omni else samples.mean(axis=1)).astype(np.float32)
        if samples.dtype == np.int32:
            mono *= np.float32(2.0**-31)
        _keep(self._sound, (t_ns, first_frame, mono))

    def frame(self, t_ns: int, image: NDArray[np.uint8]) -> None:
        """Take a picture; only a coarse grid of its brightness is kept."""
        import cv2

        small = cv2.resize(image, _GRID, interpolation=cv2.INTER_AREA)
        _keep(self._pictures, (t_ns, cv2.cvtColor(small, cv2.COLOR_BGR2GRAY).ravel()))

    def estimate(self, min_events: int = 2) -> AvOffset:
        """The offset; raises InputError with too few events."""
        brackets: list[_Bracket] = []
        offset = 0  # event numbers of the second part do not meet those of the first
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
            more = _brackets(mono, 1e9 / float(slope), base + round(float(level)), times, grid)
            brackets += [(event + offset, low, high) for event, low, high in more]
            offset += 1000
        return _combine(brackets, min_events, 0.0)


def offset_of(episode: Episode) -> AvOffset:
    """The offset of an episode on disk, as the recorder measures it while a take runs. Decodes the pictures.

    Raises InputError when there are no pictures, or too few flashes with beeps.
    """
    source = episode.original
    watch = SlateWatch(source.rate, episode.format)
    blocks = [line for line in episode.timeline() if line["type"] == "audio"] or [
        {"file_frame": 0, "first_frame": 0}
    ]
    places = np.array([(line["file_frame"], line["first_frame"]) for line in blocks], np.int64)
    lost = places[:, 1] - places[:, 0]  # grows at each gap, which the files do not fill
    pieces = np.append(places[np.append(True, np.diff(lost) != 0), 0], source.frames)
    step = round(0.1 * source.rate)
    for begin, end in pairwise(int(frame) for frame in pieces):
        gap = int(lost[np.searchsorted(places[:, 0], begin, side="right") - 1])
        for start in range(begin, end, step):
            samples = source.read(start, min(step, end - start))
            watch.audio(int(episode.audio_map.time_ns(start)), start + gap, samples)
    times = episode.frame_times()
    if len(times):
        # As the watch itself: what lies between the first and the last minutes is not looked at.
        near = (times - times[0] <= _KEEP_S * 1e9) | (times[-1] - times <= _KEEP_S * 1e9)
        pictures = small_frames(episode.path / VIDEO, lambda number: bool(near[min(number, len(near) - 1)]))
        for t_ns, image in zip(times.tolist(), pictures, strict=False):
            if image is not None:
                watch.frame(t_ns, image)
    return watch.estimate()
