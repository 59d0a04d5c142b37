"""reviews.jsonl: what reviewers decided about the episodes of a session, one JSON object per line.

The file lies in the session's folder, beside the episodes, which never change. Lines are only ever added,
each forced to the medium before anybody is told that it counts; several processes may add at once. A line
holds the SHA-256 of the episode's manifest: a review of an episode that is another one by now does not count.
"""

from __future__ import annotations

import fcntl
import os
import unicodedata
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from dsp.errors import InputError
from recordings.marker import MANIFEST, episodes_below, is_episode
from recordings.storage import fsync_folder, sha256_file, storage_errors, utc_now, write_all

LOG = "reviews.jsonl"
NEEDED = 2  # reviewers per episode
LONGEST_NAME, LONGEST_COMMENT = 80, 2000
DecisionWord = Literal["accept", "reject"]
VerdictWord = Literal["accepted", "rejected", "open", "disputed"]
Reason = Literal[
    "sound", "speech", "picture", "sync", "direction", "request", "staging", "goal", "privacy", "other"
]
REASONS: dict[Reason, str] = {
    "sound": "The sound is faulty: clipped, noisy, broken off",
    "speech": "The request cannot be understood, or is cut off",
    "picture": "The pictures are faulty: dark, blurred, standing still",
    "sync": "Sound and pictures are apart",
    "direction": "The direction does not fit what is seen",
    "request": "Not the planned words, or not the planned speaker",
    "staging": "Wrong place, facing, gesture or sounding device",
    "goal": "Target, goal or home state is wrong",
    "privacy": "Somebody or something that must not be in it",
    "other": "Something else: see the comment",
}


