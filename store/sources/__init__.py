"""This package reads the stores of other programs. The table below lists every kind that it knows.

To add one, write a class (docs/adding-a-source.md) and add its line to the table. A class is imported when it is
first used, which keeps the start fast.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple, cast

if TYPE_CHECKING:
    from store.sources.contract import Source


class Badge(NamedTuple):
    """Distinguishes agents in a list by two letters and a colour of the theme."""

    letters: str
    style: str


class SourceInfo(NamedTuple):
    """Describes a source without importing it."""

    name: str
    "Is stored with every session and used in queries, so it never changes."
    label: str
    "The name that people use."
    badge: Badge
    implementation: str
    "The class, as `module:Class`, with the module relative to this package."
    has_home: bool = True
    "Is false for a source that only reads what a person names, so that other syncs need not load it."


_TABLE = (
    SourceInfo("wuhu", "Wuhu", Badge("wu", "$text-success"), "wuhu.source:Wuhu"),
    SourceInfo("adk", "google-adk", Badge("ad", "$text-primary"), "adk.source:Adk"),
    SourceInfo("pingu", "Pingu", Badge("pg", "$text-primary"), "pingu.source:Pingu"),
    SourceInfo("rubichan", "Rubichan", Badge("ru", "$text-error"), "rubichan.source:Rubichan"),
    SourceInfo("kiso", "Kiso", Badge("ki", "$text-accent"), "kiso.source:Kiso"),
    SourceInfo("claude", "Claude Code", Badge("cc", "$text-warning"), "claude_code.source:ClaudeCode"),
    SourceInfo("codex", "Codex", Badge("cx", "$text-success"), "codex.source:Codex"),
    SourceInfo("pi", "pi", Badge("pi", "$text-success"), "pi.source:Pi"),
    SourceInfo("crush", "Crush", Badge("cr", "$text-error"), "crush.source:Crush"),
    SourceInfo("goose", "Goose", Badge("go", "$text-secondary"), "goose.source:Goose"),
    SourceInfo("gemini", "Gemini CLI", Badge("gm", "$text-primary"), "gemini.source:Gemini"),
    SourceInfo("llm", "llm", Badge("lm", "$text-secondary"), "llm.source:Llm"),
    SourceInfo("qwen", "Qwen Code", Badge("qw", "$text-accent"), "qwen.source:Qwen"),
    SourceInfo("copilot", "Copilot CLI", Badge("cp", "$text-primary"), "copilot.source:Copilot"),
    SourceInfo("chatgpt", "ChatGPT", Badge("gp", "$text-success"), "chatgpt.source:ChatGPT", has_home=False),
    SourceInfo("claude-ai", "claude.ai", Badge("ca", "$text-warning"), "claude_ai.source:ClaudeAI", has_home=False),
    SourceInfo("opencode", "opencode", Badge("oc", "$text-accent"), "opencode.source:Opencode"),
    SourceInfo(
        "openai-agents",
        "OpenAI Agents SDK",
        Badge("oa", "$text-primary"),
        "openai_agents.source:OpenAIAgents",
        has_home=False,
    ),
    SourceInfo(
        "backscroll",
        "Backscroll export",
        Badge("bs", "$text-accent"),
        "backscroll.source:BackscrollExport",
        has_home=False,
    ),
    SourceInfo("atif", "ATIF", Badge("at", "$text-secondary"), "atif.source:Atif", has_home=False),
)

REGISTRY = {info.name: info for info in _TABLE}

SOURCE_NAMES = tuple(REGISTRY)

LARGEST_SOURCES = ("claude", "codex")
"""These sources usually have the most sessions and can be indexed quickly, so a sync starts with them."""


def source_label(name: str) -> str:
    """Return the name that people use for a source; an unknown source is shown as it is stored."""
    info = REGISTRY.get(name)
    return info.label if info else name


def load_source(name: str) -> Source | None:
    """Return the source with this name, importing its class if necessary; None when there is no such source."""
    return _load(info.implementation) if (info := REGISTRY.get(name)) else None


@cache
def _load(implementation: str) -> Source:
    module, _, class_name = implementation.partition(":")
    return cast("Source", getattr(import_module(f"store.sources.{module}"), class_name)())


def all_sources() -> tuple[Source, ...]:
    """Return every source. This imports all their classes, so only use it when each of them is needed."""
    return tuple(_load(info.implementation) for info in REGISTRY.values())
