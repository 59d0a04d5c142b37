"""Withdrawal: no byte of the person's data is left, other people's files stay what they were, a kill in the
middle is made good, and nothing is called done that is not."""

from __future__ import annotations

import bz2
import contextlib
import gzip
import hashlib
import io
import json
import lzma
import os
import shutil
import sqlite3
import tarfile
import zipfile
from datetime import date
from pathlib import Path

import numpy as np
import pytest

from dsp.errors import InputError
from recordings.consent.audit import read_audit
from recordings.consent.book import ConsentBook
from recordings.consent.provenance import Source, write_provenance
from recordings.consent.withdraw import withdraw
from recordings.manifest import read_manifest, write_manifest
from recordings.profile import HomeState, Member, Placed, Profile, Staging, profile_from_yaml, profile_to_yaml
from recordings.storage import sha256_file

HOUSEHOLD = (Member(id="anna", name="Anna Berg", note="wears a red coat"), Member(id="ben", name="Ben Maier"))


def episode(data: Path, name: str, speaker: str, *beside: str, session: str = "day1", seed: int = 0) -> Path:
    folder = data / session / name
    (folder / "foa_48k").mkdir(parents=True)
    rng = np.random.default_rng([seed, *name.encode()])
    people = tuple(
        Placed(person=who, mouth_m=(1.0, 1.0, 1.5), facing_deg=0.0, speaks=who == speaker)
        for who in (speaker, *beside)
    )
    profile = Profile(
        id=name,
        session=session,
        created_utc="2026-11-30T10:00:00.000Z",
        origin="recorded",
        request=f"please turn on the lamp of {name}",
        speaker=speaker,
        plan_item=name.partition("-")[0],
        take=int(name.rpartition("t")[2]),
        home=HomeState(people=("anna", "ben"), household=HOUSEHOLD),
        staging=Staging(room="kitchen", people=people),
    )
    (folder / "episode.yaml").write_text(profile_to_yaml(profile))
    (folder / "foa_48k" / "0001.wav").write_bytes(b"RIFF" + rng.bytes(60_000))
    (folder / "video.mkv").write_bytes(b"\x1a\x45\xdf\xa3 the same empty room" * 2000 + rng.bytes(40_000))
    (folder / "calibration").mkdir()
    (folder / "calibration" / "camera.json").write_text('{"f": 500}')
    (folder / "timeline.jsonl").write_text(json.dumps({"type": "note", "text": f"{speaker}, {name}"}) + "\n")
    write_manifest(folder)
    return folder


def source(folder: Path, output: str, member: str | None = None, sha256: str | None = None) -> Source:
    listed = read_manifest(folder)
    return Source(
        output=output,
        member=member,
        item=f"day1_{folder.name}",
        episode=f"day1/{folder.name}",
        manifest=sha256_file(folder / "manifest.json"),
        sources={n: listed[n]["sha256"] for n in ("episode.yaml", "foa_48k/0001.wav")},
        sha256=sha256,
    )


def checksums(root: Path) -> None:
    rows = [p for p in sorted(root.rglob("*")) if p.is_file() and p.name != "checksums.sha256"]
    text = "".join(f"{sha256_file(p)}  {p.relative_to(root).as_posix()}\n" for p in rows)
    (root / "checksums.sha256").write_text(text)


def release(root: Path, episodes: list[Path]) -> None:
    """A table, a sound each, two shards, and one binary that holds all of them."""
    (root / "audio").mkdir(parents=True)
    rows, sources = ["file_name,participant,request\n"], []
    for folder in episodes:
        profile = profile_from_yaml((folder / "episode.yaml").read_text())
        name = f"audio/day1_{folder.name}.wav"
        (root / name).write_bytes(b"released " + hashlib.sha256(name.encode()).digest() * 400)
        rows.append(f'{name},{profile.speaker},"{profile.request}"\n')
        sources.append(source(folder, name, sha256=sha256_file(root / name)))
        sources += [source(folder, "metadata.csv"), source(folder, "all.parquet")]
    (root / "metadata.csv").write_text("".join(rows))
    (root / "all.parquet").write_bytes(b"PAR1\0" + os.urandom(5000))
    with tarfile.open(root / "shard-0.tar", "w") as tar:
        for folder in episodes:
            for suffix, data in (("foa.wav", os.urandom(3000)), ("json", b'{"half": true}\n')):
                info = tarfile.TarInfo(f"day1_{folder.name}.{suffix}")
                info.size = len(data)
                tar.addfile(info, io.BytesIO(data))
                sha = hashlib.sha256(data).hexdigest()
                sources.append(source(folder, "shard-0.tar", info.name, sha if suffix != "json" else None))
    (root / "LICENSE").write_text("CC BY 4.0\n")
    (root / "release.json").write_text('{"hearth_release": 1}\n')
    write_provenance(root, sources)
    checksums(root)


