"""From closed streams to a finished episode: release form, directions, checks, clocks, report, manifest.

Used after recording, importing and repairing. Every step can be done again: what a crash left is replaced.
The manifest is written last, then the mark is removed: before that the episode counts as interrupted.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dsp.errors import InputError
from recordings.audio_file import AudioFile
from recordings.clock_map import prefer_live_clock, write_sound_clock
from recordings.episode import CHECKS, RELEASE, RELEASE_RATE_HZ, TIMELINE, Episode
from recordings.manifest import write_manifest
from recordings.marker import MARKER, remove_marker
from recordings.storage import StorageError, storage_errors, write_atomic
from recordings.timeline import AudioMap, Line, TimelineWriter
from recordings.video_summary import video_summary
from recordings.wav_write import WavWriter

if TYPE_CHECKING:
    from dsp.foa_correction import FoaCorrection

_BLOCK = 1 << 16
# Codes of dsp.check that are about the samples of the channels as recorded, whatever the field is.
_OF_SAMPLES = (
    "empty", "too_short", "nonfinite", "clipped", "dead", "dc", "truncated", "dropout", "duplicated",
    "remixed",
)  # fmt: skip


def complete(
    folder: Path,
    extra: dict[str, Any] | None = None,
    report: bool = True,
    interrupted: bool = False,
    frames: int = 0,
) -> Episode:
    """Finish an episode whose streams are closed and whole. Raises HearthError; the mark then stays.

    frames: sound frames that the writer wrote. StorageError when fewer are on disk, fewer than the timeline
    stamps, or the mark is gone: then somebody moved or removed the folder meanwhile, and nothing is sealed.
    """
    if not (folder / MARKER).is_file():
        raise StorageError(
            f"{folder}: {MARKER} is gone: the episode's folder was moved or removed, or is sealed already;"
            " it is not sealed as it is"
        )
    episode = Episode.open(folder)
    stamped = sum(int(line["frames"]) for line in episode.timeline() if line["type"] == "audio")
    found = episode.original.frames if episode.audio_paths else 0
    if found < max(frames, stamped):
        raise StorageError(
            f"{folder}: {max(frames, stamped)} frames of sound were written, {found} are on disk: files were"
            " moved or removed; the episode is not sealed. Put them back and use `hearth repair`"
        )
    checks: dict[str, Any] = {"hearth_checks": 1, "interrupted": interrupted}
    rate_hz = episode.original.rate if found else 0
    listen = episode.original.read if found else None
    clocks = write_sound_clock(folder, episode.timeline(), rate_hz, mixed=_is_mixed(episode), listen=listen)
    episode = Episode.open(folder)
    doa = make_release(episode)
    if doa:
        timeline = TimelineWriter(folder / TIMELINE, append=True)
        try:
            for line in doa:
                timeline.add(line)
        finally:
            timeline.close()
    episode = Episode.open(folder)
    checks["audio"] = _audio_summary(episode)
    checks["sound"] = check_sound(episode)
    checks["video"] = video_summary(episode)
    checks["clocks"] = clocks
    checks.update(extra or {})
    _use_sync(checks, episode)
    prefer_live_clock(checks)
    _write_checks(folder, checks)
    if report:
        _make_page(folder, checks)
    write_manifest(folder)
    remove_marker(folder)
    return Episode.open(folder)


def _is_mixed(episode: Episode) -> bool:
    """Whether a sound server lay between the microphone and the recording, as far as the episode says."""
    microphone = episode.profile.source.get("microphone")
    detail = microphone.get("detail") if isinstance(microphone, dict) else None
    return isinstance(detail, dict) and detail.get("mixed") is True


def _use_sync(checks: dict[str, Any], episode: Episode) -> None:
    """Where the take itself did not show how late the sound is, the rig's calibration says it."""
    late = episode.calibrations.sound_late()
    if late is not None and checks.get("av_offset", {}).get("offset_ms") is None:
        checks["av_offset"] = {"offset_ms": late[0], "sigma_ms": late[1], "source": "calibration"}


def _write_checks(folder: Path, checks: dict[str, Any]) -> None:
    write_atomic(folder / CHECKS, (json.dumps(checks, indent=1, ensure_ascii=False) + "\n").encode())


def _make_page(folder: Path, checks: dict[str, Any]) -> None:
    """report.html; a fault of the page is logged and noted in checks.json: it must not cost the episode."""
    from recordings.report import write_report

    try:
        write_report(folder)
    except StorageError:
        raise
    except Exception as error:
        logging.getLogger(__name__).warning("%s: no report.html: %s: %s", folder, type(error).__name__, error)
        _write_checks(folder, {**checks, "report_error": f"{type(error).__name__}: {error}"})


