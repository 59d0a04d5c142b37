"""Boards: their words, their layouts against OpenCV's own drawing, and sheets in true size."""

from __future__ import annotations

import re
import struct
import zlib
from pathlib import Path

import cv2
import numpy as np
import pytest

from calibration.board import BLACK, Board
from calibration.board_print import PAPERS, black_rectangles, default_board, write_board
from calibration.camera_detect import Detector
from dsp.errors import InputError

BOARDS = [
    "chessboard 9x6 25mm",
    "chessboard 8x5 27.5mm inverted",
    "charuco 5x7 40mm 20mm 6x6_250",
    "charuco 5x8 40mm 30mm 5x5_50",
    "charuco 6x8 12.3mm 9mm 4x4_50 legacy",
    "charuco 4x5 54mm 40.5mm 4x4_1000 inverted",
]


@pytest.mark.parametrize("words", BOARDS)
def test_words_come_back(words: str):
    board = Board.parse(words)
    assert str(board) == words
    assert Board.parse(str(board)) == board


def test_units_and_defaults():
    assert Board.parse("chessboard 9x6 2.5cm") == Board.chessboard(9, 6, 0.025)
    assert Board.parse("chessboard 9x6 1in").square_m == 0.0254
    assert Board.parse("charuco 11x8 24mm 16mm").dictionary == "5x5_50"
    assert Board.parse("charuco 15x12 24mm 16mm DICT_5X5_100").dictionary == "5x5_100"
    assert Board.charuco(20, 11, 0.02, 0.015).dictionary == "5x5_250", "the smallest that holds it"
    odd = Board.parse(f"chessboard 9x6 {0.1 / 3!r}m")
    assert Board.parse(str(odd)) == odd


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("", "a board is written like"),
        ("chess 9x6 25mm", "unknown board 'chess 9x6 25mm'"),
        ("chessboard 9x6 25", "cannot read the board"),
        ("chessboard 9x6 25mm legacy", "only a ChArUco board"),
        ("chessboard 2x6 25mm", "3 to 100"),
        ("charuco 5x7 40mm 39mm 6x6_250", "does not suit a square"),
        ("charuco 5x7 40mm 20mm 8x8_50", "unknown ArUco dictionary"),
        ("charuco 20x20 40mm 20mm 4x4_50", "need 200 markers; 4x4_50 has only 50"),
        ("charuco 5x7 40m 20mm", "a square of 40"),
    ],
)
def test_what_cannot_be_is_refused(words: str, message: str):
    with pytest.raises(InputError, match=re.escape(message)):
        Board.parse(words)


@pytest.mark.parametrize("rows", [7, 8])
@pytest.mark.parametrize("legacy", [False, True])
def test_layouts_are_those_of_opencv(rows: int, legacy: bool):
    board = Board.charuco(5, rows, 0.04, 0.028, "6x6_250", legacy=legacy)
    side = 80  # 56 pixels of marker: 7 for each of its 8 bits
    drawn = board.opencv().generateImage((5 * side, rows * side))
    own = np.full_like(drawn, 255)
    for x, y, w, h in black_rectangles(board):
        scale = side / 0.04
        own[round(y * scale) : round((y + h) * scale), round(x * scale) : round((x + w) * scale)] = 0
    assert np.mean(own != drawn) < 0.002, "only rounding at the edges of bits"
    assert np.allclose(board.opencv().getChessboardCorners(), board.corners_m)
    assert board.layouts_differ == (rows == 8)
    assert (board.cells()[0, 0] == BLACK) == (not (legacy and rows == 8))


@pytest.mark.parametrize("words", BOARDS)
def test_a_printed_png_is_found_whole_and_in_true_size(tmp_path: Path, words: str):
    board = Board.parse(words)
    sheet = write_board(tmp_path / "board.png", board, paper="a3", dpi=100)
    grey = cv2.imread(str(sheet), cv2.IMREAD_GRAYSCALE)
    found = Detector(board).find(grey)
    assert found is not None and len(found) == len(board.corners_m)
    # pHYs: pixels per metre
    data = sheet.read_bytes()
    at = data.index(b"pHYs")
    per_m, _, unit = struct.unpack(">IIB", data[at + 4 : at + 13])
    assert unit == 1
    # Edges without any blur: corners are found to a few tenths of a pixel.
    assert found.spacing_px == pytest.approx(board.square_m * per_m, rel=1e-2)
    wide, high = sorted((grey.shape[1] / per_m * 1e3, grey.shape[0] / per_m * 1e3))
    assert (wide, high) == pytest.approx(PAPERS["a3"], abs=0.5)


def test_a_pdf_has_the_squares_in_millimetres(tmp_path: Path):
    board = default_board("a4")
    data = write_board(tmp_path / "board.pdf", board).read_bytes()
    size = re.search(rb"/MediaBox \[0 0 ([\d.]+) ([\d.]+)\]", data)
    assert size and [float(v) * 25.4 / 72 for v in size.groups()] == pytest.approx([297, 210], abs=1e-3)
    # The table of objects is right to the byte.
    start = int(re.search(rb"startxref\n(\d+)", data)[1])
    offsets = [int(v) for v in re.findall(rb"(\d{10}) 00000 n", data[start:])]
    assert all(data[o:].startswith(f"{i} 0 obj".encode()) for i, o in enumerate(offsets, 1))
    stream = zlib.decompress(data[data.index(b"stream\n") + 7 : data.index(b"\nendstream")]).decode("latin-1")
    boxes = np.array(
        [[float(v) for v in m] for m in re.findall(r"^(\S+) (\S+) (\S+) (\S+) re$", stream, re.M)]
    )
    millimetres = boxes * 25.4 / 72
    squares = millimetres[np.abs(millimetres[:, 2:] - 24).max(1) < 1e-3]
    assert len(squares) == 44
    assert np.ptp(squares[:, 0]) == pytest.approx(10 * 24, abs=1e-3)
    assert str(board) in stream
    assert (millimetres[:, 0] >= 5).all() and (millimetres[:, 0] + millimetres[:, 2] <= 292).all()


def test_a_board_too_large_says_what_would_fit(tmp_path: Path):
    with pytest.raises(InputError, match=r"squares of at most 27\.4 mm"):
        write_board(tmp_path / "b.pdf", Board.parse("chessboard 9x6 36mm"))
    with pytest.raises(InputError, match=r"\.pdf or \.png"):
        write_board(tmp_path / "b.svg", default_board())
    with pytest.raises(InputError, match="unknown paper 'a9'"):
        default_board("a9")
    for paper in PAPERS:
        write_board(tmp_path / f"{paper}.pdf", default_board(paper), paper)
