"""What a Jetson installs: every default dependency has a wheel for aarch64, on Python 3.10 and 3.12."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name, parse_wheel_filename

REPOSITORY = Path(__file__).parents[2]
FOLDER = REPOSITORY / "edge" / "service" / "container"
PYTHONS = ("3.10", "3.12")


def defaults() -> list[Requirement]:
    """The default dependencies of pyproject.toml."""
    text = (REPOSITORY / "pyproject.toml").read_text(encoding="utf-8")
    block = re.search(r"^dependencies = \[(.*?)\]$", text, re.M | re.S)
    assert block
    return [Requirement(item) for item in re.findall(r'"([^"]+)"', block.group(1))]


def pins(path: Path) -> dict[str, set[str]]:
    """Name -> versions of a lock file."""
    found: dict[str, set[str]] = {}
    for name, version in re.findall(
        r"^([A-Za-z0-9._-]+)==([^\s;\\]+)", path.read_text(encoding="utf-8"), re.M
    ):
        found.setdefault(canonicalize_name(name), set()).add(version)
    return found


def recorded(python: str) -> dict[str, str]:
    """What was resolved for a Jetson with this Python."""
    found = pins(FOLDER / f"aarch64-python{python}.txt")
    assert all(len(versions) == 1 for versions in found.values())
    return {name: versions.pop() for name, versions in found.items()}


def target(python: str) -> dict[str, str]:
    """Environment markers of the Jetson, not of this machine."""
    return {
        "python_version": python,
        "python_full_version": f"{python}.0",
        "platform_machine": "aarch64",
        "platform_system": "Linux",
        "sys_platform": "linux",
        "os_name": "posix",
        "platform_python_implementation": "CPython",
        "implementation_name": "cpython",
        "extra": "",
    }


def unmet(wanted: list[Requirement], there: dict[str, str], python: str) -> list[str]:
    """Requirements that count for the target and that the set does not fulfil."""
    return [
        str(need)
        for need in wanted
        if (need.marker is None or need.marker.evaluate(target(python)))
        and not need.specifier.contains(there.get(canonicalize_name(need.name), "0"), prereleases=True)
    ]


@pytest.mark.parametrize("python", PYTHONS)
def test_the_recorded_set_has_every_default_dependency_as_locked(python: str):
    there = recorded(python)
    assert unmet(defaults(), there, python) == [], "run `make lock`"
    locked = pins(REPOSITORY / "requirements.lock")
    other = {name: version for name, version in there.items() if version not in locked.get(name, set())}
    assert other == {}, "not what requirements.lock has; run `make lock`"
    text = (FOLDER / f"aarch64-python{python}.txt").read_text(encoding="utf-8")
    blocks = re.split(r"^(?=[A-Za-z0-9])", text, flags=re.M)[1:]
    assert all("--hash=sha256:" in block for block in blocks) and "://" not in text


def pip(*words: str) -> list[str]:
    quick = ("--quiet", "--retries", "1", "--timeout", "10", "--disable-pip-version-check")
    return [sys.executable, "-m", "pip", *words, *quick, "--no-deps"]


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """What pip would install on a Jetson, by Python; both are asked for at once."""
    glibc = ["manylinux2014_aarch64", *(f"manylinux_2_{minor}_aarch64" for minor in range(18, 36))]
    platforms = [word for tag in glibc for word in ("--platform", tag)]
    folders = {python: tmp_path_factory.mktemp("wheels") for python in PYTHONS}
    running = {}
    for python, folder in folders.items():
        lines = "".join(f"{name}=={version}\n" for name, version in recorded(python).items())
        (folder / "set.txt").write_text(lines)
        # pip would hold Requires-Python against the Python that runs it; the test looks at it for the target.
        words = ["--dry-run", "--ignore-installed", "--ignore-requires-python", "--only-binary=:all:"]
        words += ["--implementation", "cp", "--python-version", python, *platforms]
        words += ["--target", str(folder / "none"), "--report", str(folder / "report.json")]
        running[python] = subprocess.Popen(
            pip("install", *words, "-r", str(folder / "set.txt")), stderr=subprocess.PIPE, text=True
        )
    told = {python: process.communicate(timeout=150)[1] for python, process in running.items()}
    for python, process in running.items():
        if process.returncode:
            probe = pip("download", "--dest", str(folders[python] / "probe"), "idna")
            if subprocess.run(probe, capture_output=True, timeout=60, check=False).returncode:
                pytest.skip(f"no package registry can be reached: {told[python].strip()[-120:]}")
            pytest.fail(f"Python {python}: {told[python]}")
    return {python: json.loads((folder / "report.json").read_text()) for python, folder in folders.items()}


@pytest.mark.slow
@pytest.mark.parametrize("python", PYTHONS)
def test_every_wheel_exists_for_aarch64(python: str, reports: dict[str, dict[str, Any]]):
    """pip finds a wheel of each, for the platform tags of JetPack 6 (glibc 2.35); what each requires is in
    the set, by the target's markers. pip's own resolver would take the markers of this machine's Python."""
    there = recorded(python)
    found = {canonicalize_name(item["metadata"]["name"]): item for item in reports[python]["install"]}
    assert {name: item["metadata"]["version"] for name, item in found.items()} == there
    for name, item in found.items():
        tags = parse_wheel_filename(item["download_info"]["url"].rsplit("/", 1)[-1].split("#")[0])[3]
        assert any(tag.platform == "any" or tag.platform.endswith("_aarch64") for tag in tags), name
        assert SpecifierSet(item["metadata"].get("requires_python") or "").contains(f"{python}.0"), name
        needs = [Requirement(text) for text in item["metadata"].get("requires_dist", [])]
        assert unmet(needs, there, python) == [], f"{name} needs what is not in the set; run `make lock`"


def test_a_requirement_that_is_not_met_is_seen():
    need = [Requirement("exceptiongroup>=1; python_version < '3.11'"), Requirement("x>=2"), Requirement("y")]
    assert unmet(need, {"x": "1.0", "y": "1"}, "3.10") == [str(need[0]), "x>=2"]
    assert unmet(need, {"x": "2.0", "y": "1"}, "3.12") == []


def test_what_the_container_file_copies_is_there():
    """It is not built here; what it names must exist, and what it installs must be the recorded set."""
    text = (FOLDER / "Containerfile").read_text(encoding="utf-8").replace("\\\n", " ")
    lines = [shlex.split(line, comments=True) for line in text.splitlines()]
    copied = [
        word for line in lines if line[:1] == ["COPY"] for word in line[1:-1] if not word.startswith("--")
    ]
    packages = {path.parent.name for path in REPOSITORY.glob("*/commands.py")} | {"dsp"}
    assert packages <= set(copied), "a package is left out"
    for word in copied:
        for python in PYTHONS:
            path = Path(word.replace("${PYTHON}", python))
            assert path.is_absolute() or (REPOSITORY / path).exists(), word
    assert "--require-hashes" in text and "--only-binary=:all:" in text
    assert not re.search(r"[\w.-]+\.[a-z]{2,}/", text.replace(".txt", "")), "no registry's host"
    command = next(line for line in lines if line[:1] == ["CMD"])
    assert "live," in " ".join(command) and "--with-agent" in " ".join(command)
