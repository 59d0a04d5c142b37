"""What `hearth doctor` says about the kernel's own devices: a USB microphone, a loopback, a camera."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from kernel import UsbProgram, cards, load, unload, wait_for
from test_aloop_microphone import APLAY, NAME, RATE

from capture.doctor_cameras import look_at_cameras
from capture.doctor_inputs import look_at_inputs
from capture.first_rig import find_cameras
from capture.portaudio_devices import H3VR_MENU
from capture.rig import Rig, parse_rig
from capture.sound_cards import card_inputs

SLOW_S = 120.0  # the machine is emulated


def sound_rig(device: str) -> Rig:
    return parse_rig(
        f"hearth_rig: 1\nmicrophone: {{source: sounddevice, device: '{device}'}}\ncamera: {{source: none}}\n"
    )


@pytest.mark.parametrize("channels", [4, 2])
def test_a_usb_microphone_in_both_modes(channels):
    load("vhci-hcd")
    load("snd-usb-audio")
    program = UsbProgram("usb_microphone.py", str(channels), "H3-VR")
    try:
        wait_for("the sound card", lambda: "H3-VR" in cards())
        (card,) = (c for c in card_inputs() if "H3-VR" in c.card_name)
        assert (card.channels, card.rates_hz, card.formats) == ((channels,), (48000,), ("S24_3LE",))
        assert card.may_open and card.holder is None and card.usb_id == "1d6b:0101"
        found, details = look_at_inputs(sound_rig("H3-VR"), SLOW_S)
        (listed,) = (m for m in details["microphones"] if "H3-VR" in m["name"] and m["route"] == "hw")
        assert (listed["channels"], listed["rates_hz"]) == (channels, [48000])
        faults = [f"{f.text} {f.do}" for f in found if f.severity == "fault"]
        if channels == 4:
            assert faults == []
        else:
            (fault,) = faults
            assert H3VR_MENU in fault
    finally:
        program.end()
        wait_for("it is gone", lambda: "H3-VR" not in cards())


def test_a_device_that_another_program_records_from(tmp_path):
    load("snd-aloop", "pcm_substreams=1", "index=0")
    other = tmp_path / "other.raw"
    arecord = subprocess.Popen(
        [str(Path(APLAY).with_name("arecord")), "-q", "-D", "hw:0,1", "-f", "S32_LE", "-c", "4", "-r",
         str(RATE), "-t", "raw", str(other)]
    )  # fmt: skip
    try:
        wait_for("the other program records", lambda: other.exists() and other.stat().st_size > 0)
        (card,) = (c for c in card_inputs() if c.address == "(hw:0,1)")
        assert card.holder == f"arecord ({arecord.pid})"
        assert card.portaudio_name == NAME
        found, _ = look_at_inputs(sound_rig(NAME), SLOW_S)
        faults = [f"{f.text} {f.do}" for f in found if f.severity == "fault"]
        (fault,) = faults  # PortAudio does not list it meanwhile, but it is not "absent"
        assert f"held by arecord ({arecord.pid})" in fault and f"top arecord ({arecord.pid})" in fault
    finally:
        arecord.terminate()
        arecord.wait(30)
        unload("snd-aloop")


def test_a_camera_its_modes_and_who_holds_it():
    load("vivid", "n_devs=1", "node_types=0x20001", "num_inputs=1", "input_types=0")
    holder = None
    try:
        node = f"/dev/video{min(int(p.name[5:]) for p in Path('/dev').glob('video*'))}"
        code = f"import os, sys; os.open({node!r}, os.O_RDWR); print(flush=True); sys.stdin.read()"
        holder = subprocess.Popen(
            [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert holder.stdout is not None
        holder.stdout.readline()
        rig = parse_rig(
            f"hearth_rig: 1\ncamera: {{source: v4l2, device: {node[10:]}, fourcc: MJPG}}\n"
            "more_cameras: [{name: raw, source: v4l2, device: "
            f"{node[10:]}, fourcc: YUYV, width_px: 640, height_px: 360, fps: 15}}]\n"
        )
        found, details = look_at_cameras(rig)
        camera = next(c for c in details["cameras"] if c["path"] == node)
        others = [c for c in details["cameras"] if c["path"] != node]
        assert camera["driver"] == "vivid" and camera["gives_pictures"] and camera["may_open"]
        assert camera["held_by"] and str(holder.pid) in camera["held_by"][0]
        assert [c["gives_pictures"] for c in others] == [False], "the node with metadata"
        modes = {(m["width_px"], m["height_px"]): m["fps"] for m in camera["modes"] if m["fourcc"] == "YUYV"}
        assert (640, 360) in modes and max(modes[640, 360]) >= 15
        assert not camera["jpeg_undecoded"], "vivid has no MJPEG"
        (warning,) = (f for f in found if f.severity == "warning")
        assert warning.topic == "camera" and "does not offer `fourcc: MJPG`" in warning.text
        assert [f.number for f in find_cameras()] == [int(node[10:])]
    finally:
        if holder is not None:
            holder.kill()
            holder.wait()
        unload("vivid")
