"""The page of an episode: self-contained, safe, complete, and honest about what is missing."""

from __future__ import annotations

import base64
import io
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.signal import correlate

import dsp
from capture.rig import load_rig, rig_to_dict
from dsp.errors import InputError
from recordings import EpisodeWriter, Profile, geometry
from recordings.camera_model import CameraModel
from recordings.profile import Assert, Goal
from recordings.report import render, write_report
from recordings.report_checks import checks_in_words
from recordings.report_model import DirectionTrack, Facts, Mark, TrueSource
from recordings.report_pictures import wanted_times
from recordings.report_plan import bearing
from recordings.report_rig import view_rig
from recordings.report_sound import hz_from_mel, mel_from_hz
from recordings.report_timeline import PageClock
from recordings.report_tracks import _places, clock, decimated, time_ticks

SECONDS, RATE, FPS = 5, 48_000, 10
T0 = 1_000_000_000_000
TALKER, TALK = (35.0, 5.0), (1.5, 3.0)
EVIDENCE = {
    "text": "turn off the fan on my left",
    "reason": "posterior 0.98",
    "recognition": {"text": "turn off the fan on my left", "confidence": 0.81},
    "talker": {
        "azimuth_deg": 125.0,
        "elevation_deg": 5.0,
        "sigma_deg": 4.0,
    },  # room frame; the rig looks to 90
    "sound": None,
    "posterior": [
        {"device_id": "living_room_fan_2", "name": "desk fan", "probability": 0.02, "away_deg": 90.0},
        {"device_id": "living_room_fan_1", "name": "standing fan", "probability": 0.98, "away_deg": 12.0},
    ],
}
KEYS = ("room", "size_m", "devices", "people", "id", "name", "camera", "microphone", "position_m", "yaw_deg")
DEMO_RIG = Path(__file__).resolve().parents[2] / "capture" / "virtual" / "demo_rig.yaml"
EVIL = '<script>alert("x")</script> & </style> {{js}} \'"'


def make_episode(
    root: Path,
    *,
    seconds: float = SECONDS,
    video: bool = True,
    finish: bool = True,
    rig: bool = True,
    truth: bool = True,
    agent: bool = True,
    **fields: Any,
) -> Path:
    """An episode with a talker of noise at TALKER during TALK, written by the real writer."""
    snapshot = rig_to_dict(load_rig(DEMO_RIG)) if rig else {}
    target = "living_room_fan_1"
    profile = Profile(
        id="20260401-101010-test",
        session="s1",
        created_utc="2026-04-01T10:10:10Z",
        origin="virtual",
        rig=snapshot,
        **{
            "grounding": "G3",
            "query": "Q2",
            "feasibility": "feasible",
            "request": "Turn off the fan on my left.",
            "speaker": "alex",
            "target_device": target,
            "goal": Goal(
                kind="state", asserts=(Assert(device_id=target, attribute="1.OnOff.OnOff", value=False),)
            ),
            **fields,
        },
    )
    writer = EpisodeWriter.create(
        root,
        profile,
        {"rate_hz": RATE, "channels": 4, "format": "ambix", "bits": 24},
        {"width_px": 320, "height_px": 180, "fps": FPS} if video else None,
    )
    rng = np.random.default_rng(1)
    frames = int(seconds * RATE)
    mono = rng.normal(0, 0.05, frames)
    t = np.arange(frames) / RATE
    mono *= (t >= TALK[0]) & (t < TALK[1])
    foa = dsp.encode(mono.astype(np.float32), *TALKER) + rng.normal(0, 3e-4, (frames, 4)).astype(np.float32)
    samples = np.round(np.clip(foa, -1, 1) * (2**23 - 1)).astype(np.int32) << 8
    for seq, start in enumerate(range(0, frames, 4800)):
        block = samples[start : start + 4800]
        writer.write_audio(block, T0 + round(start * 1e9 / RATE), seq, start)
    if video:
        for seq in range(int(seconds * FPS)):
            image = np.full((180, 320, 3), 40 + 3 * (seq % 50), dtype=np.uint8)
            writer.write_frame(image, T0 + round(seq * 1e9 / FPS), seq)
    if agent:
        spoken = {"start_ns": T0 + round(TALK[0] * 1e9), "end_ns": T0 + round(TALK[1] * 1e9)}
        writer.event("ready", T0, agent="test")
        writer.event("heard", T0 + round(3.2e9), text="turn off the fan on my left", evidence=spoken)
        writer.event("declared", T0 + round(3.5e9), device_id=target, evidence=EVIDENCE)
        command = {"device_id": target, "command": "Off", "args": {}, "ok": True}
        writer.event("command", T0 + round(3.6e9), **command, changed={"1.OnOff.OnOff": False})
        writer.event("home", T0 + round(3.6e9), changed={target: {"1.OnOff.OnOff": False}})
        writer.event("said", T0 + round(3.9e9), text="I turned it off.")
        writer.event("finished", T0 + round(4e9), answer="I turned it off.", outcome="done")
        score = {
            "declared": target,
            "truth": target,
            "grounding_correct": True,
            "goal_reached": True,
            "text": "",
        }
        writer.add_file("score.json", json.dumps(score).encode())
    if truth:
        source = {
            "id": "alex",
            "kind": "talker",
            "device_id": None,
            "active_s": [list(TALK)],
            "path": [[0.0, *TALKER, 2.0]],
        }
        writer.add_file("truth.json", json.dumps({"start_ns": T0, "sources": [source]}).encode())
    if finish:
        return writer.finish(report=False).path
    writer.close_streams()
    return writer.path


