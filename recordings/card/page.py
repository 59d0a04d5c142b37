"""The card as one HTML file that needs nothing from outside, as Markdown, and as JSON-LD after Croissant."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from html import escape
from pathlib import Path
from typing import Any

from recordings.card.charts import bars, grid, histogram
from recordings.card.facts import UNKNOWN, CardFacts, EpisodeFacts, room
from recordings.card.summary import TOLD, UNITS
from recordings.terminal import counted

GROUNDINGS = {"G0": "speech", "G1": "gesture", "G2": "sound", "G3": "space", "G4": "identity"}
QUERIES = {"Q1": "inquiry", "Q2": "control", "Q3": "schedule", "Q4": "intent"}
PLOTS = (
    ("rooms", "Rooms"),
    ("speakers", "Speakers"),
    ("target_types", "Type of the target device"),
    ("orientation", "How speakers are turned against the microphone"),
    ("difficulty", "Difficulty of feasible ones"),
    ("feasibility", "Feasibility"),
)
UNEVEN = ("target_types", "orientation", "feasibility")  # not meant to be equal
_CONTENT = "default-src 'none'; style-src 'unsafe-inline'"


def size_words(size: int) -> str:
    """ "1.4 GB"."""
    value, unit = float(size), "B"
    for larger in ("kB", "MB", "GB", "TB"):
        if value < 1000:
            break
        value, unit = value / 1000, larger
    return f"{value:.0f} {unit}" if value >= 100 or unit == "B" else f"{value:.1f} {unit}"


def length_words(hours: float) -> str:
    """ "2.3 h", "14 min" or "40 s"."""
    if hours >= 1:
        return f"{hours:.1f} h"
    return f"{hours * 60:.0f} min" if hours * 60 >= 2 else f"{hours * 3600:.0f} s"


def spread_words(spread: Mapping[str, Any], unit: str) -> str:
    """Median, quartiles and range in words."""
    if not spread["known"]:
        return UNKNOWN
    return (
        f"median {spread['median']:.3g} {unit}, half of them {spread['q1']:.3g} to {spread['q3']:.3g},"
        f" all {spread['min']:.3g} to {spread['max']:.3g} {unit}"
    )


def counts_words(counts: Mapping[str, int]) -> str:
    """ "agreed 12, not known 3"."""
    return ", ".join(f"{name} {number}" for name, number in counts.items()) or "none"


def terms(card: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What is not a plot: name and words."""
    found = [
        ("Licence", card["licence"]),
        ("Contact", card["contact"]),
        ("May be shared", counts_words(card["sharing"])),
        ("Reviews", counts_words(card["reviews"])),
        ("Origin", counts_words(card["origin"])),
    ]
    for name, title in TOLD.items():
        words = spread_words(card[name], UNITS[name])
        known = card[name]["known"]
        if 0 < known < card["episodes"]:
            words += f" (known of {known})"
        if card[name]["from"]:
            words += f"; {counts_words(card[name]['from'])}"
        found.append((title[:1].upper() + title[1:], words))
    if card["left_out"]:
        found.append(
            ("Not counted", f"{counted(card['left_out'], 'folder')}: unfinished, unreadable or not kept")
        )
    return found


def to_html(card: Mapping[str, Any], facts: CardFacts) -> str:
    """One page; colours and type as the pages of episodes."""
    style = Path(__file__).parent.parent / "report.css"
    css = style.read_text(encoding="utf-8") + (Path(__file__).parent / "card.css").read_text(encoding="utf-8")
    title = escape(card["title"])
    about = f'<p class="lead">{escape(card["description"])}</p>' if card["description"] else ""
    head = "".join(
        f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>"
        for name, value in (
            ("episodes", str(card["episodes"])),
            ("sound", length_words(card["hours"])),
            ("pictures", f"{card['pictures']:,}".replace(",", " ")),
            ("size", size_words(card["bytes"])),
            ("rooms", str(len([r for r in card["rooms"] if r != UNKNOWN]))),
            ("people", str(len(card["people"]))),
        )
    )
    rows = "".join(f"<dt>{escape(name)}</dt><dd>{escape(words)}</dd>" for name, words in terms(card))
    plots = "".join(
        f"<figure><b>{escape(name)}</b>{drawing}<figcaption>{escape(words)}</figcaption></figure>"
        for name, drawing, words in _plots(card, facts)
        if drawing
    )
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta http-equiv="Content-Security-Policy" content="{_CONTENT}">'
        f'<meta name="generator" content="Hearth"><title>{title}</title><style>{css}</style></head>'
        "<body><main>"
        f'<header><p class="eyebrow">dataset card</p><h1>{title}</h1>{about}</header>'
        f'<dl class="facts">{head}</dl><h2>What may be done with it, and how it sounds</h2>'
        f'<dl class="terms">{rows}</dl><h2>How even it is</h2><section class="plots">{plots}</section>'
        "</main><footer>Counted from the episodes themselves by hearth card. A dashed line: where all would"
        " be equal.</footer></body></html>\n"
    )


def _plots(card: Mapping[str, Any], facts: CardFacts) -> Iterator[tuple[str, str, str]]:
    """Title, drawing and caption."""
    rows = [f"{g} {words}" for g, words in GROUNDINGS.items()]
    columns = [f"{q} {words}" for q, words in QUERIES.items()]
    for kind in ("feasible", "infeasible"):
        cells = {
            (f"{c['grounding']} {GROUNDINGS[c['grounding']]}", f"{c['query']} {QUERIES[c['query']]}"): c[kind]
            for c in card["combinations"]
        }
        title = f"Grounding and query, {kind}"
        yield title, grid(rows, columns, cells, title), "Implicit intents go with speech and identity only."
    for key, title in PLOTS:
        yield title, bars(card[key], title, even=key not in UNEVEN), ""
    pairs = {(p["room"], p["speaker"]): p["episodes"] for p in card["rooms_speakers"]}
    rooms, speakers = list(card["rooms"]), list(card["speakers"])
    if len(rooms) > 1 and len(speakers) > 1:
        full = {(room, speaker): pairs.get((room, speaker), 0) for room in rooms for speaker in speakers}
        yield "Rooms and speakers", grid(rooms, speakers, full, "Rooms and speakers"), ""
    for name, title in TOLD.items():
        values = facts.numbers(name)
        words = spread_words(card[name], UNITS[name])
        yield (
            title[:1].upper() + title[1:],
            histogram(values, title, UNITS[name]),
            f"{len(values)} known; {words}",
        )


