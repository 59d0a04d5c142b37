"""MCAP files: read by the format's own reader, whole, cut at any place, and after a kill."""

from __future__ import annotations

import base64
import io
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from capture.blocks import monotonic_ns
from dsp.errors import InputError
from edge.stream import Client, CommandServer, Publisher
from edge.stream.mcap_file import MAGIC, McapWriter
from edge.stream.mcap_recording import StreamRecorder
from edge.stream.mcap_recover import recover
from recordings.storage import StorageError

reader = pytest.importorskip("mcap.reader", reason="mcap, the format's own reader, is absent")
stream_reader = pytest.importorskip("mcap.stream_reader")

ANY = "tcp://127.0.0.1:0"
REPO = Path(__file__).parents[2]


def rows(path: Path) -> list[tuple[str, str, int, int, dict[str, Any]]]:
    """By the index: topic, schema, log time, publish time, value, in order of log time."""
    with path.open("rb") as file:
        found = reader.make_reader(file, validate_crcs=True)
        assert isinstance(found, reader.SeekingReader)
        return [
            (channel.topic, schema.name, message.log_time, message.publish_time, json.loads(message.data))
            for schema, channel, message in found.iter_messages()
        ]


def read_from_the_front(data: bytes) -> list[Any]:
    """Message records of a file without its end, as a recovering reader sees them."""
    from mcap.exceptions import McapError
    from mcap.records import Message

    messages = []
    try:
        for record in stream_reader.StreamReader(io.BytesIO(data), validate_crcs=True).records:
            if isinstance(record, Message):
                messages.append(record)
    except (McapError, EOFError, ValueError, Exception) as error:  # how it says "cut"
        assert "crc" not in str(error).lower(), error
    return messages


def write(path: Path, count: int, chunk_bytes: int = 1 << 20) -> None:
    with McapWriter(path, chunk_bytes=chunk_bytes) as writer:
        schema = writer.add_schema("hearth.Test", "jsonschema", b'{"type": "object"}')
        one = writer.add_channel("/one", "json", schema, {"rate": "10/s"})
        two = writer.add_channel("/two", "json", schema, {})
        for n in range(count):
            channel = two if n % 3 == 0 else one
            writer.add_message(channel, n, 10**18 + n, 10**18 + n - 5, json.dumps({"n": n}).encode())
        writer.add_metadata("about", {"who": "test"})


@pytest.mark.parametrize("chunk_bytes", [64, 1000, 1 << 20])
def test_the_formats_own_reader_reads_everything_by_its_index(tmp_path: Path, chunk_bytes: int) -> None:
    path = tmp_path / "x.mcap"
    write(path, 100, chunk_bytes)
    got = rows(path)
    assert [value["n"] for *_, value in got] == list(range(100))
    assert [log for _, _, log, _, _ in got] == [10**18 + n for n in range(100)]
    assert all(publish == log - 5 for _, _, log, publish, _ in got)
    with path.open("rb") as file:
        found = reader.make_reader(file)
        summary = found.get_summary()
        assert summary is not None and summary.statistics is not None
        assert summary.statistics.message_count == 100
        assert sorted(summary.statistics.channel_message_counts.values()) == [34, 66]
        assert summary.statistics.message_start_time == 10**18
        assert {c.topic: c.metadata for c in summary.channels.values()}["/one"] == {"rate": "10/s"}
        assert [(m.name, m.metadata) for m in found.iter_metadata()] == [("about", {"who": "test"})]
        only = [m.sequence for _, _, m in found.iter_messages(topics=["/two"], starting_at=10**18 + 50)]
        assert only == list(range(51, 100, 3))


