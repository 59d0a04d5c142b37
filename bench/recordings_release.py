"""Episodes of the virtual home exported in every format and read back by the libraries they are for:
`python -m bench.recordings_release [--data DIR]`.

Without --data a scripted operator records items of the built-in plan (24, or 4 with QUICK=1); with it, what
is in that folder goes out (that of a recorded session, for instance). Figures: how many episodes each foreign
reader gives back right in every sample; times of pictures; files that differ between two exports; a release
that is killed again and again; rates beside `cp -r` of the same episodes.
"""

from __future__ import annotations

import argparse
import csv
import importlib
import io
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.figures import end_of_part, figure, not_measured, note, peer, quick
from recordings.episode import Episode
from recordings.release.checksums import check_checksums
from recordings.release.run import Release, export_release
from recordings.release.select import select
from recordings.storage import sha256_file

REPOSITORY = Path(__file__).resolve().parents[1]
Episodes = Mapping[str, Episode]
Sounds = Iterator[tuple[str, NDArray[np.float64]]]


# ------------------------------------------------------------------ foreign readers: id and sound of each


def _soundfile(file: Any) -> NDArray[np.float64]:
    import soundfile

    x, rate = soundfile.read(file, dtype="float64")
    if rate != 24000:
        raise ValueError(f"{rate} Hz")
    return np.asarray(x)


def _times_of_video(path: Path) -> NDArray[np.float64]:
    import av

    with av.open(str(path)) as reader:
        return np.array([float(f.pts * f.time_base) for f in reader.decode(video=0)])


def omnismarthome(out: Path) -> Sounds:
    for entry in json.loads((out / "index.json").read_text())["episodes"]:
        yield entry["id"], _soundfile(out / entry["folder"] / "observations" / "foa.wav")


def dcase(out: Path) -> Sounds:
    for row in csv.DictReader((out / "files.csv").open()):
        wav = next((out / "foa_dev").rglob(row["file"]))
        events = out / "metadata_dev" / wav.parent.name / f"{wav.stem}.csv"
        table = np.loadtxt(events, delimiter=",", ndmin=2) if events.stat().st_size else np.zeros((0, 6))
        if table.shape[1] != 6 or len(table) != int(row["events"]):
            raise ValueError(f"{events}: {table.shape}")
        yield row["episode"], _soundfile(wav)


def audiofolder(out: Path) -> Sounds:
    import datasets

    with tempfile.TemporaryDirectory() as cache:
        for rows in datasets.load_dataset(str(out), cache_dir=cache).values():
            for row in rows.cast_column("audio", datasets.Audio(decode=False)):
                raw = row["audio"]["bytes"]
                yield row["id"], _soundfile(io.BytesIO(raw) if raw else row["audio"]["path"])


def webdataset(out: Path) -> Sounds:
    import webdataset as library

    shards = [str(path) for path in sorted(out.glob("*.tar"))]
    for sample in library.WebDataset(shards, shardshuffle=False, empty_check=False):
        yield json.loads(sample["json"])["id"], _soundfile(io.BytesIO(sample["foa.wav"]))


def bids(out: Path) -> Sounds:
    for table in sorted(out.rglob("*_scans.tsv")):
        for row in csv.DictReader(table.open(), delimiter="\t"):
            if row["filename"].endswith(".wav"):
                yield row["episode"], _soundfile(table.parent / row["filename"])


WITH_SOUND: dict[str, tuple[Callable[[Path], Sounds], tuple[str, ...]]] = {
    "omnismarthome": (omnismarthome, ()),
    "dcase": (dcase, ()),
    "audiofolder": (audiofolder, ("datasets",)),
    "webdataset": (webdataset, ("webdataset",)),
    "bids": (bids, ()),
}


def mcap_messages(out: Path) -> dict[str, int]:
    """Messages of each file by mcap's own reader, which checks every chunk's CRC."""
    from mcap.reader import make_reader

    found = {}
    for path in sorted(out.rglob("*.mcap")):
        with open(path, "rb") as file:
            found[path.stem] = sum(1 for _ in make_reader(file, validate_crcs=True).iter_messages())
    return found


def lerobot_rows(out: Path) -> dict[str, list[int]]:
    """True times of the rows of each episode, by pyarrow."""
    import pyarrow.parquet as parquet

    times: dict[int, list[int]] = {}
    for path in sorted((out / "data").rglob("*.parquet")):
        table = parquet.read_table(path, columns=["episode_index", "observation.time_ns"]).to_pydict()
        for index, t_ns in zip(table["episode_index"], table["observation.time_ns"], strict=True):
            times.setdefault(index, []).append(t_ns[0] if isinstance(t_ns, list) else t_ns)
    return {str(index): rows for index, rows in times.items()}


# ------------------------------------------------------------------ figures


