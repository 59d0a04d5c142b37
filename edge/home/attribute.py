"""What an attribute and an argument of a command may be."""

from __future__ import annotations

from dataclasses import dataclass

Value = bool | int | float | str | None


@dataclass(frozen=True, slots=True)
class Attribute:
    """One attribute: its kind, range, whether it can be written, and its value when nothing is said.

    choices: the only values (a mode); needs_on: a write is refused while the device's OnOff is false;
    nullable: None is a value too (not known, or nothing runs).
    """

    default: Value
    low: int | None = None
    high: int | None = None
    writable: bool = False
    choices: tuple[int, ...] | None = None
    needs_on: bool = False
    nullable: bool = False

    @property
    def kind(self) -> type:
        """The Python type of its values."""
        return bool if isinstance(self.default, bool) else int


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument of a command: its integer range; `default` None means that it must be given.

    flag: True and False are taken for 1 and 0. text: it is a text, and has no range.
    """

    name: str
    low: int
    high: int
    default: int | None = None
    flag: bool = False
    text: bool = False
