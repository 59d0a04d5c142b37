"""The command line as a script sees it: one JSON object on stdout, exit codes, messages without traceback.

Every command runs in a process of its own, as a user starts it. docs/cli.md is the other side of each
comparison: what it documents is produced, what is produced is documented, with the type that it says.
"""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

import dsp
from recordings import EpisodeWriter, Profile

REPOSITORY = Path(__file__).resolve().parent.parent
RATE = 48000
AMBIX = ("--format", "ambix", "--json")
RIG = """hearth_rig: 1
name: of files
microphone: {source: file, file: foa.wav, pace: PACE}
camera: {source: none}
endpoints: {stream: "tcp://127.0.0.1:0", commands: "tcp://127.0.0.1:0"}
storage: {folder: data, min_free_mib: 0}
"""


# ------------------------------------------------------------------ running


@dataclass(frozen=True)
class Run:
    code: int
    stdout: str
    stderr: str

    @property
    def json(self) -> dict[str, Any]:
        """The one object on stdout; fails when there is anything else (NaN and Infinity are no JSON)."""
        value = json.loads(self.stdout, parse_constant=lambda word: pytest.fail(f"{word} in the JSON"))
        assert isinstance(value, dict)
        assert len(self.stdout.strip().splitlines()) == 1
        return value


def environment() -> dict[str, str]:
    """So that `python -m hearth` is this repository's from any folder, and lines are not broken."""
    path = os.pathsep.join(filter(None, [str(REPOSITORY), os.environ.get("PYTHONPATH", "")]))
    return {**os.environ, "PYTHONPATH": path, "COLUMNS": "200"}


