"""The page of an episode in a real browser: its script runs, the sound can be sought, nothing is fetched."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "recordings"))
from test_report import SECONDS, TALKER, make_episode

from recordings.report import render
from tests.real.chromium import CHROMIUM, QUIET

# Added to a copy of the page: writes what it finds into the document, which the browser then prints.
PROBE = """<script>
(() => {
  const put = (name, value) => { document.body.dataset[name] = String(value); };
  window.addEventListener("error", (event) => put("error", event.message));
  document.addEventListener("securitypolicyviolation", (event) => put("blocked", event.blockedURI));
  const audio = document.getElementById("sound");
  const plot = document.querySelector(".direction-row .plot");
  const measure = () => {
    put("length", audio.duration);
    const box = plot.getBoundingClientRect();
    const x = box.left + plot.clientLeft + plot.clientWidth * 0.44;
    const options = { clientX: x, clientY: box.top + 5, pointerType: "touch", bubbles: true };
    plot.dispatchEvent(new PointerEvent("pointerdown", options));
    const cursor = document.getElementById("cursor").getBoundingClientRect();
    put("miss", Math.abs(cursor.left + cursor.width / 2 - x));
    put("sought", audio.currentTime);
    put("clock", document.getElementById("clock").textContent);
    put("reading", document.getElementById("reading").textContent);
    put("picture", document.getElementById("frame-now").textContent);
    put("wide", document.documentElement.scrollWidth - document.documentElement.clientWidth);
  };
  if (audio.readyState >= 1) measure(); else audio.addEventListener("loadedmetadata", measure);
})();
</script></body>"""


@pytest.mark.real
@pytest.mark.parametrize("width", [500, 1200])
def test_page_in_chromium(tmp_path: Path, width: int) -> None:
    if CHROMIUM is None:
        pytest.skip("Chromium is not installed")
    page = render(make_episode(tmp_path / "data"))
    file = tmp_path / "page.html"
    file.write_text(page.replace("</body>", PROBE), encoding="utf-8")
    command = [
        CHROMIUM,
        *QUIET,
        "--disable-quic",
        "--mute-audio",
        f"--user-data-dir={tmp_path / 'profile'}",
        f"--window-size={width},900",
        "--virtual-time-budget=8000",
        "--dump-dom",
        file.as_uri(),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    body = re.search(r"<body([^>]*)>", done.stdout)
    assert body, done.stderr[-500:]
    found = dict(re.findall(r'data-(\w+)="([^"]*)"', body.group(1)))
    assert "error" not in found and "blocked" not in found, found
    assert float(found["length"]) == pytest.approx(SECONDS, abs=0.1)
    assert float(found["miss"]) < 1.5  # pixels between the cursor and where the plot was touched
    assert float(found["sought"]) == pytest.approx(0.44 * SECONDS, abs=0.02)
    assert found["clock"].startswith(f"{0.44 * SECONDS:.1f} s")
    azimuth = re.match(r"Sound from (\d+)° left", found["reading"])
    assert azimuth and abs(int(azimuth.group(1)) - TALKER[0]) <= 6
    assert "left" in found["picture"]
    assert float(found["wide"]) <= 0  # nothing sticks out sideways
