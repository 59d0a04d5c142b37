"""The console's process: `python -m edge.console`, started by `edge.console.ConsoleProcess`.

Reads one line of JSON on stdin and serves until stdin is closed, so it never outlives the rig.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import sys
import threading

import uvicorn

from edge.console.app import LONGEST_TEXT, make_app
from recordings.web.server import page_config

_NICE = 5  # sound and pictures go first


def main() -> None:
    """Serve until stdin is closed."""
    told = json.loads(sys.stdin.readline())
    with contextlib.suppress(OSError):
        os.nice(_NICE)
    more = {"ws_per_message_deflate": False}  # pictures are compressed already
    server = uvicorn.Server(page_config(make_app(told), LONGEST_TEXT, **more))

    def wait_for_the_end() -> None:
        sys.stdin.read()
        server.should_exit = True

    threading.Thread(target=wait_for_the_end, daemon=True).start()
    server.run(sockets=[socket.socket(fileno=told["fd"])])


if __name__ == "__main__":
    main()
