"""A folder of sound and video files: pairs by name and time, parts joined, each take once, nothing silent."""

from __future__ import annotations

import json
import shutil
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest
from test_importer import h3vr_wav, scene
from typer.testing import CliRunner

from dsp.errors import InputError
from hearth import app
from recordings import Episode
from recordings.folder_scan import base_name, scan_folder
from recordings.import_folder import import_folder
from recordings.importer import import_take

RATE = 8000
TRACKS = "WYZX"


def sound(path: Path, seed: int = 0, seconds: float = 1.0, clock: str = "10:11:12", x=None) -> Path:
    hours, minutes, rest = (int(v) for v in clock.split(":"))
    reference = RATE * (hours * 3600 + minutes * 60 + rest)
    when = b"2026-03-24" + clock.encode()
    path.parent.mkdir(parents=True, exist_ok=True)
    made = scene(RATE, seconds, seed=seed) if x is None else x
    return h3vr_wav(path, made, RATE, tracks=TRACKS, when=when, time_reference=reference)


def film(path: Path, clock: str | None = None, shade: int = 0) -> Path:
    with av.open(str(path), "w") as container:
        if clock:
            container.metadata["creation_time"] = f"2026-03-24T{clock}"
        stream = container.add_stream("mpeg4", rate=10)
        stream.width, stream.height, stream.pix_fmt = 32, 32, "yuv420p"
        for i in range(10):
            frame = av.VideoFrame.from_ndarray(np.full((32, 32, 3), 20 * i + shade, np.uint8), format="rgb24")
            frame.pts, frame.time_base = i, Fraction(1, 10)
            container.mux(stream.encode(frame.reformat(format="yuv420p")))
        container.mux(stream.encode(None))
    return path


