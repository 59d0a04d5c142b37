"""Tags of a WAV file: the `bext` chunk (EBU Tech 3285), iXML, and the channel order that they name.

The Zoom H3-VR writes lines such as `zTRK1=W` into the bext description and `<NAME>W</NAME>` per track into
iXML. Hearth writes the same two, and a third line `hFORMAT=` because names cannot tell SN3D from N3D.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from html import escape, unescape

# dsp.FORMATS with the channel names in file order.
TRACKS: dict[str, tuple[str, ...]] = {
    "ambix": ("W", "Y", "Z", "X"),
    "n3d": ("W", "Y", "Z", "X"),
    "fuma": ("W", "X", "Y", "Z"),
    "a": ("FLU", "FRD", "BLD", "BRU"),
    "a2": ("FLD", "FRU", "BLU", "BRD"),
}
_BEXT_FIXED = 602


@dataclass(frozen=True)
class Bext:
    """The fields of a bext chunk; `time_reference` counts frames since midnight, the rest as written."""

    description: str = ""
    originator: str = ""
    originator_reference: str = ""
    date: str = ""
    time: str = ""
    time_reference: int = 0
    version: int = 0
    coding_history: str = ""

    @property
    def local_time(self) -> datetime | None:
        """Date and time as the recorder's own clock had them (1 s steps, no time zone); None when absent."""
        match = re.fullmatch(r"(\d{4})\D(\d\d)\D(\d\d)", self.date)
        clock = re.fullmatch(r"(\d\d)\D(\d\d)\D(\d\d)", self.time)
        if not match or not clock:
            return None
        try:
            return datetime(*(int(part) for part in (*match.groups(), *clock.groups())))  # type: ignore[arg-type]
        except ValueError:
            return None


def parse_bext(data: bytes) -> Bext:
    """Read a bext chunk; a short one gives the fields that it has."""
    data = data.ljust(_BEXT_FIXED, b"\0")

    def text(start: int, length: int) -> str:
        return data[start : start + length].split(b"\0", 1)[0].decode("latin-1").strip()

    return Bext(
        description=text(0, 256),
        originator=text(256, 32),
        originator_reference=text(288, 32),
        date=text(320, 10),
        time=text(330, 8),
        time_reference=struct.unpack_from("<Q", data, 338)[0],
        version=struct.unpack_from("<H", data, 346)[0],
        coding_history=text(_BEXT_FIXED, len(data) - _BEXT_FIXED),
    )


def build_bext(bext: Bext) -> bytes:
    """The bytes of a bext chunk (without id and size), of even length."""
    history = bext.coding_history.encode("ascii", "replace")
    data = struct.pack(
        "<256s32s32s10s8sQH",
        bext.description.encode("ascii", "replace")[:255],
        bext.originator.encode("ascii", "replace")[:32],
        bext.originator_reference.encode("ascii", "replace")[:32],
        bext.date.encode("ascii", "replace"),
        bext.time.encode("ascii", "replace"),
        bext.time_reference,
        1,
    )
    data = data.ljust(_BEXT_FIXED, b"\0") + history
    return data + b"\0" * (len(data) % 2)


def decode_ixml(data: bytes) -> str:
    """iXML as text, cut after the last '>': recorders pad it with zeros or with 0xFF, which is not UTF-8."""
    end = data.rfind(b">")
    return data[: end + 1].decode("utf-8", "replace").lstrip("\ufeff") if end >= 0 else ""


def build_ixml(tracks: Sequence[str], note: str = "") -> bytes:
    """A small iXML document with the track list, of even length."""
    rows = "".join(
        f"<TRACK><CHANNEL_INDEX>{i}</CHANNEL_INDEX><INTERLEAVE_INDEX>{i}</INTERLEAVE_INDEX>"
        f"<NAME>{escape(name)}</NAME></TRACK>"
        for i, name in enumerate(tracks, 1)
    )
    text = (
        '<?xml version="1.0" encoding="UTF-8"?><BWFXML><IXML_VERSION>1.61</IXML_VERSION>'
        f"<NOTE>{escape(note)}</NOTE><TRACK_LIST><TRACK_COUNT>{len(tracks)}</TRACK_COUNT>{rows}</TRACK_LIST></BWFXML>"
    )
    data = text.encode("utf-8")
    return data + b" " * (len(data) % 2)


