"""What is drawn on the pictures and on the plan while an episode plays: places over time, as plain numbers.

The page only looks up the time: where a direction lies in the picture and on the plan is worked out here, by
the episode's calibration and geometry. Places in the picture are fractions of its width and height.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from recordings import geometry
from recordings.profile import Placed
from recordings.report_model import Facts, Floats
from recordings.report_pictures import UNKNOWN_DISTANCE_M
from recordings.report_plan import Plan, live_rays
from recordings.report_rig import Eye
from recordings.report_tracks import decimated

MOST_ROWS = 36_000  # an hour of directions; a longer take is drawn with fewer
JOIN_S = 0.35  # tracks: a longer hole ends a stretch


def rounded(values: Floats, digits: int = 3) -> list[float | None]:
    """For JSON; what is not finite becomes None."""
    return [round(float(v), digits) if np.isfinite(v) else None for v in values]


def in_picture(
    eye: Eye, size: tuple[int, int], azimuth_deg: Floats, elevation_deg: Floats, distance_m: Any = np.nan
) -> dict[str, list[Any]]:
    """x, y (fractions), inside, turn_deg for directions of the microphone frame; see project_direction."""
    if not len(azimuth_deg):
        return {"x": [], "y": [], "inside": [], "turn": []}
    width, height = size
    known = np.asarray(distance_m, np.float64)
    seen = geometry.project_direction(
        np.nan_to_num(azimuth_deg),
        np.nan_to_num(elevation_deg),
        T_mic_camera=eye.pose,
        camera=eye.model(width, height),
        distance_m=np.where(np.isfinite(known) & (known > 0), known, UNKNOWN_DISTANCE_M),
    )
    return {
        "x": rounded((seen.edge_u_px + 0.5) / width, 4),
        "y": rounded((seen.edge_v_px + 0.5) / height, 4),
        "inside": [int(v) for v in seen.inside],
        "turn": rounded(seen.turn_deg, 0),
    }


def directions(facts: Facts, size: tuple[int, int] | None) -> dict[str, Any]:
    """The measured directions that were active, and where each is in the picture and on the plan."""
    track = facts.directions
    rows = decimated(track, MOST_ROWS)
    rows = rows[track.active[rows]]
    azimuth, elevation = track.azimuth_deg[rows], track.elevation_deg[rows]
    uncertainty = np.nan_to_num(track.uncertainty_deg[rows], nan=10.0)
    eye = facts.rig.camera
    found: dict[str, Any] = {
        "t": rounded(track.times_s[rows]),
        "az": rounded(azimuth, 1),
        "el": rounded(elevation, 1),
        "unc": rounded(uncertainty, 1),
        "conf": rounded(track.confidence[rows], 2),
        "ray": live_rays(facts, azimuth),
    }
    if eye is not None and size is not None:
        focal = float(eye.model(*size).parameters[0]) / size[0]
        radius = focal * np.tan(np.radians(np.clip(uncertainty, 0.0, 40.0)))
        found |= {**in_picture(eye, size, azimuth, elevation), "r": rounded(radius, 4)}
    return found


def tracks(facts: Facts, size: tuple[int, int] | None) -> list[dict[str, Any]]:
    """The talkers that were followed, one entry each."""
    eye, found = facts.rig.camera, []
    for path in facts.talkers:
        one: dict[str, Any] = {
            "number": path.number,
            "t": rounded(path.times_s),
            "az": rounded(path.azimuth_deg, 1),
            "coasting": [int(c) for c in path.coasting],
            "ray": live_rays(facts, path.azimuth_deg),
        }
        if eye is not None and size is not None:
            one |= in_picture(eye, size, path.azimuth_deg, path.elevation_deg)
        found.append(one)
    return found


def places(facts: Facts, size: tuple[int, int] | None) -> list[dict[str, Any]]:
    """What stands still: the target, what sounds, and the people of the staging; in the picture, on the plan.

    kind: target | sounding | person | speaker.
    """
    profile, microphone = facts.profile, facts.rig.microphone
    if profile is None or microphone is None:
        return []
    staging = profile.staging
    known = {d.id: d.position_m for d in facts.rig.devices if d.position_m is not None}
    for device in profile.home.devices if profile.home else ():
        if device.position_m is not None:
            known[device.id] = np.asarray(device.position_m, np.float64)
    wanted: list[tuple[str, str, NDArray[np.float64], Placed | None]] = []
    if facts.target_device in known:
        name = facts.names.get(str(facts.target_device), str(facts.target_device))
        wanted.append(("target", name, known[str(facts.target_device)], None))
    for device_id in staging.sounding if staging else ():
        if device_id in known:
            name = facts.names.get(device_id, device_id)
            wanted.append(("sounding", name, known[device_id], None))
    for person in staging.people if staging else ():
        kind = "speaker" if person.speaks else "person"
        mouth = np.asarray(person.mouth_m, np.float64)
        wanted.append((kind, facts.names.get(person.person, person.person), mouth, person))
    return [_place(facts, size, kind, name, point, person) for kind, name, point, person in wanted]


def _place(
    facts: Facts,
    size: tuple[int, int] | None,
    kind: str,
    name: str,
    point_m: NDArray[np.float64],
    person: Placed | None,
) -> dict[str, Any]:
    microphone, eye = facts.rig.microphone, facts.rig.camera
    assert microphone is not None  # or there would be no places
    place: dict[str, Any] = {"kind": kind, "name": name}
    if facts.rig.has_plan:
        plan = Plan(facts.rig)
        place["plan"] = [round(v, 1) for v in plan.xy(point_m)]
        if person is not None:
            facing = np.radians(person.facing_deg)
            ahead = point_m + 0.45 * np.array([np.cos(facing), np.sin(facing), 0.0])
            place["facing"] = [round(v, 1) for v in plan.xy(ahead)]
    if eye is not None and size is not None:
        azimuth, elevation, distance = geometry.direction_to_point(
            point_m, microphone.position_m.tolist(), microphone.yaw_deg
        )
        seen = in_picture(
            eye, size, np.atleast_1d(azimuth), np.atleast_1d(elevation), np.atleast_1d(distance)
        )
        place |= {key: values[0] for key, values in seen.items()}
    return place
