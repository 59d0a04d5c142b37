"""The wire format: one table of every message, the typed header, and how both are packed and checked.

A message has three parts: topic, header, payload (docs/protocol.md). The header is a MessagePack map with the
fields of `Header`; the payload is raw bytes: little-endian C-ordered samples, a JPEG picture, or nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal

import msgspec
import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from dsp.errors import HearthError, InputError

VERSION = 1
MAX_HEADER_BYTES = 1 << 20
MAX_PAYLOAD_BYTES = 64 << 20

Delivery = Literal["every", "latest", "reliable"]
DTypeName = Literal["", "float32", "float64", "int16", "int32", "int64", "uint8", "uint16", "bool"]
Encoding = Literal["none", "raw", "jpeg"]


@dataclass(frozen=True, slots=True)
class MessageSpec:
    """One row of the table: what a stream carries and how it may be delivered.

    delivery: "every"    each message counts; long queues, a loss is counted and never silent;
              "latest"   only the newest matters; old ones are superseded, its own socket;
              "reliable" "every", and the last message is kept for those who join late.
    """

    name: str
    rate: str
    units: str
    sender: str
    logged: bool  # kept in the episode's timeline (or as a file of the episode) while recording
    delivery: Delivery
    carries: str


# Every message there is. docs/protocol.md shows the same table; a test compares the two.
# fmt: off
_TABLE = (
    #           name        rate                  units             sender         logged  delivery
    MessageSpec("foa24",    "1 per capture block", "full scale +-1", "live",       True,  "every",
                "float32 (frames, 4): AmbiX (W, Y, Z, X; SN3D) at 24 kHz"),
    MessageSpec("video",    "camera's frame rate", "",               "live",       True,  "latest",
                "JPEG (or raw uint8 BGR) picture, shape (height, width, 3)"),
    MessageSpec("doa",      "10/s",                "deg",            "live",       True,  "every",
                "azimuth_deg, elevation_deg, confidence, uncertainty_deg, level_dbfs, active"),
    MessageSpec("tracks",   "10/s",                "deg",            "live",       True,  "every",
                "tracks: list of {id, azimuth_deg, elevation_deg, their rates, uncertainty_deg, ...}"),
    MessageSpec("activity", "1 per 20 ms hop",     "dBFS",           "live",       False, "every",
                "hops: list of {t_ns, active, level_dbfs, floor_dbfs}, all that a block completes"),
    MessageSpec("levels",   "10/s",                "dBFS",           "live",       False, "every",
                "peak_dbfs, rms_dbfs, clipped_frames, dead: lists with one value per channel"),
    MessageSpec("health",   "1/s",                 "",               "live",       True,  "every",
                "drops, queue depths, drift_ppm, cpu_percent, rss_mib, stage times"),
    MessageSpec("event",    "as it happens",       "",               "live, home, agent", True, "reliable",
                "kind and its fields: gap, lost, returned, command, declared, said, finished, ..."),
    MessageSpec("home",     "as it changes",       "",               "home",       True,  "reliable",
                "the state of the home: devices with their attributes"),
    MessageSpec("state",    "as it changes",       "",               "live",       True,  "reliable",
                "muted, recording, recording_path, light (off, ready, recording, muted), episode"),
    MessageSpec("hello",    "1 per handshake",     "",               "publisher",  False, "every",
                "next, latest_address, retained: the answer to a subscription"),
    MessageSpec("beat",     "1/s",                 "",               "publisher",  False, "every",
                "next, latest_address, closing: the publisher is alive, or ends"),
)
# fmt: on
MESSAGES: dict[str, MessageSpec] = {spec.name: spec for spec in _TABLE}


@dataclass(frozen=True, slots=True)
class CommandSpec:
    """One row of the table of commands: who answers it, with which arguments and what."""

    op: str
    args: str
    answered_by: str
    answer: str


# Every command there is; docs/protocol.md shows the same table. A service answers those that it has parts for
# (`ops` tells which): without a home, no home.*.
# fmt: off
_COMMANDS = (
    CommandSpec("ops", "", "server", "`ops`: the names of all commands"),
    CommandSpec("time.ping", "`t0_ns`", "server",
                "`t0_ns` as it came, `t1_ns`, `t2_ns`: when it arrived and was answered; `clock`"),
    CommandSpec("client.beat", "`client`, `name`, `leaving`, `receive` (optional)", "server",
                "`timeout_s`: a client that sends none for this long counts as lost"),
    CommandSpec("live.stats", "", "live", "counts of the running service"),
    CommandSpec("live.mute", "`muted`", "live", "the new `state`"),
    CommandSpec("live.record", "`on`, `name` (optional)", "live", "the new `state`"),
    CommandSpec("live.reload", "", "live",
                "`applied`, `needs_restart`: keys of rig.yaml, read again, that differ from what runs"),
    CommandSpec("home.describe", "", "home",
                "the room map: devices with type, name, position, state, commands; microphone and camera; "
                "household; rooms; time"),
    CommandSpec("home.state", "`device_id` (optional)", "home", "attributes"),
    CommandSpec("home.command", "`device_id`, `command`, `args`, `endpoint`, `confirmed`", "home",
                "`changed`, `attributes`"),
    CommandSpec("home.write", "`device_id`, `attribute`, `value`, `confirmed`", "home",
                "`changed`, `attributes`"),
    CommandSpec("home.rooms", "", "home", "`rooms`: air and light of each, as far as they are measured"),
    CommandSpec("home.time", "", "home", "`time`, `tick`"),
    CommandSpec("home.schedule",
                "`steps`; one of `start_time`, `in_s`, `when`; `continue_on_error`, `confirmed`", "home",
                "the workflow: `workflow_id`, `status`, `start_time`, `steps`, `results`"),
    CommandSpec("home.workflows", "", "home", "`workflows`: all of them"),
    CommandSpec("home.workflow_status", "`workflow_id`", "home", "the workflow"),
    CommandSpec("home.cancel", "`workflow_id`", "home", "the workflow, which will not run"),
    CommandSpec("agent.ready", "`agent` (optional)", "home",
                "the agent listens; a new round of reports begins"),
    CommandSpec("agent.heard", "`text`, `evidence` (optional)", "home", "published as event `heard`"),
    CommandSpec("agent.declare", "`device_id` or null (no such device), `evidence` (optional)", "home",
                "published as `declared`; the last one counts"),
    CommandSpec("agent.say", "`text`", "home", "published as `said`"),
    CommandSpec("agent.finish", "`answer`, `outcome` (done, already, refused, asked, failed)", "home",
                "published as `finished`; needs a declaration first"),
    CommandSpec("agent.arbitrated", "`decision`", "home",
                "published as `arbitrated`: which of several rigs answers, and why"),
    CommandSpec("agent.noticed",
                "`kind` (speech, alarm, stop, mute), `t_ns`; `on`, `text`, `late_ms` (optional)", "home",
                "what the fast loop heard, published as an event of that kind"),
    CommandSpec("rig.describe", "", "live",
                "`id` (stable), `lasting` (it is kept over restarts), `name`, `room`, `run` (the epoch)"),
)
# fmt: on
COMMANDS: dict[str, CommandSpec] = {spec.op: spec for spec in _COMMANDS}

# Streams that a client gets when it names none: all but the two that the protocol itself uses.
STREAMS: tuple[str, ...] = tuple(name for name in MESSAGES if name not in ("hello", "beat"))

Count = Annotated[int, Meta(ge=0, le=(1 << 63) - 1)]


class Header(msgspec.Struct, frozen=True, kw_only=True):
    """The second part of a message. Unknown fields are ignored, so version 1 can grow.

    v:           protocol version, 1.
    stream:      name of the stream; the topic is this name and a NUL byte.
    epoch:       random number of this run of the publisher; a new one means it was restarted.
    seq:         0, 1, 2, ... per stream within an epoch.
    t_ns:        CLOCK_MONOTONIC ns of the publisher's host: time of the first sample, of the picture, of the
                 start of the window, or of the event.
    duration_ns: what the message covers, from t_ns on; 0 for an instant. `t_ns + duration_ns` is when the
                 last thing in it happened.
    shape, dtype, encoding: how to read the payload. "raw": C-ordered little-endian array; "jpeg": a picture
                 of this shape; "none": no payload, everything is in `data`.
    units:       of the payload or of the values in `data`.
    sent_ns:     the publisher's clock when it handed the message to the socket; 0: not told.
    data:        values of messages without payload, and remarks on those with one.
    """

    v: Annotated[int, Meta(ge=0)] = VERSION
    stream: Annotated[str, Meta(pattern="^[a-z][a-z0-9_]{0,31}$")]
    epoch: Count
    seq: Count
    t_ns: Annotated[int, Meta(ge=-(1 << 63), le=(1 << 63) - 1)]
    duration_ns: Count = 0
    shape: Annotated[tuple[Count, ...], Meta(max_length=4)] = ()
    dtype: DTypeName = ""
    units: Annotated[str, Meta(max_length=64)] = ""
    encoding: Encoding = "none"
    sent_ns: Count = 0
    data: dict[str, Any] = {}


class MessageError(HearthError, ValueError):
    """Bytes that are not a message of this protocol; `reason` is one of REJECTIONS."""

    def __init__(self, reason: str, text: str) -> None:
        super().__init__(text)
        self.reason = reason


REJECTIONS = ("malformed", "oversized", "wrong_version")


class _VersionOnly(msgspec.Struct):
    v: int


def _plain(value: Any) -> Any:
    """numpy values in `data` become plain ones."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return value.tolist()
    raise TypeError(
        f"{type(value).__name__} cannot be sent in `data`; use plain numbers, strings, lists, dicts"
    )


