"""Stands between a driver and its worker, so that nothing that the worker starts outlives either of them.

Run as a script, with the standard library only: `keeper.py LIMIT_MIB GRACE_S FD FD COMMAND...`. It starts
COMMAND, which gets the two descriptors as its last arguments, and takes in every process below that loses its
parent (a child subreaper, prctl(2)). Everything below is killed

- at a byte on standard input: the driver is done with the worker, or its time is over,
- when the worker ends,
- when all of them together hold more than LIMIT_MIB of memory (0: no limit),
- GRACE_S after standard input ended without a byte. The driver was killed then: the worker gets no more work,
  but ends what it has at hand, so that this was not for nothing.

Nothing can hold this up: no lock of an interpreter, no signal that a step ignores, no new session.
Exit code: that of COMMAND; 128 + signal; OVER_MEMORY; LET_GO.
"""

from __future__ import annotations

import ctypes
import math
import os
import select
import signal
import sys
import time

OVER_MEMORY = 250
LET_GO = 251
_LOOK_S = 0.2  # between two looks at the memory
_KILL_S = 20.0  # a process that is not gone by then hangs in the kernel
_SUBREAPER, _PARENT_DEATH = 36, 1  # PR_SET_CHILD_SUBREAPER, PR_SET_PDEATHSIG


def _parents() -> dict[int, int]:
    """pid -> parent of every process there is."""
    found = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:
                    found[int(name)] = int(file.read().rpartition(b")")[2].split()[1])
            except (OSError, IndexError, ValueError):
                continue
    return found


def _below(pid: int) -> list[int]:
    """All processes below one, at any depth."""
    parents = _parents()
    found: list[int] = []
    layer = [pid]
    while layer:
        layer = [child for child, parent in parents.items() if parent in layer]
        found += layer
    return found


def _memory_bytes(pids: list[int]) -> int:
    total = 0
    for pid in pids:
        try:
            with open(f"/proc/{pid}/statm", "rb") as file:
                total += int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        except (OSError, IndexError, ValueError):
            continue
    return total


def _reap(worker: int) -> int | None:
    """Take leave of whoever has ended; the exit code of the worker if it was among them."""
    code = None
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return code
        if pid == 0:
            return code
        if pid == worker:
            code = os.waitstatus_to_exitcode(status)
            code = 128 - code if code < 0 else code


def _end_all(worker: int) -> None:
    end = time.monotonic() + _KILL_S
    while time.monotonic() < end:
        left = _below(os.getpid())
        if not left:
            return
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                continue
        time.sleep(0.002)
        _reap(worker)


def main() -> int:
    """Run the command that the arguments give; see the module."""
    limit, grace_s = int(sys.argv[1]) << 20, float(sys.argv[2])
    pipes, command = sys.argv[3:5], sys.argv[5:]
    # Nobody may interrupt this one: Ctrl-C is for the driver, which then lets go.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    prctl = ctypes.CDLL(None).prctl
    prctl(_SUBREAPER, 1, 0, 0, 0)
    woken, wake = os.pipe()
    for end in (woken, wake):
        os.set_blocking(end, False)
    signal.set_wakeup_fd(wake)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    worker = os.fork()
    if worker == 0:
        prctl(_PARENT_DEATH, signal.SIGKILL, 0, 0, 0)  # should anybody kill this keeper
        os.setsid()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD):
            signal.signal(number, signal.SIG_DFL)
        nothing = os.open("/dev/null", os.O_RDONLY)
        os.dup2(nothing, 0)
        try:
            os.execv(command[0], [*command, *pipes])
        finally:
            os._exit(127)
    for pipe in pipes:
        os.close(int(pipe))  # the worker's end must show as their end
    poll = select.poll()
    poll.register(0, select.POLLIN | select.POLLHUP)
    poll.register(woken, select.POLLIN)
    last = math.inf
    while True:
        waits = [_LOOK_S] if limit else []
        waits += [max(0.0, last - time.monotonic())] if last < math.inf else []
        events = dict(poll.poll(min(waits) * 1000 if waits else None))
        if woken in events:
            os.read(woken, 4096)
        code = _reap(worker)
        if 0 in events:
            said = os.read(0, 1)
            code = LET_GO if code is None and said else code
            if not said:  # by its own end: it could not say anything
                poll.unregister(0)
                last = time.monotonic() + grace_s
        if code is None and time.monotonic() >= last:
            code = LET_GO
        if code is None and limit and _memory_bytes(_below(os.getpid())) > limit:
            code = OVER_MEMORY
        if code is not None:
            _end_all(worker)
            return code


if __name__ == "__main__":
    sys.exit(main())
