"""The profile (episode.yaml) as JSON Schema, for other languages and editors.

Types, names and "nothing else" come from `recordings.profile` itself. Added are what each key means, with its
unit, and those rules across keys that JSON Schema can say; the others are in `recordings.combinations`.
"""

from __future__ import annotations

from typing import Any, get_args

import msgspec

from recordings.combinations import COMBINATIONS
from recordings.profile import Feasibility, Grounding, Profile

SCHEMA_ID = "urn:hearth:episode:1"
DRAFT = "https://json-schema.org/draft/2020-12/schema"
PATH = "attribute as <endpoint>.<Cluster>.<Attribute>, names of the Matter Application Cluster Specification"
RAW = (
    "raw Matter value of the attribute: temperatures and setpoints in 0.01 degrees Celsius, humidity in 0.01"
    " percent, levels 1 to 254, fans 0 to 100 percent, blinds 0 (open) to 10000 (closed), times in seconds"
)
# Of each struct: key -> (meaning, unit); unit "" for what has none.
MEANINGS: dict[str, dict[str, tuple[str, str]]] = {
    "Assert": {
        "device_id": ("id of the device", ""),
        "attribute": (PATH, ""),
        "value": (f"what it must be; {RAW}; null in a refusal: a value was asked for", "raw Matter value"),
    },
    "When": {
        "at_min": ("minutes after the episode began, on the home's clock", "min"),
        "anchor_device": ("the appliance whose end is waited for", ""),
        "offset_min": ("minutes after the anchor is done, negative: before", "min"),
        "tolerance_s": ("seconds that it may be early or late", "s"),
    },
    "Step": {
        "when": ("when the asserts hold", ""),
        "asserts": ("what holds at one moment then", ""),
    },
    "RoomChange": {
        "room": ("name of the room", ""),
        "variable": ("which of its air or light", ""),
        "direction": ("against the same home left alone", ""),
    },
    "RoomValue": {
        "room": ("name of the room", ""),
        "variable": ("which of its air or light", ""),
        "value": ("the true value", "degrees Celsius, percent, lux, or micrograms per cubic metre"),
    },
    "Goal": {
        "kind": ("answer: Q1; state: Q2 to Q4; refusal: infeasible", ""),
        "asserts": (
            "attributes at the end; of an answer the true values; of a refusal what was asked for",
            "",
        ),
        "steps": ("what must hold when (Q3); of a refusal what was asked for", ""),
        "changes": ("how rooms must change (Q4); of a refusal what was asked for", ""),
        "room_values": ("of an answer: the true values of rooms", ""),
        "reason": ("of a refusal: the cause that must be named", ""),
    },
    "DeviceState": {
        "id": ("unique in the home", ""),
        "type": ("device type, such as on_off_light", ""),
        "name": ("how people call it", ""),
        "room": ("name of its room", ""),
        "position_m": ("x, y, z in the room's frame", "m"),
        "attributes": (f"at the start: {PATH}; {RAW}", "raw Matter value"),
    },
    "RoomState": {
        "temperature_c": ("air temperature", "degrees Celsius"),
        "humidity_percent": ("relative humidity", "percent"),
        "illuminance_lux": ("illuminance", "lux"),
        "pm10_ug_m3": ("particles up to 10 micrometres", "micrograms per cubic metre"),
    },
    "Member": {
        "id": ("as in people and speaker", ""),
        "name": ("name", ""),
        "room": ("what this person's 'my room' means", ""),
        "devices": ("ids of devices that are this person's own", ""),
        "note": ("anything else", ""),
    },
    "HomeState": {
        "devices": ("every device of the home", ""),
        "rooms": ("names of the rooms", ""),
        "people": ("ids of those who are there", ""),
        "household": ("who lives here and what is theirs; never faces or voices", ""),
        "room_states": ("room -> its air and light", ""),
        "clock": ("the home's own time when the episode begins, YYYY-MM-DD HH:MM:SS", ""),
    },
    "Placed": {
        "person": ("id of the person", ""),
        "mouth_m": ("x, y, z of the mouth in the room's frame", "m"),
        "facing_deg": ("from +x towards +y", "degrees"),
        "speaks": ("says the request", ""),
        "pointing_at": ("id of the device that is pointed at", ""),
    },
    "Staging": {
        "room": ("where the scene is", ""),
        "people": ("who stands where", ""),
        "sounding": ("ids of devices that are heard", ""),
    },
    "Consent": {
        "recording": ("agreed to be recorded", ""),
        "sharing": ("agreed to be shared", ""),
        "note": ("by whom, how", ""),
    },
    "Profile": {
        "hearth_episode": ("version of this form", ""),
        "id": ("name of the episode, unique in its session", ""),
        "session": ("name of the session", ""),
        "created_utc": ("ISO 8601 with Z", ""),
        "origin": ("where it comes from", ""),
        "grounding": ("G0 speech, G1 gesture, G2 sound, G3 space, G4 user identity", ""),
        "query": ("Q1 state inquiry, Q2 explicit control, Q3 scheduling, Q4 implicit intent", ""),
        "feasibility": ("feasible, or why not", ""),
        "difficulty": ("of feasible ones, by distractors", ""),
        "request": ("what was said", ""),
        "speaker": ("id of who said it", ""),
        "target_device": ("id of the device that is meant; null: there is none, or it is not known", ""),
        "goal": ("what would be right", ""),
        "home": ("the home when the episode began", ""),
        "staging": ("how the scene was set", ""),
        "plan_item": ("id of the item of the shooting plan", ""),
        "take": ("number among the takes of that item", "takes"),
        "consent": ("who agreed to what", ""),
        "rig": ("snapshot of rig.yaml", ""),
        "source": ("what was captured or imported", ""),
        "interrupted": ("cut off and repaired afterwards", ""),
        "notes": ("anything else", ""),
    },
}


