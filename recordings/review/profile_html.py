"""What an episode is meant to be, for the page of a review: request, target, goal, staging, home state."""

from __future__ import annotations

from html import escape

from recordings.profile import Assert, DeviceState, Goal, HomeState, Profile, Staging
from recordings.report_header import FEASIBILITY, GROUNDING, QUERY
from recordings.report_model import Facts

UNITS = {"temperature": " °C", "humidity": " %", "illuminance": " lx", "pm10": " µg/m³"}
_WAYS = {"increase": "goes up", "decrease": "goes down"}


def profile_html(facts: Facts) -> str:
    """The parts of the profile as a list of terms; empty without a profile."""
    profile = facts.profile
    if profile is None:
        return ""
    rows = [
        ("Asked", f"<q>{escape(profile.request)}</q>" if profile.request else ""),
        ("By", _name(facts, profile.speaker) if profile.speaker else ""),
        ("Told by", _word(profile.grounding, GROUNDING)),
        ("Kind", _word(profile.query, QUERY)),
        ("Feasible", _feasible(profile)),
        ("Target", _target(facts, profile)),
        ("Goal", _goal(facts, profile.goal) if profile.goal else ""),
        ("Set", _staging(facts, profile.staging) if profile.staging else ""),
        ("Consent", _consent(profile)),
        ("Plan", _plan(profile)),
        ("Notes", escape(profile.notes)),
    ]
    terms = "".join(f"<div><dt>{term}</dt><dd>{text}</dd></div>" for term, text in rows if text)
    home = _home(facts, profile.home) if profile.home else ""
    return f'<dl class="facts">{terms}</dl>{home}'


def headline_html(facts: Facts) -> str:
    """What the reviewer has to have in mind, in a line: target and goal; empty where neither is known."""
    profile = facts.profile
    if profile is None:
        return ""
    target, goal = _target(facts, profile), _goal(facts, profile.goal) if profile.goal else ""
    parts = [f"Target: {target}" if target else "", f"Goal: {goal}" if goal else ""]
    words = " · ".join(filter(None, parts))
    return f'<p class="lead meant">{words}</p>' if words else ""


def _name(facts: Facts, identity: str) -> str:
    name = facts.names.get(identity, identity)
    return f"<b>{escape(name)}</b>" + (f" <code>{escape(identity)}</code>" if name != identity else "")


def _word(code: str | None, words: dict[str, str]) -> str:
    return f"<b>{code}</b> {escape(words[code])}" if code else ""


def _feasible(profile: Profile) -> str:
    if profile.feasibility is None:
        return ""
    hard = f" ({profile.difficulty})" if profile.difficulty else ""
    return escape(FEASIBILITY[profile.feasibility] + hard)


def _target(facts: Facts, profile: Profile) -> str:
    if profile.target_device is None:
        return "no such device" if profile.feasibility == "nonexistent_resource" else ""
    return _name(facts, profile.target_device)


def _goal(facts: Facts, goal: Goal) -> str:
    if goal.kind == "refusal":
        why = escape((goal.reason or "").replace("_", " "))
        return f"change nothing, and say why: {why}" if why else "change nothing, and say why"
    parts = [_assert(facts, a) for a in goal.asserts]
    for value in goal.room_values:
        number = f"{value.value:g}{UNITS.get(value.variable, '')}"
        parts.append(f"{escape(value.room)}: {value.variable} is {number}")
    for step in goal.steps:
        when = step.when
        if when.anchor_device is not None:
            side = "after" if when.offset_min >= 0 else "before"
            at = f"{abs(when.offset_min):g} min {side} {_name(facts, when.anchor_device)} is done"
        else:
            at = f"at minute {when.at_min:g}" if when.at_min is not None else "at any time"
        parts.append(f"{at}: {', '.join(_assert(facts, a) for a in step.asserts)}")
    parts += [f"{escape(c.room)}: {c.variable} {_WAYS[c.direction]}" for c in goal.changes]
    head = "tell: " if goal.kind == "answer" else ""
    return head + ("; ".join(parts) or "the state")


def _assert(facts: Facts, wanted: Assert) -> str:
    value = ("on" if wanted.value else "off") if isinstance(wanted.value, bool) else wanted.value
    attribute = wanted.attribute.partition(".")[2] or wanted.attribute
    return f"{_name(facts, wanted.device_id)} {escape(attribute)} = <b>{escape(str(value))}</b>"


def _staging(facts: Facts, staging: Staging) -> str:
    parts = [f"room {escape(staging.room)}"]
    for person in staging.people:
        does = "speaks" if person.speaks else "is there"
        points = f", points at {_name(facts, person.pointing_at)}" if person.pointing_at else ""
        parts.append(f"{_name(facts, person.person)} {does}, faces {person.facing_deg:g}°{points}")
    parts += [f"{_name(facts, device)} sounds" for device in staging.sounding]
    return "; ".join(parts)


def _consent(profile: Profile) -> str:
    given = f"recording {profile.consent.recording}, sharing {profile.consent.sharing}".replace("_", " ")
    return given + (f": {escape(profile.consent.note)}" if profile.consent.note else "")


def _plan(profile: Profile) -> str:
    if profile.plan_item is None:
        return ""
    take = f", take {profile.take}" if profile.take else ""
    return f"item {escape(profile.plan_item)}{take}"


def _home(facts: Facts, home: HomeState) -> str:
    if not home.devices:
        return ""
    target = facts.target_device
    ordered = sorted(home.devices, key=lambda d: (d.id != target, d.room, d.name))
    rows = "".join(_device(device, device.id == target) for device in ordered)
    people = ", ".join(
        _name(facts, member.id) + (f" (room: {escape(member.room)})" if member.room else "")
        for member in home.household
    )
    clock = f", at {escape(home.clock)}" if home.clock else ""
    return (
        f"<details><summary>Home when it began: {len(home.devices)} devices{clock}</summary>"
        + (f"<p>Household: {people}</p>" if people else "")
        + '<div class="scroll" tabindex="0"><table><thead><tr><th>room</th><th>device</th><th>state</th></tr>'
        f"</thead><tbody>{rows}</tbody></table></div></details>"
    )


def _device(device: DeviceState, target: bool) -> str:
    state = ", ".join(f"{_short(key)} {_plain(value)}" for key, value in device.attributes.items())
    row, meant = ('<tr class="meant">', " (target)") if target else ("<tr>", "")
    return (
        f"{row}<td>{escape(device.room)}</td><td>{escape(device.name)}{meant}<br>"
        f"<code>{escape(device.id)}</code></td><td>{escape(state)}</td></tr>"
    )


def _short(attribute: str) -> str:
    return attribute.rpartition(".")[2]


def _plain(value: object) -> str:
    return ("on" if value else "off") if isinstance(value, bool) else str(value)
