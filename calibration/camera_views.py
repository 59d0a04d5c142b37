"""From pictures (files, a folder, a video, an episode, arrays) to views of the board, on all cores.

Nothing is dropped in silence: every picture becomes a view, or is skipped with its name and the reason.
Threads, not processes: OpenCV works outside of Python's lock, and starting processes costs more than twenty
pictures.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import islice
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibration.board import Board
from calibration.camera_detect import Detection, Detector, choose_layout
from dsp.errors import InputError

Floats = NDArray[np.float64]
Grey = NDArray[np.uint8]
PICTURES = (".png", ".jpg", ".jpeg", ".bmp", ".tif", ".tiff", ".webp", ".pgm", ".ppm", ".jp2")
VIDEOS = (".mp4", ".mov", ".mkv", ".avi", ".webm", ".m4v")
# A picture whose edges are wider than this says nothing exact about corners.
_BLURRED_PX = 9.0
_FEWEST_CORNERS = 6
# Corners of a video that move faster than this (pixels a second, at 1280 wide) are skewed by a rolling
# shutter and smeared by the exposure.
_MOVING_PX_S = 100.0
# Views closer than this (mean corner movement over the width of the picture) show the same thing.
_SAME = 0.02
_MOST_FROM_VIDEO = 60


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture to look at: its name for people, and grey pixels, or why there are none.

    t_s: its time in a video. follows: only there to show whether the board moved since the one before.
    """

    name: str
    grey: Grey | None
    trouble: str = ""
    t_s: float | None = None
    follows: bool = False


@dataclass(frozen=True, slots=True)
class View:
    """The board in one picture."""

    name: str
    detection: Detection


@dataclass(frozen=True, slots=True)
class Left:
    """A picture or view that was left out, and why."""

    name: str
    reason: str


@dataclass(frozen=True, slots=True)
class Views:
    """Views of a board (all of one picture size), what was skipped, and the board in the layout seen."""

    board: Board
    width_px: int
    height_px: int
    views: list[View]
    skipped: list[Left]
    pictures: int


def open_pictures(source: Any) -> tuple[Iterator[Picture], int | None, list[Path]]:
    """Pictures of a folder, a video, an episode, or an iterable of files and arrays.

    Returns the pictures one by one, how many there are (None: not known before the end), and the files they
    come from. Of a video every picture 0.3 s apart is taken, with the one after it, so that movement shows.
    Raises InputError when there is nothing.
    """
    if isinstance(source, str | PathLike):
        path = Path(source)
        if path.is_dir():
            if (path / "episode.yaml").is_file():
                from recordings.episode import video_name

                path = path / video_name()
                if not path.is_file():
                    raise InputError(f"{path.parent}: an episode without a video")
                return _video(path), None, [path]
            files = sorted(p for p in path.iterdir() if p.suffix.lower() in PICTURES and p.is_file())
            if not files:
                raise InputError(f"{path}: no pictures in this folder ({', '.join(PICTURES)})")
            return (_read(file) for file in files), len(files), files
        if not path.is_file():
            raise InputError(f"{path}: no such file or folder")
        if path.suffix.lower() in VIDEOS:
            return _video(path), None, [path]
        return iter([_read(path)]), 1, [path]
    if isinstance(source, np.ndarray):
        source = (
            [source] if source.ndim == 2 or (source.shape[-1] == 3 and source.ndim == 3) else list(source)
        )
    entries = source if isinstance(source, list | tuple) else None
    files = [Path(e) for e in entries or () if isinstance(e, str | PathLike)]
    return _given(source), None if entries is None else len(entries), files


def _given(source: Iterable[Any]) -> Iterator[Picture]:
    for number, entry in enumerate(source):
        if isinstance(entry, Picture):
            yield entry
        elif isinstance(entry, str | PathLike):
            yield _read(Path(entry))
        else:
            yield Picture(f"picture {number}", as_grey(entry, f"picture {number}"))


