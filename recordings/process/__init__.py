"""One step over thousands of episodes, on one computer or many: idempotent, limited in time, restartable."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsp.lazy import lazy_package

if TYPE_CHECKING:
    from recordings.process.driver import Summary as Summary
    from recordings.process.driver import process as process
    from recordings.process.seat import Limits as Limits
    from recordings.process.step import STEPS as STEPS
    from recordings.process.step import Step as Step
    from recordings.process.step import find_step as find_step

_HOME = {
    "recordings.process.driver": ("Summary", "process"),
    "recordings.process.seat": ("Limits",),
    "recordings.process.step": ("STEPS", "Step", "find_step"),
}
__all__ = lazy_package(__name__, _HOME)
