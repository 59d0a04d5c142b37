"""`hearth calibrate room rt60` as it is typed, and the guided form's guide."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import soundfile
from scipy.signal import oaconvolve
from typer.testing import CliRunner

import dsp
from calibration.result import load
from calibration.reverberation_live import RoomGuide
from calibration.room_file import read_section, update_room
from calibration.sweep import Sweep
from hearth import app
from tests.test_cli_json import assert_documented

FS = 24000
SWEEP = Sweep(FS, 1.0, 150.0, 9000.0)
WORDS = "1 150 9000"


def room(seed: int, rt_s: float = 0.3) -> np.ndarray:
    """A response with a clear direct sound, (frames,)."""
    t = np.arange(round(0.7 * FS)) / FS
    h = np.random.default_rng(seed).standard_normal(len(t)) * 10 ** (-3 * t / rt_s)
    h[0] = 12.0
    return h


def recording(path: Path, seed: int, noise: float) -> Path:
    """FOA with the sweep, from the front."""
    wet = oaconvolve(SWEEP.signal, room(seed))
    x = np.concatenate([np.zeros(FS), 0.3 * wet / np.abs(wet).max(), np.zeros(FS // 2)])
    foa = dsp.encode(x.astype(np.float32), 0.0, 0.0)
    foa = foa + noise * np.random.default_rng([seed, 1]).standard_normal(foa.shape)
    soundfile.write(path, foa, FS, subtype="PCM_24")
    return path


def run(folder: Path, *args: object, code: int = 0) -> dict:
    done = CliRunner().invoke(app, ["calibrate", "room", "rt60", *map(str, args), "--json"])
    assert (done.exit_code if done.exception is None or done.exit_code else 1) == code, done.output
    return json.loads(done.stdout)


def test_sweeps_fill_the_section_and_leave_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    update_room("room.json", "frame", {"x": 1.0}, units={"x": "m"})
    files = [recording(tmp_path / f"place{k}.wav", k, 1e-5) for k in range(2)]
    found = run(tmp_path, *files, "--sweep", WORDS, "--format", "ambix")
    assert_documented("calibrate room rt60", found)
    assert found["good"] and found["rt60_s"] == pytest.approx(0.3, rel=0.1) and found["places"] == 2
    assert read_section("room.json", "frame") == {"x": 1.0}
    kept = load("room.json", "room")
    assert read_section("room.json", "reverberation")["rt60_s"] == found["rt60_s"]
    assert {entry.name for entry in kept.inputs} == {"place0.wav", "place1.wav"}
    assert (tmp_path / "room_rt60.html").read_text().count("<svg") == len(found["bands"])


def test_too_much_noise_is_refused_and_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    h = room(3) / 12
    soundfile.write("response.wav", h + 0.02 * np.random.default_rng(0).standard_normal(len(h)), FS)
    found = run(tmp_path, "response.wav", "--response", code=1)
    assert_documented("calibrate room rt60", found)
    assert not found["good"] and found["result"] is None and "are needed" in found["problems"][0]["problem"]
    assert not Path("room.json").exists() and Path(found["page"]).is_file()


def test_what_cannot_be_read_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    recording(tmp_path / "a.wav", 0, 1e-5)
    soundfile.write("two.wav", np.zeros((FS, 2)), FS)
    for words, told in (
        (["a.wav"], "--format"),
        (["two.wav"], "--channel"),
        (["a.wav", "--format", "ambix", "--response", "--claps"], "two forms"),
        (["nothing.wav"], "no such file"),
        (["a.wav", "--sweep", "1 150"], "--sweep"),
    ):
        done = CliRunner().invoke(app, ["calibrate", "room", "rt60", *words])
        assert done.exit_code != 0 and told in str(done.exception), words


def test_the_sweep_is_written(tmp_path: Path):
    found = run(tmp_path, "--write-sweep", tmp_path / "sweep.wav")
    assert_documented("calibrate room rt60", found)
    x, fs = soundfile.read(tmp_path / "sweep.wav")
    assert fs == 48000 and len(x) == 13 * fs and np.abs(x).max() == pytest.approx(0.5, abs=1e-3)


@pytest.mark.parametrize("form", ["sweep", "pops"])
def test_the_guide_takes_each_once_and_says_what_it_is_worth(tmp_path: Path, form: str):
    said: list[str] = []
    guide = RoomGuide(tmp_path, SWEEP if form == "sweep" else None, FS, "ambix", said.append)
    sound = SWEEP.signal if form == "sweep" else np.ones(1)
    wet = oaconvolve(sound, room(1))
    x = 1e-5 * np.random.default_rng(0).standard_normal(12 * FS)
    x[2 * FS : 2 * FS + len(wet)] += 0.3 * wet / np.abs(wet).max()
    foa = np.round(dsp.encode(x.astype(np.float32), 30.0, 0.0) * 2.0**31).astype(np.int64)
    blocks = np.clip(foa, -(2**31), 2**31 - 1).astype(np.int32)
    for first in range(0, len(blocks), 2400):
        guide.add_sound(round(first / FS * 1e9), blocks[first : first + 2400])
    assert [p.name for p in guide.taken] == ["001.wav"] and "T30" in said[0]
    heard, fs = soundfile.read(guide.taken[0])
    assert fs == FS and heard.shape[1] == 4
