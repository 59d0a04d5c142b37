"""The sounds of the devices and of the slate, synthesised; the same seed gives the same samples.

Every device sound is one period of an endless loop: all tones have a whole number of cycles in it and the
noise is made in the frequency domain, so the end joins the start without a seam. Broadband parts reach from
150 Hz to 5 kHz, so that a direction can be heard (a lone tone has none in a room with echoes).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np
from numpy.typing import NDArray

RATE_HZ = 48000
LOOP_SECONDS = 6.0  # 288000 frames: a length that FFTs like
Kind = Literal["hum", "beep", "spin", "music"]
Mono = NDArray[np.float64]

# What a device of this type sounds like when it runs; types that make no sound are absent.
KIND_OF_TYPE: dict[str, Kind] = {
    "fan": "hum",
    "air_conditioner": "hum",
    "air_purifier": "hum",
    "humidifier": "hum",
    "refrigerator": "hum",
    "microwave": "beep",
    "laundry_washer": "spin",
    "tv": "music",
    "audio_player": "music",
}


def device_loop(device_type: str, kind: Kind, seed: int) -> Mono:
    """One loop of `LOOP_SECONDS` at 48 kHz, RMS 1 over its sounding part; (frames,) float64."""
    random = np.random.default_rng([seed, sum(device_type.encode()), len(kind)])
    makers: dict[Kind, Callable[[str, np.random.Generator], Mono]] = {
        "hum": _hum,
        "beep": _beep,
        "spin": _spin,
        "music": _music,
    }
    loop = makers[kind](device_type, random)
    hop = RATE_HZ // 50
    power = np.mean(loop.reshape(-1, hop) ** 2, axis=1)
    sounding = power[power > power.max() * 1e-3]
    return np.asarray(loop / np.sqrt(sounding.mean()))


def slate_beep(duration_s: float, tone_hz: float = 2000.0) -> Mono:
    """The beep that goes with the LED: a tone of constant level, 1 ms ramps, peak 1; (frames,) float64."""
    time = np.arange(round(duration_s * RATE_HZ)) / RATE_HZ
    ramp = np.clip(np.minimum(time, duration_s - time) / 0.001, 0, 1)
    return np.asarray(np.sin(2 * np.pi * tone_hz * time) * ramp)


def _frames() -> int:
    return round(LOOP_SECONDS * RATE_HZ)


def _whole(frequency_hz: float) -> float:
    """The nearest frequency with a whole number of cycles in the loop."""
    return round(frequency_hz * LOOP_SECONDS) / LOOP_SECONDS


def _tone(frequency_hz: float, phase: float = 0.0) -> Mono:
    time = np.arange(_frames()) / RATE_HZ
    return np.asarray(np.sin(2 * np.pi * _whole(frequency_hz) * time + phase))


def _noise(
    random: np.random.Generator, low_hz: float, high_hz: float, slope_db_per_octave: float = -3.0
) -> Mono:
    """Noise with soft band edges (RMS 1) and a spectral slope; periodic in the loop."""
    frames = _frames()
    frequency = np.fft.rfftfreq(frames, 1 / RATE_HZ)
    octave = np.log2(np.maximum(frequency, 1.0) / 1000.0)
    edges = 1 / (1 + (low_hz / np.maximum(frequency, 1e-3)) ** 6) / (1 + (frequency / high_hz) ** 6)
    amplitude = 10 ** (slope_db_per_octave * octave / 20) * np.sqrt(edges)
    spectrum = amplitude * np.exp(2j * np.pi * random.random(len(frequency)))
    noise = np.fft.irfft(spectrum, frames)
    return np.asarray(noise / np.sqrt(np.mean(noise**2)))


def _hum(device_type: str, random: np.random.Generator) -> Mono:
    """Mains harmonics or blade passing, and the rush of air."""
    base = {"air_conditioner": 100.0, "refrigerator": 100.0, "fan": 87.0}.get(device_type, 120.0)
    base *= random.uniform(0.96, 1.04)
    hum = np.zeros(_frames())
    for harmonic in range(1, 13):
        hum += _tone(base * harmonic, random.uniform(0, 2 * np.pi)) * random.uniform(0.6, 1.0) / harmonic**0.7
    hum /= np.sqrt(np.mean(hum**2))
    wobble = 1 + 0.15 * _tone(random.choice([0.5, 2 / 3, 5 / 6]))
    return 0.7 * hum + 0.9 * _noise(random, 150, 5000, -4.0) * wobble


def _beep(device_type: str, random: np.random.Generator) -> Mono:
    """Three buzzer beeps every two seconds."""
    pitch = random.uniform(950, 1150)
    buzz = sum((_tone(pitch * harmonic) / harmonic**0.8 for harmonic in (1, 2, 3, 4, 5)), np.zeros(_frames()))
    gate = np.zeros(_frames())
    length, ramp = round(0.22 * RATE_HZ), round(0.004 * RATE_HZ)
    shape = np.minimum(1, np.minimum(np.arange(length), np.arange(length)[::-1]) / ramp)
    for start in np.arange(0.0, LOOP_SECONDS, 2.0):
        for beep in range(3):
            at = round((start + 0.42 * beep) * RATE_HZ)
            gate[at : at + length] = shape
    return buzz * gate


def _spin(device_type: str, random: np.random.Generator) -> Mono:
    """A drum at 1000 turns a minute: whine, rattle once a turn, rush."""
    turns = _whole(random.uniform(15.5, 17.5))
    time = np.arange(_frames()) / RATE_HZ
    whine = _tone(turns * 24) + 0.6 * _tone(turns * 36, 1.0) + 0.4 * _tone(turns * 72, 2.0)
    rattle = _noise(random, 500, 4500, 0.0) * np.exp(-((time * turns) % 1.0) * 7.0)
    return 0.5 * whine + 0.9 * _noise(random, 120, 3000, -5.0) + 1.3 * rattle


def _music(device_type: str, random: np.random.Generator) -> Mono:
    """Twenty-four quavers of a pentatonic melody over a slow bass, plucked."""
    scale = np.array([0, 2, 4, 7, 9, 12, 14, 16])
    root = 220.0 * 2 ** (int(random.integers(0, 7)) / 12)
    beats = 24
    step = _frames() // beats
    length = round(1.2 * RATE_HZ)
    time = np.arange(length) / RATE_HZ
    attack = np.minimum(1, time / 0.005)
    music = np.zeros(_frames())
    place = 3

    def pluck(frequency: float, start: int, gain: float, decay: float) -> None:
        note = np.zeros(length)
        for harmonic in range(1, 9):
            note += (
                np.sin(2 * np.pi * frequency * harmonic * time)
                * np.exp(-time * decay * harmonic**0.5)
                / harmonic
            )
        np.add.at(music, (start + np.arange(length)) % len(music), gain * note * attack)

    for beat in range(beats):
        place = int(np.clip(place + random.integers(-2, 3), 0, len(scale) - 1))
        if random.random() < 0.85:
            pluck(root * 2 ** (scale[place] / 12), beat * step, 1.0, 4.0)
        if beat % 4 == 0:
            pluck(root / 2 * 2 ** (scale[int(random.integers(0, 3))] / 12), beat * step, 0.8, 2.5)
    return music
