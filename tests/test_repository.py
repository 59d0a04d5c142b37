"""The repository itself: locked dependencies, sizes, what must not be in it, and the names that stay."""

from __future__ import annotations

import inspect
import json
import os
import re
import subprocess
from importlib import import_module
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

REPOSITORY = Path(__file__).resolve().parent.parent
NODE = REPOSITORY / "edge" / "stream" / "nodejs"
LIMIT = 2 << 20


def tracked() -> list[Path]:
    """The files of the repository that are there; skips outside of a git checkout."""
    try:
        done = subprocess.run(
            ["git", "ls-files", "-z"], cwd=REPOSITORY, capture_output=True, text=True, check=True, timeout=30
        )
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("not a git checkout, or git is not installed")
    return [path for name in done.stdout.split("\0") if name and (path := REPOSITORY / name).is_file()]


# ------------------------------------------------------------------ dependencies


def declared() -> list[Requirement]:
    """What pyproject.toml asks for, by default and by the extras of setup (3.10 has no tomllib)."""
    text = (REPOSITORY / "pyproject.toml").read_text(encoding="utf-8")
    found: list[Requirement] = []
    for name in ("dependencies", "perception", "dev"):
        block = re.search(rf"^{name} = \[(.*?)\]$", text, re.M | re.S)
        assert block, f"pyproject.toml has no {name}"
        lines = [line.split("#")[0] if '"' not in line else line for line in block.group(1).splitlines()]
        found += [Requirement(item) for item in re.findall(r'"([^"]+)"', "\n".join(lines))]
    return found


def locked() -> dict[str, set[str]]:
    """Name -> versions in requirements.lock."""
    text = (REPOSITORY / "requirements.lock").read_text(encoding="utf-8")
    found: dict[str, set[str]] = {}
    for name, version in re.findall(r"^([A-Za-z0-9._-]+)(?:\[[^\]]*\])?==([^\s;\\]+)", text, re.M):
        found.setdefault(canonicalize_name(name), set()).add(version)
    return found


def test_the_lock_covers_every_dependency_within_its_bounds():
    wanted = declared()
    assert len(wanted) > 20
    versions = locked()
    for requirement in wanted:
        there = versions.get(canonicalize_name(requirement.name), set())
        assert there, f"{requirement.name} is not in requirements.lock; run `make lock`"
        bad = [version for version in there if not requirement.specifier.contains(version)]
        assert not bad, f"{requirement} does not allow the locked {bad}; run `make lock`"


def test_the_lock_pins_hashes_and_names_no_registry():
    text = (REPOSITORY / "requirements.lock").read_text(encoding="utf-8")
    assert re.findall(r"https?://|--(?:extra-)?index-url|--find-links|--trusted-host", text) == []
    blocks = re.split(r"^(?=[A-Za-z0-9])", text, flags=re.M)
    unpinned = [b.split("\n")[0] for b in blocks if "==" in b.split("\n")[0] and "--hash=sha256:" not in b]
    assert unpinned == []


def test_the_node_lock_names_no_registry():
    lock = json.loads((NODE / "package-lock.json").read_text(encoding="utf-8"))
    packages = {name: entry for name, entry in lock["packages"].items() if name}
    assert packages
    assert [name for name, entry in packages.items() if "resolved" in entry] == []
    assert [name for name, entry in packages.items() if not entry.get("integrity")] == []
    wanted = json.loads((NODE / "package.json").read_text(encoding="utf-8")).get("dependencies", {})
    assert {f"node_modules/{name}" for name in wanted} <= set(packages)


# ------------------------------------------------------------------ files


def test_no_file_is_large():
    large = {str(p.relative_to(REPOSITORY)): p.stat().st_size for p in tracked() if p.stat().st_size > LIMIT}
    assert large == {}


# Folders that every machine has: a checkout in one of them does not make its name a private place.
COMMON = {"", "bin", "etc", "home", "media", "mnt", "opt", "root", "run", "srv", "tmp", "usr", "var"}


