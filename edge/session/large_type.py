"""Large letters for a terminal that is read from across the room: 5 x 7 dots, two dots per character cell."""

from __future__ import annotations

# Rows from top to bottom, five bits each, the leftmost dot highest.
_FONT: dict[str, tuple[int, ...]] = {
    " ": (0, 0, 0, 0, 0, 0, 0),
    "A": (14, 17, 17, 31, 17, 17, 17),
    "B": (30, 17, 17, 30, 17, 17, 30),
    "C": (14, 17, 16, 16, 16, 17, 14),
    "D": (30, 17, 17, 17, 17, 17, 30),
    "E": (31, 16, 16, 30, 16, 16, 31),
    "F": (31, 16, 16, 30, 16, 16, 16),
    "G": (14, 17, 16, 23, 17, 17, 14),
    "H": (17, 17, 17, 31, 17, 17, 17),
    "I": (14, 4, 4, 4, 4, 4, 14),
    "J": (7, 2, 2, 2, 2, 18, 12),
    "K": (17, 18, 20, 24, 20, 18, 17),
    "L": (16, 16, 16, 16, 16, 16, 31),
    "M": (17, 27, 21, 21, 17, 17, 17),
    "N": (17, 25, 21, 21, 19, 17, 17),
    "O": (14, 17, 17, 17, 17, 17, 14),
    "P": (30, 17, 17, 30, 16, 16, 16),
    "Q": (14, 17, 17, 17, 21, 18, 13),
    "R": (30, 17, 17, 30, 20, 18, 17),
    "S": (15, 16, 16, 14, 1, 1, 30),
    "T": (31, 4, 4, 4, 4, 4, 4),
    "U": (17, 17, 17, 17, 17, 17, 14),
    "V": (17, 17, 17, 17, 17, 10, 4),
    "W": (17, 17, 17, 21, 21, 27, 17),
    "X": (17, 17, 10, 4, 10, 17, 17),
    "Y": (17, 17, 10, 4, 4, 4, 4),
    "Z": (31, 1, 2, 4, 8, 16, 31),
    "0": (14, 17, 19, 21, 25, 17, 14),
    "1": (4, 12, 4, 4, 4, 4, 14),
    "2": (14, 17, 1, 6, 8, 16, 31),
    "3": (14, 17, 1, 6, 1, 17, 14),
    "4": (2, 6, 10, 18, 31, 2, 2),
    "5": (31, 16, 30, 1, 1, 17, 14),
    "6": (6, 8, 16, 30, 17, 17, 14),
    "7": (31, 1, 2, 4, 8, 8, 8),
    "8": (14, 17, 17, 14, 17, 17, 14),
    "9": (14, 17, 17, 15, 1, 2, 12),
    ".": (0, 0, 0, 0, 0, 12, 12),
    ",": (0, 0, 0, 0, 12, 4, 8),
    "?": (14, 17, 1, 2, 4, 0, 4),
    "!": (4, 4, 4, 4, 4, 0, 4),
    "'": (4, 4, 8, 0, 0, 0, 0),
    "-": (0, 0, 0, 31, 0, 0, 0),
    ":": (0, 12, 12, 0, 12, 12, 0),
    "%": (25, 25, 2, 4, 8, 19, 19),
    "/": (1, 1, 2, 4, 8, 16, 16),
    "\N{DEGREE SIGN}": (12, 18, 12, 0, 0, 0, 0),
}
_CELLS = 6  # of one letter, with the gap after it
_HALVES = {  # (upper dot, lower dot)
    (0, 0): " ",
    (1, 0): "\N{UPPER HALF BLOCK}",
    (0, 1): "\N{LOWER HALF BLOCK}",
    (1, 1): "\N{FULL BLOCK}",
}


def large(text: str, width: int, most_lines: int = 3) -> list[str] | None:
    """The text as rows of block characters, wrapped between words; None where it does not fit in `width`
    cells and `most_lines` lines, or has letters that the font does not know: it is shown plainly then."""
    words = text.upper().replace("\N{RIGHT SINGLE QUOTATION MARK}", "'").split()
    across = (width + 1) // _CELLS
    lines: list[str] = []
    for word in words:
        if any(letter not in _FONT for letter in word) or len(word) > across:
            return None
        if lines and len(lines[-1]) + 1 + len(word) <= across:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    if not lines or len(lines) > most_lines:
        return None
    rows: list[str] = []
    for line in lines:
        rows += [*_rows(line), ""]
    return rows[:-1]


def _rows(line: str) -> list[str]:
    dots = [[_FONT[letter][row] if row < 7 else 0 for letter in line] for row in range(8)]
    rows = []
    for upper, lower in zip(dots[::2], dots[1::2], strict=True):
        cells = []
        for above, below in zip(upper, lower, strict=True):
            cells += [_HALVES[above >> bit & 1, below >> bit & 1] for bit in range(4, -1, -1)]
            cells.append(" ")
        rows.append("".join(cells).rstrip())
    return rows
