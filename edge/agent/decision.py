"""What to do about a request: act, ask back, or refuse. Pure functions of the evidence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from edge.perception.listening import Observation
from edge.perception.matching import Candidate, already
from edge.perception.request import Request
from edge.perception.room_map import MapDevice, RoomMap

Outcome = Literal["done", "already", "refused", "asked", "failed"]

SURE = 0.6  # posterior of the best device from which on the agent acts
ELSEWHERE_DEG = 40.0  # a sound this far from every device that could make it comes from something else
ELSEWHERE_SIGMAS = 3.0


@dataclass(frozen=True, slots=True)
class Decision:
    """device_id: what is declared (None: no such device, or not known which). command: to be sent to it;
    None: nothing is done and `say` is the answer. outcome: how it ends if the command works."""

    device_id: str | None
    command: str | None
    say: str
    outcome: Outcome
    reason: str


def decide(observation: Observation, room: RoomMap) -> Decision | None:
    """The decision on an observed utterance; None for one that asks for nothing."""
    request = observation.request
    if request is None:
        return None
    if request.grounding == "G1":
        return Decision(
            None, None, "I cannot see where you point yet. Which device do you mean?", "asked", "pointing"
        )
    found = observation.candidates
    if not found:
        return Decision(None, None, _nothing_like_it(request), "refused", "no device fits the request")
    if request.grounding == "G2" and _from_elsewhere(observation):
        text = f"I hear {request.sound}, but none of the devices that could make it is there."
        return Decision(None, None, text, "refused", "the sound comes from no known device")
    best = found[0]
    if best.probability < SURE:
        why = f"best posterior {best.probability:.2f} < {SURE}"
        return Decision(None, None, _which_one(found), "asked", why)
    device = room.device(best.device_id)
    if already(device, request.action):
        state = {"on": "already on", "pause": "not playing"}.get(request.action, "already off")
        return Decision(device.id, None, f"{_the(device)} is {state}.", "already", "nothing to change")
    command = command_for(device, request)
    if command is None:
        verb = {"on": "switched on", "pause": "paused"}.get(request.action, "switched off")
        return Decision(
            device.id, None, f"{_the(device)} cannot be {verb}.", "refused", "the device has no such command"
        )
    return Decision(device.id, command, _done(device, command), "done", f"posterior {best.probability:.2f}")


def command_for(device: MapDevice, request: Request) -> str | None:
    """The command that carries the request out, or None if the device has none."""
    wanted = {"on": ("On",), "pause": ("Pause", "Off")}.get(request.action, ("Off",))
    return next((name for name in wanted if device.has_command(name)), None)


def is_as_wanted(command: str, attributes: dict[str, object]) -> bool:
    """Whether the state read back is what the command was for."""
    if command == "Pause":
        plays, works = "1.MediaPlayback.CurrentState", "1.OperationalState.OperationalState"
        return attributes.get(plays) == 1 or attributes.get(works) == 2
    return attributes.get("1.OnOff.OnOff") is (command == "On")


def _from_elsewhere(observation: Observation) -> bool:
    heard = observation.heard
    if heard is None or heard.support < 0.5:
        return False
    away = [c.away_deg for c in observation.candidates if c.away_deg is not None]
    return bool(away) and min(away) > max(ELSEWHERE_DEG, ELSEWHERE_SIGMAS * heard.sigma_deg)


def _nothing_like_it(request: Request) -> str:
    if request.grounding == "G2":
        return f"None of the devices here that are on could make that {request.sound}."
    return f"There is no {request.noun} here."


def _which_one(found: tuple[Candidate, ...]) -> str:
    names = [candidate.name for candidate in found[:3] if candidate.probability > 0.15]
    if len(names) < 2:
        names = [candidate.name for candidate in found[:2]]
    return "Do you mean " + " or ".join(f"the {name}" for name in names) + "?"


def _done(device: MapDevice, command: str) -> str:
    verb = {"On": "turned on", "Off": "turned off", "Pause": "paused"}[command]
    return f"I {verb} the {device.name}."


def _the(device: MapDevice) -> str:
    return f"The {device.name}"
