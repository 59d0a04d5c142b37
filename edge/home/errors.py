"""The errors of the home twin, with types as in the SimuHome benchmark (arXiv 2509.24282)."""

from __future__ import annotations

from typing import Literal

from dsp.errors import HearthError

ErrorType = Literal[
    "DEVICE_NOT_FOUND",
    "ENDPOINT_NOT_FOUND",
    "CLUSTER_NOT_FOUND",
    "ATTRIBUTE_NOT_FOUND",
    "COMMAND_NOT_FOUND",
    "ROOM_NOT_FOUND",
    "WORKFLOW_NOT_FOUND",
    "DEVICE_ALREADY_EXISTS",
    "TIMEOUT_ERROR",
    "CONNECTION_ERROR",
    "ROUTE_NOT_FOUND",
    "METHOD_NOT_ALLOWED",
    "FORBIDDEN",
    "INTERNAL_ERROR",
    "READ_ONLY",
    "VALIDATION_ERROR",
    "DEPENDENCY_VIOLATION",
    "COMMAND_INVALID_ARGS",
    "UNSUPPORTED_MODE",
    "INVALID_STATE",
    "CONFIRMATION_NEEDED",
]

STATUSES = {
    "INVALID_STATE": 409,
    "DEVICE_ALREADY_EXISTS": 409,
    "TIMEOUT_ERROR": 408,
    "CONNECTION_ERROR": 503,
    "METHOD_NOT_ALLOWED": 405,
    "FORBIDDEN": 403,
    "CONFIRMATION_NEEDED": 403,
    "INTERNAL_ERROR": 500,
}


class HomeError(HearthError):
    """A command, read or write that the home refuses. `type` is stable, for programs; the text is for people.

    Nothing in the home has changed when it is raised.
    """

    def __init__(self, type: ErrorType, detail: str) -> None:
        super().__init__(detail)
        self.type: ErrorType = type

    @property
    def status(self) -> int:
        """The HTTP status that goes with the type."""
        if self.type.endswith("_NOT_FOUND"):
            return 404
        return STATUSES.get(self.type, 400)
