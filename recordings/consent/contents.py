"""What has to become of one file: kept, deleted, rewritten without what goes, or made anew."""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import json
import lzma
import re
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import IO, Any, Literal, cast

import yaml

from dsp.errors import InputError
from recordings.consent.forms import HEAD_BYTES, Form, form_of, text_of
from recordings.consent.survey import OPAQUE
from recordings.consent.traces import AnchorSearch, Traces, words
from recordings.storage import storage_errors
from recordings.yaml_text import load_yaml

Action = Literal["keep", "delete", "rewrite", "remake", "mark"]
TREES = {".json", ".yaml", ".yml"}
TABLES = {".csv", ".tsv"}
PAGES = {".html", ".htm", ".md", ".svg", ".js", ".css", ".tex", ".xml", ".rst"}
TARS = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz")
ZIPS = (".zip", ".npz")
MOST_TEXT = 256 << 20
MOST_UNPACKED = 8 << 30
_DEPTH = 3  # archives within archives


@dataclass(frozen=True)
class Verdict:
    """action: "remake": it holds other people's data too and cannot be rewritten. "mark": its numbers are of
    episodes that go too, and it stays until the release is made again. data: the new content of a text. Of an
    archive, drop: members that leave it; swap: new content of members; renewed: the hashes of those, before
    and after."""

    action: Action = "keep"
    why: str = ""
    data: bytes | None = None
    drop: frozenset[str] = frozenset()
    swap: dict[str, bytes] = field(default_factory=dict)
    renewed: dict[str, str] = field(default_factory=dict)


KEEP = Verdict()


