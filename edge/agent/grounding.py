"""Which device is meant: the words of a request and what was seen and heard, as one posterior over devices.

Pure functions: the intent, the findings of the perception tools and the home's own description go in; nothing
is asked of anybody. A finding that is not there (the tool was not called) is no evidence; one without a value
(the tool looked and found nothing) is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import atan2, degrees, exp, hypot, prod
from typing import Any, Protocol

import numpy as np

from edge.agent.home_view import HomeView
from edge.agent.needs import helpers
from edge.agent.plan_orders import Wanted, answers, fits, meant, wanted
from edge.agent.posterior import (
    SIDE_HALF,
    SIDE_MIDDLE,
    Missing,
    Posterior,
    Row,
    angle_deg,
    normalised,
    on_side,
    tail,
    wrapped,
)
from edge.language.intent import DeviceWords, Intent
from edge.perception.room_map import MapDevice
from edge.perception.sounds import can_sound, sound_odds
from edge.perception.tools import Finding

Findings = Mapping[str, Finding[Any]]

SAYS_LIGHT = re.compile(r"\b(?:bright|dim)", re.I)
ALREADY = 0.3  # a device that is already as asked is less likely meant
ELSEWHERE = 0.2  # "the lamp", without a room: one of another room
COULD = 0.25  # odds of a sound from which on a device "could make it"
NOWHERE = 0.02  # likelihood of a sound from where no device is, against one from the middle of a device
UNHEARD = 0.12  # chance that a device which sounds is not heard
SILENT = 0.1  # chance that people speak of a sound and none of the devices makes it
# Weight of pointing at something else, against a device in the middle of the ray: who names a kind that is
# there means one of it; an arm that points at nothing known may be no pointing at all.
OF_NO_KIND, NOT_A_DEVICE = 3e-4, 1e-2
WORDS_DO = 0.45  # share of one device by the words alone from which on no arm is needed
POINTING_MISSED = 0.12  # chance that an arm is not seen although it points
STRANGER = 0.05  # chance before any evidence that the speaker does not live here
SCALE = {"face": 0.05, "voice": 0.05}  # of identity scores: odds change by e for so much
OUTLIER = 0.03  # chance that an identity has nothing to do with the speaker
FACING_FLOOR_DEG = 4.0  # people do not look straight ahead
NO_SUCH_SIDE = 0.35  # weight of "nothing of that kind is on that side"


class _Ray(Protocol):
    """edge.perception.pointing.Pointing: an arm in the room, and how well places fit it."""

    origin_m: Any
    direction: Any

    def log_likelihood(self, places_m: Any) -> Any:
        """(n, 3) places -> (n,) log density."""


class _Heard(Protocol):
    """edge.perception.direction.Direction."""

    unit: Any
    sigma_deg: float
    support: float


class _Facing(Protocol):
    """edge.perception.facing.Facing, in the room frame."""

    azimuth_deg: float
    sigma_deg: float


class _Speaker(Protocol):
    """edge.perception.active_speaker.SpeakerSeen, in the room frame; sigma_m: of the distance to the rig."""

    position_m: Any
    sigma_m: float


@dataclass(frozen=True)
class _Case:
    """Everything that bears on one description of a device."""

    words: DeviceWords
    findings: Findings
    home: HomeView
    intent: Intent | None

    def prior(self, device: MapDevice) -> float:
        """By what is asked of it and by its present state."""
        intent = self.intent
        if intent is None:
            return 1.0
        if intent.inquiry is not None:
            return answers(device, intent.inquiry)
        if not intent.orders:
            return 1.0
        change = intent.orders[0].change
        odds = fits(device, change)
        if change.act == "dim" and SAYS_LIGHT.search(intent.text) and meant(device, change).act != "dim":
            odds *= 0.1
        if intent.orders[0].moment is None and odds == 1.0:
            found = wanted(device, change)
            if isinstance(found, Wanted) and found.holds(device.attributes):
                odds *= ALREADY
        return odds

    def value(self, name: str) -> Any:
        """Of a finding; None when it is not there or found nothing."""
        finding = self.findings.get(name)
        return None if finding is None else finding.value


def ground(intent: Intent, findings: Findings, home: HomeView) -> Posterior:
    """The posterior over the devices of the home for a request.

    A need (Q4) is grounded in the device that can help. An intent without a device (a question about a
    room, a word to the agent) has no candidates, and none is 0.
    """
    if intent.need is not None:
        return _helping(intent, findings, home)
    if intent.device is None:
        return Posterior((), 0.0, room=home.here)
    return ground_device(intent.device, findings, home, intent)


def ground_device(
    words: DeviceWords, findings: Findings, home: HomeView, intent: Intent | None = None
) -> Posterior:
    """The posterior for one description of a device; intent: what is asked of it, None: nothing."""
    case = _Case(words, findings, home, intent)
    by = {"G0": _named, "G1": _pointed, "G2": _heard, "G3": _beside, "G4": _own}
    return by[words.grounding](case)


def _is_kind(device: MapDevice, words: DeviceWords) -> bool:
    return not words.types or device.type in words.types


# ------------------------------------------------------------------------------ G0


def _named(case: _Case) -> Posterior:
    words, home = case.words, case.home
    if words.unknown_room is not None:
        return Posterior((), 1.0, "no_such_room", room=None)
    pool = [device for device in home.devices if words.room in (None, device.room)]
    if words.name is not None:
        if not words.known_name:
            return Posterior((), 1.0, "no_such_name")
        name = words.name.casefold()
        named = [device for device in pool if device.name.casefold() == name]
        if not named and words.room is not None and words.types:  # "the washing machine in the study"
            named = [device for device in pool if device.type in words.types]
    else:
        named = [device for device in pool if _is_kind(device, words)]
    if words.owner is not None or words.owner_room is not None:
        return _of_somebody(case, named)
    if not named:
        missing: Missing = "not_in_home" if words.room is None else "not_in_room"
        return Posterior((), 1.0, missing, room=words.room)
    rows = []
    for device in named:
        near = 1.0 if words.room is not None or device.room == home.here else ELSEWHERE
        rows.append(Row(device.id, device.name, near * case.prior(device)))
    found, none = normalised(rows, 0.0)
    return Posterior(found, none, room=words.room)


def _of_somebody(case: _Case, named: Sequence[MapDevice]) -> Posterior:
    """ "Anna's lamp", "the lamp in Anna's room", whoever says it."""
    words, home = case.words, case.home
    person = words.owner_room or words.owner
    own = DeviceWords("G4", words.words, own="room" if words.owner_room is not None else "device")
    devices, missing = _belonging(own, person, home)
    rows = [Row(d.id, d.name, case.prior(d)) for d in named if d in devices]
    found, none = normalised(rows, 0.0)
    member = home.room.member(person or "")
    return Posterior(found, none, missing, speaker=person, room=None if member is None else member.room)


# ------------------------------------------------------------------------------ G1


def _pointed(case: _Case) -> Posterior:
    words, home = case.words, case.home
    here = home.placed()
    kin = [device for device in here if _is_kind(device, words)]
    looked = "pointing" in case.findings
    ray: _Ray | None = case.value("pointing")
    evidence = ("pointing",) if looked else ()
    if ray is not None and here:
        aimed = _aimed(ray, here)
        near = max(aimed, key=lambda name: aimed[name][0])
        if not kin:
            return Posterior((), 1.0, "points_elsewhere", near, room=home.here, evidence=evidence)
        rows = [Row(d.id, d.name, case.prior(d), *aimed[d.id]) for d in kin]
        found, none = normalised(rows, OF_NO_KIND if words.types else NOT_A_DEVICE)
        why: Missing = "points_elsewhere" if words.types else "points_at_nothing"
        return Posterior(found, none, why, near, room=home.here, evidence=evidence)
    if not kin:
        missing: Missing = "points_elsewhere" if looked else "not_here"
        return Posterior((), 1.0, missing, room=home.here, evidence=evidence)
    rows = [Row(d.id, d.name, case.prior(d)) for d in kin]
    total = sum(row.prior for row in rows)
    first, second = (*sorted((row.prior for row in rows), reverse=True), 0.0)[:2]
    if not looked:
        none_odds = 0.0
    elif words.types or (first > WORDS_DO * total and second <= first / 2):
        none_odds = 0.2 * total
    else:
        none_odds = total * (1 - POINTING_MISSED) / POINTING_MISSED
    found, none = normalised(rows, none_odds)
    return Posterior(found, none, "points_at_nothing", room=home.here, evidence=evidence)


def _aimed(ray: _Ray, devices: Sequence[MapDevice]) -> dict[str, tuple[float, float]]:
    """device -> (likelihood against that of the middle of the ray, degrees away from it)."""
    origin, direction = np.asarray(ray.origin_m, np.float64), np.asarray(ray.direction, np.float64)
    places = np.array([device.position_m for device in devices], np.float64)
    told = np.asarray(ray.log_likelihood(np.vstack([places, origin + direction])), np.float64)
    aways = [angle_deg((place - origin).tolist(), direction.tolist()) for place in places]
    return {
        device.id: (float(np.exp(min(0.0, log - told[-1]))), away)
        for device, log, away in zip(devices, told, aways, strict=False)
    }


# ------------------------------------------------------------------------------ G2


def _heard(case: _Case) -> Posterior:
    """A device is meant when it could make the sound, does so in its state, and stands where it is heard."""
    words, home = case.words, case.home
    kind = words.kind or "any"
    listened = "sound" in case.findings
    heard: _Heard | None = case.value("sound")
    here = [device for device in home.placed() if _is_kind(device, words)]
    rows = []
    nearest, least, others = None, 180.0, 0.0  # others: how well something of another kind explains the sound
    for device in home.placed():
        away = None
        likelihood = 1.0
        sounds = can_sound(device.attributes, "any") * sound_odds(device.type, "any")
        if heard is not None:
            away = angle_deg(home.room.direction_to(device).tolist(), heard.unit)
            likelihood = tail(away, heard.sigma_deg)
            if sounds > 0.2 and away < least:
                nearest, least = device.id, away
        elif listened:
            likelihood = UNHEARD
        odds = sound_odds(device.type, kind)
        if device not in here or odds < COULD:
            others = max(others, likelihood * sounds)
            continue
        odds *= can_sound(device.attributes, kind)
        rows.append(Row(device.id, device.name, odds * case.prior(device), likelihood, away))
    could = any(sound_odds(d.type, kind) >= COULD for d in here)
    found, none = normalised(rows, SILENT * (max(NOWHERE, others) if heard is not None else 1.0))
    missing: Missing = "nothing_sounds" if could else "nothing_could_sound"
    evidence = ("sound",) if listened else ()
    return Posterior(found, none, missing, nearest, room=home.here, evidence=evidence)


# ------------------------------------------------------------------------------ G3


def _beside(case: _Case) -> Posterior:
    words, home = case.words, case.home
    side = words.side or "front"
    kin = [device for device in home.placed() if _is_kind(device, words)]
    if not kin:
        return Posterior((), 1.0, "not_here", room=home.here)
    facing: _Facing | None = case.value("facing")
    places = _standing(case)
    rows, chances = [], []
    for device in kin:
        chance, away = 2 * SIDE_HALF[side] / 360, None
        if facing is not None and places:
            chance, away = _side_chance(device, side, facing, places)
        chances.append(chance)
        rows.append(Row(device.id, device.name, case.prior(device), chance, away))
    nowhere = NO_SUCH_SIDE * prod(1 - chance for chance in chances) if facing is not None else 0.0
    found, none = normalised(rows, nowhere)
    evidence = tuple(name for name in ("facing", "speaker") if case.value(name) is not None)
    return Posterior(found, none, "other_side", room=home.here, evidence=evidence)


def _side_chance(
    device: MapDevice, side: str, facing: _Facing, places: Sequence[tuple[float, float]]
) -> tuple[float, float]:
    """(chance that the device is on that side of the speaker, degrees from the middle of the side)."""
    assert device.position_m is not None
    chances, aways = [], []
    sigma = hypot(facing.sigma_deg, FACING_FLOOR_DEG)
    for x, y in places:
        bearing = degrees(atan2(device.position_m[1] - y, device.position_m[0] - x))
        angle = wrapped(bearing - facing.azimuth_deg)
        chances.append(on_side(angle, side, sigma))
        aways.append(abs(wrapped(angle - SIDE_MIDDLE[side])))
    return sum(chances) / len(chances), sum(aways) / len(aways)


def _standing(case: _Case) -> list[tuple[float, float]]:
    """Where the speaker may stand, a few points of equal weight, nearer and farther."""
    speaker: _Speaker | None = case.value("speaker")
    if speaker is None or getattr(speaker, "position_m", None) is None:
        ray: _Ray | None = case.value("pointing")
        return [] if ray is None else [(float(ray.origin_m[0]), float(ray.origin_m[1]))]
    place = np.asarray(speaker.position_m, np.float64)[:2]
    sight = place - np.asarray(case.home.room.microphone_m, np.float64)[:2]
    step = 1.2 * float(speaker.sigma_m) * sight / max(float(np.linalg.norm(sight)), 1e-9)
    return [(float(x), float(y)) for x, y in (place, place + step, place - step)]


# ------------------------------------------------------------------------------ G4


def speaker_odds(findings: Findings, home: HomeView) -> dict[str | None, float]:
    """Who speaks: the household's members and a stranger (None), by face and voice."""
    people = [member.id for member in home.room.household]
    odds: dict[str | None, float] = {name: (1 - STRANGER) / len(people) for name in people} if people else {}
    odds[None] = STRANGER if people else 1.0
    for kind, scale in SCALE.items():
        finding = findings.get(kind)
        identity = None if finding is None else finding.value
        if identity is None:
            continue
        scores = dict(identity.candidates)
        known: dict[str | None, float] = {
            name: scores.get(name, identity.limit - 3 * scale) for name in people
        }
        known[None] = identity.limit
        most = max(known.values())
        weights = {name: exp((score - most) / scale) for name, score in known.items()}
        total = sum(weights.values())
        odds = {
            name: odds[name] * ((1 - OUTLIER) * weights[name] / total + OUTLIER / len(weights))
            for name in odds
        }
    total = sum(odds.values())
    return {name: share / total for name, share in odds.items()}


