"""Rules of the home and of the scene in it: names exist, people are there, the cue is that of the target."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import TYPE_CHECKING

from recordings.problem import Problem
from recordings.profile import HomeState, Placed, Profile, Staging

if TYPE_CHECKING:
    from recordings.plan.model import PlanItem


def twice(names: Iterable[str]) -> list[str]:
    """The names that stand there more than once."""
    return [name for name, count in Counter(names).items() if count > 1]


def no_room(text: str, home: HomeState) -> Problem:
    """The problem that a room is not in the home."""
    return Problem("no_such_room", f"{text}, which is none of home.rooms ({', '.join(home.rooms)})")


def is_path(path: str) -> bool:
    """`<endpoint>.<Cluster>.<Attribute>`."""
    endpoint, _, rest = path.partition(".")
    cluster, _, attribute = rest.partition(".")
    return endpoint.isdecimal() and bool(cluster and attribute) and "." not in attribute


def no_path(text: str) -> Problem:
    """The problem that an attribute's path has another form."""
    return Problem("attribute_path", f"{text}, which is no <endpoint>.<Cluster>.<Attribute>")


def home_problems(home: HomeState) -> Iterator[Problem]:
    """What is wrong with the home by itself: names twice or unknown, impossible air, a wrong clock."""
    for what, names in (
        ("devices", [d.id for d in home.devices]),
        ("rooms", home.rooms),
        ("people", home.people),
        ("household", [m.id for m in home.household]),
    ):
        for name in twice(names):
            yield Problem("twice", f"home.{what} has {name!r} twice")
    rooms = set(home.rooms)
    devices = {d.id for d in home.devices}
    if rooms:
        for device in home.devices:
            if device.room not in rooms:
                yield no_room(f"home.devices: {device.id} is in {device.room!r}", home)
        for member in home.household:
            if member.room is not None and member.room not in rooms:
                yield no_room(f"home.household: the room of {member.id} is {member.room!r}", home)
        for room in home.room_states:
            if room not in rooms:
                yield no_room(f"home.room_states has {room!r}", home)
    for member in home.household:
        for name in member.devices:
            if name not in devices:
                yield Problem(
                    "no_such_device", f"home.household: {name!r} of {member.id} is not in home.devices"
                )
    for device in home.devices:
        for path in device.attributes:
            if not is_path(path):
                yield no_path(f"home.devices: {device.id} has {path!r}")
    for name, state in home.room_states.items():
        for field, least, most in (
            ("temperature_c", -90.0, 150.0),
            ("humidity_percent", 0.0, 100.0),
            ("illuminance_lux", 0.0, math.inf),
            ("pm10_ug_m3", 0.0, math.inf),
        ):
            value = getattr(state, field)
            if value is not None and not least <= value <= most:
                yield Problem(
                    "room_value", f"home.room_states.{name}.{field} is {value}: no such air or light"
                )
    if home.clock is not None:
        try:
            datetime.strptime(home.clock, "%Y-%m-%d %H:%M:%S")
        except ValueError:
            yield Problem("clock", f"home.clock {home.clock!r} is no time YYYY-MM-DD HH:MM:SS")


def staging_problems(p: Profile | PlanItem, staging: Staging, home: HomeState | None) -> Iterator[Problem]:
    """What is wrong with the scene: who speaks, who is there, whether it holds the grounding's cue."""
    for name in twice(placed.person for placed in staging.people):
        yield Problem("twice", f"staging.people has {name!r} twice")
    speaking = [placed for placed in staging.people if placed.speaks]
    if staging.people and len(speaking) != 1:
        names = ", ".join(placed.person for placed in speaking) or "nobody"
        yield Problem("speaker", f"exactly one of staging.people speaks, not {names}")
    elif speaking and p.speaker is not None and speaking[0].person != p.speaker:
        yield Problem("speaker", f"staging lets {speaking[0].person!r} speak, the speaker is {p.speaker!r}")
    if home is not None:
        yield from _staging_at_home(staging, home)
    speaker = speaking[0] if len(speaking) == 1 else None
    if p.target_device is not None:
        yield from _shown(p, p.target_device, staging, speaker, home)


def _staging_at_home(staging: Staging, home: HomeState) -> Iterator[Problem]:
    devices = {d.id for d in home.devices}
    known = {*home.people, *(member.id for member in home.household)}
    if home.rooms and staging.room not in home.rooms:
        yield no_room(f"staging.room is {staging.room!r}", home)
    for placed in staging.people:
        if known and placed.person not in known:
            yield Problem(
                "no_such_person",
                f"staging.people has {placed.person!r}, who is not in home.people or home.household",
            )
        if devices and placed.pointing_at is not None and placed.pointing_at not in devices:
            yield Problem(
                "no_such_device",
                f"{placed.person} points at {placed.pointing_at!r}, which is not in the home",
            )
    for name in staging.sounding:
        if devices and name not in devices:
            yield Problem("no_such_device", f"staging.sounding has {name!r}, which is not in the home")
    for name in twice(staging.sounding):
        yield Problem("twice", f"staging.sounding has {name!r} twice")


def _shown(
    p: Profile | PlanItem, target: str, staging: Staging, speaker: Placed | None, home: HomeState | None
) -> Iterator[Problem]:
    """The scene must show or sound what the grounding goes by."""
    if p.grounding == "G1" and speaker is not None and speaker.pointing_at != target:
        yield Problem(
            "cue",
            f"grounding G1: {speaker.person} must point at the target {target!r}, not at"
            f" {speaker.pointing_at!r}",
        )
    if p.grounding == "G2" and target not in staging.sounding:
        sounding = ", ".join(staging.sounding) or "nothing"
        yield Problem("cue", f"grounding G2: the target {target!r} must sound, but staging has {sounding}")
    if p.grounding in ("G1", "G3") and home is not None:
        for device in home.devices:
            if device.id == target and device.room != staging.room:
                yield Problem(
                    "cue",
                    f"grounding {p.grounding}: the target {target!r} is in {device.room!r}, the scene in"
                    f" {staging.room!r}",
                )


def identity_problems(p: Profile | PlanItem, home: HomeState) -> Iterator[Problem]:
    """G4: the target must be the speaker's own by the household profile."""
    if p.speaker is None or not home.household:
        return
    member = next((m for m in home.household if m.id == p.speaker), None)
    if member is None:
        yield Problem("cue", f"grounding G4: the speaker {p.speaker!r} is not in home.household")
        return
    target = next((d for d in home.devices if d.id == p.target_device), None)
    if target is not None and target.id not in member.devices and target.room != member.room:
        yield Problem(
            "cue",
            f"grounding G4: {target.id!r} in {target.room!r} is not {member.id}'s (room {member.room!r},"
            f" devices {', '.join(member.devices) or 'none'})",
        )
