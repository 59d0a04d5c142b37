"""The names of the device types that a home can have; `edge.home.schema` says what each is made of."""

from __future__ import annotations

from typing import Literal

# fmt: off
DeviceType = Literal[
    "on_off_light", "dimmable_light", "color_light", "light_strip", "floodlight", "dimmer",
    "air_conditioner", "heat_pump", "thermostat", "fan", "ceiling_fan", "air_purifier", "humidifier",
    "dehumidifier", "window_covering", "curtains",
    "refrigerator", "freezer", "oven", "cooktop", "range_hood", "microwave", "coffee_maker", "kettle",
    "dishwasher", "laundry_washer", "laundry_dryer",
    "tv", "audio_player", "soundbar", "speaker", "av_receiver", "projector",
    "door_lock", "camera", "doorbell", "smoke_alarm", "fire_alarm", "co_alarm", "garage_door",
    "motion_sensor", "contact_sensor", "leak_sensor",
    "plug", "rvc", "water_valve", "sprinkler", "pet_feeder", "treadmill", "scale", "dumbbells", "diffuser",
    "plant_pot", "mirror",
]
# fmt: on
