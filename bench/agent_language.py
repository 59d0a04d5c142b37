"""Words: what the grammar makes of them, and of speech: `python -m bench.agent_language`.

True text: the requests of generated plans, and sentences in words of their own (`bench.own_words`). Speech:
episodes as the virtual microphone hears them, aimed at the talker, by voice backend; the recogniser as it
comes (peer: plain Whisper) and guided by the home. An intent is right when no slot differs from the episode's
goal (`bench.intent_truth`). The full form uses an unseen seed.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np

from bench.agent_audio import edits, hear
from bench.agent_episodes import seed_plan
from bench.figures import end_of_part, figure, not_measured, note, peer, quick
from bench.intent_truth import differences, home_words
from bench.own_words import SENTENCES, summary
from capture.virtual.voices import speak, voice_named
from dsp.errors import HearthError, MissingDependency
from edge.language import understand, understand_speech
from edge.language.expectation import expectation
from edge.language.plain_text import spoken
from edge.perception.listening import talker_beam
from edge.perception.utterance import RATE_HZ

SEED, QUICK_SEED = 902, 92
BACKENDS = {"espeak": None, "natural": "natural"}
QUICK_STEP, STEP = 20, 5  # every so many-th of the 340 episodes is spoken


def run(is_quick: bool) -> None:
    """Print the figures."""
    seed = QUICK_SEED if is_quick else SEED
    _text(seed)
    _own_words()
    for backend, voices in BACKENDS.items():
        _speech(backend, voices, seed, QUICK_STEP if is_quick else STEP)


def _text(seed: int) -> None:
    right: dict[str, list[bool]] = {}
    seconds = []
    for item in seed_plan(seed).items:
        home = home_words(item)
        began = time.process_time()
        intent = understand(item.request, home)
        seconds.append(time.process_time() - began)
        wrong = differences(item, intent, home)
        right.setdefault(item.query, []).append(not wrong)
        if wrong:
            note(f"agent_language: {item.request!r}: {', '.join(wrong)}")
    for query, results in sorted(right.items()):
        peer(f"language text intents right {query}", 100 * float(np.mean(results)), "%")
    everything = [one for results in right.values() for one in results]
    figure("language text intents right", 100 * float(np.mean(everything)), "%", ">=", 98)
    figure("language text seconds p95", float(np.quantile(seconds, 0.95)), "s", "<=", 0.02)


def _own_words() -> None:
    home = home_words(seed_plan(QUICK_SEED).items[0])
    wrong = [text for text, meant in SENTENCES if summary(understand(text, home)) != meant]
    for text in wrong:
        note(f"agent_language: not understood: {text!r}")
    share = 100 * (1 - len(wrong) / len(SENTENCES))
    figure("language own words right", share, "%", ">=", 90)


@dataclass
class _Heard:
    """Sums over the utterances of one backend; words: how many were said."""

    words: int = 0
    wrong_free: int = 0
    wrong: int = 0
    right_free: int = 0
    right: int = 0
    lost: int = 0
    count: int = 0


def _speech(backend: str, voices: str | None, seed: int, step: int) -> None:
    names = ("errors", "intents right", "seconds")
    try:
        speak("Turn on the lamp, please.", voice_named("natural_1" if voices else "voice_1"))
        from edge.perception.whisper import WhisperRecogniser

        recogniser = WhisperRecogniser(threads=1)
    except (HearthError, MissingDependency) as error:
        for name in names:
            not_measured(f"language speech {backend} {name}", "%", ">=", 90, str(error))
        return
    plan = seed_plan(seed, voices)
    heard = _Heard()
    seconds, lengths = [], []
    recogniser.recognise(np.random.default_rng(0).normal(0, 0.01, RATE_HZ).astype(np.float32), RATE_HZ)
    for item in plan.items[::step]:
        home = home_words(item)
        known = expectation(home)
        known.nearest(["turn off the lamp"], 2)  # compiled before it is timed
        heard.count += 1
        heard.words += len(spoken(item.request).split())
        scene = hear(item, plan)
        if scene is None:
            heard.lost += 1
            heard.wrong += len(spoken(item.request).split())
            continue
        beam = talker_beam(scene)
        free = recogniser.recognise(beam, RATE_HZ)
        began = time.process_time()
        guided = recogniser.recognise_request(beam, RATE_HZ, known)
        intent = understand_speech(guided, home)
        seconds.append(time.process_time() - began)
        lengths.append(len(beam) / RATE_HZ)
        said = spoken(item.request).split()
        heard.wrong_free += edits(said, spoken(free.text).split())
        heard.wrong += edits(said, spoken(guided.text).split())
        heard.right_free += not differences(item, understand(free.text, home), home)
        wrong = differences(item, intent, home)
        heard.right += not wrong
        if wrong:
            note(f"agent_language: {item.request!r} heard {guided.text!r}: {', '.join(wrong)}")
    _print(backend, heard, seconds, lengths)


def _print(backend: str, heard: _Heard, seconds: list[float], lengths: list[float]) -> None:
    name = f"language speech {backend}"
    peer(f"{name} word errors, plain Whisper", 100 * heard.wrong_free / heard.words, "%")
    figure(f"{name} word errors", 100 * heard.wrong / heard.words, "%", "<=", 8)
    peer(f"{name} intents right, plain Whisper", 100 * heard.right_free / heard.count, "%")
    figure(f"{name} intents right", 100 * heard.right / heard.count, "%", ">=", 90)
    peer(f"{name} seconds of speech p50", float(np.median(lengths)), "s")
    # CPU time of one thread: what it takes on one core that nobody else uses.
    figure(f"{name} CPU seconds to the intent p50", float(np.median(seconds)), "s", "<=", 1.0)
    figure(f"{name} CPU seconds to the intent p95", float(np.quantile(seconds, 0.95)), "s", "<=", 1.0)
    if heard.lost:
        note(f"agent_language: {heard.lost} of {heard.count} utterances were not noticed")


def main() -> int:
    """Run this part alone."""
    run(quick())
    return end_of_part("agent-language")


if __name__ == "__main__":
    raise SystemExit(main())
