"""The unit files: what is in them, what systemd's own tools say of them; `hearth service` without systemd."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from typer.testing import CliRunner

from capture.rig import Rig, parse_rig
from dsp.errors import DeviceError, HearthError, InputError
from edge.service.units import MARK, SYSTEM_ONLY, UNITS, Place, check_place, is_ours, unit_name, unit_text
from hearth import app
from tests.test_cli_json import assert_documented

RIG = 'hearth_rig: 1\nname: the 100% "loft" @USER@\n'
ODD = Path('/srv/my home/50% "x" $y')


def place(system: bool = True, **changed) -> Place:
    known = {"rig": ODD / "rig.yaml", "data": ODD / "data", "directory": ODD, "user": "root"}
    return Place(**{**known, "system": system, **changed})


def rig(more: str = "") -> Rig:
    return parse_rig(RIG + more)


def settings(text: str) -> dict[str, list[tuple[str, str]]]:
    """Section -> its settings in order."""
    found: dict[str, list[tuple[str, str]]] = {}
    section = ""
    for line in text.splitlines():
        if line.startswith("["):
            section = line.strip("[]")
        elif line and not line.startswith("#"):
            key, _, value = line.partition("=")
            found.setdefault(section, []).append((key, value))
    return found


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("system", [True, False])
def test_a_unit_is_filled_watched_limited_and_closed(unit: str, system: bool):
    text = unit_text(unit, rig(), place(system))
    assert text.startswith(MARK) and re.findall(r"@[A-Z]+@", text) == ["@USER@"], "its name"
    service = dict(settings(text)["Service"])
    assert service["Type"] == "notify" and int(service["WatchdogSec"]) >= 10
    assert service["Restart"] in ("on-failure", "always") and int(service["RestartSec"]) > 0
    unit_settings = dict(settings(text)["Unit"])
    assert int(unit_settings["StartLimitBurst"]) and int(unit_settings["StartLimitIntervalSec"])
    assert service["ProtectSystem"] == "strict" and service["NoNewPrivileges"] == "yes"
    assert service["PrivateTmp"] == "yes" and service["MemoryMax"] in ("1G", "2G")
    keys = {key for part in settings(text).values() for key, _ in part}
    assert (keys & SYSTEM_ONLY == set()) is not system
    assert ("User" in keys) is system
    target = dict(settings(text)["Install"])["WantedBy"]
    assert target in ("multi-user.target" if system else "default.target", "hearth-live.service")


def test_capture_goes_before_the_agent():
    live, agent = (dict(settings(unit_text(unit, rig(), place()))["Service"]) for unit in ("live", "agent"))
    assert int(live["CPUWeight"]) >= 10 * int(agent["CPUWeight"])
    assert int(live["Nice"]) < 0 < int(agent["Nice"])
    assert int(live["OOMScoreAdjust"]) < 0 < int(agent["OOMScoreAdjust"]), "the agent is ended first"
    assert "DeviceAllow" in live and agent["PrivateDevices"] == "yes"


def test_names_with_blanks_quotes_and_percent_signs_stay_what_they_are():
    service = dict(settings(unit_text("live", rig(), place()))["Service"])
    assert r'--rig "/srv/my home/50%% \"x\" $$y/rig.yaml"' in service["ExecStart"]
    assert service["WorkingDirectory"] == '/srv/my home/50%% "x" $y'
    assert service["ReadWritePaths"] == r'"/srv/my home/50%% \"x\" $y/data"'
    assert r'"NUMBA_CACHE_DIR=/srv/my home/50%%' in service["Environment"]
    described = dict(settings(unit_text("live", rig(), place()))["Unit"])["Description"]
    assert 'the 100%% "loft" @USER@' in described, "a rig's name is no place to fill in"


@pytest.mark.parametrize(
    ("more", "word"),
    [
        ("endpoints: {stream: 'tcp://127.0.0.1:0'}\n", "stays"),
        ("endpoints: {commands: 'ipc:///run/x'}\n", "put it there"),
    ],
)
def test_what_cannot_run_as_a_service_is_refused(more: str, word: str):
    with pytest.raises(InputError, match=word):
        unit_text("live", rig(more), place())
    keys = rig("security: {loopback: keys}\n")
    with pytest.raises(InputError, match="--with-agent"):
        unit_text("agent", keys, place())
    assert "--with-agent" in unit_text("live", keys, place(with_agent=True))
    with pytest.raises(InputError, match="temporary"):
        check_place(place(rig=Path("/tmp/rig.yaml")))
    with pytest.raises(InputError, match="temporary"):
        check_place(place(data=Path("/var/tmp/data")))
    check_place(place())
    with pytest.raises(InputError, match="live, agent, capture"):
        unit_name("perception")


# ------------------------------------------------------------------ systemd's own tools


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The units as files, for paths that are here."""
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed (package systemd)")
    folder = tmp_path_factory.mktemp("units")
    here = place(rig=Path("/etc/hostname"), data=Path("/srv/data"), directory=Path("/srv"))
    for unit in UNITS:
        (folder / unit_name(unit)).write_text(unit_text(unit, rig(), here))
    return [str(folder / unit_name(unit)) for unit in UNITS]


