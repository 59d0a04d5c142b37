"""Resampling: streaming and offline, one result for any block size.

48 -> 24 kHz is a half-band FIR (151 taps, of which 76 count): passband to 11 kHz, -103 dB from 13 kHz. Tones
between 12 and 13 kHz fold into 11-12 kHz, above what direction finding and speech use; `quality="high"`
rejects from 12.1 kHz on, at two to three times the cost. Rates that differ by a power of two go through a
chain of half-band filters, other ratios through a polyphase bank. `docs/dsp.md` has the design and the
measured figures.

Sources: Vaidyanathan, "Multirate Systems and Filter Banks" (1993), half-band filters and polyphase banks;
half band design by a one-band equiripple filter: Vaidyanathan and Nguyen, IEEE Trans. CAS 34 (1987), 297-300;
Kaiser window: Kaiser, Proc. ISCAS 1974.
"""

from __future__ import annotations

import json
from functools import lru_cache
from math import ceil, gcd
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from dsp.arguments import as_array, sample_rate
from dsp.errors import InputError

Array = NDArray[np.float32]
Quality = Literal["standard", "high"]
OnNonfinite = Literal["raise", "flag"]

# The band edges as fractions of the lower Nyquist frequency: what passes unchanged, and from where on a tone
# may not leave an alias; with the attenuation in dB.
_EDGES = {"standard": (11 / 12, 13 / 12, 101.5), "high": (10.9 / 12, 12.1 / 12, 123.0)}
_STORED = Path(__file__).with_name("half_band_48_to_24.json")
_TILE_ROWS = 512
_FLOAT32 = np.dtype(np.float32)
_MAX_UP = 4096


@lru_cache(maxsize=64)
def half_band_taps(pairs: int, passband: float) -> NDArray[np.float64]:
    """Taps of a half-band filter at distances 2*pairs-1, ..., 3, 1 from the middle tap (which is 0.5).

    passband: upper edge in cycles per sample of the input (below 0.25); equiripple by the one-band method.
    The filter from 48 to 24 kHz, which every live rig starts with, is kept in a file: scipy.signal takes a
    second to load.
    """
    stored = json.loads(_STORED.read_text())
    if (pairs, passband) == (stored["pairs"], stored["passband"]):
        return np.array(stored["taps"], dtype=np.float64)
    return designed_half_band(pairs, passband)


def designed_half_band(pairs: int, passband: float) -> NDArray[np.float64]:
    """`half_band_taps`, designed now."""
    from scipy.signal import remez

    try:
        g = remez(2 * pairs, [0.0, 2.0 * passband], [1.0], fs=1.0, maxiter=200)
    except ValueError:
        # Where the passband is nearly nothing (384 kHz and more) the exchange ends at rounding errors.
        return _windowed_half_band(pairs)
    return np.asarray(0.5 * g[:pairs], dtype=np.float64)


def _windowed_half_band(pairs: int) -> NDArray[np.float64]:
    """A Kaiser-windowed half-band filter, taps as of `half_band_taps`."""
    from scipy.signal import firwin

    taps = 2.0 * firwin(4 * pairs - 1, 0.5, window=("kaiser", 11.0))
    side = taps[: 2 * pairs : 2]
    return np.asarray(0.5 * side * (0.5 / side.sum()), dtype=np.float64)


@lru_cache(maxsize=16)
def _sharp_taps(count: int, passband: float, stopband: float) -> NDArray[np.float64]:
    """An odd-length equiripple low-pass; edges in cycles per sample. The ripple may be 20 x the stopband
    error.
    """
    from scipy.signal import remez

    h = remez(count, [0.0, passband, stopband, 0.5], [1.0, 0.0], weight=[1.0, 20.0], fs=1.0, maxiter=400)
    return np.asarray(h / h.sum(), dtype=np.float64)


