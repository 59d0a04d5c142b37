"""The figures of the main job: demo seeds, live stream, kill, import, real input.

make bench-main            all of it, about eight minutes
QUICK=1 make bench-main    fewer seeds and kills, shorter live runs
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from bench.figures import chosen_parts, end_of_part, figure, not_measured, note, peer, quick

REPOSITORY = Path(__file__).resolve().parents[1]
SHARED = Path(os.environ.get("HEARTH_SHARED_DATA", REPOSITORY.parent / "shared" / "data"))


def hearth(*arguments: str, folder: Path, timeout: float = 300) -> tuple[int, dict[str, Any], str]:
    """Run the command line in `folder`; returns exit code, its JSON object and standard error."""
    done = subprocess.run(
        [sys.executable, "-m", "hearth", *arguments, "--json"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
        timeout=timeout,
    )
    try:
        data = json.loads(done.stdout) if done.stdout.strip() else {}
    except ValueError:
        data = {}
    return done.returncode, data, done.stderr


def demo_seeds(folder: Path) -> None:
    """`hearth demo` with different requests: is the declared device right, is the goal reached?"""
    seeds = range(3) if quick() else range(10)

    def one(seed: int) -> tuple[int, dict[str, Any], str]:
        return hearth("demo", "--seed", str(seed), folder=folder)

    # One after the other: two real-time demos would share the two cores that each is meant to have.
    results = [one(seed) for seed in seeds]
    for seed, (code, data, errors) in zip(seeds, results, strict=True):
        note(f"seed {seed}: {data.get('text') or errors.strip().splitlines()[-1:]} (exit {code})")
    share = np.mean([bool(data.get("grounding_correct")) for _, data, _ in results])
    figure("demo_declared_right_share", share, "of seeds", ">=", 0.9)
    share = np.mean([bool(data.get("goal_reached")) for _, data, _ in results])
    figure("demo_goal_reached_share", share, "of seeds", ">=", 0.9)
    share = np.mean([bool(data.get("verified")) for _, data, _ in results])
    figure("demo_episodes_verified_share", share, "of seeds", ">=", 1.0)
    figure("demo_seconds_worst", max((d.get("seconds", np.inf) for _, d, _ in results)), "s", "<=", 180)


def live(folder: Path) -> None:
    """The virtual room through capture, DSP, stream and a subscriber in another process."""
    seconds = 20 if quick() else 60
    _, data, errors = hearth("live", "--seconds", str(seconds), "--stats", folder=folder)
    subscriber = data.get("subscriber")
    if not subscriber:
        not_measured("live_messages_lost", "messages", "==", 0, errors.strip()[-200:])
        return
    every = {name: row for name, row in subscriber["streams"].items() if name != "video"}
    figure("live_seconds", data["service"]["seconds"], "s", ">=", seconds)
    figure("live_messages_lost", sum(r["lost"] for r in every.values()), "messages", "==", 0)
    figure("live_messages_reordered", sum(r["reordered"] for r in every.values()), "messages", "==", 0)
    figure("live_blocks_dropped", data["service"]["blocks_dropped"], "blocks", "==", 0)
    latency = subscriber["doa_latency"]
    # Issue 2 asks for these to be printed; the targets are those of the live edge's budget.
    figure("live_doa_age_p50", latency["since_window_end_p50_ms"], "ms", "<=", 40)
    figure("live_doa_age_p99", latency["since_window_end_p99_ms"], "ms", "<=", 80)
    peer("doa_window", latency["window_ms"], "ms (added to the age by definition)")


def kills(folder: Path) -> None:
    """SIGKILL at a random instant of `hearth record`: what is lost, and does it come back?"""
    generator = random.Random(2)
    losses, listed, mended = [], 0, 0
    count = 3 if quick() else 10
    for number in range(count):
        session = f"kill{number}"
        process = subprocess.Popen(
            [sys.executable, "-m", "hearth", "record", "--session", session, "--seconds", "60"],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        began_ns = _first_sound(folder / "data" / session, process)
        time.sleep(3 + 3 * generator.random())
        killed_ns = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        process.send_signal(signal.SIGKILL)
        process.wait()
        _, data, _ = hearth("episodes", "data", folder=folder)
        mine = [e for e in data.get("episodes", []) if f"/{session}/" in e["path"]]
        listed += len(mine) == 1 and mine[0]["state"] == "interrupted"
        if not mine:
            continue
        code, _, _ = hearth("repair", mine[0]["path"], folder=folder)
        mended += code == 0
        losses.append((killed_ns - began_ns) / 1e9 - _seconds_kept(folder / mine[0]["path"]))
    figure("kill_listed_as_interrupted_share", listed / count, "of kills", ">=", 1.0)
    figure("kill_repaired_share", mended / count, "of kills", ">=", 1.0)
    figure("kill_sound_lost_worst", max(losses, default=np.inf), "s", "<=", 1.0)


def _first_sound(session: Path, process: subprocess.Popen[bytes]) -> int:
    """CLOCK_MONOTONIC ns of the first audio frame, from the timeline that is being written."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and process.poll() is None:
        for timeline in session.glob("*/timeline.jsonl"):
            for line in timeline.read_text().splitlines():
                if '"type":"audio"' in line.replace(" ", ""):
                    return int(json.loads(line)["t_ns"])
        time.sleep(0.05)
    raise RuntimeError("hearth record did not begin to record")


