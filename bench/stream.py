"""The stream: sleeping readers, killed and stopped peers, promises to early subscribers, clocks, recordings.

python -m bench.stream [PART...]    parts: pictures sleeper lost early clock mcap (QUICK=1: the short form)

Peers for moving pictures, imagezmq and vidgear, are measured in the same run when HEARTH_STREAM_PEERS names a
folder outside the project that holds them:

    pip install --no-deps --target DIR imagezmq vidgear simplejpeg deffcode colorlog tqdm requests urllib3 \\
        idna certifi charset-normalizer packaging
"""

from __future__ import annotations

import importlib.util
import json
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from bench.figures import chosen_parts, end_of_part, figure, not_measured, note, peer, quick

REPOSITORY = Path(__file__).resolve().parents[1]
ANY = "tcp://127.0.0.1:0"
PEERS = ("imagezmq", "imagezmq-reply", "vidgear")
FRESH_MS = 200.0
TOLD_S = 3.2  # silence for 3 s is the time-out; looking takes up to 0.1 s


class Child:
    """A role of bench.stream_pictures."""

    def __init__(self, *arguments: str) -> None:
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 (lives as long as the process)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "bench.stream_pictures", *arguments],
            cwd=REPOSITORY,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
        )

    def ready(self) -> str:
        """Wait until it works; returns what it said behind `ready`."""
        assert self._process.stdout is not None
        for line in self._process.stdout:  # peers write remarks to stdout
            if line.startswith("ready"):
                return line.removeprefix("ready").strip()
        raise RuntimeError(f"{self._process.args} ended before it was ready")

    def signal(self, number: int) -> float:
        """Send a signal; returns the time."""
        now = time.monotonic()
        self._process.send_signal(number)
        return now

    def result(self, timeout_s: float) -> dict[str, Any]:
        """End it if it waits for that, and return what it printed."""
        try:
            out, _ = self._process.communicate(timeout=timeout_s)
            return dict(json.loads(out.strip().splitlines()[-1]))
        except (subprocess.TimeoutExpired, ValueError, IndexError) as error:
            self._errors.seek(0)
            note(f"{self._process.args[3:6]}: {error!r}; {self._errors.read()[-300:].strip()}")
            return {}
        finally:
            self.kill()

    def kill(self) -> None:
        self._process.kill()
        self._process.communicate()


def free_address() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"tcp://127.0.0.1:{probe.getsockname()[1]}"


