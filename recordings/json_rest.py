"""What a conversion cannot hold: the difference between two JSON values, kept so that nothing is lost.

A foreign file becomes a profile; what the profile makes of it again is compared with the file, and the
difference (the `rest`) travels in `source`. Bringing the profile back applies it: the file comes out as it
was, while whatever was changed in the profile since comes out changed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dsp.errors import InputError

Rest = list[dict[str, Any]]  # {"at": [keys and indices], "value": ...} or {"at": ..., "absent": True}


def rest_of(made: Any, wanted: Any, at: tuple[str | int, ...] = ()) -> Rest:
    """What must be set or left out in `made` to get `wanted`. Types count: 1, 1.0 and True differ."""
    if type(made) is type(wanted) is dict:
        found = [{"at": [*at, key], "absent": True} for key in made if key not in wanted]
        for key, value in wanted.items():
            if key in made:
                found += rest_of(made[key], value, (*at, key))
            else:
                found.append({"at": [*at, key], "value": value})
        return found
    if type(made) is type(wanted) is list and len(made) == len(wanted):
        return [
            item
            for number, (one, other) in enumerate(zip(made, wanted, strict=True))
            for item in rest_of(one, other, (*at, number))
        ]
    return [] if type(made) is type(wanted) and made == wanted else [{"at": list(at), "value": wanted}]


def with_rest(made: Any, rest: Sequence[Any], what: str) -> Any:
    """`made` with the rest applied (in place). InputError, naming `what`, when it has no place there."""
    for item in rest:
        try:
            at = item["at"]
            if not at:
                made = item["value"]
                continue
            place = made
            for key in at[:-1]:
                place = place[key]
            if item.get("absent"):
                place.pop(at[-1], None)
            else:
                place[at[-1]] = item["value"]
        except (KeyError, IndexError, TypeError, AttributeError) as error:
            raise InputError(
                f"{what}: {item!r} has no place any more ({error}); the profile has changed since it was"
                " imported: remove that item, or the whole rest"
            ) from None
    return made
