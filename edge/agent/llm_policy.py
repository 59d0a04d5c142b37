"""A language model as the policy: any OpenAI-compatible endpoint, with tool calls or with JSON replies.

The model gets the request as sound, pictures or text, names tools, and sees what they answer. What it writes
is checked by the loop; a call that cannot be read, an unknown tool or a refused one is told to it and counts
as a mistake. When the model does not answer, refuses, or makes too many mistakes, `otherwise` takes over, as
long as nothing was declared; without it the request ends as failed or refused, and nothing is claimed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from edge.agent.grounding import ground
from edge.agent.home_view import HomeView
from edge.agent.llm_messages import (
    SYSTEM,
    Ears,
    home_in_words,
    offered,
    reply_schema,
    request_parts,
    result_text,
    tool_of,
    tool_schemas,
    tools_in_words,
    wire_name,
)
from edge.agent.loop import Action, Observed, Policy, Run, Steps
from edge.agent.memory import Policy as Order
from edge.language import HomeWords, understand
from recordings.chat_model import ChatError, ChatModel, ChatReply

MOST_MISTAKES = 4
MOST_CALLS = 24  # of the model
NO_ANSWER = "I cannot think clearly right now, please ask me again later."
KEY_VARIABLE = "HEARTH_AGENT_KEY"  # sent as bearer token when it is set


@dataclass(frozen=True)
class LlmOptions:
    """speaks: "tools" (the field `tools` of the endpoint) or "json" (a JSON object per reply, by schema).

    ears, pictures: how the request is given. most_tools: tool calls after which only those that lead to the
    end are offered. prices: dollars per million tokens, in and out. temperature, max_tokens: of each reply.
    """

    speaks: Literal["tools", "json"] = "tools"
    ears: Ears = "none"
    pictures: int = 0
    most_tools: int = 16
    temperature: float = 0.0
    max_tokens: int = 512
    prices: tuple[float, float] = (0.0, 0.0)


@dataclass(frozen=True)
class _Wanted:
    """A call as the model wrote it: id of the call (None: a JSON reply), name, arguments or why not."""

    id: str | None
    name: str
    args: Mapping[str, Any] | None
    wrong: str = ""


class LlmPolicy:
    """chat: the model. memory: procedures whose guidance is told before each step. otherwise: who takes
    over."""

    def __init__(
        self,
        chat: ChatModel,
        options: LlmOptions | None = None,
        memory: Order | None = None,
        otherwise: Policy | None = None,
    ) -> None:
        self.name = f"llm {chat.model}"
        self._chat, self._options = chat, options or LlmOptions()
        self._memory, self._otherwise = memory, otherwise

    def steps(self, run: Run) -> Steps:
        """The actions for one request."""
        options = self._options
        messages: list[dict[str, Any]] = [
            {"role": "system", "content": f"{SYSTEM}\n\n{home_in_words(run.scene.room)}"},
            {"role": "user", "content": self._request(run)},
        ]
        mistakes = 0
        for _ in range(MOST_CALLS):
            try:
                reply = self._ask(run, messages)
            except ChatError as error:
                yield from self._without(run, f"the language model failed: {error}", "failed", NO_ANSWER)
                return
            if reply.refusal:
                yield from self._without(run, "the language model refused", "refused", reply.refusal)
                return
            wanted = calls_of(reply, options.speaks)
            messages.append(_said(reply, options.speaks))
            if not wanted:
                mistakes += 1
                messages.append({"role": "user", "content": "Call one tool. To decline, declare and finish."})
            for one in wanted:
                if one.args is None:
                    observed = Observed({}, one.wrong)
                    run.trace.add("malformed", tool=one.name, why=one.wrong)
                else:
                    observed = yield Action(tool_of(one.name), one.args, reply.text if one.id else "")
                mistakes += not observed.ok
                messages.append(_told(one, observed))
            if mistakes > MOST_MISTAKES:
                break
        why = f"the language model came to no end ({mistakes} mistakes)"
        yield from self._without(run, why, "failed", NO_ANSWER)

    def _request(self, run: Run) -> list[dict[str, Any]] | str:
        parts = request_parts(run.scene, self._options.ears, self._options.pictures)
        return parts if len(parts) > 1 else str(parts[0]["text"])

    def _ask(self, run: Run, messages: list[dict[str, Any]]) -> ChatReply:
        options = self._options
        tools = offered(run, run.count >= options.most_tools)
        extra: dict[str, Any] = {"temperature": options.temperature, "max_tokens": options.max_tokens}
        hints = self._guidance(run)
        if options.speaks == "tools":
            extra |= {"tools": tool_schemas(tools), "tool_choice": "auto"}
        else:
            devices = [device.id for device in run.scene.room.devices]
            schema = reply_schema(tools, devices)
            extra["response_format"] = {"type": "json_object", "schema": schema}
            hints = [*hints, tools_in_words(tools)]
        told = [*messages]
        if hints:
            told.append({"role": "user", "content": "\n".join(hints)})
        reply = self._chat.chat(told, **extra)
        for name, value in (
            ("calls", 1.0), ("attempts", reply.attempts), ("prompt_tokens", reply.prompt_tokens),
            ("completion_tokens", reply.completion_tokens), ("seconds", reply.seconds),
            ("dollars", (reply.prompt_tokens * options.prices[0]
                         + reply.completion_tokens * options.prices[1]) / 1e6),
        ):  # fmt: skip
            run.cost[name] = round(run.cost.get(name, 0.0) + value, 6)
        return reply

    def _guidance(self, run: Run) -> list[str]:
        """What procedures that were learnt say of this moment, once the words are known."""
        if self._memory is None or not run.text or run.is_declared:
            return []
        intent = understand(run.text, HomeWords.of(run.scene.room))
        if intent.query is None:
            return []
        posterior = ground(intent, run.findings, HomeView(run.scene.room))
        step = self._memory.next(intent, run.findings, posterior)
        best = ", ".join(f"{c.device_id} {c.probability:.2f}" for c in posterior.candidates[:4])
        likely = f"Likely so far: {best or 'no device'}; none of them {posterior.none:.2f}."
        return [f"Guidance: next `{wire_name(step.tool)}`. {step.guidance} {likely}".strip()]

    def _without(self, run: Run, why: str, outcome: str, answer: str) -> Steps:
        """Go on without the model."""
        run.trace.add("handed_over", why=why, to=getattr(self._otherwise, "name", None))
        if self._otherwise is not None and not run.is_declared:
            yield from self._otherwise.steps(run)
            return
        if not run.is_declared:
            yield Action("declare", {"device_id": None}, why)
        yield Action("finish", {"answer": answer, "outcome": outcome}, why)


def calls_of(reply: ChatReply, speaks: Literal["tools", "json"]) -> list[_Wanted]:
    """The calls of a reply. A model that cannot call tools may write one as JSON, alone or in a code
    block."""
    if reply.calls:
        return [_checked(call.id, call.name, call.arguments) for call in reply.calls]
    found = json_in(reply.text)
    if found is None:
        wrong = "the reply is no JSON object"
        return [_Wanted(None, "", None, wrong)] if speaks == "json" else []
    name = found.get("tool") or found.get("name")
    args = found.get("args", found.get("arguments", found.get("parameters", {})))
    if not isinstance(name, str) or not isinstance(args, dict):
        return [_Wanted(None, str(name), None, 'expected {"tool": name, "args": {...}}')]
    return [_Wanted(None, name, args)]


def _checked(call_id: str, name: str, arguments: str) -> _Wanted:
    try:
        args = json.loads(arguments or "{}")
    except (ValueError, RecursionError):
        return _Wanted(call_id, name, None, f"the arguments are no JSON: {arguments[:200]}")
    if not isinstance(args, dict):
        return _Wanted(call_id, name, None, f"the arguments are no object: {arguments[:200]}")
    return _Wanted(call_id, name, args)


def json_in(text: str) -> dict[str, Any] | None:
    """The first JSON object in a text; None without one."""
    decoder = json.JSONDecoder()
    at = text.find("{")
    while at >= 0:
        try:
            found, _ = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            found = None
        if isinstance(found, dict):
            return found
        at = text.find("{", at + 1)
    return None


def _said(reply: ChatReply, speaks: str) -> dict[str, Any]:
    """The model's own message, to be sent back."""
    said: dict[str, Any] = {"role": "assistant", "content": reply.text}
    if reply.calls and speaks == "tools":
        said["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in reply.calls
        ]
    return said


def _told(one: _Wanted, observed: Observed) -> dict[str, Any]:
    """What a call came to, for the model."""
    text = result_text(observed.data) if observed.ok else json.dumps({"error": observed.error})
    if one.id is None:
        return {"role": "user", "content": f"{one.name or 'reply'}: {text}"}
    return {"role": "tool", "tool_call_id": one.id, "content": text}
