"""The formats of a release, read back by readers that are not ours, and the same bytes each time."""

from __future__ import annotations

import csv
import io
import json
import shutil
import subprocess
import sys
from pathlib import Path

import av
import numpy as np
import pytest
import soundfile

from dsp.errors import InputError
from recordings import Episode
from recordings.profile import Goal
from recordings.release.checksums import check_checksums
from recordings.release.item import released_profile
from recordings.release.omnismarthome import import_episode
from recordings.release.options import ReleaseOptions
from recordings.release.run import export_release
from recordings.storage import sha256_file
from tests.recordings.release_episodes import SECRET, START_NS, accept, household, profile, record

OURS = ("omnismarthome", "dcase", "audiofolder", "bids")
CLIPPED = "e3"


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> tuple[Path, dict[str, Path]]:
    root = tmp_path_factory.mktemp("data")
    return root, household(root)


@pytest.fixture(scope="module")
def releases(data, tmp_path_factory) -> dict[str, Path]:
    """Each format, split by participant."""
    out = tmp_path_factory.mktemp("releases")
    for name in OURS:
        export_release(data[0], name, out / name, ReleaseOptions(licence="CC-BY-4.0"), split_by="participant")
    return {name: out / name for name in OURS}


def as_24_bits(episode: Path) -> np.ndarray:
    """The release form rounded to 24-bit steps by libsndfile's own rule, as float64."""
    x, rate = soundfile.read(episode / "foa_24k.wav", dtype="float64")
    assert rate == 24000
    return np.clip(np.rint(x * 2**23), -(2**23), 2**23 - 1) / 2**23


def pictures(path: Path) -> tuple[list[float], list[np.ndarray]]:
    """Times in seconds and pictures of a video file."""
    with av.open(str(path)) as reader:
        found = [(float(f.pts * f.time_base), f.to_ndarray(format="gray")) for f in reader.decode(video=0)]
    return [time for time, _ in found], [image for _, image in found]


def read_tsv(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(path.open(), delimiter="\t"))


# ------------------------------------------------------------------ what all have in common


@pytest.mark.parametrize("name", OURS)
def test_two_exports_are_the_same_byte_for_byte(name, data, releases, tmp_path):
    again = tmp_path / "elsewhere" / name
    export_release(
        [data[1][key] for key in sorted(data[1], reverse=True)],  # in another order, by episode
        name,
        again,
        ReleaseOptions(licence="CC-BY-4.0"),
        split_by="participant",
    )
    files = {p.relative_to(again): sha256_file(p) for p in again.rglob("*") if p.is_file()}
    first = releases[name]
    assert files == {p.relative_to(first): sha256_file(p) for p in first.rglob("*") if p.is_file()}


@pytest.mark.parametrize("name", OURS)
def test_every_release_has_checksums_splits_licence_and_provenance(name, data, releases):
    out = releases[name]
    assert check_checksums(out) == []
    if shutil.which("sha256sum"):
        subprocess.run(["sha256sum", "--quiet", "-c", "checksums.sha256"], cwd=out, check=True)
    splits = json.loads((out / "splits.json").read_text())
    by_person = {"e1": "p1", "e2": "p2", "e3": "p3", "e4": "p1"}
    where = {row["item"]: row["split"] for row in splits["items"]}
    assert where["e1"] == where["e4"] == "train" and {where["e2"], where["e3"]} == {"val", "test"}
    assert splits["sizes"] == {"train": 2, "val": 1, "test": 1} and set(where) == set(by_person)
    assert "CC-BY-4.0" in (out / "LICENSE").read_text()
    readme = (out / "README.md").read_text()
    assert "4 episodes" in readme and "| G2 | Q2 | 1 | 1 | 0 | 0 | 1 | 1 | 0 | 0 |" in readme
    assert not any(person in readme for person in by_person.values())
    listed = [json.loads(line) for line in (out / "provenance.jsonl").read_text().splitlines()]
    known = {row["output"] for row in listed}
    files = {p.relative_to(out).as_posix() for p in out.rglob("*") if p.is_file()}
    assert known <= files
    for name_ in files - known:  # what no line knows must hold nothing of an episode
        text = (out / name_).read_bytes()
        if name_ not in ("provenance.jsonl", "checksums.sha256"):
            assert not any(f'"{key}"'.encode() in text for key in by_person), name_
    for row in listed:
        manifest = json.loads((data[1][row["item"]] / "manifest.json").read_text())["files"]
        assert all(manifest[source]["sha256"] == digest for source, digest in row["sources"].items())
        assert row["episode"] == "/".join(data[1][row["item"]].parts[-2:])
        if row["sha256"]:
            assert sha256_file(out / row["output"]) == row["sha256"]


