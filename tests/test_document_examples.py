"""The Python examples of the documents run as they stand."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np

import dsp
from edge.stream import CommandServer, Publisher
from recordings import import_take
from recordings.wav_write import WavWriter

REPOSITORY = Path(__file__).parents[1]


def example(document: str) -> str:
    """The one Python block of a document."""
    (block,) = re.findall(r"```python\n(.*?)```", (REPOSITORY / document).read_text(encoding="utf-8"), re.S)
    return block


def run(code: str, folder: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=folder,
        env={"PYTHONPATH": str(REPOSITORY), "PATH": ""},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_readme_opens_an_episode(tmp_path):
    noise = 0.1 * np.random.default_rng(0).standard_normal(48000)
    writer = WavWriter(tmp_path / "take.wav", 48000, 4, sample_type="float", format_name="ambix")
    writer.write(dsp.encode(noise, 40.0, 0.0))
    writer.close()
    import_take(tmp_path / "take.wav", None, tmp_path / "data", report=False)
    out = run(example("README.md"), tmp_path)
    assert "1.0 s" in out.splitlines()[0]
    angles = [float(line.split()[2]) for line in out.splitlines()[1:]]
    assert len(angles) >= 8 and all(abs(angle - 40) < 3 for angle in angles)


def test_the_protocol_page_reads_the_stream(tmp_path):
    with Publisher("tcp://127.0.0.1:0") as publisher, CommandServer("tcp://127.0.0.1:0") as server:
        server.register("home.describe", lambda: {"devices": [{"id": "lamp", "position_m": [1.0, 2.0, 0.5]}]})
        code = example("docs/protocol.md")
        assert "tcp://127.0.0.1:5771" in code and "tcp://127.0.0.1:5772" in code
        code = code.replace("tcp://127.0.0.1:5771", publisher.address)
        code = code.replace("tcp://127.0.0.1:5772", server.address)
        told: list[str] = []
        reader = threading.Thread(target=lambda: told.append(run(code, tmp_path)))
        reader.start()
        deadline = time.monotonic() + 60
        while server.served == 0 and time.monotonic() < deadline:
            time.sleep(0.02)
        for azimuth in (10.0, -20.0):
            data = {"azimuth_deg": azimuth, "active": True}
            publisher.publish("doa", time.monotonic_ns(), data=data)
            publisher.publish("foa24", time.monotonic_ns(), np.zeros((240, 4), np.float32))
        publisher.publish("event", time.monotonic_ns(), data={"kind": "gap"})
        time.sleep(0.3)
    reader.join(30)
    (out,) = told
    lines = out.splitlines()
    assert lines[0] == "lamp [1.0, 2.0, 0.5]" and lines[-1] == "gap"
    assert [line.split()[0] for line in lines[1:3]] == ["+10.0", "-20.0"]
