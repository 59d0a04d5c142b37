"""SimuHome's routes, status codes and bodies, over real HTTP; one of its episodes played through them."""

from __future__ import annotations

import http.client
import json
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import uvicorn

from edge.home.errors import HomeError
from edge.home.loading import read_episode
from edge.home.simuhome_api import SimuHomeApi
from edge.home.simuhome_http import ROUTES, application
from edge.home.simuhome_score import Call, score_episode

LIGHT, DRYER = "study_on_off_light_1", "study_laundry_dryer_1"
CONFIG: dict[str, Any] = {
    "tick_interval": 0.1,
    "base_time": "2025-08-23 13:00:00",
    "rooms": {
        "study": {
            "state": {"temperature": 2600.0, "humidity": 5000.0, "illuminance": 100.0, "pm10": 30.0},
            "devices": [
                {"device_id": LIGHT, "device_type": "on_off_light", "attributes": {"1.OnOff.OnOff": False}},
                {
                    "device_id": DRYER,
                    "device_type": "laundry_dryer",
                    "attributes": {
                        "0.BasicInformation.VendorName": "Maker",
                        "1.OnOff.OnOff": True,
                        "1.OperationalState.OperationalState": 1,
                        "1.OperationalState.CountdownTime": 600,
                    },
                },
            ],
        },
        "attic": {"state": {}, "devices": []},
    },
}


class Caller:
    """A client of the routes: (HTTP status, body)."""

    def __init__(self, port: int) -> None:
        self._port = port

    def raw(
        self, method: str, path: str, body: bytes | None = None, headers: dict[str, str] | None = None
    ) -> tuple[int, dict[str, Any]]:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=30)
        try:
            given = {"Content-Type": "application/json"} if headers is None else headers
            connection.request(method, path, body, given)
            answer = connection.getresponse()
            told = json.loads(answer.read())
        finally:
            connection.close()
        assert set(told) == {"status", "data", "error"} and told["status"]["code"] == answer.status
        assert (told["error"] is None) == (answer.status == 200)
        return answer.status, told

    def get(self, path: str) -> Any:
        status, told = self.raw("GET", path)
        assert status == 200, told
        return told["data"]

    def post(self, path: str, **body: Any) -> Any:
        status, told = self.raw("POST", path, json.dumps(body).encode())
        assert status == 200, told
        return told["data"]

    def fails(self, method: str, path: str, **body: Any) -> tuple[int, str]:
        status, told = self.raw(method, path, json.dumps(body).encode() if body else None)
        assert told["data"] is None
        return status, told["error"]["type"]


@pytest.fixture(scope="module")
def server() -> Iterator[tuple[Caller, SimuHomeApi]]:
    api = SimuHomeApi()
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        running = uvicorn.Server(uvicorn.Config(application(api), log_level="error"))
        thread = threading.Thread(target=running.run, kwargs={"sockets": [listening]}, daemon=True)
        thread.start()
        deadline = time.monotonic() + 30
        while not running.started and time.monotonic() < deadline:
            time.sleep(0.01)
        yield Caller(listening.getsockname()[1]), api
        running.should_exit = True
        thread.join(30)
    assert not thread.is_alive()


@pytest.fixture
def home(server: tuple[Caller, SimuHomeApi]) -> Caller:
    server[0].post("/simulation/reset", **CONFIG)
    return server[0]


def command(device: str, cluster: str, name: str, **args: Any) -> dict[str, Any]:
    return {"endpoint_id": 1, "cluster_id": cluster, "command_id": name, "args": args, "device_id": device}


