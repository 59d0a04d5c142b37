"""Same speech or not, who heard it better, ids, addresses: with rendered rooms whose truth is known."""

from __future__ import annotations

import time
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.signal import fftconvolve, resample_poly

from capture.blocks import monotonic_ns
from capture.virtual.room import foa_response
from capture.virtual.utterance import speech, utterances
from dsp.errors import InputError
from edge.home import Home
from edge.home.agent_desk import AgentDesk
from edge.perception.utterance import Utterance, UtteranceCutter
from edge.perception.voice import Voice
from edge.rigs.addresses import RigAddress, rigs_of
from edge.rigs.arbiter import Arbiter
from edge.rigs.evidence import gather, noise_power, odds
from edge.rigs.identity import rig_id
from edge.rigs.link import Heard
from edge.rigs.rig_set import RigSet
from edge.rigs.same_speech import RATE_HZ, compare, margin_s
from edge.stream import CommandServer, Publisher

F32 = NDArray[np.float32]
SIZE, TALKER = (6.0, 5.0, 2.6), (2.0, 2.5, 1.5)
NEAR, FAR = (2.8, 2.5, 1.2), (5.2, 4.0, 1.2)
NOISE = 1e-3


@lru_cache
def heard(sentence: int, place: tuple[float, float, float], seed: int) -> F32:
    """A sentence with a second of silence around it, in AmbiX at 24 kHz, with noise."""
    dry = resample_poly(speech(utterances()[sentence]), 1, 2) * 0.1
    dry = np.pad(dry[: 2 * RATE_HZ], RATE_HZ)
    room = foa_response(SIZE, TALKER, place, 0.4, RATE_HZ)
    wet = np.stack([fftconvolve(dry, room[:, c])[: len(dry)] for c in range(4)], axis=1)
    noise = np.random.default_rng(seed).standard_normal(wet.shape) * NOISE
    return np.asarray(wet + noise, np.float32)


def pieces(one: F32, other: F32, clock_s: float = 0.0) -> tuple[F32, F32]:
    frames = min(len(one), len(other)) - 2 * RATE_HZ
    margin = round(margin_s(clock_s) * RATE_HZ)
    return one[RATE_HZ : RATE_HZ + frames], other[RATE_HZ - margin : RATE_HZ + frames + margin]


def test_one_talker_is_the_same_and_the_time_difference_is_that_of_the_way() -> None:
    near, far = heard(0, NEAR, 1), heard(0, FAR, 2)
    way = [float(np.linalg.norm(np.subtract(TALKER, place))) for place in (NEAR, FAR)]
    for clock_s in (0.0, 0.005):
        found = compare(*pieces(near, far, clock_s), (NOISE**2, NOISE**2), clock_s)
        assert found.same
        assert abs(found.later_s - (way[1] - way[0]) / 343) <= 2 * found.sigma_s
        assert found.sigma_s >= clock_s
    back = compare(*pieces(far, near), (NOISE**2, NOISE**2))
    assert back.same and back.later_s < 0


def test_a_clock_that_is_wrong_within_its_bound_still_finds_the_same_speech() -> None:
    near, far = heard(0, NEAR, 1), heard(0, FAR, 2)
    late = round(0.004 * RATE_HZ)
    found = compare(*pieces(near[: len(near) - late], far[late:], 0.005), (NOISE**2, NOISE**2), 0.005)
    assert found.same


def test_two_sentences_at_once_are_not_the_same() -> None:
    one, other = heard(0, NEAR, 1), heard(9, FAR, 2)
    assert compare(*pieces(one, other)).share < 0.3
    leaking = one[: len(other)] + 0.1 * other[: len(one)]  # 20 dB through the door
    assert not compare(*pieces(leaking, other)).same


