"""Commands of this package: what runs live."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dsp.errors import CheckFailed
from edge.agent_command import agent
from edge.demo_command import demo
from edge.home_command import home
from edge.keys_command import register as register_keys
from edge.people_command import people
from edge.safety_command import safety
from edge.service import command as service_command
from edge.session_command import session
from edge.stream_command import stream
from recordings.profile_checks import use_goal_check

if TYPE_CHECKING:
    from capture.rig import Rig
    from capture.sources import OpenedRig
    from edge.console.process import ConsoleProcess


def register(app: typer.Typer) -> None:
    """Add this package's commands to `app`, and the goal check of `hearth verify`."""
    use_goal_check("edge.home.goals:check_goal")
    app.command(rich_help_panel="Start here")(demo)
    app.command(rich_help_panel="Record")(session)
    app.command(rich_help_panel="Live")(live)
    app.command(rich_help_panel="Live")(agent)
    register_keys(app)
    service_command.register(app)
    app.command(rich_help_panel="Set up")(home)
    app.command(rich_help_panel="Look at recordings")(safety)
    app.add_typer(stream, name="stream", rich_help_panel="Live")
    app.add_typer(people, name="people", rich_help_panel="Set up")


def live(
    rig: Annotated[
        Path | None, typer.Option(help="rig file; default: rig.yaml here, else the virtual room")
    ] = None,
    seconds: Annotated[
        float | None, typer.Option(min=0.1, help="stop after this long; default: Ctrl-C")
    ] = None,
    stats: Annotated[
        bool,
        typer.Option("--stats", help="measure with a subscriber in a process of its own: losses and ages"),
    ] = False,
    record: Annotated[bool, typer.Option("--record", help="write an episode as well")] = False,
    scene: Annotated[
        str | None,
        typer.Option(
            help="virtual room: request, point or talk; default: the rig's, built-in: talk (--agent: point)"
        ),
    ] = None,
    console: Annotated[
        bool, typer.Option("--console/--no-console", help="serve the console, a web page (endpoints.console)")
    ] = True,
    with_agent: Annotated[
        bool,
        typer.Option("--agent", "--with-agent", help="run `hearth agent` beside it, restarted when it hangs"),
    ] = False,
    policy: Annotated[
        str, typer.Option(help="of --agent: memory or generic (see `hearth agent`, which also has llm)")
    ] = "memory",
    log: Annotated[
        str, typer.Option(help="form of the log lines on stderr: auto, human, journal, json")
    ] = "auto",
    as_json: Annotated[bool, typer.Option("--json", help="one JSON object on stdout")] = False,
) -> None:
    """Hear and see, and publish sound, pictures, direction, levels and events on the stream."""
    from capture.sources import open_rig
    from capture.take import new_profile
    from edge.console.process import serving
    from edge.home.bridge_open import home_opened
    from edge.home.mqtt_presence import announced
    from edge.live import LiveService, check_ready
    from edge.live_session import run
    from edge.service import logs
    from edge.service.attend import attended

    the_rig = _live_rig(rig, scene, with_agent)
    form = logs.set_up(log, the_rig.log.level)
    say = logs.sayer(form)
    check_ready(the_rig, record)
    with logs.errors_in(form), open_rig(the_rig) as opened, contextlib.ExitStack() as stack:
        fields = opened.scene.episode_fields() if opened.scene is not None else {}
        home = stack.enter_context(home_opened(the_rig, fields.get("home")))
        profile = new_profile(the_rig, opened, "live") if record else None
        mute_file = Path(the_rig.storage.folder) / "muted"
        service = LiveService(the_rig, opened, home=home, record=record, profile=profile, mute_file=mute_file)
        say(f"stream {service.stream_address}  commands {service.commands_address}  (Ctrl-C ends)")
        with (
            serving(the_rig.endpoints.console_address if console else None, service, say) as page,
            attended(
                service,
                lambda: _live_rig(rig, scene, with_agent),
                agent=_agent_options(the_rig, form, policy) if with_agent else None,
                say=say,
                changed=lambda changed, keys: _show_room(page, opened, changed, keys),
            ) as attendance,
            announced(the_rig, service.id, service.local_stream_address, service.local_commands_address, say),
        ):
            if page is not None:
                say(f"console {page.url}")
            if service.muted:
                say(f"MUTED, as it was before: unmute it on the console or with live.mute ({mute_file})")
            report = run(service, seconds, measured=stats)
    report = {
        "stream": service.stream_address,
        "commands": service.commands_address,
        "console": None if page is None else page.listening.address,
        "metrics": attendance.metrics,
        **report,
    }
    if as_json:
        print(json.dumps(report))
    else:
        _print_report(report)
    subscriber = report.get("subscriber")
    if subscriber is not None and not subscriber["in_order"]:
        raise CheckFailed("the subscriber did not get every message in order; see the table")
    if report["service"]["blocks_dropped"]:
        raise CheckFailed(
            f"the live chain was too slow: {report['service']['blocks_dropped']} blocks dropped"
        )


