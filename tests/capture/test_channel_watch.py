"""The channel watch against faults made by formula, real first-order recordings and rooms without a fault."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
import soundfile
from numpy.typing import NDArray

from capture.blocks import AudioBlock, SourceEvent
from capture.channel_watch import ChannelFollower, ChannelWatch, probe_microphone
from capture.fanout import Fanout
from capture.file_microphone import FileMicrophone
from capture.rig import load_rig
from dsp.errors import DeviceError, InputError

FS = 48000
Floats = NDArray[np.float64]


def to_int(x: Floats, bits: int = 24) -> NDArray[np.int32]:
    """Full scale +-1 to int32, left-justified, rounded to `bits`."""
    top = 2.0 ** (bits - 1)
    return (np.clip(np.round(x * top), -top, top - 1)).astype(np.int64).astype(np.int32) << np.int32(
        32 - bits
    )


def watch(
    x: NDArray[np.int32], format: str = "ambix", rate: int = FS, gaps: dict[int, int] | None = None
) -> list[SourceEvent]:
    """All events of a recording, in blocks of 10 ms from time 0."""
    watching = ChannelWatch(rate, x.shape[1], format)
    step, events = rate // 100, []
    for seq, first in enumerate(range(0, len(x), step)):
        t_ns = first * 1_000_000_000 // rate
        lost = (gaps or {}).get(seq, 0)
        events += watching.push(AudioBlock(t_ns, seq, first, rate, x[first : first + step], t_ns, lost))
    return events


def names(events: list[SourceEvent]) -> list[tuple[str, tuple[int, ...], str]]:
    return [(e.data["fault"], tuple(e.data["channels"]), e.data["state"]) for e in events]


def room(seconds: float = 4.0, level_dbfs: float = -30.0, seed: int = 0) -> Floats:
    """A diffuse field with a talker's syllables from 60 degrees and sensor noise at -95 dBFS; AmbiX."""
    random = np.random.default_rng(seed)
    n = round(seconds * FS)
    talker = random.standard_normal(n) * (0.02 + np.abs(np.sin(2 * np.pi * 2 * np.arange(n) / FS)))
    az = np.radians(60)
    gains = np.array([1.0, np.sin(az), 0.0, np.cos(az)])
    diffuse = random.standard_normal((n, 4)) * [1, 3**-0.5, 3**-0.5, 3**-0.5]
    x = talker[:, None] * gains + 0.1 * diffuse
    return 10 ** (level_dbfs / 20) * x + 10 ** (-95 / 20) * random.standard_normal((n, 4))


def remix(x: Floats, speakers: int) -> Floats:
    """4 channels through a 1- or 2-channel route and back, as channel maps do it."""
    front, rear = x[:, :2], x[:, 2:]
    stereo = 0.5 * (front + rear)
    if speakers == 1:
        stereo = np.repeat(stereo.mean(axis=1, keepdims=True), 2, axis=1)
    return np.concatenate([stereo, stereo], axis=1)


def change(x: Floats, channel: int, new: Floats | float) -> Floats:
    y = x.copy()
    y[:, channel] = new
    return y


MATRIX = np.array([[1, 0.3, 0, 0.2], [0.1, 1, 0.4, 0], [0, 0.2, 1, 0.5]])  # three signals
FAULTS: dict[str, tuple[Callable[[Floats], Floats], list[tuple[str, tuple[int, ...]]]]] = {
    "zero": (lambda x: change(x, 2, 0.0), [("zero", (2,))]),
    "all zero": (lambda x: 0 * x, [("zero", (0, 1, 2, 3))]),
    "constant": (lambda x: change(x, 3, 0.01), [("dead", (3,))]),
    "mono": (lambda x: remix(x, 1), [("copied", (0, 1, 2, 3))]),
    "stereo": (lambda x: remix(x, 2), [("copied", (0, 2)), ("copied", (1, 3))]),
    "copy with gain": (lambda x: change(x, 1, -0.31 * x[:, 0]), [("copied", (0, 1))]),
    "three signals": (lambda x: x[:, :3] @ MATRIX, [("mixed", (0, 1, 2, 3))]),
    "one is a mixture": (
        lambda x: change(x, 2, 0.4 * x[:, 0] + 0.3 * x[:, 1]),
        [("mixed", (0, 1, 2))],
    ),
    "clipped": (lambda x: np.clip(x * [1, 1, 1, 60], -1, 1), [("clipped", (3,))]),
    "weak": (lambda x: x * [1, 1, 10**-2.2, 1], [("weak", (2,))]),
    "far too low": (
        lambda x: 1e-5 * np.random.default_rng(1).standard_normal(x.shape),
        [("quiet", (0, 1, 2, 3))],
    ),
}


