"""Kills redactions and their undos at many moments: each file is old or new, and the rest can be continued."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from child_processes import ForkServer, die_while_redacting
from goose_database import GooseStore, text_content
from planted_secrets import (
    AWS_KEY,
    digest_files,
    find_in_files,
    find_in_store,
    make_old,
    plant_in_home,
    redact,
    scan,
    sync,
    undo,
)
from store_integrity import find_faults

from store.store import Store

KILLS = 100
KILLS_IN_SHORT = 5


class Home:
    """Has planted files and a store, and returns them to their first state before every kill."""

    def __init__(self, home: Path, folder: Path, children: ForkServer) -> None:
        self.home = home
        self.path = folder / "store.db"
        self._children = children
        self._saved = folder.parent / "saved"
        plant_in_home(home)
        self.database = home / ".local/share/goose/sessions/sessions.db"
        self.database.parent.mkdir(parents=True)
        GooseStore(self.database).add_session("20260101_1", ("user", text_content(f"use {AWS_KEY}")))
        make_old(self.database)
        with Store.open(self.path) as store:
            sync(store)
            scan(store)
        self.original = digest_files(home)

    def save(self) -> None:
        """Keep the current state as the first one."""
        shutil.rmtree(self._saved, ignore_errors=True)
        shutil.copytree(self.home, self._saved / "home")
        shutil.copytree(self.path.parent, self._saved / "store")

    def restore(self) -> None:
        for name, folder in (("home", self.home), ("store", self.path.parent)):
            shutil.rmtree(folder)
            shutil.copytree(self._saved / name, folder)

    def kill_at_many_moments(self, kills: int, *, is_undo: bool = False) -> Iterator[int]:
        self.save()
        (total,) = self._run(-1, is_undo)
        for kill in range(kills):
            self.restore()
            moment = 1 + kill * (total - 1) // kills
            assert self._run(moment, is_undo) == []
            yield moment

    def _run(self, moment: int, is_undo: bool) -> list[int]:
        outcome = self._children.run(die_while_redacting, str(self.path), moment, is_undo)
        assert outcome.crash + outcome.refusal == ""
        return list(outcome.messages)

    def finish(self, store: Store) -> None:
        """Continue what was interrupted. A minute passes first, because a database may have been written just now."""
        for file in self.database.parent.iterdir():
            make_old(file)
        unfinished = store.leaks.redactions.list_unfinished()
        for redaction in unfinished:
            run = store.leaks.redactions.begin_rest(redaction.id)
            assert list(run.steps())
            assert run.report.left == ()

    def texts(self) -> dict[str, str]:
        """Return the digests of text files. Those that a kill left behind have other names."""
        return {path: self.digests[path] for path in self.original if path.endswith((".jsonl", ".txt"))}

    @property
    def digests(self) -> dict[str, str]:
        return digest_files(self.home)


@pytest.fixture
def planted(home: Path, tmp_path: Path, children: ForkServer) -> Home:
    folder = tmp_path / "store"
    folder.mkdir()
    return Home(home, folder, children)


@pytest.mark.parametrize("kills", [KILLS_IN_SHORT, pytest.param(KILLS, marks=pytest.mark.long)])
def test_a_killed_redaction_leaves_whole_files_and_can_be_continued(planted: Home, kills: int) -> None:
    planted.save()
    with Store.open(planted.path) as store:
        redact(store, scan(store)["aws-access-key"].fingerprint)
        redacted = planted.texts()
    planted.restore()
    states = set()
    for moment in planted.kill_at_many_moments(kills):
        for path, digest in planted.texts().items():
            assert digest in (planted.original[path], redacted[path]), (moment, path)
        states.add(tuple(planted.texts().values()) == tuple(redacted.values()))
        with Store.open(planted.path) as store:
            sync(store)  # before the rest: it must bring nothing back
            assert store.row("select count(*) from sessions where relation = 'superseded'") == (0,), moment
            has_begun = bool(store.leaks.redactions.list_all())
            planted.finish(store)
            if not has_begun:
                redact(store, scan(store)["aws-access-key"].fingerprint)
            assert find_in_files([planted.home], AWS_KEY) == [], moment
            assert find_in_store(store, AWS_KEY) == [], moment
            assert [path for path in planted.digests if path.endswith(".redacting")] == [], moment
            sync(store)
            (redaction,) = store.leaks.redactions.list_all()
            assert undo(store, redaction.id).left == (), moment
        digests = planted.digests
        assert {path: digests[path] for path in planted.texts()} == {
            path: planted.original[path] for path in planted.texts()
        }, moment
        assert AWS_KEY.encode() in planted.database.read_bytes()
        assert find_faults(planted.path) == [], moment
    assert False in states


@pytest.mark.parametrize("kills", [KILLS_IN_SHORT, pytest.param(KILLS, marks=pytest.mark.long)])
def test_a_killed_undo_leaves_whole_files_and_can_be_continued(planted: Home, kills: int) -> None:
    with Store.open(planted.path) as store:
        redact(store, scan(store)["aws-access-key"].fingerprint)
        sync(store)
    redacted = planted.texts()
    for moment in planted.kill_at_many_moments(kills, is_undo=True):
        for path, digest in planted.texts().items():
            assert digest in (planted.original[path], redacted[path]), (moment, path)
        with Store.open(planted.path) as store:
            sync(store)
            assert store.row("select count(*) from sessions where relation = 'superseded'") == (0,), moment
            planted.finish(store)
            (redaction,) = store.leaks.redactions.list_all()
            if redaction.state == "done":
                assert undo(store, redaction.id).left == (), moment
            assert store.leaks.redactions.list_all()[0].state == "undone"
            assert scan(store)["aws-access-key"].places
        digests = planted.digests
        assert {path: digests.get(path) for path in planted.texts()} == {
            path: planted.original[path] for path in planted.texts()
        }, moment
        assert find_faults(planted.path) == [], moment
