"""The one thread for PortAudio's calls: results, errors, deadlines, and a driver that hangs for a while."""

from __future__ import annotations

import threading
import time

import pytest

from capture.portaudio_calls import Interrupted, _Caller, closed, opened, release_list
from dsp.errors import DeviceError


def test_results_and_errors_come_back_and_calls_keep_their_order() -> None:
    caller = _Caller()
    order: list[int] = []
    assert caller.call("first", lambda: order.append(1) or 7, 5) == 7  # type: ignore[func-returns-value]
    with pytest.raises(ZeroDivisionError):
        caller.call("second", lambda: 1 // 0, 5)
    names = {caller.call("third", lambda: threading.current_thread().name, 5) for _ in range(3)}
    assert names == {"portaudio"} and not caller.hangs


def test_a_driver_that_hangs_is_told_and_what_was_asked_meanwhile_runs_when_it_wakes_up() -> None:
    caller, wakes, did = _Caller(), threading.Event(), threading.Event()
    begin = time.monotonic()
    with pytest.raises(DeviceError, match=r"closing 'X'.*no answer within 0.2 s.*plug it in again"):
        caller.call("closing 'X'", wakes.wait, 0.2)
    assert caller.hangs
    with pytest.raises(DeviceError, match="no answer"):
        caller.call("closing it again", did.set, 0.05)
    assert time.monotonic() - begin < 5 and not did.is_set()
    wakes.set()
    assert did.wait(5)
    assert caller.call("after", lambda: 1, 5) == 1 and not caller.hangs


def test_a_source_that_is_stopped_does_not_wait_for_the_driver() -> None:
    caller, wakes, stopping = _Caller(), threading.Event(), threading.Event()
    threading.Timer(0.1, stopping.set).start()
    begin = time.monotonic()
    with pytest.raises(Interrupted):
        caller.call("opening", wakes.wait, 60, stopping)
    assert time.monotonic() - begin < 30
    wakes.set()


def test_no_new_list_while_a_stream_is_open() -> None:
    owner = object()
    opened(owner)
    assert not release_list()
    closed(owner)
