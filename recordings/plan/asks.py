"""What may be asked of a device: questions (Q1), commands (Q2, Q3), and values that no device can reach.

An `Ask` says which attributes answer or must hold, and which states make another device a distractor (the
right result there would be another one) or settle it (nothing would change, the answer would be the same).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from recordings.plan import device_types as types
from recordings.plan.device_types import AIR, APPLIANCES, LIGHTS, MEDIA, Attributes, is_heard, state_where
from recordings.plan.spoken import degrees, percent
from recordings.profile import Value

LOUD_PERCENT = (40, 50, 60, 70)
STEPS_PERCENT = (20, 30, 40, 50, 60, 70, 80, 90)


@dataclass(frozen=True)
class Ask:
    """key: which sentences of the bank. wanted: attributes of the goal, or the true ones of a question.
    before: what holds at the target at the start. other: what makes another device a distractor. words: what
    the sentences fill in. reason: why it cannot be (a physical limit)."""

    key: str
    wanted: Mapping[str, Value]
    before: Mapping[str, Value]
    other: Mapping[str, Value]
    words: Mapping[str, str] = field(default_factory=dict)
    reason: str = ""

    def fits(self, device_type: str) -> bool:
        """Whether a device of this type has all that is asked for."""
        return all(path in types.AT_REST[device_type] for path in self.wanted)

    def at_target(self, device_type: str, heard_percent: int | None) -> Attributes:
        """The target's state at the start."""
        return state_where(device_type, self.before, heard_percent)

    def distracting(self, device_type: str) -> Attributes | None:
        """A quiet state in which the right result would differ; None when there is none."""
        return _quiet(device_type, self.other)

    def settled(self, device_type: str) -> Attributes | None:
        """A quiet state in which all that is asked for holds already; None when there is none."""
        return _quiet(device_type, self.wanted)


def _quiet(device_type: str, given: Mapping[str, Value]) -> Attributes | None:
    state = state_where(device_type, given)
    return None if is_heard(device_type, state) else state


Maker = Callable[[random.Random, str], Ask]


def _two(rng: random.Random, steps: tuple[int, ...]) -> tuple[int, int]:
    one, other = rng.sample(steps, 2)
    return one, other


def _on(rng: random.Random, kind: str) -> Ask:
    return Ask("on", {types.ON: True}, {types.ON: False}, {types.ON: False})


def _off(rng: random.Random, kind: str) -> Ask:
    return Ask("off", {types.ON: False}, {types.ON: True}, {types.ON: True})


def _dim(rng: random.Random, kind: str) -> Ask:
    now, then = _two(rng, STEPS_PERCENT)
    before = {types.ON: True, types.LEVEL: types.level_of(now)}
    wanted = {types.ON: True, types.LEVEL: types.level_of(then)}
    return Ask("dim", wanted, before, before, {"p": percent(then)})


def _speed(rng: random.Random, kind: str) -> Ask:
    now, then = _two(rng, STEPS_PERCENT)
    other = {types.PERCENT: types.QUIET_PERCENT}
    return Ask("speed", {types.PERCENT: then}, {types.PERCENT: now}, other, {"p": percent(then)})


def _cool(rng: random.Random, kind: str) -> Ask:
    now, then = _two(rng, tuple(range(18, 28)))
    before = {types.COOLING: 100 * now}
    return Ask("cool", {types.COOLING: 100 * then}, before, before, {"t": degrees(then)})


def _volume(rng: random.Random, kind: str) -> Ask:
    now, then = _two(rng, STEPS_PERCENT)
    before = {types.LEVEL: types.level_of(now)}
    return Ask("volume", {types.LEVEL: types.level_of(then)}, before, before, {"p": percent(then)})


def _pause(rng: random.Random, kind: str) -> Ask:
    path, now, then = _working(kind)
    return Ask("pause", {path: then}, {path: now}, {path: now})


def _resume(rng: random.Random, kind: str) -> Ask:
    path, then, now = _working(kind)
    return Ask("resume", {path: then}, {path: now}, {path: now})


def _working(kind: str) -> tuple[str, int, int]:
    """Path, value at work, value paused."""
    if kind in MEDIA:
        return types.PLAYBACK, types.PLAYING, types.MEDIA_PAUSED
    return types.OPERATION, types.RUNNING, types.PAUSED


def _stop(rng: random.Random, kind: str) -> Ask:
    path = types.OPERATION
    return Ask("stop", {path: types.STOPPED}, {path: types.RUNNING}, {path: types.PAUSED})


def _chill(rng: random.Random, kind: str) -> Ask:
    now, then = _two(rng, (2, 3, 4, 5, 6))
    before = {types.FRIDGE: 100 * now}
    return Ask("chill", {types.FRIDGE: 100 * then}, before, before, {"t": degrees(then)})


def _close(rng: random.Random, kind: str) -> Ask:
    return Ask("close", {types.LIFT: 10000}, {types.LIFT: 0}, {types.LIFT: 0})


def _open(rng: random.Random, kind: str) -> Ask:
    return Ask("open", {types.LIFT: 0}, {types.LIFT: 10000}, {types.LIFT: 10000})


def _halfway(rng: random.Random, kind: str) -> Ask:
    before = {types.LIFT: rng.choice((0, 10000))}
    return Ask("halfway", {types.LIFT: 5000}, before, before)


