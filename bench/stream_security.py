"""`python -m bench.stream_security`: keys, refusals, hostile messages and what encryption costs.

Everything runs over TCP between processes; where this host has an address besides loopback, over that one.
QUICK=1 sends fewer hostile messages and measures for a shorter time.
"""

from __future__ import annotations

import json
import logging
import os
import socket as sockets
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import zmq

from bench import hostile_messages as hostile
from bench.figures import end_of_part, figure, note, peer, quick
from edge.stream import Access, AccessDenied, Client, CommandServer, Publisher
from edge.stream.keys_folder import KeysFolder

NAME = "stream_security"
REPOSITORY = Path(__file__).resolve().parents[1]


class Household:
    """A rig, a client that it allows, one that it does not, and one that expects another rig."""

    def __init__(self, folder: Path) -> None:
        self.rig, self.tablet = KeysFolder(folder / "rig"), KeysFolder(folder / "tablet")
        self.stranger, self.lost = KeysFolder(folder / "stranger"), KeysFolder(folder / "lost")
        word = self.rig.make("rig", "rig").public.word
        other = KeysFolder(folder / "other").make("other", "rig").public.word
        for name in ("tablet", "stranger", "lost"):
            keys: KeysFolder = getattr(self, name)
            keys.make(name, "client")
            keys.allow("rig", other if keys is self.lost else word)
        self.allow()

    def allow(self) -> None:
        self.rig.allow("tablet", self.tablet.own("client")[0].public.word)


def host() -> str:
    """An address of this host that the network reaches; loopback when there is none."""
    with sockets.socket(sockets.AF_INET, sockets.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
            return str(probe.getsockname()[0])
        except OSError:
            return "127.0.0.1"


# --- a rig in a process of its own: what is measured of it is its own CPU and memory ---


def serve(folder: str, encrypted: str) -> None:
    """Publish like a rig, until standard input ends; a line on it is answered with what happened."""
    from capture.rig import DEFAULT_RIG, load_rig
    from edge.home import HomeService, home_of

    access = Access(KeysFolder(folder), everywhere=True) if encrypted == "1" else Access()
    denied: list[tuple[float, str]] = []
    access.listen(lambda kind, fields: denied.append((time.monotonic(), fields["reason"])))
    rig = load_rig(DEFAULT_RIG)
    where = f"tcp://{host() if encrypted == '1' else '127.0.0.1'}:0"
    with Publisher(where, access=access) as publisher, CommandServer(where, access) as server:
        HomeService(rig, home_of(rig), server, publisher)
        stop = threading.Event()
        thread = threading.Thread(target=_publish, args=(publisher, stop))
        thread.start()
        print(json.dumps([publisher.address, server.address, publisher.latest_address]), flush=True)
        for _ in sys.stdin:
            told = {
                "denied": denied,
                "access": access.to_dict(),
                "rejected": {**server.rejected, "subscriptions": publisher.rejected},
                "received": server.received,
                "served": server.served,
                "cpu_s": time.process_time(),
                "rss_mib": _rss_mib(),
                "sent": publisher.sent,
            }
            print(json.dumps(told), flush=True)
        stop.set()
        thread.join()


def _publish(publisher: Publisher, stop: threading.Event) -> None:
    """Sound, pictures and directions at the rates of a rig: 100, 30 and 10 a second."""
    import numpy as np

    sound = np.zeros((240, 4), np.float32)
    picture = b"\xff\xd8\xff" + os.urandom(60_000)
    began, block = time.monotonic(), 0
    while not stop.is_set():
        publisher.publish("foa24", time.monotonic_ns(), sound)
        if block % 10 == 0:
            publisher.publish("doa", time.monotonic_ns(), data={"azimuth_deg": 12.5, "active": True})
        if block % 10 in (0, 3, 6):
            publisher.publish("video", time.monotonic_ns(), picture, shape=(720, 1280, 3))
        block += 1
        time.sleep(max(0.0, began + block * 0.01 - time.monotonic()))


def _rss_mib() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / (1 << 20)


class RigProcess:
    """The rig of `serve`."""

    def __init__(self, folder: Path, encrypted: bool) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "bench.stream_security", "serve", str(folder), str(int(encrypted))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            cwd=REPOSITORY,
        )
        self.stream, self.commands, self.latest = self._read()

    def _read(self) -> Any:
        assert self._process.stdout is not None
        return json.loads(self._process.stdout.readline())

    def told(self) -> dict[str, Any]:
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        return dict(self._read())

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(20)


@contextmanager
def rig_process(folder: Path, encrypted: bool) -> Iterator[RigProcess]:
    with closing(RigProcess(folder, encrypted)) as rig:
        yield rig


