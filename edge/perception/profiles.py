"""Who lives here, by face and voice: templates per person, and the question "who is this?" with the answer
"nobody I know".

A person is known when the best score reaches the model's limit *and* leads the second best by its margin:
everybody else, visitors above all, is unknown (open-set identification; Phillips, Grother and Micheals 2011,
"Evaluation methods in face recognition", have the words). Templates lie in `<data>/biometrics/`, by
`recordings.consent.biometrics`: without consent to biometrics there is none.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dsp.errors import InputError
from recordings.consent.biometrics import Biometrics, Kind
from recordings.consent.book import ConsentBook

F64 = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Measure:
    """How templates of one model are compared.

    model: its name and version; sha256: of its file. Templates of another model or file are not compared.
    metric: "cosine" (similarity of directions, -1 to 1) or "distance" (Euclidean, told as 1 - distance, so
    that more is always better). limit: least score of a known person. margin: least lead before the second.
    """

    kind: Kind
    model: str
    sha256: str
    metric: Literal["cosine", "distance"]
    limit: float
    margin: float = 0.0

    @property
    def name(self) -> str:
        """What stands in a template's file: the model and the beginning of its hash."""
        return f"{self.model} {self.sha256[:16]}"

    def score(self, templates: F64, vector: F64) -> float:
        """templates (n, d) of one person, vector (d,) -> score. Cosine: against the mean direction of the
        person's templates (as is usual for d-vectors); distance: to the nearest one."""
        if self.metric == "distance":
            return float(1 - np.linalg.norm(templates - vector, axis=1).min())
        mean = _units(templates).mean(axis=0)
        return float(_units(mean[None])[0] @ _units(vector[None])[0])


@dataclass(frozen=True, slots=True)
class Identity:
    """Who it is. person: None for somebody unknown. score: of the best candidate, whether known or not (-1
    when nobody is enrolled); limit: what it had to reach. candidates: (person, score), best first."""

    person: str | None
    score: float
    candidates: tuple[tuple[str, float], ...]
    limit: float

    @property
    def known(self) -> bool:
        """Whether it is somebody who is enrolled."""
        return self.person is not None

    def to_dict(self) -> dict[str, Any]:
        """Plain data, rounded, for traces."""
        return {
            "person": self.person,
            "known": self.known,
            "score": round(self.score, 4),
            "limit": self.limit,
            "candidates": [[person, round(score, 4)] for person, score in self.candidates],
        }


