"""What commands print: one JSON object or plain text on stdout; progress on stderr."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any


def plain(value: Any) -> Any:
    """`value` as JSON can hold it: numpy numbers and arrays, paths, tuples; NaN and infinity become null."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if hasattr(value, "tolist"):  # numpy scalars and arrays
        return plain(value.tolist())
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if value is None or isinstance(value, bool | int | float):
        return value
    return _encodable(str(value))


def _encodable(text: str) -> str:
    """Bytes of file names that are not UTF-8 become backslash escapes: stdout cannot take them."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def emit(result: Mapping[str, Any], as_json: bool, text: str | Sequence[str] | None = None) -> None:
    """Print `result` as one JSON object on stdout, or `text` (lines; default: its keys and values)."""
    if as_json:
        print(json.dumps(plain(result), ensure_ascii=False, allow_nan=False), flush=True)
        return
    if text is None:
        text = [f"{key}: {value}" for key, value in result.items()]
    print(_encodable(text if isinstance(text, str) else "\n".join(text)), flush=True)


def counted(number: int, noun: str) -> str:
    """ "1 episode", "2 episodes"; 0 is plural."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


@contextmanager
def progress(what: str, total: float | None = None) -> Iterator[Callable[[float], None]]:
    """A bar on stderr while the body runs; gives a function that advances it. Silent without a terminal."""
    if not sys.stderr.isatty():
        yield lambda amount: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=total)
        yield lambda amount: bar.advance(task, amount)
