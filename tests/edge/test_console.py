"""The console's parts: addresses, who may come in, what is drawn where, and what a page is told."""

from __future__ import annotations

import json
import socket
import time
from typing import Any

import numpy as np
import pytest

from capture.blocks import monotonic_ns
from capture.rig import DEFAULT_RIG, load_rig, parse_rig
from dsp.errors import DeviceError, InputError
from edge.console.address import Listening, is_loopback, listen
from edge.console.feed import BANDS, EVENTS, ROWS, Feed, Spectrum, slim
from edge.console.guard import Guard
from edge.console.settings import Eye
from edge.console.why import why
from edge.stream import Header, Message, Publisher
from recordings import geometry
from recordings.camera_model import CameraModel

TOKEN = "a" * 43
ASKS = b"token=" + TOKEN.encode()
PICTURE = b"\xff\xd8\xff\xd9"


def request(
    host: str = "192.168.1.5:5770", origin: str | None = None, kind: str = "http", **more: Any
) -> dict[str, Any]:
    headers = [(b"host", host.encode())]
    if origin is not None:
        headers.append((b"origin", origin.encode()))
    if cookie := more.pop("cookie", None):
        headers.append((b"cookie", cookie.encode()))
    return {"type": kind, "method": "GET", "headers": headers, "query_string": b"", **more}


def test_the_rig_says_where_the_console_is() -> None:
    assert load_rig(DEFAULT_RIG).endpoints.console_address == "127.0.0.1:5770"
    for said, meant in (("off", None), ('""', None), ("0.0.0.0:80", "0.0.0.0:80"), ('"[::1]:0"', "[::1]:0")):
        rig = parse_rig(f"hearth_rig: 1\nendpoints: {{console: {said}}}")
        assert rig.endpoints.console_address == meant
    for wrong in ("on", "5770", "http://x:1", "127.0.0.1"):
        with pytest.raises(InputError, match=r"endpoints\.console"):
            parse_rig(f"hearth_rig: 1\nendpoints: {{console: {wrong}}}")


def test_a_token_off_loopback_and_a_busy_port_is_told() -> None:
    first = listen("127.0.0.1:0")
    with first.socket:
        assert first.token is None and first.url == f"http://127.0.0.1:{first.port}/"
        with pytest.raises(DeviceError, match=r"in use.*endpoints\.console"):
            listen(f"127.0.0.1:{first.port}")
    for wrong in ("127.0.0.1", "x:99999", "http://127.0.0.1:1"):
        with pytest.raises(InputError, match="no address"):
            listen(wrong)
    with pytest.raises(DeviceError, match="cannot listen"):
        listen("192.0.2.77:0")  # not an address of this machine
    tokens = []
    for _ in range(2):
        found = listen("0.0.0.0:0")
        found.socket.close()
        assert found.token is not None and len(found.token) >= 43  # 256 bits
        assert found.url.endswith(f"/?token={found.token}") and "0.0.0.0" not in found.url
        tokens.append(found.token)
    assert tokens[0] != tokens[1]
    assert Listening(socket.socket(), "::1", 80, None).address == "http://[::1]:80/"
    assert [is_loopback(h) for h in ("localhost", "127.8.0.1", "::1", "0.0.0.0", "kitchen")] == [True] * 3 + [
        False
    ] * 2


