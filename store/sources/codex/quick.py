"""Rollouts at first sight: what was said stands in the items that are messages, and each names itself at once."""

from __future__ import annotations

import re
from collections.abc import Container, Iterator, Mapping
from pathlib import Path

from store.model.entry import Json
from store.model.session import SessionFields
from store.sources.codex.entries import prompt_of
from store.sources.codex.files import Found, Named, Rollout, names, understood
from store.sources.contract import Skim
from store.sources.kit import sqlite
from store.sources.kit.jsonl import items, mapping, words
from store.sources.kit.line_scan import STRING, last_line_with, lines_with, pieces, text_in, told_in
from store.text.validate import column_text

_META, _CONTEXT, _MESSAGE = b'"type":"session_meta"', b'"type":"turn_context"', b'"payload":{"type":"message"'
_NEAR = 160
"""Bytes: the envelope comes before anything that is long."""

_ALONE = re.compile(
    rb'"payload":\{"type":"message","role":"assistant","content":\[\{"type":"output_text","text":(%s)\}\]' % STRING
)
"""An answer as nearly all are written."""


def skim(locator: str, known: Container[str]) -> Iterator[Skim]:
    path = Path(locator)
    found, named = Found(path, []), names(path) if path.is_dir() else {}
    newest = [written[-1] for written in found.threads.values()]
    for one in sorted(newest, key=lambda one: _touched(one.path), reverse=True):
        seen = _Sight(one) if one.thread not in known else None
        if seen and seen.is_told:
            yield seen.skim(named.get(one.thread, Named()))


def _touched(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


class _Sight:
    def __init__(self, one: Rollout) -> None:
        self._one = one
        self._prompts: list[str] = []
        self._said: list[str] = []
        self._meta: Mapping[str, Json] = {}
        self._context: Mapping[str, Json] = {}
        self._last = b""
        for piece in pieces(one.path):
            self._look(piece)

    def _look(self, piece: bytes) -> None:
        for line in lines_with(_MESSAGE, piece, _NEAR):
            self._last = line
            if alone := _ALONE.search(line):
                self._said.append(text_in(alone[1]))
            else:
                self._hear(*understood(told_in(line)))
        if context := last_line_with(_CONTEXT, piece, _NEAR):
            self._context = understood(told_in(context))[1]
        if not self._meta and (meta := next(lines_with(_META, piece, _NEAR), b"")):
            self._meta = understood(told_in(meta))[1]

    @property
    def is_told(self) -> bool:
        """What goes on from another rollout is told with that one's words, and so not at first sight."""
        return bool(self._prompts or self._said) and "history_base" not in self._meta

    def _hear(self, kind: str, payload: Mapping[str, Json]) -> None:
        if payload.get("role") == "assistant":
            self._said += (words(mapping(block).get("text")) for block in items(payload.get("content")))
        elif (text := prompt_of(kind, payload)) is not None:
            self._prompts.append(text)

    def skim(self, named: Named) -> Skim:
        fields: SessionFields = {
            "agent_title": column_text(named.title),
            "provider": column_text(words(self._meta.get("model_provider"))),
            "model": column_text(words(self._context.get("model"))),
            "cwd": column_text(words(self._context.get("cwd")) or words(self._meta.get("cwd"))),
        }
        fields |= sqlite.lifetime(words(self._meta.get("timestamp")), words(told_in(self._last).get("timestamp")))
        parent = words(self._meta.get("parent_thread_id")) or named.parent
        if parent:
            fields |= {"parent_id": column_text(parent), "relation": "delegate"}
        return Skim(self._one.thread, fields, self._prompts, self._said)