@pytest.fixture
def home(tmp_path: Path) -> tuple[Path, Path, dict[str, Path]]:
    """A data folder with Anna's, Ben's and shared episodes, a release in it and one elsewhere."""
    data, away = tmp_path / "data", tmp_path / "away"
    book = ConsentBook.open(data)
    until = date(2030, 1, 1)
    for who, name in (("anna", "Anna Berg"), ("ben", "Ben Maier")):
        book.add(who, ["recording", "sharing", "biometrics"], form="paper", until=until, names=[name])
    episodes = {
        "anna": episode(data, "ep0001-t1", "anna"),
        "again": episode(data, "ep0001-t2", "anna"),
        "ben": episode(data, "ep0002-t1", "ben"),
        "beside": episode(data, "ep0003-t1", "ben", "anna"),
        "ben2": episode(data, "ep0004-t1", "ben"),
    }
    release(data / "releases" / "one", list(episodes.values()))
    release(away / "two", [episodes["anna"], episodes["ben"]])
    session = data / "day1"
    lines = [{"step": "kept", "item": e.name[:6], "episode": e.name, "take": 1} for e in episodes.values()]
    lines.append({"step": "note", "item": "ep0001", "text": "she was nervous"})
    (session / "session.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    reviews = [
        {"episode": e.name, "manifest": sha256_file(e / "manifest.json"), "who": "ben", "why": f"as {e.name}"}
        for e in episodes.values()
    ]
    (session / "reviews.jsonl").write_text("".join(json.dumps(line) + "\n" for line in reviews))
    wav = (episodes["anna"] / "foa_48k" / "0001.wav").read_bytes()
    (away / "copy.bin").write_bytes(wav)
    (away / "inside.dat").write_bytes(b"\0head" + os.urandom(777) + wav[20_000:50_000] + os.urandom(333))
    (away / "diary.txt").write_text(
        "Anna Berg came.\nBen Maier came.\nplease turn on the lamp of ep0001-t1\n"
    )
    (away / "link.wav").symlink_to(episodes["anna"] / "foa_48k" / "0001.wav")
    (data / "biometrics" / "anna").mkdir(parents=True)
    (data / "biometrics" / "anna" / "voice.json").write_text("[1, 2]")
    return data, away, episodes


def everything(*roots: Path) -> dict[Path, bytes]:
    return {
        p: p.read_bytes() for root in roots for p in root.rglob("*") if p.is_file() and not p.is_symlink()
    }


def hashes_of(folder: Path) -> set[str]:
    return {sha256_file(p) for p in folder.rglob("*") if p.is_file() and "calibration" not in p.parts}


def check_clean(data: Path, away: Path, hashes: set[str], runs: list[bytes]) -> None:
    """No file, no member of a tar, no stretch of bytes, no name."""
    for path, content in everything(data, away).items():
        if data / "consent" / "erased" in path.parents:
            continue
        assert hashlib.sha256(content).hexdigest() not in hashes, path
        assert not any(run in content for run in runs), path
        assert b"anna" not in content.lower() and b"anna" not in str(path.name).lower().encode(), path
        if path.suffix == ".tar":
            with tarfile.open(path) as tar:
                for member in tar:
                    held = tar.extractfile(member)
                    assert held and hashlib.sha256(held.read()).hexdigest() not in hashes
                    assert "ep0001" not in member.name and "ep0003" not in member.name


