"""What a running rig measures, for Prometheus: the text format 0.0.4, on a port of its own."""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Callable, Iterable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

from capture.blocks import monotonic_ns
from dsp.errors import DeviceError, InputError
from edge.console.address import is_loopback

if TYPE_CHECKING:
    from edge.live import LiveService
    from edge.service.child import Child

log = logging.getLogger(__name__)

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
LIGHTS = ("off", "ready", "recording", "muted")
_MIB = 1 << 20
_TIMEOUT_S = 5.0

Labels = Mapping[str, str]


class Exposition:
    """Collects metric families; `text` is what Prometheus reads."""

    def __init__(self) -> None:
        self._lines: list[str] = []

    def add(self, name: str, kind: str, help: str, values: Iterable[tuple[Labels, Any]] | Any) -> None:
        """One family: a number, or (labels, number) pairs. What is not known (None, NaN) is left out."""
        pairs = [({}, values)] if not isinstance(values, list | tuple) else list(values)
        known = [(labels, value) for labels, value in pairs if _is_number(value)]
        if not known:
            return
        self._lines += [f"# HELP {name} {_escape(help)}", f"# TYPE {name} {kind}"]
        for labels, value in known:
            told = ",".join(f'{key}="{_escape(str(text), True)}"' for key, text in labels.items())
            self._lines.append(f"{name}{{{told}}} {_number(value)}" if told else f"{name} {_number(value)}")

    @property
    def text(self) -> str:
        return "\n".join(self._lines) + "\n"


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not math.isnan(value)


def _number(value: float) -> str:
    return str(int(value)) if isinstance(value, bool | int) else repr(float(value))


def _escape(text: str, quoted: bool = False) -> str:
    text = text.replace("\\", r"\\").replace("\n", r"\n")
    return text.replace('"', r"\"") if quoted else text


def of_service(service: LiveService, children: Iterable[Child] = ()) -> str:
    """All of a running service; docs/services.md lists the names."""
    stats, health, state = service.stats(), service.health, service.state()
    out = Exposition()
    rig = {"rig": service.rig.name, "microphone": service.opened.audio_info.name}
    out.add("hearth_info", "gauge", "What runs; always 1.", [(rig, 1)])
    out.add("hearth_run_seconds", "gauge", "Since the sources were started.", stats["seconds"])
    out.add("hearth_start_seconds", "gauge", "How long the start took.", stats["start_s"])
    _sound(out, service, stats, health)
    _pictures_and_messages(out, stats, health)
    _stages(out, service, health)
    _takes(out, stats, state)
    _machine(out, service, stats, health)
    told = [({"process": child.name}, child) for child in children]
    up = [(labels, int(child.ready)) for labels, child in told]
    out.add("hearth_process_up", "gauge", "1: a process beside this one does its work.", up)
    restarts = [(labels, child.restarts) for labels, child in told]
    out.add("hearth_process_restarts_total", "counter", "Times that it was started again.", restarts)
    return out.text


def _sound(out: Exposition, service: LiveService, stats: Any, health: Any) -> None:
    out.add("hearth_audio_blocks_total", "counter", "Blocks of sound processed.", stats["blocks"])
    out.add("hearth_audio_gaps_total", "counter", "Gaps in the microphone's sound.", stats["gaps"])
    out.add("hearth_audio_lost_frames_total", "counter", "Frames that the source lost.", stats["lost_frames"])
    text = "Blocks that the live chain was too slow for; a recording has them."
    out.add("hearth_audio_dropped_blocks_total", "counter", text, stats["blocks_dropped"])
    out.add("hearth_microphone_up", "gauge", "0: it is lost and waited for.", int(service.heard is not None))
    drift = health.get("drift_ppm")
    out.add("hearth_clock_drift_ppm", "gauge", "Of the microphone's clock.", drift)
    sigma = health.get("drift_sigma_ppm")
    out.add("hearth_clock_drift_sigma_ppm", "gauge", "Standard uncertainty of the drift.", sigma)


def _pictures_and_messages(out: Exposition, stats: Any, health: Any) -> None:
    out.add("hearth_pictures_total", "counter", "Pictures published.", stats["pictures"])
    text = "Pictures that the camera missed, or that were passed over for newer ones."
    out.add("hearth_pictures_dropped_total", "counter", text, stats["pictures_dropped"])
    sent = [({"stream": stream}, count) for stream, count in sorted(stats["sent"].items())]
    out.add("hearth_messages_total", "counter", "Messages published.", sent)
    out.add("hearth_commands_total", "counter", "Commands served.", stats["commands"])
    refused = [({"reason": reason}, n) for reason, n in sorted(stats["commands_rejected"].items())]
    out.add("hearth_commands_rejected_total", "counter", "What was no command.", refused)
    security = health.get("security", {})
    text = "Connections that showed an allowed key."
    out.add("hearth_connections_accepted_total", "counter", text, security.get("accepted"))
    for name, what in (("denied", "Connections refused."), ("cut", "Connections cut for what they sent.")):
        refused = [({"reason": reason}, count) for reason, count in sorted(security.get(name, {}).items())]
        out.add(f"hearth_connections_{name}_total", "counter", what, refused)
    clients = health.get("clients")
    if clients is not None:
        there = sum(bool(client["alive"]) for client in clients)
        pairs = [({"state": "alive"}, there), ({"state": "lost"}, len(clients) - there)]
        out.add("hearth_clients", "gauge", "Clients that send heartbeats, or stopped to.", pairs)


