"""A rig's lasting id: the one in rig.yaml, or a random one kept in a file beside its recordings."""

from __future__ import annotations

import contextlib
import logging
import os
import re
import secrets
from pathlib import Path

log = logging.getLogger(__name__)

FILE = "rig_id"
_FORM = re.compile(r"[a-z][a-z0-9_]{2,63}\Z")


def rig_id(chosen: str | None, folder: str | Path) -> tuple[str, bool]:
    """The id, and whether it lasts over restarts.

    chosen: `id` of rig.yaml; without one, the file `rig_id` in `folder` holds it, made at the first start.
    A folder that cannot be written gives an id for this run only.
    """
    if chosen is not None:
        return chosen, True
    path = Path(folder) / FILE
    for _ in range(2):
        with contextlib.suppress(OSError, UnicodeDecodeError):
            kept = path.read_text(encoding="ascii").strip()
            if _FORM.match(kept):
                return kept, True
            log.warning("%s holds no id of a rig; this run goes by a new one", path)
            return _made(), False
        if _write_first(path, _made()):
            continue  # what stands there now, ours or that of another process that was faster
    return _made(), False


def _made() -> str:
    return f"rig_{secrets.token_hex(6)}"


def _write_first(path: Path, text: str) -> bool:
    """Make the file whole or not at all, and never over one that is there; False where it cannot be."""
    part = path.with_name(f"{FILE}.{secrets.token_hex(4)}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        part.write_text(f"{text}\n", encoding="ascii")
        with contextlib.suppress(FileExistsError):
            os.link(part, path)
        return path.exists()
    except OSError as error:
        log.warning("%s: the rig's id cannot be kept: %s", path, error.strerror)
        return False
    finally:
        with contextlib.suppress(OSError):
            part.unlink()
