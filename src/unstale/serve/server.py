"""The web server: one page, GET only, for this machine alone."""

import errno
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, final
from urllib.parse import parse_qs, urlsplit

from unstale.errors import InputError

HOST = "127.0.0.1"
# Nothing is loaded from anywhere, no script runs, no other page may frame this one.
_HEADERS = {
    "Content-Type": "text/html; charset=utf-8",
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; img-src data:; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}


@final
class PageServer(ThreadingHTTPServer):
    """Serve what `page` makes of a query, "" for none."""

    daemon_threads = True  # Ctrl+C does not wait for a browser that keeps a connection open
    request_queue_size = 512  # clients that may knock at once
    page: Callable[[str], str]

    def __init__(self, port: int, patience: float = 60.0) -> None:
        self.one_at_a_time = threading.Lock()  # a model need not bear two threads
        self.patience = patience  # seconds for a request to arrive, however it drips in
        self.waiting: dict[socket.socket, float] = {}  # since when each has been asking
        super().__init__((HOST, port), _Handler)

    def get_request(self) -> tuple[socket.socket, Any]:
        """Accept a client; without descriptors left, wait a little for one to come free."""
        try:
            client, address = super().get_request()
        except OSError as error:
            if error.errno in (errno.EMFILE, errno.ENFILE):
                time.sleep(0.1)
                self.service_actions()
            raise
        self.waiting[client] = time.monotonic()
        return client, address

    def service_actions(self) -> None:
        """Close what has been asking for too long; the server calls this twice a second."""
        late = time.monotonic() - self.patience
        for client in [client for client, since in list(self.waiting.items()) if since < late]:
            self.arrived(client)
            with suppress(OSError):
                client.shutdown(socket.SHUT_RDWR)

    def arrived(self, client: socket.socket) -> None:
        """Note that a request is here, or that its client has gone."""
        self.waiting.pop(client, None)

    def shutdown_request(self, request: Any) -> None:  # noqa: ANN401 - as socketserver has it
        """Forget a client, and close its connection."""
        self.arrived(request)
        super().shutdown_request(request)


def listen(port: int) -> PageServer:
    """Take a port of this machine, or say why not; 0 takes a free one."""
    try:
        return PageServer(port)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            rule = "choose another with --port, or 0 for any"
            raise InputError(f"port {port} is in use: {rule}") from None
        raise InputError(f"cannot listen on port {port} ({error.strerror})") from None


@final
class _Handler(BaseHTTPRequestHandler):
    server: PageServer
    server_version, sys_version = "unstale", ""
    timeout = 60  # a connection that says nothing does not stay

    def do_GET(self) -> None:
        self.server.arrived(self.connection)
        try:
            asked, host = (
                urlsplit(self.path),
                urlsplit(f"//{self.headers.get('Host', '')}").hostname,
            )
        except ValueError:
            self.send_error(HTTPStatus.BAD_REQUEST)
            return
        # A web page elsewhere can make its own name point here, and so read what is served; the
        # Host header then has that name.
        if host not in (HOST, "localhost"):
            self.send_error(HTTPStatus.MISDIRECTED_REQUEST)
            return
        if asked.path != "/":
            self.send_error(HTTPStatus.NOT_FOUND)
            return
        query = parse_qs(asked.query).get("q", [""])[0]
        try:
            with self.server.one_at_a_time:
                body = self.server.page(query).encode()
        except Exception:
            self.send_error(HTTPStatus.INTERNAL_SERVER_ERROR, explain="See the terminal.")
            raise  # the server prints it, and continues
        self.send_response(HTTPStatus.OK)
        for name, value in _HEADERS.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Keep what people ask to themselves."""