@pytest.mark.parametrize("name", OURS)
def test_nothing_of_the_rig_and_no_note_goes_out(name, releases):
    for path in releases[name].rglob("*"):
        if path.is_file():
            text = path.read_bytes()
            for word in (SECRET, "hunter2", "the neighbour called", "form 7", "/tmp", "hearth_rig"):
                assert word.encode() not in text, (path, word)


@pytest.mark.parametrize("name", OURS)
def test_every_sound_is_the_release_form_in_24_bits_and_clipping_is_told(name, data, releases):
    wavs = {sha256_file(p): p for p in releases[name].rglob("*.wav")}
    assert len(wavs) == 4
    told = json.loads((releases[name] / "release.json").read_text())
    left = dict(data[1])
    for path in wavs.values():
        info = soundfile.info(path)
        assert (info.samplerate, info.channels, info.subtype) == (24000, 4, "PCM_24")
        x, _ = soundfile.read(path, dtype="float64")
        same = [key for key, episode in left.items() if np.array_equal(x, as_24_bits(episode))]
        assert len(same) == 1, path
        del left[same[0]]
    over, _ = soundfile.read(data[1][CLIPPED] / "foa_24k.wav", dtype="float64")
    assert told["clipped"] == [
        {"item": CLIPPED, "samples": int(np.sum(np.rint(np.abs(over) * 2**23) > 2**23))}
    ]
    assert told["clipped"][0]["samples"] > 0


# ------------------------------------------------------------------ omnismarthome


def test_omnismarthome_has_the_four_parts_and_counts_them(data, releases):
    out = releases["omnismarthome"]
    index = json.loads((out / "index.json").read_text())["episodes"]
    assert [entry["id"] for entry in index] == ["e1", "e2", "e3", "e4"]
    for entry in index:
        folder = out / entry["folder"]
        original = Episode.open(data[1][entry["id"]]).profile
        assert json.loads((folder / "target.json").read_text()) == {
            "episode": entry["id"],
            "device": original.target_device,
            "none": original.feasibility == "nonexistent_resource",
        }
        state = json.loads((folder / "initial_state.json").read_text())["home"]
        assert [device["id"] for device in state["devices"]] == ["fan_1", "lamp_1"]
        assert state["household"][0]["room"] == "study"
        assert json.loads((folder / "goal.json").read_text())["goal"]["kind"] == original.goal.kind
    rows = list(csv.DictReader(io.StringIO((out / "combinations.csv").read_text())))
    counted = {(row["grounding"], row["query"]): (row["feasible"], row["infeasible"]) for row in rows}
    assert counted == {("G1", "Q1"): ("1", "0"), ("G2", "Q2"): ("1", "1"), ("unknown", "unknown"): ("1", "0")}


def test_an_episode_imported_again_is_the_same(data, releases, tmp_path):
    for name, path in data[1].items():
        original = Episode.open(path)
        again = import_episode(releases["omnismarthome"] / "episodes" / name, tmp_path, report=False)
        assert again.verify().ok, again.verify().problems
        np.testing.assert_array_equal(again.audio(24000).astype(np.float64), as_24_bits(path))
        assert released_profile(again.profile) == released_profile(original.profile)
        assert again.cameras == original.cameras
        for camera in original.cameras:
            np.testing.assert_array_equal(again.frame_times(camera), original.frame_times(camera))
        frames = np.arange(0, len(again.audio(24000)), 1200)
        apart = again.audio_map.time_ns(frames) - original.audio_map.time_ns(frames * 2)
        assert np.abs(apart).max() < 2000, "ns; a frame is 41,667"


# ------------------------------------------------------------------ dcase


