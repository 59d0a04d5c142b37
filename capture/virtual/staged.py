"""A scene made from an item of a shooting plan: its request spoken by its speaker, its people where they
stand, its devices as they are.

`staged_rig` gives the rig of the item's room, `staged_request` what happens in it; with both,
`capture.sources.open_rig(rig, staged=...)` opens a virtual microphone and camera like any other, and the
scene's `episode_fields()` are the item's. The order of events: slate, the sounding devices alone, the request
(whoever points raises the arm before it), one and a half seconds more.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from capture.rig import Device, Rig, rig_from_dict
from capture.virtual.home_state import Value, loudness
from capture.virtual.layout import front_of, slate_place
from capture.virtual.mixing import RATE_HZ, Stem, convolve, convolve_loop
from capture.virtual.natural_voices import NaturalVoice
from capture.virtual.requests import KIND_OF_WORD, SOUND_WORDS
from capture.virtual.room import foa_response
from capture.virtual.scene import (
    DEVICE_DBFS,
    DEVICE_OMNI,
    MOUTH_STEP_S,
    TALKER_DBFS,
    TALKER_OMNI,
    Figure,
    Snapshot,
    VirtualScene,
    gain_to,
    set_conditions,
    slate_stem,
    slate_truth,
    standing,
    travel_s,
)
from capture.virtual.sound import KIND_OF_TYPE, LOOP_SECONDS, Kind, device_loop
from capture.virtual.truth import Interval, SourceTruth, Truth, activity_pattern
from capture.virtual.utterance import envelope
from capture.virtual.voices import Voice, speak, voice_named
from dsp.errors import InputError
from recordings.plan.model import Plan, PlanItem, PlanRoom
from recordings.profile import DeviceState, Placed

if TYPE_CHECKING:
    from capture.virtual.picture import Painter

ASK_S = 2.2  # when the request begins; the slate is over by then
ASK_AFTER_SOUND_S = 3.2  # the same where a device sounds, which is heard alone before
AFTER_S = 1.5  # from the end of the request to the end of the scene
RAISE_S = 0.45  # an arm goes up or down
TALKER_AT_1_M_DBFS = TALKER_DBFS + 6  # active RMS, in front of the mouth, without the room
PEAK = 0.7  # of the talker in any channel: somebody near the microphone speaks lower
FIELDS = (
    "grounding", "query", "feasibility", "difficulty", "request", "speaker", "target_device", "goal", "home",
    "staging",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class StagedRequest:
    """What happens in a staged scene: an item of a plan, and the voice that its speaker has."""

    item: PlanItem
    voice: Voice | NaturalVoice


def staged_request(item: PlanItem, plan: Plan) -> StagedRequest:
    """The item with the voice of its speaker: `Participant.voice`, else by the place among the participants.

    Raises InputError for an unknown voice or speaker.
    """
    for number, person in enumerate(plan.participants):
        if person.id == item.speaker:
            return StagedRequest(item, voice_named(person.voice, number))
    known = ", ".join(person.id for person in plan.participants)
    raise InputError(f"plan item {item.id}: `speaker` {item.speaker!r} is none of the participants: {known}")


def staged_rig(
    item: PlanItem,
    plan: Plan,
    *,
    storage: str,
    pace: Literal["fast", "realtime"] = "fast",
    take: int = 1,
    rt60_s: float = 0.3,
    snr_db: float = 30.0,
) -> Rig:
    """The virtual rig in the item's room: its size, microphone, devices there, and the plan's participants.

    storage: the data folder. take: another one has other sensor noise. The camera looks where the
    microphone's front points, 90 degrees wide, 640x360 at 15 fps.
    Raises InputError with the item's id for a room that the plan has not, a device without a position or of a
    type that the virtual room cannot show, and for places outside the room.
    """
    where = f"plan item {item.id}"
    room = next((room for room in plan.rooms if room.id == item.staging.room), None)
    if room is None:
        known = ", ".join(room.id for room in plan.rooms)
        raise InputError(f"{where}: `staging.room` {item.staging.room!r} is no room of the plan: {known}")
    people = [{"id": p.id, "name": p.name, **({"room": p.room} if p.room else {})} for p in plan.participants]
    camera = {
        "source": "virtual", "pace": pace, "width_px": 640, "height_px": 360, "fps": 15, "hfov_deg": 90,
        "position_m": [0.0, 0.0, 0.08],
    }  # fmt: skip
    microphone = {
        "source": "virtual", "pace": pace, "position_m": list(room.microphone_m),
        "yaw_deg": (room.microphone_yaw_deg + 180) % 360 - 180, "block_ms": 20.0,
    }  # fmt: skip
    data = {
        "hearth_rig": 1,
        "name": plan.name,
        "microphone": microphone,
        "camera": camera,
        "room": {
            "name": room.id,
            "size_m": list(room.size_m),
            "devices": [_device_of(state, room, where) for state in _devices_there(item, room)],
            "people": people,
        },
        "storage": {"folder": storage},
        "virtual": {
            "scene": "staged",
            "seed": zlib.crc32(f"{plan.name}/{plan.seed}/{item.id}/{take}".encode()),
            "rt60_s": rt60_s,
            "snr_db": snr_db,
        },
    }
    return rig_from_dict(data, where)


def _devices_there(item: PlanItem, room: PlanRoom) -> Sequence[DeviceState]:
    """The devices of the room as the item has them."""
    return [device for device in item.home.devices if device.room == room.id] or room.devices


def _device_of(state: DeviceState, room: PlanRoom, where: str) -> dict[str, Any]:
    place = state.position_m
    if place is None:
        place = next((known.position_m for known in room.devices if known.id == state.id), None)
    if place is None:
        raise InputError(
            f"{where}: `home.devices` ({state.id}) has no position_m, here or in the plan's room"
        )
    return {
        "id": state.id, "type": state.type, "name": state.name, "room": state.room, "position_m": list(place)
    }  # fmt: skip


class _DeviceStem:
    """A device's endless sound, rendered when it is first heard. Looks like a `mixing.Stem`."""

    looping = True

    def __init__(self, rig: Rig, device: Device, kind: Kind) -> None:
        self.name = self.device_id = device.id
        self.path = standing(rig, device.position_m)
        self.start_frame = int(travel_s(self.path) * RATE_HZ)
        self._rig, self._device = rig, device
        self.type, self.kind = device.type, kind
        self.seed = zlib.crc32(device.id.encode())  # the same device sounds the same in every take

    @property
    def pattern(self) -> tuple[Interval, ...]:
        """When the dry sound is active in one round."""
        return _dry_loop(self.type, self.kind, self.seed)[1]

    @cached_property
    def samples(self) -> NDArray[np.float32]:
        """(frames, 4) of one round of the loop, as it is when the direct sound arrives."""
        rig, device = self._rig, self._device
        facing = tuple(float(v) for v in front_of(device, rig))
        place = (rig.room.size_m, device.position_m, rig.microphone.position_m, rig.virtual.rt60_s)
        return _device_sound(
            self.type, self.kind, self.seed, *place, rig.microphone.yaw_deg, facing, self.start_frame
        )


