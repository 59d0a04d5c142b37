"""The commands `hearth people ...`: faces and voices that the agent knows the household by."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dsp.errors import CheckFailed, InputError

if TYPE_CHECKING:
    from edge.perception.profiles import ProfileBook
    from edge.perception.tools import Scene

people = typer.Typer(no_args_is_help=True, help="Faces and voices that the agent knows the household by.")
Data = Annotated[Path, typer.Option(help="data folder; templates lie in its biometrics/, consent beside it")]
Virtual = Annotated[
    bool, typer.Option("--virtual-people", help="people of the virtual room, who are not asked for consent")
]
Json = Annotated[bool, typer.Option("--json", help="one JSON object on stdout")]


@people.command()
def enrol(
    person: Annotated[str, typer.Argument(help="id of a member of the household, as in rig.yaml")],
    episodes: Annotated[
        list[Path], typer.Argument(help="episodes in which this person, alone, speaks to the rig")
    ],
    data: Data = Path("data"),
    virtual_people: Virtual = False,
    as_json: Json = False,
) -> None:
    """Learn a person's face and voice from episodes: a few sentences from the front, some half turned."""
    from edge.perception.enrolment import enrol as learn
    from edge.perception.voice_identity import DVector
    from recordings.terminal import counted, emit

    book = _book(data, virtual_people)
    model = DVector()
    learnt = [learn(book, person, scene, model) for scene in _scenes(episodes)]
    faces = sum(one.faces for one in learnt)
    voices = sum(one.voiced_s > 0 for one in learnt)
    seconds = sum(one.voiced_s for one in learnt)
    told = {"person": person, "faces": faces, "voices": voices, "voiced_s": round(seconds, 1)}
    emit(
        told,
        as_json,
        [f"{person}: {counted(faces, 'picture')} of the face, {voices} of the voice ({seconds:.1f} s)"],
    )
    if len(book.counts()) < 2:
        print(
            "hearth people: nobody else is enrolled: how alike strangers may look is judged by the household,"
            " so a visitor may be taken for the only one who is known",
            file=sys.stderr,
        )
    if not faces or not voices:
        missing = " and ".join(what for what, n in (("face", faces), ("voice", voices)) if not n)
        raise CheckFailed(
            f"no {missing} of {person} was found: let the person stand 1 to 3 m before the camera, alone,"
            " and speak for some seconds"
        )


@people.command()
def who(
    episodes: Annotated[list[Path], typer.Argument(help="episodes to look at and listen to")],
    data: Data = Path("data"),
    virtual_people: Virtual = False,
    as_json: Json = False,
) -> None:
    """Who speaks in these episodes, by face and by voice: try it before you rely on it."""
    from edge.perception.faces import FaceTool
    from edge.perception.voice_identity import VoiceTool
    from recordings.terminal import emit

    book = _book(data, virtual_people)
    tools: tuple[Any, ...] = (FaceTool(book), VoiceTool(book))
    rows: list[dict[str, Any]] = []
    lines: list[str] = []
    for scene in _scenes(episodes):
        row: dict[str, Any] = {"t_ns": scene.utterance.t_ns, "seconds": round(scene.utterance.duration_s, 1)}
        for tool in tools:
            finding = tool(scene)
            row[tool.name] = finding.to_dict()
        rows.append(row)
        lines.append(f"{row['seconds']:5.1f} s  " + "  ".join(_told(row[tool.name]) for tool in tools))
    emit({"utterances": rows}, as_json, lines or ["nobody is heard to speak"])


@people.command("list")
def list_people(data: Data = Path("data"), virtual_people: Virtual = False, as_json: Json = False) -> None:
    """Who is known, by how many pictures and sentences; and whose templates may not be used any more."""
    from recordings.terminal import emit

    book = _book(data, virtual_people)
    known = [
        {"person": name, "faces": of["face"], "voices": of["voice"]} for name, of in book.counts().items()
    ]
    told = {"people": known, "without_consent": list(book.without_consent)}
    lines = [f"{one['person']}: {one['faces']} of the face, {one['voices']} of the voice" for one in known]
    lines += [f"{name}: has not agreed to biometrics (any more): not used" for name in book.without_consent]
    emit(told, as_json, lines or [f"nobody is enrolled in {data}"])


@people.command()
def forget(
    person: Annotated[str, typer.Argument(help="whose faces and voices are deleted")],
    data: Data = Path("data"),
    virtual_people: Virtual = False,
    as_json: Json = False,
) -> None:
    """Delete a person's faces and voices. Episodes stay: `hearth consent withdraw` is for everything."""
    from recordings.terminal import emit

    if not _book(data, virtual_people).delete(person):
        raise InputError(f"nothing of {person} is enrolled in {data}")
    emit({"person": person, "deleted": True}, as_json, [f"{person}: faces and voices deleted"])


def _book(data: Path, virtual: bool) -> ProfileBook:
    from edge.perception.profiles import ProfileBook

    if not data.is_dir():
        raise InputError(f"{data}: no such folder; --data is the folder with the episodes")
    return ProfileBook.open(data, virtual=virtual)


def _scenes(paths: list[Path]) -> list[Scene]:
    from edge.perception.episode_scenes import scenes_of
    from recordings.episode import Episode
    from recordings.marker import episodes_below
    from recordings.terminal import progress

    folders = list(dict.fromkeys(one for place in paths for one in episodes_below(place)))
    if not folders:
        raise InputError(f"{', '.join(map(str, paths))}: no episodes there")
    with progress("looking and listening", len(folders)) as advance:
        found = []
        for folder in folders:
            found += scenes_of(Episode.open(folder))
            advance(1)
    return found


def _told(finding: dict[str, Any]) -> str:
    value = finding["value"]
    if value is None:
        return f"{finding['tool']}: {finding['why']}"
    name = value["person"] or "nobody known"
    return f"{finding['tool']}: {name} ({value['score']:.2f}, limit {value['limit']:.2f})"
