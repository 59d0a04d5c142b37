"""The talkers that were followed, in an episode and on its page."""

from __future__ import annotations

import re

import numpy as np

import dsp
from recordings import import_take
from recordings.wav_write import WavWriter


def test_tracks_are_in_the_episode_and_on_its_page(tmp_path):
    """Bursts of noise from the left, then from the right, for two seconds each."""
    rng = np.random.default_rng(3)
    gate = (np.arange(2 * 48000) / 48000 * 5 % 1 < 0.5).astype(np.float64)
    sides = [dsp.encode(0.2 * gate * rng.standard_normal(2 * 48000), a, 0.0) for a in (70.0, -60.0)]
    writer = WavWriter(tmp_path / "two.wav", 48000, 4, sample_type="float", format_name="ambix")
    writer.write(np.concatenate(sides) + 1e-3 * rng.standard_normal((4 * 48000, 4)).astype(np.float32))
    writer.close()
    episode = import_take(tmp_path / "two.wav", None, tmp_path / "data")
    left, right = episode.tracks()
    assert abs(left.azimuth_deg[~left.coasting][-1] - 70) < 5
    assert abs(right.azimuth_deg[~right.coasting][-1] + 60) < 5
    assert left.times_s[~left.coasting].max() < 2.6 and right.times_s.min() > 2.0
    # Equal to the library on the release form.
    frames = dsp.track_sources(episode.audio(), 24000)
    assert len(left.times_s) == sum(any(t.id == left.number for t in frame.tracks) for frame in frames)
    page = (episode.path / "report.html").read_text()
    assert re.findall(r'class="talker-number"[^>]*>(\d+)<', page) == [str(left.number), str(right.number)]
    assert page.count('class="tracked heard"') == 4  # two talkers, azimuth and elevation
    assert "tracked talker, with the number" in page
