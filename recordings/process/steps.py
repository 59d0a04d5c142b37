"""The steps that come with Hearth. Each: `(episode, out, *, parameters) -> object for result.json`."""

from __future__ import annotations

from datetime import datetime, timezone
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from dsp.errors import InputError
from recordings.episode import RELEASE_RATE_HZ, Episode
from recordings.terminal import plain

if TYPE_CHECKING:
    from recordings.evaluate.answers import Answers


def _sound(episode: Episode) -> str:
    """The format of an episode whose sound is first-order ambisonics. Raises InputError for another."""
    from recordings.finish import is_first_order

    if not episode.audio_paths or episode.original.frames == 0:
        raise InputError(f"{episode.path}: holds no sound")
    if not is_first_order(episode):
        raise InputError(
            f"{episode.path}: {episode.original.channels} channels of format {episode.format} are not"
            " first-order ambisonics"
        )
    return str(episode.format)


def check(episode: Episode, out: Path) -> dict[str, Any]:
    """Levels, clipping, dead channels: the answer of `hearth check`. A faulty recording is a result."""
    from recordings.finish import check_sound

    return dict(plain(check_sound(episode)))


def doa(episode: Episode, out: Path, *, sounds: Literal["speech", "all"] = "speech") -> dict[str, Any]:
    """directions.csv and tracks.csv, as `hearth doa --csv --tracks`; the result is its summary."""
    from recordings.directions_files import DirectionFiles

    named = _sound(episode)
    files = DirectionFiles(csv=out / "directions.csv", tracks=out / "tracks.csv")
    _, found, _ = files.make(
        episode.original, named, episode.path.name, sounds, lambda frames: None, episode.correction
    )
    return dict(plain(found))


def resample(
    episode: Episode,
    out: Path,
    *,
    rate: int = RELEASE_RATE_HZ,
    sample_type: Literal["float", "pcm24"] = "float",
) -> dict[str, Any]:
    """foa.wav: AmbiX at another rate, converted from the original and corrected as the episode says."""
    import dsp
    from recordings.finish import ambix_blocks
    from recordings.wav_write import WavWriter

    named = _sound(episode)
    source = episode.original
    if not 1000 <= rate <= 768_000:
        raise InputError(f"rate {rate}: from 1000 to 768000 Hz")
    resampler = dsp.Resampler(source.rate, rate, 4, on_nonfinite="flag") if rate != source.rate else None
    writer = WavWriter(
        out / "foa.wav",
        rate,
        4,
        sample_type="float" if sample_type == "float" else "pcm",
        format_name="ambix",
        started=_recorded(episode),
        note=episode.profile.id,
    )
    clipped = 0
    peak = 0.0

    def write(block: np.ndarray[Any, np.dtype[np.float32]]) -> None:
        nonlocal clipped, peak
        if not len(block):
            return
        block = np.nan_to_num(block, nan=0.0, posinf=0.0, neginf=0.0)  # dsp.check names them
        peak = max(peak, float(np.max(np.abs(block))))
        if sample_type == "float":
            writer.write(block)
            return
        whole = np.rint(block.astype(np.float64) * (1 << 23))
        clipped += int(np.count_nonzero(np.abs(whole) > 1 << 23))
        writer.write((np.clip(whole, -(1 << 23), (1 << 23) - 1).astype(np.int64) << 8).astype(np.int32))

    try:
        skip = resampler.delay_frames if resampler else 0
        for block in ambix_blocks(source, named, episode.correction):
            made = resampler.push(block) if resampler else block
            write(made[skip:])
            skip -= min(skip, len(made))
        if resampler:
            write(resampler.flush()[skip:])
    finally:
        writer.close()
    return {
        "rate_hz": rate,
        "frames": writer.frames,
        "peak": round(peak, 9),
        "clipped_samples": clipped,
        "from_rate_hz": source.rate,
        "from_format": named,
    }


def verify(episode: Episode, out: Path) -> dict[str, Any]:
    """The answer of `hearth verify`: hashes, lengths, files. An episode that does not verify is a result."""
    from recordings.verify_episode import verify as verify_one

    found = verify_one(episode.path).to_dict()
    return {key: plain(value) for key, value in found.items() if key != "episode"}


def export(
    episode: Episode,
    out: Path,
    *,
    to: str = "omnismarthome",
    unreviewed: bool = False,
    sound: Literal["pcm24", "float"] = "pcm24",
    video: bool = True,
    blur: bool = False,
    voice_safe: bool = False,
) -> dict[str, Any]:
    """The part of a release that this episode is, in any format of `hearth export`, under the same rules.

    An episode that may not go out (consent, reviews, hashes) cannot be used: InputError says why.
    """
    from recordings.marker import MANIFEST
    from recordings.release.formats import exporter
    from recordings.release.item import NO_SPLIT, ReleaseItem
    from recordings.release.media import JOURNAL, Media
    from recordings.release.options import ReleaseOptions
    from recordings.release.select import select
    from recordings.storage import sha256_file

    write = exporter(to)
    for left in select(episode.path, need_accepted=not unreviewed).left_out:
        raise InputError(f"may not go out ({left.code}): {left.why}")
    options = ReleaseOptions(sound=sound, video=video, blur=blur, voice_safe=voice_safe)
    manifest = sha256_file(episode.path / MANIFEST)
    item = ReleaseItem(episode.profile.id, episode.path, NO_SPLIT, manifest, Media(out, options))
    item.media.make_safe(item)
    report = write([item], out, options, lambda items: None)
    item.media.forget_safe()
    (out / JOURNAL).unlink(missing_ok=True)  # how far an export was; this one is done
    return {"to": to, "clipped_samples": report.clipped.get(item.id, 0), "notes": report.notes}


def evaluate(episode: Episode, out: Path, *, answers: Path) -> dict[str, Any]:
    """The score of the episode's answer in a file of answers, by the rules of `hearth evaluate`, without a
    language model. The whole file is part of what the result depends on."""
    from recordings.evaluate.evaluation import evaluate as score

    return dict(plain(score([episode.profile], _answers(answers)).scores[0].to_dict()))


@lru_cache(maxsize=1)
def _answers(path: Path) -> Answers:
    from recordings.evaluate.answers import read_answers

    return read_answers(path)


def _recorded(episode: Episode) -> datetime:
    """When it was recorded, for the tags: results hold no time of their making."""
    try:
        return datetime.fromisoformat(episode.profile.created_utc.replace("Z", "+00:00"))
    except ValueError:
        return datetime.fromtimestamp(0, timezone.utc)


def _warm() -> None:
    """Load the compiled code before the first episode's time counts."""
    from dsp.doa import warm as warm_doa
    from dsp.resample import warm as warm_resample
    from dsp.track import warm as warm_track

    warm_resample()
    warm_doa()
    warm_track()


for _step in (check, doa, resample):
    _step.warm = _warm  # type: ignore[attr-defined]
