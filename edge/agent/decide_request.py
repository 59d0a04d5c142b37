"""What to do about a request: act, schedule, answer, ask back, or refuse with the cause. Pure functions.

The decision holds the calls to the home and what must be true afterwards; whoever carries it out claims
success only when that was read back (`confirmed`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from edge.agent import answers
from edge.agent.home_view import HomeView, path_of
from edge.agent.needs import helping
from edge.agent.plan_orders import ASKED, LIFT, ON, Limit, Wanted, meant, surely, wanted, ways
from edge.agent.posterior import Posterior
from edge.agent.schedules import Contradiction, Scheduled, schedule
from edge.home.reach import Order
from edge.home.schema import Value
from edge.language.intent import DeviceWords, Intent
from edge.perception.room_map import MapDevice

Outcome = Literal["done", "already", "refused", "asked", "failed"]
Category = Literal["nonexistent_resource", "physical_limit", "temporal_contradiction", "unsafe", "unclear"]
States = Mapping[str, Mapping[str, Value]]

CLOSE = 0.6  # a second device with so much of the best one's share is close: ask which one is meant
CLOSE_TO_TELL = 0.8  # for a question: a wrong answer names its device, so it shows
WORTH_NAMING = 0.12  # in a question back


@dataclass(frozen=True, slots=True)
class Call:
    """One call to the home: a command of the command server and its arguments."""

    name: str
    args: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Decision:
    """device_id: what is declared; None: there is no such device (or a stranger speaks of "my lamp").

    say: the answer if all calls work. calls: in this order. expect: device -> attribute -> value that must be
    read back after the calls. outcome: how it ends then. category, why: of a refusal or question. options:
    ids of the devices that a question back offers.
    """

    device_id: str | None
    outcome: Outcome
    say: str
    calls: tuple[Call, ...] = ()
    expect: States = field(default_factory=dict)
    category: Category | None = None
    why: str = ""
    options: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for traces."""
        return {
            "device_id": self.device_id,
            "outcome": self.outcome,
            "say": self.say,
            "calls": [{"name": call.name, "args": dict(call.args)} for call in self.calls],
            "expect": {device: dict(state) for device, state in self.expect.items()},
            "category": self.category,
            "why": self.why,
            "options": list(self.options),
        }


def call_of(order: Order) -> Call:
    """A command or write of the planner as a call to the home."""
    if order.command.startswith("write "):
        path = order.command.removeprefix("write ")
        return Call(
            "home.write", {"device_id": order.device_id, "attribute": path, "value": order.args["value"]}
        )
    return Call(
        "home.command", {"device_id": order.device_id, "command": order.command, "args": dict(order.args)}
    )


