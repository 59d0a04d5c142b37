"""What a card tells of a folder of episodes, read from the episodes themselves; nothing is guessed.

Real people are named by the pseudonym of the consent book, or by a number; never by what episodes call them.
"""

from __future__ import annotations

import hashlib
import json
import math
import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dsp.errors import HearthError, InputError
from recordings.combinations import COMBINATIONS
from recordings.consent.book import ConsentBook
from recordings.consent.present import persons_of
from recordings.episode import CHECKS, TRUTH, Episode, list_episodes
from recordings.manifest import read_manifest
from recordings.marker import MANIFEST
from recordings.plan.places import turn_of
from recordings.profile import Profile
from recordings.release.item import room_of
from recordings.review.log import verdict
from recordings.session_journal import JOURNAL, read_journal
from recordings.storage import sha256_file

UNKNOWN = "not known"


@dataclass(frozen=True)
class EpisodeFacts:
    """One episode that counts. None: not known. snr_from and rt60_from: where the number comes from."""

    path: Path
    profile: Profile
    duration_s: float | None
    pictures: int | None
    bytes: int
    snr_db: float | None
    snr_from: str | None
    rt60_s: float | None
    rt60_from: str | None
    verdict: str
    sharing: str


@dataclass
class CardFacts:
    """All of it. left_out: folder -> why an episode does not count. names: what an episode calls somebody ->
    what the card does."""

    root: Path
    episodes: list[EpisodeFacts] = field(default_factory=list)
    left_out: dict[Path, str] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)

    def counts(
        self, what: Callable[[EpisodeFacts], Iterable[str | None]], order: Sequence[str] = ()
    ) -> dict[str, int]:
        """How many episodes have each value: in this order, then by name; what is not known comes last."""
        found = Counter(value or UNKNOWN for one in self.episodes for value in what(one))
        place = {name: number for number, name in enumerate(order)}
        ordered = sorted(found, key=lambda name: (name == UNKNOWN, place.get(name, len(place)), name))
        return {name: found[name] for name in ordered}

    def combinations(self) -> dict[tuple[str, str], tuple[int, int]]:
        """(grounding, query) -> feasible and infeasible episodes; all 17."""
        cells: Counter[tuple[str, str, bool]] = Counter()
        for one in self.episodes:
            p = one.profile
            if p.grounding and p.query and p.feasibility:
                cells[p.grounding, p.query, p.feasibility == "feasible"] += 1
        return {(g, q): (cells[g, q, True], cells[g, q, False]) for g, q in COMBINATIONS}

    @property
    def sha256(self) -> str:
        """Over the manifests of all episodes that count: another content has another one."""
        digest = hashlib.sha256()
        for one in self.episodes:
            digest.update(sha256_file(one.path / MANIFEST).encode())
        return digest.hexdigest()

    def numbers(self, name: str) -> list[float]:
        """The known values of `duration_s`, `snr_db` or `rt60_s`."""
        values = (getattr(one, name) for one in self.episodes)
        return [float(value) for value in values if value is not None]


def gather(root: str | Path, advance: Callable[[float], None] = lambda amount: None) -> CardFacts:
    """Read every finished episode below a data folder or session; of a guided session only kept takes count.

    Raises InputError when `root` is no folder, StorageError when it cannot be read.
    """
    root = Path(root)
    facts = CardFacts(root)
    sessions: dict[Path, _Session] = {}
    books: dict[Path, ConsentBook] = {}
    for episode in list_episodes(root):
        path = episode.path
        session = sessions.setdefault(path.parent, _Session(path.parent))
        book = books.setdefault(path.parent.parent, ConsentBook.open(path.parent.parent))
        try:
            why = _why_not(episode, session)
            if why is None:
                facts.episodes.append(_facts(episode, session, book))
                _name_people(facts, episode.profile, book)
            else:
                facts.left_out[path] = why
        except HearthError as error:
            facts.left_out[path] = str(error)
        advance(1)
    facts.episodes.sort(key=lambda one: str(one.path))
    return facts


class _Session:
    """What a guided session's journal says; an empty one where there is none."""

    def __init__(self, folder: Path) -> None:
        self.kept: set[str] | None = None
        self.over_quiet_db: dict[str, float] = {}
        if (folder / JOURNAL).is_file():
            journal = read_journal(folder)
            self.kept = set(journal.kept.values())
            for line in journal.lines:
                if line["step"] == "checks":
                    for value in _over_quiet(line):
                        self.over_quiet_db[str(line.get("episode"))] = value


def _over_quiet(line: dict[str, Any]) -> Iterator[float]:
    for check in line.get("checks") or ():
        value = check.get("over_quiet_db") if isinstance(check, dict) else None
        if isinstance(value, int | float) and math.isfinite(value):
            yield float(value)


