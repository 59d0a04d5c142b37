"""The head of the page: the request, who asked, how the device is meant, and how it ended."""

from __future__ import annotations

from html import escape

from recordings.profile import Profile
from recordings.report_model import Facts
from recordings.report_tracks import clock

GROUNDING = {
    "G0": "the words alone say which device",
    "G1": "a gesture says which device",
    "G2": "its sound says which device",
    "G3": "its place says which device",
    "G4": "who speaks says which device",
}
QUERY = {
    "Q1": "asks for a state",
    "Q2": "asks for an action",
    "Q3": "asks for a schedule",
    "Q4": "says it without asking",
}
FEASIBILITY = {
    "feasible": "can be done",
    "nonexistent_resource": "cannot be done: there is no such device",
    "physical_limit": "cannot be done: beyond what the device can do",
    "temporal_contradiction": "cannot be done: the times contradict each other",
}
ORIGIN = {"recorded": "recorded here", "virtual": "virtual room", "imported": "imported"}
STATE = {
    "finished": ("ok", "✓ finished"),
    "repaired": ("warning", "! was interrupted, repaired"),
    "interrupted": ("fault", "✕ interrupted"),
    "recording": ("warning", "● still recording"),
}


def header_html(facts: Facts) -> str:
    """Everything above the pictures."""
    profile = facts.profile
    kind, word = STATE.get(facts.state, ("unknown", facts.state))
    about = [f'<span class="chip {kind}">{escape(word)}</span>', f"<code>{escape(facts.id)}</code>"]
    if profile is not None:
        about.append(f"<span>session {escape(profile.session)}</span>")
        about.append(f"<span>{escape(profile.created_utc.replace('T', ' ').replace('Z', ' UTC'))}</span>")
        about.append(f"<span>{escape(ORIGIN.get(profile.origin, profile.origin))}</span>")
    about.append(f"<span>{clock(facts.duration_s)}</span>")
    if profile is not None and profile.request:
        heading = f"“{escape(profile.request)}”"
    else:
        heading = "A recording without a noted request"
    return (
        f'<p class="eyebrow">{"".join(about)}</p><h1>{heading}</h1>{_lead(profile, facts)}{_verdict(facts)}'
    )


def _lead(profile: Profile | None, facts: Facts) -> str:
    if profile is None:
        return ""
    parts = []
    if profile.speaker:
        parts.append(f"Said by <b>{escape(facts.names.get(profile.speaker, profile.speaker))}</b>")
    if profile.grounding:
        parts.append(f"{GROUNDING[profile.grounding]} <small>({profile.grounding})</small>")
    if profile.query:
        parts.append(f"{QUERY[profile.query]} <small>({profile.query})</small>")
    if profile.feasibility:
        parts.append(FEASIBILITY[profile.feasibility])
    if profile.notes:
        parts.append(escape(profile.notes))
    return f'<p class="lead">{" · ".join(parts)}</p>' if parts else ""


def _verdict(facts: Facts) -> str:
    verdict = facts.verdict
    if verdict is None:
        return ""
    names = facts.names

    def device(value: str | None, none: str) -> str:
        if value is None:
            return f'<div class="said">{escape(none)}</div>'
        return (
            f'<div class="said">{escape(names.get(value, value))}</div><div class="id">{escape(value)}</div>'
        )

    if not verdict.agent:
        return (
            '<div class="verdict">'
            '<div><div class="term">Agent</div><div class="said">none took part</div>'
            '<div class="id">recorded without one: nothing to judge</div></div>'
            f'<div><div class="term">Meant, in truth</div>{device(verdict.truth, "no such device")}</div>'
            '<div><div class="term">The goal was</div><div class="said">'
            f"{escape(_goal(facts) or 'not noted')}</div></div></div>"
        )
    right = {True: ("ok", "✓ right"), False: ("fault", "✕ wrong"), None: ("unknown", "? not judged")}
    reached = {
        True: ("ok", "✓ reached"),
        False: ("fault", "✕ not reached"),
        None: ("unknown", "? not judged"),
    }
    grounding, goal = right[verdict.grounding_correct], reached[verdict.goal_reached]
    nothing = (
        "nothing" if "declared nothing" in verdict.text or "nothing was" in verdict.text else "no such device"
    )
    truth_missing = "not known" if verdict.grounding_correct is None else "no such device"
    return (
        '<div class="verdict">'
        f'<div><div class="term">The agent declared</div>{device(verdict.declared, nothing)}</div>'
        f'<div><div class="term">In truth it was</div>{device(verdict.truth, truth_missing)}</div>'
        f'<div><div class="term">So the device is</div><div class="said"><span class="chip {grounding[0]}">'
        f"{grounding[1]}</span></div></div>"
        f'<div><div class="term">The goal is</div><div class="said"><span class="chip {goal[0]}">'
        f'{goal[1]}</span></div><div class="id">{escape(_goal(facts))}</div></div></div>'
    )


def _goal(facts: Facts) -> str:
    goal = facts.profile.goal if facts.profile else None
    if goal is None:
        return ""
    if goal.kind == "state":
        wanted = ((facts.names.get(a.device_id, a.device_id), a) for a in goal.asserts)
        return ", ".join(
            f"{name}: {a.attribute.rpartition('.')[2]} = {_value(a.value)}" for name, a in wanted
        )
    if goal.kind == "refusal":
        return (
            f"refuse, and say why: {goal.reason.replace('_', ' ')}" if goal.reason else "refuse, and say why"
        )
    return "tell the state"


def _value(value: object) -> str:
    return ("on" if value else "off") if isinstance(value, bool) else str(value)
