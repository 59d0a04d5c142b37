"""The room from above: microphone, field of view, devices, direction of the sound, declared and true."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np

from recordings import geometry
from recordings.report_labels import Labels, Placed
from recordings.report_model import Facts, Floats, TalkerPath
from recordings.report_rig import RigView, sideways

WIDTH, MARGIN = 420.0, 14.0
CLUSTER_DEG = 20.0
MOST_TRACKS, LEAST_HEARD_S = 8, 0.3


@dataclass(frozen=True)
class Bearing:
    """The main direction of a stretch of time: the resultant, weighted by confidence, of the active windows
    around the direction with the most weight."""

    azimuth_deg: float
    elevation_deg: float
    spread_deg: float  # half of the weight lies within
    windows: int
    of_windows: int
    start_s: float
    end_s: float
    what: str


def bearing(facts: Facts) -> Bearing | None:
    """The direction of the request: over the utterance where it is known, else over all that sounded."""
    spoken = next((m for m in facts.marks if m.row == "Heard" and m.end_s is not None), None)
    if spoken is not None and spoken.end_s is not None:
        start, end, what = spoken.start_s, spoken.end_s, "utterance"
    else:
        talker = next((s for s in facts.truth if s.kind == "talker" and s.intervals_s), None)
        if talker is not None:
            start, end, what = talker.intervals_s[0][0], talker.intervals_s[-1][1], "talker"
            end = min(end, facts.duration_s)  # the scene may go on after the take
        else:
            start, end, what = 0.0, facts.duration_s, "whole recording"
    track = facts.directions
    if not len(track):
        return None
    chosen = track.active & (track.times_s >= start) & (track.times_s <= end)
    chosen &= np.isfinite(track.azimuth_deg) & np.isfinite(track.elevation_deg)
    weight = np.nan_to_num(track.confidence[chosen])
    if weight.sum() <= 0:
        return None
    units = geometry.unit_from_direction(track.azimuth_deg[chosen], track.elevation_deg[chosen])
    # Another source may sound at the same time: take the direction with the most weight around it.
    # A long recording offers so many windows that a few hundred of them are centres enough.
    centres = units[:: len(units) // 300 + 1]
    near = centres @ units.T > np.cos(np.radians(CLUSTER_DEG))
    kept = near[int(np.argmax(near @ weight))]
    mean = (units * (weight * kept)[:, None]).sum(axis=0)
    azimuth, elevation = geometry.direction_from_vector(mean)
    apart = np.degrees(np.arccos(np.clip(units[kept] @ (mean / np.linalg.norm(mean)), -1.0, 1.0)))
    order = np.argsort(apart)
    half = np.searchsorted(np.cumsum(weight[kept][order]), weight[kept].sum() / 2)
    return Bearing(
        float(azimuth),
        float(elevation),
        float(apart[order][min(half, len(order) - 1)]),
        int(kept.sum()),
        int(chosen.sum()),
        start,
        end,
        what,
    )


class Plan:
    """Maps room metres to the drawing and collects its parts."""

    def __init__(self, rig: RigView) -> None:
        """Raises ValueError when the rig has no plan."""
        if rig.room_size_m is None or rig.microphone is None:
            raise ValueError("the rig snapshot has no room")
        self.size = rig.room_size_m[:2]
        self.scale = (WIDTH - 2 * MARGIN) / self.size[0]
        self.height = self.size[1] * self.scale + 2 * MARGIN
        self.microphone, self.yaw_deg = rig.microphone.position_m, rig.microphone.yaw_deg

    def xy(self, point: Any) -> tuple[float, float]:
        """Drawing coordinates of a room point; y of the room goes up the page."""
        return (
            MARGIN + float(point[0]) * self.scale,
            self.height - MARGIN - float(point[1]) * self.scale,
        )

    def ray_end(self, azimuth_deg: float) -> tuple[float, float]:
        """Where a horizontal ray from the microphone meets a wall, in drawing coordinates."""
        unit = geometry.direction_in_room(azimuth_deg, 0.0, self.yaw_deg)[:2]
        length = min(geometry.wall_distance(self.microphone[:2], unit, self.size), 100.0)
        return self.xy(self.microphone[:2] + unit * length)

    def fan(self, azimuth_deg: float, half_deg: float) -> str:
        """Outline of the fan of rays azimuth +- half."""
        angles = np.linspace(azimuth_deg - half_deg, azimuth_deg + half_deg, 25)
        points = [self.xy(self.microphone), *(self.ray_end(float(a)) for a in angles)]
        return "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points) + "Z"


def live_rays(facts: Facts, azimuth_deg: Floats) -> list[list[int]]:
    """Ends of the moving ray for the page's script, one per azimuth; empty without a plan."""
    if not facts.rig.has_plan:
        return []
    plan = Plan(facts.rig)
    angles, which = np.unique(np.round(np.nan_to_num(azimuth_deg)), return_inverse=True)
    ends = [[round(v) for v in plan.ray_end(float(a))] for a in angles]
    return [ends[i] for i in which]


