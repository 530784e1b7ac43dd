"""Checks which memory files each agent loads in a folder, in which order, and how much of them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from store.memory.context import estimate_tokens
from store.memory.rules import AGENTS
from store.model.memory import AgentBudget, LoadedFile
from store.store import Store


@pytest.fixture
def repository(home: Path) -> Path:
    folder = home / "code/app"
    (folder / ".git").mkdir(parents=True)
    (folder / "web").mkdir()
    return folder


def write(path: Path, text: str = "text\n") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def budget(store: Store, agent: str, folder: Path) -> AgentBudget:
    found = store.memory_files.budget(folder, [agent]).agents
    return found[0] if found else AgentBudget(agent, ())


def names(budget: AgentBudget, home: Path) -> list[tuple[str, str]]:
    return [(file.path.removeprefix(str(home) + "/"), file.when) for file in budget.files]


def find(budget: AgentBudget, name: str) -> LoadedFile:
    return next(file for file in budget.files if file.path.endswith(name))


def test_claude_code_loads_from_the_user_to_the_folder_and_then_its_own_notes(
    store: Store, home: Path, repository: Path
) -> None:
    write(home / ".claude/CLAUDE.md")
    write(home / ".claude/rules/style.md")
    write(repository / "CLAUDE.md")
    write(repository / ".claude/CLAUDE.md")
    write(repository / ".claude/rules/api.md", "---\npaths: api/**\n---\n- rule\n")
    write(repository / "web/CLAUDE.md")
    write(repository / "web/deep/CLAUDE.md")
    write(repository / "CLAUDE.local.md")
    project = home / ".claude/projects" / str(repository).replace("/", "-").replace("_", "-").replace(".", "-")
    write(project / "memory/MEMORY.md", "- line\n" * 300)
    write(project / "memory/debugging.md")
    found = budget(store, "claude", repository / "web")
    assert [(name, when) for name, when in names(found, home) if "projects" not in name] == [
        (".claude/CLAUDE.md", "start"),
        (".claude/rules/style.md", "start"),
        ("code/app/CLAUDE.md", "start"),
        ("code/app/.claude/CLAUDE.md", "start"),
        ("code/app/.claude/rules/api.md", "on demand"),
        ("code/app/CLAUDE.local.md", "start"),
        ("code/app/web/CLAUDE.md", "start"),
        ("code/app/web/deep/CLAUDE.md", "on demand"),
    ]
    notes = find(found, "memory/MEMORY.md")
    assert (notes.bytes, notes.cut_bytes, notes.reason) == (1400, 700, "Only the first 200 lines are loaded.")
    assert find(found, "debugging.md").when == "on demand"
    assert found.tokens == sum(file.tokens for file in found.files if file.when == "start")


def test_imports_are_followed_four_levels_and_not_in_circles(store: Store, home: Path, repository: Path) -> None:
    write(repository / "CLAUDE.md", "See @docs/1.md and @nothing.md and @/etc/hostname.\n")
    for level in range(1, 8):
        write(repository / f"docs/{level}.md", f"@{level + 1}.md\n@../CLAUDE.md\n")
    found = budget(store, "claude", repository)
    assert [(Path(file.path).name, file.when) for file in found.files] == [
        ("CLAUDE.md", "start"),
        *((f"{level}.md", "start") for level in range(1, 5)),
        ("5.md", "not loaded"),
    ]
    assert find(found, "1.md").imported_by == str(repository / "CLAUDE.md")
    assert find(found, "5.md").reason == "It is imported more than 4 levels deep."


def test_an_import_from_outside_is_not_read(store: Store, tmp_path: Path, repository: Path) -> None:
    outside = write(tmp_path / "private.txt", "- a secret\n")
    write(repository / "CLAUDE.md", f"@{outside}\n")
    found = store.memory_files.budget(repository, ["claude"])
    imported = find(found.agents[0], "private.txt")
    assert (imported.when, imported.tokens) == ("not loaded", 0)
    listed = store.memory_files.list_files([repository], ["claude"])
    assert "a secret" not in str(listed)


def test_codex_loads_one_file_of_each_folder_up_to_its_limit(store: Store, home: Path, repository: Path) -> None:
    write(home / ".codex/AGENTS.md")
    write(home / ".codex/AGENTS.override.md", "")
    write(home / ".codex/config.toml", 'project_doc_max_bytes = 100\nproject_doc_fallback_filenames = ["TEAM.md"]\n')
    write(home / ".codex/memories/memory_summary.md")
    write(repository / "AGENTS.md", "- " + "x" * 70 + "\n")
    write(repository / "TEAM.md")
    write(repository / "web/TEAM.md", "- " + "y" * 70 + "\n- more\n")
    found = budget(store, "codex", repository / "web")
    assert names(found, home) == [
        (".codex/memories/memory_summary.md", "not loaded"),
        (".codex/AGENTS.override.md", "start"),
        (".codex/AGENTS.md", "start"),
        ("code/app/AGENTS.md", "start"),
        ("code/app/TEAM.md", "not loaded"),
        ("code/app/web/TEAM.md", "start"),
    ]
    last = find(found, "web/TEAM.md")
    assert (last.bytes, last.cut_bytes) == (27, 53)
    assert last.reason == "The limit of 100 bytes for all files of a project is reached."
    write(home / ".codex/config.toml", "[features]\nmemories = true\n")
    assert find(budget(store, "codex", repository), "memory_summary.md").when == "start"
    write(home / ".codex/config.toml", "[features]\nmemories = true\n[memories]\nuse_memories = false\n")
    assert find(budget(store, "codex", repository), "memory_summary.md").when == "not loaded"
    write(repository / "AGENTS.override.md", "")
    assert find(budget(store, "codex", repository), "app/AGENTS.md").when == "not loaded"


@pytest.mark.parametrize("name", ["CLAUDE.md", ".claude/CLAUDE.md", "CLAUDE.local.md"])
def test_claude_code_loads_agents_md_only_without_a_claude_md(
    store: Store, home: Path, repository: Path, name: str
) -> None:
    write(home / ".claude/CLAUDE.md")
    write(repository / "AGENTS.md")
    write(repository / "web/.claude/AGENTS.md")
    write(repository / name, "\n")
    found = [file for file, _ in names(budget(store, "claude", repository / "web"), home) if "AGENTS" in file]
    assert found == ["code/app/AGENTS.md", "code/app/web/.claude/AGENTS.md"]
    write(repository / name)
    assert "AGENTS" not in str(names(budget(store, "claude", repository / "web"), home))


def test_settings_of_claude_code_exclude_files_and_notes(store: Store, home: Path, repository: Path) -> None:
    write(repository / "CLAUDE.md")
    notes = write(home / ".claude/projects" / re.sub("[^A-Za-z0-9]", "-", str(repository)) / "memory/MEMORY.md")
    assert find(budget(store, "claude", repository), notes.name).when == "start"
    write(repository / ".claude/settings.local.json", '{"autoMemoryEnabled": false}')
    write(home / ".claude/settings.json", json.dumps({"claudeMdExcludes": ["**/app/CLAUDE.md"]}))
    found = budget(store, "claude", repository)
    assert find(found, notes.name).reason == "Auto memory is off."
    assert find(found, "app/CLAUDE.md").reason == "It is excluded in settings.json."


def test_a_linked_work_tree_has_the_notes_of_the_repository(store: Store, home: Path, repository: Path) -> None:
    tree = repository.with_name("tree")
    write(tree / ".git", f"gitdir: {repository}/.git/worktrees/tree\n")
    write(repository / ".git/worktrees/tree/HEAD")
    for folder, text in ((repository, "- main\n"), (tree, "- tree\n")):
        write(home / ".claude/projects" / re.sub("[^A-Za-z0-9]", "-", str(folder)) / "memory/MEMORY.md", text)
    main, own = budget(store, "claude", tree).files
    assert (main.path.endswith("-app/memory/MEMORY.md"), main.when) == (True, "start")
    assert (own.when, own.reason) == ("not loaded", f"Only the notes for {repository} are loaded.")


def test_only_whole_lines_of_notes_are_loaded(store: Store, home: Path, repository: Path) -> None:
    notes = home / ".claude/projects" / re.sub("[^A-Za-z0-9]", "-", str(repository)) / "memory/MEMORY.md"
    write(notes, ("- " + "x" * 998 + "\n") * 60)
    assert find(budget(store, "claude", repository), "MEMORY.md").bytes == 24 * 1_001


def test_the_private_notes_of_gemini_are_those_of_the_project(store: Store, home: Path, repository: Path) -> None:
    write(home / ".gemini/projects.json", json.dumps({"projects": {str(repository): "app"}}))
    write(home / ".gemini/tmp/app/memory/MEMORY.md")
    assert names(budget(store, "gemini", repository), home) == [(".gemini/tmp/app/memory/MEMORY.md", "start")]


@pytest.mark.parametrize(
    ("agent", "files"),
    [
        ("gemini", [".gemini/GEMINI.md", "code/app/GEMINI.md", "code/app/web/GEMINI.md"]),
        ("qwen", [".qwen/QWEN.md", "code/app/QWEN.md", "code/app/AGENTS.md", "code/app/.qwen/QWEN.local.md"]),
        (
            "copilot",
            [
                ".copilot/copilot-instructions.md",
                ".copilot/instructions/mine.instructions.md",
                "code/app/.github/copilot-instructions.md",
                "code/app/AGENTS.md",
                "code/app/.claude/CLAUDE.md",
                "code/app/GEMINI.md",
                "code/app/.github/instructions/py.instructions.md",
                "code/app/web/AGENTS.md",
            ],
        ),
        (
            "opencode",
            ["code/app/AGENTS.md", ".config/opencode/AGENTS.md", "code/app/docs/style.md", "code/app/web/CLAUDE.md"],
        ),
        (
            "goose",
            [".config/goose/.goosehints", "code/app/AGENTS.md", "code/app/.goosehints", "code/app/web/.goosehints"],
        ),
        ("pi", [".pi/agent/AGENTS.override.md", "code/app/AGENTS.MD"]),
    ],
)
def test_the_other_agents_load_their_files_in_order(
    store: Store, home: Path, repository: Path, agent: str, files: list[str]
) -> None:
    for name in files:
        write(home / name)
    write(repository / "opencode.json", '{"instructions": ["docs/*.md", "https://example.org/rules.md"]}')
    assert [name for name, _ in names(budget(store, agent, repository), home)] == files


def test_gemini_takes_the_names_of_its_settings(store: Store, home: Path, repository: Path) -> None:
    write(home / ".gemini/settings.json", '{"context": {"fileName": ["AGENTS.md", "CONTEXT.md"]}}')
    write(repository / "CONTEXT.md")
    write(repository / "GEMINI.md")
    assert names(budget(store, "gemini", repository), home) == [("code/app/CONTEXT.md", "start")]


def test_broken_settings_are_no_settings(store: Store, home: Path, repository: Path) -> None:
    write(home / ".codex/config.toml", "project_doc_max_bytes = [")
    write(home / ".gemini/settings.json", "[" * 10_000)
    write(repository / "AGENTS.md")
    write(repository / "GEMINI.md")
    assert len(budget(store, "codex", repository).files) == 1
    assert len(budget(store, "gemini", repository).files) == 1


def test_duplicates_and_contradictions_of_one_agent_are_found(store: Store, home: Path, repository: Path) -> None:
    write(home / ".claude/CLAUDE.md", "- Run the **linter** first.\n- Database: SQLite\n")
    write(repository / "CLAUDE.md", "- run the linter first\n- Database: PostgreSQL 16\n```\nmake all of it\n```\n")
    write(repository / "AGENTS.md", "- Run the linter first\n")
    write(home / ".claude/rules/a.md", "```\nmake all of it\n```\n- database: sqlite.\n")
    found = store.memory_files.budget(repository)
    (duplicate,) = [found for found in found.duplicates if "linter" in found.text]
    assert duplicate.agents == ("claude", "copilot", "opencode")
    assert {Path(place.path).name for place in duplicate.places} == {"CLAUDE.md", "AGENTS.md"}
    assert not any("make" in duplicate.text for duplicate in found.duplicates)
    (conflict,) = found.conflicts
    assert (conflict.key, conflict.agents) == ("database", ("claude",))
    assert [place.text for place in conflict.places] == [
        "Database: SQLite",
        "database: sqlite.",
        "Database: PostgreSQL 16",
    ]


def test_all_folders_with_sessions_are_listed_with_every_agent(store: Store, home: Path, repository: Path) -> None:
    write(home / ".claude/CLAUDE.md", "- for me\n")
    write(repository / "AGENTS.md", "- for all\n")
    assert [Path(listed.file.path).name for listed in store.memory_files.list_files()] == ["CLAUDE.md"]
    store.create_session("1", cwd=str(repository / "web"))
    store.create_session("2", cwd=str(repository / "gone"))
    listed = {Path(listed.file.path).name: listed for listed in store.memory_files.list_files()}
    assert set(listed) == {"CLAUDE.md", "AGENTS.md"}
    assert listed["AGENTS.md"].agents == ("claude", "codex", "qwen", "copilot", "opencode", "goose", "pi")
    assert (listed["AGENTS.md"].scope, listed["AGENTS.md"].folder) == ("folder", str(repository))
    assert (listed["CLAUDE.md"].scope, listed["CLAUDE.md"].agents) == ("machine", ("claude", "opencode"))
    assert len(AGENTS) == 8


def test_a_folder_in_a_circle_of_links_is_looked_at_once(store: Store, repository: Path) -> None:
    (repository / "loop").symlink_to(repository)
    write(repository / "GEMINI.md")
    assert len(budget(store, "gemini", repository).files) == 1


def test_tokens_are_estimated_for_all_scripts() -> None:
    assert estimate_tokens("") == 0
    assert estimate_tokens("four") == 1
    assert estimate_tokens("上传失败") == 4
