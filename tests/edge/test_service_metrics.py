"""Metrics of a running rig, read by Prometheus' own parser."""

from __future__ import annotations

import http.client
import re
from pathlib import Path

import numpy as np
import pytest
import soundfile
from prometheus_client.parser import text_string_to_metric_families

import dsp
from capture.rig import parse_rig
from capture.service_manager import ServiceManager
from capture.sources import open_rig
from dsp.errors import DeviceError, InputError
from edge.latency_budget import LIMIT_MS
from edge.live import LiveService
from edge.service.attend import attended
from edge.service.metrics import CONTENT_TYPE, Exposition, MetricsServer
from edge.stream import Client

REPOSITORY = Path(__file__).parents[2]


def fetch(address: str, path: str = "/metrics", host: str | None = None) -> tuple[int, str, str]:
    connection = http.client.HTTPConnection(address, timeout=10)
    connection.request("GET", path, headers={} if host is None else {"Host": host})
    reply = connection.getresponse()
    return reply.status, reply.headers["Content-Type"], reply.read().decode()


def parse(text: str) -> dict[str, dict[tuple, float]]:
    """Family -> {labels: value}. Fails on what promtool refuses: a family twice, a sample twice, no type, a
    counter without `_total`."""
    families: dict[str, dict[tuple, float]] = {}
    types = re.findall(r"^# TYPE (\S+) (\S+)$", text, re.M)
    assert len({name for name, _ in types}) == len(types)
    assert all(name.endswith("_total") == (kind == "counter") for name, kind in types)
    for family in text_string_to_metric_families(text):
        assert family.type in ("gauge", "counter") and family.documentation, family.name
        for sample in family.samples:
            labels = tuple(sorted(sample.labels.items()))
            values = families.setdefault(sample.name, {})
            assert labels not in values, f"{sample.name} {labels} stands twice"
            values[labels] = sample.value
    assert set(families) == {name for name, _ in types}
    return families


def test_text_that_needs_escaping():
    out = Exposition()
    odd = 'a "b"\\c\nd'
    out.add("hearth_x", "gauge", "with \\ and\nline", [({"rig": odd}, 1.5), ({"rig": "no"}, None)])
    out.add("hearth_none", "gauge", "not known", float("nan"))
    out.add("hearth_infinite", "gauge", "too much", float("inf"))
    found = list(text_string_to_metric_families(out.text))
    assert [f.name for f in found] == ["hearth_x", "hearth_infinite"]
    assert [(s.labels, s.value) for s in found[0].samples] == [({"rig": odd}, 1.5)]


