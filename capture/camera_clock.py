"""From arrivals to the times of pictures: the driver's stamp where it is sane, else filtered arrival.

A picture arrives late, by the network and by scheduling, never early. So the earliest arrivals define the
line on which the pictures lie, as in `capture.clock` for sound: each short window gives its earliest arrival,
a robust slope through them is the period, and the line touches the earliest of the last seconds. Positions on
the line come from the sender's clock (RTP) where there is one, else from counting.

What it cannot know: the constant delay between exposure and the earliest arrival. An audio-video calibration
measures it; it is not removed here.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from statistics import median

import numpy as np

from capture.blocks import TimeSource
from capture.camera_link import Picture

_NS = 1_000_000_000
_SETTLE = 8  # steps before a period is believed
_WINDOW_NS = 0.5 * _NS  # one earliest arrival of each such window (of 8 pictures at least)
_LINE_WINDOWS = 10  # the line touches the earliest of these: 5 s
_SLOPE_WINDOWS = 40  # and the slope is fitted through these: 20 s
_LATE = 0.5  # periods after its due time that make a picture late ...
_MISSING = 0.9  # ... and that, unless the next one follows closely, mean that pictures are missing
_RISE = 0.6  # if so much of it came within the last pictures: it is a step, not a line that runs off
_TRIAL, _DISPROOF = 12, 0.3  # so many pictures must agree with that: none so early
_CLOSE = 0.6  # a next picture nearer than this has waited behind the late one
_EARLY = -0.6  # so much earlier than possible, the line or the count was wrong ...
_EARLY_RUN = (-0.25, 4)  # ... and so is it when so many in a row are early by so much: a higher rate
_SHORTEST_NS = 2_000_000  # between pictures; nearer ones had waited somewhere
_STEP_RUN_NS = 1 * _NS  # when all were late by more than half a period for so long, the line lies elsewhere
_FAR_NS, _FAR_FOR_NS = 1 * _NS, 2 * _NS  # a line that is so far before all arrivals for so long has run off
_TRUST_AGAIN = 150  # sane stamps in a row after an insane one
_JUMP_NS = 5 * _NS  # a sender's clock that leaves the arrivals by this much has been set


@dataclass(frozen=True, slots=True)
class Stamp:
    """The time of one picture. dropped: missing directly before it; estimated: from times, not counted by the
    driver. late: it came more than half a period after its due time."""

    t_ns: int
    source: TimeSource
    dropped: int
    estimated: bool
    late: bool


class PictureClock:
    """Stamps the pictures of one camera, in order, with times that rise strictly. One thread at a time."""

    def __init__(self, fps: float) -> None:
        """fps: what to believe until there are pictures enough."""
        self._period = _NS / fps
        self._known = False  # the period has been seen, not only told
        self._last_t: int | None = None
        self._forget()

    def _forget(self) -> None:
        """A new connection: counts and clocks of the old one mean nothing."""
        self._last_arrival: int | None = None
        self._last_driver: int | None = None
        self._last_sequence: int | None = None
        self._last_media: int | None = None
        self._steps: deque[float] = deque(maxlen=31)
        self._delays: deque[int] = deque(maxlen=150)
        self._misses: deque[int] = deque(maxlen=8)
        self._line = _Line(self._period, rough=not self._known)
        self._late_run: list[tuple[int, float]] = []  # arrivals and lateness, in periods
        self._position = 0.0  # of the last picture, in pictures or in ns of the sender's clock
        self._after_gap = True
        self._early = 0
        self._recent: deque[int] = deque(maxlen=_SETTLE)  # arrivals
        self._by_sender = False  # positions are the sender's clock
        self._lateness: deque[float] = deque(maxlen=4)
        self._trial: list[tuple[float, int, bool]] = []  # arrivals since pictures were taken for missing
        self._on_trial = 0  # how many
        self._far: list[int] = []  # arrivals that the line is far before
        self._trusted = True  # the driver's stamps
        self._sane_run = 0

    @property
    def period_ns(self) -> float:
        """Between pictures, dropped ones included: as seen so far."""
        return self._period

    def restart(self) -> None:
        """The camera was opened again: a new line, the known period; what lies between is estimated as
        dropped on the next picture."""
        self._forget()

    def wants_next(self, picture: Picture) -> bool:
        """Whether only the next arrival can tell if this picture is late or others before it are missing."""
        if self._driver_time(picture) is not None or picture.media_ns is not None:
            return False
        if not self._known or self._last_arrival is None or self._after_gap:
            return False
        return picture.arrival_ns - self._line.at(self._position + 1) > _MISSING * self._period

    def stamp(self, picture: Picture, next_arrival_ns: int | None = None) -> Stamp:
        """The time of a picture; next_arrival_ns when `wants_next` asked for it (None: none came)."""
        if picture.driver_ns is not None:
            self._sane_run = self._sane_run + 1 if self._is_sane(picture) else 0
            self._trusted = self._sane_run > 0 and (self._trusted or self._sane_run >= _TRUST_AGAIN)
        driver = self._driver_time(picture)
        if driver is not None:
            stamp = self._from_driver(picture, driver)
        else:
            stamp = self._from_arrival(picture, next_arrival_ns)
        self._last_t = stamp.t_ns
        self._last_arrival = picture.arrival_ns
        self._last_driver = picture.driver_ns
        self._last_sequence = picture.sequence
        self._last_media = picture.media_ns
        self._after_gap = False
        return stamp

    # ------------------------------------------------------------------ the driver's stamps

    def _is_sane(self, picture: Picture) -> bool:
        """Before arrival and later than the one before; and within the last second, unless it goes on with
        the driver's own series, as the buffers do that waited while this computer stood still."""
        t = picture.driver_ns
        if t is None or t > picture.arrival_ns or (self._last_driver is not None and t <= self._last_driver):
            return False
        return picture.arrival_ns - t < _NS or (self._trusted and self._goes_on(picture, t))

    def _goes_on(self, picture: Picture, t: int) -> bool:
        """Whether the driver counted as many pictures since the last one as its stamps are apart."""
        counted = self._counted(picture)
        if counted is None or self._last_driver is None or not self._known:
            return False
        return abs(t - self._last_driver - (counted + 1) * self._period) <= self._period

    def _driver_time(self, picture: Picture) -> int | None:
        """The driver's stamp if it may be believed. After one that cannot be true, none is for a while: two
        kinds of times in turn would be worse than either."""
        t = picture.driver_ns
        if t is None or not self._trusted or not self._is_sane(picture):
            return None
        return t if self._last_t is None or t > self._last_t else None

    def _from_driver(self, picture: Picture, t: int) -> Stamp:
        counted = self._counted(picture)
        dropped, estimated = 0, counted is None
        if counted is not None:
            dropped = counted
        elif self._last_t is not None and self._known:
            dropped = max(0, round((t - self._last_t) / self._period) - 1)
        if self._last_driver is not None and not self._after_gap:
            self._learn_period((t - self._last_driver) / (dropped + 1 if counted is not None else 1))
        delay = picture.arrival_ns - t
        self._delays.append(delay)
        late = len(self._delays) > _SETTLE and delay - min(self._delays) > _LATE * self._period
        # Kept up, in case that the stamps stop being sane.
        self._position += 1 + dropped
        self._line.add(self._position, picture.arrival_ns, typical=not late)
        return Stamp(t, "driver", dropped, estimated and dropped > 0, late)

    def _counted(self, picture: Picture) -> int | None:
        """Missing pictures by the driver's own count; None where it does not count."""
        last, now = self._last_sequence, picture.sequence
        if last is None or now is None:
            return None
        step = (now - last) % 2**32
        return step - 1 if 1 <= step < 2**31 else None

    def _learn_period(self, step: float) -> None:
        self._steps.append(step)
        if len(self._steps) >= _SETTLE:
            self._period, self._known = median(self._steps), True

    # ------------------------------------------------------------------ filtered arrival

    def _from_arrival(self, picture: Picture, next_arrival: int | None) -> Stamp:
        arrival = picture.arrival_ns
        if self._last_arrival is None or self._after_gap:
            return self._first_after_gap(picture)
        counted = self._counted(picture)
        if picture.media_ns is not None and self._last_media is not None and self._by_sender:
            step = picture.media_ns - self._last_media
            if not 0 < step < _JUMP_NS or abs(arrival - self._line.at(self._position + step)) > _JUMP_NS:
                return self._first_after_gap(picture)  # the sender's clock was set
            self._learn_period(step)
            dropped = max(0, round(step / self._period) - 1) if self._known and self._is_regular() else 0
            self._position += step
        else:
            dropped = counted or 0
            if counted is None and self._known:
                dropped = self._missing(arrival, next_arrival)
            self._position += 1 + dropped
        self._take_back_misses(arrival)
        residual = (arrival - self._line.at(self._position)) / self._period
        self._early = self._early + 1 if self._known and residual < _EARLY_RUN[0] else 0
        if self._known and (residual < _EARLY or self._early >= _EARLY_RUN[1]):
            self._new_line(arrival)
            residual = 0.0
        late = self._known and residual > _LATE
        unseen = self._step_found(arrival, residual if late else None)
        if unseen is not None:
            if counted is None and not self._by_sender:
                dropped += unseen
            self._begin_line(arrival, rough=False)
            late = False
        self._bring_back(arrival)
        self._trial.append((self._position, arrival, not late))
        if counted is not None or not self._on_trial or len(self._trial) > _TRIAL:
            self._accept()
        if picture.media_ns is None:
            self._recent.append(arrival)
            self._known = self._known or self._line.fitted
            if self._line.fitted:
                self._period = self._line.slope
        t, source = self._in_order(arrival)
        return Stamp(t, source, dropped, dropped > 0 and counted is None, late)

    def _step_found(self, arrival: int, residual: float | None) -> int | None:
        """All pictures have been late for a while, and equally: some were missing that looked late at the
        time (how many), or the camera paused. residual: None for a picture in time. None: no such step."""
        if residual is None:
            self._late_run.clear()
            return None
        self._late_run.append((arrival, residual))
        if arrival - self._late_run[0][0] < _STEP_RUN_NS or len(self._late_run) <= _TRIAL:
            return None
        run = [late for _, late in self._late_run]
        first, last = min(run[: len(run) // 2]), min(run[len(run) // 2 :])
        if abs(first - last) > _LATE:  # what has waited is still coming
            del self._late_run[0]
            return None
        return int(min(first, last) + 1 - _MISSING)

    def _bring_back(self, arrival: int) -> None:
        """Whatever went wrong: pictures that are all stamped a second before they come, for seconds, have a
        wrong line and not a long way. (What waited through a stall comes at once, and is soon over.)"""
        far = arrival - self._line.at(self._position)
        if not self._known or far < max(_FAR_NS, 4.0 * self._period):
            self._far.clear()
            return
        self._far.append(arrival)
        if arrival - self._far[0] > _FAR_FOR_NS and len(self._far) > _TRIAL // 2:
            self._far.clear()
            self._begin_line(arrival, rough=True)

    def _accept(self) -> None:
        """What was on trial belongs to the line."""
        for position, arrival, typical in self._trial:
            self._line.add(position, arrival, typical=typical)
        self._trial.clear()
        self._on_trial = 0

    def _take_back_misses(self, arrival: int) -> None:
        """Pictures were taken for missing a moment ago; but this one would have to be early then."""
        early = (self._line.at(self._position) - arrival) / self._period
        if self._on_trial and early > _DISPROOF:
            wrong = min(self._on_trial, max(1, round(early)))
            self._position -= wrong
            self._on_trial -= wrong
            self._trial.clear()

    def _missing(self, arrival: int, next_arrival: int | None) -> int:
        """How many pictures are missing before this one."""
        if len(self._recent) == self._recent.maxlen:
            steps = np.diff([*self._recent, arrival])
            step = float(np.median(steps))
            if step > 1.25 * self._period:  # a lower rate, or the first pictures had waited and came at once
                if np.ptp(steps) < 0.5 * step:
                    self._period = step
                    self._begin_line(arrival - step, rough=True)
                return 0
        late = (arrival - self._line.at(self._position + 1)) / self._period
        followed = next_arrival is not None and next_arrival - arrival < _CLOSE * self._period
        # A picture is never early, so so many are missing at most; and all at once.
        missing = 0 if late < _MISSING or followed else int(late + 1 - _MISSING)
        rise = late - min(self._lateness, default=late)
        missing = max(0, min(missing, int(rise + 1 - _RISE)))
        self._on_trial += missing
        self._lateness.append(late - missing)
        self._misses.append(missing)
        if len(self._misses) == self._misses.maxlen and all(self._misses):
            # Not drops: the camera has a lower rate now (it is dark), or the period was far off.
            self._misses.clear()
            step = (arrival - self._recent[0]) / len(self._recent)
            if step > 1.3 * self._period:
                self._period = step
                self._begin_line(arrival - step, rough=True)
                return 0
        return missing

    def _first_after_gap(self, picture: Picture) -> Stamp:
        dropped = 0
        if self._last_t is not None and self._known:
            dropped = max(0, round((picture.arrival_ns - self._last_t) / self._period) - 1)
        media = picture.media_ns
        self._by_sender = media is not None
        self._position = 0.0 if media is None else float(media)
        self._begin_line(picture.arrival_ns, rough=not (self._by_sender or self._known))
        t, source = self._in_order(picture.arrival_ns)
        return Stamp(t, source, dropped, dropped > 0, False)

    def _new_line(self, arrival: float) -> None:
        """Begin again at this arrival; with the period of the last pictures, if they have another one."""
        rough = False
        if not self._by_sender and len(self._recent) == self._recent.maxlen:
            steps = np.diff([*self._recent, arrival])
            step = float(np.mean(steps))
            # What has waited and comes now is irregular; it tells nothing.
            other = step > max(_SHORTEST_NS, self._period / 5) and not 0.8 < step / self._period < 1.25
            if other and np.ptp(steps) < 0.5 * step:
                self._period, rough = step, True
        self._begin_line(arrival, rough=rough)

    def _begin_line(self, arrival: float, *, rough: bool) -> None:
        self._lateness.clear()
        self._trial.clear()
        self._early = self._on_trial = 0
        self._late_run.clear()
        by_sender = self._by_sender
        self._line = _Line(1.0 if by_sender else self._period, rough=rough, counts=not by_sender)
        self._line.add(self._position, arrival)

    def _is_regular(self) -> bool:
        steps = sorted(self._steps)
        return steps[3 * len(steps) // 4] - steps[len(steps) // 4] < 0.2 * self._period

    def _in_order(self, arrival: int) -> tuple[int, TimeSource]:
        """The line's time, not after the arrival and never back."""
        t = min(arrival, round(self._line.at(self._position))) if self._known else arrival
        if self._last_t is not None and t <= self._last_t:
            # The line was corrected: catch up without a step back, and if there is room, not too close.
            t = max(self._last_t + 1, min(arrival, self._last_t + round(self._period / 4)))
        return t, "filtered" if self._known else "arrival"


class _Line:
    """The lower edge of arrivals over positions: arrival >= offset + slope * position.

    Positions count pictures (slope: ns per picture) or are ns of the sender's clock (slope: about 1).
    """

    def __init__(self, slope: float, *, rough: bool = False, counts: bool = True) -> None:
        """counts: positions are numbers of pictures. rough: the slope is a first guess, to be replaced as
        soon as some arrivals tell a better one."""
        self.slope, self._counts = slope, counts
        self.fitted = not rough  # the slope may be believed
        self._origin: tuple[float, float] | None = None  # of the numbers below: (position, arrival)
        self._edge: deque[tuple[float, float]] = deque(maxlen=_SLOPE_WINDOWS)
        self._window: list[tuple[float, float]] = []
        self._first: list[tuple[float, float]] | None = [] if rough else None
        self._refit_at = _SETTLE + 1
        self._offset = 0.0

    def at(self, position: float) -> float:
        """Time of a position, ns; only after the first `add`."""
        assert self._origin is not None
        return self._origin[1] + self._offset + self.slope * (position - self._origin[0])

    def add(self, position: float, arrival: float, *, typical: bool = True) -> None:
        """One arrival. typical: it did not wait long somewhere."""
        if self._origin is None:
            self._origin = (position, arrival)
        x, y = position - self._origin[0], arrival - self._origin[1]
        self._window.append((x, y))
        self._offset = min(self._offset, y - self.slope * x)
        if self._first is not None and typical:
            self._first.append((x, y))
            if len(self._first) >= self._refit_at:
                self._refit_at = len(self._first) * 5 // 4
                self._fit(self._first, self._first)
        if y - self._window[0][1] >= _WINDOW_NS and len(self._window) >= _SETTLE:
            self._close_window()

    def _close_window(self) -> None:
        self._edge.append(min(self._window, key=lambda p: p[1] - self.slope * p[0]))
        self._window = []
        if len(self._edge) >= 4:
            self._first = None
            self._fit(list(self._edge), list(self._edge)[-_LINE_WINDOWS:])

    def _fit(self, points: list[tuple[float, float]], recent: list[tuple[float, float]]) -> None:
        """Theil-Sen: the median slope over all pairs that are far enough apart; then down to the earliest."""
        x, y = np.array(points).T
        i, j = np.triu_indices(len(x), k=max(2, len(x) // 3))
        slope = float(np.median((y[j] - y[i]) / (x[j] - x[i])))
        if self._counts and slope < _SHORTEST_NS:
            return
        self.slope = slope
        self._offset = min(y - self.slope * x for x, y in recent)
        self.fitted = True
