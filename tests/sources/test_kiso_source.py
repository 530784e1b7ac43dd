"""These tests read Kiso stores in every layout: messages, plans and tasks, facts, secrets and published files."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest
from kiso_database import (
    DOCUMENT_SCHEMA,
    FIRST_SCHEMA,
    LATEST_SCHEMA,
    UPGRADE_SQL,
    KisoStore,
    current_session,
    stored_entries,
)

from store.model.entry import Entry, Opaque, PairedCall, Text, Thinking, Tokens, ToolCall
from store.sources.contract import ForeignFile
from store.sources.kiso.source import Kiso
from store.sources.kit import sqlite
from store.store import Store

kiso = Kiso()

SECRET = "hunter2-is-not-shown"


@pytest.fixture
def agent(tmp_path: Path) -> KisoStore:
    agent = KisoStore(tmp_path / "kiso.db")
    agent.add_session()
    return agent


def role_and_text(entries: list[Entry]) -> list[tuple[str, str]]:
    return [(entry.role, entry.text) for entry in entries if entry.text]


def calls(store: Store) -> list[PairedCall]:
    return store.chains.tool_calls(current_session(store).key)


def record(store: Store, entry: Entry) -> dict[str, object]:
    assert entry.record is not None
    values: dict[str, object] = json.loads(store.records.get(entry.record))
    return values


# ── layouts ───────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("schema", [DOCUMENT_SCHEMA, FIRST_SCHEMA, FIRST_SCHEMA + UPGRADE_SQL, LATEST_SCHEMA])
def test_every_layout_is_detected_and_read(tmp_path: Path, store: Store, schema: str) -> None:
    agent = KisoStore(tmp_path / "any name.sqlite", schema)
    agent.add_session()
    agent.add_message("List the biggest log files")
    agent.add_message("a and b", "assistant")
    assert kiso.detect(str(agent.path))
    report = agent.sync(store)
    assert (report.source, report.seen, report.new, report.problems) == ("kiso", 1, 1, [])
    assert role_and_text(stored_entries(store)) == [("user", "List the biggest log files"), ("assistant", "a and b")]
    assert agent.sync(store).unchanged == 1


def test_another_program_s_sessions_are_not_taken_for_kiso_s(tmp_path: Path) -> None:
    other = tmp_path / "other.db"
    connection = sqlite3.connect(other)
    connection.execute("create table sessions (id text primary key, working_dir text)")
    connection.execute("create table messages (id integer primary key, session_id text, role text, content text)")
    connection.close()
    assert not kiso.detect(str(other))
    assert not kiso.detect(str(tmp_path / "nowhere.db"))


def test_a_table_of_another_design_is_left_alone(tmp_path: Path, store: Store) -> None:
    """An early design document gave tasks a message and no plan. No release of Kiso wrote them like that."""
    agent = KisoStore(tmp_path / "kiso.db", DOCUMENT_SCHEMA)
    agent.execute_script("create table tasks (id integer primary key, session text, message_id integer, goal text)")
    agent.add_session()
    agent.add_message("hi")
    agent.insert_row("tasks", session="dev", message_id=1, goal="greet")
    assert agent.sync(store).problems == []
    assert role_and_text(stored_entries(store)) == [("user", "hi")]


def test_the_fields_of_a_session(tmp_path: Path, store: Store) -> None:
    agent = KisoStore(tmp_path / "kiso.db")
    project = agent.insert_row("projects", name="garden", created_by="ana")
    hook = "https://hook.invalid/x"
    agent.add_session(
        connector="discord", webhook=hook, description="Discord room", summary="Logs.", project_id=project
    )
    agent.add_message("hi")
    agent.sync(store)
    session = current_session(store)
    assert (session.channel, session.webhook, session.title) == ("discord", hook, "Discord room")
    assert (session.environment_name, session.user) == ("garden", "ana")
    assert session.created_at == session.updated_at == "2026-03-01T10:00:00.000000Z"
    assert session.id.startswith("kiso:dev@")
    summary = store.summaries.current(session)
    assert summary is not None
    assert (summary.text, summary.origin, summary.up_to_turn) == ("Logs.", "source", None)


def test_a_session_without_a_row_is_read_from_its_messages(tmp_path: Path, store: Store) -> None:
    agent = KisoStore(tmp_path / "kiso.db")
    agent.add_message("still here", timestamp="2026-02-01 09:00:00")
    assert agent.sync(store).new == 1
    assert role_and_text(stored_entries(store)) == [("user", "still here")]
    assert current_session(store).created_at == "2026-02-01T09:00:00.000000Z"


def test_an_empty_session_is_shown(agent: KisoStore, store: Store) -> None:
    assert agent.sync(store).new == 1
    assert (current_session(store).turns, stored_entries(store)) == (0, [])


# ── messages ──────────────────────────────────────────────────────────────────────────────────────


def test_each_speaker_of_a_room_is_named(agent: KisoStore, store: Store) -> None:
    for user in ("anna", "marco", None):
        agent.add_message("hello", user=user)
    agent.sync(store)
    assert [entry.author for entry in stored_entries(store)] == ["anna", "marco", "unknown_user"]
    assert current_session(store).user == ""


def test_untrusted_messages_are_shown_and_marked_in_the_record(agent: KisoStore, store: Store) -> None:
    agent.add_message("hi bot", user="stranger", trusted=0)
    agent.add_message("hi", trusted=1)
    agent.sync(store)
    stranger, ana = stored_entries(store)
    assert (stranger.author, stranger.text, stranger.turn) == ("stranger", "hi bot", 1)
    assert (record(store, stranger)["trusted"], record(store, ana)["trusted"]) == (0, 1)


def test_a_scheduled_message_is_not_a_prompt(agent: KisoStore, store: Store) -> None:
    agent.add_message("hi")
    agent.add_message("nightly check", source="cron")
    agent.add_message("Cancelled.", "system")
    agent.sync(store)
    assert [entry.turn for entry in stored_entries(store)] == [1, 1, 1]
    assert current_session(store).turns == 1
    assert record(store, stored_entries(store)[1])["source"] == "cron"


def test_messages_are_in_the_order_of_their_ids(agent: KisoStore, store: Store) -> None:
    agent.add_message("second", id=20, timestamp="2026-03-01 09:00:00")
    agent.add_message("first", id=10, timestamp="2026-03-01 11:00:00")
    agent.sync(store)
    assert [entry.text for entry in stored_entries(store)] == ["first", "second"]


def test_a_role_that_kiso_never_had_is_kept_as_unknown(agent: KisoStore, store: Store) -> None:
    agent.add_message("beep", "oracle")
    agent.sync(store)
    assert [(entry.kind, entry.role, entry.text) for entry in stored_entries(store)] == [("unknown", "oracle", "beep")]


def test_content_that_is_not_text_is_read_as_text(agent: KisoStore, store: Store) -> None:
    agent.add_message(b"caf\xc3\xa9 \xff")
    assert agent.sync(store).problems == []
    assert stored_entries(store)[0].text == "café \ufffd"


# ── plans and tasks ───────────────────────────────────────────────────────────────────────────────


def test_plans_and_tasks_come_between_question_and_answer(agent: KisoStore, store: Store) -> None:
    question = agent.add_message("List the biggest log files")
    agent.add_message("a and b", "assistant")
    agent.add_message("thanks")
    plan = agent.add_plan(question, "Find big log files")
    agent.add_task(plan, "exec", "find large logs", command="du -a", output="95 b", stderr="a warning", duration_ms=70)
    agent.add_task(plan, "msg", "tell the user", output="a and b")
    agent.sync(store)
    entries = stored_entries(store)
    assert role_and_text(entries) == [
        ("user", "List the biggest log files"),
        ("assistant", "a and b"),
        ("user", "thanks"),
    ]
    assert entries[1].parts == (Thinking("Find big log files"),)
    (call,) = calls(store)
    assert (call.call_id, call.name, call.status, call.duration_ms) == ("task:1", "exec", "ok", 70)
    assert (call.arguments, call.result) == ({"command": "du -a", "detail": "find large logs"}, "95 b\na warning")
    assert (call.turn, call.entry) == (1, f"{current_session(store).id}#2")


def test_tools_are_named_as_each_version_names_them(tmp_path: Path, store: Store) -> None:
    agent = KisoStore(tmp_path / "kiso.db")
    agent.execute_script("alter table tasks add column skill text; alter table tasks add column wrapper text")
    agent.add_session()
    plan = agent.add_plan(agent.add_message("go"), "goal")
    agent.add_task(plan, "mcp", "read it", server="files", method="read", args='{"path": "/etc"}')
    agent.add_task(plan, "skill", "draw it", skill="painter", args="{}")
    agent.add_task(plan, "wrapper", "browse it", wrapper="browser")
    agent.add_task(plan, "search", "kiso")
    agent.add_task(plan, "mcp", "lost its name")
    agent.sync(store)
    assert [call.name for call in calls(store)] == ["files.read", "painter", "browser", "search", "mcp"]
    assert calls(store)[0].arguments == {"detail": "read it", "args": {"path": "/etc"}}
    assert calls(store)[1].arguments == {"detail": "draw it"}


def test_what_failed_or_was_called_off_is_an_error(agent: KisoStore, store: Store) -> None:
    plan = agent.add_plan(agent.add_message("go"), "goal", "failed")
    agent.add_task(plan, "exec", "try", "failed", stderr="no such file")
    agent.add_task(plan, "exec", "then", "cancelled")
    agent.add_task(plan, "exec", "never begun", "pending")
    agent.sync(store)
    assert [(call.status, call.result) for call in calls(store)] == [
        ("error", "no such file"),
        ("error", "cancelled"),
        ("pending", None),
    ]
    assert (current_session(store).tool_calls, current_session(store).errors) == (3, 2)


def test_a_reply_that_only_a_task_contains_is_read(agent: KisoStore, store: Store) -> None:
    """It depends on the version whether a planned reply is repeated among the messages."""
    plan = agent.add_plan(agent.add_message("hi"), "greet")
    agent.add_task(plan, "msg", "greet them", output="hello")
    agent.sync(store)
    assert role_and_text(stored_entries(store)) == [("user", "hi"), ("assistant", "hello")]
    assert calls(store) == []


def test_equal_replies_are_read_as_often_as_they_occur(agent: KisoStore, store: Store) -> None:
    for _ in range(2):
        plan = agent.add_plan(agent.add_message("again"), "greet")
        agent.add_message("hello", "assistant")
        agent.add_task(plan, "msg", "greet them", output="hello")
    agent.add_message("hello", "assistant")
    agent.sync(store)
    assert [text for _, text in role_and_text(stored_entries(store))] == ["again", "hello", "again", "hello", "hello"]


def test_a_message_before_the_question_is_not_its_answer(agent: KisoStore, store: Store) -> None:
    agent.add_message("hello", "assistant")
    plan = agent.add_plan(agent.add_message("hi"), "greet")
    agent.add_task(plan, "msg", "greet them", output="hello")
    agent.sync(store)
    assert [text for _, text in role_and_text(stored_entries(store))] == ["hello", "hi", "hello"]
    assert record(store, stored_entries(store)[-1])["plan_id"] == plan


def test_a_new_plan_for_the_same_message_follows_its_announcement(agent: KisoStore, store: Store) -> None:
    question = agent.add_message("List the logs")
    first = agent.add_plan(question, "look here", "failed")
    agent.add_task(first, "exec", "here", "failed", output="nothing")
    agent.add_task(first, "replan", "look elsewhere", output="Replan requested by planner")
    agent.add_task(first, "msg", "word", output="Replanning (attempt 1/3)")
    agent.add_message("Replanning (attempt 1/3)", "system")
    second = agent.add_plan(question, "look there", parent_id=first)
    agent.add_task(second, "exec", "there", output="found")
    agent.add_task(second, "msg", "tell", output="It is there.")
    agent.add_message("It is there.", "assistant")
    agent.sync(store)
    texts = [entry.text or type(entry.parts[0]).__name__ for entry in stored_entries(store)]
    assert texts == [
        "List the logs",
        "Thinking",
        "ToolCall",
        "replan: look elsewhere",
        "Replanning (attempt 1/3)",
        "Thinking",
        "ToolCall",
        "It is there.",
    ]
    assert [entry.kind for entry in stored_entries(store)].count("event") == 1
    assert len(calls(store)) == 2


def test_a_reply_that_was_never_written_is_an_event(agent: KisoStore, store: Store) -> None:
    plan = agent.add_plan(agent.add_message("hi"), "greet", "failed")
    agent.add_task(plan, "msg", "greet them", "failed", output="the model is away")
    agent.sync(store)
    assert [(entry.kind, entry.text) for entry in stored_entries(store)][-1] == (
        "event",
        "reply failed: the model is away",
    )


def test_a_task_of_an_unknown_type_is_kept(agent: KisoStore, store: Store) -> None:
    plan = agent.add_plan(agent.add_message("hi"), "dance")
    agent.add_task(plan, "dance", "a waltz", output="danced")
    agent.sync(store)
    last = stored_entries(store)[-1]
    assert (last.kind, last.parts) == ("unknown", (Opaque("dance", {"detail": "a waltz", "output": "danced"}),))


def test_plans_and_tasks_without_their_message_or_plan_are_read(agent: KisoStore, store: Store) -> None:
    agent.add_message("first", id=1)
    agent.add_message("third", id=5)
    plan = agent.add_plan(3, "of a message that is gone")
    agent.add_task(plan, "exec", "run", command="ls")
    agent.add_task(99, "exec", "of a plan that is gone", command="pwd")
    assert agent.sync(store).problems == []
    first, goal, run, orphan, third = stored_entries(store)
    assert (first.text, third.text) == ("first", "third")
    assert goal.parts == (Thinking("of a message that is gone"),)
    assert [type(entry.parts[0]) for entry in (run, orphan)] == [ToolCall, ToolCall]


def test_tokens_are_counted_once_and_thoughts_shown(agent: KisoStore, store: Store) -> None:
    def call(role: str, asked: int, answered: int, thinking: str = "") -> dict[str, object]:
        model = f"{role}-1"
        return {"role": role, "model": model, "input_tokens": asked, "output_tokens": answered, "thinking": thinking}

    planning = json.dumps([call("classifier", 5, 1), call("planner", 100, 10, "two steps")])
    working = json.dumps([call("worker", 20, 2, "du will do"), call("reviewer", 30, 3, "looks right")])
    plan = agent.add_plan(agent.add_message("go"), "goal", total_input_tokens=400, llm_calls=planning, model="other")
    agent.add_task(plan, "exec", "run", input_tokens=50, output_tokens=5, llm_calls=working)
    agent.add_task(plan, "msg", "tell", output="done", input_tokens=7, output_tokens=4)
    agent.add_message("done", "assistant")
    agent.sync(store)
    _, goal, run, reply = stored_entries(store)
    assert (goal.tokens, run.tokens, reply.tokens) == (Tokens(105, 11), Tokens(50, 5), Tokens(7, 4))
    assert (goal.model, run.model, current_session(store).tokens_total) == ("planner-1", "worker-1", 182)
    assert goal.parts == (Thinking("two steps"), Thinking("goal"))
    assert run.parts[0] == Thinking("du will do")
    assert reply.parts == (Text("done"),)


def test_a_plan_without_its_calls_counts_what_its_tasks_do_not(agent: KisoStore, store: Store) -> None:
    plan = agent.add_plan(agent.add_message("go"), "goal", total_input_tokens=400, total_output_tokens=9)
    agent.add_task(plan, "exec", "run", input_tokens=150, output_tokens=9)
    agent.sync(store)
    assert [entry.tokens for entry in stored_entries(store)] == [None, Tokens(250, 0), Tokens(150, 9)]


def test_a_bad_row_is_one_problem_and_the_other_rows_are_read(agent: KisoStore, store: Store) -> None:
    plan = agent.add_plan(agent.add_message("go"), "goal")
    agent.add_task(plan, "mcp", "cut", server="s", method="m", args='{"path": "/et')
    agent.add_task(plan, "exec", "deep", args="[" * 300 + "]" * 300)
    agent.add_task(plan, "exec", "run", llm_calls="[{]", command="ls")
    agent.add_message("nobody's", session=b"\xff")
    report = agent.sync(store)
    assert [problem.where for problem in report.problems] == ["messages:2", "tasks:1", "tasks:2", "tasks:3"]
    assert calls(store)[0].arguments == {"detail": "cut", "args": '{"path": "/et'}
    assert calls(store)[2].arguments == {"detail": "run", "command": "ls"}


# ── facts, secrets, files ─────────────────────────────────────────────────────────────────────────


def test_a_fact_has_the_scope_that_kiso_gives_it(agent: KisoStore, store: Store) -> None:
    project = agent.insert_row("projects", name="garden", created_by="ana")
    agent.insert_row("facts", content="Logs live in /var/log", source="curator", session="dev")
    agent.insert_row("facts", content="Ana likes tea", source="curator", session="dev", category="user")
    agent.insert_row("facts", content="Roses are in bed 3", source="manual", category="project", project_id=project)
    agent.insert_row("facts", content="Somebody sings", source="curator", session="gone", category="user")
    agent.sync(store)
    logs, tea, roses, song = store.facts.current(None)
    session = current_session(store)
    assert logs.scope.startswith("source:kiso:")
    assert (logs.category, logs.session_id) == ("general", session.id)
    assert (tea.scope, tea.category) == (f"session:{session.id}", "user")
    assert roses.scope.startswith("app:garden@")
    assert song.scope.startswith("user:kiso/unknown_user@")


def test_a_fact_of_the_first_version_only_says_where_it_was_learned(tmp_path: Path, store: Store) -> None:
    agent = KisoStore(tmp_path / "kiso.db", FIRST_SCHEMA)
    agent.add_session()
    agent.insert_row("facts", content="Logs live in /var/log", source="curator", session="dev")
    agent.sync(store)
    (fact,) = store.facts.current(None)
    assert (fact.scope.partition(":")[0], fact.category, fact.session_id) == ("source", "", current_session(store).id)


def test_each_line_of_the_document_s_facts_is_one_fact(tmp_path: Path, store: Store) -> None:
    agent = KisoStore(tmp_path / "kiso.db", DOCUMENT_SCHEMA)
    agent.insert_row("meta", key="facts", value="Uses FastAPI.\n\nTeam: marco, anna.\nUses FastAPI.\n")
    agent.sync(store)
    uses, team = store.facts.current(None)
    assert (uses.text, team.text) == ("Uses FastAPI.", "Team: marco, anna.")
    store.facts.edit(team.id, "Team: marco and anna.")
    agent.execute("update meta set value = 'New first line.\nTeam: marco, anna.' where key = 'facts'")
    agent.sync(store)
    assert [fact.text for fact in store.facts.current(None)] == ["Team: marco and anna.", "New first line."]


def test_other_keys_of_meta_are_facts_of_the_store_with_the_key_as_category(tmp_path: Path, store: Store) -> None:
    agent = KisoStore(tmp_path / "kiso.db", DOCUMENT_SCHEMA)
    rows = {"timezone": "Europe/Rome", "facts": "Uses FastAPI.", "a:b/%": "one\ntwo", "empty": " \n"}
    for key, value in rows.items():
        agent.insert_row("meta", key=key, value=value)
    agent.sync(store)
    facts = store.facts.current(None)
    assert {fact.scope.partition(":")[0] for fact in facts} == {"source"}
    assert [(fact.category, fact.text) for fact in facts] == [
        ("", "Uses FastAPI."),
        ("a:b/%", "one"),
        ("a:b/%", "two"),
        ("timezone", "Europe/Rome"),
    ]
    agent.execute("update meta set value = 'Europe/Paris' where key = 'timezone'")
    agent.sync(store)
    assert [fact.text for fact in store.facts.current(None) if fact.category == "timezone"] == ["Europe/Paris"]


def test_only_the_name_of_a_secret_is_read(tmp_path: Path, store: Store) -> None:
    agent = KisoStore(tmp_path / "kiso.db", DOCUMENT_SCHEMA)
    agent.add_session()
    agent.insert_row("secrets", session="dev", key="api_token", value=SECRET)
    agent.sync(store)
    rows = store.rows("select key, place from foreign_secrets")
    assert rows == [("api_token", "secrets:1")]
    store.close()
    assert all(SECRET.encode() not in file.read_bytes() for file in tmp_path.glob("store.db*"))


def test_published_files_are_read(tmp_path: Path) -> None:
    agent = KisoStore(tmp_path / "kiso.db", FIRST_SCHEMA)
    agent.insert_row(
        "published", id="x9", session="dev", filename="plot.png", path="/pub/plot.png", created_at="2026-02-20"
    )
    with kiso.open(str(agent.path)) as reader:
        (file,) = reader.published()
    assert file == ForeignFile("x9", "dev", "plot.png", "/pub/plot.png", sqlite.normalize_time("2026-02-20"))


# ── roots and resume ──────────────────────────────────────────────────────────────────────────────


def test_every_instance_is_found(home: Path, store: Store) -> None:
    for path in ("instances/office/store.db", "instances/lab/store.db", "store.db"):
        KisoStore(home / ".kiso" / path).add_session()
    paths = [Path(root).relative_to(home / ".kiso").as_posix() for root in kiso.roots()]
    assert paths == ["instances/lab/store.db", "instances/office/store.db", "store.db"]


@pytest.mark.parametrize(
    ("path", "session", "argv"),
    [
        ("store.db", "box@ana", ("kiso", "--session", "box@ana")),
        ("instances/office/store.db", "dev", ("kiso", "--instance", "office", "--session", "dev")),
        ("store.db", "--help", ("kiso", "--session=--help")),
    ],
)
def test_a_session_is_resumed_in_its_own_instance(
    home: Path, store: Store, path: str, session: str, argv: tuple[str, ...]
) -> None:
    agent = KisoStore(home / ".kiso" / path)
    agent.add_session(session)
    agent.sync(store)
    assert kiso.resume(current_session(store, session)).argv == argv
