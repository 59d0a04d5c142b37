"""One run of `hearth live`: until it is told to stop, with a measuring subscriber beside it if wanted."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

from capture.stop_signals import StopSignals
from dsp.errors import DeviceError
from edge.live import LiveService

SECOND = (signal.SIGINT,)  # of the signals: aborts; a supervisor that sends SIGTERM twice means the same
_METER_START_S = 30.0
_METER_END_S = 20.0


class Meter:
    """`edge.stream.meter` in a process of its own, subscribed to everything that a service publishes."""

    def __init__(self, address: str) -> None:
        """Start it and wait until it can miss nothing. Raises DeviceError when it does not get ready."""
        self._process = subprocess.Popen(
            [sys.executable, "-m", "edge.stream.meter", address],
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[1],
            start_new_session=True,  # Ctrl-C is for the service; the meter ends when the stream does
        )
        guard = threading.Timer(_METER_START_S, self._process.kill)
        guard.start()
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        guard.cancel()
        if line.strip() != "ready":
            self._process.kill()
            self._process.wait()
            raise DeviceError(f"the measuring subscriber did not connect to {address}")

    def result(self) -> dict[str, Any]:
        """What it measured; call it after the stream has ended."""
        try:
            out, _ = self._process.communicate(timeout=_METER_END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()
            raise DeviceError("the measuring subscriber did not end with the stream") from None
        if self._process.returncode != 0:
            raise DeviceError(f"the measuring subscriber failed with exit code {self._process.returncode}")
        return dict(json.loads(out))

    def kill(self) -> None:
        self._process.kill()
        self._process.communicate()


def run(service: LiveService, seconds: float | None = None, measured: bool = False) -> dict[str, Any]:
    """Run a service until `seconds` have passed, its source is over, or Ctrl-C; returns the report.

    The report: `stopped` (seconds, ended, interrupt, failed), `service` (LiveService.stats) and, when
    measured, `subscriber` (edge.stream.meter.measure). Raises what made the service fail, after closing it.
    """
    with StopSignals(aborting=SECOND) as stop:
        meter = Meter(service.local_stream_address) if measured else None
        try:
            service.start()
            deadline = None if seconds is None else time.monotonic() + seconds
            stopped = None
            while stopped is None:
                if stop.asked.wait(0.05):
                    stopped = "interrupt"
                elif service.failed.is_set():
                    stopped = "failed"
                elif service.ended.is_set():
                    stopped = "ended"
                elif deadline is not None and time.monotonic() >= deadline:
                    stopped = "seconds"
            report: dict[str, Any] = {"stopped": stopped, "service": service.stop()}
            if meter is not None:
                report["subscriber"] = meter.result()
            return report
        except BaseException:
            service.stop()
            if meter is not None:
                meter.kill()
            raise
