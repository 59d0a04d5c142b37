"""The plots over time: outlines of the channels, spectrogram, azimuth, elevation and the band of events.

Each plot is an SVG that is stretched to the width of the page (`preserveAspectRatio="none"`), with lines and
dots that keep their thickness and labels that are text of the page. So all plots share one time axis at any
width, and a cursor at `time / duration` of the width lies right on all of them. Colours come from the style
sheet.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass, replace
from html import escape
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from recordings.report_model import DirectionTrack, Facts, Mark, TalkerPath, TrueSource
from recordings.report_sound import RANGE_DB, Sound, mel_from_hz

WIDTH = 10_000  # units of the time axis in every SVG
MAX_DOTS = 3000
LETTER = 0.0072  # width of a letter of an event's text as a share of the axis, on a desktop
# Confidence bins: lower edge, thickness of the dot in CSS pixels, opacity.
BINS = ((0.0, 3.5, 0.45), (0.25, 4.5, 0.65), (0.5, 6.0, 0.85), (0.75, 7.5, 1.0))


def _heat(name: str, colours: str) -> str:
    """An SVG filter that maps grey to these colours (hexadecimal, from dark to bright of the picture)."""
    rgb = [[int(c[i : i + 2], 16) / 255 for c in colours.split()] for i in (0, 2, 4)]
    functions = "".join(
        f'<feFunc{letter} type="table" tableValues="{" ".join(f"{v:.3f}" for v in values)}"></feFunc{letter}>'
        for letter, values in zip("RGB", rgb, strict=True)
    )
    return (
        f'<filter id="{name}" color-interpolation-filters="sRGB"><feComponentTransfer>{functions}'
        "</feComponentTransfer></filter>"
    )


HEAT = (
    '<svg class="no-map" aria-hidden="true">'
    + _heat("heat-light", "ffffff fdeebf fdbf57 e8731a 9a3a08 2e1004")
    + _heat("heat-dark", "201f1c 4a1f0e a23c08 ee7f1a ffd07a fff8e2")
    + "</svg>"
)


def clock(seconds: float) -> str:
    """A time for people: 4.2 s, 3:05.0, 1:02:03."""
    tenths = round(max(0.0, seconds) * 10)
    if tenths < 600:
        return f"{tenths / 10:.1f} s"
    if tenths < 36_000:
        return f"{tenths // 600}:{tenths % 600 / 10:04.1f}"
    whole = round(seconds)
    return f"{whole // 3600}:{whole % 3600 // 60:02d}:{whole % 60:02d}"


def time_ticks(duration_s: float, most: int = 13) -> list[float]:
    """Round times from 0 on, at most `most` of them."""
    steps = (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14400)
    step = next((s for s in steps if duration_s / s < most), duration_s / (most - 1) or 1.0)
    return [float(t) for t in np.arange(0.0, duration_s + 1e-9, step)]


def tick_label(seconds: float, duration_s: float) -> str:
    """A label of the time axis: seconds for short recordings, minutes for long ones."""
    if duration_s < 120:
        return f"{seconds:g}"
    whole = round(seconds)
    if duration_s < 3600:
        return f"{whole // 60}:{whole % 60:02d}"
    return f"{whole // 3600}:{whole % 3600 // 60:02d}:{whole % 60:02d}"


def percent(time_s: float, duration_s: float) -> str:
    """Where a time lies on the axis, for CSS."""
    return f"{100.0 * min(max(time_s / duration_s, 0.0), 1.0):.3f}%"


def track(
    name: str, unit: str, height: int, labels: list[tuple[float, str]], inner: str, kind: str = ""
) -> str:
    """One row: title and labels (position from the top in percent, text) on the left, plot on the right."""
    marks = "".join(
        f'<span class="tick" style="top:{top:.2f}%">{escape(text)}</span>' for top, text in labels
    )
    return (
        f'<div class="track {kind}"><div class="gutter"><span class="name">{escape(name)}'
        f'<small>{escape(unit)}</small></span><div class="ticks">{marks}</div></div>'
        f'<div class="plot" style="height:{height}px">{inner}</div></div>'
    )


def svg(height: int, inner: str, label: str) -> str:
    """A stretched drawing WIDTH wide."""
    return (
        f'<svg viewBox="0 0 {WIDTH} {height}" preserveAspectRatio="none" role="img" '
        f'aria-label="{escape(label, quote=True)}">{inner}</svg>'
    )


def time_grid(duration_s: float, height: int) -> str:
    """Faint vertical lines at the round times."""
    path = "".join(f"M{WIDTH * t / duration_s:.0f} 0V{height}" for t in time_ticks(duration_s))
    return f'<path class="grid" d="{path}"/>'


def axis_row(duration_s: float) -> str:
    """The labels of the time axis."""
    unit = "s" if duration_s < 120 else ("min:s" if duration_s < 3600 else "h:min:s")
    ticks = time_ticks(duration_s)
    labels = "".join(
        f'<span class="{"odd" if i % 2 else "even"}" style="left:{percent(t, duration_s)}">'
        f"{tick_label(t, duration_s)}</span>"
        for i, t in enumerate(ticks)
    )
    return (
        f'<div class="track axis"><div class="gutter"><span class="name">time <small>{unit}</small></span>'
        "</div>"
        f'<div class="plot">{labels}</div></div>'
    )


def outlines(sound: Sound, duration_s: float) -> str:
    """One row per channel, all on one scale: the loudest sample of all channels fills a row."""
    peak = float(max(np.abs(sound.low).max(), np.abs(sound.high).max(), 1e-9))
    scale = f"{20 * np.log10(peak):.0f} dBFS".replace("-", "−") if peak > 1e-6 else "silent"
    meaning = {"W": "all around", "Y": "left–right", "Z": "up–down", "X": "front–back"}
    rows = []
    columns = sound.low.shape[1]
    # Columns cover the sound; the page may be longer (pictures after the sound).
    x = ((np.arange(columns) + 0.5) / columns * sound.duration_s / duration_s * WIDTH).astype(int)
    for channel, name in enumerate(sound.labels):
        top = np.rint(100 - 96 * sound.high[channel] / peak).astype(int)
        bottom = np.rint(100 - 96 * sound.low[channel] / peak).astype(int)
        there = "L".join(f"{a} {b}" for a, b in zip(x, top, strict=True))
        back = "L".join(f"{a} {b}" for a, b in zip(x[::-1], bottom[::-1], strict=True))
        inner = svg(
            200,
            f'{time_grid(duration_s, 200)}<path class="wave" d="M{there}L{back}Z"/>',
            f"Outline of channel {name}",
        )
        rows.append(track(name, meaning.get(name, "channel"), 44, [], inner, "wave-row"))
    head = f'<p class="scale">Channel outlines; full height is the loudest peak, {scale}.</p>'
    return head + "".join(rows)


def spectrogram(sound: Sound, duration_s: float) -> str:
    """The spectrogram of the first channel on a mel axis."""
    top_mel = float(mel_from_hz(sound.top_hz))
    hz = [f for f in (250, 500, 1000, 2000, 4000, 8000) if f < sound.top_hz * 0.97]
    labels = [
        (100 - 100 * float(mel_from_hz(f)) / top_mel, f"{f / 1000:g}k" if f >= 1000 else f"{f}") for f in hz
    ]
    image = base64.b64encode(sound.spectrogram).decode()
    share = 100 * sound.duration_s / duration_s
    inner = (
        f'<img class="spectrogram" alt="Spectrogram of {escape(sound.labels[0])}" style="width:{share:.3f}%" '
        f'src="data:image/jpeg;base64,{image}">'
    )
    legend = (
        f'<p class="scale">Spectrogram of {escape(sound.labels[0])}, mel-spaced; '
        f'<span class="ramp" aria-hidden="true"></span> −{RANGE_DB:.0f} to 0 dB against the loudest band.</p>'
    )
    return HEAT + legend + track("Frequency", "Hz", 150, labels, inner, "spectrum-row")


def decimated(track_: DirectionTrack, most: int = MAX_DOTS) -> NDArray[np.int64]:
    """Rows to draw: all, or of each group of neighbours the most confident active one."""
    count = len(track_)
    if count <= most:
        return np.arange(count)
    weight = np.where(track_.active, 1.0 + track_.confidence, track_.confidence * 0.0)
    edges = np.linspace(0, count, most + 1).astype(np.int64)
    return np.array([a + int(np.argmax(weight[a:b])) for a, b in pairwise(edges)])


def directions(facts: Facts, which: str) -> str:
    """Azimuth or elevation over time: dots for the measured direction, lines for the truth."""
    duration = facts.duration_s
    azimuth = which == "azimuth"
    span, step = (180, 90) if azimuth else (90, 45)
    height, pixels = 2 * span, (170 if azimuth else 100)
    label_text = {180: "±180", 90: "+90", 0: "0", -90: "−90", -180: ""} if azimuth else {}
    labels = [
        (100 * (span - v) / (2 * span), label_text.get(v, f"{v:+d}".replace("-", "−") if v else "0"))
        for v in range(-span, span + 1, step)
    ]
    parts = [time_grid(duration, height)]
    lines = "".join(f"M0 {span - v}H{WIDTH}" for v in range(-span + step, span, step))
    parts.append(f'<path class="grid" d="{lines}"/>')
    for source in facts.truth:
        parts.append(_truth_path(source, azimuth, span, duration))
    parts += [_talker_path(path, azimuth, span, duration) for path in facts.talkers]
    parts.append(_dots(facts.directions, azimuth, span, duration))
    inner = svg(height, "".join(parts), f"{which} over time")
    sides: tuple[tuple[int, str], ...]
    if azimuth:
        sides = ((2, "behind"), (25, "left"), (50, "front"), (75, "right"), (98, "behind"))
    else:
        sides = ((3, "above"), (50, "level"), (97, "below"))
    for path in facts.talkers if azimuth else ():
        at, top = percent(float(path.times_s[0]), duration), 100 * (span - path.azimuth_deg[0]) / (2 * span)
        inner += f'<span class="talker-number" style="left:{at};top:{top:.1f}%">{path.number}</span>'
    inner += "".join(f'<span class="side" style="top:{top}%">{word}</span>' for top, word in sides)
    return track("Azimuth" if azimuth else "Elevation", "degrees", pixels, labels, inner, "direction-row")


def _dots(track_: DirectionTrack, azimuth: bool, span: int, duration_s: float) -> str:
    rows = decimated(track_)
    values = track_.azimuth_deg if azimuth else track_.elevation_deg
    quiet, binned = [], [[] for _ in BINS]  # type: tuple[list[str], list[list[str]]]
    for row in rows:
        if not np.isfinite(values[row]):
            continue
        dot = f"M{WIDTH * track_.times_s[row] / duration_s:.0f} {span - values[row]:.1f}h.01"
        if not track_.active[row]:
            quiet.append(dot)
            continue
        confidence = float(track_.confidence[row])
        binned[max(i for i, b in enumerate(BINS) if confidence >= b[0] or i == 0)].append(dot)
    paths = [f'<path class="dot quiet" d="{"".join(quiet)}"/>'] if quiet else []
    for (_, thickness, opacity), dots in zip(BINS, binned, strict=True):
        if dots:
            paths.append(
                f'<path class="dot" style="stroke-width:{thickness}px;opacity:{opacity}" '
                f'd="{"".join(dots)}"/>'
            )
    return "".join(paths)


def _talker_path(path: TalkerPath, azimuth: bool, span: int, duration_s: float) -> str:
    """Thick where it was heard, thin through pauses. A long recording is drawn with fewer points."""
    values = path.azimuth_deg if azimuth else path.elevation_deg
    step = len(values) // MAX_DOTS + 1
    parts = {True: "", False: ""}
    for i in range(step, len(values), step):
        gone = path.times_s[i] - path.times_s[i - step] > 0.1 * step + 0.05
        if gone or abs(values[i] - values[i - step]) > 180:  # ended meanwhile, or over the rear
            continue
        start, end = (
            f"{WIDTH * path.times_s[k] / duration_s:.0f} {span - values[k]:.1f}" for k in (i - step, i)
        )
        parts[bool(path.coasting[i])] += f"M{start}L{end}"
    return "".join(
        f'<path class="tracked {kind}" d="{d}"/>'
        for kind, d in (("pause", parts[True]), ("heard", parts[False]))
        if d
    )


def _truth_path(source: TrueSource, azimuth: bool, span: int, duration_s: float) -> str:
    pieces = []
    for start, end in source.intervals_s:
        inner = source.times_s[(source.times_s > start) & (source.times_s < end)]
        if len(inner) > 400:
            inner = inner[:: len(inner) // 400 + 1]
        last: float | None = None
        for t in np.concatenate([[start], inner, [end]]):
            value = source.at(float(t))[0 if azimuth else 1]
            # A step over the rear (from +180 to -180) is not a way through the front.
            move = last is None or abs(value - last) > 180
            pieces.append(f"{'M' if move else 'L'}{WIDTH * t / duration_s:.0f} {span - value:.1f}")
            last = value
    kind = source.kind if source.kind in ("talker", "device") else "other"
    return f'<path class="truth {kind}" d="{"".join(pieces)}"/>' if pieces else ""


@dataclass(frozen=True)
class _Place:
    """Where a mark's text goes: line of the lane, seconds of room, and whether it is to the left."""

    line: int
    room_s: float
    flip: bool


