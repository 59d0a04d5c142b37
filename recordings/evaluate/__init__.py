"""Scores of an agent's answers to recorded episodes: see docs/evaluation.md."""
