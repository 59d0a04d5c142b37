"""A virtual scene: sources rendered to stems, their truth, the state of the home, and the shared clock."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from capture.blocks import AudioSource, VideoSource, monotonic_ns
from capture.rig import Device, Rig
from capture.virtual.home_state import ON_OFF, Value, loudness, off
from capture.virtual.layout import front_of, slate_place
from capture.virtual.mixing import RATE_HZ, Mixer, Stem, convolve, convolve_loop
from capture.virtual.requests import MOUTH_ABOVE_FLOOR_M, RequestPlan, plan_request
from capture.virtual.room import foa_response
from capture.virtual.sound import KIND_OF_TYPE, LOOP_SECONDS, device_loop, slate_beep
from capture.virtual.truth import SourceTruth, Truth, activity_pattern
from capture.virtual.utterance import Utterance, active_rms, envelope, speech, utterances
from dsp.errors import InputError
from recordings.geometry import direction_to_point, microphone_pose, transform
from recordings.profile import Assert, DeviceState, Goal, HomeState

if TYPE_CHECKING:
    from capture.virtual.picture import Painter

TALKER_DBFS = -26.0  # active RMS of the talker in W, with the room
DEVICE_DBFS = -40.0  # active RMS of a device at full speed in W, with the room
SLATE_DBFS = -18.0  # RMS of the beep in W
TALKER_OMNI = 0.6  # pattern of a talking head: 0.6 + 0.4 cos
DEVICE_OMNI = 0.55  # of a device, which sounds mostly out of its front
SLATE_TIMES_S = (0.40833, 1.04167)  # spread over the phases of a 15 fps camera, so that brackets intersect
SLATE_SECONDS = 1.25 / 15
DEVICE_ONSET_S = 1.6
LISTEN_SECONDS = 2.8  # from the device's onset to the request
ANSWER_SECONDS = 4.2
EXPOSURE_S = 0.02  # the virtual camera's; a frame's stamp is the middle of it
TALK_STEP_S = 0.5  # between the room responses of a walking talker
MOUTH_STEP_S = 0.02


class SceneClock:
    """One start time for the sources of a scene; it is set when the first of them starts."""

    def __init__(self, begin_utc_s: float | None = None) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self.begin_utc_s = begin_utc_s
        self.start_ns: int | None = None

    def join(self) -> int:
        """A source starts: the common start time in CLOCK_MONOTONIC ns, 30 ms ahead for the first one, or
        at the time that the rig names."""
        with self._lock:
            if self._users == 0:
                ahead_s = 0.0 if self.begin_utc_s is None else self.begin_utc_s - time.time()
                self.start_ns = monotonic_ns() + max(30_000_000, round(ahead_s * 1e9))
            self._users += 1
            assert self.start_ns is not None
            return self.start_ns

    def leave(self) -> None:
        """A source was stopped; after the last one the next start sets a new time."""
        with self._lock:
            self._users = max(0, self._users - 1)


@dataclass(frozen=True, slots=True)
class Figure:
    """A person at one moment, for the picture. Room frame, metres."""

    person: str
    mouth_m: NDArray[np.float64]
    facing: NDArray[np.float64]  # (2,) unit vector on the floor
    mouth_open: float
    walked_m: float = 0.0  # way gone, for the legs
    pointing_at_m: tuple[float, float, float] | None = None
    raised: float = 1.0  # the pointing arm: 0 hanging, 1 on the line to what is pointed at


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything the picture needs at one moment."""

    time_s: float
    figure: Figure | None
    states: Mapping[str, Mapping[str, Value]]
    led: float  # 0 dark to 1 lit for the whole exposure
    others: tuple[Figure, ...] = ()  # further people


