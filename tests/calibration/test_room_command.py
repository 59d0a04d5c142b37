"""hearth calibrate room, from rendered pictures to the plan: documented keys, exit codes, the page to pick
in."""

from __future__ import annotations

import json
import threading
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
import soundfile
from typer.testing import CliRunner

import dsp
from bench import room_scenes
from bench.room_scenes import BOARD, Scene, TruePlace
from calibration.pose_report import quaternion_xyzw
from calibration.result import CalibrationResult, Covariance, load
from calibration.room_devices_pick import PickServer
from calibration.room_frame_live import FrameGuide
from dsp.errors import CheckFailed, HearthError, InputError
from recordings.geometry import rotation_from_yaw_pitch
from tests.test_cli_json import assert_documented


class Home:
    """A rendered room with one device on a table, and the folder of its calibrations."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for seed in range(20):
            self.room: Scene = room_scenes.scene(np.random.default_rng([12, seed]))
            placed = room_scenes.device(self.room.rng, self.room, "table")
            other = None
            if placed is not None:
                self.device, self.plane = placed
                other = self._aside()
            if other is not None:
                break
        assert other is not None
        self.other: TruePlace = other
        room, mount = self.room, self.room.believed_mount
        names = [f"{a}" for a in ("turn_x_rad", "turn_y_rad", "turn_z_rad", "right_m", "down_m", "forward_m")]
        CalibrationResult.new(
            "camera", {**room.believed.to_fields(), "board": str(BOARD)}, units={},
            covariance=Covariance.of(room.believed.names, room.covariance),
        ).save(folder / "camera.json")  # fmt: skip
        CalibrationResult.new(
            "pose",
            {
                "rotation_matrix": mount.rotation,
                "q_xyzw": quaternion_xyzw(mount.rotation),
                "lever_arm_m": mount.lever_arm_m,
            },
            units={},
            covariance=Covariance.of(names, mount.covariance),
        ).save(folder / "pose.json")
        for name, at in (("a", room.rig), ("aside", self.other)):
            picture = room_scenes.picture(room, at, [self.device])
            cv2.imwrite(str(folder / f"{name}.png"), picture)
            if name == "a":
                noisy = picture + room.rng.normal(0, 1.5, picture.shape)
                cv2.imwrite(str(folder / "b.png"), np.clip(noisy, 0, 255).astype(np.uint8))
        cv2.imwrite(str(folder / "blind.png"), np.full((720, 1280), 120, np.uint8))
        cv2.imwrite(str(folder / "small.png"), np.full((360, 640), 120, np.uint8))

    def _aside(self) -> TruePlace | None:
        room = self.room
        return room_scenes.standpoint(
            room.rng, room.size, room.place, room.camera, room.rig.centre, (0.5, 1.8), also=self.device
        )

    def pixel(self, at: TruePlace) -> str:
        u, v = at.pixels(self.room.camera, self.device)
        return f"{u:.2f},{v:.2f}"

    def run(self, *args: object) -> tuple[int, Any]:
        """Exit code and JSON, or the error."""
        from hearth import app

        done = CliRunner().invoke(app, ["calibrate", "room", *map(str, args), "--json"])
        if done.exception is not None and not isinstance(done.exception, SystemExit):
            assert isinstance(done.exception, HearthError), done.exception
            return done.exception.exit_code, str(done.exception)
        return done.exit_code, json.loads(done.stdout) if done.stdout.strip() else done.stderr


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Home:
    return Home(tmp_path_factory.mktemp("home"))


def test_from_pictures_to_the_plan(home: Home, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(home.folder)
    place = home.room.place
    where = [
        "--board-at", " ".join(map(repr, place.at_m.tolist())),
        "--board-facing", " ".join(map(repr, place.facing.tolist())),
        "--board-top", " ".join(map(repr, place.top.tolist())), "--board-sigma", "0 0",
    ]  # fmt: skip
    code, said = home.run("device", "x", "--click", "1,2")
    assert code == 2 and "room frame" in said
    code, found = home.run("frame", "a.png", "b.png", "blind.png", "--pose", "pose.json", *where)
    assert code == 0, found
    assert_documented("calibrate room frame", found)
    assert found["pictures"] == 2 and found["skipped"][0]["name"] == "blind.png"
    assert np.linalg.norm(np.array(found["camera_position_m"]) - home.room.rig.centre) < 0.05
    _, ears = home.room.microphone(home.room.rig)
    assert np.linalg.norm(np.array(found["microphone_position_m"]) - ears) < 0.06

    code, found = home.run("device", "Lamp", "--click", home.pixel(home.room.rig), "--plane", home.plane)
    assert code == 0, found
    assert_documented("calibrate room device", found)
    assert np.linalg.norm(np.array(found["position_m"]) - home.device) < 0.1 and found["id"] == "lamp"
    views = ["--picture", "a.png", "--click", home.pixel(home.room.rig), "--picture", "aside.png"]
    code, found = home.run("device", "tv", *views, "--click", home.pixel(home.other), "--type", "tv")
    assert code == 0, found
    assert np.linalg.norm(np.array(found["position_m"]) - home.device) < 0.1
    covariance = np.array(found["covariance_m2"]).reshape(3, 3)
    error = np.array(found["position_m"]) - home.device
    assert error @ np.linalg.solve(covariance, error) < 25

    code, refused = home.run("device", "half", "--click", home.pixel(home.room.rig))
    assert code == 1 and "no distance" in refused["problems"][0]["problem"]
    assert_documented("calibrate room device", {**refused, "problems": refused["problems"]})
    assert "half" not in load("room.json", "room").result["devices"]
    code, removed = home.run("device", "tv", "--remove")
    assert code == 0 and set(load("room.json", "room").result["devices"]) == {"lamp"}
    assert_documented("calibrate room device", removed)
    assert home.run("device", "lamp", "--type", "dimmable_light")[1]["type"] == "dimmable_light"

    Path("rig.yaml").write_text("hearth_rig: 1  # mine\nroom: {size_m: [9.0, 9.0, 3.0], devices: []}\n")
    shown = home.run("show", "--plan", "plan.png", "--rig-yaml", "--write-rig", "rig.yaml")
    assert shown[0] == 0, shown
    assert_documented("calibrate room show", shown[1])
    entry = load("room.json", "room").result["devices"]["lamp"]
    from capture.rig import load_rig

    rig = load_rig("rig.yaml")
    assert (
        list(rig.room.devices[0].position_m) == entry["position_m"]
        and "# mine" in Path("rig.yaml").read_text()
    )
    assert cv2.imread("plan.png") is not None
    page = Path("room.html").read_text(encoding="utf-8")
    assert "Lamp" in page and "data:image/jpeg" in page and "<svg" in page
    assert home.run("device", "Lamp", "--rig", "rig.yaml", "--plane", "floor")[0] == 1
    assert "toaster" in home.run("device", "toaster", "--rig", "rig.yaml", "--click", "1,2")[1]

    # Its sound, from two places that a tape measured: a free field, three knocks.
    knocks = np.zeros(3 * 24000)
    for start in (0.5, 1.5, 2.5):
        knocks[int(start * 24000) + np.arange(100)] = home.room.rng.standard_normal(100)
    options: list[object] = []
    for number, away in enumerate(([0.8, 0.1, 0.1], [0.0, -0.7, 0.2])):
        azimuth, elevation = dsp.unit_to_direction(rotation_from_yaw_pitch(30.0).T @ -np.array(away))
        noise = 1e-5 * home.room.rng.standard_normal((len(knocks), 4))
        foa = 0.2 * dsp.encode(knocks, float(azimuth), float(elevation)) + noise
        soundfile.write(f"{number}.wav", foa, 24000, subtype="PCM_24")
        x, y, z = home.device + np.array(away)
        options += ["--sound", f"{number}.wav", "--from", f"{x:.4f} {y:.4f} {z:.4f} 30"]
    options += ["--knocks", "--format", "ambix", "--from-sigma", "0.01 1"]
    code, found = home.run("device", "knocked", *options, "--rig", "rig.yaml", "--type", "fan")
    assert code == 0, found
    assert np.linalg.norm(np.array(found["position_m"]) - home.device) < 0.03
    assert found["method"] == "sound from 2 places" and found["degrees_of_freedom"] == 1

    wrong = {
        ("frame", "blind.png"): (1, "no picture shows the board"),
        ("frame", "nothing.png"): (2, "nothing.png"),
        ("frame", "small.png"): (2, "640x360"),
        ("frame", "a.png", "--board-facing", "north"): (2, "north"),
        ("device", "x", "--click", "9999,1", "--plane", "floor"): (2, "outside the picture"),
        ("device", "x", "--click", "one"): (2, "u,v"),
        ("device", "x", "--picture", "a.png", "--plane", "floor"): (2, "one click for each picture"),
        ("device", "x", "--held", "a.png"): (2, "--marker"),
        ("device", "x", "--held", "a.png", "--marker", "6x6_50 60mm"): (1, "no marker"),
        ("device", "x", "--type", "toaster"): (2, "toaster"),
        ("device", "x"): (2, "nothing was said"),
        ("device", "nobody", "--remove"): (2, "nobody"),
        ("device", "x", "--sound", "a.wav", "--sound", "b.wav"): (2, "--from"),
        ("show", "--plan", "plan.gif"): (2, ".svg or .png"),
    }
    for args, (code, words) in wrong.items():
        got, said = home.run(*args)
        assert got == code, (args, said)
        assert words in json.dumps(said, ensure_ascii=False), args


def test_the_frame_guide_waits_for_stillness(home: Home):
    said: list[str] = []
    guide = FrameGuide(BOARD, said.append, wanted=2)
    still = cv2.imread(str(home.folder / "a.png"), cv2.IMREAD_GRAYSCALE)
    moved = np.roll(still, 12, axis=1)
    looks = [np.full_like(still, 120), moved, still, still]
    kept = [guide.look(np.asarray(p, np.uint8), i * 300_000_000) for i, p in enumerate(looks)]
    assert kept == [False, False, False, True] and not guide.enough
    assert "not seen" in said[0] and "stand still" in said[1]


def test_the_page_to_click_in_answers_only_those_who_know_its_address():
    asked: list[Any] = []

    def answer(name: str, clicks: list[Any]) -> tuple[bool, str]:
        asked.append((name, clicks))
        if name == "bad":
            raise InputError("no such device")
        return clicks[0] is not None, "placed" if clicks[0] else "click it"

    with PickServer([("</script>.png", b"png"), ("b.png", b"two")], "lamp", "hint", answer) as server:
        base = server.address
        assert base.startswith("http://127.0.0.1:")

        def get(url: str) -> tuple[int, bytes]:
            try:
                with urllib.request.urlopen(url, timeout=10) as reply:
                    return reply.status, reply.read()
            except urllib.error.HTTPError as error:
                return error.code, error.read()

        def post(data: bytes, to: str = "place") -> tuple[int, Any]:
            request = urllib.request.Request(base + to, data=data, method="POST")
            try:
                with urllib.request.urlopen(request, timeout=10) as reply:
                    return reply.status, json.loads(reply.read())
            except urllib.error.HTTPError as error:
                return error.code, None

        status, page = get(base)
        assert status == 200 and b"</script>.png" not in page and b"<\\/script>.png" in page
        assert get(base + "picture/1") == (200, b"two")
        root = base[: base.index("/", 8)]
        assert get(root + "/")[0] == get(base + "picture/7")[0] == get(root + "/x/picture/0")[0] == 404
        for wrong in (b"", b"[]", b'{"name": "x", "clicks": [[1]]}', b'{"name": "x", "clicks": [null]}'):
            assert post(wrong)[0] == 400
        assert post(b'{"name": "bad", "clicks": [null, null]}') == (
            200, {"good": False, "words": "no such device"},
        )  # fmt: skip
        assert post(b'{"name": "lamp", "clicks": [null, null]}')[1]["good"] is False
        with pytest.raises(CheckFailed, match="nobody"):
            server.wait(0.05)
        assert post(b'{"name": "lamp", "clicks": [[10.5, 20], null]}')[1] == {"good": True, "words": "placed"}
        server.wait(5)
        assert asked[-1] == ("lamp", [(10.5, 20.0), None])
    assert not any("serve_forever" in t.name for t in threading.enumerate())
