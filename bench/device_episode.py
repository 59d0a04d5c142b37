"""Episodes with simulated sound on a simulated device's clock: clicks whose true times are known."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bench.device_clock import BLOCK, FS, Delivery, live, timeline_lines
from recordings import Episode, EpisodeWriter, Profile


def record(folder: Path, delivery: Delivery, samples: NDArray[np.int32]) -> Episode:
    """What a recorder makes of a delivery: its blocks with their live stamps."""
    profile = Profile(id="take-1", session="s1", created_utc="2026-11-30T12:00:00Z", origin="recorded")
    audio = {"rate_hz": FS, "channels": samples.shape[1], "format": "array", "bits": 24}
    writer = EpisodeWriter.create(folder, profile, audio, None)
    for line in timeline_lines(live(delivery)):
        if line["type"] == "event":
            writer.event(line["kind"], line["t_ns"], **line["data"])
        elif line["type"] == "audio":
            at = line["file_frame"]
            writer.write_audio(
                samples[at : at + BLOCK],
                line["t_ns"],
                line["seq"],
                line["first_frame"],
                line["lost"],
                tuple(line["flags"]),
                line["t_observed_ns"],
            )
    return writer.finish(report=False)


def clicks(delivery: Delivery, at_s: NDArray[np.float64], frames: int) -> NDArray[np.int32]:
    """What the device samples of short band-limited clicks at true times at_s: (frames, 1) int32."""
    times = delivery.true_ns(np.arange(frames)) * 1e-9
    out = np.zeros(frames)
    for t in at_s:
        near = slice(*np.searchsorted(times, (t - 0.005, t + 0.005)))
        tau = times[near] - t
        out[near] += np.sinc(tau * 12000) * np.exp(-((tau / 1e-3) ** 2))
    return np.asarray((np.rint(out * 2**22).astype(np.int32) << 8)[:, None])


def heard(y: NDArray[np.float32], rate: int, t0_s: float, at_s: NDArray[np.float64]) -> NDArray[np.float64]:
    """Time of the peak of each click in the exported sound, to a fraction of a frame."""
    found = []
    for t in at_s:
        centre = round((t - t0_s) * rate)
        part = y[centre - rate // 100 : centre + rate // 100]
        i = int(np.argmax(part))
        a, b, c = part[i - 1 : i + 2]
        found.append(t0_s + (centre - rate // 100 + i + 0.5 * (a - c) / (a - 2 * b + c)) / rate)
    return np.array(found)
