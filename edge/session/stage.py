"""Where takes are recorded: the virtual room, a scene per item; or a rig whose devices stay open all day."""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from capture.fanout import Fanout
from capture.recorder import Recorder
from capture.recording import Meter
from capture.rig import Rig, load_rig
from capture.take import Take, new_profile
from edge.home.schema import DEVICE_TYPES
from edge.home.twin import Home, HomeDevice
from edge.session.words import room_of
from recordings.plan.model import Plan, PlanItem, PlanRoom
from recordings.profile import Profile

if TYPE_CHECKING:
    from capture.sources import OpenedRig

log = logging.getLogger(__name__)

_KEEPS_OPEN = ("sounddevice", "pyaudio")  # microphones that go on between takes; a file begins anew


def home_for(item: PlanItem) -> Home:
    """The twin of the home as the item begins. Devices of a type that the twin does not know are left out."""
    known = [device for device in item.home.devices if device.type in DEVICE_TYPES]
    return Home(
        [HomeDevice(d.id, d.type, d.name, d.room, d.position_m) for d in known],
        {device.id: dict(device.attributes) for device in known},
    )


class Setting(Protocol):
    """An item, set and ready to be recorded once. `home` is its home twin: what is changed in it while the
    take runs is heard and seen in the virtual room, and stands in the timeline."""

    home: Home
    virtual: bool

    def profile(self, session: str, **fields: Any) -> Profile:
        """The profile of a take of it; fields: of Profile. Raises InputError."""
        ...

    def begin(
        self, profile: Profile, root: Path, seconds: float | None, on_meter: Callable[[Meter], None] | None
    ) -> Recorder:
        """Make the episode's folder. Raises what `Recorder.start` raises."""
        ...

    def run(self) -> None:
        """Record until the take ends; `Recorder.stop` then finishes it."""
        ...

    def close(self) -> None:
        """Give back what is of this item alone, after the recorder was stopped."""
        ...


class _Attached:
    """What both settings share: the home's changes go into the timeline, and into the virtual scene."""

    def __init__(self, item: PlanItem, rig: Rig, opened: OpenedRig) -> None:
        self.item, self.rig, self.opened = item, rig, opened
        self.home = home_for(item)
        self.virtual = opened.scene is not None
        self._recorder: Recorder | None = None
        if opened.scene is not None:
            self.home.listen(opened.scene.set_device)
        self.home.listen(self._changed)

    def profile(self, session: str, **fields: Any) -> Profile:
        """See Setting."""
        return new_profile(self.rig, self.opened, session, **fields)

    def _changed(self, device_id: str, changed: dict[str, Any]) -> None:
        if self._recorder is not None:
            self._recorder.event("home", device_id=device_id, changed=changed)


class ScenePlayed(_Attached):
    """A scene (or a file) with devices of its own, opened for this item and closed after it."""

    def __init__(self, item: PlanItem, rig: Rig, opened: OpenedRig) -> None:
        super().__init__(item, rig, opened)
        self._take: Take | None = None

    def begin(
        self, profile: Profile, root: Path, seconds: float | None, on_meter: Callable[[Meter], None] | None
    ) -> Recorder:
        """See Setting."""
        limit = None if self.virtual else seconds
        self._take = Take(self.rig, self.opened, profile, seconds=limit, root=root, on_meter=on_meter)
        self._take.recorder.start()
        self._recorder = self._take.recorder
        return self._take.recorder

    def run(self) -> None:
        """See Setting."""
        assert self._take is not None
        self._take.run()

    def close(self) -> None:
        """See Setting."""
        self.opened.close()
        self._take = self._recorder = None


class RigKeptOpen(_Attached):
    """A take of devices that run from the first take in a room to the last."""

    def __init__(self, item: PlanItem, room: _OpenRoom) -> None:
        super().__init__(item, room.rig, room.opened)
        self._room = room

    def begin(
        self, profile: Profile, root: Path, seconds: float | None, on_meter: Callable[[Meter], None] | None
    ) -> Recorder:
        """See Setting."""
        room = self._room
        self._recorder = Recorder(
            self.rig,
            self.opened,
            profile,
            room.audio,
            room.video,
            further=room.further,
            root=root,
            on_meter=on_meter,
            max_seconds=seconds,
        )
        self._recorder.start()
        return self._recorder

    def run(self) -> None:
        """See Setting."""
        assert self._recorder is not None
        self._recorder.done.wait()

    def close(self) -> None:
        """See Setting."""
        self._recorder = None


