"""Words to the agent itself, and corrections of what it did last."""

from __future__ import annotations

import re

from edge.language.intent import Control

_CONTROLS: tuple[tuple[Control, str], ...] = (
    ("undo", r"(?:(?:no|that is|thats) (?:not|wrong)(?: what i (?:wanted|meant|said))? )?undo(?: (?:that"
     r"|it|this|the last (?:one|thing|action)|what you (?:just )?did))?|(?:take"
     r"|put) (?:that|it) back"
     r"|put it back(?: as it was| how it was| the way it was)?|(?:go|change it|turn it|switch it) back"
      r"|revert(?: (?:that|it))?|reverse (?:that|it)"
     r"|(?:make it )?(?:as|like) it was(?: before)?|that was (?:wrong|not what i (?:wanted|meant)"
      r"|a mistake)|i did(?: not|nt) (?:want|mean) that"
     r"|not that|no not that"),
    ("cancel", r"cancel(?: (?:that|it|this|the (?:schedule|timer|plan|order|request|reminder|task"
     r"|workflow)|everything|all(?: of (?:it|them))?))?"
     r"|never ?mind(?: (?:that|it))?|forget (?:it|that|about it|about that|what i said)|drop (?:it|that)"
      r"|call it off|scrap that"
     r"|dont do (?:that|it)(?: after all)?|do not do (?:that|it)(?: after all)?|dont bother"
      r"|leave it(?: be)?|abort"),
    ("stop", r"stop(?: (?:it|now|right now|talking|everything|at once))?|halt|wait|hold on|enough"
     r"|thats enough|that is enough|be quiet|quiet"
     r"|shut up|silence|shush|stop stop(?: stop)?|cut it out|freeze"),
    ("unmute", r"unmute(?: (?:yourself|the microphone|the mic))?|(?:start listening|listen)(?: again)?"
     r"|you (?:can|may) listen(?: again)?|mute off"
     r"|(?:turn|switch) (?:the )?(?:microphone|mic) (?:back )?on|(?:turn|switch) (?:back )?on (?:the "
      r"|your )?(?:microphone|mic)"),
    ("mute", r"mute(?: (?:yourself|the microphone|the mic|now))?|(?:stop|dont|do not"
     r"|quit) listening(?: (?:to me|to us|now))?|(?:turn|switch) (?:the |your )?(?:microphone|mic) off"
     r"|(?:turn|switch) off (?:the |your )?(?:microphone|mic)|go to sleep"),
    ("yes", r"(?:yes|yeah|yep|yup|sure|of course|right|correct|exactly|affirmative|do it|go ahead|confirm"
     r"|confirmed|please do|that is right"
     r"|thats right|that one|thats it|that is it|thats the one|i do|absolutely|definitely|certainly"
      r"|you can|by all means)"
     r"(?: (?:please do|please|do it|go ahead|do that|that one|that is right|thats right|i am sure|im sure"
      r"|of course"
      r"|exactly|you can))*"),
    ("no", r"(?:no|nope|nah|negative|no way|better not|dont|do not|wrong|no thanks|no thank you|not really"
     r"|rather not|neither|none of them)"
     r"(?: (?:please|dont|do not|not now|thanks|thank you|leave it|i dont|wrong|no))*"),
)  # fmt: skip
_WHOLE = [(control, re.compile(rf"^(?:{pattern})$")) for control, pattern in _CONTROLS]
_CORRECTION = re.compile(
    r"^(?:(?:no|nope|sorry|wait|oops|hang on|wrong|not that(?: one)?|no not that(?: one)?|not (?:the"
    r"|my) \w+(?: \w+)?|actually) )*"
    r"(?:no(?: no)?|nope|not that(?: one)?|not (?:the|my|this) \w+(?: \w+)?|i mean|i meant"
    r"|i was talking about|i said|i wanted"
    r"|wrong (?:one|lamp|light|device|fan|\w+)|actually|rather|instead|sorry|oops)\b"
    r"(?: (?:i mean|i meant|i was talking about|i said|i wanted|but|rather|no|it is|its|it was|make it"
    r"|make that|do|use|take|try|sorry))* (?P<rest>.+)$"
)
_THE_OTHER = re.compile(
    r"\b(?:the )?(?:other|another|wrong|next) (?:one|lamp|light|fan|device|\w+)\b|\bnot (?:that"
    r"|this) (?:one|\w+)\b"
)


def read_control(text: str) -> Control | None:
    """The control word that a whole plain utterance is; None for anything longer or else."""
    for control, pattern in _WHOLE:
        if pattern.match(text):
            return control
    return None


def read_correction(text: str) -> str | None:
    """What is meant instead: "no i meant the kitchen lamp" -> "the kitchen lamp". None: no correction."""
    match = _CORRECTION.match(text)
    if match is not None:
        return match["rest"]
    if _THE_OTHER.fullmatch(text) or re.fullmatch(r"(?:the )?(?:wrong|other) \w+", text):
        return text
    return None
