"""`python -m bench.calibration [PART...]`: camera intrinsics and microphone pose beside their peers."""

from __future__ import annotations

import sys

from bench.figures import run_modules

PARTS = {"camera": "bench.calibration_camera", "pose": "bench.calibration_pose"}


if __name__ == "__main__":
    sys.exit(run_modules("calibration", PARTS))
