"""The command `hearth home`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from dsp.errors import CheckFailed, InputError


def home(
    rig: Annotated[Path | None, typer.Option(help="Rig file; default: rig.yaml here.")] = None,
    wait: Annotated[float, typer.Option(min=0.1, max=120, help="Seconds to wait for the home.")] = 5.0,
    forget: Annotated[
        bool, typer.Option("--forget", help="Take Hearth's own device out of Home Assistant, and end.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")] = False,
) -> None:
    """Does the home of rig.yaml answer, which devices has it, and what is not mapped, and why?"""
    from capture.rig import load_rig
    from edge.home.bridge_report import report_of
    from recordings.terminal import emit

    the_rig = load_rig(rig)
    if forget:
        from edge.home.mqtt_presence import forget_presence
        from edge.rigs.identity import rig_id

        if the_rig.mqtt is None:
            raise InputError("this rig has no `mqtt:` broker, so Hearth was never announced")
        name, _ = rig_id(the_rig.id, the_rig.storage.folder)
        taken_back = forget_presence(the_rig, name, wait)
        emit({"forgotten": taken_back}, as_json, [f"taken back: {topic}" for topic in taken_back])
        return
    report = report_of(the_rig, wait)
    emit(report, as_json, _lines(report))
    if not report["connected"]:
        raise CheckFailed(f"{report['where']} does not answer: {report['trouble']}")
    if report["not_there"]:
        raise CheckFailed(f"of rig.yaml's devices {len(report['not_there'])} are not in the home; see above")


def _lines(report: dict[str, Any]) -> list[str]:
    version = f", version {report['version']}" if report["version"] else ""
    lines = [f"{report['where']}{version}: {'connected' if report['connected'] else report['trouble']}", ""]
    width = max((len(device["id"]) for device in report["devices"]), default=0)
    for device in report["devices"]:
        lines += _device_lines(device, width)
    for room, air in report["rooms"].items():
        lines.append(f"air of {room}: {', '.join(f'{name} {value:g}' for name, value in air.items())}")
    if report["not_there"]:
        lines += ["", "in rig.yaml, but not in the home:"]
        lines += [f"  {one['id']}: {one['why']}" for one in report["not_there"]]
    if report["left_out"]:
        lines += ["", "not mapped:"]
        lines += [f"  {one['entity']}: {one['why']}" for one in report["left_out"]]
    return lines


def _device_lines(device: dict[str, Any], width: int) -> list[str]:
    words = [f"{device['type']}, {device['name']!r}"]
    words += [f"in {device['room']}"] if device["room"] else []
    words += [f"= {device['entity']}"] if device["entity"] else []
    words += [] if device["placed"] else ["(no place)"]
    words += [] if device["connected"] else ["(away)"]
    known = {path.rpartition(".")[2]: value for path, value in device["state"].items() if value is not None}
    told = ", ".join(f"{name} {value}" for name, value in known.items())
    return [f"{device['id']:{width}}  {' '.join(words)}", *([f"{'':{width}}  {told}"] if told else [])]
