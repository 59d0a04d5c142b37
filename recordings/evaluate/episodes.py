"""The profiles that answers are scored against."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from dsp.errors import InputError
from recordings.episode import Episode, list_episodes
from recordings.marker import is_episode
from recordings.plan.model import PlanItem
from recordings.plan.store import plan_from_yaml
from recordings.profile import Profile, profile_from_yaml
from recordings.session_journal import JOURNAL, kept_takes
from recordings.storage import utc_now

_OF_ITEM = tuple(f for f in PlanItem.__struct_fields__ if f in Profile.__struct_fields__)


def profile_of_item(item: PlanItem, session: str) -> Profile:
    """What the profile of an item will say once it is recorded; id and plan_item are those of the item."""
    fields = {key: getattr(item, key) for key in _OF_ITEM}
    return Profile(**fields, plan_item=item.id, session=session, created_utc=utc_now(), origin="virtual")


def read_profiles(path: Path) -> list[Profile]:
    """The profile in a file, or those of the items of a shooting plan (without skipped ones). Raises
    InputError that names the file, the key and the value."""
    try:
        text = path.read_text(encoding="utf-8")
        if not re.search(r"^hearth_plan:", text, re.MULTILINE):
            return [profile_from_yaml(text, str(path))]
        plan = plan_from_yaml(text, str(path))
        return [profile_of_item(item, plan.name) for item in plan.items if not item.skip]
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not UTF-8: {error}") from None


def profiles_of(paths: Iterable[Path]) -> list[Profile]:
    """Profiles of episode folders, of all episodes below a session or data folder, of profile files and
    plans, and of all such files (`*.yaml`) of a folder without episodes. Of a guided session only the takes
    that were kept count. Raises InputError for what is none of these."""
    found: list[Profile] = []
    for path in paths:
        if path.is_file():
            found += read_profiles(path)
        elif not path.is_dir():
            raise InputError(f"{path}: no such file or folder; give episodes, their folder, or profile files")
        elif is_episode(path):
            found.append(Episode.open(path).profile)
        else:
            episodes = sorted(episode.path for episode in list_episodes(path))
            # Opened anew: a list names an unreadable episode, here it is an error.
            below = [Episode.open(episode).profile for episode in _kept(episodes)]
            if not episodes:
                below = [p for file in sorted(path.glob("*.yaml")) for p in read_profiles(file)]
            if not below:
                what = "kept take" if episodes else "episode and no profile file"
                raise InputError(f"{path}: holds no {what}")
            found += below
    return found


def _kept(episodes: list[Path]) -> list[Path]:
    """Without the takes of guided sessions that were not kept."""
    sessions = {episode.parent for episode in episodes}
    guided = {
        session: set(kept_takes(session).values()) for session in sessions if (session / JOURNAL).is_file()
    }
    return [e for e in episodes if e.parent not in guided or e in guided[e.parent]]