def room_plan(facts: Facts, towards: Bearing | None) -> str:
    """The plan as an SVG figure; an empty string when the rig snapshot has no room."""
    if not facts.rig.has_plan:
        return ""
    plan = Plan(facts.rig)
    mic_x, mic_y = plan.xy(plan.microphone)
    walls = (
        f'x="{MARGIN}" y="{MARGIN}" width="{plan.size[0] * plan.scale:.1f}" '
        f'height="{plan.size[1] * plan.scale:.1f}"'
    )
    parts = [
        f'<defs><clipPath id="walls"><rect {walls}/></clipPath></defs><rect class="floor" {walls}/>',
        _metres(plan),
        '<g clip-path="url(#walls)">',
    ]
    camera = facts.rig.camera
    if camera is not None:
        parts.append(f'<path class="fov" d="{plan.fan(camera.yaw_deg, camera.hfov_deg / 2)}"/>')
    if towards is not None:
        end_x, end_y = plan.ray_end(towards.azimuth_deg)
        parts.append(
            f'<path class="fan" d="{plan.fan(towards.azimuth_deg, min(towards.spread_deg, 60.0))}"/>'
            f'<path class="ray" d="M{mic_x:.1f} {mic_y:.1f}L{end_x:.1f} {end_y:.1f}"/>'
        )
    parts.append(
        f'<line id="live-ray" class="live" x1="{mic_x:.1f}" y1="{mic_y:.1f}" '
        f'x2="{mic_x:.1f}" y2="{mic_y:.1f}"/>'
    )
    parts.append(_heard_by_agent(plan, facts))
    parts += [_tracked(plan, path, 44.0 + 12.0 * (i % 5)) for i, path in enumerate(_followed(facts))]
    parts.append("</g>")
    labels = Labels(MARGIN, MARGIN, WIDTH - MARGIN, plan.height - MARGIN)
    labels.keep_clear(mic_x, mic_y, 9)
    for azimuth_deg in _ray_directions(plan, facts, towards):
        labels.ray((mic_x, mic_y), plan.ray_end(azimuth_deg))
    for i, path in enumerate(_followed(facts)):
        end = _around(plan, path.azimuth_deg[~path.coasting][-1:], 44.0 + 12.0 * (i % 5))[0]
        labels.add(*end, str(path.number), 8, "tracked-name", first=True)
    parts += [_true_places(plan, facts, labels), _devices(plan, facts, labels)]
    parts += [_label_html(label) for label in labels.placed()]
    front = geometry.direction_in_room(0.0, 0.0, plan.yaw_deg)
    turn = np.degrees(np.arctan2(-front[1], front[0]))
    parts.append(
        f'<g class="mic" transform="translate({mic_x:.1f} {mic_y:.1f}) rotate({turn:.1f})">'
        '<circle r="7"/><path d="M7 -5L16 0L7 5Z"/></g>'
    )
    size = f"{plan.size[0]:g} × {plan.size[1]:g} m"
    name = escape(facts.rig.room_name)
    caption = _caption(towards)
    if _followed(facts):
        caption += " Arcs around the microphone: directions of the tracked talkers, with their numbers."
    if facts.decision is not None and facts.decision.sound is not None:
        caption += " Dotted: where the agent heard the sound that it was asked about."
    return (
        f'<figure class="plan"><svg viewBox="0 0 {WIDTH:.0f} {plan.height:.0f}" role="img" '
        f'aria-label="Plan of the room">{"".join(parts)}</svg>'
        f"<figcaption>{name}, {size}, seen from above; grid 1 m.{caption}</figcaption></figure>"
    )


def _caption(towards: Bearing | None) -> str:
    if towards is None:
        return " No sound direction was measured."
    words = {
        "utterance": "during the utterance",
        "talker": "while the talker spoke",
        "whole recording": "over the whole recording",
    }
    return (
        f" Measured direction {words[towards.what]}: {sideways(towards.azimuth_deg)}, "
        f"{abs(towards.elevation_deg):.0f}° {'up' if towards.elevation_deg >= 0 else 'down'}; from "
        f"{towards.windows} of {towards.of_windows} windows, half of them within {towards.spread_deg:.0f}° "
        "of it (the shaded wedge)."
    )