def test_rooms_devices_and_time(home: Caller) -> None:
    assert home.get("/__health__") == {"healthy": True}
    assert home.get("/rooms") == {"rooms": ["study", "attic"]}
    assert home.get("/rooms/study/devices") == {LIGHT: "on_off_light", DRYER: "laundry_dryer"}
    assert home.get("/rooms/study/states") == CONFIG["rooms"]["study"]["state"]
    state = home.get("/home/state")
    assert (state["current_tick"], state["current_time"]) == (0, "2025-08-23 13:00:00")
    assert [d["device_id"] for d in state["rooms"]["study"]["devices"]] == [LIGHT, DRYER]
    vendor = home.get(f"/devices/{DRYER}/attributes/0/BasicInformation/VendorName")
    assert vendor["value"] == "Maker"
    structure = home.get(f"/devices/{LIGHT}/structure")["endpoints"]
    assert structure == {"1": {"OnOff": {"attributes": ["OnOff"], "commands": ["On", "Off", "Toggle"]}}}
    for variable in ("temperature", "humidity", "air_quality", "illuminance"):
        assert home.get(f"/environment/control_rules/{variable}")["unit"]


def test_commands_writes_and_time_that_is_moved(home: Caller) -> None:
    done = home.post(f"/devices/{LIGHT}/commands", endpoint_id=1, cluster_id="OnOff", command_id="On")
    assert done["changed"] == {"1.OnOff.OnOff": True}
    assert home.get("/rooms/study/states")["illuminance"] == 600.0
    wet = {"endpoint_id": 1, "cluster_id": "LaundryDryerControls", "attribute_id": "SelectedDrynessLevel"}
    assert home.post(f"/devices/{DRYER}/attributes/write", **wet, value=3)["changed"]
    moved = home.post("/simulation/fast_forward_to", to_tick=6000, room_ids=["study"])
    assert (moved["current_tick"], moved["current_time"]) == (6000, "2025-08-23 13:10:00")
    assert set(moved["rooms"]) == {"study"}
    state = home.get(f"/devices/{DRYER}/attributes")["attributes"]
    assert state["1.OperationalState.OperationalState"] == 0
    assert home.post("/simulation/tick_interval", tick_interval=1.0) == {"tick_interval": 1.0}
    assert home.get("/time")["tick_interval"] == 1.0


def test_schedule(home: Caller) -> None:
    step = {"tool": "execute_command", "args": command(LIGHT, "OnOff", "On")}
    first = home.post("/schedule/workflow", start_time="2025-08-23 13:01:00", steps=[step])
    second = home.post("/schedule/workflow", start_time="2025-08-23 13:02:00", steps=[step])
    assert home.post(f"/schedule/workflow/{second['workflow_id']}/cancel")["status"] == "cancelled"
    home.post("/simulation/fast_forward_to", to_tick=1300)
    assert home.get(f"/schedule/workflow/{first['workflow_id']}/status")["status"] == "completed"
    told = [one["status"] for one in home.get("/schedule/workflows")["workflows"]]
    assert told == ["completed", "cancelled"]
    bad = {"tool": "execute_command", "args": command("nobody", "OnOff", "On")}
    ran = home.post("/workflow/run_now", steps=[bad, step], continue_on_error=True)
    assert ran["status"] == "failed" and [r["ok"] for r in ran["results"]] == [False, True]
    late = home.fails("POST", "/schedule/workflow", start_time="2025-08-23 13:00:00", steps=[step])
    assert late == (400, "VALIDATION_ERROR")
    cancel = f"/schedule/workflow/{first['workflow_id']}/cancel"
    assert home.fails("POST", cancel) == (409, "INVALID_STATE")


def test_devices_come_and_go(home: Caller) -> None:
    new = {"device_id": "attic_fan_1", "device_type": "fan", "room_id": "attic"}
    home.post("/devices/add", **new, attributes={"1.OnOff.OnOff": True, "1.FanControl.PercentCurrent": 100})
    assert home.fails("POST", "/devices/add", **new) == (409, "DEVICE_ALREADY_EXISTS")
    assert home.fails("POST", "/devices/add", **{**new, "room_id": "cellar"}) == (404, "ROOM_NOT_FOUND")
    assert home.fails("POST", "/devices/add", **{**new, "device_type": "portal"})[0] == 400
    before = home.get("/rooms/attic/states")["temperature"]
    home.post("/simulation/fast_forward_to", to_tick=600)
    assert home.get("/rooms/attic/states")["temperature"] < before
    assert home.raw("DELETE", "/devices/attic_fan_1")[0] == 200
    assert home.fails("DELETE", "/devices/attic_fan_1") == (404, "DEVICE_NOT_FOUND")
    assert home.get("/rooms/attic/devices") == {}
    home.raw("DELETE", f"/devices/{DRYER}")
    home.post("/simulation/fast_forward_to", to_tick=7000)  # beyond the end of a cycle that is gone


