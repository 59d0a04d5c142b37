"""The microphone code against snd-aloop, the kernel's ALSA loopback.

`aplay` writes on one side, Hearth reads the `hw:` device on the other: a real ALSA driver with exact truth.
"""

from __future__ import annotations

import itertools
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kernel import Collected, cards, list_devices_afresh, load, skip_if_it_stood_still, unload, wait_for

from capture.rig import Microphone, Rig
from capture.sources import microphone_of
from dsp.errors import DeviceError

APLAY = os.environ.get("HEARTH_APLAY", "aplay")
RATE = 48000
NAME = "Loopback: PCM (hw:0,1)"
DRIVER = Path("/sys/bus/platform/drivers/snd_aloop")


@pytest.fixture
def loopback() -> Iterator[None]:
    load("snd-aloop", "pcm_substreams=1", "index=0")
    list_devices_afresh()
    yield
    unload("snd-aloop")


def microphone(**settings: Any) -> Any:
    mic = Microphone(**{"source": "sounddevice", "device": NAME, "channels": 4, "rate_hz": RATE, **settings})
    return microphone_of(Rig(hearth_rig=1, microphone=mic), None)


def play(sound: np.ndarray, path: Path) -> None:
    """Play int32 (frames, channels) on the other side, to the end."""
    path.write_bytes(sound.astype("<i4").tobytes())
    channels = str(sound.shape[1])
    subprocess.run(
        [APLAY, "-q", "-D", "hw:0,0", "-f", "S32_LE", "-c", channels, "-r", str(RATE), "-t", "raw",
         "--buffer-time=1000000", str(path)],
        check=True, timeout=60,
    )  # fmt: skip


def found_in(recorded: np.ndarray, sound: np.ndarray) -> int:
    """Where the sound begins in what was recorded."""
    hits = np.flatnonzero((recorded == sound[0]).all(axis=1))
    assert len(hits), "nothing of the sound arrived"
    return int(hits[0])


def test_a_hw_device_with_four_channels_is_bit_exact(loopback, tmp_path):
    random = np.random.default_rng(4)
    sound = (random.integers(-(2**23), 2**23, (4 * RATE, 4), dtype=np.int32) << 8).astype(np.int32)
    source, got = microphone(), Collected()
    try:
        info = source.open()
        assert (info.name, info.channels, info.rate_hz) == (NAME, 4, RATE)
        assert info.detail["hardware"] is True and info.detail["host_api"] == "ALSA"
        source.start(got)
        wait_for("sound", lambda: len(got.blocks) > 50)
        play(sound, tmp_path / "sound.raw")
        wait_for("its end", lambda: sum(len(b.samples) for b in got.blocks) > 6 * RATE)
    finally:
        source.close()
    blocks = got.blocks
    recorded = np.concatenate([b.samples for b in blocks])
    first = found_in(recorded, sound)
    assert np.array_equal(recorded[first : first + len(sound)], sound)
    assert [b.seq for b in blocks] == list(range(len(blocks)))
    assert got.event("lost") is None
    for before, after in itertools.pairwise(blocks):
        assert after.first_frame == before.first_frame + len(before.samples) + after.lost_frames


def test_two_devices_of_one_name_are_not_guessed_between(loopback):
    source = microphone(device="Loopback")
    with pytest.raises(DeviceError, match=r"hw:0,0.*hw:0,1"):
        source.open()


def test_a_busy_device_names_who_holds_it(loopback, tmp_path):
    arecord = subprocess.Popen(
        [str(Path(APLAY).with_name("arecord")), "-q", "-D", "hw:0,1", "-f", "S32_LE", "-c", "4", "-r",
         str(RATE), "-t", "raw", str(tmp_path / "other.raw")]
    )  # fmt: skip
    try:
        other = tmp_path / "other.raw"
        wait_for("the other program records", lambda: other.exists() and other.stat().st_size > 0)
        list_devices_afresh()
        source = microphone()
        with pytest.raises(DeviceError, match=rf"\({arecord.pid}\)"):
            source.open()
        source.close()
    finally:
        arecord.terminate()
        arecord.wait(30)


def test_unplugged_in_the_middle_and_back(loopback):
    source, got = microphone(), Collected()
    try:
        source.open()
        source.start(got)
        wait_for("sound", lambda: len(got.blocks) > 400)  # past the clock's first look at it
        skip_if_it_stood_still(begin=True)
        unbind = subprocess.Popen(["sh", "-c", f"echo snd_aloop.0 > {DRIVER}/unbind"])
        lost = wait_for("lost", lambda: got.event("lost"))
        last = got.blocks[-1]
        end_ns = last.t_ns + len(last.samples) * 1_000_000_000 // RATE
        noticed_ns = lost.t_ns - got.last_block_ns
        assert unbind.wait(60) == 0  # it waits for whoever has the card open: Hearth let it go
        assert "Loopback" not in cards()
        before = len(got.blocks)
        (DRIVER / "bind").write_text("snd_aloop.0")
        returned = wait_for("returned", lambda: got.event("returned"))
        wait_for("sound again", lambda: len(got.blocks) > before + 50)
        first = got.blocks[before]
        away_s = (first.t_ns - end_ns) / 1e9
        assert returned.data["lost_frames"] == pytest.approx(away_s * RATE, abs=0.05 * RATE)
        assert first.lost_frames == returned.data["lost_frames"]
        assert first.first_frame == last.first_frame + len(last.samples) + first.lost_frames
    finally:
        source.close()
    skip_if_it_stood_still()
    assert noticed_ns < 1e9
