"""A data folder of small episodes for the tests of releases: sessions with a journal, reviews and consent."""

from __future__ import annotations

import json
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import numpy as np

import dsp
from recordings import Episode, EpisodeWriter, Profile
from recordings.consent.book import ConsentBook
from recordings.profile import (
    Assert,
    Consent,
    DeviceState,
    Goal,
    HomeState,
    Member,
    Placed,
    Staging,
)
from recordings.review.log import append, make_review

RATE = 48000
START_NS = 5_000_000_000_123
SECRET = "rtsp://admin:hunter2@10.0.0.7/cam"  # in the rig's snapshot: must never go out
AUDIO = {"rate_hz": RATE, "channels": 4, "format": "ambix", "bits": 24}
VIDEO = {"width_px": 64, "height_px": 48, "fps": 20.0}
HOME = HomeState(
    devices=(
        DeviceState(
            id="fan_1", type="fan", name="desk fan", room="living", attributes={"1.OnOff.OnOff": True}
        ),
        DeviceState(
            id="lamp_1", type="dimmable_light", name="lamp", room="living", position_m=(1.0, 2.0, 0.5)
        ),
    ),
    rooms=("living", "study"),
    people=("p1",),
    household=(Member(id="p1", name="Ada", room="study", devices=("lamp_1",)),),
    clock="2026-01-02 03:04:05",
)
GOAL = Goal(kind="state", asserts=(Assert(device_id="fan_1", attribute="1.OnOff.OnOff", value=False),))


def profile(name: str, session: str, person: str, room: str = "living", **fields: Any) -> Profile:
    staged = fields.pop("with_people", ())
    people = tuple(
        Placed(person=one, mouth_m=(2.0, 2.0, 1.5), facing_deg=90.0, speaks=one == person)
        for one in (person, *staged)
    )
    wanted: dict[str, Any] = {
        "origin": "recorded",
        "grounding": "G2",
        "query": "Q2",
        "feasibility": "feasible",
        "difficulty": "easy",
        "request": 'silence that humming, "please" äöü',
        "speaker": person,
        "target_device": "fan_1",
        "goal": GOAL,
        "home": HOME,
        "staging": Staging(room=room, people=people, sounding=("fan_1",)),
        "consent": Consent(recording="given", sharing="given", note="form 7"),
        "rig": {"hearth_rig": 1, "camera": {"source": "url", "url": SECRET, "hfov_deg": 90.0}},
        "notes": "the neighbour called",
    }
    return Profile(id=name, session=session, created_utc="2026-01-02T03:04:05Z", **{**wanted, **fields})


def sound(seconds: float, seed: int, level: float = 0.1) -> np.ndarray:
    """Noise from one direction as 24-bit AmbiX, int32 left-justified."""
    mono = level * np.random.default_rng(seed).standard_normal(round(seconds * RATE))
    foa = dsp.encode(mono, 40.0, 10.0)
    return np.clip(np.round(foa.astype(np.float64) * 2**23), -(2**23), 2**23 - 1).astype(np.int32) << 8


def record(
    root: Path,
    told: Profile,
    seed: int = 0,
    *,
    seconds: float = 1.2,
    ppm: float = 60.0,
    lost_at: int | None = None,
    level: float = 0.1,
    pictures: bool = True,
    jpeg: bool = False,
    more: bool = False,
    truth: dict[str, Any] | None = None,
) -> Episode:
    """One finished episode: 10 ms blocks on a drifting clock, a picture every 60 ms with jitter.

    lost_at: the source loses 4800 frames before this one."""
    further = {"door": VIDEO} if more else None
    writer = EpisodeWriter.create(root, told, AUDIO, VIDEO if pictures else None, more_videos=further)
    samples = sound(seconds, seed, level)
    rng = np.random.default_rng(seed)
    lost = 0
    for seq, first in enumerate(range(0, len(samples), 480)):
        gone = 4800 if first == lost_at else 0
        lost += gone
        t_ns = START_NS + round((first + lost) / (RATE * (1 + ppm * 1e-6)) * 1e9)
        writer.write_audio(samples[first : first + 480], t_ns, seq, first + lost, gone)
        if seq % 6 == 0 and pictures:
            image = np.full((48, 64, 3), (seq * 7 + seed) % 256, np.uint8)
            at = t_ns + 1_234_567 + int(rng.integers(0, 999_999))
            if jpeg:
                import cv2

                coded = cv2.imencode(".jpg", image)[1].tobytes()
                writer.write_frame(None, at, seq // 6, jpeg=coded, size=(64, 48))
            else:
                writer.write_frame(image, at, seq // 6)
            if more:
                writer.write_frame(image, at + 500, seq // 6, camera="door")
    if truth is not None:
        writer.add_file("truth.json", json.dumps(truth).encode())
    return writer.finish(report=False)


def accept(episode: Path, decision: str = "accept", reviewers: tuple[str, ...] = ("Eva", "Max")) -> None:
    for name in reviewers:
        reasons = () if decision == "accept" else ("sound",)
        append(episode.parent, make_review(episode, name, decision, reasons))


def agree(data: Path, *persons: str, uses: tuple[str, ...] = ("recording", "sharing")) -> None:
    book = ConsentBook.open(data)
    for person in persons:
        book.add(
            person,
            uses,  # type: ignore[arg-type]
            form="form-7",
            until=date.today() + timedelta(days=365),
            given=date(2026, 1, 1),
        )


def keep(session: Path, item: str, take: int, episode: str) -> None:
    """A line of the session's journal, as a guided session writes it."""
    line = {"step": "kept", "t_utc": "2026-01-02T03:04:05Z", "item": item, "take": take, "episode": episode}
    with open(session / "session.jsonl", "a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")


def household(data: Path) -> dict[str, Path]:
    """Three speakers in two rooms, nothing wrong with any: name -> folder."""
    made = {}
    plan = [
        ("e1", "s1", "p1", "living", {}, {"lost_at": 24000, "seconds": 1.5}),
        ("e2", "s1", "p2", "study", {"grounding": "G1", "query": "Q1"}, {"jpeg": True, "more": True}),
        (
            "e3",
            "s2",
            "p3",
            "living",
            {
                "feasibility": "nonexistent_resource",
                "difficulty": None,
                "target_device": None,
                "goal": Goal(kind="refusal", reason="there is no such device"),
            },
            {"level": 0.6},
        ),
        ("e4", "s2", "p1", "bedroom", {"grounding": None, "query": None}, {"pictures": False}),
    ]
    for seed, (name, session, person, room, fields, how) in enumerate(plan):
        made[name] = record(data, profile(name, session, person, room, **fields), seed, **how).path
        accept(made[name])
    agree(data, "p1", "p2", "p3")
    return made
