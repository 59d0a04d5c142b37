"""Commands of this package: hearth calibrate board, camera, convert. Thin: parse, call, print."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from calibration.capsules_command import capsules
from calibration.pose_command import pose
from calibration.room_command import room
from calibration.sync_command import sync
from dsp.errors import CheckFailed, InputError

calibrate = typer.Typer(
    name="calibrate",
    no_args_is_help=True,
    rich_markup_mode="rich",
    help="Measure the rig: camera intrinsics, the pose between microphone and camera. Each ends in a result "
    "file with uncertainties and a page, or says what is missing.",
)
Json = Annotated[bool, typer.Option("--json", help="One JSON object on stdout; progress on stderr.")]
BoardWords = Annotated[
    str | None,
    typer.Option("--board", help='As printed below the sheet, like "charuco 11x8 24mm 16mm 5x5_50".'),
]


def register(app: typer.Typer) -> None:
    """Add this package's commands to `app`."""
    calibrate.command()(board)
    calibrate.command()(camera)
    calibrate.command()(pose)
    calibrate.command()(sync)
    calibrate.command()(capsules)
    calibrate.command()(convert)
    calibrate.add_typer(room)
    app.add_typer(calibrate, name="calibrate", rich_help_panel="Set up")


def board(
    out: Annotated[Path, typer.Argument(help="The sheet to write: .pdf or .png.")] = Path("board.pdf"),
    words: BoardWords = None,
    paper: Annotated[str, typer.Option(help="a4, a3, a2, a1, letter or tabloid.")] = "a4",
    dpi: Annotated[int, typer.Option(help="Dots per inch of a .png.")] = 600,
    as_json: Json = False,
) -> None:
    """Write a calibration board to print, in true size, with a ruler to check the printer."""
    from calibration.board import Board
    from calibration.board_print import default_board, write_board
    from recordings.terminal import emit

    chosen = Board.parse(words) if words is not None else default_board(paper)
    path = write_board(out, chosen, paper, dpi)
    across, down = chosen.squares
    emit(
        {
            "path": str(path),
            "board": str(chosen),
            "paper": paper,
            "squares": [across, down],
            "corners": len(chosen.corners_m),
        },
        as_json,
        [
            f"wrote {path}: {chosen}, {across} x {down} squares, {len(chosen.corners_m)} corners",
            "print it at 100 %, measure the ruler, glue it onto something flat and stiff, then",
            f'  hearth calibrate camera --board "{chosen}"',
        ],
    )


