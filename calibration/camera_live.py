"""Guided calibration: looks at pictures as they come, keeps views that add something, and says what to do.

`Guide` holds the decisions and knows no camera and no terminal; `run_live` joins it with a rig's camera and
`GuideDisplay` draws it.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from calibration.board import Board
from calibration.camera import CameraCalibration, calibrate_views
from calibration.camera_detect import Detection, Detector, choose_layout
from calibration.camera_judge import CELLS, GOOD_COVERAGE, coverage_map
from calibration.camera_views import Grey, Left, View, Views, is_new, movement_px, unusable
from capture.blocks import SourceEvent, VideoFrame, VideoSource
from dsp.errors import CheckFailed, DeviceError

ENOUGH_VIEWS, MOST_VIEWS = 20, 60
ENOUGH_COVERAGE = 0.85
ENOUGH_TILT_DEG = 20.0
ENOUGH_SIGMA_PX = 0.3
# A board counts as still below this speed, in pixels a second at 1280 wide.
_STILL_PX_S = 60.0
_FIT_EVERY = 4
_SECTORS = {(0, 0): "upper left", (0, 1): "top", (0, 2): "upper right", (1, 0): "left", (1, 1): "middle",
            (1, 2): "right", (2, 0): "lower left", (2, 1): "bottom", (2, 2): "lower right"}  # fmt: skip


class Guide:
    """Feed it pictures with `look`; it has `views`, `coverage`, `advice`, `enough`."""

    def __init__(self, board: Board) -> None:
        self.board = board
        self.views: list[View] = []
        self.pictures: dict[str, Grey] = {}
        self.fit: CameraCalibration | None = None
        self.seen = 0
        self.with_board = 0
        self.size = (0, 0)
        self.said = "show the board to the camera"
        self._detector = Detector(board)
        self._layout_known = not board.layouts_differ
        self._before: tuple[int, Detection] | None = None

    def look(self, grey: Grey, t_ns: int) -> bool:
        """Look at one picture; True when it became a view."""
        size = (grey.shape[1], grey.shape[0])
        if self.size == (0, 0):
            self.size = size
        self.seen += 1
        found = self._detector.find(grey)
        if not self._layout_known and self.seen % 3 == 0:
            self._try_layout(grey)
        problem = unusable(self.board, size, self.size, found)
        if problem or found is None:
            self._before = None
            self.said = (
                problem if found is not None else "the board is not seen whole: hold it into the picture"
            )
            return False
        self.with_board += 1
        self._layout_known = True
        before, self._before = self._before, (t_ns, found)
        speed = None
        if before is not None and t_ns > before[0]:
            moved = movement_px(before[1], found)
            speed = None if moved is None else moved / ((t_ns - before[0]) / 1e9)
        if speed is None or speed > _STILL_PX_S * size[0] / 1280:
            self.said = "hold it still"
            return False
        if not is_new(found, (view.detection for view in self.views), size[0]):
            self.said = self.advice()
            return False
        name = f"view {len(self.views)}"
        self.views.append(View(name, found))
        self.pictures[name] = grey
        if len(self.views) >= 4 and len(self.views) % _FIT_EVERY == 0:
            self._try_fit()
        self.said = self.advice()
        return True

    @property
    def coverage(self) -> NDArray[np.int64]:
        """Corners (rows, columns) per cell of the picture so far."""
        if not self.views:
            return np.zeros(CELLS[::-1], np.int64)
        pixels = np.concatenate([view.detection.points_px for view in self.views])
        return coverage_map(pixels, *self.size)

    @property
    def coverage_share(self) -> float:
        """Part of the cells with a corner."""
        return float((self.coverage > 0).mean())

    @property
    def sigma_px(self) -> float | None:
        """Uncertainty of projection in the median, from the last fit."""
        return None if self.fit is None else float(np.nanmedian(self.fit.sigma_px))

    @property
    def enough(self) -> bool:
        """Whether more views would add little."""
        sigma = self.sigma_px
        good = sigma is not None and sigma < ENOUGH_SIGMA_PX * self.size[0] / 1280
        full = len(self.views) >= ENOUGH_VIEWS and self.coverage_share >= ENOUGH_COVERAGE and good
        return (full and self._tilted()) or len(self.views) >= MOST_VIEWS

    def advice(self) -> str:
        """What to do next, in one line."""
        if not self.views:
            return "hold the board close, so that it fills a third of the picture, and still"
        cells = self.coverage > 0
        emptiest, share = "middle", 1.0
        for (row, column), name in _SECTORS.items():
            part = cells[2 * row : 2 * row + 2, _thirds(column)]
            if float(part.mean()) < share:
                emptiest, share = name, float(part.mean())
        if share < 0.6:
            return f"bring the board to the {emptiest} of the picture"
        if not self._tilted():
            return "tilt the board by 20 to 40 degrees: top, bottom, left and right side towards you in turn"
        if self.coverage_share < GOOD_COVERAGE:
            return f"bring the board to the very edge, {emptiest}"
        if len(self.views) < ENOUGH_VIEWS:
            return "more of the same: close, tilted otherwise, in another corner"
        return "a few more, close and tilted" if not self.enough else "enough: Ctrl-C ends it"

    def result(self) -> Views:
        """The views so far, for `calibrate_views`."""
        skipped = [] if self.views else [Left("camera", self.said)]
        return Views(self.board, *self.size, self.views, skipped, max(self.seen, len(self.views)))

    def _tilted(self) -> bool:
        return self.fit is not None and self.fit.shape["tilt_max_deg"] >= ENOUGH_TILT_DEG

    def _try_fit(self) -> None:
        try:
            self.fit = calibrate_views(self.result(), judged=False)
        except (CheckFailed, np.linalg.LinAlgError):
            self.fit = None

    def _try_layout(self, grey: Grey) -> None:
        """Until the board was seen once, it may be printed in the other layout."""
        chosen = choose_layout(self.board, [grey])
        if chosen != self.board:
            self.board, self._detector, self._layout_known = chosen, Detector(chosen), True


def _thirds(column: int) -> slice:
    edges = (0, 3, 7, CELLS[0])
    return slice(edges[column], edges[column + 1])


class GuideDisplay:
    """A context manager that shows a `Guide` on the terminal (stderr); without one, a line for each view."""

    def __init__(self, guide: Guide) -> None:
        from rich.console import Console
        from rich.live import Live

        self._guide = guide
        self._console = Console(stderr=True)
        self._live = Live(console=self._console, refresh_per_second=5, transient=True)
        self._shown = -1

    def __enter__(self) -> GuideDisplay:
        if self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._console.is_terminal:
            self._live.stop()

    def show(self) -> None:
        """Draw the state as it is now."""
        if self._console.is_terminal:
            self._live.update("\n".join(lines_of(self._guide)))
        elif len(self._guide.views) != self._shown:
            self._shown = len(self._guide.views)
            share = 100 * self._guide.coverage_share
            print(f"{self._shown} views, {share:.0f} % covered; {self._guide.said}", file=sys.stderr)


def lines_of(guide: Guide) -> list[str]:
    """The picture of a running calibration as text: where corners were seen, what to do, how good it is."""
    marks = np.where(guide.coverage == 0, "·", np.where(guide.coverage < 5, "▒", "█"))
    frame = ["┌" + "─" * 2 * CELLS[0] + "┐"]
    frame += ["│" + "".join(str(mark) * 2 for mark in row) + "│" for row in marks]
    frame.append("└" + "─" * 2 * CELLS[0] + "┘")
    sigma = guide.sigma_px
    tilt = "" if guide.fit is None else f"tilt up to {guide.fit.shape['tilt_max_deg']:.0f} degrees"
    beside = [
        f"views      {len(guide.views):3d} of {ENOUGH_VIEWS}",
        f"covered    {100 * guide.coverage_share:3.0f} % of {100 * ENOUGH_COVERAGE:.0f} %",
        tilt,
        "" if sigma is None else f"known to   {sigma:.2f} px",
        "",
        f"pictures   {guide.seen}, the board in {guide.with_board}",
    ]
    rows = [line + ("   " + beside[i - 1] if 0 < i <= len(beside) else "") for i, line in enumerate(frame)]
    return [*rows, f"→ {guide.said}"]


class Looker(Protocol):
    """What `run_live` feeds: `Guide`, or another that looks at pictures until it has enough."""

    seen: int

    @property
    def enough(self) -> bool:
        """Whether more pictures would add little."""

    def look(self, grey: Grey, t_ns: int) -> bool:
        """Look at one picture; True when it was kept."""


def run_live(
    source: VideoSource,
    guide: Looker,
    *,
    seconds: float | None = None,
    show: Callable[[], Any] | None = None,
) -> None:
    """Feed a guide from a camera (opened here, closed at the end) until it has enough, the time is up, the
    source is over, or Ctrl-C. Only the newest picture is looked at, so that guidance is never late.

    Raises DeviceError when the camera cannot be opened or goes away for good before a view was taken.
    """
    from calibration.camera_views import as_grey

    newest: list[VideoFrame] = []
    changed = threading.Condition()
    over: list[str] = []

    def sink(item: Any) -> None:
        with changed:
            if isinstance(item, VideoFrame):
                newest[:] = [item]
            elif isinstance(item, SourceEvent) and item.kind == "ended":
                over.append(item.detail or "the pictures are over")
            changed.notify()

    source.open()
    started = time.monotonic()
    try:
        source.start(sink)
        while not guide.enough and (seconds is None or time.monotonic() - started < seconds):
            with changed:
                if not newest and not over:
                    changed.wait(0.2)
                frame = newest.pop() if newest else None
            if frame is not None and "damaged" not in frame.flags:
                guide.look(as_grey(frame.image), frame.t_ns)
            elif over:
                break
            if show is not None:
                show()
    except KeyboardInterrupt:
        pass  # what there is, is judged
    finally:
        source.stop()
        source.close()
    if guide.seen == 0:
        raise DeviceError("the camera gave no picture; look at it with `hearth doctor`")
