"""How the agent decided: what it understood, where it heard it, and how the devices compared."""

from __future__ import annotations

import math
from dataclasses import dataclass
from html import escape
from typing import Any

from recordings.report_rig import number, sideways

MOST = 5  # candidates shown


@dataclass(frozen=True)
class Candidate:
    """A device that the agent weighed; away_deg is from the direction that it heard (nan where unknown)."""

    device_id: str
    name: str
    probability: float
    away_deg: float


@dataclass(frozen=True)
class Heard:
    """A direction that the agent measured, in the room frame (azimuth from +x towards +y), degrees."""

    azimuth_deg: float
    elevation_deg: float
    sigma_deg: float


@dataclass(frozen=True)
class Decision:
    """The evidence of an agent's last declaration, as far as it stated it."""

    text: str = ""
    text_confidence: float = math.nan
    candidates: tuple[Candidate, ...] = ()
    talker: Heard | None = None
    sound: Heard | None = None


def read_decision(evidence: Any) -> Decision | None:
    """From the `evidence` of a declared event; None when it states nothing of this."""
    if not isinstance(evidence, dict):
        return None
    recognition = evidence.get("recognition")
    recognition = recognition if isinstance(recognition, dict) else {}
    listed = evidence.get("posterior")
    candidates = [
        Candidate(
            str(c.get("device_id", "")),
            str(c.get("name", c.get("device_id", ""))),
            number(c.get("probability"), 0, 1),
            number(c.get("away_deg"), 0, 180),
        )
        for c in (listed if isinstance(listed, list) else [])
        if isinstance(c, dict)
    ]
    known = sorted((c for c in candidates if c.probability == c.probability), key=lambda c: -c.probability)
    text = evidence.get("text") or recognition.get("text") or ""
    decision = Decision(
        text=text if isinstance(text, str) else "",
        text_confidence=number(recognition.get("confidence"), 0, 1),
        candidates=tuple(known),
        talker=_heard(evidence.get("talker")),
        sound=_heard(evidence.get("sound")),
    )
    return None if decision == Decision() else decision


def _heard(raw: Any) -> Heard | None:
    if not isinstance(raw, dict):
        return None
    found = Heard(
        number(raw.get("azimuth_deg"), -360, 360),
        number(raw.get("elevation_deg"), -90, 90),
        number(raw.get("sigma_deg"), 0, 180),
    )
    return None if math.isnan(found.azimuth_deg) or math.isnan(found.elevation_deg) else found


def decision_html(decision: Decision | None, declared: str | None, target: str | None, yaw_deg: float) -> str:
    """The section of the page; `yaw_deg` turns room directions into those of the microphone."""
    if decision is None:
        return ""
    rows = []
    if decision.text:
        sure = decision.text_confidence
        quality = "" if math.isnan(sure) else f" <small>(confidence {sure:.2f})</small>"
        rows.append(f"<li>It understood “{escape(decision.text)}”{quality}.</li>")
    for heard, what in ((decision.talker, "The voice"), (decision.sound, "The sound that was asked about")):
        if heard is not None:
            rows.append(f"<li>{what} came from {_where(heard, yaw_deg)}.</li>")
    bars = []
    for candidate in decision.candidates[:MOST]:
        share = 100 * candidate.probability
        away = "" if math.isnan(candidate.away_deg) else f"{candidate.away_deg:.0f}° away"
        signs = ("declared" if candidate.device_id == declared else "") + (
            " target" if candidate.device_id == target else ""
        )
        bars.append(
            f'<li><span class="who {signs}">{escape(candidate.name)}</span><span class="bar"><i '
            f'style="width:{share:.1f}%"></i></span><span class="share">{share:.1f} %</span>'
            f'<span class="away">{away}</span></li>'
        )
    more = len(decision.candidates) - MOST
    rest = f"<p><small>and {more} more</small></p>" if more > 0 else ""
    figure = f'<ol class="odds">{"".join(bars)}</ol>{rest}' if bars else ""
    intro = "<p>How likely it took each device to be meant:</p>" if bars else ""
    return (
        f'<h2>How the agent decided</h2><div class="decision"><ul>{"".join(rows)}</ul>'
        f"<div>{intro}{figure}</div></div>"
    )


def _where(heard: Heard, yaw_deg: float) -> str:
    azimuth = (heard.azimuth_deg - yaw_deg + 180.0) % 360.0 - 180.0
    height = "up" if heard.elevation_deg >= 0 else "down"
    sigma = "" if math.isnan(heard.sigma_deg) else f" (± {heard.sigma_deg:.0f}°)"
    return f"{sideways(azimuth)}, {abs(heard.elevation_deg):.0f}° {height}{sigma}"
