"""These tests send real HTTP requests for published files to a real server: what is served, and attacks on it."""

from __future__ import annotations

import itertools
import os
import random
import shutil
import socket
import string
import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from command_line import CommandLine
from web_server import WebServer, run_web_server

from store.model.session import Session
from store.store import Store

PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256))
NUMBERS = itertools.count(648079060)
SECRET = b"a file that was never published"
TEXT = b"in the folder\n"


@pytest.fixture(scope="module")
def server_store(tmp_path_factory: pytest.TempPathFactory, blank: Path) -> Iterator[Store]:
    """Provide one store for all tests, because starting a server takes longer than most of them."""
    store = Store.open(shutil.copy(blank, tmp_path_factory.mktemp("server") / "store.db"))
    yield store
    store.close()


@pytest.fixture(scope="module")
def server(server_store: Store) -> Iterator[WebServer]:
    with run_web_server(CommandLine(server_store.path)) as server:
        yield server


@pytest.fixture
def store(server_store: Store) -> Store:
    return server_store


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "report.txt").write_bytes(TEXT)
    (folder / "private.txt").write_bytes(SECRET)
    (tmp_path / "outside.txt").write_bytes(SECRET)
    return folder


@pytest.fixture
def session(store: Store, folder: Path) -> Session:
    return store.create_session(f"telegram:{next(NUMBERS)}", cwd=str(folder))


@pytest.fixture
def public_id(store: Store, session: Session) -> str:
    return store.published.publish(session, "report.txt").id


def publish(store: Store, session: Session, name: str, content: bytes) -> str:
    Path(session.cwd, name).write_bytes(content)
    return store.published.publish(session, name).id


# ── what is served ────────────────────────────────────────────────────────────────────────────────


def test_a_published_file_is_served_until_it_is_unpublished(server: WebServer, store: Store, public_id: str) -> None:
    answer = server.get(public_id)
    assert (answer.status, answer.body) == (200, TEXT)
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"
    assert answer.headers["content-length"] == str(len(TEXT))
    assert answer.headers["content-disposition"] == "inline; filename*=UTF-8''report.txt"
    store.published.unpublish(public_id)
    assert server.get(public_id).status == 404
    store.journal.undo()
    assert server.get(public_id).body == TEXT


def test_a_session_in_the_trash_takes_its_files_along_until_it_is_restored(
    server: WebServer, store: Store, session: Session, public_id: str
) -> None:
    store.sessions.delete([session])
    unknown, trashed = server.get("unknown"), server.get(public_id)
    assert (trashed.status, trashed.body) == (404, unknown.body)
    assert public_id not in [file.id for file in store.published.list_published()]
    store.sessions.restore([session])
    assert server.get(public_id).body == TEXT


def test_the_current_content_is_served(server: WebServer, folder: Path, public_id: str) -> None:
    for content in (b"longer than it was before", b"", TEXT):
        (folder / "report.txt").write_bytes(content)
        assert server.get(public_id).body == content


def test_head_sends_the_same_headers_and_no_content(server: WebServer, public_id: str) -> None:
    head, answer = server.request(f"/pub/{public_id}", "HEAD"), server.get(public_id)
    assert (head.status, head.body) == (200, b"")
    assert head.headers.keys() == answer.headers.keys()
    assert head.headers["content-length"] == str(len(TEXT))


