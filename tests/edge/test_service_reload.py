"""A changed rig file while the rig runs: what is taken over, what is named, and that no sample is missing."""

from __future__ import annotations

import json
import logging
import os
import signal
import threading
from pathlib import Path

import numpy as np
import pytest
import soundfile

import dsp
from capture.rig import Rig, load_rig, parse_rig
from capture.service_manager import ServiceManager
from capture.sources import open_rig
from dsp.errors import InputError
from edge.home.service import home_of
from edge.live import LiveService
from edge.service import logs
from edge.service.attend import attended
from edge.service.reload import LIVE, compare
from edge.stream import Client

LAMP = "{id: lamp, type: on_off_light, name: lamp, position_m: [1, 1, 1]}"
FAN = "{id: fan, type: fan, name: fan, position_m: [2, 1, 1]}"
SECONDS = 3.0


def rig_text(folder: Path, devices: str = LAMP, more: str = "", **changed: str) -> str:
    values = {"min_free": "10", "format": "ambix", "size": "[5.2, 4.1, 2.7]", "level": "info", **changed}
    return f"""
hearth_rig: 1
microphone: {{source: file, file: {folder / "sound.wav"}, format: {values["format"]}}}
camera: {{source: none}}
room: {{size_m: {values["size"]}, devices: [{devices}]}}
storage: {{folder: {folder / "data"}, min_free_mib: {values["min_free"]}}}
endpoints: {{stream: "tcp://127.0.0.1:0", commands: "tcp://127.0.0.1:0", console: off, metrics: off}}
log: {{level: {values["level"]}}}
{more}
"""


# ------------------------------------------------------------------ what differs


def test_what_can_change_is_told_from_what_cannot(tmp_path: Path):
    now = parse_rig(rig_text(tmp_path))
    wanted = parse_rig(
        rig_text(tmp_path, f"{LAMP}, {FAN}", min_free="20", format="fuma", level="debug", more="name: other")
    )
    changes = compare(now, wanted)
    assert changes.live == ("log.level", "room.devices", "storage.min_free_mib")
    assert changes.restart == ("microphone.format", "name")
    assert [d.id for d in changes.rig.room.devices] == ["lamp", "fan"]
    assert changes.rig.microphone.format == "ambix" and changes.rig.name == "rig"
    assert compare(now, now).to_dict() == {"applied": [], "needs_restart": []}
    # Whatever differs is in one of the two lists; with all live keys taken over nothing but the rest remains.
    assert compare(changes.rig, wanted).live == ()
    assert compare(changes.rig, wanted).restart == changes.restart


def test_every_key_of_a_rig_is_live_or_named(tmp_path: Path):
    """Each section's keys, changed one by one, land in the list that LIVE says."""
    import msgspec

    now = parse_rig(rig_text(tmp_path))
    other = {bool: lambda v: not v, int: lambda v: v + 1, float: lambda v: v + 0.5, str: lambda v: v + "x"}
    seen = 0
    for section in ("microphone", "camera", "room", "storage", "endpoints", "log", "virtual"):
        part = getattr(now, section)
        for name in part.__struct_fields__:
            value = getattr(part, name)
            if type(value) not in other or f"{section}.{name}" in LIVE:
                continue
            wanted = msgspec.structs.replace(part, **{name: other[type(value)](value)})
            changes = compare(now, msgspec.structs.replace(now, **{section: wanted}))
            assert changes.live == () and changes.restart == (f"{section}.{name}",) and changes.rig is now
            seen += 1
    assert seen > 30


def test_a_part_that_does_not_fit_alone_is_refused_as_a_whole(tmp_path: Path):
    now = parse_rig(rig_text(tmp_path))
    far = "{id: far, type: fan, name: far, position_m: [7, 1, 1]}"
    wanted = parse_rig(rig_text(tmp_path, f"{LAMP}, {far}", size="[8, 4.1, 2.7]", min_free="20"))
    with pytest.raises(InputError, match=r"needs no restart.*outside the room"):
        compare(now, wanted)


