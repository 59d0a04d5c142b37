"""The commands `hearth stream ...`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from dsp.errors import CheckFailed

stream = typer.Typer(
    name="stream",
    no_args_is_help=True,
    rich_markup_mode="rich",
    help="Work with the stream of a running rig: record it into a file for Foxglove and tools like it.",
)

_MISSING = ("lost", "overflowed", "superseded")


@stream.command()
def record(
    out: Annotated[Path, typer.Argument(help="the file to write, e.g. evening.mcap; must not exist")],
    address: Annotated[
        str, typer.Option("--stream", help="stream address that `hearth live` printed")
    ] = "tcp://127.0.0.1:5771",
    commands: Annotated[
        str, typer.Option(help="commands address that it printed; for the rig's clock")
    ] = "tcp://127.0.0.1:5772",
    streams: Annotated[str, typer.Option(help="names, separated by commas; default: all")] = "",
    seconds: Annotated[
        float | None,
        typer.Option(min=0.1, help="stop after this long; default: Ctrl-C, or with the rig"),
    ] = None,
    keys: Annotated[
        Path | None,
        typer.Option(help="folder of `hearth keys`; default: none on loopback, else ~/.config/hearth/keys"),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="one JSON object on stdout")] = False,
) -> None:
    """Record any streams of a running rig into an MCAP file."""
    from capture.stop_signals import StopSignals
    from edge.stream import Client
    from edge.stream.mcap_recording import StreamRecorder
    from edge.stream.messages import MESSAGES
    from recordings.terminal import emit

    names = [name.strip() for name in streams.split(",") if name.strip()] or None
    with Client(address, commands, streams=names, name="stream record", keys=keys) as client:
        client.wait_connected()
        with StopSignals() as stop, StreamRecorder(client, out) as recorder:
            print(f"recording {address} into {out} (Ctrl-C ends)", file=sys.stderr, flush=True)
            ended = recorder.run(seconds, stop.asked)
        counts = client.statistics()
        size = recorder.size_bytes
    rows = {
        name: {"recorded": recorder.recorded[name], "lost": sum(row[key] for key in _MISSING)}
        for name, row in counts.items()
    }
    report = {
        "path": str(out),
        "ended": ended,
        "bytes": size,
        "messages": sum(recorder.recorded.values()),
        "publisher_lost": recorder.lost_publisher,
        "streams": rows,
    }
    heard = ", ".join(f"{row['recorded']} {name}" for name, row in rows.items() if row["recorded"])
    emit(report, as_json, f"{out}: {size / 1e6:.1f} MB, {heard or 'no messages'} ({ended})")
    missing = {n: r["lost"] for n, r in rows.items() if r["lost"] and MESSAGES[n].delivery != "latest"}
    if missing:
        raise CheckFailed("messages were lost: " + ", ".join(f"{n} of {name}" for name, n in missing.items()))


@stream.command()
def recover(
    cut: Annotated[Path, typer.Argument(help="the MCAP file whose recording was killed")],
    out: Annotated[Path, typer.Argument(help="the file to write; must not exist")],
    as_json: Annotated[bool, typer.Option("--json", help="one JSON object on stdout")] = False,
) -> None:
    """Copy all that is whole of a cut MCAP file into a new one with an index."""
    from edge.stream.mcap_recover import recover as recovered
    from recordings.terminal import emit

    found = recovered(cut, out)
    report = {
        "path": str(out),
        "messages": found.messages,
        "whole": found.whole,
        "cut_bytes": found.cut_bytes,
    }
    how = "it was whole" if found.whole else f"the last {found.cut_bytes} bytes held no whole message"
    emit(report, as_json, f"{out}: {found.messages} messages ({how})")
