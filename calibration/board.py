"""Calibration boards: chessboard and ChArUco, in both layouts of OpenCV, described by one line of text.

A board is written as words, and every part of Hearth and every printed sheet uses the same ones:

    chessboard 9x6 25mm                      9 x 6 inner corners, squares of 25 mm
    charuco 5x7 40mm 20mm 6x6_250            5 x 7 squares, markers of 20 mm, ArUco dictionary
    charuco 4x5 54mm 40.5mm 4x4_1000 legacy inverted

The two kinds count as OpenCV does: a chessboard by its inner corners, a ChArUco board by its squares. The
frame of a board: origin at the outer corner of its top left square, x along the columns, y along the rows
(down), z away from the viewer; metres.

Layouts. Up to OpenCV 4.5, and in files made for it (calib.io), a ChArUco board with an even number of rows
begins with a white square at the top left; newer ones always begin with a black one. `legacy` says which.
The two do not differ for odd rows.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from dsp.errors import InputError

Kind = Literal["chessboard", "charuco"]
BLACK, WHITE = -1, -2
# Sizes of the predefined ArUco dictionaries.
_DICTIONARIES = tuple(f"{n}x{n}_{size}" for n in (4, 5, 6, 7) for size in (50, 100, 250, 1000))
_OTHER_DICTIONARIES = (
    "aruco_original",
    "aruco_mip_36h12",
    "apriltag_36h11",
    "apriltag_25h9",
    "apriltag_16h5",
)


@dataclass(frozen=True, slots=True)
class Board:
    """A flat board with known corners. Make one with `chessboard`, `charuco` or `parse`.

    columns, rows: inner corners of a chessboard, squares of a ChArUco board.
    square_m, marker_m: sides in metres (marker_m is 0 for a chessboard).
    dictionary: ArUco dictionary as in "5x5_50". legacy: the layout of OpenCV up to 4.5.
    inverted: white on black.
    """

    kind: Kind
    columns: int
    rows: int
    square_m: float
    marker_m: float = 0.0
    dictionary: str = ""
    legacy: bool = False
    inverted: bool = False

    @classmethod
    def chessboard(cls, columns: int, rows: int, square_m: float, *, inverted: bool = False) -> Board:
        """A chessboard of `columns` x `rows` inner corners. Raises InputError."""
        if min(columns, rows) < 3 or max(columns, rows) > 100:
            raise InputError(f"a chessboard needs 3 to 100 inner corners each way, not {columns}x{rows}")
        return cls("chessboard", columns, rows, _side("square", square_m), inverted=inverted)

    @classmethod
    def charuco(
        cls,
        columns: int,
        rows: int,
        square_m: float,
        marker_m: float,
        dictionary: str = "",
        *,
        legacy: bool = False,
        inverted: bool = False,
    ) -> Board:
        """A ChArUco board of `columns` x `rows` squares; the smallest 5x5 dictionary unless one is named.

        Raises InputError for sizes that cannot be and for a dictionary without enough markers.
        """
        if min(columns, rows) < 3 or max(columns, rows) > 60:
            raise InputError(f"a ChArUco board needs 3 to 60 squares each way, not {columns}x{rows}")
        _side("square", square_m)
        if not 0.3 * square_m <= _side("marker", marker_m) <= 0.95 * square_m:
            raise InputError(
                f"a marker of {marker_m * 1e3:g} mm does not suit a square of {square_m * 1e3:g} mm; "
                "0.3 to 0.95 of its side is usable, 0.7 is good"
            )
        needed = columns * rows // 2
        fitting = [d for d in _DICTIONARIES if d.startswith("5x5") and int(d.split("_")[1]) >= needed]
        if not dictionary and not fitting:
            raise InputError(f"{columns}x{rows} squares need {needed} markers; no dictionary has so many")
        name = _dictionary_name(dictionary or fitting[0])
        board = cls("charuco", columns, rows, square_m, marker_m, name, legacy, inverted)
        size = len(aruco_dictionary(name).bytesList)
        if size < needed:
            raise InputError(f"{columns}x{rows} squares need {needed} markers; {name} has only {size}")
        return board

    @classmethod
    def parse(cls, text: str) -> Board:
        """A board from its words (see the module); a size needs its unit. Raises InputError."""
        words = text.strip().lower().split()
        how = (
            'a board is written like "chessboard 9x6 25mm" (inner corners) or '
            '"charuco 5x7 40mm 20mm 6x6_250" (squares)'
        )
        if not words or words[0] not in ("chessboard", "charuco"):
            raise InputError(f"unknown board {text!r}; {how}")
        flags = {word for word in words[1:] if word in ("legacy", "inverted")}
        rest = [word for word in words[1:] if word not in flags]
        counts = [m for word in rest if (m := re.fullmatch(r"(\d+)x(\d+)", word))]
        sizes = [_length_m(word) for word in rest if re.fullmatch(r"[\d.]+(mm|cm|m|in)", word)]
        others = [w for w in rest if not re.fullmatch(r"(\d+)x(\d+)|[\d.]+(mm|cm|m|in)", w)]
        chess = words[0] == "chessboard"
        if len(counts) != 1 or len(sizes) != (1 if chess else 2) or len(others) > (0 if chess else 1):
            raise InputError(f"cannot read the board {text!r}; {how}")
        columns, rows = int(counts[0][1]), int(counts[0][2])
        if chess:
            if "legacy" in flags:
                raise InputError(f"{text!r}: only a ChArUco board has a legacy layout")
            return cls.chessboard(columns, rows, sizes[0], inverted="inverted" in flags)
        return cls.charuco(
            columns, rows, max(sizes), min(sizes), others[0] if others else "",
            legacy="legacy" in flags, inverted="inverted" in flags,
        )  # fmt: skip

    def __str__(self) -> str:
        """The words that `parse` reads."""
        words = [self.kind, f"{self.columns}x{self.rows}", _millimetres(self.square_m)]
        if self.kind == "charuco":
            words += [_millimetres(self.marker_m), self.dictionary]
        words += ["legacy"] * self.legacy + ["inverted"] * self.inverted
        return " ".join(words)

    @property
    def squares(self) -> tuple[int, int]:
        """Squares (across, down)."""
        extra = 1 if self.kind == "chessboard" else 0
        return self.columns + extra, self.rows + extra

    @property
    def corner_grid(self) -> tuple[int, int]:
        """Inner corners (across, down)."""
        across, down = self.squares
        return across - 1, down - 1

    @property
    def size_m(self) -> tuple[float, float]:
        """Width and height of the pattern in metres, without its margin."""
        across, down = self.squares
        return across * self.square_m, down * self.square_m

    @property
    def corners_m(self) -> NDArray[np.float64]:
        """Inner corners (n, 3) in the board's frame, row by row; corner i has the id i."""
        across, down = self.corner_grid
        x, y = np.meshgrid(np.arange(1, across + 1), np.arange(1, down + 1))
        flat = np.stack([x.ravel(), y.ravel(), np.zeros(x.size)], axis=1)
        return np.asarray(flat * self.square_m, dtype=np.float64)

    @property
    def layouts_differ(self) -> bool:
        """Whether `legacy` changes this board: only ChArUco boards with an even number of rows."""
        return self.kind == "charuco" and self.rows % 2 == 0

    def other_layout(self) -> Board:
        """The same board in the other layout."""
        return replace(self, legacy=not self.legacy)

    def cells(self) -> NDArray[np.int32]:
        """(rows, columns) of squares: BLACK, WHITE, or the id of the marker in a white square.

        Before `inverted` is applied.
        """
        across, down = self.squares
        row, column = np.mgrid[0:down, 0:across]
        if self.kind == "chessboard":
            return np.where((row + column) % 2 == 0, BLACK, WHITE).astype(np.int32)
        # Markers are counted row by row over the white squares, in both layouts.
        first_is_white = self.legacy and self.rows % 2 == 0
        white = (row + column) % 2 == (0 if first_is_white else 1)
        cells = np.full((down, across), BLACK, np.int32)
        cells[white] = np.arange(np.count_nonzero(white))
        return cells

    def marker_bits(self) -> NDArray[np.uint8]:
        """(markers, n, n) of the ArUco markers with their black border: 0 black, 1 white."""
        import cv2

        if self.kind == "chessboard":
            return np.zeros((0, 1, 1), np.uint8)
        dictionary = aruco_dictionary(self.dictionary)
        side = dictionary.markerSize + 2
        count = int(self.cells().max()) + 1
        images = [cv2.aruco.generateImageMarker(dictionary, i, side, borderBits=1) for i in range(count)]
        return (np.stack(images) > 127).astype(np.uint8)

    def opencv(self) -> Any:
        """The `cv2.aruco.CharucoBoard`. Raises InputError for a chessboard."""
        import cv2

        if self.kind != "charuco":
            raise InputError("a chessboard has no ArUco markers")
        board = cv2.aruco.CharucoBoard(
            (self.columns, self.rows), self.square_m, self.marker_m, aruco_dictionary(self.dictionary)
        )
        board.setLegacyPattern(self.legacy)
        return board


