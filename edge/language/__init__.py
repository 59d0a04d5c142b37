"""Words to meaning: what a request in plain English asks for, typed (`Intent`), without knowing who spoke."""

from edge.language.home_words import HomeWords
from edge.language.intent import Change, DeviceWords, Intent, Moment, Need, Order
from edge.language.understand import understand
from edge.language.understand_speech import understand_speech

__all__ = [
    "Change",
    "DeviceWords",
    "HomeWords",
    "Intent",
    "Moment",
    "Need",
    "Order",
    "understand",
    "understand_speech",
]
