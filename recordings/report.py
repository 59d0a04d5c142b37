"""One self-contained HTML page for an episode: what was said, from where, what was done, and how good it is.

`write_report(folder)` puts `report.html` into an episode that is not yet sealed by its manifest;
`render(episode)` gives the page as text. The page opens from disk, asks for nothing outside itself, and
leaves out (with a note) what the episode does not have. Everything that comes from the episode is escaped.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator
from html import escape
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dsp.errors import HearthError, InputError
from recordings import report_pictures, report_plan, report_tracks
from recordings.audio_file import open_audio
from recordings.episode import ORIGINALS, RELEASE, VIDEO, Episode
from recordings.manifest import refuse_inside_sealed
from recordings.marker import MANIFEST
from recordings.report_decision import decision_html
from recordings.report_facts import PAGE, gather, load_profile
from recordings.report_header import header_html
from recordings.report_model import Check, Facts, Mark
from recordings.report_pictures import Picture
from recordings.report_sound import Sound, SoundReader, picture_sound
from recordings.report_timeline import WINDOW_S, PageClock, frame_times, load_lines
from recordings.report_tracks import clock
from recordings.storage import write_atomic

MOST_ROWS = 6000  # of the direction data for the script
STATUS_WORDS = {"ok": "✓ fine", "warning": "! look", "fault": "✕ fault", "unknown": "? unknown"}


def write_report(episode_path: str | Path, out: str | Path | None = None) -> Path:
    """Render the page of the episode in `episode_path` and give the path of the file.

    Without `out` it is `report.html` in the episode's folder. A sealed episode (with a manifest) is never
    changed: the page it already has is the answer; if it has none, `out` must be given. Raises InputError for
    a folder that is no episode, is sealed without a page, or for an `out` inside a sealed one; StorageError
    when it cannot be written.
    """
    folder = Path(episode_path)
    if out is None:
        if (folder / MANIFEST).is_file() and (folder / PAGE).is_file():
            return folder / PAGE
        if (folder / MANIFEST).is_file():
            raise InputError(
                f"{folder}: the episode is sealed by {MANIFEST}; give another place for the page (--out)"
            )
        out = folder / PAGE
    refuse_inside_sealed(Path(out))
    page = render(folder)
    write_atomic(Path(out), page.encode("utf-8"))
    return Path(out)


def render(episode: Episode | str | Path) -> str:
    """The page of an episode as HTML. Raises InputError when the folder holds nothing of an episode."""
    folder = Path(episode.path if isinstance(episode, Episode) else episode)
    if not folder.is_dir():
        raise InputError(f"{folder}: no such folder; give the folder of an episode")
    if not any((folder / name).exists() for name in ("episode.yaml", "timeline.jsonl", ORIGINALS, RELEASE)):
        raise InputError(f"{folder}: this is no episode (no episode.yaml, no timeline, no sound)")
    notes: list[str] = []
    profile = load_profile(folder, notes)
    lines = load_lines(folder, notes)
    reader = sound_reader(folder, profile.source if profile else {}, notes)
    recorded_hz = _recorded_rate(folder, profile.source if profile else {}, reader)
    page_clock = PageClock(lines, recorded_hz)
    sound = picture_sound(reader) if reader is not None else None
    if sound is not None:
        notes.extend(sound.problems)
    times, pts_ms = frame_times(lines, page_clock)
    last_picture = float(times.max()) if len(times) else 0.0
    duration = max(sound.duration_s if sound else last_picture, 1e-3)
    facts = gather(folder, lines, page_clock, duration, profile, notes)
    chosen = report_pictures.wanted_times(times)
    shown: list[Picture] = []
    if len(chosen):
        try:
            frames = decode(folder / VIDEO, times, pts_ms, chosen)
            shown = report_pictures.collect(frames, len(chosen), facts)
        except HearthError as error:
            notes.append(f"The pictures cannot be shown: {error}")
    return assemble(facts, sound, shown, tuple(notes))


def sound_reader(folder: Path, source: dict[str, Any], notes: list[str]) -> SoundReader | None:
    """The release form when it is there, else the originals in their own format."""
    try:
        if (folder / RELEASE).is_file():
            return SoundReader(open_audio(folder / RELEASE), "ambix")
        paths = sorted(
            p for p in (folder / ORIGINALS).glob("*") if p.is_file() and not p.name.startswith(".")
        )
        if not paths:
            notes.append("This episode has no sound.")
            return None
        audio = open_audio(paths, recover=True)
        stated = source.get("audio", {}).get("format") if isinstance(source.get("audio"), dict) else None
        return SoundReader(audio, stated or audio.format)
    except (HearthError, OSError) as error:
        notes.append(f"The sound cannot be read: {error}")
        return None


def _recorded_rate(folder: Path, source: dict[str, Any], reader: SoundReader | None) -> float:
    """The rate that `file_frame` of the timeline counts in: that of the originals."""
    audio = source.get("audio")
    if isinstance(audio, dict) and isinstance(audio.get("rate_hz"), int | float) and audio["rate_hz"] > 0:
        return float(audio["rate_hz"])
    if reader is not None and not (folder / RELEASE).is_file():
        return float(reader.rate_hz)
    return 48_000.0


def decode(
    path: Path, times_s: NDArray[np.float64], pts_ms: NDArray[np.int64], chosen: NDArray[np.int64]
) -> Iterator[tuple[float, NDArray[np.uint8]]]:
    """(page time, picture) of the chosen frames of the video. Seeks to the key frame before each one, so that
    an hour costs little more than a minute; goes through the file where it cannot seek."""
    from recordings import video_read

    if not path.is_file():
        raise InputError(f"{path.name} is missing")
    wanted = {int(i) for i in chosen}
    if len(times_s) <= 1500:
        for index, (_, image) in enumerate(video_read.frames(path)):
            if index in wanted:
                yield float(times_s[index]), image
        return
    yield from _seek_and_decode(path, times_s, pts_ms, chosen)


def _seek_and_decode(
    path: Path, times_s: NDArray[np.float64], pts_ms: NDArray[np.int64], chosen: NDArray[np.int64]
) -> Iterator[tuple[float, NDArray[np.uint8]]]:
    import av

    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        base = float(stream.time_base) * 1000.0
        for index in chosen:
            target = int(pts_ms[index])
            try:
                container.seek(int(target / base), stream=stream, backward=True)
                for frame in container.decode(stream):
                    if frame.pts is not None and frame.pts * base >= target - 0.5:
                        yield float(times_s[index]), np.asarray(frame.to_ndarray(format="bgr24"))
                        break
            except av.error.FFmpegError:
                continue


# ------------------------------------------------------------------ the page


def assemble(facts: Facts, sound: Sound | None, shown: list[Picture], notes: tuple[str, ...]) -> str:
    """Fill the template. Values are put in by one pass, so nothing in them is taken for a place to fill."""
    towards = report_plan.bearing(facts)
    package = resources.files("recordings")
    values = {
        "title": escape((facts.profile.request if facts.profile else None) or facts.id),
        "css": (package / "report.css").read_text(encoding="utf-8"),
        "js": (package / "report.js").read_text(encoding="utf-8"),
        "header": header_html(facts),
        "notes": "".join(f"<li>{escape(n)}</li>" for n in notes),
        "stage": stage_html(facts, shown, towards),
        "player": player_html(sound),
        "timeline": timeline_html(facts, sound),
        "strip": strip_html(shown, facts),
        "decision": decision_html(
            facts.decision,
            facts.declared_device,
            facts.target_device,
            facts.rig.microphone.yaw_deg if facts.rig.microphone else 0.0,
        ),
        "story": story_html(facts.marks),
        "checks": checks_html(facts.checks),
        "files": files_html(facts),
        "footer": "Made by Hearth. Directions: azimuth counter-clockwise from the microphone's front (left"
        " is positive), elevation upwards, in degrees. Time: seconds since the first sample of the sound.",
        "data": script_data(facts, sound, shown, towards),
    }
    if values["notes"]:
        values["notes"] = f'<ul class="notes">{values["notes"]}</ul>'
    template = (package / "report.html").read_text(encoding="utf-8")
    return re.sub(r"\{\{(\w+)\}\}", lambda found: values[found.group(1)], template)


def stage_html(facts: Facts, shown: list[Picture], towards: report_plan.Bearing | None) -> str:
    """The large picture and the plan, side by side; whichever there is."""
    plan = report_plan.room_plan(facts, towards)
    viewer = viewer_html(facts, shown[start_picture(shown, towards)]) if shown else ""
    if not viewer and not plan:
        return ""
    return f'<section class="stage{"" if viewer and plan else " one"}">{viewer}{plan}</section>'


def start_picture(shown: list[Picture], towards: report_plan.Bearing | None) -> int:
    """The picture to begin with: the middle of the utterance, or the middle of all."""
    middle = (towards.start_s + towards.end_s) / 2 if towards else shown[len(shown) // 2].time_s
    return int(np.argmin([abs(p.time_s - middle) for p in shown]))


def eye_html(picture: Picture, jpeg: bytes, unit: float, viewer: bool = False) -> str:
    """A picture with its marks over it."""
    height = 1000.0 * picture.height / picture.width
    names = (' id="frame"', ' id="frame-marks"') if viewer else ("", "")
    return (
        f'<img{names[0]} alt="Camera picture at {clock(picture.time_s)}" width="{picture.width}" '
        f'height="{picture.height}" src="{report_pictures.data_uri(jpeg)}">'
        f'<svg{names[1]} viewBox="0 0 1000 {height:.0f}" aria-hidden="true">'
        f"{report_pictures.overlay(picture, unit)}</svg>"
    )


def viewer_html(facts: Facts, picture: Picture) -> str:
    """The large picture with the legend of the marks."""
    words = report_pictures.caption(picture, facts)
    return (
        f'<figure><div class="eye">{eye_html(picture, picture.jpeg, VIEWER_UNIT, True)}'
        f'<span class="now" id="frame-now">{clock(picture.time_s)} · {escape(words)}</span></div>'
        f"{legend_html(facts)}</figure>"
    )


VIEWER_UNIT, THUMB_UNIT = 1.5, 3.2
NO_POSE = (
    "Nothing is drawn on the pictures: the episode's rig does not say where the camera is and where it looks,"
    " seen from the microphone (no camera pose), so a sound direction has no place in them."
)


def legend_html(facts: Facts) -> str:
    """What the marks mean; only those that can appear. Without a camera pose: why there are none."""
    if facts.rig.camera is None:
        return f"<figcaption>{NO_POSE}</figcaption>"
    kinds = {s.kind for s in facts.truth if s.intervals_s}
    entries = [
        ('<circle class="measured" cx="10" cy="10" r="7"/><circle class="core" cx="10" cy="10" r="2.5"/>',
         "measured sound direction, the ring is its uncertainty"),
    ]  # fmt: skip
    if "talker" in kinds:
        entries.append(('<path class="talker" d="M3 10h14M10 3v14"/>', "true place of the talker"))
    if "device" in kinds:
        entries.append(
            ('<path class="device" d="M2 10L10 2L18 10L10 18Z"/>', "true place of a sounding device")
        )
    if facts.target_device:
        entries.append(
            (
                '<path class="target" d="M2 7V2H7M13 2H18V7M18 13V18H13M7 18H2V13"/>',
                "device that was meant (truth)",
            )
        )
    entries.append(('<path class="core" d="M4 3L17 10L4 17Z"/>', "outside the picture, that way"))
    items = "".join(
        f'<li class="key"><svg viewBox="0 0 20 20">{shape}</svg>{text}</li>' for shape, text in entries
    )
    note = f" A measured direction has no distance; it is drawn for {report_pictures.UNKNOWN_DISTANCE_M:g} m."
    return f'<ul class="legend">{items}</ul><figcaption>{note}</figcaption>'


def player_html(sound: Sound | None) -> str:
    """Play button, time, and what the microphone measures at that time."""
    if sound is None or not sound.mp3:
        return (
            '<div class="player"><output id="clock"></output><span class="reading" id="reading"></span></div>'
        )
    data = base64.b64encode(sound.mp3).decode()
    louder = f"{sound.gain_db:+.0f} dB".replace("-", "−")
    cut = "" if sound.heard_s >= sound.duration_s - 0.5 else f", first {clock(sound.heard_s)}"
    return (
        '<div class="player"><button id="play" type="button">▶ Play</button><output id="clock"></output>'
        f'<span class="reading" id="reading"></span><small>stereo, {louder}{cut}</small>'
        f'<audio id="sound" preload="auto" src="data:audio/mpeg;base64,{data}"></audio></div>'
    )


def timeline_html(facts: Facts, sound: Sound | None) -> str:
    """All plots over time under one cursor."""
    duration = facts.duration_s
    parts = [report_tracks.event_band(facts.marks, duration)]
    if len(facts.directions) or facts.truth:
        parts.append(directions_key(facts))
        parts.append(report_tracks.directions(facts, "azimuth"))
        parts.append(report_tracks.directions(facts, "elevation"))
    else:
        parts.append('<p class="scale">No sound directions were computed for this episode.</p>')
    if sound is not None:
        parts.append(report_tracks.spectrogram(sound, duration))
        parts.append(report_tracks.outlines(sound, duration))
    parts.append(report_tracks.axis_row(duration))
    return (
        f'<section class="timeline">{"".join(parts)}'
        '<div class="cursor-space"><div id="cursor"></div></div></section>'
    )


def directions_key(facts: Facts) -> str:
    """How to read the direction plots."""
    kinds = {s.kind for s in facts.truth if s.intervals_s}
    items = ['<li class="key"><svg viewBox="0 0 20 20"><circle class="core" cx="10" cy="10" r="4"/></svg>'
             "measured every 0.1 s; larger and darker is more confident</li>"]  # fmt: skip
    if facts.talkers:
        items.append(
            '<li class="key"><svg viewBox="0 0 20 20"><path class="tracked band" d="M3 10H17"/></svg>'
            "tracked talker, with the number of the track; thin: through a pause</li>"
        )
    for kind, text in (("talker", "true direction of the talker"), ("device", "true direction of a device")):
        if kind in kinds:
            items.append(
                f'<li class="key"><svg viewBox="0 0 20 20"><path class="{kind} band" d="M3 10H17"/></svg>'
                f"{text}</li>"
            )
    return f'<ul class="legend">{"".join(items)}</ul>'


def strip_html(shown: list[Picture], facts: Facts) -> str:
    """Pictures spread over the episode with the direction at that time."""
    if not shown:
        return ""
    cells = []
    for index in report_pictures.thumb_indices(len(shown)):
        picture = shown[index]
        words = report_pictures.caption(picture, facts)
        cells.append(
            f'<button class="thumb" type="button" data-t="{picture.time_s:.3f}"><span class="eye" '
            f'style="display:block">{eye_html(picture, picture.thumb, THUMB_UNIT)}</span>'
            f'<span class="cap"><b>{clock(picture.time_s)}</b>{escape(words)}</span></button>'
        )
    heading = "Pictures with the sound direction" if facts.rig.camera is not None else "Pictures"
    return f'<h2>{heading}</h2><section class="strip">{"".join(cells)}</section>'


def story_html(marks: tuple[Mark, ...]) -> str:
    """What happened, in order, in words."""
    if not marks:
        return ""
    ordered = sorted(marks, key=lambda m: m.start_s)
    rows = "".join(map(_story_line, ordered[:200]))
    more = f"<p>… and {len(ordered) - 200} more in timeline.jsonl.</p>" if len(ordered) > 200 else ""
    return f'<h2>What happened</h2><ol class="story">{rows}</ol>{more}'


def _story_line(mark: Mark) -> str:
    who = mark.row + (" (truth)" if mark.source.startswith("truth") else "")
    length = "" if mark.end_s is None else f" (for {mark.end_s - mark.start_s:.1f} s)"
    return (
        f'<li><time>{clock(mark.start_s)}</time><span><span class="who">{escape(who)}:</span> '
        f"{escape(mark.text)}{length}</span></li>"
    )


def checks_html(checks: tuple[Check, ...]) -> str:
    """The checks, one line each; colour, sign and word say the same."""
    rows = "".join(
        f'<li><span class="chip {c.status}">{STATUS_WORDS[c.status]}</span>'
        f'<span class="title">{escape(c.title)}</span><span class="body">'
        f'<span class="value">{escape(c.value)}{". " if c.value else ""}</span>{escape(c.text)}'
        f'<span class="quality">{escape(c.quality)}</span></span></li>'
        for c in checks
    )
    return f'<h2>Is the recording good?</h2><ul class="checks">{rows}</ul>'


def files_html(facts: Facts) -> str:
    """Names, sizes and hashes, folded away."""
    total = sum(f.size for f in facts.files)
    rows = "".join(
        f'<tr><td>{escape(f.name)}</td><td class="size">{size_in_words(f.size)}</td>'
        f'<td class="hash">{f.sha256 or "see manifest.json"}</td></tr>'
        for f in facts.files
    )
    return (
        f"<details><summary>Files ({len(facts.files)}, {size_in_words(total)})</summary>"
        '<div class="scroll"><table><thead><tr><th>file</th><th>size</th><th>SHA-256</th></tr></thead>'
        f"<tbody>{rows}</tbody></table></div></details>"
    )


def size_in_words(size: int) -> str:
    """Bytes for people, in powers of 1000."""
    for unit in ("B", "kB", "MB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" or size >= 100 else f"{size:.1f} {unit}"
        size = size / 1000  # type: ignore[assignment]
    return f"{size:.1f} GB"


def script_data(
    facts: Facts, sound: Sound | None, shown: list[Picture], towards: report_plan.Bearing | None
) -> str:
    """What the page's script needs, as JSON that cannot end its script element."""
    track = facts.directions
    rows = report_tracks.decimated(track, MOST_ROWS)

    def numbers(values: NDArray[np.float64], digits: int) -> list[float]:
        return [round(float(v), digits) for v in np.nan_to_num(values[rows])]

    spacing = float(np.median(np.diff(track.times_s[rows]))) if len(rows) > 1 else WINDOW_S
    start = shown[start_picture(shown, towards)].time_s if shown else (towards.start_s if towards else 0.0)
    data = {
        "duration_s": facts.duration_s,
        "heard_s": sound.heard_s if sound else 0.0,
        "start_s": start,
        "window_s": max(0.2, spacing),
        "directions": {
            "t": numbers(track.times_s, 3),
            "az": numbers(track.azimuth_deg, 1),
            "el": numbers(track.elevation_deg, 1),
            "unc": numbers(track.uncertainty_deg, 1),
            "conf": numbers(track.confidence, 2),
            "active": [int(a) for a in track.active[rows]],
            "ray": report_plan.live_rays(facts, track.azimuth_deg[rows]),
        },
        "frames": {
            "t": [round(p.time_s, 3) for p in shown],
            "src": [report_pictures.data_uri(p.jpeg) for p in shown],
            "marks": [report_pictures.overlay(p, VIEWER_UNIT) for p in shown],
            "words": [report_pictures.caption(p, facts) for p in shown],
        },
    }
    return json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")