class VirtualScene:
    """One scene; made by `build_scene`. `microphone()` and `camera()` give sources on one clock."""

    def __init__(
        self,
        rig: Rig,
        truth: Truth,
        stems: tuple[Stem, ...],
        states: dict[str, dict[str, Value]],
        noise_rms: float,
        figure: Any,
        plan: RequestPlan | None,
    ) -> None:
        self.rig = rig
        self.truth = truth
        self.duration_s = truth.duration_s
        self.noise_rms = noise_rms
        self.stems = stems
        self.plan = plan
        self.clock = SceneClock(rig.virtual.begin_utc_s)
        self._figure = figure
        self._states = states
        self._first_states = {device: dict(state) for device, state in states.items()}
        self._devices = {d.id: d for d in rig.room.devices}
        self._changed: set[str] = set()  # devices whose state was changed since the scene began
        self._lock = threading.Lock()
        self._gains = np.array([self._gain(stem) for stem in stems])
        self._mixer: Mixer | None = None

    def microphone(self) -> AudioSource:
        """A virtual microphone in this scene (format, block size, drift and noise from the rig)."""
        from capture.virtual.source import VirtualMicrophone

        return VirtualMicrophone(self)

    def camera(self) -> VideoSource:
        """A virtual camera in this scene."""
        from capture.virtual.source import VirtualCamera

        return VirtualCamera(self)

    def painter(self) -> Painter:
        """What draws the pictures of this scene."""
        from capture.virtual.picture import Painter

        return Painter(self.rig)

    def set_device(self, device_id: str, attributes: Mapping[str, Value]) -> None:
        """The home changed: the device's sound fades within 20 ms and the next picture shows it.

        Thread safe. `attributes` are merged into the device's state. Raises InputError for an unknown device.
        """
        device = self._devices.get(device_id)
        if device is None:
            raise InputError(
                f"the virtual room has no device `{device_id}`; it has {', '.join(self._devices) or 'none'}"
            )
        with self._lock:
            state = self._states.setdefault(device_id, {})
            before = self._level(device)
            state.update(attributes)
            self._changed.add(device_id)
            after = self._level(device)
            self._gains = np.array([self._gain(stem) for stem in self.stems])
            if (before > 0) != (after > 0):
                self._note_change(device_id, after > 0)

    def attributes(self, device_id: str) -> dict[str, Value]:
        """The present attributes of a device."""
        with self._lock:
            return dict(self._states[device_id])

    def episode_fields(self) -> dict[str, Any]:
        """Fields of `recordings.profile.Profile`: grounding, query, feasibility, request, speaker,
        target_device, goal and home, as the scene began. Scenes without end have only home and
        speaker."""
        devices = tuple(
            DeviceState(
                id=d.id,
                type=d.type,
                name=d.name,
                room=d.room or self.rig.room.name,
                position_m=d.position_m,
                attributes=self._first_states.get(d.id, {}),
            )
            for d in self.rig.room.devices
        )
        people = tuple(p.id for p in self.rig.room.people)
        fields: dict[str, Any] = {
            "speaker": self.truth.speaker,
            "home": HomeState(devices=devices, rooms=(self.rig.room.name,), people=people),
        }
        if self.plan is not None:
            wanted = Assert(device_id=self.plan.target.id, attribute=ON_OFF, value=self.plan.turn_on)
            fields |= {
                "grounding": self.plan.grounding,
                "query": "Q2",
                "feasibility": "feasible",
                "request": self.plan.utterance.text,
                "target_device": self.plan.target.id,
                "goal": Goal(kind="state", asserts=(wanted,)),
            }
        return fields

    def snapshot(self, time_s: float) -> Snapshot:
        """What the camera sees at this time of the scene."""
        with self._lock:
            states = {device: dict(state) for device, state in self._states.items()}
        led = 0.0
        for start in self.truth.slate_times_s:
            lit = min(time_s + EXPOSURE_S / 2, start + self.truth.slate_duration_s)
            led += max(0.0, lit - max(time_s - EXPOSURE_S / 2, start)) / EXPOSURE_S
        return Snapshot(time_s, self._figure(time_s), states, min(led, 1.0))

    def new_mixer(self, position: int) -> Mixer:
        """A mixer that starts at a scene frame; the scene remembers the newest for the times of changes."""
        with self._lock:
            self._mixer = Mixer(self.stems, self._gains, position)
            return self._mixer

    def mix(self, mixer: Mixer, frames: int) -> NDArray[np.float32]:
        """The next frames of a mixer under the present gains."""
        with self._lock:
            return mixer.render(frames, self._gains)

    def _gain(self, stem: Stem) -> float:
        if stem.device_id is None:
            return 1.0
        return self._level(self._devices[stem.device_id])

    def _level(self, device: Device) -> float:
        """Gain 0 to 1 of a device's sound now."""
        return loudness(device.type, self._states.get(device.id, {}))

    def _note_change(self, device_id: str, heard: bool) -> None:
        """Truth: the device's sound was switched at the frame that is mixed next."""
        now = max(0.0, self._mixer.position / RATE_HZ) if self._mixer else 0.0
        for source in self.truth.sources:
            if source.device_id != device_id:
                continue
            if heard:
                source.windows.append([now, math.inf])
            elif source.windows and source.windows[-1][1] == math.inf:
                source.windows[-1][1] = now
                if now <= source.windows[-1][0]:
                    source.windows.pop()


