"""What requests mean: hand-written sentences with what a person would say that they ask for."""

from __future__ import annotations

import pytest

from edge.language import HomeWords, understand
from edge.language.home_words import NamedDevice
from edge.language.plain_text import bare, plain, spoken

HOME = HomeWords(
    (
        NamedDevice("l1", "on_off_light", "floor lamp", "living_room"),
        NamedDevice("l2", "dimmable_light", "desk lamp", "study"),
        NamedDevice("t1", "tv", "big television", "living_room"),
        NamedDevice("f1", "fan", "kitchen fan", "kitchen"),
        NamedDevice("w1", "laundry_washer", "washing machine", "kitchen"),
        NamedDevice("m1", "microwave", "big microwave", "kitchen"),
        NamedDevice("b1", "window_covering", "street blind", "living_room"),
        NamedDevice("a1", "air_conditioner", "air conditioner", "living_room"),
    ),
    {"living room": "living_room", "kitchen": "kitchen", "study": "study"},
    {"anna": "anna", "ben": "ben"},
    "living_room",
    600,
)


@pytest.mark.parametrize(
    ("said", "text"),
    [
        ("Set the T.V. to 45%, please!", "set the tv to 45 percent please"),
        ("one hundred and thirty percent", "130 percent"),
        ("a hundred percent", "100 percent"),
        ("minus five degrees, twenty-one degrees", "-5 degrees 21 degrees"),
        ("that one at one o'clock, the other one", "that one at 1 oclock the other one"),
        ("ten past one, five to one", "10 past 1 5 to 1"),
        ("at 4:20 p.m.", "at 4:20 pm"),
    ],
)
def test_plain_text(said: str, text: str) -> None:
    assert plain(said) == text


def test_politeness_and_spoken_numbers() -> None:
    assert bare(plain("Would you mind turning off the fan now, please?")) == "turn off the fan"
    assert bare(plain("Close it five minutes from now")) == "close it 5 minutes from now"
    assert (
        spoken("120% at 9:30, 45 minutes")
        == "one hundred and twenty percent at nine thirty forty five minutes"
    )


@pytest.mark.parametrize(
    ("text", "grounding", "what"),
    [
        ("Kill the floor lamp, would you?", "G0", {"name": "floor lamp"}),
        ("Floor lamp off.", "G0", {"name": "floor lamp"}),
        ("Turn off the big TV.", "G0", {"name": "big television", "known_name": True}),
        ("Switch off the light in the study.", "G0", {"room": "study", "name": None}),
        ("Switch off the study light.", "G0", {"room": "study", "name": None}),
        ("Turn off the attic lamp.", "G0", {"name": "attic lamp", "known_name": False}),
        ("Turn off the lamp in the attic.", "G0", {"unknown_room": "attic", "room": None}),
        ("Turn off Anna's lamp.", "G0", {"owner": "anna"}),
        ("Turn off the lamp in Ben's room.", "G0", {"owner_room": "ben"}),
        ("Turn that off.", "G1", {"types": ()}),
        ("Turn the thing I'm pointing at off.", "G1", {"types": ()}),
        ("Switch off that fan over there.", "G1", {"types": ("fan",)}),
        ("Turn off whatever keeps humming.", "G2", {"kind": "hum"}),
        ("Turn off the thing that is making that noise.", "G2", {"kind": "any"}),
        ("The device beeping over there, turn it off.", "G2", {"kind": "beep"}),
        ("Turn off the fan right behind me.", "G3", {"side": "behind", "noun": "fan"}),
        ("Turn off the lamp right in front of me.", "G3", {"side": "front"}),
        ("Turn off the fan to the right of me.", "G3", {"side": "right"}),
        ("Turn off the one on my left-hand side.", "G3", {"side": "left", "types": ()}),
        ("Turn off my own lamp.", "G4", {"own": "device"}),
        ("Turn off my room's light.", "G4", {"own": "room", "noun": "light"}),
        ("Turn off the lamp in my room.", "G4", {"own": "room"}),
    ],
)
def test_which_device(text: str, grounding: str, what: dict[str, object]) -> None:
    intent = understand(text, HOME)
    assert (intent.query, intent.orders[0].change.act) == ("Q2", "off")
    assert intent.device is not None
    assert intent.device.grounding == grounding
    assert {key: getattr(intent.device, key) for key in what} == what