Triple = tuple[float, float, float]


@lru_cache(maxsize=64)
def _response(
    size_m: Triple, place_m: Triple, microphone_m: Triple, rt60_s: float, yaw_deg: float,
    facing: Triple | None, omni: float,
) -> NDArray[np.float32]:  # fmt: skip
    """`foa_response`, kept per geometry: a session records many takes in a room. The tail is the room's."""
    response = foa_response(
        size_m, place_m, microphone_m, rt60_s, RATE_HZ, yaw_deg, facing, omni,
        zlib.crc32(repr((size_m, microphone_m)).encode()),
    )  # fmt: skip
    response.setflags(write=False)
    return response


@lru_cache(maxsize=64)
def _dry_loop(device_type: str, kind: Kind, seed: int) -> tuple[NDArray[np.float32], tuple[Interval, ...]]:
    """One round of a device's sound, and when it is active in it."""
    dry = device_loop(device_type, kind, seed)
    return dry.astype(np.float32), activity_pattern(dry)


@lru_cache(maxsize=12)  # 4.6 MB each
def _device_sound(
    device_type: str, kind: Kind, seed: int, size_m: Triple, place_m: Triple, microphone_m: Triple,
    rt60_s: float, yaw_deg: float, facing: Triple, under_way: int,
) -> NDArray[np.float32]:  # fmt: skip
    response = _response(size_m, place_m, microphone_m, rt60_s, yaw_deg, facing, DEVICE_OMNI)
    heard = convolve_loop(_dry_loop(device_type, kind, seed)[0], response)
    heard *= np.float32(gain_to(DEVICE_DBFS, heard[:, 0]))
    heard = np.roll(heard, -under_way, axis=0)
    heard.setflags(write=False)
    return heard