@pytest.fixture(scope="module")
def episode(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_episode(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="module")
def page(episode: Path) -> str:
    return render(episode)


class Walker(HTMLParser):
    """Collects tags and text; checks that tags close in order."""

    VOID = frozenset({"meta", "img", "br", "path", "circle", "line", "rect"})

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.stack: list[str] = []
        self.errors: list[str] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.stack.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        if not self.stack or self.stack.pop() != tag:
            self.errors.append(tag)

    def handle_data(self, data: str) -> None:
        if self.stack and self.stack[-1] not in ("script", "style"):
            self.text.append(data)


def walk(page: str) -> Walker:
    walker = Walker()
    walker.feed(page)
    return walker


def script_data(page: str) -> dict[str, Any]:
    found = re.search(r'<script type="application/json" id="episode">(.*?)</script>', page, re.S)
    assert found
    return dict(json.loads(found.group(1)))


def test_nothing_outside_the_page_is_asked_for(page: str) -> None:
    for tag, attributes in walk(page).tags:
        for name in ("src", "href", "srcset", "poster", "data", "action"):
            value = attributes.get(name)
            assert value is None or value.startswith("data:"), (tag, name, value[:60])
    style = "".join(re.findall(r"<style>(.*?)</style>", page, re.S))
    assert "@import" not in style and "http" not in style and "url(" not in style.replace("url(#", "")
    assert "default-src 'none'" in page


def test_markup_is_well_formed_and_small(page: str) -> None:
    walker = walk(page)
    assert walker.errors == [] and walker.stack == []
    assert "{{" not in page
    assert len(page) < 3_000_000


def test_the_head_says_who_wanted_what_and_how_it_ended(page: str) -> None:
    text = " ".join(walk(page).text)
    for words in ("Turn off the fan on my left.", "Alex", "its place says which device", "finished"):
        assert words in text
    assert text.count("standing fan") >= 2  # declared and truth, by name
    assert "living_room_fan_1" in text and "✓ right" in text and "✓ reached" in text


def test_what_happened_is_told_in_order(page: str) -> None:
    told = page[page.index("What happened") :]
    words = [
        "Alex speaks",
        "heard “turn off the fan on my left” (for 1.5 s)",
        "declares standing fan (posterior 0.98)",
        "standing fan: Off",
        "says “I turned it off.”",
        "is done (did it)",
    ]
    places = [told.index(w) for w in words]
    assert places == sorted(places)
    assert "ready" not in told[: told.index("Is the recording good?")]


def test_how_the_agent_decided_is_shown(page: str) -> None:
    told = page[page.index("How the agent decided") : page.index("What happened")]
    assert "The voice came from 35° left, 5° up (± 4°)" in told
    assert "(confidence 0.81)" in told
    assert told.index("standing fan") < told.index("desk fan")  # the likeliest first
    assert "98.0 %" in told and 'style="width:98.0%"' in told


def test_hostile_text_stays_text(tmp_path: Path) -> None:
    folder = make_episode(tmp_path, request=EVIL, speaker=EVIL, notes=EVIL, seconds=4, video=False)
    path = next(folder.glob("timeline.jsonl"))
    line = {"type": "event", "t_ns": T0 + 10**9, "kind": EVIL, "data": {"text": EVIL}}
    path.write_text(path.read_text() + json.dumps(line) + "\n")
    page = render(folder)
    walker = walk(page)
    assert walker.errors == []
    assert sum(tag == "script" for tag, _ in walker.tags) == 2  # the data and the page's own
    assert "alert(" not in re.sub(r"&lt;script&gt;alert", "", page)
    assert not any(name.startswith("on") for _, attributes in walker.tags for name in attributes)
    assert EVIL in "".join(walker.text)  # shown as it was said


def test_measured_direction_is_drawn_where_the_talker_is(page: str) -> None:
    data = script_data(page)
    track = data["directions"]
    inside = [i for i, t in enumerate(track["t"]) if TALK[0] + 0.2 < t < TALK[1] - 0.2 and track["active"][i]]
    assert len(inside) > 5
    assert np.median([track["az"][i] for i in inside]) == pytest.approx(TALKER[0], abs=5)
    # The ring in the picture at that time lies where a pinhole camera sees the talker.
    frame = int(np.argmin(np.abs(np.array(data["frames"]["t"]) - 2.2)))
    ring = re.search(r'class="measured ring" cx="(\d+)" cy="(\d+)"', data["frames"]["marks"][frame])
    assert ring
    seen = geometry.project_direction(
        *TALKER, T_mic_camera=geometry.camera_pose((0, 0, 0.08)), camera=CameraModel.nominal(320, 180, 90)
    )
    assert int(ring.group(1)) / 1000 == pytest.approx(float(seen.u_px[0]) / 320, abs=0.05)
    assert int(ring.group(2)) / 1000 * 320 / 180 == pytest.approx(float(seen.v_px[0]) / 180, abs=0.12)
    # ... and the true place is marked by a cross in the same picture.
    assert 'class="talker shape"' in data["frames"]["marks"][frame]
    assert data["frames"]["words"][frame].endswith("° left")


def test_no_direction_is_claimed_in_silence(page: str) -> None:
    data = script_data(page)
    frame = int(np.argmin(np.abs(np.array(data["frames"]["t"]) - 0.7)))
    assert "measured" not in data["frames"]["marks"][frame]
    assert data["frames"]["words"][frame] == "no sound direction"


def test_pictures_are_those_of_their_time(page: str) -> None:
    import cv2

    data = script_data(page)
    assert len(data["frames"]["t"]) == len(data["frames"]["src"])
    for t, source in list(zip(data["frames"]["t"], data["frames"]["src"], strict=True))[::5]:
        jpeg = base64.b64decode(source.partition(",")[2])
        image = cv2.imdecode(np.frombuffer(jpeg, np.uint8), cv2.IMREAD_COLOR)
        assert image.mean() == pytest.approx(40 + 3 * round(t * FPS), abs=4)


def test_the_sound_of_the_page_is_the_sound_of_the_episode(page: str, episode: Path) -> None:
    import av

    found = re.search(r'src="data:audio/mpeg;base64,([^"]+)"', page)
    assert found
    with av.open(io.BytesIO(base64.b64decode(found.group(1)))) as container:
        rate = container.streams.audio[0].rate
        left = np.concatenate([f.to_ndarray()[0] for f in container.decode(audio=0)])
    assert rate == 24_000
    stereo = dsp.to_stereo(make_reference(episode))[:, 0]
    assert len(left) / rate == pytest.approx(SECONDS, abs=0.1)
    count = min(len(left), len(stereo))
    lag = int(np.argmax(correlate(left[:count], stereo[:count], "full", "fft"))) - (count - 1)
    assert abs(lag) / rate < 0.06  # the encoder's own delay; browsers take most of it off


def make_reference(episode: Path) -> np.ndarray:
    from recordings import Episode

    return Episode.open(episode).audio(24_000)


def test_writing_the_page_before_sealing_and_never_after(tmp_path: Path) -> None:
    folder = make_episode(tmp_path, seconds=3, video=False, finish=False)
    path = write_report(folder)
    assert path == folder / "report.html" and "<h1>" in path.read_text()
    sealed = make_episode(tmp_path / "b", seconds=3, video=False)
    before = sorted((p.name, p.stat().st_mtime_ns) for p in sealed.iterdir())
    with pytest.raises(InputError, match="sealed"):
        write_report(sealed)
    out = write_report(sealed, tmp_path / "page.html")
    assert "<h1>" in out.read_text()
    assert before == sorted((p.name, p.stat().st_mtime_ns) for p in sealed.iterdir())


def test_finish_puts_the_page_into_the_manifest(tmp_path: Path) -> None:
    folder = make_episode(tmp_path, seconds=3, video=False, finish=False)
    from recordings.finish import complete

    done = complete(folder)
    assert done.verify().ok
    before = (folder / "report.html").read_bytes()
    assert write_report(folder) == folder / "report.html"  # sealed: the page it has is the answer
    assert (folder / "report.html").read_bytes() == before and done.verify().ok
    assert "report.html" in (folder / "manifest.json").read_text()
    text = " ".join(walk((folder / "report.html").read_text()).text)
    assert "✓ finished" in text


@pytest.mark.parametrize(
    "missing",
    ["video", "truth", "agent", "rig"],
)
def test_a_missing_part_is_left_out(tmp_path: Path, missing: str) -> None:
    folder = make_episode(tmp_path, seconds=4, **{missing: False})
    page = render(folder)
    walker = walk(page)
    assert walker.errors == []
    present = {
        "video": 'id="frame"' in page,
        "truth": 'class="truth talker"' in page,
        "agent": "The agent declared" in page or "Agent:" in page,
        "rig": 'class="plan"' in page,
    }
    if missing == "agent":
        assert "declares" not in page
    else:
        assert not present[missing]
    assert 'class="wave"' in page and 'id="play"' in page


def test_an_interrupted_episode_says_so(tmp_path: Path) -> None:
    folder = make_episode(tmp_path, seconds=3, finish=False)
    marker = json.loads((folder / "RECORDING.json").read_text())
    (folder / "RECORDING.json").write_text(json.dumps({**marker, "pid": 0}))
    page = render(folder)
    assert "✕ interrupted" in page and "hearth repair" in page
    assert 'class="wave"' in page  # from the original: the release form is not there yet
    assert "No sound directions were computed" not in page or 'class="truth talker"' not in page


@pytest.mark.parametrize(
    "name", ["truth.json", "checks.json", "score.json", "timeline.jsonl", "episode.yaml"]
)
def test_broken_files_become_notes(episode: Path, tmp_path: Path, name: str) -> None:
    import shutil

    folder = tmp_path / "broken"
    shutil.copytree(episode, folder)
    (folder / name).write_text('{"sources": [{"kind": 3}, 7], "x": ')
    page = render(folder)
    assert walk(page).errors == []
    assert 'class="notes"' in page


@pytest.mark.parametrize("junk", [None, True, 10**30, "x", [], {}, [[1]], -(10**12)])
def test_impossible_values_in_lines_and_rig_do_not_stop_the_page(
    episode: Path, tmp_path: Path, junk: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    import shutil

    import yaml

    from recordings import report_sound

    monkeypatch.setattr(report_sound, "MP3_SECONDS", 0.2)
    folder = tmp_path / "junk"
    shutil.copytree(episode, folder)
    lines = [json.loads(x) for x in (folder / "timeline.jsonl").read_text().splitlines()]
    for kind in ("audio", "frame", "doa", "event"):
        line = next(x for x in lines if x["type"] == kind)
        for key in set(line) - {"type", "t_ns"}:
            line[key] = junk
    (folder / "timeline.jsonl").write_text("".join(json.dumps(x) + "\n" for x in lines))
    profile = yaml.safe_load((folder / "episode.yaml").read_text())
    profile["rig"]["room"]["devices"][0] = junk
    profile["rig"]["room"]["devices"][1]["position_m"] = junk
    profile["rig"]["camera"]["yaw_deg"] = junk
    profile["rig"]["microphone"]["position_m"] = junk
    (folder / "episode.yaml").write_text(yaml.safe_dump(profile))
    page = render(folder)
    assert walk(page).errors == [] and 'class="wave"' in page
    assert 'class="plan"' not in page  # where the microphone stands is not known


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=6),
    max_leaves=25,
)