def test_a_large_file_arrives_whole_and_a_client_that_leaves_disturbs_nobody(
    server: WebServer, store: Store, session: Session, public_id: str
) -> None:
    content = random.Random(7).randbytes(5_000_000)
    large_id = publish(store, session, "large.bin", content)
    for _ in range(5):
        with socket.create_connection(("127.0.0.1", server.port)) as connection:
            connection.sendall(f"GET /pub/{large_id} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
            assert connection.recv(100).startswith(b"HTTP/1.1 200")
    assert server.get(large_id).body == content
    assert server.get(public_id).body == TEXT


def test_many_requests_at_once_get_their_own_files(server: WebServer, store: Store, session: Session) -> None:
    contents = {publish(store, session, f"{n}.txt", b"%d " % n * 10_000): b"%d " % n * 10_000 for n in range(12)}
    wrong = []

    def check(public_id: str, content: bytes) -> None:
        if server.get(public_id).body != content:
            wrong.append(public_id)

    threads = [threading.Thread(target=check, args=item) for item in contents.items()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_a_session_without_a_folder_has_files_too(server: WebServer, store: Store) -> None:
    own = store.create_session("own")
    (store.published.folder(own) / "a.txt").write_bytes(TEXT)
    assert server.get(store.published.publish(own, "a.txt").id).body == TEXT


def test_a_purged_session_takes_its_files_along(
    server: WebServer, store: Store, session: Session, public_id: str
) -> None:
    assert server.get(public_id).status == 200
    store.sessions.purge([session])
    assert server.get(public_id).status == 404


# ── what a browser may do with it ─────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("name", "content", "media_type", "disposition"),
    [
        ("plot.png", PNG, "image/png", "inline"),
        ("notes.md", "Grüße 上传\n".encode(), "text/plain; charset=utf-8", "inline"),
        ("page.html", b"<!doctype html><script>alert(1)</script>", "text/html", "attachment"),
        ("page.txt", b"<script>alert(1)</script>", "text/html", "attachment"),
        ("page.png", b"<html onload=alert(1)>", "text/html", "attachment"),
        ("drawing.svg", b"<svg xmlns='http://www.w3.org/2000/svg'/>", "image/svg+xml", "attachment"),
        ("drawing.png", b"<?xml version='1.0'?><svg/>", "image/svg+xml", "attachment"),
        ("run.sh", b"#!/bin/sh\nid\n", "text/x-script", "attachment"),
        ("run.txt", b"#!/usr/bin/env python3\n", "text/x-script", "attachment"),
        ("code.js", b"alert(1)", "text/plain; charset=utf-8", "attachment"),
        ("paper.pdf", b"%PDF-1.7", "application/pdf", "attachment"),
        ("archive.zip", b"PK\x03\x04", "application/zip", "attachment"),
        ("data.txt", b"\0\1\2", "application/octet-stream", "attachment"),
    ],
)
def test_the_type_follows_the_content_and_what_can_run_is_downloaded(
    server: WebServer, store: Store, session: Session, name: str, content: bytes, media_type: str, disposition: str
) -> None:
    answer = server.get(publish(store, session, name, content))
    assert (answer.status, answer.body) == (200, content)
    assert answer.headers["content-type"] == media_type
    assert answer.headers["content-disposition"].partition(";")[0] == disposition
    assert answer.headers["x-content-type-options"] == "nosniff"


def test_an_executable_file_is_downloaded(server: WebServer, folder: Path, public_id: str) -> None:
    (folder / "report.txt").chmod(0o755)
    assert server.get(public_id).headers["content-disposition"].startswith("attachment;")


def test_every_answer_has_the_protecting_headers(server: WebServer, public_id: str) -> None:
    answers = [server.get(public_id), server.get("unknown"), server.request("/"), server.request("/pub/x", "POST")]
    answers.append(server.request(f"/pub/{public_id}", Host="evil.example"))
    assert [answer.status for answer in answers] == [200, 404, 404, 405, 400]
    for answer in answers:
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert "sandbox" in answer.headers["content-security-policy"]
        assert answer.headers["cache-control"] == "no-store"
        assert not {"server", "set-cookie", "location", "access-control-allow-origin"} & answer.headers.keys()


@pytest.mark.parametrize(
    ("filename", "saved_as"),
    [
        ('a";\r\nSet-Cookie: x=1;\r.txt', 'a"; Set-Cookie: x=1;␍.txt'),
        ("../../etc/passwd", ".._.._etc_passwd"),
        ("..\\evil.txt", ".._evil.txt"),
        ("gpj\u202etxt.exe", "gpj⟨U+202E⟩txt.exe"),
        ("Grüße.txt", "Grüße.txt"),
        ("", "file"),
        ("x" * 70_000 + ".txt", "x" * 196 + ".txt"),
    ],
)
def test_a_hostile_name_stays_a_name(
    server: WebServer, store: Store, public_id: str, filename: str, saved_as: str
) -> None:
    store.connection.execute("update published set filename = ? where id = ?", (filename, public_id))
    answer = server.get(public_id)
    assert answer.status == 200
    assert answer.headers["content-disposition"].partition("; ")[2] == f"filename*=UTF-8''{quote(saved_as, safe='')}"
    assert "set-cookie" not in answer.headers


# ── attacks on the path ───────────────────────────────────────────────────────────────────────────

TARGETS = [
    "/",
    "/pub",
    "/pub/",
    "/pub//",
    "/pub/{id}/",
    "/pub/{id}/.",
    "/pub/{id}/..",
    "/pub/./{id}",
    "//pub/{id}",
    "/PUB/{id}",
    "/pub/{id}%00",
    "/pub/{id}%0a",
    "/pub/{id};x",
    "/pub/{id}.txt",
    "/pub/{id} ",
    "/pub/{id}%2f..%2fprivate.txt",
    "/pub/%2e%2e/private.txt",
    "/pub/..%2fprivate.txt",
    "/pub/..%5cprivate.txt",
    "/pub/%252e%252e%252fprivate.txt",
    "/pub/private.txt",
    "/pub/{folder}/private.txt",
    "/pub/{quoted_folder}%2fprivate.txt",
    "/pub/../project/private.txt",
    "/../../../../../../etc/passwd",
    "/pub/../../../../../../etc/passwd",
    "/pub/%2e%2e%2f%2e%2e%2f%2e%2e%2fetc%2fpasswd",
    "/pub/%c0%ae%c0%ae%c0%afetc%c0%afpasswd",
    "/pub/%ff%fe",
    "/pub/%ed%a0%80",
    "/pub/%",
    "/pub/%zz",
    "/pub/*",
    "/pub/%25",
    "/pub/' or 1=1 --",
    "/pub/'%20or%201=1%20--",
    "/pub/_%25",
    "/pub/telegram:648079060",
    "/pub/~root/.ssh/id_rsa",
    "/pub/file:///etc/passwd",
    "/store.db",
    "/../store.db",
    "/etc/passwd",
    "etc/passwd",
    "../../etc/passwd",
    "*",
    "pub/{id}",
    "http://evil.example/pub/{id}",
    "http://127.0.0.1/etc/passwd",
    "file:///etc/passwd",
    "\\pub\\..\\private.txt",
    "/pub/" + "a" * 60_000,
    "/pub/" + "../" * 3_000 + "etc/passwd",
]


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_a_hostile_request_line_gets_nothing(server: WebServer, folder: Path, public_id: str, method: str) -> None:
    for target in TARGETS:
        path = target.format(id=public_id, folder=folder, quoted_folder=quote(str(folder), safe=""))
        answer = server.send_raw(f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
        assert answer.split()[1] in (b"400", b"404"), (target, answer[:200])
        for leaked in (SECRET, TEXT, b"root:", b"SQLite format", str(folder).encode(), b"Traceback", b"location:"):
            assert leaked not in answer, (target, answer)
    assert server.get(public_id).body == TEXT


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"",
        b"\r\n\r\n",
        b"GET\r\n\r\n",
        b"GET /pub/{id}\r\n\r\n",
        b"GET /pub/{id} HTTP/0.9\r\n\r\n",
        b"GET /pub/{id} HTTP/1.1\r\n\r\n",
        b"GET /pub/{id} HTTP/1.0\r\n\r\n",
        b"GET /pub/{id} HTTP/1.1\r\nHost:\r\n\r\n",
        b"GET /pub/{id} HTTP/1.1\r\nHost: evil.example\r\n\r\n",
        b"GET /pub/{id} HTTP/1.1\r\nHost: 127.0.0.1.evil.example\r\n\r\n",
        b"GET /pub/{id} HTTP/1.1\r\nHost: evil.example@127.0.0.1\r\n\r\n",
        b"GET /pub/{id} HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n",
        b"GET /pub/{id} HTTP/1.1\r\nHost: evil.example\r\nX-Forwarded-Host: localhost\r\n\r\n",
        b"GET /pub/{id}\0 HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET /pub/\x80\xff HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET /pub/{id} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nTransfer-Encoding: x\r\n\r\n",
        b"GET /pub/{id} HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
        b"GET /pub/{id} HTTP/1.1\r\nHost: localhost\r\nX: " + b"y" * 200_000 + b"\r\n\r\n",
        b"POST /pub/{id} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n",
        b"PUT /pub/{id} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n\r\nabc",
        b"DELETE /pub/{id} HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"OPTIONS /pub/{id} HTTP/1.1\r\nHost: localhost\r\nOrigin: http://evil.example\r\n\r\n",
        b"TRACE /pub/{id} HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"CONNECT 127.0.0.1:22 HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        bytes(range(256)) * 20,
    ],
)
def test_a_hostile_request_gets_nothing(server: WebServer, public_id: str, request_bytes: bytes) -> None:
    answer = server.send_raw(request_bytes.replace(b"{id}", public_id.encode()))
    assert TEXT not in answer
    assert not answer or answer.split()[1] in (b"400", b"404", b"405"), answer
    assert b"access-control" not in answer.lower()
    assert server.get(public_id).body == TEXT


