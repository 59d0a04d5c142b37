"""Doctor's test: the rig's devices are opened and recorded for some seconds, by what really records."""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from capture.blocks import AudioInfo, AudioSource, VideoInfo, VideoSource
from capture.deadline import Deadline, as_error, together, within
from capture.disk_room import MIB, free_bytes, nearest
from capture.doctor_cameras import rig_cameras
from capture.doctor_disk import Need, expected_need
from capture.fanout import Fanout
from capture.machine import CpuWatch
from capture.recorder import Recorder
from capture.rig import Rig
from capture.sources import OpenedRig, camera_of, microphone_of
from capture.system_clock import WallClockWatch
from capture.take import new_profile
from capture.take_watch import LevelsNow, PictureWatch, SoundWatch
from dsp.errors import DeviceError, HearthError

_OPEN_S = 20.0  # a microphone may take 15 s, a camera 8 s
_FIRST_SOUND_S = 4.0  # a sound server may need two seconds to begin
_FOLDER = ".hearth-doctor-"


@dataclass
class Devices:
    """The rig's devices, opened; what could not be opened is in `problems`, by topic."""

    scene: Any = None
    microphone: AudioSource | None = None
    audio_info: AudioInfo | None = None
    cameras: dict[str, VideoSource] = field(default_factory=dict)
    video_infos: dict[str, VideoInfo] = field(default_factory=dict)
    problems: dict[str, HearthError] = field(default_factory=dict)

    def close(self) -> None:
        """Give all devices back; one that hangs is left behind."""
        closing: dict[str, Callable[[], None]] = {name: c.close for name, c in self.cameras.items()}
        if self.microphone is not None:
            closing["microphone"] = self.microphone.close
        together(5.0, closing)


def open_devices(rig: Rig, limit: Deadline, skip: Collection[str] = ()) -> Devices:
    """Open what the rig means, all at the same time; each has its own deadline. skip: topics that are known
    to be at fault."""
    devices = Devices()
    if "virtual" in (rig.microphone.source, rig.camera.source):
        from capture.virtual import build_scene

        devices.scene = within(limit.part(60.0), "the virtual room", lambda: build_scene(rig))
    sources: dict[str, Any] = {}
    makers: dict[str, Callable[[], Any]] = {"microphone": lambda: microphone_of(rig, devices.scene)}
    for topic, camera in rig_cameras(rig).items():
        makers[topic] = partial(camera_of, camera, devices.scene, topic)
    for topic, make in makers.items():
        if topic in skip:
            continue
        try:
            sources[topic] = make()
        except HearthError as error:
            devices.problems[topic] = error
    opened = together(limit.part(_OPEN_S), {topic: source.open for topic, source in sources.items()})
    for topic, info in opened.items():
        if isinstance(info, AudioInfo):
            devices.microphone, devices.audio_info = sources[topic], info
        elif isinstance(info, VideoInfo):
            devices.cameras[topic], devices.video_infos[topic] = sources[topic], info
        else:
            devices.problems[topic] = as_error(info)
            with suppress(HearthError):
                within(1.0, f"closing the {topic}", sources[topic].close)
    return devices


@dataclass(frozen=True, slots=True)
class Look:
    """For the meters, a few times a second."""

    elapsed_s: float
    seconds: float
    levels: LevelsNow | None
    pictures: dict[str, PictureWatch]
    lost_frames: int


@dataclass
class TestTake:
    """What the test found. recorded: the recorder's own words when it wrote and finished an episode; problem:
    why it did not. need: bytes per second that it wrote. parts: processor use in percent of one core."""

    seconds: float = 0.0
    sound: SoundWatch | None = None
    pictures: dict[str, PictureWatch] = field(default_factory=dict)
    recorded: str = ""
    problem: HearthError | None = None
    need: Need | None = None
    gaps: dict[str, int] = field(default_factory=dict)
    encoders: dict[str, str] = field(default_factory=dict)
    cpu: CpuWatch | None = None
    parts: dict[str, float] = field(default_factory=dict)
    wall_step_ms: float = 0.0
    interrupted: bool = False
    __test__ = False  # no test of pytest's


