"""Ambisonics against closed forms and published matrices."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dsp
from dsp.errors import InputError

angles = st.tuples(st.floats(-180, 179.9), st.floats(-89, 89))
SOUND = np.random.default_rng(1).standard_normal(500) * 0.3


def test_encode_axes():
    one = np.ones(1)
    assert np.allclose(dsp.encode(one, 0, 0), [[1, 0, 0, 1]], atol=1e-7)  # front: X
    assert np.allclose(dsp.encode(one, 90, 0), [[1, 1, 0, 0]], atol=1e-7)  # left: Y
    assert np.allclose(dsp.encode(one, 0, 90), [[1, 0, 1, 0]], atol=1e-7)  # up: Z


def test_encode_moving_source_has_a_direction_per_frame():
    foa = dsp.encode(np.ones(3), [0, 90, 180], [0, 0, 0])
    assert np.allclose(foa[:, 3], [1, 0, -1], atol=1e-7)
    with pytest.raises(InputError, match="3 frames"):
        dsp.encode(np.ones(3), [0, 90], [0, 0])


@pytest.mark.parametrize(
    ("azimuth", "elevation", "named"),
    [
        (np.nan, 0, "azimuth .* not nan"),
        (0, -np.inf, "elevation .* not -inf"),
        (0, 90.5, "elevation .* -90 to 90 .* not 90.5"),
        ([0, 1, np.inf], 0, r"azimuth .* not inf \(frame 2\)"),
        ("left", 0, "azimuth_deg .* 'left'"),
        (0, None, "elevation_deg .* None"),
        (1j, 0, "azimuth_deg .* 1j"),
        ([0, 1, 2], [0, 1], "do not fit"),
    ],
)
def test_encode_refuses_what_is_no_direction(azimuth, elevation, named):
    with pytest.raises(InputError, match=named):
        dsp.encode(np.ones(3), azimuth, elevation)


def test_encode_takes_every_real_direction():
    foa = dsp.encode(np.ones(3, np.float32), np.float32(-450), -90)
    assert np.allclose(foa, [1, 0, -1, 0], atol=1e-6)
    with pytest.raises(InputError, match=r"mono .*\['x'\]"):
        dsp.encode(["x"], 0, 0)


@given(angles)
def test_direction_round_trip(direction):
    az, el = dsp.unit_to_direction(dsp.direction_to_unit(*direction))
    assert dsp.angular_error_deg(az, el, *direction) < 1e-9
    assert -180 <= az < 180


def test_angular_error_known_values():
    assert dsp.angular_error_deg(0, 0, 90, 0) == pytest.approx(90)
    assert dsp.angular_error_deg(170, 0, -170, 0) == pytest.approx(20)
    assert dsp.angular_error_deg(12, 90, 133, 90) == pytest.approx(0, abs=1e-9)
    assert dsp.angular_error_deg(0, 0, 1e-6, 0) == pytest.approx(1e-6, rel=1e-6)
    assert dsp.angular_error_deg([0, 0], [0, 0], [10, 20], [0, 0]) == pytest.approx([10, 20])


def test_a_plane_wave_in_each_format_has_its_textbook_values():
    foa = dsp.encode(np.ones(1), 30, 20)
    x, y, z = dsp.direction_to_unit(30, 20)
    root3 = np.sqrt(3)
    assert np.allclose(dsp.convert(foa, source="ambix", target="fuma"), [[0.5**0.5, x, y, z]], atol=1e-6)
    assert np.allclose(
        dsp.convert(foa, source="ambix", target="n3d"), [[1, root3 * y, root3 * z, root3 * x]], atol=1e-6
    )
    # Farina: W = FLU+FRD+BLD+BRU, X = FLU+FRD-BLD-BRU, Y = FLU-FRD+BLD-BRU, Z = FLU-FRD-BLD+BRU (type I)
    flu, frd, bld, bru = dsp.convert(foa, source="ambix", target="a")[0]
    assert 0.5 * (flu + frd + bld + bru) == pytest.approx(1, abs=1e-6)
    assert root3 / 2 * (flu + frd - bld - bru) == pytest.approx(x, abs=1e-6)
    assert root3 / 2 * (flu - frd + bld - bru) == pytest.approx(y, abs=1e-6)
    assert root3 / 2 * (flu - frd - bld + bru) == pytest.approx(z, abs=1e-6)


@pytest.mark.parametrize("name", ["a", "a2"])
def test_a_capsule_hears_most_where_it_points(name):
    for c, direction in enumerate(dsp.CAPSULE_DIRECTIONS[name]):
        label = dsp.CHANNEL_NAMES[name][c]
        assert (direction[0] > 0) == (label[0] == "F")
        assert (direction[1] > 0) == (label[1] == "L")
        assert (direction[2] > 0) == (label[2] == "U")
        foa = dsp.encode(np.ones(1), *dsp.unit_to_direction(direction))
        capsules = dsp.convert(foa, source="ambix", target=name)[0]
        assert capsules[c] == pytest.approx(1, abs=1e-6)
        assert np.argmax(capsules) == c


@pytest.mark.parametrize("source", dsp.FORMATS)
@pytest.mark.parametrize("target", dsp.FORMATS)
def test_conversions_invert_each_other(source, target):
    x = np.random.default_rng(0).standard_normal((100, 4)).astype(np.float32)
    there = dsp.convert(x, source=source, target=target)
    assert there.dtype == np.float32
    assert np.allclose(dsp.convert(there, source=target, target=source), x, atol=2e-6)


@given(angles, st.tuples(*[st.floats(-180, 180)] * 3))
def test_rotation_moves_the_source(direction, turn):
    r = dsp.rotation_matrix(*turn)
    rotated = dsp.rotate(dsp.encode(SOUND, *direction), r)
    expected = dsp.encode(SOUND, *dsp.unit_to_direction(r @ dsp.direction_to_unit(*direction)))
    assert np.allclose(rotated, expected, atol=2e-6)


def test_yaw_pitch_roll_signs():
    front, left = dsp.direction_to_unit(0, 0), dsp.direction_to_unit(90, 0)
    assert dsp.unit_to_direction(dsp.rotation_matrix(yaw_deg=90) @ front) == pytest.approx((90, 0))
    assert dsp.unit_to_direction(dsp.rotation_matrix(pitch_deg=30) @ front) == pytest.approx((0, 30))
    assert dsp.unit_to_direction(dsp.rotation_matrix(roll_deg=30) @ left) == pytest.approx((90, 30))


def test_mountings():
    assert np.allclose(dsp.MOUNTINGS["inverted"] @ [0, 0.6, -0.8], [0, -0.6, 0.8])
    assert np.allclose(dsp.MOUNTINGS["endfire"] @ [0, 0, 1], [1, 0, 0])  # its top looks to the front


def test_a_mirror_is_no_rotation():
    with pytest.raises(InputError, match="mirror"):
        dsp.rotate(dsp.encode(SOUND, 0, 0), np.diag([1, -1, 1]))
    with pytest.raises(InputError, match="orthonormal"):
        dsp.rotate(dsp.encode(SOUND, 0, 0), 2 * np.eye(3))


@given(angles, st.floats(0, 1), st.floats(0, 180))
def test_virtual_mic_has_its_pattern(direction, pattern, off):
    foa = dsp.encode(np.ones(4), *direction)
    axis = dsp.direction_to_unit(*direction)
    side = np.cross(axis, [0.0, 0.0, 1.0])
    side /= np.linalg.norm(side)
    look = np.cos(np.radians(off)) * axis + np.sin(np.radians(off)) * side
    got = dsp.virtual_mic(foa, *dsp.unit_to_direction(look), pattern)
    assert np.allclose(got, pattern + (1 - pattern) * np.cos(np.radians(off)), atol=1e-5)


def test_stereo_left_is_left():
    left = dsp.to_stereo(dsp.encode(np.ones(1), 90, 0))
    front = dsp.to_stereo(dsp.encode(np.ones(1), 0, 0))
    assert np.allclose(left, [[1, 0]], atol=1e-6)
    assert np.allclose(front, [[0.5, 0.5]], atol=1e-6)


def test_stereo_adds_up_to_w_and_keeps_the_power_of_diffuse_sound():
    unit = np.random.default_rng(3).standard_normal((4000, 3))
    az, el = dsp.unit_to_direction(unit)
    stereo = dsp.to_stereo(np.stack([dsp.encode(np.ones(1), a, e)[0] for a, e in zip(az, el, strict=True)]))
    assert np.allclose(stereo.sum(axis=1), 1, atol=1e-6)
    assert np.mean(stereo**2, axis=0) == pytest.approx([1 / 3, 1 / 3], abs=0.01)  # a cardioid's: -4.77 dB
    right = dsp.to_stereo(dsp.encode(np.ones(1), -90, 0))
    assert np.allclose(right, [[0, 1]], atol=1e-6)  # the null of the left cardioid


RING = ([45, 135, -135, -45], [0, 0, 0, 0])
CUBE = (
    [45, 135, -135, -45] * 2,
    [np.degrees(np.arctan(0.5**0.5))] * 4 + [-np.degrees(np.arctan(0.5**0.5))] * 4,
)
OCTAHEDRON = ([0, 90, 180, -90, 0, 0], [0, 0, 0, 0, 90, -90])


@pytest.mark.parametrize(("layout", "dims"), [(RING, 2), (CUBE, 3), (OCTAHEDRON, 3)])
def test_decoders_have_gerzons_vectors(layout, dims):
    """Toward the source: velocity vector 1 for "basic", energy vector 1/sqrt 2 or 1/sqrt 3 for "max_re"."""
    speakers = dsp.direction_to_unit(*layout)
    for az, el in ((20, 0), (-130, 0 if dims == 2 else 40)):
        wave, unit = dsp.encode(np.ones(1), az, el), dsp.direction_to_unit(az, el)
        basic = dsp.decode(wave, *layout, kind="basic")[0]
        sharp = dsp.decode(wave, *layout)[0]
        assert basic.sum() == pytest.approx(1, abs=1e-6) and sharp.sum() == pytest.approx(1, abs=1e-6)
        assert np.allclose(basic @ speakers, unit, atol=1e-6)
        energy = sharp**2 @ speakers / np.sum(sharp**2)
        assert np.allclose(energy, unit * dims**-0.5, atol=1e-6)


def test_published_matrix_of_a_square():
    """Basic decoding to a square in SN3D, 1/4 (W + 2 (x X + y Y)), x and y of the corner being 1/sqrt 2."""
    assert np.allclose(dsp.decoder_matrix(*RING, "basic")[0], [0.25, 0.5**0.5 / 2, 0, 0.5**0.5 / 2])


def test_irregular_layouts_are_refused():
    for layout in (([30, -30], [0, 0]), ([0, 90, 180], [0, 0, 0])):
        with pytest.raises(InputError, match="regular"):
            dsp.decoder_matrix(*layout)
    with pytest.raises(InputError, match="'inphase'"):
        dsp.decoder_matrix(*RING, "inphase")


def test_unknown_format_names_the_known_ones():
    with pytest.raises(InputError, match="ambix, fuma, n3d, a, a2"):
        dsp.convert(np.zeros((1, 4)), source="sn3d", target="ambix")
    with pytest.raises(InputError, match=r"\(1, 3\)"):
        dsp.convert(np.zeros((1, 3)), source="fuma", target="ambix")
