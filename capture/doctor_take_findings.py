"""What the doctor's test means: sound, cameras, clock and processor in plain sentences."""

from __future__ import annotations

import math
from typing import Any

import dsp
from capture.blocks import SourceEvent, VideoInfo
from capture.doctor_cameras import rig_cameras, unseen_holders
from capture.doctor_findings import Finding, Severity
from capture.doctor_take import Devices, TestTake
from capture.machine import cores
from capture.meter_display import channel_names
from capture.rig import Camera, Rig
from capture.take_watch import PictureFacts, SoundWatch
from dsp.errors import HearthError, InputError
from recordings.terminal import counted

_SILENT_DBFS = -95.0  # a real microphone's own noise is above, whatever its gain
_GOOD_PPM = 20.0  # an uncertainty of the drift that says something
_GOOD_S = 20.0  # of a shorter test the uncertainty itself is uncertain
_BAD_PPM = 300.0  # no crystal is so far off: the rate is another one, or sound is lost
_MANY_WAITS_MS = 60.0
_BLACK, _PLAIN = 6.0, 1.5  # brightness and its spread, of 255
_STEP_MS = 20.0


def about_opening(rig: Rig, devices: Devices) -> tuple[list[Finding], list[dict[str, Any]]]:
    """What came out of opening the rig's devices: asked, read back, measured; and what did not open."""
    found, details = [], []
    cameras = rig_cameras(rig)
    for topic, problem in devices.problems.items():
        found.append(Finding(topic, "fault", str(problem), _opening_remedy(topic, problem, cameras)))
        details.append({"device": topic, "opened": False, "problem": str(problem), "info": None})
    if devices.audio_info is not None:
        info = devices.audio_info
        text = (
            f"opened {info.name}: {counted(info.channels, 'channel')}, {info.rate_hz} Hz, {info.format},"
            f" blocks of {1e3 * info.block_frames / info.rate_hz:.0f} ms"
        )
        found.append(Finding("microphone", "ok", text))
        details.append({"device": "microphone", "opened": True, "problem": None, "info": _plain_info(info)})
    for topic, video in devices.video_infos.items():
        found += _about_camera(topic, cameras[topic], video)
        details.append({"device": topic, "opened": True, "problem": None, "info": _plain_info(video)})
    return found, details


def _plain_info(info: Any) -> dict[str, Any]:
    return {name: getattr(info, name) for name in info.__dataclass_fields__}


def _opening_remedy(topic: str, problem: HearthError, cameras: dict[str, Camera]) -> str:
    text = str(problem)
    if topic == "microphone":
        return ""
    if cameras[topic].source == "url":
        return "switch the camera on, then look whether its address opens in a player (ffplay, VLC)"
    if "held by" not in text and ("busy" in text or "cannot be opened" in text) and unseen_holders():
        return "who holds it cannot be seen without rights: `sudo fuser -v /dev/video*`"
    return ""


def _about_camera(topic: str, asked: Camera, info: VideoInfo) -> list[Finding]:
    """Asked, read back, measured."""
    measured = info.detail.get("fps_measured")
    read = info.detail.get("fps_reported")
    rates = [f"{info.fps:g} fps"]
    if read and measured:
        rates = [f"{read:g} fps by its own account, {measured:g} measured"]
    elif measured:
        rates = [f"{measured:g} fps measured"]
    text = f"opened {info.name} ({info.backend}): {info.width_px}x{info.height_px}"
    text += f" {info.fourcc}, {rates[0]}" if info.fourcc else f", {rates[0]}"
    if asked.source not in ("v4l2", "url"):
        return [Finding(topic, "ok", text)]
    text += f"; asked: {asked.width_px}x{asked.height_px} {asked.fourcc} at {asked.fps:g}"
    found = []
    if info.fourcc in ("MJPG", "JPEG") and asked.store != "encode":
        text += "; its JPEGs are kept undecoded"
    elif asked.store == "copy":
        do = f"set `{_key(topic)}.fourcc: MJPG` if the camera has it, or `store: auto`"
        note = f"`store: copy` is not possible: the camera gives {info.fourcc or 'pixels'}, they are encoded"
        found.append(Finding(topic, "warning", note, do))
    if (info.width_px, info.height_px) != (asked.width_px, asked.height_px):
        size = f"`width_px: {info.width_px}`, `height_px: {info.height_px}`"
        do = f"write {size} under `{_key(topic)}`, or change the size in the camera's own settings"
        return [Finding(topic, "warning", text, do), *found]
    return [Finding(topic, "ok", text), *found]


