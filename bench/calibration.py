"""`python -m bench.calibration [PART...]`: every calibration beside its peers, and what they add up to."""

from __future__ import annotations

import sys

from bench.figures import run_modules

PARTS = {
    "camera": "bench.calibration_camera",
    "pose": "bench.calibration_pose",
    "sync": "bench.calibration_sync",
    "capsules": "bench.calibration_capsules",
    "room": "bench.calibration_room",
    "reverberation": "bench.calibration_reverberation",
    "budget": "bench.calibration_budget",
}


if __name__ == "__main__":
    sys.exit(run_modules("calibration", PARTS))