def to_markdown(card: Mapping[str, Any]) -> str:
    """The same in Markdown, tables for plots; for a README or a hub."""
    lines = [f"# {_plain(card['title'])}", ""]
    if card["description"]:
        lines += [_plain(card["description"]), ""]
    lines += [
        f"{counted(card['episodes'], 'episode')}, {length_words(card['hours'])} of first-order ambisonic"
        f" sound, {counted(card['pictures'], 'picture')}, {size_words(card['bytes'])}.",
        "",
        "| | |",
        "|---|---|",
        *(f"| {_plain(name)} | {_plain(words)} |" for name, words in terms(card)),
        "",
        "## Grounding and query (feasible / infeasible)",
        "",
        "| | " + " | ".join(f"{q} {words}" for q, words in QUERIES.items()) + " |",
        "|---|" + "---|" * len(QUERIES),
    ]
    cells = {
        (c["grounding"], c["query"]): f"{c['feasible']} / {c['infeasible']}" for c in card["combinations"]
    }
    for grounding, words in GROUNDINGS.items():
        row = " | ".join(cells.get((grounding, query), "") for query in QUERIES)
        lines.append(f"| {grounding} {words} | {row} |")
    for key, title in PLOTS:
        lines += ["", f"## {title}", "", "| | episodes |", "|---|---|"]
        lines += [f"| {_plain(name)} | {number} |" for name, number in card[key].items()]
    return "\n".join(lines) + "\n"


def _plain(words: str) -> str:
    return " ".join(words.split()).replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;")


_CROISSANT = {  # the context of Croissant 1.0, with what is used of it
    "@language": "en",
    "@vocab": "https://schema.org/",
    "conformsTo": "dct:conformsTo",
    "cr": "http://mlcommons.org/croissant/",
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "dct": "http://purl.org/dc/terms/",
    "field": "cr:field",
    "fileObject": "cr:fileObject",
    "fileSet": "cr:fileSet",
    "includes": "cr:includes",
    "recordSet": "cr:recordSet",
    "sc": "https://schema.org/",
}
_FILES = (
    ("sound", "audio/wav", "**/foa_24k.wav", "24 kHz, 4 channels, AmbiX (ACN, SN3D)"),
    ("pictures", "video/x-matroska", "**/video*.mkv", "pictures; their times are in the timeline"),
    ("timeline", "application/jsonl", "**/timeline.jsonl", "times of blocks and pictures, directions"),
    ("profile", "application/yaml", "**/episode.yaml", "request, speaker, target, goal, home state"),
)


def to_croissant(card: Mapping[str, Any], facts: CardFacts) -> str:
    """JSON-LD after Croissant 1.0 (docs.mlcommons.org/croissant): the dataset, its kinds of file, and a
    record for each episode (`episodes`)."""
    records = [_record(one, facts) for one in facts.episodes]
    whole = {
        "@type": "cr:FileObject",
        "@id": "folder",
        "name": "folder",
        "description": "the data folder; each episode's own manifest.json holds the SHA-256 of its files",
        "contentUrl": ".",
        "encodingFormat": "application/x-directory",
        "sha256": facts.sha256,
    }
    sets = [
        {
            "@type": "cr:FileSet",
            "@id": name,
            "name": name,
            "description": about,
            "containedIn": {"@id": "folder"},
            "encodingFormat": kind,
            "includes": pattern,
        }
        for name, kind, pattern, about in _FILES
    ]
    fields = [
        {
            "@type": "cr:Field",
            "@id": f"episodes/{name}",
            "name": name,
            "dataType": "sc:Float" if name.endswith(("_s", "_db")) else "sc:Text",
        }
        for name in _record_names()
    ]
    data = {
        "@context": _CROISSANT,
        "@type": "sc:Dataset",
        "conformsTo": "http://mlcommons.org/croissant/1.0",
        "name": card["title"],
        "description": card["description"] or f"{card['episodes']} recorded episodes of a smart home",
        "license": card["licence"],
        "distribution": [whole, *sets],
        "recordSet": [
            {
                "@type": "cr:RecordSet",
                "@id": "episodes",
                "name": "episodes",
                "field": fields,
                "data": [{f"episodes/{name}": value for name, value in record.items()} for record in records],
            }
        ],
    }
    return json.dumps(data, indent=1, ensure_ascii=False) + "\n"


def _record_names() -> tuple[str, ...]:
    return (
        "folder", "grounding", "query", "feasibility", "difficulty", "room", "speaker", "target_device",
        "duration_s", "snr_db", "rt60_s",
    )  # fmt: skip


def _record(one: EpisodeFacts, facts: CardFacts) -> dict[str, Any]:
    p = one.profile
    values = (
        f"{one.path.parent.name}/{one.path.name}", p.grounding, p.query, p.feasibility, p.difficulty,
        room(one)[0], None if p.speaker is None else facts.names[p.speaker], p.target_device,
        one.duration_s, one.snr_db, one.rt60_s,
    )  # fmt: skip
    return dict(zip(_record_names(), values, strict=True))