@lru_cache(maxsize=16)
def _bank(up: int, down: int, quality: Quality) -> tuple[int, Array]:
    """(half, taps): a Kaiser-windowed sinc as a bank of `up` phases of 2*half taps, reversed in time."""
    pass_edge, stop_edge, attenuation = _EDGES[quality]
    nyquist = 0.5 * min(1.0, up / down)  # of the lower rate, in cycles per input sample
    width = (stop_edge - pass_edge) * nyquist
    length = (attenuation - 7.95) / (2.285 * 2 * np.pi * width)
    half = 8 * ceil(length / 16)
    # Taps left over by rounding up buy attenuation rather than a narrower transition.
    beta = 0.1102 * (2 * half * 2.285 * 2 * np.pi * width + 7.95 - 8.7)
    cutoff = 0.5 * (pass_edge + stop_edge) * nyquist
    phase = np.arange(up)[:, None] / up
    k = np.arange(2 * half)[None, :]
    t = phase + half - 1 - k  # time from the input row to the output, in input samples
    inside = np.abs(t) < half
    window = np.i0(beta * np.sqrt(np.where(inside, 1 - (t / half) ** 2, 0.0))) / np.i0(beta)
    taps = np.where(inside, 2 * cutoff * np.sinc(2 * cutoff * t) * window, 0.0)
    taps /= taps.sum(axis=1, keepdims=True)
    return half, np.ascontiguousarray(taps.reshape(-1), dtype=np.float32)