def camera(
    sources: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[PICTURES...]",
            help="A folder, picture files, a video or an episode; without any, live from the rig's camera.",
        ),
    ] = None,
    words: BoardWords = None,
    model: Annotated[
        str, typer.Option(help="Distortion: plumb_bob, radtan (for Kalibr) or rational_polynomial (wide).")
    ] = "plumb_bob",
    out: Annotated[Path, typer.Option(help="The result file; its page stands beside it.")] = Path(
        "camera.json"
    ),
    export: Annotated[
        list[str] | None,
        typer.Option(help="Also write FORMAT:FILE; opencv, ros, kalibr or caliscope. Repeatable."),
    ] = None,
    rig: Annotated[Path | None, typer.Option(help="rig.yaml with the camera; else ./rig.yaml.")] = None,
    seconds: Annotated[float | None, typer.Option(min=1, help="Live: stop after so many seconds.")] = None,
    workers: Annotated[int | None, typer.Option(min=1, help="Threads; all cores if not given.")] = None,
    name: Annotated[
        str, typer.Option(help="What the camera is called in the page and the exports.")
    ] = "camera",
    as_json: Json = False,
) -> None:
    """Camera intrinsics from pictures of a board, with how far to trust them.

    Exit 1: the pictures cannot carry a calibration; what to add is said, and the page is written.
    """
    from calibration.board import Board
    from calibration.board_print import default_board
    from calibration.camera import WeakSet, calibrate_views
    from calibration.camera_model import COEFFICIENTS
    from calibration.camera_report import write_report
    from calibration.camera_views import open_pictures
    from calibration.formats import write_camera
    from calibration.outputs import refuse_overwriting
    from calibration.result import hash_inputs
    from recordings.terminal import emit

    chosen = Board.parse(words) if words is not None else default_board()
    if model not in COEFFICIENTS:
        raise InputError(f"unknown model {model!r}; there are {', '.join(COEFFICIENTS)}")
    exports = [_export(text) for text in export or []]
    page = out.with_suffix(".html")
    written: dict[str, Path | None] = {"--out": out, "its page": page}
    written |= {f"--export {format_}:": path for format_, path in exports}
    refuse_overwriting(written, [*(sources or ()), rig or Path("rig.yaml")])
    pictures: dict[str, Any] = {}
    inputs = []
    if sources:
        source: Any = sources[0] if len(sources) == 1 else list(sources)
        found = _find(source, chosen, workers)
        inputs = hash_inputs(path for path in open_pictures(source)[2] if path.is_file())
    else:
        found, pictures = _live(chosen, rig, seconds)
    refused = None
    try:
        result = calibrate_views(found, model=model, inputs=inputs)  # type: ignore[arg-type]
    except WeakSet as error:
        if error.calibration is None:
            if as_json:
                emit(_refusal(error, found, None), True)
                raise typer.Exit(1) from None
            raise
        refused, result = error, error.calibration
    if sources and not pictures:
        pictures = _pictures_for_page(source, result)
    write_report(page, result, refused=refused, pictures=pictures, title=name)
    if refused is not None:
        if as_json:
            emit(_refusal(refused, found, page), True)
            raise typer.Exit(1)
        raise CheckFailed(f"{refused}; see {page}")
    result.to_result().save(out)
    for format_, path in exports:
        write_camera(path, result.camera, format_, name=name, error_px=result.rms_px)
    emit(_summary(result, out, page, exports), as_json, _lines(result, out, page, exports))


def convert(
    source: Annotated[Path, typer.Argument(help="A camera: Hearth's own, OpenCV, ROS, Kalibr, caliscope.")],
    target: Annotated[Path, typer.Argument(help="The file to write.")],
    to: Annotated[str, typer.Option(help="hearth, opencv, ros, kalibr or caliscope.")],
    which: Annotated[str | None, typer.Option("--camera", help="Which one of a file with several.")] = None,
    name: Annotated[str, typer.Option(help="What the camera is called in the new file.")] = "camera",
    as_json: Json = False,
) -> None:
    """Write a camera for another tool, or bring one of another tool here. Numbers stay exact."""
    from calibration.formats import imported, read_camera, write_camera
    from calibration.outputs import refuse_overwriting
    from recordings.terminal import emit

    refuse_overwriting({"TARGET": target}, [source])
    found = read_camera(source, camera=which)
    if to == "hearth":
        imported(found, source).save(target)
    else:
        write_camera(target, found, to, name=name)  # type: ignore[arg-type]
    emit(
        {"path": str(target), "format": to, "model": found.model, "width_px": found.width_px,
         "height_px": found.height_px, **dict(zip(found.names, found.parameters.tolist(), strict=True))},
        as_json,
        f"wrote {target} ({to}): {found.width_px}x{found.height_px}, {found.model}, "
        f"fx {found.parameters[0]:.2f} px",
    )  # fmt: skip


def _export(text: str) -> tuple[Any, Path]:
    format_, _, path = text.partition(":")
    known = ("opencv", "ros", "kalibr", "caliscope")
    if format_ not in known or not path:
        raise InputError(f"--export {text!r} must be FORMAT:FILE with one of {', '.join(known)}")
    return format_, Path(path)


def _find(source: Any, chosen: Any, workers: int | None) -> Any:
    from calibration.camera_views import find_views, open_pictures
    from recordings.terminal import progress

    total = open_pictures(source)[1]
    with progress("looking for the board", total) as advance:
        report: Callable[[int, int | None], None] = lambda done, of: advance(1)  # noqa: E731
        return find_views(source, chosen, workers=workers, progress=report)


