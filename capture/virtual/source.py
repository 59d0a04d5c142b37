"""The virtual microphone and camera: a scene behind the interface of real sources.

Each has a thread of its own. In real time, block k of the microphone is delivered when its last sample would
have been taken, picture k when its exposure is over, by absolute deadlines on CLOCK_MONOTONIC from one common
start, so that lateness never adds up. With `pace: fast` the stamps are the same but nothing waits: they then
run ahead of the clock.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from capture.blocks import AudioBlock, AudioInfo, Sink, SourceEvent, VideoFrame, VideoInfo, monotonic_ns
from capture.source_thread import SourceThread
from capture.virtual.mixing import RATE_HZ, DriftingReader

if TYPE_CHECKING:
    from capture.virtual.scene import VirtualScene

FULL_SCALE_24 = 2**23
BACKLOG_SECONDS = 0.5  # pictures that the camera keeps while it is held up


class _Paced(ABC):
    """Thread, stop and deadlines that both sources share."""

    def __init__(self, scene: VirtualScene, name: str, fast: bool) -> None:
        self._scene = scene
        self._name = name
        self._fast = fast
        self._thread = SourceThread(name)

    def start(self, sink: Sink) -> None:
        """Begin to deliver; returns at once."""
        self._thread.prepare()
        start_ns = self._scene.clock.join()
        self._scene.truth.start_ns = start_ns
        self._thread.begin(self._run, sink, start_ns)

    def stop(self) -> None:
        """Stop to deliver; when this returns the sink is not called any more."""
        if self._thread.end():
            self._scene.clock.leave()

    def close(self) -> None:
        """Stop, if need be."""
        self.stop()

    @abstractmethod
    def _run(self, sink: Sink, start_ns: int) -> None:
        """Deliver until the end or until stopped; on the source's own thread."""

    def _wait_until(self, deadline_ns: int) -> bool:
        """Sleep to an absolute time; False when stopped meanwhile."""
        if not self._fast:
            while (left := deadline_ns - monotonic_ns()) > 0:
                if self._thread.stopping.wait(left / 1e9):
                    return False
        return not self._thread.stopping.is_set()

    def _ended(self, sink: Sink, t_ns: int) -> None:
        sink(SourceEvent(t_ns, self._name, "ended", "the virtual scene is over"))


class VirtualMicrophone(_Paced):
    """AudioSource of a scene: 4 channels at 48 kHz, 24 bit, in the format of `rig.microphone.format`."""

    def __init__(self, scene: VirtualScene) -> None:
        super().__init__(scene, "virtual microphone", scene.rig.microphone.pace == "fast")
        self._block = max(1, round(scene.rig.microphone.block_ms * RATE_HZ / 1000))

    def open(self) -> AudioInfo:
        """What this microphone is."""
        rig = self._scene.rig
        return AudioInfo(
            name="virtual room",
            backend="virtual",
            rate_hz=RATE_HZ,
            channels=4,
            format=rig.microphone.format,
            bits=24,
            block_frames=self._block,
            detail={
                "scene": rig.virtual.scene,
                "seed": rig.virtual.seed,
                "rt60_s": rig.virtual.rt60_s,
                "snr_db": rig.virtual.snr_db,
                "drift_ppm": rig.virtual.drift_ppm,
                "av_offset_ms": rig.virtual.av_offset_ms,
            },
        )

    def _run(self, sink: Sink, start_ns: int) -> None:
        scene, virtual = self._scene, self._scene.rig.virtual
        rate = RATE_HZ * (1 + virtual.drift_ppm * 1e-6)
        offset = -virtual.av_offset_ms * RATE_HZ / 1000  # late sound: sample 0 is an earlier scene time
        reader = DriftingReader(virtual.drift_ppm, offset)
        plain = virtual.drift_ppm == 0 and float(offset).is_integer()
        mixer = scene.new_mixer(int(offset) if plain else reader.first_frame)
        noise = np.random.default_rng([virtual.seed, 13])
        total = math.inf if math.isinf(scene.duration_s) else round(scene.duration_s * rate)
        first, seq = 0, 0
        while first < total:
            frames = int(min(self._block, total - first))
            if plain:
                sound = scene.mix(mixer, frames)
            else:
                sound = reader.read(frames, scene.mix(mixer, reader.needs(frames)))
            samples = self._digitise(sound + self._sensor_noise(noise, frames))
            t_ns = start_ns + round(first * 1e9 / rate)
            if not self._wait_until(start_ns + round((first + frames) * 1e9 / rate)):
                return
            sink(AudioBlock(t_ns, seq, first, RATE_HZ, samples, monotonic_ns()))
            first += frames
            seq += 1
        self._ended(sink, start_ns + round(first * 1e9 / rate))

    def _sensor_noise(self, random: np.random.Generator, frames: int) -> NDArray[np.float32]:
        """Noise of four equal capsules after the matrix: Y, Z and X have 4.8 dB more than W."""
        gain = np.array([1.0, *[math.sqrt(3.0)] * 3], np.float32) * np.float32(self._scene.noise_rms)
        return random.standard_normal((frames, 4), np.float32) * gain

    def _digitise(self, foa: NDArray[np.float32]) -> NDArray[np.int32]:
        """AmbiX float to the microphone's format as 24 bit, left-justified in int32."""
        form = self._scene.rig.microphone.format
        if form != "ambix":
            import dsp

            foa = dsp.convert(foa, source="ambix", target=form)
        steps = np.clip(np.rint(foa * np.float32(FULL_SCALE_24)), -FULL_SCALE_24, FULL_SCALE_24 - 1)
        return np.asarray(steps.astype(np.int32) << 8)


class VirtualCamera(_Paced):
    """VideoSource of a scene, drawn by `capture.virtual.picture`."""

    def __init__(self, scene: VirtualScene) -> None:
        super().__init__(scene, "virtual camera", scene.rig.camera.pace == "fast")

    def open(self) -> VideoInfo:
        """What this camera is; draws the room once, so that the first picture is on time."""
        camera = self._scene.rig.camera
        self._painter = self._scene.painter()
        self._painter.draw(self._scene.snapshot(0.0))
        self._scene.truth.led_px = self._painter.led_box()
        return VideoInfo(
            name="virtual room",
            backend="virtual",
            width_px=camera.width_px,
            height_px=camera.height_px,
            fps=camera.fps,
            fourcc="",
            detail={"hfov_deg": camera.hfov_deg, "seed": self._scene.rig.virtual.seed},
        )

    def _run(self, sink: Sink, start_ns: int) -> None:
        from capture.virtual.scene import EXPOSURE_S

        scene, fps = self._scene, self._scene.rig.camera.fps
        total = math.inf if math.isinf(scene.duration_s) else math.ceil(scene.duration_s * fps)
        number, seq, dropped = 0, 0, 0
        while number < total:
            t_ns = start_ns + round(number * 1e9 / fps)
            if not self._wait_until(t_ns + round(EXPOSURE_S / 2 * 1e9)):
                return
            image = self._painter.draw(scene.snapshot(number / fps))
            sink(VideoFrame(t_ns, seq, image, "virtual", dropped))
            seq += 1
            number += 1
            dropped = 0
            if not self._fast:  # as a driver with a few buffers: held up for longer, it loses pictures
                late = int((monotonic_ns() - start_ns) / 1e9 * fps) - number
                if late > BACKLOG_SECONDS * fps:
                    dropped = int(min(late, total - number))
                    number += dropped
        self._ended(sink, start_ns + round(number * 1e9 / fps))