def description_for(format_name: str, channels: int) -> str:
    """The bext description: one zTRKn line per channel and the format's name."""
    names = track_names(format_name, channels)
    lines = [f"zTRK{i}={name}" for i, name in enumerate(names, 1)]
    return "\r\n".join([*lines, f"hFORMAT={format_name}"])


def track_names(format_name: str, channels: int) -> tuple[str, ...]:
    """Channel names in file order: those of the format, or 1, 2, 3 ... for anything else."""
    names = TRACKS.get(format_name, ())
    return names if len(names) == channels else tuple(str(i) for i in range(1, channels + 1))


def tracks_from_description(description: str) -> tuple[str, ...]:
    """The names of the zTRKn lines, ordered by n; empty when there are none."""
    found = re.findall(r"^\s*[zs]TRK(\d+)=([^\r\n]*)", description, re.MULTILINE)
    return tuple(name.strip() for _, name in sorted(found, key=lambda item: int(item[0])))


def tracks_from_ixml(text: str) -> tuple[str, ...]:
    """The names of the iXML tracks, ordered by interleave index (then channel index, then place)."""
    names = []
    for place, block in enumerate(re.findall(r"<TRACK>(.*?)</TRACK>", text, re.DOTALL | re.IGNORECASE)):
        name = re.search(r"<NAME>(.*?)</NAME>", block, re.DOTALL | re.IGNORECASE)
        index = re.search(r"<INTERLEAVE_INDEX>\s*(\d+)", block, re.IGNORECASE) or re.search(
            r"<CHANNEL_INDEX>\s*(\d+)", block, re.IGNORECASE
        )
        if name:
            names.append((int(index.group(1)) if index else place + 1, unescape(name.group(1)).strip()))
    return tuple(name for _, name in sorted(names, key=lambda item: item[0]))


def format_of_tracks(tracks: Sequence[str]) -> str | None:
    """ "ambix", "fuma", "a" or "a2" when the names say so; None otherwise: never a default."""
    names = tuple(re.sub(r"^.*[\s_:.-]", "", name.strip()).upper() for name in tracks[:4])
    for format_name in ("ambix", "fuma", "a", "a2"):
        if names == TRACKS[format_name] and len(tracks) == 4:
            return format_name
    return None


def tagged_format(bext: Bext | None, ixml: str) -> tuple[str | None, tuple[str, ...], str | None]:
    """(format or None, track names, problem or None) from both kinds of tags.

    Two tags that name different orders give no format, and a problem that says so.
    """
    description = bext.description if bext else ""
    by_bext, by_ixml = tracks_from_description(description), tracks_from_ixml(ixml)
    answers = {"bext": format_of_tracks(by_bext), "iXML": format_of_tracks(by_ixml)}
    mode = re.search(r"Rec\s*Mode\s*=\s*(AmbiX|FuMa)", f"{description}\n{ixml}", re.IGNORECASE)
    if mode:
        answers["Rec Mode"] = mode.group(1).lower()
    own = re.search(r"^hFORMAT=(\w+)", description, re.MULTILINE)
    if own and own.group(1) in TRACKS:
        if answers["bext"] == "ambix" and own.group(1) == "n3d":
            answers = {where: "n3d" if answer == "ambix" else answer for where, answer in answers.items()}
        answers["hFORMAT"] = own.group(1)
    said = {where: answer for where, answer in answers.items() if answer}
    tracks = by_bext or by_ixml
    if len(set(said.values())) > 1:
        texts = ", ".join(f"{where} says {answer}" for where, answer in said.items())
        return None, tracks, f"the tags contradict each other: {texts}"
    return next(iter(said.values()), None), tracks, None
