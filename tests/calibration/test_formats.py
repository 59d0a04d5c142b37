"""Files of other tools: every bit comes back, the tool itself opens them, what does not fit is refused."""

from __future__ import annotations

import sys
from pathlib import Path

import cv2
import numpy as np
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from calibration.camera_model import CameraModel
from calibration.formats import read_camera, write_camera
from dsp.errors import InputError

CALIB = Path(__file__).parents[3] / "shared" / "data" / "calib"
# Numbers that are easily lost: many digits, tiny, without a dot in their shortest form.
AWKWARD = [533.0289038951234, 1 / 3 * 1600, 342.2669, 1e2, -0.28483062, 1e-05, 1.06e-3, -5e-324, 0.1 + 0.2]
PLUMB = CameraModel(640, 480, "plumb_bob", np.array(AWKWARD))
RADTAN = CameraModel(640, 480, "radtan", np.array(AWKWARD[:8]))
RATIONAL = CameraModel(640, 480, "rational_polynomial", np.array([*AWKWARD, 1e-7, 2e22, -0.5]))
needs_toml = pytest.mark.skipif(sys.version_info < (3, 11), reason="tomllib came with Python 3.11")
CASES = [
    ("opencv", "yml", PLUMB, "plumb_bob"),
    ("opencv", "yml", RADTAN, "radtan"),
    ("opencv", "yml", RATIONAL, "rational_polynomial"),
    ("ros", "yaml", PLUMB, "plumb_bob"),
    ("ros", "yaml", RATIONAL, "rational_polynomial"),
    ("ros", "yaml", RADTAN, "plumb_bob"),
    ("kalibr", "yaml", RADTAN, "radtan"),
    pytest.param("caliscope", "toml", PLUMB, "plumb_bob", marks=needs_toml),
    pytest.param("caliscope", "toml", RADTAN, "plumb_bob", marks=needs_toml),
]


def bits(values) -> list[int]:
    return np.asarray(values, dtype=np.float64).view(np.int64).tolist()


@pytest.mark.parametrize(("format", "suffix", "camera", "model"), CASES)
def test_every_bit_comes_back(tmp_path: Path, format, suffix: str, camera: CameraModel, model: str):
    path = write_camera(tmp_path / f"camera.{suffix}", camera, format, name="front_door", error_px=0.18)
    back = read_camera(path)
    assert (back.width_px, back.height_px, back.model) == (640, 480, model)
    count = len(camera.parameters)
    assert bits(back.parameters[:count]) == bits(camera.parameters)
    assert not back.parameters[count:].any()
    again = write_camera(tmp_path / f"again.{suffix}", back, format, name="front_door", error_px=0.18)
    if back.model == camera.model:
        assert again.read_bytes() == path.read_bytes()


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.floats(-1e3, 1e3), min_size=4, max_size=4),
    st.sampled_from(["opencv", "ros", "kalibr"]),
)
def test_any_coefficients_come_back(tmp_path_factory, values: list[float], format):
    camera = CameraModel(1280, 720, "radtan", np.array([900.0, 901, 640, 360, *values]))
    path = write_camera(tmp_path_factory.mktemp("f") / "c.yaml", camera, format)
    assert bits(read_camera(path).parameters[:8]) == bits(camera.parameters)


def test_opencv_itself_opens_it(tmp_path: Path):
    path = write_camera(tmp_path / "camera.yml", PLUMB, "opencv", error_px=0.25)
    storage = cv2.FileStorage(str(path), cv2.FILE_STORAGE_READ)
    assert bits(storage.getNode("camera_matrix").mat()) == bits(PLUMB.matrix)
    assert bits(storage.getNode("distortion_coefficients").mat().ravel()) == bits(PLUMB.distortion)
    assert storage.getNode("image_width").real() == 640
    assert storage.getNode("avg_reprojection_error").real() == 0.25
    storage.release()


def test_what_opencv_writes_is_read(tmp_path: Path):
    path = tmp_path / "theirs.yml"
    storage = cv2.FileStorage(str(path), cv2.FILE_STORAGE_WRITE)
    storage.write("image_width", 640)
    storage.write("image_height", 480)
    storage.write("camera_matrix", PLUMB.matrix)
    storage.write("distortion_coefficients", PLUMB.distortion.reshape(1, 5))
    storage.release()
    assert bits(read_camera(path).parameters) == bits(PLUMB.parameters)


