"""Guided calibration with rendered pictures: what is kept, what is said, and a whole run from a video."""

from __future__ import annotations

import re
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest

from bench.board_render import Camera, Renderer, View, rotation
from calibration.board import Board
from calibration.camera import calibrate_views
from calibration.camera_live import Guide, lines_of, run_live
from calibration.camera_report import write_report
from capture.file_camera import FileCamera

BOARD = Board.parse("charuco 7x6 36mm 24mm 5x5_50")
CAMERA = Camera.typical(640, 360)
# Where the board's middle is (x, y, z in metres) and how it is tilted.
POSES = [
    ((0, 0, 0.42), (25, 0)),
    ((-0.13, -0.05, 0.42), (0, 28)),
    ((0.13, -0.05, 0.42), (0, -28)),
    ((-0.13, 0.06, 0.42), (-25, 10)),
    ((0.13, 0.06, 0.42), (25, -10)),
    ((0, 0.04, 0.36), (-28, 0)),
    ((-0.2, 0.0, 0.5), (10, 30)),
    ((0.2, 0.0, 0.5), (10, -30)),
]


@pytest.fixture(scope="module")
def views() -> list[View]:
    renderer = Renderer(BOARD, CAMERA)
    middle = np.array([*BOARD.size_m, 0]) / 2
    made = []
    for place, tilt in POSES:
        turn = rotation(*tilt, 5.0)
        made.append(renderer.view(turn, np.array(place) - turn @ middle, np.random.default_rng(1)))
    return made


def test_it_keeps_still_new_views_and_says_what_to_do(views: list[View]):
    guide = Guide(BOARD.other_layout())
    empty = np.full((360, 640), 90, np.uint8)
    assert not guide.look(empty, 0) and "not seen" in guide.said
    # The board is in the other layout: noticed by itself.
    t = 0
    for _ in range(4):
        t += 33_000_000
        guide.look(views[0].grey, t)
    assert guide.board == BOARD and len(guide.views) == 1
    assert not guide.look(views[1].grey, t + 33_000_000), "it moved"
    assert guide.said == "hold it still"
    assert guide.look(views[1].grey, t + 66_000_000)
    assert not guide.look(views[1].grey, t + 99_000_000), "nothing new"
    assert "bring the board to the" in guide.said
    assert len(guide.views) == 2 and 0 < guide.coverage_share < 0.7
    text = "\n".join(lines_of(guide))
    assert "█" in text and "·" in text and re.search(r"views +2 of 20", text) and guide.said in text


def test_a_run_from_a_video_file_and_its_page(views: list[View], tmp_path: Path):
    path = tmp_path / "board.mkv"
    with av.open(str(path), "w") as container:
        stream = container.add_stream("mjpeg", rate=20)
        stream.width, stream.height, stream.pix_fmt = 640, 360, "yuvj420p"
        stream.codec_context.qmin = stream.codec_context.qmax = 2
        number = 0
        for view in views:
            for _ in range(8):
                frame = av.VideoFrame.from_ndarray(np.repeat(view.grey[:, :, None], 3, 2), format="rgb24")
                frame.pts, frame.time_base = number, Fraction(1, 20)
                number += 1
                container.mux(stream.encode(frame))
        container.mux(stream.encode())
    guide = Guide(BOARD)
    shown = []
    run_live(FileCamera(path), guide, show=lambda: shown.append(len(guide.views)))
    assert len(guide.views) >= 6, guide.said
    assert shown[-1] == len(guide.views)
    assert not guide.enough
    found = calibrate_views(guide.result(), judged=False)
    assert found.camera.parameters[0] == pytest.approx(CAMERA.matrix[0, 0], rel=0.02)
    page = write_report(tmp_path / "page.html", found, pictures=guide.pictures, title="<hall>").read_text()
    assert page.count("data:image/jpeg") == min(6, len(found.views))
    assert "&lt;hall&gt;" in page and "<hall>" not in page
    assert not re.search(r'(?:src|href)="(?!data:)', page), "nothing is fetched"
    for words in ("Uncertainty of projection", "Corners seen", "Residuals", "fx", found.views[0].name):
        assert words in page