def _key(topic: str) -> str:
    return "camera" if topic == "camera" else f"more_cameras ({topic.removeprefix('camera ')})"


def about_test(rig: Rig, devices: Devices, test: TestTake) -> tuple[list[Finding], dict[str, Any]]:
    """Everything that the test showed; the details are one object."""
    found: list[Finding] = []
    sound: dict[str, Any] | None = None
    if test.sound is not None:
        found_sound, sound = _about_sound(rig, test.sound, test.interrupted)
        found += found_sound
    pictures = {}
    for topic, watch in test.pictures.items():
        facts = watch.facts(look=True)
        pictures[topic] = {**facts.to_dict(), "encoder": test.encoders.get(topic) or None}
        if topic not in devices.problems and (facts.pictures or not test.interrupted):
            found += _about_pictures(topic, rig_cameras(rig)[topic], facts, watch.events)
    found += _about_writing(test)
    found_cpu, cpu = _about_cpu(rig, test)
    details = {
        "seconds": round(test.seconds, 1),
        "recorded": bool(test.recorded),
        "problem": None if test.problem is None else str(test.problem),
        "sound": sound,
        "pictures": pictures,
        "gaps": test.gaps,
        "cpu": cpu,
        "wall_clock_step_ms": round(test.wall_step_ms, 3),
    }
    if abs(test.wall_step_ms) > _STEP_MS:
        text = f"UTC was set by {test.wall_step_ms:+.0f} ms during the test (recordings keep their own clock)"
        found.append(Finding("clock", "warning", text, "wait until the time server has settled"))
    return found + found_cpu, details


# ---------------------------------------------------------------------- sound


def _about_sound(rig: Rig, watch: SoundWatch, interrupted: bool) -> tuple[list[Finding], dict[str, Any]]:
    x = watch.samples()
    names = channel_names(watch.info)
    details: dict[str, Any] = {
        "seconds": round(watch.seconds, 2),
        "channels": names,
        "peak_dbfs": None,
        "rms_dbfs": None,
        "noise_floor_dbfs": watch.noise_floor_dbfs(),
        "findings": [],
        "lost_frames": watch.lost_frames,
        "drift_ppm": None,
        "drift_sigma_ppm": None,
        "jitter_ms": None,
        "events": [_event(event) for event in watch.events],
    }
    found = _about_events("microphone", watch.events)
    if not len(x) and interrupted:
        return found, details
    if not len(x):
        text = "it opened, but no sound came"
        do = "plug the microphone in again; if it hangs behind a hub, plug it straight into the computer"
        return [*found, Finding("microphone", "fault", text, do)], details
    levels = dsp.levels(x)
    details["peak_dbfs"] = [round(float(v), 1) for v in levels.peak_dbfs]
    details["rms_dbfs"] = [round(float(v), 1) for v in levels.rms_dbfs]
    found.append(Finding("microphone", "ok", _levels_text(details)))
    loudest = max(details["rms_dbfs"])
    channel_faults, details["findings"] = _about_channels(watch, x)
    found += channel_faults
    if not channel_faults:
        if loudest < _SILENT_DBFS:
            text = f"hardly any sound ({loudest:.0f} dBFS): is it the right input, is its gain up?"
            found.append(Finding("microphone", "warning", text, "speak during the test and watch the meters"))
        else:
            found.append(Finding("microphone", "ok", "no channel is dead, copied, remixed or shifted"))
    if watch.lost_frames:
        share = watch.lost_frames / max(watch.frames + watch.lost_frames, 1)
        text = f"{counted(watch.lost_frames, 'frame')} of sound lost in {counted(watch.gaps, 'place')}"
        do = "close other programs, take hubs out of the way, or set a larger `microphone.block_ms`"
        severe: Severity = "fault" if share > 0.01 else "warning"
        found.append(Finding("microphone", severe, text, do))
    found += _about_clock(rig, watch, details)
    return found, details