class _OpenRoom:
    """The devices of a room's rig, running."""

    def __init__(self, path: str | None, rig: Rig, opened: OpenedRig) -> None:
        self.path, self.rig, self.opened = path, rig, opened
        self.audio = Fanout()
        self.video = Fanout() if opened.camera is not None else None
        self.further = {name: Fanout() for name in opened.further}
        sinks = {name: fanout.sink for name, fanout in self.further.items()}
        opened.start(self.audio.sink, self.video.sink if self.video is not None else None, sinks)

    def close(self) -> None:
        self.opened.close()


@dataclass
class _Ahead:
    item: PlanItem
    take: int
    future: Future[Setting]


class Stage:
    """Sets one item after the other. rig: of all rooms, instead of each room's own; storage: the data folder.

    One setting at a time; the next may be prepared (`ahead`) while a take is recorded or finished.
    """

    def __init__(self, plan: Plan, storage: Path, rig: Path | None = None) -> None:
        self.plan, self.storage, self._rig = plan, storage, rig
        self._room: _OpenRoom | None = None
        self._pool = ThreadPoolExecutor(1, "set scene")
        self._ahead: _Ahead | None = None
        self._rigs: dict[str, Rig] = {}

    def rig_path(self, room: PlanRoom) -> str | None:
        """The rig file that a room is recorded with; None: the virtual room."""
        return str(self._rig) if self._rig is not None else room.rig

    def is_virtual(self, item: PlanItem) -> bool:
        """Whether an item is recorded in the virtual room, with nobody real in it."""
        path = self.rig_path(room_of(self.plan, item))
        return path is None or "virtual" in self._sources(self._load(path))

    def ahead(self, item: PlanItem, take: int) -> None:
        """Begin to prepare what will probably be the next item, where that takes time (a virtual scene)."""
        if self._ahead is not None or not self.is_virtual(item):
            return
        self._ahead = _Ahead(item, take, self._pool.submit(self.open_scene, item, take))

    def set(self, item: PlanItem, take: int) -> Setting:
        """An item, ready to be recorded. Raises DeviceError, InputError (see capture.open_rig)."""
        prepared, self._ahead = self._ahead, None
        if prepared is not None and prepared.item is item and prepared.take == take:
            return prepared.future.result()
        if prepared is not None:
            _discard(prepared.future)
        path = self.rig_path(room_of(self.plan, item))
        if path is None or self.is_virtual(item):
            return self._pool.submit(self.open_scene, item, take).result()
        rig = self._load(path)
        if rig.microphone.source not in _KEEPS_OPEN:
            return ScenePlayed(item, self._here(rig, item), self._open(rig))
        if self._room is None or self._room.path != path:
            self._leave()
            self._room = _OpenRoom(path, rig, self._open(rig))
        room = self._room
        room.rig = self._here(rig, item)
        return RigKeptOpen(item, room)

    def open_scene(self, item: PlanItem, take: int) -> Setting:
        """The virtual room as the item wants it: who stands where, what is said, which devices are heard.
        take: its number; another one has other noise."""
        from capture.sources import open_rig
        from capture.virtual.staged import staged_request, staged_rig

        rig = staged_rig(item, self.plan, storage=str(self.storage), take=take)
        return ScenePlayed(item, rig, open_rig(rig, staged_request(item, self.plan)))

    def close(self) -> None:
        """Give all devices back."""
        if self._ahead is not None:
            _discard(self._ahead.future)
            self._ahead = None
        self._leave()
        self._pool.shutdown()

    def _leave(self) -> None:
        if self._room is not None:
            self._room.close()
            self._room = None

    def _open(self, rig: Rig) -> OpenedRig:
        from capture.sources import open_rig

        return open_rig(rig)

    def _load(self, path: str) -> Rig:
        if path not in self._rigs:
            self._rigs[path] = load_rig(path)
        return self._rigs[path]

    @staticmethod
    def _sources(rig: Rig) -> tuple[str, str]:
        return rig.microphone.source, rig.camera.source

    def _here(self, rig: Rig, item: PlanItem) -> Rig:
        """The rig in the item's room: a rig file of another room must not name that one's devices."""
        ids = {device.id for device in rig.room.devices}
        if all(d.id in ids for d in item.home.devices if d.room == item.staging.room):
            return rig
        name = item.staging.room
        room = msgspec.structs.replace(
            rig.room, name=name, size_m=room_of(self.plan, item).size_m, devices=()
        )
        return msgspec.structs.replace(rig, room=room)


def _discard(future: Future[Setting]) -> None:
    """A scene that is not wanted after all."""

    def close(done: Future[Setting]) -> None:
        with suppress(Exception):
            done.result().close()

    if not future.cancel():
        future.add_done_callback(close)
