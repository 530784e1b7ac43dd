"""These tests cover `list`, `show`, `search` and `tools`: their results, and the exact fields of their JSON."""

from __future__ import annotations

import json

import pytest
from command_line import CommandLine, add_upload_session
from sample_conversations import make_call_entries

from store.model.entry import NewEntry, NewRecord, Text
from store.store import Store

SESSION_FIELDS = {
    "id",
    "source",
    "native_id",
    "parent_id",
    "relation",
    "forked_at",
    "title",
    "agent_title",
    "model",
    "provider",
    "cwd",
    "channel",
    "channel_id",
    "environment_name",
    "environment_type",
    "environment_path",
    "webhook",
    "head",
    "tail",
    "summary_up_to",
    "user",
    "created_at",
    "updated_at",
    "turns",
    "entries",
    "tool_calls",
    "errors",
    "tokens",
    "cost",
    "cost_usd",
    "summary",
    "tags",
    "pinned",
    "archived",
    "deleted",
    "gone",
    "expires_at",
    "owner",
    "machine",
    "failed",
    "status",
}
TURN_FIELDS = {"n", "prompt", "started_at", "ended_at", "entries", "tool_calls"}
ENTRY_FIELDS = {"id", "seq", "kind", "role", "author", "model", "at", "text", "parts"}
CALL_FIELDS = {"call_id", "name", "arguments", "result", "status", "duration_ms", "entry", "result_entry"}
HIT_FIELDS = {"session", "entry", "turn", "role", "field", "at", "snippet"}
QUERY_FIELDS = {"understood", "puzzles", "instead"}
NAME = "telegram:648079060"


@pytest.fixture
def cli(store: Store) -> CommandLine:
    add_upload_session(store)
    return CommandLine(store.path)


# ── list ──────────────────────────────────────────────────────────────────────────────────────────


def test_list_as_json(cli: CommandLine, store: Store) -> None:
    session = store.sessions.get(NAME)
    store.notes.tag([session], ["red", "blue"])
    store.summaries.set(session, "The retry was late.")
    store.sessions.pin([session])
    listed = cli("list", "--json").json
    assert listed.keys() == {"schema", "sessions", "total", "archived", "prices"} | QUERY_FIELDS
    (listed_session,) = listed["sessions"]
    assert listed_session.keys() == SESSION_FIELDS
    by_lifetime = {"cache_write_5m", "cache_write_1h"}
    assert set(listed_session["tokens"]) == by_lifetime | {
        *("input", "output", "cache_read", "cache_write", "cached", "reasoning", "total")
    }
    expected = {
        "id": NAME,
        "source": "library",
        "parent_id": None,
        "title": "Fix the upload",
        "turns": 2,
        "tool_calls": 3,
        "errors": 1,
        "summary": "The retry was late.",
        "tags": ["blue", "red"],
        "pinned": True,
        "archived": False,
        "deleted": False,
        "gone": False,
        "expires_at": None,
    }
    assert {name: listed_session[name] for name in expected} == expected


def test_every_session_of_a_page_has_its_own_tags_and_summary(cli: CommandLine, store: Store) -> None:
    for name in ("one", "two"):
        session = store.create_session(name)
        store.notes.tag([session], [f"tag of {name}"])
        store.summaries.set(session, f"summary of {name}")
    listed = {
        session["id"]: (session["tags"], session["summary"]) for session in cli("list", "--json").json["sessions"]
    }
    assert listed == {
        "one": (["tag of one"], "summary of one"),
        "two": (["tag of two"], "summary of two"),
        NAME: ([], None),
    }


def test_your_own_title_replaces_the_agents(cli: CommandLine, store: Store) -> None:
    store.create_session("untitled")
    store.append_message("untitled", "user", "What a person said first")
    store.sessions.set_title(store.sessions.get(NAME), "My title")
    titles = {
        session["id"]: (session["title"], session["agent_title"]) for session in cli("list", "--json").json["sessions"]
    }
    assert titles == {"untitled": ("What a person said first", ""), NAME: ("My title", "Fix the upload")}


def test_list_in_a_pipe_prints_one_line_per_session_with_tabs(cli: CommandLine, store: Store) -> None:
    store.create_session("folded", agent_title="two\nlines\tand a tab")
    newest, oldest = cli("list").rows
    assert (newest[0], newest[-1]) == ("folded", "two lines and a tab")
    assert oldest[0] == NAME
    assert oldest[2:] == ["library", "2", "3", "1", "Fix the upload"]


