"""An episode as the page of a review shows it: one preparation, read by several requests.

Everything that comes from the episode is escaped where it becomes HTML; what is missing or broken becomes a
note, as on the episode's own page (recordings.report), whose parts are used here.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from dsp.errors import HearthError, InputError
from recordings import report_plan
from recordings.episode import ORIGINALS, VIDEO, frame_lines, video_name
from recordings.report import checks_html, sound_reader, story_html, timeline_html
from recordings.report_facts import gather, load_json, load_profile
from recordings.report_header import header_html
from recordings.report_model import Facts, Floats, Mark
from recordings.report_rig import number
from recordings.report_sound import SoundReader, picture_sound
from recordings.report_timeline import PageClock, load_lines
from recordings.review import overlay
from recordings.review.pictures import PACK, PictureFile
from recordings.review.profile_html import headline_html, profile_html
from recordings.review.sound import MIXES, ListeningWav, listen
from recordings.timeline import Line

LOUD = 0.7  # of full scale: what the loudest sample is brought to
GAIN_PIECES, GAIN_PIECE_S = 96, 0.5
FLAGS = {"frozen": "pictures stand still", "late": "pictures came late", "damaged": "pictures are damaged"}
MEASURED_ROWS = ("Activity", "Talkers")  # of the band of events: seen there, too many to be told
ACTIVE_JOIN_S, FLAG_JOIN_S = 0.25, 0.5


@dataclass(frozen=True)
class CameraPictures:
    """The pictures of a camera. times_s: when each is seen, in the time of the sound file, before any
    correction; size: width and height in pixels."""

    file: PictureFile
    times_s: Floats
    size: tuple[int, int]


class EpisodeView:
    """What the page needs of one episode. Made by `prepare`; may be read by several threads."""

    def __init__(
        self,
        facts: Facts,
        reader: SoundReader | None,
        cameras: dict[str, CameraPictures],
        late_ms: tuple[float, str] | None,
    ) -> None:
        self.facts, self.reader, self.cameras, self.late_ms = facts, reader, cameras, late_ms

    @cached_property
    def gain(self) -> float:
        """What the sound is multiplied by so that a quiet room can be heard; by pieces spread over it."""
        return 1.0 if self.reader is None else listening_gain(self.reader)

    def wav(self, mix: str) -> ListeningWav:
        """The sound to listen to. Raises InputError for an unknown mix, or without sound."""
        if self.reader is None or not self.reader.frames:
            raise InputError("this episode has no sound")
        return ListeningWav(self.reader, mix, self.gain)

    def camera(self, name: str) -> CameraPictures:
        """The pictures of a camera. Raises InputError for an unknown one."""
        if name not in self.cameras:
            raise InputError(f"this episode has no pictures of a camera {name!r}")
        return self.cameras[name]

    def data(self) -> dict[str, Any]:
        """Everything but the plots over time, for JSON."""
        facts, main = self.facts, self.cameras.get("")
        size = main.size if main else None
        late = None if self.late_ms is None else {"ms": round(self.late_ms[0], 3), "source": self.late_ms[1]}
        return {
            "duration_s": round(facts.duration_s, 4),
            "sound": self.reader is not None and self.reader.frames > 0,
            "mixes": list(MIXES),
            "gain_db": round(20 * float(np.log10(self.gain)), 1),
            "late": late,
            "pack": PACK,
            "cameras": [
                {"name": name, "t": overlay.rounded(camera.times_s, 4), "size": camera.size}
                for name, camera in self.cameras.items()
            ],
            "has_pose": facts.rig.camera is not None,
            "directions": overlay.directions(facts, size),
            "tracks": overlay.tracks(facts, size),
            "places": overlay.places(facts, size),
            "html": {
                "header": header_html(replace(facts, verdict=None)) + headline_html(facts),
                "plan": report_plan.room_plan(facts, report_plan.bearing(facts)),
                "checks": checks_html(facts.checks),
                "profile": profile_html(facts),
                "story": story_html(tuple(m for m in facts.marks if m.row not in MEASURED_ROWS)),
            },
            "notes": list(facts.notes),
        }

    def plots(self) -> str:
        """The plots over time as HTML: events, activity, directions, spectrogram, outlines."""
        sound = picture_sound(self.reader, with_mp3=False) if self.reader is not None else None
        return timeline_html(self.facts, sound)


def prepare(folder: Path) -> EpisodeView:
    """Read an episode. Raises InputError when it is none; what is broken within it becomes a note."""
    if not folder.is_dir():
        raise InputError(f"{folder}: no such folder; give the folder of an episode")
    notes: list[str] = []
    profile = load_profile(folder, notes)
    source = profile.source if profile else {}
    lines = load_lines(folder, notes)
    reader = sound_reader(folder, source, notes)
    audio = source.get("audio")
    rate = number(audio.get("rate_hz"), 1, 1e7) if isinstance(audio, dict) else np.nan
    if not np.isfinite(rate):  # `file_frame` of the timeline counts in frames of the originals
        rate = float(reader.rate_hz) if reader and not (folder / ORIGINALS).is_dir() else 48_000.0
    clock = PageClock(lines, float(rate))
    cameras = _cameras(folder, lines, clock, notes)
    last_picture = max((float(c.times_s.max()) for c in cameras.values() if len(c.times_s)), default=0.0)
    sounding = reader.frames / reader.rate_hz if reader and reader.frames else 0.0
    duration = max(sounding or last_picture, 1e-3)
    facts = gather(folder, lines, clock, duration, profile, notes)
    facts = replace(
        facts,
        marks=(*facts.marks, *activity_marks(facts), *picture_marks(lines, clock)),
        notes=tuple(dict.fromkeys(notes)),
    )
    return EpisodeView(facts, reader, cameras, lateness(facts, load_json(folder / "checks.json", [])))


def _cameras(
    folder: Path, lines: list[Line], clock: PageClock, notes: list[str]
) -> dict[str, CameraPictures]:
    names = [""] if (folder / VIDEO).is_file() else []
    names += sorted(path.stem.removeprefix("video_") for path in folder.glob("video_*.mkv"))
    found = {}
    for name in names:
        rows = frame_lines(lines, name)
        times = clock(np.array([row["t_ns"] for row in rows], dtype=np.int64))
        # A picture that is stamped before the one that precedes it in the file is seen with that one.
        times = np.maximum.accumulate(times) if len(times) else times
        pts = np.array([row["pts_ms"] for row in rows], dtype=np.int64)
        path = folder / video_name(name)
        try:
            found[name] = CameraPictures(PictureFile(path, pts), times, picture_size(path))
        except HearthError as error:
            notes.append(f"The pictures cannot be shown: {error}")
    return found


def picture_size(path: Path) -> tuple[int, int]:
    """(width, height) of a video's pictures in pixels. Raises InputError when it cannot be opened."""
    import av

    try:
        with av.open(str(path)) as container:
            if not container.streams.video:
                raise InputError(f"{path.name}: holds no video stream")
            context = container.streams.video[0].codec_context
            return int(context.width), int(context.height)
    except (av.error.FFmpegError, OSError) as error:
        raise InputError(f"{path.name}: FFmpeg cannot open it as a video: {error}") from None


