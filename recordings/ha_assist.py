"""The assist sets of home-assistant-datasets (Apache-2.0) as profiles, and profiles as such a set.

A set is a folder per home: `_fixtures.yaml` (areas, devices, entities with their first state) and files of
tests (sentences, setup, expect_changes, ignore_changes). Each sentence of each test is one profile: grounding
G0, query Q2, feasible. An entity is a device whose id is the entity's; what Home Assistant calls state,
brightness, percentage or position are Matter attributes here (`_to_matter`), the rest is
`0.HomeAssistant.<name>`.

The goal has what the request changes: the expected state, and expected attributes that have a Matter
counterpart and differ from before. A position is that of the target, so it counts although the set leaves it
out as late (ignore_changes). The fixtures and what a profile has no field for travel in `source.ha_assist`;
with them the profiles of a set are exported as the set that they came from.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import yaml

from dsp.errors import InputError
from recordings.json_rest import rest_of, with_rest
from recordings.profile import Assert, Consent, DeviceState, Goal, HomeState, Profile, Value
from recordings.storage import utc_now, write_new

FIXTURES = "_fixtures.yaml"
LICENCE = "home-assistant-datasets, Apache-2.0"
LOCKED, UNLOCKED = 1, 2  # DoorLock.LockState
_STATES: dict[str, tuple[str, dict[Any, Value]]] = {  # domain -> attribute of its state, and its values
    "light": ("1.OnOff.OnOff", {"on": True, "off": False, True: True, False: False}),
    "switch": ("1.OnOff.OnOff", {"on": True, "off": False, True: True, False: False}),
    "fan": ("1.OnOff.OnOff", {"on": True, "off": False, True: True, False: False}),
    "cover": ("1.WindowCovering.TargetPositionLiftPercent100ths", {"open": 0, "closed": 10000}),
    "lock": ("1.DoorLock.LockState", {"locked": LOCKED, "unlocked": UNLOCKED}),
}
_BACK: dict[str, dict[Value, str]] = {
    "1.OnOff.OnOff": {True: "on", False: "off"},
    "1.WindowCovering.TargetPositionLiftPercent100ths": {0: "open", 10000: "closed"},
    "1.DoorLock.LockState": {LOCKED: "locked", UNLOCKED: "unlocked"},
}
_TYPES = {"fan": "fan", "lock": "door_lock", "cover": "window_covering", "switch": "on_off_plug"}
_DOMAINS = {  # device type -> domain, for profiles that came from elsewhere
    "on_off_light": "light",
    "dimmable_light": "light",
    "fan": "fan",
    "window_covering": "cover",
    "window_covering_controller": "cover",
    "door_lock": "lock",
    "on_off_plug": "switch",
}


def read_assist_set(folder: Path) -> list[Profile]:
    """All profiles of a home's folder, or of a folder of homes, in the order of files, tests and sentences.

    Raises InputError that names the file and what is wrong in it.
    """
    homes = (
        [folder] if (folder / FIXTURES).is_file() else sorted(p.parent for p in folder.glob(f"*/{FIXTURES}"))
    )
    if not homes:
        raise InputError(
            f"{folder}: holds no {FIXTURES}, so it is no assist set; give a home's folder or theirs"
        )
    return [profile for home in homes for profile in _read_home(home)]


def _load(path: Path) -> Any:
    try:
        return yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(f"{path}: not valid YAML: {error}") from None


def _read_home(folder: Path) -> Iterator[Profile]:
    fixtures = _load(folder / FIXTURES)
    for path in sorted(folder.glob("*.yaml")):
        if path.name == FIXTURES:
            continue
        content = _load(path)
        try:
            yield from _profiles(fixtures, content, folder.name, path.stem)
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            if isinstance(error, InputError):
                raise
            problem = f"{type(error).__name__}: {error}"
            raise InputError(f"{path}: not tests of an assist set ({problem})") from None


def _profiles(fixtures: Any, content: Any, home_name: str, file_name: str) -> Iterator[Profile]:
    head = {key: value for key, value in content.items() if key != "tests"}
    for number, test in enumerate(content["tests"]):
        home = _home(fixtures, test.get("setup") or {})
        goal = _goal(home, test["expect_changes"])
        for which, sentence in enumerate(test["sentences"]):
            place = {"home": home_name, "file": file_name, "test": number, "sentence": which}
            profile = Profile(
                id=re.sub(r"[^A-Za-z0-9._-]", "-", f"{home_name}.{file_name}.{number}.{which}"),
                session="ha-assist",
                created_utc=utc_now(),
                origin="imported",
                grounding="G0",
                query="Q2",
                feasibility="feasible",
                request=str(sentence),
                target_device=goal.asserts[0].device_id if goal.asserts else None,
                goal=goal,
                home=home,
                consent=Consent(recording="not_needed", sharing="not_needed", note=LICENCE),
                source={"format": "ha-assist", "ha_assist": {**place, "head": head, "fixtures": fixtures}},
            )
            rest = rest_of(_test(profile), {key: v for key, v in test.items() if key != "sentences"})
            known = {**profile.source["ha_assist"], "rest": rest}
            source = {**profile.source, "ha_assist": known}
            yield msgspec.convert(
                msgspec.to_builtins(msgspec.structs.replace(profile, source=source)), Profile
            )


def _to_matter(domain: str, name: str, value: Any) -> tuple[str, Value]:
    """Attribute path and value of a state ("state") or an attribute of an entity."""
    if name == "state" and domain in _STATES:
        path, values = _STATES[domain]
        if isinstance(value, str | bool) and value in values:
            return path, values[value]
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if domain == "light" and name == "brightness" and number and 1 <= value <= 255:
        return "1.LevelControl.CurrentLevel", min(round(value), 254)  # 255 of 255 is 254 of 254
    if domain == "fan" and name == "percentage" and number:  # 0 while it is off, whatever it is set to
        return "1.FanControl.PercentCurrent", value
    if domain == "cover" and name == "current_position" and number:  # 100 is open there, 0 here
        return "1.WindowCovering.TargetPositionLiftPercent100ths", 100 * (100 - round(value))
    simple = value is None or isinstance(value, bool | int | float | str)
    return f"0.HomeAssistant.{name}", value if simple else json.dumps(value)


def _state(domain: str, entity: Mapping[str, Any], before: Mapping[str, Value]) -> dict[str, Value]:
    """The attributes of an entity's first state or setup, over those from before."""
    found = dict(before)
    given = {"state": entity["state"]} if "state" in entity else {}
    for name, value in {**given, **(entity.get("attributes") or {})}.items():
        for old in {_to_matter(domain, name, value)[0], f"0.HomeAssistant.{name}"}:
            found.pop(old, None)
        path, converted = _to_matter(domain, name, value)
        found[path] = converted
    return found


