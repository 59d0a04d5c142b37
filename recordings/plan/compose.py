"""One item of a plan: from a slot to a room, people in it, a device, a request and what would be right.

The composer walks through what was used least first (rooms and speakers, then devices, then turns and sides)
and takes the first that the geometry and the difficulty allow.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from dsp.errors import InputError
from recordings.plan import device_types as types
from recordings.plan import schedule, sentences
from recordings.plan.absent import Absent, absences
from recordings.plan.arrange import States, appliances, heard_in, home_state, likes_for, pleasant, quiet
from recordings.plan.asks import COMMANDS, LIMITS, LOUD_PERCENT, QUESTIONS, Ask, makers_for
from recordings.plan.device_types import APPLIANCES, alike, is_heard, state_where
from recordings.plan.intent import Intent, intents, likes_elsewhere, spoilt
from recordings.plan.model import Participant, PlanItem, PlanRoom
from recordings.plan.people import Stand, place_others, stands
from recordings.plan.places import APART_DEG, Places
from recordings.plan.slots import Slot, alternatives
from recordings.plan.stage_directions import stage_directions
from recordings.plan.tally import Tally
from recordings.plan.wording import (
    device_phrases,
    imperatives,
    own_phrases,
    questions,
    room_words,
    side_phrases,
    wrapped_requests,
)
from recordings.profile import DeviceState, Goal, Placed, RoomState, Staging, Step

Spoken = tuple[str, Goal, DeviceState | None]  # request, what would be right, an appliance that must run

TRIVIAL_BY_SOUND = ("is_on", "is_playing")  # whoever hears it knows the answer


@dataclass(frozen=True)
class _Draft:
    """What is decided so far. states: of devices that are not at rest."""

    slot: Slot
    room: PlanRoom
    speaker: Participant
    rng: random.Random
    clock_min: int
    date: str
    air: dict[str, RoomState]
    states: States = field(default_factory=dict)
    target: DeviceState | None = None
    stand: Stand | None = None
    people: tuple[Placed, ...] = ()

    def having(self, states: States, **changes: Any) -> _Draft:
        """The draft with other states of some devices, and other fields."""
        return replace(self, states={**self.states, **states}, **changes)


class Composer:
    """Makes items for one plan; what it made before (and what `tally` holds) steers what comes next."""

    def __init__(
        self, rooms: Sequence[PlanRoom], participants: Sequence[Participant], seed: int, tally: Tally
    ) -> None:
        self.rooms, self.participants, self.seed, self.tally = tuple(rooms), tuple(participants), seed, tally
        self.places = {room.id: Places(room) for room in rooms}
        self.devices = {device.id: device for room in rooms for device in room.devices}

    def compose(self, slot: Slot) -> PlanItem:
        """The item of a slot, with the id "new". A home that cannot have its difficulty, or its kind of
        infeasibility, gets another one, and the item's note says so.

        Raises InputError when no room and nobody allows any."""
        rng = random.Random(f"{self.seed}/{slot.grounding}/{slot.query}/{slot.feasible}/{slot.number}")
        for wanted in alternatives(slot):
            for room, speaker in self._pairs(wanted, rng):
                draft = self._start(wanted, room, speaker, rng)
                for item in self._items(draft):
                    self.tally.add_item(item, room)
                    if wanted == slot:
                        return item
                    planned = slot.difficulty or slot.feasibility
                    return msgspec.structs.replace(
                        item, note=f"planned as {planned}; this home cannot have it"
                    )
        raise InputError(f"the plan cannot have an episode {slot}: {_why(slot)}")

    def _pairs(self, slot: Slot, rng: random.Random) -> list[tuple[PlanRoom, Participant]]:
        pairs = [(room, person) for room in self.rooms for person in self.participants]
        rng.shuffle(pairs)
        tally, grounding, query = self.tally, slot.grounding, slot.query

        def used(pair: tuple[PlanRoom, Participant]) -> tuple[int, int, int]:
            room, person = pair[0].id, pair[1].id
            return (
                tally["room", room] + tally["speaker", person],
                tally["pair", room, person],
                tally["room", grounding, query, room] + tally["speaker", grounding, query, person],
            )

        return sorted(pairs, key=used)

    def _start(self, slot: Slot, room: PlanRoom, speaker: Participant, rng: random.Random) -> _Draft:
        day, minute = rng.randint(1, 28), 5 * rng.randint(96, 240)
        air = pleasant(self.rooms, rng)
        states = {device.id: quiet(device.type, rng) for device in room.devices}
        return _Draft(slot, room, speaker, rng, minute, f"2026-06-{day:02d}", air, states)

    # ------------------------------------------------------------------ the kinds of item

    def _items(self, draft: _Draft) -> Iterator[PlanItem]:
        if draft.slot.query == "Q4":
            yield from self._implicit(draft)
        elif draft.slot.feasibility == "nonexistent_resource":
            yield from self._nonexistent(draft)
        else:
            yield from self._about_a_device(draft)

    def _about_a_device(self, draft: _Draft) -> Iterator[PlanItem]:
        slot, rng = draft.slot, draft.rng
        table = QUESTIONS if slot.query == "Q1" else COMMANDS
        if slot.feasibility == "physical_limit":
            table = LIMITS
        for target in self._targets(draft):
            makers = makers_for(table, target.type)
            rng.shuffle(makers)
            for maker in makers:
                ask = maker(rng, target.type)
                for ready, phrases in self._arranged(replace(draft, target=target), ask):
                    yield from self._said(ready, ask, phrases)

    def _targets(self, draft: _Draft) -> list[DeviceState]:
        slot = draft.slot
        pool = list(draft.room.devices)
        if slot.grounding == "G2":
            pool = [device for device in pool if device.type in sentences.SOUND_OF]
        elif slot.grounding == "G4":
            pool = [
                device for device in self.devices.values() if own_phrases(device, draft.speaker, self.devices)
            ]
        if slot.query == "Q3":
            pool = [device for device in pool if device.type not in APPLIANCES]
        draft.rng.shuffle(pool)
        return self.tally.least(pool, [("device", device.id) for device in pool])

    def _arranged(self, draft: _Draft, ask: Ask) -> Iterator[tuple[_Draft, list[str]]]:
        """The draft with states, people and places, and how the device may be called then."""
        slot, rng, target = draft.slot, draft.rng, draft.target
        assert target is not None
        by_sound = slot.grounding == "G2"
        if by_sound and ask.key in TRIVIAL_BY_SOUND:
            return
        heard = rng.choice(LOUD_PERCENT) if by_sound or rng.random() < 0.3 else None
        at_target = ask.at_target(target.type, heard)
        if by_sound and not is_heard(target.type, at_target):
            return
        words = [""]
        if by_sound:
            words = list(sentences.SOUND_OF[target.type])
            rng.shuffle(words)
        for word in words:
            likes = self._likes(draft, ask, word)
            states = likes_for(likes, target, ask, slot.difficulty, by_sound)
            if states is None:
                continue
            if by_sound and not self._apart(draft, likes):
                continue
            ready = draft.having({**states, target.id: at_target})
            if by_sound:
                ready = self._silenced(ready, (target.id,))
            for staged in self._staged(ready, likes):
                side = "" if staged.stand is None else staged.stand.side
                yield (
                    staged,
                    device_phrases(
                        slot.grounding, slot.difficulty, target, self.devices, draft.speaker, word, side, rng
                    ),
                )

    def _likes(self, draft: _Draft, ask: Ask, word: str) -> list[DeviceState]:
        """Devices that the words fit, the target among them."""
        slot, target, here = draft.slot, draft.target, draft.room.devices
        assert target is not None
        if slot.grounding == "G2":
            return [device for device in here if device.type in sentences.SOUNDS[word]]
        if slot.grounding == "G1" and slot.difficulty != "easy":
            return [device for device in here if ask.fits(device.type)]
        everywhere = self.devices.values() if slot.grounding in ("G0", "G4") else here
        return [device for device in everywhere if alike(device.type, target.type)]

    def _apart(self, draft: _Draft, likes: Sequence[DeviceState]) -> bool:
        places, target = self.places[draft.room.id], draft.target
        assert target is not None
        return all(
            places.apart_at_rig(target.id, device.id) >= APART_DEG
            for device in likes
            if device.id != target.id
        )

    def _silenced(self, draft: _Draft, heard: Sequence[str]) -> _Draft:
        """Nothing but `heard` is heard in the room."""
        return draft.having(
            {
                device.id: state_where(device.type, {types.ON: True})
                for device in draft.room.devices
                if device.id not in heard and is_heard(device.type, draft.states[device.id])
            }
        )

    # ------------------------------------------------------------------ people

    def _staged(
        self,
        draft: _Draft,
        likes: Sequence[DeviceState],
        without_side: bool = False,
        point: DeviceState | None = None,
    ) -> Iterator[_Draft]:
        """The draft with everybody at a place. without_side: see `stands`. point: a device that the speaker
        points at although it is not the target."""
        places, slot = self.places[draft.room.id], draft.slot
        others = self._others(draft, likes)
        if others is None:
            return
        shown = draft.target or point
        for stand in stands(
            places, draft.speaker, slot.grounding, shown, likes, self.tally, draft.rng, without_side
        ):
            pointing = []
            if slot.grounding == "G1" and draft.target is not None:
                rest = [d for d in likes if d.id != draft.target.id]
                pointing = [(d, [draft.target]) for d in draft.rng.sample(rest, len(rest))]
            visible = [stand.placed.pointing_at] if stand.placed.pointing_at is not None else []
            people = place_others(places, stand.placed, others, draft.rng, pointing, visible)
            if people is None:
                continue
            yield replace(draft, stand=stand, people=people)

    def _others(self, draft: _Draft, likes: Sequence[DeviceState]) -> tuple[Participant, ...] | None:
        if draft.slot.difficulty != "hard":
            return ()
        rest = [person for person in self.participants if person.id != draft.speaker.id]
        if not rest:
            return None
        draft.rng.shuffle(rest)
        rest = self.tally.least(rest, [("beside", person.id) for person in rest])
        if draft.slot.grounding == "G4":  # those first who could mean a device of their own by the same words
            kinds = {device.id for device in likes}
            rest.sort(key=lambda person: not kinds.intersection(person.devices))
        return tuple(rest[: draft.rng.choice((1, 2))])

    # ------------------------------------------------------------------ words and goal

    def _said(self, draft: _Draft, ask: Ask, phrases: list[str]) -> Iterator[PlanItem]:
        """Items in varied words; those with a request that nobody has made yet come first."""
        target = draft.target
        assert target is not None
        yield from self._finished(draft, self._spoken(draft, ask, phrases, target.id, ask.reason))

    def _spoken(
        self, draft: _Draft, ask: Ask, phrases: Sequence[str], device_id: str | None, reason: str
    ) -> Iterator[Spoken]:
        """Requests in all words that the bank has. device_id: None when no device could be meant."""
        slot = draft.slot
        wanted = () if device_id is None else schedule.asserts(device_id, dict(ask.wanted))
        feasible = slot.feasibility == "feasible"
        if slot.query == "Q3":
            yield from self._schedules(draft, ask, phrases, device_id, reason)
            return
        if not feasible:
            goal = Goal(kind="refusal", asserts=wanted, reason=reason)
        else:
            goal = Goal(kind="answer" if slot.query == "Q1" else "state", asserts=wanted)
        if slot.query == "Q1":
            texts = questions(ask.key, phrases)
        else:
            texts = wrapped_requests(imperatives(ask.key, ask.words, phrases))
        draft.rng.shuffle(texts)
        for text in texts:
            yield text, goal, None

    def _schedules(
        self, draft: _Draft, ask: Ask, phrases: Sequence[str], device_id: str | None, reason: str
    ) -> Iterator[Spoken]:
        slot, rng = draft.slot, draft.rng
        do = imperatives(ask.key, ask.words, phrases)
        about = device_id or ""
        if slot.feasibility == "temporal_contradiction":
            for plan in schedule.contradictory(ask, about, do, draft.clock_min, slot.number, rng):
                yield plan.text, Goal(kind="refusal", steps=plan.steps, reason=plan.reason), None
            return
        anchors = [
            device
            for device in appliances(self.rooms)
            if device.id != device_id and not (slot.grounding == "G2" and device.room == draft.room.id)
        ]
        kinds = list(schedule.KINDS)
        rng.shuffle(kinds)
        for kind in self.tally.least(kinds, [("schedule", kind) for kind in kinds]):
            for plan in schedule.feasible(kind, ask, about, do, draft.clock_min, anchors, rng):
                if slot.feasibility == "feasible":
                    goal = Goal(kind="state", steps=plan.steps)
                else:
                    steps: tuple[Step, ...] = () if device_id is None else plan.steps
                    goal = Goal(kind="refusal", steps=steps, reason=reason)
                yield plan.text, goal, plan.anchor

    def _finished(self, draft: _Draft, spoken: Iterator[Spoken]) -> Iterator[PlanItem]:
        """Items; a request that nobody has made yet comes first."""
        choices = list(spoken)
        fresh = [choice for choice in choices if choice[0].casefold() not in self.tally.requests]
        for text, goal, anchor in fresh or choices:
            running = {}
            if anchor is not None:
                running = {anchor.id: state_where(anchor.type, {types.OPERATION: types.RUNNING})}
            yield self._item(draft.having(running), text, goal)

    def _item(self, draft: _Draft, text: str, goal: Goal) -> PlanItem:
        slot, room, states = draft.slot, draft.room, draft.states
        hour, minute = divmod(draft.clock_min, 60)
        clock = f"{draft.date} {hour:02d}:{minute:02d}:00"
        home = home_state(self.rooms, self.participants, draft.people, states, draft.air, clock)
        staging = Staging(room=room.id, people=draft.people, sounding=heard_in(room, states))
        item = PlanItem(
            id="new",
            grounding=slot.grounding,
            query=slot.query,
            feasibility=slot.feasibility,
            difficulty=slot.difficulty,
            request=text,
            speaker=draft.speaker.id,
            target_device=None if draft.target is None else draft.target.id,
            goal=goal,
            home=home,
            staging=staging,
        )
        return msgspec.structs.replace(item, do=stage_directions(item, room, self.participants))

    # ------------------------------------------------------------------ what is not there

    def _nonexistent(self, draft: _Draft) -> Iterator[PlanItem]:
        slot, rng = draft.slot, draft.rng
        table = QUESTIONS if slot.query == "Q1" else COMMANDS
        turn = self.tally["absent", slot.grounding]
        for absent in absences(slot.grounding, draft.room, self.devices, draft.speaker, turn, rng):
            if slot.query == "Q3" and absent.device_type in APPLIANCES:
                continue
            makers = makers_for(table, absent.device_type)
            rng.shuffle(makers)
            for maker in makers:
                ask = maker(rng, absent.device_type)
                if absent.keys and ask.key not in absent.keys:
                    continue
                for item in self._without(draft.having(absent.states), absent, ask):
                    self.tally.add("absent", slot.grounding)
                    yield item

    def _without(self, draft: _Draft, absent: Absent, ask: Ask) -> Iterator[PlanItem]:
        if absent.quiet:
            draft = self._silenced(draft, tuple(absent.states))
        for staged in self._staged(draft, absent.likes, True, absent.points_at):
            phrases = absent.phrases
            if draft.slot.grounding == "G3" and staged.stand is not None:
                phrases = side_phrases(absent.device_type, staged.stand.side)
            spoken = self._spoken(staged, ask, phrases, absent.missing, absent.reason)
            yield from self._finished(staged, spoken)

    # ------------------------------------------------------------------ implicit intents

    def _implicit(self, draft: _Draft) -> Iterator[PlanItem]:
        slot, room, place = draft.slot, draft.room, room_words(draft.room.id)
        if slot.grounding == "G4":
            own = next((r for r in self.rooms if r.id == draft.speaker.room), None)
            if own is None:
                return
            room, place = own, "my room"
        found = intents(room, slot.feasibility, room_words(room.id), draft.rng)
        names = [("device", i.target.id) if i.target is not None else ("intent", i.key) for i in found]
        for intent in self.tally.least(found, names):
            elsewhere = likes_elsewhere(self.rooms, room, intent, slot.difficulty != "easy")
            beside = [d for d in intent.states if intent.target is not None and d != intent.target.id]
            if slot.difficulty in ("medium", "hard") and not elsewhere and not beside:
                continue
            ready = draft.having({**elsewhere, **intent.states}, target=intent.target)
            ready = replace(ready, air={**draft.air, room.id: spoilt(draft.air[room.id], intent)})
            for staged in self._staged(ready, ()):
                self.tally.add("intent", intent.key)
                yield from self._finished(staged, self._complaints(staged, intent, place))

    def _complaints(self, draft: _Draft, intent: Intent, place: str) -> Iterator[Spoken]:
        goal = Goal(kind="state", changes=intent.changes, asserts=intent.asserts)
        if draft.slot.feasibility != "feasible":
            goal = Goal(kind="refusal", changes=intent.changes, asserts=intent.asserts, reason=intent.reason)
        texts = list(sentences.INTENTS[intent.key])
        draft.rng.shuffle(texts)
        for text in texts:
            yield text.format(r=f"in {place}"), goal, None


def _why(slot: Slot) -> str:
    """What a home needs for a slot, in words."""
    needs = {
        "G0": "devices with names",
        "G1": "devices at least 20 degrees apart as seen by whoever points",
        "G2": "devices that make a sound, and others of their kind at least 20 degrees away",
        "G3": "a device on one side of somebody, and others of its kind on other sides",
        "G4": "participants with a `room` among those of the plan, or with `devices` of their own",
    }[slot.grounding]
    if slot.query == "Q4" and slot.feasibility == "feasible":
        needs += ", and a device that alone can change the air or light of a room"
    return f"it needs {needs}, with places to stand in the picture"
