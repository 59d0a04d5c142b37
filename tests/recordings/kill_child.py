"""Started by test_kill.py: records noise and pictures in real time until it is killed.

python kill_child.py <root> <episode id> <segment MiB> [jpeg]    says when the first block is written
"""

from __future__ import annotations

import sys
import time

import numpy as np

from recordings import EpisodeWriter, Profile

RATE, BLOCK, FPS = 48000, 480, 30


def main() -> None:
    root, name, segment_mib = sys.argv[1], sys.argv[2], int(sys.argv[3])
    rng = np.random.default_rng(1)
    noise = rng.integers(-(1 << 20), 1 << 20, (RATE, 4), np.int32) << 8
    pictures = [rng.integers(0, 255, (36, 64, 3), np.uint8).repeat(10, 0).repeat(10, 1) for _ in range(8)]
    jpegs: list[bytes] = []  # given "jpeg": as a camera with MJPEG delivers them
    if sys.argv[4:] == ["jpeg"]:
        import cv2

        jpegs = [cv2.imencode(".jpg", image)[1].tobytes() for image in pictures]
    profile = Profile(id=name, session="kill", created_utc="2026-01-01T00:00:00Z", origin="recorded")
    audio = {"rate_hz": RATE, "channels": 4, "format": "ambix", "bits": 24}
    video = {"width_px": 640, "height_px": 360, "fps": FPS}
    writer = EpisodeWriter.create(root, profile, audio, video, segment_mib=segment_mib)
    start = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
    block = picture = 0
    told = False
    while True:
        now = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        while start + (block + 1) * BLOCK * 10**9 // RATE <= now:
            first = block * BLOCK
            at = first % RATE
            writer.write_audio(
                noise[at : at + BLOCK], start + first * 10**9 // RATE, block, first, t_observed_ns=now
            )
            block += 1
        while start + picture * 10**9 // FPS <= now:
            t_ns = start + picture * 10**9 // FPS
            if jpegs:
                writer.write_frame(None, t_ns, picture, jpeg=jpegs[picture % 8], size=(640, 360))
            else:
                writer.write_frame(pictures[picture % 8], t_ns, picture)
            picture += 1
        if block and not told:
            told = True
            print("started", flush=True)
        time.sleep(0.002)


if __name__ == "__main__":
    main()