def test_list_finds_words_and_says_how_many_there_are(cli: CommandLine, store: Store) -> None:
    for n in range(3):
        store.create_session(f"other-{n}")
        store.append_message(f"other-{n}", "user", "hello retry")
    assert [row[0] for row in cli("list", "retry", "hello").rows] == ["other-2", "other-1", "other-0"]
    limited = cli("list", "retry", "--limit", "2")
    assert len(limited.lines) == 2
    assert "2 of 4 sessions" in limited.err
    assert cli("list", "retry", "--limit", "2", "--json").json["total"] == 4


def test_filters_narrow_lists_hits_and_calls(cli: CommandLine, store: Store) -> None:
    store.create_session("other", source="codex")
    assert [row[0] for row in cli("list", "agent:codex").rows] == ["other"]
    assert [row[0] for row in cli("list", "--", "is:error", "-agent:codex").rows] == [NAME]
    assert [row[0] for row in cli("list", "is:error -agent:codex").rows] == [NAME]
    assert cli("search", "retry role:assistant", "--json").json["total"] == 0
    assert [row[5] for row in cli("tools", "tool:bash").rows] == ["Bash"]
    assert cli("tools", "is:error").out == cli("tools", "--failed").out
    assert "The query has only filters" in cli("search", "is:error").err


@pytest.mark.parametrize("command", ["list", "search", "tools"])
@pytest.mark.parametrize(
    ("typed", "reason"),
    [("is:banana", "is: has no value 'banana'. Use error, pinned"), ("after:banana", "after: 'banana' is not a date.")],
)
def test_an_unknown_value_of_a_filter_is_a_usage_error(cli: CommandLine, command: str, typed: str, reason: str) -> None:
    ran = cli(command, "retry", typed, "--json")
    assert (ran.status, ran.out) == (2, "")
    assert ran.err.startswith(reason)
    assert ran.err.endswith(f"Try `backscroll {command} -h`.\n")


def test_an_unknown_filter_is_a_word_with_a_hint(cli: CommandLine) -> None:
    ran = cli("list", "agnt:nobody")
    assert (ran.status, ran.out) == (0, "")
    assert ran.err.startswith("agnt: is not a filter, so it is searched as a word. Did you mean agent:?\n")
    assert cli("list", "TypeError:x").err == "No sessions found.\n"


def test_list_of_nothing_is_no_error(cli: CommandLine) -> None:
    ran = cli("list", "xyzzy")
    assert (ran.status, ran.out, ran.err) == (0, "", "No sessions found.\n")


def test_the_trash_is_listed_apart(cli: CommandLine, store: Store) -> None:
    store.sessions.delete([store.sessions.get(NAME)])
    assert cli("list").out == ""
    (only,) = cli("list", "--trash", "--json").json["sessions"]
    assert (only["id"], only["deleted"]) == (NAME, True)
    assert cli("list", "--trash", "words").status == 2


# ── show ──────────────────────────────────────────────────────────────────────────────────────────


def test_show_and_list_tell_all_about_a_session(cli: CommandLine, store: Store) -> None:
    session = store.create_session(
        "room",
        channel="matrix",
        channel_id="!7:example",
        environment_name="box",
        environment_type="docker",
        environment_path="/srv/box",
        webhook="https://user:pass@example.com/hook?token=hunter2&room=7",
        system_prompt="Be brief.",
    )
    for text in ("one", "two"):
        store.append_message("room", "user", text)
    store.summaries.set(session, "Two words.", up_to_turn=1)
    shown = cli("show", "room", "--json").json["session"]
    listed = next(one for one in cli("list", "--json").json["sessions"] if one["id"] == "room")
    assert shown == listed | {"system_prompt": "Be brief."}
    assert (listed["channel_id"], listed["environment_name"], listed["environment_type"]) == (
        "!7:example",
        "box",
        "docker",
    )
    assert (listed["environment_path"], listed["webhook"]) == ("/srv/box", "https://example.com/hook?***")
    assert (listed["tail"], listed["summary_up_to"]) == ("room#1", 1)


