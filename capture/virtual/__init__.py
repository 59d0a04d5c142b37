"""The virtual room: a scene with talkers and devices, heard as FOA and seen by a camera, with exact truth.

Public: `build_scene(rig)` -> `VirtualScene`; `Truth`, `SourceTruth`; `foa_response` (the room simulation).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from capture.virtual.room import foa_response
    from capture.virtual.scene import VirtualScene, build_scene
    from capture.virtual.truth import SourceTruth, Truth

__all__ = ["SourceTruth", "Truth", "VirtualScene", "build_scene", "foa_response"]

_HOME = {
    "SourceTruth": "truth",
    "Truth": "truth",
    "VirtualScene": "scene",
    "build_scene": "scene",
    "foa_response": "room",
}


def __getattr__(name: str) -> Any:
    """Load on first use: Numba and OpenCV would slow every `hearth --help`."""
    if name in _HOME:
        from importlib import import_module

        return getattr(import_module(f"capture.virtual.{_HOME[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
