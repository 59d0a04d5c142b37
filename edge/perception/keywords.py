"""The words of the fast loop, "stop" and "be quiet", within 300 ms of their end.

A word counts when it stands alone: silence, at most 1.2 s of voice, an eighth of a second without voice.
Then Whisper (the recogniser's own model, so nothing more to install) writes the last two seconds, which takes
40 to 80 ms of one core, since its encoder gets two seconds instead of thirty. A command is noticed when one
of its words is the best reading, or all but the best. "Stop that humming" is no command of the fast loop: it
goes on, and the slow loop answers it. "Mute" alone is hard for the model (docs/hearing.md).
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from dsp.errors import InputError, MissingDependency
from edge.perception.voice import RATE_HZ, SileroVoice, Voice
from edge.perception.whisper import model_folder

F32 = NDArray[np.float32]
Command = Literal["stop", "mute", "alarm"]

WORDS: dict[str, Command] = {
    "stop": "stop",
    "stop it": "stop",
    "mute": "mute",
    "quiet": "mute",
    "be quiet": "mute",
    "silence": "mute",
    "shut up": "mute",
}
START, STAY = 0.5, 0.35  # probability of speech
QUIET_FRAMES = 4  # of 32 ms, without voice, before a word has ended
ALONE_S = 0.3  # without voice before it
SHORTEST_S, LONGEST_S = 0.12, 1.2
KEPT_S = 2.0
LEAD_S = 0.25  # of sound before the word
FRAMES = 200  # of 10 ms that the encoder sees, at least
BEAM = 4
MOST_TOKENS = 5
NEARLY = 0.4  # nats per token that a command's word may lose against the best reading


@dataclass(frozen=True, slots=True)
class Noticed:
    """A command of the fast loop. t_ns: when the word (or the alarm's deciding pulse) ended; decided_ns: of
    the last sound that was needed to know, so decided_ns - t_ns is the waiting, the rest computing. heard:
    the words. score: of the reading, nats per token below the best (0: it is the best)."""

    kind: Command
    t_ns: int
    decided_ns: int
    heard: str = ""
    score: float = 0.0


class KeywordSpotter:
    """Push consecutive mono blocks at `fs`; get commands. For one thread of its own: `push` takes up to 0.1 s
    where a word has ended. A gap in time starts afresh.

    folder: a CTranslate2 Whisper model, None: the one inside the wheel.
    Raises MissingDependency without the extra [perception].
    """

    def __init__(self, fs: int = 24000, folder: str | None = None, threads: int = 1) -> None:
        self._words = _Words(folder, threads)
        self._fs = fs
        self._restart(0)

    def _restart(self, t_ns: int) -> None:
        import dsp

        self._t0_ns, self._frames = t_ns, 0
        self._resampler = None if self._fs == RATE_HZ else dsp.Resampler(self._fs, RATE_HZ, 1)
        self._delay_s = 0.0 if self._resampler is None else self._resampler.delay_s
        self._detector = SileroVoice(RATE_HZ)
        self._sound: F32 = np.zeros(0, np.float32)
        self._first = 0  # number of the first sample kept, at 16 kHz
        self._start: int | None = None
        self._last = 0  # sample after the last voiced frame
        self._quiet = 0
        self._alone = True

    def push(self, mono: F32, t_ns: int) -> list[Noticed]:
        """mono: (frames,) float32, the first sample at t_ns. Raises InputError for another shape."""
        x = np.asarray(mono, np.float32)
        if x.ndim != 1:
            raise InputError(f"the spotter takes one channel (frames,), got {x.shape}; W of an AmbiX block")
        if self._frames == 0 or abs(t_ns - self._t0_ns - self._frames * 1e9 / self._fs) > 20e6:
            self._restart(t_ns)
        self._frames += len(x)
        if self._resampler is not None:
            x = self._resampler.push(x[:, None])[:, 0]
        self._sound = np.concatenate([self._sound, x])
        spare = len(self._sound) - round(KEPT_S * RATE_HZ) - len(x)
        if spare > 0:
            self._sound, self._first = self._sound[spare:], self._first + spare
        out = []
        for voice in self._detector.push(x):
            found = self._step(voice)
            if found is not None:
                out.append(found)
        return out

    def _step(self, voice: Voice) -> Noticed | None:
        begin = round(voice.t_s * RATE_HZ)
        end = begin + round(voice.duration_s * RATE_HZ)
        if voice.probability >= (START if self._start is None else STAY):
            if self._start is None:
                self._alone = begin - self._last >= ALONE_S * RATE_HZ or self._last == 0
                self._start = begin
            self._last, self._quiet = end, 0
            return None
        self._quiet += 1
        if self._start is None or self._quiet < QUIET_FRAMES:
            return None
        start, self._start = self._start, None
        long = self._last - start
        if not self._alone or not SHORTEST_S * RATE_HZ <= long <= LONGEST_S * RATE_HZ:
            return None
        begin = max(self._first, start - round(LEAD_S * RATE_HZ))
        found = self._words.command(self._sound[begin - self._first : end - self._first])
        if found is None:
            return None
        return Noticed(found[0], self._time_ns(self._last), self._time_ns(end), found[1], found[2])

    def _time_ns(self, sample: int) -> int:
        return self._t0_ns + round((sample / RATE_HZ - self._delay_s) * 1e9)


class _Words:
    """Whisper on a short piece of sound."""

    def __init__(self, folder: str | None, threads: int) -> None:
        os.environ.setdefault("HF_HUB_OFFLINE", "1")
        path = model_folder(folder)
        try:
            from faster_whisper import WhisperModel  # type: ignore
            from faster_whisper.tokenizer import Tokenizer  # type: ignore
        except ImportError as error:
            raise MissingDependency(
                f"words are spotted by faster-whisper ({error}): pip install 'hearth-home[perception]'"
            ) from None
        self._whisper: Any = WhisperModel(
            str(path), device="cpu", compute_type="int8", cpu_threads=threads, local_files_only=True
        )
        many = self._whisper.model.is_multilingual
        self._tokens: Any = Tokenizer(self._whisper.hf_tokenizer, many, task="transcribe", language="en")
        self._prompt = [*self._tokens.sot_sequence, self._tokens.no_timestamps]

    def command(self, mono: F32) -> tuple[Command, str, float] | None:
        """mono (frames,) at 16 kHz -> (command, its words, how much worse than the best reading)."""
        features = self._whisper.feature_extractor(mono, padding=RATE_HZ // 100)
        bands, length = features.shape
        padded = np.zeros((bands, max(FRAMES, length + 50)), np.float32)
        padded[:, :length] = features
        result = self._whisper.model.generate(
            self._whisper.encode(padded),
            [self._prompt],
            beam_size=BEAM,
            num_hypotheses=BEAM,
            max_length=len(self._prompt) + MOST_TOKENS,
            return_scores=True,
        )[0]
        for tokens, score in zip(result.sequences_ids, result.scores, strict=True):
            heard = plain(self._tokens.decode(tokens))
            loss = float(result.scores[0] - score)
            if heard in WORDS and loss <= NEARLY:
                return WORDS[heard], heard, loss
        return None


def plain(text: str) -> str:
    """Lower-case words, once: a small model on a short sound repeats itself, and stammers at its end
    ("Stop... Stop... Stop..." -> "stop", "Mute m" -> "mute")."""
    words = re.findall(r"[a-z']+", text.lower())
    while len(words) > 1 and len(words[-1]) == 1:
        words.pop()
    for size in (1, 2):
        if words and all(word == words[at % size] for at, word in enumerate(words)):
            return " ".join(words[:size])
    return " ".join(words)
