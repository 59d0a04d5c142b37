"""Both PortAudio bindings on one real stream: the same samples, the same words, the same refusals."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pulse import DEVICE, CountingMicrophone, frame_numbers

pytestmark = pytest.mark.real

# Both streams run at once in one process: each sample is compared with what its number says it must be.
_BOTH = """
import json, sys, time
import numpy as np
from capture.blocks import AudioBlock
from capture.microphone import PortAudioMicrophone
from capture.pyaudio_microphone import PyAudioMicrophone
sources = [PortAudioMicrophone(sys.argv[1]), PyAudioMicrophone(sys.argv[1])]
got = [[], []]
infos = [source.open() for source in sources]
for source, items in zip(sources, got):
    source.start(items.append)
time.sleep(3)
for source in sources:
    source.stop()
for items, name in zip(got, sys.argv[2:]):
    np.save(name, np.concatenate([b.samples for b in items if isinstance(b, AudioBlock)]))
def plain(info):
    return [info.name, info.rate_hz, info.channels, info.bits, info.block_frames, info.detail["warnings"]]
print(json.dumps([plain(i) for i in infos]))
"""
_REFUSED = """
import json, sys
from capture.microphone import PortAudioMicrophone
from capture.pyaudio_microphone import PyAudioMicrophone
from dsp.errors import HearthError
said = []
for kind in [PortAudioMicrophone, PyAudioMicrophone]:
    for device, options in [("no such thing", {}), (sys.argv[1], {"channels": 40}), ("hearth", {})]:
        source = kind(device, **options)
        try:
            source.open()
            said.append("opened")
        except HearthError as error:
            said.append(str(error))
        source.close()
first = PortAudioMicrophone(sys.argv[1])
first.open()
try:
    PyAudioMicrophone("no such thing").open()
except HearthError as error:
    said.append(str(error))
first.start(lambda item: None)
first.close()
print(json.dumps(said))
"""


@pytest.fixture(scope="module")
def microphone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CountingMicrophone]:
    pytest.importorskip("pyaudio", reason="PyAudio is not built here (scripts/pyaudio.lock)")
    with CountingMicrophone(tmp_path_factory.mktemp("pulse")) as running:
        yield running


def test_identical_samples(microphone: CountingMicrophone, tmp_path: Path) -> None:
    files = [tmp_path / "sounddevice.npy", tmp_path / "pyaudio.npy"]
    done = microphone.python(_BOTH, DEVICE, *map(str, files))
    assert done.returncode == 0, done.stderr
    first, second = (np.load(f) for f in files)
    numbers = [frame_numbers(x[:, 0]) for x in (first, second)]
    begin, end = max(n[0] for n in numbers), min(n[-1] for n in numbers)
    assert end - begin > 48000
    a, b = (x[(n >= begin) & (n <= end)] for x, n in zip((first, second), numbers, strict=True))
    assert len(a) == len(b) == end - begin + 1
    np.testing.assert_array_equal(a, b)
    assert not np.any(a & 0xFF) and len(np.unique(a[:, 1])) > 1000  # left-justified 24 bits, and not silence
    infos: list[Any] = json.loads(done.stdout.splitlines()[-1])
    assert infos[0] == infos[1]


def test_refusals_are_in_the_same_words(microphone: CountingMicrophone) -> None:
    done = microphone.python(_REFUSED, DEVICE)
    assert done.returncode == 0, done.stderr
    said: list[str] = json.loads(done.stdout.splitlines()[-1])
    assert said[:3] == said[3:6]
    assert "no such thing" in said[0] and f"'{DEVICE}'" in said[0]
    assert "32 channels" in said[1] and "40 channels are needed" in said[1]
    assert said[2] == "opened"
    assert "close that first" in said[6]  # one stream is open: the list of this process cannot be renewed


def test_overflow_flags_become_the_same_word() -> None:
    """No real device here drops sound with a flag (PulseAudio drops it without one): only the last step."""
    sounddevice = pytest.importorskip("sounddevice")
    pyaudio = pytest.importorskip("pyaudio", reason="PyAudio is not built here (scripts/pyaudio.lock)")
    from capture.microphone import PortAudioMicrophone
    from capture.pyaudio_microphone import PyAudioMicrophone

    ours, other = PortAudioMicrophone("x"), PyAudioMicrophone("x")
    data = bytes(16)
    for flag in (0, pyaudio.paInputOverflow, pyaudio.paInputUnderflow):
        ours._callback(data, 1, None, sounddevice.CallbackFlags(flag))
        assert other._callback(data, 1, None, flag) == (None, pyaudio.paContinue)
    flags = [[source._queue.get(0.0) for _ in range(3)] for source in (ours, other)]
    for found in flags:
        assert [item[2] for item in found if item is not None] == [(), ("input_overflow",), ()]
