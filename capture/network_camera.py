"""A camera on the network (HTTP or RTSP) through FFmpeg's demuxers: MJPEG comes undecoded."""

from __future__ import annotations

from typing import Any

import numpy as np

from capture.blocks import monotonic_ns
from capture.camera_address import shown_address
from capture.camera_link import CameraEnded, CameraSettings, Picture
from capture.frame_watch import jpeg_size
from dsp.errors import DeviceError

_NS = 1_000_000_000


class NetworkLink:
    """CameraLink of an address. One packet of a JPEG stream is one picture, bytes as sent; other codecs are
    decoded.

    Two things bound every wait: FFmpeg's own socket timeout, and PyAV's interrupt after the deadline.
    """

    def __init__(self, address: str, settings: CameraSettings) -> None:
        """Raises DeviceError."""
        import av

        self.name = shown_address(address)
        self.backend = "rtsp" if address.lower().startswith("rtsp") else "http"
        self._pending: list[Picture] = []
        options = {
            "timeout": str(round(settings.read_deadline_s * 1e6)),  # of the socket, in microseconds
            "fflags": "nobuffer",
            # How long FFmpeg looks at the stream before it hands out the first picture.
            "probesize": "500000",
            "analyzeduration": "500000",
        }
        if self.backend == "rtsp":
            options["rtsp_transport"] = "tcp"  # what UDP loses on the way, nobody sends again
        try:
            self._container = av.open(
                address, options=options, timeout=(settings.open_deadline_s, settings.read_deadline_s)
            )
        except av.error.FFmpegError as error:
            raise DeviceError(self._why_not(error, settings.open_deadline_s)) from None
        try:
            self._start(address)
        except BaseException:
            self._container.close()
            raise

    def _start(self, address: str) -> None:
        if not self._container.streams.video:
            raise DeviceError(f"{self.name}: answers, but sends no pictures (`camera.url`)")
        self._stream = self._container.streams.video[0]
        codec = self._stream.codec_context
        self._codec = str(codec.name)
        self._is_jpeg = self._codec == "mjpeg"
        self.fourcc = "MJPG" if self._is_jpeg else self._codec.upper()[:4]
        codec.thread_type = "SLICE"  # threads over frames would hold pictures back
        self._size = (int(codec.width), int(codec.height))
        self._packets = self._container.demux(self._stream)

    def _why_not(self, error: Exception, deadline_s: float) -> str:
        import av

        if isinstance(error, av.error.ExitError | av.error.TimeoutError):
            return f"{self.name}: no picture within {deadline_s:g} s. Is the camera on and reachable?"
        if isinstance(error, av.error.HTTPUnauthorizedError | av.error.HTTPForbiddenError):
            return f"{self.name}: refused; put user and password into the address (`camera.url`)"
        if isinstance(error, av.error.InvalidDataError):
            return f"{self.name}: answers, but not with pictures; is it the stream's address (`camera.url`)?"
        # Not str(error): that holds the address with its password.
        text = getattr(error, "strerror", "") or type(error).__name__
        return (
            f"{self.name}: cannot be opened: {text} (`camera.url`). Is the address right and the camera on?"
        )

    def read(self) -> Picture | None:
        """The next picture; see CameraLink."""
        import av

        if self._pending:
            return self._pending.pop(0)
        try:
            packet = next(self._packets)
        except StopIteration:
            raise CameraEnded("the stream ended") from None
        except (av.error.ExitError, av.error.TimeoutError):
            raise CameraEnded("no picture any more") from None
        except (av.error.FFmpegError, OSError) as error:
            raise CameraEnded(f"the stream broke off ({getattr(error, 'strerror', error)})") from None
        arrival = monotonic_ns()
        if packet.size == 0:  # the flush packet at the end
            raise CameraEnded("the stream ended")
        if self._is_jpeg:
            data = bytes(packet)
            size = jpeg_size(data) or self._size
            return Picture(
                arrival, size, jpeg=data, media_ns=self._media_ns(packet), damaged=bool(packet.is_corrupt)
            )
        try:
            frames = packet.decode()
        except av.error.FFmpegError:
            return None  # before the first key picture, or broken: the times tell that it is missing
        for frame in frames:
            image = np.asarray(frame.to_ndarray(format="bgr24"), np.uint8)
            self._pending.append(
                Picture(
                    arrival,
                    (image.shape[1], image.shape[0]),
                    image=image,
                    media_ns=self._media_ns(frame),
                    damaged=bool(getattr(frame, "is_corrupt", False)),
                )
            )
        return self._pending.pop(0) if self._pending else None

    def _media_ns(self, item: Any) -> int | None:
        """The sender's clock. FFmpeg makes it up for HTTP streams (number / 25), so only RTSP's counts."""
        if self.backend != "rtsp" or item.pts is None:
            return None
        return round(item.pts * item.time_base * _NS)

    def detail(self) -> dict[str, Any]:
        """What the stream says of itself."""
        rate = self._stream.average_rate
        found: dict[str, Any] = {
            "address": self.name,
            "codec": self._codec,
            "format": self._container.format.name,
            "fps_reported": None if self.backend == "http" or not rate else round(float(rate), 3),
        }
        # The wall clock that the sender claims (RTCP); noted, never used: nobody has checked that clock.
        wall_us = getattr(self._container, "start_time_realtime", None)
        if wall_us:
            found["sender_start_unix_us_not_trusted"] = int(wall_us)
        return found

    def close(self) -> None:
        """Close the connection."""
        self._container.close()
