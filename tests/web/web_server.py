"""This module runs `backscroll web` as a process and sends it HTTP requests, well-formed and raw ones."""

from __future__ import annotations

import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http.client import HTTPConnection
from urllib.parse import urlsplit

from command_line import CommandLine

TIMEOUT = 60
LAST_REQUEST = b"\r\n\r\nGET /last HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"


@dataclass(frozen=True)
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes


@dataclass(frozen=True)
class WebServer:
    process: subprocess.Popen[bytes]
    address: str
    "Is the line that the command printed."

    @property
    def port(self) -> int:
        return urlsplit(self.address).port or 0

    def request(self, path: str, method: str = "GET", **headers: str) -> Answer:
        connection = HTTPConnection("127.0.0.1", self.port, timeout=TIMEOUT)
        try:
            connection.request(method, path, headers=headers)
            response = connection.getresponse()
            names = {name.lower(): value for name, value in response.getheaders()}
            return Answer(response.status, names, response.read())
        finally:
            connection.close()

    def get(self, public_id: str) -> Answer:
        return self.request(f"/pub/{public_id}")

    def send_raw(self, request: bytes) -> bytes:
        """Send bytes as they are, and return everything that the server answers.

        A well-formed request follows them, so that the server closes the connection whatever it makes of the bytes.
        """
        answer = b""
        connection = socket.create_connection(("127.0.0.1", self.port), timeout=TIMEOUT)
        # The server may refuse the bytes, and close the connection, before it has read them all.
        with connection, suppress(ConnectionResetError, BrokenPipeError):
            connection.sendall(request + LAST_REQUEST)
            while received := connection.recv(65_536):
                answer += received
        return answer

    def interrupt(self) -> tuple[int, bytes]:
        """Press Ctrl+C, and return the exit status and what was printed on stderr."""
        self.process.send_signal(signal.SIGINT)
        _, errors = self.process.communicate(timeout=TIMEOUT)
        return self.process.returncode, errors


@contextmanager
def run_web_server(cli: CommandLine) -> Iterator[WebServer]:
    process = subprocess.Popen(
        cli.command("web", "--pub-only", "--port", "0"),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        # The shell ignores SIGINT for tests that run in the background, and children inherit that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    try:
        assert process.stdout
        yield WebServer(process, process.stdout.readline().decode().strip())
    finally:
        process.kill()
        process.communicate()
