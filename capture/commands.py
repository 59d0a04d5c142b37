"""Commands of this package: record, doctor, init. Thin: parse, call, print."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import typer

from capture.plan_command import plan
from dsp.errors import CheckFailed, InputError
from recordings.profile_options import (
    FeasibilityKind,
    GroundingKind,
    Notes,
    QueryKind,
    Recording,
    Request,
    Sharing,
    Speaker,
    Target,
    profile_fields,
)


def register(app: typer.Typer) -> None:
    """Add this package's commands to `app`."""
    app.command(rich_help_panel="Record")(record)
    app.add_typer(plan, name="plan", rich_help_panel="Record")
    app.command(rich_help_panel="Set up")(doctor)
    app.command(rich_help_panel="Set up")(init)


def record(
    rig: Path | None = typer.Option(None, help="rig.yaml; without it ./rig.yaml, else the virtual room."),
    seconds: float | None = typer.Option(None, min=0.1, help="Stop after so many seconds of sound."),
    session: str = typer.Option("session", help="Name of the session: a folder that holds its episodes."),
    folder: Path | None = typer.Option(None, help="Where sessions go, instead of the rig's storage.folder."),
    request: Request = None,
    grounding: GroundingKind = None,
    query: QueryKind = None,
    feasibility: FeasibilityKind = None,
    speaker: Speaker = None,
    target: Target = None,
    consent: Recording = None,
    sharing: Sharing = None,
    notes: Notes = None,
    check: bool = typer.Option(
        True, help="Listen for two seconds first; channels that are silent, copied or mixed end it there."
    ),
    as_json: bool = typer.Option(False, "--json", help="One JSON object on stdout; progress on stderr."),
) -> None:
    """Record one episode: sound, pictures and what happened, on one clock.

    Ctrl-C ends the take and finishes the episode; a second Ctrl-C aborts and leaves it to `hearth repair`.
    """
    from capture.disk_room import check_room
    from capture.meter_display import MeterDisplay
    from capture.rig import load_rig
    from capture.service_manager import ServiceManager, TakeWatch
    from capture.sources import open_rig
    from capture.take import check_take, new_profile
    from capture.take import record as record_take
    from recordings.episode import interrupted

    loaded = load_rig(rig)
    root = Path(folder if folder is not None else loaded.storage.folder)
    broken = interrupted(root) if root.is_dir() else []
    for episode in broken:
        print(f"interrupted: {episode.path} (finish it with `hearth repair {episode.path}`)", file=sys.stderr)
    fields = profile_fields(
        request=request,
        grounding=grounding,
        query=query,
        feasibility=feasibility,
        speaker=speaker,
        target=target,
        consent=consent,
        sharing=sharing,
        notes=notes,
    )
    # What can be refused is refused before a room is rendered or a device opened.
    check_take(loaded, {"session": session, **fields})
    check_room(root, loaded.storage.min_free_mib)
    with open_rig(loaded) as opened:
        if check and loaded.microphone.source in ("sounddevice", "pyaudio"):
            _listen_first(opened.microphone)
        profile = new_profile(loaded, opened, session, **fields)
        limit = seconds if seconds is not None else getattr(opened.scene, "duration_s", None)
        with (
            MeterDisplay(opened.audio_info, opened.video_info, limit) as display,
            TakeWatch(ServiceManager.of_environment(), display.started, display.finishing) as watch,
        ):
            try:
                result = record_take(
                    loaded,
                    opened,
                    profile,
                    seconds=seconds,
                    root=root,
                    on_meter=display.show,
                    on_start=watch.started,
                    on_finishing=watch.finishing,
                    handle_sigint=True,
                )
            except KeyboardInterrupt:
                where = root / profile.session / profile.id
                raise InputError(f"aborted; what was recorded is kept: `hearth repair {where}`") from None
    if as_json:
        data = {**result.to_dict(), "interrupted": [str(e.path) for e in broken]}
        print(json.dumps(data))
    else:
        for line in result.lines():
            print(line)
    if result.stop_reason == "disk":
        raise typer.Exit(1)


def _listen_first(microphone: Any) -> None:
    """Say what is wrong with the channels before anybody speaks. Raises CheckFailed on a fault."""
    from capture.channel_watch import probe_microphone

    print("listening to the microphone ...", file=sys.stderr)
    probe = probe_microphone(microphone)
    for event in (*probe.faults, *probe.warnings):
        print(f"{event.source}: {event.kind}: {event.detail}", file=sys.stderr)
    if probe.faults:
        raise CheckFailed(
            f"not recorded: {probe.faults[0].detail} (`hearth doctor` tells more;"
            " `--no-check` records all the same)"
        )


def doctor(
    rig: Path | None = typer.Option(None, help="rig.yaml; without it ./rig.yaml, else the virtual room."),
    seconds: float = typer.Option(4.0, min=0.5, max=600, help="How long the rig's devices are tried."),
    no_test: bool = typer.Option(False, "--no-test", help="Open the rig's devices, but record nothing."),
    as_json: bool = typer.Option(False, "--json", help="One JSON object on stdout, for a bug report."),
) -> None:
    """Look at devices, clocks, disk, processor and encoders, try the rig, and say what to do first."""
    from capture.doctor import examine_file
    from capture.doctor_display import DoctorDisplay, print_report
    from recordings.terminal import emit

    with DoctorDisplay() as display:
        report = examine_file(rig, seconds=0.0 if no_test else seconds, progress=display)
    if as_json:
        emit(report.to_dict(), as_json=True)
    else:
        print_report(report)
    if not report.ok:
        raise typer.Exit(1)


def init(
    path: Path = typer.Argument(Path("rig.yaml"), help="The file to write."),
    force: bool = typer.Option(False, "--force", help="Replace a file that exists."),
    as_json: bool = typer.Option(False, "--json", help="One JSON object on stdout."),
) -> None:
    """Write a first rig.yaml from the devices found, every key with a comment."""
    from capture.first_rig import write_first_rig

    written = write_first_rig(path, force=force)
    if as_json:
        data: dict[str, Any] = {"path": str(path), "notes": list(written.notes), "rig": written.summary}
        print(json.dumps(data))
        return
    for note in written.notes:
        print(note)
    print(f"wrote {path}; try `hearth doctor`, then `hearth record`")
