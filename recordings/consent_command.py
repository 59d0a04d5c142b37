"""The commands `hearth consent add | list | show | visitor | withdraw | due | check`."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dsp.errors import CheckFailed, InputError
from recordings.terminal import counted, emit, progress

if TYPE_CHECKING:
    from recordings.consent.people import Consenter, Use

consent = typer.Typer(
    name="consent",
    no_args_is_help=True,
    rich_markup_mode="rich",
    help="Who agreed to what and until when; withdrawal and retention, which delete everything.",
)
Json = Annotated[bool, typer.Option("--json", help="one JSON object on stdout")]
Data = Annotated[Path, typer.Option("--data", help="data folder")]
Also = Annotated[
    list[Path] | None,
    typer.Option("--also", help="a further folder to look through: exports, outputs, copies; repeatable"),
]
IgnoreMissing = Annotated[
    bool,
    typer.Option("--ignore-missing", help="exports that are not where they were are known to be gone"),
]
Person = Annotated[str, typer.Argument(metavar="PERSON", help="id of the person, as episodes name it")]


def register(app: typer.Typer) -> None:
    """Add the commands to `app`."""
    for command in (add, list_people, show, visitor, withdraw, due, check):
        consent.command(name="list" if command is list_people else None)(command)
    app.add_typer(consent, name="consent", rich_help_panel="Record")


def add(
    person: Person,
    until: Annotated[str, typer.Option(help="retention date, YYYY-MM-DD: the last day on which it holds")],
    form: Annotated[str, typer.Option(help="how it was given, e.g. 'paper form 2, signed'")],
    use: Annotated[
        list[str] | None, typer.Option(help="recording, sharing or biometrics; repeatable")
    ] = None,
    given: Annotated[str | None, typer.Option(help="when, YYYY-MM-DD; default: today")] = None,
    witness: Annotated[str | None, typer.Option(help="who was there when it was given")] = None,
    name: Annotated[
        list[str] | None, typer.Option(help="what else the person is called in episodes; repeatable")
    ] = None,
    data: Data = Path("data"),
    as_json: Json = False,
) -> None:
    """Note that a person agreed to be recorded (and shared, and recognised), how, and until when."""
    from recordings.consent.book import ConsentBook

    made = ConsentBook.open(data).add(
        person,
        _uses(use or ["recording"]),
        form=form,
        until=_day(until, "--until"),
        given=None if given is None else _day(given, "--given"),
        witness=witness,
        names=name or [],
    )
    emit(_person(made), as_json, _lines(made))


def list_people(data: Data = Path("data"), as_json: Json = False) -> None:
    """Everybody who is listed, with what holds today; and episodes with visitors."""
    from recordings.consent.book import ConsentBook

    book = ConsentBook.open(data)
    people = [_person(one) for one in book.people.people]
    visits = [
        {
            "episode": visit.episode,
            "noted": visit.noted.isoformat(),
            "delete_by": visit.delete_by.isoformat(),
            "agreed_until": visit.agreed.until.isoformat() if visit.agreed else None,
            "sharing": bool(visit.agreed and visit.agreed.sharing),
        }
        for visit in book.people.visits
    ]
    text = []
    for one in people:
        now = ", ".join(use["use"] for use in one["uses"] if use["holds"])
        text.append(f"{one['person']:<16} {now or 'nothing holds today'}")
    for visit in visits:
        kept = f"kept until {visit['agreed_until']}" if visit["agreed_until"] else "not agreed"
        text.append(f"visitor in {visit['episode']}: {kept}, else deleted after {visit['delete_by']}")
    text.append(f"{len(people)} listed, {counted(len(visits), 'episode')} with visitors")
    emit({"people": people, "visits": visits}, as_json, text)


def show(person: Person, data: Data = Path("data"), as_json: Json = False) -> None:
    """One person: each consent with its dates, and the episodes that the person is in."""
    from recordings.consent.book import ConsentBook
    from recordings.consent.present import persons_of
    from recordings.consent.survey import survey

    found = ConsentBook.open(data).find(person)
    if found is None:
        raise InputError(
            f"{person} is not listed in {data}; `hearth consent list --data {data}` shows who is"
        )
    episodes = [
        str(episode.path)
        for episode in (survey(data).episodes if data.is_dir() else [])
        if episode.profile is not None and any(found.called(name) for name in persons_of(episode.profile))
    ]
    text = [*_lines(found), f"in {counted(len(episodes), 'episode')}", *(f"  {path}" for path in episodes)]
    emit({**_person(found), "episodes": episodes}, as_json, text)


def visitor(
    episode: Annotated[Path, typer.Argument(metavar="EPISODE", help="episode folder")],
    agreed_until: Annotated[
        str | None, typer.Option(help="the visitor agreed that it is kept until this day, YYYY-MM-DD")
    ] = None,
    form: Annotated[str | None, typer.Option(help="with --agreed-until: how that was said")] = None,
    sharing: Annotated[bool, typer.Option("--sharing", help="and agreed that it is shared")] = False,
    delete_by: Annotated[
        str | None, typer.Option(help="last day without agreement, YYYY-MM-DD; default: in 7 days")
    ] = None,
    data: Annotated[
        Path | None, typer.Option("--data", help="data folder; default: the one that the episode lies in")
    ] = None,
    as_json: Json = False,
) -> None:
    """Flag an episode in which somebody was present who is not listed: not shared, deleted unless agreed."""
    from recordings.consent.book import ConsentBook
    from recordings.consent.people import Agreed
    from recordings.consent.present import episode_key
    from recordings.episode import Episode

    profile = Episode.open(episode).profile
    key = episode_key(profile)
    book = ConsentBook.above(episode, data)
    agreed = None
    if agreed_until is not None:
        if not form:
            raise InputError("--agreed-until needs --form: how the visitor said so")
        until = _day(agreed_until, "--agreed-until")
        agreed = Agreed(given=date.today(), form=form, until=until, sharing=sharing)
    elif sharing or form:
        raise InputError("--sharing and --form are about an agreement: give --agreed-until as well")
    by = None if delete_by is None else _day(delete_by, "--delete-by")
    visit = book.note_visit(key, delete_by=by, agreed=agreed)
    result = {
        "episode": key,
        "delete_by": visit.delete_by.isoformat(),
        "agreed_until": visit.agreed.until.isoformat() if visit.agreed else None,
        "sharing": bool(visit.agreed and visit.agreed.sharing),
    }
    kept = f"kept until {result['agreed_until']}" if visit.agreed else f"deleted after {visit.delete_by}"
    shared = "is not shared"
    if result["sharing"]:
        allowed = book.sharing(profile)
        shared = "may be shared" if allowed else f"the visitor agreed, but it is not shared: {allowed.why}"
    emit(result, as_json, f"{key}: a visitor was present; {kept}; {shared}")


def withdraw(
    person: Person,
    data: Data = Path("data"),
    also: Also = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="only say what would be done")] = False,
    ignore_unexplained: Annotated[
        bool,
        typer.Option(
            "--ignore-unexplained",
            help="sound, pictures and packed tables that nobody can place do not stand in the way",
        ),
    ] = False,
    ignore_missing: IgnoreMissing = False,
    as_json: Json = False,
) -> None:
    """Find and delete everything of a person. Exit 1 while anything is left; run again to finish."""
    from recordings.consent.withdraw import withdraw as withdraw_person

    with progress("looking through everything") as advance:
        report = withdraw_person(
            data,
            person,
            also=also or [],
            dry_run=dry_run,
            ignore_unexplained=ignore_unexplained,
            ignore_missing=ignore_missing,
            advance=advance,
        )
    told = report.outcome
    would = "would be " if dry_run else ""
    text = [
        f"{counted(len(report.episodes), 'episode')} and {counted(len(told.deleted), 'file')} {would}deleted,"
        f" {len(told.rewritten)} {would}rewritten; the record calls the person {report.pseudonym}"
    ]
    text += [f"  episode {path}" for path in report.episodes]
    text += [f"  deleted {path}" for path in told.deleted]
    text += [f"  rewritten {path}" for path in told.rewritten]
    text += [f"to be exported again: {path}" for path in told.re_export]
    text += [f"listen to it, the request says the name: {path}" for path in report.spoken]
    text += [f"nobody can tell whose it is: {path}" for path in told.unexplained]
    text += [f"LEFT: {path} {why}" for path, why in told.left]
    text += _where(report.searched, report.not_found)
    if not dry_run:
        text.append("done: nothing is left in the folders searched" if report.done else "NOT DONE")
    emit(report.to_dict(), as_json, text)
    if not dry_run and not report.done:
        raise CheckFailed(
            f"not done: {len(told.left)} left, {counted(len(told.unexplained), 'file')} that nobody can"
            f" place, {counted(len(report.not_found), 'export')} not found; see to them and run it again"
            " (--ignore-unexplained when those files are somebody else's, --ignore-missing when those exports"
            " are gone or were given with --also)"
        )


def due(
    data: Data = Path("data"),
    also: Also = None,
    remove: Annotated[
        bool, typer.Option("--delete", help="delete what is past its date and all that was made of it")
    ] = False,
    on: Annotated[str | None, typer.Option("--on", help="as of this day, YYYY-MM-DD; default: today")] = None,
    ignore_missing: IgnoreMissing = False,
    as_json: Json = False,
) -> None:
    """Which episodes are past their retention date, or a visitor's; --delete deletes them."""
    from recordings.consent.biometrics import Biometrics
    from recordings.consent.due import delete_due, list_due

    day = None if on is None else _day(on, "--on")
    if remove and day is not None and day > date.today():
        raise InputError(f"--on {on} is in the future: nothing is deleted before its time")
    templates = Biometrics(data).without_consent(day)
    if remove:
        with progress("looking through everything") as advance:
            report = delete_due(data, also=also or [], at=day, ignore_missing=ignore_missing, advance=advance)
        for folder in templates:
            Biometrics(data).forget(folder.name)
    else:
        report = list_due(data, day)
    text = [f"{one.last_day}  {one.path}: {one.why}" for one in report.due]
    text += [f"biometrics without consent: {folder}" for folder in templates]
    told = report.outcome
    text += [f"to be exported again: {path}" for path in told.re_export]
    text += [f"LEFT: {path} {why}" for path, why in told.left]
    text += _where(report.searched, report.not_found) if remove else []
    what = "deleted" if report.deleted else "due"
    soon = f", next {report.coming[0].last_day}" if report.coming else ""
    text.append(f"{counted(len(report.due), 'episode')} {what}, {len(report.coming)} not yet{soon}")
    result = {**report.to_dict(), "biometrics": [str(folder) for folder in templates]}
    emit(result, as_json, text)
    if told.left:
        raise CheckFailed(f"{counted(len(told.left), 'file')} could not be judged or deleted; see LEFT")
    if report.not_found and not ignore_missing:
        raise CheckFailed(_lost(report.not_found))


