"""The messages of Hearth's MCAP files: what a live recorder writes and what a release holds are the same.

| topic | schema | what |
|---|---|---|
| /video, /video_<camera> | foxglove.CompressedImage | pictures: JPEG (raw ones as PNG) |
| /foa24 | hearth.Audio | four channels, float32: AmbiX at 24 kHz |
| /foa24_w | foxglove.RawAudio | W in 16 bit, to listen to |
| /doa, /tracks, ... | hearth.Message | a message of docs/protocol.md: its header, and values in `data` |

Everything is JSON with JSON schemas, bytes in it base64; `timestamp` is UTC.
"""

from __future__ import annotations

import base64
import json
from typing import Any

import numpy as np
from numpy.typing import NDArray

_TIME = {
    "type": "object",
    "title": "time",
    "properties": {
        "sec": {"type": "integer", "minimum": 0},
        "nsec": {"type": "integer", "minimum": 0, "maximum": 999_999_999},
    },
}
_BYTES = {"type": "string", "contentEncoding": "base64"}
_COUNT = {"type": "integer", "minimum": 0}
_TEXT = {"type": "string"}
_HEADER = {
    "epoch": {**_COUNT, "description": "another one: the publisher was restarted"},
    "seq": {**_COUNT, "description": "number of the message within its stream and epoch"},
    "t_ns": {"type": "integer", "description": "CLOCK_MONOTONIC ns of the rig"},
    "duration_ns": _COUNT,
    "units": {"type": "string"},
    "retained": {
        "type": "boolean",
        "description": "sent before the recording began",
    },
    "data": {"type": "object", "description": "see docs/protocol.md"},
}


def _schema(title: str, **properties: Any) -> bytes:
    return json.dumps(
        {"title": title, "type": "object", "properties": {"timestamp": _TIME, **properties}}
    ).encode()


IMAGE = _schema(
    "foxglove.CompressedImage",
    frame_id=_TEXT,
    data=_BYTES,
    format=_TEXT,
    header={"type": "object", "properties": _HEADER},
)
RAW_AUDIO = _schema(
    "foxglove.RawAudio", data=_BYTES, format=_TEXT, sample_rate=_COUNT, number_of_channels=_COUNT
)
AUDIO = _schema(
    "hearth.Audio",
    samples={**_BYTES, "description": "little-endian, interleaved"},
    format=_TEXT,
    sample_rate=_COUNT,
    number_of_channels=_COUNT,
    **_HEADER,
)
LOG = _schema("foxglove.Log", level=_COUNT, message=_TEXT, name=_TEXT, file=_TEXT, line=_COUNT)
MESSAGE = _schema("hearth.Message", **_HEADER)


def time_of(utc_ns: int) -> dict[str, int]:
    """The `timestamp` of a message."""
    sec, nsec = divmod(max(utc_ns, 0), 1_000_000_000)
    return {"sec": sec, "nsec": nsec}


def w_to_listen_to(samples: NDArray[np.float32], rate_hz: int, stamp: dict[str, Any]) -> dict[str, Any]:
    """foxglove.RawAudio of the first channel of (frames, channels); stamp: its `timestamp`."""
    w = np.clip(np.round(samples[:, 0] * 32767.0), -32768, 32767).astype("<i2")
    return {
        **stamp,
        "data": base64.b64encode(w.tobytes()).decode(),
        "format": "pcm-s16",
        "sample_rate": rate_hz,
        "number_of_channels": 1,
    }
