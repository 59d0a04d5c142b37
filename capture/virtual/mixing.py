"""Stems (one source rendered alone to FOA) and their mixing in real time with gains that may change."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray
from scipy.fft import irfft, next_fast_len, rfft

RATE_HZ = 48000
FADE_FRAMES = 960  # 20 ms from full to silent
SINC_TAPS = 32  # of the reader for a drifting sample clock


@dataclass(slots=True)
class Stem:
    """A source alone: (frames, 4) float32 AmbiX at 48 kHz from `start_frame` of the scene.

    A looping stem repeats for ever from start_frame on. device_id ties its gain to a device's state.
    """

    name: str
    samples: NDArray[np.float32]
    start_frame: int = 0
    looping: bool = False
    device_id: str | None = None


def convolve(mono: NDArray[np.floating], response: NDArray[np.float32]) -> NDArray[np.float32]:
    """(n,) with (m, 4) -> (n + m - 1, 4), by FFT."""
    frames = len(mono) + len(response) - 1
    size = next_fast_len(frames, real=True)
    spectrum = rfft(mono.astype(np.float32), size)
    return np.stack([irfft(spectrum * rfft(response[:, c], size), size)[:frames] for c in range(4)], axis=1)


def convolve_loop(mono: NDArray[np.floating], response: NDArray[np.float32]) -> NDArray[np.float32]:
    """An endless loop (n,) heard through a response (m, 4): (n, 4), again an endless loop."""
    frames = len(mono)
    folded = np.zeros((math.ceil(len(response) / frames) * frames, 4), np.float32)
    folded[: len(response)] = response
    folded = folded.reshape(-1, frames, 4).sum(axis=0)
    spectrum = rfft(mono.astype(np.float32))
    return np.stack([irfft(spectrum * rfft(folded[:, c]), frames) for c in range(4)], axis=1)


class Mixer:
    """Renders consecutive frames of a scene from its stems; gains slide over 20 ms when they are changed.

    One mixer serves one microphone; it is not thread safe (the scene's lock guards it).
    """

    def __init__(self, stems: tuple[Stem, ...], gains: NDArray[np.float64], position: int = 0) -> None:
        self._stems = stems
        self._now = gains.copy()
        self.position = position  # the scene frame that comes next

    def render(self, frames: int, wanted: NDArray[np.float64]) -> NDArray[np.float32]:
        """The next frames, (frames, 4) float32; `wanted` is one gain per stem."""
        out = np.zeros((frames, 4), np.float32)
        step = np.arange(1, frames + 1) / FADE_FRAMES
        for index, stem in enumerate(self._stems):
            now, goal = float(self._now[index]), float(wanted[index])
            begin = stem.start_frame - self.position
            if begin >= frames:  # not heard yet: no fade to be heard either
                self._now[index] = goal
                continue
            if now == 0 and goal == 0:
                continue
            piece = self._read(stem, frames)
            if piece is None:
                self._now[index] = goal
            elif now == goal:
                out += piece if goal == 1 else piece * np.float32(goal)
            else:
                if begin > 0:
                    now = goal
                slide = np.clip(now + np.sign(goal - now) * step, min(now, goal), max(now, goal))
                out += piece * slide[:, None].astype(np.float32)
                self._now[index] = slide[-1]
        self.position += frames
        return out

    def _read(self, stem: Stem, frames: int) -> NDArray[np.float32] | None:
        """(frames, 4) of one stem at the present position, zeros outside it; None when it is over."""
        first = self.position - stem.start_frame
        length = len(stem.samples)
        if not stem.looping and first >= length:
            return None
        if first >= 0 and first % length + frames <= length:
            at = first % length
            return stem.samples[at : at + frames]
        piece = np.zeros((frames, 4), np.float32)
        index = np.arange(max(0, -first), frames)
        source = index + first
        if stem.looping:
            source %= length
        else:
            index = index[source < length]
            source = source[source < length]
        piece[index] = stem.samples[source]
        return piece


class DriftingReader:
    """Reads a mixer with a sample clock that runs at 1 + drift_ppm / 1e6 times its nominal rate.

    Sample n of the microphone is scene frame `offset + n / (1 + drift)`, by a windowed sinc of 32 taps: a
    crystal that runs fast takes more samples of the same second.
    """

    def __init__(self, drift_ppm: float, offset_frames: float) -> None:
        self._ratio = 1.0 / (1.0 + drift_ppm * 1e-6)
        self._offset = offset_frames
        self._count = 0
        self._first = math.floor(offset_frames) - SINC_TAPS // 2 + 1
        self._buffer = np.zeros((0, 4), np.float32)

    @property
    def first_frame(self) -> int:
        """Where the mixer has to start."""
        return self._first

    def needs(self, frames: int) -> int:
        """How many more mixer frames the next `frames` samples take."""
        last = self._offset + (self._count + frames - 1) * self._ratio
        return max(0, math.floor(last) + SINC_TAPS // 2 + 1 - self._first - len(self._buffer))

    def read(self, frames: int, mixed: NDArray[np.float32]) -> NDArray[np.float32]:
        """(frames, 4) microphone samples, given the mixer frames that `needs` asked for."""
        buffer = np.concatenate([self._buffer, mixed])
        start = self._offset + self._count * self._ratio - self._first
        out = np.empty((frames, 4), np.float32)
        _interpolate(buffer, start, self._ratio, out)
        self._count += frames
        keep = math.floor(self._offset + self._count * self._ratio) - SINC_TAPS // 2 + 1 - self._first
        self._buffer = buffer[keep:]
        self._first += keep
        return out


@njit(cache=True)
def _interpolate(buffer: NDArray[np.float32], start: float, ratio: float, out: NDArray[np.float32]) -> None:
    half = SINC_TAPS // 2
    for n in range(out.shape[0]):
        place = start + n * ratio
        whole = math.floor(place)
        part = place - whole
        w = y = z = x = 0.0
        for k in range(-half + 1, half + 1):
            distance = part - k
            if abs(distance) < 1e-12:
                weight = 1.0
            elif abs(distance) >= half:
                weight = 0.0
            else:
                window = math.cos(math.pi * distance / (2 * half))
                weight = math.sin(math.pi * distance) / (math.pi * distance) * window * window
            w += weight * buffer[whole + k, 0]
            y += weight * buffer[whole + k, 1]
            z += weight * buffer[whole + k, 2]
            x += weight * buffer[whole + k, 3]
        out[n, 0] = w
        out[n, 1] = y
        out[n, 2] = z
        out[n, 3] = x
