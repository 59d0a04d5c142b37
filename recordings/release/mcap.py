"""Releases as MCAP files, one per episode, for Foxglove and every reader of MCAP (mcap.dev).

    episodes/<id>.mcap
        /foa24, /foa24_w          sound in blocks of 100 ms, as a live rig publishes it
        /video, /video_<camera>   pictures
        /doa, /tracks             directions
        /gap                      where sound or pictures are missing
        metadata hearth.clock, hearth.episode; attachments episode.json (profile, geometry, times), truth.json

Schemas are those of `hearth stream record` (`recordings.mcap_schemas`). Times are true ones: `log_time`,
`publish_time` and `timestamp` are UTC of the first sample or of the picture, `t_ns` is the session's clock;
where UTC is not known (`hearth.clock` says so) they are the session's clock too. Pictures that a camera gave
as JPEG are these bytes; others are decoded and coded as JPEG of quality 95.
"""

from __future__ import annotations

import base64
import heapq
import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from dsp.errors import InputError
from recordings.audio_file import open_audio
from recordings.episode import (
    DOA_WINDOW_S,
    RELEASE,
    RELEASE_RATE_HZ,
    TIMELINE,
    frame_lines,
    video_name,
)
from recordings.mcap_schemas import AUDIO, IMAGE, MESSAGE, RAW_AUDIO, time_of, w_to_listen_to
from recordings.release.item import ReleaseItem
from recordings.release.options import ExportReport, Holds, ReleaseOptions
from recordings.storage import sha256_file, storage_errors
from recordings.terminal import plain

_BLOCK = RELEASE_RATE_HZ // 10
_JPEG_QUALITY = 95
_WORK = "work"
_WINDOW_NS = round(DOA_WINDOW_S * 1e9)
_OF_DOA = ("azimuth_deg", "elevation_deg", "confidence", "uncertainty_deg", "level_dbfs", "active")
_OF_TRACK = ("azimuth_deg", "elevation_deg", "uncertainty_deg", "confidence", "coasting")
_OF_GAP = ("stream", "cause", "lost_frames", "sigma_frames", "file_frame", "dropped")

# (time on the session's clock, topic, its number, value)
_Line = tuple[int, str, int, dict[str, Any]]


def export(
    items: Sequence[ReleaseItem], out: Path, options: ReleaseOptions, advance: Callable[[float], None]
) -> ExportReport:
    """See recordings.release.options.Exporter. Raises InputError without the extra `export`."""
    report = ExportReport()
    for item in items:
        name = f"episodes/{item.id}.mcap"
        with storage_errors(out / name):
            (out / "episodes").mkdir(parents=True, exist_ok=True)
            _write(item, out / name, out / _WORK, report)
        of = ("episode.yaml", RELEASE, TIMELINE, *(video_name(camera) for camera in item.cameras))
        report.holds.append(Holds(name, item.id, of=of, sha256=sha256_file(out / name)))
        shutil.rmtree(out / _WORK, ignore_errors=True)
        advance(1)
    return report


def readme(items: Sequence[ReleaseItem], report: ExportReport) -> str:
    """The format's part of README.md."""
    return (
        "One MCAP file per episode, `episodes/<id>.mcap`: `/foa24` (24 kHz first-order ambisonics, float32\n"
        "in base64), `/foa24_w` (W, to listen to), `/video`, `/doa`, `/tracks`, `/gap`; JSON with JSON\n"
        "schemas. Message times are UTC where it is known, `t_ns` is the session's clock, metadata\n"
        "`hearth.clock` their difference. The attachment `episode.json` has profile, geometry, and all\n"
        "times. Foxglove opens them.\n"
    )


