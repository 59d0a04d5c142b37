"""The print sheet of a board: a PDF in true size, or a PNG that says how large its pixels are.

The PDF holds rectangles, not an image: edges are as sharp as the printer, and sizes are exact. Below the
board stand its words (what `--board` takes) and a ruler of 100 mm, because printers scale: measure it, and
where it is not 100 mm, write the square as measured into the words.
"""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from calibration.board import BLACK, Board
from dsp.errors import InputError
from recordings.storage import storage_errors, write_atomic

Rectangle = tuple[float, float, float, float]
# Paper in mm, upright. What a printer usually cannot print at the edge.
PAPERS = {"a4": (210.0, 297.0), "a3": (297.0, 420.0), "a2": (420.0, 594.0), "a1": (594.0, 841.0),
          "letter": (215.9, 279.4), "tabloid": (279.4, 431.8)}  # fmt: skip
_EDGE_MM, _FOOT_MM = 7.0, 11.0
_POINT_MM = 25.4 / 72
_RULER_MM = 100.0


def default_board(paper: str = "a4") -> Board:
    """A ChArUco board of 11 x 8 squares, as large as this paper holds. Raises InputError."""
    width, height = _paper(paper)
    room = (max(width, height) - 2 * _EDGE_MM, min(width, height) - _EDGE_MM - _FOOT_MM)
    square_mm = int(min(room[0] / 11, room[1] / 8))
    return Board.charuco(11, 8, square_mm / 1000, round(square_mm * 2 / 3) / 1000)


def black_rectangles(board: Board) -> list[Rectangle]:
    """Squares and bits that are black on a board that is not inverted: (x, y, width, height) in metres in
    the board's frame. On an inverted board they are the white ones."""
    found: list[Rectangle] = []
    cells, bits = board.cells(), board.marker_bits()
    side = board.square_m
    for row in range(cells.shape[0]):
        for column in range(cells.shape[1]):
            cell = int(cells[row, column])
            if cell == BLACK:
                found.append((column * side, row * side, side, side))
            elif cell >= 0:
                gap = (side - board.marker_m) / 2
                found += _runs(bits[cell] == 0, column * side + gap, row * side + gap, board.marker_m)
    return found


def _runs(dark: NDArray[np.bool_], x: float, y: float, size: float) -> list[Rectangle]:
    """Dark bits of a marker as few rectangles: runs along a row, grown down while the row is the same."""
    count = len(dark)
    step = size / count
    found: list[Rectangle] = []
    row = 0
    while row < count:
        last = row + 1
        while last < count and np.array_equal(dark[last], dark[row]):
            last += 1
        edges = np.flatnonzero(np.diff(np.concatenate([[False], dark[row], [False]]).astype(int)))
        for start, end in zip(edges[::2], edges[1::2], strict=True):
            found.append((x + start * step, y + row * step, (end - start) * step, (last - row) * step))
        row = last
    return found


def write_board(path: str | Path, board: Board, paper: str = "a4", dpi: int = 600) -> Path:
    """Write the sheet as .pdf or .png (by the name); the paper lies or stands, as the board fits.

    Raises InputError when the board does not fit on the paper (with what would), or for another suffix;
    StorageError when the file cannot be written.
    """
    target = Path(path)
    width_mm, height_mm = _sheet(board, paper)
    if target.suffix.lower() == ".pdf":
        data = _pdf(board, width_mm, height_mm)
    elif target.suffix.lower() == ".png":
        if not 72 <= dpi <= 2400:
            raise InputError(f"a resolution of {dpi} dpi cannot be; 300 to 1200 are usual")
        data = _png(board, width_mm, height_mm, dpi)
    else:
        raise InputError(f"{target.name}: a board is written as .pdf or .png")
    with storage_errors(target.parent, "make"):
        target.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(target, data)
    return target


def _paper(name: str) -> tuple[float, float]:
    if name.lower() not in PAPERS:
        raise InputError(f"unknown paper {name!r}; there are {', '.join(PAPERS)}")
    return PAPERS[name.lower()]


def _sheet(board: Board, paper: str) -> tuple[float, float]:
    """Width and height of the sheet in mm, lying or standing. Raises InputError."""
    short, long = _paper(paper)
    wide, high = (1000 * side for side in board.size_m)
    for width, height in ((long, short), (short, long)):
        if wide <= width - 2 * _EDGE_MM + 1e-6 and high <= height - _EDGE_MM - _FOOT_MM + 1e-6:
            return width, height
    across, down = board.squares
    shrink = max(
        min((w - 2 * _EDGE_MM) / wide, (h - _EDGE_MM - _FOOT_MM) / high)
        for w, h in ((long, short), (short, long))
    )
    fits = 1000 * board.square_m * shrink
    raise InputError(
        f"a board of {wide:.0f} x {high:.0f} mm does not fit on {paper}; squares of at most {fits:.1f} mm do "
        f"({across} x {down} squares), or larger paper ({', '.join(PAPERS)})"
    )


def _place(board: Board, width_mm: float, height_mm: float) -> tuple[float, float]:
    """Left and top of the pattern on the sheet in mm: in the middle, above the foot."""
    wide, high = (1000 * side for side in board.size_m)
    free = height_mm - _EDGE_MM - _FOOT_MM - high
    return (width_mm - wide) / 2, _EDGE_MM + free / 2


def _words(board: Board) -> str:
    counted = "inner corners" if board.kind == "chessboard" else "squares"
    return f'hearth calibrate camera --board "{board}"   ({counted}; print at 100 %; this line is 100 mm:'


