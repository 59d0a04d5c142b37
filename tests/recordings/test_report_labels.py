"""Names on the plan: they cover no dot and no other name wherever there is room."""

from __future__ import annotations

import numpy as np
import pytest

from recordings.report_labels import Labels, Placed


def apart(a: tuple[float, ...], b: tuple[float, ...]) -> bool:
    return a[2] <= b[0] or b[2] <= a[0] or a[3] <= b[1] or b[3] <= a[1]


def room(points: np.ndarray, words: str) -> list[Placed]:
    labels = Labels(14, 14, 406, 320)
    for x, y in points:
        labels.keep_clear(float(x), float(y), 5)
    for x, y in points:
        labels.add(float(x), float(y), words, 9, "device-name")
    return labels.placed()


@pytest.mark.parametrize("seed", range(20))
def test_nine_devices_in_a_room_do_not_collide(seed):
    rng = np.random.default_rng(seed)
    points = rng.uniform((20, 20), (400, 314), (9, 2))
    found = room(points, "living lamp")
    for i, a in enumerate(found):
        assert all(apart(a.box, b.box) for b in found[i + 1 :])
        assert a.box[0] >= 14 and a.box[2] <= 406 and a.box[1] >= 14 and a.box[3] <= 320
        assert all(apart(a.box, (x - 5, y - 5, x + 5, y + 5)) for x, y in points)


def test_a_name_leaves_the_ray_free_and_stays_where_there_is_none():
    def beside(ray: bool) -> Placed:
        labels = Labels(0, 0, 400, 300)
        labels.keep_clear(200, 150, 5)
        if ray:
            labels.ray((205, 300), (230, 0))
        labels.add(200, 150, "lamp", 9, "device-name")
        return labels.placed()[0]

    assert (beside(False).anchor, beside(False).x, beside(False).y) == ("start", 209, 154)
    assert beside(True).anchor == "end"
