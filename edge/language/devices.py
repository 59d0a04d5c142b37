"""Which words of a sentence speak of a device, and what they say of it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from edge.language.home_words import HomeWords, head_noun, names_alike
from edge.language.intent import DeviceWords, Side
from edge.language.nouns import NOUNS, SIDES, SOUND_ITSELF, SOUNDS
from edge.language.plain_text import any_of
from recordings.profile import Grounding

# Words that a device's name does not begin with: they end the walk to the left of a noun.
_NOT_OF_A_NAME = """
    turn turning switch switching set setting put putting dim run let have play playing pause paused take stop
    bring end keep close shut leave open make start silence mute unmute raise lower lock unlock activate
    deactivate toggle change adjust increase decrease reduce resume continue finish power flip kill cool
    heat warm
    on off up down in at to of with from by for and or but then if whether than as is are was be been being
    am has
    had does do did will would could can should may must what which how when where who whose tell me check see
    know i you we they he she it its him her us them please not no now again want need like give get say said
    speed volume brightness temperature position level percentage lift while until till about there here
    completely fully halfway half all both dont isnt too much so very really still just also only
    brighter darker louder quieter warmer colder cooler faster slower hello hey hi mean meant use using
    there percent degrees degree minutes minute hours hour somebody someone anybody anyone
"""
_NO_MODIFIERS = frozenset(_NOT_OF_A_NAME.split())
_DETERMINERS = frozenset(
    ["the", "that", "this", "those", "these", "my", "our", "your", "a", "an", "any", "thats"]
)
_DEICTIC = frozenset(["that", "this", "those", "these"])
_SAYS_NOTHING = """
    annoying stupid damn damned bloody loud noisy nice old new silly awful terrible horrible lovely other
    little
    same whole own darn ugly poor entire bright main only particular dear good wretched infernal dreadful
"""
EMPTY = frozenset(_SAYS_NOTHING.split())
_GENERIC = "thing|device|one|ones|things|machine|appliance|gadget|devices|box|contraption"
_PLACES = re.compile(
    r"^ (?:that is |thats |which is |that are )?(?:(?:right |up |down |just )?over there|(?:right |up "
    r"|down )?there"
    r"|(?:over |right )here|im pointing (?:at|to)|i am pointing (?:at|to)|that im pointing (?:at|to)"
    r"|that i am pointing (?:at|to)|i point (?:at|to)|that i point (?:at|to))\b"
)
_OF_MINE = re.compile(r"^ (?:of mine|that is mine|thats mine|that belongs to me|which is mine|that i own)\b")
_HERE = re.compile(r"^ (?:in here|in this room)\b")


@dataclass(frozen=True, slots=True)
class Mention:
    """words[start:end] of the sentence speak of the device. weight: how surely they are the device."""

    device: DeviceWords
    start: int
    end: int
    weight: float


def find_device(text: str, home: HomeWords) -> Mention | None:
    """The device that a plain sentence is about; None when it speaks of none."""
    found = list(_mentions(text, home))
    return max(found, key=lambda mention: (mention.weight, mention.end - mention.start), default=None)


def _mentions(text: str, home: HomeWords) -> Iterator[Mention]:
    yield from _sounding(text)
    yield from _named(text, home)
    yield from _generic(text, home)


def _named(text: str, home: HomeWords) -> Iterator[Mention]:
    """Devices by a noun or by a name."""
    nouns = home.nouns
    taken = -1
    for match in re.finditer(rf"\b(?:{any_of(nouns)})\b", text):
        if match.start() < taken:
            continue
        start, said = _to_the_left(text, match.start())
        end, told = _to_the_right(text, match.end(), home)
        taken = end
        noun = match[0]
        modifiers = [word for word in said if word not in _DETERMINERS]
        facts = _what(modifiers, noun, nouns, home)
        own = _own(said, told)
        if own is not None:
            facts["own"] = own
        deictic = bool(told.pop("deictic", False)) or bool(_DEICTIC & set(said))
        for key, value in told.items():
            if key != "own":
                facts[key] = value
        weight = 3.0 if said or told else 2.0
        if told.get("sound"):
            weight = 4.0
        yield Mention(_words(text[start:end], deictic, facts), start, end, weight)


def _what(
    modifiers: list[str], noun: str, nouns: dict[str, tuple[str, ...]], home: HomeWords
) -> dict[str, Any]:
    """Name, room and types of "desk lamp", "kitchen light", "attic fan"."""
    before, head = head_noun(noun)
    modifiers = [*modifiers, *before.split()]
    types = NOUNS.get(head, nouns.get(noun, ()))
    facts: dict[str, Any] = {"noun": head, "types": types}
    modifiers = [word for word in modifiers if word not in ("own", "rooms")]
    for first in range(len(modifiers) + 1):
        rest = " ".join(modifiers[first:])
        left = modifiers[:first]
        full = f"{rest} {head}".strip()
        devices = home.names.get(full) or names_alike(home, rest, head)
        if devices:
            names = {device.name for device in devices}
            facts["name"] = full if full in names else min(names)
            if not rest and head in NOUNS and not head_is_name(home, full):
                facts["name"] = None
            if left and not _explained(left, home, facts):
                break
            return facts
        if rest and _explained(modifiers[first:], home, facts):
            facts.pop("name", None)
            if _explained(left, home, facts):
                return facts
    if not _explained(modifiers, home, facts):
        facts |= {"name": " ".join([*(w for w in modifiers if w not in EMPTY), head]), "known_name": False}
        facts.pop("room", None)
    else:
        facts.pop("name", None)
    return facts


def head_is_name(home: HomeWords, full: str) -> bool:
    """Whether a device is called by this word alone."""
    return full in home.names


def _explained(modifiers: list[str], home: HomeWords, facts: dict[str, Any]) -> bool:
    """Whether the words are a room of this home, somebody's, or say nothing; puts that into facts."""
    words = [word for word in modifiers if word not in EMPTY]
    if not words:
        return True
    said = " ".join(words)
    room, _ = home.room_called(said)
    if room is None:
        room, _ = home.room_called(said.removesuffix("s"))
    if room is not None:
        facts["room"] = room
        return True
    owner = said.removesuffix("s")
    if owner in home.people:
        facts["owner"] = home.people[owner]
        return True
    return False


