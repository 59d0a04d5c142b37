"""The folder in which keys live: own pairs, the list of those allowed, those revoked, and who came when.

    own/NAME.json      a pair made here, with its secret half: the rig's (at most one) or a client's
    allowed/NAME.json  a public key that is accepted: a client that may come to this rig, a rig to go to
    revoked/NAME.json  a public key that was taken off the list, so that it is named when it tries again
    seen.json          written by the running rig: when and from where each client was last let in

The folder is 0700 and every file 0600. A secret that others may read is refused, as is a list that others may
write. Files are written beside and moved into place, so a reader sees the old one or the new one.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import stat
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import msgspec

from dsp.errors import DeviceError, InputError
from edge.stream.keys import KEY_BYTES, KeyPair, Kind, PublicKey, new_pair, parse_key

_NAME = re.compile(r"^[A-Za-z0-9][A-Za-z0-9._-]{0,47}$")
_MAX_FILE_BYTES = 1 << 20


class _Entry(msgspec.Struct, kw_only=True):
    """One file of own/, allowed/ or revoked/."""

    hearth_key: int
    name: str
    public: str
    created_utc: str = ""
    secret: str | None = None  # hexadecimal; own pairs only
    hosts: tuple[str, ...] = ()  # of a rig: the addresses at which it is reached


class Seen(msgspec.Struct, kw_only=True):
    """When a client was last let in, and from which address."""

    utc: str
    address: str


@dataclass(frozen=True, slots=True)
class Listed:
    """A public key on a list. hosts: of a rig, where it is reached; empty: anywhere."""

    name: str
    public: PublicKey
    since_utc: str
    hosts: tuple[str, ...] = ()


def default_folder() -> Path:
    """`$HEARTH_KEYS`, else ~/.config/hearth/keys (`$XDG_CONFIG_HOME` is followed)."""
    if told := os.environ.get("HEARTH_KEYS"):
        return Path(told)
    base = os.environ.get("XDG_CONFIG_HOME")
    return (Path(base) if base else Path.home() / ".config") / "hearth" / "keys"


def utc_now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="seconds").replace("+00:00", "Z")


class KeysFolder:
    """Reads and changes one folder of keys; path: default `default_folder()`.

    Every method raises InputError for a wrong name, a key that is not there or a mode that is too loose, and
    DeviceError for a folder that cannot be read or written.
    """

    def __init__(self, path: str | Path | None = None) -> None:
        self.path = Path(path).expanduser() if path is not None else default_folder()

    # --- reading ---

    def own(self, kind: Kind) -> list[KeyPair]:
        """The pairs made here, by name. Refuses a secret that others than its owner can read."""
        pairs = []
        for file, entry in self._entries("own"):
            self._require_private(file)
            try:
                secret = bytes.fromhex(entry.secret or "")
            except ValueError:
                secret = b""
            public = parse_key(entry.public)
            if len(secret) != KEY_BYTES:
                raise InputError(f"{file} holds no secret key of {KEY_BYTES} bytes; make a new one")
            if public.kind == kind:
                pairs.append(KeyPair(entry.name, public, secret, entry.created_utc))
        return pairs

    def rig_key(self) -> KeyPair:
        """The rig's own pair. Raises InputError that says which command makes one."""
        pairs = self.own("rig")
        if not pairs:
            raise InputError(
                f"this rig has no key in {self.path}: `hearth keys make --rig` makes one, and "
                "`hearth keys allow NAME KEY` lets a client in"
            )
        return pairs[0]

    def allowed(self, kind: Kind) -> list[Listed]:
        """Who is accepted: clients by a rig, rigs by a client."""
        return self._listed("allowed", kind)

    def revoked(self, kind: Kind) -> list[Listed]:
        """Who was accepted once."""
        return self._listed("revoked", kind)

    def seen(self) -> dict[str, Seen]:
        """Fingerprint -> when it was last let in; empty when nobody ever was."""
        try:
            return msgspec.json.decode((self.path / "seen.json").read_bytes(), type=dict[str, Seen])
        except (OSError, msgspec.DecodeError, msgspec.ValidationError):
            return {}

    def stamp(self) -> tuple[object, ...]:
        """Changes when the list of allowed keys does; cheap enough to ask twice a second."""
        found: list[object] = []
        for part in ("allowed", "revoked"):
            with suppress(OSError), os.scandir(self.path / part) as entries:
                # ctime, because a change of mode counts too
                found += sorted((part, e.name, e.stat().st_ctime_ns, e.stat().st_ino) for e in entries)
        return tuple(found)

    # --- changing ---

    def make(self, name: str, kind: Kind) -> KeyPair:
        """Make a pair. Nothing is replaced: a name that is taken is an error."""
        _check_name(name)
        if kind == "rig" and (there := self.own("rig")):
            raise InputError(
                f"this rig has a key already: {there[0].name} ({there[0].public.fingerprint}). Every client "
                f"trusts that one; to replace it, delete {self._file('own', there[0].name)} first"
            )
        for folder in (self.path, self.path / "own"):
            if folder.exists():
                self._require((folder,), 0o077, "secret keys do not belong there")
        pair = new_pair(name, kind, utc_now())
        self._write(
            "own",
            name,
            {
                "hearth_key": 1,
                "name": name,
                "public": pair.public.word,
                "created_utc": pair.created_utc,
                "secret": pair.secret.hex(),
            },
            replace=False,
        )
        return pair

    def allow(self, name: str, word: str, hosts: tuple[str, ...] = ()) -> Listed:
        """Put a public key on the list. The same key under its old name is no error; another is."""
        _check_name(name)
        public = parse_key(word)
        if hosts and public.kind != "rig":
            raise InputError("a host is told of a rig, and this is the key of a client")
        for kind in ("client", "rig"):
            for known in self.allowed(kind):  # type: ignore[arg-type]
                if known.public == public and known.name != name:
                    raise InputError(f"this key is allowed already, as {known.name}; revoke that name first")
                if known.name == name and known.public != public:
                    raise InputError(
                        f"{name} is allowed with another key ({known.public.fingerprint}); "
                        f"`hearth keys revoke {name}` first, or choose another name"
                    )
        entry = {"hearth_key": 1, "name": name, "public": public.word, "created_utc": utc_now()}
        self._write("allowed", name, {**entry, "hosts": list(hosts)}, replace=True)
        for file, old in self._entries("revoked"):
            if old.public == public.word:
                file.unlink(missing_ok=True)
        return Listed(name, public, str(entry["created_utc"]), hosts)

    def revoke(self, name: str) -> Listed:
        """Take a key off the list. A running rig drops its connections within a second."""
        _check_name(name)
        everybody = [*self.allowed("client"), *self.allowed("rig")]
        found = next((listed for listed in everybody if listed.name == name), None)
        if found is None:
            names = ", ".join(listed.name for listed in everybody) or "nobody"
            raise InputError(f"{name!r} is not on the list of {self.path}; allowed: {names}")
        kept = {
            "hearth_key": 1,
            "name": name,
            "public": found.public.word,
            "created_utc": utc_now(),
        }
        self._file("allowed", name).unlink(missing_ok=True)  # first of all: what follows may fail
        self._write("revoked", f"{name}-{found.public.fingerprint[:4]}", kept, replace=True)
        return found

    def note_seen(self, seen: Mapping[str, Seen]) -> None:
        """Write down who was let in; keeps what is there of others."""
        everybody = {**self.seen(), **seen}
        newest = sorted(everybody.items(), key=lambda item: item[1].utc)[-1000:]
        text = msgspec.json.encode(dict(newest))
        self._put(self.path / "seen.json", text, replace=True)

    # --- files ---

    def _file(self, part: str, name: str) -> Path:
        return self.path / part / f"{name}.json"

    def _listed(self, part: str, kind: Kind) -> list[Listed]:
        found = []
        for file, entry in self._entries(part):
            self._require_unwritable(file)
            public = parse_key(entry.public)
            if public.kind == kind:
                found.append(Listed(entry.name, public, entry.created_utc, entry.hosts))
        return found

    def _entries(self, part: str) -> list[tuple[Path, _Entry]]:
        folder = self.path / part
        try:
            files = sorted(file for file in folder.iterdir() if file.suffix == ".json")
        except FileNotFoundError:
            return []
        except OSError as error:
            raise DeviceError(f"cannot read the keys in {folder}: {error}") from None
        found = []
        for file in files:
            try:
                if file.stat().st_size > _MAX_FILE_BYTES:
                    raise InputError(f"{file} is too large to be a key")
                found.append((file, msgspec.json.decode(file.read_bytes(), type=_Entry)))
            except FileNotFoundError:
                continue  # revoked just now
            except OSError as error:
                raise DeviceError(f"cannot read {file}: {error}") from None
            except (msgspec.DecodeError, UnicodeDecodeError) as error:
                raise InputError(f"{file} is not a key file: {error}") from None
        return found

    def _require_private(self, file: Path) -> None:
        why = "its secret key can be read or changed by others"
        self._require((file, file.parent, self.path), 0o077, why)

    def _require_unwritable(self, file: Path) -> None:
        self._require((file, file.parent, self.path), 0o022, "others can put keys on this list")

    def _require(self, paths: tuple[Path, ...], forbidden: int, why: str) -> None:
        """These must not be open to others, nor belong to them."""
        for path in paths:
            try:
                status = path.stat()
            except OSError as error:
                raise DeviceError(f"cannot read {path}: {error}") from None
            mode = stat.S_IMODE(status.st_mode)
            if mode & forbidden:
                wanted = "700" if path.is_dir() else "600"
                raise InputError(
                    f"{path} has mode {mode:04o}: {why}. `chmod {wanted} {path}`; make a new key if somebody "
                    "else may have seen it"
                )
            if status.st_uid not in (os.geteuid(), 0):
                raise InputError(
                    f"{path} belongs to user {status.st_uid} and not to the one who runs this; {why}"
                )

    def _write(self, part: str, name: str, entry: Mapping[str, Any], replace: bool) -> None:
        text = json.dumps(entry, indent=1).encode() + b"\n"
        self._put(self._file(part, name), text, replace)

    def _put(self, file: Path, text: bytes, replace: bool) -> None:
        beside = file.with_name(f".{file.name}.{secrets.token_hex(4)}")
        try:
            for folder in (self.path, file.parent):
                if not folder.exists():
                    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                    folder.chmod(0o700)
            try:
                descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
                with os.fdopen(descriptor, "wb") as out:
                    out.write(text)
                    out.flush()
                    os.fsync(out.fileno())
                if replace:
                    beside.replace(file)
                else:
                    os.link(beside, file)
                _sync(file.parent)
            finally:
                beside.unlink(missing_ok=True)
        except FileExistsError:
            raise InputError(
                f"there is a key of the name {file.stem!r} already ({file}); choose another name"
            ) from None
        except OSError as error:
            raise DeviceError(f"cannot write {file}: {error}") from None


