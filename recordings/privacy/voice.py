"""A copy of ambisonic speech whose voice is changed and whose directions stay, or no copy at all.

McAdams coefficient (Patino et al., "Speaker anonymisation using the McAdams coefficient", Interspeech
2021; baseline B2 of the VoicePrivacy challenge): in frames of 30 ms linear prediction separates the vocal
tract from its excitation; the angle phi of each complex pole becomes phi ** alpha, which moves the formants;
the excitation goes through the new filter. Here the prediction is made from W, and the same filter, with the
same gain, goes over all four channels: their ratios, and with them the directions, stay frame by frame.
alpha wanders (it comes from the sound itself), so that one number does not undo it.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dsp.errors import CheckFailed, InputError
from recordings.storage import storage_errors

F64 = NDArray[np.float64]
HOP_S = 0.015  # half a frame
ORDER_PER_KHZ = 1.0
ALPHA = (0.80, 0.90)  # beyond these bounds words suffer, within them voices stay alike
_WANDER = 0.005  # of alpha, from frame to frame (standard deviation)
_QUIET_DBFS, _ABOVE_FLOOR_DB = -65.0, 10.0
MOST_TURN_DEG = 6.0  # about the uncertainty of a direction itself in a room
_SURE = 0.5  # confidence of a direction that counts
LEAST_CHANGE_DB = 3.0
_RADIUS = 0.985  # of a pole at most: sharper ones ring


@dataclass(frozen=True)
class VoiceReport:
    """frames: of the copy. active: share of 30 ms frames with sound above the floor. change_db: distance of
    the spectral envelopes of W before and after, over those (median, RMS over frequency). turn_deg: how far
    directions turned (median over bins, see `_turn_deg`). alpha: its mean."""

    frames: int
    rate_hz: int
    active: float
    change_db: float
    turn_deg: float
    alpha: float


def voice_safe_copy(
    source_wav: str | Path,
    target_wav: str | Path,
    *,
    speech: Sequence[tuple[float, float]] = (),
    seed: bytes = b"",
    advance: Callable[[float], None] = lambda _: None,
) -> VoiceReport:
    """Write `target_wav` (32-bit float, same rate, length and channels) from first-order ambisonics, W first.

    speech: where the timeline says that somebody speaks, (start, end) in seconds: sound has to be there.
    seed: with one, whoever has the original cannot make the same copy. Raises CheckFailed, and leaves no
    target, when it cannot stand for the copy: NaN, another length, no sound where speech should be, an
    envelope that hardly changed, a direction that turned; InputError for a file that is no such sound or a
    target that exists, StorageError.
    """
    import soundfile

    from recordings.audio_file import open_audio

    source, target = Path(source_wav), Path(target_wav)
    if target.exists():
        raise InputError(f"{target}: exists already")
    sound = open_audio(source)
    if sound.channels != 4:
        raise InputError(f"{source}: {sound.channels} channels; first-order ambisonics has four")
    foa = np.concatenate([*sound.blocks(), np.zeros((0, 4), np.float32)])
    changed, report = voice_safe(
        foa, sound.rate, speech=speech, seed=seed, where=str(source), advance=advance
    )
    try:
        with storage_errors(target):
            soundfile.write(target, changed, sound.rate, subtype="FLOAT", format="WAV")
            with open(target, "rb") as file:
                os.fsync(file.fileno())
        written = soundfile.info(target).frames
        if written != sound.frames:
            raise CheckFailed(f"{source}: the copy has {written} frames instead of {sound.frames}; no copy")
    except BaseException:
        with suppress(OSError):
            target.unlink()
        raise
    return report


def voice_safe(
    foa: NDArray[np.float32],
    fs: int,
    *,
    speech: Sequence[tuple[float, float]] = (),
    seed: bytes = b"",
    where: str = "the sound",
    advance: Callable[[float], None] = lambda _: None,
) -> tuple[NDArray[np.float32], VoiceReport]:
    """As `voice_safe_copy`, of an array (frames, 4), W first, full scale +-1."""
    if not np.isfinite(foa).all():
        raise CheckFailed(f"{where}: holds NaN or infinity, so nothing can be said of its voices; no copy")
    hop = round(HOP_S * fs)
    frame = 2 * hop
    if len(foa) < frame:
        raise CheckFailed(f"{where}: {len(foa)} frames are too short to tell a voice by or to change one")
    window = np.sin(np.pi * (np.arange(frame) + 0.5) / frame)  # twice: its squares add up to 1
    padded = np.concatenate([np.zeros((frame, 4)), foa.astype(np.float64), np.zeros((2 * frame, 4))])
    starts = np.arange(0, len(foa) + frame, hop)
    levels = _levels(padded, starts, frame)
    active = levels > max(_QUIET_DBFS, float(np.quantile(levels, 0.1)) + _ABOVE_FLOOR_DB)
    for begin, end in speech:
        inside = (starts >= begin * fs) & (starts <= end * fs + frame)
        if not active[inside].any():
            raise CheckFailed(
                f"{where}: nothing is heard from {begin:.2f} to {end:.2f} s, where somebody speaks"
            )
    alphas = _alphas(len(starts), foa, seed)
    out = np.zeros_like(padded)
    scale = np.zeros(len(padded))
    for number, start in enumerate(starts):
        piece = padded[start : start + frame] * window[:, None]
        out[start : start + frame] += window[:, None] * _moved(piece, alphas[number], fs)
        scale[start : start + frame] += window**2
        advance(1)
    inner = slice(frame, frame + len(foa))
    changed = (out[inner] / np.maximum(scale[inner], 1e-9)[:, None]).astype(np.float32)
    if changed.shape != foa.shape or not np.isfinite(changed).all():
        raise CheckFailed(f"{where}: the changed sound has NaN or another length; no copy")
    again = np.concatenate([np.zeros((frame, 4)), changed, np.zeros((2 * frame, 4))])
    heard = starts[active]
    change = _change_db(padded[:, 0], again[:, 0], heard, frame, fs)
    turn = _turn_deg(foa, changed, fs)
    if len(heard) and change < LEAST_CHANGE_DB:
        raise CheckFailed(f"{where}: its envelope changed by {change:.1f} dB only; no copy")
    if len(heard) and turn > MOST_TURN_DEG:
        raise CheckFailed(f"{where}: directions turned by {turn:.1f} degrees; no copy")
    share = float(active.mean())
    return changed, VoiceReport(len(changed), fs, share, change, turn, float(np.mean(alphas)))


def _levels(padded: F64, starts: NDArray[np.int64], frame: int) -> F64:
    power = np.concatenate([[0.0], np.cumsum(padded[:, 0] ** 2)])
    return np.asarray(10 * np.log10(np.maximum(power[starts + frame] - power[starts], 1e-20) / frame))


def _alphas(count: int, foa: NDArray[np.float32], seed: bytes) -> F64:
    """One per frame: a walk between the bounds, the same for the same sound and seed."""
    digest = hashlib.sha256(seed + np.ascontiguousarray(foa).tobytes()).digest()
    rng = np.random.default_rng(int.from_bytes(digest, "big"))
    low, high = ALPHA
    walk = rng.uniform(low, high) + np.cumsum(_WANDER * rng.standard_normal(count))
    folded = np.mod(walk - low, 2 * (high - low))  # reflected at the bounds
    return np.asarray(low + np.minimum(folded, 2 * (high - low) - folded))


def _moved(piece: F64, alpha: float, fs: int) -> F64:
    """A windowed frame (n, 4) through A(z) / A'(z), made from W; its level as it was."""
    from scipy.signal import lfilter

    predictor = _prediction(piece[:, 0], 2 + 2 * round(ORDER_PER_KHZ * fs / 2000))
    if predictor is None:
        return piece
    poles = np.roots(predictor)
    radius, angle = np.abs(poles), np.abs(np.angle(poles))
    turned = np.where((angle > 1e-4) & (angle < np.pi - 1e-4), np.minimum(angle**alpha, np.pi - 1e-3), angle)
    moved = np.minimum(radius, _RADIUS) * np.exp(1j * np.where(np.imag(poles) < 0, -turned, turned))
    out = lfilter(predictor, np.real(np.poly(moved)), piece, axis=0)
    before, after = np.sqrt(np.mean(piece[:, 0] ** 2)), np.sqrt(np.mean(out[:, 0] ** 2))
    return np.asarray(out * (before / after if after > 1e-12 else 1.0))


