"""pseudonyms.json: the same person has the same pseudonym in every withdrawal, also after being forgotten.

It holds a random key and, for the names of those who withdrew, HMAC-SHA-256 (RFC 2104) of the name with the
pseudonym: no name. Mode 600, never deleted.
"""

from __future__ import annotations

import hmac
import json
import secrets
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from dsp.errors import InputError
from recordings.consent.audit import locked
from recordings.storage import storage_errors, write_atomic

PSEUDONYMS = "pseudonyms.json"


@dataclass
class Pseudonyms:
    """key: of the HMAC. known: digest of a name -> pseudonym."""

    path: Path
    key: bytes
    known: dict[str, str] = field(default_factory=dict)

    @classmethod
    def open(cls, consent_folder: Path) -> Pseudonyms:
        """With a new key, not written yet, where there is none. Raises InputError, StorageError."""
        path = consent_folder / PSEUDONYMS
        if not path.exists():
            return cls(path, secrets.token_bytes(32))
        with storage_errors(path, "read"):
            data = path.read_bytes()
        try:
            plain = json.loads(data)
            known = {str(digest): str(word) for digest, word in plain["known"].items()}
            return cls(path, bytes.fromhex(plain["key"]), known)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise InputError(f"{path}: is no list of pseudonyms: {error}") from None

    def _digest(self, name: str) -> str:
        return hmac.new(self.key, unicodedata.normalize("NFC", name).encode(), "sha256").hexdigest()

    def find(self, names: Iterable[str]) -> str | None:
        """What one of the names was called in an earlier withdrawal."""
        return next((self.known[d] for d in map(self._digest, sorted(names)) if d in self.known), None)

    def derived(self, name: str) -> str:
        """Of a name that is not listed: says nothing about it to whoever has not the key."""
        return f"p-{self._digest(name)[:12]}"

    def keep(self, names: Iterable[str] = (), pseudonym: str = "") -> None:
        """Write the key, and what these names are called from now on. Raises StorageError."""
        with locked(self.path.parent):
            if self.path.exists():
                there = Pseudonyms.open(self.path.parent)
                self.key, self.known = there.key, {**self.known, **there.known}
            known = dict(self.known)
            for name in names:
                known.setdefault(self._digest(name), pseudonym)
            if known == self.known and self.path.exists():
                return
            self.known = known
            plain = {"hearth_pseudonyms": 1, "key": self.key.hex(), "known": dict(sorted(known.items()))}
            write_atomic(self.path, (json.dumps(plain, indent=1) + "\n").encode(), mode=0o600)
