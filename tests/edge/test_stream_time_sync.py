"""The rig's clock from another host: the estimate against clocks of which the truth is known."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import pytest
import zmq

from capture.blocks import monotonic_ns
from dsp.errors import DeviceError, InputError
from edge.stream import Client, CommandServer, Publisher, RigClock
from edge.stream.time_sync import MAX_RTT_NS, ClockEstimator, Exchange, clock_id

ANY = "tcp://127.0.0.1:0"
START_NS = 1_000_000_000_000
MS = 1_000_000


def skewed(offset_ns: int, drift_ppm: float) -> Callable[[float], int]:
    """A rig's clock that is known exactly: local time in, rig time out."""
    return lambda local: round(local + offset_ns + drift_ppm * 1e-6 * (local - START_NS))


def exchange(rig: Callable[[float], int], at_ns: float, out_ns: float, back_ns: float) -> Exchange:
    """Sent at `at_ns`; the rig takes 20 us to answer."""
    arrived = at_ns + out_ns
    answered = arrived + 20_000
    return Exchange(round(at_ns), rig(arrived), rig(answered), round(answered + back_ns))


def run(
    rig: Callable[[float], int],
    delays: Callable[[int], tuple[float, float]],
    seconds: int,
    estimator: ClockEstimator | None = None,
    first: int = 0,
) -> ClockEstimator:
    """One exchange a second."""
    estimator = estimator or ClockEstimator()
    for n in range(first, first + seconds):
        estimator.add(exchange(rig, START_NS + n * 1e9, *delays(n)))
    return estimator


def test_even_paths_give_offset_and_drift_exactly() -> None:
    """Closed form: with equal ways the middle of each exchange is the offset, and the line is the drift."""
    rig = skewed(5_000_000_000_000, 40.0)
    state = run(rig, lambda n: (3 * MS, 3 * MS), 200).state(now := START_NS + 205_000_000_000)
    assert state is not None
    assert abs(state.offset_ns - (rig(now) - now)) < 2_000  # of a round trip of 6 ms
    assert state.drift_ppm == pytest.approx(40.0, abs=0.01)
    assert state.rtt_ns == pytest.approx(6 * MS, abs=1_000) and state.path == "even"
    # Half of the round trip, and little more, is what a path can hide.
    assert 3 * MS <= state.uncertainty_ns < 3.5 * MS
    # Both ways of the conversion agree.
    later = now + 60_000_000_000
    assert abs(later + state.offset_at(later) - rig(later)) < 5_000


def test_one_exchange_says_no_more_than_it_can() -> None:
    """After one exchange: the middle, bounded by half the round trip; a drift is not claimed."""
    rig = skewed(-77_000_000, 0.0)
    state = run(rig, lambda n: (10 * MS, 0), 1).state(START_NS)
    assert state is not None
    assert state.offset_ns == pytest.approx(-77_000_000 + 5 * MS, abs=5_000)
    assert 5 * MS <= state.uncertainty_ns < 5.1 * MS
    assert state.drift_sigma_ppm > 10
    assert ClockEstimator().state(0) is None


@pytest.mark.parametrize("seconds", [3, 20, 120])
@pytest.mark.parametrize("queues", [(2 * MS, 2 * MS), (8 * MS, 0.2 * MS)])
def test_random_queues_stay_within_what_is_stated(seconds: int, queues: tuple[float, float]) -> None:
    """Many paths with exponential queues: always within the bound, and sigma is a standard uncertainty."""
    normal, drifts, errors = [], [], []
    for seed in range(30 if seconds < 100 else 10):
        rng = np.random.default_rng([seed, seconds])
        rig = skewed(int(rng.integers(-(10**15), 10**15)), float(rng.uniform(-100, 100)))
        estimator = run(
            rig, lambda n, r=rng: (MS + r.exponential(queues[0]), MS + r.exponential(queues[1])), seconds
        )
        now = START_NS + seconds * 1_000_000_000
        state = estimator.state(now)
        assert state is not None
        error = state.offset_ns - (rig(now) - now)
        errors.append(error)
        assert abs(error) <= state.uncertainty_ns
        normal.append(error / state.sigma_ns)
        true_drift = (rig(now + 10**9) - rig(now)) / 1e3 - 1e6
        drifts.append((state.drift_ppm - true_drift) / state.drift_sigma_ppm)
    assert np.mean(np.abs(normal) < 2) >= 0.85
    assert np.mean(np.abs(drifts) < 2) >= 0.85
    if seconds == 120:  # minimum-RTT filtering: much better than the mean queue
        assert np.std(errors) < max(queues) / 8


