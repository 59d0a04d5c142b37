"""The live chain on its own: times, formats, gaps and directions come out as they went in."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import dsp
from capture.blocks import AudioBlock, AudioInfo
from dsp.errors import InputError
from dsp.foa_correction import FoaCorrection
from edge.latency_budget import StageTimes
from edge.live_chain import AudioChain, SampleTimes
from edge.stream import Client, Publisher

START_NS = 1_000_000_000_000


def info_of(rate_hz: int = 48000, format: str = "ambix", channels: int = 4) -> AudioInfo:
    return AudioInfo("test", "test", rate_hz, channels, format, 24, 480)


def to_int32(x: np.ndarray) -> np.ndarray:
    return (
        np.clip(x.astype(np.float64) * 2.0**31, -(2.0**31), 2.0**31 - 256).astype(np.int64).astype(np.int32)
    )


def blocks_of(x: np.ndarray, rate_hz: int, size: int, drift_ppm: float = 0.0, gaps=()) -> list[AudioBlock]:
    """Cut (frames, 4) float into blocks; gaps: (first, count) frames that the device lost."""
    true_rate = rate_hz * (1 + drift_ppm * 1e-6)
    edges = sorted({*range(0, len(x), size), len(x), *(edge for f, n in gaps for edge in (f, f + n))})
    out: list[AudioBlock] = []
    lost = 0
    for begin, end in itertools.pairwise(edges):
        if any(f <= begin < f + n for f, n in gaps):
            lost += end - begin
            continue
        t_ns = START_NS + round(begin * 1e9 / true_rate)
        out.append(AudioBlock(t_ns, len(out), begin, rate_hz, to_int32(x[begin:end]), t_ns, lost))
        lost = 0
    return out


def run_chain(
    blocks: list[AudioBlock], info: AudioInfo, correction: FoaCorrection | None = None
) -> tuple[dict[str, list], AudioChain]:
    """Every message that the chain publishes for these blocks, as a subscriber gets them."""
    with Publisher("tcp://127.0.0.1:0") as publisher:
        streams = ("foa24", "doa", "tracks", "activity", "levels", "event")
        with Client(publisher.address, streams=streams) as client:
            client.wait_connected(5)
            chain = AudioChain(publisher, info, correction=correction)
            for block in blocks:
                chain.push(block)
            chain.finish()
            publisher.close()
            got: dict[str, list] = {name: [] for name in streams}
            for message in client.messages(5):
                got[message.stream].append(message)
            assert all(count["lost"] == 0 for count in client.statistics().values())
    return got, chain


def joined(messages: list) -> tuple[np.ndarray, np.ndarray]:
    """Samples of foa24 with the time of each, ns."""
    sound = np.concatenate([m.array for m in messages])
    times = np.concatenate([m.t_ns + np.arange(len(m.array)) * 1e9 / 24000 for m in messages])
    return sound, times


@pytest.mark.parametrize(
    ("rate_hz", "size", "drift_ppm"),
    [(48000, 480, 0), (48000, 333, 0), (44100, 441, 0), (96000, 960, 0), (48000, 480, 300), (48000, 4800, 0)],
)
def test_the_time_of_a_click_is_right(rate_hz: int, size: int, drift_ppm: float) -> None:
    """Every click comes out where it was, to half a sample at 24 kHz, at any rate, block size and drift."""
    clicks = [rate_hz // 20, rate_hz // 3, rate_hz * 2 // 3]
    x = np.zeros((rate_hz, 4), np.float32)
    x[clicks, 0] = 0.5
    got, _ = run_chain(blocks_of(x, rate_hz, size, drift_ppm), info_of(rate_hz))
    sound, times = joined(got["foa24"])
    for click in clicks:
        true_ns = START_NS + click * 1e9 / (rate_hz * (1 + drift_ppm * 1e-6))
        near = np.abs(times - true_ns) < 5e6
        energy = sound[near, 0].astype(np.float64) ** 2
        centre_ns = float(np.sum(energy * times[near]) / np.sum(energy))
        assert abs(centre_ns - true_ns) < 0.5e9 / 24000


@pytest.mark.parametrize(("rate_hz", "size"), [(48000, 480), (44100, 317)])
def test_the_stream_is_the_offline_resampling_in_pieces(rate_hz: int, size: int) -> None:
    rng = np.random.default_rng(3)
    x = (rng.standard_normal((rate_hz // 2, 4)) * 0.1).astype(np.float32)
    blocks = blocks_of(x, rate_hz, size)
    got, chain = run_chain(blocks, info_of(rate_hz))
    sound, times = joined(got["foa24"])
    whole = dsp.resample(np.concatenate([b.samples for b in blocks]), rate_hz, 24000)
    np.testing.assert_array_equal(sound, whole)
    assert np.max(np.abs(times - (START_NS + np.arange(len(sound)) * 1e9 / 24000))) < 2
    numbers = [m.data["first_frame"] for m in got["foa24"]]
    lengths = [len(m.array) for m in got["foa24"]]
    assert numbers == list(np.cumsum([0, *lengths[:-1]]))
    assert chain.blocks == len(blocks) and chain.gaps == 0 and not got["event"]


@pytest.mark.parametrize("late_s", [0.0, 3.4e-4])
def test_a_correction_gives_the_offline_one_on_both_sides_of_a_gap(late_s: float) -> None:
    rng = np.random.default_rng(4)
    matrix = np.eye(4) + 0.2 * rng.standard_normal((4, 4))
    correction = FoaCorrection("fuma", matrix, np.array([0.0, late_s, -late_s, late_s / 3]))
    x = (rng.standard_normal((24000, 4)) * 0.05).astype(np.float32)
    blocks = blocks_of(x, 48000, 480, gaps=[(9600, 4800)])
    got, _ = run_chain(blocks, info_of(format="fuma"), correction)
    sound, times = joined(got["foa24"])
    parts = [blocks[:20], blocks[20:]]
    whole = [
        dsp.resample(correction.apply(np.concatenate([b.as_float() for b in part]), 48000), 48000, 24000)
        for part in parts
    ]
    np.testing.assert_array_equal(sound, np.concatenate(whole))
    true_ns = np.concatenate([np.arange(4800), np.arange(7200, 12000)]) * 1e9 / 24000
    assert np.max(np.abs(times - START_NS - true_ns)) < 2


@pytest.mark.parametrize("format", ["fuma", "n3d", "a", "a2"])
def test_every_format_becomes_ambix(format: str) -> None:
    foa = dsp.encode(np.random.default_rng(5).standard_normal(12000).astype(np.float32) * 0.1, 50.0, 10.0)
    captured = dsp.convert(foa, source="ambix", target=format)
    as_ambix, _ = run_chain(blocks_of(foa, 48000, 480), info_of())
    converted, _ = run_chain(blocks_of(captured, 48000, 480), info_of(format=format))
    difference = joined(converted["foa24"])[0] - joined(as_ambix["foa24"])[0]
    assert np.max(np.abs(difference)) < 1e-5


def test_a_gap_is_told_and_nothing_is_smeared_over_it() -> None:
    rng = np.random.default_rng(8)
    x = (rng.standard_normal((48000, 4)) * 0.1).astype(np.float32)
    gap = (19200 + 240, 4801)  # odd, in the middle of a block
    blocks = blocks_of(x, 48000, 480, gaps=[gap])
    got, chain = run_chain(blocks, info_of())
    assert chain.gaps == 1 and chain.lost_frames == 4801

    (event,) = got["event"]
    assert event.data["kind"] == "gap" and event.data["lost_frames"] == 4801
    assert event.t_ns == pytest.approx(START_NS + gap[0] * 1e9 / 48000, abs=2)
    assert event.header.duration_ns == pytest.approx(4801e9 / 48000, abs=5)

    # Each side is what the resampler makes of it alone; numbers and times jump over the gap.
    after = next(i for i, m in enumerate(got["foa24"]) if "lost_frames" in m.data)
    before_sound, before_times = joined(got["foa24"][:after])
    after_sound, after_times = joined(got["foa24"][after:])
    split = next(i for i, b in enumerate(blocks) if b.lost_frames)
    for sound, part in ((before_sound, blocks[:split]), (after_sound, blocks[split:])):
        whole = dsp.resample(np.concatenate([b.samples for b in part]), 48000, 24000)
        np.testing.assert_array_equal(sound, whole)
    assert before_times[-1] < START_NS + gap[0] * 1e9 / 48000
    assert after_times[0] == pytest.approx(START_NS + sum(gap) * 1e9 / 48000, abs=2)
    first = got["foa24"][after].data
    assert first["first_frame"] == round(sum(gap) / 2)
    assert first["lost_frames"] == first["first_frame"] - len(before_sound)

    # The last direction before the gap is of a part window; the next window begins after the gap.
    starts = [m.t_ns for m in got["doa"]]
    jump = next(i for i in range(1, len(starts)) if starts[i] - starts[i - 1] != pytest.approx(1e8, abs=5))
    assert starts[jump] == pytest.approx(START_NS + sum(gap) * 1e9 / 48000, abs=2)
    hops = [hop["t_ns"] for m in got["activity"] for hop in m.data["hops"]]
    steps = np.diff(hops) / 1e6
    assert np.sum(np.abs(steps - 20) > 1e-3) == 2  # into the hop across the gap, and out of it
    assert np.sum(steps) == pytest.approx((hops[-1] - hops[0]) / 1e6) and np.all(steps > 0)


def test_directions_activity_and_levels() -> None:
    """A talker-like noise from 60 degrees, from 0.5 s on: found, in time, at the right level."""
    rng = np.random.default_rng(2)
    mono = np.zeros(72000, np.float32)
    bursts = rng.standard_normal(48000) * (np.sin(2 * np.pi * 4 * np.arange(48000) / 48000) > 0)
    mono[24000:] = (bursts * 0.1).astype(np.float32)
    foa = dsp.encode(mono, 60.0, 0.0) + (rng.standard_normal((72000, 4)) * 1e-4).astype(np.float32)
    foa[:, 2] = 0.0  # a dead channel
    foa[30000, 0] = 1.0  # a clipped sample
    got, _ = run_chain(blocks_of(foa.astype(np.float32), 48000, 480), info_of())

    starts = np.array([m.t_ns for m in got["doa"]])
    np.testing.assert_allclose(starts, START_NS + np.arange(15) * 100_000_000, atol=2)
    assert all(m.header.duration_ns == 100_000_000 for m in got["doa"])
    heard = [m for m in got["doa"] if m.t_ns >= START_NS + 500_000_000 and m.data["active"]]
    assert len(heard) >= 5
    azimuths = np.array([m.data["azimuth_deg"] for m in heard])
    assert np.median(np.abs(azimuths - 60.0)) < 5

    hops = [hop for m in got["activity"] for hop in m.data["hops"]]
    times = np.array([hop["t_ns"] for hop in hops])
    np.testing.assert_allclose(np.diff(times), 20_000_000, atol=2)
    first_active = times[[hop["active"] for hop in hops]][0]
    assert abs(first_active - (START_NS + 500_000_000)) <= 40_000_000

    levels = [m.data for m in got["levels"]]
    assert len(levels) == 15
    assert all(row["dead"] == [False, False, True, False] for row in levels)
    assert sum(row["clipped_frames"][0] for row in levels) == 1
    measured = foa[48000:52800, 0]
    at = next(m.data for m in got["levels"] if m.t_ns == START_NS + 1_000_000_000)
    assert at["rms_dbfs"][0] == pytest.approx(20 * np.log10(np.sqrt(np.mean(measured**2))), abs=0.02)


def test_tracks_over_a_gap() -> None:
    """One talker before and after a gap of 0.4 s is one track; its times jump as the directions' do."""
    rng = np.random.default_rng(4)
    time = np.arange(4 * 48000) / 48000
    bursts = rng.standard_normal(len(time)) * np.maximum(np.sin(2 * np.pi * 4 * time), 0)
    foa = dsp.encode((0.1 * bursts).astype(np.float32), -75.0, 20.0)
    foa += (rng.standard_normal(foa.shape) * 1e-4).astype(np.float32)
    got, _ = run_chain(blocks_of(foa, 48000, 480, gaps=[(96000, 19200)]), info_of())

    assert [m.t_ns for m in got["tracks"]] == [m.t_ns for m in got["doa"]]
    assert all(m.header.duration_ns == 100_000_000 and m.header.units == "deg" for m in got["tracks"])
    late = [m.data["tracks"] for m in got["tracks"] if m.t_ns >= START_NS + 1_000_000_000]
    assert len(late) >= 25 and all(len(tracks) == 1 and tracks[0]["id"] == 1 for tracks in late)
    for (track,) in late:
        assert dsp.angular_error_deg(track["azimuth_deg"], track["elevation_deg"], -75, 20) < 4
        assert 0 < track["uncertainty_deg"] < 20 and 0 < track["confidence"] <= 1
    assert late[-1][0]["age_s"] > late[0][0]["age_s"] + 2
    assert not got["tracks"][0].data["tracks"]


