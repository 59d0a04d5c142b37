"""The front door: what `hearth --help` shows, what it does not load, and which package may import which."""

from __future__ import annotations

import ast
import importlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

REPOSITORY = Path(__file__).resolve().parent.parent
# DESIGN section 1: each may import itself and what stands before it.
ORDER = ("dsp", "recordings", "capture", "calibration", "edge", "hearth")
PANELS = {
    "Start here": ["demo"],
    "Record": ["record", "plan", "session", "consent", "import", "repair"],
    "Live": ["live", "agent", "stream"],
    "Look at recordings": [
        "episodes",
        "verify",
        "check",
        "doa",
        "align",
        "evaluate",
        "safety",
        "profile",
        "report",
        "review",
        "trim",
        "convert",
        "export-audio",
    ],
    "Release": ["export", "process", "card"],
    "Set up": ["doctor", "init", "service", "keys", "home", "people", "calibrate"],
}
HEAVY = ("cv2", "av", "numba", "zmq", "matplotlib", "sounddevice", "scipy", "faster_whisper")


def in_a_fresh_process(code: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join(filter(None, [str(REPOSITORY), os.environ.get("PYTHONPATH", "")]))
    return subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )


def test_help_is_a_table_of_contents(monkeypatch: pytest.MonkeyPatch):
    from hearth import app

    monkeypatch.setenv("COLUMNS", "160")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TERM", "dumb")
    result = CliRunner().invoke(app, ["--help"])
    assert result.exit_code == 0
    found: dict[str, list[str]] = {}
    panel = ""
    for line in result.stdout.splitlines():
        if line.startswith("╭─ "):
            panel = line.removeprefix("╭─ ").split(" ─")[0]
        elif line.startswith("│ ") and panel != "Options" and line[2] != " ":
            found.setdefault(panel, []).append(line[2:].split()[0])
    assert {name: sorted(commands) for name, commands in found.items()} == {
        name: sorted(commands) for name, commands in PANELS.items()
    }
    assert list(found) == list(PANELS), "panels stand in the order in which one needs them"


def leaves(command: Any) -> list[Any]:
    """The command, or those below it when it is a group, or a group of groups."""
    below = getattr(command, "commands", None)
    return [command] if below is None else [leaf for c in below.values() for leaf in leaves(c)]


@pytest.mark.parametrize("command", [name for names in PANELS.values() for name in names])
def test_every_command_has_help_for_itself_and_its_options(command: str):
    from typer.main import get_command

    from hearth import app

    found = get_command(app).commands[command]  # type: ignore[attr-defined]
    assert found.help, "no docstring"
    # A command with commands of its own has no options; those below it have.
    for part in leaves(found):
        assert part.help, f"{part.name} has no docstring"
        for parameter in part.params:
            assert getattr(parameter, "help", None), f"{part.name}: {parameter.name} has no help"
        options = [option for parameter in part.params for option in parameter.opts]
        assert "--json" in options, part.name


def test_importing_hearth_loads_nothing_heavy():
    code = f"import hearth, json, sys; print(json.dumps([m for m in {HEAVY!r} if m in sys.modules]))"
    assert json.loads(in_a_fresh_process(code).stdout) == []


@pytest.mark.parametrize("args", [[], ["--help"]])
def test_without_a_command_the_help_is_shown(args: list[str]):
    code = f"import sys, hearth; sys.argv = ['hearth', *{args!r}]; hearth.main()"
    try:
        done = in_a_fresh_process(code)
    except subprocess.CalledProcessError as error:
        assert not args and error.returncode == 2, error.stderr
        text = error.stdout + error.stderr
    else:
        text = done.stdout
    assert "Look at recordings" in text and "Traceback" not in text


# ------------------------------------------------------------------ import directions


def sources() -> list[tuple[str, Path]]:
    """(package, module) of every module of the product."""
    found = [("hearth", REPOSITORY / "hearth.py")]
    for package in ORDER[:-1]:
        found += [(package, path) for path in sorted((REPOSITORY / package).rglob("*.py"))]
    return found


def imported(text: str, package_of_module: str) -> set[str]:
    """Our packages that a module imports, anywhere in it: at the top, within functions, for type checking."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add(package_of_module if node.level else node.module or "")
        elif isinstance(node, ast.Call) and _called(node.func) in ("import_module", "__import__"):
            names |= {str(a.value) for a in node.args[:1] if isinstance(a, ast.Constant)}
    return {name.split(".")[0] for name in names} & {*ORDER, "tests", "bench", "examples", "scripts"}


def _called(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def wrong_imports(package: str, text: str) -> set[str]:
    allowed = set(ORDER[: ORDER.index(package) + 1])
    return imported(text, package) - allowed


def test_imports_go_one_way():
    modules = sources()
    assert {package for package, _ in modules} == set(ORDER)
    wrong = {
        str(path.relative_to(REPOSITORY)): names
        for package, path in modules
        if (names := wrong_imports(package, path.read_text(encoding="utf-8")))
    }
    assert wrong == {}


@pytest.mark.parametrize(
    ("package", "text"),
    [
        ("dsp", "from recordings.wav_read import read_wav"),
        ("recordings", "def f():\n    import capture.rig"),
        ("capture", "if TYPE_CHECKING:\n    from edge.live import LiveService"),
        ("calibration", "importlib.import_module('edge.stream')"),
        ("edge", "import hearth"),
        ("edge", "from tests.conftest import REPOSITORY"),
    ],
)
def test_a_wrong_import_would_be_seen(package: str, text: str):
    assert len(wrong_imports(package, text)) == 1
    assert (
        wrong_imports("dsp", "import numpy\nfrom . import levels\nfrom dsp.errors import InputError") == set()
    )


def test_every_commands_module_registers():
    modules = sorted(path.parent.name for path in REPOSITORY.glob("*/commands.py"))
    assert {"capture", "recordings", "calibration", "edge"} <= set(modules)
    registered = set()
    for package in modules:
        app = typer.Typer()
        importlib.import_module(f"{package}.commands").register(app)
        assert app.registered_commands or app.registered_groups, f"{package}.commands registers nothing"
        for command in app.registered_commands:
            assert command.rich_help_panel in PANELS
            registered.add(command.name or command.callback.__name__)  # type: ignore[union-attr]
        for group in app.registered_groups:
            assert group.rich_help_panel in PANELS
            registered.add(group.name)
    from typer.main import get_command

    from hearth import app as front

    assert registered == set(get_command(front).commands), "hearth.py leaves a package's commands out"  # type: ignore[attr-defined]
