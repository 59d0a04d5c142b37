"""The profiles that answers are scored against."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from dsp.errors import InputError
from recordings.episode import Episode, list_episodes
from recordings.marker import is_episode
from recordings.profile import Profile, profile_from_yaml
from recordings.session_journal import JOURNAL, kept_takes


def read_profile(path: Path) -> Profile:
    """The profile in a file. Raises InputError that names the file, the key and the value."""
    try:
        return profile_from_yaml(path.read_text(encoding="utf-8"), str(path))
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not UTF-8: {error}") from None


def profiles_of(paths: Iterable[Path]) -> list[Profile]:
    """Profiles of episode folders, of all episodes below a session or data folder, of profile files, and of
    all profile files (`*.yaml`) of a folder without episodes. Of a guided session only the takes that were
    kept count. Raises InputError for what is none of these."""
    found: list[Profile] = []
    for path in paths:
        if path.is_file():
            found.append(read_profile(path))
        elif not path.is_dir():
            raise InputError(f"{path}: no such file or folder; give episodes, their folder, or profile files")
        elif is_episode(path):
            found.append(Episode.open(path).profile)
        else:
            episodes = sorted(episode.path for episode in list_episodes(path))
            # Opened anew: a list names an unreadable episode, here it is an error.
            below = [Episode.open(episode).profile for episode in _kept(episodes)]
            if not episodes:
                below = [read_profile(file) for file in sorted(path.glob("*.yaml"))]
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
