"""What a release is asked to be, and what an exporter reports of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

if TYPE_CHECKING:
    from recordings.release.item import ReleaseItem

SoundType = Literal["pcm24", "float"]


@dataclass(frozen=True)
class ReleaseOptions:
    """name: of the data set. licence: an SPDX name, "" when the owner gave none. sound: 24-bit integers, as
    the benchmark's release, or the 32-bit float of the episodes. video: pictures go along. blur, voice_safe:
    privacy, see recordings.privacy."""

    name: str = "hearth-release"
    licence: str = ""
    sound: SoundType = "pcm24"
    video: bool = True
    blur: bool = False
    voice_safe: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for release.json."""
        return {
            "name": self.name,
            "licence": self.licence or None,
            "sound": self.sound,
            "video": self.video,
            "blur": self.blur,
            "voice_safe": self.voice_safe,
        }


@dataclass(frozen=True)
class Holds:
    """That a file of the release holds something of an item.

    output: path in the release, POSIX. member: name within a tar. of: the episode's files that it was made
    from. sha256: of the output or member, where it is of this item alone. labels: what else stands in tables
    for the item's people, such as a participant's label.
    """

    output: str
    item: str
    member: str | None = None
    of: tuple[str, ...] = ()
    sha256: str | None = None
    labels: tuple[str, ...] = ()


@dataclass
class ExportReport:
    """What an exporter wrote. holds: see `Holds`; a file that is in none of them counts as holding something
    of every item, except those in `plain`, which hold nothing of any. clipped: samples beyond full scale, by
    item, where there are any. notes: for people. facts: what else the format counts, for release.json."""

    holds: list[Holds] = field(default_factory=list)
    plain: list[str] = field(default_factory=list)
    clipped: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)


class Exporter(Protocol):
    """A format. `out` is there and empty, apart from what a run that was cut off had written (see
    `recordings.release.media`); what an exporter finds there and did not ask `item` for, it replaces.
    `advance` is called with the number of items that are done."""

    def __call__(
        self,
        items: Sequence[ReleaseItem],
        out: Path,
        options: ReleaseOptions,
        advance: Callable[[float], None],
    ) -> ExportReport: ...
