"""These tests check published files: their random ids, and that only files in the session's folder are published."""

from __future__ import annotations

import os
import re
import stat
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from store.edits import published as published_files
from store.errors import BadValue, NotFound, Refused, StoreError
from store.model.session import Session
from store.store import Store


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "report.txt").write_text("in the folder")
    (tmp_path / "outside.txt").write_text("not in the folder")
    return folder


@pytest.fixture
def session(store: Store, folder: Path) -> Session:
    return store.create_session("telegram:648079060", cwd=str(folder))


def test_an_id_is_never_taken_for_an_option(monkeypatch: pytest.MonkeyPatch, store: Store, session: Session) -> None:
    random_ids = iter(["-begins-like-an-option", "begins-with-a-letter"])
    monkeypatch.setattr("secrets.token_urlsafe", lambda size: next(random_ids))
    assert store.published.publish(session, "report.txt").id == "begins-with-a-letter"


def test_a_file_is_found_by_a_random_id(store: Store, session: Session, folder: Path) -> None:
    published = store.publish(session.id, "report.txt")
    assert store.resolve(published.id) == folder / "report.txt"
    assert (published.session_id, published.filename) == (session.id, "report.txt")
    assert store.published.list_published() == [published]


def test_the_id_reveals_nothing(store: Store, session: Session, folder: Path) -> None:
    other = store.create_session("discord:1", cwd=str(folder))
    ids = {store.published.publish(owner, "report.txt").id for owner in (session, other)}
    assert len(ids) == 2
    for public_id in ids:
        assert re.fullmatch(r"[A-Za-z0-9_-]{22}", public_id)


def test_the_same_file_keeps_its_id(store: Store, session: Session, folder: Path) -> None:
    (folder / "sub").mkdir()
    (folder / "sub" / "link.txt").symlink_to(folder / "report.txt")
    first = store.published.publish(session, "report.txt")
    same_file = ["report.txt", str(folder / "report.txt"), "./report.txt", "sub/link.txt"]
    assert {store.published.publish(session, path) for path in same_file} == {first}
    assert [edit.kind for edit in store.journal.list_edits()] == ["publish"]


def test_newest_first_and_by_session(store: Store, session: Session, folder: Path) -> None:
    other = store.create_session("discord:1", cwd=str(folder))
    first = store.published.publish(session, "report.txt")
    second = store.published.publish(other, "report.txt")
    assert store.published.list_published() == [second, first]
    assert store.published.list_published(session) == [first]


# ── which folder ──────────────────────────────────────────────────────────────────────────────────


def test_the_environment_takes_precedence_over_the_working_folder(store: Store, folder: Path, tmp_path: Path) -> None:
    session = store.create_session("s", cwd=str(tmp_path), environment_path=str(folder))
    assert store.published.folder(session) == folder
    with pytest.raises(Refused, match="is outside"):
        store.published.publish(session, tmp_path / "outside.txt")


def test_without_a_folder_the_store_creates_a_private_one(store: Store) -> None:
    session = store.create_session("s")
    folder = store.published.folder(session)
    assert folder == store.path.parent / "store.db.files" / str(session.key)
    for created in (folder, folder.parent):
        assert stat.S_IMODE(created.stat().st_mode) == 0o700
    (folder / "a.txt").write_text("a")
    assert store.resolve(store.publish("s", "a.txt").id) == folder / "a.txt"


def test_a_relative_folder_is_refused(store: Store) -> None:
    session = store.create_session("s", cwd="project")
    with pytest.raises(Refused, match="not an absolute path"):
        store.published.publish(session, "report.txt")


def test_a_folder_may_be_a_link(store: Store, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "linked").symlink_to(folder)
    session = store.create_session("s", cwd=str(tmp_path / "linked"))
    for path in ("report.txt", tmp_path / "linked" / "report.txt", folder / "report.txt"):
        assert store.resolve(store.published.publish(session, path).id) == folder / "report.txt"


def test_a_session_that_moved_loses_its_published_files(store: Store, session: Session, tmp_path: Path) -> None:
    published = store.published.publish(session, "report.txt")
    (tmp_path / "elsewhere").mkdir()
    store.update_session(session.id, cwd=str(tmp_path / "elsewhere"))
    with pytest.raises(Refused, match="is outside"):
        store.resolve(published.id)


