"""Plans edited by people and by models: the spreadsheet, the words that must stay, the requests of a model.

The model is a real HTTP server of its own in this process; what it answers is different for each test.
"""

from __future__ import annotations

import csv
import io
import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import msgspec
import pytest
from typer.testing import CliRunner

from dsp.errors import DeviceError, InputError
from hearth import app
from recordings.chat_model import ChatModel
from recordings.plan.builtin import virtual_home
from recordings.plan.generate import make_plan
from recordings.plan.model import Plan, PlanItem
from recordings.plan.rewrite import rewrite_plan
from recordings.plan.sheet import COLUMNS, apply_csv, plan_to_csv
from recordings.plan.spoken import clock_time, minutes, number
from recordings.plan.store import read_plan, write_plan
from recordings.plan.words import numbers_in, request_problems


@pytest.fixture(scope="module")
def plan() -> Plan:
    return make_plan(*virtual_home(), 5, per_cell=2)


def first(plan: Plan, grounding: str, query: str, feasible: bool = True) -> PlanItem:
    return next(
        item
        for item in plan.items
        if (item.grounding, item.query, item.feasibility == "feasible") == (grounding, query, feasible)
    )


# ------------------------------------------------------------------ words


@pytest.mark.parametrize(
    ("value", "words"),
    [(0, "zero"), (13, "thirteen"), (20, "twenty"), (22, "twenty-two"), (100, "one hundred"),
     (150, "one hundred and fifty"), (-5, "minus five")],
)  # fmt: skip
def test_numbers_in_words(value: int, words: str):
    assert number(value) == words


def test_times_in_words():
    assert clock_time(12 * 60) == "twelve noon"
    assert clock_time(9 * 60) == "nine o'clock in the morning"
    assert clock_time(12 * 60 + 15) == "a quarter past twelve in the afternoon"
    assert clock_time(20 * 60 + 45) == "a quarter to nine in the evening"
    assert clock_time(22 * 60 + 40) == "twenty to eleven at night"
    assert [minutes(m) for m in (20, 30, 60)] == ["twenty minutes", "half an hour", "an hour"]


def test_numbers_are_found_in_words_and_digits():
    assert numbers_in("Set it to one hundred and fifty percent at half past nine") == ["150", "9", "half"]
    assert numbers_in("150 percent, at half past 9") == numbers_in(
        "half past nine: one hundred and fifty percent"
    )
    assert numbers_in("Turn that one off") == []


def test_each_grounding_wants_its_word(plan: Plan):
    for item in plan.items:
        assert request_problems(item) == [], item.request
    g1, g4 = first(plan, "G1", "Q1"), first(plan, "G4", "Q1")
    assert any('"that"' in p for p in request_problems(g1, "Is the thing over there on?"))
    assert any("name" in p for p in request_problems(g1, "Is that on, the floor lamp I mean?"))
    assert any('"my"' in p for p in request_problems(g4, "Is the light on?"))
    g2, g3 = first(plan, "G2", "Q1"), first(plan, "G3", "Q1")
    assert any("sound" in p for p in request_problems(g2, "How fast is that thing?"))
    assert any("one side" in p for p in request_problems(g3, "Is the light on?"))
    wrong = "right" if "left" in g3.request else "left"
    assert any("speaker" in p for p in request_problems(g3, f"How is the light on my {wrong} set?"))
    for bad in ("", "x" * 300 + ".", "Is that on", "Is that\non?", "<b>Is that on?</b>"):
        assert request_problems(g1, bad) != []


# ------------------------------------------------------------------ the spreadsheet


def rows_of(plan: Plan) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(plan_to_csv(plan).lstrip("\ufeff"))))


def as_csv(rows: list[dict[str, str]], delimiter: str = ",") -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, delimiter=delimiter)
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def test_an_untouched_spreadsheet_changes_nothing(plan: Plan):
    for delimiter in (",", ";", "\t"):
        applied = apply_csv(plan, as_csv(rows_of(plan), delimiter))
        assert (applied.changed, applied.problems) == ({}, [])
        assert applied.plan == plan


def test_edits_are_taken_over(plan: Plan):
    rows = rows_of(plan)
    item = first(plan, "G0", "Q1")
    row = next(row for row in rows if row["id"] == item.id)
    name = next(d.name for d in item.home.devices if d.id == item.target_device)
    row["request"] = f"Please tell me about the {name}."
    row["note"], row["skip"], row["order"] = "after lunch", "yes", "0.5"
    speaker = next(p.id for p in plan.participants if p.id != item.speaker)
    row["speaker"] = speaker
    applied = apply_csv(plan, as_csv(rows))
    assert applied.problems == []
    assert set(applied.changed[item.id]) == {"request", "note", "skip", "order", "speaker"}
    edited = applied.plan.items[0]
    assert (edited.id, edited.request, edited.note, edited.skip) == (
        item.id,
        row["request"],
        "after lunch",
        True,
    )
    assert (edited.speaker, edited.written_by) == (speaker, "hand")
    spoken = next(placed for placed in edited.staging.people if placed.speaks)
    height = next(p.mouth_height_m for p in plan.participants if p.id == speaker)
    assert (spoken.person, spoken.mouth_m[2]) == (speaker, height) and speaker in edited.home.people
    named = next(p.name for p in plan.participants if p.id == speaker)
    assert edited.do[0].startswith(named)
    assert sorted(i.id for i in applied.plan.items) == sorted(i.id for i in plan.items)
    # Back out and in again: the spreadsheet of the edited plan is its own.
    assert apply_csv(applied.plan, plan_to_csv(applied.plan)).changed == {}


