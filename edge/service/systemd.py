"""systemctl and journalctl: units installed, removed, looked at."""

from __future__ import annotations

import grp
import json
import os
import pwd
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from capture.rig import load_rig
from dsp.errors import DeviceError, InputError
from edge.service.units import GROUPS, UNITS, Place, check_place, is_ours, unit_name, unit_text

_TIMEOUT_S = 330.0  # a service that finishes an episode takes its time
_SHOWN = (
    "Id,LoadState,ActiveState,SubState,Result,MainPID,NRestarts,MemoryCurrent,StatusText,"
    "ActiveEnterTimestamp,UnitFileState,FragmentPath"
)
_LEVELS = ("emerg", "alert", "crit", "error", "warning", "notice", "info", "debug")


@dataclass(frozen=True)
class Manager:
    """systemd's manager of this machine, or of this user. folder: where its units are written."""

    system: bool

    @property
    def folder(self) -> Path:
        if self.system:
            return Path("/etc/systemd/system")
        config = os.environ.get("XDG_CONFIG_HOME") or str(Path.home() / ".config")
        return Path(config) / "systemd" / "user"

    @property
    def name(self) -> str:
        return "system" if self.system else "user"

    def run(self, *words: str, check: bool = True) -> str:
        """systemctl; returns what it prints. Raises DeviceError when it cannot be had or fails."""
        return _run(["systemctl", *([] if self.system else ["--user"]), *words], check)

    def check_runs(self) -> None:
        """Raise DeviceError when there is no systemd to talk to."""
        state = ""
        if shutil.which("systemctl"):
            state = self.run("is-system-running", check=False).strip()
        if state in ("", "offline", "unknown"):
            raise DeviceError(
                f"systemd does not run here as the {self.name}'s manager, so there are no services. "
                "`hearth service install --dry-run` prints the units; `hearth live --with-agent` needs none"
            )


def place_of(
    rig_file: Path | None, manager: Manager, run_as: str | None, record: bool, with_agent: bool
) -> Place:
    """Where and as whom the services of a rig file run. Raises InputError without a rig file or user."""
    path = rig_file if rig_file is not None else Path("rig.yaml")
    rig = load_rig(path)
    user = ""
    if manager.system:
        user = run_as or os.environ.get("SUDO_USER") or pwd.getpwuid(os.getuid()).pw_name
        try:
            pwd.getpwnam(user)
        except KeyError:
            raise InputError(f"there is no user {user!r} to run the services as (--run-as)") from None
    elif run_as:
        raise InputError("--run-as is for system services; a user's run as that user")
    known = {group.gr_name for group in grp.getgrall()}
    return Place(
        rig=path.resolve(),
        data=(Path.cwd() / rig.storage.folder).resolve(),
        directory=Path.cwd(),
        user=user,
        groups=tuple(group for group in GROUPS if group in known),
        system=manager.system,
        record=record,
        with_agent=with_agent,
    )


def texts(units: Iterable[str], place: Place) -> dict[str, str]:
    """Unit files by name."""
    rig = load_rig(place.rig)
    return {unit_name(unit): unit_text(unit, rig, place) for unit in units}


def install(manager: Manager, units: Sequence[str], place: Place, start: bool) -> list[Path]:
    """Write the units, enable them, and start them; what runs already is restarted. Returns the files.

    Raises DeviceError when systemd does not run or refuses, InputError for a file that is not ours.
    """
    check_place(place)
    manager.check_runs()
    written = texts(units, place)
    for name in written:
        path = manager.folder / name
        if path.exists() and not is_ours(path):
            raise InputError(f"{path} was not written by `hearth service install`; move it away first")
    try:
        _make_folders(place)
        manager.folder.mkdir(parents=True, exist_ok=True)
        for name, text in written.items():
            (manager.folder / name).write_text(text, encoding="utf-8")
    except OSError as error:
        raise DeviceError(
            f"{error.filename} cannot be written ({error.strerror}); use sudo, or --user"
        ) from None
    manager.run("daemon-reload")
    manager.run("enable", *written)
    if start:
        manager.run("restart", *written)
    return [manager.folder / name for name in written]