class StagedScene(VirtualScene):
    """The scene of a plan item; made by `build_staged_scene`."""

    def __init__(
        self,
        rig: Rig,
        truth: Truth,
        stems: tuple[Any, ...],
        states: dict[str, dict[str, Value]],
        noise_rms: float,
        people: Callable[[float], tuple[Figure, ...]],
        item: PlanItem,
    ) -> None:
        self._item = item
        self._people = people
        self._heard = set(item.staging.sounding)
        super().__init__(rig, truth, stems, states, noise_rms, lambda time_s: None, None)

    def episode_fields(self) -> dict[str, Any]:
        """The item's own fields: grounding, query, feasibility, difficulty, request, speaker, target_device,
        goal, home, staging."""
        return {name: getattr(self._item, name) for name in FIELDS}

    def snapshot(self, time_s: float) -> Snapshot:
        """What the camera sees at this time of the scene."""
        return replace(super().snapshot(time_s), others=self._people(time_s))

    def painter(self) -> Painter:
        """What draws the pictures of this scene."""
        from capture.virtual.staged_picture import StagedPainter

        return StagedPainter(self.rig)

    def _level(self, device: Device) -> float:
        """As the item's `staging.sounding` says until the device is switched; then by its state."""
        level = loudness(device.type, self._states.get(device.id, {}))
        if device.type == "refrigerator":  # its compressor runs or not, whatever is set
            return float(device.id in self._heard)
        return level if device.id in self._heard or device.id in self._changed else 0.0

    def _note_change(self, device_id: str, heard: bool) -> None:
        for source, stem in zip(self.truth.sources, self.stems, strict=True):
            if source.device_id == device_id and heard and isinstance(stem, _DeviceStem):
                source.pattern = stem.pattern
        super()._note_change(device_id, heard)


def build_staged_scene(rig: Rig, staged: StagedRequest) -> StagedScene:
    """The scene of a plan item in the rig that `staged_rig` made of it, rendered and ready.

    The same item and rig give the same scene. Raises InputError, naming the item, when nobody or more than
    one speaks, when somebody points at a device that is not there or cannot be heard where `sounding` says
    so; DeviceError without the program of the voice.
    """
    item = staged.item
    where = f"plan item {item.id}"
    speaker = _speaker(item)
    devices = {device.id: device for device in rig.room.devices}
    for placed in item.staging.people:
        if placed.pointing_at is not None and placed.pointing_at not in devices:
            raise InputError(
                f"{where}: {placed.person} points at {placed.pointing_at!r}, which is not in {rig.room.name};"
                f" there are {', '.join(devices) or 'no devices'}"
            )
        if not all(0 < at < size for at, size in zip(placed.mouth_m, rig.room.size_m, strict=True)):
            raise InputError(
                f"{where}: the mouth of {placed.person} at {list(placed.mouth_m)} m is outside the room of"
                f" {list(rig.room.size_m)} m"
            )
    states = {device.id: dict(device.attributes) for device in item.home.devices if device.id in devices}
    _check_sounding(item, devices, states)
    voice = speak(item.request, staged.voice)
    ask_s = ASK_AFTER_SOUND_S if item.staging.sounding else ASK_S
    end_s = ask_s + len(voice) / RATE_HZ
    talker, path = _talker(rig, speaker, voice)
    talking = SourceTruth(
        "talker", "talker", path, activity_pattern(voice), ask_s + travel_s(path), text=item.request
    )
    stems: list[Any] = [Stem("talker", talker, round(ask_s * RATE_HZ)), _slate(rig)]
    truths = [talking, slate_truth(rig)]
    for device in rig.room.devices:
        if device.type in KIND_OF_TYPE:
            stem = _DeviceStem(rig, device, _kind(device, item))
            stems.append(stem)
            truths.append(_device_truth(stem, device.id in item.staging.sounding))
    truth = Truth(
        "staged", rig.virtual.seed, tuple(truths), math.ceil((end_s + AFTER_S) * 10) / 10,
        grounding=item.grounding, request=item.request, speaker=item.speaker,
        target_device=item.target_device,
    )  # fmt: skip
    people = _acting(item, devices, ask_s, end_s, envelope(voice))
    return StagedScene(rig, truth, tuple(stems), states, set_conditions(truth, rig), people, item)


