"""The foreign stores that can be opened. Adding one is a module, a sample, a name in this list, and its home.

Each is loaded when it is asked for: whoever reads one of them need not wait for the others.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from store.sources.contract import Source

    ALL: tuple[Source, ...]

_MODULES = {"claude": "claude_code", "claude-ai": "claude_ai"}
"""Where a module is not called as its source is."""

SOURCE_NAMES = (
    "wuhu",
    "adk",
    "pingu",
    "rubichan",
    "kiso",
    "claude",
    "codex",
    "pi",
    "crush",
    "goose",
    "gemini",
    "llm",
    "qwen",
    "copilot",
    "chatgpt",
    "claude-ai",
    "opencode",
)

_PACKAGES = frozenset({"adk", "claude_code", "codex", "gemini", "kiso", "llm", "opencode", "wuhu"})

LARGEST_SOURCES = ("claude", "codex")
"""Have the most to tell as a rule, and tell it at first sight: looked at before the others are even loaded."""


def load_source(name: str) -> Source | None:
    if name not in SOURCE_NAMES:
        return None
    module = _MODULES.get(name, name)
    return cast(
        "Source", import_module(f"store.sources.{module}.source" if module in _PACKAGES else f"store.sources.{module}")
    )


def __getattr__(name: str) -> Any:
    if name != "ALL":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return tuple(map(load_source, SOURCE_NAMES))
