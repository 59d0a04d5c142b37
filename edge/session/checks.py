"""What is looked at as soon as a take is finished: would this episode be worth keeping?

Every check says `ok`, `warning`, `bad` or `not checked`, and why. What no tool here can see (a hand, where
the networks are not installed) is `not checked`, never `ok`. They read the finished episode on disk, so a
take that a crash cut off and that was repaired is judged alike.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from dsp.errors import HearthError
from edge.session.seen import WITH_FACE, faces_in
from edge.session.words import device_name, room_of
from recordings.episode import Episode
from recordings.geometry import direction_to_point, unit_from_direction
from recordings.plan.model import Plan, PlanItem
from recordings.terminal import counted

Verdict = Literal["ok", "warning", "bad", "not checked"]

BEFORE_S = 0.2  # of quiet before the first word
AFTER_S = 0.3  # from the last word to the end
QUIETEST_SPEECH_DBFS = -50.0  # RMS in W
LEAST_SNR_DB = 10.0  # of the speech over what is heard before it
HEADROOM_DBFS = -1.0
FROM_PLACE_DEG = 30.0  # what comes from further away than this from the speaker's place is not theirs
FROM_PLACE_SHARE = 0.4  # of the loud rows of speech that come from there at least
SOUND_WITHIN_DEG = 20.0  # the device's sound from its position
CONFIDENT = 0.2  # of a clip's direction
SYNC_MS = 40.0  # sound against picture: just below what is seen (ITU-R BT.1359: 45 ms early, 125 late)
COVER_S = 0.5  # pictures may begin later or end earlier than the sound
ROW_S = 0.1  # of the timeline's directions
# Codes of dsp.check for channels that are broken, whatever is heard.
OF_CHANNELS = frozenset(
    {"empty", "nonfinite", "clipped", "dead", "truncated", "dropout", "duplicated", "remixed"}
)
PAUSE_S = 0.8  # within a request
CORE_DB = 15.0  # below the loudest rows: surely words, where a device is not nearly as loud
RANGE_DB = 25.0  # from loud words to the ends of soft ones
OVER_DB = 4.0  # over the loudest of what was heard before
SLATE_S = 1.3  # the virtual room's slate is over by then


@dataclass(frozen=True)
class Check:
    """One answer; data: the numbers behind it."""

    name: str
    verdict: Verdict
    text: str
    data: dict[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for the journal and `--json`."""
        return {"name": self.name, "verdict": self.verdict, "text": self.text, **self.data}


def all_well(checks: Sequence[Check]) -> bool:
    """Nothing is bad."""
    return all(check.verdict != "bad" for check in checks)


def check_take(episode: Episode, item: PlanItem, plan: Plan) -> list[Check]:
    """All checks of a finished take of an item; one that fails for an error says so and is not ok."""
    take = _Take(episode, item, plan)
    checks: list[Check] = []
    for name, check in CHECKS.items():
        try:
            found = check(take)
        except HearthError as error:
            found = Check(name, "bad", f"could not be checked: {error}")
        if found is not None:
            checks.append(found)
    return checks


@dataclass(frozen=True)
class Speech:
    """When the speaker is heard: seconds from the first sound frame; level RMS of W in dBFS, and of what is
    heard before."""

    begin_s: float
    end_s: float
    level_dbfs: float
    before_dbfs: float | None