@given(raw=values)
def test_any_rig_snapshot_can_be_viewed(raw: Any) -> None:
    view = view_rig(raw)
    if view.has_plan:
        assert view.room_size_m is not None and np.isfinite(view.room_size_m).all()


def test_the_built_in_rig_is_understood_whole() -> None:
    view = view_rig(rig_to_dict(load_rig(DEMO_RIG)))
    assert view.has_plan and view.camera is not None and len(view.devices) >= 8
    assert view.device("living_room_fan_1") is not None and ("alex", "Alex") in view.people


def test_odd_but_valid_truth_is_left_out_with_a_note(episode: Path, tmp_path: Path) -> None:
    import shutil

    folder = tmp_path / "odd"
    shutil.copytree(episode, folder)
    (folder / "truth.json").write_text(json.dumps({"sources": [{"kind": "talker"}, 7, None]}))
    page = render(folder)
    assert "not in the known form" in page


def test_a_folder_that_is_no_episode_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such folder"):
        render(tmp_path / "nowhere")
    with pytest.raises(InputError, match="no episode"):
        render(tmp_path)


def test_without_sound_the_pictures_carry_the_time(episode: Path, tmp_path: Path) -> None:
    import shutil

    folder = tmp_path / "silent"
    shutil.copytree(episode, folder)
    shutil.rmtree(folder / "foa_48k")
    (folder / "foa_24k.wav").unlink()
    page = render(folder)
    assert "has no sound" in page and 'id="frame"' in page and 'class="wave"' not in page


