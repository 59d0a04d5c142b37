"""Intrinsics in the files of other tools: OpenCV, ROS, Kalibr, caliscope. Exact both ways.

    opencv     FileStorage YAML, for cv2.FileStorage          4, 5 or 8 coefficients
    ros        camera_info YAML (image_pipeline)              plumb_bob 5, rational_polynomial 8
    kalibr     camchain YAML, pinhole-radtan                  4
    caliscope  TOML, `[cameras.N]`, also Anipose's keys       5

Every number is written in the shortest form that reads back to the same bits, with a dot, because YAML 1.1
(PyYAML) takes 1e-05 for a word. A camera that a format cannot hold is refused, never cut. Uncertainties have
no place in these files; they stay in Hearth's own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

import numpy as np

from calibration.camera_model import CameraModel, Model
from calibration.result import CalibrationResult, hash_inputs, load
from dsp.errors import InputError, MissingDependency
from recordings.storage import storage_errors, write_atomic

Format = Literal["opencv", "ros", "kalibr", "caliscope"]
_MODEL_OF = {4: "radtan", 5: "plumb_bob", 8: "rational_polynomial"}


def imported(camera: CameraModel, source: str | Path) -> CalibrationResult:
    """A result file's content for a camera of another tool: without uncertainties, and it says so."""
    return CalibrationResult.new(
        "camera",
        camera.to_fields(),
        units={"fx": "px", "fy": "px", "cx": "px", "cy": "px", "hfov_deg": "deg"},
        inputs=hash_inputs([source]),
        warnings=["imported: how exact it is was not in the file"],
    )


def write_camera(
    path: str | Path,
    camera: CameraModel,
    format: Format,
    *,
    name: str = "camera",
    error_px: float | None = None,
) -> Path:
    """Write a camera for another tool. name: what it is called there; error_px: RMS reprojection error.

    Raises InputError for a camera that the format cannot hold, StorageError when it cannot be written.
    """
    if format not in _WRITERS:
        raise InputError(f"unknown format {format!r}; there are {', '.join(_WRITERS)}")
    if not re.fullmatch(r"[A-Za-z0-9_.-]{1,64}", name):
        raise InputError(f"a camera's name is 1 to 64 letters, digits, '.', '_' or '-', not {name!r}")
    text = _WRITERS[format](camera, name, error_px)
    target = Path(path)
    with storage_errors(target.parent, "make"):
        target.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(target, text.encode())
    return target


def read_camera(path: str | Path, *, camera: str | None = None) -> CameraModel:
    """Read a camera of any of the formats, or of Hearth's own file; which one is seen from the content.

    camera: which one of a file with several (Kalibr, caliscope); the only one needs no name.
    Raises InputError, which names the key, for what is none of them or holds a model unknown here.
    """
    source = Path(path)
    if not source.is_file():
        raise InputError(f"{source}: no such file")
    with storage_errors(source, "read"):
        data = source.read_bytes()
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InputError(f"{source}: is no text file") from None
    try:
        if text.lstrip().startswith("{"):
            return CameraModel.from_fields(load(source, "camera").result)
        if source.suffix.lower() == ".toml":
            return _from_toml(text, camera)
        if text.startswith("%YAML") and "opencv" in text:
            return _from_opencv(text)
        return _from_yaml(text, camera)
    except InputError as error:
        message = str(error)
        raise InputError(message if message.startswith(str(source)) else f"{source}: {message}") from None


# ------------------------------------------------------------------ writing


def _number(value: float) -> str:
    """The shortest text that every reader turns into the same float; with a dot in the mantissa."""
    text = repr(float(value))
    if "e" in text and "." not in text:
        text = text.replace("e", ".0e")
    return text


def _list(values: Any) -> str:
    return "[" + ", ".join(_number(v) for v in np.ravel(values)) + "]"


def _opencv(camera: CameraModel, name: str, error_px: float | None) -> str:
    def matrix(key: str, values: Any, rows: int, columns: int) -> str:
        inner = f"rows: {rows}\n   cols: {columns}\n   dt: d\n   data: {_list(values)}"
        return f"{key}: !!opencv-matrix\n   {inner}\n"

    count = len(camera.distortion)
    # %YAML:1.0 is what OpenCV 4 writes; OpenCV 5 reads it as well.
    text = f'%YAML:1.0\n---\ncamera_name: "{name}"\n'
    text += f"image_width: {camera.width_px}\nimage_height: {camera.height_px}\n"
    text += matrix("camera_matrix", camera.matrix, 3, 3)
    text += matrix("distortion_coefficients", camera.distortion, count, 1)
    return text if error_px is None else text + f"avg_reprojection_error: {_number(error_px)}\n"