class _HalfStage:
    """Decimation by two with a symmetric filter; delay and counts in output frames."""

    up, down = 1, 2

    def __init__(self, channels: int, odd: NDArray[np.float64], even: NDArray[np.float64], centre: float):
        from dsp.fir import STEP, decimate_by_two, decimator_state

        self._kernel = decimate_by_two
        self._channels = channels
        self.delay = max(len(odd) - 1, len(even))
        self._state, self._plan = decimator_state(channels, odd, even, centre, self.delay, _TILE_ROWS)
        self._spare = -(-STEP // channels)
        self._fresh = self._state.copy()
        self._waiting = 0

    def process(self, x: Array) -> Array | None:
        """The output for (frames, channels), or None if x is not finite (then nothing has changed)."""
        total = self._waiting + len(x)
        out: Array = np.empty((total // 2 + self._spare, self._channels), _FLOAT32)
        rows = self._kernel(x, self._state, self._plan, out)
        if rows < 0:
            return None
        self._waiting = total & 1
        return out[:rows]

    def reset(self) -> None:
        self._state[:] = self._fresh
        self._plan[0] = self._waiting = 0


class _BankStage:
    """Resampling by up/down with a polyphase bank."""

    def __init__(self, channels: int, up: int, down: int, quality: Quality):
        from dsp.fir import polyphase

        self._kernel = polyphase
        self.up, self.down = up, down
        self._half, self._taps = _bank(up, down, quality)
        self.delay = max(0, ceil((self._half + 1) * up / down - 1))
        first = -(self.delay * down) // up  # input row of output 0: the floor of a negative position
        self._start = (self._half - 1 - first, 0, (-self.delay * down) % up)
        size = self._start[0] + 2 * self._half + down // up + 4096
        self._line = np.zeros((channels, size), np.float32)
        self._position = np.zeros(3, np.int64)
        self.reset()

    def process(self, x: Array) -> Array | None:
        rows = (self._total + len(x)) * self.up // self.down - self._written
        out: Array = np.empty((rows, x.shape[1]), _FLOAT32)
        written = self._kernel(
            x, self._line, self._position, self._taps, self.up, self.down, 2 * self._half, out, rows
        )
        if written < 0:
            return None
        self._total += len(x)
        self._written += rows
        return out

    def reset(self) -> None:
        self._line[:] = 0.0
        self._position[:] = self._start
        self._total = self._written = 0


class _SameRate:
    """fs_in == fs_out: a checked copy."""

    up, down, delay = 1, 1, 0

    def process(self, x: Array) -> Array | None:
        return x.copy() if np.isfinite(x).all() else None

    def reset(self) -> None:
        pass


def _stages(up: int, down: int, channels: int, quality: Quality) -> list[Any]:
    if quality not in _EDGES:
        raise InputError(f"quality must be 'standard' or 'high', not {quality!r}")
    if up == down == 1:
        return [_SameRate()]
    if up == 1 and down >= 2 and down & (down - 1) == 0 and down <= 16:
        stages: list[Any] = []
        octave = down
        keep = _EDGES[quality][1] * 0.5 / down  # what later stages still need clean, per input sample
        while octave > 2:  # early stages: short, because everything between is removed later
            # The delay of a stage must be a whole number of final frames, octave / 2 of its own.
            unit = octave // 2
            pairs = unit * ceil((_early_pairs(keep) - 1) / unit) + 1
            stages.append(_HalfStage(channels, half_band_taps(pairs, keep), np.zeros(0), 0.5))
            keep *= 2
            octave //= 2
        if quality == "standard":
            stages.append(_HalfStage(channels, half_band_taps(38, 11 / 48), np.zeros(0), 0.5))
        else:
            h = _sharp_taps(281, 10.9 / 48, 12.1 / 48)
            middle = len(h) // 2
            left = h[:middle]
            odd, even = left[1::2], left[0::2]  # by distance from the middle, which is at an even place
            stages.append(_HalfStage(channels, odd, even, float(h[middle])))
        return stages
    if up > _MAX_UP:
        raise InputError(
            f"the rates reduce to {up}/{down}, which needs {up} filters (at most {_MAX_UP}); "
            "use AsyncResampler for rates without a small common ratio"
        )
    return [_BankStage(channels, up, down, quality)]


def _early_pairs(edge: float) -> int:
    transition = 0.5 - 2 * edge
    return max(3, ceil(((126.0 - 13.0) / (14.6 * transition) + 1) / 4))


def _channels_first(x: Any, channels: int | None = None) -> bool:
    """Does (a, b) look like channels and frames in the wrong order?"""
    return (
        x.ndim == 2 and x.shape[0] in ((1, 2, 3, 4) if channels is None else (channels,)) and x.shape[1] > 64
    )


def _as_frames(x: Any, channels: int) -> Array:
    """Samples as C-contiguous float32 (frames, channels); integers by their full scale, exactly."""
    x = as_array(x)
    if x.ndim == 1 and channels == 1:
        x = x[:, None]
    if x.ndim != 2 or x.shape[1] != channels:
        hint = (
            f"; channels come last: pass x.T of this {x.shape} array" if _channels_first(x, channels) else ""
        )
        raise InputError(f"expected an array (frames, {channels}), got shape {x.shape}{hint}")
    if x.dtype.kind == "i":
        return np.ascontiguousarray(x.astype(np.float32) * np.float32(2.0 ** (1 - 8 * x.dtype.itemsize)))
    if x.dtype.kind != "f":
        raise InputError(f"samples must be float or signed integer, not {x.dtype}")
    return np.ascontiguousarray(x, dtype=np.float32)


class Resampler:
    """Streaming conversion from fs_in to fs_out for (frames, channels) blocks of any size.

    After N frames in, exactly floor(N * fs_out / fs_in) frames have come out, so 48 -> 24 kHz gives n/2 for
    each even n; of an odd block the last frame waits, and the next odd block gives (n + 1)/2. The output is
    late by `delay_frames` (a whole number of output frames, the group delay: the first frames are the
    filter's start). `flush` returns what is still inside, ceil(N * fs_out / fs_in) + delay_frames in total,
    and starts anew:

        concatenate(all pushes + [flush()])[r.delay_frames:] == resample(x, fs_in, fs_out)    bit for bit

    Channels go through the same arithmetic: their phases stay equal. Integer blocks are taken by full scale
    (int16 / 2**15, int32 / 2**31). on_nonfinite: "raise" refuses a block with NaN or infinity (InputError,
    state unchanged); "flag" takes such samples as 0 and counts them in `nonfinite_samples`. Not thread safe;
    the kernel runs without the GIL.
    """

    def __init__(
        self,
        fs_in: int,
        fs_out: int,
        channels: int,
        quality: Quality = "standard",
        on_nonfinite: OnNonfinite = "raise",
    ):
        self.fs_in, self.fs_out = sample_rate(fs_in), sample_rate(fs_out)
        if not 1 <= channels <= 64:
            raise InputError(f"channels must be 1 to 64, not {channels!r}")
        if on_nonfinite not in ("raise", "flag"):
            raise InputError(f"on_nonfinite must be 'raise' or 'flag', not {on_nonfinite!r}")
        self.channels = channels
        self.nonfinite_samples = 0
        self._flag = on_nonfinite == "flag"
        divisor = gcd(self.fs_in, self.fs_out)
        self._up, self._down = self.fs_out // divisor, self.fs_in // divisor
        self._stages = _stages(self._up, self._down, channels, quality)
        self.delay_frames = 0
        for stage in self._stages:
            self.delay_frames = self.delay_frames * stage.up // stage.down + stage.delay
        self._first, self._later = self._stages[0].process, [s.process for s in self._stages[1:]]
        self._frames_in = 0

    @property
    def delay_s(self) -> float:
        """Group delay in seconds: the time of output frame m is that of input time m/fs_out - delay_s."""
        return self.delay_frames / self.fs_out

    def push(self, block: Any) -> Array:
        """The next (frames, channels) block in, the frames that are ready out (float32)."""
        if not (
            type(block) is np.ndarray
            and block.dtype is _FLOAT32  # quicker than ==; another float32 takes the longer way
            and block.ndim == 2
            and block.shape[1] == self.channels
            and block.flags.c_contiguous
        ):
            block = _as_frames(block, self.channels)
        out = self._first(block)
        if out is None:
            out = self._first(self._without_nonfinite(block))
        if self._later:
            for process in self._later:
                out = process(out)
        self._frames_in += len(block)
        return out

    def _without_nonfinite(self, block: Array) -> Array:
        wrong = ~np.isfinite(block)
        count = int(np.count_nonzero(wrong))
        if not self._flag:
            raise InputError(
                f"{count} samples are NaN or infinite; repair the input, or use on_nonfinite='flag' to take "
                "them as silence"
            )
        self.nonfinite_samples += count
        return np.where(wrong, np.float32(0.0), block)

    def flush(self) -> Array:
        """The end of the signal: the remaining frames. The resampler is then as new."""
        total = -(-self._frames_in * self.fs_out // self.fs_in) + self.delay_frames
        rest = total - self._frames_in * self._up // self._down
        zeros = (rest + 1) * self._down // self._up + self._down
        tail = self.push(np.zeros((zeros, self.channels), np.float32))[:rest]
        self.reset()
        return tail

    def reset(self) -> None:
        """Forget the past; the next block starts a new signal."""
        for stage in self._stages:
            stage.reset()
        self._frames_in = 0


def resample(
    x: Any, fs_in: int, fs_out: int, quality: Quality = "standard", on_nonfinite: OnNonfinite = "raise"
) -> Array:
    """A whole signal at another rate, aligned in time: frame m of the output lies at m / fs_out seconds.

    x: (frames, channels) or (frames,), float or signed integer. Returns float32 of the same number of
    dimensions with ceil(frames * fs_out / fs_in) frames; the same values as the streaming form. Outside the
    signal zeros are assumed. Raises InputError for a wrong shape, type or rate and for NaN or infinity.
    """
    x = as_array(x)
    if x.ndim not in (1, 2):
        raise InputError(f"expected (frames,) or (frames, channels), got shape {x.shape}")
    channels = 1 if x.ndim == 1 else x.shape[1]
    if channels > 64 and _channels_first(x):
        raise InputError(
            f"expected (frames, channels), got {x.shape}: {channels} channels; channels come last, pass x.T"
        )
    r = Resampler(fs_in, fs_out, channels, quality, on_nonfinite)
    out = np.concatenate([r.push(x), r.flush()])[r.delay_frames :]
    return out[:, 0] if x.ndim == 1 else out


def warm() -> None:
    """Compile (or load from the cache) every resampling kernel, so that the first block is not late."""
    from dsp.async_resample import AsyncResampler

    x = np.zeros((64, 4), np.float32)
    for fs_in, fs_out in ((48000, 24000), (44100, 24000)):
        resample(x, fs_in, fs_out)
    AsyncResampler(48000, 24000, 4).push(x)
