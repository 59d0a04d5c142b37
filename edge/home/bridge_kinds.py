"""Which of our device types an entity of a real home is, what it tells, and what to tell it."""

from __future__ import annotations

from edge.home.bridge_domains import (
    Climate,
    Cover,
    Domain,
    Fan,
    Humidifier,
    InputBoolean,
    Light,
    MediaPlayer,
    Vacuum,
)
from edge.home.bridge_entities import Asked, Entity, Told
from edge.home.schema import DEVICE_TYPES, Value

LOCK_STATES = {"locked": 1, "unlocked": 2, "unlocking": 2, "locking": 1, "jammed": 0}
_ROOMS = ("sensor",)
# Domain -> command -> the bit of `supported_features` that it needs; 0: none can.
FEATURES: dict[str, dict[str, int]] = {
    "cover": {
        "WindowCovering.UpOrOpen": 1,
        "WindowCovering.DownOrClose": 2,
        "WindowCovering.GoToLiftPercentage": 4,
        "WindowCovering.StopMotion": 8,
    },
    "media_player": {
        "MediaPlayback.Pause": 1,
        "MediaPlayback.Previous": 16,
        "MediaPlayback.Next": 32,
        "OnOff.On": 128,
        "OnOff.Off": 256,
        "OnOff.Toggle": 128,
        "MediaPlayback.Stop": 4096,
        "MediaPlayback.Play": 16384,
        **{f"MediaPlayback.{name}": 0 for name in ("StartOver", "Rewind", "FastForward")},
        **{
            f"LevelControl.{name}{more}": 4
            for name in ("MoveToLevel", "Move", "Step", "Stop")
            for more in ("", "WithOnOff")
        },
    },
    "vacuum": {
        "RVCOperationalState.Pause": 4,
        "RVCOperationalState.GoHome": 16,
        "RVCOperationalState.Resume": 8192,
        "RVCRunMode.ChangeToMode": 8192,
    },
}
# Device class of a binary sensor -> our type, the attribute that it tells, and its values off and on.
SENSES: dict[str, tuple[str, str, Value, Value]] = {
    "smoke": ("smoke_alarm", "SmokeCOAlarm.SmokeState", 0, 2),
    "carbon_monoxide": ("co_alarm", "SmokeCOAlarm.COState", 0, 2),
    "moisture": ("leak_sensor", "BooleanState.StateValue", False, True),
    "motion": ("motion_sensor", "OccupancySensing.Occupancy", 0, 1),
    "occupancy": ("motion_sensor", "OccupancySensing.Occupancy", 0, 1),
    "presence": ("motion_sensor", "OccupancySensing.Occupancy", 0, 1),
    "door": ("contact_sensor", "BooleanState.StateValue", True, False),  # Matter: true is closed
    "garage_door": ("contact_sensor", "BooleanState.StateValue", True, False),
    "opening": ("contact_sensor", "BooleanState.StateValue", True, False),
    "window": ("contact_sensor", "BooleanState.StateValue", True, False),
}


class Lock(Domain):
    name = "lock"

    def kind(self, entity: Entity) -> tuple[str | None, str]:
        return "door_lock", ""

    def read(self, entity: Entity) -> dict[str, Value]:
        return {"DoorLock.LockState": LOCK_STATES.get(entity.state)}

    def tell(self, entity: Entity, asked: Asked) -> Told | None:
        wanted = asked.changed.get("DoorLock.LockState")
        if wanted not in (1, 2):
            return None
        word = "locked" if wanted == 1 else "unlocked"
        return Told((self.call("lock" if wanted == 1 else "unlock"),), lambda e: e.state == word)