@pytest.mark.parametrize(
    ("text", "act", "value", "by"),
    [
        ("Dim the desk lamp to a quarter.", "dim", 25, None),
        ("Desk lamp to 30 percent!", "dim", 30, None),
        ("Let the kitchen fan run at sixty percent.", "speed", 60, None),
        ("Kitchen fan up by twenty percent.", "speed", None, 20),
        ("Could you put the air conditioner on twenty-one?", "cool", 21, None),
        ("Heat the living room to 22 degrees.", "heat", 22, None),
        ("Turn the telly down a bit.", "volume", None, -10),
        ("Play the big TV at 20 percent volume.", "volume", 20, None),
        ("Put the washing machine on hold.", "pause", None, None),
        ("Take the big television off pause.", "resume", None, None),
        ("Get the washing machine going again.", "resume", None, None),
        ("Bring the washer to a stop.", "stop", None, None),
        ("Shut the street blind.", "close", None, None),
        ("Pull the blind up.", "open", None, None),
        ("Open the blind to thirty percent.", "position", 70, None),
        ("Leave the street blind half closed.", "position", 50, None),
        ("Silence that whirring.", "silence", None, None),
        ("Stop the music.", "silence", None, None),
        ("Shut down the big microwave.", "off", None, None),
    ],
)
def test_what_is_done(text: str, act: str, value: float | None, by: float | None) -> None:
    intent = understand(text, HOME)
    assert intent.query == "Q2"
    assert len(intent.orders) == 1
    change = intent.orders[0].change
    assert (change.act, change.value, change.by) == (act, value, by)


@pytest.mark.parametrize(
    ("text", "inquiry"),
    [
        ("Is the big TV still on?", "is_on"),
        ("Did somebody leave the floor lamp on?", "is_on"),
        ("How bright is mine?", "how_bright"),
        ("What have you set the air conditioner to?", "how_cool"),
        ("Any idea how loud the big television is?", "how_loud"),
        ("Is the washing machine paused or is it running?", "is_running"),
        ("Has somebody paused whatever is playing music, or is it playing?", "is_playing"),
        ("How far is the blind on my right closed?", "how_closed"),
        ("When will the washing machine be done?", "time_left"),
        ("How warm is it in my room?", "temperature"),
        ("What is the humidity in the kitchen?", "humidity"),
    ],
)
def test_questions(text: str, inquiry: str) -> None:
    intent = understand(text, HOME)
    assert (intent.query, intent.inquiry) == ("Q1", inquiry)


@pytest.mark.parametrize(
    ("text", "clock", "in_min"),
    [
        ("Turn off the floor lamp at 15:20.", 920, None),
        ("Turn off the floor lamp at twenty past three in the afternoon.", 920, None),
        ("Turn off the floor lamp at 3.20 p.m.", 920, None),
        ("At five to twelve at night turn that off.", 1435, None),
        ("At twenty-five to twelve in the morning turn that off.", 695, None),
        ("At twelve noon, turn that off.", 720, None),
        ("Switch my lamp off at half past nine.", 1290, None),  # it is ten in the morning
        ("Switch my lamp off at half past ten.", 630, None),
        ("In an hour and a half, switch that off.", None, 90),
        ("Switch that off three quarters of an hour from now.", None, 45),
        ("Switch that off at ten to eleven in the morning, which is in fifty minutes.", 650, 50),
        ("Switch that off in 50 minutes, so at 10 to 11 in the morning sharp.", 650, 50),
    ],
)
def test_when(text: str, clock: int | None, in_min: float | None) -> None:
    intent = understand(text, HOME)
    assert intent.query == "Q3"
    moment = intent.orders[0].moment
    assert moment is not None
    assert (moment.clock_min, moment.in_min) == (clock, in_min)


