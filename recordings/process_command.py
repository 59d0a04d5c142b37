"""`hearth process`."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer

from dsp.errors import CheckFailed, HearthError, InputError
from recordings.terminal import counted, emit

if TYPE_CHECKING:
    from recordings.process.seat import Outcome

_LINE_S = 30.0  # between two lines of progress where there is no terminal


def process(
    step: Annotated[
        str,
        typer.Argument(
            help="check, doa, resample, verify, export, evaluate; package.module:function; or a command with"
            " {episode} and {out} in it"
        ),
    ],
    data: Annotated[list[Path], typer.Argument(metavar="DATA...", help="data folders, sessions, episodes")],
    out: Annotated[Path, typer.Option("--out", help="where results go: DIR/<session>/<episode>/")],
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="a parameter of the step")
    ] = None,
    workers: Annotated[
        int | None, typer.Option(min=1, max=4096, help="processes; default: one per core")
    ] = None,
    timeout: Annotated[
        float,
        typer.Option(min=0.1, max=1e6, help="seconds for one episode; then it is ended, with all it started"),
    ] = 600.0,
    memory_mib: Annotated[
        int, typer.Option(min=0, help="memory for one episode, with all that it starts; 0: no limit")
    ] = 0,
    tries: Annotated[int, typer.Option(min=1, max=100, help="after so many failures: quarantine")] = 3,
    retry_quarantined: Annotated[
        bool, typer.Option("--retry-quarantined", help="try again what failed too often before")
    ] = False,
    all_takes: Annotated[
        bool, typer.Option("--all-takes", help="also the takes that a guided session did not keep")
    ] = False,
    on: Annotated[str, typer.Option(help="local, or ray (extra batch)")] = "local",
    address: Annotated[str | None, typer.Option(help="of a Ray cluster; default: a local one")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="one JSON object on stdout")] = False,
) -> None:
    """Run a step on every episode: over and over again without doing anything twice. Exit 1 on a failure."""
    from recordings.process import Limits, find_step
    from recordings.process.driver import On
    from recordings.process.driver import process as run

    if on not in get_args(On):
        raise InputError(f"--on is one of {', '.join(get_args(On))}, not {on!r}")
    if ":" in step and "{" not in step:
        sys.path.insert(0, os.getcwd())  # a step of the user's own is found as `python -m` would
    found = find_step(step, _pairs(settings or []))
    watcher = _Watcher(found.name)
    try:
        summary = run(
            found,
            data,
            out,
            workers=workers or len(os.sched_getaffinity(0)),
            limits=Limits(timeout, memory_mib, tries),
            on=on,  # type: ignore[arg-type]
            address=address,
            retry_quarantined=retry_quarantined,
            all_takes=all_takes,
            watcher=watcher,
        )
    except KeyboardInterrupt:
        raise HearthError(
            f"ended by Ctrl-C; {counted(watcher.done, 'episode')} done in this run stay; the same command"
            " goes on from there"
        ) from None
    finally:
        watcher.end()
    emit(summary.to_dict(), as_json, _lines(summary))
    if not summary.ok:
        raise CheckFailed(f"{counted(len(summary.quarantined), 'episode')} of {summary.episodes} failed")


def _pairs(settings: list[str]) -> dict[str, str]:
    pairs = {}
    for text in settings:
        key, equals, value = text.partition("=")
        if not equals or not key.isidentifier():
            raise InputError(f"--set {text}: give KEY=VALUE")
        if key in pairs:
            raise InputError(f"--set {key}: is given twice")
        pairs[key] = value
    return pairs


def _lines(summary: Any) -> list[str]:
    rate = f", {summary.rate_per_s:g} a second" if summary.rate_per_s else ""
    where = f"on {counted(summary.workers, 'worker')}" + (" of Ray" if summary.on == "ray" else "")
    text = [
        f"{summary.out}: {summary.step.name} of {counted(summary.episodes, 'episode')}:"
        f" {summary.done} done in {summary.seconds:.1f} s {where}{rate};"
        f" {summary.before} were there already"
    ]
    if summary.elsewhere:
        text.append(f"  {summary.elsewhere} were done by another driver meanwhile")
    if summary.not_kept:
        text.append(
            f"  {counted(summary.not_kept, 'take')} left out that no session kept; --all-takes has all"
        )
    text += [f"  skipped: {entry['episode']}: {entry['reason']}" for entry in summary.skipped]
    for entry in summary.quarantined:
        tries = "1 try" if entry["tries"] == 1 else f"{entry['tries']} tries"
        text.append(f"  FAILED: {entry['episode']} ({entry['kind']}, {tries}): {entry['reason']}")
    if summary.quarantined:
        text.append("  they are left out from now on; --retry-quarantined tries them again")
    return text


class _Watcher:
    """A bar on stderr with rate and time left; without a terminal a line now and then."""

    def __init__(self, name: str) -> None:
        self._name = name
        self.done = 0
        self._failed = 0
        self._past = 0
        self._todo = 0
        self._bar: Any = None
        self._task: Any = None
        self._began = self._told = time.monotonic()

    def begin(self, episodes: int, todo: int) -> None:
        self._todo = todo
        self._began = self._told = time.monotonic()
        if not sys.stderr.isatty():
            return
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        self._bar = Progress(
            TextColumn(f"{self._name} ({episodes - todo} there already)"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[rate]}"),
            TimeRemainingColumn(),
            TextColumn("{task.fields[failed]}"),
            console=Console(stderr=True),
            transient=True,
        )
        self._task = self._bar.add_task("", total=todo, rate="", failed="")
        self._bar.start()

    def add(self, outcome: Outcome) -> None:
        self.done += outcome.state == "done"
        self._failed += outcome.state == "failed"
        self._past += 1
        now, past = time.monotonic(), self._past
        rate = past / max(now - self._began, 1e-9)
        failed = f"{self._failed} failed" if self._failed else ""
        if self._bar is not None:
            self._bar.update(self._task, advance=1, rate=f"{rate:.2f}/s", failed=failed)
        elif now - self._told >= _LINE_S:
            self._told = now
            left = (self._todo - past) / rate
            print(
                f"hearth process: {past} of {self._todo}, {rate:.2f} a second, about {left:.0f} s left"
                + (f"; {failed}" if failed else ""),
                file=sys.stderr,
                flush=True,
            )

    def end(self) -> None:
        if self._bar is not None:
            self._bar.stop()
