"""From a guided session in the virtual home to releases in every format, of what was kept and accepted."""

from __future__ import annotations

import csv
import io
import json
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
import soundfile

from capture.sources import open_rig
from capture.virtual.staged import staged_request, staged_rig
from edge.session.engine import Session
from edge.session.operators import Auto
from edge.session.stage import ScenePlayed, Setting, Stage
from recordings import Episode
from recordings.plan.model import PlanItem
from recordings.release.checksums import check_checksums
from recordings.release.events import CLASSES
from recordings.release.formats import FORMATS
from recordings.release.omnismarthome import import_episode
from recordings.release.options import ReleaseOptions
from recordings.release.run import export_release
from recordings.session_journal import kept_takes
from tests.edge.session_plans import humming, item, plan_of
from tests.recordings.release_episodes import accept, profile, record

PLAN = plan_of(
    humming(1),
    item(2, "Switch the counter light on.", room="kitchen", target="kitchen_on_off_light_1", speaker=1),
)
GOES_OUT = ("ep0001", "ep0002")


class SmallPictures(Stage):
    """The virtual room with a small camera."""

    def open_scene(self, item: PlanItem, take: int) -> Setting:
        rig = staged_rig(item, self.plan, storage=str(self.storage), take=take)
        camera = msgspec.structs.replace(rig.camera, width_px=160, height_px=90)
        rig = msgspec.structs.replace(rig, camera=camera)
        return ScenePlayed(item, rig, open_rig(rig, staged_request(item, self.plan)))


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two planned episodes, one that was rejected, one not reviewed, and one that a stranger is in."""
    folder = tmp_path_factory.mktemp("data")
    Session(
        PLAN, folder, "day", SmallPictures(PLAN, folder), countdown_s=0, report=False, operator=Auto()
    ).run()
    for path in kept_takes(folder / "day").values():
        accept(path)
    short = {"seconds": 0.3, "pictures": False}
    accept(record(folder, profile("visit", "other", "stranger"), **short).path)
    accept(record(folder, profile("noisy", "other", "nobody", origin="virtual"), **short).path, "reject")
    record(folder, profile("unseen", "other", "nobody", origin="virtual"), **short)
    return folder


def kept(data: Path) -> dict[str, Episode]:
    """The episodes that go out, by the id that they have in a release."""
    return {
        path.name: Episode.open(path) for name, path in kept_takes(data / "day").items() if name in GOES_OUT
    }


def in_24_bits(episode: Episode) -> np.ndarray:
    return np.clip(np.rint(episode.audio(24000).astype(np.float64) * 2**23), -(2**23), 2**23 - 1) / 2**23


def same_sounds(wavs: list[Any], data: Path) -> None:
    """Each of these WAV files (paths, or their content) is the sound of one episode; none is missing."""
    left = {name: in_24_bits(episode) for name, episode in kept(data).items()}
    for wav in wavs:
        x, rate = soundfile.read(io.BytesIO(wav) if isinstance(wav, bytes) else wav, dtype="float64")
        found = [name for name, y in left.items() if np.array_equal(x, y)]
        assert rate == 24000 and len(found) == 1
        del left[found[0]]
    assert left == {}


def of_folders(out: Path, data: Path) -> None:
    same_sounds(sorted(out.rglob("*.wav")), data)


def of_tar(out: Path, data: Path) -> None:
    wavs = []
    for shard in sorted(out.glob("*.tar")):
        with tarfile.open(shard) as tar:
            wavs += [tar.extractfile(m).read() for m in tar if m.name.endswith(".wav")]  # type: ignore[union-attr]
    same_sounds(wavs, data)


def of_mcap(out: Path, data: Path) -> None:
    reader = pytest.importorskip("mcap.reader", reason="mcap is not installed")
    files = sorted(out.rglob("*.mcap"))
    assert len(files) == len(GOES_OUT)
    for path in files:
        with open(path, "rb") as file:
            summary = reader.make_reader(file).get_summary()
        assert summary is not None and summary.statistics.message_count > 50


def of_parquet(out: Path, data: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed")
    rows = sum(parquet.read_table(path).num_rows for path in (out / "data").rglob("*.parquet"))
    assert rows == sum(len(episode.frame_times()) for episode in kept(data).values())


READERS: dict[str, Callable[[Path, Path], None]] = {
    "omnismarthome": of_folders,
    "dcase": of_folders,
    "audiofolder": of_folders,
    "bids": of_folders,
    "webdataset": of_tar,
    "mcap": of_mcap,
    "lerobot": of_parquet,
}


def test_every_format_is_looked_at():
    assert set(READERS) == set(FORMATS)


@pytest.mark.parametrize("name", READERS)
def test_a_session_goes_out_in_every_format(name: str, data: Path, tmp_path: Path):
    for module in {"mcap": ("mcap",), "lerobot": ("pyarrow",)}.get(name, ()):
        pytest.importorskip(module, reason=f"{module} is not installed")
    done = export_release(data, name, tmp_path / "r")
    assert {one.path.name: one.code for one in done.left_out} == {
        "visit": "consent",
        "noisy": "rejected",
        "unseen": "unreviewed",
    }
    assert check_checksums(tmp_path / "r") == []
    assert done.facts["numbers"]["episodes"] == len(GOES_OUT)
    items = {row["item"] for row in json.loads((tmp_path / "r" / "splits.json").read_text())["items"]}
    assert items == set(kept(data))
    READERS[name](tmp_path / "r", data)
    for path in (tmp_path / "r").rglob("*"):
        assert not path.is_file() or b"stranger" not in path.read_bytes()


def test_events_are_where_the_scene_put_them(data: Path, tmp_path: Path):
    export_release(data, "dcase", tmp_path / "r")
    rows = list(csv.DictReader((tmp_path / "r" / "files.csv").open()))
    assert {row["events_from"] for row in rows} == {"truth"}
    for row in rows:
        episode = kept(data)[row["episode"]]
        table = next((tmp_path / "r" / "metadata_dev").rglob(row["file"].replace(".wav", ".csv")))
        events = [line.split(",") for line in table.read_text().splitlines()]
        speech = [event for event in events if int(event[1]) == CLASSES.index("speech")]
        assert len(speech) >= 5, "somebody asks for something"
        # The talker that Hearth heard is where the events say it is.
        frames = {int(event[0]): (float(event[3]), float(event[4])) for event in speech}
        doa = episode.doa()
        near = []
        for start, azimuth, active in zip(doa.times_s, doa.azimuth_deg, doa.active, strict=True):
            if active and round(start * 10) in frames and np.isfinite(azimuth):
                near.append(abs((azimuth - frames[round(start * 10)][0] + 180) % 360 - 180))
        assert np.median(near) < 8, row["episode"]
        assert len({event[1] for event in events}) == (3 if row["episode"].startswith("ep0001") else 2), (
            "slate too"
        )


def test_a_planned_episode_comes_back_with_its_truth(data: Path, tmp_path: Path):
    export_release(data, "omnismarthome", tmp_path / "r", ReleaseOptions(sound="float"))
    name, episode = next((n, e) for n, e in kept(data).items() if n.startswith("ep0002"))
    again = import_episode(tmp_path / "r" / "episodes" / name, tmp_path / "data", report=False)
    np.testing.assert_array_equal(again.audio(24000), episode.audio(24000))
    assert again.truth() == episode.truth() and again.profile.goal == episode.profile.goal
    assert again.profile.plan_item == episode.profile.plan_item and again.verify().ok
