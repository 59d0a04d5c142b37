"""Capsules and wiring against simulated microphones whose truth is known."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import dsp
from bench.capsule_scene import FS, RADIUS_M, TO_B, directions, responses
from calibration.capsules_fit import fit_capsules
from calibration.capsules_response import Direction
from dsp.errors import CheckFailed, InputError

MADE = responses(np.random.default_rng(3))


def convert(source, target):
    return dsp.conversion_matrix(source, target)


def turned(yaw=0.0, pitch=0.0, roll=0.0):
    m = np.eye(4)
    m[1:, 1:] = dsp.rotation_matrix(yaw, pitch, roll)[np.ix_([1, 2, 0], [1, 2, 0])]
    return m


def order(*channels):
    return np.eye(4)[list(channels)]


# Format declared, what happened to the capsule signals, the code that names it.
REPAIRABLE = {
    "N3D read as AmbiX": ("ambix", convert("a", "n3d"), "normalisation"),
    "FuMa's W in AmbiX": ("ambix", np.diag([0.5**0.5, 1, 1, 1]) @ TO_B, "normalisation"),
    "FuMa read as AmbiX": ("ambix", convert("a", "fuma"), "format"),
    "AmbiX read as FuMa": ("fuma", TO_B, "format"),
    "AmbiX read as N3D": ("n3d", TO_B, "normalisation"),
    "A-format read as AmbiX": ("ambix", np.eye(4), "format"),
    "AmbiX read as A-format": ("a", TO_B, "format"),
    "the other layout of capsules": ("a", convert("a", "a2"), "format"),
    "weak axis": ("ambix", np.diag([1, 0.25, 1, 1]) @ TO_B, "weak"),
    "weak W": ("ambix", np.diag([0.25, 1, 1, 1]) @ TO_B, "weak"),
    "weak capsule": ("a", np.diag([1, 0.25, 1, 1]), "weak"),
    "inverted capsule": ("a", np.diag([1, 1, -1, 1]), "capsule_inverted"),
    "inverted capsule in AmbiX": ("ambix", TO_B @ np.diag([1, -1, 1, 1]), "capsule_inverted"),
    "two capsules exchanged": ("a", order(0, 2, 1, 3), "capsules_swapped"),
    "two channels exchanged": ("ambix", order(0, 2, 1, 3) @ TO_B, "channel_order"),
    "W in another channel": ("ambix", order(1, 0, 2, 3) @ TO_B, "channel_order"),
    "axis inverted": ("ambix", np.diag([1, -1, 1, 1]) @ TO_B, "axis_flipped"),
    "W inverted": ("ambix", np.diag([-1, 1, 1, 1]) @ TO_B, "w_inverted"),
    "upside down": ("ambix", turned(roll=180) @ TO_B, "upside_down"),
    "end-fire": ("ambix", turned(pitch=-90) @ TO_B, "end_fire"),
    "turned by 40 degrees": ("ambix", turned(yaw=40) @ TO_B, "rotated"),
    "turned by 90 degrees": ("ambix", turned(yaw=90) @ TO_B, "rotated"),
    "mirrored": ("ambix", order(0, 2, 1, 3) @ np.diag([1, -1, 1, -1]) @ TO_B, "mirrored"),
}


@pytest.mark.parametrize("name", REPAIRABLE)
def test_a_wiring_fault_is_named_and_undone(name):
    declared, change, code = REPAIRABLE[name]
    fit = fit_capsules(directions(MADE, change), declared)
    assert fit.ok and code in {f.code for f in fit.faults}, (fit.faults, fit.refusals)
    assert all(f.repaired for f in fit.faults)
    whole = fit.correction.matrix @ change @ np.linalg.inv(TO_B)
    assert np.abs(whole / whole[0, 0] - np.eye(4)).max() < 0.12  # a loudspeaker is 2 degrees off its label


def test_the_corrected_sound_has_no_fault_left():
    declared, change, _ = REPAIRABLE["inverted capsule in AmbiX"]
    made = directions(MADE, change)
    correction = fit_capsules(made, declared).require()
    mended = [replace(d, response=correction.apply(d.response.astype(np.float32))) for d in made]
    assert [f for f in fit_capsules(mended, "ambix").faults if f.code != "gains"] == []


@pytest.mark.parametrize(("declared", "channel", "frames"), [("ambix", 0, 40), ("ambix", 3, -7), ("a", 2, 3)])
def test_a_late_channel_is_named_and_brought_back(declared, channel, frames):
    change = TO_B if declared == "ambix" else np.eye(4)
    fit = fit_capsules(directions(MADE, change, shift=(channel, frames)), declared)
    late = [f for f in fit.faults if f.code == "time_shifted"]
    assert fit.ok and [f.channel for f in late] == [channel]
    away = fit.correction.delays_s * FS
    assert abs(away[channel] - frames) < 0.8 and np.abs(np.delete(away, channel)).max() < 0.1


LOST = {
    "dead axis": ("ambix", np.diag([1, 0, 1, 1]) @ TO_B, "dead"),
    "dead W": ("ambix", np.diag([0, 1, 1, 1]) @ TO_B, "dead"),
    "dead capsule": ("a", np.diag([1, 0, 1, 1]), "dead"),
    "dead capsule in AmbiX": ("ambix", TO_B @ np.diag([1, 0, 1, 1]), "capsule_dead"),
    "copy": ("ambix", order(0, 1, 1, 3) @ TO_B, "duplicated"),
    "inverted copy of W": ("ambix", np.diag([1, 1, -1, 1]) @ order(0, 1, 0, 3) @ TO_B, "duplicated"),
    "remixed": ("ambix", np.array([[0.5, 0, 0.5, 0], [0, 0.5, 0, 0.5]] * 2) @ TO_B, "remixed"),
}


@pytest.mark.parametrize("name", LOST)
def test_what_was_not_recorded_is_named_and_refused(name):
    declared, change, code = LOST[name]
    fit = fit_capsules(directions(MADE, change), declared)
    assert not fit.ok and [f.code for f in fit.faults] == [code]
    assert not any(f.repaired for f in fit.faults)
    with pytest.raises(CheckFailed, match="no correction replaces"):
        fit.require()


@pytest.mark.parametrize("declared", dsp.FORMATS)
def test_a_right_microphone_needs_no_wiring_in_any_format(declared):
    made = responses(np.random.default_rng(9), sigma_deg=0.5)
    change = convert("a", declared)
    fit = fit_capsules(directions(made, change), declared, placement_deg=0.5)
    assert fit.ok and fit.faults == ()
    assert np.abs(fit.gains_db).max() < 0.2
    whole = fit.correction.matrix @ change @ np.linalg.inv(TO_B)
    assert np.abs(whole - np.eye(4)).max() < 0.03


def test_nothing_to_correct_is_the_identity():
    fit = fit_capsules(directions(responses(np.random.default_rng(2), sigma_deg=0.0), TO_B), "ambix")
    assert fit.correction.is_identity and any("nothing is corrected" in text for text in fit.warnings)


def test_gains_delays_and_radius_with_honest_sigmas():
    rng = np.random.default_rng(5)
    errors, z, late_z = [], [], []
    for _ in range(4):
        gains_db = rng.normal(0, 0.5, 4)
        late_us = rng.normal(0, 5, 4)
        made = responses(rng, gains=10 ** (gains_db / 20), late_s=1e-6 * late_us)
        fit = fit_capsules(directions(made, rng=rng), "a")
        assert fit.ok and abs(fit.radius_m - RADIUS_M) < 0.0006
        off = fit.gains_db - (gains_db - gains_db.mean())
        errors.append(off)
        z.append(off / fit.gain_sigma_db)
        late_z.append((fit.delays_us - (late_us - late_us.mean())) / fit.delay_sigma_us)
        assert len(fit.parameters) == 8 and fit.covariance.shape == (8, 8)
    assert np.std(errors) < 0.1
    assert 0.25 < np.sqrt(np.mean(np.square(z))) < 1.5
    assert 0.1 < np.sqrt(np.mean(np.square(late_z))) < 1.5


def test_directions_come_right_for_unequal_capsules_behind_an_encoder():
    rng = np.random.default_rng(8)
    gains = 10 ** (np.array([0.8, -0.9, -0.4, 0.5]) / 20)
    fit = fit_capsules(directions(responses(rng, gains=gains), TO_B, rng=rng), "ambix")
    u = rng.standard_normal((200, 3))
    u /= np.linalg.norm(u, axis=1, keepdims=True)
    waves = np.column_stack([np.ones(200), u[:, [1, 2, 0]]])
    heard = waves @ (TO_B @ np.diag(gains) @ np.linalg.inv(TO_B)).T

    def off(x):
        v = x[:, [3, 1, 2]] / np.linalg.norm(x[:, 1:], axis=1, keepdims=True)
        return np.degrees(np.median(np.arccos(np.clip(np.sum(v * u, axis=1), -1, 1))))

    assert off(heard) > 4 and off(heard @ fit.correction.matrix.T) < 2


def test_free_directions():
    rng = np.random.default_rng(4)
    where = {
        f"p{i}": (a, e)
        for i, (a, e) in enumerate(zip(np.arange(0, 360, 30), [35, -35, 10, -60] * 3, strict=True))
    }
    gains_db = np.array([0.6, -0.2, -0.7, 0.3])
    made = responses(rng, where, gains=10 ** (gains_db / 20))
    fit = fit_capsules(directions(made, rng=rng), "a")
    assert fit.ok and np.abs(fit.gains_db - gains_db).max() < 0.3


def labelled(made, **wrong):
    return [(name, *wrong.get(name, (a, e)), h) for name, a, e, h in made]


def test_a_loudspeaker_beside_its_label_is_named():
    fit = fit_capsules(directions(labelled(MADE, left=(20.0, 30.0))), "a")
    assert not fit.ok and any("left" in problem for problem, _ in fit.refusals), fit.refusals
    fit = fit_capsules(directions(labelled(MADE, up=(0.0, 65.0))), "a")
    assert not fit.ok and any(problem.startswith("up") for problem, _ in fit.refusals), fit.refusals


def test_labels_that_no_wiring_explains_are_refused():
    exchanged = labelled(MADE, left=(0.0, 0.0), front=(0.0, 90.0), up=(180.0, 0.0), back=(90.0, 0.0))
    fit = fit_capsules(directions(exchanged, TO_B), "ambix")
    assert not fit.ok and "no wiring explains" in fit.refusals[0][0]


def test_noise_and_near_reflections_are_refused():
    fit = fit_capsules(directions(MADE, noise=0.02), "a")
    assert not fit.ok and any("above the noise" in problem for problem, _ in fit.refusals)
    made = responses(np.random.default_rng(1))
    near = responses(np.random.default_rng(1))
    echo = np.roll(near[2][3], round(0.00065 * FS), axis=0) * 0.8
    made[2] = (*made[2][:3], made[2][3] + echo)
    fit = fit_capsules(directions(made), "a")
    assert not fit.ok and any("left: a reflection follows 0." in problem for problem, _ in fit.refusals)


def test_what_is_no_measurement_raises():
    good = directions(MADE)
    with pytest.raises(InputError, match="too few"):
        fit_capsules(good[:5], "a")
    with pytest.raises(InputError, match="in one plane"):
        fit_capsules([*good[:4], *good[:4]], "a")
    with pytest.raises(InputError, match="one sample rate"):
        fit_capsules([*good[:5], Direction("down", 0, -90, good[5].response, 48000)], "a")
    with pytest.raises(InputError, match="unknown format"):
        fit_capsules(good, "b")
    with pytest.raises(InputError, match="placement_deg"):
        fit_capsules(good, "a", placement_deg=0)
    with pytest.raises(InputError, match="down"):
        fit_capsules([*good[:5], Direction("down", 0, -90, np.zeros((3000, 4)), FS)], "a")
