"""The command `hearth card`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dsp.errors import InputError

FORMS = (".html", ".md", ".json")


def card(
    folder: Annotated[Path, typer.Argument(help="data folder or session")] = Path("data"),
    out: Annotated[
        list[Path] | None,
        typer.Option(help="card.html, .md or .json (Croissant); may be given several times"),
    ] = None,
    title: Annotated[str | None, typer.Option(help="default: the folder's name")] = None,
    description: Annotated[str, typer.Option(help="what it is for, in a sentence or two")] = "",
    licence: Annotated[str, typer.Option(help="under which licence it may be used")] = "",
    contact: Annotated[str, typer.Option(help="whom to ask")] = "",
    as_json: Annotated[bool, typer.Option("--json", help="one JSON object on stdout")] = False,
) -> None:
    """Write the dataset card: counts, lengths, SNR, RT60, how even it is, licence and consent."""
    from recordings.card.facts import gather
    from recordings.card.page import counts_words, terms, to_croissant, to_html, to_markdown
    from recordings.card.summary import Words, summary
    from recordings.manifest import refuse_inside_sealed
    from recordings.storage import write_atomic
    from recordings.terminal import counted, emit, progress

    pages = out or [Path("card.html")]
    for page in pages:
        if page.suffix.lower() not in FORMS:
            raise InputError(f"--out {page}: a card is one of {', '.join(FORMS)}")
        refuse_inside_sealed(page)
    with progress("reading episodes") as advance:
        facts = gather(folder, advance)
    if not facts.episodes:
        why = next(iter(facts.left_out.values()), "there are none")
        raise InputError(f"{folder}: no finished episode to tell of ({why})")
    name = title or folder.resolve().name
    told = summary(facts, Words(name, description.strip(), licence.strip(), contact.strip()))
    make = {".html": lambda: to_html(told, facts), ".md": lambda: to_markdown(told)}
    for page in pages:
        text = make.get(page.suffix.lower(), lambda: to_croissant(told, facts))()
        write_atomic(page, text.encode("utf-8"))
    lines = [f"{page}" for page in pages]
    lines += [f"{counted(told['episodes'], 'episode')}; rooms: {counts_words(told['rooms'])}"]
    lines += [f"{title}: {words}" for title, words in terms(told)]
    left = [{"path": str(path), "why": why} for path, why in facts.left_out.items()]
    emit({**told, "out": [str(page) for page in pages], "not_counted": left}, as_json, lines)
