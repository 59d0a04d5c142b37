"""Is somebody speaking right now: the interface, and Silero VAD as the default.

Activity alone cannot tell speech from music or beeps; a trained detector can. The default is the Silero
model (MIT) that comes inside faster-whisper; it takes about 1 ms of CPU per 32 ms of sound.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from dsp.errors import MissingDependency

F32 = NDArray[np.float32]
RATE_HZ = 16000
FRAME = 512  # samples at 16 kHz
CONTEXT = 64  # samples of the frame before that the model sees too


@dataclass(frozen=True, slots=True)
class Voice:
    """One frame: start in seconds after the first sample pushed, length, probability of speech."""

    t_s: float
    duration_s: float
    probability: float


class VoiceDetector(Protocol):
    """Streaming detector: push mono float32 at the rate it was made for, get the frames that are complete."""

    def push(self, mono: F32) -> list[Voice]: ...


class SileroVoice:
    """Silero VAD on a stream of mono samples at `fs` Hz. The result does not depend on the block size.

    Raises MissingDependency when faster-whisper or onnxruntime is absent.
    """

    def __init__(self, fs: int = 24000) -> None:
        import dsp

        self._session = _session()
        self._resampler = None if fs == RATE_HZ else dsp.Resampler(fs, RATE_HZ, 1)
        self._delay_s = 0.0 if self._resampler is None else self._resampler.delay_s
        self._pending: F32 = np.zeros(0, np.float32)
        self._context: F32 = np.zeros(CONTEXT, np.float32)
        self._h: F32 = np.zeros((1, 1, 128), np.float32)
        self._c: F32 = np.zeros((1, 1, 128), np.float32)
        self._frames = 0

    def push(self, mono: F32) -> list[Voice]:
        """(frames,) float32; returns the 32 ms frames completed by them."""
        x = np.asarray(mono, np.float32)
        if self._resampler is not None:
            x = self._resampler.push(x[:, None])[:, 0]
        self._pending = np.concatenate([self._pending, x])
        out = []
        while len(self._pending) >= FRAME:
            frame, self._pending = self._pending[:FRAME], self._pending[FRAME:]
            out.append(self._step(frame))
        return out

    def _step(self, frame: F32) -> Voice:
        window = np.concatenate([self._context, frame])[None, :]
        self._context = frame[-CONTEXT:]
        result, self._h, self._c = self._session.run(None, {"input": window, "h": self._h, "c": self._c})
        t_s = self._frames * FRAME / RATE_HZ - self._delay_s
        self._frames += 1
        return Voice(t_s, FRAME / RATE_HZ, float(np.ravel(result)[-1]))


def _session() -> Any:
    try:
        import faster_whisper  # type: ignore
        import onnxruntime  # type: ignore
    except ImportError as error:
        raise MissingDependency(
            f"speech detection needs faster-whisper ({error});"
            " install it with: pip install 'hearth-home[perception]'"
        ) from None
    path = Path(faster_whisper.__file__).parent / "assets" / "silero_vad_v6.onnx"
    if not path.is_file():
        raise MissingDependency(
            f"this faster-whisper ({faster_whisper.__version__}) has no {path.name};"
            " install version 1.2.1 or newer"
        )
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