def _ros(camera: CameraModel, name: str, error_px: float | None) -> str:
    del error_px
    coefficients = camera.distortion
    if camera.model == "radtan":  # ROS knows it as plumb_bob without the fifth
        coefficients = np.append(coefficients, 0.0)
    model = "rational_polynomial" if len(coefficients) == 8 else "plumb_bob"
    projection = np.c_[camera.matrix, np.zeros(3)]

    def block(key: str, values: Any, rows: int, columns: int) -> str:
        return f"{key}:\n  rows: {rows}\n  cols: {columns}\n  data: {_list(values)}\n"

    return (
        f"image_width: {camera.width_px}\nimage_height: {camera.height_px}\ncamera_name: {_yaml_word(name)}\n"
        + block("camera_matrix", camera.matrix, 3, 3)
        + f"distortion_model: {model}\n"
        + block("distortion_coefficients", coefficients, 1, len(coefficients))
        + block("rectification_matrix", np.eye(3), 3, 3)
        + block("projection_matrix", projection, 3, 4)
    )


def _kalibr(camera: CameraModel, name: str, error_px: float | None) -> str:
    del error_px
    if np.any(camera.distortion[4:]):
        raise InputError(
            f"Kalibr's radtan has four coefficients, this camera {len(camera.distortion)} ({camera.model}); "
            "calibrate with `--model radtan` to write a camchain"
        )
    fx, fy, cx, cy = camera.parameters[:4]
    return (
        "cam0:\n"
        "  camera_model: pinhole\n"
        f"  intrinsics: {_list([fx, fy, cx, cy])}\n"
        "  distortion_model: radtan\n"
        f"  distortion_coeffs: {_list(camera.distortion[:4])}\n"
        f"  resolution: [{camera.width_px}, {camera.height_px}]\n"
        f"  rostopic: /{name}/image_raw\n"
    )


def _caliscope(camera: CameraModel, name: str, error_px: float | None) -> str:
    if camera.model == "rational_polynomial":
        raise InputError(
            "caliscope's cameras have five coefficients, this one has eight (rational_polynomial); calibrate "
            "with `--model plumb_bob`"
        )
    number = int(name) if name.isdigit() else 0
    matrix = ", ".join(_list(row) for row in camera.matrix)
    coefficients = np.append(camera.distortion, 0.0)[:5]
    lines = [
        f"[cameras.{number}]",
        f"cam_id = {number}",
        f"size = [{camera.width_px}, {camera.height_px}]",
        "rotation_count = 0",
        f"matrix = [{matrix}]",
        f"distortions = {_list(coefficients)}",
    ]
    if error_px is not None:
        lines.append(f"error = {_number(error_px)}")
    return "\n".join(lines) + "\n"


def _yaml_word(name: str) -> str:
    """A name that YAML does not take for a number, a date or a truth value."""
    return name if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_-]{4,}", name) else f'"{name}"'


_WRITERS: dict[str, Callable[[CameraModel, str, float | None], str]] = {
    "opencv": _opencv,
    "ros": _ros,
    "kalibr": _kalibr,
    "caliscope": _caliscope,
}


# ------------------------------------------------------------------ reading


def _camera(
    width: Any, height: Any, pinhole: Any, coefficients: Any, model: str | None = None
) -> CameraModel:
    """A checked camera. coefficients in OpenCV's order; trailing zeros may be there in any number."""
    try:
        size = [int(width), int(height)]
        first = np.asarray(pinhole, dtype=np.float64).ravel()
        rest = np.asarray(coefficients, dtype=np.float64).ravel()
    except (TypeError, ValueError) as error:
        raise InputError(f"not numbers where numbers belong: {error}") from None
    if size != [width, height] or not all(1 <= s <= 100_000 for s in size):
        raise InputError(f"a picture of {width} x {height} pixels cannot be")
    if len(first) != 4 or not np.isfinite(first).all() or not (first[:2] > 0).all():
        raise InputError(f"fx, fy, cx, cy must be four numbers, the first two positive, not {first.tolist()}")
    if not np.isfinite(rest).all():
        raise InputError("a distortion coefficient is not a finite number")
    if model is None:
        if len(rest) > 8 and np.any(rest[8:]):
            raise InputError(
                f"{len(rest)} distortion coefficients (thin prism or tilt); Hearth's models have 4, 5 or 8"
            )
        rest = rest[:8]
        fitting = next((n for n in (4, 5, 8) if n >= len(rest)), 8)
        rest = np.append(rest, np.zeros(fitting - len(rest)))
        model = _MODEL_OF[fitting]
    known: Model = model  # type: ignore[assignment]
    return CameraModel(size[0], size[1], known, np.concatenate([first, rest]))


def _matrix(value: Any) -> list[float]:
    """fx, fy, cx, cy of a camera matrix; refuses skew."""
    try:
        k = np.asarray(value, dtype=np.float64).reshape(3, 3)
    except (TypeError, ValueError):
        raise InputError("the camera matrix must hold 3 x 3 numbers") from None
    if k[0, 1] or k[1, 0] or k[2, 0] or k[2, 1] or k[2, 2] != 1:
        raise InputError(f"a camera matrix with skew or another last row is unknown here: {k.tolist()}")
    return [float(k[0, 0]), float(k[1, 1]), float(k[0, 2]), float(k[1, 2])]


