"""Requests written by a language model behind an OpenAI-compatible address, instead of by templates.

What a model writes is taken only when it keeps what the item needs (`recordings.plan.words`); else the
request stays as it is, and the result says why. Every few items the plan is saved, so that a run can be
broken off and goes on where it stopped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import msgspec

from dsp.errors import DeviceError
from recordings.chat_model import ChatModel
from recordings.plan.model import Plan, PlanItem
from recordings.plan.wording import room_words
from recordings.plan.words import request_problems

TRIES = 2  # answers asked for per item; the second time with what was wrong
SAVE_EVERY = 10
GIVE_UP_AFTER = 3  # calls in a row without any answer

_SYSTEM = (
    "You rewrite spoken requests to a smart home for a recording. Answer with the new request only: one"
    " natural, short English sentence (two at most) that means exactly the same, with the same numbers and"
    " times. No quotation marks, no explanation."
)
_RULES = {
    "G0": "Keep the name of the device word for word.",
    "G1": 'The speaker points: call the device "that", and never by its name.',
    "G2": "Call the device by the sound that it makes, with the same word for it, and never by what it is.",
    "G3": "Keep on which side of the speaker the device is, and what kind of device it is.",
    "G4": 'Keep "my": whose device it is must follow from who speaks.',
}


@dataclass
class Rewritten:
    """rewritten: ids. kept: id -> why its request stayed. already: how many that model had written before."""

    plan: Plan
    rewritten: list[str] = field(default_factory=list)
    kept: dict[str, str] = field(default_factory=dict)
    already: int = 0
    recorded: int = 0


def rewrite_plan(
    plan: Plan,
    model: ChatModel,
    *,
    recorded: Iterable[str] = (),
    limit: int | None = None,
    save: Callable[[Plan], None] = lambda plan: None,
    advance: Callable[[float], None] = lambda amount: None,
) -> Rewritten:
    """The plan with requests of the model where they hold; items that it wrote before are left alone.

    recorded: ids that stay, for a take of them was kept. limit: ask for so many items at most. save: called
    with the plan every few items, and at the end whatever ends it.
    Raises DeviceError when the model does not answer several times in a row; what there is is saved.
    """
    result = Rewritten(plan)
    items = list(plan.items)
    stay = set(recorded)
    silent = asked = 0
    try:
        for place, item in enumerate(items):
            if item.written_by == model.model:
                result.already += 1
            elif item.id in stay:
                result.recorded += 1
            elif not item.skip and (limit is None or asked < limit):
                asked += 1
                try:
                    text, why = _written(item, model)
                    silent = 0
                except DeviceError as error:
                    silent += 1
                    text, why = None, str(error)
                    if silent >= GIVE_UP_AFTER:
                        raise
                if text is None:
                    result.kept[item.id] = why
                else:
                    items[place] = msgspec.structs.replace(item, request=text, written_by=model.model)
                    result.rewritten.append(item.id)
                    if len(result.rewritten) % SAVE_EVERY == 0:
                        save(msgspec.structs.replace(plan, items=tuple(items)))
            advance(1)
    finally:
        result.plan = msgspec.structs.replace(plan, items=tuple(items))
        if result.rewritten:
            save(result.plan)
    return result


def _written(item: PlanItem, model: ChatModel) -> tuple[str | None, str]:
    """A request that holds, or None and why."""
    messages = [{"role": "system", "content": _SYSTEM}, {"role": "user", "content": _brief(item)}]
    why = ""
    for _ in range(TRIES):
        answer = model.complete(messages, temperature=0.8, max_tokens=200)
        text = _first_line(answer)
        problems = request_problems(item, text)
        if not problems:
            return text, ""
        why = "; ".join(problems)
        messages += [
            {"role": "assistant", "content": answer[:500]},
            {"role": "user", "content": f"This cannot be used: {why}. Write it again."},
        ]
    return None, why


def _brief(item: PlanItem) -> str:
    rule = _RULES[item.grounding]
    if item.query == "Q4":
        place = "my room" if item.grounding == "G4" else room_words(item.staging.room)
        rule = f'It is a complaint: no device is named and nothing is ordered. Keep "{place}".'
    return f"Request: {item.request}\nRule: {rule}"


def _first_line(answer: str) -> str:
    """The answer without quotation marks, headings and thinking aloud."""
    text = answer.rpartition("</think>")[2].strip()
    line = text.splitlines()[0].strip() if text else ""
    if line.casefold().startswith("request:"):
        line = line[len("request:") :].strip()
    return line.strip("\"“”'` ").replace("’", "'")
