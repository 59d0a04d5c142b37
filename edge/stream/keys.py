"""Keys of the stream: what a key looks like, how it is written down, and how two people compare it.

A CURVE key pair (X25519) belongs either to a rig or to a client. The public half travels as one word,
`client:` or `rig:` and 56 letters and digits that hold the key and a check of it, so a letter lost on the way
is an error and not another key. The secret half never leaves the folder in which it was made.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from dataclasses import dataclass, field
from typing import Literal

from dsp.errors import DeviceError, InputError

Kind = Literal["client", "rig"]
KEY_BYTES = 32
_CHECK_BYTES = 3
_WORD = re.compile(r"^(client|rig):([a-z2-7]{56})$")


class AccessDenied(DeviceError):
    """A rig and a client do not accept each other's key; the message names the key and says what to do."""


@dataclass(frozen=True, slots=True)
class PublicKey:
    """The half of a key that may be shown to anybody; raw: 32 bytes."""

    kind: Kind
    raw: bytes

    def __post_init__(self) -> None:
        if len(self.raw) != KEY_BYTES:
            raise InputError(f"a key has {KEY_BYTES} bytes, not {len(self.raw)}")

    @property
    def word(self) -> str:
        """The key as one word, to copy to the other machine."""
        check = hashlib.sha256(self.kind.encode() + self.raw).digest()[:_CHECK_BYTES]
        return f"{self.kind}:{base64.b32encode(self.raw + check).decode().lower()}"

    @property
    def fingerprint(self) -> str:
        """80 bits of its SHA-256 in five groups, to compare by eye or over the telephone."""
        return fingerprint(self.raw)


def fingerprint(raw: bytes) -> str:
    """The fingerprint of a public key of 32 bytes, like `3f2a-9c01-77de-4b10-aa52`."""
    digest = hashlib.sha256(raw).hexdigest()[:20]
    return "-".join(digest[i : i + 4] for i in range(0, 20, 4))


def parse_key(word: str) -> PublicKey:
    """Read a key that was copied as one word. Raises InputError that says what is wrong with it."""
    found = _WORD.match(word.strip().lower())
    if found is None:
        shown = word.strip()
        shown = f"{shown[:24]}..." if len(shown) > 24 else shown
        raise InputError(
            f"{shown!r} is not a key: it is `client:` or `rig:` and 56 letters and digits, as "
            "`hearth keys show NAME` prints it on the machine where the key was made"
        )
    kind: Kind = "rig" if found.group(1) == "rig" else "client"
    try:
        raw = base64.b32decode(found.group(2).upper())
    except binascii.Error as error:
        raise InputError(f"{word[:24]!r} is not a key: {error}") from None
    key = PublicKey(kind, raw[:KEY_BYTES])
    if key.word != f"{kind}:{found.group(2)}":
        raise InputError(f"the key {word[:24]!r}... has a wrong letter (its check fails); copy it again")
    return key


@dataclass(frozen=True, slots=True)
class KeyPair:
    """A key that was made here; secret: 32 bytes, which no message and no repr shows."""

    name: str
    public: PublicKey
    secret: bytes = field(repr=False)
    created_utc: str = ""


def new_pair(name: str, kind: Kind, created_utc: str) -> KeyPair:
    """Make a key pair from the system's random numbers (libzmq's curve_keypair)."""
    import zmq
    from zmq.utils import z85

    if not zmq.has("curve"):
        raise DeviceError("this ZeroMQ was built without CURVE; install pyzmq's own wheel")
    public, secret = zmq.curve_keypair()
    return KeyPair(name, PublicKey(kind, z85.decode(public)), z85.decode(secret), created_utc)
