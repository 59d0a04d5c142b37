"""The ears of the agent, each alone: voices and how well they are told apart and understood, speakers with
impostors, the direction of a device's sound, its kind, and the fast loop: `python -m bench.agent_audio`.

Everything is heard in the virtual room (image sources, 0.3 s of reverberation, 30 dB above the noise) unless
a line says otherwise. The full form uses an unseen seed.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterable, Sequence
from functools import lru_cache

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

import dsp
from bench.agent_episodes import described_home, heard, seed_plan, times_ns
from bench.agent_household import household_items
from bench.figures import end_of_part, figure, not_measured, note, peer, quick
from capture.sources import open_rig
from capture.virtual.natural_voices import NATURAL
from capture.virtual.staged import staged_request, staged_rig
from capture.virtual.voices import SILENCE_S, VOICES, speak, voice_named
from dsp.errors import HearthError
from edge.perception.alarm_tone import AlarmSpotter
from edge.perception.device_sound import SoundDirectionTool, SoundKindTool
from edge.perception.keywords import KeywordSpotter, Noticed
from edge.perception.profiles import Identity, ProfileBook
from edge.perception.room_map import RoomMap
from edge.perception.tools import Scene
from edge.perception.utterance import BLOCK, RATE_HZ, utterances_in
from edge.perception.voice_identity import DVector, VoiceTool, talker_sound
from recordings.plan.model import Plan, PlanItem

F32 = NDArray[np.float32]

SEED, QUICK_SEED = 901, 91
FLOOR = 3e-4  # RMS of the noise under sentences that are heard without a room
STOP_WORDS = ("Stop!", "Stop it!")
MUTE_WORDS = ("Be quiet.", "Quiet!", "Silence!", "Shut up.")
NUMBERS = frozenset(
    (
        *("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven"),
        *("twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen"),
        *("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety", "hundred"),
        *("percent", "half", "quarter"),
    )
)
HARD_WORD = "Mute!"
OTHER_WORDS = (
    *("Yes.", "No.", "Okay.", "Top.", "Shop.", "Step.", "Cute.", "Hello.", "Thanks.", "What?", "Soup."),
    *("New.", "Cup.", "Shut the door.", "Light.", "Quite nice.", "Dinner!", "Coming!", "Wait.", "Really?"),
    *("Music.", "Never mind.", "I don't know.", "Start.", "Spot.", "Sit down.", "Good night.", "Not yet."),
)


def run(is_quick: bool) -> None:
    """Print the figures."""
    natural = _natural()
    _voices(natural, 6 if is_quick else 20)
    _speakers(natural, is_quick)
    _directions(is_quick)
    _fast(natural, is_quick)
    _alarms()


def _natural() -> bool:
    try:
        speak("Turn on the lamp, please.", voice_named("natural_1"))
    except HearthError as error:
        note(f"agent_audio: espeak-ng only, natural voices are not there: {error}")
        return False
    return True


# ---------------------------------------------------------------------- voices


def _voices(natural: bool, count: int) -> None:
    """Both sets of voices without a room: errors of the recogniser without expectations, and how alike two
    sentences are to the speaker model, of one voice and of two."""
    from edge.perception.whisper import WhisperRecogniser

    texts = _plain_texts(count)
    recogniser, model = WhisperRecogniser(), DVector()
    names = {"espeak": list(VOICES), "natural": [n for n in NATURAL if n.startswith("natural")]}
    for name, voices in names.items():
        if name == "natural" and not natural:
            continue
        wrong = words = 0
        vectors = []
        for voice in voices:
            spoken = [_spoken(text, voice) for text in texts]
            vectors.append(np.array([model.embed(mono, RATE_HZ) for mono in spoken]))
            for text, mono in zip(texts, spoken, strict=True):
                recognised = recogniser.recognise(np.r_[mono, np.zeros(2400, np.float32)], RATE_HZ)
                wrong += edits(_words(text), _words(recognised.text))
                words += len(_words(text))
        same, other = _alike(vectors)
        peer(f"voices_{name}_wer", 100 * wrong / words, "%")
        peer(f"voices_{name}_alike_same_p5", float(np.percentile(same, 5)), "cosine")
        peer(f"voices_{name}_alike_other_p95", float(np.percentile(other, 95)), "cosine")


def _alike(vectors: Sequence[NDArray[np.float32]]) -> tuple[list[float], list[float]]:
    """Cosines of sentences with the mean of three others of the same voice, and of all other voices."""
    same: list[float] = []
    other: list[float] = []
    for number, mine in enumerate(vectors):
        profile = mine[:3].mean(axis=0)
        profile /= np.linalg.norm(profile)
        for whose, theirs in enumerate(vectors):
            (same if whose == number else other).extend((theirs[3:] @ profile).tolist())
    return same, other


def _plain_texts(count: int) -> list[str]:
    """Requests of a plan without numbers, which a recogniser may write as digits."""
    texts = dict.fromkeys(item.request for item in _plan(3, None).items)
    plain = [text for text in texts if not NUMBERS & set(_words(text.replace("-", " ")))]
    return plain[:: max(1, len(plain) // count)][:count]


def _words(text: str) -> list[str]:
    return "".join(c if c.isalnum() or c == "'" else " " for c in text.lower()).split()


def edits(one: Sequence[str], other: Sequence[str]) -> int:
    """Levenshtein distance in words."""
    row = np.arange(len(other) + 1)
    for number, word in enumerate(one, 1):
        before, row = row, row.copy()
        row[0] = number
        for at, its in enumerate(other, 1):
            row[at] = min(before[at] + 1, row[at - 1] + 1, before[at - 1] + (word != its))
    return int(row[-1])


# ---------------------------------------------------------------------- speakers


def _speakers(natural: bool, is_quick: bool) -> None:
    """Five people, enrolled by three sentences each; then requests in all rooms, by them and by guests."""
    count = 15 if is_quick else 68
    for voices in ("natural", "espeak"):
        target = voices == "natural"
        if target and not natural:
            not_measured("speaker_right", "%", ">=", 95, "the natural voices are not installed")
            continue
        tool = VoiceTool(ProfileBook())
        assert isinstance(tool.model, DVector)
        plan = seed_plan(0, "natural" if target else None, per_cell=2)
        for item in household_items(plan):
            scene = hear(item, plan)
            assert scene is not None
            tool.book.enrol(
                item.speaker, tool.model.measure, [tool.model.embed(talker_sound(scene), RATE_HZ)]
            )
        known = list(_identities(tool, "natural" if target else None, count, is_quick))
        right = [found.person == speaker for speaker, found, _ in known]
        first = [found.candidates[0][0] == speaker for speaker, found, _ in known]
        wrong = [found.known and found.person != speaker for speaker, found, _ in known]
        if not target:
            peer("speaker_first_espeak", 100 * float(np.mean(first)), "%")
            peer("speaker_right_espeak", 100 * float(np.mean(right)), "%")
            continue
        guests = list(_identities(tool, "guest", count, is_quick))
        figure("speaker_first", 100 * float(np.mean(first)), "%", ">=", 97)
        figure("speaker_right", 100 * float(np.mean(right)), "%", ">=", 95)
        figure("speaker_taken_for_another", 100 * float(np.mean(wrong)), "%", "<=", 1)
        taken = [found.known for _, found, _ in guests]
        figure("speaker_guests_taken_for_family", 100 * float(np.mean(taken)), "%", "<=", 5)
        scores = [found.score for _, found, _ in known], [found.score for _, found, _ in guests]
        peer("speaker_equal_error_rate", 100 * equal_error(*scores), "%")
        peer("speaker_seconds_p50", float(np.median([s for *_, s in known])), "s")


def _identities(
    tool: VoiceTool, voices: str | None, count: int, is_quick: bool
) -> Iterable[tuple[str, Identity, float]]:
    plan = _plan(QUICK_SEED if is_quick else SEED, voices)
    for item in plan.items[:: len(plan.items) // count]:
        scene = hear(item, plan)
        found = None if scene is None else tool(scene)
        if found is not None and found.value is not None:
            yield item.speaker, found.value, found.seconds


def equal_error(same: Sequence[float], other: Sequence[float]) -> float:
    """The rate at which as many of the same are refused as others are taken."""
    limits = np.sort(np.r_[same, other])
    misses = np.array([np.mean(np.array(same) < limit) for limit in limits])
    taken = np.array([np.mean(np.array(other) >= limit) for limit in limits])
    at = int(np.argmin(np.abs(misses - taken)))
    return float((misses[at] + taken[at]) / 2)


# ---------------------------------------------------------------------- directions


def _directions(is_quick: bool) -> None:
    """The sounding device's direction, and that nothing is found where nothing sounds."""
    plan = _plan(QUICK_SEED if is_quick else SEED, None)
    sounding = [item for item in plan.items if item.staging.sounding]
    silent = [item for item in plan.items if not item.staging.sounding]
    tool, kind_tool = SoundDirectionTool(), SoundKindTool()
    errors, within, nearest, invented, kinds = [], [], [], [], []
    for item in sounding[:12] if is_quick else sounding:
        scene, sounds = heard_and_made(item, plan)
        if scene is None:
            continue
        found = tool(scene)
        devices = [d for d in scene.room.devices if d.position_m is not None]
        true = item.staging.sounding[0]
        kind = kind_tool(scene).value
        if len(item.staging.sounding) == 1:
            kinds.append(kind is not None and kind.best == sounds[item.staging.sounding[0]])
        if found.value is None:
            errors.append(180.0)
            nearest.append(False)
            continue
        away = {d.id: _degrees(scene.room.direction_to(d), found.value.unit) for d in devices}
        errors.append(min(away[name] for name in item.staging.sounding))
        within.append(errors[-1] <= found.value.sigma_deg)
        nearest.append(min(away, key=lambda name: away[name]) == true)
    for item in silent[:: len(silent) // (6 if is_quick else 40)]:
        scene = hear(item, plan)
        if scene is not None:
            invented.append(tool(scene).value is not None)
    figure("device_direction_median", float(np.median(errors)), "deg", "<=", 6)
    figure("device_direction_p90", float(np.percentile(errors, 90)), "deg", "<=", 12)
    figure("device_direction_within_sigma", 100 * float(np.mean(within)), "%", ">=", 68)
    peer("device_direction_nearest_is_it", 100 * float(np.mean(nearest)), "%")
    figure("sound_kind_right", 100 * float(np.mean(kinds)), "%", ">=", 90)
    figure("device_direction_where_nothing_sounds", 100 * float(np.mean(invented)), "%", "<=", 3)


def _degrees(one: NDArray[np.float64], other: NDArray[np.float64]) -> float:
    return float(np.degrees(np.arccos(np.clip(one @ other, -1, 1))))


# ---------------------------------------------------------------------- fast loop


def _fast(natural: bool, is_quick: bool) -> None:
    """Lone words of ten voices without a room and of the household in its rooms; false alarms in talk."""
    spotter = _Timed()
    voices = [n for n in NATURAL if natural or n.startswith("guest")] if natural else list(VOICES)
    voices = voices[::2] if is_quick else voices
    for name, words, target in (
        ("stop", STOP_WORDS, 90.0),
        ("be_quiet", MUTE_WORDS, 90.0),
        ("mute", (HARD_WORD,), None),
    ):
        hits = [spotter.hits(word, voice, name) for word in words for voice in voices]
        if target is None:
            peer(f"spotter_hits_{name}", 100 * float(np.mean(hits)), "%")
        else:
            figure(f"spotter_hits_{name}", 100 * float(np.mean(hits)), "%", ">=", target)
    _spotted_in_rooms(spotter, natural, is_quick)
    figure("spotter_p50_after_the_word", float(np.median(spotter.late)), "s", "<=", 0.3)
    peer("spotter_p95_after_the_word", float(np.percentile(spotter.late, 95)), "s")
    peer("spotter_cpu_p50_of_a_word", float(np.median(spotter.cpu)), "s")
    taken = [spotter.hears(word, voice) for word in OTHER_WORDS for voice in voices]
    peer("spotter_other_lone_words_taken", 100 * float(np.mean(taken)), "%")
    talk_s = false = 0.0
    texts = [item.request for item in _plan(QUICK_SEED if is_quick else SEED, None).items]
    for number, text in enumerate(texts[:40] if is_quick else texts):
        mono = _spoken(text, voices[number % len(voices)])
        talk_s += len(mono) / RATE_HZ + 1.0
        false += len(spotter.listen(np.r_[mono, np.zeros(RATE_HZ, np.float32)]))
    figure("spotter_false_alarms_per_hour_of_talk", 3600 * false / talk_s, "/h", "<=", 2)
    peer("spotter_talk_heard", talk_s / 60, "min")


class _Timed:
    """A spotter, and how late it was. late: from the end of a word, with the CPU time that it took (nothing
    else may wait for a core); cpu: of the block in which it decided."""

    def __init__(self) -> None:
        self._spotter = KeywordSpotter(RATE_HZ)
        self._t_ns = 10**9
        self.late: list[float] = []
        self.cpu: list[float] = []

    def listen(self, mono: F32) -> list[tuple[Noticed, float]]:
        """What is noticed in mono (frames,), with the CPU seconds of that moment; times from its start."""
        floor = np.random.default_rng(len(mono)).normal(0, FLOOR, len(mono)).astype(np.float32)
        found, start_ns = [], self._t_ns
        for first in range(0, len(mono), BLOCK):
            before = time.process_time()
            block = mono[first : first + BLOCK] + floor[first : first + BLOCK]
            noticed = self._spotter.push(block, start_ns + round(first * 1e9 / RATE_HZ))
            spent = time.process_time() - before
            found += [(one, spent, start_ns) for one in noticed]
        self._t_ns += round(len(mono) * 1e9 / RATE_HZ) + 10**9  # a gap: afresh
        return [(one, spent) for one, spent, _ in found]

    def hears(self, word: str, voice: str, kind: str | None = None) -> bool:
        """Whether the lone word is taken for a command (of this kind)."""
        mono = _spoken(word, voice)
        start_ns = self._t_ns
        found = self.listen(np.r_[np.zeros(RATE_HZ, np.float32), mono, np.zeros(RATE_HZ, np.float32)])
        for one, spent in found[:1]:
            end_s = 1 + len(mono) / RATE_HZ - SILENCE_S
            self.late.append((one.decided_ns - start_ns) / 1e9 - end_s + spent)
            self.cpu.append(spent)
        return bool(found) and (kind is None or found[0][0].kind == kind)

    def hits(self, word: str, voice: str, name: str) -> bool:
        return self.hears(word, voice, "stop" if name == "stop" else "mute")


def _spotted_in_rooms(spotter: _Timed, natural: bool, is_quick: bool) -> None:
    plan = _plan(3, "natural" if natural else None)
    quiet = [item for item in plan.items if not item.staging.sounding]
    hits = []
    for number, item in enumerate(quiet[:: len(quiet) // (6 if is_quick else 30)]):
        word = (*STOP_WORDS[:1], *MUTE_WORDS[:2])[number % 3]
        foa, *_ = _sound(replace(item, request=word), plan)
        hits.append(bool(spotter.listen(np.ascontiguousarray(foa[:, 0]))))
    figure("spotter_hits_in_rooms", 100 * float(np.mean(hits)), "%", ">=", 85)


# ---------------------------------------------------------------------- alarms


def _alarms() -> None:
    """Alarms by their standards, 3 m away in a room; all sounds of devices are no alarm."""
    from capture.virtual.room import foa_response
    from capture.virtual.sound import KIND_OF_TYPE, device_loop

    response = foa_response((5.0, 4.0, 2.6), (4.2, 3.0, 2.4), (1.5, 1.2, 1.0), 0.4, 48000, 0.0, None, 1.0, 1)
    found, late = [], []
    for hz in (2700, 2900, 3100, 3300, 3500, 3900):
        for on_s, off_s, count, certain_s in ((0.5, 0.5, 3, 1.35), (0.1, 0.1, 4, 0.46), (3.0, 0.0, 1, 2.0)):
            pulse = np.r_[np.sin(2 * np.pi * hz * np.arange(round(on_s * 48000)) / 48000)]
            dry = np.tile(np.r_[pulse, np.zeros(round(off_s * 48000))], count)
            noticed = _alarmed(_in_room(dry, response))
            found.append(bool(noticed))
            late += [one.decided_ns / 1e9 - 2 - certain_s for one in noticed[:1]]
    figure("alarm_hits", 100 * float(np.mean(found)), "%", ">=", 95)
    figure("alarm_p95_after_it_is_certain", float(np.percentile(late, 95)), "s", "<=", 0.3)
    false = [
        bool(_alarmed(_in_room(device_loop(kind, sound, seed), response)))
        for kind, sound in KIND_OF_TYPE.items()
        for seed in range(3)
    ]
    figure("alarm_false_of_device_sounds", 100 * float(np.mean(false)), "%", "<=", 0)


def _in_room(dry: NDArray[np.float64], response: NDArray[np.float32]) -> F32:
    """A second of silence, then the sound, -35 dBFS, over the floor: (frames, 4) at 24 kHz."""
    from scipy.signal import fftconvolve

    wet = fftconvolve(dry[:, None], response, axes=0)
    wet *= 10 ** (-35 / 20) / np.sqrt(np.mean(wet[np.abs(wet) > 0.1 * np.abs(wet).max()] ** 2))
    foa = np.pad(dsp.resample(wet.astype(np.float32), 48000, RATE_HZ), ((RATE_HZ, RATE_HZ), (0, 0)))
    return np.asarray(foa + np.random.default_rng(1).normal(0, FLOOR, foa.shape), np.float32)


def _alarmed(sound: F32) -> list[Noticed]:
    spotter, found = AlarmSpotter(RATE_HZ), []
    for first in range(0, len(sound), BLOCK):
        found += spotter.push(sound[first : first + BLOCK], 10**9 + round(first * 1e9 / RATE_HZ))
    return found


# ---------------------------------------------------------------------- scenes


@lru_cache(maxsize=4)
def _plan(seed: int, voices: str | None) -> Plan:
    return seed_plan(seed, voices)


def _spoken(text: str, voice: str) -> F32:
    """A sentence without a room, (frames,) at 24 kHz, RMS 0.05."""
    mono = 0.05 * speak(text, voice_named(voice)).astype(np.float32)
    return np.asarray(dsp.resample(mono[:, None], 48000, RATE_HZ)[:, 0], np.float32)


def _sound(item: PlanItem, plan: Plan) -> tuple[F32, RoomMap, dict[str, str]]:
    """(frames, 4) at 24 kHz, the map, and what each device there is made to sound like."""
    with tempfile.TemporaryDirectory() as folder:
        rig = staged_rig(item, plan, storage=folder)
        with open_rig(rig, staged=staged_request(item, plan)) as opened:
            assert opened.scene is not None
            sources = opened.scene.truth.sources
            sounds = {s.device_id: s.sound for s in sources if s.device_id is not None and s.sound}
            return heard(opened), RoomMap(described_home(item, plan)), sounds


def hear(item: PlanItem, plan: Plan) -> Scene | None:
    """An episode as an agent hears it, without pictures; None when nobody is heard."""
    return heard_and_made(item, plan)[0]


def heard_and_made(item: PlanItem, plan: Plan) -> tuple[Scene | None, dict[str, str]]:
    """As `hear`, and the truth beside it: what each device is made to sound like."""
    foa, room, sounds = _sound(item, plan)
    said = utterances_in(foa, times_ns)
    if not said:
        return None, sounds
    return Scene(max(said, key=lambda one: one.duration_s), (), room), sounds


def main() -> int:
    """Run this part alone."""
    run(quick())
    return end_of_part("agent-audio")


if __name__ == "__main__":
    raise SystemExit(main())
