"""What all tests share: where the real files to test against are."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder with real recordings; a test that needs it skips, saying so, when it is absent."""
    folder = Path(os.environ.get("HEARTH_SHARED_DATA", REPOSITORY.parent / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip("the real recordings are not on this machine (set HEARTH_SHARED_DATA to their folder)")
    return folder


@pytest.fixture(autouse=True)
def logs_end_with_their_test() -> Iterator[None]:
    """A command that set up its logs wrote them to the stderr of its test, which is closed afterwards."""
    root = logging.getLogger()
    before, level = list(root.handlers), root.level
    yield
    for handler in [h for h in root.handlers if h not in before and getattr(h, "hearth", False)]:
        root.removeHandler(handler)
    root.setLevel(level)
