"""`hearth calibrate pose`: from a table, a folder of pairs, a recording with video, an episode, or live."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from dsp.errors import CheckFailed, InputError
from recordings.terminal import counted, emit, progress


def pose(
    sources: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[SOURCE...]",
            help="a table of pairs (.csv), a folder of NAME.wav + NAME.png, a recording and its video, or an"
            " episode",
        ),
    ] = None,
    camera: Annotated[
        Path | None, typer.Option(help="result of `hearth calibrate camera`; not needed for 3-D points")
    ] = None,
    board: Annotated[
        str, typer.Option(help='the board, as in "charuco 5x7 40mm 20mm 6x6_250" or "chessboard 9x6 25mm"')
    ] = "",
    marker: Annotated[
        str, typer.Option(help="instead of a board: the ArUco dictionary of one lone marker, as in 4x4_50")
    ] = "",
    marker_size: Annotated[
        float, typer.Option(help="side of the marker in metres; without it only its direction is used")
    ] = 0.0,
    speaker: Annotated[
        str, typer.Option(help='place of the loudspeaker on the board, "x y z" in metres; solved in any case')
    ] = "",
    speaker_sigma: Annotated[float, typer.Option(help="how well that was measured, in metres")] = 0.005,
    lever_arm: Annotated[
        str, typer.Option(help='tape-measured microphone from the camera, "right down forward" in metres')
    ] = "",
    lever_arm_sigma: Annotated[float, typer.Option(help="how well that was measured, in metres")] = 0.02,
    sweep: Annotated[
        str, typer.Option(help='the sweep that was played: "seconds low_hz high_hz"')
    ] = "3 100 18000",
    claps: Annotated[
        Path | None,
        typer.Option(help="table time_s,u_px,v_px[,distance_m] of claps in the recording (quick form)"),
    ] = None,
    seen: Annotated[
        Path | None,
        typer.Option(help="table time_s,u_px,v_px[,distance_m] of where each sweep was (a handheld phone)"),
    ] = None,
    video_offset_s: Annotated[
        float, typer.Option(help="seconds from the first sound to the first picture of a separate video")
    ] = 0.0,
    format_name: Annotated[
        str | None, typer.Option("--format", help="channel order when the tags do not say")
    ] = None,
    live: Annotated[
        bool, typer.Option("--live", help="take positions now, guided; SOURCE is the folder they go to")
    ] = False,
    rig: Annotated[Path | None, typer.Option(help="rig file for --live; default: rig.yaml")] = None,
    positions: Annotated[int, typer.Option(min=6, help="how many positions --live takes")] = 24,
    write_sweep: Annotated[
        Path | None, typer.Option(help="only write the sweep as a WAV to be played, and end")
    ] = None,
    out: Annotated[Path, typer.Option(help="result file")] = Path("pose.json"),
    page: Annotated[Path | None, typer.Option(help="report page; default: beside the result, .html")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="one JSON object on stdout")] = False,
) -> None:
    """Where the microphone is and looks, as the camera sees it. Exit 1 without an answer to stand for."""
    from calibration.outputs import refuse_overwriting
    from calibration.pose_model import Prior
    from calibration.pose_report import in_words, summary, to_result, write_page
    from calibration.pose_solver import solve_pose

    played = _sweep(sweep)
    page = page or out.with_suffix(".html")
    read = [*(sources or ()), camera, claps, seen, rig or Path("rig.yaml")]
    refuse_overwriting({"--out": out, "--page": page, "--write-sweep": write_sweep}, read)
    if write_sweep is not None:
        _write_sweep(write_sweep, played)
        emit(
            {"good": True, "sweep": str(write_sweep)}, as_json, f"{write_sweep}: play this at every position"
        )
        return
    if not sources:
        raise InputError("nothing to read: name a table, a folder, a recording and its video, or an episode")
    on_board = Prior.of(_three("--speaker", speaker), speaker_sigma) if speaker else None
    arm = Prior.of(_three("--lever-arm", lever_arm), lever_arm_sigma) if lever_arm else None
    if live:
        format_name = _live(sources, camera, board, marker, marker_size, played, rig, positions)
    got, method = _gather(
        sources, camera, board, marker, marker_size, played, claps, seen, video_offset_s, format_name
    )
    if len(got.sightings) < 6:
        few = f"{len(got.sightings)} usable positions are too few for a pose"
        remedy = "measure 12 to 24, at least 6"
        skipped = [{"name": name, "reason": why} for name, why in got.skipped]
        problems = [{"problem": few, "remedy": remedy}]
        emit(
            {"good": False, "result": None, "page": None, "problems": problems, "skipped": skipped},
            as_json,
            [few, *(f"  left out: {name}: {why}" for name, why in got.skipped)],
        )
        raise CheckFailed(f"{few}; {remedy}")
    fit = solve_pose(got.sightings, lever_arm=arm, speaker=on_board)
    method |= {
        "lever_arm_prior_m": None if arm is None else arm.mean_m.tolist(),
        "lever_arm_prior_sigma_m": None if arm is None else arm.sigma_m.tolist(),
        "speaker_prior_m": None if on_board is None else on_board.mean_m.tolist(),
    }
    report = write_page(page, fit, got, ", ".join(p.name for p in sources))
    found: dict[str, Any] = {**summary(fit, got), "result": None, "page": str(report)}
    lines = [in_words(fit), *(f"  {text}" for text in (*fit.refusals, *fit.warnings))]
    lines += [f"  left out: {name}: {why}" for name, why in got.skipped]
    if fit.ok:
        found["result"] = str(to_result(fit, got, method).save(out))
        lines.append(f"  written to {out}; page: {report}")
    else:
        lines.append(f"  page: {report}")
    emit(found, as_json, lines)
    if not fit.ok:
        raise CheckFailed(
            f"no pose that can be stood for ({counted(len(fit.refusals), 'reason')} above); nothing written"
            f" to {out}"
        )


def _live(
    sources: list[Path],
    camera: Path | None,
    board: str,
    marker: str,
    marker_size: float,
    sweep: Any,
    rig: Path | None,
    positions: int,
) -> str:
    """Fill the folder; gives the format of its sounds."""
    from calibration.board import Board
    from calibration.pose_board import BoardFinder, camera_of
    from calibration.pose_live import run_live
    from calibration.result import load

    if len(sources) != 1 or sources[0].is_file() or (sources[0] / "episode.yaml").exists():
        raise InputError("with --live SOURCE is one folder, new or with earlier positions of the same set-up")
    if camera is None:
        raise InputError("pictures need the camera's calibration: give --camera FILE.json")
    finder = BoardFinder(
        camera_of(load(camera, "camera")), Board.parse(board) if board else None, marker, marker_size
    )
    return run_live(
        rig, sources[0], finder, sweep, positions, lambda text: print(text, file=sys.stderr, flush=True)
    )


def _three(name: str, text: str) -> list[float]:
    try:
        values = [float(word) for word in re.split(r"[\s,]+", text.strip())]
    except ValueError:
        values = []
    if len(values) != 3:
        raise InputError(f'{name} is three numbers in metres, as in "0.10 -0.05 0.02", not {text!r}')
    return values


def _sweep(text: str) -> Any:
    from calibration.sweep import Sweep

    try:
        seconds, low, high = (float(word) for word in text.replace(",", " ").split())
    except ValueError:
        raise InputError(f'--sweep is "seconds low_hz high_hz", as in "3 100 18000", not {text!r}') from None
    return Sweep(48000, seconds, low, high)


def _write_sweep(path: Path, sweep: Any) -> None:
    import numpy as np

    from calibration.live_rig import write_sound

    quiet = np.zeros(sweep.fs // 2)
    write_sound(path, 0.5 * np.concatenate([quiet, sweep.signal, quiet]), sweep.fs, "PCM_16")


def _gather(
    sources: list[Path],
    camera_path: Path | None,
    board: str,
    marker: str,
    marker_size: float,
    sweep: Any,
    claps: Path | None,
    seen: Path | None,
    video_offset_s: float,
    format_name: str | None,
) -> tuple[Any, dict[str, Any]]:
    """Positions, and how they were got."""
    from calibration import pose_files
    from calibration.board import Board
    from calibration.pose_board import BoardFinder, camera_of
    from calibration.result import load

    camera = None if camera_path is None else camera_of(load(camera_path, "camera"))
    first = sources[0]
    if len(sources) == 1 and first.suffix.lower() == ".csv":
        got = pose_files.from_table(first, camera)
        how = "table"
    else:
        if camera is None:
            raise InputError("pictures need the camera's calibration: give --camera FILE.json")
        if claps is not None and seen is not None:
            raise InputError("--claps and --seen are two forms; give one")
        sound, pictures, inputs = _sound_and_pictures(sources, video_offset_s, format_name)
        table = claps or seen
        if table is not None:
            if sound is None:
                raise InputError("--claps and --seen need one recording, not a folder of pairs")
            used = None if claps is not None else sweep
            got = pose_files.from_seen_table(sound, table, camera, used, inputs)
            how = "claps" if claps is not None else "sweeps at pixels"
        else:
            parsed = Board.parse(board) if board else None
            finder = BoardFinder(camera, parsed, marker, marker_size)
            how = f"board {parsed}" if parsed else f"marker {marker}"
            if sound is not None and pictures is None:
                raise InputError(
                    f"{first}: no pictures; give the video as well, or a table of places (--seen, --claps)"
                )
            if sound is None:
                with progress(f"positions of {first.name}") as advance:
                    got = pose_files.from_folder(first, finder, sweep, format_name, advance)
            else:
                assert pictures is not None
                got = pose_files.from_recording(sound, pictures, finder, sweep, inputs)
    if camera_path is not None:
        got.inputs.append(camera_path)
    return got, {"positions": how}


def _sound_and_pictures(
    sources: list[Path], video_offset_s: float, format_name: str | None
) -> tuple[Any, Iterator[tuple[float, Any]] | None, list[Path]]:
    """Sound (None for a folder of pairs), pictures with seconds on the sound's clock (or None), files."""
    from calibration.pose_files import Sound, read_sound

    first = sources[0]
    if first.is_dir():
        if len(sources) > 1:
            raise InputError("give one folder or one episode, or a recording and its video")
        if not (first / "episode.yaml").is_file():
            return None, None, []
        import dsp
        from recordings.episode import Episode

        episode = Episode.open(first)
        named = str(episode.format)
        if named not in dsp.FORMATS:
            raise InputError(f"{first}: sound of format {named} is not first-order ambisonics")
        raw = episode.original.read()
        sound = Sound(dsp.convert(raw, source=named, target="ambix"), episode.original.rate, raw)
        clock = episode.audio_map

        def of_episode() -> Iterator[tuple[float, Any]]:
            for t_ns, image in episode.frames():
                yield float(clock.file_frame(t_ns)) / sound.fs, image

        return sound, of_episode(), [first]
    sound = read_sound(first, format_name)
    if len(sources) == 1:
        return sound, None, [first]
    if len(sources) > 2:
        raise InputError("give a recording and one video of it")

    def of_video() -> Iterator[tuple[float, Any]]:
        from recordings.video_read import frames

        start = None
        for t_ns, image in frames(sources[1]):
            start = t_ns if start is None else start
            yield (t_ns - start) / 1e9 + video_offset_s, image

    return sound, of_video(), list(sources)