def traces_of(episodes: dict[str, Path], data: Path, away: Path) -> tuple[set[str], list[bytes]]:
    gone = [episodes[name] for name in ("anna", "again", "beside")]
    hashes = set().union(*(hashes_of(folder) for folder in gone))
    for root in (data / "releases" / "one", away / "two"):
        hashes |= {
            sha256_file(p) for p in (root / "audio").iterdir() if "ep0001" in p.name or "ep0003" in p.name
        }
        for line in (root / "provenance.jsonl").read_text().splitlines():
            row = json.loads(line)
            if row["episode"].partition("/")[2] in {g.name for g in gone} and row["sha256"]:
                hashes.add(row["sha256"])
    runs = []
    for folder in gone:
        wav = (folder / "foa_48k" / "0001.wav").read_bytes()
        runs += [wav[at : at + 64] for at in range(1000, 60_000, 1000)]
        runs.append((folder / "video.mkv").read_bytes()[-64:])
    return hashes, runs


def test_withdrawal_leaves_no_byte_of_the_person_and_every_byte_of_the_others(home):
    data, away, episodes = home
    hashes, runs = traces_of(episodes, data, away)
    before = everything(episodes["ben"], episodes["ben2"])
    seen = everything(data, away)

    rehearsal = withdraw(data, "anna", also=[away], dry_run=True)
    after = everything(data, away)
    key = after.pop(data / "consent" / "pseudonyms.json")  # so that the real run says the same pseudonym
    assert b"nna" not in key
    assert after == seen and not rehearsal.done and len(rehearsal.episodes) == 3

    report = withdraw(data, "Anna Berg", also=[away])
    assert report.outcome.left == [] and report.done, report.outcome
    check_clean(data, away, hashes, runs)
    assert set(rehearsal.outcome.deleted) <= set(report.outcome.deleted)
    for path, content in before.items():
        if path.name not in ("episode.yaml", "manifest.json"):
            assert path.read_bytes() == content, path
    for name in ("ben", "ben2"):
        listed = read_manifest(episodes[name])
        assert all(sha256_file(episodes[name] / n) == entry["sha256"] for n, entry in listed.items())
        profile = profile_from_yaml((episodes[name] / "episode.yaml").read_text())
        assert profile.speaker == "ben" and profile.home is not None
        assert profile.home.household[0] == Member(id=report.pseudonym, name=report.pseudonym)
    journal = (data / "day1" / "session.jsonl").read_text()
    assert "ep0001" not in journal and "ep0003" not in journal and journal.count("ep0002-t1") == 1
    reviews = [json.loads(line) for line in (data / "day1" / "reviews.jsonl").read_text().splitlines()]
    assert {row["episode"]: row["manifest"] for row in reviews} == {
        episodes[name].name: sha256_file(episodes[name] / "manifest.json") for name in ("ben", "ben2")
    }, "reviews of the others go on being about what they were about"
    assert (away / "diary.txt").read_text() == f"{report.pseudonym} came.\nBen Maier came.\n"
    assert not (away / "link.wav").is_symlink() and not (data / "biometrics" / "anna").exists()
    assert ConsentBook.open(data).find("anna") is None and ConsentBook.open(data).check() == []


def test_a_release_keeps_the_others_or_says_that_it_has_to_be_made_again(home):
    data, away, episodes = home
    shard = (data / "releases" / "one" / "shard-0.tar").read_bytes()
    report = withdraw(data, "anna", also=[away])
    root = data / "releases" / "one"
    assert sorted(report.outcome.re_export) == [
        str(path) for path in (away / "inside.dat", away / "two", root)
    ], "a file of its own, and two releases"
    assert json.loads((root / "REEXPORT.json").read_text())["missing"] == ["all.parquet"]
    assert (root / "metadata.csv").read_text().count("\n") == 3, "the head and Ben's two"
    with tarfile.open(root / "shard-0.tar") as tar, tarfile.open(fileobj=io.BytesIO(shard)) as old:
        assert tar.getnames() == [
            f"day1_{episodes[name].name}.{s}" for name in ("ben", "ben2") for s in ("foa.wav", "json")
        ]
        for name in tar.getnames():
            assert tar.extractfile(name).read() == old.extractfile(name).read()  # type: ignore[union-attr]
    listed = dict(reversed(line.split("  ")) for line in (root / "checksums.sha256").read_text().splitlines())
    assert listed.pop("provenance.jsonl") == sha256_file(root / "provenance.jsonl")
    assert all(sha256_file(root / name) == digest for name, digest in listed.items())
    rows = [json.loads(line) for line in (root / "provenance.jsonl").read_text().splitlines()]
    assert {row["episode"] for row in rows} == {"day1/ep0002-t1", "day1/ep0004-t1"}
    assert {row["manifest"] for row in rows} == {
        sha256_file(episodes[name] / "manifest.json") for name in ("ben", "ben2")
    }


