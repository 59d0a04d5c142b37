"""What the SimuHome benchmark (arXiv 2509.24282) does otherwise than one would expect, each as an option.

`Quirks()` is the home as one expects it, `SIMUHOME` the benchmark. That virtual time runs on while an agent
thinks is no option in here: it is `edge.home.clock.RealTime` instead of a clock that is moved by hand.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Quirks:
    """latched_rates: how fast a device moves the air is worked out when one of its attributes changes, and
        kept until the next change: cooling runs past its setpoint. Otherwise it is worked out at every tick.
    lamps_twice: the light of a room at the start, lamps included, is the light that it has without lamps; one
        that was lit already counts twice. Otherwise what lit lamps give is taken out at the start.
    raw_levels: a goal of "90 percent" for a level means the Matter level 90 of 254. Otherwise 229 of 254.
    fan_thirds: FanMode low up to 33 %, medium up to 66 %. Otherwise by the nearest of 33, 66 and 100 %.
    """

    latched_rates: bool = False
    lamps_twice: bool = False
    raw_levels: bool = False
    fan_thirds: bool = False


SIMUHOME = Quirks(latched_rates=True, lamps_twice=True, raw_levels=True, fan_thirds=True)