def test_systemd_understands_every_line(files: list[str]):
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", "--recursive-errors=one", *files],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    ours = [line for line in done.stderr.splitlines() if "hearth-" in line]
    assert ours == [] and done.returncode == 0, done.stderr


def test_systemd_calls_them_closed(files: list[str]):
    """Exposure from 0 (closed) to 10; a plain service has 9.6."""
    for path in files:
        done = subprocess.run(
            ["systemd-analyze", "security", "--offline=true", "--no-pager", path],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        found = re.search(r"Overall exposure level for \S+: ([\d.]+)", done.stdout)
        assert found, done.stderr
        assert float(found[1]) <= 2.5, done.stdout


# ------------------------------------------------------------------ the command


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "rig.yaml").write_text("hearth_rig: 1\nstorage: {folder: takes}\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*args: str) -> str:
    """`hearth service ARGS` in this process; raises its error."""
    result = CliRunner().invoke(app, ["service", *args])
    if isinstance(result.exception, HearthError):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.stdout


def test_a_dry_run_prints_what_install_would_write(folder: Path):
    user = json.loads(run("install", "--user", "--dry-run", "--json"))
    assert_documented("service install", user)
    assert list(user["units"]) == ["hearth-live.service", "hearth-agent.service"]
    assert user["written"] is False and user["folder"].endswith("/systemd/user")
    live = user["units"]["hearth-live.service"]
    assert f"{folder}/takes" in live and "User=" not in live and "--record" not in live
    text = run("install", "capture", "live", "--system", "--run-as", "root", "--record", "--dry-run")
    assert "# ----- /etc/systemd/system/hearth-capture.service" in text and "\nUser=root\n" in text
    assert re.search(r"^ExecStart=.* live --rig .*/rig\.yaml --record$", text, re.M)
    assert not (folder / "takes").exists(), "a dry run makes nothing"


@pytest.mark.parametrize(
    ("args", "word"),
    [
        (("install", "--rig", "none.yaml", "--dry-run"), r"none\.yaml"),
        (("install", "perception", "--dry-run"), "live, agent, capture"),
        (("install", "--system", "--run-as", "nobody-of-that-name", "--dry-run"), "no user"),
        (("install", "--user", "--run-as", "root", "--dry-run"), "--run-as"),
        (("install", "live", "agent", "--with-agent", "--dry-run"), "twice"),
        (("logs", "--follow", "--json"), "cannot follow"),
    ],
)
def test_wrong_use_is_told(folder: Path, args: tuple[str, ...], word: str):
    with pytest.raises(InputError, match=word):
        run(*args)


def test_without_systemd_it_says_so_and_what_works_all_the_same(folder: Path):
    if Path("/run/systemd/system").is_dir():
        pytest.skip("systemd runs here; the units are tested under one of their own")
    for command in ("status", "uninstall"):
        with pytest.raises(DeviceError, match="--with-agent"):
            run(command, "--system")


def test_only_our_own_files_are_replaced_or_removed(tmp_path: Path):
    ours, other = tmp_path / "a.service", tmp_path / "b.service"
    ours.write_text(unit_text("live", rig(), place()))
    other.write_text("[Unit]\n")
    assert is_ours(ours) and not is_ours(other) and not is_ours(tmp_path / "none")