def exchange(kind: str, *plans: dict[str, float]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """One sender, a receiver for each plan beside each other; what they measured."""
    receives_first = kind == "vidgear"  # there the receiver binds
    address = ANY if kind.startswith("ours") else free_address()
    sender = None if receives_first else Child("send", kind, address)
    try:
        if sender is not None:
            address = sender.ready()
        receivers = [Child("receive", kind, address, json.dumps(plan)) for plan in plans]
        if sender is None:
            sender = Child("send", kind, address)
            sender.ready()
        longest = max(sum(plan.values()) for plan in plans)
        results = [receiver.result(longest + 40) for receiver in receivers]
        return sender.result(20), results
    finally:
        if sender is not None:
            sender.kill()


def missing_peer(kind: str) -> str:
    """Why a peer cannot be measured; empty when it can."""
    folder = os.environ.get("HEARTH_STREAM_PEERS")
    if not folder:
        return "HEARTH_STREAM_PEERS names no folder with it"
    if not Path(folder).is_dir():
        return f"HEARTH_STREAM_PEERS: {folder} is no folder"
    name = kind.partition("-")[0]
    sys.path.append(folder)
    try:
        return "" if importlib.util.find_spec(name) else f"{name} is not in HEARTH_STREAM_PEERS"
    finally:
        sys.path.remove(folder)


def moving_pictures() -> None:
    """720p30 between two processes: delivered age and CPU, and what a reader finds after 10 s of sleep."""
    plan = {"awake_s": 5.0 if quick() else 20.0, "sleep_s": 10.0, "after_s": 4.0}
    reached = {}
    for kind in ("ours", *PEERS):
        reason = "" if kind == "ours" else missing_peer(kind)
        if reason:
            note(f"peer {kind}: not measured ({reason})")
            continue
        sender, (receiver,) = exchange(kind, plan)
        if not receiver or not sender:
            note(f"peer {kind}: not measured (it did not deliver)")
            continue
        p50, p99 = np.percentile(receiver["awake_age_ms"], [50, 99])
        after = receiver["after_age_ms"]
        stale = next((n for n, age in enumerate(after) if age <= FRESH_MS), len(after))
        reached[kind] = {
            "age_p50": (p50, "ms"),
            "age_p99": (p99, "ms"),
            "cpu": (sender["cpu_percent"] + receiver["cpu_percent"], "% of one core, both sides"),
            "cpu_each": (sender["cpu_ms"] + receiver["cpu_ms"], "ms for a picture, both sides"),
            "age_on_waking": (after[0], "ms"),
            "stale_pictures_on_waking": (float(stale), "pictures older than 200 ms"),
            "reader_growth_asleep": (receiver["rss_growth_mib"], "MiB"),
            "sender_growth": (sender["rss_growth_mib"], "MiB"),
        }
    if "ours" not in reached:
        not_measured("stream_picture_age_p99", "ms", "<=", 100, "the pictures did not arrive")
        return
    ours = {name: value for name, (value, _) in reached.pop("ours").items()}
    figure("stream_picture_age_p50", ours["age_p50"], "ms", "<=", 50)
    figure("stream_picture_age_p99", ours["age_p99"], "ms", "<=", 100)
    figure("stream_picture_cpu", ours["cpu"], "% of one core, both sides", "<=", 100)
    figure("stream_picture_age_on_waking", ours["age_on_waking"], "ms", "<=", FRESH_MS)
    figure("stream_picture_reader_growth_asleep", ours["reader_growth_asleep"], "MiB", "<=", 10)
    for kind, values in reached.items():
        for name, (value, unit) in values.items():
            peer(f"{kind}_{name}", value, unit)
    unit = "times the best peer's"
    if reached:
        best_age = min(values["age_p50"][0] for values in reached.values())
        best_cpu = min(values["cpu_each"][0] for values in reached.values())
        figure("stream_picture_age_p50_ratio", ours["age_p50"] / best_age, unit, "<=", 1.2)
        figure("stream_picture_cpu_each_ratio", ours["cpu_each"] / best_cpu, unit, "<=", 1.2)
    else:
        why = "no peer in HEARTH_STREAM_PEERS"
        not_measured("stream_picture_age_p50_ratio", unit, "<=", 1.2, why)
        not_measured("stream_picture_cpu_each_ratio", unit, "<=", 1.2, why)


def sleeper() -> None:
    """A reader that sleeps for 10 s at 30 fps with sound, and a fast one beside it."""
    slow = {"awake_s": 3.0, "sleep_s": 10.0, "after_s": 4.0}
    fast = {"awake_s": 3.0, "sleep_s": 0.0, "after_s": 12.0}
    _, (alone,) = exchange("ours+sound", fast)
    sender, (asleep, awake) = exchange("ours+sound", slow, fast)
    if not (sender and asleep and awake and alone):
        not_measured("stream_sleeper_age_on_waking", "ms", "<=", FRESH_MS, "the pictures did not arrive")
        return
    figure("stream_sleeper_age_on_waking", asleep["after_age_ms"][0], "ms", "<=", FRESH_MS)
    figure("stream_sleeper_growth_asleep", asleep["rss_growth_mib"], "MiB", "<=", 20)
    figure("stream_sender_growth", sender["rss_growth_mib"], "MiB", "<=", 20)
    video, sound = asleep["counts"]["video"], asleep["counts"]["foa24"]
    # Each number between the first and the last picture read is read, passed over or lost, and told as that;
    # of those that arrived one may wait unread.
    missing = max(video["span"] - video["read"] - video["superseded"] - video["lost"], 0)
    waiting = video["received"] - video["read"] - video["superseded"]
    figure("stream_sleeper_pictures_not_accounted", missing + max(abs(waiting) - 1, 0), "pictures", "==", 0)
    figure("stream_sleeper_pictures_passed_over", video["superseded"] + video["lost"], "pictures", ">=", 250)
    figure("stream_sleeper_sound_lost", sound["lost"] + sound["span"] - sound["read"], "messages", "==", 0)
    video = awake["counts"]["video"]
    figure("stream_fast_pictures_lost", video["lost"], "pictures", "==", 0)
    peer("stream_fast_pictures_lost_without_sleeper", alone["counts"]["video"]["lost"], "pictures")
    before, beside = (float(np.median(awake[part])) for part in ("awake_age_ms", "after_age_ms"))
    figure("stream_fast_age_beside_sleeper", beside / before, "times the age before it slept", "<=", 1.5)
    peer("stream_fast_age_before", before, "ms")


def lost_peers() -> None:
    """The rig or a client killed or stopped: who is told, how soon, and what is missing afterwards."""
    from edge.stream import Client

    generator, rounds = random.Random(6), 1 if quick() else 4
    told: dict[str, list[float]] = {name: [] for name in ("stop", "kill", "client_stop", "client_kill")}
    followed, new_epochs = [], 0
    rig = Child("send", "ours+sound", ANY)
    stream, commands = rig.ready().split()
    client = Client(stream, commands, streams=["foa24", "event"], name="bench")
    try:
        client.wait_connected(20)
        _read(client, 1.5)
        for _ in range(rounds):
            time.sleep(generator.random())
            told["stop"].append(_until_lost(client, rig.signal(signal.SIGSTOP)))
            rig.signal(signal.SIGCONT)
            _read(client, 2.5)
        lost_after_stops = client.statistics()["foa24"]["lost"]
        for _ in range(rounds):
            _read(client, generator.random())
            epoch = _read(client, 0.2)
            told["kill"].append(_until_lost(client, rig.signal(signal.SIGKILL)))
            rig.kill()
            rig = Child("send", "ours+sound", stream, commands)
            rig.ready()
            again = time.monotonic()
            new_epochs += client.receive(20).epoch != epoch
            followed.append(time.monotonic() - again)
            _read(client, 2.5)
        counts = client.statistics()["foa24"]
        for number, name in ((signal.SIGSTOP, "client_stop"), (signal.SIGKILL, "client_kill")):
            for _ in range(rounds):
                listener = Child("listen", stream, commands)
                listener.ready()
                _read(client, 1.5)
                told[name].append(_until_event(client, "client_lost", listener.signal(number)))
                listener.kill()
    finally:
        client.close()
        rig.kill()
    figure("stream_rig_stopped_told_worst", max(told["stop"]), "s", "<=", TOLD_S)
    figure("stream_rig_killed_told_worst", max(told["kill"]), "s", "<=", TOLD_S)
    figure("stream_client_stopped_told_worst", max(told["client_stop"]), "s", "<=", TOLD_S + 0.3)
    figure("stream_client_killed_told_worst", max(told["client_kill"]), "s", "<=", TOLD_S + 0.3)
    figure("stream_lost_after_stop_and_go", lost_after_stops, "messages", "==", 0)
    figure("stream_followed_under_new_epoch_share", new_epochs / rounds, "of kills", "==", 1)
    figure("stream_followed_after_restart_worst", max(followed), "s", "<=", 3)
    figure("stream_lost_after_restart", counts["lost"] - lost_after_stops, "messages", "==", 0)


def _read(client: Any, seconds: float) -> int:
    """Read for a while; returns the epoch of the last message."""
    end, epoch = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        epoch = client.receive(10).epoch
    return epoch


def _until_lost(client: Any, since: float) -> float:
    from edge.stream import StreamLost

    try:
        while time.monotonic() < since + 30:
            client.receive(30)
    except StreamLost:
        return time.monotonic() - since
    return float("inf")


def _until_event(client: Any, kind: str, since: float) -> float:
    while time.monotonic() < since + 20:
        message = client.receive(20)
        if message.stream == "event" and message.data["kind"] == kind:
            return time.monotonic() - since
    return float("inf")


def early_subscribers() -> None:
    """Published the moment the handshake is done: does everything arrive? A plain SUB beside it."""
    import zmq

    from edge.stream import Client, Publisher

    rounds, each, lost, plain_lost = 40 if quick() else 200, 50, 0, 0
    with Publisher(ANY) as publisher, zmq.Context() as context:
        for n in range(rounds):
            with Client(publisher.address, streams=["doa"]) as client, context.socket(zmq.SUB) as plain:
                plain.setsockopt(zmq.SUBSCRIBE, b"doa\0")
                client.wait_connected(10)
                plain.connect(publisher.address)
                first = publisher.sent.get("doa", 0)
                for _ in range(each):
                    publisher.publish("doa", n, data={"n": n})
                got = [client.receive(10).seq for _ in range(each)]
                lost += got != list(range(first, first + each))
                arrived = 0
                while plain.poll(50):
                    plain.recv_multipart()
                    arrived += 1
                plain_lost += each - arrived
    figure("stream_early_subscribers_with_a_loss", lost, f"of {rounds}", "==", 0)
    peer("plain_zeromq_lost_after_connect", plain_lost / rounds, f"of {each} messages")


def clocks() -> None:
    """The rig's clock from another host, over paths with known truth (edge.stream.time_sync)."""
    from edge.stream.time_sync import ClockEstimator, Exchange

    ms, start, paths, seconds = 1e6, 10**12, 30 if quick() else 150, 120
    errors, means, within, steps = [], [], 0, 0
    for seed in range(paths):
        rng = np.random.default_rng([8, seed])
        drift, offset = rng.uniform(-100e-6, 100e-6), int(rng.integers(-(10**15), 10**15))
        base, queues = rng.uniform(0.2, 3, 2) * ms, rng.uniform(0.5, 10, 2) * ms  # lopsided, both of them
        estimator, middles = ClockEstimator(), []
        for n in range(seconds):
            t0 = start + n * 10**9
            out, back = base + rng.exponential(queues)
            t1 = round(t0 + out + offset + drift * (t0 + out - start))
            exchanged = Exchange(t0, t1, t1 + 20_000, round(t0 + out + 20_000 + back))
            estimator.add(exchanged)
            middles.append((exchanged.lower_ns + exchanged.upper_ns) / 2)
        now = start + seconds * 10**9
        state = estimator.state(now)
        assert state is not None
        truth = offset + drift * (now - start)
        errors.append(abs(state.offset_ns - truth) / ms)
        means.append(abs(float(np.mean(middles[-8:])) - truth) / ms)
        within += abs(state.offset_ns - truth) <= state.uncertainty_ns
        steps += state.steps
    figure("stream_clock_within_stated_bound_share", within / paths, "of paths", "==", 1)
    figure("stream_clock_false_steps", steps, "steps", "==", 0)
    figure("stream_clock_error_p95", float(np.percentile(errors, 95)), "ms", "<=", 2)
    peer("mean_of_8_exchanges_error_p95", float(np.percentile(means, 95)), "ms")


def recordings() -> None:
    """`hearth stream record` killed at a random instant: what is left, read by MCAP's own reader."""
    from edge.stream import CommandServer, Publisher

    if importlib.util.find_spec("mcap") is None:
        not_measured("stream_mcap_lost_worst", "s", "<=", 1, "the package mcap is not installed")
        return
    from mcap.reader import make_reader

    generator, kills = random.Random(9), 2 if quick() else 10
    lost, opened = [], 0
    with tempfile.TemporaryDirectory(prefix="hearth-mcap-") as folder:
        for n in range(kills):
            path, mended = Path(folder) / f"{n}.mcap", Path(folder) / f"{n}-mended.mcap"
            hearth = [sys.executable, "-m", "hearth", "stream"]
            with Publisher(ANY) as publisher, CommandServer(ANY) as server:
                addresses = ["--stream", publisher.address, "--commands", server.address]
                process = subprocess.Popen(
                    [*hearth, "record", str(path), *addresses],
                    cwd=REPOSITORY,
                    stderr=subprocess.PIPE,
                    text=True,
                )
                assert process.stderr is not None
                process.stderr.readline()
                sent, end = [], time.monotonic() + 1 + 2 * generator.random()
                while time.monotonic() < end:
                    publisher.publish("doa", time.monotonic_ns(), data={"n": len(sent)})
                    sent.append(time.monotonic())
                    time.sleep(0.01)
                process.kill()
                killed = time.monotonic()
                process.communicate()
            subprocess.run(
                [*hearth, "recover", str(path), str(mended)], cwd=REPOSITORY, capture_output=True, check=False
            )
            if not mended.is_file():
                continue
            with mended.open("rb") as file:
                found = make_reader(file, validate_crcs=True).iter_messages()
                rows = [json.loads(message.data)["data"]["n"] for _, _, message in found]
            opened += rows == list(range(len(rows)))
            lost.append(killed - sent[len(rows) - 1] if rows else float("inf"))
    figure("stream_mcap_opened_after_kill_share", opened / kills, "of kills", "==", 1)
    figure("stream_mcap_lost_worst", max(lost, default=float("inf")), "s", "<=", 1)


PARTS: dict[str, Callable[[], None]] = {
    "pictures": moving_pictures,
    "sleeper": sleeper,
    "lost": lost_peers,
    "early": early_subscribers,
    "clock": clocks,
    "mcap": recordings,
}


def run(quick: bool) -> None:
    """All parts, for `make bench-edge`; the short form when QUICK is set (bench.figures.quick)."""
    for part in PARTS.values():
        part()


def main() -> int:
    for part in chosen_parts("stream", PARTS):
        PARTS[part]()
    return end_of_part("stream")


if __name__ == "__main__":
    sys.exit(main())