def _home(fixtures: Any, setup: Mapping[str, Any]) -> HomeState:
    devices = []
    names = {entity["id"] for entity in fixtures["entities"]}
    unknown = sorted(set(setup) - names)
    if unknown:
        raise InputError(f"setup names {unknown[0]!r}, which is none of the entities")
    for entity in fixtures["entities"]:
        domain = entity["id"].partition(".")[0]
        attributes = _state(domain, entity, {})
        if entity["id"] in setup:
            attributes = _state(domain, setup[entity["id"]], attributes)
        modes = (entity.get("attributes") or {}).get("supported_color_modes") or []
        light = "dimmable_light" if "brightness" in modes else "on_off_light"
        devices.append(
            DeviceState(
                id=entity["id"],
                type=light if domain == "light" else _TYPES.get(domain, domain),
                name=entity["name"],
                room=entity["area"],
                attributes=attributes,
            )
        )
    return HomeState(devices=tuple(devices), rooms=tuple(area["id"] for area in fixtures["areas"]))


def _goal(home: HomeState, expected: Mapping[str, Any]) -> Goal:
    devices = {device.id: device for device in home.devices}
    asserts = []
    for entity, change in expected.items():
        if entity not in devices:
            raise InputError(f"expect_changes names {entity!r}, which is none of the entities")
        domain, before = entity.partition(".")[0], devices[entity].attributes
        wanted = dict([_to_matter(domain, "state", change["state"])]) if "state" in change else {}
        for name, value in (change.get("attributes") or {}).items():
            path, converted = _to_matter(domain, name, value)
            if not path.startswith("0.HomeAssistant.") and (path in wanted or before.get(path) != converted):
                wanted[path] = converted
        asserts += [Assert(device_id=entity, attribute=path, value=value) for path, value in wanted.items()]
    return Goal(kind="state", asserts=tuple(asserts))


def _said(path: str, value: Value) -> tuple[str, Any]:
    """Name and value in Home Assistant of an attribute: the way back of `_to_matter`."""
    if path.startswith("0.HomeAssistant."):
        return path.removeprefix("0.HomeAssistant."), value
    if value in _BACK.get(path, {}):
        return "state", _BACK[path][value]
    if path == "1.LevelControl.CurrentLevel":
        return "brightness", value
    if path == "1.FanControl.PercentCurrent":
        return "percentage", value
    if path == "1.WindowCovering.TargetPositionLiftPercent100ths" and isinstance(value, int):
        return "current_position", 100 - value // 100
    raise InputError(f"an assist set cannot say {path} = {value!r}")