def _own(case: _Case) -> Posterior:
    words, home = case.words, case.home
    if words.owner is not None or words.owner_room is not None:
        return _of_somebody(case, [device for device in home.devices if _is_kind(device, words)])
    odds = speaker_odds(case.findings, home)
    shares: dict[str, float] = {}
    none = 0.0
    why: dict[Missing, float] = {}
    for person, share in odds.items():
        devices, missing = _belonging(words, person, home)
        weights = {device.id: case.prior(device) for device in devices}
        total = sum(weights.values())
        if not devices or total <= 0:
            none += share
            why[missing] = why.get(missing, 0.0) + share
            continue
        for name, weight in weights.items():
            shares[name] = shares.get(name, 0.0) + share * weight / total
    rows = [Row(name, home.device(name).name, share) for name, share in shares.items()]
    found, left = normalised(rows, none)
    speaker = max(odds, key=lambda name: odds[name])
    evidence = tuple(name for name in SCALE if case.value(name) is not None)
    most = max(why.items(), key=lambda item: item[1])[0] if why else None
    member = None if speaker is None else home.room.member(speaker)
    room = member.room if member is not None else None
    return Posterior(found, left, most, speaker=speaker, speakers=odds, room=room, evidence=evidence)


def _belonging(words: DeviceWords, person: str | None, home: HomeView) -> tuple[Sequence[MapDevice], Missing]:
    """What "my fan" or "the fan in my room" can mean when this person says it, and why it is nothing."""
    member = None if person is None else home.room.member(person)
    if member is None:
        return (), "unknown_speaker"
    kin = [device for device in home.devices if _is_kind(device, words)]
    in_room = [device for device in kin if member.room is not None and device.room == member.room]
    if words.own == "room":
        return in_room, "not_in_own_room"
    own = [device for device in kin if device.id in member.devices]
    return own or in_room, "not_owned"