def _own(said: list[str], told: dict[str, Any]) -> str | None:
    if told.get("own"):
        return str(told["own"])
    if "my" in said or "our" in said:
        return "room" if "rooms" in said else "device"
    return None


def _to_the_left(text: str, at: int) -> tuple[int, list[str]]:
    """From where the device is spoken of, and the words before its noun."""
    before = text[:at].split()
    said: list[str] = []
    while before and len(said) < 4:
        word = before[-1]
        if word in _NO_MODIFIERS or re.search(r"\d", word):
            break
        said.insert(0, before.pop())
        if word in _DETERMINERS:
            if word == "the" and before and before[-1] in ("all", "both"):
                before.pop()
            break
    if len(said) == 4 and said[0] not in _DETERMINERS:
        said = said[-2:]
    left = len(text[:at].split()) - len(said)
    start = len(" ".join(text.split()[:left]))
    return (start + 1 if left else 0), said


def _to_the_right(text: str, at: int, home: HomeWords) -> tuple[int, dict[str, Any]]:
    """To where the device is spoken of, and what is said of it behind its noun."""
    told: dict[str, Any] = {}
    rooms = any_of(home.room_names())
    people = any_of([f"{name}s" for name in home.people]) or "nobodys"
    which = r"^ (?:that |which |who )?(?:is |are |s |stands |hangs |sits )?"
    in_room = re.compile(
        rf"{which}(?:in|of|from|at|inside) (?:(the|my|our|this|{people}) )?(?:own )?({rooms}|room)\b"
    )
    sounding = re.compile(
        rf"^ (?:that |which )?(?:is |s |keeps |keeps on |makes )(?:so )?({any_of(SOUNDS)})\b"
    )
    while True:
        rest = text[at:]
        for side, pattern in SIDES.items():
            beside = re.match(rf"{which}(?:{pattern})\b", rest)
            if beside and "side" not in told:
                told["side"] = side
                at += beside.end()
                break
        else:
            place = _PLACES.match(rest)
            mine = _OF_MINE.match(rest)
            here = _HERE.match(rest)
            room = in_room.match(rest)
            sound = sounding.match(rest)
            if mine:
                told["own"] = "device"
                at += mine.end()
            elif here:
                if home.here is not None:
                    told["room"] = home.here
                at += here.end()
            elif room:
                _room(room, home, told)
                at += room.end()
            elif sound and "sound" not in told:
                told |= {"sound": sound[1], "kind": SOUNDS[sound[1]]}
                at += sound.end()
            elif place:
                told["deictic"] = True
                at += place.end()
            else:
                return at, told


