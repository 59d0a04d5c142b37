"""`python -m bench.capture [PART...]`: devices, clock, kills, soak and alignment beside their peers.

The full form takes about an hour and a half, most of it the soak (`soak`: 15 min at 8 times real time and
20 min in real time) and 100 kills; QUICK=1 is the short form.
"""

from __future__ import annotations

import sys
from importlib import import_module

from bench.figures import end_of_part, quick

PARTS = {
    "clock": "bench.capture_clock",
    "microphone": "bench.capture_microphone",
    "camera": "bench.capture_camera",
    "kill": "bench.capture_kill",
    "align": "bench.align",
    "soak": "bench.capture_soak",
}


def main() -> int:
    parts = sys.argv[1:] or list(PARTS)
    unknown = [part for part in parts if part not in PARTS]
    if unknown:
        print(f"bench.capture: no part {unknown[0]!r}; parts: {', '.join(PARTS)}", file=sys.stderr)
        return 2
    for part in parts:
        import_module(PARTS[part]).run(quick())
    return end_of_part("capture")


if __name__ == "__main__":
    sys.exit(main())
