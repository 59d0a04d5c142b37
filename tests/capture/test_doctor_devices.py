"""What the doctor reads about sound cards and cameras, against the kernel's own headers and forms.

The texts below have the form that Linux prints (Documentation/sound/designs/procfile.rst, sound/usb/proc.c).
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from capture import doctor_inputs, v4l2_modes
from capture.doctor_cameras import modes_text
from capture.doctor_inputs import InputReport
from capture.portaudio_devices import H3VR_MENU, InputDevice
from capture.rig import parse_rig
from capture.sound_cards import CardInput, card_inputs, not_listed, zoom_on_usb
from capture.v4l2_modes import CameraMode

RIG = parse_rig("hearth_rig: 1\nmicrophone: {source: sounddevice, device: H3-VR}\ncamera: {source: none}\n")


@pytest.fixture
def asound(tmp_path: Path) -> Path:
    """/proc/asound of a computer with its own sound and an H3-VR that this process records from."""
    (tmp_path / "cards").write_text(
        " 0 [PCH            ]: HDA-Intel - HDA Intel PCH\n"
        "                      HDA Intel PCH at 0xa1310000 irq 134\n"
        " 2 [H3VR           ]: USB-Audio - H3-VR\n"
        "                      ZOOM Corporation H3-VR at usb-0000:00:14.0-1, high speed\n"
    )
    for name in ("card0/pcm0p", "card0/pcm0c/sub0", "card2/pcm0c/sub0"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "card0/id").write_text("PCH\n")
    (tmp_path / "card0/pcm0c/sub0/status").write_text("closed\n")
    (tmp_path / "card2/id").write_text("H3VR\n")
    (tmp_path / "card2/pcm0c/info").write_text("card: 2\nid: USB Audio\nname: USB Audio\nsubname: x\n")
    (tmp_path / "card2/usbid").write_text("1686:0001\n")
    (tmp_path / "card2/pcm0c/sub0/status").write_text(
        f"state: RUNNING\nowner_pid   : {os.getpid()}\ntrigger_time: 12.5\n"
    )
    (tmp_path / "card2/stream0").write_text(
        "ZOOM Corporation H3-VR at usb-0000:00:14.0-1, high speed : USB Audio\n\n"
        "Playback:\n  Status: Stop\n  Interface 1\n    Altset 1\n    Format: S16_LE\n    Channels: 2\n"
        "    Rates: 32000\n\n"
        "Capture:\n  Status: Running\n  Interface 2\n    Altset 1\n    Format: S24_3LE\n    Channels: 4\n"
        "    Endpoint: 0x82 (2 IN) (ASYNC)\n    Rates: 44100, 48000\n    Bits: 24\n"
        "  Interface 2\n    Altset 2\n    Format: S24_3LE\n    Channels: 2\n    Rates: 44100, 48000\n"
    )
    return tmp_path


def test_cards_of_the_kernel(asound: Path) -> None:
    own, recorder = card_inputs(asound, asound)
    assert (own.card, own.card_name, own.holder, own.channels) == (0, "HDA Intel PCH", None, ())
    assert (recorder.card, recorder.device, recorder.card_id) == (2, 0, "H3VR")
    assert recorder.long_name == "ZOOM Corporation H3-VR at usb-0000:00:14.0-1, high speed"
    assert (recorder.channels, recorder.rates_hz) == ((2, 4), (44100, 48000)), "of the input, not the output"
    assert (recorder.formats, recorder.usb_id) == (("S24_3LE",), "1686:0001")
    assert recorder.holder is not None and recorder.holder.endswith(f"({os.getpid()})")
    assert recorder.portaudio_name == "H3-VR: USB Audio (hw:2,0)"
    assert not recorder.may_open, "there is no such device file here"
    assert (recorder.path, recorder.address) == ("/dev/snd/pcmC2D0c", "(hw:2,0)")


def test_no_alsa_is_no_card(tmp_path: Path) -> None:
    assert card_inputs(tmp_path / "absent", tmp_path) == []


def test_a_zoom_that_is_a_card_reader_is_seen_on_usb(tmp_path: Path) -> None:
    for name, vendor, product in (("1-1", "1686", "H3-VR"), ("1-2", "046d", "Webcam")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "idVendor").write_text(f"{vendor}\n")
        (tmp_path / name / "product").write_text(f"{product}\n")
    assert zoom_on_usb(tmp_path) == ["H3-VR"]


def card(**changes: object) -> CardInput:
    fields: dict[str, object] = {
        "card": 2, "device": 0, "card_id": "H3VR", "card_name": "H3-VR", "long_name": "ZOOM H3-VR at usb",
        "pcm_name": "USB Audio",
        "usb_id": None, "channels": (4,), "rates_hz": (48000,), "formats": ("S24_3LE",), "may_open": True,
        "holder": None,
    }  # fmt: skip
    return CardInput(**{**fields, **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"may_open": False}, ["may not open /dev/snd/pcmC2D0c", "usermod -aG audio"]),
        ({"holder": "arecord (123)"}, ["held by arecord (123)", "stop arecord (123)"]),
        ({"holder": "pipewire (9)"}, ["held by pipewire (9)", "profile to Off"]),
    ],
)
def test_a_take_says_why_a_microphone_that_is_there_is_not_listed(
    changes: dict[str, object], words: list[str]
) -> None:
    """`hearth record` calls a busy microphone busy, not absent."""
    reason = not_listed("h3 vr", ["Loopback (hw:1,0)"], [card(**changes)])
    assert reason is not None and "'H3-VR' is there" in reason
    assert any(word.removeprefix("held by ") in reason for word in words)
    assert not_listed("h3 vr", ["H3-VR: USB Audio (hw:2,0)"], [card(**changes)]) is None
    assert not_listed("ZYLIA", [], [card(**changes)]) is None


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"may_open": False}, ["may not open /dev/snd/pcmC2D0c", "usermod -aG audio"]),
        ({"holder": "arecord (123)"}, ["held by arecord (123)", "stop arecord (123)"]),
        ({"holder": "pipewire (9)"}, ["held by pipewire (9)", "profile to Off"]),
    ],
)
def test_a_microphone_that_portaudio_does_not_list_has_its_reason(
    changes: dict[str, object], words: list[str]
) -> None:
    (found,) = doctor_inputs._unlisted([card(**changes)], [], RIG)
    assert found.severity == "fault", "it is the one that the rig means"
    for word in words:
        assert word in f"{found.text} {found.do}"
    listed = InputDevice(0, "H3-VR: USB Audio (hw:2,0)", "ALSA", 4, 48000.0)
    assert doctor_inputs._unlisted([card(**changes)], [listed], RIG) == []
    for address, severity in (("(hw:2,0)", "fault"), ("(hw:3,0)", "warning")):
        text = f"microphone: {{source: sounddevice, device: 'H3-VR: USB Audio {address}'}}"
        (found,) = doctor_inputs._unlisted([card(**changes)], [], parse_rig(f"hearth_rig: 1\n{text}\n"))
        assert found.severity == severity, "a whole name means one device"


def wanted(device: InputDevice, rates: tuple[int, ...] | None = None, *held: str) -> list[str]:
    report = InputReport(device, rates, "Invalid sample rate", held)
    return [f"{f.severity}: {f.text} {f.do}" for f in doctor_inputs._wanted(RIG, [report])]


def test_the_microphone_of_the_rig() -> None:
    hardware = InputDevice(1, "H3-VR: USB Audio (hw:2,0)", "ALSA", 4, 48000.0)
    (good,) = wanted(hardware, (44100, 48000))
    assert good.startswith("ok: ")
    (held,) = wanted(hardware, None, "arecord (7)")
    assert held.startswith("fault: ") and "held by arecord (7)" in held and "stop arecord (7)" in held
    (rate,) = wanted(hardware, (44100,))
    assert rate.startswith("fault: ") and "48000 Hz" in rate and "`microphone.rate_hz` to 44100" in rate
    (stereo,) = wanted(InputDevice(1, "H3-VR: USB Audio (hw:2,0)", "ALSA", 2, 48000.0))
    assert stereo.startswith("fault: ") and H3VR_MENU in stereo
    (absent,) = wanted(InputDevice(1, "HDA Intel PCH: ALC (hw:0,0)", "ALSA", 2, 48000.0))
    assert absent.startswith("fault: ") and "plug it in" in absent


def test_a_stereo_h3vr_is_named_even_when_the_rig_means_another() -> None:
    other = parse_rig("hearth_rig: 1\nmicrophone: {source: sounddevice, device: Scarlett}\n")
    report = InputReport(InputDevice(1, "H3-VR: USB Audio (hw:2,0)", "ALSA", 2, 48000.0), None, "", ())
    (found,) = doctor_inputs._stereo_h3vr([report], other)
    assert found.severity == "warning" and H3VR_MENU in found.text
    assert doctor_inputs._stereo_h3vr([report], RIG) == [], "said where it is chosen"


def test_the_kernels_structures_and_numbers(tmp_path: Path) -> None:
    """Against linux/videodev2.h, by the C compiler."""
    compiler = shutil.which("cc")
    if compiler is None or not Path("/usr/include/linux/videodev2.h").exists():
        pytest.skip("no C compiler with the kernel's headers")
    source = tmp_path / "numbers.c"
    source.write_text(
        "#include <stdio.h>\n#include <stddef.h>\n#include <linux/videodev2.h>\n#include <sys/timex.h>\n"
        'int main(void) { printf("%zu %zu %zu %zu %lu %lu %zu %zu %zu",'
        " sizeof(struct v4l2_frmsizeenum), sizeof(struct v4l2_frmivalenum),"
        " offsetof(struct v4l2_frmsizeenum, discrete), offsetof(struct v4l2_frmivalenum, discrete),"
        " (unsigned long)VIDIOC_ENUM_FRAMESIZES, (unsigned long)VIDIOC_ENUM_FRAMEINTERVALS,"
        " sizeof(struct timex), offsetof(struct timex, status), offsetof(struct timex, tick)); }\n"
    )
    subprocess.run([compiler, str(source), "-o", str(tmp_path / "numbers")], check=True)
    output = subprocess.run([str(tmp_path / "numbers")], capture_output=True, text=True, check=True).stdout
    import ctypes

    from capture.system_clock import _Timex

    size, interval = v4l2_modes.FrameSize, v4l2_modes.FrameInterval
    ours = [
        ctypes.sizeof(size), ctypes.sizeof(interval), size.size.offset, interval.interval.offset,
        v4l2_modes.ENUM_FRAMESIZES, v4l2_modes.ENUM_FRAMEINTERVALS,
        ctypes.sizeof(_Timex), _Timex.status.offset, _Timex.tick.offset,
    ]  # fmt: skip
    assert [int(word) for word in output.split()] == ours


def test_what_a_camera_offers_in_words() -> None:
    modes = (
        CameraMode("YUYV", 640, 480, False, (30.0,)),
        CameraMode("MJPG", 1280, 720, False, (60.0, 30.0)),
        CameraMode("MJPG", 1920, 1080, False, (30.0,)),
        CameraMode("H264", 0, 0, False, ()),
    )
    assert modes_text(modes) == "YUYV 640x480@30, MJPG 1920x1080@30 or 1280x720@60, H264"
    assert modes_text(()) == "tells no formats"
