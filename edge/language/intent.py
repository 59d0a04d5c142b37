"""What a request asks for, before anybody knows which device it means."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

from recordings.profile import Grounding, Query, RoomVariable

Side = Literal["left", "right", "front", "behind"]
Own = Literal["device", "room"]  # "my lamp", "the lamp in my room"
Control = Literal["undo", "cancel", "stop", "mute", "unmute", "yes", "no"]
# What is done to a device; a value is percent (dim, speed, volume, position) or degrees C.
Act = Literal[
    "on", "off", "toggle", "dim", "speed", "cool", "heat", "volume", "pause", "resume", "stop", "start",
    "chill", "close", "open", "position", "silence", "lock", "unlock", "mode",
]  # fmt: skip
# What is asked about a device.
Inquiry = Literal[
    "is_on", "how_bright", "how_fast", "how_cool", "how_warm", "how_loud", "is_playing", "is_running",
    "how_closed", "is_locked", "vendor", "product", "temperature", "humidity", "pm10", "illuminance",
    "time_left",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class DeviceWords:
    """How the device is spoken of.

    grounding: which evidence tells it apart. types: device types that the noun can mean, none: any.
    name: its own name in this home, or the name of a device that the home does not have ("attic lamp");
    room: id of the room that is named. sound: the word for its sound, kind: one of edge.perception.sounds.
    side: of the speaker. own: it is the speaker's, or in the speaker's room. owner, owner_room: id of another
    member of the household that it belongs to, or in whose room it is. words: as understood.
    """

    grounding: Grounding
    words: str = ""
    noun: str | None = None
    types: tuple[str, ...] = ()
    name: str | None = None
    known_name: bool = True  # False: no device of the home has this name
    room: str | None = None
    unknown_room: str | None = None  # a room that is named and that the home does not have
    sound: str | None = None
    kind: str | None = None
    side: Side | None = None
    own: Own | None = None
    owner: str | None = None
    owner_room: str | None = None


@dataclass(frozen=True, slots=True)
class Change:
    """value: percent 0 to 100 and beyond as it was said, or degrees Celsius; mode: a word ("eco").

    position: percent closed. by: a step instead of a value, in percent or degrees ("a bit louder": by +10).
    Where the words leave the kind of device open ("set that to four degrees", "put that on forty percent")
    the act is `cool` or `dim`: the device that is found says which of its values is meant.
    """

    act: Act
    value: float | None = None
    mode: str | None = None
    by: float | None = None


@dataclass(frozen=True, slots=True)
class Moment:
    """clock_min: minutes after midnight. in_min: from now, or after `anchor` is done. Several of them at once
    are a request that names both; the decision checks that they agree. until_min: minutes after midnight up
    to which the opposite is to hold. still: "and make sure that it is still off at that very minute"."""

    clock_min: int | None = None
    in_min: float | None = None
    anchor: DeviceWords | None = None
    today: bool = False
    until_min: int | None = None
    still: bool = False


@dataclass(frozen=True, slots=True)
class Order:
    """One thing to do, now (moment None) or later. after_previous_min: counted from the order before it."""

    change: Change
    moment: Moment | None = None
    after_previous_min: float | None = None


@dataclass(frozen=True, slots=True)
class Need:
    """An implicit intent: what is wrong with a room. variable and direction say what would help, or
    `blind`: open it to look out, close it not to be seen."""

    room: str | None = None  # None with own_room: the speaker's
    own_room: bool = False
    variable: RoomVariable | None = None
    direction: Literal["increase", "decrease"] | None = None
    blind: Literal["open", "close"] | None = None


@dataclass(frozen=True, slots=True)
class Intent:
    """query: Q1 asks (`inquiry`), Q2 and Q3 order (`orders`, Q3 with moments), Q4 needs (`need`).

    control: a word to the agent itself ("undo that"). confidence: 0 to 1, that these are the words.
    corrected: "no, the other one", "I meant the kitchen lamp": `device` then replaces the one before.
    """

    text: str
    query: Query | None
    device: DeviceWords | None = None
    inquiry: Inquiry | None = None
    orders: tuple[Order, ...] = ()
    need: Need | None = None
    control: Control | None = None
    corrected: bool = False
    confidence: float = 1.0

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for traces."""
        return asdict(self)