def test_what_cannot_be_names_row_and_column_and_changes_nothing(plan: Plan):
    rows = rows_of(plan)
    g1, g4 = first(plan, "G1", "Q1"), first(plan, "G4", "Q1")
    number_of = {row["id"]: number for number, row in enumerate(rows, 2)}
    by_id = {row["id"]: row for row in rows}
    by_id[g1.id]["request"] = "Is the lamp on?"
    by_id[g4.id]["speaker"] = "nobody"
    other = next(item for item in plan.items if item.id not in (g1.id, g4.id))
    by_id[other.id]["room"], by_id[other.id]["order"], by_id[other.id]["skip"] = "attic", "first", "perhaps"
    applied = apply_csv(plan, as_csv(rows), "day.csv")
    assert applied.plan is plan
    text = "\n".join(applied.problems)
    assert f'day.csv, row {number_of[g1.id]}, column request: G1 must point by a word like "that"' in text
    assert f"day.csv, row {number_of[g4.id]}, column speaker: 'nobody' is none of the participants" in text
    for column in ("room", "order", "skip"):
        assert f"day.csv, row {number_of[other.id]}, column {column}: " in text
    target = next(d for d in g4.home.devices if d.id == g4.target_device)
    stranger = next(p.id for p in plan.participants if target.id not in p.devices and p.room != target.room)
    rows = rows_of(plan)
    next(row for row in rows if row["id"] == g4.id)["speaker"] = stranger
    problems = apply_csv(plan, as_csv(rows)).problems
    assert any("column speaker" in p and f"is not {stranger}'s" in p for p in problems), problems


def test_what_was_recorded_stays(plan: Plan):
    rows = rows_of(plan)
    item = first(plan, "G0", "Q1")
    row = next(row for row in rows if row["id"] == item.id)
    row["request"], row["note"] = "Something else.", "kept it"
    applied = apply_csv(plan, as_csv(rows), recorded=[item.id])
    assert any("a take of" in p and "column request" in p for p in applied.problems)
    row["request"] = item.request
    applied = apply_csv(plan, as_csv(rows), recorded=[item.id])
    assert applied.problems == [] and applied.changed == {item.id: ["note"]}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no column id"),
        ("a,b\n1,2\n", "no column id"),
        (",".join(COLUMNS[:-1]) + "\n", "the column written_by is missing"),
        (",".join((*COLUMNS, "colour")) + "\n", "unknown column 'colour'"),
        (",".join((*COLUMNS, "id")) + "\n", "the column id stands there twice"),
        (",".join(COLUMNS) + "\n1,ep0001\n", "row 2: 2 cells where row 1 has 15"),
        (",".join(COLUMNS) + '\n"1,ep0001\n', "no CSV"),
    ],
)
def test_what_is_no_spreadsheet_of_a_plan_is_refused(plan: Plan, text: str, message: str):
    with pytest.raises(InputError, match=message):
        apply_csv(plan, text)


def test_a_missing_an_unknown_and_a_doubled_row(plan: Plan):
    rows = rows_of(plan)
    extra = {**rows[1], "id": "ep9999"}
    problems = "\n".join(apply_csv(plan, as_csv([*rows[1:], extra, rows[1]])).problems)
    assert "ep0001 has no row" in problems
    assert "'ep9999' is no item of the plan" in problems
    assert "ep0002 stands in row 2 already" in problems


# ------------------------------------------------------------------ a model


Answer = Callable[[dict], object]


class Chat(BaseHTTPRequestHandler):
    """An OpenAI-compatible server, as far as this product uses one."""

    def do_POST(self) -> None:
        server = self.server
        assert isinstance(server, ChatServer)
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        server.bodies.append((self.path, self.headers.get("Authorization"), body))
        content = server.answer(body)
        if content is None:  # never answers, until the test is over
            server.over.wait(30)
            return
        if isinstance(content, int):
            self.send_error(content)
            return
        data = content if isinstance(content, bytes) else completion(str(content))
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *args: object) -> None:
        pass


class ChatServer(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Chat)
        self.bodies: list[tuple[str, str | None, dict]] = []
        self.over = threading.Event()
        self.answer: Answer = lambda body: ""

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1"


def completion(content: str) -> bytes:
    message = {"role": "assistant", "content": content}
    return json.dumps({"choices": [{"index": 0, "message": message}]}).encode()


@pytest.fixture
def server() -> Iterator[ChatServer]:
    server = ChatServer()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield server
    server.over.set()
    server.shutdown()
    thread.join()
    server.server_close()


