"""A changed rig.yaml without a restart, as far as that is safe: all that can change at once, or nothing."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec
import yaml

from capture.rig import Rig, parse_rig
from dsp.errors import HearthError
from edge.service.logs import fields

if TYPE_CHECKING:
    from edge.live import LiveService

log = logging.getLogger(__name__)

# What a running rig can take over. Everything else is about something that was opened, bound or begun with.
LIVE = (
    "room.devices",  # the home's twin and the room map; a device that stays keeps its state
    "room.people",
    "storage.segment_mib",  # of the next take
    "storage.min_free_mib",
    "log.level",
)
# In the virtual room the devices are what sounds.
_RENDERED = ("room.devices",)


@dataclass(frozen=True)
class Changes:
    """Keys that differ between two rigs, by what it takes to change them, and the rig to go on with."""

    live: tuple[str, ...]
    restart: tuple[str, ...]
    rig: Rig

    def to_dict(self) -> dict[str, Any]:
        """The answer to `live.reload`."""
        return {"applied": list(self.live), "needs_restart": list(self.restart)}


def compare(now: Rig, wanted: Rig, rendered: bool = False) -> Changes:
    """What differs. `rig` is `now` with the live keys of `wanted`. rendered: the room is a virtual one.

    Raises InputError when these live keys do not fit to what has to stay as it is, such as a device outside
    of the room's present size.
    """
    before, after = (dict(msgspec.to_builtins(rig)) for rig in (now, wanted))
    differing = _differing(before, after)
    live = tuple(k for k in differing if k in LIVE and not (rendered and k in _RENDERED))
    restart = tuple(k for k in differing if k not in live)
    for key in live:
        section, name = key.split(".")
        before[section][name] = after[section][name]
    if not live:
        return Changes(live, restart, now)
    where = "the part of the changed rig file that needs no restart"
    return Changes(live, restart, parse_rig(yaml.safe_dump(before), where))


def _differing(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """`section.key`, or the key alone where the top level holds a value."""
    found = []
    for name in sorted({*before, *after}):
        one, other = before.get(name), after.get(name)
        if isinstance(one, dict) and isinstance(other, dict):
            found += [f"{name}.{key}" for key in sorted({*one, *other}) if one.get(key) != other.get(key)]
        elif one != other:
            found.append(name)
    return found


class Reloader:
    """Reads the rig again and applies what can be. load: reads and checks the file, as at the start.

    applied: functions that are called with the new rig and the keys that changed, after the service follows.
    """

    def __init__(
        self,
        service: LiveService,
        load: Callable[[], Rig],
        applied: Callable[[Rig, tuple[str, ...]], None],
    ) -> None:
        self._service, self._load, self._applied = service, load, applied
        self._lock = threading.Lock()

    def reload(self) -> dict[str, Any]:
        """applied, needs_restart: keys of the rig file. Told as event `reloaded`, or `reload_refused`.

        Raises InputError for a file that is none, or whose changes cannot be: then nothing has changed.
        """
        service = self._service
        with self._lock:
            try:
                changes = compare(service.rig, self._load(), service.opened.scene is not None)
                if changes.live:
                    service.follow(changes.rig)
            except HearthError as error:
                log.error("the rig file was not taken over: %s", error)
                service.event("reload_refused", detail=str(error))
                raise
            if changes.live:
                self._applied(changes.rig, changes.live)
            answer = changes.to_dict()
            service.event("reloaded", **answer)
            text = "the rig file was read again: %s taken over, %s only at a restart"
            log.info(text, _named(changes.live), _named(changes.restart), extra=fields(**answer))
            return answer


def _named(keys: tuple[str, ...]) -> str:
    return ", ".join(keys) or "nothing"
