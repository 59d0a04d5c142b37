"""A/V offset: signals written by formula with a known offset, and the virtual room's slate."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from numpy.typing import NDArray

from capture.blocks import AudioBlock, Item, SourceEvent, VideoFrame
from capture.rig import DEFAULT_RIG, load_rig
from capture.sources import open_rig
from capture.take import new_profile, record
from dsp.errors import InputError
from recordings import Episode, repair
from recordings.av_offset import AvOffset, SlateWatch, estimate_av_offset, offset_of
from recordings.marker import mark_failed

FS, FPS = 48000, 30.0
T0 = 7_000_000_000_000


def slate(
    offset_ms: float, at_s: list[float], *, seconds: float = 10.0, noise: float = 0.01, seed: int = 0
) -> tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.float64]]:
    """Beeps of 100 ms at 1900 Hz begin offset_ms after flashes of 100 ms; a picture is lit when the flash
    is on at its time. A second, unrelated tone beeps elsewhere; the picture's brightness wanders."""
    random = np.random.default_rng(seed)
    n = round(seconds * FS)
    t = np.arange(n) / FS
    sound = noise * random.standard_normal(n)
    for begin in at_s:
        on = (t >= begin + offset_ms / 1e3) & (t < begin + offset_ms / 1e3 + 0.1)
        sound[on] += 0.3 * np.sin(2 * np.pi * 1900 * t[on])
    for begin in np.arange(0.33, seconds, 1.7):
        on = (t >= begin) & (t < begin + 0.2)
        sound[on] += 0.2 * np.sin(2 * np.pi * 3100 * t[on])
    frames = np.arange(round(seconds * FPS)) / FPS
    lit = np.zeros(len(frames))
    for begin in at_s:
        lit += (frames >= begin) & (frames < begin + 0.1)
    walk = 80 + np.cumsum(random.normal(0, 0.3, len(frames)))
    cells = np.stack([walk, walk + 100 * lit, 120 + random.normal(0, 1, len(frames))], axis=1)
    return sound, T0 + np.round(frames * 1e9).astype(np.int64), cells


@pytest.mark.parametrize("offset_ms", [-120.0, -18.0, 0.0, 7.5, 90.0])
def test_known_offset_is_found_within_its_uncertainty(offset_ms: float) -> None:
    at = [0.7, 1.913, 3.377, 4.851, 6.29, 7.744]
    sound, times, cells = slate(offset_ms, at)
    found = estimate_av_offset(sound, FS, T0, times, cells)
    assert found.events == len(at)
    assert abs(found.offset_ms - offset_ms) < 3 * found.sigma_ms
    assert found.sigma_ms < 1000 / FPS / np.sqrt(12)  # several events beat one frame's limit


def test_one_brightness_value_per_picture_is_enough() -> None:
    sound, times, cells = slate(25, [1.0, 2.517, 4.033])
    found = estimate_av_offset(sound, FS, T0, times, cells[:, 1])
    assert abs(found.offset_ms - 25) < 3 * found.sigma_ms


def test_way_of_the_sound_is_taken_out() -> None:
    sound, times, cells = slate(20, [1.0, 2.517, 4.033])
    near = estimate_av_offset(sound, FS, T0, times, cells)
    far = estimate_av_offset(sound, FS, T0, times, cells, distance_m=3.43)
    assert near.offset_ms - far.offset_ms == pytest.approx(10, abs=0.01)


def test_too_few_events_are_refused() -> None:
    sound, times, cells = slate(0, [2.0])
    with pytest.raises(InputError, match="found 1 flash and beep pair"):
        estimate_av_offset(sound, FS, T0, times, cells)


def test_no_slate_is_refused() -> None:
    sound, times, cells = slate(0, [])
    with pytest.raises(InputError, match="found 0 flash"):
        estimate_av_offset(sound, FS, T0, times, cells)


