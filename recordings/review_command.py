"""`hearth review`: the page on which episodes are accepted or rejected, and what came of it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from dsp.errors import InputError
from recordings.terminal import counted, emit

ONLY = ("todo", "all", "open", "disputed", "accepted", "rejected", "changed")
PORT = 5775
_REMEDY = "Is another `hearth review` running? Give another --port (0 lets the system choose)"


def review(
    data: Annotated[list[Path], typer.Argument(metavar="DATA...", help="data, session or episode folders")],
    reviewer: Annotated[
        str | None, typer.Option(help="who reviews; without it the page asks everybody for a name")
    ] = None,
    only: Annotated[str, typer.Option(help="what the list shows first: " + ", ".join(ONLY))] = "todo",
    reviewers: Annotated[int, typer.Option(min=1, max=9, help="how many must agree on an episode")] = 2,
    all_takes: Annotated[
        bool, typer.Option("--all-takes", help="also the takes that a guided session did not keep")
    ] = False,
    host: Annotated[
        str, typer.Option(help="where it listens; 0.0.0.0 is all networks, and then a token is needed")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 lets the system choose")] = PORT,
    summary: Annotated[
        bool, typer.Option("--summary", help="no page: print counts and agreement, and end")
    ] = False,
    csv: Annotated[
        Path | None, typer.Option(help="no page: write all decisions as a table (- for stdout), and end")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="one JSON object on stdout")] = False,
) -> None:
    """Look at and listen to episodes and accept or reject them, until Ctrl-C; or sum up what was decided."""
    from recordings.manifest import refuse_inside_sealed
    from recordings.review.catalogue import Catalogue

    if only not in ONLY:
        raise InputError(f"--only is one of {', '.join(ONLY)}, not {only!r}")
    if csv == Path("-") and (as_json or summary):
        raise InputError("--csv - takes all of stdout: leave out --json and --summary")
    catalogue = Catalogue(data, reviewers, all_takes)
    rows = catalogue.rows()
    for problem in catalogue.problems:
        print(f"note: {problem}", file=sys.stderr)
    if not summary and csv is None:
        _serve(catalogue, reviewer, only, f"[{host}]:{port}" if ":" in host else f"{host}:{port}", as_json)
        return
    from recordings.review.summary import decisions_csv, in_words
    from recordings.review.summary import summary as sum_up

    if csv is not None:
        text = decisions_csv(rows, reviewers)
        if csv == Path("-"):
            print(text, end="")
            return
        refuse_inside_sealed(csv)
        from recordings.storage import write_atomic

        write_atomic(csv, text.encode("utf-8"))
    written = {} if csv is None else {"csv": str(csv)}
    lines = in_words(rows, reviewers) if summary else []
    emit({**sum_up(rows, reviewers), **written}, as_json, [*lines, *(f"written to {csv}" for _ in written)])


def _serve(catalogue: object, reviewer: str | None, only: str, address: str, as_json: bool) -> None:
    from recordings.review.app import Desk
    from recordings.review.catalogue import Catalogue
    from recordings.review.serve import serve
    from recordings.web.address import bind

    assert isinstance(catalogue, Catalogue)
    desk = Desk(catalogue, reviewer, only)
    listening = bind(address, "--host and --port", _REMEDY)
    episodes = len(catalogue.rows())

    def ready() -> None:
        text = [f"{counted(episodes, 'episode')}: open {listening.url}", "Ctrl-C ends it; nothing is lost."]
        emit({"url": listening.url, "episodes": episodes, "reviewer": desk.reviewer}, as_json, text)

    serve(desk, listening, ready)