class Killed(BaseException):
    pass


@pytest.mark.parametrize("after", [1, 3, 8, 15, 25, 45])
def test_killed_at_any_point_the_next_run_finishes(home, monkeypatch: pytest.MonkeyPatch, after: int):
    data, away, episodes = home
    hashes, runs = traces_of(episodes, data, away)
    left = [after]
    real = {name: getattr(os, name) for name in ("unlink", "replace", "rmdir")}

    def counting(name: str):
        def call(*args: object, **kwargs: object) -> object:
            left[0] -= 1
            if left[0] == 0:
                raise Killed(name)
            return real[name](*args, **kwargs)

        return call

    with monkeypatch.context() as patch:
        for name in real:
            patch.setattr(os, name, counting(name))
        try:
            withdraw(data, "anna", also=[away])
            pytest.fail(f"fewer than {after} changes on disk: the test does not reach the middle")
        except Killed:
            pass
    begun = list((data / "consent" / "withdrawals").glob("*.json"))
    report = withdraw(data, "anna", also=[] if begun else [away])  # begun: the other folder is remembered
    assert report.done, report.outcome
    check_clean(data, away, hashes, runs)
    for name in ("ben", "ben2"):
        manifest = read_manifest(episodes[name])
        assert all(sha256_file(episodes[name] / n) == entry["sha256"] for n, entry in manifest.items())
    lines, problems = read_audit(data / "consent" / "audit.jsonl")
    assert problems == [] and [line["action"] for line in lines][-1] == "withdrawal_done"


def test_the_record_of_a_withdrawal_holds_a_pseudonym_and_numbers(home):
    data, away, _ = home
    report = withdraw(data, "anna", also=[away])
    lines, _ = read_audit(data / "consent" / "audit.jsonl")
    told = [line for line in lines if str(line["action"]).startswith("withdrawal")]
    assert [line["person"] for line in told] == [report.pseudonym] * 2
    assert told[1]["episodes"] == 3 and told[1]["hashes"] > 10
    assert not set(json.dumps(told).lower().split()) & {"anna", "berg"} and "ep0001" not in json.dumps(told)


def test_a_copy_that_turns_up_later_is_recognised_by_its_hash(home):
    data, away, episodes = home
    wav = (episodes["anna"] / "foa_48k" / "0001.wav").read_bytes()
    withdraw(data, "anna", also=[away])
    found = away / "backup"
    found.mkdir()
    (found / "x.wav").write_bytes(wav)
    report = withdraw(data, "anna", also=[found])
    assert report.done and not (found / "x.wav").exists()


def test_the_same_sound_brought_in_again_for_somebody_else_is_named(home):
    data, away, episodes = home
    again = episode(data, "ep0090-t1", "ben", seed=5)
    sound = (episodes["anna"] / "foa_48k" / "0001.wav").read_bytes()
    (again / "foa_48k" / "0001.wav").write_bytes(b"RIFX another header of the same samples" + sound[4:])
    write_manifest(again)
    copy = away / "copy.wav"
    copy.write_bytes(b"RIFF" + sound[9:])
    assert (str(again), True) in [(path, "same sound" in why) for path, why in
                                  withdraw(data, "anna", also=[away], dry_run=True).outcome.left]  # fmt: skip
    report = withdraw(data, "anna", also=[away])
    assert not report.done and [path for path, _ in report.outcome.left] == [str(again)]
    assert again.exists()
    shutil.rmtree(again)
    assert withdraw(data, "anna", also=[away]).done and not copy.exists()


