"""What a procedure's step says to whoever carries it out: one sentence per schema and action."""

from __future__ import annotations

from edge.agent.memory.evidence import Action, Schema

SCHEMA_WORDS: dict[Schema, str] = {
    "G0": "the request names the device",
    "G1": "the speaker points at the device",
    "G2": "the device is told by its sound",
    "G3": "the device is on a side of the speaker",
    "G4": "the device or room is somebody's own",
}
_PLAIN: dict[Action, str] = {
    "pointing": "Find the arm of the speaker and the ray from it.",
    "facing": "Find which way the speaker faces.",
    "speaker": "Find who in the picture is talking, and where.",
    "face": "Compare the speaker's face with the household's.",
    "voice": "Compare the voice with the household's.",
    "sound": "Find the direction of the device that sounds.",
    "sound_kind": "Find out what kind of sound it is.",
    "declare": "Declare the device, or none, and go on.",
}
_OWN: dict[tuple[Schema, Action], str] = {
    (
        "G0",
        "declare",
    ): "The words name it: match name, type and room, then declare; none if the home lacks it.",
    (
        "G1",
        "pointing",
    ): "Follow the ray from the arm through the room; do not take what is nearest to the hand.",
    ("G1", "speaker"): "Several people may be there: first find who talks, then whose arm counts.",
    ("G1", "declare"): "Declare what the ray meets; none if nobody points, or nothing of that kind is there.",
    ("G2", "sound"): "Find where the sound comes from; do not guess from what usually makes it.",
    ("G2", "sound_kind"): "Check that the sound is of the kind that was named.",
    (
        "G2",
        "declare",
    ): "Declare what stands in that direction and can sound so in its present state, else none.",
    ("G3", "facing"): "Left and right are the speaker's: find which way the speaker faces.",
    ("G3", "speaker"): "Find where the speaker stands: sides are counted from there.",
    (
        "G3",
        "declare",
    ): "Turn sides into the room by the speaker's view, then declare; none if that side lacks it.",
    ("G4", "face"): "Whose it is depends on who speaks: compare the face with the household's.",
    ("G4", "voice"): "Whose it is depends on who speaks: compare the voice with the household's.",
    (
        "G4",
        "declare",
    ): "Look up what that person owns, or that person's room, then declare; none if it is not there.",
}


def guidance(schema: Schema, action: Action) -> str:
    """One sentence for this step."""
    return _OWN.get((schema, action)) or _PLAIN[action]
