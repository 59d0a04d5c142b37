"""Television: changing the channel (Matter Channel cluster) and keys.

The channels are those that the first state of the device names in 1.Channel.ChannelList.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from edge.home.errors import HomeError
from edge.home.power import require_on

Attributes = dict[str, Any]
NAMES = ("Name", "CallSign", "AffiliateCallSign", "Identifier")


def _channels(a: Attributes, e: int, command: str) -> list[dict[str, Any]]:
    require_on(a, e, command)
    known = a.get(f"{e}.Channel.ChannelList")
    if not isinstance(known, list) or not known:
        raise HomeError("INVALID_STATE", f"{command} is not possible: the device has no list of channels")
    return [one for one in known if isinstance(one, dict)]


def _tune(a: Attributes, e: int, found: list[dict[str, Any]], wanted: str) -> None:
    if not found:
        raise HomeError("COMMAND_INVALID_ARGS", f"there is no channel {wanted}")
    a[f"{e}.Channel.CurrentChannel"] = dict(found[0])


def _by_name(a: Attributes, e: int, args: dict[str, Any]) -> None:
    wanted = args["match"].casefold()
    channels = _channels(a, e, "ChangeChannel")
    found = [one for one in channels if any(str(one.get(name, "")).casefold() == wanted for name in NAMES)]
    _tune(a, e, found, repr(args["match"]))


def _by_number(a: Attributes, e: int, args: dict[str, Any]) -> None:
    wanted = (args["major_number"], args["minor_number"])
    channels = _channels(a, e, "ChangeChannelByNumber")
    found = [one for one in channels if (one.get("MajorNumber"), one.get("MinorNumber")) == wanted]
    _tune(a, e, found, f"{wanted[0]}.{wanted[1]}")


def _skip(a: Attributes, e: int, args: dict[str, Any]) -> None:
    channels = _channels(a, e, "SkipChannel")
    current = a.get(f"{e}.Channel.CurrentChannel")
    at = channels.index(current) if current in channels else 0
    _tune(a, e, [channels[(at + args["count"]) % len(channels)]], "")


def _key(a: Attributes, e: int, _: dict[str, Any]) -> None:
    require_on(a, e, "SendKey")


CHANNEL_ACTIONS: dict[str, dict[str, Callable[[Attributes, int, dict[str, Any]], None]]] = {
    "Channel": {"ChangeChannel": _by_name, "ChangeChannelByNumber": _by_number, "SkipChannel": _skip},
    "KeypadInput": {"SendKey": _key},
}
