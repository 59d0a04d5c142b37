"""Real homes: a command until its state is read back, and restarts: `python -m bench.agent_homes`.

Against a real Home Assistant 2024.3.3 and a real Mosquitto on loopback, started here with the helpers of the
tests (`sh scripts/home_assistant.sh` installs the first). The lamp over MQTT is a program of ours.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from bench.figures import end_of_part, figure, not_measured, peer, quick
from capture.rig import Rig, parse_rig
from edge.home.bridge_open import RealHome, link_of
from edge.home.mqtt_presence import STREAMS, Presence
from edge.stream import Client, CommandServer, Publisher

sys.path.append(str(Path(__file__).resolve().parent.parent / "tests" / "real"))

ON = "1.OnOff.OnOff"
FIGURES = (
    ("a light through Home Assistant, command to read back, p50", "ms", "<=", 20.0),
    ("a light through Home Assistant, command to read back, p90", "ms", "<=", 50.0),
    ("a lamp over MQTT, command to read back, p50", "ms", "<=", 20.0),
    ("a lamp over MQTT, command to read back, p90", "ms", "<=", 50.0),
    ("restart of Home Assistant, until Hearth follows it again", "s", "<=", 12.0),
    ("restart of the broker, until Hearth is announced again", "s", "<=", 5.0),
)


def _until(what: Callable[[], object], seconds: float = 60.0) -> float:
    """Seconds until it holds; NaN when it never did."""
    began = time.monotonic()
    while not what():
        if time.monotonic() - began > seconds:
            return float("nan")
        time.sleep(0.01)
    return time.monotonic() - began


def _timed(home: RealHome, device: str, count: int) -> np.ndarray:
    """(count,) milliseconds of switching it off and on in turns, each read back."""
    times = []
    for number in range(count):
        began = time.perf_counter()
        wanted = bool(number % 2)
        read = home.command(device, "On" if wanted else "Off").attributes[ON]
        times.append(1e3 * (time.perf_counter() - began))
        if read is not wanted:
            raise AssertionError(f"{device} was switched, but reads {read}")
    return np.array(times)


def _rig(kind: str, url: str, broker: str, token: Path) -> Rig:
    return parse_rig(f"""
hearth_rig: 1
id: bench_rig
home: {{kind: {kind}, url: "{url}", token_file: "{token}"}}
mqtt: {{url: "{broker}"}}
room:
  devices:
  - {{id: light, type: dimmable_light, name: bed light, position_m: [1, 1, 1], entity: light.bed_light}}
  - {{id: lamp, type: dimmable_light, name: reading lamp, position_m: [2, 1, 1], entity: light.reading_lamp}}
""")


def run(quick: bool) -> None:
    """Print all figures, or why they could not be measured."""
    import pytest

    try:
        with tempfile.TemporaryDirectory() as folder:
            _run(Path(folder), 40 if quick else 400)
    except pytest.skip.Exception as missing:
        for name, unit, op, target in FIGURES:
            not_measured(name, unit, op, target, str(missing))


def _run(folder: Path, count: int) -> None:
    from home_assistant import HomeAssistant
    from mosquitto import Broker, Lamp

    house = HomeAssistant(folder / "house")
    token = folder / "token"
    with Broker(folder / "broker") as broker:
        lamp = Lamp(broker)
        try:
            house.start()
            house.log_in()
            token.write_text(house.token)
            token.chmod(0o600)
            rig = _rig("home_assistant", house.url, broker.url, token)
            home = RealHome(rig, link_of(rig))
            _until(lambda: home.home.link.connected and home.home.state("light"))
            house.call("light.turn_on", "light.bed_light")
            through = _timed(home, "light", count)
            began = time.perf_counter()
            for number in range(20):  # what a script does that believes the answer
                house.call("light.turn_on" if number % 2 else "light.turn_off", "light.bed_light")
            blind = 1e3 * (time.perf_counter() - began) / 20
            alone_rig = _rig("mqtt", house.url, broker.url, token)
            alone = RealHome(alone_rig, link_of(alone_rig))
            _until(lambda: alone.home.snapshot().get("lamp", {}).get(ON) is not None)
            alone.command("lamp", "On")
            over = _timed(alone, "lamp", count)
            alone.close()
            house.stop()
            _until(lambda: not home.home.link.connected)
            began = time.monotonic()
            house.start()
            _until(lambda: home.home.link.connected and home.home.read("light", ON) is not None)
            back = time.monotonic() - began
            home.close()
        finally:
            house.stop()
            lamp.close()
        announced = _announced(rig, broker)
    values = [*np.percentile(through, (50, 90)), *np.percentile(over, (50, 90)), back, announced]
    for (name, unit, op, target), value in zip(FIGURES, values, strict=True):
        figure(name, float(value), unit, op, target)
    peer("a light through Home Assistant's REST service, not read back, mean", blind, "ms")


def _announced(rig: Rig, broker: object) -> float:
    """Seconds from the broker's start to the announcement."""
    with (
        Publisher("tcp://127.0.0.1:0") as publisher,
        CommandServer("tcp://127.0.0.1:0") as server,
        Client(publisher.address, server.address, streams=STREAMS) as client,
    ):
        presence = Presence(rig, "bench_rig", client).start()
        try:
            _until(lambda: presence.announced)
            broker.stop()  # type: ignore[attr-defined]
            _until(lambda: presence.connection.trouble)
            before, began = presence.announced, time.monotonic()
            broker.start()  # type: ignore[attr-defined]
            _until(lambda: presence.announced > before)
            return time.monotonic() - began
        finally:
            presence.close()


def main() -> int:
    """All figures of this module."""
    run(quick())
    return end_of_part("agent-homes")


if __name__ == "__main__":
    raise SystemExit(main())