def test_steps_and_conditions() -> None:
    intent = understand(
        "When the washer has finished, open my blind and shut it again half an hour later.", HOME
    )
    first, second = intent.orders
    assert first.moment is not None
    assert first.moment.anchor is not None
    assert (first.moment.anchor.noun, first.moment.in_min) == ("washer", 0)
    assert (first.change.act, second.change.act, second.after_previous_min) == ("open", "close", 30)
    waiting = understand("Wait until the big microwave is done, then switch off the floor lamp.", HOME)
    assert waiting.orders[0].moment is not None
    assert waiting.orders[0].moment.anchor is not None
    lasting = understand("Turn on the desk lamp for ten minutes.", HOME)
    assert [(o.change.act, o.after_previous_min) for o in lasting.orders] == [("on", None), ("off", 10)]
    kept = understand("Open that at seven in the evening but leave it closed until half past seven.", HOME)
    assert kept.orders[0].moment is not None
    assert (kept.orders[0].moment.clock_min, kept.orders[0].moment.until_min) == (1140, 1170)


@pytest.mark.parametrize(
    ("text", "room", "own", "variable", "direction", "blind"),
    [
        ("I'm boiling in here.", None, False, "temperature", "decrease", None),
        ("My room is freezing cold.", None, True, "temperature", "increase", None),
        ("My skin feels so dry in the study.", "study", False, "humidity", "increase", None),
        ("It's so damp in my room that the wallpaper comes off.", None, True, "humidity", "decrease", None),
        ("I need some fresh air in the kitchen.", "kitchen", False, "pm10", "decrease", None),
        ("The living room is too dark to read.", "living_room", False, "illuminance", "increase", None),
        ("The sun is blinding me in the living room.", "living_room", False, "illuminance", "decrease", None),
        ("People across the street are staring at me in my room.", None, True, None, None, "close"),
        ("I want to watch the sunset from the lounge.", "living_room", False, None, None, "open"),
        ("Make it brighter in here, please.", None, False, "illuminance", "increase", None),
    ],
)
def test_complaints(
    text: str, room: str | None, own: bool, variable: str | None, direction: str | None, blind: str | None
) -> None:
    need = understand(text, HOME).need
    assert need is not None
    assert (need.room, need.own_room) == (room, own)
    assert (need.variable, need.direction, need.blind) == (variable, direction, blind)


@pytest.mark.parametrize(
    ("text", "control"),
    [
        ("Undo that.", "undo"),
        ("Put it back.", "undo"),
        ("Never mind.", "cancel"),
        ("Cancel the schedule.", "cancel"),
        ("Stop!", "stop"),
        ("Mute the microphone.", "mute"),
        ("You can listen again.", "unmute"),
        ("Yes, please do.", "yes"),
        ("No, thank you.", "no"),
    ],
)
def test_control_words(text: str, control: str) -> None:
    intent = understand(text, HOME)
    assert (intent.control, intent.query) == (control, None)


def test_corrections() -> None:
    other = understand("No, the other one.", HOME)
    assert other.corrected
    meant = understand("No, I meant the desk lamp.", HOME)
    assert meant.corrected
    assert meant.device is not None
    assert meant.device.name == "desk lamp"
    instead = understand("Not that one, turn off the lamp on my right.", HOME)
    assert (instead.corrected, instead.query) == (True, "Q2")
    assert instead.device is not None
    assert instead.device.side == "right"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Dinner is ready.",
        "Good morning.",
        "We moved the shelf yesterday.",
        "It is not too warm in here.",
        "The kettle is still warm, and the window is open.",
        "She had your dark suit in greasy wash water all year.",
    ],
)
def test_what_asks_for_nothing(text: str) -> None:
    intent = understand(text, HOME)
    assert (intent.query, intent.control) == (None, None)
