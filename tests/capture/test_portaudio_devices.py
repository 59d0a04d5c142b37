from __future__ import annotations

import pytest

from capture.portaudio_devices import (
    DeviceAbsent,
    InputDevice,
    check_settings,
    choose_device,
    device_warnings,
    list_devices,
    open_error,
)
from dsp.errors import DeviceError, InputError

H3VR = InputDevice(3, "H3-VR: USB Audio (hw:2,0)", "ALSA", 4, 48000.0)
H3VR_STEREO = InputDevice(3, "H3-VR: USB Audio (hw:2,0)", "ALSA", 2, 48000.0)
H3VR_PULSE = InputDevice(1, "H3-VR Analog Surround 4.0", "PulseAudio", 4, 48000.0)
WEBCAM = InputDevice(0, "HD Webcam C615: USB Audio (hw:1,0)", "ALSA", 1, 48000.0)
DEFAULT = InputDevice(5, "default", "ALSA", 32, 44100.0)


def test_hardware_device_is_preferred_over_a_sound_server() -> None:
    assert choose_device([WEBCAM, H3VR_PULSE, H3VR, DEFAULT], "h3-vr", 4) is H3VR


def test_hardware_in_stereo_is_not_got_round_by_a_route_that_remixes() -> None:
    with pytest.raises(DeviceError, match="stereo mode"):
        choose_device([H3VR_STEREO, H3VR_PULSE], "H3-VR", 4)
    assert choose_device([H3VR_PULSE], "H3-VR", 4) is H3VR_PULSE


def test_stereo_h3vr_names_the_menu_path() -> None:
    with pytest.raises(DeviceError, match=r"Menu > USB > Audio I/F > 4ch Ambisonics") as caught:
        choose_device([WEBCAM, H3VR_STEREO], "H3-VR", 4)
    assert "2 channels" in str(caught.value)


def test_other_device_with_too_few_channels_lists_what_there_is() -> None:
    with pytest.raises(DeviceError, match=r"4 channels are needed.*H3-VR"):
        choose_device([WEBCAM, H3VR], "webcam", 4)


def test_unknown_name_lists_every_input() -> None:
    with pytest.raises(DeviceAbsent, match=r"'Scarlett'.*Webcam.*1 channel,.*default") as caught:
        choose_device([WEBCAM, DEFAULT], "Scarlett", 4)
    assert "32 channels" in str(caught.value)


def test_no_device_at_all_is_said() -> None:
    assert "no microphone at all" in list_devices([])
    with pytest.raises(DeviceError, match="no microphone at all"):
        choose_device([], "H3-VR", 4)


@pytest.mark.parametrize("name", ["  ", "--", ""])
def test_empty_name_is_refused_since_it_would_match_everything(name: str) -> None:
    with pytest.raises(InputError, match=r"microphone\.device"):
        choose_device([H3VR], name, 4)


def test_case_and_punctuation_of_the_name_do_not_matter() -> None:
    assert choose_device([WEBCAM, H3VR], "h3vr", 4) is H3VR
    assert choose_device([WEBCAM, H3VR], "hw:2,0", 4) is H3VR


def test_two_devices_that_match_equally_are_not_chosen_between() -> None:
    other = InputDevice(7, "H3-VR: USB Audio (hw:3,0)", "ALSA", 4, 48000.0)
    with pytest.raises(
        DeviceError, match=r"'H3-VR' means .*hw:2,0.* and .*hw:3,0.* equally well; .*e\.g\. hw:"
    ):
        choose_device([H3VR, other], "H3-VR", 4)
    assert choose_device([H3VR, other], "hw:3,0", 4) is other
    twins = [InputDevice(i, "Zoom", "Core Audio", 4, 48000.0) for i in (1, 2)]
    with pytest.raises(DeviceError, match="unplug the one"):
        choose_device(twins, "zoom", 4)


def test_an_exact_name_is_not_ambiguous() -> None:
    pulse = InputDevice(6, "pulse", "ALSA", 32, 44100.0)
    assert choose_device([InputDevice(5, "pulse2", "ALSA", 32, 44100.0), pulse], "pulse", 4) is pulse


def test_routes_that_may_remix_are_warned_of() -> None:
    assert device_warnings(H3VR, 4) == []
    for device in (DEFAULT, H3VR_PULSE):
        (text,) = device_warnings(device, 4)
        assert device.name in text and "remix" in text and "hw:" in text
    (text,) = device_warnings(InputDevice(3, "UMC1820 (hw:2,0)", "ALSA", 18, 48000.0), 4)
    assert "18 channels" in text and "inputs 1 to 4" in text


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"rate_hz": float("nan")}, "`microphone.rate_hz`: nan .* 48000"),
        ({"rate_hz": 0}, "`microphone.rate_hz`: 0 "),
        ({"channels": 0}, "`microphone.channels`: 0 .* 4 for ambisonics"),
        ({"channels": 2.5}, "`microphone.channels`: 2.5 "),
        ({"block_ms": float("inf")}, "`microphone.block_ms`: inf .* 10"),
        ({"block_ms": 0}, "`microphone.block_ms`: 0 "),
        ({"device": " "}, "`microphone.device`"),
    ],
)
def test_settings_that_no_device_can_have_name_key_value_and_remedy(
    change: dict[str, object], words: str
) -> None:
    good = {"device": "H3-VR", "rate_hz": 48000, "channels": 4, "block_ms": 10.0}
    check_settings(**good)  # type: ignore[arg-type]
    with pytest.raises(InputError, match=words):
        check_settings(**{**good, **change})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("error", "words"),
    [
        ("Invalid sample rate", r"does not do 96000 Hz \(`microphone.rate_hz`\).*Its own rate is 48000 Hz"),
        ("Buffer too big", r"`microphone.block_ms`: 150: Buffer too big. Try 10"),
        ("Invalid number of channels", "Plug it in again"),
        ("Device unavailable", "cannot be opened: Device unavailable"),
    ],
)
def test_refusals_of_portaudio_name_value_and_remedy(error: str, words: str) -> None:
    with pytest.raises(DeviceError, match=words):
        raise open_error(H3VR, 96000, 150, error)