def test_it_is_not_done_while_nobody_can_tell_whose_a_file_is(home):
    data, away, _ = home
    (away / "unknown.wav").write_bytes(os.urandom(9000))
    (data / "day1" / "broken").mkdir()
    (data / "day1" / "broken" / "episode.yaml").write_text("hearth_episode: [")
    report = withdraw(data, "anna", also=[away])
    assert not report.done and report.outcome.unexplained == [str(away / "unknown.wav")]
    assert [path for path, _ in report.outcome.left] == [str(data / "day1" / "broken")]
    (data / "day1" / "broken" / "episode.yaml").unlink()
    (data / "day1" / "broken").rmdir()
    assert withdraw(data, "anna", ignore_unexplained=True).done


def test_a_name_that_nobody_has_is_an_error_and_changes_nothing(home):
    data, away, _ = home
    before = everything(data, away)
    for wrong, match in (("clara", "nobody of that name"), (" ", "give the name")):
        with pytest.raises(InputError, match=match):
            withdraw(data, wrong, also=[away])
    with pytest.raises(InputError, match="no such folder"):
        withdraw(data, "anna", also=[away / "none"])
    assert everything(data, away) == before


def test_a_partial_folder_with_episodes_is_no_unfinished_release(home):
    data, away, _ = home
    copied, export = data / "backup.partial", data / "new.partial"
    ben = episode(copied, "ep0009-t1", "ben")
    anna = episode(copied, "ep0008-t1", "anna")
    other = episode(data / "odd.partial", "ep0007-t1", "ben")
    (other.parent.parent / ".export.json").write_text("{}")
    export.mkdir()
    (export / ".export.json").write_text('{"episodes": ["day1/ep0001-t1"]}')
    (export / "half.wav").write_bytes(os.urandom(500))
    wav = (ben / "foa_48k" / "0001.wav").read_bytes()
    report = withdraw(data, "anna", also=[away])
    assert report.done, report.outcome
    assert (ben / "foa_48k" / "0001.wav").read_bytes() == wav and (other / "video.mkv").is_file()
    assert not anna.exists() and not export.exists()


def test_nothing_hides_in_a_release_or_behind_an_empty_provenance(home):
    data, away, _ = home
    copied = data / "releases" / "one" / "audio" / "seen.wav"
    copied.write_bytes(b"RIFF" + os.urandom(5000))
    inside = episode(data / "releases" / "one", "ep0011-t1", "anna", session="raw")
    hidden = episode(data, "ep0012-t1", "anna", session="day2")
    (data / "day2" / "provenance.jsonl").write_text("")
    report = withdraw(data, "anna", also=[away])
    assert not report.done and report.outcome.unexplained == [str(copied)] and report.outcome.left == []
    assert not inside.exists() and not hidden.exists()


def test_an_episode_in_an_episode_is_named_and_not_deleted_unjudged(home):
    data, away, episodes = home
    inner = episode(episodes["anna"], "ep0013-t1", "ben", session="x")
    report = withdraw(data, "anna", also=[away])
    assert [path for path, _ in report.outcome.left] == [str(episodes["anna"])] and not report.done
    assert (inner / "video.mkv").is_file()


def test_links_to_episodes_elsewhere_are_named_and_nothing_is_called_done(home, tmp_path: Path):
    data, away, _ = home
    elsewhere = episode(tmp_path / "disk", "ep0014-t1", "anna", session="day9")
    (data / "day9").symlink_to(elsewhere.parent)
    report = withdraw(data, "anna", also=[away])
    assert not report.done and elsewhere.exists()
    assert report.outcome.left == [
        (str(data / "day9"), f"is a link to {elsewhere.parent}: give `--also {elsewhere.parent}`")
    ]
    assert withdraw(data, "anna", also=[away, elsewhere.parent]).done and not elsewhere.exists()


def test_sound_that_an_episode_only_links_to_is_asked_for(home, tmp_path: Path):
    data, _, episodes = home
    wav = episodes["anna"] / "foa_48k" / "0001.wav"
    (tmp_path / "disk").mkdir()
    wav.rename(tmp_path / "disk" / "0001.wav")
    wav.symlink_to(tmp_path / "disk" / "0001.wav")
    with pytest.raises(InputError, match=r"is a link to .*give `--also"):
        withdraw(data, "anna")
    assert episodes["anna"].exists()


