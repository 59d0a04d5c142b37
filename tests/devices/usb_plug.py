"""A USB device in software, plugged into the kernel's own USB stack by USB/IP (the driver vhci-hcd).

The kernel speaks USB/IP over a socket; at the other end is this process instead of a remote machine, so the
kernel's own class drivers (uvcvideo, snd-usb-audio) bind to it, and closing the socket is pulling the plug.
The messages are those of the kernel's Documentation/usb/usbip_protocol.rst; the requests those of USB 2.0,
chapter 9.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cache
from pathlib import Path

_HEADER = struct.Struct(">5I28s")
_SUBMIT, _UNLINK, _RET_SUBMIT, _RET_UNLINK = 1, 2, 3, 4
_STALL, _RESET = -32, -104  # EPIPE, ECONNRESET
FULL_SPEED, HIGH_SPEED = 2, 3
_VHCI = Path("/sys/devices/platform/vhci_hcd.0")


@dataclass
class Transfer:
    """A request of the host that is not answered yet."""

    number: int
    endpoint: int
    length: int
    table: bytes  # of an isochronous one: 16 bytes for each packet, its room at 4


class UsbDevice(ABC):
    """What every device answers by itself; a subclass has descriptors, class requests and data."""

    speed = HIGH_SPEED
    strings = ("Hearth", "test device", "1")

    def __init__(self) -> None:
        self._socket: socket.socket | None = None
        self._sending = threading.Lock()
        self._lock = threading.Condition()
        self._waiting: dict[int, Transfer] = {}
        self._taken: set[int] = set()  # no longer waiting, not yet answered

    @abstractmethod
    def device_descriptor(self) -> bytes: ...

    @abstractmethod
    def configuration(self) -> bytes: ...

    @abstractmethod
    def class_request(
        self, kind: int, request: int, value: int, index: int, data: bytes, length: int
    ) -> bytes | None:
        """The answer (b"" for one without data); None refuses."""

    def interface_set(self, interface: int, alternate: int) -> None:  # noqa: B027
        """The host chose an alternate setting."""

    def endpoint_cleared(self, endpoint: int) -> None:  # noqa: B027
        """The host reset an endpoint."""

    # ------------------------------------------------------------------ the plug

    def plug(self) -> None:
        """Put it into a free port of its speed."""
        status = (_VHCI / "status").read_text().split("\n")[1:]
        ports = [line.split() for line in status if line.startswith("hs")]
        port = next(int(line[1]) for line in ports if line[2] == "004")
        ours, kernels = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        (_VHCI / "attach").write_text(f"{port} {kernels.fileno()} {1 << 16 | 2} {self.speed}")
        kernels.close()
        self._socket = ours
        with self._lock:
            self._waiting.clear()
            self._taken.clear()
        threading.Thread(target=self._serve, args=(ours,), daemon=True).start()

    def unplug(self) -> None:
        """Pull it out, whatever is going on."""
        pulled, self._socket = self._socket, None
        if pulled is not None:
            pulled.shutdown(socket.SHUT_RDWR)
            pulled.close()

    @property
    def plugged(self) -> bool:
        return self._socket is not None

    # ------------------------------------------------------------------ messages

    def _serve(self, wire: socket.socket) -> None:
        try:
            while True:
                command, number, _, inwards, endpoint, rest = _HEADER.unpack(_exactly(wire, _HEADER.size))
                if command == _UNLINK:
                    self._unlink(wire, number, struct.unpack_from(">I", rest)[0])
                    continue
                _, length, _, count, _ = struct.unpack_from(">5i", rest)
                data = b"" if inwards else _exactly(wire, length)
                table = _exactly(wire, 16 * count) if count > 0 else b""
                if endpoint == 0:
                    answer = self._control(rest[20:28], data)
                    self._reply(wire, number, b"" if answer is None else answer[:length] if inwards else b"",
                                _STALL if answer is None else 0, 0 if inwards else length)  # fmt: skip
                else:
                    with self._lock:
                        self._waiting[number] = Transfer(number, endpoint, length, table)
                        self._lock.notify_all()
        except (OSError, EOFError):
            return

    def _unlink(self, wire: socket.socket, number: int, which: int) -> None:
        """The host takes a request back: it must not be answered after this."""
        with self._lock:
            open_still = self._waiting.pop(which, None) is not None or which in self._taken
            self._taken.discard(which)
            self._send(
                wire, struct.pack(">5Ii24x", _RET_UNLINK, number, 0, 0, 0, _RESET if open_still else 0)
            )

    def _control(self, setup: bytes, data: bytes) -> bytes | None:
        kind, request, value, index, length = struct.unpack("<BBHHH", setup)
        if kind & 0x60:
            return self.class_request(kind, request, value, index, data, length)
        if request == 6:  # GET_DESCRIPTOR
            what, number = value >> 8, value & 0xFF
            if what == 1:
                return self.device_descriptor()
            if what == 2:
                return self.configuration()
            if what == 3:
                return (
                    b"\x04\x03\x09\x04"
                    if number == 0
                    else descriptor(3, self.strings[number - 1].encode("utf-16-le"))
                )
            return None
        if request == 11:  # SET_INTERFACE
            self.interface_set(index, value)
        elif request == 1:  # CLEAR_FEATURE
            self.endpoint_cleared(index)
        return b"\0\0"[:length] if kind & 0x80 else b""

    def take(self, timeout: float) -> Transfer | None:
        """The oldest request for data; it must then be answered by `answer`."""
        with self._lock:
            self._lock.wait_for(lambda: bool(self._waiting), timeout)
            if not self._waiting:
                return None
            transfer = self._waiting.pop(min(self._waiting))
            self._taken.add(transfer.number)
            return transfer

    def answer(self, transfer: Transfer, data: bytes, lengths: list[int] | None = None) -> None:
        """Data for the host, unless it took the request back. lengths: of an isochronous one's packets."""
        table = _filled(transfer.table, tuple(lengths)) if lengths else b""
        with self._lock:
            if self._socket is None or transfer.number not in self._taken:
                return
            self._taken.remove(transfer.number)
            with contextlib.suppress(OSError):  # pulled meanwhile
                self._reply(self._socket, transfer.number, data, 0, 0, table)

    def _reply(
        self, wire: socket.socket, number: int, data: bytes, status: int, sent: int, table: bytes = b""
    ) -> None:
        head = struct.pack(
            ">5I5i8x", _RET_SUBMIT, number, 0, 0, 0, status, len(data) or sent, 0, len(table) // 16, 0
        )
        self._send(wire, head + data + table)

    def _send(self, wire: socket.socket, message: bytes) -> None:
        with self._sending:
            wire.sendall(message)