class _Take:
    """What several checks look at, worked out once."""

    def __init__(self, episode: Episode, item: PlanItem, plan: Plan) -> None:
        self.episode, self.item, self.plan = episode, item, plan
        self.room = room_of(plan, item)
        self.doa = episode.doa()
        self._speech: Speech | None = None
        self._heard = False
        self._sound: NDArray[np.float32] | None = None

    @property
    def sound(self) -> NDArray[np.float32]:
        """The release form, (frames, 4) at 24 kHz."""
        if self._sound is None:
            self._sound = self.episode.audio(24000)
        return self._sound

    @property
    def speaker_at(self) -> NDArray[np.float64] | None:
        """Unit vector to the speaker's mouth in the microphone's frame; None when the plan places nobody."""
        mouths = [placed.mouth_m for placed in self.item.staging.people if placed.speaks]
        return self.direction(mouths[0]) if mouths else None

    @property
    def places(self) -> dict[str, Sequence[float]]:
        """Positions of the room's devices, by id; in the room's frame, metres."""
        devices = (*self.room.devices, *(d for d in self.item.home.devices if d.room == self.room.id))
        return {device.id: device.position_m for device in devices if device.position_m is not None}

    def direction(self, place_m: Any) -> NDArray[np.float64]:
        """Unit vector to a point of the room, in the microphone's frame."""
        seen = direction_to_point(place_m, self.room.microphone_m, self.room.microphone_yaw_deg)
        return unit_from_direction(*seen[:2])

    @property
    def speech(self) -> Speech | None:
        """None: nothing that could be the request was heard from where the speaker stands."""
        if not self._heard:
            self._heard = True
            self._speech = self._find_speech()
        return self._speech

    def _find_speech(self) -> Speech | None:
        """Rows of 100 ms in which something rises over the steady sound: the loud ones in one stretch without
        a long pause, much of which comes from the speaker's place (echoes and devices draw single rows away),
        and around them what is louder than before."""
        from dsp import ActivityDetector

        level = self.doa.level_dbfs
        rows = len(level)
        lively = np.zeros(rows)
        for hop in ActivityDetector(24000).push(np.ascontiguousarray(self.sound[:, 0])):
            row = int(hop.t_s / ROW_S)
            if row < rows and hop.active:
                lively[row] += 1
        heard = (lively >= 3) & np.isfinite(level)
        near = heard.copy()
        towards = self.speaker_at
        if towards is not None:
            azimuth, elevation = self.doa.azimuth_deg, self.doa.elevation_deg
            come = unit_from_direction(np.nan_to_num(azimuth), np.nan_to_num(elevation))
            near &= (come @ towards >= np.cos(np.radians(FROM_PLACE_DEG))) & np.isfinite(azimuth)
        if not near.any():
            return None
        loud = float(np.percentile(level[near], 90))
        pause = round(PAUSE_S / ROW_S)
        parts = [
            part
            for part in _parts(np.flatnonzero(heard & (level > loud - CORE_DB)), pause)
            if len(part) >= 3 and near[part].mean() >= FROM_PLACE_SHARE
        ]
        if not parts:
            return None
        core = max(parts, key=lambda part: int(near[part].sum()))
        before = level[round(SLATE_S / ROW_S) : max(int(core[0]) - 3, 0)]
        before = before[np.isfinite(before)]
        least, floor = loud - RANGE_DB, None
        if len(before) >= 5:
            floor = float(np.median(before))
            least = max(least, float(np.percentile(before, 95)) + OVER_DB)
        around = np.union1d(core, np.flatnonzero(heard & (level > least)))
        stretch = max(_parts(around, pause), key=lambda part: len(np.intersect1d(part, core)))
        first, last = int(stretch[0]), int(stretch[-1])
        mean = float(10 * np.log10(np.mean(10 ** (level[first : last + 1] / 10))))
        return Speech(first * ROW_S, (last + 1) * ROW_S, mean, floor)


def _parts(rows: NDArray[np.intp], pause: int) -> list[NDArray[np.intp]]:
    """Row numbers in parts in which none is more than `pause` after the one before."""
    return np.split(rows, np.flatnonzero(np.diff(rows) > pause) + 1)


def _whole(take: _Take) -> Check:
    report = take.episode.verify()
    if take.episode.profile.interrupted:
        return Check("whole", "bad", "the recording was cut off, and repaired")
    if not report.ok:
        return Check("whole", "bad", "; ".join(str(problem) for problem in report.problems))
    checks = take.episode.checks
    lost = int((checks.get("audio") or {}).get("lost_frames") or 0)
    dropped = int((checks.get("video") or {}).get("dropped") or 0)
    data = {"lost_frames": lost, "dropped_pictures": dropped}
    if lost:
        return Check("whole", "bad", f"{counted(lost, 'frame')} of sound were lost", data)
    if dropped:
        return Check("whole", "warning", f"{counted(dropped, 'picture')} were dropped", data)
    return Check("whole", "ok", f"{take.episode.duration_s:.1f} s, nothing lost, verified", data)


