"""Episodes of the SimuHome benchmark (arXiv 2509.24282) as profiles, and profiles as SimuHome JSON.

SimuHome's files are CC BY-NC-ND 4.0: they are read where they are, and what is made of them is not shared
(`consent.sharing` says refused). Its query numbers are not OmniSmartHome's: see QUERIES. Units: temperature
and humidity of a room come in hundredths; times in ticks of 0.1 s, or minutes rounded down.

What a profile has no field for (which tool calls are required, how a goal is described) stays in
`source.simuhome.rest`, so that an imported profile is exported as the file that it came from, value by value.
What SimuHome has no field for (grounding, positions, kinds of infeasibility) is `meta.hearth` of files that
we write of our own episodes.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from decimal import Decimal
from itertools import groupby
from pathlib import Path
from typing import Any

import msgspec

from dsp.errors import InputError
from recordings.goal_rules import ROOM_FIELDS, asked_asserts, room_value
from recordings.json_rest import rest_of, with_rest
from recordings.profile import (
    Assert,
    Consent,
    DeviceState,
    Feasibility,
    Goal,
    HomeState,
    Profile,
    Query,
    RoomChange,
    RoomState,
    RoomValue,
    Staging,
    Step,
    Value,
    When,
)
from recordings.storage import utc_now

QUERIES: dict[str, Query] = {
    "qt1": "Q1",
    "qt2": "Q4",
    "qt3": "Q2",
    "qt4-1": "Q3",
    "qt4-2": "Q3",
    "qt4-3": "Q3",
}
TYPES: dict[Query, str] = {"Q1": "qt1", "Q4": "qt2", "Q2": "qt3", "Q3": "qt4-1"}  # qt4-2 with an anchor
TICKS_PER_MIN = 600
CENTI = ("temperature", "humidity")  # in hundredths
UNITS = {"temperature": "°C", "humidity": "%", "illuminance": "lux", "pm10": "μg/m³"}
OWN = ("grounding", "feasibility", "difficulty", "speaker", "target_device", "goal", "staging")
LICENCE = "SimuHome, CC BY-NC-ND 4.0 (Seo et al., arXiv 2509.24282): what is made of it is not shared"


def profile_of_simuhome(data: Any, name: str) -> Profile:
    """The profile of one SimuHome episode (its JSON, parsed). name: id of the profile, as that of the file.

    Raises InputError that names what is missing or unknown.
    """
    try:
        profile = _profile(data, name)
    except (KeyError, TypeError, AttributeError, ValueError, IndexError, ArithmeticError) as error:
        if isinstance(error, InputError):
            raise InputError(f"{name}: {error}") from None
        problem = f"{type(error).__name__}: {error}"
        raise InputError(f"{name}: not an episode of SimuHome ({problem})") from None
    rest = rest_of(simuhome_of_profile(profile), data)
    source = {**profile.source, "simuhome": {**profile.source["simuhome"], "rest": rest}}
    return msgspec.structs.replace(profile, source=source)


def read_simuhome(path: Path) -> Profile:
    """As `profile_of_simuhome`, from a file; the profile's id is the file's name without its ending."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: not JSON: {error}") from None
    return profile_of_simuhome(data, path.stem)


def _profile(data: Mapping[str, Any], name: str) -> Profile:
    meta = data["meta"]
    if meta["query_type"] not in QUERIES:
        raise InputError(
            f"query_type {meta['query_type']!r} is none of {', '.join(QUERIES)}, so not SimuHome's"
        )
    query = QUERIES[meta["query_type"]]
    feasibility = _feasibility(meta, query)
    home, as_json = _home(data["initial_home_config"])
    goals = data["eval"]["goals"]
    conflict = data.get("temporal_conflict") or {}
    order: list[str] = []
    if query == "Q1":
        goal, order = _answer(goals, home)
    elif query == "Q4":
        changes = [
            RoomChange(room=g["room_id"], variable=g["room_state"], direction=g["direction"]) for g in goals
        ]
        goal = Goal(kind="state", changes=tuple(changes))
    elif query == "Q2":
        goal = Goal(kind="state", asserts=tuple(a for g in goals for a in _asserts(g)))
    else:
        goal = Goal(kind="state", steps=tuple(_steps(goals, home, conflict)))
    if feasibility != "feasible":
        goal = msgspec.structs.replace(
            goal, kind="refusal", reason=_reason(feasibility, goals, home, conflict)
        )
    target = None
    if feasibility != "nonexistent_resource":
        asked = asked_asserts(goal)
        target = asked[0].device_id if asked else None
    notes = {"json_attributes": as_json, "goal_order": order, "hearth": "hearth" in meta}
    plain = {
        "id": name,
        "session": "simuhome",
        "created_utc": utc_now(),
        "origin": "imported",
        "grounding": "G0",
        "query": query,
        "feasibility": feasibility,
        "request": data["query"],
        "target_device": target,
        "goal": goal,
        "home": home,
        "staging": Staging(room=data["user_location"]),
        "consent": Consent(recording="not_needed", sharing="refused", note=LICENCE),
        "source": {
            "format": "simuhome",
            "simuhome": {"query_type": meta["query_type"], **{k: v for k, v in notes.items() if v}},
        },
    }
    made: dict[str, Any] = msgspec.to_builtins(plain)
    if "hearth" in meta:
        _add_own(made, meta["hearth"])
    return msgspec.convert(made, Profile)