def requested(body: dict) -> str:
    return body["messages"][1]["content"].splitlines()[0].removeprefix("Request: ")


def polite(body: dict) -> str:
    """What a good model answers: the same in other words."""
    said = requested(body)
    return f'"Hello there. {said}"\nThat is my answer.'


def test_a_model_that_keeps_the_words_writes_the_requests(plan: Plan, server: ChatServer):
    server.answer = polite
    saved: list[Plan] = []
    chat = ChatModel(server.endpoint, "tiny", key="secret", timeout_s=10)
    result = rewrite_plan(plan, chat, save=saved.append)
    assert len(result.rewritten) == len(plan.items) == 68 and result.kept == {}
    assert len(saved) == 7 and saved[-1] == result.plan, "every ten requests and at the end"
    for before, after in zip(plan.items, result.plan.items, strict=True):
        assert after.request == f"Hello there. {before.request}" and after.written_by == "tiny"
        assert msgspec.structs.replace(after, request=before.request, written_by="template") == before
    path, authorization, body = server.bodies[0]
    assert (path, authorization, body["model"]) == ("/v1/chat/completions", "Bearer secret", "tiny")
    asked = len(server.bodies)
    again = rewrite_plan(result.plan, chat, save=saved.append)
    assert (again.already, len(server.bodies), len(saved)) == (68, asked, 7), "nothing is asked twice"


def test_answers_that_break_the_rules_leave_the_template(plan: Plan, server: ChatServer):
    answers = {
        "G0": "Do something about it.",
        "G1": "Is the floor lamp on?",
        "G2": "Turn the fan off.",
        "G3": "The one over there.",
        "G4": "Anna wants the light off.",
    }
    grounding = {item.request: item.grounding for item in plan.items}
    server.answer = lambda body: answers[grounding[requested(body)]]
    result = rewrite_plan(plan, ChatModel(server.endpoint, "rude", timeout_s=10))
    assert result.rewritten == [] and result.plan == plan
    assert set(result.kept) == {item.id for item in plan.items} and all(result.kept.values())
    assert len(server.bodies) == 2 * len(plan.items), "each is told why and asked once more"
    assert "cannot be used" in server.bodies[1][2]["messages"][-1]["content"]


def test_a_number_may_not_change(plan: Plan, server: ChatServer):
    item = next(item for item in plan.items if item.query == "Q2" and "percent" in item.request)
    only = msgspec.structs.replace(plan, items=(item,))
    server.answer = lambda body: requested(body).replace("percent", "percent or ninety-nine percent")
    result = rewrite_plan(only, ChatModel(server.endpoint, "m", timeout_s=10))
    assert "numbers and times must stay" in result.kept[item.id]


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (b"<html>Welcome</html>", "not answer in the form"),
        (b'{"choices": []}', "not answer in the form"),
        (b'{"choices": [{"message": {"content": 3}}]}', "not answer in the form"),
        (500, "500"),
        (None, "did not answer: timed out"),
    ],
)
def test_a_server_that_is_no_model_ends_it_after_three_tries(
    plan: Plan, server: ChatServer, answer: object, why: str
):
    server.answer = lambda body: answer
    saved: list[Plan] = []
    with pytest.raises(DeviceError, match=why):
        rewrite_plan(plan, ChatModel(server.endpoint, "m", timeout_s=0.1), save=saved.append)
    assert len(server.bodies) == 3 and saved == []


def test_a_run_that_broke_off_goes_on(plan: Plan, server: ChatServer, tmp_path: Path):
    file = tmp_path / "plan.yaml"
    write_plan(plan, file)
    server.answer = lambda body: polite(body) if len(server.bodies) <= 15 else 503
    args = ["plan", "rewrite", str(file), "--endpoint", server.endpoint, "--model", "m", "--json"]
    broken = CliRunner().invoke(app, args)
    assert isinstance(broken.exception, DeviceError) and "503" in str(broken.exception)
    assert sum(item.written_by == "m" for item in read_plan(file).items) == 15
    server.answer = polite
    done = CliRunner().invoke(app, args)
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout) == {"rewritten": 53, "kept": [], "already": 15, "recorded": 0}
    assert all(item.written_by == "m" for item in read_plan(file).items)


def test_recorded_and_skipped_items_are_not_asked_for(plan: Plan, server: ChatServer):
    server.answer = polite
    items = (msgspec.structs.replace(plan.items[0], skip=True), *plan.items[1:5])
    few = msgspec.structs.replace(plan, items=items)
    result = rewrite_plan(few, ChatModel(server.endpoint, "m", timeout_s=10), recorded=["ep0002"], limit=2)
    assert result.rewritten == ["ep0003", "ep0004"] and result.recorded == 1
    assert result.plan.items[0] == items[0] and result.plan.items[4] == items[4]


@pytest.mark.parametrize("endpoint", ["", "127.0.0.1:80", "file:///etc/passwd", "ftp://host/v1"])
def test_only_web_addresses_are_asked(endpoint: str):
    with pytest.raises(InputError, match="address looks like"):
        ChatModel(endpoint, "m")