def check(
    data: Data = Path("data"),
    also: Also = None,
    ignore_missing: IgnoreMissing = False,
    as_json: Json = False,
) -> None:
    """Is the record as it was written, and has nothing come back that was deleted? Exit 1 when not."""
    from recordings.consent.book import ConsentBook
    from recordings.consent.withdraw import come_back

    book = ConsentBook.open(data)
    problems = book.check()
    lines, head = book.audit_head()
    with progress("looking through everything") as advance:
        back = come_back(data, also or [], advance)
    problems += [f"{path}: was deleted once, and is here again" for path in back.files]
    ok = not problems and (ignore_missing or not back.not_found)
    where = {"searched": back.searched, "not_found": back.not_found}
    result = {"ok": ok, "lines": lines, "head": head, "problems": problems, **where}
    text = [f"{counted(lines, 'line')}, the last one {head}", *(f"  problem: {one}" for one in problems)]
    text += _where(back.searched, back.not_found)
    emit(result, as_json, text)
    if problems:
        raise CheckFailed(f"{counted(len(problems), 'problem')} with the consent record of {data}")
    if not ok:
        raise CheckFailed(_lost(back.not_found))


def _where(searched: list[str], not_found: list[str]) -> list[str]:
    text = [f"not found: {path} (was it moved? give --also)" for path in not_found]
    return [*text, f"searched: {', '.join(searched) or 'nothing'}; of copies elsewhere nothing is known"]


