"""Recording streams into an MCAP file that Foxglove and tools like it open.

| topic | schema | what |
|---|---|---|
| /video | foxglove.CompressedImage | pictures as they came: JPEG (raw ones as PNG) |
| /foa24 | hearth.Audio | the four channels as they came, float32 |
| /foa24_w | foxglove.RawAudio | W in 16 bit, to listen to |
| /doa, /tracks, /event, ... | hearth.Message | the message with its header; `data` holds the values |
| /recorder | foxglove.Log | what happened to the recording: a publisher that fell silent, that came back |

Everything is JSON with JSON schemas, bytes in it base64. Times are UTC: `log_time` when a message arrived
here, `publish_time` and `timestamp` when what it carries began. `t_ns` keeps the rig's own clock, and the
metadata record `hearth.clock` how both belong together.
"""

from __future__ import annotations

import base64
import json
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
from numpy.typing import NDArray

from capture.blocks import monotonic_ns
from dsp.errors import DeviceError, InputError
from edge.stream.client import Client
from edge.stream.mcap_file import McapWriter
from edge.stream.messages import MESSAGES, VERSION
from edge.stream.received import Message, StreamEnded, StreamLost, StreamTimeout
from recordings.mcap_schemas import AUDIO, IMAGE, LOG, MESSAGE, RAW_AUDIO, time_of, w_to_listen_to

_WARNING, _INFO = 3, 2  # levels of foxglove.Log


def _encode(value: dict[str, Any]) -> bytes:
    return msgspec.json.encode(value)


