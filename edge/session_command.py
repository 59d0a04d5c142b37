"""The command `hearth session`."""

from __future__ import annotations

import hashlib
import sys
import threading
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dsp.errors import CheckFailed, DeviceError, InputError

if TYPE_CHECKING:
    from edge.session.engine import Session

ADDRESS = "127.0.0.1:5774"


def session(
    plan: Annotated[Path, typer.Argument(metavar="PLAN", help="plan.yaml of `hearth plan new`")],
    rig: Annotated[
        Path | None,
        typer.Option(help="rig file for all rooms; default: what the plan names per room, else virtual"),
    ] = None,
    data: Annotated[Path, typer.Option(help="data folder; the session is a folder in it")] = Path("data"),
    name: Annotated[
        str | None, typer.Option("--session", help="name of the session; default: the plan's")
    ] = None,
    only: Annotated[
        str | None, typer.Option(help="ids to record: ep0001,ep0005-ep0012; default: all that are open")
    ] = None,
    script: Annotated[
        str | None, typer.Option(help="who decides instead of a person: auto, or a file of commands")
    ] = None,
    takes: Annotated[int, typer.Option(min=1, help="--script auto: takes of an item before it gives up")] = 3,
    countdown: Annotated[
        int | None, typer.Option(min=0, max=60, help="seconds counted down; default: 3, with a script 0")
    ] = None,
    seconds: Annotated[
        float, typer.Option(min=1, max=3600, help="longest take of a real rig; E ends one earlier")
    ] = 60.0,
    loudspeaker: Annotated[
        str | None,
        typer.Option(help="real rig: output device that plays the device to be heard; a part of its name"),
    ] = None,
    web: Annotated[
        bool | None, typer.Option("--web/--no-web", help="serve the page; default: unless there is a script")
    ] = None,
    address: Annotated[
        str, typer.Option(help="where the page is served; 0.0.0.0:5774 for a tablet, with a token")
    ] = ADDRESS,
    report_page: Annotated[
        bool, typer.Option("--report/--no-report", help="make each episode's report.html")
    ] = True,
    as_json: Annotated[bool, typer.Option("--json", help="one JSON object on stdout")] = False,
) -> None:
    """Record the episodes of a plan, guided: who stands where, what is said, count, checks, keep or retake.

    Goes on where it was left, also after a crash. Keys are on the screen; the web page has the same ones.
    """
    from edge.session.engine import COUNTDOWN_S, Session
    from edge.session.loudspeaker import Loudspeaker
    from edge.session.operators import operator_of
    from edge.session.stage import Stage
    from edge.session.web import serving
    from recordings.consent.book import ConsentBook
    from recordings.plan.store import read_plan
    from recordings.profile import check_fields
    from recordings.terminal import emit

    the_plan = read_plan(plan)
    name = name or the_plan.name
    check_fields({"session": name})
    operator = operator_of(script, takes)
    with_web = script is None if web is None else web
    if script is None and not with_web and not sys.stdin.isatty():
        raise InputError("nobody can decide here: this is no terminal; give --script auto, or --web")
    stage = Stage(the_plan, data, rig)
    for item in the_plan.items:  # what is wrong with a room's rig is said before anybody comes in
        stage.is_virtual(item)
    chosen = None
    if only is not None:
        left_out = {item.id for item in the_plan.items if item.skip}
        chosen = ids_of(only, [item.id for item in the_plan.items], left_out)
        for item_id in filter(left_out.__contains__, chosen):
            print(f"session: {item_id} is marked skip; --only names it, so it is recorded", file=sys.stderr)
    the_session = Session(
        the_plan,
        data,
        name,
        stage,
        only=chosen,
        operator=operator,
        consent=lambda: ConsentBook.open(data),
        countdown_s=countdown if countdown is not None else COUNTDOWN_S if script is None else 0,
        longest_s=seconds,
        report=report_page,
        loudspeaker=None if loudspeaker is None else Loudspeaker(loudspeaker),
        plan_sha256=hashlib.sha256(_file_of(plan).read_bytes()).hexdigest(),
    )
    with serving(address if with_web else None, the_session) as page:
        if page is not None:
            print(f"session: the page is {page}", file=sys.stderr, flush=True)
        result = _attended(the_session, as_json or script is not None)
    text = [
        f"{result.kept} of {result.items} kept ({result.kept_now} now, in {result.takes} takes,"
        f" {result.recorded_s:.0f} s of sound in {result.seconds:.0f} s)",
        *(f"cut off by a crash, repaired: {episode}" for episode in result.interrupted),
        *(f"skipped: {item}{f': {why}' if why else ''}" for item, why in result.skipped.items()),
        *(f"refused: {item}: {why}" for item, why in result.refused.items()),
        f"session: {result.folder}",
    ]
    emit(result.to_dict(), as_json, text)
    if script is not None and result.open:
        raise CheckFailed(f"{len(result.open)} of {result.items} items are still to be recorded")


