"""Several rigs, one agent: a lasting id for each, one clock, and one answer to what several of them heard.

`edge.rigs.rig_set.RigSet` listens, `edge.rigs.arbiter.Arbiter` decides which rig answers, and
`edge.rigs.house_agent.HouseAgent` is the agent of them all (docs/rigs.md). Import the modules: a rig that
only needs its id loads nothing else.
"""