def _there(*modules: str) -> str:
    """Why these cannot be used; "" when they can."""
    missing = []
    for name in modules:
        try:
            importlib.import_module(name)
        except ImportError:
            missing.append(name)
    return f"not installed: {', '.join(missing)}" if missing else ""


def _in_24_bits(episode: Episode) -> NDArray[np.float64]:
    steps = np.rint(episode.audio(24000).astype(np.float64) * 2**23)
    return np.asarray(np.clip(steps, -(2**23), 2**23 - 1) / 2**23)


def _files(folder: Path) -> dict[str, str]:
    return {p.relative_to(folder).as_posix(): sha256_file(p) for p in folder.rglob("*") if p.is_file()}


def _read_back(name: str, out: Path, episodes: Episodes) -> None:
    text = f"release {name}: episodes read back right"
    if name == "mcap":
        if why := _there("mcap"):
            not_measured(text, "%", "==", 100, why)
            return
        found = mcap_messages(out)
        pictures = {key: len(episode.frame_times()) for key, episode in episodes.items()}
        right = sum(found.get(key, 0) > pictures[key] for key in episodes)
    elif name == "lerobot":
        if why := _there("pyarrow"):
            not_measured(text, "%", "==", 100, why)
            return
        wanted = sorted(tuple(episode.frame_times().tolist()) for episode in episodes.values())
        rows = sorted(tuple(times) for times in lerobot_rows(out).values())
        right = sum(a == b for a, b in zip(rows, wanted, strict=False)) if len(rows) == len(wanted) else 0
    else:
        reader, modules = WITH_SOUND[name]
        if why := _there(*modules):
            not_measured(text, "%", "==", 100, why)
            return
        sounds = dict(reader(out))
        right = sum(
            key in sounds and np.array_equal(sounds[key], _in_24_bits(e)) for key, e in episodes.items()
        )
        right -= len(set(sounds) - set(episodes))
    figure(text, 100 * right / len(episodes), "%", "==", 100)


def _formats(data: Path, work: Path, episodes: Episodes) -> dict[str, Release]:
    from recordings.release.formats import FORMATS

    made = {}
    for name in FORMATS:
        needs = {"mcap": ("mcap",), "lerobot": ("pyarrow",)}.get(name, ())
        if why := _there(*needs):
            not_measured(f"release {name}: episodes read back right", "%", "==", 100, why)
            continue
        began = time.process_time()
        done = export_release(data, name, work / name)
        cpu_s = time.process_time() - began
        made[name] = done
        _read_back(name, work / name, episodes)
        export_release(data, name, work / f"{name}-again")
        first, again = _files(work / name), _files(work / f"{name}-again")
        differing = sum(first.get(key) != again.get(key) for key in set(first) | set(again))
        figure(f"release {name}: files that differ between two exports", differing, "files", "==", 0)
        figure(f"release {name}: problems by its checksums", len(check_checksums(work / name)), "", "==", 0)
        seconds = done.facts["numbers"]["sound_s"]
        figure(f"release {name}: sound per CPU second, verified", seconds / cpu_s, "s", ">=", 10)
        shutil.rmtree(work / f"{name}-again")
    return made


def _pictures(work: Path, episodes: Episodes) -> None:
    """Times of the pictures in the containers against those of the timeline."""
    worst = {"mkv": 0.0, "mp4": 0.0}
    for entry in json.loads((work / "omnismarthome" / "index.json").read_text())["episodes"]:
        true = episodes[entry["id"]].frame_times()
        true_s = (true - true[0]) * 1e-9
        mkv = _times_of_video(work / "omnismarthome" / entry["folder"] / "observations" / "video.mkv")
        mp4 = _times_of_video(next((work / "audiofolder").rglob(f"{entry['id']}.mp4")))
        worst["mkv"] = max(worst["mkv"], float(np.abs(mkv - true_s).max()))
        worst["mp4"] = max(worst["mp4"], float(np.abs(mp4 - true_s).max()))
    figure("release: pictures' times in .mkv, worst", worst["mkv"] * 1e3, "ms", "<=", 0.6)
    figure("release: pictures' times in .mp4, worst", worst["mp4"] * 1e3, "ms", "<=", 0.001)


def _import_again(work: Path, episodes: Episodes) -> None:
    from recordings.release.item import released_profile
    from recordings.release.omnismarthome import import_episode

    some = sorted(episodes)[: 4 if quick() else 12]
    right, worst = 0, 0.0
    for name in some:
        folder = work / "omnismarthome" / "episodes" / name
        again, original = import_episode(folder, work / "again", report=False), episodes[name]
        same = np.array_equal(again.audio(24000).astype(np.float64), _in_24_bits(original))
        same &= released_profile(again.profile) == released_profile(original.profile)
        same &= np.array_equal(again.frame_times(), original.frame_times())
        right += bool(same) and again.verify().ok
        frames = np.arange(0, len(again.audio(24000)), 2400)
        rate = original.original.rate / 24000
        apart = again.audio_map.time_ns(frames) - original.audio_map.time_ns(frames * rate)
        worst = max(worst, float(np.abs(apart).max()))
    figure("release: imported again, same sound, profile, pictures", 100 * right / len(some), "%", "==", 100)
    figure("release: imported again, times of sound, worst", worst * 1e-3, "us", "<=", 5)