def test_beeps_without_a_common_offset_are_refused() -> None:
    """Six flashes, six beeps, but each pair with another offset: there is no answer."""
    at = [1.0, 2.5, 4.0, 5.5, 7.0, 8.5]
    _, times, cells = slate(0, at)
    sound = np.zeros(10 * FS)
    for begin, off in zip(at, [-0.4, -0.25, -0.1, 0.08, 0.22, 0.37], strict=True):
        sound += slate(off * 1e3, [begin], noise=0.0)[0]
    with pytest.raises(InputError, match=r"no flashes and beeps that agree"):
        estimate_av_offset(sound, FS, T0, times, cells)


def test_wrong_shapes_are_named() -> None:
    with pytest.raises(InputError, match="one brightness row per picture"):
        estimate_av_offset(np.zeros(1000), FS, T0, np.zeros(5, np.int64), np.zeros(4))


def virtual_offset(seed: int, av_offset_ms: float) -> AvOffset:
    rig: Any = load_rig(DEFAULT_RIG)
    rig = msgspec.structs.replace(
        rig,
        virtual=msgspec.structs.replace(rig.virtual, seed=seed, av_offset_ms=av_offset_ms),
        microphone=msgspec.structs.replace(rig.microphone, pace="fast"),
        camera=msgspec.structs.replace(rig.camera, pace="fast"),
    )
    with open_rig(rig) as opened:
        watch = SlateWatch(FS, opened.audio_info.format)
        heard, seen = threading.Event(), threading.Event()

        # The slate is over within two seconds; the rest of the scene is not needed.
        def audio(item: Item) -> None:
            if isinstance(item, AudioBlock) and item.first_frame < 2 * FS:
                watch.audio(item.t_ns, item.first_frame, item.samples)
            elif isinstance(item, AudioBlock | SourceEvent):
                heard.set()

        def video(item: Item) -> None:
            if isinstance(item, VideoFrame) and item.seq < 30:
                watch.frame(item.t_ns, item.image)
            else:
                seen.set()

        opened.start(audio, video)
        assert heard.wait(60) and seen.wait(60)
        opened.stop()
    return watch.estimate()


@pytest.mark.parametrize(("seed", "offset_ms"), [(0, 0.0), (1, 40.0), (2, -25.0)])
def test_slate_of_the_virtual_room(seed: int, offset_ms: float) -> None:
    found = virtual_offset(seed, offset_ms)
    assert found.events == 2
    assert abs(found.offset_ms - offset_ms) < 3 * found.sigma_ms
    assert found.sigma_ms < 8  # beginnings and ends: a quarter of a frame


def test_an_episode_tells_its_offset_again_and_after_a_repair(tmp_path: Path) -> None:
    """From disk as while recording; a cut-off episode that is repaired has it as well."""
    rig: Any = load_rig(DEFAULT_RIG)
    rig = msgspec.structs.replace(
        rig,
        virtual=msgspec.structs.replace(rig.virtual, av_offset_ms=60.0),
        microphone=msgspec.structs.replace(rig.microphone, pace="fast"),
        camera=msgspec.structs.replace(rig.camera, pace="fast"),
    )
    with open_rig(rig) as opened:
        recording = record(rig, opened, new_profile(rig, opened, "s"), seconds=2.0, root=tmp_path)
    live = recording.av_offset
    assert live is not None and abs(live.offset_ms - 60.0) < 3 * live.sigma_ms
    assert abs(offset_of(recording.episode).offset_ms - live.offset_ms) < 0.1
    for name in ("manifest.json", "checks.json"):
        (recording.path / name).unlink()
    mark_failed(recording.path, "test")
    done = repair(recording.path, report=False)
    assert done.ok and any("sound against picture: +" in action for action in done.actions)
    after = Episode.open(recording.path).checks["av_offset"]
    assert abs(after["offset_ms"] - live.offset_ms) < 0.1 and after["events"] == live.events
