"""The engine of a guided session: goes through the items of a plan, and does what the operator decides.

One thread runs `Session.run`. Views (terminal, web page) read `state()` and send commands with `do`; a script
may answer instead of a person. Every step is in the journal before the next begins, so a session that is
killed goes on where it was.
"""

from __future__ import annotations

import hashlib
import logging
import os
import queue
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from capture.recording import Meter
from dsp.errors import HearthError, InputError
from edge.session.checks import Check, all_well, check_take
from edge.session.journal import JournalWriter
from edge.session.loudspeaker import Loudspeaker
from edge.session.operators import LONGEST_TEXT, Command, Operator, Person
from edge.session.progress import Pace, Progress
from edge.session.recovery import check_owner, folder_name, next_take, recover
from edge.session.stage import Setting, Stage
from edge.session.words import device_to_play, in_words, item_in_words
from recordings.episode import Episode
from recordings.plan.model import Plan, PlanItem
from recordings.profile import Consent
from recordings.storage import StorageError

if TYPE_CHECKING:
    from capture.recorder import Recorder
    from recordings.consent.book import ConsentBook
    from recordings.session_journal import Journal

log = logging.getLogger(__name__)

COUNTDOWN_S = 3
LONGEST_S = 60.0  # of a take of a real rig, when nobody ends it
FIELDS = (
    "grounding", "query", "feasibility", "difficulty", "request", "speaker", "target_device", "goal", "home",
    "staging",
)  # fmt: skip
_NICE = 5  # of the thread that finishes episodes: sound that comes meanwhile goes first


@dataclass
class SessionResult:
    """What a run of a session came to. `open`: items that are still to be recorded."""

    folder: Path
    plan: str
    stopped: str  # done, quit, or interrupt
    items: int
    kept: int
    skipped: dict[str, str]
    open: list[str]
    takes: int  # of this run
    kept_now: int  # in this run
    interrupted: list[str]  # cut off by a crash before this run
    recorded_s: float  # sound of this run
    seconds: float  # that this run took
    refused: dict[str, str] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for `--json`."""
        return {
            "folder": str(self.folder),
            "plan": self.plan,
            "stopped": self.stopped,
            "items": self.items,
            "kept": self.kept,
            "open": self.open,
            "skipped": [{"item": item, "why": why} for item, why in self.skipped.items()],
            "refused": [{"item": item, "why": why} for item, why in self.refused.items()],
            "takes": self.takes,
            "kept_now": self.kept_now,
            "interrupted": self.interrupted,
            "recorded_s": round(self.recorded_s, 3),
            "seconds": round(self.seconds, 3),
        }


@dataclass(frozen=True)
class _Done:
    """A finished take: its folder's name, number, and what the checks say."""

    number: int
    name: str
    checks: list[Check]


def item_hash(item: PlanItem) -> str:
    """SHA-256 of what an item says, in hexadecimal: a kept take is of the item as it was then."""
    asked = {name: getattr(item, name) for name in ("id", *FIELDS)}
    return hashlib.sha256(msgspec.json.encode(asked, order="deterministic")).hexdigest()


