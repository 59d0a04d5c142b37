"""The catalogue of device types of a larger home, what each can do, and in which kinds of rooms it may stand.

After MIST: fifty types with twenty-seven capabilities, ten kinds of rooms on up to three floors, same rooms
told apart by colours. The types, capabilities and room constraints that its description names are here; types
that it does not name are filled up from SimuHome's and from what Matter has, so the exact fifty may differ.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from dsp.errors import InputError
from edge.home.schema import DEVICE_TYPES
from edge.home.twin import HomeDevice

# capability -> the attributes ("<Cluster>.<Attribute>") by which a device has it; any of them will do.
CAPABILITIES: dict[str, tuple[str, ...]] = {
    "power": ("OnOff.OnOff",),
    "brightness": ("LevelControl.CurrentLevel",),
    "colour": ("ColorControl.CurrentHue",),
    "scene": ("ScenesManagement.CurrentScene",),
    "temperature": (
        "Thermostat.OccupiedHeatingSetpoint", "TemperatureControl.TemperatureSetpoint",
        "TemperatureMeasurement.MeasuredValue",
    ),
    "humidity": ("RelativeHumidityMeasurement.MeasuredValue",),
    "mode": ("Thermostat.SystemMode", "OvenMode.CurrentMode", "RTCCMode.CurrentMode", "FanControl.FanMode"),
    "fan_speed": ("FanControl.PercentSetting",),
    "position": ("WindowCovering.CurrentPositionLiftPercent100ths",),
    "duration": (
        "MicrowaveOvenControl.CookTime", "ValveConfigurationAndControl.OpenDuration",
        "OperationalState.CountdownTime",
    ),
    "brew_strength": ("BrewControl.BrewStrength",),
    "heat_level": ("CookSurface.PowerLevel",),
    "cycle": (
        "DishwasherMode.CurrentMode", "LaundryWasherMode.CurrentMode",
        "LaundryDryerControls.SelectedDrynessLevel",
    ),
    "volume": ("LevelControl.CurrentLevel",),
    "source": ("MediaInput.CurrentInput", "MediaPlayback.CurrentState"),
    "equalizer": ("Equalizer.Preset",),
    "lock": ("DoorLock.LockState",),
    "privacy": ("CameraAVStreamManagement.SoftRecordingPrivacyModeEnabled",),
    "chime": ("Chime.SelectedChime",),
    "status": (
        "SmokeCOAlarm.ExpressedState", "OccupancySensing.Occupancy", "BooleanState.StateValue",
        "ElectricalPowerMeasurement.ActivePower",
    ),
    "clean": ("RVCRunMode.CurrentMode",),
    "dispense": ("Dispenser.PortionsGiven",),
    "speed": ("ExerciseControl.Speed",),
    "incline": ("ExerciseControl.Incline",),
    "weight": ("WeightMeasurement.MeasuredValue", "WeightSelection.SelectedWeight"),
    "intensity": ("DiffuserControl.Intensity", "MirrorDisplay.ShowsWeather"),
    "moisture": ("SoilMeasurement.SoilMoistureMeasuredValue",),
}  # fmt: skip
ROOM_KINDS = (
    "living_room", "bedroom", "kitchen", "office", "bathroom", "garage", "dining_room", "home_gym",
    "backyard", "home_theater",
)  # fmt: skip
COLOURS = ("red", "blue", "green", "yellow", "white", "orange", "purple", "grey")


@dataclass(frozen=True, slots=True)
class CatalogueType:
    """rooms: the kinds of rooms in which it may stand; none: any but the backyard."""

    group: str
    name: str  # as people call it
    capabilities: tuple[str, ...]
    rooms: tuple[str, ...] = ()

    def may_stand_in(self, kind: str) -> bool:
        """Whether a device of this type may be in such a room."""
        return kind in self.rooms if self.rooms else kind != "backyard"


def _type(group: str, name: str, capabilities: str, rooms: str = "") -> CatalogueType:
    return CatalogueType(group, name, tuple(capabilities.split()), tuple(rooms.split()))


CATALOGUE: dict[str, CatalogueType] = {
    # lighting
    "color_light": _type("lighting", "light", "power brightness colour scene"),
    "light_strip": _type("lighting", "light strip", "power brightness colour scene"),
    "dimmer": _type("lighting", "dimmer", "power brightness"),
    "dimmable_light": _type("lighting", "dimmable light", "power brightness"),
    "on_off_light": _type("lighting", "lamp", "power"),
    "floodlight": _type("lighting", "floodlight", "power brightness", "backyard garage"),
    # climate
    "thermostat": _type("climate", "thermostat", "temperature mode"),
    "air_purifier": _type("climate", "air purifier", "power fan_speed"),
    "ceiling_fan": _type("climate", "ceiling fan", "power fan_speed"),
    "fan": _type("climate", "fan", "power fan_speed"),
    "window_covering": _type("climate", "blinds", "position"),
    "air_conditioner": _type(
        "climate", "air conditioner", "power temperature mode fan_speed", "living_room bedroom"
    ),
    "humidifier": _type("climate", "humidifier", "power fan_speed humidity"),
    "dehumidifier": _type("climate", "dehumidifier", "power fan_speed humidity"),
    # kitchen
    "refrigerator": _type("kitchen", "fridge", "temperature mode", "kitchen garage"),
    "freezer": _type("kitchen", "freezer", "temperature mode", "kitchen garage"),
    "oven": _type("kitchen", "oven", "power temperature mode duration", "kitchen"),
    "cooktop": _type("kitchen", "cooktop", "power heat_level", "kitchen"),
    "microwave": _type("kitchen", "microwave", "power duration", "kitchen"),
    "coffee_maker": _type("kitchen", "coffee maker", "power brew_strength duration", "kitchen office"),
    "kettle": _type("kitchen", "kettle", "power temperature duration", "kitchen office"),
    "dishwasher": _type("kitchen", "dishwasher", "power cycle duration", "kitchen"),
    "laundry_washer": _type("kitchen", "washing machine", "power cycle duration", "bathroom kitchen garage"),
    "laundry_dryer": _type("kitchen", "dryer", "power cycle duration", "bathroom garage"),
    # entertainment
    "tv": _type("entertainment", "TV", "power volume source"),
    "soundbar": _type("entertainment", "soundbar", "power volume source equalizer"),
    "speaker": _type("entertainment", "speaker", "power volume equalizer"),
    "projector": _type("entertainment", "projector", "power source", "home_theater"),
    "av_receiver": _type(
        "entertainment", "receiver", "power volume source equalizer", "home_theater living_room"
    ),
    # security
    "door_lock": _type("security", "door lock", "lock"),
    "camera": _type("security", "camera", "power privacy", "living_room garage backyard kitchen office"),
    "doorbell": _type("security", "doorbell", "chime", "living_room"),
    "smoke_alarm": _type("security", "smoke alarm", "status"),
    "co_alarm": _type("security", "CO alarm", "status"),
    "garage_door": _type("security", "garage door", "position", "garage"),
    "motion_sensor": _type("security", "motion sensor", "status"),
    "contact_sensor": _type("security", "contact sensor", "status"),
    "leak_sensor": _type("security", "leak sensor", "status", "kitchen bathroom garage"),
    # general
    "plug": _type("general", "plug", "power status"),
    "rvc": _type("general", "robot vacuum", "clean"),
    "water_valve": _type("general", "water valve", "duration", "kitchen bathroom garage"),
    "sprinkler": _type("general", "sprinkler", "duration", "backyard"),
    "pet_feeder": _type("general", "pet feeder", "dispense"),
    "curtains": _type("general", "curtains", "position"),
    # gym
    "treadmill": _type("gym", "treadmill", "power speed incline", "home_gym"),
    "scale": _type("gym", "scale", "weight", "home_gym bathroom"),
    "dumbbells": _type("gym", "dumbbells", "weight", "home_gym"),
    # misc
    "diffuser": _type("misc", "diffuser", "power intensity"),
    "plant_pot": _type("misc", "plant pot", "moisture"),
    "mirror": _type("misc", "mirror", "power brightness intensity"),
}  # fmt: skip


def attributes_of(device_type: str, capability: str) -> tuple[str, ...]:
    """The attributes (with endpoint) by which a type has a capability; none: it does not have it."""
    return tuple(
        f"{endpoint}.{cluster}.{attribute}"
        for endpoint, clusters in DEVICE_TYPES[device_type].items()
        for cluster, attributes in clusters.items()
        for attribute in attributes
        if f"{cluster}.{attribute}" in CAPABILITIES[capability]
    )


def misplaced(devices: Iterable[HomeDevice], kinds: Mapping[str, str]) -> list[str]:
    """What stands where its type may not. kinds: room -> one of `ROOM_KINDS`."""
    found = []
    for device in devices:
        entry, kind = CATALOGUE.get(device.type), kinds[device.room]
        if entry is not None and not entry.may_stand_in(kind):
            where = " or ".join(entry.rooms) or "any room inside"
            found.append(f"{device.id}: a {entry.name} belongs in {where}, not in a {kind}")
    return found


def draw_home(seed: int, floors: int = 2, devices: int = 60) -> tuple[tuple[HomeDevice, ...], dict[str, str]]:
    """A home drawn at random, the same for the same seed: its devices, and room -> kind of room.

    Rooms of one kind are told apart by colours, devices of one type in a room by numbers. Raises InputError
    for other than 1 to 3 floors or fewer than 1 device.
    """
    if not 1 <= floors <= 3 or devices < 1:
        raise InputError(f"a home has 1 to 3 floors and devices, not {floors} and {devices}")
    rng = random.Random(seed)
    kinds: dict[str, str] = {}
    drawn = ["living_room", "kitchen", "bathroom", "bedroom"]
    drawn += rng.choices(ROOM_KINDS, k=rng.randint(2, 4) + 4 * (floors - 1))
    for kind in ROOM_KINDS:
        count = min(drawn.count(kind), len(COLOURS))
        names = [kind] if count == 1 else [f"{colour}_{kind}" for colour in COLOURS[:count]]
        kinds |= dict.fromkeys(names, kind)
    made: list[HomeDevice] = []
    for _ in range(devices):
        room = rng.choice(list(kinds))
        fitting = [name for name, entry in CATALOGUE.items() if entry.may_stand_in(kinds[room])]
        (kind,) = rng.choices(fitting, [3 if CATALOGUE[name].rooms else 1 for name in fitting])
        number = 1 + sum(d.room == room and d.type == kind for d in made)
        name = f"{room} {CATALOGUE[kind].name}".replace("_", " ") + (f" {number}" if number > 1 else "")
        made.append(HomeDevice(f"{room}_{kind}_{number}", kind, name, room))
    return tuple(made), kinds
