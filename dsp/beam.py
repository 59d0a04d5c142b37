"""Beams toward a direction from first-order ambisonics: maximum directivity, MVDR, and a spatial postfilter.

Maximum directivity (hypercardioid): w = G^-1 d / (d^H G^-1 d), with d the response to a plane wave from the
wanted direction and G the covariance of a diffuse field (Elko, in Microphone Arrays, Springer 2001, chapter
2). For coincident AmbiX it is (W + 3 V . u) / 4: 6.02 dB less diffuse sound, nulls at 109.5 degrees.
MVDR: w = R^-1 d / (d^H R^-1 d), with R the covariance of the frames in which the wanted sound is absent
(Capon, Proc. IEEE 57(8), 1969; masks: Higuchi et al., ICASSP 2016), loaded with G so that little data gives
the beam of maximum directivity, and with a limited norm (Cox, Zeskind and Owen, IEEE Trans. ASSP 35, 1987).
The postfilter is a Wiener gain whose noise is what the beam does not explain; see `dsp.spatial_filter`.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import scipy.fft

from dsp.ambisonics import CAPSULE_DIRECTIONS, conversion_matrix, direction_to_unit
from dsp.arguments import sample_rate
from dsp.errors import InputError
from dsp.foa_rows import checked_foa
from dsp.spatial_filter import filter_frame

F32 = npt.NDArray[np.float32]
F64 = npt.NDArray[np.float64]
C128 = npt.NDArray[np.complex128]

METHODS = ("max_directivity", "mvdr")
SPEED_OF_SOUND = 343.0
WINDOW_S = 1024 / 24000
RAMP_S = 0.020  # a change of direction without a spectrum fades over this time
# Chosen on rooms of seeds 100 to 159 of `bench.beam_rooms` (RT60 0.5 s, interferer at 0 and 5 dB, SNR 20 dB).
SMOOTHING_S = 0.030
MEMORY_S = 3.5
LOADING = 1.0
PRIOR_FRAMES = 8.0
LEAST_WHITE_NOISE_GAIN_DB = -3.0
STRENGTH = 1.0
FLOOR_DB = -18.0
RESET_DEG = 30.0  # after a turn by this much the covariance is learnt anew


def _direction(azimuth_deg: float, elevation_deg: float) -> F64:
    for name, value, most in (("azimuth", azimuth_deg, np.inf), ("elevation", elevation_deg, 90.0)):
        try:
            number = float(value)
        except (TypeError, ValueError):
            raise InputError(f"{name} must be a number of degrees, not {value!r}") from None
        if not np.isfinite(number) or abs(number) > most:
            limit = "finite" if most == np.inf else "from -90 to 90 degrees"
            raise InputError(
                f"the {name} of a beam must be {limit}, not {number:g}; is there a direction yet?"
            )
    return direction_to_unit(float(azimuth_deg), float(elevation_deg))


def plane_wave_response(unit: npt.ArrayLike, frequencies_hz: npt.ArrayLike, radius_m: float = 0.0) -> C128:
    """AmbiX response (directions, frequencies, 4) to plane waves from unit vectors (directions, 3).

    radius_m 0: coincident, (1, y, z, x) at every frequency. Else that of a tetrahedron of cardioids at this
    radius whose signals went through the plain matrix of `dsp.convert`, such as an H3-VR (about 0.015 m).
    Raises InputError for a radius outside 0 to 0.1 m.
    """
    u = np.atleast_2d(np.asarray(unit, np.float64))
    f = np.atleast_1d(np.asarray(frequencies_hz, np.float64))
    if not 0.0 <= radius_m <= 0.1:
        raise InputError(f"radius_m must be from 0 to 0.1 metres, not {radius_m!r}")
    if radius_m == 0.0:
        flat = np.stack([np.ones(len(u)), u[:, 1], u[:, 2], u[:, 0]], axis=1)
        return np.repeat(flat[:, None], len(f), axis=1).astype(np.complex128)
    along = u @ CAPSULE_DIRECTIONS["a"].T
    lead = np.exp(2j * np.pi * radius_m / SPEED_OF_SOUND * f[None, :, None] * along[:, None])
    return 0.5 * (1.0 + along[:, None]) * lead @ conversion_matrix("a", "ambix").T


def diffuse_power(frequencies_hz: npt.ArrayLike, radius_m: float = 0.0) -> F64:
    """Power of a diffuse field in W, Y, Z, X, shape (frequencies, 4), relative to W of coincident capsules.

    By the symmetry of the tetrahedron the channels are uncorrelated. Coincident: 1, 1/3, 1/3, 1/3.
    """
    n = np.arange(500) + 0.5
    polar = np.arccos(1 - 2 * n / 500)
    turn = np.pi * (1 + 5**0.5) * n
    unit = np.stack([np.sin(polar) * np.cos(turn), np.sin(polar) * np.sin(turn), np.cos(polar)], axis=-1)
    power = np.mean(np.abs(plane_wave_response(unit, frequencies_hz, radius_m)) ** 2, axis=0)
    power[:, 1:] = power[:, 1:].mean(axis=1, keepdims=True)  # exact on the sphere
    return power


def max_directivity_weights(
    azimuth_deg: float,
    elevation_deg: float,
    frequencies_hz: npt.ArrayLike = (1000.0,),
    radius_m: float = 0.0,
    white_noise_gain_db: float = LEAST_WHITE_NOISE_GAIN_DB,
) -> C128:
    """Weights (frequencies, 4) of the beam w^H x with the least diffuse sound and gain 1 toward a direction.

    white_noise_gain_db: the least white noise gain 1 / |w|^2 allowed; G is loaded with a multiple of I where
    it would be lower, which spaced capsules need near the frequencies where X, Y, Z vanish. Coincident: 2.04
    dB at all frequencies, (1, 3 y, 3 z, 3 x) / 4. Raises InputError for a limit beyond 3.01 dB.
    """
    steering = plane_wave_response(_direction(azimuth_deg, elevation_deg), frequencies_hz, radius_m)[0]
    power = diffuse_power(frequencies_hz, radius_m)
    power = power + _loading(steering, power, white_noise_gain_db)[:, None]
    weights = steering / power
    return weights / np.sum(np.abs(steering) ** 2 / power, axis=1, keepdims=True)


def _loading(steering: C128, power: F64, white_noise_gain_db: float) -> F64:
    """The least loading (frequencies,) that keeps the white noise gain, by bisection on its logarithm."""
    wanted = 10 ** (white_noise_gain_db / 10)
    square = np.abs(steering) ** 2

    def gain(load: F64) -> F64:
        inverse = 1.0 / (power + load[:, None])
        return np.sum(square * inverse, axis=1) ** 2 / np.sum(square * inverse**2, axis=1)

    low, high = np.full(len(power), -12.0), np.full(len(power), 6.0)
    short = gain(np.zeros(len(power))) < wanted
    if not short.any():
        return np.zeros(len(power))
    if np.any(gain(10**high) < wanted * 0.999):
        most = 10 * np.log10(float(np.min(np.sum(square, axis=1))))
        raise InputError(
            f"no beam has a white noise gain of {white_noise_gain_db:g} dB here; at most {most:.2f} dB"
        )
    for _ in range(60):
        middle = (low + high) / 2
        enough = gain(10**middle) >= wanted
        high, low = np.where(enough, middle, high), np.where(enough, low, middle)
    return np.where(short, 10**high, 0.0)


class Beamformer:
    """A beam in blocks; the result does not depend on how the samples are cut into blocks.

    fs: 8 to 192 kHz. azimuth_deg, elevation_deg: where the wanted sound comes from. method: "max_directivity"
    or "mvdr" (adapts to what sounds elsewhere). postfilter: attenuate the cells of time and frequency where
    little comes from there, by at most -`floor_db`. radius_m: of a tetrahedral microphone whose spacing is
    not corrected yet; 0 for ideal AmbiX.

    The output is `delay_frames` late: `concatenate(pushes + [flush()])[delay_frames:]` is in time with the
    input and of its length. That is 0 for max_directivity without postfilter and radius (which gives a sample
    per sample), else 32 ms, in steps of 10.7 ms. Raises InputError for bad values, shapes and samples.
    """

    def __init__(
        self,
        fs: int = 24000,
        azimuth_deg: float = 0.0,
        elevation_deg: float = 0.0,
        method: str = "mvdr",
        postfilter: bool = True,
        floor_db: float = FLOOR_DB,
        radius_m: float = 0.0,
    ) -> None:
        if method not in METHODS:
            raise InputError(f"unknown beam {method!r}; one of {', '.join(METHODS)}")
        if not -60.0 <= floor_db <= 0.0:
            raise InputError(f"floor_db must be from -60 to 0 dB, not {floor_db!r}")
        self.fs = sample_rate(fs, 8000, 192_000)
        self.method = method
        self.radius_m = float(radius_m)
        self._adapt = method == "mvdr"
        self._postfilter = bool(postfilter)
        self._direct = not (self._adapt or self._postfilter or self.radius_m)
        size = 1 << round(np.log2(self.fs * WINDOW_S))
        self._hop = size // 4
        self._size = size
        self._unit = _direction(azimuth_deg, elevation_deg)
        self.delay_frames = 0 if self._direct else size - self._hop
        frequencies = np.fft.rfftfreq(size, 1 / self.fs)
        self._frequencies = frequencies
        bins = len(frequencies)
        self._window = np.sin(np.pi * (np.arange(size) + 0.5) / size).astype(np.float32)
        self._power = diffuse_power(frequencies, self.radius_m)
        step_s = self._hop / self.fs
        self._settings = np.array(
            [
                np.exp(-step_s / SMOOTHING_S),
                np.exp(-step_s / MEMORY_S),
                LOADING,
                PRIOR_FRAMES,
                10 ** (-LEAST_WHITE_NOISE_GAIN_DB / 10),
                STRENGTH,
                10 ** (floor_db / 20),
            ],
            np.float32,
        )
        self._spectrum = np.zeros(bins, np.complex64)
        self._ramp_length = max(1, round(RAMP_S * self.fs))
        self._weights = self._ramp_from = self._flat_weights()
        self._aim()
        self._reset()

    @property
    def delay_s(self) -> float:
        """Delay of the output in seconds."""
        return self.delay_frames / self.fs

    def _reset(self) -> None:
        bins = len(self._frequencies)
        self._covariance = np.zeros((bins, 4, 4), np.complex64)
        self._count = np.zeros(bins, np.float32)
        self._smooth = np.zeros((2, bins), np.float32)
        self._frame = np.zeros((4, self._size), np.float32)
        self._overlap = np.zeros(self._size, np.float32)
        self._filled = 0
        self._ramp_from = self._weights
        self._ramp_at = self._ramp_length

    def _flat_weights(self) -> F32:
        x, y, z = self._unit
        return np.array([0.25, 0.75 * y, 0.75 * z, 0.75 * x], np.float32)

    def _aim(self) -> None:
        steering = plane_wave_response(self._unit, self._frequencies, self.radius_m)[0]
        power = self._power + _loading(steering, self._power, LEAST_WHITE_NOISE_GAIN_DB)[:, None]
        self._steering = steering.astype(np.complex64)
        self._inverse = (1.0 / power).astype(np.float32)

    def steer(self, azimuth_deg: float, elevation_deg: float) -> None:
        """Turn the beam; the next samples pushed are heard from there, with a fade, not a click.

        What was learnt about the noise is kept for a small turn (a talker who walks) and forgotten in
        proportion for one of up to 30 degrees, because the new talker may be the old noise.
        """
        unit = _direction(azimuth_deg, elevation_deg)
        turned = np.degrees(np.arctan2(np.linalg.norm(np.cross(unit, self._unit)), unit @ self._unit))
        keep = np.float32(max(0.0, 1.0 - float(turned) / RESET_DEG))
        self._covariance *= keep
        self._count *= keep
        self._unit = unit
        self._ramp_from = self._ramped(np.array([self._ramp_at]))[0]
        self._weights = self._flat_weights()
        self._ramp_at = 0
        self._aim()

    def push(self, block: npt.ArrayLike) -> F32:
        """block: AmbiX (n, 4) float. Returns the samples (m,) of the beam that this block completes."""
        x = checked_foa(block, "a beam")
        return self._filter_directly(x) if self._direct else self._filter_spectra(x)

    def flush(self) -> F32:
        """The rest of the beam, `delay_frames` plus what waits for a full step; then all is forgotten but the
        direction, and a new signal may follow."""
        if self._direct:
            self._reset()
            return np.zeros(0, np.float32)
        wanted = self._filled + self.delay_frames
        steps = -(-wanted // self._hop)
        out = self._filter_spectra(np.zeros((steps * self._hop - self._filled, 4), np.float32))[:wanted]
        self._reset()
        return out

    def _ramped(self, at: npt.NDArray[np.int64]) -> F32:
        t = (np.minimum(at, self._ramp_length) / self._ramp_length).astype(np.float32)[:, None]
        return self._ramp_from + t * (self._weights - self._ramp_from)

    def _filter_directly(self, x: F32) -> F32:
        if self._ramp_at >= self._ramp_length:
            w = np.broadcast_to(self._weights, x.shape)
        else:
            w = self._ramped(self._ramp_at + 1 + np.arange(len(x)))
        self._ramp_at = min(self._ramp_at + len(x), self._ramp_length)
        # Not a matrix product: that may round differently for other block lengths.
        return x[:, 0] * w[:, 0] + x[:, 1] * w[:, 1] + x[:, 2] * w[:, 2] + x[:, 3] * w[:, 3]

    def _filter_spectra(self, x: F32) -> F32:
        hop, size = self._hop, self._size
        out = np.empty((self._filled + len(x)) // hop * hop, np.float32)
        done = start = 0
        while start < len(x):
            n = min(hop - self._filled, len(x) - start)
            at = size - hop + self._filled
            self._frame[:, at : at + n] = x[start : start + n].T
            self._filled += n
            start += n
            if self._filled == hop:
                out[done : done + hop] = self._finish_hop()
                done += hop
                self._filled = 0
        return out

    def _finish_hop(self) -> F32:
        hop, size = self._hop, self._size
        spectra = scipy.fft.rfft(self._frame * self._window, axis=1)
        filter_frame(
            spectra,
            self._steering,
            self._inverse,
            self._covariance,
            self._count,
            self._smooth,
            self._settings,
            self._adapt,
            self._postfilter,
            self._spectrum,
        )
        self._overlap += scipy.fft.irfft(self._spectrum, size) * (self._window * np.float32(0.5))
        ready = self._overlap[:hop].copy()
        self._overlap[:-hop] = self._overlap[hop:]
        self._overlap[-hop:] = 0.0
        self._frame[:, :-hop] = self._frame[:, hop:]
        return ready


def beamform(
    foa: npt.ArrayLike,
    fs: int,
    azimuth_deg: float,
    elevation_deg: float,
    method: str = "mvdr",
    postfilter: bool = True,
    floor_db: float = FLOOR_DB,
    radius_m: float = 0.0,
) -> F32:
    """A beam toward one direction for a whole clip, (frames,) float32, in time with its input.

    foa: AmbiX (frames, 4) float. Equal to `Beamformer` fed with the same samples, less its delay; arguments
    and errors as there.
    """
    beam = Beamformer(fs, azimuth_deg, elevation_deg, method, postfilter, floor_db, radius_m)
    return np.concatenate([beam.push(foa), beam.flush()])[beam.delay_frames :]


def warm() -> None:
    """Compile (or load from the cache) the kernel, so that the first real block is not late."""
    noise = np.random.default_rng(0).standard_normal((2400, 4)).astype(np.float32)
    beamform(noise, 24000, 0.0, 0.0)
