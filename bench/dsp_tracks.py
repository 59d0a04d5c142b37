"""Several talkers and tracks in simulated rooms, beside pyroomacoustics' SRP and NormMUSIC for two sources.

The rooms, places and noises have other seeds than those that the constants of `dsp.track` and `dsp.peaks`
were chosen on (100 to 999). Distances are on the sphere. A track is right while it lies within 20 degrees
of somebody who is there, and a false one when it is ever further than 25 degrees from everybody.
"""

from __future__ import annotations

import itertools
import os
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt

import dsp
from bench.doa_rooms import CAPSULES, FS, RADIUS_M, add_noise, simulate, speech_clips, talker, to_ambix
from bench.figures import figure, not_measured, note, peer
from bench.timing import best_ms
from bench.track_scenes import (
    ROW,
    TrackScene,
    arc,
    random_people,
    random_place,
    standing,
    turn,
    walking,
)

F32 = npt.NDArray[np.float32]
F64 = npt.NDArray[np.float64]
SEED = 9202
SQUARE_M = 0.02285 * np.array([[1, 1, 0], [-1, 1, 0], [-1, -1, 0], [1, -1, 0]])
SHARED = Path(os.environ.get("HEARTH_SHARED_DATA", Path(__file__).parents[2] / "shared" / "data"))
HIT_DEG = 10.0
RIGHT_DEG, FALSE_DEG, FOUND_DEG = 20.0, 25.0, 15.0


def _angles_deg(a: F64, b: F64) -> F64:
    """(n, m) angles between the unit vectors a (n, 3) and b (m, 3)."""
    return np.asarray(np.degrees(np.arccos(np.clip(a @ b.T, -1, 1))))


def _units(azimuth_deg: npt.ArrayLike, elevation_deg: npt.ArrayLike) -> F64:
    return np.asarray(dsp.direction_to_unit(np.asarray(azimuth_deg), np.asarray(elevation_deg)), np.float64)


def _matched(found: F64, true: F64) -> tuple[F64, tuple[int, ...]]:
    """Error of each found direction against its own talker (all as well matched as can be), and whose it
    is."""
    error = np.nan_to_num(_angles_deg(found, true), nan=180.0)
    n = len(true)
    best = min(
        itertools.permutations(range(n)), key=lambda p: sum(min(error[i, p[i]], 30.0) for i in range(n))
    )
    return np.array([error[i, best[i]] for i in range(n)]), best


def _share(errors: F64, limit_deg: float = HIT_DEG) -> tuple[float, str]:
    """Percent within the limit; with a 95 % bootstrap interval over the placements (rows)."""
    rng = np.random.default_rng(0)
    inside = (errors <= limit_deg).mean(axis=1)
    low, high = np.quantile(rng.choice(inside, (2000, len(inside))).mean(axis=1), [0.025, 0.975])
    told = (
        f"[{100 * low:.0f}, {100 * high:.0f}] %, median {np.median(errors):.1f} deg, {len(errors)} placements"
    )
    return 100.0 * float(inside.mean()), told


# ------------------------------------------------------------------ whole clips


def _peer(name: str, cardioid: bool):  # type: ignore[no-untyped-def]
    """A peer's engine for two sources; `cardioid` writes the capsules' directivity into its steering
    vectors."""
    import pyroomacoustics as pra

    kind = pra.doa.algorithms[name]
    engine = kind(RADIUS_M * CAPSULES.T, FS, 512, c=343.0, num_src=2, dim=3, n_grid=2562)
    if cardioid:
        towards = np.array([engine.grid.x, engine.grid.y, engine.grid.z])
        engine.mode_vec = engine.mode_vec[:, :, :] * (0.5 * (1 + CAPSULES @ towards))[None]
    return engine


def _peer_errors(engine, capsules: F32, true: F64) -> F64:  # type: ignore[no-untyped-def]
    """SRP often has a single peak with so small an array: its second talker is then 180 degrees off."""
    import pyroomacoustics as pra

    spectra = pra.transform.stft.analysis(capsules, 512, 256, win=pra.hann(512)).transpose(2, 1, 0)
    engine.locate_sources(spectra, freq_range=[200.0, 4000.0])
    azimuth, colatitude = np.degrees(engine.azimuth_recon), np.degrees(engine.colatitude_recon)
    found = np.full((len(true), 3), np.nan)
    found[: len(azimuth)] = _units(azimuth, 90.0 - colatitude)[: len(true)]
    return _matched(found, true)[0]