# --- the parts ---


def naming(home: Household) -> None:
    """How long it takes until each side names the other's key, from the start of the client on."""
    rounds = 5 if quick() else 20
    cases: tuple[tuple[str, KeysFolder | None, tuple[str, ...]], ...] = (
        ("unlisted_key", home.stranger, ("unlisted",)),
        ("wrong_key_of_the_rig", home.lost, ("wrong_server_key",)),
        ("plaintext_client", None, ("plaintext", "incomplete")),
    )
    for name, keys, reasons in cases:
        client_s, rig_s = [], []
        for _ in range(rounds):
            # The same refusal is told once in a while only, so each round has a rig of its own.
            access = Access(home.rig, everywhere=True)
            told: list[tuple[float, str]] = []
            access.listen(_noting(told))
            where = f"tcp://{host()}:0" if keys is not None else "tcp://127.0.0.1:0"
            with Publisher(where, access=access) as publisher:
                began = time.monotonic()
                with Client(publisher.address, streams=("doa",), keys=keys.path if keys else None) as client:
                    try:
                        client.wait_connected(10)
                        client_s.append(float("nan"))
                    except AccessDenied:
                        client_s.append(time.monotonic() - began)
                    _until(_told_any(told, reasons), 10)
                rig_s.append(min((at - began for at, r in told if r in reasons), default=float("nan")))
        figure(f"{name}_named_by_client_max", max(client_s), "s", "<", 2.0)
        figure(f"{name}_named_by_rig_max", max(rig_s), "s", "<", 2.0)


def revoking(home: Household) -> None:
    """From `hearth keys revoke` to the last message and to the client's error; what others notice."""
    rounds = 3 if quick() else 10
    error_s, others_lost, after = [], 0, 0
    for _ in range(rounds):
        home.allow()
        access = Access(home.rig, everywhere=True)
        second = KeysFolder(home.rig.path.parent / "second")
        if not second.own("client"):
            second.make("second", "client")
            second.allow("rig", home.rig.rig_key().public.word)
            home.rig.allow("second", second.own("client")[0].public.word)
        with (
            Publisher(f"tcp://{host()}:0", access=access) as publisher,
            Client(publisher.address, streams=("foa24", "doa"), keys=home.tablet.path) as goes,
            Client(publisher.address, streams=("foa24", "doa"), keys=second.path) as stays,
        ):
            goes.wait_connected()
            stays.wait_connected()
            stop = threading.Event()
            thread = threading.Thread(target=_publish, args=(publisher, stop))
            thread.start()
            time.sleep(0.3)
            home.rig.revoke("tablet")
            began = time.monotonic()
            try:
                while time.monotonic() - began < 10:
                    goes.receive(5)
                error_s.append(float("nan"))
            except AccessDenied:
                error_s.append(time.monotonic() - began)
            got = goes.statistics()["foa24"]["received"]
            time.sleep(0.5)
            after += goes.statistics()["foa24"]["received"] - got
            stop.set()
            thread.join()
            counts = stays.statistics()
            others_lost += sum(counts[name]["lost"] + counts[name]["restarted"] for name in counts)
    home.allow()
    figure("revoked_client_is_cut_max", max(error_s), "s", "<", 2.0)
    figure("messages_to_a_revoked_client", after, "messages", "==", 0)
    figure("losses_of_the_others_at_a_revocation", others_lost, "messages", "==", 0)


