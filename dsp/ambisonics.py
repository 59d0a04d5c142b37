"""First-order ambisonics: conventions, encoding, rotation, virtual microphones and monitoring.

Inside Hearth every FOA signal is AmbiX: channels W, Y, Z, X (ACN) with SN3D, so that a plane wave of
amplitude 1 from the unit vector (x, y, z) is W = 1, Y = y, Z = z, X = x. x points forward, y left, z up;
azimuth runs counter-clockwise from the front, elevation upwards, both in degrees.

Sources: Nachbar et al., "AmbiX: a suggested ambisonics format", Ambisonics Symposium 2011 (ACN, SN3D); Malham
and Furse (W, X, Y, Z with W / sqrt 2); Gerzon, "The design of precisely coincident microphone arrays for
stereo and surround sound", AES 50 (1975), and Farina, "A-format to B-format conversion" (tetrahedron, types I
and II).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dsp.arguments import as_array
from dsp.errors import InputError

Array = NDArray[np.float32]
Floats = NDArray[np.float64]

FORMATS = ("ambix", "fuma", "n3d", "a", "a2")
"""ambix: W Y Z X, SN3D. fuma: W X Y Z, W / sqrt 2. n3d: W Y Z X, N3D. a: tetrahedral capsules of type I in
the order front-left-up, front-right-down, back-left-down, back-right-up. a2: type II, FLD FRU BLU BRD."""

CHANNEL_NAMES = {
    "ambix": ("W", "Y", "Z", "X"),
    "fuma": ("W", "X", "Y", "Z"),
    "n3d": ("W", "Y", "Z", "X"),
    "a": ("FLU", "FRD", "BLD", "BRU"),
    "a2": ("FLD", "FRU", "BLU", "BRD"),
}

_TYPE_1 = np.array([[1, 1, 1], [1, -1, -1], [-1, 1, -1], [-1, -1, 1]]) / np.sqrt(3.0)  # rows x, y, z
CAPSULE_DIRECTIONS: dict[str, Floats] = {"a": _TYPE_1, "a2": _TYPE_1 * np.array([1, 1, -1])}
"""Unit vectors (4, 3) of the capsules, in the order of CHANNEL_NAMES."""


def _capsule_matrix(directions: Floats) -> Floats:
    """(4, 4) AmbiX -> signals of ideal coincident cardioids: 0.5 * (1 + direction . wave)."""
    return 0.5 * np.column_stack([np.ones(4), directions[:, 1], directions[:, 2], directions[:, 0]])


def _to_ambix() -> dict[str, Floats]:
    fuma = np.zeros((4, 4))
    fuma[0, 0] = np.sqrt(2.0)
    fuma[1, 2] = fuma[2, 3] = fuma[3, 1] = 1.0
    n3d = np.diag([1.0, 3**-0.5, 3**-0.5, 3**-0.5])
    return {
        "ambix": np.eye(4),
        "fuma": fuma,
        "n3d": n3d,
        "a": np.linalg.inv(_capsule_matrix(CAPSULE_DIRECTIONS["a"])),
        "a2": np.linalg.inv(_capsule_matrix(CAPSULE_DIRECTIONS["a2"])),
    }


_TO_AMBIX = _to_ambix()
_FROM_AMBIX = {name: np.linalg.inv(m) for name, m in _TO_AMBIX.items()}


def conversion_matrix(source: str, target: str) -> Floats:
    """(4, 4) matrix M with target_frame = M @ source_frame. Raises InputError for an unknown format.

    The capsule formats are those of ideal cardioids at one point (W = half the sum of the capsules, X, Y, Z =
    sqrt(3)/2 times their signed sums); the spacing of real capsules is left to `correct_spacing`.
    """
    for name in (source, target):
        if name not in FORMATS:
            raise InputError(f"unknown format {name!r}; one of {', '.join(FORMATS)}")
    return _FROM_AMBIX[target] @ _TO_AMBIX[source]


def _frames(x: ArrayLike, name: str = "foa") -> Array:
    array = as_array(x, name)
    if array.ndim != 2 or array.shape[1] != 4:
        raise InputError(f"{name} must have shape (frames, 4), got {array.shape}")
    if array.dtype.kind != "f":
        raise InputError(f"{name} must be float with full scale +-1, got {array.dtype}")
    return array.astype(np.float32, copy=False)


def _apply(x: Array, matrix: Floats) -> Array:
    return np.asarray(x @ matrix.T.astype(np.float32), dtype=np.float32)


def convert(x: ArrayLike, *, source: str, target: str) -> Array:
    """(frames, 4) from one of FORMATS to another, float32. A copy; see `conversion_matrix`."""
    x = _frames(x, "x")
    if source == target:
        conversion_matrix(source, target)
        return x.copy()
    return _apply(x, conversion_matrix(source, target))


def direction_to_unit(azimuth_deg: ArrayLike, elevation_deg: ArrayLike) -> Floats:
    """Unit vectors (..., 3) as x forward, y left, z up. NaN stays NaN. Raises InputError for what is no
    number, and for arrays that do not fit together."""
    az, el = (np.radians(_numbers(v, n)) for v, n in ((azimuth_deg, "azimuth"), (elevation_deg, "elevation")))
    try:
        az, el = np.broadcast_arrays(az, el)
    except ValueError:
        raise InputError(f"azimuth {az.shape} and elevation {el.shape} do not fit together") from None
    return np.stack([np.cos(az) * np.cos(el), np.sin(az) * np.cos(el), np.sin(el)], axis=-1)


def unit_to_direction(vector: ArrayLike) -> tuple[Any, Any]:
    """(azimuth_deg in [-180, 180), elevation_deg) of vectors (..., 3); the length does not matter.

    Floats for a single vector, else arrays. A zero vector gives (0, 0).
    """
    v = np.asarray(vector, dtype=np.float64)
    if v.shape[-1:] != (3,):
        raise InputError(f"vectors must have shape (..., 3), got {v.shape}")
    az = np.degrees(np.arctan2(v[..., 1], v[..., 0]))
    az = np.where(az >= 180.0, az - 360.0, az)
    el = np.degrees(np.arctan2(v[..., 2], np.hypot(v[..., 0], v[..., 1])))
    if v.ndim == 1:
        return float(az), float(el)
    return az, el


def angular_error_deg(
    azimuth1: ArrayLike, elevation1: ArrayLike, azimuth2: ArrayLike, elevation2: ArrayLike
) -> Any:
    """Great-circle angle between two directions in degrees, exact for small angles too; broadcasts."""
    a = direction_to_unit(azimuth1, elevation1)
    b = direction_to_unit(azimuth2, elevation2)
    angle = np.degrees(np.arctan2(np.linalg.norm(np.cross(a, b), axis=-1), np.sum(a * b, axis=-1)))
    return float(angle) if angle.ndim == 0 else angle


def _numbers(value: ArrayLike, name: str) -> Floats:
    try:
        a = np.asarray(value)
    except ValueError:  # rows of different lengths
        raise InputError(f"{name} must be numbers in one plain array, not {value!r:.80}") from None
    if a.dtype.kind not in "fiu":
        raise InputError(f"{name} must be real numbers, not {value!r:.80}")
    return a.astype(np.float64)


def _degrees(value: ArrayLike, name: str, most: float) -> Floats:
    a = _numbers(value, f"{name}_deg")
    bad = ~(np.isfinite(a) & (np.abs(a) <= most))
    if bad.any():
        first = int(np.argmax(bad))
        where = f" (frame {first})" if a.ndim else ""
        limit = f"from -{most:g} to {most:g} degrees" if np.isfinite(most) else "a finite number of degrees"
        raise InputError(f"{name} must be {limit}, not {float(a.flat[first]):g}{where}")
    return a


def encode(mono: ArrayLike, azimuth_deg: ArrayLike, elevation_deg: ArrayLike) -> Array:
    """A plane wave as AmbiX (frames, 4): W = s, Y = s y, Z = s z, X = s x.

    mono: (frames,). The direction is one pair of degrees, or one per frame for a moving source. Raises
    InputError for another shape, and for angles that are not numbers, not finite or an elevation beyond 90.
    """
    s = _numbers(mono, "mono")
    if s.ndim != 1:
        raise InputError(f"mono must have shape (frames,), got {s.shape}")
    az, el = _degrees(azimuth_deg, "azimuth", np.inf), _degrees(elevation_deg, "elevation", 90.0)
    unit = direction_to_unit(az, el)
    if unit.ndim not in (1, 2) or (unit.ndim == 2 and len(unit) != len(s)):
        raise InputError(f"give one direction, or one for each of the {len(s)} frames; got {unit.shape[:-1]}")
    gains = np.concatenate([np.ones((*unit.shape[:-1], 1)), unit[..., [1, 2, 0]]], axis=-1)
    return np.asarray(s[:, None] * gains, dtype=np.float32)


def _rotation(matrix: ArrayLike) -> Floats:
    r = np.asarray(matrix, dtype=np.float64)
    if r.shape != (3, 3) or not np.allclose(r @ r.T, np.eye(3), atol=1e-4):
        raise InputError("a rotation must be an orthonormal 3x3 matrix (rows and columns x, y, z)")
    if np.linalg.det(r) < 0:
        raise InputError("the matrix has determinant -1: it mirrors the sound field and is not a rotation")
    return r


def rotate(foa: ArrayLike, rotation: ArrayLike) -> Array:
    """AmbiX (frames, 4) with every source direction u moved to rotation @ u (3x3, in x, y, z).

    A microphone turned by R in the room is corrected by rotate(foa, R). Raises InputError for a matrix that
    is not orthonormal or mirrors.
    """
    r = _rotation(rotation)
    matrix = np.eye(4)
    order = [1, 2, 0]  # Y, Z, X
    matrix[1:, 1:] = r[np.ix_(order, order)]
    return _apply(_frames(foa), matrix)


def rotation_matrix(yaw_deg: float = 0.0, pitch_deg: float = 0.0, roll_deg: float = 0.0) -> Floats:
    """Rz(yaw) @ Ry(-pitch) @ Rx(roll): yaw counter-clockwise, pitch lifts the front, roll lifts the left."""
    y, p, r = np.radians([yaw_deg, -pitch_deg, roll_deg])
    rz = np.array([[np.cos(y), -np.sin(y), 0], [np.sin(y), np.cos(y), 0], [0, 0, 1]])
    ry = np.array([[np.cos(p), 0, np.sin(p)], [0, 1, 0], [-np.sin(p), 0, np.cos(p)]])
    rx = np.array([[1, 0, 0], [0, np.cos(r), -np.sin(r)], [0, np.sin(r), np.cos(r)]])
    return np.asarray(rz @ ry @ rx)


MOUNTINGS: dict[str, Floats] = {
    "upright": np.eye(3),
    "inverted": rotation_matrix(roll_deg=180.0),
    "endfire": rotation_matrix(pitch_deg=-90.0),
}
"""How the microphone is mounted -> the matrix for `rotate` that makes front and up right again.
inverted: hung upside down, front stays front. endfire: the top of the microphone points to the front and its
front down. (That a given recorder's "end-fire" is this one, and not the one with its front up, is not
confirmed: claps from known directions tell, `check_directions`.)"""


def virtual_mic(foa: ArrayLike, azimuth_deg: float, elevation_deg: float, pattern: float = 0.5) -> Array:
    """A first-order microphone (frames,) toward a direction: pattern * W + (1 - pattern) * (V . direction).

    pattern: 1 omni, 0.5 cardioid, 0.37 supercardioid, 0.25 hypercardioid (most directive), 0 figure of eight.
    """
    if not 0.0 <= pattern <= 1.0:
        raise InputError(f"pattern must be from 0 (figure of eight) to 1 (omni), not {pattern!r}")
    az, el = _degrees(azimuth_deg, "azimuth", np.inf), _degrees(elevation_deg, "elevation", 90.0)
    if az.ndim or el.ndim:
        raise InputError(
            f"a microphone looks into one direction; got azimuth {az.shape}, elevation {el.shape}"
        )
    x, y, z = direction_to_unit(az, el)
    gains = np.array([pattern, *((1.0 - pattern) * np.array([y, z, x]))])
    return np.asarray(_frames(foa) @ gains.astype(np.float32), dtype=np.float32)


def to_stereo(foa: ArrayLike) -> Array:
    """(frames, 2) left, right for monitoring on headphones or a stereo pair: coincident cardioids at +-90
    degrees, L = (W + Y) / 2 and R = (W - Y) / 2; no head model.

    A plane wave from the left is in the left channel alone, from the front in both at half level; L + R = W.
    """
    foa = _frames(foa)
    return np.stack([0.5 * (foa[:, 0] + foa[:, 1]), 0.5 * (foa[:, 0] - foa[:, 1])], axis=1)


def decoder_matrix(azimuth_deg: ArrayLike, elevation_deg: ArrayLike, kind: str = "max_re") -> Floats:
    """(loudspeakers, 4) for AmbiX on a regular layout: ring (all elevations 0), cube, octahedron, ...

    g = (W + d w u . V) / L with d = 2 on a ring, 3 in space. kind "basic" (w = 1) rebuilds the velocity at
    the centre (low frequencies, one listener); "max_re" (w = 1/sqrt 2 or 1/sqrt 3) points the energy as
    sharply as first order can (Gerzon, "General metatheory of auditory localisation", AES 92, 1992). The
    loudspeakers add up to W in both. Raises InputError for a layout that is not regular, stereo among them.
    """
    u = np.atleast_2d(direction_to_unit(_degrees(azimuth_deg, "azimuth", np.inf), elevation_deg))
    if u.ndim != 2:
        raise InputError("give one azimuth and elevation for each loudspeaker")
    flat = bool(np.all(np.abs(u[:, 2]) < 1e-6))
    dims = 2 if flat else 3
    spread = u.T @ u * dims / len(u)
    if np.abs(u.mean(axis=0)).max() > 1e-3 or np.abs(spread - np.diag([1, 1, 0 if flat else 1])).max() > 1e-3:
        raise InputError(
            f"the {len(u)} loudspeakers are no regular layout (ring, cube, octahedron, ...), which this "
            "decoder needs; for two use to_stereo, for others virtual_mic"
        )
    if kind not in ("basic", "max_re"):
        raise InputError(f"kind must be 'basic' or 'max_re', not {kind!r}")
    weight = 1.0 if kind == "basic" else dims**-0.5
    return np.column_stack([np.ones(len(u)), dims * weight * u[:, [1, 2, 0]]]) / len(u)


def decode(foa: ArrayLike, azimuth_deg: ArrayLike, elevation_deg: ArrayLike, kind: str = "max_re") -> Array:
    """AmbiX (frames, 4) to loudspeaker signals (frames, loudspeakers); see `decoder_matrix`."""
    return _apply(_frames(foa), decoder_matrix(azimuth_deg, elevation_deg, kind))
