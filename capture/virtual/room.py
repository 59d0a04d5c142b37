"""The response of a shoebox room at a first-order ambisonic microphone, by image sources.

We write our own instead of using pyroomacoustics because that has no aarch64 wheel for Python 3.10 (the
JetPack 6 interpreter); the tests compare the two where both run.

Method: image sources (Allen and Berkley, J. Acoust. Soc. Am. 65(4), 1979), each rendered with a windowed
sinc at its fractional delay straight into AmbiX (W, Y, Z, X; SN3D). Walls are rigid with one frequency-
independent reflection factor; air does not absorb. The factor is found from the decay time asked. Eyring's
formula assumes a diffuse field, which a bare box is not (Lehmann and Johansson, J. Acoust. Soc. Am. 124(1),
2008), so we count the images once by time and number of reflections and solve for the factor whose own energy
decay has the slope asked. Image sources all carry the same sign, so their sum drifts below the lowest room
mode; a 40 Hz high-pass on the reflections (not on the direct sound) removes that, as in Allen and Berkley.
Beyond `IMAGE_SECONDS` the images are so dense that a diffuse tail of the same energy and decay takes over.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numba import njit
from numpy.typing import ArrayLike, NDArray
from scipy.signal import butter, sosfilt

from dsp.errors import InputError

SPEED_OF_SOUND = 343.0  # m/s, dry air at 20 degrees C
IMAGE_SECONDS = 0.35  # images up to here, a diffuse tail after it
OVERLAP_SECONDS = 0.03  # equal-power change from images to tail
TAPS = 64  # of the fractional-delay sinc
PHASES = 256  # rows of its table; values between rows are interpolated (error below -90 dB)
HIGHPASS_HZ = 40.0
COUNT_BIN_S = 0.004
MAX_RT60_S = 3.0


@njit(cache=True, fastmath=True)
def _add_images(
    out: NDArray[np.float64],
    size: NDArray[np.float64],
    source: NDArray[np.float64],
    receiver: NDArray[np.float64],
    to_mic: NDArray[np.float64],
    facing: NDArray[np.float64],
    omni: float,
    beta: float,
    limit_m: float,
    samples_per_m: float,
    table: NDArray[np.float64],
) -> int:
    """Add every reflected image nearer than limit_m to out (n, 4), not the direct sound; returns how many."""
    taps = table.shape[1]
    half = taps // 2
    phases = table.shape[0] - 1
    frames = out.shape[0]
    weights = np.empty(taps)
    added = 0
    nx = int(limit_m / (2 * size[0])) + 1
    ny = int(limit_m / (2 * size[1])) + 1
    nz = int(limit_m / (2 * size[2])) + 1
    limit2 = limit_m * limit_m
    for ix in range(-nx, nx + 1):
        for px in range(2):
            dx = (1 - 2 * px) * source[0] + 2 * ix * size[0] - receiver[0]
            bounces_x = abs(ix - px) + abs(ix)
            if dx * dx > limit2:
                continue
            for iy in range(-ny, ny + 1):
                for py in range(2):
                    dy = (1 - 2 * py) * source[1] + 2 * iy * size[1] - receiver[1]
                    bounces_xy = bounces_x + abs(iy - py) + abs(iy)
                    if dx * dx + dy * dy > limit2:
                        continue
                    for iz in range(-nz, nz + 1):
                        for pz in range(2):
                            dz = (1 - 2 * pz) * source[2] + 2 * iz * size[2] - receiver[2]
                            r2 = dx * dx + dy * dy + dz * dz
                            bounces = bounces_xy + abs(iz - pz) + abs(iz)
                            if r2 > limit2 or bounces == 0:
                                continue
                            r = math.sqrt(r2)
                            ux, uy, uz = dx / r, dy / r, dz / r
                            # The image faces where the mirrors turn it; sound leaves it towards -u.
                            cosine = -(
                                (1 - 2 * px) * facing[0] * ux
                                + (1 - 2 * py) * facing[1] * uy
                                + (1 - 2 * pz) * facing[2] * uz
                            )
                            gain = beta**bounces / r * (omni + (1 - omni) * cosine)
                            gx = gain * (to_mic[0, 0] * ux + to_mic[0, 1] * uy + to_mic[0, 2] * uz)
                            gy = gain * (to_mic[1, 0] * ux + to_mic[1, 1] * uy + to_mic[1, 2] * uz)
                            gz = gain * (to_mic[2, 0] * ux + to_mic[2, 1] * uy + to_mic[2, 2] * uz)
                            delay = r * samples_per_m
                            whole = int(delay)
                            row = (delay - whole) * phases
                            low = int(row)
                            part = row - low
                            first = whole - half + 1
                            if first < 0 or first + taps > frames:
                                continue
                            for k in range(taps):
                                weights[k] = table[low, k] + part * (table[low + 1, k] - table[low, k])
                            for k in range(taps):
                                w = weights[k]
                                out[first + k, 0] += gain * w
                                out[first + k, 1] += gy * w
                                out[first + k, 2] += gz * w
                                out[first + k, 3] += gx * w
                            added += 1
    return added


@njit(cache=True)
def _count_images(
    size: NDArray[np.float64],
    source: NDArray[np.float64],
    receiver: NDArray[np.float64],
    limit_m: float,
    bin_m: float,
    energy: NDArray[np.float64],
) -> None:
    """energy[time bin, number of reflections] += 1 / r^2 for every image nearer than limit_m."""
    nx = int(limit_m / (2 * size[0])) + 1
    ny = int(limit_m / (2 * size[1])) + 1
    nz = int(limit_m / (2 * size[2])) + 1
    for ix in range(-nx, nx + 1):
        for px in range(2):
            dx = (1 - 2 * px) * source[0] + 2 * ix * size[0] - receiver[0]
            for iy in range(-ny, ny + 1):
                for py in range(2):
                    dy = (1 - 2 * py) * source[1] + 2 * iy * size[1] - receiver[1]
                    for iz in range(-nz, nz + 1):
                        for pz in range(2):
                            dz = (1 - 2 * pz) * source[2] + 2 * iz * size[2] - receiver[2]
                            r2 = dx * dx + dy * dy + dz * dz
                            bounces = abs(ix - px) + abs(ix) + abs(iy - py) + abs(iy) + abs(iz - pz) + abs(iz)
                            time = int(math.sqrt(r2) / bin_m)
                            if time < energy.shape[0] and bounces < energy.shape[1]:
                                energy[time, bounces] += 1.0 / r2


def _sinc_table() -> NDArray[np.float64]:
    """(PHASES + 1, TAPS) sinc under a Kaiser window; row p delays by p / PHASES samples plus TAPS/2 - 1."""
    steps = np.arange(TAPS)[None, :] - (TAPS // 2 - 1) - np.arange(PHASES + 1)[:, None] / PHASES
    inside = np.clip(1 - (steps / (TAPS / 2)) ** 2, 0, 1)
    table: NDArray[np.float64] = np.sinc(steps) * np.i0(8.0 * np.sqrt(inside)) / np.i0(8.0)
    return table


_TABLE = _sinc_table()


@lru_cache(maxsize=32)
def wall_reflection(size_m: tuple[float, float, float], rt60_s: float) -> float:
    """The pressure reflection factor of all six walls that gives the decay time asked (0 for 0 s).

    Solved by bisection on the decay slope (-5 to -35 dB of the backward-integrated energy, or as far as half
    a second reaches) of the image sources of this box themselves.
    """
    if rt60_s <= 0:
        return 0.0
    size = np.asarray(size_m, dtype=float)
    length_s = min(max(rt60_s, 0.06), 0.5)
    bins = math.ceil(length_s / COUNT_BIN_S)
    orders = 3 * (math.ceil(length_s * SPEED_OF_SOUND / size.min()) + 2)
    energy = np.zeros((bins, orders))
    # Two uncommon places: a slope is a property of the box more than of the places.
    _count_images(
        size, size * (0.31, 0.62, 0.55), size * (0.55, 0.23, 0.43), length_s * SPEED_OF_SOUND,
        COUNT_BIN_S * SPEED_OF_SOUND, energy,
    )  # fmt: skip
    per_second = 6 * math.log(10) / rt60_s  # of the energy

    def too_live(beta: float) -> bool:
        decay = energy @ beta ** (2.0 * np.arange(orders))
        rest = decay[-5:].mean() / (per_second * COUNT_BIN_S)  # what would follow after the last bin
        level = 10 * np.log10(np.cumsum(decay[::-1])[::-1] + rest)
        level -= level[0]
        chosen = np.flatnonzero((level <= -5) & (level >= -35))
        if len(chosen) < 3:
            chosen = np.arange(len(level) // 3, len(level)) if level[-1] > -8 else np.arange(2, 6)
        slope = np.polyfit(chosen * COUNT_BIN_S, level[chosen], 1)[0]
        return bool(slope > -60 / rt60_s)

    low, high = 0.001, 0.99999
    for _ in range(30):
        middle = (low + high) / 2
        low, high = (low, middle) if too_live(middle) else (middle, high)
    return (low + high) / 2


def yaw_matrix(yaw_deg: float) -> NDArray[np.float64]:
    """(3, 3) matrix that turns room coordinates into a frame whose x axis points at yaw_deg from +x to +y."""
    c, s = math.cos(math.radians(yaw_deg)), math.sin(math.radians(yaw_deg))
    return np.array([[c, s, 0.0], [-s, c, 0.0], [0.0, 0.0, 1.0]])


def foa_response(
    size_m: ArrayLike,
    source_m: ArrayLike,
    microphone_m: ArrayLike,
    rt60_s: float,
    rate_hz: int = 48000,
    microphone_yaw_deg: float = 0.0,
    facing: ArrayLike | None = None,
    omni: float = 1.0,
    seed: int = 0,
) -> NDArray[np.float32]:
    """Impulse response of a box-shaped room from a point source to an ideal FOA microphone.

    size_m, source_m, microphone_m: (3,) metres in the room frame (one corner at the origin).
    rt60_s: decay time, 0 (only the direct sound) to 3 s. microphone_yaw_deg: where the microphone's front
    points. facing and omni: the source's aim in the room frame and its pattern `omni + (1 - omni) cos(angle)`
    (omni 1: the same in all directions). seed: of the diffuse tail.
    Returns (frames, 4) float32, AmbiX; the direct sound has gain 1 / r (1 at one metre) at delay r / c.
    Raises InputError for places outside the room, source and microphone closer than 5 cm, or an impossible
    rt60.
    """
    size, source, microphone = (np.asarray(v, dtype=float) for v in (size_m, source_m, microphone_m))
    if size.shape != (3,) or source.shape != (3,) or microphone.shape != (3,) or not np.all(size > 0):
        raise InputError("size, source and microphone need three metres each, and the size must be positive")
    if not 0 <= rt60_s <= MAX_RT60_S:
        raise InputError(f"rt60_s is {rt60_s}; the virtual room can do 0 (no reflections) to {MAX_RT60_S} s")
    for name, place in (("source", source), ("microphone", microphone)):
        if not np.all((place >= 0) & (place <= size)):
            raise InputError(f"the {name} at {place.tolist()} m is outside the room of {size.tolist()} m")
    towards = source - microphone
    distance = float(np.linalg.norm(towards))
    if distance < 0.05:
        raise InputError(
            f"source and microphone are {distance * 100:.1f} cm apart; the virtual room needs 5 cm"
        )
    aim = np.zeros(3) if facing is None else np.asarray(facing, dtype=float)
    if facing is not None:
        aim = aim / np.linalg.norm(aim)
    omni = 1.0 if facing is None else omni
    samples_per_m = rate_hz / SPEED_OF_SOUND
    image_s = min(rt60_s, IMAGE_SECONDS)
    image_frames = math.ceil(max(image_s * rate_hz, distance * samples_per_m)) + TAPS
    frames = max(image_frames, math.ceil(rt60_s * rate_hz) + TAPS)
    response = np.zeros((frames, 4))
    if rt60_s > 0:
        beta = wall_reflection((float(size[0]), float(size[1]), float(size[2])), float(rt60_s))
        to_mic = yaw_matrix(microphone_yaw_deg)
        _add_images(
            response[:image_frames], size, source, microphone, to_mic, aim, omni, beta,
            image_s * SPEED_OF_SOUND, samples_per_m, _TABLE,
        )  # fmt: skip
        highpass = butter(2, HIGHPASS_HZ, "highpass", fs=rate_hz, output="sos")
        response[:image_frames] = sosfilt(highpass, response[:image_frames], axis=0)
        if rt60_s > IMAGE_SECONDS:
            _add_tail(response, image_s, rt60_s, rate_hz, seed)
    unit = yaw_matrix(microphone_yaw_deg) @ (towards / distance)
    gain = (omni + (1 - omni) * float(-aim @ towards / distance)) / distance
    delay = distance * samples_per_m
    first = math.floor(delay) - TAPS // 2 + 1
    positions = np.arange(TAPS) + first
    steps = positions - delay
    window = np.i0(8.0 * np.sqrt(np.clip(1 - (steps / (TAPS / 2)) ** 2, 0, 1))) / np.i0(8.0)
    keep = positions >= 0
    taps = (gain * np.sinc(steps) * window)[keep]
    response[positions[keep]] += taps[:, None] * np.array([1.0, unit[1], unit[2], unit[0]])
    return response.astype(np.float32)


def _add_tail(response: NDArray[np.float64], image_s: float, rt60_s: float, rate_hz: int, seed: int) -> None:
    """Fade the images out at image_s and a diffuse tail in: noise, W's power divided by 3 in Y, Z, X."""
    end = round(image_s * rate_hz)
    overlap = round(OVERLAP_SECONDS * rate_hz)
    start = end - overlap
    window = response[start - overlap : start]
    power = float(np.mean(window[:, 0] ** 2))
    random = np.random.default_rng(seed)
    frames = len(response) - start
    time = np.arange(frames) / rate_hz
    centre = -0.5 * OVERLAP_SECONDS  # of the window that the power was taken from
    envelope = np.sqrt(power) * 10.0 ** (-3.0 * (time - centre) / rt60_s)
    noise = random.standard_normal((frames, 4)) * envelope[:, None]
    noise[:, 1:] *= math.sqrt(1 / 3)
    fade = np.linspace(0, np.pi / 2, overlap)
    noise[:overlap] *= np.sin(fade)[:, None]
    response[start:end] *= np.cos(fade)[:, None]
    response[end:] = 0
    response[start:] += noise
