"""What the virtual camera sees: the room box, its devices, the person and the LED of the slate.

Everything is projected from the same geometry as the sound, with a pinhole camera of the rig's field of view
and pose. What stands still is drawn once at twice the size and kept until a device changes; each picture then
costs a copy, the moving parts and the person.
"""

from __future__ import annotations

from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from capture.rig import Device, Rig
from capture.virtual.appliances import WARM, draw_device, label_place, moves
from capture.virtual.avatar import LOOKS, draw_figure
from capture.virtual.drawing import Canvas, Colour, Pinhole, shade
from capture.virtual.home_state import brightness
from capture.virtual.layout import slate_place
from capture.virtual.scene import Snapshot

WALL: Colour = (196, 212, 222)
FLOOR: Colour = (118, 150, 182)
CEILING: Colour = (226, 232, 236)
KEPT = 8  # backgrounds in memory, and empty rooms
LED_RADIUS_M = 0.013
_ROOMS: dict[Any, NDArray[np.uint8]] = {}


class Painter:
    """Draws the pictures of one rig; used by one thread."""

    def __init__(self, rig: Rig, labels: bool = True) -> None:
        """labels: write the devices' names above them."""
        self._rig = rig
        self._labels = labels
        self._camera = Pinhole(rig)
        self._backgrounds: dict[Any, NDArray[np.uint8]] = {}
        self._looks = {person.id: LOOKS[i % len(LOOKS)] for i, person in enumerate(rig.room.people)}
        by_depth = [(self._camera.depth(d.position_m), d) for d in rig.room.devices]
        self._devices: list[tuple[float, Device]] = sorted(by_depth, key=lambda pair: -pair[0])
        self._visible = {d.id for depth, d in by_depth if depth > 0.1 and self._in_view(d, depth)}
        self._shell = self._empty_room()
        pixels, depth = self._camera.pixels(slate_place(rig))
        self._led = pixels[0] if depth[0] > 0 else None
        self._led_px = self._camera.size_px(LED_RADIUS_M, float(depth[0]))

    def led_box(self) -> tuple[int, int, int, int] | None:
        """x, y, width and height in pixels of the LED; None when the camera does not see it."""
        if self._led is None:
            return None
        x, y = self._led - self._led_px
        side = round(2 * self._led_px)
        if not (x >= 0 and x + side <= self._camera.width and y >= 0 and y + side <= self._camera.height):
            return None
        return round(float(x)), round(float(y)), side, side

    def draw(self, snapshot: Snapshot) -> NDArray[np.uint8]:
        """The picture (height, width, 3) BGR at this moment; a fresh array."""
        image = self._background(snapshot).copy()
        canvas = Canvas(image, self._camera)
        states = snapshot.states
        figure = snapshot.figure
        distance = self._camera.depth(figure.mouth_m) if figure else np.inf
        for _, device in self._devices:
            if device.id in self._visible and moves(device, states.get(device.id, {})):
                draw_device(canvas, self._rig, device, states[device.id], snapshot.time_s, moving_only=True)
        if figure is not None:
            draw_figure(canvas, figure, self._looks.get(figure.person, LOOKS[0]))
            column = self._camera.pixels(figure.mouth_m)[0][0, 0]
            for depth, device in self._devices:
                if 0.1 < depth < distance - 0.2:
                    place = self._camera.pixels(device.position_m)[0][0, 0]
                    if abs(place - column) < self._camera.size_px(0.7, depth):
                        draw_device(canvas, self._rig, device, states.get(device.id, {}), snapshot.time_s)
        self._draw_led(canvas, snapshot.led)
        return image

    def _in_view(self, device: Device, depth: float) -> bool:
        """Whether any of the device (0.7 m around its place) can be in the picture."""
        place = self._camera.pixels(device.position_m)[0][0]
        reach = self._camera.size_px(0.7, depth)
        size = np.array([self._camera.width, self._camera.height])
        return bool(np.all(place > -reach) and np.all(place < size + reach))

    def _background(self, snapshot: Snapshot) -> NDArray[np.uint8]:
        """Room, devices, light and labels, once for each state of the home."""
        key = tuple(
            tuple(sorted(snapshot.states.get(device.id, {}).items(), key=lambda item: item[0]))
            for _, device in self._devices
        )
        if key in self._backgrounds:
            return self._backgrounds[key]
        if len(self._backgrounds) >= KEPT:
            self._backgrounds.pop(next(iter(self._backgrounds)))
        large = self._shell.copy()
        canvas = Canvas(large, Pinhole(self._rig, 2), 2)
        for depth, device in self._devices:
            if depth > 0.1:
                draw_device(canvas, self._rig, device, snapshot.states.get(device.id, {}), 0.0)
        size = np.array([self._camera.width, self._camera.height])
        image = self._light(
            cv2.resize(large, (self._camera.width, self._camera.height), interpolation=cv2.INTER_AREA),
            snapshot,
        )
        small = Canvas(image, self._camera)
        for depth, device in self._devices:
            if depth > 0.3 and self._labels:
                pixels, _ = self._camera.pixels(label_place(device))
                small.text(device.name, pixels[0] - (0, 6), (250, 250, 250), max(8.0, size[1] / 45))
        image.setflags(write=False)
        self._backgrounds[key] = image
        return image

    def _light(self, image: NDArray[np.uint8], snapshot: Snapshot) -> NDArray[np.uint8]:
        """Daylight, more of it with each lit lamp, and a warm glow around the lamp."""
        height, width = image.shape[:2]
        rows, columns = np.mgrid[0:height, 0:width].astype(np.float32)
        lit = [
            (device, depth, brightness(device.type, snapshot.states.get(device.id, {})))
            for depth, device in self._devices
        ]
        total = sum(level for _, _, level in lit)
        bright = image.astype(np.float32) * (0.80 + 0.08 * min(total, 2.5))
        for device, depth, level in lit:
            if level <= 0 or depth <= 0.2:
                continue
            (x, y), reach = self._camera.pixels(device.position_m)[0][0], self._camera.size_px(0.75, depth)
            fall = np.exp(-(((columns - x) ** 2 + (rows - y) ** 2) / (2 * reach**2)))
            bright += fall[:, :, None] * (np.array(WARM, np.float32) * (0.36 * level))
        return np.clip(bright, 0, 255).astype(np.uint8)

    def _empty_room(self) -> NDArray[np.uint8]:
        """`_room`, drawn once for a room and a view: a session records many takes with the same."""
        rig = self._rig
        key = (rig.room.size_m, rig.microphone.position_m, rig.microphone.yaw_deg, rig.camera)
        if key not in _ROOMS:
            if len(_ROOMS) >= KEPT:
                _ROOMS.pop(next(iter(_ROOMS)), None)
            _ROOMS[key] = self._room()
        return _ROOMS[key]

    def _room(self) -> NDArray[np.uint8]:
        """The empty room at twice the size."""
        camera = Pinhole(self._rig, 2)
        image = np.full((camera.height, camera.width, 3), 128, np.uint8)
        canvas = Canvas(image, camera, 2)
        sx, sy, sz = self._rig.room.size_m
        walls: list[tuple[list[list[float]], Colour, tuple[float, float, float]]] = [
            ([[0, 0, 0], [sx, 0, 0], [sx, sy, 0], [0, sy, 0]], FLOOR, (0, 0, 1)),
            ([[0, 0, sz], [sx, 0, sz], [sx, sy, sz], [0, sy, sz]], CEILING, (0, 0, -1)),
            ([[0, 0, 0], [0, sy, 0], [0, sy, sz], [0, 0, sz]], shade(WALL, 0.92), (1, 0, 0)),
            ([[sx, 0, 0], [sx, sy, 0], [sx, sy, sz], [sx, 0, sz]], shade(WALL, 0.88), (-1, 0, 0)),
            ([[0, 0, 0], [sx, 0, 0], [sx, 0, sz], [0, 0, sz]], WALL, (0, 1, 0)),
            ([[0, sy, 0], [sx, sy, 0], [sx, sy, sz], [0, sy, sz]], WALL, (0, -1, 0)),
        ]
        for corners, colour, _ in walls:
            canvas.polygon(np.array(corners, float), colour)
        self._planks(canvas, sx, sy)
        self._rug(canvas, sx, sy)
        for x0, y0, x1, y1 in ((0, 0, 0, sy), (sx, 0, sx, sy), (0, 0, sx, 0), (0, sy, sx, sy)):
            board = [[x0, y0, 0.0], [x1, y1, 0.0], [x1, y1, 0.09], [x0, y0, 0.09]]
            canvas.polygon(np.array(board, float), shade(WALL, 1.1), shade(WALL, 0.75))
            top = [[x0, y0, sz - 0.03], [x1, y1, sz - 0.03], [x1, y1, sz], [x0, y0, sz]]
            canvas.polygon(np.array(top, float), shade(CEILING, 0.93))
        for x, y in ((0, 0), (sx, 0), (0, sy), (sx, sy)):
            corner = np.array([[x, y, 0.0], [x, y, sz]], float)
            pixels, depth = camera.pixels(corner)
            if depth.min() > 0.1:
                canvas.limb(pixels[0], pixels[1], 1.0, 1.0, shade(WALL, 0.7))
        return self._shadowed(image)

    def _planks(self, canvas: Canvas, sx: float, sy: float) -> None:
        random = np.random.default_rng(1)
        width = 0.19
        along = 0.0
        while along < sx:
            end = min(along + width, sx)
            begin = -random.uniform(0, 1.2)
            while begin < sy:
                stop = begin + random.uniform(1.0, 1.5)
                low, high = max(0.0, begin), min(stop, sy)
                if high > low:
                    corners = [[along, low, 0], [end, low, 0], [end, high, 0], [along, high, 0]]
                    tone = shade(FLOOR, random.uniform(0.9, 1.06))
                    canvas.polygon(np.array(corners, float), tone, shade(FLOOR, 0.82))
                begin = stop
            along = end

    def _rug(self, canvas: Canvas, sx: float, sy: float) -> None:
        half = np.array([min(1.3, sx * 0.27), min(0.9, sy * 0.22)])
        centre = np.array([sx, sy]) / 2 + (0, 0.1 * sy)
        for share, colour in ((1.0, (122, 92, 84)), (0.93, (178, 162, 150)), (0.84, (140, 108, 98))):
            low, high = centre - half * share, centre + half * share
            corners = [[low[0], low[1], 0], [high[0], low[1], 0], [high[0], high[1], 0], [low[0], high[1], 0]]
            canvas.polygon(np.array(corners, float), colour)

    @staticmethod
    def _shadowed(image: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """A soft fall-off towards the picture's corners and a slight grain, so that it is no flat drawing."""
        height, width = image.shape[:2]
        rows, columns = np.mgrid[0:height, 0:width].astype(np.float32)
        radius2 = ((columns - width / 2) / (width / 2)) ** 2 + ((rows - height / 2) / (height / 2)) ** 2
        grain = np.random.default_rng(2).normal(0, 2.0, (height, width, 1)).astype(np.float32)
        shaded = image.astype(np.float32) * (1.03 - 0.1 * radius2)[:, :, None] + grain
        return np.clip(shaded, 0, 255).astype(np.uint8)

    def _draw_led(self, canvas: Canvas, lit: float) -> None:
        """The slate's LED in its black housing; `lit` is the part of the exposure for which it shone."""
        if self._led is None:
            return
        radius = self._led_px
        x, y = self._led
        corner = np.array([[-1, -1], [1, -1], [1, 1], [-1, 1]]) * radius * 1.7 + self._led
        canvas.shape(corner, (34, 32, 30), (90, 90, 90))
        dark, bright = np.array([40.0, 62.0, 40.0]), np.array([225.0, 255.0, 235.0])
        b, g, r = (float(v) for v in (1 - lit) * dark + lit * bright)
        canvas.disc(self._led, radius, (b, g, r))
        if lit > 0.01:
            reach = int(radius * 5)
            height, width = canvas.image.shape[:2]
            x0, y0 = max(0, int(x) - reach), max(0, int(y) - reach)
            x1, y1 = min(width, int(x) + reach), min(height, int(y) + reach)
            rows, columns = np.mgrid[y0:y1, x0:x1].astype(np.float32)
            glow = np.exp(-((columns - x) ** 2 + (rows - y) ** 2) / (2 * (radius * 1.9) ** 2)) * (150 * lit)
            part = canvas.image[y0:y1, x0:x1]
            tinted = part + glow[:, :, None] * np.array([0.75, 1.0, 0.8], np.float32)
            part[:] = np.clip(tinted, 0, 255).astype(np.uint8)
