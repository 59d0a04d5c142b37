"""Who accepts an episode and who does not: the log of reviews, agreement, and the page for reviewing.

`decisions` and `verdict` are the public face (docs/review.md).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsp.lazy import lazy_package

if TYPE_CHECKING:
    from recordings.review.agreement import agreement as agreement
    from recordings.review.log import Review as Review
    from recordings.review.log import append as append
    from recordings.review.log import decisions as decisions
    from recordings.review.log import verdict as verdict

_HOME = {
    "recordings.review.agreement": ("agreement",),
    "recordings.review.log": ("Review", "append", "decisions", "verdict"),
}
__all__ = lazy_package(__name__, _HOME)
