"""A step over many episodes: what is to do, who does it, what came of it.

Nothing of this is kept in the driver alone: results, failures and locks are on disk. So a driver that was
killed is started again with the same command, and two may run at once.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

from dsp.errors import InputError
from recordings.manifest import refuse_inside_sealed
from recordings.marker import state_of
from recordings.process.lock import EpisodeLock
from recordings.process.place import DONE, RESULT, STATE, Place, canonical, find_places, kept_places
from recordings.process.pool import LocalPool
from recordings.process.seat import Limits, Outcome
from recordings.process.step import Step
from recordings.storage import StorageError, write_atomic
from recordings.terminal import counted

PROCESS = "process.json"
RESULTS = "results.jsonl"
_BUSY_S = 0.25  # between two looks at an episode that another driver has
_LONGEST_S = 1e6
On = Literal["local", "ray"]


class Pool(Protocol):
    """Who runs the step."""

    def run(self, places: Sequence[Place]) -> Iterator[Outcome]: ...


@dataclass
class Summary:
    """Of one run. before: results that were there already; elsewhere: made by another driver meanwhile;
    quarantined: what failed too often; skipped: episodes that are not finished; not_kept: takes that a
    guided session did not keep, which are left out. out: as given."""

    step: Step
    out: Path
    on: On
    workers: int
    episodes: int = 0
    done: int = 0
    before: int = 0
    elsewhere: int = 0
    failed_tries: int = 0
    quarantined: list[dict[str, Any]] = field(default_factory=list)
    skipped: list[dict[str, str]] = field(default_factory=list)
    not_kept: int = 0
    seconds: float = 0.0

    @property
    def ok(self) -> bool:
        return not self.quarantined

    @property
    def rate_per_s(self) -> float | None:
        """Episodes done in this run per second of it; None when there was nothing to do."""
        return round(self.done / self.seconds, 3) if self.done and self.seconds else None

    def to_dict(self) -> dict[str, Any]:
        """Plain data for --json."""
        return {
            "ok": self.ok,
            "step": self.step.name,
            "version": self.step.version,
            "parameters": self.step.parameters,
            "out": str(self.out),
            "on": self.on,
            "workers": self.workers,
            "episodes": self.episodes,
            "done": self.done,
            "already_done": self.before,
            "done_elsewhere": self.elsewhere,
            "failed_tries": self.failed_tries,
            "quarantined": self.quarantined,
            "skipped": self.skipped,
            "not_kept": self.not_kept,
            "seconds": round(self.seconds, 3),
            "rate_per_s": self.rate_per_s,
        }


class Watcher(Protocol):
    """Is told of the work: how much there is, and each outcome."""

    def begin(self, episodes: int, todo: int) -> None: ...
    def add(self, outcome: Outcome) -> None: ...


def process(
    step: Step,
    data: Sequence[Path],
    out: Path,
    *,
    workers: int,
    limits: Limits | None = None,
    on: On = "local",
    address: str | None = None,
    retry_quarantined: bool = False,
    all_takes: bool = False,
    watcher: Watcher | None = None,
) -> Summary:
    """Run `step` on every episode in `data` that has no result of it in `out`.

    all_takes: also on the takes that a guided session did not keep.

    Raises InputError (no episodes, names that meet, an `out` of another step), WorkerError (no worker can be
    started), StorageError (nothing can be written: what is done stays, and nothing is quarantined for it).
    """
    limits = limits or Limits()
    possible = workers >= 1 and limits.tries >= 1 and limits.memory_mib >= 0
    if not possible or not 0 < limits.timeout_s <= _LONGEST_S:
        raise InputError(
            f"{workers} workers, {limits.tries} tries, {limits.timeout_s:g} s, {limits.memory_mib} MiB: at"
            f" least 1 worker, 1 try, more than 0 s and at most {_LONGEST_S:g}, and 0 (no limit) or more MiB"
        )
    from recordings.consent.outputs import note_outputs

    began = time.monotonic()
    given, out = out, out.resolve()
    refuse_inside_sealed(out / PROCESS)
    places, not_kept = find_places(data, out), 0
    if not all_takes:
        places, not_kept = kept_places(places, data)
        if not places:
            raise InputError(
                f"none of {counted(not_kept, 'take')} was kept by its session; --all-takes has them"
            )
    if any(out.is_relative_to(place.episode) for place in places):
        raise InputError(f"--out {out}: lies in an episode, which never changes")
    _claim(out, step)
    note_outputs((place.episode for place in places), out, f"process {step.name}")
    summary = Summary(step, given, on, workers, episodes=len(places), not_kept=not_kept)
    todo = _todo(places, step, limits, retry_quarantined, summary)
    if watcher is not None:
        watcher.begin(len(places), len(todo))
    if todo:
        with _pool(on, step, out, min(workers, len(todo)), limits, address) as pool:
            _work(pool, todo, step, limits, summary, watcher)
    with _alone(out):
        _collect(out)
    summary.quarantined.sort(key=lambda entry: str(entry["episode"]))
    summary.seconds = time.monotonic() - began
    return summary


def _pool(on: On, step: Step, out: Path, workers: int, limits: Limits, address: str | None) -> Any:
    if on == "ray":
        from recordings.process.on_ray import RayPool

        return RayPool(step, out, workers, limits, address)
    if address is not None:
        raise InputError(f"--address {address}: is for --on ray")
    return LocalPool(step, out, workers, limits)


def _claim(out: Path, step: Step) -> None:
    """A folder is for one step: results of two would lie among each other."""
    path = out / PROCESS
    with _alone(out):
        try:
            said = json.loads(path.read_text(encoding="utf-8"))["step"]
        except FileNotFoundError:
            said = None
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise InputError(f"{path}: cannot be read ({error}); give another --out") from None
        if said not in (None, step.name):
            raise InputError(f"--out {out}: holds results of step {said}; give {step.name} another folder")
        write_atomic(path, canonical({"hearth_process": 1, **step.identity()}))


@contextmanager
def _alone(out: Path) -> Iterator[None]:
    """No other driver writes the files of the whole folder meanwhile. Raises StorageError."""
    with EpisodeLock(out / STATE / "whole.lock") as lock:
        while not lock.take():
            time.sleep(_BUSY_S / 10)
        yield


def _todo(
    places: list[Place], step: Step, limits: Limits, retry_quarantined: bool, summary: Summary
) -> list[Place]:
    todo = []
    for place in places:
        state = state_of(place.episode)
        if state != "finished":
            summary.skipped.append({"episode": place.name, "reason": f"is {state}, not finished"})
            continue
        try:
            key = place.key(step)
        except InputError:  # the worker says what is wrong with it
            key = ""
        if key and place.is_done(key):
            summary.before += 1
        elif retry_quarantined:
            place.forget_failures()
            todo.append(place)
        elif (entry := _quarantine(place, key, limits)) is not None:
            summary.quarantined.append(entry)
        else:
            todo.append(place)
    return todo


def _quarantine(place: Place, key: str, limits: Limits) -> dict[str, Any] | None:
    """What is said of an episode that is not tried any more; None: it is."""
    tried = place.tried(key)
    if len(tried) < limits.tries and not any(entry.get("kind") == "input" for entry in tried):
        return None
    last = tried[-1]
    return {
        "episode": place.name,
        "kind": str(last.get("kind")),
        "reason": str(last.get("reason")),
        "tries": len(tried),
        "output": str(last.get("output", "")),
    }


def _work(
    pool: Pool,
    todo: list[Place],
    step: Step,
    limits: Limits,
    summary: Summary,
    watcher: Watcher | None,
) -> None:
    """Rounds over what is left: what failed comes again after the others, what another driver has as well."""
    by_name = {place.name: place for place in todo}
    left = todo
    while left:
        again: list[Place] = []
        waiting: list[Place] = []
        for outcome in pool.run(left):
            place = by_name[outcome.episode]
            if outcome.state == "busy":
                waiting.append(place)
                continue
            if outcome.kind == "storage":
                raise StorageError(
                    f"{outcome.reason}; {summary.done} episodes were done in this run, nothing was"
                    " quarantined for it, and the same command goes on"
                )
            if outcome.state == "failed":
                summary.failed_tries += 1
                key = _key(place, step)
                entry = _quarantine(place, key, limits)
                if entry is None:
                    again.append(place)
                    continue
                summary.quarantined.append(entry)
            elif outcome.state == "done":
                summary.done += 1
            else:
                summary.elsewhere += 1
            if watcher is not None:
                watcher.add(outcome)
        if waiting and not again:
            _wait_for_one(waiting)
        left = again + waiting


def _key(place: Place, step: Step) -> str:
    try:
        return place.key(step)
    except InputError:
        return ""


def _wait_for_one(places: list[Place]) -> None:
    """Until another driver is done with one of them, or gone."""
    while True:
        for place in places:
            with EpisodeLock(place.lock) as lock:
                if lock.take():
                    return
        time.sleep(_BUSY_S)


def _collect(out: Path) -> None:
    """results.jsonl and provenance.jsonl, by name: the same whoever made what they tell of."""
    from recordings.consent.provenance import Source, write_provenance

    lines: list[bytes] = []
    sources: list[Source] = []
    for path in sorted(out.glob(f"*/*/{DONE}")):
        name = path.parent.relative_to(out).as_posix()
        try:
            done = json.loads(path.read_text(encoding="utf-8"))
            made = {f"{name}/{file}": entry["sha256"] for file, entry in done["files"].items()}
            whole, of = str(done["manifest"]), dict(done["sources"])
            result = path.with_name(RESULT)
            if result.is_file():
                entry = {"episode": name, "result": json.loads(result.read_text(encoding="utf-8"))}
                lines.append(json.dumps(entry, sort_keys=True).encode() + b"\n")
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            continue  # somebody changed it: the next run makes it anew
        for output, digest in {**made, f"{name}/{DONE}": None, RESULTS: None}.items():
            item = path.parent.name
            sources.append(
                Source(output=output, item=item, episode=name, manifest=whole, sources=of, sha256=digest)
            )
    write_atomic(out / RESULTS, b"".join(lines))
    write_provenance(out, sources)
