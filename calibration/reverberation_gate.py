"""Decays that no room makes: cut or bent down by a gate, an expander or noise suppression.

The energy of a room is a sum of decays, each exp(-k t), so its level falls ever more slowly and never faster:
ln of such a sum is convex. Where the curves of several octaves fall ever faster by more than chance, which is
known for each (`Line.bend_sigma_db`), something else turned the sound down.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from calibration.reverberation_noise import Floats
from dsp.errors import InputError

if TYPE_CHECKING:
    from calibration.reverberation_decay import Line

_TOGETHER, _ALONE = 3.2, 4.0  # sigmas of all octaves together; of one, the most that counts
_LEAST = 3  # octaves
_RISING = 0.5  # of the time to -20 dB that is over at -3 dB; an exponential decay has 0.15
_WITH_T30 = 1.0  # sigmas by which T20 may be bent when T30 is refused


def processed(octaves: Sequence[Mapping[str, Line]]) -> dict[str, str]:
    """Times ("t30", "t20") that no band of a response can stand for, with the reason. octaves: lines of
    each."""
    score = {name: _bent([lines[name] for lines in octaves if name in lines]) for name in ("t30", "t20")}
    refused = {name for name, z in score.items() if z < -_TOGETHER}
    if "t30" in refused and score["t20"] < -_WITH_T30:
        refused.add("t20")
    return {
        name: f"the level falls ever faster ({-score[name]:.1f} sigmas over all octaves), which no room does:"
        " a gate, an expander or noise suppression (or gain control) was on; record without"
        for name in refused
    }


def check_falling(curve_s: Floats, curve_db: Floats) -> None:
    """Raises InputError when most of the energy of a decay curve comes late, just before it breaks off, as in
    a response that runs backwards. A curve that does not reach -20 dB is not judged."""
    if not len(curve_db) or curve_db[-1] > -20:
        return
    early, end = (float(curve_s[int(np.argmax(curve_db <= level))]) for level in (-3.0, -20.0))
    if early > _RISING * end:
        raise InputError(
            f"the sound grows for {1000 * early:.0f} ms after its beginning and then breaks off: no direct"
            " sound with its decay behind it; does the response run backwards?"
        )


def _bent(lines: Sequence[Line]) -> float:
    """Sigmas of the bends of all octaves together."""
    z = np.array([line.bend_db / line.bend_sigma_db for line in lines if line.bend_sigma_db > 0])
    return float(np.clip(z, -_ALONE, _ALONE).sum() / np.sqrt(len(z))) if len(z) >= _LEAST else 0.0
