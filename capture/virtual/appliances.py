"""How each kind of device looks in the virtual camera's picture."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from capture.rig import Device, Rig
from capture.virtual.drawing import Canvas, Colour, Face, box, shade
from capture.virtual.home_state import FAN_SETTING, PLAYBACK, Value, brightness, is_on, loudness
from capture.virtual.layout import front_of

WHITE: Colour = (232, 234, 236)
GREY: Colour = (150, 152, 155)
DARK: Colour = (48, 46, 44)
EDGE: Colour = (70, 72, 76)
WARM: Colour = (150, 225, 255)
GREEN: Colour = (90, 220, 110)
State = Mapping[str, Value]


def draw_device(
    canvas: Canvas, rig: Rig, device: Device, state: State, time_s: float, moving_only: bool = False
) -> None:
    """One device in its state, what turns at its place for time_s; `moving_only`: just what moves."""
    face = Face(device.position_m, front_of(device, rig))
    draw = {
        "on_off_light": _lamp,
        "dimmable_light": _lamp,
        "fan": _fan,
        "air_conditioner": _air_conditioner,
        "microwave": _microwave,
        "laundry_washer": _washer,
        "tv": _television,
        "audio_player": _player,
        "refrigerator": _refrigerator,
        "window_covering": _window,
    }.get(device.type, _small_box)
    draw(canvas, face, device, state, time_s, moving_only)


def moves(device: Device, state: State) -> bool:
    """Whether the device looks different from one frame to the next in this state."""
    if device.type == "fan":
        return is_on(state) and float(state.get(FAN_SETTING) or 0) > 0
    return device.type in ("laundry_washer", "tv", "audio_player") and loudness(device.type, state) > 0


def label_place(device: Device) -> tuple[float, float, float]:
    """Where the device's name stands in the room: above it."""
    above = {
        "fan": 0.34,
        "air_conditioner": 0.22,
        "microwave": 0.24,
        "laundry_washer": 0.52,
        "tv": 0.42,
        "audio_player": 0.22,
        "refrigerator": 0.95,
        "window_covering": 0.75,
    }.get(device.type, 0.3)
    x, y, z = device.position_m
    return (x, y, z + above)


def _stand(canvas: Canvas, face: Face, down_to: float, colour: Colour, thick: float = 0.035) -> None:
    x, y, z = face.centre
    canvas.line(np.array([[x, y, z], [x, y, down_to]]), colour, thick)
    if down_to < 0.1:
        ring = [[x + 0.17 * math.cos(a), y + 0.17 * math.sin(a), 0.01] for a in np.linspace(0, 2 * np.pi, 24)]
        canvas.polygon(np.array(ring), shade(colour, 0.8))


def _table(canvas: Canvas, face: Face, top: float, half: float) -> None:
    """A wooden side table under something that stands at the height `top`."""
    wood: Colour = (88, 122, 160)
    under = Face([face.centre[0], face.centre[1], top / 2], face.n)
    x, y, _ = face.centre
    for a in (-1, 1):
        for b in (-0.2, -0.9):
            foot = face.at(a * half * 0.88, 0, 0.1 + b * half)
            leg = np.array([[foot[0], foot[1], top], [foot[0], foot[1], 0.0]])
            canvas.line(leg, shade(wood, 0.62), 0.035)
    board = Face([x, y, top - 0.02], under.n)
    board.centre = board.centre + 0.14 * board.n
    box(canvas, board, (half, 0.02, 2 * half), wood, shade(wood, 0.6))


def _lamp(canvas: Canvas, face: Face, device: Device, state: State, time_s: float, moving_only: bool) -> None:
    light = brightness(device.type, state)
    x, y, z = face.centre
    pole: Colour = (70, 74, 82)
    if z > 2.0:  # hangs from the ceiling
        canvas.line(np.array([[x, y, z + 0.1], [x, y, z + 0.6]]), pole, 0.02)
    else:
        _stand(canvas, face, 0.0, pole)
    dark: Colour = (120, 134, 146)
    lit = min(1.0, 0.25 + light) if light else 0.0
    b, g, r = (d + (w - d) * lit for d, w in zip(dark, WARM, strict=True))
    pixels, depth = canvas.camera.pixels(np.array([[x, y, z + 0.15], [x, y, z - 0.13]]))
    if depth.min() < 0.1:
        return
    top, bottom = (canvas.camera.size_px(r, float(depth[0])) for r in (0.10, 0.19))
    (tx, ty), (bx, by) = pixels
    corners = np.array([[tx - top, ty], [tx + top, ty], [bx + bottom, by], [bx - bottom, by]])
    canvas.shape(corners, (b, g, r), shade((b, g, r), 0.7))
    canvas.oval(pixels[0], (top, top * 0.22), shade((b, g, r), 1.06 if light else 0.85))
    under = (210.0, 248.0, 255.0) if light else shade((b, g, r), 0.75)
    canvas.oval(pixels[1], (bottom, bottom * 0.2), under)


