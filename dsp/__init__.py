"""Signal processing on plain arrays: resampling, ambisonics, checks, levels, activity, direction of arrival.

Names are imported on first use, so that `import dsp` (and with it the command line) stays fast.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsp.lazy import lazy_package

if TYPE_CHECKING:
    from dsp.activity import Activity as Activity
    from dsp.activity import ActivityDetector as ActivityDetector
    from dsp.ambisonics import CAPSULE_DIRECTIONS as CAPSULE_DIRECTIONS
    from dsp.ambisonics import CHANNEL_NAMES as CHANNEL_NAMES
    from dsp.ambisonics import FORMATS as FORMATS
    from dsp.ambisonics import MOUNTINGS as MOUNTINGS
    from dsp.ambisonics import angular_error_deg as angular_error_deg
    from dsp.ambisonics import conversion_matrix as conversion_matrix
    from dsp.ambisonics import convert as convert
    from dsp.ambisonics import decode as decode
    from dsp.ambisonics import decoder_matrix as decoder_matrix
    from dsp.ambisonics import direction_to_unit as direction_to_unit
    from dsp.ambisonics import encode as encode
    from dsp.ambisonics import rotate as rotate
    from dsp.ambisonics import rotation_matrix as rotation_matrix
    from dsp.ambisonics import to_stereo as to_stereo
    from dsp.ambisonics import unit_to_direction as unit_to_direction
    from dsp.ambisonics import virtual_mic as virtual_mic
    from dsp.array import array_azimuths as array_azimuths
    from dsp.array import array_to_foa as array_to_foa
    from dsp.array import encoder_filters as encoder_filters
    from dsp.array import estimate_array_azimuth as estimate_array_azimuth
    from dsp.array import estimate_array_doa as estimate_array_doa
    from dsp.async_resample import AsyncResampler as AsyncResampler
    from dsp.beam import Beamformer as Beamformer
    from dsp.beam import beamform as beamform
    from dsp.beam import max_directivity_weights as max_directivity_weights
    from dsp.checks import Checker as Checker
    from dsp.checks import CheckReport as CheckReport
    from dsp.checks import Finding as Finding
    from dsp.checks import check as check
    from dsp.checks import check_pieces as check_pieces
    from dsp.doa import DirectionEstimate as DirectionEstimate
    from dsp.doa import Doa as Doa
    from dsp.doa import DoaEstimator as DoaEstimator
    from dsp.doa import DoaFrame as DoaFrame
    from dsp.doa import estimate_doa as estimate_doa
    from dsp.doa import steady_direction as steady_direction
    from dsp.foa_correction import CorrectionStream as CorrectionStream
    from dsp.foa_correction import FoaCorrection as FoaCorrection
    from dsp.known_directions import DirectionReport as DirectionReport
    from dsp.known_directions import apply_matrix as apply_matrix
    from dsp.known_directions import check_directions as check_directions
    from dsp.known_directions import response_vector as response_vector
    from dsp.levels import Levels as Levels
    from dsp.levels import levels as levels
    from dsp.onset import Onset as Onset
    from dsp.onset import OnsetDetector as OnsetDetector
    from dsp.onset import onsets as onsets
    from dsp.peaks import several_directions as several_directions
    from dsp.resample import Resampler as Resampler
    from dsp.resample import resample as resample
    from dsp.resample import warm as warm
    from dsp.sh_doa import ShDoaEstimator as ShDoaEstimator
    from dsp.sh_doa import estimate_sh_doa as estimate_sh_doa
    from dsp.sh_doa import sh_directions as sh_directions
    from dsp.spacing import SpacingCorrector as SpacingCorrector
    from dsp.spacing import correct_spacing as correct_spacing
    from dsp.spacing import spacing_filters as spacing_filters
    from dsp.spacing import spacing_limit_hz as spacing_limit_hz
    from dsp.spectrogram import Spectrogram as Spectrogram
    from dsp.spectrogram import SpectrogramStream as SpectrogramStream
    from dsp.spectrogram import spectrogram as spectrogram
    from dsp.track import Track as Track
    from dsp.track import Tracker as Tracker
    from dsp.track import TrackFrame as TrackFrame
    from dsp.track import track_sources as track_sources
    from dsp.weighting import AWeighting as AWeighting
    from dsp.weighting import LevelMeter as LevelMeter
    from dsp.weighting import LevelReading as LevelReading
    from dsp.weighting import a_weighted_level as a_weighted_level
    from dsp.weighting import a_weighting_db as a_weighting_db
    from dsp.weighting import true_peak_dbfs as true_peak_dbfs

_HOME = {
    "dsp.activity": ("Activity", "ActivityDetector"),
    "dsp.ambisonics": (
        "CAPSULE_DIRECTIONS",
        "CHANNEL_NAMES",
        "FORMATS",
        "MOUNTINGS",
        "angular_error_deg",
        "conversion_matrix",
        "convert",
        "decode",
        "decoder_matrix",
        "direction_to_unit",
        "encode",
        "rotate",
        "rotation_matrix",
        "to_stereo",
        "unit_to_direction",
        "virtual_mic",
    ),
    "dsp.array": (
        "array_azimuths",
        "array_to_foa",
        "encoder_filters",
        "estimate_array_azimuth",
        "estimate_array_doa",
    ),
    "dsp.async_resample": ("AsyncResampler",),
    "dsp.beam": ("Beamformer", "beamform", "max_directivity_weights"),
    "dsp.checks": ("CheckReport", "Checker", "Finding", "check", "check_pieces"),
    "dsp.doa": (
        "DirectionEstimate",
        "Doa",
        "DoaEstimator",
        "DoaFrame",
        "estimate_doa",
        "steady_direction",
    ),
    "dsp.foa_correction": ("CorrectionStream", "FoaCorrection"),
    "dsp.known_directions": ("DirectionReport", "apply_matrix", "check_directions", "response_vector"),
    "dsp.levels": ("Levels", "levels"),
    "dsp.onset": ("Onset", "OnsetDetector", "onsets"),
    "dsp.peaks": ("several_directions",),
    "dsp.resample": ("Resampler", "resample", "warm"),
    "dsp.sh_doa": ("ShDoaEstimator", "estimate_sh_doa", "sh_directions"),
    "dsp.spacing": ("SpacingCorrector", "correct_spacing", "spacing_filters", "spacing_limit_hz"),
    "dsp.spectrogram": ("Spectrogram", "SpectrogramStream", "spectrogram"),
    "dsp.track": ("Track", "TrackFrame", "Tracker", "track_sources"),
    "dsp.weighting": (
        "AWeighting",
        "LevelMeter",
        "LevelReading",
        "a_weighted_level",
        "a_weighting_db",
        "true_peak_dbfs",
    ),
}
__all__ = lazy_package(__name__, _HOME)  # dsp.resample and dsp.levels stay functions, see there
