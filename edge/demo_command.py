"""The command `hearth demo`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from dsp.errors import CheckFailed


def demo(
    rig: Annotated[
        Path | None, typer.Option(help="rig file; default: rig.yaml here, else the virtual room")
    ] = None,
    seed: Annotated[
        int | None, typer.Option(min=0, help="virtual room: another request; even seeds: sound, odd: space")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="one JSON object on stdout")] = False,
) -> None:
    """The main job once: record, process, stream, answer one request, and score it against the truth."""
    from capture.rig import load_rig
    from edge.demo import run_demo

    def tell(line: str) -> None:
        print(f"demo: {line}", file=sys.stderr, flush=True)

    result = run_demo(load_rig(rig), seed, tell)
    if as_json:
        print(json.dumps(result.to_dict()))
    else:
        for line in result.lines():
            print(line)
    if not result.verified:
        raise CheckFailed(f"the episode does not verify: {'; '.join(result.problems)}")
    if result.trouble is not None:
        raise CheckFailed(f"{result.trouble}; the episode is kept")
    if result.grounding_correct is False or result.goal_reached is False:
        raise CheckFailed("the agent's answer was wrong; its evidence is in the episode's page and timeline")
