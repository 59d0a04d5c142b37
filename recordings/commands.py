"""Commands of this package: import, repair, episodes, verify, check, doa, align, report, trim, convert."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dsp.errors import CheckFailed, HearthError, InputError
from recordings.terminal import counted, emit, progress

if TYPE_CHECKING:
    from dsp.foa_correction import FoaCorrection
    from recordings.audio_file import AudioFile

_LOOK = "Look at recordings"
Json = Annotated[bool, typer.Option("--json", help="one JSON object on stdout")]
Format = Annotated[
    str | None,
    typer.Option("--format", help="channel order when the tags do not say: ambix, fuma, n3d, a or a2"),
]

Capsules = Annotated[
    Path | None,
    typer.Option(help="correct by this result of `hearth calibrate capsules`; default: the episode's own"),
]


def register(app: typer.Typer) -> None:
    """Add this package's commands to `app`."""
    from recordings import consent_command
    from recordings.card_command import card
    from recordings.evaluate_command import evaluate
    from recordings.export_command import export
    from recordings.import_command import import_
    from recordings.process_command import process
    from recordings.profile_command import profile
    from recordings.review_command import review

    consent_command.register(app)
    app.command("import", rich_help_panel="Record")(import_)
    app.command(rich_help_panel="Record")(repair)
    app.command(rich_help_panel=_LOOK)(episodes)
    app.command(rich_help_panel=_LOOK)(verify)
    app.command(rich_help_panel=_LOOK)(check)
    app.command(rich_help_panel=_LOOK)(doa)
    app.command(rich_help_panel=_LOOK)(align)
    app.command(rich_help_panel=_LOOK)(report)
    app.command("export-audio", rich_help_panel=_LOOK)(export_audio)
    app.command(rich_help_panel=_LOOK)(review)
    app.command(rich_help_panel=_LOOK)(evaluate)
    app.add_typer(profile, name="profile", rich_help_panel=_LOOK)
    app.command(rich_help_panel=_LOOK)(trim)
    app.command(rich_help_panel=_LOOK)(convert)
    app.command(rich_help_panel="Release")(export)
    app.command(rich_help_panel="Release")(process)
    app.command(rich_help_panel="Release")(card)


def episodes(
    folder: Annotated[Path, typer.Argument(help="data folder, session or episode")] = Path("data"),
    as_json: Json = False,
) -> None:
    """List episodes; interrupted ones come first."""
    from recordings.episode import list_episodes
    from recordings.review.standing import standings

    stands = standings(folder)
    rows: list[dict[str, Any]] = []
    for episode in list_episodes(folder):
        stand = stands.get(episode.path)
        row: dict[str, Any] = {
            "path": str(episode.path),
            "id": episode.profile.id,
            "session": episode.profile.session,
            "state": episode.state,
            "origin": episode.profile.origin,
            "duration_s": None,
            "request": episode.profile.request,
            "verdict": stand.verdict if stand else None,
            "kept": stand.kept if stand else None,
            "problem": episode.profile.notes if episode.profile.id == "unreadable" else None,
        }
        try:
            row["duration_s"] = round(episode.duration_s, 3)
        except HearthError as error:
            row["problem"] = str(error)
        rows.append(row)
    broken = sum(row["state"] == "interrupted" for row in rows)
    text = [
        f"{row['state']:<12} {'-' if row['duration_s'] is None else format(row['duration_s'], '.1f'):>8} s"
        f"  {row['path']}"
        + (f"  {row['verdict']}" if row["verdict"] else "")
        + ("  not kept" if row["kept"] is False else "")
        + (f"  [{row['problem']}]" if row["problem"] else "")
        for row in rows
    ]
    remedy = "; `hearth repair EPISODE` finishes one" if broken else ""
    text.append(f"{counted(len(rows), 'episode')}, {broken} interrupted{remedy}")
    emit({"episodes": rows, "interrupted": broken}, as_json, text)