def _own(profile: Profile) -> dict[str, Any]:
    """What a profile says that SimuHome has no place for: `meta.hearth` of the files that we write."""
    home = profile.home
    assert home is not None
    devices = {d.id: {"name": d.name, "position_m": d.position_m} for d in home.devices}
    people = {"people": home.people, "household": home.household, "devices": devices}
    own: dict[str, Any] = msgspec.to_builtins({key: getattr(profile, key) for key in OWN} | {"home": people})
    return own


def _add_own(made: dict[str, Any], own: dict[str, Any]) -> None:
    """Put what `_own` kept into the plain data of a profile."""
    made |= {key: own[key] for key in OWN}
    made["home"] |= {key: own["home"][key] for key in ("people", "household")}
    for device in made["home"]["devices"]:
        device |= own["home"]["devices"].get(device["id"], {})


def _feasibility(meta: Mapping[str, Any], query: Query) -> Feasibility:
    if meta["case"] == "feasible":
        return "feasible"
    if meta["case"] != "infeasible":
        raise InputError(f"meta.case is feasible or infeasible, not {meta['case']!r}")
    if query == "Q3":
        return "temporal_contradiction"
    saturated = meta.get("infeasible_family") == "contextual_saturation"
    return "physical_limit" if saturated else "nonexistent_resource"


def _hundredth(value: float) -> float:
    """value / 100 or a float beside it, such that `_hundredfold` gives exactly `value` again."""
    near = float(Decimal(repr(value)) / 100)
    tries = [near, math.nextafter(near, math.inf), math.nextafter(near, -math.inf)]
    return next((one for one in tries if _hundredfold(one) == value), near)


def _hundredfold(value: float) -> float:
    return float(Decimal(repr(value)) * 100)


def _home(config: Mapping[str, Any]) -> tuple[HomeState, list[list[str]]]:
    """The home, and which attributes are lists or objects: a profile holds those as JSON text."""
    devices: list[DeviceState] = []
    states: dict[str, RoomState] = {}
    as_json: list[list[str]] = []
    for room, content in config["rooms"].items():
        fields = {}
        for variable, value in content["state"].items():
            if variable in ROOM_FIELDS:
                fields[ROOM_FIELDS[variable]] = _hundredth(value) if variable in CENTI else float(value)
        states[room] = RoomState(**fields)
        for device in content["devices"]:
            attributes: dict[str, Value] = {}
            for path, value in device["attributes"].items():
                if isinstance(value, list | dict):
                    as_json.append([device["device_id"], path])
                    value = json.dumps(value, ensure_ascii=False)
                attributes[path] = value
            number = device["device_id"].removeprefix(f"{room}_").replace("_", " ")
            devices.append(
                DeviceState(
                    id=device["device_id"],
                    type=device["device_type"],
                    name=number,
                    room=room,
                    attributes=attributes,
                )
            )
    home = HomeState(
        devices=tuple(devices), rooms=tuple(config["rooms"]), room_states=states, clock=config["base_time"]
    )
    return home, as_json


def _asserts(target: Mapping[str, Any]) -> Iterator[Assert]:
    for one in target["asserts"]:
        yield Assert(device_id=target["device_id"], attribute=one["attribute"], value=one["value"])


def _answer(goals: list[Any], home: HomeState) -> tuple[Goal, list[str]]:
    asserts, values, order = [], [], []
    devices = {d.id: d for d in home.devices}
    for goal in goals:
        order.append(goal["variant"])
        if goal["variant"] == "room_state":
            told = float(goal["current_value"])
            values.append(RoomValue(room=goal["room_id"], variable=goal["room_state"], value=told))
        elif goal["variant"] == "device_attribute":
            device = devices.get(goal["device_id"])
            value = None if device is None else device.attributes.get(goal["attribute"])
            asserts.append(Assert(device_id=goal["device_id"], attribute=goal["attribute"], value=value))
        else:
            raise InputError(f"a goal's variant is room_state or device_attribute, not {goal['variant']!r}")
    return Goal(kind="answer", asserts=tuple(asserts), room_values=tuple(values)), order


