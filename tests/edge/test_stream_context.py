"""A client that was forgotten must not bring the process to a stand."""

from __future__ import annotations

import subprocess
import sys

FORGET = """
import gc
from edge.stream.context import Context
import zmq

gc.disable()

class Forgotten:
    def __init__(self):
        self.context = Context()
        self.socket = self.context.socket(zmq.REQ)
        self.socket.connect("tcp://127.0.0.1:9")
        self.socket.send(b"never read")
        self.itself = self

for _ in range(20):
    Forgotten()
gc.collect()
print("still here")
"""


def test_forgotten_contexts_are_collected_without_waiting() -> None:
    done = subprocess.run([sys.executable, "-c", FORGET], capture_output=True, text=True, timeout=60)
    assert done.stdout == "still here\n", done.stderr
