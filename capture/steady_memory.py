"""Keeps the memory of a process that records for days where it is, on Linux with the GNU C library."""

from __future__ import annotations

import ctypes
import sys
from contextlib import suppress

_M_MMAP_THRESHOLD, _M_ARENA_MAX = -3, -8  # of mallopt(3)


def keep_memory_steady() -> None:
    """Set the allocator for a long run; harmless when repeated, does nothing where it cannot.

    Threads that hand buffers on (pictures, blocks) make one heap each, and by and by holes in them: a few
    megabytes an hour. mallopt(3): two heaps at most, and what is large comes from the system and goes back
    to it, whatever was freed before.
    """
    if not sys.platform.startswith("linux"):
        return
    with suppress(OSError, AttributeError):  # another C library
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_M_ARENA_MAX, 2)
        mallopt(_M_MMAP_THRESHOLD, 1 << 17)