def _write(item: ReleaseItem, path: Path, work: Path, report: ExportReport) -> None:
    try:
        from mcap.writer import CompressionType, Writer
    except ImportError as error:
        raise InputError(f"--to mcap needs `pip install 'hearth-home[export]'` ({error})") from None
    sound = item.write_sound(work / f"{item.id}.wav")
    if sound.clipped:
        report.clipped[item.id] = sound.clipped
    videos = {camera: item.write_video(work / video_name(camera), camera) for camera in item.cameras}
    utc = item.utc_minus_clock_ns
    offset = utc or 0
    streams: list[Iterator[_Line]] = [_sound(item, sound.path), *_directions(item), _gaps(item)]
    for camera, made in videos.items():
        streams.append(_pictures(item, camera, made.path, made.codec))
    with open(path, "wb") as file:
        writer = Writer(file, compression=CompressionType.ZSTD)
        writer.start(profile="", library="hearth")
        channels: dict[str, int] = {}
        schemas: dict[str, int] = {}
        for t_ns, topic, number, value in heapq.merge(*streams, key=lambda line: line[0]):
            if topic not in channels:
                name, schema = _schema_of(topic)
                if name not in schemas:
                    schemas[name] = writer.register_schema(name, "jsonschema", schema)
                channels[topic] = writer.register_channel(topic, "json", schemas[name])
            at = max(t_ns + offset, 0)
            data = msgspec.json.encode({"timestamp": time_of(at), **value})
            writer.add_message(channels[topic], at, data, at, number)
        told = item.description()
        told["sound"] = sound.facts()
        told["video"] = {
            camera or "main": {
                "codec": made.codec,
                "pictures": made.frames,
                "as_recorded": made.copied and made.codec == "mjpeg",
                "blurred": made.blurred,
            }
            for camera, made in videos.items()
        }
        start = max(item.episode.start_ns + offset, 0)
        for name, content in (("episode.json", told), ("truth.json", item.episode.truth())):
            if content:
                text = json.dumps(plain(content), indent=1, ensure_ascii=False).encode()
                writer.add_attachment(start, start, name, "application/json", text)
        clock = {"utc_minus_monotonic_ns": str(offset), "utc_known": "yes" if utc is not None else "no"}
        writer.add_metadata("hearth.clock", clock)
        writer.add_metadata("hearth.episode", _facts(item))
        writer.finish()


def _facts(item: ReleaseItem) -> dict[str, str]:
    profile = item.profile
    facts = {
        "id": item.id,
        "session": profile.session,
        "split": item.split,
        "room": item.room,
        "speaker": item.participant,
        "request": profile.request,
        "grounding": profile.grounding,
        "query": profile.query,
        "feasibility": profile.feasibility,
        "difficulty": profile.difficulty,
        "target_device": profile.target_device,
    }
    return {key: value for key, value in facts.items() if value is not None}


def _schema_of(topic: str) -> tuple[str, bytes]:
    if topic.startswith("/video"):
        return "foxglove.CompressedImage", IMAGE
    if topic == "/foa24":
        return "hearth.Audio", AUDIO
    return ("foxglove.RawAudio", RAW_AUDIO) if topic == "/foa24_w" else ("hearth.Message", MESSAGE)


def _header(number: int, t_ns: int, duration_ns: int, units: str, data: dict[str, Any]) -> dict[str, Any]:
    """As a live publisher's: there is one epoch."""
    return {
        "epoch": 0,
        "seq": number,
        "t_ns": t_ns,
        "duration_ns": duration_ns,
        "units": units,
        "retained": False,
        "data": data,
    }