def lateness(facts: Facts, checks: Any) -> tuple[float, str] | None:
    """(ms that the sound is late against the pictures, "calibration" or "take"), or None when not known.

    The rig's calibration goes before what this take's own flashes and beeps gave.
    """
    eye = facts.rig.camera
    if eye is not None and eye.sound_late_s:
        return 1e3 * eye.sound_late_s, "calibration"
    measured = checks.get("av_offset") if isinstance(checks, dict) else None
    if not isinstance(measured, dict):
        return None
    offset = number(measured.get("offset_ms"), -10_000, 10_000)
    sigma = number(measured.get("sigma_ms"), 0, 10_000)
    if measured.get("source") == "calibration" and np.isfinite(offset):
        return offset, "calibration"
    # What is within its uncertainty is no offset to correct.
    return (offset, "take") if abs(offset) > 2 * sigma else None


def listening_gain(reader: SoundReader) -> float:
    """LOUD over the loudest sample of the stereo mix, within -6 and +30 dB; 1 for silence."""
    piece = max(1, round(GAIN_PIECE_S * reader.rate_hz))
    whole = -(-reader.frames // piece)
    starts = np.unique(np.linspace(0, max(whole - 1, 0), min(whole, GAIN_PIECES)).astype(np.int64)) * piece
    loudest = 0.0
    for start in starts:
        block = reader.read(int(start), piece)
        if len(block):
            heard = np.abs(np.nan_to_num(listen(block, reader.is_foa, "stereo")))
            loudest = max(loudest, float(heard.max()), float(np.abs(np.nan_to_num(block[:, 0])).max()))
    return float(np.clip(LOUD / loudest, 0.5, 31.6)) if loudest > 0 else 1.0


def activity_marks(facts: Facts) -> list[Mark]:
    """When something sounded, and when a talker was followed, as spans for the band of events."""
    track = facts.directions
    spans = [("Activity", t, 0.05, "") for t in track.times_s[track.active]]
    marks = _joined(spans, ACTIVE_JOIN_S, "measured")
    for path in facts.talkers:
        heard = path.times_s[~path.coasting]
        rows = [("Talkers", t - 0.05, 0.05, str(path.number)) for t in heard]
        marks += _joined(rows, ACTIVE_JOIN_S, "measured")
    return marks


def picture_marks(lines: list[Line], clock: PageClock) -> list[Mark]:
    """Stretches in which pictures were flagged: standing still, late, damaged."""
    marks = []
    for flag, words in FLAGS.items():
        stamps = [row["t_ns"] for row in lines if row["type"] == "frame" and flag in row.get("flags", ())]
        times = clock(np.array(stamps, dtype=np.int64))
        marks += _joined([("Pictures", float(t), 0.05, words) for t in times], FLAG_JOIN_S, "rig")
    return marks


def _joined(spans: list[tuple[str, Any, float, str]], within_s: float, source: Any) -> list[Mark]:
    """(lane, middle, half width, words) in order of time; neighbours become one span."""
    found: list[Mark] = []
    for lane, middle, half, words in spans:
        start, end = max(float(middle) - half, 0.0), float(middle) + half
        last = found[-1] if found else None
        if last is not None and last.end_s is not None and start - last.end_s <= within_s:
            found[-1] = replace(last, end_s=max(end, last.end_s))
        else:
            found.append(Mark(start, lane, words, end, source))
    return found
