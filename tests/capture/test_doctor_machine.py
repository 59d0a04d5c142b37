"""What the doctor reads about disk, clocks and processor, from texts in the kernel's forms and from here."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from capture import machine
from capture.deadline import Deadline, together, within
from capture.doctor_disk import DiskSpeed, Need, _kind, look_at_speed, measure_speed
from capture.doctor_machine import look_at_clock, look_at_processor
from capture.file_system import FileSystem, file_system_of
from capture.system_clock import WallClockWatch, clock_source, is_slow_source, utc_state
from dsp.errors import DeviceError, InputError

MOUNTS = """\
22 1 259:2 / / rw,relatime shared:1 - ext4 /dev/nvme0n1p2 rw
30 22 0:26 / /media/a\\040card rw,nosuid - vfat /dev/sda1 rw,fmask=0022
31 22 0:27 / /srv/nas rw - nfs4 nas:/export rw,vers=4.2
32 22 0:28 / /srv/nas/inner ro - fuse.sshfs user@host:/x ro
33 22 0:29 / /run rw - tmpfs tmpfs rw,size=100k
34 22 0:30 / /home rw - xfs /dev/sdb1 rw,usrquota
35 22 0:31 / /media/a\\040card rw - exfat /dev/sdc1 rw
"""


def test_file_systems_by_their_mounts(tmp_path: Path) -> None:
    mounts = tmp_path / "mountinfo"
    mounts.write_text(MOUNTS)

    def at(folder: str) -> FileSystem:
        return file_system_of(Path(folder), mounts)

    assert at("/somewhere").kind == "ext4" and not at("/somewhere").has_no_journal
    card = at("/media/a card/data")
    assert (card.kind, card.mount_point) == ("exfat", "/media/a card"), "the last of two mounts is on top"
    assert card.has_no_journal and card.largest_file is None
    assert at("/srv/nas").is_network and at("/srv/nas/inner/x").is_network
    assert at("/srv/nas/inner").is_read_only and not at("/srv/nas").is_read_only
    assert at("/run/x").is_memory and at("/runner").kind == "ext4"
    assert at("/home").has_quota and not at("/").has_quota
    assert file_system_of(tmp_path, tmp_path / "absent").kind == "unknown"


def test_the_file_system_here_is_what_findmnt_says(tmp_path: Path) -> None:
    if shutil.which("findmnt") is None:
        pytest.skip("findmnt is not installed")
    command = ["findmnt", "-n", "-o", "FSTYPE,TARGET", "--target", str(tmp_path)]
    kind, target = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    found = file_system_of(tmp_path)
    assert (found.kind, found.mount_point) == (kind, target)


def test_a_fat_card_tells_when_a_file_is_full() -> None:
    need = Need({"foa_48k": 576e3, "video": (1 << 32) / 1200}, measured=True)
    (found,) = _kind(FileSystem("vfat", "/media/card", "/dev/sda1", ("rw",)), Path("/media/card"), need)
    assert found.severity == "warning"
    assert "video ends after 20 minutes" in found.text, (
        "1200 s of this rig fill 4 GiB; the sound goes on in parts"
    )


@pytest.mark.parametrize(
    ("speed", "severity"),
    [
        (DiskSpeed(100, (0.01, 0.02)), "ok"),
        (DiskSpeed(100, (0.01, 0.9)), "warning"),
        (DiskSpeed(2.5, (0.1,)), "warning"),
        (DiskSpeed(0.9, (0.1,)), "fault"),
    ],
)
def test_speeds(speed: DiskSpeed, severity: str) -> None:
    (found,), details = look_at_speed(speed, Need({"all": 1e6}, measured=False))
    assert found.severity == severity and bool(found.do) == (severity != "ok")
    assert details["worst_sync_ms"] == pytest.approx(max(speed.syncs_s) * 1e3)


def test_measuring_a_disk_leaves_nothing_and_syncs_each_second(tmp_path: Path) -> None:
    speed = measure_speed(tmp_path / "not" / "yet", 100_000, mib=2)
    assert speed.mb_per_s > 0 and len(speed.syncs_s) == 5 and min(speed.syncs_s) > 0
    assert list(tmp_path.iterdir()) == []


def test_the_kernels_clock_agrees_with_timedatectl_or_ntp() -> None:
    state = utc_state()
    assert state.synchronised in ("yes", "no", "unknown")
    if shutil.which("adjtimex"):
        output = subprocess.run(["adjtimex", "-p"], capture_output=True, text=True, check=False).stdout
        line = next((row for row in output.splitlines() if "status" in row), None)
        if line is not None:
            unsynchronised = int(line.split(":")[1].split()[0]) & 64
            assert state.synchronised == ("no" if unsynchronised else "yes")


def test_clock_sources(tmp_path: Path) -> None:
    (tmp_path / "current_clocksource").write_text("hpet\n")
    (tmp_path / "available_clocksource").write_text("tsc hpet acpi_pm\n")
    assert clock_source(tmp_path) == ("hpet", ["tsc", "hpet", "acpi_pm"])
    assert is_slow_source("hpet") and not is_slow_source("tsc") and not is_slow_source("arch_sys_counter")
    assert clock_source(tmp_path / "absent") == (None, [])
    findings, details = look_at_clock()
    assert {f.topic for f in findings} == {"clock"} and details["monotonic_step_ns"] > 0


def test_a_step_of_the_wall_clock_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock of this computer cannot be set by a test, so the reading is moved."""
    watch = WallClockWatch()
    watch.look()
    quiet = abs(watch.largest_step_ms)
    real = time.time_ns
    monkeypatch.setattr(time, "time_ns", lambda: real() - 3_000_000_000)
    watch.look()
    monkeypatch.undo()
    assert quiet < 1000
    assert watch.largest_step_ms == pytest.approx(-3000, abs=100)


