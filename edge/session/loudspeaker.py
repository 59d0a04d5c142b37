"""Plays a device's sound through a loudspeaker that stands where the device does, in a process of its own.

`python -m edge.session.loudspeaker NAME TYPE` plays until its stdin is closed, so it never outlives the
session; whatever PortAudio or a sound server does there costs the recording nothing.
"""

from __future__ import annotations

import contextlib
import select
import subprocess
import sys
from pathlib import Path
from types import TracebackType

from dsp.errors import DeviceError, HearthError, InputError

READY = "playing"
READY_S = 15.0
_END_S = 2.0
_LEVEL = 0.1  # RMS of the sounding part, full scale 1: set how loud it is at the loudspeaker


class Loudspeaker:
    """A loudspeaker by name: `play` begins, `stop` ends. Use as a context manager."""

    def __init__(self, name: str) -> None:
        """name: a part of the output device's name, as `hearth doctor` lists devices."""
        self.name = name
        self._process: subprocess.Popen[str] | None = None

    def play(self, device_type: str) -> None:
        """Play what a device of this type sounds like, over and over, until `stop`.

        Raises DeviceError when the loudspeaker is not there or does not begin, InputError for a type without
        a sound.
        """
        self.stop()
        check_type(device_type)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "edge.session.loudspeaker", self.name, device_type],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[2],
            start_new_session=True,  # Ctrl-C is for the session
        )
        assert self._process.stdout is not None
        ready, _, _ = select.select([self._process.stdout], [], [], READY_S)
        said = self._process.stdout.readline().strip() if ready else "it did not begin in time"
        if said != READY:
            self.stop()
            raise DeviceError(f"the loudspeaker {self.name!r} does not play: {said or 'it ended at once'}")

    def stop(self) -> None:
        """End the sound; harmless when there is none."""
        process, self._process = self._process, None
        if process is None:
            return
        assert process.stdin is not None and process.stdout is not None
        process.stdin.close()
        try:
            process.wait(_END_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()

    def __enter__(self) -> Loudspeaker:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def check_type(device_type: str) -> None:
    """Raise InputError for a type of device that makes no sound."""
    from capture.virtual.sound import KIND_OF_TYPE

    if device_type not in KIND_OF_TYPE:
        known = ", ".join(sorted(KIND_OF_TYPE))
        raise InputError(f"a {device_type} makes no sound that could be played; these do: {known}")


def play_here(name: str, device_type: str) -> None:
    """Play in this process until stdin is closed. Raises DeviceError."""
    import numpy as np
    import sounddevice

    from capture.virtual.sound import KIND_OF_TYPE, RATE_HZ, device_loop

    outputs = [d["name"] for d in sounddevice.query_devices() if d["max_output_channels"] > 0]
    named = [one for one in outputs if name.lower() in one.lower()]
    if not named:
        raise DeviceError(f"no output's name contains {name!r}; there are {', '.join(outputs) or 'none'}")
    check_type(device_type)
    loop = (_LEVEL * device_loop(device_type, KIND_OF_TYPE[device_type], 1)).astype(np.float32)
    loop = np.clip(loop, -1.0, 1.0)[:, None]
    place = 0

    def fill(out: np.ndarray, frames: int, *_: object) -> None:
        nonlocal place
        out[:] = loop[(place + np.arange(frames)) % len(loop)]
        place += frames

    with sounddevice.OutputStream(RATE_HZ, device=named[0], channels=1, dtype="float32", callback=fill):
        print(READY, flush=True)
        sys.stdin.read()


def main() -> None:
    """The process: says `playing`, or on one line why it does not."""
    try:
        play_here(*sys.argv[1:3])
    except HearthError as error:
        print(str(error).replace("\n", " "), flush=True)
    except Exception as error:  # PortAudio's own, which must reach the operator in words
        with contextlib.suppress(OSError):
            print(f"{type(error).__name__}: {error}".replace("\n", " "), flush=True)


if __name__ == "__main__":
    main()