def _pdf(board: Board, width_mm: float, height_mm: float) -> bytes:
    """A PDF 1.4 of one page: content stream, one standard font."""
    k = 1 / _POINT_MM
    left, top = _place(board, width_mm, height_mm)

    def box(x: float, y: float, w: float, h: float) -> str:
        return f"{x * k:.4f} {(height_mm - y - h) * k:.4f} {w * k:.4f} {h * k:.4f} re"

    shapes = [
        box(left + 1000 * x, top + 1000 * y, 1000 * w, 1000 * h) for x, y, w, h in black_rectangles(board)
    ]
    wide, high = (1000 * side for side in board.size_m)
    content = []
    if board.inverted:
        rim = min(_EDGE_MM - 2, 5.0)
        content += ["0 g", box(left - rim, top - rim, wide + 2 * rim, high + 2 * rim), "f", "1 g"]
    else:
        content.append("0 g")
    # One path: no seams between touching squares.
    content += [*shapes, "f", "0 g"]
    base = height_mm - 4.0
    text = _words(board).replace("\\", "\\\\").replace("(", "\\(").replace(")", "\\)")
    # Helvetica is about half as wide as high; the words end before the ruler begins.
    points = min(6.5, (width_mm - 2 * _EDGE_MM - _RULER_MM - 4) * k / (0.52 * len(text)))
    place = f"{_EDGE_MM * k:.3f} {(height_mm - base) * k:.3f} Td"
    content.append(f"BT /F1 {points:.2f} Tf {place} ({text}\\)) Tj ET")
    content += [box(*mark) for mark in _ruler(width_mm, base)] + ["f"]
    stream = zlib.compress("\n".join(content).encode("latin-1"))
    page = f"{width_mm * k:.4f} {height_mm * k:.4f}"
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R /ViewerPreferences << /PrintScaling /None >> >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 {page}] /Contents 4 0 R "
        "/Resources << /Font << /F1 5 0 R >> >> >>".encode(),
        f"<< /Length {len(stream)} /Filter /FlateDecode >>\nstream\n".encode() + stream + b"\nendstream",
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    out = bytearray(b"%PDF-1.4\n%\xe2\xe3\xcf\xd3\n")
    offsets = []
    for number, item in enumerate(objects, 1):
        offsets.append(len(out))
        out += f"{number} 0 obj\n".encode() + item + b"\nendobj\n"
    start = len(out)
    out += f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n".encode()
    out += b"".join(f"{offset:010d} 00000 n \n".encode() for offset in offsets)
    out += f"trailer\n<< /Size {len(objects) + 1} /Root 1 0 R >>\nstartxref\n{start}\n%%EOF\n".encode()
    return bytes(out)


def _ruler(width_mm: float, base: float) -> list[Rectangle]:
    """Bars of a ruler of 100 mm, in mm from the top left of the sheet: the ends are the outer edges."""
    right = width_mm - _EDGE_MM
    left = right - _RULER_MM
    ends = [(left, base - 2.5, 0.3, 2.5), (right - 0.3, base - 2.5, 0.3, 2.5)]
    bars: list[Rectangle] = [(left, base - 0.3, _RULER_MM, 0.3), *ends]
    return bars + [(left + 10 * i - 0.1, base - 1.5, 0.2, 1.5) for i in range(1, 10)]


def _png(board: Board, width_mm: float, height_mm: float, dpi: int) -> bytes:
    """One grey channel; every square is a whole number of pixels, and the size of a pixel is written so
    that the square is exact."""
    import cv2

    unit = max(4, round(board.square_m / 0.0254 * dpi))
    per_m = unit / board.square_m
    k = per_m / 1000
    image = np.full((round(height_mm * k), round(width_mm * k)), 255, np.uint8)
    left, top = (round(edge * k) for edge in _place(board, width_mm, height_mm))
    ink = 255 if board.inverted else 0
    wide, high = (round(side * per_m) for side in board.size_m)
    if board.inverted:
        rim = round(5 * k)
        image[max(top - rim, 0) : top + high + rim, max(left - rim, 0) : left + wide + rim] = 0
    for x, y, w, h in black_rectangles(board):
        # The lower edge of a bit and the upper one of the next must meet where half a pixel is rounded.
        a, b, c, d = (int(np.floor(edge * per_m + 0.5 + 1e-6)) for edge in (x, y, x + w, y + h))
        image[top + b : top + d, left + a : left + c] = ink
    base = height_mm - 4.0
    for x, y, w, h in _ruler(width_mm, base):
        rows = slice(round(y * k), max(round((y + h) * k), round(y * k) + 1))
        image[rows, round(x * k) : max(round((x + w) * k), round(x * k) + 1)] = 0
    text = _words(board) + ")"
    size, thick = cv2.getTextSize(text, cv2.FONT_HERSHEY_SIMPLEX, 1.0, 2)[0], max(1, round(0.12 * k))
    scale = min(2.2 * k / size[1] * 0.9, (width_mm - 2 * _EDGE_MM - _RULER_MM - 4) * k / size[0])
    place = (round(_EDGE_MM * k), round(base * k))
    cv2.putText(image, text, place, cv2.FONT_HERSHEY_SIMPLEX, scale, 0, thick, cv2.LINE_AA)
    data = cv2.imencode(".png", image, [cv2.IMWRITE_PNG_COMPRESSION, 9])[1].tobytes()
    return _with_density(data, per_m)


def _with_density(png: bytes, per_m: float) -> bytes:
    """The PNG with a pHYs chunk after its header (replacing one that is there): pixels per metre."""
    head, rest = png[:33], png[33:]
    while rest[4:8] == b"pHYs":
        rest = rest[21:]
    body = b"pHYs" + struct.pack(">IIB", round(per_m), round(per_m), 1)
    return head + struct.pack(">I", 9) + body + struct.pack(">I", zlib.crc32(body)) + rest
