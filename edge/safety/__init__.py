"""Safety: temporal-logic rules over the events of a home, costs and budgets, and a yes for risky actions."""

from edge.safety.atoms import Event, Happens, Is
from edge.safety.confirmation import Risk, is_yes, risk_of
from edge.safety.formula import parse
from edge.safety.monitor import Cost, Monitor, Rule, SafetyReport, Violation

__all__ = [
    "Cost",
    "Event",
    "Happens",
    "Is",
    "Monitor",
    "Risk",
    "Rule",
    "SafetyReport",
    "Violation",
    "is_yes",
    "parse",
    "risk_of",
]
