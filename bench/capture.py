"""`python -m bench.capture [PART...]`: devices, clock, kills, soak and alignment beside their peers.

The full form takes about an hour and a half, most of it the soak (`soak`: 15 min at 8 times real time and
20 min in real time) and 100 kills; QUICK=1 is the short form.
"""

from __future__ import annotations

import sys

from bench.figures import run_modules

PARTS = {
    "clock": "bench.capture_clock",
    "microphone": "bench.capture_microphone",
    "camera": "bench.capture_camera",
    "kill": "bench.capture_kill",
    "align": "bench.align",
    "soak": "bench.capture_soak",
}


if __name__ == "__main__":
    sys.exit(run_modules("capture", PARTS))
