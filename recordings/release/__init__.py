"""Releases: which episodes may go out, their splits, their media, and the formats they are written in."""
