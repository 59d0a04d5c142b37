"""Another host to talk to: a network namespace at the other end of a virtual cable."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import subprocess
from collections.abc import Iterator

import pytest


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True)


@contextlib.contextmanager
def cable_to(here_address: str, there_address: str) -> Iterator[tuple[str, str]]:
    """A namespace that has only a cable to this one, and this side's end of it. Skips without root."""
    if os.geteuid() != 0 or shutil.which("ip") is None:
        pytest.skip("a network namespace needs root and iproute2")
    name = f"hearth{secrets.token_hex(3)}"
    here, there = f"h{name[6:]}a", f"h{name[6:]}b"
    try:
        ip("netns", "add", name)
        ip("link", "add", here, "type", "veth", "peer", "name", there, "netns", name)
        ip("addr", "add", f"{here_address}/24", "dev", here)
        ip("link", "set", here, "up")
        ip("-n", name, "addr", "add", f"{there_address}/24", "dev", there)
        ip("-n", name, "link", "set", there, "up")
        ip("-n", name, "link", "set", "lo", "up")
    except subprocess.CalledProcessError as error:
        subprocess.run(["ip", "netns", "del", name], capture_output=True)
        pytest.skip(f"no network namespace can be made here: {error.stderr.strip()}")
    try:
        yield name, here
    finally:
        ip("netns", "del", name)  # the cable goes with it