def profile_schema() -> dict[str, Any]:
    """The JSON Schema (2020-12) of a profile."""
    made = msgspec.json.schema(Profile)
    for name, properties in ((name, kind["properties"]) for name, kind in made["$defs"].items()):
        for key, value in properties.items():
            meaning, unit = MEANINGS[name][key]
            value["description"] = meaning
            if unit:
                value["x-unit"] = unit
            _portable(value)
    profile = made["$defs"]["Profile"]
    profile["allOf"] = list(_rules())
    whole = {"$schema": DRAFT, "$id": SCHEMA_ID, "title": "Episode of Hearth", **made}
    plain: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(whole))  # defaults that are tuples
    return plain


def _portable(value: dict[str, Any]) -> None:
    r"""Python's \Z is no end of text in other languages' regular expressions; theirs is $."""
    for part in (value, *value.get("anyOf", [])):
        if "pattern" in part:
            part["pattern"] = part["pattern"].replace(r"\Z", "$")


def _rules() -> list[dict[str, Any]]:
    """Rules across keys, as if-then."""
    implicit = [grounding for grounding, query in COMBINATIONS if query == "Q4"]
    others = [grounding for grounding in get_args(Grounding) if grounding not in implicit]
    infeasible = [kind for kind in get_args(Feasibility) if kind != "feasible"]

    def when(conditions: dict[str, Any], then: dict[str, Any]) -> dict[str, Any]:
        return {
            "if": {"properties": conditions, "required": list(conditions)},
            "then": {"properties": then},
        }

    def goal(kind: str) -> dict[str, Any]:
        return {"goal": {"anyOf": [{"type": "null"}, {"properties": {"kind": {"const": kind}}}]}}

    return [
        {
            "not": {
                "properties": {"query": {"const": "Q4"}, "grounding": {"enum": others}},
                "required": ["query", "grounding"],
            }
        },
        when({"feasibility": {"const": "nonexistent_resource"}}, {"target_device": {"type": "null"}}),
        when({"feasibility": {"enum": infeasible}}, {**goal("refusal"), "difficulty": {"type": "null"}}),
        when({"feasibility": {"const": "feasible"}, "query": {"const": "Q1"}}, goal("answer")),
        when({"feasibility": {"const": "feasible"}, "query": {"enum": ["Q2", "Q3", "Q4"]}}, goal("state")),
    ]
