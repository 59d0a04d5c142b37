"""The engine of a guided session: what is kept, what a person may do, what a crash leaves, who is refused."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from capture.sources import open_rig
from capture.virtual.staged import staged_request, staged_rig
from dsp.errors import InputError
from edge.session.engine import Session, item_hash
from edge.session.journal import JournalWriter
from edge.session.operators import Auto, Command, Script, operator_of, read_script
from edge.session.recovery import next_take, recover
from edge.session.seen import WITH_FACE, detector
from edge.session.stage import ScenePlayed, Setting, Stage
from recordings.episode import Episode
from recordings.plan.model import Plan, PlanItem
from recordings.session_journal import kept_takes, read_journal
from recordings.verify_episode import verify
from tests.edge.session_plans import humming, item, plan_of


class SmallPictures(Stage):
    """The virtual room with a small camera where pictures are not looked at."""

    def open_scene(self, item: PlanItem, take: int) -> Setting:
        rig = staged_rig(item, self.plan, storage=str(self.storage), take=take)
        if item.grounding not in WITH_FACE:
            camera = msgspec.structs.replace(rig.camera, width_px=160, height_px=90)
            rig = msgspec.structs.replace(rig, camera=camera)
        return ScenePlayed(item, rig, open_rig(rig, staged_request(item, self.plan)))


def session(plan: Plan, data: Path, **options: Any) -> Session:
    return Session(
        plan, data, "day", SmallPictures(plan, data), **{"countdown_s": 0, "report": False, **options}
    )


def steps(data: Path, item_id: str | None = None) -> list[str]:
    return [line["step"] for line in read_journal(data / "day").lines if line.get("item") == item_id]


PLAN = plan_of(
    humming(1),
    item(2, "Switch the counter light on.", room="kitchen", target="kitchen_on_off_light_1", speaker=1),
    item(3, "Turn on the lamp on my left.", grounding="G3", target="living_room_on_off_light_2"),
)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    data = tmp_path_factory.mktemp("data")
    return data, session(PLAN, data, operator=Auto()).run().to_dict()


def test_a_script_records_all_items_room_by_room(recorded: tuple[Path, dict[str, Any]]):
    data, result = recorded
    assert (result["kept"], result["takes"], result["open"], result["stopped"]) == (3, 3, [], "done")
    armed = [line["item"] for line in read_journal(data / "day").lines if line["step"] == "armed"]
    assert armed == ["ep0001", "ep0003", "ep0002"], "the kitchen comes after the living room"
    assert steps(data, "ep0001") == ["armed", "recording", "recorded", "checks", "kept"]


def test_every_kept_episode_is_of_its_item_and_verifies(recorded: tuple[Path, dict[str, Any]]):
    kept = kept_takes(recorded[0] / "day")
    assert list(kept) == [one.id for one in PLAN.items]
    for one in PLAN.items:
        episode = Episode.open(kept[one.id])
        assert verify(episode.path).ok
        profile = episode.profile
        assert (profile.id, profile.plan_item, profile.take) == (f"{one.id}-t1", one.id, 1)
        assert (profile.request, profile.speaker, profile.goal) == (one.request, one.speaker, one.goal)
        assert profile.staging == one.staging and profile.origin == "virtual"
        assert profile.consent.recording == "not_needed"
        assert episode.truth()["request"] == one.request
        marks = [line for line in episode.timeline() if line.get("kind") == "plan_item"]
        assert [line["data"]["item"] for line in marks] == [one.id]


def test_the_checks_tell_speech_and_the_sound_of_the_device(recorded: tuple[Path, dict[str, Any]]):
    told = {
        (line["item"], check["name"]): check
        for line in read_journal(recorded[0] / "day").lines
        if line["step"] == "checks"
        for check in line["checks"]
    }
    for one in PLAN.items:
        truth = Episode.open(recorded[0] / "day" / f"{one.id}-t1").truth()
        active = next(source["active_s"] for source in truth["sources"] if source["kind"] == "talker")
        speech = told[one.id, "speech"]
        assert abs(speech["begin_s"] - active[0][0]) < 0.3 and abs(speech["end_s"] - active[-1][1]) < 0.4
    assert told["ep0001", "sound of the device"]["away_deg"] < 15
    assert ("ep0002", "sound of the device") not in told, "only where the sound is what is meant"
    assert abs(told["ep0001", "sync"]["offset_ms"]) < 5
    face = told["ep0003", "face"]
    assert face["looked"] == 4 and face["verdict"] in ("ok", "not checked")
    if detector()[1] == "CenterFace":  # it knows drawn faces; OpenCV's cascades do not
        assert face["found"] == 4 and face["verdict"] == "ok"
    assert ("ep0003", "hand") not in told and ("ep0002", "face") not in told, "where it is needed"


def test_it_goes_on_where_it_was_and_a_changed_item_is_open_again(recorded: tuple[Path, dict[str, Any]]):
    data, _ = recorded
    again = session(PLAN, data, operator=Auto()).run()
    assert (again.kept, again.takes) == (3, 0)
    changed = msgspec.structs.replace(PLAN.items[0], request="Silence the music.")
    plan = msgspec.structs.replace(PLAN, items=(changed, *PLAN.items[1:]))
    left = session(plan, data, operator=Script([Command("quit")])).run()
    assert left.open == ["ep0001"] and "ep0001" not in kept_takes(data / "day")
    assert steps(data, "ep0001")[-1] == "dropped"


def test_a_kept_take_whose_folder_is_gone_is_open_again_under_a_new_number(tmp_path: Path):
    plan, folder = plan_of(item(1)), tmp_path / "day"
    with JournalWriter(folder) as writer:
        for step in ("armed", "recording", "kept"):
            names = {"item": "ep0001", "take": 1, "episode": "ep0001-t1"}
            writer.add(step, **names, item_sha256=item_hash(plan.items[0]))
    result = session(plan, tmp_path, operator=Script([Command("quit")])).run()
    assert result.open == ["ep0001"] and steps(tmp_path, "ep0001")[-1] == "dropped"
    assert next_take(folder, read_journal(folder), "ep0001") == 2


def test_one_session_and_one_plan_at_a_time(tmp_path: Path):
    with JournalWriter(tmp_path / "day") as writer:
        with pytest.raises(InputError, match="another `hearth session`"):
            session(PLAN, tmp_path)
        writer.add("opened", plan="large", plan_sha256=None, items=1)
    with pytest.raises(InputError, match="of the plan 'large', not of 'small'"):
        session(PLAN, tmp_path)


class Deaf(SmallPictures):
    """Its speaker stands elsewhere than the plan says: what is checked must not pass."""

    def open_scene(self, item: PlanItem, take: int) -> Setting:
        placed = item.staging.people[0]
        x, y, z = placed.mouth_m
        elsewhere = msgspec.structs.replace(placed, mouth_m=(x + 1.6, y - 1.2, z))
        staging = msgspec.structs.replace(item.staging, people=(elsewhere,))
        return super().open_scene(msgspec.structs.replace(item, staging=staging), take)


def test_what_does_not_pass_is_taken_again_then_noted_and_left(tmp_path: Path):
    plan = plan_of(item(1))
    result = Session(
        plan, tmp_path, "day", Deaf(plan, tmp_path), operator=Auto(takes=2), countdown_s=0, report=False
    ).run()
    assert result.kept == 0 and result.open == ["ep0001"] and result.takes == 2
    found = steps(tmp_path, "ep0001")
    assert found.count("retake") == 1 and found[-2:] == ["note", "skipped"]
    assert "nobody was heard" in result.skipped["ep0001"]
    assert sorted(path.name for path in (tmp_path / "day").iterdir() if path.is_dir()) == [
        "ep0001-t1",
        "ep0001-t2",
    ]


# ------------------------------------------------------------------ a person


class Hands:
    """Presses keys of a session that runs in a thread."""

    def __init__(self, one: Session) -> None:
        self.session = one
        self.result: list[Any] = []
        self._thread = threading.Thread(target=lambda: self.result.append(one.run()))
        self._thread.start()

    def wait(self, phase: str) -> dict[str, Any]:
        deadline = time.monotonic() + 120
        state = self.session.state()
        while state["phase"] != phase:
            assert time.monotonic() < deadline and self._thread.is_alive(), state
            state = self.session.wait_for_change(state["version"], 1.0)
        return state

    def press(self, phase: str, op: str, text: str = "") -> None:
        self.session.do(op, text, turn=self.wait(phase)["turn"])

    def end(self) -> Any:
        self._thread.join(120)
        assert self.result
        return self.result[0]


def test_a_person_notes_goes_back_and_drops(recorded: tuple[Path, dict[str, Any]], tmp_path: Path):
    plan = plan_of(item(1), item(2))
    hands = Hands(session(plan, tmp_path, countdown_s=1))
    first = hands.wait("room")
    hands.press("room", "go")
    ready = hands.wait("ready")
    assert ready["item"]["people"][0]["where"] == "1.6 m in front of the rig"
    assert ready["item"]["people"][0]["facing"] == "faces the rig"
    with pytest.raises(InputError, match="asked before"):
        hands.session.do("go", turn=first["turn"])
    with pytest.raises(InputError, match="not possible now"):
        hands.session.do("keep")
    hands.press("ready", "note", "the lamp flickers")
    hands.press("ready", "go")
    hands.press("countdown", "cancel")
    hands.press("ready", "go")
    decide = hands.wait("decide")
    assert decide["checks_ok"] and decide["take"] == 1 and decide["item"]["notes"] == ["the lamp flickers"]
    hands.press("decide", "keep")
    second = hands.wait("ready")
    assert second["item"]["id"] == "ep0002" and second["progress"]["kept_today"] == 1
    hands.press("ready", "back")
    hands.press("kept", "drop")
    again = hands.wait("ready")
    assert (again["item"]["id"], again["take"]) == ("ep0001", 2)
    hands.press("ready", "quit")
    result = hands.end()
    assert (result.stopped, result.kept, result.takes) == ("quit", 0, 1)
    assert steps(tmp_path, "ep0001").count("armed") == 2, "a count that was called off uses up no number"


def test_nobody_without_consent_is_recorded(tmp_path: Path):
    from recordings.consent.book import ConsentBook

    plan = plan_of(item(1))

    class Real(SmallPictures):
        def is_virtual(self, item: PlanItem) -> bool:
            return False

        def set(self, item: PlanItem, take: int) -> Setting:
            return self.open_scene(item, take)

    one = Session(
        plan, tmp_path, "day", Real(plan, tmp_path), operator=Auto(),
        consent=lambda: ConsentBook.open(tmp_path), countdown_s=0, report=False,
    )  # fmt: skip
    result = one.run()
    assert result.takes == 0 and "is not listed" in result.refused["ep0001"]
    assert result.skipped == {}, "what is refused is told once"
    assert not [path for path in (tmp_path / "day").iterdir() if path.is_dir()]


# ------------------------------------------------------------------ crashes


def test_what_a_crash_left_is_repaired_listed_or_removed(
    recorded: tuple[Path, dict[str, Any]], tmp_path: Path
):
    import shutil

    folder = tmp_path / "day"
    whole = recorded[0] / "day" / "ep0002-t1"
    shutil.copytree(whole, folder / "ep0002-t1")  # finished, but the journal had no time to say so
    cut = folder / "ep0003-t1"
    shutil.copytree(recorded[0] / "day" / "ep0003-t1", cut)
    for name in ("manifest.json", "checks.json", "foa_24k.wav"):
        (cut / name).unlink()
    (folder / "ep0001-t1" / "foa_48k").mkdir(parents=True)  # killed before any sound
    (folder / "ep0001-t1" / "RECORDING.json").write_text("{}")
    (folder / "notes of ours").mkdir()
    told: list[str] = []
    with JournalWriter(folder) as writer:
        writer.add("armed", item="ep0003", take=1, episode="ep0003-t1")
        writer.add("recording", item="ep0003", take=1, episode="ep0003-t1")
        assert recover(writer, folder, False, told.append) == ["ep0003-t1"]
        journal = writer.journal
        assert [next_take(folder, journal, f"ep000{n}") for n in (1, 2, 3)] == [1, 2, 2]
        assert recover(writer, folder, False, told.append) == [], "once is enough"
    assert not (folder / "ep0001-t1").exists()
    assert steps(tmp_path, "ep0001") == ["empty"]
    assert steps(tmp_path, "ep0002") == ["recorded"]
    assert steps(tmp_path, "ep0003") == ["armed", "recording", "interrupted"]
    assert verify(cut).ok and Episode.open(cut).profile.interrupted
    assert kept_takes(folder) == {}
    # A person is asked about the take that is whole; a script takes the one that was cut off anew.
    plan = msgspec.structs.replace(PLAN, items=PLAN.items[1:2])
    result = session(plan, tmp_path, operator=Auto()).run()
    assert (result.kept, result.takes) == (1, 0)


def test_a_folder_that_says_it_is_of_another_item_is_never_guessed_at(
    recorded: tuple[Path, dict[str, Any]], tmp_path: Path
):
    import shutil

    folder = tmp_path / "day"
    shutil.copytree(recorded[0] / "day" / "ep0002-t1", folder / "ep0003-t1")
    with JournalWriter(folder) as writer, pytest.raises(InputError, match="take 1 of ep0002"):
        recover(writer, folder, False, lambda text: None)


def test_a_torn_line_is_cut_off_and_the_next_follows(tmp_path: Path):
    with JournalWriter(tmp_path) as writer:
        writer.add("opened", plan="p", plan_sha256=None, items=1)
    file = tmp_path / "session.jsonl"
    file.write_bytes(file.read_bytes() + b'{"step":"kept","item":"ep0001","ta')
    with JournalWriter(tmp_path) as writer:
        assert writer.journal.torn_bytes and not writer.journal.kept
        writer.add("closed")
    assert [json.loads(text)["step"] for text in file.read_text().splitlines()] == ["opened", "closed"]


# ------------------------------------------------------------------ scripts


def test_a_script_is_read_strictly(tmp_path: Path):
    assert read_script("go\n\n# nothing\nnote the lamp # why\nskip\n", "s") == [
        Command("go"),
        Command("note", "the lamp"),
        Command("skip"),
    ]
    for wrong in ("jump", "go now", "keep it"):
        with pytest.raises(InputError, match=r"s: line 2: .* is no command"):
            read_script(f"go\n{wrong}", "s")
    with pytest.raises(InputError, match="cannot be read"):
        operator_of(str(tmp_path / "none"))


def test_a_script_that_does_not_fit_ends_the_session(tmp_path: Path):
    with pytest.raises(InputError, match="'keep' at ep0001 "):
        session(plan_of(item(1)), tmp_path, operator=Script([Command("keep")])).run()


def test_a_wrong_plan_or_rig_is_said_before_anything_is_written(tmp_path: Path):
    lost = msgspec.structs.replace(item(1).staging, room="cellar")
    plan = plan_of(msgspec.structs.replace(item(1), staging=lost))
    with pytest.raises(InputError, match="'cellar' is none of the plan's: living_room"):
        Stage(plan, tmp_path).is_virtual(plan.items[0])
    with pytest.raises(InputError, match="no such rig file"):
        Stage(PLAN, tmp_path, tmp_path / "rig.yaml").is_virtual(PLAN.items[0])


def test_an_unknown_item_is_named(tmp_path: Path):
    from edge.session_command import ids_of

    with pytest.raises(InputError, match="'ep0009'"):
        session(PLAN, tmp_path, only=["ep0009"])
    known = [f"ep{n:04d}" for n in range(1, 6)]
    assert ids_of("ep0001, ep0003-ep0005", known) == ["ep0001", "ep0003", "ep0004", "ep0005"]
    for wrong in ("ep0009", "ep0001-ep0009", ",", "ep0001-"):
        with pytest.raises(InputError):
            ids_of(wrong, known)


def test_a_range_goes_by_the_numbers_of_the_ids_and_leaves_out_what_is_marked_skip():
    from edge.session_command import ids_of

    known = ["ep0003", "ep0001", "ep0005", "ep0002", "ep0004", "extra-1"]  # a plan may be in another order
    assert ids_of("ep0001-ep0003", known) == ["ep0001", "ep0002", "ep0003"]
    assert ids_of("ep0001-ep0003,ep0003", known, {"ep0002"}) == ["ep0001", "ep0003"]
    assert ids_of("ep0002,ep0001-ep0003", known, {"ep0002"}) == ["ep0002", "ep0001", "ep0003"]
    assert ids_of("extra-1", known) == ["extra-1"]
    with pytest.raises(InputError, match="backwards; say ep0001-ep0003"):
        ids_of("ep0003-ep0001", known)
    with pytest.raises(InputError, match="marked skip"):
        ids_of("ep0002-ep0002", known, {"ep0002"})