def _file_of(plan: Path) -> Path:
    return plan / "plan.yaml" if plan.is_dir() else plan


def ids_of(text: str, known: list[str], skipped: Collection[str] = ()) -> list[str]:
    """Ids of "ep0001,ep0005-ep0012": single ones, and from one id to another by their numbers. An id of
    `skipped` is left out of a range, not where it is named singly. Raises InputError for an id that the plan
    does not have, a range that goes backwards, and when nothing is left."""

    def there(name: str) -> str:
        if name not in known:
            some = min(known, key=_numbered), max(known, key=_numbered)
            raise InputError(f"--only: the plan has no item {name!r}; it has {some[0]} to {some[1]}")
        return name

    found: list[str] = []
    ranges: list[str] = []
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        pieces = (part, "", "") if part in known else part.partition("-")
        first, dash, last = (piece.strip() for piece in pieces)
        if not dash:
            found.append(there(first))
            continue
        begin, end = _numbered(there(first)), _numbered(there(last))
        if begin[0] != end[0]:
            raise InputError(f"--only: {part!r}: a range is of ids that differ by their number")
        if begin > end:
            raise InputError(f"--only: {part!r} goes backwards; say {last}-{first}")
        inside = sorted(
            (one for one in known if _numbered(one)[0] == begin[0] and begin <= _numbered(one) <= end),
            key=_numbered,
        )
        ranges.append(part)
        found += [one for one in inside if one not in skipped]
    if not found and ranges:
        raise InputError(
            f"--only: all of {', '.join(ranges)} is marked skip in the plan; name an item singly"
        )
    if not found:
        raise InputError(f"--only names no item: {text!r}")
    return list(dict.fromkeys(found))


def _numbered(name: str) -> tuple[str, int]:
    """What stands before an id's number, and the number: ("ep", 12) of ep0012."""
    head = name.rstrip("0123456789")
    return head, int(name[len(head) :] or -1)


def _attended(session: Session, quiet: bool) -> Any:
    """Run the session in a thread beside the terminal; Ctrl-C ends it in order, a second one at once."""
    from capture.stop_signals import StopSignals

    done: list[Any] = []

    def run() -> None:
        try:
            done.append(session.run())
        except BaseException as error:
            done.append(error)

    thread = threading.Thread(target=run, name="session", daemon=True)
    with StopSignals(session.interrupt):
        thread.start()
        try:
            if not quiet and sys.stdin.isatty():
                from rich.console import Console

                from edge.session.terminal import run_terminal

                run_terminal(session, thread, Console(stderr=True))
            elif quiet and sys.stderr.isatty():
                _show_progress(session, thread)
            elif quiet:
                _tell_progress(session, thread)
            while thread.is_alive():
                thread.join(0.2)
        except KeyboardInterrupt:
            raise InputError(
                "aborted; what was recorded is kept, and the next `hearth session` repairs it"
            ) from None
    if isinstance(done[0], BaseException):
        raise done[0]
    if done[0] is None:
        raise DeviceError("the session ended without a result")
    return done[0]


def _show_progress(session: Session, thread: threading.Thread) -> None:
    """One bar on stderr for a scripted session."""
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("recording", total=session.state()["progress"]["total"])
        version = -1
        while thread.is_alive():
            state = session.wait_for_change(version, 0.5)
            version = state["version"]
            what = state["phase"] if state["item"] is None else f"{state['item']['id']} {state['phase']}"
            bar.update(task, completed=state["progress"]["kept"], description=f"{what:<20}")


def _tell_progress(session: Session, thread: threading.Thread) -> None:
    """A line on stderr for each item that is done with, where no bar can be drawn."""
    lines = session.journal.lines
    told = len(lines)
    ids = {item.id for item in session.order}
    alive = True
    while alive:
        alive = thread.is_alive()  # asked first: what was noted last is told as well
        while told < len(lines):
            line, told = lines[told], told + 1
            if line["step"] not in ("kept", "skipped") or line["item"] not in ids:
                continue
            what = f"take {line['take']} is kept" if line["step"] == "kept" else "skipped"
            why = f": {line['why']}" if line.get("why") else ""
            kept = sum(item in ids for item in tuple(session.journal.kept))
            print(f"{line['item']}: {what}{why} ({kept} of {len(ids)} kept)", file=sys.stderr, flush=True)
        thread.join(0.1)
