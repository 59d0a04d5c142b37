"""`hearth calibrate sync` from encoded files: result, page, JSON, refusal; and the page of --show."""

from __future__ import annotations

import json
import threading
import urllib.error
import urllib.request
from pathlib import Path

import numpy as np
import pytest
import soundfile
from typer.testing import CliRunner

from bench.sync_scene import Scene, encode, spread_events
from calibration.result import load_result
from calibration.sync_files import gather
from calibration.sync_show import addresses, open_server
from calibration.sync_sound import CHIRP_HIGH_HZ, CHIRP_LOW_HZ, CHIRP_S, CHIRP_TAPER_S
from dsp.errors import DeviceError, InputError
from hearth import app

SCENE = Scene(
    spread_events(12, 3), offset_ms=31.0, jitter_ms=1.0, sound="chirp", flash_s=0.15, seed=3, rate_hz=16000
)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, float]:
    """A folder with a sound and its video, and the seconds from the first sample to the first picture."""
    folder = tmp_path_factory.mktemp("sync")
    first_ns = encode(SCENE, folder / "video.mkv", "mjpeg")
    samples, t0_ns = SCENE.audio()
    soundfile.write(folder / "sound.wav", samples, SCENE.rate_hz, subtype="PCM_24")
    return folder, (first_ns - t0_ns) / 1e9


def run(*words: object) -> tuple[int, dict]:
    done = CliRunner().invoke(app, ["calibrate", "sync", *map(str, words), "--json"])
    return done.exit_code, json.loads(done.stdout.splitlines()[0])


def test_files_to_result_and_page(files: tuple[Path, float]) -> None:
    from tests.test_cli_json import assert_documented

    folder, shift_s = files
    out = folder / "sync.json"
    code, found = run(
        folder / "video.mkv",
        folder / "sound.wav",
        "--video-offset-s",
        shift_s,
        "--out",
        out,
        "--distance-m",
        0,
    )
    assert code == 0 and found["good"]
    assert_documented("calibrate sync", found)
    assert found["offset_ms"] == pytest.approx(31.0, abs=0.6)
    result = load_result(out, "sync")
    assert result.result["offset_ms"] == found["offset_ms"]
    assert [item.name for item in result.inputs] == ["sound.wav", "video.mkv"]
    assert result.covariance is not None and result.covariance.sigma("offset_ms") == found["sigma_ms"]
    assert len(result.residuals["events"]) == 12
    page = Path(found["page"]).read_text()
    assert "Pictures around a flash" in page and page.count("<svg") == 3
    assert any("screen" in text for text in result.warnings)


def test_too_few_events_are_refused_with_a_page(files: tuple[Path, float], tmp_path: Path) -> None:
    folder, shift_s = files
    short = tmp_path / "short.wav"
    samples, rate = soundfile.read(folder / "sound.wav")
    soundfile.write(short, samples[: 4 * rate], rate)
    out = tmp_path / "sync.json"
    code, found = run(short, folder / "video.mkv", "--video-offset-s", shift_s, "--out", out)
    assert code == 1 and not found["good"] and found["result"] is None and not out.exists()
    assert "at least 6" in found["problems"][0]["problem"]
    assert "No offset" in Path(found["page"]).read_text()


def test_a_video_with_sound_has_one_clock(tmp_path: Path) -> None:
    """The sound begins half a second after the pictures, as its stamps in the container say."""
    import av

    path = tmp_path / "both.mkv"
    rate = 16000
    with av.open(str(path), "w") as container:
        video = container.add_stream("mjpeg", rate=30)
        video.width, video.height, video.pix_fmt = 64, 48, "yuvj420p"
        audio = container.add_stream("pcm_s16le", rate=rate)
        audio.layout = "mono"
        for k in range(60):
            frame = av.VideoFrame.from_ndarray(np.full((48, 64, 3), 9, np.uint8), format="bgr24")
            frame.pts = k
            for packet in video.encode(frame):
                container.mux(packet)
        tone = np.full((1, rate), 1000, np.int16)
        sound = av.AudioFrame.from_ndarray(tone, format="s16", layout="mono")
        sound.sample_rate, sound.pts = rate, rate // 2
        for packet in audio.encode(sound):
            container.mux(packet)
        for packet in (*video.encode(), *audio.encode()):
            container.mux(packet)
    got = gather([path])
    assert len(got.log) == 60 and got.sound.rate_hz == rate
    assert int(got.sound.time_ns(0)) - got.log.times_ns[0] == pytest.approx(500_000_000, abs=2_000_000)
    assert got.sound.samples[5] == pytest.approx(1000 / 32768)


def test_wrong_sources_are_named(files: tuple[Path, float], tmp_path: Path) -> None:
    folder, _ = files
    for sources, words in (
        ([folder / "sound.wav"], "a video is needed"),
        ([folder / "sound.wav", folder / "video.mkv", folder / "video.mkv"], "one sound and one video"),
        ([folder / "video.mkv"], "holds no sound"),
        ([tmp_path], "not an episode"),
    ):
        with pytest.raises(InputError, match=words):
            gather(sources)


def test_the_page_is_served_and_has_the_chirp_that_is_looked_for() -> None:
    server = open_server("127.0.0.1", 0)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        port = int(server.server_address[1])
        (url,) = addresses("127.0.0.1", port)
        with urllib.request.urlopen(url, timeout=5) as answer:
            text = answer.read().decode()
            assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
        with pytest.raises(urllib.error.HTTPError, match="404"):
            urllib.request.urlopen(url + "other", timeout=5)
        with pytest.raises(DeviceError, match="--port"):
            open_server("127.0.0.1", port)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
    numbers = f"seconds: {CHIRP_S}, low: {CHIRP_LOW_HZ:g}, high: {CHIRP_HIGH_HZ:g}, taper: {CHIRP_TAPER_S}"
    assert numbers in text