def _clip(rt60_s: float, snr_db: float, talkers: int, k: int, omni: bool = False) -> tuple[F32, F64]:
    """Placement k: what the capsules hear, and the true directions."""
    rng = np.random.default_rng([SEED, int(1000 * rt60_s), talkers, k])
    signals = [talker(speech_clips(), 2.6, rng) for _ in range(talkers)]
    scene = simulate(rng, rt60_s, signals, omni=omni)
    heard = add_noise(scene.capsules, snr_db, np.random.default_rng([SEED, k]))
    return heard, _units(scene.azimuth_deg, scene.elevation_deg)


def _clips(quick: bool) -> None:
    """Two and three talkers at once, one estimate per 2 s clip."""
    count = 25 if quick else 100
    conditions = [(2, 0.5, 20), (2, 0.5, 10), (2, 0.3, 20), (2, 0.8, 20), (3, 0.5, 20)]
    pairs: list[tuple[float, float]] = []
    for talkers, rt60, snr in conditions[:1] if quick else conditions:
        main = (talkers, rt60, snr) == conditions[0]
        errors, placements = [], []
        for k in range(count if main or snr == 10 else count // 2):
            heard, true = _clip(rt60, snr, talkers, k)
            got = dsp.several_directions(to_ambix(heard), FS, talkers)
            error, _ = _matched(_units([g.azimuth_deg for g in got], [g.elevation_deg for g in got]), true)
            errors.append(error)
            pairs += [(e, g.uncertainty_deg) for e, g in zip(error, got, strict=True)]
            if main:
                placements.append((heard, true))
        number = {2: "two", 3: "three"}[talkers]
        name = f"{number} talkers, RT60 {rt60:g} s, SNR {snr} dB: within 10 degrees"
        share, told = _share(np.array(errors))
        if not main:
            note(f"{name}: {share:.0f} % {told}")
            continue
        figure(name, share, "%", ">=", 70)
        note(told)
        omni = [] if quick else [_clip(rt60, snr, talkers, k, omni=True) for k in range(count)]
        for method in ("SRP", "NormMUSIC"):
            for label, cardioid, sounds in (
                ("cardioid capsules, its omni model", False, placements),
                ("cardioid capsules, cardioid model", True, placements),
                ("omni capsules, its omni model", False, omni),
            ):
                if sounds:
                    engine = _peer(method, cardioid)
                    theirs, told = _share(np.array([_peer_errors(engine, *sound) for sound in sounds]))
                    peer(f"pyroomacoustics {method}, {label}, {name}", theirs, "%")
                    note(told)
    _calibration("several directions", np.array(pairs))


def _respeaker() -> None:
    """A real recording of two talkers at 180 and 225 degrees, square of four omni capsules (no elevation)."""
    name = "azimuth error of the worse of two talkers, real ReSpeaker at 0.5 m"
    files = sorted((SHARED / "foa" / "respeaker4-labelled" / "a180e20_a225e35").rglob("*.wav"))
    if not files:
        not_measured(name, "deg", "<=", 10, "the shared recordings are not here")
        return
    import soundfile

    worst = 0.0
    for file in files:
        x, fs = soundfile.read(file, dtype="float32")
        foa = dsp.array_to_foa(x, SQUARE_M, fs)
        got = sorted(d.azimuth_deg % 360 for d in dsp.several_directions(foa, fs, 2))
        worst = max(worst, abs(got[0] - 180), abs(got[1] - 225))
        tracks: dict[int, list[float]] = {}
        for frame in dsp.track_sources(foa, fs):
            for track in frame.tracks:
                tracks.setdefault(track.id, []).append(track.azimuth_deg % 360)
        told = ", ".join(f"{np.median(a):.0f} degrees for {len(a) / 10:.1f} s" for a in tracks.values())
        note(f"tracks in {len(x) / fs:.1f} s of it: {told}")
    figure(name, worst, "deg", "<=", 10)


def _calibration(what: str, pairs: F64) -> None:
    """pairs (n, 2): error and stated uncertainty in degrees."""
    inside, stated = pairs[:, 0] <= pairs[:, 1], pairs[:, 1]
    share = 100.0 * float(inside.mean())
    name = f"{what}: errors within the stated uncertainty, distance from 68 %"
    figure(name, abs(share - 68.0), "points", "<=", 8)
    note(f"{share:.0f} % within, n {len(pairs)}")
    for low, high in ((0, 5), (5, 8), (8, 12), (12, 20), (20, 91)):
        part = (stated >= low) & (stated < high)
        if part.sum() >= 20:
            note(f"stated {low} to {high} deg: {100 * inside[part].mean():.0f} % within, n {part.sum()}")


# ------------------------------------------------------------------ tracks


@dataclass
class Followed:
    """What the tracks of some scenes were worth."""

    seconds: float = 0.0
    speech_rows: int = 0  # of 100 ms, per talker
    found_rows: int = 0  # of these with a track within 20 degrees
    false_tracks: int = 0
    switches: int = 0
    delays_s: list[float] = field(default_factory=list)  # infinite when never found
    pairs: list[tuple[float, float]] = field(default_factory=list)  # error, uncertainty
    confidence: list[tuple[float, bool]] = field(default_factory=list)
    crossed: list[bool] = field(default_factory=list)  # ids at the end are those of the beginning

    def add(self, scene: TrackScene, frames: list[dsp.TrackFrame]) -> None:
        people, rows = scene.speaking.shape
        self.seconds += rows / 10
        onset = [int(np.flatnonzero(scene.speaking[k])[0]) for k in range(people)]
        first: list[int | None] = [None] * people
        owner: list[int | None] = [None] * people
        early: list[int | None] = [None] * people
        false: set[int] = set()
        for r, frame in enumerate(frames[:rows]):
            ids = [t.id for t in frame.tracks]
            where = _units([t.azimuth_deg for t in frame.tracks], [t.elevation_deg for t in frame.tracks])
            error = _angles_deg(where.reshape(-1, 3), scene.directions[:, r])
            for i, track in enumerate(frame.tracks):
                k = int(np.argmin(error[i]))
                self.confidence.append((track.confidence, bool(error[i, k] <= RIGHT_DEG)))
                if error[i, k] > FALSE_DEG:
                    false.add(track.id)
                else:
                    self.pairs.append((float(error[i, k]), track.uncertainty_deg))
                if error[i, k] <= FOUND_DEG and first[k] is None:
                    first[k] = r
            for k in range(people):
                if not scene.speaking[k, r]:
                    continue
                self.speech_rows += 1
                kept = owner[k] in ids and error[ids.index(owner[k]), k] <= RIGHT_DEG  # type: ignore[arg-type]
                if not kept:
                    near = [i for i in range(len(ids)) if error[i, k] <= FOUND_DEG]
                    if not near:
                        continue
                    new = ids[min(near, key=lambda i: error[i, k])]
                    self.switches += owner[k] is not None and new != owner[k]
                    owner[k] = new
                self.found_rows += 1
                if r < rows // 3:
                    early[k] = owner[k]
        self.false_tracks += len(false)
        # The estimate of row r is there when the row is over; speech begins at the start of its first row.
        self.delays_s += [
            np.inf if f is None else (f + 1 - o) / 10 for f, o in zip(first, onset, strict=True)
        ]
        self.crossed.append(early == owner)


def _tell(name: str, got: Followed) -> None:
    error = np.array(got.pairs)[:, 0]
    note(
        f"{name}: {got.seconds / 60:.1f} min, "
        f"found in {100 * got.found_rows / got.speech_rows:.0f} % of the speech, "
        f"error mean {error.mean():.1f} median {np.median(error):.1f} deg, {got.switches} identity switches, "
        f"{got.false_tracks} tracks of nobody"
    )


def _rng(kind: int, k: int) -> np.random.Generator:
    return np.random.default_rng([SEED, 50 + kind, k])


def _staying(quick: bool) -> None:
    """People who stay where they are: alone, in turn, at once."""
    clips = speech_clips()
    alone = Followed()
    for k in range(18 if quick else 100):
        rng = _rng(4, k)
        place = random_place(rng, (0.3, 0.5, 0.8)[k % 3])
        dry = turn(clips, 100, [(1.5, 6.5)], rng)[None]
        scene = standing(place, random_people(rng, place, 1), dry, (20, 10)[k // 3 % 2], rng)
        alone.add(scene, dsp.track_sources(scene.foa, FS))
    delays = np.array(alone.delays_s)
    figure(
        "first sound of a talker to a track within 15 degrees, median",
        float(np.median(delays)),
        "s",
        "<=",
        0.6,
    )
    figure(
        "first sound of a talker to a track within 15 degrees, 95 %",
        float(np.quantile(delays, 0.95)),
        "s",
        "<=",
        2,
    )
    _tell("one talker, RT60 0.3 to 0.8 s, SNR 10 and 20 dB", alone)

    turns, both = Followed(), Followed()
    for k in range(4 if quick else 30):
        rng = _rng(5, k)
        place = random_place(rng, 0.5)
        people = random_people(rng, place, 2)
        dry = np.array(
            [turn(clips, 130, [(1, 4), (8, 11)], rng), turn(clips, 130, [(4.5, 7.5)], rng)], np.float32
        )
        scene = standing(place, people, dry, 20, rng)
        turns.add(scene, dsp.track_sources(scene.foa, FS))
        dry = np.array([turn(clips, 100, [(1, 7)], rng), turn(clips, 100, [(3, 9)], rng)], np.float32)
        scene = standing(place, people, dry, 20, rng)
        both.add(scene, dsp.track_sources(scene.foa, FS))
    _tell("two talkers in turn (A, B, A again after 4 s), RT60 0.5 s, SNR 20 dB", turns)
    _tell("two talkers, 4 s of them at once, RT60 0.5 s, SNR 20 dB", both)
    minutes = (turns.seconds + both.seconds) / 60
    switches = turns.switches + both.switches
    figure(
        "identity switches per minute, two talkers in turn and at once",
        switches / minutes,
        "per min",
        "<=",
        1,
    )
    false = alone.false_tracks + turns.false_tracks + both.false_tracks
    figure(
        "tracks of nobody per minute of talk in rooms",
        false / (minutes + alone.seconds / 60),
        "per min",
        "<=",
        1,
    )
    every = [alone, turns, both]
    _calibration("tracks of who stays", np.array([p for got in every for p in got.pairs]))
    confidence = np.array([c for got in every for c in got.confidence])
    for low, high in ((0, 0.5), (0.5, 0.7), (0.7, 0.9), (0.9, 1.01)):
        part = (confidence[:, 0] >= low) & (confidence[:, 0] < high)
        if part.sum() >= 20:
            right = 100 * confidence[part, 1].mean()
            told = f"{right:.0f} % within 20 degrees of a talker, n {part.sum()}"
            note(f"confidence {low:g} to {min(high, 1):g}: {told}")


def _walking(quick: bool) -> None:
    """People who walk, alone and past others."""
    clips = speech_clips()
    moving, crossing, passing = Followed(), Followed(), Followed()
    for k in range(2 if quick else 12):
        rng = _rng(2, k)
        place = random_place(rng, (0.3, 0.5)[k % 2])
        path = arc(place, 80, float((10, 20, 30, 40)[k % 4] * rng.choice([-1, 1])), rng)
        scene = walking(place, [path], turn(clips, 80, [(0.5, 7.5)], rng)[None], 20, rng)
        moving.add(scene, dsp.track_sources(scene.foa, FS))
    figure(
        "walking talker, 10 to 40 degrees per second: mean error of the track",
        float(np.mean(np.array(moving.pairs)[:, 0])),
        "deg",
        "<=",
        10,
    )
    _tell("walking talker, RT60 0.3 and 0.5 s, SNR 20 dB", moving)
    for k in range(1 if quick else 6):
        rng = _rng(3, k)
        place = random_place(rng, (0.3, 0.5)[k % 2])
        path = arc(place, 80, 20.0, rng)
        dry = np.array([turn(clips, 80, [(0.2, 7.8)], rng) for _ in range(2)], np.float32)
        scene = walking(place, [path, path[::-1].copy()], dry, 20, rng)
        crossing.add(scene, dsp.track_sources(scene.foa, FS))
        seat = np.repeat(path[40:41], 80, axis=0)
        scene = walking(place, [path, seat], dry, 20, rng)
        passing.add(scene, dsp.track_sources(scene.foa, FS))
    for what, got in (("two walk past each other", crossing), ("one walks past one who sits", passing)):
        _tell(f"{what} at the same distance, both talking", got)
        note(f"of these, both ids after it as before in {sum(got.crossed)} of {len(got.crossed)}")
    _calibration("tracks of who walks", np.array(moving.pairs))


# ------------------------------------------------------------------ no talker


def _steady(kind: str, frames: int, rng: np.random.Generator, seed: int) -> F64:
    """Dry sound of a device, RMS 1."""
    from capture.virtual.sound import device_loop

    t = np.arange(frames) / FS
    if kind == "hum":
        tone = [np.sin(2 * np.pi * 120 * h * t + rng.uniform(0, 6.28)) / h**0.7 for h in range(1, 25)]
        sound = np.sum(tone, axis=0)
    elif seed % 2:
        loop = device_loop("fan", "hum", seed)
        loop = dsp.resample(
            np.tile(loop, 2 * frames // len(loop) + 1)[: 2 * frames].astype(np.float32), 2 * FS, FS
        )
        sound = np.asarray(loop, np.float64)[:frames]
    else:  # the rush of air alone
        spectrum = np.fft.rfft(rng.standard_normal(frames))
        f = np.fft.rfftfreq(frames, 1 / FS)
        sound = np.fft.irfft(spectrum / np.sqrt(np.maximum(f, 50.0)), frames)
    return np.asarray(sound / np.std(sound))


def _nobody(quick: bool) -> None:
    rooms, rows = (2, 600) if quick else (10, 600)
    for kind in ("fan", "fan switched on every 10 s", "hum", "quiet room"):
        tracks = 0
        for k in range(rooms):
            rng = np.random.default_rng([SEED, 90, len(kind), k])
            if kind == "quiet room":  # the microphone's own noise, at several levels
                noise = rng.standard_normal((rows * ROW, 4)) * 10 ** (-(50 + 10 * (k % 4)) / 20)
                foa = to_ambix(noise)
            else:
                place = random_place(rng, (0.3, 0.5, 0.8)[k % 3])
                dry = _steady(kind, rows * ROW, rng, k)[None].astype(np.float32)
                if "switched" in kind:
                    dry *= np.arange(rows * ROW) // (5 * FS) % 2
                foa = standing(place, random_people(rng, place, 1), dry, (30, 20, 10, 0)[k % 4], rng).foa
            tracks += len({t.id for f in dsp.track_sources(foa, FS) for t in f.tracks})
        minutes = rooms * rows / 600
        name = f"false speech tracks per 10 minutes, {kind}"
        if "switched" in kind:  # harder than what is asked: each start is an onset
            note(f"{name}: {tracks * 10 / minutes:.1f} ({6 * minutes:.0f} starts)")
        else:
            figure(name, tracks * 10 / minutes, "tracks", "<", 1)
        what = f"{tracks} in {minutes:.0f} minutes, {rooms} rooms, RT60 0.3 to 0.8 s"
        note(f"{what}, the microphone's noise 0 to 30 dB below the device")


# ------------------------------------------------------------------ cost


def _cost() -> None:
    rng = np.random.default_rng(SEED)
    place = random_place(rng, 0.5)
    clips = speech_clips()
    dry = np.array([turn(clips, 60, [(0.5, 5.5)], rng), turn(clips, 60, [(2, 6)], rng)], np.float32)
    foa = standing(place, random_people(rng, place, 2), dry, 20, rng).foa
    at_48k = dsp.resample(foa, FS, 48000)

    def chain() -> None:
        sound = dsp.resample(at_48k, 48000, FS)
        dsp.estimate_doa(sound, FS)
        dsp.track_sources(sound, FS)

    figure(
        "cost of 48 -> 24 kHz, direction and tracks, 10 rows per second",
        best_ms(chain, 6.0, repeats=40),
        "ms per s of audio",
        "<=",
        5,
    )
    note(
        f"tracks alone: {best_ms(lambda: dsp.track_sources(foa, FS), 6.0, repeats=40):.2f} ms per s of audio"
    )


def run(quick: bool) -> None:
    """All comparisons of several talkers and tracks; `quick` uses fewer placements and shorter noise."""
    _cost()
    _respeaker()
    try:
        import pyroomacoustics  # noqa: F401
    except ImportError:
        why = "pyroomacoustics is not installed"
        not_measured("two talkers, RT60 0.5 s, SNR 20 dB: within 10 degrees", "%", ">=", 70, why)
        not_measured("false speech tracks per 10 minutes", "tracks", "<", 1, why)
        return
    _clips(quick)
    _nobody(quick)
    _staying(quick)
    _walking(quick)


if __name__ == "__main__":
    from bench.figures import quick as short_form

    run(short_form())