def _check_name(name: str) -> None:
    if not _NAME.match(name):
        raise InputError(f"{name!r} is no name for a key: 1 to 48 letters, digits, dots, dashes, underscores")


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@dataclass(frozen=True, slots=True)
class ClientKeys:
    """What a client needs to reach rigs: its own pair, and the keys of the rigs that it trusts."""

    own: KeyPair
    rigs: tuple[Listed, ...]
    folder: Path

    @classmethod
    def load(cls, folder: str | Path | None = None, client: str | None = None) -> ClientKeys:
        """Read them from a folder (default `default_folder()`).

        client: name of the own pair; needed where there are several. Raises InputError that says which
        command is missing.
        """
        keys = KeysFolder(folder)
        pairs = [pair for pair in keys.own("client") if client in (None, pair.name)]
        if not pairs:
            name = f" {client}" if client else ""
            raise InputError(
                f"this client has no key{name} in {keys.path}: `hearth keys make {client or 'NAME'}` makes "
                "one, and prints what to enter on the rig"
            )
        if len(pairs) > 1:
            names = ", ".join(pair.name for pair in pairs)
            raise InputError(f"{keys.path} has several client keys ({names}); say which one to use")
        rigs = tuple(keys.allowed("rig"))
        if not rigs:
            raise InputError(
                f"this client knows no rig's key in {keys.path}: on the rig, `hearth keys show` prints "
                "`rig:...`; here, `hearth keys allow NAME rig:...` enters it"
            )
        return cls(pairs[0], rigs, keys.path)

    def rig_at(self, host: str) -> Listed:
        """The rig that is reached at a host. Raises InputError when that is not clear."""
        for rig in self.rigs:
            if host in rig.hosts:
                return rig
        anywhere = [rig for rig in self.rigs if not rig.hosts]
        if len(anywhere) == 1:
            return anywhere[0]
        known = ", ".join(f"{rig.name} ({', '.join(rig.hosts) or 'any host'})" for rig in self.rigs)
        raise InputError(
            f"which rig is at {host}? Known here: {known}. Tell it: "
            f"`hearth keys allow NAME rig:... --host {host}`"
        )
