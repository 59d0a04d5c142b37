"""Text files of a release: JSON and tables, always the same bytes for the same content."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from recordings.storage import storage_errors, write_atomic


def write_text(path: Path, text: str) -> None:
    """Write a file, its folders too. Raises StorageError."""
    with storage_errors(path.parent, "create"):
        path.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(path, text.encode())


def write_json(path: Path, value: Any) -> None:
    """Write one JSON value, readable, in the order of its keys as they come. Raises StorageError."""
    write_text(path, json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False) + "\n")


def write_jsonl(path: Path, rows: Iterable[Any]) -> None:
    """Write one JSON object per line. Raises StorageError."""
    write_text(path, "".join(json.dumps(r, ensure_ascii=False, allow_nan=False) + "\n" for r in rows))


def table(rows: Iterable[Iterable[Any]], delimiter: str = ",", missing: str = "") -> str:
    """The text of a CSV or TSV table; None is written as `missing`, tabs and line breaks as spaces."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n", delimiter=delimiter)
    for row in rows:
        writer.writerow(
            missing if v is None else " ".join(v.split()) if isinstance(v, str) else v for v in row
        )
    return text.getvalue()