def verify(
    paths: Annotated[list[Path], typer.Argument(metavar="EPISODE...", help="episode folders")],
    as_json: Json = False,
) -> None:
    """Check that episodes are exactly what was finished, their profile and goal right. Exit 1 when not."""
    from recordings.profile_checks import check_episode
    from recordings.verify_episode import verify as verify_one

    results: list[dict[str, Any]] = []
    text = []
    with progress("verifying", len(paths)) as advance:
        for path in paths:
            found, of_profile = verify_one(path), check_episode(path)
            problems = (*found.problems, *of_profile.problems)
            goal = of_profile.goal
            rows = [{"code": p.code, "path": p.path, "message": p.message} for p in problems]
            results.append({**found.to_dict(), "ok": not problems, "problems": rows, "goal": goal})
            text.append(f"{path}: " + ("NOT OK" if problems else f"ok, {counted(found.files, 'file')}"))
            text += [f"  {problem}" for problem in problems]
            text += [f"  note: {note}" for note in found.notes]
            if goal is not None:
                text += [f"  note: the goal is not fully checked: {why}" for why in goal["not_checked"]]
            advance(1)
    bad = sum(not result["ok"] for result in results)
    emit({"ok": bad == 0, "results": results}, as_json, text)
    if bad:
        raise CheckFailed(f"{bad} of {counted(len(results), 'episode')} did not verify")


def repair(
    paths: Annotated[list[Path], typer.Argument(metavar="EPISODE...", help="interrupted episodes")],
    report_page: Annotated[bool, typer.Option("--report/--no-report", help="make report.html")] = True,
    as_json: Json = False,
) -> None:
    """Finish interrupted episodes; what changes is kept in before_repair/. Exit 1 when one stays broken."""
    from recordings.repair_episode import repair as repair_one

    results: list[dict[str, Any]] = []
    with progress("repairing", len(paths)) as advance:
        for path in paths:
            try:
                results.append(repair_one(path, report=report_page).to_dict())
            except HearthError as error:
                results.append({"episode": str(path), "ok": False, "actions": [], "problems": [str(error)]})
            advance(1)
    text = []
    for result in results:
        text.append(f"{result['episode']}: {'finished, verified' if result['ok'] else 'NOT REPAIRED'}")
        text += [f"  {action}" for action in result["actions"]]
        text += [f"  problem: {problem}" for problem in result["problems"]]
    bad = sum(not result["ok"] for result in results)
    emit({"ok": bad == 0, "results": results}, as_json, text)
    if bad:
        raise CheckFailed(f"{bad} of {counted(len(results), 'episode')} could not be repaired")


def check(
    paths: Annotated[list[Path], typer.Argument(metavar="PATH...", help="sound files or episode folders")],
    format_name: Format = None,
    capsules: Capsules = None,
    as_json: Json = False,
) -> None:
    """Is the sound healthy first-order ambisonics? Levels, clipping, dead channels. Exit 1 on a fault."""
    from recordings.finish import check_audio

    results: list[dict[str, Any]] = []
    for path in paths:
        source, named, correction = _sound_of(path, format_name, capsules)
        with progress(f"checking {path.name}", source.frames) as advance:
            answer = check_audio(source, named, advance, correction)
        about = {"path": str(path), "rate_hz": source.rate, "channels": source.channels}
        results.append(
            {**about, "duration_s": round(source.duration_s, 6), **answer, "problems": source.problems}
        )
    text = []
    for result in results:
        verdict = "ok" if result["ok"] else "NOT OK"
        text.append(
            f"{result['path']}: {verdict}, {result['format']}, {result['rate_hz']} Hz,"
            f" {result['duration_s']:.1f} s"
        )
        text += [f"  {finding['severity']:<8} {finding['message']}" for finding in result["findings"]]
        text += [f"  note: {problem}" for problem in result["problems"]]
    bad = sum(not result["ok"] for result in results)
    emit({"ok": bad == 0, "results": results}, as_json, text)
    if bad:
        raise CheckFailed(
            f"{bad} of {counted(len(results), 'recording')} {'has' if bad == 1 else 'have'} faults"
        )