def test_an_upgrade_to_a_web_socket_is_no_way_in(server: WebServer, public_id: str) -> None:
    handshake = f"GET /pub/{public_id} HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    answer = server.send_raw(
        f"{handshake}Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {'a' * 22}==\r\n\r\n".encode()
    )
    assert b" 101 " not in answer.split(b"\r\n")[0]


def test_random_ids_find_nothing(server: WebServer, public_id: str) -> None:
    source = random.Random(7)
    for _ in range(100):
        guess = "".join(source.choices(string.printable, k=source.randint(1, 40)))
        answer = server.get(quote(guess, safe=""))
        assert (answer.status, answer.body) == (404, b"Not Found"), guess


# ── attacks in the folder ─────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("target", ["../outside.txt", "private.txt", "kept.txt", "/etc/passwd", "report.txt"])
def test_a_file_replaced_by_a_link_is_gone(server: WebServer, folder: Path, public_id: str, target: str) -> None:
    (folder / "report.txt").rename(folder / "kept.txt")
    (folder / "report.txt").symlink_to(target)
    answer = server.get(public_id)
    assert (answer.status, answer.body) == (404, b"Not Found")


@pytest.mark.parametrize("target", ["../outside.txt", "private.txt"])
def test_a_file_replaced_by_a_hard_link_is_gone(server: WebServer, folder: Path, public_id: str, target: str) -> None:
    (folder / "report.txt").unlink()
    (folder / "report.txt").hardlink_to(folder / target)
    answer = server.get(public_id)
    assert (answer.status, answer.body) == (404, b"Not Found")


