"""Templates of faces and voices, kept apart: `<data>/biometrics/<person>/`, never in an episode or an export.

Whoever has not agreed to biometrics has none. A template is a short vector that recognises a person; the
folder is mode 700, the files 600, and deleting it is all that it takes to forget.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dsp.errors import InputError
from recordings.consent.book import ConsentBook
from recordings.consent.survey import BIOMETRICS
from recordings.storage import storage_errors, utc_now, write_atomic

Kind = Literal["face", "voice"]
_MOST = 65536  # numbers of one template


@dataclass(frozen=True)
class Template:
    """One template: float32 (n,), made by `model` (name and version: others cannot compare it)."""

    person: str
    kind: Kind
    model: str
    made_utc: str
    vector: NDArray[np.float32]


class Biometrics:
    """The templates of a data folder. Every access asks the consent book first.

    virtual: nobody real is in this folder (people of the virtual room), and nobody is asked. Raises
    InputError for such a folder when a consent book is in it: that one has real people.
    """

    def __init__(self, data_folder: str | Path, *, virtual: bool = False) -> None:
        self.data = Path(data_folder)
        self.folder = self.data / BIOMETRICS
        self.virtual = virtual
        if virtual and ConsentBook.open(self.data).people.people:
            raise InputError(f"{self.data}: has a consent book of real people; keep virtual ones elsewhere")

    def _of(self, person: str, at: date | None) -> Path:
        if self.virtual:
            if Path(person).name != person or person.startswith("."):
                raise InputError(f"{person!r} is no name of a person")
            return self.folder / person
        book = ConsentBook.open(self.data)
        answer = book.may(person, "biometrics", at)
        if not answer:
            raise InputError(f"no biometrics: {answer.why}")
        found = book.find(person)
        assert found is not None
        return self.folder / found.person

    def put(self, person: str, kind: Kind, vector: ArrayLike, model: str, *, at: date | None = None) -> Path:
        """Keep a template, vector (n,); gives its file. Raises InputError without consent to biometrics on
        that day, for a kind or vector that is none, StorageError."""
        if kind not in get_args(Kind):
            raise InputError(f"a template is of a face or a voice, not {kind!r}")
        numbers = np.asarray(vector, np.float32)
        if numbers.ndim != 1 or not 1 <= numbers.size <= _MOST or not np.isfinite(numbers).all():
            raise InputError(f"a template is a vector of 1 to {_MOST} finite numbers, not {numbers.shape}")
        folder = self._of(person, at)
        with storage_errors(folder):
            folder.mkdir(parents=True, exist_ok=True)
            for one in (self.folder, folder):
                os.chmod(one, 0o700)
        count = len(list(folder.glob(f"{kind}-*.json")))
        path = folder / f"{kind}-{count + 1:04d}.json"
        content = {"hearth_template": 1, "kind": kind, "model": model, "made_utc": utc_now()}
        write_atomic(path, json.dumps({**content, "vector": numbers.tolist()}).encode(), mode=0o600)
        return path

    def of(self, person: str, kind: Kind | None = None, *, at: date | None = None) -> Iterator[Template]:
        """The templates of a person, by file name. Raises InputError without consent, for a broken file."""
        folder = self._of(person, at)
        for path in sorted(folder.glob("*.json")) if folder.is_dir() else []:
            try:
                content = json.loads(path.read_text(encoding="utf-8"))
                if kind in (None, content["kind"]):
                    vector = np.array(content["vector"], np.float32)
                    yield Template(
                        folder.name, content["kind"], content["model"], content["made_utc"], vector
                    )
            except (OSError, ValueError, KeyError, TypeError) as error:
                raise InputError(f"{path}: is no template: {error}") from None

    def forget(self, person: str) -> bool:
        """Delete a person's templates, consent or not; whether there were any. Raises StorageError."""
        found = ConsentBook.open(self.data).find(person)
        folder = self.folder / (found.person if found else Path(person).name)
        if not folder.is_dir() or folder == self.folder:
            return False
        with storage_errors(folder, "delete"):
            shutil.rmtree(folder)
        return True

    def without_consent(self, at: date | None = None) -> list[Path]:
        """Folders of persons who have not agreed, or not any more; `hearth consent due` lists them."""
        if not self.folder.is_dir():
            return []
        book = ConsentBook.open(self.data)
        folders = sorted(path for path in self.folder.iterdir() if path.is_dir())
        return [folder for folder in folders if not book.may(folder.name, "biometrics", at)]
