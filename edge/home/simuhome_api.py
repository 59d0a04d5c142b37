"""What SimuHome's interface (arXiv 2509.24282) offers, as Python: one home that is reset, asked, commanded
and moved on. `edge.home.simuhome_http` puts it on HTTP.

Every method gives plain data (JSON) or raises HomeError with a type of the benchmark.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any

from dsp.errors import InputError
from edge.home.clock import TICK_S, RealTime
from edge.home.control_rules import RULES
from edge.home.errors import HomeError
from edge.home.loading import simulation_of_config
from edge.home.quirks import SIMUHOME, Quirks
from edge.home.schema import commands_of
from edge.home.simulation import Simulation
from edge.home.twin import HomeDevice
from edge.home.workflow import Workflow, Workflows

EMPTY: dict[str, Any] = {"rooms": {}}


class SimuHomeApi:
    """A home behind SimuHome's interface.

    config: as `reset` takes it; without it an empty home. real_time: the home's time runs on by itself, a
    tick each `tick_interval` seconds; otherwise it stands still until it is moved (`fast_forward_to`).
    Thread-safe.
    """

    def __init__(
        self,
        config: Mapping[str, Any] | None = None,
        *,
        quirks: Quirks = SIMUHOME,
        real_time: bool = False,
    ) -> None:
        self._quirks, self._real_time = quirks, real_time
        self._clock: RealTime | None = None
        self._interval_s = TICK_S
        self._max_ticks: int | None = None
        self._lock = threading.Lock()
        self.simulation: Simulation
        self.workflows: Workflows
        self.reset(EMPTY if config is None else config)

    def close(self) -> None:
        """Let real time stand still."""
        if self._clock is not None:
            self._clock.stop()
            self._clock = None

    # -- simulation

    def reset(self, config: Any) -> dict[str, Any]:
        """Begin anew with a home. `config` may also have max_ticks (how far it may be moved), fast_forward
        (true: time stands still until it is moved) and enable_aggregators (only true)."""
        if not isinstance(config, Mapping):
            raise HomeError("VALIDATION_ERROR", "reset takes an object: the home")
        if config.get("enable_aggregators", True) is not True:
            raise HomeError(
                "VALIDATION_ERROR", "enable_aggregators is true: rooms always follow their devices"
            )
        most = config.get("max_ticks")
        if most is not None and (type(most) is not int or most < 1):
            raise HomeError("VALIDATION_ERROR", f"max_ticks is a number of ticks, not {most!r}")
        interval = _interval(config.get("tick_interval", TICK_S))
        try:
            simulation = simulation_of_config(config, self._quirks)
        except InputError as error:
            raise HomeError("VALIDATION_ERROR", str(error)) from None
        with self._lock:
            self.close()
            self.simulation, self.workflows = simulation, Workflows(simulation)
            self._max_ticks, self._interval_s = most, interval
            if self._real_time and not config.get("fast_forward"):
                self._clock = RealTime(simulation, TICK_S / interval).start()
        return self.time()

    def tick_interval(self, tick_interval: float) -> dict[str, Any]:
        """Real seconds that a tick takes from now on. In the home it stays 0.1 s."""
        interval = _interval(tick_interval)
        with self._lock:
            self._interval_s = interval
            if self._clock is not None:
                self.close()
                self._clock = RealTime(self.simulation, TICK_S / interval).start()
        return {"tick_interval": interval}

    def fast_forward_to(self, to_tick: int, room_ids: Sequence[str] | None = None) -> dict[str, Any]:
        """Move time on; the states of these rooms, or of all, as they are then."""
        if room_ids is not None and not isinstance(room_ids, list | tuple):
            raise HomeError("VALIDATION_ERROR", "room_ids is a list of rooms")
        rooms = list(self.rooms()["rooms"] if room_ids is None else room_ids)
        for room in rooms:
            self._room(room)
        if self._max_ticks is not None and type(to_tick) is int and to_tick > self._max_ticks:
            raise HomeError("VALIDATION_ERROR", f"to_tick {to_tick} is beyond max_ticks {self._max_ticks}")
        try:
            self.simulation.advance_to(to_tick)
        except InputError as error:
            raise HomeError("VALIDATION_ERROR", str(error)) from None
        states = self.simulation.rooms()
        return {**self.time(), "rooms": {room: states[room] for room in rooms}}

    def time(self) -> dict[str, Any]:
        """Tick and time of day."""
        tick = self.simulation.tick
        return {
            "current_tick": tick,
            "current_time": self.simulation.clock.at(tick),
            "base_time": self.simulation.clock.at(0),
            "tick_interval": self._interval_s,
        }

    # -- devices

    def add_device(
        self, device_id: str, device_type: str, room_id: str, attributes: Any = None
    ) -> dict[str, Any]:
        """One more device."""
        if not all(isinstance(one, str) and one for one in (device_id, device_type, room_id)):
            raise HomeError("VALIDATION_ERROR", "device_id, device_type and room_id are texts")
        if not isinstance(attributes or {}, Mapping):
            raise HomeError("VALIDATION_ERROR", "attributes is an object")
        name = device_id.removeprefix(f"{room_id}_").replace("_", " ")
        try:
            self.simulation.add_device(HomeDevice(device_id, device_type, name, room_id), attributes)
        except InputError as error:
            raise HomeError("VALIDATION_ERROR", str(error)) from None
        return {"device_id": device_id, "device_type": device_type, "room_id": room_id}

    def remove_device(self, device_id: str) -> dict[str, Any]:
        """Take a device out."""
        self.simulation.remove_device(device_id)
        return {"device_id": device_id}

    def command(
        self, device_id: str, endpoint_id: Any, cluster_id: str, command_id: str, args: Any = None
    ) -> dict[str, Any]:
        """Carry out a command; what it changed."""
        there = self.structure(device_id)["endpoints"].get(str(endpoint_id))
        if there is None:
            raise HomeError("ENDPOINT_NOT_FOUND", f"{device_id} has no endpoint {endpoint_id!r}")
        if not isinstance(cluster_id, str) or cluster_id not in there:
            known = ", ".join(there)
            raise HomeError("CLUSTER_NOT_FOUND", f"endpoint {endpoint_id} has {known}, not {cluster_id!r}")
        given = {} if args is None else args
        done = self.simulation.command(device_id, f"{endpoint_id}.{cluster_id}.{command_id}", given)
        return {"device_id": device_id, "command": done.command, "changed": done.changed}

    def write(
        self, device_id: str, endpoint_id: Any, cluster_id: str, attribute_id: str, value: Any
    ) -> dict[str, Any]:
        """Write one attribute; what changed."""
        path = f"{endpoint_id}.{cluster_id}.{attribute_id}"
        done = self.simulation.write(device_id, path, value)
        return {"device_id": device_id, "attribute": path, "changed": done.changed}

    def attributes(self, device_id: str) -> dict[str, Any]:
        """All attributes of a device."""
        return {"device_id": device_id, "attributes": self.simulation.home.state(device_id)}

    def attribute(
        self, device_id: str, endpoint_id: Any, cluster_id: str, attribute_id: str
    ) -> dict[str, Any]:
        """One attribute."""
        path = f"{endpoint_id}.{cluster_id}.{attribute_id}"
        value = self.simulation.home.read(device_id, path)
        return {"device_id": device_id, "attribute": path, "value": value}

    def structure(self, device_id: str) -> dict[str, Any]:
        """Endpoints -> clusters -> names of attributes and commands."""
        state = self.simulation.home.state(device_id)
        kind = next((d.type for d in self.simulation.home.devices if d.id == device_id), "")
        endpoints: dict[str, dict[str, dict[str, list[str]]]] = {}

        def cluster(endpoint: str, name: str) -> dict[str, list[str]]:
            empty: dict[str, list[str]] = {"attributes": [], "commands": []}
            return endpoints.setdefault(endpoint, {}).setdefault(name, empty)

        for path in state:
            endpoint, _, rest = path.partition(".")
            name, _, attribute = rest.partition(".")
            cluster(endpoint, name)["attributes"].append(attribute)
        for known in commands_of(kind):
            cluster(str(known["endpoint"]), known["cluster"])["commands"].append(known["command"])
        return {"device_id": device_id, "device_type": kind, "endpoints": endpoints}

    # -- rooms

    def rooms(self) -> dict[str, Any]:
        """Names of the rooms."""
        return {"rooms": list(self.simulation.rooms())}

    def room_devices(self, room_id: str) -> dict[str, Any]:
        """id -> type of the devices of a room."""
        self._room(room_id)
        return {d.id: d.type for d in self.simulation.home.devices if d.room == room_id}

    def room_states(self, room_id: str) -> dict[str, Any]:
        """Air and light of a room."""
        return dict(self._room(room_id))

    def home_state(self) -> dict[str, Any]:
        """Everything, at one moment."""
        with self.simulation.home.order:
            states, devices = self.simulation.home.snapshot(), self.simulation.home.devices
            rooms = {
                room: {
                    "state": state,
                    "devices": [
                        {"device_id": d.id, "device_type": d.type, "attributes": states[d.id]}
                        for d in devices
                        if d.room == room
                    ],
                }
                for room, state in self.simulation.rooms().items()
            }
            return {**self.time(), "rooms": rooms}

    def control_rules(self, variable: str) -> dict[str, Any]:
        """What moves temperature, humidity, air_quality or illuminance, in words."""
        if variable not in RULES:
            raise HomeError("VALIDATION_ERROR", f"there are rules of {', '.join(RULES)}, not {variable!r}")
        return RULES[variable]

    # -- schedule

    def schedule(self, start_time: Any, steps: Any) -> dict[str, Any]:
        """Run steps at a time of the home."""
        return self._told(self.workflows.schedule(start_time, steps))

    def run_now(self, steps: Any, continue_on_error: Any = False) -> dict[str, Any]:
        """Run steps now."""
        if not isinstance(continue_on_error, bool):
            raise HomeError("VALIDATION_ERROR", f"continue_on_error is true or false: {continue_on_error!r}")
        return self._told(self.workflows.run_now(steps, continue_on_error))

    def workflow(self, workflow_id: str) -> dict[str, Any]:
        """How a workflow stands."""
        return self._told(self.workflows.get(workflow_id))

    def cancel(self, workflow_id: str) -> dict[str, Any]:
        """It will not run."""
        return self._told(self.workflows.cancel(workflow_id))

    def all_workflows(self) -> dict[str, Any]:
        """All workflows."""
        return {"workflows": [self._told(one) for one in self.workflows.all()]}

    # -- inside

    def _told(self, workflow: Workflow) -> dict[str, Any]:
        return workflow.to_dict(self.simulation)

    def _room(self, room_id: Any) -> Mapping[str, float]:
        found = self.simulation.rooms().get(room_id) if isinstance(room_id, str) else None
        if found is None:
            raise HomeError("ROOM_NOT_FOUND", f"there is no room {room_id!r} in this home")
        return found  # type: ignore[return-value]


def _interval(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 1e-6 <= value <= 3600:
        raise HomeError("VALIDATION_ERROR", f"tick_interval is seconds, 0.000001 to 3600, not {value!r}")
    return float(value)
