"""`python -m bench.dsp`: resampling, encoding checks and direction of arrival beside their peers."""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec

from bench.figures import end_of_part, quick


def main() -> int:
    short = quick()
    for name in ("bench.dsp_resample", "bench.dsp_checks", "bench.dsp_doa"):
        if find_spec(name) is not None:
            import_module(name).run(short)
    return end_of_part("dsp")


if __name__ == "__main__":
    sys.exit(main())