def _live(chosen: Any, rig: Path | None, seconds: float | None) -> tuple[Any, dict[str, Any]]:
    from calibration.camera_live import Guide, GuideDisplay, run_live
    from capture.rig import load_rig
    from capture.sources import camera_of

    loaded = load_rig(rig)
    if loaded.camera.source in ("none", "virtual"):
        raise InputError(
            f"the rig's camera is {loaded.camera.source!r}, which shows no board; give pictures, or a "
            "rig.yaml with a camera (`hearth init`)"
        )
    device = camera_of(loaded.camera, None)
    assert device is not None
    guide = Guide(chosen)
    with GuideDisplay(guide) as display:
        run_live(device, guide, seconds=seconds, show=display.show)
    return guide.result(), guide.pictures


def _pictures_for_page(source: Any, result: Any) -> dict[str, Any]:
    """The pictures of the views with the largest errors, read again: not all of a folder fit in memory."""
    from calibration.camera_views import open_pictures

    order = sorted(zip(result.view_rms_px, result.views, strict=True), key=lambda pair: -pair[0])
    wanted = {view.name for _, view in order[:6]}
    kept = {}
    for picture in open_pictures(source)[0]:
        if picture.name in wanted and picture.grey is not None:
            kept[picture.name] = picture.grey
    return kept


def _refusal(error: Any, found: Any, page: Path | None) -> dict[str, Any]:
    return {
        "good": False,
        "result": None,
        "page": None if page is None else str(page),
        "problems": [{"problem": s.problem, "remedy": s.remedy} for s in error.shortfalls],
        "skipped": [{"name": s.name, "reason": s.reason} for s in found.skipped],
    }


def _summary(result: Any, out: Path, page: Path, exports: list[Any]) -> dict[str, Any]:
    file = result.to_result()
    cross, hold = file.quality["cross_validation"], file.quality["hold_out"]
    return {
        "good": True,
        "result": str(out),
        "page": str(page),
        "exports": [str(path) for _, path in exports],
        "board": str(result.board),
        "width_px": result.camera.width_px,
        "height_px": result.camera.height_px,
        "model": result.camera.model,
        "parameters": dict(zip(result.camera.names, result.camera.parameters.tolist(), strict=True)),
        "sigma": result.sigma,
        "hfov_deg": result.camera.hfov_deg,
        "rms_px": result.rms_px,
        "views": len(result.views),
        "skipped": file.quality["skipped"],
        "dropped": file.quality["dropped"],
        "dropped_corners": result.dropped_corners,
        "coverage_share": result.coverage_share,
        "projection_sigma_median_px": file.quality["projection_sigma_median_px"],
        "board_bow_m": result.bow_m.tolist(),
        "hold_out_rms_px": None if hold is None else hold["rms_px"],
        "cross_validation_ratio": None if cross is None else cross["ratio"],
        "warnings": result.warnings,
        "problems": [],
    }


def _lines(result: Any, out: Path, page: Path, exports: list[Any]) -> list[str]:
    sigma, p = result.sigma, result.camera.parameters
    lines = [
        f"fx {p[0]:.2f} ± {sigma['fx']:.2f} px, fy {p[1]:.2f} ± {sigma['fy']:.2f} px, "
        f"cx {p[2]:.2f} ± {sigma['cx']:.2f} px, cy {p[3]:.2f} ± {sigma['cy']:.2f} px; "
        f"{result.camera.hfov_deg:.1f} degrees across",
        f"error {result.rms_px:.3f} px RMS in {len(result.views)} views, {len(result.dropped)} dropped, "
        f"{len(result.skipped)} skipped, {100 * result.coverage_share:.0f} % of the picture covered",
    ]
    lines += [f"dropped {left.name}: {left.reason}" for left in result.dropped]
    lines += [f"skipped {left.name}: {left.reason}" for left in result.skipped]
    lines += [f"note: {warning}" for warning in result.warnings]
    lines += [f"wrote {path}" for path in (out, page, *(path for _, path in exports))]
    return lines
