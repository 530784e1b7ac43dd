"""Tests that the example in docs/adding-a-source.md works as the page says, so that the page cannot become outdated."""

from __future__ import annotations

import re
import sys
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest
from command_line import CommandLine
from foreign_databases import sync_paths

from store import sources
from store.model.entry import ToolCall, ToolResult
from store.resume.command import plan_resume
from store.sources import Badge, SourceInfo
from store.store import Store

PAGE = Path(__file__).parents[2] / "docs/adding-a-source.md"


def read_block(language: str, containing: str) -> str:
    """Return the one code block of the page that contains these words."""
    blocks = re.findall(rf"^```{language}\n(.*?)^```$", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    (block,) = [block for block in blocks if containing in block]
    return str(block)


@pytest.fixture
def foo_home(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Register the page's source under the page's own registry line, and write the page's sample."""
    module = ModuleType("store.sources.foo")
    exec(compile(read_block("python", "class Foo"), str(PAGE), "exec"), vars(module))  # noqa: S102 our own page
    info = eval(read_block("python", "SourceInfo("), {"Badge": Badge, "SourceInfo": SourceInfo})  # noqa: S307 our own
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setitem(sources.REGISTRY, info.name, info)
    monkeypatch.setattr(sources, "SOURCE_NAMES", (*sources.SOURCE_NAMES, info.name))
    monkeypatch.setattr(sources, "_load", cache(sources._load.__wrapped__))
    folder = home / "elsewhere"
    path = folder / "sessions/2026/f3a1.jsonl"
    path.parent.mkdir(parents=True)
    path.write_text(read_block("jsonl", "foo_version"))
    monkeypatch.setenv("FOO_HOME", str(folder))
    return folder


def test_the_example_is_found_and_read(store: Store, foo_home: Path) -> None:
    (report,) = CommandLine(store.path)("sync", "--json").json["sources"]
    assert (report["source"], report["new"], report["problems"]) == ("foo", 1, [])
    (session,) = store.sessions.newest(10)
    assert (session.source, session.native_id, session.cwd) == ("foo", "f3a1", "/home/ada/shop")
    assert (session.turns, session.tool_calls, session.updated_at[:19]) == (1, 1, "2026-03-01T09:00:14")
    entries = [entry for entry in store.chains.entries(session.key) if entry.kind == "message"]
    assert [(entry.role, entry.text) for entry in entries] == [
        ("user", "Why does the total differ?"),
        ("assistant", "Let me look."),
        ("tool", ""),
        ("assistant", "The tax is missing in cart.py."),
    ]
    assert entries[1].parts[1:] == (ToolCall("c1", "bash", {"command": "grep -rn total ."}),)
    assert entries[2].parts == (ToolResult("c1", "cart.py:7: total = price"),)
    assert plan_resume(session).argv == ("foo", "--resume", "f3a1")


def test_the_example_notices_what_changed_and_reports_broken_lines(store: Store, foo_home: Path) -> None:
    assert sync_paths(store, foo_home).new == 1
    path = next(foo_home.rglob("*.jsonl"))
    path.write_text(path.read_text() + 'broken\n["no object"]\n{"who": "human", "text": 5}\n')
    report = sync_paths(store, foo_home)
    assert (report.new, report.updated, len(report.problems)) == (0, 1, 1)
    (session,) = store.sessions.newest(10)
    assert [entry.kind for entry in store.chains.entries(session.key)][-2:] == ["unknown", "message"]
    assert sync_paths(store, foo_home).unchanged == 1


def test_the_example_is_listed(store: Store, foo_home: Path) -> None:
    (foo,) = [
        kind
        for kind in CommandLine(store.path)("sources", "--all", "--json").json["sources"]
        if kind["source"] == "foo"
    ]
    assert foo == {
        "source": "foo",
        "label": "Foo CLI",
        "where": "~/.foo or $FOO_HOME",
        "resume": "foo --resume ID",
        "fork": False,
        "write_back": False,
    }


def test_the_example_is_about_thirty_lines() -> None:
    code = [line for line in read_block("python", "class Foo").splitlines() if line.strip()]
    assert len(code) <= 36