def test_a_lasting_difference_of_the_ways_is_within_the_bound() -> None:
    """It cannot be seen; it moves the estimate by half of it, and the stated uncertainty holds it."""
    rig = skewed(123_456_789, -20.0)
    state = run(rig, lambda n: (15 * MS, 1 * MS), 60).state(now := START_NS + 60_000_000_000)
    assert state is not None
    error = state.offset_ns - (rig(now) - now)
    assert error == pytest.approx(7 * MS, abs=0.1 * MS)
    assert error < state.uncertainty_ns < 9.5 * MS


def test_a_way_that_queues_is_told_and_does_not_pull() -> None:
    rig = skewed(0, 10.0)
    rng = np.random.default_rng(4)
    slow_out = run(rig, lambda n: (MS + rng.exponential(20 * MS), MS), 100).state(
        now := START_NS + 100 * 10**9
    )
    slow_back = run(rig, lambda n: (MS, MS + rng.exponential(20 * MS)), 100).state(now)
    assert slow_out is not None and slow_out.path == "slower to the rig"
    assert slow_back is not None and slow_back.path == "slower from the rig"
    for state in (slow_out, slow_back):
        assert abs(state.offset_ns - (rig(now) - now)) < 2 * MS  # the mean queue would pull by 10 ms
    assert run(rig, lambda n: (MS, MS), 5).state(now).path == "unknown"  # type: ignore[union-attr]


@pytest.mark.parametrize("step_ns", [250 * MS, -3_600_000_000_000])
def test_a_step_is_told_and_followed(step_ns: int) -> None:
    """A suspended host, another host behind the same address: seen by the second exchange after it."""
    before, after = skewed(10**12, 30.0), skewed(10**12 + step_ns, 30.0)
    estimator = run(before, lambda n: (MS, MS), 60)
    assert not estimator.add(exchange(after, START_NS + 60e9, MS, MS))
    state = estimator.state(START_NS + 60 * 10**9)
    assert state is not None and state.steps == 0  # one odd exchange changes nothing yet
    assert estimator.add(exchange(after, START_NS + 61e9, MS, MS))
    state = estimator.state(now := START_NS + 61 * 10**9)
    assert state is not None and state.steps == 1
    assert state.step_ns == pytest.approx(step_ns, abs=50_000)
    assert abs(state.offset_ns - (after(now) - now)) <= state.uncertainty_ns


def test_one_rogue_answer_moves_nothing() -> None:
    rig = skewed(10**12, 30.0)
    estimator = run(rig, lambda n: (MS, MS), 30)
    assert not estimator.add(exchange(skewed(0, 0), START_NS + 30e9, MS, MS))
    run(rig, lambda n: (MS, MS), 30, estimator, first=31)
    state = estimator.state(now := START_NS + 61 * 10**9)
    assert state is not None and state.steps == 0
    assert abs(state.offset_ns - (rig(now) - now)) < 5_000


def test_impossible_exchanges_are_refused() -> None:
    estimator = ClockEstimator()
    assert not estimator.add(Exchange(100, 0, 200, 110))  # answered after it came back
    assert not estimator.add(Exchange(100, 50, 40, 110))  # answered before it arrived
    assert not estimator.add(Exchange(0, 0, 0, MAX_RTT_NS + 1))
    assert estimator.exchanges == 0 and estimator.state(0) is None