def confirmed(expect: States, states: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """What is not as expected in the states read back, in words; empty when all is. A blind that still moves
    counts by its target, as it stands by the command that it follows."""
    found = []
    for device_id, attributes in expect.items():
        state = states.get(device_id, {})
        for path, value in attributes.items():
            now = state.get(path)
            if path.endswith(LIFT):
                now = state.get(path.replace("Current", "Target"), now)
            if now != value or isinstance(now, bool) != isinstance(value, bool):
                found.append(f"{device_id} {path} is {now!r}, not {value!r}")
    return found


def decide(intent: Intent, posterior: Posterior, home: HomeView) -> Decision:
    """The decision on an understood request. Words to the agent itself (`intent.control`), and corrections,
    are for `edge.agent.corrections`."""
    if intent.need is not None:
        return _help(intent, posterior, home)
    if intent.device is None or _about_room(intent):
        return _tell_room(intent, home)
    if not intent.orders and intent.inquiry is None:
        return Decision(None, "asked", "What shall I do?", category="unclear", why="nothing is asked for")
    best = posterior.best
    if best is None or posterior.none > best.probability:
        return _absent(intent.device, posterior, home)
    if is_close(posterior, CLOSE_TO_TELL if intent.inquiry is not None else CLOSE):
        return _ask(posterior, home)
    device = home.device(best.device_id)
    if intent.inquiry is not None:
        return _tell(intent, device, home, best.probability)
    if any(order.moment is not None or order.after_previous_min is not None for order in intent.orders):
        return _schedule(intent, device, home, best.probability)
    return _act(intent, device, home, best.probability)


def is_close(posterior: Posterior, close: float = CLOSE) -> bool:
    """Whether the second device is too close to the best one to choose."""
    best, second = posterior.candidates[:1], posterior.candidates[1:2]
    return bool(second) and second[0].probability > close * best[0].probability


def _absent(words: DeviceWords | None, posterior: Posterior, home: HomeView) -> Decision:
    if posterior.missing == "points_at_nothing" and words is not None and not words.words:
        text = "Which device do you mean?"  # the words name none, not even "that"
        return Decision(None, "asked", text, category="unclear", why="no device in the words")
    text = answers.absent(posterior, words, None, home)
    if posterior.missing == "unknown_speaker":
        return Decision(None, "asked", text, category="unclear", why="unknown speaker")
    why = f"none of the devices: {posterior.none:.2f} ({posterior.missing})"
    return Decision(None, "refused", text, category="nonexistent_resource", why=why)


def _ask(posterior: Posterior, home: HomeView) -> Decision:
    """Which of the two or three most probable ones is meant. The most probable one is declared."""
    chosen = [c for c in posterior.candidates[:3] if c.probability >= WORTH_NAMING]
    chosen = chosen if len(chosen) > 1 else list(posterior.candidates[:2])
    names = [answers.the(home.device(one.device_id), home) for one in chosen]
    best = posterior.candidates[0]
    why = f"best posterior {best.probability:.2f}, second {posterior.candidates[1].probability:.2f}"
    text = answers.which(names)
    options = tuple(one.device_id for one in chosen)
    return Decision(best.device_id, "asked", text, category="unclear", why=why, options=options)


# ------------------------------------------------------------------------------ Q1


def _about_room(intent: Intent) -> bool:
    words = intent.device
    return (
        intent.inquiry in answers.ROOM_VALUES
        and words is not None
        and words.name is None
        and not words.types
        and words.grounding == "G0"
    )


def _tell_room(intent: Intent, home: HomeView) -> Decision:
    words = intent.device
    if intent.inquiry not in answers.ROOM_VALUES:
        return Decision(None, "asked", "Which device do you mean?", category="unclear", why="no device named")
    if words is not None and words.unknown_room is not None:
        text = f"There is no {words.unknown_room} in this home."
        return Decision(None, "refused", text, category="nonexistent_resource", why="no such room")
    room = (words.room if words is not None else None) or home.here
    text = answers.room_told(str(intent.inquiry), room, home) or ""
    if not text:
        text = f"Nothing measures that in {answers.room_words(room)}."
        return Decision(None, "refused", text, category="nonexistent_resource", why="not measured")
    return Decision(None, "done", text, why="told from the room's state")


def _tell(intent: Intent, device: MapDevice, home: HomeView, sure: float) -> Decision:
    assert intent.inquiry is not None
    text = answers.told(device, intent.inquiry, home)
    if text is None:
        what = ASKED[intent.inquiry][0].partition(".")[2] if ASKED[intent.inquiry] else intent.inquiry
        text = answers.sentence(f"{answers.the(device, home)} does not tell such a thing")
        return Decision(device.id, "refused", text, category="physical_limit", why=f"no {what}")
    return Decision(device.id, "done", text, why=f"posterior {sure:.2f}, told from its state")


# ------------------------------------------------------------------------------ Q2


def _act(intent: Intent, device: MapDevice, home: HomeView, sure: float) -> Decision:
    changes = [meant(device, order.change) for order in intent.orders]
    goal: dict[str, Value] = {}
    for change in changes:
        found = wanted(device, change)
        if isinstance(found, Limit):
            return Decision(device.id, "refused", found.words, category="physical_limit", why="beyond it")
        goal |= found.attributes
    if Wanted(goal).holds(device.attributes):
        return Decision(
            device.id, "already", answers.already(device, changes[0], home), why="nothing to change"
        )
    orders = _orders(device, goal)
    if orders is None:
        text = answers.sentence(f"I know no way to {answers.to_do(device, changes[0], home)}")
        return Decision(device.id, "refused", text, category="physical_limit", why="no command leads there")
    say = " ".join(answers.done(device, change, home) for change in changes)
    calls = tuple(map(call_of, orders))
    return Decision(device.id, "done", say, calls, {device.id: goal}, why=f"posterior {sure:.2f}")


def _orders(device: MapDevice, goal: Mapping[str, Value]) -> list[Order] | None:
    """The way to a goal; to a device that does not say how it is, commands are sent anyway."""
    away = any(device.attributes.get(path) is None for path in goal)
    return surely(device, goal, device.attributes) if away else ways(device, goal)


# ------------------------------------------------------------------------------ Q3


def _schedule(intent: Intent, device: MapDevice, home: HomeView, sure: float) -> Decision:
    found = schedule(intent.orders, device, home)
    if isinstance(found, Limit):
        return Decision(device.id, "refused", found.words, category="physical_limit", why="beyond it")
    if isinstance(found, Contradiction):
        return Decision(device.id, found.outcome, found.words, category=found.category, why=found.why)
    calls = []
    for one in found:
        calls += _calls_of(one, device)
    told = " ".join(one.say for one in found)
    now = {path: value for one in found if one.now for path, value in one.goal.items()}
    return Decision(
        device.id, "done", told, tuple(calls), {device.id: now} if now else {}, why=f"posterior {sure:.2f}"
    )


def _calls_of(one: Scheduled, device: MapDevice) -> list[Call]:
    if one.now:
        return [call_of(order) for order in one.orders]
    steps = [_step(order) for order in one.orders]
    when: dict[str, Any] = {"start_time": one.start_time} if one.when is None else {"when": one.when}
    return [Call("home.schedule", {**when, "steps": steps})]


def _step(order: Order) -> dict[str, Any]:
    command = order.command.removeprefix("write ")
    endpoint, cluster, name = command.split(".")
    where = {"device_id": order.device_id, "endpoint_id": int(endpoint), "cluster_id": cluster}
    if order.command.startswith("write "):
        return {
            "tool": "write_attribute",
            "args": {**where, "attribute_id": name, "value": order.args["value"]},
        }
    return {"tool": "execute_command", "args": {**where, "command_id": name, "args": dict(order.args)}}


# ------------------------------------------------------------------------------ Q4


def _help(intent: Intent, posterior: Posterior, home: HomeView) -> Decision:
    need = intent.need
    assert need is not None
    best = posterior.best
    if best is None or posterior.none > best.probability:
        text = answers.absent(posterior, None, need, home)
        if posterior.missing == "unknown_speaker":
            text = "I do not know who you are, so I do not know which room is yours."
            return Decision(None, "asked", text, category="unclear", why="unknown speaker")
        return Decision(None, "refused", text, category="nonexistent_resource", why=str(posterior.missing))
    device = home.device(best.device_id)
    way = helping(device, need, home)
    if isinstance(way, Limit):
        outcome: Outcome = "already" if need.blind is not None else "refused"
        return Decision(device.id, outcome, way.words, category="physical_limit", why="it does all it can")
    orders = _orders(device, way.attributes)
    if orders is None:
        text = answers.sentence(f"I know no way to set {answers.the(device, home)}")
        return Decision(device.id, "refused", text, category="physical_limit", why="no command leads there")
    on = path_of(device, ON)
    state = way.attributes.get(on) if on is not None else None
    say = answers.helped(device, need, home, state if isinstance(state, bool) else None)
    why = f"it can help: {best.probability:.2f}"
    return Decision(
        device.id, "done", say, tuple(map(call_of, orders)), {device.id: dict(way.attributes)}, why=why
    )
