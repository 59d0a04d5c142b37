"""A subscriber that measures: what arrived of each stream, what did not, and how old it was.

`python -m edge.stream.meter ADDRESS` prints `ready` when nothing can be missed any more, then measures until
the publisher ends (or is silent), and prints one JSON object. `hearth live --stats` runs it in a process of
its own, so that the figures are those of a real subscriber.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import numpy as np

from edge.stream.client import Client
from edge.stream.messages import MESSAGES, STREAMS
from edge.stream.received import Message, StreamLost, StreamTimeout

MAX_SILENCE_S = 5.0


class Measured:
    """Ages of the messages of one stream, in ms since the end of what each covers."""

    def __init__(self) -> None:
        self.age_ms: list[float] = []
        self.window_ms = 0.0

    def add(self, message: Message) -> None:
        self.age_ms.append(message.age_ms)
        self.window_ms = max(self.window_ms, message.header.duration_ns / 1e6)

    def to_dict(self) -> dict[str, Any]:
        """p50, p99 and max of the age; with the window, since the window's first sample too."""
        if not self.age_ms:
            return {"age_p50_ms": None, "age_p99_ms": None, "age_max_ms": None, "window_ms": None}
        p50, p99 = np.percentile(self.age_ms, [50, 99])
        return {
            "age_p50_ms": round(float(p50), 2),
            "age_p99_ms": round(float(p99), 2),
            "age_max_ms": round(max(self.age_ms), 2),
            "window_ms": round(self.window_ms, 3),
        }


def measure(client: Client, streams: tuple[str, ...] = STREAMS) -> dict[str, Any]:
    """Read until the publisher ends; per stream: counts (see StreamCount) and ages.

    `in_order` is the verdict: nothing lost, reordered or repeated of any stream whose messages all count.
    """
    measured = {name: Measured() for name in streams}
    ended = ""
    while not ended:
        try:
            for message in client.messages(timeout_s=MAX_SILENCE_S):
                if not message.retained:
                    measured[message.stream].add(message)
            ended = "publisher ended"
        except StreamLost:
            continue  # perhaps only held up: it has MAX_SILENCE_S more
        except StreamTimeout as error:
            # With its heartbeat there, a silent publisher is busy with something else: finishing an episode.
            ended = "" if client.connected else str(error)
        except KeyboardInterrupt:
            ended = "interrupted"
    counts = client.statistics()
    table = {name: {**counts[name], **measured[name].to_dict()} for name in streams}
    whole = all(
        row["lost"] == row["reordered"] == row["repeated"] == row["overflowed"] == 0
        for name, row in table.items()
        if MESSAGES[name].delivery != "latest"
    )
    doa = table.get("doa", {})
    summary = {
        "in_order": whole and ended == "publisher ended",
        "ended": ended,
        "rejected": dict(client.rejected),
        "streams": table,
    }
    if doa.get("age_p50_ms") is not None:
        summary["doa_latency"] = {
            "window_ms": doa["window_ms"],
            "since_window_end_p50_ms": doa["age_p50_ms"],
            "since_window_end_p99_ms": doa["age_p99_ms"],
            "since_first_sample_p50_ms": round(doa["age_p50_ms"] + doa["window_ms"], 2),
            "since_first_sample_p99_ms": round(doa["age_p99_ms"] + doa["window_ms"], 2),
        }
    return summary


def main(address: str) -> None:
    with Client(address) as client:
        client.wait_connected(30)
        print("ready", flush=True)
        print(json.dumps(measure(client)), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
