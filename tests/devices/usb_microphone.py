"""A USB microphone in software, driven by the kernel's snd-usb-audio. A program: see `main`.

Audio class 1, isochronous, 24 bits in three bytes. What it "hears" is `sound`, from the start of each stream.
"""

from __future__ import annotations

import struct
import sys
import threading
import time

import numpy as np
from numpy.typing import NDArray
from usb_plug import FULL_SPEED, UsbDevice, configuration, descriptor, device_descriptor

RATE = 48000
SECONDS = 10


def sound(channels: int) -> NDArray[np.int32]:
    """Ten seconds of full 24-bit noise, as int32 with a low byte of zero: (frames, channels). It repeats."""
    random = np.random.default_rng(24)
    return (random.integers(-(2**23), 2**23, (RATE * SECONDS, channels), dtype=np.int32) << 8).astype(
        np.int32
    )


class UsbMicrophone(UsbDevice):
    """The descriptors are ours: those of a real H3-VR are not known to us, only its name and its modes."""

    speed = FULL_SPEED

    def __init__(self, channels: int, name: str) -> None:
        super().__init__()
        self.strings = ("Hearth", name, "MIC1")
        self._channels = channels
        packed = sound(channels).astype("<i4").view(np.uint8).reshape(-1, 4)[:, 1:]
        self._bytes = packed.tobytes() * 2
        self._begun: float | None = None
        self._sent_ms = 0
        self.faster_ppm = 0
        threading.Thread(target=self._run, daemon=True).start()

    def device_descriptor(self) -> bytes:
        return device_descriptor(0x1D6B, 0x0101)

    def configuration(self) -> bytes:
        n = self._channels
        terminals = descriptor(0x24, 2, 1, struct.pack("<H", 0x0201), 0, n, bytes(2), 0, 0)
        terminals += descriptor(0x24, 3, 2, struct.pack("<H", 0x0101), 0, 1, 0)
        total = struct.pack("<HH", 0x0100, 9 + len(terminals))
        control = descriptor(4, 0, 0, 0, 1, 1, 0, 0) + descriptor(0x24, 1, total, 1, 1)
        streaming = (
            descriptor(4, 1, 0, 0, 1, 2, 0, 0)
            + descriptor(4, 1, 1, 1, 1, 2, 0, 0)
            + descriptor(0x24, 1, 2, 1, struct.pack("<H", 1))
            + descriptor(0x24, 2, 1, n, 3, 24, 1, struct.pack("<I", RATE)[:3])
            + descriptor(5, 0x81, 0x05, struct.pack("<HB", 3 * n * 49, 1), 0, 0)
            + descriptor(0x25, 1, 0, 0, bytes(2))
        )
        return configuration(2, control, terminals, streaming)

    def class_request(
        self, kind: int, request: int, value: int, index: int, data: bytes, length: int
    ) -> bytes | None:
        return None  # it has one rate and no volume

    def interface_set(self, interface: int, alternate: int) -> None:
        if interface == 1:
            self._begun, self._sent_ms = (time.monotonic() if alternate else None), 0

    def _run(self) -> None:
        step = 3 * self._channels * RATE // 1000  # a packet per millisecond
        whole = len(self._bytes) // 2
        while True:
            transfer = self.take(0.5)
            if transfer is None:
                continue
            begun = self._begun if self._begun is not None else time.monotonic()
            count = len(transfer.table) // 16
            due = begun + (self._sent_ms + count) / 1000 / (1 + self.faster_ppm * 1e-6)
            time.sleep(max(0.0, due - time.monotonic()))
            at = self._sent_ms * step % whole
            self._sent_ms += count
            self.answer(transfer, self._bytes[at : at + count * step], [step] * count)


def main() -> None:
    """usb_microphone.py CHANNELS NAME: plugged in at once; then a command per line: plug, unplug."""
    microphone = UsbMicrophone(int(sys.argv[1]), sys.argv[2])
    microphone.plug()
    print("plugged", flush=True)
    for line in sys.stdin:
        getattr(microphone, line.strip())()
        print("done", flush=True)


if __name__ == "__main__":
    main()
