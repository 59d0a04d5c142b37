"""`python -m bench.calibration [PART...]`: camera intrinsics and microphone pose beside their peers."""

from __future__ import annotations

import sys
from importlib import import_module

from bench.figures import end_of_part, quick

PARTS = {"camera": "bench.calibration_camera", "pose": "bench.calibration_pose"}


def main() -> int:
    parts = sys.argv[1:] or list(PARTS)
    unknown = [part for part in parts if part not in PARTS]
    if unknown:
        print(f"bench.calibration: no part {unknown[0]!r}; parts: {', '.join(PARTS)}", file=sys.stderr)
        return 2
    for part in parts:
        import_module(PARTS[part]).run(quick())
    return end_of_part("calibration")


if __name__ == "__main__":
    sys.exit(main())
