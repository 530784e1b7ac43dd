"""These tests check where secrets are used, and that edits do not overwrite what changed meanwhile."""

from __future__ import annotations

import pytest
from browser_driver import add_session, prompt_entry, time_ago
from command_line import CommandLine

from store.errors import ChangedMeanwhile, SecretLocked
from store.model.entry import NewEntry, ToolCall
from store.model.knowledge import SecretUse
from store.model.session import Session
from store.secrets.usage import find_uses
from store.store import Store

AT = time_ago(hours=1)


def call_entry(*calls: object) -> NewEntry:
    parts = tuple(ToolCall(f"c{n}", "Bash", arguments) for n, arguments in enumerate(calls))
    return NewEntry(role="assistant", parts=parts, created_at=AT)


@pytest.fixture
def session(store: Store) -> Session:
    calls = call_entry("curl -H $TOKEN", {"env": {"TOKEN-2": ["deep", {"x": "secret://s/KEY"}]}}, {"none": 1})
    similar_names = call_entry("MY_TOKEN TOKENS")
    return add_session(store, "s", AT, prompt_entry("go", AT), calls, prompt_entry("TOKEN and KEY", AT), similar_names)


def test_full_names_are_found_anywhere_in_the_arguments(store: Store, session: Session) -> None:
    uses = find_uses(store, session.key, ["TOKEN", "TOKEN-2", "KEY", "(odd.*"])
    entry = "s#1"
    assert uses == {
        "TOKEN": [SecretUse(1, "Bash", entry)],
        "TOKEN-2": [SecretUse(1, "Bash", entry)],
        "KEY": [SecretUse(1, "Bash", entry)],
        "(odd.*": [],
    }
    assert find_uses(store, session.key, []) == {}
    assert find_uses(store, session.key, ["TOKEN"], lambda: True) == {"TOKEN": []}


def test_a_secret_that_changed_meanwhile_is_not_overwritten(store: Store, session: Session) -> None:
    store.secrets.set(session, "KEY", "first", seen=None)
    with pytest.raises(ChangedMeanwhile, match=r"already exists .version 1") as conflict:
        store.secrets.set(session, "KEY", "second", seen=None)
    assert conflict.value.current == 1
    store.secrets.set(session, "KEY", "second", seen=1)
    with pytest.raises(ChangedMeanwhile, match="replaced by version 2"):
        store.secrets.set(session, "KEY", "x", seen=1)
    with pytest.raises(ChangedMeanwhile, match="replaced by version 2"):
        store.secrets.remove(session, "KEY", seen=1)
    store.secrets.remove(session, "KEY", seen=2)
    with pytest.raises(ChangedMeanwhile, match="removed elsewhere"):
        store.secrets.set(session, "KEY", "x", seen=2)


def test_dropping_the_key_locks_a_vault_with_a_passphrase(store: Store, session: Session) -> None:
    store.secrets.set(session, "KEY", "v")
    store.secrets.drop_key()
    assert (store.secrets.is_locked, store.secrets.get(session, "KEY")) == (False, "v")
    store.secrets.use_passphrase("open sesame")
    store.secrets.drop_key()
    assert store.secrets.is_locked
    with pytest.raises(SecretLocked):
        store.secrets.get(session, "KEY")


def test_a_summary_that_changed_meanwhile_is_not_overwritten(store: Store, session: Session) -> None:
    first = store.summaries.set(session, "words", up_to_turn=1, seen=None)
    with pytest.raises(ChangedMeanwhile) as conflict:
        store.summaries.set(session, "others", seen=None)
    assert conflict.value.current == first
    second = store.summaries.set(session, "words", up_to_turn=2, seen=first)
    with pytest.raises(ChangedMeanwhile):
        store.summaries.restore_version(session, first.key, seen=first)
    assert store.summaries.restore_version(session, first.key, seen=second).up_to_turn == 1


def test_on_the_command_line(store: Store, session: Session) -> None:
    cli = CommandLine(store.path)
    store.secrets.set(session, "KEY", "v")
    store.secrets.set(session, "UNUSED", "v")
    assert "turn 1" in cli("secrets", "list", "s").out
    uses = {secret["key"]: secret["used"] for secret in cli("secrets", "list", "s", "--json").json["secrets"]}
    assert uses == {"KEY": [{"turn": 1, "tool": "Bash", "entry": "s#1"}], "UNUSED": []}
    assert "used" not in cli("secrets", "list", "--json").json["secrets"][0]