def _places(row: list[Mark], duration_s: float) -> tuple[list[_Place], int]:
    """Up to four lines for the marks of a lane, so that texts have room; near the end they go to the left."""
    spans = []
    for mark in row:
        text = (len(mark.text) + 2) * duration_s * LETTER
        end = mark.start_s if mark.end_s is None else mark.end_s
        flip = mark.end_s is None and mark.start_s + text > duration_s and mark.start_s > duration_s / 2
        if flip:
            spans.append((mark.start_s - text, end, True))
        else:
            spans.append((mark.start_s, max(end, mark.start_s + text), False))
    ends: list[float] = []
    places = []
    for start, end, flip in spans:
        line = next((i for i, last in enumerate(ends) if last <= start + 1e-9), len(ends))
        if line == len(ends) and line < 4:
            ends.append(end)
        elif line == len(ends):
            line = int(np.argmin(ends))
        ends[line] = end
        room = end - start if flip else duration_s - start
        places.append(_Place(line, max(room, 0.0), flip))
    for index, place in enumerate(places):
        later = (i for i in range(index + 1, len(places)) if places[i].line == place.line)
        following = next(later, None)
        if following is not None and not place.flip:
            room = max(spans[following][0] - spans[index][0], 0.0)
            places[index] = replace(place, room_s=min(place.room_s, room))
    return places, max(len(ends), 1)


