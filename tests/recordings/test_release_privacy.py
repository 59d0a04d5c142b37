"""Releases and people: a withdrawal finds everything; what cannot be made safe does not go out."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import soundfile

from dsp.errors import CheckFailed, InputError
from recordings.consent.withdraw import withdraw
from recordings.release.checksums import check_checksums
from recordings.release.options import ReleaseOptions
from recordings.release.run import export_release
from recordings.storage import sha256_file
from tests.recordings.release_episodes import accept, household, profile, record
from tests.recordings.test_release_run import killed_at

FORMATS = ("omnismarthome", "dcase", "audiofolder", "bids", "webdataset")


@pytest.fixture(scope="module")
def withdrawn(tmp_path_factory) -> tuple[Path, Path, dict[str, set[str]], object]:
    """p1 (e1, e4) withdraws after releases were made, one of them cut off."""
    root, out = tmp_path_factory.mktemp("data"), tmp_path_factory.mktemp("releases")
    household(root)
    of: dict[str, set[str]] = {}
    for name in FORMATS:
        export_release(root, name, out / name)
        for line in (out / name / "provenance.jsonl").read_text().splitlines():
            row = json.loads(line)
            if row["item"] in ("e1", "e4") and row["sha256"]:
                of.setdefault(name, set()).add(row["sha256"])
    cut = out / "cut"
    assert killed_at(70, out / "cut", lambda: export_release(root, "omnismarthome", cut)) == -9
    assert (out / "cut.partial").is_dir()
    report = withdraw(root, "p1", also=[out], ignore_unexplained=False)
    return root, out, of, report


def test_nothing_of_the_person_is_left_in_any_release(withdrawn):
    _, out, of, report = withdrawn
    assert report.to_dict()["left"] == [] and report.to_dict()["unexplained"] == []
    assert not (out / "cut.partial").exists()
    gone = set().union(*of.values())
    assert gone
    for path in out.rglob("*"):
        if not path.is_file():
            continue
        assert sha256_file(path) not in gone, path
        text = path.read_bytes()
        if path.suffix not in (".wav", ".mkv", ".mp4", ".tar"):
            for word in (b'"e1"', b'"e4"', b'"p1"', b"\te1\n", b"sub-p1", b"Ada"):
                assert word not in text, (path, word)


@pytest.mark.parametrize("name", FORMATS)
def test_the_others_are_still_there(name, withdrawn):
    root, out, _, _ = withdrawn
    rows = [json.loads(line) for line in (out / name / "provenance.jsonl").read_text().splitlines()]
    assert {row["item"] for row in rows} == {"e2", "e3"}
    for row in rows:
        assert (out / name / row["output"]).is_file(), "what others have in it stays"
    assert check_checksums(out / name) == []
    assert len(list((out / name).rglob("*.wav"))) == (0 if name == "webdataset" else 2)
    with pytest.raises(InputError, match=r"withdrawal took files out|other episodes or options"):
        export_release(root, name, out / name, resume=True, need_accepted=False)
    export_release(root, name, out / name, replace=True, need_accepted=False)
    assert check_checksums(out / name) == []


def alone(root: Path) -> Path:
    """One short episode that may go out."""
    path = record(root, profile("e1", "s1", "p1", origin="virtual"), seconds=0.6).path
    accept(path)
    return path


def test_faces_that_are_not_found_stop_the_export(tmp_path):
    """Grey pictures of an episode in which somebody stands: nobody can say that the face is covered."""
    from recordings.privacy.faces import model_path

    try:
        model_path()
    except Exception as error:
        pytest.skip(f"the face detector's model is not installed: {error}")
    made = alone(tmp_path / "data")
    with pytest.raises(CheckFailed):
        export_release(made, "omnismarthome", tmp_path / "r", ReleaseOptions(blur=True))
    assert not (tmp_path / "r").exists()
    left = [path for path in (tmp_path / "r.partial").rglob("*") if path.suffix in (".mkv", ".mp4")]
    assert left == [], "no picture was written"


def test_an_episode_that_cannot_be_made_safe_stays_the_others_go(tmp_path):
    alone(tmp_path / "data")
    short = profile("e2", "s1", "p1", origin="virtual")  # too short to change a voice
    accept(record(tmp_path / "data", short, seconds=0.02).path)
    options = ReleaseOptions(voice_safe=True)
    for name in ("audiofolder", "webdataset"):
        out = tmp_path / name
        made = export_release(tmp_path / "data", name, out, options)
        assert [(one.path.name, one.code) for one in made.left_out] == [("e2", "unsafe")]
        assert "too short" in made.left_out[0].why
        assert "1 episode left out" in (out / "README.md").read_text()
        assert {row["item"] for row in json.loads((out / "splits.json").read_text())["items"]} == {"e1"}
        assert check_checksums(out) == [] and not (out / ".safe").exists()
    again = export_release(tmp_path / "data", name, out, options, resume=True)
    assert again.existing and "1 episode left out" in again.facts["notes"][0]


def test_voice_safe_sound_is_another_one_of_the_same_length(tmp_path):
    made = alone(tmp_path / "data")
    for name in ("a", "b"):
        options = ReleaseOptions(name="r", voice_safe=True, video=False)
        export_release(made, "audiofolder", tmp_path / name, options)
    safe, rate = soundfile.read(tmp_path / "a" / "data" / "train" / "e1.wav", dtype="float64")
    plain, _ = soundfile.read(made / "foa_24k.wav", dtype="float64")
    assert (rate, safe.shape) == (24000, plain.shape)
    assert np.corrcoef(safe[:, 0], plain[:, 0])[0, 1] < 0.9, "samples are not those of the voice"
    assert np.sqrt(np.mean(safe**2) / np.mean(plain**2)) == pytest.approx(1.0, abs=0.3)
    assert "Voices: made safe" in (tmp_path / "a" / "README.md").read_text()
    assert sha256_file(tmp_path / "a" / "checksums.sha256") == sha256_file(
        tmp_path / "b" / "checksums.sha256"
    )
