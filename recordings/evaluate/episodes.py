"""The profiles that answers are scored against."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from dsp.errors import InputError
from recordings.episode import Episode, list_episodes
from recordings.marker import is_episode
from recordings.profile import Profile, profile_from_yaml


def read_profile(path: Path) -> Profile:
    """The profile in a file. Raises InputError that names the file, the key and the value."""
    try:
        return profile_from_yaml(path.read_text(encoding="utf-8"), str(path))
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not UTF-8: {error}") from None


def profiles_of(paths: Iterable[Path]) -> list[Profile]:
    """Profiles of episode folders, of all episodes below a session or data folder, of profile files, and
    of all profile files (`*.yaml`) of a folder without episodes. Raises InputError for what is none of
    these."""
    found: list[Profile] = []
    for path in paths:
        if path.is_file():
            found.append(read_profile(path))
        elif not path.is_dir():
            raise InputError(f"{path}: no such file or folder; give episodes, their folder, or profile files")
        elif is_episode(path):
            found.append(Episode.open(path).profile)
        else:
            # Opened anew: a list names an unreadable episode, here it is an error.
            below = [Episode.open(episode.path).profile for episode in list_episodes(path)]
            below = below or [read_profile(file) for file in sorted(path.glob("*.yaml"))]
            if not below:
                raise InputError(f"{path}: holds no episode and no profile file")
            found += below
    return found