def _fan(canvas: Canvas, face: Face, device: Device, state: State, time_s: float, moving_only: bool) -> None:
    body: Colour = (120, 96, 72)
    z = float(face.centre[2])
    if moving_only:
        pass
    elif z < 0.95:  # a desk fan on its table
        _table(canvas, face, z - 0.3, 0.32)
        _stand(canvas, face, z - 0.3, shade(body, 0.8), 0.05)
    else:
        _stand(canvas, face, 0.0, shade(body, 0.8), 0.045)
    canvas.polygon(face.circle(0, 0, 0.25, -0.04), (196, 188, 180), shade(body, 0.9), 2)
    speed = float(state.get(FAN_SETTING) or 0) / 100 if is_on(state) else 0.0
    # Slow enough for 15 pictures a second not to show the blades standing still.
    turn = time_s * (2.0 + 5.5 * speed) if speed else 0.4
    blade: Colour = (176, 150, 96)
    for number in range(3):
        angle = turn + number * 2 * math.pi / 3
        arc = np.linspace(angle - 0.42, angle + 0.42, 7)
        tip = np.stack([0.21 * np.cos(arc), 0.21 * np.sin(arc)], axis=1)
        canvas.polygon(
            face.points(np.concatenate([[[0.0, 0.0]], tip])), shade(blade, 1.0 + 0.12 * (number - 1))
        )
    for radius in (0.25, 0.17, 0.09):
        canvas.outline(face.circle(0, 0, radius, 0.03, 40), shade(body, 0.75))
    canvas.polygon(face.circle(0, 0, 0.045, 0.04), shade(body, 0.9))
    if speed:
        canvas.polygon(face.circle(0, -0.31, 0.014, 0.04, 10), GREEN)


def _air_conditioner(
    canvas: Canvas, face: Face, device: Device, state: State, time_s: float, moving_only: bool
) -> None:
    face.centre = face.centre + 0.1 * face.n
    box(canvas, face, (0.44, 0.15, 0.18), WHITE, (190, 192, 194))
    canvas.polygon(face.rectangle(0, -0.1, 0.4, 0.028, 0.003), (96, 98, 100))
    if is_on(state):  # the flap is open and the lamp is lit
        flap = [face.at(-0.4, -0.125), face.at(0.4, -0.125), face.at(0.4, -0.19, 0.09)]
        canvas.polygon(np.array([*flap, face.at(-0.4, -0.19, 0.09)]), (214, 216, 218), (150, 152, 154))
        canvas.polygon(face.circle(0.36, 0.02, 0.014, 0.004, 10), GREEN)
    canvas.polygon(face.rectangle(-0.3, 0.06, 0.07, 0.012, 0.004), (176, 150, 110))


def _microwave(
    canvas: Canvas, face: Face, device: Device, state: State, time_s: float, moving_only: bool
) -> None:
    _table(canvas, face, float(face.centre[2]) - 0.16, 0.34)
    face.centre = face.centre + 0.12 * face.n
    box(canvas, face, (0.27, 0.16, 0.34), (206, 208, 210), EDGE)
    window: Colour = (90, 190, 235) if loudness(device.type, state) > 0 else (52, 48, 46)
    canvas.polygon(face.rectangle(-0.07, 0, 0.17, 0.12, 0.004), DARK)
    canvas.polygon(face.rectangle(-0.07, 0, 0.13, 0.085, 0.005), window)
    canvas.polygon(face.rectangle(0.19, 0.09, 0.05, 0.025, 0.005), GREEN if is_on(state) else (40, 60, 40))
    for row in range(3):
        for column in range(2):
            canvas.polygon(
                face.rectangle(0.17 + 0.045 * column, 0.03 - 0.045 * row, 0.015, 0.013, 0.005), GREY
            )


def _washer(
    canvas: Canvas, face: Face, device: Device, state: State, time_s: float, moving_only: bool
) -> None:
    half = float(min(0.45, face.centre[2] - 0.02))
    face.centre = np.array([face.centre[0], face.centre[1], half]) + 0.28 * face.n
    if not moving_only:
        _washer_case(canvas, face, half, state)
    centre = -0.08
    canvas.polygon(face.circle(0, centre, 0.21, 0.004, 40), (148, 150, 154))
    canvas.polygon(face.circle(0, centre, 0.17, 0.006, 40), (104, 92, 80))
    turn = time_s * 5.3 if loudness(device.type, state) > 0 else 0.6
    for number, colour in enumerate(((170, 120, 70), (90, 110, 190), (190, 190, 200))):
        angle = turn + number * 2.1
        u, v = 0.085 * math.cos(angle), 0.085 * math.sin(angle)
        canvas.polygon(face.circle(u, centre + v, 0.065, 0.007, 20), colour)


