"""The home at the start of an item: who is a distractor, what is settled already, what is only there."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

from recordings.plan import device_types as types
from recordings.plan.asks import Ask
from recordings.plan.device_types import APPLIANCES, LIGHTS, Attributes, is_heard, state_where
from recordings.plan.model import Participant, PlanRoom
from recordings.plan.store import as_member
from recordings.profile import DeviceState, Difficulty, HomeState, Placed, RoomState, Value

States = dict[str, Attributes]


def quiet(device_type: str, rng: random.Random) -> Attributes:
    """Some state in which it makes no sound; lamps are on or off, blinds open or closed."""
    if device_type in LIGHTS:
        return state_where(device_type, {types.ON: rng.random() < 0.4})
    if device_type == "window_covering":
        return state_where(device_type, {types.LIFT: rng.choice((0, 0, 10000))})
    return state_where(device_type, {})


def likes_for(
    likes: Sequence[DeviceState], target: DeviceState, ask: Ask, difficulty: Difficulty | None, in_sound: bool
) -> States | None:
    """States of the devices that the words fit as well, so that the difficulty is what it should be.

    easy: the right result would be the same at each of them, so none is a distractor; medium and hard: at one
    of them at least it would differ, and at all where that is possible. in_sound (G2): they are off, or on
    but silent. None: this cannot be had with these devices.
    """
    states: States = {}
    distractors = 0
    for device in likes:
        if device.id == target.id:
            continue
        if in_sound:
            easy = difficulty == "easy"
            states[device.id] = state_where(device.type, {types.ON: not easy})
            distractors += not easy
        elif ask.fits(device.type):
            settled, differs = ask.settled(device.type), ask.distracting(device.type)
            chosen = settled if difficulty == "easy" else differs or settled
            if chosen is None:
                return None
            states[device.id] = chosen
            distractors += chosen is differs
    if difficulty in ("medium", "hard") and not distractors:
        return None
    return states


def home_state(
    rooms: Sequence[PlanRoom],
    participants: Sequence[Participant],
    people: Sequence[Placed],
    states: Mapping[str, Attributes],
    air: Mapping[str, RoomState],
    clock: str,
) -> HomeState:
    """The whole home; what `states` does not name is at rest. An air conditioner measures its room's air."""
    devices = []
    for room in rooms:
        temperature = air[room.id].temperature_c
        for device in room.devices:
            attributes: dict[str, Value] = dict(states.get(device.id, device.attributes))
            if types.LOCAL in attributes and temperature is not None:
                attributes[types.LOCAL] = round(100 * temperature)
            devices.append(
                DeviceState(
                    id=device.id,
                    type=device.type,
                    name=device.name,
                    room=device.room,
                    position_m=device.position_m,
                    attributes=attributes,
                )
            )
    return HomeState(
        devices=tuple(devices),
        rooms=tuple(room.id for room in rooms),
        people=tuple(placed.person for placed in people),
        household=tuple(map(as_member, participants)),
        room_states=dict(air),
        clock=clock,
    )


def pleasant(rooms: Sequence[PlanRoom], rng: random.Random) -> dict[str, RoomState]:
    """Air and light that nobody complains about."""
    return {
        room.id: RoomState(
            temperature_c=rng.choice((20.5, 21.0, 21.5, 22.0, 22.5)),
            humidity_percent=float(rng.randint(40, 52)),
            illuminance_lux=float(rng.randrange(120, 320, 20)),
            pm10_ug_m3=float(rng.randint(8, 20)),
        )
        for room in rooms
    }


def heard_in(room: PlanRoom, states: Mapping[str, Attributes]) -> tuple[str, ...]:
    """Ids of the devices of a room that are heard."""
    return tuple(d.id for d in room.devices if is_heard(d.type, states.get(d.id, d.attributes)))


def appliances(rooms: Sequence[PlanRoom]) -> list[DeviceState]:
    """Whose end can be waited for."""
    return [device for room in rooms for device in room.devices if device.type in APPLIANCES]