@cache  # the same few tables come again and again, and an emulated machine is slow
def _filled(table: bytes, lengths: tuple[int, ...]) -> bytes:
    """The table of packets with what each of them carries."""
    filled = bytearray(table)
    for i, length in enumerate(lengths):
        struct.pack_into(">2I", filled, 16 * i + 8, length, 0)
    return bytes(filled)


def descriptor(kind: int, *parts: bytes | int) -> bytes:
    """A descriptor with its length in front."""
    body = b"".join(bytes([part]) if isinstance(part, int) else part for part in parts)
    return bytes([len(body) + 2, kind]) + body


def device_descriptor(vendor: int, product: int, *, device_class: tuple[int, int, int] = (0, 0, 0)) -> bytes:
    """USB 2.0, three strings, one configuration."""
    ids = struct.pack("<HHH", vendor, product, 0x0100)
    return descriptor(1, struct.pack("<H", 0x0200), *device_class, 64, ids, 1, 2, 3, 1)


def configuration(interfaces: int, *descriptors: bytes) -> bytes:
    """A configuration with its descriptors behind it."""
    body = b"".join(descriptors)
    return descriptor(2, struct.pack("<H", len(body) + 9), interfaces, 1, 0, 0x80, 50) + body


def _exactly(wire: socket.socket, size: int) -> bytes:
    parts = []
    while size:
        part = wire.recv(min(size, 1 << 16))
        if not part:
            raise EOFError
        parts.append(part)
        size -= len(part)
    return b"".join(parts)
