"""The command `hearth agent`."""

from __future__ import annotations

import json
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dsp.errors import CheckFailed, InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from capture.service_manager import ServiceManager
    from edge.agent.loop import Policy
    from edge.perception.tools import Tool
    from edge.rigs.addresses import RigAddress


def agent(
    stream: Annotated[
        str, typer.Option(help="stream address that `hearth live` printed")
    ] = "tcp://127.0.0.1:5771",
    commands: Annotated[str, typer.Option(help="commands address that it printed")] = "tcp://127.0.0.1:5772",
    rig: Annotated[
        list[str] | None,
        typer.Option(help="STREAM,COMMANDS of one of several rigs; repeat it for each (docs/rigs.md)"),
    ] = None,
    rigs: Annotated[Path | None, typer.Option(help="YAML file that lists several rigs")] = None,
    once: Annotated[bool, typer.Option("--once", help="answer one request, then end")] = False,
    trace: Annotated[Path | None, typer.Option(help="write every step as a JSON line into this file")] = None,
    recogniser: Annotated[
        str, typer.Option(help="whisper, whisper:FOLDER, or package.module:function of your own")
    ] = "whisper",
    policy: Annotated[
        str, typer.Option(help="memory (procedures that were learnt), generic (one order of tools), llm")
    ] = "memory",
    memory: Annotated[Path | None, typer.Option(help="a memory of your own for --policy memory")] = None,
    profiles: Annotated[
        Path | None, typer.Option(help="data folder with faces and voices of the household")
    ] = None,
    endpoint: Annotated[
        str | None, typer.Option(help="of --policy llm: an OpenAI-compatible address, http://.../v1")
    ] = None,
    model: Annotated[str | None, typer.Option(help="the model's name there")] = None,
    speaks: Annotated[
        str, typer.Option(help="tools (the model can call tools) or json (it replies in JSON)")
    ] = "tools",
    ears: Annotated[
        str, typer.Option(help="what the model hears: none (words only), mono, foa (24 kHz)")
    ] = "none",
    pictures: Annotated[int, typer.Option(min=0, max=8, help="how many pictures the model sees")] = 0,
    timeout: Annotated[float, typer.Option(min=0.1, help="seconds for a reply of the model")] = 30.0,
    prices: Annotated[str, typer.Option(help="IN,OUT: dollars per million tokens, for the cost")] = "0,0",
    alone: Annotated[
        bool, typer.Option("--alone", help="where the model fails, the planned policy does not take over")
    ] = False,
    replay: Annotated[
        Path | None, typer.Option(help="no rig: check a trace, do its calls again, score it (--episode)")
    ] = None,
    episode: Annotated[
        Path | None, typer.Option(help="of --replay: the episode whose truth scores the trace")
    ] = None,
    fast: Annotated[
        bool,
        typer.Option("--fast/--no-fast", help='the fast loop beside it: alarms, "stop", "be quiet"'),
    ] = True,
    virtual_people: Annotated[
        bool, typer.Option("--virtual-people", help="the profiles are those of the virtual room")
    ] = False,
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
    from edge.agent.agent import STREAMS, Agent
    from edge.agent.fast import beside
    from edge.agent.runtime import llm_policy, perception_tools, planned_policy
    from edge.agent.trace import Trace
    from edge.perception.profiles import ProfileBook
    from edge.perception.speech import check_recogniser, load_recogniser
    from edge.rigs.addresses import rigs_of
    from edge.service import logs
    from edge.stream import Client

    if replay is not None:
        _replay(replay, episode, as_json)
        return
    logs.set_up(log)
    manager = ServiceManager.of_environment()
    check_recogniser(recogniser)
    if profiles is not None and not profiles.is_dir():
        raise InputError(f"{profiles}: no such folder; --profiles takes the data folder that people are in")
    book = None if profiles is None else ProfileBook.open(profiles, virtual=virtual_people)

    def tools() -> dict[str, Tool[Any]]:
        return perception_tools(load_recogniser(recogniser), book)

    def decides() -> Policy:
        if policy != "llm":
            return planned_policy(policy, memory)
        otherwise = None if alone else planned_policy("memory", memory)
        return llm_policy(
            endpoint, model, speaks=speaks, ears=ears, pictures=pictures, timeout_s=timeout,
            prices=prices, otherwise=otherwise,
        )  # fmt: skip

    decides()  # what is wrong with it is said at once
    if rig or rigs is not None:
        _house(
            rigs_of(rig or [], rigs, None if keys is None else str(keys)),
            tools,
            decides,
            once,
            trace,
            as_json,
            manager,
        )
        return
    answers = []
    with ExitStack() as stack:
        client = stack.enter_context(Client(stream, commands, streams=STREAMS, keys=keys))
        steps = stack.enter_context(Trace(trace))
        client.command("home.describe")
        if fast and not once:
            stack.enter_context(beside(stream, commands, keys))
        working = lambda: manager.working(f"listening on {stream}")  # noqa: E731
        listener = Agent(client, tools(), decides(), steps, alive=working)
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


def _replay(path: Path, episode: Path | None, as_json: bool) -> None:
    from edge.agent.replay import replay

    found = replay(path, episode)
    if as_json:
        print(json.dumps(found.to_dict()))
    else:
        print("\n".join(found.lines()))
    if found.problems:
        raise CheckFailed(f"{len(found.problems)} things are not as the protocol asks; see above")


def _house(
    rigs: Sequence[RigAddress],
    tools: Callable[[], dict[str, Tool[Any]]],
    policy: Callable[[], Policy],
    once: bool,
    trace: Path | None,
    as_json: bool,
    manager: ServiceManager,
) -> None:
    """The agent of several rigs."""
    from edge.agent.trace import Trace
    from edge.rigs.house_agent import HouseAgent

    answers = []

    def alive() -> None:
        manager.working(f"listening on {len(rigs)} rigs")

    with Trace(trace) as steps:
        agent = HouseAgent(rigs, tools, policy, steps, alive)
        with agent:
            agent.start()
            listening = ", ".join(link.id for link in agent.set.links if link.about is not None)
            print(f"agent: listening on {listening} (Ctrl-C ends)", file=sys.stderr, flush=True)
            try:
                for link, answer in agent.answers():
                    answers.append({**answer.to_dict(), "rig": link.id})
                    if not as_json:
                        print(f"{link.id} heard {answer.text!r}: {answer.said}", flush=True)
                    if once:
                        break
            except KeyboardInterrupt:
                print("agent: ended by hand", file=sys.stderr)
            state = agent.set.to_list()
    if as_json:
        print(json.dumps({"answers": answers, "rigs": state, "decisions": agent.decisions}))
    if once and not answers:
        raise CheckFailed("the rigs ended before anybody asked for something")
