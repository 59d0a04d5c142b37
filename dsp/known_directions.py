"""The encoding matrix from sources at known directions: what data alone cannot tell.

A microphone that is turned, mirrored, wired in another order or hung upside down still records a perfectly
valid sound field. With three or more sources whose directions are known and not in one plane (claps in front,
at the left and above), least squares gives the matrix between true and measured directions; its determinant
and the nearest signed permutation name the fault. Four directions also give the 4x4 matrix and with it the
capsules.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import permutations
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dsp.ambisonics import CHANNEL_NAMES, conversion_matrix, direction_to_unit
from dsp.arguments import as_array
from dsp.errors import InputError

Floats = NDArray[np.floating[Any]]


@dataclass(frozen=True, slots=True)
class DirectionReport:
    """What the known directions say. Matrices act on AmbiX vectors W, Y, Z, X: measured = encoding @ true.

    fault: "none", "rotated", "upside_down", "end_fire", "channel_order", "capsules_swapped", "axis_flipped",
    "w_inverted", "mirrored", "gains" or "unknown" (the message gives the reason). determinant: of the 3x3
    part with its gains removed, near +1 or, for a mirror that no rotation mends, -1. channels: which true
    axis each of Y, Z, X carries, e.g. ("+X", "+Y", "+Z") for a FuMa file read as AmbiX; None if the axes are
    not near a signed permutation. swapped: the two capsules whose exchange looks like this. gains_db: of Y,
    Z, X against W (None without W). rotation_deg: the turn that is left beside the permutation.
    capsule_gains_db: of the four capsules, from six or more responses. residual_deg: mean angle left after
    the correction. correction: right @ measured = true; apply it with `apply_matrix`.
    """

    fault: str
    message: str
    determinant: float | None = None
    channels: tuple[str, str, str] | None = None
    swapped: tuple[str, str] | None = None
    gains_db: tuple[float, float, float] | None = None
    rotation_deg: float | None = None
    capsule_gains_db: tuple[float, float, float, float] | None = None
    residual_deg: float | None = None
    encoding: Floats | None = None
    correction: Floats | None = None

    @property
    def ok(self) -> bool:
        return self.fault == "none"

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        result: dict[str, Any] = {name: getattr(self, name) for name in self.__slots__}
        for name in ("encoding", "correction"):
            if result[name] is not None:
                result[name] = np.round(result[name], 5).tolist()
        return result


_AXES = ("Y", "Z", "X")


def response_vector(clip: ArrayLike, fs: int) -> Floats:
    """The direct sound of a clap or chirp in (frames, 4) AmbiX as a real vector (W, Y, Z, X), |W| = 1.

    Taken over the 2.5 ms from the first arrival (the first time the energy comes within 10 dB of its peak),
    between 200 Hz and 4 kHz: before reflections, below where capsules are no longer coincident.
    """
    from scipy.signal import butter, sosfilt

    x = np.asarray(clip, np.float64)
    if x.ndim != 2 or x.shape[1] != 4 or len(x) < 32:
        raise InputError(f"a response must have shape (frames, 4) with at least 32 frames, got {x.shape}")
    x = sosfilt(butter(2, [200, min(4000, 0.45 * fs)], "bandpass", fs=fs, output="sos"), x, axis=0)
    window = max(8, round(0.0025 * fs))
    energy = np.convolve(np.sum(x**2, axis=1), np.ones(max(1, window // 4)), "full")[: len(x)]
    if energy.max() <= 0:
        raise InputError("the response is silent")
    first = int(np.argmax(energy > 0.1 * energy.max()))
    start = max(0, first - window // 4)
    part = x[start : start + window]
    covariance = part.T @ part
    _, vectors = np.linalg.eigh(covariance)
    v = vectors[:, -1]
    return v / (v[0] if abs(v[0]) > 1e-3 else np.linalg.norm(v))


def check_directions(
    measured: ArrayLike, azimuth_deg: ArrayLike, elevation_deg: ArrayLike, capsules: str | None = None
) -> DirectionReport:
    """Name the wiring or mounting fault from sources at known directions.

    measured: (n, 3) directions x, y, z found by an estimator, or (n, 4) responses W, Y, Z, X (read as AmbiX)
    to each source at any loudness, see `response_vector`. azimuth_deg, elevation_deg: (n,) the truth.
    capsules: "a" or "a2" if the recording was made from capsule signals: then an exchange of two axes is
    called by the two capsules. n >= 3 and not in one plane, else the answer is "unknown". Raises InputError.
    """
    m = np.asarray(as_array(measured, "measured"), np.float64)
    truth = np.atleast_2d(direction_to_unit(azimuth_deg, elevation_deg))
    if m.ndim != 2 or m.shape[1] not in (3, 4) or len(m) != len(truth):
        raise InputError(f"measured must be (n, 3) or (n, 4) for {len(truth)} directions, got {m.shape}")
    if not np.isfinite(m).all() or not np.isfinite(truth).all():
        raise InputError("measured or the true directions hold NaN or infinity")
    silent = np.flatnonzero(~m.any(axis=1))
    if len(silent):
        raise InputError(f"measured[{silent[0]}] is all zero: nothing was heard from there; leave it out")
    if capsules not in (None, "a", "a2"):
        raise InputError(f"capsules must be 'a', 'a2' or None, not {capsules!r}")
    u = truth[:, [1, 2, 0]]
    if len(u) < 3 or np.linalg.svd(u, compute_uv=False)[-1] < 0.25:
        return DirectionReport(
            "unknown",
            "the known directions lie in one plane (or are fewer than three), so a mirror cannot be told "
            "from a turn; add a source from another height",
        )
    has_w = m.shape[1] == 4
    if has_w:
        if np.any(np.abs(m[:, 0]) < 1e-3 * np.linalg.norm(m[:, 1:], axis=1)):
            return DirectionReport("unknown", "W carries nothing: gains and signs cannot be told without it")
        v = m[:, 1:] / m[:, :1]
    else:
        v = (m / np.maximum(np.linalg.norm(m, axis=1, keepdims=True), 1e-12))[:, [1, 2, 0]]
    b = np.linalg.lstsq(u, v, rcond=None)[0].T  # v = b u
    gains = np.linalg.norm(b, axis=1)
    if gains.min() < 0.1 * gains.max():
        dead = _AXES[int(np.argmin(gains))]
        return DirectionReport("unknown", f"{dead} does not react to the direction: it is dead")
    left, _, right = np.linalg.svd(b / gains[:, None])
    turn = left @ right  # the nearest orthogonal matrix
    determinant = float(np.linalg.det(turn))
    permutation, distance = _nearest_signed_permutation(turn)
    near = distance <= _NEAR_DEG
    exact = permutation if distance <= _ALIGNED_DEG else turn
    encoding = np.eye(4)
    encoding[1:, 1:] = (gains[:, None] if has_w else 1.0) * exact
    correction = np.linalg.inv(encoding)
    mended = v @ correction[1:, 1:].T
    cosine = np.sum(mended * u, axis=1) / np.maximum(np.linalg.norm(mended, axis=1), 1e-12)
    residual = float(np.degrees(np.mean(np.arccos(np.clip(cosine, -1, 1)))))
    gains_db = tuple(float(g) for g in 20 * np.log10(gains)) if has_w else None
    fault, text, swapped = _name(permutation if near else None, turn, gains_db, capsules)
    if residual > 20.0:
        fault = "unknown"
        text = f"no matrix explains the directions: {residual:.0f} degrees stay on average. " + text
    capsule_gains = None
    if has_w and capsules is not None and len(m) >= 6:
        capsule_gains = _capsule_gains(m, u, correction, capsules)
        worst = int(np.argmax(np.abs(capsule_gains)))
        if fault in ("none", "gains") and abs(capsule_gains[worst]) > 1.0:
            fault = "gains"
            text = f"capsule {CHANNEL_NAMES[capsules][worst]} is {capsule_gains[worst]:+.1f} dB off"
    return DirectionReport(
        fault,
        text,
        determinant,
        _axis_names(permutation) if near else None,
        swapped,
        gains_db,  # type: ignore[arg-type]
        distance,
        capsule_gains,
        residual,
        encoding,
        correction,
    )


_NEAR_DEG = 30.0  # up to here the axes are called by their nearest permutation
_ALIGNED_DEG = 10.0  # up to here a turn is taken for the error of the known directions, and not corrected


def _nearest_signed_permutation(turn: Floats) -> tuple[Floats, float]:
    """(the nearest of the 48 signed permutations, the angle of the turn between it and `turn` in degrees)."""
    best, score = np.eye(3), -np.inf
    for order in permutations(range(3)):
        candidate = np.zeros((3, 3))
        for row, column in enumerate(order):
            candidate[row, column] = np.sign(turn[row, column]) or 1.0
        trace = float(np.sum(candidate * turn))
        same_hand = np.linalg.det(candidate) * np.linalg.det(turn) > 0
        if same_hand and trace > score:
            best, score = candidate, trace
    return best, float(np.degrees(np.arccos(np.clip((score - 1) / 2, -1, 1))))


def _axis_names(permutation: Floats) -> tuple[str, str, str]:
    names = []
    for row in permutation:
        column = int(np.argmax(np.abs(row)))
        names.append(("+" if row[column] > 0 else "-") + _AXES[column])
    return names[0], names[1], names[2]


def _swapped_capsules(permutation: Floats, capsules: str) -> tuple[str, str] | None:
    """The two capsules whose exchange acts on Y, Z, X like this matrix, if there are two."""
    to_b = conversion_matrix(capsules, "ambix")
    for i in range(4):
        for j in range(i):
            exchange = np.eye(4)
            exchange[[i, j]] = exchange[[j, i]]
            if np.allclose((to_b @ exchange @ np.linalg.inv(to_b))[1:, 1:], permutation, atol=1e-6):
                return CHANNEL_NAMES[capsules][j], CHANNEL_NAMES[capsules][i]
    return None


def _name(
    permutation: Floats | None, turn: Floats, gains_db: Any, capsules: str | None
) -> tuple[str, str, tuple[str, str] | None]:
    """(fault, message, swapped capsules) for the axes found."""
    mirrored = np.linalg.det(turn) < 0
    if permutation is None:
        if mirrored:
            return "mirrored", "the sound field is mirrored and turned; apply the correction matrix", None
        angle = float(np.degrees(np.arccos(np.clip((np.trace(turn) - 1) / 2, -1, 1))))
        return "rotated", f"the microphone is turned by {angle:.0f} degrees; apply the correction", None
    names = _axis_names(permutation)
    carried = f"the channels Y, Z, X carry {', '.join(names)}"
    swapped = _swapped_capsules(permutation, capsules or "a")
    if names == ("+Y", "+Z", "+X"):
        if gains_db is not None and max(abs(g) for g in gains_db) > 2.0:
            listed = ", ".join(f"{a} {g:+.1f} dB" for a, g in zip(_AXES, gains_db, strict=True))
            return "gains", f"the axes are right, the gains are not: {listed}{_norm(gains_db)}", None
        return "none", "order, signs and gains are right", None
    if names == ("-Y", "-Z", "-X"):
        return (
            "w_inverted",
            "every direction points to the opposite side: W (or Y, Z and X) is inverted",
            None,
        )
    if names == ("-Y", "-Z", "+X"):
        return (
            "upside_down",
            "the microphone hangs upside down: turn by 180 degrees about the front axis",
            None,
        )
    if names in (("+Y", "+X", "-Z"), ("+Y", "-X", "+Z")):
        lies = "front, its front to the floor" if names[1] == "+X" else "back, its front up"
        return "end_fire", f"the microphone lies end-fire: its top points to the {lies}", None
    if swapped is not None and capsules is not None:
        return "capsules_swapped", f"capsules {swapped[0]} and {swapped[1]} are exchanged: {carried}", swapped
    if all(n[0] == "+" for n in names):
        fuma = " : the order is W X Y Z (FuMa)" if names == ("+X", "+Y", "+Z") else ""
        also = f", as when capsules {swapped[0]} and {swapped[1]} are exchanged" if swapped else ""
        return "channel_order", f"{carried}{fuma}{also}", swapped
    off = [n[1] for n in names if n[0] == "-"]
    if mirrored and len(off) == 1 and all(n[1] == a for n, a in zip(names, _AXES, strict=True)):
        side = {"Y": "left and right", "Z": "above and below", "X": "front and back"}[off[0]]
        return "axis_flipped", f"{off[0]} is inverted: {side} are mirrored; no rotation mends this", None
    if mirrored:
        also = f", as when capsules {swapped[0]} and {swapped[1]} are exchanged" if swapped else ""
        return "mirrored", f"the sound field is mirrored: {carried}{also}", swapped
    angle = float(np.degrees(np.arccos(np.clip((np.trace(permutation) - 1) / 2, -1, 1))))
    return "rotated", f"the microphone is turned by {angle:.0f} degrees: {carried}", None


def _norm(gains_db: Any) -> str:
    mean = float(np.mean(gains_db))
    if np.ptp(gains_db) < 1.5:
        for name, level in (("N3D", 4.77), ("FuMa's W", 3.01)):
            if abs(mean - level) < 0.8:
                return f" (as {name} has them)"
    return ""


def _capsule_gains(
    m: Floats, u: Floats, correction: Floats, capsules: str
) -> tuple[float, float, float, float]:
    """Gains of the capsules in dB against their mean: the loudness of each source is unknown and is fitted
    too.
    """
    to_a = conversion_matrix("ambix", capsules)
    heard = (m @ correction.T) @ to_a.T  # (n, 4) capsule signals
    ideal = np.column_stack([np.ones(len(u)), u]) @ to_a.T
    gain = np.ones(4)
    for _ in range(30):  # alternate: loudness of each source, gain of each capsule
        model = ideal * gain
        loud = np.sum(heard * model, axis=1) / np.sum(model**2, axis=1)
        scaled = ideal * loud[:, None]
        gain = np.sum(heard * scaled, axis=0) / np.sum(scaled**2, axis=0)
        gain /= np.mean(np.abs(gain))
    a, b, c, d = (float(g) for g in 20 * np.log10(np.maximum(np.abs(gain), 1e-6)))
    return a, b, c, d


def apply_matrix(foa: ArrayLike, matrix: ArrayLike) -> NDArray[np.float32]:
    """(frames, 4) with each frame multiplied by a (4, 4) matrix: how a correction is applied."""
    x, matrix = np.asarray(foa), np.asarray(matrix, np.float64)
    if x.ndim != 2 or x.shape[1] != 4 or matrix.shape != (4, 4):
        raise InputError(f"expected (frames, 4) and (4, 4), got {x.shape} and {matrix.shape}")
    return np.asarray(x @ matrix.T, dtype=np.float32)
