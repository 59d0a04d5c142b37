"""A 24-bit USB microphone of four channels, through the kernel's snd-usb-audio: bits, modes, the plug.

The microphone is software (usb_microphone.py) behind USB/IP, so each sample is known. It has the H3-VR's
name; its descriptors are ours.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from kernel import Collected, UsbProgram, cards, list_devices_afresh, skip_if_it_stood_still, wait_for
from usb_microphone import RATE, sound

from capture.rig import Microphone, Rig
from capture.sources import microphone_of
from dsp.errors import DeviceError


def microphone(**settings: Any) -> Any:
    mic = Microphone(
        **{"source": "sounddevice", "device": "H3-VR", "channels": 4, "rate_hz": RATE, **settings}
    )
    return microphone_of(Rig(hearth_rig=1, microphone=mic), None)


def matches(recorded: np.ndarray) -> bool:
    """Whether these frames stand in `sound` just so (it repeats)."""
    truth = sound(4)
    at = np.flatnonzero((truth == recorded[0]).all(axis=1))
    return len(at) == 1 and np.array_equal(
        recorded, np.resize(np.roll(truth, -at[0], axis=0), recorded.shape)
    )


def test_found_by_name_and_every_bit_is_kept(usb_microphone):
    source, got = microphone(), Collected()
    try:
        info = source.open()
        assert info.name.startswith("H3-VR")
        assert info.detail["hardware"] is True
        assert (info.channels, info.rate_hz, info.bits) == (4, RATE, 24)
        source.start(got)
        wait_for("four seconds", lambda: sum(len(b.samples) for b in got.blocks) > 4 * RATE)
    finally:
        source.close()
    # From block to block without a gap, unless the emulated machine was too slow and said so.
    runs: list[list[np.ndarray]] = [[]]
    for block in got.blocks:
        if block.lost_frames or block.flags:
            runs.append([])
        runs[-1].append(block.samples)
    longest = max((np.concatenate(run) for run in runs if run), key=len)
    assert len(longest) > RATE // 2
    assert matches(longest)


def test_stereo_mode_is_recognised_and_the_menu_is_named(microphone_program):
    microphone_program.say("unplug")
    wait_for("the card is gone", lambda: "H3-VR" not in cards())
    stereo = UsbProgram("usb_microphone.py", "2", "H3-VR")
    try:
        wait_for("the card", lambda: "H3-VR" in cards())
        list_devices_afresh()
        with pytest.raises(DeviceError, match="Menu"):
            microphone().open()
    finally:
        stereo.end()
        wait_for("the card is gone", lambda: "H3-VR" not in cards())
        microphone_program.say("plug")


def test_the_plug_is_pulled_and_put_back(usb_microphone):
    source, got = microphone(), Collected()
    try:
        source.open()
        source.start(got)
        wait_for("sound", lambda: len(got.blocks) > 400)
        skip_if_it_stood_still(begin=True)
        usb_microphone.say("unplug")
        lost = wait_for("lost", lambda: got.event("lost"))
        before = len(got.blocks)
        last = got.blocks[-1]
        end_ns = last.t_ns + len(last.samples) * 1_000_000_000 // RATE
        noticed_ns = lost.t_ns - got.last_block_ns
        wait_for("the card is gone", lambda: "H3-VR" not in cards())
        usb_microphone.say("plug")
        returned = wait_for("returned", lambda: got.event("returned"))
        wait_for("sound again", lambda: len(got.blocks) > before + 100)
    finally:
        source.close()
    first = got.blocks[before]
    away_s = (first.t_ns - end_ns) / 1e9
    assert returned.data["lost_frames"] == first.lost_frames
    assert first.lost_frames == pytest.approx(away_s * RATE, abs=0.05 * RATE)
    assert first.first_frame == last.first_frame + len(last.samples) + first.lost_frames
    assert matches(first.samples)
    skip_if_it_stood_still()
    assert noticed_ns < 1e9
