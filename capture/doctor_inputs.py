"""Doctor's look at sound inputs: what PortAudio and the kernel list, what each can do, who holds it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from typing import Any

from capture.doctor_findings import Finding, Severity
from capture.portaudio_devices import (
    H3VR_MENU,
    DeviceAbsent,
    InputDevice,
    choose_device,
    device_warnings,
    holders_of,
    list_inputs_fresh,
    plain_name,
)
from capture.rig import Rig
from capture.sound_cards import CardInput, card_inputs, zoom_on_usb
from dsp.errors import HearthError
from recordings.terminal import counted

RATES_HZ = (44100, 48000, 96000)
_SERVERS = ("pulseaudio", "pipewire", "wireplumber", "jackd")

# Prints a line per device as it goes, so that what was found before one hangs is not lost.
_PROBE = """
import json, sys
import sounddevice as sd
names, channels, rates = json.loads(sys.argv[1])
apis = [a["name"] for a in sd.query_hostapis()]
for index, d in enumerate(sd.query_devices()):
    if [d["name"], apis[d["hostapi"]]] not in names:
        continue
    good, error = [], ""
    for rate in rates:
        try:
            sd.check_input_settings(index, min(channels, d["max_input_channels"]), "int32", None, rate)
            good.append(rate)
        except sd.PortAudioError as problem:
            error = str(problem.args[0])
    print(json.dumps([d["name"], apis[d["hostapi"]], good, error]), flush=True)