def _washer_case(canvas: Canvas, face: Face, half: float, state: State) -> None:
    box(canvas, face, (0.3, half, 0.55), WHITE, (170, 172, 176))
    canvas.polygon(face.rectangle(0, half - 0.08, 0.29, 0.065, 0.003), (206, 208, 212))
    canvas.polygon(face.rectangle(-0.18, half - 0.08, 0.09, 0.035, 0.004), (184, 186, 190), (140, 142, 146))
    canvas.polygon(face.circle(0.08, half - 0.08, 0.035, 0.004, 20), (168, 170, 174))
    canvas.polygon(
        face.rectangle(0.2, half - 0.08, 0.05, 0.022, 0.004), (80, 190, 240) if is_on(state) else DARK
    )


def _television(
    canvas: Canvas, face: Face, device: Device, state: State, time_s: float, moving_only: bool
) -> None:
    face.centre = face.centre + 0.06 * face.n
    if not moving_only:
        box(canvas, face, (0.55, 0.32, 0.06), (38, 36, 34), (24, 24, 24))
    if not is_on(state):
        canvas.polygon(face.rectangle(0, 0.01, 0.52, 0.29, 0.003), (30, 27, 25))
        sheen = [[-0.5, 0.28], [-0.2, 0.28], [-0.42, -0.24], [-0.5, -0.24]]
        canvas.polygon(face.points(sheen, 0.004), (40, 37, 34))
        return
    canvas.polygon(face.rectangle(0, 0.01, 0.52, 0.29, 0.003), (150, 96, 40))
    canvas.polygon(face.rectangle(0, -0.16, 0.52, 0.12, 0.004), (70, 120, 60))
    if state.get(PLAYBACK) == 0:
        for number in range(5):
            level = 0.05 + 0.09 * (1 + math.sin(time_s * (5 + number) + 1.7 * number))
            canvas.polygon(
                face.rectangle(-0.3 + 0.15 * number, -0.24 + level, 0.05, level, 0.005), (90, 200, 250)
            )
    else:  # paused
        for u in (-0.05, 0.05):
            canvas.polygon(face.rectangle(u, 0.01, 0.025, 0.09, 0.005), WHITE)


def _player(
    canvas: Canvas, face: Face, device: Device, state: State, time_s: float, moving_only: bool
) -> None:
    if not moving_only:
        _table(canvas, face, float(face.centre[2]) - 0.14, 0.3)
    face.centre = face.centre + 0.1 * face.n
    if not moving_only:
        box(canvas, face, (0.25, 0.14, 0.18), (62, 84, 120), (36, 50, 74))
    playing = loudness(device.type, state) > 0
    for u in (-0.15, 0.15):
        canvas.polygon(face.circle(u, -0.01, 0.085, 0.004, 28), (40, 40, 42))
        pulse = 0.006 * math.sin(time_s * 19) if playing else 0.0
        canvas.polygon(face.circle(u, -0.01, 0.05 + pulse, 0.006, 24), (92, 92, 96))
        canvas.polygon(face.circle(u, -0.01, 0.02, 0.007, 16), (60, 60, 62))
    canvas.polygon(face.rectangle(0, 0.06, 0.05, 0.03, 0.004), (80, 200, 250) if is_on(state) else DARK)


def _refrigerator(
    canvas: Canvas, face: Face, device: Device, state: State, time_s: float, moving_only: bool
) -> None:
    half = float(min(0.9, max(0.4, face.centre[2])))
    face.centre = np.array([face.centre[0], face.centre[1], half]) + 0.3 * face.n
    box(canvas, face, (0.3, half, 0.6), (214, 214, 212), (150, 150, 150))
    canvas.polygon(face.rectangle(0, half * 0.3, 0.3, 0.006, 0.003), EDGE)
    for v in (half * 0.55, half * 0.05):
        canvas.polygon(face.rectangle(-0.24, v, 0.012, 0.12, 0.02), GREY)


def _window(
    canvas: Canvas, face: Face, device: Device, state: State, time_s: float, moving_only: bool
) -> None:
    from capture.virtual.home_state import LIFT

    canvas.polygon(face.rectangle(0, 0, 0.6, 0.65), (240, 226, 196), WHITE, 3)
    closed = float(state.get(LIFT) or 0) / 10000
    if closed > 0:
        canvas.polygon(
            face.rectangle(0, 0.65 * (1 - closed), 0.6, 0.65 * closed, 0.02), (176, 196, 206), GREY
        )


def _small_box(
    canvas: Canvas, face: Face, device: Device, state: State, time_s: float, moving_only: bool
) -> None:
    """Humidifier, air purifier: a rounded tower with a grille."""
    if face.centre[2] > 0.45:
        _table(canvas, face, float(face.centre[2]) - 0.22, 0.26)
    else:
        face.centre[2] = max(0.24, float(face.centre[2]))
    face.centre = face.centre + 0.05 * face.n
    box(canvas, face, (0.14, 0.22, 0.22), (224, 222, 218), (160, 160, 160))
    for row in range(5):
        canvas.polygon(face.rectangle(0, -0.02 - 0.035 * row, 0.1, 0.009, 0.003), (150, 150, 150))
    canvas.polygon(face.circle(0, 0.14, 0.025, 0.004, 16), GREEN if is_on(state) else GREY)
