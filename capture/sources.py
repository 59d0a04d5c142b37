"""From a rig to opened devices: one place that knows which class stands for which `source:`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from capture.blocks import AudioInfo, AudioSource, Sink, VideoInfo, VideoSource, monotonic_ns
from capture.rig import Camera, Rig, result_paths
from recordings.calibrated import Calibrations, read_results

if TYPE_CHECKING:
    from capture.virtual import VirtualScene
    from capture.virtual.staged import StagedRequest


@dataclass
class OpenedRig:
    """A rig's devices, opened and ready to start. Use as a context manager, or call `close`.

    scene is set when a source is virtual. audio_info and video_info say what the devices really are.
    further: the rig's `more_cameras` by name, and infos what each of them is. calibrations: what the rig's
    result files hold.
    """

    rig: Rig
    microphone: AudioSource
    camera: VideoSource | None
    scene: VirtualScene | None
    audio_info: AudioInfo
    video_info: VideoInfo | None = None
    further: dict[str, VideoSource] = field(default_factory=dict)
    infos: dict[str, VideoInfo] = field(default_factory=dict)
    calibrations: Calibrations = field(default_factory=Calibrations)
    _started: list[Any] = field(default_factory=list, repr=False)

    def start(
        self, audio: Sink, video: Sink | None = None, further: Mapping[str, Sink] | None = None
    ) -> None:
        """Start the sources (each sink is called from its source's thread; further: by camera name). Files
        that play beside each other get the same start time."""
        begin = monotonic_ns()
        for source in (self.microphone, self.camera, *self.further.values()):
            if hasattr(source, "start_ns"):
                source.start_ns = begin  # type: ignore[union-attr]
        try:
            # Cameras first: they are slower to deliver, and sound without pictures is worth less.
            if self.camera is not None and video is not None:
                self._start(self.camera, video)
            for name, sink in (further or {}).items():
                self._start(self.further[name], sink)
            self._start(self.microphone, audio)
        except BaseException:
            self.stop()
            raise

    def _start(self, source: AudioSource | VideoSource, sink: Sink) -> None:
        source.start(sink)
        self._started.append(source)

    def camera_counts(self) -> dict[str, dict[str, int]]:
        """What live cameras counted themselves, by name ("camera" is the main one): pictures, dropped ones
        and how many of those are estimates, late, duplicate, frozen, damaged, stalled, lost."""
        cameras = {"camera": self.camera, **self.further}
        return {name: c.counts() for name, c in cameras.items() if hasattr(c, "counts")}  # type: ignore[union-attr]

    def stop(self) -> None:
        """Stop what runs. After this no sink is called."""
        while self._started:
            self._started.pop().stop()

    def close(self) -> None:
        """Stop and give the devices back."""
        self.stop()
        self.microphone.close()
        for camera in (self.camera, *self.further.values()):
            if camera is not None:
                camera.close()

    def __enter__(self) -> OpenedRig:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def open_rig(rig: Rig, staged: StagedRequest | None = None) -> OpenedRig:
    """Open the devices of a rig. staged: what happens in the virtual room, for a rig of
    `capture.virtual.staged.staged_rig`.

    Raises DeviceError (absent, busy, wrong mode: the message lists what there is), InputError (a file that
    does not fit the rig, a calibration result that cannot be used, was made at another picture size or
    for another sound format),
    MissingDependency (PortAudio, PyAudio).
    """
    calibrations = read_results(result_paths(rig))
    scene: Any = None
    if "virtual" in (rig.microphone.source, rig.camera.source):
        if staged is not None:
            from capture.virtual.staged import build_staged_scene

            scene = build_staged_scene(rig, staged)
        else:
            from capture.virtual import build_scene

            scene = build_scene(rig)
    microphone = microphone_of(rig, scene)
    camera = camera_of(rig.camera, scene)
    further = {c.name: s for c in rig.more_cameras if (s := camera_of(c, scene, f"camera {c.name}"))}
    try:
        audio_info = microphone.open()
        video_info = camera.open() if camera is not None else None
        infos = {name: source.open() for name, source in further.items()}
        for name, info in (("", video_info), *infos.items()):
            if info is not None:
                calibrations.check_picture(info.width_px, info.height_px, name)
        calibrations.correction(audio_info.format)
    except BaseException:
        for opened in (microphone, camera, *further.values()):
            if opened is not None:
                opened.close()
        raise
    return OpenedRig(rig, microphone, camera, scene, audio_info, video_info, further, infos, calibrations)


def microphone_of(rig: Rig, scene: Any) -> AudioSource:
    """The rig's microphone, not yet opened. scene: the virtual room, for a source that is virtual."""
    mic = rig.microphone
    if mic.source == "virtual":
        return scene.microphone()
    if mic.source == "file":
        from capture.file_microphone import FileMicrophone

        return FileMicrophone(
            mic.file or "",
            rate_hz=mic.rate_hz,
            channels=mic.channels,
            format=mic.format,
            block_ms=mic.block_ms,
            pace=mic.pace,
        )
    settings: dict[str, Any] = {
        "device": mic.device or "",
        "rate_hz": mic.rate_hz,
        "channels": mic.channels,
        "format": mic.format,
        "block_ms": mic.block_ms,
    }
    if mic.source == "sounddevice":
        from capture.microphone import PortAudioMicrophone

        return PortAudioMicrophone(**settings)
    from capture.pyaudio_microphone import PyAudioMicrophone

    return PyAudioMicrophone(**settings)


def camera_of(cam: Camera, scene: Any, name: str = "camera") -> VideoSource | None:
    """A camera of the rig, not yet opened; None for `source: none`. name: of the source in events."""
    if cam.source == "none":
        return None
    if cam.source == "virtual":
        return scene.camera()
    if cam.source == "file":
        from capture.file_camera import FileCamera

        return FileCamera(cam.file or "", pace=cam.pace, source=name)
    from capture.camera import LiveCamera

    return LiveCamera(
        cam.device if cam.source == "v4l2" else cam.url or "",
        width_px=cam.width_px,
        height_px=cam.height_px,
        fps=cam.fps,
        fourcc=cam.fourcc,
        source=name,
    )