"""


@dataclass(frozen=True, slots=True)
class InputReport:
    """A sound input with what it can do.

    rates_hz: those of RATES_HZ at which it opened with int32 samples and four channels (all it has, if
    fewer); None: not tried. refusal: PortAudio's words when a rate did not open. held_by: `name (pid)` each.
    """

    device: InputDevice
    rates_hz: tuple[int, ...] | None
    refusal: str
    held_by: tuple[str, ...]

    @property
    def route(self) -> str:
        """How its sound comes here."""
        if self.device.is_hardware:
            return "hw"
        return "mixed" if self.device.is_mixed else "direct"

    def text(self) -> str:
        """One line for people."""
        d = self.device
        count = counted(d.channels, "channel")
        parts = [f"{d.name!r} ({d.host_api}): {count}, {_ROUTES[self.route]}"]
        if self.rates_hz:
            parts.append(f"{', '.join(map(str, self.rates_hz))} Hz")
        elif self.rates_hz is not None:
            parts.append(f"does not open ({self.refusal})")
        if self.held_by:
            parts.append(f"in use by {', '.join(self.held_by)}")
        return "; ".join(parts)

    def to_dict(self) -> dict[str, Any]:
        """For `--json`."""
        return {
            "name": self.device.name,
            "host_api": self.device.host_api,
            "channels": self.device.channels,
            "default_rate_hz": self.device.rate_hz,
            "rates_hz": None if self.rates_hz is None else list(self.rates_hz),
            "route": self.route,
            "held_by": list(self.held_by),
        }


_ROUTES = {
    "hw": "straight from the hardware",
    "mixed": "may be remixed by a sound server",
    "direct": "direct",
}


def look_at_inputs(rig: Rig | None, timeout_s: float) -> tuple[list[Finding], dict[str, Any]]:
    """Findings and details ("microphones", "sound_cards") about every input."""
    cards = card_inputs()
    details: dict[str, Any] = {"microphones": [], "sound_cards": [_card_dict(card) for card in cards]}
    wanted = rig is not None and rig.microphone.source in ("sounddevice", "pyaudio")
    bad: Severity = "fault" if wanted else "warning"
    try:
        devices = list_inputs_fresh(timeout_s * 0.6)
    except HearthError as error:
        return [Finding("microphone", bad, f"PortAudio: {error}"), *_zoom(cards)], details
    inputs = _reports(rig, devices, cards, timeout_s * 0.4)
    details["microphones"] = [report.to_dict() for report in inputs]
    found = [Finding("microphone", "ok", report.text()) for report in inputs if _is_interesting(report, rig)]
    others = len(inputs) - len(found)
    if not inputs and not wanted:
        found.append(
            Finding(
                "microphone",
                "ok",
                "no sound input is plugged in" + ("" if rig is None else "; the rig needs none"),
            )
        )
    elif others:
        found.append(Finding("microphone", "ok", f"PortAudio lists {counted(others, 'further route')}"))
    unlisted = _unlisted(cards, devices, rig if wanted else None)
    found += _stereo_h3vr(inputs, rig) + unlisted + _zoom(cards)
    if wanted:
        assert rig is not None
        # PortAudio opens what it lists: of a device that is held, or may not be opened, it knows nothing.
        hidden = any(finding.severity == "fault" for finding in unlisted)
        found += [] if hidden else _wanted(rig, inputs)
    elif rig is not None and rig.microphone.source == "virtual":
        found.append(Finding("microphone", "ok", "the virtual room: no hardware is used"))
    return found, details


def _is_interesting(report: InputReport, rig: Rig | None) -> bool:
    """ALSA lists a dozen plug-ins beside each device; those that nobody named stay out of the text."""
    named = rig is not None and (rig.microphone.device or "\0").lower() in report.device.name.lower()
    return named or report.device.is_hardware or not report.device.is_mixed


def _reports(
    rig: Rig | None, devices: list[InputDevice], cards: list[CardInput], timeout_s: float
) -> list[InputReport]:
    held = {device: _holders(device, cards) for device in devices}
    plain = [InputReport(device, None, "", held[device]) for device in devices]
    tried = probe_rates(
        [r.device for r in plain if _is_interesting(r, rig) and not r.held_by],
        4 if rig is None else rig.microphone.channels,
        timeout_s,
    )
    untried: tuple[tuple[int, ...] | None, str] = (None, "")
    answers = [tried.get((r.device.name, r.device.host_api), untried) for r in plain]
    return [InputReport(r.device, a[0], a[1], r.held_by) for r, a in zip(plain, answers, strict=True)]


def _holders(device: InputDevice, cards: list[CardInput]) -> tuple[str, ...]:
    seen = holders_of(device)
    kernel = [c.holder for c in cards if c.holder and c.address in device.name]
    ours = f"({os.getpid()})"
    return tuple(dict.fromkeys(who for who in [*seen, *kernel] if not who.endswith(ours)))


def probe_rates(
    devices: list[InputDevice], channels: int, timeout_s: float
) -> dict[tuple[str, str], tuple[tuple[int, ...], str]]:
    """(name, host API) -> the rates of RATES_HZ that it takes with int32 samples, and why it refused another.

    Asked in a fresh process: opening may hang or crash. A device that was not reached in time is left out.
    """
    if not devices:
        return {}
    names = [[d.name, d.host_api] for d in devices]
    question = json.dumps([names, channels, RATES_HZ])
    command = [sys.executable, "-c", _PROBE, question]
    try:
        output = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=timeout_s, check=False
        ).stdout
    except subprocess.TimeoutExpired as late:
        raw = late.stdout or ""
        output = raw.decode(errors="replace") if isinstance(raw, bytes) else raw
    answers = [
        json.loads(line) for line in output.splitlines() if line.startswith("[") and line.endswith("]")
    ]
    return {(name, api): (tuple(rates), error) for name, api, rates, error in answers}


def _wanted(rig: Rig, inputs: list[InputReport]) -> list[Finding]:
    """Whether the rig's microphone is there, is the right one and is free."""
    mic = rig.microphone
    try:
        chosen = choose_device([r.device for r in inputs], mic.device or "", mic.channels)
    except HearthError as error:
        do = (
            "plug it in and switch it on, or correct `microphone.device`"
            if isinstance(error, DeviceAbsent)
            else ""
        )
        return [Finding("microphone", "fault", str(error), do)]
    found = []
    if mic.source == "pyaudio":
        from capture.pyaudio_microphone import load_pyaudio

        try:
            load_pyaudio()
        except HearthError as error:
            found.append(Finding("microphone", "fault", str(error)))
    report = next(r for r in inputs if r.device == chosen)
    text = f"the rig means {chosen.describe()}"
    if report.held_by:
        holders = ", ".join(report.held_by)
        found.append(Finding("microphone", "fault", f"{text}: held by {holders}", _free(holders)))
    elif report.rates_hz is not None and mic.rate_hz not in report.rates_hz:
        can = ", ".join(map(str, report.rates_hz)) or "none of the usual rates"
        refused = f"{text}: does not open at {mic.rate_hz} Hz ({report.refusal}); it does {can}"
        found.append(Finding("microphone", "fault", refused, _refusal_remedy(report)))
    else:
        found += [
            Finding("microphone", "warning", warning, _ROUTE_REMEDY if chosen.is_mixed else "")
            for warning in device_warnings(chosen, mic.channels)
        ] or [Finding("microphone", "ok", text)]
    return found