def test_silence_has_no_direction() -> None:
    got, _ = run_chain(blocks_of(np.zeros((9600, 4), np.float32), 48000, 480), info_of())
    assert len(got["doa"]) == 2
    assert all(m.data["azimuth_deg"] is None and m.data["active"] is False for m in got["doa"])
    assert [m.data for m in got["tracks"]] == [{"tracks": []}] * 2


def test_other_microphones_are_refused() -> None:
    with Publisher("tcp://127.0.0.1:0") as publisher:
        for info in (info_of(channels=2), info_of(format="array"), info_of(format="stereo")):
            with pytest.raises(InputError, match="4 channels of first-order ambisonics"):
                AudioChain(publisher, info)


def test_sample_times_follow_notes_over_a_gap() -> None:
    times = SampleTimes(24000)
    with pytest.raises(InputError):
        times.at(0)
    times.note(0, 1000)
    times.note(240, 10_001_000)
    times.note(2640, 510_001_000)  # 100 ms of frames, but 500 ms later
    assert times.at(120) == 1000 + 5_000_000
    assert times.at(480) == 10_001_000 + 10_000_000
    assert times.at(2880) == 510_001_000 + 10_000_000


def test_stage_times_are_percentiles() -> None:
    times = StageTimes()
    for value in range(1, 101):
        times.add("doa", value / 1e3)
    (doa,) = times.take().values()
    assert (doa["p50_ms"], doa["p99_ms"], doa["count"]) == (50.5, 99.01, 100)
    assert doa["limit_ms"] < 99 and doa["kept"] is False
    assert times.take() == {}
