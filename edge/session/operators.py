"""Who runs a session: a person at the keyboard, or a script."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from dsp.errors import InputError

# What can be asked for; which of them are possible at a moment is in the state's `can`.
COMMANDS = (
    "go", "cancel", "stop", "keep", "retake", "note", "skip", "drop", "back", "next", "quit",
)  # fmt: skip
WITH_TEXT = ("note", "retake", "skip")
TAKES = 3  # that the scripted operator makes of an item before it gives up
LONGEST_TEXT = 2000


@dataclass(frozen=True)
class Command:
    """One of COMMANDS, with a text where it takes one."""

    op: str
    text: str = ""


class Operator(Protocol):
    """Answers what the session asks: gets the state, gives a command of its `can`; None: a person will."""

    def answer(self, state: Mapping[str, Any]) -> Command | None: ...


class Person:
    """Nobody answers by itself: commands come from the views."""

    def answer(self, state: Mapping[str, Any]) -> Command | None:
        """None."""
        return None


class Auto:
    """Keeps a take when its checks pass, else makes another one, up to `takes` of an item in this session;
    then it notes what was wrong and leaves the item for a person."""

    def __init__(self, takes: int = TAKES) -> None:
        self._most = takes
        self._tried: dict[str, int] = {}
        self._noted: set[str] = set()

    def answer(self, state: Mapping[str, Any]) -> Command | None:
        """See the class."""
        phase, can = state["phase"], state["can"]
        if phase == "done":
            return Command("quit")
        if phase == "decide":
            return self._decide(state)
        item = state["item"]["id"]
        if phase == "ready":
            tried = self._tried.get(item, 0)
            why = state["refused"] or (tried >= self._most and (state["trouble"] or "no take came about"))
            return self._give_up(item, why) if why else self._go(item)
        return Command("next") if "next" in can else Command("go")

    def _go(self, item: str) -> Command:
        self._tried[item] = self._tried.get(item, 0) + 1
        return Command("go")

    def _decide(self, state: Mapping[str, Any]) -> Command:
        item = state["item"]["id"]
        if state["checks_ok"]:
            return Command("keep")
        bad = "; ".join(f"{c['name']}: {c['text']}" for c in state["checks"] if c["verdict"] == "bad")
        if self._tried.get(item, 0) < self._most:
            return Command("retake", bad)
        return self._give_up(item, bad)

    def _give_up(self, item: str, why: str) -> Command:
        if item not in self._noted:
            self._noted.add(item)
            return Command("note", f"given up after {self._tried.get(item, 0)} takes: {why}")
        return Command("skip", why)


class Script:
    """Answers from a list of commands, one per question; what is not possible then ends the script with
    InputError. When it is over the session ends."""

    def __init__(self, commands: Iterable[Command]) -> None:
        self._left = list(commands)

    def answer(self, state: Mapping[str, Any]) -> Command | None:
        """The next command."""
        if state["phase"] == "done" and not self._left:
            return Command("quit")
        if not self._left:
            return Command("quit")
        command = self._left.pop(0)
        if command.op not in state["can"]:
            where = state["item"]["id"] if state["item"] else "the end"
            raise InputError(
                f"the script says {command.op!r} at {where} ({state['phase']}), where only"
                f" {', '.join(state['can'])} is possible"
            )
        return command


def read_script(text: str, where: str) -> list[Command]:
    """Commands of a script: one per line, `note`, `retake` and `skip` with their text after a space; # begins
    a comment. Raises InputError with the line."""
    commands = []
    for number, line in enumerate(text.splitlines(), 1):
        op, _, rest = line.partition("#")[0].strip().partition(" ")
        if not op:
            continue
        if op not in COMMANDS or (rest.strip() and op not in WITH_TEXT):
            raise InputError(
                f"{where}: line {number}: {line.strip()!r} is no command; there are {', '.join(COMMANDS)}"
            )
        commands.append(Command(op, rest.strip()))
    return commands


def operator_of(script: str | None, takes: int = TAKES) -> Operator:
    """None: a person; "auto": Auto; else a file with commands. Raises InputError."""
    if script is None:
        return Person()
    if script == "auto":
        return Auto(takes)
    try:
        text = Path(script).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"--script {script}: cannot be read: {error}; `auto` needs no file") from None
    return Script(read_script(text, script))
