"""The check of a recording: faults made by their definition in plane-wave fields; real files."""

from __future__ import annotations

import json

import numpy as np
import pytest

import dsp
from dsp.errors import InputError

FS = 24000
SECONDS = 6


def room(seed: int) -> np.ndarray:
    """(frames, 4) AmbiX: bursts of coloured noise from two directions, each with 1500 reflections."""
    rng = np.random.default_rng(seed)
    n = SECONDS * FS
    out = np.zeros((n, 4))
    for _ in range(2):
        envelope = np.repeat(rng.uniform(0, 1, SECONDS * 5) > 0.5, FS // 5)[:n]
        dry = np.convolve(rng.standard_normal(n), 0.85 ** np.arange(40), "same") * envelope
        response = np.zeros((int(0.5 * FS), 4))
        response[0] = dsp.encode(np.ones(1), rng.uniform(-180, 180), rng.uniform(-20, 30))[0]
        delays = rng.uniform(0.003, 0.5, 1500)
        towards = rng.standard_normal((1500, 3))
        az, el = dsp.unit_to_direction(towards)
        gains = 0.12 * 10 ** (-3 * delays / 0.4) * rng.choice([-1, 1], 1500)
        waves = np.array([dsp.encode(np.array([g]), a, e)[0] for g, a, e in zip(gains, az, el, strict=True)])
        np.add.at(response, (delays * FS).astype(int).clip(0, len(response) - 1), waves)
        size = 1 << 18
        spectrum = np.fft.rfft(dry, size)[:, None] * np.fft.rfft(response, size, axis=0)
        out += np.fft.irfft(spectrum, size, axis=0)[:n]
    out *= 0.3 / np.max(np.abs(out))
    return (out + 3e-5 * rng.standard_normal(out.shape)).astype(np.float32)


ROOMS = [room(seed) for seed in range(3)]


def codes(report, *severities):
    return {f.code for f in report.findings if f.severity in (severities or ("fault", "warning"))}


@pytest.mark.parametrize(("room_number", "name"), [(0, "ambix"), (1, "ambix"), *enumerate(dsp.FORMATS)][1:])
def test_a_healthy_recording_has_no_finding_in_any_format(room_number, name):
    foa = ROOMS[room_number % 3]
    report = dsp.check(dsp.convert(foa, source="ambix", target=name), FS, name)
    assert codes(report) == set(), report.to_dict()["findings"]
    assert report.ok
    json.dumps(report.to_dict())


@pytest.mark.parametrize("fs", [44100, 48000])
def test_other_rates(fs):
    foa = dsp.resample(ROOMS[0], FS, fs)
    assert codes(dsp.check(foa, fs)) == set()
    n3d = dsp.convert(foa, source="ambix", target="n3d")
    assert dsp.check(n3d, fs).normalisation == "n3d"


@pytest.mark.parametrize("foa", ROOMS)
def test_normalisation_is_named(foa):
    n3d = dsp.check(dsp.convert(foa, source="ambix", target="n3d"), FS)
    assert (n3d.normalisation, codes(n3d)) == ("n3d", {"normalisation"})
    fuma = dsp.check((foa * [0.5**0.5, 1, 1, 1]).astype(np.float32), FS)
    assert (fuma.normalisation, codes(fuma)) == ("fuma", {"normalisation"})
    assert dsp.check(foa, FS).normalisation == "ambix"


@pytest.mark.parametrize("foa", ROOMS)
@pytest.mark.parametrize("channel", [1, 2, 3])
def test_dead_and_weak_channels(foa, channel):
    # At -12 dB a healthy channel in a dry room is not far away: named, but as a doubt where it is one.
    for gain, code, severities in (
        (0.0, "dead", {"fault"}),
        (1e-5, "dead", {"fault"}),
        (0.1, "weak", {"fault"}),
        (0.25, "weak", {"fault", "warning"}),
    ):
        x = foa.copy()
        x[:, channel] *= gain
        found = [f for f in dsp.check(x, FS).findings if f.severity in ("fault", "warning")]
        assert found[0].severity in severities
        assert [(f.code, f.channel) for f in found] == [(code, channel)]
        assert "WYZX"[channel] in found[0].message


@pytest.mark.parametrize("layout", ["a", "a2"])
@pytest.mark.parametrize("capsule", range(4))
def test_capsule_faults_are_named_from_b_format_and_from_capsules(layout, capsule):
    for gain, code in ((0.0, "capsule_dead"), (-1.0, "capsule_inverted")):
        a = dsp.convert(ROOMS[capsule % 3], source="ambix", target=layout)
        a[:, capsule] *= gain
        report = dsp.check(dsp.convert(a, source=layout, target="ambix"), FS)
        (finding,) = [f for f in report.findings if f.severity == "fault"]
        assert finding.code == code
        assert dsp.CHANNEL_NAMES[layout][capsule] in finding.message
    inverted = dsp.check(a, FS, layout)
    assert [f.channel for f in inverted.findings if f.code == "capsule_inverted"] == [capsule]


def test_clipping_below_full_scale_too():
    x = ROOMS[0].copy()
    x[:, 3] = np.clip(x[:, 3], -0.08, 0.08)
    (finding,) = [f for f in dsp.check(x, FS).findings if f.code == "clipped"]
    assert finding.channel == 3
    x = ROOMS[0] * 6
    assert "clipped" in codes(dsp.check(np.clip(x, -1, 1), FS))


def test_a_slow_sine_is_not_clipped():
    t = np.arange(5 * FS) / FS
    sine = np.round(0.2 * np.sin(2 * np.pi * 40 * t) * 2**15) / 2**15
    assert "clipped" not in codes(dsp.check(dsp.encode(sine, 20, 10), FS))


def test_dc_and_nan():
    x = ROOMS[1].copy()
    x[:, 2] += 0.004
    x[7, 0] = np.nan
    report = dsp.check(x, FS)
    assert {(f.code, f.channel) for f in report.findings if f.code in ("dc", "nonfinite")} == {
        ("dc", 2),
        ("nonfinite", 0),
    }


def test_copies_and_mono():
    for i, j, gain in ((0, 2, 1.0), (3, 1, -0.5)):
        x = ROOMS[2].copy()
        x[:, i] = gain * x[:, j]
        (finding,) = [f for f in dsp.check(x, FS).findings if f.code == "duplicated"]
        assert finding.channel == max(i, j)
    mono = np.repeat(ROOMS[2][:, :1], 4, axis=1)
    assert "duplicated" in codes(dsp.check(mono, FS))


@pytest.mark.parametrize(("channel", "frames"), [(0, 7), (1, -20), (2, 31), (3, 2)])
def test_a_shifted_channel_is_named_with_its_shift(channel, frames):
    x = ROOMS[1].copy()
    x[:, channel] = np.roll(x[:, channel], frames)
    (finding,) = [f for f in dsp.check(x, FS).findings if f.severity in ("fault", "warning")]
    assert (finding.code, finding.channel) == ("time_shifted", channel)
    assert finding.value == pytest.approx(frames / FS * 1000, abs=0.05)


def test_a_shift_does_not_hide_the_normalisation():
    x = dsp.convert(ROOMS[0], source="ambix", target="n3d")
    x[:, 0] = np.roll(x[:, 0], 25)
    report = dsp.check(x, FS)
    assert codes(report) == {"time_shifted", "normalisation"}
    assert report.normalisation == "n3d"


@pytest.mark.parametrize("layout", ["a", "a2"])
@pytest.mark.parametrize("foa", ROOMS[:2])
def test_capsule_signals_and_b_format_are_not_taken_for_each_other(foa, layout):
    capsules = dsp.convert(foa, source="ambix", target=layout)
    for declared, x in (("ambix", capsules), ("n3d", capsules), (layout, foa)):
        (finding,) = [f for f in dsp.check(x, FS, declared).findings if f.severity == "fault"]
        assert finding.code == "format"


@pytest.mark.parametrize("elevation", [0, 25])
def test_one_plane_wave_in_fuma_read_as_ambix_accuses_no_capsule(elevation):
    voice = np.concatenate([ROOMS[0][:, 0], ROOMS[1][:, 0]])
    fuma = dsp.convert(dsp.encode(voice, 35, elevation), source="ambix", target="fuma")
    fuma += (1e-5 * np.random.default_rng(2).standard_normal(fuma.shape)).astype(np.float32)
    assert not codes(dsp.check(fuma, FS, "ambix")) & {"capsule_inverted", "capsule_dead", "format"}


def test_an_audio_servers_remix_is_named():
    x = ROOMS[0]
    two = (x[:, :2] + x[:, 2:]) / 2
    report = dsp.check(np.concatenate([two, two], axis=1), FS)
    assert {"remixed", "duplicated"} <= codes(report, "fault")


def test_cut_short_empty_gaps_and_short():
    empty = dsp.check(np.zeros((0, 4), np.float32), FS)
    assert not empty.ok and codes(empty) == {"empty"}
    json.dumps(empty.to_dict())
    cut = ROOMS[0].copy()
    cut[-FS:] = 0
    (finding,) = [f for f in dsp.check(cut, FS).findings if f.severity in ("fault", "warning")]
    assert (finding.code, finding.t_s) == ("truncated", pytest.approx(SECONDS - 1, abs=1e-3))
    gaps = ROOMS[0].copy()
    gaps[FS : FS + 480] = gaps[3 * FS : 3 * FS + 480] = 0
    (finding,) = [f for f in dsp.check(gaps, FS).findings if f.severity in ("fault", "warning")]
    assert (finding.code, finding.value) == ("dropout", pytest.approx(40))
    short = dsp.check(ROOMS[0][:600], FS)
    assert "too_short" in codes(short, "unknown") and codes(short) == set()
    assert codes(dsp.check(ROOMS[0][:1], FS), "fault") == {"dead"}  # one sample: nothing moves


def test_a_channel_that_goes_away_in_the_middle_is_found_with_its_time():
    x = np.concatenate([*ROOMS, *ROOMS])  # 36 s
    x[20 * FS :, 3] = 0
    (finding,) = [f for f in dsp.check(x, FS).findings if f.code == "dead"]
    assert (finding.channel, finding.t_s) == (3, 20.0)


def test_pieces_give_the_same_report_whatever_their_length():
    x = np.concatenate([*ROOMS, *ROOMS])[: 31 * FS + 77]
    whole = dsp.check(x, FS)
    rng = np.random.default_rng(3)
    edges = np.unique(np.concatenate([[0, len(x)], rng.integers(0, len(x), 40)]))
    pieces = np.split(x, edges[1:-1])
    assert dsp.check_pieces(pieces, FS).to_dict() == whole.to_dict()


def test_a_report_reads_as_text():
    text = str(dsp.check(dsp.convert(ROOMS[0], source="ambix", target="n3d"), FS))
    first, second = text.splitlines()[:2]
    assert first.startswith("NOT OK: 6.0 s read as ambix") and "fault" in second and "N3D" in second
    assert text.splitlines()[-1].split(":")[1].strip().startswith("W -")


def test_what_cannot_be_known_is_unknown_not_a_fault():
    noise = np.random.default_rng(0).standard_normal(5 * FS) * 0.1
    one_wave = dsp.check(
        dsp.encode(noise, 0, 0), FS
    )  # Y and Z are silent, rightly; it is told as dead channels
    assert "normalisation" in codes(one_wave, "unknown")
    oblique = dsp.check(dsp.encode(noise, 40, 30), FS)
    assert codes(oblique) == set()
    own_noise = dsp.check(
        (1e-4 * np.random.default_rng(1).standard_normal((5 * FS, 4))).astype(np.float32), FS
    )
    assert own_noise.normalisation == "unknown"
    assert codes(own_noise) == set()
    silence = dsp.check(np.zeros((FS, 4), np.float32), FS)
    assert codes(silence) == {"dead"}
    for report in (one_wave, oblique, own_noise, silence):
        assert "orientation" in codes(report, "unknown")


@pytest.mark.parametrize("name", ["ambix", "fuma"])
@pytest.mark.parametrize(("azimuth", "elevation", "nulls"), [(90, 0, "ZX"), (0, 0, "YZ"), (90, 40, "X")])
@pytest.mark.parametrize("rms", [0.03, 0.2])
def test_a_source_in_the_null_of_a_channel_is_no_dead_channel(name, azimuth, elevation, nulls, rms):
    rng = np.random.default_rng(4)
    foa = dsp.encode(rms * rng.standard_normal(4 * FS), azimuth, elevation)
    foa += (1e-4 * rms / 0.2 * rng.standard_normal(foa.shape)).astype(np.float32)
    report = dsp.check(dsp.convert(foa, source="ambix", target=name), FS, name)
    assert not codes(report, "fault") - {"clipped"}, report.to_dict()["findings"]
    low = [f for f in report.findings if f.code == "weak"]
    assert {dsp.CHANNEL_NAMES[name][f.channel] for f in low} == set(nulls)
    assert all(f.severity == "unknown" and "null" in f.message for f in low)


def test_a_channel_that_no_direction_silences_is_dead():
    rng = np.random.default_rng(5)
    wave = dsp.encode(0.1 * rng.standard_normal(4 * FS), 40, 30)
    for channels in ([0], [1, 2, 3]):
        x = wave.copy()
        x[:, channels] *= 1e-4
        found = [f for f in dsp.check(x, FS).findings if f.code == "dead"]
        assert [(f.channel, f.severity) for f in found] == [(c, "fault") for c in channels]
    two = ROOMS[0] * np.float32([1, 1, 1e-4, 1e-4])  # in a room also two at once
    assert [f.channel for f in dsp.check(two, FS).findings if f.code == "dead"] == [2, 3]


def test_absurd_levels_do_not_make_the_others_dead():
    x = ROOMS[0].astype(np.float64)
    x[100:200, 1] = 1e26 * np.arange(100)
    report = dsp.check(x, FS)
    assert not report.ok and "dead" not in codes(report)
    for scale in (1e26, 1e30):
        report = dsp.check(ROOMS[0] * np.float64([scale, 1e20, scale, scale]), FS)
        assert not report.ok and "dead" not in codes(report)
        assert not any("carries no signal" in f.message for f in report.findings)


def test_order_and_signs_are_never_guessed():
    """A mirror, an axis flip or another order of X, Y, Z is a valid sound field: no finding may appear."""
    for x in (ROOMS[0] * [1, -1, 1, 1], ROOMS[0] * [1, 1, -1, -1], ROOMS[0][:, [0, 3, 1, 2]]):
        assert codes(dsp.check(x.astype(np.float32), FS)) == set()


def test_refusals():
    with pytest.raises(InputError, match=r"\(10, 2\)"):
        dsp.check(np.zeros((10, 2), np.float32), FS)
    with pytest.raises(InputError, match="sn3d"):
        dsp.check(np.zeros((10, 4), np.float32), FS, "sn3d")
    with pytest.raises(InputError, match="int16"):
        dsp.check(np.zeros((10, 4), np.int16), FS)


def real(shared_data, path):
    import soundfile

    x, fs = soundfile.read(shared_data / "foa" / path, dtype="float32")
    return x[:, :4], fs


def test_the_dead_z_of_a_real_recording_is_found(shared_data):
    report = dsp.check(*real(shared_data, "jsambisonics-foa/BF_rec1.ogg"), "fuma")
    assert [(f.code, f.channel) for f in report.findings if f.severity == "fault"] == [("dead", 3)]


@pytest.mark.parametrize("path", ["jsambisonics-hoa3/HOA3_rec1_01-08ch.ogg", "rir/IR_Gewandhaus_SH1.wav"])
def test_real_n3d_files_are_told_from_ambix(shared_data, path):
    foa, fs = real(shared_data, path)
    wrong = dsp.check(foa, fs, "ambix")
    assert "normalisation" in codes(wrong, "fault")
    assert wrong.normalisation == "n3d"
    assert "dropout" not in codes(wrong)  # a tail that fades below the last bit is no lost sound
    assert dsp.check(foa, fs, "n3d").ok


@pytest.mark.parametrize(
    ("path", "name"), [("jsambisonics-foa/BF_rec2.ogg", "fuma"), ("eigenscape/Beach.1.wav", "ambix")]
)
def test_healthy_real_files_are_not_accused(shared_data, path, name):
    assert dsp.check(*real(shared_data, path), name).ok


@pytest.mark.parametrize("seed", range(4))
def test_the_noise_of_a_quiet_room_is_no_shifted_channel(seed: int) -> None:
    noise = 3e-4 * np.random.default_rng(seed).standard_normal((10 * 24000, 4)).astype(np.float32)
    report = dsp.check(dsp.convert(noise, source="a", target="ambix"), 24000)
    assert "time_shifted" not in {f.code for f in report.findings}
