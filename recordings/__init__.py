"""What was recorded: the episode on disk; writing, reading, verifying, repairing and importing it.

The names below are the public face; they are loaded at first use so that `hearth --help` stays fast.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsp.lazy import lazy_package

if TYPE_CHECKING:
    from recordings.audio_file import AudioFile as AudioFile
    from recordings.audio_file import open_audio as open_audio
    from recordings.clock_fit import ClockFit as ClockFit
    from recordings.clock_fit import fit_clock as fit_clock
    from recordings.episode import DoaTrack as DoaTrack
    from recordings.episode import Episode as Episode
    from recordings.episode import TrackPath as TrackPath
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

_HOME = {
    "recordings.audio_file": ("AudioFile", "open_audio"),
    "recordings.clock_fit": ("ClockFit", "fit_clock"),
    "recordings.episode": ("DoaTrack", "Episode", "TrackPath", "interrupted", "list_episodes"),
    "recordings.importer": ("import_take",),
    "recordings.profile": ("Profile",),
    "recordings.repair_episode": ("RepairReport", "repair"),
    "recordings.storage": ("StorageError",),
    "recordings.verify_episode": ("VerifyReport", "verify"),
    "recordings.wav_read": ("WavFile", "read_wav"),
    "recordings.writer": ("EpisodeWriter", "new_episode_id"),
}
__all__ = lazy_package(__name__, _HOME)