def _speaker(item: PlanItem) -> Placed:
    speaking = [placed for placed in item.staging.people if placed.speaks]
    if len(speaking) != 1 or speaking[0].person != item.speaker:
        names = ", ".join(placed.person for placed in speaking) or "nobody"
        raise InputError(
            f"plan item {item.id}: `speaker` is {item.speaker}, and in `staging.people` {names} speaks;"
            " exactly the speaker does"
        )
    return speaking[0]


def _check_sounding(
    item: PlanItem, devices: Mapping[str, Device], states: Mapping[str, Mapping[str, Value]]
) -> None:
    for name in item.staging.sounding:
        where = f"plan item {item.id}: `staging.sounding` names {name!r}"
        if name not in devices:
            raise InputError(f"{where}, which is not in {item.staging.room}; there are {', '.join(devices)}")
        kind = devices[name].type
        if kind not in KIND_OF_TYPE:
            raise InputError(
                f"{where}, a {kind}, which makes no sound; these do: {', '.join(sorted(KIND_OF_TYPE))}"
            )
        if kind != "refrigerator" and loudness(kind, states.get(name, {})) == 0:
            raise InputError(f"{where}, which makes no sound in its state {dict(states.get(name, {}))}")


def _kind(device: Device, item: PlanItem) -> Kind:
    """What the device sounds like: as the request says, where it names a sound and the device can make it."""
    request = item.request.lower()
    if device.id in item.staging.sounding:
        for word, kind in KIND_OF_WORD.items():
            if word in request and device.type in SOUND_WORDS[word]:
                return kind
    return KIND_OF_TYPE[device.type]


def _talker(
    rig: Rig, speaker: Placed, voice: NDArray[np.float64]
) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
    """The request as it is heard, (frames, 4), as loud as distance and facing make it; and its path."""
    angle = math.radians(speaker.facing_deg)
    facing = (math.cos(angle), math.sin(angle), 0.0)
    response = _response(
        rig.room.size_m, speaker.mouth_m, rig.microphone.position_m, rig.virtual.rt60_s,
        rig.microphone.yaw_deg, facing, TALKER_OMNI,
    )  # fmt: skip
    heard = convolve(voice, response)
    gain = min(10 ** (TALKER_AT_1_M_DBFS / 20), PEAK / float(np.abs(heard).max()))
    return heard * np.float32(gain), standing(rig, speaker.mouth_m)


def _slate(rig: Rig) -> Stem:
    place = slate_place(rig)
    microphone = rig.microphone
    return slate_stem(
        rig,
        _response(
            rig.room.size_m, (float(place[0]), float(place[1]), float(place[2])), microphone.position_m,
            rig.virtual.rt60_s, microphone.yaw_deg, None, 1.0,
        ),
    )  # fmt: skip


def _device_truth(stem: _DeviceStem, heard: bool) -> SourceTruth:
    pattern = stem.pattern if heard else ()
    windows = [[0.0, math.inf]] if heard else []
    return SourceTruth(
        stem.name, "device", stem.path, pattern, travel_s(stem.path), LOOP_SECONDS, windows, stem.name,
        stem.kind,
    )  # fmt: skip


def _acting(
    item: PlanItem, devices: Mapping[str, Device], ask_s: float, end_s: float, mouth: NDArray[np.float64]
) -> Callable[[float], tuple[Figure, ...]]:
    """Time -> everybody. The speaker's mouth moves; arms are up from before the request until after it."""
    still = []
    for placed in item.staging.people:
        angle = math.radians(placed.facing_deg)
        facing = np.array([math.cos(angle), math.sin(angle)])
        target = devices[placed.pointing_at].position_m if placed.pointing_at else None
        mouth_m = np.asarray(placed.mouth_m, float)
        still.append((placed.speaks, Figure(placed.person, mouth_m, facing, 0.0, 0.0, target)))

    def raised(time_s: float) -> float:
        way = min(time_s - (ask_s - 1.5 * RAISE_S), end_s + 1.5 * RAISE_S - time_s) / RAISE_S
        way = min(max(way, 0.0), 1.0)
        return way * way * (3 - 2 * way)

    def people(time_s: float) -> tuple[Figure, ...]:
        step = math.floor((time_s - ask_s) / MOUTH_STEP_S)
        opened = float(mouth[step]) if 0 <= step < len(mouth) else 0.0
        return tuple(
            replace(figure, mouth_open=opened if speaks else 0.0, raised=raised(time_s))
            for speaks, figure in still
        )

    return people