def test_a_changing_drift_ages_the_old_exchanges_out() -> None:
    """20 ppm that become 60 within a minute (far more than a host that warms up): followed, and no step."""

    def rig(local: float) -> int:
        s = (local - START_NS) / 1e9
        ppm_s = 20 * s + 40 * max(0.0, s - 60) * min(1.0, max(0.0, s - 60) / 60)
        return round(local + 1000 * ppm_s)

    estimator = ClockEstimator()
    for n in range(240):
        estimator.add(exchange(rig, START_NS + n * 1e9, 0.2 * MS, 0.2 * MS))
    state = estimator.state(now := START_NS + 240 * 10**9)
    assert state is not None and state.steps == 0
    assert abs(state.offset_ns - (rig(now) - now)) <= state.uncertainty_ns
    assert state.drift_ppm == pytest.approx(60, abs=1.0)


# --- through real sockets ---


class Rig:
    """A command server with a clock of its own, and a relay before it that delays either way."""

    def __init__(self, offset_ns: int, drift_ppm: float, out_s: float = 0.0, back_s: float = 0.0) -> None:
        self.clock = skewed(offset_ns, drift_ppm)
        self.server = CommandServer(ANY)
        self.server.register("time.ping", self._ping)
        self.out_s, self.back_s = out_s, back_s
        self._context = zmq.Context()
        self._front = self._context.socket(zmq.ROUTER)
        self.address = f"tcp://127.0.0.1:{self._front.bind_to_random_port('tcp://127.0.0.1')}"
        self._back = self._context.socket(zmq.DEALER)
        self._back.connect(self.server.address)
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._relay)
        self._thread.start()

    def _ping(self, t0_ns: int) -> dict[str, int | str]:
        now = self.clock(monotonic_ns())
        return {"t0_ns": t0_ns, "t1_ns": now, "t2_ns": now, "clock": "another host"}

    def _relay(self) -> None:
        held: list[tuple[float, zmq.Socket[bytes], list[bytes]]] = []
        poller = zmq.Poller()
        poller.register(self._front, zmq.POLLIN)
        poller.register(self._back, zmq.POLLIN)
        while not self._end.is_set():
            came = dict(poller.poll(1))
            if self._front in came:
                held.append((time.monotonic() + self.out_s, self._back, self._front.recv_multipart()))
            if self._back in came:
                held.append((time.monotonic() + self.back_s, self._front, self._back.recv_multipart()))
            due = [entry for entry in held if entry[0] <= time.monotonic()]
            held = [entry for entry in held if entry not in due]
            for _, socket, parts in due:
                socket.send_multipart(parts)

    def close(self) -> None:
        self._end.set()
        self._thread.join()
        self._context.destroy(linger=0)
        self.server.close()


@contextmanager
def a_rig(*args: float) -> Iterator[Rig]:
    rig = Rig(*args)  # type: ignore[arg-type]
    try:
        yield rig
    finally:
        rig.close()


