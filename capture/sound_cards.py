"""ALSA's sound cards as the kernel shows them in /proc/asound: also those that PortAudio may not open.

Formats of these files: Linux kernel, Documentation/sound/designs/procfile.rst, and sound/usb/proc.c for
`stream0` of USB devices.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from capture.portaudio_devices import plain_name

_PROC, _DEV, _USB = Path("/proc/asound"), Path("/dev/snd"), Path("/sys/bus/usb/devices")
_ZOOM_VENDOR = "1686"  # USB vendor id of Zoom Corporation; a recorder has another product id in each mode


@dataclass(frozen=True, slots=True)
class CardInput:
    """One capture device of a sound card.

    channels, rates_hz, formats: what the device itself offers, for USB devices; empty where the kernel does
    not say. may_open: this user has the right to. holder: `name (pid)` of who has it open, else None.
    """

    card: int
    device: int
    card_id: str
    card_name: str
    long_name: str
    pcm_name: str
    usb_id: str | None
    channels: tuple[int, ...]
    rates_hz: tuple[int, ...]
    formats: tuple[str, ...]
    may_open: bool
    holder: str | None

    @property
    def path(self) -> str:
        """The device file."""
        return f"{_DEV}/pcmC{self.card}D{self.device}c"

    @property
    def address(self) -> str:
        """As PortAudio writes it behind a name."""
        return f"(hw:{self.card},{self.device})"

    @property
    def portaudio_name(self) -> str:
        """The name under which PortAudio lists it, when it may open it."""
        return f"{self.card_name}: {self.pcm_name.removeprefix(self.card_name).strip()} {self.address}"

    @property
    def names(self) -> tuple[str, ...]:
        """By which somebody may call it."""
        return self.portaudio_name, self.card_name, self.long_name

    def offers(self) -> str:
        """Channels, rates and formats in words; empty when unknown."""
        parts = []
        if self.channels:
            parts.append(f"{' or '.join(map(str, self.channels))} channels")
        if self.rates_hz:
            parts.append(f"{', '.join(map(str, self.rates_hz))} Hz")
        return ", ".join([*parts, *self.formats])


def card_inputs(proc: Path = _PROC, dev: Path = _DEV) -> list[CardInput]:
    """Every capture device that the kernel knows; empty without ALSA."""
    found = []
    names = dict(re.findall(r"^ *(\d+) \[[^\]]*\]: (.*)\n", _read(proc / "cards"), re.M))
    long_names = dict(re.findall(r"^ *(\d+) \[.*\n +(.*)", _read(proc / "cards"), re.M))
    for folder in sorted(proc.glob("card[0-9]*"), key=lambda p: int(p.name[4:])):
        number = int(folder.name[4:])
        stream = _read(folder / "stream0").partition("\nCapture:")[2]
        kind = names.get(str(number), "").partition(" - ")
        for pcm in sorted(folder.glob("pcm*c")):
            device = int(pcm.name[3:-1])
            path = dev / f"pcmC{number}D{device}c"
            found.append(
                CardInput(
                    card=number,
                    device=device,
                    card_id=_read(folder / "id").strip(),
                    card_name=kind[2] or kind[0],
                    long_name=long_names.get(str(number), "").strip(),
                    pcm_name="".join(re.findall(r"^name: (.*)$", _read(pcm / "info"), re.M)),
                    usb_id=_read(folder / "usbid").strip() or None,
                    channels=_numbers(stream, "Channels"),
                    rates_hz=_numbers(stream, "Rates"),
                    formats=tuple(dict.fromkeys(re.findall(r"Format: (\S+)", stream))),
                    may_open=os.access(path, os.R_OK | os.W_OK),
                    holder=_holder(pcm),
                )
            )
    return found


def not_listed(wanted: str, listed: Sequence[str], cards: Sequence[CardInput] | None = None) -> str | None:
    """Why PortAudio does not list the device whose name contains `wanted`, although the kernel has it; None
    when the kernel has none either. PortAudio leaves out what it may not open at the moment it looks.

    listed: the names in PortAudio's list.
    """
    for card in card_inputs() if cards is None else cards:
        if any(card.address in name for name in listed):
            continue
        if not any(plain_name(wanted) in plain_name(name) for name in card.names):
            continue
        if card.holder:
            return f"{card.card_name!r} is there, but {card.holder} holds it; stop that first"
        if not card.may_open:
            return (
                f"{card.card_name!r} is there, but this user may not open {card.path}:"
                " `sudo usermod -aG audio $USER`, then log out and in again"
            )
        return f"{card.card_name!r} is there, but cannot be opened; plug it in again"
    return None


def _numbers(stream: str, key: str) -> tuple[int, ...]:
    lines = re.findall(rf"{key}: ([\d, -]+)", stream)
    return tuple(sorted({int(n) for line in lines for n in re.findall(r"\d+", line)}))


def _holder(pcm: Path) -> str | None:
    """Who has the device open: the kernel tells the process to everybody, whoever runs it."""
    for status in sorted(pcm.glob("sub*/status")):
        pid = re.search(r"owner_pid *: (\d+)", _read(status))
        if pid is not None:
            return f"{_read(Path('/proc') / pid[1] / 'comm').strip() or 'a program'} ({pid[1]})"
    return None


def zoom_on_usb(usb: Path = _USB) -> list[str]:
    """Products of Zoom Corporation that are plugged in, as USB names them, in whatever mode."""
    return [
        _read(vendor.parent / "product").strip() or "a Zoom device"
        for vendor in sorted(usb.glob("*/idVendor"))
        if _read(vendor).strip() == _ZOOM_VENDOR
    ]


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