def _stages(out: Exposition, service: LiveService, health: Any) -> None:
    stages = sorted(health.get("stages", {}).items())
    spent = [
        ({"stage": stage, "quantile": quantile}, told[key] / 1e3)
        for stage, told in stages
        for quantile, key in (("0.5", "p50_ms"), ("0.99", "p99_ms"))
    ]
    out.add("hearth_stage_seconds", "gauge", "Time in a stage of the live path, last second.", spent)
    limits = [({"stage": stage}, told["limit_ms"] / 1e3) for stage, told in stages]
    out.add("hearth_stage_limit_seconds", "gauge", "What its 99 % point may be.", limits)
    totals = sorted(service.stage_totals.items())
    passed = [({"stage": stage}, count) for stage, (count, _) in totals]
    out.add("hearth_stage_passages_total", "counter", "Blocks or pictures that went through it.", passed)
    over = [({"stage": stage}, count) for stage, (_, count) in totals]
    out.add("hearth_stage_over_limit_total", "counter", "Those that took longer than the limit.", over)


def _takes(out: Exposition, stats: Any, state: Any) -> None:
    out.add("hearth_muted", "gauge", "1: nothing heard or seen leaves the process.", int(state["muted"]))
    out.add("hearth_recording", "gauge", "1: a take runs.", int(state["recording"]))
    lights = [({"light": light}, int(state["light"] == light)) for light in LIGHTS]
    out.add("hearth_light", "gauge", "1 for the state that a recording light shows.", lights)
    since = state["recording_since_ns"]
    seconds = 0.0 if since is None else (monotonic_ns() - since) / 1e9
    out.add("hearth_recording_seconds", "gauge", "Length of the take that runs.", seconds)
    out.add("hearth_takes_total", "counter", "Takes finished.", len(stats.get("recordings", ())))
    finishing = len(state["finishing"])
    out.add("hearth_takes_finishing", "gauge", "Takes that ended and are not finished yet.", finishing)


def _machine(out: Exposition, service: LiveService, stats: Any, health: Any) -> None:
    queues = [
        ({"queue": "live audio"}, stats["audio_queue"]),
        ({"queue": "live video"}, stats["video_queue"]),
    ]
    recorder = service.recorder
    waiting = {} if recorder is None else recorder.waiting
    queues += [({"queue": f"recorder {name}"}, depth) for name, depth in sorted(waiting.items())]
    out.add("hearth_queue_depth", "gauge", "Blocks or pictures that wait.", queues)
    cpu = health.get("cpu_percent")
    out.add("hearth_cpu_ratio", "gauge", "Of one core, last second.", None if cpu is None else cpu / 100)
    rss = stats["rss_mib"]
    out.add("hearth_resident_memory_bytes", "gauge", "RSS.", None if rss is None else int(rss * _MIB))
    free = health.get("disk_free_mib")
    out.add("hearth_disk_free_bytes", "gauge", "For recordings.", None if free is None else free * _MIB)
    sensor = [({"sensor": str(health.get("temperature_of"))}, health.get("temperature_c"))]
    out.add("hearth_temperature_celsius", "gauge", "Of the hottest sensor.", sensor)


class MetricsServer:
    """Serves `GET /metrics` from a thread. Use as a context manager; `address` is host:port as bound.

    address: host:port on loopback; port 0 lets the system choose. Raises InputError for another address: what
    it tells (that a rig records, that somebody is there) is nobody's business in the network; a Prometheus
    agent on this host can fetch and forward it. Raises DeviceError for one in use.
    """

    def __init__(self, address: str, produce: Callable[[], str]) -> None:
        host, _, port = address.rpartition(":")
        host = host.strip("[]")
        if not port.isdigit() or int(port) > 65535:
            raise InputError(
                f"`endpoints.metrics` is host:port, like 127.0.0.1:5773, or off, not {address!r}"
            )
        if not is_loopback(host):
            raise InputError(
                f"`endpoints.metrics` {address} is off loopback: metrics are neither encrypted nor guarded. "
                "Use 127.0.0.1 and fetch them with a Prometheus agent on this host, or through a tunnel"
            )

        class Handler(_Handler):
            text = staticmethod(produce)

        try:
            self._server = _server_class(host)((host, int(port)), Handler)
        except OSError as error:
            raise DeviceError(f"the metrics cannot be served at {address}: {error}") from None
        bound = self._server.server_address
        shown = f"[{host}]" if ":" in host else host
        self.address = f"{shown}:{bound[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, name="metrics", daemon=True)

    def __enter__(self) -> MetricsServer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def _server_class(host: str) -> type[ThreadingHTTPServer]:
    import socket

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        request_queue_size = 8

    return Server


class _Handler(BaseHTTPRequestHandler):
    text: Callable[[], str]
    timeout = _TIMEOUT_S  # of a connection that says nothing
    server_version = "hearth"
    sys_version = ""

    def do_GET(self) -> None:
        name = (self.headers.get("Host") or "").rpartition(":")[0] or (self.headers.get("Host") or "")
        if not is_loopback(name.strip("[]")):
            # A page from elsewhere whose name was made to point here (DNS rebinding).
            self._answer(403, "text/plain; charset=utf-8", "ask for it by 127.0.0.1 or localhost\n")
        elif self.path.split("?")[0] != "/metrics":
            self._answer(404, "text/plain; charset=utf-8", "there is /metrics\n")
        else:
            try:
                text = self.text()
            except Exception:
                log.exception("the metrics could not be told")
                self._answer(500, "text/plain; charset=utf-8", "they could not be told; the log says why\n")
            else:
                self._answer(200, CONTENT_TYPE, text)

    def _answer(self, status: int, kind: str, text: str) -> None:
        body = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        log.debug("metrics: " + format, *args)