def _validator(out: Path) -> None:
    text = "release bids: errors by the BIDS validator"
    if why := _there("bids_validator_deno"):
        not_measured(text, "", "==", 0, why)
        return
    call = [sys.executable, "-c", "from bids_validator_deno import cli; cli()", "--format", "json", str(out)]
    done = subprocess.run(call, capture_output=True, check=False)
    if not done.stdout:
        not_measured(text, "", "==", 0, f"it does not start: {done.stderr.decode()[-80:].strip()}")
        return
    issues = json.loads(done.stdout)["issues"]["issues"]
    figure(text, sum(issue["severity"] == "error" for issue in issues), "", "==", 0)


def _kills(data: Path, work: Path, wanted: Path, kills: int) -> None:
    """`hearth export` killed at random moments; then the same command once more."""
    out = work / "killed" / wanted.name
    command = [
        sys.executable,
        "-m",
        "hearth",
        "export",
        str(data),
        "--to",
        "omnismarthome",
        "--out",
        str(out),
    ]
    command += ["--json"]
    lot, hit, named = random.Random(3), 0, 0
    began = time.monotonic()
    timed = [*command[:-2], str(work / "timed"), "--json"]
    subprocess.run(timed, cwd=REPOSITORY, stdout=subprocess.DEVNULL, check=True)
    whole_s = time.monotonic() - began
    for _ in range(4 * kills):
        process = subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.DEVNULL)
        try:
            process.wait(lot.uniform(0.2, 0.95) * whole_s)
            shutil.rmtree(out)  # it was done before its moment came: begin anew
        except subprocess.TimeoutExpired:
            os.kill(process.pid, signal.SIGKILL)
            process.wait()
            hit += 1
            named += out.exists() and bool(check_checksums(out))
            shutil.rmtree(out, ignore_errors=True)
        if hit == kills:
            break
    subprocess.run([*command, "--resume"], cwd=REPOSITORY, stdout=subprocess.DEVNULL, check=True)
    first, again = _files(wanted), _files(out)
    differing = sum(first.get(key) != again.get(key) for key in set(first) | set(again))
    figure(f"release killed {hit} times: with the final name, but not whole", named, "", "==", 0)
    figure(f"release killed {hit} times, then run: files that differ", differing, "files", "==", 0)


def _record(folder: Path, items: int) -> Path:
    """The first items of the built-in plan by a scripted operator, accepted by two reviewers."""
    from edge.session.engine import Session
    from edge.session.operators import Auto
    from edge.session.stage import Stage
    from recordings.plan.builtin import virtual_home
    from recordings.plan.generate import make_plan

    plan = make_plan(*virtual_home(), 7, name="release")
    only = [item.id for item in plan.items[:: len(plan.items) // items][:items]]
    data = folder / "data"
    data.mkdir()
    stage = Stage(plan, data)
    Session(plan, data, "bench", stage, only=only, operator=Auto(), countdown_s=0, report=False).run()
    return data


def _accept(data: Path) -> None:
    from recordings.review.log import append, make_review, verdict

    for path in select(data, need_accepted=False, need_verified=False).episodes:
        if verdict(path) == "open":
            for reviewer in ("one", "two"):
                append(path.parent, make_review(path, reviewer, "accept"))


def run(quick: bool, data: Path | None = None) -> None:
    """All figures; `data`: a folder of episodes, which gets reviews where there are none."""
    with tempfile.TemporaryDirectory(prefix="hearth_release_") as folder:
        work = Path(folder)
        if data is None:
            data = _record(work, 4 if quick else 24)
        _accept(data)
        paths = select(data).episodes
        episodes = {path.name: Episode.open(path) for path in paths}
        note(f"{len(episodes)} episodes, {sum(e.duration_s for e in episodes.values()):.0f} s of sound")
        made = _formats(data, work, episodes)
        began = time.process_time()
        for number, path in enumerate(paths):
            shutil.copytree(path, work / "copied" / str(number))
        copied_s = time.process_time() - began
        seconds = made["omnismarthome"].facts["numbers"]["sound_s"]
        peer("cp -r of the episodes: sound per CPU second", seconds / max(copied_s, 1e-6), "s")
        _pictures(work, episodes)
        _import_again(work, episodes)
        _validator(work / "bids")
        _kills(data, work, work / "omnismarthome", 3 if quick else 10)


def main() -> None:
    """Command line."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--data", type=Path, help="folder of episodes; default: records some")
    run(quick(), arguments.parse_args().data)
    sys.exit(end_of_part("recordings-release"))


if __name__ == "__main__":
    main()
