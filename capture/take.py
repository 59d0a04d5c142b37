"""One take from start to finish: sources, fan-outs and recorder together."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import asdict
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from capture.fanout import Fanout
from capture.recorder import Recorder
from capture.recording import Meter, Recording
from capture.rig import Rig, rig_to_dict
from capture.stop_signals import StopSignals
from dsp.errors import InputError
from recordings.profile import Consent, HomeState, Profile, check_fields
from recordings.writer import new_episode_id

if TYPE_CHECKING:
    from capture.sources import OpenedRig

_REQUEST = ("request", "grounding", "query", "feasibility", "target_device", "goal")  # what it asks for


def new_profile(rig: Rig, opened: OpenedRig, session: str, **fields: Any) -> Profile:
    """The profile of a new take: id from the time and the request, the rig, what the devices really are.

    fields: any of Profile's, None for what is not known. In the virtual room what they leave open comes from
    the scene. Raises InputError for a value that the profile does not allow, and for a target device that
    is none of the rig's (nor of `home`), when the rig lists devices.
    """
    check_take(rig, {"session": session, **fields})
    given = {key: value for key, value in fields.items() if value is not None}
    if opened.scene is not None:
        scene = opened.scene.episode_fields()
        if any(key in given and given[key] != scene.get(key) for key in _REQUEST):
            # Another request: the scene's target and goal would be a wrong truth for it.
            scene = {key: scene[key] for key in ("home", "speaker") if key in scene}
        given = {**scene, **given}
        given.setdefault("consent", Consent(recording="not_needed", sharing="not_needed"))
    plain = {
        "session": session,
        "created_utc": datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "origin": "recorded" if opened.scene is None else "virtual",
        "rig": rig_to_dict(rig),
        "source": {
            "microphone": asdict(opened.audio_info),
            "camera": None if opened.video_info is None else asdict(opened.video_info),
            **({"more_cameras": {n: asdict(i) for n, i in opened.infos.items()}} if opened.infos else {}),
        },
        **{key: msgspec.to_builtins(value) for key, value in given.items()},
    }
    words = "-".join(str(plain.get("request") or session).lower().split()[:5])
    plain.setdefault("id", new_episode_id(words))
    try:
        return msgspec.convert(plain, Profile)
    except msgspec.ValidationError as error:
        raise InputError(f"the episode's profile: {error}") from None


def check_take(rig: Rig, fields: dict[str, Any]) -> None:
    """Raise InputError for what `new_profile` would refuse; needs no device, so it can be asked first."""
    given = {key: value for key, value in fields.items() if value is not None}
    ids = [device.id for device in rig.room.devices]
    home, target = given.get("home"), given.get("target_device")
    elsewhere = [device.id for device in home.devices] if isinstance(home, HomeState) else []  # other rooms
    if ids and target is not None and target not in (*ids, *elsewhere):
        raise InputError(f"target device {target!r} is not in the rig; its devices are {', '.join(ids)}")
    check_fields(given)


class Take:
    """One take of an opened rig whose sources run for it alone: `run` to the end of its sound, then
    `recorder.stop()` finishes the episode; that may be done elsewhere while the next take is prepared."""

    def __init__(
        self,
        rig: Rig,
        opened: OpenedRig,
        profile: Profile,
        *,
        seconds: float | None = None,
        root: str | Path | None = None,
        on_meter: Callable[[Meter], None] | None = None,
    ) -> None:
        """seconds, root, on_meter: as of `record`."""
        self.rig, self.opened = rig, opened
        self._fast = "fast" in (rig.microphone.pace, rig.camera.pace)
        self._audio = Fanout(hold_at=500 if self._fast else None)
        camera = opened.camera is not None
        self._video = Fanout(hold_at=50 if self._fast else None) if camera else None
        self._further = {name: Fanout(hold_at=50 if self._fast else None) for name in opened.further}
        self.recorder = Recorder(
            rig,
            opened,
            profile,
            self._audio,
            self._video,
            further=self._further,
            root=root,
            on_meter=on_meter,
            max_seconds=seconds,
        )

    def run(self, on_start: Callable[[Recorder], None] | None = None) -> Recorder:
        """Start the recorder (unless that was done) and the sources, wait until the take ends, stop the
        sources. Raises what `Recorder.start` and `OpenedRig.start` raise."""
        recorder, opened = self.recorder, self.opened
        if not recorder.started:
            recorder.start()
        try:
            sinks = {name: fanout.sink for name, fanout in self._further.items()}
            opened.start(self._audio.sink, self._video.sink if self._video is not None else None, sinks)
            if on_start is not None:
                on_start(recorder)
            while not recorder.done.wait(0.1):
                pass
            if self._fast and self.rig.microphone.source in ("file", "virtual"):
                self._audio.release()
                opened.microphone.stop()  # its sound is complete; it need not play on while pictures come
                recorder.wait_for_pictures()
        finally:
            for fanout in (self._audio, self._video, *self._further.values()):
                if fanout is not None:
                    fanout.release()
            opened.stop()
        return recorder


def record(
    rig: Rig,
    opened: OpenedRig,
    profile: Profile,
    *,
    seconds: float | None = None,
    root: str | Path | None = None,
    on_meter: Callable[[Meter], None] | None = None,
    on_start: Callable[[Recorder], None] | None = None,
    on_finishing: Callable[[], None] | None = None,
    handle_sigint: bool = False,
) -> Recording:
    """Record one take from start to finish.

    Ends after `seconds`, when the source is over, when the disk's reserve is reached, or at SIGINT or SIGTERM
    (handle_sigint, main thread only): the first finishes the episode properly, a second aborts with
    KeyboardInterrupt and leaves an interrupted, repairable episode.
    """
    take = Take(rig, opened, profile, seconds=seconds, root=root, on_meter=on_meter)
    recorder = take.recorder
    recorder.start()
    signals = StopSignals(lambda: recorder.finish_because("interrupt"))
    with signals if handle_sigint else nullcontext():
        take.run(on_start)
        if on_finishing is not None:
            on_finishing()
        return recorder.stop()
