from __future__ import annotations

import threading
import time

import numpy as np
import pytest

from capture.blocks import AudioBlock, SourceEvent
from capture.fanout import Fanout


def block(seq: int) -> AudioBlock:
    return AudioBlock(seq * 10, seq, seq * 480, 48000, np.zeros((480, 4), np.int32), seq * 10)


def test_unlimited_reader_gets_all_in_order_whatever_others_do() -> None:
    fanout = Fanout()
    recorder, slow = fanout.subscribe("recorder"), fanout.subscribe("slow", maxsize=3)
    for i in range(1000):
        fanout.sink(block(i))
    assert [recorder.get(0).seq for _ in range(1000)] == list(range(1000))  # type: ignore[union-attr]
    assert recorder.dropped == 0
    assert [slow.get(0).seq for _ in range(3)] == [997, 998, 999]  # type: ignore[union-attr]
    assert slow.dropped == 997


def test_events_are_not_dropped_for_blocks() -> None:
    fanout = Fanout()
    reader = fanout.subscribe("live", maxsize=4)
    fanout.sink(SourceEvent(0, "microphone", "lost"))
    for i in range(100):
        fanout.sink(block(i))
    first = reader.get(0)
    assert isinstance(first, SourceEvent) and first.kind == "lost"


def test_items_are_shared_not_copied() -> None:
    fanout = Fanout()
    a, b = fanout.subscribe("a"), fanout.subscribe("b")
    fanout.sink(block(0))
    assert a.get(0) is b.get(0)


def test_close_lets_readers_finish_and_ends_them() -> None:
    fanout = Fanout()
    reader = fanout.subscribe("r")
    fanout.sink(block(0))
    fanout.close()
    fanout.sink(block(1))  # after the close: nobody gets it
    assert isinstance(reader.get(1), AudioBlock)
    assert reader.get(None) is None and reader.closed


def test_get_waits_for_an_item_and_for_no_longer_than_asked() -> None:
    fanout = Fanout()
    reader = fanout.subscribe("r")
    assert reader.get(0.02) is None
    threading.Timer(0.05, lambda: fanout.sink(block(7))).start()
    item = reader.get(5)
    assert isinstance(item, AudioBlock) and item.seq == 7


def test_a_fast_source_is_held_by_the_recorder_only() -> None:
    fanout = Fanout(hold_at=10)
    recorder, live = fanout.subscribe("recorder"), fanout.subscribe("live", maxsize=2)
    source = threading.Thread(target=lambda: [fanout.sink(block(i)) for i in range(50)], daemon=True)
    source.start()
    time.sleep(0.2)
    assert recorder.depth == 10 and source.is_alive()
    got = []
    while len(got) < 50:
        item = recorder.get(5)
        assert isinstance(item, AudioBlock)
        got.append(item.seq)
    assert got == list(range(50))
    assert live.dropped == 48


def test_wrong_size_is_an_error() -> None:
    with pytest.raises(ValueError, match="maxsize"):
        Fanout().subscribe("x", maxsize=0)
