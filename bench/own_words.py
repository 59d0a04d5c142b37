"""Requests in words of their own, to tell how far the grammar reaches beyond the sentences of plans.

Written after the grammar, by hand; the first try at them is in docs/agent.md, and the grammar was mended for
some afterwards. Each with what a person would say that it asks for, as `summary` writes it.
"""

from __future__ import annotations

from edge.language import Intent

SENTENCES: tuple[tuple[str, str], ...] = (
    ("Hey, get the desk lamp to shut off.", "Q2 G0 desk lamp off"),
    ("I'm done reading, the reading lamp can go off.", "Q2 G0 reading lamp off"),
    ("Would somebody turn that thing off already?", "Q2 G1 off"),
    ("Can we have the kitchen radio at half volume?", "Q2 G0 kitchen radio volume 50"),
    ("Crank that speaker over there up to ninety percent.", "Q2 G1 speaker volume 90"),
    ("That beeping is driving me mad, make it stop.", "Q2 G2 beep silence"),
    ("Whatever's humming over there, switch it off.", "Q2 G2 hum off"),
    ("The machine that keeps rattling needs to be paused.", "Q2 G2 spin pause"),
    ("I'd like my blind closed.", "Q2 G4 blind close"),
    ("Let the blind behind me down all the way.", "Q2 G3 blind behind close"),
    ("Raise the blind to my left, would you?", "Q2 G3 blind left open"),
    ("Have the lamp on the left side of me at twenty percent.", "Q2 G3 lamp left dim 20"),
    ("The fan in my room should be on.", "Q2 G4 fan on"),
    ("My fan to full speed.", "Q2 G4 fan speed 100"),
    ("Resume the washing machine.", "Q2 G0 washing machine resume"),
    ("Set the temperature of the small fridge to five degrees.", "Q2 G0 small fridge chill 5"),
    ("Bring the big air conditioner down to 19.", "Q2 G0 big air conditioner cool 19"),
    (
        "Two degrees cooler on the bedroom air conditioner, please.",
        "Q2 G0 bedroom air conditioner cool by -2",
    ),
    ("Switch that fan you see there on.", "Q2 G1 fan on"),
    ("Hush that music, please.", "Q2 G2 music silence"),
    ("Is anything playing on the bedside radio?", "Q1 G0 bedside radio is_playing"),
    ("What's the brightness on the night light?", "Q1 G0 night light how_bright"),
    ("Did I leave my lamp on?", "Q1 G4 lamp is_on"),
    ("How's the washing machine doing, is it paused?", "Q1 G0 washing machine is_running"),
    ("How wide open is the garden blind?", "Q1 G0 garden blind how_closed"),
    ("Can you see whether the thing on my right is switched on?", "Q1 G3 right is_on"),
    ("How fast is that one spinning?", "Q1 G1 how_fast"),
    ("Which temperature is that fridge there on?", "Q1 G1 fridge how_cool"),
    ("Does the tower fan run at the moment?", "Q1 G0 tower fan is_on"),
    ("What's the volume at on the thing that's making music?", "Q1 G2 music how_loud"),
    ("Half an hour from now, I want the standing fan off.", "Q3 G0 standing fan off in 30"),
    ("At quarter past two this afternoon, dim my lamp to ten percent.", "Q3 G4 lamp dim 10 at 855"),
    ("Once the big microwave stops, turn that on.", "Q3 G1 on after big microwave"),
    (
        "Start the humidifier in my room when the washing machine ends.",
        "Q3 G4 humidifier on after washing machine",
    ),
    ("By ten in the evening the floor lamp should be off.", "Q3 G0 floor lamp off at 1320"),
    ("Give it twenty minutes, then close the street blind.", "Q3 G0 street blind close in 20"),
    ("Open the street blind at 7:15 am and close it again at nine am.", "Q3 G0 street blind open at 435"),
    ("Leave the globe lamp on for an hour.", "Q3 G0 globe lamp on"),
    ("It's like a fridge in the study.", "Q4 study temperature increase"),
    ("I'm sweating buckets in the living room.", "Q4 living_room temperature decrease"),
    ("Could it be any darker in the kitchen?", "Q4 kitchen illuminance increase"),
    ("That light in the bedroom is keeping me awake.", "Q4 bedroom illuminance decrease"),
    ("My skin is all cracked, the air in my room is too dry.", "Q4 own humidity increase"),
    ("The windows in the kitchen are all steamed up.", "Q4 kitchen humidity decrease"),
    ("The dust in the guest room makes me cough.", "Q4 guest_room pm10 decrease"),
    ("I don't want anyone looking in on me in the bedroom.", "Q4 bedroom close"),
    ("I'd love to see what's going on outside from my room.", "Q4 own open"),
    ("That's not what I wanted, undo it.", "undo"),
    ("Forget about that.", "cancel"),
    ("Yeah, go ahead.", "yes"),
    ("Nope.", "no"),
    ("Not the floor lamp, the reading lamp!", "corrected reading lamp"),
    ("The train leaves at seven.", ""),
    ("Did you watch the match last night?", ""),
    ("She told me to turn left at the church.", ""),
    ("I lost my keys again.", ""),
)


def summary(intent: Intent) -> str:
    """An intent in few words."""
    if intent.control is not None:
        return intent.control
    words: list[object] = ["corrected"] if intent.corrected and intent.query is None else []
    words += [intent.query or ""]
    if intent.need is not None:
        need = intent.need
        place = "own" if need.own_room else need.room
        return " ".join(str(w) for w in ("Q4", place, need.variable, need.direction, need.blind) if w)
    device = intent.device
    if device is not None and (intent.query is not None or intent.corrected):
        words += [device.grounding if intent.query else "", device.name or device.noun or ""]
        words += [device.kind or "", device.side or ""]
    if intent.inquiry is not None:
        words.append(intent.inquiry)
    for order in intent.orders[:1]:
        change, moment = order.change, order.moment
        words += [change.act, "" if change.value is None else f"{change.value:g}"]
        words.append("" if change.by is None else f"by {change.by:g}")
        if moment is not None:
            words.append("" if moment.clock_min is None else f"at {moment.clock_min}")
            anchor = moment.anchor
            if anchor is not None:
                words.append(f"after {anchor.name or anchor.noun}")
            elif moment.in_min is not None:
                words.append(f"in {moment.in_min:g}")
    return " ".join(str(word) for word in words if word)
