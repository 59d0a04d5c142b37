"""No truth reaches the agent that the bench scores: what it is told is the same whatever is true, and its
process opens no file of the episodes and loads nothing that makes or scores them.

Truth from outside: two plans with the same home and recording, and every truth different.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from bench.agent_episodes import read_bundle, record, seed_plan
from bench.agent_run import child_environment, run_agent, scored
from bench.agent_server import EpisodeServer
from edge.agent.decide_request import call_of
from edge.home.reach import Order, orders_to
from edge.home.twin import HomeDevice
from edge.perception.utterance import BLOCK
from edge.stream.command_client import CommandClient
from recordings.plan.model import Plan
from recordings.plan.store import plan_to_yaml
from recordings.profile import Assert, Goal, Placed

WATCHED = """
import json, os, sys
from pathlib import Path
log = {log!r}
opened, reached, given = [], [], sorted(os.environ)
def note(event, args):
    if event == "open":
        opened.append(str(args[0]))
    elif event == "socket.connect":
        reached.append(str(args[1]))
sys.addaudithook(note)
sys.argv = ["agent_child", *sys.argv[1:]]
from bench.agent_child import main
here = os.listdir()
code = main()
told = dict(opened=opened, reached=reached, modules=sorted(sys.modules), cwd=here, variables=given)
Path(log).write_text(json.dumps(told))
sys.exit(code)
"""


def _plan() -> Plan:
    """One short request, pointing at a lamp."""
    plan = seed_plan(3, per_cell=2)
    short = min(
        (i for i in plan.items if i.grounding == "G1" and i.query == "Q2" and i.feasibility == "feasible"),
        key=lambda item: len(item.request),
    )
    return replace(plan, items=(short,))


def _other_truths(plan: Plan) -> Plan:
    """The same home, room and recording; everything that is true of the request is another."""
    (item,) = plan.items
    lamp = next(d for d in item.home.devices if d.type == "dimmable_light" and d.id != item.target_device)
    placed = tuple(
        Placed(person="emil", mouth_m=(1.0, 1.0, 1.6), facing_deg=0.0, speaks=True, pointing_at=lamp.id)
        for _ in item.staging.people
    )
    other = replace(
        item,
        grounding="G4",
        query="Q1",
        feasibility="nonexistent_resource",
        difficulty=None,
        request="Is my lamp on?",
        speaker="emil",
        target_device=None,
        goal=Goal(
            kind="refusal",
            reason="Emil has no lamp.",
            asserts=(Assert(device_id=lamp.id, attribute="1.OnOff.OnOff", value=True),),
        ),
        staging=replace(item.staging, people=placed),
        do=("says nothing",),
        note="another truth",
    )
    return replace(plan, items=(other,))


@pytest.fixture(scope="module")
def episodes(tmp_path_factory: pytest.TempPathFactory) -> tuple[Plan, Path]:
    plan = _plan()
    folder = tmp_path_factory.mktemp("seed_3")
    (folder / "plan.yaml").write_text(plan_to_yaml(plan), encoding="utf-8")
    record(plan.items[0], plan, folder / plan.items[0].id)
    return plan, folder


def _all_that_is_told(plan: Plan, folder: Path) -> list[tuple[str, bytes]]:
    """Everything that an agent can ask for, and what its own reports are answered with."""
    told: list[tuple[str, bytes]] = []
    with EpisodeServer(plan, folder, [plan.items[0].id], lambda op, data: told.append((op, data))) as server:
        client = CommandClient(server.address)
        episode = client.command("episode.next", timeout_s=30.0)
        for first in range(0, episode["frames"], 40 * BLOCK):
            client.command("observe.sound", first=first, frames=min(40 * BLOCK, episode["frames"] - first))
        for t_ns in episode["pictures"]:
            client.command("observe.pictures", from_ns=t_ns, to_ns=t_ns)
        client.command("observe.heard", decided_after_s=0.5)
        described = client.command("home.describe")
        for op in ("home.state", "home.rooms", "home.time", "home.workflows", "ops"):
            client.command(op)
        lamp = next(d["id"] for d in described["devices"] if d["type"] == "on_off_light")
        client.command("home.command", device_id=lamp, command="1.OnOff.Toggle")
        client.command("agent.heard", text="turn that off", evidence={})
        client.command("agent.declare", device_id=lamp, evidence={})
        client.command("agent.say", text="done")
        client.command("agent.finish", answer="done", outcome="done")
        client.command("episode.next", timeout_s=30.0)
        assert server.over
        assert {op for op, _ in told} >= {"observe.sound", "observe.pictures", "home.describe"}
    return told


def test_what_an_agent_is_told_does_not_depend_on_what_is_true(episodes: tuple[Plan, Path]) -> None:
    plan, folder = episodes
    one, other = _all_that_is_told(plan, folder), _all_that_is_told(_other_truths(plan), folder)
    assert [op for op, _ in one] == [op for op, _ in other]
    for (op, said), (_, other_said) in zip(one, other, strict=True):
        assert said == other_said, op
    item = plan.items[0]
    everything = b"".join(data for _, data in one)
    for secret in (item.request, item.feasibility, "pointing_at", item.id, "target_device"):
        assert secret.encode() not in everything, secret
    sound = b"".join(data for op, data in one if op == "observe.sound")
    frames = len(read_bundle(folder / item.id).foa)
    assert len(sound) >= frames * 16, "all of the sound was asked for"


def _scripted(plan: Plan, folder: Path, device_id: str | None, orders: list[Order]) -> tuple[str, str]:
    """(grounding, goal) of an agent that knows what to do beforehand."""
    with EpisodeServer(plan, folder, [plan.items[0].id]) as server:
        client = CommandClient(server.address)
        client.command("episode.next", timeout_s=30.0)
        client.command("agent.declare", device_id=device_id, evidence={})
        for order in orders:
            call = call_of(order)
            client.command(call.name, **call.args)
        client.command("agent.finish", answer="It is done.", outcome="done")
        client.command("episode.next", timeout_s=30.0)
        (score,) = scored(server.done).evaluation.scores
    assert score.grounding is not None and score.goal is not None
    return score.grounding.verdict, score.goal.verdict


def test_what_is_done_in_the_home_is_what_is_scored(episodes: tuple[Plan, Path]) -> None:
    plan, folder = episodes
    item = plan.items[0]
    target = next(device for device in item.home.devices if device.id == item.target_device)
    wanted = {one.attribute: one.value for one in item.goal.asserts}
    twin = HomeDevice(target.id, target.type, target.name, target.room)
    orders = orders_to(twin, target.attributes, wanted)
    assert orders
    assert _scripted(plan, folder, target.id, orders) == ("right", "right")
    assert _scripted(plan, folder, target.id, []) == ("right", "wrong"), "said, and not done"
    assert _scripted(plan, folder, None, orders) == ("wrong", "right")


def test_the_agents_process_sees_nothing_but_its_address(episodes: tuple[Plan, Path], tmp_path: Path) -> None:
    pytest.importorskip("faster_whisper")
    pytest.importorskip("ai_edge_litert")
    _, folder = episodes
    (tmp_path / "watched.py").write_text(WATCHED.format(log=str(tmp_path / "log.json")), encoding="utf-8")
    profiles = tmp_path / "profiles"
    profiles.mkdir()
    run = run_agent(folder, profiles, "packaged", child=[str(tmp_path / "watched.py")])
    (episode,) = run.episodes
    assert episode.last("finished"), "it answered"
    assert episode.seconds_to_declare is not None
    seen = json.loads((tmp_path / "log.json").read_text())
    assert seen["cwd"] == []
    assert set(seen["variables"]) <= {*child_environment(), "LC_CTYPE"}  # Python sets that one itself
    assert [path for path in seen["opened"] if str(folder) in path or path.endswith("plan.yaml")] == []
    plan_makers = [f"recordings.plan.{name}" for name in ("generate", "compose", "builtin", "store")]
    makers = ("capture.virtual", "recordings.evaluate", "bench.agent_server", "bench.agent_episodes")
    loaded = [name for name in seen["modules"] if name.startswith((*makers, *plan_makers))]
    assert loaded == []
