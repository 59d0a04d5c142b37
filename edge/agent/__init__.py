"""The agent: hears requests on the stream, decides with evidence, and acts through the home's commands."""

from edge.agent.agent import Agent
from edge.agent.loop import Action, Answer, Policy, RequestLoop, Run
from edge.agent.trace import Trace

__all__ = ["Action", "Agent", "Answer", "Policy", "RequestLoop", "Run", "Trace"]