def is_first_order(episode: Episode) -> bool:
    """Whether the original is four channels of a known first-order format."""
    import dsp

    return episode.original.channels == 4 and episode.format in dsp.FORMATS


def make_release(episode: Episode) -> list[Line]:
    """Write foa_24k.wav from the original and give the doa and track lines for the timeline; [] when it is no
    FOA.

    The release form is 32-bit float: FuMa's W rises by 3 dB on its way to AmbiX and a resampler overshoots,
    so a loud take would clip in 24-bit integers. Its length is ceil(frames * 24000 / rate).
    """
    target = episode.path / RELEASE
    with storage_errors(target, "replace"):
        target.unlink(missing_ok=True)
    if not episode.audio_paths or not is_first_order(episode) or episode.original.frames == 0:
        return []
    from dsp.doa import DoaEstimator
    from dsp.track import Tracker

    source = episode.original
    doa, tracker = DoaEstimator(fs=RELEASE_RATE_HZ), Tracker(RELEASE_RATE_HZ)
    rows: list[Any] = []
    frames: list[Any] = []
    writer = WavWriter(
        target, RELEASE_RATE_HZ, 4, sample_type="float", format_name="ambix", note=episode.profile.id
    )
    try:
        for block in release_blocks(source, str(episode.format), episode.correction):
            writer.write(block)
            # A float file may hold NaN, which dsp.check names; resampling and directions take it as silence.
            block = np.nan_to_num(block, nan=0.0, posinf=0.0, neginf=0.0)
            rows += doa.push(block)
            frames += tracker.push(block)
        rows += doa.flush()
        frames += tracker.flush()
    finally:
        writer.close()
    lines = doa_lines(rows, episode.audio_map, source.rate)
    return lines + track_lines(frames, episode.audio_map, source.rate)


def ambix_blocks(
    source: AudioFile, format_name: str, correction: FoaCorrection | None = None
) -> Iterator[NDArray[np.float32]]:
    """AmbiX at the file's own rate, block by block: converted, or corrected where the capsules were measured.

    A correction is for the channels as recorded; `recordings.capsule_correction` sees to it that their format
    is the one that was calibrated.
    """
    import dsp

    blocks = source.blocks(_BLOCK)
    if correction is None:
        yield from (dsp.convert(block, source=format_name, target="ambix") for block in blocks)
        return
    stream = correction.stream(source.rate)
    skip = stream.delay_frames
    for block in chain((stream.push(block) for block in blocks), (stream.flush() for _ in range(1))):
        yield block[skip:]
        skip -= min(skip, len(block))


def release_blocks(
    source: AudioFile, format_name: str, correction: FoaCorrection | None = None
) -> Iterator[NDArray[np.float32]]:
    """AmbiX at 24 kHz, block by block: equal to `ambix_blocks` and dsp.resample on the whole file."""
    import dsp

    blocks = ambix_blocks(source, format_name, correction)
    if source.rate == RELEASE_RATE_HZ:
        yield from blocks
        return
    try:
        resampler = dsp.Resampler(source.rate, RELEASE_RATE_HZ, 4, on_nonfinite="flag")
    except InputError as error:
        raise InputError(f"{source.paths[0]}: {source.rate} Hz cannot be resampled: {error}") from None
    skip = resampler.delay_frames
    for block in blocks:
        out = resampler.push(block)
        if len(out) > skip:
            yield out[skip:]
        skip -= min(skip, len(out))
    out = resampler.flush()[skip:]
    if len(out):
        yield out


def doa_lines(rows: Sequence[Any], audio_map: AudioMap, rate_hz: int) -> list[Line]:
    """Rows of dsp.DoaEstimator as timeline lines, with their times on the session's clock."""
    times = audio_map.time_ns(np.array([row.t_s for row in rows]) * rate_hz)
    return [_doa_line(row, int(t_ns)) for row, t_ns in zip(rows, times, strict=True)]


def track_lines(frames: Sequence[Any], audio_map: AudioMap, rate_hz: int) -> list[Line]:
    """Frames of dsp.Tracker as timeline lines, one per track and window; none where nobody is tracked."""
    frames = [frame for frame in frames if frame.tracks]
    times = audio_map.time_ns(np.array([frame.t_s for frame in frames]) * rate_hz)
    return [
        {
            "type": "track",
            "t_ns": int(t_ns),
            "t_s": round(float(frame.t_s), 6),
            "track": int(track.id),
            "azimuth_deg": round(float(track.azimuth_deg), 2),
            "elevation_deg": round(float(track.elevation_deg), 2),
            "uncertainty_deg": round(float(track.uncertainty_deg), 2),
            "confidence": round(float(track.confidence), 4),
            "coasting": bool(track.coasting),
        }
        for frame, t_ns in zip(frames, times, strict=True)
        for track in frame.tracks
    ]