def run_test(
    rig: Rig,
    devices: Devices,
    seconds: float,
    limit: Deadline,
    show: Callable[[Look], None],
    finishing: Callable[[], None] = lambda: None,
    record: bool = True,
) -> TestTake:
    """Let the devices run for `seconds` and record them into a folder of its own on the rig's disk, which is
    removed afterwards. show: called about five times a second; finishing: when they have stopped. record:
    False only watches them, for a disk that is known to be at fault. Ctrl-C ends it early."""
    test = _Test(rig, devices, seconds, limit, record)
    try:
        test.start()
        test.run(show)
    except KeyboardInterrupt:
        test.result.interrupted = True
    finally:
        test.end(finishing)
    return test.result


class _Test:
    def __init__(self, rig: Rig, devices: Devices, seconds: float, limit: Deadline, record: bool) -> None:
        self.rig, self.devices, self.seconds, self.limit = rig, devices, seconds, limit
        self._record = record and devices.microphone is not None
        self.result = TestTake()
        fast = "fast" in (rig.microphone.pace, rig.camera.pace)
        self._audio = Fanout(hold_at=500 if fast else None)
        self._video = {topic: Fanout(hold_at=50 if fast else None) for topic in devices.cameras}
        self._folder: Path | None = None
        self._recorder: Recorder | None = None
        self._wall = WallClockWatch()
        self._cpu: CpuWatch | None = None
        self._own_threads = {threading.get_native_id()}
        self._begin = time.monotonic()

    # ------------------------------------------------------------------ begin

    def start(self) -> None:
        devices, result = self.devices, self.result
        if devices.audio_info is not None:
            result.sound = SoundWatch(devices.audio_info, self._audio)
        result.pictures = {topic: PictureWatch(topic, fanout) for topic, fanout in self._video.items()}
        self._own_threads |= {watch.thread.native_id or 0 for watch in self._watches()}
        if self._record:
            try:
                within(self.limit.part(10.0), "the disk", self._prepare_recorder)
            except (HearthError, OSError) as error:
                result.problem = as_error(error)
        self._cpu = CpuWatch()
        self._begin = time.monotonic()
        works: dict[str, Callable[[], None]] = {}
        for topic, camera in devices.cameras.items():
            works[topic] = _starter(camera, self._video[topic])
        if devices.microphone is not None:
            works["microphone"] = _starter(devices.microphone, self._audio)
        for topic, outcome in together(self.limit.part(_OPEN_S), works).items():
            if outcome is not None:
                devices.problems[topic] = as_error(outcome)

    def _prepare_recorder(self) -> None:
        """The real recorder on the rig's disk. Raises StorageError, InputError when it may not write."""
        devices, rig = self.devices, self.rig
        assert devices.microphone is not None and devices.audio_info is not None
        remove_left_behind(Path(rig.storage.folder))
        wanted = 2 * self.seconds * expected_need(rig).bytes_per_s + 48 * MIB
        if free_bytes(Path(rig.storage.folder)) < wanted:
            raise DeviceError(f"too little room on the disk for a test recording of {self.seconds:g} s")
        main = devices.cameras.get("camera")
        further = {t.removeprefix("camera "): c for t, c in devices.cameras.items() if t != "camera"}
        if main is None:  # a further camera is recorded beside a main one only
            further = {}
        opened = OpenedRig(
            rig,
            devices.microphone,
            main,
            devices.scene,
            devices.audio_info,
            devices.video_infos.get("camera"),
            further,
            {name: devices.video_infos[f"camera {name}"] for name in further},
        )
        small = msgspec.structs.replace(rig, storage=msgspec.structs.replace(rig.storage, min_free_mib=0))
        self._folder = Path(
            tempfile.mkdtemp(prefix=f"{_FOLDER}{os.getpid()}-", dir=nearest(Path(rig.storage.folder)))
        )
        recorder = Recorder(
            small,
            opened,
            new_profile(small, opened, "doctor"),
            self._audio,
            None if main is None else self._video["camera"],
            further={name: self._video[f"camera {name}"] for name in further},
            root=self._folder,
            max_seconds=self.seconds,
        )
        recorder.start()
        self._recorder = recorder

    def _watches(self) -> list[SoundWatch | PictureWatch]:
        sound = [] if self.result.sound is None else [self.result.sound]
        return [*sound, *self.result.pictures.values()]

    # ------------------------------------------------------------------ run

    def run(self, show: Callable[[Look], None]) -> None:
        sound = self.result.sound
        while True:
            self._wall.look()
            elapsed = time.monotonic() - self._begin
            heard = elapsed if sound is None else sound.seconds
            levels = None if sound is None else sound.levels_now()
            lost = 0 if sound is None else sound.lost_frames
            show(Look(elapsed, self.seconds, levels, self.result.pictures, lost))
            if heard >= self.seconds or elapsed > self.seconds + _FIRST_SOUND_S:
                return
            if sound is None and not self.devices.cameras:
                return
            if self._recorder is not None and self._recorder.done.wait(0.2):
                return
            if self._recorder is None:
                time.sleep(0.2)

    # ------------------------------------------------------------------ end

    def end(self, finishing: Callable[[], None]) -> None:
        result = self.result
        result.seconds = time.monotonic() - self._begin
        if self._cpu is not None:
            self._cpu.end()
            result.cpu = self._cpu
            result.parts = self._cpu_parts(self._cpu)
        result.wall_step_ms = self._wall.largest_step_ms
        for fanout in (self._audio, *self._video.values()):
            fanout.release()
        stopping: dict[str, Callable[[], None]] = {t: c.stop for t, c in self.devices.cameras.items()}
        if self.devices.microphone is not None:
            stopping["microphone"] = self.devices.microphone.stop
        try:
            together(5.0, stopping)
            for watch in self._watches():
                watch.close()
            if self._recorder is not None:
                finishing()
                self._finish(self._recorder)
        finally:
            folder = self._folder
            if folder is not None:
                with suppress(HearthError):
                    within(10.0, "removing the test", lambda: shutil.rmtree(folder, ignore_errors=True))

    def _finish(self, recorder: Recorder) -> None:
        """Let the recorder finish the episode and look at what it wrote."""
        result = self.result
        try:
            recording = within(
                self.limit.part(60.0), "finishing the test recording", lambda: recorder.stop(report=False)
            )
            problems = (
                [p.message for p in recording.episode.verify().problems]
                if recording.frames
                else ["no sound was written"]
            )
            if problems:
                raise DeviceError(f"the test recording is not what was recorded: {problems[0]}")
            result.recorded = f"{recording.seconds:.1f} s were recorded, finished and verified"
            result.need = _need(recording.path, recording.seconds)
            for line in recording.episode.timeline():
                if line["type"] == "gap":
                    cause = str(line["cause"])
                    result.gaps[cause] = result.gaps.get(cause, 0) + 1
            source = recording.episode.profile.source
            result.encoders = {
                "camera": str((source.get("video") or {}).get("encoder") or ""),
                **{
                    f"camera {n}": str(v.get("encoder") or "")
                    for n, v in source.get("more_videos", {}).items()
                },
            }
        except Exception as error:  # whatever it is, the report names it
            result.problem = as_error(error)

    def _cpu_parts(self, cpu: CpuWatch) -> dict[str, float]:
        """What recording takes, without the doctor's own looking and drawing."""
        names = {t.native_id: t.name for t in threading.enumerate()}
        writing = doctor = 0.0
        for thread, percent in cpu.thread_percent.items():
            if thread in self._own_threads:
                doctor += percent
            elif names.get(thread, "").startswith(("record ", "hearth-")):
                writing += percent
        # The rest are the sources' threads, and those of libraries, which Python does not know.
        return {"writing": writing, "sources": max(0.0, cpu.own_percent - doctor - writing), "doctor": doctor}


def _starter(source: AudioSource | VideoSource, fanout: Fanout) -> Callable[[], None]:
    return lambda: source.start(fanout.sink)


def _need(episode: Path, seconds: float) -> Need | None:
    """Bytes per second by file, from a finished episode."""
    if seconds <= 0:
        return None
    streams: dict[str, float] = {}
    for path in episode.rglob("*"):
        name = path.parent.name if path.parent != episode else path.stem
        if path.is_file() and (path.suffix in (".wav", ".mkv") or name == "timeline"):
            streams[name] = streams.get(name, 0.0) + path.stat().st_size / seconds
    return Need(streams, measured=True)


def remove_left_behind(folder: Path) -> None:
    """Remove test recordings of a doctor that was killed; nothing else looks like them."""
    place = nearest(folder)
    for left in place.glob(f"{_FOLDER}*"):
        pid = left.name.removeprefix(_FOLDER).partition("-")[0]
        if pid.isdigit() and not Path(f"/proc/{pid}").exists():
            shutil.rmtree(left, ignore_errors=True)
