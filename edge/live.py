"""The live service: sources, takes and live chain side by side, with the stream and the commands."""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from capture.blocks import AudioBlock, monotonic_ns
from capture.disk_room import check_room, free_bytes
from capture.fanout import Fanout
from capture.machine import temperature_c
from capture.rig import Rig
from capture.steady_memory import keep_memory_steady
from dsp.errors import DeviceError, InputError
from edge.latency_budget import StageTimes
from edge.live_chain import RATE_HZ, AudioChain, AudioWorker, VideoWorker
from edge.mute import Gate, Mute
from edge.rigs.identity import rig_id
from edge.stream import Access, CommandServer, Publisher
from edge.stream.addresses import check_free
from edge.takes import Takes
from recordings.episode import video_stream

if TYPE_CHECKING:
    from capture.recorder import Recorder
    from capture.recording import Recording
    from capture.sources import OpenedRig
    from edge.home.timeline import Timeline
    from edge.home.twin import Home
    from recordings.profile import Profile

log = logging.getLogger(__name__)

# The live chain may be this far behind before it loses a block: 4 s at 10 ms. The recorder never loses any.
AUDIO_QUEUE = 400
VIDEO_QUEUE = 2
HEALTH_S = 1.0
MIB = 1 << 20


def check_ready(rig: Rig, record: bool) -> None:
    """Raise what can be known before a room is rendered or a device opened: an address that is wrong or in
    use or needs keys that are not there (InputError, DeviceError), a folder that cannot be recorded to
    (StorageError, InputError)."""
    access = access_of(rig)
    check_free(rig.endpoints.stream, "stream", access)
    check_free(rig.endpoints.commands, "commands", access)
    if record:
        check_room(Path(rig.storage.folder), rig.storage.min_free_mib)


def access_of(rig: Rig) -> Access:
    """Who may come to the rig's sockets. Raises InputError when keys are needed and not there."""
    everywhere = rig.security.loopback == "keys"
    return Access.to_rig(
        rig.security.keys, rig.endpoints.stream, rig.endpoints.commands, everywhere=everywhere
    )


