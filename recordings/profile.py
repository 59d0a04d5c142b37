"""The profile of an episode (episode.yaml): who asked for what, and what would have been right.

Grounding, query and feasibility are the terms of the OmniSmartHome benchmark (arXiv 2609.32569).
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

import msgspec
import yaml
from msgspec import Meta

from dsp.errors import InputError
from recordings.yaml_text import load_yaml

Grounding = Literal["G0", "G1", "G2", "G3", "G4"]  # speech, gesture, sound, space, identity
Query = Literal["Q1", "Q2", "Q3", "Q4"]  # state inquiry, control, scheduling, implicit intent
Feasibility = Literal["feasible", "nonexistent_resource", "physical_limit", "temporal_contradiction"]
Difficulty = Literal["easy", "medium", "hard"]  # by the distractors: see recordings.plan
RoomVariable = Literal["temperature", "humidity", "illuminance", "pm10"]
Value = bool | int | float | str | None
Metres = tuple[float, float, float]
Name = Annotated[str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*\Z", max_length=120)]


class Assert(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """An attribute (`<endpoint>.<Cluster>.<Attribute>`) and the value that it must have at the end."""

    device_id: str
    attribute: str
    value: Value


class When(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """When something must hold, on the home's clock: `at_min` minutes after the episode began, or (with an
    anchor) `offset_min` after, negative: before, that appliance is done. Both only in a refusal: the request
    named both, and they contradict each other; `offset_min` without an anchor is then from now."""

    at_min: float | None = None
    anchor_device: str | None = None
    offset_min: float = 0.0
    tolerance_s: float = 30.0


class Step(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """One step of a schedule (Q3): all asserts hold at one moment within the tolerance."""

    when: When
    asserts: tuple[Assert, ...]


class RoomChange(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """A room's air or light goes the wanted way, against the same home left alone (Q4)."""

    room: str
    variable: RoomVariable
    direction: Literal["increase", "decrease"]


