"""Signals that ask for an end, and the thread that a source delivers from."""

from __future__ import annotations

import os
import signal
import threading

import pytest

from capture.source_thread import SourceThread
from capture.stop_signals import StopSignals


@pytest.mark.parametrize("first", [signal.SIGINT, signal.SIGTERM])
def test_the_first_asks_the_second_aborts_and_the_handlers_come_back(first):
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    told: list[str] = []
    with StopSignals(lambda: told.append("asked")) as stop:
        os.kill(os.getpid(), first)
        assert stop.asked.is_set() and told == ["asked"]
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGTERM)
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before


def test_a_second_sigterm_may_be_no_abort():
    with StopSignals(aborting=(signal.SIGINT,)) as stop:
        os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGTERM)
        assert stop.asked.is_set()
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)


def test_elsewhere_than_in_the_main_thread_it_does_nothing():
    before = signal.getsignal(signal.SIGINT)
    seen = []

    def body() -> None:
        with StopSignals():
            seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=body)
    thread.start()
    thread.join()
    assert seen == [before]


def test_a_source_thread_runs_once_at_a_time_and_can_end_itself():
    thread = SourceThread("test")
    done = threading.Event()

    def waits() -> None:
        thread.stopping.wait(10)
        done.set()

    assert thread.end() is False
    thread.prepare()
    thread.begin(waits)
    with pytest.raises(RuntimeError, match="started already"):
        thread.prepare()
    assert thread.end() is True and done.is_set()

    ended = threading.Event()

    def ends_itself() -> None:
        thread.end()
        ended.set()

    thread.prepare()
    thread.begin(ends_itself)
    assert ended.wait(10)