def _levels_text(details: dict[str, Any]) -> str:
    rows = zip(details["channels"], details["rms_dbfs"], details["peak_dbfs"], strict=True)
    text = "levels (RMS/peak dBFS): " + ", ".join(f"{n} {r:.0f}/{p:.0f}" for n, r, p in rows)
    floor = details["noise_floor_dbfs"]
    if floor is not None:
        text += f"; quietest moments {min(floor):.0f} to {max(floor):.0f}"
    return text


# What no few seconds can show by chance. That a capsule is dead or the format is another one can: somebody
# sits so that an axis hears little.
_CHANNELS: dict[str, Severity] = {"fault": "fault", "warning": "warning", "note": "ok"}
_SURE = ("dead", "duplicated", "remixed", "nonfinite", "time_shifted")
_LONGER = "speak from all sides in a longer test (`--seconds 30`); if it stays, it is true"
_FORMAT = f"compare `microphone.format` with the Ambisonic Mode in the recorder's menu; {_LONGER}"
_REMEDIES = {
    "silent": "switch the microphone's inputs on and turn the gain up; behind a sound server it may be muted",
    "clipped": "turn the gain of the microphone down",
    "dead": "look at the microphone's mode and gain; behind a sound server choose the hw: device",
    "duplicated": "the route mixes channels: set `microphone.device` to the hw: device, and the microphone to"
    " its four-channel mode",
    "remixed": "the route mixes channels: set `microphone.device` to the hw: device",
    "format": _FORMAT,
    "normalisation": _FORMAT,
    "time_shifted": "plug the microphone in again; if it stays, choose the hw: device",
}


def _about_channels(watch: SoundWatch, x: Any) -> tuple[list[Finding], list[dict[str, Any]]]:
    """Channel independence and the like, from what was heard."""
    if x.shape[1] != 4 or watch.info.format == "array":
        return [], []
    try:
        report = dsp.check(x, watch.info.rate_hz, watch.info.format)
    except InputError as error:
        return [Finding("microphone", "warning", f"its channels could not be checked: {error}")], []
    found = [
        _about_channel_event(event, watch.present_faults)
        for event in watch.events
        if event.kind == "channels" and event.data["state"] == "began"
    ]
    bad = [f for f in report.findings if f.severity in ("fault", "warning")]
    if any(finding.severity == "fault" for finding in found):  # it says the same, and which route is better
        bad = [f for f in bad if f.code not in _SURE and f.code != "clipped"]
    codes = [f.code for f in bad]
    if codes.count("dead") == x.shape[1]:
        found.append(Finding("microphone", "fault", "no channel carries a signal", _REMEDIES["silent"]))
        bad = [f for f in bad if f.code != "dead"]
    if "remixed" in codes:  # then copies are its consequence
        bad = [f for f in bad if f.code != "duplicated"]
    for finding in bad:
        severity: Severity = "fault" if finding.code in _SURE and finding.severity == "fault" else "warning"
        found.append(Finding("microphone", severity, finding.message, _REMEDIES.get(finding.code, _LONGER)))
    return found, [f.to_dict() for f in report.findings]


def _about_channel_event(event: SourceEvent, present: list[dict[str, Any]]) -> Finding:
    """A fault that was over before the end is something to look at."""
    channels = set(event.data["channels"])
    stays = any(p["fault"] == event.data["fault"] and set(p["channels"]) <= channels for p in present)
    if stays:
        return Finding("microphone", _CHANNELS[event.data["severity"]], event.detail)
    severity: Severity = "ok" if event.data["severity"] == "note" else "warning"
    return Finding("microphone", severity, f"for a while: {event.detail}")


