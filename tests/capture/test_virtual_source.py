"""The virtual microphone and camera as sources: blocks, stamps, noise, drift, offset, formats, the end."""

from __future__ import annotations

import threading
import time
from functools import lru_cache

import msgspec
import numpy as np
import pytest

import dsp
from capture.blocks import AudioBlock, SourceEvent, VideoFrame, monotonic_ns
from capture.rig import Rig, load_rig
from capture.virtual import build_scene
from capture.virtual.mixing import DriftingReader

FS = 48000
FULL_RIG = load_rig(None)
# Two lamps, two fans and the washer: enough for both kinds of requests, and quicker to render.
KEPT = ("on_off_light", "fan", "laundry_washer")
RIG = msgspec.structs.replace(
    FULL_RIG,
    room=msgspec.structs.replace(
        FULL_RIG.room, devices=tuple(d for d in FULL_RIG.room.devices if d.type in KEPT)
    ),
)


def rig_with(microphone: dict | None = None, camera: dict | None = None, **virtual: object) -> Rig:
    replace = msgspec.structs.replace
    return replace(
        RIG,
        virtual=replace(RIG.virtual, **{"rt60_s": 0.0, **virtual}),
        microphone=replace(RIG.microphone, **(microphone or {})),
        camera=replace(RIG.camera, **(camera or {})),
    )


def take(source) -> tuple[list, SourceEvent]:
    """Everything that a finite fast source delivers."""
    items: list = []
    over = threading.Event()

    def sink(item) -> None:
        items.append(item)
        if isinstance(item, SourceEvent):
            over.set()

    source.open()
    source.start(sink)
    assert over.wait(60)
    source.stop()
    source.close()
    return items[:-1], items[-1]


@lru_cache(maxsize=2)
def plain(seed: int) -> tuple[np.ndarray, list[AudioBlock], object]:
    """An anechoic scene with little noise, recorded once."""
    return record(seed=seed, snr_db=80.0)


def record(microphone: dict | None = None, **virtual: object) -> tuple[np.ndarray, list[AudioBlock], object]:
    scene = build_scene(rig_with({"pace": "fast", **(microphone or {})}, **virtual))
    blocks, end = take(scene.microphone())
    assert end.kind == "ended"
    return np.concatenate([b.samples for b in blocks]), blocks, scene


def test_blocks_are_gapless_24_bit_and_end_with_an_event():
    samples, blocks, scene = record(seed=0)
    assert samples.dtype == np.int32 and samples.shape == (round(scene.duration_s * FS), 4)
    assert not np.any(samples & 0xFF)  # 24 bit, left-justified
    assert [b.seq for b in blocks] == list(range(len(blocks)))
    assert [b.first_frame for b in blocks] == [480 * k for k in range(len(blocks))]
    steps = np.diff([b.t_ns for b in blocks])
    assert np.all(np.abs(steps - 10_000_000) <= 1)
    assert blocks[0].t_ns == scene.truth.start_ns
    assert np.abs(samples).max() < 2**30  # 6 dB of headroom


def test_block_length_does_not_change_the_sound():
    one, _, _ = plain(1)
    other, _, _ = record({"block_ms": 23.0}, seed=1, snr_db=80.0)
    np.testing.assert_allclose(one, other, atol=2**9)


def test_sensor_noise_has_the_level_asked():
    samples, _, _ = record(seed=0, snr_db=40.0)
    # Between the slate and the device's onset there is noise alone: capsule noise, so Y, Z, X 4.8 dB above W.
    quiet = samples[round(1.3 * FS) : round(1.58 * FS)] * 2.0**-31
    level = 20 * np.log10(np.sqrt(np.mean(quiet.astype(float) ** 2, axis=0)))
    np.testing.assert_allclose(level, -26 - 40 + np.array([0, 4.77, 4.77, 4.77]), atol=0.5)


@pytest.mark.parametrize("form", ["fuma", "n3d", "a"])
def test_other_formats_are_the_same_sound(form):
    ambix, _, _ = plain(1)
    other, _, scene = record({"format": form}, seed=1, snr_db=80.0)
    assert scene.microphone().open().format == form
    back = dsp.convert((other * 2.0**-31).astype(np.float32), source=form, target="ambix")
    np.testing.assert_allclose(back, ambix * 2.0**-31, atol=4 * 2.0**-23)


def first_beep(samples: np.ndarray, rate: float = FS) -> float:
    """Time of the first beep's onset: where the level first passes half of the beep's."""
    level = np.abs(samples[:, 0] * 2.0**-31)
    return float(np.flatnonzero(level > 0.5 * level[: round(0.6 * FS)].max())[0] / rate)


