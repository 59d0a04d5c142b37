"""The doctor on the terminal: live meters on stderr while the test runs, then the findings in colour."""

from __future__ import annotations

import shutil
import sys
import textwrap
from types import TracebackType

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from capture.blocks import AudioInfo
from capture.camera_address import without_secrets
from capture.doctor_findings import DoctorReport, Finding, sign
from capture.doctor_take import Look
from capture.meter_display import channel_names, level_rows

_COLOURS = {"ok": "green", "warning": "yellow", "fault": "bold red"}


class DoctorDisplay:
    """Says on stderr what is being looked at, and shows the test's meters; a context manager.

    Without a terminal: a line for each step, and one a second for the test.
    """

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(stderr=True)
        self._live: Live | None = None
        self._names: list[str] = []
        self._last: Look | None = None
        self._said_s = 0.0

    def __enter__(self) -> DoctorDisplay:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()

    def step(self, text: str) -> None:
        """What comes next."""
        self.end()
        self._console.print(Text(f"{without_secrets(text)} ..."))

    def audio(self, info: AudioInfo | None) -> None:
        """The microphone whose levels will be shown."""
        self._names = [] if info is None else channel_names(info)

    def show(self, look: Look) -> None:
        """The test so far."""
        if self._console.is_terminal:
            if self._live is None:
                # Drawn from here, not from a thread of rich's: that would count as a source's work.
                self._live = Live(console=self._console, auto_refresh=False, transient=True)
                self._live.start()
            if look.levels is None and self._last is not None:
                look = Look(look.elapsed_s, look.seconds, self._last.levels, look.pictures, look.lost_frames)
            self._last = look
            self._live.update(self._render(look), refresh=True)
        elif look.elapsed_s >= self._said_s + 1:
            self._said_s = look.elapsed_s
            self._console.print(Text("; ".join(self._words(look))))

    def end(self) -> None:
        """Take the meters away."""
        live, self._live = self._live, None
        if live is not None:
            live.stop()

    def _render(self, look: Look) -> Group:
        rows = [
            Text(f"{min(look.elapsed_s, look.seconds):.1f} of {look.seconds:.0f} s; Ctrl-C ends the test")
        ]
        if look.levels is not None:
            rows += level_rows(self._names, look.levels)
        elif self._names:
            rows.append(Text("waiting for sound"))
        rows += [Text(line) for line in self._cameras(look)]
        if look.lost_frames:
            rows.append(Text(f"LOST {look.lost_frames} frames of sound", style="red"))
        return Group(*rows)

    def _words(self, look: Look) -> list[str]:
        words = [f"{look.elapsed_s:.0f} s"]
        if look.levels is not None:
            words.append(f"peak {max(look.levels.peak_dbfs):.0f} dBFS")
        return words + self._cameras(look)

    def _cameras(self, look: Look) -> list[str]:
        lines = []
        for topic, watch in look.pictures.items():
            facts = watch.facts()
            parts = [f"{facts.pictures} pictures"]
            if facts.fps is not None:
                parts.append(f"{facts.fps:.1f} fps")
            if facts.dropped:
                parts.append(f"{facts.dropped} dropped")
            parts += [f"{count} {flag}" for flag, count in sorted(facts.flags.items())]
            lines.append(f"{topic}: {', '.join(parts)}")
        return lines


def print_report(report: DoctorReport) -> None:
    """On stdout: in colour and folded to the width on a terminal, else one line for each finding."""
    if not sys.stdout.isatty():
        print("\n".join(report.lines()))
        return
    console = Console(highlight=False)
    width = max(shutil.get_terminal_size().columns, 40)
    for finding in report.findings:
        console.print(_finding(finding, width))
    to_do = report.to_do()
    if len(to_do) > 1:
        console.print("to do:", style="bold")
        for number, text in enumerate(to_do, 1):
            console.print(_folded(f"  {number}. ", str(without_secrets(text)), width))
    colour = "red" if report.faults else "yellow" if report.warnings else "green"
    console.print(_folded("", f"verdict: {without_secrets(report.verdict)}", width), style=f"bold {colour}")


def _finding(finding: Finding, width: int) -> Text:
    head = f"{sign(finding.severity)} {finding.topic}: "
    text = _folded(head, str(without_secrets(finding.text)), width, indent=6)
    text.stylize(_COLOURS[finding.severity], 0, len(sign(finding.severity)))
    return text


def _folded(head: str, text: str, width: int, indent: int | None = None) -> Text:
    hang = " " * (len(head) if indent is None else indent)
    lines = textwrap.wrap(head + text, width, subsequent_indent=hang, break_long_words=False)
    return Text("\n".join(lines), no_wrap=True, overflow="ignore")