def test_a_folder_replaced_by_a_link_is_not_entered(
    server: WebServer, store: Store, session: Session, folder: Path
) -> None:
    (folder / "sub").mkdir()
    public_id = publish(store, session, "sub/outside.txt", TEXT)
    assert server.get(public_id).status == 200
    (folder / "sub").rename(folder / "was sub")
    (folder / "sub").symlink_to(folder.parent)
    assert server.get(public_id).status == 404


def test_a_pipe_or_a_folder_in_its_place_does_not_block(server: WebServer, folder: Path, public_id: str) -> None:
    (folder / "report.txt").unlink()
    assert server.get(public_id).status == 404
    os.mkfifo(folder / "report.txt")
    assert server.get(public_id).status == 404
    (folder / "report.txt").unlink()
    (folder / "report.txt").mkdir()
    assert server.get(public_id).status == 404


@pytest.mark.parametrize("path", ["/etc/passwd", "../outside.txt", "report.txt", "/dev/zero", "", "/proc/self/environ"])
def test_a_path_that_was_changed_in_the_store_is_still_checked(
    server: WebServer, store: Store, public_id: str, path: str
) -> None:
    store.connection.execute("update published set path = ? where id = ?", (path, public_id))
    answer = server.get(public_id)
    assert (answer.status, answer.body) == (404, b"Not Found")


def test_a_link_swapped_in_during_requests_is_never_served(server: WebServer, folder: Path, public_id: str) -> None:
    stopped = threading.Event()

    def swap() -> None:
        while not stopped.is_set():
            (folder / "link").symlink_to("private.txt")
            (folder / "link").rename(folder / "report.txt")
            (folder / "new").write_bytes(TEXT)
            (folder / "new").rename(folder / "report.txt")

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        answers = [server.get(public_id) for _ in range(200)]
    finally:
        stopped.set()
        thread.join()
    assert {answer.body for answer in answers} <= {TEXT, b"Not Found"}
    assert server.get(public_id).body == TEXT  # while the link is swapped in, every request may be refused