def test_a_pipe_is_named_and_never_waited_for(home):
    data, away, episodes = home
    pipes = [data / "pipe.json", episodes["ben"] / "pipe", episodes["ben2"] / "calibration" / "p"]
    for pipe in pipes:
        os.mkfifo(pipe)
    report = withdraw(data, "anna", also=[away])
    assert sorted(path for path, _ in report.outcome.left) == sorted(map(str, pipes)) and not report.done


def test_copies_are_known_by_content_whatever_they_are_called(home):
    data, away, episodes = home
    take, ben = episodes["anna"], episodes["ben"]
    with tarfile.open(away / "backup.bin", "w:gz") as tar:
        tar.add(take, "a")
        tar.add(ben, "b")
    with tarfile.open(away / "old.tgz.bak", "w:gz") as tar:
        tar.add(take, "a")
    with zipfile.ZipFile(away / "plan.xlsx", "w") as book:
        book.writestr("[Content_Types].xml", "<x/>")
        book.writestr("sheet.xml", "<t>Anna Berg</t>")
    (away / "log.bz2").write_bytes(bz2.compress(b"ANNA came\nBen came\n"))
    (away / "log.xz").write_bytes(lzma.compress((take / "foa_48k" / "0001.wav").read_bytes()))
    (away / "u16.csv").write_bytes("who\nANNA\nben\n".encode("utf-16"))
    (away / "latin.txt").write_bytes("Annas Möbel\n".encode("latin-1"))
    with contextlib.closing(sqlite3.connect(away / "db.data")) as db:
        db.execute("create table t (a blob, who text, b blob)")
        db.execute("insert into t values (?, 'anna', ?)", (b"\0", b"\0"))
        db.commit()
    report = withdraw(data, "anna", also=[away])
    assert report.done, report.outcome
    with tarfile.open(away / "old.tgz.bak") as tar:
        assert [m.name for m in tar if m.isfile()] == ["a/calibration/camera.json"], "the room's, nobody's"
    gone = ("plan.xlsx", "log.xz", "db.data")
    assert not any((away / name).exists() for name in gone)
    with tarfile.open(away / "backup.bin", "r:gz") as tar:
        assert {name.partition("/")[0] for name in tar.getnames()} >= {"b"}
        held = tar.extractfile("b/video.mkv")
        assert held and held.read() == (ben / "video.mkv").read_bytes()
        assert not [m for m in tar if m.isfile() and m.name.endswith(".wav") and m.name.startswith("a/")]
    word = report.pseudonym
    assert bz2.decompress((away / "log.bz2").read_bytes()).decode() == f"{word} came\nBen came\n"
    assert (away / "u16.csv").read_bytes().decode("utf-16").split() == ["who", word, "ben"]
    assert (away / "latin.txt").read_bytes().decode("latin-1") == f"{word} Möbel\n"


def test_what_is_binary_and_nobodys_is_unexplained_whatever_it_is_called(home):
    data, away, _ = home
    rng = np.random.default_rng(7)
    heads = {"a.aac": b"\xff\xf1", "b.aiff": b"FORM", "c.raw": b"", "d.ts": b"G@", "e.tiff": b"II*\0"}
    heads |= {"f.w64": b"riff", "g.mka": b"\x1aE\xdf\xa3", "h.txt": b"7z\xbc\xaf\x27\x1c"}
    for name, head in heads.items():
        (away / name).write_bytes(head + rng.bytes(3000))
    (away / "i.gz").write_bytes(gzip.compress(rng.bytes(3000)))
    report = withdraw(data, "anna", also=[away])
    assert not report.done and report.outcome.left == []
    assert report.outcome.unexplained == [str(away / name) for name in sorted([*heads, "i.gz"])]
    (away / "torn.log").write_bytes(gzip.compress(b"x" * 999)[:-4])
    assert [path for path, _ in withdraw(data, "anna", also=[away]).outcome.left] == [str(away / "torn.log")]
