"""The page that flashes and beeps, served on this computer or for a phone in the same network."""

from __future__ import annotations

import socket
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from dsp.errors import DeviceError
from recordings.terminal import emit

PAGE = Path(__file__).with_name("sync_show.html")
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; base-uri 'none'"


class _Handler(BaseHTTPRequestHandler):
    """Gives the one page, and nothing else."""

    def do_GET(self) -> None:
        """The page at /, 404 elsewhere."""
        if self.path.partition("?")[0] not in ("/", "/index.html"):
            self.send_error(404)
            return
        data = PAGE.read_bytes()
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(data)))
        self.send_header("Content-Security-Policy", _POLICY)
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:
        """Requests are not worth a line."""


def open_server(host: str, port: int) -> ThreadingHTTPServer:
    """A server of the page that is not running yet; port 0 takes a free one. Raises DeviceError."""
    try:
        return ThreadingHTTPServer((host, port), _Handler)
    except (OSError, OverflowError) as error:
        raise DeviceError(
            f"the page cannot be served at {host}:{port}: {error}; choose another with --host and --port"
        ) from None


def addresses(host: str, port: int) -> list[str]:
    """Where to open it: this computer, and where `host` lets others in, its address in the network."""
    if host not in ("0.0.0.0", "::", ""):
        return [f"http://{host}:{port}/"]
    found = [f"http://127.0.0.1:{port}/"]
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # nothing is sent; it only chooses the way out
            found.append(f"http://{probe.getsockname()[0]}:{port}/")
        except OSError:
            pass  # no network
    return found


def serve(host: str, port: int, as_json: bool) -> None:
    """Serve the page until Ctrl-C. Raises DeviceError when the port cannot be had."""
    server = open_server(host, port)
    urls = addresses(host, int(server.server_address[1]))
    emit(
        {"good": True, "urls": urls},
        as_json,
        [
            "open this page, put it before the camera and press Start:",
            *(f"  {url}" for url in urls),
            *(["for a phone: --host 0.0.0.0"] if len(urls) == 1 else []),
        ],
    )
    print("Ctrl-C ends it", file=sys.stderr, flush=True)
    try:
        server.serve_forever(poll_interval=0.2)
    except KeyboardInterrupt:
        pass
    finally:
        server.server_close()
