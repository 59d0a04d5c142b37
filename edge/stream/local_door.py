"""A way in for programs of the same user on the rig's own host, where the network needs keys.

`hearth live` starts helpers of its own (the console, the measuring subscriber). On a rig that asks for keys
they come through a Unix socket in a folder that only this user can enter, and need none.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import zmq

from edge.stream.addresses import bind

if TYPE_CHECKING:
    from edge.stream.access import Access


class LocalDoor:
    """The Unix socket beside `address`, when that one asks for keys; otherwise there is none.

    Bind it before the address itself: ZeroMQ's security settings count for what is bound after them.
    """

    def __init__(self, what: str, address: str, access: Access) -> None:
        self.address: str | None = None
        self._what = what
        self._folder: Path | None = None
        if access.key_for(address) is not None:
            base = os.environ.get("XDG_RUNTIME_DIR")
            inside = base if base and len(base) < 60 and os.access(base, os.W_OK) else None  # paths < 108
            self._folder = Path(tempfile.mkdtemp(prefix="hearth-", dir=inside))  # mode 0700
            self.address = f"ipc://{self._folder}/{what}"

    def bind(self, socket: zmq.Socket[bytes], suffix: str = "") -> None:
        """Bind a socket to it; nothing happens where there is none."""
        if self.address is not None:
            bind(socket, self.address + suffix, self._what)

    def close(self) -> None:
        """Remove it; safe to call twice."""
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
