"""The agent: hears requests on the stream, decides with evidence, and acts through the home's commands."""

from edge.agent.agent import Agent, Answer
from edge.agent.decision import Decision, decide
from edge.agent.trace import Trace

__all__ = ["Agent", "Answer", "Decision", "Trace", "decide"]