def build_scene(rig: Rig) -> VirtualScene:
    """The scene that `rig.virtual` asks for, rendered and ready.

    The same rig gives the same scene. Raises InputError when the rig's room allows no such scene.
    """
    if rig.virtual.scene == "staged":
        raise InputError(
            "`virtual.scene: staged` is what `hearth session` makes of the items of a plan; a rig of your own"
            " has the scene request, point or talk"
        )
    if rig.virtual.scene == "point":
        from capture.virtual.pointing_scene import pointing_scene

        return pointing_scene(rig)
    return _request_scene(rig) if rig.virtual.scene == "request" else _talk_scene(rig)


def _request_scene(rig: Rig) -> VirtualScene:
    seed = rig.virtual.seed
    plan = plan_request(rig, seed)
    voice = speech(plan.utterance)
    asked = round((DEVICE_ONSET_S + LISTEN_SECONDS) * RATE_HZ)
    duration_s = math.ceil(((asked + len(voice)) / RATE_HZ + ANSWER_SECONDS) * 10) / 10
    towards_rig = np.asarray(rig.microphone.position_m) - plan.mouth_m
    facing = towards_rig[:2] / np.linalg.norm(towards_rig[:2])
    response = respond(rig, plan.mouth_m, facing=np.array([facing[0], facing[1], 0.0]), omni=TALKER_OMNI)
    talker = convolve(voice, response)
    if rig.virtual.talker_m is None:
        talker *= np.float32(gain_to(TALKER_DBFS, talker[:, 0]))
    else:  # as loud as the distance makes it: `voice` has RMS 1 at one metre
        talker *= np.float32(10 ** (TALKER_DBFS / 20))
    stems = [Stem("talker", talker, asked), slate_stem(rig)]
    path = standing(rig, plan.mouth_m)
    talking = SourceTruth(
        "talker", "talker", path, activity_pattern(voice), asked / RATE_HZ + travel_s(path),
        text=plan.utterance.text,
    )  # fmt: skip
    sounding, device_truths = device_stems(rig, plan.kinds, plan.states)
    stems += sounding
    mouth = envelope(voice)

    def figure(time_s: float) -> Figure:
        step = int((time_s - asked / RATE_HZ) / MOUTH_STEP_S) if time_s >= asked / RATE_HZ else -1
        opened = float(mouth[step]) if 0 <= step < len(mouth) else 0.0
        return Figure(plan.speaker, plan.mouth_m, facing, opened)

    truth = Truth(
        "request", seed, (talking, slate_truth(rig), *device_truths), duration_s,
        grounding=plan.grounding, request=plan.utterance.text, speaker=plan.speaker,
        target_device=plan.target.id,
    )  # fmt: skip
    return _finish(rig, truth, stems, plan.states, figure, plan)


