"""The commands `hearth service ...`: thin, parse, call, print."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

service = typer.Typer(
    name="service",
    no_args_is_help=True,
    rich_markup_mode="rich",
    help="Run the rig as systemd services: live, agent, capture; watched and restarted (docs/services.md).",
)
Units = Annotated[list[str] | None, typer.Argument(help="live, agent, capture; default: live and agent.")]
System = Annotated[
    bool | None,
    typer.Option("--system/--user", help="The machine's services or this user's; default: by who you are."),
]
Json = Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")]
DEFAULT = ("live", "agent")


def register(app: typer.Typer) -> None:
    """Add the group to `app`."""
    for command in (install, uninstall, status, logs):
        service.command()(command)
    app.add_typer(service, name="service", rich_help_panel="Set up")


def _is_system(system: bool | None) -> bool:
    return os.getuid() == 0 if system is None else system


def install(
    units: Units = None,
    rig: Annotated[Path | None, typer.Option(help="Rig file; default: rig.yaml here.")] = None,
    system: System = None,
    run_as: Annotated[
        str | None, typer.Option(help="User of system services; default: who called sudo, or you.")
    ] = None,
    record: Annotated[bool, typer.Option("--record", help="live begins with a take at each start.")] = False,
    with_agent: Annotated[
        bool, typer.Option("--with-agent", help="live runs the agent itself; for rigs that ask for keys.")
    ] = False,
    start: Annotated[bool, typer.Option("--start/--no-start", help="Start them at once.")] = True,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only print the units.")] = False,
    as_json: Json = False,
) -> None:
    """Write the units for this rig, enable and start them. Run it again when the rig file moved."""
    from dsp.errors import InputError
    from edge.service import systemd
    from recordings.terminal import emit

    manager = systemd.Manager(_is_system(system))
    chosen = units or (["live"] if with_agent else list(DEFAULT))
    if with_agent and "agent" in chosen:
        raise InputError("with --with-agent live runs the agent; a second one would answer everything twice")
    place = systemd.place_of(rig, manager, run_as, record, with_agent)
    texts = systemd.texts(chosen, place)
    folder = str(manager.folder)
    if not dry_run:
        systemd.install(manager, chosen, place, start)
    result = {"manager": manager.name, "folder": folder, "written": not dry_run, "units": texts}
    if dry_run:
        lines = [f"# ----- {folder}/{name}\n{text}" for name, text in texts.items()]
    else:
        lines = [f"{folder}/{name}" for name in texts]
        lines.append("`hearth service status` tells how they are, `hearth service logs` what they say")
    emit(result, as_json, lines)


def uninstall(units: Units = None, system: System = None, as_json: Json = False) -> None:
    """Stop and remove the units; recorded data stays. Without names: all of them."""
    from edge.service import systemd
    from edge.service.units import UNITS
    from recordings.terminal import emit

    manager = systemd.Manager(_is_system(system))
    removed = [str(path) for path in systemd.uninstall(manager, units or UNITS)]
    emit({"manager": manager.name, "removed": removed}, as_json, removed or ["nothing was installed"])


def status(system: System = None, as_json: Json = False) -> None:
    """Whether the installed units run, since when, and how often they were restarted."""
    from edge.service import systemd
    from recordings.terminal import emit

    manager = systemd.Manager(_is_system(system))
    rows = systemd.status(manager)
    installed = [row for row in rows if row["installed"]]
    lines = [
        f"{row['name']}: {row['state']}, restarts {row['restarts']}, pid {row['pid'] or '-'}, "
        f"memory {row['memory_mib'] or '-'} MiB; {row['status'] or row['result']}"
        for row in installed
    ]
    ok = bool(installed) and all(row["active"] for row in installed if row["enabled"])
    result = {"manager": manager.name, "ok": ok, "units": rows}
    emit(result, as_json, lines or ["no Hearth service is installed; `hearth service install`"])
    if not ok:
        raise typer.Exit(1)


def logs(
    units: Units = None,
    system: System = None,
    lines: Annotated[int, typer.Option("--lines", "-n", min=0, help="The newest so many.")] = 50,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until Ctrl-C.")] = False,
    as_json: Json = False,
) -> None:
    """What the services logged, from the journal."""
    import subprocess

    from dsp.errors import InputError
    from edge.service import systemd
    from recordings.terminal import emit

    manager = systemd.Manager(_is_system(system))
    chosen = units or list(DEFAULT)
    if as_json:
        if follow:
            raise InputError("--json prints one object at the end; it cannot follow")
        emit({"lines": systemd.logged(manager, chosen, lines)}, as_json)
        return
    code = subprocess.run(systemd.journal(manager, chosen, lines, follow), check=False).returncode
    if code not in (0, 130):
        raise typer.Exit(1)