def as_grey(image: Any, what: str = "the picture") -> Grey:
    """Grey (rows, columns) uint8 of a grey or BGR picture. Raises InputError for another shape or type."""
    import cv2

    array = np.asarray(image)
    if array.dtype != np.uint8 or not (array.ndim == 2 or (array.ndim == 3 and array.shape[2] in (1, 3))):
        raise InputError(
            f"{what} has shape {array.shape} and type {array.dtype}; (rows, columns) or (rows, columns, 3) "
            "of uint8 is needed"
        )
    if array.ndim == 2 or array.shape[2] == 1:
        return np.ascontiguousarray(array.reshape(array.shape[:2]))
    return np.asarray(cv2.cvtColor(array, cv2.COLOR_BGR2GRAY))


def _read(path: Path) -> Picture:
    import cv2

    if not path.is_file():
        return Picture(path.name, None, "no such file")
    # As the sensor gave it: a rotation noted in the file would exchange the axes of some pictures.
    grey = cv2.imread(str(path), cv2.IMREAD_GRAYSCALE | cv2.IMREAD_IGNORE_ORIENTATION)
    return (
        Picture(path.name, None, "cannot be read as a picture") if grey is None else Picture(path.name, grey)
    )


def _video(path: Path) -> Iterator[Picture]:
    from recordings.video_read import frames

    due, pending = 0, False
    for t_ns, image in frames(path):
        if t_ns >= due or pending:
            t_s = t_ns / 1e9
            yield Picture(f"{path.name} at {t_s:.2f} s", as_grey(image), t_s=t_s, follows=pending)
            if not pending:
                due = t_ns + 300_000_000
            pending = not pending


def find_views(
    source: Any,
    board: Board,
    *,
    workers: int | None = None,
    progress: Callable[[int, int | None], None] | None = None,
    auto_layout: bool = True,
) -> Views:
    """Look for the board in every picture, on all cores.

    progress(done, total) is called after each picture; total is None while it is not known. With
    `auto_layout` the layout of a ChArUco board (`legacy` or not) is taken from what the pictures show.
    Raises InputError when there are no pictures or none with the board.
    """
    pictures, total, _ = open_pictures(source)
    count = workers or os.cpu_count() or 1
    head = list(islice(pictures, 4))
    if auto_layout and board.layouts_differ:
        board = choose_layout(board, [p.grey for p in head if p.grey is not None])

    def look(picture: Picture) -> tuple[Picture, tuple[int, int], Detection | None]:
        if picture.grey is None:
            return picture, (0, 0), None
        detector = Detector(board)
        return replace(picture, grey=None), picture.grey.shape[::-1], detector.find(picture.grey)

    seen: list[tuple[Picture, tuple[int, int], Detection | None]] = []
    with ThreadPoolExecutor(count) as pool:
        waiting: list[Any] = []

        def take(left: int) -> None:
            while len(waiting) > left:
                seen.append(waiting.pop(0).result())
                if progress is not None:
                    progress(len(seen), total)

        for picture in _chain(head, pictures):
            waiting.append(pool.submit(look, picture))
            take(2 * count)  # so that not all pictures of a long video wait in memory
        take(0)
    if not seen:
        raise InputError("there is no picture to calibrate from")
    return _sort_out(board, seen)


def _chain(head: list[Picture], rest: Iterator[Picture]) -> Iterator[Picture]:
    yield from head
    yield from rest


