"""`python -m bench.edge [PART...]`: delivery, security, console, several rigs, and the live path's budget.

The full form takes about 40 minutes, most of it the half hour without loss (`budget`); QUICK=1 is the short
form.
"""

from __future__ import annotations

import sys

from bench.figures import run_modules

PARTS = {
    "stream": "bench.stream",
    "security": "bench.stream_security",
    "console": "bench.console",
    "rigs": "bench.rigs",
    "budget": "bench.live_budget",
}


if __name__ == "__main__":
    sys.exit(run_modules("edge", PARTS))