class Session:
    """Records the items of a plan into `<data>/<name>/`.

    only: ids of the items to record, also such whose `skip` is set; None: all others, in the plan's order.
    operator: who decides; default: a person, through `do`. consent: opens the book that is asked for every
    real person, anew each time; None: nobody is asked. countdown_s: 0 for none. longest_s: of a take of a
    real rig. report: make each episode's page. loudspeaker: plays the device that is to be heard, on a real
    rig. Raises InputError when another session or another plan has the folder, StorageError.
    """

    def __init__(
        self,
        plan: Plan,
        data: Path,
        name: str,
        stage: Stage,
        *,
        only: Sequence[str] | None = None,
        operator: Operator | None = None,
        consent: Callable[[], ConsentBook] | None = None,
        countdown_s: int = COUNTDOWN_S,
        longest_s: float = LONGEST_S,
        report: bool = True,
        plan_sha256: str | None = None,
        loudspeaker: Loudspeaker | None = None,
    ) -> None:
        self.plan, self.name, self.data = plan, name, data
        self.folder = data / name
        self._stage, self._operator, self._consent = stage, operator or Person(), consent
        self._countdown_s, self._longest_s, self._report = countdown_s, longest_s, report
        self._plan_sha256, self._loudspeaker = plan_sha256, loudspeaker
        self.order = _ordered(plan, only)
        self._hash = {item.id: item_hash(item) for item in plan.items}
        self._writer = JournalWriter(self.folder)
        before = self._writer.journal.plan
        if before not in (None, plan.name):
            self._writer.close()
            raise InputError(
                f"{self.folder}: holds takes of the plan {before!r}, not of {plan.name!r}; give another"
                " --session"
            )
        self._commands: queue.SimpleQueue[Command] = queue.SimpleQueue()
        self._changed = threading.Condition()
        self._state: dict[str, Any] = {}
        self._version = 0
        self._quit = threading.Event()
        self._interrupted = False
        self._recorder: Recorder | None = None
        self._work = ThreadPoolExecutor(1, "finish take")
        self._pace = Pace()
        self._progress = Progress(self.order, self._writer.journal)
        self._left_out: set[str] = set()  # skipped in this run: not asked for again
        self._refused: dict[str, str] = {}
        self._kept_now = self._takes = 0
        self._recorded_s = 0.0
        self._crashed: list[str] = []
        self._room: str | None = None
        self._show("preparing", None, message="looking at what is there")

    # ------------------------------------------------------------------ what views see and do

    @property
    def journal(self) -> Journal:
        """What was noted so far; it grows."""
        return self._writer.journal

    def state(self) -> dict[str, Any]:
        """All that a view shows, as plain values. A new dict for every change; `version` counts changes,
        `turn` questions."""
        with self._changed:
            return self._state

    def wait_for_change(self, version: int, timeout_s: float) -> dict[str, Any]:
        """The state as soon as its `version` is another one, or after timeout_s."""
        with self._changed:
            self._changed.wait_for(lambda: self._version != version, timeout_s)
            return self._state

    def do(self, op: str, text: str = "", turn: int | None = None) -> None:
        """Carry out a command of the state's `can`. turn: of the state that was on the screen when the key
        was pressed; a later one refuses it, so that a key pressed twice does not decide twice. Thread-safe.

        Raises InputError for a command that is not possible now.
        """
        with self._changed:
            state = self._state
            if turn is not None and turn != state["turn"]:
                raise InputError(f"{op!r} was meant for what was asked before; look again")
            if op not in state["can"]:
                possible = ", ".join(state["can"]) or "nothing"
                raise InputError(f"{op!r} is not possible now ({state['phase']}); possible: {possible}")
            if len(text) > LONGEST_TEXT:
                raise InputError(f"a note has at most {LONGEST_TEXT} characters, not {len(text)}")
            recording = state["phase"] == "recording"
        if op == "quit":
            self._quit.set()
        if recording:
            self._end_take("interrupt" if op == "quit" else "asked")
            return
        self._commands.put(Command(op, text.strip()))

    def interrupt(self) -> None:
        """End in order as soon as possible, as `quit` does: Ctrl-C and SIGTERM. A take that runs is ended and
        finished; what was not decided is asked for at the next start."""
        self._interrupted = True
        self._quit.set()
        self._end_take("interrupt")
        self._commands.put(Command("quit"))

    def _end_take(self, reason: Any) -> None:
        recorder = self._recorder
        if recorder is not None:
            recorder.finish_because(reason)

    def _show(self, phase: str, item: PlanItem | None, can: Sequence[str] = (), **more: Any) -> None:
        """Tell the views. What is not named has its default; a new phase or question is a new turn."""
        with self._changed:
            turn = self._state.get("turn", 0) + 1
            self._set(
                {
                    "phase": phase,
                    "turn": turn,
                    "item": None if item is None else self._item_words(item),
                    "can": list(can),
                    # A second Enter must not call off what the first one began.
                    "enter": can[0] if can and phase != "countdown" else None,
                    "take": None,
                    "takes": 0 if item is None else self._writer.journal.take_count(item.id),
                    "count": None,
                    "meter": None,
                    "checks": [],
                    "checks_ok": None,
                    "refused": None,
                    "message": "",
                    "trouble": None,
                    **more,
                }
            )

    def _set(self, changed: dict[str, Any]) -> None:
        with self._changed:
            self._version += 1
            self._state = {
                **self._state,
                "plan": self.plan.name,
                "session": self.name,
                "progress": self._progress.now(self._pace),
                **changed,
                "version": self._version,
            }
            self._changed.notify_all()

    def _item_words(self, item: PlanItem) -> dict[str, Any]:
        words = item_in_words(self.plan, item)
        words["notes"] = list(self._writer.journal.notes.get(item.id, ()))
        words["kept"] = self._writer.journal.kept.get(item.id)
        heard = None if self._loudspeaker is None or self._stage.is_virtual(item) else device_to_play(item)
        words["loudspeaker"] = None if heard is None else heard.name
        return words

    # ------------------------------------------------------------------ the run

    def run(self) -> SessionResult:
        """Until everything is recorded, or the operator quits. Raises StorageError when the disk takes no
        more, InputError for a script that does not fit, or folders that do not."""
        began = time.monotonic()
        stopped = "done"
        try:
            self._writer.add(
                "opened", plan=self.plan.name, plan_sha256=self._plan_sha256, items=len(self.order)
            )
            self._crashed = recover(
                self._writer, self.folder, self._report, lambda text: self._set({"message": text})
            )
            self._drop_changed()
            stopped = self._through()
            self._writer.add("closed")
        finally:
            self._show("over", None)
            self._stage.close()
            self._work.shutdown()
            self._writer.close()
        journal, ids = self._writer.journal, [item.id for item in self.order]
        return SessionResult(
            folder=self.folder,
            plan=self.plan.name,
            stopped="interrupt" if self._interrupted else stopped,
            items=len(ids),
            kept=sum(item in journal.kept for item in ids),
            skipped={
                item: why
                for item, why in journal.skipped.items()
                if item in ids and item not in self._refused  # it is told once, with the reason
            },
            open=[item for item in ids if item not in journal.kept],
            takes=self._takes,
            kept_now=self._kept_now,
            interrupted=self._crashed,
            recorded_s=self._recorded_s,
            seconds=time.monotonic() - began,
            refused=self._refused,
        )

    def _drop_changed(self) -> None:
        """A take that is gone, or was kept for an item which says something else now, is not its episode."""
        told = {
            (line["item"], line["episode"]): line.get("item_sha256")
            for line in self._writer.journal.lines
            if line["step"] == "kept"
        }
        for item, episode in list(self._writer.journal.kept.items()):
            if item not in self._hash:
                continue
            if not (self.folder / episode).is_dir():
                why = "its folder is not there any more: it was withdrawn or moved"
            elif told[item, episode] != self._hash[item]:
                why = "the plan says something else of this item now"
            else:
                continue
            number = int(episode.rpartition("-t")[2])
            self._writer.add("dropped", item=item, take=number, episode=episode, why=why)

    def _through(self) -> str:
        place, visiting = self._next_open(-1), False
        while not self._quit.is_set():
            if place is None:
                answer = self._ask("done", None, ("quit", "back"), message=self._summary())
                if answer.op == "quit":
                    return "done"
                place, visiting = len(self.order) - 1, True
                continue
            move = self._visit(self.order[place], visiting)
            if move == "back":
                place, visiting = max(place - 1, 0), True
            elif move == "next":
                place, visiting = self._next_open(place), False
        return "quit"

    def _summary(self) -> str:
        open_items = [item.id for item in self.order if item.id not in self._writer.journal.kept]
        if not open_items:
            return "everything is recorded"
        return f"{len(open_items)} left: {', '.join(open_items[:12])}{' ...' if len(open_items) > 12 else ''}"

    def _next_open(self, place: int) -> int | None:
        """The next item without a kept take after this one, else from the beginning; None: there is none."""
        kept = self._writer.journal.kept
        for index in (*range(place + 1, len(self.order)), *range(max(place, 0) + 1)):
            item = self.order[index] if index < len(self.order) else None
            if item is not None and item.id not in kept and item.id not in self._left_out:
                return index
        return None

    def _visit(self, item: PlanItem, visiting: bool) -> str:
        """One item: "next", "back" or "quit"."""
        if item.staging.room != self._room:
            name = in_words(item.staging.room)
            rest = sum(one.staging.room == item.staging.room for one in self.order)
            message = f"Everybody into the {name}: {rest} {'episode' if rest == 1 else 'episodes'} there"
            answer = self._ask("room", item, ("go", "skip", "back", "quit"), message=message)
            if answer.op != "go":
                return self._left(item, answer)
            self._room = item.staging.room
        done = self._undecided(item)
        move = None if done is None else self._decide(item, done)
        if move is None and visiting and item.id in self._writer.journal.kept:
            move = self._look_at_kept(item)
        while move in (None, "retake"):
            move = self._take(item)
        return move

    def _look_at_kept(self, item: PlanItem) -> str | None:
        name = self._writer.journal.kept[item.id]
        number = int(name.rpartition("-t")[2])
        answer = self._ask(
            "kept", item, ("next", "retake", "drop", "note", "back", "quit"), take=number,
            message=f"take {number} is kept",
        )  # fmt: skip
        if answer.op == "drop":
            self._writer.add("dropped", item=item.id, take=number, episode=name, why=answer.text)
            return None
        return None if answer.op == "retake" else answer.op

    # ------------------------------------------------------------------ one take

    def _take(self, item: PlanItem) -> str:
        """From the set scene to the decision: "retake", or as `_visit`."""
        number = next_take(self.folder, self._writer.journal, item.id)
        setting, trouble = self._set_scene(item, number)
        try:
            while True:
                refused = self._refusal(item)
                can = ("go", "skip", "note", "back", "quit")
                answer = self._ask("ready", item, can, take=number, refused=refused, trouble=trouble)
                if answer.op != "go":
                    return self._left(item, answer)
                if self._refusal(item) is not None:  # asked anew: it may have been given meanwhile
                    continue
                if setting is None:
                    setting, trouble = self._set_scene(item, number)
                    if setting is None:
                        continue
                try:
                    done = self._record(item, number, setting)
                except StorageError:
                    raise
                except HearthError as error:
                    log.warning("%s: %s", item.id, error)
                    trouble = str(error)
                    setting.close()
                    setting = None
                    number = next_take(self.folder, self._writer.journal, item.id)
                    continue
                if done is not None:
                    break
        finally:
            if setting is not None:
                setting.close()
        return self._decide(item, done)

    def _left(self, item: PlanItem, answer: Command) -> str:
        if answer.op == "skip":
            self._writer.add("skipped", item=item.id, why=answer.text)
            self._left_out.add(item.id)
            return "next"
        return answer.op

    def _set_scene(self, item: PlanItem, number: int) -> tuple[Setting | None, str | None]:
        self._show("preparing", item, take=number, message="the room is being set")
        try:
            return self._stage.set(item, number), None
        except StorageError:
            raise
        except HearthError as error:
            log.warning("%s: %s", item.id, error)
            return None, str(error)

    def _refusal(self, item: PlanItem) -> str | None:
        """Why this item must not be recorded; None: everybody in it agreed, or nobody real is in it."""
        self._refused.pop(item.id, None)
        if self._consent is None or self._stage.is_virtual(item):
            return None
        book = self._consent()
        answers = [book.may(person, "recording") for person in _people(item)]
        if all(answer.ok for answer in answers):
            return None
        why = "; ".join(answer.why for answer in answers if not answer.ok)
        self._refused[item.id] = why
        return why

    def _record(self, item: PlanItem, number: int, setting: Setting) -> _Done | None:
        """Count down, record, finish, check; None when the operator called it off before it began."""
        names = {"item": item.id, "take": number, "episode": folder_name(item.id, number)}
        profile = setting.profile(
            self.name,
            id=names["episode"],
            plan_item=item.id,
            take=number,
            consent=None if setting.virtual else self._given(item),
            **{name: getattr(item, name) for name in FIELDS},
        )
        self._writer.add("armed", **names, item_sha256=self._hash[item.id])
        with self._sound(item, setting):
            if not self._count_down(item, number):
                return None
            meter = None if setting.virtual and self._countdown_s == 0 else self._metered
            recorder = setting.begin(profile, self.data, self._longest_s, meter)
            self._writer.add("recording", **names)
            self._takes += 1
            self._recorder = recorder
            recorder.event("plan_item", item=item.id, take=number, plan=self.plan.name)
            self._show("recording", item, ("stop", "quit"), take=number, message=item.request)
            try:
                if self._quit.is_set():
                    recorder.finish_because("interrupt")
                self._prepare_next(item)
                setting.run()
            finally:
                self._recorder = None
        self._show("finishing", item, take=number, message="the episode is being finished and checked")
        return self._work.submit(self._finish, recorder, item, number).result()

    @contextmanager
    def _sound(self, item: PlanItem, setting: Setting) -> Iterator[None]:
        """While the body runs the loudspeaker sounds as the device that is to be heard."""
        heard = None if setting.virtual or self._loudspeaker is None else device_to_play(item)
        if heard is None or self._loudspeaker is None:
            yield
            return
        self._loudspeaker.play(heard.type)
        try:
            yield
        finally:
            self._loudspeaker.stop()

    def _given(self, item: PlanItem) -> Consent | None:
        """What the profile says of the consent of those in it."""
        if self._consent is None:
            return None
        book = self._consent()
        shared = all(book.may(person, "sharing").ok for person in _people(item))
        return Consent(recording="given", sharing="given" if shared else "unknown")

    def _count_down(self, item: PlanItem, number: int) -> bool:
        for left in range(self._countdown_s, 0, -1):
            answer = self._ask("countdown", item, ("cancel", "quit"), timeout_s=1.0, take=number, count=left)
            if answer.op in ("cancel", "quit"):
                return False
        return not self._quit.is_set()

    def _metered(self, meter: Meter) -> None:
        with self._changed:
            if self._state["phase"] != "recording":
                return
        told = {
            "seconds": round(meter.seconds, 1),
            "peak_dbfs": [round(float(v), 1) for v in meter.peak_dbfs],
            "rms_dbfs": [round(float(v), 1) for v in meter.rms_dbfs],
            "clipped": bool(meter.clipped),
            "lost_frames": meter.lost_frames,
            "dropped_pictures": meter.dropped_pictures,
            "minutes_left": round(meter.minutes_left),
        }
        self._set({"meter": told})

    def _prepare_next(self, item: PlanItem) -> None:
        """The scene that comes next if this take is kept."""
        place = self.order.index(item)
        following = self._next_open(place)
        if following is not None and self.order[following] is not item:
            upcoming = self.order[following]
            self._stage.ahead(upcoming, next_take(self.folder, self._writer.journal, upcoming.id))

    def _finish(self, recorder: Recorder, item: PlanItem, number: int) -> _Done:
        """In a thread of its own: finish the episode, note it, look at it."""
        with suppress(OSError, AttributeError):  # on Linux this is of the thread
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICE)
        recording = recorder.stop(report=self._report)
        self._recorded_s += recording.seconds
        names = {"item": item.id, "take": number, "episode": recording.path.name}
        self._writer.add(
            "recorded", **names, seconds=round(recording.seconds, 3), stop_reason=recording.stop_reason
        )
        return self._checked(item, number)

    def _checked(self, item: PlanItem, number: int) -> _Done:
        name = folder_name(item.id, number)
        check_owner(self.folder / name, item.id, number)
        checks = check_take(Episode.open(self.folder / name), item, self.plan)
        told = [check.to_dict() for check in checks]
        self._writer.add("checks", item=item.id, take=number, episode=name, ok=all_well(checks), checks=told)
        return _Done(number, name, checks)

    # ------------------------------------------------------------------ deciding

    def _undecided(self, item: PlanItem) -> _Done | None:
        """The newest take, when it is whole on disk and nobody has decided about it."""
        takes = self._writer.journal.takes.get(item.id, {})
        if not takes:
            return None
        newest = takes[max(takes)]
        whole = newest.state in ("recorded", "checks") or (newest.state == "interrupted" and newest.repaired)
        if not whole or not (self.folder / newest.episode).is_dir():
            return None
        self._show("finishing", item, take=newest.number, message="the take is being looked at")
        return self._work.submit(self._checked, item, newest.number).result()

    def _decide(self, item: PlanItem, done: _Done) -> str:
        names = {"item": item.id, "take": done.number, "episode": done.name}
        well = all_well(done.checks)
        answer = self._ask(
            "decide",
            item,
            ("keep", "retake", "note", "skip", "back", "quit") if well else
            ("retake", "keep", "note", "skip", "back", "quit"),
            take=done.number,
            checks=[check.to_dict() for check in done.checks],
            checks_ok=well,
        )  # fmt: skip
        if answer.op == "keep":
            self._writer.add("kept", **names, item_sha256=self._hash[item.id], checks_ok=well)
            self._kept_now += 1
            self._pace.kept()
            return "next"
        if answer.op == "retake":
            self._writer.add("retake", **names, why=answer.text)
            return "retake"
        return self._left(item, answer)

    def _ask(
        self,
        phase: str,
        item: PlanItem | None,
        can: Sequence[str],
        *,
        timeout_s: float | None = None,
        **more: Any,
    ) -> Command:
        """Show a question and wait for its answer; notes are taken on the way. With a time-out the answer may
        be that nothing was said (op "")."""
        while not self._commands.empty():  # of before: no key decides about what was not seen
            self._commands.get()
        self._show(phase, item, can, **more)
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while True:
            if self._quit.is_set():
                return Command("quit")
            answer = None
            if timeout_s is None:
                answer = self._operator.answer(self.state())
            if answer is None:
                left = None if deadline is None else max(0.0, deadline - time.monotonic())
                try:
                    answer = self._commands.get(timeout=left)
                except queue.Empty:
                    return Command("")
            if answer.op not in can:
                continue
            if answer.op == "quit":
                self._quit.set()
            if answer.op != "note":
                return answer
            self._note(item, more.get("take"), answer.text)

    def _note(self, item: PlanItem | None, number: int | None, text: str) -> None:
        if item is None or not text:
            return
        of_take = {}
        if number in self._writer.journal.takes.get(item.id, {}):
            of_take = {"take": number, "episode": folder_name(item.id, number or 0)}
        self._writer.add("note", item=item.id, text=text, **of_take)
        self._set({"item": self._item_words(item)})


def _people(item: PlanItem) -> list[str]:
    """Everybody who is in an item: the speaker, and who else stands there."""
    return list(dict.fromkeys((item.speaker, *(placed.person for placed in item.staging.people))))


def _ordered(plan: Plan, only: Sequence[str] | None) -> list[PlanItem]:
    """The plan's items, room by room in the order in which the rooms come first. Raises InputError for an id
    that the plan does not have."""
    known = {item.id for item in plan.items}
    for name in only or ():
        if name not in known:
            raise InputError(f"--only: the plan {plan.name!r} has no item {name!r}; it has {_some(known)}")
    chosen = [item for item in plan.items if (item.id in only if only is not None else not item.skip)]
    rooms = list(dict.fromkeys(item.staging.room for item in chosen))
    return sorted(chosen, key=lambda item: rooms.index(item.staging.room))


def _some(ids: set[str]) -> str:
    found = sorted(ids)
    return ", ".join(found) if len(found) <= 6 else f"{found[0]} to {found[-1]}"
