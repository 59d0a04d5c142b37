"""What an announcement of MQTT discovery says: short keys written out, its device, its names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from edge.home.bridge_map import OWN, slug

# Short forms of the keys that Hearth reads; www.home-assistant.io/integrations/mqtt#discovery-messages.
_PARTS = {
    "avty": "availability", "bri": "brightness", "clsd": "closed", "cmd": "command", "curr": "current",
    "hum": "humidity", "pct": "percentage", "pl": "payload", "pos": "position", "pow": "power",
    "rng": "range", "scl": "scale", "spd": "speed", "stat": "state", "t": "topic", "temp": "temperature",
    "tpl": "template", "val": "value",
}  # fmt: skip
_WHOLE = {
    "avty_mode": "availability_mode", "dev": "device", "dev_cla": "device_class",
    "en": "enabled_by_default", "ent_cat": "entity_category", "obj_id": "object_id",
    "on_cmd_type": "on_command_type", "opt": "optimistic", "pl_avail": "payload_available",
    "pl_cls": "payload_close", "pl_not_avail": "payload_not_available", "pl_paus": "payload_pause",
    "pl_ret": "payload_return_to_base", "pl_strt": "payload_start", "pl_unlk": "payload_unlock",
    "ret": "retain", "stat_jam": "state_jammed", "sup_clrm": "supported_color_modes",
    "temp_unit": "temperature_unit", "uniq_id": "unique_id", "unit_of_meas": "unit_of_measurement",
}  # fmt: skip
_UNSHORTENED = ("temp_step", "min_temp", "max_temp")
_DEVICE = {"ids": "identifiers", "sa": "suggested_area", "mf": "manufacturer", "mdl": "model"}


def expanded(config: Mapping[str, Any]) -> dict[str, Any]:
    """The announcement with long keys and whole topics (`~` stands for the base topic)."""
    base = config.get("~")
    made = {}
    for key, value in config.items():
        long = _long(key)
        if long.endswith("_topic") and isinstance(value, str) and isinstance(base, str):
            value = _whole(value, base)
        made[long] = value
    if isinstance(made.get("availability"), Mapping):
        made["availability"] = [made["availability"]]
    if isinstance(made.get("availability"), list):
        entries = [expanded(one) for one in made["availability"] if isinstance(one, Mapping)]
        for entry in entries:
            if isinstance(entry.get("topic"), str) and isinstance(base, str):
                entry["topic"] = _whole(entry["topic"], base)
        made["availability"] = entries
    return made


def _long(key: str) -> str:
    if key in _WHOLE:
        return _WHOLE[key]
    if key in _UNSHORTENED:
        return key
    return "_".join(_PARTS.get(part, part) for part in key.split("_"))


def _whole(topic: str, base: str) -> str:
    if topic.startswith("~"):
        return base + topic[1:]
    return topic[:-1] + base if topic.endswith("~") else topic


@dataclass(frozen=True, slots=True)
class AnnouncedDevice:
    """The device that an entity belongs to: name, where it is said to stand, and whether it is Hearth."""

    name: str = ""
    area: str = ""
    own: bool = False

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> AnnouncedDevice:
        """Out of an announcement."""
        told = config.get("device")
        if not isinstance(told, Mapping):
            return cls()
        device = {_DEVICE.get(key, key): value for key, value in told.items()}
        ids = device.get("identifiers")
        ids = ids if isinstance(ids, list) else [ids]
        return cls(
            str(device.get("name") or ""),
            str(device.get("suggested_area") or ""),
            any(str(one).startswith(OWN) for one in ids),
        )

    def full_name(self, config: Mapping[str, Any]) -> str:
        """The device's name, with the entity's behind it where it has one."""
        name = config.get("name")
        own = name if isinstance(name, str) else ""
        return own if own.startswith(self.name) else " ".join(part for part in (self.name, own) if part)

    def object_id(self, config: Mapping[str, Any], node: str) -> str:
        """As Home Assistant makes it: said, or of the names, or of the topic."""
        said = config.get("object_id")
        return slug(said if isinstance(said, str) else self.full_name(config) or node)
