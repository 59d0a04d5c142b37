"""Implicit intents: what is wrong with a room, from what people say about how it feels there."""

from __future__ import annotations

import re
from typing import Literal

from edge.language.home_words import HomeWords
from edge.language.intent import Need

Wish = Literal[
    "cooler", "warmer", "moister", "drier", "cleaner", "brighter", "darker", "private", "outlook"
]  # fmt: skip
_WISHES: dict[Wish, Need] = {
    "cooler": Need(variable="temperature", direction="decrease"),
    "warmer": Need(variable="temperature", direction="increase"),
    "moister": Need(variable="humidity", direction="increase"),
    "drier": Need(variable="humidity", direction="decrease"),
    "cleaner": Need(variable="pm10", direction="decrease"),
    "brighter": Need(variable="illuminance", direction="increase"),
    "darker": Need(variable="illuminance", direction="decrease"),
    "private": Need(blind="close"),
    "outlook": Need(blind="open"),
}
# Everyday signs with how much each says; the wish with the greatest sum is taken.
_SIGNS: tuple[tuple[Wish, float, str], ...] = (
    ("cooler", 3, r"too (?:warm|hot)|so (?:warm|hot)|heat wave|unbearably (?:warm|hot)|sweltering"
     r"|scorching|stifling"),
    ("cooler", 2, r"\bheat\b|\bhot\b|melting|melt\b|boiling|roasting|baking|sweat(?:ing|y)? (?:like|so|all"
     r"|in|a lot)"
     r"|i(?: a)?m sweating|sultry|cool(?:er)? down|cooler|cool off|oven|sauna|burning up|overheat"
      r"|dying of heat|stuffy"),
    ("cooler", 1, r"\bwarm\b|sweat|tropical|some cool air|breeze"),
    ("warmer", 3, r"too (?:cold|cool|chilly)|so (?:cold|chilly)|freezing|shiver|chilly|frozen|freeze"
     r"|ice cold|icy"),
    ("warmer", 2, r"\bcold\b|\bblanket\b|\bnumb\b|\bbrr+\b|goose ?bumps|warmer|warm up"
     r"|teeth (?:are )?chatter|frost|draughty"
     r"|sweater|jumper|\bscarf\b|\bcoat\b|heat up|my (?:feet|hands|toes|fingers) are (?:like ice|blue)"),
    ("moister", 3, r"dry air|air (?:is |\w+ )*(?:so |too |very |terribly |really )?dry\b|as dry as"
     r"|bone dry|desert|too dry|so dry"
     r"|need (?:some |more )?moisture"),
    ("moister", 2, r"\bdry\b(?! my)|throat|lips|wilting|parched|wither|static electricity|skin (?:is"
     r"|feels) (?:\w+ )?(?:dry|cracking|itchy)"
     r"|nose is dry|more moisture|dried out"),
    ("drier", 3, r"\bdamp\b|\bhumid\b|steam bath|humidity is (?:too |so |very )?high|\bmould|\bmoldy?\b"
     r"|\bmuggy\b|\bclammy\b|never dry"
     r"|wont dry|do not dry|dont dry|too moist|so moist|jungle|walls (?:\w+ ){0,3}(?:are )?sweating"
      r"|condensation|windows are (?:steamed|fogged|wet)"),
    ("drier", 2, r"\bmoist\b|\bsteam|\bsticky\b|\bsoggy\b|\bmusty\b|laundry (?:\w+ )?(?:stays )?wet|\bwet\b"),
    ("cleaner", 3, r"\bdust|\bsmoke|\bsmoky|\bpollen|\bsneez|stinks?\b|smells?\b|\bstench|fresh air"
     r"|bad air|air is (?:\w+ )?(?:bad|dirty|thick)"
     r"|\bpolluted|\bfumes?\b|allerg|clean(?:er)? air|\bsmog"),
    ("cleaner", 2, r"breathe|itching|\bcough|\bitchy eyes|\bodou?r|air quality|hay fever|\bfur\b|pet hair"
     r"|wheez"),
    ("brighter", 3, r"too dark|so dark|\bdark\b|\bgloom|pitch black|cannot see (?:a thing|anything|much|my"
     r"|what|the)|cant see (?:a thing|anything|much|my|what|the)"
     r"|can (?:hardly|barely|scarcely) (?:see|read)|more light|not enough light|too little light"
      r"|hardly any light|brighter"),
    ("brighter", 2, r"see my|read my|\bcave\b|bumping into|bump into|straining my eyes|cannot read"
     r"|cant read|cannot find my|cant find my"
     r"|need (?:some )?light|\bdim\b|poorly lit|hard to (?:read|see)|stumbl|tripp"),
    ("darker", 3, r"too bright|so bright|\bglare|too much light|blinding|dazzl|darker|less light"
     r"|all this light|light (?:\w+ )*hurts"
     r"|blinds me|blinded"),
    ("darker", 2, r"\bbright\b|headache|hurts? my eyes|eyes (?:get|need|want) (?:\w+ )?rest|eyes hurt"
     r"|squint|light (?:\w+ ){0,4}(?:sleep|awake)"
     r"|sunglasses|keep(?:s|ing)? me awake"),
    ("private", 4, r"neighbou?rs? (?:can |could |keep |are )?(?:\w+ )?(?:look|see|watch|star|peek|spy)"
     r"|(?:see|watch|look at|looking at|watching|staring at|stare at"
     r"|spying on|peeking at|look in|looking in|peek|see into|look into|see right in) (?:me|us|in\b|my"
      r"|inside)|privacy|get(?:ting)? changed|get(?:ting)? dressed"
     r"|undress|being watched|(?:people|everybody|everyone|anybody|anyone|strangers) (?:\w+ ){0,4}(?:see"
      r"|watch|look|star)\w* (?:at |in|right )*(?:me|us)?"),
    ("private", 1, r"neighbou?r|\bstreet\b|outside can|passers? ?by|prying"),
    ("outlook", 4, r"look out|looking out|see out|see the (?:garden|sky|street|stars|moon|sunset|sunrise"
     r"|view|trees|snow|rain|sun|sea|birds)"
     r"|(?:garden|sky|stars|moon|sunset|view|trees|sun|outside) through the window|\bthe view\b"
      r"|what is going on outside|see what is outside|see outside|whats going on outside|(?:look"
       r"|see) (?:\w+ ){0,2}outside|let (?:some|the) (?:sun|daylight|sunlight)"
     r"|enjoy the (?:view|sunset|garden)|watch the (?:sunset|sunrise|birds|rain|snow|garden|stars|sky)|gaze"),
    ("outlook", 2, r"\bdaylight\b|\bsunshine\b|\bsunlight\b"),
    ("outlook", 1, r"\bsky\b|\bgarden\b|\bsunset\b|\bwindow\b|admire"),
)  # fmt: skip
_COMPILED = [(wish, weight, re.compile(pattern)) for wish, weight, pattern in _SIGNS]
# "It is not too warm", "I am not cold": no complaint.
_DENIED = re.compile(
    r"\b(?:not|isnt|no longer|never) (?:too |so |very |at all |that )?(?:warm|hot|cold|dark|bright|humid"
    r"|dusty)\b"
)
LEAST = 1.5
# How people begin to complain about where they are, when they do not name the room.
_HERE = re.compile(
    r"\b(?:in here|in this room|this room|around here)\b"
    r"|^(?:brr+ )?(?:it|its|im|ive|i|we|were|theres|there is|there are|make|can|could|nobody|no one|everybody"
    r"|everyone|people|anybody|too|so|this|that)\b"
    r"|^(?:brr+ )?(?:the|all|my) (?:\w+ )?(?:air|heat|cold|light|glare|sun|sunlight|neighbou?rs|walls"
    r"|windows?|dust|smoke|humidity"
    r"|eyes|hands|feet|fingers|lips|skin|throat|nose|clothes|plants|room)\b|^(?:brr+|need|want)\b"
)