def hostile_rig_side(home: Household) -> None:
    """Mutated commands, subscriptions and handshakes against a rig; a good client is there all the time."""
    many = 20_000 if quick() else 100_000
    with rig_process(home.rig.path, encrypted=False) as rig:
        with (
            Client(rig.stream, rig.commands, ("foa24", "doa"), max_queued=100) as good,
            zmq.Context() as context,
        ):
            good.wait_connected(20)
            with context.socket(zmq.DEALER) as socket:
                socket.setsockopt(zmq.LINGER, 0)
                socket.connect(rig.commands)
                hostile.flood_commands(socket, 2000, seed=1)  # warm: allocators have their arenas
            port = int(rig.stream.rsplit(":", 1)[1])
            stop, waits = threading.Event(), []

            def ask() -> None:
                while not stop.wait(0.05):
                    began = time.monotonic()
                    good.command("ops", timeout_s=20)
                    waits.append(time.monotonic() - began)

            thread = threading.Thread(target=ask)
            thread.start()
            before, began = rig.told(), time.monotonic()
            with context.socket(zmq.DEALER) as socket:
                socket.setsockopt(zmq.LINGER, 0)
                socket.connect(rig.commands)
                hostile.flood_commands(socket, many, seed=2)
                _drained(rig)
            took = time.monotonic() - began
            with closing(hostile.RawPeer(port, b"SUB")) as raw:
                hostile.flood_subscriptions(raw, many // 2, seed=3)
            hostile.flood_handshakes(port, many // 50, seed=4)
            stop.set()
            thread.join()
            time.sleep(0.5)
            told, counts = rig.told(), good.statistics()
            good_still = bool(good.command("ops", timeout_s=20)) and rig.alive
        handled = told["received"] - before["received"]
        note(f"rig: {told['rejected']}, served {told['served']}, cut {told['access']['cut']}, {took:.0f} s")
        figure("hostile_messages_to_a_rig", many + many // 2 + many // 50, "messages", ">=", many)
        figure("commands_read_one_by_one", handled, "commands", ">=", many)
        figure("rig_lives_after_them", float(good_still), "", "==", 1)
        figure("rig_memory_growth", told["rss_mib"] - before["rss_mib"], "MiB", "<=", 16)
        lost = sum(row["lost"] + row["reordered"] + row["repeated"] for row in counts.values())
        figure("losses_of_a_good_subscriber_meanwhile", lost, "messages", "==", 0)
        figure("answer_to_a_good_client_meanwhile_p99", 1e3 * _p(waits, 99), "ms", "<=", 500)


def hostile_client_side() -> None:
    """Mutated messages of a rig against a client."""
    many = 20_000 if quick() else 100_000
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    socket = context.socket(zmq.XPUB)
    socket.setsockopt(zmq.SNDHWM, 0)
    socket.setsockopt(zmq.LINGER, 0)
    port = socket.bind_to_random_port("tcp://127.0.0.1")
    try:
        with Client(f"tcp://127.0.0.1:{port}", streams=None, max_queued=2000) as client:
            wanted = {b"\1" + hostile.topic(name) for name in ("foa24", "doa", "event", "beat")}
            while wanted:
                wanted.discard(socket.recv())
            hostile.flood_client(socket.send_multipart, 5000, seed=5)
            time.sleep(1)
            before = _rss_mib()
            for start in range(0, many, 5000):
                hostile.flood_client(socket.send_multipart, 5000, seed=6 + start)
                time.sleep(0.2)
            _settled(lambda: sum(client.rejected.values()))
            counted = sum(client.rejected.values())
            passed = sum(row["received"] + row["repeated"] for row in client.statistics().values())
            note(f"client side: {client.rejected}, {passed} passed as messages")
            figure("hostile_messages_to_a_client", many, "messages", ">=", many)
            figure("of_them_counted_as_rejected", counted, "messages", ">=", 0.3 * many)
            figure("client_memory_growth", _rss_mib() - before, "MiB", "<=", 24)
            figure("client_lives_after_them", float(client._thread.is_alive()), "", "==", 1)
    finally:
        context.destroy(linger=0)


_LIVE_RIG = """hearth_rig: 1
microphone: {source: virtual}
camera: {source: virtual, width_px: 320, height_px: 180}
room: {devices: [{id: fan_1, type: fan, name: fan, position_m: [0.6, 1.5, 1.0]}]}
virtual: {scene: talk}
storage: {folder: data, min_free_mib: 0}
endpoints: {stream: "tcp://127.0.0.1:0", commands: "tcp://127.0.0.1:0"}
"""


def hostile_to_capture(folder: Path) -> None:
    """`hearth live --record` in real time, under floods of all kinds at once: what it recorded."""
    seconds = 10 if quick() else 30
    (folder / "live.yaml").write_text(_LIVE_RIG)
    command = ["live", "--rig", "live.yaml", "--record", "--no-console", "--seconds", str(seconds), "--json"]
    process = subprocess.Popen(
        [sys.executable, "-m", "hearth", *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
    )
    assert process.stderr is not None
    stream = commands = ""
    for line in process.stderr:
        if "commands tcp://" in line:
            words = line.split()
            stream, commands = words[words.index("stream") + 1], words[words.index("commands") + 1]
            break
    threading.Thread(target=process.stderr.read, daemon=True).start()
    with Client(stream, commands, ("doa",)) as client:
        client.wait_connected(60)
        client.receive(60)  # sound is on its way
    until = time.monotonic() + 0.6 * seconds
    port, sent = int(stream.rsplit(":", 1)[1]), 0
    with zmq.Context() as context, context.socket(zmq.DEALER) as socket:
        socket.setsockopt(zmq.LINGER, 0)
        socket.connect(commands)
        with closing(hostile.RawPeer(port, b"SUB")) as raw:
            while time.monotonic() < until:
                hostile.flood_commands(socket, 200, seed=sent)
                hostile.flood_subscriptions(raw, 200, seed=sent)
                hostile.flood_handshakes(port, 20, seed=sent)
                sent += 420
    out, _ = process.communicate(timeout=120)
    report = json.loads(out)["service"] if process.returncode in (0, 1) else {}
    recorded = report.get("recording", {})
    note(f"capture: {sent} hostile messages in {0.6 * seconds:.0f} s; {report.get('commands_rejected')}")
    figure("live_service_under_attack_exit_code", process.returncode, "", "==", 0)
    figure("its_blocks_dropped", report.get("blocks_dropped", float("nan")), "blocks", "==", 0)
    figure("its_recording_lost_frames", recorded.get("lost_frames", float("nan")), "frames", "==", 0)
    figure(
        "its_recording_dropped_pictures", recorded.get("dropped_pictures", float("nan")), "pictures", "==", 0
    )


def cost(home: Household) -> None:
    """CPU of the rig's process and age at a subscriber, encrypted and not: same host, same messages."""
    seconds = 4 if quick() else 15
    found: dict[bool, list[tuple[float, float, float, float]]] = {}
    for encrypted in (False, True) * 3:
        with rig_process(home.rig.path, encrypted) as rig:
            keys = home.tablet.path if encrypted else None
            with Client(rig.stream, streams=("foa24", "doa", "video"), keys=keys) as client:
                client.wait_connected(20)
                time.sleep(0.5)
                cpu_s, began, own_s = rig.told()["cpu_s"], time.monotonic(), time.process_time()
                ages: list[float] = []
                while time.monotonic() - began < seconds:
                    message = client.receive(5)
                    if message.stream == "foa24":
                        ages.append(message.age_ms)
                passed = time.monotonic() - began
                rig_percent = 100 * (rig.told()["cpu_s"] - cpu_s) / passed
                own_percent = 100 * (time.process_time() - own_s) / passed
        row = found.setdefault(encrypted, [])
        row.append((rig_percent, own_percent, _p(ages, 50), _p(ages, 99)))
    # Other programs of this machine only ever add to an age: the best round is the one that tells.
    plain, curve = (
        [statistics.mean(column) for column in columns[:2]] + [min(column) for column in columns[2:]]
        for columns in (list(zip(*found[encrypted], strict=True)) for encrypted in (False, True))
    )
    peer("plaintext_rig_cpu", plain[0], "% of one core")
    figure("curve_rig_cpu", curve[0], "% of one core", "<=", plain[0] + 10)
    peer("plaintext_subscriber_cpu", plain[1], "% of one core")
    figure("curve_subscriber_cpu", curve[1], "% of one core", "<=", plain[1] + 10)
    peer("plaintext_age_p50", plain[2], "ms")
    figure("curve_age_p50", curve[2], "ms", "<=", plain[2] + 2)
    peer("plaintext_age_p99", plain[3], "ms")
    figure("curve_age_p99", curve[3], "ms", "<=", plain[3] + 10)


def _noting(told: list[tuple[float, str]]) -> Callable[[str, dict[str, Any]], None]:
    return lambda kind, fields: told.append((time.monotonic(), fields["reason"]))


def _told_any(told: list[tuple[float, str]], reasons: tuple[str, ...]) -> Callable[[], bool]:
    return lambda: any(reason in reasons for _, reason in told)


def _until(true: Callable[[], bool], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not true() and time.monotonic() < deadline:
        time.sleep(0.005)


def _settled(value: Callable[[], int]) -> None:
    """Wait until it grows no more."""
    last = -1
    while value() != last:
        last = value()
        time.sleep(0.5)


def _drained(rig: RigProcess) -> None:
    """Wait until the rig has read all commands: it reads 2000 a second."""

    def handled() -> int:
        told = rig.told()
        return int(told["received"])

    last, same = -1, 0
    while same < 3:
        now = handled()
        same = same + 1 if now - last < 100 else 0  # a good client asks 20 times a second
        last = now
        time.sleep(0.5)


def _p(values: list[float], percent: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))] if ordered else float("nan")


def run(short: bool) -> None:
    """All parts; `short` is what QUICK=1 says."""
    logging.getLogger("edge.stream").setLevel(logging.ERROR)  # here everybody is refused on purpose
    with tempfile.TemporaryDirectory() as folder:
        home = Household(Path(folder))
        note(f"address: {host()}; ZeroMQ {zmq.zmq_version()}")
        naming(home)
        revoking(home)
        hostile_rig_side(home)
        hostile_client_side()
        hostile_to_capture(Path(folder))
        cost(home)


def main() -> int:
    if sys.argv[1:2] == ["serve"]:
        serve(*sys.argv[2:4])
        return 0
    run(quick())
    return end_of_part(NAME)


if __name__ == "__main__":
    sys.exit(main())
