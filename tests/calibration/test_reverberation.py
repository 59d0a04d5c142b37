"""Reverberation against closed forms, published values and what a careless method gets wrong."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from calibration.reverberation import Response, measure, put_together
from calibration.reverberation_decay import Band, bands_for, decay_of, onset
from calibration.reverberation_files import clipped, gather, hum, of_claps, of_sweeps, shared_drift
from calibration.reverberation_report import lines, section, summary, write_page
from calibration.sweep import Sweep
from dsp.errors import InputError

FS = 24000
WIDE = Band("broadband", 90.0, 11000.0)
OCTAVE = Band.octave(1000)
R3VIVAL = Path(__file__).resolve().parents[2].parent / "shared" / "data" / "calib" / "r3vival"


def decaying(seed: int, rt_s: float, seconds: float, before_s: float = 0.1) -> np.ndarray:
    """Gaussian noise whose level falls by 60 dB in rt_s."""
    t = np.arange(round(seconds * FS)) / FS
    h = np.random.default_rng(seed).standard_normal(len(t)) * 10 ** (-3 * t / rt_s)
    return np.concatenate([np.zeros(round(before_s * FS)), h])


def floor(seed: int, h: np.ndarray, level_db: float) -> np.ndarray:
    return 10 ** (level_db / 20) * np.random.default_rng([seed, 1]).standard_normal(len(h))


AT = round(0.1 * FS)


# ------------------------------------------------------------------ one band


def test_an_exponential_tone_has_its_closed_form_values():
    t = np.arange(2 * FS) / FS
    rt = 0.6
    h = np.concatenate([np.zeros(AT), np.sin(2 * np.pi * 1000 * t) * 10 ** (-3 * t / rt)])
    found = decay_of(h, FS, OCTAVE, AT)
    for name in ("t30", "t20"):
        assert found.values[name].value == pytest.approx(rt, rel=2e-3)
        assert found.lines[name].nonlinearity_permille < 0.2
    assert found.curvature_percent == pytest.approx(0, abs=0.2)
    # Of an exponential decay: C50 = 10 lg(exp(k 50 ms) - 1), k = 6 ln 10 / RT.
    k = 6 * np.log(10) / rt
    assert found.values["c50"].value == pytest.approx(10 * np.log10(np.exp(0.05 * k) - 1), abs=0.1)
    assert found.values["d50"].value == pytest.approx(1 - np.exp(-0.05 * k), abs=0.005)


def test_a_minus_45_db_floor_changes_nothing_or_is_refused():
    for seed in range(3):
        for rt in (0.3, 0.9):
            h = decaying(seed, rt, 2.0)
            for band in (WIDE, OCTAVE, Band.octave(4000)):
                clean = decay_of(h, FS, band, AT)
                noisy = decay_of(h + floor(seed, h, -45.5), FS, band, AT)
                assert set(noisy.values) | set(noisy.refused) >= {"t30", "t20", "edt", "c50", "d50"}
                for name in ("t30", "t20", "edt"):
                    if name in noisy.values:
                        assert noisy.values[name].value == pytest.approx(clean.values[name].value, rel=0.02)
        assert "t30" in decay_of(decaying(seed, 0.9, 2.0) + floor(seed, h, -50), FS, WIDE, AT).values


def test_range_is_the_level_of_the_floor_and_little_of_it_is_refused():
    h = decaying(3, 0.8, 2.0)
    for level in (-60.0, -50.0, -40.0, -30.0):
        found = decay_of(h + floor(3, h, level), FS, WIDE, AT)
        assert found.range_db == pytest.approx(-level, abs=1.0)
        assert ("t30" in found.values) == (level <= -50) and ("t20" in found.values) == (level <= -40)
    assert "45 dB are needed" in found.refused["t30"] and "35 dB are needed" in found.refused["t20"]
    assert found.refused["t30"].startswith(f"{found.range_db:.1f} dB")


def test_plain_backward_integration_is_wrong_where_this_is_right():
    h = decaying(4, 0.5, 2.0)
    noisy = h + floor(4, h, -50)
    clean, found = (decay_of(x, FS, WIDE, AT).values["t30"].value for x in (h, noisy))
    left = np.cumsum((noisy[AT:] ** 2)[::-1])[::-1]
    level = 10 * np.log10(left / left[0])
    first, last = np.argmax(level <= -5), np.argmax(level <= -35)
    slope = np.polyfit(np.arange(first, last) / FS, level[first:last], 1)[0]
    assert abs(-60 / slope / clean - 1) > 0.2 and abs(found / clean - 1) < 0.01


def test_sigmas_are_those_of_the_errors():
    noise, room = [], []
    for seed in range(24):
        h = decaying(seed, 0.5, 1.2)
        clean, found = decay_of(h, FS, OCTAVE, AT), decay_of(h + floor(seed, h, -50), FS, OCTAVE, AT)
        value = found.values["t20"]
        noise.append((value.value - clean.values["t20"].value) / value.noise)
        room.append((value.value - 0.5) / value.sigma)
    for scores in (noise, room):
        assert 0.6 < np.sqrt(np.mean(np.square(scores))) < 1.5
    # ISO 3382-2: sd of T20 = 0.88 T sqrt((1 + 1.90 / n) / (B T)), n = 10 for impulse responses, B = 0.71 f.
    iso = 0.88 * 0.5 * np.sqrt(1.19 / (710 * 0.5))
    assert value.sigma == pytest.approx(iso, rel=0.35)


def test_a_late_decay_under_the_noise_is_not_guessed():
    t = np.arange(3 * FS) / FS
    energy = 10 ** (-6 * t / 0.4) + 0.003 * 10 ** (-6 * t / 1.6)
    h = np.random.default_rng(5).standard_normal(len(t)) * np.sqrt(energy)
    h = np.concatenate([np.zeros(AT), h])
    clean = decay_of(h, FS, WIDE, AT)
    assert clean.curvature_percent > 40
    near = decay_of(h + floor(5, h, -47), FS, WIDE, AT)
    assert "t30" not in near.values and "bent" in near.refused["t30"] + near.refused.get("t20", "")
    far = decay_of(h + floor(5, h, -62), FS, WIDE, AT)
    assert far.values["t30"].value == pytest.approx(clean.values["t30"].value, rel=0.02)


def test_ends_of_files_are_no_noise_floor():
    h = decaying(6, 0.5, 2.0)
    clean = decay_of(h, FS, WIDE, AT).values["t30"].value
    noisy = h + floor(6, h, -55)
    fade = np.ones(len(h))
    fade[-FS // 2 :] = np.linspace(1, 0, FS // 2)
    for x in (noisy * fade, np.concatenate([noisy, np.zeros(FS)])):
        found = decay_of(x, FS, WIDE, AT)
        assert found.values["t30"].value == pytest.approx(clean, rel=0.02)
        assert found.range_db == pytest.approx(55, abs=1.5)
    short = decay_of(noisy[: AT + round(0.25 * FS)], FS, WIDE, AT)
    assert not short.meets_noise and "before the response ends" in short.refused["t30"]


def turned_down(h: np.ndarray, kind: str) -> np.ndarray:
    """Behind a soft gate (at -30 dB, fading with 0.1 s) or an expander (2:1 below -20 dB)."""
    level = np.sqrt(np.convolve(h**2, np.ones(240) / 240, "same"))
    level /= level.max()
    if kind == "expander":
        return h * np.minimum(1, level / 10 ** (-20 / 20))
    closes = np.flatnonzero(level > 10 ** (-30 / 20))[-1]
    gain = np.ones(len(h))
    gain[closes:] = np.exp(-np.arange(len(h) - closes) / (0.1 * FS))
    return h * gain


@pytest.mark.parametrize("kind", ["gate", "expander"])
def test_a_decay_that_falls_ever_faster_is_no_room(kind: str):
    for seed in (1, 2):
        h = decaying(seed, 0.6, 2.0)
        h += floor(seed, h, -75)
        assert {"t20", "t30"} <= set(measure(Response("a", "a", h, FS)).decays[0].values)
        wrong = put_together([measure(Response("a", "a", turned_down(h, kind), FS))])
        assert wrong.rt60 is None or (wrong.rt60[1] == "t20" and kind == "gate")
        for band in wrong.bands:
            assert "t30" not in band.values
        assert "expander" in wrong.bands[0].refused["t30"]


def test_a_response_that_runs_backwards_is_refused():
    h = decaying(3, 0.6, 2.0)
    h += floor(3, h, -75)
    with pytest.raises(InputError, match="backwards"):
        measure(Response("a", "a", h[::-1], FS))


@pytest.mark.filterwarnings("error")
def test_gain_control_gives_no_warning_of_numpy():
    h = decaying(0, 0.6, 3.0)
    level = np.sqrt(np.convolve(h**2, np.ones(240) / 240, "same"))
    loud = h / np.sqrt(np.maximum(level / level.max(), 1e-3))
    for d in measure(Response("a", "a", loud, FS)).decays:
        assert all(np.isfinite([v.value, v.noise, v.sigma]).all() for v in d.values.values())


def test_noise_alone_has_no_decay_and_no_response_is_an_error():
    found = decay_of(np.random.default_rng(0).standard_normal(FS), FS, OCTAVE, AT)
    assert not found.values and set(found.refused) == {"t30", "t20", "edt", "c50", "d50"}
    for bad in (np.zeros(FS), np.ones((FS, 2)), np.full(FS, np.nan), np.ones(10)):
        with pytest.raises(InputError):
            onset(bad, FS)
    with pytest.raises(InputError, match="100 ms"):
        decay_of(decaying(0, 0.5, 0.05), FS, OCTAVE, AT)


def test_the_direct_sound_is_found_though_a_reflection_is_louder():
    h = np.zeros(FS)
    h[4000], h[4500] = 0.3, -1.0
    assert onset(h + 1e-4 * np.random.default_rng(0).standard_normal(FS), FS) == 4000


def test_octaves_that_fit():
    assert [b.name for b in bands_for(48000)][:2] == ["broadband", "125 Hz"]
    assert [b.name for b in bands_for(16000)][-1] == "4000 Hz"
    assert [b.name for b in bands_for(48000, 120.0, 10000.0)][1:] == [
        f"{f} Hz" for f in (250, 500, 1000, 2000, 4000)
    ]
    with pytest.raises(InputError):
        bands_for(48000, 9000.0, 12000.0)


# ------------------------------------------------------------------ rooms


def test_places_are_averaged_and_repeats_are_not_places():
    def response(place: str, name: str, seed: int, rt: float) -> Response:
        return Response(name, place, decaying(seed, rt, 1.5), FS)

    one = put_together([measure(response("a", "a", 1, 0.5))])
    assert one.rt60 is not None and one.rt60[1] == "t30" and one.rt60[0].sd is None
    assert any("one place" in text for text in one.warnings)
    again = [response("a", "a at 0 s", 1, 0.5), response("a", "a at 9 s", 1, 0.5), response("b", "b", 2, 0.7)]
    both = put_together([measure(r) for r in again])
    t30 = next(b for b in both.bands if b.band.name == "broadband").values["t30"]
    assert t30.places == 2 and t30.value == pytest.approx(0.6, rel=0.05) and t30.repeat_sd == 0
    assert t30.sd == pytest.approx(0.2 / np.sqrt(2), rel=0.2) and t30.sigma == pytest.approx(0.1, rel=0.2)
    with pytest.raises(InputError, match="why not"):
        put_together([], skipped=[("x.wav", "why not")])


def test_the_section_the_words_and_the_page(tmp_path: Path):
    h = decaying(7, 0.5, 1.0)
    found = put_together([measure(Response("here", "here", h + floor(7, h, -40), FS))])
    value, units, quality = section(found, {"kind": "response"})
    wide = value["bands"][0]
    assert (
        wide["t30_s"] is None
        and "45 dB" in wide["refused"]["t30_s"]
        and wide["t20_s"] == pytest.approx(0.5, rel=0.1)
    )
    assert quality["places"] == ["here"] and "bands" in units
    assert summary(found)["good"] is True
    text = "\n".join(lines(found))
    assert "left out: " in text and "T20" in text
    html = write_page(tmp_path / "page.html", found, "here").read_text()
    assert html.count("<svg") == len(found.bands) and "45 dB are needed" in html


# ------------------------------------------------------------------ recordings


def played(sweep: Sweep, h: np.ndarray, times_s: list[float], seconds: float, noise: float) -> np.ndarray:
    from scipy.signal import oaconvolve

    x = noise * np.random.default_rng(9).standard_normal(round(seconds * FS))
    wet = oaconvolve(sweep.signal, h)
    wet *= 0.4 / np.abs(wet).max()
    for t in times_s:
        first = round(t * FS)
        part = wet[: len(x) - first]
        x[first : first + len(part)] += part
    return x


def test_sweeps_in_a_recording_give_the_decay_of_the_room():
    sweep = Sweep(FS, 2.0, 80.0, 10500.0)
    h = decaying(8, 0.4, 1.0, 0.0) + np.concatenate([[6.0], np.zeros(FS - 1)])
    x = played(sweep, h, [1.2, 5.2], 9.5, 1e-4)
    found = of_sweeps(x, FS, sweep, "sofa")
    assert [r.name for r in found] == ["sofa at 1.2 s", "sofa at 5.2 s"]
    assert shared_drift(found, sweep) is None, "repeats at one place agree for the wrong reason"
    truth = {
        d.band.name: d for d in measure(Response("t", "t", np.concatenate([np.zeros(AT), h]), FS)).decays
    }
    for one in found:
        for d in measure(one).decays:
            if d.band.name != "broadband" and "t30" in d.values:
                assert d.values["t30"].value == pytest.approx(
                    truth[d.band.name].values["t30"].value, rel=0.02
                )
    given = [d.band.name for d in measure(found[0]).decays if "t30" in d.values]
    assert {"500 Hz", "1000 Hz", "2000 Hz"} <= set(given) and "125 Hz" not in given
    with pytest.raises(InputError, match="no sweep"):
        of_sweeps(1e-3 * np.random.default_rng(0).standard_normal(4 * FS), FS, sweep, "x")
    with pytest.raises(InputError, match="ends with the sweep"):
        of_sweeps(x[: round(3.25 * FS)], FS, sweep, "x")
    assert "clipped" in of_sweeps(np.clip(x, -0.1, 0.1), FS, sweep, "x")[0].warnings[0]


def test_claps_are_found_each_once():
    rng = np.random.default_rng(2)
    x = 1e-5 * rng.standard_normal(6 * FS)
    for k, t in enumerate((0.7, 2.6, 4.4)):
        h = 0.3 * decaying(20 + k, 0.45, 1.4, 0.0)
        x[round(t * FS) : round(t * FS) + len(h)] += h
    found = of_claps(x, FS, "hall")
    assert [r.name for r in found] == ["hall at 0.7 s", "hall at 2.6 s", "hall at 4.4 s"]
    values = [measure(r).decays[0].values["t30"].value for r in found]
    assert np.mean(values) == pytest.approx(0.45, rel=0.03)
    with pytest.raises(InputError):
        of_claps(1e-3 * rng.standard_normal(FS), FS, "x")


def test_foreign_responses_say_that_gain_control_must_be_off(tmp_path: Path):
    import soundfile

    path = tmp_path / "hall.wav"
    soundfile.write(path, 0.1 * decaying(1, 0.4, 1.0), FS, subtype="PCM_24")
    for kind in ("response", "claps"):
        responses, _, told = gather([path], kind, Sweep(FS, 2.0, 80.0, 10500.0))
        assert responses and any("automatic gain must be off" in text for text in told)


def test_clipping_and_hum_are_noticed():
    rng = np.random.default_rng(0)
    noise = 1e-3 * rng.standard_normal(2 * FS)
    tone = 0.02 * np.sin(2 * np.pi * 100 * np.arange(2 * FS) / FS)
    assert hum(noise, FS) == "" and "50 Hz" in hum(noise + tone, FS)
    assert clipped(noise) == 0 and clipped(np.clip(300 * noise, -0.4, 0.4)) > 100


# ------------------------------------------------------------------ real responses


def test_real_responses_agree_with_the_published_t30():
    """R3VIVAL (Amengual Gari), setting 100 %: T30 0.51 s at 500 Hz and 0.45 s at 1 kHz."""
    import soundfile

    paths = sorted(R3VIVAL.glob("*_100_*_full.flac"))
    if not paths:
        pytest.skip("the R3VIVAL responses are not on this machine")
    measured = []
    for path in paths:
        x, fs = soundfile.read(path)
        measured.append(measure(Response(path.stem, path.stem, x, fs)))
    bands = {b.band.name: b for b in put_together(measured).bands}
    assert bands["500 Hz"].values["t30"].value == pytest.approx(0.51, rel=0.05)
    assert bands["1000 Hz"].values["t30"].value == pytest.approx(0.45, rel=0.05)
