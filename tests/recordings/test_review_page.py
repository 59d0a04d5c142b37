"""What the page of a review is made of: sound by the byte, pictures with their times, marks, decisions."""

from __future__ import annotations

import asyncio
import csv
import io
import json
import random
import shutil
import struct
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
import soundfile

sys.path.insert(0, str(Path(__file__).parent))
from test_report import EVIL, FPS, SECONDS, TALK, make_episode
from test_review_log import add, episode_folder

import dsp
from dsp.errors import InputError
from recordings import Episode
from recordings.manifest import write_manifest
from recordings.mjpeg_matroska import MjpegMatroska
from recordings.profile import (
    Assert,
    DeviceState,
    Goal,
    HomeState,
    Member,
    Placed,
    RoomChange,
    RoomValue,
    Staging,
    Step,
    When,
)
from recordings.report_pictures import spots_at
from recordings.review.app import Desk, make_app
from recordings.review.catalogue import Catalogue
from recordings.review.log import Review, append, make_review, manifest_sha256, verdict
from recordings.review.pictures import PACK, PictureFile
from recordings.review.sound import byte_range
from recordings.review.standing import standings
from recordings.review.summary import COLUMNS, decisions_csv, in_words
from recordings.review.view import prepare
from recordings.web.address import bind

FAN = "living_room_fan_1"
STAGING = Staging(
    room="living_room",
    people=(
        Placed(person="alex", mouth_m=(1.5, 2.8, 1.5), facing_deg=-90.0, speaks=True, pointing_at=FAN),
        Placed(person="sam", mouth_m=(4.0, 0.5, 1.5), facing_deg=0.0),
    ),
    sounding=("living_room_tv_1",),
)


