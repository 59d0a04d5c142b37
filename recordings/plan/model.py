"""What a shooting plan is made of, and its YAML."""

from __future__ import annotations

from typing import Literal

import msgspec

from recordings.profile import (
    DeviceState,
    Difficulty,
    Feasibility,
    Goal,
    Grounding,
    HomeState,
    Member,
    Metres,
    Name,
    Query,
    Staging,
)


class PlanRoom(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """A room that is recorded in: a box (origin in a floor corner, z up, metres), its devices, its rig."""

    id: Name
    size_m: Metres
    microphone_m: Metres
    microphone_yaw_deg: float
    devices: tuple[DeviceState, ...]
    rig: str | None = None  # the rig.yaml of this room; None: the virtual room
    view_deg: float = 90.0  # how wide its camera sees, around the microphone's front


class Participant(Member, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """Somebody who acts in episodes, with the household profile that the person plays."""

    mouth_height_m: float = 1.55  # standing
    voice: str | None = None  # of the virtual room


class PlanItem(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """One episode to be recorded. The fields up to `staging` are those of the episode's profile."""

    id: Name  # ep0001, ep0002, ... without holes
    grounding: Grounding
    query: Query
    feasibility: Feasibility
    difficulty: Difficulty | None = None  # of feasible ones
    request: str
    speaker: str
    target_device: str | None = None
    goal: Goal
    home: HomeState
    staging: Staging
    do: tuple[str, ...] = ()  # what the speaker and the others do, a line each
    written_by: str = "template"  # template, or the name of the model that wrote the request
    note: str = ""
    skip: bool = False  # not to be recorded


class Plan(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """The whole of plan.yaml."""

    hearth_plan: Literal[1] = 1
    name: Name
    seed: int
    rooms: tuple[PlanRoom, ...]
    participants: tuple[Participant, ...]
    items: tuple[PlanItem, ...]