def _sound(item: ReleaseItem, path: Path) -> Iterator[_Line]:
    """Blocks of 100 ms at their true times; none lies across a loss or another rate of the clock."""
    sound = open_audio(path)
    starts = [round(piece.frame) for piece in item.sound_pieces()]
    inner = {*range(0, sound.frames, _BLOCK), *(start for start in starts if 0 < start < sound.frames)}
    edges = sorted({*inner, sound.frames})
    times = item.sound_times_ns(np.array(edges))
    # The end of a block before a loss is its last frame's, not the begin of the next.
    lasting = np.diff(edges) * round(1e9 / RELEASE_RATE_HZ)
    for number, (begin, end) in enumerate(pairwise(edges)):
        t_ns = int(times[number])
        samples = sound.read(begin, end - begin)
        about = {"sample_rate": RELEASE_RATE_HZ, "number_of_channels": samples.shape[1]}
        data = {"rate_hz": RELEASE_RATE_HZ, "frame": begin}
        packed = base64.b64encode(samples.astype("<f4").tobytes()).decode()
        head = _header(number, t_ns, int(lasting[number]), "full scale +-1", data)
        yield t_ns, "/foa24", number, {"samples": packed, "format": "float32", **about, **head}
        yield t_ns, "/foa24_w", number, w_to_listen_to(samples, RELEASE_RATE_HZ, {})


def _pictures(item: ReleaseItem, camera: str, path: Path, codec: str) -> Iterator[_Line]:
    lines = frame_lines(item.episode.timeline(), camera)
    topic = f"/{Path(video_name(camera)).stem}"
    times = item.frame_times_ns(camera).tolist()
    for number, data in _jpegs(path, codec):
        told = {key: lines[number][key] for key in ("dropped", "flags") if lines[number].get(key)}
        head = _header(int(lines[number]["seq"]), times[number], 0, "", told)
        packed = base64.b64encode(data).decode()
        image = {"frame_id": "camera", "data": packed, "format": "jpeg", "header": head}
        yield times[number], topic, number, image


def _jpegs(path: Path, codec: str) -> Iterator[tuple[int, bytes]]:
    """(place in the file, JPEG) of every picture; one that cannot be decoded to be coded is left out."""
    from recordings import video_read

    if codec == "mjpeg":
        with video_read._open(path) as reader:
            packets = (p for p in reader.demux(reader.streams.video[0]) if p.pts is not None and p.size)
            yield from ((number, bytes(packet)) for number, packet in enumerate(packets))
        return
    import cv2

    for number, _, image in video_read.numbered_frames(path):
        made, data = cv2.imencode(".jpg", image, [cv2.IMWRITE_JPEG_QUALITY, _JPEG_QUALITY])
        if not made:
            raise InputError(f"{path}: a picture could not be coded as JPEG")
        yield number, data.tobytes()


def _directions(item: ReleaseItem) -> list[Iterator[_Line]]:
    lines = item.episode.timeline()
    doa = [line for line in lines if line["type"] == "doa"]
    windows: dict[int, list[dict[str, Any]]] = {line["t_ns"]: [] for line in doa}
    for line in lines:
        if line["type"] == "track":
            found = {"id": line["track"], **{key: line.get(key) for key in _OF_TRACK}}
            windows.setdefault(line["t_ns"], []).append(found)
    rows = sorted(doa, key=lambda line: int(line["t_ns"]))
    directions = ((int(line["t_ns"]), {key: line.get(key) for key in _OF_DOA}) for line in rows)
    tracks = ((int(t_ns), {"tracks": found}) for t_ns, found in sorted(windows.items()))
    return [_messages("/doa", directions, _WINDOW_NS, "deg"), _messages("/tracks", tracks, _WINDOW_NS, "deg")]


def _gaps(item: ReleaseItem) -> Iterator[_Line]:
    rows = sorted(
        (int(line["t_ns"]), {key: line[key] for key in _OF_GAP if key in line})
        for line in item.episode.timeline()
        if line["type"] == "gap"
    )
    return _messages("/gap", iter(rows), 0, "")


def _messages(
    topic: str, rows: Iterator[tuple[int, dict[str, Any]]], duration_ns: int, units: str
) -> Iterator[_Line]:
    for number, (t_ns, data) in enumerate(rows):
        yield t_ns, topic, number, _header(number, t_ns, duration_ns, units, data)
