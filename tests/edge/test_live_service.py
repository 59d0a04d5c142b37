"""The live service on real files: everything reaches a subscriber, the home answers, a take is written."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import closing
from pathlib import Path

import av
import msgspec
import numpy as np
import pytest
import soundfile

import dsp
from capture.rig import DEFAULT_RIG, Rig, load_rig, parse_rig
from capture.sources import open_rig
from capture.take import new_profile
from dsp.errors import CheckFailed, DeviceError, HearthError
from edge.home.service import home_of
from edge.live import LiveService, ProcessMeter
from edge.stream import Client, CommandClient
from recordings.episode import Episode

REPO = Path(__file__).parents[2]
SECONDS = 2.5
FAN = "living_room_fan_1"


def make_files(folder: Path, seconds: float = SECONDS) -> np.ndarray:
    """A sound file with noise bursts from -70 degrees and a video file; returns the sound."""
    rng = np.random.default_rng(4)
    frames = round(seconds * 48000)
    gate = np.sin(2 * np.pi * 3 * np.arange(frames) / 48000) > 0
    foa = dsp.encode((rng.standard_normal(frames) * gate * 0.1).astype(np.float32), -70.0, 5.0)
    foa = (foa + rng.standard_normal(foa.shape) * 1e-4).astype(np.float32)
    soundfile.write(folder / "sound.wav", foa, 48000, subtype="PCM_24")
    with av.open(str(folder / "pictures.mkv"), "w") as container:
        stream = container.add_stream("mjpeg", rate=15)
        stream.width, stream.height, stream.pix_fmt = 160, 90, "yuvj420p"
        for number in range(round(seconds * 15)):
            picture = np.full((90, 160, 3), number % 200, np.uint8)
            container.mux(stream.encode(av.VideoFrame.from_ndarray(picture, format="bgr24")))
        container.mux(stream.encode())
    return foa


def rig_text(folder: Path) -> str:
    return f"""
hearth_rig: 1
microphone: {{source: file, file: {folder / "sound.wav"}}}
camera: {{source: file, file: {folder / "pictures.mkv"}, width_px: 160, height_px: 90}}
room:
  devices: [{{id: {FAN}, type: fan, name: fan, position_m: [1, 1, 1]}}]