# ------------------------------------------------------------------------------ Q4


def _helping(intent: Intent, findings: Findings, home: HomeView) -> Posterior:
    need = intent.need
    assert need is not None
    if not need.own_room:
        room = need.room or home.here
        if room not in home.rooms:
            return Posterior((), 1.0, "no_such_room", room=room)
        found, none = normalised(_help_rows(helpers(need, room, home)), 0.0)
        return Posterior(found, none, "no_helper", room=room)
    odds = speaker_odds(findings, home)
    speaker = max(odds, key=lambda name: odds[name])
    rooms: dict[str | None, float] = {}
    for person, share in odds.items():
        member = None if person is None else home.room.member(person)
        where = None if member is None else member.room
        rooms[where] = rooms.get(where, 0.0) + share
    room_of = max(rooms, key=lambda name: rooms[name])
    evidence = tuple(
        name for name in SCALE if findings.get(name) is not None and findings[name].value is not None
    )
    if room_of is None:
        why: Missing = "unknown_speaker" if speaker is None else "not_in_own_room"
        return Posterior((), 1.0, why, speaker=speaker, speakers=odds, evidence=evidence)
    rows = []
    none = rooms.get(None, 0.0)
    for where, share in rooms.items():
        if where is None:
            continue
        here, lost = normalised(_help_rows(helpers(need, where, home)), 0.0)
        none += share * lost
        rows += [Row(one.device_id, one.name, share * one.probability) for one in here]
    found, left = normalised(rows, none)
    return Posterior(
        found, left, "no_helper", speaker=speaker, speakers=odds, room=room_of, evidence=evidence
    )


def _help_rows(found: Iterable[tuple[MapDevice, float]]) -> list[Row]:
    return [Row(device.id, device.name, odds) for device, odds in found]
