"""The HTTP endpoint: GET /live, /ready and /metrics, nothing else. It may fail in any way without touching the work."""

import ipaddress
import os
import threading
import time
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socket import AF_INET6, socket
from typing import ClassVar

import structlog

from schemas.settings import HealthSettings
from stream_workers.supervision.health import SlotHealth, find_obstacles, render_metrics

REQUEST_SECONDS = 5.0
MAX_REQUESTS = 16
"""At once; more are closed unanswered, so that no crowd of scrapers takes the cores from the models."""
METRICS_SECONDS = 0.25
"""Metrics are merged at most this often, however many ask."""
LIVE_SECONDS = 10.0
NICENESS = 10

_log = structlog.get_logger("health")


class HealthBoard:
    """What the endpoint shows: written by the supervisor's loop, read by the server's threads."""

    def __init__(self) -> None:
        self._slots: Sequence[SlotHealth] = ()
        self._updated_at = time.monotonic()
        self._lock = threading.Lock()
        self._metrics = ""
        self._metrics_at = float("-inf")

    def update(self, slots: Sequence[SlotHealth]) -> None:
        """Show this from now on."""
        self._slots, self._updated_at = slots, time.monotonic()

    def answer(self, path: str) -> tuple[int, str, str]:
        """Return status, content type and body for a path."""
        now = time.monotonic()
        if path == "/live":
            alive = now - self._updated_at < LIVE_SECONDS
            return (200, "text/plain", "alive\n") if alive else (503, "text/plain", "the supervisor does not move\n")
        if path == "/ready":
            reasons = find_obstacles(self._slots, now)
            return (503, "text/plain", "\n".join(reasons) + "\n") if reasons else (200, "text/plain", "ready\n")
        if path == "/metrics":
            return 200, "text/plain; version=0.0.4", self._render(now)
        return 404, "text/plain", "there are /live, /ready and /metrics\n"

    def _render(self, now: float) -> str:
        with self._lock:
            if now - self._metrics_at >= METRICS_SECONDS:
                self._metrics, self._metrics_at = render_metrics(self._slots, now), now
            return self._metrics


class _Handler(BaseHTTPRequestHandler):
    timeout = REQUEST_SECONDS  # of a client that does not send, or does not read
    server_version = "headrace"
    sys_version = ""
    server: "_Server"

    def do_GET(self) -> None:
        status, content_type, body = self.server.board.answer(self.path.partition("?")[0])
        data = body.encode()
        self.send_response(status)
        self.send_header("Content-Type", f"{content_type}; charset=utf-8")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *arguments: object) -> None:
        """Say nothing: a line per probe would drown the rest."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    places: ClassVar[int] = MAX_REQUESTS

    def __init__(self, address: tuple[str, int], board: HealthBoard) -> None:
        self.board = board
        self._places = threading.BoundedSemaphore(self.places)
        if ":" in address[0]:
            self.address_family = AF_INET6
        super().__init__(address, _Handler)

    def process_request(self, request: socket | tuple[bytes, socket], client_address: object) -> None:
        if not self._places.acquire(blocking=False):
            self.shutdown_request(request)
            return
        super().process_request(request, client_address)

    def process_request_thread(self, request: socket | tuple[bytes, socket], client_address: object) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._places.release()

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that went away is its own affair."""


def start_health_server(settings: HealthSettings, board: HealthBoard) -> int | None:
    """Serve in a thread and return the port; None, with a warning, when that cannot be: the work goes on without."""
    try:
        server = _Server((settings.host, settings.port), board)
    except OSError as error:
        _log.warning("no health endpoint", host=settings.host, port=settings.port, reason=error.strerror)
        return None
    port = int(server.server_address[1])
    threading.Thread(target=_serve, args=(server,), name="health", daemon=True).start()
    _log.info("health endpoint", host=settings.host, port=port)
    if not _is_loopback(settings.host):
        _log.warning("the health endpoint can be reached from other hosts and asks for no password", host=settings.host)
    return port


def _serve(server: _Server) -> None:
    # Linux gives each thread a priority of its own, inherited by the threads it starts: scrapers wait for the work.
    os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICENESS)
    server.serve_forever()


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
