"""These tests check the Goose reader: the layouts of the database, the older files, summaries, and tool results."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from foreign_databases import execute_sql, stored_entries, stored_texts, sync_paths
from goose_database import (
    AT,
    COMPACTION_NOTICE,
    FIRST_SCHEMA,
    SCHEMA_V9,
    VISIBLE_TO_AGENT,
    VISIBLE_TO_BOTH,
    VISIBLE_TO_NOBODY,
    VISIBLE_TO_USER,
    GooseStore,
    call,
    result,
    text_content,
)

from store.model.entry import Attachment, Opaque, PairedCall, Text, Thinking, ToolCall
from store.sources.goose.source import Goose
from store.store import Store
from store.sync import refresh
from store.sync.targets import find_targets

goose = Goose()

S = "20260101_1"
PICTURE = {"type": "image", "data": "aGVsbG8=", "mimeType": "image/png"}


@pytest.fixture
def owner(tmp_path: Path) -> GooseStore:
    return GooseStore(tmp_path / "sessions.db")


def calls(store: Store) -> list[PairedCall]:
    return store.chains.tool_calls(store.sessions.find(S).key)


def text(words: str, *audience: str) -> dict[str, Any]:
    return {"type": "text", "text": words} | ({"annotations": {"audience": list(audience)}} if audience else {})


def transcript(path: Path, *messages: dict[str, Any], **fields: Any) -> Path:
    header = {
        "working_dir": "/srv/old",
        "description": "An old one",
        "message_count": len(messages),
        "total_tokens": 30,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(line) + "\n" for line in [header | fields, *messages]))
    return path


def line(role: str, words: str, at: int = AT) -> dict[str, Any]:
    return {"id": None, "role": role, "created": at, "content": text_content(words)}


# ── finding ───────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("layout", [FIRST_SCHEMA, SCHEMA_V9], ids=["first", "ninth"])
def test_every_layout_opens(tmp_path: Path, store: Store, layout: str) -> None:
    owner = GooseStore(tmp_path / "any name", layout)
    owner.add_session(S, ("user", text_content("Fix it")), ("assistant", text_content("Fixed.")), description="Repairs")
    report = sync_paths(store, owner.path)
    assert (report.source, report.new, report.problems) == ("goose", 1, [])
    assert (stored_texts(store, S), store.sessions.find(S).title) == (["Fix it", "Fixed."], "Repairs")
    assert sync_paths(store, owner.path).unchanged == 1


@pytest.mark.parametrize("is_moved", [True, False])
def test_the_folder_of_goose_is_found(
    home: Path, tmp_path: Path, store: Store, is_moved: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = home / ".local/share/goose/sessions"
    if is_moved:
        folder = tmp_path / "root/data/sessions"
        monkeypatch.setenv("GOOSE_PATH_ROOT", str(tmp_path / "root"))
    folder.mkdir(parents=True)
    GooseStore(folder / "sessions.db").add_session(S, ("user", text_content("new")))
    transcript(folder / "20250801_101010.jsonl", line("user", "old"), line("assistant", "Yes."))
    transcript(folder / f"{S}.jsonl", line("user", "taken over"))
    (folder / "notes.jsonl").write_text('{"some": "thing"}\n')
    (target,) = find_targets()
    assert (target.source.name, target.locator) == ("goose", str(folder))
    (*_, last) = refresh.sync_targets(store, [target])
    assert (last.report.new, last.report.problems) == (2, [])
    assert stored_texts(store, S) == ["new"]
    assert stored_texts(store, "20250801_101010") == ["old", "Yes."]
    (*_, last) = refresh.sync_targets(store, [target])
    assert last.report.unchanged == 2


def test_an_older_file_that_goose_imported_into_its_database_is_not_read_any_more(tmp_path: Path, store: Store) -> None:
    transcript(tmp_path / f"{S}.jsonl", line("user", "old"))
    sync_paths(store, tmp_path)
    owner = GooseStore(tmp_path / "sessions.db", SCHEMA_V9)
    owner.add_session(S, ("user", text_content("old")), ("assistant", text_content("new")))
    assert sync_paths(store, tmp_path).problems == []
    assert stored_texts(store, S) == ["old", "new"]


def test_an_older_file_is_read(tmp_path: Path, store: Store) -> None:
    path = transcript(tmp_path / "20250801_101010.jsonl", line("user", "old", AT), line("assistant", "Yes.", AT + 1))
    assert sync_paths(store, path).source == "goose"
    session = store.sessions.find("20250801_101010")
    assert (session.title, session.cwd, session.tokens_total) == ("An old one", "/srv/old", 30)
    assert session.created_at == "2025-12-29T09:20:00.000000Z"
    with path.open("a") as file:
        file.write(json.dumps(line("user", "more")) + "\n" + '{"role": "us')
    assert sync_paths(store, path).problems == []
    assert stored_texts(store, "20250801_101010") == ["old", "Yes.", "more"]


def test_a_broken_line_of_an_older_file_is_kept(tmp_path: Path, store: Store) -> None:
    path = transcript(tmp_path / "20250801_101010.jsonl", line("user", "old", AT), line("assistant", "Yes.", AT + 1))
    path.write_text(path.read_text().replace("}\n{", "}{") + '{"role": "us\n')
    assert [problem.where.partition(":")[0] for problem in sync_paths(store, path).problems] == [path.name]
    *messages, broken = stored_entries(store, "20250801_101010")
    assert [entry.text for entry in messages] == ["old", "Yes."]
    assert (broken.kind, broken.parts) == ("unknown", (Opaque("content", '{"role": "us'),))


def test_a_folder_of_other_files_is_not_goose_s(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"type": "user"}\n')
    assert not goose.detect(str(tmp_path))
    assert not goose.detect(str(tmp_path / "a.jsonl"))


# ── sessions ──────────────────────────────────────────────────────────────────────────────────────


def test_the_fields_of_a_session(owner: GooseStore, store: Store) -> None:
    fields = {"name": "Greetings", "provider_name": "anthropic", "model_config_json": '{"model_name": "opus"}'}
    tokens = {"accumulated_input_tokens": 300, "accumulated_output_tokens": 60, "accumulated_total_tokens": 360}
    owner.add_session(
        S,
        ("user", text_content("hi")),
        ("assistant", text_content("Hello.")),
        **fields,
        **tokens,
        input_tokens=9,
        total_tokens=9,
    )
    sync_paths(store, owner.path)
    session = store.sessions.find(S)
    assert (session.title, session.cwd, session.provider) == ("Greetings", "/srv/app", "anthropic")
    assert (session.tokens_input, session.tokens_output, session.tokens_total) == (300, 60, 360)
    assert session.model == stored_entries(store, S)[1].model == "opus"
    assert session.created_at == "2025-12-29T09:20:00.000000Z"
    assert session.id.startswith(f"goose:{S}@")
    command = goose.resume(session)
    assert (command.argv, command.cwd) == (("goose", "session", "--resume", "--session-id", S), "/srv/app")


@pytest.mark.parametrize("name", ["CLI Session", "New session 12", ""])
def test_a_placeholder_title_is_replaced_by_the_prompt(owner: GooseStore, store: Store, name: str) -> None:
    owner.add_session(S, ("user", text_content("Add a retry")), name=name)
    sync_paths(store, owner.path)
    assert store.sessions.find(S).title == "Add a retry"


def test_internal_sessions_are_archived(owner: GooseStore, store: Store) -> None:
    owner.add_session(S, session_type="sub_agent")
    owner.add_session("20260101_2", session_type="scheduled")
    sync_paths(store, owner.path)
    assert store.sessions.find(S).archived
    assert not store.sessions.find("20260101_2").archived


# ── messages ──────────────────────────────────────────────────────────────────────────────────────


def test_content(owner: GooseStore, store: Store) -> None:
    unknown = {"type": "hologram", "beam": 1}
    thinking = {"type": "thinking", "thinking": "plan", "signature": "sig"}
    redacted = {"type": "redactedThinking", "data": "xyz"}
    reasoning = {"type": "reasoning", "text": "so"}
    owner.add_session(S, ("user", [*text_content("See"), PICTURE]))
    owner.add_message(
        "assistant", [thinking, redacted, reasoning, *text_content("Reading."), call(), unknown], visibility=None
    )
    assert sync_paths(store, owner.path).problems == []
    prompt, reply = stored_entries(store, S)
    assert prompt.parts == (Text("See"), Attachment("image/png", size=6))
    assert reply.parts == (
        Thinking("plan", "sig"),
        Thinking("", "xyz"),
        Thinking("so"),
        Text("Reading."),
        ToolCall("call_1", "developer__shell", {"command": "ls"}),
        Opaque("hologram", unknown),
    )
    assert reply.created_at == "2025-12-29T09:20:00.000000Z"


def test_calls_are_paired_and_failures_flagged(owner: GooseStore, store: Store) -> None:
    invalid_call = {"type": "toolRequest", "id": "c3", "toolCall": {"status": "error", "error": "bad arguments"}}
    old_result = {
        "type": "toolResponse",
        "id": "c1",
        "toolResult": {"status": "success", "value": [text("old")]},
    }
    missing_tool = {"type": "toolResponse", "id": "c2", "toolResult": {"status": "error", "error": "Tool not found"}}
    owner.add_session(S, ("user", text_content("go")))
    owner.add_message("assistant", [call(f"c{n}") for n in range(3)] + [invalid_call, call("c4"), call("c5")])
    owner.add_message("user", [result(text("twice", "user"), text("once", "assistant"), call_id="c0"), old_result])
    owner.add_message("user", [missing_tool, result(text("no"), call_id="c3", failed=True)])
    owner.add_message("user", [result(PICTURE, call_id="c4"), result(text("a"), text("b"), call_id="c5")])
    sync_paths(store, owner.path)
    session = store.sessions.find(S)
    assert (session.turns, session.tool_calls, session.errors) == (1, 6, 2)
    assert [(call.call_id, call.status, call.result) for call in calls(store)] == [
        ("c0", "ok", "once"),
        ("c1", "ok", "old"),
        ("c2", "error", "Tool not found"),
        ("c3", "error", "no"),
        ("c4", "ok", ""),
        ("c5", "ok", ["a", "b"]),
    ]
    assert [entry.role for entry in stored_entries(store, S)] == ["user", "assistant", "tool", "tool", "tool"]
    assert Attachment("image/png", size=6) in stored_entries(store, S)[4].parts


def test_notices_and_questions_are_events(owner: GooseStore, store: Store) -> None:
    notice = {"type": "systemNotification", "notificationType": "inlineMessage", "msg": "Compacting…"}
    question = {"type": "actionRequired", "data": {"actionType": "toolConfirmation"}}
    owner.add_session(S, ("assistant", [notice]), ("user", [question]))
    sync_paths(store, owner.path)
    assert [(entry.kind, entry.text) for entry in stored_entries(store, S)] == [("event", "Compacting…"), ("event", "")]
    assert store.sessions.find(S).turns == 0


def test_seconds_and_milliseconds_are_sorted_together(owner: GooseStore, store: Store) -> None:
    owner.add_session(S)
    owner.add_message("user", text_content("second"), at=(AT + 1) * 1000)
    owner.add_message("assistant", text_content("third"), at=AT + 2)
    owner.add_message("user", text_content("first"), at=AT)
    sync_paths(store, owner.path)
    assert stored_texts(store, S) == ["first", "second", "third"]
    assert [entry.created_at[17:19] for entry in stored_entries(store, S)] == ["00", "01", "02"]


# ── summaries ─────────────────────────────────────────────────────────────────────────────────────


def test_a_summary_does_not_change_the_conversation(owner: GooseStore, store: Store) -> None:
    owner.add_session(
        S, ("user", text_content("one")), ("assistant", text_content("first")), ("user", text_content("two"))
    )
    sync_paths(store, owner.path)
    before = [
        ("user", text_content("one"), VISIBLE_TO_USER),
        ("assistant", text_content("first"), VISIBLE_TO_USER),
        ("user", text_content("two"), VISIBLE_TO_NOBODY),
    ]
    owner.replace_messages(
        *before,
        ("user", text_content("They counted to one."), VISIBLE_TO_AGENT),
        ("assistant", text_content(COMPACTION_NOTICE), VISIBLE_TO_AGENT),
        ("user", text_content("two"), VISIBLE_TO_BOTH),
        ("assistant", text_content("second"), VISIBLE_TO_BOTH),
    )
    sync_paths(store, owner.path)
    kinds = ["message", "message", "message", "compaction", "event", "event", "message"]
    assert [entry.kind for entry in stored_entries(store, S)] == kinds
    session = store.sessions.find(S)
    assert (session.turns, store.sessions.children(session.id)) == (2, [])
    summary = store.summaries.current(session)
    assert summary is not None
    assert (summary.text, summary.up_to_turn) == ("They counted to one.", 2)


def test_an_older_summary_is_kept_when_a_newer_one_follows(owner: GooseStore, store: Store) -> None:
    owner.add_session(S)
    owner.replace_messages(
        ("user", text_content("one"), VISIBLE_TO_NOBODY),
        ("user", text_content("Begun."), VISIBLE_TO_NOBODY),
        ("assistant", text_content(COMPACTION_NOTICE), VISIBLE_TO_NOBODY),
        ("user", text_content("one"), VISIBLE_TO_USER),
        ("assistant", text_content("first"), VISIBLE_TO_USER),
        ("user", text_content("They counted to one."), VISIBLE_TO_AGENT),
        ("assistant", text_content(COMPACTION_NOTICE), VISIBLE_TO_AGENT),
        ("user", text_content("one"), VISIBLE_TO_BOTH),
    )
    sync_paths(store, owner.path)
    kinds = ["message", "compaction", "event", "event", "message", "compaction", "event", "event"]
    assert [entry.kind for entry in stored_entries(store, S)] == kinds
    assert store.sessions.find(S).turns == 1


# ── repeated syncs ────────────────────────────────────────────────────────────────────────────────


def test_new_messages_are_appended_and_rewritten_ones_stay_reachable(owner: GooseStore, store: Store) -> None:
    owner.add_session(S, ("user", text_content("one")), ("assistant", text_content("first")))
    sync_paths(store, owner.path)
    owner.add_message("user", text_content("two"))
    assert sync_paths(store, owner.path).updated == 1
    assert stored_texts(store, S) == ["one", "first", "two"]
    owner.replace_messages(
        ("user", text_content("one"), VISIBLE_TO_BOTH), ("assistant", text_content("another"), VISIBLE_TO_BOTH)
    )
    sync_paths(store, owner.path)
    assert stored_texts(store, S) == ["one", "another"]
    (superseded,) = store.sessions.children(store.sessions.find(S).id)
    assert superseded.relation == "superseded"


def test_a_bad_row_is_one_problem(owner: GooseStore, store: Store) -> None:
    owner.add_session(S, ("user", text_content("one")))
    owner.add_message("user", '[{"type": "te')
    owner.add_message("user", '{"type": "text"}')
    owner.add_message("narrator", text_content("Meanwhile"))
    owner.add_session("20260101_2", ("user", text_content("there?")))
    (problem,) = sync_paths(store, owner.path).problems
    assert problem.where == "messages:2"
    assert stored_texts(store, "20260101_2") == ["there?"]
    _, second, _, fourth = stored_entries(store, S)
    assert second.parts == (Opaque("content", '[{"type": "te'),)
    assert (fourth.kind, fourth.parts) == ("unknown", (Text("Meanwhile"),))


def test_every_message_is_in_the_chain(owner: GooseStore, store: Store) -> None:
    contents = [
        text_content("one"),
        [call()],
        [result(text("a"))],
        [{"type": "systemNotification", "msg": "x"}],
        [{"type": "?"}],
    ]
    for content in contents:
        execute_sql(owner.path, "insert or ignore into sessions (id, working_dir) values (?, '')", [(S,)])
        owner.add_message("assistant" if content == [call()] else "user", content)
    sync_paths(store, owner.path)
    stored = [
        json.loads(store.records.get(entry.record))["content_json"]
        for entry in stored_entries(store, S)
        if entry.record
    ]
    assert stored == [json.dumps(content) for content in contents]
