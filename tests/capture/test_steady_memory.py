"""The allocator's setting: large buffers go back to the system when they are freed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
# A large buffer that is freed moves glibc's limit up: smaller ones then stay in the heap, below newer ones.
CODE = """
import sys
from pathlib import Path
if sys.argv[1] == "steady":
    from capture.steady_memory import keep_memory_steady
    keep_memory_steady(); keep_memory_steady()
def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 / 1e6
del [bytearray(24_000_000)][:]
before = resident()
held = []
for _ in range(200):
    large = bytes(150_000) + b"x"
    held.append(bytes(3000) + b"x")  # a small one above it
    del large
many = [bytes(150_000) + b"x" for _ in range(200)]
small = [bytes(3000) + b"y" for _ in range(200)]
del many
print(resident() - before)
"""


@pytest.mark.skipif(sys.platform != "linux" or not os.path.exists("/proc/self/statm"), reason="Linux only")
def test_freed_pictures_do_not_stay_resident() -> None:
    grown = {}
    for how in ("steady", "plain"):
        done = subprocess.run(
            [sys.executable, "-c", CODE, how], cwd=ROOT, capture_output=True, text=True, timeout=60
        )
        grown[how] = float(done.stdout)
    if grown["plain"] < 10:
        pytest.skip(f"this C library keeps nothing by itself ({grown['plain']:.1f} MB)")
    assert grown["steady"] < 5 < grown["plain"]