def _show_room(page: ConsoleProcess | None, opened: OpenedRig, rig: Rig, keys: tuple[str, ...]) -> None:
    """The console draws the devices of a room that was changed."""
    from edge.console.settings import settings_of

    if page is not None and "room.devices" in keys:
        page.renew(settings_of(opened, rig))


def _agent_options(rig: Rig, form: str, policy: str) -> list[str]:
    """Of the agent that runs beside a rig: its profiles are those of the rig's data folder."""
    options = ["--log", form, "--policy", policy]
    folder = Path(rig.storage.folder)
    if (folder / "biometrics").is_dir():
        options += ["--profiles", str(folder.absolute())]
        if "virtual" in (rig.microphone.source, rig.camera.source):
            options.append("--virtual-people")
    return options


def _live_rig(path: Path | None, scene: str | None, with_agent: bool = False) -> Rig:
    """The rig, with the scene asked for; the built-in rig talks, because a request is over in 12 seconds, or
    points and asks where an agent listens."""
    import msgspec

    from capture.rig import load_rig
    from dsp.errors import InputError

    if scene not in (None, "request", "point", "talk"):
        raise InputError(f"--scene is request, point or talk, not {scene!r}")
    rig = load_rig(path)
    if scene is None and path is None and not Path("rig.yaml").is_file():
        scene = "point" if with_agent else "talk"
    if scene is None:
        return rig
    if "virtual" not in (rig.microphone.source, rig.camera.source):
        raise InputError(f"--scene is for the virtual room; the rig {rig.name!r} has real or file sources")
    return msgspec.structs.replace(rig, virtual=msgspec.structs.replace(rig.virtual, scene=scene))


def _print_report(report: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table

    from recordings.terminal import counted

    out = Console()
    service = report["service"]
    out.print(
        f"{service['seconds']:.1f} s: {counted(service['blocks'], 'block')}, "
        f"{counted(service['gaps'], 'gap')} in the source, "
        f"{counted(service['blocks_dropped'], 'block')} dropped; {counted(service['pictures'], 'picture')}, "
        f"{service['pictures_dropped']} dropped; {counted(service['commands'], 'command')}; "
        f"CPU {service['cpu_percent']:.0f} % of one core, {service['rss_mib'] or 0:.0f} MiB"
    )
    if "recording" in service:
        out.print(f"episode {service['recording']['episode']}", soft_wrap=True)
    subscriber = report.get("subscriber")
    if subscriber is None:
        return
    table = Table("stream", "received", "lost", "reordered", "age p50 ms", "p99", "max", "window ms")
    for name, row in subscriber["streams"].items():
        ages = [row[key] for key in ("age_p50_ms", "age_p99_ms", "age_max_ms", "window_ms")]
        counts = [str(row[key]) for key in ("received", "lost", "reordered")]
        table.add_row(name, *counts, *("" if age is None else f"{age:.1f}" for age in ages))
    out.print(table)
    if "doa_latency" in subscriber:
        d = subscriber["doa_latency"]
        out.print(
            f"direction: age at the subscriber p50 {d['since_window_end_p50_ms']:.1f} ms, "
            f"p99 {d['since_window_end_p99_ms']:.1f} ms after the end of its {d['window_ms']:.0f} ms window "
            f"(p50 {d['since_first_sample_p50_ms']:.1f} ms, p99 {d['since_first_sample_p99_ms']:.1f} ms "
            "after its first sample)",
            soft_wrap=True,
        )
    verdict = "every message arrived, in order" if subscriber["in_order"] else "MESSAGES ARE MISSING"
    out.print(f"{verdict} ({subscriber['ended']}; pictures are latest-only: some may be skipped)")
