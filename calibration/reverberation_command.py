"""`hearth calibrate room rt60`: the room's reverberation from sweeps, responses, claps, or live."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from dsp.errors import CheckFailed, InputError
from recordings.terminal import emit, progress

SWEEP = "8 50 18000"


def rt60(
    files: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[FILES...]",
            help="Recordings, each at another place (or a folder of them); with --live the folder to fill.",
        ),
    ] = None,
    sweep: Annotated[
        str, typer.Option(help='The sweep that was played: "seconds low_hz high_hz"; this is the usual form.')
    ] = SWEEP,
    response: Annotated[
        bool, typer.Option("--response", help="The files are impulse responses, not recordings of a sweep.")
    ] = False,
    claps: Annotated[
        bool, typer.Option("--claps", help="The files are recordings of claps or balloon pops (quick form).")
    ] = False,
    format_name: Annotated[
        str | None, typer.Option("--format", help="Channel order when the tags do not say; W is used.")
    ] = None,
    channel: Annotated[
        str | None,
        typer.Option(help="Not ambisonic: the omnidirectional channel (1, 2 ...), or each as a place."),
    ] = None,
    live: Annotated[
        bool, typer.Option("--live", help="Record the rig's microphone while you play the sweep or pop.")
    ] = False,
    rig: Annotated[Path | None, typer.Option(help="Rig file for --live; else ./rig.yaml.")] = None,
    places: Annotated[int, typer.Option(min=1, help="How many sweeps or pops --live takes.")] = 6,
    seconds: Annotated[float, typer.Option(min=5, help="How long --live waits for them.")] = 1800.0,
    write_sweep: Annotated[
        Path | None, typer.Option(help="Only write the sweep as a WAV to be played, and end.")
    ] = None,
    out: Annotated[
        Path, typer.Option("--out", "--room", help="Result file; its other sections stay.")
    ] = Path("room.json"),
    page: Annotated[
        Path | None, typer.Option(help="Report page; default: beside the result, _rt60.html.")
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON object on stdout; progress on stderr.")
    ] = False,
) -> None:
    """Reverberation time of the room (T20, T30, EDT) and clarity, in octaves, with uncertainties (ISO 3382).

    Exit 1: in no band is there range enough for a T20; nothing is written but the page.
    """
    from calibration.outputs import refuse_overwriting
    from calibration.pose_command import _sweep

    played = _sweep(sweep)
    page = page or out.with_name(f"{out.stem}_rt60.html")
    written = {"--out": out, "--page": page, "--write-sweep": write_sweep}
    refuse_overwriting(written, [*(files or ()), rig or Path("rig.yaml")])
    if write_sweep is not None:
        _write(write_sweep, played)
        emit(
            {"good": True, "sweep": str(write_sweep)},
            as_json,
            f"{write_sweep}: play it from one place, record at 6 others; be quiet for the last 4 s of it",
        )
        return
    if response and claps:
        raise InputError("--response and --claps are two forms; give one")
    if not files:
        raise InputError("nothing to read: name recordings, each at another place, or give --live FOLDER")
    kind = "response" if response else "claps" if claps else "sweep"
    if live:
        if response:
            raise InputError("--live records sweeps or claps, not responses; leave --response out")
        format_name = _live(files, None if claps else played, rig, places, seconds)
        channel = None
    _measure(_paths(files), kind, played, format_name, channel, out, page, as_json)


def _measure(
    paths: list[Path],
    kind: str,
    played: Any,
    format_name: str | None,
    channel: str | None,
    out: Path,
    page: Path,
    as_json: bool,
) -> None:
    from calibration.result import hash_inputs
    from calibration.reverberation import measure, put_together
    from calibration.reverberation_files import gather
    from calibration.reverberation_report import lines, section, summary, write_page
    from calibration.room_file import update_room

    with progress("finding the responses", len(paths)) as advance:
        responses, skipped, told = gather(paths, kind, played, format_name, channel, advance)
    measured = []
    with progress("decays in octaves", len(responses)) as advance:
        for one in responses:
            try:
                measured.append(measure(one))
            except InputError as error:
                skipped.append((one.name, str(error)))
            advance(1)
    if kind == "claps":
        told.append("claps and pops are not alike in all directions, nor each to the next: a survey")
    found = put_together(measured, told, skipped)
    method: dict[str, Any] = {"kind": kind}
    if kind == "sweep":
        method |= {"sweep_s": played.seconds, "low_hz": played.low_hz, "high_hz": played.high_hz}
    report = write_page(page, found, ", ".join(p.name for p in paths[:8]))
    told_all = {**summary(found), "result": None, "page": str(report)}
    if not told_all["good"]:
        emit(told_all, as_json, [*lines(found), f"page: {report}"])
        raise CheckFailed("no reverberation time that can be stood for (reasons above); nothing was written")
    value, units, quality = section(found, method)
    skipped_names = {name for name, _ in skipped}
    inputs = hash_inputs(p for p in paths if p.name not in skipped_names)
    update_room(
        out, "reverberation", value, units=units, inputs=inputs, quality=quality, warnings=found.warnings
    )
    told_all["result"] = str(out)
    emit(told_all, as_json, [*lines(found), f"written to {out}; page: {report}"])


def _paths(files: list[Path]) -> list[Path]:
    """Files, and the sound files of folders, in order."""
    from recordings.audio_file import OTHER_SUFFIXES, WAV_SUFFIXES

    found: list[Path] = []
    for path in files:
        if not path.is_dir():
            found.append(path)
            continue
        inside = sorted(p for p in path.iterdir() if p.suffix.lower() in WAV_SUFFIXES | OTHER_SUFFIXES)
        if not inside:
            raise InputError(f"{path}: a folder without sound files")
        found += inside
    return found


def _live(files: list[Path], sweep: Any, rig: Path | None, places: int, seconds: float) -> str | None:
    """Fill the folder; gives the format of its sounds (None with one channel)."""
    from calibration.reverberation_live import run_live

    if len(files) != 1 or files[0].is_file():
        raise InputError("with --live name one folder, new or with earlier sweeps of the same room")
    say = lambda text: print(text, file=sys.stderr, flush=True)  # noqa: E731
    return run_live(rig, files[0], sweep, places, seconds, say) or None


def _write(path: Path, sweep: Any) -> None:
    import numpy as np

    from calibration.live_rig import write_sound

    sound = np.concatenate([np.zeros(sweep.fs), sweep.signal, np.zeros(4 * sweep.fs)])
    write_sound(path, 0.5 * sound, sweep.fs, "PCM_24")