def doa(
    path: Annotated[Path, typer.Argument(help="sound file or episode folder")],
    csv: Annotated[
        Path | None,
        typer.Option(
            help="write a table: time_s,azimuth_deg,elevation_deg,confidence,track,uncertainty_deg,active"
            " (- for stdout)"
        ),
    ] = None,
    dcase: Annotated[
        Path | None,
        typer.Option(help="write DCASE metadata: frame,class,source,azimuth,elevation (- for stdout)"),
    ] = None,
    sound_class: Annotated[
        int, typer.Option("--class", min=0, help="class index for --dcase: what is heard is not classified")
    ] = 0,
    tracks: Annotated[
        Path | None, typer.Option(help="write a table of the tracks, several per 100 ms (- for stdout)")
    ] = None,
    sounds: Annotated[
        str, typer.Option(help="what is tracked: speech, or all (steady sounds as well)")
    ] = "speech",
    plot: Annotated[
        Path | None, typer.Option(help="draw azimuth, elevation and spectrogram: FILE.png or FILE.svg")
    ] = None,
    format_name: Format = None,
    capsules: Capsules = None,
    as_json: Json = False,
) -> None:
    """Direction of arrival, one row per 100 ms: as a table, as DCASE metadata, as a picture."""
    from recordings.directions import in_words, track_summary, tracks_in_words
    from recordings.directions_files import DirectionFiles

    if sounds not in ("speech", "all"):
        raise InputError(f"--sounds is one of speech, all, not {sounds!r}")
    files = DirectionFiles(csv, tracks, dcase, plot, sound_class)
    files.check(as_json, path)
    source, named, correction = _sound_of(path, format_name, capsules)
    with progress(f"directions of {path.name}", source.frames) as advance:
        directions, found, printed = files.make(source, named, path.name, sounds, advance, correction)
    if printed is not None:
        print(printed, end="")
        return
    followed = track_summary(directions.tracks)
    written = {"tracks_csv" if name == "tracks" else name: str(p) for name, p in files.wanted.items()}
    result = {"path": str(path), "format": named, **found, "problems": source.problems, "tracks": followed}
    text = [f"{path}: {in_words(found)}", *(f"  {line}" for line in tracks_in_words(followed))]
    text += [f"  note: {problem}" for problem in source.problems]
    text += [f"  written to {where}" for where in written.values()]
    emit({**result, **written, "rows": directions.rows}, as_json, text)


def align(
    reference: Annotated[Path, typer.Argument(help="sound file, video with sound, or episode folder")],
    other: Annotated[Path, typer.Argument(help="another recording of the same event")],
    max_drift_ppm: Annotated[float, typer.Option(help="what the two clocks may differ by")] = 250.0,
    as_json: Json = False,
) -> None:
    """Find by content when OTHER starts in REFERENCE, and how their clocks differ. Exit 1 when it cannot."""
    from recordings.align import align_recordings
    from recordings.sound_track import open_sound

    with open_sound(reference) as a, open_sound(other) as b, progress("aligning", 1.0) as advance:
        found = align_recordings(a, b, max_drift_ppm=max_drift_ppm, advance=advance)
    result = {"reference": str(reference), "other": str(other), **found.to_dict()}
    emit(result, as_json, f"{found.verdict}: {found.text}")
    if found.verdict != "aligned":
        raise CheckFailed(f"{other} was not aligned: {found.text}")


def report(
    path: Annotated[Path, typer.Argument(metavar="EPISODE", help="episode folder")],
    out: Annotated[
        Path | None, typer.Option(help="where the page goes; needed for a finished episode")
    ] = None,
    as_json: Json = False,
) -> None:
    """Make the page of an episode: sound, directions, pictures, checks in plain words."""
    from recordings.report import write_report

    page = write_report(path, out)
    emit({"episode": str(path), "page": str(page)}, as_json, str(page))


