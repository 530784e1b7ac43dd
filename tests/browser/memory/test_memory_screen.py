"""Tests the memory screen: scopes, lines with the agents that load them, blame, sharing, proposals and live changes."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from screen_driver import NARROW, WIDE, ScreenDriver, open_screen
from textual.events import MouseMove
from textual.geometry import Offset
from textual.widgets import Input

from store.agent_api.past.past import Past
from store.model.memory import Audience
from store.store import Store
from tui.render.memory_lines import format_audiences
from tui.screens.facts import FactsScreen
from tui.screens.memory import MemoryScreen


def now() -> datetime:
    return datetime(2026, 3, 2, tzinfo=UTC)


@pytest.fixture
def project(store: Store, home: Path) -> Path:
    """Provide a project with memory files, a session that wrote one of the lines, a fact and a proposal."""
    folder = home / "app"
    (folder / ".git").mkdir(parents=True)
    (folder / "CLAUDE.md").write_text("# App\n- Run the linter first.\n- By a person\n")
    (home / ".claude").mkdir()
    (home / ".claude/CLAUDE.md").write_text("- Keep answers short.\n")
    store.create_session("s1", source="claude", cwd=str(folder), agent_title="Set up the linter")
    store.append_message("s1", "user", "Remember the linter")
    edit = {
        "file_path": "CLAUDE.md",
        "old_string": "- Run the formatter first.",
        "new_string": "- Run the linter first.",
    }
    store.append_message("s1", "assistant", [{"type": "tool_use", "id": "c1", "name": "Edit", "input": edit}])
    store.append_message("s1", "user", [{"type": "tool_result", "tool_use_id": "c1", "content": "ok"}])
    store.facts.learn("Staging is on port 8443.")
    Past(store, agent="claude-code").propose_fact("The linter is ruff.", reason="said so", session="s1", turn=1)
    return folder


@pytest.mark.parametrize("size", [WIDE, NARROW])
async def test_scopes_lines_and_agents_are_listed(store: Store, project: Path, size: tuple[int, int]) -> None:
    async with open_screen(store, MemoryScreen(store, now), size) as one:
        await one.wait_for_text("Everything", "Proposals", "Facts, global", "~/app", "The linter is ruff.")
        await one.wait_for_text("Staging is on port 8443.", "Keep answers short.", "By a person", "CLAUDE.md:2")
        assert "cc cp" in one.text


async def test_a_line_is_traced_to_its_turn_and_g_goes_there(store: Store, project: Path) -> None:
    async with open_screen(store, MemoryScreen(store, now)) as one:
        await one.wait_for_text("Run the linter first.")
        await one.press("j", "j", "j")
        await one.wait_for_text(
            "Written by Claude Code in turn 1 of Set up the linter", "Before: Run the formatter first."
        )
        await one.wait_for_text("Used in no session since")
        await one.press("j")
        await one.wait_for_text("by hand, as far as the store knows")
        await one.press("g")
        await one.wait_for_text("No turn is known")
        await one.press("k")
        await one.wait_for_text("Written by Claude Code")
        await one.press("g")
        await one.wait_until(lambda: one.results == ["s1#1"])


async def test_a_change_outside_appears_by_itself(store: Store, project: Path) -> None:
    async with open_screen(store, MemoryScreen(store, now)) as one:
        await one.wait_for_text("By a person")
        with (project / "CLAUDE.md").open("a") as file:
            file.write("- Written meanwhile\n")
        await one.wait_for_text("Written meanwhile")
        (project / "AGENTS.md").write_text("- In a new file\n")
        await one.wait_for_text("In a new file")


async def test_a_scope_and_a_filter_choose_lines(store: Store, project: Path) -> None:
    async with open_screen(store, MemoryScreen(store, now)) as one:
        await one.wait_for_text("By a person")
        await one.press("tab", *["down"] * 4)
        await one.wait_until(lambda: "Keep answers short." not in one.text)
        assert "By a person" in one.text
        await one.press("end")
        await one.wait_for_text("Nothing is only here. Drag a fact or a line onto this scope to share it.")
        await one.press("home", "slash", *"short")
        await one.wait_until(lambda: "By a person" not in one.text)
        assert "Keep answers short." in one.text


async def test_a_fact_is_shared_pushed_and_undone(store: Store, project: Path) -> None:
    async with open_screen(store, MemoryScreen(store, now)) as one:
        await one.wait_for_text("Staging is on port 8443.")
        await one.press("j")
        await one.wait_for_text("No agent gets it.")
        await one.press("S")
        await one.wait_for_text("Which agents get this fact?", "everywhere on this machine", "Shared with no agent.")
        await one.press("right")
        await one.wait_for_text("in ~/app and below")
        await one.press("down", "down", "space")
        await one.wait_for_text("Shared with Codex in ~/app")
        await one.press("enter")
        await one.wait_for_text("fact 1 → codex in ~/app", "P writes it into their files")
        await one.press("P")
        await one.wait_for_text("~/app/AGENTS.md  new", "+ - Staging is on port 8443.")
        await one.press("y")
        await one.wait_for_text("AGENTS.md:2")
        await one.wait_until(lambda: "8443" in (project / "AGENTS.md").read_text())
        await one.press("u")
        await one.wait_until(lambda: not (project / "AGENTS.md").exists())


async def test_an_audience_is_toggled_with_the_mouse_and_escape_changes_nothing(store: Store, project: Path) -> None:
    store.shared_facts.share([1], Audience("codex"))
    async with open_screen(store, MemoryScreen(store, now)) as one:
        await one.wait_for_text("Staging is on port 8443.")
        await one.press("j", "S")
        await one.wait_for_text("Shared with Codex everywhere")
        await one.pilot.click("AudienceTable", offset=(5, 2))
        await one.wait_for_text("Shared with no agent.")
        await one.pilot.click("FolderLine", offset=(2, 0))
        await one.wait_for_text("in ~/app and below")
        await one.press("escape")
        await one.wait_for_text("Nothing changed.")
        assert store.shared_facts.audiences() == {1: [Audience("codex")]}


async def drag(one: ScreenDriver, row: str, group: str) -> None:
    """Drag the row with a text onto the scope with a name, with the mouse."""
    lines = one.text.splitlines()
    start = Offset(60, next(n for n, line in enumerate(lines) if row in line[36:]))
    end = Offset(10, next(n for n, line in enumerate(lines) if group in line[:36]))
    await one.pilot.mouse_down(offset=start)
    for at in (Offset(50, start.y), end):
        await one.pilot._post_mouse_events([MouseMove], None, at, button=1)
    await one.pilot.mouse_up(offset=end)


async def test_facts_and_lines_are_dragged_onto_agents_and_folders(store: Store, project: Path, home: Path) -> None:
    (home / ".codex").mkdir()
    async with open_screen(store, MemoryScreen(store, now)) as one:
        await one.wait_for_text("By a person", "Codex")
        await drag(one, "Staging is on port 8443.", "Codex")
        await one.wait_for_text("Shared with Codex everywhere.", "fact 1 → codex")
        await drag(one, "By a person", "All agents")
        await one.wait_for_text("Shared with all agents everywhere.", "fact 2 → all")
        await drag(one, "Staging is on port 8443.", "~/app")
        await one.wait_for_text("fact 1 → codex, all in ~/app")
        assert store.shared_facts.audiences() == {
            1: [Audience("codex"), Audience("", str(project))],
            2: [Audience()],
        }
        await drag(one, "The linter is ruff.", "Codex")
        await one.wait_for_text("Drop a fact or a line on an agent or a folder")
        await drag(one, "Staging is on port 8443.", "Everything")
        await one.press("u")
        await one.wait_until(lambda: store.shared_facts.audiences()[1] == [Audience("codex")])


@pytest.mark.parametrize("size", [WIDE, NARROW])
async def test_different_values_of_a_key_are_merged(
    store: Store, project: Path, home: Path, size: tuple[int, int]
) -> None:
    (home / ".claude/CLAUDE.md").write_text("- Port: 1\n")
    (project / "CLAUDE.md").write_text("- Port: 2\n")
    async with open_screen(store, MemoryScreen(store, now), size) as one:
        await one.wait_for_text("Port: 2")
        await one.press("end")
        await one.wait_for_text("Differs from ~/.claude/CLAUDE.md:1.")
        await one.press("m")
        await one.wait_for_text("port has 2 different values in ~/app", "Port: 1", "~/.claude/CLAUDE.md:1")
        await one.press("right", "e")
        await one.wait_for_text("Write another text")
        one.pilot.app.screen.query_one(Input).value = "Port: 3"
        await one.press("enter")
        await one.wait_for_text("− - Port: 2", "+ - Port: 3")
        await one.press("y")
        await one.wait_until(lambda: (project / "CLAUDE.md").read_text() == "- Port: 3\n")
        assert (home / ".claude/CLAUDE.md").read_text() == "- Port: 3\n"
        await one.press("u")
        await one.wait_until(lambda: (project / "CLAUDE.md").read_text() == "- Port: 2\n")
        await one.wait_for_text("Differs from")
        await one.press("m", "1", "y")
        await one.wait_until(lambda: (project / "CLAUDE.md").read_text() == "- Port: 1\n")


async def test_facts_are_shared_from_the_screen_of_facts(store: Store, project: Path) -> None:
    store.facts.learn("Second")
    async with open_screen(store, FactsScreen(store, now), NARROW) as one:
        await one.wait_for_text("Staging is on port 8443.", "M Memory files")
        await one.press("space", "space", "S")
        await one.wait_for_text("2 facts", "Shared with no agent.")
        await one.press("space", "enter")
        await one.wait_until(lambda: store.shared_facts.audiences() == {1: [Audience()], 2: [Audience()]})


async def test_edits_by_hand_are_pulled(store: Store, project: Path) -> None:
    store.shared_facts.share([1], Audience("codex", str(project)))
    store.shared_facts.push(store.shared_facts.plan_push())
    path = project / "AGENTS.md"
    path.write_text(path.read_text().replace("8443", "9100"))
    async with open_screen(store, MemoryScreen(store, now)) as one:
        await one.wait_for_text("Staging is on port 9100.")
        await one.press("P")
        await one.wait_for_text("was edited by hand")
        await one.press("escape", "L")
        await one.wait_for_text("+ Staging is on port 9100.")
        await one.press("y")
        await one.wait_until(lambda: store.facts.get(1).text == "Staging is on port 9100.")


@pytest.mark.parametrize(("key", "text"), [("h", "Staging is gone."), ("t", "Staging is on port 9100.")])
async def test_what_was_edited_here_and_there_is_decided(store: Store, project: Path, key: str, text: str) -> None:
    store.shared_facts.share([1], Audience("codex", str(project)))
    store.shared_facts.push(store.shared_facts.plan_push())
    path = project / "AGENTS.md"
    path.write_text(path.read_text().replace("8443", "9100"))
    store.facts.edit(1, "Staging is gone.")
    async with open_screen(store, MemoryScreen(store, now), NARROW) as one:
        await one.wait_for_text("Staging is gone.")
        await one.press("L")
        await one.wait_for_text("here:  Staging is gone.", "there: Staging is on port 9100.", "Press h to keep")
        await one.press("y", key)
        await one.wait_for_text("Pulled.")
        assert store.facts.get(1).text == text
        assert store.shared_facts.plan_pull().edits == ()


async def test_proposals_are_accepted_edited_and_rejected(store: Store, project: Path) -> None:
    Past(store).propose_fact("Second")
    Past(store).propose_fact("Third")
    async with open_screen(store, MemoryScreen(store, now)) as one:
        await one.wait_for_text("Proposed by claude-code", "Reason: said so", "Proof: s1, turn 1")
        assert " ago" not in one.text  # a date is no age
        await one.press("y")
        await one.wait_until(lambda: [fact.text for fact in store.facts.current()][-1] == "The linter is ruff.")
        await one.wait_for_text("Proposed by an agent")
        await one.press("x")
        await one.wait_until(lambda: [proposal.text for proposal in store.proposals.waiting()] == ["Third"])
        await one.wait_until(lambda: "Second" not in one.text)
        await one.press("e")
        await one.wait_for_text("Accept as a fact")
        await one.press("ctrl+s")
        await one.wait_until(lambda: store.proposals.waiting() == [])


async def test_it_opens_from_the_facts_and_g_leaves_both(store: Store, project: Path) -> None:
    async with open_screen(store, FactsScreen(store, now)) as one:
        await one.wait_for_text("Staging is on port 8443.")
        await one.press("M")
        await one.wait_for_text("The linter is ruff.")
        await one.press("g")
        await one.wait_until(lambda: one.results == ["s1#0"])


async def test_a_line_is_saved_as_a_fact(store: Store, project: Path) -> None:
    async with open_screen(store, MemoryScreen(store, now)) as one:
        await one.wait_for_text("By a person")
        await one.press("end", "plus")
        await one.wait_for_text("Save as a fact")
        await one.press("ctrl+s")
        await one.wait_until(lambda: [fact.text for fact in store.facts.current()][-1] == "By a person")
        await one.press("plus", "ctrl+s")
        await one.wait_for_text("This fact already exists")


async def test_the_budget_of_a_folder_is_shown(store: Store, project: Path, home: Path) -> None:
    (home / ".claude/CLAUDE.md").write_text("- Keep answers short.\n- Run the linter first.\n- Port: 1\n")
    (project / "CLAUDE.md").write_text("- Run the linter first.\n- Port: 2\n")
    async with open_screen(store, MemoryScreen(store, now)) as one:
        await one.wait_for_text("Port: 2")
        await one.press("end", "B")
        await one.wait_for_text("What agents load in ~/app", "about", "tokens at the start")
        await one.wait_for_text("twice  Run the linter first.", "differs  port", "~/app/CLAUDE.md:2  Port: 2")


async def test_without_anything_it_says_so(store: Store) -> None:
    async with open_screen(store, MemoryScreen(store, now)) as one:
        await one.wait_for_text("No memory files such as CLAUDE.md, facts or proposals here yet.")
        await one.press("P")
        await one.wait_for_text("Nothing to push.")


def test_audiences_are_described_in_few_words(home: Path) -> None:
    audiences = [Audience("codex"), Audience("", f"{home}/app"), Audience("gemini", "/srv/a in b")]
    assert format_audiences(audiences) == "codex, all in ~/app, gemini in /srv/a in b"
