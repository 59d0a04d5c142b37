"""SD-card takes of the recorder become episodes; a wrong channel order never does."""

from __future__ import annotations

import json
import os
import re
import struct
from fractions import Fraction

import av
import numpy as np
import pytest
import soundfile
from typer.testing import CliRunner

import dsp
from dsp.errors import InputError
from hearth import app
from recordings import Episode, import_take, open_audio, read_wav

ORDERS = {"ambix": "WYZX", "fuma": "WXYZ"}


def chunk(name: bytes, data: bytes) -> bytes:
    return name + struct.pack("<I", len(data)) + data + b"\0" * (len(data) % 2)


def h3vr_wav(path, x, rate=48000, bits=24, tracks=None, time_reference=None, when=b"2026-03-2410:11:12"):
    """A WAV as the H3-VR lays it out: bext with zTRK lines, iXML padded with 0xFF, plain PCM; x is float."""
    y = np.round(np.asarray(x, np.float64) * 2 ** (bits - 1)).astype(np.int64)
    assert np.abs(y).max() < 2 ** (bits - 1)
    raw = y.astype("<i4").view(np.uint8).reshape(-1, 4)[:, : bits // 8].tobytes()
    chunks = []
    if tracks is not None:
        lines = "\r\n".join(f"zTRK{i}={name}" for i, name in enumerate(tracks, 1)).encode()
        reference = time_reference if time_reference is not None else rate * 36672
        bext = lines.ljust(256, b"\0") + b"ZOOM H3-VR".ljust(64, b"\0") + when + struct.pack("<Q", reference)
        names = "".join(f"<TRACK><NAME>{name}</NAME></TRACK>" for name in tracks)
        ixml = f"<BWFXML><TRACK_LIST>{names}</TRACK_LIST></BWFXML>".encode() + b"\xff" * 99
        chunks += [chunk(b"bext", bext.ljust(602, b"\0")), chunk(b"iXML", ixml)]
    align = 4 * bits // 8
    chunks.append(chunk(b"fmt ", struct.pack("<HHIIHH", 1, 4, rate, rate * align, align, bits)))
    body = b"WAVE" + b"".join(chunks) + chunk(b"data", raw)
    path.write_bytes(b"RIFF" + struct.pack("<I", len(body)) + body)
    return path


def scene(rate=48000, seconds=1.0, azimuth_deg=60.0, seed=0):
    mono = 0.1 * np.random.default_rng(seed).standard_normal(round(seconds * rate))
    return dsp.encode(mono, azimuth_deg, 20.0)


def video_file(path, times_s):
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=25, options={"bf": "2"})
        stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv420p"
        stream.codec_context.time_base = stream.time_base = Fraction(1, 90000)
        for i, t in enumerate(times_s):
            image = np.full((48, 64, 3), 20 * i, np.uint8)
            frame = av.VideoFrame.from_ndarray(image, format="rgb24").reformat(format="yuv420p")
            frame.pts, frame.time_base = round(t * 90000), Fraction(1, 90000)
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    return path


def test_fuma_and_ambix_of_one_scene_give_the_same_release(tmp_path):
    foa = scene()
    releases = {}
    for name, tracks in ORDERS.items():
        x = dsp.convert(foa, source="ambix", target=name)
        wav = h3vr_wav(tmp_path / f"{name}.wav", x, tracks=tracks)
        episode = import_take(wav, None, tmp_path / name, report=False)
        assert episode.format == name and episode.state == "finished"
        assert episode.verify().ok, episode.verify().problems
        releases[name] = episode.audio(24000)
    difference = np.abs(releases["ambix"] - releases["fuma"]).max()
    assert difference < 10 ** (-90 / 20)
    # Both are the scene: against a peer that knows nothing of our code.
    soxr = pytest.importorskip("soxr")
    peer = soxr.resample(foa, 48000, 24000, "VHQ")
    window = np.hanning(len(peer))[:, None]  # up to 9 kHz: the filters differ only near the band's edge
    low = slice(0, round(9000 * len(peer) / 24000))
    for release in releases.values():
        error = np.abs(np.fft.rfft((release - peer) * window, axis=0)[low])
        assert np.linalg.norm(error) < 1e-3 * np.linalg.norm(np.fft.rfft(peer * window, axis=0)[low])