def test_an_empty_file_is_a_file(tmp_path: Path) -> None:
    path = tmp_path / "x.mcap"
    McapWriter(path).close()
    assert rows(path) == [] and path.read_bytes().endswith(MAGIC)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("mcap") / "x.mcap"
    write(path, 200, chunk_bytes=500)
    return path.read_bytes()


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_a_file_cut_anywhere_gives_all_chunks_before_the_cut(whole: bytes, data: st.DataObject) -> None:
    """What a killed process or a full disk leaves: never less than what was written before the last chunk."""
    cut = data.draw(st.integers(len(MAGIC), len(whole)))
    numbers = [message.sequence for message in read_from_the_front(whole[:cut])]
    assert numbers == list(range(len(numbers)))
    # A chunk of this file holds at most 11 messages and takes at most 1,000 bytes with its index.
    assert len(numbers) >= min(200, 8 * (cut // 1000) - 11)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_a_recovered_file_has_an_index_again(whole: bytes, tmp_path: Path, data: st.DataObject) -> None:
    cut = data.draw(st.integers(len(MAGIC), len(whole)))
    path, mended = tmp_path / "cut.mcap", tmp_path / "mended.mcap"
    path.write_bytes(whole[:cut])
    mended.unlink(missing_ok=True)
    found = recover(path, mended)
    got = [value["n"] for *_, value in rows(mended)]
    assert got == list(range(found.messages)) and found.messages <= 200
    assert found.messages >= len(read_from_the_front(whole[:cut]))
    assert found.whole == (found.cut_bytes == 0 and cut > len(whole) - 2 * len(MAGIC))


def test_recovery_refuses_what_is_no_such_file(tmp_path: Path) -> None:
    path, out = tmp_path / "x", tmp_path / "out.mcap"
    path.write_bytes(b"RIFF")
    with pytest.raises(InputError, match="no MCAP file"):
        recover(path, out)
    with pytest.raises(StorageError, match="cannot be read"):
        recover(tmp_path / "absent", out)
    from mcap.writer import Writer

    with path.open("wb") as file:  # as other programs write it
        other = Writer(file)
        other.start()
        channel = other.register_channel("/x", "json", other.register_schema("x", "jsonschema", b"{}"))
        other.add_message(channel, 1, b"{}", 1)
        other.finish()
    with pytest.raises(InputError, match="compressed"):
        recover(path, out)
    assert not out.exists()


def test_wrong_use_is_named(tmp_path: Path) -> None:
    path = tmp_path / "x.mcap"
    with McapWriter(path) as writer:
        with pytest.raises(StorageError, match="new file's name"):
            McapWriter(path)
        with pytest.raises(InputError, match="not declared"):
            writer.add_message(1, 0, 0, 0, b"")
        with pytest.raises(InputError, match="before 1970"):
            writer.add_message(1, 0, -1, 0, b"")
    with pytest.raises(StorageError, match="cannot be made"):
        McapWriter(tmp_path / "no folder" / "x.mcap")


def test_a_full_disk_leaves_what_fits(tmp_path: Path) -> None:
    """A limit of the file's size stands for the full disk: the error says so, the file stays readable."""
    code = """
import resource, signal, sys
from pathlib import Path
from edge.stream.mcap_file import McapWriter
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
writer = McapWriter(Path(sys.argv[1]), chunk_bytes=1000)
channel = writer.add_channel("/x", "json", writer.add_schema("x", "jsonschema", b"{}"), {})
try:
    for n in range(10_000):
        writer.add_message(channel, n, n, n, b"1234567890")
except Exception as error:
    print(type(error).__name__, error)
"""
    path = tmp_path / "x.mcap"
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, cwd=REPO)
    assert done.stdout.startswith("StorageError") and "cannot be written" in done.stdout, done.stderr
    numbers = [message.sequence for message in read_from_the_front(path.read_bytes())]
    assert numbers == list(range(len(numbers))) and len(numbers) > 200


def test_streams_are_recorded_as_they_came(tmp_path: Path) -> None:
    """Samples and JPEGs bit for bit, values to plot, well-known schemas, UTC times."""
    rng = np.random.default_rng(3)
    sound = rng.uniform(-1, 1, (240, 4)).astype(np.float32)
    jpeg = cv2.imencode(".jpg", rng.integers(0, 255, (36, 64, 3), dtype=np.uint8))[1].tobytes()
    raw = rng.integers(0, 255, (6, 8, 3), dtype=np.uint8)
    path = tmp_path / "x.mcap"
    began_utc = time.time_ns()
    with Publisher(ANY) as publisher, CommandServer(ANY) as server:
        publisher.publish("state", monotonic_ns(), data={"muted": False})
        with Client(publisher.address, server.address) as client, StreamRecorder(client, path) as recorder:
            client.wait_connected(5)
            client.clock.wait(5)
            ended: list[str] = []
            thread = threading.Thread(target=lambda: ended.append(recorder.run()))
            thread.start()
            t_ns = monotonic_ns()
            publisher.publish("foa24", t_ns, sound, duration_ns=10_000_000, data={"rate_hz": 24000})
            publisher.publish("video", t_ns, jpeg, shape=(36, 64, 3))
            publisher.publish("doa", t_ns, data={"azimuth_deg": -31.5, "confidence": float("nan")})
            deadline = time.monotonic() + 10
            while recorder.recorded["video"] < 1:
                assert time.monotonic() < deadline
                time.sleep(0.01)
            publisher.publish("video", t_ns + 1, raw)
            while recorder.recorded["video"] < 2:
                assert time.monotonic() < deadline
                time.sleep(0.01)
            publisher.close()
            thread.join(10)
            assert ended == ["publisher ended"]
    got = rows(path)
    kept = {topic: (schema, value) for topic, schema, _, _, value in got}
    assert {topic: schema for topic, (schema, _) in kept.items()} == {
        "/state": "hearth.Message",
        "/foa24": "hearth.Audio",
        "/foa24_w": "foxglove.RawAudio",
        "/video": "foxglove.CompressedImage",
        "/doa": "hearth.Message",
    }
    audio = kept["/foa24"][1]
    samples = np.frombuffer(base64.b64decode(audio["samples"]), "<f4").reshape(
        -1, audio["number_of_channels"]
    )
    assert np.array_equal(samples, sound) and audio["sample_rate"] == 24000 and audio["format"] == "float32"
    heard = np.frombuffer(base64.b64decode(kept["/foa24_w"][1]["data"]), "<i2")
    assert np.abs(heard / 32767 - sound[:, 0]).max() < 1 / 32767
    pictures = [value for topic, *_, value in got if topic == "/video"]
    assert base64.b64decode(pictures[0]["data"]) == jpeg and pictures[0]["format"] == "jpeg"
    png = np.frombuffer(base64.b64decode(pictures[1]["data"]), np.uint8)
    assert np.array_equal(cv2.imdecode(png, cv2.IMREAD_COLOR), raw) and pictures[1]["format"] == "png"
    assert kept["/doa"][1]["data"] == {"azimuth_deg": -31.5, "confidence": None}
    assert kept["/doa"][1]["t_ns"] == t_ns and kept["/state"][1]["retained"] is True
    stamp = kept["/doa"][1]["timestamp"]
    assert began_utc <= stamp["sec"] * 10**9 + stamp["nsec"] <= time.time_ns()
    with path.open("rb") as file:
        about = {m.name: m.metadata for m in reader.make_reader(file).iter_metadata()}
    assert json.loads(about["hearth.statistics"]["doa"]) == json.loads(about["hearth.statistics"]["doa"]) | {
        "recorded": 1,
        "lost": 0,
    }
    assert about["hearth.clock"]["rig_minus_local_ns"] == "0"
    assert t_ns + int(about["hearth.clock"]["utc_minus_monotonic_ns"]) == stamp["sec"] * 10**9 + stamp["nsec"]


def test_kill_9_leaves_a_file_that_opens(tmp_path: Path) -> None:
    """The command itself, killed without warning: all but the last fraction of a second is read back."""
    path = tmp_path / "x.mcap"
    with Publisher(ANY) as publisher, CommandServer(ANY) as server:
        command = [
            sys.executable,
            "-m",
            "hearth",
            "stream",
            "record",
            str(path),
            "--stream",
            publisher.address,
        ]
        command += ["--commands", server.address, "--streams", "doa,video"]
        process = subprocess.Popen(command, cwd=REPO, stderr=subprocess.PIPE, text=True)
        try:
            assert process.stderr is not None
            assert "recording" in process.stderr.readline()
            jpeg = cv2.imencode(".jpg", np.zeros((90, 160, 3), np.uint8))[1].tobytes()
            sent: list[float] = []
            while len(sent) < 150:
                publisher.publish("doa", monotonic_ns(), data={"n": len(sent)})
                publisher.publish("video", monotonic_ns(), jpeg, shape=(90, 160, 3))
                sent.append(time.monotonic())
                time.sleep(0.01)
            os.kill(process.pid, signal.SIGKILL)
            killed = time.monotonic()
        finally:
            process.kill()
            process.communicate()
    mended = tmp_path / "mended.mcap"
    done = subprocess.run(
        [sys.executable, "-m", "hearth", "stream", "recover", str(path), str(mended), "--json"],
        capture_output=True,
        text=True,
        cwd=REPO,
    )
    assert done.returncode == 0, done.stderr
    got = rows(mended)
    report = json.loads(done.stdout)
    assert report["messages"] == len(got) and report["whole"] is False
    numbers = [value["data"]["n"] for topic, *_, value in got if topic == "/doa"]
    assert numbers == list(range(len(numbers)))
    assert any(topic == "/video" for topic, *_ in got)
    # The file as it was left can be read from the front by the format's own reader, too.
    assert len(read_from_the_front(path.read_bytes())) >= len(got) - 2
    assert killed - sent[len(numbers) - 1] < 1.0


def test_a_publisher_that_comes_back_is_recorded_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("edge.stream.client.SILENT_S", 0.5)
    path = tmp_path / "x.mcap"
    publisher = Publisher(ANY)
    stop = threading.Event()
    with Client(publisher.address, streams=("doa",)) as client, StreamRecorder(client, path) as recorder:
        client.wait_connected(5)
        thread = threading.Thread(target=recorder.run, args=(None, stop))
        thread.start()
        publisher.publish("doa", 0, data={"n": 1})
        monkeypatch.setattr(publisher, "_beat", lambda closing=False: None)  # falls silent without a word
        deadline = time.monotonic() + 10
        while recorder.lost_publisher == 0:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        publisher.close()
        with Publisher(publisher.address) as again:
            while recorder.recorded["doa"] < 2:
                again.publish("doa", 0, data={"n": 2})
                assert time.monotonic() < deadline + 10
                time.sleep(0.05)
            stop.set()
            thread.join(10)
    logged = [value["message"] for topic, *_, value in rows(path) if topic == "/recorder"]
    assert "silent since" in logged[0] and "arrive again" in logged[1]