def _from_opencv(text: str) -> CameraModel:
    import cv2

    try:
        storage = cv2.FileStorage(text, cv2.FILE_STORAGE_READ | cv2.FILE_STORAGE_MEMORY)
    except (cv2.error, SystemError) as error:
        raise InputError(f"OpenCV cannot read it: {error}") from None
    try:
        found: dict[str, Any] = {}
        for key in ("image_width", "image_height", "camera_matrix", "distortion_coefficients"):
            node = storage.getNode(key)
            if node.empty():
                raise InputError(f"{key} is not there")
            found[key] = node.real() if node.isReal() or node.isInt() else node.mat()
    except cv2.error as error:
        raise InputError(f"{key} is no matrix of numbers: {' '.join(str(error).split())}") from None
    finally:
        storage.release()
    return _camera(
        found["image_width"],
        found["image_height"],
        _matrix(found["camera_matrix"]),
        found["distortion_coefficients"],
    )


def _from_yaml(text: str, wanted: str | None) -> CameraModel:
    import yaml

    try:
        data = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise InputError(f"cannot be read as YAML: {' '.join(str(error).split())}") from None
    if not isinstance(data, Mapping):
        raise InputError("holds no camera: ROS, Kalibr and OpenCV files begin with named values")
    if "camera_matrix" in data:
        return _from_ros(data)
    cameras = {key: value for key, value in data.items() if re.fullmatch(r"cam\d+", str(key))}
    if not cameras:
        raise InputError("holds no camera: neither camera_matrix (ROS, OpenCV) nor cam0 (Kalibr) is there")
    return _from_kalibr(_one(cameras, wanted))


def _one(cameras: Mapping[Any, Any], wanted: str | None) -> Mapping[str, Any]:
    names = [str(key) for key in cameras]
    if wanted is None and len(cameras) != 1:
        raise InputError(f"holds {len(cameras)} cameras ({', '.join(names)}); say which one")
    found = cameras.get(wanted) if wanted is not None else next(iter(cameras.values()))
    if not isinstance(found, Mapping):
        raise InputError(f"no camera {wanted!r}; there are {', '.join(names)}")
    return found


def _get(data: Mapping[str, Any], key: str, *more: str) -> Any:
    value: Any = data
    for name in (key, *more):
        if not isinstance(value, Mapping) or name not in value:
            raise InputError(f"{'.'.join((key, *more))} is not there")
        value = value[name]
    return value


def _from_ros(data: Mapping[str, Any]) -> CameraModel:
    model = str(_get(data, "distortion_model"))
    if model not in ("plumb_bob", "rational_polynomial"):
        raise InputError(f"distortion_model {model!r} is unknown here; plumb_bob and rational_polynomial are")
    coefficients = _get(data, "distortion_coefficients", "data")
    needed = 5 if model == "plumb_bob" else 8
    if len(coefficients) > needed and any(coefficients[needed:]):
        raise InputError(f"{len(coefficients)} distortion coefficients do not belong to {model}")
    padded = [*coefficients[:needed], *[0.0] * (needed - len(coefficients))]
    return _camera(
        _get(data, "image_width"), _get(data, "image_height"),
        _matrix(_get(data, "camera_matrix", "data")), padded, model,
    )  # fmt: skip


def _from_kalibr(data: Mapping[str, Any]) -> CameraModel:
    if _get(data, "camera_model") != "pinhole":
        raise InputError(f"camera_model {data['camera_model']!r} is unknown here; pinhole is")
    distortion = _get(data, "distortion_model")
    if distortion not in ("radtan", "none"):
        raise InputError(f"distortion_model {distortion!r} is unknown here; radtan and none are")
    coefficients = [0.0] * 4 if distortion == "none" else _get(data, "distortion_coeffs")
    if len(coefficients) != 4:
        raise InputError(f"distortion_coeffs of radtan must be four numbers, not {len(coefficients)}")
    size = _get(data, "resolution")
    if not isinstance(size, list) or len(size) != 2:
        raise InputError(f"resolution must be [width, height], not {size!r}")
    return _camera(size[0], size[1], _get(data, "intrinsics"), coefficients, "radtan")


def _toml() -> Any:
    """The TOML reader: Python's own from 3.11 on, else tomli where it is installed."""
    for name in ("tomllib", "tomli"):
        try:
            return import_module(name)
        except ImportError:
            continue
    raise MissingDependency("reading TOML needs Python 3.11, or `pip install tomli`")


def _from_toml(text: str, wanted: str | None) -> CameraModel:
    toml = _toml()
    try:
        data = toml.loads(text)
    except toml.TOMLDecodeError as error:
        raise InputError(f"cannot be read as TOML: {error}") from None
    # caliscope: [cameras.0]; Anipose and older caliscope: [cam_0].
    cameras = data.get("cameras") or {k: v for k, v in data.items() if re.fullmatch(r"cam_\w+", k)}
    if not isinstance(cameras, Mapping) or not cameras:
        raise InputError("holds no camera: neither [cameras.0] nor [cam_0] is there")
    found = _one(cameras, wanted)
    if found.get("fisheye"):
        raise InputError("a fisheye camera is unknown here")
    size = _get(found, "size")
    if not isinstance(size, list) or len(size) != 2:
        raise InputError(f"size must be [width, height], not {size!r}")
    return _camera(size[0], size[1], _matrix(_get(found, "matrix")), _get(found, "distortions"))