SLOW = {"weak": 7.0, "far too low": 12.0}  # s; in 16 bits such a channel is dead instead


@pytest.mark.parametrize(
    ("name", "bits"), [(name, bits) for name in FAULTS for bits in (24, 16) if bits == 24 or name not in SLOW]
)
def test_every_fault_is_told_once_with_its_channels(name: str, bits: int) -> None:
    make, expected = FAULTS[name]
    events = [
        e
        for e in watch(to_int(make(room(SLOW.get(name, 4.0))), bits))
        if e.data["fault"] != "low_bits"  # 16 bits in 24
    ]
    assert names(events) == [(*fault, "began") for fault in expected]
    assert all(e.kind == "channels" and e.source == "microphone" and e.data["since"] == 0 for e in events)


def test_a_16_bit_route_is_a_note() -> None:
    events = watch(to_int(room(), 16))
    assert names(events) == [("low_bits", (0, 1, 2, 3), "began")]
    assert events[0].data["severity"] == "note" and "16-bit" in events[0].detail
    assert watch(to_int(room(), 24)) == []


def test_a_fault_begins_and_ends_once_with_its_times() -> None:
    x = room(12.0)
    x[3 * FS : 7 * FS, 1] = 0.0
    began, ended = watch(to_int(x))
    assert names([began, ended]) == [("zero", (1,), "began"), ("zero", (1,), "ended")]
    assert began.data["since"] == 3_000_000_000 and ended.data["since"] == 7_000_000_000
    assert "2 (Y)" in began.detail and "digital silence" in began.detail and "over" in ended.detail


def test_a_remix_that_begins_in_the_running_take_is_found() -> None:
    x = room(9.0)
    x[4 * FS :] = remix(x[4 * FS :], 2)
    events = watch(to_int(x))
    assert names(events) == [("copied", (0, 2), "began"), ("copied", (1, 3), "began")]
    assert {e.data["since"] for e in events} == {4_000_000_000}
    assert "hw: device" in events[0].detail


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("level_dbfs", [-20.0, -60.0, -120.0])
def test_a_quiet_or_loud_room_raises_nothing(seed: int, level_dbfs: float) -> None:
    """-120 dBFS: nothing but the noise of the sensors, which is independent."""
    x = room(6.0, level_dbfs, seed)
    assert names(watch(to_int(x))) == []


def test_one_dry_wave_is_not_called_a_remix() -> None:
    """Without a room first-order components of one source are copies; with a remix their power is not W's."""
    random = np.random.default_rng(3)
    n = 4 * FS
    az, el = np.radians([40, 25])
    gains = np.array([1, np.sin(az) * np.cos(el), np.sin(el), np.cos(az) * np.cos(el)])
    wave = 0.1 * random.standard_normal(n)[:, None]
    assert watch(to_int(wave * gains)) == []
    fuma = wave * gains[[0, 3, 1, 2]] * [0.5**0.5, 1, 1, 1]
    assert watch(to_int(fuma), "fuma") == []
    assert watch(to_int(wave * gains * [1, 3**0.5, 3**0.5, 3**0.5]), "n3d") == []
    assert names(watch(to_int(wave * [1, 0.9, 0.9, 0.9]))) == [("copied", (0, 1, 2, 3), "began")]


def test_swapped_channels_cannot_be_told_and_are_said_to_be_unknown(tmp_path: Path) -> None:
    x = to_int(room())
    assert watch(x[:, [1, 0, 3, 2]]) == []
    soundfile.write(tmp_path / "x.wav", x[:, [1, 0, 3, 2]], FS, subtype="PCM_24")
    probe = probe_microphone(FileMicrophone(tmp_path / "x.wav", pace="fast"))
    assert not probe.faults and any("order" in text and "cannot be told" in text for text in probe.unknown)


