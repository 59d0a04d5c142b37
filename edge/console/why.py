"""Why an agent declares a device, shaped for the page: what each tool found, in words, and what is drawn."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

TOP = 5  # candidates that are shown
MOST_TOOLS = 12


def why(evidence: Mapping[str, Any]) -> dict[str, Any]:
    """Of the evidence of a declaration (`edge.agent`), whatever of it is there and well formed.

    candidates: [{device_id, name, probability, away_deg}], none: share of no device; tools: [{tool, text,
    confidence, ms}]; rays: [{from, to (metres per unit), share}] and stands: [x, y], looks_deg, sound_deg in
    the room's frame; talker: direction of the voice there; reason.
    """
    told: dict[str, Any] = {}
    rows = _list(evidence.get("posterior"))
    told["candidates"] = [
        {key: row.get(key) for key in ("device_id", "name", "probability", "away_deg")}
        for row in rows[:TOP]
        if isinstance(row, dict)
    ]
    if _number(evidence.get("none")) is not None:
        told["none"] = evidence["none"]
    if isinstance(evidence.get("reason"), str):
        told["reason"] = evidence["reason"][:200]
    findings = _dict(evidence.get("findings"))
    told["tools"] = [_tool(name, _dict(finding)) for name, finding in [*findings.items()][:MOST_TOOLS]]
    values = {name: _dict(_dict(finding).get("value")) for name, finding in findings.items()}
    told |= _drawn(values)
    talker = _dict(values.get("speaker", {}).get("direction")) or _dict(evidence.get("talker"))
    if _number(talker.get("azimuth_deg")) is not None:
        told["talker"] = {key: talker.get(key) for key in ("azimuth_deg", "sigma_deg")}
    return told


def _drawn(values: Mapping[str, dict[str, Any]]) -> dict[str, Any]:
    """What the plan of the room shows."""
    drawn: dict[str, Any] = {}
    origin = _numbers(values.get("pointing", {}).get("origin_m"), 3)
    if origin is not None:
        rays = [
            {"direction": way, "share": _number(_dict(ray).get("share")) or 0.0}
            for ray in _list(values["pointing"].get("rays"))
            if (way := _numbers(_dict(ray).get("direction"), 3)) is not None
        ]
        drawn["rays"] = {"origin": origin, "rays": rays[:2]}
    place = _numbers(values.get("speaker", {}).get("position_m"), 3)
    if place is not None:
        drawn["stands"] = place
    for name, key in (("facing", "looks_deg"), ("sound", "sound_deg")):
        azimuth = _number(values.get(name, {}).get("azimuth_deg"))
        if azimuth is not None:
            drawn[key] = azimuth
    return drawn


def _tool(name: str, finding: Mapping[str, Any]) -> dict[str, Any]:
    seconds = _number(finding.get("seconds"))
    return {
        "tool": str(name)[:40],
        "text": _in_words(name, finding)[:160],
        "confidence": _number(finding.get("confidence")),
        "ms": None if seconds is None else round(1000 * seconds),
    }


def _in_words(name: str, finding: Mapping[str, Any]) -> str:
    value = finding.get("value")
    if value is None:
        return str(finding.get("why") or "nothing found")
    found = _dict(value)
    if name == "pointing":
        return f"points with the {found.get('who', '')} arm"
    if name in ("face", "voice"):
        return str(found["person"]) if found.get("person") else "nobody of the household"
    if name in ("facing", "sound"):
        azimuth, sigma = _number(found.get("azimuth_deg")), _number(found.get("sigma_deg"))
        if azimuth is not None and sigma is not None:
            way = "looks to" if name == "facing" else "sounds from"
            return f"{way} {azimuth:.0f}° in the room, ± {sigma:.0f}°"
    place = _numbers(found.get("position_m"), 3)
    if name == "speaker" and place is not None:
        return f"stands at {place[0]:.1f}, {place[1]:.1f} m"
    return "found"


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _numbers(value: Any, count: int) -> list[float] | None:
    numbers = [_number(one) for one in _list(value)]
    if len(numbers) != count or any(one is None for one in numbers):
        return None
    return [one for one in numbers if one is not None]
