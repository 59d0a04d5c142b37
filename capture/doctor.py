"""`hearth doctor`: what this machine and rig can do, and what would go wrong, before somebody records."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

from capture.blocks import AudioInfo
from capture.deadline import Deadline, as_error, together, within
from capture.doctor_calibration import look_at_calibrations
from capture.doctor_cameras import look_at_cameras, rig_cameras
from capture.doctor_disk import Need, expected_need, look_at_room, look_at_speed, measure_speed
from capture.doctor_findings import DoctorReport, Finding, make_report
from capture.doctor_inputs import look_at_inputs
from capture.doctor_machine import look_at_clock, look_at_encoders, look_at_processor, look_at_system
from capture.doctor_take import Devices, Look, TestTake, open_devices, run_test
from capture.doctor_take_findings import about_opening, about_test
from capture.rig import Rig, load_rig
from dsp.errors import HearthError

LIMIT_S = 90.0  # everything besides the seconds of the test; what has not answered by then is given up
_LISTING_S = 20.0
_DISK_S = 15.0
Part = tuple[list[Finding], dict[str, Any]]


class Progress(Protocol):
    """Who is told what goes on; see DoctorDisplay."""

    def step(self, text: str) -> None: ...
    def audio(self, info: AudioInfo | None) -> None: ...
    def show(self, look: Look) -> None: ...
    def end(self) -> None: ...


class _Silent:
    def step(self, text: str) -> None: ...
    def audio(self, info: AudioInfo | None) -> None: ...
    def show(self, look: Look) -> None: ...
    def end(self) -> None: ...


def examine(
    rig: Rig | None, rig_problem: str | None = None, *, seconds: float = 4.0, progress: Progress | None = None
) -> DoctorReport:
    """Look at everything and try it for `seconds` (0: open the rig's devices, record nothing).

    It ends within LIMIT_S + seconds, whatever hangs, and leaves nothing on the disk. rig None with
    `rig_problem`: the rig file itself is at fault; then only the machine is looked at. Ctrl-C ends it early,
    with a report of what was seen.
    """
    return _Examination(rig, rig_problem, seconds, progress or _Silent()).run()


def examine_file(
    path: str | Path | None, *, seconds: float = 4.0, progress: Progress | None = None
) -> DoctorReport:
    """`examine` of a rig file; see `load_rig` for None. A file with a mistake is a finding, not an error."""
    try:
        rig, problem = load_rig(path), None
    except HearthError as error:
        rig, problem = None, str(error)
    return examine(rig, problem, seconds=seconds, progress=progress)


class _Examination:
    def __init__(self, rig: Rig | None, rig_problem: str | None, seconds: float, progress: Progress) -> None:
        self._rig, self._rig_problem, self._seconds, self._progress = rig, rig_problem, seconds, progress
        self._limit = Deadline(LIMIT_S + seconds)
        self._findings: list[Finding] = []
        self._details: dict[str, Any] = {
            "rig": None if rig is None else _rig_dict(rig),
            **dict.fromkeys(("system", "clock", "processor", "encoders", "disk", "test")),
            **{key: [] for key in ("microphones", "sound_cards", "cameras", "opened")},
        }

    def run(self) -> DoctorReport:
        begin = time.monotonic()
        ended_early = False
        try:
            self._look()
        except KeyboardInterrupt:
            ended_early = True
        finally:
            self._progress.end()
        what = "this rig"
        if self._rig is not None and self._rig.microphone.source == "virtual":
            what = "the virtual room"
        took = time.monotonic() - begin
        return make_report(self._findings, what, self._details, took, ended_early)

    def _look(self) -> None:
        rig = self._rig
        if rig is None:
            text = self._rig_problem or "no rig file"
            self._findings.append(Finding("rig", "fault", text, "correct the rig file"))
        else:
            self._findings.append(Finding("rig", "ok", _rig_text(rig)))
            self._findings += look_at_calibrations(rig)
        self._progress.step("looking at devices and machine")
        self._machine()
        if rig is None:
            return
        self._progress.step("measuring the disk")
        need = expected_need(rig)
        room = self._disk(rig, need)
        bad = {finding.topic for finding in self._findings if finding.severity == "fault"}
        self._progress.step("opening the rig's devices")
        try:
            devices = open_devices(rig, self._limit, skip=bad)
        except HearthError as error:
            self._findings += [*room, Finding("microphone", "fault", str(error))]
            return
        try:
            found, self._details["opened"] = about_opening(rig, devices)
            self._findings += found
            self._try(rig, devices, room, need)
        finally:
            devices.close()

    def _machine(self) -> None:
        rig = self._rig
        works: dict[str, Callable[[], Part]] = {
            "system": look_at_system,
            "microphones": lambda: look_at_inputs(rig, _LISTING_S - 1),
            "cameras": lambda: look_at_cameras(rig),
            "clock": look_at_clock,
            "processor": look_at_processor,
            "encoders": lambda: look_at_encoders(rig),
        }
        topics = {"microphones": "microphone", "cameras": "camera", "encoders": "encoder"}
        for name, part in together(self._limit.part(_LISTING_S), works).items():
            if isinstance(part, BaseException):
                topic = topics.get(name, name)
                self._findings.append(Finding(topic, "warning", str(as_error(part))))
                continue
            self._findings += part[0]
            if name in ("microphones", "cameras"):
                self._details.update(part[1])
            else:
                self._details[name] = part[1]

    def _disk(self, rig: Rig, need: Need) -> list[Finding]:
        """Speed is a finding at once; what was found about the room is given back, to be told again with what
        the test measured."""
        try:
            room, details = within(self._limit.part(_DISK_S), "disk", lambda: look_at_room(rig, need))
            self._details["disk"] = {**details, **dict.fromkeys(_SPEED_KEYS)}
        except (HearthError, OSError) as error:
            self._findings.append(Finding("disk", "fault", str(as_error(error)), "try another disk"))
            return []
        if any(finding.severity == "fault" for finding in room):
            return room
        folder, per_second = Path(rig.storage.folder), round(need.bytes_per_s)
        try:
            measured = lambda: measure_speed(folder, per_second)  # noqa: E731
            found, speed = look_at_speed(within(self._limit.part(_DISK_S), "disk", measured), need)
            self._findings += found
            self._details["disk"].update(speed)
        except (HearthError, OSError) as error:
            text = f"writing to it does not work: {as_error(error)}"
            self._findings.append(Finding("disk", "fault", text, "try another disk"))
        return room

    def _try(self, rig: Rig, devices: Devices, room: list[Finding], need: Need) -> None:
        disk_bad = any(f.topic == "disk" and f.severity == "fault" for f in [*room, *self._findings])
        if self._seconds <= 0 or not (devices.microphone or devices.cameras):
            self._findings += room
            return
        self._progress.step(f"testing for {self._seconds:g} s: speak, clap, move before the camera")
        self._progress.audio(devices.audio_info)
        finishing = lambda: self._progress.step("finishing and verifying the test recording")  # noqa: E731
        show = self._progress.show
        test = run_test(rig, devices, self._seconds, self._limit, show, finishing, record=not disk_bad)
        self._progress.end()
        found, self._details["test"] = about_test(rig, devices, test)
        if test.need is not None:
            with suppress(HearthError, OSError):  # else what was found before stands
                room, measured = within(_DISK_S, "disk", lambda: look_at_room(rig, _with_absent(need, test)))
                self._details["disk"].update(measured)
        self._findings += [*room, *found]
        if test.interrupted:
            raise KeyboardInterrupt


_SPEED_KEYS = ("write_mb_per_second", "worst_sync_ms", "sync_ms")


def _with_absent(expected: Need, test: TestTake) -> Need:
    """What was measured, and by experience what a camera would write that could not be opened."""
    assert test.need is not None
    missing = {name: rate for name, rate in expected.streams.items() if name not in test.need.streams}
    return Need({**test.need.streams, **missing}, measured=not missing)


def _rig_dict(rig: Rig) -> dict[str, Any]:
    mic = rig.microphone
    return {
        "name": rig.name,
        "microphone": {
            "source": mic.source,
            "device": mic.device or mic.file,
            "rate_hz": mic.rate_hz,
            "channels": mic.channels,
            "format": mic.format,
        },
        "cameras": {
            topic: {
                "source": camera.source,
                "address": {"url": camera.url, "file": camera.file}.get(camera.source, camera.device),
                "width_px": camera.width_px,
                "height_px": camera.height_px,
                "fps": camera.fps,
                "fourcc": camera.fourcc,
                "store": camera.store,
            }
            for topic, camera in rig_cameras(rig).items()
        },
        "folder": rig.storage.folder,
    }


def _rig_text(rig: Rig) -> str:
    mic = rig.microphone
    parts = [f"microphone {mic.source}" + (f" {mic.device or mic.file!r}" if mic.device or mic.file else "")]
    for topic, camera in rig_cameras(rig).items():
        where = {"v4l2": f" {camera.device}", "url": f" {camera.url}", "file": f" {camera.file}"}
        parts.append(f"{topic} {camera.source}{where.get(camera.source, '')}")
    return f"{rig.name!r}: {', '.join(parts)}"
