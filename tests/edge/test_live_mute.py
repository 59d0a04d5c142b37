"""Hard mute and takes of a running rig: what is muted goes nowhere, takes begin and end while it runs."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np
import pytest
import soundfile

sys.path.insert(0, str(Path(__file__).parent))
from test_live_service import make_files, rig_text

from capture.blocks import AudioBlock, SourceEvent, VideoFrame, monotonic_ns
from capture.rig import Rig, parse_rig
from capture.sources import open_rig
from dsp.errors import HearthError, InputError
from edge.live import LiveService
from edge.mute import Gate
from edge.stream import Client
from recordings.episode import Episode

CONTENT = ("foa24", "video", "doa", "tracks", "activity", "levels")


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Rig:
    folder = tmp_path_factory.mktemp("mute")
    make_files(folder, seconds=6.0)
    return parse_rig(rig_text(folder))


def sent(service: LiveService) -> dict[str, int]:
    counts = service.publisher.sent
    return {name: counts.get(name, 0) for name in CONTENT}


def until(happens, timeout_s: float = 20.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not happens():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)


def test_mute_and_takes_of_a_running_rig(rig: Rig, tmp_path: Path) -> None:
    remember = tmp_path / "muted"
    with open_rig(rig) as opened:
        service = LiveService(rig, opened, mute_file=remember)
        with service, Client(service.stream_address, service.commands_address, ["state", "event"]) as client:
            with pytest.raises(HearthError, match="not running"):
                client.command("live.record", on=True)
            service.start()
            until(lambda: sent(service)["doa"] > 0 and sent(service)["video"] > 0)
            began = client.command("live.record", on=True, name="Tea time", profile={"request": "tea"})
            assert began["recording"] and began["light"] == "recording" and "Tea-time" in began["episode"]
            with pytest.raises(HearthError, match="a take is running"):
                client.command("live.record", on=True)
            time.sleep(0.6)

            muted = client.command("live.mute", muted=True)
            muted_ns, before = monotonic_ns(), sent(service)
            assert muted["muted"] and muted["light"] == "muted" and remember.exists()
            time.sleep(0.7)
            after, unmuted_ns = sent(service), monotonic_ns()
            assert after == before  # not one message of what is heard or seen
            client.command("live.mute", muted=False)
            assert not remember.exists()
            until(lambda: sent(service)["doa"] > after["doa"] + 3 and sent(service)["video"] > after["video"])

            client.command("live.record", on=False)
            client.command("live.record", on=True, name="Tea time")  # the next one, while that is finished
            until(lambda: service.recorder.seconds > 0.2)
            client.command("live.mute", muted=True)
            client.command("live.record", on=False)  # ends muted
            with pytest.raises(HearthError, match="muted"):
                client.command("live.record", on=True)
            with pytest.raises(HearthError, match="true or false"):
                client.command("live.mute", muted="yes")
            until(lambda: not service.state()["finishing"], 60)
            assert service.stats()["gaps"] == service.stats()["lost_frames"] == 0
            paths = service.stats()["recordings"]  # as they were finished
            service.stop()
            told = list(client.messages(5))
    assert [m.data["kind"] for m in told if m.stream == "event"].count("recorded") == 2
    lights = [m.data["light"] for m in told if m.stream == "state"]
    assert lights[-1] == "off" and {"ready", "recording", "muted"} <= set(lights)

    first, second = (Episode.open(path) for path in sorted(paths))
    assert first.verify().ok and second.verify().ok and first.profile.request == "tea"
    lines = first.timeline()
    blocks = [line for line in lines if line["type"] == "audio"]
    assert not [b for b in blocks if muted_ns < b["t_ns"] + 10_000_000 < unmuted_ns]
    assert not [x for x in lines if x["type"] == "frame" and muted_ns < x["t_ns"] < unmuted_ns]
    (gap,) = [x for x in lines if x["type"] == "gap" and x["stream"] == "audio"]
    (unseen,) = [x for x in lines if x["type"] == "gap" and x["stream"] == "video"]
    assert gap["cause"] == unseen["cause"] == "muted"
    assert gap["lost_frames"] == pytest.approx(0.7 * 48000, abs=0.2 * 48000)
    assert unseen["dropped"] == pytest.approx(0.7 * 15, abs=4)
    # What was recorded is the source's, at its place: the counter says where.
    source, _ = soundfile.read(rig.microphone.file, dtype="int32", always_2d=True)
    kept = np.concatenate([source[b["first_frame"] : b["first_frame"] + b["frames"]] for b in blocks])
    np.testing.assert_array_equal(np.round(first.audio(48000) * 2.0**23), kept >> 8)
    states = [x["data"]["light"] for x in lines if x["type"] == "event" and x["kind"] == "state"]
    assert "muted" in states and states[-1] == "recording"
    assert "Muted 1 time" in (first.path / "report.html").read_text(encoding="utf-8")  # and no fault
    ends = [x for x in second.timeline() if x["type"] == "gap" and x["cause"] == "muted"]
    assert {x["stream"] for x in ends} <= {"audio", "video"}


def test_a_rig_that_was_muted_starts_muted(rig: Rig, tmp_path: Path) -> None:
    (tmp_path / "muted").touch()
    with open_rig(rig) as opened, LiveService(rig, opened, mute_file=tmp_path / "muted") as service:
        service.start()
        until(lambda: service.publisher.sent.get("health", 0) >= 1)
        assert service.state()["light"] == "muted" and not any(sent(service).values())
        service.mute(False)
        until(lambda: all(sent(service)[name] for name in ("foa24", "video")))
        with pytest.raises(InputError, match="true or false"):
            service.mute(1)  # type: ignore[arg-type]


def test_a_gate_hands_on_what_says_nothing_of_the_room() -> None:
    out: list = []
    gate = Gate(out.append)
    block = AudioBlock(10, 0, 480, 48000, np.zeros((480, 4), np.int32), 10)
    picture = VideoFrame(20, 0, np.zeros((2, 2, 3), np.uint8), dropped=2)
    gate.shut()
    lossy = AudioBlock(15, 1, 1440, 48000, block.samples, 15, lost_frames=480)
    for item in (block, lossy, picture, SourceEvent(1, "camera", "frozen"), SourceEvent(2, "camera", "lost")):
        gate.sink(item)
    assert [item.kind for item in out] == ["lost"]
    held = gate.open()
    assert held is not None and held.count == 2 + 3 and held.since_ns == 10
    gate.sink(AudioBlock(30, 2, 1920, 48000, block.samples, 30, flags=("input_overflow",)))
    gate.sink(block)
    assert out[1].flags == ("muted", "input_overflow") and out[1].lost_frames == 480 and out[2] is block
    assert gate.open() is None is gate.held