class LiveService:
    """A rig that runs: everything it hears and sees goes to the stream, and into an episode when recording.

    rig, opened: the description and its opened devices (capture.open_rig); the caller closes `opened`.
    home:    the home twin; its commands are answered, its state is on the stream, a virtual scene follows it.
    record:  begin with a take; `profile` then says what it is. `record_take` begins and ends further ones.
    mute_file: stands while the rig is muted; a rig that finds it starts muted.

    The sockets are bound when the object is made (`stream_address`, `commands_address`), so subscribers can
    be ready before the first block; `start` starts the sources. Where they ask for keys, programs of this
    user on this host use `local_stream_address` and `local_commands_address`. Raises InputError for a
    microphone that is no FOA or an address off loopback without keys, DeviceError for an address in use.
    """

    def __init__(
        self,
        rig: Rig,
        opened: OpenedRig,
        home: Home | Timeline | None = None,
        record: bool = False,
        profile: Profile | None = None,
        mute_file: Path | None = None,
    ) -> None:
        if record and profile is None:
            raise InputError("recording needs a profile that says what the episode is")
        self.rig, self.opened, self.home = rig, opened, home
        self._profile = profile if record else None
        self._times = StageTimes()
        fast = "fast" in (rig.microphone.pace, rig.camera.pace)
        self._audio = Fanout(hold_at=AUDIO_QUEUE if fast else None)
        self._video = Fanout(hold_at=50 if fast else None) if opened.camera is not None else None
        # Further cameras are recorded, in any take; the stream carries the main one.
        self._further = {name: Fanout() for name in opened.further}
        self._stopping = threading.Event()
        self._began_ns: int | None = None
        self._ended_ns: int | None = None
        self._start_s = 0.0
        self._process = ProcessMeter()
        self._threads: list[threading.Thread] = []
        self._video_worker: VideoWorker | None = None
        self._stopped = False
        self._running = False
        self.health: dict[str, Any] = {}  # as published last
        self._switching = threading.RLock()  # of mute and takes: one change at a time, told in its order
        self.failed = threading.Event()  # a part of the live chain ended with an error; `stop` raises it
        self.access = access_of(rig)
        self.publisher = Publisher(rig.endpoints.stream, access=self.access)
        try:
            self.commands = CommandServer(rig.endpoints.commands, self.access)
        except BaseException:
            self.publisher.close()
            raise
        try:
            correction = opened.calibrations.correction(opened.audio_info.format)
            chain = AudioChain(self.publisher, opened.audio_info, self._times, correction)
            queue = None if fast else AUDIO_QUEUE
            self._audio_worker = AudioWorker(
                self._audio.subscribe("live audio", maxsize=queue), chain, self.publisher
            )
            if self._video is not None:
                self._video_worker = VideoWorker(
                    self._video.subscribe("live video", maxsize=VIDEO_QUEUE), self.publisher, self._times
                )
            self._takes = Takes(
                rig,
                opened,
                self._audio,
                self._video,
                self._further,
                event=self.event,
                changed=self._publish_state,
            )
            self._mute = self._make_mute(mute_file)
            self.publisher.listen(self._takes.note)
            if home is not None:
                self._attach(home)
            self.commands.register("live.stats", self.stats)
            self._id = rig_id(rig.id, rig.storage.folder)
            self.commands.register("rig.describe", self.describe)
            self.commands.clients.listen(lambda kind, fields: self.event(kind, **fields))
            self.access.listen(lambda kind, fields: self.event(kind, **fields))
            self.commands.register("live.mute", self.mute)
            self.commands.register("live.record", self.record_take)
            if self._mute.remembered:
                self._mute.shut()
            self._publish_state()
        except BaseException:
            self.commands.close()
            self.publisher.close()
            raise

    @property
    def stream_address(self) -> str:
        return self.publisher.address

    @property
    def commands_address(self) -> str:
        return self.commands.address

    @property
    def local_stream_address(self) -> str:
        return self.publisher.local_address

    @property
    def local_commands_address(self) -> str:
        return self.commands.local_address

    @property
    def ended(self) -> threading.Event:
        """Set when a finite source (a file, a scene with an end) is over."""
        return self._audio_worker.ended

    def __enter__(self) -> LiveService:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Load the kernels, then start recorder, chain and sources. Returns when sound is on its way."""
        began = time.monotonic()
        keep_memory_steady()
        warm(self.opened)
        self._running = True
        if self.home is not None:
            self.home_service.start()
        if self._profile is not None:
            self._takes.begin(self._profile)
        else:
            self._publish_state()
        self._audio_worker.start()
        if self._video_worker is not None:
            self._video_worker.start()
        self._began_ns = monotonic_ns()
        thread = threading.Thread(target=self._watch, name="live health", daemon=True)
        self._threads.append(thread)
        thread.start()
        self._process = ProcessMeter()
        gates = self._gates
        sinks = {name: gates[video_stream(name)].sink for name in self._further}
        self.opened.start(
            gates["audio"].sink, gates["video"].sink if self._video is not None else None, sinks
        )
        self._start_s = time.monotonic() - began

    def stop(self) -> dict[str, Any]:
        """Stop the sources, send what is still inside, finish the episode, end the stream; returns `stats()`.

        Safe to call twice. Raises what ended a worker or the recorder, after everything is closed.
        """
        if self._stopped:
            return self.stats()
        self._stopped = True
        workers = [w for w in (self._audio_worker, self._video_worker) if w is not None]
        self._audio.release()
        if self._video is not None:
            self._video.release()
        with contextlib.ExitStack() as last:
            last.callback(self.publisher.close)
            last.callback(self.commands.close)
            self.opened.stop()
            self._ended_ns = monotonic_ns()  # finishing an episode is not part of the run
            for worker in workers:
                worker.subscription.close()
            self._stopping.set()
            if self.home is not None:
                self.home_service.close()
            if self._began_ns is not None:
                for thread in (*workers, *self._threads):
                    thread.join()
                self.commands.close()
                last.callback(self._publish_state)
                last.callback(setattr, self, "_running", False)
                self._takes.close(self._mute.held if self._mute.on else None)
        for worker in workers:
            if worker.error is not None:
                raise worker.error
        return self.stats()

    @property
    def recorder(self) -> Recorder | None:
        """Of the take that runs; None when none does."""
        return self._takes.recorder

    @property
    def recording(self) -> Recording | None:
        """The take that was finished last."""
        return self._takes.last

    @property
    def heard(self) -> int | None:
        """Blocks of sound that went the whole way, or were kept back by the mute; a service that hangs stays
        where it is. None while the microphone is lost and waited for."""
        worker = self._audio_worker
        return None if worker.away else worker.passed + self._gates["audio"].kept_back

    @property
    def ending(self) -> bool:
        """It was asked to stop."""
        return self._stopped

    @property
    def stage_totals(self) -> dict[str, tuple[int, int]]:
        """By stage of the latency budget: passages, and those beyond the limit, since the start."""
        return self._times.totals()

    def follow(self, rig: Rig) -> None:
        """Go on under another description of the same rig: the home's devices and people, and what the next
        take goes by. What was opened stays; edge.service.reload tells what may differ. Raises InputError."""
        with self._switching:
            if self.home is not None:
                self.home_service.follow(rig)
            elif rig.room.devices:
                from edge.home.service import home_of

                home = home_of(rig)
                self.rig, self.home = rig, home
                self._attach(home)
            self.rig = self._takes.rig = rig

    @property
    def muted(self) -> bool:
        """Nothing heard or seen leaves this process."""
        return self._mute.on

    def mute(self, muted: bool) -> dict[str, Any]:
        """Hard mute: when this returns, nothing that is heard or seen is published or recorded any more,
        until it is switched off. Returns the state. Raises InputError for anything but true and false."""
        if not isinstance(muted, bool):
            raise InputError(f"`muted` is true or false, not {muted!r}")
        with self._switching:
            if muted and not self._mute.on:
                self._mute.shut()
            elif not muted and self._mute.on:
                self._takes.note_muted(self._mute.open())
            return self._publish_state()

    def record_take(
        self, on: bool, name: str | None = None, profile: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        """Begin a take (name: of its folder; profile: fields of episode.yaml), or end the one that runs: its
        episode is then finished in the background, and the event `recorded` tells its path.

        Returns the state. Raises InputError when a take runs already, while muted or not started, for a
        profile that is none or a disk that is nearly full; StorageError.
        """
        if not isinstance(on, bool):
            raise InputError(f"`on` is true or false, not {on!r}")
        with self._switching:
            if not on:
                self._takes.end(self._mute.held if self._mute.on else None)
            elif self._mute.on:
                raise InputError("the rig is muted, so there is nothing to record; end the mute first")
            elif not self._running or self._stopped:
                raise InputError("the rig is not running, so there is nothing to record")
            else:
                self._takes.begin(self._takes.profile(name, profile))
            return self.state()

    def state(self) -> dict[str, Any]:
        """What the rig does with what it hears and sees; the stream `state`."""
        recorder = self._takes.recorder
        light = "off"
        if self._running:
            light = "muted" if self._mute.on else "ready" if recorder is None else "recording"
        return {
            "muted": self._mute.on,
            "recording": recorder is not None,
            "recording_path": None if recorder is None else str(recorder.path),
            "episode": None if recorder is None else recorder.path.name,
            "recording_since_ns": self._takes.since_ns,
            "finishing": self._takes.finishing,
            "light": light,
        }

    def _publish_state(self) -> dict[str, Any]:
        with self._switching:
            state = self.state()
            with contextlib.suppress(DeviceError):  # the stream has ended
                self.publisher.publish("state", monotonic_ns(), data=state)
        return state

    def _make_mute(self, remember: Path | None) -> Mute:
        self._gates = {"audio": Gate(self._audio.sink)}
        if self._video is not None:
            self._gates["video"] = Gate(self._video.sink)
        self._gates |= {video_stream(name): Gate(fanout.sink) for name, fanout in self._further.items()}
        workers = [w for w in (self._audio_worker, self._video_worker) if w is not None]
        return Mute(self._gates, tuple(worker.door for worker in workers), remember)

    @property
    def id(self) -> str:
        """Of this rig among several."""
        return self._id[0]

    def describe(self) -> dict[str, Any]:
        """Which rig this is, among several; see edge.rigs."""
        name, lasting = self._id
        rig = self.rig
        return {
            "id": name,
            "lasting": lasting,
            "name": rig.name,
            "room": rig.room.name,
            "run": self.publisher.epoch,
        }

    def event(self, kind: str, t_ns: int | None = None, **data: Any) -> None:
        """Tell everybody that something happened; it also goes into the timeline when recording."""
        self.publisher.publish("event", monotonic_ns() if t_ns is None else t_ns, data={"kind": kind, **data})

    def stats(self) -> dict[str, Any]:
        """What happened so far: blocks, gaps, drops, queue depths, messages sent, commands, CPU and memory.

        start_s: how long `start` took; cpu_percent: of one core, since then, of this process.
        """
        chain = self._audio_worker.chain
        audio, video = self._audio_worker.subscription, self._video_worker
        stats: dict[str, Any] = {
            "seconds": round(((self._ended_ns or monotonic_ns()) - self._began_ns) / 1e9, 3)
            if self._began_ns
            else 0.0,
            "blocks": chain.blocks,
            "gaps": chain.gaps,
            "lost_frames": chain.lost_frames,
            "blocks_dropped": audio.dropped,
            "audio_queue": audio.depth,
            "pictures": video.pictures if video else 0,
            "pictures_dropped": (video.dropped + video.subscription.dropped) if video else 0,
            "video_queue": video.subscription.depth if video else 0,
            "sent": self.publisher.sent,
            "commands": self.commands.served,
            "commands_rejected": dict(self.commands.rejected),
            "start_s": round(self._start_s, 3),
            **self._process.read(),
        }
        if self.recording is not None:
            stats["recording"] = self.recording.to_dict()
            stats["recordings"] = list(self._takes.done)
        return stats

    def _attach(self, home: Home | Timeline) -> None:
        """Answer the home's commands; what changes in the home changes in the virtual scene too."""
        from edge.home.service import HomeService
        from edge.home.twin import Home
        from edge.safety.guard import Guard
        from edge.safety.rules_file import load_rules

        own = self.rig.home.safety_rules
        rules = None if own is None else load_rules(Path(own))
        service = HomeService(
            self.rig,
            home,
            self.commands,
            self.publisher,
            calibrations=self.opened.calibrations,
            guard=Guard(home if isinstance(home, Home) else home.home, rules),
            # A twin begins anew with each run, and what was scheduled for it with it.
            kept=None if isinstance(home, Home) else Path(self.rig.storage.folder) / "home_schedule.json",
        )
        self.home_service = service
        scene = self.opened.scene
        if scene is not None:
            here = {device.id for device in self.rig.room.devices}  # a home may have more rooms
            service.home.listen(
                lambda device_id, changed: scene.set_device(device_id, changed) if device_id in here else None
            )
            if self.rig.home.kind != "twin":  # a real home is as it is, whatever the scene began with
                for device in service.home.devices:
                    if device.id in here:
                        scene.set_device(device.id, service.home.state(device.id))
        if self._running:
            service.start()

    def _watch(self) -> None:
        """Publish health once a second."""
        meter = ProcessMeter()  # a new one each second: health tells the last second's
        while not self._stopping.wait(HEALTH_S):
            data = {**self.stats(), **meter.read(), **self._clock(), **self._machine()}
            data["clients"] = self.commands.clients.to_list()
            data["stages"] = {**self._times.take(), **self._times.receive(data["clients"])}
            meter = ProcessMeter()
            data.pop("sent")
            data["security"] = self.access.to_dict()
            self.health = data
            self._look_after_workers()
            self._takes.look()
            with contextlib.suppress(Exception):
                self.publisher.publish("health", monotonic_ns(), data=data)

    def _look_after_workers(self) -> None:
        for worker in (self._audio_worker, self._video_worker):
            if worker is not None and worker.error is not None and not self.failed.is_set():
                self.event("failed", part=worker.name, detail=str(worker.error))
                log.error("%s failed", worker.name, exc_info=worker.error)
                self.failed.set()

    def _machine(self) -> dict[str, Any]:
        """Room for recordings, and the hottest sensor of this computer; None where that is not known."""
        try:
            free: int | None = free_bytes(Path(self.rig.storage.folder)) // MIB
        except OSError:
            free = None
        hottest = temperature_c()
        return {
            "disk_free_mib": free,
            "temperature_c": None if hottest is None else round(hottest[0], 1),
            "temperature_of": None if hottest is None else hottest[1],
        }

    def _clock(self) -> dict[str, float | None]:
        """Drift of the microphone's clock in ppm, as far as the source knows it."""
        state = getattr(self.opened.microphone, "clock_state", None)
        if state is None or not np.isfinite(state.drift_sigma_ppm):
            return {"drift_ppm": None, "drift_sigma_ppm": None}
        return {"drift_ppm": round(state.drift_ppm, 3), "drift_sigma_ppm": round(state.drift_sigma_ppm, 3)}


