"""A real systemd as the first process of namespaces of its own: nothing of the machine around it is touched.

It sees the machine's files read-only. /run, /srv, /tmp, /var/tmp, /var/log and its only folder of units,
/etc/systemd/system, are its own, in memory: none of the machine's units can be started.
"""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

SYSTEMD = "/lib/systemd/systemd"
PROGRAMS = ("unshare", "nsenter", "systemctl", "systemd-analyze")
# A root of its own with a plain tree of mounts: what a container's runtime stacked on it would make systemd
# leave out parts of a service's sandbox without a word.
INIT = """
set -e
mount --make-rprivate /
mount -t tmpfs tmpfs /mnt
mkdir /mnt/root
mount --bind / /mnt/root
mount -o remount,bind,ro /mnt/root
cd /mnt/root
mount -t proc proc proc
mount -t sysfs sysfs sys
mount -t cgroup2 cgroup2 sys/fs/cgroup
mount --bind /dev dev
mount -t tmpfs tmpfs dev/shm
mount -t devpts -o newinstance,ptmxmode=0666,mode=620 devpts dev/pts
for place in run etc/systemd/system srv var/log {own_tmp}; do mount -t tmpfs tmpfs $place; done
for place in {seen}; do [ -e ./$place ] || {{ echo "$place is on a file system of its own"; exit 1; }}; done
mkdir -p run/systemd/system run/lock run/old
pivot_root . run/old
umount -l /run/old
for name in box sysinit basic multi-user network sound; do
    printf '[Unit]\\nDefaultDependencies=no\\n' > /etc/systemd/system/$name.target
done
cat > /etc/systemd/system/systemd-journald.service <<END
[Unit]
DefaultDependencies=no
[Service]
Type=notify
ExecStart=/lib/systemd/systemd-journald
END
printf '[Unit]\\nDefaultDependencies=no\\nWants=systemd-journald.service\\n' > /etc/systemd/system/box.target
export container=hearth-test SYSTEMD_UNIT_PATH=/etc/systemd/system
exec {systemd} --system --unit=box.target --log-level=info --log-target=console --show-status=no
"""


class SystemdBox:
    """A running systemd. `root`: its view of the file system, from outside."""

    def __init__(self, log: Path) -> None:
        self.log = log
        self._group = Path(_cgroup2()) / f"hearth-test-{os.getpid()}"
        self._group.mkdir()
        own_tmp = "" if in_tmp() else "tmp var/tmp"
        seen = " ".join(shlex.quote(place) for place in (__file__, sys.executable))
        init = INIT.format(systemd=SYSTEMD, own_tmp=own_tmp, seen=seen)
        script = (
            f"echo $$ > {self._group}/cgroup.procs\nexec unshare --pid --mount --cgroup --ipc --uts --fork"
        )
        script += ' --kill-child=SIGKILL sh -c "$0"'
        with open(log, "wb") as out:
            self._outer = subprocess.Popen(
                ["sh", "-c", script, init],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
            )
        self.pid = 0

    def wait(self, seconds: float = 20.0) -> bool:
        """Until it runs; false when it does not come up."""
        end = time.monotonic() + seconds
        children = Path(f"/proc/{self._outer.pid}/task/{self._outer.pid}/children")
        while time.monotonic() < end and self._outer.poll() is None:
            found = children.read_text().split()
            if found and Path(f"/proc/{found[0]}/comm").read_text().strip() == "systemd":
                self.pid = int(found[0])
                if self.run("systemctl", "is-system-running", check=False) in ("running", "degraded"):
                    return True
            time.sleep(0.1)
        return False

    @property
    def root(self) -> Path:
        return Path(f"/proc/{self.pid}/root")

    def run(self, *command: str, cwd: str = "/", check: bool = True) -> str:
        """A command inside; its standard output."""
        inside = ["nsenter", "-t", str(self.pid), "-m", "-p", "-C", "-i", "-u", f"--wd={self.root}{cwd}"]
        done = subprocess.run(
            [*inside, *command], capture_output=True, text=True, timeout=150, check=False, env=_environment()
        )
        assert not check or done.returncode == 0, f"{command}: {done.stderr}{done.stdout}\n{self.said()}"
        return done.stdout.strip()

    def show(self, unit: str, *properties: str) -> dict[str, str]:
        """Properties of a unit."""
        told = self.run("systemctl", "show", unit, "--property", ",".join(properties))
        return dict(line.partition("=")[::2] for line in told.splitlines())

    def host_pid(self, pid: int) -> int:
        """The number by which this namespace knows one of its processes."""
        for status in Path("/proc").glob("[0-9]*/status"):
            try:
                text = status.read_text()
                same = os.readlink(status.parent / "ns" / "pid") == os.readlink(f"/proc/{self.pid}/ns/pid")
            except OSError:
                continue
            line = next((x for x in text.splitlines() if x.startswith("NSpid:")), "")
            if same and line.split()[-1:] == [str(pid)]:
                return int(status.parent.name)
        raise AssertionError(f"no process {pid} in the box")

    def said(self) -> str:
        """The last lines of its log, and of the journal."""
        told = self.log.read_text(errors="replace").splitlines()
        if self.pid and Path(f"/proc/{self.pid}").exists():
            told += self.run("journalctl", "--no-pager", "--lines", "40", check=False).splitlines()
        return "\n".join(told[-40:])

    def close(self) -> None:
        self._outer.send_signal(signal.SIGKILL)
        self._outer.wait()
        end = time.monotonic() + 5
        while self.pid and Path(f"/proc/{self.pid}").exists() and time.monotonic() < end:
            time.sleep(0.02)
        for folder, _, _ in sorted(os.walk(self._group), reverse=True):
            for _ in range(50):
                try:
                    os.rmdir(folder)
                    break
                except OSError:
                    time.sleep(0.02)


def start(log: Path) -> SystemdBox:
    """Start it; skips, saying why, where that cannot be."""
    if os.getuid() != 0:
        pytest.skip("a systemd of our own needs root, for its namespaces")
    missing = [name for name in PROGRAMS if shutil.which(name) is None]
    if missing or not Path(SYSTEMD).exists():
        pytest.skip(f"not installed: {', '.join(missing) or 'systemd'}")
    if not _cgroup2():
        pytest.skip("no cgroup2 file system is mounted")
    try:
        box = SystemdBox(log)
    except OSError as error:
        pytest.skip(f"no control group can be made: {error}")
    if not box.wait():
        told = box.said()
        box.close()
        pytest.skip(f"systemd does not start in namespaces here: {told[-300:]}")
    return box


def in_tmp() -> bool:
    """Whether this Python is in a folder that a service with a /tmp of its own does not see."""
    return any(Path(place).is_relative_to("/tmp") for place in (sys.prefix, __file__))


def _cgroup2() -> str:
    mounts = [line.split() for line in Path("/proc/mounts").read_text().splitlines()]
    return next((words[1] for words in mounts if words[2] == "cgroup2"), "")


def _environment() -> dict[str, str]:
    return {"PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", "HOME": "/root", "LANG": "C.UTF-8"}
