"""WebDataset, MCAP and LeRobot releases, read back by the libraries that they are for."""

from __future__ import annotations

import base64
import io
import json
import os
import resource
import signal
import tarfile
from pathlib import Path

import numpy as np
import pytest
import soundfile

from dsp.errors import InputError
from recordings import Episode, StorageError
from recordings.release.checksums import check_checksums
from recordings.release.item import NO_SPLIT, ReleaseItem
from recordings.release.media import Media
from recordings.release.options import ReleaseOptions
from recordings.release.run import export_release
from recordings.release.webdataset import export as export_webdataset
from tests.recordings.release_episodes import SECRET, household
from tests.recordings.test_release_run import in_a_child, killed_at

OURS = ("webdataset", "mcap", "lerobot")
NEEDS = {"webdataset": (), "mcap": ("mcap",), "lerobot": ("pyarrow",)}


def library(name: str):
    return pytest.importorskip(name, reason=f"needs the library {name}")


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> tuple[Path, dict[str, Path]]:
    root = tmp_path_factory.mktemp("data")
    return root, household(root)


def sources(name: str, data) -> list[Path]:
    """All episodes, but for LeRobot, which takes only those with pictures."""
    return [path for key, path in data[1].items() if name != "lerobot" or key != "e4"]


@pytest.fixture(scope="module")
def releases(data, tmp_path_factory):
    """A format's release, made at its first use."""
    out = tmp_path_factory.mktemp("releases")
    made: dict[str, Path] = {}

    def release(name: str) -> Path:
        for module in NEEDS[name]:
            library(module)
        if name not in made:
            export_release(sources(name, data), name, out / name, ReleaseOptions(name="home"))
            made[name] = out / name
        return made[name]

    return release


@pytest.fixture(scope="module")
def episodes(data, releases) -> dict[str, Episode]:
    """Those that are in the releases, by id."""
    told = json.loads((releases("webdataset") / "splits.json").read_text())
    return {row["item"]: Episode.open(data[1][row["item"]]) for row in told["items"]}


def as_24_bits(episode: Episode) -> np.ndarray:
    x, _ = soundfile.read(episode.path / "foa_24k.wav", dtype="float64")
    return np.clip(np.rint(x * 2**23), -(2**23), 2**23 - 1) / 2**23


@pytest.mark.parametrize("name", OURS)
def test_a_release_is_whole_and_tells_no_secret(name: str, releases):
    release = releases(name)
    assert check_checksums(release) == []
    for path in release.rglob("*"):
        if path.is_file():
            content = path.read_bytes()
            assert SECRET.encode() not in content and b"neighbour" not in content, path


@pytest.mark.parametrize("name", OURS)
def test_killed_or_without_room_the_same_call_completes_to_the_same_bytes(name, data, releases, tmp_path):
    """The same as those of the release that was made in one go, so two exports are equal as well."""
    whole = releases(name)
    out = tmp_path / "out"

    def export() -> None:
        export_release(sources(name, data), name, out, ReleaseOptions(name="home"))

    for step in (25, 60):
        assert killed_at(step, tmp_path / "out.partial", export) == -signal.SIGKILL, step
        assert not out.exists() and (tmp_path / "out.partial").is_dir()

    def without_room() -> None:
        # Sounds are there already; what is made of them is larger than this.
        most = 3_000 if name == "lerobot" else 60_000
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, resource.RLIM_INFINITY))
        try:
            export()
        except StorageError as error:
            os._exit(70 + ("too large" in str(error)))

    assert in_a_child(without_room) == 71
    assert not out.exists()
    export()
    assert not (tmp_path / "out.partial").exists()
    assert (out / "checksums.sha256").read_bytes() == (whole / "checksums.sha256").read_bytes()
    assert check_checksums(out) == []


# ------------------------------------------------------------------ WebDataset


