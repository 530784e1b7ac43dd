"""These tests read Wuhu stores: every layout, every payload, and the fields of a session."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from wuhu_database import (
    LAYOUTS,
    MESSAGE_CREATED_AT,
    NEWEST_LAYOUT,
    SETTINGS_CHANGE,
    Payload,
    WuhuStore,
    assistant,
    call,
    compaction,
    custom,
    injected_message,
    message,
    result,
    sync_and_find_session,
    text,
    user,
)

from store.model.entry import Attachment, Entry, Opaque, Text, Thinking, Tokens, ToolCall, ToolResult
from store.sources.wuhu.source import Wuhu
from store.store import Store
from store.sync.targets import find_targets
from store.text.validate import decode

wuhu = Wuhu()

STORED_AT = "2026-03-04T05:00:00.500000Z"


@pytest.fixture
def owner(tmp_path: Path) -> WuhuStore:
    return WuhuStore(tmp_path / "wuhu.sqlite")


def entries(store: Store, owner: WuhuStore) -> list[Entry]:
    return store.chains.entries(sync_and_find_session(store, owner).key, 0)


def read_one_entry(store: Store, owner: WuhuStore, payload: Payload) -> Entry:
    """Return the entry that a payload becomes."""
    owner.add_session()
    owner.append_entry(payload)
    (entry,) = entries(store, owner)
    return entry


# ── layouts ───────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_opens(store: Store, tmp_path: Path, layout: str) -> None:
    owner = WuhuStore(tmp_path / "any name", layout)
    owner.add_session()
    owner.append_entry(user("How full is the disk?"))
    owner.append_entry(assistant(text("41 %")))
    session = sync_and_find_session(store, owner)
    assert (session.provider, session.model, session.cwd) == ("anthropic", "gpt", "/srv/app")
    assert (session.system_prompt, session.title, session.turns) == ("Be brief.", "How full is the disk?", 1)
    assert (session.created_at, session.updated_at) == ("2026-03-04T04:53:00.125000Z", STORED_AT)
    assert (session.source, session.native_id, session.archived) == ("wuhu", "s", 0)
    assert [entry.text for entry in store.chains.entries(session.key)] == [
        "Be brief.",
        "How full is the disk?",
        "41 %",
    ]


def test_a_store_is_recognized_by_its_tables(owner: WuhuStore) -> None:
    assert [target.source.name for target in find_targets([str(owner.path)])] == ["wuhu"]
    owner.execute("drop table session_entries")
    assert not wuhu.detect(str(owner.path))


@pytest.mark.parametrize("layout", ["feb11", "v5_archive"])
def test_the_environment_was_in_columns(store: Store, tmp_path: Path, layout: str) -> None:
    owner = WuhuStore(tmp_path / "db", layout)
    owner.add_session(environmentName="alpha", environmentType="local", environmentPath="/srv/alpha")
    session = sync_and_find_session(store, owner)
    assert session.environment_name == "alpha"
    assert session.environment_type == "local"
    assert session.environment_path == "/srv/alpha"
    assert session.cwd == "/srv/app"


@pytest.mark.parametrize(("layout", "kind"), [("v6_mounts", "local"), ("v7_runner", "remote:mac")])
def test_the_environment_is_the_primary_mount(store: Store, tmp_path: Path, layout: str, kind: str) -> None:
    owner = WuhuStore(tmp_path / "db", layout)
    owner.add_session(cwd=None)
    columns = "id, sessionID, name, path, isPrimary, createdAt"
    owner.execute(
        f"insert into mounts ({columns}) values ('m1', 's', 'docs', '/srv/docs', 0, 'x')",
        f"insert into mounts ({columns}) values ('m2', 's', 'app', '/srv/app2', 1, 'x')",
    )
    if layout == "v7_runner":
        owner.execute("update mounts set runnerID = 'remote:mac' where id = 'm2'")
    session = sync_and_find_session(store, owner)
    assert session.environment_name == "app"
    assert session.environment_type == kind
    assert session.environment_path == "/srv/app2"
    assert session.cwd == "/srv/app2"


def test_the_title_and_the_archive(store: Store, owner: WuhuStore) -> None:
    owner.add_session(customTitle="Disk helper", isArchived=1)
    session = sync_and_find_session(store, owner)
    assert (session.title, session.archived) == ("Disk helper", 1)


def test_the_header_record_has_both_rows_of_the_session(store: Store, owner: WuhuStore) -> None:
    owner.add_session(effectiveReasoningEffort="low")
    session = sync_and_find_session(store, owner)
    header = store.chains.entry(session.key, -1)
    assert header.record is not None
    record = decode(store.records.get(header.record))
    assert record["sessions"]["effectiveReasoningEffort"] == "low"
    assert decode(record["session_entries"]["payload"])["payload"]["systemPrompt"] == "Be brief."
    assert "updatedAt" not in record["sessions"]


def test_queued_messages_are_not_read(store: Store, owner: WuhuStore) -> None:
    owner.add_session()
    owner.execute("insert into user_queue_pending values ('q', 's', 'steer', '2026-03-04 05:00:00.000', '{}')")
    assert sync_and_find_session(store, owner).entries == 0


# ── payloads ──────────────────────────────────────────────────────────────────────────────────────

RETRY = {"version": 1, "retryIndex": 1, "error": "429"}
PAYLOADS: dict[str, tuple[Payload, tuple[str, str, str], tuple[Any, ...]]] = {
    "user": (user("see /tmp"), ("message", "user", "see /tmp"), (Text("see /tmp"),)),
    "assistant": (
        assistant(text("Checking."), call()),
        ("message", "assistant", "Checking."),
        (Text("Checking."), ToolCall("t1", "bash", {"command": "df -h /"})),
    ),
    "tool_result": (result(text("41 %")), ("message", "tool", ""), (ToolResult("t1", "41 %", False, "bash"),)),
    "failed tool_result": (
        result(text("no"), failed=True),
        ("message", "tool", ""),
        (ToolResult("t1", "no", True, "bash"),),
    ),
    "tool_result of two texts": (
        result(text("a"), text("b")),
        ("message", "tool", ""),
        (ToolResult("t1", [text("a"), text("b")], False, "bash"),),
    ),
    "tool_result without any": (result(), ("message", "tool", ""), (ToolResult("t1", [], False, "bash"),)),
    "custom_message": (
        injected_message("wuhu_system_input_v1", "the job ended"),
        ("message", "user", "the job ended"),
        (Text("the job ended"),),
    ),
    "hidden custom_message": (
        injected_message("wuhu_mount_context_v1", "cwd is /srv", display=False),
        ("message", "user", ""),
        (Text("cwd is /srv"),),
    ),
    "stop marker": (
        injected_message("wuhu_execution_stopped_v1", "Execution stopped"),
        ("event", "", "Execution stopped"),
        (Text("Execution stopped"),),
    ),
    "message of an unknown role": (
        {"type": "message", "payload": {"role": "oracle", "payload": {"riddle": [1, None]}}},
        ("unknown", "oracle", ""),
        (Opaque("oracle", {"riddle": [1, None]}),),
    ),
    "message that is none": (
        {"type": "message", "payload": {"role": "user", "message": "hi"}},
        ("unknown", "user", ""),
        (Opaque("user", {"role": "user", "message": "hi"}),),
    ),
    "tool_execution": (
        {"type": "tool_execution", "payload": {"phase": "start", "toolCallId": "t1", "toolName": "bash"}},
        ("event", "", "bash · start"),
        (Opaque("tool_execution", {"phase": "start", "toolCallId": "t1", "toolName": "bash"}),),
    ),
    "session_settings": (
        SETTINGS_CHANGE,
        ("event", "", "openai · gpt · high"),
        (Opaque("session_settings", SETTINGS_CHANGE["payload"]),),
    ),
    "compaction": (compaction("So far.", 1), ("compaction", "system", "So far."), (Text("So far."),)),
    "custom": (
        custom("wuhu_llm_retry_v1", RETRY),
        ("event", "", "wuhu_llm_retry_v1 · 429"),
        (Opaque("wuhu_llm_retry_v1", RETRY),),
    ),
    "custom context for the model": (
        custom("wuhu_agents_context_v1", {"source": "AGENTS.md", "text": "Use tabs."}),
        ("message", "user", ""),
        (Text("Use tabs."),),
    ),
    "custom without data": (
        {"type": "custom", "customType": "x"},
        ("event", "", "x"),
        (Opaque("x", None),),
    ),
    "a kind of the future": (
        {"type": "future_kind", "payload": {"x": 1}},
        ("unknown", "", ""),
        (Opaque("future_kind", {"x": 1}),),
    ),
    "a kind without a payload": (
        {"type": "odd", "y": 2},
        ("unknown", "", ""),
        (Opaque("odd", {"type": "odd", "y": 2}),),
    ),
}


@pytest.mark.parametrize("name", PAYLOADS)
def test_payload(store: Store, owner: WuhuStore, name: str) -> None:
    payload, expected, parts = PAYLOADS[name]
    entry = read_one_entry(store, owner, payload)
    assert (entry.kind, entry.role, entry.text) == expected
    assert entry.parts == parts


def test_the_record_is_the_row_as_it_was_written(store: Store, owner: WuhuStore) -> None:
    entry = read_one_entry(store, owner, user("see /tmp"))
    assert entry.record is not None
    row = decode(store.records.get(entry.record))
    assert (row["sessionID"], row["parentEntryID"], row["type"]) == ("s", 1, "message")
    assert "see \\/tmp" in row["payload"]


def test_authors_of_user_messages_and_of_injected_ones(store: Store, owner: WuhuStore) -> None:
    owner.add_session()
    owner.append_entry(injected_message("wuhu_mount_context_v1", "cwd is /srv", display=False))
    owner.append_entry(user("hi"))
    owner.append_entry(message("user", [text("an old client")]))
    owner.append_entry(injected_message("wuhu_system_input_v1", "the job ended"))
    read = entries(store, owner)
    assert [entry.author for entry in read] == [
        "wuhu_mount_context_v1",
        "ana@box",
        "unknown_user",
        "wuhu_system_input_v1",
    ]
    assert [entry.turn for entry in read] == [0, 1, 2, 2]


def test_hidden_context_reaches_the_model_and_no_search(store: Store, owner: WuhuStore) -> None:
    owner.add_session()
    owner.append_entry(custom("wuhu_skills_context_v1", {"text": "narwhal"}))
    owner.append_entry(user("hi"))
    session = sync_and_find_session(store, owner)
    assert "narwhal" in str(store.load_input_history(session.id))
    assert store.search.find("narwhal") == ([], 0)


def test_messages_have_their_own_time_and_other_entries_the_time_of_storing(store: Store, owner: WuhuStore) -> None:
    owner.add_session()
    owner.append_entry(user("hi"))
    owner.append_entry(user("no time", timestamp="soon"))
    owner.append_entry(SETTINGS_CHANGE)
    assert [entry.created_at for entry in entries(store, owner)] == [MESSAGE_CREATED_AT, STORED_AT, STORED_AT]


def test_models_and_tokens_are_those_of_each_message(store: Store, owner: WuhuStore) -> None:
    owner.add_session()
    owner.append_entry(user("hi"))
    owner.append_entry(
        assistant(text("a"), model="sonnet", usage={"inputTokens": 90, "outputTokens": 20, "totalTokens": 110})
    )
    owner.append_entry(assistant(text("b"), usage={"inputTokens": "many", "outputTokens": 10**30}))
    read = entries(store, owner)
    assert [(entry.model, entry.tokens) for entry in read] == [
        ("", None),
        ("sonnet", Tokens(90, 20)),
        ("gpt", Tokens()),
    ]
    assert store.sessions.find("s").tokens_total == 110


@pytest.mark.parametrize(
    ("content", "fields", "expected"),
    [
        ([text("I was")], {"stopReason": "length"}, [("message", "I was"), ("event", "length")]),
        ([text("I was")], {"stopReason": "aborted"}, [("message", "I was"), ("event", "aborted")]),
        ([], {"stopReason": "error", "errorMessage": "529 busy"}, [("event", "error: 529 busy")]),
        ([], {"stopReason": "stop"}, [("message", "")]),
    ],
)
def test_a_reply_that_was_cut_short_says_so(
    store: Store, owner: WuhuStore, content: list[Any], fields: Payload, expected: list[tuple[str, str]]
) -> None:
    owner.add_session()
    owner.append_entry(assistant(*content, usage={"inputTokens": 3, "outputTokens": 1, "totalTokens": 4}, **fields))
    read = entries(store, owner)
    assert [(entry.kind, entry.text) for entry in read] == expected
    assert {entry.model for entry in read} == {"gpt"}
    assert store.sessions.find("s").tokens_total == 4


def test_calls_find_their_results(store: Store, owner: WuhuStore) -> None:
    owner.add_session()
    owner.append_entry(user("hi"))
    owner.append_entry(assistant(call("t1"), call("t2"), call("t3")))
    owner.append_entry(result(text("no"), call_id="t2", failed=True))
    owner.append_entry(result(text("yes"), call_id="t1"))
    session = sync_and_find_session(store, owner)
    calls = [(call.call_id, call.name, call.status, call.result) for call in store.chains.tool_calls(session.key)]
    assert calls == [("t1", "bash", "ok", "yes"), ("t2", "bash", "error", "no"), ("t3", "bash", "pending", None)]
    assert (session.tool_calls, session.errors) == (3, 1)


def test_early_versions_recorded_the_duration_of_a_call(store: Store, tmp_path: Path) -> None:
    owner = WuhuStore(tmp_path / "db", "feb11")
    owner.add_session()
    owner.append_entry(assistant(call()))
    times = {"start": "2026-03-04 05:00:00.100", "end": "2026-03-04 05:00:00.500"}
    for phase, at in times.items():
        payload = {"phase": phase, "toolCallId": "t1", "toolName": "bash", "arguments": {}}
        entry_id = owner.append_entry({"type": "tool_execution", "payload": payload})
        owner.execute(f"update session_entries set createdAt = '{at}' where id = {entry_id}")
    owner.append_entry(result(text("41 %")))
    (paired,) = store.chains.tool_calls(sync_and_find_session(store, owner).key)
    assert (paired.status, paired.duration_ms) == ("ok", 400)


# ── content blocks ────────────────────────────────────────────────────────────────────────────────


def test_reasoning_keeps_what_the_provider_wants_back(store: Store, owner: WuhuStore) -> None:
    summary = [{"type": "summary_text", "text": "short"}]
    sealed = {"type": "reasoning", "id": "r1", "encrypted_content": "gAAA", "summary": summary}
    entry = read_one_entry(store, owner, assistant(sealed, {"type": "reasoning", "id": "r2", "summary": []}))
    assert entry.parts == (Thinking("short", "gAAA"), Thinking("", ""))


def test_a_block_of_the_future_leaves_its_neighbours_readable(store: Store, owner: WuhuStore) -> None:
    entry = read_one_entry(store, owner, assistant({"type": "hologram", "data": 1}, text("ok"), 7))
    assert entry.parts == (Opaque("hologram", {"type": "hologram", "data": 1}), Text("ok"), Opaque("", 7))
    assert entry.text == "ok"


def image(uri: str) -> Payload:
    return {"type": "image", "blobURI": uri, "mimeType": "image/png"}


def test_the_size_of_an_image_is_that_of_its_file(store: Store, owner: WuhuStore) -> None:
    blob = owner.path.parent / "blobs" / "s" / "sha256-00.png"
    blob.parent.mkdir(parents=True)
    blob.write_bytes(b"12345")
    there, lost = "blob://s/sha256-00.png", "blob://s/sha256-ff.png"
    entry = read_one_entry(store, owner, message("user", [image(there), image(lost)]))
    assert entry.parts == (
        Attachment("image/png", "sha256-00.png", 5, there),
        Attachment("image/png", "sha256-ff.png", None, lost),
    )
    assert store.sessions.find("s").turns == 1


@pytest.mark.parametrize("uri", ["blob://../wuhu.sqlite", "blob://s/../../wuhu.sqlite", "/etc/passwd", "blob://s/\0"])
def test_no_file_outside_the_blobs_is_looked_at(store: Store, owner: WuhuStore, uri: str) -> None:
    (owner.path.parent / "blobs" / "s").mkdir(parents=True)
    (part,) = read_one_entry(store, owner, message("user", [image(uri)])).parts
    assert isinstance(part, Attachment)
    assert (part.size, part.uri) == (None, uri)


def test_an_image_in_a_result_is_also_an_attachment(store: Store, owner: WuhuStore) -> None:
    entry = read_one_entry(store, owner, result(image("blob://s/a.png")))
    assert entry.parts[0] == ToolResult("t1", [image("blob://s/a.png")], False, "bash")
    assert entry.parts[1] == Attachment("image/png", "a.png", None, "blob://s/a.png")


# ── summaries ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("first_kept", "covered"),
    [(2, 0), (3, 0), (4, 1), (5, 1), (6, 2), (99, None)],
    ids=["first prompt", "its reply", "second prompt", "within the second turn", "third prompt", "not there"],
)
def test_a_summary_covers_the_turns_that_ended_before_what_was_kept(
    store: Store, owner: WuhuStore, first_kept: int, covered: int | None
) -> None:
    owner.add_session()
    for prompt in ("one", "two", "three"):
        owner.append_entry(user(prompt))
        owner.append_entry(assistant(text("ok")))
    owner.append_entry(compaction("older", 2))
    owner.append_entry(compaction("So far.", first_kept))
    owner.append_entry(compaction(" ", first_kept))
    summary = store.summaries.current(sync_and_find_session(store, owner))
    assert summary is not None
    assert (summary.text, summary.up_to_turn, summary.origin) == ("So far.", covered, "source")


# ── roots and resume ──────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("config", "found"),
    [
        (None, ".wuhu/wuhu.sqlite"),
        ("openai: x\n", ".wuhu/wuhu.sqlite"),
        ("databasePath:\nport: 1\n", ".wuhu/wuhu.sqlite"),
        ("databasePath: ~\n", ".wuhu/wuhu.sqlite"),
        ("databasePath: ~nobody-of-that-name/x\n", ".wuhu/wuhu.sqlite"),
        ("port: 1\ndatabasePath: ~/data/w#1.sqlite # here\r\n", "data/w#1.sqlite"),
        ('databasePath: "~/my data/w.sqlite"\n', "my data/w.sqlite"),
        ("databasePath : '~/w.sqlite'", "w.sqlite"),
    ],
)
def test_roots(home: Path, config: str | None, found: str) -> None:
    if config is not None:
        (home / ".wuhu").mkdir()
        (home / ".wuhu/server.yml").write_bytes(config.encode())
    assert list(wuhu.roots()) == [str(home / found)]


def test_the_store_is_found_where_wuhu_keeps_it(home: Path) -> None:
    (home / ".wuhu").mkdir()
    WuhuStore(home / ".wuhu/wuhu.sqlite", NEWEST_LAYOUT)
    assert [target.source.name for target in find_targets()] == ["wuhu"]


def test_resume_gives_a_hint(store: Store, owner: WuhuStore) -> None:
    owner.add_session("a b")
    command = wuhu.resume(sync_and_find_session(store, owner, "a b"))
    assert command.argv is None
    assert "wuhu client prompt --session-id 'a b' " in command.hint