def test_show_as_json(cli: CommandLine, store: Store) -> None:
    store.notes.add_note(store.sessions.get(NAME), "a remark", 1)
    shown = cli("show", "telegram", "--json").json
    assert shown.keys() == {"schema", "session", "turns", "notes"}
    assert shown["session"].keys() == SESSION_FIELDS | {"system_prompt"}
    assert [turn["n"] for turn in shown["turns"]] == [0, 1, 2]
    assert all(turn.keys() == TURN_FIELDS for turn in shown["turns"])
    before, first, second = shown["turns"]
    assert [entry["kind"] for entry in before["entries"]] == ["header"]
    assert (first["prompt"], second["prompt"]) == ("Look at the retry.", "Mend it. 上传失败")
    assert all(entry.keys() == ENTRY_FIELDS for entry in first["entries"])
    assert [entry["id"] for entry in first["entries"]] == [f"{NAME}#{seq}" for seq in range(4)]
    assert first["entries"][1]["parts"] == [
        {"type": "thinking", "text": "Where is it?", "signature": ""},
        {"type": "tool_call", "id": "c1", "name": "Bash", "arguments": {"command": "pytest -q"}},
    ]
    (call,) = first["tool_calls"]
    assert call.keys() == CALL_FIELDS
    assert (call["status"], call["entry"], call["result_entry"]) == ("error", f"{NAME}#1", f"{NAME}#2")
    assert call["result"].splitlines()[-1] == "    line 39"
    (note,) = shown["notes"]
    assert note.keys() == {"id", "entry", "text", "at", "author", "comment"}
    assert (note["entry"], note["text"]) == (f"{NAME}#1", "a remark")


def test_show_one_turn(cli: CommandLine) -> None:
    (turn,) = cli("show", "telegram", "--turn", "2", "--json").json["turns"]
    assert turn["n"] == 2
    assert "Look at the retry." not in cli("show", "telegram", "--turn", "2").out
    assert cli("show", "telegram", "--turn", "9").status == 1


def test_show_prints_who_said_what(cli: CommandLine) -> None:
    lines = cli("show", "telegram").lines
    assert lines[0] == "Fix the upload"
    assert lines[lines.index("you") + 1] == "Look at the retry."
    assert lines[lines.index("assistant") + 1] == "┆ Where is it?"
    assert "⚙ Bash  command: pytest -q" in lines
    assert "  ✗" in lines


def test_show_every_kind_of_entry(cli: CommandLine, store: Store) -> None:
    session = store.create_session("odd")
    image = {"type": "image", "title": "a.png", "source": {"media_type": "image/png", "data": "AAAA"}}
    store.append_message("odd", "user", [image, {"type": "hologram", "depth": 3}])
    store.chains.append(
        session.key,
        [NewEntry(kind="compaction", parts=(Text("In short."),)), NewEntry(kind="event", text="model changed")],
    )
    lines = cli("show", "odd").lines
    assert "[image/png a.png 3 bytes]" in lines
    assert '[hologram] {"type":"hologram","depth":3}' in lines
    assert lines[lines.index("— earlier entries were compacted into a summary —") + 1] == "In short."
    assert "· event: model changed" in lines


def test_raw_prints_one_record_per_line(cli: CommandLine, store: Store) -> None:
    session = store.create_session("raw")
    records = [b'{"a": 1}', b"not json \xff", b"two\nlines\r\n"]
    store.chains.append(session.key, [NewEntry(record=NewRecord(data), text="x") for data in records])
    _, plain, raw_bytes, folded = cli("show", "raw", "--raw").raw.splitlines()
    assert [plain, raw_bytes] == records[:2]
    assert json.loads(folded) == "two\nlines\r\n"
    document = cli("show", "raw", "--raw", "--json").json
    assert document.keys() == {"schema", "session", "records"}
    assert document["records"][-1] == "two\nlines\r\n"


def test_raw_of_one_turn(cli: CommandLine) -> None:
    lines = cli("show", "telegram", "--raw", "--turn", "2").lines
    assert json.loads(lines[0]) == {"role": "user", "content": "Mend it. 上传失败"}
    assert len(lines) == 2


def test_lone_surrogates_are_escaped(cli: CommandLine, store: Store) -> None:
    store.create_session("half")
    store.append_message("half", "user", [{"type": "text", "text": "a\ud800b"}])
    assert "a\\ud800b" in cli.run_process("show", "half").lines
    (turn,) = cli.run_process("show", "half", "--turn", "1", "--json").json["turns"]
    assert turn["entries"][0]["parts"] == [{"type": "text", "text": "a\ud800b"}]


