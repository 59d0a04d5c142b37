"""Scenes: what is asked, that the evidence tells the device, and that sound and picture follow the truth."""

from __future__ import annotations

import math
from functools import lru_cache

import msgspec
import numpy as np
import pytest

import dsp
from capture.rig import Rig, load_rig
from capture.sources import open_rig
from capture.take import new_profile
from capture.virtual import build_scene
from capture.virtual.home_state import ON_OFF, loudness
from capture.virtual.mixing import convolve, convolve_loop
from capture.virtual.requests import APART_DEG, SOUND_WORDS, SPACE_WORDS, plan_request
from capture.virtual.scene import DEVICE_ONSET_S, VirtualScene
from dsp.errors import InputError
from recordings.combinations import profile_problems
from recordings.profile import Profile

FS = 48000
RIG = load_rig(None)
# Fewer devices where the scene is rendered: two lamps, two fans and the washer.
FEW = msgspec.structs.replace(
    RIG,
    room=msgspec.structs.replace(
        RIG.room,
        devices=tuple(d for d in RIG.room.devices if d.type in ("on_off_light", "fan", "laundry_washer")),
    ),
)


def rig_with(rig: Rig = RIG, **virtual: object) -> Rig:
    return msgspec.structs.replace(rig, virtual=msgspec.structs.replace(rig.virtual, **virtual))


@lru_cache(maxsize=4)
def dry_scene(seed: int, scene: str = "request") -> VirtualScene:
    return build_scene(rig_with(FEW, seed=seed, scene=scene, rt60_s=0.0))


def mix(scene: VirtualScene, seconds: float) -> np.ndarray:
    return scene.mix(scene.new_mixer(0), round(seconds * FS))


def direction_of(foa: np.ndarray) -> tuple[float, float]:
    """Direction of the active intensity of one anechoic source; exact but for other sources."""
    x, y, z = (float(foa[:, 0] @ foa[:, c]) for c in (3, 1, 2))
    return math.degrees(math.atan2(y, x)), math.degrees(math.atan2(z, math.hypot(x, y)))


@pytest.mark.parametrize("seed", range(30))
def test_the_evidence_tells_the_device_and_nothing_else_does(seed):
    plan = plan_request(RIG, seed)
    microphone = np.asarray(RIG.microphone.position_m)
    text = plan.utterance.text.lower()
    assert plan.grounding == ("G2" if seed % 2 == 0 else "G3")
    assert not any(d.name in text for d in RIG.room.devices)
    assert np.hypot(*(plan.mouth_m - microphone)[:2]) >= 1.0
    assert plan.states[plan.target.id][ON_OFF] is not plan.turn_on  # the goal is not met at the start
    if plan.grounding == "G2":
        types = next(types for word, types in SOUND_WORDS.items() if word in text)
        candidates = [d for d in RIG.room.devices if d.type in types]
        heard = [d for d in RIG.room.devices if loudness(d.type, plan.states[d.id]) > 0]
        assert [d.id for d in heard] == [plan.target.id]
        assert plan.target in candidates and len(candidates) >= 2
        assert all(plan.states[d.id][ON_OFF] for d in candidates)
        for other in candidates:
            if other.id != plan.target.id:
                a, b = (np.asarray(d.position_m) - microphone for d in (plan.target, other))
                angle = math.degrees(math.acos(a @ b / np.linalg.norm(a) / np.linalg.norm(b)))
                assert angle >= APART_DEG
    else:
        types = next(types for word, types in SPACE_WORDS.items() if word in text)
        pair = [d for d in RIG.room.devices if d.type in types]
        assert len(pair) == 2
        assert plan.states[pair[0].id] == plan.states[pair[1].id]
        # The speaker looks to -y at the rig, so x grows to their left.
        to_left = {d.id: d.position_m[0] > plan.mouth_m[0] for d in pair}
        assert sorted(to_left.values()) == [False, True]
        assert to_left[plan.target.id] == ("left" in text)


def test_a_handful_of_seeds_meets_every_device_and_both_voices():
    plans = [plan_request(RIG, seed) for seed in range(36)]
    assert {p.target.id for p in plans} == {d.id for d in RIG.room.devices}
    assert {p.utterance.voice for p in plans} == {"joe", "espeak"}
    assert len({p.utterance.text for p in plans}) >= 12