def _changes(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for name, value in pairs:
        if name == "state":
            made["state"] = value
        else:
            made.setdefault("attributes", {})[name] = value
    return made


def _test(profile: Profile) -> dict[str, Any]:
    """What a profile says of its test: setup of what the goal is about, and the expected changes."""
    assert profile.goal is not None and profile.home is not None
    setup, expected = {}, {}
    for name in dict.fromkeys(a.device_id for a in profile.goal.asserts):
        device = next(d for d in profile.home.devices if d.id == name)
        wanted = [a for a in profile.goal.asserts if a.device_id == name]
        paths = {a.attribute for a in wanted} & set(device.attributes)
        entity = _entity_id(device)
        setup[entity] = _changes(
            _said(path, device.attributes[path]) for path in device.attributes if path in paths
        )
        expected[entity] = _changes(_said(a.attribute, a.value) for a in wanted)
    return {"setup": setup, "expect_changes": expected}


def _entity_id(device: DeviceState) -> str:
    if "." in device.id:
        return device.id
    if device.type not in _DOMAINS:
        raise InputError(
            f"an assist set has no kind of entity for {device.id!r} of type {device.type!r};"
            f" it has {', '.join(_DOMAINS)}"
        )
    return f"{_DOMAINS[device.type]}.{re.sub(r'[^a-z0-9_]', '_', device.id.lower())}"


def assist_set_of_profiles(profiles: Iterable[Profile]) -> dict[str, dict[str, Any]]:
    """home -> {"_fixtures": ..., file: ...} as written to YAML.

    Profiles of one test (same home, file and number) are its sentences. One that was not imported becomes a
    home of its own, named by its id. Raises InputError for what an assist set cannot say.
    """
    made: dict[str, dict[str, Any]] = {}
    tests: dict[tuple[str, str], dict[int, dict[int, Profile]]] = {}
    for profile in profiles:
        if profile.feasibility != "feasible" or profile.goal is None or profile.home is None:
            raise InputError(f"{profile.id}: an assist set holds feasible requests with home and goal only")
        if profile.goal.kind != "state" or profile.goal.steps or profile.goal.changes:
            raise InputError(
                f"{profile.id}: an assist set holds states at the end only (Q2), not {profile.query}"
            )
        known = profile.source.get("ha_assist")
        if not isinstance(known, dict):
            known = {"home": profile.id, "file": "requests", "test": 0, "sentence": 0}
            made[profile.id] = {"_fixtures": _fixtures(profile)}
        else:
            made.setdefault(known["home"], {})["_fixtures"] = known["fixtures"]
        place = tests.setdefault((known["home"], known["file"]), {})
        same = place.setdefault(known["test"], {})
        if known["sentence"] in same:
            raise InputError(f"{profile.id}: the same test and sentence as {same[known['sentence']].id}")
        if any((p.goal, p.home) != (profile.goal, profile.home) for p in same.values()):
            raise InputError(f"{profile.id}: another goal or home than other sentences of its test")
        same[known["sentence"]] = profile
    for (home, file), numbered in tests.items():
        content: dict[str, Any] = {"category": "hearth"}
        content["tests"] = []
        for _, sentences in sorted(numbered.items()):
            first = sentences[min(sentences)]
            known = first.source.get("ha_assist") or {}
            content = {**known.get("head", content), "tests": content["tests"]}
            test = with_rest(_test(first), known.get("rest", []), f"{first.id}: source.ha_assist.rest")
            content["tests"].append({"sentences": [p.request for _, p in sorted(sentences.items())], **test})
        made[home][file] = content
    return made


def _fixtures(profile: Profile) -> dict[str, Any]:
    """The fixtures of a home that was not imported: the devices that an assist set has entities for."""
    assert profile.home is not None
    devices = [d for d in profile.home.devices if d.type in _DOMAINS or "." in d.id]
    entities = []
    for device in devices:
        said = []
        for path, value in device.attributes.items():
            try:
                said.append(_said(path, value))
            except InputError:  # what Home Assistant has no name for is no part of the request
                continue
        modes = {"supported_color_modes": ["brightness" if device.type == "dimmable_light" else "onoff"]}
        changes = _changes(said)
        if device.type in ("on_off_light", "dimmable_light"):
            changes["attributes"] = {**modes, **changes.get("attributes", {})}
        entities.append(
            {
                "name": device.name,
                "id": _entity_id(device),
                "area": device.room,
                "device": device.id,
                **changes,
            }
        )
    rooms = profile.home.rooms or tuple(dict.fromkeys(d.room for d in devices))
    return {
        "areas": [{"name": room.replace("_", " ").title(), "id": room} for room in rooms],
        "devices": [{"name": d.name, "id": d.id, "area": d.room} for d in devices],
        "entities": entities,
    }


def write_assist_set(profiles: Iterable[Profile], folder: Path) -> list[Path]:
    """Write `assist_set_of_profiles` below `folder` (made when absent); the files. Nothing is overwritten.

    Raises InputError, StorageError.
    """
    made = assist_set_of_profiles(profiles)
    files = {
        folder / home / f"{name}.yaml": content
        for home, contents in made.items()
        for name, content in contents.items()
    }
    look: dict[str, Any] = {"sort_keys": False, "allow_unicode": True, "width": 110, "explicit_start": True}
    return write_new({path: yaml.safe_dump(content, **look).encode() for path, content in files.items()})