# ── refused paths ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("path", "error", "message"),
    [
        ("../outside.txt", Refused, r"contains `\.\.`"),
        ("sub/../report.txt", Refused, r"contains `\.\.`"),
        ("..", Refused, r"contains `\.\.`"),
        ("/etc/passwd", Refused, "is outside the session's folder"),
        ("{outside}", Refused, "is outside the session's folder"),
        ("{neighbour}/report.txt", Refused, "is outside the session's folder"),
        ("link to outside", Refused, "is outside the session's folder"),
        ("linked folder/outside.txt", Refused, "is outside the session's folder"),
        ("circle", Refused, "Cannot open the file"),
        ("x" * 5_000, Refused, "Cannot open the file"),
        ("sub", Refused, "is a folder"),
        (".", Refused, "is a folder"),
        ("", Refused, "is a folder"),
        ("{folder}", Refused, "is a folder"),
        ("missing.txt", NotFound, "No such file in .*: 'missing.txt'"),
        ("dangling", NotFound, "No such file in .*: 'dangling'"),
        ("report.txt/more", NotFound, "No such file in .*: 'more'"),
        ("pipe", Refused, "not a regular file"),
        ("back\\slash.txt", Refused, "contains a backslash"),
        ("..\\outside.txt", Refused, "contains a backslash"),
        ("nul\0.txt", BadValue, "contains a control character"),
        ("line\nbreak.txt", BadValue, "contains a control character"),
        ("half \udc80.txt", BadValue, "half a character"),
    ],
)
def test_a_path_that_is_not_a_file_of_the_session_is_refused(
    store: Store, session: Session, folder: Path, path: str, error: type[StoreError], message: str
) -> None:
    outside = folder.parent / "outside.txt"
    neighbour = folder.parent / "project2"
    neighbour.mkdir()
    (neighbour / "report.txt").touch()
    (folder / "sub").mkdir()
    (folder / "back\\slash.txt").touch()
    (folder / "line\nbreak.txt").touch()
    (folder / "link to outside").symlink_to(outside)
    (folder / "linked folder").symlink_to(folder.parent)
    (folder / "circle").symlink_to("circle")
    (folder / "dangling").symlink_to("nowhere")
    os.mkfifo(folder / "pipe")
    with pytest.raises(error, match=message) as caught:
        store.published.publish(session, path.format(outside=outside, neighbour=neighbour, folder=folder))
    assert str(caught.value).endswith(".")
    assert store.published.list_published() == []
    assert store.journal.list_edits() == []


def test_a_device_is_refused(store: Store) -> None:
    session = store.create_session("s", cwd="/dev")
    with pytest.raises(Refused, match="not a regular file"):
        store.published.publish(session, "null")


def test_a_path_in_bytes_is_refused(store: Store, session: Session) -> None:
    with pytest.raises(BadValue, match="must be text"):
        store.published.publish(session, b"report.txt")  # type: ignore[arg-type]


# ── files that changed after they were published ──────────────────────────────────────────────────


@pytest.mark.parametrize("target", ["../outside.txt", "other.txt", "/etc/passwd"])
def test_a_file_replaced_by_a_link_is_refused(store: Store, session: Session, folder: Path, target: str) -> None:
    published = store.published.publish(session, "report.txt")
    (folder / "other.txt").write_text("never published")
    (folder / "report.txt").unlink()
    (folder / "report.txt").symlink_to(target)
    with pytest.raises(Refused):
        store.resolve(published.id)


def test_a_file_whose_folder_was_replaced_by_a_link_is_refused(store: Store, session: Session, folder: Path) -> None:
    (folder / "sub").mkdir()
    (folder / "sub" / "outside.txt").write_text("inside after all")
    published = store.published.publish(session, "sub/outside.txt")
    (folder / "sub").rename(folder / "was sub")
    (folder / "sub").symlink_to(folder.parent)
    with pytest.raises(Refused, match="is outside"):
        store.resolve(published.id)


def test_a_file_replaced_by_a_folder_is_refused(store: Store, session: Session, folder: Path) -> None:
    published = store.published.publish(session, "report.txt")
    (folder / "report.txt").unlink()
    (folder / "report.txt").mkdir()
    with pytest.raises(Refused, match="is a folder"):
        store.resolve(published.id)


def test_a_deleted_file_is_not_found(store: Store, session: Session, folder: Path) -> None:
    published = store.published.publish(session, "report.txt")
    (folder / "report.txt").unlink()
    with pytest.raises(NotFound, match=r"No such file in .*: 'report\.txt'"):
        store.resolve(published.id)
    (folder / "report.txt").write_text("back again")
    assert store.resolve(published.id).read_text() == "back again"


def test_a_path_that_was_changed_in_the_database_is_still_checked(store: Store, session: Session) -> None:
    published = store.published.publish(session, "report.txt")
    store.connection.execute("update published set path = '/etc/passwd'")
    with pytest.raises(Refused, match="is outside"):
        store.resolve(published.id)


def test_a_hard_link_to_a_file_outside_is_refused(store: Store, session: Session, folder: Path) -> None:
    published = store.published.publish(session, "report.txt")
    (folder / "report.txt").unlink()
    (folder / "report.txt").hardlink_to(folder.parent / "outside.txt")
    for call in (store.resolve, store.open_published):
        with pytest.raises(Refused, match=r"is a hard link.* Publish a copy of it\.$"):
            call(published.id)
    (folder / "linked.txt").hardlink_to(folder.parent / "outside.txt")
    with pytest.raises(Refused, match="is a hard link"):
        store.published.publish(session, "linked.txt")


@pytest.mark.parametrize("public_id", ["", "nothing", "' or 1 = 1 --", "../../etc/passwd", "nul\0"])
def test_an_unknown_id_finds_nothing(store: Store, session: Session, public_id: str) -> None:
    store.published.publish(session, "report.txt")
    for call in (store.published.resolve, store.published.open_file, store.published.unpublish):
        with pytest.raises(NotFound, match="No such published file"):
            call(public_id)


