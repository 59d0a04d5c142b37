"""What is slow the first time (libraries, kernels, the encoder) is done before a take begins."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

import dsp
from capture.channel_faults import window_faults
from recordings.av_offset import SlateWatch
from recordings.video_write import warm_encoder

if TYPE_CHECKING:
    from capture.sources import OpenedRig


def warm_up(opened: OpenedRig) -> None:
    """Load and run once what is slow the first time, before real time starts."""
    info = opened.audio_info
    noise = np.random.default_rng(0).integers(-(1 << 20), 1 << 20, (info.rate_hz, info.channels), np.int32)
    window_faults(noise, info.format)
    dsp.levels(noise.astype(np.float32) * np.float32(2.0**-31))
    for video in (opened.video_info, *opened.infos.values()):
        if video is not None:
            SlateWatch(info.rate_hz, info.format).frame(0, np.zeros((64, 64, 3), np.uint8))  # loads cv2
            warm_encoder(video.width_px, video.height_px)
