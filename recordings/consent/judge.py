"""Carries out what has to become of every file; can be killed at any point and run again."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

from recordings.consent.collect import concerns, listed
from recordings.consent.contents import Look, Verdict
from recordings.consent.provenance import PROVENANCE, Source, read_provenance
from recordings.consent.survey import Found, Survey, files_below
from recordings.consent.traces import AnchorSearch, Traces
from recordings.marker import MANIFEST

REEXPORT = "REEXPORT.json"
RELEASE_JSON = "release.json"
CHECKSUMS = "checksums.sha256"


@dataclass
class Outcome:
    """What was (or would be) done. Paths as text. unexplained: sound, pictures or packed tables of which
    nobody can tell whose they are. left: what is still there, and why."""

    deleted: list[str] = field(default_factory=list)
    rewritten: list[str] = field(default_factory=list)
    re_export: list[str] = field(default_factory=list)
    unexplained: list[str] = field(default_factory=list)
    left: list[tuple[str, str]] = field(default_factory=list)
    bytes: int = 0


@dataclass(frozen=True)
class Step:
    """One file with what has to become of it; `release`: the release that it belongs to."""

    path: Path
    verdict: Verdict
    release: Path | None = None


class Judge:
    """One pass over what lies there. gone: folders of episodes that go, deleted already or not."""

    def __init__(
        self, found: Survey, going: Iterable[Found], traces: Traces, gone: Iterable[Path] = ()
    ) -> None:
        self.found, self.going, self.traces = found, list(going), traces
        self._gone = {*gone, *(episode.path for episode in self.going)}
        self.search = AnchorSearch(traces.anchors)
        self.outcome = Outcome()
        self.outcome.left += found.left
        self._rows: dict[Path, list[Source]] = {}
        known = {e["sha256"] for f in found.episodes if f not in self.going for e in listed(f.path).values()}
        for root in found.releases:
            try:
                self._rows[root] = read_provenance(root)
            except ValueError as error:
                self.outcome.left.append((str(root), f"its provenance cannot be read: {error}"))
        rows = [row for root in self._rows.values() for row in root if not concerns(row, traces)]
        self._known = frozenset(known | {row.sha256 for row in rows if row.sha256 is not None})

    # ------------------------------------------------------------------ judging

    def steps(self, advance: Callable[[float], None] = lambda _: None) -> list[Step]:
        """What has to become of every file outside the episodes that go; those that stay are left out."""
        found: list[Step] = []
        for folder in self.found.unfinished:
            reason = Verdict(
                "delete", "is a release that was never finished, and says of no file whose it is"
            )
            found += [Step(path, reason) for path in files_below(folder)]
        looks: dict[Path | None, Look] = {}
        sessions = self._session_refs()
        for path in self.found.files:
            advance(1)
            release = self.found.release_of(path)
            place = release or path.parent
            if place not in looks:
                refs = self._release_refs(release) if release else sessions.get(path.parent, set())
                looks[place] = Look(
                    self.traces, self.search, refs, drop_named=release is not None, known=self._known
                )
            verdict = self._judge(path, release, looks[place])
            if verdict.action != "keep":
                found.append(Step(path, verdict, release))
        plain = Look(self.traces, self.search, names_only=True)
        for episode in self.found.episodes:
            if episode not in self.going:
                for path in files_below(episode.path):
                    verdict = self._try(plain, path)
                    if verdict.action != "keep" and path.name != MANIFEST:
                        found.append(Step(path, verdict))
        return found

    def _session_refs(self) -> dict[Path, set[str]]:
        """What stands for an episode that goes in the files of its own session: its folder, its item."""
        refs: dict[Path, set[str]] = {}
        for episode in self.going:
            mine = refs.setdefault(episode.path.parent, set())
            mine |= episode.ids
            if episode.profile is not None and episode.profile.plan_item is not None:
                mine.add(episode.profile.plan_item)
        return refs

    def _release_refs(self, root: Path) -> set[str]:
        """Items, outputs, members and labels of a release that stand for episodes that go, and only those."""
        rows = self._rows.get(root, [])
        hit = [row for row in rows if concerns(row, self.traces)]
        stay = [row for row in rows if not concerns(row, self.traces)]

        def words(of: list[Source]) -> set[str]:
            alone = {row.member or row.output for row in of}
            return {row.item for row in of} | alone | {label for row in of for label in row.labels}

        return words(hit) - words(stay)

    def _judge(self, path: Path, release: Path | None, look: Look) -> Verdict:
        if path.is_symlink():
            return self._link(path, look)
        relative = path.relative_to(self.found.root_of(path))
        if any(self.traces.in_file_name(part) for part in relative.parts):
            return Verdict("delete", "is called after the person")
        if any(look.about(part) for part in relative.parts):
            return Verdict("delete", "is called after an episode that goes")
        if release is not None and path.name in (PROVENANCE, REEXPORT, CHECKSUMS):
            return self._try(look, path)
        rows = (
            [r for r in self._rows.get(release, []) if r.output == path.relative_to(release).as_posix()]
            if release
            else []
        )
        hit = [row for row in rows if concerns(row, self.traces)]
        if hit and len(hit) == len(rows):
            return Verdict("delete", "was made of an episode that goes, by its provenance")
        unplaced = look.unplaced
        verdict = self._try(look, path)
        members = frozenset(row.member for row in hit if row.member is not None)
        if members:
            return replace(verdict, action="rewrite", why="has members that go", drop=members | verdict.drop)
        if hit and verdict.action == "keep" and release is not None and path == release / RELEASE_JSON:
            return Verdict("mark", "counts episodes that go")  # by it a release is known, and can be replaced
        if hit and verdict.action == "keep":
            return Verdict("remake", "holds something of an episode that goes, by its provenance")
        if verdict.action in ("keep", "rewrite") and not rows and look.unplaced > unplaced:
            self.outcome.unexplained.append(str(path))
        return verdict

    def _link(self, path: Path, look: Look) -> Verdict:
        target = path.resolve()
        if any(folder == target or folder in target.parents for folder in self._gone):
            return Verdict("delete", "is a link to what goes")
        if self.traces.in_file_name(path.name):
            return Verdict("delete", "is called after the person")
        inside = any(root in target.parents for root in self.found.roots)
        if target.is_file() and not inside and self._try(look, target).action != "keep":
            self.outcome.left.append((str(path), f"is a link to {target}: give `--also {target.parent}`"))
        return Verdict()

    def _try(self, look: Look, path: Path) -> Verdict:
        try:
            return look.file(path)
        except Exception as error:  # a file that cannot be looked into is not clean, whatever the reason
            self.outcome.left.append((str(path), f"cannot be looked into: {error}"))
            return Verdict()
