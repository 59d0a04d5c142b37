"""The dataset card: what it counts, what it leaves out, whose names it does not say, and its three forms."""

from __future__ import annotations

import json
import re
import shutil
import xml.etree.ElementTree as ElementTree
from datetime import date, timedelta
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from release_episodes import profile, record
from typer.testing import CliRunner

from dsp.errors import InputError
from hearth import app
from recordings.card.charts import bars, grid, histogram
from recordings.card.facts import CardFacts, five_numbers, gather
from recordings.card.page import length_words, size_words, to_croissant, to_html, to_markdown
from recordings.card.summary import Words, summary
from recordings.consent.book import ConsentBook
from recordings.session_journal import JOURNAL

HOSTILE = 'A <b>day</b> | "two" & more'


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A guided session with a kept and an unkept take, a virtual episode, an unfinished and a broken one."""
    root = tmp_path_factory.mktemp("card") / "data"
    place = {"microphone": {"position_m": [2.0, 0.5, 1.2]}}
    for take in (1, 2):
        told = profile(f"ep0001-t{take}", "day", "Ada Lovelace", rig=place, plan_item="ep0001", take=take)
        record(root, told, seconds=0.6, seed=take, pictures=False)
    lines: list[dict[str, Any]] = [
        {"step": "opened", "t_utc": "2026-01-01T00:00:00Z", "plan": "p", "items": 1},
        *(
            {"step": step, "t_utc": "2026-01-01T00:00:00Z", "item": "ep0001", "take": 2,
             "episode": "ep0001-t2", **more}
            for step, more in (
                ("armed", {}),
                ("recording", {}),
                ("recorded", {"seconds": 0.6, "stop_reason": "ended"}),
                ("checks", {"ok": True, "checks": [{"name": "level", "over_quiet_db": 23.5}]}),
                ("kept", {}),
            )
        ),
    ]  # fmt: skip
    (root / "day" / JOURNAL).write_text("".join(json.dumps(line) + "\n" for line in lines))
    virtual = profile(
        "free", "other", "bob", "study", origin="virtual", query="Q1", difficulty="hard", with_people=("eve",)
    )
    record(root, virtual, seconds=1.0, truth={"snr_db": 30.0, "rt60_s": 0.4})
    shutil.copytree(root / "other" / "free", root / "other" / "cut")
    (root / "other" / "cut" / "manifest.json").unlink()
    (root / "other" / "broken").mkdir()
    (root / "other" / "broken" / "episode.yaml").write_text("id: [")
    return root


@pytest.fixture(scope="module")
def facts(data: Path) -> CardFacts:
    return gather(data)


def test_it_counts_kept_and_finished_episodes_and_says_why_others_do_not(facts: CardFacts):
    assert [one.path.name for one in facts.episodes] == ["ep0001-t2", "free"]
    why = {path.name: text for path, text in facts.left_out.items()}
    assert set(why) == {"ep0001-t1", "cut", "broken"}
    assert "not kept" in why["ep0001-t1"] and "not finished" in why["cut"] and "unreadable" in why["broken"]


def test_numbers_come_from_where_they_are_known(facts: CardFacts):
    kept, virtual = facts.episodes
    assert (kept.snr_db, kept.snr_from) == (23.5, "speech over what is heard before it")
    assert kept.rt60_s is None and kept.rt60_from is None and kept.pictures is None
    assert (virtual.snr_db, virtual.rt60_s) == (30.0, 0.4)
    assert kept.duration_s == pytest.approx(0.6) and virtual.duration_s == pytest.approx(1.0)
    size = sum(
        file.stat().st_size
        for file in virtual.path.rglob("*")
        if file.name != "manifest.json" and file.is_file()
    )
    assert virtual.bytes == size
    card = summary(facts, Words("x"))
    assert card["rt60_s"]["known"] == 1 and card["rt60_s"]["median"] == 0.4
    assert card["hours"] == pytest.approx(1.6 / 3600, abs=5e-5)


def test_the_summary_counts_everything_once(facts: CardFacts):
    card = summary(facts, Words("Two"))
    assert card["episodes"] == 2 and card["left_out"] == 3
    assert card["rooms"] == {"living": 1, "study": 1}
    assert card["people"] == {"bob": 1, "eve": 1, "person 1": 1}
    assert card["speakers"] == {"bob": 1, "person 1": 1}
    assert card["target_types"] == {"fan": 2} and card["difficulty"] == {"easy": 1, "hard": 1}
    # She looks to +y, the microphone is behind her; of the other episode's rig no place is known.
    assert card["orientation"] == {"away": 1, "not known": 1}
    cells = {(c["grounding"], c["query"]): (c["feasible"], c["infeasible"]) for c in card["combinations"]}
    assert len(cells) == 17 and cells["G2", "Q2"] == (1, 0) == cells["G2", "Q1"]
    assert sum(a + b for a, b in cells.values()) == 2
    assert card["sharing"] == {"agreed": 1, "nobody real is in it": 1}
    assert card["licence"] == "not known" and card["reviews"] == {"open": 2}


def test_real_people_are_never_named(facts: CardFacts):
    card = summary(facts, Words("x"))
    for text in (to_html(card, facts), to_markdown(card), to_croissant(card, facts), json.dumps(card)):
        assert "Ada" not in text and "Lovelace" not in text and "hunter2" not in text


def test_the_consent_book_decides_over_what_the_episode_says(data: Path, tmp_path: Path):
    copy = tmp_path / "data"
    shutil.copytree(data, copy)
    book = ConsentBook.open(copy)
    until = date.today() + timedelta(days=9)
    book.add("ada", ["recording"], form="f", until=until, names=["Ada Lovelace"])
    card = summary(gather(copy), Words("x"))
    assert card["sharing"] == {"nobody real is in it": 1, "not agreed": 1}
    found = ConsentBook.open(copy).find("ada")
    assert found is not None and found.pseudonym in card["people"]


class Page(HTMLParser):
    """Opens and closes what it should; collects addresses."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag != "meta":
            self.open.append(tag)
        self.links += [value or "" for name, value in attrs if name in ("src", "href")]

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        pass

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_page_is_whole_and_needs_nothing(facts: CardFacts):
    page = to_html(summary(facts, Words(HOSTILE, HOSTILE, HOSTILE, HOSTILE)), facts)
    parser = Page()
    parser.feed(page)
    assert parser.open == [] and parser.links == []
    assert "<b>day" not in page and "&lt;b&gt;day" in page
    drawings = re.findall(r"<svg.*?</svg>", page, re.S)
    assert len(drawings) == 12
    for drawing in drawings:
        ElementTree.fromstring(drawing)


