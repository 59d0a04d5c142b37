"""The clusters of devices: attributes with range, access and first value.

Names are those of the Matter Application Cluster Specification. Clusters that Matter does not have are marked
as ours. Temperatures and humidity are in hundredths, levels 1-254, fans 0-100 %, blinds and doors 0 (open) to
10000 (closed), times in seconds.
"""

from __future__ import annotations

from edge.home.attribute import Attribute

ON_OFF = {"OnOff": Attribute(False)}
LEVEL = {
    "CurrentLevel": Attribute(254, 1, 254, nullable=True),
    "MinLevel": Attribute(1, 1, 254),
    "MaxLevel": Attribute(254, 1, 254),
}
FAN = {
    "FanMode": Attribute(0, choices=(0, 1, 2, 3), writable=True, needs_on=True),
    "PercentSetting": Attribute(0, 0, 100, writable=True, needs_on=True),
    "PercentCurrent": Attribute(0, 0, 100),
}
THERMOSTAT = {
    "LocalTemperature": Attribute(2200, -5000, 10000, nullable=True),
    "SystemMode": Attribute(0, choices=(0, 3, 4), writable=True, needs_on=True),  # off, cool, heat
    "OccupiedCoolingSetpoint": Attribute(2600, 1600, 3200, writable=True, needs_on=True),
    "OccupiedHeatingSetpoint": Attribute(2000, 700, 3000, writable=True, needs_on=True),
}
OPERATIONAL = {"OperationalState": Attribute(0, choices=(0, 1, 2, 3))}  # stopped, running, paused, error
CYCLE = {
    **OPERATIONAL,
    "CountdownTime": Attribute(None, 0, 259200, nullable=True),  # seconds
    "CurrentPhase": Attribute(None, 0, 255, nullable=True),
}
WASHER_CONTROLS = {
    "SpinSpeedCurrent": Attribute(0, 0, 15, writable=True, nullable=True),
    "NumberOfRinses": Attribute(1, choices=(0, 1, 2, 3), writable=True),
}
DRYER_CONTROLS = {"SelectedDrynessLevel": Attribute(1, choices=(0, 1, 2, 3), writable=True)}
DISHWASHER_ALARM = {name: Attribute(0, 0, 255) for name in ("Mask", "Latch", "State", "Supported")}
MEDIA = {"CurrentState": Attribute(2, choices=(0, 1, 2))}  # playing, paused, not playing
COVERING = {
    "CurrentPositionLiftPercent100ths": Attribute(0, 0, 10000),
    "TargetPositionLiftPercent100ths": Attribute(0, 0, 10000),
}
TEMPERATURE_CONTROL = {
    "TemperatureSetpoint": Attribute(400, 100, 700),
    "MinTemperature": Attribute(100, -5000, 5000),
    "MaxTemperature": Attribute(700, -5000, 5000),
}
WASHER_TEMPERATURE = {
    "TemperatureSetpoint": Attribute(2000, 0, 9500),
    "MinTemperature": Attribute(500, 0, 9500),
    "MaxTemperature": Attribute(9500, 0, 9500),
}
FREEZER_TEMPERATURE = {
    "TemperatureSetpoint": Attribute(-1800, -5000, 5000),
    "MinTemperature": Attribute(-2300, -5000, 5000),
    "MaxTemperature": Attribute(-1500, -5000, 5000),
}
TEMPERATURE = {"MeasuredValue": Attribute(400, -5000, 10000)}
HUMIDITY = {"MeasuredValue": Attribute(4500, 0, 10000, nullable=True)}
FREEZING = {"MeasuredValue": Attribute(-1800, -5000, 10000)}
RVC_STATE = {
    "OperationalState": Attribute(0, choices=(0, 1, 2, 3, 64, 65, 66)),  # ... seeks, charges, is docked
    "CountdownTime": Attribute(None, 0, 259200, nullable=True),
}


def modes(first: int, choices: tuple[int, ...]) -> dict[str, Attribute]:
    """A cluster with a mode."""
    return {"CurrentMode": Attribute(first, choices=choices)}