def _metres(plan: Plan) -> str:
    path = ""
    for x in np.arange(1.0, plan.size[0], 1.0):
        (a, b), (c, d) = plan.xy((x, 0)), plan.xy((x, plan.size[1]))
        path += f"M{a:.1f} {b:.1f}L{c:.1f} {d:.1f}"
    for y in np.arange(1.0, plan.size[1], 1.0):
        (a, b), (c, d) = plan.xy((0, y)), plan.xy((plan.size[0], y))
        path += f"M{a:.1f} {b:.1f}L{c:.1f} {d:.1f}"
    return f'<path class="grid" d="{path}"/>'


def _followed(facts: Facts) -> list[TalkerPath]:
    """The tracks worth a mark on the plan: those that were heard longest, in order of their number."""
    longest = sorted((p for p in facts.talkers if p.heard_s >= LEAST_HEARD_S), key=lambda p: -p.heard_s)
    return sorted(longest[:MOST_TRACKS], key=lambda p: p.number)


def _around(plan: Plan, azimuth_deg: Floats, radius: float) -> list[tuple[float, float]]:
    """Points around the microphone: a track has a direction and no distance."""
    x, y = plan.xy(plan.microphone)
    units = geometry.direction_in_room(azimuth_deg, np.zeros(len(azimuth_deg)), plan.yaw_deg)[..., :2]
    return [(x + radius * float(u), y - radius * float(v)) for u, v in units]


def _tracked(plan: Plan, path: TalkerPath, radius: float) -> str:
    """The directions in which a talker was heard, as an arc around the microphone."""
    azimuth = path.azimuth_deg[~path.coasting]
    points = _around(plan, azimuth[:: len(azimuth) // 400 + 1], radius)
    if len(points) == 1:
        points *= 2
    line = "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
    return f'<path class="tracked" d="M{line}"/>'


def _ray_directions(plan: Plan, facts: Facts, towards: Bearing | None) -> list[float]:
    heard = facts.decision.sound if facts.decision else None
    drawn = [] if towards is None else [towards.azimuth_deg]
    return drawn if heard is None else [*drawn, heard.azimuth_deg - plan.yaw_deg]


def _label_html(label: Placed) -> str:
    return (
        f'<text class="{label.kind}" x="{label.x:.1f}" y="{label.y:.1f}" text-anchor="{label.anchor}">'
        f"{escape(label.words)}</text>"
    )


def _true_places(plan: Plan, facts: Facts, labels: Labels) -> str:
    """Crosses where a talker really was (start, middle and end of speech when it moved)."""
    parts = []
    for source in facts.truth:
        if source.kind != "talker" or not source.intervals_s:
            continue
        start, end = source.intervals_s[0][0], source.intervals_s[-1][1]
        seen: list[tuple[float, float]] = []
        for t in (start, (start + end) / 2, end):
            azimuth, elevation, distance = source.at(t)
            if not np.isfinite(distance):
                continue
            offset = geometry.direction_in_room(azimuth, elevation, plan.yaw_deg) * distance
            x, y = plan.xy(plan.microphone + offset)
            if all(np.hypot(x - a, y - b) > 12 for a, b in seen):
                seen.append((x, y))
                parts.append(
                    f'<path class="true-talker" d="M{x - 6:.1f} {y:.1f}h12M{x:.1f} {y - 6:.1f}v12"/>'
                )
        if seen:
            for x, y in seen:
                labels.keep_clear(x, y, 7)
            labels.add(*seen[0], source.label, 11, "talker-name", first=True)
    return "".join(parts)


def _heard_by_agent(plan: Plan, facts: Facts) -> str:
    """The direction in which the agent heard the sound that it was asked about."""
    heard = facts.decision.sound if facts.decision else None
    if heard is None:
        return ""
    x, y = plan.xy(plan.microphone)
    end_x, end_y = plan.ray_end(heard.azimuth_deg - plan.yaw_deg)
    return f'<path class="heard" d="M{x:.1f} {y:.1f}L{end_x:.1f} {end_y:.1f}"/>'


def _devices(plan: Plan, facts: Facts, labels: Labels) -> str:
    parts: list[str] = []
    for device in facts.rig.devices:
        if device.position_m is None:
            continue
        x, y = plan.xy(device.position_m)
        declared, target = device.id == facts.declared_device, device.id == facts.target_device
        if target:
            parts.append(f'<circle class="target" cx="{x:.1f}" cy="{y:.1f}" r="11"/>')
        if declared:
            parts.append(f'<rect class="declared" x="{x - 7:.1f}" y="{y - 7:.1f}" width="14" height="14"/>')
        parts.append(f'<circle class="device" cx="{x:.1f}" cy="{y:.1f}" r="3.5"/>')
        chosen = declared or target
        labels.keep_clear(x, y, 11 if chosen else 5)
        kind = "device-name strong" if chosen else "device-name"
        labels.add(x, y, device.name, 15 if chosen else 9, kind, first=chosen)
    return "".join(parts)