def test_a_gap_in_the_sound_does_not_join_its_two_sides() -> None:
    """A window with a hole would show a jump; the watch begins a new one."""
    watching = ChannelWatch(FS, 4)
    x = to_int(room(3.0))
    block = AudioBlock(0, 0, 0, FS, x[: FS // 2], 0)
    assert watching.push(block) == []
    later = AudioBlock(5_000_000_000, 1, 5 * FS, FS, np.zeros((FS, 4), np.int32), 0, lost_frames=100)
    (event,) = watching.push(later)
    assert event.data["fault"] == "zero" and event.data["since"] == 5_000_000_000
    assert [(p["fault"], p["channels"]) for p in watching.present] == [("zero", [c]) for c in range(4)]


def test_real_recordings_raise_nothing(shared_data: Path) -> None:
    """First-order microphones, a spherical array and four capsules in a room; Ogg, so not bit-exact."""
    files: list[tuple[str, str]] = [("jsambisonics-foa/*.ogg", "fuma"), ("jsambisonics-hoa3/*.ogg", "n3d")]
    files += [("eigenscape/*.wav", "ambix"), ("respeaker4-labelled/**/*.wav", "array")]
    seconds = 0.0
    for pattern, format in files:
        found = sorted((shared_data / "foa").glob(pattern))
        assert found
        for path in found:
            x, rate = soundfile.read(path, dtype="float64", always_2d=True)
            events = watch(to_int(x[:, :4]), format, rate)
            assert not [e.detail for e in events if e.data["severity"] != "note"], path.name
            seconds += len(x) / rate
    assert seconds > 60


def test_the_virtual_room_raises_nothing_even_without_walls_and_noise() -> None:
    """Nothing real is as dry and as quiet: what comes is a few plane waves and rounding."""
    from capture.virtual import build_scene

    rig = load_rig(Path("capture/virtual/demo_rig.yaml"))
    microphone = msgspec.structs.replace(rig.microphone, pace="fast")
    virtual = msgspec.structs.replace(rig.virtual, rt60_s=0.0, snr_db=100.0)
    source = build_scene(msgspec.structs.replace(rig, microphone=microphone, virtual=virtual)).microphone()
    info = source.open()
    watching = ChannelWatch(info.rate_hz, info.channels, info.format, bits=info.bits)
    events: list[Any] = []
    over = threading.Event()

    def sink(item: Any) -> None:
        if isinstance(item, AudioBlock):
            events.extend(watching.push(item))
        elif item.kind == "ended":
            over.set()

    source.start(sink)
    assert over.wait(60)
    source.stop()
    assert names(events) == []


def test_probe_says_levels_and_faults_and_stops_the_source(tmp_path: Path) -> None:
    x = remix(room(4.0), 2)
    soundfile.write(tmp_path / "x.wav", to_int(x), FS, subtype="PCM_24")
    source = FileMicrophone(tmp_path / "x.wav", pace="fast")
    seen: list[AudioBlock] = []
    probe = probe_microphone(source, on_block=seen.append)
    assert names(list(probe.faults)) == [("copied", (0, 2), "began"), ("copied", (1, 3), "began")]
    heard = x[: round(probe.seconds * FS)]
    np.testing.assert_allclose(probe.peak_dbfs, 20 * np.log10(np.abs(heard).max(axis=0)), atol=0.01)
    np.testing.assert_allclose(probe.rms_dbfs, 10 * np.log10(np.mean(heard**2, axis=0)), atol=0.01)
    assert sum(len(b.samples) for b in seen) == round(probe.seconds * FS)
    source.start(lambda item: None)  # it can be started for the take
    source.stop()


def test_a_follower_puts_its_events_into_the_fan_out(tmp_path: Path) -> None:
    x = room(6.0)
    x[3 * FS :, 1] = 0.0
    soundfile.write(tmp_path / "x.wav", to_int(x), FS, subtype="PCM_24")
    source = FileMicrophone(tmp_path / "x.wav", pace="fast")
    source.start_ns = 0
    fanout = Fanout(hold_at=20)
    reader = fanout.subscribe("reader")
    follower = ChannelFollower(fanout, source.open())
    events: list[SourceEvent] = []

    def read() -> None:
        while not (reader.closed and reader.depth == 0):
            item = reader.get(timeout=0.2)
            if isinstance(item, SourceEvent):
                events.append(item)

    thread = threading.Thread(target=read)
    thread.start()
    source.start(fanout.sink)
    deadline = time.monotonic() + 30
    while not any(e.kind == "ended" for e in events) and time.monotonic() < deadline:
        time.sleep(0.01)
    follower.close()
    reader.close()
    thread.join()
    source.stop()
    (found,) = (e for e in events if e.kind == "channels")
    assert names([found]) == [("zero", (1,), "began")]
    assert found.t_ns == 4_000_000_000 and found.data["since"] == 3_000_000_000  # the sound's own time
    assert [p["fault"] for p in follower.present] == ["zero"]


def test_a_microphone_without_sound_is_an_error_and_odd_settings_too() -> None:
    class Silent(FileMicrophone):
        def start(self, sink: object) -> None:
            return

    path = Path("capture/virtual/speech")
    source = Silent(sorted(path.glob("*.flac"))[0])
    with pytest.raises(DeviceError, match=r"no sound came within 0\.2 s"):
        probe_microphone(source, 0.1, patience_s=0.1)
    with pytest.raises(InputError, match="0 Hz"):
        ChannelWatch(0, 4)
