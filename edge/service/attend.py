"""What a running rig needs as a service, around it: watchdog, reload, metrics, the agent's process."""

from __future__ import annotations

import contextlib
import logging
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from capture.rig import Rig
from capture.service_manager import PathWatch, ServiceManager
from dsp.errors import DeviceError, HearthError
from edge.service import logs, metrics
from edge.service.child import Child
from edge.service.reload import Reloader

if TYPE_CHECKING:
    from edge.live import LiveService
    from edge.stream import Header

log = logging.getLogger(__name__)

# Events that somebody who reads the log later looks for as trouble.
TROUBLE = ("gap", "lost", "stalled", "overflow", "error", "failed", "recording_failed", "client_lost")


# The agent is silent while it recognises an utterance: seconds on a Jetson.
AGENT_SILENT_S = 20.0


@dataclass(frozen=True)
class Attendance:
    """metrics: host:port where they are served, None without. agent: its process, None without."""

    metrics: str | None
    agent: Child | None


@contextlib.contextmanager
def attended(
    service: LiveService,
    load: Callable[[], Rig],
    *,
    manager: ServiceManager | None = None,
    agent: Sequence[str] | None = None,
    say: Callable[[str], None] = log.info,
    changed: Callable[[Rig, tuple[str, ...]], None] = lambda rig, keys: None,
) -> Iterator[Attendance]:
    """Look after a service from before its start until after its end.

    load:    reads the rig file again, at SIGHUP (main thread only) and at the command `live.reload`.
    manager: told when sound comes and that it goes on; default: the one that the environment names.
    agent:   options of a `hearth agent` to run beside it, started again when it dies or hangs; None: none.
    changed: is called with the rig and the keys that a reload changed.

    Raises InputError for a metrics address that is none; one that is in use is said, and the rig runs on.
    """
    manager = manager or ServiceManager.of_environment()
    service.publisher.listen(_log_event)
    with contextlib.ExitStack() as stack:
        child = None if agent is None else stack.enter_context(_agent(service, agent))

        def applied(rig: Rig, keys: tuple[str, ...]) -> None:
            logs.set_level(rig.log.level)
            if child is not None and "room.devices" in keys:
                child.start_again()  # it learns the devices' names at its start
            changed(rig, keys)

        reloader = Reloader(service, load, applied)
        service.commands.register("live.reload", reloader.reload)
        stack.enter_context(_at_hangup(manager, reloader))
        children = [] if child is None else [child]
        address = _serve_metrics(stack, service, children, say)
        watch = PathWatch(
            manager,
            progress=lambda: service.heard,
            ending=lambda: service.ending,
            status=lambda: f"stream {service.stream_address}, commands {service.commands_address}",
        )
        stack.enter_context(watch)
        yield Attendance(address, child)


def _agent(service: LiveService, options: Sequence[str]) -> Child:
    command = [sys.executable, "-m", "hearth", "agent", *options]
    addresses = ["--stream", service.local_stream_address, "--commands", service.local_commands_address]
    return Child(
        "agent",
        [*command, *addresses],
        service.event,
        silent_s=AGENT_SILENT_S,
        over=lambda: service.ending,
    )


def _serve_metrics(
    stack: contextlib.ExitStack, service: LiveService, children: list[Child], say: Callable[[str], None]
) -> str | None:
    address = service.rig.endpoints.metrics_address
    if address is None:
        return None
    try:
        server = metrics.MetricsServer(address, lambda: metrics.of_service(service, children))
    except DeviceError as error:
        say(f"NO METRICS: {error}")
        return None
    say(f"metrics http://{server.address}/metrics")
    return stack.enter_context(server).address


@contextlib.contextmanager
def _at_hangup(manager: ServiceManager, reloader: Reloader) -> Iterator[None]:
    """SIGHUP reads the rig file again, in a thread of its own: whoever waits for a disk is not the sound."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    asked, closing = threading.Event(), threading.Event()

    def reload() -> None:
        while True:
            asked.wait()
            asked.clear()
            if closing.is_set():
                return
            manager.reloading()
            with contextlib.suppress(HearthError):  # it is in the log and on the stream
                reloader.reload()
            manager.ready()

    thread = threading.Thread(target=reload, name="reload", daemon=True)
    thread.start()
    before = signal.signal(signal.SIGHUP, lambda *_: asked.set())
    try:
        yield
    finally:
        signal.signal(signal.SIGHUP, before)
        closing.set()
        asked.set()
        thread.join()


def _log_event(header: Header) -> None:
    """What happens is in the log, too: with its fields, for those who read it by machine. Not the evidence
    of an agent, which is long: that is on the stream, in episodes and in the agent's trace."""
    if header.stream != "event":
        return
    data: dict[str, Any] = {**header.data, "t_ns": header.t_ns}
    kind = str(data.pop("kind", "event"))
    data.pop("evidence", None)
    level = logging.WARNING if kind in TROUBLE else logging.INFO
    log.log(level, "event %s", kind, extra=logs.fields(**data))
