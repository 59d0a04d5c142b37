"""The one family of errors that Hearth raises on purpose.

It lives in the lowest package so that every other one can raise and catch it. A message says what was
wrong, with which value, and what to do about it; the command line prints it without a traceback.
"""

from __future__ import annotations


class HearthError(Exception):
    """Something that the user can understand and act on.

    `exit_code` is what the command line leaves with: 2 for wrong use or wrong input, 1 for a check that
    failed on well-formed input.
    """

    exit_code = 2


class InputError(HearthError, ValueError):
    """An argument, array or file that cannot be used as it is: wrong shape, type, range or unit."""


class CheckFailed(HearthError):
    """A check ran well and its answer is no: a broken episode, a faulty recording, an unreachable goal."""

    exit_code = 1


class DeviceError(HearthError):
    """A microphone, camera or service that is absent, busy, in the wrong mode, or went away."""


class MissingDependency(HearthError):
    """A library or system package that this function needs is not installed; the message names it."""
