from __future__ import annotations

import cv2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from capture.frame_watch import FrameWatch, jpeg_is_whole, jpeg_size

PERIOD = 40_000_000


def picture(number: int) -> NDArray[np.uint8]:
    return np.random.default_rng(number).integers(0, 255, (96, 160, 3), dtype=np.uint8)


def jpeg(number: int) -> bytes:
    return bytes(cv2.imencode(".jpg", picture(number))[1])


@pytest.mark.parametrize("pixels", [False, True])
def test_frozen_after_a_second_and_thawed(pixels: bool) -> None:
    watch = FrameWatch()
    changes, flags = [], []
    for i in range(80):
        number = i if i < 20 or i >= 60 else 20
        data = {"image": picture(number)} if pixels else {"jpeg": jpeg(number)}
        flag, change = watch.look(i * PERIOD, PERIOD, **data)  # type: ignore[arg-type]
        flags.append(flag)
        if change is not None:
            changes.append((i, change))
    assert [i for i, flag in enumerate(flags) if "duplicate" in flag] == list(range(21, 60))
    assert [i for i, flag in enumerate(flags) if "frozen" in flag] == list(range(46, 60)), "after 1 s"
    (at, frozen), (back, thawed) = changes
    assert (at, frozen.kind, back, thawed.kind) == (46, "frozen", 60, "thawed")
    assert frozen.data["since_ns"] == thawed.data["since_ns"] == 20 * PERIOD
    assert thawed.data["still_s"] == pytest.approx(1.6)
    assert frozen.data["by"] == ("pixels" if pixels else "bytes")
    assert watch.counts == {"duplicate": 39, "frozen": 14, "damaged": 0}


def test_a_slow_camera_has_five_periods() -> None:
    watch = FrameWatch()
    kinds = [watch.look(i * 10**9, 1e9, jpeg=jpeg(0))[1] for i in range(8)]
    assert [i for i, change in enumerate(kinds) if change is not None] == [6]


def test_one_changed_pixel_is_no_duplicate() -> None:
    watch = FrameWatch()
    first = picture(1)
    second = first.copy()
    second[33, 77, 1] ^= 1
    watch.look(0, PERIOD, image=first)
    assert watch.look(1, PERIOD, image=second)[0] == ()
    assert watch.look(2, PERIOD, image=second.copy())[0] == ("duplicate",)


@given(st.integers(0, 10_000))
def test_cut_jpegs_are_damaged(cut: int) -> None:
    whole = jpeg(3)
    assert jpeg_is_whole(whole) and jpeg_is_whole(whole + bytes(30))
    part = whole[: cut % len(whole)]
    assert not jpeg_is_whole(part)
    watch = FrameWatch()
    assert watch.look(0, PERIOD, jpeg=part)[0] == ("damaged",)
    assert watch.look(1, PERIOD, jpeg=whole)[0] == ()
    assert watch.look(2, PERIOD, jpeg=jpeg(4), damaged=True)[0] == ("damaged",), "said by the driver"
    assert watch.counts["damaged"] == 2


@pytest.mark.parametrize("size", [(16, 16), (640, 360), (1281, 721)])
def test_size_without_decoding(size: tuple[int, int]) -> None:
    width, height = size
    image = np.zeros((height, width, 3), np.uint8)
    for options in ([], [cv2.IMWRITE_JPEG_PROGRESSIVE, 1], [cv2.IMWRITE_JPEG_RST_INTERVAL, 4]):
        assert jpeg_size(bytes(cv2.imencode(".jpg", image, options)[1])) == size
    assert jpeg_size(b"") is None and jpeg_size(b"\xff\xd8\xff") is None
    assert jpeg_size(b"no jpeg at all") is None


@given(st.binary(max_size=200))
def test_any_bytes_are_survived(data: bytes) -> None:
    for text in (data, b"\xff\xd8" + data):
        jpeg_size(text)
        jpeg_is_whole(text)
