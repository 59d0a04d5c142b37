"""Make a finished episode out of an interrupted one; every file that changes is kept as it was.

Originals go to `before_repair/`. Order of each change: build the new file under a temporary name, move the
original away, give the new one its name. A crash in between is healed by the next repair.
"""

from __future__ import annotations

import json
import os
import struct
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from dsp.errors import HearthError, InputError
from recordings.episode import PROFILE, TIMELINE, VIDEO, Episode, frame_lines, video_name, video_stream
from recordings.finish import complete
from recordings.marker import MANIFEST, MARKER, lost_power, mark_failed, place_marker, remove_marker, state_of
from recordings.profile import profile_to_yaml
from recordings.storage import copy_exact, fsync_folder, storage_errors, unwritten_tail, write_atomic
from recordings.terminal import counted
from recordings.timeline import Line, encode_line, read_timeline
from recordings.verify_episode import VerifyReport, verify
from recordings.wav_read import WavFile, read_wav

KEPT = "before_repair"


@dataclass
class RepairReport:
    """What was done. ok: the episode is finished now, verifies, and lost no more than a kill explains."""

    path: Path
    ok: bool = False
    actions: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    audio_s: float = 0.0
    video_frames: int = 0

    def to_dict(self) -> dict[str, Any]:
        """Plain data for --json."""
        return {
            "episode": str(self.path),
            "ok": self.ok,
            "actions": self.actions,
            "problems": self.problems,
            "audio_s": round(self.audio_s, 3),
            "video_frames": self.video_frames,
        }


def repair(path: str | Path, report: bool = True) -> RepairReport:
    """Repair one interrupted episode; a finished one is only verified.

    Raises InputError when it is no episode, is still being recorded, or holds nothing to repair from.
    """
    path = Path(path)
    state = state_of(path)
    episode = Episode.open(path)
    done = RepairReport(path)
    if state == "recording":
        raise InputError(f"{path}: is being recorded by a process that lives; stop it first")
    if state == "finished":
        return _conclude(done, verify(path))
    if episode.profile.origin == "imported":
        raise InputError(
            f"{path}: an import that was cut off; the recorder's file is the original: delete this folder and"
            " import again"
        )
    if (path / MANIFEST).is_file():
        # The crash came between the manifest and the removal of the mark: the episode may be whole.
        mark = (path / MARKER).read_bytes() if (path / MARKER).is_file() else None
        remove_marker(path)
        if verify(path).ok:
            done.actions.append("it was whole; only the mark of an unfinished episode was left")
            return _conclude(done, verify(path))
        if mark is not None:
            write_atomic(path / MARKER, mark)
    with storage_errors(path, "repair"):
        _Repair(path, done).run(report)
    return _conclude(done, verify(path))


def _conclude(done: RepairReport, verified: VerifyReport) -> RepairReport:
    done.problems += [str(problem) for problem in verified.problems]
    done.ok = not done.problems
    with suppress(HearthError):
        episode = Episode.open(done.path)
        done.audio_s, done.video_frames = episode.duration_s, len(episode.frame_times())
    return done


