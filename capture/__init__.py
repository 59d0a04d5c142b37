"""Devices in: microphones and cameras (real, file, virtual room), clocks, doctor, the recorder.

The names below are the public face; they are loaded at first use so that `hearth --help` stays fast.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from capture.blocks import AudioBlock as AudioBlock
    from capture.blocks import AudioInfo as AudioInfo
    from capture.blocks import AudioSource as AudioSource
    from capture.blocks import SourceEvent as SourceEvent
    from capture.blocks import VideoFrame as VideoFrame
    from capture.blocks import VideoInfo as VideoInfo
    from capture.blocks import VideoSource as VideoSource
    from capture.blocks import monotonic_ns as monotonic_ns
    from capture.clock import AudioClock as AudioClock
    from capture.clock import ClockState as ClockState
    from capture.doctor import DoctorReport as DoctorReport
    from capture.doctor import examine as examine
    from capture.fanout import Fanout as Fanout
    from capture.fanout import Subscription as Subscription
    from capture.recorder import Recorder as Recorder
    from capture.recording import Meter as Meter
    from capture.recording import Recording as Recording
    from capture.rig import Rig as Rig
    from capture.rig import load_rig as load_rig
    from capture.sources import OpenedRig as OpenedRig
    from capture.sources import open_rig as open_rig
    from capture.sync import AvOffset as AvOffset
    from capture.sync import estimate_av_offset as estimate_av_offset
    from capture.take import new_profile as new_profile
    from capture.take import record as record

_HOME = {
    "blocks": (
        "AudioBlock",
        "AudioInfo",
        "AudioSource",
        "SourceEvent",
        "VideoFrame",
        "VideoInfo",
        "VideoSource",
        "monotonic_ns",
    ),
    "clock": ("AudioClock", "ClockState"),
    "doctor": ("DoctorReport", "examine"),
    "fanout": ("Fanout", "Subscription"),
    "recorder": ("Recorder",),
    "recording": ("Meter", "Recording"),
    "rig": ("Rig", "load_rig"),
    "sources": ("OpenedRig", "open_rig"),
    "sync": ("AvOffset", "estimate_av_offset"),
    "take": ("new_profile", "record"),
}
_MODULE_OF = {name: module for module, names in _HOME.items() for name in names}
__all__ = sorted(_MODULE_OF)


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'capture' has no attribute {name!r}")
    value = getattr(import_module(f"capture.{_MODULE_OF[name]}"), name)
    globals()[name] = value
    return value