def _seconds_kept(episode: Path) -> float:
    import soundfile

    return sum(soundfile.info(str(p)).duration for p in sorted((episode / "foa_48k").glob("*.wav")))


def imports(folder: Path) -> None:
    """The same scene as AmbiX and as FuMa, 24 bit, through `hearth import`."""
    import soundfile

    import dsp

    rng = np.random.default_rng(5)
    rate = 48000
    scene = sum(
        dsp.encode(rng.normal(0, 0.05, 4 * rate).astype(np.float32), azimuth, elevation)
        for azimuth, elevation in ((40.0, 10.0), (-120.0, -25.0))
    )
    released = {}
    for format, name in (("ambix", "260613_001.WAV"), ("fuma", "260613_002.WAV")):
        samples = dsp.convert(np.asarray(scene, np.float32), source="ambix", target=format)
        soundfile.write(folder / name, samples, rate, subtype="PCM_24", format="WAV")
        code, data, errors = hearth("import", name, "--format", format, folder=folder)
        if code != 0:
            not_measured("import_fuma_against_ambix", "dBFS", "<=", -90, errors.strip()[-200:])
            return
        path = folder / data["episode"] / "foa_24k.wav"
        released[format] = soundfile.read(path, dtype="float64")[0]
    difference = np.abs(released["ambix"] - released["fuma"]).max()
    figure("import_fuma_against_ambix", 20 * np.log10(max(difference, 1e-12)), "dBFS", "<=", -90)


def labelled_array(_: Path) -> None:
    """Real speech in a room, ReSpeaker square array, against the labelled azimuth."""
    import soundfile

    import dsp

    folder = SHARED / "foa" / "respeaker4-labelled" / "a180e20"
    if not folder.is_dir():
        not_measured("respeaker_azimuth_error_worst", "deg", "<=", 10, "the labelled recordings are absent")
        return
    a = 0.02285
    square = np.array([(a, a, 0.0), (-a, a, 0.0), (-a, -a, 0.0), (a, -a, 0.0)])
    worst = 0.0
    for path in sorted(folder.glob("*/*.wav")):
        x, rate = soundfile.read(path, dtype="float32", always_2d=True)
        found = dsp.estimate_array_azimuth(x[:, :4], square, rate)
        error = abs((found.azimuth_deg - 180.0 + 180.0) % 360.0 - 180.0)
        note(f"{path.parent.name}: azimuth {found.azimuth_deg:.1f} deg, label 180")
        worst = max(worst, error)
    figure("respeaker_azimuth_error_worst", worst, "deg", "<=", 10)


def portaudio(folder: Path) -> None:
    """A known scene played into a user-space PulseAudio source and recorded through PortAudio."""
    import dsp
    from recordings import Episode

    # The harness of the tests with real parts starts and ends the daemon.
    sys.path.insert(0, str(REPOSITORY / "tests" / "real"))
    import pulse
    import test_portaudio as real

    reason = pulse.why_not()
    if reason is not None:
        not_measured("portaudio_azimuth_error_worst", "deg", "<=", 5, reason)
        return
    played = real.scene()
    with pulse.PulseMicrophone(folder / "pulse") as microphone:
        take = real.Take(microphone, folder / "portaudio", "--seconds", "6.5", "--session", "real")
        playing = microphone.play(real.with_lead(played))
        result = take.result()
        playing.wait(10)
    episode = Episode.open(result["episode"])
    recorded = real.original(episode)
    begin = real.place_of(played, recorded)
    wrong = np.count_nonzero(recorded[begin : begin + len(played)] != played)
    figure("portaudio_samples_wrong", wrong, f"of {played.size} samples", "==", 0)
    foa, each = episode.audio(rate=24000), round(real.SEGMENT_S * 24000)
    errors = []
    for number, azimuth in enumerate(real.AZIMUTHS):
        start = begin // 2 + number * each
        found = dsp.steady_direction(foa[start : start + each], 24000)
        errors.append(float(dsp.angular_error_deg(found.azimuth_deg, 0, azimuth, 0)))
    figure("portaudio_azimuth_error_worst", max(errors), "deg", "<=", 5)


PARTS: dict[str, Callable[[Path], None]] = {
    "import": imports,
    "array": labelled_array,
    "portaudio": portaudio,
    "kill": kills,
    "live": live,
    "demo": demo_seeds,
}


def main() -> int:
    parts = chosen_parts("main", PARTS)
    with tempfile.TemporaryDirectory(prefix="hearth-bench-") as name:
        for part in parts:
            PARTS[part](Path(name))
    return end_of_part("main")


if __name__ == "__main__":
    sys.exit(main())
