"""The foreign stores that can be opened. Adding one is a module, a sample, and a line in this list."""

from __future__ import annotations

from store.sources import (
    adk,
    chatgpt,
    claude_ai,
    claude_code,
    codex,
    copilot,
    crush,
    gemini,
    goose,
    kiso,
    llm,
    opencode,
    pi,
    pingu,
    qwen,
    rubichan,
    wuhu,
)
from store.sources.shape import Source

ALL: tuple[Source, ...] = (
    wuhu,
    adk,
    pingu,
    rubichan,
    kiso,
    claude_code,
    codex,
    pi,
    crush,
    goose,
    gemini,
    llm,
    qwen,
    copilot,
    chatgpt,
    claude_ai,
    opencode,
)


def by_name(name: str) -> Source | None:
    return next((source for source in ALL if name == source.NAME), None)