def hearth(folder: Path, *args: object) -> Run:
    """Run `hearth ARGS` in `folder`; never may it show a traceback."""
    done = subprocess.run(
        [sys.executable, "-m", "hearth", *map(str, args)],
        cwd=folder,
        env=environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert "Traceback" not in done.stderr and "Traceback" not in done.stdout, done.stderr
    return Run(done.returncode, done.stdout, done.stderr)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sound files good and bad, rig files good and bad."""
    folder = tmp_path_factory.mktemp("cli")
    rng = np.random.default_rng(0)
    foa = dsp.encode(0.1 * rng.standard_normal(RATE), 40.0, 5.0) + 1e-4 * rng.standard_normal((RATE, 4))
    soundfile.write(folder / "foa.wav", foa, RATE, subtype="PCM_24")
    soundfile.write(folder / "stereo.wav", foa[:, :2], RATE)
    soundfile.write(folder / "dead.wav", foa * [1, 1, 0, 1], RATE)
    whole = (folder / "foa.wav").read_bytes()
    (folder / "truncated.wav").write_bytes(whole[: len(whole) // 2])
    (folder / "head_only.wav").write_bytes(whole[:30])
    (folder / "no_frame.wav").write_bytes(whole[:44])
    (folder / "empty.wav").write_bytes(b"")
    (folder / "text.wav").write_text("This is no sound.\n" * 40)
    (folder / "folder").mkdir()
    fast = RIG.replace("PACE", "fast")
    (folder / "fast.yaml").write_text(fast)
    (folder / "realtime.yaml").write_text(RIG.replace("PACE", "realtime"))
    (folder / "misspelt.yaml").write_text(fast.replace("pace:", "pacee:"))
    (folder / "absent.yaml").write_text(
        "hearth_rig: 1\nmicrophone: {source: sounddevice, device: NoSuchMicrophone}\ncamera: {source: none}\n"
    )
    (folder / "no_camera.yaml").write_text(fast.replace("source: none", "source: v4l2, device: 63"))
    (folder / "no_file.yaml").write_text(fast.replace("foa.wav", "nothing.wav"))
    return folder


@pytest.fixture(scope="module")
def recorded(folder: Path) -> Run:
    """One short take."""
    return hearth(folder, "record", "--rig", "fast.yaml", "--seconds", 0.5, "--json")


@pytest.fixture(scope="module")
def episode(folder: Path, recorded: Run) -> str:
    assert recorded.code == 0, recorded.stderr
    return str(recorded.json["episode"])


# ------------------------------------------------------------------ the page docs/cli.md


@dataclass(frozen=True)
class Key:
    """A row of a table: `a`, `a.b` or `a[].b`."""

    path: str
    type: str
    meaning: str

    @property
    def parent(self) -> str:
        return self.path.rpartition(".")[0]

    @property
    def optional(self) -> bool:
        return re.search(r"with `--|absent|when there", self.meaning) is not None


def sections() -> dict[str, str]:
    """Command -> its part of the page."""
    text = (REPOSITORY / "docs" / "cli.md").read_text(encoding="utf-8")
    parts = re.split(r"^## hearth ([\w-]+(?: [\w-]+)*)$", text, flags=re.M)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def keys_of(command: str) -> dict[str, Key]:
    rows = re.findall(r"^\| `([^`]+)` \| (.+?) \| (.*) \|$", sections()[command], re.M)
    assert rows, f"no table of keys for {command}"
    return {path: Key(path, kind, meaning) for path, kind, meaning in rows}


def has_type(value: Any, text: str) -> bool:
    """Whether a value is of the type that the page names, such as `number or null, ms`."""
    kinds = {
        "string": lambda v: isinstance(v, str),
        "integer": lambda v: isinstance(v, int) and not isinstance(v, bool),
        "number": lambda v: isinstance(v, int | float) and not isinstance(v, bool),
        "boolean": lambda v: isinstance(v, bool),
        "object": lambda v: isinstance(v, dict),
        "null": lambda v: v is None,
    }
    for word in text.partition(",")[0].split(" or "):
        if word.startswith("list of "):
            item = kinds[word.removeprefix("list of ")]
            if isinstance(value, list) and all(map(item, value)):
                return True
        elif kinds[word](value):
            return True
    return False


def walk(value: Any, prefix: str = "") -> list[tuple[str, Any]]:
    """(path, value) of every key below an object, through objects and lists of objects."""
    if isinstance(value, list):
        return [pair for item in value for pair in walk(item, f"{prefix.removesuffix('.')}[].")]
    if not isinstance(value, dict):
        return []
    own = [(prefix + key, item) for key, item in value.items()]
    return own + [pair for path, item in own for pair in walk(item, path + ".")]


def assert_documented(command: str, result: dict[str, Any]) -> None:
    """The keys of a result are those of the page, and so are their types."""
    keys = keys_of(command)
    parents = {key.parent for key in keys.values()}
    produced = [(path, value) for path, value in walk(result) if path.rpartition(".")[0] in parents]
    seen = {path for path, _ in produced}
    assert seen - set(keys) == set(), "produced but not documented"
    entered = {""} | {
        re.sub(r"\[\]$", "", path) for path, value in produced if isinstance(value, dict | list)
    }
    wanted = {k.path for k in keys.values() if not k.optional and _there(k.parent, result, entered)}
    assert wanted - seen == set(), "documented but not produced"
    wrong = [(path, value) for path, value in produced if not has_type(value, keys[path].type)]
    assert wrong == [], "not of the documented type"


def _there(parent: str, result: dict[str, Any], entered: set[str]) -> bool:
    """Whether a key's parent is in the result; an empty list has no items to look at."""
    name = parent.removesuffix("[]")
    return name in entered and (name == parent or bool(result.get(name)))


def all_commands(group: Any) -> dict[str, Any]:
    """Every command by its words, below groups of groups too."""
    found: dict[str, Any] = {}
    for name, command in group.commands.items():
        below = hasattr(command, "commands")
        found |= {f"{name} {n}": c for n, c in all_commands(command).items()} if below else {name: command}
    return found


def test_the_page_has_every_command_and_every_option():
    from typer.main import get_command

    from hearth import app

    commands = all_commands(get_command(app))
    assert set(sections()) == set(commands)
    for name, command in commands.items():
        text = sections()[name]
        options = text[text.index("\nOptions:") : text.index("\nExit codes:")]
        for parameter in command.params:
            for option in parameter.opts if parameter.param_type_name == "option" else ():
                assert option in options, f"{name} {option}"
        known = {o for parameter in command.params for o in (*parameter.opts, *parameter.secondary_opts)}
        for option in re.findall(r"--[a-z-]+", options):
            assert option in known, f"{name} has no {option}"
        for code in ("0 ", "2 "):
            assert code in text[text.index("\nExit codes:") :], f"{name}: exit code {code}"


def test_has_type_tells_types_apart():
    assert has_type(None, "number or null, ms") and has_type(2, "number or null, ms")
    assert not has_type(True, "integer") and not has_type(True, "number") and not has_type(1.0, "integer")
    assert has_type([], "list of string") and not has_type([1], "list of string")


# ------------------------------------------------------------------ what each command prints


def test_record(recorded: Run, folder: Path):
    assert recorded.code == 0, recorded.stderr
    result = recorded.json
    assert_documented("record", result)
    assert result["stop_reason"] == "duration" and result["frames"] == RATE // 2
    assert result["seconds"] == 0.5 and result["lost_frames"] == 0
    assert (folder / result["episode"] / "manifest.json").is_file()
    assert "recording" in recorded.stderr, "progress belongs on stderr"


def test_session(tmp_path: Path):
    from recordings.plan.store import write_plan
    from tests.edge.session_plans import item, plan_of

    write_plan(plan_of(item(1), item(2)), tmp_path / "plan.yaml")
    (tmp_path / "script").write_text("skip no lamp here\nquit\n")
    run = hearth(tmp_path, "session", "plan.yaml", "--script", "script", "--json")
    assert run.code == 1, run.stderr
    result = run.json
    assert_documented("session", result)
    assert result["stopped"] == "quit" and result["open"] == ["ep0001", "ep0002"]
    assert result["skipped"] == [{"item": "ep0001", "why": "no lamp here"}]
    assert "ep0001: skipped: no lamp here (0 of 2 kept)" in run.stderr
    assert (tmp_path / result["folder"] / "session.jsonl").is_file()


def test_episodes_verify_repair_and_report(folder: Path, episode: str):
    run = hearth(folder, "episodes", "data", "--json")
    assert run.code == 0
    assert_documented("episodes", run.json)
    assert [(row["path"], row["state"]) for row in run.json["episodes"]] == [(episode, "finished")]

    for command in ("verify", "repair"):
        run = hearth(folder, command, episode, "--json")
        assert run.code == 0, run.stderr
        assert_documented(command, run.json)
        assert run.json["ok"] is True and run.json["results"][0]["problems"] == []

    run = hearth(folder, "export-audio", episode, "--out", "exported.wav", "--json")
    assert run.code == 0
    assert_documented("export-audio", run.json)
    assert run.json["resampled"] is False and run.json["gaps"] == []
    run = hearth(folder, "report", episode, "--json")
    assert run.code == 0
    assert_documented("report", run.json)
    assert (
        (folder / run.json["page"]).read_text(encoding="utf-8").lstrip().lower().startswith("<!doctype html")
    )


def test_import_and_verify_a_changed_copy(folder: Path, tmp_path: Path):
    made = hearth(
        folder, "import", "foa.wav", "--format", "ambix", "--into", tmp_path, "--no-report", "--json"
    )
    assert made.code == 0, made.stderr
    assert_documented("import", made.json)
    assert made.json["sound_ok"] is True and made.json["duration_s"] == 1.0 and made.json["bits"] == 24
    with open(Path(made.json["episode"]) / "foa_24k.wav", "r+b") as file:
        file.seek(4000)
        file.write(b"\x01\x02\x03\x04")
    run = hearth(tmp_path, "verify", made.json["episode"], "--json")
    assert run.code == 1 and run.stderr.startswith("hearth: ")
    assert_documented("verify", run.json)
    problems = run.json["results"][0]["problems"]
    assert [(p["code"], p["path"]) for p in problems] == [("hash", "foa_24k.wav")]
    documented = re.findall(r"`(\w+)`", keys_of("verify")["results[].problems"].meaning)
    assert "hash" in documented


def test_check(folder: Path, episode: str):
    run = hearth(folder, "check", "dead.wav", "foa.wav", "truncated.wav", "--format", "ambix", "--json")
    assert run.code == 1, "a fault in one of them is a fault"
    assert_documented("check", run.json)
    assert [result["ok"] for result in run.json["results"]][:2] == [False, True]
    faults = {
        (finding["code"], finding["channel"])
        for finding in run.json["results"][0]["findings"]
        if finding["severity"] == "fault"
    }
    assert ("dead", 2) in faults
    cut = run.json["results"][2]
    assert 0.49 < cut["duration_s"] < 0.51
    assert any("truncated" in problem for problem in cut["problems"])
    assert cut["ok"] is False and "truncated" in [finding["code"] for finding in cut["findings"]]
    run = hearth(folder, "check", episode, "--json")
    assert run.code == 0, run.stderr
    assert run.json["ok"] is True and run.json["results"][0]["channels"] == 4


def test_doa(folder: Path, tmp_path: Path):
    table = tmp_path / "doa.csv"
    run = hearth(folder, "doa", "foa.wav", "--format", "ambix", "--csv", table, "--json")
    assert run.code == 0, run.stderr
    assert_documented("doa", run.json)
    assert run.json["csv"] == str(table)
    assert abs(run.json["azimuth_deg"] - 40.0) < 1 and abs(run.json["elevation_deg"] - 5.0) < 1
    lines = table.read_text().splitlines()
    assert lines[0] == "time_s,azimuth_deg,elevation_deg,confidence,track,uncertainty_deg,active"
    assert len(lines) == 1 + run.json["windows"] == 11


def test_review(folder: Path, episode: str, tmp_path: Path):
    from recordings.review.log import append, make_review

    copy = tmp_path / "s1" / "ep1"
    shutil.copytree(folder / episode, copy)
    for who, decision, reasons in (("Ann", "accept", ()), ("Ben", "reject", ("sync",))):
        append(copy.parent, make_review(copy, who, decision, reasons))
    run = hearth(tmp_path, "review", "s1", "--summary", "--csv", "x.csv", "--json")
    assert run.code == 0, run.stderr
    assert_documented("review", run.json)
    assert run.json["disputed_episodes"] == [str(copy)] and run.json["reasons"] == {"sync": 1}
    assert run.json["agreement"]["pairs"][0]["table"] == [0, 1, 0, 0]
    rows = (tmp_path / "x.csv").read_text().splitlines()
    assert len(rows) == 3 and rows[2].startswith("s1,ep1,disputed,Ben,reject,sync,,")


def test_export(folder: Path, episode: str, tmp_path: Path):
    # Nobody is named in it, and nobody said that it may be shared: it stays, and the answer is no.
    run = hearth(folder, "export", episode, "--to", "dcase", "--out", tmp_path / "r", "--json")
    assert run.code == 1 and "no episode may go out" in run.stderr
    assert_documented("export", run.json)
    assert [row["code"] for row in run.json["left_out"]] == ["consent"] and run.json["out"] is None
    assert list(tmp_path.iterdir()) == []
    made = EpisodeWriter.create(
        tmp_path / "data",
        Profile(id="v", session="s", created_utc="2026-01-02T03:04:05Z", origin="virtual"),
        {"rate_hz": RATE, "channels": 4, "format": "ambix"},
        None,
    )
    made.write_audio(np.full((RATE // 2, 4), 1 << 20, np.int32), 5, 0, 0)
    made.finish(report=False)
    args = ("export", tmp_path / "data", "--to", "dcase", "--out", tmp_path / "r", "--unreviewed", "--json")
    run = hearth(folder, *args)
    assert run.code == 0, run.stderr
    assert_documented("export", run.json)
    assert run.json["numbers"]["episodes"] == 1 and run.json["problem"] is None
    run = hearth(folder, *args, "--split-by", "room")
    assert run.code == 2 and run.stdout == "" and "exists already" in run.stderr
    assert hearth(folder, *args, "--resume").json["existing"] is True


def test_process(folder: Path, episode: str, tmp_path: Path):
    broken = tmp_path / "day" / "broken"
    shutil.copytree(folder / episode, broken)
    (broken / "foa_24k.wav").unlink()
    unfinished = tmp_path / "day" / "unfinished"
    shutil.copytree(folder / episode, unfinished)
    (unfinished / "manifest.json").unlink()
    args = (
        "process",
        "verify",
        folder / episode,
        tmp_path,
        "--out",
        tmp_path / "out",
        "--workers",
        1,
        "--json",
    )
    run = hearth(folder, *args)
    assert run.code == 1, run.stderr
    assert_documented("process", run.json)
    assert (run.json["done"], run.json["episodes"], len(run.json["quarantined"])) == (1, 3, 1)
    assert run.json["quarantined"][0]["episode"] == "day/broken"
    assert run.json["skipped"][0]["episode"] == "day/unfinished"
    again = hearth(folder, *args)
    assert again.code == 1 and (again.json["done"], again.json["already_done"]) == (0, 1)


def test_consent(folder: Path, episode: str, tmp_path: Path):
    data = tmp_path / "data"
    shutil.copytree((folder / episode).parent, data / "day1")
    where = ("--data", data, "--json")
    given = ("add", "anna", "--until", "2099-01-01", "--form", "paper", "--use", "sharing")
    for command, args, code in (
        ("add", given[1:], 0),
        ("visitor", (data / "day1" / Path(episode).name,), 0),
        ("list", (), 0),
        ("show", ("anna",), 0),
        ("due", (), 0),
        ("due", ("--on", "2099-06-01"), 0),
        ("check", (), 0),
        ("withdraw", ("anna", "--dry-run"), 0),
        ("withdraw", ("anna",), 0),
    ):
        run = hearth(folder, "consent", command, *args, *where)
        assert run.code == code, run.stderr
        assert_documented(f"consent {command}", run.json)
    (data / "consent" / "audit.jsonl").write_text("{}\n")
    run = hearth(folder, "consent", "check", *where)
    assert (run.code, run.json["ok"]) == (1, False)


def test_card(folder: Path, episode: str, tmp_path: Path):
    run = hearth(folder, "card", Path(episode).parent, "--out", tmp_path / "card.md", "--json")
    assert run.code == 0, run.stderr
    assert_documented("card", run.json)
    assert run.json["episodes"] >= 1 and (tmp_path / "card.md").read_text("utf-8").startswith("# ")


def test_plan(folder: Path, tmp_path: Path):
    made = hearth(tmp_path, "plan", "new", "--per-cell", 1, "--json")
    assert made.code == 0, made.stderr
    assert_documented("plan new", made.json)
    assert made.json["items"] == 34 and len(made.json["rooms"]) == 5
    for command in ("show", "extend"):
        run = hearth(
            tmp_path, "plan", command, ".", *(("--per-cell", 1) if command == "extend" else ()), "--json"
        )
        assert run.code == 0, run.stderr
        assert_documented(f"plan {command}", run.json)
    run = hearth(tmp_path, "plan", "csv", "plan.yaml", "--json")
    assert run.code == 0, run.stderr
    assert_documented("plan csv", run.json)
    sheet = tmp_path / "plan.csv"
    sheet.write_text(sheet.read_text("utf-8").replace("template", "somebody", 1), "utf-8")
    run = hearth(tmp_path, "plan", "apply", "plan.yaml", "plan.csv", "--json")
    assert run.code == 1 and "row 2, column written_by" in run.json["problems"][0]
    assert_documented("plan apply", run.json)
    assert not run.json["written"]
    plan = tmp_path / "plan.yaml"
    plan.write_text(plan.read_text("utf-8").replace("speaks: true", "speaks: false", 1), "utf-8")
    run = hearth(tmp_path, "plan", "check", "plan.yaml", "--json")
    assert run.code == 1 and run.json["problems"][0]["item"] == "ep0001"
    assert_documented("plan check", run.json)
    run = hearth(
        tmp_path,
        "plan",
        "rewrite",
        "plan.yaml",
        "--endpoint",
        "http://127.0.0.1:9/v1",
        "--model",
        "m",
        "--json",
    )
    assert run.code == 2 and "did not answer" in run.stderr and run.stdout == ""


def test_evaluate(folder: Path, episode: str):
    name = Path(episode).name
    profile = Path(folder / episode / "episode.yaml").read_text(encoding="utf-8")
    aimed = profile.replace("target_device: null", "target_device: lamp")
    (folder / "profile.yaml").write_text(aimed, encoding="utf-8")
    (folder / "answers.jsonl").write_text(json.dumps({"episode": name, "declared": "lamp"}) + "\n")
    run = hearth(folder, "evaluate", "answers.jsonl", "profile.yaml", "--csv", "table.csv", "--json")
    assert run.code == 0, run.stderr
    assert_documented("evaluate", run.json)
    assert run.json["overall"]["grounding"]["share"] == 1.0 and (folder / "table.csv").is_file()
    run = hearth(folder, "evaluate", "answers.jsonl", episode, "--json")
    assert run.code == 2 and "nothing to score" in run.stderr and run.stdout == ""


def test_profile(folder: Path, episode: str):
    run = hearth(folder, "profile", "schema", "--json")
    assert run.code == 0
    assert_documented("profile schema", run.json)
    run = hearth(folder, "profile", "check", episode, "--json")
    assert run.code == 0, run.stderr
    assert_documented("profile check", run.json)
    home = folder / "home"
    home.mkdir()
    (home / "_fixtures.yaml").write_text(
        "areas: [{name: Study, id: study}]\n"
        "entities: [{name: Lamp, id: light.lamp, area: study, state: 'off'}]\n"
    )
    (home / "lights.yaml").write_text(
        "tests: [{sentences: [Lamp on], expect_changes: {light.lamp: {state: 'on'}}}]\n"
    )
    run = hearth(folder, "profile", "import", home, "--into", "profiles", "--json")
    assert run.code == 0, run.stderr
    assert_documented("profile import", run.json)
    run = hearth(folder, "profile", "export", "profiles", "--to", "simuhome", "--out", "simuhome", "--json")
    assert run.code == 0, run.stderr
    assert_documented("profile export", run.json)
    assert run.json["profiles"] == 1


def test_doctor_and_init(folder: Path, tmp_path: Path):
    run = hearth(folder, "doctor", "--rig", "realtime.yaml", "--seconds", 0.5, "--json")
    assert run.code == (0 if run.json["ok"] else 1)
    assert_documented("doctor", run.json)
    run = hearth(folder, "doctor", "--rig", "misspelt.yaml", "--json")
    assert run.code == 1 and run.json["ok"] is False
    rig = next(finding for finding in run.json["findings"] if finding["topic"] == "rig")
    assert rig["severity"] == "fault" and "pacee" in rig["text"]

    run = hearth(tmp_path, "init", "--json")
    assert run.code == 0, run.stderr
    assert_documented("init", run.json)
    assert run.json["path"] == "rig.yaml" and (tmp_path / "rig.yaml").is_file()
    again = hearth(tmp_path, "init", "--json")
    assert again.code == 2 and "--force" in again.stderr and again.stdout == ""
    assert hearth(tmp_path, "init", "--force", "--json").code == 0


def test_safety(tmp_path: Path):
    rules = """
hearth_safety: 1
atoms: {unlocks: {event: command, command: "*.UnlockDoor"}, agrees: {event: heard, text: "yes*"}}
rules: [{name: ask, formula: "G(unlocks -> O[<=60] agrees)", says: nobody said yes}]
costs: [{event: command, cost: 2}]
budget: 3
"""
    (tmp_path / "rules.yaml").write_text(rules)
    for name, says in (("good", "yes please"), ("bad", "no")):
        (tmp_path / "data" / name).mkdir(parents=True)
        (tmp_path / "data" / name / "episode.yaml").write_text("")
        events = [("heard", {"text": says}), ("command", {"command": "1.DoorLock.UnlockDoor"})]
        lines = [
            {"type": "event", "t_ns": n * 10**9, "kind": kind, "data": data}
            for n, (kind, data) in enumerate(events)
        ]
        (tmp_path / "data" / name / "timeline.jsonl").write_text("".join(json.dumps(x) + "\n" for x in lines))
    run = hearth(tmp_path, "safety", "data", "--rules", "rules.yaml", "--json")
    assert run.code == 1 and run.json["failed"] == 1, run.stderr
    assert_documented("safety", run.json)
    bad, good = run.json["episodes"]
    assert good["passed"] and good["cost"] == 2 and bad["violations"][0]["t_s"] == 1.0
    assert hearth(tmp_path, "safety", "data/good", "--rules", "rules.yaml").code == 0
    none = hearth(tmp_path, "safety", "data", "--rules", "nothing.yaml")
    assert none.code == 2 and "no such file of rules" in none.stderr


def test_home(tmp_path: Path):
    (tmp_path / "rig.yaml").write_text(
        "hearth_rig: 1\nroom: {devices: [{id: a, type: fan, name: fan, position_m: [1, 1, 1]}]}\n"
    )
    run = hearth(tmp_path, "home", "--json")
    assert run.code == 0
    assert_documented("home", run.json)
    (tmp_path / "rig.yaml").write_text(
        "hearth_rig: 1\nhome: {kind: home_assistant, url: 'http://127.0.0.1:9', token_file: token}\n"
    )
    (tmp_path / "token").write_text("abc")
    away = hearth(tmp_path, "home", "--wait", "0.2", "--json")
    assert away.code == 1 and not away.json["connected"] and "refused" in away.json["trouble"]


def test_calibrate_capsules(tmp_path: Path):
    run = hearth(
        tmp_path, "calibrate", "capsules", "--write-sweep", "sweep.wav", "--sweep", "1 120 10500", "--json"
    )
    assert run.code == 0 and (tmp_path / "sweep.wav").is_file(), run.stderr
    assert_documented("calibrate capsules", run.json)
    played, rate = soundfile.read(tmp_path / "sweep.wav")
    (tmp_path / "six").mkdir()
    places = {
        "front": (0, 0),
        "back": (180, 0),
        "left": (90, 0),
        "right": (-90, 0),
        "up": (0, 90),
        "down": (0, -90),
    }
    for name, (azimuth, elevation) in places.items():
        foa = dsp.encode(0.2 * played, azimuth, elevation) * [1, -1, 1, 1]
        noise = 1e-4 * np.random.default_rng(1).standard_normal(foa.shape)
        soundfile.write(tmp_path / "six" / f"{name}.wav", foa + noise, rate, subtype="PCM_24")
    command = ("calibrate", "capsules", "six", "--sweep", "1 120 10500", "--format", "ambix", "--json")
    run = hearth(tmp_path, *command)
    assert run.code == 0 and (tmp_path / "capsules.json").is_file(), run.stderr
    assert_documented("calibrate capsules", run.json)
    assert [fault["code"] for fault in run.json["faults"]] == ["axis_flipped"]
    (tmp_path / "six" / "up.wav").unlink()
    run = hearth(tmp_path, *command)
    assert run.code == 1 and "no up.wav" in run.json["problems"][0]["problem"]
    assert_documented("calibrate capsules", run.json)


def test_calibrate(tmp_path: Path):
    run = hearth(tmp_path, "calibrate", "board", "sheets/board.pdf", "--json")
    assert run.code == 0, run.stderr
    assert_documented("calibrate board", run.json)
    assert (tmp_path / "sheets" / "board.pdf").read_bytes().startswith(b"%PDF")
    # Three times the same board, flat in front of the camera: nothing to calibrate from.
    run = hearth(tmp_path, "calibrate", "board", "board.png", "--dpi", 100, "--json")
    words = run.json["board"]
    pictures = []
    for number in range(3):
        pictures.append(f"picture{number}.png")
        (tmp_path / pictures[-1]).write_bytes((tmp_path / "board.png").read_bytes())
    run = hearth(tmp_path, "calibrate", "camera", *pictures, "--board", words, "--json")
    assert run.code == 1, run.stderr
    assert_documented("calibrate camera", run.json)
    assert run.json["good"] is False and run.json["problems"][0]["remedy"]
    assert not (tmp_path / "camera.json").exists()
    run = hearth(tmp_path, "calibrate", "camera", "--json")
    assert run.code == 2 and "shows no board" in run.stderr
    other = "cam0: {camera_model: pinhole, intrinsics: [500.0, 501.0, 320.0, 240.0], resolution: [640, 480], "
    (tmp_path / "kalibr.yaml").write_text(
        other + "distortion_model: radtan, distortion_coeffs: [0.1, 0, 0, 0]}"
    )
    run = hearth(tmp_path, "calibrate", "convert", "kalibr.yaml", "own.json", "--to", "hearth", "--json")
    assert run.code == 0, run.stderr
    assert_documented("calibrate convert", run.json)
    run = hearth(tmp_path, "calibrate", "convert", "own.json", "ros.yaml", "--to", "ros", "--json")
    assert run.code == 0 and run.json["fy"] == 501.0


def test_live(folder: Path):
    run = hearth(folder, "live", "--rig", "realtime.yaml", "--stats", "--record", "--seconds", 20, "--json")
    assert run.code == 0, run.stderr
    assert_documented("live", run.json)
    assert run.json["stopped"] == "ended" and run.json["service"]["blocks"] == 100
    recording = set(run.json["service"]["recording"])
    assert recording == {key for key in keys_of("record") if "." not in key} - {"interrupted"}
    assert run.json["stream"] in run.stderr


def test_stream(tmp_path: Path):
    from edge.stream import CommandServer, Publisher

    anywhere = "tcp://127.0.0.1:0"
    with Publisher(anywhere) as publisher, CommandServer(anywhere) as server:
        publisher.publish("state", 0, data={"muted": False})  # kept for those who join late
        addresses = ("--stream", publisher.address, "--commands", server.address)
        run = hearth(tmp_path, "stream", "record", "x.mcap", *addresses, "--seconds", 0.5, "--json")
        assert run.code == 0, run.stderr
        assert_documented("stream record", run.json)
        assert run.json["messages"] == 1 and run.json["streams"]["state"] == {"recorded": 1, "lost": 0}
        run = hearth(tmp_path, "stream", "record", "y.mcap", *addresses, "--streams", "dao", "--json")
        assert run.code == 2 and "did you mean 'doa'" in run.stderr
    run = hearth(tmp_path, "stream", "recover", "x.mcap", "z.mcap", "--json")
    assert run.code == 0, run.stderr
    assert_documented("stream recover", run.json)
    assert run.json == {"path": "z.mcap", "messages": 1, "whole": True, "cut_bytes": 0}


def test_the_tables_of_demo_and_agent_are_those_of_the_code():
    """Both commands need a minute: here their tables are compared with the types that they print."""
    from dataclasses import fields

    from edge.demo import DemoResult

    assert list(keys_of("demo")) == [field.name for field in fields(DemoResult)]
    # The class is read, not imported: the agent's module brings the speech model's libraries.
    tree = ast.parse((REPOSITORY / "edge" / "agent" / "loop.py").read_text(encoding="utf-8"))
    answer = next(node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "Answer")
    names = [node.target.id for node in answer.body if isinstance(node, ast.AnnAssign)]  # type: ignore[union-attr]
    several = ["answers[].rig", "rigs", "decisions"]
    from edge.agent.replay import Replay, Request

    replayed = Replay([Request({})]).to_dict()
    of_trace = ["requests", *(f"requests[].{name}" for name in replayed["requests"][0]), "scores"]
    assert list(keys_of("agent")) == [
        "answers",
        *(f"answers[].{name}" for name in names),
        *several,
        *of_trace,
    ]


# ------------------------------------------------------------------ wrong use

WRONG = {
    # what is wrong: (arguments, a word of the message)
    "missing file to check": (("check", "nothing.wav", *AMBIX), "nothing.wav"),
    "missing file for doa": (("doa", "nothing.wav", *AMBIX), "nothing.wav"),
    "missing file to import": (("import", "nothing.wav", *AMBIX), "nothing.wav"),
    "no answers": (("evaluate", "nothing.jsonl", "folder", "--json"), "nothing.jsonl"),
    "missing folder to verify": (("verify", "nothing", "--json"), "nothing"),
    "missing folder of a report": (("report", "nothing", "--json"), "nothing"),
    "missing plan of a session": (("session", "nothing.yaml", "--script", "auto", "--json"), "nothing.yaml"),
    "missing folder to review": (("review", "nothing", "--json"), "nothing"),
    "nothing to review": (("review", "folder", "--json"), "no episode"),
    "no such filter": (("review", "data", "--only", "bogus", "--json"), "bogus"),
    "missing data folder": (("episodes", "nothing", "--json"), "nothing"),
    "missing folder of a consent record": (("consent", "check", "--data", "nothing", "--json"), "nothing"),
    "file instead of a data folder": (("episodes", "foa.wav", "--json"), "foa.wav"),
    "file instead of an episode": (("report", "foa.wav", "--json"), "foa.wav"),
    "folder instead of a file": (("check", "folder", *AMBIX), "folder"),
    "folder instead of a file to import": (("import", "folder", *AMBIX), "folder"),
    "text as WAV": (("check", "text.wav", *AMBIX), "not a WAV file"),
    "text as WAV to import": (("import", "text.wav", *AMBIX), "not a WAV file"),
    "empty file": (("check", "empty.wav", *AMBIX), "empty"),
    "cut within the header": (("check", "head_only.wav", *AMBIX), "head_only.wav"),
    "cut after the header": (("doa", "no_frame.wav", *AMBIX), "no sound frame"),
    "stereo": (("check", "stereo.wav", *AMBIX), "2 channels"),
    "unknown channel order": (("check", "foa.wav", "--json"), "--format"),
    "unknown format": (("check", "foa.wav", "--format", "amibx", "--json"), "amibx"),
    "one good file, one missing": (("check", "foa.wav", "nothing.wav", *AMBIX), "nothing.wav"),
    "absent microphone": (("record", "--rig", "absent.yaml", "--seconds", "1", "--json"), "microphone"),
    "absent camera": (("record", "--rig", "no_camera.yaml", "--seconds", "1", "--json"), "/dev/video63"),
    "absent sound file in the rig": (("live", "--rig", "no_file.yaml", "--json"), "nothing.wav"),
    "missing rig": (("record", "--rig", "nothing.yaml", "--json"), "nothing.yaml"),
    "misspelt key": (("record", "--rig", "misspelt.yaml", "--json"), "pacee"),
    "misspelt key, demo": (("demo", "--rig", "misspelt.yaml", "--json"), "pacee"),
    "unknown option": (("check", "--bogus", "foa.wav"), "--bogus"),
    "unknown command": (("bogus",), "bogus"),
    "no seconds": (("record", "--rig", "fast.yaml", "--seconds", "0", "--json"), "--seconds"),
    "negative seconds": (("live", "--rig", "realtime.yaml", "--seconds", "-1", "--json"), "--seconds"),
    "folder below a file": (
        ("record", "--rig", "fast.yaml", "--seconds", "1", "--folder", "foa.wav", "--json"),
        "foa.wav",
    ),
    "import below a file": (("import", "foa.wav", "--into", "text.wav", *AMBIX), "text.wav"),
    "text as video": (("import", "foa.wav", "--video", "text.wav", "--into", "refused", *AMBIX), "text.wav"),
    "missing video": (("import", "foa.wav", "--video", "x.mp4", "--into", "refused2", *AMBIX), "x.mp4"),
    "offset that is no number": (
        ("import", "foa.wav", "--video-offset-s", "nan", "--into", "never", *AMBIX),
        "nan",
    ),
    "table below a file": (("doa", "foa.wav", "--csv", "text.wav/x.csv", *AMBIX), "text.wav"),
    "rig below a file": (("init", "text.wav/rig.yaml", "--json"), "text.wav"),
    "CSV and JSON on one stdout": (("doa", "foa.wav", "--csv", "-", *AMBIX), "stdout"),
    "board too large": (("calibrate", "board", "--board", "chessboard 9x6 50mm", "--json"), "27.4 mm"),
    "unreadable board": (("calibrate", "camera", "x", "--board", "9x6", "--json"), "chessboard 9x6 25mm"),
    "no pictures": (("calibrate", "camera", "nothing", "--json"), "nothing"),
    "no camera in a file": (("calibrate", "convert", "foa.wav", "x", "--to", "ros", "--json"), "foa.wav"),
    "unknown grounding": (
        ("record", "--rig", "fast.yaml", "--seconds", "1", "--grounding", "G9", "--json"),
        "G9",
    ),
}


# Runs commands one after the other in one process, each with files of its own as stdout and stderr: starting
# Python forty times would take most of a minute. What `main` lets through counts as a traceback.
MANY = """
import json, os, sys, tempfile, traceback
import hearth
results = []
for args in json.load(sys.stdin):
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        kept = os.dup(1), os.dup(2)
        os.dup2(out.fileno(), 1)
        os.dup2(err.fileno(), 2)
        sys.argv = ["hearth", *args]
        try:
            hearth.main()
            code = 0
        except SystemExit as end:
            code = end.code or 0
        except BaseException:
            traceback.print_exc()
            code = 1
        sys.stdout.flush()
        sys.stderr.flush()
        os.dup2(kept[0], 1)
        os.dup2(kept[1], 2)
        texts = []
        for file in (out, err):
            file.seek(0)
            texts.append(file.read().decode("utf-8", "replace"))
        results.append([code, *texts])
print(json.dumps(results))
"""


@pytest.fixture(scope="module")
def wrong(folder: Path) -> dict[str, Run]:
    """What each wrong use gave."""
    done = subprocess.run(
        [sys.executable, "-c", MANY],
        cwd=folder,
        env=environment(),
        input=json.dumps([args for args, _ in WRONG.values()]),
        capture_output=True,
        text=True,
        timeout=150,
        check=True,
    )
    return dict(zip(WRONG, (Run(*result) for result in json.loads(done.stdout)), strict=True))


@pytest.mark.parametrize("case", WRONG)
def test_wrong_use_leaves_with_2_and_one_message(wrong: dict[str, Run], case: str):
    run, word = wrong[case], WRONG[case][1]
    assert "Traceback" not in run.stderr, run.stderr
    assert run.code == 2, run.stderr
    assert run.stdout == ""
    assert word in run.stderr


@pytest.mark.parametrize("case", ["missing file to check", "misspelt key", "unknown option"])
def test_a_process_of_its_own_leaves_the_same_way(folder: Path, wrong: dict[str, Run], case: str):
    run = hearth(folder, *WRONG[case][0])
    assert (run.code, run.stdout) == (2, "")
    assert WRONG[case][1] in run.stderr


def test_an_impossible_offset_is_refused_before_anything_is_written(wrong: dict[str, Run], folder: Path):
    assert wrong["offset that is no number"].code == 2
    assert not (folder / "never").exists()


def test_a_file_with_nan_is_a_fault_and_can_still_be_imported(folder: Path, tmp_path: Path):
    sound, _ = soundfile.read(folder / "foa.wav", dtype="float32")
    sound[1000] = np.nan
    soundfile.write(tmp_path / "nan.wav", sound, RATE, subtype="FLOAT")
    made = hearth(tmp_path, "import", "nan.wav", "--into", "data", "--no-report", *AMBIX)
    assert made.code == 0, made.stderr
    assert made.json["sound_ok"] is False


def test_a_truncated_file_is_read_as_far_as_it_goes_and_says_so(folder: Path, tmp_path: Path):
    run = hearth(folder, "import", "truncated.wav", "--into", tmp_path, "--no-report", *AMBIX)
    assert run.code == 0 and any("truncated" in problem for problem in run.json["problems"])


def test_what_cannot_be_repaired_leaves_with_1(folder: Path):
    run = hearth(folder, "repair", "nothing", "--json")
    assert run.code == 1
    assert_documented("repair", run.json)
    assert run.json["ok"] is False and "nothing" in run.json["results"][0]["problems"][0]


def test_a_session_cannot_lead_out_of_the_data_folder(folder: Path, tmp_path: Path):
    data = tmp_path / "inner" / "data"
    args = ("import", "foa.wav", "--into", data, "--no-report", *AMBIX)
    assert hearth(folder, *args, "--session", "../../outside").code == 2
    run = hearth(
        folder, "record", "--rig", "fast.yaml", "--seconds", 1, "--folder", data, "--session", "../out"
    )
    assert run.code == 2 and run.stdout == ""
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [], "nothing was written anywhere"


def test_an_unwritable_folder_is_a_message(folder: Path, tmp_path: Path):
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o555)
    if os.access(closed, os.W_OK):
        pytest.skip("this user may write into a folder without write permission (root)")
    run = hearth(folder, "import", "foa.wav", "--into", closed, "--no-report", *AMBIX)
    assert run.code == 2 and str(closed) in run.stderr and run.stdout == ""


def test_people(tmp_path: Path):
    from tests.edge.session_plans import people_takes

    takes = people_takes(tmp_path / "data")
    virtual = ("--virtual-people", "--json")
    enrolled = hearth(tmp_path, "people", "enrol", "anna", str(takes["anna"][0]), *virtual)
    assert enrolled.code == 0, enrolled.stderr
    assert_documented("people enrol", enrolled.json)
    assert enrolled.json["faces"] == 3 and enrolled.json["voices"] == 1
    assert "nobody else is enrolled" in enrolled.stderr
    assert hearth(tmp_path, "people", "enrol", "ben", str(takes["ben"][0]), *virtual).code == 0
    listed = hearth(tmp_path, "people", "list", *virtual)
    assert_documented("people list", listed.json)
    assert listed.json["people"] == [{"person": name, "faces": 3, "voices": 1} for name in ("anna", "ben")]
    who = hearth(tmp_path, "people", "who", str(takes["anna"][1]), *virtual)
    assert_documented("people who", who.json)
    assert [one["face"]["value"]["candidates"][0][0] for one in who.json["utterances"]] == ["anna"]
    asked = hearth(tmp_path, "people", "enrol", "anna", str(takes["anna"][0]), "--json")
    assert asked.code == 2 and "consent" in asked.stderr
    gone = hearth(tmp_path, "people", "forget", "anna", *virtual)
    assert_documented("people forget", gone.json)
    assert hearth(tmp_path, "people", "forget", "anna", *virtual).code == 2
    assert [one["person"] for one in hearth(tmp_path, "people", "list", *virtual).json["people"]] == ["ben"]
