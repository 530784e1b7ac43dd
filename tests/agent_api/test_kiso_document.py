"""Tests the fifth document, Database (Kiso): its five tables and what it says about each."""

from __future__ import annotations

from pathlib import Path

import pytest

from store.errors import NotFound, Refused
from store.store import Store

SECRET = "gh-5f2a-not-a-real-token"


@pytest.mark.parametrize(
    ("column", "value"), [("session", "discord:42"), ("webhook", "https://example.org/hook"), ("user", "marco")]
)
def test_sessions_column(store: Store, column: str, value: str) -> None:
    if column == "session":
        assert store.ensure_session(value).id == value
    else:
        assert getattr(store.ensure_session("discord:42", **{column: value}), column) == value  # type: ignore[arg-type]


def test_sessions_are_created_or_updated_on_every_message_and_the_latest_webhook_wins(store: Store) -> None:
    store.ensure_session("s", webhook="https://example.org/old")
    again = store.ensure_session("s", webhook="https://example.org/new")
    assert again.webhook == "https://example.org/new"
    assert store.ensure_session("s").webhook == "https://example.org/new"


def test_sessions_summary_is_a_rolling_text_overwritten_each_time(store: Store) -> None:
    session = store.ensure_session("s")
    assert store.summaries.current(session) is None
    store.set_summary("s", "first")
    store.set_summary("s", "second")
    current = store.summaries.current(session)
    assert current is not None
    assert current.text == "second"
    assert [summary.text for summary in store.summaries.history(session)] == ["second", "first"]


def test_messages_columns(store: Store) -> None:
    """id, session, user, role, content, timestamp; roles user, assistant, system; who said what in one session."""
    session = store.ensure_session("discord:42")
    for role, user, content in (
        ("user", "marco", "Deploy it."),
        ("user", "anna", "Wait."),
        ("assistant", "", "Waiting."),
        ("system", "", "The build is red."),
    ):
        store.append_message("discord:42", role, content, author=user)
    entries = store.chains.entries(session.key)[1:]
    assert [(entry.role, entry.author, entry.text) for entry in entries] == [
        ("user", "marco", "Deploy it."),
        ("user", "anna", "Wait."),
        ("assistant", "", "Waiting."),
        ("system", "", "The build is red."),
    ]
    assert all(entry.created_at.endswith("Z") for entry in entries)


def test_secrets_columns_and_unique_per_session_and_key(store: Store) -> None:
    """session, key, value, created_at; a second value for the key replaces the first."""
    store.ensure_session("a")
    store.ensure_session("b")
    store.set_secret("a", "GITHUB_TOKEN", "old")
    store.set_secret("a", "GITHUB_TOKEN", SECRET)
    store.set_secret("b", "GITHUB_TOKEN", "other")
    assert store.get_secret("a", "GITHUB_TOKEN") == SECRET
    assert store.get_secret("b", "GITHUB_TOKEN") == "other"
    names = store.secrets.names(store.get_session("a"))
    assert [(name.session_id, name.key) for name in names] == [("a", "GITHUB_TOKEN")]
    assert names[0].created_at.endswith("Z")
    with pytest.raises(NotFound):
        store.get_secret("a", "NOTHING")


def test_secrets_are_not_kept_as_they_were_given(store: Store) -> None:
    store.ensure_session("a")
    store.set_secret("a", "GITHUB_TOKEN", SECRET)
    store.checkpoint()
    for path in store.path.parent.glob("store.db*"):
        if path.is_file():
            assert SECRET.encode() not in path.read_bytes()


def test_meta_columns(store: Store) -> None:
    """key, value, updated_at."""
    store.meta.set("greeting", "hello")
    assert store.meta.get("greeting") == "hello"
    (at,) = store.row("select updated_at from meta where key = 'greeting'")
    assert at.endswith("Z")


def test_meta_facts_is_the_blob_of_shared_knowledge(store: Store) -> None:
    store.ensure_session("s")
    store.learn("Project uses FastAPI + SQLite.", session_id="s")
    store.learn("Team: marco (backend), anna (frontend).")
    assert store.meta.get("facts") == "Project uses FastAPI + SQLite.\nTeam: marco (backend), anna (frontend)."


def test_meta_facts_is_consolidated_when_it_exceeds_knowledge_max_lines(store: Store) -> None:
    store.learn("one\ntwo")
    learned = store.learn(
        "three",
        knowledge_max_lines=2,
        consolidate=lambda lines: "; ".join(lines),
    )
    assert store.meta.get("facts") == "one; two; three"
    assert not learned.over_limit


def test_published_columns_and_the_url_s_id_tells_nothing(store: Store, tmp_path: Path) -> None:
    """id, session, filename, path, created_at; `GET /pub/{id}` finds the file without the session's id."""
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "report.pdf").write_bytes(b"%PDF")
    store.ensure_session("discord:42", cwd=str(folder))
    published = store.publish("discord:42", "report.pdf")
    assert (published.session_id, published.filename) == ("discord:42", "report.pdf")
    assert "discord" not in published.id
    assert "42" not in published.id or len(published.id) >= 16
    assert store.resolve(published.id).read_bytes() == b"%PDF"
    assert store.publish("discord:42", "report.pdf").created_at.endswith("Z")


def test_published_path_stays_inside_the_session_s_folder(store: Store, tmp_path: Path) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    (tmp_path / "outside").write_text("no")
    store.ensure_session("s", cwd=str(folder))
    with pytest.raises(Refused):
        store.publish("s", "../outside")