_encode = msgspec.msgpack.Encoder(enc_hook=_plain).encode
_decode = msgspec.msgpack.Decoder(Header).decode
_decode_version = msgspec.msgpack.Decoder(_VersionOnly).decode
_JPEG_START = b"\xff\xd8\xff"


def topic(stream: str, suffix: bytes = b"") -> bytes:
    """The first part of a message: the stream's name and NUL (so that no name is the prefix of another)."""
    return stream.encode("ascii") + b"\0" + suffix


def encode_data(value: Any) -> bytes:
    """Any plain value (numpy numbers and arrays too) as MessagePack; InputError names what cannot be sent."""
    try:
        return _encode(value)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise InputError(f"cannot be sent as MessagePack: {error}") from None


def describe_payload(
    payload: NDArray[Any] | bytes | None, shape: tuple[int, ...] | None, encoding: Encoding | None
) -> tuple[bytes | memoryview, tuple[int, ...], DTypeName, Encoding]:
    """Bytes, shape, dtype and encoding of what is to be sent.

    An array gives its own shape and dtype; bytes are a JPEG and need `shape` = (height, width, 3). Raises
    InputError for a dtype that the protocol does not have and for bytes that are no JPEG.
    """
    if payload is None:
        return b"", (), "", "none"
    if isinstance(payload, np.ndarray):
        name = payload.dtype.name
        if name not in DTypeName.__args__ or not name:  # type: ignore[attr-defined]
            allowed = ", ".join(n for n in DTypeName.__args__ if n)  # type: ignore[attr-defined]
            raise InputError(f"an array of dtype {name} cannot be sent; allowed: {allowed}")
        if payload.ndim > 4:
            raise InputError(f"an array with {payload.ndim} axes cannot be sent; at most 4")
        little = payload.astype(payload.dtype.newbyteorder("<"), copy=False)
        contiguous = np.ascontiguousarray(little).reshape(payload.shape)
        return contiguous.tobytes(), payload.shape, name, "raw"  # type: ignore[return-value]
    if encoding not in (None, "jpeg") or not bytes(payload[:3]) == _JPEG_START:
        raise InputError("bytes can only be sent as a JPEG picture (encoding 'jpeg'); send arrays as arrays")
    if shape is None or len(shape) != 3:
        raise InputError(f"a JPEG needs shape=(height, width, channels), got {shape}")
    return payload, tuple(shape), "uint8", "jpeg"


