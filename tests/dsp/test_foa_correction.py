"""The correction of a microphone: exact where it changes nothing, the same for any blocks, right delays."""

from __future__ import annotations

import numpy as np
import pytest

import dsp
from dsp.errors import InputError
from dsp.foa_correction import FoaCorrection

RNG = np.random.default_rng(11)
X = RNG.standard_normal((5000, 4)).astype(np.float32)


def in_pieces(correction, x, fs):
    stream, parts, at = correction.stream(fs), [], 0
    while at < len(x):
        size = int(RNG.choice([0, 1, 7, 480, 1023, 1025]))
        parts.append(stream.push(x[at : at + size]))
        assert len(parts[-1]) == min(size, len(x) - at)
        at += size
    parts.append(stream.flush())
    return np.concatenate(parts)[stream.delay_frames :]


def test_numbers_that_are_not_finite_are_named_and_not_their_shape():
    with pytest.raises(InputError, match=r"delays_s of a correction must be finite numbers, got .*nan"):
        FoaCorrection("ambix", np.eye(4), np.array([0, np.nan, 0, 0]))
    with pytest.raises(InputError, match=r"must be numbers \(4,\), not \(3,\)"):
        FoaCorrection("ambix", np.eye(4), np.zeros(3))


def test_the_identity_gives_the_very_same_bits_in_another_array():
    same = FoaCorrection()
    assert same.is_identity
    with_specials = X.copy()
    with_specials[3] = [np.nan, np.inf, -0.0, 1e-42]
    for out in (same.apply(with_specials), in_pieces(same, with_specials, None)):
        assert out.tobytes() == with_specials.tobytes()
    assert same.apply(X) is not X and not np.shares_memory(same.apply(X), X)


@pytest.mark.parametrize(
    "correction",
    [
        FoaCorrection("a", dsp.conversion_matrix("a", "ambix")),
        FoaCorrection("ambix", RNG.standard_normal((4, 4)) + 3 * np.eye(4), [0, 10 / 48000, 0, 0]),
        FoaCorrection("fuma", dsp.conversion_matrix("fuma", "ambix"), [1e-5, -3e-6, 2.3e-3, -9e-3]),
        FoaCorrection("a", dsp.conversion_matrix("a", "ambix"), [1e-5, -3e-6, 0, 0]).for_ambix(),
    ],
)
def test_any_blocks_give_the_same_bits(correction):
    whole = correction.apply(X, 48000)
    assert whole.dtype == np.float32 and whole.shape == X.shape
    assert in_pieces(correction, X, 48000).tobytes() == whole.tobytes()
    stream = correction.stream(48000)
    for _ in range(2):  # flush starts anew
        again = np.concatenate([stream.push(X), stream.flush()])[stream.delay_frames :]
        assert again.tobytes() == whole.tobytes()


def test_without_delays_it_is_the_conversion():
    for name in dsp.FORMATS:
        ours = FoaCorrection(name, dsp.conversion_matrix(name, "ambix")).apply(X)
        assert np.allclose(ours, dsp.convert(X, source=name, target="ambix"), atol=1e-6)


@pytest.mark.parametrize("fs", [24000, 48000])
def test_a_late_channel_comes_back_in_time(fs):
    late = np.array([0.0, 17e-6, -350e-6, 2 / fs])
    t = np.arange(fs // 4) / fs
    for hz in (200.0, 1000.0, 0.35 * fs):
        x = np.sin(2 * np.pi * hz * (t[:, None] - late))
        out = FoaCorrection("ambix", np.eye(4), late).apply(x.astype(np.float32), fs)
        middle = slice(1000, -1000)
        assert np.abs(out[middle] - np.sin(2 * np.pi * hz * t[middle, None])).max() < 2e-3
    # A whole number of frames is exact.
    assert np.array_equal(out[:-2, 3], x.astype(np.float32)[2:, 3])


def test_sound_that_was_converted_already():
    correction = FoaCorrection(
        "a", dsp.conversion_matrix("a", "ambix") @ np.diag([1, 1.1, 0.9, -1]), [0, 2e-5, 0, 0]
    )
    ambix = dsp.convert(X, source="a", target="ambix")
    assert np.allclose(correction.for_ambix().apply(ambix, 48000), correction.apply(X, 48000), atol=1e-5)


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        (("b",), "unknown format"),
        (("ambix", np.eye(3)), "matrix"),
        (("ambix", np.diag([1.0, 1, 1, 0])), "loses a channel"),
        (("ambix", np.eye(4) * np.nan), "finite"),
        (("ambix", np.eye(4) * 1e30), "600 dB, more than 40"),
        (("a", dsp.conversion_matrix("a", "ambix") * 0.001), "60 dB, more than 40"),
        (("ambix", np.eye(4), [0, 0, 0, 1.0]), "delays"),
        (("ambix", "no", [0, 0, 0, 0]), "numbers"),
    ],
)
def test_what_is_no_correction_is_refused(parts, words):
    with pytest.raises(InputError, match=words):
        FoaCorrection(*parts)


def test_a_rate_is_asked_for_only_where_it_matters():
    with pytest.raises(InputError, match="sample rate"):
        FoaCorrection("ambix", np.eye(4), [1e-5, 0, 0, 0]).apply(X)
    with pytest.raises(InputError, match="4"):
        FoaCorrection("a", dsp.conversion_matrix("a", "ambix")).apply(X[:, :2])