def test_markdown_and_croissant(facts: CardFacts):
    card = summary(facts, Words(HOSTILE, licence="CC0"))
    text = to_markdown(card)
    rows = [line for line in text.splitlines() if line.startswith("| G2")]
    assert rows == ["| G2 sound | 1 / 0 | 1 / 0 | 0 / 0 |  |"]
    assert "&lt;b>day" in text.splitlines()[0]
    data = json.loads(to_croissant(card, facts))
    assert data["@type"] == "sc:Dataset" and data["license"] == "CC0" and data["name"] == HOSTILE
    sets = {one["@id"] for one in data["distribution"] if one["@type"] == "cr:FileSet"}
    assert sets == {"sound", "pictures", "timeline", "profile"}
    (records,) = data["recordSet"]
    assert {field["@id"] for field in records["field"]} == set(records["data"][0])
    assert [row["episodes/speaker"] for row in records["data"]] == ["person 1", "bob"]
    assert [row["episodes/rt60_s"] for row in records["data"]] == [None, 0.4]


# ------------------------------------------------------------------ drawings


def rectangles(svg: str, kind: str) -> list[dict[str, str]]:
    return [e.attrib for e in ElementTree.fromstring(svg).iter("rect") if e.attrib["class"] == kind]


def test_bars_are_as_long_as_their_counts():
    found = rectangles(bars({"a": 10, "bb": 5, "c": 0}, "t"), "bar")
    lengths = [float(r["width"]) for r in found]
    assert lengths[1] == pytest.approx(lengths[0] / 2, abs=0.06) and lengths[2] == 0
    assert bars({}, "t") == ""


@pytest.mark.parametrize(
    "values", [[1.0], [0.3] * 9, [0.0, 0.0], [-5.0, 5.0, 5.0], [1e-6, 2e-6], [1e6, 3e6], list(range(100))]
)
def test_a_histogram_holds_every_value_once(values: list[float]):
    svg = histogram(values, "t", "s")
    heights = [int(re.findall(r": (\d+)</title>", part)[0]) for part in svg.split("<rect")[1:]]
    assert sum(heights) == len(values) and len(heights) <= 33
    ElementTree.fromstring(svg)


def test_a_grid_leaves_out_what_cannot_be():
    svg = grid(["r"], ["a", "b"], {("r", "a"): 3}, "t")
    assert len(rectangles(svg, "cell")) == 1


def test_numbers_in_words():
    assert [size_words(n) for n in (12, 1500, 123_456_789, 2.4e9)] == ["12 B", "1.5 kB", "123 MB", "2.4 GB"]
    assert [length_words(h) for h in (0.01, 0.5, 2.34)] == ["36 s", "30 min", "2.3 h"]
    assert five_numbers([]) is None
    five = five_numbers([1, 2, 3, 4, 5])
    assert five == {"min": 1, "q1": 2, "median": 3, "q3": 4, "max": 5, "sum": 15}


# ------------------------------------------------------------------ the command


def test_the_command_writes_what_is_asked_for(data: Path, tmp_path: Path):
    pages = [tmp_path / name for name in ("card.html", "card.md", "card.json")]
    args = ["card", str(data), "--title", "Two", "--json", *(x for p in pages for x in ("--out", str(p)))]
    done = CliRunner().invoke(app, args)
    assert done.exit_code == 0, done.output
    result = json.loads(done.stdout)
    assert result["episodes"] == 2 and len(result["not_counted"]) == 3
    assert all(page.stat().st_size > 500 for page in pages)
    for folder, message in ((tmp_path / "none", "none"), (data / "other" / "broken", "no finished episode")):
        failed = CliRunner().invoke(app, ["card", str(folder), "--out", str(tmp_path / "x.html")])
        assert isinstance(failed.exception, InputError) and message in str(failed.exception)
    failed = CliRunner().invoke(app, ["card", str(data), "--out", str(tmp_path / "x.pdf")])
    assert isinstance(failed.exception, InputError) and ".html, .md, .json" in str(failed.exception)
