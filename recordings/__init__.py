"""What was recorded: the episode on disk; writing, reading, verifying, repairing and importing it.

The names below are the public face; they are loaded at first use so that `hearth --help` stays fast.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from recordings.audio_file import AudioFile as AudioFile
    from recordings.audio_file import open_audio as open_audio
    from recordings.clock_fit import ClockFit as ClockFit
    from recordings.clock_fit import fit_clock as fit_clock
    from recordings.episode import DoaTrack as DoaTrack
    from recordings.episode import Episode as Episode
    from recordings.episode import interrupted as interrupted
    from recordings.episode import list_episodes as list_episodes
    from recordings.importer import import_take as import_take
    from recordings.profile import Profile as Profile
    from recordings.repair_episode import RepairReport as RepairReport
    from recordings.repair_episode import repair as repair
    from recordings.storage import StorageError as StorageError
    from recordings.verify_episode import VerifyReport as VerifyReport
    from recordings.verify_episode import verify as verify
    from recordings.wav_read import WavFile as WavFile
    from recordings.wav_read import read_wav as read_wav
    from recordings.writer import EpisodeWriter as EpisodeWriter
    from recordings.writer import new_episode_id as new_episode_id

_MODULE_OF = {
    "AudioFile": "audio_file",
    "open_audio": "audio_file",
    "ClockFit": "clock_fit",
    "fit_clock": "clock_fit",
    "DoaTrack": "episode",
    "Episode": "episode",
    "interrupted": "episode",
    "list_episodes": "episode",
    "import_take": "importer",
    "Profile": "profile",
    "RepairReport": "repair_episode",
    "repair": "repair_episode",
    "StorageError": "storage",
    "VerifyReport": "verify_episode",
    "verify": "verify_episode",
    "WavFile": "wav_read",
    "read_wav": "wav_read",
    "EpisodeWriter": "writer",
    "new_episode_id": "writer",
}
__all__ = sorted(_MODULE_OF)


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'recordings' has no attribute {name!r}")
    value = getattr(import_module(f"recordings.{_MODULE_OF[name]}"), name)
    globals()[name] = value
    return value