def _about_clock(rig: Rig, watch: SoundWatch, details: dict[str, Any]) -> list[Finding]:
    if "fast" in (rig.microphone.pace, rig.camera.pace):
        return [Finding("clock", "ok", "the sound does not come in real time: no drift to measure")]
    if rig.microphone.source == "file":
        return [Finding("clock", "ok", "a file has no clock of its own: no drift to measure")]
    fit = watch.clock()
    if fit is None or not math.isfinite(fit.drift_sigma_ppm):
        text = f"{watch.seconds:.1f} s without a gap are too short to tell the microphone's drift"
        return [Finding("clock", "ok", f"{text} (`--seconds 60`)")]
    details["drift_ppm"], details["drift_sigma_ppm"] = round(fit.drift_ppm, 2), round(fit.drift_sigma_ppm, 2)
    details["jitter_ms"] = round(fit.jitter_ms, 3)
    drift = f"{fit.drift_ppm:+.0f} ± {fit.drift_sigma_ppm:.0f} ppm"
    text = f"the microphone's clock against this computer's: {drift}"
    if fit.drift_sigma_ppm > _GOOD_PPM or fit.span_s < _GOOD_S:
        text += f", but {fit.span_s:.0f} s are too short to tell (`--seconds 60`)"
    text += f"; blocks come up to {fit.jitter_ms:.1f} ms late"
    if fit.span_s >= _GOOD_S and abs(fit.drift_ppm) > _BAD_PPM + 5 * fit.drift_sigma_ppm:
        return [
            Finding("clock", "warning", text, "compare `microphone.rate_hz` with the microphone's own rate")
        ]
    if fit.jitter_ms > _MANY_WAITS_MS:
        return [Finding("clock", "warning", text, "a sound server or a busy computer holds blocks back")]
    return [Finding("clock", "ok", text)]


# ---------------------------------------------------------------------- pictures


def _about_pictures(
    topic: str, asked: Camera, facts: PictureFacts, events: list[SourceEvent]
) -> list[Finding]:
    found = _about_events(topic, events)
    if not facts.pictures:
        text = "it opened, but no picture came in the test"
        return [*found, Finding(topic, "fault", text, "plug it in again, or start it anew")]
    flags = facts.flags
    parts = [counted(facts.pictures, "picture")]
    if facts.fps is not None:
        parts.append(f"{facts.fps:.1f} fps")
    if facts.jitter_ms is not None:
        where = max(facts.t_source, key=lambda key: facts.t_source[key])
        parts.append(f"times from {_T_SOURCES.get(where, where)}, regular within {facts.jitter_ms:.1f} ms")
    if facts.dropped:
        parts.append(f"{facts.dropped} dropped")
    parts += [f"{flags[flag]} {flag}" for flag in ("duplicate", "late", "damaged") if flags.get(flag)]
    found.append(Finding(topic, "ok", ", ".join(parts)))

    def say(severity: Severity, text: str, do: str) -> None:
        found.append(Finding(topic, severity, text, do))

    live = asked.source in ("v4l2", "url")
    if facts.fps is not None and live and facts.fps < 0.9 * asked.fps:
        text = f"{facts.fps:.1f} pictures per second instead of {asked.fps:g}"
        do = (
            "more light, or a fixed exposure: in dim rooms the camera halves its rate by itself"
            if asked.source == "v4l2"
            else "set the rate in the camera's own settings, or look at the network"
        )
        say("warning", text, f"{do}; or write `fps: {facts.fps:.0f}` under `{_key(topic)}`")
    if flags.get("frozen"):
        say("fault", "the picture is frozen: it is the same again and again", "start the camera anew")
    elif live and flags.get("duplicate", 0) > 0.1 * facts.pictures:
        text = f"{flags['duplicate']} of {facts.pictures} pictures repeat the one before"
        say("warning", text, "the camera sends pictures twice: set a lower rate")
    if flags.get("damaged"):
        text = f"{counted(flags['damaged'], 'picture')} damaged on the way"
        say("warning", text, "another cable or port, without a hub; over the network a wire instead of Wi-Fi")
    if facts.dropped > max(1, 0.02 * facts.pictures):
        text = f"{counted(facts.dropped, 'picture')} of {facts.pictures + facts.dropped} missing"
        say("warning", text, "a smaller picture or rate, another USB port, or a better network")
    if facts.mean is None:
        say("warning", "its last picture could not be decoded", "look at the camera and its cable")
    elif live and facts.mean < _BLACK and (facts.spread or 0) < _BLACK:
        say(
            "warning",
            "the picture is black",
            "take off the lens cap, open the shutter, or switch on the light",
        )
    elif live and (facts.spread or 0) < _PLAIN:
        say(
            "warning",
            "the picture is one plain colour",
            "look at the camera's picture: is something before it?",
        )
    return found