def test_everything_a_rig_measures_is_there(tmp_path: Path):
    noise = 0.1 * np.random.default_rng(6).standard_normal(5 * 48000)
    soundfile.write(tmp_path / "sound.wav", dsp.encode(noise, 30.0, 0.0), 48000, subtype="PCM_24")
    rig = parse_rig(f"""
hearth_rig: 1
name: 'the "loft"'
microphone: {{source: file, file: {tmp_path / "sound.wav"}}}
camera: {{source: none}}
storage: {{folder: {tmp_path / "data"}, min_free_mib: 0}}
endpoints:
  {{stream: "tcp://127.0.0.1:0", commands: "tcp://127.0.0.1:0", console: off, metrics: "127.0.0.1:0"}}
""")
    with (
        open_rig(rig) as opened,
        LiveService(rig, opened) as service,
        attended(service, lambda: rig, manager=ServiceManager()) as attendance,
        Client(service.stream_address, service.commands_address) as client,
    ):
        assert attendance.metrics is not None
        before = parse(fetch(attendance.metrics)[2])
        assert before["hearth_audio_blocks_total"][()] == 0, "they can be fetched before the first sound"
        client.wait_connected(10)
        service.start()
        client.command("live.record", on=True, name="measured")
        while next(m for m in client.messages(10) if m.stream == "health").data["blocks"] < 120:
            pass
        client.command("live.mute", muted=True)
        status, kind, text = fetch(attendance.metrics)
        service.stop()
    assert (status, kind) == (200, CONTENT_TYPE)
    found = parse(text)
    assert found["hearth_info"] == {(("microphone", "sound.wav"), ("rig", 'the "loft"')): 1}
    assert found["hearth_audio_blocks_total"][()] >= 120
    for name in ("gaps", "lost_frames", "dropped_blocks"):
        assert found[f"hearth_audio_{name}_total"] == {(): 0}
    assert found["hearth_muted"][()] == found["hearth_recording"][()] == 1
    assert found["hearth_light"][(("light", "muted"),)] == 1 == sum(found["hearth_light"].values())
    assert found["hearth_recording_seconds"][()] > 0.5
    assert found["hearth_messages_total"][(("stream", "foa24"),)] >= 120
    assert found["hearth_clients"][(("state", "alive"),)] == 1
    assert {"live audio", "live video", "recorder audio"} == {
        dict(labels)["queue"] for labels in found["hearth_queue_depth"]
    }
    assert 5e7 < found["hearth_resident_memory_bytes"][()] < 4e9
    assert found["hearth_disk_free_bytes"][()] > 0 and found["hearth_cpu_ratio"][()] > 0
    sound = {"capture", "levels", "resample", "doa", "publish", "captured_to_published"}
    limits = {dict(labels)["stage"]: value for labels, value in found["hearth_stage_limit_seconds"].items()}
    also = {"receive"} & set(limits)  # once the client has told it, with one of its heartbeats
    assert limits == {stage: LIMIT_MS[stage] / 1e3 for stage in sound | also}
    for stage in sound:
        labels = (("stage", stage),)
        passages = found["hearth_stage_passages_total"][labels]
        assert passages >= 40 and 0 <= found["hearth_stage_over_limit_total"][labels] <= passages
        p50, p99 = (
            found["hearth_stage_seconds"][(("quantile", q), ("stage", stage))] for q in ("0.5", "0.99")
        )
        assert 0 < p50 <= p99 < 10

    table = (REPOSITORY / "docs" / "services.md").read_text(encoding="utf-8")
    documented = set(re.findall(r"^\| `(hearth_\w+)", table, re.M))
    # What this rig has no part for: a camera's temperature sensor, a device's clock, a process beside it.
    absent = {
        "hearth_clock_drift_ppm",
        "hearth_clock_drift_sigma_ppm",
        "hearth_temperature_celsius",
        "hearth_commands_rejected_total",
        "hearth_connections_denied_total",
        "hearth_connections_cut_total",
        "hearth_process_up",
        "hearth_process_restarts_total",
    }
    assert documented - set(found) <= absent and set(found) - documented == set()


def test_only_this_host_by_its_own_name():
    with MetricsServer("127.0.0.1:0", lambda: "up 1\n") as server:
        assert fetch(server.address)[:1] == (200,)
        assert fetch(server.address, host="localhost:5773")[0] == 200
        assert fetch(server.address, host="evil.example:5773")[0] == 403, "a page from elsewhere"
        assert fetch(server.address, "/")[0] == 404
        with pytest.raises(DeviceError, match=server.address.split(":")[1]):
            MetricsServer(server.address, lambda: "")
    for address in ("0.0.0.0:5773", "192.168.1.4:5773", "rig.example:5773"):
        with pytest.raises(InputError, match="off loopback"):
            MetricsServer(address, lambda: "")
    for address in ("127.0.0.1", "127.0.0.1:x", "127.0.0.1:70000"):
        with pytest.raises(InputError, match="host:port"):
            MetricsServer(address, lambda: "")


def test_metrics_that_cannot_be_told_are_an_error_and_no_end(caplog):
    def fail() -> str:
        raise ValueError("no")

    with MetricsServer("127.0.0.1:0", fail) as server:
        assert [fetch(server.address)[0] for _ in range(2)] == [500, 500]
    assert "could not be told" in caplog.text