_ROUTE_REMEDY = (
    "set `microphone.device` to a part of the name of the hw: device if there is one; else compare the meters"
    " with what you do in front of the microphone"
)


def _refusal_remedy(report: InputReport) -> str:
    if report.rates_hz:
        return f"set `microphone.rate_hz` to {report.rates_hz[-1]}, or change the rate on the microphone"
    return (
        "another program may hold it: stop what uses sound, or plug the microphone in again"
        " (`sudo fuser -v /dev/snd/*` names who)"
    )


def _free(holders: str) -> str:
    if any(server in holders for server in _SERVERS):
        return (
            f"make the sound server let go of it: in its volume control set this card's profile to Off"
            f" (held by {holders})"
        )
    return f"stop {holders}"


def _stereo_h3vr(inputs: list[InputReport], rig: Rig | None) -> list[Finding]:
    """The H3-VR offers as many channels as its menu says; when the rig means it, choosing it says so too."""
    named = (rig.microphone.device or "") if rig is not None else ""
    return [
        Finding("microphone", "warning", f"{r.device.describe()}: {H3VR_MENU}")
        for r in inputs
        if "h3vr" in plain_name(r.device.name) and r.device.channels < 4
        if not (named and plain_name(named) in plain_name(r.device.name))
    ]


def _unlisted(cards: list[CardInput], devices: list[InputDevice], rig: Rig | None) -> list[Finding]:
    """Inputs that the kernel has and PortAudio does not list: no permission, or held by somebody."""
    found = []
    wanted = plain_name((rig.microphone.device or "") if rig is not None else "")
    for card in cards:
        if any(card.address in d.name for d in devices):
            continue
        ours = bool(wanted) and any(wanted in plain_name(name) for name in card.names)
        text = f"{card.card_name!r} {card.address[1:-1]} is there, but PortAudio does not list it"
        if card.offers():
            text += f" (it offers {card.offers()})"
        if card.holder:
            text, do = f"{text}: held by {card.holder}", _free(card.holder)
        elif not card.may_open:
            text, do = f"{text}: this user may not open {card.path}", permission_remedy("audio")
        else:
            do = "plug it in again; if that does not help, restart the computer"
        found.append(Finding("microphone", "fault" if ours else "warning", text, do))
    return found


def _zoom(cards: list[CardInput]) -> list[Finding]:
    """A Zoom recorder that is on USB as a card reader gives no sound, and no list shows it."""
    names = zoom_on_usb()
    if not names or any(re.search(r"(?i)zoom|h3-?vr", f"{c.card_name} {c.long_name}") for c in cards):
        return []
    text = f"a Zoom recorder is on USB ({', '.join(names)}), but not as a sound input"
    do = "on the recorder choose Menu > USB > Audio I/F > 4ch Ambisonics, then Menu > Ambisonic Mode > AmbiX"
    return [Finding("microphone", "warning", text, do)]


def permission_remedy(group: str) -> str:
    """What to do when the user may not open a device of this group."""
    return f"`sudo usermod -aG {group} $USER`, then log out and in again"


def _card_dict(card: CardInput) -> dict[str, Any]:
    return {
        "path": card.path,
        "name": card.card_name,
        "detail": card.long_name,
        "usb_id": card.usb_id,
        "channels": list(card.channels),
        "rates_hz": list(card.rates_hz),
        "formats": list(card.formats),
        "may_open": card.may_open,
        "held_by": card.holder,
    }
