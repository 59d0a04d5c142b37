"""`hearth export`: the episodes of a data folder as one release of a format."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from dsp.errors import CheckFailed, InputError
from recordings.terminal import counted, emit, progress


def export(
    paths: Annotated[
        list[Path], typer.Argument(metavar="DATA...", help="data folders, sessions or episodes; only read")
    ],
    to: Annotated[
        str,
        typer.Option(
            "--to",
            help="omnismarthome, dcase, audiofolder, webdataset, mcap, lerobot or bids: docs/release.md",
        ),
    ],
    out: Annotated[Path, typer.Option("--out", help="the folder to make; it must not be there yet")],
    split_by: Annotated[
        str | None,
        typer.Option(help="participant or room: none of them is in two splits; default: no splits"),
    ] = None,
    sizes: Annotated[str, typer.Option(help="shares of train, val and test")] = "70/15/15",
    drop_mixed: Annotated[
        bool, typer.Option("--drop-mixed", help="leave out episodes that would be in two splits")
    ] = False,
    blur: Annotated[bool, typer.Option("--blur", help="blur faces; left out where not sure")] = False,
    voice_safe: Annotated[
        bool, typer.Option("--voice-safe", help="change voices so that nobody is known by them")
    ] = False,
    unreviewed: Annotated[
        bool, typer.Option("--unreviewed", help="also episodes that reviewers have not accepted yet")
    ] = False,
    sound: Annotated[str, typer.Option(help="pcm24 (24-bit integers) or float")] = "pcm24",
    video: Annotated[bool, typer.Option("--video/--no-video", help="pictures go along")] = True,
    name: Annotated[str, typer.Option(help="name of the data set")] = "hearth-release",
    licence: Annotated[str, typer.Option("--licence", help="its licence by SPDX name, e.g. CC-BY-4.0")] = "",
    resume: Annotated[
        bool, typer.Option("--resume", help="be content with a folder that is of the very same already")
    ] = False,
    replace: Annotated[
        bool, typer.Option("--replace", help="replace an existing release when the new one is whole")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="one JSON object on stdout")] = False,
) -> None:
    """Release episodes that are verified, accepted and consented to: splits, checksums, true times."""
    from recordings.release.options import ReleaseOptions
    from recordings.release.run import NothingGoesOut, export_release

    if sound not in ("pcm24", "float"):
        raise InputError(f"--sound is pcm24 or float, not {sound!r}")
    options = ReleaseOptions(
        name=name,
        licence=licence,
        sound="float" if sound == "float" else "pcm24",
        video=video,
        blur=blur,
        voice_safe=voice_safe,
    )
    try:
        made = export_release(
            paths,
            to,
            out,
            options,
            split_by=split_by,
            sizes=read_sizes(sizes),
            mixed=drop_mixed,
            need_accepted=not unreviewed,
            resume=resume,
            replace=replace,
            bar=progress,
        )
    except CheckFailed as error:
        left_out = error.left_out if isinstance(error, NothingGoesOut) else ()
        rows = [one.to_dict() for one in left_out]
        nothing = {"files": 0, "bytes": 0, "clipped": [], "notes": [], "existing": False}
        failed = {"out": None, "format": to, "key": None, "numbers": None, "options": options.to_dict()}
        told = {**failed, "split_by": split_by, **nothing, "left_out": rows, "problem": str(error)}
        if as_json or rows:
            emit(told, as_json, _left_out(rows))
        raise
    result = {**made.to_dict(), "problem": None}
    emit(result, as_json, _in_words(result))


def read_sizes(text: str) -> dict[str, float]:
    """Shares of train, val and test from "70/15/15"; val may be left out as in "80/20". Raises InputError."""
    parts = text.split("/")
    try:
        shares = [float(part) for part in parts]
    except ValueError:
        shares = []
    if len(shares) not in (2, 3) or any(not 0 < share < 1e6 for share in shares):
        raise InputError(f"--sizes {text!r}: two or three positive numbers such as 70/15/15 or 80/20")
    names = ("train", "val", "test") if len(shares) == 3 else ("train", "test")
    return dict(zip(names, shares, strict=True))


def _in_words(result: dict[str, Any]) -> list[str]:
    found = result["numbers"]
    splits = ", ".join(f"{name} {number}" for name, number in found["splits"].items())
    lines = [
        f"{result['out']}: {counted(found['episodes'], 'episode')} as {result['format']}"
        + (f" ({splits})" if result["split_by"] else "")
        + f", {counted(result['files'], 'file')}, {result['bytes'] / 1e6:.1f} MB"
        + (", there already" if result["existing"] else "")
    ]
    if result["clipped"]:
        total = sum(one["samples"] for one in result["clipped"])
        lines.append(
            f"  note: {counted(total, 'sample')} in {counted(len(result['clipped']), 'episode')} were beyond"
            " full scale and are at it; --sound float keeps them"
        )
    lines += [f"  note: {text}" for text in result["notes"]]
    return lines + _left_out(result["left_out"])


def _left_out(rows: list[dict[str, str]]) -> list[str]:
    lines = [f"  left out: {row['path']}: {row['why']}" for row in rows[:20]]
    return lines + ([f"  and {len(rows) - 20} more"] if len(rows) > 20 else [])
