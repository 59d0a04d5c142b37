"""What the agent says: true values in everyday units, and causes of refusals, in plain sentences."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from edge.agent.home_view import HomeView, path_of, room_words
from edge.agent.plan_orders import ASKED, CYCLE, FAN, LEVEL, LEVEL_MOST, LIFT, LOCK, MODE, ON, PLAYBACK, VALVE
from edge.agent.posterior import Posterior
from edge.language.intent import Change, DeviceWords, Inquiry, Need
from edge.perception.room_map import MapDevice
from recordings.plan.device_types import NOUNS

KINDS = {  # words for types that the plan's table has not
    "heat_pump": "heat pump",
    "rvc": "robot vacuum",
    "freezer": "freezer",
    "laundry_dryer": "dryer",
    "window_covering_controller": "blind",
}
NO_HELP = {
    ("temperature", "decrease"): "nothing that cools",
    ("temperature", "increase"): "nothing that heats",
    ("humidity", "increase"): "no humidifier",
    ("humidity", "decrease"): "no dehumidifier",
    ("pm10", "decrease"): "no air purifier",
    ("pm10", "increase"): "nothing that makes dust",
    ("illuminance", "increase"): "no light",
    ("illuminance", "decrease"): "no light",
}
STATES: dict[str, dict[Any, str]] = {
    PLAYBACK: {0: "playing", 1: "paused", 2: "stopped"},
    CYCLE: {0: "stopped", 1: "running", 2: "paused", 3: "in error"},
    MODE: {0: "off", 3: "cooling", 4: "heating"},
    LOCK: {1: "locked", 2: "unlocked"},
    VALVE: {0: "closed", 1: "open"},
    "RVCOperationalState.OperationalState": {
        0: "stopped", 1: "running", 2: "paused", 3: "in error", 64: "on its way home", 65: "charging",
        66: "docked",
    },
}  # fmt: skip
ROOM_VALUES = {
    "temperature": ("temperature", "{} degrees"),
    "humidity": ("humidity", "{} percent"),
    "illuminance": ("light level", "{} lux"),
    "pm10": ("dust level", "{} micrograms per cubic metre"),
}
DONE = {  # act -> what was done to a device
    "on": "turned on", "off": "turned off", "pause": "paused", "resume": "resumed", "stop": "stopped",
    "start": "started", "close": "closed", "open": "opened", "lock": "locked", "unlock": "unlocked",
    "silence": "turned off",
}  # fmt: skip
QUANTITY = {"dim": "the brightness of ", "volume": "the volume of ", "speed": "the speed of "}
SO = {  # act -> how a device is already
    "on": "on", "off": "off", "pause": "paused", "resume": "at work", "stop": "stopped", "start": "at work",
    "close": "closed", "open": "open", "lock": "locked", "unlock": "unlocked", "silence": "off",
}  # fmt: skip


def kind_word(device_type: str) -> str:
    """The word for a type: "air purifier"."""
    return NOUNS.get(device_type, (KINDS.get(device_type, device_type.replace("_", " ")),))[0]


def noun_of(words: DeviceWords) -> str:
    """The word for the kind of device that was asked for, as refusals name it."""
    if words.types:
        return kind_word(words.types[0])
    return words.noun or words.name or "such device"


def the(device: MapDevice, home: HomeView) -> str:
    """ "the floor lamp", with its room where it stands in another one that its name does not say."""
    place = room_words(device.room)
    elsewhere = device.room != home.here and place.removeprefix("the ") not in device.name.casefold()
    return f"the {device.name} in {place}" if elsewhere and device.room else f"the {device.name}"


def sentence(text: str) -> str:
    """With a capital letter and a full stop."""
    return f"{text[:1].upper()}{text[1:]}" + ("" if text.endswith((".", "?", "!")) else ".")


# ------------------------------------------------------------------------------ values


def told(device: MapDevice, inquiry: Inquiry, home: HomeView) -> str | None:
    """The answer to a question about a device; None when it does not have what was asked about."""
    name = next((n for n in ASKED[inquiry] if path_of(device, n) is not None), None)
    if name is None:
        return None
    path = path_of(device, name)
    assert path is not None
    value, it = device.attributes[path], the(device, home)
    if value is None:
        return sentence(f"{it} does not say that now")
    if name in STATES:
        return sentence(f"{it} is {STATES[name].get(value, value)}")
    if name == ON:
        return sentence(f"{it} is {'on' if value else 'off'}")
    if name == LEVEL:
        what = "volume" if inquiry == "how_loud" else "brightness"
        return sentence(f"the {what} of {it} is {round(100 * value / LEVEL_MOST)} percent")
    if name == FAN:
        return sentence(f"the speed of {it} is {value} percent")
    if name == LIFT:
        return sentence(f"{it} is {number(value / 100)} percent closed")
    if name.endswith(("Setpoint", "Temperature")):
        verb = "is set to" if name.endswith("Setpoint") else "measures"
        return sentence(f"{it} {verb} {number(value / 100)} degrees")
    if name.endswith("MeasuredValue"):
        unit = "degrees" if "Temperature" in name else "percent"
        return sentence(f"{it} measures {number(value / 100)} {unit}")
    if name.endswith("CountdownTime"):
        return sentence(f"{it} needs {number(-(-value // 60))} more minutes")
    return sentence(f"it is {value}")


def room_told(variable: str, room: str, home: HomeView) -> str | None:
    """The answer to a question about a room's air or light; None when the home does not measure it."""
    value = home.air.get(room, {}).get(variable)
    if value is None:
        return None
    if variable in ("temperature", "humidity"):
        value = value / 100
    what, pattern = ROOM_VALUES[variable]
    return sentence(f"the {what} in {room_words(room)} is {pattern.format(number(value))}")


