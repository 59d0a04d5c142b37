"""The head of a virtual person: a shaped and painted surface, so that faces differ as people's do.

An ellipsoid gets a nose, brows, eye sockets, cheekbones, lips, a chin and ears by soft bumps; skin, eyes,
lips, hair and beard are painted on it; it is lit from above and drawn point by point, the far ones first. The
frame of a head: x forward, y to the person's own right, z up, metres, origin in its middle.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from capture.virtual.drawing import Colour

if TYPE_CHECKING:
    from capture.virtual.avatar import Look

Floats = NDArray[np.floating]

HEAD_M = np.array([0.094, 0.074, 0.118])  # half axes: forward, to the side, up
EYES_UP_M = 0.004
HAIR_M = 0.011  # thickness
LONG_HAIR_M = 0.017
_AMBIENT, _DIFFUSE = 0.62, 0.46


@dataclass(frozen=True, slots=True)
class FaceShape:
    """What tells a face from others; metres unless said. The defaults are an average face."""

    wide: float = 1.0  # of the head's breadth
    jaw: float = 0.0  # share by which the jaw is wider
    chin: float = 0.006  # how far it stands out
    cheek: float = 0.004
    brow: float = 0.004
    eyes_apart: float = 0.031  # from the middle
    eye_wide: float = 0.0145
    eye_tall: float = 0.0056
    eye_tilt: float = 0.0  # of the outer corner, up per metre
    iris: Colour = (70, 90, 110)
    brow_up: float = 0.019  # above the eye
    brow_thick: float = 0.0036
    brow_arch: float = 0.004
    nose_long: float = 0.046  # from the eyes down to the tip
    nose_out: float = 0.021
    nose_wide: float = 0.0105
    bridge: float = 0.5  # of nose_out, between the eyes
    mouth_wide: float = 0.0245
    upper_lip: float = 0.0055
    lower_lip: float = 0.0075
    lip: Colour = (104, 104, 188)
    hairline: float = 0.068  # above the middle
    folds: float = 0.0  # of the lines beside the mouth, 0 to 1
    stubble: float = 0.0  # 0 to 1
    eyes_up: float = EYES_UP_M  # above the middle of the head
    fringe: float = 0.0  # how far hair hangs into the forehead
    hair: float = HAIR_M  # thickness of the hair
    bags: float = 0.0  # under the eyes, 0 to 1
    freckles: float = 0.0  # 0 to 1
    rosy: float = 1.0  # cheeks and nose


def stranger(name: str) -> FaceShape:
    """A face of its own for somebody who is not of the household; the same for the same name."""
    draw = random.Random(f"face of {name}")
    u = draw.uniform
    dark = u(0, 1)
    return FaceShape(
        wide=u(0.86, 1.16), jaw=u(-0.2, 0.28), chin=u(0, 0.013), cheek=u(0, 0.012), brow=u(0, 0.012),
        eyes_apart=u(0.0265, 0.0365), eye_wide=u(0.0115, 0.018), eye_tall=u(0.0032, 0.0085),
        eye_tilt=u(-0.35, 0.4), iris=(30 + 130 * dark * u(0.6, 1), 40 + 100 * dark, 60 + 40 * dark),
        brow_up=u(0.012, 0.025), brow_thick=u(0.0015, 0.0085), brow_arch=u(-0.002, 0.01),
        nose_long=u(0.034, 0.06), nose_out=u(0.011, 0.031), nose_wide=u(0.0075, 0.018), bridge=u(0.2, 0.8),
        mouth_wide=u(0.0185, 0.031), upper_lip=u(0.0025, 0.0105), lower_lip=u(0.004, 0.013),
        lip=(u(70, 130), u(66, 132), u(120, 212)), hairline=u(0.056, 0.112), folds=u(0, 1) ** 2,
        stubble=u(0, 1) ** 3 * 0.6, eyes_up=u(-0.004, 0.014), fringe=u(0, 1) ** 4 * 0.05,
        hair=u(0.003, 0.02), bags=u(0, 1) ** 2, freckles=u(0, 1) ** 3, rosy=u(0, 2.2),
    )  # fmt: skip


# Of 84 drawn faces those six that dlib's face vectors tell apart best, each with its look of `person.LOOKS`:
# at least 0.54 between any two, nearly as between people (0.6), at most 0.46 between two turns of
# one head.
SHAPES = tuple(stranger(name) for name in ("h0_11", "h1_5", "h2_4", "h3_0", "h4_1", "h5_11"))


@dataclass(frozen=True, slots=True)
class Surface:
    """points and normals: (n, 3) in the head's frame. colours: (n, 3) BGR as painted, without light.

    gloss: (n,) 0 to 1.
    """

    points: Floats
    normals: Floats
    colours: Floats
    gloss: Floats


def lit(surface: Surface, ahead: Floats, right: Floats, towards: Floats) -> tuple[Floats, Floats]:
    """Normals in the room (n, 3) and colours (n, 3) BGR with light.

    ahead, right: (3,) of the head in the room; towards: (3,) unit vector to the camera.
    """
    turn = np.column_stack([ahead, right, [0.0, 0.0, 1.0]])
    normals = surface.normals @ turn.T
    across = np.cross([0.0, 0.0, 1.0], towards)
    light = towards * 0.45 + across * 0.35 + np.array([0.0, 0.0, 0.75])
    light /= np.linalg.norm(light)
    level = np.clip(normals @ light, 0, 1)
    half = light + towards
    shine = np.clip(normals @ (half / np.linalg.norm(half)), 0, 1) ** 24 * surface.gloss
    colours = surface.colours * (_AMBIENT + _DIFFUSE * level)[:, None] + 46 * shine[:, None]
    return normals, np.clip(colours, 0, 255)


@lru_cache(maxsize=48)  # 2 MB each for 320 columns
def surface_of(look: Look, shape: FaceShape, mouth_up: float, opened: float, columns: int) -> Surface:
    """The head of somebody. mouth_up: of the middle of the mouth, m (negative). opened: 0 to 1.

    columns: points around it; half as many from top to bottom.
    """
    rows = columns // 2
    around = (np.arange(columns) + 0.5) / columns * 2 * np.pi - np.pi
    tilt = (np.arange(rows) + 0.5) / rows * np.pi - np.pi / 2
    azimuth, elevation = np.meshgrid(around.astype(np.float32), tilt.astype(np.float32))
    unit = np.stack(
        [np.cos(elevation) * np.cos(azimuth), np.cos(elevation) * np.sin(azimuth), np.sin(elevation)], axis=-1
    )
    points = unit * (HEAD_M * (1.0, shape.wide, 1.0)).astype(np.float32)
    # The skull is broader than an egg, the jaw a wedge.
    low, high = np.clip((-points[..., 2] - 0.02) / 0.09, 0, 1), np.clip(points[..., 2] / 0.1, 0, 1)
    points[..., 1] *= 1 + (0.02 + 0.9 * shape.jaw) * low * (1.2 - low) + 0.16 * high
    front = np.clip(unit[..., 0] * 3, 0, 1)  # nothing of a face on the back of the head
    side, up = points[..., 1].copy(), points[..., 2].copy()
    points[..., 0] += _relief(shape, side, up, mouth_up, opened) * front
    _ears(points, side, up, unit)
    colours, gloss, hair = _painted(look, shape, side, up, front, unit, mouth_up, opened)
    points += unit * hair[..., None]
    normals = np.cross(np.gradient(points, axis=1), np.gradient(points, axis=0))
    normals /= np.maximum(np.linalg.norm(normals, axis=-1, keepdims=True), 1e-12)
    return Surface(points.reshape(-1, 3), normals.reshape(-1, 3), colours.reshape(-1, 3), gloss.reshape(-1))


def _bump(side: Floats, up: Floats, at: tuple[float, float], size: tuple[float, float]) -> Floats:
    return np.asarray(np.exp(-0.5 * (((side - at[0]) / size[0]) ** 2 + ((up - at[1]) / size[1]) ** 2)))


def _both(side: Floats, up: Floats, at: tuple[float, float], size: tuple[float, float]) -> Floats:
    """The same on both halves of the face."""
    return _bump(np.abs(side), up, at, size)


def _step(value: Floats, edge: float | Floats, soft: float) -> Floats:
    """0 below the edge, 1 above, within `soft` of it in between."""
    return np.clip((value - edge) / soft + 0.5, 0, 1)


def _relief(shape: FaceShape, side: Floats, up: Floats, mouth_up: float, opened: float) -> Floats:
    """How far the skin stands out forward, metres."""
    tip = shape.eyes_up - shape.nose_long
    way = np.clip(
        (shape.eyes_up + 0.01 - up) / (shape.eyes_up + 0.01 - tip), 0, 1
    )  # 0 at the bridge, 1 at the tip
    ridge = shape.nose_out * (shape.bridge + (1 - shape.bridge) * way**1.3)
    ends = _step(shape.eyes_up + 0.016 - up, 0.0, 0.02) * _step(up, tip - 0.004, 0.008)
    out = ridge * ends * np.exp(-0.5 * (side / (0.0055 + (0.55 * shape.nose_wide - 0.0015) * way)) ** 2)
    out = out + 0.006 * _both(side, up, (shape.nose_wide, tip + 0.002), (0.0045, 0.0055))
    out = out + shape.brow * _both(side, up, (shape.eyes_apart, shape.eyes_up + 0.019), (0.02, 0.006))
    out = out - 0.007 * _both(side, up, (shape.eyes_apart, shape.eyes_up), (0.014, 0.009))
    out = out + 0.004 * _both(side, up, (shape.eyes_apart, shape.eyes_up - 0.0005), (0.009, 0.006))
    out = out + shape.cheek * _both(side, up, (0.045, shape.eyes_up - 0.03), (0.016, 0.014))
    chin_up = -0.104 - 0.006 * opened
    out = out + shape.chin * _bump(side, up, (0.0, chin_up), (0.017, 0.011))
    gap = 0.5 * _gap(opened)
    lips = _bump(side, up, (0.0, mouth_up + gap + 0.5 * shape.upper_lip), (0.6 * shape.mouth_wide, 0.005))
    lips = lips + _bump(
        side, up, (0.0, mouth_up - gap - 0.5 * shape.lower_lip), (0.5 * shape.mouth_wide, 0.005)
    )
    out = out + 0.004 * lips
    out = out - 0.003 * _bump(side, up, (0.0, mouth_up - gap - 0.016), (0.018, 0.004))
    folds = np.abs(np.abs(side) - (shape.nose_wide + 0.006 + 0.35 * np.clip(tip - up, 0, 0.05)))
    return np.asarray(
        out
        - 0.0022
        * shape.folds
        * np.exp(-0.5 * (folds / 0.0024) ** 2)
        * _bump(side * 0, up, (0.0, (tip + mouth_up) / 2), (1.0, 0.014))
    )


def _ears(points: Floats, side: Floats, up: Floats, unit: Floats) -> None:
    ear = np.exp(-0.5 * (((points[..., 0] + 0.004) / 0.011) ** 2 + ((up + 0.008) / 0.02) ** 2))
    points[..., 1] += np.sign(side) * 0.017 * ear * np.clip(np.abs(unit[..., 1]) * 2 - 0.6, 0, 1)


def _gap(opened: float) -> float:
    """Between the lips, metres."""
    return 0.0205 * opened


def _painted(
    look: Look,
    shape: FaceShape,
    side: Floats,
    up: Floats,
    front: Floats,
    unit: Floats,
    mouth_up: float,
    opened: float,
) -> tuple[Floats, Floats, Floats]:
    """Colours (rows, columns, 3), gloss and thickness of the hair (rows, columns)."""
    seed = round(1e6 * (shape.eyes_apart + shape.nose_long + shape.mouth_wide))
    skin, hair_colour = np.array(look.skin, np.float32), np.array(look.hair, np.float32)
    grain = _noise(side.shape, seed)
    colours = skin * (1 + 0.035 * grain[..., None])
    spots = np.clip(_noise(side.shape, seed + 2, columns=150) - 0.9, 0, 1)
    there = shape.freckles * (_both(side, up, (0.03, shape.eyes_up - 0.028), (0.024, 0.016)) * front * spots)
    colours = colours * (1 - 0.55 * there[..., None] * np.array((1.0, 0.8, 0.5), np.float32))
    blush = shape.rosy * _both(side, up, (0.042, shape.eyes_up - 0.032), (0.015, 0.013))
    blush = blush + 0.7 * _bump(side, up, (0.0, shape.eyes_up - shape.nose_long), (0.009, 0.009))
    red = np.array((0.1, 0.09, 0.01), np.float32)
    colours = colours * (1 - (blush * front)[..., None] * red)
    gloss = 0.35 * front

    def paint(mask: Floats, colour: Floats | Colour, strength: float = 1.0) -> None:
        nonlocal colours
        share = (mask * strength * (front > 0.35))[..., None]
        colours = colours * (1 - share) + np.asarray(colour, np.float32) * share

    across = np.abs(side) - shape.eyes_apart  # outwards
    eye_up = up - shape.eyes_up - shape.eye_tilt * across
    paint(_both(side, up, (shape.eyes_apart, shape.eyes_up + 0.003), (0.015, 0.009)), skin * 0.66, 0.5)
    bag = _both(side, up, (shape.eyes_apart, shape.eyes_up - 0.0115), (0.011, 0.003))
    paint(bag, skin * (0.62, 0.6, 0.7), 0.8 * shape.bags)
    almond = 1 - (across / shape.eye_wide) ** 2
    upper, lower = (
        shape.eye_tall * 1.15 * np.clip(almond, 0, 1) ** 0.7,
        shape.eye_tall * 0.85 * np.clip(almond, 0, 1),
    )
    inside = _step(upper - eye_up, 0, 0.0012) * _step(eye_up + lower, 0, 0.0012) * (almond > 0)
    paint(inside, (222, 226, 230))
    ring = np.hypot(across, eye_up - 0.0003)
    paint(inside * _step(-ring, -0.0063, 0.0012), shape.iris)
    paint(inside * _step(-ring, -0.0029, 0.001), (20, 18, 18))
    lash = np.exp(-0.5 * ((eye_up - upper) / 0.0011) ** 2) * (almond > -0.1)
    paint(lash, (34, 30, 32), 0.85)
    paint(np.exp(-0.5 * ((eye_up + lower) / 0.0009) ** 2) * (almond > 0), skin * 0.5, 0.45)
    paint(np.exp(-0.5 * ((eye_up - upper - 0.0042) / 0.001) ** 2) * (almond > -0.2), skin * 0.55, 0.5)
    brow_line = shape.brow_up + shape.brow_arch * (1 - ((across - 0.003) / 0.018) ** 2)
    brow = np.exp(-0.5 * ((up - shape.eyes_up - brow_line) / (0.62 * shape.brow_thick)) ** 4)
    reach = _step(across, -0.017, 0.006) * _step(-across, -0.023, 0.008)
    paint(brow * reach * (0.8 + 0.2 * grain), hair_colour * 0.75, 0.9)
    tip = shape.eyes_up - shape.nose_long
    paint(_both(side, up, (0.55 * shape.nose_wide, tip - 0.0035), (0.003, 0.0018)), skin * 0.22, 0.9)
    paint(_bump(side, up, (0.0, tip - 0.008), (0.011, 0.0025)), skin * 0.7, 0.5)
    fold = np.abs(np.abs(side) - (shape.nose_wide + 0.006 + 0.35 * np.clip(tip - up, 0, 0.05)))
    along = _bump(side * 0, up, (0.0, (tip + mouth_up) / 2), (1.0, 0.012))
    paint(np.exp(-0.5 * (fold / 0.0018) ** 2) * along, skin * 0.6, 0.6 * shape.folds)
    beard = _beard(look, shape, side, up, mouth_up)
    paint(np.clip(beard * (0.85 + 0.25 * grain), 0, 1), hair_colour * 0.85 + 8)
    colours = _lips(shape, side, up, front, mouth_up, opened, colours)
    hair, hair_out = _hair(look, shape, side, up, unit)
    strands = 0.8 + 0.16 * _noise(side.shape, seed + 1, columns=170) + 0.1 * np.clip(unit[..., 2], 0, 1)
    colours = colours * (1 - hair[..., None]) + hair_colour * (hair * strands)[..., None]
    gloss = gloss * (1 - hair) + 0.5 * hair
    return (
        colours,
        np.asarray(gloss),
        np.asarray(hair_out + 0.003 * (beard * front if look.beard else 0 * beard)),
    )


def _lips(
    shape: FaceShape, side: Floats, up: Floats, front: Floats, mouth_up: float, opened: float, colours: Floats
) -> Floats:
    """The mouth on the colours."""
    wide = shape.mouth_wide * (1 - 0.18 * opened)
    bow = np.clip(1 - (side / wide) ** 2, 0, 1)
    gap = _gap(opened) * bow**0.8
    dip = 1 - 0.25 * np.exp(-0.5 * (side / 0.003) ** 2)
    top = mouth_up + 0.5 * gap + shape.upper_lip * bow**0.6 * dip
    bottom = mouth_up - 0.5 * gap - shape.lower_lip * bow**0.5
    there = (bow > 0) & (front > 0.35)
    lips = _step(top - up, 0, 0.0012) * _step(up - bottom, 0, 0.0012) * there
    colours = colours * (1 - lips[..., None]) + np.array(shape.lip, np.float32) * lips[..., None]
    seam = np.maximum(0.5 * gap, 0.0009)
    dark = _step(seam - np.abs(up - mouth_up), 0, 0.001) * there
    colours = colours * (1 - dark[..., None]) + np.array((34, 24, 48), np.float32) * dark[..., None]
    teeth = _step(gap - 0.006, 0, 0.004) * _step(up - mouth_up, 0.5 * gap - 0.0045, 0.001) * (dark > 0.5)
    teeth = teeth * (np.abs(side) < 0.72 * wide)
    teeth = 0.85 * teeth[..., None]
    return np.asarray(colours * (1 - teeth) + np.array((206, 216, 222), np.float32) * teeth)


def _beard(look: Look, shape: FaceShape, side: Floats, up: Floats, mouth_up: float) -> Floats:
    """0 to 1, where the beard or its shadow is."""
    strength = 1.0 if look.beard else 0.45 * shape.stubble * (not look.long_hair)
    if not strength:
        return np.zeros_like(side)
    jaw = _step(-up, 0.052 - 0.5 * np.clip(np.abs(side) - 0.035, 0, 0.04), 0.012)
    cheek = _step(-up, -mouth_up - 0.004 - 1.1 * np.clip(np.abs(side) - 0.026, 0, 0.05), 0.012)
    moustache = _both(side, up, (0.012, mouth_up + 0.0135), (0.014, 0.0042))
    return np.asarray(np.clip(np.maximum(jaw * cheek, moustache), 0, 1) * strength)


def _hair(look: Look, shape: FaceShape, side: Floats, up: Floats, unit: Floats) -> tuple[Floats, Floats]:
    """0 to 1 where hair grows, and how thick it lies, metres."""
    turned = np.abs(np.arctan2(unit[..., 1], unit[..., 0]))  # 0 in front, pi behind
    temple = np.clip((turned - 0.55) / 0.75, 0, 1)
    low = 0.015 if not look.long_hair else -0.02
    line = (shape.hairline - shape.fringe * np.cos(np.clip(1.2 * turned, 0, 1.5))) * (
        1 - temple
    ) + low * temple
    nape = np.clip((turned - 1.45) / 0.5, 0, 1)
    line = line * (1 - nape) + (-0.075 if not look.long_hair else -0.12) * nape
    if look.long_hair:  # it falls over the ears
        curtain = np.clip((turned - 1.05) / 0.25, 0, 1) * np.clip((np.abs(side) - 0.03) / 0.02, 0, 1)
        line = line * (1 - curtain) - 0.12 * curtain
    there = _step(up, line, 0.006)
    thick = shape.hair + (LONG_HAIR_M - HAIR_M if look.long_hair else 0)
    edge = _step(up, line + 0.004, 0.016)
    return there, edge * thick * (0.6 + 0.4 * np.clip((up - line) / 0.04, 0, 1))


def _noise(size: tuple[int, ...], seed: int, columns: int = 60) -> Floats:
    """Soft noise of about unit variance; `columns` patches around the head."""
    import cv2

    coarse = np.random.default_rng(seed).normal(0, 1, (columns // 2 if columns < 100 else 8, columns))
    large = cv2.resize(coarse, (size[1], size[0]), interpolation=cv2.INTER_CUBIC)
    return np.asarray(np.clip(large, -2, 2), np.float32)
