"""Devices, microphone and camera of room.json in the form of rig.yaml: lines to paste, or the file edited.

The file is edited as text, so that comments and order stay: YAML's own parser says where each value stands,
and only those places are changed. What comes out is read again, strictly, and compared with what was wanted;
where that differs nothing is written and the lines are to be pasted by hand.
"""

from __future__ import annotations

import re
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, get_args, get_type_hints

import msgspec
import numpy as np
import yaml

from calibration.pose_model import Floats
from calibration.room_frame_pose import angles_of
from capture.rig import Device, Rig, parse_rig
from dsp.errors import CheckFailed, InputError
from recordings.storage import storage_errors, write_atomic

TYPES: tuple[str, ...] = get_args(get_type_hints(Device)["type"])


def device_id(name: str) -> str:
    """An id as rig.yaml wants it: lower-case letters, digits and underscores, beginning with a letter."""
    plain = re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")
    if not plain:
        raise InputError(f"{name!r} makes no id; name the device with letters")
    return plain if plain[0].isalpha() else f"device_{plain}"


def find_device(rig: Rig, wanted: str) -> Device:
    """The device of a rig with this id or name. Raises InputError, which lists them."""
    for device in rig.room.devices:
        if wanted == device.id or wanted.strip().lower() == device.name.lower():
            return device
    known = ", ".join(f"{d.id} ({d.name})" for d in rig.room.devices) or "none"
    raise InputError(f"the rig has no device {wanted!r}; it has {known}. Without --rig any name will do")


def rig_values(
    devices: Mapping[str, Mapping[str, Any]],
    microphone: tuple[Floats, Floats] | None,
    T_mic_camera: Floats | None,
) -> dict[str, Any]:
    """What rig.yaml is to say: `devices` by id, `microphone` and `camera` as keys and values."""
    values: dict[str, Any] = {"devices": {}, "microphone": {}, "camera": {}}
    for key, entry in devices.items():
        found = {"id": key, "type": entry.get("type"), "name": entry["name"]}
        if entry.get("room"):
            found["room"] = entry["room"]
        values["devices"][key] = {**found, "position_m": [float(v) for v in entry["position_m"]]}
    if microphone is not None:
        rotation, place = microphone
        values["microphone"] = {
            "position_m": [round(float(v), 4) for v in place],
            "yaw_deg": round(angles_of(rotation)[0], 2),
        }
    if T_mic_camera is not None:
        yaw, pitch, _ = angles_of(T_mic_camera[:3, :3], camera=True)
        values["camera"] = {
            "position_m": [round(float(v), 4) for v in T_mic_camera[:3, 3]],
            "yaw_deg": round(yaw, 2),
            "pitch_deg": round(pitch, 2),
        }
    return values


def lost_in_rig(microphone: tuple[Floats, Floats] | None, T_mic_camera: Floats | None) -> list[str]:
    """What rig.yaml has no key for: it takes the microphone as upright and the camera as not rolled."""
    told = []
    if microphone is not None:
        _, pitch, roll = angles_of(microphone[0])
        if max(abs(pitch), abs(roll)) > 2.0:
            told.append(
                f"the microphone is tilted (pitch {pitch:.1f}, roll {roll:.1f} degrees); rig.yaml takes it as"
                " upright, so directions are off by that: set it level, or use room.json and pose.json"
            )
    if T_mic_camera is not None:
        roll = angles_of(T_mic_camera[:3, :3], camera=True)[2]
        if abs(roll) > 2.0:
            told.append(
                f"the camera is rolled by {roll:.1f} degrees against the microphone; rig.yaml has no key for"
                " that: let `calibration: {pose: ...}` point to the pose"
            )
    return told