@pytest.mark.parametrize("offset_ms", [40.0, -25.0, 0.3])
def test_av_offset_makes_the_sound_late_against_the_picture(offset_ms):
    straight, _, scene = plain(1)
    moved, _, _ = record(seed=1, snr_db=80.0, av_offset_ms=offset_ms)
    assert first_beep(moved) - first_beep(straight) == pytest.approx(offset_ms / 1000, abs=5e-5)
    assert first_beep(straight) == pytest.approx(
        scene.truth.source("slate").active(5.0)[0][0], abs=1e-3
    )  # the beep rises for 1 ms


def test_drift_moves_stamps_and_content_alike():
    nominal, _, _ = plain(1)
    fast, blocks, scene = record(seed=1, snr_db=80.0, drift_ppm=500.0)
    rate = FS * (1 + 500e-6)
    assert len(fast) == round(scene.duration_s * rate)
    stamps = np.array([b.t_ns for b in blocks]) - blocks[0].t_ns
    frames = np.array([b.first_frame for b in blocks])
    assert np.polyfit(frames, stamps, 1)[0] == pytest.approx(1e9 / rate, rel=1e-9)
    # By its own stamps the sound is where it is without drift: the talker's waveform, 6 s into the scene.
    place = round(4.6 * FS) + np.arange(FS // 4)
    straight = nominal[place, 0].astype(float)
    bent = np.interp(place / FS, np.arange(len(fast)) / rate, fast[:, 0].astype(float))
    assert np.corrcoef(straight, bent)[0, 1] > 0.98  # linear interpolation costs some treble
    late = np.interp(place / FS, np.arange(len(fast)) / FS, fast[:, 0].astype(float))
    assert np.corrcoef(straight, late)[0, 1] < 0.9  # 2.3 ms off without the drift


def test_the_drifting_reader_interpolates_a_tone_exactly():
    frequency, frames = 3000.0, 4800
    reader = DriftingReader(-800.0, 12.25)
    out = []
    position = reader.first_frame
    for _ in range(10):
        need = reader.needs(frames // 10)
        time = (position + np.arange(need)) / FS
        out.append(
            reader.read(
                frames // 10, np.repeat(np.sin(2 * np.pi * frequency * time)[:, None], 4, 1).astype("f4")
            )
        )
        position += need
    true = np.sin(2 * np.pi * frequency * (12.25 + np.arange(frames) / (1 - 800e-6)) / FS)
    np.testing.assert_allclose(np.concatenate(out)[:, 2], true, atol=2e-4)


def test_real_time_sources_share_one_start_and_keep_to_it():
    scene = build_scene(rig_with(seed=1))
    microphone, camera = scene.microphone(), scene.camera()
    sound: list = []
    pictures: list = []
    microphone.open()
    camera.open()
    began = monotonic_ns()
    microphone.start(sound.append)
    camera.start(pictures.append)
    time.sleep(1.5)
    microphone.stop()
    camera.stop()
    counts = len(sound), len(pictures)
    time.sleep(0.1)
    assert (len(sound), len(pictures)) == counts  # silent after stop
    blocks = [b for b in sound if isinstance(b, AudioBlock)]
    frames = [f for f in pictures if isinstance(f, VideoFrame)]
    assert blocks[0].t_ns == frames[0].t_ns == scene.truth.start_ns
    assert began < blocks[0].t_ns < began + 100_000_000
    assert len(blocks) > 50 and len(frames) > 5
    # No block before its last sample was taken, no picture before its exposure was over.
    assert all(b.t_observed_ns >= b.t_ns + 10_000_000 for b in blocks)
    stamps = np.array([f.t_ns for f in frames]) - frames[0].t_ns
    places = stamps * 15 / 1e9
    np.testing.assert_allclose(places, np.round(places), atol=1e-6)
    # A source that is started again gets a new start time.
    microphone.start(sound.append)
    assert scene.truth.start_ns > blocks[-1].t_ns
    microphone.stop()


def test_a_request_scene_ends_the_camera_too():
    scene = build_scene(rig_with(camera={"pace": "fast", "width_px": 160, "height_px": 90}, seed=1))
    frames, end = take(scene.camera())
    assert end.kind == "ended" and len(frames) == int(np.ceil(scene.duration_s * 15))
    assert [f.seq for f in frames] == list(range(len(frames)))
    assert all(f.dropped == 0 for f in frames)
    assert frames[0].image.shape == (90, 160, 3) and frames[0].image.dtype == np.uint8
