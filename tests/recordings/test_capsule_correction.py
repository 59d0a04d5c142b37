"""Reading the correction out of a result file."""

from __future__ import annotations

import json

import numpy as np
import pytest

import dsp
from calibration.result import CalibrationResult, load
from dsp.errors import InputError
from dsp.foa_correction import FoaCorrection
from recordings.capsule_correction import read_correction

MADE = FoaCorrection("a", dsp.conversion_matrix("a", "ambix") @ np.diag([1.1, 1, 0.9, -1]), [1e-5, 0, 0, 0])


@pytest.fixture
def path(tmp_path):
    file = CalibrationResult.new("capsules", {"correction": MADE.to_dict()}, units={"delays_s": "s"})
    return file.save(tmp_path / "capsules.json")


def test_it_reads_back_to_the_same_bits(path):
    found = read_correction(path, "a")
    for other in (load(path), json.loads(path.read_bytes())):
        assert read_correction(other).key == found.key
    x = np.random.default_rng(1).standard_normal((900, 4)).astype(np.float32)
    assert found.key == MADE.key
    assert found.apply(x, 48000).tobytes() == MADE.apply(x, 48000).tobytes()


def test_another_format_than_the_calibrated_one_is_refused(path):
    with pytest.raises(InputError, match=r"measured on a channels \(FLU FRD BLD BRU\), this sound is ambix"):
        read_correction(path, "ambix")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ({"kind": "pose", "result": {}}, "kind 'capsules'"),
        ({"kind": "capsules", "result": {}}, "no result.correction"),
        (
            {"kind": "capsules", "result": {"correction": {"target": "ambix", "source": "a"}}},
            "matrix, delays_s",
        ),
        ({"kind": "capsules", "result": {"correction": {**MADE.to_dict(), "target": "a"}}}, "end in ambix"),
        ({"kind": "capsules", "result": {"correction": {**MADE.to_dict(), "source": 3}}}, "unknown format"),
        ({"kind": "capsules", "result": {"correction": {**MADE.to_dict(), "matrix": [[1]]}}}, "matrix"),
        (
            {"kind": "capsules", "result": {"correction": {**MADE.to_dict(), "delays_s": [0, 0, 0, 0]}}},
            "not as it was written",
        ),
    ],
)
def test_what_holds_none_is_refused(content, words):
    with pytest.raises(InputError, match=words):
        read_correction(content)


def test_a_missing_or_broken_file_is_named(tmp_path):
    with pytest.raises(InputError, match="no calibration result at"):
        read_correction(tmp_path / "nothing.json")
    (tmp_path / "text.json").write_text("no json")
    with pytest.raises(InputError, match="no JSON"):
        read_correction(tmp_path / "text.json")