def _sort_out(board: Board, seen: list[tuple[Picture, tuple[int, int], Detection | None]]) -> Views:
    """Views of the size that most pictures have; everything else with its reason."""
    sizes = Counter(size for _, size, found in seen if found is not None)
    if not sizes:
        raise InputError(
            f"the board ({board}) is in none of the {len(seen)} pictures; is it this one, whole, flat, lit "
            'and large enough? Inner corners are counted for a chessboard, squares for ChArUco; "inverted" '
            "is for white on black"
        )
    width, height = sizes.most_common(1)[0][0]
    views: list[View] = []
    skipped: list[Left] = []
    previous: tuple[Picture, Detection] | None = None
    for picture, size, found in seen:
        if picture.follows:
            speed = _speed_px_s(previous, picture, found)
            if speed is not None and speed > _MOVING_PX_S * width / 1280:
                skipped.append(Left(views.pop().name, f"moving by {speed:.0f} pixels a second"))
            previous = None
            continue
        previous = None
        reason = picture.trouble or unusable(board, size, (width, height), found)
        if reason or found is None:
            skipped.append(Left(picture.name, reason))
            continue
        views.append(View(picture.name, found))
        previous = (picture, found)
    if any(picture.t_s is not None for picture, _, _ in seen):
        views, more = choose_different(views, width, _MOST_FROM_VIDEO)
        skipped += more
    pictures = sum(not picture.follows for picture, _, _ in seen)
    return Views(board, width, height, views, skipped, pictures)


def unusable(board: Board, size: tuple[int, int], usual: tuple[int, int], found: Detection | None) -> str:
    """Why a picture cannot be a view; empty if it can."""
    if found is None:
        return "the board was not found"
    if size != usual:
        return f"it has {size[0]}x{size[1]} pixels, the others {usual[0]}x{usual[1]}"
    if len(found) < _FEWEST_CORNERS:
        return f"only {len(found)} corners, {_FEWEST_CORNERS} are needed"
    if not _spread(board, found):
        return "the corners found lie on one line"
    if found.edge_width_px > _BLURRED_PX:
        return f"blurred: edges are {found.edge_width_px:.1f} pixels wide"
    return ""


def _speed_px_s(
    previous: tuple[Picture, Detection] | None, picture: Picture, found: Detection | None
) -> float | None:
    """Mean speed of the corners from the picture before to this one; None where that is not known."""
    if previous is None or found is None or picture.t_s is None or previous[0].t_s is None:
        return None
    moved = movement_px(previous[1], found)
    elapsed = picture.t_s - previous[0].t_s
    return None if moved is None or elapsed <= 0 else moved / elapsed


def _spread(board: Board, found: Detection) -> bool:
    flat = board.corners_m[found.ids, :2]
    return bool(np.linalg.svd(flat - flat.mean(0), compute_uv=False)[1] > 0.9 * board.square_m)


def movement_px(first: Detection, second: Detection) -> float | None:
    """Mean movement of the corners that both have; None without any."""
    _, a, b = np.intersect1d(first.ids, second.ids, return_indices=True)
    if not len(a):
        return None
    return float(np.linalg.norm(first.points_px[a] - second.points_px[b], axis=1).mean())


def is_new(view: Detection, others: Iterable[Detection], width_px: int) -> bool:
    """Whether no other view shows the board in nearly the same place."""
    moved = (movement_px(view, other) for other in others)
    return all(m is None or m > _SAME * width_px for m in moved)


def choose_different(views: list[View], width_px: int, most: int) -> tuple[list[View], list[Left]]:
    """At most so many views that differ; of two alike the sharper one stays. A board that is held still in
    a video must not count a hundred times."""
    order = sorted(range(len(views)), key=lambda i: np.nan_to_num(views[i].detection.edge_width_px, nan=99.0))
    chosen: list[int] = []
    left = []
    for i in order:
        if not is_new(views[i].detection, (views[j].detection for j in chosen), width_px):
            left.append(Left(views[i].name, "shows the board where a sharper one does"))
        else:
            chosen.append(i)
    if len(chosen) > most:
        # Evenly over time, which is over what was shown.
        chosen.sort()
        keep = {chosen[round(k)] for k in np.linspace(0, len(chosen) - 1, most)}
        left += [Left(views[i].name, f"more than {most} views add little") for i in chosen if i not in keep]
        chosen = sorted(keep)
    return [views[i] for i in sorted(chosen)], left
