"""Small plots for a page, as inline SVG that takes its colours from the page's style sheet."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape

LETTER = 8.0  # width of a letter of the plots' text, about
ROW, BAR, GAP = 22, 14, 10


def bars(counts: Mapping[str, int], title: str, even: bool = True) -> str:
    """A bar for each name, its count at the end; even: a line where all would be equal."""
    if not counts:
        return ""
    left = min(240.0, 12 + LETTER * max(len(name) for name in counts))
    width, right = 460.0, 46.0
    most = max(1, *counts.values())
    scale = (width - left - right) / most
    height = ROW * len(counts) + 6
    parts = [_open(width, height, title)]
    for number, (name, count) in enumerate(counts.items()):
        y = ROW * number + 4
        parts.append(
            f'<text class="name" x="{left - 8:.1f}" y="{y + 11}" text-anchor="end">{escape(name)}</text>'
        )
        parts.append(f'<rect class="bar" x="{left:.1f}" y="{y}" width="{count * scale:.1f}" height="{BAR}"/>')
        parts.append(f'<text class="count" x="{left + count * scale + 5:.1f}" y="{y + 11}">{count}</text>')
    if even and len(counts) > 1:
        x = left + scale * sum(counts.values()) / len(counts)
        parts.append(f'<path class="mean" d="M{x:.1f} 0V{height}"/>')
    return "".join(parts) + "</svg>"


def histogram(values: Sequence[float], title: str, unit: str, bins: int = 16) -> str:
    """How often values fall into equal intervals from the smallest to the largest, rounded outwards."""
    if not values:
        return ""
    low, high, step = _range(min(values), max(values), bins)
    number = max(1, round((high - low) / step))
    heights = [0] * number
    for value in values:
        heights[min(number - 1, int((value - low) / step + 1e-9))] += 1
    width, height, left, bottom = 460.0, 150.0, 34.0, 30.0
    across, up = (width - left - 14) / number, (height - bottom - 16) / max(heights)
    floor = height - bottom
    parts = [_open(width, height, title)]
    for at, count in enumerate(heights):
        if count:
            parts.append(
                f'<rect class="bar" x="{left + at * across + 0.5:.1f}" y="{floor - count * up:.1f}" '
                f'width="{across - 1:.1f}" height="{count * up:.1f}"><title>{low + at * step:g} to '
                f"{low + (at + 1) * step:g} {escape(unit)}: {count}</title></rect>"
            )
    parts.append(f'<path class="axis" d="M{left} {floor}H{width - 10}"/>')
    for at in range(0, number + 1, max(1, math.ceil(number / 6))):
        x = left + at * across
        parts.append(f'<path class="axis" d="M{x:.1f} {floor}v4"/>')
        words = f"{low + at * step:g}"
        parts.append(
            f'<text class="scale-at" x="{x:.1f}" y="{floor + 16}" text-anchor="middle">{words}</text>'
        )
    parts.append(
        f'<text class="scale-at" x="{left - 6}" y="{floor - max(heights) * up + 8:.1f}" text-anchor="end">'
        f"{max(heights)}</text>"
        f'<text class="scale-at" x="{width - 10}" y="{height - 1}" text-anchor="end">{escape(unit)}</text>'
    )
    return "".join(parts) + "</svg>"


def grid(
    rows: Sequence[str], columns: Sequence[str], counts: Mapping[tuple[str, str], int], title: str
) -> str:
    """A number for each pair, darker where it is larger; pairs that cannot be are not in `counts`."""
    left = 12 + LETTER * max(len(row) for row in rows)
    wide = max(54.0, 14 + LETTER * max(len(column) for column in columns))
    width, height = left + wide * len(columns) + 4, 26 + 30 * len(rows)
    most = max(1, *counts.values()) if counts else 1
    parts = [_open(width, height, title)]
    for at, column in enumerate(columns):
        x = left + wide * (at + 0.5)
        parts.append(f'<text class="name" x="{x:.1f}" y="15" text-anchor="middle">{escape(column)}</text>')
    for down, row in enumerate(rows):
        y = 24 + 30 * down
        parts.append(
            f'<text class="name" x="{left - 8:.1f}" y="{y + 19}" text-anchor="end">{escape(row)}</text>'
        )
        for at, column in enumerate(columns):
            x, count = left + wide * at, counts.get((row, column))
            if count is None:
                continue
            shade = 0.0 if count == 0 else 0.12 + 0.38 * count / most
            parts.append(
                f'<rect class="cell" x="{x + 1:.1f}" y="{y}" width="{wide - 2:.1f}" height="28" rx="3" '
                f'fill-opacity="{shade:.2f}"/>'
                f'<text class="in" x="{x + wide / 2:.1f}" y="{y + 19}" text-anchor="middle">{count}</text>'
            )
    return "".join(parts) + "</svg>"


def _open(width: float, height: float, title: str) -> str:
    return (
        f'<svg class="chart" viewBox="0 0 {width:.0f} {height:.0f}" style="max-width:{width:.0f}px" '
        f'role="img"><title>{escape(title)}</title>'
    )


def _range(low: float, high: float, bins: int) -> tuple[float, float, float]:
    """Round limits and a round step, for about that many intervals."""
    span = max(high - low, abs(high) * 1e-3, 1e-9)
    if high == low:  # one value: an interval around it
        span = max(abs(high) * 0.5, 1e-3)
    power = 10 ** math.floor(math.log10(span / bins))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= span / bins)
    start = math.floor(low / step + 1e-9) * step
    end = math.ceil(high / step - 1e-9) * step
    return start, max(end, start + step), step
