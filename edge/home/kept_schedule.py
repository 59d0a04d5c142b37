"""The schedule of a real home on disk, so that what was promised for later outlives a restart of the rig."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

from dsp.errors import HearthError
from edge.home.errors import HomeError
from edge.home.workflow import Workflow, Workflows
from recordings.storage import write_atomic

log = logging.getLogger(__name__)

VERSION = 1
MOST_BYTES = 16 << 20


class KeptSchedule:
    """The workflows that are still to run, in one JSON file that is replaced as a whole.

    A file that cannot be written or read costs no command: it is logged, and the schedule lives on in memory.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._left: list[dict[str, Any]] = []  # of devices that are not there yet
        self._restoring = False

    def save(self, workflows: Workflows) -> None:
        """Write what is pending. Not while it is restored: what is not restored yet would be lost."""
        if self._restoring:
            return
        pending = [_plain(one, workflows) for one in workflows.all() if one.status == "pending"]
        text = json.dumps({"hearth_schedule": VERSION, "workflows": pending + self._left}, indent=1)
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            write_atomic(self._path, text.encode())
        except (OSError, HearthError) as error:
            log.error("the schedule of the home is not kept: %s", error)

    def restore(self, workflows: Workflows) -> None:
        """Schedule again what the file holds. What was due while the rig was off is failed and says so; what
        waits for a device that the home does not have yet is kept for `retry`."""
        self._left = self._read()
        if self._left:
            self.retry(workflows)

    def retry(self, workflows: Workflows) -> None:
        """Schedule what could not be restored before: a home that was away may have come back."""
        if not self._left or self._restoring:
            return
        self._restoring = True
        still = []
        try:
            for told in self._left:
                try:
                    workflows.restore(told)
                except HomeError as error:
                    if error.type.endswith("_NOT_FOUND"):
                        workflows.reserve(told.get("workflow_id"))
                        still.append(told)
                    else:
                        log.error("a workflow of %s is not restored: %s", self._path, error)
        finally:
            self._restoring = False
        if len(still) < len(self._left):
            self._left = still
            self.save(workflows)

    def _read(self) -> list[dict[str, Any]]:
        try:
            if not self._path.exists():
                return []
            if self._path.stat().st_size > MOST_BYTES:
                raise ValueError(f"{self._path.stat().st_size} bytes are more than a schedule can have")
            data = json.loads(self._path.read_text(encoding="utf-8"))
            if data["hearth_schedule"] != VERSION:
                raise ValueError(f"it is of version {data['hearth_schedule']!r}, not {VERSION}")
            found = data["workflows"]
            if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
                raise ValueError("`workflows` is no list of workflows")
            return found
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            log.error("%s: no schedule of a home: %s", self._path, error)
            return []


def _plain(workflow: Workflow, workflows: Workflows) -> dict[str, Any]:
    told = workflow.to_dict(workflows.timeline)
    kept = ("workflow_id", "start_time", "steps", "when")
    return {
        **{key: told[key] for key in kept if key in told},
        "continue_on_error": workflow.continue_on_error,
    }
