"""Senders and receivers of moving pictures for bench.stream, each in a process of its own.

python -m bench.stream_pictures send KIND ADDRESS [COMMANDS]   30 pictures a second until stdin ends
python -m bench.stream_pictures receive KIND ADDRESS PLAN      reads, sleeps, reads; PLAN is JSON
python -m bench.stream_pictures listen ADDRESS COMMANDS        a client that reads for ever

KIND: ours, ours+sound, imagezmq (PUB/SUB), imagezmq-reply (REQ/REP), vidgear (PUB/SUB). Every sender takes a
raw 1280x720 picture, marks it with the time, makes a JPEG of quality 90 of it and sends it; every receiver
decodes it and reads the time out of the pixels, so all ages are measured in the same way.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

FPS, WIDTH, HEIGHT, QUALITY = 30, 1280, 720, 90
MARK = 16  # px, side of one bit
SOUND_S = 0.01


def rss_mib() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / (1 << 20)


def pictures() -> list[np.ndarray]:
    """A second of a moving scene with some texture: about 170 kB each as JPEG."""
    import cv2

    rng = np.random.default_rng(1)
    wall = cv2.GaussianBlur(rng.integers(0, 256, (HEIGHT, WIDTH, 3), dtype=np.uint8), (0, 0), 1.5)
    found = []
    for n in range(FPS):
        picture = wall.copy()
        x = round(200 + 800 * n / FPS)
        cv2.rectangle(picture, (x, 300), (x + 120, 500), (40, 200, 90), -1)
        found.append(picture)
    return found


def mark(picture: np.ndarray, t_ns: int) -> np.ndarray:
    """Write 64 bits of time into the first rows, as black and white squares."""
    bits = [(t_ns >> n) & 1 for n in range(64)]
    picture[:MARK, : 64 * MARK] = np.repeat(np.array(bits, np.uint8) * 255, MARK)[None, :, None]
    return picture


def marked(picture: np.ndarray) -> int:
    """The time in a picture, as `mark` wrote it."""
    squares = picture[:MARK, : 64 * MARK].reshape(MARK, 64, MARK, 3).mean(axis=(0, 2, 3))
    return sum(1 << n for n in range(64) if squares[n] > 127)


# --- sending ---


def _sender(kind: str, address: str, commands: str | None) -> tuple[Callable[[np.ndarray, int], None], str]:
    """A function that sends one raw picture, and the addresses to tell."""
    import cv2

    quality = [cv2.IMWRITE_JPEG_QUALITY, QUALITY]
    if kind.startswith("ours"):
        from edge.stream import CommandServer, Publisher

        publisher = Publisher(address)
        server = CommandServer(commands or "tcp://127.0.0.1:0")

        def tell(what: str, fields: dict[str, Any]) -> None:
            publisher.publish("event", time.monotonic_ns(), data={"kind": what, **fields})

        server.clients.listen(tell)

        def send(picture: np.ndarray, t_ns: int) -> None:
            jpeg = cv2.imencode(".jpg", picture, quality)[1].tobytes()
            publisher.publish("video", t_ns, jpeg, shape=picture.shape)

        if kind == "ours+sound":
            threading.Thread(target=_sound, args=(publisher,), daemon=True).start()
        return send, f"{publisher.address} {server.address}"
    if kind.startswith("imagezmq"):
        import imagezmq

        sender = imagezmq.ImageSender(connect_to=address, REQ_REP=kind == "imagezmq-reply")

        def send(picture: np.ndarray, t_ns: int) -> None:
            sender.send_jpg("rig", cv2.imencode(".jpg", picture, quality)[1])

        return send, address
    gear = _netgear(address, receive=False)
    return lambda picture, t_ns: gear.send(picture), address


def _sound(publisher: Any) -> None:
    """foa24 as a live rig sends it: 100 blocks a second."""
    block = np.random.default_rng(2).uniform(-1, 1, (240, 4)).astype(np.float32)
    due = time.monotonic()
    while True:
        publisher.publish("foa24", time.monotonic_ns(), block, duration_ns=10_000_000)
        due += SOUND_S
        time.sleep(max(0.0, due - time.monotonic()))


def _netgear(address: str, receive: bool) -> Any:
    from vidgear.gears import NetGear

    host, port = address.removeprefix("tcp://").split(":")
    options = {"jpeg_compression": True, "jpeg_compression_quality": QUALITY}
    return NetGear(address=host, port=port, protocol="tcp", pattern=2, receive_mode=receive, **options)


def send(kind: str, address: str, commands: str | None = None) -> None:
    frames = pictures()
    send_one, where = _sender(kind, address, commands)
    print(f"ready {where}", flush=True)
    began, cpu, sent, memory = time.monotonic(), time.process_time(), [0], [rss_mib()]

    def end() -> None:
        """In a thread of its own: a peer's sender may wait for ever for an answer."""
        sys.stdin.read()
        spent = time.process_time() - cpu
        growth = max(memory[1:], default=0.0) - memory[min(1, len(memory) - 1)]
        each = 1e3 * spent / max(sent[0], 1)
        percent = 100 * spent / (time.monotonic() - began)
        result = {"cpu_ms": each, "cpu_percent": percent, "rss_growth_mib": growth}
        print(json.dumps(result), flush=True)
        os._exit(0)

    threading.Thread(target=end, daemon=True).start()
    due = began
    while True:
        t_ns = time.monotonic_ns()
        send_one(mark(frames[sent[0] % FPS], t_ns), t_ns)
        sent[0] += 1
        if sent[0] % FPS == 0:
            memory.append(rss_mib())
        due = max(due + 1 / FPS, time.monotonic() - 1)  # after a stop it does not catch up for ever
        time.sleep(max(0.0, due - time.monotonic()))


