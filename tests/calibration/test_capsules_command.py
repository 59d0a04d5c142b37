"""`hearth calibrate capsules` on files and live: what is written, what is refused."""

from __future__ import annotations

import json

import numpy as np
import pytest
import soundfile
from scipy.signal import fftconvolve

import dsp
from bench.capsule_scene import FS, TO_B, responses
from calibration.capsules_command import capsules
from calibration.capsules_files import SIX, from_folder, from_recording
from calibration.capsules_fit import fit_capsules
from calibration.capsules_live import CapsuleGuide
from calibration.result import load
from calibration.sweep import Sweep
from dsp.errors import CheckFailed, InputError
from dsp.sample_faults import clipped_samples
from recordings.capsule_correction import read_correction

SWEEP = Sweep(FS, 1.0, 120.0, 10500.0)
GAINS_DB = np.array([0.5, -0.8, 0.4, -0.1])
WORDS = "1 120 10500"


@pytest.fixture(scope="module")
def sounds():
    """{name: (frames, 4) of the capsules} with a sweep after 0.6 s, and noise."""
    rng = np.random.default_rng(3)
    found = {}
    for name, _, _, h in responses(rng, gains=10 ** (GAINS_DB / 20)):
        wet = fftconvolve(SWEEP.signal[:, None], h, axes=0)
        wet = np.concatenate([np.zeros((round(0.6 * FS), 4)), wet, np.zeros((round(0.2 * FS), 4))])
        wet *= 0.2 / np.abs(wet).max()
        found[name] = wet + 1e-4 * rng.standard_normal(wet.shape)
    return found


def write(folder, sounds, change=np.eye(4), fs=FS):
    folder.mkdir()
    for name, x in sounds.items():
        soundfile.write(folder / f"{name}.wav", x @ np.asarray(change).T, fs, subtype="PCM_24")
    return folder


def run(tmp_path, capsys, source, **options):
    capsules(source, sweep=WORDS, out=tmp_path / "capsules.json", as_json=True, **options)
    return json.loads(capsys.readouterr().out)


def test_a_folder_ends_in_a_correction_that_recordings_can_use(tmp_path, capsys, sounds):
    said = run(tmp_path, capsys, write(tmp_path / "six", sounds), format_name="a")
    assert said["good"] and said["problems"] == [] and said["found_format"] == "a"
    assert not any("labels" in text for text in said["warnings"])
    assert np.abs(np.array(list(said["gains_db"].values())) - (GAINS_DB - GAINS_DB.mean())).max() < 0.3
    assert said["direction_error_deg"] < said["direction_error_before_deg"]
    # 1e-4 of white noise, weighted: -80 dB and what A takes of a band of 12 kHz.
    assert np.abs(np.array(said["noise_a_weighted_db"]) - -80).max() < 2
    result = load(said["result"], "capsules")
    assert result.covariance.sigma("gain_FLU_db") == pytest.approx(result.result["gain_sigma_db"]["FLU"])
    assert len(result.inputs) == 6 and result.quality["verified"]["faults"] == []
    page = (tmp_path / "capsules.html").read_text()
    assert page.count("<svg") >= 4 and "FRD" in page and "Noise floor" in page
    correction = read_correction(said["result"], "a")
    right = correction.apply(sounds["left"].astype(np.float32), FS)
    assert dsp.angular_error_deg(*direction(right), 90, 0) < 5


def direction(foa):
    w = foa[round(0.7 * FS) : round(1.4 * FS)]
    return dsp.unit_to_direction([w[:, 0] @ w[:, 3], w[:, 0] @ w[:, 1], w[:, 0] @ w[:, 2]])


def test_a_fault_is_repaired_and_said(tmp_path, capsys, sounds):
    said = run(
        tmp_path, capsys, write(tmp_path / "six", sounds, np.eye(4)[[0, 2, 1, 3]] @ TO_B), format_name="ambix"
    )
    assert said["good"] and "channel_order" in [f["code"] for f in said["faults"]]
    assert said["direction_error_before_deg"] > 60 and said["direction_error_deg"] < 4


def test_what_cannot_be_measured_writes_no_result(tmp_path, capsys, sounds):
    dead = write(tmp_path / "dead", sounds, np.diag([1, 1, 0, 1]) @ TO_B)
    with pytest.raises(CheckFailed, match="no correction to stand for"):
        capsules(dead, sweep=WORDS, format_name="ambix", out=tmp_path / "capsules.json", as_json=True)
    said = json.loads(capsys.readouterr().out)
    assert not said["good"] and said["result"] is None and not (tmp_path / "capsules.json").exists()
    assert "Z carries no signal" in said["problems"][0]["problem"]
    assert "no correction to stand for" in (tmp_path / "capsules.html").read_text()


def test_clipped_missing_and_silent_directions_are_named(tmp_path, sounds):
    folder = write(tmp_path / "bad", sounds)
    soundfile.write(folder / "left.wav", np.clip(sounds["left"] * 8, -1, 1), FS, subtype="PCM_24")
    soundfile.write(folder / "up.wav", 1e-3 * np.random.default_rng(0).standard_normal((2 * FS, 4)), FS)
    (folder / "down.wav").unlink()
    told = " ".join(problem for problem, _ in from_folder(folder, SWEEP, "a").problems)
    assert "left: " in told and "clipped" in told and "up: no sweep" in told and "no down.wav" in told