def _prediction(w: F64, order: int) -> F64 | None:
    """Coefficients of A(z), (order + 1,), by the autocorrelation method; None for silence."""
    from scipy.linalg import solve_toeplitz

    spectrum = np.fft.rfft(w, 2 * len(w))
    lags = np.fft.irfft(np.abs(spectrum) ** 2)[: order + 1]
    if lags[0] < 1e-14:
        return None
    lags[0] *= 1 + 1e-6  # a floor of -60 dB keeps the equations well posed
    return np.concatenate([[1.0], -solve_toeplitz(lags[:-1], lags[1:])])


def _envelope_db(w: F64, fs: int) -> F64:
    """The LPC envelope at 64 frequencies from 200 to 5000 Hz, its mean taken off."""
    from scipy.signal import freqz

    predictor = _prediction(w * np.hanning(len(w)), 2 + 2 * round(ORDER_PER_KHZ * fs / 2000))
    if predictor is None:
        return np.zeros(64)
    _, answer = freqz([1.0], predictor, worN=np.geomspace(200, min(5000, 0.45 * fs), 64), fs=fs)
    level = 20 * np.log10(np.maximum(np.abs(answer), 1e-9))
    return np.asarray(level - level.mean())


def _change_db(before: F64, after: F64, starts: NDArray[np.int64], frame: int, fs: int) -> float:
    some = starts[:: max(1, len(starts) // 200)]
    found = [
        np.sqrt(
            np.mean((_envelope_db(before[s : s + frame], fs) - _envelope_db(after[s : s + frame], fs)) ** 2)
        )
        for s in some
    ]
    return float(np.median(found)) if found else 0.0


def _turn_deg(before: NDArray[np.float32], after: NDArray[np.float32], fs: int) -> float:
    """Median angle between the directions that `dsp.estimate_doa` finds before and after, over the windows of
    100 ms that are sure of one in both; 0 where there is none.

    The filter weighs frequencies anew, and in a room with echoes they do not all come from one direction, so
    estimates move although no frequency's own direction does.
    """
    import dsp
    from recordings.geometry import unit_from_direction

    one, two = dsp.estimate_doa(before, fs), dsp.estimate_doa(after, fs)
    sure = (one.confidence > _SURE) & (two.confidence > _SURE)
    if not sure.any():
        return 0.0
    u, v = (unit_from_direction(found.azimuth_deg[sure], found.elevation_deg[sure]) for found in (one, two))
    return float(np.median(np.degrees(np.arccos(np.clip(np.sum(u * v, axis=-1), -1, 1)))))