def test_dcase_rows_are_those_of_the_truth(tmp_path):
    """Sources with known activity: frames, classes and angles by hand, through drift and a late sound."""
    sources = [
        {"id": "b", "kind": "talker", "device_id": None, "active_s": [[0.2, 0.41]],
         "path": [[0, 179.7, -10, 2]]},
        {"id": "a", "kind": "device", "device_id": "fan_1", "active_s": [[0.5, 0.9]],
         "path": [[0.0, -170.0, 0.0, 1.0], [1.0, 170.0, 20.0, 2.0]]},
        {"id": "c", "kind": "slate", "device_id": None, "active_s": [[0.0, 0.04]], "path": [[0, 0, 0, 1]]},
    ]  # fmt: skip
    truth = {"sources": sources, "start_ns": START_NS - 100_000_000, "av_offset_ms": 100.0}
    path = record(tmp_path / "data", profile("v1", "s", "p1", origin="virtual"), truth=truth).path
    accept(path)
    export_release(path, "dcase", tmp_path / "out")
    rows = (tmp_path / "out" / "metadata_dev" / "dev-all" / "fold4_room1_mix001.csv").read_text()
    # Scene time 0 is 0.1 s before the sound, which is delivered 0.1 s late: scene and file agree.
    speech = [f"{frame},0,0,-180,-10,200" for frame in (2, 3)]
    turning = [-170 - 20 * t for t in (0.55, 0.65, 0.75, 0.85)]
    fan = [
        f"{frame},6,0,{(round(az) + 180) % 360 - 180},{round(20 * t)},{round(100 + 100 * t)}"
        for frame, az, t in zip((5, 6, 7, 8), turning, (0.55, 0.65, 0.75, 0.85), strict=True)
    ]
    assert rows.splitlines() == speech + fan
    assert "e,origin" not in rows
    files = list(csv.DictReader((tmp_path / "out" / "files.csv").open()))
    assert [(row["episode"], row["events_from"], row["events"]) for row in files] == [("v1", "truth", "6")]


def test_a_truth_of_another_form_is_an_error_that_names_it(tmp_path):
    truth = {"sources": [{"id": "b", "kind": "talker", "path": [[0, 0, 0, 1]]}], "start_ns": START_NS}
    told = profile("v1", "s", "p1", origin="virtual")
    path = record(tmp_path / "data", told, truth=truth, seconds=0.3, pictures=False).path
    accept(path)
    with pytest.raises(InputError, match=r"truth.json: its sources cannot be read \(KeyError: 'active_s'\)"):
        export_release(path, "dcase", tmp_path / "out")


def test_dcase_tracked_events_are_said_to_be_tracked_and_have_no_distance(data, releases):
    pandas = pytest.importorskip("pandas", reason="pandas is not installed: the foreign reader of tables")
    out = releases["dcase"]
    files = pandas.read_csv(out / "files.csv")
    assert set(files.episode) == set(data[1]) and set(files.events_from) <= {"tracked", "none"}
    classes = pandas.read_csv(out / "classes.csv")
    assert classes.name[0] == "speech" and list(classes["class"]) == list(range(len(classes)))
    names = ["frame", "class", "source", "azimuth", "elevation", "distance"]
    for row in files.itertuples():
        wav = next((out / "foa_dev").rglob(row.file))
        table = wav.parents[2] / "metadata_dev" / wav.parent.name / f"{wav.stem}.csv"
        if not table.stat().st_size:
            assert row.events == 0
            continue
        found = pandas.read_csv(table, names=names)
        assert len(found) == row.events and found.distance.isna().all()
        assert (found.frame * 0.1 < soundfile.info(wav).duration).all() and (found["class"] == 0).all()
        tracks = Episode.open(data[1][row.episode]).tracks()
        heard = sum(int((~track.coasting).sum()) for track in tracks)
        assert heard == row.events
        assert found.frame.is_monotonic_increasing and found.azimuth.between(-180, 179).all()


def test_dcase_pictures_are_at_their_true_times(data, releases):
    for row in csv.DictReader((releases["dcase"] / "files.csv").open()):
        episode = Episode.open(data[1][row["episode"]])
        video = next((releases["dcase"] / "video_dev").rglob(row["file"].replace(".wav", ".mp4")), None)
        assert (video is None) == (episode.cameras == ())
        if video is None:
            continue
        times, images = pictures(video)
        true = (episode.frame_times() - episode.frame_times()[0]) * 1e-9
        np.testing.assert_allclose(times, true, atol=1e-6)
        original = [image for _, image in zip(times, pictures(episode.path / "video.mkv")[1], strict=True)]
        assert all(np.array_equal(a, b) for a, b in zip(images, original, strict=True)), "not encoded anew"
        side = json.loads(
            (video.parents[2] / "times_dev" / video.parent.name / f"{video.stem}.json").read_text()
        )
        assert side["clocks"]["frame_times_ns"]["main"] == episode.frame_times().tolist()