def test_webdataset_reads_every_sample_whole(releases, episodes):
    webdataset = library("webdataset")
    release = releases("webdataset")
    shards = sorted(map(str, release.glob("*.tar")))
    samples = list(webdataset.WebDataset(shards, shardshuffle=False))
    assert [s["__key__"] for s in samples] == sorted(episodes)
    for sample in samples:
        episode = episodes[sample["__key__"]]
        foa, rate = soundfile.read(io.BytesIO(sample["foa.wav"]), dtype="float64")
        assert rate == 24000
        np.testing.assert_array_equal(foa, as_24_bits(episode))
        told = json.loads(sample["json"])
        assert told["profile"]["request"] == episode.profile.request
        times = told["clocks"]["frame_times_ns"].get("main", [])
        assert times == episode.frame_times().tolist()
        if episode.cameras:
            import av

            with av.open(io.BytesIO(sample["mp4"])) as video:
                assert sum(1 for _ in video.decode(video=0)) == len(times)
    listed = json.loads((release / "shards.json").read_text())["shardlist"]
    assert sum(entry["nsamples"] for entry in listed) == len(samples)
    assert [(release / e["url"]).stat().st_size for e in listed] == [e["filesize"] for e in listed]
    # Provenance names every member with its hash.
    rows = [json.loads(row) for row in (release / "provenance.jsonl").read_text().splitlines()]
    told = {row["member"]: row["sha256"] for row in rows if row["member"]}
    with tarfile.open(shards[0]) as tar:
        members = tar.getmembers()
        assert {m.name for m in members} <= set(told)
        import hashlib

        for member in members:
            assert (member.mtime, member.uid, member.uname, member.mode) == (0, 0, "", 0o644)
            assert hashlib.sha256(tar.extractfile(member).read()).hexdigest() == told[member.name]


def items_of(data, out: Path, splits: dict[str, str] | None = None, video: bool = True) -> list[ReleaseItem]:
    out.mkdir()
    media = Media(out, ReleaseOptions(name="home", video=video))
    return [
        ReleaseItem(name, path, (splits or {}).get(name, NO_SPLIT), "0" * 64, media)
        for name, path in sorted(data[1].items())
        if (path / "foa_24k.wav").is_file() and (path / "manifest.json").is_file()
    ]


def test_shards_are_cut_between_samples_and_by_split(data, tmp_path: Path):
    names = [item.id for item in items_of(data, tmp_path / "none")]
    items = items_of(
        data, tmp_path / "out", {name: "test" if i % 2 else "train" for i, name in enumerate(names)}
    )
    options = ReleaseOptions(name="home")
    report = export_webdataset(items, tmp_path / "out", options, lambda n: None, shard_bytes=400_000)
    found: dict[str, list[str]] = {}
    for path in sorted((tmp_path / "out").glob("*.tar")):
        with tarfile.open(path) as tar:
            found[path.name] = [member.name for member in tar]
        keys = {name.partition(".")[0] for name in found[path.name]}
        assert len(keys) == 1 or path.stat().st_size <= 400_000
    assert report.facts["shards"] == len(found) > 2
    members = [name for names in found.values() for name in names]
    assert len(members) == len(set(members)) and all(names == sorted(names) for names in found.values())
    train = {
        n.partition(".")[0] for shard, ns in found.items() if shard.startswith("home-train-0") for n in ns
    }
    assert train == set(names[::2])
    assert list((tmp_path / "out").rglob("*.wav")) == [], "nothing is left beside the shards"


# ------------------------------------------------------------------ MCAP


def messages(path: Path) -> tuple[dict[str, list[tuple[int, dict]]], dict[str, dict], dict[str, dict]]:
    """(topic -> [(log time, message)], metadata, attachments as JSON), by the library's own reader."""
    from mcap.reader import make_reader

    found: dict[str, list[tuple[int, dict]]] = {}
    with open(path, "rb") as file:
        reader = make_reader(file, validate_crcs=True)
        for _, channel, message in reader.iter_messages():
            found.setdefault(channel.topic, []).append((message.log_time, json.loads(message.data)))
        metadata = {record.name: record.metadata for record in reader.iter_metadata()}
        attached = {record.name: json.loads(record.data) for record in reader.iter_attachments()}
    return found, metadata, attached


def test_mcap_holds_sound_pictures_and_directions_at_their_times(releases, episodes):
    library("mcap")
    release = releases("mcap")
    assert sorted(path.stem for path in release.glob("episodes/*.mcap")) == sorted(episodes)
    for name, episode in episodes.items():
        found, metadata, attached = messages(release / "episodes" / f"{name}.mcap")
        utc = int(metadata["hearth.clock"]["utc_minus_monotonic_ns"])
        blocks = found["/foa24"]
        sound = np.concatenate(
            [
                np.frombuffer(base64.b64decode(m["samples"]), "<f4").reshape(-1, m["number_of_channels"])
                for _, m in blocks
            ]
        )
        np.testing.assert_array_equal(sound.astype(np.float64), as_24_bits(episode))
        frames = np.array([m["data"]["frame"] for _, m in blocks]) * 2
        expected = episode.audio_map.time_ns(frames.astype(np.float64))
        assert np.abs(np.array([m["t_ns"] for _, m in blocks]) - expected).max() <= 50_000
        for times in found.values():
            for log_ns, message in times:
                stamp = message["timestamp"]["sec"] * 10**9 + message["timestamp"]["nsec"]
                header = message.get("header", message)
                assert stamp == log_ns and header.get("t_ns", log_ns - utc) == log_ns - utc
        pictures = found.get("/video", [])
        assert [m["header"]["t_ns"] for _, m in pictures] == episode.frame_times().tolist()
        assert all(base64.b64decode(m["data"])[:3] == b"\xff\xd8\xff" for _, m in pictures)
        assert [m["data"]["active"] for _, m in found["/doa"]] == episode.doa().active.tolist()
        assert attached["episode.json"]["profile"]["id"] == episode.profile.id
        assert metadata["hearth.episode"]["request"] == episode.profile.request


