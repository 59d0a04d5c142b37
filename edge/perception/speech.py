"""What was said: the interface of every recogniser, and a way to bring one's own."""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from dsp.errors import InputError, MissingDependency

F32 = NDArray[np.float32]
SPEECH_RATE_HZ = 16000


@dataclass(frozen=True, slots=True)
class Recognition:
    """What a recogniser heard in one utterance.

    text: the words; "" for no speech. confidence: 0..1, how sure it is of exactly these words. expected: the
    text is a request that the recogniser was told to expect (None: it was told nothing).
    heard: the words without that expectation. alternatives: other readings with their log probability per
    word relative to the best. provenance: which model, by name and hash. seconds: what it took.
    """

    text: str
    confidence: float
    expected: bool | None = None
    heard: str = ""
    alternatives: tuple[tuple[str, float], ...] = ()
    provenance: dict[str, Any] = field(default_factory=dict)
    seconds: float = 0.0

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for traces."""
        return asdict(self)


class Recogniser(Protocol):
    """Anything that turns one utterance into words.

    `mono` is float32 (frames,), full scale +-1, at `fs` Hz (24000 from the stream). It must not keep the
    array, and may be called from one thread at a time.
    """

    def recognise(self, mono: F32, fs: int) -> Recognition: ...


class Expectation(Protocol):
    """What may be asked in a home, for a recogniser (`edge.language.expectation`).

    prompt: requests as examples. said_so: the sentence that a reading is, in its right spelling, where it is
    expected or a control word. whole: the reading is a request with no odd word. nearest: requests of
    different meaning that sound like the readings, with the distance per sound (0: the same, 1: nothing
    alike), nearest first.
    """

    @property
    def prompt(self) -> str: ...
    def said_so(self, reading: str) -> str | None: ...
    def whole(self, reading: str) -> bool: ...
    def nearest(self, readings: Sequence[str], count: int) -> list[tuple[str, float]]: ...


@runtime_checkable
class RequestRecogniser(Recogniser, Protocol):
    """A recogniser that can be told what to expect."""

    def recognise_request(self, mono: F32, fs: int, expectation: Expectation) -> Recognition: ...


class FunctionRecogniser:
    """A user's own function `(mono float32 at 16 kHz, 16000) -> str` as a recogniser."""

    def __init__(self, function: Callable[[F32, int], str], name: str) -> None:
        self._function = function
        self._name = name

    def recognise(self, mono: F32, fs: int) -> Recognition:
        """Calls the function; the confidence of a function that tells none is 1 for words, 0 for nothing."""
        started = time.perf_counter()
        text = self._function(at_speech_rate(mono, fs), SPEECH_RATE_HZ)
        if not isinstance(text, str):
            raise InputError(f"the recogniser {self._name} returned {type(text).__name__}, expected str")
        seconds = time.perf_counter() - started
        return Recognition(
            text, 1.0 if text else 0.0, None, text, provenance={"function": self._name}, seconds=seconds
        )


def at_speech_rate(mono: F32, fs: int) -> F32:
    """(frames,) float at `fs` -> float32 at 16 kHz. Raises InputError for another shape."""
    x = np.asarray(mono, np.float32)
    if x.ndim != 1:
        raise InputError(
            f"a recogniser takes one channel (frames,), got {x.shape}; aim a virtual microphone first"
        )
    if fs == SPEECH_RATE_HZ:
        return x
    import dsp

    return np.asarray(dsp.resample(x[:, None], fs, SPEECH_RATE_HZ)[:, 0], np.float32)


def load_recogniser(spec: str = "whisper") -> Recogniser:
    """A recogniser by name.

    "whisper": the default, Whisper tiny.en inside a wheel. "whisper:FOLDER": another Whisper model converted
    to CTranslate2. "package.module:function": your own `(mono, fs) -> str`, or a class with `recognise`.
    Raises MissingDependency when the model's libraries are absent, InputError for what cannot be loaded.
    """
    kind, _, rest = spec.partition(":")
    if kind == "whisper":
        from edge.perception.whisper import WhisperRecogniser

        return WhisperRecogniser(rest or None)
    found = _own(spec)
    if isinstance(found, type):
        found = found()
    return found if hasattr(found, "recognise") else FunctionRecogniser(found, spec)


def check_recogniser(spec: str) -> None:
    """Raise what `load_recogniser` would raise, as far as it can be told without loading a model."""
    kind, _, rest = spec.partition(":")
    if kind == "whisper":
        from edge.perception.whisper import model_folder

        model_folder(rest or None)
    else:
        _own(spec)


def _own(spec: str) -> Any:
    """What `package.module:function` names."""
    kind, _, rest = spec.partition(":")
    if not rest:
        raise InputError(
            f"unknown recogniser {spec!r}; use whisper, whisper:FOLDER or package.module:function"
        )
    try:
        found = getattr(importlib.import_module(kind), rest)
    except ImportError as error:
        raise MissingDependency(f"cannot import the recogniser {spec!r}: {error}") from None
    except AttributeError:
        raise InputError(f"the module {kind} has no {rest!r}") from None
    if not callable(found) and not hasattr(found, "recognise"):
        raise InputError(f"{spec!r} is neither a function nor a class with `recognise`")
    return found