def test_pyyaml_and_tomllib_open_them(tmp_path: Path):
    ros = yaml.safe_load(write_camera(tmp_path / "r.yaml", PLUMB, "ros", name="yes").read_text())
    assert ros["camera_name"] == "yes"
    assert bits(ros["distortion_coefficients"]["data"]) == bits(PLUMB.distortion)
    assert np.reshape(ros["projection_matrix"]["data"], (3, 4))[:, :3].tolist() == PLUMB.matrix.tolist()
    kalibr = yaml.safe_load(write_camera(tmp_path / "k.yaml", RADTAN, "kalibr").read_text())["cam0"]
    assert all(isinstance(v, float) for v in kalibr["distortion_coeffs"] + kalibr["intrinsics"])
    assert kalibr["resolution"] == [640, 480]
    if sys.version_info >= (3, 11):
        import tomllib

        text = write_camera(tmp_path / "c.toml", PLUMB, "caliscope", name="3", error_px=0.2).read_text()
        found = tomllib.loads(text)["cameras"]["3"]
        assert found["matrix"] == PLUMB.matrix.tolist() and found["cam_id"] == 3


def test_published_files_are_read():
    if not CALIB.is_dir():
        pytest.skip("the shared folder calib is not here")
    left = read_camera(CALIB / "opencv-chessboard" / "left_intrinsics.yml")
    assert left.parameters[0] == 5.3591573396163199e02 and left.model == "plumb_bob"
    if sys.version_info >= (3, 11):
        published = CALIB / "caliscope-charuco" / "prerecorded_calibration" / "camera_array_published.toml"
        with pytest.raises(InputError, match="say which one"):
            read_camera(published)
        camera = read_camera(published, camera="0")
        assert camera.parameters[:2].tolist() == [894.5288733178912, 896.877811780321]


@pytest.mark.parametrize(
    ("format", "camera", "message"),
    [
        ("kalibr", PLUMB, "--model radtan"),
        ("caliscope", RATIONAL, "eight"),
        ("matlab", PLUMB, "unknown format 'matlab'"),
    ],
)
def test_what_a_format_cannot_hold_is_refused(tmp_path: Path, format, camera: CameraModel, message: str):
    with pytest.raises(InputError, match=message):
        write_camera(tmp_path / "c", camera, format)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.yaml", "hello", "holds no camera"),
        ("a.yaml", "a: [", "cannot be read as YAML"),
        ("a.yaml", "x: 1", "neither camera_matrix"),
        ("a.yaml", "camera_matrix: {data: [1]}\ndistortion_model: equidistant", "'equidistant' is unknown"),
        ("a.yaml", "camera_matrix: {data: [1]}\ndistortion_model: plumb_bob", "distortion_coefficients.data"),
        ("a.yaml", "cam0: {camera_model: omni}", "'omni' is unknown"),
        ("a.yaml", "cam0: {}\ncam1: {}", "holds 2 cameras"),
        ("a.yml", "%YAML:1.0\n---\nx: !!opencv-matrix\n", "a.yml"),
        ("a.json", "{}", "no key hearth_calibration"),
    ],
)
def test_what_is_no_camera_is_named(tmp_path: Path, name: str, text: str, message: str):
    (tmp_path / name).write_text(text)
    with pytest.raises(InputError, match=message):
        read_camera(tmp_path / name)


def test_a_skewed_or_senseless_camera_is_refused(tmp_path: Path):
    good = write_camera(tmp_path / "c.yaml", PLUMB, "ros").read_text()
    for old, new, message in (
        ("image_width: 640", "image_width: 0", "0 x 480"),
        ("image_width: 640", "image_width: 640.5", "640.5 x 480"),
        ("data: [533.0289038951234, 0.0,", "data: [533.0289038951234, 0.1,", "skew"),
        ("data: [533.0289038951234,", "data: [-533.0,", "positive"),
        ("data: [533.0289038951234,", "data: [.nan,", "positive"),
    ):
        (tmp_path / "bad.yaml").write_text(good.replace(old, new))
        with pytest.raises(InputError, match=message):
            read_camera(tmp_path / "bad.yaml")