def pack(header: Header, payload: bytes | memoryview = b"", suffix: bytes = b"") -> list[bytes | memoryview]:
    """The three parts of a message. Raises InputError for `data` that MessagePack cannot carry."""
    packed = encode_data(header)
    if len(packed) > MAX_HEADER_BYTES or len(payload) > MAX_PAYLOAD_BYTES:
        raise InputError(
            f"a message of {header.stream} is too large: header {len(packed)} bytes (limit "
            f"{MAX_HEADER_BYTES}), payload {len(payload)} bytes (limit {MAX_PAYLOAD_BYTES})"
        )
    return [topic(header.stream, suffix), packed, payload]


def unpack(parts: list[bytes]) -> tuple[Header, bytes]:
    """Check the parts of a received message; returns header and payload.

    Raises MessageError with reason "malformed", "oversized" or "wrong_version"; never anything else,
    whatever the bytes are.
    """
    if len(parts) != 3:
        raise MessageError("malformed", f"a message has 3 parts, this one has {len(parts)}")
    name, packed, payload = parts
    if len(name) > 128 or len(packed) > MAX_HEADER_BYTES or len(payload) > MAX_PAYLOAD_BYTES:
        sizes = f"topic {len(name)}, header {len(packed)}, payload {len(payload)} bytes"
        raise MessageError("oversized", f"a message beyond the protocol's limits: {sizes}")
    try:
        header = _decode(packed)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, ValueError) as error:
        raise _rejection(packed, error) from None
    if header.v != VERSION:
        raise MessageError("wrong_version", f"protocol version {header.v}; this client speaks {VERSION}")
    if name.split(b"\0", 1)[0] != header.stream.encode("ascii") or b"\0" not in name:
        raise MessageError("malformed", f"topic {name[:40]!r} does not belong to stream {header.stream!r}")
    _check_payload(header, payload)
    return header, payload