def aruco_dictionary(name: str) -> Any:
    """The `cv2.aruco.Dictionary` of a name as in "5x5_50". Raises InputError."""
    import cv2

    wanted = "DICT_" + _dictionary_name(name)
    code = next(value for key, value in vars(cv2.aruco).items() if key.lower() == wanted.lower())
    return cv2.aruco.getPredefinedDictionary(code)


def _dictionary_name(name: str) -> str:
    plain = name.lower().removeprefix("dict_")
    if plain not in _DICTIONARIES + _OTHER_DICTIONARIES:
        known = ", ".join(_DICTIONARIES + _OTHER_DICTIONARIES)
        raise InputError(f"unknown ArUco dictionary {name!r}; there are {known}")
    return plain


def _side(what: str, metres: float) -> float:
    if not 1e-4 <= metres <= 10.0:
        raise InputError(f"a {what} of {metres!r} m cannot be; sides are in metres, 0.0001 to 10")
    return metres


def _length_m(word: str) -> float:
    number, unit = re.fullmatch(r"([\d.]+)(mm|cm|m|in)", word).groups()  # type: ignore[union-attr]
    try:
        value = float(number)
    except ValueError:
        raise InputError(f"{word!r} is no length") from None
    # Divided, not multiplied: 25 mm must be the float 0.025.
    return {"mm": value / 1000, "cm": value / 100, "m": value, "in": value * 0.0254}[unit]


def _millimetres(metres: float) -> str:
    """The shortest millimetres that `parse` turns back into the same float, else exact metres."""
    for digits in range(1, 15):
        word = f"{metres * 1000:.{digits}g}"
        if "e" not in word and float(word) / 1000 == metres:
            return f"{word}mm"
    return f"{metres!r}m"