# ── opened files ──────────────────────────────────────────────────────────────────────────────────


@contextmanager
def repeat_in_thread(action: Callable[[], object]) -> Iterator[None]:
    """Repeat an action in another thread until the `with` block ends."""
    stopped = threading.Event()

    def repeat() -> None:
        while not stopped.is_set():
            action()

    thread = threading.Thread(target=repeat)
    thread.start()
    try:
        yield
    finally:
        stopped.set()
        thread.join()


def count_reads(store: Store, public_id: str, attempts: int) -> dict[str, int]:
    """Open a published file so many times, and then until it was read once. Count the contents that were read."""
    contents: dict[str, int] = {}
    deadline = time.monotonic() + 60
    while attempts > 0 or (not contents and time.monotonic() < deadline):
        attempts -= 1
        with suppress(NotFound, Refused), store.open_published(public_id) as file:
            content = file.read().decode()
            contents[content] = contents.get(content, 0) + 1
    return contents


def test_an_opened_file_stays_the_file_that_was_checked(store: Store, session: Session, folder: Path) -> None:
    published = store.published.publish(session, "report.txt")
    with store.open_published(published.id) as file:
        (folder / "report.txt").unlink()
        (folder / "report.txt").symlink_to("../outside.txt")
        assert (file.name, file.read()) == (str(folder / "report.txt"), b"in the folder")
    assert file.closed


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="the system does not say what an open file is called")
def test_a_file_that_was_replaced_since_it_was_opened_is_noticed(folder: Path) -> None:
    with (folder / "report.txt").open("rb") as file:
        assert not published_files._has_lost_its_name(file, "report.txt")
        (folder / "new").write_text("another")
        (folder / "new").rename(folder / "report.txt")
        assert published_files._has_lost_its_name(file, "report.txt")


@pytest.mark.parametrize("link", [Path.symlink_to, Path.hardlink_to])
def test_a_link_swapped_in_while_a_file_is_opened_is_never_read(
    store: Store, session: Session, folder: Path, link: Callable[[Path, Path], None]
) -> None:
    published = store.published.publish(session, "report.txt")

    def swap() -> None:
        link(folder / "link", folder.parent / "outside.txt")
        (folder / "link").rename(folder / "report.txt")
        (folder / "new").write_text("in the folder")
        (folder / "new").rename(folder / "report.txt")

    with repeat_in_thread(swap):
        contents = count_reads(store, published.id, 1_500)
    assert contents.keys() == {"in the folder"}


def test_a_folder_swapped_for_a_link_while_a_file_is_opened_is_never_followed(
    store: Store, session: Session, folder: Path
) -> None:
    (folder / "sub").mkdir()
    (folder / "sub" / "outside.txt").write_text("in the folder")
    published = store.published.publish(session, "sub/outside.txt")
    (folder / "link").symlink_to(folder.parent)

    def swap() -> None:
        for old, new in (("sub", "real"), ("link", "sub"), ("sub", "link"), ("real", "sub")):
            (folder / old).rename(folder / new)

    with repeat_in_thread(swap):
        contents = count_reads(store, published.id, 1_500)
    assert contents.keys() == {"in the folder"}


def test_a_pipe_swapped_in_does_not_block(store: Store, session: Session, folder: Path) -> None:
    published = store.published.publish(session, "report.txt")
    (folder / "report.txt").unlink()
    os.mkfifo(folder / "report.txt")
    with pytest.raises(Refused, match="not a regular file"):
        store.open_published(published.id)


@pytest.mark.skipif(not hasattr(os, "O_PATH"), reason="only Linux passes through folders that cannot be listed")
def test_a_folder_above_need_not_be_readable(store: Store, session: Session, folder: Path) -> None:
    published = store.published.publish(session, "report.txt")
    folder.parent.chmod(0o300)
    try:
        assert count_reads(store, published.id, 1) == {"in the folder": 1}
    finally:
        folder.parent.chmod(0o700)


# ── undo ──────────────────────────────────────────────────────────────────────────────────────────


def test_publishing_and_unpublishing_can_be_undone(store: Store, session: Session, folder: Path) -> None:
    published = store.published.publish(session, "report.txt")
    store.published.unpublish(published.id)
    with pytest.raises(NotFound):
        store.resolve(published.id)
    assert (folder / "report.txt").exists()
    assert store.journal.undo().kind == "unpublish"
    assert store.published.list_published() == [published]
    assert store.resolve(published.id) == folder / "report.txt"
    assert store.journal.undo().kind == "publish"
    assert store.published.list_published() == []


def test_a_purge_unpublishes_and_deletes_the_stores_own_folder(store: Store, session: Session, folder: Path) -> None:
    own = store.create_session("own")
    (store.published.folder(own) / "a.txt").write_text("a")
    ids = [store.published.publish(session, "report.txt").id, store.published.publish(own, "a.txt").id]
    own_folder = store.published.folder(own)
    store.sessions.purge([session, own])
    for public_id in ids:
        with pytest.raises(NotFound):
            store.resolve(public_id)
    assert not own_folder.exists()
    assert (folder / "report.txt").exists()