def _flow(value: Any) -> str:
    """A value in YAML's flow form, on one line."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{k}: {_flow(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(_flow(v) for v in value) + "]"
    if isinstance(value, float):
        return repr(value)
    text = str(yaml.safe_dump(value, default_flow_style=True, width=10000, allow_unicode=True))
    text = text.removesuffix("\n").removesuffix("\n...").strip()
    return text


def rig_lines(values: Mapping[str, Any]) -> list[str]:
    """Lines of rig.yaml to paste. Raises CheckFailed for a device without a type."""
    lines = []
    for section in ("microphone", "camera"):
        if values[section]:
            lines += [f"{section}:", *(f"  {key}: {_flow(v)}" for key, v in values[section].items())]
    if values["devices"]:
        lines += ["room:", "  devices:"]
        lines += [f"    - {_flow(_typed(entry))}" for entry in values["devices"].values()]
    return lines


def _typed(entry: Mapping[str, Any]) -> dict[str, Any]:
    if entry["type"] is None:
        raise CheckFailed(
            f"{entry['id']} has no type, which rig.yaml needs: `hearth calibrate room device {entry['id']} "
            f"--type TYPE`; types: {', '.join(TYPES)}"
        )
    return dict(entry)


# ------------------------------------------------------------------ editing


def write_rig(path: Path, values: Mapping[str, Any]) -> list[str]:
    """Put the values into a rig file, all or nothing; returns what was changed, in words. Its line ends and
    permissions stay, and of a symbolic link the file it leads to is changed.

    Raises InputError when there is no such rig file or the result would be no valid one, CheckFailed when the
    file cannot be edited without losing something, StorageError when it cannot be written.
    """
    try:
        written = path.read_bytes().decode("utf-8")
        mode = stat.S_IMODE(path.stat().st_mode)
    except FileNotFoundError:
        raise InputError(f"{path}: no such rig file. `hearth init` writes a first one.") from None
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot read the rig file: {error}") from None
    before = parse_rig(written, str(path))
    wanted, said = _wanted(before, values)
    if not said:
        return []
    by_hand = "nothing was written; paste the lines of `hearth calibrate room show --rig-yaml` by hand"
    windows = "\r\n" in written
    text = written.replace("\r\n", "\n")
    if windows and text.replace("\n", "\r\n") != written:
        raise CheckFailed(f"{path} has two kinds of line ends; {by_hand}")
    try:
        edited = edit_rig(text, values)
        after = parse_rig(edited, str(path))
    except (InputError, yaml.YAMLError) as error:
        # Is it the values (a device outside of the room), or the editing?
        _as_rig(wanted, path)
        raise CheckFailed(f"{path} cannot be edited as text ({_why(text) or error}); {by_hand}") from None
    if msgspec.to_builtins(after) != wanted:
        why = _why(text) or "it is written in another form than expected"
        raise CheckFailed(f"{path} cannot be edited as text ({why}); {by_hand}")
    if windows:
        edited = edited.replace("\n", "\r\n")
    with storage_errors(path):
        write_atomic(path.resolve(), edited.encode("utf-8"), mode)
    return said


def _why(text: str) -> str:
    """What of YAML stands in the way of an edit; "" when nothing of that kind is there."""
    for token in yaml.scan(text, yaml.SafeLoader):
        line = token.start_mark.line + 1
        if isinstance(token, yaml.DocumentEndToken | yaml.DocumentStartToken):
            return f"line {line}: it has markers of documents, --- or ..."
        if isinstance(token, yaml.AnchorToken | yaml.AliasToken):
            return f"line {line}: it has anchors, & and *, so that one value stands for several"
    return ""


def _as_rig(plain: dict[str, Any], path: Path) -> None:
    """Raises InputError when these values make no rig."""
    parse_rig(yaml.safe_dump(plain, allow_unicode=True), str(path))


def _wanted(before: Rig, values: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """The rig that is to come out, as plain values, and what differs from before in words."""
    plain: dict[str, Any] = msgspec.to_builtins(before)
    said = []
    for section in ("microphone", "camera"):
        for key, value in values[section].items():
            new = tuple(value) if isinstance(value, list) else value
            old = plain[section][key]
            if (tuple(old) if isinstance(old, list | tuple) else old) != new:
                said.append(f"{section}.{key}: {_flow(value)}")
            plain[section][key] = new if isinstance(old, tuple) else value
    devices = [dict(d) for d in plain["room"]["devices"]]
    for key, entry in values["devices"].items():
        own = next((d for d in devices if d["id"] == key), None)
        place = tuple(entry["position_m"])
        if own is None:
            made = msgspec.convert(_typed(entry), Device)
            devices.append(msgspec.to_builtins(made))
            said.append(f"room.devices: {key} added at {_flow(list(place))}")
        elif tuple(own["position_m"]) != place:
            own["position_m"] = place if isinstance(own["position_m"], tuple) else list(place)
            said.append(f"room.devices ({key}): position_m {_flow(list(place))}")
    kind = type(plain["room"]["devices"])
    plain["room"]["devices"] = kind(devices)
    return plain, said


def edit_rig(text: str, values: Mapping[str, Any]) -> str:
    """The text with the values in it. Raises InputError where the YAML is of a form that is not edited
    here."""
    for section in ("microphone", "camera"):
        for key, value in values[section].items():
            text = _set(text, [section], key, value)
    for key, entry in values["devices"].items():
        text = _set_device(text, key, entry)
    return text


def _root(text: str) -> yaml.MappingNode:
    root = yaml.compose(text, yaml.SafeLoader)
    if not isinstance(root, yaml.MappingNode):
        raise InputError("no mapping at the top")
    return root


def _child(node: yaml.Node, key: str) -> yaml.Node | None:
    if not isinstance(node, yaml.MappingNode):
        raise InputError(f"line {node.start_mark.line + 1}: a section with keys is expected")
    return next((value for name, value in node.value if name.value == key), None)


def _set(text: str, section: Sequence[str], key: str, value: Any) -> str:
    """Set a key of a section, which is made when it is not there."""
    node: yaml.Node | None = _root(text)
    for name in section:
        assert node is not None
        node = _child(node, name)
        if node is None:
            end = "" if text.endswith("\n") else "\n"
            return f"{text}{end}{section[0]}:\n  {key}: {_flow(value)}\n"
    assert node is not None
    return _set_in(text, node, key, value)


def _set_in(text: str, node: yaml.Node, key: str, value: Any) -> str:
    old = _child(node, key)
    assert isinstance(node, yaml.MappingNode)
    if old is not None:
        start, end = old.start_mark.index, _end(old)
        if isinstance(old, yaml.SequenceNode) and not old.flow_style:
            # A block list may begin in the key's own column, where no other value may.
            start = next(name.end_mark.index for name, child in node.value if child is old)
            new = f": {_flow(value)}"
        else:
            new = _flow(value)
        if "#" in text[start:end]:  # these values are numbers: it begins a comment
            raise InputError(f"line {old.start_mark.line + 1}: a comment within `{key}` would be lost")
        return f"{text[:start]}{new}{text[end:]}"
    if node.flow_style or not node.value:
        if not node.value:
            raise InputError(f"line {node.start_mark.line + 1}: an empty section")
        last = _end(node.value[-1][1])
        return f"{text[:last]}, {key}: {_flow(value)}{text[last:]}"
    first = node.value[0][0].start_mark
    at = first.index
    return f"{text[:at]}{key}: {_flow(value)}\n{' ' * first.column}{text[at:]}"


def _end(node: yaml.Node) -> int:
    """Where a node's own text ends; YAML's mark of a block ends at the next one."""
    if isinstance(node, yaml.ScalarNode) or getattr(node, "flow_style", False):
        return int(node.end_mark.index)
    if not node.value:
        return int(node.end_mark.index)
    last = node.value[-1]
    return _end(last[1] if isinstance(last, tuple) else last)


def _set_device(text: str, key: str, entry: Mapping[str, Any]) -> str:
    room = _child(_root(text), "room")
    devices = None if room is None else _child(room, "devices")
    line = f"- {_flow(_typed(entry))}"
    if devices is None:
        if room is None:
            newline = "" if text.endswith("\n") else "\n"
            return f"{text}{newline}room:\n  devices:\n    {line}\n"
        assert isinstance(room, yaml.MappingNode)
        if room.flow_style or not room.value:
            raise InputError(f"line {room.start_mark.line + 1}: `room` is on one line and has no devices")
        first = room.value[0][0].start_mark
        pad = " " * first.column
        return f"{text[: first.index]}devices:\n{pad}  {line}\n{pad}{text[first.index :]}"
    if not isinstance(devices, yaml.SequenceNode):
        raise InputError(f"line {devices.start_mark.line + 1}: a list of devices is expected")
    for item in devices.value:
        own = _child(item, "id")
        if isinstance(own, yaml.ScalarNode) and own.value == key:
            return _set_in(text, item, "position_m", entry["position_m"])
    if devices.flow_style:
        start, end = devices.start_mark.index, devices.end_mark.index
        if devices.value:
            last = _end(devices.value[-1])
            return f"{text[:last]}, {line.removeprefix('- ')}{text[last:]}"
        return f"{text[:start]}[{line.removeprefix('- ')}]{text[end:]}"
    last = _end(devices.value[-1])
    end = text.find("\n", last)
    end = len(text) if end < 0 else end
    # The dashes of a block list all stand in one column.
    column = devices.start_mark.column
    return f"{text[:end]}\n{' ' * column}{line}{text[end:]}"


def position_of(values: Any) -> Floats:
    """Three finite numbers, rounded to 0.1 mm: what stands in room.json stands in rig.yaml, to the digit."""
    place = np.asarray(np.round(np.asarray(values, np.float64), 4) + 0.0, np.float64)
    if place.shape != (3,) or not np.isfinite(place).all():
        raise InputError(f"a position is three numbers in metres, not {values!r:.80}")
    return place