def _talk_scene(rig: Rig) -> VirtualScene:
    seed = rig.virtual.seed
    random = np.random.default_rng([seed, 11])
    people = [p.id for p in rig.room.people] or ["somebody"]
    sentences = [u for u in utterances() if u.kind == "talk" and u.voice == "joe"]
    order = [sentences[int(i)] for i in random.permutation(len(sentences))]
    voice, text = _conversation(order)
    period_s = len(voice) / RATE_HZ
    way = _walk(rig, period_s, random)
    # The dry voice is cut by raised-cosine windows that add up to one; each piece is heard from its place.
    step = round(TALK_STEP_S * RATE_HZ)
    window = np.sin(np.pi * (np.arange(2 * step) + 0.5) / (2 * step)) ** 2
    stem = np.zeros((len(voice), 4), np.float32)
    for centre in range(0, len(voice), step):
        index = (np.arange(-step, step) + centre) % len(voice)
        piece = voice[index] * window
        if not np.any(np.abs(piece) > 1e-4):
            continue
        mouth_m, facing, _ = way(centre / RATE_HZ)
        response = respond(rig, mouth_m, facing=np.array([*facing, 0.0]), omni=TALKER_OMNI)
        heard = convolve(piece, response)
        np.add.at(stem, (np.arange(len(heard)) + centre - step) % len(voice), heard)
    stem *= np.float32(gain_to(TALKER_DBFS, stem[:, 0]))
    begin_s = 2.0
    stems = [Stem("talker", stem, round(begin_s * RATE_HZ), looping=True), slate_stem(rig)]
    times = np.arange(0.0, period_s + 0.05, 0.1)
    path = np.concatenate([standing(rig, way(t - begin_s)[0]) for t in times])
    path[:, 0] = times
    talking = SourceTruth(
        "talker", "talker", path, activity_pattern(voice), begin_s + travel_s(path), period_s, text=text
    )
    states = {d.id: off(d.type) for d in rig.room.devices}
    kinds = {d.id: KIND_OF_TYPE[d.type] for d in rig.room.devices if d.type in KIND_OF_TYPE}
    sounding, device_truths = device_stems(rig, kinds, states)
    stems += sounding
    opening = envelope(voice)

    def figure(time_s: float) -> Figure:
        at = (time_s - begin_s) % period_s
        mouth_m, facing, walked = way(at)
        opened = float(opening[min(int(at / MOUTH_STEP_S), len(opening) - 1)]) if time_s >= begin_s else 0.0
        return Figure(people[0], mouth_m, facing, opened, walked)

    truth = Truth("talk", seed, (talking, slate_truth(rig), *device_truths), math.inf, speaker=people[0])
    return _finish(rig, truth, stems, states, figure, None)


def _finish(
    rig: Rig,
    truth: Truth,
    stems: list[Stem],
    states: dict[str, dict[str, Value]],
    figure: Any,
    plan: RequestPlan | None,
) -> VirtualScene:
    return VirtualScene(rig, truth, tuple(stems), states, set_conditions(truth, rig), figure, plan)


def set_conditions(truth: Truth, rig: Rig) -> float:
    """Note the slate and the rig's settings in the truth; gives the sensor noise's RMS in W."""
    virtual = rig.virtual
    truth.slate_times_s, truth.slate_duration_s = SLATE_TIMES_S, SLATE_SECONDS
    truth.av_offset_ms, truth.drift_ppm = virtual.av_offset_ms, virtual.drift_ppm
    truth.rt60_s, truth.snr_db = virtual.rt60_s, virtual.snr_db
    return float(10 ** ((TALKER_DBFS - virtual.snr_db) / 20))


def respond(
    rig: Rig, place_m: Any, facing: NDArray[np.float64] | None = None, omni: float = 1.0
) -> NDArray[np.float32]:
    """What the room makes of a source at a place: the response of the rig's microphone, (n, 4) AmbiX."""
    microphone = rig.microphone
    return foa_response(
        rig.room.size_m, place_m, microphone.position_m, rig.virtual.rt60_s, RATE_HZ,
        microphone.yaw_deg, facing, omni, rig.virtual.seed,
    )  # fmt: skip


def standing(rig: Rig, place_m: Any) -> NDArray[np.float64]:
    """(1, 4) path of a source that stays: time 0, azimuth, elevation, distance."""
    microphone = rig.microphone
    seen = direction_to_point(np.asarray(place_m, float), microphone.position_m, microphone.yaw_deg)
    return np.array([[0.0, *(float(v) for v in seen)]])


def travel_s(path: NDArray[np.float64]) -> float:
    """How long the direct sound is under way (of a moving source: on average)."""
    return float(path[:, 3].mean()) / 343.0


def gain_to(dbfs: float, w: NDArray[np.floating]) -> float:
    """Gain that brings the active RMS of a W channel to a level."""
    return float(10 ** (dbfs / 20) / max(active_rms(w), 1e-12))


def slate_stem(rig: Rig, response: NDArray[np.float32] | None = None) -> Stem:
    """The beeps as they are heard. response: of the room from the slate's place, where it is known."""
    beep = slate_beep(SLATE_SECONDS)
    heard = convolve(beep, respond(rig, slate_place(rig)) if response is None else response)
    heard *= np.float32(10 ** (SLATE_DBFS / 20) / np.sqrt(np.mean(heard[: len(beep), 0] ** 2)))
    starts = [round(t * RATE_HZ) for t in SLATE_TIMES_S]
    both = np.zeros((starts[-1] - starts[0] + len(heard), 4), np.float32)
    for start in starts:
        both[start - starts[0] :][: len(heard)] += heard
    return Stem("slate", both, starts[0])


