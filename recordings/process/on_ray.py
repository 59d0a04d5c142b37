"""The same work on a Ray cluster: Ray Data carries paths, never sound or pictures.

Each actor has a seat (`recordings.process.seat`) as a thread of the local pool has: Ray Data knows no time
limit for one item (ray-project/ray #45661), cannot stop native code and stalls when many of its own workers
die (#41258), so the step runs in a child process of the actor, and what the child does to itself reaches no
actor. Ray may give an item twice (#61047); locks and results that name their content make that harmless. Data
folder, `out` and Hearth must be at the same place on every computer, and `out` on a file system with locks.
"""

from __future__ import annotations

import logging
import os
import tempfile
from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec

from dsp.errors import HearthError, MissingDependency
from recordings.process.place import Place
from recordings.process.seat import Limits, Outcome, Seat, Surroundings
from recordings.process.step import Step

_PATHS_PER_BLOCK = 4  # Ray Data hands on whole blocks: progress comes in steps of these
_STORE_BYTES = 128 << 20  # for paths


class RayError(HearthError):
    """Ray could not be reached, or lost its work."""


class _Actor:
    """Runs episodes in a worker of its own; made and called by Ray Data."""

    def __init__(self, step: dict[str, Any], out: str, limits: Limits, surroundings: Surroundings) -> None:
        self._out = Path(out)
        self._seat = Seat(msgspec.convert(step, Step), self._out, limits, surroundings)

    def __call__(self, row: dict[str, Any]) -> dict[str, Any]:
        place = Place(Path(row["episode"]), self._out)
        try:
            outcome = self._seat.run(place)
        except HearthError as error:  # to the driver as an answer: what an actor raises, Ray tries again
            outcome = Outcome(episode=place.name, state="refused", reason=str(error))
        return {"outcome": msgspec.json.encode(outcome).decode()}


class RayPool:
    """As LocalPool, on Ray. address: of a running cluster; None: a local one is started for this run.

    Raises MissingDependency without the extra `batch`, RayError when the cluster cannot be reached.
    """

    def __init__(self, step: Step, out: Path, workers: int, limits: Limits, address: str | None) -> None:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
        try:
            self._ray: Any = import_module("ray")
            self._data: Any = import_module("ray.data")
        except ImportError as error:
            raise MissingDependency(f"--on ray needs `pip install 'hearth-home[batch]'` ({error})") from None
        self._workers = workers
        self._surroundings = Surroundings()
        self._arguments = {
            "step": msgspec.to_builtins(step),
            "out": str(out),
            "limits": limits,
            "surroundings": self._surroundings,
        }
        self._scratch = None if address else tempfile.TemporaryDirectory(prefix="hearth-ray-")
        quiet = {"log_to_driver": False, "logging_level": logging.ERROR, "ignore_reinit_error": True}
        environment = {"env_vars": {"PYTHONPATH": os.pathsep.join(self._surroundings.path)}}
        here = {
            "num_cpus": workers,
            "include_dashboard": False,
            "object_store_memory": _STORE_BYTES,
            "_temp_dir": self._scratch.name if self._scratch else None,
        }
        try:
            self._ray.init(address=address, runtime_env=environment, **quiet, **({} if address else here))
        except Exception as error:
            raise RayError(f"--on ray: {address or 'a local cluster'}: {error}") from None

    def __enter__(self) -> RayPool:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def run(self, places: Sequence[Place]) -> Iterator[Outcome]:
        """Outcomes as they come. Raises RayError, and WorkerError's message when no worker can be started."""
        data = self._data
        context = data.DataContext.get_current()
        context.enable_progress_bars = False
        logging.getLogger("ray.data").setLevel(logging.ERROR)
        rows = [{"episode": str(place.episode)} for place in places]
        blocks = max(1, -(-len(rows) // _PATHS_PER_BLOCK))
        try:
            dataset = data.from_items(rows, override_num_blocks=blocks).map(
                _Actor,
                fn_constructor_kwargs=self._arguments,
                compute=data.ActorPoolStrategy(size=min(self._workers, blocks)),
                num_cpus=1,
            )
            for row in dataset.iter_rows():
                outcome = msgspec.json.decode(row["outcome"], type=Outcome)
                if outcome.state == "refused":
                    raise RayError(outcome.reason)
                yield outcome
        except (HearthError, GeneratorExit):
            raise
        except Exception as error:
            raise RayError(f"--on ray: the cluster lost the work: {type(error).__name__}: {error}") from None

    def close(self) -> None:
        """Leave the cluster; one that was started for this run ends."""
        self._ray.shutdown()
        if self._scratch is not None:
            self._scratch.cleanup()
