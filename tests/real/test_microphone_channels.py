"""Right and wrong channel maps of a real sound server, judged before the take by the channel watch."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pulse import RIGHT_MAP, SINK, PulseMicrophone

pytestmark = pytest.mark.real

FS = 48000
# The server's maps between the microphone's four channels and the four that are asked of it.
ROUTES = {
    "hearth_right": f"channels=4 channel_map={RIGHT_MAP} master_channel_map={RIGHT_MAP} remix=no",
    "hearth_mono": "channels=1 channel_map=mono remix=yes",
    "hearth_stereo": "channels=2 channel_map=front-left,front-right remix=yes",
    "hearth_swapped": f"channels=4 channel_map={RIGHT_MAP}"
    " master_channel_map=front-right,front-left,rear-right,rear-left remix=no",
    "hearth_16bit": f"format=s16le channels=4 channel_map={RIGHT_MAP} remix=no",
}
_PROBE = """
import json, sys, threading
from capture.channel_watch import probe_microphone
from capture.microphone import PortAudioMicrophone
sources = {name: PortAudioMicrophone(name) for name in sys.argv[1:]}
for source in sources.values():
    source.open()
said = {}
def look(name):
    probe = probe_microphone(sources[name], 4.0)
    said[name] = {"faults": [e.data for e in probe.faults], "notes": [e.data["fault"] for e in probe.events
                  if e.kind == "channels" and e.data["severity"] == "note"], "unknown": probe.unknown,
                  "warnings": [e.detail for e in probe.warnings], "rms": list(probe.rms_dbfs)}
threads = [threading.Thread(target=look, args=(name,)) for name in sources]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(json.dumps(said))
"""


def field(seconds: float) -> np.ndarray[Any, np.dtype[np.int32]]:
    """A diffuse field with a louder source in front to the left, and sensor noise; 24 bits."""
    random = np.random.default_rng(5)
    n = round(seconds * FS)
    x = 0.02 * random.standard_normal((n, 4)) * [1, 3**-0.5, 3**-0.5, 3**-0.5]
    x += 0.05 * random.standard_normal((n, 1)) * [1, 0.6, 0.2, 0.77]
    return (np.round(x * 2**23).astype(np.int32)) << 8


def test_wrong_channel_maps_are_found_before_the_take_and_right_ones_raise_nothing(tmp_path: Path) -> None:
    with PulseMicrophone(tmp_path / "pulse", more={name: name for name in ROUTES}) as pulse:
        for name, options in ROUTES.items():
            loaded = pulse.pactl(
                "load-module", "module-remap-source", f"source_name={name}", f"master={SINK}.monitor",
                *options.split(),
            )  # fmt: skip
            assert loaded.strip().isdigit(), (name, loaded)
        playing = pulse.play(field(20))
        done = pulse.python(_PROBE, *ROUTES)
        playing.kill()
    assert done.returncode == 0, done.stderr[-2000:]
    said = json.loads(done.stdout.splitlines()[-1])

    def faults(name: str) -> list[tuple[str, list[int]]]:
        return [(f["fault"], f["channels"]) for f in said[name]["faults"]]

    assert faults("hearth_right") == []
    assert faults("hearth_mono") == [("copied", [0, 1, 2, 3])]
    assert sorted(faults("hearth_stereo")) == [("copied", [0, 2]), ("copied", [1, 3])]
    assert faults("hearth_16bit") == [] and said["hearth_16bit"]["notes"] == ["low_bits"]
    # A swap leaves no trace in the sound: it is said to be unknown, never guessed.
    assert faults("hearth_swapped") == []
    assert any("swaps" in text for text in said["hearth_swapped"]["unknown"])
    swapped, right = said["hearth_swapped"]["rms"], said["hearth_right"]["rms"]
    np.testing.assert_allclose(swapped, np.array(right)[[1, 0, 3, 2]], atol=0.5)  # it really is swapped
    assert all("not the hw: device" in said[name]["warnings"][0] for name in ROUTES)
