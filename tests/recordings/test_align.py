"""Recordings are found in each other by content: simulated truths that are exact, AAC, real rooms."""

from __future__ import annotations

import json
import os
from fractions import Fraction
from functools import lru_cache
from pathlib import Path

import av
import numpy as np
import pytest
import soundfile
from scipy.signal import butter, fftconvolve, resample, resample_poly, sosfilt
from typer.testing import CliRunner

import dsp
from dsp.errors import InputError
from hearth import app
from recordings import import_take
from recordings.align import align_recordings
from recordings.sound_track import SoundTrack

FS = 16000
REPOSITORY = Path(__file__).resolve().parents[2]
SHARED = Path(os.environ.get("HEARTH_SHARED_DATA", REPOSITORY.parent / "shared" / "data"))


@lru_cache(maxsize=1)
def clips():
    files = sorted((REPOSITORY / "capture/virtual/speech").glob("*.flac"))
    return [resample_poly(soundfile.read(path)[0], 2, 3) for path in files]


def talk(seconds, seed=0, fs=FS):
    """People talking with pauses; every sentence at a speed of its own, so that none comes twice."""
    rng = np.random.default_rng(seed)
    out = np.zeros(round(seconds * FS))
    at = 0
    while at < len(out):
        x = clips()[rng.integers(len(clips()))]
        x = np.interp(np.arange(0, len(x), rng.uniform(0.8, 1.25)), np.arange(len(x)), x)
        stop = min(at + len(x), len(out))
        out[at:stop] = x[: stop - at]
        at = stop + round(rng.uniform(0.1, 1.0) * FS)
    out *= 0.1 / out.std()
    return out if fs == FS else resample_poly(out, fs, FS)


def microphone(x, seed, snr_db=20.0, band=(150, 5000), fs=FS):
    """A band, a level, a weak reverberation and a noise of its own."""
    rng = np.random.default_rng(seed)
    tail = rng.standard_normal(round(0.15 * fs)) * np.exp(-np.arange(round(0.15 * fs)) / (0.04 * fs))
    tail *= 0.5 / np.linalg.norm(tail)
    tail[: round(0.004 * fs)] = 0
    tail[0] = 1.0
    y = fftconvolve(x, tail)[: len(x)]
    y = y + y.std() * 10 ** (-snr_db / 20) * rng.standard_normal(len(x))
    return sosfilt(butter(2, band, "bandpass", fs=fs, output="sos"), y) * rng.uniform(0.1, 1.0)


def other_clock(x, ppm):
    """(the same sound by a clock that is fast, its exact drift in ppm): band-limited, by FFT."""
    frames = round(len(x) * (1 + ppm * 1e-6))
    return resample(x, frames), (frames / len(x) - 1) * 1e6


@pytest.mark.parametrize(("ppm", "start", "snr_db"), [(0, 7.25, 25), (180, -11.5, 10), (-200, 3.0, 0)])
def test_start_and_drift_of_a_simulated_pair(ppm, start, snr_db):
    dry = talk(60)
    a = dry[round(max(-start, 0) * FS) :][: 45 * FS]
    b = dry[round(max(start, 0) * FS) :][: 42 * FS]
    b, true_ppm = other_clock(microphone(b, 2, snr_db, (300, 4000)), ppm)
    found = align_recordings(microphone(a, 1, snr_db), b, FS)
    assert found.verdict == "aligned", found.text
    assert found.runner_up_ratio < 0.6 and found.windows_used >= found.windows // 2
    assert abs(found.drift_ppm - true_ppm) < max(4 * found.drift_sigma_ppm, 2.0)
    assert found.drift_sigma_ppm < 10
    middle = 20.0
    error = found.reference_time(middle) - (start + middle / (1 + true_ppm * 1e-6))
    assert abs(error) < 3e-4  # the microphones' own filters delay by a part of that


def test_exchanging_the_recordings_turns_the_answer_round():
    dry = talk(50, 3)
    a = microphone(dry[: 40 * FS], 1)
    b, _ = other_clock(microphone(dry[8 * FS :], 2), 120)
    there, back = align_recordings(a, b, FS), align_recordings(b, a, FS)
    assert there.verdict == back.verdict == "aligned"
    times = np.array([2.0, 20.0])
    np.testing.assert_allclose(back.reference_time(there.reference_time(times)), times, atol=1e-4)
    assert there.offset_s > 0 > back.offset_s and there.drift_ppm > 0 > back.drift_ppm