@pytest.mark.parametrize(
    ("asked", "status"),
    [
        (request(), 401),
        (request(query_string=ASKS), 303),
        (request(query_string=b"token=wrong"), 401),
        (request(query_string=ASKS + b"&token=x"), 401),
        (request(cookie=f"hearth_console_5770={TOKEN}"), 0),
        (request(cookie=f"a=b; hearth_console_5770={TOKEN}"), 0),
        (request(cookie="hearth_console_5770=wrong"), 401),
        (request(cookie=f"hearth_console_5771={TOKEN}"), 401),
        (request(host="evil.example", cookie=f"hearth_console_5770={TOKEN}"), 403),  # DNS rebinding
        (request(host="192.168.1.5.evil.example:5770", cookie=f"hearth_console_5770={TOKEN}"), 403),
        (request(host="[fe80::1]:5770", cookie=f"hearth_console_5770={TOKEN}"), 0),
        (request(host="", cookie=f"hearth_console_5770={TOKEN}"), 403),
        (request(origin="http://evil.example", cookie=f"hearth_console_5770={TOKEN}"), 403),
        (request(origin="null", cookie=f"hearth_console_5770={TOKEN}"), 403),
        (request(method="POST", cookie=f"hearth_console_5770={TOKEN}"), 405),
        (request(kind="websocket", cookie=f"hearth_console_5770={TOKEN}"), 403),  # no Origin
        (request(kind="websocket", origin="http://evil.example", cookie=f"hearth_console_5770={TOKEN}"), 403),
        (request(kind="websocket", origin="http://192.168.1.5:5770"), 401),
        (
            request(
                kind="websocket", origin="http://192.168.1.5:5770", cookie=f"hearth_console_5770={TOKEN}"
            ),
            0,
        ),
        (
            request(kind="websocket", origin="http://192.168.1.5:5770", query_string=ASKS),
            401,
        ),
    ],
)
def test_who_may_come_in_from_the_network(asked: dict[str, Any], status: int) -> None:
    guard = Guard(None, loopback=False, port=5770, token=TOKEN)
    assert guard.judge(asked).status == status


@pytest.mark.parametrize(
    ("asked", "status"),
    [
        (request(host="127.0.0.1:5770"), 0),
        (request(host="localhost:8080"), 0),  # through a tunnel
        (request(host="[::1]:5770"), 0),
        (request(host="192.168.1.5:5770"), 403),
        (request(host="evil.example:5770"), 403),
        (request(host="127.0.0.1:5770", origin="http://localhost:5770", kind="websocket"), 403),
        (request(host="127.0.0.1:5770", origin="http://127.0.0.1:5770", kind="websocket"), 0),
    ],
)
def test_who_may_come_in_on_loopback(asked: dict[str, Any], status: int) -> None:
    assert Guard(None, loopback=True, port=5770, token=None).judge(asked).status == status


def test_a_direction_is_drawn_where_the_camera_sees_it() -> None:
    lens = CameraModel.nominal(1280, 720, 90.0)
    camera = {
        "width_px": 1280,
        "height_px": 720,
        "model": lens.model,
        "parameters": lens.parameters.tolist(),
        "T_mic_camera": geometry.camera_pose((0.0, 0.0, 0.0)).tolist(),
    }
    eye = Eye(camera)
    for azimuth in (-44.0, -20.0, 0.0, 30.0):  # a camera at the microphone: x = 1/2 - tan(azimuth) / 2
        seen = eye.place(azimuth, 0.0, 3.0)
        assert seen["inside"] and seen["x"] == pytest.approx(
            0.5 - 0.5 * np.tan(np.radians(azimuth)), abs=1e-3
        )
        assert seen["y"] == pytest.approx(0.5, abs=1e-3)
        assert seen["radius"] == pytest.approx(0.5 * np.tan(np.radians(3.0)), abs=1e-3)
    left, behind, above = (eye.place(*way, 3.0) for way in ((80.0, 0.0), (180.0, 0.0), (0.0, 60.0)))
    assert not (left["inside"] or behind["inside"] or above["inside"])
    assert left["x"] < 0.002 and abs(left["turn_deg"]) == pytest.approx(180)
    assert above["y"] < 0.002 and above["turn_deg"] == pytest.approx(-90)
    assert 0 <= behind["x"] <= 1 and 0 <= behind["y"] <= 1
    assert Eye(None).place(0.0, 0.0, 1.0) == {}


def foa(sound: np.ndarray, t_ns: int) -> Message:
    four = np.repeat(sound[:, None], 4, axis=1)
    duration = len(sound) * 10**9 // 24000
    header = Header(stream="foa24", epoch=1, seq=0, t_ns=t_ns, duration_ns=duration, shape=four.shape,
                    dtype="float32", encoding="raw")  # fmt: skip
    return Message(header, four.tobytes(), t_ns)


