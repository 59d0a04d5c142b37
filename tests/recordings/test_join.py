"""Parts of one take are joined without a doubled or a lost sample, or not at all."""

from __future__ import annotations

import itertools
import struct

import numpy as np
import pytest
import soundfile
from hypothesis import given, settings
from hypothesis import strategies as st

from dsp.errors import InputError
from recordings import import_take, open_audio, read_wav
from recordings.join import copy_without_start, plan_join

RATE = 48000
MIDNIGHT_PLUS = RATE * 36672 + 17  # not a whole second: exact time references


def part(path, x, reference=None, rate=RATE, bits=24, day="2026-03-24", junk=b""):
    """A BWF of integers x (frames, channels) of `bits`, written without our own writer."""
    raw = np.ascontiguousarray(x, "<i4").view(np.uint8).reshape(-1, 4)[:, : bits // 8].tobytes()
    channels, align = x.shape[1], x.shape[1] * bits // 8
    chunks = []
    if reference is not None:
        text = b"zTRK1=W\r\nzTRK2=Y\r\nzTRK3=Z\r\nzTRK4=X".ljust(320, b"\0")
        bext = text + day.encode() + b"10:11:12" + struct.pack("<Q", reference)
        chunks.append((b"bext", bext.ljust(602, b"\0")))
    chunks.append((b"fmt ", struct.pack("<HHIIHH", 1, channels, rate, rate * align, align, bits)))
    chunks.append((b"data", raw))
    if junk:
        chunks.append((b"abcd", junk))
    body = b"WAVE" + b"".join(n + struct.pack("<I", len(d)) + d + b"\0" * (len(d) % 2) for n, d in chunks)
    path.write_bytes(b"RIFF" + struct.pack("<I", len(body)) + body)
    return path


def noise(frames, bits=24, seed=0, channels=4, peak=None):
    top = peak or 2 ** (bits - 2)
    return np.random.default_rng(seed).integers(-top, top, (frames, channels))


def joined(plan, folder):
    """What lies on disk after every start that is doubled was cut off, as stored integers."""
    pieces = []
    for i, (path, skip) in enumerate(zip(plan.paths, plan.skips, strict=True)):
        target = folder / f"cut{i}.wav"
        copy_without_start(path, target, skip)
        pieces.append(read_wav(target).read())
    return np.concatenate(pieces)


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    cuts=st.lists(st.tuples(st.integers(200, 5000), st.integers(0, 150)), min_size=1, max_size=4),
    bits=st.sampled_from([16, 24, 32]),
    quiet=st.booleans(),
    stamped=st.booleans(),
)
def test_random_cuts_and_overlaps_give_back_every_sample(tmp_path_factory, seed, cuts, bits, quiet, stamped):
    folder = tmp_path_factory.mktemp("cuts")
    whole = noise(200 + sum(length for length, _ in cuts), bits, seed, peak=3 if quiet else None)
    at, paths = 0, []
    bounds = np.cumsum([0, *[length for length, _ in cuts], 200])
    for i, (start, stop) in enumerate(itertools.pairwise(bounds)):
        # Without exact times an overlap below 32 frames cannot be told from chance: none is made then.
        overlap = cuts[i - 1][1] if i else 0
        overlap = overlap if stamped or overlap >= 32 else 0
        at = start - overlap
        paths.append(
            part(folder / f"p{i}.wav", whole[at:stop], MIDNIGHT_PLUS + at if stamped else None, bits=bits)
        )
    if not stamped and any(overlap < 32 for _, overlap in cuts):
        with pytest.raises(InputError, match="no time in both"):  # nothing says that they belong together
            plan_join(paths)
        return
    plan = plan_join(paths[::-1])
    assert plan.frames == len(whole)
    np.testing.assert_array_equal(joined(plan, folder) >> (32 - bits), whole)


def test_the_order_is_that_of_the_recorders_time(tmp_path):
    x = noise(30000)
    late = part(tmp_path / "a.wav", x[20000:], MIDNIGHT_PLUS + 20000)
    early = part(tmp_path / "b.wav", x[:20000], MIDNIGHT_PLUS)
    plan = plan_join([late, early])
    assert plan.paths == (early, late) and "not in the order" in plan.notes[0]
    episode = import_take([late, early], None, tmp_path / "data", report=False)
    np.testing.assert_array_equal(episode.audio(RATE), (x / 2**23).astype(np.float32))
    assert episode.verify().ok, episode.verify().problems


def test_a_take_over_midnight(tmp_path):
    x = noise(30000)
    a = part(tmp_path / "a.wav", x[:20000], 86400 * RATE - 15003, day="2026-03-24")
    b = part(tmp_path / "b.wav", x[19000:], 3997, day="2026-03-25")
    assert plan_join([b, a]).skips == (0, 1000)


