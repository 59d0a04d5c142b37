"""The session in a terminal: one screen, keys only, to be read from across the room."""

from __future__ import annotations

import os
import select
import sys
import termios
import threading
import tty
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from capture.meter_display import SILENT_DBFS
from dsp.errors import InputError
from edge.session.large_type import large

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from edge.session.engine import Session

# Command -> its key and what it is called. The state's `enter` is also on Enter and the space bar.
KEYS = {
    "go": ("g", "go"),
    "keep": ("k", "keep"),
    "retake": ("r", "retake"),
    "note": ("n", "note"),
    "skip": ("s", "skip"),
    "back": ("b", "back"),
    "next": ("x", "next"),
    "drop": ("d", "drop"),
    "cancel": ("c", "cancel"),
    "stop": ("e", "end the take"),
    "quit": ("q", "quit"),
}
HEADINGS = {
    "preparing": "One moment",
    "room": "Change of room",
    "ready": "Ready",
    "countdown": "Get ready",
    "recording": "RECORDING",
    "finishing": "Finishing",
    "decide": "Keep it?",
    "kept": "Kept",
    "done": "Done",
    "over": "The session is over",
}
COLOURS = {"ok": "green", "warning": "yellow", "bad": "bold red", "not checked": "dim"}
MARKS = {"ok": "+", "warning": "!", "bad": "X", "not checked": "?"}
_LOOK_S = 0.1


def screen(state: Mapping[str, Any], width: int, height: int, note: str | None = None) -> RenderableType:
    """What the terminal shows of a state. note: what is being typed; None: nothing is."""
    from rich.console import Group
    from rich.panel import Panel
    from rich.text import Text

    phase, item = state["phase"], state["item"]
    parts: list[RenderableType] = [_progress(state, width)]
    style = "bold white on red" if phase == "recording" else "bold"
    where = "" if item is None else f"{item['id']}  take {state['take'] or '-'}  {item['room']['name']}"
    heading = Text(f" {HEADINGS[phase]} ", style=style)
    heading.append(f"  {where}", style="bold" if phase != "recording" else style)
    parts.append(heading)
    for key, title in (("trouble", "this did not work"), ("refused", "must not be recorded")):
        if state[key]:
            parts.append(Panel(Text(state[key], style="bold red"), title=title, style="red"))
    inner, lines = width - 6, min(3, max(0, (height - 20) // 5))
    if phase == "countdown":
        parts.append(_large(str(state["count"]), inner, "bold yellow", 1))
    if item is not None:
        said = _large(item["request"], inner, "bold", 0 if phase == "decide" else lines)
        parts.append(Panel(said, title=f"{item['speaker_name']} says"))
    if phase == "decide":
        parts.append(_checks(state))
    if item is not None and phase in ("room", "ready", "preparing", "countdown", "recording"):
        parts.append(_stage(item))
    if phase == "recording":
        parts.append(_meter(state["meter"]))
    if item is not None and item["notes"]:
        parts.append(Text("notes: " + " / ".join(item["notes"]), style="italic"))
    if state["message"] and phase != "recording":
        parts.append(Text(state["message"], style="bold"))
    parts.append(_keys(state) if note is None else Text(f"note: {note}_  (Enter: done, Esc: not)"))
    return Group(*parts)


def _large(text: str, width: int, style: str, most_lines: int) -> RenderableType:
    from rich.text import Text

    rows = large(text, width, most_lines)
    return Text("\n".join(rows) if rows else text, style=style, no_wrap=rows is not None)


def _progress(state: Mapping[str, Any], width: int) -> RenderableType:
    from rich.text import Text

    told = state["progress"]
    cells = max(10, min(40, width - 60))
    full = round(cells * told["kept"] / max(told["total"], 1))
    text = Text(f"{state['session']}  ")
    text.append("#" * full, style="green").append("-" * (cells - full), style="dim")
    text.append(f"  {told['kept']} of {told['total']} kept", style="bold")
    text.append(f", today {told['kept_today']} in {told['takes_today']} takes")
    if told["skipped"]:
        text.append(f", {told['skipped']} skipped", style="yellow")
    if told["minutes_left"] is not None and told["open"]:
        text.append(f", about {told['minutes_left']:.0f} min left")
    return text


def _stage(item: Mapping[str, Any]) -> RenderableType:
    from rich.table import Table

    table = Table.grid(padding=(0, 3))
    table.add_column(style="bold")
    table.add_column()
    for person in item["people"]:
        doing = f"points at the {person['points_at']}" if person["points_at"] else ""
        who = person["name"] + (" (speaks)" if person["speaks"] else "")
        table.add_row(who, ", ".join(filter(None, (person["where"], person["facing"], doing))))
    for line in item["do"]:
        table.add_row("", line)
    states = [
        f"{device['name']}: {device['state']}{' (SOUNDS)' if device['sounds'] else ''}"
        for device in item["devices"]
    ]
    table.add_row("devices", "; ".join(states) or "none in this room")
    if item["loudspeaker"]:
        table.add_row("loudspeaker", f"stands at the {item['loudspeaker']}, and plays it from the count on")
    kind = " ".join(filter(None, (item["grounding"], item["query"], item["feasibility"], item["difficulty"])))
    table.add_row("episode", f"{kind}, meant: {item['target'] or 'no such device'}", style="dim")
    if item["note"]:
        table.add_row("plan", item["note"], style="dim")
    return table


def _checks(state: Mapping[str, Any]) -> RenderableType:
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 2))
    for check in state["checks"]:
        style = COLOURS[check["verdict"]]
        mark = Text(f"{MARKS[check['verdict']]} {check['verdict']}", style=style)
        table.add_row(mark, Text(check["name"], style="bold"), Text(check["text"], style=style))
    return table


