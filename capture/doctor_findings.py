"""What `hearth doctor` says: findings, the report they make, the verdict; and what it must never say."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from capture.camera_address import without_secrets

Severity = Literal["ok", "warning", "fault"]

# In the order in which a person would mend things: without a rig file nothing else has a meaning.
TOPICS = ("rig", "microphone", "disk", "camera", "calibration", "clock", "system", "processor", "encoder")


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing looked at.

    topic: one of TOPICS; a further camera of the rig is "camera <name>". severity "fault": a recording with
    this rig will not work or not be what it should be. do: what to do about it, for a person on the spot.
    value: what was measured, in any plain form.
    """

    topic: str
    severity: Severity
    text: str
    do: str = ""


@dataclass(frozen=True, slots=True)
class DoctorReport:
    """All findings, what they were made from, and one sentence that sums them up.

    details: the measured values by part ("microphones", "cameras", "test", "clock", "disk", ...).
    ended_early: somebody ended it before everything was looked at.
    """

    findings: tuple[Finding, ...]
    verdict: str
    seconds: float = 0.0
    details: dict[str, Any] = field(default_factory=dict)
    ended_early: bool = False

    @property
    def ok(self) -> bool:
        """Everything was looked at and nothing is at fault."""
        return not self.faults and not self.ended_early

    @property
    def faults(self) -> tuple[Finding, ...]:
        """What must be mended before a recording, the most important first."""
        return tuple(sorted((f for f in self.findings if f.severity == "fault"), key=_rank))

    @property
    def warnings(self) -> tuple[Finding, ...]:
        """What should be looked at."""
        return tuple(sorted((f for f in self.findings if f.severity == "warning"), key=_rank))

    @property
    def first(self) -> str | None:
        """What to do first; None when nothing has to be done."""
        if not self.faults:
            return None
        fault = self.faults[0]
        stop = "" if fault.text.endswith((".", "?", "!")) else "."
        return f"{fault.topic}: {fault.text}" + (f"{stop} {_capital(fault.do)}" if fault.do else "")

    def to_dict(self) -> dict[str, Any]:
        """Plain values for `--json`; no password of a camera is in them."""
        whole = {
            "ok": self.ok,
            "verdict": self.verdict,
            "first": self.first,
            "seconds": round(self.seconds, 1),
            "findings": [asdict(f) for f in self.findings],
            **self.details,
        }
        return dict(without_secrets(whole))

    def lines(self) -> list[str]:
        """For people: one line per finding, then what has to be done in its order, the verdict last."""
        rows = [f"{sign(f.severity)} {f.topic}: {f.text}" for f in self.findings]
        to_do = self.to_do()
        if len(to_do) > 1:
            rows += ["to do:", *(f"  {number}. {text}" for number, text in enumerate(to_do, 1))]
        return [str(without_secrets(row)) for row in [*rows, f"verdict: {self.verdict}"]]

    def to_do(self) -> list[str]:
        """Faults, then warnings, each as what to do about it; the same is said once."""
        return list(dict.fromkeys(f"{f.topic}: {f.do or f.text}" for f in (*self.faults, *self.warnings)))


def make_report(
    findings: list[Finding], what: str, details: dict[str, Any], seconds: float, ended_early: bool = False
) -> DoctorReport:
    """The report with its verdict. what: the rig in words. ended_early: Ctrl-C came first."""
    report = DoctorReport(tuple(sorted(findings, key=_rank)), "", seconds, details)
    if report.faults:
        verdict = f"not ready to record with {what}. First: {report.first}"
    elif ended_early:
        verdict = f"ended by hand before everything with {what} was looked at; nothing wrong up to then"
    elif report.warnings:
        topics = ", ".join(dict.fromkeys(f.topic for f in report.warnings))
        verdict = f"ready to record with {what}; look at: {topics}"
    else:
        verdict = f"ready to record with {what}"
    return DoctorReport(report.findings, verdict, seconds, details, ended_early)


def sign(severity: Severity) -> str:
    """How a finding's line begins."""
    return {"ok": "ok   ", "warning": "look ", "fault": "FAULT"}[severity]


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _rank(finding: Finding) -> int:
    return TOPICS.index(finding.topic.split(" ")[0])
