"""Checks that the values of leaks are found again by their places, and hidden in what a screen shows."""

from __future__ import annotations

import json

import pytest

from store.conversations.timeline import Timelines
from store.errors import KeyFileUnsafe, SecretLocked
from store.leaks.fingerprint import compute_fingerprint
from store.leaks.gate import LeakGate
from store.leaks.leak_key import read_leak_key
from store.leaks.masking import LeakMask
from store.leaks.redaction.replacer import LeakedValue, Replacer, Spellings, ValueRedactor, ValueRestorer
from store.leaks.rule_table import RULES_BY_ID
from store.leaks.rules import MASK
from store.leaks.scanner import OWN_SECRET, load_scanner, mask
from store.model.entry import NewEntry, NewRecord, Text, Thinking, ToolCall, ToolResult
from store.model.leak import Leak
from store.model.session import Session
from store.paths import key_file
from store.store import Store

AWS_KEY = RULES_BY_ID["aws-access-key"].example
GROQ_KEY = RULES_BY_ID["groq-key"].example
SLACK_TOKEN = RULES_BY_ID["slack-bot-token"].example
STRIPE_KEY = RULES_BY_ID["stripe-secret-key"].example
PRIVATE_KEY = RULES_BY_ID["rsa-private-key"].example
VALUES = (AWS_KEY, GROQ_KEY, SLACK_TOKEN, STRIPE_KEY, "MIIEowIBAAKCAQEA7bq2Vd9Zk1s4TtX0uFhGy8Rj3LwPn6Mc5EaQxYiO")


def scan(store: Store) -> dict[str, Leak]:
    for _ in store.leaks.begin_scan().steps():
        pass
    return {leak.rule: leak for leak in store.leaks.list_leaks()}


@pytest.fixture
def leaky(store: Store) -> Session:
    """A session with leaks in each kind of text, one of them only in a record."""
    session = store.sessions.create("leaky")
    hidden = {"content": f"use {AWS_KEY}", "usage": {"header": GROQ_KEY}}
    arguments = {"command": "deploy", "env": [{"TOKEN": SLACK_TOKEN}]}
    nested = json.dumps({"key": PRIVATE_KEY})
    texts = [
        NewEntry(role="user", parts=(Text(f"use {AWS_KEY}"),), record=NewRecord(json.dumps(hidden).encode())),
        NewEntry(
            role="assistant",
            parts=(Thinking(f"why {STRIPE_KEY}?"), ToolCall("1", "bash", arguments)),
            record=NewRecord(json.dumps({"think": f"why {STRIPE_KEY}?", "arguments": arguments}).encode()),
        ),
        NewEntry(
            role="tool",
            parts=(ToolResult("1", {"out": nested}),),
            record=NewRecord(json.dumps({"result": {"out": nested}}).encode()),
        ),
    ]
    store.chains.append(session.key, texts)
    store.sessions.set_title(session, f"About {AWS_KEY}")
    store.notes.add_note(session, f"was {AWS_KEY}")
    return store.sessions.get("leaky")


def test_a_mask_hides_every_leak_of_a_session(store: Store, leaky: Session) -> None:
    entries = list(store.chains.entries(leaky.key))
    assert set(scan(store)) >= {"groq-key", "slack-bot-token", "stripe-secret-key", "rsa-private-key"}
    masks = store.leaks.read_mask(leaky.key)
    turns = masks.mask(Timelines(store).load_turns(leaky.key, [0, 1]))
    records = [masks.mask_record(store.records.get(entry.record)) for entry in entries if entry.record is not None]
    outline = masks.mask(Timelines(store).load_outline(leaky.key))
    shown = repr([turns, records, outline, masks.mask(leaky)])
    assert [value for value in VALUES if value in shown] == []
    assert masks.pattern.search(shown)
    assert all(isinstance(json.loads(record), dict) for record in records)


