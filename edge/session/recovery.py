"""What a crash left in a session's folder: repaired, listed, and never taken for another item's episode."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path

from dsp.errors import HearthError, InputError
from edge.session.journal import Journal, JournalWriter
from recordings.episode import ORIGINALS, PROFILE, Episode
from recordings.marker import state_of
from recordings.repair_episode import repair
from recordings.storage import storage_errors
from recordings.wav_read import read_wav

_FOLDER = re.compile(r"(?P<item>.+)-t(?P<take>[1-9][0-9]*)\Z")
_ON_THE_WAY = ("armed", "recording", "empty")  # states of a take whose folder nobody has finished yet


def folder_name(item: str, take: int) -> str:
    """`<item>-t<take>`."""
    return f"{item}-t{take}"


def takes_on_disk(folder: Path) -> dict[str, list[int]]:
    """item -> numbers of the takes that have a folder, in order; of whatever items there are."""
    found: dict[str, list[int]] = {}
    for path in folder.iterdir() if folder.is_dir() else ():
        match = _FOLDER.match(path.name)
        if match and path.is_dir():
            found.setdefault(match["item"], []).append(int(match["take"]))
    return {item: sorted(numbers) for item, numbers in found.items()}


def next_take(folder: Path, journal: Journal, item: str) -> int:
    """The number of the next take of an item: one more than any that has, or had, a folder."""
    had = [n for n, take in journal.takes.get(item, {}).items() if take.state not in ("armed", "empty")]
    return 1 + max([0, *had, *takes_on_disk(folder).get(item, ())])


def recover(writer: JournalWriter, folder: Path, report: bool, tell: Callable[[str], None]) -> list[str]:
    """Finish what a crash left; gives the names of the folders that were cut off.

    A take that was finished, but of which the journal does not know it yet, gets its line. One that was cut
    off is repaired; one without a frame of sound is removed, and its number used again. Raises InputError
    when a folder says that it is a take of another item than its name: that is never guessed at.
    """
    interrupted = []
    for item, numbers in sorted(takes_on_disk(folder).items()):
        for number in numbers:
            known = writer.journal.takes.get(item, {}).get(number)
            if known is not None and known.state not in _ON_THE_WAY:
                continue
            path = folder / folder_name(item, number)
            names = {"item": item, "take": number, "episode": path.name}
            state = state_of(path)
            if state == "recording":
                raise InputError(f"{path}: is being recorded by a process that lives; stop it first")
            if state == "interrupted" and not _has_sound(path):
                with storage_errors(path, "remove"):
                    shutil.rmtree(path)
                writer.add("empty", **names)
                tell(f"{path.name}: cut off before any sound was recorded; removed")
                continue
            check_owner(path, item, number)
            if state == "finished":
                writer.add("recorded", **names, seconds=Episode.open(path).duration_s, stop_reason=None)
                continue
            tell(f"{path.name}: was cut off; it is being repaired")
            interrupted.append(path.name)
            try:
                done = repair(path, report=report)
                ok, actions, problems = done.ok, done.actions, done.problems
            except HearthError as error:
                ok, actions, problems = False, [], [str(error)]
            writer.add("interrupted", **names, ok=ok, actions=actions, problems=problems)
    return interrupted


def check_owner(path: Path, item: str, number: int) -> None:
    """Raise InputError unless the episode itself says that it is this take of this item."""
    profile = Episode.open(path).profile
    if (profile.plan_item, profile.take) != (item, number):
        raise InputError(
            f"{path}: says that it is take {profile.take} of {profile.plan_item}, not take {number} of"
            f" {item}; somebody renamed folders. Put them back as they were"
        )


def _has_sound(path: Path) -> bool:
    """Whether any frame of sound reached the disk (and the profile that says of what)."""
    if not (path / PROFILE).is_file():
        return False
    for file in sorted((path / ORIGINALS).glob("*.wav")) if (path / ORIGINALS).is_dir() else ():
        try:
            if read_wav(file, recover=True).frames > 0:
                return True
        except InputError:
            continue
    return False
