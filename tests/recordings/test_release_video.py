"""Pictures of any coding into the containers of a release: none lost, none doubled, at their true times."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest

from dsp.errors import InputError
from recordings.release.video import copy_video
from recordings.storage import sha256_file

TIMES_NS = [7_000_000_000 + round(k * 1e9 / 15) + 777 * k * k for k in range(20)]  # a camera that slows down


def images() -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    noise = rng.integers(0, 60, (48, 64, 3)).astype(np.uint8)
    return [np.roll(noise, 3 * k, axis=1) + np.uint8(8 * k) for k in range(len(TIMES_NS))]


def film(path: Path, codec: str, pixels: str, **options: str) -> Path:
    """A file with another clock origin and even times, as foreign cameras write it."""
    try:
        av.codec.Codec(codec, "w")
    except ValueError:
        pytest.skip(f"this FFmpeg has no {codec}")
    with av.open(str(path), "w") as writer:
        stream = writer.add_stream(codec, rate=15, options=options)
        stream.width, stream.height, stream.pix_fmt = 64, 48, pixels
        stream.codec_context.time_base = Fraction(1, 15)
        for k, image in enumerate(images()):
            frame = av.VideoFrame.from_ndarray(image, format="bgr24").reformat(format=pixels)
            frame.pts, frame.time_base = 30 + k, Fraction(1, 15)
            writer.mux(stream.encode(frame))
        writer.mux(stream.encode(None))
    return path


def decoded(path: Path) -> tuple[list[float], list[np.ndarray]]:
    with av.open(str(path)) as reader:
        found = [(float(f.pts * f.time_base), f.to_ndarray(format="gray")) for f in reader.decode(video=0)]
    return [time for time, _ in found], [image for _, image in found]


def has_b_frames(path: Path) -> bool:
    with av.open(str(path)) as reader:
        stamps = [(p.pts, p.dts) for p in reader.demux(video=0) if p.size]
    return any(pts != dts for pts, dts in stamps) and sorted(stamps) != stamps


@pytest.mark.parametrize("suffix", [".mkv", ".mp4"])
def test_pictures_in_the_order_of_time_get_their_true_times(tmp_path, suffix):
    source = film(tmp_path / "a.mkv", "libx264", "yuv420p", bf="0")
    made = copy_video(source, tmp_path / f"b{suffix}", TIMES_NS)
    assert (made.copied, made.codec, made.frames) == (True, "h264", len(TIMES_NS))
    times, pictures = decoded(made.path)
    wanted = (np.array(TIMES_NS) - TIMES_NS[0]) * 1e-9
    np.testing.assert_allclose(times, wanted, atol=0.5e-3 if suffix == ".mkv" else 0.5e-6)
    assert all(np.array_equal(a, b) for a, b in zip(pictures, decoded(source)[1], strict=True))
    again = copy_video(source, tmp_path / f"c{suffix}", TIMES_NS)
    assert sha256_file(made.path) == sha256_file(again.path) == made.sha256


@pytest.mark.parametrize("suffix", [".mkv", ".mp4"])
def test_pictures_coded_out_of_order_keep_the_times_of_their_file(tmp_path, suffix):
    source = film(tmp_path / "a.mp4", "libx264", "yuv420p", bf="2", preset="medium")
    assert has_b_frames(source)
    made = copy_video(source, tmp_path / f"b{suffix}", TIMES_NS)
    times, pictures = decoded(made.path)
    assert made.copied and len(times) == len(TIMES_NS)
    np.testing.assert_allclose(times, np.array(decoded(source)[0]) - decoded(source)[0][0], atol=1e-3)
    assert all(np.array_equal(a, b) for a, b in zip(pictures, decoded(source)[1], strict=True))
    again = copy_video(source, tmp_path / f"c{suffix}", TIMES_NS)
    assert sha256_file(made.path) == sha256_file(again.path)


def test_what_mp4_has_no_place_for_is_coded_anew_and_says_so(tmp_path):
    source = film(tmp_path / "a.mkv", "ffv1", "yuv420p")
    made = copy_video(source, tmp_path / "b.mp4", TIMES_NS)
    assert not made.copied and made.codec != "ffv1" and made.frames == len(TIMES_NS)
    times, pictures = decoded(made.path)
    np.testing.assert_allclose(times, (np.array(TIMES_NS) - TIMES_NS[0]) * 1e-9, atol=1e-3)
    worst = [np.abs(a.astype(float) - b).mean() for a, b in zip(pictures, decoded(source)[1], strict=True)]
    assert max(worst) < 12, "the same pictures, with the losses of coding"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.mkv", "b.mp4"]
    assert copy_video(source, tmp_path / "c.mkv", TIMES_NS).copied, "Matroska takes it as it is"


def test_what_does_not_fit_is_refused(tmp_path):
    source = film(tmp_path / "a.mkv", "libx264", "yuv420p", bf="0")
    with pytest.raises(InputError, match="holds 20 pictures, the timeline has 19"):
        copy_video(source, tmp_path / "b.mkv", TIMES_NS[:-1])
    with pytest.raises(InputError, match=r"\.mkv or \.mp4"):
        copy_video(source, tmp_path / "b.avi", TIMES_NS)
    cut = tmp_path / "cut.mkv"
    cut.write_bytes(source.read_bytes()[:-200])
    with pytest.raises(InputError, match="torn"):
        copy_video(cut, tmp_path / "b.mkv", TIMES_NS)
    assert not (tmp_path / "b.mkv").exists()