def test_the_beginning_of_a_value_is_hidden_where_a_text_is_cut_off(store: Store, leaky: Session) -> None:
    store.notes.add_note(leaky, f"use {AWS_KEY}")
    scan(store)
    masks = store.leaks.read_mask(leaky.key)
    assert masks.mask_beginning(f"use {AWS_KEY[:9]}") == f"use {mask('aws-access-key')}"
    assert masks.mask_beginning(f"use {AWS_KEY[:9]}…") == f"use {mask('aws-access-key')}…"
    assert masks.mask_beginning("use all of it") == "use all of it"
    cut = leaky._replace(own_title=f"use {AWS_KEY[:10]}", first_prompt=" ".join(PRIVATE_KEY.split())[:60])
    assert masks.mask(cut).own_title == f"use {mask('aws-access-key')}"
    assert masks.mask(cut).first_prompt == PRIVATE_KEY.splitlines()[0] + f" {MASK}"


def test_all_of_what_overlaps_is_hidden(store: Store) -> None:
    first, second = "tK7wq93ZbLx8Vd", "Lx8Vd2YmRs5Np4"
    text, all_of_it = f"say {first[:-5]}{second}!", f"{first[:-5]}{second}"
    assert LeakMask({first: OWN_SECRET, second: OWN_SECRET}).mask_text(text) == f"say {MASK}!"
    gate = LeakGate(load_scanner([first, second]), "redact")
    assert gate.check(text) == f"say [redacted: {OWN_SECRET} #1]!"
    assert gate.check(f"ä {first} ä {second} ä") == f"ä [redacted: {OWN_SECRET} #1] ä [redacted: {OWN_SECRET} #2] ä"
    values = [LeakedValue("1", OWN_SECRET, first), LeakedValue("2", OWN_SECRET, second)]
    spellings = Spellings()
    redactor = ValueRedactor(Replacer(values, lambda _: ()), spellings)
    redacted, _ = redactor.redact(text.encode())
    assert redacted == f"say {values[0].replacement.decode()}!".encode()
    assert ValueRestorer(redactor.spans, values, spellings).restore(redacted)[0] == text.encode()
    assert all_of_it.encode() in spellings.by_fingerprint["1"]


def test_own_secrets_are_hidden_in_sessions_without_leaks(store: Store) -> None:
    session = store.sessions.create("plain")
    store.secrets.set(session, "token", "tK7wq93ZbLx8Vd")
    assert store.leaks.read_mask(session.key).mask({"a": ["is tK7wq93ZbLx8Vd"]}) == {"a": [f"is {MASK}"]}


def test_a_session_without_leaks_has_no_mask(store: Store) -> None:
    session = store.sessions.create("plain")
    store.chains.append(session.key, [NewEntry(role="user", parts=(Text("hello"),))])
    scan(store)
    assert not store.leaks.read_mask(session.key)


def test_one_value_has_one_fingerprint_in_text_and_in_json() -> None:
    key = b"k" * 32
    forms = ["a\nb", "a\\nb", "a\\\\nb", " a\r\nb\n"]
    assert len({compute_fingerprint(key, form) for form in forms}) == 1
    assert compute_fingerprint(key, 'say "x"') == compute_fingerprint(key, 'say \\"x\\"')
    assert compute_fingerprint(key, "a") != compute_fingerprint(key, "b")


# ── the key ───────────────────────────────────────────────────────────────────────────────────────


def test_the_key_of_fingerprints_is_not_in_the_store(store: Store, leaky: Session) -> None:
    scan(store)
    (stored,) = store.row("select key from leak_key")
    assert read_leak_key(store) not in stored
    assert key_file().stat().st_mode & 0o077 == 0


def test_a_key_that_an_earlier_version_stored_is_sealed_and_stays(store: Store, leaky: Session) -> None:
    store.connection.execute("insert into leak_key (id, key) values (1, ?)", (b"k" * 32,))
    found = scan(store)
    (stored,) = store.row("select key from leak_key")
    assert b"k" * 32 not in stored
    assert found["aws-access-key"].fingerprint == compute_fingerprint(b"k" * 32, AWS_KEY)


def test_with_another_key_file_everything_is_scanned_again(store: Store, leaky: Session) -> None:
    before = scan(store)["aws-access-key"].fingerprint
    key_file().unlink()
    with pytest.raises(SecretLocked):
        next(store.leaks.begin_scan(is_idle=True).steps())
    after = scan(store)["aws-access-key"]
    assert after.fingerprint != before
    assert len(after.places) == 3
    key_file().chmod(0o644)
    with pytest.raises(KeyFileUnsafe):
        scan(store)