def _end_of(home: HomeState, device_id: str) -> int | None:
    """The tick at which a running appliance is done: its CountdownTime in seconds."""
    for device in home.devices:
        if device.id == device_id:
            left = device.attributes.get("1.OperationalState.CountdownTime")
            return round(left * TICKS_PER_MIN / 60) if isinstance(left, int | float) else None
    return None


def _steps(goals: list[Any], home: HomeState, conflict: Mapping[str, Any]) -> Iterator[Step]:
    wrong = _conflicting(goals, conflict)
    for number, goal in enumerate(goals):
        when = goal["when"]
        at, anchor = when["at_tick"], goal["anchor"].get("device_id")
        fields: dict[str, Any] = {"tolerance_s": when["tolerance_ticks"] * 60 / TICKS_PER_MIN}
        end = None if anchor is None else _end_of(home, anchor)
        if end is None:
            fields["at_min"] = at / TICKS_PER_MIN
        else:
            fields |= {"anchor_device": anchor, "offset_min": (at - end) / TICKS_PER_MIN}
        if number == wrong:  # the request names two times for it
            if end is None:
                fields["offset_min"] = fields["at_min"]
            fields["at_min"] = float(conflict["conflict_at"])
        asserts = tuple(a for target in goal["targets"] for a in _asserts(target))
        yield Step(when=When(**fields), asserts=asserts)


def _conflicting(goals: list[Any], conflict: Mapping[str, Any]) -> int | None:
    """Which goal the contradicting time of an infeasible schedule is about."""
    if "conflict_at" not in conflict:
        return None
    for number, goal in enumerate(goals):
        if goal["when"]["at_minutes"] == conflict.get("expected_at"):
            return number
    return 0 if conflict.get("type") == "absolute_time_mismatch" else len(goals) - 1


def _reason(feasibility: Feasibility, goals: list[Any], home: HomeState, conflict: Mapping[str, Any]) -> str:
    if feasibility == "nonexistent_resource":
        there = {d.id for d in home.devices}
        named = [g["device_id"] for g in goals if "device_id" in g]
        missing = [name for name in dict.fromkeys(named) if name not in there]
        return f"the home has no {' and no '.join(missing) or 'device that could do it'}"
    if feasibility == "physical_limit":
        rooms = ", ".join(f"{g['room_state']} of {g['room_id']}" for g in goals)
        return f"no device can move it any further: {rooms}"
    times = ", ".join(
        f"{key.replace('_', ' ')} {value}" for key, value in conflict.items() if key.endswith("_time")
    )
    return f"the times contradict each other: {times}" if times else "the times contradict each other"


def simuhome_of_profile(profile: Profile) -> dict[str, Any]:
    """The SimuHome JSON of a profile; of one that was imported, the file that it came from.

    Raises InputError for what SimuHome cannot say: no query, goal or home, an anchor whose end is not known.
    """
    for key in ("query", "feasibility", "goal", "home"):
        if getattr(profile, key) is None:
            raise InputError(f"{profile.id}: SimuHome needs {key}, which the profile does not have")
    assert profile.query and profile.goal and profile.home
    known = profile.source.get("simuhome") or {}
    if not isinstance(known, dict):
        raise InputError(f"{profile.id}: source.simuhome is no object")
    home, goal = profile.home, profile.goal
    if profile.query == "Q4" and asked_asserts(goal):
        raise InputError(
            f"{profile.id}: SimuHome's implicit intent (qt2) is about the air or light of rooms, this goal"
            f" about {asked_asserts(goal)[0].device_id}"
        )
    anchored = any(step.when.anchor_device for step in goal.steps)
    query_type = known.get("query_type") or ("qt4-2" if anchored else TYPES[profile.query])
    feasible = profile.feasibility == "feasible"
    made: dict[str, Any] = {
        "meta": {
            "query_type": query_type,
            "case": "feasible" if feasible else "infeasible",
            "num_rooms": len(home.rooms),
            "num_devices": len(home.devices),
        },
        "query": profile.request,
        "user_location": None if profile.staging is None else profile.staging.room,
        "eval": {"required_actions": [], "goals": list(_goals(profile, goal, home, known))},
        "initial_home_config": _config(home, known),
    }
    if not known or known.get("hearth"):
        made["meta"]["hearth"] = _own(profile)
    return dict(with_rest(made, known.get("rest", []), f"{profile.id}: source.simuhome.rest"))


