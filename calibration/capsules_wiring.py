"""Which wiring explains what the channels heard? Formats, exchanged, inverted, weak, dead and copied
channels, turned and mirrored microphones.

A channel of a first-order microphone hears w + v . u of a wave from u. With six or more directions its w and
v follow by least squares, and say what it is: |v| / |w| is 0 for W, without bound for an axis, 1 for a
cardioid capsule. The four together are compared with every way to read them (capsules of either layout,
B-format, B-format made from capsules of which one is inverted), each up to a turn or mirror (Kabsch, Acta
Cryst. A32, 1976); the reading that leaves least is taken, the simplest if several are alike. The names are
those of `hearth check` and `dsp.check_directions`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from calibration.capsules_response import Heard
from calibration.direct_arrival import Floats
from dsp.ambisonics import CAPSULE_DIRECTIONS, CHANNEL_NAMES, conversion_matrix
from dsp.errors import InputError

LAYOUTS = ("a", "a2")
_DEAD = 10 ** (-30 / 20)
_COPY = 3e-3  # 1 - r^2, with the noise of a measurement
_DEAD_CAPSULE = 0.1
_WEAK_DB = 6.0
_FITS = 0.2  # what a reading may leave, as a share of each channel
_PER_FAULT, _PER_DB = 0.015, 0.01  # what a reading must explain better for each fault it names
_TURN_DEG = 10.0  # up to here a turn is how the loudspeaker was placed

_FUMA_AS_AMBIX = np.array([[0.0, 0, 1], [1, 0, 0], [0, 1, 0]])
"""What X, Y, Z carry when W X Y Z is read as W Y Z X."""


@dataclass(frozen=True)
class Fault:
    """One thing that is wrong. code: as `hearth check` and `dsp.check_directions` call it. channel: index in
    the file, or None. repaired: whether the correction puts it right."""

    code: str
    message: str
    channel: int | None = None
    repaired: bool = True

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return {
            "code": self.code,
            "channel": self.channel,
            "repaired": self.repaired,
            "message": self.message,
        }


@dataclass(frozen=True)
class Wiring:
    """matrix: (4, 4) from (1, x, y, z) of a wave to the channels, as this reading has it. kind: "capsules"
    (the channels are capsule signals), "b_format", or "encoded" (B-format of which capsules are inverted).
    format: what the channels really are, one of dsp.FORMATS. turn: (3, 3) from true directions to those of
    the microphone. left: what it does not explain, a share of the channels. faults: what is wrong. spread_db:
    between the strongest and the weakest channel or capsule, each as it should be."""

    matrix: Floats
    kind: str
    format: str
    turn: Floats
    left: float
    faults: tuple[Fault, ...]
    spread_db: float


def pattern_matrix(heard: Heard) -> Floats:
    """(4, 4): w and v (x, y, z) of each channel, from all directions; the loudness of each is fitted too."""
    basis = np.column_stack([np.ones(len(heard.u)), heard.u])
    level = np.ones(len(basis))
    k = np.zeros((4, 4))
    for _ in range(6):
        k = np.linalg.lstsq(basis, heard.y / level[:, None], rcond=None)[0].T
        model = basis @ k.T
        # Loudness near what the channels together say, unless they clearly say otherwise.
        rest = 0.05 * (model**2).sum(axis=1)
        level = ((heard.y * model).sum(axis=1) + rest) / ((model**2).sum(axis=1) + rest)
        level = np.clip(level, 0.3, 3.0)
    return np.asarray(k)


def unusable(heard: Heard, level: Floats, like: Floats, declared: str) -> list[Fault]:
    """Dead and copied channels, which nothing repairs. level (4,), like (4, 4): see
    `capsules_response.likeness`."""
    names = CHANNEL_NAMES[declared]
    faults = []
    for c in range(4):
        silent = np.all(np.abs(heard.y[:, c]) < 4 * heard.noise[:, c] + 1e-4)
        if silent or level[c] < _DEAD * level.max():
            text = f"{names[c]} carries no signal from any direction; repair the cable, capsule or setting"
            faults.append(Fault("dead", text, c, False))
    if faults:
        return faults
    for c in range(4):
        for d in range(c + 1, 4):
            if like[c, d] ** 2 > 1 - _COPY:
                sign = ", inverted" if like[c, d] < 0 else ""
                faults.append(Fault("duplicated", f"{names[d]} is a copy of {names[c]}{sign}", d, False))
    spread = np.linalg.eigvalsh(like)
    if spread[1] < _COPY and len(faults) != 1:
        text = "four channels carry two signals: an audio server remixes them; open the device itself"
        return [Fault("remixed", text, None, False)]
    if faults or declared in LAYOUTS:
        return faults
    for layout in LAYOUTS:
        size = np.linalg.norm(heard.y @ conversion_matrix(declared, layout).T, axis=0)
        c = int(np.argmin(size))
        if size[c] < _DEAD_CAPSULE * size.max():
            text = f"capsule {CHANNEL_NAMES[layout][c]} is dead within the {declared} signal"
            return [Fault("capsule_dead", text, None, False)]
    if spread[0] < 0.3 * _COPY:
        text = "one channel is a mixture of the others: an audio server remixes them"
        return [Fault("remixed", text, None, False)]
    return []


def _nearest(turn: Floats) -> tuple[Floats, float]:
    """The nearest signed permutation (3, 3) and the angle to it in degrees."""
    from dsp.known_directions import _nearest_signed_permutation

    near, degrees = _nearest_signed_permutation(turn)
    return np.asarray(near, np.float64), degrees


def _orthogonal(m: Floats) -> Floats:
    left, _, right = np.linalg.svd(m)
    return np.asarray(left @ right)


def _snap(turn: Floats, wired: bool) -> Floats:
    """The signed permutation next to a turn, where it is one of wiring or mounting (exact, but for how the
    loudspeakers stood); else the turn as it was found. wired: any permutation may be one of wiring."""
    near, degrees = _nearest(turn)
    if degrees > _TURN_DEG:
        return turn
    freely = not wired and any(fault.code == "rotated" for fault in _orientation(near, None))
    return turn if freely else near


def _read_capsules(k: Floats, layout: str) -> tuple[float, Floats, Floats, Floats]:
    """Rows as cardioids of a layout: (what is left, turn, signs and gains (4,), model matrix)."""
    axes = CAPSULE_DIRECTIONS[layout]
    length = np.linalg.norm(k[:, 1:], axis=1)
    sign = np.where(k[:, 0] < 0, -1.0, 1.0)
    toward = sign[:, None] * k[:, 1:] / np.maximum(length, 1e-9)[:, None]
    turn = _snap(_orthogonal(toward.T @ axes).T, wired=True)
    shape = 0.5 * np.column_stack([np.ones(4), axes @ turn])
    size = (k * shape).sum(axis=1) / (shape**2).sum(axis=1)
    model = size[:, None] * shape
    left = np.linalg.norm(k - model, axis=1) / np.maximum(np.linalg.norm(k, axis=1), 1e-9)
    return float(np.sqrt(np.mean(left**2))), turn, size, model


def _read_b_format(k: Floats, declared: str) -> tuple[float, Floats, Floats, Floats, list[int]]:
    """Rows as W and three axes: (left, turn, gains (4,) in the file's order, model, [W, X, Y, Z]
    channels)."""
    norms = np.linalg.norm(k, axis=1)
    w = int(np.argmax(np.abs(k[:, 0]) / np.maximum(norms, 1e-9)))
    others = [c for c in range(4) if c != w]
    names = CHANNEL_NAMES[declared if declared not in LAYOUTS else "ambix"]
    free = [n for i, n in enumerate(names) if i in others and n != "W"]
    free += [n for n in "XYZ" if n not in free]
    carries = dict(zip(free, others, strict=True))
    channel = [w, carries["X"], carries["Y"], carries["Z"]]
    sign = np.sign(k[w, 0]) or 1.0
    axes = sign * k[channel[1:], 1:]
    gains = np.linalg.norm(axes, axis=1)
    turn = _snap(_orthogonal(axes / np.maximum(gains, 1e-9)[:, None]), wired=False)
    model = np.zeros((4, 4))
    model[w, 0] = k[w, 0]
    model[channel[1:], 1:] = sign * gains[:, None] * turn
    left = np.linalg.norm(k - model, axis=1) / np.maximum(norms, 1e-9)
    size = np.zeros(4)
    size[channel] = sign * np.array([k[w, 0], *(sign * gains)])
    return float(np.sqrt(np.mean(left**2))), turn, np.abs(size), model, channel


def _distance(turn: Floats) -> float:
    """Between a turn or mirror and none, for choosing among readings that explain alike."""
    return float(np.linalg.norm(turn - np.eye(3)))


def find_wiring(heard: Heard, declared: str) -> Wiring:
    """The reading that explains best. Raises InputError when none does (a loudspeaker was not where its name
    says, or it is no first-order microphone)."""
    k = pattern_matrix(heard)
    raw = [(layout, *_read_capsules(k, layout)) for layout in LAYOUTS]
    # What fits as well with the other layout is a mirror: the reading nearer to "as it should be" counts,
    # the declared one before the other.
    raw.sort(key=lambda r: (round(r[1], 2), _distance(r[2]) - 0.5 * (r[0] == declared)))
    capsules = raw[0]
    b_format = _read_b_format(k, declared)
    encoded = []
    if declared not in LAYOUTS:
        for layout in LAYOUTS:
            back = conversion_matrix(declared, layout)
            left, turn, size, model = _read_capsules(back @ k, layout)
            encoded.append((layout, left, turn, size, np.linalg.inv(back) @ model))
        # Without a capsule that is inverted or weak this is just a B-format.
        encoded = [r for r in encoded if (r[3] / np.median(r[3])).min() < 0.5]
        encoded.sort(key=lambda r: r[1])
    options = [_as_b_format(b_format, declared), _as_capsules(*capsules, declared)]
    options += [_as_encoded(encoded[0], declared)] if encoded else []
    if min(option.left for option in options) > _FITS:
        least = min(option.left for option in options)
        raise InputError(
            f"no wiring explains what the channels heard ({100 * least:.0f} % stays unexplained at best)"
        )
    return min(options, key=lambda o: o.left + _PER_FAULT * len(o.faults) + _PER_DB * o.spread_db)


def _db(ratio: float) -> float:
    return float(20 * np.log10(max(abs(ratio), 1e-9)))


def _weak(gains_db: Floats, names: tuple[str, ...], what: str) -> list[Fault]:
    """Channels that are far below the middle of the four."""
    return [
        Fault("weak", f"{what}{names[c]} is {-g:.1f} dB weaker than the others", c)
        for c, g in enumerate(gains_db)
        if g < -_WEAK_DB
    ]


def _orientation(turn: Floats, capsules: str | None) -> list[Fault]:
    """The name of a turn or mirror, as `dsp.check_directions` gives it."""
    from dsp.known_directions import check_directions

    if np.allclose(turn, np.eye(3), atol=1e-6):
        return []
    az, el = [0.0, 90.0, 0.0, 180.0, -90.0, 0.0], [0.0, 0.0, 90.0, 0.0, 0.0, -90.0]
    true = np.array([[1, 0, 0], [0, 1, 0], [0, 0, 1], [-1, 0, 0], [0, -1, 0], [0, 0, -1]], float)
    found = check_directions(true @ turn.T, az, el, capsules)
    message = found.message
    if found.fault == "rotated":
        angle = np.degrees(np.arccos(np.clip((np.trace(turn) - 1) / 2, -1, 1)))
        message = f"the microphone is turned by {angle:.0f} degrees"
    return [] if found.fault == "none" else [Fault(found.fault, message)]


def _as_b_format(reading: tuple, declared: str) -> Wiring:
    left, turn, size, model, channel = reading
    w, axes = channel[0], channel[1:]
    faults: list[Fault] = []
    # A channel that is weak by itself says nothing about the scale of the others.
    v = float(np.median(size[axes]))
    ratio = _db(v / size[w])
    alike = np.ptp(20 * np.log10(size[axes])) < 3.0
    scales = {"ambix": 0.0, "fuma": 3.01, "n3d": 4.77}
    scale = min(scales, key=lambda name: abs(scales[name] - ratio))
    fits = abs(scales[scale] - ratio) < 1.0
    if not fits or not alike:
        # One gain is off; which of the three scales it is then rests on the other two axes.
        scale = declared if declared in scales else "ambix"
        if not fits and abs(ratio) < 6.0 and alike:
            scale = min(scales, key=lambda name: abs(scales[name] - ratio))
    names = CHANNEL_NAMES[declared]
    order = ["W", "X", "Y", "Z"]
    nominal = np.zeros(4)
    nominal[w], nominal[axes] = 1.0, 10 ** (scales[scale] / 20)
    gains_db = 20 * np.log10(size / nominal)
    gains_db = gains_db - np.median(gains_db)
    # Is the order of the axes that of the other format?
    other_order = np.allclose(turn, _FUMA_AS_AMBIX.T if declared == "fuma" else _FUMA_AS_AMBIX)
    if declared in LAYOUTS:
        text = f"these are not capsule signals but W and three axes, scaled as {scale}"
        faults.append(Fault("format", text))
    elif other_order and scale == "fuma" and declared != "fuma":
        faults.append(Fault("format", "these are the order W X Y Z and the scale of FuMa, not of AmbiX"))
    elif other_order and declared == "fuma" and scale != "fuma":
        faults.append(Fault("format", f"these are the order W Y Z X and the scale of {scale}, not FuMa"))
    elif scale != declared:
        text = f"(X^2+Y^2+Z^2)/W^2 is {ratio:+.1f} dB: the scale of {scale}, not of {declared}"
        faults.append(Fault("normalisation", text))
    if names[w] != "W" and declared not in LAYOUTS:
        faults.append(Fault("channel_order", f"W stands in the channel of {names[w]}", w))
    if not any(f.code == "format" and "order" in f.message for f in faults):
        faults += _orientation(turn, None)
    labels = dict(zip(channel, order, strict=True))
    faults += _weak(gains_db, tuple(labels[c] for c in range(4)), "")
    # The level of a channel that is not off is left to the fit.
    size_model = nominal * np.where(np.abs(gains_db) > 2.0, 10 ** (gains_db / 20), 1.0)
    shape = model / np.maximum(np.linalg.norm(model, axis=1, keepdims=True), 1e-12)
    sign = np.sign(model[w, 0]) or 1.0
    own = 0.5**0.5 if scale == "fuma" else 1.0
    return Wiring(
        sign * size_model[:, None] * shape * own,
        "b_format",
        scale,
        turn,
        left,
        tuple(faults),
        float(np.ptp(gains_db)),
    )


def _as_capsules(
    layout: str, left: float, turn: Floats, size: Floats, model: Floats, declared: str
) -> Wiring:
    faults = []
    if np.sum(size < 0) > 2:
        size, model = -size, -model
    if declared not in LAYOUTS:
        text = (
            f"these are capsule signals (A-format, {_type(layout)}), not W and three axes: read as {layout}"
        )
        faults.append(Fault("format", text))
    elif layout != declared:
        faults.append(Fault("format", f"the capsules are those of {_type(layout)}: read as {layout}"))
    names = CHANNEL_NAMES[layout]
    faults += [
        Fault("capsule_inverted", f"capsule {names[c]} is inverted", c) for c in range(4) if size[c] < 0
    ]
    faults += _orientation(turn, layout)
    gains_db = 20 * np.log10(np.abs(size))
    gains_db -= np.median(gains_db)
    faults += _weak(gains_db, names, "capsule ")
    kept = np.sign(size) * np.where(np.abs(gains_db) > 2.0, 10 ** (gains_db / 20), 1.0)
    return Wiring(
        model * (kept / size)[:, None], "capsules", layout, turn, left, tuple(faults), float(np.ptp(gains_db))
    )


def _as_encoded(reading: tuple, declared: str) -> Wiring:
    layout, left, turn, size, model = reading
    if np.sum(size < 0) > 2:
        size, model = -size, -model
    names = CHANNEL_NAMES[layout]
    faults: list[Fault] = []
    top = float(np.median(np.abs(size)))
    gains_db = 20 * np.log10(np.abs(size) / top + 1e-9)
    for c in range(4):
        if size[c] < 0:
            faults.append(
                Fault("capsule_inverted", f"capsule {names[c]} is inverted within {declared}", None)
            )
        elif size[c] < 0.5 * top:
            text = f"capsule {names[c]} is {-_db(size[c] / top):.1f} dB weaker than the others"
            faults.append(Fault("weak", text, None))
    faults += _orientation(turn, layout)
    # Of capsules that are not off the level is left to the fit.
    kept = np.where(np.abs(gains_db) > 2.0, size / top, np.sign(size))
    back = conversion_matrix(declared, layout)
    rows = (back @ model) * (kept / size)[:, None]
    return Wiring(
        np.linalg.inv(back) @ rows, "encoded", declared, turn, left, tuple(faults), float(np.ptp(gains_db))
    )


def _type(layout: str) -> str:
    return "type I" if layout == "a" else "type II"
