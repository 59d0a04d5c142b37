"""Flashes and beeps as a camera and a microphone would record them, with known offset and drift.

Nothing is handed to the estimator but pictures (uint8, through exposure row by row, noise and gamma) and
sound (through a room, the way through the air, noise).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from calibration.sync import estimate_sync
from calibration.sync_light import LightLog
from calibration.sync_setting import Setting, Sound, SyncFit
from calibration.sync_sound import chirp

F64 = NDArray[np.float64]
T0_NS = 7_000_000_000_000
WIDTH, HEIGHT = 160, 96
SPEED_M_S = 343.2  # 20 degrees Celsius


@dataclass
class Scene:
    """What is in front of the devices, and how they see and hear it. Times in seconds of true time.

    offset_ms and drift_ppm: what the sound's stamps are late against the pictures', and by how much more per
    second. stamp: what the picture's stamp stands for (start, middle, end). box: top, bottom, left, right of
    the flash, 0..1. sound: "chirp", "tone" or "clap".
    """

    events_s: F64
    flash_s: float = 0.1
    offset_ms: float = 0.0
    drift_ppm: float = 0.0
    fps: float = 30.0
    exposure_ms: float = 8.0
    readout_ms: float = 0.0
    stamp: str = "middle"
    jitter_ms: float = 0.0
    exposure_jitter_ms: float = 0.0
    box: tuple[float, float, float, float] = (0.4, 0.6, 0.4, 0.6)
    brightness: float = 0.35
    spill: float = 0.03
    lamp: float = 0.08
    flicker: float = 0.0
    picture_noise: float = 1.5
    sound: str = "tone"
    rate_hz: int = 48000
    snr_db: float = 30.0
    distance_m: float = 0.0
    rt60_s: float = 0.4
    scatter_ms: F64 | None = None
    seed: int = 0
    length_s: float = 0.0

    def __post_init__(self) -> None:
        self.length_s = self.length_s or float(self.events_s[-1]) + 1.5

    # -------------------------------------------------------------- pictures

    def pictures(self) -> Iterator[tuple[int, NDArray[np.uint8]]]:
        """(stamp in ns, grey picture) of the times within 2.5 s of an event."""
        rng = np.random.default_rng([self.seed, 1])
        e, readout = self.exposure_ms / 1e3, self.readout_ms / 1e3
        rows = ((np.arange(HEIGHT) + 0.5) / HEIGHT - 0.5) * readout
        top, bottom, left, right = self.box
        inside = np.zeros((HEIGHT, WIDTH))
        inside[
            int(top * HEIGHT) : max(int(bottom * HEIGHT), int(top * HEIGHT) + 1),
            int(left * WIDTH) : max(int(right * WIDTH), int(left * WIDTH) + 1),
        ] = 1.0
        wall = self.lamp * (0.7 + 0.6 * rng.random((HEIGHT, WIDTH)))
        phase0 = rng.uniform(0, 1 / self.fps)
        flicker_phase = rng.uniform(0, 2 * np.pi)
        on, off = self.events_s, self.events_s + self.flash_s
        for i in range(int(self.length_s * self.fps)):
            middle = phase0 + i / self.fps + self.exposure_jitter_ms / 1e3 * rng.standard_normal()
            near = np.abs(self.events_s - middle).min()
            jitter = self.jitter_ms / 1e3 * rng.standard_normal()
            if near > 2.5:
                continue
            stamp = middle + jitter
            stamp += {"start": -0.5, "middle": 0.0, "end": 0.5}[self.stamp] * (e + readout)
            begin = middle + rows - e / 2
            lit = np.clip(np.minimum(begin[:, None] + e, off) - np.maximum(begin[:, None], on), 0, None).sum(
                axis=1
            )
            share = lit / e
            w = 2 * np.pi * 100.0
            wave = (np.sin(w * (begin + e) + flicker_phase) - np.sin(w * begin + flicker_phase)) / (w * e)
            light = wall * (1 + self.flicker * wave[:, None])
            light = light + share[:, None] * (self.brightness * inside + self.spill * (wall / self.lamp))
            grey = 255 * np.where(
                light <= 0.0031308, 12.92 * light, 1.055 * np.maximum(light, 1e-9) ** (1 / 2.4) - 0.055
            )
            noise = self.picture_noise * rng.standard_normal((HEIGHT, WIDTH))
            # The pictures' clock is the true one.
            yield T0_NS + round(stamp * 1e9), np.clip(np.rint(grey + noise), 0, 255).astype(np.uint8)

    # -------------------------------------------------------------- sound

    def heard(self, name: str, delay_s: float) -> F64:
        """One beep as its device makes it, from delay_s after the first sample."""
        fs = self.rate_hz
        if name == "chirp":
            return chirp(fs, delay_s)
        n = round((self.flash_s + 0.05) * fs)
        t = np.arange(n) / fs - delay_s
        if name == "tone":
            ramp = np.clip(t / 0.0003, 0, 1) * np.clip((self.flash_s - t) / 0.0003, 0, 1)
            return np.where((t >= 0) & (t < self.flash_s), np.sin(2 * np.pi * 2730.0 * t), 0.0) * ramp
        burst = np.random.default_rng([self.seed, 5]).standard_normal(n)
        return np.where(t >= 0, burst * np.exp(-np.maximum(t, 0) / 0.004), 0.0)

    def audio(self) -> tuple[NDArray[np.float32], int]:
        """Mono sound and the stamp of its first sample in ns."""
        rng = np.random.default_rng([self.seed, 2])
        fs = self.rate_hz
        n = round((self.length_s + 0.5) * fs)
        x = np.zeros(n)
        room = self._room(rng)
        scatter = np.zeros(len(self.events_s)) if self.scatter_ms is None else self.scatter_ms
        start = -0.2  # true time of the first sample's stamp
        for event, late in zip(self.events_s, scatter, strict=True):
            # The stamp that the sound gets: offset and drift against the pictures' clock.
            stamp = event + self.distance_m / SPEED_M_S + (self.offset_ms + late) / 1e3
            stamp += self.drift_ppm * 1e-6 * event
            place = (stamp - start) * fs
            whole = int(np.floor(place))
            wet = _convolve(self.heard(self.sound, (place - whole) / fs), room)
            if whole < 0 or whole >= n:
                continue
            part = wet[: n - whole]
            x[whole : whole + len(part)] += part
        level = np.sqrt(np.mean(self.heard(self.sound, 0.0) ** 2))
        x += level * 10 ** (-self.snr_db / 20) * rng.standard_normal(n)
        return (0.2 * x / max(np.abs(x).max(), 1e-9)).astype(np.float32), T0_NS + round(start * 1e9)

    def _room(self, rng: np.random.Generator) -> F64:
        """Direct sound, eight reflections and a decaying tail."""
        fs = self.rate_hz
        h = np.zeros(round(max(self.rt60_s, 0.01) * fs))
        h[0] = 1.0
        if self.rt60_s <= 0.01:
            return h
        for delay in rng.uniform(0.0015, 0.03, 8):
            h[int(delay * fs)] += rng.choice([-1, 1]) * rng.uniform(0.2, 0.6)
        t = np.arange(len(h)) / fs
        tail = rng.standard_normal(len(h)) * 10 ** (-3 * t / self.rt60_s) * 0.03
        tail[: int(0.003 * fs)] = 0.0
        return h + tail


def _convolve(x: F64, h: F64) -> F64:
    from scipy.signal import fftconvolve

    return np.asarray(fftconvolve(x, h))


def spread_events(n: int, seed: int, first_s: float = 1.0, apart_s: float = 0.8) -> F64:
    """n times with unequal spacing, as the page shows them."""
    rng = np.random.default_rng([seed, 9])
    return first_s + np.concatenate([[0.0], np.cumsum(apart_s + 0.7 * rng.random(n - 1))])


def looked_at(scene: Scene, late_ms: float = 0.0) -> LightLog:
    """The pictures of a scene in a log; late_ms is added to their stamps."""
    log = LightLog()
    for t_ns, image in scene.pictures():
        log.add(t_ns + round(late_ms * 1e6), image)
    return log


def solved(scene: Scene, setting: Setting | None = None, late_ms: float = 0.0) -> SyncFit:
    """What `calibration.sync` makes of a scene."""
    samples, t0_ns = scene.audio()
    return estimate_sync(looked_at(scene, late_ms), Sound.of(samples, scene.rate_hz, t0_ns), setting)


def true_offset_ms(scene: Scene, at_ns: int, late_ms: float = 0.0) -> float:
    """The offset at a time, without the sound's way, as estimated ones are defined."""
    return scene.offset_ms + scene.drift_ppm * 1e-6 * (at_ns - T0_NS) / 1e6 - late_ms


def encode(scene: Scene, path: Path, codec: str) -> int:
    """Write the pictures as a video (Matroska or MP4, stamps in ms); gives the stamp of the first one in
    ns."""
    import av

    first: int | None = None
    with av.open(str(path), "w") as container:
        stream = container.add_stream(codec, rate=round(scene.fps))
        stream.width, stream.height = WIDTH, HEIGHT
        stream.pix_fmt = "yuvj420p" if codec == "mjpeg" else "yuv420p"
        stream.time_base = stream.codec_context.time_base = Fraction(1, 1000)
        if codec == "mjpeg":
            stream.codec_context.qmin, stream.codec_context.qmax = 2, 4
        else:
            stream.options = {"crf": "20"}
        for t_ns, image in scene.pictures():
            first = t_ns if first is None else first
            frame = av.VideoFrame.from_ndarray(np.repeat(image[:, :, None], 3, axis=2), format="bgr24")
            frame.pts, frame.time_base = round((t_ns - first) / 1e6), Fraction(1, 1000)
            for packet in stream.encode(frame):
                container.mux(packet)
        for packet in stream.encode():
            container.mux(packet)
    assert first is not None
    return first
