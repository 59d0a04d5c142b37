"""Takes of a running rig: begun and ended while sound, pictures and stream go on."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from capture.blocks import monotonic_ns
from capture.fanout import Fanout
from capture.rig import Rig
from dsp.errors import InputError
from edge.mute import MUTED, Held
from edge.stream import Header

if TYPE_CHECKING:
    from capture.recorder import Recorder, Recording
    from capture.sources import OpenedRig
    from recordings.profile import Profile

log = logging.getLogger(__name__)

SOURCE_KINDS = ("gap", "ended", "lost", "returned", "overflow", "stalled", "error")
SAME_SECOND = 20  # takes of one name within one second
_NICE = 10  # of the thread that finishes an episode: sound that comes now goes first


class Takes:
    """Begins, ends and finishes takes of an opened rig; one at a time runs, others may still be finished.

    event: tells everybody, `event(kind, **data)`. changed: is called when a take began, ended or is finished.
    """

    def __init__(
        self,
        rig: Rig,
        opened: OpenedRig,
        audio: Fanout,
        video: Fanout | None,
        further: Mapping[str, Fanout],
        *,
        event: Callable[..., None],
        changed: Callable[[], object],
    ) -> None:
        self.recorder: Recorder | None = None  # of the take that runs
        self.last: Recording | None = None
        self.since_ns: int | None = None
        self.done: list[str] = []  # folders of finished takes, in order
        self.rig, self._opened = rig, opened  # the rig that the next take goes by
        self._audio, self._video, self._further = audio, video, further
        self._event, self._changed = event, changed
        self._lock = threading.RLock()
        self._finishing: dict[str, threading.Thread] = {}

    def profile(self, name: str | None, fields: Mapping[str, Any] | None = None) -> Profile:
        """What a take that is asked for by name is; fields: of the profile. Raises InputError."""
        from capture.take import new_profile
        from recordings.writer import new_episode_id

        if name is not None and not (isinstance(name, str) and 0 < len(name) <= 80):
            raise InputError(f"the name of a take is a text of 1 to 80 characters, not {name!r}")
        given = dict(fields or {})
        own = {"id", "session", "created_utc", "origin", "rig", "source", "interrupted"} & set(given)
        if own:
            raise InputError(f"the rig itself says {', '.join(sorted(own))} of a take; leave that out")
        identity = new_episode_id(name) if name else None
        return new_profile(self.rig, self._opened, "live", id=identity, **given)

    def begin(self, profile: Profile) -> Recorder:
        """Begin a take; the sources may run already. Raises InputError when one runs, when the disk is nearly
        full, or for a profile that is none; StorageError when the folder cannot be written."""
        from capture.recorder import Recorder

        with self._lock:
            if self.recorder is not None:
                raise InputError(f"a take is running: {self.recorder.path.name}; end it first")
            recorder = Recorder(
                self.rig, self._opened, self._free(profile), self._audio, self._video, further=self._further
            )
            recorder.start()
            self.recorder, self.since_ns = recorder, monotonic_ns()
        self._changed()
        return recorder

    def _free(self, profile: Profile) -> Profile:
        """The profile under an id that no folder has: ids count seconds, and a take may be shorter."""
        import msgspec

        folder = Path(self.rig.storage.folder) / profile.session
        names = [profile.id, *(f"{profile.id}-{number}" for number in range(2, SAME_SECOND))]
        free = next((name for name in names if not (folder / name).exists()), profile.id)
        return profile if free == profile.id else msgspec.structs.replace(profile, id=free)

    def end(self, held: Mapping[str, Held] | None = None) -> None:
        """End the take that runs and finish its episode in the background; the event `recorded` (or
        `recording_failed`) tells when it is done. held: what a mute keeps back, when one is on."""
        with self._lock:
            if self.recorder is None:
                return
            recorder, self.recorder, self.since_ns = self.recorder, None, None
            self.note_muted(held or {}, recorder, at_end=True)
            thread = threading.Thread(target=self._finish, args=(recorder,), name="finish take", daemon=True)
            self._finishing[recorder.path.name] = thread
            thread.start()
        self._changed()

    @property
    def finishing(self) -> list[str]:
        """Names of the episodes that are ended and not yet finished."""
        with self._lock:
            return list(self._finishing)

    def look(self) -> None:
        """End a take that cannot go on (full disk, error): the stream can."""
        recorder = self.recorder
        if recorder is not None and recorder.stop_reason in ("disk", "error"):
            self.end()

    def close(self, held: Mapping[str, Held] | None = None) -> None:
        """End and finish what there is. The sources are stopped. Raises what made the running take fail."""
        with self._lock:
            recorder, self.recorder, self.since_ns = self.recorder, None, None
            threads = list(self._finishing.values())
        for thread in threads:
            thread.join()
        if recorder is not None:
            self.note_muted(held or {}, recorder, at_end=True)
            self._recorded(recorder.stop())

    def note(self, header: Header) -> None:
        """A listener of the publisher: events, the home and the state belong in the episode's timeline."""
        recorder = self.recorder
        if recorder is None:
            return
        data = dict(header.data)
        kind = str(data.pop("kind", header.stream))
        if kind in SOURCE_KINDS and "source" in data:
            return  # the recorder writes what happens to sources itself
        try:
            recorder.event(kind, header.t_ns, **{k: v for k, v in data.items() if k not in ("t_ns", "type")})
        except Exception:
            log.exception("an event could not be written to the timeline: %s", kind)

    def note_muted(
        self, held: Mapping[str, Held], recorder: Recorder | None = None, at_end: bool = False
    ) -> None:
        """Put what a mute kept back into the timeline as gaps. The sound's own gap comes with its next block,
        so it is only noted here when there will be none."""
        recorder = recorder or self.recorder
        if recorder is None:
            return
        for stream, what in held.items():
            if stream != "audio":
                recorder.writer.gap(stream, what.since_ns, MUTED, dropped=what.count)
            elif at_end:
                recorder.writer.gap(stream, what.since_ns, MUTED, detail="until the end of the take")

    def _finish(self, recorder: Recorder) -> None:
        with suppress(OSError, AttributeError):  # on Linux this is of the thread, and of those it starts
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICE)
        try:
            self._recorded(recorder.stop())
        except Exception as error:
            log.exception("the recording failed; the stream goes on")
            with suppress(Exception):
                self._event("recording_failed", path=str(recorder.path), detail=str(error))
        with self._lock:
            self._finishing.pop(recorder.path.name, None)
        with suppress(Exception):
            self._changed()

    def _recorded(self, recording: Recording) -> None:
        self.last = recording
        self.done.append(str(recording.path))
        self._event("recorded", path=str(recording.path), stop_reason=recording.stop_reason)
