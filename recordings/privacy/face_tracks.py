"""From detections in single pictures to what is covered in each: gaps between detections are filled in.

A face that is found is covered with a margin, and so it is between two detections of the same track, and for
`REACH_S` before the first and after the last one. While fewer faces are known than persons are in the room,
the last known place of each that is missing stays covered, as wide as an upper body: a head that is turned
away, or blurred by its own motion, comes back where nobody can say.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from recordings.privacy.faces import Boxes

F64 = NDArray[np.float64]
REACH_S = 1.0
MARGIN = (1.5, 1.7)  # of a box's width and height: hair, ears, chin
BODY = (3.0, 4.5)  # of a face's width and height, from above the head down
SURE, SURE_PICTURES = 0.4, 3
_JOIN_S = 3.0  # detections of one track may lie this far apart


@dataclass
class Track:
    """One face through the pictures: numbers of pictures and boxes (x, y, width, height)."""

    pictures: list[int] = field(default_factory=list)
    boxes: list[F64] = field(default_factory=list)
    scores: list[float] = field(default_factory=list)

    def at(self, picture: int) -> F64:
        """The box in a picture, between two detections by linear interpolation, beyond them the last one."""
        every = np.array(self.boxes)
        return np.array([np.interp(picture, self.pictures, every[:, i]) for i in range(4)])


def follow(found: Sequence[Boxes], times_s: Sequence[float]) -> list[Track]:
    """Tracks of detections, picture by picture: each box goes to the nearest track within one and a half face
    widths, twice as far after a gap."""
    tracks: list[Track] = []
    for picture, boxes in enumerate(found):
        taken: set[int] = set()
        for x, y, w, h, score in sorted(np.asarray(boxes, np.float64).tolist(), key=lambda b: -b[2]):
            best, nearest = None, np.inf
            for number, track in enumerate(tracks):
                gap_s = times_s[picture] - times_s[track.pictures[-1]]
                if number in taken or gap_s > _JOIN_S:
                    continue
                bx, by, bw, bh = track.boxes[-1]
                away = np.hypot(x + w / 2 - bx - bw / 2, y + h / 2 - by - bh / 2) / max(w, bw)
                if away < (1.5 if gap_s < 0.3 else 3.0) and away < nearest and 0.4 < w / bw < 2.5:
                    best, nearest = number, away
            if best is None:
                tracks.append(Track())
                best = len(tracks) - 1
            taken.add(best)
            tracks[best].pictures.append(picture)
            tracks[best].boxes.append(np.array([x, y, w, h]))
            tracks[best].scores.append(score)
    return tracks


def persons(tracks: Sequence[Track]) -> list[Track]:
    """Tracks that are somebody's: at least `SURE_PICTURES` detections, in half of the pictures between the
    first and the last of them, with a score of `SURE` in the middle. What is less sure is covered all the
    same, and stands for nobody."""
    return [
        track
        for track in tracks
        if len(track.pictures) >= SURE_PICTURES
        and 2 * len(track.pictures) > track.pictures[-1] - track.pictures[0]
        and np.median(track.scores) >= SURE
    ]


def seen_together(tracks: Sequence[Track], pictures: int) -> int:
    """How many tracks, at most, are there at the same time (between their first and last detection)."""
    count = np.zeros(pictures + 1, int)
    for track in tracks:
        count[track.pictures[0]] += 1
        count[track.pictures[-1] + 1] -= 1
    return int(np.cumsum(count).max(initial=0))


def covered(tracks: Sequence[Track], times_s: Sequence[float], expected: int) -> list[list[F64]]:
    """For each picture the boxes to cover, margins included. expected: how many persons are in the room."""
    steady = persons(tracks)
    out: list[list[F64]] = []
    for picture, t in enumerate(times_s):
        boxes = []
        missing = []
        known = 0
        for track in tracks:
            first, last = times_s[track.pictures[0]], times_s[track.pictures[-1]]
            place = bisect_left(track.pictures, picture)
            if track.pictures[0] <= picture <= track.pictures[-1]:
                boxes.append(_grown(track.at(picture), MARGIN))
                known += any(track is one for one in steady)
                here = track.pictures[place] == picture
                gap_s = 0.0 if here else times_s[track.pictures[place]] - times_s[track.pictures[place - 1]]
                if gap_s > 0.5:  # it may have been anywhere near in between
                    boxes.append(_body(track.at(picture)))
            elif first - REACH_S <= t <= last + REACH_S:
                boxes.append(_grown(track.at(picture), (MARGIN[0] * 1.5, MARGIN[1] * 1.5)))
                missing.append(track)
            elif any(track is one for one in steady):
                missing.append(track)
        if known < expected:
            boxes += [_body(track.at(picture)) for track in missing]
        out.append(boxes)
    return out


def _grown(box: F64, by: tuple[float, float]) -> F64:
    x, y, w, h = box
    return np.array([x - w * (by[0] - 1) / 2, y - h * (by[1] - 1) / 2, w * by[0], h * by[1]])


def _body(box: F64) -> F64:
    x, y, w, h = box
    return np.array([x - w * (BODY[0] - 1) / 2, y - h * 0.5, w * BODY[0], h * BODY[1]])