def _level(take: _Take) -> Check:
    from dsp import levels

    found = levels(take.episode.original.read())
    clipped = [int(n) for n in found.clipped_frames]
    peak = float(np.max(found.peak_dbfs))
    data = {"peak_dbfs": round(peak, 1), "clipped": clipped}
    if any(clipped):
        return Check("level", "bad", f"clipped: {counted(sum(clipped), 'sample')}; turn the gain down", data)
    findings = (take.episode.checks.get("sound") or {}).get("findings", ())
    faults = [f for f in findings if f.get("severity") == "fault"]
    if any(fault["code"] in OF_CHANNELS for fault in faults):
        return Check("level", "bad", next(f["message"] for f in faults if f["code"] in OF_CHANNELS), data)
    if faults:  # about the field: a few seconds of one sound may mislead it
        return Check("level", "warning", str(faults[0]["message"]), data)
    if peak > HEADROOM_DBFS:
        return Check("level", "warning", f"peak {peak:.1f} dBFS: hardly any headroom", data)
    speech = take.speech
    if speech is None:
        return Check("level", "ok", f"peak {peak:.1f} dBFS, nothing clipped", data)
    data |= {"speech_dbfs": round(speech.level_dbfs, 1)}
    if speech.level_dbfs < QUIETEST_SPEECH_DBFS:
        said = f"speech at {speech.level_dbfs:.0f} dBFS is too quiet; turn the gain up"
        return Check("level", "bad", said, data)
    words = f"speech {speech.level_dbfs:.0f} dBFS, peak {peak:.1f} dBFS"
    if speech.before_dbfs is not None:
        snr = speech.level_dbfs - speech.before_dbfs
        data |= {"over_quiet_db": round(snr, 1)}
        words += f", {snr:.0f} dB over the quiet before"
        if snr < LEAST_SNR_DB:
            return Check("level", "warning", f"{words}: hardly above the noise", data)
    return Check("level", "ok", words, data)


def _speech(take: _Take) -> Check:
    speech, length = take.speech, take.episode.duration_s
    if speech is None:
        place = " from where the speaker should stand" if take.speaker_at is not None else ""
        return Check("speech", "bad", f"nobody was heard{place}")
    data = {"begin_s": round(speech.begin_s, 2), "end_s": round(speech.end_s, 2)}
    after = length - speech.end_s
    if speech.begin_s < BEFORE_S:
        said = "speech began before the recording did; wait for the end of the count"
        return Check("speech", "bad", said, data)
    if after < AFTER_S:
        return Check("speech", "bad", f"cut off: only {max(after, 0.0):.1f} s after the last word", data)
    said = f"from {speech.begin_s:.1f} s to {speech.end_s:.1f} s, {after:.1f} s before the end"
    return Check("speech", "ok", said, data)


def _sync(take: _Take) -> Check:
    checks = take.episode.checks
    if not len(take.episode.frame_times()):
        camera = take.episode.profile.source.get("camera")
        if camera is None:
            return Check("sync", "not checked", "the rig has no camera")
        return Check("sync", "bad", "no picture was recorded")
    times = take.episode.frame_times()
    sound = take.episode.audio_map.time_ns(np.array([0.0, float(take.episode.original.frames)]))
    late = float(times[0] - sound[0]) / 1e9
    early = float(sound[1] - times[-1]) / 1e9
    data: dict[str, Any] = {"pictures_begin_s": round(late, 3), "pictures_end_before_s": round(early, 3)}
    if late > COVER_S or early > COVER_S:
        where = f"begin {late:.1f} s after" if late > COVER_S else f"end {early:.1f} s before"
        return Check("sync", "bad", f"the pictures {where} the sound", data)
    offset = checks.get("av_offset") or {}
    if offset.get("offset_ms") is not None:
        ms = float(offset["offset_ms"])
        by = "calibration" if offset.get("source") == "calibration" else "slate"
        data |= {"offset_ms": round(ms, 1), "by": by}
        said = f"sound {abs(ms):.0f} ms {'late' if ms >= 0 else 'early'} ({by})"
        return Check("sync", "ok" if abs(ms) <= SYNC_MS else "warning", said, data)
    problem = (checks.get("clocks") or {}).get("problem")
    if problem:
        return Check("sync", "bad", f"clock: {problem}", data)
    return Check("sync", "ok", "by the clocks; no slate was shown", data)