def number(value: float) -> str:
    """With one digit after the point at most, and none that says nothing."""
    return f"{round(value, 1):g}"


# ------------------------------------------------------------------------------ what was done


def done(device: MapDevice, change: Change, home: HomeView) -> str:
    """ "I turned off the floor lamp." """
    it = the(device, home)
    if change.act in DONE:
        return sentence(f"I {DONE[change.act]} {it}")
    return sentence(f"I set {QUANTITY.get(change.act, '')}{it} to {amount(change)}")


def to_do(device: MapDevice, change: Change, home: HomeView, it: str | None = None) -> str:
    """ "turn the floor lamp off"; it: another word for the device."""
    name = it or the(device, home)
    verbs = {"on": f"turn {name} on", "off": f"turn {name} off", "silence": f"turn {name} off"}
    if change.act in verbs:
        return verbs[change.act]
    if change.act in DONE:
        return f"{change.act} {name}"
    return f"set {QUANTITY.get(change.act, '')}{name} to {amount(change)}"


def amount(change: Change) -> str:
    """ "sixty percent" as digits: "60 percent"."""
    if change.mode is not None:
        return change.mode
    value = number(change.value or 0.0)
    if change.act in ("cool", "heat", "chill"):
        return f"{value} degrees"
    return f"{value} percent" + (" closed" if change.act == "position" else "")


def already(device: MapDevice, change: Change, home: HomeView) -> str:
    """ "The floor lamp is off already." """
    state = SO.get(change.act) or f"at {amount(change)}"
    return sentence(f"{the(device, home)} is {state} already")


def helped(device: MapDevice, need: Need, home: HomeView, on: bool | None) -> str:
    """What was done against a complaint."""
    it = the(device, home)
    if need.blind is not None:
        return sentence(f"I {'closed' if need.blind == 'close' else 'opened'} {it}")
    if on is False:
        return sentence(f"I turned off {it}")
    what = {
        ("temperature", "decrease"): "it gets cooler", ("temperature", "increase"): "it gets warmer",
        ("humidity", "increase"): "the air gets moister", ("humidity", "decrease"): "the air gets drier",
        ("pm10", "decrease"): "the air gets cleaner", ("illuminance", "increase"): "it gets brighter",
        ("illuminance", "decrease"): "it gets darker",
    }.get((str(need.variable), str(need.direction)), "that helps")  # fmt: skip
    place = room_words(device.room)
    return sentence(f"I let {it} work, so that {what} in {place}")


# ------------------------------------------------------------------------------ what is not there


def absent(posterior: Posterior, words: DeviceWords | None, need: Need | None, home: HomeView) -> str:
    """Why there is no device that could be meant."""
    place = room_words(posterior.room or home.here)
    if need is not None and posterior.missing == "no_helper":
        if need.blind is not None:
            return f"There is no blind in {place}."
        what = NO_HELP.get((str(need.variable), str(need.direction)), "nothing for that")
        return f"There is {what} in {place}."
    if words is None:
        return f"There is no room {place} in this home."
    noun = noun_of(words)
    near = home.device(posterior.near).name if posterior.near is not None else None
    who = home.room.member(posterior.speaker) if posterior.speaker is not None else None
    name = who.name if who is not None else "You"
    match posterior.missing:
        case "no_such_name":
            return f"There is no {words.name} in this home."
        case "no_such_room":
            room = words.unknown_room or (words.room or "such room").replace("_", " ")
            return f"There is no {room} in this home."
        case "not_in_room":
            return f"There is no {noun} in {place}."
        case "not_in_home":
            return f"There is no {noun} in this home."
        case "points_at_nothing":
            return "You point at nothing, so that nobody can know what is meant."
        case "points_elsewhere" if near is not None:
            return f"There is no {noun} there: you point at the {near}."
        case "nothing_sounds":
            return f"Nothing in {place} is {sounding(words)}."
        case "nothing_could_sound":
            only = f" is {sounding(words)}; only the {near} is heard" if near is not None else ""
            return f"Nothing in {place}{only or f' could be {sounding(words)}'}."
        case "other_side":
            return f"There is no {noun} on that side of you."
        case "not_owned":
            return f"{name} {'has' if who is not None else 'have'} no {noun}."
        case "not_in_own_room":
            own = who.room if who is not None and who.room is not None else posterior.room
            mine = f"{name}'s room" if who is not None else "your room"
            return f"There is no {noun} in {mine}{f', {room_words(own)}' if own else ''}."
        case "unknown_speaker":
            return "I do not know who you are, so I cannot know what is yours."
        case _:
            return f"There is no {noun} in {place}."


def sounding(words: DeviceWords) -> str:
    """The word for the sound as "-ing": "humming", "playing music"."""
    said = (words.sound or words.kind or "making a sound").casefold()
    if said.endswith("ing") or " " in said:
        return said
    return {"music": "playing music", "hum": "humming", "beep": "beeping", "spin": "spinning"}.get(
        said, f"making a {said}"
    )


def which(names: Iterable[str]) -> str:
    """ "Do you mean the floor lamp or the reading lamp?" """
    return "Do you mean " + " or ".join(names) + "?"
