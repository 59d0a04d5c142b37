"""Devices in: microphones and cameras (real, file, virtual room), clocks, doctor, the recorder.

The names below are the public face; they are loaded at first use so that `hearth --help` stays fast.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsp.lazy import lazy_package

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
    from capture.take import new_profile as new_profile
    from capture.take import record as record
    from recordings.av_offset import AvOffset as AvOffset
    from recordings.av_offset import estimate_av_offset as estimate_av_offset

_HOME = {
    "capture.blocks": (
        "AudioBlock",
        "AudioInfo",
        "AudioSource",
        "SourceEvent",
        "VideoFrame",
        "VideoInfo",
        "VideoSource",
        "monotonic_ns",
    ),
    "capture.clock": ("AudioClock", "ClockState"),
    "capture.doctor": ("DoctorReport", "examine"),
    "capture.fanout": ("Fanout", "Subscription"),
    "capture.recorder": ("Recorder",),
    "capture.recording": ("Meter", "Recording"),
    "capture.rig": ("Rig", "load_rig"),
    "capture.sources": ("OpenedRig", "open_rig"),
    "recordings.av_offset": ("AvOffset", "estimate_av_offset"),
    "capture.take": ("new_profile", "record"),
}
__all__ = lazy_package(__name__, _HOME)