def test_twenty_minutes_stay_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A long take: size of the page and number of drawn parts do not grow with the length."""
    import soundfile

    from recordings import report_sound
    from recordings.profile import profile_to_yaml

    monkeypatch.setattr(report_sound, "MP3_SECONDS", 60.0)  # encoding is what takes time
    seconds, rate = 1200, 4_000
    folder = tmp_path / "long"
    folder.mkdir()
    rng = np.random.default_rng(3)
    minute = dsp.encode(rng.normal(0, 0.02, rate * 60).astype(np.float32), 20.0, 0.0)
    with soundfile.SoundFile(folder / "foa_24k.wav", "w", rate, 4, "PCM_16") as file:
        for _ in range(seconds // 60):
            file.write(minute)
    rig = rig_to_dict(load_rig(DEMO_RIG))
    profile = Profile(id="long", session="s", created_utc="2026-04-01T00:00:00Z", origin="recorded", rig=rig)
    (folder / "episode.yaml").write_text(profile_to_yaml(profile))
    lines: list[dict[str, Any]] = [
        {
            "type": "audio",
            "t_ns": T0 + s * 10**9,
            "file_frame": s * RATE,
            "frames": RATE,
            "first_frame": s * RATE,
        }
        for s in range(seconds)
    ]
    lines += [
        {
            "type": "doa",
            "t_ns": T0 + i * 10**8,
            "t_s": i / 10,
            "azimuth_deg": 20.0,
            "elevation_deg": 0.0,
            "confidence": 0.5,
            "uncertainty_deg": 5.0,
            "active": True,
        }
        for i in range(seconds * 10)
    ]
    (folder / "timeline.jsonl").write_text("".join(json.dumps(x) + "\n" for x in lines))
    page = render(folder)
    assert len(page) < 3_000_000
    assert len(script_data(page)["directions"]["t"]) <= 6000
    assert "20:00.0" in page and "first 1:00.0" in page


def test_the_mp3_of_a_long_take_fits_its_budget(episode: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from recordings import report_sound
    from recordings.audio_file import open_audio

    reader = report_sound.SoundReader(open_audio(episode / "foa_24k.wav"), "ambix")
    monkeypatch.setattr(report_sound, "MP3_BYTES", 12_000)
    assert 5_000 < len(report_sound.encode_mp3(reader, 1.0, float(SECONDS))) < 13_000


# ------------------------------------------------------------------ parts


def test_page_time_follows_the_sound_through_drift_and_gaps() -> None:
    # Two blocks of 1 s, 0.5 s lost between them; the file is not filled.
    lines = [
        {"type": "audio", "t_ns": T0, "file_frame": 0, "frames": 48_000},
        {"type": "audio", "t_ns": T0 + 1_500_000_000, "file_frame": 48_000, "frames": 48_000},
    ]
    page_clock = PageClock(lines, 48_000.0)
    stamps = T0 + np.array([-(10**8), 0, 5 * 10**8, 12 * 10**8, 15 * 10**8, 2 * 10**9, 3 * 10**9])
    np.testing.assert_allclose(page_clock(stamps), [-0.1, 0.0, 0.5, 1.0, 1.0, 1.5, 2.5])


def test_truth_takes_the_short_way_over_the_rear() -> None:
    source = TrueSource(
        kind="talker",
        label="a",
        intervals_s=((0.0, 1.0),),
        times_s=np.array([0.0, 1.0]),
        azimuth_deg=np.array([170.0, -170.0]),
        elevation_deg=np.zeros(2),
        distance_m=np.ones(2),
    )
    azimuth, _, _ = source.at(0.5)
    assert abs(abs(azimuth) - 180.0) < 1e-9


def test_texts_of_events_do_not_cover_each_other_and_stay_on_the_page() -> None:
    duration = 10.0
    marks = [Mark(t, "Agent", "declares the washing machine") for t in (1.0, 1.1, 9.5, 9.6, 9.7)]
    places, lines = _places(marks, duration)
    assert lines <= 4
    taken: dict[int, list[tuple[float, float]]] = {}
    for mark, place in zip(marks, places, strict=True):
        start = mark.start_s - place.room_s if place.flip else mark.start_s
        end = mark.start_s if place.flip else mark.start_s + place.room_s
        assert 0.0 <= start <= end <= duration + 1e-9
        assert all(end <= a + 1e-9 or start >= b - 1e-9 for a, b in taken.get(place.line, []))
        taken.setdefault(place.line, []).append((start, end))


def test_the_direction_of_the_request_is_that_of_the_stronger_source() -> None:
    times = np.arange(0.05, 2.0, 0.1)
    azimuth = np.where(np.arange(len(times)) % 3 == 0, 80.0, -30.0)  # a device at 80, the talker at -30
    ones, zeros = np.ones(len(times)), np.zeros(len(times))
    facts = Facts(
        id="x",
        profile=None,
        state="finished",
        rig=view_rig({}),
        duration_s=2.0,
        directions=DirectionTrack(times, azimuth, zeros, ones, ones * 5, ones > 0),
        truth=(),
        marks=(),
        checks=(),
        verdict=None,
        files=(),
        notes=(),
    )
    towards = bearing(facts)
    assert towards is not None
    assert towards.azimuth_deg == pytest.approx(-30.0) and towards.windows < towards.of_windows


def test_decimation_keeps_the_confident_rows() -> None:
    count = 10_000
    confidence = np.zeros(count)
    confidence[::37] = 0.9
    active = confidence > 0
    zeros = np.zeros(count)
    track = DirectionTrack(np.arange(count) / 10, zeros, zeros, confidence, zeros, active)
    rows = decimated(track, 100)
    assert len(rows) == 100 and active[rows].all() and (np.diff(rows) > 0).all()


def test_mel_scale() -> None:
    assert float(mel_from_hz(1000.0)) == pytest.approx(1000.0, abs=0.1)  # by definition of the scale
    np.testing.assert_allclose(hz_from_mel(mel_from_hz(np.array([0.0, 440.0, 12_000.0]))), [0, 440, 12_000])


def test_spectrogram_puts_a_tone_in_its_row() -> None:
    import cv2

    from recordings.report_sound import SPECTRUM_ROWS, MelSpectrogram

    rate, frames = 24_000, 48_000
    tone = np.sin(2 * np.pi * 3000 * np.arange(frames) / rate).astype(np.float32)
    spectrogram = MelSpectrogram(frames, rate)
    for start in range(0, frames, 7000):
        spectrogram.push(tone[start : start + 7000])
    image = cv2.imdecode(np.frombuffer(spectrogram.jpeg(), np.uint8), cv2.IMREAD_GRAYSCALE)
    brightest = int(np.argmax(image.mean(axis=1)))
    expected = image.shape[0] * (1 - float(mel_from_hz(3000.0) / mel_from_hz(12_000.0)))
    assert abs(brightest - expected) <= 2 * image.shape[0] / SPECTRUM_ROWS


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "0.0 s"),
        (59.94, "59.9 s"),
        (61.25, "1:01.2"),
        (119.96, "2:00.0"),
        (3599.99, "1:00:00"),
        (3725, "1:02:05"),
    ],
)
def test_times_for_people(seconds: float, words: str) -> None:
    assert clock(seconds) == words


@pytest.mark.parametrize("duration", [0.01, 0.7, 12.0, 61.0, 3600.0, 40_000.0, 1e6])
def test_time_axis_has_a_readable_number_of_ticks(duration: float) -> None:
    ticks = time_ticks(duration)
    assert 1 <= len(ticks) <= 13 and ticks[0] == 0.0 and ticks[-1] <= duration + 1e-6


def test_chosen_pictures_are_spread_and_few() -> None:
    times = np.arange(0, 600, 1 / 15)
    chosen = wanted_times(times)
    assert 12 <= len(chosen) <= 60
    gaps = np.diff(times[chosen])
    assert gaps.max() < 2 * gaps.min()
    assert list(wanted_times(np.array([3.0]))) == [0]
    assert len(wanted_times(np.zeros(0))) == 0


def check_of(title: str, data: Any, lines: list[dict[str, Any]]) -> Any:
    return next(c for c in checks_in_words(data, lines, 10.0) if c.title == title)


def test_checks_say_how_good_their_numbers_are() -> None:
    data = {
        "clocks": {"drift_ppm": 25.3, "drift_sigma_ppm": 1.2},
        "av": {"offset_ms": -80.0, "sigma_ms": 5.0, "events": 2},
    }
    lines = [{"type": "frame", "t_ns": T0 + i * 10**8, "dropped": 0} for i in range(5)]
    drift = check_of("Clock of the sound", data, lines)
    assert (drift.status, drift.value) == ("ok", "+25.3 ± 1.2 ppm") and "91 ms per hour" in drift.text
    offset = check_of("Sound against picture", data, lines)
    assert (
        offset.status == "fault"
        and "early by 80 ms" in offset.text
        and "2 flash-and-beep pairs" in offset.quality
    )
    unknown = check_of("Sound against picture", {}, lines)
    assert unknown.status == "unknown" and "not measured" in unknown.text
    within = check_of("Clock of the sound", {"drift_ppm": 300.0, "drift_sigma_ppm": 400.0}, lines)
    assert within.status == "ok" and "uncertainty" in within.text


def test_checks_count_what_was_lost() -> None:
    lines: list[dict[str, Any]] = [
        {"type": "audio", "t_ns": T0, "file_frame": 0, "frames": 480},
        {"type": "gap", "t_ns": T0, "stream": "audio", "cause": "input_overflow", "lost_frames": 480},
        {"type": "frame", "t_ns": T0, "dropped": 0},
        {"type": "gap", "t_ns": T0, "stream": "video", "cause": "camera", "dropped": 3},
    ]
    gaps = check_of("Gaps in the sound", {}, lines)
    assert gaps.status == "fault" and "480" in gaps.value and "input overflow" in gaps.text
    assert "3 dropped" in check_of("Pictures", {}, lines).text


def test_checks_name_faults_of_the_signal() -> None:
    foa = np.zeros((24_000, 4), dtype=np.float32)
    foa[:, :3] = np.random.default_rng(0).normal(0, 0.1, (24_000, 3))
    foa[5, 0] = 1.0
    checks = checks_in_words(msgspec.to_builtins(dsp.check(foa, 24_000).to_dict()), [], 1.0)
    by_title = {c.title: c for c in checks}
    assert by_title["Dead channels"].status == "fault" and by_title["Clipping"].status == "fault"
