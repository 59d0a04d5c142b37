"""The workers of this computer: a thread per seat takes the next episode when its worker is free."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

from recordings.process.place import Place
from recordings.process.seat import Limits, Outcome, Seat, Surroundings
from recordings.process.step import Step


class LocalPool:
    """Long-lived worker processes. `run` may be called again; `close` ends them. A context manager."""

    def __init__(self, step: Step, out: Path, workers: int, limits: Limits) -> None:
        around = Surroundings()
        self._seats = [Seat(step, out, limits, around) for _ in range(workers)]
        self._stop = threading.Event()

    def __enter__(self) -> LocalPool:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def run(self, places: Sequence[Place]) -> Iterator[Outcome]:
        """Outcomes as they come. Raises what a seat raises; then nothing runs any more."""
        todo: queue.SimpleQueue[Place] = queue.SimpleQueue()
        for place in places:
            todo.put(place)
        said: queue.SimpleQueue[Outcome | BaseException | None] = queue.SimpleQueue()
        threads = [
            threading.Thread(target=self._work, args=(seat, todo, said), name="hearth-process")
            for seat in self._seats[: len(places)]
        ]
        for thread in threads:
            thread.start()
        try:
            working = len(threads)
            while working:
                outcome = said.get()
                if outcome is None:
                    working -= 1
                elif isinstance(outcome, BaseException):
                    raise outcome
                elif outcome.state != "stopped":
                    yield outcome
        except BaseException:  # also the reader's, and Ctrl-C
            self._stop.set()
            for seat in self._seats:
                seat.close()
            raise
        finally:
            for thread in threads:
                thread.join()

    def _work(
        self,
        seat: Seat,
        todo: queue.SimpleQueue[Place],
        said: queue.SimpleQueue[Outcome | BaseException | None],
    ) -> None:
        try:
            while not self._stop.is_set():
                said.put(seat.run(todo.get_nowait()))
        except queue.Empty:
            pass
        except BaseException as error:
            said.put(error)
        finally:
            said.put(None)

    def close(self) -> None:
        """End all workers at once, with all that they started."""
        for seat in self._seats:
            seat.close()
        for seat in self._seats:
            seat.end()
