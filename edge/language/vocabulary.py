"""The words that requests at home are made of: what a recogniser may expect, before it knows the sentence.

Common English words and the words of the grammar's own tables; the home adds its names. Nobody is held to
them: a recogniser compares what it hears with them against what it hears without them.
"""

from __future__ import annotations

import re

from edge.language.home_words import HomeWords
from edge.language.nouns import NOUNS, ROOM_WORDS, SOUNDS

_COMMON = """
a about after again ago air ahead all almost already also always am an and another any anybody anyone anything
are around as ask at away back bad be because been before begin behind being below better between big bit
black
both bottom bring bright brighter brightness but button by call can cannot carry center chair check choose
chose
chosen clean close closed closing cold come comes coming completely continue cool cooler corner could dark
darker
darkness day degree degrees desk device devices dim dimmed dimmer do does dog done door down dry during each
early
eco either else end ended ends enough even evening every everybody everyone everything fall far fast faster
favour favor feel feeling feels finish finished finishes finishing first floor for forward free fresh from
front
full fully garden get gets getting give glass go goes going gone good got great half halfway hand hang happens
hard hardly has have having he hear heard heat heating help her here high higher him his hold home hot hour
hours
house how i if in inside instead into is it its just keep keeping keeps kind know last late later least leave
leaves left less let level light like listen little long look looking lot loud louder low lower make makes
making
many maximum may me mean meant middle midnight might mind mine minimum minute minutes mode moment more
morning most
move much must my myself name near need needs never new next nice night no nobody noise noisy none noon
normal not
nothing now of off often ok okay old on once one only open opened or other our out outside over own part
past pause
paused people percent percentage perhaps person place play playing please point pointing position power press
program programme put quarter quick quickly quiet quieter rather reach read ready really remember remind
resume
right room round run running runs same save say second seconds see seem set sets setting settings seven shall
she should show shut side silence silent since sit sleep sleeping slow slower slowly so some somebody someone
something soon sound speed stand standing start started starts state stay still stop stopped stops straight
strong
such sun sure switch switched switching take tell temperature than thank thanks that the their them then there
these they thing things think this those through time timer to today together tonight too top turn turned
turning
two under undo undone until up us use usual very volume wait want wanted warm warmer was watch way we well
were
what whatever when where whether which while who whole whose why will window with within without wonder work
working works would wrong yes yet you your yours off on
cancel correct mute unmute lock locked unlock raise reduce increase decrease change adjust activate deactivate
toggle enable disable kill vendor brand product model manufacturer humidity dust smoke schedule oclock sharp
half minus zero hundred im id ive its whats thats lets dont cant isnt youre theres were ill
"""
_NUMBERS = """
one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen
eighteen nineteen twenty thirty forty fifty sixty seventy eighty ninety hundred
"""
_FEELINGS = """
freezing freeze shivering shiver chilly frozen icy blanket numb hands feet fingers boiling melting roasting
sweating sweat sultry heat stuffy unbearable hot warm cold cool damp humid moist wet steam bath sticky muggy
mould
clothes walls laundry desert throat lips skin cracking itching itchy plants wilting flowers dry dusty dust
pollen
sneezing sneeze coughing cough breathe breathing smells smell stinks smoke smoky fumes gloom gloomy dark cave
bumping stumbling book newspaper keys find read see bright glare blinding dazzling hurts hurt eyes headache
sunlight daylight rest asleep tired neighbours neighbors street privacy changed dressed staring stare looking
through outside sky stars view sunset trees rain snow garden pity love terribly awfully far too nobody
everybody
today nose sun terrible feels unbearably dreadful
"""


def vocabulary(home: HomeWords) -> list[str]:
    """Every word, in lower case, that is expected in a request to this home."""
    tables = [_COMMON, _NUMBERS, _FEELINGS, *NOUNS, *SOUNDS, *ROOM_WORDS]
    tables += [device.name for device in home.devices]
    tables += [*home.rooms, *home.people, *(f"{name}s" for name in home.people), "rooms", "oclock"]
    return list(dict.fromkeys(re.findall(r"[a-z]+", " ".join(tables).lower().replace("'", ""))))