storage: {{folder: {folder / "data"}, min_free_mib: 10}}
endpoints: {{stream: "tcp://127.0.0.1:0", commands: "tcp://127.0.0.1:0"}}
"""


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, np.ndarray]:
    folder = tmp_path_factory.mktemp("live")
    return folder, make_files(folder)


@pytest.fixture(scope="module")
def rig(files: tuple[Path, np.ndarray]) -> Rig:
    return parse_rig(rig_text(files[0]))


def test_everything_reaches_a_subscriber(rig: Rig, files: tuple[Path, np.ndarray]) -> None:
    got: dict[str, list] = {}

    def read(client: Client) -> None:
        for message in client.messages(30):
            got.setdefault(message.stream, []).append(message)

    with (
        open_rig(rig) as opened,
        LiveService(rig, opened, home=home_of(rig)) as service,
        Client(service.stream_address, service.commands_address) as client,
    ):
        client.wait_connected(10)
        reader = threading.Thread(target=read, args=(client,))
        reader.start()
        service.start()
        told = client.command("home.describe")
        assert [device["id"] for device in told["devices"]] == [FAN]
        client.command("home.command", device_id=FAN, command="On")
        with pytest.raises(HearthError, match="nobody"):
            client.command("home.command", device_id="nobody", command="On")
        assert service.ended.wait(15)
        stats = service.stop()
        reader.join(30)
        counts = client.statistics()

    for name, count in counts.items():
        assert count["reordered"] == count["repeated"] == count["overflowed"] == 0
        assert count["lost"] == 0 or name == "video"
        assert count["received"] + count["lost"] == stats["sent"].get(name, 0) or name in ("home", "state")

    sound = np.concatenate([m.array for m in got["foa24"]])
    samples, _ = soundfile.read(files[0] / "sound.wav", dtype="int32", always_2d=True)
    np.testing.assert_array_equal(sound, dsp.resample(samples, 48000, 24000))
    starts = [m.t_ns for m in got["foa24"]]
    assert starts[0] < got["foa24"][0].received_ns
    np.testing.assert_allclose(np.diff(starts)[1:-1], 10_000_000, atol=2)

    heard = [m.data["azimuth_deg"] for m in got["doa"] if m.data["active"]]
    assert len(heard) > 10 and np.median(np.abs(np.array(heard) + 70)) < 5
    assert len(got["doa"]) == len(got["levels"]) == round(SECONDS * 10)
    assert sum(len(m.data["hops"]) for m in got["activity"]) == round(SECONDS * 50)

    pictures = [m.image() for m in got["video"]]
    assert len(pictures) >= SECONDS * 15 / 2
    assert all(p.shape == (90, 160, 3) for p in pictures)
    numbers = [m.data["frame"] for m in got["video"]]
    assert numbers == sorted(numbers)
    for number, picture in zip(numbers, pictures, strict=True):
        assert abs(float(picture.mean()) - number % 200) < 6

    health = [m.data for m in got["health"]]
    assert len(health) >= 2
    assert {"cpu_percent", "rss_mib", "drift_ppm", "blocks_dropped", "audio_queue", "stages"} <= set(
        health[0]
    )
    assert health[-1]["stages"]["captured_to_published"]["count"] > 50
    way = health[-1]["stages"]["receive"]  # as this very client told it
    assert way["client"] == client.clock.name and way["count"] > 50 and 0 < way["p50_ms"] <= way["p99_ms"]
    ages = [(m.received_ns - m.header.sent_ns) / 1e6 for m in got["doa"]]
    assert min(ages) > 0 and way["p50_ms"] < 10 * np.percentile(ages, 99) + 1

    kinds = [m.data["kind"] for m in got["event"]]
    assert kinds.count("command") == 2 and kinds.count("ended") == 2
    states = [m.data["devices"][FAN]["1.OnOff.OnOff"] for m in got["home"]]
    assert states[0] is False and states[-1] is True  # the first one is the state that a late joiner gets
    assert got["home"][0].retained
    assert stats["blocks"] == round(SECONDS * 100) and stats["blocks_dropped"] == 0 and stats["commands"] == 3


def test_recording_beside_the_stream(rig: Rig) -> None:
    """The episode holds the original, and the timeline what people and agents did meanwhile."""
    with open_rig(rig) as opened:
        profile = new_profile(rig, opened, "live")
        service = LiveService(rig, opened, home=home_of(rig), record=True, profile=profile)
        with service, Client(service.stream_address, service.commands_address, streams=("event",)) as client:
            client.wait_connected(10)
            service.start()
            client.command("home.command", device_id=FAN, command="On")
            service.event("said", text="the fan is on")
            assert service.ended.wait(15)
            stats = service.stop()
            kinds = [m.data["kind"] for m in client.messages(10)]
    assert kinds[-1] == "recorded" and "said" in kinds
    episode = Episode.open(Path(stats["recording"]["episode"]))
    assert episode.state == "finished" and episode.verify().ok
    assert len(episode.audio()) == round(SECONDS * 24000)
    events = [line for line in episode.timeline() if line["type"] == "event"]
    said = [line for line in events if line["kind"] == "said"]
    assert len(said) == 1 and said[0]["data"]["text"] == "the fan is on"
    commands = [line for line in events if line["kind"] == "command"]
    assert (
        len(commands) == 1 and commands[0]["data"]["device_id"] == FAN and commands[0]["data"]["ok"] is True
    )
    assert [line["kind"] for line in events].count("ended") == 2  # told once each, not twice


def hearth(*arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, str(REPO / "hearth.py"), *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=REPO,
        env={**os.environ, "COLUMNS": "200"},
    )


def test_the_command_measures_with_another_process(files: tuple[Path, np.ndarray], tmp_path: Path) -> None:
    path = tmp_path / "rig.yaml"
    path.write_text(rig_text(files[0]))
    process = hearth("live", "--rig", str(path), "--stats", "--json")
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    report = json.loads(out)
    assert report["stopped"] == "ended"
    subscriber = report["subscriber"]
    assert subscriber["in_order"] is True and subscriber["ended"] == "publisher ended"
    assert subscriber["rejected"] == {"malformed": 0, "oversized": 0, "wrong_version": 0}
    for name, row in subscriber["streams"].items():
        if name != "video":
            assert (row["lost"], row["reordered"]) == (0, 0), name
    assert subscriber["streams"]["foa24"]["received"] == report["service"]["sent"]["foa24"]
    latency = subscriber["doa_latency"]
    assert latency["window_ms"] == 100
    assert 0 < latency["since_window_end_p50_ms"] <= latency["since_window_end_p99_ms"]
    assert latency["since_first_sample_p50_ms"] == pytest.approx(latency["since_window_end_p50_ms"] + 100)


def test_ctrl_c_ends_cleanly_with_the_table(tmp_path: Path) -> None:
    make_files(tmp_path, 40.0)
    path = tmp_path / "rig.yaml"
    path.write_text(rig_text(tmp_path))
    process = hearth("live", "--rig", str(path), "--stats")
    assert process.stderr is not None
    address = process.stderr.readline().split()[1]
    with Client(address, streams=("doa",)) as client:
        for _ in range(5):
            client.receive(60)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert "Traceback" not in err
    assert "every message arrived, in order" in out and "after the end of its 100 ms window" in out


def test_wrong_use_of_the_command(
    tmp_path: Path, files: tuple[Path, np.ndarray], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEARTH_KEYS", str(tmp_path / "no keys"))
    text = rig_text(files[0])
    (tmp_path / "open.yaml").write_text(
        text.replace('stream: "tcp://127.0.0.1:0"', 'stream: "tcp://0.0.0.0:0"')
    )
    process = hearth("live", "--rig", str(tmp_path / "open.yaml"), "--seconds", "1")
    out, err = process.communicate(timeout=60)
    assert process.returncode == 2 and "hearth keys make --rig" in err
    assert "Traceback" not in err and out == ""
    rig = parse_rig(text)
    with open_rig(rig) as opened, LiveService(rig, opened) as service:
        (tmp_path / "busy.yaml").write_text(text.replace("tcp://127.0.0.1:0", service.stream_address, 1))
        process = hearth("live", "--rig", str(tmp_path / "busy.yaml"))
        out, err = process.communicate(timeout=60)
        assert process.returncode == 2 and "is in use" in err and "Traceback" not in err
        with pytest.raises(HearthError, match="needs a profile"):
            LiveService(rig, opened, record=True)


def test_a_failing_part_is_told_and_raised(rig: Rig) -> None:
    """A chain that cannot go on does not fail in silence: an event says so, `stop` raises the cause."""
    with open_rig(rig) as opened:
        service = LiveService(rig, opened)
        with Client(service.stream_address, streams=("event",)) as client:
            client.wait_connected(10)

            def broken(block: object) -> None:
                raise CheckFailed("the chain broke")

            service._audio_worker.chain.push = broken  # type: ignore[method-assign]
            service.start()
            assert service.failed.wait(10)
            event = next(m for m in client.messages(5) if m.data["kind"] == "failed")
            assert event.data["detail"] == "the chain broke"
            with pytest.raises(CheckFailed, match="the chain broke"):
                service.stop()
        with pytest.raises(DeviceError, match="closed"):
            service.event("too late")


def test_the_process_meter_reads_this_process() -> None:
    meter = ProcessMeter()
    until = time.process_time() + 0.1
    while time.process_time() < until:
        pass
    read = meter.read()
    assert read["cpu_percent"] > 1
    assert read["rss_mib"] is None or 20 < read["rss_mib"] < 4000


def test_a_file_as_fast_as_possible_loses_nothing(files: tuple[Path, np.ndarray]) -> None:
    """pace: fast holds the file back instead of dropping blocks of the live chain."""
    text = rig_text(files[0]).replace("source: file,", "source: file, pace: fast,")
    rig = parse_rig(text)
    with (
        open_rig(rig) as opened,
        LiveService(rig, opened) as service,
        Client(service.stream_address, streams=("foa24",)) as client,
    ):
        client.wait_connected(10)
        service.start()
        assert service.ended.wait(30)
        stats = service.stop()
        sound = np.concatenate([m.array for m in client.messages(10)])
    assert stats["blocks_dropped"] == 0 and stats["blocks"] == round(SECONDS * 100)
    samples, _ = soundfile.read(files[0] / "sound.wav", dtype="int32", always_2d=True)
    np.testing.assert_array_equal(sound, dsp.resample(samples, 48000, 24000))


def test_the_virtual_room_follows_the_home() -> None:
    """A command at the home reaches the scene: what the agent switches off is off in the room too."""
    rig = load_rig(DEFAULT_RIG)
    endpoints = msgspec.structs.replace(
        rig.endpoints, stream="tcp://127.0.0.1:0", commands="tcp://127.0.0.1:0"
    )
    rig = msgspec.structs.replace(rig, endpoints=endpoints)
    with open_rig(rig) as opened:
        assert opened.scene is not None
        fields = opened.scene.episode_fields()
        target, (goal,) = fields["target_device"], fields["goal"].asserts
        assert opened.scene.attributes(target)[goal.attribute] is not goal.value
        service = LiveService(rig, opened, home=home_of(rig, fields["home"]))
        with service, Client(service.stream_address, service.commands_address, streams=("foa24",)) as client:
            client.wait_connected(10)
            service.start()
            client.receive(30)
            client.command("home.command", device_id=target, command="On" if goal.value else "Off")
            assert opened.scene.attributes(target)[goal.attribute] is goal.value


def test_the_document_lists_every_command(rig: Rig) -> None:
    text = (REPO / "docs" / "protocol.md").read_text(encoding="utf-8").split("\n| op |")[1]
    shown = [line.split("`")[1] for line in text.splitlines() if line.startswith("| `")]
    with (
        open_rig(rig) as opened,
        LiveService(rig, opened, home=home_of(rig)) as service,
        closing(CommandClient(service.commands_address)) as client,
    ):
        ops = client.command("ops")["ops"]
    # Only the command line knows the file that is read again.
    assert sorted(shown) == sorted([*ops, "live.reload"])
