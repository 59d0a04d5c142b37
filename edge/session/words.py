"""What an item of the plan means for those in the room: who stands where, which device does what."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from dsp.errors import InputError
from recordings.geometry import direction_to_point
from recordings.plan.model import Plan, PlanItem, PlanRoom
from recordings.profile import DeviceState, Placed, Value


def room_of(plan: Plan, item: PlanItem) -> PlanRoom:
    """The room that an item is recorded in. Raises InputError when the plan has no such room."""
    for room in plan.rooms:
        if room.id == item.staging.room:
            return room
    known = ", ".join(room.id for room in plan.rooms)
    raise InputError(f"{item.id}: its room {item.staging.room!r} is none of the plan's: {known}")


def in_words(name: str) -> str:
    """`living_room` -> `living room`."""
    return name.replace("_", " ")


def name_of(plan: Plan, person: str) -> str:
    """What a participant is called."""
    return next((one.name for one in plan.participants if one.id == person), in_words(person))


def device_name(item: PlanItem, device_id: str) -> str:
    """A device as people say it, with its room when it stands in another one than the speaker."""
    device = next((one for one in item.home.devices if one.id == device_id), None)
    if device is None:
        return in_words(device_id)
    elsewhere = "" if device.room == item.staging.room else f" ({in_words(device.room)})"
    return f"{device.name}{elsewhere}"


def place_in_words(placed: Placed, room: PlanRoom) -> str:
    """Where somebody stands, as seen from the rig: "2.1 m in front of the rig, 0.4 m to its left"."""
    azimuth, _, _ = direction_to_point(placed.mouth_m, room.microphone_m, room.microphone_yaw_deg)
    across = math.hypot(*(placed.mouth_m[i] - room.microphone_m[i] for i in (0, 1)))
    ahead, left = (across * f(math.radians(float(azimuth))) for f in (math.cos, math.sin))
    words = f"{abs(ahead):.1f} m {'in front of' if ahead >= 0 else 'behind'} the rig"
    if abs(left) >= 0.15:
        words += f", {abs(left):.1f} m to its {'left' if left > 0 else 'right'}"
    return words


def facing_in_words(placed: Placed, room: PlanRoom) -> str:
    """Which way somebody looks: "faces the rig", "faces away from the rig", "the rig is on the left"."""
    towards = math.degrees(
        math.atan2(room.microphone_m[1] - placed.mouth_m[1], room.microphone_m[0] - placed.mouth_m[0])
    )
    turn = (towards - placed.facing_deg + 180) % 360 - 180  # where the rig is, from the person: + left
    if abs(turn) <= 20:
        return "faces the rig"
    if abs(turn) >= 160:
        return "faces away from the rig"
    side = "left" if turn > 0 else "right"
    return f"turned: the rig is {abs(turn):.0f}\N{DEGREE SIGN} to the {side}"


def state_in_words(attributes: Mapping[str, Value]) -> str:
    """The state of a device as an operator sets it: "on, 60 %", "off", "running", "closed"."""

    def of(path: str) -> Any:
        return next((v for key, v in attributes.items() if key.partition(".")[2] == path), None)

    words: list[str] = []
    on = of("OnOff.OnOff")
    if on is not None:
        words.append("on" if on else "off")
    if on is not False:
        operation, playing = of("OperationalState.OperationalState"), of("MediaPlayback.CurrentState")
        level, fan = of("LevelControl.CurrentLevel"), of("FanControl.PercentSetting")
        if operation is not None:
            words.append({0: "stopped", 1: "running", 2: "paused"}.get(operation, f"state {operation}"))
        if playing is not None:
            words.append({0: "playing", 1: "paused", 2: "not playing"}.get(playing, f"state {playing}"))
        if isinstance(level, int | float):
            words.append(f"level {100 * level / 254:.0f} %")
        if fan is not None:
            words.append(f"{fan} %")
        mode = of("Thermostat.SystemMode")
        if mode is not None:
            words.append({0: "neither heating nor cooling", 3: "cooling", 4: "heating"}.get(mode, ""))
            season = "Heating" if mode == 4 else "Cooling"
            degrees = of(f"Thermostat.Occupied{season}Setpoint")
            if mode in (3, 4) and degrees is not None:
                words.append(f"to {degrees / 100:g} \N{DEGREE SIGN}C")
        lift = of("WindowCovering.CurrentPositionLiftPercent100ths")
        if lift is not None:
            words.append({0: "open", 10000: "closed"}.get(lift, f"{lift / 100:.0f} % closed"))
        cold = of("TemperatureControl.TemperatureSetpoint")
        if cold is not None:
            words.append(f"set to {cold / 100:g} \N{DEGREE SIGN}C")
    return ", ".join(word for word in words if word) or "as it is"


def sounding(item: PlanItem, device: DeviceState) -> bool:
    """Whether a device is to be heard in this episode."""
    return device.id in item.staging.sounding


def device_to_play(item: PlanItem) -> DeviceState | None:
    """The one device that a loudspeaker stands in for: the target if it is to be heard, else the first that
    is; None when nothing is."""
    heard = sorted(item.staging.sounding, key=lambda name: name != item.target_device)
    return next((device for device in item.home.devices if heard and device.id == heard[0]), None)


def item_in_words(plan: Plan, item: PlanItem) -> dict[str, Any]:
    """All that an operator is shown of an item, as plain values: who, where, what to say and do, devices, and
    the room's plan in metres for drawing."""
    room = room_of(plan, item)
    here = [device for device in item.home.devices if device.room == room.id]
    places = {device.id: device.position_m for device in room.devices}
    return {
        "id": item.id,
        "grounding": item.grounding,
        "query": item.query,
        "feasibility": item.feasibility,
        "difficulty": item.difficulty,
        "request": item.request,
        "speaker": item.speaker,
        "speaker_name": name_of(plan, item.speaker),
        "target": None if item.target_device is None else device_name(item, item.target_device),
        "do": list(item.do),
        "note": item.note,
        "people": [
            {
                "id": placed.person,
                "name": name_of(plan, placed.person),
                "speaks": placed.speaks,
                "where": place_in_words(placed, room),
                "facing": facing_in_words(placed, room),
                "points_at": None if placed.pointing_at is None else device_name(item, placed.pointing_at),
                "mouth_m": list(placed.mouth_m),
                "facing_deg": placed.facing_deg,
            }
            for placed in item.staging.people
        ],
        "devices": [
            {
                "id": device.id,
                "name": device.name,
                "state": state_in_words(device.attributes),
                "sounds": sounding(item, device),
                "target": device.id == item.target_device,
                "position_m": list(at) if (at := device.position_m or places.get(device.id)) else None,
            }
            for device in here
        ],
        "room": {
            "id": room.id,
            "name": in_words(room.id),
            "size_m": list(room.size_m),
            "microphone_m": list(room.microphone_m),
            "microphone_yaw_deg": room.microphone_yaw_deg,
        },
    }
