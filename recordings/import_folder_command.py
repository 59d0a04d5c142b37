"""`hearth import FOLDER`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dsp.errors import CheckFailed
from recordings.folder_scan import Scan
from recordings.import_folder import FolderReport, Imported, import_folder
from recordings.terminal import counted, emit, progress

STOPPED = 130  # exit code after Ctrl-C, as a shell gives it


def run(
    folder: Path,
    into: Path,
    format_name: str | None,
    session: str,
    calibration: Path | None,
    camera_clock_s: float,
    profile_fields: dict[str, Any],
    report_page: bool,
    as_json: bool,
) -> None:
    """Import a folder, print what was done; CheckFailed when a file could not be used, 130 after Ctrl-C."""
    import typer

    with progress(f"importing {folder.name}", 1.0) as advance:
        total = 1

        def scanned(scan: Scan) -> None:
            nonlocal total
            total = max(1, len(scan.pairs))

        done = import_folder(
            folder,
            into,
            format_name,
            session=session,
            calibration=calibration,
            camera_clock_s=camera_clock_s,
            profile_fields=profile_fields,
            report=report_page,
            on_scanned=scanned,
            advance=lambda takes: advance(takes / total),
        )
    emit(done.to_dict(), as_json, _text(done))
    if done.interrupted:
        raise typer.Exit(STOPPED)
    if done.failed:
        raise CheckFailed(f"{counted(len(done.failed), 'take')} could not be imported")


def _text(done: FolderReport) -> list[str]:
    lines = [_line(take) for take in done.imported]
    lines += [f"{_line(take)} [imported before]" for take in done.known]
    lines += [f"not imported: {path}: {why}" for path, why in done.left_out]
    lines += [f"FAILED: {', '.join(str(path) for path in paths)}: {why}" for paths, why in done.failed]
    lines.append(
        f"{counted(len(done.imported), 'take')} imported, {len(done.known)} imported before,"
        f" {counted(len(done.left_out), 'file')} not imported, {len(done.failed)} failed"
        + ("; stopped by Ctrl-C: the same command goes on" if done.interrupted else "")
    )
    return lines


def _line(take: Imported) -> str:
    sounds = " + ".join(path.name for path in take.sounds)
    video = f" with {take.video.name} (by {take.by})" if take.video is not None else ""
    return f"{take.episode}: {sounds}{video}" + (f"; {take.note}" if take.note else "")