def test_the_live_recorder_and_a_release_have_one_set_of_schemas(releases):
    library("mcap")
    from mcap.reader import make_reader

    from edge.stream import mcap_recording
    from recordings import mcap_schemas

    path = sorted(releases("mcap").glob("episodes/*.mcap"))[0]
    with open(path, "rb") as file:
        summary = make_reader(file).get_summary()
    told = {schema.name: schema.data for schema in summary.schemas.values()}
    assert told["hearth.Audio"] == mcap_schemas.AUDIO == mcap_recording.AUDIO
    assert told["foxglove.CompressedImage"] == mcap_recording.IMAGE
    assert told["hearth.Message"] == mcap_recording.MESSAGE


# ------------------------------------------------------------------ LeRobot


def test_lerobot_tables_by_the_documented_schema(releases, episodes):
    """Without LeRobot: its paths, columns and types, read by pyarrow, PyAV and libsndfile."""
    library("pyarrow")
    import av
    import pyarrow.parquet as pq

    root = releases("lerobot")
    info = json.loads((root / "meta" / "info.json").read_text())
    named = json.loads((root / "meta" / "hearth.json").read_text())["episodes"]
    assert [entry["id"] for entry in named] == ["e1", "e2", "e3"]
    assert (info["codebase_version"], info["fps"], info["total_episodes"]) == ("v3.0", 17, 3)
    assert info["splits"] == {"train": "0:3"}
    video = "observation.images.main"
    assert info["features"][video]["info"]["has_audio"] is False
    tasks = pq.read_table(root / "meta" / "tasks.parquet").to_pandas()
    assert list(tasks.index) == [episodes["e1"].profile.request] and list(tasks.task_index) == [0]
    rows = pq.read_table(root / "meta" / "episodes" / "chunk-000" / "file-000.parquet").to_pylist()
    at = 0
    for row, entry in zip(rows, named, strict=True):
        episode = episodes[entry["id"]]
        data_path = info["data_path"].format(
            chunk_index=row["data/chunk_index"], file_index=row["data/file_index"]
        )
        table = pq.read_table(root / data_path, filters=[("episode_index", "=", row["episode_index"])])
        times = episode.frame_times()
        assert table["observation.time_ns"].to_pylist() == times.tolist()
        assert (row["dataset_from_index"], row["dataset_to_index"]) == (at, at + len(times))
        assert table["index"].to_pylist() == list(range(at, at + len(times)))
        at += len(times)
        np.testing.assert_allclose(table["timestamp"].to_numpy(), np.arange(len(times)) / 17, atol=1e-6)
        # The frame of the sound at each picture: its time by the episode's own clock is the picture's.
        frames = np.array(table["observation.sound_frame"].to_pylist())
        heard = frames >= 0
        assert heard.mean() > 0.85
        late = times[heard] - episode.audio_map.time_ns(frames[heard] * 2.0)
        assert late.min() >= -50_000 and late.max() < 1e9 / 24000 + 50_000
        sound, _ = soundfile.read(root / entry["sound"], dtype="float64")
        np.testing.assert_array_equal(sound, as_24_bits(episode))
        # The noise comes from 40 degrees left, 10 up.
        direction = np.array(table["observation.sound_direction"].to_pylist())
        known = np.linalg.norm(direction, axis=1) > 0
        assert known.mean() > 0.5
        off = np.degrees(np.arctan2(direction[known, 1], direction[known, 0])) - 40.0
        assert np.abs(np.median(off)) < 3
        # Pictures: each at its place on the grid, with the brightness that was recorded.
        path = root / info["video_path"].format(
            video_key=video,
            chunk_index=row[f"videos/{video}/chunk_index"],
            file_index=row[f"videos/{video}/file_index"],
        )
        begin = row[f"videos/{video}/from_timestamp"]
        with av.open(str(path)) as reader:
            shown = [
                (float(f.pts * f.time_base), f.to_ndarray(format="gray").mean())
                for f in reader.decode(video=0)
            ]
        mine = [
            (t, level) for t, level in shown if begin - 1e-4 <= t < row[f"videos/{video}/to_timestamp"] - 1e-4
        ]
        np.testing.assert_allclose([t for t, _ in mine], begin + np.arange(len(times)) / 17, atol=2e-5)
        truth = [image.mean() for _, image in episode.frames()]
        assert np.abs(np.array([level for _, level in mine]) - truth).max() < 4
    stats = json.loads((root / "meta" / "stats.json").read_text())
    assert np.array(stats[video]["mean"]).shape == (3, 1, 1) and stats["index"]["max"] == [at - 1]