class Review(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """One line. episode: the name of its folder, which is its id. settles: decides a dispute, by somebody who
    knows the reviews before it; it is no independent review."""

    hearth_review: Literal[1] = 1
    episode: Annotated[str, Meta(min_length=1)]
    manifest_sha256: Annotated[str, Meta(pattern=r"^[0-9a-f]{64}\Z")]
    reviewer: Annotated[str, Meta(min_length=1, max_length=LONGEST_NAME)]
    decision: DecisionWord
    reasons: tuple[Reason, ...] = ()
    comment: Annotated[str, Meta(max_length=LONGEST_COMMENT)] = ""
    utc: str
    settles: bool = False

    @property
    def who(self) -> str:
        """The reviewer as far as it tells two apart: "Ann" and "ann" are one."""
        return self.reviewer.casefold()


@dataclass(frozen=True)
class ReviewFile:
    """The reviews that can be read, in order. torn_bytes: at the end, of a line that a kill cut off."""

    reviews: tuple[Review, ...] = ()
    torn_bytes: int = 0
    problems: tuple[str, ...] = ()


@dataclass(frozen=True)
class Decisions:
    """All that was decided about one episode.

    reviews: those of the episode as it is now, in order. changed: those of an episode of this name whose
    manifest was another one; they do not count. manifest_sha256: None before the episode is finished.
    """

    path: Path
    manifest_sha256: str | None
    reviews: tuple[Review, ...]
    changed: tuple[Review, ...]

    @property
    def latest(self) -> dict[str, Review]:
        """The last word of every reviewer, by `Review.who`; settling ones are apart."""
        return {review.who: review for review in self.reviews if not review.settles}

    @property
    def blind(self) -> dict[str, Review]:
        """The last word of every reviewer before the page told that reviewer what others had decided, which
        it does once the reviewer has decided: what agreement is computed from."""
        found: dict[str, Review] = {}
        for at, review in enumerate(self.reviews):
            others = any(before.who != review.who for before in self.reviews[:at])
            if not review.settles and not (review.who in found and others):
                found[review.who] = review
        return found

    def verdict(self, needed: int = NEEDED) -> VerdictWord:
        """disputed: reviewers differ and nobody has settled it. open: fewer than `needed` have decided."""
        if needed < 1:
            raise InputError(f"the number of reviewers is 1 or more, not {needed}")
        words = {review.decision for review in self.latest.values()}
        if len(words) > 1:
            settled = [review.decision for review in self.reviews if review.settles]
            if not settled:
                return "disputed"
            words = {settled[-1]}
        elif len(self.latest) < needed:
            return "open"
        return "accepted" if words == {"accept"} else "rejected"

    @property
    def rejected_by(self) -> tuple[str, ...]:
        """Whose last word is no, sorted; nobody once a dispute was settled as accepted."""
        settled = [review for review in self.reviews if review.settles]
        if settled and settled[-1].decision == "accept" and self.verdict() == "accepted":
            return ()
        last = (*self.latest.values(), *settled[-1:])
        return tuple(sorted({review.reviewer for review in last if review.decision == "reject"}))

    @property
    def note(self) -> str:
        """What has to be said of it: reviews that do not count, else ""."""
        if not self.changed:
            return ""
        names = ", ".join(sorted({review.reviewer for review in self.changed}))
        return f"changed since it was reviewed by {names}: that does not count, review it again"


def clean_name(reviewer: str) -> str:
    """A reviewer's name as it is written down: trimmed, NFC, single spaces. Raises InputError."""
    name = " ".join(unicodedata.normalize("NFC", reviewer).split())
    if not name or len(name) > LONGEST_NAME or not name.isprintable():
        raise InputError(f"a reviewer's name has 1 to {LONGEST_NAME} printable characters, not {reviewer!r}")
    return name


def manifest_sha256(episode: Path) -> str:
    """SHA-256 of the episode's manifest.json, which holds those of all its files. Raises InputError for an
    episode that is not finished: what may still change cannot be reviewed."""
    if not is_episode(episode):
        raise InputError(f"{episode}: is no episode; give the folder of one")
    try:
        return sha256_file(episode / MANIFEST)
    except FileNotFoundError:
        raise InputError(
            f"{episode}: is not finished (no {MANIFEST}), so it cannot be reviewed; `hearth repair` it first"
        ) from None


def make_review(
    episode: Path,
    reviewer: str,
    decision: str,
    reasons: Iterable[str] = (),
    comment: str = "",
    *,
    settles: bool = False,
    seen_sha256: str | None = None,
) -> Review:
    """A review of the episode as it is now.

    seen_sha256: the manifest of what the reviewer saw. Raises InputError when it is another one by now, for
    an unknown decision or reason, a rejection without a reason, "other" without a comment.
    """
    episode = episode.resolve()
    sha256 = manifest_sha256(episode)
    if seen_sha256 not in (None, sha256):
        raise InputError(f"{episode.name} was changed while it was reviewed; look at it again")
    chosen = tuple(dict.fromkeys(reasons))
    unknown = [reason for reason in chosen if reason not in REASONS]
    if decision not in ("accept", "reject") or unknown:
        raise InputError(
            f"a review is accept or reject, with reasons among {', '.join(REASONS)}; not {decision!r}"
            + (f" with {', '.join(map(repr, unknown))}" if unknown else "")
        )
    comment = comment.strip()
    if len(comment) > LONGEST_COMMENT:
        raise InputError(f"a comment has at most {LONGEST_COMMENT} characters, not {len(comment)}")
    if any("\ud800" <= letter <= "\udfff" for letter in comment):
        raise InputError(f"a comment is text; {comment!r} holds half a character, which cannot be written")
    if decision == "accept" and chosen:
        raise InputError("an accepted episode has no reasons against it; put remarks into the comment")
    if decision == "reject" and not chosen:
        raise InputError("a rejection needs a reason")
    if "other" in chosen and not comment:
        raise InputError('the reason "other" needs a comment that says what it is')
    return Review(
        episode=episode.name,
        manifest_sha256=sha256,
        reviewer=clean_name(reviewer),
        decision="accept" if decision == "accept" else "reject",
        reasons=tuple(reason for reason in REASONS if reason in chosen),
        comment=comment,
        utc=utc_now(),
        settles=settles,
    )


def append(session: Path, review: Review) -> None:
    """Add a line and force it to the medium. A line that a kill had cut off before is closed first.

    Raises StorageError; then nothing of the line is left.
    """
    path, line = session / LOG, msgspec.json.encode(review) + b"\n"
    with storage_errors(path):
        while not _appended(path, line):
            pass  # another file took the name meanwhile: a withdrawal writes the log anew


def _appended(path: Path, line: bytes) -> bool:
    """Add the line while no other process adds; whether it is in the file that has the name now."""
    new = not path.exists()
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        if not _is_at(fd, path):
            return False
        place = os.fstat(fd).st_size
        torn = place > 0 and os.pread(fd, 1, place - 1) != b"\n"
        try:
            write_all(fd, (b"\n" if torn else b"") + line)
            os.fsync(fd)
        except OSError:
            with suppress(OSError):
                os.ftruncate(fd, place)
            raise
        if new:
            fsync_folder(path.parent)
        return _is_at(fd, path)
    finally:
        os.close(fd)  # which ends the lock


def _is_at(fd: int, path: Path) -> bool:
    found = os.fstat(fd)
    try:
        there = os.stat(path)
    except FileNotFoundError:
        return False
    return (there.st_dev, there.st_ino) == (found.st_dev, found.st_ino)


def read_reviews(session: Path) -> ReviewFile:
    """The reviews of a session; none when nobody has reviewed yet. Raises StorageError."""
    path = session / LOG
    with storage_errors(path, "read"):
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            return ReviewFile()
    rows = data.split(b"\n")
    reviews, problems, torn = [], [], 0
    for number, row in enumerate(rows, 1):
        if not row.strip():
            continue
        try:
            reviews.append(_decoder.decode(row))
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            if number == len(rows):
                torn = len(row)
            else:
                problems.append(f"{path}: line {number} is no review ({error}) and does not count")
    return ReviewFile(tuple(reviews), torn, tuple(problems))


_decoder = msgspec.json.Decoder(Review)


def decisions_of(episode: Path, reviews: Sequence[Review], sha256: str | None) -> Decisions:
    """What a session's reviews say of one of its episodes, whose manifest has this SHA-256 now."""
    own = [review for review in reviews if review.episode == episode.name]
    return Decisions(
        episode,
        sha256,
        tuple(review for review in own if review.manifest_sha256 == sha256),
        tuple(review for review in own if review.manifest_sha256 != sha256),
    )


def decisions(path: str | Path) -> list[Decisions]:
    """What was decided about one episode, or about every episode below a session or data folder, by path.

    Raises InputError when there is no such folder, StorageError when a log cannot be read.
    """
    read: dict[Path, ReviewFile] = {}
    found = []
    for episode in episodes_below(Path(path)):
        session = episode.resolve().parent
        if session not in read:
            read[session] = read_reviews(session)
        try:
            sha256: str | None = manifest_sha256(episode)
        except InputError:
            sha256 = None
        found.append(decisions_of(episode, read[session].reviews, sha256))
    return found


def verdict(episode: str | Path, needed: int = NEEDED) -> VerdictWord:
    """Whether an episode is accepted, rejected, open (too few reviews of what it is now) or disputed.

    Raises InputError when the folder is no episode.
    """
    path = Path(episode)
    if not is_episode(path):
        raise InputError(f"{path}: is no episode; give the folder of one")
    return decisions(path)[0].verdict(needed)
