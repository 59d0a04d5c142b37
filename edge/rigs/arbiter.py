"""One utterance heard by several rigs is given to one of them; what was decided, and why, is told.

A rig's utterance is compared with what the other rigs heard at the same time, in the time of this host. A rig
that heard the same speech is a rival; evidence decides (`edge.rigs.evidence`). When a rival wins, its own
utterance is waited for and taken instead; if it falls silent meanwhile, or noticed no speech, the loser's is
used after all. What comes later and is the same as what was given already is dropped. Nothing is merged only
because it overlaps.

What this adds: the comparison, at most `WAIT_S` for sound of a rig that is late, and `GRACE_S` when the rig
that heard best noticed no speech. A rig that is slower is not waited for; the same speech from it later is
dropped.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from capture.blocks import monotonic_ns
from edge.perception.utterance import RATE_HZ, Utterance
from edge.rigs.evidence import Evidence, gather, noise_power, odds
from edge.rigs.same_speech import LEAST_S, Comparison, compare, margin_s

log = logging.getLogger(__name__)

WAIT_S = 0.25  # for the sound of a rig that is late
GRACE_S = 0.4  # for the utterance of a winner that hears nobody (any more): it may be on its way
OLD_S = 12.0  # older utterances are not answered: nobody waits for that any more
REMEMBERED_S = 60.0
INSIDE = 0.6  # of an utterance within one that was decided: a piece of the same
BEFORE_S = 1.0  # of sound before the speech, for the noise
LONGEST_CLOCK_S = 0.25  # clocks that are known no better than that make no comparison


class Ear(Protocol):
    """What the arbiter asks of a rig; `edge.rigs.link.RigLink` is one."""

    @property
    def id(self) -> str: ...
    @property
    def alive(self) -> bool: ...
    @property
    def clock_s(self) -> float: ...
    @property
    def speaking_since_ns(self) -> int | None: ...
    def covers_ns(self) -> int: ...
    def sound(self, start_ns: int, frames: int) -> NDArray[np.float32] | None: ...


class HeardBy(Protocol):
    """An utterance of a rig; `edge.rigs.link.Heard` is one."""

    @property
    def rig(self) -> Any: ...
    @property
    def utterance(self) -> Utterance: ...
    @property
    def start_ns(self) -> int: ...
    @property
    def end_ns(self) -> int: ...
    @property
    def known_ns(self) -> int: ...


@dataclass(eq=False)
class Case:
    """One piece of speech that was decided. same: every rig that heard it. given: one has been answered."""

    number: int
    start_ns: int
    end_ns: int
    winner: Ear
    same: list[Ear]
    first: HeardBy
    given: bool = False
    quiet_since_ns: int | None = None  # the winner, not given yet, hears nobody since
    decided_ns: int = field(default_factory=monotonic_ns)


@dataclass(frozen=True, slots=True)
class _Rival:
    ear: Ear
    comparison: Comparison
    evidence: Evidence | None
    odds: dict[str, float]  # of the utterance's own rig against this one


class Arbiter:
    """ears: of all rigs, looked at anew for each utterance. give: is called with the one utterance to answer.
    tell: is called with every decision (plain data) and the rigs that it is about.

    `hear` may be called from any thread; everything else happens in the arbiter's own.
    """

    def __init__(
        self,
        ears: Callable[[], Sequence[Ear]],
        give: Callable[[Any], None],
        tell: Callable[[dict[str, Any], list[Any]], None],
    ) -> None:
        self._ears, self._give, self._tell = ears, give, tell
        self._inbox: queue.Queue[HeardBy | None] = queue.Queue()
        self._cases: list[Case] = []
        self._number = 0
        self._thread = threading.Thread(target=self._run, name="arbiter", daemon=True)
        self._thread.start()

    def hear(self, heard: HeardBy) -> None:
        """A rig has cut an utterance."""
        self._inbox.put(heard)

    def close(self) -> None:
        """Decide what is still there, then stop."""
        self._inbox.put(None)
        self._thread.join()

    def _run(self) -> None:
        while True:
            waiting = any(not case.given for case in self._cases)
            try:
                heard = self._inbox.get(timeout=0.02 if waiting else 1.0)
            except queue.Empty:
                self._look()
                continue
            if heard is None:
                for case in self._cases:
                    self._fall_back(case, "the agent ends")
                return
            try:
                self._decide(heard)
            except Exception:
                log.exception(
                    "an utterance of %s could not be arbitrated; it is answered as it is", heard.rig.id
                )
                self._give(heard)
            self._look()

    # --- one utterance ---

    def _decide(self, heard: HeardBy) -> None:
        began_ns = monotonic_ns()
        if began_ns - heard.end_ns > OLD_S * 1e9:
            self._say(heard, "too_late", None, [], f"it ended more than {OLD_S:g} s ago", began_ns)
            return
        for case in self._cases:
            awaited = heard.rig is case.winner and not case.given and _overlap_ns(heard, case) > 0
            if awaited or (heard.rig in case.same and _part_inside(heard, case) >= INSIDE):
                self._known(case, heard, "it is the speech that was decided already", [], began_ns)
                return
        others = [ear for ear in self._ears() if ear is not heard.rig and ear.alive]
        late = self._wait_for(others, heard)
        own, rivals = self._compare(heard, [ear for ear in others if ear not in late])
        same = [rival for rival in rivals if rival.comparison.same]
        for rival in same:
            for case in self._cases:
                if case.winner is rival.ear and _overlap_ns(heard, case) > 0:
                    case.same.append(heard.rig)
                    self._known(case, heard, "the winner heard the same", rivals, began_ns, own)
                    return
        best = min(same, key=lambda rival: rival.odds["sum"], default=None)
        self._number += 1
        winner: Ear = heard.rig if best is None or best.odds["sum"] >= 0 else best.ear
        case = Case(
            self._number, heard.start_ns, heard.end_ns, winner, [heard.rig, *(r.ear for r in same)], heard
        )
        self._remember(case)
        why = _why(heard.rig, best)
        if late:
            why += f"; not waited for: {', '.join(ear.id for ear in late)}"
        case.given = winner is heard.rig
        self._say(heard, "given" if case.given else "silent", case, rivals, why, began_ns, own)
        if case.given:
            self._give(heard)

    def _known(
        self,
        case: Case,
        heard: HeardBy,
        why: str,
        rivals: list[_Rival],
        began_ns: int,
        own: Evidence | None = None,
    ) -> None:
        """The utterance belongs to a case: it is the winner's, which was waited for, or one too many."""
        case.start_ns, case.end_ns = min(case.start_ns, heard.start_ns), max(case.end_ns, heard.end_ns)
        if heard.rig is case.winner and not case.given:
            for other in self._cases:  # the winner may have won several pieces of its one utterance
                if other.winner is case.winner and _overlap_ns(heard, other) > 0:
                    other.given = True
            self._say(heard, "given", case, rivals, "the utterance of the winner", began_ns, own)
            self._give(heard)
        else:
            self._say(heard, "silent", case, rivals, why, began_ns, own)

    def _wait_for(self, others: list[Ear], heard: HeardBy) -> list[Ear]:
        """Wait until the others' sound is there; returns those whose is not in time."""
        deadline = time.monotonic() + WAIT_S
        while True:
            late = [
                ear
                for ear in others
                if ear.alive and ear.covers_ns() < heard.end_ns + round(margin_s(ear.clock_s) * 1e9)
            ]
            if not late or time.monotonic() >= deadline:
                return late
            time.sleep(0.005)

    def _compare(self, heard: HeardBy, others: list[Ear]) -> tuple[Evidence | None, list[_Rival]]:
        utterance = heard.utterance
        first, last = _voiced(utterance)
        speech = utterance.foa[first:last]
        if len(speech) < LEAST_S * RATE_HZ:
            return None, []
        noise = noise_power(utterance.before)
        own = gather(speech, noise)
        start_ns = heard.start_ns + round(first * 1e9 / RATE_HZ)
        rivals = []
        for ear in others:
            clock_s = ear.clock_s + heard.rig.clock_s
            if clock_s > LONGEST_CLOCK_S:
                continue
            margin = round(margin_s(clock_s) * RATE_HZ)
            for before in (round(BEFORE_S * RATE_HZ), round(0.1 * RATE_HZ), 0):  # a rig that has just begun
                from_ns = start_ns - round((margin + before) * 1e9 / RATE_HZ)
                theirs = ear.sound(from_ns, before + len(speech) + 2 * margin)
                if theirs is not None:
                    break
            else:
                continue
            their_noise = noise_power(theirs[:before])
            comparison = compare(speech, theirs[before:], (noise, their_noise), clock_s)
            evidence, against = None, {"sum": 0.0}
            if comparison.same:
                at = before + margin + round(comparison.later_s * RATE_HZ)
                evidence = gather(theirs[at : at + len(speech)], their_noise)
                against = odds(own, evidence, comparison)
            rivals.append(_Rival(ear, comparison, evidence, against))
        return own, rivals

    # --- cases that wait for their winner ---

    def _look(self) -> None:
        """A winner that fell silent, or turns out to have no utterance, loses after all."""
        now_ns = monotonic_ns()
        for case in self._cases:
            if case.given:
                continue
            if not case.winner.alive:
                self._fall_back(case, "the winner fell silent")
            elif case.winner.speaking_since_ns is not None:
                case.quiet_since_ns = None
            elif case.quiet_since_ns is None:
                case.quiet_since_ns = now_ns
            elif now_ns - case.quiet_since_ns > GRACE_S * 1e9:
                self._fall_back(case, "the winner heard no utterance in the end")

    def _fall_back(self, case: Case, why: str) -> None:
        if case.given:
            return
        case.given = True
        lost, case.winner = case.winner, case.first.rig
        self._say(case.first, "given", case, [], f"{why} ({lost.id})", monotonic_ns())
        self._give(case.first)

    def _remember(self, case: Case) -> None:
        old_ns = monotonic_ns() - round(REMEMBERED_S * 1e9)
        self._cases = [kept for kept in self._cases if kept.decided_ns > old_ns or not kept.given]
        self._cases.append(case)

    def _say(
        self,
        heard: HeardBy,
        verdict: str,
        case: Case | None,
        rivals: list[_Rival],
        why: str,
        began_ns: int,
        own: Evidence | None = None,
    ) -> None:
        now_ns = monotonic_ns()
        data = {
            "case": None if case is None else case.number,
            "rig": heard.rig.id,
            "verdict": verdict,
            "winner": None if case is None else case.winner.id,
            "why": why,
            "speech_ns": heard.start_ns,
            "speech_s": round(heard.utterance.duration_s, 3),
            "clock_uncertainty_ms": round(heard.rig.clock_s * 1e3, 3),
            "evidence": None if own is None else own.to_dict(),
            "others": [
                {
                    "rig": rival.ear.id,
                    "clock_uncertainty_ms": round(rival.ear.clock_s * 1e3, 3),
                    **rival.comparison.to_dict(),
                    "evidence": None if rival.evidence is None else rival.evidence.to_dict(),
                    "odds": rival.odds,
                }
                for rival in rivals
            ],
            "waited_ms": round((began_ns - heard.known_ns) / 1e6, 3),
            "added_ms": round((now_ns - heard.known_ns) / 1e6, 3),
        }
        about = [heard.rig, *(rival.ear for rival in rivals if rival.comparison.same)]
        if case is not None:
            about += [case.winner, *case.same]
        self._tell(data, list(dict.fromkeys(about)))


def _voiced(utterance: Utterance) -> tuple[int, int]:
    """First and last frame of the speech inside its margins."""
    found = np.flatnonzero(utterance.voiced)
    return (int(found[0]), int(found[-1]) + 1) if len(found) else (0, 0)


def _overlap_ns(heard: HeardBy, case: Case) -> int:
    return min(heard.end_ns, case.end_ns) - max(heard.start_ns, case.start_ns)


def _part_inside(heard: HeardBy, case: Case) -> float:
    return _overlap_ns(heard, case) / max(heard.end_ns - heard.start_ns, 1)


def _why(rig: Ear, best: _Rival | None) -> str:
    if best is None:
        return "no other rig heard the same"
    total = best.odds["sum"]
    parts = ", ".join(f"{name} {value:+.1f}" for name, value in best.odds.items() if name != "sum")
    better, worse = (rig, best.ear) if total >= 0 else (best.ear, rig)
    return f"{better.id} over {worse.id} by {abs(total):.1f} in log odds (for {rig.id}: {parts})"