def test_a_gap_is_told_with_its_length_and_goes_into_the_timeline(tmp_path):
    x = noise(96000, seed=3)
    a = part(tmp_path / "a.wav", x[:48000], MIDNIGHT_PLUS)
    b = part(tmp_path / "b.wav", x[50400:], MIDNIGHT_PLUS + 50400)
    (joint,) = plan_join([a, b]).joints
    assert (joint.gap_frames, joint.overlap_frames) == (2400, 0) and "0.050 s" in joint.note
    episode = import_take([a, b], None, tmp_path / "data", report=False)
    (gap,) = (line for line in episode.timeline() if line["type"] == "gap")
    assert (gap["lost_frames"], gap["file_frame"]) == (2400, 48000)
    assert episode.audio_map.time_ns(48000) == round(50400 / RATE * 1e9)
    assert episode.verify().ok, episode.verify().problems


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rate": 44100}, "rate 44100 Hz, not 48000 Hz"),
        ({"bits": 16}, "bits 16 integer, not 24 integer"),
        ({"channels": 2}, "channels 2, not 4"),
    ],
)
def test_a_mismatch_is_named(tmp_path, change, message):
    channels = change.pop("channels", 4)
    a = part(tmp_path / "a.wav", noise(5000), MIDNIGHT_PLUS)
    b = part(tmp_path / "b.wav", noise(5000, 16, 1, channels), MIDNIGHT_PLUS + 5000, **change)
    with pytest.raises(InputError, match=f"does not continue.*{message}"):
        plan_join([a, b])


def test_one_differing_sample_in_the_overlap_stops_it(tmp_path):
    x = noise(20000)
    a = part(tmp_path / "a.wav", x[:12000], MIDNIGHT_PLUS)
    y = x[10000:].copy()
    y[1234, 2] += 1
    b = part(tmp_path / "b.wav", y, MIDNIGHT_PLUS + 10000)
    with pytest.raises(InputError, match="2000 frames before the first ends, but the samples there differ"):
        plan_join([a, b])


def test_sound_that_repeats_itself_needs_the_time_references(tmp_path):
    period = noise(100, seed=4)
    x = np.tile(period, (60, 1))
    a, b = x[:4000], x[3300:]
    with pytest.raises(InputError, match=r"could overlap by 100, 200.*repeats itself"):
        plan_join([part(tmp_path / "a.wav", a), part(tmp_path / "b.wav", b)])
    parts = [part(tmp_path / "c.wav", a, MIDNIGHT_PLUS), part(tmp_path / "d.wav", b, MIDNIGHT_PLUS + 3300)]
    assert plan_join(parts).skips == (0, 700)
    abut = [
        part(tmp_path / "e.wav", a, MIDNIGHT_PLUS),
        part(tmp_path / "f.wav", x[4000:], MIDNIGHT_PLUS + 4000),
    ]
    assert plan_join(abut).skips == (0, 0)


def test_silence_at_the_joint_is_no_overlap(tmp_path):
    x = noise(9000)
    x[3000:6000] = 0
    a = part(tmp_path / "a.wav", x[:4500], MIDNIGHT_PLUS)
    b = part(tmp_path / "b.wav", x[4500:], MIDNIGHT_PLUS + 4500)
    plan = plan_join([a, b])
    assert plan.skips == (0, 0) and "silent" in plan.joints[0].note


def test_a_part_that_holds_nothing_new(tmp_path):
    x = noise(9000)
    a = part(tmp_path / "a.wav", x, MIDNIGHT_PLUS)
    b = part(tmp_path / "b.wav", x[5000:], MIDNIGHT_PLUS + 5000)
    with pytest.raises(InputError, match="holds nothing that"):
        plan_join([a, b])


def test_what_is_cut_keeps_every_other_chunk_and_opens_elsewhere(tmp_path):
    x = noise(5001, channels=4)
    source = part(tmp_path / "a.wav", x, MIDNIGHT_PLUS, junk=b"odd")
    before = source.read_bytes()
    copy_without_start(source, tmp_path / "b.wav", 1777)
    assert source.read_bytes() == before
    y, rate = soundfile.read(tmp_path / "b.wav", dtype="int32")  # libsndfile, not our reader
    assert rate == RATE
    np.testing.assert_array_equal(y >> 8, x[1777:])
    cut = read_wav(tmp_path / "b.wav")
    assert cut.chunk_bytes("abcd") == b"odd" and cut.problems == []
    assert cut.bext.time_reference == MIDNIGHT_PLUS + 1777
    assert cut.bext.description == read_wav(source).bext.description


def test_parts_without_wav_abut_but_are_not_cut(tmp_path):
    x = noise(20000) / 2**23
    soundfile.write(tmp_path / "a.flac", x[:12000], RATE, subtype="PCM_24")
    soundfile.write(tmp_path / "b.flac", x[10000:], RATE, subtype="PCM_24")
    plan = plan_join([tmp_path / "a.flac", tmp_path / "b.flac"])
    assert plan.skips == (0, 2000)
    np.testing.assert_array_equal(plan.read(), x.astype(np.float32))
    with pytest.raises(InputError, match="only WAV is cut"):
        import_take(
            [tmp_path / "a.flac", tmp_path / "b.flac"], None, tmp_path / "data", "ambix", report=False
        )


def open_like(x):
    return x.astype(np.float32)


def test_one_file_is_its_own_plan(tmp_path):
    plan = plan_join([part(tmp_path / "a.wav", noise(100))])
    assert plan.frames == 100 and plan.joints == ()
    assert open_audio(plan.paths).frames == 100