class _Repair:
    def __init__(self, folder: Path, done: RepairReport) -> None:
        self.folder, self.done = folder, done
        self.kept = folder / KEPT

    def run(self, report: bool) -> None:
        first_mark = {}
        with suppress(OSError, ValueError):
            first_mark = json.loads((self.folder / MARKER).read_text())
        place_marker(self.folder)  # nobody else repairs it meanwhile
        try:
            self._heal_earlier_repair()
            self._set_aside_leftovers()
            if lost_power(first_mark):
                self._cut_unwritten()
            frames = self._repair_sound()
            lines = self._read_lines()
            lines = self._fit_sound(lines, frames)
            named = {str(line.get("camera", "")) for line in lines if line["type"] == "frame"}
            for camera in sorted(named | set(Episode.open(self.folder).cameras)):
                lines = self._fit_video(lines, camera)
            self._write_lines(lines)
            profile = msgspec.structs.replace(Episode.open(self.folder).profile, interrupted=True)
            write_atomic(self.folder / PROFILE, profile_to_yaml(profile).encode())
            (self.folder / MANIFEST).unlink(missing_ok=True)
            notes = {"actions": self.done.actions, "problems": list(self.done.problems), "mark": first_mark}
            extra = {"repair": notes, **self._av_offset()}
            complete(self.folder, extra=extra, report=report, interrupted=True)
        except BaseException as error:
            mark_failed(self.folder, f"repair: {type(error).__name__}: {error}")
            raise

    def _av_offset(self) -> dict[str, Any]:
        """What the recorder measures while it finishes; nothing for a take without pictures."""
        from recordings.av_offset import offset_of

        if not (self.folder / VIDEO).is_file():
            return {}
        try:
            offset = offset_of(Episode.open(self.folder))
        except InputError as error:
            return {"av_offset": {"offset_ms": None, "reason": str(error)}}
        found = f"{offset.offset_ms:+.1f} ms from {counted(offset.events, 'flash and beep pair')}"
        self.done.actions.append(f"sound against picture: {found}; positive: sound late")
        return {"av_offset": asdict(offset)}

    # Moving files

    def _set_aside(self, name: str) -> None:
        """Move a file of the episode to before_repair/, unless its first original is there already."""
        target = self.kept / name
        with storage_errors(target):
            target.parent.mkdir(parents=True, exist_ok=True)
            if target.exists():
                (self.folder / name).unlink()
            else:
                os.rename(self.folder / name, target)
            fsync_folder(target.parent)

    def _replace(self, name: str, new: Path) -> None:
        with storage_errors(self.folder / name, "replace"):
            self._set_aside(name)
            os.rename(new, self.folder / name)
            fsync_folder((self.folder / name).parent)

    def _heal_earlier_repair(self) -> None:
        for path in sorted(self.kept.rglob("*")) if self.kept.is_dir() else []:
            name = path.relative_to(self.kept)
            hidden = name.name.startswith(".") or name.parts[0] == "unreadable"
            if path.is_file() and not hidden and not (self.folder / name).exists():
                os.rename(path, self.folder / name)
                self.done.actions.append(f"{name}: taken back from an earlier repair that was cut off")

    def _set_aside_leftovers(self) -> None:
        for path in sorted(self.folder.rglob(".*.part")):
            name = path.relative_to(self.folder)
            if name.parts[0] != KEPT:
                self._set_aside(name.as_posix())
                self.done.actions.append(f"{name}: a half-written file, moved to {KEPT}/")

    def _set_aside_unreadable(self, name: str) -> None:
        target = self.kept / "unreadable" / name
        with storage_errors(target):
            target.parent.mkdir(parents=True, exist_ok=True)
            os.rename(self.folder / name, target)

    def _cut_unwritten(self) -> None:
        """Leave out what a power loss kept from the medium at the end of files that were being written."""
        videos = sorted(self.folder.glob("video*.mkv"))
        for path in [*Episode.open(self.folder).audio_paths[-1:], *videos]:
            # Pictures come at up to 30 MB/s and are forced to the medium every 0.25 s.
            tail = unwritten_tail(path, 1 << 24 if path in videos else 1 << 20)
            if not tail:
                continue
            name = path.relative_to(self.folder).as_posix()
            temporary = path.with_name(f".{path.name}.part")
            temporary.unlink(missing_ok=True)
            copy_exact(path, temporary)
            with storage_errors(temporary):
                os.truncate(temporary, path.stat().st_size - tail)
            self._replace(name, temporary)
            self.done.actions.append(f"{name}: {tail} bytes at the end were never written (zeros), left out")

    # Sound

    def _repair_sound(self) -> int:
        """Patch the sizes of segments that need it; gives the number of readable frames."""
        frames = 0
        for path in Episode.open(self.folder).audio_paths:
            name = path.relative_to(self.folder).as_posix()
            try:
                wav = read_wav(path, recover=True)
            except InputError as error:
                self.done.problems.append(f"{name}: {error}; moved to {KEPT}/unreadable/")
                self._set_aside_unreadable(name)
                continue
            frames += wav.frames
            end = wav.data_offset + wav.frames * wav.frame_bytes
            data = next(chunk for chunk in wav.chunks if chunk.id == "data")
            whole = (
                data.declared_bytes == wav.frames * wav.frame_bytes and os.stat(path).st_size == end + end % 2
            )
            if not whole and not wav.trailing_bytes:
                temporary = path.with_name(f".{path.name}.part")
                temporary.unlink(missing_ok=True)
                self._patched_copy(wav, temporary)
                self._replace(name, temporary)
                self.done.actions.append(f"{name}: sizes set to the {wav.frames} frames that are there")
        if not frames:
            raise InputError(
                f"{self.folder}: no sound frame was written before it was cut off; there is nothing to repair"
            )
        return frames

    def _patched_copy(self, wav: WavFile, target: Path) -> None:
        data = wav.frames * wav.frame_bytes
        copy_exact(wav.path, target)
        with storage_errors(target), open(target, "r+b") as file:
            file.truncate(wav.data_offset + data)
            file.seek(wav.data_offset + data)
            file.write(b"\0" * (data % 2))
            file.seek(wav.data_offset - 4)
            file.write(struct.pack("<I", data))
            file.seek(4)
            file.write(struct.pack("<I", wav.data_offset - 8 + data + data % 2))
            file.flush()
            os.fsync(file.fileno())

    # Timeline

    def _read_lines(self) -> list[Line]:
        path = self.folder / TIMELINE
        if not path.is_file():
            self.done.problems.append(f"{TIMELINE}: is missing; times are unknown")
            return []
        timeline = read_timeline(path)
        if timeline.torn_bytes:
            self.done.actions.append(f"{TIMELINE}: torn last line of {timeline.torn_bytes} bytes cut")
        self.done.problems += list(timeline.problems)
        return [
            line for line in timeline.lines if line["type"] not in ("clock", "doa", "track")
        ]  # made again when finishing

    def _fit_sound(self, lines: list[Line], frames: int) -> list[Line]:
        """Make the audio lines stamp exactly the frames that are on disk."""
        rate = Episode.open(self.folder).original.rate
        kept: list[Line] = []
        stamped = 0
        last: Line | None = None
        for line in lines:
            if line["type"] == "audio":
                room = frames - stamped
                if room <= 0:
                    continue
                line = {**line, "frames": min(int(line["frames"]), room)}
                stamped += line["frames"]
                last = line
            kept.append(line)
        if stamped < frames:
            t_ns = int(kept[0]["t_ns"]) if kept else 0
            first_frame, seq = 0, 0
            if last is not None:
                t_ns = int(last["t_ns"]) + round(last["frames"] * 1e9 / rate)
                first_frame, seq = last["first_frame"] + last["frames"], last["seq"] + 1
            kept.append(
                {
                    "type": "audio",
                    "t_ns": t_ns,
                    "t_observed_ns": t_ns,
                    "seq": seq,
                    "first_frame": first_frame,
                    "frames": frames - stamped,
                    "lost": 0,
                    "flags": ["repaired"],
                    "file_frame": stamped,
                }
            )
            self.done.actions.append(
                f"{TIMELINE}: {frames - stamped} frames at the end stamped by the nominal rate"
            )
            if frames - stamped > rate:
                self.done.problems.append(f"{TIMELINE}: more than a second of sound has no recorded time")
        return kept

    def _fit_video(self, lines: list[Line], camera: str) -> list[Line]:
        """Write a camera's video anew, whole, and make its frame lines stamp exactly its pictures."""
        stamps = frame_lines(lines, camera)
        name = video_name(camera)
        times = self._remux(name, bool(stamps))
        kept: list[Line] = []
        count = 0
        for line in lines:
            if line["type"] == "frame" and line.get("camera", "") == camera:
                count += 1
                if count > len(times):
                    continue
            kept.append(line)
        if len(stamps) > len(times):
            lost = stamps[len(times) :]
            gap = {
                "type": "gap",
                "t_ns": lost[0]["t_ns"],
                "stream": video_stream(camera),
                "cause": "cut_off",
                "dropped": len(lost),
            }
            kept.append(gap)
            self.done.actions.append(f"{name}: {counted(len(lost), 'picture')} had not reached the disk")
            span_s = (lost[-1]["t_ns"] - lost[0]["t_ns"]) * 1e-9
            if span_s > 1.0:
                self.done.problems.append(f"{name}: {span_s:.1f} s of pictures are lost")
        for index in range(len(stamps), len(times)):
            t_ns = times[index]
            if stamps:
                t_ns += int(stamps[0]["t_ns"]) - times[0]
            elif kept:
                t_ns += int(kept[0]["t_ns"])
            kept.append(
                {
                    "type": "frame",
                    "t_ns": t_ns,
                    "seq": int(stamps[-1]["seq"]) + 1 + index - len(stamps) if stamps else index,
                    "index": index,
                    "pts_ms": round((times[index] - times[0]) / 1e6),
                    "t_source": "container",
                    "dropped": 0,
                    **({"camera": camera} if camera else {}),
                }
            )
        if len(times) > len(stamps):
            self.done.actions.append(
                f"{TIMELINE}: {counted(len(times) - len(stamps), 'picture')} stamped from {name}"
            )
        return kept

    def _remux(self, name: str, expected: bool) -> list[int]:
        path = self.folder / name
        if not path.is_file():
            return []
        from recordings import video_read

        temporary = self.folder / f".{name}.part"
        temporary.unlink(missing_ok=True)
        try:
            summary = video_read.summarise(path)
            if summary.has_duration and not summary.torn and summary.times_ns:
                return summary.times_ns
            times = video_read.remux(path, temporary)
        except InputError as error:
            temporary.unlink(missing_ok=True)
            self._set_aside_unreadable(name)
            if expected:
                self.done.actions.append(
                    f"{name}: no picture had reached the disk ({error}); moved to {KEPT}/"
                )
            return []
        self._replace(name, temporary)
        self.done.actions.append(
            f"{name}: written anew with {counted(len(times), 'picture')}, as coded before"
        )
        return times

    def _write_lines(self, lines: list[Line]) -> None:
        path = self.folder / TIMELINE
        data = b"".join(encode_line(line) for line in lines)
        temporary = path.with_name(f".{path.name}.part")
        with storage_errors(temporary):
            with open(temporary, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            if path.is_file():
                self._replace(TIMELINE, temporary)
            else:
                os.rename(temporary, path)