def _why_not(episode: Episode, session: _Session) -> str | None:
    if episode.profile.id == "unreadable":
        return episode.profile.notes
    if episode.state != "finished":
        return f"it is {episode.state}, not finished"
    if session.kept is not None and episode.path.name not in session.kept:
        return "a take that was not kept"
    return None


def _facts(episode: Episode, session: _Session, book: ConsentBook) -> EpisodeFacts:
    checks, truth = _json(episode.path / CHECKS), _json(episode.path / TRUTH)
    sound, video = checks.get("audio"), checks.get("video")
    duration = sound.get("duration_s") if isinstance(sound, dict) else None
    pictures = video.get("frames") if isinstance(video, dict) else None
    snr, snr_from = session.over_quiet_db.get(episode.path.name), "speech over what is heard before it"
    if snr is None:
        snr, snr_from = _number(truth.get("snr_db")), "truth of the virtual room: talker over sensor noise"
    rt60, rt60_from = _reverberation(episode)
    if rt60 is None:
        rt60, rt60_from = _number(truth.get("rt60_s")), "truth of the virtual room"
    manifest = read_manifest(episode.path)
    return EpisodeFacts(
        path=episode.path,
        profile=episode.profile,
        duration_s=_number(duration),
        pictures=pictures if isinstance(pictures, int) else None,
        bytes=sum(entry["bytes"] for entry in manifest.values()),
        snr_db=snr,
        snr_from=None if snr is None else snr_from,
        rt60_s=rt60,
        rt60_from=None if rt60 is None else rt60_from,
        verdict=verdict(episode.path),
        sharing=_sharing(episode.profile, book),
    )


def _json(path: Path) -> dict[str, Any]:
    try:
        data = json.loads(path.read_bytes())
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be read: {error}") from None
    return data if isinstance(data, dict) else {}


def _number(value: Any) -> float | None:
    usable = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return float(value) if usable else None


def _reverberation(episode: Episode) -> tuple[float | None, str]:
    """RT60 of the calibration that the episode carries."""
    found = episode.calibrations.get("room")
    section = {} if found is None else found.result.get("reverberation")
    value = _number(section.get("rt60_s")) if isinstance(section, dict) else None
    return value, "calibration of the room"


def _sharing(profile: Profile, book: ConsentBook) -> str:
    """Whether it may be shared, by the consent book, and else by what the episode says."""
    if profile.origin == "virtual":
        return "nobody real is in it"
    if book.people.people or book.people.visits:
        return "agreed" if book.sharing(profile).ok else "not agreed"
    return {"given": "agreed", "refused": "not agreed"}.get(profile.consent.sharing, UNKNOWN)


def _name_people(facts: CardFacts, profile: Profile, book: ConsentBook) -> None:
    for person in persons_of(profile):
        if person in facts.names:
            continue
        if profile.origin == "virtual":
            facts.names[person] = person
            continue
        listed = book.find(person)
        taken = len([name for name in facts.names.values() if name.startswith("person ")])
        facts.names[person] = f"person {taken + 1}" if listed is None else listed.pseudonym


# ---------------------------------------------------------------------- what episodes are counted by


def room(one: EpisodeFacts) -> list[str | None]:
    """The room that it was recorded in."""
    return [room_of(one.profile)]


def target_type(one: EpisodeFacts) -> list[str | None]:
    """The type of the target device; nothing where there is none."""
    profile = one.profile
    if profile.target_device is None:
        return [] if profile.feasibility == "nonexistent_resource" else [None]
    devices = () if profile.home is None else profile.home.devices
    return [next((d.type for d in devices if d.id == profile.target_device), None)]


def orientation(one: EpisodeFacts) -> list[str | None]:
    """How the speaker is turned against the direction to the microphone."""
    profile = one.profile
    microphone = profile.rig.get("microphone")
    place = microphone.get("position_m") if isinstance(microphone, dict) else None
    if profile.staging is None or not isinstance(place, list | tuple) or len(place) != 3:
        return [None]
    where = (float(place[0]), float(place[1]), float(place[2]))
    turns = [turn_of(p.mouth_m, p.facing_deg, where) for p in profile.staging.people if p.speaks]
    return [turns[0] if turns else None]


def five_numbers(values: Sequence[float]) -> dict[str, float] | None:
    """Smallest, quartiles, largest and sum; None without values."""
    if not values:
        return None
    quartiles = statistics.quantiles(values, n=4, method="inclusive") if len(values) > 1 else [values[0]] * 3
    return {
        "min": min(values),
        "q1": quartiles[0],
        "median": quartiles[1],
        "q3": quartiles[2],
        "max": max(values),
        "sum": math.fsum(values),
    }
