"""The journal of a guided session, read: `<data>/<session>/session.jsonl`, one JSON object per step.

Every line has `step` and `t_utc`. What is about an item of the plan has `item`, what is about a take of it
has `take` (its number) and `episode` (its folder, `<item>-t<take>`) too.

  opened       plan, plan_sha256, items      a session began, or was gone on with
  armed        item, take, episode           everything is set, the take may begin
  recording    item, take, episode           the episode's folder is there and grows
  recorded     ... seconds, stop_reason      it is finished and verified
  checks       ... ok, checks                what was looked at, see edge.session.checks
  kept         item, take, episode           this is the item's episode, until another is kept
  retake       item, take, episode, why      the take is not wanted
  note         item, text (take, episode)    what the operator wrote
  skipped      item, why                     the item is left for later
  dropped      item, take, episode           a kept take is not wanted any more: the item is open again
  interrupted  ... ok, actions, problems     a crash left this take; it was repaired (ok) or stays as it is
  empty        item, take, episode           a crash left a take without sound: its folder was removed
  closed                                     the session was left in order

A line is forced to the medium before anything goes on. After a kill or a power loss the last line may be
torn: it does not count (what it would have said had not been told to anybody), and the next session cuts it
off.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dsp.errors import InputError
from recordings.storage import storage_errors

JOURNAL = "session.jsonl"
STEPS = (
    "opened", "armed", "recording", "recorded", "checks", "kept", "retake", "note", "skipped", "dropped",
    "interrupted", "empty", "closed",
)  # fmt: skip
_OF_A_TAKE = frozenset(STEPS) - {"opened", "note", "skipped", "closed"}
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*\Z")

Line = dict[str, Any]


@dataclass
class Take:
    """One take of an item. state: how far it came: armed, recording, recorded, checks, kept, retake, dropped,
    interrupted (see `repaired`) or empty."""

    item: str
    number: int
    episode: str
    state: str = "armed"
    checks_ok: bool | None = None
    repaired: bool | None = None
    notes: list[str] = field(default_factory=list)


@dataclass
class Journal:
    """A journal as far as it was written.

    kept: item -> folder of the episode that counts. skipped: item -> why, of those that are not kept. takes:
    item -> its takes by number. torn_bytes: of a last line that is not whole.
    """

    folder: Path
    lines: list[Line] = field(default_factory=list)
    kept: dict[str, str] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)
    takes: dict[str, dict[int, Take]] = field(default_factory=dict)
    notes: dict[str, list[str]] = field(default_factory=dict)
    torn_bytes: int = 0

    @property
    def plan(self) -> str | None:
        """The name of the plan that the session goes by."""
        return next((line.get("plan") for line in self.lines if line["step"] == "opened"), None)

    @property
    def plan_sha256(self) -> str | None:
        """Of the plan file when the session was last opened."""
        opened = (line.get("plan_sha256") for line in reversed(self.lines) if line["step"] == "opened")
        return next(opened, None)

    def take_count(self, item: str) -> int:
        """How many takes of an item recorded something."""
        return sum(take.state not in ("armed", "empty") for take in self.takes.get(item, {}).values())

    def add(self, line: Line) -> None:
        """Take a further line, as it was written."""
        self.lines.append(line)
        step, item = line["step"], line.get("item")
        if item is None:
            return
        take = None
        if "take" in line:
            number, episode = int(line["take"]), str(line["episode"])
            of_item = self.takes.setdefault(item, {})
            take = of_item.setdefault(number, Take(item, number, episode))
        if step == "kept":
            self.kept[item] = line["episode"]
            self.skipped.pop(item, None)
        elif step == "dropped" and self.kept.get(item) == line["episode"]:
            del self.kept[item]
        elif step == "skipped" and item not in self.kept:
            self.skipped[item] = str(line.get("why", ""))
        elif step == "armed":
            self.skipped.pop(item, None)
        elif step == "note":
            self.notes.setdefault(item, []).append(str(line.get("text", "")))
            if take is not None:
                take.notes.append(str(line.get("text", "")))
        if take is None or step == "note":
            return
        take.state = step
        if step == "checks":
            take.checks_ok = bool(line.get("ok"))
        elif step == "interrupted":
            take.repaired = bool(line.get("ok"))


def read_journal(folder: str | Path) -> Journal:
    """The journal of a session's folder; empty when there is none yet.

    Raises InputError for a line (the last, torn one apart) that is none, with its number: then somebody else
    has written into the file, and what was kept cannot be told for sure.
    """
    folder = Path(folder)
    journal = Journal(folder)
    path = folder / JOURNAL
    if not path.is_file():
        return journal
    with storage_errors(path, "read"):
        data = path.read_bytes()
    *whole, rest = data.split(b"\n")
    journal.torn_bytes = len(rest)
    for number, text in enumerate(whole, 1):
        try:
            journal.add(_line(text))
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            if number == len(whole) and b"\0" in text and not rest:  # a power loss kept its first page back
                journal.torn_bytes = len(text) + 1
                break
            raise InputError(f"{path}: line {number} is no line of a journal: {error}") from None
    return journal


def _line(text: bytes) -> Line:
    line = json.loads(text.decode("utf-8"))
    if not isinstance(line, dict) or not isinstance(line.get("step"), str):
        raise ValueError("expected an object with `step`")
    if line["step"] in _OF_A_TAKE and not {"item", "take", "episode"} <= set(line):
        raise ValueError(f"the step {line['step']!r} needs item, take and episode")
    for key in ("item", "episode"):
        if key in line and not (isinstance(line[key], str) and _NAME.match(line[key])):
            raise ValueError(f"{key} {line[key]!r} is no name")
    if "take" in line and (type(line["take"]) is not int or line["take"] < 1):
        raise ValueError(f"take {line['take']!r} is no number from 1 on")
    return line


def kept_takes(session_folder: str | Path) -> dict[str, Path]:
    """Item of the plan -> folder of the episode that was kept for it, in the order of the ids.

    A folder that is not there any more (it was withdrawn or moved) is left out; one whose profile cannot be
    read is named as the journal has it: whoever opens it is told why. Raises InputError for a
    journal that cannot be read, and when an episode is not a take of the item that the journal says: then
    folders were renamed, and nothing of it may be released.
    """
    from recordings.episode import Episode

    folder = Path(session_folder)
    found: dict[str, Path] = {}
    for item, name in sorted(read_journal(folder).kept.items()):
        path = folder / name
        if not path.is_dir():
            continue
        try:
            profile = Episode.open(path).profile
        except InputError:  # one broken file says nothing about the other takes
            found[item] = path
            continue
        if profile.plan_item != item:
            raise InputError(
                f"{path}: the journal keeps it for the item {item}, but it says that it is a take of"
                f" {profile.plan_item or 'no item'}; put the folders back as they were"
            )
        found[item] = path
    return found
