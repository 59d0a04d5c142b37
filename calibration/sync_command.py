"""`hearth calibrate sync`: from an episode, a sound and a video, or live; `--show` serves the flashing
page."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from dsp.errors import CheckFailed, InputError
from recordings.terminal import counted, emit, progress


def sync(
    sources: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[SOURCE...]",
            help="an episode, a sound and a video of it, or a video with sound in it; nothing with --live",
        ),
    ] = None,
    show: Annotated[
        bool, typer.Option("--show", help="serve the page that flashes and beeps, until Ctrl-C")
    ] = False,
    live: Annotated[bool, typer.Option("--live", help="look and listen now with the rig, guided")] = False,
    rig: Annotated[Path | None, typer.Option(help="rig file for --live; default: rig.yaml")] = None,
    seconds: Annotated[float, typer.Option(min=10, help="how long --live looks at most")] = 180.0,
    host: Annotated[
        str, typer.Option(help="address for --show; 0.0.0.0 lets a phone in the same network open it")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="port for --show")] = 8742,
    source: Annotated[
        str,
        typer.Option(help="what flashes and beeps: auto, screen (the page), light (lamp and buzzer), clap"),
    ] = "auto",
    distance_m: Annotated[
        float | None, typer.Option(min=0, help="from what beeps to the microphone; its way is taken out")
    ] = None,
    distance_sigma_m: Annotated[float, typer.Option(min=0, help="how well that was measured")] = 0.05,
    temperature_c: Annotated[float, typer.Option(help="of the air")] = 20.0,
    exposure_ms: Annotated[
        float | None, typer.Option(min=0.01, help="exposure time of the camera; else it is found")
    ] = None,
    line_delay_us: Annotated[
        float | None,
        typer.Option(help="from row to row of a rolling shutter; 0 for a global one; else found"),
    ] = None,
    stamp: Annotated[
        str, typer.Option(help="what a picture's stamp means: start, middle or end of its exposure")
    ] = "middle",
    source_late_ms: Annotated[
        float | None,
        typer.Option(help="how much later the device beeps than it flashes, where that is known"),
    ] = None,
    video_offset_s: Annotated[
        float | None, typer.Option(help="seconds from the first sound to the first picture of separate files")
    ] = None,
    search_s: Annotated[float, typer.Option(min=0.05, max=60, help="the largest offset looked for")] = 0.5,
    offset_only: Annotated[
        bool, typer.Option("--offset-only", help="no drift: events at one end of a long recording are enough")
    ] = False,
    out: Annotated[Path, typer.Option(help="result file")] = Path("sync.json"),
    page: Annotated[Path | None, typer.Option(help="report page; default: beside the result, .html")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="one JSON object on stdout")] = False,
) -> None:
    """How late the sound is against the picture, from flashes with beeps. Exit 1 without an answer to stand
    for."""
    if show:
        from calibration.sync_show import serve

        serve(host, port, as_json)
        return
    from calibration.outputs import refuse_overwriting
    from calibration.sync import estimate_sync
    from calibration.sync_clap import estimate_claps
    from calibration.sync_files import gather
    from calibration.sync_fit import Known
    from calibration.sync_report import in_words, summary, to_result, write_page
    from calibration.sync_setting import Setting

    if stamp not in ("start", "middle", "end"):
        raise InputError(f"--stamp is start, middle or end, not {stamp!r}")
    if source not in ("auto", "screen", "light", "clap"):
        raise InputError(f"--source is auto, screen, light or clap, not {source!r}")
    if live == bool(sources):
        raise InputError(
            "name an episode, a sound and a video, or a video with sound; or give --live (and nothing"
            " else) to"
            " look and listen now"
        )

    page = page or out.with_suffix(".html")
    refuse_overwriting({"--out": out, "--page": page}, [*(sources or ()), rig or Path("rig.yaml")])

    def setting_of(height_px: int) -> Setting:
        readout = None
        if line_delay_us is not None:
            whole = 1e-3 * line_delay_us * max(height_px - 1, 1)
            readout = Known(whole, max(0.02 * abs(whole), 0.05))
        return Setting(
            search_s=search_s,
            distance_m=None if distance_m is None else Known(distance_m, distance_sigma_m),
            temperature_c=temperature_c,
            exposure_ms=None if exposure_ms is None else Known(exposure_ms, max(0.05 * exposure_ms, 0.05)),
            readout_ms=readout,
            source_late_ms=None if source_late_ms is None else Known(source_late_ms, 0.0),
            stamp=stamp,  # type: ignore[arg-type]
            source="auto" if source == "clap" else source,  # type: ignore[arg-type]
            needs_drift=not offset_only,
        )

    if live:
        from calibration.sync_live import run_live

        got = run_live(rig, seconds, lambda text: print(text, file=sys.stderr, flush=True))
    else:
        with progress("looking and listening") as advance:
            got = gather(list(sources or []), video_offset_s, advance)
    setting = setting_of(got.log.height_px)
    fit = (estimate_claps if source == "clap" else estimate_sync)(got.log, got.sound, setting)
    report = write_page(page, fit, got, setting)
    found: dict[str, Any] = {**summary(fit, got), "result": None, "page": str(report)}
    lines = [in_words(fit), *(f"  {text}" for text in (*map(str, fit.refusals), *fit.warnings))]
    if fit.ok:
        found["result"] = str(to_result(fit, got, setting).save(out))
        lines.append(f"  written to {out}; page: {report}")
    else:
        lines.append(f"  page: {report}")
    emit(found, as_json, lines)
    if not fit.ok:
        raise CheckFailed(
            f"no offset that can be stood for ({counted(len(fit.refusals), 'reason')} above); nothing written"
            f" to {out}"
        )
