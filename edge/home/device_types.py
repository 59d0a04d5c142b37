"""Which device types there are, and the clusters of their endpoints.

The first eighteen follow the SimuHome benchmark (arXiv 2509.24282), with a microwave and an audio player.
"""

from __future__ import annotations

from edge.home import clusters as c
from edge.home.attribute import Attribute

Clusters = dict[str, dict[str, Attribute]]

DEVICE_TYPES: dict[str, dict[int, Clusters]] = {
    "on_off_light": {1: {"OnOff": c.ON_OFF}},
    "dimmable_light": {1: {"OnOff": c.ON_OFF, "LevelControl": c.LEVEL}},
    "air_conditioner": {1: {"OnOff": c.ON_OFF, "Thermostat": c.THERMOSTAT, "FanControl": c.FAN}},
    "fan": {1: {"OnOff": c.ON_OFF, "FanControl": c.FAN}},
    "air_purifier": {1: {"OnOff": c.ON_OFF, "FanControl": c.FAN}},
    "humidifier": {
        1: {"OnOff": c.ON_OFF, "FanControl": c.FAN},
        2: {"RelativeHumidityMeasurement": c.HUMIDITY},
    },
    "dehumidifier": {
        1: {"OnOff": c.ON_OFF, "FanControl": c.FAN},
        2: {"RelativeHumidityMeasurement": c.HUMIDITY},
    },
    "heat_pump": {
        1: {"PowerSource": {"Status": Attribute(1, 0, 3)}},
        2: {"ElectricalPowerMeasurement": {"ActivePower": Attribute(None, nullable=True)}},
        3: {"DeviceEnergyManagement": {"ESAState": Attribute(1, 0, 4)}},
        4: {"Thermostat": c.THERMOSTAT},
    },
    "tv": {
        1: {
            "OnOff": c.ON_OFF,
            "MediaPlayback": c.MEDIA,
            "LevelControl": c.LEVEL,
            "Channel": {},  # the channels are what the first state names as 1.Channel.ChannelList
            "KeypadInput": {},
        }
    },
    "audio_player": {1: {"OnOff": c.ON_OFF, "MediaPlayback": c.MEDIA, "LevelControl": c.LEVEL}},
    "microwave": {
        1: {"OnOff": c.ON_OFF, "OperationalState": c.CYCLE, "MicrowaveOvenControl": c.COOKING},
    },
    "laundry_washer": {
        1: {
            "OnOff": c.ON_OFF,
            "OperationalState": c.CYCLE,
            "LaundryWasherMode": c.modes(0, (0, 1, 2, 3, 4, 5)),
            "LaundryWasherControls": c.WASHER_CONTROLS,
            "TemperatureControl": c.WASHER_TEMPERATURE,
        }
    },
    "laundry_dryer": {
        1: {"OnOff": c.ON_OFF, "OperationalState": c.CYCLE, "LaundryDryerControls": c.DRYER_CONTROLS},
    },
    "dishwasher": {
        1: {
            "OnOff": c.ON_OFF,
            "OperationalState": c.CYCLE,
            "DishwasherMode": c.modes(0, (0, 1, 2, 3, 4, 5)),
            "DishwasherAlarm": c.DISHWASHER_ALARM,
        }
    },
    "rvc": {
        1: {
            "RVCRunMode": c.modes(1, (1, 2, 3)),  # idle, vacuum, map
            "RVCCleanMode": c.modes(1, (1, 2, 3)),  # vacuum, deep clean, mop
            "RVCOperationalState": c.RVC_STATE,
        }
    },
    "refrigerator": {
        1: {
            "TemperatureControl": c.TEMPERATURE_CONTROL,
            "RTCCMode": c.COLD_MODES,
            "TemperatureMeasurement": c.TEMPERATURE,
        },
    },
    "freezer": {
        1: {
            "TemperatureControl": c.FREEZER_TEMPERATURE,
            "RTCCMode": c.COLD_MODES,
            "TemperatureMeasurement": c.FREEZING,
        },
    },
    "window_covering": {1: {"WindowCovering": c.COVERING}},
}
_MEDIA_CLUSTERS = {"OnOff": c.ON_OFF, "MediaPlayback": c.MEDIA, "LevelControl": c.LEVEL}
_LIT: Clusters = {"OnOff": c.ON_OFF, "LevelControl": c.LEVEL}
# What MIST's homes have beside them; see edge/home/catalogue.py.
DEVICE_TYPES |= {
    "color_light": {1: {**_LIT, "ColorControl": c.COLOR, "ScenesManagement": c.SCENES}},
    "light_strip": {1: {**_LIT, "ColorControl": c.COLOR, "ScenesManagement": c.SCENES}},
    "floodlight": {1: _LIT},
    "dimmer": {1: _LIT},
    "thermostat": {1: {"Thermostat": c.THERMOSTAT}},
    "ceiling_fan": {1: {"OnOff": c.ON_OFF, "FanControl": c.FAN}},
    "range_hood": {1: {"OnOff": c.ON_OFF, "FanControl": c.FAN}},
    "oven": {
        1: {
            "OnOff": c.ON_OFF,
            "OperationalState": c.CYCLE,
            "OvenMode": c.modes(0, (0, 1, 2, 3, 4)),  # bake, convection, grill, roast, keep warm
            "TemperatureControl": c.OVEN_TEMPERATURE,
            "MicrowaveOvenControl": c.COOKING,
        }
    },
    "cooktop": {1: {"OnOff": c.ON_OFF, "CookSurface": c.COOK_SURFACE}},
    "coffee_maker": {1: {"OnOff": c.ON_OFF, "OperationalState": c.CYCLE, "BrewControl": c.BREW}},
    "kettle": {
        1: {
            "OnOff": c.ON_OFF,
            "OperationalState": c.CYCLE,
            "TemperatureControl": c.KETTLE_TEMPERATURE,
            "BrewControl": c.CUPS,
        }
    },
    "soundbar": {1: {**_MEDIA_CLUSTERS, "MediaInput": c.INPUT, "Equalizer": c.EQUALIZER}},
    "speaker": {1: {**_MEDIA_CLUSTERS, "Equalizer": c.EQUALIZER}},
    "av_receiver": {1: {**_MEDIA_CLUSTERS, "MediaInput": c.INPUT, "Equalizer": c.EQUALIZER}},
    "projector": {1: {"OnOff": c.ON_OFF, "MediaInput": c.INPUT}},
    "door_lock": {1: {"DoorLock": c.LOCK}},
    "camera": {1: {"OnOff": c.ON_OFF, "CameraAVStreamManagement": c.PRIVACY}},
    "doorbell": {1: {"Chime": c.CHIME}},
    "smoke_alarm": {1: {"SmokeCOAlarm": c.ALARM}},
    "co_alarm": {1: {"SmokeCOAlarm": c.ALARM}},
    "garage_door": {1: {"WindowCovering": c.COVERING}},
    "motion_sensor": {1: {"OccupancySensing": c.OCCUPANCY}},
    "contact_sensor": {1: {"BooleanState": c.BOOLEAN}},
    "leak_sensor": {1: {"BooleanState": c.BOOLEAN}},
    "plug": {1: {"OnOff": c.ON_OFF}, 2: {"ElectricalPowerMeasurement": c.POWER}},
    "water_valve": {1: {"ValveConfigurationAndControl": c.VALVE}},
    "sprinkler": {1: {"ValveConfigurationAndControl": c.VALVE}},
    "pet_feeder": {1: {"Dispenser": c.DISPENSER}},
    "curtains": {1: {"WindowCovering": c.COVERING}},
    "treadmill": {1: {"OnOff": c.ON_OFF, "ExerciseControl": c.EXERCISE}},
    "scale": {1: {"WeightMeasurement": c.WEIGHT}},
    "dumbbells": {1: {"WeightSelection": c.WEIGHT_CHOICE}},
    "diffuser": {1: {"OnOff": c.ON_OFF, "DiffuserControl": c.DIFFUSER}},
    "plant_pot": {1: {"SoilMeasurement": c.SOIL}},
    "mirror": {1: {**_LIT, "MirrorDisplay": c.MIRROR}},
}
DEVICE_TYPES["fire_alarm"] = DEVICE_TYPES["smoke_alarm"]
DEVICE_TYPES["window_covering_controller"] = DEVICE_TYPES["window_covering"]  # SimuHome's name of it
