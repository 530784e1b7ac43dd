"""These tests cover the command `web`: its address, its end, its errors, and that only this machine reaches it."""

from __future__ import annotations

import re
import socket
import subprocess
import sys

import pytest
from command_line import CommandLine, add_upload_session
from web_server import run_web_server

from store.store import Store

WITHOUT_PACKAGE = """
import sys
sys.modules[sys.argv[1]] = None
from store.cli import run
sys.exit(run(argv=sys.argv[2:]))
"""


@pytest.fixture
def cli(store: Store) -> CommandLine:
    add_upload_session(store)
    return CommandLine(store.path)


def test_it_prints_its_address_and_ends_with_ctrl_c(cli: CommandLine, store: Store) -> None:
    (store.path.parent / "report.txt").write_text("all is well")
    public_id = cli("publish", "telegram", "report.txt").out.strip()
    with run_web_server(cli) as server:
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/pub/", server.address)
        assert server.get(public_id).body == b"all is well"
        assert server.interrupt() == (0, b"")


def test_ctrl_c_does_not_wait_for_a_slow_client(cli: CommandLine, store: Store) -> None:
    (store.path.parent / "large.bin").write_bytes(bytes(50_000_000))
    public_id = cli("publish", "telegram", "large.bin").out.strip()
    with run_web_server(cli) as server, socket.create_connection(("127.0.0.1", server.port)) as client:
        client.sendall(f"GET /pub/{public_id} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        assert client.recv(10) == b"HTTP/1.1 2"
        assert server.interrupt() == (0, b"")


def test_nothing_is_printed_about_requests(cli: CommandLine) -> None:
    with run_web_server(cli) as server:
        server.get("unknown")
        server.send_raw(b"nonsense\r\n\r\n")
        assert server.interrupt() == (0, b"")


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has the whole network 127.0.0.0/8")
def test_it_listens_on_one_loopback_address_only(cli: CommandLine) -> None:
    with run_web_server(cli) as server, pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.2", server.port), timeout=5)


def test_a_port_that_is_taken_is_one_sentence(cli: CommandLine) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        ran = cli.run_process("web", "--pub-only", "--port", port)
    assert (ran.status, ran.out) == (1, "")
    assert ran.err == f"Port {port} is taken. Choose another one with `--port`.\n"


@pytest.mark.parametrize(
    "args", [[], ["--port", "80"], ["--pub-only", "--port", "65536"], ["--pub-only", "--host", "x"]]
)
def test_wrong_usage(cli: CommandLine, args: list[str]) -> None:
    ran = cli("web", *args)
    assert (ran.status, ran.out) == (2, "")
    assert len(ran.err.splitlines()) == 1


@pytest.mark.parametrize("package", ["starlette", "uvicorn"])
def test_without_the_extra_one_sentence_says_how_to_install_it(cli: CommandLine, package: str) -> None:
    command = [sys.executable, "-c", WITHOUT_PACKAGE, package, "--store", str(cli.path), "web", "--pub-only"]
    ran = subprocess.run(command, capture_output=True, text=True)
    assert (ran.returncode, ran.stdout) == (1, "")
    assert ran.stderr == "The web server is not installed. Run `pip install 'backscroll[web]'`.\n"
