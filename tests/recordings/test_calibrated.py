"""Calibration results that a rig points to: read once, checked, carried by every episode byte for byte."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import dsp
from capture.doctor_calibration import look_at_calibrations
from capture.rig import parse_rig, result_paths, rig_to_dict
from dsp.errors import InputError
from dsp.foa_correction import FoaCorrection
from recordings.calibrated import Calibrations, read_results, read_snapshot
from recordings.calibration_result import CalibrationResult
from recordings.camera_model import CameraModel
from recordings.geometry import camera_pose
from recordings.importer import import_take
from recordings.report_rig import view_rig
from recordings.wav_write import WavWriter

LENS = CameraModel(640, 360, "radtan", np.array([500.0, 501.0, 318.0, 181.0, -0.2, 0.03, 0.0, 0.0]))
POSE = camera_pose((0.1, -0.02, 0.05), 12.0, -3.0)


def save(folder: Path, **results: dict) -> dict[str, Path]:
    return {
        kind: CalibrationResult.new(kind, result, units={}).save(folder / f"{kind}.json")  # type: ignore[arg-type]
        for kind, result in results.items()
    }


def test_an_episode_carries_what_the_rig_points_to(tmp_path: Path) -> None:
    made = save(
        tmp_path / "made", camera=LENS.to_fields(), pose={"T_mic_camera": POSE}, sync={"offset_ms": -30.0}
    )
    rig = parse_rig(
        "hearth_rig: 1\n"
        f"calibration: {{camera: {made['camera']}, pose: {made['pose']}, sync: {made['sync']}}}\n"
        f"more_cameras: [{{name: door, source: file, file: x, calibration: {{camera: {made['camera']}}}}}]\n"
    )
    held = read_results(result_paths(rig))
    held.keep(lambda name, data: _write(tmp_path / "episode" / name, data))
    kept = read_snapshot(tmp_path / "episode")
    assert kept.results == held.results and kept.files == held.files
    assert sorted(p.name for p in (tmp_path / "episode" / "calibration").iterdir()) == [
        "camera.json", "door", "pose.json", "sync.json",
    ]  # fmt: skip
    assert kept.camera("door") is not None and kept.T_mic_camera("door") is None
    lens = kept.camera()
    assert lens is not None and np.array_equal(lens.parameters, LENS.parameters)
    eye = view_rig(rig_to_dict(rig), kept).camera
    assert eye is not None and eye.model(640, 360) is eye.lens and eye.lens is not None
    np.testing.assert_array_equal(eye.pose, POSE)
    assert eye.sound_late_s == pytest.approx(-0.03)
    assert eye.yaw_deg == pytest.approx(12.0) and eye.model(320, 180).distortion.any() == False  # noqa: E712
    assert not read_snapshot(tmp_path) and list(kept.lines())


def _write(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


@pytest.mark.parametrize(
    ("kind", "result", "said"),
    [
        ("camera", {"width_px": 3}, "lacks or garbles 'model'"),
        ("camera", {**LENS.to_fields(), "fx": -1.0}, "is no camera"),
        ("pose", {"T_mic_camera": [[1, 2], [3, 4]]}, "no rigid T_mic_camera"),
        ("sync", {"offset_ms": "late"}, "no usable offset_ms"),
        ("pose", {"T_mic_camera": np.diag([1.0, 1.0, -1.0, 1.0])}, "no rigid T_mic_camera"),
    ],
)
def test_what_cannot_be_used_is_told_before_the_take(tmp_path: Path, kind, result, said) -> None:
    path = save(tmp_path, **{kind: result})[kind]
    with pytest.raises(InputError, match=said) as error:
        read_results({("", kind): path})
    assert str(path) in str(error.value)


def test_missing_wrong_kind_and_wrong_size(tmp_path: Path) -> None:
    path = save(tmp_path, camera=LENS.to_fields())["camera"]
    with pytest.raises(InputError, match="hearth calibrate pose"):
        read_results({("", "pose"): tmp_path / "none.json"})
    with pytest.raises(InputError, match="kind 'camera', 'pose' is needed"):
        read_results({("", "pose"): path})
    held = read_results({("", "camera"): path})
    held.check_picture(640, 360)
    with pytest.raises(InputError, match="640x360 pixels, the camera gives 1280x720"):
        held.check_picture(1280, 720)
    Calibrations().check_picture(1, 1)


def _take(folder: Path, foa: np.ndarray, format_name: str = "ambix") -> Path:
    path = folder / "take.wav"
    folder.mkdir(parents=True)
    writer = WavWriter(path, 48000, 4, sample_type="float", format_name=format_name, note="test")
    writer.write(foa.astype(np.float32))
    writer.close()
    return path


def test_a_correction_undoes_a_wrong_wiring_in_everything_derived(tmp_path: Path) -> None:
    """Y and Z swapped, X inverted and 7 frames late: the release form, the directions and the check are those
    of the right wiring; the original keeps its bytes."""
    rng = np.random.default_rng(3)
    walk = np.repeat(rng.uniform(-180, 180, 8), 12000)
    clean = dsp.encode(0.1 * rng.standard_normal(len(walk)), walk, np.repeat(rng.uniform(-40, 40, 8), 12000))
    clean = clean + 0.003 * rng.standard_normal(clean.shape)
    wrong = clean[:, [0, 2, 1, 3]] * [1, 1, 1, -1]
    wrong[7:, 3], wrong[:7, 3] = wrong[:-7, 3].copy(), 0.0
    matrix = np.array([[1, 0, 0, 0], [0, 0, 1, 0], [0, 1, 0, 0], [0, 0, 0, -1.0]])
    repair = FoaCorrection("ambix", matrix, np.array([0, 0, 0, 7 / 48000]))
    save(tmp_path / "calibration", capsules={"correction": repair.to_dict()}, sync={"offset_ms": 41.5})
    right = import_take(
        _take(tmp_path / "a", clean), None, root=tmp_path / "data", session="right", report=False
    )
    put_right = import_take(
        _take(tmp_path / "b", wrong),
        None,
        root=tmp_path / "data",
        session="wrong",
        calibration=tmp_path / "calibration",
        report=False,
    )
    one, two = right.audio(), put_right.audio()
    np.testing.assert_allclose(two[:-50], one[:-50], atol=2e-6)
    np.testing.assert_array_equal(put_right.audio(48000), wrong.astype(np.float32))
    np.testing.assert_allclose(put_right.doa().azimuth_deg[:-1], right.doa().azimuth_deg[:-1], atol=0.02)
    sound = put_right.checks["sound"]
    assert sound["ok"] and sound["correction"] == repair.key
    assert "orientation" not in {finding["code"] for finding in sound["findings"]}
    assert put_right.verify().ok
    late = {"offset_ms": 41.5, "sigma_ms": 0.0, "source": "calibration"}
    assert put_right.checks["av_offset"] == late and "av_offset" not in right.checks
    with pytest.raises(InputError, match="measured on ambix channels"):
        import_take(
            _take(tmp_path / "c", wrong, "fuma"), None, root=tmp_path, calibration=tmp_path / "calibration"
        )
    with pytest.raises(InputError, match="holds no calibration result"):
        import_take(_take(tmp_path / "d", wrong), None, root=tmp_path, calibration=tmp_path / "a")


def test_doctor_tells_what_the_results_are_worth(tmp_path: Path) -> None:
    made = save(tmp_path, camera=LENS.to_fields(), pose={"T_mic_camera": POSE})
    old = CalibrationResult.new(
        "room", {}, units={}, created_utc="2020-01-01T00:00:00.000Z", warnings=["one wall only"]
    ).save(tmp_path / "room.json")
    text = f"""hearth_rig: 1
camera: {{width_px: 640, height_px: 360}}
calibration: {{camera: {made["camera"]}, pose: {made["pose"]}, room: {old}, sync: {tmp_path}/none.json}}
"""
    found = {f.text.split()[0].rstrip(",:"): f for f in look_at_calibrations(parse_rig(text))}
    assert found["camera"].severity == found["pose"].severity == "ok"
    assert found["room"].severity == "warning" and "one wall only" in found["room"].text
    assert [f.severity for f in found.values()].count("fault") == 1
    wrong = look_at_calibrations(parse_rig(text.replace("640", "1280")))
    assert "640x360 pixels, the camera gives 1280x360" in wrong[0].text and wrong[0].severity == "fault"


def test_a_pose_in_millimetres_is_refused(tmp_path: Path) -> None:
    far = POSE.copy()
    far[:3, 3] *= 1000
    made = save(tmp_path, pose={"T_mic_camera": far})
    with pytest.raises(InputError, match=r"pose\.json: .* 113.6 m from the microphone.*another unit"):
        read_results({("", "pose"): made["pose"]})
