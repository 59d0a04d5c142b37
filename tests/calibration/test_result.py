"""The result file: exact numbers, clear refusals, nothing half-written."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calibration.result import CalibrationResult, Covariance, hash_inputs, load
from dsp.errors import InputError


def example(**changes) -> CalibrationResult:
    fields = {
        "result": {"fx": np.float64(533.1), "distortion": np.array([0.1, -0.25])},
        "units": {"fx": "px"},
        "covariance": Covariance.of(["fx", "fy"], [[0.04, 0.01], [0.01, 0.09]]),
        **changes,
    }
    return CalibrationResult.new("camera", fields.pop("result"), **fields)


def test_it_comes_back_as_it_was(tmp_path: Path):
    saved = example(quality={"views": 20}, warnings=["few views"])
    path = saved.save(tmp_path / "new" / "camera.json")
    assert load(path) == saved
    assert load(path, "camera").covariance.sigma("fy") == pytest.approx(0.3)
    assert json.loads(path.read_text())["hearth_calibration"] == 1
    assert [p.name for p in path.parent.iterdir()] == ["camera.json"], "no temporary file stays"


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=5))
def test_floats_keep_every_bit(tmp_path_factory: pytest.TempPathFactory, values: list[float]):
    path = tmp_path_factory.mktemp("bits") / "r.json"
    example(result={"values": values}).save(path)
    assert np.array_equal(
        np.array(load(path).result["values"], float).view(np.int64), np.array(values).view(np.int64)
    )


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"result": {"fx": float("nan")}}, "result.fx"),
        ({"quality": {"views": [1.0, float("inf")]}}, r"quality.views\[1\]"),
        ({"result": {"fx": object()}}, "result.fx is a object"),
        ({"covariance": Covariance.of(["a"], [[1.0, 0.0], [0.0, 1.0]])}, "1 x 1"),
        ({"covariance": Covariance.of(["a", "b"], [[1.0, 0.5], [0.0, 1.0]])}, "not symmetric"),
        ({"covariance": Covariance.of(["a", "b"], [[1.0, 0.0], [0.0, -1.0]])}, "negative variance for b"),
        ({"covariance": Covariance.of(["a", "a"], np.eye(2))}, "twice"),
    ],
)
def test_what_cannot_stand_is_refused(changes: dict, words: str):
    with pytest.raises(InputError, match=words):
        example(**changes)


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        (lambda d: d.update(hearth_calibration=2, extra=1), "this Hearth knows 1"),
        (lambda d: d.update(kind="lens"), "kind"),
        (lambda d: d.update(resutl={}), "resutl"),
        (lambda d: d.pop("units"), "units"),
        (lambda d: d.pop("hearth_calibration"), "no key hearth_calibration"),
        (lambda d: d["covariance"]["matrix"].pop(), "2 x 2"),
    ],
)
def test_a_damaged_file_is_named(tmp_path: Path, edit, words: str):
    path = example().save(tmp_path / "c.json")
    data = json.loads(path.read_text())
    edit(data)
    path.write_text(json.dumps(data))
    with pytest.raises(InputError, match=words) as caught:
        load(path)
    assert "c.json" in str(caught.value)


def test_no_file_no_json_or_another_kind(tmp_path: Path):
    with pytest.raises(InputError, match="hearth calibrate pose"):
        load(tmp_path / "absent.json", "pose")
    (tmp_path / "x.json").write_text("{")
    with pytest.raises(InputError, match="no JSON"):
        load(tmp_path / "x.json")
    (tmp_path / "x.json").write_text("[" * 100_000)
    with pytest.raises(InputError, match=r"x\.json is no calibration result: .* too deeply"):
        load(tmp_path / "x.json")
    path = example().save(tmp_path / "c.json")
    with pytest.raises(InputError, match="'camera', 'pose' is needed"):
        load(path, "pose")


def test_a_key_that_stands_twice_is_refused(tmp_path: Path):
    path = example().save(tmp_path / "c.json")
    text = path.read_text()
    path.write_text(text.replace('"kind"', '"kind": "sync", "kind"', 1))
    with pytest.raises(InputError, match=r"c\.json: the key 'kind' stands twice"):
        load(path)


def test_inputs_are_hashed_by_content(tmp_path: Path):
    (tmp_path / "a.jpg").write_bytes(b"abc")
    (tmp_path / "episode").mkdir()
    (tmp_path / "episode" / "manifest.json").write_bytes(b"{}")
    first, second = hash_inputs([tmp_path / "a.jpg", tmp_path / "episode"])
    assert (first.name, first.sha256) == ("a.jpg", hashlib.sha256(b"abc").hexdigest())
    assert second.name == "episode/manifest.json"
    with pytest.raises(InputError, match=r"absent\.wav is no file"):
        hash_inputs([tmp_path / "absent.wav"])
