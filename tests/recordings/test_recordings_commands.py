"""The commands: one JSON object on stdout, exit codes that tell the truth."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest
import soundfile
from typer.testing import CliRunner

import dsp
from dsp.errors import CheckFailed, HearthError, InputError
from hearth import app
from recordings import EpisodeWriter, Profile
from recordings.wav_write import WavWriter


def run(*args) -> tuple[int, str]:
    """(exit code as hearth.main gives it, stdout)."""
    result = CliRunner().invoke(app, [str(arg) for arg in args])
    if isinstance(result.exception, HearthError):
        return result.exception.exit_code, result.stdout
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.stdout


@pytest.fixture
def take(tmp_path):
    mono = 0.1 * np.random.default_rng(0).standard_normal(48000)
    writer = WavWriter(tmp_path / "take.wav", 48000, 4, sample_type="float", format_name="fuma")
    writer.write(dsp.convert(dsp.encode(mono, -75.0, 5.0), source="ambix", target="fuma"))
    writer.close()
    return tmp_path / "take.wav"


def test_import_list_verify_check_doa(tmp_path, take):
    data = tmp_path / "data"
    code, out = run("import", take, "--into", data, "--no-report", "--json")
    assert code == 0
    imported = json.loads(out)
    assert imported["format"] == "fuma" and imported["sound_ok"] is True
    folder = imported["episode"]

    code, out = run("episodes", data, "--json")
    listed = json.loads(out)
    assert code == 0 and listed["interrupted"] == 0
    assert [row["path"] for row in listed["episodes"]] == [folder]

    code, out = run("verify", folder, "--json")
    assert code == 0 and json.loads(out)["ok"] is True

    for path in (take, folder):
        code, out = run("check", path, "--json")
        result = json.loads(out)["results"][0]
        assert code == 0 and result["ok"] is True and result["format"] == "fuma"
        table = tmp_path / "doa.csv"
        code, out = run("doa", path, "--csv", table, "--json")
        assert code == 0
        assert abs(json.loads(out)["azimuth_deg"] - -75.0) < 1.0
        assert (
            table.read_text().splitlines()[0].startswith("time_s,azimuth_deg,elevation_deg,confidence,track,")
        )
        rows = list(csv.DictReader(table.open()))
        assert [float(row["time_s"]) for row in rows] == pytest.approx([0.1 * i for i in range(10)])
        assert all(abs(float(row["azimuth_deg"]) - -75.0) < 3.0 for row in rows[1:-1])
        assert {row["track"] for row in rows} == {""}


def test_a_changed_episode_leaves_with_1(tmp_path, take):
    _, out = run("import", take, "--into", tmp_path / "data", "--no-report", "--json")
    folder = json.loads(out)["episode"]
    with open(f"{folder}/timeline.jsonl", "a") as file:
        file.write("{}\n")
    code, out = run("verify", folder, "--json")
    assert code == 1
    result = json.loads(out)
    assert result["ok"] is False and result["results"][0]["problems"]


def test_a_faulty_recording_leaves_with_1(tmp_path):
    dead = np.random.default_rng(0).uniform(-0.1, 0.1, (48000, 4))
    dead[:, 2] = 0
    soundfile.write(tmp_path / "dead.wav", dead, 48000, subtype="PCM_24")
    code, out = run("check", tmp_path / "dead.wav", "--format", "ambix", "--json")
    assert code == 1
    findings = json.loads(out)["results"][0]["findings"]
    assert ("dead", 2) in [(finding["code"], finding["channel"]) for finding in findings]


def test_wrong_use_leaves_with_2_and_a_message(tmp_path, take):
    assert run("verify", tmp_path / "nothing")[0] == 2
    assert run("episodes", tmp_path / "nothing")[0] == 2
    soundfile.write(tmp_path / "untagged.wav", np.zeros((100, 4)), 48000)
    assert run("doa", tmp_path / "untagged.wav")[0] == 2
    with pytest.raises(InputError, match="contradicts"):
        raise CliRunner().invoke(app, ["check", str(take), "--format", "ambix"]).exception
    assert issubclass(CheckFailed, HearthError)


def test_interrupted_episodes_are_listed_first_and_repaired(tmp_path, take):
    data = tmp_path / "data"
    run("import", take, "--into", data, "--no-report")
    profile = Profile(id="zz-cut", session="zz", created_utc="2026-01-01T00:00:00Z", origin="recorded")
    writer = EpisodeWriter.create(data, profile, {"rate_hz": 48000, "channels": 4, "format": "ambix"}, None)
    rng = np.random.default_rng(0)
    for i in range(30):
        block = rng.integers(-(1 << 28), 1 << 28, (480, 4), np.int32)
        writer.write_audio(block, 10**9 + i * 10**7, i, i * 480)
    writer.abort("test")
    empty = EpisodeWriter.create(
        data,
        Profile(id="zz-empty", session="zz", created_utc="2026-01-01T00:00:00Z", origin="recorded"),
        {"rate_hz": 48000, "channels": 4, "format": "ambix"},
        None,
    )
    empty.abort("test")
    code, out = run("episodes", data, "--json")
    states = [(row["id"][:8], row["state"]) for row in json.loads(out)["episodes"]]
    assert code == 0 and [state for _, state in states] == ["interrupted", "interrupted", "finished"]
    code, out = run("repair", writer.path, "--no-report", "--json")
    assert code == 0 and json.loads(out)["results"][0]["audio_s"] == 0.3
    code, out = run("repair", writer.path, empty.path, "--no-report", "--json")
    assert code == 1
    results = json.loads(out)["results"]
    assert [result["ok"] for result in results] == [True, False]
    assert "nothing to repair" in results[1]["problems"][0]


def test_nothing_is_written_into_a_sealed_episode(tmp_path, take):
    _, out = run("import", take, "--into", tmp_path / "data", "--no-report", "--json")
    folder = json.loads(out)["episode"]
    assert run("doa", folder, "--csv", f"{folder}/foa_48k/x.csv")[0] == 2
    assert run("doa", take, "--csv", f"{folder}/x.csv")[0] == 2
    assert run("report", folder, "--out", f"{folder}/x.html")[0] == 2
    assert run("verify", folder)[0] == 0
    for above in (tmp_path / "data", Path(folder).parent):
        result = CliRunner().invoke(app, ["verify", str(above)])
        assert isinstance(result.exception, InputError)
        assert f"give the episodes, e.g. `hearth verify {Path(folder).parent}/*/`" in str(result.exception)


def test_an_ordinary_folder_is_not_an_episode(tmp_path):
    (tmp_path / "notes.txt").write_text("x")
    result = CliRunner().invoke(app, ["verify", str(tmp_path)])
    assert isinstance(result.exception, InputError) and "is not an episode" in str(result.exception)


def test_a_truncated_file_is_a_fault(tmp_path):
    sound = np.random.default_rng(0).uniform(-0.1, 0.1, (48000, 4))
    soundfile.write(tmp_path / "cut.wav", sound, 48000, subtype="PCM_24")
    whole = (tmp_path / "cut.wav").read_bytes()
    (tmp_path / "cut.wav").write_bytes(whole[: -12 * 1000])
    code, out = run("check", tmp_path / "cut.wav", "--format", "ambix", "--json")
    result = json.loads(out)["results"][0]
    assert code == 1 and result["ok"] is False
    (finding,) = [finding for finding in result["findings"] if finding["code"] == "truncated"]
    assert (finding["severity"], finding["value"]) == ("fault", 1000)