def _make_folders(place: Place) -> None:
    """The folder that is written to, for the user of the service; one that is there keeps its owner."""
    missing = [place.data / ".cache" / "numba"]
    while not missing[-1].parent.exists():
        missing.append(missing[-1].parent)
    for folder in reversed(missing):
        if not folder.exists():
            folder.mkdir()
            if place.user and os.getuid() == 0:
                account = pwd.getpwnam(place.user)
                os.chown(folder, account.pw_uid, account.pw_gid)


def uninstall(manager: Manager, units: Sequence[str]) -> list[Path]:
    """Stop, disable and remove units that we wrote; returns their files. Recorded data stays."""
    manager.check_runs()
    paths = [manager.folder / unit_name(unit) for unit in units]
    ours = [path for path in paths if is_ours(path)]
    for path in ours:
        manager.run("disable", "--now", path.name)
        path.unlink()
    manager.run("daemon-reload")
    manager.run("reset-failed", *(path.name for path in ours), check=False)
    return ours


def status(manager: Manager, units: Sequence[str] = UNITS) -> list[dict[str, Any]]:
    """How each unit is: name, installed, active, state, enabled, pid, restarts, result, memory_mib, status,
    since, file."""
    manager.check_runs()
    shown = manager.run("show", "--property", _SHOWN, *(unit_name(unit) for unit in units))
    blocks = [dict(line.partition("=")[::2] for line in b.splitlines()) for b in shown.strip().split("\n\n")]
    return [
        {
            "name": block["Id"],
            "installed": block["LoadState"] == "loaded",
            "active": block["ActiveState"] == "active",
            "state": f"{block['ActiveState']} ({block['SubState']})",
            "enabled": block["UnitFileState"] == "enabled",
            "pid": int(block["MainPID"]) or None,
            "restarts": int(block["NRestarts"]),
            "result": block["Result"],
            "memory_mib": _mib(block["MemoryCurrent"]),
            "status": block["StatusText"] or None,
            "since": block["ActiveEnterTimestamp"] or None,
            "file": block["FragmentPath"] or None,
        }
        for block in blocks
    ]


def journal(manager: Manager, units: Sequence[str], lines: int, follow: bool) -> list[str]:
    """The command that shows what the units logged."""
    flag = "--unit" if manager.system else "--user-unit"
    if not shutil.which("journalctl"):
        raise DeviceError("journalctl is not installed; the logs are where your service manager puts stderr")
    names = [word for unit in units for word in (flag, unit_name(unit))]
    return ["journalctl", "--no-pager", "--lines", str(lines), *(["--follow"] if follow else []), *names]


def logged(manager: Manager, units: Sequence[str], lines: int) -> list[dict[str, Any]]:
    """What the units logged last: time_us (UTC), level, unit, message."""
    text = _run([*journal(manager, units, lines, follow=False), "--output", "json"], check=True)
    key = "_SYSTEMD_UNIT" if manager.system else "_SYSTEMD_USER_UNIT"
    told = []
    for line in text.splitlines():
        entry = json.loads(line)
        message = entry.get("MESSAGE")
        told.append(
            {
                "time_us": int(entry["__REALTIME_TIMESTAMP"]),
                "level": _LEVELS[int(entry.get("PRIORITY", 6))],
                "unit": entry.get(key),
                # Bytes that are no UTF-8 come as a list of numbers.
                "message": bytes(message).decode(errors="replace") if isinstance(message, list) else message,
            }
        )
    return told


def _mib(text: str) -> float | None:
    return round(int(text) / (1 << 20), 1) if text.isdigit() and int(text) < 1 << 62 else None


def _run(command: Sequence[str], check: bool) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
    except FileNotFoundError:
        raise DeviceError(f"{command[0]} is not installed: this machine has no systemd") from None
    except subprocess.TimeoutExpired:
        raise DeviceError(f"`{' '.join(command)}` did not end within {_TIMEOUT_S:g} s") from None
    if check and done.returncode != 0:
        raise DeviceError(f"`{' '.join(command)}` failed: {(done.stderr or done.stdout).strip()}")
    return done.stdout