class ProcessMeter:
    """CPU and memory of this process."""

    def __init__(self) -> None:
        self._cpu, self._wall = time.process_time(), time.monotonic()

    def read(self) -> dict[str, float | None]:
        """cpu_percent of one core since this object was made; rss_mib now (None without /proc)."""
        cpu, wall = time.process_time(), time.monotonic()
        percent = 100.0 * (cpu - self._cpu) / max(wall - self._wall, 1e-9)
        try:
            pages = int(Path("/proc/self/statm").read_text().split()[1])
            rss: float | None = round(pages * os.sysconf("SC_PAGE_SIZE") / (1 << 20), 1)
        except (OSError, ValueError, IndexError):
            rss = None
        return {"cpu_percent": round(percent, 1), "rss_mib": rss}


def warm(opened: OpenedRig) -> None:
    """Run the whole chain once on noise, so that the first real block is not late.

    Loading the kernels takes about a second, compiling them (once per machine) up to half a minute; after
    this call a block takes a millisecond.
    """
    import cv2

    with Publisher("tcp://127.0.0.1:0") as nobody:
        info = opened.audio_info
        chain = AudioChain(nobody, info, correction=opened.calibrations.correction(info.format))
        noise = np.random.default_rng(0).integers(-(1 << 28), 1 << 28, (info.rate_hz // 4, info.channels))
        samples = noise.astype(np.int32)
        chain.push(AudioBlock(0, 0, 0, info.rate_hz, samples, 0))
        chain.finish()
    cv2.imencode(".jpg", np.zeros((16, 16, 3), np.uint8))


__all__ = ["RATE_HZ", "LiveService", "ProcessMeter", "warm"]