def _doa_line(row: Any, t_ns: int) -> Line:
    found = row.confidence > 0  # the peak of votes that point everywhere is no direction

    def number(value: float, digits: int, known: bool = True) -> float | None:
        return round(float(value), digits) if known and np.isfinite(value) else None

    return {
        "type": "doa",
        "t_ns": t_ns,
        "t_s": round(float(row.t_s), 6),
        "azimuth_deg": number(row.azimuth_deg, 2, found),
        "elevation_deg": number(row.elevation_deg, 2, found),
        "confidence": number(row.confidence, 4),
        "uncertainty_deg": number(row.uncertainty_deg, 2, found),
        "level_dbfs": number(row.level_dbfs, 1),
        "active": bool(row.active),
    }


def _audio_summary(episode: Episode) -> dict[str, Any]:
    if not episode.audio_paths:
        return {"frames": 0}
    original = episode.original
    gaps = [line for line in episode.timeline() if line["type"] == "gap" and line.get("stream") == "audio"]
    return {
        "rate_hz": original.rate,
        "channels": original.channels,
        "bits": original.bits,
        "format": episode.format,
        "frames": original.frames,
        "duration_s": round(original.duration_s, 6),
        "files": [path.name for path in episode.audio_paths],
        "gaps": len(gaps),
        "lost_frames": sum(int(line.get("lost_frames", 0)) for line in gaps),
        "problems": original.problems,
    }


def check_sound(episode: Episode) -> dict[str, Any]:
    """`check_audio` of the original; a note instead when there is nothing that dsp.check can answer."""
    if not episode.audio_paths or episode.original.frames == 0:
        return {"ok": False, "findings": [], "note": "no sound was recorded"}
    if not is_first_order(episode):
        return {
            "ok": True,
            "findings": [],
            "note": f"format {episode.format!r} is not first-order ambisonics",
        }
    return check_audio(episode.original, str(episode.format), correction=episode.correction)


def check_audio(
    source: AudioFile,
    format_name: str,
    advance: Callable[[float], None] = lambda frames: None,
    correction: FoaCorrection | None = None,
) -> dict[str, Any]:
    """dsp.check of a file in its own format, read piece by piece. Calls `advance` with frames done.

    With a correction: samples (clipping, copies, drop-outs, silence) are judged as recorded, the sound field
    as corrected, which is what everybody else hears; `correction` in the answer is its key (None without).
    """
    import dsp

    def pieces() -> Iterator[NDArray[np.float32]]:
        for block in source.blocks(_BLOCK):
            yield block
            advance(len(block))

    answer = {**dsp.check_pieces(pieces(), source.rate, format_name).to_dict(), "correction": None}
    if correction is not None:
        field = dsp.check_pieces(ambix_blocks(source, format_name, correction), source.rate).to_dict()
        findings = [f for f in answer["findings"] if f["code"] in _OF_SAMPLES]
        findings += [
            # How the channels lie was measured, with sounds from known directions.
            f
            for f in field["findings"]
            if f["code"] not in (*_OF_SAMPLES, "orientation")
        ]
        answer.update(
            findings=findings,
            ok=all(f["severity"] != "fault" for f in findings),
            normalisation=field["normalisation"],
            probabilities=field["probabilities"],
            correction=correction.key,
        )
    if cut := _truncations(source):
        ok = answer["ok"] and all(finding["severity"] != "fault" for finding in cut)
        answer = {**answer, "ok": ok, "findings": [*answer["findings"], *cut]}
    return answer


def _truncations(source: AudioFile) -> list[dict[str, Any]]:
    """A finding for each file that was cut off: a fault when the end is missing (value: frames, where that is
    known), a warning when only the length was never written, so that nothing says what is missing."""
    found: list[dict[str, Any]] = []
    for problem in source.problems:
        said = re.search(r"truncated: (\d+) frames declared, (\d+) can be read", problem)
        finding: dict[str, Any] = {"code": "truncated", "severity": "fault", "channel": None, "value": None}
        if said:
            missing = int(said[1]) - int(said[2])
            message = f"the file ends {missing} frames too early; {problem}"
            found.append({**finding, "message": message, "value": float(missing)})
        elif "truncated: " in problem:
            found.append({**finding, "message": f"the file was cut off; {problem}"})
        elif "the data size is " in problem:
            message = (
                f"the recorder never wrote the length: {problem}; whether an end is missing is not known"
            )
            found.append({**finding, "severity": "warning", "message": message})
    return found
