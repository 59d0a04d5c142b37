"""Sound on the session's clock: clicks at known true times, through drift and gaps; identity when clean."""

from __future__ import annotations

import json

import numpy as np
import pytest

from bench.device_clock import BLOCK, FS, START_NS, Device, Lost, deliver
from bench.device_episode import clicks, heard, record
from dsp.errors import InputError
from recordings.audio_file import open_audio
from recordings.export_audio import export_audio


@pytest.mark.parametrize(("ppm", "rate"), [(100.0, 48000), (-100.0, 24000)])
def test_clicks_are_at_their_true_times_through_drift_and_a_gap(tmp_path, ppm, rate):
    losses = (Lost(15 * FS, 4321, False), Lost(30 * FS, 1000, True))
    delivery = deliver(
        np.random.default_rng(11), 45, Device(ppm, 1.5), "uniform", batch=2, losses=losses, late_start_s=0.4
    )
    true = np.arange(2.05, 44, 1.0) + np.random.default_rng(1).uniform(0, 0.5, 42)
    samples = clicks(delivery, true, len(delivery.arrival_ns) * BLOCK)
    episode = record(tmp_path, delivery, samples)
    assert [gap["lost_frames"] for gap in episode.checks["clocks"]["gaps"]] == pytest.approx(
        [4321, 1000], abs=10
    )
    out = tmp_path / "out.wav"
    made = export_audio(episode, out, rate_hz=rate)
    sound = open_audio(out)
    assert (sound.rate, sound.bits, sound.frames, made.clipped) == (rate, 24, made.frames, 0)
    told = json.loads(made.sidecar.read_text())
    assert [gap["lost_frames"] for gap in told["gaps"]] == pytest.approx([4321, 1000], abs=10)
    y = sound.read()[:, 0]
    gap = told["gaps"][0]
    assert not y[gap["before_frame"] - gap["zeros"] : gap["before_frame"]].any()
    assert gap["zeros"] == pytest.approx(4321 * rate / FS, abs=12)
    inside = [t for t in true if all(abs(t - delivery.true_ns(x.place) * 1e-9) > 0.5 for x in losses)]
    error = heard(y, rate, (told["t0_ns"] - START_NS) * 1e-9, np.array(inside)) - inside
    assert np.abs(error).max() < 1e-3
    assert abs(np.polyfit(inside, error, 1)[0]) < 20e-6  # of 100


def test_a_clean_take_is_copied_bit_for_bit(tmp_path):
    delivery = deliver(np.random.default_rng(0), 5, Device(), "none")
    samples = np.random.default_rng(3).integers(-(2**23), 2**23, (5 * FS, 2)).astype(np.int32) << 8
    episode = record(tmp_path, delivery, samples)
    made = export_audio(episode, tmp_path / "a.wav")
    assert made.resampled is False and made.frames == len(samples)
    np.testing.assert_array_equal(open_audio(tmp_path / "a.wav").read(), episode.audio(FS))


def test_on_the_devices_clock_samples_stay_and_the_map_is_beside_them(tmp_path):
    delivery = deliver(
        np.random.default_rng(2), 20, Device(80.0), "exponential", losses=(Lost(10 * FS, 960, True),)
    )
    samples = np.random.default_rng(4).integers(-(2**23), 2**23, (20 * FS, 1)).astype(np.int32) << 8
    episode = record(tmp_path, delivery, samples)
    made = export_audio(episode, tmp_path / "a.wav", "device")
    np.testing.assert_array_equal(open_audio(tmp_path / "a.wav").read(), episode.audio(FS))
    told = made.description
    assert told["map"][-1]["file_frame"] == 10 * FS and told["gaps"][0]["lost_frames"] == pytest.approx(
        960, abs=10
    )
    true = delivery.device.time_s(np.array([10 * FS + 960])) * 1e9 + START_NS
    assert abs(told["map"][-1]["t_ns"] - true[0]) < 1e6
    before = sorted(p.name for p in episode.path.rglob("*"))
    with pytest.raises(InputError, match="exists already"):
        export_audio(episode, tmp_path / "a.wav")
    with pytest.raises(InputError, match="never changes"):
        export_audio(episode, episode.path / "b.wav")
    with pytest.raises(InputError, match="stay as they are"):
        export_audio(episode, tmp_path / "c.wav", "device", 24000)
    assert sorted(p.name for p in episode.path.rglob("*")) == before and episode.verify().ok
