"""Words to meaning: what a request in plain English asks for, typed (`Intent`), without knowing who spoke."""

from edge.language.intent import Change, DeviceWords, Intent, Moment, Need, Order

__all__ = ["Change", "DeviceWords", "Intent", "Moment", "Need", "Order"]