def read_need(text: str, home: HomeWords) -> tuple[Need | None, float]:
    """The need that a plain sentence tells, and how clearly (the sum of its signs); None: it tells none."""
    if _DENIED.search(text):
        return None, 0.0
    sums: dict[Wish, float] = {}
    for wish, weight, pattern in _COMPILED:
        hits = len({match[0] for match in pattern.finditer(text)})
        if hits:
            sums[wish] = sums.get(wish, 0.0) + weight + 0.5 * (hits - 1)
    if not sums:
        return None, 0.0
    wish = max(sums, key=lambda key: sums[key])
    if sums[wish] < LEAST:
        return None, sums[wish]
    need = _WISHES[wish]
    room, own = _place(text, home)
    if room is None and not own and not _HERE.search(text):
        return None, sums[wish]
    return Need(room, own, need.variable, need.direction, need.blind), sums[wish]


def _place(text: str, home: HomeWords) -> tuple[str | None, bool]:
    if re.search(r"\bmy (?:own )?(?:room|place)\b", text):
        return None, True
    for name in sorted(home.room_names(), key=len, reverse=True):
        if re.search(rf"\b{re.escape(name)}\b", text):
            room, _ = home.room_called(name)
            if room is not None:
                return room, False
    return None, bool(re.search(r"\bmy bedroom\b", text))