def test_rows_of_the_spectrum_do_not_depend_on_the_blocks() -> None:
    rng = np.random.default_rng(2)
    sound = (0.1 * rng.standard_normal(24000)).astype(np.float32)
    found = []
    for size, asked in ((240, 1), (240, 1000), (1000, 3)):
        spectrum, rows = Spectrum(), []
        for number, first in enumerate(range(0, len(sound), size)):
            spectrum.add(foa(sound[first : first + size], 5_000_000_000 + first * 10**9 // 24000))
            if number % asked == 0:
                rows += spectrum.rows()
        found.append(rows + spectrum.rows())
    assert found[0] == found[1] == found[2] and len(found[0]) == 25
    assert found[0][0][0] == pytest.approx(5020, abs=1)
    spectrum.add(foa(sound[:960], 9_000_000_000))  # after a gap the times are true again
    assert [row[0] for row in spectrum.rows()] == [pytest.approx(9020, abs=1)]


def test_long_evidence_is_cut_to_what_is_shown() -> None:
    rows = [{"device_id": f"d{i}", "name": "x", "probability": 0.1, "prior": 1.0} for i in range(50)]
    told = slim(
        {
            "kind": "declared",
            "device_id": "d0",
            "text": "y" * 10_000,
            "odd": ["z" * 5000],
            "evidence": {"posterior": rows, "talker": {"azimuth_deg": 3.0, "support": 1}, "reason": "why"},
        }
    )
    assert len(json.dumps(told)) < 1500 and len(told["candidates"]) == 5 and told["reason"] == "why"
    assert told["candidates"][0] == {"device_id": "d0", "name": "x", "probability": 0.1, "away_deg": None}
    assert told["talker"] == {"azimuth_deg": 3.0, "sigma_deg": None}
    assert "evidence" not in slim({"kind": "heard", "evidence": {"recognition": "x" * 1000}})


@pytest.mark.parametrize(
    "nonsense", [None, "x", 3, [], {"value": []}, {"value": {"rays": 3, "origin_m": [1]}}]
)
def test_evidence_of_any_agent_is_taken_for_what_it_is(nonsense: Any) -> None:
    """Other programs declare too, and may say anything."""
    told = why({"posterior": nonsense, "none": nonsense, "findings": {"pointing": nonsense, "x": nonsense}})
    assert told["candidates"] == [] and "rays" not in told and "stands" not in told
    json.dumps(told)
    assert isinstance(why({"findings": nonsense})["tools"], list)


def test_why_tells_what_each_tool_found_and_what_is_drawn() -> None:
    ray = {"direction": [1.0, 0.0, 0.0], "share": 0.9}
    told = why(
        {
            "none": 0.1,
            "findings": {
                "pointing": {
                    "value": {"origin_m": [1.0, 2.0, 1.4], "rays": [ray], "who": "left"},
                    "confidence": 0.8, "seconds": 0.0251,
                },
                "speaker": {"value": {"position_m": [1, 2, 1.5], "direction": {"azimuth_deg": 80.0}}},
                "facing": {"value": {"azimuth_deg": -87.1, "sigma_deg": 7.0}},
                "voice": {"value": None, "why": "nobody's voice is enrolled"},
                "face": {"value": {"person": "anna", "score": 0.7}},
            },
        }
    )  # fmt: skip
    assert told["rays"] == {"origin": [1.0, 2.0, 1.4], "rays": [ray]}
    assert (told["stands"], told["looks_deg"], told["none"]) == ([1.0, 2.0, 1.5], -87.1, 0.1)
    assert told["talker"]["azimuth_deg"] == 80.0
    assert [(one["tool"], one["text"], one["ms"]) for one in told["tools"]] == [
        ("pointing", "points with the left arm", 25), ("speaker", "stands at 1.0, 2.0 m", None),
        ("facing", "looks to -87° in the room, ± 7°", None), ("voice", "nobody's voice is enrolled", None),
        ("face", "anna", None),
    ]  # fmt: skip


def until(happens: Any, timeout_s: float = 15.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not happens():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)


def test_what_a_page_is_told_and_that_nothing_piles_up() -> None:
    pictures: list[bytes | None] = []
    block = np.zeros((240, 4), np.float32)
    doa = {
        "azimuth_deg": 10.0,
        "elevation_deg": 0.0,
        "uncertainty_deg": 2.0,
        "confidence": 0.9,
        "active": True,
    }
    levels = {
        "peak_dbfs": [-10.0] * 4,
        "rms_dbfs": [-20.0] * 4,
        "clipped_frames": [1, 0, 0, 0],
        "dead": [False] * 4,
    }
    with Publisher("tcp://127.0.0.1:0") as publisher:
        publisher.publish("state", 1, data={"muted": False, "light": "ready"})
        feed = Feed(publisher.address, Eye(None), lambda at_once: None, pictures.append)
        try:
            feed.watch(True)
            until(lambda: feed.snapshot()["state"])
            until(lambda: (publisher.publish("video", monotonic_ns(), PICTURE, shape=(2, 2, 3)), pictures)[1])
            header, jpeg = pictures[-1][4:].split(b"}", 1)
            assert json.loads(header + b"}")["width"] == 2 and jpeg == PICTURE
            for number in range(400):  # nobody takes what is new
                t_ns = monotonic_ns()
                publisher.publish("foa24", t_ns, block, duration_ns=10_000_000, data={"rate_hz": 24000})
                publisher.publish("doa", t_ns, duration_ns=100_000_000, data=doa)
                publisher.publish("levels", t_ns, data={**levels, "peak_dbfs": [-float(number)] * 4})
                publisher.publish("event", t_ns, data={"kind": "tick", "number": number})
                publisher.publish("event", t_ns, data={"kind": "said", "text": "x" * 300})
            until(
                lambda: (
                    feed.snapshot()["events"][-2:-1] and feed.snapshot()["events"][-2].get("number") == 399
                )
            )
            time.sleep(0.4)  # the other sockets
            publisher.publish("doa", monotonic_ns(), duration_ns=100_000_000, data=doa)
            time.sleep(0.1)
            told = json.loads(feed.take() or "{}")
            assert len(told["events"]) == EVENTS and told["events"][-2]["number"] == 399
            assert told["levels"]["peak_dbfs"] == [0.0] * 4  # the loudest since it was taken
            assert told["levels"]["clipped_frames"][0] > 300 and told["doa"]["known"]
            assert 1 <= len(told["rows"]) <= ROWS and len(told["rows"][0][1]) == 4 * -(-BANDS // 3)
            assert feed.take() is None

            # Muted: the picture goes, and what was on its way is not shown, before or after.
            late = monotonic_ns()
            publisher.publish("state", monotonic_ns(), data={"muted": True, "light": "muted"})
            until(lambda: pictures[-1] is None)
            shown = len(pictures)
            publisher.publish("video", late, PICTURE, shape=(2, 2, 3))
            publisher.publish("doa", late, duration_ns=100_000_000, data=doa)
            publisher.publish("state", monotonic_ns(), data={"muted": False, "light": "ready"})
            until(lambda: feed.snapshot()["state"]["light"] == "ready")
            publisher.publish("video", late, PICTURE, shape=(2, 2, 3))
            publisher.publish("event", monotonic_ns(), data={"kind": "last"})
            until(lambda: feed.snapshot()["events"][-1]["kind"] == "last")
            time.sleep(0.1)
            assert len(pictures) == shown and "doa" not in json.loads(feed.take() or "{}")
            publisher.publish("video", monotonic_ns(), PICTURE, shape=(2, 2, 3))
            until(lambda: pictures[-1] is not None)
        finally:
            feed.close()


def test_a_rig_that_hangs_is_said_and_so_is_its_return(monkeypatch: pytest.MonkeyPatch) -> None:
    with Publisher("tcp://127.0.0.1:0") as publisher:
        feed = Feed(publisher.address, Eye(None), lambda at_once: None, lambda picture: None)
        try:
            until(lambda: feed.snapshot()["link"] == "live")
            with monkeypatch.context() as stopped:
                stopped.setattr(publisher, "_beat", lambda closing=False: None)
                until(lambda: feed.snapshot()["link"] == "silent")
            until(lambda: feed.snapshot()["link"] == "live")
            publisher.close()
            until(lambda: feed.snapshot()["link"] == "ended")
        finally:
            feed.close()
