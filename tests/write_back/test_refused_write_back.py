"""Tests that a source which takes no edits back is named."""

from __future__ import annotations

from pathlib import Path

from command_line import CommandLine

from store.store import Store

GEMINI = Path(__file__).parents[1] / "data" / "gemini"


def test_an_agent_that_takes_nothing_back_is_named(store: Store) -> None:
    cli = CommandLine(store.path)
    assert cli("sync", str(GEMINI)).status in (0, 1)
    session = cli("list", "agent:gemini", "--json").json["sessions"][0]["id"]
    refused = cli("write-back", session, "--dry-run")
    assert refused.status == 3
    assert "Gemini CLI takes no edits back. They stay in Backscroll." in refused.err
