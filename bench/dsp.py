"""`python -m bench.dsp`: every part of the signal processing beside its peers."""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec

from bench.figures import end_of_part, quick

PARTS = ("resample", "spacing", "levels", "checks", "doa", "tracks", "beam")


def main() -> int:
    short = quick()
    for part in PARTS:
        if find_spec(f"bench.dsp_{part}") is not None:
            import_module(f"bench.dsp_{part}").run(short)
    return end_of_part("dsp")


if __name__ == "__main__":
    sys.exit(main())