_T_SOURCES = {
    "driver": "the driver",
    "filtered": "filtered arrival",
    "arrival": "arrival",
    "container": "the file",
    "virtual": "the virtual room",
}


def _about_events(topic: str, events: list[SourceEvent]) -> list[Finding]:
    found = []
    for event in events:
        text = f"{event.kind}: {event.detail}" if event.detail else event.kind
        if event.kind in ("lost", "error"):
            do = "look at cable, plug, power and network"
            found.append(Finding(topic, "fault", f"in the test: {text}", do))
        elif event.kind == "stalled":
            found.append(Finding(topic, "warning", f"in the test: {text}"))
    return found


def _event(event: SourceEvent) -> dict[str, str]:
    return {"kind": event.kind, "detail": event.detail}


# ---------------------------------------------------------------------- writing and processor


def _about_writing(test: TestTake) -> list[Finding]:
    found = []
    if test.recorded:
        found.append(Finding("disk", "ok", f"test recording: {test.recorded}, and removed again"))
    elif test.problem is not None:
        text = f"the test could not be recorded: {test.problem}"
        found.append(Finding("disk", "fault", text))
    if late := test.gaps.get("encoder_too_slow"):
        text = f"the encoder was too slow for {counted(late, 'picture')}"
        do = "`store: copy` with a camera that gives MJPEG, a smaller picture, or fewer fps"
        found.append(Finding("processor", "fault", text, do))
    if test.gaps.get("disk_too_slow"):
        found.append(
            Finding("disk", "fault", "the disk was too slow for the sound", "record to a faster disk")
        )
    return found


def _about_cpu(rig: Rig, test: TestTake) -> tuple[list[Finding], dict[str, Any]]:
    if test.cpu is None:
        return [], {}
    writing, sources = test.parts["writing"], test.parts["sources"]
    need, others = writing + sources, test.cpu.others_percent
    count = cores()
    top = [busy for busy in test.cpu.others if busy.percent > 20][:3]
    details = {
        "recording_percent": round(need, 1),
        "writing_percent": round(writing, 1),
        "sources_percent": round(sources, 1),
        "others_percent": round(others, 1),
        "cores": count,
        "throttled": test.cpu.throttled,
        "busiest": [{"name": b.name, "pid": b.pid, "percent": round(b.percent, 1)} for b in top],
    }
    room = "the virtual room and " if rig.microphone.source == "virtual" else ""
    text = (
        f"this rig takes {need:.0f} % of one core ({room}sources {sources:.0f}, writing {writing:.0f});"
        f" there are {100 * count} %, other programs take {others:.0f}"
    )
    if top:
        text += f" ({', '.join(f'{b.name} ({b.pid}) {b.percent:.0f}' for b in top)})"
    found = []
    fast = "fast" in (rig.microphone.pace, rig.camera.pace)
    if fast:
        text = "the sound does not come in real time: what it takes then tells nothing of a live rig"
        found.append(Finding("processor", "ok", text))
    elif need + others > 80 * count:
        do = "close what is not needed" if others > need else "`store: copy`, a smaller picture, or fewer fps"
        found.append(Finding("processor", "warning", text, do))
    else:
        found.append(Finding("processor", "ok", text))
    if test.cpu.throttled:
        text = f"the processor was slowed down by heat {test.cpu.throttled} times during the test"
        found.append(Finding("processor", "warning", text, "give it air, out of the sun"))
    return found, details
