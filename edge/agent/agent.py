"""The deterministic agent: hears a request on the stream, declares the device, acts, and says what it did.

It is given two addresses and nothing else. What it knows it heard on the stream or was told by
`home.describe`; it never sees a rig file, a scene or a truth.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

from capture.blocks import monotonic_ns
from dsp.errors import HearthError
from edge.agent.decision import Decision, decide, is_as_wanted
from edge.agent.trace import Trace
from edge.perception.listening import Observation, observe
from edge.perception.room_map import RoomMap
from edge.perception.speech import Recogniser
from edge.perception.utterance import Utterance, UtteranceCutter
from edge.stream import Client, Message, StreamTimeout

PUBLISHER_GONE_S = 7.0
NAME = "hearth deterministic agent 1"


@dataclass(frozen=True)
class Answer:
    """What came of one request. seconds_to_declare: from the end of the speech to the declaration."""

    text: str
    device_id: str | None
    outcome: str
    said: str
    command: str | None
    probability: float | None
    seconds_to_declare: float

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return asdict(self)


class Agent:
    """client: connected to the stream `foa24` and to the commands. recogniser: what turns speech to words.
    alive: is called while it listens, several times a second: it is not hung."""

    def __init__(
        self,
        client: Client,
        recogniser: Recogniser,
        trace: Trace | None = None,
        alive: Callable[[], None] = lambda: None,
    ) -> None:
        self._client = client
        self._recogniser = recogniser
        self.trace = self._trace = trace or Trace()
        self._alive = alive
        self._cutter = UtteranceCutter()

    def answers(self) -> Iterator[Answer]:
        """Answer requests until the stream ends. Utterances that ask for nothing are passed over."""
        self._client.wait_connected(10.0)
        self.ready()
        for message in self._messages():
            if message.stream == "foa24" and message.array is not None:
                for utterance in self._cutter.push(message.array, message.t_ns):
                    yield from self.answer(utterance)
        for utterance in self._cutter.flush():
            yield from self.answer(utterance)

    def ready(self) -> None:
        """Tell the home that the agent listens."""
        self._client.command("agent.ready", agent=NAME)
        self._trace.add("ready", agent=NAME)

    def _messages(self) -> Iterator[Message]:
        """Messages until the stream ends. A publisher that is gone for PUBLISHER_GONE_S without a word
        (killed, unplugged) ends the agent too, with StreamTimeout: nobody would ever hear it again."""
        silent_since = None
        while True:
            try:
                for message in self._client.messages(timeout_s=1.0):
                    silent_since = None
                    self._alive()
                    yield message
                return
            except StreamTimeout:
                self._alive()
                if self._client.connected:
                    silent_since = None
                    continue
                silent_since = silent_since or time.monotonic()
                if time.monotonic() - silent_since > PUBLISHER_GONE_S:
                    raise

    def answer(self, utterance: Utterance) -> Iterator[Answer]:
        """Observe one utterance, decide, act; nothing for one that asks for nothing."""
        self._trace.add(
            "utterance",
            t_ns_start=utterance.t_ns,
            duration_s=round(utterance.duration_s, 3),
            decided_after_s=round((utterance.decided_ns - utterance.ended_ns) / 1e9, 3),
            cut_short=utterance.cut_short,
        )
        room = RoomMap(self._client.command("home.describe"))
        observation = observe(utterance, room, self._recogniser)
        self._trace.add("observed", **observation.evidence())
        decision = decide(observation, room)
        if decision is None:
            self._trace.add("ignored", text=observation.recognition.text)
            return
        yield self._act(utterance, observation, decision)

    def _act(self, utterance: Utterance, observation: Observation, decision: Decision) -> Answer:
        self._trace.add("decided", **asdict(decision))
        evidence = {**observation.evidence(), "reason": decision.reason}
        text = observation.recognition.text
        self._client.command("agent.heard", text=text, evidence={"recognition": evidence["recognition"]})
        self._client.command("agent.declare", device_id=decision.device_id, evidence=evidence)
        seconds = (monotonic_ns() - utterance.ended_ns) / 1e9
        self._trace.add("declared", device_id=decision.device_id, seconds_after_speech=round(seconds, 3))
        said, outcome = decision.say, str(decision.outcome)
        if decision.command is not None and decision.device_id is not None:
            said, outcome = self._carry_out(decision.device_id, decision.command, decision.say)
        self._client.command("agent.say", text=said)
        self._trace.add("said", text=said)
        self._client.command("agent.finish", answer=said, outcome=outcome)
        self._trace.add("finished", outcome=outcome)
        best = observation.candidates[0].probability if observation.candidates else None
        return Answer(text, decision.device_id, outcome, said, decision.command, best, round(seconds, 3))

    def _carry_out(self, device_id: str, command: str, say: str) -> tuple[str, str]:
        """Send the command, read the state back, and claim success only if it is there."""
        try:
            result = self._client.command("home.command", device_id=device_id, command=command)
            self._trace.add("commanded", device_id=device_id, command=command, changed=result.get("changed"))
            state = self._client.command("home.state", device_id=device_id)["attributes"]
        except HearthError as error:
            self._trace.add("refused", device_id=device_id, command=command, error=str(error))
            return f"That did not work: {error}", "failed"
        self._trace.add("read_back", device_id=device_id, attributes=state)
        if is_as_wanted(command, state):
            return say, "done"
        return f"I sent {command} to {device_id}, but it did not follow.", "failed"
