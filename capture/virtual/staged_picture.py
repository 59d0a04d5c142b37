"""Pictures of a staged scene: the room without names on its devices, and any number of people."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from capture.rig import Device, Rig
from capture.virtual.appliances import draw_device, moves
from capture.virtual.drawing import Canvas
from capture.virtual.person import People, Sprite
from capture.virtual.picture import Painter
from capture.virtual.scene import Figure, Snapshot


class StagedPainter(Painter):
    """Draws a staged scene; used by one thread."""

    def __init__(self, rig: Rig) -> None:
        super().__init__(rig, labels=False)
        self._people = People(rig)

    def draw(self, snapshot: Snapshot) -> NDArray[np.uint8]:
        """The picture (height, width, 3) BGR at this moment; a fresh array. Near things cover far ones."""
        image = self._background(snapshot).copy()
        canvas = Canvas(image, self._camera)
        everybody = (*(() if snapshot.figure is None else (snapshot.figure,)), *snapshot.others)
        figures = [(self._camera.depth(figure.mouth_m), figure) for figure in everybody]
        shown: list[tuple[float, Device | Figure]] = list(figures)
        for depth, device in self._devices:
            if device.id in self._visible and moves(device, snapshot.states.get(device.id, {})):
                shown.append((depth, device))
        covered: list[tuple[float, Sprite]] = []
        for depth, what in sorted(shown, key=lambda pair: -pair[0]):
            if isinstance(what, Device):
                state = snapshot.states[what.id]
                draw_device(canvas, self._rig, what, state, snapshot.time_s, moving_only=True)
            elif (sprite := self._people.sprite(what)) is not None:
                sprite.lay_over(image)
                covered.append((depth, sprite))
        for depth, device in self._devices:
            if any(self._stands_before(device, depth, far, sprite) for far, sprite in covered):
                draw_device(canvas, self._rig, device, snapshot.states.get(device.id, {}), snapshot.time_s)
        self._draw_led(canvas, snapshot.led)
        return image

    def _stands_before(self, device: Device, depth: float, far: float, sprite: Sprite) -> bool:
        """Whether the device is nearer than the person and may cover a part of them."""
        if not 0.1 < depth < far - 0.2:
            return False
        x = float(self._camera.pixels(device.position_m)[0][0, 0])
        reach = self._camera.size_px(0.5, depth)
        return sprite.x - reach < x < sprite.x + sprite.colours.shape[1] + reach
