"""Logs on stderr: lines for people, lines with a priority for the journal, or one JSON object per line."""

from __future__ import annotations

import contextlib
import json
import logging
import math
import os
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, Literal, TextIO

from dsp.errors import HearthError, InputError

log = logging.getLogger(__name__)

Form = Literal["auto", "human", "journal", "json"]
FORMS: tuple[Form, ...] = ("auto", "human", "journal", "json")
LEVELS = ("debug", "info", "warning", "error")
OURS = ("capture", "calibration", "dsp", "edge", "hearth", "recordings")
# sd-daemon(3): what the journal takes as the priority of a line
_PRIORITY = ((logging.CRITICAL, 2), (logging.ERROR, 3), (logging.WARNING, 4), (logging.INFO, 6))


def set_up(form: str = "auto", level: str = "info", stream: TextIO | None = None) -> Form:
    """Send the logs of this process to stderr in that form; returns the form that `auto` came to: `journal`
    when stderr goes into the journal, else `human`. May be called again. Raises InputError.

    level is for Hearth's own logs; those of others are shown from warnings on.
    """
    if form not in FORMS:
        raise InputError(f"the form of logs is one of {', '.join(FORMS)}, not {form!r}")
    out = stream or sys.stderr
    chosen: Form = form if form != "auto" else ("journal" if _is_journal(out) else "human")  # type: ignore[assignment]
    handler = logging.StreamHandler(out)
    handler.setFormatter({"human": _Human, "journal": _Journal, "json": _Json}[chosen]())
    root = logging.getLogger()
    for old in [h for h in root.handlers if getattr(h, "hearth", False)]:
        root.removeHandler(old)
    handler.hearth = True  # type: ignore[attr-defined]
    root.addHandler(handler)
    root.setLevel(logging.WARNING)
    set_level(level)
    return chosen


def set_level(level: str) -> None:
    """From which level on Hearth's own logs are shown. Raises InputError."""
    if level not in LEVELS:
        raise InputError(f"the level of logs is one of {', '.join(LEVELS)}, not {level!r}")
    for name in OURS:
        logging.getLogger(name).setLevel(level.upper())


def fields(**values: Any) -> dict[str, Any]:
    """For a log call: `log.info("gap", extra=fields(lost_frames=480))`."""
    return {"fields": values}


def sayer(form: Form) -> Callable[[str], None]:
    """How a service tells its user something on stderr: plainly, or as a log line like all others."""
    if form == "human":
        return lambda text: print(text, file=sys.stderr, flush=True)
    return log.info


@contextlib.contextmanager
def errors_in(form: Form) -> Iterator[None]:
    """The error that ends a service, in the form of its other lines."""
    try:
        yield
    except HearthError as error:
        if form == "human":
            raise  # the front door prints it
        log.error("%s", error, extra=fields(error=type(error).__name__))
        raise SystemExit(error.exit_code) from None


def _is_journal(stream: TextIO) -> bool:
    """systemd tells device and inode of the socket that it made stderr."""
    try:
        about = os.fstat(stream.fileno())
    except (OSError, ValueError, AttributeError):
        return False
    return os.environ.get("JOURNAL_STREAM") == f"{about.st_dev}:{about.st_ino}"


def _fields_of(record: logging.LogRecord) -> dict[str, Any]:
    given = getattr(record, "fields", None)
    return given if isinstance(given, dict) else {}


class _Human(logging.Formatter):
    """`18:20:31 warning edge.live: text (name=value)`, local time."""

    def format(self, record: logging.LogRecord) -> str:
        clock = time.strftime("%H:%M:%S", time.localtime(record.created))
        return f"{clock} {_text(record, self)}"


class _Journal(logging.Formatter):
    """`<4>edge.live: text`, each line with its priority; the journal knows the time."""

    def format(self, record: logging.LogRecord) -> str:
        priority = next((number for level, number in _PRIORITY if record.levelno >= level), 7)
        text = _text(record, self)
        return "\n".join(f"<{priority}>{line}" for line in text.splitlines() or [""])


class _Json(logging.Formatter):
    """time (UTC), level, component, message, fields (absent when there are none), exception (likewise)."""

    def format(self, record: logging.LogRecord) -> str:
        seconds = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        told: dict[str, Any] = {
            "time": f"{seconds}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "component": record.name,
            "message": record.getMessage(),
        }
        if found := _fields_of(record):
            told["fields"] = _plain(found)
        if record.exc_info:
            told["exception"] = self.formatException(record.exc_info)
        return json.dumps(told, ensure_ascii=False, default=str, allow_nan=False)


def _plain(value: Any) -> Any:
    """NaN and infinity are no JSON."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def _text(record: logging.LogRecord, formatter: logging.Formatter) -> str:
    told = f"{record.levelname.lower()} {record.name}: {record.getMessage()}"
    if found := _fields_of(record):
        told += " (" + ", ".join(f"{name}={value}" for name, value in found.items()) + ")"
    if record.exc_info:
        told += "\n" + formatter.formatException(record.exc_info)
    return told