def test_what_is_no_one_lerobot_dataset_is_refused(data, tmp_path: Path):
    library("pyarrow")
    with pytest.raises(InputError, match="has no pictures"):
        export_release(data[0], "lerobot", tmp_path / "x", ReleaseOptions(name="home"))
    release = tmp_path / "sound"
    export_release(data[0], "lerobot", release, ReleaseOptions(name="home", video=False))
    info = json.loads((release / "meta" / "info.json").read_text())
    assert info["fps"] == 10 and info["video_path"] is None and info["total_episodes"] == 4


@pytest.fixture(scope="module")
def in_many_files(data, tmp_path_factory) -> Path:
    """e1 and e3 to train on, e2 to test; small files of data."""
    library("pyarrow")
    from recordings.release.lerobot import export

    out = tmp_path_factory.mktemp("many") / "out"
    splits = {"e1": "train", "e2": "test", "e3": "train"}
    items = [item for item in items_of(data, out, splits) if item.id in splits]
    export(items, out, ReleaseOptions(name="home"), lambda n: None, data_mb=0.001)
    return out


def test_lerobot_in_many_files_and_splits(in_many_files: Path):
    import pyarrow.parquet as pq

    info = json.loads((in_many_files / "meta" / "info.json").read_text())
    assert info["splits"] == {"train": "0:2", "test": "2:3"}
    named = json.loads((in_many_files / "meta" / "hearth.json").read_text())["episodes"]
    assert [entry["id"] for entry in named] == ["e1", "e3", "e2"]
    rows = pq.read_table(in_many_files / "meta/episodes/chunk-000/file-000.parquet").to_pylist()
    assert [row["data/file_index"] for row in rows] == [0, 1, 2]
    video = "videos/observation.images.main"
    # e1 and e3 are coded alike and lie in one file, e2 has its camera's JPEGs.
    assert [(row[f"{video}/file_index"], row[f"{video}/from_timestamp"]) for row in rows] == [
        (0, 0.0),
        (0, rows[0]["length"] / 17),
        (1, 0.0),
    ]
    files = sorted(path.name for path in (in_many_files / "data").rglob("*.parquet"))
    assert files == ["file-000.parquet", "file-001.parquet", "file-002.parquet"]
    first = pq.read_table(in_many_files / "data/chunk-000/file-001.parquet")["index"].to_pylist()
    assert first == list(range(rows[1]["dataset_from_index"], rows[1]["dataset_to_index"]))


def test_a_video_file_ends_before_the_loaders_times_are_too_coarse(data, tmp_path: Path):
    from recordings.release.lerobot_video import VideoFiles

    item = items_of(data, tmp_path / "out")[0]
    made = item.write_video(tmp_path / "out" / "one.mp4")
    videos = VideoFiles(tmp_path / "packed", 10, file_s=2.0 * made.frames / 10)
    places = [videos.add(made.path) for _ in range(3)]
    videos.close()
    assert [(place.file_index, place.from_timestamp) for place in places] == [
        (0, 0.0),
        (0, made.frames / 10),
        (1, 0.0),
    ]
    assert len(list((tmp_path / "packed").rglob("*.mp4"))) == 2


@pytest.mark.parametrize("files", ["one", "many"])
def test_lerobots_own_loader_reads_it(files: str, releases, episodes, in_many_files):
    library("pyarrow")
    library("torch")
    lerobot = pytest.importorskip("lerobot.datasets.lerobot_dataset", reason="needs LeRobot")
    root = releases("lerobot") if files == "one" else in_many_files
    names = ("e1", "e2", "e3") if files == "one" else ("e1", "e3", "e2")
    data = lerobot.LeRobotDataset("hearth/home", root=root, video_backend="pyav")
    assert (data.num_episodes, data.fps) == (3, 17)
    at = 0
    for name in names:
        episode = episodes[name]
        for (t_ns, image), number in zip(episode.frames(), range(at, len(data)), strict=False):
            item = data[number]
            assert int(item["observation.time_ns"]) == t_ns
            assert item["task"] == episode.profile.request
            assert abs(float(item["observation.images.main"].mean()) * 255 - image.mean()) < 4
        at += len(episode.frame_times())
    assert at == len(data)
