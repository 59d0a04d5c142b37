"""The live audio clock: from noisy arrival times to the time of each sample.

A block of sound arrives late: by the host's buffering, by scheduling, and in bursts when callbacks are
batched. It never arrives before it was captured. The clock therefore looks at the *earliest* arrival of each
short window, and feeds that to a second-order delay-locked loop after Adriaensen, "Using a DLL to filter
time" (2005), whose bandwidth falls from 1 Hz to 0.05 Hz as the lock settles. A window in which all came late
moves it little. Wall-clock time is never used.

What it cannot know: a constant delay between the converter and the earliest arrival. That part is measured
by an audio-video calibration and is not removed here.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass

import numpy as np

from recordings.clock_fit import fit_envelope

_NS = 1_000_000_000
_ACQUIRE_S = 2.0  # until then: nominal rate through the earliest arrival so far
_B_START_HZ, _B_END_HZ = 1.0, 0.05
_LOSS_FLOOR_NS = 2_000_000.0  # a smaller step of arrival time is not called a loss ...
_LOSS_FLOOR_FLAGGED_NS = 500_000.0  # ... unless the host said that it lost something
_LOSS_CONFIRM_S, _LOSS_CONFIRM_FLAGGED_S = 1.0, 0.5  # how long every arrival must stay late ...
_LOSS_CONFIRM_BUSY_S = 5.0  # ... and how long when they scatter more than they used to: then it may be load
_LOSS_CONFIRM_BATCHES = 20  # or two seconds
_SETTLE_S = 4.0  # after a loss the earliest arrival rules, as at the start
_MAX_BATCH_NS = 0.25e9  # arrivals further apart are a stall, not a batch
_SIGMA_FACTOR = 0.4  # the points are minima already; found in simulation (tests)
_WANDER_PPM = 0.15  # a crystal moves so much within minutes
_QUIET_NS = 20_000.0
_HISTORY = 4096  # points kept for the drift line; thinned by two when full


@dataclass(frozen=True, slots=True)
class Loss:
    """Frames that the device delivered to nobody, found because arrivals stay late.

    frames: how many are missing. first_frame: where in the old count the gap lies (the first frame after it).
    flagged: the host had reported an overflow there.
    """

    frames: int
    first_frame: int
    flagged: bool


@dataclass(frozen=True, slots=True)
class ClockState:
    """The clock in numbers; every field in the unit of its name.

    drift_ppm is positive when the device delivers more frames per second than its nominal rate;
    drift_sigma_ppm is its standard error (nan while fewer than 3 windows were seen). jitter_ms is the 95 %
    point of (arrival - filtered time) over the last observations.
    """

    rate_hz: float
    drift_ppm: float
    drift_sigma_ppm: float
    jitter_ms: float
    bandwidth_hz: float
    locked: bool
    observed_s: float
    observations: int
    losses: int


class AudioClock:
    """Filtered map from sample counter to CLOCK_MONOTONIC for one microphone.

    Call `observe` for each block in order. Not thread-safe: one thread owns it.
    """

    def __init__(self, rate_hz: int, *, late_biased: bool = True) -> None:
        """rate_hz: nominal rate. late_biased=False tracks the mean instead of the earliest observation, for
        drivers that give a two-sided capture time."""
        self.rate_hz = rate_hz
        self._late_biased = late_biased
        self._nominal = _NS / rate_hz
        self._period = self._nominal  # ns per frame, filtered
        self._origin_ns: int | None = None  # first observation; times below are float ns after it
        self._k = 0  # the frame at which the line is anchored, and its time
        self._t = 0.0
        self._start_k = 0  # first frame since the last (re)start
        self._acquiring = True
        self._window_k = 0
        self._window: list[tuple[int, float]] = []
        self._last_arrival = -math.inf
        self._max_wait = 0.0  # longest time between two arrivals, decaying: the size of a batch
        self._floor = -math.inf  # the next time returned is not below
        self._spread = 0.0  # mean size of recent window errors
        self._bandwidth = _B_START_HZ
        self._batches: deque[float] = deque(maxlen=3000)  # the earliest residual of each burst of arrivals
        self._late_batches: deque[float] = deque(maxlen=3000)
        self._new_batch = True
        self._batch = 0.0
        self._late_limit = self._late_limit_flagged = _LOSS_FLOOR_NS
        self._recent: deque[float] = deque(maxlen=512)
        # The earliest arrival of each window: segment, frame, time. Of a fixed size: a take can last days.
        self._points = np.zeros((_HISTORY, 3))
        self._point_count = 0
        self._segment = 0
        self._count = 0
        self._losses = 0
        self._late: list[tuple[int, float]] = []  # (frame, residual) while every arrival is late
        self._late_since = 0.0  # arrival of the first of them
        self._settle_k = 0  # until this frame an earlier arrival moves the line at once
        self._flag_at: int | None = None
        self._loss: Loss | None = None

    def observe(self, first_frame: int, frames: int, t_observed_ns: int, *, flagged: bool = False) -> int:
        """The filtered CLOCK_MONOTONIC time, ns, of `first_frame`.

        t_observed_ns: when that frame was captured as far as the host can tell; for a callback this is the
        time at its entry minus the duration of the block. Returned times rise strictly. flagged: the host
        reported lost input directly before this block.
        """
        if self._origin_ns is None:
            self._origin_ns = t_observed_ns
            self._k = self._start_k = self._window_k = first_frame
        y = float(t_observed_ns - self._origin_ns)
        self._count += 1
        arrival = y + frames * self._nominal
        if self._last_arrival > -math.inf:
            wait = min(arrival - self._last_arrival, _MAX_BATCH_NS)
            self._max_wait = max(wait, self._max_wait * 0.999)
        new_batch = arrival - self._last_arrival > 0.25 * frames * self._nominal
        self._last_arrival = arrival
        self._new_batch = new_batch
        residual = y - self.line_ns(first_frame)
        if new_batch:
            # While it may be a loss, residuals wait: they are jitter only if an early arrival follows.
            batches = self._late_batches if self._late else self._batches
            batches.append(self._batch)
            self._batch = residual
        else:
            self._batch = min(self._batch, residual)
        if self._acquiring:
            self._acquire(first_frame, y, residual)
        else:
            if first_frame < self._settle_k and residual < 0 and self._late_biased:
                self._t += residual
                residual = 0.0
            self._watch_for_loss(first_frame, frames, residual, flagged)
            self._window.append((first_frame, residual))
            if first_frame + frames - self._window_k >= self._window_frames():
                self._close_window(first_frame)
        predicted = self.line_ns(first_frame)
        self._recent.append(y - predicted)
        # A correction of the line must not turn time back; it is spread over the next blocks.
        out = max(predicted, self._floor)
        self._floor = out + 0.5 * frames * self._nominal
        return self._origin_ns + round(out)

    def take_loss(self) -> Loss | None:
        """The loss found by the last `observe`, once. The caller counts its frames into every later
        `first_frame`; this block's own time is already the corrected one from the next call on."""
        loss, self._loss = self._loss, None
        return loss

    def restart(self, first_frame: int, t_observed_ns: int) -> None:
        """The device was opened again: find the offset anew, keep the learned rate."""
        self._points_break()
        if self._origin_ns is None:
            self._origin_ns = t_observed_ns
        self._k = self._start_k = self._window_k = first_frame
        self._t = float(t_observed_ns - self._origin_ns)
        self._acquiring = True
        self._last_arrival = -math.inf
        self._max_wait = 0.0
        self._window.clear()
        self._clear_late()

    def line_ns(self, frame: int) -> float:
        """Filtered time of `frame` in ns after the first observation."""
        return self._t + (frame - self._k) * self._period

    def time_of(self, frame: int) -> int:
        """Filtered CLOCK_MONOTONIC time of any frame, ns."""
        return (self._origin_ns or 0) + round(self.line_ns(frame))

    @property
    def state(self) -> ClockState:
        """The clock in numbers; see ClockState."""
        ppm, sigma = self._fit()
        recent = np.asarray(self._recent)
        last = self._window[-1][0] if self._window else self._k
        return ClockState(
            rate_hz=self.rate_hz * (1 + ppm * 1e-6),
            drift_ppm=ppm,
            drift_sigma_ppm=sigma,
            jitter_ms=float(np.quantile(recent, 0.95)) / 1e6 if recent.size else 0.0,
            bandwidth_hz=self._bandwidth,
            locked=not self._acquiring,
            observed_s=(last - self._start_k) / self.rate_hz,
            observations=self._count,
            losses=self._losses,
        )

    # ------------------------------------------------------------------ inside

    def _acquire(self, first_frame: int, y: float, residual: float) -> None:
        """The first seconds: nominal (or known) rate, shifted to the earliest arrival."""
        if self._late_biased:
            if residual < 0 or first_frame == self._start_k:
                self._t += residual
        else:
            n = len(self._window) + 1
            self._t += residual / n
        self._window.append((first_frame, y))
        if (first_frame - self._start_k) < _ACQUIRE_S * self.rate_hz:
            return
        errors = [(k, t - self.line_ns(k)) for k, t in self._window]
        best = min(errors, key=lambda e: e[1])
        self._note_point(best[0], self.line_ns(best[0]) + best[1])
        half = [e for k, e in errors if k - self._start_k > _ACQUIRE_S * self.rate_hz / 2]
        self._spread = abs(min(half, default=0.0) - best[1]) if self._late_biased else float(np.std(half))
        self._acquiring = False
        self._set_late_limit()
        self._window.clear()
        self._window_k = first_frame

    def _window_frames(self) -> float:
        elapsed = max((self._window_k - self._start_k) / self.rate_hz, 1e-3)
        self._bandwidth = min(max(1.0 / elapsed, _B_END_HZ), _B_START_HZ)
        seconds = min(1.0, 0.1 / self._bandwidth)
        # The earliest of few arrivals is not early: a window holds 100 bursts when there is time for that.
        wait = self._max_wait / _NS
        seconds = max(seconds, min(100.0 * wait, elapsed / 6.0, 10.0), 2.0 * wait)
        self._bandwidth = min(self._bandwidth, 0.1 / seconds)
        return seconds * self.rate_hz

    def _close_window(self, first_frame: int) -> None:
        if self._late_biased:
            frame, error = min(self._window, key=lambda item: item[1])
        else:
            frame = self._window[len(self._window) // 2][0]
            error = float(np.mean([e for _, e in self._window]))
        window = max(first_frame - self._window_k, 1)
        self._window.clear()
        self._window_k = first_frame
        if self._late and error > self._late_threshold():
            return  # perhaps a loss: hold the line until that is known
        threshold = max(_LOSS_FLOOR_NS, 8.0 * self._spread)
        if self._late_biased and error < -threshold:
            # Earlier than possible: everything so far was late (a busy start). Step, keep the rate.
            self._points_break()
            self._t += error
            self._batches = deque((late - error for late in self._batches), maxlen=self._batches.maxlen)
            self._note_point(frame, self.line_ns(frame))
            return
        t = self.line_ns(frame) + error
        self._note_point(frame, t)
        if self._late_biased:  # a window without any early arrival says little
            error = min(error, 3.0 * self._spread + _QUIET_NS)
        self._spread += 0.1 * (abs(error) - self._spread)
        self._set_late_limit()
        omega = 2.0 * math.pi * self._bandwidth * window / self.rate_hz
        self._t = self.line_ns(first_frame) + math.sqrt(2.0) * omega * error
        self._k = first_frame
        self._period += omega * omega * error / window
        limit = self._nominal * 2e-3  # no audio clock is off by 2000 ppm
        self._period = min(max(self._period, self._nominal - limit), self._nominal + limit)

    def _watch_for_loss(self, first_frame: int, frames: int, residual: float, flagged: bool) -> None:
        if not self._late_biased:
            return
        if flagged and self._flag_at is None:
            self._clear_late()
            self._flag_at = first_frame
        known = self._flag_at is not None
        if residual <= self._late_threshold():
            if self._flag_at is not None and first_frame - self._flag_at > self.rate_hz:
                self._flag_at = None  # the host complained, but nothing is missing
            self._batches.extend(self._late_batches)
            self._late_batches.clear()
            self._late.clear()
            return
        if not self._late:
            self._late_since = self._last_arrival
        self._late.append((first_frame, residual))
        if not self._new_batch or len(self._late) < 3:
            return  # in the middle of what is handed over at once nothing is known of its end
        confirm_s = _LOSS_CONFIRM_FLAGGED_S if known else _LOSS_CONFIRM_S
        confirm = confirm_s * self.rate_hz
        if len(self._late_batches) < _LOSS_CONFIRM_BATCHES:
            confirm = 2.0 * self.rate_hz
        # In frames and in time: what a stalled host hands over at once is not late for long.
        waited = (self._last_arrival - self._late_since) / self._nominal
        waited = min(first_frame - self._late[0][0], waited) + frames
        if waited < confirm or (waited < _LOSS_CONFIRM_BUSY_S * self.rate_hz and self._is_busy()):
            return
        # What was late by chance just before the loss is not part of it: the level is that of the later half.
        level = min(r for _, r in self._late[len(self._late) // 2 :])
        low = [i for i, (_, r) in enumerate(self._late) if r < level - _LOSS_FLOOR_NS]
        place = self._late[low[-1] + 1 if low else 0][0]
        level = min(r for k, r in self._late if k >= place)
        if self._flag_at is not None:
            place = min(place, self._flag_at)
        batches = max(sum(k >= place for k, _ in self._late) * len(self._late_batches) // len(self._late), 1)
        history = np.asarray(self._batches)
        # Beyond chance: so many batches in a row as late as this happen once in 1e10 without a loss.
        share = 1.0 - math.exp(-(11.5 if known else 23.0) / batches)
        if level < (1.0 if known else 1.5) * float(np.quantile(history, share)):
            return
        usual = float(np.quantile(history, 1.0 / (batches + 1)))  # the earliest of so many batches
        lost = max(1, round((level - usual) / self._period))
        self._loss = Loss(lost, place, known)
        self._losses += 1
        # The counter goes on `lost` frames higher, so the same line holds. The drift fit gets a new
        # intercept, because the length is only known to the jitter.
        self._points_break()
        self._window.clear()
        self._window_k = first_frame + lost
        self._settle_k = first_frame + lost + round(_SETTLE_S * self.rate_hz)
        self._clear_late()

    def _is_busy(self) -> bool:
        """Whether the late arrivals scatter much more than those before: under load they do; after a loss
        they come as regularly as ever."""
        if len(self._late_batches) < 8 or len(self._batches) < 50:
            return False
        late, usual = np.asarray(self._late_batches), np.asarray(self._batches)
        late = late[len(late) // 2 :]
        spread = np.median(usual) - np.quantile(usual, 0.02)
        return bool(np.median(late) - late.min() > 2.5 * spread + 100_000.0)

    def _late_threshold(self) -> float:
        if self._flag_at is not None:
            return max(_LOSS_FLOOR_FLAGGED_NS, 2.0 * self._spread, self._late_limit_flagged)
        return max(_LOSS_FLOOR_NS, 8.0 * self._spread, self._late_limit)

    def _set_late_limit(self) -> None:
        """How late is unusual: so late that five seconds of it have a chance of about 1e-10 (1e-5 where the
        host reports a loss)."""
        per_second = min(1.0 / max(self._max_wait / _NS, 1e-3), 1e3)
        batches = np.asarray(self._batches)
        quantile = 1.0 - math.exp(-23.0 / max(per_second * _LOSS_CONFIRM_BUSY_S, 1.0))
        flagged = 1.0 - math.exp(-11.5 / max(per_second * _LOSS_CONFIRM_BUSY_S, 1.0))
        if batches.size < 100:
            quantile = max(quantile, 0.98)
        self._late_limit = 1.5 * float(np.quantile(batches, quantile))
        self._late_limit_flagged = float(np.quantile(batches, flagged))

    def _clear_late(self) -> None:
        self._late.clear()
        self._flag_at = None
        self._late_batches.clear()

    def _points_break(self) -> None:
        self._segment += 1

    def _note_point(self, frame: int, t: float) -> None:
        if self._point_count == _HISTORY:  # full: every second one stays
            self._point_count = _HISTORY // 2
            self._points[: self._point_count] = self._points[::2]
        self._points[self._point_count] = self._segment, frame, t
        self._point_count += 1

    def _fit(self) -> tuple[float, float]:
        """Drift and its standard error, ppm: one robust slope, one intercept per gap-free segment."""
        segment, frame, t = self._points[: self._point_count].T
        if self._point_count < 3:
            return (1.0 - self._period / self._nominal) * 1e6 if not self._acquiring else 0.0, math.nan
        found = fit_envelope(
            (frame - frame[0]) * self._nominal / _NS,
            (t - (frame - frame[0]) * self._nominal) / _NS,
            np.unique(segment, return_inverse=True)[1],
        )
        sigma = math.hypot(_SIGMA_FACTOR * found.slope_sigma * 1e6, _WANDER_PPM)
        return (1.0 / (1.0 + found.slope) - 1.0) * 1e6, sigma