def wait_for(condition: Callable[[], bool], timeout_s: float = 5.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "did not happen in time"
        time.sleep(0.005)


@pytest.mark.parametrize(("out_s", "back_s"), [(0.0, 0.0), (0.03, 0.03), (0.06, 0.0)])
def test_a_skewed_clock_through_a_delaying_socket(out_s: float, back_s: float) -> None:
    """Known truth: the rig's clock is 42 s ahead and 200 ppm fast; the error is within what is stated."""
    with a_rig(42_000_000_000, 200.0, out_s, back_s) as rig:
        clock = RigClock(rig.address)
        try:
            clock.wait(5)
            wait_for(lambda: clock.state is not None and clock.state.exchanges >= 8)
            state = clock.state
            assert state is not None and not state.same_clock
            now = monotonic_ns()
            error = clock.to_rig_ns(now) - rig.clock(now)
            assert abs(error) <= state.uncertainty_at(now)
            assert state.rtt_ns >= (out_s + back_s) * 1e9
            # Half the round trip bounds it; what the machine itself adds to the delay is in the round trip.
            assert state.uncertainty_ns <= state.rtt_ns / 2 + 3 * MS
            assert (
                abs(error - (out_s - back_s) / 2 * 1e9)
                <= (state.rtt_ns - (out_s + back_s) * 1e9) / 2 + 3 * MS
            )
            assert abs(clock.to_local_ns(clock.to_rig_ns(now)) - now) <= 2
        finally:
            clock.close()


def test_ages_are_those_of_the_rigs_clock() -> None:
    """A message of a rig whose clock is an hour behind: its age is the true one, with its uncertainty."""
    with a_rig(-3_600_000_000_000, 0.0) as rig, Publisher(ANY) as publisher:
        with Client(publisher.address, rig.address, streams=("doa",)) as client:
            client.wait_connected(5)
            client.clock.wait(5)
            wait_for(lambda: client.clock.state is not None and client.clock.state.exchanges >= 8)
            publisher.publish("doa", rig.clock(monotonic_ns()) - 250 * MS, duration_ns=50 * MS, data={})
            message = client.receive(5)
            assert message.clock_uncertainty_ns is not None
            assert 200 - message.clock_uncertainty_ns / 1e6 <= message.age_ms < 1200
        with Client(publisher.address, streams=("doa",)) as client:
            client.wait_connected(5)
            publisher.publish("doa", monotonic_ns(), data={})
            message = client.receive(5)
            assert message.clock_offset_ns == 0 and message.clock_uncertainty_ns is None
            with pytest.raises(InputError, match="without a commands_address"):
                _ = client.clock


def test_on_the_rigs_own_host_it_is_the_same_clock() -> None:
    if not clock_id():
        pytest.skip("this system does not name its boot")
    with CommandServer(ANY) as server:
        clock = RigClock(server.address)
        state = clock.wait(5)
        assert state.same_clock and state.offset_ns == 0 and state.uncertainty_ns == 0
        assert clock.to_rig_ns(12345) == 12345 and clock.to_local_ns(12345) == 12345
        assert server.served == 0  # heartbeats and pings are not commands that somebody gave
        clock.close()
        clock.close()


def test_a_clock_id_is_not_believed_against_the_exchanges() -> None:
    """Two virtual machines resumed from one snapshot name the same boot and read different clocks."""
    rig = skewed(10**10, 0.0)
    state = run(rig, lambda n: (MS, MS), 5).state(START_NS + 5 * 10**9, same_clock=True)
    assert state is not None and not state.same_clock
    assert state.offset_ns == pytest.approx(10**10, abs=10_000)


def test_no_rig_no_time() -> None:
    clock = RigClock("tcp://127.0.0.1:1")
    assert clock.state is None and not clock.answering
    with pytest.raises(DeviceError, match=r"told no time within 0\.1 s"):
        clock.wait(0.1)
    with pytest.raises(DeviceError, match="not known yet"):
        clock.to_local_ns(0)
    clock.close()


@pytest.mark.parametrize("answer", [None, {}, {"t0_ns": 1}, {"t0_ns": 1, "t1_ns": "x", "t2_ns": 2}])
def test_rubbish_for_an_answer_is_no_exchange(answer: dict[str, object] | None) -> None:
    with CommandServer(ANY) as server:
        asked = threading.Event()

        def ping(t0_ns: int) -> dict[str, object] | None:
            asked.set()
            return answer

        server.register("time.ping", ping)
        clock = RigClock(server.address)
        assert asked.wait(5)
        time.sleep(0.05)
        assert clock.state is None and clock._thread.is_alive()
        clock.close()