# ------------------------------------------------------------------ audiofolder


def test_audiofolder_by_the_datasets_library(data, releases, tmp_path, monkeypatch):
    datasets = pytest.importorskip("datasets", reason="datasets is not installed: the foreign reader")
    if int(datasets.__version__.split(".")[0]) >= 4:
        pytest.importorskip(
            "torchcodec", reason="datasets from version 4 on reads no sound without torchcodec"
        )
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    loaded = datasets.load_dataset(str(releases["audiofolder"]), cache_dir=str(tmp_path))
    assert {split: len(rows) for split, rows in loaded.items()} == {"train": 2, "validation": 1, "test": 1}
    found = 0
    for rows in loaded.values():
        rows = rows.cast_column("audio", datasets.Audio(decode=False))
        for row in rows:
            episode = Episode.open(data[1][row["id"]])
            raw = row["audio"]["bytes"]
            x, rate = soundfile.read(io.BytesIO(raw) if raw else row["audio"]["path"], dtype="float64")
            assert rate == 24000 and x.shape[1] == 4, "all four channels"
            np.testing.assert_array_equal(x, as_24_bits(episode.path))
            assert row["request"] == episode.profile.request
            assert row["grounding"] == (episode.profile.grounding or "")
            assert json.loads(row["frame_times_ns_json"]) == episode.frame_times().tolist()
            assert row["sound_start_ns"] == int(episode.audio_map.time_ns(0))
            assert json.loads(row["profile_json"])["target_device"] == episode.profile.target_device
            found += 1
    assert found == 4


def test_videofolder_has_the_pictures(data, releases, tmp_path, monkeypatch):
    datasets = pytest.importorskip("datasets", reason="datasets is not installed: the foreign reader")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    folder = str(releases["audiofolder"] / "video")
    loaded = datasets.load_dataset("videofolder", data_dir=folder, drop_labels=True, cache_dir=str(tmp_path))
    found = {}
    for rows in loaded.values():
        for row in rows.cast_column("video", datasets.Video(decode=False)):
            times = json.loads(row["frame_times_ns_json"])
            assert len(pictures(Path(row["video"]["path"]))[0]) == len(times) == row["pictures"]
            found[row["id"]] = times
    assert found == {
        name: Episode.open(path).frame_times().tolist() for name, path in data[1].items() if name != "e4"
    }


def test_audiofolder_decodes_to_four_channels(releases, data, tmp_path, monkeypatch):
    datasets = pytest.importorskip("datasets", reason="datasets is not installed: the foreign reader")
    for needed in ("librosa",) if int(datasets.__version__.split(".")[0]) < 4 else ("torchcodec",):
        pytest.importorskip(needed, reason=f"datasets decodes sound by {needed}, which is not installed")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    rows = datasets.load_dataset(
        "audiofolder",
        data_dir=str(releases["audiofolder"] / "data"),
        drop_labels=True,
        cache_dir=str(tmp_path),
    )["train"]
    how = {"mono": False} if int(datasets.__version__.split(".")[0]) < 4 else {}
    for row in rows.cast_column("audio", datasets.Audio(sampling_rate=24000, **how)):
        x = np.asarray(row["audio"]["array"])
        assert x.shape[0] == 4
        np.testing.assert_allclose(x.T, as_24_bits(data[1][row["id"]]), atol=2e-7)


# ------------------------------------------------------------------ bids