def test_ambisonics_a_of_ideal_capsules_comes_out_in_the_right_direction(tmp_path):
    wav = h3vr_wav(
        tmp_path / "a.wav",
        dsp.convert(scene(), source="ambix", target="a"),
        tracks=("FLU", "FRD", "BLD", "BRU"),
    )
    episode = import_take(wav, None, tmp_path, report=False)
    assert episode.format == "a"
    track = episode.doa()
    assert np.nanmax(np.abs(track.azimuth_deg[2:-2] - 60.0)) < 2.0
    assert np.nanmax(np.abs(track.elevation_deg[2:-2] - 20.0)) < 2.0


@pytest.mark.parametrize(("rate", "bits"), [(44100, 16), (44100, 24), (48000, 16), (96000, 24)])
def test_every_rate_and_depth_of_the_recorder(tmp_path, rate, bits):
    wav = h3vr_wav(tmp_path / "260324_008.WAV", scene(rate), rate, bits, "WYZX")
    episode = import_take(wav, None, tmp_path / "data", report=False)
    assert episode.path.name == "20260324-101112-260324_008"
    kept = episode.path / "foa_48k" / "260324_008.WAV"
    assert kept.read_bytes() == wav.read_bytes()
    assert episode.audio_source["rate_hz"] == rate and episode.audio_source["bits"] == bits
    np.testing.assert_array_equal(episode.audio(rate), open_audio(wav).read())
    assert len(episode.audio(24000)) == -(-rate * 24000 // rate)
    assert abs(float(np.nanmedian(episode.doa().azimuth_deg)) - 60.0) < 1.0
    assert episode.verify().ok


def test_the_recorders_time_is_kept_with_its_uncertainty(tmp_path):
    wav = h3vr_wav(tmp_path / "260325_008.WAV", scene(), tracks="WYZX")
    episode = import_take(wav, None, tmp_path, report=False)
    time = episode.profile.source["recorder_time"]
    assert (time["local"], time["uncertainty_s"], time["take"]) == ("2026-03-24T10:11:12", 1.0, 8)
    assert "260325" in time["warning"]
    anchor = next(line for line in episode.timeline() if line["type"] == "anchor")
    assert anchor["uncertainty_ns"] == 10**9 and anchor["t_ns"] == 0


@pytest.mark.parametrize(
    ("tracks", "given", "message"),
    [
        (None, None, "channel order is unknown.*--format"),
        ("1234", None, "its tracks are called 1, 2, 3, 4"),
        ("WYZX", "fuma", "--format fuma contradicts .* ambix"),
        ("WXYZ", "ambix", "--format ambix contradicts .* fuma"),
        ("WXYZ", "a", "contradicts"),
        ("WYZX", "b-format", "'b-format' is unknown; one of ambix"),
    ],
)
def test_an_unknown_or_contradicted_order_stops_and_leaves_nothing(tmp_path, tracks, given, message):
    wav = h3vr_wav(tmp_path / "x.wav", scene(seconds=0.1), tracks=tracks)
    with pytest.raises(InputError, match=message):
        import_take(wav, None, tmp_path / "data", given, report=False)
    assert not (tmp_path / "data").exists()


def test_without_tags_the_user_decides(tmp_path):
    foa = dsp.convert(scene(), source="ambix", target="fuma")
    wav = h3vr_wav(tmp_path / "x.wav", foa, tracks=None)
    episode = import_take(wav, None, tmp_path / "data", "fuma", report=False)
    assert (episode.format, episode.audio_source["format_from"]) == ("fuma", "given")
    assert episode.profile.source["recorder_time"]["local"] is None
    assert abs(float(np.nanmedian(episode.doa().azimuth_deg)) - 60.0) < 1.0


def test_flac_and_ogg(tmp_path):
    foa = scene()
    soundfile.write(tmp_path / "x.flac", foa, 48000, subtype="PCM_24")
    soundfile.write(tmp_path / "x.ogg", foa, 48000)
    for name, limit in (("x.flac", 0.1), ("x.ogg", 5.0)):
        episode = import_take(tmp_path / name, None, tmp_path / "data", "ambix", name=name[2:], report=False)
        assert episode.verify().ok, episode.verify().problems
        assert abs(float(np.nanmedian(episode.doa().azimuth_deg)) - 60.0) < limit
    with pytest.raises(InputError, match="no such file"):
        import_take(tmp_path / "absent.flac", None, tmp_path, "ambix")
    (tmp_path / "text.flac").write_text("not music")
    with pytest.raises(InputError, match="not a sound file"):
        import_take(tmp_path / "text.flac", None, tmp_path, "ambix")


def test_stereo_names_the_menu(tmp_path):
    soundfile.write(tmp_path / "st.wav", np.zeros((100, 2)), 48000)
    with pytest.raises(InputError, match=r"2 channels.*Menu"):
        import_take(tmp_path / "st.wav", None, tmp_path, "ambix")


def test_parts_that_abut_are_joined_in_name_order(tmp_path):
    foa = scene(seconds=2.0)
    second = h3vr_wav(tmp_path / "b.wav", foa[40000:], tracks="WYZX", time_reference=48000 * 36672 + 40000)
    first = h3vr_wav(tmp_path / "a.wav", foa[:40000], tracks="WYZX")
    episode = import_take([second, first], None, tmp_path / "data", report=False)
    assert [p.name for p in episode.audio_paths] == ["a.wav", "b.wav"]
    whole = import_take(
        h3vr_wav(tmp_path / "w.wav", foa, tracks="WYZX"), None, tmp_path / "data2", report=False
    )
    np.testing.assert_array_equal(episode.audio(24000), whole.audio(24000))
    assert episode.verify().ok


def test_parts_that_overlap_are_joined_where_they_are_identical_and_refused_where_not(tmp_path):
    foa = scene(seconds=2.0)
    first = h3vr_wav(tmp_path / "a.wav", foa[:50000], tracks="WYZX")
    second = h3vr_wav(tmp_path / "b.wav", foa[40000:], tracks="WYZX", time_reference=48000 * 36673)
    given = second.read_bytes()
    episode = import_take([first, second], None, tmp_path / "joined", report=False)
    whole = h3vr_wav(tmp_path / "w.wav", foa, tracks="WYZX")
    np.testing.assert_array_equal(episode.audio(48000), open_audio(whole).read())
    assert episode.verify().ok, episode.verify().problems
    assert episode.profile.source["joints"][0]["overlap_frames"] == 10000
    assert second.read_bytes() == given
    # Different sound, but the recorder's own counter says that they overlap.
    other = h3vr_wav(tmp_path / "c.wav", scene(seed=9), tracks="WYZX", time_reference=48000 * 36672 + 49_000)
    with pytest.raises(InputError, match="1000 frames before the first ends"):
        import_take([first, other], None, tmp_path / "data", report=False)
    differs = h3vr_wav(tmp_path / "d.wav", scene(44100), 44100, tracks="WYZX")
    with pytest.raises(InputError, match="does not continue"):
        import_take([first, differs], None, tmp_path / "data", report=False)


@pytest.mark.parametrize(
    ("when", "reference", "message"),
    [
        (b"2026-03-2410:11:14", 0, None),  # 2 s later, after a part of 1 s: 1 s steps
        (b"2026-03-2410:11:20", 0, "starts 7.0 s after the first ends"),
        (b"2026-03-2310:11:13", 0, "do not seem to be parts"),
        (b"", 0, "no time in both"),
    ],
)
def test_only_parts_whose_times_follow_each_other_are_joined(tmp_path, when, reference, message):
    first = h3vr_wav(tmp_path / "a.wav", scene(), tracks="WYZX", time_reference=0)
    when = when.ljust(18, b"\0")
    second = h3vr_wav(tmp_path / "b.wav", scene(seed=1), tracks="WYZX", time_reference=reference, when=when)
    if message is None:
        assert len(import_take([first, second], None, tmp_path / "data", report=False).audio_paths) == 2
        return
    with pytest.raises(InputError, match=f"{message}.*one by one"):
        import_take([first, second], None, tmp_path / "data", report=False)
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize(
    ("name", "kept"),
    [(b"caf\xe9.wav", "caf_.wav"), (b"take.dat", "take.dat.wav"), (b".hidden.wav", "hidden.wav")],
)
def test_odd_file_names_are_kept_under_a_plain_one(tmp_path, name, kept):
    wav = h3vr_wav(tmp_path / "x.wav", scene(seconds=0.3), tracks="WYZX")
    odd = tmp_path / os.fsdecode(name)
    try:
        wav.rename(odd)
    except OSError:
        pytest.skip("this file system takes no name that is not UTF-8")
    episode = import_take(odd, None, tmp_path / "data", report=False)
    assert [p.name for p in episode.audio_paths] == [kept]
    assert episode.verify().ok, episode.verify().problems
    assert episode.audio_paths[0].read_bytes() == odd.read_bytes()
    assert episode.profile.source["files"][0]["called_before"] == name.decode("utf-8", "backslashreplace")


def test_a_video_file_is_kept_as_coded_with_its_times(tmp_path):
    times = [0.0, 0.04, 0.1, 0.11, 0.2, 0.35, 0.4]  # true variable rate
    wav = h3vr_wav(tmp_path / "x.wav", scene(), tracks="WYZX")
    video = video_file(tmp_path / "x.mp4", times)
    episode = import_take(wav, video, tmp_path / "data", video_offset_s=0.25, report=False)
    assert episode.verify().ok, episode.verify().problems
    found = episode.frame_times()
    np.testing.assert_allclose(found * 1e-9, np.array(times) + 0.25, atol=2e-5)
    pictures = list(episode.frames())
    assert [t for t, _ in pictures] == list(found)
    for i, (_, image) in enumerate(pictures):
        assert abs(float(image.mean()) - 20 * i) < 8
    assert episode.profile.source["video"]["alignment"] == "given"
    with pytest.raises(InputError, match="no video stream"):
        import_take(wav, wav, tmp_path / "data2", report=False)
    assert not (tmp_path / "data2").exists()


def test_a_failed_import_leaves_nothing_and_the_second_try_works(tmp_path, monkeypatch):
    import recordings.importer as importer
    from recordings import StorageError

    wav = h3vr_wav(tmp_path / "x.wav", scene(seconds=0.3), tracks="WYZX")
    (tmp_path / "x.mp4").write_bytes(b"no video")
    data = tmp_path / "data"
    with pytest.raises(InputError, match=r"x\.mp4"):
        import_take(wav, tmp_path / "x.mp4", data, report=False)
    assert not data.exists()
    data.mkdir()  # a folder that was there stays
    with monkeypatch.context() as patch:
        full = StorageError("cannot write: the disk is full")
        patch.setattr(importer, "complete", lambda *a, **k: (_ for _ in ()).throw(full))
        with pytest.raises(StorageError, match="full"):
            import_take(wav, None, data, report=False)
    assert list(data.iterdir()) == []
    video_file(tmp_path / "x.mp4", [0.0, 0.04])
    assert import_take(wav, tmp_path / "x.mp4", data, report=False).verify().ok


def test_an_impossible_rate_names_the_file(tmp_path):
    wav = h3vr_wav(tmp_path / "odd.wav", scene(7999, 0.3), 7999, tracks="WYZX")
    with pytest.raises(InputError, match=r"odd\.wav: 7999 Hz"):
        import_take(wav, None, tmp_path / "data", report=False)
    assert not (tmp_path / "data").exists()


def test_a_folder_is_called_a_folder(tmp_path):
    with pytest.raises(InputError, match="is a folder"):
        import_take(tmp_path, None, tmp_path / "data", "ambix")


def test_a_damaged_take_is_imported_with_a_note(tmp_path):
    wav = h3vr_wav(tmp_path / "x.wav", scene(), tracks="WYZX")
    wav.write_bytes(wav.read_bytes()[:-7000])
    episode = import_take(wav, None, tmp_path / "data", report=False)
    report = episode.verify()
    assert report.ok
    assert any("truncated" in note for note in report.notes)
    assert (episode.path / "foa_48k" / "x.wav").read_bytes() == wav.read_bytes()


def test_importing_twice_says_so(tmp_path):
    wav = h3vr_wav(tmp_path / "x.wav", scene(seconds=0.3), tracks="WYZX")
    import_take(wav, None, tmp_path / "data", report=False)
    with pytest.raises(InputError, match=r"exists already.*--name"):
        import_take(wav, None, tmp_path / "data", report=False)
    import_take(wav, None, tmp_path / "data", name="again", report=False)


def test_an_unknown_alignment_and_a_missing_camera_pose_are_said(tmp_path):
    """On the console, in the JSON, and on the page."""
    wav = h3vr_wav(tmp_path / "x.wav", scene(seconds=1.0), tracks="WYZX")
    video = video_file(tmp_path / "x.mp4", [0.1 * i for i in range(9)])
    data = str(tmp_path / "data")
    told = CliRunner().invoke(app, ["import", str(wav), str(video), "--into", data, "--name", "a"])
    assert told.exit_code == 0 and "how the pictures lie against the sound is not known" in told.stdout
    options = ["--into", data, "--name", "b", "--no-report", "--video-offset-s", "0.5", "--json"]
    known = CliRunner().invoke(app, ["import", str(wav), str(video), *options])
    assert json.loads(known.stdout)["video_alignment"] == "given"
    (page,) = (tmp_path / "data").glob("imported/*-a/report.html")
    html = page.read_text()
    assert "How the pictures lie against the sound is not known" in html
    assert "no camera pose" in html and "outside the picture, that way" not in html
    assert re.search(r"</b>sound (59|60|61)° left", html)


def test_our_own_n3d_is_told_from_ambix(tmp_path):
    from recordings.wav_write import WavWriter

    writer = WavWriter(tmp_path / "n.wav", 48000, 4, sample_type="float", format_name="n3d")
    writer.write(dsp.convert(scene(), source="ambix", target="n3d"))
    writer.close()
    assert read_wav(tmp_path / "n.wav").format == "n3d"
    episode = import_take(tmp_path / "n.wav", None, tmp_path / "data", report=False)
    assert np.abs(episode.audio(24000) - dsp.resample(scene(), 48000, 24000)).max() < 1e-6


def test_the_last_argument_of_the_command_may_be_the_video(tmp_path):
    from typer.testing import CliRunner

    from hearth import app

    wav = h3vr_wav(tmp_path / "x.wav", scene(seconds=0.3), tracks="WYZX")
    video = video_file(tmp_path / "x.MP4", [0.0, 0.04, 0.1])
    args = ["import", str(wav), str(video), "--into", str(tmp_path / "data"), "--no-report", "--json"]
    result = CliRunner().invoke(app, args)
    assert result.exit_code == 0, result.exception
    (folder,) = (tmp_path / "data" / "imported").iterdir()
    assert len(Episode.open(folder).frame_times()) == 3
    assert [p.name for p in Episode.open(folder).audio_paths] == ["x.wav"]
