"""Acting, asking, refusing, "already so": decisions on evidence that is set up by hand."""

from __future__ import annotations

from typing import Any

import pytest

from edge.agent.decision import Decision, decide, is_as_wanted
from edge.home.schema import commands_of
from edge.perception.direction import Direction
from edge.perception.listening import Observation, candidates
from edge.perception.request import parse_request
from edge.perception.room_map import RoomMap
from edge.perception.speech import Recognition

ON, OFF = {"1.OnOff.OnOff": True}, {"1.OnOff.OnOff": False}
AHEAD = Direction(90.0, 5.0, 5.0, 0.8)


def room(**states: dict[str, Any]) -> RoomMap:
    places = {
        "floor_lamp": ("on_off_light", (0.0, 2.0, 1.5)),
        "reading_lamp": ("on_off_light", (4.0, 2.0, 1.5)),
        "fan": ("fan", (0.2, 1.0, 1.0)),
        "fridge": ("refrigerator", (4.0, 1.0, 1.0)),
    }
    return RoomMap(
        {
            "devices": [
                {
                    "id": i,
                    "type": t,
                    "name": i.replace("_", " "),
                    "position_m": p,
                    "attributes": states.get(i, {} if t == "refrigerator" else OFF),
                    "commands": commands_of(t),
                }
                for i, (t, p) in places.items()
            ],
            "microphone": {"position_m": (2.0, 0.0, 1.0), "yaw_deg": 90.0},
        }
    )


def decided(
    text: str, home: RoomMap, talker: Direction | None = AHEAD, heard: Direction | None = None
) -> Decision | None:
    request = parse_request(text, [d.name for d in home.devices])
    found = () if request is None else tuple(candidates(home, request, talker, heard))
    return decide(Observation(Recognition(text, 0.9), talker, heard, request, found, {}), home)


def test_it_acts() -> None:
    decision = decided("Turn on the light on my right.", room())
    assert decision == Decision("floor_lamp", "On", "I turned on the floor lamp.", "done", decision.reason)  # type: ignore[union-attr]


def test_already_so_is_declared_but_nothing_is_sent() -> None:
    decision = decided("Turn on the light on my right.", room(floor_lamp=ON, reading_lamp=ON))
    assert decision is not None
    assert (decision.device_id, decision.command, decision.outcome) == ("floor_lamp", None, "already")
    assert decision.say == "The floor lamp is already on."


def test_it_asks_when_two_are_as_likely() -> None:
    decision = decided("Turn on the light.", room())
    assert decision is not None
    assert (decision.device_id, decision.command, decision.outcome) == (None, None, "asked")
    assert decision.say == "Do you mean the floor lamp or the reading lamp?"


def test_it_asks_when_the_talker_is_not_located() -> None:
    decision = decided("Turn on the light on my right.", room(), talker=None)
    assert decision is not None
    assert decision.outcome == "asked"


def test_it_refuses_what_is_not_there() -> None:
    decision = decided("Turn on the dishwasher.", room())
    assert decision is not None
    assert (decision.device_id, decision.outcome) == (None, "refused")
    assert decision.say == "There is no dishwasher here."
    empty = RoomMap({"devices": [], "microphone": {"position_m": (0, 0, 0), "yaw_deg": 0}})
    silent = decided("Stop that beeping.", empty)
    assert silent is not None
    assert (silent.device_id, silent.outcome) == (None, "refused")


def test_it_refuses_a_sound_from_where_no_such_device_is() -> None:
    behind = Direction(-90.0, 0.0, 6.0, 0.8)
    home = room(fan={**ON, "1.FanControl.PercentCurrent": 100})
    decision = decided("Silence that humming.", home, heard=behind)
    assert decision is not None
    assert (decision.device_id, decision.outcome) == (None, "refused")


def test_it_refuses_what_cannot_be_done() -> None:
    at_the_fridge = Direction(26.6, 0.0, 6.0, 0.8)
    decision = decided("Silence that humming.", room(), heard=at_the_fridge)
    assert decision is not None
    assert (decision.device_id, decision.command, decision.outcome) == ("fridge", None, "refused")
    assert decision.say == "The fridge cannot be switched off."


def test_pointing_is_asked_about_and_talk_is_ignored() -> None:
    pointed = decided("Turn that off.", room())
    assert pointed is not None
    assert pointed.outcome == "asked"
    assert decided("Dinner will be ready in twenty minutes.", room()) is None


@pytest.mark.parametrize(
    ("command", "attributes", "wanted"),
    [
        ("On", ON, True),
        ("On", OFF, False),
        ("Off", OFF, True),
        ("Off", {}, False),
        ("Pause", {"1.MediaPlayback.CurrentState": 1}, True),
        ("Pause", {"1.MediaPlayback.CurrentState": 0}, False),
        ("Pause", {"1.OperationalState.OperationalState": 2}, True),
    ],
)
def test_success_is_what_was_read_back(command: str, attributes: dict[str, Any], wanted: bool) -> None:
    assert is_as_wanted(command, attributes) is wanted
