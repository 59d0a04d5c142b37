"""A copy of a video in which no face can be seen, or no copy at all.

First pass: CenterFace in every picture, tracks, and from those what is covered in each picture (face_tracks).
Second pass, over the copy as it was written: OpenCV's cascades, and CenterFace on the mirrored, enlarged
picture. What that finds outside the covered places is covered too and the copy made again, at most `ROUNDS`
times; if a face is found in the last one there is no copy.

Covered places get one flat colour, the mean of the place in that picture: three numbers, of which no face can
be made. Pictures keep their number and times; one that cannot be decoded becomes grey.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dsp.errors import CheckFailed, InputError
from recordings.privacy.face_tracks import F64, covered, follow, persons, seen_together
from recordings.privacy.faces import Cascades, CenterFace, Detector, together
from recordings.storage import storage_errors
from recordings.terminal import counted
from recordings.video_read import numbered_frames, summarise
from recordings.video_write import VideoFile

ROUNDS = 4
INSIDE = 0.5  # a hit that is covered by less than this of its area is a face that can be seen
Image = NDArray[np.uint8]


@dataclass(frozen=True)
class BlurReport:
    """pictures: of the copy. faces: tracks that were followed. expected: persons in the room. covered:
    pictures with anything covered. added: places that only the second pass found. undecodable: pictures that
    became grey. rounds: how often the copy was made."""

    pictures: int
    faces: int
    expected: int
    covered: int
    added: int
    undecodable: int
    rounds: int
    encoder: str


def blurred_copy(
    source: str | Path,
    target: str | Path,
    *,
    faces_expected: int = 0,
    first: Detector | None = None,
    second: Detector | None = None,
    advance: Callable[[float], None] = lambda _: None,
) -> BlurReport:
    """Write `target` (Matroska; without sound) from the video `source`, faces covered.

    faces_expected: how many persons are in the room; 0: nobody knows. first, second: other detectors.
    Raises CheckFailed, and leaves no target, when fewer persons were found than are expected (a face that was
    never found cannot be covered), or a face is found in the finished copy; InputError for a file that is no
    video, or a target that exists; MissingDependency without the model; StorageError.
    """
    source, target = Path(source), Path(target)
    if target.exists():
        raise InputError(f"{target}: exists already")
    if faces_expected < 0:
        raise InputError(f"faces_expected is a number of persons, not {faces_expected}")
    first = first or CenterFace(0.3)
    second = second or together(Cascades(5), CenterFace(0.4, zoom=1.25, mirrored=True))
    times = summarise(source).times_ns
    if not times:
        raise InputError(f"{source}: holds no picture")
    places = _first_pass(source, times, first, faces_expected, advance)
    steady = places.steady
    added = 0
    done = False
    try:
        for number in range(1, ROUNDS + 1):
            undecodable, encoder = _write(source, target, times, places.boxes)
            open_faces = _seen(target, places.boxes, second, advance)
            if not any(open_faces):
                if summarise(target).times_ns != [t - times[0] for t in times]:
                    raise CheckFailed(f"{source}: the copy has other picture times than the video; no copy")
                done = True
                return BlurReport(
                    pictures=len(times),
                    faces=steady,
                    expected=faces_expected,
                    covered=sum(bool(boxes) for boxes in places.boxes),
                    added=added,
                    undecodable=undecodable,
                    rounds=number,
                    encoder=encoder,
                )
            added += sum(map(len, open_faces))
            _add(places.boxes, open_faces)
        where = [index for index, boxes in enumerate(open_faces) if boxes]
        raise CheckFailed(
            f"{source}: a face can be seen in {len(where)} of {len(times)} pictures of the copy (first:"
            f" picture {where[0]}) after {ROUNDS} rounds; no copy was left"
        )
    finally:
        if not done:
            with suppress(OSError):
                target.unlink()


@dataclass
class _Places:
    boxes: list[list[F64]]
    steady: int


def _pictures(path: Path, times: Sequence[int]) -> Iterator[tuple[int, Image | None]]:
    """(number, picture) of all that the file lists; None for one that cannot be decoded."""
    slots = {t: index for index, t in enumerate(times)}
    expected = 0
    for _, t_ns, image in numbered_frames(path):
        index = slots.get(t_ns)
        if index is None or index < expected:
            raise CheckFailed(f"{path}: a picture at {t_ns / 1e9:.3f} s that the file does not list; no copy")
        for missing in range(expected, index):
            yield missing, None
        yield index, image
        expected = index + 1
    for missing in range(expected, len(times)):
        yield missing, None


def _first_pass(
    source: Path, times: Sequence[int], detector: Detector, expected: int, advance: Callable[[float], None]
) -> _Places:
    found = []
    for _, image in _pictures(source, times):
        found.append(np.zeros((0, 5), np.float32) if image is None else detector(image))
        advance(1)
    seconds = [(t - times[0]) / 1e9 for t in times]
    tracks = follow(found, seconds)
    steady = persons(tracks)
    at_once = seen_together(steady, len(times))
    if at_once < expected:
        raise CheckFailed(
            f"{source}: {counted(expected, 'person')} in the room by the profile, and at most"
            f" {counted(at_once, 'face')} found at a time; a face that was not found cannot be covered, so"
            " there is no copy"
        )
    return _Places(covered(tracks, seconds, expected), len(steady))


def _write(
    source: Path, target: Path, times: Sequence[int], places: Sequence[Sequence[F64]]
) -> tuple[int, str]:
    """The copy; gives how many pictures could not be decoded, and the encoder."""
    summary = summarise(source)
    seconds = (times[-1] - times[0]) / 1e9
    rate = (len(times) - 1) / seconds if seconds > 0 else 30.0
    with storage_errors(target):
        target.unlink(missing_ok=True)
    file = VideoFile(target, summary.width_px, summary.height_px, rate)
    undecodable = 0
    try:
        for index, image in _pictures(source, times):
            if image is None:
                undecodable += 1
                image = np.full((summary.height_px, summary.width_px, 3), 128, np.uint8)
            file.write(cover(image, places[index]), times[index] - times[0])
    finally:
        file.close()
    return undecodable, file.encoder


def cover(image: Image, boxes: Sequence[F64]) -> Image:
    """The picture with each place filled by its mean colour; boxes that touch are one place."""
    if not boxes:
        return image
    import cv2

    mask = np.zeros(image.shape[:2], np.uint8)
    for box in boxes:
        mask[_inside(image.shape, box)] = 1
    count, labels = cv2.connectedComponents(mask)
    out = np.array(image)
    for label in range(1, count):
        place = labels == label
        out[place] = image[place].mean(axis=0).round().astype(np.uint8)
    return out


def _inside(shape: tuple[int, ...], box: F64) -> tuple[slice, slice]:
    x, y, w, h = box
    rows = slice(int(np.clip(np.floor(y), 0, shape[0])), int(np.clip(np.ceil(y + h), 0, shape[0])))
    columns = slice(int(np.clip(np.floor(x), 0, shape[1])), int(np.clip(np.ceil(x + w), 0, shape[1])))
    return rows, columns


def _seen(
    target: Path, places: Sequence[Sequence[F64]], detector: Detector, advance: Callable[[float], None]
) -> list[list[F64]]:
    """For each picture of the copy the faces that are found and are not covered."""
    seen: list[list[F64]] = []
    for index, (_, _, image) in enumerate(numbered_frames(target)):
        boxes = np.asarray(detector(image), np.float64)[:, :4]
        mask = np.zeros(image.shape[:2], np.bool_)
        for box in places[index]:
            mask[_inside(image.shape, box)] = True
        seen.append([])
        for box in boxes:
            part = mask[_inside(image.shape, box)]
            if part.size and part.mean() < INSIDE:
                seen[-1].append(box)
        advance(1)
    if len(seen) != len(places):
        raise CheckFailed(f"{target}: {len(seen)} pictures instead of {len(places)}; no copy was left")
    return seen


def _add(places: list[list[F64]], more: Sequence[Sequence[F64]]) -> None:
    """Cover further places with a margin, also in the three pictures before and after."""
    for index, boxes in enumerate(more):
        for x, y, w, h in boxes:
            grown = np.array([x - w / 4, y - h / 4, w * 1.5, h * 1.5])
            for near in range(max(0, index - 3), min(len(places), index + 4)):
                places[near].append(grown)