def test_memory_temperature_and_frequency(tmp_path: Path) -> None:
    info = tmp_path / "meminfo"
    info.write_text("MemTotal:       8000000 kB\nMemAvailable:   2000000 kB\n")
    assert machine.memory_free_bytes(info, tmp_path) == 2_048_000_000
    (tmp_path / "memory.max").write_text("1000000000\n")
    (tmp_path / "memory.current").write_text("900000000\n")
    assert machine.memory_free_bytes(info, tmp_path) == 100_000_000, "a container's own limit"
    assert machine.memory_free_bytes(tmp_path / "absent") is None
    for number, (kind, degrees) in enumerate((("cpu-thermal", 61000), ("gpu", 72500), ("broken", -273000))):
        zone = tmp_path / f"thermal_zone{number}"
        zone.mkdir()
        (zone / "type").write_text(f"{kind}\n")
        (zone / "temp").write_text(f"{degrees}\n")
    assert machine.temperature_c(tmp_path) == (72.5, "gpu")
    policy = tmp_path / "cpufreq" / "policy0"
    policy.mkdir(parents=True)
    (policy / "scaling_driver").write_text("cppc_cpufreq\n")
    (policy / "scaling_governor").write_text("powersave\n")
    assert machine.governors(tmp_path) == [("cppc_cpufreq", "powersave")]
    battery = tmp_path / "supply" / "BAT0"
    battery.mkdir(parents=True)
    for key, value in (("type", "Battery"), ("status", "Discharging"), ("capacity", "34")):
        (battery / key).write_text(f"{value}\n")
    assert machine.on_battery(tmp_path / "supply") == 34
    (battery / "status").write_text("Charging\n")
    assert machine.on_battery(tmp_path / "supply") is None
    findings, details = look_at_processor()
    assert findings[0].severity == "ok" and details["cores"] == len(os.sched_getaffinity(0))


def test_who_uses_the_processor() -> None:
    watch = machine.CpuWatch()
    busy = subprocess.Popen(["yes"], stdout=subprocess.DEVNULL)
    late = machine.CpuWatch()
    used = time.process_time() + 0.15
    while time.process_time() < used:
        pass
    time.sleep(0.3)
    late.end()
    watch.end()
    busy.kill()
    busy.wait()
    own = next(b for b in late.others if b.pid == busy.pid)
    assert own.name == "yes" and 0 < own.percent <= 110
    assert late.own_percent * late.seconds / 100 == pytest.approx(0.15, abs=0.1), "seconds of processor time"
    assert all(b.pid != busy.pid for b in watch.others), "it did not run at the beginning"


def test_what_hangs_is_given_up_and_the_rest_is_kept() -> None:
    begin = time.monotonic()
    found = together(0.5, {"good": lambda: 1, "hangs": lambda: time.sleep(30) or 2, "bad": _fail})
    assert time.monotonic() - begin < 5
    assert found["good"] == 1
    assert isinstance(found["hangs"], DeviceError) and "hangs: no answer" in str(found["hangs"])
    assert isinstance(found["bad"], InputError)
    with pytest.raises(InputError, match="wrong"):
        within(1, "bad", _fail)
    limit = Deadline(100)
    assert limit.part(5) == 5 and 99 < limit.part(1000) <= 100
    assert Deadline(-1).part(5) == 0.2


def _fail() -> int:
    raise InputError("wrong")
