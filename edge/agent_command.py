"""The command `hearth agent`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from dsp.errors import CheckFailed


def agent(
    stream: Annotated[
        str, typer.Option(help="stream address that `hearth live` printed")
    ] = "tcp://127.0.0.1:5771",
    commands: Annotated[str, typer.Option(help="commands address that it printed")] = "tcp://127.0.0.1:5772",
    once: Annotated[bool, typer.Option("--once", help="answer one request, then end")] = False,
    trace: Annotated[Path | None, typer.Option(help="write every step as a JSON line into this file")] = None,
    recogniser: Annotated[
        str, typer.Option(help="whisper, whisper:FOLDER, or package.module:function of your own")
    ] = "whisper",
    log: Annotated[
        str, typer.Option(help="form of the log lines on stderr: auto, human, journal, json")
    ] = "auto",
    keys: Annotated[
        Path | None,
        typer.Option(help="folder of `hearth keys`; default: none on loopback, else ~/.config/hearth/keys"),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="one JSON object on stdout at the end")] = False,
) -> None:
    """Hear requests on the stream, declare the device that is meant, switch it, and say so."""
    from capture.service_manager import ServiceManager
    from edge.agent.agent import Agent
    from edge.agent.trace import Trace
    from edge.perception.speech import check_recogniser, load_recogniser
    from edge.perception.wording import sentences
    from edge.service import logs
    from edge.stream import Client

    logs.set_up(log)
    manager = ServiceManager.of_environment()
    answers = []
    check_recogniser(recogniser)
    with Client(stream, commands, streams=["foa24"], keys=keys) as client, Trace(trace) as steps:
        names = [str(device.get("name", "")) for device in client.command("home.describe")["devices"]]
        heard = load_recogniser(recogniser, sentences(names))
        listener = Agent(client, heard, steps, alive=lambda: manager.working(f"listening on {stream}"))
        print(f"agent: listening on {stream} (Ctrl-C ends)", file=sys.stderr, flush=True)
        try:
            for answer in listener.answers():
                answers.append(answer)
                if not as_json:
                    print(f"heard {answer.text!r}: {answer.said}", flush=True)
                if once:
                    break
        except KeyboardInterrupt:
            print("agent: ended by hand", file=sys.stderr)
    if as_json:
        print(json.dumps({"answers": [answer.to_dict() for answer in answers]}))
    if once and not answers:
        raise CheckFailed("the stream ended before anybody asked for something")