def test_async_resampler_and_two_rates():
    """A clock made by our own steering resampler, 48 kHz against 44.1 kHz, four channels against one."""
    dry = talk(45, 4, 48000)
    a = microphone(dry, 1, fs=48000)
    late = microphone(dry[5 * 48000 :], 2, fs=48000).astype(np.float32)
    clock = dsp.AsyncResampler(48000, 44100, 1, ppm=-150.0)  # fewer read per output: the output runs fast
    b = np.concatenate([clock.push(late[:, None]), clock.flush()])[:, 0]
    b = b[round(clock.delay_s * 44100) :]
    four = np.stack([a, *np.random.default_rng(0).standard_normal((3, len(a)))], axis=1)
    found = align_recordings(four, b, 48000, 44100)
    assert found.verdict == "aligned", found.text
    assert abs(found.drift_ppm - 150) < 3 and abs(found.offset_s - 5) < 1e-3


def test_a_clip_of_seconds_in_a_long_recording():
    dry = talk(300, 5)
    start = 231.3
    a = microphone(dry, 1, 15)
    b = microphone(dry[round(start * FS) :][: 12 * FS], 2, 15)
    found = align_recordings(a, b, FS)
    assert found.verdict == "aligned" and abs(found.offset_s - start) < 5e-4


@pytest.mark.parametrize("seed", range(3))
def test_recordings_without_common_sound_fail(seed):
    a, b = microphone(talk(60, 10 + seed), 1), microphone(talk(50, 20 + seed), 2)
    found = align_recordings(a, b, FS)
    assert found.verdict == "failed" and found.offset_s is None
    with pytest.raises(InputError, match="not aligned"):
        found.reference_time(0.0)


def test_consecutive_recordings_do_not_overlap():
    dry = talk(90, 6)
    found = align_recordings(microphone(dry[: 45 * FS], 1), microphone(dry[45 * FS :], 2), FS)
    assert found.verdict == "failed"


def hum(seconds, fs=FS):
    t = np.arange(round(seconds * fs)) / fs
    return sum(np.sin(2 * np.pi * 50 * k * t + k) / k for k in (1, 2, 3, 4, 6))


def beep(seconds, period=1.0, fs=FS):
    t = np.arange(round(seconds * fs)) / fs
    return np.sin(2 * np.pi * 2000 * t) * (t % period < 0.15)


def test_sound_that_repeats_itself_is_ambiguous():
    loop = np.tile(talk(4, 7), 15)
    for x in (beep(60), loop, hum(60)):
        rng = np.random.default_rng(1)
        a = x + 0.02 * x.std() * rng.standard_normal(len(x))
        b = (x + 0.02 * x.std() * rng.standard_normal(len(x)))[round(3.21 * FS) : 50 * FS]
        found = align_recordings(a, b, FS)
        assert found.verdict == "ambiguous", found.text
        assert found.runner_up_ratio > 0.75 and found.offset_s is None


def test_speech_over_a_beep_is_no_longer_ambiguous():
    dry = talk(60, 8) + 0.05 * beep(60)
    found = align_recordings(microphone(dry, 1), microphone(dry[round(4.4 * FS) :], 2), FS)
    assert found.verdict == "aligned" and abs(found.offset_s - 4.4) < 5e-4


@pytest.mark.parametrize("x", [np.zeros(20 * FS), np.random.default_rng(0).standard_normal(20 * FS)])
def test_silence_and_noise_give_no_answer(x):
    assert align_recordings(x, talk(20, 9), FS).verdict == "failed"
    assert align_recordings(x, np.zeros(20 * FS), FS).verdict == "failed"


def test_too_short_and_wrong_arguments():
    assert align_recordings(talk(2), talk(20), FS).verdict == "failed"
    with pytest.raises(InputError, match="rate in Hz"):
        align_recordings(talk(5), talk(5))
    with pytest.raises(InputError, match="max_drift_ppm"):
        align_recordings(talk(5), talk(5), FS, max_drift_ppm=-1)


def camera_file(path, x, rate, seconds, sound_late_s=0.0, codec="aac"):
    """A video at 25 frames per second with a sound track that starts `sound_late_s` after the pictures."""
    with av.open(str(path), "w") as container:
        video = container.add_stream("libx264", rate=25)
        video.width, video.height, video.pix_fmt = 64, 48, "yuv420p"
        sound = container.add_stream(codec, rate=rate, layout="mono")
        for i in range(round(seconds * 25)):
            image = av.VideoFrame.from_ndarray(np.full((48, 64, 3), i % 200, np.uint8), format="rgb24")
            image = image.reformat(format="yuv420p")
            image.pts, image.time_base = i, Fraction(1, 25)
            container.mux(video.encode(image))
        container.mux(video.encode(None))
        for start in range(0, len(x), 1024):
            frame = av.AudioFrame.from_ndarray(
                np.ascontiguousarray(x[None, start : start + 1024], np.float32), format="fltp", layout="mono"
            )
            frame.sample_rate, frame.time_base = rate, Fraction(1, rate)
            frame.pts = start + round(sound_late_s * rate)
            container.mux(sound.encode(frame))
        container.mux(sound.encode(None))
    return path


