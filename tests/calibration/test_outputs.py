"""No calibration replaces what it reads."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from typer.testing import CliRunner

from calibration.outputs import refuse_overwriting
from dsp.errors import InputError
from hearth import app


def test_links_and_other_spellings_are_the_same_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    read = tmp_path / "pairs.csv"
    read.write_text("x")
    (tmp_path / "soft").symlink_to(read)
    os.link(read, tmp_path / "hard")
    monkeypatch.chdir(tmp_path)
    for same in (read, Path("pairs.csv"), tmp_path / "x" / ".." / "pairs.csv", Path("soft"), Path("hard")):
        with pytest.raises(InputError, match=r"--out .* would replace .*pairs\.csv"):
            refuse_overwriting({"--out": same}, [None, read])
    refuse_overwriting({"--out": tmp_path / "pose.json", "--page": None}, [read])
    with pytest.raises(InputError, match="--out and --page are the same file"):
        refuse_overwriting({"--out": Path("a.html"), "--page": tmp_path / "a.html"})


def test_files_that_a_folder_is_read_for(tmp_path: Path):
    for name in ("front.wav", "capsules.json", "capsules.html"):
        (tmp_path / name).write_text("x")
    refuse_overwriting(
        {"--out": tmp_path / "capsules.json", "--page": tmp_path / "capsules.html"}, [tmp_path]
    )
    with pytest.raises(InputError, match=r"front\.wav would replace"):
        refuse_overwriting({"--out": tmp_path / "front.wav"}, [tmp_path])
    (tmp_path / "episode.yaml").write_text("x")
    with pytest.raises(InputError, match=r"capsules\.json would replace"):
        refuse_overwriting({"--out": tmp_path / "capsules.json"}, [tmp_path])


@pytest.mark.parametrize(
    "words",
    [
        "camera in.png --out in.png",
        "camera in.png --export opencv:in.png",
        "camera other.png --out x.json --export ros:x.html",
        "pose in.csv --out in.csv",
        "pose other.csv --camera in.json --page in.json",
        "pose other.csv --out x.html",
        "sync in.mkv --out in.mkv",
        "capsules in.wav --directions in.csv --out in.csv",
        "capsules other.wav --calibrator in.wav --page in.wav",
        "room frame in.png --camera in.json --room in.json",
        "room device lamp --sound in.wav --page in.wav",
        "room rt60 in.wav --out in.wav",
        "room rt60 in.wav --write-sweep in.wav",
        "room show --room in.json --page in.json",
        "room show --room in.json --plan in.json",
        "room show --room in.json --write-rig x.html --page x.html",
        "convert in.yaml in.yaml --to ros",
    ],
)
def test_every_command_refuses_it(words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    for suffix in ("png", "csv", "json", "mkv", "wav", "yaml"):
        Path(f"in.{suffix}").write_text("measured")
    with pytest.raises(InputError, match=r"would replace|are the same file"):
        CliRunner().invoke(app, ["calibrate", *words.split()], catch_exceptions=False)
    assert {path.read_text() for path in tmp_path.iterdir()} == {"measured"}
