"""Smoke and gas alarms by their pattern: a pure tone near 3 kHz in pulses of half a second, or of a tenth.

ISO 8201 (smoke: three pulses of 0.5 s, 0.5 s apart, then 1.5 s of pause; "T3") and NFPA 720 (carbon monoxide:
four pulses of 0.1 s; "T4"); old devices sound on without a pause. Two pulses of the first kind, three of the
second, or two seconds of one tone are an alarm; the buzzer of a microwave (around 1 kHz, 0.2 s) is none.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dsp.errors import InputError
from edge.perception.keywords import Noticed

F32 = NDArray[np.float32]

HOP_S, WINDOW_S = 0.01, 0.02
LOW_HZ, HIGH_HZ = 2500.0, 4200.0
ALL_HZ = 300.0  # below is rumble that says nothing
PURE = 0.6  # share of the power above ALL_HZ that lies at the tone
# In a room a tone begins and ends louder or softer than it goes on, and its echoes beat. A pulse is over when
# its power has fallen by 8 dB below its running mean, and another one begins within 4 dB of that mean.
FALL, RISE = 0.16, 0.4
FOLLOW = 0.2  # of the running mean, per hop
FORGET = 0.985  # per hop without a tone: what was loud a second ago no longer counts
LOUD = 1e-8  # -80 dBFS: below is no alarm in this room
SAME = 0.04  # relative difference of the pulses' frequencies
CONTINUOUS_S = 2.0
# (shortest, longest pulse, longest pause, how many), seconds; echoes lengthen pulses and shorten pauses.
PATTERNS = ((0.35, 0.85, 0.75, 2), (0.06, 0.2, 0.2, 3))
QUIET_S = 10.0  # one alarm is told once in this time


class AlarmSpotter:
    """Push consecutive blocks at `fs` Hz (the same time rules as `KeywordSpotter`); get "alarm".

    One channel, or AmbiX: where a tone's standing wave leaves no pressure (W), it leaves velocity (X, Y, Z),
    so that with all four no place in a room is deaf for it.
    """

    def __init__(self, fs: int = 24000) -> None:
        self._fs = fs
        self._size, self._hop = round(WINDOW_S * fs), round(HOP_S * fs)
        self._hz = np.fft.rfftfreq(self._size, 1 / fs)
        self._taper = np.hanning(self._size)
        self._restart(0)

    def _restart(self, t_ns: int) -> None:
        self._t0_ns, self._frames, self._done = t_ns, 0, 0
        self._pending: F32 = np.zeros((0, 1), np.float32)
        self._mean = 0.0  # power of the pulse that is on, or was last
        self._pulses: list[tuple[int, int, float]] = []  # first and last hop, Hz
        self._on: tuple[int, float] | None = None  # since which hop, Hz
        self._told: int | None = None

    def push(self, sound: F32, t_ns: int) -> list[Noticed]:
        """sound: (frames,) or (frames, 4) float32, the first sample at t_ns. Raises InputError for another
        shape."""
        x = np.asarray(sound, np.float32)
        x = x[:, None] if x.ndim == 1 else x
        if x.ndim != 2 or x.shape[1] not in (1, 4):
            raise InputError(f"the spotter takes (frames,) or AmbiX (frames, 4), got {x.shape}")
        if self._frames == 0 or abs(t_ns - self._t0_ns - self._frames * 1e9 / self._fs) > 20e6:
            self._restart(t_ns)
        self._frames += len(x)
        if self._pending.shape[1] != x.shape[1]:
            self._pending = np.zeros((0, x.shape[1]), np.float32)
        self._pending = np.concatenate([self._pending, x])
        out = []
        while len(self._pending) >= self._size:
            if self._step(self._pending[: self._size]):
                end_ns = self._t0_ns + round((self._done * HOP_S + WINDOW_S) * 1e9)
                out.append(Noticed("alarm", end_ns, end_ns, "alarm tone"))
            self._pending = self._pending[self._hop :]
            self._done += 1
        return out

    def _step(self, window: F32) -> bool:
        """One hop; whether an alarm is certain now."""
        tone = self._tone(window)
        if tone is not None and self._on is None:
            self._on = (self._done, tone[0])
        if self._on is None:
            self._mean *= FORGET
            return False
        since, hz = self._on
        if tone is None or abs(tone[0] / hz - 1) > SAME:
            self._on = None
            self._pulses = [*self._pulses[-4:], (since, self._done, hz)]
            return False
        return self._is_alarm(since, hz) and self._tell()

    def _tone(self, window: F32) -> tuple[float, float] | None:
        """(Hz, power) of a pure tone in the band, about as loud as it was; None: there is none."""
        spectra = np.fft.rfft(window * self._taper[:, None], axis=0)
        power = np.sum(np.abs(spectra) ** 2, axis=1)
        whole = float(power[self._hz >= ALL_HZ].sum())
        band = np.where((self._hz >= LOW_HZ) & (self._hz <= HIGH_HZ), power, 0)
        peak = int(band.argmax())
        near = power[max(0, peak - 2) : peak + 3]
        level = float(near.sum())
        if level < PURE * whole or level < LOUD * self._size**2 / 16:
            return None
        if level < (RISE if self._on is None else FALL) * self._mean:
            return None
        self._mean += (FOLLOW if self._on is not None else 1.0) * (level - self._mean)
        middle = float(near @ self._hz[max(0, peak - 2) : peak + 3] / level)
        return middle, level

    def _is_alarm(self, since: int, hz: float) -> bool:
        now = self._done - since
        if now * HOP_S >= CONTINUOUS_S:
            return True
        for shortest, longest, pause, count in PATTERNS:
            if not shortest <= now * HOP_S <= longest:
                continue
            last, alike = since, 1
            for first, end, other in reversed(self._pulses):
                long, gap = (end - first) * HOP_S, (last - end) * HOP_S
                if abs(other / hz - 1) > SAME or not shortest <= long <= longest or not 0.03 <= gap <= pause:
                    break
                last, alike = first, alike + 1
            if alike >= count:
                return True
        return False

    def _tell(self) -> bool:
        if self._told is not None and (self._done - self._told) * HOP_S < QUIET_S:
            return False
        self._told = self._done
        return True