def test_bids_tables_and_sidecars(data, releases):
    out = releases["bids"]
    people = list(csv.DictReader((out / "participants.tsv").open(), delimiter="\t"))
    split = {row["item"]: row["split"] for row in json.loads((out / "splits.json").read_text())["items"]}
    assert [(row["participant_id"], row["speaker"], row["split"]) for row in people] == [
        ("sub-p1", "p1", split["e1"]),
        ("sub-p2", "p2", split["e2"]),
        ("sub-p3", "p3", split["e3"]),
    ]
    assert json.loads((out / "dataset_description.json").read_text())["License"] == "CC-BY-4.0"
    assert [p.name for p in out.rglob("README*")] == ["README.md"], "one README, at the top"
    recordings = [p for p in out.rglob("*") if p.suffix in (".wav", ".mkv")]
    assert all(p.with_suffix(".json").is_file() for p in recordings) and len(recordings) == 4 + 4
    scans = {
        str(Path(table.parent, row["filename"]).relative_to(out)): row
        for table in out.rglob("*_scans.tsv")
        for row in csv.DictReader(table.open(), delimiter="\t")
    }
    assert set(scans) == {str(p.relative_to(out)) for p in recordings}
    for path in recordings:
        side = json.loads(path.with_suffix(".json").read_text())
        episode = Episode.open(data[1][scans[str(path.relative_to(out))]["episode"]])
        if path.suffix == ".wav":
            assert side["RecordingDuration"] == pytest.approx(soundfile.info(path).duration, abs=1e-6)
            assert side["Clock"]["sound"][0]["t_ns"] == int(episode.audio_map.time_ns(0))
        else:
            camera = "door" if "_recording-door_" in path.name else ""
            assert side["FrameTimes"] == episode.frame_times(camera).tolist()
            assert len(pictures(path)[0]) == side["FrameCount"] == len(side["FrameTimes"])
        assert path.name.startswith(
            f"sub-{episode.profile.speaker}_ses-{episode.profile.session}_task-request_"
        )


def test_bids_by_its_validator(releases):
    pytest.importorskip("bids_validator_deno", reason="bids-validator-deno is not installed")
    call = [sys.executable, "-c", "from bids_validator_deno import cli; cli()", "--format", "json"]
    done = subprocess.run([*call, str(releases["bids"])], capture_output=True, timeout=120, check=False)
    found = json.loads(done.stdout)
    assert [issue for issue in found["issues"]["issues"] if issue["severity"] == "error"] == []
    assert found["summary"]["subjects"] and found["summary"]["tasks"] == ["request"]


# ------------------------------------------------------------------ odd input


def test_a_gap_in_the_sound_is_in_the_clock_and_not_filled(data, releases):
    told = json.loads((releases["omnismarthome"] / "episodes/e1/observations/times.json").read_text())
    first, second = told["sound"]
    assert (first["frame"], second["frame"]) == (0.0, pytest.approx(12000, abs=600))
    assert second["lost_s"] == pytest.approx(0.1, abs=0.01)
    end_ns = first["t_ns"] + second["frame"] * 1e9 / first["rate_hz"]
    assert second["t_ns"] - end_ns == pytest.approx(0.1e9, abs=0.01e9)


def test_float_keeps_what_is_beyond_full_scale(data, tmp_path):
    export_release(data[1][CLIPPED], "audiofolder", tmp_path / "out", ReleaseOptions(sound="float"))
    x, _ = soundfile.read(tmp_path / "out" / "data" / "train" / f"{CLIPPED}.wav", dtype="float64")
    wanted, _ = soundfile.read(data[1][CLIPPED] / "foa_24k.wav", dtype="float64")
    np.testing.assert_array_equal(x, wanted)
    assert (
        np.abs(x).max() > 1 and json.loads((tmp_path / "out" / "release.json").read_text())["clipped"] == []
    )


def test_without_video_no_picture_goes_out(data, tmp_path):
    for name in OURS:
        export_release(data[1]["e2"], name, tmp_path / name, ReleaseOptions(video=False))
        suffixes = {p.suffix for p in (tmp_path / name).rglob("*")}
        assert suffixes.isdisjoint({".mkv", ".mp4", ".png", ".jpg"}), name


def test_ids_that_meet_get_their_session_and_labels_stay_apart(tmp_path):
    for session in ("s-1", "s1"):
        for name in ("e-1", "e1"):
            told = profile(
                name, session, "p_1" if session == "s1" else "p1", origin="virtual", goal=Goal(kind="answer")
            )
            accept(record(tmp_path / "data", told, seconds=0.3, pictures=False).path)
    export_release(tmp_path / "data", "bids", tmp_path / "out")
    assert len(list((tmp_path / "out").rglob("*.wav"))) == 4
    rows = read_tsv(tmp_path / "out" / "participants.tsv")
    assert [(row["participant_id"], row["speaker"]) for row in rows] == [
        ("sub-p1", "p1"),
        ("sub-p1x2", "p_1"),
    ]
    ids = {row["episode"] for path in (tmp_path / "out").rglob("*_scans.tsv") for row in read_tsv(path)}
    assert ids == {"s-1-e-1", "s-1-e1", "s1-e-1", "s1-e1"}
