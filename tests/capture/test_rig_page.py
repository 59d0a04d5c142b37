"""docs/rig.md shows every key of rig.yaml, and what it shows is a rig."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec
import yaml

from capture.rig import (
    Camera,
    Device,
    Endpoints,
    HomeSettings,
    Log,
    Microphone,
    Mqtt,
    Person,
    Rig,
    Room,
    Security,
    Storage,
    Virtual,
    parse_rig,
)

PAGE = Path(__file__).resolve().parents[2] / "docs" / "rig.md"


def keys(kind: Any) -> set[str]:
    return {field.name for field in msgspec.structs.fields(kind)}


def test_the_page_has_every_key_and_is_a_rig() -> None:
    text = re.search(r"```yaml\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.S)
    assert text is not None
    shown = yaml.safe_load(text[1])
    parts = [
        (Rig, shown),
        (Microphone, shown["microphone"]),
        (Camera, shown["camera"]),
        (Room, shown["room"]),
        (Device, shown["room"]["devices"][0]),
        (Person, shown["room"]["people"][0]),
        (HomeSettings, shown["home"]),
        (Mqtt, shown["mqtt"]),
        (Storage, shown["storage"]),
        (Endpoints, shown["endpoints"]),
        (Security, shown["security"]),
        (Log, shown["log"]),
        (Virtual, shown["virtual"]),
    ]
    for kind, part in parts:
        assert set(part) == keys(kind), kind.__name__
    parse_rig(text[1])
