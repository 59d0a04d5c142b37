"""The answers of an agent: a JSON object per line, one line per episode."""

from __future__ import annotations

import stat
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import msgspec
from msgspec import UNSET, UnsetType

from dsp.errors import InputError
from recordings.profile import RoomVariable, Value
from recordings.score import Outcome

State = dict[str, dict[str, Value]]  # device id -> attribute -> value
Rooms = dict[str, dict[RoomVariable, float]]  # room -> variable -> degrees C, percent, lux, micrograms per m3
MOST_BYTES = 1 << 30  # of an answer file: 272 episodes with whole homes are some MB


class StateAt(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """The home `at_min` minutes after the episode began."""

    at_min: float
    state: State


class Answer(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """What an agent did with one episode.

    episode: the profile's id. declared: id of the declared device, null for "there is none"; a line
    without this key never declared, which is never right. outcome: how the agent finished. final_state:
    what the home was at the end; a device or attribute that it leaves out is as at the start. states_at:
    the home at moments on the way, for schedules (Q3). done_min: when an appliance that a schedule waits
    for was done, where the home does not tell. rooms and rooms_untouched: air and light at the end, and
    those of the same home left alone (Q4).
    """

    episode: str
    declared: str | UnsetType | None = UNSET
    answer: str = ""
    outcome: Outcome | None = None
    final_state: State | None = None
    states_at: tuple[StateAt, ...] | None = None
    done_min: dict[str, float] = {}
    rooms: Rooms | None = None
    rooms_untouched: Rooms | None = None


@dataclass(frozen=True)
class Answers:
    """by_episode: the first answer to each episode. duplicates: episodes that were answered more than
    once."""

    by_episode: dict[str, Answer]
    duplicates: tuple[str, ...] = ()


def collect(answers: Iterable[Answer]) -> Answers:
    """Answers by episode."""
    by_episode: dict[str, Answer] = {}
    duplicates: dict[str, None] = {}
    for answer in answers:
        if answer.episode in by_episode:
            duplicates[answer.episode] = None
        by_episode.setdefault(answer.episode, answer)
    return Answers(by_episode, tuple(duplicates))


def read_answers(path: Path) -> Answers:
    """Read a file of answers (JSON Lines, UTF-8) strictly; empty lines are skipped.

    Raises InputError that names the line, the key and the value.
    """
    decoder = msgspec.json.Decoder(Answer)
    found = []
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise InputError(f"{path}: cannot be read: is no regular file")
        if path.stat().st_size > MOST_BYTES:
            raise InputError(f"{path}: {path.stat().st_size} bytes are more than an answer file can have")
        with open(path, "rb") as file:
            for number, line in enumerate(file, 1):
                if not line.strip():
                    continue
                try:
                    found.append(decoder.decode(line))
                except (msgspec.DecodeError, UnicodeDecodeError) as error:
                    raise InputError(f"{path}: line {number}: {error}") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None
    return collect(found)


def write_answers(answers: Iterable[Answer]) -> bytes:
    """The content of an answer file."""
    encoder = msgspec.json.Encoder()
    return b"".join(encoder.encode(answer) + b"\n" for answer in answers)
