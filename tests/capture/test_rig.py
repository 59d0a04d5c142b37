"""rig.yaml is strict: what is wrong is named, with the value and what is allowed."""

from __future__ import annotations

import pytest
import yaml

from capture.rig import DEFAULT_RIG, load_rig, parse_rig, rig_to_dict
from dsp.errors import InputError

TEXT = DEFAULT_RIG.read_text(encoding="utf-8")


def test_the_built_in_rig_is_valid_and_virtual() -> None:
    rig = load_rig(DEFAULT_RIG)
    assert rig.microphone.source == "virtual"
    assert rig.camera.source == "virtual"
    assert len(rig.room.devices) >= 4


def test_a_rig_survives_the_round_trip_through_yaml() -> None:
    rig = load_rig(DEFAULT_RIG)
    assert parse_rig(yaml.safe_dump(rig_to_dict(rig))) == rig


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("  yaw_deg: 90", "  yaw_dg: 90", ["unknown key `yaw_dg`", "`microphone`", "mean `yaw_deg`?"]),
        ("  fps: 15", "  fps: fast", ["`camera.fps`", "'fast'"]),
        ("  fps: 15", "  fps: -3", ["`camera.fps`", "-3"]),
        ("  hfov_deg: 90", "  hfov_rad: 1.57", ["unknown key `hfov_rad`", "hfov_deg"]),
        ("  rt60_s: 0.3", "  rt60_s: 300", ["`virtual.rt60_s`", "300"]),
        ("  rt60_s: 0.3", "  rt60_ms: 300", ["unknown key `rt60_ms`", "Did you mean `rt60_s`?"]),
        ("source: virtual", "source: h3vr", ["`microphone.source`", "h3vr", "sounddevice"]),
        ("type: fan, name: st", "type: fann, name: st", ["room.devices[", "fann", "microwave"]),
        ("size_m: [5.2, 4.1, 2.7]", "size_m: [5.2, 4.1]", ["`room.size_m`"]),
        ("size_m: [5.2, 4.1, 2.7]", "size_m: [1.2, 1.1, 2.7]", ["outside the room", "microphone.position_m"]),
        ("living_room_fan_2", "living_room_fan_1", ["living_room_fan_1", "used twice"]),
        ("5772", "5771", ["same address"]),
        ("5772", "99999", ["endpoints.commands", "65535"]),
        ("name: desk fan", "name: standing fan", ["standing fan", "used twice"]),
        ("  hfov_deg: 90", "  hfov_deg: .nan", ["camera.hfov_deg", "finite"]),
        ("size_m: [5.2, 4.1, 2.7]", "size_m: [.inf, 4.1, 2.7]", ["room.size_m[0]", "finite"]),
        ("size_m: [5.2, 4.1, 2.7]", "size_m: [5000.0, 4.1, 2.7]", ["room.size_m", "100"]),
        ("  fps: 15", "  fps: 15\n  fps: 30", ["`fps` stands twice", "line"]),
        ("folder: data", 'folder: ""', ["storage.folder"]),
        ("hearth_rig: 1", "hearth_rig: 2", ["`hearth_rig`", "2"]),
        ("hearth_rig: 1", "# gone", ["hearth_rig: 1", "missing"]),
    ],
)
def test_an_error_names_key_value_and_remedy(old: str, new: str, words: list[str]) -> None:
    assert old in TEXT
    with pytest.raises(InputError) as caught:
        parse_rig(TEXT.replace(old, new, 1))
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize(
    ("microphone", "word"),
    [
        ({"source": "sounddevice"}, "microphone.device"),
        ({"source": "file"}, "microphone.file"),
        ({"source": "virtual", "channels": 2}, "channels: 2"),
        ({"source": "virtual", "rate_hz": 44100}, "rate_hz: 48000"),
    ],
)
def test_impossible_combinations_are_named(microphone: dict, word: str) -> None:
    with pytest.raises(InputError, match=word.replace(".", r"\.")):
        parse_rig(yaml.safe_dump({"hearth_rig": 1, "microphone": microphone}))


@pytest.mark.parametrize("text", ["", "- a\n- b", "hearth_rig: [1", "\x00", "name: " + "[" * 5000])
def test_what_is_no_rig_at_all_is_an_input_error(text: str) -> None:
    with pytest.raises(InputError):
        parse_rig(text)


def test_a_missing_file_points_to_init(tmp_path) -> None:
    with pytest.raises(InputError, match="hearth init"):
        load_rig(tmp_path / "none.yaml")


def test_a_rig_in_the_current_folder_is_found(tmp_path, monkeypatch) -> None:
    (tmp_path / "rig.yaml").write_text("hearth_rig: 1\nname: mine\n")
    monkeypatch.chdir(tmp_path)
    assert load_rig().name == "mine"


def test_a_cameras_password_does_not_get_into_the_snapshot() -> None:
    text = "hearth_rig: 1\ncamera: {source: url, url: 'rtsp://me:a@b:c@10.0.0.7/1'}\n"
    text += "more_cameras: [{name: door, source: url, url: 'http://me:secret@10.0.0.8/v'}]\n"
    snapshot = rig_to_dict(parse_rig(text))
    assert snapshot["camera"]["url"] == "rtsp://***@10.0.0.7/1"
    assert "secret" not in str(snapshot) and "a@b" not in str(snapshot)
    text = 'hearth_rig: 1\ncamera: {source: url, url: "http://me:se cre\'t@10.0.0.7/v?p=secret"}\n'
    assert rig_to_dict(parse_rig(text))["camera"]["url"] == "http://***@10.0.0.7/v?***"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("home: {kind: home_assistant, token_file: t}", ["home.url", "http://host:8123"]),
        ("home: {kind: home_assistant, url: 'http://me:geheim@host:8123', token_file: t}", ["home.url"]),
        ("home: {kind: home_assistant, url: 'http://host:8123'}", ["home.token_file"]),
        ("home: {kind: mqtt}", ["needs a broker"]),
        ("mqtt: {url: 'http://host'}", ["mqtt.url", "mqtt://host:1883"]),
        ("mqtt: {url: 'mqtt://me:geheim@host'}", ["mqtt.url"]),
        (
            "room:\n  devices:\n  - {id: a, type: fan, name: a, entity: fan.x}\n"
            "  - {id: b, type: fan, name: b, entity: fan.x}",
            ["fan.x", "each needs its own"],
        ),
    ],
)
def test_a_real_home_says_where_it_is_and_no_password_is_shown(text: str, words: list[str]):
    with pytest.raises(InputError) as error:
        parse_rig(f"hearth_rig: 1\n{text}")
    assert all(word in str(error.value) for word in words)
    assert "geheim" not in str(error.value)


@pytest.mark.parametrize("url", ["mqtt://127.0.0.1", "mqtts://broker.local:8883", "mqtt://[::1]:1883"])
def test_addresses_of_brokers(url: str):
    rig = parse_rig(f"hearth_rig: 1\nmqtt: {{url: '{url}'}}\nhome: {{kind: mqtt}}")
    assert rig.mqtt is not None and rig.mqtt.url == url