def export_audio(
    path: Annotated[Path, typer.Argument(metavar="EPISODE", help="episode folder; it is never changed")],
    out: Annotated[Path, typer.Option("--out", help="the WAV file to write; FILE.json goes beside it")],
    clock: Annotated[
        str, typer.Option(help="session: equally spaced in time, gaps as zeros; device: samples untouched")
    ] = "session",
    rate: Annotated[
        int | None, typer.Option(min=1000, max=768_000, help="rate in Hz; default: the original's")
    ] = None,
    as_json: Json = False,
) -> None:
    """Write an episode's sound on the session's clock: drift taken out, gaps as long as they were."""
    from recordings.episode import Episode
    from recordings.export_audio import export_audio as export

    if clock not in ("session", "device"):
        raise InputError(f"--clock is one of session, device, not {clock!r}")
    episode = Episode.open(path)
    with progress(f"writing {out.name}", episode.original.frames) as advance:
        made = export(episode, out, "session" if clock == "session" else "device", rate, advance)
    told = made.description
    text = [
        f"{out}: {counted(made.frames, 'frame')} at {made.rate_hz} Hz on the {clock}'s clock,"
        f" {'resampled' if made.resampled else 'samples as they were recorded'},"
        f" {counted(len(told['gaps']), 'gap')}; map and gaps in {made.sidecar.name}"
    ]
    if made.clipped:
        text.append(f"  note: {counted(made.clipped, 'sample')} beyond full scale were clipped by resampling")
    emit({"file": str(out), "sidecar": str(made.sidecar), **told}, as_json, text)


def _sound_of(
    path: Path, format_name: str | None, capsules: Path | None
) -> tuple[AudioFile, str, FoaCorrection | None]:
    """(sound, format, correction of the capsules) of a sound file or an episode's original. capsules: a
    result of `hearth calibrate capsules`; without it an episode's own counts."""
    from recordings.audio_file import open_audio
    from recordings.capsule_correction import read_correction
    from recordings.episode import Episode
    from recordings.importer import decide_format

    correction = None
    if not path.is_dir():
        source = open_audio(path)
        named = decide_format(source, format_name)
    else:
        episode = Episode.open(path)
        correction = episode.correction if capsules is None else None
        source = episode.original
        named = str(episode.format)
        if format_name not in (None, named):
            raise InputError(f"{path}: --format {format_name} contradicts the episode, which says {named}")
        if named not in ("ambix", "fuma", "n3d", "a", "a2") or source.channels != 4:
            raise InputError(
                f"{path}: {source.channels} channels of format {named} are not first-order ambisonics"
            )
    if source.frames == 0:
        raise InputError(f"{path}: holds no sound frame ({'; '.join(source.problems) or 'empty'})")
    if capsules is not None:
        correction = read_correction(capsules, named)
    return source, named, correction


Out = Annotated[Path, typer.Option("--out", help="the file to write; nothing is ever overwritten")]


def trim(
    file: Annotated[Path, typer.Argument(metavar="WAV", help="WAV, RF64 or BW64; it is never changed")],
    out: Out,
    start: Annotated[str, typer.Option(help="12.5 (s), h:mm:ss or 480f (frames); default: the start")] = "0",
    end: Annotated[str | None, typer.Option(help="the same; default: the end")] = None,
    as_json: Json = False,
) -> None:
    """Cut a stretch out of a WAV file, bit for bit, with every other chunk that it holds."""
    from recordings.wav_trim import trim_wav

    with progress("copying"):
        made = trim_wav(file, out, start, end)
    emit(made.to_dict(), as_json, made.lines())


def convert(
    file: Annotated[Path, typer.Argument(metavar="WAV", help="WAV, RF64 or BW64; it is never changed")],
    to: Annotated[str, typer.Option("--to", help="channel order: ambix, fuma, n3d, a or a2")],
    out: Out,
    format_name: Format = None,
    rate: Annotated[
        int | None, typer.Option(min=1000, max=768_000, help="new rate in Hz; default: the source's")
    ] = None,
    bits: Annotated[str | None, typer.Option(help="16, 24, 32 or float; default: the source's")] = None,
    as_json: Json = False,
) -> None:
    """Bring a WAV file into another channel order or rate; every chunk that stays true is kept."""
    from recordings.wav_convert import convert_wav

    with progress("converting"):
        made = convert_wav(file, out, to, format=format_name, rate_hz=rate, sample_type=bits)
    emit(made.to_dict(), as_json, made.lines())