class ProfileBook:
    """The enrolled templates. `ProfileBook()` keeps them in memory only; `ProfileBook.open(data)` on disk."""

    def __init__(self, store: Biometrics | None = None) -> None:
        self._store = store
        self._templates: dict[tuple[str, Kind, str], list[F64]] = {}
        self._unusable: tuple[str, ...] = ()

    @classmethod
    def open(cls, folder: str | Path, *, virtual: bool = False) -> ProfileBook:
        """The book of the data folder `folder` (templates in `<folder>/biometrics/`).

        Who has not agreed to biometrics, or not any more, is left out: see `without_consent`. virtual: the
        people are those of the virtual room, nobody is asked. Raises InputError for a broken template, and
        when a virtual book is asked for where a consent book is.
        """
        book = cls(Biometrics(folder, virtual=virtual))
        book.reload()
        return book

    def reload(self) -> None:
        """Read the folder again: others enrol and withdraw while a rig runs."""
        if self._store is None:
            return
        refused = [] if self._store.virtual else [p.name for p in self._store.without_consent()]
        templates: dict[tuple[str, Kind, str], list[F64]] = {}
        folder = self._store.folder
        for person in sorted(p.name for p in folder.iterdir() if p.is_dir()) if folder.is_dir() else []:
            if person in refused:
                continue
            for one in self._store.of(person):
                key = (person, one.kind, one.model)
                templates.setdefault(key, []).append(one.vector.astype(np.float64))
        self._templates, self._unusable = templates, tuple(refused)

    @property
    def without_consent(self) -> tuple[str, ...]:
        """Persons whose templates lie there but may not be used."""
        return self._unusable

    def people(self, measure: Measure) -> tuple[str, ...]:
        """Who is enrolled for this model."""
        return tuple(
            sorted(person for person, kind, model in self._templates if (kind, model) == _key(measure))
        )

    def counts(self) -> dict[str, dict[Kind, int]]:
        """How many templates there are of each person: person -> kind -> number, of all models."""
        found: dict[str, dict[Kind, int]] = {}
        for (person, kind, _), templates in sorted(self._templates.items()):
            of = found.setdefault(person, {"face": 0, "voice": 0})
            of[kind] += len(templates)
        return found

    def enrol(self, person: str, measure: Measure, vectors: Iterable[ArrayLike]) -> None:
        """Add templates, each (d,), to what is known of a person; more pictures or sentences know better.

        Raises InputError without consent to biometrics, for vectors that are none or of another length.
        """
        fresh = [np.asarray(vector, np.float64) for vector in vectors]
        if not fresh:
            raise InputError(f"nothing to enrol {person} with: no {measure.kind} was found")
        known = next((t[0] for key, t in self._templates.items() if key[1:] == _key(measure)), fresh[0])
        for vector in fresh:
            if vector.ndim != 1 or vector.shape != known.shape or not np.isfinite(vector).all():
                raise InputError(f"a template of {measure.name} is a finite vector of {known.shape}")
        name = person
        if self._store is not None:
            for vector in fresh:
                name = self._store.put(person, measure.kind, vector, measure.name).parent.name
        self._templates.setdefault((name, *_key(measure)), []).extend(fresh)

    def delete(self, person: str) -> bool:
        """Forget a person's faces and voices, on disk too; whether there were any. Raises StorageError."""
        name = person
        if self._store is not None:
            listed = ConsentBook.open(self._store.data).find(person)
            name = person if listed is None else listed.person
        gone = [key for key in self._templates if key[0] == name]
        for key in gone:
            del self._templates[key]
        on_disk = self._store is not None and self._store.forget(person)
        return bool(gone) or on_disk

    def most_alike(self, measure: Measure) -> float | None:
        """The best score that a template of one person has against another person, None below two people:
        what a stranger may well reach who looks or sounds like somebody here."""
        sets = {key[0]: np.array(t) for key, t in self._templates.items() if key[1:] == _key(measure)}
        scores = [
            measure.score(others, template)
            for person, templates in sets.items()
            for other, others in sets.items()
            if other != person
            for template in templates
        ]
        return max(scores) if scores else None

    def identify(self, vector: ArrayLike, measure: Measure) -> Identity:
        """Who has this face or voice, vector (d,). Raises InputError for a vector of another length."""
        asked = np.asarray(vector, np.float64)
        scores = []
        for (person, kind, model), templates in self._templates.items():
            if (kind, model) != _key(measure):
                continue
            if asked.shape != templates[0].shape:
                raise InputError(f"a template of {measure.name} has {templates[0].shape}, not {asked.shape}")
            scores.append((person, measure.score(np.array(templates), asked)))
        ranked = tuple(sorted(scores, key=lambda item: -item[1]))
        if not ranked:
            return Identity(None, -1.0, (), measure.limit)
        best = ranked[0][1]
        lead = best - ranked[1][1] if len(ranked) > 1 else np.inf
        known = best >= measure.limit and lead >= measure.margin
        return Identity(ranked[0][0] if known else None, best, ranked, measure.limit)


def _key(measure: Measure) -> tuple[Kind, str]:
    return measure.kind, measure.name


def _units(vectors: F64) -> F64:
    return np.asarray(vectors / np.maximum(np.linalg.norm(vectors, axis=-1, keepdims=True), 1e-12))