def test_noise_is_not_the_same_and_wrong_lengths_are_said() -> None:
    random = np.random.default_rng(3)
    one, other = (random.standard_normal((4 * RATE_HZ, 4)).astype(np.float32) for _ in range(2))
    assert compare(*pieces(one, other)).share < 0.2
    with pytest.raises(InputError, match="frames more"):
        compare(one, other)


def test_the_nearer_rig_wins_whatever_the_gains_are() -> None:
    near, far = heard(0, NEAR, 1), heard(0, FAR, 2) * np.float32(8.0)  # the far microphone is 18 dB louder
    noises = noise_power(near[:RATE_HZ]), noise_power(far[:RATE_HZ])
    one, other = pieces(near, far)
    margin = round(margin_s(0.0) * RATE_HZ)
    a, b = gather(one, noises[0]), gather(other[margin:-margin], noises[1])
    assert a.level_dbfs < b.level_dbfs
    assert a.snr_db > b.snr_db and a.confidence > b.confidence
    parts = odds(a, b, compare(one, other, noises))
    assert min(parts["arrival"], parts["snr"], parts["direction"]) > 0
    reverse = odds(b, a, compare(*pieces(far, near), noises[::-1]))
    assert reverse["sum"] < 0 < parts["sum"]


class Ear:
    """A rig for the arbiter, whose sound is there already."""

    def __init__(self, name: str, sound: F32, begin_ns: int) -> None:
        self.id, self._sound, self._begin_ns = name, sound, begin_ns
        self.alive, self.clock_s = True, 0.0
        self.speaking_since_ns: int | None = None

    def covers_ns(self) -> int:
        return self._begin_ns + round(len(self._sound) * 1e9 / RATE_HZ)

    def sound(self, start_ns: int, frames: int) -> F32 | None:
        first = round((start_ns - self._begin_ns) * RATE_HZ / 1e9)
        return self._sound[first : first + frames] if 0 <= first <= len(self._sound) - frames else None

    def cut(self, first: int = RATE_HZ, last: int = 3 * RATE_HZ) -> Heard:
        """What this rig cuts out of its sound, as known now."""
        start_ns, end_ns = (self._begin_ns + round(frame * 1e9 / RATE_HZ) for frame in (first, last))
        sound, before = self._sound[first:last], self._sound[:first]
        now_ns = monotonic_ns()
        utterance = Utterance(sound, start_ns, np.ones(len(sound), bool), before, end_ns, now_ns)
        return Heard(self, utterance, start_ns, end_ns, now_ns)  # type: ignore[arg-type]


