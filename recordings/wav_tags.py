"""Tags of a WAV file: the `bext` chunk (EBU Tech 3285), iXML, and the channel order that they name.

The Zoom H3-VR writes lines such as `zTRK1=W` into the bext description and `<NAME>W</NAME>` per track into
iXML. Hearth writes the same two, and a third line `hFORMAT=` because names cannot tell SN3D from N3D.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from html import escape, unescape

from dsp.errors import InputError

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


# Editing tags in place: bytes that need not change stay, whatever they are.

_REC_MODES = {"ambix": b"AmbiX", "fuma": b"FuMa", "n3d": b"N3D", "a": b"A", "a2": b"A2"}
_PADDING = b"\0\xff \t\r\n"
# Pairs of iXML elements that hold the low and the high 32 bits of one count of samples.
_TIMES = (
    (b"BWF_TIME_REFERENCE_LOW", b"BWF_TIME_REFERENCE_HIGH"),
    (b"TIMESTAMP_SAMPLES_SINCE_MIDNIGHT_LO", b"TIMESTAMP_SAMPLES_SINCE_MIDNIGHT_HI"),
)


def retag_bext(data: bytes, to: str, history: str, rate_hz: int, new_rate_hz: int) -> bytes:
    """A bext chunk for the order `to`: zTRKn and hFORMAT lines, Rec Mode, time reference, coding history.

    Raises InputError when the description has no room for the names.
    """
    data = data.ljust(_BEXT_FIXED, b"\0")
    text = _rename(data[:256].split(b"\0", 1)[0], to)
    missing = [
        line.encode()
        for line in description_for(to, len(TRACKS[to])).split("\r\n")
        if not re.search(rb"^\s*" + line.split("=")[0].encode() + rb"=", text, re.MULTILINE)
    ]
    lines = b"\r\n".join([*([text.rstrip(b"\r\n")] if text.strip() else []), *missing])
    text = lines + (b"\r\n" if text.endswith(b"\n") and len(lines) <= 253 else b"")
    if len(text) > 255:
        raise InputError(
            f"the bext description has no room for the names of the new order ({len(text)} of 255 characters)"
        )
    reference = struct.unpack_from("<Q", data, 338)[0]
    reference = round(reference * new_rate_hz / rate_hz) if new_rate_hz != rate_hz else reference
    told = data[_BEXT_FIXED:].rstrip(b"\0")
    told += b"\r\n" if told and not told.endswith(b"\n") else b""
    told += history.encode("ascii", "replace")
    told += b"\0" * (len(told) % 2)
    fixed = text.ljust(256, b"\0") + data[256:338] + struct.pack("<Q", reference) + data[346:_BEXT_FIXED]
    return fixed + told


def _rename(text: bytes, to: str) -> bytes:
    """zTRKn=, hFORMAT= and Rec Mode= lines for the order `to`."""

    def track(match: re.Match[bytes]) -> bytes:
        number = int(match.group(2))
        names = TRACKS[to]
        return match.group(1) + (names[number - 1].encode() if 1 <= number <= len(names) else match.group(3))

    text = re.sub(rb"([zs]TRK(\d+)=)([^\r\n<\0]*)", track, text)
    text = re.sub(rb"(hFORMAT=)\w+", rb"\g<1>" + to.encode(), text)
    return re.sub(
        rb"(Rec\s*Mode\s*=\s*)(?:AmbiX|FuMa)", rb"\g<1>" + _REC_MODES[to], text, flags=re.IGNORECASE
    )


def retag_ixml(data: bytes, to: str, rate_hz: int, new_rate_hz: int, bits: int) -> bytes:
    """iXML for the order `to`: <NAME> of each <TRACK>, rates, bit depth and counts of samples."""
    places = iter(range(1 << 16))

    def block(match: re.Match[bytes]) -> bytes:
        inside, place = match.group(0), next(places)
        index = re.search(rb"<INTERLEAVE_INDEX>\s*(\d+)", inside, re.IGNORECASE) or re.search(
            rb"<CHANNEL_INDEX>\s*(\d+)", inside, re.IGNORECASE
        )
        number = int(index.group(1)) if index else place + 1
        if not 1 <= number <= len(TRACKS[to]):
            return inside
        name = TRACKS[to][number - 1].encode()
        return re.sub(rb"(?si)(<NAME>).*?(</NAME>)", rb"\g<1>" + name + rb"\g<2>", inside, count=1)

    text, padding = _unpadded(data)
    text = re.sub(rb"(?si)<TRACK>.*?</TRACK>", block, text)
    text = _rename(text, to)
    if new_rate_hz != rate_hz:
        for name in (b"FILE_SAMPLE_RATE", b"TIMESTAMP_SAMPLE_RATE"):
            text = re.sub(rb"(<" + name + rb">)\s*\d+", rb"\g<1>%d" % new_rate_hz, text)
        text = _each_time(text, lambda count: round(count * new_rate_hz / rate_hz))
    text = re.sub(rb"(<AUDIO_BIT_DEPTH>)\s*\d+", rb"\g<1>%d" % bits, text)
    return _padded(text, padding, len(data))


def shift_ixml(data: bytes, frames: int) -> bytes:
    """iXML with the time of the first sample moved on by `frames`."""
    text, padding = _unpadded(data)
    return _padded(_each_time(text, lambda count: count + frames if count else 0), padding, len(data))


def _each_time(text: bytes, change: Callable[[int], int]) -> bytes:
    for low_name, high_name in _TIMES:
        low = re.search(rb"<" + low_name + rb">\s*(\d+)", text)
        if not low:
            continue
        high = re.search(rb"<" + high_name + rb">\s*(\d+)", text)
        count = change(int(low.group(1)) + ((int(high.group(1)) << 32) if high else 0))
        new = {low_name: count & 0xFFFFFFFF, high_name: count >> 32}
        for name, value in new.items():
            text = re.sub(rb"(<" + name + rb">)\s*\d+", rb"\g<1>%d" % value, text)
    return text


def _unpadded(data: bytes) -> tuple[bytes, bytes]:
    text = data.rstrip(_PADDING)
    return text, data[len(text) :]


def _padded(text: bytes, padding: bytes, length: int) -> bytes:
    """`text` with the padding cut or drawn out so that the chunk keeps its length where that can be."""
    if not padding:
        return text
    room = max(length - len(text), 0)
    return text + (padding[:room] if room <= len(padding) else padding + padding[-1:] * (room - len(padding)))
