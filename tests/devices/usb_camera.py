"""A USB camera in software (UVC 1.0, MJPEG, bulk), driven by the kernel's uvcvideo. A program: see `main`.

Every picture is another JPEG that carries its number, so whoever receives it can say which one it is and
whether a byte has changed. A line per picture with its number and the time it left goes to the log.
"""

from __future__ import annotations

import struct
import sys
import threading
import time
from collections import deque
from pathlib import Path

from usb_plug import UsbDevice, configuration, descriptor, device_descriptor

SIZES = ((320, 180), (640, 360))
RATES = (5, 10, 15)
_PAYLOAD = 16384
_BASES = 8


def jpeg(number: int, size: tuple[int, int], bases: dict[tuple[int, int], list[bytes]] = {}) -> bytes:  # noqa: B006
    """The picture of this number: one of a few images, and the number in a comment segment."""
    if size not in bases:
        import cv2
        import numpy as np

        width, height = size
        y, x = np.mgrid[0:height, 0:width]
        images = [np.dstack([x + 31 * k, y + 17 * k, x + y]).astype(np.uint8) for k in range(_BASES)]
        bases[size] = [cv2.imencode(".jpg", image)[1].tobytes() for image in images]
    plain = bases[size][number % _BASES]
    return plain[:2] + b"\xff\xfe\x00\x06" + struct.pack(">I", number) + plain[2:]


def number_of(picture: bytes) -> int:
    """The number that `jpeg` wrote into a picture."""
    assert picture[2:6] == b"\xff\xfe\x00\x06"
    return int(struct.unpack_from(">I", picture, 6)[0])


class UsbCamera(UsbDevice):
    """frozen: it repeats a picture. cut: so many pictures lose their second half. silent: it sends none."""

    def __init__(self, log: Path) -> None:
        super().__init__()
        self.strings = ("Hearth", "Test Camera", "CAM1")
        self.frozen, self.cut, self.silent = False, 0, False
        self._log = open(log, "w", buffering=1)  # noqa: SIM115
        self._probe = self._answer_to(1, 1, 1e7 / 15)
        self._streaming = False
        self._number = self._toggle = 0
        threading.Thread(target=self._run, daemon=True).start()

    def device_descriptor(self) -> bytes:
        return device_descriptor(0x1D6B, 0x0102, device_class=(0xEF, 2, 1))

    def configuration(self) -> bytes:
        association = descriptor(11, 0, 2, 14, 3, 0, 2)
        terminals = descriptor(0x24, 2, 1, struct.pack("<H", 0x0201), 0, 0, bytes(6), 3, bytes(3))
        terminals += descriptor(0x24, 3, 2, struct.pack("<H", 0x0101), 0, 1, 0)
        total = struct.pack("<HHI", 0x0100, 13 + len(terminals), 1_000_000)
        control = descriptor(4, 0, 0, 0, 14, 1, 0, 2) + descriptor(0x24, 1, total, 1, 1) + terminals
        modes = descriptor(0x24, 6, 1, len(SIZES), 1, 1, 0, 0, 0, 0)
        intervals = [round(1e7 / rate) for rate in RATES]
        for index, (width, height) in enumerate(SIZES, 1):
            bits = (width * height * 2 * 8 * RATES[0], width * height * 2 * 8 * RATES[-1])
            modes += descriptor(
                0x24, 7, index, 0, struct.pack("<HHIII", width, height, *bits, width * height * 2),
                struct.pack("<IB", intervals[-1], len(intervals)),
                struct.pack(f"<{len(intervals)}I", *intervals),
            )  # fmt: skip
        head = descriptor(0x24, 1, 1, struct.pack("<H", 14 + len(modes)), 0x82, 0, 2, 0, 0, 0, 1, 0)
        streaming = descriptor(4, 1, 0, 1, 14, 2, 0, 0) + head + modes
        return configuration(
            2, association, control, streaming, descriptor(5, 0x82, 2, struct.pack("<HB", 512, 0))
        )

    def _answer_to(self, form: int, frame: int, interval: float) -> bytes:
        """The probe structure of UVC 1.0 (26 bytes) for what was asked."""
        frame = frame if 1 <= frame <= len(SIZES) else 1
        interval = min((round(1e7 / rate) for rate in RATES), key=lambda known: abs(known - interval))
        width, height = SIZES[frame - 1]
        return struct.pack("<HBBI5HII", 1, 1, frame, interval, 0, 0, 0, 0, 0, width * height * 2, _PAYLOAD)

    def class_request(
        self, kind: int, request: int, value: int, index: int, data: bytes, length: int
    ) -> bytes | None:
        if index & 0xFF != 1 or value >> 8 not in (1, 2):
            return None
        if request == 0x01:  # SET_CUR
            _, form, frame, interval = struct.unpack_from("<HBBI", data)
            self._probe = self._answer_to(form, frame, interval)
            if value >> 8 == 2:
                self._streaming = True
            return b""
        if request == 0x85:  # GET_LEN
            return struct.pack("<H", 26)
        if request == 0x86:  # GET_INFO
            return b"\x03"
        return self._probe

    def endpoint_cleared(self, endpoint: int) -> None:
        self._streaming = False  # how a bulk camera is told to stop

    def _run(self) -> None:
        due = time.monotonic()
        while True:
            frame, interval = struct.unpack_from("<xxxBI", self._probe)
            due = max(due + interval / 1e7, time.monotonic() - 1)
            time.sleep(max(0.0, due - time.monotonic()))
            if self._streaming and self.plugged and not self.silent:
                self._picture(SIZES[frame - 1])

    def _picture(self, size: tuple[int, int]) -> None:
        picture = jpeg(self._number, size)
        if self.cut:
            self.cut -= 1
            picture = picture[: len(picture) // 2]
        parts = deque(picture[i : i + _PAYLOAD - 2] for i in range(0, len(picture), _PAYLOAD - 2))
        left = None
        while parts:
            transfer = self.take(0.5)
            if transfer is None:
                return  # nobody asks any more
            part = parts.popleft()
            left = left or time.monotonic_ns()
            self.answer(transfer, bytes([2, 0x80 | (0 if parts else 2) | self._toggle]) + part)
        self._log.write(f"{self._number} {left}\n")
        self._toggle ^= 1
        self._number += not self.frozen


def main() -> None:
    """usb_camera.py LOG: plugged in; then a command per line: plug, unplug, frozen 0|1, silent 0|1, cut N."""
    camera = UsbCamera(Path(sys.argv[1]))
    for size in SIZES:
        jpeg(0, size)
    camera.plug()
    print("plugged", flush=True)
    for line in sys.stdin:
        command, _, value = line.strip().partition(" ")
        if value:
            setattr(camera, command, int(value))
        else:
            getattr(camera, command)()
        print("done", flush=True)


if __name__ == "__main__":
    main()
