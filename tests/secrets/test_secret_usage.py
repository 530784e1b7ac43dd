"""Where secrets were used, and edits of secrets and summaries that name what they saw."""

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


def called(*arguments: object) -> NewEntry:
    parts = tuple(ToolCall(f"c{n}", "Bash", given) for n, given in enumerate(arguments))
    return NewEntry(role="assistant", parts=parts, created_at=AT)


@pytest.fixture
def session(store: Store) -> Session:
    given = called("curl -H $TOKEN", {"env": {"TOKEN-2": ["deep", {"x": "secret://s/KEY"}]}}, {"none": 1})
    return add_session(
        store, "s", AT, prompt_entry("go", AT), given, prompt_entry("TOKEN and KEY", AT), called("MY_TOKEN TOKENS")
    )


def test_whole_names_in_whatever_a_tool_was_given(store: Store, session: Session) -> None:
    found = find_uses(store, session.key, ["TOKEN", "TOKEN-2", "KEY", "(odd.*"])
    entry = "s#1"
    assert found == {
        "TOKEN": [SecretUse(1, "Bash", entry)],
        "TOKEN-2": [SecretUse(1, "Bash", entry)],
        "KEY": [SecretUse(1, "Bash", entry)],
        "(odd.*": [],
    }
    assert find_uses(store, session.key, []) == {}
    assert find_uses(store, session.key, ["TOKEN"], lambda: True) == {"TOKEN": []}


def test_a_secret_is_replaced_only_as_it_was_seen(store: Store, session: Session) -> None:
    store.secrets.set(session, "KEY", "first", seen=None)
    with pytest.raises(ChangedMeanwhile, match="already exists, in version 1") as already:
        store.secrets.set(session, "KEY", "second", seen=None)
    assert already.value.current == 1
    store.secrets.set(session, "KEY", "second", seen=1)
    with pytest.raises(ChangedMeanwhile, match="replaced by version 2"):
        store.secrets.set(session, "KEY", "x", seen=1)
    with pytest.raises(ChangedMeanwhile, match="replaced by version 2"):
        store.secrets.remove(session, "KEY", seen=1)
    store.secrets.remove(session, "KEY", seen=2)
    with pytest.raises(ChangedMeanwhile, match="removed meanwhile"):
        store.secrets.set(session, "KEY", "x", seen=2)


def test_to_forget_a_key_is_to_lock_where_a_passphrase_protects_it(store: Store, session: Session) -> None:
    store.secrets.set(session, "KEY", "v")
    store.secrets.drop_key()
    assert (store.secrets.is_locked, store.secrets.get(session, "KEY")) == (False, "v")
    store.secrets.use_passphrase("open sesame")
    store.secrets.drop_key()
    assert store.secrets.is_locked
    with pytest.raises(SecretLocked):
        store.secrets.get(session, "KEY")


def test_a_summary_is_replaced_only_as_it_was_seen(store: Store, session: Session) -> None:
    first = store.summaries.set(session, "words", up_to_turn=1, seen=None)
    with pytest.raises(ChangedMeanwhile) as meanwhile:
        store.summaries.set(session, "others", seen=None)
    assert meanwhile.value.current == first
    second = store.summaries.set(session, "words", up_to_turn=2, seen=first)
    with pytest.raises(ChangedMeanwhile):
        store.summaries.restore_version(session, first.key, seen=first)
    assert store.summaries.restore_version(session, first.key, seen=second).up_to_turn == 1


def test_on_the_command_line(store: Store, session: Session) -> None:
    cli = CommandLine(store.path)
    store.secrets.set(session, "KEY", "v")
    store.secrets.set(session, "UNUSED", "v")
    assert "turn 1" in cli("secrets", "list", "s").out
    used = {one["key"]: one["used"] for one in cli("secrets", "list", "s", "--json").json["secrets"]}
    assert used == {"KEY": [{"turn": 1, "tool": "Bash", "entry": "s#1"}], "UNUSED": []}
    assert "used" not in cli("secrets", "list", "--json").json["secrets"][0]
