"""Releases as WebDataset shards: tar files that are read from one end to the other.

    <name>-000000.tar, <name>-000001.tar ...     without splits
    <name>-<split>-000000.tar ...                with splits
        <key>.foa.wav   24 kHz, 4 channels: W, Y, Z, X; SN3D
        <key>.json      the whole profile, geometry, and the true times
        <key>.mp4       pictures of the main camera; <key>.<camera>.mp4 those of a further one
    shards.json                                  shards with the number of their samples: a `wids` index

A sample is what has the same name up to its first dot, and a reader takes it for whole when the next name
differs: so the members of a sample lie beside each other, samples are sorted by key, keys have no dot, and a
shard is never cut within a sample. Headers hold no owner and no time. Source: the format's description at
github.com/webdataset/webdataset.
"""

from __future__ import annotations

import hashlib
import io
import json
import shutil
import tarfile
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from dsp.errors import InputError
from recordings.episode import RELEASE, TIMELINE, video_name
from recordings.release.item import NO_SPLIT, ReleaseItem
from recordings.release.options import ExportReport, Holds, ReleaseOptions
from recordings.release.tables import write_json
from recordings.storage import storage_errors

SHARD_BYTES = 500_000_000
SHARDS = "shards.json"
_WORK = "work"  # media on their way into a shard


def export(
    items: Sequence[ReleaseItem],
    out: Path,
    options: ReleaseOptions,
    advance: Callable[[float], None],
    *,
    shard_bytes: int = SHARD_BYTES,
) -> ExportReport:
    """See recordings.release.options.Exporter. shard_bytes: no shard with several samples is larger."""
    report = ExportReport(plain=[])
    listed: list[dict[str, Any]] = []
    keyed = _keys(items)
    for split in sorted({item.split for item in items}):
        stem = options.name if split == NO_SPLIT else f"{options.name}-{split}"
        with _Shards(out, stem, shard_bytes) as shards:
            for key, item in keyed:
                if item.split == split:
                    _add(key, item, out, shards, report)
                    advance(1)
        listed += shards.listed
    shutil.rmtree(out / _WORK, ignore_errors=True)
    write_json(out / SHARDS, {"__kind__": "wids-shard-index-v1", "wids_version": 1, "shardlist": listed})
    report.plain.append(SHARDS)
    report.facts["shards"] = len(listed)
    return report


def readme(items: Sequence[ReleaseItem], report: ExportReport) -> str:
    """The format's part of README.md."""
    return (
        f"WebDataset: {report.facts['shards']} tar files, a sample per episode: `<key>.foa.wav` (24 kHz\n"
        "first-order ambisonics), `<key>.json` (profile, geometry, true times), `<key>.mp4` (pictures).\n"
        "`shards.json` has how many samples each holds.\n\n"
        "```python\n"
        "import io, json, soundfile, webdataset\n"
        "for sample in webdataset.WebDataset(sorted_list_of_tar_files, shardshuffle=False):\n"
        '    foa, rate = soundfile.read(io.BytesIO(sample["foa.wav"]))  # (frames, 4)\n'
        '    request = json.loads(sample["json"])["profile"]["request"]\n'
        "```\n"
    )


def _keys(items: Sequence[ReleaseItem]) -> list[tuple[str, ReleaseItem]]:
    """Key and item, sorted by key."""
    found: dict[str, ReleaseItem] = {}
    for item in items:
        key = item.id.replace(".", "_")
        if key in found:
            raise InputError(
                f"{item.path} and {found[key].path}: {item.id} and {found[key].id} would have one key, {key},"
                " since keys hold no dot; export them apart"
            )
        found[key] = item
    return sorted(found.items())