def _about(home: HomeState, device_id: str) -> dict[str, Any]:
    for device in home.devices:
        if device.id == device_id:
            return {"room_id": device.room, "device_id": device.id, "device_type": device.type}
    # Of what is not there only the id says where it would be: <room>_<type>_<number>.
    room = next((r for r in home.rooms if device_id.startswith(f"{r}_")), None)
    kind = device_id.removeprefix(f"{room}_").rpartition("_")[0] or None
    return {"room_id": room, "device_id": device_id, "device_type": kind}


def _goals(
    profile: Profile, goal: Goal, home: HomeState, known: Mapping[str, Any]
) -> Iterator[dict[str, Any]]:
    if profile.query == "Q1":
        asserts, values = iter(goal.asserts), iter(goal.room_values)
        default = ["device_attribute"] * len(goal.asserts) + ["room_state"] * len(goal.room_values)
        order = known.get("goal_order", default)
        if sorted(order) != sorted(default):
            order = default
        for variant in order:
            if variant == "room_state":
                told = next(values)
                yield {
                    "variant": variant,
                    "room_id": told.room,
                    "room_state": told.variable,
                    "current_value": told.value,
                    "unit": UNITS[told.variable],
                }
            else:
                one = next(asserts)
                yield {"variant": variant, **_about(home, one.device_id), "attribute": one.attribute}
    elif profile.query == "Q4":
        for change in goal.changes:
            made = {"room_id": change.room, "room_state": change.variable, "direction": change.direction}
            yield {**made, "feasibility": True} if profile.feasibility == "feasible" else made
    elif profile.query == "Q2":
        yield from _targets(goal.asserts, home)
    else:
        for step in goal.steps:
            yield _scheduled(profile, step, home)


def _targets(asserts: tuple[Assert, ...], home: HomeState) -> Iterator[dict[str, Any]]:
    for device_id, group in groupby(asserts, key=lambda a: a.device_id):
        named = [{"attribute": a.attribute, "value": a.value} for a in group]
        yield {**_about(home, device_id), "asserts": named}


def _scheduled(profile: Profile, step: Step, home: HomeState) -> dict[str, Any]:
    when, reference = step.when, 0
    if when.anchor_device is not None:
        end = _end_of(home, when.anchor_device)
        if end is None:
            raise InputError(
                f"{profile.id}: SimuHome needs the tick at which {when.anchor_device!r} is done; give its"
                " 1.OperationalState.CountdownTime (s) in home.devices"
            )
        reference, offset = end, round(when.offset_min * TICKS_PER_MIN)
    elif (
        profile.feasibility != "feasible" and when.offset_min
    ):  # of its two times the one that is told relatively
        offset = round(when.offset_min * TICKS_PER_MIN)
    else:
        offset = round((when.at_min or 0.0) * TICKS_PER_MIN)
    ticks = {"reference": reference, "offset": abs(offset), "at": reference + offset}
    return {
        "when": {
            **{f"{name}_tick{'s' if name == 'offset' else ''}": value for name, value in ticks.items()},
            **{f"{name}_minutes": math.floor(value / TICKS_PER_MIN) for name, value in ticks.items()},
            "relation": "before" if offset < 0 else "after",
            "tolerance_ticks": round(when.tolerance_s * TICKS_PER_MIN / 60),
        },
        "anchor": {} if when.anchor_device is None else _about(home, when.anchor_device),
        "targets": list(_targets(step.asserts, home)),
    }


def _config(home: HomeState, known: Mapping[str, Any]) -> dict[str, Any]:
    as_json = {tuple(pair) for pair in known.get("json_attributes", [])}
    rooms = list(home.rooms) or list(dict.fromkeys(d.room for d in home.devices))
    made: dict[str, Any] = {}
    for room in rooms:
        state = home.room_states.get(room, RoomState())
        values = {variable: room_value(state, variable) for variable in ROOM_FIELDS}
        made[room] = {
            "state": {
                variable: _hundredfold(value) if variable in CENTI else value
                for variable, value in values.items()
                if value is not None
            },
            "devices": [
                {
                    "device_id": device.id,
                    "device_type": device.type,
                    "attributes": {
                        path: json.loads(str(value)) if (device.id, path) in as_json else value
                        for path, value in device.attributes.items()
                    },
                }
                for device in home.devices
                if device.room == room
            ],
        }
    return {"tick_interval": 60 / TICKS_PER_MIN, "base_time": home.clock, "rooms": made}