def slate_truth(rig: Rig) -> SourceTruth:
    """When and where the beeps are."""
    path = standing(rig, slate_place(rig))
    pattern = tuple((t, t + SLATE_SECONDS) for t in SLATE_TIMES_S)
    return SourceTruth("slate", "slate", path, pattern, travel_s(path), sound="beep")


def device_stems(
    rig: Rig, kinds: Mapping[str, Literal["hum", "beep", "spin", "music"]], states: Mapping[str, Any]
) -> tuple[list[Stem], list[SourceTruth]]:
    """One endless stem for every device that can sound, heard when its state says so."""
    stems, truths = [], []
    devices: list[Device] = [d for d in rig.room.devices if d.id in kinds]
    for number, device in enumerate(devices):
        dry = device_loop(device.type, kinds[device.id], rig.virtual.seed * 101 + number)
        heard = convolve_loop(dry, respond(rig, device.position_m, front_of(device, rig), DEVICE_OMNI))
        heard *= np.float32(gain_to(DEVICE_DBFS, heard[:, 0]))
        path = standing(rig, device.position_m)
        under_way = int(travel_s(path) * RATE_HZ)  # nothing is heard before the direct sound is there
        heard = np.roll(heard, -under_way, axis=0)
        onset = round(DEVICE_ONSET_S * RATE_HZ) + under_way
        stems.append(Stem(device.id, heard, onset, True, device.id))
        audible = loudness(device.type, states.get(device.id, {})) > 0
        truths.append(
            SourceTruth(
                device.id, "device", path, activity_pattern(dry), DEVICE_ONSET_S + travel_s(path),
                LOOP_SECONDS, [[0.0, math.inf]] if audible else [], device.id, kinds[device.id],
            )
        )  # fmt: skip
    return stems, truths


def _conversation(order: list[Utterance]) -> tuple[NDArray[np.float64], str]:
    """The sentences one after the other with pauses, one loop; and their text."""
    pause = np.zeros(round(0.7 * RATE_HZ))
    pieces = [piece for sentence in order for piece in (speech(sentence), pause)]
    voice = np.concatenate(pieces)
    step = round(TALK_STEP_S * RATE_HZ)
    return np.pad(voice, (0, -len(voice) % step)), " ".join(u.text for u in order)


def _walk(rig: Rig, period_s: float, random: np.random.Generator) -> Any:
    """A closed way in front of the rig: time -> (mouth (3,), facing (2,), metres walked)."""
    pose = microphone_pose(rig.microphone.position_m, rig.microphone.yaw_deg + rig.camera.yaw_deg)
    size = np.asarray(rig.room.size_m)
    turns = float(random.choice([-1.0, 1.0]))
    begin = float(random.uniform(0, 2 * np.pi))
    microphone = np.asarray(rig.microphone.position_m)

    def place(time_s: float, far: float, wide: float) -> NDArray[np.float64]:
        angle = begin + turns * 2 * np.pi * time_s / period_s
        mouth = transform(pose, [far + 0.25 * np.sin(2 * angle), wide * np.sin(angle), 0.0])
        mouth[2] = MOUTH_ABOVE_FLOOR_M
        return mouth

    for far, wide in ((1.9, 1.0), (1.7, 0.8), (1.5, 0.6), (1.35, 0.4)):
        points = np.array([place(t, far, wide) for t in np.linspace(0, period_s, 60)])
        if np.all((points > 0.3) & (points < size - 0.3)):
            break
    else:
        raise InputError(
            f"the room {size.tolist()} m leaves no way to walk 1.1 to 2.2 m in front of the rig; move "
            "`microphone.position_m` or turn `microphone.yaw_deg` so that it looks into the room"
        )
    length = float(np.sum(np.linalg.norm(np.diff(points, axis=0), axis=1)))

    def way(time_s: float) -> tuple[NDArray[np.float64], NDArray[np.float64], float]:
        mouth = place(time_s, far, wide)
        towards = (microphone - mouth)[:2]
        return mouth, towards / np.linalg.norm(towards), length * time_s / period_s

    return way