def event_band(marks: tuple[Mark, ...], duration_s: float) -> str:
    """What happened, in one lane per kind; points carry a stem through the lane."""
    rows: dict[str, list[Mark]] = {}
    for mark in marks:
        rows.setdefault(mark.row, []).append(mark)
    lanes = []
    for name, row in rows.items():
        row.sort(key=lambda m: m.start_s)
        if len(row) > 80:  # a long recording: the list below has them all
            row = row[:: len(row) // 80 + 1]
        items = []
        places, shelves = _places(row, duration_s)
        for mark, place in zip(row, places, strict=True):
            span = "" if mark.end_s is None else f"width:{percent(mark.end_s - mark.start_s, duration_s)};"
            title = escape(f"{clock(mark.start_s)}: {mark.text}", quote=True)
            kind = "span" if mark.end_s is not None else ("point flip" if place.flip else "point")
            items.append(
                f'<span class="mark {kind} {mark.source}" title="{title}" '
                f'style="left:{percent(mark.start_s, duration_s)};--line:{place.line};{span}'
                f'--room:{percent(place.room_s, duration_s)}"><b>{escape(mark.text)}</b></span>'
            )
        known = " <small>truth</small>" if row[0].source.startswith("truth") else ""
        lanes.append(
            f'<div class="track lane" style="--lines:{shelves}"><div class="gutter"><span class="name">'
            f"{escape(name)}{known}</span></div>"
            f'<div class="plot">{"".join(items)}</div></div>'
        )
    return "".join(lanes)