COLD_MODES = modes(0, (0, 4, 16384, 16385))  # normal, energy save, rapid cool, rapid freeze

# -- beyond SimuHome

COLOR = {
    "CurrentHue": Attribute(0, 0, 254),
    "CurrentSaturation": Attribute(0, 0, 254),
    "ColorTemperatureMireds": Attribute(370, 153, 500),
    "ColorMode": Attribute(2, choices=(0, 2)),  # hue and saturation, colour temperature
}
SCENES = {"CurrentScene": Attribute(0, 0, 16)}  # 0: none
OVEN_TEMPERATURE = {
    "TemperatureSetpoint": Attribute(18000, 3000, 28000),
    "MinTemperature": Attribute(3000, 0, 30000),
    "MaxTemperature": Attribute(28000, 0, 30000),
}
KETTLE_TEMPERATURE = {
    "TemperatureSetpoint": Attribute(10000, 4000, 10000),
    "MinTemperature": Attribute(4000, 0, 10000),
    "MaxTemperature": Attribute(10000, 0, 10000),
}
COOKING = {"CookTime": Attribute(None, 1, 86400, nullable=True)}  # None: until it is stopped
LOCK = {"LockState": Attribute(1, choices=(0, 1, 2)), "AutoRelockTime": Attribute(0, 0, 86400, writable=True)}
PRIVACY = {"SoftRecordingPrivacyModeEnabled": Attribute(False, writable=True)}
CHIME = {"SelectedChime": Attribute(0, 0, 7, writable=True), "Enabled": Attribute(True, writable=True)}
ALARM = {
    "ExpressedState": Attribute(0, choices=tuple(range(9))),  # normal, smoke, CO, battery, test, fault, ...
    "SmokeState": Attribute(0, choices=(0, 1, 2), nullable=True),  # normal, warning, critical
    "COState": Attribute(0, choices=(0, 1, 2), nullable=True),
    "BatteryAlert": Attribute(0, choices=(0, 1, 2)),
    "DeviceMuted": Attribute(0, choices=(0, 1)),
    "HardwareFaultAlert": Attribute(False),
}
OCCUPANCY = {"Occupancy": Attribute(0, choices=(0, 1), nullable=True)}
BOOLEAN = {"StateValue": Attribute(False, nullable=True)}
VALVE = {
    "CurrentState": Attribute(0, choices=(0, 1)),  # closed, open
    "OpenDuration": Attribute(None, 1, 86400, nullable=True),
    "RemainingDuration": Attribute(None, 0, 86400, nullable=True),
}
POWER = {"ActivePower": Attribute(None, 0, 10**7, nullable=True)}  # mW
INPUT = {"CurrentInput": Attribute(0, 0, 7)}
SOIL = {"SoilMoistureMeasuredValue": Attribute(40, 0, 100, nullable=True)}  # %
# Ours, without a counterpart in Matter. What boils takes a minute for each cup.
CUPS = {"Cups": Attribute(1, 1, 12, writable=True)}
BREW = {
    "BrewStrength": Attribute(1, choices=(0, 1, 2), writable=True),  # mild, medium, strong
    **CUPS,
}
COOK_SURFACE = {"PowerLevel": Attribute(0, 0, 9, writable=True, needs_on=True)}
EQUALIZER = {
    "Preset": Attribute(0, choices=(0, 1, 2, 3, 4), writable=True)
}  # flat, music, film, voice, night
DISPENSER = {"PortionsGiven": Attribute(0, 0, 10**6)}
EXERCISE = {
    "Speed": Attribute(0, 0, 200, writable=True, needs_on=True),  # 0.1 km/h
    "Incline": Attribute(0, 0, 150, writable=True, needs_on=True),  # 0.1 %
}
WEIGHT = {"MeasuredValue": Attribute(None, 0, 500000, nullable=True)}  # g
WEIGHT_CHOICE = {"SelectedWeight": Attribute(2, 2, 40, writable=True)}  # kg
DIFFUSER = {"Intensity": Attribute(50, 0, 100, writable=True, needs_on=True)}
MIRROR = {"ShowsWeather": Attribute(False, writable=True, needs_on=True)}
