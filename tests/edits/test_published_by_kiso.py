"""These tests resolve files that Kiso published: at the documented place, and nowhere else."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from kiso_database import DOCUMENT_SCHEMA, KisoStore

from store.errors import NotFound, Refused
from store.store import Store

DATABASES = ["store.db", "instances/office/store.db"]


@pytest.fixture(params=DATABASES)
def agent(home: Path, request: pytest.FixtureRequest) -> KisoStore:
    agent = KisoStore(home / ".kiso" / request.param, DOCUMENT_SCHEMA)
    agent.add_session()
    agent.add_message("hello")
    return agent


def publish(agent: KisoStore, store: Store, path: Path | str, session: str = "dev") -> str:
    agent.insert_row("published", id="x9", session=session, filename=Path(path).name, path=str(path))
    agent.sync(store)
    return "x9"


def make_pub(home: Path, session: str = "dev", base: str = "") -> Path:
    folder = home / ".kiso" / base / "sessions" / session / "pub"
    folder.mkdir(parents=True)
    (folder / "report.txt").write_text("All is well.")
    return folder


def test_the_documented_place(agent: KisoStore, store: Store, home: Path) -> None:
    path = make_pub(home) / "report.txt"
    public_id = publish(agent, store, path)
    assert store.resolve(public_id) == path
    with store.open_published(public_id) as file:
        assert file.read() == b"All is well."


def test_a_folder_in_it(agent: KisoStore, store: Store, home: Path) -> None:
    path = make_pub(home) / "2026" / "plot.png"
    path.parent.mkdir()
    path.write_bytes(b"PNG")
    assert store.resolve(publish(agent, store, path)) == path


def test_the_folder_of_an_instance(store: Store, home: Path) -> None:
    agent = KisoStore(home / ".kiso/instances/office/store.db", DOCUMENT_SCHEMA)
    agent.add_session()
    path = make_pub(home, base="instances/office") / "report.txt"
    assert store.resolve(publish(agent, store, path)) == path


def test_a_home_behind_a_link(agent: KisoStore, store: Store, home: Path, tmp_path: Path) -> None:
    path = make_pub(home) / "report.txt"
    (tmp_path / "link").symlink_to(home)
    public_id = publish(agent, store, tmp_path / "link" / path.relative_to(home))
    assert store.resolve(public_id) == path


def test_a_file_can_be_published_there_from_here(agent: KisoStore, store: Store, home: Path) -> None:
    path = make_pub(home) / "report.txt"
    agent.sync(store)
    assert store.resolve(store.publish(store.sessions.find("dev").id, path).id) == path


def test_a_file_that_is_gone(agent: KisoStore, store: Store, home: Path) -> None:
    public_id = publish(agent, store, make_pub(home) / "report.txt")
    os.remove(home / ".kiso/sessions/dev/pub/report.txt")
    with pytest.raises(NotFound):
        store.resolve(public_id)


@pytest.mark.parametrize(
    "path",
    [
        "sessions/other/pub/report.txt",
        "sessions/dev/notes.txt",
        "sessions/dev/pub/../notes.txt",
        "sessions/dev/pub",
        "config.toml",
        "sessions/dev/public/notes.txt",
        "sessions/dev/pub/link.txt",
        "sessions/dev/pub/folder/notes.txt",
        "sessions/dev/pub/hard.txt",
    ],
)
def test_nothing_else_is_resolved(agent: KisoStore, store: Store, home: Path, path: str) -> None:
    folder = make_pub(home)
    make_pub(home, "other")
    secret = home / ".kiso/config.toml"
    for file in (secret, folder.parent / "notes.txt", folder.parent / "public/notes.txt"):
        file.parent.mkdir(exist_ok=True)
        file.write_text("private")
    (folder / "link.txt").symlink_to(secret)
    (folder / "folder").symlink_to(folder.parent)
    os.link(secret, folder / "hard.txt")
    public_id = publish(agent, store, home / ".kiso" / path)
    with pytest.raises((Refused, NotFound)):
        store.resolve(public_id)


def test_a_pub_folder_that_is_a_link_publishes_nothing(agent: KisoStore, store: Store, home: Path) -> None:
    """An agent may write both the row and the folder, so it could name a private file that looks confined."""
    private = home / ".ssh" / "id_rsa"
    private.parent.mkdir()
    private.write_text("private")
    folder = home / ".kiso/sessions/dev"
    folder.mkdir(parents=True)
    (folder / "pub").symlink_to(private.parent)
    for number, path in enumerate((private, folder / "pub" / "id_rsa")):
        agent.insert_row("published", id=f"x{number}", session="dev", filename="id_rsa", path=str(path))
    agent.sync(store)
    for number in range(2):
        with pytest.raises((Refused, NotFound)):
            store.resolve(f"x{number}")


@pytest.mark.parametrize("session", ["..", ".", "../..", "a/../..", "/", "../../.ssh"])
def test_a_hostile_session_name_opens_no_other_folder(agent: KisoStore, store: Store, home: Path, session: str) -> None:
    for folder in (home / ".kiso/pub", home / "pub", home / ".kiso/sessions/pub", home / ".ssh/pub"):
        folder.mkdir(parents=True)
        (folder / "report.txt").write_text("private")
    agent.add_session(session)
    for number, folder in enumerate((".kiso/pub", "pub", ".kiso/sessions/pub", ".ssh/pub")):
        path = home / folder / "report.txt"
        agent.insert_row("published", id=f"x{number}", session=session, filename="a", path=str(path))
    agent.sync(store)
    for published in store.published.list_published():
        with pytest.raises((Refused, NotFound)):
            store.resolve(published.id)