# ── search ────────────────────────────────────────────────────────────────────────────────────────


def test_search_as_json(cli: CommandLine) -> None:
    document = cli("search", "retry", "--json").json
    assert document.keys() == {"schema", "hits", "total", "totals"} | QUERY_FIELDS
    (hit,) = document["hits"]
    assert hit.keys() == HIT_FIELDS
    assert (hit["session"], hit["entry"], hit["turn"]) == (NAME, f"{NAME}#0", 1)
    assert (hit["role"], hit["field"], hit["snippet"]) == ("user", "text", "Look at the retry.")


def test_search_finds_tool_calls_and_words_inside_a_sentence(cli: CommandLine) -> None:
    assert cli("search", "pytest", "--json").json["hits"][0]["field"] == "tool_call"
    assert cli("search", '"line 39"', "--json").json["hits"][0]["field"] == "tool_result"
    assert cli("search", "失败", "--json").json["total"] == 1


def test_search_for_nothing_is_wrong_usage_and_nothing_found_is_not(cli: CommandLine) -> None:
    assert cli("search").status == 2
    ran = cli("search", "xyzzy")
    assert (ran.status, ran.err) == (0, "No hits found.\n")


# ── tools ─────────────────────────────────────────────────────────────────────────────────────────


def test_tools_as_json(cli: CommandLine) -> None:
    document = cli("tools", "--json").json
    assert document.keys() == {"schema", "tools", "total"} | QUERY_FIELDS
    assert [call["name"] for call in document["tools"]] == ["Read", "Edit", "Bash"]
    assert all(call.keys() == CALL_FIELDS | {"session", "turn", "at"} for call in document["tools"])


def test_tools_with_words_in_the_call_the_result_or_both(cli: CommandLine) -> None:
    assert [row[5] for row in cli("tools", "pytest").rows] == ["Bash"]
    assert [row[5] for row in cli("tools", "pytest", '"line 39"').rows] == ["Bash"]
    assert cli("tools", "pytest", "upload").out == ""
    assert cli("tools", "!!!").out == ""


def test_calls_of_one_message_are_separate(cli: CommandLine) -> None:
    assert [row[5] for row in cli("tools", "upload").rows] == ["Edit"]
    assert [row[5] for row in cli("tools", "path").rows] == ["Read", "Edit"]


def test_every_argument_is_printed(cli: CommandLine, store: Store) -> None:
    store.create_session("writer")
    write = {"type": "tool_use", "id": "w", "name": "Write", "input": {"file_path": "a.py", "content": "import os"}}
    store.append_message("writer", "assistant", [write])
    assert cli("tools", "--limit", "1").rows[0][-1] == "file_path: a.py content: import os"
    lines = cli("show", "writer").lines
    assert lines[lines.index("⚙ Write  file_path: a.py") + 1] == "    content: import os"


def test_continuation_lines_of_arguments_are_indented(cli: CommandLine, store: Store) -> None:
    store.create_session("writer")
    write = {"type": "tool_use", "id": "w", "name": "Write", "input": {"content": "import os\n\nos.sync()"}}
    store.append_message("writer", "assistant", [write])
    lines = cli("show", "writer").lines
    start = lines.index("⚙ Write  content: import os")
    assert [line.rstrip() for line in lines[start + 1 : start + 3]] == ["", "    os.sync()"]


def test_failed_tools_and_a_limit(cli: CommandLine) -> None:
    (row,) = cli("tools", "--failed").rows
    assert [row[0], row[1], row[3], row[5], row[6]] == [NAME, "1", "error", "Bash", "command: pytest -q"]
    assert len(cli("tools", "--limit", "2").lines) == 2


def test_a_list_names_sessions_with_hits_in_tool_output_only(cli: CommandLine, store: Store) -> None:
    session = store.create_session("tools-only")
    store.chains.append(session.key, make_call_entries(1, "Bash", "seahorse", 100))
    ran = cli("list", "seahorse")
    assert (ran.status, ran.out) == (0, "")
    assert ran.err == "1 session with the words in tool output only. Use --json or `backscroll search` to see them.\n"
    document = cli("list", "seahorse", "--json").json
    assert (document["sessions"], document["total"]) == ([], 0)
    assert [(hit["session"], hit["field"]) for hit in document["in_tool_output"]] == [("tools-only", "tool_result")]
    assert "in_tool_output" not in cli("list", "--json").json
