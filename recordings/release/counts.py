"""Numbers of a release: per combination of grounding and query, as the benchmark's paper has them; README."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from recordings.release.item import ReleaseItem
from recordings.release.options import ExportReport, ReleaseOptions
from recordings.release.splits import sizes_of
from recordings.terminal import counted

_DIFFICULTIES = ("easy", "medium", "hard")
_INFEASIBLE = ("nonexistent_resource", "physical_limit", "temporal_contradiction")
_UNKNOWN = "unknown"


def combinations(items: Sequence[ReleaseItem]) -> list[dict[str, Any]]:
    """One row per grounding and query that occurs, sorted: grounding, query, feasible, easy, medium, hard (of
    the feasible), infeasible, and its three kinds; "unknown" where the profile does not say."""
    found: dict[tuple[str, str], Counter[str]] = {}
    for item in items:
        profile = item.recorded
        row = found.setdefault((profile.grounding or _UNKNOWN, profile.query or _UNKNOWN), Counter())
        kind = profile.feasibility or _UNKNOWN
        row["infeasible" if kind in _INFEASIBLE else kind] += 1
        if kind in _INFEASIBLE:
            row[kind] += 1
        elif kind == "feasible" and profile.difficulty:
            row[profile.difficulty] += 1
    columns = ("feasible", *_DIFFICULTIES, "infeasible", *_INFEASIBLE)
    return [
        {
            "grounding": grounding,
            "query": query,
            **{column: row[column] for column in columns},
            _UNKNOWN: row[_UNKNOWN],
        }
        for (grounding, query), row in sorted(found.items())
    ]


def numbers(items: Sequence[ReleaseItem]) -> dict[str, Any]:
    """episodes, sound_s, pictures, participants (how many), rooms (how many), splits, combinations."""
    return {
        "episodes": len(items),
        "sound_s": round(sum(item.sound_frames for item in items) / 24000, 3),
        "pictures": sum(len(item.frame_times_ns(camera)) for item in items for camera in item.cameras),
        "participants": len({item.participant for item in items} - {None}),
        "rooms": len({item.room for item in items} - {None}),
        "splits": sizes_of({item.id: item.split for item in items}),
        "origins": dict(sorted(Counter(item.recorded.origin for item in items).items())),
        "combinations": combinations(items),
    }


def readme(
    found: dict[str, Any],
    options: ReleaseOptions,
    format_name: str,
    part: str,
    split_by: str | None,
    report: ExportReport,
    unsafe: int = 0,
) -> str:
    """The text of README.md below a front matter. It names no person and no episode. unsafe: how many
    episodes were left out because a face or voice could not be made safe."""
    lines = [
        f"# {options.name}",
        "",
        f"{counted(found['episodes'], 'episode')} of spoken requests in homes, {found['sound_s'] / 60:.1f}"
        f" minutes of sound, {counted(found['pictures'], 'picture')}; {found['participants']} speakers,"
        f" {counted(found['rooms'], 'room')}. Origin: "
        + ", ".join(f"{number} {origin}" for origin, number in found["origins"].items())
        + f". Written by `hearth export --to {format_name}`.",
        "",
        part.strip(),
        "",
        "## Numbers",
        "",
        "| grounding | query | feasible | easy | medium | hard | infeasible | non-existent | limit | time |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in found["combinations"]:
        kinds = " | ".join(str(row[kind]) for kind in _INFEASIBLE)
        steps = " | ".join(str(row[step]) for step in _DIFFICULTIES)
        lines.append(
            f"| {row['grounding']} | {row['query']} | {row['feasible']} | {steps} | {row['infeasible']} |"
            f" {kinds} |"
        )
    lines += [
        "",
        "Grounding: G0 speech, G1 gesture, G2 sound, G3 space, G4 user identity. Query: Q1 state inquiry, Q2",
        "explicit control, Q3 workflow scheduling, Q4 implicit intent (arXiv 2609.32569).",
        "",
        "## Splits",
        "",
    ]
    sizes = ", ".join(f"{name} {number}" for name, number in found["splits"].items())
    if split_by:
        lines.append(f"{sizes} episodes; no {split_by} is in two of them. `splits.json` has each episode's.")
    else:
        lines.append("None were asked for: `--split-by participant` or `room` makes them.")
    lines += [
        "",
        "## Sound, pictures, time",
        "",
        "- Sound: 24 kHz, 4 channels, AmbiX (W, Y, Z, X; SN3D), "
        + ("24-bit integers" if options.sound == "pcm24" else "32-bit float")
        + ". x forward, y left, z up; azimuth counter-clockwise from the front.",
        _clipping(report, options),
        "- Gaps in the sound are not filled: the sidecar's clock says where they are and how long.",
        "- Every picture's and every stretch of sound's time is in ns of one monotonic clock in the sidecar",
        "  (`clocks`): sound frame f is at `t_ns + (f - frame) * 1e9 / rate_hz` of the last piece before it.",
        f"- Faces: {'blurred' if options.blur else 'as recorded'}. Voices:"
        f" {'made safe' if options.voice_safe else 'as recorded'}."
        + (f" {counted(unsafe, 'episode')} left out, where that could not be done." if unsafe else ""),
        "",
        "## Check and licence",
        "",
        "`sha256sum -c checksums.sha256` proves that nothing changed. `provenance.jsonl` says which episode",
        "each file was made of, so that it can be withdrawn. "
        + (f"Licence: {options.licence}." if options.licence else "No licence was given: see LICENSE."),
        "",
    ]
    return "\n".join(lines)


def _clipping(report: ExportReport, options: ReleaseOptions) -> str:
    if options.sound == "float":
        return "- Samples beyond full scale are as they were."
    if not report.clipped:
        return "- No sample lies beyond full scale."
    total = sum(report.clipped.values())
    return (
        f"- {counted(total, 'sample')} in {counted(len(report.clipped), 'episode')} were beyond full scale"
        " and are at it (`release.json` names them; `--sound float` keeps them)."
    )


def licence_text(licence: str) -> str:
    """The text of LICENSE."""
    if not licence:
        return (
            "No licence was given for this data set. All rights stay with its owners; ask them before you use"
            " it.\n"
        )
    return (
        f"SPDX-License-Identifier: {licence}\n\nThis data set is licensed under {licence}; the text of that"
        f" licence is at https://spdx.org/licenses/{licence}.html\n"
    )