class Look:
    """Looks into files with one set of traces. `refs`: further words that stand for what goes in the files
    looked at (ids of the session, items and outputs of a release). drop_named: a row that names the person
    goes as a whole, else the name is replaced by the pseudonym. names_only: nothing but names is searched in
    text (another person's episode, a plan). known: hashes of what is somebody else's."""

    def __init__(
        self,
        traces: Traces,
        search: AnchorSearch,
        refs: Iterable[str] = (),
        *,
        drop_named: bool = False,
        names_only: bool = False,
        known: frozenset[str] = frozenset(),
    ) -> None:
        self.traces, self.search, self.known = traces, search, known
        self.unplaced = 0  # sound, pictures, packed tables so far, also in archives, that are not `known`
        self._drop_named, self._names_only = drop_named, names_only
        self._names = traces.name_pattern()
        every = {*refs, *traces.episodes, *traces.ids}
        self._refs = None if names_only else words(every)
        self._phrases = None if names_only else words(traces.phrases, inside=r"\w")

    # ------------------------------------------------------------------ one file

    def file(self, path: Path) -> Verdict:
        """What has to become of a file. Raises StorageError, InputError when it cannot be looked into."""
        with storage_errors(path, "read"), open(path, "rb") as stream:
            return self.stream(path.name, stream)

    def stream(self, name: str, stream: IO[bytes], depth: int = 0) -> Verdict:
        """As `file`, of an open, seekable stream."""
        digest, anchors, size = self.search.read(stream)
        if digest in self.traces.hashes:
            return Verdict("delete", "is a file of an episode that goes, by its hash")
        stream.seek(0)
        lower = name.lower()
        head = stream.read(HEAD_BYTES)
        stream.seek(0)
        form = form_of(head)
        if form == "packed" and not lower.endswith(TARS) and not _is_tar(stream):
            return self._packed(name, stream, digest, depth)
        if form in ("tar", "packed") or lower.endswith(TARS):
            return self._tar(name, stream, depth)
        if form == "zip" or lower.endswith(ZIPS):
            return self._zip(name, stream, depth)
        if anchors:
            return Verdict("remake", f"holds bytes of an episode that goes ({len(anchors)} places)")
        read = None
        if form == "" and size <= MOST_TEXT and (Path(lower).suffix not in OPAQUE or b"\0" not in head):
            read = text_of(stream.read())
            stream.seek(0)
        self.unplaced += (read is None or Path(lower).suffix in OPAQUE) and digest not in self.known
        if read is None:
            return self._binary(stream, form)
        text, encoding = read
        verdict = self._content(name, text)
        if verdict.data is None or encoding == "utf-8":
            return verdict
        try:
            return replace(verdict, data=verdict.data.decode().encode(encoding))
        except UnicodeEncodeError:
            return Verdict("remake", "names an episode that goes, or the person")

    def _content(self, name: str, text: str) -> Verdict:
        suffix = Path(name).suffix.lower()
        if not self._concerns(text):
            return KEEP
        if suffix in TREES:
            return self._tree(text, suffix)
        if suffix in PAGES:
            if self.about(text):
                return Verdict("remake", "is a page about an episode that goes")
            return Verdict("rewrite", "names the person", self._renamed(text).encode())
        return self._lines(text, suffix)

    # ------------------------------------------------------------------ texts

    def about(self, text: str) -> bool:
        """Whether text stands for something that goes."""
        if self._names_only:
            return False
        found = any(pattern.search(text) for pattern in (self._refs, self._phrases) if pattern)
        return found or self.traces.names_a_hash(text.encode())

    def _named(self, text: str) -> bool:
        return self._names is not None and self._names.search(text) is not None

    def _concerns(self, text: str) -> bool:
        return self._named(text) or self.about(text)

    def _gone(self, text: str) -> bool:
        """Whether a value stands for something that goes, or (drop_named) is the person, in
        BIDS `sub-<person>`."""
        return self.about(text) or (
            self._drop_named
            and text.strip().casefold().removeprefix("sub-") in {n.casefold() for n in self.traces.names}
        )

    def _renamed(self, text: str) -> str:
        return text if self._names is None else self._names.sub(self.traces.pseudonym, text)

    def _lines(self, text: str, suffix: str) -> Verdict:
        """Tables and logs: a record is a line, or several while a quotation mark of a CSV is open."""
        records, waiting = [], ""
        for line in text.splitlines(keepends=True):
            waiting += line
            if suffix not in TABLES or waiting.count('"') % 2 == 0:
                records.append(waiting)
                waiting = ""
        records.append(waiting)
        kept = [self._record(record, suffix) if self._concerns(record) else record for record in records]
        data = "".join(kept)
        if not data.strip():
            return Verdict("delete", "is about an episode that goes, all of it")
        return Verdict("rewrite", "has lines about an episode that goes, or the person", data.encode())

    def _record(self, record: str, suffix: str) -> str:
        """What stays of one record; "" for nothing."""
        if record.lstrip().startswith(("{", "[")):
            try:
                tree = json.loads(record)
                gone, kept = self._pruned(tree)
                if not gone and kept != tree:
                    record = json.dumps(kept, ensure_ascii=False) + "\n"
                return "" if gone else self._renamed(record)
            except ValueError:
                pass
        if suffix in TABLES:
            delimiter = "\t" if "\t" in record else ","
            cells = next(csv.reader([record.rstrip("\r\n")], delimiter=delimiter), [])
            if any(self._gone(cell) for cell in cells):
                return ""
        return "" if self.about(record) else self._renamed(record)

    def _tree(self, text: str, suffix: str) -> Verdict:
        try:
            tree = json.loads(text) if suffix == ".json" else load_yaml(text)
        except (ValueError, yaml.YAMLError):
            return self._lines(text, suffix)
        if isinstance(tree, dict) and "hearth_plan" in tree:
            tree = self._without_notes(tree)  # the items stay: somebody else may be cast
        else:
            gone, tree = self._pruned(tree)
            if gone:
                return Verdict("delete", "is about an episode that goes, all of it")
        if suffix == ".json":
            second = re.search(r"\n( +)\S", text)
            dumped = json.dumps(tree, ensure_ascii=False, indent=len(second.group(1)) if second else None)
            dumped += "\n" if text.endswith("\n") else ""
        else:
            dumped = yaml.safe_dump(tree, sort_keys=False, allow_unicode=True, width=110)
        return Verdict("rewrite", "has entries about an episode that goes", self._renamed(dumped).encode())

    def _pruned(self, node: Any) -> tuple[bool, Any]:
        """(whether the whole node goes, the node without what goes). A mapping one of whose values stands
        for something that goes is about it and goes with it, up to the list or the table of mappings that it
        is an entry of."""
        if isinstance(node, str):
            return self._gone(node), node
        if isinstance(node, list):
            pairs = [self._pruned(item) for item in node]
            return False, [item for gone, item in pairs if not gone]
        if isinstance(node, dict):
            node = self._without_note(node)
            table = len(node) > 1 and all(isinstance(value, dict) for value in node.values())
            kept: dict[Any, Any] = {}
            for key, value in node.items():
                if isinstance(key, str) and self._gone(key):
                    continue
                gone, value = self._pruned(value)
                if gone and not table:
                    return True, node
                if not gone:
                    kept[key] = value
            return bool(node) and not kept, kept
        return False, node

    def _without_note(self, node: dict[Any, Any]) -> dict[Any, Any]:
        """A household member or participant who goes keeps the place, under the pseudonym, not the note."""
        if node.get("id") in self.traces.names and "note" in node:
            return {**node, "note": None}
        return node

    def _without_notes(self, node: Any) -> Any:
        if isinstance(node, list):
            return [self._without_notes(item) for item in node]
        if isinstance(node, dict):
            return {key: self._without_notes(value) for key, value in self._without_note(node).items()}
        return node

    def _binary(self, stream: IO[bytes], form: Form) -> Verdict:
        """Databases, models, caches: hashes as text or raw, ids, and names that are long enough to mean
        something between other bytes: three letters in a database, five in what looks like noise."""
        if self._names_only:
            return KEEP
        sought = {text.encode() for text in (*self.traces.episodes, *self.traces.hashes)}
        sought |= {bytes.fromhex(digest) for digest in self.traces.hashes}
        least = 3 if form == "database" else 5  # in noise, short names stand by chance
        long = [name for name in self.traces.names if len(name.encode()) >= least]
        cases = {text for name in long for text in (name, name.lower(), name.upper())}
        names = {text.encode(code) for text in cases for code in ("utf-8", "utf-16-le")}
        sought |= {json.dumps(name, ensure_ascii=False).encode() for name in self.traces.names}
        if not sought and not names:
            return KEEP
        anywhere, called = (b"|".join(map(re.escape, sorted(t, key=len)[::-1])) for t in (sought, names))
        forms = ([anywhere] if sought else []) + (
            [b"(?<![A-Za-z0-9])(?:" + called + b")(?![A-Za-z0-9])"] if names else []
        )
        pattern = re.compile(b"|".join(forms))
        longest = max(map(len, sought | names)) + 1
        tail = b""
        while block := stream.read(1 << 22):
            if pattern.search(tail + block):
                return Verdict("remake", "names an episode that goes, or the person")
            tail = block[-longest:]
        return KEEP

    # ------------------------------------------------------------------ archives

    def _packed(self, name: str, stream: IO[bytes], digest: str, depth: int) -> Verdict:
        """One file that is compressed by itself; what cannot be kept is deleted, a text is packed again."""
        if depth >= _DEPTH:
            raise InputError(f"{name}: archives within archives, more than {_DEPTH} deep")
        with tempfile.SpooledTemporaryFile(max_size=64 << 20) as inner:
            try:
                with unpacked(stream) as source:
                    while block := source.read(1 << 20):
                        inner.write(block)
                        if inner.tell() > MOST_UNPACKED:
                            raise InputError(f"{name}: more than {MOST_UNPACKED} bytes when unpacked")
            except (OSError, EOFError, lzma.LZMAError, zlib.error) as error:
                raise InputError(f"{name}: cannot be unpacked: {error}") from None
            inner.seek(0)
            before = self.unplaced
            verdict = self.stream(Path(name).stem, inner, depth + 1)
        if digest in self.known:
            self.unplaced = before
        if verdict.data is not None:
            stream.seek(0)
            return replace(verdict, data=packed(verdict.data, stream.read(2)))
        if verdict.drop or verdict.swap:
            return Verdict("remake", "holds an archive with members that go")
        return verdict

    def _tar(self, name: str, stream: IO[bytes], depth: int) -> Verdict:
        try:
            with tarfile.open(fileobj=stream) as archive:
                members = [m for m in archive.getmembers() if m.isfile()]
                opened = ((m.name, archive.extractfile(m)) for m in members)
                return self._members(name, ((n, io.BytesIO(f.read())) for n, f in opened if f), depth)
        except (tarfile.TarError, EOFError, OSError) as error:
            raise InputError(f"{name}: cannot be read as a tar archive: {error}") from None

    def _zip(self, name: str, stream: IO[bytes], depth: int) -> Verdict:
        try:
            with zipfile.ZipFile(stream) as archive:
                names = [info.filename for info in archive.infolist() if not info.is_dir()]
                return self._members(name, ((n, io.BytesIO(archive.read(n))) for n in names), depth)
        except (zipfile.BadZipFile, RuntimeError, NotImplementedError, OSError) as error:
            raise InputError(f"{name}: cannot be read as a zip archive: {error}") from None

    def _members(self, name: str, members: Iterable[tuple[str, IO[bytes]]], depth: int) -> Verdict:
        if depth >= _DEPTH:
            raise InputError(f"{name}: archives within archives, more than {_DEPTH} deep")
        drop: set[str] = set()
        every: list[str] = []
        swap: dict[str, bytes] = {}
        renewed: dict[str, str] = {}
        for member, stream in members:
            every.append(member)
            verdict = self.stream(member, stream, depth + 1)
            if self.traces.in_file_name(member) or self.about(member):
                drop.add(member)
            elif verdict.data is not None:
                stream.seek(0)
                swap[member] = verdict.data
                renewed[sha256(stream.read()).hexdigest()] = sha256(verdict.data).hexdigest()
            elif verdict.action != "keep":
                drop.add(member)
        if not drop and not swap:
            return KEEP
        if not {"[Content_Types].xml", "mimetype"}.isdisjoint(every):  # without a part it would not open
            return Verdict("remake", "is a document about an episode that goes, or the person")
        keys = {sample_key(member) for member in drop}
        drop = {member for member in every if sample_key(member) in keys}
        if drop == set(every):
            return Verdict("delete", "is about an episode that goes, all of it")
        why = f"has {len(drop)} members that go, and {len(swap)} that name the person"
        return Verdict("rewrite", why, drop=frozenset(drop), swap=swap, renewed=renewed)