def _rejection(packed: bytes, error: Exception) -> MessageError:
    """A header of another version may have other types: tell that apart from rubbish."""
    try:
        version = _decode_version(packed).v
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, ValueError):
        version = VERSION
    if version != VERSION:
        return MessageError("wrong_version", f"protocol version {version}; this client speaks {VERSION}")
    return MessageError("malformed", f"not a header of this protocol: {error}")


def _check_payload(header: Header, payload: bytes) -> None:
    size = len(payload)
    if header.encoding == "none":
        fits = size == 0 and header.shape == () and header.dtype == ""
    elif header.encoding == "jpeg":
        fits = payload[:3] == _JPEG_START and len(header.shape) == 3 and header.dtype == "uint8"
    else:
        count = 1
        for extent in header.shape:
            count *= extent
        fits = header.dtype != "" and size == count * np.dtype(header.dtype).itemsize
    if not fits:
        raise MessageError(
            "malformed",
            f"payload of {size} bytes does not fit encoding {header.encoding!r}, dtype {header.dtype!r}, "
            f"shape {header.shape} of stream {header.stream!r}",
        )


def read_array(header: Header, payload: bytes) -> NDArray[Any] | None:
    """The payload as a read-only array of the header's shape and dtype; None unless encoding is "raw"."""
    if header.encoding != "raw":
        return None
    return np.frombuffer(payload, dtype=np.dtype(header.dtype).newbyteorder("<")).reshape(header.shape)


# --- Commands: one request, one reply, over the command address ---

MAX_COMMAND_BYTES = 1 << 20


class Request(msgspec.Struct, kw_only=True):
    """A command: `op` with its arguments. Unknown fields are ignored."""

    v: int = VERSION
    op: Annotated[str, Meta(pattern=r"^[a-z][a-z0-9_.]{0,63}$")]
    args: dict[str, Any] = {}


class ReplyError(msgspec.Struct, kw_only=True):
    """Why a command failed: `type` is the name of the error, `detail` its message for people."""

    type: str
    detail: str


class Reply(msgspec.Struct, kw_only=True):
    """The answer: `data` when `ok`, else `error`."""

    v: int = VERSION
    ok: bool
    data: Any = None
    error: ReplyError | None = None


_decode_request = msgspec.msgpack.Decoder(Request).decode


def unpack_request(body: bytes) -> Request:
    """Check a received command; raises MessageError like `unpack`."""
    if len(body) > MAX_COMMAND_BYTES:
        raise MessageError("oversized", f"a command of {len(body)} bytes; the limit is {MAX_COMMAND_BYTES}")
    try:
        request = _decode_request(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, ValueError) as error:
        raise _rejection(body, error) from None
    if request.v != VERSION:
        raise MessageError("wrong_version", f"protocol version {request.v}; this server speaks {VERSION}")
    return request