class RoomValue(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """What is true of a room's air or light (Q1): degrees C, percent, lux, micrograms per cubic metre."""

    room: str
    variable: RoomVariable
    value: float


class Goal(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """What would be right.

    answer (Q1):     told is what `asserts` (device attributes) and `room_values` say.
    state (Q2-Q4):   all of `asserts` hold at the end, every one of `steps` in its time (Q3), and the rooms
                     change as `changes` say (Q4). What is empty asks nothing.
    refusal:         the request is infeasible: nothing is changed and the cause, `reason`, is named. Then
                     `asserts`, `steps` and `changes` say what was asked for, so that it can be checked that
                     it is impossible: a device that the home lacks, a value beyond the range (None: a value
                     was asked for that the device does not have), times that contradict each other.
    """

    kind: Literal["state", "answer", "refusal"]
    asserts: tuple[Assert, ...] = ()
    steps: tuple[Step, ...] = ()
    changes: tuple[RoomChange, ...] = ()
    room_values: tuple[RoomValue, ...] = ()
    reason: str | None = None


class DeviceState(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """A device at the start of the episode; attributes as `<endpoint>.<Cluster>.<Attribute>: value`."""

    id: str
    type: str
    name: str
    room: str
    position_m: Metres | None = None
    attributes: dict[str, Value] = {}


class RoomState(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """Air and light of a room; None: not known."""

    temperature_c: float | None = None
    humidity_percent: float | None = None
    illuminance_lux: float | None = None
    pm10_ug_m3: float | None = None


class Member(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """A household profile: who lives here and what is theirs. Faces and voices are never in here."""

    id: str
    name: str
    room: str | None = None  # what "my room" means
    devices: tuple[str, ...] = ()  # ids of devices that are this person's own
    note: str | None = None


class HomeState(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """The home as it was when the episode began."""

    devices: tuple[DeviceState, ...] = ()
    rooms: tuple[str, ...] = ()
    people: tuple[str, ...] = ()  # ids of those who are there
    household: tuple[Member, ...] = ()
    room_states: dict[str, RoomState] = {}
    clock: str | None = None  # the home's own time when the episode begins, YYYY-MM-DD HH:MM:SS


class Placed(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """Where somebody stands. Room frame: metres; degrees from +x towards +y."""

    person: str
    mouth_m: Metres
    facing_deg: float
    speaks: bool = False
    pointing_at: str | None = None  # id of a device


class Staging(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """How the scene is set: who stands where, and which devices are heard."""

    room: str
    people: tuple[Placed, ...] = ()
    sounding: tuple[str, ...] = ()  # ids of devices


class Consent(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """Who agreed to what. `unknown` is what an import says until somebody has asked."""

    recording: Literal["given", "not_needed", "unknown"] = "unknown"
    sharing: Literal["given", "refused", "not_needed", "unknown"] = "unknown"
    note: str | None = None


class Profile(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """The whole of episode.yaml. What is not known is None, never a guess."""

    hearth_episode: Literal[1] = 1
    id: Name
    session: Name
    created_utc: str  # ISO 8601 with Z
    origin: Literal["recorded", "virtual", "imported"]
    grounding: Grounding | None = None
    query: Query | None = None
    feasibility: Feasibility | None = None
    difficulty: Difficulty | None = None
    request: str | None = None  # what was said
    speaker: str | None = None
    target_device: str | None = None  # None with feasibility nonexistent_resource: there is no target
    goal: Goal | None = None
    home: HomeState | None = None
    staging: Staging | None = None
    plan_item: Name | None = None  # id of the item of the shooting plan that this is a take of
    take: Annotated[int, Meta(ge=1)] | None = None  # its number among the takes of that item
    consent: Consent = msgspec.field(default_factory=Consent)
    rig: dict[str, Any] = {}  # snapshot of rig.yaml (capture.rig.rig_to_dict)
    source: dict[str, Any] = {}  # what was captured or imported: device, format before conversion, tags
    interrupted: bool = False  # the recording was cut off and repaired afterwards
    notes: str = ""


# Options with a name of their own.
_OPTIONS = {"target_device": "target", "consent.recording": "consent", "consent.sharing": "sharing"}


def check_fields(fields: dict[str, Any]) -> None:
    """Raise InputError when a value of a profile's fields is not allowed: it names the field as the option of
    `hearth record`, the value and what is allowed; or when they contradict each other (`profile_problems`).
    `fields` may be any of Profile's."""
    from recordings.combinations import profile_problems

    needed = {"id": "x", "session": "x", "created_utc": "1970-01-01T00:00:00Z", "origin": "recorded"}
    try:
        profile = msgspec.convert({**needed, **msgspec.to_builtins(fields)}, Profile)
    except msgspec.ValidationError as error:
        text = str(error)
        name = text.rpartition("`$.")[2].rstrip("`")
        kind: Any = Profile
        value: Any = fields
        for part in name.split("."):
            kind = get_type_hints(kind).get(part) if isinstance(kind, type) else None
            value = value.get(part) if isinstance(value, dict) else getattr(value, part, None)
        allowed = [choice for choice in _choices(kind) if isinstance(choice, str)]
        if "matching regex" in text:
            raise InputError(
                f"--{name} takes letters, digits, '.', '_' and '-' and begins with a letter or digit, not"
                f" {value!r}"
            ) from None
        if not name or not allowed:
            raise InputError(f"the episode's profile: {text}") from None
        option = _OPTIONS.get(name, name).replace("_", "-")
        raise InputError(f"--{option} is one of {', '.join(allowed)}, not {value!r}") from None
    for problem in profile_problems(profile):
        raise InputError(f"the episode's profile contradicts itself: {problem}")


def _choices(kind: Any) -> tuple[Any, ...]:
    """The values of a Literal, also inside a union."""
    if get_origin(kind) is Literal:
        return get_args(kind)
    return tuple(value for part in get_args(kind) for value in _choices(part))


def profile_to_yaml(profile: Profile) -> str:
    """The text of episode.yaml."""
    return yaml.safe_dump(msgspec.to_builtins(profile), sort_keys=False, allow_unicode=True, width=110)


def profile_from_yaml(text: str, where: str = "episode.yaml") -> Profile:
    """Read episode.yaml strictly; raises InputError with the key and the value."""
    try:
        return msgspec.convert(load_yaml(text), Profile)
    except yaml.YAMLError as error:
        raise InputError(f"{where}: not valid YAML: {error}") from None
    except msgspec.ValidationError as error:
        raise InputError(f"{where}: {error}") from None