def _room(match: re.Match[str], home: HomeWords, told: dict[str, Any]) -> None:
    whose, words = match[1], match[2]
    if whose in ("my", "our") and words in ("room", "bedroom", "study", "office"):
        told["own"] = "room"
    elif words == "room":
        if whose in (None, "the", "this"):
            told["room"] = home.here
        else:
            told["owner_room"] = home.people[whose.removesuffix("s")]
    else:
        room, unknown = home.room_called(words)
        told |= {"room": room, "unknown_room": unknown}


def _sounding(text: str) -> Iterator[Mention]:
    """ "whatever is humming", "that humming device", "the thing that keeps beeping", "the noise"."""
    sounds = any_of(SOUNDS)
    whole = re.compile(
        rf"\b(?:whatever|whichever \w+|what|something|(?:(?:the|that|this|whatever|which) )?(?:{_GENERIC}))"
        rf"(?: (?:over )?there)?(?: (?:that|which|who))?(?: (?:is|s|are|keeps on|keeps|makes|was|goes|thats))"
        rf"(?: \w+ly| always| still| so)? ({sounds})\b"
    )
    bare = [word for word in SOUNDS if word not in ("loud", "so loud", "noisy", "heard", "talks", "rings")]
    short = re.compile(
        rf"\b(?:(?:the|that|this|those|these|all that|all this) )?(?:(?:{'|'.join(EMPTY)}) )?"
        rf"({any_of(bare)})(?: ({_GENERIC}|noise|sound|sounds|noises))?\b"
    )
    for match in whole.finditer(text):
        yield _heard(match[1], match, 3.5)
    for match in short.finditer(text):
        itself = match[1] in SOUND_ITSELF and not match[2]
        yield _heard(match[1], match, 1.5 if itself or not match[2] else 3.5)


def _heard(sound: str, match: re.Match[str], weight: float) -> Mention:
    words = DeviceWords("G2", words=match[0], sound=sound, kind=SOUNDS[sound])
    return Mention(words, match.start(), match.end(), weight)


def _generic(text: str, home: HomeWords) -> Iterator[Mention]:
    """ "that", "the one over there", "the thing on my left", "mine", "it"."""
    pattern = re.compile(
        rf"\b(?:(?:that|this|these|those|the|my|our)(?: own)?(?: \w+)? (?:{_GENERIC})|that|this|those"
        rf"|these|mine"
        rf"|whatever|it|them|what)\b"
    )
    for match in pattern.finditer(text):
        end, told = _to_the_right(text, match.end(), home)
        first = match[0].split()[0]
        shown = told.pop("deictic", False)
        if first in ("my", "our", "mine"):
            told.setdefault("own", "device")
        deictic = shown or first in _DEICTIC
        if first in ("it", "them") or (first in ("what", "whatever", "the") and not told and not shown):
            weight = 0.5 if first in ("it", "them") else 0.2
            if first in ("what", "whatever"):
                continue
        else:
            weight = 1.2 if told or match[0] == "mine" or " " in match[0] or shown else 1.0
        if first == "what" and not shown:
            continue
        yield Mention(_words(text[match.start() : end], deictic, told), match.start(), end, weight)


def _words(said: str, deictic: bool, facts: dict[str, Any]) -> DeviceWords:
    grounding: Grounding = "G0"
    if facts.get("sound"):
        grounding = "G2"
    elif facts.get("side"):
        grounding = "G3"
    elif facts.get("own"):
        grounding = "G4"
    elif deictic or not (facts.get("noun") or facts.get("name")):
        grounding = "G1"
    side: Side | None = facts.pop("side", None)
    return DeviceWords(grounding, words=said, side=side, **facts)
