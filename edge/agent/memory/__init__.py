"""Procedural memory: which tool to call next, given what kind of request it is and what is known so far."""

from edge.agent.memory.bank import MemoryBank, MemoryPolicy
from edge.agent.memory.evidence import Policy, Step
from edge.agent.memory.order import GenericOrder

__all__ = ["GenericOrder", "MemoryBank", "MemoryPolicy", "Policy", "Step"]