def test_flat_tops_below_full_scale_are_clipped_and_refused(tmp_path, capsys, sounds):
    flat = {name: np.clip(6 * x, -0.5, 0.5) for name, x in sounds.items()}
    with pytest.raises(CheckFailed, match="no correction to stand for"):
        run(tmp_path, capsys, write(tmp_path / "flat", flat), format_name="a")
    assert "samples clipped" in json.loads(capsys.readouterr().out)["problems"][0]["problem"]
    # 16 bits of a soft sound rest on their tops too.
    soft = (np.rint(sounds["left"] / 40 * 2**15) / 2**15).astype(np.float32)
    assert clipped_samples(soft) == 0


def test_a_reflection_stronger_than_the_direct_sound_is_named(tmp_path, capsys, sounds):
    late, loud = round(0.003 * FS), {}
    for name, x in sounds.items():
        loud[name] = 0.4 * x
        loud[name][late:] += sounds["up"][: len(x) - late]
    with pytest.raises(CheckFailed):
        run(tmp_path, capsys, write(tmp_path / "echo", loud), format_name="a")
    problem = json.loads(capsys.readouterr().out)["problems"][0]
    assert "a reflection 3.0 ms after the direct sound is louder" in problem["problem"]
    assert "aim the loudspeaker" in problem["remedy"]


def test_exchanged_labels_are_warned_of(tmp_path, capsys, sounds):
    words = "the labels were exchanged: check before you use it"
    pairs = {"left": "right", "right": "left"}
    two = write(tmp_path / "two", {name: sounds[pairs.get(name, name)] for name in sounds})
    assert words in " ".join(fit_capsules(from_folder(two, SWEEP, "a").directions, "a").warnings)
    pairs |= {"up": "down", "down": "up", "front": "back", "back": "front"}
    every = write(tmp_path / "all", {name: sounds[pairs[name]] for name in sounds})
    said = run(tmp_path, capsys, every, format_name="a")
    assert words in " ".join(said["warnings"])
    assert words in " ".join(load(said["result"], "capsules").warnings)
    assert words in (tmp_path / "capsules.html").read_text()


def test_files_that_do_not_fit_together(tmp_path, sounds):
    folder = write(tmp_path / "bad", sounds)
    soundfile.write(folder / "left.wav", sounds["left"], 48000, subtype="PCM_24")
    with pytest.raises(InputError, match="in one setting"):
        from_folder(folder, SWEEP, "a")
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="no directions"):
        from_folder(tmp_path / "empty", SWEEP, "a")
    (folder / "directions.csv").write_text("name,azimuth_deg,elevation_deg\nnothing,0,0\n")
    with pytest.raises(InputError, match="line 2: no sound file 'nothing'"):
        from_folder(folder, SWEEP, "a")


def test_one_recording_and_a_table(tmp_path, sounds):
    times, at = [], 0.6
    for name, (azimuth, elevation) in SIX.items():
        times.append(f"{at:.1f},{azimuth},{elevation},{name}")
        at += len(sounds[name]) / FS
    soundfile.write(tmp_path / "all.wav", np.concatenate(list(sounds.values())), FS, subtype="PCM_24")
    table = tmp_path / "when.csv"
    table.write_text("time_s,azimuth_deg,elevation_deg,name\n" + "\n".join(times) + "\n")
    got = from_recording(tmp_path / "all.wav", table, SWEEP, "a")
    assert [d.name for d in got.directions] == list(SIX) and not got.problems
    fit = fit_capsules(got.directions, "a")
    assert fit.ok and np.abs(fit.gains_db - (GAINS_DB - GAINS_DB.mean())).max() < 0.3
    table.write_text("time_s,azimuth_deg,elevation_deg\n30,0,0\n")
    assert (
        "no sweep within a second" in from_recording(tmp_path / "all.wav", table, SWEEP, "a").problems[0][0]
    )


def test_claps_are_the_quick_form(tmp_path):
    rng = np.random.default_rng(7)
    folder = tmp_path / "claps"
    folder.mkdir()
    clap = np.exp(-np.arange(30) / 6) * rng.standard_normal(30)
    for name, _, _, h in responses(rng, gains=10 ** (GAINS_DB / 20)):
        x = fftconvolve(clap[:, None], h, axes=0)
        x = 0.3 * x / np.abs(x).max() + 1e-4 * rng.standard_normal(x.shape)
        soundfile.write(folder / f"{name}.wav", x, FS, subtype="PCM_24")
    fit = fit_capsules(from_folder(folder, None, "a").directions, "a", placement_deg=5.0)
    assert fit.ok and np.abs(fit.gains_db - (GAINS_DB - GAINS_DB.mean())).max() < 0.5


def test_the_guide_takes_quiet_and_six_directions(tmp_path, sounds):
    said = []
    guide = CapsuleGuide(tmp_path / "live", SWEEP, FS, "a", said.append)
    clock = [0]

    def hear(x):
        for part in np.array_split(np.rint(x * 2**31).astype(np.int64).clip(-(2**31), 2**31 - 1), 8):
            guide.add_sound(clock[0], part.astype(np.int32))
            clock[0] += round(len(part) / FS * 1e9)

    assert "quiet" in guide.next_step()
    hear(1e-4 * np.random.default_rng(1).standard_normal((6 * FS, 4)))
    assert "in front" in guide.next_step() and (tmp_path / "live" / "quiet.wav").is_file()
    pause = 1e-4 * np.ones((FS, 4))
    hear(np.concatenate([np.clip(8 * sounds["front"], -1, 1), pause]))
    assert "clipped" in said[-1] and guide.missing[0] == "front"
    for name in SIX:
        hear(np.concatenate([sounds[name], pause]))
        assert said[-1].startswith(f"{name} taken"), said[-1]
    assert guide.done
    got = from_folder(tmp_path / "live", SWEEP, "a")
    assert len(got.directions) == 6 and got.quiet_from == "quiet.wav" and not got.problems