# --- receiving ---


def _receiver(kind: str, address: str) -> tuple[Iterator[np.ndarray], Callable[[], dict[str, Any]]]:
    """Decoded pictures as they come, and what is known of the losses."""
    if kind.startswith("ours"):
        from edge.stream import Client

        stream, commands = address.split()
        names = ["video", "foa24"] if kind == "ours+sound" else ["video"]
        client = Client(stream, commands, streams=names)
        client.wait_connected(20)
        seen: dict[str, list[int]] = {name: [] for name in names}

        def ours() -> Iterator[np.ndarray]:
            for message in client.messages(5):
                seen[message.stream].append(message.seq)
                if message.stream == "video":
                    yield message.image()

        def counts() -> dict[str, Any]:
            told = client.statistics()
            return {
                name: {**told[name], "read": len(seen[name]), "span": seen[name][-1] - seen[name][0] + 1}
                for name in names
            }

        return ours(), counts
    if kind.startswith("imagezmq"):
        import cv2
        import imagezmq

        reply = kind == "imagezmq-reply"
        hub = imagezmq.ImageHub(open_port=address, REQ_REP=reply)

        def theirs() -> Iterator[np.ndarray]:
            while True:
                _, jpeg = hub.recv_jpg()
                if reply:
                    hub.send_reply(b"OK")
                yield cv2.imdecode(np.frombuffer(jpeg, np.uint8), cv2.IMREAD_COLOR)

        return theirs(), dict
    gear = _netgear(address, receive=True)

    def geared() -> Iterator[np.ndarray]:
        while (picture := gear.recv()) is not None:
            yield picture

    return geared(), dict


def receive(kind: str, address: str, plan: dict[str, float]) -> None:
    """Read for `awake_s`, sleep for `sleep_s`, read for `after_s`; prints what was measured as JSON."""
    stream, counts = _receiver(kind, address)
    print("ready", flush=True)
    result: dict[str, Any] = {}
    next(stream)
    for _ in range(FPS // 2):  # connections and caches settle
        next(stream)
    cpu, began = time.process_time(), time.monotonic()
    result["awake_age_ms"] = _ages(stream, plan["awake_s"])
    spent = time.process_time() - cpu
    result["cpu_ms"] = 1e3 * spent / max(len(result["awake_age_ms"]), 1)
    result["cpu_percent"] = 100 * spent / (time.monotonic() - began)
    before = rss_mib()
    if plan["sleep_s"]:
        time.sleep(plan["sleep_s"])
        result["rss_growth_mib"] = rss_mib() - before
    result["after_age_ms"] = _ages(stream, plan["after_s"])
    result["counts"] = counts()
    print(json.dumps(result), flush=True)
    os._exit(0)


def _ages(stream: Iterator[np.ndarray], seconds: float) -> list[float]:
    ages = []
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        picture = next(stream)
        ages.append((time.monotonic_ns() - marked(picture)) / 1e6)
    return ages


def listen(address: str, commands: str) -> None:
    from edge.stream import Client

    with Client(address, commands, streams=["foa24"], name="listener") as client:
        client.wait_connected(20)
        print("ready", flush=True)
        while True:
            for _ in client.messages():
                pass


def main() -> None:
    role, *rest = sys.argv[1:]
    peers = os.environ.get("HEARTH_STREAM_PEERS")
    if peers:
        sys.path.append(peers)  # behind our own packages: the peers bring some of the same
    if role == "send":
        send(*rest)
    elif role == "receive":
        receive(rest[0], rest[1], json.loads(rest[2]))
    else:
        listen(*rest)


if __name__ == "__main__":
    main()
