"""Checks that planted secrets are found in every text of the store and in the agents' files, and are stored nowhere."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_line import CommandLine

from store.errors import BadValue, NotFound
from store.leaks import store_scan
from store.leaks.rule_table import RULES_BY_ID
from store.model.entry import NewEntry, NewRecord, Text, Thinking, ToolCall, ToolResult
from store.model.leak import Leak
from store.store import Store
from store.sync.refresh import sync_targets
from store.sync.targets import discover_targets

AWS_KEY = RULES_BY_ID["aws-access-key"].example
GROQ_KEY = RULES_BY_ID["groq-key"].example
SLACK_TOKEN = RULES_BY_ID["slack-bot-token"].example
STRIPE_KEY = RULES_BY_ID["stripe-secret-key"].example


@pytest.fixture
def cli(store: Store) -> CommandLine:
    return CommandLine(store.path)


def scan(store: Store) -> dict[str, Leak]:
    for _ in store.leaks.begin_scan().steps():
        pass
    return {leak.rule: leak for leak in store.leaks.list_leaks()}


def add_session(store: Store, name: str = "one", text: str = AWS_KEY) -> int:
    session = store.sessions.create(name)
    store.chains.append(session.key, [NewEntry(role="user", parts=(Text(f"use {text}"),))])
    return session.key


def test_every_kind_of_part_is_scanned(store: Store) -> None:
    session = store.sessions.create("one")
    parts = (
        Text(f"a {AWS_KEY}"),
        Thinking(f"b {GROQ_KEY}"),
        ToolCall("1", "bash", {"env": [{"TOKEN": SLACK_TOKEN}]}),
    )
    store.chains.append(session.key, [NewEntry(role="assistant", parts=parts)])
    store.chains.append(session.key, [NewEntry(role="tool", parts=(ToolResult("1", {"out": STRIPE_KEY}),))])
    found = scan(store)
    places = {rule: leak.places[0] for rule, leak in found.items()}
    assert {rule: place.field for rule, place in places.items()} == {
        "aws-access-key": "text",
        "groq-key": "thinking",
        "slack-bot-token": "tool arguments",
        "stripe-secret-key": "tool result",
    }
    assert places["stripe-secret-key"].session_id == session.id
    assert places["stripe-secret-key"].entry == f"{session.id}#1"


def test_titles_summaries_notes_and_facts_are_scanned(store: Store) -> None:
    session = store.sessions.by_key(add_session(store, text="nothing"))
    store.sessions.set_title(session, f"Rotate {AWS_KEY}")
    store.notes.add_note(session, f"was {GROQ_KEY}")
    store.facts.learn(f"the bot uses {SLACK_TOKEN}")
    store.summaries.set(session, f"We leaked {STRIPE_KEY}.")
    assert {leak.places[0].field for leak in scan(store).values()} == {"title", "note", "fact", "summary"}
    store.sessions.set_title(session, "Rotate")
    assert "aws-access-key" not in scan(store)


def test_one_value_is_one_leak_and_is_stored_nowhere(store: Store) -> None:
    session = store.sessions.create("one")
    store.chains.append(session.key, [NewEntry(role="user", parts=(Text(f"say {AWS_KEY}"),)) for _ in range(3)])
    assert len(scan(store)["aws-access-key"].places) == 3
    store.leaks.ignore(store.leaks.list_leaks()[0].fingerprint, "an old one")
    for table in ("leaks", "leak_places", "leak_progress", "leak_files", "leak_key", "edits"):
        assert AWS_KEY not in repr(store.rows(f"select * from {table}"))


def test_a_scan_continues_where_it_stopped(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_scan, "STEP_BYTES", 1)
    session = add_session(store)
    store.chains.append(session, [NewEntry(role="user", parts=(Text(f"use {GROQ_KEY}"),))])
    interrupted = store.leaks.begin_scan().steps()
    next(interrupted)
    next(interrupted)
    interrupted.close()
    assert [leak.rule for leak in store.leaks.list_leaks()] == ["aws-access-key"]
    assert store.leaks.begin_scan().count_pending() == 1
    second = store.leaks.begin_scan()
    for _ in second.steps():
        pass
    assert second.texts == 1  # only the last entry
    assert {leak.rule for leak in store.leaks.list_leaks()} == {"aws-access-key", "groq-key"}
    assert second.count_pending() == 0


def test_the_newest_session_is_scanned_first(store: Store) -> None:
    for name, year in (("old", 2020), ("new", 2030)):
        session = store.sessions.create(name)
        entry = NewEntry(role="user", parts=(Text(f"{AWS_KEY} {name}"),), created_at=f"{year}-01-01T00:00:00Z")
        store.chains.append(session.key, [entry])
    next(store.leaks.begin_scan().steps())
    assert [place.session_id for place in store.leaks.list_leaks()[0].places] == [store.sessions.find("new").id]


def test_values_of_own_secrets_are_found_also_in_sessions_that_were_scanned_before(store: Store) -> None:
    session = store.sessions.by_key(add_session(store, text="violet otters at noon"))
    assert scan(store) == {}
    store.secrets.set(session, "phrase", "violet otters at noon")
    assert scan(store)["own-secret"].tier == "certain"
    idle = store.leaks.begin_scan(is_idle=True)
    assert idle.count_pending() == 0  # it does not scan everything again because it leaves the secrets out


@pytest.mark.parametrize("is_ascii", [True, False])
def test_values_of_own_secrets_are_found_where_json_spells_them_otherwise(store: Store, is_ascii: bool) -> None:
    session, value = store.sessions.create("one"), 'Öffne "Sesam"\ndich'
    record = json.dumps({"content": f"say {value}!"}, ensure_ascii=is_ascii).encode()
    entry = NewEntry(role="user", parts=(Text(f"say {value}!"),), record=NewRecord(record))
    store.chains.append(session.key, [entry])
    store.notes.add_note(session, f"It was {value}.")
    store.secrets.set(session, "phrase", value)
    leak = scan(store)["own-secret"]
    assert {place.field for place in leak.places} == {"text", "note"}
    assert value not in repr(store.leaks.read_mask(session.key).mask(f"say {value}!"))


def test_ignore_and_rotated_are_edits_that_can_be_undone(store: Store) -> None:
    add_session(store)
    fingerprint = scan(store)["aws-access-key"].fingerprint
    with pytest.raises(BadValue):
        store.leaks.ignore(fingerprint, " ")
    with pytest.raises(NotFound):
        store.leaks.ignore("nothing", "a reason")
    store.leaks.ignore(fingerprint[:6], "an example")
    assert store.leaks.list_leaks()[0].ignored == "an example"
    assert scan(store)["aws-access-key"].ignored == "an example"
    store.journal.undo()
    assert store.leaks.list_leaks()[0].ignored is None
    store.leaks.set_rotated(fingerprint)
    assert store.leaks.list_leaks()[0].rotated
    store.journal.undo()
    assert store.leaks.list_leaks()[0].rotated is None


def test_a_purge_forgets_the_leaks_of_a_session(store: Store) -> None:
    key = add_session(store)
    scan(store)
    store.sessions.purge([store.sessions.by_key(key)])
    for table in ("leaks", "leak_places", "leak_progress"):
        assert store.rows(f"select * from {table}") == []


def test_the_agents_own_files_are_scanned(store: Store, home: Path, tmp_path: Path) -> None:
    project = tmp_path / "project"
    transcript = home / ".claude/projects/-p/11111111-1111-4111-8111-111111111111.jsonl"
    line = {
        "type": "user",
        "uuid": "a",
        "parentUuid": None,
        "sessionId": transcript.stem,
        "cwd": str(project),
        "timestamp": "2026-01-01T00:00:00Z",
        "message": {"role": "user", "content": f"use {AWS_KEY}"},
    }
    side_file = transcript.with_suffix("") / "tool-results/a.txt"
    settings = project / ".claude/settings.local.json"
    for path, text in {
        transcript: json.dumps(line) + "\n",
        home / ".claude/history.jsonl": json.dumps({"display": GROQ_KEY}) + "\n",
        side_file: f"first\n{SLACK_TOKEN}",
        settings: json.dumps({"permissions": {"allow": [f"Bash(curl -H {STRIPE_KEY})"]}}),
    }.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    for _ in sync_targets(store, discover_targets(store=store)):
        pass
    found = scan(store)
    assert {place.path for place in found["aws-access-key"].places} == {None, str(transcript)}
    assert [place.path for place in found["groq-key"].places] == [str(home / ".claude/history.jsonl")]
    assert [(place.path, place.line) for place in found["slack-bot-token"].places] == [(str(side_file), 2)]
    assert [place.path for place in found["stripe-secret-key"].places] == [str(settings)]
    side_file.unlink()
    assert "slack-bot-token" not in scan(store)


def test_the_command_lists_and_judges(cli: CommandLine, store: Store) -> None:
    add_session(store)
    add_session(store, "two", GROQ_KEY)
    result = cli("leaks")
    assert [row[1:5] for row in result.rows] == [
        ["certain", "groq-key", "gsk_••••••••", "open"],
        ["certain", "aws-access-key", "AKIA••••••••", "open"],
    ]
    assert AWS_KEY not in result.out + result.err
    fingerprint = result.rows[1][0]
    assert cli("leaks", "ignore", fingerprint, "--reason", "revoked long ago").status == 0
    assert cli("leaks", "rotated", result.rows[0][0]).status == 0
    found = {leak["rule"]: leak for leak in cli("leaks", "--json").json["leaks"]}
    assert found["aws-access-key"]["ignored"] == "revoked long ago"
    assert found["groq-key"]["rotated"]
    assert cli("leaks", "ignore", "nothing", "--reason", "x").status == 1


def test_a_query_limits_the_sessions(cli: CommandLine, store: Store) -> None:
    add_session(store, "one", f"{AWS_KEY} walrus")
    add_session(store, "two", GROQ_KEY)
    assert [row[2] for row in cli("leaks", "walrus").rows] == ["aws-access-key"]


def test_what_is_not_scanned_yet_is_said(cli: CommandLine, store: Store) -> None:
    add_session(store)
    result = cli("leaks", "--no-scan")
    assert result.rows == []
    assert "Not scanned yet: 1 session." in result.err