def _sounding(take: _Take) -> Check | None:
    """G2: the sound that is meant is there before anybody speaks, and comes from the device."""
    if take.item.grounding != "G2":
        return None
    target = take.item.target_device
    if target is None or target not in take.item.staging.sounding:
        return Check("sound of the device", "ok", "nothing is to sound: no device fits the request")
    places = take.places
    if target not in places:
        return Check("sound of the device", "not checked", f"{target} has no position in the plan")
    until = take.speech.begin_s - 0.2 if take.speech is not None else take.episode.duration_s
    begin = max(SLATE_S if take.episode.profile.origin == "virtual" else 0.0, until - 4.0)
    if until - begin < 0.5:
        return Check("sound of the device", "bad", "no half second of quiet before the request")
    from dsp import steady_direction

    clip = take.sound[round(begin * 24000) : round(until * 24000)]
    found = steady_direction(clip, 24000)
    name = device_name(take.item, target)
    if found.confidence < CONFIDENT or not np.isfinite(found.azimuth_deg):
        said = f"no direction is heard before the request; is the {name} on?"
        return Check("sound of the device", "bad", said)
    heard = unit_from_direction(found.azimuth_deg, found.elevation_deg)
    away = {
        device: float(np.degrees(np.arccos(np.clip(heard @ take.direction(place), -1, 1))))
        for device, place in places.items()
    }
    data = {
        "azimuth_deg": round(float(found.azimuth_deg), 1),
        "elevation_deg": round(float(found.elevation_deg), 1),
        "away_deg": round(away[target], 1),
    }
    if away[target] <= SOUND_WITHIN_DEG:
        said = f"the {name} is heard {away[target]:.0f}\N{DEGREE SIGN} from its place"
        return Check("sound of the device", "ok", said, data)
    nearest = device_name(take.item, min(away, key=lambda device: away[device]))
    said = f"heard {away[target]:.0f}\N{DEGREE SIGN} beside the {name}, nearest to the {nearest}"
    return Check("sound of the device", "bad", said, data)


def _face(take: _Take) -> Check | None:
    if take.item.grounding not in WITH_FACE:
        return None
    speaker = next((placed for placed in take.item.staging.people if placed.speaks), None)
    speech = take.speech
    if speech is None:
        return Check("face", "not checked", "nobody was heard, so nobody was looked for")
    seen = faces_in(take.episode, take.room, speaker, speech.begin_s, speech.end_s)
    if seen.why is not None:
        return Check("face", "not checked", seen.why)
    data = {"found": seen.found, "elsewhere": seen.elsewhere, "looked": seen.looked, "by": seen.by}
    said = f"in {seen.found} of {counted(seen.looked, 'picture')}, by {seen.by}"
    if 2 * seen.found >= seen.looked:
        return Check("face", "ok", said, data)
    if take.episode.profile.origin == "virtual":
        return Check("face", "not checked", f"{said}, which hardly knows drawn faces", data)
    if not seen.found and seen.elsewhere:
        said += f"; in {seen.elsewhere} only somewhere else than where the speaker should stand"
    return Check("face", "warning", said, data)


def _hand(take: _Take) -> Check | None:
    if take.item.grounding != "G1":
        return None
    from edge.session.hand_check import hands_in

    speaker = next((placed for placed in take.item.staging.people if placed.speaks), None)
    device = speaker.pointing_at if speaker is not None else None
    if device is not None and device not in take.places:
        return Check("hand", "not checked", f"{device} has no position in the plan")
    speech = take.speech
    if speech is None:
        return Check("hand", "not checked", "nobody was heard, so nobody was looked for")
    target = take.places[device] if device is not None else None
    hands = hands_in(take.episode, take.room, speaker, target, speech.begin_s, speech.end_s)
    name = device_name(take.item, device) if device is not None else None
    verdict, said = hands.verdict(name)
    seen = {str(what): times for what, times in hands.counts.items()}
    return Check("hand", verdict, said, {**seen, "looked": hands.looked} if hands.looked else {})


CHECKS: dict[str, Callable[[_Take], Check | None]] = {
    "whole": _whole,
    "level": _level,
    "speech": _speech,
    "sound of the device": _sounding,
    "face": _face,
    "hand": _hand,
    "sync": _sync,
}