def _add(key: str, item: ReleaseItem, out: Path, shards: _Shards, report: ExportReport) -> None:
    work = out / _WORK
    sound = item.write_sound(work / f"{key}.foa.wav")
    if sound.clipped:
        report.clipped[item.id] = sound.clipped
    told = item.description()
    told["sound"] = {"file": f"{key}.foa.wav", **sound.facts()}
    told["video"] = {}
    members: dict[str, tuple[Path | bytes, tuple[str, ...]]] = {f"{key}.foa.wav": (sound.path, (RELEASE,))}
    for camera in item.cameras:
        name = f"{key}.{camera.replace('.', '_')}.mp4" if camera else f"{key}.mp4"
        made = item.write_video(work / name, camera)
        members[name] = (made.path, (video_name(camera),))
        told["video"][camera or "main"] = {
            "file": name,
            "codec": made.codec,
            "width_px": made.width_px,
            "height_px": made.height_px,
            "pictures": made.frames,
            "as_recorded": made.copied,
            "blurred": made.blurred,
        }
    text = json.dumps(told, indent=1, ensure_ascii=False, allow_nan=False).encode() + b"\n"
    members[f"{key}.json"] = (text, ("episode.yaml", TIMELINE))
    shard, hashes = shards.add({name: content for name, (content, _) in sorted(members.items())})
    for name, digest in hashes.items():
        report.holds.append(Holds(shard, item.id, member=name, of=members[name][1], sha256=digest))
    for content, _ in members.values():
        if isinstance(content, Path):
            with storage_errors(content, "remove"):
                content.unlink()


class _Shards:
    """The tar files of a split, one after the other; `listed` says what they hold."""

    def __init__(self, out: Path, stem: str, limit: int) -> None:
        self._out, self._stem, self._limit = out, stem, limit
        self._tar: tarfile.TarFile | None = None
        self.listed: list[dict[str, Any]] = []

    def __enter__(self) -> _Shards:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close()

    def add(self, members: dict[str, Path | bytes]) -> tuple[str, dict[str, str]]:
        """Append a sample; (name of the shard, SHA-256 of each member). Raises StorageError."""
        sizes = {name: c.stat().st_size if isinstance(c, Path) else len(c) for name, c in members.items()}
        if self._tar is not None and self._tar.offset + _in_tar(sizes) > self._limit:
            self._close()
        if self._tar is None:
            name = f"{self._stem}-{len(self.listed):06d}.tar"
            self.listed.append({"url": name, "nsamples": 0, "filesize": 0})
            with storage_errors(self._out / name):
                self._tar = tarfile.open(self._out / name, "w", format=tarfile.PAX_FORMAT)  # noqa: SIM115
        shard = str(self.listed[-1]["url"])
        hashes = {}
        with storage_errors(self._out / shard):
            for name, content in members.items():
                hashes[name] = self._write(name, content, sizes[name])
        self.listed[-1]["nsamples"] += 1
        return shard, hashes

    def _write(self, name: str, content: Path | bytes, size: int) -> str:
        assert self._tar is not None
        head = tarfile.TarInfo(name)
        head.size, head.mode = size, 0o644
        file = open(content, "rb") if isinstance(content, Path) else io.BytesIO(content)  # noqa: SIM115
        reader = _Hashing(file)
        with reader.file:
            self._tar.addfile(head, reader)  # type: ignore[arg-type]
        return reader.digest.hexdigest()

    def _close(self) -> None:
        if self._tar is None:
            return
        tar, self._tar = self._tar, None
        path = self._out / str(self.listed[-1]["url"])
        with storage_errors(path):
            tar.close()
            self.listed[-1]["filesize"] = path.stat().st_size


class _Hashing:
    """A file for `tarfile` that is hashed on the way."""

    def __init__(self, file: Any) -> None:
        self.file = file
        self.digest = hashlib.sha256()

    def read(self, size: int = -1) -> bytes:
        data: bytes = self.file.read(size)
        self.digest.update(data)
        return data


def _in_tar(sizes: dict[str, int]) -> int:
    """Bytes of members with their headers, and of the end of the archive."""
    blocks = sum(1 + -(-size // tarfile.BLOCKSIZE) for size in sizes.values())
    return blocks * tarfile.BLOCKSIZE + tarfile.RECORDSIZE
