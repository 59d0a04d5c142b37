"""The consent book of a data folder: may this person be recorded, shared, recognised, on that day?"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import msgspec

from dsp.errors import InputError
from recordings.consent.audit import FIRST, Head, append_audit, head_of, locked, missing_from, read_audit
from recordings.consent.people import (
    USES,
    Agreed,
    AuditHead,
    Consenter,
    Grant,
    People,
    Use,
    Visit,
    content_hash,
    new_pseudonym,
    people_from_yaml,
    people_to_yaml,
)
from recordings.consent.present import episode_key, persons_of
from recordings.profile import Name, Profile
from recordings.storage import storage_errors, write_atomic

FOLDER = "consent"
PEOPLE = "people.yaml"
AUDIT = "audit.jsonl"


@dataclass(frozen=True)
class Permission:
    """An answer: whether it may be done, and why (not)."""

    ok: bool
    why: str

    def __bool__(self) -> bool:
        return self.ok


class ConsentBook:
    """People, visits and the audit record below `<data>/consent`. Made by `ConsentBook.open`; what changes it
    is written at once (people.yaml atomically, mode 600; audit.jsonl by appending)."""

    def __init__(self, folder: Path, people: People) -> None:
        self.folder = folder
        self.people = people

    @classmethod
    def open(cls, data_folder: str | Path) -> ConsentBook:
        """The book of a data folder; without people.yaml it is empty, and nobody is listed.

        Raises InputError when people.yaml is not what it has to be, StorageError when it cannot be read.
        """
        folder = Path(data_folder) / FOLDER
        return cls(folder, _read(folder / PEOPLE))

    @classmethod
    def above(cls, episode: Path, data_folder: Path | None = None) -> ConsentBook:
        """The book that is asked about an episode: `<data>/<session>/<episode>`, by where the episode lies.

        Raises InputError when `data_folder` is given and is another one; as `open`.
        """
        place = episode.resolve().parent.parent
        if data_folder is not None and data_folder.resolve() != place:
            raise InputError(f"{episode}: lies in the data folder {place}, not in {data_folder}")
        return cls.open(place)

    # ------------------------------------------------------------------ asking

    def find(self, name: str) -> Consenter | None:
        """The person of that id or other name; None: not listed."""
        return next((one for one in self.people.people if one.called(name)), None)

    def may(self, person: str, use: Use, at: date | None = None) -> Permission:
        """Whether `person` agreed to `use`, and it holds on the day `at` (default: today)."""
        if use not in USES:
            raise InputError(f"a use is one of {', '.join(USES)}, not {use!r}")
        day = at or date.today()
        found = self.find(person)
        if found is None:
            return Permission(False, f"{person} is not listed: `hearth consent add {person}`")
        grant = found.uses.get(use)
        if grant is None:
            return Permission(False, f"{person} has not agreed to {use}")
        if grant.withdrawn is not None and grant.withdrawn <= day:
            return Permission(False, f"{person} withdrew the consent to {use} on {grant.withdrawn}")
        if day < grant.given:
            return Permission(False, f"{person} agreed to {use} only from {grant.given} on")
        if day > grant.until:
            return Permission(False, f"{person}'s consent to {use} ended on {grant.until}")
        return Permission(True, f"{person} agreed to {use} on {grant.given}, until {grant.until}")

    def recording(self, profile: Profile, at: date | None = None) -> Permission:
        """Whether everybody in the episode may be recorded."""
        if profile.origin == "virtual":
            return Permission(True, "nobody real is in it")
        return self._all(persons_of(profile), "recording", at)

    def sharing(self, profile: Profile, at: date | None = None) -> Permission:
        """Whether an episode may leave the house: everybody in it agreed to sharing, and no visitor was there
        who did not. A visitor's agreement is the visitor's alone. Where nobody is named, the episode's own
        `consent.sharing` has to say so."""
        if profile.origin == "virtual":
            return Permission(True, "nobody real is in it")
        if profile.consent.sharing == "refused":
            return Permission(False, "the episode's own consent.sharing says refused")
        visit = self.visit(episode_key(profile))
        if visit is not None:
            day = at or date.today()
            agreed = visit.agreed
            if agreed is None or not agreed.sharing or day > agreed.until:
                return Permission(False, "a visitor was present who did not agree to sharing")
        persons = persons_of(profile)
        if not persons and profile.consent.sharing not in ("given", "not_needed"):
            who = "a visitor agreed, but nobody else" if visit is not None else "nobody"
            return Permission(
                False,
                f"{who} is named in it, and its own consent.sharing does not say given: name the speaker when"
                " it is recorded or imported (--speaker), or say --sharing given",
            )
        recorded = self._all(persons, "recording", at)
        return self._all(persons, "sharing", at) if recorded else recorded

    def _all(self, persons: Iterable[str], use: Use, at: date | None) -> Permission:
        answers = [self.may(person, use, at) for person in persons]
        refused = [answer.why for answer in answers if not answer]
        return Permission(not refused, "; ".join(refused) if refused else f"everybody agreed to {use}")

    def visitors(self, profile: Profile) -> tuple[str, ...]:
        """Those in the episode who are not listed; empty for a virtual one."""
        if profile.origin == "virtual":
            return ()
        return tuple(name for name in persons_of(profile) if self.find(name) is None)

    def visit(self, key: str) -> Visit | None:
        """What is noted about a visitor in the episode `<session>/<episode>`."""
        return next((visit for visit in self.people.visits if visit.episode == key), None)

    def delete_by(self, profile: Profile) -> tuple[date, str] | None:
        """The last day on which an episode may be kept and why; None: no day is set (virtual, nobody named).

        The earliest of: the retention date or withdrawal of each person's consent to recording, and of a
        visitor (noted, or unlisted by the profile): `visitor_days` after the recording, or what was agreed.
        """
        if profile.origin == "virtual":
            return None
        days: list[tuple[date, str]] = []
        visit = self.visit(episode_key(profile))
        if visit is not None:
            kept = visit.agreed.until if visit.agreed else visit.delete_by
            days.append((kept, "a visitor was present" + (" and agreed until then" if visit.agreed else "")))
        for name in persons_of(profile):
            one = self.find(name)
            grant = one.uses.get("recording") if one else None
            if one is None or grant is None:
                if visit is None:
                    why = f"{name} is not listed" if one is None else f"{name} never agreed to recording"
                    days.append((_day(profile) + timedelta(days=self.people.visitor_days), why))
            elif grant.withdrawn is not None:
                days.append((grant.withdrawn - timedelta(days=1), f"{name} withdrew"))
            else:
                days.append((grant.until, f"retention date of {name}"))
        return min(days) if days else None

    # ------------------------------------------------------------------ changing

    def add(
        self,
        person: str,
        uses: Iterable[Use],
        *,
        form: str,
        until: date,
        given: date | None = None,
        witness: str | None = None,
        names: Iterable[str] = (),
    ) -> Consenter:
        """Note that `person` agreed to `uses`; what was noted for a use before is replaced.

        Raises InputError for a use that is none, dates that contradict each other, a name that is taken.
        """
        wanted = tuple(uses)
        if not wanted or any(use not in USES for use in wanted):
            raise InputError(f"uses are any of {', '.join(USES)}, not {', '.join(wanted) or 'none'}")
        try:
            msgspec.convert(person, Name)
        except msgspec.ValidationError:
            raise InputError(
                f"{person!r} is no id of a person: letters, digits, '.', '_' and '-', 120 at most"
            ) from None
        grant = Grant(given=given or date.today(), form=form, until=until, witness=witness)
        with locked(self.folder):
            self.people = _read(self.folder / PEOPLE)
            old = next((one for one in self.people.people if one.person == person), None)
            new = Consenter(
                person=person,
                pseudonym=old.pseudonym if old else new_pseudonym(),
                names=tuple(dict.fromkeys((*(old.names if old else ()), *names))),
                uses={**(old.uses if old else {}), **dict.fromkeys(wanted, grant)},
            )
            others = tuple(one for one in self.people.people if one.person != person)
            people = msgspec.structs.replace(self.people, people=(*others, new))
            facts = {"person": new.pseudonym, "uses": list(wanted), "until": until.isoformat()}
            self._write(people, "consent_given", **facts)
        return new

    def withdraw_use(self, person: str, uses: Iterable[Use], at: date | None = None) -> Consenter:
        """Note that consent to `uses` is withdrawn; nothing is deleted by this. Raises InputError."""
        with locked(self.folder):
            self.people = _read(self.folder / PEOPLE)
            old = self.find(person)
            if old is None:
                raise InputError(f"{person} is not listed in {self.folder / PEOPLE}")
            day = at or date.today()
            ended = [use for use in uses if use in old.uses and old.uses[use].withdrawn is None]
            changed = {
                use: msgspec.structs.replace(old.uses[use], withdrawn=max(day, old.uses[use].given))
                for use in ended
            }
            new = msgspec.structs.replace(old, uses={**old.uses, **changed})
            if ended:
                others = tuple(new if one is old else one for one in self.people.people)
                people = msgspec.structs.replace(self.people, people=others)
                self._write(people, "consent_withdrawn", person=new.pseudonym, uses=ended)
        return new

    def forget(self, pseudonym: str, action: str, **facts: object) -> None:
        """Take a person out of the book, also as a witness of others; the audit record keeps the pseudonym.
        Harmless when repeated."""
        with locked(self.folder):
            self.people = _read(self.folder / PEOPLE)
            gone = [one for one in self.people.people if one.pseudonym == pseudonym]
            others = tuple(_unnamed(one, gone) for one in self.people.people if one not in gone)
            self._write(
                msgspec.structs.replace(self.people, people=others), action, person=pseudonym, **facts
            )

    def note_visit(
        self, key: str, *, delete_by: date | None = None, agreed: Agreed | None = None, at: date | None = None
    ) -> Visit:
        """Flag the episode `<session>/<episode>`: an unlisted person was present, or has agreed since."""
        with locked(self.folder):
            self.people = _read(self.folder / PEOPLE)
            old = self.visit(key)
            noted = old.noted if old else at or date.today()
            by = delete_by or (old.delete_by if old else noted + timedelta(days=self.people.visitor_days))
            kept = agreed or (old.agreed if old else None)
            new = Visit(episode=key, noted=noted, delete_by=by, agreed=kept)
            others = tuple(visit for visit in self.people.visits if visit.episode != key)
            people = msgspec.structs.replace(self.people, visits=(*others, new))
            self._write(people, "visitor_agreed" if agreed else "visitor_noted", until=by.isoformat())
        return new

    def drop_visits(self, keys: Iterable[str]) -> None:
        """Forget the visits of episodes that are no more."""
        gone = set(keys)
        with locked(self.folder):
            self.people = _read(self.folder / PEOPLE)
            kept = tuple(visit for visit in self.people.visits if visit.episode not in gone)
            if kept != self.people.visits:
                people = msgspec.structs.replace(self.people, visits=kept)
                self._write(people, "visits_dropped", count=len(self.people.visits) - len(kept))

    def record(self, action: str, **facts: object) -> None:
        """Append a line to the audit record; facts must not name a person."""
        with locked(self.folder):
            self.people = _read(self.folder / PEOPLE)
            self._write(self.people, action, **facts)

    def _write(self, people: People, action: str, **facts: object) -> None:
        """The audit line first: after a crash it may tell of a change that is not there, not the reverse.
        It says when people.yaml was changed by hand before, so that the next change does not hide that."""
        path = self.folder / PEOPLE
        plain = people_to_yaml(people)
        people_from_yaml(plain, str(path))  # what could not be read again is not written
        known = _head(self.people)
        if _by_hand(self.people, read_audit(self.folder / AUDIT)[0]):
            facts["by_hand"] = True
        head = append_audit(self.folder / AUDIT, action, known=known, people=content_hash(people), **facts)
        people = msgspec.structs.replace(people, audit=AuditHead(lines=head.lines, hash=head.hash))
        write_atomic(path, people_to_yaml(people).encode(), mode=0o600)
        self.people = people

    def check(self) -> list[str]:
        """Problems of the audit record and of the files' modes; empty: it is as it was written."""
        lines, problems = read_audit(self.folder / AUDIT)
        problems = problems or missing_from(lines, _head(self.people))
        if not problems and lines and not (self.folder / PEOPLE).exists():
            problems.append(f"{PEOPLE} is not there, and {AUDIT} has {len(lines)} lines")
        elif not problems and _by_hand(self.people, lines):
            problems.append(f"{PEOPLE} is not as {AUDIT} knows it; it was changed by hand")
        for name in (PEOPLE, AUDIT):
            path = self.folder / name
            if path.exists() and path.stat().st_mode & 0o077:
                problems.append(f"{path}: others may read it; chmod 600 {path}")
        return problems

    def audit_head(self) -> tuple[int, str]:
        """(number of lines, hash of the last one): write it down elsewhere to prove the record later."""
        head = head_of(read_audit(self.folder / AUDIT)[0])
        return head.lines, head.hash


