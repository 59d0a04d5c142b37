"""A session on a real, paced microphone: it stays open between takes, a loudspeaker plays the device that is
to be heard, and nobody is recorded who has not agreed to it."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import date, timedelta
from pathlib import Path

import numpy as np
import pytest
from pulse import DEVICE, SINK, PulseMicrophone

from recordings.consent.book import ConsentBook
from recordings.episode import Episode
from recordings.plan.store import write_plan
from recordings.session_journal import kept_takes
from recordings.verify_episode import verify
from tests.edge.session_plans import humming, item, plan_of

pytestmark = pytest.mark.real

REPOSITORY = Path(__file__).resolve().parents[2]
RIG = f"""hearth_rig: 1
microphone: {{source: sounddevice, device: {DEVICE}}}
camera: {{source: none}}
storage: {{min_free_mib: 10}}
"""
SCRIPT = """go    # into the living room
go    # ep0001
keep
go    # ep0002: Ben has not agreed, so this is asked again
skip he has not agreed
go    # ep0003
keep
"""


def test_takes_of_a_rig_that_stays_open(tmp_path: Path) -> None:
    plan = plan_of(humming(1), item(2, speaker=1), item(3))
    write_plan(plan, tmp_path / "plan.yaml")
    (tmp_path / "rig.yaml").write_text(RIG)
    (tmp_path / "script").write_text(SCRIPT)
    data = tmp_path / "data"
    book = ConsentBook.open(data)
    book.add("anna", ["recording"], form="spoken", until=date.today() + timedelta(days=30))
    with PulseMicrophone(tmp_path / "pulse", more={"hearth_speaker": SINK}) as pulse:
        done = subprocess.run(
            [
                *(sys.executable, "-m", "hearth", "session", "plan.yaml", "--rig", "rig.yaml", "--json"),
                *("--script", "script", "--seconds", "1.5", "--loudspeaker", "hearth_speaker", "--no-report"),
            ],
            cwd=tmp_path,
            env={**pulse.environment, "PYTHONPATH": str(REPOSITORY)},
            capture_output=True,
            text=True,
            timeout=150,
            check=False,
        )
    assert done.returncode == 1, done.stderr
    result = json.loads(done.stdout)
    assert (result["kept"], result["takes"], result["open"]) == (2, 2, ["ep0002"]), result
    assert "ben is not listed" in result["refused"][0]["why"]
    kept = kept_takes(data / "small")
    first, second = (Episode.open(kept[name]) for name in ("ep0001", "ep0003"))
    for episode in (first, second):
        assert verify(episode.path).ok and episode.profile.origin == "recorded"
        assert episode.profile.consent.recording == "given" and episode.duration_s == 1.5
        assert episode.profile.plan_item == episode.path.name.removesuffix("-t1")
    assert not (data / "small" / "ep0002-t1").exists()
    stamps = [[line for line in e.timeline() if line["type"] == "audio"] for e in (first, second)]
    assert stamps[1][0]["seq"] > stamps[0][-1]["seq"], "the microphone was opened once, and ran on"
    loud, quiet = (float(np.sqrt(np.mean(e.audio(48000)[:, 0] ** 2))) for e in (first, second))
    assert loud > 0.01 > 10 * quiet, "only the first item is to be heard"