def test_the_same_seed_gives_the_same_scene_and_another_one_not():
    one, again, other = (build_scene(rig_with(FEW, seed=s, rt60_s=0.0)) for s in (4, 4, 6))
    np.testing.assert_array_equal(mix(one, 3.0), mix(again, 3.0))
    assert one.truth.to_dict() == again.truth.to_dict()
    assert one.truth.to_dict() != other.truth.to_dict()


def test_talker_and_device_come_from_their_true_directions_at_their_true_times():
    scene = build_scene(rig_with(FEW, seed=0, rt60_s=0.0))
    sound = mix(scene, scene.duration_s)
    talker = scene.truth.source("talker")
    device = scene.truth.source(scene.truth.target_device)
    (onset, end) = device.active(scene.duration_s)[0]
    begin, stop = talker.active(scene.duration_s)[0][0], talker.active(scene.duration_s)[-1][1]
    assert 10.0 <= scene.duration_s <= 14.0
    assert begin - onset >= 2.5 and scene.duration_s - stop >= 4.0
    # Nothing before the device; the device alone; then both, the talker 14 dB louder.
    assert np.abs(sound[round(1.3 * FS) : round((onset - 0.002) * FS)]).max() < 1e-6
    azimuth, elevation = direction_of(sound[round(onset * FS) : round((begin - 0.05) * FS)])
    assert dsp.angular_error_deg(azimuth, elevation, *device.direction(2.0)[:2]) < 0.1
    alone = scene.stems[0].samples
    azimuth, elevation = direction_of(alone)
    assert dsp.angular_error_deg(azimuth, elevation, *talker.direction(5.0)[:2]) < 0.1
    first = scene.stems[0].start_frame + np.flatnonzero(np.abs(alone[:, 0]) > 1e-3)[0]
    assert first / FS == pytest.approx(begin, abs=0.04)
    assert end == scene.duration_s


def test_an_endless_loop_through_a_response_is_the_steady_state_of_a_long_convolution():
    random = np.random.default_rng(0)
    loop, h = random.standard_normal(1000), random.standard_normal((1700, 4)).astype(np.float32)
    steady = [np.convolve(np.tile(loop, 5), h[:, c])[3000:4000] for c in range(4)]
    np.testing.assert_allclose(convolve_loop(loop, h), np.stack(steady, 1), atol=2e-3)
    once = [np.convolve(loop, h[:, c]) for c in range(4)]
    np.testing.assert_allclose(convolve(loop, h), np.stack(once, 1), atol=2e-3)


