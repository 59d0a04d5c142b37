"""Small shooting plans for tests of the session, in the built-in virtual home."""

from __future__ import annotations

from pathlib import Path

import msgspec

from recordings.plan.builtin import virtual_home
from recordings.plan.model import Plan, PlanItem
from recordings.plan.store import as_member
from recordings.profile import Assert, Goal, HomeState, Placed, Staging, Value

ON = "1.OnOff.OnOff"
FAN_ON: dict[str, Value] = {
    ON: True,
    "1.FanControl.FanMode": 3,
    "1.FanControl.PercentSetting": 100,
    "1.FanControl.PercentCurrent": 100,
}


def item(
    number: int,
    request: str = "Turn on the floor lamp.",
    *,
    room: str = "living_room",
    grounding: str = "G0",
    target: str = "living_room_on_off_light_1",
    states: dict[str, dict[str, Value]] | None = None,
    sounding: tuple[str, ...] = (),
    pointing_at: str | None = None,
    speaker: int = 0,
) -> PlanItem:
    """One item: the speaker stands 1.6 m in front of the rig and faces it."""
    rooms, people = virtual_home()
    here = next(one for one in rooms if one.id == room)
    x, y, _ = here.microphone_m
    places = {0.0: (x + 1.6, y, 1.55), 90.0: (x, y + 1.6, 1.55), 180.0: (x - 1.6, y, 1.55)}
    yaw = here.microphone_yaw_deg
    person = people[speaker]
    placed = Placed(
        person=person.id,
        mouth_m=places[yaw],
        facing_deg=yaw - 180,
        speaks=True,
        pointing_at=pointing_at,
    )
    devices = [
        msgspec.structs.replace(device, attributes={**device.attributes, **(states or {}).get(device.id, {})})
        for one in rooms
        for device in one.devices
    ]
    home = HomeState(
        devices=tuple(devices),
        rooms=tuple(one.id for one in rooms),
        people=(person.id,),
        household=tuple(map(as_member, people)),
    )
    return PlanItem(
        id=f"ep{number:04d}",
        grounding=grounding,  # type: ignore[arg-type]
        query="Q2",
        feasibility="feasible",
        difficulty="easy",
        request=request,
        speaker=person.id,
        target_device=target,
        goal=Goal(kind="state", asserts=(Assert(device_id=target, attribute=ON, value=not sounding),)),
        home=home,
        staging=Staging(room=room, people=(placed,), sounding=sounding),
        do=(f"{person.name} says the request to the rig",),
    )


def humming(number: int) -> PlanItem:
    """G2: the standing fan of the living room is heard."""
    fan = "living_room_fan_1"
    return item(
        number,
        "Please silence that humming.",
        grounding="G2",
        target=fan,
        states={fan: FAN_ON},
        sounding=(fan,),
    )


def plan_of(*items: PlanItem) -> Plan:
    """A plan of these items in the built-in virtual home."""
    rooms, people = virtual_home()
    return Plan(name="small", seed=1, rooms=rooms, participants=people, items=items)


def people_takes(data: Path) -> dict[str, list[Path]]:
    """Takes in which Anna (two) and Ben (one), alone, say something to the rig; in a data folder."""
    from capture.sources import open_rig
    from capture.take import new_profile, record
    from capture.virtual.staged import staged_request, staged_rig

    said = [(0, "Please call Stella on Wednesday."), (0, "The quick fox is lazy."), (1, "Ask her to come.")]
    items = [item(n + 1, text, speaker=who) for n, (who, text) in enumerate(said)]
    plan = plan_of(*items)
    found: dict[str, list[Path]] = {}
    for one in items:
        rig = staged_rig(one, plan, storage=str(data))
        with open_rig(rig, staged=staged_request(one, plan)) as opened:
            profile = new_profile(rig, opened, "day", id=f"{one.id}-t1", plan_item=one.id, take=1)
            found.setdefault(one.speaker, []).append(Path(record(rig, opened, profile).path))
    return found