class Court:
    """An arbiter between a near and a far rig, and what came of it."""

    def __init__(self, far: int = 0) -> None:
        sounds = [np.pad(heard(s, p, k), ((0, RATE_HZ // 2), (0, 0))) for k, (s, p) in enumerate(
            ((0, NEAR), (far, FAR))
        )]  # fmt: skip
        begin_ns = monotonic_ns() - round(4.5e9)
        self.near, self.far = (Ear(n, s, begin_ns) for n, s in zip(("near", "far"), sounds, strict=True))
        self.given: list[str] = []
        self.told: list[dict[str, Any]] = []
        self.arbiter = Arbiter(
            lambda: [self.near, self.far],
            lambda heard: self.given.append(heard.rig.id),
            lambda data, about: self.told.append({**data, "of": [ear.id for ear in about]}),
        )

    def wait(self, decisions: int) -> None:
        deadline = time.monotonic() + 30
        while len(self.told) < decisions and time.monotonic() < deadline:
            time.sleep(0.01)
        assert len(self.told) >= decisions


@pytest.mark.parametrize("far_first", [True, False])
def test_one_utterance_is_given_once_whoever_is_first(far_first: bool) -> None:
    court = Court()
    order = (court.far, court.near) if far_first else (court.near, court.far)
    for number, ear in enumerate(order):
        court.arbiter.hear(ear.cut())
        court.wait(number + 1)
    court.arbiter.close()
    assert court.given == ["near"]
    assert {d["case"] for d in court.told} == {1} and all(d["winner"] == "near" for d in court.told)
    assert all(sorted(d["of"]) == ["far", "near"] for d in court.told)


def test_pieces_that_the_far_rig_cuts_are_not_answered_beside_the_whole() -> None:
    court = Court()
    court.near.speaking_since_ns = 1  # it hears on
    court.arbiter.hear(court.far.cut(RATE_HZ, 2 * RATE_HZ))
    court.wait(1)
    court.near.speaking_since_ns = None
    court.arbiter.hear(court.near.cut())
    court.arbiter.hear(court.far.cut(2 * RATE_HZ, 3 * RATE_HZ))
    court.wait(3)
    court.arbiter.close()
    assert court.given == ["near"]


@pytest.mark.parametrize(("dies", "words"), [(True, "fell silent"), (False, "heard no utterance in the end")])
def test_a_winner_without_an_utterance_leaves_it_to_the_other(dies: bool, words: str) -> None:
    court = Court()
    court.near.speaking_since_ns = 1 if dies else None
    court.arbiter.hear(court.far.cut())
    court.wait(1)
    assert court.told[0]["winner"] == "near" and court.given == []
    court.near.alive = not dies
    court.wait(2)
    court.arbiter.hear(court.near.cut())  # after all, too late
    court.wait(3)
    court.arbiter.close()
    assert court.given == ["far"]
    assert words in court.told[1]["why"] and court.told[1]["winner"] == "far"


def test_a_rig_that_is_late_is_not_waited_for_and_is_silent_later() -> None:
    court = Court()
    covers, court.near.covers_ns = court.near.covers_ns, lambda: 0  # type: ignore[method-assign]
    court.arbiter.hear(court.far.cut())
    court.wait(1)
    assert "not waited for: near" in court.told[0]["why"]
    court.near.covers_ns = covers  # type: ignore[method-assign]
    court.arbiter.hear(court.near.cut())
    court.wait(2)
    court.arbiter.close()
    assert court.given == ["far"]


def test_two_people_at_once_are_both_answered() -> None:
    court = Court(far=9)
    court.arbiter.hear(court.near.cut())
    court.arbiter.hear(court.far.cut())
    court.wait(2)
    court.arbiter.close()
    assert court.given == ["near", "far"]
    assert [d["verdict"] for d in court.told] == ["given", "given"]


def test_an_id_lasts(tmp_path: Path) -> None:
    first = rig_id(None, tmp_path / "new")
    assert first == rig_id(None, tmp_path / "new") and first[1]
    assert first[0] != rig_id(None, tmp_path / "other")[0]
    assert rig_id("kitchen", tmp_path / "new") == ("kitchen", True)
    (tmp_path / "new" / "rig_id").write_text("what is this?")
    strange, lasting = rig_id(None, tmp_path / "new")
    assert not lasting and strange != first[0]
    assert (tmp_path / "new" / "rig_id").read_text() == "what is this?"  # not ours: left alone
    (tmp_path / "file").write_text("")
    assert not rig_id(None, tmp_path / "file")[1]  # no folder can be made there


def test_lists_of_rigs(tmp_path: Path) -> None:
    file = tmp_path / "house.yaml"
    file.write_text("rigs:\n  - {name: hall, stream: 'tcp://h:1', commands: 'tcp://h:2', keys: own}\n")
    found = rigs_of(["ipc:///a, ipc:///b"], file, "given")
    assert [(rig.stream, rig.commands, rig.keys) for rig in found] == [
        ("ipc:///a", "ipc:///b", "given"),
        ("tcp://h:1", "tcp://h:2", "own"),
    ]
    for options, text, words in (
        (["tcp://a:1"], "", "STREAM,COMMANDS"),
        (["http://a,tcp://b:2"], "", "regex"),
        (["tcp://h:1,tcp://x:2"], None, "two rigs have the same stream address tcp://h:1"),
        ([], "rigs: []", "empty"),
        ([], "rigs: [{stream: 'tcp://h:1'}]", "commands"),
        ([], "rigs: [{strem: 'tcp://h:1', commands: 'tcp://h:2'}]", "strem"),
        ([], "- [", "cannot read"),
    ):
        if text is not None:
            file.write_text(text or "rigs: [{stream: 'tcp://z:1', commands: 'tcp://z:2'}]")
        else:
            file.write_text("rigs: [{stream: 'tcp://h:1', commands: 'tcp://h:2'}]")
        with pytest.raises(InputError, match=words):
            rigs_of(options, file)


def served(rig: str, run: int) -> tuple[Publisher, CommandServer]:
    server = CommandServer("tcp://127.0.0.1:0")
    publisher = Publisher("tcp://127.0.0.1:0")
    server.register("rig.describe", lambda: {"id": rig, "run": run})
    AgentDesk(Home([]), server, publisher)
    return publisher, server


@pytest.mark.parametrize(("runs", "words"), [((1, 2), "two rigs have the id hall"), ((1, 1), "are one rig")])
def test_two_rigs_with_one_id_are_named(runs: tuple[int, int], words: str) -> None:
    rigs = [served("hall", run) for run in runs]
    addresses = [RigAddress(stream=p.address, commands=s.address) for p, s in rigs]
    both = RigSet(addresses, lambda heard: None, cutter=lambda: UtteranceCutter(lambda: Deaf()))
    try:
        with pytest.raises(InputError, match=words) as error:
            both.start(20.0)
        assert all(address.stream in str(error.value) for address in addresses)
    finally:
        both.close()
        for publisher, server in rigs:
            publisher.close()
            server.close()


class Deaf:
    """A voice detector for streams without sound."""

    def push(self, mono: F32) -> list[Voice]:
        return []


def test_a_rig_that_is_down_or_restarted_disturbs_no_other() -> None:
    """One of three addresses has nobody; one rig is replaced by another run; the third goes on."""
    servers = {name: served(name, 0) for name in ("steady", "restarted")}
    for name, (publisher, server) in servers.items():
        server.register("rig.describe", describer(name, publisher))
    addresses = [
        RigAddress(stream=p.address, commands=s.address, name=name) for name, (p, s) in servers.items()
    ]
    addresses.append(RigAddress(stream="tcp://127.0.0.1:9", commands="tcp://127.0.0.1:9", name="nobody"))
    met: list[str] = []
    rigs = RigSet(
        addresses,
        lambda heard: None,
        described=lambda link: met.append(link.id),
        cutter=lambda: UtteranceCutter(lambda: Deaf()),
    )
    publisher, server = servers["restarted"]
    block = np.zeros((240, 4), np.float32)
    try:
        rigs.start(3.0)
        assert sorted(met) == ["restarted", "steady"]
        steady, restarted, nobody = rigs.links
        publisher.close()
        publisher = Publisher(publisher.address)
        server.register("rig.describe", describer("restarted", publisher))
        deadline = time.monotonic() + 20
        while (len(met) < 3 or not (steady.alive and restarted.alive)) and time.monotonic() < deadline:
            for out in (servers["steady"][0], publisher):
                out.publish("foa24", monotonic_ns() - 10_000_000, block, units="full scale +-1")
            time.sleep(0.01)
        assert met[2:] == ["restarted"]
        assert restarted.about is not None and restarted.about.run == publisher.epoch
        assert steady.alive and restarted.alive and not nobody.alive
        assert not rigs.over
    finally:
        rigs.close()
        for out, commands in (*servers.values(), (publisher, server)):
            out.close()
            commands.close()


def describer(name: str, publisher: Publisher) -> Any:
    """Answers `rig.describe` with the epoch of this publisher."""
    return lambda: {"id": name, "run": publisher.epoch}
