"""What a file is by its first bytes, whatever it is called; and text in the encodings that tools write.

Magic numbers: each format's own specification, as the `file` program's database lists them.
"""

from __future__ import annotations

import re
from typing import Literal

Form = Literal["tar", "packed", "zip", "media", "sealed", "database", ""]

HEAD_BYTES = 512
_PACKED = (b"\x1f\x8b", b"BZh", b"\xfd7zXZ\0")
_SEALED = (
    *(b"\x28\xb5\x2f\xfd", b"7z\xbc\xaf\x27\x1c", b"Rar!", b"\x04\x22\x4d\x18"),  # zstd, 7z, rar, lz4
    *(b"PAR1", b"ARROW1", b"\x89MCAP0", b"#ROSBAG"),
)
_MEDIA = (
    *(b"RIFF", b"RF64", b"RIFX", b"BW64", b"FORM", b"riff", b"OggS", b"fLaC", b"ID3", b"\x1aE\xdf\xa3"),
    *(b"caff", b".snd", b"MThd", b"wvpk", b"FLV\x01", b"\0\0\x01\xba", b"\0\0\x01\xb3", b"\x30\x26\xb2\x75"),
    *(b"II*\0", b"MM\0*", b"\x89PNG", b"\xff\xd8\xff", b"GIF8", b"BM", b"8BPS", b"\x93NUMPY", b"%PDF"),
)
_DATABASE = (b"SQLite format 3\0", b"\x89HDF\r\n\x1a\n")
_CONTROL = re.compile(r"[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f\x80-\x84\x86-\x9f]")  # ESC and NEL are in logs


def form_of(head: bytes) -> Form:
    """tar, zip: archives. packed: gzip, bzip2, xz. sealed: packed in a way that is not undone here. media:
    sound, pictures, documents. database: tables with texts as they are. "": none of these."""
    if head[257:262] == b"ustar":
        return "tar"
    if head.startswith(_PACKED):
        return "packed"
    if head.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        return "zip"
    if head.startswith(_SEALED):
        return "sealed"
    if head.startswith(_DATABASE):
        return "database"
    if head[4:8] == b"ftyp" or (head.startswith(_MEDIA) and text_of(head) is None):
        return "media"
    return ""


def text_of(data: bytes) -> tuple[str, str] | None:
    """(text, its encoding): UTF-8, UTF-16 with or without its mark, Latin-1; None for what is no text."""
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        tries = ["utf-16"]
    elif b"\0" in data[:HEAD_BYTES]:
        odd, even = data[1:4096:2].count(0), data[0:4096:2].count(0)
        tries = ["utf-16-le"] if odd > 3 * even else ["utf-16-be"] if even > 3 * odd else []
    else:
        tries = ["utf-8", "latin-1"]
    for encoding in tries:
        try:
            text = data.decode(encoding)
        except UnicodeDecodeError:
            continue
        if encoding == "utf-8" or not _CONTROL.search(text):
            return text, encoding
    return None