@pytest.fixture
def card(tmp_path: Path) -> Path:
    """Four takes, one of them in two parts, four videos, a note, and a file that is no sound."""
    card = tmp_path / "card"
    sound(card / "kitchen_foa.wav", 1, clock="10:00:00")
    film(card / "Kitchen-video.mp4", shade=1)
    sound(card / "260324_002.WAV", 2, seconds=2.0, clock="11:00:00")
    film(card / "IMG_0007.mkv", "11:00:01", shade=2)
    long = scene(RATE, 3.0, seed=3)
    sound(card / "260324_003.WAV", clock="12:00:00", x=long[: 2 * RATE])
    sound(card / "260324_003_0002.WAV", clock="12:00:01", x=long[RATE * 3 // 2 :])
    sound(card / "alone.wav", 4, clock="13:00:00")
    film(card / "IMG_0009.mkv", "18:00:00", shade=3)
    (card / "notes.txt").write_text("who said what")
    (card / "torn.wav").write_bytes(b"RIFF\x04\0\0\0WAVE")
    return card


def test_pairs_joins_and_says_why_the_rest_is_left(card: Path, tmp_path: Path, monkeypatch):
    monkeypatch.setenv("TZ", "UTC")
    done = import_folder(card, tmp_path / "data", report=False)
    found = {take.sounds[0].name: take for take in done.imported}
    assert {name: (take.video and take.video.name, take.by) for name, take in found.items()} == {
        "kitchen_foa.wav": ("Kitchen-video.mp4", "name"),
        "260324_002.WAV": ("IMG_0007.mkv", "time"),
        "260324_003.WAV": (None, None),
        "alone.wav": (None, None),
    }
    joined = Episode.open(found["260324_003.WAV"].episode)
    assert len(joined.audio_paths) == 2 and joined.original.frames == 3 * RATE
    assert all(Episode.open(take.episode).verify().ok for take in done.imported)
    assert "IMG_0009.mkv, begins 18000 s away" in found["alone.wav"].note
    left = {path.name: why for path, why in done.left_out}
    assert set(left) == {"notes.txt", "IMG_0009.mkv"} and "recorded at its time" in left["IMG_0009.mkv"]
    assert [paths[0].name for paths, _ in done.failed] == ["torn.wav"]
    again = import_folder(card, tmp_path / "data", report=False)
    assert not again.imported and len(again.known) == 4
    assert {take.episode for take in again.known} == {take.episode for take in done.imported}


def test_the_same_content_under_another_name_is_one_take(tmp_path: Path):
    sound(tmp_path / "card/a/take.wav", 1)
    shutil.copy(tmp_path / "card/a/take.wav", tmp_path / "card/copy_of_it.wav")
    sound(tmp_path / "card/b/take.wav", 2)
    done = import_folder(tmp_path / "card", tmp_path / "data", report=False)
    assert len(done.imported) == 2 and len(done.known) == 1
    assert len({take.episode.name for take in done.imported}) == 2


def test_names_that_fit_more_than_one_are_not_guessed(tmp_path: Path):
    card = tmp_path / "card"
    sound(card / "take.wav", 1)
    film(card / "take_cam.mkv")
    film(card / "take_video.mkv", shade=5)
    pairs = scan_folder(card).pairs
    assert pairs[0].video is None and "2 videos have its name" in pairs[0].note
    assert {path.name for path, _ in scan_folder(card).left_out} == {"take_cam.mkv", "take_video.mkv"}
    assert base_name("Take_01-FOA_audio") == "take_01"


def test_takes_that_only_follow_each_other_are_not_joined(tmp_path: Path):
    card = tmp_path / "card"
    sound(card / "260324_001.WAV", 1, seconds=2.0, clock="10:00:00")
    sound(card / "260324_002.WAV", 2, seconds=2.0, clock="10:00:03")
    assert [len(pair.take.sounds) for pair in scan_folder(card).pairs] == [1, 1]


def test_a_camera_clock_that_is_ahead_is_taken_off(tmp_path: Path, monkeypatch):
    monkeypatch.setenv("TZ", "UTC")
    card = tmp_path / "card"
    sound(card / "one.wav", 1, clock="10:00:00")
    film(card / "IMG_1.mkv", "11:00:00")
    assert scan_folder(card).pairs[0].video is None
    assert scan_folder(card, camera_clock_s=3600).pairs[0].by == "time"


def test_ctrl_c_leaves_whole_takes_and_the_next_call_goes_on(card: Path, tmp_path: Path, monkeypatch):
    import recordings.importer as importer

    whole, calls = importer.complete, []

    def stopped(*args, **options):
        calls.append(args)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return whole(*args, **options)

    monkeypatch.setattr(importer, "complete", stopped)
    first = import_folder(card, tmp_path / "data", report=False)
    assert first.interrupted and len(first.imported) == 1
    assert len(list((tmp_path / "data/imported").iterdir())) == 1
    second = import_folder(card, tmp_path / "data", report=False)
    assert not second.interrupted and len(second.known) == 1 and len(second.imported) == 3


def test_what_a_killed_import_left_is_replaced_and_nothing_else(tmp_path: Path):
    card = tmp_path / "card"
    wav = sound(card / "take.wav", 1)
    other = import_take(sound(tmp_path / "gone/other.wav", 2), None, tmp_path / "data", report=False)
    taken = import_take(wav, None, tmp_path / "data", report=False)
    for episode in (other, taken):  # as kill -9 leaves it
        (episode.path / "manifest.json").unlink()
        (episode.path / "RECORDING.json").write_text("{}")
    copy = taken.audio_paths[0]
    begun = copy.with_name(f".{copy.name}.part")  # killed while it was copied
    begun.write_bytes(copy.read_bytes()[:5000])
    copy.unlink()
    done = import_folder(card, tmp_path / "data", report=False)
    assert [take.episode for take in done.imported] == [taken.path]
    assert Episode.open(taken.path).state == "finished" and Episode.open(other.path).state == "interrupted"


def test_the_command_reports_as_json_and_fails_for_a_broken_file(card: Path, tmp_path: Path):
    call = ["import", str(card), "--into", str(tmp_path / "data"), "--no-report", "--json"]
    result = CliRunner().invoke(app, call)
    report = json.loads(result.stdout)
    assert result.exit_code != 0 and not report["ok"] and len(report["imported"]) == 4
    (card / "torn.wav").unlink()
    result = CliRunner().invoke(app, call)
    report = json.loads(result.stdout)
    assert result.exit_code == 0 and report["imported"] == [] and len(report["known"]) == 4
    with pytest.raises(InputError, match="no such folder"):
        import_folder(tmp_path / "nowhere", tmp_path / "data")
    refused = CliRunner().invoke(app, [*call, "--name", "x"])
    assert refused.exit_code != 0 and "--name" in str(refused.exception)


def test_a_real_person_of_an_import_is_asked_for_in_the_consent_book(tmp_path: Path):
    from recordings.consent.book import ConsentBook
    from recordings.consent.present import persons_of
    from recordings.release.select import select
    from tests.recordings.release_episodes import agree

    data = tmp_path / "data"
    said = ["--speaker", "anna", "--request", "Turn it off.", "--consent", "given", "--notes", "at the door"]
    into = ["--into", str(data), "--no-report", "--json"]
    one = CliRunner().invoke(app, ["import", str(sound(tmp_path / "one.wav", 1)), *said, *into])
    sound(tmp_path / "card" / "two.wav", 2)
    rest = CliRunner().invoke(app, ["import", str(tmp_path / "card"), *said, "--sharing", "refused", *into])
    assert (one.exit_code, rest.exit_code) == (0, 0), (one.exception, rest.exception)
    first = Path(json.loads(one.stdout)["episode"])
    second = Path(json.loads(rest.stdout)["imported"][0]["episode"])
    profile = Episode.open(first).profile
    assert persons_of(profile) == ("anna",) and profile.request == "Turn it off."
    assert (profile.consent.recording, profile.consent.sharing) == ("given", "unknown")

    out = ["export", str(data), "--to", "audiofolder", "--unreviewed", "--out", str(tmp_path / "out")]
    refused = CliRunner().invoke(app, out)
    assert refused.exit_code == 1 and not (tmp_path / "out").exists()
    assert "anna is not listed" in select(first, need_accepted=False).left_out[0].why
    agree(data, "anna")
    assert ConsentBook.open(data).sharing(profile)
    done = CliRunner().invoke(app, out)
    assert done.exit_code == 0, done.exception
    assert select(data, need_accepted=False).episodes == (first,)
    assert Episode.open(second).profile.consent.sharing == "refused"


def test_a_wrong_profile_option_of_an_import_is_named_before_anything_is_written(tmp_path: Path):
    sound(tmp_path / "card" / "take.wav")
    for what in (tmp_path / "card", tmp_path / "card" / "take.wav"):
        run = CliRunner().invoke(
            app, ["import", str(what), "--sharing", "yes", "--into", str(tmp_path / "d")]
        )
        assert isinstance(run.exception, InputError) and "--sharing is one of given, refused" in str(
            run.exception
        )
        assert not (tmp_path / "d").exists()