def test_switching_a_device_off_fades_it_within_20_ms_and_shows_in_the_truth():
    scene = build_scene(rig_with(FEW, seed=0, rt60_s=0.0))
    target = scene.truth.target_device
    mixer = scene.new_mixer(0)
    before = scene.mix(mixer, round(3.0 * FS))
    scene.set_device(target, {ON_OFF: False})
    after = scene.mix(mixer, round(1.0 * FS))
    scene.set_device(target, {ON_OFF: True})
    again = scene.mix(mixer, round(0.2 * FS))
    assert np.abs(before[-FS // 2 :]).max() > 1e-3
    assert np.abs(after[960:]).max() == 0.0
    assert np.abs(after[:900]).max() > 1e-4
    assert np.abs(np.diff(after[:1000, 0])).max() <= 1.5 * np.abs(np.diff(before[-FS:, 0])).max()  # no click
    assert np.abs(again[960:]).max() > 1e-3
    onset = DEVICE_ONSET_S + scene.truth.source(target).direction(0)[2] / 343.0
    active = scene.truth.source(target).active(5.0)
    np.testing.assert_allclose(active, [(onset, 3.0), (4.0, 5.0)], atol=1e-6)
    with pytest.raises(InputError, match="no device `toaster`"):
        scene.set_device("toaster", {ON_OFF: True})


def test_a_device_that_was_silent_can_be_switched_on():
    scene = build_scene(rig_with(FEW, seed=3, rt60_s=0.0))  # G3: turn a fan on
    target = scene.truth.target_device
    assert scene.truth.source(target).active(20.0) == []
    mixer = scene.new_mixer(0)
    scene.mix(mixer, round(8.0 * FS))
    scene.set_device(target, {ON_OFF: True, "1.FanControl.PercentSetting": 100})
    sound = scene.mix(mixer, round(1.0 * FS))
    azimuth, elevation = direction_of(sound[FS // 2 :])
    assert dsp.angular_error_deg(azimuth, elevation, *scene.truth.source(target).direction(9.0)[:2]) < 0.1
    assert scene.truth.source(target).active(9.0) == [(8.0, 9.0)]


def test_a_take_of_another_request_has_not_the_truth_of_the_scene():
    rig = rig_with(FEW, seed=0, rt60_s=0.0)
    with open_rig(rig) as opened:
        scene = opened.scene.episode_fields()
        same = new_profile(
            rig, opened, "s", grounding=scene["grounding"], target_device=scene["target_device"]
        )
        assert same.goal == scene["goal"] and same.request == scene["request"]
        other = next(d.id for d in rig.room.devices if d.id != scene["target_device"])
        for fields in ({"target_device": other}, {"query": "Q1"}, {"request": "Make it warmer"}):
            made = new_profile(rig, opened, "s", **fields)
            assert made.goal is None and made.home == scene["home"] and profile_problems(made) == [], fields


@pytest.mark.parametrize("seed", [0, 1])
def test_episode_fields_make_a_profile(seed):
    scene = dry_scene(seed)
    profile = Profile(
        id="x", session="s", created_utc="2026-01-01T00:00:00Z", origin="virtual", **scene.episode_fields()
    )
    assert profile.request == scene.truth.request and profile.target_device == scene.truth.target_device
    goal = profile.goal.asserts[0]
    start = {d.id: d.attributes for d in profile.home.devices}
    assert start[goal.device_id][goal.attribute] != goal.value
    assert msgspec.convert(msgspec.to_builtins(profile), Profile) == profile


def test_talk_scene_walks_without_end_and_without_a_seam():
    scene = dry_scene(1, "talk")
    assert math.isinf(scene.duration_s)
    talker = scene.truth.source("talker")
    period = talker.period_s
    mixer = scene.new_mixer(0)
    sound = scene.mix(mixer, round((2 * period + 5) * FS))
    # The second round repeats the first to the sample.
    start = round(2.5 * FS)
    shift = round(period * FS)
    np.testing.assert_allclose(
        sound[start : start + FS], sound[start + shift : start + shift + FS], atol=1e-6
    )
    # Heard direction follows the truth within what half a second of walking changes.
    errors, seen = [], []
    for t in np.arange(3.0, 2.0 + period, 0.5):
        piece = sound[round(t * FS) : round((t + 0.1) * FS)]
        if np.sqrt(np.mean(piece[:, 0] ** 2)) > 0.01:
            azimuth, elevation = direction_of(piece)
            true = talker.direction(t + 0.05)
            errors.append(float(dsp.angular_error_deg(azimuth, elevation, *true[:2])))
            seen.append(true[0])
    assert len(errors) > 10 and max(errors) < 3.0
    assert max(seen) - min(seen) > 25
    positions = [scene.snapshot(t).figure.mouth_m for t in (3.0, 3.0 + period)]
    np.testing.assert_allclose(positions[0], positions[1], atol=1e-9)


def test_truth_is_plain_data():
    import json

    truth = dry_scene(0).truth.to_dict()
    assert json.loads(json.dumps(truth)) == truth
    assert {s["kind"] for s in truth["sources"]} == {"talker", "slate", "device"}
    assert len(truth["slate"]["times_s"]) == 2
    endless = dry_scene(1, "talk").truth.to_dict(until_s=10.0)
    assert endless["duration_s"] is None and len(endless["sources"][0]["path"]) == 101


def test_a_rig_without_a_possible_request_is_refused():
    room = msgspec.structs.replace(RIG.room, devices=RIG.room.devices[:1])
    with pytest.raises(InputError, match=r"`room\.devices`"):
        build_scene(msgspec.structs.replace(RIG, room=room))


def test_only_lights_still_make_a_scene_of_space():
    room = msgspec.structs.replace(RIG.room, devices=RIG.room.devices[:2])
    assert plan_request(msgspec.structs.replace(RIG, room=room), 0).grounding == "G3"
