"""Networks of MediaPipe (Apache-2.0) as files out of its wheel, run by LiteRT.

MediaPipe itself is not imported: its own dependencies (NumPy 1, protobuf 4) would break others, so it is
installed without them, for its files.
"""

from __future__ import annotations

import importlib.util
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dsp.errors import InputError, MissingDependency
from recordings.storage import sha256_file

FOLDER_VARIABLE = "HEARTH_LANDMARK_MODELS"
INSTALL = "pip install 'hearth-home[perception]' && pip install --no-deps mediapipe==0.10.14"


@dataclass(frozen=True, slots=True)
class ModelFile:
    """A network of mediapipe 0.10.14. path: in the wheel, below mediapipe/modules."""

    path: str
    sha256: str


POSE_DETECTION = ModelFile(
    "pose_detection/pose_detection.tflite", "9ba9dd3d42efaaba86b4ff0122b06f29c4122e756b329d89dca1e297fd8f866c"
)
POSE_LANDMARK = ModelFile(
    "pose_landmark/pose_landmark_full.tflite",
    "e9a5c5cb17f736fafd4c2ec1da3b3d331d6edbe8a0d32395855aeb2cdfd64b9f",
)


def model_path(model: ModelFile, folder: str | os.PathLike[str] | None = None) -> Path:
    """Where the file is: in `folder` or $HEARTH_LANDMARK_MODELS (by its name), or in the installed wheel.

    Raises MissingDependency, naming the command that brings it; InputError for another file than the one.
    """
    name = Path(model.path).name
    told = folder if folder is not None else os.environ.get(FOLDER_VARIABLE) or None
    if told is not None:
        path = Path(told) / name
        if not path.is_file():
            raise InputError(f"{path}: no such file; {name} of mediapipe 0.10.14 is needed there")
        return _checked(path, model)
    spec = importlib.util.find_spec("mediapipe")
    for place in (spec.submodule_search_locations or []) if spec else []:
        path = Path(place) / "modules" / model.path
        if path.is_file():
            return _checked(path, model)
    raise MissingDependency(
        f"bodies are found by networks that come in a package: `{INSTALL}`"
        f" (with its dependencies it would replace NumPy), or name their folder in ${FOLDER_VARIABLE}"
    )


def _checked(path: Path, model: ModelFile) -> Path:
    if sha256_file(path) != model.sha256:
        raise InputError(f"{path}: is not the file of mediapipe 0.10.14; install that version again")
    return path


class Network:
    """One network with one picture as its input. Used by one thread."""

    def __init__(self, path: Path, threads: int = 1) -> None:
        """Raises MissingDependency without LiteRT."""
        try:
            from ai_edge_litert.interpreter import Interpreter
        except ImportError as error:
            raise MissingDependency(f"networks of MediaPipe are run by LiteRT: `{INSTALL}`") from error
        self._net: Any = Interpreter(str(path), num_threads=threads)
        self._net.allocate_tensors()
        self._input: int = self._net.get_input_details()[0]["index"]
        self._outputs: list[int] = [output["index"] for output in self._net.get_output_details()]

    def __call__(self, picture: NDArray[np.float32]) -> list[NDArray[np.float32]]:
        """picture: (side, side, 3) RGB in the network's range -> its outputs, without their first axis."""
        self._net.set_tensor(self._input, np.ascontiguousarray(picture[None], np.float32))
        self._net.invoke()
        return [np.asarray(self._net.get_tensor(output)[0]) for output in self._outputs]
