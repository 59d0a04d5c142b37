"""What `hearth doctor` says of the calibration results that a rig points to."""

from __future__ import annotations

from capture.doctor_findings import Finding
from capture.rig import Rig, result_paths
from dsp.errors import HearthError
from recordings.calibrated import read_results

OLD_DAYS = 90.0  # a bumped camera shows no sign of it


def look_at_calibrations(rig: Rig) -> list[Finding]:
    """A finding for each result: usable, old, limited (its own warning), or why it cannot be used."""
    sizes = {"": (rig.camera.width_px, rig.camera.height_px)}
    sizes |= {camera.name: (camera.width_px, camera.height_px) for camera in rig.more_cameras}
    found = []
    for (camera, kind), path in result_paths(rig).items():
        try:
            one = read_results({(camera, kind): path})
            one.check_picture(*sizes[camera], camera)
            one.correction(rig.microphone.format)
        except HearthError as error:
            again = f"`hearth calibrate {kind}` again, or take the line out of the rig file"
            found.append(Finding("calibration", "fault", str(error), again))
            continue
        (line,) = one.lines()
        result = one.results[camera, kind]
        age = result.age_days
        old = age is not None and age > OLD_DAYS
        do = "check it against a picture or a known direction" if old else ""
        severity = "warning" if old or result.warnings else "ok"
        found.append(Finding("calibration", severity, line, do))  # type: ignore[arg-type]
    return found
