"""The files that `hearth doa` writes: tables, DCASE metadata, a picture."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dsp.errors import InputError
from recordings.audio_file import AudioFile
from recordings.directions import (
    COLUMNS,
    TRACK_COLUMNS,
    Directions,
    dcase_csv,
    directions_of,
    summary,
    table_csv,
)
from recordings.directions_plot import directions_plot, plot_format
from recordings.episode import RELEASE_RATE_HZ
from recordings.manifest import refuse_inside_sealed
from recordings.report_sound import MelSpectrogram
from recordings.storage import write_atomic

if TYPE_CHECKING:
    from dsp.foa_correction import FoaCorrection

STDOUT = Path("-")


@dataclass(frozen=True)
class DirectionFiles:
    """Where each goes; None: not wanted; "-" (a table only): to standard output."""

    csv: Path | None = None
    tracks: Path | None = None
    dcase: Path | None = None
    plot: Path | None = None
    sound_class: int = 0  # for dcase

    @property
    def wanted(self) -> dict[str, Path]:
        """Path by the option's name."""
        every = {"csv": self.csv, "tracks": self.tracks, "dcase": self.dcase, "plot": self.plot}
        return {name: path for name, path in every.items() if path is not None}

    def check(self, as_json: bool, recording: Path) -> None:
        """Raise InputError before any work: two for stdout or for one file, the recording itself, a plot of
        another kind, a sealed episode."""
        to_stdout = [f"--{name} -" for name, path in self.wanted.items() if path == STDOUT]
        to_stdout += ["--json"] if as_json else []
        if len(to_stdout) > 1:
            raise InputError(f"{' and '.join(to_stdout)} both want stdout; name a file")
        if self.plot is not None:
            plot_format(self.plot)
        taken: dict[Path, str] = {}
        for name, path in self.wanted.items():
            if path == STDOUT:
                continue
            refuse_inside_sealed(path)
            if path.exists() and recording.exists() and path.samefile(recording):
                raise InputError(f"--{name} {path} is the recording itself; name another file")
            where = path.resolve()
            if where in taken:
                raise InputError(f"--{taken[where]} and --{name} both name {path}; name two files")
            taken[where] = name

    def make(
        self,
        source: AudioFile,
        format_name: str,
        name: str,
        sounds: str,
        advance: Callable[[float], None],
        correction: FoaCorrection | None = None,
    ) -> tuple[Directions, dict[str, Any], str | None]:
        """Find the directions and write the files: (directions, their summary, text for stdout or None)."""
        frames = -(-source.frames * RELEASE_RATE_HZ // source.rate)
        spectrum = MelSpectrogram(frames, RELEASE_RATE_HZ) if self.plot is not None else None
        hear = (lambda block: None) if spectrum is None else (lambda block: spectrum.push(block[:, 0]))
        found = directions_of(source, format_name, advance, hear, sounds, correction)
        about = summary(found.rows)
        printed = None
        for option, path in self.wanted.items():
            if option == "csv":
                data = table_csv(found.rows, COLUMNS).encode()
            elif option == "tracks":
                data = table_csv(found.tracks, TRACK_COLUMNS).encode()
            elif option == "dcase":
                data = dcase_csv(found, self.sound_class).encode()
            else:
                assert spectrum is not None
                kind = plot_format(path)
                data = directions_plot(kind, found, spectrum, source.duration_s, name, about)
            if path == STDOUT:
                printed = data.decode()
            else:
                write_atomic(path, data)
        return found, about, printed