class Valve(Domain):
    name = "valve"

    def kind(self, entity: Entity) -> tuple[str | None, str]:
        gas = entity.attributes.get("device_class") == "gas"
        return (None, "valve: Hearth leaves gas alone") if gas else ("water_valve", "")

    def read(self, entity: Entity) -> dict[str, Value]:
        states = {"open": 1, "opening": 1, "closed": 0, "closing": 0}
        return {"ValveConfigurationAndControl.CurrentState": states.get(entity.state)}

    def tell(self, entity: Entity, asked: Asked) -> Told | None:
        wanted = asked.changed.get("ValveConfigurationAndControl.CurrentState")
        if wanted not in (0, 1) or asked.args.get("open_duration"):
            return None
        word, way = ("open", "opening") if wanted else ("closed", "closing")
        return Told((self.call("open_valve" if wanted else "close_valve"),), lambda e: e.state in (word, way))


class BinarySensor(Domain):
    name = "binary_sensor"

    def kind(self, entity: Entity) -> tuple[str | None, str]:
        sense = SENSES.get(str(entity.attributes.get("device_class")))
        return (
            (None, "a sensor that says nothing of a kind Hearth knows") if sense is None else (sense[0], "")
        )

    def read(self, entity: Entity) -> dict[str, Value]:
        sense = SENSES.get(str(entity.attributes.get("device_class")))
        if sense is None:
            return {}
        told: dict[str, Value] = {sense[1]: sense[3] if entity.state == "on" else sense[2]}
        if sense[1].startswith("SmokeCOAlarm."):
            loud = 1 if sense[1].endswith("SmokeState") else 2
            told["SmokeCOAlarm.ExpressedState"] = loud if entity.state == "on" else 0
        return told

    def tell(self, entity: Entity, asked: Asked) -> Told | None:
        return None


_DOMAINS: dict[str, Domain] = {
    one.name: one
    for one in (
        Domain(),
        InputBoolean(),
        Light(),
        Fan(),
        Humidifier(),
        Climate(),
        Cover(),
        MediaPlayer(),
        Vacuum(),
        Lock(),
        Valve(),
        BinarySensor(),
    )
}


def kind_of(entity: Entity) -> tuple[str | None, str]:
    """The device type of an entity, or None and why it is none of ours."""
    domain = _DOMAINS.get(entity.domain)
    if entity.domain in _ROOMS:
        return None, f"{entity.domain}: no device; what it measures may count as its room's air"
    if domain is None:
        return None, f"{entity.domain}: Hearth has no devices of this kind"
    return domain.kind(entity)


def read(entity: Entity, device_type: str) -> dict[str, Value]:
    """What an entity tells, as attributes of a device type: "1.OnOff.OnOff" -> True. Only what the type has
    and the entity can tell; None: not known now."""
    domain = _DOMAINS.get(entity.domain)
    if domain is None:
        return {}
    told = domain.read(entity)
    if entity.away:
        told = dict.fromkeys(told)
    places = _places(device_type)
    return {places[name]: value for name, value in told.items() if name in places}


def tell(entity: Entity, asked: Asked) -> Told | None:
    """What to call so that an entity does what was asked; None: it cannot do that."""
    domain = _DOMAINS.get(entity.domain)
    return None if domain is None else domain.tell(entity, asked)


def can_do(entity: Entity, command: str) -> bool:
    """Whether an entity can do a command of its clusters ("WindowCovering.StopMotion"), by the features that
    it tells; what it does not tell of, is tried."""
    needed = FEATURES.get(entity.domain, {}).get(command)
    if needed is None:
        return True
    told = entity.attributes.get("supported_features")
    return needed > 0 and (not isinstance(told, int) or bool(told & needed))


def can_become(entity: Entity, device_type: str) -> bool:
    """Whether an entity can be bound to a device of this type: it tells something that the type has."""
    return device_type in DEVICE_TYPES and bool(read(entity, device_type))


def _places(device_type: str) -> dict[str, str]:
    """`OnOff.OnOff` -> `1.OnOff.OnOff`, the first endpoint that has it."""
    places: dict[str, str] = {}
    for endpoint, clusters in DEVICE_TYPES.get(device_type, {}).items():
        for cluster, attributes in clusters.items():
            for name in attributes:
                places.setdefault(f"{cluster}.{name}", f"{endpoint}.{cluster}.{name}")
    return places