class StreamRecorder:
    """Writes what a `Client` receives into an MCAP file.

    path must not exist. `run` records; `close` ends the file with its index and the counts of what was lost.
    A killed recorder leaves a file that is readable but for the last quarter of a second.
    Raises StorageError for a file that cannot be written.
    """

    def __init__(self, client: Client, path: Path) -> None:
        self._client = client
        self._writer = McapWriter(path)
        self._schemas: dict[str, int] = {}
        self._channels: dict[str, int] = {}
        self._logged = 0
        self.recorded: Counter[str] = Counter()
        self.lost_publisher = 0
        # One relation of this host's clocks for the whole recording: a step of UTC moves nothing in it.
        self._utc_ns = time.time_ns() - monotonic_ns()

    def __enter__(self) -> StreamRecorder:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def path(self) -> Path:
        return self._writer.path

    @property
    def size_bytes(self) -> int:
        return self._writer.size_bytes

    def run(
        self,
        seconds: float | None = None,
        stop: threading.Event | None = None,
        progress: Callable[[StreamRecorder], None] | None = None,
    ) -> str:
        """Record until `seconds` have passed ("seconds"), `stop` is set ("stopped") or the publisher ends
        ("publisher ended"); returns which. A publisher that is killed and comes back is recorded on."""
        self._about_clock()
        deadline = None if seconds is None else time.monotonic() + seconds
        away = False
        while True:
            if stop is not None and stop.is_set():
                return "stopped"
            if deadline is not None and time.monotonic() >= deadline:
                return "seconds"
            try:
                message = self._client.receive(0.1)
            except StreamLost as error:
                away, self.lost_publisher = True, self.lost_publisher + 1
                self.log(_WARNING, str(error))
            except StreamTimeout:
                self._writer.flush()
            except StreamEnded:
                return "publisher ended"
            else:
                if away and not message.retained:
                    away = False
                    self.log(_INFO, f"messages arrive again (epoch {message.epoch})")
                self.add(message)
            if progress is not None:
                progress(self)

    def add(self, message: Message) -> None:
        """Append one message."""
        times = self._times(message)
        stamp = {"timestamp": time_of(times[1])}
        if message.stream == "video":
            data, name = _picture(message)
            image = {**stamp, "frame_id": "camera", "data": base64.b64encode(data).decode(), "format": name}
            image["header"] = _header(message)
            self._append("/video", "foxglove.CompressedImage", IMAGE, message, times, image)
        elif message.stream == "foa24" and message.array is not None and message.array.ndim == 2:
            self._add_sound(message, message.array, times, stamp)
        else:
            value = {**stamp, **_header(message)}
            self._append(f"/{message.stream}", "hearth.Message", MESSAGE, message, times, value)
        self.recorded[message.stream] += 1

    def log(self, level: int, text: str) -> None:
        """Append a remark on the recording itself (level of foxglove.Log: 2 info, 3 warning)."""
        now = self._utc_ns + monotonic_ns()
        entry = {
            "timestamp": time_of(now),
            "level": level,
            "message": text,
            "name": "hearth",
            "file": "",
            "line": 0,
        }
        channel = self._channel("/recorder", "foxglove.Log", LOG, {})
        self._writer.add_message(channel, self._logged, now, now, _encode(entry))
        self._logged += 1

    def close(self) -> None:
        """Write the counts and the index; safe to call twice."""
        counts = {
            name: json.dumps({**count, "recorded": self.recorded[name]})
            for name, count in self._client.statistics().items()
        }
        try:
            self._about_clock()
            self._writer.add_metadata("hearth.statistics", counts)
        finally:
            self._writer.close()

    def _add_sound(
        self, message: Message, samples: NDArray[Any], times: tuple[int, int], stamp: dict[str, Any]
    ) -> None:
        about = {"sample_rate": message.data.get("rate_hz", 24000), "number_of_channels": samples.shape[1]}
        packed = base64.b64encode(message.payload).decode()
        whole = {**stamp, "samples": packed, "format": message.header.dtype, **about, **_header(message)}
        self._append("/foa24", "hearth.Audio", AUDIO, message, times, whole)
        heard = w_to_listen_to(samples, about["sample_rate"], stamp)
        self._append("/foa24_w", "foxglove.RawAudio", RAW_AUDIO, message, times, heard)

    def _append(
        self,
        topic: str,
        name: str,
        schema: bytes,
        message: Message,
        times: tuple[int, int],
        value: dict[str, Any],
    ) -> None:
        spec = MESSAGES[message.stream]
        about = {"rate": spec.rate, "units": spec.units, "delivery": spec.delivery, "carries": spec.carries}
        channel = self._channel(topic, name, schema, about)
        self._writer.add_message(channel, message.seq, *times, _encode(value))

    def _channel(self, topic: str, name: str, schema: bytes, about: dict[str, str]) -> int:
        if topic not in self._channels:
            if name not in self._schemas:
                self._schemas[name] = self._writer.add_schema(name, "jsonschema", schema)
            self._channels[topic] = self._writer.add_channel(topic, "json", self._schemas[name], about)
        return self._channels[topic]

    def _times(self, message: Message) -> tuple[int, int]:
        """UTC ns of its arrival and of its begin."""
        began_ns = message.t_ns - message.clock_offset_ns
        return max(self._utc_ns + message.received_ns, 0), max(self._utc_ns + began_ns, 0)

    def _about_clock(self) -> None:
        """How UTC and CLOCK_MONOTONIC of this host and CLOCK_MONOTONIC of the rig belong together now."""
        facts = {"utc_minus_monotonic_ns": str(self._utc_ns), "protocol": str(VERSION)}
        try:
            state = self._client.clock.state
        except InputError:  # no command address: not compared
            state = None
        if state is not None:
            facts |= {
                "at_monotonic_ns": str(state.at_ns),
                "rig_minus_local_ns": str(state.offset_ns),
                "uncertainty_ns": str(state.uncertainty_ns),
                "drift_ppm": f"{state.drift_ppm:.6f}",
            }
        self._writer.add_metadata("hearth.clock", facts)


def _header(message: Message) -> dict[str, Any]:
    header = message.header
    return {
        "epoch": header.epoch,
        "seq": header.seq,
        "t_ns": header.t_ns,
        "duration_ns": header.duration_ns,
        "units": header.units,
        "retained": message.retained,
        "data": header.data,
    }


def _picture(message: Message) -> tuple[bytes, str]:
    """The bytes and format of a picture: a JPEG as it is, a raw one as PNG, which loses nothing."""
    if message.header.encoding == "jpeg":
        return message.payload, "jpeg"
    import cv2

    done, data = cv2.imencode(".png", message.image())
    if not done:
        raise DeviceError(f"picture {message.seq} could not be packed as PNG")
    return data.tobytes(), "png"
