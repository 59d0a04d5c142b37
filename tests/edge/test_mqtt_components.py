"""Announcements of MQTT discovery. Truths: examples of Home Assistant's and Zigbee2MQTT's documentation, and
Home Assistant's own table of short keys where it is installed."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from dsp.errors import InputError
from edge.home.bridge_entities import Call
from edge.home.errors import HomeError
from edge.home.mqtt_components import component_of
from edge.home.mqtt_config import expanded
from edge.home.mqtt_templates import Template

pytest.importorskip("jinja2", reason="jinja2 is not installed ([home])")
REPOSITORY = Path(__file__).resolve().parents[2]


def test_short_keys_are_those_of_home_assistant():
    table = next(
        REPOSITORY.glob(
            ".venv/home-assistant/lib/*/site-packages/homeassistant/components/mqtt/abbreviations.py"
        ),
        None,
    )
    if table is None:
        pytest.skip("Home Assistant is not installed (sh scripts/home_assistant.sh)")
    spec = importlib.util.spec_from_file_location("abbreviations_of_home_assistant", table)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    sys.modules.pop("abbreviations_of_home_assistant", None)
    home = REPOSITORY / "edge" / "home"
    code = "".join(file.read_text() for file in home.glob("mqtt_comp*.py"))
    read = {short: long for short, long in module.ABBREVIATIONS.items() if f'"{long}"' in code}
    assert read.pop("sup_feat") and len(read) > 50  # an attribute of entities has that name, too
    for short, long in read.items():
        assert list(expanded({short: 1})) == [long]
        assert list(expanded({long: 1})) == [long]


def test_the_base_topic():
    made = expanded({"~": "home/lamp", "stat_t": "~/state", "cmd_t": "set/~", "avty": {"t": "~/alive"}})
    assert made["state_topic"] == "home/lamp/state" and made["command_topic"] == "set/home/lamp"
    assert made["availability"] == [{"topic": "home/lamp/alive"}]


def one(domain: str, node: str = "node", **config: Any) -> Any:
    return component_of(domain, config, node)


def test_a_switch():
    switch = one("switch", name="irrigation", command_topic="a/set", state_topic="a/state")
    assert switch.id == "switch.irrigation" and switch.entity.state == "unknown"
    switch.receive("a/state", "ON")
    assert switch.entity.state == "on"
    switch.receive("a/state", "nonsense")
    assert switch.entity.state == "on"
    assert switch.messages(Call("switch", "turn_off")) == [("a/set", "OFF")]
    own_words = one(
        "switch", command_topic="s", state_topic="t", pl_on="1", pl_off="0", val_tpl="{{ value_json.P }}"
    )
    own_words.receive("t", json.dumps({"P": 1}))
    assert own_words.entity.state == "on" and own_words.id == "switch.node"
    own_words.receive("t", json.dumps({"other": 1}))  # nothing about it in there
    assert own_words.entity.state == "on"
    assert one("switch", command_topic="s").entity.attributes["assumed_state"] is True


def test_lights_of_both_schemas():
    topics = {"cmd_t": "c", "stat_t": "s", "bri_cmd_t": "bc", "bri_stat_t": "bs"}
    basic = one("light", name="lamp", **topics, bri_scl=100, pl_on="on", pl_off="off")
    basic.receive("s", "on")
    basic.receive("bs", "40")
    assert basic.entity.attributes["brightness"] == pytest.approx(102)
    assert basic.messages(Call("light", "turn_on", {"brightness": 255})) == [("bc", "100")]
    basic.receive("s", "off")
    assert "brightness" not in basic.entity.attributes
    assert basic.messages(Call("light", "turn_on", {"brightness": 51})) == [("c", "on"), ("bc", "20")]
    # As Zigbee2MQTT announces a bulb.
    bulb = one(
        "light",
        schema="json",
        brightness=True,
        brightness_scale=254,
        supported_color_modes=["color_temp"],
        command_topic="zigbee2mqtt/bulb/set",
        state_topic="zigbee2mqtt/bulb",
        availability=[{"topic": "zigbee2mqtt/bridge/state", "value_template": "{{ value_json.state }}"}],
        device={"identifiers": ["zigbee2mqtt_0x1"], "name": "bulb"},
        name=None,
    )
    assert bulb.entity.state == "unavailable"
    bulb.receive("zigbee2mqtt/bridge/state", '{"state": "online"}')
    bulb.receive("zigbee2mqtt/bulb", '{"state": "ON", "brightness": 127, "linkquality": 90}')
    assert bulb.entity.state == "on" and bulb.entity.attributes["brightness"] == pytest.approx(127.5)
    message = bulb.messages(Call("light", "turn_on", {"brightness": 255}))
    assert [(topic, json.loads(text)) for topic, text in message] == [
        ("zigbee2mqtt/bulb/set", {"state": "ON", "brightness": 254})
    ]
    with pytest.raises(InputError, match="template"):
        one("light", schema="template", command_topic="c")


def test_a_fan_with_three_speeds():
    fan = one("fan", cmd_t="c", stat_t="s", pct_cmd_t="pc", pct_stat_t="ps", spd_rng_min=1, spd_rng_max=3)
    fan.receive("s", "ON")
    fan.receive("ps", "2")
    assert fan.entity.attributes["percentage"] == pytest.approx(66.7, abs=0.1)
    assert fan.messages(Call("fan", "set_percentage", {"percentage": 33})) == [("pc", "1")]
    assert fan.messages(Call("fan", "set_percentage", {"percentage": 50})) == [("pc", "2")]
    assert fan.messages(Call("fan", "set_percentage", {"percentage": 0})) == [("c", "OFF")]


def test_a_cover_with_positions():
    cover = one("cover", cmd_t="c", pos_t="p", set_pos_t="sp", pos_open=0, pos_clsd=255, stat_t="s")
    cover.receive("s", "opening")
    cover.receive("p", "51")
    assert cover.entity.state == "opening" and cover.entity.attributes["current_position"] == pytest.approx(
        80
    )
    assert cover.messages(Call("cover", "set_cover_position", {"position": 40})) == [("sp", "153")]
    assert cover.messages(Call("cover", "stop_cover")) == [("c", "STOP")]
    cover.receive("s", "stopped")
    assert cover.entity.state == "open"
    with pytest.raises(HomeError) as refused:
        one("cover", cmd_t="c", stat_t="s").messages(Call("cover", "set_cover_position", {"position": 40}))
    assert refused.value.type == "COMMAND_NOT_FOUND"


def test_other_components():
    lock = one("lock", cmd_t="c", stat_t="s", stat_locked="1", stat_unlocked="0", pl_lock="L")
    lock.receive("s", "1")
    assert lock.entity.state == "locked" and lock.messages(Call("lock", "lock")) == [("c", "L")]
    valve = one("valve", cmd_t="c", stat_t="s")
    valve.receive("s", "open")
    assert valve.entity.state == "open" and valve.messages(Call("valve", "close_valve")) == [("c", "CLOSE")]
    vacuum = one("vacuum", cmd_t="c", stat_t="s")
    vacuum.receive("s", '{"battery_level": 61, "state": "docked"}')
    assert vacuum.entity.state == "docked"
    assert vacuum.messages(Call("vacuum", "return_to_base")) == [("c", "return_to_base")]
    heating = one(
        "climate", mode_cmd_t="mc", mode_stat_t="ms", temp_cmd_t="tc", modes=["off", "heat"], temp_unit="F"
    )
    heating.receive("ms", "heat")
    assert heating.entity.state == "heat" and heating.entity.attributes["temperature_unit"] == "F"
    assert heating.messages(Call("climate", "set_temperature", {"temperature": 70.0})) == [("tc", "70.0")]
    assert heating.messages(Call("climate", "turn_on")) == [("mc", "heat")]
    sensor = one(
        "sensor", stat_t="s", val_tpl="{{ value_json.temperature | round(1) }}", dev_cla="temperature"
    )
    sensor.receive("s", '{"temperature": 21.46}')
    assert sensor.entity.state == "21.5"
    for domain, config in (("siren", {"command_topic": "c"}), ("switch", {}), ("fan", {"command_topic": 3})):
        with pytest.raises(InputError):
            one(domain, **config)


def test_availability_of_several_topics():
    topics = [{"t": "a"}, {"t": "b", "pl_avail": "yes", "pl_not_avail": "no"}]
    both = one("switch", cmd_t="c", stat_t="s", avty=topics)
    either = one("switch", cmd_t="c", stat_t="s", avty=topics, avty_mode="any")
    for switch in (both, either):
        switch.receive("s", "ON")
        switch.receive("a", "online")
    assert both.entity.state == "unavailable" and either.entity.state == "on"
    both.receive("b", "yes")
    assert both.entity.state == "on"
    both.receive("b", "no")
    assert both.entity.state == "unavailable"


def test_templates_are_kept_in_their_box():
    assert Template(None).read("x") == "x"
    assert Template("{{ value | int + 1 }}").read("4") == "5"
    assert Template("{{ value_json.a.b }}").read('{"a": {}}') is None
    assert Template("{{ 'ON' if value_json.on else 'OFF' }}").read('{"on": true}') == "ON"
    assert Template('{"level": {{ value }} }').make(7) == '{"level": 7 }'
    for text in ("{{ value.__class__.__mro__ }}", "{{ 'a' * 1000000000 }}", "{{ '%1000000000d' % 1 }}"):
        assert Template(text).read("x") is None
    with pytest.raises(InputError, match="not understood"):
        Template("{{ value | no_such_filter }}")
    with pytest.raises(InputError, match="longer"):
        Template("x" * 5000)