# Commands, and the types that they are given to. A cycle that runs has another state later by itself, so
# schedules (Q3) leave appliances out.
COMMANDS: tuple[tuple[Maker, tuple[str, ...]], ...] = (
    (_on, (*LIGHTS, *AIR, *MEDIA)),
    (_off, (*LIGHTS, *AIR, *MEDIA, *APPLIANCES)),
    (_dim, ("dimmable_light",)),
    (_speed, ("fan", "air_purifier", "humidifier")),
    (_cool, ("air_conditioner",)),
    (_volume, MEDIA),
    (_pause, (*MEDIA, *APPLIANCES)),
    (_resume, (*MEDIA, *APPLIANCES)),
    (_stop, APPLIANCES),
    (_chill, ("refrigerator",)),
    (_close, ("window_covering",)),
    (_open, ("window_covering",)),
    (_halfway, ("window_covering",)),
)


def _question(key: str, path: str, true: Value, other: Value, **more: Value) -> Ask:
    return Ask(key, {path: true}, {path: true, **more}, {path: other, **more})


def _is_on(rng: random.Random, kind: str) -> Ask:
    true = rng.random() < 0.5
    return _question("is_on", types.ON, true, not true)


def _how_bright(rng: random.Random, kind: str) -> Ask:
    true, other = (types.level_of(p) for p in _two(rng, STEPS_PERCENT))
    return Ask("how_bright", {types.LEVEL: true}, {types.ON: True, types.LEVEL: true},
               {types.ON: True, types.LEVEL: other})  # fmt: skip


def _how_fast(rng: random.Random, kind: str) -> Ask:
    true = rng.choice(STEPS_PERCENT)
    return Ask("how_fast", {types.PERCENT: true}, {types.PERCENT: true}, {types.PERCENT: types.QUIET_PERCENT})


def _how_cool(rng: random.Random, kind: str) -> Ask:
    true, other = _two(rng, tuple(range(18, 28)))
    return _question("how_cool", types.COOLING, 100 * true, 100 * other)


def _how_loud(rng: random.Random, kind: str) -> Ask:
    true, other = (types.level_of(p) for p in _two(rng, STEPS_PERCENT))
    return _question("how_loud", types.LEVEL, true, other)


def _is_working(rng: random.Random, kind: str) -> Ask:
    path, at_work, paused = _working(kind)
    true, other = rng.choice(((at_work, paused), (paused, at_work)))
    key = "is_playing" if kind in MEDIA else "is_running"
    return _question(key, path, true, other)


def _how_chilled(rng: random.Random, kind: str) -> Ask:
    true, other = _two(rng, (2, 3, 4, 5, 6))
    return _question("how_cool", types.FRIDGE, 100 * true, 100 * other)


def _how_closed(rng: random.Random, kind: str) -> Ask:
    true, other = _two(rng, (0, 2500, 5000, 7500, 10000))
    return _question("how_closed", types.LIFT, true, other)


QUESTIONS: tuple[tuple[Maker, tuple[str, ...]], ...] = (
    (_is_on, (*LIGHTS, *AIR, *MEDIA)),
    (_how_bright, ("dimmable_light",)),
    (_how_fast, ("fan", "air_purifier", "humidifier")),
    (_how_cool, ("air_conditioner",)),
    (_how_loud, MEDIA),
    (_is_working, (*MEDIA, *APPLIANCES)),
    (_how_chilled, ("refrigerator",)),
    (_how_closed, ("window_covering",)),
)


def _beyond(key: str, path: str, value: int, words: dict[str, str], reason: str) -> Ask:
    return Ask(key, {path: value}, {}, {}, words, reason)


def _too_bright(rng: random.Random, kind: str) -> Ask:
    p = rng.choice((120, 150, 180, 200))
    why = f"A light has no more than one hundred percent; {percent(p)} was asked for."
    return _beyond("dim", types.LEVEL, types.level_of(p), {"p": percent(p)}, why)


def _no_dimmer(rng: random.Random, kind: str) -> Ask:
    p = rng.choice(STEPS_PERCENT)
    why = "This light can only be switched on and off; it cannot be dimmed."
    return _beyond("dim", types.LEVEL, types.level_of(p), {"p": percent(p)}, why)


def _too_fast(rng: random.Random, kind: str) -> Ask:
    p = rng.choice((120, 140, 150, 200))
    why = f"Its speed ends at one hundred percent; {percent(p)} was asked for."
    return _beyond("speed", types.PERCENT, p, {"p": percent(p)}, why)


def _too_cool(rng: random.Random, kind: str) -> Ask:
    t = rng.choice((5, 8, 10, 12, 36, 40))
    why = f"It can be set from sixteen to thirty-two degrees; {degrees(t)} was asked for."
    return _beyond("cool", types.COOLING, 100 * t, {"t": degrees(t)}, why)


def _too_chilled(rng: random.Random, kind: str) -> Ask:
    t = rng.choice((-10, -5, 12, 15, 20))
    why = f"It can be set from one to seven degrees; {degrees(t)} was asked for."
    return _beyond("chill", types.FRIDGE, 100 * t, {"t": degrees(t)}, why)


def _too_loud(rng: random.Random, kind: str) -> Ask:
    p = rng.choice((120, 130, 150, 200))
    why = f"Its volume ends at one hundred percent; {percent(p)} was asked for."
    return _beyond("volume", types.LEVEL, types.level_of(p), {"p": percent(p)}, why)


LIMITS: tuple[tuple[Maker, tuple[str, ...]], ...] = (
    (_too_bright, ("dimmable_light",)),
    (_no_dimmer, ("on_off_light",)),
    (_too_fast, ("fan", "air_purifier", "humidifier")),
    (_too_cool, ("air_conditioner",)),
    (_too_chilled, ("refrigerator",)),
    (_too_loud, MEDIA),
)


def makers_for(table: tuple[tuple[Maker, tuple[str, ...]], ...], device_type: str) -> list[Maker]:
    """What of a table can be asked of a type."""
    return [maker for maker, kinds in table if device_type in kinds]
