"""rig.yaml: the one strict file that describes microphone, camera, room, storage and endpoints.

Keys carry their unit in the name (`rate_hz`, `position_m`, `yaw_deg`). A misspelt key, a wrong unit or an
impossible value is an InputError that names the key and what is allowed.
"""

from __future__ import annotations

import difflib
import math
import re
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import yaml
from msgspec import Meta

from capture.camera_address import shown_address
from dsp.errors import InputError
from recordings.calibrated import OF_THE_RIG
from recordings.calibration_result import Kind
from recordings.device_types import DeviceType
from recordings.yaml_text import load_strict_yaml

Coordinate = Annotated[float, Meta(ge=-100, le=100)]
Metres = tuple[Coordinate, Coordinate, Coordinate]
Length = Annotated[float, Meta(gt=0, le=100)]
Id = Annotated[str, Meta(pattern=r"^[a-z][a-z0-9_]*\Z")]
RigId = Annotated[str, Meta(pattern=r"^[a-z][a-z0-9_]{2,63}\Z")]
Text = Annotated[str, Meta(min_length=1, max_length=500)]


class Microphone(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """The microphone: where its blocks come from, what they mean, and where it stands in the room."""

    source: Literal["virtual", "sounddevice", "pyaudio", "file"] = "virtual"
    device: Text | None = None  # a part of the device's name, e.g. "H3-VR"; never an index
    file: Text | None = None  # for source: file
    pace: Literal["realtime", "fast"] = "realtime"  # for source: file and virtual
    rate_hz: Literal[44100, 48000, 96000] = 48000
    channels: Annotated[int, Meta(ge=1, le=64)] = 4
    format: Literal["ambix", "fuma", "n3d", "a", "a2"] = "ambix"
    block_ms: Annotated[float, Meta(ge=1, le=200)] = 10.0
    position_m: Metres = (2.6, 0.4, 1.2)  # of the capsules, in the room frame
    yaw_deg: Annotated[float, Meta(ge=-360, le=360)] = 90.0  # where its front points, from +x towards +y


class Camera(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """The camera: where its pictures come from and where it sits beside the microphone."""

    source: Literal["virtual", "v4l2", "url", "file", "none"] = "virtual"
    # For source: v4l2: the number N of /dev/videoN, or a part of the camera's name.
    device: Annotated[int, Meta(ge=0, le=63)] | Text = 0
    url: Text | None = None  # for source: url (rtsp://, http://)
    file: Text | None = None  # for source: file
    pace: Literal["realtime", "fast"] = "realtime"  # for source: file and virtual
    width_px: Annotated[int, Meta(ge=16, le=7680)] = 640
    height_px: Annotated[int, Meta(ge=16, le=4320)] = 360
    fps: Annotated[float, Meta(gt=0, le=240)] = 15.0
    fourcc: Annotated[str, Meta(pattern=r"^[A-Za-z0-9]{4}\Z")] = "MJPG"
    hfov_deg: Annotated[float, Meta(gt=5, lt=175)] = 90.0  # nominal; a calibration result replaces it
    position_m: Metres = (0.0, 0.0, 0.08)  # of the camera in the *microphone* frame (x forward, y left, z up)
    yaw_deg: Annotated[float, Meta(ge=-180, le=180)] = 0.0  # against the microphone's front, to the left
    pitch_deg: Annotated[float, Meta(ge=-90, le=90)] = 0.0  # upwards
    # How pictures are kept. copy: the camera's MJPEG as it is, without decoding. encode: coded anew, which is
    # smaller and costs a core. auto: copy where the camera gives MJPEG.
    store: Literal["auto", "copy", "encode"] = "auto"


class CameraResults(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """Result files of `hearth calibrate` for a camera. Every episode carries copies of them."""

    camera: Text | None = None
    pose: Text | None = None
    sync: Text | None = None


class RigResults(CameraResults, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """Result files of `hearth calibrate` for the main camera, the microphone and the room."""

    capsules: Text | None = None
    room: Text | None = None


class FurtherCamera(Camera, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """A camera beside the main one. Its pictures are `video_<name>.mkv` of the episode."""

    name: Id
    source: Literal["v4l2", "url", "file"]
    calibration: CameraResults = msgspec.field(default_factory=CameraResults)


class Device(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """One device of the room: the agent's map and the virtual room's geometry."""

    id: Id
    type: DeviceType
    name: Text  # as people say it: "ceiling light", "desk fan"
    room: Text | None = None  # default: the rig's; of another one the place is not used
    position_m: Metres = (0.0, 0.0, 0.0)
    # With a real home: its id there, an entity of Home Assistant (light.reading_lamp) or of MQTT discovery.
    entity: Text | None = None


class Person(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """A member of the household."""

    id: Id
    name: Text
    room: Text | None = None  # the room that "my room" means
    devices: tuple[Id, ...] = ()  # ids of devices that are this person's own


class Room(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """The room: a box with one corner at the origin, x and y along the floor, z up; metres."""

    name: Text = "living_room"
    size_m: tuple[Length, Length, Length] = (5.2, 4.1, 2.7)
    devices: tuple[Device, ...] = ()
    people: tuple[Person, ...] = ()


class HomeSettings(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """The home that commands go to: a twin in software, or a real one (docs/home-assistant.md)."""

    kind: Literal["twin", "home_assistant", "mqtt"] = "twin"
    url: Text | None = None  # of Home Assistant, like http://homeassistant.local:8123
    token_file: Text | None = None  # holds a long-lived access token of Home Assistant, and nothing else
    leave_out: tuple[Text, ...] = ()  # entities that Hearth does not touch, as patterns: switch.server_*
    answer_s: Annotated[float, Meta(gt=0, le=60)] = 5.0  # how long a device may take to do what it was told
    safety_rules: Text | None = None  # a file of rules, watched beside the house rules (docs/safety.md)


class Mqtt(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """An MQTT broker: the way to a home of `kind: mqtt`, and where Hearth announces itself as a device."""

    url: Text  # mqtt://host:1883, mqtts://host:8883
    user: Text | None = None
    password_file: Text | None = None
    discovery: Annotated[str, Meta(pattern=r"^[A-Za-z0-9_\-]+(/[A-Za-z0-9_\-]+)*\Z")] = "homeassistant"
    announce: bool = True  # Hearth itself as a device of Home Assistant


class Storage(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """Where episodes go."""

    folder: Text = "data"
    segment_mib: Annotated[int, Meta(ge=1, le=2000)] = 1900  # WAV segments roll below this
    min_free_mib: Annotated[int, Meta(ge=0)] = 500  # recording does not start with less


class Endpoints(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """ZeroMQ addresses, and where the console's page is served. Port 0 lets the system choose (the service
    prints what it got)."""

    stream: Annotated[str, Meta(pattern="^(tcp|ipc)://")] = "tcp://127.0.0.1:5771"
    commands: Annotated[str, Meta(pattern="^(tcp|ipc)://")] = "tcp://127.0.0.1:5772"
    console: str | bool = "127.0.0.1:5770"  # host:port; "" or off: no console (YAML reads off as false)
    metrics: str | bool = "127.0.0.1:5773"  # host:port on loopback, for Prometheus; "" or off: none

    @property
    def console_address(self) -> str | None:
        """host:port of the console; None when there is to be none."""
        return self.console if isinstance(self.console, str) and self.console else None

    @property
    def metrics_address(self) -> str | None:
        """host:port of the metrics; None when there are to be none."""
        return self.metrics if isinstance(self.metrics, str) and self.metrics else None


class Log(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """What services write on stderr."""

    level: Literal["debug", "info", "warning", "error"] = "info"


class Security(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """Who may come to the stream and the commands (docs/security.md). Loopback needs no set-up; an address
    that the network reaches needs keys, made by `hearth keys`."""

    keys: Text | None = None  # folder of keys; default: $HEARTH_KEYS, else ~/.config/hearth/keys
    loopback: Literal["open", "keys"] = "open"  # keys: programs of other users of this machine need one too


class Virtual(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """The virtual room's settings; used when a source is `virtual`."""

    seed: Annotated[int, Meta(ge=0)] = 0
    # One request about a device | somebody points and asks, again and again | somebody keeps talking |
    # an item of a shooting plan (only with one).
    scene: Literal["request", "point", "talk", "staged"] = "request"
    rt60_s: Annotated[float, Meta(ge=0, le=3)] = 0.3
    snr_db: Annotated[float, Meta(ge=-20, le=100)] = 30.0  # talker against sensor noise
    drift_ppm: Annotated[float, Meta(ge=-1000, le=1000)] = 0.0  # of the virtual microphone's clock
    av_offset_ms: Annotated[float, Meta(ge=-500, le=500)] = 0.0  # positive: sound late against the picture
    # For several virtual rigs that hear one talker: where he stands (default: in front of the rig), then as
    # loud as the distance makes him, and when the scene begins, so that all begin together (default: now).
    talker_m: Metres | None = None
    begin_utc_s: Annotated[float, Meta(ge=0)] | None = None  # seconds since 1970; past: at once


class Rig(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """The whole of rig.yaml."""

    hearth_rig: Literal[1]  # version of this file's form
    id: RigId | None = None  # of this rig among several; default: a random one, kept in the storage folder
    name: Text = "rig"
    microphone: Microphone = msgspec.field(default_factory=Microphone)
    camera: Camera = msgspec.field(default_factory=Camera)
    more_cameras: tuple[FurtherCamera, ...] = ()
    calibration: RigResults = msgspec.field(default_factory=RigResults)
    room: Room = msgspec.field(default_factory=Room)
    home: HomeSettings = msgspec.field(default_factory=HomeSettings)
    mqtt: Mqtt | None = None
    storage: Storage = msgspec.field(default_factory=Storage)
    endpoints: Endpoints = msgspec.field(default_factory=Endpoints)
    security: Security = msgspec.field(default_factory=Security)
    log: Log = msgspec.field(default_factory=Log)
    virtual: Virtual = msgspec.field(default_factory=Virtual)


DEFAULT_RIG = Path(__file__).parent / "virtual" / "demo_rig.yaml"


def load_rig(path: str | Path | None = None) -> Rig:
    """Read and check a rig file.

    Without a path: `rig.yaml` in the current folder if there is one, else the built-in virtual rig. Relative
    paths inside the file (storage folder, sound and video files) are taken from the current folder.
    Raises InputError with the key, the value and what is allowed.
    """
    if path is None:
        path = Path("rig.yaml") if Path("rig.yaml").is_file() else DEFAULT_RIG
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise InputError(f"{path}: no such rig file. `hearth init` writes a first one.") from None
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot read the rig file: {error}") from None
    return parse_rig(text, str(path))


def parse_rig(text: str, where: str = "rig.yaml") -> Rig:
    """Check the text of a rig file; see `load_rig`."""
    try:
        data = load_strict_yaml(text)
    except (yaml.YAMLError, ValueError) as error:
        raise InputError(f"{where}: not valid YAML: {error}") from None
    except RecursionError:
        raise InputError(f"{where}: not a rig file: its values are nested too deeply") from None
    if not isinstance(data, dict):
        raise InputError(f"{where}: expected `key: value` lines at the top, found {type(data).__name__}")
    if "hearth_rig" not in data:
        raise InputError(f"{where}: the line `hearth_rig: 1` (the version of the file's form) is missing")
    return rig_from_dict(data, where)


def rig_from_dict(data: dict[str, Any], where: str) -> Rig:
    """Check the values of a rig file as plain dicts and lists; see `load_rig`. where: begins the messages."""
    _refuse_not_finite(data, where)
    try:
        rig = msgspec.convert(data, Rig)
    except msgspec.ValidationError as error:
        raise InputError(f"{where}: {_explain(str(error), data)}") from None
    _check(rig, where)
    return rig


def _refuse_not_finite(data: Any, where: str, place: str = "") -> None:
    """NaN compares false with every limit, so it would pass them all."""
    if isinstance(data, dict):
        for key, value in data.items():
            _refuse_not_finite(value, where, f"{place}.{key}" if place else str(key))
    elif isinstance(data, list):
        for number, value in enumerate(data):
            _refuse_not_finite(value, where, f"{place}[{number}]")
    elif isinstance(data, float) and not math.isfinite(data):
        raise InputError(f"{where}: `{place}`: {data} is not a usable number; give a finite one")


def result_paths(rig: Rig) -> dict[tuple[str, Kind], Path]:
    """The calibration files that a rig points to, by camera ("": the main one) and kind."""
    found: dict[tuple[str, Kind], Path] = {}
    for camera, results in (("", rig.calibration), *((c.name, c.calibration) for c in rig.more_cameras)):
        for kind in OF_THE_RIG:
            if path := getattr(results, kind, None):
                found[camera, kind] = Path(path)
    return found


def rig_to_dict(rig: Rig) -> dict[str, Any]:
    """The rig as plain dicts and lists, for a snapshot in an episode: without passwords of cameras."""
    plain = dict(msgspec.to_builtins(rig))
    for camera in (plain["camera"], *plain["more_cameras"]):
        camera["url"] = camera["url"] and shown_address(camera["url"])
    return plain


def _explain(message: str, data: Any) -> str:
    """msgspec's message with the key's path in words, the value found and the keys or values allowed."""
    found = re.match(r"^(.*?)(?: - at `(?:key in )?\$(.*?)`)?$", message, re.S)
    assert found is not None
    text, trail = found.group(1), (found.group(2) or "")
    steps = re.findall(r"\.([A-Za-z_0-9]+)|\[(\d+|\.\.\.)\]", trail)
    node: Any = data
    kind: Any = Rig
    names: list[str] = []
    for name, index in steps:
        names.append(name or f"[{index}]")
        node, kind = _step(node, kind, name, index)
    place = ".".join(names).replace(".[", "[") or "top level"
    unknown = re.search(r"unknown field `(.*?)`", text)
    if unknown:
        allowed = [f.name for f in msgspec.structs.fields(kind)] if _is_struct(kind) else []
        key = unknown.group(1)
        close = difflib.get_close_matches(key, allowed, n=1, cutoff=0.5)
        hint = f" Did you mean `{close[0]}`?" if close else ""
        where = "" if place == "top level" else f" in `{place}`"
        return f"unknown key `{key}`{where}.{hint} Allowed: {', '.join(allowed)}"
    value = "" if node is None or isinstance(node, dict | list) else f" (found {node!r})"
    choices = _choices(kind)
    allowed_values = f" Allowed: {', '.join(map(str, choices))}" if choices else ""
    return f"`{place}`: {text}{value}.{allowed_values}"


def _step(node: Any, kind: Any, name: str, index: str) -> tuple[Any, Any]:
    """One step down the data and down the types; (None, None) where either does not go on."""
    if name:
        node = node.get(name) if isinstance(node, dict) else None
        kinds = {f.name: f.type for f in msgspec.structs.fields(kind)} if _is_struct(kind) else {}
        return node, kinds.get(name)
    arguments = getattr(kind, "__args__", ())
    inner = arguments[0] if arguments else None
    number = int(index) if index.isdigit() else None
    if isinstance(node, list) and number is not None and number < len(node):
        return node[number], inner
    return None, inner


def _is_struct(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)


def _choices(kind: Any) -> tuple[Any, ...]:
    return kind.__args__ if getattr(kind, "__origin__", None) is Literal else ()


def _shown(url: str | None) -> str:
    """An address for a message: a password in it is not shown."""
    return repr(url and shown_address(url))


def _check(rig: Rig, where: str) -> None:
    """What no single key can tell: combinations that are impossible."""

    def fail(text: str) -> None:
        raise InputError(f"{where}: {text}")

    mic, cam, room = rig.microphone, rig.camera, rig.room
    if mic.source in ("sounddevice", "pyaudio") and not mic.device:
        fail(
            "`microphone.device` is missing: give a part of the device's name, e.g. H3-VR"
            " (`hearth doctor` lists them)"
        )
    if mic.source == "file" and not mic.file:
        fail("`microphone.file` is missing: `source: file` needs the path of a WAV, FLAC or Ogg file")
    cameras: list[tuple[str, Camera]] = [("camera", cam)]
    cameras += [(f"more_cameras ({further.name})", further) for further in rig.more_cameras]
    for key, camera in cameras:
        if camera.source == "file" and not camera.file:
            fail(f"`{key}.file` is missing: `source: file` needs the path of a video file")
        if camera.source == "url" and not re.match(r"^(rtsps?|https?)://", camera.url or ""):
            shown = camera.url and shown_address(camera.url)
            fail(f"`{key}.url` must be an rtsp:// or http:// address (found {shown!r})")
    if rig.more_cameras and cam.source == "none":
        fail("`more_cameras` needs a main camera: describe the first one under `camera`")
    further_names = [further.name for further in rig.more_cameras]
    if twice_named := sorted({name for name in further_names if further_names.count(name) > 1}):
        fail(f"two cameras of `more_cameras` have the name `{twice_named[0]}`; names must be unique")
    if mic.channels != 4:
        fail(f"`microphone.format: {mic.format}` has 4 channels (found `channels: {mic.channels}`)")
    if "\0" in rig.storage.folder:
        fail("`storage.folder` holds a NUL character")
    for key, address in (("stream", rig.endpoints.stream), ("commands", rig.endpoints.commands)):
        port = address.rsplit(":", 1)[-1]
        if address.startswith("tcp://") and not (port.isdigit() and int(port) <= 65535):
            fail(f"`endpoints.{key}` {address} needs a port from 0 to 65535, like tcp://127.0.0.1:5771")
    for key, like in (("console", "127.0.0.1:5770"), ("metrics", "127.0.0.1:5773")):
        page = getattr(rig.endpoints, key)
        if page is True or (page and not re.match(r"^(\[[0-9A-Fa-f:]+\]|[\w.-]+):\d{1,5}\Z", str(page))):
            fail(f"`endpoints.{key}` is host:port, like {like}, or off (found {page!r})")
    if mic.source == "virtual" and (mic.channels != 4 or mic.rate_hz != 48000):
        fail("the virtual microphone has `channels: 4` and `rate_hz: 48000`")
    places = [("microphone.position_m", mic.position_m)]
    places += [(f"room.devices ({d.id}) position_m", d.position_m) for d in room.devices]
    for key, place in places:
        if not all(0 <= p <= s for p, s in zip(place, room.size_m, strict=True)):
            fail(f"`{key}` {list(place)} is outside the room, which is {list(room.size_m)} m (`room.size_m`)")
    home = rig.home
    if home.kind == "home_assistant" and not re.match(r"^https?://[^/@]+/?\Z", home.url or ""):
        fail(f"`home.url` is the address of Home Assistant, like http://host:8123 (found {_shown(home.url)})")
    if home.kind == "home_assistant" and not home.token_file:
        fail("`home.token_file` is missing: the file that holds an access token of Home Assistant")
    if home.kind == "mqtt" and rig.mqtt is None:
        fail("`home.kind: mqtt` needs a broker: `mqtt:` with its `url`")
    if rig.mqtt is not None and not re.match(
        r"^mqtts?://([^/@:\[\]]+|\[[0-9A-Fa-f:]+\])(:\d{1,5})?/?\Z", rig.mqtt.url
    ):
        fail(f"`mqtt.url` is the address of a broker, like mqtt://host:1883 (found {_shown(rig.mqtt.url)})")
    bound = [d.entity for d in room.devices if d.entity]
    if doubly := sorted({e for e in bound if bound.count(e) > 1}):
        fail(f"two devices of `room.devices` have the entity `{doubly[0]}`; each needs its own")
    for kind, ids in (("device", [d.id for d in room.devices]), ("person", [p.id for p in room.people])):
        twice = sorted({i for i in ids if ids.count(i) > 1})
        if twice:
            fail(f"the {kind} id `{twice[0]}` is used twice; ids must be unique")
    names = [d.name for d in room.devices]
    same = sorted({n for n in names if names.count(n) > 1})
    if same:
        fail(f"the device name `{same[0]}` is used twice; an agent could not tell them apart in words")
    if rig.endpoints.stream == rig.endpoints.commands and not rig.endpoints.stream.endswith(":0"):
        fail(f"`endpoints.stream` and `endpoints.commands` are the same address ({rig.endpoints.stream})")
