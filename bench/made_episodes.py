"""Many small episodes, each with another content, from a few that were recorded: for bench/ and tests."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

import dsp
from recordings import Episode, EpisodeWriter, Profile
from recordings.manifest import write_manifest
from recordings.marker import MANIFEST
from recordings.profile import profile_to_yaml

RATE = 48000


def record_one(root: Path, seconds: float = 0.5) -> Path:
    """A finished episode of noise from the left, with ten pictures a second."""
    noise = 0.1 * np.random.default_rng(7).standard_normal(round(seconds * RATE))
    samples = np.round(dsp.encode(noise, 60.0, 10.0).astype(np.float64) * 2**23).astype(np.int32) << 8
    profile = Profile(
        id="one", session="made", created_utc="2026-01-02T03:04:05Z", origin="virtual", request="stop that"
    )
    audio = {"rate_hz": RATE, "channels": 4, "format": "ambix", "bits": 24}
    writer = EpisodeWriter.create(root, profile, audio, {"width_px": 64, "height_px": 48, "fps": 10.0})
    for seq, first in enumerate(range(0, len(samples), 480)):
        writer.write_audio(samples[first : first + 480], first * 10**9 // RATE, seq, first)
        if seq % 10 == 0:
            writer.write_frame(np.full((48, 64, 3), seq, np.uint8), first * 10**9 // RATE, seq // 10)
    return writer.finish(report=False).path


def vary(one: Path, session: Path, name: str, **fields: Any) -> Path:
    """Another finished episode: files are shared with `one`, but for the profile, which is another; fields:
    of the profile."""
    path = session / name
    path.mkdir(parents=True)
    for source in (p for p in sorted(one.rglob("*")) if p.is_file()):
        if source.name not in ("episode.yaml", MANIFEST):
            target = path / source.relative_to(one)
            target.parent.mkdir(exist_ok=True)
            os.link(source, target)
    profile = Episode.open(one).profile
    request = f"{profile.request or ''} number {name}".strip()
    own = {"id": name, "session": session.name, "request": request}
    text = profile_to_yaml(msgspec.structs.replace(profile, **{**own, **fields}))
    (path / "episode.yaml").write_text(text, encoding="utf-8")
    write_manifest(path)
    return path
