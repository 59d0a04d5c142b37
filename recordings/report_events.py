"""The events of a timeline in plain words, in the lane that they belong to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from recordings.report_model import Mark
from recordings.timeline import Line

# Events that the checks tell about; they happen at no particular moment.
IN_CHECKS = ("clock", "av_offset", "drift")
UNSAID = ("home", "ready", "recorded", "gap", "ended")  # a gap has its own line in the timeline
OF_AN_AGENT = ("ready", "heard", "declare", "declared", "said", "finished")
LONGEST = 160
OUTCOMES = {
    "done": "did it",
    "already": "it was so already",
    "refused": "refused",
    "asked": "asked back",
    "failed": "failed",
}


@dataclass(frozen=True)
class Events:
    """What happened, and the last device that an agent declared."""

    marks: list[Mark]
    declared: str | None
    was_declared: bool
    evidence: Any = None
    agent: bool = False  # whether an agent took part at all


def marks_of_events(lines: list[Line], clock: Callable[[Any], Any], names: dict[str, str]) -> Events:
    """Marks for the event and gap lines; unknown kinds are shown with their own words."""
    marks: list[Mark] = []
    declared: str | None = None
    was_declared = False
    proof: Any = None
    agent = False
    for line in lines:
        if line["type"] == "gap":
            marks.append(_gap(line, clock))
            continue
        if line["type"] != "event":
            continue
        kind = str(line.get("kind", "event"))
        agent = agent or kind.rpartition(".")[2] in OF_AN_AGENT
        inner = line.get("data")
        data: dict[str, Any] = inner if isinstance(inner, dict) else line
        if kind in IN_CHECKS or kind in UNSAID:
            continue
        short = kind.rpartition(".")[2]
        if short in ("declare", "declared"):
            was_declared, proof = True, data.get("evidence")
            device = data.get("device_id", data.get("device"))
            declared = None if device is None else str(device)
        row, text, source = _in_words(kind, short, data, names)
        start, end = float(clock(line["t_ns"])), None
        evidence = data.get("evidence")
        for place in (data, evidence if isinstance(evidence, dict) else {}):
            if (
                isinstance(place.get("start_ns"), int)
                and isinstance(place.get("end_ns"), int)
                and row == "Heard"
            ):
                start, end = float(clock(place["start_ns"])), float(clock(place["end_ns"]))
        marks.append(Mark(max(start, 0.0), row, text[:LONGEST], end, source))
    return Events(marks, declared, was_declared, proof, agent)


def _gap(line: Line, clock: Callable[[Any], Any]) -> Mark:
    cause = str(line.get("cause") or "unknown cause").replace("_", " ")
    if line.get("stream") == "video":
        text = f"{line.get('dropped', '?')} pictures missing ({cause})"
    else:
        text = f"{line.get('lost_frames', '?')} samples of sound missing ({cause})"
    return Mark(max(float(clock(line["t_ns"])), 0.0), "Rig", text, None, "rig")


def _in_words(kind: str, short: str, data: dict[str, Any], names: dict[str, str]) -> tuple[str, str, Any]:
    def name(key: str = "device_id") -> str:
        value = data.get(key, data.get("device"))
        return "no such device" if value is None else names.get(str(value), str(value))

    text = str(data.get("text") or data.get("answer") or "")
    if short in ("utterance", "heard", "transcript"):
        return "Heard", f"heard “{text}”" if text else "somebody speaks", "measured"
    if short in ("declare", "declared"):
        return "Agent", f"declares {name()}{_because(data.get('evidence'))}", "agent"
    if short in ("say", "said"):
        return "Agent", f"says “{text}”", "agent"
    if short in ("finish", "finished"):
        outcome = data.get("outcome")
        return "Agent", f"is done ({OUTCOMES.get(str(outcome), outcome)})" if outcome else "is done", "agent"
    if short == "command":
        order = str(data.get("command", "command")).rpartition(".")[2]
        if data.get("ok") is False:
            return (
                "Home",
                f"{name()}: {order} refused ({data.get('error', '')})",
                "agent",
            )
        same = " (changed nothing)" if data.get("changed") in ({}, [], False) else ""
        return "Home", f"{name()}: {order}{same}", "agent"
    if kind.startswith(("agent.", "home.")):
        return kind.partition(".")[0].capitalize(), _plain(short, data), "agent"
    source = data.get("stream") or data.get("source")
    known = {
        "lost": "went away",
        "returned": "came back",
        "overflow": "overflowed: the computer was too slow",
        "stalled": "stalled",
        "error": "reported an error",
    }
    if short in known and source:
        thing = {"audio": "the sound", "video": "the picture"}.get(str(source), str(source))
        detail = f" ({data['detail']})" if data.get("detail") else ""
        return "Rig", f"{thing} {known[short]}{detail}", "rig"
    return "Other", _plain(kind, data), "rig"


def _because(evidence: Any) -> str:
    """The evidence of a declaration in brackets: its own words, else its first few values."""
    if isinstance(evidence, str):
        return f" ({evidence})" if evidence else ""
    if not isinstance(evidence, dict):
        return ""
    for key in ("why", "reason", "text", "because"):
        if isinstance(evidence.get(key), str):
            return f" ({evidence[key]})"
    shown = [
        f"{key.replace('_deg', '').replace('_', ' ')} {value:.0f}°"
        if key.endswith("_deg")
        else f"{key} {value}"
        for key, value in evidence.items()
        if isinstance(value, str | int | float) and not key.endswith("_ns") and value not in ("", None)
    ]
    return f" ({', '.join(shown[:3])})" if shown else ""


def _plain(kind: str, data: dict[str, Any]) -> str:
    shown = [
        f"{key} {value}"
        for key, value in data.items()
        if key not in ("type", "t_ns", "kind", "data") and isinstance(value, str | int | float | bool)
    ]
    return kind.replace("_", " ") + (f" ({', '.join(shown[:4])})" if shown else "")
