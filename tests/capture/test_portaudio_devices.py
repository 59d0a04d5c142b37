from __future__ import annotations

import pytest

from capture.portaudio_devices import InputDevice, choose_device, list_devices
from dsp.errors import DeviceError

H3VR = InputDevice(3, "H3-VR: USB Audio (hw:2,0)", "ALSA", 4, 48000.0)
H3VR_STEREO = InputDevice(3, "H3-VR: USB Audio (hw:2,0)", "ALSA", 2, 48000.0)
H3VR_PULSE = InputDevice(1, "H3-VR Analog Surround 4.0", "PulseAudio", 4, 48000.0)
WEBCAM = InputDevice(0, "HD Webcam C615: USB Audio (hw:1,0)", "ALSA", 1, 48000.0)
DEFAULT = InputDevice(5, "default", "ALSA", 32, 44100.0)


def test_hardware_device_is_preferred_over_a_sound_server() -> None:
    assert choose_device([WEBCAM, H3VR_PULSE, H3VR, DEFAULT], "h3-vr", 4) is H3VR


def test_capable_device_is_preferred_over_hardware_with_too_few_channels() -> None:
    assert choose_device([H3VR_STEREO, H3VR_PULSE], "H3-VR", 4) is H3VR_PULSE


def test_stereo_h3vr_names_the_menu_path() -> None:
    with pytest.raises(DeviceError, match=r"Menu > USB > Audio I/F > 4ch Ambisonics") as caught:
        choose_device([WEBCAM, H3VR_STEREO], "H3-VR", 4)
    assert "2 channels" in str(caught.value)


def test_other_device_with_too_few_channels_lists_what_there_is() -> None:
    with pytest.raises(DeviceError, match=r"4 channels are needed.*H3-VR"):
        choose_device([WEBCAM, H3VR], "webcam", 4)


def test_unknown_name_lists_every_input() -> None:
    with pytest.raises(DeviceError, match=r"'Scarlett'.*Webcam.*1 channel,.*default") as caught:
        choose_device([WEBCAM, DEFAULT], "Scarlett", 4)
    assert "32 channels" in str(caught.value)


def test_no_device_at_all_is_said() -> None:
    assert "no microphone at all" in list_devices([])
    with pytest.raises(DeviceError, match="no microphone at all"):
        choose_device([], "H3-VR", 4)


def test_empty_name_is_refused_since_it_would_match_everything() -> None:
    with pytest.raises(DeviceError, match=r"microphone\.device"):
        choose_device([H3VR], "  ", 4)
