"""Unit files for systemd, written from the templates in `units/` for one rig on one machine."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from capture.rig import Rig
from dsp.errors import InputError

UNITS = ("live", "agent", "capture")
FOLDER = Path(__file__).parent / "units"
MARK = "# Written by `hearth service install`, which overwrites it. Own settings: systemctl edit UNIT"
GROUPS = ("audio", "video")
# What only the system's manager may set; a user's manager would refuse to start the service.
SYSTEM_ONLY = frozenset(
    (
        "User",
        "SupplementaryGroups",
        "DevicePolicy",
        "DeviceAllow",
        "PrivateDevices",
        "BindReadOnlyPaths",
        "CapabilityBoundingSet",
        "AmbientCapabilities",
        "RemoveIPC",
        "KeyringMode",
        "ProtectClock",
        "ProtectControlGroups",
        "ProtectHostname",
        "ProtectKernelLogs",
        "ProtectKernelModules",
        "ProtectKernelTunables",
        "ProtectProc",
        "IOWeight",
    )
)


@dataclass(frozen=True)
class Place:
    """What a unit must know of this machine.

    rig, data: absolute paths of the rig file and of the folder that is written to. directory: from which
    relative paths in the rig file are taken. user: whose service it is (system units). groups: those here.
    """

    rig: Path
    data: Path
    directory: Path
    user: str = ""
    groups: tuple[str, ...] = GROUPS
    system: bool = True
    record: bool = False
    with_agent: bool = False  # live runs the agent itself


def unit_name(unit: str) -> str:
    """The name that systemd knows it by. Raises InputError for what is no unit of ours."""
    if unit not in UNITS:
        raise InputError(f"there is no service {unit!r}; there are {', '.join(UNITS)}")
    return f"hearth-{unit}.service"


def unit_text(unit: str, rig: Rig, place: Place) -> str:
    """A unit file. Raises InputError for a rig that cannot run as this unit."""
    name = unit_name(unit)
    if unit != "capture":
        _check_addresses(unit, rig, place)
    text = (FOLDER / name).read_text(encoding="utf-8")
    hardening = (FOLDER / "hardening.conf").read_text(encoding="utf-8").strip()
    text = text.replace("@HARDENING@", hardening)
    live = ["--record"] * place.record + ["--with-agent"] * place.with_agent
    options = {"live": live, "agent": [], "capture": ["--session", "capture"]}
    words = {
        "NAME": _plain(rig.name),
        "HEARTH": _command(hearth_command()),
        "RIG": _command([str(place.rig)]),
        "OPTIONS": _command(options[unit]),
        "DIRECTORY": _plain(str(place.directory)),
        "USER": _plain(place.user),
        "GROUPS": " ".join(place.groups),
        "DATA": _quoted(str(place.data)),
        "CACHE": _quoted(f"NUMBA_CACHE_DIR={place.data / '.cache' / 'numba'}"),
        "STREAM": _command([rig.endpoints.stream]),
        "COMMANDS": _command([rig.endpoints.commands]),
        "HIGH": "2500M" if place.with_agent else "800M",
        "MAX": "3G" if place.with_agent else "1G",
        "TARGET": "multi-user.target" if place.system else "default.target",
    }
    lines = _fill(text, words).splitlines()
    if not place.system:
        lines = [line for line in lines if not _is_system_only(line)]
    return "\n".join([MARK, *lines]) + "\n"


def check_place(place: Place) -> None:
    """Raise InputError for files that a service would not see: it has a /tmp of its own."""
    for what, path in (("rig file", place.rig), ("data folder", place.data), ("folder", place.directory)):
        if path.is_relative_to("/tmp") or path.is_relative_to("/var/tmp"):
            raise InputError(f"the {what} {path} is in a temporary folder, which a service does not see")


def hearth_command() -> list[str]:
    """How this installation of Hearth is started, by absolute paths."""
    script = Path(sys.executable).parent / "hearth"
    return [str(script)] if os.access(script, os.X_OK) else [sys.executable, "-m", "hearth"]


def is_ours(path: Path) -> bool:
    """Whether a unit file was written by us."""
    try:
        return path.read_text(encoding="utf-8").startswith(MARK)
    except (OSError, UnicodeDecodeError):
        return False


def _check_addresses(unit: str, rig: Rig, place: Place) -> None:
    from edge.stream.addresses import stays_here

    ends = (rig.endpoints.stream, rig.endpoints.commands)
    if unit == "agent" and (rig.security.loopback == "keys" or not all(map(stays_here, ends))):
        raise InputError(
            "this rig asks for keys, and an agent in a unit of its own has none. Let live run it, by a way "
            "in of its own: `hearth service install --with-agent`"
        )
    for key in ("stream", "commands"):
        address = getattr(rig.endpoints, key)
        if address.startswith("tcp://") and address.endswith((":0", ":*")):
            raise InputError(
                f"`endpoints.{key}` is {address}: a service needs a port that stays, like the default 5771"
            )
        if address.startswith("ipc://") and not Path(address[6:]).is_relative_to(place.data):
            raise InputError(
                f"`endpoints.{key}` is {address}: a service can write into {place.data} only; put it there"
            )


def _fill(text: str, words: Mapping[str, str]) -> str:
    """The text with its @WORDS@; settings that come out empty are left out, trailing blanks too."""
    lines = []
    for line in text.splitlines():
        filled = re.sub(r"@([A-Z]+)@", lambda found: words[found.group(1)], line).rstrip()
        if filled.endswith("=") and "@" in line:
            continue
        lines.append(filled)
    return "\n".join(lines)


def _is_system_only(line: str) -> bool:
    key, _, value = line.partition("=")
    if key in ("Nice", "OOMScoreAdjust"):
        return value.startswith("-")
    return key in SYSTEM_ONLY


def _plain(text: str) -> str:
    """For settings that take the rest of the line as it is; % begins a specifier."""
    if re.search(r"[\n\r\0]", text):
        raise InputError(f"{text!r} cannot be written into a unit file: it has a line break")
    return text.replace("%", "%%")


def _quoted(text: str) -> str:
    """For settings that take a list of words."""
    plain = _plain(text)
    if re.fullmatch(r"[\w@%+=:,./~-]+", plain):
        return plain
    escaped = plain.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _command(words: Iterable[str]) -> str:
    """For ExecStart=: words, with $ kept from being a variable."""
    return " ".join(_quoted(word).replace("$", "$$") for word in words)