def test_in_the_virtual_room_devices_are_what_sounds(tmp_path: Path):
    now = parse_rig(rig_text(tmp_path))
    wanted = parse_rig(rig_text(tmp_path, FAN))
    assert compare(now, wanted, rendered=True).restart == ("room.devices",)


# ------------------------------------------------------------------ while it runs


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("reload")
    noise = 0.1 * np.random.default_rng(5).standard_normal(round(SECONDS * 48000))
    soundfile.write(folder / "sound.wav", dsp.encode(noise, 30.0, 0.0), 48000, subtype="PCM_24")
    return folder


def test_reload_without_a_gap_in_the_sound(folder: Path):
    file = folder / "rig.yaml"
    file.write_text(rig_text(folder))
    rig: Rig = load_rig(file)
    got: dict[str, list] = {}

    def read(client: Client) -> None:
        for message in client.messages(30):
            got.setdefault(message.stream, []).append(message)

    levels = {name: logging.getLogger(name).level for name in logs.OURS}
    with (
        open_rig(rig) as opened,
        LiveService(rig, opened, home=home_of(rig)) as service,
        attended(service, lambda: load_rig(file), manager=ServiceManager()),
        Client(service.stream_address, service.commands_address) as client,
    ):
        client.wait_connected(10)
        reader = threading.Thread(target=read, args=(client,))
        reader.start()
        service.start()
        client.command("home.command", device_id="lamp", command="On")

        file.write_text(rig_text(folder, f"{LAMP}, {FAN}", min_free="11", format="n3d"))
        assert client.command("live.reload") == {
            "applied": ["room.devices", "storage.min_free_mib"],
            "needs_restart": ["microphone.format"],
        }
        told = client.command("home.describe")["devices"]
        assert [device["id"] for device in told] == ["lamp", "fan"]
        assert told[0]["attributes"]["1.OnOff.OnOff"] is True, "a device that stays keeps its state"
        assert service.rig.storage.min_free_mib == 11 and service.rig.microphone.format == "ambix"

        before = service.rig
        file.write_text(rig_text(folder, FAN) + "misspelt: 1\n")
        with pytest.raises(InputError, match="misspelt"):
            client.command("live.reload")
        assert service.rig is before, "never half-applied"
        assert client.command("home.state", device_id="lamp")["attributes"]

        file.write_text(rig_text(folder, FAN, level="debug"))
        reloaded = threading.Event()
        service.publisher.listen(lambda h: reloaded.set() if h.data.get("kind") == "reloaded" else None)
        os.kill(os.getpid(), signal.SIGHUP)
        assert reloaded.wait(5)
        assert [d["id"] for d in client.command("home.describe")["devices"]] == ["fan"]
        assert logging.getLogger("edge").level == logging.DEBUG

        assert service.ended.wait(15)
        stats = service.stop()
        reader.join(30)
    for name, level in levels.items():
        logging.getLogger(name).setLevel(level)
    assert stats["gaps"] == stats["lost_frames"] == stats["blocks_dropped"] == 0
    sound = np.concatenate([m.array for m in got["foa24"]])
    samples, _ = soundfile.read(folder / "sound.wav", dtype="int32", always_2d=True)
    np.testing.assert_array_equal(sound, dsp.resample(samples, 48000, 24000))
    kinds = [m.data["kind"] for m in got["event"]]
    assert [k for k in kinds if k.startswith("reload")] == ["reloaded", "reload_refused", "reloaded"]
    assert list(got["home"][-1].data["devices"]) == ["fan"], "late joiners get the devices of now"


def test_a_room_gets_its_first_device(folder: Path, tmp_path: Path):
    file = tmp_path / "rig.yaml"
    file.write_text(rig_text(folder, devices=""))
    rig = load_rig(file)
    with (
        open_rig(rig) as opened,
        LiveService(rig, opened) as service,
        attended(service, lambda: load_rig(file), manager=ServiceManager()),
        Client(service.stream_address, service.commands_address) as client,
    ):
        assert "home.describe" not in client.command("ops")["ops"]
        file.write_text(rig_text(folder, FAN))
        assert client.command("live.reload")["applied"] == ["room.devices"]
        told = client.command("home.describe")
        assert [device["id"] for device in told["devices"]] == ["fan"]
        assert json.dumps(told)
