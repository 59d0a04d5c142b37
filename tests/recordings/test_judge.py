"""The LLM judge against a real HTTP server that speaks the OpenAI chat completions protocol."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from typer.testing import CliRunner

from dsp.errors import CheckFailed
from hearth import app
from recordings.evaluate.answers import Answer, collect, write_answers
from recordings.evaluate.evaluation import Share, evaluate
from recordings.evaluate.goal_score import Scored
from recordings.evaluate.judge import Judge
from recordings.profile import Goal, HomeState, Profile, RoomValue, profile_to_yaml

PATIENCE_S = 0.4  # of the judge that is kept waiting


class Replies:
    """What the server says to the first, second and third call of an answer: letter, number (HTTP status),
    or the name of a fault. `asked` keeps what came in."""

    def __init__(self) -> None:
        self.script: list[Any] = ["A", "A", "A"]
        self.asked: list[dict[str, Any]] = []
        self.keys: list[str | None] = []

    async def answer(self, request: Request) -> Response:
        body = await request.json()
        self.asked.append(body)
        self.keys.append(request.headers.get("authorization"))
        reply = self.script[body["seed"]]
        if isinstance(reply, int):
            return JSONResponse({"error": {"message": "no"}}, reply)
        if reply == "late":
            await asyncio.sleep(3 * PATIENCE_S)
            reply = "A"
        elif reply == "drip":
            return StreamingResponse(self.drip(), media_type="application/json")
        elif reply == "html":
            return Response("<html>gateway</html>", media_type="text/html")
        elif reply == "deep":
            return Response("[" * 200_000, media_type="application/json")
        elif reply == "no choices":
            return JSONResponse({"choices": []})
        elif reply == "null":
            return JSONResponse({"choices": [{"message": {"content": None}}]})
        message = {"role": "assistant", "content": reply}
        return JSONResponse({"object": "chat.completion", "choices": [{"index": 0, "message": message}]})

    @staticmethod
    async def drip() -> Any:
        """A byte now and then: each read succeeds, the whole never comes in time."""
        for _ in range(60):
            yield b" "
            await asyncio.sleep(PATIENCE_S / 8)


@pytest.fixture(scope="module")
def server() -> Iterator[tuple[str, Replies]]:
    replies = Replies()
    listening = socket.create_server(("127.0.0.1", 0))
    web_app = Starlette(routes=[Route("/v1/chat/completions", replies.answer, methods=["POST"])])
    web = uvicorn.Server(uvicorn.Config(web_app, log_level="error", timeout_graceful_shutdown=1))
    thread = threading.Thread(target=web.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    deadline = time.monotonic() + 30
    while not web.started and time.monotonic() < deadline:
        time.sleep(0.01)
    assert web.started
    yield f"http://127.0.0.1:{listening.getsockname()[1]}/v1", replies
    web.should_exit = True
    thread.join(10)
    listening.close()


def profile(name: str = "e1", **fields: Any) -> Profile:
    given: dict[str, Any] = {
        "id": name,
        "session": "s",
        "created_utc": "2026-01-01T00:00:00Z",
        "origin": "virtual",
        "query": "Q2",
        "feasibility": "nonexistent_resource",
        "request": "Turn on the television",
        "goal": Goal(kind="refusal", reason="there is no television"),
        "home": HomeState(),
    }
    return Profile(**{**given, **fields})


def told(text: str = "I have no such device.", **fields: Any) -> Answer:
    given = {"episode": "e1", "declared": None, "outcome": "refused", "answer": text, "final_state": {}}
    return Answer(**{**given, **fields})


def ask(server: tuple[str, Replies], *script: Any, timeout_s: float = 20.0) -> tuple[Scored, Judge]:
    url, replies = server
    replies.script, replies.asked, replies.keys = list(script), [], []
    judge = Judge(url, "small", timeout_s)
    return judge.ask(profile(), told()), judge


def test_three_letters_and_their_majority(server: tuple[str, Replies]) -> None:
    for script, verdict, split in (
        ("AAA", "right", 0),
        ("BBB", "wrong", 0),
        ("ABA", "right", 1),
        ("BAB", "wrong", 1),
    ):
        scored, judge = ask(server, *script)
        assert (scored.verdict, scored.by) == (verdict, "judge")
        assert judge.counts.to_dict() == {
            "answers": 1,
            "calls": 3,
            "failed_calls": 0,
            "failures": [],
            "split": split,
            "undecided": 0,
        }
    for reply in (" A\n", "(A)", "A.", "**A**"):
        assert ask(server, reply, reply, "B")[0].verdict == "right"


@pytest.mark.parametrize(
    ("fault", "why"),
    [
        (500, "HTTP 500"),
        (429, "HTTP 429"),
        ("html", "no chat completion"),
        ("no choices", "no chat completion"),
        ("deep", "no chat completion"),
        ("null", "no chat completion"),
        ("A or B", "not one letter"),
        ("Answer: A", "not one letter"),
        ("a", "not one letter"),
        ("", "not one letter"),
    ],
)
def test_a_failed_call_is_counted_and_never_a_vote(server: tuple[str, Replies], fault: Any, why: str) -> None:
    scored, judge = ask(server, "B", fault, "B")
    assert scored.verdict == "wrong" and judge.counts.to_dict()["failed_calls"] == 1
    assert why in judge.counts.to_dict()["failures"][0]["why"]
    scored, judge = ask(server, "B", fault, "A")
    assert scored.verdict == "error" and why in scored.why and judge.counts.undecided == 1
    scored, judge = ask(server, fault, fault, "B")
    assert scored.verdict == "error", "one vote of three is no majority"


def test_time_out_is_an_error_and_does_not_hang(server: tuple[str, Replies]) -> None:
    for fault in ("late", "drip"):
        began = time.monotonic()
        scored, judge = ask(server, "A", fault, "B", timeout_s=PATIENCE_S)
        assert scored.verdict == "error" and set(judge.counts.failed) == {"time-out"}, fault
        assert time.monotonic() - began < 20
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    gone = Judge(f"http://127.0.0.1:{port}", "small", 5.0)
    scored = gone.ask(profile(), told())
    assert scored.verdict == "error" and gone.counts.to_dict()["failed_calls"] == 3
    assert "no connection" in scored.why


def test_the_command_with_a_judge(server: tuple[str, Replies], tmp_path: Path) -> None:
    url, replies = server
    replies.script, replies.asked = ["A", "B", "A"], []
    (tmp_path / "e1.yaml").write_text(profile_to_yaml(profile()))
    (tmp_path / "answers.jsonl").write_bytes(write_answers([told()]))
    command = ["evaluate", str(tmp_path / "answers.jsonl"), str(tmp_path / "e1.yaml")]
    ran = CliRunner().invoke(
        app, [*command, "--judge", url, "--model", "small", "--judge-timeout", "20", "--json"]
    )
    assert ran.exit_code == 0, ran.exception
    data = json.loads(ran.stdout)
    assert data["overall"]["goal"]["share"] == 1.0 and data["goal_by"] == {"judge": 1}
    assert (data["judge"]["answers"], data["judge"]["calls"], data["judge"]["split"]) == (1, 3, 1)
    replies.script = ["A", 500, "B"]
    ran = CliRunner().invoke(app, [*command, "--judge", url, "--model", "small"])
    assert isinstance(ran.exception, CheckFailed) and "1 failed" in ran.stdout and "HTTP 500" in ran.stdout
    ran = CliRunner().invoke(app, command)
    assert isinstance(ran.exception, CheckFailed) and "--judge" in ran.stdout


def test_ctrl_c_asks_no_more(server: tuple[str, Replies]) -> None:
    url, replies = server
    replies.script, replies.asked = ["A", "A", "A"], []
    names = [f"e{n}" for n in range(60)]

    def interrupt(amount: float) -> None:
        if len(replies.asked) > 20:
            raise KeyboardInterrupt

    answers = collect(told(episode=name) for name in names)
    with pytest.raises(KeyboardInterrupt):
        evaluate([profile(name) for name in names], answers, Judge(url, "small", 20.0), interrupt)
    asked, until = -1, time.monotonic() + 20
    while asked != len(replies.asked) and time.monotonic() < until:  # those that were on their way
        asked = len(replies.asked)
        time.sleep(0.25)
    assert asked == len(replies.asked) < 3 * len(names) / 2, "calls go on after Ctrl-C"


def test_what_the_judge_is_told(server: tuple[str, Replies], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEARTH_JUDGE_KEY", "word")
    ask(server, "A", "A", "A")
    _, replies = server
    assert [body["seed"] for body in replies.asked] == [0, 1, 2] and replies.keys == ["Bearer word"] * 3
    system, user = replies.asked[0]["messages"]
    assert replies.asked[0]["model"] == "small" and (system["role"], user["role"]) == ("system", "user")
    case = json.loads(user["content"].partition("\n")[2])
    assert case["request"] == "Turn on the television" and case["answer"] == "I have no such device."
    assert case["truth"] == {"reason": "there is no television"}


def test_rules_come_first_and_errors_never_count_as_right_or_wrong_silently(
    server: tuple[str, Replies],
) -> None:
    url, replies = server
    replies.script, replies.asked = ["B", "html", "A"], []
    warm = Goal(kind="answer", room_values=(RoomValue(room="study", variable="temperature", value=21.5),))
    asked = {"query": "Q1", "feasibility": "feasible", "goal": warm}
    given = [*(profile(f"e{n}") for n in range(3)), *(profile(f"e{n}", **asked) for n in (3, 4))]
    answers = [
        told("There is no television.", episode="e0"),
        told("", episode="e1"),
        told(episode="e2"),
        told("It is 21.5 degrees.", episode="e3", outcome="done"),
        told("It is pleasant.", episode="e4", outcome="done"),
    ]
    found = evaluate(given, collect(answers), Judge(url, "small", 20.0))
    assert [(s.goal.verdict, s.goal.by) for s in found.scores if s.goal] == [
        ("right", "rules"),
        ("wrong", "rules"),
        ("error", "judge"),
        ("right", "rules"),
        ("error", "judge"),
    ]
    assert len(replies.asked) == 6, "only what the rules cannot tell is asked for, three times each"
    assert found.shares()[1] == Share(2, 5, 2) and not found.complete
    assert found.judge is not None and found.judge["failed_calls"] == 2 and found.judge["undecided"] == 2
