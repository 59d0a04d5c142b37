"""The checks of an episode in plain words: what was looked at, how it is, and how good each number is."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np

from recordings.episode import frame_lines, video_stream
from recordings.report_model import Check
from recordings.report_rig import number
from recordings.terminal import counted
from recordings.timeline import Line

TITLES = {
    "normalisation": "Ambisonic form",
    "orientation": "Orientation",
    "weak": "Weak channel",
    "dc": "DC offset",
    "nonfinite": "Broken samples",
    "duplicated": "Copied channel",
    "remixed": "Remixed channels",
    "time_shifted": "Shifted channel",
    "capsule_dead": "Dead capsule",
    "capsule_inverted": "Inverted capsule",
    "format": "Channel format",
    "dropout": "Dropouts",
    "truncated": "Cut off",
    "too_short": "Length",
    "empty": "Length",
}
NAMES = ("W", "Y", "Z", "X")


# "duplicate" alone is no fault: a still scene can give the same bytes.
_PICTURE_FLAGS = {"frozen": "standing still", "late": "late", "damaged": "damaged"}


def checks_in_words(data: Any, lines: list[Line], duration_s: float) -> tuple[Check, ...]:
    """Lines for the page from checks.json (or None) and the timeline."""
    found: list[Check] = []
    if data is None:
        found.append(Check("unknown", "Signal", "The sound of this episode has not been checked."))
    else:
        found += _signal(data)
        found += _wall_clock(data)
    found += _gaps(lines, duration_s)
    cameras = {str(x.get("camera", "")) for x in lines if x["type"] == "frame"}
    for camera in ["", *sorted(cameras - {""})]:
        found += _pictures(lines, camera)
    found.append(_drift(data, lines))
    if any(x["type"] == "frame" for x in lines):
        found.append(_offset(data, lines))
    return tuple(found)


def nested(data: Any) -> Iterator[dict[str, Any]]:
    """All dicts inside `data`, outermost first."""
    if isinstance(data, dict):
        yield data
        for value in data.values():
            yield from nested(value)
    elif isinstance(data, list):
        for value in data:
            yield from nested(value)


def _number(data: dict[str, Any] | None, *keys: str) -> float | None:
    for key in keys:
        value = (data or {}).get(key)
        if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
            return float(value)
    return None


def _signal(data: Any) -> list[Check]:
    report = next((d for d in nested(data) if isinstance(d.get("findings"), list)), None)
    if report is None:
        return [Check("unknown", "Signal", "checks.json holds no findings about the sound.")]
    findings = [f for f in report["findings"] if isinstance(f, dict)]
    levels = _levels(report)
    out = []
    peaks, rms = levels.get("peak_dbfs") or [], levels.get("rms_dbfs") or []
    if peaks and rms:
        names = NAMES if len(peaks) == 4 else tuple(str(i + 1) for i in range(len(peaks)))
        peak = max(float(p) for p in peaks)
        words = "plenty of headroom" if peak < -6 else ("little headroom" if peak < -0.5 else "at the limit")
        status: Any = "ok" if peak < -0.5 else "warning"
        if peak < -50:
            status, words = "warning", "very quiet: raise the gain of the recorder"
        each = ", ".join(
            f"{n} {float(p):.0f} / {float(r):.0f}" for n, p, r in zip(names, peaks, rms, strict=False)
        )
        out.append(
            Check(
                status,
                "Level",
                f"{words.capitalize()}.",
                minus(f"Peak {peak:.1f} dBFS"),
                minus(f"Peak / RMS per channel in dBFS: {each}."),
            )
        )
    out.append(_of(findings, "clipped", "Clipping", "No sample reaches full scale."))
    out.append(_of(findings, "dead", "Dead channels", "Every channel carries a signal."))
    for finding in findings:
        code = str(finding.get("code", "finding"))
        if code in ("clipped", "dead", "levels"):
            continue
        status = finding.get("severity")
        if status not in ("ok", "warning", "fault", "unknown"):
            status = "unknown"
        title = TITLES.get(code, code.replace("_", " ").capitalize())
        quality = ""
        if code == "normalisation":
            quality = (
                "Plausibility only: channel order, flips and mirrors cannot be told from the data alone."
            )
        out.append(Check(status, title, _sentence(str(finding.get("message", ""))), "", quality))
    return out


def _levels(report: dict[str, Any]) -> dict[str, list[float]]:
    """Peak and RMS per channel; of a long take (checked in parts) the highest peak, mean power."""
    one, parts = report.get("levels"), report.get("levels_by_part")
    try:
        every = [one] if isinstance(one, dict) else list(parts or ())
        peaks = np.array([p["peak_dbfs"] for p in every], dtype=np.float64)
        rms = np.array([p["rms_dbfs"] for p in every], dtype=np.float64)
        if not peaks.size or peaks.shape != rms.shape:
            return {}
        mean = 10.0 * np.log10(np.mean(10.0 ** (rms / 10.0), axis=0))
        return {"peak_dbfs": peaks.max(axis=0).tolist(), "rms_dbfs": mean.tolist()}
    except (KeyError, TypeError, ValueError):
        return {}


def _of(findings: list[dict[str, Any]], code: str, title: str, fine: str) -> Check:
    bad = [f for f in findings if f.get("code") == code and f.get("severity") in ("warning", "fault")]
    if not bad:
        return Check("ok", title, fine)
    worst: Any = "fault" if any(f["severity"] == "fault" for f in bad) else "warning"
    return Check(worst, title, " ".join(_sentence(str(f.get("message", ""))) for f in bad))


def minus(text: str) -> str:
    """The sign that is as wide as a plus, before digits."""
    return re.sub(r"(?<![\w-])-(?=\d)", "−", text)


def _sentence(text: str) -> str:
    text = minus(text.strip().replace("^2", "²"))
    text = text[:1].upper() + text[1:]
    return text if not text or text[-1] in ".!?" else text + "."


def _gaps(lines: list[Line], duration_s: float) -> list[Check]:
    blocks = [x for x in lines if x["type"] == "audio"]
    gaps = [x for x in lines if x["type"] == "gap" and x.get("stream") != "video"]
    if not gaps:
        if not blocks:
            return []
        count = "1 block" if len(blocks) == 1 else f"{len(blocks):,} blocks".replace(",", " ")
        text = f"No gap in {count} ({duration_s:.1f} s)."
        return [Check("ok", "Gaps in the sound", text, "", "Counted from the sample counter of each block.")]
    lost = int(np.nansum([number(x.get("lost_frames"), 0, 1e15) for x in gaps]))
    if all(x.get("cause") == "muted" for x in gaps):  # wanted: no fault
        times = sum(x.get("stream") == "audio" for x in gaps)
        text = f"Muted {counted(times, 'time')}: nothing was kept of that."
        value, quality = f"{lost} samples", "Place and length are in the timeline."
        return [Check("ok", "Gaps in the sound", text, value, quality)]
    causes = ", ".join(sorted({str(x.get("cause", "unknown")).replace("_", " ") for x in gaps}))
    return [
        Check(
            "fault",
            "Gaps in the sound",
            f"{len(gaps)} {'gap' if len(gaps) == 1 else 'gaps'} ({causes}); nothing was put in their place.",
            f"{lost} samples lost",
            "Place and length of each gap are in the timeline.",
        )
    ]


def _pictures(lines: list[Line], camera: str) -> list[Check]:
    frames = frame_lines(lines, camera)
    topic = f"Pictures ({camera})" if camera else "Pictures"
    gaps = [x for x in lines if x["type"] == "gap" and x.get("stream") == video_stream(camera)]
    gaps = [x for x in gaps if x.get("cause") != "muted"]  # wanted: told with the sound
    dropped = int(np.nansum([number(x.get("dropped"), 0, 1e12) for x in gaps]))
    if not frames:
        return [Check("fault", topic, "No picture was written.", f"{dropped} dropped")] if gaps else []
    times = np.sort(np.array([x["t_ns"] for x in frames], dtype=np.int64)) * 1e-9
    steps = np.diff(times)
    rate = (
        f"{(len(times) - 1) / (times[-1] - times[0]):.2f} pictures/s"
        if len(times) > 1
        else f"{len(times)} picture"
    )
    status: Any = "ok"
    text = f"{counted(len(frames), 'picture')}, none dropped."
    if dropped:
        share = dropped / (dropped + len(frames))
        status = "fault" if share > 0.05 else "warning"
        text = f"{counted(len(frames), 'picture')}, {dropped} dropped ({100 * share:.1f} %)."
    quality = ""
    if len(steps):
        quality = f"Step: median {np.median(steps) * 1e3:.1f} ms, longest {steps.max() * 1e3:.0f} ms"
        sources = sorted({str(x.get("t_source", "unknown")) for x in frames})
        quality += f"; times from: {', '.join(sources)}."
    flagged = Counter(flag for x in frames for flag in x.get("flags", ()) if flag in _PICTURE_FLAGS)
    if flagged:
        status = "warning" if status == "ok" else status
        text += " " + ", ".join(f"{_PICTURE_FLAGS[k]}: {n}" for k, n in sorted(flagged.items())) + "."
    return [Check(status, topic, text, rate, quality)]


def _event_data(lines: list[Line], kind: str) -> dict[str, Any] | None:
    for line in reversed(lines):
        if line["type"] == "event" and line.get("kind") == kind and isinstance(line.get("data"), dict):
            return dict(line["data"])
    return None


def _drift(data: Any, lines: list[Line]) -> Check:
    title = "Clock of the sound"
    problems = [str(d["problem"]) for d in nested(data) if "wall_clock_step_ms" in d and "problem" in d]
    if problems:
        return Check("fault", title, problems[0][:1].upper() + problems[0][1:] + ".")
    measured = (d for d in nested(data) if _number(d, "drift_ppm") is not None)
    source = next(measured, None) or _event_data(lines, "clock")
    drift = _number(source, "drift_ppm")
    sigma = _number(source, "drift_sigma_ppm", "drift_ppm_sigma", "sigma_ppm")  # the others are older names
    if drift is None:
        return Check("unknown", title, "Its drift against the computer's clock was not measured.")
    value = f"{drift:+.1f} ± {sigma:.1f} ppm" if sigma is not None else f"{drift:+.1f} ppm"
    value = minus(value)
    if sigma is None:
        return Check("unknown", title, "Drift was estimated, but not how good the estimate is.", value)
    hour = abs(drift) * 3.6
    if abs(drift) <= 2 * sigma:
        text = "No drift beyond the uncertainty."
    else:
        pace = "fast" if drift > 0 else "slow"
        text = f"Runs {pace} by {hour:.0f} ms per hour; the timeline takes it into account."
    status: Any = "ok" if abs(drift) < 200 or abs(drift) <= 2 * sigma else "warning"
    quality = f"± is one standard deviation ({sigma * 3.6:.0f} ms per hour)."
    if sigma > 50:
        quality += " A short take cannot tell it better."
    jitter, offset = _number(source, "jitter_ms"), _number(source, "offset_sigma_ms")
    if jitter is not None and offset is not None:
        quality += (
            f" Blocks arrived up to {jitter:.1f} ms late (95 %); times are good to"
            f" ± {max(offset, 0.01):.2f} ms, a constant delay of the device aside."
        )
    return Check(status, title, text, value, quality)


def _wall_clock(data: Any) -> list[Check]:
    step = next((v for d in nested(data) if (v := _number(d, "wall_clock_step_ms")) is not None), None)
    if step is None or abs(step) < 50:
        return []
    text = "The wall clock was set during the take; times in the episode do not depend on it."
    return [Check("warning", "Wall clock", text, minus(f"{step:+.0f} ms"))]


def _offset(data: Any, lines: list[Line]) -> Check:
    title = "Sound against picture"
    source = next((d for d in nested(data) if "offset_ms" in d), None) or _event_data(lines, "av_offset")
    offset, sigma = (
        _number(source, "offset_ms"),
        _number(source, "sigma_ms", "offset_ms_sigma", "offset_sigma_ms"),
    )
    alignment = next((str(d["alignment"]) for d in nested(data) if "alignment" in d), "")
    if offset is None and alignment.startswith("unknown"):
        return Check(
            "warning",
            title,
            "How the pictures lie against the sound is not known: both files are taken to start together, so"
            " what is heard and seen at one time here may be seconds apart.",
            "",
            "Import again with --video-offset-s once it is known, for example from a clap.",
        )
    if offset is None and alignment == "measured":
        return Check("ok", title, "The pictures were placed at the import by the sound of the video itself.")
    if offset is None and alignment == "given":
        return Check("unknown", title, "The offset was given at the import, not measured.")
    if offset is None:
        note = next((str(d["note"]) for d in nested(data) if d.get("note") and "offset" in str(d)), "")
        return Check(
            "unknown",
            title,
            "The offset was not measured: it needs flashes with beeps (or claps) in the take.",
            "",
            note,
        )
    value = f"{offset:+.1f} ± {sigma:.1f} ms" if sigma is not None else f"{offset:+.1f} ms"
    value = minus(value)
    count = _number(source, "events", "count", "pairs")
    quality = "± is one standard deviation" if sigma is not None else "Without an uncertainty"
    quality += (
        f", from {count:.0f} flash-and-beep {'pair' if count == 1 else 'pairs'}."
        if count is not None
        else "."
    )
    off = abs(offset)
    # Detectable from 45 ms early to 125 ms late (ITU-R BT.1359-1): sound that is early disturbs sooner.
    within = sigma is not None and off <= 2 * sigma
    status: Any = "ok" if off < 45 or within else ("warning" if 0 < offset < 125 else "fault")
    late = "late" if offset > 0 else "early"
    if source is not None and source.get("source") == "calibration":
        status = "ok"
        text = "As the rig's calibration found it; directions on the pictures are shifted by it."
        quality = "± is one standard deviation." if sigma is not None else "Without an uncertainty."
    elif within:
        text = "Sound and picture agree within the uncertainty."
    else:
        text = f"The sound is {late} by {off:.0f} ms{', which nobody notices' if off < 45 else ''}."
    return Check(status, title, text, value, quality)
