"""The card as plain data: what the page, the Markdown and the JSON all say."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

from recordings.card import facts as of
from recordings.card.facts import CardFacts, five_numbers
from recordings.consent.present import persons_of
from recordings.plan.places import TURNS
from recordings.plan.slots import DIFFICULTIES

TOLD = {"duration_s": "duration", "snr_db": "signal to noise", "rt60_s": "reverberation time RT60"}
UNITS = {"duration_s": "s", "snr_db": "dB", "rt60_s": "s"}


@dataclass(frozen=True)
class Words:
    """What only people can say about a dataset."""

    title: str
    description: str = ""
    licence: str = ""
    contact: str = ""


def summary(facts: CardFacts, words: Words) -> dict[str, Any]:
    """Plain data: numbers of episodes by everything that matters, lengths, sound, consent, reviews."""
    combinations = facts.combinations()
    people = Counter(facts.names[p] for one in facts.episodes for p in persons_of(one.profile))
    speakers = facts.counts(lambda one: [_named(facts, one.profile.speaker)])
    rooms = facts.counts(of.room)
    return {
        "title": words.title,
        "description": words.description,
        "licence": words.licence or of.UNKNOWN,
        "contact": words.contact or of.UNKNOWN,
        "episodes": len(facts.episodes),
        "left_out": len(facts.left_out),
        "hours": round(sum(facts.numbers("duration_s")) / 3600, 4),
        "bytes": sum(one.bytes for one in facts.episodes),
        "pictures": sum(one.pictures or 0 for one in facts.episodes),
        "origin": facts.counts(lambda one: [one.profile.origin]),
        "combinations": [
            {"grounding": g, "query": q, "feasible": f, "infeasible": i}
            for (g, q), (f, i) in combinations.items()
        ],
        "feasibility": facts.counts(lambda one: [one.profile.feasibility]),
        "difficulty": facts.counts(
            lambda one: [one.profile.difficulty] if one.profile.feasibility in (None, "feasible") else [],
            DIFFICULTIES,
        ),
        "rooms": rooms,
        "speakers": speakers,
        "people": dict(sorted(people.items())),
        "rooms_speakers": [
            {"room": room, "speaker": speaker, "episodes": number}
            for (room, speaker), number in sorted(_pairs(facts).items())
        ],
        "target_types": facts.counts(of.target_type),
        "orientation": facts.counts(of.orientation, tuple(TURNS)),
        **{name: _spread(facts, name) for name in TOLD},
        "sharing": facts.counts(lambda one: [one.sharing]),
        "reviews": facts.counts(lambda one: [one.verdict]),
    }


def _named(facts: CardFacts, speaker: str | None) -> str | None:
    return None if speaker is None else facts.names[speaker]


def _pairs(facts: CardFacts) -> Counter[tuple[str, str]]:
    return Counter(
        (of.room(one)[0] or of.UNKNOWN, _named(facts, one.profile.speaker) or of.UNKNOWN)
        for one in facts.episodes
    )


def _spread(facts: CardFacts, name: str) -> dict[str, Any]:
    """known: how many episodes tell it, and five numbers of those; from: where they come from."""
    values = facts.numbers(name)
    sources: Counter[str] = Counter()
    if name != "duration_s":
        sources = Counter(getattr(one, f"{name.rpartition('_')[0]}_from") for one in facts.episodes)
    numbers = five_numbers(values)
    return {
        "known": len(values),
        **({} if numbers is None else {key: round(value, 4) for key, value in numbers.items()}),
        "from": {source: number for source, number in sorted(sources.items(), key=str) if source},
    }
