"""What `hearth home` tells: whether the home answers, its devices, and what is not mapped and why."""

from __future__ import annotations

import time
from typing import Any

from capture.rig import Rig
from edge.home.bridge import BridgeHome
from edge.home.bridge_open import RealHome, link_of
from edge.home.service import home_of

SETTLED_S = 0.7  # nothing new for so long: all announcements of a broker have come
_UNITS = {"temperature": ("temperature_c", 100), "humidity": ("humidity_percent", 100)}


def report_of(rig: Rig, wait_s: float) -> dict[str, Any]:
    """Connects, waits at most `wait_s` for the answer, and tells; keys in docs/cli.md, `hearth home`.

    Raises InputError for a token or password that cannot be read, MissingDependency.
    """
    report: dict[str, Any] = {"kind": rig.home.kind, "trouble": None, "left_out": [], "not_there": []}
    if rig.home.kind == "twin":
        home = home_of(rig)
        report |= {"where": "a twin in software", "connected": True, "version": None, "rooms": {}}
        return report | {"devices": [_device(d) for d in home.describe()]}
    link = link_of(rig)
    real = RealHome(rig, link)
    try:
        connected = _wait(real.home, wait_s)
        entities = link.entities()
        unread = getattr(link, "refused", {})
        report |= {
            "where": link.where,
            "connected": connected,
            "trouble": None if connected else link.trouble,
            "version": getattr(link, "version", None) or None,
            "devices": [_device(d) for d in real.home.describe()],
            "left_out": [
                {"entity": entity, "why": why}
                for entity, why in sorted({**real.home.left_out, **unread}.items())
            ],
            "rooms": {room: _air(values) for room, values in sorted(real.rooms().items())},
        }
        if connected:
            report["not_there"] = [
                {"id": d.id, "entity": d.entity, "why": why}
                for d in rig.room.devices
                if (why := _missing(d.entity, entities, link.where))
            ]
    finally:
        real.close()
    return report


def _wait(home: BridgeHome, wait_s: float) -> bool:
    """Until it is connected and tells nothing new."""
    end = time.monotonic() + wait_s
    while not home.link.connected:
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    known, since = -1, time.monotonic()
    while time.monotonic() - since < SETTLED_S and time.monotonic() < end + SETTLED_S:
        now = len(home.link.entities())
        if now != known:
            known, since = now, time.monotonic()
        time.sleep(0.02)
    return home.link.connected


def _missing(entity: str | None, entities: Any, where: str) -> str:
    if entity is None:
        return "rig.yaml does not say which entity it is (room.devices: entity)"
    return "" if entity in entities else f"{where} has no entity {entity}"


def _device(described: dict[str, Any]) -> dict[str, Any]:
    return {
        "id": described["id"],
        "type": described["type"],
        "name": described["name"],
        "room": described["room"],
        "entity": described.get("entity"),
        "placed": described["position_m"] is not None,
        "connected": described.get("connected", True),
        "state": described["attributes"],
    }


def _air(values: dict[str, float]) -> dict[str, float]:
    made = {}
    for variable, value in values.items():
        name, scale = _UNITS.get(variable, (variable, 1))
        made[name] = value / scale
    return made