@pytest.mark.parametrize("suffix", [".mp4", ".mkv"])
def test_import_places_the_pictures_by_the_cameras_own_sound(tmp_path, suffix):
    rate, start, late = 48000, 2.6, 0.4
    dry = talk(24, 11, rate)
    take = dsp.encode(microphone(dry, 1, fs=rate).astype(np.float32), 30.0, 0.0)
    soundfile.write(tmp_path / "take.wav", 0.5 * take / np.abs(take).max(), rate, subtype="PCM_24")
    heard, ppm = other_clock(microphone(dry[round(start * rate) :], 2, fs=rate), 90)
    video = camera_file(tmp_path / f"cam{suffix}", heard, rate, 20, sound_late_s=late)
    episode = import_take(tmp_path / "take.wav", video, tmp_path / "data", "ambix", report=False)
    about = episode.profile.source["video"]
    assert about["alignment"] == "measured", about
    # The first picture was `late` before the camera's first sound, by the camera's clock.
    assert abs(about["offset_s"] - (start - late / (1 + ppm * 1e-6))) < 1e-3
    assert abs(about["drift_ppm"] - ppm) < 10
    times = episode.frame_times() * 1e-9
    true = start + (np.arange(len(times)) / 25 - late) / (1 + ppm * 1e-6)
    assert np.abs(times - true).max() < 1e-3
    assert episode.verify().ok, episode.verify().problems


def test_import_invents_nothing_when_the_sounds_do_not_fit(tmp_path):
    rate = 48000
    take = dsp.encode(microphone(talk(8, 12, rate), 1, fs=rate).astype(np.float32), 30.0, 0.0)
    soundfile.write(tmp_path / "take.wav", 0.5 * take / np.abs(take).max(), rate, subtype="PCM_24")
    video = camera_file(tmp_path / "cam.mp4", microphone(talk(8, 13, rate), 2, fs=rate), rate, 8)
    args = [
        "import",
        str(tmp_path / "take.wav"),
        str(video),
        "--format",
        "ambix",
        "--into",
        str(tmp_path / "d"),
    ]
    done = CliRunner().invoke(app, [*args, "--no-report", "--json"])
    told = json.loads(done.stdout)
    assert told["video_alignment"] == "unknown" and told["video_offset_s"] is None


def test_the_command_says_it_in_json_and_by_its_exit_code(tmp_path):
    dry = talk(40, 14)
    soundfile.write(tmp_path / "a.wav", microphone(dry, 1), FS)
    soundfile.write(tmp_path / "b.flac", microphone(dry[6 * FS :], 2), FS)
    soundfile.write(tmp_path / "c.wav", microphone(talk(30, 15), 2), FS)
    done = CliRunner().invoke(app, ["align", str(tmp_path / "a.wav"), str(tmp_path / "b.flac"), "--json"])
    found = json.loads(done.stdout)
    assert done.exit_code == 0 and found["verdict"] == "aligned" and abs(found["offset_s"] - 6) < 1e-3
    done = CliRunner().invoke(app, ["align", str(tmp_path / "a.wav"), str(tmp_path / "c.wav"), "--json"])
    assert done.exit_code == 1 and json.loads(done.stdout)["verdict"] == "failed"


def test_a_sound_track_is_placed_by_its_stamps(tmp_path):
    x = talk(6, 16)
    path = camera_file(tmp_path / "cam.mkv", x, FS, 6, sound_late_s=0.3, codec="flac")
    with SoundTrack(path, 0) as track:
        assert track.rate == FS and abs(track.start_s - 0.3) < 1e-3
        y = track.read(1000, 5000)[:, 0]
    np.testing.assert_allclose(y, np.clip(x[1000:6000], -1, 1), atol=1e-3)


def test_real_capsules_of_one_array_in_a_real_room():
    """A real talker in a real room: two capsules some cm apart, cut to another start and another clock."""
    found = sorted((SHARED / "foa" / "respeaker4-labelled").rglob("*.wav"))
    if not found:
        pytest.skip("the shared ReSpeaker recordings are not here")
    checked = 0
    for path in found:
        x, fs = soundfile.read(path)
        if len(x) < 5 * fs or x.shape[1] < 4:
            continue
        b, ppm = other_clock(x[round(0.8 * fs) :, 2], 100)
        answer = align_recordings(x[:, 0], b, fs)
        assert answer.verdict == "aligned", (path.name, answer.text)
        middle = len(b) / fs / 2
        true = 0.8 + middle / (1 + ppm * 1e-6)
        assert abs(answer.reference_time(middle) - true) < 3e-4  # 65 mm between the capsules: 0.19 ms
        checked += 1
    if not checked:
        pytest.skip("no shared recording is long enough")
