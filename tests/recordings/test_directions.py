"""Directions of a file as rows, table, DCASE metadata, summary and picture."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from typer.testing import CliRunner

import dsp
from dsp.errors import InputError
from hearth import app
from recordings import open_audio
from recordings.directions import (
    COLUMNS,
    Directions,
    dcase_csv,
    directions_of,
    in_words,
    summary,
    table_csv,
    track_summary,
)
from recordings.directions_plot import AZIMUTH, LEFT, RIGHT, directions_plot
from recordings.report_sound import MelSpectrogram
from recordings.wav_write import WavWriter


def row(time_s, azimuth, elevation=0.0, confidence=0.9, active=True, track=None):
    return {
        "time_s": time_s,
        "azimuth_deg": azimuth,
        "elevation_deg": elevation,
        "confidence": confidence,
        "uncertainty_deg": 2.0,
        "level_dbfs": -20.0,
        "active": active,
        "track": track,
    }


@pytest.fixture(scope="module")
def take(tmp_path_factory):
    """1 s of silence, then 1 s of noise from 130 degrees left, 20 up; AmbiX."""
    path = tmp_path_factory.mktemp("doa") / "take.wav"
    noise = 0.1 * np.random.default_rng(1).standard_normal(48000)
    writer = WavWriter(path, 48000, 4, sample_type="float", format_name="ambix")
    writer.write(np.concatenate([np.zeros((48000, 4), np.float32), dsp.encode(noise, 130.0, 20.0)]))
    writer.close()
    return path


def test_rows_without_confidence_carry_no_angle(take):
    rows = directions_of(open_audio(take), "ambix").rows
    assert len(rows) == 20
    quiet = [r for r in rows if r["confidence"] == 0]
    assert len(quiet) >= 9
    assert all(r["azimuth_deg"] is None and r["elevation_deg"] is None for r in quiet)
    table = list(csv.DictReader(io.StringIO(table_csv(rows, COLUMNS))))
    assert table[0]["azimuth_deg"] == table[0]["elevation_deg"] == table[0]["uncertainty_deg"] == ""
    assert [r["active"] for r in table[:5]] == ["0"] * 5 and table[15]["active"] == "1"
    assert float(table[15]["uncertainty_deg"]) < 10


def test_diffuse_noise_carries_no_angle(tmp_path):
    """Independent noise in each channel at the powers of a diffuse field (1/3 per figure of eight)."""
    noise = 0.1 * np.random.default_rng(2).standard_normal((48000, 4)) * np.array([1.0, *[3**-0.5] * 3])
    writer = WavWriter(tmp_path / "d.wav", 48000, 4, sample_type="float", format_name="ambix")
    writer.write(noise.astype(np.float32))
    writer.close()
    for r in directions_of(open_audio(tmp_path / "d.wav"), "ambix").rows:
        assert (r["azimuth_deg"] is None) == (r["confidence"] == 0)


def test_dcase_lines_are_five_integers_of_active_frames(take, tmp_path):
    out = tmp_path / "d.csv"
    result = CliRunner().invoke(app, ["doa", str(take), "--dcase", str(out), "--class", "7"])
    assert result.exit_code == 0, result.output
    lines = [[int(field) for field in line.split(",")] for line in out.read_text().splitlines()]
    assert all(len(line) == 5 and line[1] == 7 for line in lines)
    frames = sorted({line[0] for line in lines})
    assert frames[0] in (9, 10, 11) and frames[-1] in (18, 19)
    assert all(abs(line[3] - 130) <= 2 and abs(line[4] - 20) <= 2 for line in lines[1:-1])


def track(time_s, number, azimuth, elevation=0.0, coasting=False):
    return {
        "time_s": time_s,
        "track": number,
        "azimuth_deg": azimuth,
        "elevation_deg": elevation,
        "coasting": coasting,
    }


def test_dcase_rounds_over_the_rear_and_skips_what_is_silent():
    rows = [row(0.0, 179.7, -0.4), row(0.1, 12.5, active=False), row(0.2, None, None, 0.0), row(0.3, -179.8)]
    assert dcase_csv(Directions(rows, []), 3) == "0,3,0,-180,0\n3,3,0,-180,0\n"


def test_dcase_sources_are_the_tracks_that_sound():
    """Two at once give two lines; a coasting one gives none; a direction of no track is source 0."""
    rows = [row(0.0, 50.0, track=2), row(0.1, 50.0, track=2), row(0.2, -90.0)]
    tracks = [
        track(0.0, 1, -20.0),
        track(0.0, 2, 51.2, 9.6),
        track(0.1, 1, -20.0, coasting=True),
        track(0.1, 2, 52.0),
        track(0.2, 2, 52.0, coasting=True),
    ]
    text = dcase_csv(Directions(rows, tracks))
    assert text.splitlines() == ["0,0,1,-20,0", "0,0,2,51,10", "1,0,2,52,0", "2,0,0,-90,0"]
    first, second = track_summary(tracks)
    assert (first["track"], first["start_s"], first["end_s"], first["heard_s"]) == (1, 0.0, 0.1, 0.1)
    assert (second["heard_s"], second["azimuth_deg"]) == (0.2, [51.2, 52.0])


def bursts(rng: np.random.Generator, seconds: float) -> np.ndarray:
    """Noise that comes and goes like syllables, five a second."""
    n = round(48000 * seconds)
    gate = (np.arange(n) / 48000 * 5 % 1 < 0.5).astype(np.float64)
    return 0.2 * gate * rng.standard_normal(n)


def test_two_places_become_two_tracks_in_every_output(tmp_path):
    rng = np.random.default_rng(3)
    left, right = dsp.encode(bursts(rng, 2.0), 70.0, 0.0), dsp.encode(bursts(rng, 2.0), -60.0, 10.0)
    room = 1e-3 * rng.standard_normal((4 * 48000, 4)).astype(np.float32)
    writer = WavWriter(tmp_path / "two.wav", 48000, 4, sample_type="float", format_name="ambix")
    writer.write(np.concatenate([left, right]) + room)
    writer.close()
    outputs = {"csv": "d.csv", "tracks": "t.csv", "dcase": "dcase.csv", "plot": "p.svg"}
    options = [x for key, name in outputs.items() for x in (f"--{key}", str(tmp_path / name))]
    result = CliRunner().invoke(app, ["doa", str(tmp_path / "two.wav"), *options, "--json"])
    assert result.exit_code == 0, result.output
    told = json.loads(result.stdout)
    assert [abs(one["azimuth_deg"][1] - a) < 5 for one, a in zip(told["tracks"], (70, -60), strict=True)]
    names = [one["track"] for one in told["tracks"]]
    table = list(csv.DictReader((tmp_path / "d.csv").open()))
    of_left = {r["track"] for r in table if r["active"] == "1" and 0.6 < float(r["time_s"]) < 1.8}
    of_right = {r["track"] for r in table if r["active"] == "1" and 2.8 < float(r["time_s"]) < 3.8}
    assert (of_left, of_right) == ({str(names[0])}, {str(names[1])})
    rows = list(csv.DictReader((tmp_path / "t.csv").open()))
    assert {int(r["track"]) for r in rows} == set(names) and {r["coasting"] for r in rows} == {"0", "1"}
    sources = {line.split(",")[2] for line in (tmp_path / "dcase.csv").read_text().splitlines()}
    assert set(map(str, names)) <= sources
    texts = [n.text for n in ElementTree.parse(tmp_path / "p.svg").iter() if n.tag.endswith("text")]
    assert all(texts.count(str(name)) >= 2 for name in names)


def test_the_mean_has_no_seam_and_tells_when_it_means_nothing():
    around = summary([row(0.1 * i, a) for i, a in enumerate((178.0, -178.0, 179.0, -179.0))])
    assert abs(abs(around["azimuth_deg"]) - 180) < 0.01 and around["spread_deg"] <= 2.0
    two = summary([row(0.1 * i, a) for i, a in enumerate((80.0, -80.0) * 10)])
    assert two["spread_deg"] > 70 and "more than one" in in_words(two)
    none = summary([row(0.0, None, None, 0.0, active=False)])
    assert none["azimuth_deg"] is None and "no direction" in in_words(none)
    assert "mean azimuth" in in_words(around) and "mostly" not in in_words(around)


@pytest.mark.parametrize("duration_s", [0.05, 2.0, 5000.0])
def test_the_picture_shows_the_directions_where_they_are(duration_s):
    """Dots of an SVG, read back: their height is the azimuth, their place the time."""
    times = np.arange(0, duration_s, 0.1)
    rows = [row(t, 90.0, -30.0, confidence=0.95) for t in times]
    spectrum = MelSpectrogram(4800, 24000)
    spectrum.push(np.random.default_rng(0).standard_normal(4800).astype(np.float32))
    name = '<a & "b">\x07.wav'
    data = directions_plot(".svg", Directions(rows, []), spectrum, duration_s, name, summary(rows))
    tree = ElementTree.fromstring(data)
    texts = [node.text for node in tree.iter() if node.tag.endswith("text")]
    for needed in ("Azimuth (degrees)", "Elevation (degrees)", "Frequency of W (Hz)", "confidence", "left"):
        assert needed in texts
    assert any(t and t.startswith("Time (") for t in texts)
    dots = re.findall(r'<circle cx="([\d.]+)" cy="([\d.]+)"', data.decode())
    height = AZIMUTH[0] + (AZIMUTH[1] - AZIMUTH[0]) / 4  # 90 of 180...-180
    on_it = [float(x) for x, y in dots if abs(float(y) - height) < 0.11]
    assert len(on_it) == min(len(rows), 4000)
    assert min(on_it) >= LEFT and max(on_it) <= RIGHT
    if duration_s == 2.0:
        assert on_it[0] == pytest.approx(LEFT + (RIGHT - LEFT) * 0.05 / 2.0, abs=0.1)


def test_the_png_is_a_picture_of_the_same(take, tmp_path):
    import cv2

    out = tmp_path / "d.png"
    result = CliRunner().invoke(app, ["doa", str(take), "--plot", str(out)])
    assert result.exit_code == 0, result.output
    image = cv2.imread(str(out)).astype(int)
    assert image.shape == (1624, 2360, 3)
    # Dots are the only dark purple inside the azimuth panel: they must lie at +130 in the second half.
    top, bottom = (int(2 * y) for y in AZIMUTH)
    panel = image[top + 4 : bottom - 4, int(2 * LEFT) + 4 : int(2 * RIGHT) - 4]
    blue, green, red = np.moveaxis(panel, 2, 0)
    y, x = np.nonzero((green < 60) & (blue > green + 25) & (red > green))
    azimuth = 180 - 360 * (np.median(y) + 4) / (bottom - top)
    assert abs(azimuth - 130) < 3 and np.median(x) > panel.shape[1] / 2


def test_wrong_use_of_the_outputs(take, tmp_path):
    def error(*args):
        return CliRunner().invoke(app, ["doa", str(take), *args]).exception

    assert ".png or .svg" in str(error("--plot", str(tmp_path / "x.pdf")))
    both = error("--csv", "-", "--dcase", "-")
    assert isinstance(both, InputError) and "both want stdout" in str(both)
    assert isinstance(error("--csv", "-", "--json"), InputError)
    assert "speech, all" in str(error("--sounds", "music"))


def test_outputs_never_replace_the_recording_or_each_other(tmp_path: Path) -> None:
    from recordings.directions_files import DirectionFiles

    recording = tmp_path / "take.wav"
    recording.write_bytes(b"RIFF")
    (tmp_path / "link.wav").symlink_to(recording)
    for name in ("take.wav", "./take.wav", "link.wav"):
        with pytest.raises(InputError, match="the recording itself"):
            DirectionFiles(tracks=tmp_path / name).check(False, recording)
    with pytest.raises(InputError, match="--csv and --tracks both name"):
        DirectionFiles(csv=tmp_path / "o.csv", tracks=tmp_path / "o.csv").check(False, recording)
    DirectionFiles(csv=tmp_path / "o.csv", tracks=tmp_path / "t.csv").check(False, recording)