def places_of_this_machine() -> list[bytes]:
    """Absolute paths that mean something here only: the folder of this checkout, the one around it, home."""
    places = {REPOSITORY, REPOSITORY.parent, Path.home()}
    private = [place for place in places if len(place.parts) > 2 or place.name not in COMMON]
    return [os.fsencode(place) + b"/" for place in private]


def test_no_file_names_a_folder_of_this_machine():
    places = places_of_this_machine()
    assert os.fsencode(REPOSITORY) + b"/" in places
    found = []
    for path in tracked():
        data = path.read_bytes()
        # The place must not be a part of a longer path or address.
        if any(re.search(rb"(?<![\w./~-])" + re.escape(place), data) for place in places):
            found.append(str(path.relative_to(REPOSITORY)))
    assert found == []


# ------------------------------------------------------------------ README and docs


def test_the_readmes_table_lists_the_commands():
    from typer.main import get_command

    from hearth import app

    text = (REPOSITORY / "README.md").read_text(encoding="utf-8")
    table = text[text.index("| command | what it does |") :].split("\n\n")[0]
    cells = [row.split("|")[1] for row in table.splitlines()[2:]]
    named = [
        word
        for cell in cells
        for code in re.findall(r"`([^`]+)`", cell)
        for word in code.removeprefix("hearth ").split()[:1]
    ]
    assert sorted(named) == sorted(get_command(app).commands)  # type: ignore[attr-defined]


def test_links_between_documents_lead_somewhere():
    broken = []
    for page in [REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").glob("*.md"))]:
        text = page.read_text(encoding="utf-8")
        for target in re.findall(r"\]\(([^)\s]+)\)", text):
            if re.match(r"[a-z]+:", target):
                continue
            name, _, anchor = target.partition("#")
            path = (page.parent / name).resolve() if name else page
            if not path.exists() or (anchor and anchor not in _anchors(path)):
                broken.append(f"{page.name}: {target}")
    assert broken == []


def _anchors(page: Path) -> set[str]:
    heads = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.M)
    return {re.sub(r"[^\w -]", "", head.lower()).replace(" ", "-") for head in heads}


# ------------------------------------------------------------------ the names that strangers rely on

PUBLIC = {
    # module, name: the parameters that DESIGN section 8 promises, in their order
    ("dsp", "resample"): ("x", "fs_in", "fs_out", "quality"),
    ("dsp", "Resampler"): ("fs_in", "fs_out", "channels", "quality"),
    ("dsp", "Resampler.push"): ("self", "block"),
    ("dsp", "Resampler.flush"): ("self",),
    ("dsp", "encode"): ("mono", "azimuth_deg", "elevation_deg"),
    ("dsp", "convert"): ("x", "source", "target"),
    ("dsp", "estimate_doa"): ("foa", "fs"),
    ("dsp", "check"): ("foa", "fs"),
    ("recordings", "Episode.open"): ("path",),
    ("edge.stream", "Client"): ("address",),
}


@pytest.mark.parametrize(("module", "name"), PUBLIC, ids=[f"{m}.{n}" for m, n in PUBLIC])
def test_public_names_stay_and_are_described(module: str, name: str):
    found = import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    assert (inspect.getdoc(found) or "").strip(), "no docstring"
    wanted = PUBLIC[module, name]
    parameters = list(inspect.signature(found).parameters)
    assert len(parameters) >= len(wanted)
    if (module, name) == ("edge.stream", "Client"):
        assert "address" in parameters[0]  # the first one is the stream's
    else:
        assert tuple(parameters[: len(wanted)]) == wanted
    exported = getattr(import_module(module), "__all__", None)
    assert exported is None or name.split(".")[0] in exported


@pytest.mark.parametrize(
    "package",
    [
        "dsp",
        "recordings",
        "capture",
        "edge.stream",
        "edge.home",
        "edge.safety",
        "edge.perception",
        "edge.agent",
    ],
)
def test_a_packages_public_face_is_described(package: str):
    module = import_module(package)
    assert (module.__doc__ or "").strip()
    for name in module.__all__:
        found = getattr(module, name)
        if inspect.isfunction(found) or inspect.isclass(found):
            assert (inspect.getdoc(found) or "").strip(), f"{package}.{name} has no docstring"
