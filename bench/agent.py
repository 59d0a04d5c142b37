"""All figures of the agent: `python -m bench.agent`, or the parts that are named.

scores: 340 episodes of an unseen seed, with and without memory. vision, audio, language: the perception tools
each alone. decision: the posterior and the decision alone. homes: real Home Assistant and Mosquitto.
"""

from __future__ import annotations

import sys

from bench.figures import run_modules

MODULES = {
    "vision": "bench.agent_vision",
    "audio": "bench.agent_audio",
    "language": "bench.agent_language",
    "decision": "bench.agent_decision",
    "home_twin": "bench.agent_home_twin",
    "homes": "bench.agent_homes",
    "scores": "bench.agent_scores",
}

if __name__ == "__main__":
    sys.exit(run_modules("agent", MODULES))