def _lost(not_found: list[str]) -> str:
    return (
        f"{counted(len(not_found), 'export')} not found where it was written; give --also where it is now,"
        " and --ignore-missing"
    )


def _uses(words: list[str]) -> list[Use]:
    from recordings.consent.people import USES

    chosen = [use for use in USES if use in words]
    unknown = sorted(set(words) - set(USES))
    if unknown:
        raise InputError(f"--use is one of {', '.join(USES)}, not {unknown[0]!r}")
    return chosen


def _day(text: str, option: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise InputError(f"{option} is a day as YYYY-MM-DD, not {text!r}") from None


def _person(one: Consenter) -> dict[str, Any]:
    today = date.today()
    uses = [
        {
            "use": use,
            "holds": grant.withdrawn is None and grant.given <= today <= grant.until,
            "given": grant.given.isoformat(),
            "until": grant.until.isoformat(),
            "form": grant.form,
            "witness": grant.witness,
            "withdrawn": grant.withdrawn.isoformat() if grant.withdrawn else None,
        }
        for use, grant in one.uses.items()
    ]
    return {"person": one.person, "pseudonym": one.pseudonym, "names": list(one.names), "uses": uses}


def _lines(one: Consenter) -> list[str]:
    text = [one.person + (f" ({', '.join(one.names)})" if one.names else "")]
    for use, grant in one.uses.items():
        ended = f", withdrawn {grant.withdrawn}" if grant.withdrawn else ""
        seen = f", witness {grant.witness}" if grant.witness else ""
        text.append(f"  {use:<10} {grant.given} to {grant.until}{ended}: {grant.form}{seen}")
    return text
