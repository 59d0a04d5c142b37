"""Every step of an agent as one JSON line, so that a run can be read, compared and scored later."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from types import TracebackType
from typing import Any, TextIO

import numpy as np

from capture.blocks import monotonic_ns
from dsp.errors import InputError


class Trace:
    """Writes {"step": n, "t_ns": CLOCK_MONOTONIC, "kind": ..., ...} lines; without a path it only counts.

    Raises InputError when the file cannot be written.
    """

    def __init__(self, path: str | Path | None = None) -> None:
        self._file: TextIO | None = None
        self._lock = threading.Lock()
        self.steps = 0
        if path is not None:
            try:
                self._file = Path(path).open("w", encoding="utf-8")  # noqa: SIM115 - closed by `close`
            except OSError as error:
                raise InputError(f"{path}: cannot write the trace: {error.strerror}") from None

    def add(self, kind: str, **data: Any) -> None:
        """One step. Safe in several threads."""
        with self._lock:
            line = {"step": self.steps, "t_ns": monotonic_ns(), "kind": kind, **data}
            self.steps += 1
            if self._file is not None and not self._file.closed:
                self._file.write(json.dumps(line, ensure_ascii=False, default=_plain) + "\n")
                self._file.flush()

    def close(self) -> None:
        """Close the file; safe to call twice."""
        if self._file is not None:
            self._file.close()

    def __enter__(self) -> Trace:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return value.tolist()
    return str(value)