def _is_tar(stream: IO[bytes]) -> bool:
    """Whether a compressed file is a tar archive."""
    try:
        with unpacked(stream) as inner:
            return form_of(inner.read(HEAD_BYTES)) == "tar"
    except (OSError, EOFError, lzma.LZMAError, zlib.error):
        return False
    finally:
        stream.seek(0)


def unpacked(stream: IO[bytes]) -> IO[bytes]:
    """The content of a gzip, bzip2 or xz file, by its first bytes."""
    stream.seek(0)
    start = stream.read(2)
    stream.seek(0)
    opened = gzip.open if start == b"\x1f\x8b" else bz2.open if start == b"BZ" else lzma.open
    return cast("IO[bytes]", opened(stream, "rb"))


def packed(data: bytes, start: bytes) -> bytes:
    """Data compressed in the form that begins with these two bytes."""
    if start == b"\x1f\x8b":
        return gzip.compress(data, mtime=0)
    return bz2.compress(data) if start == b"BZ" else lzma.compress(data)


def sample_key(member: str) -> str:
    """What the files of one WebDataset sample share: the path up to the first dot of the file's name."""
    folder, _, base = member.rpartition("/")
    return f"{folder}/{base.partition('.')[0]}"


def repack(path: Path, target: Path, verdict: Verdict) -> None:
    """Copy an archive without the members that leave it and with the new content of others; the rest as it
    was. Raises StorageError."""
    drop, swap = verdict.drop, verdict.swap
    with storage_errors(target):
        with open(path, "rb") as file:
            head = file.read(HEAD_BYTES)
        form = form_of(head)
        if form == "zip" or path.name.lower().endswith(ZIPS):
            with zipfile.ZipFile(path) as old, zipfile.ZipFile(target, "w") as new:
                for info in old.infolist():
                    if info.filename not in drop:
                        data = swap.get(info.filename)
                        new.writestr(info, old.read(info) if data is None else data, info.compress_type)
            return
        packing = {b"\x1f\x8b": "gz", b"BZ": "bz2", b"\xfd7": "xz"}[head[:2]] if form == "packed" else ""
        mode: Any = f"w:{packing}" if packing else "w"
        with tarfile.open(path) as old_tar:
            layout = tarfile.PAX_FORMAT if old_tar.pax_headers else tarfile.GNU_FORMAT
            with tarfile.open(target, mode, format=layout) as new_tar:
                for member in old_tar:
                    if member.name in drop:
                        continue
                    content: IO[bytes] | None = old_tar.extractfile(member) if member.isfile() else None
                    if member.name in swap:
                        content = io.BytesIO(swap[member.name])
                        member.size = len(swap[member.name])
                    new_tar.addfile(member, content)
