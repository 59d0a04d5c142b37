"""`python -m bench.recordings [PART...]`: plan, sessions, releases, and how agents are scored.

The full form takes about an hour, most of it the 272 episodes that are recorded (`session`) and the thousand
that are processed (`process`); QUICK=1 is the short form.
"""

from __future__ import annotations

import sys

from bench.figures import run_modules

PARTS = {
    "plan": "bench.recordings_plan",
    "virtual": "bench.recordings_virtual",
    "session": "bench.recordings_session",
    "hands": "bench.recordings_hands",
    "review": "bench.recordings_review",
    "privacy": "bench.recordings_privacy",
    "release": "bench.recordings_release",
    "process": "bench.recordings_process",
    "evaluate": "bench.recordings_evaluate",
}


if __name__ == "__main__":
    sys.exit(run_modules("recordings", PARTS))