def _read(path: Path) -> People:
    if not path.exists():
        return People()
    with storage_errors(path, "read"):
        data = path.read_bytes()
    try:
        return people_from_yaml(data.decode("utf-8"), str(path))
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not valid UTF-8: {error}") from None


def _head(people: People) -> Head:
    """The end of the audit record that people.yaml knows."""
    return Head(people.audit.lines, people.audit.hash) if people.audit else Head(0, FIRST)


def _by_hand(people: People, lines: list[dict[str, Any]]) -> bool:
    """Whether people.yaml is not what the line of the record that it was written with says. (A line more may
    follow: a crash came between the two.) Lines of before this was noted say nothing."""
    if people.audit is None:
        return bool(lines)
    if not 0 < people.audit.lines <= len(lines):
        return False
    return lines[people.audit.lines - 1].get("people", content_hash(people)) != content_hash(people)


def _unnamed(one: Consenter, gone: Iterable[Consenter]) -> Consenter:
    """A person's entry in which those who are gone stand as a witness under their pseudonym."""
    uses = dict(one.uses)
    for other in gone:
        for use, grant in uses.items():
            if grant.witness is not None and other.called(grant.witness):
                uses[use] = msgspec.structs.replace(grant, witness=other.pseudonym)
    return msgspec.structs.replace(one, uses=uses)


def _day(profile: Profile) -> date:
    try:
        return date.fromisoformat(profile.created_utc[:10])
    except ValueError:
        return date.min + timedelta(days=1)
