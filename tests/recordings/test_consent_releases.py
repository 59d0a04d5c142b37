"""Withdrawal from real releases of every format, and from what `hearth process` made."""

from __future__ import annotations

import hashlib
import json
import shutil
import tarfile
from pathlib import Path

import pytest

from dsp.errors import MissingDependency
from recordings.consent.provenance import read_provenance
from recordings.consent.withdraw import withdraw
from recordings.release.checksums import check_checksums
from recordings.release.formats import FORMATS
from recordings.release.run import export_release
from recordings.storage import sha256_file
from recordings.verify_episode import verify
from tests.recordings.release_episodes import household


def hashes_in(folder: Path) -> set[str]:
    """SHA-256 of every file, and of every member of a tar."""
    found = set()
    for path in folder.rglob("*"):
        if path.is_file():
            found.add(sha256_file(path))
            if path.suffix == ".tar":
                with tarfile.open(path) as tar:
                    held = (tar.extractfile(member) for member in tar)
                    found |= {hashlib.sha256(file.read()).hexdigest() for file in held if file}
    return found


@pytest.fixture(scope="module")
def after(tmp_path_factory: pytest.TempPathFactory):
    """A data folder with every release that can be made here, p1 withdrawn."""
    data = tmp_path_factory.mktemp("withdrawn") / "data"
    made = household(data)
    out = data.parent / "out"
    missing = {}
    for name in FORMATS:
        try:
            with_pictures = [made["e1"], made["e2"], made["e3"]]  # what LeRobot asks for
            export_release(with_pictures if name == "lerobot" else data, name, out / name)
        except MissingDependency as error:
            missing[name] = str(error)
            shutil.rmtree(out / f"{name}.partial", ignore_errors=True)
    gone = hashes_in(made["e1"]) | hashes_in(made["e4"])
    gone -= hashes_in(made["e2"]) | hashes_in(made["e3"])
    alone: set[str] = set()
    for name in set(FORMATS) - set(missing):
        rows = read_provenance(out / name)
        theirs = {row.sha256 for row in rows if row.item in ("e2", "e3")}
        alone |= {row.sha256 for row in rows if row.item in ("e1", "e4") and row.sha256} - theirs
    report = withdraw(data, "p1", also=[out])
    return data, out, made, gone, {digest for digest in alone if digest}, report, missing


def test_nothing_is_left_anywhere(after):
    data, out, _, gone, alone, report, _ = after
    assert report.done, (report.outcome.left, report.outcome.unexplained)
    assert len(gone) >= 10 and len(alone) >= 6
    now = hashes_in(data) | hashes_in(out)
    assert not now & gone and not now & alone
    for path in [*out.rglob("*"), *(p for p in data.rglob("*") if "erased" not in p.parts)]:
        if path.is_file() and path.suffix not in (
            ".tar",
            ".wav",
            ".mkv",
            ".mp4",
            ".parquet",
            ".mcap",
            ".png",
        ):
            text = path.read_text(encoding="utf-8", errors="replace")
            assert '"p1"' not in text and "Ada" not in text and "sub-p1" not in text, path
            assert not any(digest in text for digest in gone | alone), path


@pytest.mark.parametrize("name", list(FORMATS))
def test_the_others_stay_in_the_release_and_its_checksums_hold(after, name):
    _, out, _, _, _, report, missing = after
    if name in missing:
        pytest.skip(missing[name])
    root = out / name
    whole = not (root / "REEXPORT.json").exists()
    assert check_checksums(root) == []
    left = read_provenance(root)
    for row in left:
        if row.member is not None and row.sha256 is not None:
            with tarfile.open(root / row.output) as tar:
                held = tar.extractfile(row.member)
                assert held and hashlib.sha256(held.read()).hexdigest() == row.sha256
    assert {row.item for row in left} == {"e2", "e3"}
    assert all((root / row.output).is_file() for row in left)
    assert whole == (str(root) not in report.outcome.re_export)
    kinds = {Path(row.member or row.output).suffix for row in left}
    if name not in ("mcap", "lerobot"):  # an MCAP names the household, a Parquet table holds all episodes
        assert ".wav" in kinds, "the others' sound is still there"
    assert name != "mcap" or (".mcap" not in kinds and not whole)
    if not whole:
        assert json.loads((root / "REEXPORT.json").read_text())["hearth_reexport"] == 1
        made = after[2]
        export_release([made["e2"], made["e3"]], name, root, replace=True)
        assert not (root / "REEXPORT.json").exists() and check_checksums(root) == []


def test_the_others_episodes_verify(after):
    made = after[2]
    assert not made["e1"].exists() and not made["e4"].exists()
    for name in ("e2", "e3"):
        assert verify(made[name]).ok
