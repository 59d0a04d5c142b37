"""`hearth calibrate capsules`: from a folder of directions, from one recording with a table, or live."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from dsp.errors import CheckFailed, InputError
from recordings.terminal import counted, emit


def capsules(
    source: Annotated[
        Path | None,
        typer.Argument(
            metavar="[SOURCE]",
            help="a folder with front.wav, back.wav, left.wav, right.wav, up.wav, down.wav (or any names and"
            " directions.csv), or one recording of all with --directions",
        ),
    ] = None,
    directions: Annotated[
        Path | None,
        typer.Option(help="table time_s,azimuth_deg,elevation_deg[,name] of one recording"),
    ] = None,
    format_name: Annotated[
        str | None, typer.Option("--format", help="channel order when the tags do not say")
    ] = None,
    sweep: Annotated[
        str, typer.Option(help='the sweep that was played: "seconds low_hz high_hz"')
    ] = "3 100 18000",
    claps: Annotated[
        bool, typer.Option("--claps", help="claps or clicks instead of sweeps (quick, half as good)")
    ] = False,
    placement_deg: Annotated[
        float | None,
        typer.Option(help="how well the loudspeakers were placed, in degrees; default 2, 5 for claps"),
    ] = None,
    noise: Annotated[Path | None, typer.Option(help="a quiet recording, for the noise floor")] = None,
    calibrator: Annotated[
        str,
        typer.Option(
            help="what a calibrator of 94 dB reads, in dB re full scale (one number, or one per channel), or"
            " its recording"
        ),
    ] = "",
    live: Annotated[
        bool, typer.Option("--live", help="take the directions now, guided; SOURCE is the folder for them")
    ] = False,
    rig: Annotated[Path | None, typer.Option(help="rig file for --live; default: rig.yaml")] = None,
    write_sweep: Annotated[
        Path | None, typer.Option(help="only write the sweep as a WAV to be played, and end")
    ] = None,
    out: Annotated[Path, typer.Option(help="result file")] = Path("capsules.json"),
    page: Annotated[Path | None, typer.Option(help="report page; default: beside the result, .html")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="one JSON object on stdout")] = False,
) -> None:
    """Gains, delays, wiring and encoding of the microphone, and what puts them right. Exit 1 without it."""
    from calibration import capsules_files
    from calibration.capsules_fit import PLACEMENT_DEG, fit_capsules
    from calibration.capsules_report import in_words, problems, summary, to_result, verify, write_page
    from calibration.outputs import refuse_overwriting
    from calibration.pose_command import _sweep, _write_sweep

    played = _sweep(sweep)
    page = page or out.with_suffix(".html")
    read = [source, directions, noise, Path(calibrator) if calibrator else None, rig or Path("rig.yaml")]
    refuse_overwriting({"--out": out, "--page": page, "--write-sweep": write_sweep}, read)
    if write_sweep is not None:
        _write_sweep(write_sweep, played)
        text = f"{write_sweep}: play this from every direction"
        emit({"good": True, "sweep": str(write_sweep)}, as_json, text)
        return
    if source is None:
        raise InputError("nothing to read: name a folder of directions, or a recording with --directions")
    if live:
        if claps or directions is not None:
            raise InputError(
                "--live takes the six directions with sweeps; leave out --claps and --directions"
            )
        from calibration.capsules_live import run_live

        format_name = run_live(rig, source, played, lambda text: print(text, file=sys.stderr, flush=True))
    used = None if claps else played
    if source.is_dir():
        if directions is not None:
            raise InputError("--directions belongs to one recording; a folder has its directions.csv")
        got = capsules_files.from_folder(source, used, format_name)
    elif directions is None:
        raise InputError(f"{source}: one recording needs --directions, a table of when and from where")
    else:
        got = capsules_files.from_recording(source, directions, used, format_name)
    if noise is not None:
        capsules_files.set_quiet(got, noise, format_name)
    floor = _noise(got, calibrator)
    placed = placement_deg if placement_deg is not None else PLACEMENT_DEG if not claps else 5.0
    fit = None
    if len(got.directions) >= capsules_files.LEAST:
        fit = fit_capsules(got.directions, got.format, placement_deg=placed)
    verified = None
    if fit is not None and fit.ok and not got.problems:
        verified = verify(fit, got)
        if verified["faults"]:
            named = "; ".join(f["message"] for f in verified["faults"])
            got.problems.append((f"the corrected sound is still not right: {named}", "measure again"))
    wrong = problems(fit, got)
    report = write_page(page, fit, got, floor, verified, str(source))
    found: dict[str, Any] = {"good": not wrong, "result": None, "page": str(report), "problems": wrong}
    if fit is not None:
        found |= summary(fit, got, floor)
    lines = [] if fit is None else in_words(fit, floor)
    lines += [f"  {w['problem']}: {w['remedy']}" for w in wrong]
    if not wrong and fit is not None and verified is not None:
        method = {
            "sound": "claps" if claps else f"sweep {sweep}",
            "placement_deg": placed,
            "quiet": got.quiet_from or None,
        }
        found["result"] = str(to_result(fit, got, floor, verified, method).save(out))
        found["direction_error_before_deg"] = verified["direction_error_before_deg"]["median"]
        found["direction_error_deg"] = verified["direction_error_deg"]["median"]
        lines.append(f"written to {out}; page: {report}")
    emit(found, as_json, lines)
    if wrong:
        raise CheckFailed(
            f"no correction to stand for ({counted(len(wrong), 'reason')} above); nothing written to {out},"
            f" see {report}"
        )


def _noise(got: Any, calibrator: str) -> Any:
    """The noise floor of the quiet part, or None when there is none."""
    from calibration.capsules_files import read_raw
    from calibration.noise_floor import calibrator_level, noise_floor

    if got.quiet is None:
        if calibrator:
            raise InputError("--calibrator is for the noise floor: give a quiet recording with --noise")
        return None
    level: Any = None
    if calibrator:
        words = calibrator.replace(",", " ").split()
        try:
            level = [float(word) for word in words]
        except ValueError:
            x, fs, _ = read_raw(Path(calibrator), got.format)
            loudest = int(abs(x).mean(axis=0).argmax())
            level = [calibrator_level(x, fs, loudest)]
        if len(level) not in (1, 4):
            raise InputError(f"--calibrator is one number or four, not {calibrator!r}")
        level = level[0] if len(level) == 1 else level
    return noise_floor(got.quiet, got.fs, level)