@pytest.fixture(scope="module")
def episode(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A talker of noise at a known direction, a rig with camera and room, a staging."""
    on = {"1.OnOff.OnOff": True}
    home = HomeState(
        devices=(DeviceState(id=FAN, type="fan", name=EVIL, room="living_room", attributes=on),),
        household=(Member(id="alex", name="Alex", room="bedroom"),),
    )
    return make_episode(
        tmp_path_factory.mktemp("data"), staging=STAGING, home=home, notes=EVIL, plan_item="ep1", take=2
    )


def packed(data: bytes) -> list[bytes]:
    """The JPEGs of a pack."""
    (count,) = struct.unpack_from("<I", data)
    sizes = struct.unpack_from(f"<{count}I", data, 4)
    ends = 4 * (count + 1) + np.cumsum((0, *sizes))
    assert ends[-1] == len(data)
    return [data[a:b] for a, b in pairwise(ends)]


def test_the_sound_is_that_of_the_episode_at_every_byte(episode: Path) -> None:
    view = prepare(episode)
    foa = Episode.open(episode).audio(24000)
    for mix, expected in (("stereo", dsp.to_stereo(foa)), ("w", foa[:, :1])):
        wav = view.wav(mix)
        whole = wav.read(0, wav.size)
        heard, rate = soundfile.read(io.BytesIO(whole), always_2d=True)
        assert rate == 24000 and heard.shape == expected.shape and len(whole) == wav.size
        assert np.abs(heard - view.gain * expected).max() < 1.1 / 32768
        assert 0.3 < np.abs(heard).max() <= 0.71  # a quiet room can be heard
        chance = random.Random(1)
        for _ in range(30):
            start, count = chance.randrange(wav.size), chance.randrange(1, 9000)
            assert wav.read(start, count) == whole[start : start + count]
        assert wav.read(wav.size, 10) == b""
    with pytest.raises(InputError, match="'ambisonic'"):
        view.wav("ambisonic")


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        (None, None),
        ("bytes=0-", (0, 100)),
        ("bytes=10-19", (10, 10)),
        ("bytes=90-1000", (90, 10)),
        ("bytes=-30", (70, 30)),
        ("bytes=-300", (0, 100)),
        ("bytes=99-99", (99, 1)),
        ("bytes=5-4", None),  # RFC 9110: such a field is not valid, and is ignored
        ("bytes=0-1,5-9", None),
        ("bytes=a-b", None),
        ("bytes=²-", None),
        ("items=0-1", None),
        ("bytes=-", None),
    ],
)
def test_ranges(asked: str | None, found: tuple[int, int] | None) -> None:
    assert byte_range(asked, 100) == found


@pytest.mark.parametrize("asked", ["bytes=100-", "bytes=-0", "bytes=1000-2000"])
def test_ranges_that_are_not_there(asked: str) -> None:
    with pytest.raises(InputError, match="not within the 100"):
        byte_range(asked, 100)


def test_every_picture_comes_with_its_time(episode: Path) -> None:
    camera = prepare(episode).camera("")
    assert camera.size == (320, 180) and len(camera.times_s) == SECONDS * FPS
    found = []
    for number in range(-(-len(camera.times_s) // PACK)):
        found += packed(camera.file.pack(number))
    assert len(found) == len(camera.times_s)
    greys = [cv2.imdecode(np.frombuffer(jpeg, np.uint8), cv2.IMREAD_GRAYSCALE).mean() for jpeg in found]
    own = [image.mean() for _, image in Episode.open(episode).frames()]
    assert np.abs(np.array(greys) - own).max() < 1.2 and np.diff(own).min() > 1.9  # each is brighter
    for number in (2, 0, 3, 1, 1, 0, 4):  # in any order they are the same
        assert packed(camera.file.pack(number)) == found[number * PACK : (number + 1) * PACK]
    for number in (99, -1):
        with pytest.raises(InputError, match=f"no pack {number}"):
            camera.file.pack(number)
    with pytest.raises(InputError, match="missing"):
        PictureFile(camera.file.path.with_name("x.mkv"), camera.file.pts_ms).pack(0)


def test_a_cameras_own_jpegs_go_out_untouched_and_a_torn_file_ends(tmp_path: Path) -> None:
    jpegs = [
        cv2.imencode(".jpg", np.full((48, 64, 3), 9 * i, np.uint8))[1].tobytes() for i in range(PACK + 5)
    ]
    pts = np.array([33 * i + (i == 3) for i in range(len(jpegs))])
    file = MjpegMatroska(tmp_path / "video.mkv", 64, 48, 30)
    for jpeg, at in zip(jpegs, pts, strict=True):
        file.write(jpeg, int(at) * 1_000_000)
    file.close()
    path = tmp_path / "video.mkv"
    assert packed(PictureFile(path, pts).pack(0)) == jpegs[:PACK]
    assert packed(PictureFile(path, pts).pack(1)) == jpegs[PACK:]
    path.write_bytes(path.read_bytes()[: -len(jpegs[-1]) - 200])
    cut = packed(PictureFile(path, pts).pack(1))
    assert len(cut) == 5 and cut[0] == jpegs[PACK] and cut[-1] == b""
    path.write_bytes(b"no video")
    with pytest.raises(InputError, match="FFmpeg"):
        PictureFile(path, pts).pack(0)


def test_marks_are_where_the_report_draws_them(episode: Path) -> None:
    view = prepare(episode)
    data = view.data()
    shown = data["directions"]
    at = float(np.mean(TALK))
    row = int(np.argmin(np.abs(np.array(shown["t"]) - at)))
    facts = view.facts
    spots = {s.kind: s for s in spots_at(facts, facts.rig.camera, shown["t"][row], 320, 180)}
    assert shown["inside"][row] == spots["measured"].inside
    assert (shown["x"][row], shown["y"][row]) == pytest.approx(
        (spots["measured"].x, spots["measured"].y), abs=0.03
    )
    places = {place["kind"]: place for place in data["places"]}
    assert set(places) == {"target", "sounding", "speaker", "person"}
    target = places["target"]
    assert (target["x"], target["y"]) == pytest.approx((spots["target"].x, spots["target"].y), abs=1e-3)
    assert places["speaker"]["name"] == "Alex" and places["person"]["inside"] == 0  # sam is behind the rig
    assert places["speaker"]["plan"] != places["speaker"]["facing"]
    json.dumps(data, allow_nan=False)
    spans = [(m.start_s, m.end_s) for m in facts.marks if m.row == "Activity"]
    track = facts.directions
    covered = np.array([any(a <= t <= b for a, b in spans) for t in track.times_s])
    assert covered[track.active].all() and track.active.any()
    away = np.array([np.abs(track.times_s[track.active] - t).min() > 0.3 for t in track.times_s])
    assert away.any() and not covered[away].any()


def test_nothing_of_an_episode_becomes_markup(episode: Path) -> None:
    view = prepare(episode)
    html = "".join(view.data()["html"].values()) + view.plots()
    assert "<script" not in html and "&lt;script&gt;" in html


def test_every_goal_in_words(episode: Path) -> None:
    from dataclasses import replace

    import msgspec

    from recordings.review.profile_html import profile_html

    facts = prepare(episode).facts
    assert facts.profile is not None
    off = Assert(device_id=FAN, attribute="1.OnOff.OnOff", value=False)
    goals = {
        Goal(kind="refusal", reason="no_such_device"): "change nothing, and say why: no such device",
        Goal(kind="answer", room_values=(RoomValue(room="hall", variable="temperature", value=21.5),)): (
            "tell: hall: temperature is 21.5 °C"
        ),
        Goal(kind="state", changes=(RoomChange(room="hall", variable="pm10", direction="decrease"),)): (
            "hall: pm10 goes down"
        ),
        Goal(kind="state", steps=(Step(when=When(at_min=20.0), asserts=(off,)),)): "at minute 20: ",
        Goal(kind="state", steps=(Step(when=When(anchor_device="oven", offset_min=-5), asserts=(off,)),)): (
            "5 min before <b>oven</b> is done"
        ),
    }
    for goal, words in goals.items():
        page = profile_html(replace(facts, profile=msgspec.structs.replace(facts.profile, goal=goal)))
        assert words in page
    assert "item ep1, take 2" in profile_html(facts) and "points at" in profile_html(facts)


# ------------------------------------------------------------------ list and decisions


def desk(root: Path, reviewer: str | None = None, **options: Any) -> Desk:
    return Desk(Catalogue([root], **options), reviewer, "todo")


def said(n: int, who: str, decision: str, sha256: str, **more: Any) -> dict[str, Any]:
    return {"n": n, "reviewer": who, "decision": decision, "seen_sha256": sha256, **more}


def test_the_second_reviewer_is_blind(tmp_path: Path) -> None:
    folder = episode_folder(tmp_path)
    sha = manifest_sha256(folder)
    table = desk(tmp_path)
    answer = table.decide(said(0, "Ann", "reject", sha, reasons=["sync"], comment="lips"))
    assert answer["row"]["shown"] == "open" and answer["mine"]["comment"] == "lips"
    row = table.listing("Ben")["episodes"][0]
    assert (row["shown"], row["mine"], row["reviews"]) == ("open", None, 1)
    state = table.review_state(table.catalogue.row(0), "ben")
    assert state["all"] == [] and "lips" not in json.dumps(state)
    answer = table.decide(said(0, "Ben", "accept", sha))
    assert answer["row"]["shown"] == "disputed"
    assert [r["reviewer"] for r in answer["all"]] == ["Ann", "Ben"]
    assert table.listing("Eve")["episodes"][0]["shown"] == "disputed"  # but not who said what
    assert table.review_state(table.catalogue.row(0), "Eve")["all"] == []
    table.decide(said(0, "Ben", "reject", sha, reasons=["sync"]))
    assert table.listing("Eve")["episodes"][0]["shown"] == "enough" and verdict(folder) == "rejected"
    with pytest.raises(InputError, match="not disputed"):
        table.decide(said(0, "Eve", "accept", sha, settles=True))


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ({"n": "0"}, "number"),
        ({"n": True}, "number"),
        ({"n": 7}, "no episode 7"),
        ({"n": -1}, "no episode -1"),
        ({"reasons": "sync"}, "list of words"),
        ({"reasons": [1]}, "list of words"),
        ({"comment": None}, "texts"),
        ({"reviewer": ""}, "name"),
        ({"reviewer": "x" * 200}, "1 to 80"),
        ({"decision": "maybe"}, "'maybe'"),
        ({"seen_sha256": ""}, "looked at"),
        ({"seen_sha256": "0" * 64}, "changed while"),
        ({"settles": 1}, "number"),
    ],
)
def test_what_is_no_decision(tmp_path: Path, body: dict[str, Any], says: str) -> None:
    folder = episode_folder(tmp_path)
    with pytest.raises(InputError, match=says):
        desk(tmp_path).decide({**said(0, "Ann", "accept", manifest_sha256(folder)), **body})
    assert verdict(folder, 1) == "open"


def test_one_reviewer_only(tmp_path: Path) -> None:
    folder = episode_folder(tmp_path)
    table = desk(tmp_path, "Ann")
    assert table.who("") == "Ann" and table.who("ANN") == "ANN" and table.listing("Ann")["reviewer"] == "Ann"
    with pytest.raises(InputError, match="opened for Ann"):
        table.decide(said(0, "Ben", "accept", manifest_sha256(folder)))


def test_the_list_reads_no_episode_and_keeps_its_numbers(tmp_path: Path) -> None:
    folders = [episode_folder(tmp_path, f"ep{i:04}") for i in range(4, 0, -1)]
    (folders[1] / "manifest.json").unlink()
    for folder in folders:
        (folder / "episode.yaml").write_text("{ not YAML")  # the list does not care
    table = desk(tmp_path)
    rows = table.listing("Ann")["episodes"]
    assert [row["id"] for row in rows] == ["ep0001", "ep0002", "ep0003", "ep0004"]
    assert rows[2]["shown"] == "interrupted" and rows[0]["shown"] == "open"
    assert table.about([0])["0"]["request"] is None
    episode_folder(tmp_path, "ep0000")
    shutil.rmtree(folders[2])
    rows = table.listing("Ann")["episodes"]
    assert [(row["n"], row["id"]) for row in rows] == [
        (0, "ep0001"),
        (2, "ep0003"),
        (3, "ep0004"),
        (4, "ep0000"),
    ]
    with pytest.raises(InputError, match="not there any more"):
        table.view(1)
    add(folders[0], "Ann", "accept")
    write_manifest(folders[0])
    assert "Ann" in table.listing("Ben")["episodes"][2]["changed"]
    (tmp_path / "s1" / "reviews.jsonl").open("a").write("[]\n")
    assert "line 2" in table.listing("Ann")["problems"][0]
    (tmp_path / "nothing").mkdir()
    with pytest.raises(InputError, match="no episode below"):
        Catalogue([tmp_path / "nothing"])


def test_of_a_guided_session_only_what_was_kept(tmp_path: Path) -> None:
    for name in ("ep1-t1", "ep1-t2", "ep2-t1"):
        episode_folder(tmp_path, name)
    about = {"t_utc": "", "item": "ep1", "take": 2, "episode": "ep1-t2"}
    (tmp_path / "s1" / "session.jsonl").write_text(json.dumps({"step": "kept", **about}) + "\n")
    assert [row.id for row in Catalogue([tmp_path]).rows()] == ["ep1-t2"]
    assert len(Catalogue([tmp_path], all_takes=True).rows()) == 3
    first, kept = (standings(tmp_path)[tmp_path / "s1" / name] for name in ("ep1-t1", "ep1-t2"))
    assert (first.verdict, first.kept, kept.kept) == (None, False, True)
    add(tmp_path / "s1" / "ep2-t1", "Ann", "accept")  # what somebody has reviewed stays in sight
    assert standings(tmp_path / "s1")[tmp_path / "s1" / "ep2-t1"].verdict == "open"
    assert [row.id for row in Catalogue([tmp_path]).rows()] == ["ep1-t2", "ep2-t1"]
    (tmp_path / "s1" / "session.jsonl").write_text("not a journal\n")
    assert len(Catalogue([tmp_path]).rows()) == 3 and "session.jsonl" in Catalogue([tmp_path]).problems[0]
    assert standings(tmp_path)[tmp_path / "s1" / "ep1-t1"].kept is None


def test_the_table_and_the_words(tmp_path: Path) -> None:
    first, second = (episode_folder(tmp_path, name) for name in ("ep1", "ep2"))
    old = Review(
        episode="ep1", manifest_sha256="0" * 64, reviewer="Old", decision="accept", utc="2026-01-01T00:00:00Z"
    )
    append(first.parent, old)
    add(first, "Ann", "reject", "sync", "sound")
    add(first, "Ben", "accept")
    catalogue = Catalogue([tmp_path])
    rows = list(csv.reader(io.StringIO(decisions_csv(catalogue.rows(), 2))))
    assert tuple(rows[0]) == COLUMNS and {len(row) for row in rows} == {len(COLUMNS)}
    assert [(row[3], row[5], row[-1]) for row in rows[1:4]] == [
        ("Old", "", "no"), ("Ann", "sound sync", "yes"), ("Ben", "", "yes"),
    ]  # fmt: skip
    assert rows[4] == ["s1", second.name, "open", *[""] * 7]
    text = "\n".join(in_words(catalogue.rows(), 2))
    assert "2 episodes: 0 accepted, 0 rejected, 1 disputed, 1 open" in text
    assert "Ann 1, Ben 1" in text and "reviewed by Old" in text and "0.0 %" in text


def test_a_comment_is_no_formula_and_no_half_character(tmp_path: Path) -> None:
    first = episode_folder(tmp_path, "ep1")
    append(first.parent, make_review(first, "=Ann", "accept", comment='=HYPERLINK("http://x")'))
    row = list(csv.reader(io.StringIO(decisions_csv(Catalogue([tmp_path]).rows(), 2))))[1]
    assert row[3] == "'=Ann" and row[6].startswith("'=HYPERLINK")
    with pytest.raises(InputError, match="half a character"):
        make_review(first, "Ann", "accept", comment="\ud800")


# ------------------------------------------------------------------ over HTTP


def ask(app: Any, path: str, body: bytes | None = None, **headers: str) -> tuple[int, dict[str, str], bytes]:
    """One request to an ASGI application: status, headers, body."""
    sent: list[dict[str, Any]] = []
    path, _, query = path.partition("?")
    scope = {
        "type": "http", "http_version": "1.1", "method": "GET" if body is None else "POST", "path": path,
        "raw_path": path.encode(), "query_string": query.encode(), "root_path": "", "scheme": "http",
        "headers": [(k.encode(), v.encode()) for k, v in {"host": "127.0.0.1", **headers}.items()],
    }  # fmt: skip

    async def run() -> None:
        told = [{"type": "http.request", "body": body or b"", "more_body": False}]
        gone = asyncio.Event()

        async def receive() -> dict[str, Any]:
            if told:
                return told.pop()
            await gone.wait()
            return {"type": "http.disconnect"}

        async def send(message: dict[str, Any]) -> None:
            sent.append(message)

        await app(scope, receive, send)

    asyncio.run(run())
    found = {k.decode(): v.decode() for k, v in sent[0]["headers"]}
    return sent[0]["status"], found, b"".join(m.get("body", b"") for m in sent[1:])


def test_the_server(episode: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(episode, tmp_path / "s1" / "ep1"))
    listening = bind("127.0.0.1:0", "--port", "")
    listening.socket.close()
    app = make_app(desk(tmp_path), listening)
    for path in ("/", "/review.js", "/player.js", "/report.css", "/review.css"):
        status, headers, page = ask(app, path)
        assert status == 200 and b"http://" not in page.replace(b"http://www.w3.org/2000/svg", b"")
        assert "media-src 'self'" in headers["content-security-policy"]
    status, headers, whole = ask(app, "/sound/0/stereo.wav")
    assert status == 200 and headers["accept-ranges"] == "bytes" and whole[:4] == b"RIFF"
    status, headers, part = ask(app, "/sound/0/stereo.wav", range="bytes=1000-1999")
    assert status == 206 and headers["content-range"] == f"bytes 1000-1999/{len(whole)}"
    assert part == whole[1000:2000] and headers["content-length"] == "1000"
    status, headers, _ = ask(app, "/sound/0/stereo.wav", range=f"bytes={len(whole)}-")
    assert status == 416 and headers["content-range"] == f"bytes */{len(whole)}"
    assert len(packed(ask(app, "/pictures/0/0")[2])) == PACK
    assert ask(app, "/pictures/0/0?camera=door")[0] == ask(app, "/pictures/0/999")[0] == 400
    assert ask(app, "/sound/0/5.1.wav")[0] == ask(app, "/api/about?n=x")[0] == 400
    assert json.loads(ask(app, "/api/episode/0?reviewer=Ann")[2])["id"] == "ep1"
    assert "Frequency" in json.loads(ask(app, "/api/plots/0")[2])["html"]
    assert ask(app, "/api/episode/3")[0] == 400 and ask(app, "/elsewhere")[0] == 404
    decision = json.dumps(said(0, "Ann", "accept", manifest_sha256(copy))).encode()
    assert ask(app, "/api/review", decision)[0] == 403  # no Origin: not from the page
    assert ask(app, "/api/review", decision, origin="http://evil.example")[0] == 403
    for bad in (b"", b"[]", b"{", b"\xff", b" " * 20_000, b"[" * 9000):
        assert ask(app, "/api/review", bad, origin="http://127.0.0.1")[0] == 400
    assert verdict(copy, 1) == "open"
    assert ask(app, "/api/review", decision, origin="http://127.0.0.1")[0] == 200
    assert verdict(copy, 1) == "accepted"
    assert json.loads(ask(app, "/api/summary")[2])["reviewers"] == {"Ann": 1}
    assert ask(app, "/reviews.csv")[1]["content-disposition"].startswith("attachment")
    shutil.rmtree(copy / "foa_48k")
    (copy / "foa_24k.wav").unlink()
    (copy / "video.mkv").write_bytes(b"broken")
    write_manifest(copy)
    broken = json.loads(ask(app, "/api/episode/0")[2])
    assert broken["sound"] is False and broken["cameras"] == [] and len(broken["notes"]) >= 2
    assert ask(app, "/sound/0/w.wav")[0] == 400 and ask(app, "/pictures/0/0")[0] == 400