def test_status_codes(home: Caller) -> None:
    on = command(LIGHT, "OnOff", "On")
    for method, path, body, wanted in (
        ("GET", "/devices/nobody/attributes", {}, (404, "DEVICE_NOT_FOUND")),
        ("GET", f"/devices/{LIGHT}/attributes/7/OnOff/OnOff", {}, (404, "ENDPOINT_NOT_FOUND")),
        ("GET", f"/devices/{LIGHT}/attributes/1/Oven/OnOff", {}, (404, "CLUSTER_NOT_FOUND")),
        ("GET", f"/devices/{LIGHT}/attributes/1/OnOff/Hue", {}, (404, "ATTRIBUTE_NOT_FOUND")),
        ("GET", "/rooms/cellar/states", {}, (404, "ROOM_NOT_FOUND")),
        ("GET", "/schedule/workflow/x/status", {}, (404, "WORKFLOW_NOT_FOUND")),
        ("GET", "/environment/control_rules/smell", {}, (400, "VALIDATION_ERROR")),
        ("GET", "/nowhere", {}, (404, "ROUTE_NOT_FOUND")),
        ("POST", "/time", on, (405, "METHOD_NOT_ALLOWED")),
        ("POST", f"/devices/{LIGHT}/commands", {**on, "endpoint_id": 7}, (404, "ENDPOINT_NOT_FOUND")),
        ("POST", f"/devices/{LIGHT}/commands", {**on, "cluster_id": "Oven"}, (404, "CLUSTER_NOT_FOUND")),
        ("POST", f"/devices/{LIGHT}/commands", {**on, "cluster_id": [1]}, (404, "CLUSTER_NOT_FOUND")),
        ("POST", f"/devices/{LIGHT}/commands", {**on, "command_id": "Fly"}, (404, "COMMAND_NOT_FOUND")),
        ("POST", f"/devices/{LIGHT}/commands", {**on, "args": {"x": 1}}, (400, "COMMAND_INVALID_ARGS")),
        ("POST", f"/devices/{LIGHT}/commands", {**on, "args": [1]}, (400, "COMMAND_INVALID_ARGS")),
        ("POST", f"/devices/{LIGHT}/commands", {"endpoint_id": 1}, (400, "VALIDATION_ERROR")),
        ("POST", "/simulation/fast_forward_to", {"to_tick": -1}, (400, "VALIDATION_ERROR")),
        ("POST", "/simulation/fast_forward_to", {"to_tick": 10, "room_ids": 5}, (400, "VALIDATION_ERROR")),
        ("POST", "/simulation/reset", {"rooms": {"a": {}}}, (400, "VALIDATION_ERROR")),
        ("POST", "/simulation/reset", {**CONFIG, "enable_aggregators": False}, (400, "VALIDATION_ERROR")),
        ("POST", "/simulation/tick_interval", {"tick_interval": 0}, (400, "VALIDATION_ERROR")),
    ):
        assert home.fails(method, path, **body) == wanted, (method, path, body)
    write = {"endpoint_id": 1, "cluster_id": "OnOff", "attribute_id": "OnOff", "value": True}
    assert home.fails("POST", f"/devices/{LIGHT}/attributes/write", **write) == (400, "READ_ONLY")
    pause = command(DRYER, "OperationalState", "Pause")
    home.post(f"/devices/{DRYER}/commands", **command(DRYER, "OperationalState", "Stop"))
    assert home.fails("POST", f"/devices/{DRYER}/commands", **pause) == (409, "INVALID_STATE")
    assert home.get(f"/devices/{LIGHT}/attributes/1/OnOff/OnOff")["value"] is False, "nothing has changed it"