def _meter(meter: Mapping[str, Any] | None) -> RenderableType:
    from rich.text import Text

    if meter is None:
        return Text("")
    peak = max(meter["peak_dbfs"])
    full = round(40 * min(max((peak + 60) / 60, 0.0), 1.0))
    text = Text(f"{meter['seconds']:6.1f} s  ", style="bold")
    text.append("#" * full, style="red" if meter["clipped"] or peak > -1 else "green")
    loud = "silent" if peak < SILENT_DBFS else f"{peak:.0f} dBFS"
    text.append("-" * (40 - full), style="dim").append(f"  {loud}")
    if meter["clipped"]:
        text.append("  CLIPPED", style="bold red")
    if meter["lost_frames"] or meter["dropped_pictures"]:
        lost = f"  lost: {meter['lost_frames']} frames, {meter['dropped_pictures']} pictures"
        text.append(lost, style="bold red")
    return text


def _keys(state: Mapping[str, Any]) -> RenderableType:
    from rich.text import Text

    text = Text()
    for op in state["can"]:
        key, words = KEYS[op]
        on_enter = op == state["enter"]
        name = f" Enter, space or {key.upper()} " if on_enter else f" {key.upper()} "
        text.append(name, style="reverse bold" if on_enter else "reverse")
        text.append(f" {words}   ", style="bold" if on_enter else "")
    return text


class Keyboard:
    """From keys to commands of a session; a note is typed letter by letter, and ended by Enter."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self.note: str | None = None  # what is being typed
        self.trouble = ""

    def key(self, key: str, state: Mapping[str, Any]) -> None:
        """One key. state: what was on the screen when it was pressed."""
        self.trouble = ""
        if self.note is not None:
            self._type(key, state)
            return
        can = state["can"]
        if key in ("\r", "\n", " "):
            op = state["enter"]
        else:
            op = next((op for op in can if KEYS[op][0] == key.lower()), None)
        if op == "note":
            self.note = ""
        elif op is not None:
            self._do(op, "", state)

    def _type(self, key: str, state: Mapping[str, Any]) -> None:
        assert self.note is not None
        if key in ("\r", "\n"):
            text, self.note = self.note.strip(), None
            if text:
                self._do("note", text, state)
        elif key == "\x1b":
            self.note = None
        elif key in ("\x7f", "\b"):
            self.note = self.note[:-1]
        elif key.isprintable():
            self.note += key

    def _do(self, op: str, text: str, state: Mapping[str, Any]) -> None:
        try:
            self._session.do(op, text, turn=state["turn"])
        except InputError as error:
            self.trouble = str(error)


def run_terminal(session: Session, engine: threading.Thread, console: Console) -> None:
    """Show the session and take keys until its thread has ended. The main thread's job."""
    from rich.live import Live

    keyboard = Keyboard(session)
    shown: tuple[Any, ...] = ()
    with _single_keys() as keys, Live(console=console, screen=True, auto_refresh=False) as live:
        while engine.is_alive():
            state = session.state()
            now = (state["version"], keyboard.note, keyboard.trouble, console.size)
            if now != shown:
                shown = now
                if keyboard.trouble:
                    state = {**state, "message": keyboard.trouble}
                live.update(screen(state, *console.size, keyboard.note), refresh=True)
            for key in keys():
                keyboard.key(key, session.state() if keyboard.note is not None else state)


@contextmanager
def _single_keys() -> Iterator[Any]:
    """Keys of the terminal one by one, without Enter and without echo; gives a function that returns those of
    the last tenth of a second. Ctrl-C stays a signal."""
    fd = sys.stdin.fileno()
    before = termios.tcgetattr(fd)
    try:
        tty.setcbreak(fd)

        def keys() -> str:
            ready, _, _ = select.select([fd], [], [], _LOOK_S)
            if not ready:
                return ""
            text = os.read(fd, 1024).decode("utf-8", "ignore")
            return "" if len(text) > 1 and text[0] == "\x1b" else text  # arrows and the like

        yield keys
    finally:
        termios.tcsetattr(fd, termios.TCSADRAIN, before)
