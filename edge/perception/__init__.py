"""Perception: speech, requests, utterances, directions, and what they say about which device is meant.

Each tool stands behind an interface with confidence, provenance and time cost: `Recogniser` (speech),
`VoiceDetector` (is somebody speaking). It knows the room only by its map (`RoomMap`).
"""

from edge.perception.direction import Direction, device_direction, talker_direction
from edge.perception.room_map import MapDevice, RoomMap
from edge.perception.speech import FunctionRecogniser, Recogniser, Recognition, load_recogniser
from edge.perception.utterance import Utterance, UtteranceCutter
from edge.perception.voice import SileroVoice, Voice, VoiceDetector

__all__ = [
    "Direction",
    "FunctionRecogniser",
    "MapDevice",
    "Recogniser",
    "Recognition",
    "RoomMap",
    "SileroVoice",
    "Utterance",
    "UtteranceCutter",
    "Voice",
    "VoiceDetector",
    "device_direction",
    "load_recogniser",
    "talker_direction",
]