def test_bodies_that_are_no_json_and_other_sites(home: Caller) -> None:
    for body in (b"{", b"[1]", b'{"to_tick": NaN}', b'{"a": 1e999}', b'{"a": "\\ud800"}', b"[" * 100_000):
        status, told = home.raw("POST", "/simulation/reset", body)
        assert (status, told["error"]["type"]) == (400, "VALIDATION_ERROR"), body[:20]
    status, _ = home.raw("POST", "/simulation/reset", b"{}", {"Content-Type": "text/plain"})
    assert status == 400
    status, told = home.raw("GET", "/home/state", None, {"Host": "evil.example:80"})
    assert (status, told["error"]["type"]) == (403, "FORBIDDEN")
    for origin, wanted in (
        ("http://evil.example", 403),
        ("null", 403),
        ("http://[", 403),
        ("http://localhost:8000", 200),
    ):
        assert home.raw("GET", "/rooms", None, {"Origin": origin})[0] == wanted
    assert home.get("/rooms") == {"rooms": ["study", "attic"]}


def test_every_route_of_the_benchmark_is_there() -> None:
    assert len(ROUTES) == len({(method, path) for method, path, _ in ROUTES}) == 22


def test_max_ticks_and_real_time() -> None:
    api = SimuHomeApi({**CONFIG, "max_ticks": 100})
    assert api.fast_forward_to(100)["current_tick"] == 100
    with pytest.raises(HomeError, match="max_ticks"):
        api.fast_forward_to(101)
    api = SimuHomeApi({**CONFIG, "tick_interval": 1e-5}, real_time=True)
    try:
        deadline = time.monotonic() + 30
        while api.time()["current_tick"] < 6000 and time.monotonic() < deadline:
            time.sleep(0.01)
        assert api.attributes(DRYER)["attributes"]["1.OperationalState.OperationalState"] == 0
    finally:
        api.close()
    api.reset({**CONFIG, "fast_forward": True})
    assert api.time()["current_tick"] == 0


def test_an_episode_of_the_benchmark_over_http(server: tuple[Caller, SimuHomeApi], shared_data: Path) -> None:
    """qt3, seed 26: fan 1 of the dining room on at 80 %, kitchen light 1 on, living room blinds 1 closed."""
    path = shared_data / "episodes" / "simuhome" / "qt3_feasible_seed_26.json"
    if not path.is_file():
        pytest.skip(f"the episode is not at {path}")
    caller, api = server
    episode = read_episode(path)
    caller.post("/simulation/reset", **episode["initial_home_config"])
    fan, light = "dining_room_fan_1", "kitchen_on_off_light_1"
    blinds = "living_room_window_covering_controller_1"
    caller.post(f"/devices/{fan}/commands", **command(fan, "OnOff", "On"))
    speed = {"endpoint_id": 1, "cluster_id": "FanControl", "attribute_id": "PercentSetting", "value": 80}
    caller.post(f"/devices/{fan}/attributes/write", **speed)
    caller.post(f"/devices/{blinds}/commands", **command(blinds, "WindowCovering", "DownOrClose"))
    rooms = ("dining_room", "kitchen", "living_room")
    calls = [Call("get_room_devices", {"room_id": room}) for room in rooms]
    almost = score_episode(episode, api.simulation, calls)
    assert [part.met for part in almost.goals] == [True, False, True] and almost.score == 0
    caller.post(f"/devices/{light}/commands", **command(light, "OnOff", "On"))
    solved = score_episode(episode, api.simulation, calls)
    assert solved.score == 1 and all(part.met for part in solved.actions)
