"""One plain English utterance to its meaning: `understand(text, home)`.

A grammar in layers instead of a list of sentences: polite words go, then control words and corrections, then
times are taken out, then what speaks of a device, and what is left says what to do or what is asked. What
neither asks nor orders is looked at as a complaint about a room. Words that no layer knows stay in the way of
nothing, so that people may say more than they need to.
"""

from __future__ import annotations

import re
from dataclasses import replace

from edge.language.controls import read_control, read_correction
from edge.language.devices import find_device
from edge.language.home_words import HomeWords
from edge.language.intent import DeviceWords, Intent
from edge.language.moments import read_moment
from edge.language.needs import read_need
from edge.language.orders import read_orders
from edge.language.plain_text import bare, plain
from edge.language.questions import is_question, read_question
from recordings.profile import Query

CLEAR_NEED = 2.0


def understand(text: str, home: HomeWords) -> Intent:
    """What the words ask for. An utterance that asks for nothing has neither query nor control.

    Pure and deterministic; nobody's identity or place enters. confidence: 1 for what is read completely,
    less for an order without a device or a weak complaint.
    """
    said = plain(text)
    control = read_control(said) or read_control(bare(said))
    if control is not None:
        return Intent(text, None, control=control)
    corrected = read_correction(said)
    if corrected is not None:
        found = _correction(text, bare(corrected), home)
        if found is not None:
            return found
    return _request(text, bare(said), home)


def _correction(text: str, rest: str, home: HomeWords) -> Intent | None:
    """ "no, the other one": a device alone; "no, turn it on": another order for the same one."""
    intent = _request(text, rest, home)
    if intent.query is not None:
        return replace(intent, corrected=True)
    mention = find_device(rest, home)
    if mention is None:
        return Intent(text, None, corrected=True, confidence=0.5) if re.search(r"\bother\b", rest) else None
    return Intent(text, None, device=mention.device, corrected=True)


def _request(text: str, said: str, home: HomeWords) -> Intent:
    if is_question(said):
        device, inquiry = read_question(said, home)
        if inquiry is not None:
            return Intent(text, "Q1", device=device, inquiry=inquiry)
    need, clear = read_need(said, home)
    device, orders, mention = read_orders(said, home)
    if orders and (mention is None or mention.weight < 1) and need is not None and clear >= CLEAR_NEED:
        orders = ()  # "make it a bit warmer in here"
    if mention is None and not _begins_as_order(said, home):
        orders = ()  # "the window is open"
    wished = need is not None and clear >= CLEAR_NEED and not _begins_as_order(said, home)
    if orders and (not wished or orders[0].change.by is not None):
        device = device or DeviceWords("G1")
        query: Query = (
            "Q3" if any(o.moment is not None or o.after_previous_min is not None for o in orders) else "Q2"
        )
        return Intent(text, query, device=device, orders=orders, confidence=1.0 if mention else 0.5)
    if need is not None:
        return Intent(text, "Q4", need=need, confidence=min(1.0, clear / 3))
    return Intent(text, None, device=device, confidence=0.3)


def _begins_as_order(said: str, home: HomeWords) -> bool:
    """Whether the sentence, without its times, begins with a verb, or is a device and what it shall be."""
    from edge.language.orders import VERBS

    rest = bare(read_moment(said, home).rest)
    if re.match(rf"(?:{'|'.join(VERBS)})\b", rest):
        return True
    mention = find_device(rest, home)
    return mention is not None and mention.start <= 1 and mention.weight >= 2
