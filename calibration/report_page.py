"""A small toolkit for one-page reports: title, verdict, facts, tables, pictures; one file, nothing fetched.

page = ReportPage("Camera calibration", "front door camera")
page.verdict(True, "good to use")
page.facts([("focal length", "533.0 ± 0.4 px")])
page.picture(image_bgr, "the first view")
page.svg(heat_map(values, "uncertainty of projection", "px"))
page.write("camera.html")
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from recordings.canvas import SvgCanvas
from recordings.storage import storage_errors, utc_now, write_atomic

_STYLE = """
:root { --ink: #211f1c; --soft: #6b665e; --line: #ddd8ce; --ground: #fbfaf7; --good: #1f7a4d; --bad: #b3261e;
        --card: #ffffff; }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 66rem; padding: 2rem 1.2rem 4rem; background: var(--ground);
       color: var(--ink); font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Liberation Sans",
       Arial, sans-serif; }
h1 { font-size: 1.7rem; margin: 0 0 .1rem; }
h2 { font-size: 1.15rem; margin: 2rem 0 .6rem; }
p { margin: .4rem 0; max-width: 46rem; }
.soft, figcaption { color: var(--soft); font-size: .88rem; }
.verdict { display: inline-block; margin: .9rem 0 .4rem; padding: .35rem .8rem; border-radius: .4rem;
           color: #fff; font-weight: 600; }
.good { background: var(--good); } .bad { background: var(--bad); } .plain { background: #5b6470; }
ul.notes { margin: .4rem 0; padding-left: 1.2rem; max-width: 50rem; }
table { border-collapse: collapse; background: var(--card); font-variant-numeric: tabular-nums; }
th, td { padding: .3rem .7rem; border-bottom: 1px solid var(--line); text-align: left; vertical-align: top; }
th { color: var(--soft); font-weight: 500; }
td.number { text-align: right; }
.wide { overflow-x: auto; }
.row { display: flex; flex-wrap: wrap; gap: 1rem; align-items: flex-start; margin: 1rem 0; }
figure { margin: 0; flex: 0 1 30.4rem; background: var(--card); border: 1px solid var(--line);
         border-radius: .4rem;
         padding: .5rem; max-width: 100%; }
figure svg, figure img { max-width: 100%; height: auto; display: block; }
figcaption { padding: .4rem .2rem 0; max-width: 34rem; }
"""
# From dark blue over green to yellow (close to "viridis": even steps of brightness, also for colour-blind).
_RAMP = np.array(
    [[68, 1, 84], [65, 68, 135], [42, 120, 142], [34, 168, 132], [122, 209, 81], [253, 231, 37]], np.float64
)


class ReportPage:
    """Collects the parts of a page; `html` puts them together. All text is escaped."""

    def __init__(self, title: str, subtitle: str = "") -> None:
        self.title, self.subtitle = title, subtitle
        self._parts: list[str] = []
        self._row = False

    def verdict(self, good: bool | None, text: str) -> None:
        """The one thing to know, on green (True), red (False) or grey (None)."""
        kind = "plain" if good is None else "good" if good else "bad"
        self._add(f'<div class="verdict {kind}">{escape(text)}</div>')

    def heading(self, text: str) -> None:
        """A heading of a part."""
        self._add(f"<h2>{escape(text)}</h2>")

    def text(self, words: str, soft: bool = False) -> None:
        """A paragraph; `soft` is smaller and grey."""
        kind = ' class="soft"' if soft else ""
        self._add(f"<p{kind}>{escape(words)}</p>")

    def notes(self, items: Sequence[str]) -> None:
        """A list of remarks; nothing for an empty one."""
        if items:
            self._add('<ul class="notes">' + "".join(f"<li>{escape(i)}</li>" for i in items) + "</ul>")

    def facts(self, rows: Sequence[tuple[str, str]]) -> None:
        """Names and values, one pair a line."""
        lines = (f"<tr><th>{escape(name)}</th><td>{escape(value)}</td></tr>" for name, value in rows)
        self._add(f"<table>{''.join(lines)}</table>")

    def table(self, heads: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        """A table; numbers stand to the right."""
        head = "".join(f"<th>{escape(h)}</th>" for h in heads)
        lines = []
        for row in rows:
            cells = []
            for cell in row:
                kind = ' class="number"' if isinstance(cell, int | float) else ""
                cells.append(f"<td{kind}>{escape(str(cell))}</td>")
            lines.append(f"<tr>{''.join(cells)}</tr>")
        self._add(f'<div class="wide"><table><tr>{head}</tr>{"".join(lines)}</table></div>')

    def begin_row(self) -> None:
        """The figures that follow stand side by side, until `end_row`."""
        self._parts.append('<div class="row">')
        self._row = True

    def end_row(self) -> None:
        """Ends `begin_row`."""
        if self._row:
            self._parts.append("</div>")
            self._row = False

    def svg(self, drawing: str | bytes, caption: str = "") -> None:
        """A drawing as SVG text (of `SvgCanvas`, `heat_map`)."""
        text = drawing.decode() if isinstance(drawing, bytes) else drawing
        self._figure(text, caption)

    def picture(self, image_bgr: NDArray[np.uint8], caption: str = "", width_px: int | None = None) -> None:
        """A picture (rows, columns[, 3]) uint8, grey or BGR, embedded as JPEG, no wider than `width_px`."""
        import cv2

        image = image_bgr
        if width_px is not None and image.shape[1] > width_px:
            size = (width_px, max(1, round(image.shape[0] * width_px / image.shape[1])))
            image = np.asarray(cv2.resize(image, size, interpolation=cv2.INTER_AREA))
        data = cv2.imencode(".jpg", image, [cv2.IMWRITE_JPEG_QUALITY, 85])[1].tobytes()
        source = "data:image/jpeg;base64," + base64.b64encode(data).decode()
        self._figure(f'<img alt="{escape(caption, quote=True)}" src="{source}">', caption)

    def html(self) -> str:
        """The whole page."""
        self.end_row()
        sub = f'<p class="soft">{escape(self.subtitle)}</p>' if self.subtitle else ""
        return (
            '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
            '<meta name="viewport" content="width=device-width, initial-scale=1">'
            f"<title>{escape(self.title)}</title><style>{_STYLE}</style></head><body>"
            f"<h1>{escape(self.title)}</h1>{sub}{''.join(self._parts)}"
            f'<p class="soft">Written by Hearth, {utc_now()}.</p></body></html>\n'
        )

    def write(self, path: str | Path) -> Path:
        """Write the page. Raises StorageError."""
        target = Path(path)
        with storage_errors(target.parent, "make"):
            target.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(target, self.html().encode("utf-8", "replace"))
        return target

    def _add(self, html: str) -> None:
        self.end_row()
        self._parts.append(html + "\n")

    def _figure(self, html: str, caption: str) -> None:
        note = f"<figcaption>{escape(caption)}</figcaption>" if caption else ""
        self._parts.append(f"<figure>{html}{note}</figure>\n")


def ramp(share: ArrayLike) -> NDArray[np.uint8]:
    """Colours (..., 3) RGB of 0 (dark) to 1 (bright); grey for nan."""
    value = np.asarray(share, dtype=np.float64)
    place = np.clip(np.nan_to_num(value), 0, 1) * (len(_RAMP) - 1)
    low = np.minimum(place.astype(int), len(_RAMP) - 2)
    mixed = _RAMP[low] + (place - low)[..., None] * (_RAMP[low + 1] - _RAMP[low])
    mixed[np.isnan(value)] = 200
    return np.asarray(np.rint(mixed), dtype=np.uint8)


def heat_map(
    values: NDArray[Any],
    title: str,
    unit: str,
    *,
    aspect: float = 16 / 9,
    top: float | None = None,
    digits: int = 2,
) -> str:
    """Values (rows, columns) over a picture as SVG: coloured cells with their numbers, nan left grey.

    aspect: width by height of the picture. top: the value of the brightest colour, else the largest one.
    """
    rows, columns = values.shape
    width = 560
    height = round(width / aspect)
    drawing = SvgCanvas(width + 20, height + 44, title)
    drawing.text(10, 18, f"{title}, {unit}" if unit else title, 13, bold=True)
    known = values[np.isfinite(values)]
    largest = top if top is not None else float(known.max()) if known.size else 1.0
    cell_w, cell_h = width / columns, height / rows
    size = min(11.0, cell_w / 3.3, cell_h / 1.6)
    for r in range(rows):
        for c in range(columns):
            value = float(values[r, c])
            red, green, blue = (int(v) for v in ramp(value / max(largest, 1e-12)))
            x, y = 10 + c * cell_w, 28 + r * cell_h
            drawing.box(x, y, cell_w + 0.3, cell_h + 0.3, f"#{red:02x}{green:02x}{blue:02x}")
            if np.isfinite(value):
                ink = "#ffffff" if 0.3 * red + 0.59 * green + 0.11 * blue < 140 else "#211f1c"
                words = f"{value:.{digits}f}" if abs(value) < 100 else f"{value:.0f}"
                drawing.text(x + cell_w / 2, y + cell_h / 2 + size * 0.35, words, size, ink, "middle")
    return drawing.data().decode()
