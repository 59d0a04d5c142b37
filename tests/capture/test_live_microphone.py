"""What a live microphone does when its device goes and comes back, with a device that the test plays."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest

from capture import live_microphone
from capture.blocks import AudioBlock, AudioInfo, Item, SourceEvent
from capture.live_microphone import LiveMicrophone
from capture.portaudio_devices import InputDevice

FS = 48000


class PlayedMicrophone(LiveMicrophone):
    """Delivers from a thread of the test while `plugged`; the stream ends when it is not."""

    backend = "played"

    def __init__(self) -> None:
        super().__init__("H3-VR", rate_hz=FS)
        self.listed = InputDevice(3, "H3-VR: USB Audio (hw:2,0)", "ALSA", 4, 48000.0)
        self.plugged = threading.Event()
        self.plugged.set()
        self._ends = threading.Event()

    def list_inputs(self, *_: object) -> list[InputDevice]:
        return [self.listed] if self.plugged.is_set() else []

    def _open_stream(self) -> AudioInfo:
        return self._info_of(self._choose(self.list_inputs(), True), FS, 0.01, "none")

    def _start_stream(self) -> None:
        self._ends = threading.Event()
        threading.Thread(target=self._play, args=(self._ends,), daemon=True).start()

    def _play(self, ends: threading.Event) -> None:
        block = np.zeros((480, 4), np.int32).tobytes()
        begin, n = time.monotonic(), 0
        while not ends.wait(max(0.0, begin + n * 0.01 - time.monotonic())):
            if not self.plugged.is_set():
                ends.set()
                return
            self._deliver(block)
            n += 1

    def _close_stream(self) -> None:
        self._ends.set()

    def _is_active(self) -> bool:
        return not self._ends.is_set()


class Take:
    def __init__(self) -> None:
        self.items: list[Item] = []

    def sink(self, item: Item) -> None:
        self.items.append(item)

    @property
    def events(self) -> list[SourceEvent]:
        return [i for i in self.items if isinstance(i, SourceEvent)]

    def wait(self, kind: str) -> SourceEvent:
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            for event in self.events:
                if event.kind == kind:
                    return event
            time.sleep(0.01)
        raise AssertionError(f"no {kind!r}: {self.events}")


@pytest.fixture
def microphone(monkeypatch: pytest.MonkeyPatch) -> PlayedMicrophone:
    played = PlayedMicrophone()
    # What a fresh process would list: there is no H3-VR here to plug in.
    monkeypatch.setattr(live_microphone, "list_inputs_fresh", played.list_inputs)
    return played


def test_plugged_in_again_in_stereo_mode_names_the_menu_and_goes_on_when_that_is_put_right(
    microphone: PlayedMicrophone,
) -> None:
    take = Take()
    microphone.start(take.sink)
    time.sleep(0.3)
    four = microphone.listed
    microphone.plugged.clear()
    gone_ns = time.monotonic_ns()
    lost = take.wait("lost")
    assert 0 < lost.t_ns - gone_ns < 1_000_000_000
    microphone.listed = InputDevice(5, "H3-VR: USB Audio (hw:4,0)", "ALSA", 2, 48000.0)
    microphone.plugged.set()
    error = take.wait("error")
    assert "Menu > USB > Audio I/F > 4ch Ambisonics" in error.detail and "2 channels" in error.detail
    microphone.listed = InputDevice(9, "H3-VR: USB Audio (hw:4,0)", "ALSA", 4, 48000.0)
    returned = take.wait("returned")
    time.sleep(0.2)
    microphone.stop()
    assert [e.kind for e in take.events] == ["lost", "error", "returned"]  # each said once
    blocks = [i for i in take.items if isinstance(i, AudioBlock)]
    after = next(i for i, b in enumerate(blocks) if b.lost_frames)
    before, back = blocks[after - 1], blocks[after]
    assert back.first_frame == before.first_frame + 480 + back.lost_frames
    assert back.lost_frames == returned.data["lost_frames"]
    # The counter and the clock agree about the gap: both ends of it lie on one line.
    counted_s = (back.first_frame - before.first_frame) / FS
    assert (back.t_ns - before.t_ns) / 1e9 == pytest.approx(counted_s, abs=0.02)
    assert four.channels == 4 and microphone.open().name.endswith("(hw:4,0)")
    microphone.close()


def test_stop_returns_soon_while_the_device_is_away(microphone: PlayedMicrophone) -> None:
    take = Take()
    microphone.start(take.sink)
    microphone.plugged.clear()  # in the very first moment
    take.wait("lost")
    count = len(take.items)
    begin = time.monotonic()
    microphone.stop()
    microphone.close()
    assert time.monotonic() - begin < 3 and len(take.items) == count


def test_warnings_about_the_device_are_in_the_take(microphone: PlayedMicrophone) -> None:
    microphone.listed = InputDevice(0, "H3-VR via pulse", "ALSA", 32, 44100.0)
    take = Take()
    info = microphone.open()
    microphone.start(take.sink)
    event = take.wait("warning")
    microphone.stop()
    assert [event.detail] == info.detail["warnings"] and "remix" in event.detail
